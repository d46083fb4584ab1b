//! Parses the query language: words, `"phrases"`, `begin*`, `-not`, `/regex/`, `OR`, parentheses,
//! and fields such as `agent:` and `since:`. Code is full of colons, slashes and parentheses, so
//! each of these has a meaning only at the start of a word.

use jiff::Zoned;

use super::field::{SearchField, field_prefix};
use super::query::{
    Clause, MAX_QUERY_BYTES, MAX_QUERY_DEPTH, MAX_QUERY_PATTERNS, MAX_QUERY_WORDS, Pattern,
};
use super::{Filter, Regex};
use crate::error::{Error, Result};
use crate::index::words;

/// A parser for one query.
pub(super) struct QueryParser<'t> {
    text: &'t str,
    at: usize,
    now: &'t Zoned,
    filter: Filter,
    /// The number of open parentheses.
    depth: usize,
    /// The number of words and fields read so far.
    words: usize,
    /// The number of prefixes and regular expressions read so far.
    patterns: usize,
    /// Whether parsing failed at a field that was clearly meant as one.
    pub(super) is_field_mistake: bool,
}

/// One item between two spaces.
enum QueryItem {
    Clause(Clause),
    /// Clauses in parentheses, and the first field among them.
    Group {
        clauses: Vec<Clause>,
        field: Option<String>,
    },
    Field {
        field: &'static SearchField,
        value: String,
        negated: bool,
    },
}

/// Items joined by `OR`; usually a single item.
type QueryAlternatives = Vec<QueryItem>;

impl<'t> QueryParser<'t> {
    pub(super) fn new(text: &'t str, now: &'t Zoned) -> Self {
        let filter = Filter::default();
        Self { text, at: 0, now, filter, depth: 0, words: 0, patterns: 0, is_field_mistake: false }
    }

