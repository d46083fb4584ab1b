//! Pages made of hostile transcripts, read the way a browser reads them: whatever a session
//! holds, there is one script and one style, and they are the program's own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use agent_journal::export::schema::{
    DocumentBlock, DocumentMessage, DocumentRole, DocumentSession, DocumentSource, SourceKind,
    UnifiedDocument,
};
use agent_journal::export::{
    AgentLook, AtOnce, DetailLevel, ExportOptions, SingleFileOutput, find_format, replay_document,
};
use agent_journal::model::{Json, Timestamp};
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

const STYLE: &str = include_str!("../src/export/html/style.css");
const SCRIPT: &str = include_str!("../src/export/html/script.js");

/// Pieces that have broken other pages.
const PIECES: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)//",
    "</style><script>x</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>1</script></svg>",
    "<iframe src=javascript:alert(1)>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "</title>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>1</script>)",
    "![x](javascript:alert(1))",
    "[x](vbscript:x)",
    "<javascript:alert(1)>",
    "[a]: javascript:x",
    "<!--",
    "-->",
    "--!>",
    "<![CDATA[",
    "]]>",
    "<?php",
    "</pre></code></details>",
    "</main></div>",
    "<textarea>",
    "</textarea>",
    "<plaintext>",
    "<noscript>",
    "<template>",
    "<math><mi>",
    "<table><tr>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0>",
    "<link rel=stylesheet href=x>",
    "<form action=//evil.example>",
    "<object data=x>",
    "<embed src=x>",
    "<style>*{}</style>",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)",
    "` onclick=`x",
    "\u{202e}",
    "\u{2066}",
    "\u{0}",
    "\u{1b}[31m",
    "&lt;script&gt;",
    "&#x3C;script&#x3E;",
    "&colon;",
    "java\tscript:x",
    "\u{feff}",
    "```html\n",
    "```\"onload=x\n",
    "~~~js onload=x\n",
    "\n\n",
    "> ",
    "# ",
    "- [ ] ",
    "| a | b |\n|-|-|\n",
    "$(x)",
    "{{constructor}}",
    "\\",
    "\u{2028}",
    "\u{fffe}",
    "<b",
    "<",
    ">",
    "\"",
    "'",
    "&",
    "/>",
    "=",
];

/// Numbers that look random and are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn text(&mut self) -> String {
        let count = 1 + self.below(6);
        (0..count).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    fn json(&mut self) -> Json {
        let names = ["command", "file_path", "old_string", "new_string", "content", "edits", "x"];
        let count = self.below(5);
        let mut fields: BTreeMap<String, String> =
            (0..count).map(|_| (names[self.below(names.len())].to_owned(), self.text())).collect();
        fields.insert(self.text(), self.text());
        if self.below(8) == 0 { Json::from_value(&self.text()) } else { Json::from_value(&fields) }
    }

    fn block(&mut self) -> DocumentBlock {
        match self.below(6) {
            0 | 1 => DocumentBlock::Text { text: self.text() },
            2 => DocumentBlock::Thinking { thinking: self.text() },
            3 => DocumentBlock::ToolUse {
                tool_id: self.text(),
                tool_name: self.text(),
                input: self.json(),
            },
            4 => DocumentBlock::ToolResult {
                tool_id: self.text(),
                tool_name: self.text(),
                output: self.text(),
                is_error: self.below(2) == 0,
            },
            _ => DocumentBlock::Image {
                media_type: Some(if self.below(2) == 0 { "image/png".into() } else { self.text() }),
                bytes: 1,
                location: Some(self.text()),
                hash: None,
                data: Some(if self.below(2) == 0 { "aGk=".into() } else { self.text() }),
            },
        }
    }

    fn document(&mut self) -> UnifiedDocument {
        let roles = [DocumentRole::User, DocumentRole::Assistant, DocumentRole::System];
        let message = |numbers: &mut Self, index: u64| DocumentMessage {
            index,
            uuid: Some(numbers.text()),
            parent_uuid: Some(numbers.text()),
            role: roles[numbers.below(3)],
            timestamp: Timestamp::from_millis(1_700_000_000_000),
            content: (0..=numbers.below(3)).map(|_| numbers.block()).collect(),
            metadata: None,
            extensions: BTreeMap::new(),
        };
        let notes = BTreeMap::from([
            ("title", self.text()),
            ("project", self.text()),
            ("branch", self.text()),
            ("agent_version", self.text()),
        ]);
        UnifiedDocument {
            schema_version: "1.1".into(),
            export_timestamp: Timestamp::default(),
            agent: self.text(),
            session: DocumentSession {
                id: self.text(),
                workspace: self.text(),
                workspace_encoded: self.text(),
                started_at: None,
                ended_at: None,
                source: DocumentSource { kind: SourceKind::Local, host: None, path: self.text() },
                is_agent_session: false,
                parent_session_id: None,
                agent_id: None,
                extensions: [("agent-journal".into(), Json::from_value(&notes))].into(),
            },
            messages: (1..=3).map(|index| message(self, index)).collect(),
            graph: None,
        }
    }
}

