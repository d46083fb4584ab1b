//! Responses: compressed when the browser accepts that, errors as pages or JSON.

use std::io::{self, Read, Write};

use agent_journal::Error;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use maud::{Markup, html};

use super::layout::{self, Nav};
use super::params;

/// The result of a request handler.
pub(super) type HandlerResult<T> = Result<T, RequestFailure>;

/// Fewest bytes of a body that is compressed.
const SMALL: u64 = 1024;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Most bytes of a body.
const LARGEST: usize = 64 * 1024 * 1024;

/// A failed request.
pub(super) struct RequestFailure {
    /// The HTTP status.
    pub(super) status: StatusCode,
    /// The reason, in words.
    pub(super) message: String,
    /// The sessions that an ambiguous id may mean, each with its title.
    pub(super) candidates: Vec<(String, String)>,
}

impl RequestFailure {
    /// Creates a failure for an invalid request.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Creates a failure for something that does not exist.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), candidates: Vec::new() }
    }
}

impl From<anyhow::Error> for RequestFailure {
    fn from(error: anyhow::Error) -> Self {
        let cause = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
        let status = match cause {
            Some(Error::UnknownSession { .. }) => StatusCode::NOT_FOUND,
            Some(Error::AmbiguousSession { .. }) => StatusCode::CONFLICT,
            Some(Error::Query { .. }) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let candidates = match cause {
            Some(Error::AmbiguousSession { candidates, .. }) => candidates.clone(),
            _ => Vec::new(),
        };
        Self { status, message: format!("{error:#}"), candidates }
    }
}

impl IntoResponse for RequestFailure {
    fn into_response(self) -> Response {
        let body = html! {
            div.empty {
                h1 { (self.status.canonical_reason().unwrap_or("Error")) }
                p { (self.message) }
                @if !self.candidates.is_empty() {
                    ul { @for (id, title) in &self.candidates {
                        li { a href=(params::session_url(id)) { (title) } " " span.muted { (id) } }
                    } }
                }
                p { a href="/" { "All sessions" } }
            }
        };
        (self.status, layout::page_layout("Error", Nav::None, body)).into_response()
    }
}

/// Compresses a response, and adds its caching headers.
pub(super) async fn compress_response(request: Request, next: Next) -> Response {
    let takes_gzip = request
        .headers()
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|one| one.trim().starts_with("gzip")));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let is_stream = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let is_packed = headers.contains_key(CONTENT_ENCODING);
    let size = response.body().size_hint().exact();
    let is_small = size.is_none_or(|size| size < SMALL);
    match (takes_gzip, is_packed) {
        (true, false) if !is_stream && !is_small => recode_body(response, gzip_bytes).await,
        (false, true) => recode_body(response, gunzip_bytes).await,
        _ => response,
    }
}

/// A function that compresses or decompresses a body.
type BodyCoding = fn(&[u8]) -> io::Result<Vec<u8>>;

fn gzip_bytes(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn gunzip_bytes(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain)?;
    Ok(plain)
}

async fn recode_body(response: Response, code: BodyCoding) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, LARGEST).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(Ok(other)) = tokio::task::spawn_blocking(move || code(&bytes)).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    parts.headers.remove(CONTENT_LENGTH);
    if parts.headers.remove(CONTENT_ENCODING).is_none() {
        parts.headers.insert(CONTENT_ENCODING, GZIP);
    }
    Response::from_parts(parts, Body::from(other))
}

/// A page that is compressed once and sent often.
#[derive(Clone)]
pub(super) struct CompressedPage(Bytes);

impl CompressedPage {
    /// Compresses a page.
    pub(super) fn new(page: &str) -> io::Result<Self> {
        Ok(Self(gzip_bytes(page.as_bytes())?.into()))
    }
}

impl IntoResponse for CompressedPage {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        ([(CONTENT_TYPE, kind), (CONTENT_ENCODING, GZIP)], self.0).into_response()
    }
}

/// The result of a handler that renders a page.
pub(super) type PageResult = HandlerResult<Markup>;

/// The result of a handler whose page is cached.
pub(super) type CachedPageResult = HandlerResult<CompressedPage>;
