//! One session: who, where, how much; then the conversation, a window at a time.

mod head;
mod parts;

pub(in crate::web) use parts::{find, message, outline, part, picture};

use std::collections::HashSet;
use std::sync::Arc;

use agent_journal::analyze::SessionFigures;
use agent_journal::export::Keep;
use agent_journal::{Contents, Entry, Journal, Shown, Touches, Window};
use anyhow::Result;
use axum::extract::{Path, Query, State};
use jiff::Zoned;
use maud::{Markup, PreEscaped, html};

use crate::output::{count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::params::{self, Params};
use crate::web::reply::{Failure, Page, Reply};
use crate::web::state::App;

/// Messages of a window.
const COUNT: u64 = 60;

/// A session up to this size is read through for its landmarks before it is shown.
const LIGHT: u64 = 3 * 1024 * 1024;

/// What can be left out, by its name in the address.
const KEEPS: [(&str, Keep, &str); 6] = [
    ("", Keep::All, "Everything"),
    ("talk", Keep::Talk, "Conversation"),
    ("prompts", Keep::Prompts, "Prompts"),
    ("answers", Keep::Answers, "Answers"),
    ("tools", Keep::Tools, "Tools"),
    ("errors", Keep::Errors, "Failures"),
];

/// What can be jumped to: the kind, its name, and the keys that lead on and back.
const JUMPS: [(&str, &str, &str); 3] =
    [("prompt", "Prompt", "n p"), ("tool", "Tool", "u U"), ("error", "Failure", "e E")];

/// Everything a session's page shows.
struct View {
    entry: Entry,
    documents: Vec<(String, String)>,
    figures: SessionFigures,
    files: Vec<(String, Touches)>,
    children: Vec<Entry>,
    /// None when the session is so long that they come later.
    contents: Option<Arc<Contents>>,
    shown: Shown,
    now: Zoned,
}

/// Shows a session.
pub(in crate::web) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Page {
    let (id, asked, shared) = (valid(id)?, params.clone(), Arc::clone(&app));
    let view = app.ask(move |journal, now| read(journal, &shared, (&id, &asked), now)).await?;
    Ok(layout::page(&view.entry.title, Nav::Sessions, body(&view, &params)))
}

/// An id as it may come from outside; what it means only the journal says.
fn valid(id: String) -> Reply<String> {
    if id.is_empty() || id.len() > 512 || id.chars().any(char::is_control) {
        return Err(Failure::bad("this is no id of a session"));
    }
    Ok(id)
}

fn read(journal: &Journal, app: &App, (id, params): (&str, &Params), now: &Zoned) -> Result<View> {
    let entry = journal.session(id)?;
    let is_light = journal.weight(&entry)? <= LIGHT;
    let contents = if is_light { Some(app.contents(journal, &entry)?) } else { app.known(&entry) };
    let shown = journal.window(&entry, &window(&entry, params, contents.as_deref()))?;
    let figures = journal.session_figures(std::slice::from_ref(&entry))?.remove(0);
    let children = entry.children.iter().take(200).filter_map(|id| journal.session(id).ok());
    Ok(View {
        documents: journal.documents(&entry)?,
        files: journal.touched_files(&entry)?,
        children: children.collect(),
        figures,
        contents,
        shown,
        entry,
        now: now.clone(),
    })
}

/// The window that an address means.
fn window(entry: &Entry, params: &Params, contents: Option<&Contents>) -> Window {
    let last = entry.transcript_length().max(1);
    let from = params.number("from").unwrap_or(1).clamp(1, last);
    let left = contents.map_or_else(HashSet::new, |contents| contents.left.clone());
    Window {
        from,
        // No more than a window, whatever the address says.
        until: params.number("until").map(|until| until.clamp(from, from + COUNT)),
        count: COUNT,
        keep: keep(params),
        left,
        pictures: format!("{}/image/", params::session(&entry.id)),
        // Inside the page of another session, a number in its list keeps ids apart.
        prefix: params.number("of").map_or_else(String::new, |number| format!("s{number}-")),
    }
}

fn keep(params: &Params) -> Keep {
    let wanted = params.get("show").unwrap_or_default();
    KEEPS.iter().find(|(name, ..)| *name == wanted).map_or(Keep::All, |(_, keep, _)| *keep)
}

/// The part of the session that is shown: where nothing was said, what was written about it.
fn tab<'p>(view: &View, params: &'p Params) -> &'p str {
    let usual = if view.entry.transcript_length() == 0 { "documents" } else { "" };
    params.get("tab").unwrap_or(usual)
}

fn body(view: &View, params: &Params) -> Markup {
    let tab = tab(view, params);
    html! {
        article.session data-session=(params::session(&view.entry.id)) data-messages=(view.entry.transcript_length()) {
            (head::head(view))
            (tabs(view, params))
            @match tab {
                "files" => (files(view)),
                "documents" => (documents(view)),
                _ => (conversation(view, params)),
            }
        }
    }
}

fn tabs(view: &View, params: &Params) -> Markup {
    let base = params::session(&view.entry.id);
    let tab = tab(view, params);
    let all = [
        ("", "Conversation", view.entry.transcript_length()),
        ("documents", "Plans and summaries", view.documents.len() as u64),
        ("files", "Files", view.files.len() as u64),
    ];
    html! {
        nav.tabs aria-label="Parts of the session" {
            @for (name, label, number) in all {
                @if number > 0 || name.is_empty() {
                    a href=(if name.is_empty() { base.clone() } else { format!("{base}?tab={name}") })
                        aria-current=[(tab == name).then_some("page")] { (label) " " span.muted { (thousands(number)) } }
                }
            }
        }
    }
}