/// Everything a page may be made of.
const TAGS: &[&str] = &[
    "a",
    "article",
    "b",
    "blockquote",
    "body",
    "br",
    "button",
    "circle",
    "code",
    "dd",
    "del",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "em",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "img",
    "input",
    "kbd",
    "li",
    "main",
    "meta",
    "nav",
    "ol",
    "output",
    "p",
    "pre",
    "script",
    "section",
    "span",
    "strong",
    "style",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
];

/// Watches what a browser would see.
#[derive(Default)]
struct Watch {
    scripts: Cell<u32>,
    styles: Cell<u32>,
    metas: Cell<u32>,
    faults: RefCell<Vec<String>>,
}

impl Watch {
    fn tag(&self, tag: &Tag) {
        let name = &*tag.name;
        if !TAGS.contains(&name) {
            self.faults.borrow_mut().push(format!("<{name}>"));
        }
        for attribute in &tag.attrs {
            let (key, value) = (attribute.name.local.to_string(), attribute.value.to_string());
            let is_address = matches!(&*key, "href" | "src" | "action" | "data" | "formaction");
            let is_safe = ["https://", "http://", "mailto:", "#", "data:image/png;base64,"];
            let is_bad = key.starts_with("on")
                || key == "style"
                || key == "srcdoc"
                || is_address && !is_safe.iter().any(|start| value.starts_with(start));
            if is_bad {
                self.faults.borrow_mut().push(format!("<{name} {key}={value:?}>"));
            }
        }
        let counter = match name {
            "script" => &self.scripts,
            "style" => &self.styles,
            "meta" => &self.metas,
            _ => return,
        };
        counter.set(counter.get() + 1);
    }
}

impl TokenSink for Watch {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        use html5ever::tokenizer::states::RawKind;
        if let Token::TagToken(tag) = token
            && tag.kind == TagKind::StartTag
        {
            self.tag(&tag);
            let kind = match &*tag.name {
                "script" => RawKind::ScriptData,
                "style" => RawKind::Rawtext,
                "title" => RawKind::Rcdata,
                _ => return TokenSinkResult::Continue,
            };
            return TokenSinkResult::RawData(kind);
        }
        TokenSinkResult::Continue
    }
}

fn faults(page: &str) -> Vec<String> {
    let queue = BufferQueue::default();
    queue.push_back(page.into());
    let tokenizer = Tokenizer::new(Watch::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    let watch = &tokenizer.sink;
    let mut faults = watch.faults.take();
    let counts = (watch.scripts.get(), watch.styles.get(), watch.metas.get());
    if counts != (1, 1, 5) {
        faults.push(format!("scripts, styles and metas: {counts:?}"));
    }
    faults
}

#[test]
fn ten_thousand_hostile_transcripts_run_nothing() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let html = find_format("html").unwrap();
    let mut chunks = 0;
    for round in 0..10_000 {
        let document = numbers.document();
        let agent = AgentLook { name: numbers.text(), color: (1, 2, 3) };
        let at_once = if round % 2 == 0 { AtOnce(0) } else { AtOnce::default() };
        let options =
            ExportOptions { detail: DetailLevel::Everything, at_once, ..ExportOptions::default() };
        let mut bytes = Vec::new();
        replay_document(&document, agent, html, &options, &mut SingleFileOutput(&mut bytes))
            .unwrap();
        let page = String::from_utf8(bytes).unwrap();
        // The program's own style and script are the same every time: they need no second look.
        assert!(page.contains(STYLE) && page.contains(SCRIPT));
        let page = page.replacen(STYLE, "", 1).replacen(SCRIPT, "", 1);
        let (page, found) = unpacked(&page);
        chunks += found;
        let faults = faults(&page);
        assert!(faults.is_empty(), "round {round}: {faults:#?}\n{page}");
        assert!(!page.contains(['\u{202e}', '\u{2066}', '\u{0}', '\u{1b}']), "round {round}");
    }
    assert!(chunks > 2_000, "{chunks}");
}

/// Puts the markup that waits in chunks where the page's script would put it. Nothing in a chunk
/// can end it: there is no `<` in it.
fn unpacked(page: &str) -> (String, usize) {
    const OPEN: &str = "<script type=\"application/json\">";
    const NOTE: &str = "<noscript><p class=\"label\">";
    let (mut whole, mut rest, mut found) = (String::new(), page, 0);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let end = after.find('<').unwrap();
        assert!(after[end..].starts_with("</script></div>\n"), "{}", &after[end..]);
        whole.push_str(before);
        whole.push_str(&serde_json::from_str::<String>(&after[..end]).unwrap());
        (rest, found) = (&after[end + "</script>".len()..], found + 1);
    }
    whole.push_str(rest);
    // The note to readers without script stands before the first chunk, once.
    if found > 0 {
        assert_eq!(whole.matches(NOTE).count(), 1);
        whole = whole.replacen("<noscript>", "", 1).replacen("</noscript>", "", 1);
    }
    (whole, found)
}

#[test]
fn the_watch_sees_what_it_watches_for() {
    let page = "<html><style></style><script></script><meta><meta><meta><meta><meta>";
    assert!(faults(page).is_empty());
    for bad in [
        "<script>",
        "<b onclick=x>",
        "<p style=x>",
        "<a href=javascript:x>",
        "<iframe>",
        "<meta>",
        "<img src=//x>",
    ] {
        assert!(!faults(&format!("{page}{bad}")).is_empty(), "{bad}");
    }
}
