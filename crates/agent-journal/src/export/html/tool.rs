//! Tool calls on a page: a summary line, with the input and the output folded behind it.

use std::io::{self, Write};

use super::highlight;
use super::text::{escape_html, make_visible, push_escaped};
use crate::export::DetailLevel;
use crate::model::Json;
use crate::present::{
    CallDescription, CallPart, ChangedLines, NamedValue, describe_call, one_line,
};

/// A tool call on a page.
pub(super) struct ShownCall<'c> {
    /// An `id` attribute, or nothing.
    pub(super) id: &'c str,
    pub(super) name: &'c str,
    pub(super) input: &'c Json,
    pub(super) result: Option<ShownResult<'c>>,
}

/// The result of a tool call.
#[derive(Clone, Copy)]
pub(super) struct ShownResult<'c> {
    pub(super) output: &'c str,
    pub(super) is_error: bool,
}

/// Writes a call with its result, if there is one.
pub(super) fn write_call(
    out: &mut dyn Write,
    shown: &ShownCall<'_>,
    detail: DetailLevel,
) -> io::Result<()> {
    let call = describe_call(shown.input);
    let failed = shown.result.is_some_and(|result| result.is_error);
    let summary = call_summary(shown.name, &call, failed);
    if detail < DetailLevel::Tools {
        return writeln!(out, "<div class=\"line\">{summary}</div>");
    }
    let class = if failed { "tool failed" } else { "tool" };
    let id = shown.id;
    write!(out, "<details class=\"{class}\"{id}><summary>{summary}</summary><div class=\"body\">")?;
    for part in &call.parts {
        self::write_call_part(out, part)?;
    }
    match shown.result {
        Some(result) => self::write_tool_output(out, result.output, failed)?,
        None => write!(out, "<p class=\"label\">No result was recorded</p>")?,
    }
    writeln!(out, "</div></details>")
}

/// Writes a result that is not shown with its call.
pub(super) fn write_lone_result(
    out: &mut dyn Write,
    name: &str,
    output: &str,
    failed: bool,
) -> io::Result<()> {
    let class = if failed { "tool failed" } else { "tool" };
    let name = if name.is_empty() { "tool" } else { name };
    let gist = escape_html(&one_line(output));
    write!(
        out,
        "<details class=\"{class}\"><summary><b>Result of {}</b><span class=\"gist\">{gist}</span></summary><div class=\"body\">",
        escape_html(name),
    )?;
    self::write_tool_output(out, output, failed)?;
    writeln!(out, "</div></details>")
}

fn call_summary(name: &str, call: &CallDescription, failed: bool) -> String {
    let mut more = String::new();
    if let Some(ChangedLines { added, removed }) = call.lines {
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
    format!(
        "<b>{}</b><span class=\"gist\">{}</span>{more}",
        escape_html(name),
        escape_html(&call.subject)
    )
}

fn write_call_part(out: &mut dyn Write, part: &CallPart) -> io::Result<()> {
    match part {
        CallPart::Command(text) => write!(out, "{}", wrapped_code_block(text, "sh")),
        CallPart::Diff(text) => write!(out, "{}", code_block(text, "diff")),
        CallPart::File { language, text } => write!(out, "{}", code_block(text, language)),
        CallPart::Text(NamedValue { name, value }) => {
            write!(
                out,
                "<p class=\"label\">{}</p>{}",
                escape_html(name),
                wrapped_code_block(value, "")
            )
        }
        CallPart::Raw(text) => write!(out, "{}", wrapped_code_block(text, "")),
        CallPart::Fields(fields) => {
            write!(out, "<dl class=\"fields\">")?;
            for NamedValue { name, value } in fields {
                write!(out, "<dt>{}</dt><dd>{}</dd>", escape_html(name), escape_html(value))?;
            }
            write!(out, "</dl>")
        }
    }
}

fn write_tool_output(out: &mut dyn Write, text: &str, failed: bool) -> io::Result<()> {
    let label = if failed { "Failed" } else { "Result" };
    if text.trim().is_empty() {
        return write!(out, "<p class=\"label\">{label}, without output</p>");
    }
    let is_diff = text.starts_with("diff --git ");
    let body = if is_diff { code_block(text, "diff") } else { wrapped_code_block(text, "") };
    write!(out, "<p class=\"label\">{label}</p>{body}")
}

fn code_block(text: &str, language: &str) -> String {
    let mut page = String::from("<pre>");
    highlight::append_code(&mut page, &make_visible(text), language);
    page.push_str("</pre>");
    page
}

fn wrapped_code_block(text: &str, language: &str) -> String {
    let mut page = String::from("<pre class=\"wrap\">");
    match language {
        "" => push_escaped(&mut page, &make_visible(text)),
        _ => highlight::append_code(&mut page, &make_visible(text), language),
    }
    page.push_str("</pre>");
    page
}