fn conversation(view: &View, params: &Params) -> Markup {
    let base = params::session(&view.entry.id);
    html! {
        div.reader {
            nav.outline aria-label="Prompts" id="outline" data-load=[view.contents.is_none().then(|| format!("{base}/outline"))] {
                @match &view.contents {
                    Some(contents) => (parts::landmarks(&base, contents)),
                    None => p.muted { "Reading the prompts of a long session…" },
                }
            }
            div.text {
                (tools(&view.entry, &base, params))
                div.transcript id="transcript" data-live="transcript" { (piece(view, params)) }
                @if !view.children.is_empty() { (children(&view.children)) }
            }
        }
    }
}

/// What is done with the text: find, leave out, jump, fold.
fn tools(entry: &Entry, base: &str, params: &Params) -> Markup {
    let show = params.get("show").unwrap_or_default();
    html! {
        div.tools.noprint {
            form.find action={ (base) "/find" } method="get" data-find {
                input type="search" name="q" id="find" placeholder="Find in this session" aria-label="Find in this session" autocomplete="off" spellcheck="false";
            }
            div.keeps role="group" aria-label="What is shown" {
                @for (name, _, label) in KEEPS {
                    a href=(params.with(base, &[("show", name), ("from", ""), ("tab", "")])) class=[(show == name).then_some("on")]
                        aria-current=[(show == name).then_some("true")] { (label) }
                }
            }
            (jumps(entry))
            button type="button" id="fold" hidden { "Unfold tools" }
            // Under the field, wherever the reader is.
            div.occurrences id="occurrences" aria-live="polite" {}
        }
    }
}

/// Buttons that lead from place to place; scripts show them.
fn jumps(entry: &Entry) -> Markup {
    let counts = entry.counts;
    let numbers = [counts.user_prompts, counts.tool_calls, counts.tool_errors];
    html! {
        div.jumps role="group" aria-label="Jump" hidden {
            @for ((kind, name, keys), number) in JUMPS.into_iter().zip(numbers) {
                @if number > 0 {
                    @let (on, back) = keys.split_once(' ').unwrap_or_default();
                    span.jump class=[(kind == "error").then_some("bad")] {
                        button type="button" data-jump=(kind) data-by="-1" aria-label={ "Previous " (name.to_lowercase()) } title={ "Previous: " (back) } { "↑" }
                        span { (name) " " span.muted { (thousands(number)) } }
                        button type="button" data-jump=(kind) data-by="1" aria-label={ "Next " (name.to_lowercase()) } title={ "Next: " (on) } { "↓" }
                    }
                }
            }
            span.sr id="jumped" role="status" {}
        }
    }
}

fn piece(view: &View, params: &Params) -> Markup {
    let base = params::session(&view.entry.id);
    let before = view.shown.from.saturating_sub(COUNT).max(1);
    html! {
        @if view.shown.from > 1 {
            p.more.earlier {
                a.button href=(params.with(&base, &[("from", &before.to_string())]))
                    data-part=(params.with(&format!("{base}/part"), &[("from", &before.to_string()), ("until", &view.shown.from.to_string())])) {
                    "Earlier messages"
                }
                " " a href=(params.with(&base, &[("from", "")])) { "From the beginning" }
            }
        }
        (markup(&view.shown, (&base, params)))
        @if view.shown.html.is_empty() && view.shown.next.is_none() { p.muted.none { "Nothing to show here." } }
    }
}

/// A window's text, with the way to the next.
fn markup(shown: &Shown, (base, params): (&str, &Params)) -> Markup {
    html! {
        // The exporter's markup: escaped and cleaned there.
        (PreEscaped(&shown.html))
        @if let Some(next) = shown.next {
            p.more.later {
                // A page of its own keeps no ids apart.
                a.button href=(params.with(base, &[("from", &next.to_string()), ("until", ""), ("of", "")]))
                    data-part=(params.with(&format!("{base}/part"), &[("from", &next.to_string()), ("until", "")])) { "Next messages" }
            }
        } @else {
            span.end data-end hidden {}
        }
    }
}

fn children(children: &[Entry]) -> Markup {
    html! {
        section.children {
            h2 { (count(children.len() as u64, "sub-agent")) }
            @for (number, child) in children.iter().enumerate() {
                @let href = params::session(&child.id);
                details.sub data-load={ (href) "/part?of=" (number + 1) } {
                    summary { b { (child.title) } span.muted { " · " (count(child.counts.messages, "message")) } }
                    div.transcript { a href=(href) { "Open it" } }
                }
            }
        }
    }
}

fn files(view: &View) -> Markup {
    html! {
        table.card.files {
            thead { tr {
                th { "File" } th.num { "Viewed" } th.num { "Edited" } th.num { "Created" }
            } }
            tbody { @for (file, touches) in view.files.iter().take(2000) {
                tr {
                    td { code { (file) } }
                    @for number in [touches.viewed, touches.edited, touches.created] {
                        td.num { @if number > 0 { (thousands(number)) } @else { "–" } }
                    }
                }
            } }
        }
    }
}

fn documents(view: &View) -> Markup {
    html! {
        div.documents {
            @for (name, text) in &view.documents {
                section.card { h2 { (name) } pre.wrap { (text) } }
            }
        }
    }
}