    /// Parses the whole text. It fails for every text that is not a query.
    pub(super) fn query(&mut self) -> Result<(Vec<Clause>, Filter)> {
        let (clauses, _) = self.sequence(None)?;
        Ok((clauses, std::mem::take(&mut self.filter)))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Parses up to the end, or to the parenthesis that closes the one at `opened`.
    fn sequence(&mut self, opened: Option<usize>) -> Result<(Vec<Clause>, Option<String>)> {
        let mut all: Vec<QueryAlternatives> = Vec::new();
        let mut joins = false;
        loop {
            self.at = self.text.len() - self.rest().trim_start().len();
            let rest = self.rest();
            if rest.is_empty() {
                match opened {
                    Some(at) => return Err(self.unclosed("parenthesis", at)),
                    None => break,
                }
            }
            if rest.starts_with(')') {
                if opened.is_none() {
                    return Err(self.stray(self.at));
                }
                self.at += 1;
                break;
            }
            if !all.is_empty() && !joins {
                if is_operator(rest, "OR") {
                    self.at += 2;
                    joins = true;
                    continue;
                }
                if is_operator(rest, "AND") && !is_shouted_on(&rest[3..]) {
                    self.at += 3;
                    continue;
                }
            }
            let Some(item) = self.item(opened.is_some())? else { continue };
            match all.last_mut() {
                Some(last) if joins => last.push(item),
                _ => all.push(vec![item]),
            }
            joins = false;
        }
        self.resolve(all)
    }

    /// Converts the parsed items into clauses and moves fields to the filter.
    fn resolve(&mut self, all: Vec<QueryAlternatives>) -> Result<(Vec<Clause>, Option<String>)> {
        let (mut clauses, mut first_field) = (Vec::new(), None);
        for mut alternatives in all {
            let fields = alternatives.iter().filter_map(QueryItem::field).collect::<Vec<_>>();
            first_field = first_field.or_else(|| fields.first().map(|name| (*name).to_owned()));
            if alternatives.len() > 1 && !fields.is_empty() {
                let same = fields.iter().all(|name| *name == fields[0]);
                if !same
                    || fields.len() < alternatives.len()
                    || !alternatives.iter().all(QueryItem::joins)
                {
                    self.is_field_mistake = true;
                    return Err(wrong(format!(
                        "`{}:` cannot be joined by OR here: OR joins words, or values of one field",
                        fields[0]
                    )));
                }
            }
            if alternatives.len() == 1 || !fields.is_empty() {
                for item in alternatives {
                    self.take(item, &mut clauses)?;
                }
            } else {
                let options = alternatives.drain(..).map(QueryItem::into_clauses).collect();
                clauses.push(Clause::new(Pattern::Any(options)));
            }
        }
        Ok((clauses, first_field))
    }

    fn take(&mut self, item: QueryItem, clauses: &mut Vec<Clause>) -> Result<()> {
        match item {
            QueryItem::Clause(clause) => clauses.push(clause),
            QueryItem::Group { clauses: inner, .. } => clauses.extend(inner),
            QueryItem::Field { field, value, negated } => {
                let filter = if negated {
                    &mut **self.filter.not.get_or_insert_default()
                } else {
                    &mut self.filter
                };
                field.add_to(filter, &value, self.now).inspect_err(|error| {
                    // Prose and code contain `is:it`; nobody means a field by that.
                    let is_prose = matches!(field.name, "is" | "has" | "include");
                    self.is_field_mistake = !is_prose || error.to_string().contains("did you mean");
                })?;
            }
        }
        Ok(())
    }

    /// Parses one item. Returns `None` for a lone `*`, which means everything.
    fn item(&mut self, grouped: bool) -> Result<Option<QueryItem>> {
        let mut negated = false;
        if is_operator(self.rest(), "NOT") && !is_shouted(&self.rest()[3..]) {
            self.at += 3;
            self.at = self.text.len() - self.rest().trim_start().len();
            negated = true;
        }
        if self.rest().strip_prefix('-').is_some_and(begins_something) {
            self.at += 1;
            negated = !negated;
        }
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix('*')
            && after.chars().next().is_none_or(char::is_whitespace)
        {
            self.at += 1;
            return Ok(None);
        }
        if rest.starts_with('(') && !rest.starts_with("()") {
            return self.group(negated).map(Some);
        }
        let pattern = if rest.starts_with('"') {
            let phrase = self.quoted()?;
            self.count_words(words(phrase).len())?;
            Pattern::Phrase(phrase.to_owned())
        } else if let Some((source, flags, length)) = regex(rest) {
            self.count_pattern()?;
            self.count_words(1)?;
            let place = self.place(self.at);
            self.at += length;
            Pattern::Regex(Regex::new(source, flags).map_err(|reason| {
                wrong(format!("`/{source}/` is not a valid regular expression{place}: {reason}"))
            })?)
        } else {
            match self.word(grouped, negated)? {
                Ok(pattern) => pattern,
                Err(field) => return Ok(Some(field)),
            }
        };
        Ok(Some(QueryItem::Clause(Clause { pattern, negated })))
    }

    fn group(&mut self, negated: bool) -> Result<QueryItem> {
        let opened = self.at;
        if self.depth == MAX_QUERY_DEPTH {
            return Err(wrong(format!(
                "parentheses are nested more than {MAX_QUERY_DEPTH} deep{} — remove some, or \
                 quote them to search for them",
                self.place(opened)
            )));
        }
        self.depth += 1;
        self.at += 1;
        let (clauses, field) = self.sequence(Some(opened))?;
        self.depth -= 1;
        if !negated {
            return Ok(QueryItem::Group { clauses, field });
        }
        if let Some(name) = field {
            self.is_field_mistake = true;
            return Err(wrong(format!(
                "`{name}:` cannot be inside excluded parentheses: write `-{name}:`"
            )));
        }
        Ok(QueryItem::Clause(Clause { pattern: Pattern::Any(vec![clauses]), negated }))
    }

    /// Parses a quoted text and returns it without its quotes.
    fn quoted(&mut self) -> Result<&'t str> {
        let Some((inside, _)) = self.rest()[1..].split_once('"') else {
            return Err(self.unclosed("quote", self.at));
        };
        self.at += inside.len() + 2;
        Ok(inside)
    }

    /// Parses a word, or a field with its value.
    fn word(&mut self, grouped: bool, negated: bool) -> Result<Result<Pattern, QueryItem>> {
        let rest = self.rest();
        let end = rest.find(|one: char| one.is_whitespace() || one == '"').unwrap_or(rest.len());
        let field = field_prefix(&rest[..end], &rest[end..]);
        self.is_field_mistake |= field.is_err();
        if let Some((field, length)) = field? {
            self.count_words(1)?;
            self.at += length;
            let value = self.value(field, grouped)?;
            return Ok(Err(QueryItem::Field { field, value, negated }));
        }
        let word = self.balanced(&rest[..end], grouped)?;
        self.count_words(words(word).len())?;
        self.at += word.len();
        Ok(Ok(match word.strip_suffix('*') {
            Some(beginning) if !beginning.is_empty() => {
                self.count_pattern()?;
                Pattern::Prefix(beginning.to_owned())
            }
            _ => Pattern::Word(word.to_owned()),
        }))
    }

