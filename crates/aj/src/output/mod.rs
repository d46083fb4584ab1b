//! How answers look: colour and width are decided here, once.

pub(crate) mod chart;
pub(crate) mod file;
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

use agent_journal::analyze::{Basis, Cost, Figures, NotInTranscript};
use agent_journal::connectors::Agent;
use agent_journal::model::{Timestamp, Tokens};
use agent_journal::{Entry, Journal, TextKind, without_escapes};
use anstream::AutoStream;
use anstyle::Style;
use jiff::Zoned;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Facts that are not the point.
pub(crate) const DIM: Style = Style::new().dimmed();

/// The point.
pub(crate) const BOLD: Style = Style::new().bold();

/// Where an answer goes: to be flushed at its end, and not written line by line.
pub(crate) fn stdout() -> AutoStream<Box<dyn Write>> {
    let out = std::io::stdout();
    let choice = AutoStream::choice(&out);
    AutoStream::new(Box::new(BufWriter::new(out.lock())), choice)
}

/// Width of the output in columns.
pub(crate) fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    named.or_else(seen).unwrap_or(100).clamp(40, 240)
}

/// The agent of a session, for its badge.
pub(crate) fn agent_of(entry: &Entry) -> Option<&'static Agent> {
    Journal::agents().find(|agent| agent.id == entry.agent)
}

/// An agent's badge, padded to one width.
pub(crate) fn badge(entry: &Entry) -> String {
    let name = agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.badge);
    let style = agent_of(entry).map_or(DIM, color);
    format!("{style}{}{style:#}", pad(name, 7))
}

/// An agent's colour.
pub(crate) fn color(agent: &Agent) -> Style {
    Style::new().fg_color(palette::shown(agent.color)).bold()
}

/// Who said what was found.
pub(crate) fn speaker(entry: &Entry, kind: TextKind) -> &str {
    match kind {
        TextKind::Prompt if entry.is_agent_session => "parent",
        TextKind::Prompt => "you",
        TextKind::Reply => agent_of(entry).map_or("agent", |agent| agent.badge),
        TextKind::ToolInput | TextKind::ToolOutput => "tool",
        TextKind::Thinking => "thought",
        TextKind::Title => "title",
        TextKind::Document => "summary",
    }
}

/// The beginning of a session's id: short, and still its own.
pub(crate) fn short_id(entry: &Entry) -> &str {
    &entry.short_id
}

/// The columns that short ids take in a list.
pub(crate) fn id_width<'e>(entries: impl Iterator<Item = &'e Entry>) -> usize {
    entries.map(|entry| short_id(entry).width()).fold(8, usize::max)
}

/// Pads a text to a width.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let missing = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Pads a text on its left.
pub(crate) fn pad_left(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{}{text}", " ".repeat(missing))
}

/// Cuts a text to a width, and makes it safe for a terminal.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
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

