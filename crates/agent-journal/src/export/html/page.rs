//! The parts of a page around the conversation: head, table of contents, the one style and the one
//! script, and the policy that allows no others.

use std::io::{self, Write};

use super::text::escape_html;
use crate::export::{AgentLook, Listed, SessionFrame, Theme};
use crate::model::Timestamp;
use crate::present::{amount, duration, one_line};

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const SCRIPT: &str = include_str!("script.js");

/// The SHA-256 hashes of the style and of the script in Base64, one per line. A test verifies them.
pub(super) const HASHES: &str = include_str!("hashes.txt");

/// Media types that can only contain a picture.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const KEYS: [(&str, &str); 8] = [
    ("/", "search this session"),
    ("n N", "next and previous match"),
    ("j k", "next and previous prompt"),
    ("e", "expand or collapse everything"),
    ("t", "switch theme: dark, light, system"),
    ("Enter", "next match, while searching"),
    ("Esc", "close the search"),
    ("?", "show this list of keys"),
];

/// Writes everything before the first message.
pub(super) fn write_page_head(
    out: &mut dyn Write,
    frame: &SessionFrame<'_>,
    theme: Theme,
) -> io::Result<()> {
    let session = &frame.head.session;
    let title = one_line(&session.title_or_id());
    write_document_top(out, &title, theme)?;
    write_toolbar(out)?;
    let badge = agent_badge(&frame.agent);
    write!(
        out,
        "<div class=\"page\">\n<main id=\"main\">\n<header class=\"head\"><p class=\"agent\">{badge}</p><h1>{}</h1><dl class=\"facts\">",
        escape_html(&title),
    )?;
    for (name, value) in session_facts(frame) {
        write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(out, "</dl></header>")
}

/// Writes everything after the last message.
pub(super) fn write_page_end(out: &mut dyn Write, contents: &[(u64, String)]) -> io::Result<()> {
    writeln!(out, "<footer>Made with agent-journal</footer>\n</main>")?;
    writeln!(
        out,
        "<nav class=\"toc\" aria-label=\"Prompts\"><details open><summary>Prompts</summary><ol>"
    )?;
    for (index, text) in contents {
        let text = if text.is_empty() { "(no text)".to_owned() } else { escape_html(text) };
        writeln!(out, "<li><a href=\"#m{index}\"><b>{index}</b><span>{text}</span></a></li>")?;
    }
    writeln!(out, "</ol></details></nav>\n</div>")?;
    write!(out, "<dialog id=\"help\" aria-label=\"Keys\"><dl>")?;
    for (key, does) in KEYS {
        let keys: Vec<String> = key.split(' ').map(|key| format!("<kbd>{key}</kbd>")).collect();
        write!(out, "<dt>{}</dt><dd>{does}</dd>", keys.join(" "))?;
    }
    writeln!(out, "</dl><button type=\"button\">Close</button></dialog>")?;
    writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>")
}

/// Renders the page that links to the pages of several sessions.
pub(super) fn render_index_page(sessions: &[Listed], theme: Theme) -> String {
    let mut page = Vec::new();
    let written = write_index(&mut page, sessions, theme);
    written.expect("writing into memory cannot fail");
    String::from_utf8(page).expect("a page is made of strings")
}

fn write_index(out: &mut Vec<u8>, sessions: &[Listed], theme: Theme) -> io::Result<()> {
    write_document_top(out, "Sessions", theme)?;
    writeln!(
        out,
        "<div class=\"bar\"><span class=\"space\"></span><button type=\"button\" id=\"theme\" aria-label=\"Theme\">Theme</button></div>\n<div class=\"page single\">\n<main id=\"main\">\n<header class=\"head\"><h1>Sessions</h1><dl class=\"facts\"><div><dt>exported</dt><dd>{}</dd></div></dl></header>",
        sessions.len(),
    )?;
    writeln!(
        out,
        "<table class=\"list\"><thead><tr><th>Title</th><th>Agent</th><th>Project</th><th>Started</th><th class=\"number\">Prompts</th></tr></thead><tbody>"
    )?;
    for listed in sessions {
        let session = &listed.head.session;
        let notes = session.parse_notes();
        writeln!(
            out,
            "<tr><td><a href=\"{}\">{}</a></td><td class=\"agent\">{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>",
            escape_html(&listed.file),
            escape_html(&one_line(&session.title_or_id())),
            agent_badge(&listed.agent),
            escape_html(notes.project.as_deref().unwrap_or("–")),
            session.started_at.map_or("–".to_owned(), time_element),
            notes.counts.user_prompts,
        )?;
    }
    writeln!(out, "</tbody></table>\n</main>\n</div>\n<script>{SCRIPT}</script>\n</body>\n</html>")
}

fn write_document_top(out: &mut dyn Write, title: &str, theme: Theme) -> io::Result<()> {
    let theme = match theme {
        Theme::Dark => "dark",
        Theme::Light => "light",
        Theme::Auto => "auto",
    };
    let mut hashes = HASHES.lines();
    let (style, script) = (hashes.next().unwrap_or_default(), hashes.next().unwrap_or_default());
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\" data-theme=\"{theme}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"agent-journal\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to content</a>",
        escape_html(title),
    )
}