    /// Counts words and fields. An item without a word counts as one.
    fn count_words(&mut self, count: usize) -> Result<()> {
        self.words += count.max(1);
        if self.words <= MAX_QUERY_WORDS {
            return Ok(());
        }
        Err(wrong(format!(
            "the query has more than {MAX_QUERY_WORDS} words — keep the ones that matter most"
        )))
    }

    /// Counts a prefix or a regular expression.
    fn count_pattern(&mut self) -> Result<()> {
        self.patterns += 1;
        if self.patterns <= MAX_QUERY_PATTERNS {
            return Ok(());
        }
        Err(wrong(format!(
            "the query has more than {MAX_QUERY_PATTERNS} prefixes (prefix*) and regular \
             expressions — use fewer"
        )))
    }

    /// Parses the value of a field: a word, a quoted text, or a time of two words.
    fn value(&mut self, field: &SearchField, grouped: bool) -> Result<String> {
        if self.rest().starts_with('"') {
            return Ok(self.quoted()?.to_owned());
        }
        let rest = self.rest();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let mut word = self.balanced(&rest[..end], grouped)?.to_owned();
        self.at += word.len();
        let next = self.rest().trim_start();
        let next = next.split([' ', '\t', '\n', ')']).next().unwrap_or_default();
        if field.is_time() && super::date::is_two_words(&word, next) {
            self.at = self.text.len() - self.rest().trim_start().len() + next.len();
            word = format!("{word} {next}");
        }
        Ok(word)
    }

    /// Removes closing parentheses at the end of a word that have no opening one in it.
    fn balanced(&self, word: &'t str, grouped: bool) -> Result<&'t str> {
        let mut kept = word;
        while kept.ends_with(')') && kept.matches(')').count() > kept.matches('(').count() {
            kept = &kept[..kept.len() - 1];
        }
        if !grouped && kept.len() < word.len() {
            return Err(self.stray(self.at + kept.len()));
        }
        Ok(kept)
    }

    /// Returns the error for a parenthesis at `at` that closes nothing.
    fn stray(&self, at: usize) -> Error {
        let rest = self.rest();
        let word = rest.split_whitespace().next().unwrap_or(rest);
        wrong(format!(
            "unmatched parenthesis{}: {word} — quote it to search for it",
            self.place(at)
        ))
    }

    fn unclosed(&self, what: &str, at: usize) -> Error {
        wrong(format!("unclosed {what}{}: {}", self.place(at), &self.text[at..]))
    }

    fn place(&self, at: usize) -> String {
        format!(" (character {})", self.text[..at].chars().count() + 1)
    }
}

impl QueryItem {
    fn field(&self) -> Option<&str> {
        match self {
            Self::Clause(_) => None,
            Self::Group { field, .. } => field.as_deref(),
            Self::Field { field, .. } => Some(field.name),
        }
    }

    /// Returns whether the item is a field whose values can be joined by `OR`.
    fn joins(&self) -> bool {
        matches!(self, Self::Field { field, negated: false, .. } if field.is_choice())
    }

    fn into_clauses(self) -> Vec<Clause> {
        match self {
            Self::Clause(clause) => vec![clause],
            Self::Group { clauses, .. } => clauses,
            Self::Field { .. } => Vec::new(),
        }
    }
}

/// Returns an error for a query that is longer than the limit.
pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_QUERY_BYTES {
        return Ok(());
    }
    Err(wrong(format!(
        "the query is too long: {} bytes, the limit is {MAX_QUERY_BYTES} — keep the words that \
         matter most",
        text.len()
    )))
}

/// Returns whether an item follows that `-` can negate.
fn begins_something(text: &str) -> bool {
    text.starts_with(|one: char| one == '"' || one == '(' || one.is_alphanumeric())
        || regex(text).is_some()
}

/// Returns whether a text begins with an operator that is followed by something else.
fn is_operator(text: &str, name: &str) -> bool {
    text.strip_prefix(name)
        .is_some_and(|rest| rest.starts_with(char::is_whitespace) && !rest.trim_start().is_empty())
}

/// Returns whether the next word is in capitals and is not an operator.
fn is_shouted_on(text: &str) -> bool {
    is_shouted(text) && !is_operator(text.trim_start(), "NOT")
}

