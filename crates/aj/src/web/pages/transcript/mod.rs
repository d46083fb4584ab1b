//! The page of one session: its facts, then the conversation, a window at a time.

mod head;
mod parts;

pub(in crate::web) use parts::{
    find_in_session, serve_picture, session_outline, single_message_page, transcript_part,
};

use std::collections::HashSet;
use std::sync::Arc;

use agent_journal::analyze::SessionFigures;
use agent_journal::export::Keep;
use agent_journal::{Contents, Entry, Journal, RenderedWindow, Touches, TranscriptWindow};
use anyhow::Result;
use axum::extract::{Path, Query, State};
use jiff::Zoned;
use maud::{Markup, PreEscaped, html};

use crate::output::{count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::params::{self, Params};
use crate::web::reply::{HandlerResult, PageResult, RequestFailure};
use crate::web::state::App;

/// Messages of a window.
const COUNT: u64 = 60;

/// Largest session, in bytes, that is read completely for its outline before the page is shown.
const LIGHT: u64 = 3 * 1024 * 1024;

/// The views of the conversation: URL value, blocks to keep, label.
const KEEPS: [(&str, Keep, &str); 6] = [
    ("", Keep::All, "Everything"),
    ("talk", Keep::Talk, "Conversation"),
    ("prompts", Keep::Prompts, "Prompts"),
    ("answers", Keep::Answers, "Answers"),
    ("tools", Keep::Tools, "Tools"),
    ("errors", Keep::Errors, "Failures"),
];

/// Jump targets: kind, label, and the keys for next and previous.
const JUMPS: [(&str, &str, &str); 3] =
    [("prompt", "Prompt", "n p"), ("tool", "Tool", "u U"), ("error", "Failure", "e E")];

/// The data of a session's page.
struct SessionView {
    entry: Entry,
    documents: Vec<(String, String)>,
    figures: SessionFigures,
    files: Vec<(String, Touches)>,
    children: Vec<Entry>,
    /// The outline; `None` for long sessions, whose outline is loaded later.
    contents: Option<Arc<Contents>>,
    shown: RenderedWindow,
    now: Zoned,
}

/// Shows a session.
pub(in crate::web) async fn session_page(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> PageResult {
    let (id, asked, shared) = (validate_session_id(id)?, params.clone(), Arc::clone(&app));
    let view = app
        .run_query(move |journal, now| read_session_view(journal, &shared, &id, &asked, now))
        .await?;
    Ok(layout::page_layout(&view.entry.title, Nav::Sessions, session_body(&view, &params)))
}

/// Checks that a session id from a URL is well-formed; the journal decides whether it exists.
fn validate_session_id(id: String) -> HandlerResult<String> {
    if id.is_empty() || id.len() > 512 || id.chars().any(char::is_control) {
        return Err(RequestFailure::bad_request("not a session id"));
    }
    Ok(id)
}

fn read_session_view(
    journal: &Journal,
    app: &App,
    id: &str,
    params: &Params,
    now: &Zoned,
) -> Result<SessionView> {
    let entry = journal.find_session(id)?;
    let is_light = journal.stored_size(&entry)? <= LIGHT;
    let contents = if is_light {
        Some(app.contents_of_session(journal, &entry)?)
    } else {
        app.cached_contents(&entry)
    };
    let shown =
        journal.render_window(&entry, &window_from_params(&entry, params, contents.as_deref()))?;
    let figures = journal.figures_of_entries(std::slice::from_ref(&entry))?.remove(0);
    let children = entry.children.iter().take(200).filter_map(|id| journal.find_session(id).ok());
    Ok(SessionView {
        documents: journal.session_documents(&entry)?,
        files: journal.touched_files_of(&entry)?,
        children: children.collect(),
        figures,
        contents,
        shown,
        entry,
        now: now.clone(),
    })
}

/// Returns the window that the parameters describe.
fn window_from_params(
    entry: &Entry,
    params: &Params,
    contents: Option<&Contents>,
) -> TranscriptWindow {
    let last = entry.transcript_length().max(1);
    let from = params.number_param("from").unwrap_or(1).clamp(1, last);
    let left = contents.map_or_else(HashSet::new, |contents| contents.left.clone());
    TranscriptWindow {
        from,
        // At most one window, whatever the URL asks for.
        until: params.number_param("until").map(|until| until.clamp(from, from + COUNT)),
        count: COUNT,
        keep: keep_from_params(params),
        left,
        pictures: format!("{}/image/", params::session_url(&entry.id)),
        // In the page of another session, the number of the sub-agent keeps element ids unique.
        prefix: params.number_param("of").map_or_else(String::new, |number| format!("s{number}-")),
    }
}

fn keep_from_params(params: &Params) -> Keep {
    let wanted = params.get_param("show").unwrap_or_default();
    KEEPS.iter().find(|(name, ..)| *name == wanted).map_or(Keep::All, |(_, keep, _)| *keep)
}

/// Returns the selected tab; by default the documents of a session without messages.
fn selected_tab<'p>(view: &SessionView, params: &'p Params) -> &'p str {
    let usual = if view.entry.transcript_length() == 0 { "documents" } else { "" };
    params.get_param("tab").unwrap_or(usual)
}

