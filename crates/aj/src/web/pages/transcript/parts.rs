//! Parts of a session that scripts fetch: windows, landmarks, what is found, pictures; and a
//! message on a page of its own.

use std::sync::Arc;

use agent_journal::{Contents, Landmark, Occurrence, Window};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};

use super::{COUNT, keep, markup, valid, window};
use crate::output::json::View;
use crate::output::{count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::pages::search::{found as place, marked};
use crate::web::params::{self, Params};
use crate::web::reply::{Failure, Page, Reply};
use crate::web::state::App;

/// How many places are told.
const PLACES: usize = 200;

/// How many prompts are listed at once: more come in parts.
const LANDMARKS: usize = 500;

/// Prompts of a part.
const PART: usize = 100;

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
pub(in crate::web) async fn outline(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Page {
    let (id, shared) = (valid(id)?, Arc::clone(&app));
    let (entry, contents) = app
        .ask(move |journal, _| {
            let entry = journal.session(&id)?;
            let contents = shared.contents(journal, &entry)?;
            Ok((entry, contents))
        })
        .await?;
    let base = params::session(&entry.id);
    Ok(match params.number("part") {
        Some(part) => {
            let skipped = (part as usize).saturating_mul(PART);
            prompts(&base, contents.prompts.iter().skip(skipped).take(PART))
        }
        None => landmarks(&base, &contents),
    })
}

/// The list of prompts, with what failed after them.
pub(super) fn landmarks(base: &str, contents: &Contents) -> Markup {
    let total = contents.prompts.len();
    html! {
        h2 { "Prompts " span.muted { (thousands(total as u64)) } }
        @if total <= LANDMARKS {
            ol { (prompts(base, contents.prompts.iter())) }
        } @else {
            @for (part, landmarks) in contents.prompts.chunks(PART).enumerate() { (folded(base, part, landmarks)) }
        }
        ol.errors hidden { @for index in contents.errors.iter().take(ERRORS) { li data-index=(index) {} } }
    }
}

/// A part of a long list, fetched when it is opened.
fn folded(base: &str, part: usize, landmarks: &[Landmark]) -> Markup {
    let (first, last) = (part * PART + 1, part * PART + landmarks.len());
    let at = |landmark: Option<&Landmark>| landmark.map_or(0, |landmark| landmark.index);
    let (from, until) = (at(landmarks.first()), at(landmarks.last()));
    html! {
        details.part data-load=(format!("{base}/outline?part={part}")) data-from=(from) data-until=(until) {
            summary { (thousands(first as u64)) "–" (thousands(last as u64)) }
            ol { li { a href=(format!("{base}?from={from}#m{from}")) { b { (from) } span { "Open the session here" } } } }
        }
    }
}

fn prompts<'c>(base: &str, landmarks: impl Iterator<Item = &'c Landmark>) -> Markup {
    html! {
        @for prompt in landmarks {
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
                li { a href=(place(id, one.index, &one.snippet)) data-index=(one.index) {
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
        return Err(Failure::missing("There is no such message."));
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