fn write_toolbar(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"bar\" role=\"search\"><input type=\"search\" id=\"find\" placeholder=\"Search this session\" aria-label=\"Search this session\" autocomplete=\"off\" spellcheck=\"false\"><output id=\"found\"></output><span class=\"space\"></span><button type=\"button\" id=\"fold\">Expand all</button><button type=\"button\" id=\"theme\" aria-label=\"Theme\">Theme</button><button type=\"button\" id=\"keys\" class=\"wide\" aria-label=\"Keys\">Keys</button></div>"
    )
}

/// Returns a dot in the agent's colour, and its name. The colour is an SVG attribute, because the
/// policy forbids inline styles.
fn agent_badge(agent: &AgentLook) -> String {
    let (red, green, blue) = agent.color;
    format!(
        "<svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><circle cx=\"5\" cy=\"5\" r=\"5\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/></svg>{}",
        escape_html(&agent.name)
    )
}

fn session_facts(frame: &SessionFrame<'_>) -> Vec<(&'static str, String)> {
    let session = &frame.head.session;
    let notes = session.parse_notes();
    let counts = &notes.counts;
    let mut facts = Vec::new();
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("project", notes.project.as_deref().map(escape_html));
    add("branch", notes.branch.as_deref().map(escape_html));
    add("started", session.started_at.map(time_element));
    add("active", (notes.active_s > 0).then(|| duration(notes.active_s)));
    add("prompts", Some(counts.user_prompts.to_string()));
    let failed = match counts.tool_errors {
        0 => String::new(),
        errors => format!(" ({errors} failed)"),
    };
    add("tools", Some(format!("{}{failed}", counts.tool_calls)));
    add(
        "tokens",
        notes.tokens.map(|tokens| {
            format!(
                "{} in, {} out",
                amount(tokens.total_tokens() - tokens.output),
                amount(tokens.output)
            )
        }),
    );
    add("model", (!notes.models.is_empty()).then(|| escape_html(&notes.models.join(", "))));
    add("version", notes.agent_version.as_deref().map(escape_html));
    add("session", Some(format!("<code>{}</code>", escape_html(&session.id))));
    facts
}

/// Returns whether a page shows pictures of this media type.
pub(super) fn is_picture(media_type: &str) -> bool {
    PICTURES.contains(&media_type) || media_type == "image/jpg"
}

/// Writes an embedded picture, or its type and size if it cannot be shown.
pub(super) fn write_image(
    out: &mut dyn Write,
    media_type: Option<&str>,
    data: Option<&str>,
    bytes: u64,
) -> io::Result<()> {
    let kind = media_type.unwrap_or("image");
    let is_base64 = |one: u8| one.is_ascii_alphanumeric() || b"+/=".contains(&one);
    let alt = format!("{}, {bytes} bytes", escape_html(kind));
    match data.filter(|data| PICTURES.contains(&kind) && data.bytes().all(is_base64)) {
        Some(data) => {
            writeln!(out, "<img src=\"data:{kind};base64,{data}\" alt=\"{alt}\" loading=\"lazy\">")
        }
        None => writeln!(out, "<p class=\"label\">[{alt}]</p>"),
    }
}

/// Returns a time element. The script shows it in the reader's time zone.
pub(super) fn time_element(at: Timestamp) -> String {
    let text = at.to_string();
    format!("<time datetime=\"{text}\">{} {}</time>", &text[..10], &text[11..16])
}
