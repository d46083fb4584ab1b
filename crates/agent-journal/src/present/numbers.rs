//! Numbers, sizes, durations and costs in words.

use crate::analyze::{Basis, Cost, Figures, NotInTranscript};
use crate::model::Tokens;

/// Formats a number in short form: 950, 41k, 1.2M.
pub fn amount(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..10_000_000 => format!("{:.1}M", number as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

/// Formats a number in full, in groups of three digits: 14,310.
pub fn thousands(number: u64) -> String {
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

/// Formats one figure of `tokens`; `–` when no tokens were recorded.
pub fn tokens(tokens: &Tokens, number: u64) -> String {
    if tokens.is_known() { amount(number) } else { "–".to_owned() }
}

/// Formats the four classes of tokens.
pub fn token_classes(all: &Tokens) -> String {
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

/// Describes the usage that an agent's own bill lists beyond the messages, where there is any.
pub fn not_in_transcript(figures: &Figures) -> Option<String> {
    let NotInTranscript { tokens, cost } = &figures.not_in_transcript;
    (!figures.not_in_transcript.has_no_tokens()).then(|| {
        let tokens = token_classes(tokens);
        format!("not in the transcript: {tokens} · cost {}", money_of_share(cost))
    })
}

/// Formats a cost, with the share of tokens that has a price where that is not all of them.
pub fn money_of_share(cost: &Cost) -> String {
    match cost.priced_share() {
        Some(share) if share < 1.0 && cost.known_micros().is_some() => {
            format!("{} ({} of tokens priced)", money(cost), percent(share))
        }
        _ => money(cost),
    }
}

/// Formats a share in percent.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // Only a share of exactly 1 is shown as 100 %.
    let percent = if share < 1.0 { percent.min(99.9) } else { percent };
    if percent < 10.0 || percent > 99.0 && percent < 100.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Formats the duration of a session; `–` when at most one instant is recorded.
pub fn known_duration(seconds: u64) -> String {
    if seconds == 0 { "–".to_owned() } else { duration(seconds) }
}

/// Formats a cost: `~` marks an estimate, `+` that some tokens have no known price, `–` an unknown
/// cost.
pub fn money(cost: &Cost) -> String {
    let Some(micros) = cost.known_micros() else { return "–".to_owned() };
    let mark = if cost.cost_basis() == Some(Basis::Recorded) { "" } else { "~" };
    let more = if cost.unpriced_tokens() > 0 { "+" } else { "" };
    match micros {
        1..10_000 => format!("{mark}<$0.01{more}"),
        _ => {
            let cents = (micros + 5_000) / 10_000;
            format!("{mark}${}.{:02}{more}", thousands(cents / 100), cents % 100)
        }
    }
}

/// Formats a number of bytes in short form.
pub fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{} kB", number / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", number / 1_000_000),
        _ => format!("{:.1} GB", number as f64 / 1e9),
    }
}

/// Formats a duration in seconds in short form.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a number with its noun, in the singular or plural.
pub fn count(number: u64, what: &str) -> String {
    format!("{} {}", amount(number), plural(number, what))
}

/// Returns a noun in the form that follows a number.
pub fn plural(number: u64, noun: &str) -> String {
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
    fn durations_shares_and_sizes_have_one_form() {
        let all = [59, 60, 3_599, 3_660].map(duration);
        assert_eq!(all, ["59 s", "1 min", "59 min", "1 h 1 m"]);
        assert_eq!(known_duration(0), "–");
        assert_eq!([0.041, 0.5, 0.9999, 1.0].map(percent), ["4.1 %", "50 %", "99.9 %", "100 %"]);
        assert_eq!([999, 41_000, 31_000_000].map(bytes), ["999 B", "41 kB", "31 MB"]);
        assert_eq!([count(1, "prompt"), count(1_200, "prompt")], ["1 prompt", "1.2k prompts"]);
    }
}
