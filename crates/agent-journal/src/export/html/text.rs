//! Text on a page: escaped, with invisible characters shown, and rendered from Markdown with two
//! independent sanitizers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::highlight;

/// Escapes a text for HTML, and shows characters that would be invisible.
pub(super) fn escape_html(text: &str) -> String {
    let text = make_visible(text);
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    push_escaped(&mut escaped, &text);
    escaped
}

/// Appends a text, escaped for HTML.
pub(super) fn push_escaped(out: &mut String, text: &str) {
    let mut kept = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        out.push_str(&text[kept..at]);
        out.push_str(escape);
        kept = at + 1;
    }
    out.push_str(&text[kept..]);
}

/// Shows characters that change the text direction as code points, and removes control characters
/// and terminal sequences.
pub(crate) fn make_visible(text: &str) -> Cow<'_, str> {
    let is_turn = |one: char| matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_odd = |one: char| (one.is_control() && one != '\n' && one != '\t') || is_turn(one);
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(one) = characters.next() {
        match one {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                // The sequence ends at its first letter.
                while characters.next().is_some_and(|next| !('\u{40}'..='\u{7e}').contains(&next)) {
                }
            }
            _ if is_turn(one) => shown.push_str(&format!("⟦U+{:04X}⟧", u32::from(one))),
            _ if is_odd(one) => {}
            _ => shown.push(one),
        }
    }
    Cow::Owned(shown)
}

/// The maximum nesting of quotes, lists and emphases. The sanitizer needs time proportional to the
/// square of the depth: 50,000 nested quotes took it 43 seconds.
const MAX_NESTING: usize = 100;

/// Renders Markdown. HTML in it becomes text, pictures become links, and the result is sanitized
/// again by an independent library. A text that is nested too deep is shown as it was written.
pub(super) fn render_markdown(text: &str, breaks: Breaks) -> String {
    let text = make_visible(text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = String::with_capacity(text.len() * 5 / 4);
    let inner = Parser::new_ext(&text, options);
    let mut events = Tame { inner, code: None, breaks, depth: 0, deepest: 0 };
    html::push_html(&mut page, &mut events);
    if events.deepest > MAX_NESTING {
        return format!("<pre>{}</pre>\n", escape_html(&text));
    }
    CLEANER.clean(&page).to_string()
}

/// The meaning of a line end inside a paragraph.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    /// A space, as in Markdown.
    Soft,
    /// A new line, as a person typed it.
    Hard,
}

/// Markdown events, with everything removed or converted that is not plain Markdown.
struct Tame<'t, I: Iterator<Item = Event<'t>>> {
    inner: I,
    /// The language and the text of the code block being read.
    code: Option<(String, String)>,
    breaks: Breaks,
    /// The number of open tags.
    depth: usize,
    deepest: usize,
}

impl<'t, I: Iterator<Item = Event<'t>>> Iterator for Tame<'t, I> {
    type Item = Event<'t>;

    fn next(&mut self) -> Option<Event<'t>> {
        loop {
            let event = self.inner.next()?;
            match event {
                Event::Start(_) => self.depth += 1,
                Event::End(_) => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.deepest = self.deepest.max(self.depth);
            if let Some(event) = self.sanitize_event(event) {
                return Some(event);
            }
        }
    }
}

impl<'t, I: Iterator<Item = Event<'t>>> Tame<'t, I> {
    fn sanitize_event(&mut self, event: Event<'t>) -> Option<Event<'t>> {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => first_word(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
                None
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, text) = self.code.take().unwrap_or_default();
                Some(Event::Html(CowStr::from(highlight::highlighted_block(&text, &language))))
            }
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => {
                    code.push_str(&text);
                    None
                }
                None => Some(Event::Text(text)),
            },
            Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
            Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
            }
            Event::End(TagEnd::Image) => Some(Event::End(TagEnd::Link)),
            Event::TaskListMarker(is_done) => {
                Some(Event::Text(CowStr::from(if is_done { "☑ " } else { "☐ " })))
            }
            Event::SoftBreak if self.breaks == Breaks::Hard => Some(Event::HardBreak),
            other => Some(other),
        }
    }
}

fn first_word(info: &str) -> String {
    info.split([' ', ',', '{', '\t']).next().unwrap_or_default().to_ascii_lowercase()
}

/// The tags, attributes and addresses that are allowed on a page.
static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "span",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let mut attributes: HashMap<&str, HashSet<&str>> = HashMap::new();
    attributes.insert("a", ["href"].into());
    attributes.insert("ol", ["start"].into());
    attributes.insert("code", ["data-lang"].into());
    let mut classes: HashMap<&str, HashSet<&str>> = HashMap::new();
    classes.insert("span", highlight::CLASSES.iter().copied().collect());
    let mut builder = Builder::empty();
    builder
        .tags(tags.into())
        .tag_attributes(attributes)
        .allowed_classes(classes)
        .url_schemes(["http", "https", "mailto"].into())
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow"));
    builder
});

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(render_markdown(text, Breaks::Soft).trim_end(), expected, "{text}");
    }

    #[test]
    fn markdown_looks_as_it_was_meant() {
        check("**a** `b`", "<p><strong>a</strong> <code>b</code></p>");
        check(
            "[x](https://a.example/)",
            "<p><a href=\"https://a.example/\" rel=\"noopener noreferrer nofollow\">x</a></p>",
        );
        assert_eq!(render_markdown("a\nb", Breaks::Hard).trim_end(), "<p>a<br>\nb</p>");
    }

    #[test]
    fn a_list_of_tasks_says_what_is_done() {
        check("- [ ] todo\n- [x] done", "<ul>\n<li>☐ todo</li>\n<li>☑ done</li>\n</ul>");
    }

    #[test]
    fn html_in_a_text_is_text() {
        check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
        check("a <b onclick=x>", "<p>a &lt;b onclick=x&gt;</p>");
        check("[x](javascript:alert(1))", "<p><a rel=\"noopener noreferrer nofollow\">x</a></p>");
        check(
            "![x](https://a.example/p.png)",
            "<p><a href=\"https://a.example/p.png\" rel=\"noopener noreferrer nofollow\">x</a></p>",
        );
    }

    #[test]
    fn what_turns_text_around_is_shown() {
        assert_eq!(escape_html("a\u{202e}b\u{1b}[31mc\u{7}"), "a⟦U+202E⟧bc");
    }
}
