//! Parts of a session that scripts fetch: windows, landmarks, what is found, pictures; and a
//! message on a page of its own.

use std::sync::Arc;

use agent_journal::{Contents, Occurrence, Window};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};

use super::{COUNT, keep, markup, valid, window};
use crate::output::count;
use crate::output::json::View;
use crate::web::layout::{self, Nav};
use crate::web::pages::search::marked;
use crate::web::params::{self, Params};
use crate::web::reply::{Failure, Page, Reply};
use crate::web::state::App;

/// How many places are told.
const PLACES: usize = 200;

/// How many prompts are listed: of more, a part.
const LANDMARKS: usize = 500;

/// How many failures can be walked to.
const ERRORS: usize = 5_000;

/// How much of a raw record is shown, in bytes.
const RAW: usize = 200_000;

/// What a picture begins with, and what it is then.
const PICTURES: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// A window of the conversation.
pub(in crate::web) async fn part(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Page {
    let (id, asked, shared) = (valid(id)?, params.clone(), Arc::clone(&app));
    let (entry, shown) = app
        .ask(move |journal, _| {
            let entry = journal.session(&id)?;
            let contents = shared.known(&entry);
            let shown = journal.window(&entry, &window(&entry, &asked, contents.as_deref()))?;
            Ok((entry, shown))
        })
        .await?;
    if params.get("until").is_some() {
        return Ok(PreEscaped(shown.html));
    }
    Ok(markup(&shown, (&params::session(&entry.id), &params)))
}

/// The prompts of a session.
pub(in crate::web) async fn outline(State(app): State<Arc<App>>, Path(id): Path<String>) -> Page {
    let (id, shared) = (valid(id)?, Arc::clone(&app));
    let (entry, contents) = app
        .ask(move |journal, _| {
            let entry = journal.session(&id)?;
            let contents = shared.contents(journal, &entry)?;
            Ok((entry, contents))
        })
        .await?;
    Ok(landmarks(&params::session(&entry.id), &contents))
}

/// The list of prompts, with what failed after them.
pub(super) fn landmarks(base: &str, contents: &Contents) -> Markup {
    let total = contents.prompts.len();
    let step = total.div_ceil(LANDMARKS).max(1);
    html! {
        h2 { "Prompts " span.muted { (total) @if step > 1 { ", one in " (step) } } }
        ol {
            @for prompt in contents.prompts.iter().step_by(step) {
                li {
                    a href=(format!("{base}?from={0}#m{0}", prompt.index)) data-index=(prompt.index) {
                        b { (prompt.index) }
                        span {
                            @if prompt.text.is_empty() { "(no text)" } @else { (prompt.text) }
                            @if prompt.tools > 0 {
                                small.muted { " " (count(prompt.tools, "tool"))
                                    @if prompt.errors > 0 { " · " span.bad { (prompt.errors) " failed" } } }
                            }
                        }
                    }
                }
            }
        }
        ol.errors hidden { @for index in contents.errors.iter().take(ERRORS) { li data-index=(index) {} } }
    }
}

/// Where a text stands in a session.
pub(in crate::web) async fn find(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Page {
    let id = valid(id)?;
    let text = params.get("q").unwrap_or_default().to_owned();
    let wanted = text.clone();
    let (entry, found) = app
        .ask(move |journal, _| {
            let entry = journal.session(&id)?;
            let found = match wanted.trim() {
                "" => Vec::new(),
                wanted => journal.occurrences(&entry, wanted, PLACES)?,
            };
            Ok((entry, found))
        })
        .await?;
    let list = occurrences(&entry.id, &found, &text);
    if params.get("rows").is_some() {
        return Ok(list);
    }
    let body = html! {
        h1 { (text) " in " a href=(params::session(&entry.id)) { (entry.title) } }
        (list)
    };
    Ok(layout::page(&text, Nav::Sessions, body))
}

fn occurrences(id: &str, found: &[Occurrence], text: &str) -> Markup {
    html! {
        @if text.trim().is_empty() {
        } @else if found.is_empty() {
            p.muted { "Nothing in this session has " code { (text) } "." }
        } @else {
            p.muted { (count(found.len() as u64, "message")) @if found.len() == PLACES { " and perhaps more" } }
            ol.hits.flat { @for one in found {
                li { a href=(params::message(id, one.index)) data-index=(one.index) {
                    span.number { "#" (one.index) } span.text { (marked(&one.snippet)) }
                } }
            } }
        }
    }
}

/// One message: at length, and as it was recorded.
pub(in crate::web) async fn message(
    State(app): State<Arc<App>>,
    Path((id, index)): Path<(String, u64)>,
) -> Page {
    let id = valid(id)?;
    let (entry, shown, raw) = app
        .ask(move |journal, _| {
            let entry = journal.session(&id)?;
            let window = Window {
                until: Some(index.saturating_add(1)),
                ..window(&entry, &Params::default(), None)
            };
            let window =
                Window { from: index, count: COUNT, keep: keep(&Params::default()), ..window };
            let position = index.saturating_sub(1);
            let message = journal.messages(&entry, position..position.saturating_add(1))?.pop();
            let raw = message.map(|(position, message)| {
                serde_json::to_string_pretty(&View::of(position, &message))
            });
            Ok((entry.clone(), journal.window(&entry, &window)?, raw.transpose()?))
        })
        .await?;
    let Some(mut raw) = raw else {
        return Err(Failure {
            status: StatusCode::NOT_FOUND,
            message: "There is no such message.".to_owned(),
        });
    };
    if raw.len() > RAW {
        raw.truncate(raw.floor_char_boundary(RAW));
        raw.push('…');
    }
    let body = html! {
        p.crumbs { (layout::badge(&entry.agent)) a href=(params::message(&entry.id, index)) { (entry.title) } }
        h1 { "Message " (index) }
        div.transcript.alone { (PreEscaped(shown.html)) }
        h2 { "As it is kept" }
        pre.wrap.raw { (raw) }
    };
    Ok(layout::page(&format!("Message {index}"), Nav::Sessions, body))
}

/// A picture of a session. What is no picture is not served.
pub(in crate::web) async fn picture(
    State(app): State<Arc<App>>,
    Path((id, hash)): Path<(String, String)>,
) -> Reply<Response> {
    valid(id)?;
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::bad("this is no picture's hash"));
    }
    let data = app.ask(move |journal, _| Ok(journal.picture(&hash)?)).await?;
    let data = data.unwrap_or_default();
    let Some((_, kind)) = PICTURES.iter().find(|(magic, _)| data.starts_with(magic)) else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let headers = [(CONTENT_TYPE, *kind), (CACHE_CONTROL, "private, max-age=86400, immutable")];
    Ok((headers, data).into_response())
}
