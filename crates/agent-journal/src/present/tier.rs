//! The words for how a search result was found.

use super::count;
use crate::search::Tier;

/// Returns the words for a tier.
pub fn tier_label(tier: Tier) -> &'static str {
    match tier {
        Tier::ExactPhrase => "exact words",
        Tier::AllWords => "all words",
        Tier::WordForms => "other word forms",
        Tier::Typo => "similar spelling",
        Tier::SomeWords => "not all words",
        Tier::Meaning => "by meaning",
        Tier::Listed => "by fields",
    }
}

/// Returns the words for a tier, or `None` if the result has everything that the query asks for.
pub fn tier_note(tier: Tier) -> Option<&'static str> {
    let is_complete = matches!(tier, Tier::ExactPhrase | Tier::AllWords | Tier::Listed);
    (!is_complete).then(|| tier_label(tier))
}

/// Returns the line for an answer without results, although this many share some words with the
/// query.
pub fn nothing_close_line(distant: u64) -> String {
    let verb = if distant == 1 { "shares" } else { "share" };
    format!("nothing close; {} {verb} some words", count(distant, "session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_has_one_label_and_a_note_where_something_is_missing() {
        let check = |tier, label: &str, note: Option<&str>| {
            assert_eq!((tier_label(tier), tier_note(tier)), (label, note), "{tier:?}");
        };
        check(Tier::ExactPhrase, "exact words", None);
        check(Tier::AllWords, "all words", None);
        check(Tier::WordForms, "other word forms", Some("other word forms"));
        check(Tier::Typo, "similar spelling", Some("similar spelling"));
        check(Tier::SomeWords, "not all words", Some("not all words"));
        check(Tier::Meaning, "by meaning", Some("by meaning"));
        check(Tier::Listed, "by fields", None);
    }
}
