//! A call of a tool on the page: one line, and folded behind it what went in and what came out.

use std::io::{self, Write};

use super::highlight;
use super::text::{escape, push_escaped, visible};
use crate::export::Detail;
use crate::export::describe::{self, Part};
use crate::model::Json;

/// Writes a call with its result, if there is one; `id` is an attribute or nothing.
pub(super) fn call(
    out: &mut dyn Write,
    (id, name, input): (&str, &str, &Json),
    result: Option<(&str, bool)>,
    detail: Detail,
) -> io::Result<()> {
    let call = describe::call(input);
    let failed = result.is_some_and(|(_, is_error)| is_error);
    let summary = summary(name, &call, failed);
    if detail < Detail::Tools {
        return writeln!(out, "<div class=\"line\">{summary}</div>");
    }
    let class = if failed { "tool failed" } else { "tool" };
    write!(out, "<details class=\"{class}\"{id}><summary>{summary}</summary><div class=\"body\">")?;
    for part in &call.parts {
        self::part(out, part)?;
    }
    match result {
        Some((output, _)) => self::output(out, output, failed)?,
        None => write!(out, "<p class=\"label\">No result was recorded</p>")?,
    }
    writeln!(out, "</div></details>")
}

/// Writes a result whose call stands elsewhere.
pub(super) fn result(
    out: &mut dyn Write,
    name: &str,
    output: &str,
    failed: bool,
) -> io::Result<()> {
    let class = if failed { "tool failed" } else { "tool" };
    let name = if name.is_empty() { "tool" } else { name };
    let gist = escape(&describe::one_line(output));
    write!(
        out,
        "<details class=\"{class}\"><summary><b>Result of {}</b><span class=\"gist\">{gist}</span></summary><div class=\"body\">",
        escape(name),
    )?;
    self::output(out, output, failed)?;
    writeln!(out, "</div></details>")
}

fn summary(name: &str, call: &describe::Call, failed: bool) -> String {
    let mut more = String::new();
    if let Some((added, removed)) = call.lines {
        more.push_str(&format!(
            "<span class=\"plus\">+{added}</span> <span class=\"minus\">−{removed}</span>"
        ));
    }
    if failed {
        more.push_str(" <span class=\"bad\">failed</span>");
    }
    let more = match &*more {
        "" => String::new(),
        more => format!("<span class=\"more\">{more}</span>"),
    };
    format!("<b>{}</b><span class=\"gist\">{}</span>{more}", escape(name), escape(&call.gist))
}

fn part(out: &mut dyn Write, part: &Part) -> io::Result<()> {
    match part {
        Part::Command(text) => write!(out, "{}", wrapped(text, "sh")),
        Part::Diff(text) => write!(out, "{}", code(text, "diff")),
        Part::File(language, text) => write!(out, "{}", code(text, language)),
        Part::Text(name, text) => {
            write!(out, "<p class=\"label\">{}</p>{}", escape(name), wrapped(text, ""))
        }
        Part::Raw(text) => write!(out, "{}", wrapped(text, "")),
        Part::Fields(fields) => {
            write!(out, "<dl class=\"fields\">")?;
            for (name, value) in fields {
                write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))?;
            }
            write!(out, "</dl>")
        }
    }
}

fn output(out: &mut dyn Write, text: &str, failed: bool) -> io::Result<()> {
    let label = if failed { "Failed" } else { "Result" };
    if text.trim().is_empty() {
        return write!(out, "<p class=\"label\">{label}, without output</p>");
    }
    let is_diff = text.starts_with("diff --git ");
    let body = if is_diff { code(text, "diff") } else { wrapped(text, "") };
    write!(out, "<p class=\"label\">{label}</p>{body}")
}

fn code(text: &str, language: &str) -> String {
    let mut page = String::from("<pre>");
    highlight::code(&mut page, &visible(text), language);
    page.push_str("</pre>");
    page
}

fn wrapped(text: &str, language: &str) -> String {
    let mut page = String::from("<pre class=\"wrap\">");
    match language {
        "" => push_escaped(&mut page, &visible(text)),
        _ => highlight::code(&mut page, &visible(text), language),
    }
    page.push_str("</pre>");
    page
}
