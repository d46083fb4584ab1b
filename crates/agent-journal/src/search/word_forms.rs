//! Finds other forms of an English word: plurals, `-ed` and `-ing`. A query is expanded by the
//! forms that occur in the index, so the index itself holds only words as written.

use super::engine::{QueryCompiler, parts_of};
use super::query::{Clause, Pattern};

/// The minimum length of a stem: a shorter one belongs to too many words.
const SHORTEST_STEM: usize = 3;

impl QueryCompiler<'_> {
    /// Replaces each word by all its forms that occur in the index. Returns `None` when no word
    /// has another form there.
    pub(super) fn with_word_forms(
        &self,
        clauses: &[Clause],
    ) -> tantivy::Result<Option<Vec<Clause>>> {
        let mut widened = clauses.to_vec();
        let is_widened = self.widen(&mut widened)?;
        Ok(is_widened.then_some(widened))
    }

    fn widen(&self, clauses: &mut [Clause]) -> tantivy::Result<bool> {
        let mut is_widened = false;
        for clause in clauses.iter_mut().filter(|clause| !clause.negated) {
            match &mut clause.pattern {
                Pattern::Word(typed) => {
                    let mut forms = self.other_forms(typed)?;
                    if forms.is_empty() {
                        continue;
                    }
                    let typed = std::mem::take(typed);
                    forms.insert(0, typed.clone());
                    clause.pattern = Pattern::OneOf { typed, readings: forms };
                    is_widened = true;
                }
                Pattern::Any(alternatives) => {
                    for clauses in alternatives {
                        is_widened |= self.widen(clauses)?;
                    }
                }
                _ => {}
            }
        }
        Ok(is_widened)
    }

    /// Returns the other forms of a typed word that occur in the index. Identifiers, codes and stop
    /// words have none.
    pub(super) fn other_forms(&self, typed: &str) -> tantivy::Result<Vec<String>> {
        let parts = parts_of(typed);
        let [word] = parts.as_slice() else { return Ok(Vec::new()) };
        let mut known = Vec::new();
        if super::engine::is_stop_word(word) {
            return Ok(known);
        }
        for form in possible_forms(word) {
            if self.frequency(&form)? > 0 {
                known.push(form);
            }
        }
        Ok(known)
    }
}

/// Returns every other form that a word could have. Most of them are not words: the index decides.
fn possible_forms(word: &str) -> Vec<String> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let stem = if is_plain { stem(word) } else { String::new() };
    if stem.len() < SHORTEST_STEM {
        return Vec::new();
    }
    let mut forms = Vec::new();
    let doubled = stem.chars().next_back().filter(|last| !is_vowel(*last));
    let bases =
        [Some(stem.clone()), Some(format!("{stem}e")), doubled.map(|one| format!("{stem}{one}"))];
    for base in bases.into_iter().flatten() {
        for ending in ["", "s", "es", "d", "ed", "ing"] {
            forms.push(format!("{base}{ending}"));
        }
    }
    if let Some(beginning) = stem.strip_suffix('y') {
        forms.push(format!("{beginning}ies"));
        forms.push(format!("{beginning}ied"));
    }
    forms.retain(|form| form != word && self::stem(form) == stem);
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Returns the common stem of the forms of a word: without plural, `-ed`, `-ing`, a final `e` and a
/// doubled last letter.
fn stem(word: &str) -> String {
    let mut stem = without_ending(word);
    if stem.len() > SHORTEST_STEM
        && let Some(shorter) = stem.strip_suffix('e')
    {
        stem = shorter.to_owned();
    }
    let mut letters = stem.chars().rev();
    if let (Some(last), Some(before)) = (letters.next(), letters.next())
        && last == before
        && !is_vowel(last)
        && stem.len() > SHORTEST_STEM
    {
        stem.pop();
    }
    stem
}

fn without_ending(word: &str) -> String {
    let is_stem = |text: &str| text.len() >= SHORTEST_STEM && text.chars().any(is_vowel);
    if let Some(beginning) = word.strip_suffix("ies").or_else(|| word.strip_suffix("ied"))
        && beginning.len() >= 2
    {
        return format!("{beginning}y");
    }
    for ending in ["ing", "ed"] {
        if let Some(beginning) = word.strip_suffix(ending)
            && is_stem(beginning)
            && !word.ends_with("eed")
        {
            return beginning.to_owned();
        }
    }
    if let Some(beginning) = word.strip_suffix("es")
        && beginning.ends_with(['s', 'x', 'z'])
        && is_stem(beginning)
    {
        return beginning.to_owned();
    }
    match word.strip_suffix('s') {
        // `status`, `analysis` and `class` are no plurals.
        Some(beginning) if is_stem(beginning) && !beginning.ends_with(['s', 'u', 'i']) => {
            without_sibilant(beginning)
        }
        _ => word.to_owned(),
    }
}

/// Removes the `e` of `crashes` and `searches`, which belongs to the ending.
fn without_sibilant(beginning: &str) -> String {
    let shorter = beginning.strip_suffix('e').filter(|it| it.ends_with("ch") || it.ends_with("sh"));
    shorter.unwrap_or(beginning).to_owned()
}

fn is_vowel(one: char) -> bool {
    "aeiouy".contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_have_one_stem() {
        for forms in [
            "migration migrations",
            "migrate migrates migrated migrating",
            "test tests tested testing",
            "query queries queried querying",
            "retry retries retried retrying",
            "cache caches cached caching",
            "crash crashes crashed crashing",
            "run runs running",
            "stop stops stopped stopping",
            "cancel cancels cancelled canceled cancelling",
            "class classes",
            "index indexes indexed indexing",
            "fill fills filled filling",
            "release releases released releasing",
            "log logs logged logging",
            "search searches searched searching",
        ] {
            let words: Vec<&str> = forms.split(' ').collect();
            for word in &words {
                assert_eq!(stem(word), stem(words[0]), "{word}");
                let found = possible_forms(word);
                for other in words.iter().filter(|other| *other != word) {
                    assert!(found.contains(&(*other).to_owned()), "{other} of {word}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn words_that_only_look_alike_have_other_stems() {
        for (one, other) in [
            ("string", "str"),
            ("status", "statu"),
            ("need", "ne"),
            ("speed", "spe"),
            ("worker", "work"),
            ("thing", "th"),
            ("analysis", "analysi"),
        ] {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
        for word in ["us", "id", "e0382", "größe", "x86"] {
            assert_eq!(possible_forms(word), [] as [&str; 0], "{word}");
        }
    }
}
