//! Checks requests: only this machine's own browser, on this server's own pages, gets an answer.
//!
//! A page on the internet can make a browser send requests to this server, by a host name that
//! resolves to this machine (DNS rebinding), by a form, by an image. So the requested host must be
//! this machine's own, a request from another site is refused, and access from other machines needs
//! a secret.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE,
    TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, html};

use super::{connections, panics};

/// Most time of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most bytes of the path and query of a request.
const LONGEST: usize = 8 * 1024;

/// The cookie that carries the secret.
const COOKIE_NAME: &str = "aj_token";

/// Headers of every response: the browser runs and loads only our own content, sends no referrer,
/// guesses no content types, and shows the page in no frame.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

/// The access rules of one server.
pub(super) struct Guard {
    address: SocketAddr,
    token: Option<String>,
}

impl Guard {
    /// Creates the rules for an address; one that other machines can reach needs a secret.
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let token = if address.ip().is_loopback() { None } else { Some(generate_secret()?) };
        Ok(Self { address, token })
    }

    /// Returns whether the server's URL carries a secret.
    pub(super) fn has_secret(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the URL of the server, with the secret if there is one.
    pub(super) fn server_url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(own_address(address.ip()));
        }
        match &self.token {
            Some(token) => format!("http://{address}/?token={token}"),
            None => format!("http://{address}/"),
        }
    }

    /// Returns the status and reason with which a request is refused, if it is.
    fn refusal_of(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        let headers = request.headers();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET requests are allowed"));
        }
        let has_body = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
            || headers.contains_key(TRANSFER_ENCODING);
        if has_body {
            return Some((StatusCode::PAYLOAD_TOO_LARGE, "requests must not have a body"));
        }
        let length = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        if length > LONGEST {
            return Some((StatusCode::URI_TOO_LONG, "the URL is too long"));
        }
        let host = header_text(headers, &HOST).unwrap_or_default();
        if !self.is_own_host(host) {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "the Host header does not match this server",
            ));
        }
        if is_foreign(headers, host) {
            return Some((StatusCode::FORBIDDEN, "cross-site requests are not allowed"));
        }
        None
    }

    /// Returns whether a host name belongs to this server. With a secret any name is accepted: a
    /// browser sends the secret only to the name that it got it from.
    fn is_own_host(&self, host: &str) -> bool {
        if self.token.is_some() {
            return !host.is_empty();
        }
        let name = host.strip_suffix(&format!(":{}", self.address.port()));
        let name = name.or((self.address.port() == 80).then_some(host));
        matches!(name, Some("localhost" | "127.0.0.1" | "[::1]"))
            || name == Some(&self.address.ip().to_string())
    }

    fn has_valid_secret(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        // The name of the scheme is case-insensitive.
        let bearer =
            header_text(headers, &AUTHORIZATION).and_then(|value| value.split_once(' ')).and_then(
                |(scheme, given)| scheme.eq_ignore_ascii_case("bearer").then_some(given.trim()),
            );
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter_map(|(name, value)| (name == COOKIE_NAME).then_some(value));
        bearer.is_some_and(|given| is_same_secret(given, token))
            || cookies.any(|given| is_same_secret(given, token))
    }

    /// Moves the secret from the URL into a cookie, so that it stays out of history and logs.
    fn move_secret_to_cookie(&self, request: &Request) -> Option<Response> {
        let (token, uri) = (self.token.as_ref()?, request.uri());
        let given = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
        if !is_same_secret(given, token) {
            return None;
        }
        let rest: Vec<&str> =
            uri.query()?.split('&').filter(|pair| !pair.starts_with("token=")).collect();
        let place = own_place(uri.path(), &rest.join("&"));
        let cookie = format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict");
        if fetch_header(request.headers(), "sec-fetch-site") == Some("cross-site") {
            // A browser withholds the cookie from a redirect that began on another site, or in the
            // file that `--open` writes; it sends the cookie when a page of this server redirects.
            let page = html! {
                (DOCTYPE)
                meta http-equiv="refresh" content={ "0; url=" (place) };
                title { "aj" }
                a href=(place) { "Continue to the dashboard" }
            };
            return Some(([(SET_COOKIE, cookie)], page).into_response());
        }
        let headers = [(LOCATION, place), (SET_COOKIE, cookie)];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

/// Accepts or refuses a request, and adds the security headers to every response.
pub(super) async fn check_request(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let slot = connections::slot_of(&request);
    if let Some(slot) = &slot {
        connections::mark_answering(slot);
    }
    let mut response = answer_guarded(&guard, request, next).await;
    if let Some(slot) = slot {
        response = connections::track_response_end(slot, response);
    }
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

async fn answer_guarded(guard: &Guard, request: Request, next: Next) -> Response {
    // The connection of a refused request is closed.
    let close = [(CONNECTION, "close")];
    if let Some((status, reason)) = guard.refusal_of(&request) {
        return (status, close, reason).into_response();
    }
    if let Some(welcome) = guard.move_secret_to_cookie(&request) {
        return welcome;
    }
    if !guard.has_valid_secret(request.headers()) {
        let hint = "open the URL that `aj serve` printed: it contains the secret\n";
        return (StatusCode::UNAUTHORIZED, close, hint).into_response();
    }
    if let Some(slot) = connections::slot_of(&request) {
        slot.mark_accepted();
    }
    // An answer that takes too long is dropped, which interrupts its query.
    let answered = panics::caught_in(next.run(request));
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(response)) => response,
        Ok(Err(panicked)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{panicked}\n")).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the request timed out\n").into_response(),
    }
}

/// Returns a URL on this server. Two leading slashes, of either kind, would lead to another one.
fn own_place(path: &str, query: &str) -> String {
    let path = path.trim_start_matches(['/', '\\']);
    if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") }
}

/// Returns whether a browser sends the request for another site, or for a frame inside one.
/// Following a link to this server is neither, because it shows a page of this server by itself.
/// Programs and older browsers do not send these headers.
fn is_foreign(headers: &HeaderMap, host: &str) -> bool {
    if let Some(origin) = headers.get(ORIGIN)
        && origin.as_bytes() != format!("http://{host}").as_bytes()
    {
        return true;
    }
    let site = fetch_header(headers, "sec-fetch-site");
    let mode = fetch_header(headers, "sec-fetch-mode");
    let destination = fetch_header(headers, "sec-fetch-dest");
    let is_framed =
        matches!(destination, Some("iframe" | "frame" | "fencedframe" | "embed" | "object"));
    let is_page = mode == Some("navigate") && destination == Some("document");
    is_framed || matches!(site, Some("cross-site" | "same-site")) && !is_page
}

fn fetch_header<'h>(headers: &'h HeaderMap, name: &'static str) -> Option<&'h str> {
    header_text(headers, &HeaderName::from_static(name))
}

fn header_text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Compares two secrets in constant time.
fn is_same_secret(given: &str, wanted: &str) -> bool {
    let differs = |(one, other): (u8, u8)| one ^ other;
    given.len() == wanted.len()
        && given.bytes().zip(wanted.bytes()).map(differs).fold(0, |all, one| all | one) == 0
}

/// Generates a secret of 256 random bits.
fn generate_secret() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

/// Returns the address by which other machines reach this one, according to its routes.
fn own_address(unspecified: IpAddr) -> IpAddr {
    let target = if unspecified.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    // Connecting a datagram socket sends nothing; it only selects a route.
    let socket = std::net::UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    socket.map_or(unspecified, |address| address.ip())
}
