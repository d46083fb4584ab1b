//! What stands around the conversation: head, table of contents, the one style and the one
//! script, and the policy that allows nothing else.

use std::io::{self, Write};

use super::text::escape;
use crate::export::describe::one_line;
use crate::export::{AgentLook, Frame, Listed, Theme};
use crate::model::Timestamp;

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const SCRIPT: &str = include_str!("script.js");

/// SHA-256 of the style and of the script, in Base64, a line each; a test keeps them true.
pub(super) const HASHES: &str = include_str!("hashes.txt");

/// Pictures that cannot be anything but pictures.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const KEYS: [(&str, &str); 8] = [
    ("/", "search this session"),
    ("n N", "next and previous match"),
    ("j k", "next and previous prompt"),
    ("e", "fold or unfold everything"),
    ("t", "dark, light, as the system has it"),
    ("Enter", "next match, while searching"),
    ("Esc", "leave the search"),
    ("?", "these keys"),
];

/// Writes everything before the first message.
pub(super) fn begin(out: &mut dyn Write, frame: &Frame<'_>, theme: Theme) -> io::Result<()> {
    let session = &frame.head.session;
    let title = one_line(&session.title());
    top(out, &title, theme)?;
    bar(out)?;
    let badge = badge(&frame.agent);
    write!(
        out,
        "<div class=\"page\">\n<main id=\"main\">\n<header class=\"head\"><p class=\"agent\">{badge}</p><h1>{}</h1><dl class=\"facts\">",
        escape(&title),
    )?;
    for (name, value) in facts(frame) {
        write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(out, "</dl></header>")
}

/// Writes everything after the last message.
pub(super) fn end(out: &mut dyn Write, contents: &[(u64, String)]) -> io::Result<()> {
    writeln!(out, "<footer>Made with agent-journal</footer>\n</main>")?;
    writeln!(
        out,
        "<nav class=\"toc\" aria-label=\"Prompts\"><details open><summary>Prompts</summary><ol>"
    )?;
    for (index, text) in contents {
        let text = if text.is_empty() { "(no text)".to_owned() } else { escape(text) };
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

/// The page that leads to many.
pub(super) fn index(sessions: &[Listed], theme: Theme) -> String {
    let mut page = Vec::new();
    let written = write_index(&mut page, sessions, theme);
    written.expect("writing into memory cannot fail");
    String::from_utf8(page).expect("a page is made of strings")
}

fn write_index(out: &mut Vec<u8>, sessions: &[Listed], theme: Theme) -> io::Result<()> {
    top(out, "Sessions", theme)?;
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
        let notes = session.notes();
        writeln!(
            out,
            "<tr><td><a href=\"{}\">{}</a></td><td class=\"agent\">{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>",
            escape(&listed.file),
            escape(&one_line(&session.title())),
            badge(&listed.agent),
            escape(notes.project.as_deref().unwrap_or("–")),
            session.started_at.map_or("–".to_owned(), time),
            notes.counts.user_prompts,
        )?;
    }
    writeln!(out, "</tbody></table>\n</main>\n</div>\n<script>{SCRIPT}</script>\n</body>\n</html>")
}

fn top(out: &mut dyn Write, title: &str, theme: Theme) -> io::Result<()> {
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
         <a class=\"skip\" href=\"#main\">Skip to the content</a>",
        escape(title),
    )
}

fn bar(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"bar\" role=\"search\"><input type=\"search\" id=\"find\" placeholder=\"Search this session\" aria-label=\"Search this session\" autocomplete=\"off\" spellcheck=\"false\"><output id=\"found\"></output><span class=\"space\"></span><button type=\"button\" id=\"fold\">Unfold all</button><button type=\"button\" id=\"theme\" aria-label=\"Theme\">Theme</button><button type=\"button\" id=\"keys\" class=\"wide\" aria-label=\"Keys\">Keys</button></div>"
    )
}

/// A dot in the agent's colour; an attribute of SVG, because styles in place are forbidden.
fn badge(agent: &AgentLook) -> String {
    let (red, green, blue) = agent.color;
    format!(
        "<svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><circle cx=\"5\" cy=\"5\" r=\"5\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/></svg>{}",
        escape(&agent.name)
    )
}

fn facts(frame: &Frame<'_>) -> Vec<(&'static str, String)> {
    let session = &frame.head.session;
    let notes = session.notes();
    let counts = &notes.counts;
    let mut facts = Vec::new();
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("project", notes.project.as_deref().map(escape));
    add("branch", notes.branch.as_deref().map(escape));
    add("started", session.started_at.map(time));
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
            format!("{} in, {} out", amount(tokens.total() - tokens.output), amount(tokens.output))
        }),
    );
    add("model", (!notes.models.is_empty()).then(|| escape(&notes.models.join(", "))));
    add("version", notes.agent_version.as_deref().map(escape));
    add("session", Some(format!("<code>{}</code>", escape(&session.id))));
    facts
}

/// Whether something of this type is a picture that a page shows.
pub(super) fn is_picture(media_type: &str) -> bool {
    PICTURES.contains(&media_type) || media_type == "image/jpg"
}

/// Writes a picture, or what is known of one.
pub(super) fn image(
    out: &mut dyn Write,
    media_type: Option<&str>,
    data: Option<&str>,
    bytes: u64,
) -> io::Result<()> {
    let kind = media_type.unwrap_or("image");
    let is_base64 = |one: u8| one.is_ascii_alphanumeric() || b"+/=".contains(&one);
    let alt = format!("{}, {bytes} bytes", escape(kind));
    match data.filter(|data| PICTURES.contains(&kind) && data.bytes().all(is_base64)) {
        Some(data) => {
            writeln!(out, "<img src=\"data:{kind};base64,{data}\" alt=\"{alt}\" loading=\"lazy\">")
        }
        None => writeln!(out, "<p class=\"label\">[{alt}]</p>"),
    }
}

/// An instant; the script shows it on the reader's clock.
pub(super) fn time(at: Timestamp) -> String {
    let text = at.to_string();
    format!("<time datetime=\"{text}\">{} {}</time>", &text[..10], &text[11..16])
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn amount(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}