/// Returns whether the next word is in capitals: then the word before it is not an operator, as in
/// `NOT NULL` and `FILE NOT FOUND`.
fn is_shouted(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.chars().filter(|one| one.is_alphabetic()).count() > 1
        && !word.chars().any(char::is_lowercase)
}

/// Parses `/…/` or `/…/i`; returns the expression, its flags and the total length. The first slash
/// that is not escaped must end a word: other texts with slashes are paths.
fn regex(text: &str) -> Option<(&str, &str, usize)> {
    let inside = text.strip_prefix('/')?;
    let mut escaped = false;
    let end = inside.find(|one: char| {
        let ends = one == '/' && !escaped;
        escaped = one == '\\' && !escaped;
        ends
    })?;
    let after = &inside[end + 1..];
    let flags = if after.starts_with('i') { &after[..1] } else { "" };
    let follows = after[flags.len()..].chars().next();
    let is_closed = follows.is_none_or(|one| one.is_whitespace() || one == ')');
    (end > 0 && is_closed).then(|| (&inside[..end], flags, end + 2 + flags.len()))
}

pub(super) fn wrong(message: String) -> Error {
    Error::Query { message }
}

#[cfg(test)]
mod tests {
    use super::super::Query;
    use super::super::query::join;
    use super::*;

    fn now() -> Zoned {
        "2026-11-15T12:00:00+01:00[Europe/Paris]".parse().unwrap()
    }

    fn parse(text: &str) -> Result<Query> {
        Query::parse_exact(text, &now())
    }