/// The beginning of a text of at most so many bytes.
pub(crate) fn cut_bytes(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// How many bytes so many tokens have at least: code and JSON have fewer per token than prose.
pub(crate) fn bytes_of_tokens(tokens: u64) -> usize {
    tokens.saturating_mul(3) as usize
}

/// Leaves out what could steer a terminal, ring its bell or turn the text around.
pub(crate) fn plain(text: &str) -> String {
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

/// A number people can take in: 950, 41k, 1.2M.
pub(crate) fn amount(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..10_000_000 => format!("{:.1}M", number as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

/// A number in full, in groups of three: 14,310.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of some tokens, `–` when none of them were recorded.
pub(crate) fn tokens(tokens: &Tokens, number: u64) -> String {
    if tokens.is_known() { amount(number) } else { "–".to_owned() }
}

/// The four classes of tokens in words.
pub(crate) fn token_classes(all: &Tokens) -> String {
    if !all.is_known() {
        return "tokens –".to_owned();
    }
    format!(
        "tokens in {} out {} cache read {} write {}",
        amount(all.input),
        amount(all.output),
        amount(all.cache_read),
        amount(all.cache_creation),
    )
}

/// Returns what an agent's own bill lists beyond the messages, where there is something.
pub(crate) fn not_in_transcript(figures: &Figures) -> Option<String> {
    let NotInTranscript { tokens, cost } = &figures.not_in_transcript;
    (!figures.not_in_transcript.is_empty()).then(|| {
        let tokens = token_classes(tokens);
        format!("not in the transcript: {tokens} · cost {}", money_of_share(cost))
    })
}

/// An amount of money with the share of the tokens that it stands for, where that is not all.
pub(crate) fn money_of_share(cost: &Cost) -> String {
    match cost.priced_share() {
        Some(share) if share < 1.0 && cost.micros().is_some() => {
            format!("{} ({} of tokens priced)", money(cost), percent(share))
        }
        _ => money(cost),
    }
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // Nothing is called all or nothing that is not.
    let percent = if share < 1.0 { percent.min(99.9) } else { percent };
    if percent < 10.0 || percent > 99.0 && percent < 100.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A duration of a session, `–` when no more than one instant is recorded.
pub(crate) fn known_duration(seconds: u64) -> String {
    if seconds == 0 { "–".to_owned() } else { duration(seconds) }
}

/// An amount of money: `~` marks an estimate, `+` that some tokens have no known price, `–` what
/// is not known.
pub(crate) fn money(cost: &Cost) -> String {
    let Some(micros) = cost.micros() else { return "–".to_owned() };
    let mark = if cost.basis() == Some(Basis::Recorded) { "" } else { "~" };
    let more = if cost.unpriced_tokens() > 0 { "+" } else { "" };
    match micros {
        1..10_000 => format!("{mark}<$0.01{more}"),
        _ => {
            let cents = (micros + 5_000) / 10_000;
            format!("{mark}${}.{:02}{more}", thousands(cents / 100), cents % 100)
        }
    }
}

/// A size people can take in.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{} kB", number / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", number / 1_000_000),
        _ => format!("{:.1} GB", number as f64 / 1e9),
    }
}

/// A duration people can take in.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// When something was, seen from now.
pub(crate) fn ago(at: Option<Timestamp>, now: &Zoned) -> String {
    let Some(at) = at else { return "–".to_owned() };
    let then = local(at, now);
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

/// An instant on the user's clock.
pub(crate) fn clock(at: Option<Timestamp>, now: &Zoned) -> String {
    let Some(at) = at else { return "–".to_owned() };
    local(at, now).strftime("%Y-%m-%d %H:%M").to_string()
}

fn local(at: Timestamp, now: &Zoned) -> Zoned {
    let instant = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    instant.to_zoned(now.time_zone().clone())
}

/// A kind of text in words.
pub(crate) fn kind_name(kind: agent_journal::TextKind) -> String {
    let name = serde_json::to_value(kind).ok();
    name.as_ref().and_then(serde_json::Value::as_str).unwrap_or("text").replace('_', " ")
}

/// Why a file could not be read, each part of the reason once and without the file's name.
pub(crate) fn cause(path: &str, reason: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in reason.split(": ") {
        if !part.contains(path) && !parts.iter().any(|known| known.contains(part)) {
            parts.push(part);
        }
    }
    if parts.is_empty() { reason.to_owned() } else { parts.join(": ") }
}

/// One or many of something.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{} {}", amount(number), plural(number, what))
}

/// Returns a noun as it stands after a number.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_stay_short() {
        let check = |number, expected: &str| assert_eq!(amount(number), expected);
        check(950, "950");
        check(1_234, "1.2k");
        check(41_999, "41k");
        check(1_250_000, "1.2M");
        check(812_000_000, "812M");
        check(3_100_000_000, "3.1G");
    }

    #[test]
    fn long_numbers_are_grouped() {
        let check = |number, expected: &str| assert_eq!(thousands(number), expected);
        check(0, "0");
        check(999, "999");
        check(14_310, "14,310");
        check(1_000_000, "1,000,000");
    }

    #[test]
    fn money_that_is_not_known_is_never_zero() {
        assert_eq!(money(&Cost::default()), "–");
    }

    #[test]
    fn texts_are_cut_at_their_width_and_cannot_steer_the_terminal() {
        assert_eq!(cut("検索エンジン", 7), "検索エ…");
        assert_eq!(cut("short", 7), "short");
        assert_eq!(plain("a\x1b[31mb\u{202e}c\nd\x1b\x07"), "abc\nd");
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        let now: Zoned = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let check = |at: &str, expected: &str| {
            assert_eq!(ago(Timestamp::parse(at), &now), expected, "{at}");
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
