//! The forms by which the dashboard changes marks: parsing, and the token that proves that a form
//! is from a page of this server.

use std::sync::Arc;
use std::time::Duration;

use agent_journal::MarkChange;
use anyhow::Result;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};

use super::guard::{generate_secret, is_same_secret};
use super::params;
use super::reply::{HandlerResult, RequestFailure};
use super::state::App;

/// Longest wait for another writer of the journal.
const WAIT: Duration = Duration::from_secs(10);

/// The secret of this server that every form carries. A page of another site cannot read it.
pub(super) struct FormToken(String);

impl FormToken {
    pub(super) fn generate() -> Result<Self> {
        Ok(Self(generate_secret()?))
    }

    /// Returns the value for a hidden field of a form.
    pub(super) fn as_text(&self) -> &str {
        &self.0
    }
}

/// The fields of a form.
struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Parses a body in the encoding `application/x-www-form-urlencoded`.
    fn parse(body: &[u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?;
        let pairs = body.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_form_text(name)?, decode_form_text(value)?))
        });
        pairs.collect::<Option<Vec<_>>>().map(Self)
    }

    fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(known, _)| known == name);
        field.map_or("", |(_, value)| value.as_str())
    }

    /// Returns the change of marks that the form asks for.
    fn mark_change(&self) -> Option<MarkChange> {
        let text = self.get("text").to_owned();
        Some(match self.get("change") {
            "star" => MarkChange::Star,
            "unstar" => MarkChange::Unstar,
            "tag" => MarkChange::AddTag(text),
            "untag" => MarkChange::RemoveTag(text),
            "note" => MarkChange::SetNote(text),
            "rename" => MarkChange::SetTitle(text),
            _ => return None,
        })
    }
}

/// Decodes a name or value of a form; `None` if it is malformed.
fn decode_form_text(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Changes the marks of a session, and shows its page again.
pub(super) async fn change_marks(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    body: Bytes,
) -> HandlerResult<Response> {
    let fields =
        FormFields::parse(&body).ok_or_else(|| RequestFailure::bad_request("not a form"))?;
    let token = app.form_token.as_ref();
    if !token.is_some_and(|token| is_same_secret(fields.get("token"), token.as_text())) {
        return Err(RequestFailure::forbidden(
            "the form has expired: reload the page it was on, and try again",
        ));
    }
    let change =
        fields.mark_change().ok_or_else(|| RequestFailure::bad_request("unknown change"))?;
    let place = app
        .run_query(move |journal, _| {
            let entry = journal.find_session(&id)?;
            let place = params::session_url(&entry.id);
            // The journals of queries only read.
            journal.try_clone()?.mark_sessions(&[entry], &[change], WAIT)?;
            Ok(place)
        })
        .await?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_as_browsers_encode_them() {
        let fields = FormFields::parse(b"change=note&text=a+b%26c%0D%0A%C3%BC&empty=").unwrap();
        assert_eq!(fields.get("text"), "a b&c\r\n\u{fc}");
        assert_eq!((fields.get("empty"), fields.get("absent")), ("", ""));
        assert_eq!(fields.mark_change(), Some(MarkChange::SetNote("a b&c\r\n\u{fc}".to_owned())));
        assert!(FormFields::parse(b"a=%zz").is_none() && FormFields::parse(b"a=%4").is_none());
        assert!(FormFields::parse(b"a=%ff").is_none());
        assert!(FormFields::parse(b"change=delete").unwrap().mark_change().is_none());
    }
}
