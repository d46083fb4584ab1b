//! Terminal and JSON output: styles, widths and the formatting of numbers, times and names.

pub(crate) mod chart;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod handoff;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod pager;
pub(crate) mod palette;
pub(crate) mod quote;
pub(crate) mod screen;
pub(crate) mod search;
pub(crate) mod shell;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod transcript;
pub(crate) mod wrap;

use std::io::{BufWriter, Write};

use agent_journal::connectors::Agent;
use agent_journal::model::{Message, Timestamp};
use agent_journal::present::Speaker;
pub(crate) use agent_journal::present::{
    amount, bytes, count, duration, known_duration, money, money_of_share, not_in_transcript,
    percent, plural, thousands, token_classes, tokens,
};
use agent_journal::{Entry, Journal, TextKind, without_escapes};
use anstream::AutoStream;
use anstyle::Style;
use jiff::Zoned;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Style of secondary facts.
pub(crate) const DIM: Style = Style::new().dimmed();

/// Style of the main fact of a line.
pub(crate) const BOLD: Style = Style::new().bold();

/// Returns a buffered standard output; the caller flushes it at the end.
pub(crate) fn buffered_stdout() -> AutoStream<Box<dyn Write>> {
    let out = std::io::stdout();
    let choice = AutoStream::choice(&out);
    AutoStream::new(Box::new(BufWriter::new(out.lock())), choice)
}

/// Returns the width of the output in columns: `COLUMNS`, the terminal's width, or 100.
pub(crate) fn output_width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    named.or_else(seen).unwrap_or(100).clamp(40, 240)
}

/// Returns the agent of a session.
pub(crate) fn agent_of(entry: &Entry) -> Option<&'static Agent> {
    Journal::supported_agents().find(|agent| agent.id == entry.agent)
}

/// Returns the coloured badge of a session's agent, padded to one width.
pub(crate) fn session_badge(entry: &Entry) -> String {
    let style = agent_of(entry).map_or(DIM, agent_style);
    format!("{style}{}{style:#}", pad_to_width(agent_badge(entry), 7))
}

/// Returns the text style of an agent: bold, in the agent's colour.
pub(crate) fn agent_style(agent: &Agent) -> Style {
    Style::new().fg_color(palette::supported_color(agent.color.into())).bold()
}

/// Returns the label of the author of a text that a search found.
pub(crate) fn text_author(entry: &Entry, kind: TextKind) -> &str {
    Speaker::of_text(entry, kind).label(agent_badge(entry))
}

/// Returns the label of the author of a message.
pub(crate) fn message_author<'e>(entry: &'e Entry, message: &Message) -> &'e str {
    Speaker::of_message(entry, message).label(agent_badge(entry))
}

/// Returns the short name of a session's agent.
fn agent_badge(entry: &Entry) -> &str {
    agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.badge)
}

/// Returns a short beginning of a session's id that no other session has.
pub(crate) fn short_id(entry: &Entry) -> &str {
    &entry.short_id
}

/// Returns the columns that the short ids of a list need.
pub(crate) fn id_width<'e>(entries: impl Iterator<Item = &'e Entry>) -> usize {
    entries.map(|entry| short_id(entry).width()).fold(8, usize::max)
}

/// Cuts or pads a text to a width, with the spaces on its right.
pub(crate) fn pad_to_width(text: &str, width: usize) -> String {
    let text = cut_to_width(text, width);
    let missing = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Pads a text to a width, with the spaces on its left.
pub(crate) fn pad_left(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{}{text}", " ".repeat(missing))
}

/// Cuts a text to a width and removes characters that could control the terminal.
pub(crate) fn cut_to_width(text: &str, width: usize) -> String {
    let text = plain_text(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used >= width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

/// Returns the beginning of a text, of at most `most` bytes.
pub(crate) fn cut_bytes(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the fewest bytes that so many tokens have: code and JSON have fewer bytes per token than
/// prose.
pub(crate) fn bytes_of_tokens(tokens: u64) -> usize {
    tokens.saturating_mul(3) as usize
}

/// Removes characters that could control a terminal, ring its bell or reverse the text.
pub(crate) fn plain_text(text: &str) -> String {
    let is_odd = |character: char| {
        (character.is_control() && character != '\n' && character != '\t')
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(is_odd) {
        without_escapes(text).chars().filter(|one| !is_odd(*one)).collect()
    } else {
        text.to_owned()
    }
}

/// Formats a time relative to now.
pub(crate) fn relative_time(at: Option<Timestamp>, now: &Zoned) -> String {
    let Some(at) = at else { return "–".to_owned() };
    let then = to_local_time(at, now);
    let seconds = now.timestamp().as_second() - then.timestamp().as_second();
    let days = now.date().since(then.date()).map_or(0, |span| i64::from(span.get_days()));
    match (seconds, days) {
        (..0, _) => then.strftime("%-d %b %Y").to_string(),
        (0..90, _) => "just now".to_owned(),
        (90..5400, _) => format!("{} min ago", seconds / 60),
        (_, 0) => format!("{} h ago", seconds / 3600),
        (_, 1) => "yesterday".to_owned(),
        (_, 2..7) => then.strftime("%a").to_string(),
        _ if then.year() == now.year() => then.strftime("%-d %b").to_string(),
        _ => then.strftime("%-d %b %Y").to_string(),
    }
}

/// Formats a time in the user's time zone, to the minute.
pub(crate) fn local_minute(at: Option<Timestamp>, now: &Zoned) -> String {
    let Some(at) = at else { return "–".to_owned() };
    to_local_time(at, now).strftime("%Y-%m-%d %H:%M").to_string()
}

fn to_local_time(at: Timestamp, now: &Zoned) -> Zoned {
    let instant = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    instant.to_zoned(now.time_zone().clone())
}

/// Returns the reason why a file could not be read, each part once and without the file's name.
pub(crate) fn failure_cause(path: &str, reason: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in reason.split(": ") {
        if !part.contains(path) && !parts.iter().any(|known| known.contains(part)) {
            parts.push(part);
        }
    }
    if parts.is_empty() { reason.to_owned() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_their_width_and_cannot_steer_the_terminal() {
        assert_eq!(cut_to_width("検索エンジン", 7), "検索エ…");
        assert_eq!(cut_to_width("short", 7), "short");
        assert_eq!(plain_text("a\x1b[31mb\u{202e}c\nd\x1b\x07"), "abc\nd");
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        let now: Zoned = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let check = |at: &str, expected: &str| {
            assert_eq!(relative_time(Timestamp::parse_iso_time(at), &now), expected, "{at}");
        };
        check("2026-11-15T11:59:30Z", "just now");
        check("2026-11-15T11:20:00Z", "40 min ago");
        check("2026-11-15T02:00:00Z", "10 h ago");
        check("2026-11-14T23:00:00Z", "yesterday");
        check("2026-11-10T23:00:00Z", "Tue");
        check("2026-11-03T23:00:00Z", "3 Nov");
        check("2025-11-03T23:00:00Z", "3 Nov 2025");
    }
}