    /// Compares the parsed clauses, or the error, with `expected`.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(query) => join(&query.clauses),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn words_phrases_prefixes_and_what_must_not_be_there() {
        check("flaky login", "flaky login");
        check(r#""a b" c"#, r#""a b" c"#);
        check(r#"-x -"y z" token*"#, r#"-x -"y z" token*"#);
        check("a - b --flag", "a - b --flag");
        check("", "");
        let query = parse("x* -y \"z\"").unwrap();
        assert!(matches!(query.clauses[0].pattern, Pattern::Prefix(_)));
        assert!(query.clauses[1].negated);
        assert!(matches!(query.clauses[2].pattern, Pattern::Phrase(_)));
    }

    #[test]
    fn or_joins_its_neighbours_and_parentheses_hold_together() {
        check("fix login OR logout test", "fix (login OR logout) test");
        check("a OR b OR c", "(a OR b OR c)");
        check("(a b) OR c", "(a b OR c)");
        check("(a (b OR c))", "a (b OR c)");
        check("x -(a OR b)", "x -((a OR b))");
        check("x -(a b)", "x -(a b)");
        check("either or both", "either or both");
        check("OR x OR", "OR x OR");
    }

    #[test]
    fn not_and_and_mean_what_they_say() {
        check("login NOT draft", "login -draft");
        check("NOT draft login", "-draft login");
        check("login AND signin", "login signin");
        check("login AND NOT (a OR b)", "login -((a OR b))");
        check("login NOT -draft", "login draft");
        check("NOT NULL constraint failed", "NOT NULL constraint failed");
        check("FILE NOT FOUND", "FILE NOT FOUND");
        check("why NOT", "why NOT");
        check("AND x", "AND x");
        check("not draft", "not draft");
        check("*", "");
        check(
            "login) x",
            "unmatched parenthesis (character 6): login) — quote it to search for it",
        );
        let query = parse("x NOT agent:codex").unwrap();
        assert_eq!(query.filter.to_string(), "-agent:codex");
    }

    #[test]
    fn code_is_full_of_signs_that_mean_nothing() {
        check("std::mem error: http://x foo:bar", "std::mem error: http://x foo:bar");
        check("line:12 note:this todo:that node:18", "line:12 note:this todo:that node:18");
        check("main() foo(bar) (call() OR x)", "main() foo(bar) (call() OR x)");
        check("/etc/hosts /login a/b/", "/etc/hosts /login a/b/");
    }

    #[test]
    fn a_regex_stands_between_slashes() {
        check(r"/wait\w+/ x", r"/wait\w+/ x");
        check(r"/a\/b c/i", r"/a\/b c/i");
        check(r"-/err(or)?/ (/x+/ OR y)", r"-/err(or)?/ (/x+/ OR y)");
        let wrong = parse("login /fo(o/").unwrap_err().to_string();
        assert!(
            wrong.starts_with("`/fo(o/` is not a valid regular expression (character 7): "),
            "{wrong}"
        );
        assert!(!wrong.contains('\n'), "{wrong}");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        check("prjoect:web login", "unknown field `prjoect:` — did you mean `project:`?");
        check("agent:cl/aud x", "unknown agent `cl/aud` — did you mean `claude`?");
        check(r#"login "never closed"#, "unclosed quote (character 7): \"never closed");
        check(r#"x project:"my web"#, "unclosed quote (character 11): \"my web");
        check("a (b OR c", "unclosed parenthesis (character 3): (b OR c");
        check("a b) c", "unmatched parenthesis (character 4): b) — quote it to search for it");
        check("is:runing x", "unknown `is:runing` — did you mean `is:running`?");
        check(
            "since:tomorow",
            "`tomorow` is not a date — try 2026-11-03, 7d, 12h, yesterday or last week",
        );
        check(
            "login OR project:web",
            "`project:` cannot be joined by OR here: OR joins words, or values of one field",
        );
        check(
            "(login project:web) OR logout",
            "`project:` cannot be joined by OR here: OR joins words, or values of one field",
        );
    }

    #[test]
    fn a_query_beyond_a_limit_says_the_limit() {
        let nested =
            |depth: usize, open: &str| format!("{}a{}", open.repeat(depth), ")".repeat(depth));
        for open in ["(", "-(", "NOT (", "(b OR ", "NOT -("] {
            assert!(parse(&nested(MAX_QUERY_DEPTH, open)).is_ok(), "{open}");
            for depth in [MAX_QUERY_DEPTH + 1, 1000] {
                let error = parse(&nested(depth, open)).unwrap_err().to_string();
                let expected = "parentheses are nested more than 32 deep (character ";
                assert!(error.starts_with(expected), "{open}: {error}");
            }
        }
        let many = |count: usize, item: &str, between: &str| vec![item; count].join(between);
        for (item, between, most) in [
            ("word", " ", MAX_QUERY_WORDS),
            ("a.b", " OR ", MAX_QUERY_WORDS / 2),
            ("-\"a b c d\"", " ", MAX_QUERY_WORDS / 4),
            ("project:x", " ", MAX_QUERY_WORDS),
            ("-", " ", MAX_QUERY_WORDS),
            ("a*", " OR ", MAX_QUERY_PATTERNS),
            ("/ab+/", " ", MAX_QUERY_PATTERNS),
        ] {
            assert!(parse(&many(most, item, between)).is_ok(), "{item}");
            let error = parse(&many(most + 1, item, between)).unwrap_err().to_string();
            assert!(error.starts_with("the query has more than "), "{item}: {error}");
        }
        assert!(parse(&"w".repeat(MAX_QUERY_BYTES)).is_ok());
        check(
            &"w".repeat(MAX_QUERY_BYTES + 1),
            "the query is too long: 8193 bytes, the limit is 8192 — keep the words that matter most",
        );
        let deep = format!("/{}a{}/", "(".repeat(100), ")".repeat(100));
        let error = parse(&deep).unwrap_err().to_string();
        assert!(error.contains("maximum number of nested parentheses/brackets (64)"), "{error}");
    }

    #[test]
    fn fields_choose_where_to_look() {
        let filter = |text: &str| {
            let query = parse(text).unwrap();
            assert_eq!(join(&query.clauses), "x");
            query.filter
        };
        let all = filter(r#"x agent:claude project:"my web" role:user path:src file:login.rs"#);
        assert_eq!(all.agents, [super::super::agent("claude").unwrap()]);
        assert_eq!(
            (&*all.projects, &*all.roles),
            (&["my web".to_owned()][..], &[super::super::TextRole::User][..])
        );
        assert_eq!((&*all.paths[0], &*all.files[0]), ("src", "login.rs"));
        let either = filter("(project:web OR project:api) x");
        assert_eq!(either.projects, ["web", "api"]);
        let without = filter("-project:web x -is:gone").not.unwrap();
        assert_eq!((without.projects.len(), without.states.len()), (1, 1));
        let times = filter("since:last week until:yesterday x");
        assert_eq!(times.since.unwrap().to_string(), "2026-11-01T23:00:00.000Z");
        assert_eq!(
            filter("(x since:this month)").since.unwrap().to_string(),
            "2026-10-31T23:00:00.000Z"
        );
        assert_eq!(filter("x tool:Bash").tools, ["bash"]);
    }
}