fn session_body(view: &SessionView, params: &Params) -> Markup {
    let tab = selected_tab(view, params);
    html! {
        article.session data-session=(params::session_url(&view.entry.id)) data-messages=(view.entry.transcript_length()) {
            (head::session_head(view))
            (session_tabs(view, params))
            @match tab {
                "files" => (files_tab(view)),
                "documents" => (documents_tab(view)),
                _ => (conversation_tab(view, params)),
            }
        }
    }
}

fn session_tabs(view: &SessionView, params: &Params) -> Markup {
    let base = params::session_url(&view.entry.id);
    let tab = selected_tab(view, params);
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

fn conversation_tab(view: &SessionView, params: &Params) -> Markup {
    let base = params::session_url(&view.entry.id);
    html! {
        div.reader {
            nav.outline aria-label="Prompts" id="outline" data-load=[view.contents.is_none().then(|| format!("{base}/outline"))] {
                @match &view.contents {
                    Some(contents) => (parts::prompt_outline(&base, contents)),
                    None => p.muted { "Reading the prompts of a long session…" },
                }
            }
            div.text {
                (transcript_toolbar(&view.entry, &base, params))
                div.transcript id="transcript" data-live="transcript" { (transcript_piece(view, params)) }
                @if !view.children.is_empty() { (subagents_tab(&view.children)) }
            }
        }
    }
}

/// Renders the toolbar: find, filter, jump, fold.
fn transcript_toolbar(entry: &Entry, base: &str, params: &Params) -> Markup {
    let show = params.get_param("show").unwrap_or_default();
    html! {
        div.tools.noprint {
            form.find action={ (base) "/find" } method="get" data-find {
                input type="search" name="q" id="find" placeholder="Find in this session" aria-label="Find in this session" autocomplete="off" spellcheck="false";
            }
            div.keeps role="group" aria-label="Level of detail" {
                @for (name, _, label) in KEEPS {
                    a href=(params.url_with(base, &[("show", name), ("from", ""), ("tab", "")])) class=[(show == name).then_some("on")]
                        aria-current=[(show == name).then_some("true")] { (label) }
                }
            }
            (jump_buttons(entry))
            button type="button" id="fold" hidden { "Expand tools" }
            // Below the search field, wherever the page is scrolled to.
            div.occurrences id="occurrences" aria-live="polite" {}
        }
    }
}

/// Renders the buttons that jump between messages; scripts make them visible.
fn jump_buttons(entry: &Entry) -> Markup {
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

fn transcript_piece(view: &SessionView, params: &Params) -> Markup {
    let base = params::session_url(&view.entry.id);
    let before = view.shown.from.saturating_sub(COUNT).max(1);
    html! {
        @if view.shown.from > 1 {
            p.more.earlier {
                a.button href=(params.url_with(&base, &[("from", &before.to_string())]))
                    data-part=(params.url_with(&format!("{base}/part"), &[("from", &before.to_string()), ("until", &view.shown.from.to_string())])) {
                    "Earlier messages"
                }
                " " a href=(params.url_with(&base, &[("from", "")])) { "From the beginning" }
            }
        }
        (window_markup(&view.shown, &base, params))
        @if view.shown.html.is_empty() && view.shown.next.is_none() { p.muted.none { "No messages to show." } }
    }
}

/// Renders the text of a window, with a link to the next one.
fn window_markup(shown: &RenderedWindow, base: &str, params: &Params) -> Markup {
    html! {
        // The exporter has escaped and cleaned this markup.
        (PreEscaped(&shown.html))
        @if let Some(next) = shown.next {
            p.more.later {
                // A page of its own needs no prefix for element ids.
                a.button href=(params.url_with(base, &[("from", &next.to_string()), ("until", ""), ("of", "")]))
                    data-part=(params.url_with(&format!("{base}/part"), &[("from", &next.to_string()), ("until", "")])) { "Next messages" }
            }
        } @else {
            span.end data-end hidden {}
        }
    }
}

fn subagents_tab(children: &[Entry]) -> Markup {
    html! {
        section.children {
            h2 { (count(children.len() as u64, "sub-agent")) }
            @for (number, child) in children.iter().enumerate() {
                @let href = params::session_url(&child.id);
                details.sub data-load={ (href) "/part?of=" (number + 1) } {
                    summary { b { (child.title) } span.muted { " · " (count(child.counts.messages, "message")) } }
                    div.transcript { a href=(href) { "Open the session" } }
                }
            }
        }
    }
}

fn files_tab(view: &SessionView) -> Markup {
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

fn documents_tab(view: &SessionView) -> Markup {
    html! {
        div.documents {
            @for (name, text) in &view.documents {
                section.card { h2 { (name) } pre.wrap { (text) } }
            }
        }
    }
}
