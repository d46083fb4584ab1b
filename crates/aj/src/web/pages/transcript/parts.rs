//! Fragments of a session that scripts fetch: windows, the outline, search hits, images; and the
//! page of a single message.

use std::sync::Arc;

use agent_journal::{Contents, Occurrence, PromptLandmark, TranscriptWindow};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};

use super::{COUNT, keep_from_params, validate_session_id, window_from_params, window_markup};
use crate::output::json::MessageJson;
use crate::output::{count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::pages::search::{hit_url as place, marked_snippet};
use crate::web::params::{self, Params};
use crate::web::reply::{HandlerResult, PageResult, RequestFailure};
use crate::web::state::App;

/// Most messages that a search in a session lists.
const PLACES: usize = 200;

/// Most prompts that are listed without folding; a longer outline comes in parts.
const LANDMARKS: usize = 500;

/// Prompts of a part of the outline.
const PART: usize = 100;

/// Most failures that can be jumped to.
const ERRORS: usize = 5_000;

/// Most bytes shown of a message's JSON.
const RAW: usize = 200_000;

/// The first bytes of image formats, with their content types.
const PICTURES: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// Shows a window of the conversation.
pub(in crate::web) async fn transcript_part(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> PageResult {
    let (id, asked, shared) = (validate_session_id(id)?, params.clone(), Arc::clone(&app));
    let (entry, shown) = app
        .run_query(move |journal, _| {
            let entry = journal.find_session(&id)?;
            let contents = shared.cached_contents(&entry);
            let shown = journal
                .render_window(&entry, &window_from_params(&entry, &asked, contents.as_deref()))?;
            Ok((entry, shown))
        })
        .await?;
    if params.get_param("until").is_some() {
        return Ok(PreEscaped(shown.html));
    }
    Ok(window_markup(&shown, &params::session_url(&entry.id), &params))
}

/// Shows the outline of a session: its prompts.
pub(in crate::web) async fn session_outline(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> PageResult {
    let (id, shared) = (validate_session_id(id)?, Arc::clone(&app));
    let (entry, contents) = app
        .run_query(move |journal, _| {
            let entry = journal.find_session(&id)?;
            let contents = shared.contents_of_session(journal, &entry)?;
            Ok((entry, contents))
        })
        .await?;
    let base = params::session_url(&entry.id);
    Ok(match params.number_param("part") {
        Some(part) => {
            let skipped = (part as usize).saturating_mul(PART);
            prompt_list(&base, contents.prompts.iter().skip(skipped).take(PART))
        }
        None => prompt_outline(&base, &contents),
    })
}

/// Renders the list of prompts, with the failures after each.
pub(super) fn prompt_outline(base: &str, contents: &Contents) -> Markup {
    let total = contents.prompts.len();
    html! {
        h2 { "Prompts " span.muted { (thousands(total as u64)) } }
        @if total <= LANDMARKS {
            ol { (prompt_list(base, contents.prompts.iter())) }
        } @else {
            @for (part, landmarks) in contents.prompts.chunks(PART).enumerate() { (folded_outline(base, part, landmarks)) }
        }
        ol.errors hidden { @for index in contents.errors.iter().take(ERRORS) { li data-index=(index) {} } }
    }
}

/// Renders a folded part of a long outline, which is fetched when it is opened.
fn folded_outline(base: &str, part: usize, landmarks: &[PromptLandmark]) -> Markup {
    let (first, last) = (part * PART + 1, part * PART + landmarks.len());
    let at = |landmark: Option<&PromptLandmark>| landmark.map_or(0, |landmark| landmark.index);
    let (from, until) = (at(landmarks.first()), at(landmarks.last()));
    html! {
        details.part data-load=(format!("{base}/outline?part={part}")) data-from=(from) data-until=(until) {
            summary { (thousands(first as u64)) "–" (thousands(last as u64)) }
            ol { li { a href=(format!("{base}?from={from}#m{from}")) { b { (from) } span { "Open the session here" } } } }
        }
    }
}

fn prompt_list<'c>(base: &str, landmarks: impl Iterator<Item = &'c PromptLandmark>) -> Markup {
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

/// Finds a text in a session.
pub(in crate::web) async fn find_in_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> PageResult {
    let id = validate_session_id(id)?;
    let text = params.get_param("q").unwrap_or_default().to_owned();
    let wanted = text.clone();
    let (entry, found) = app
        .run_query(move |journal, _| {
            let entry = journal.find_session(&id)?;
            let found = match wanted.trim() {
                "" => Vec::new(),
                wanted => journal.find_occurrences(&entry, wanted, PLACES)?,
            };
            Ok((entry, found))
        })
        .await?;
    let list = occurrence_list(&entry.id, &found, &text);
    if params.get_param("rows").is_some() {
        return Ok(list);
    }
    let body = html! {
        h1 { (text) " in " a href=(params::session_url(&entry.id)) { (entry.title) } }
        (list)
    };
    Ok(layout::page_layout(&text, Nav::Sessions, body))
}

fn occurrence_list(id: &str, found: &[Occurrence], text: &str) -> Markup {
    html! {
        @if text.trim().is_empty() {
        } @else if found.is_empty() {
            p.muted { "No message in this session matches " code { (text) } "." }
        } @else {
            p.muted { (count(found.len() as u64, "message")) @if found.len() == PLACES { " or more" } }
            ol.hits.flat { @for one in found {
                li { a href=(place(id, one.index, &one.snippet)) data-index=(one.index) {
                    span.number { "#" (one.index) } span.text { (marked_snippet(&one.snippet)) }
                } }
            } }
        }
    }
}

/// Shows one message: rendered, and as JSON.
pub(in crate::web) async fn single_message_page(
    State(app): State<Arc<App>>,
    Path((id, index)): Path<(String, u64)>,
) -> PageResult {
    let id = validate_session_id(id)?;
    let (entry, shown, raw) = app
        .run_query(move |journal, _| {
            let entry = journal.find_session(&id)?;
            let window = TranscriptWindow {
                until: Some(index.saturating_add(1)),
                ..window_from_params(&entry, &Params::default(), None)
            };
            let window = TranscriptWindow {
                from: index,
                count: COUNT,
                keep: keep_from_params(&Params::default()),
                ..window
            };
            let position = index.saturating_sub(1);
            let message =
                journal.read_messages(&entry, position..position.saturating_add(1))?.pop();
            let raw = message.map(|(position, message)| {
                serde_json::to_string_pretty(&MessageJson::from_message(position, &message))
            });
            Ok((entry.clone(), journal.render_window(&entry, &window)?, raw.transpose()?))
        })
        .await?;
    let Some(mut raw) = raw else {
        return Err(RequestFailure::not_found("No such message."));
    };
    if raw.len() > RAW {
        raw.truncate(raw.floor_char_boundary(RAW));
        raw.push('…');
    }
    let body = html! {
        p.crumbs { (layout::agent_badge_markup(&entry.agent)) a href=(params::message_url(&entry.id, index)) { (entry.title) } }
        h1 { "Message " (index) }
        div.transcript.alone { (PreEscaped(shown.html)) }
        h2 { "Stored form" }
        pre.wrap.raw { (raw) }
    };
    Ok(layout::page_layout(&format!("Message {index}"), Nav::Sessions, body))
}

/// Serves an image of a session. Data without a known signature is not served.
pub(in crate::web) async fn serve_picture(
    State(app): State<Arc<App>>,
    Path((id, hash)): Path<(String, String)>,
) -> HandlerResult<Response> {
    validate_session_id(id)?;
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(RequestFailure::bad_request("not the hash of an image"));
    }
    let data = app.run_query(move |journal, _| Ok(journal.read_picture(&hash)?)).await?;
    let data = data.unwrap_or_default();
    let Some((_, kind)) = PICTURES.iter().find(|(magic, _)| data.starts_with(magic)) else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let headers = [(CONTENT_TYPE, *kind), (CACHE_CONTROL, "private, max-age=86400, immutable")];
    Ok((headers, data).into_response())
}
