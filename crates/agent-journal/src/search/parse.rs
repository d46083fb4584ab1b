//! Reads the query language: words, `"phrases"`, `begin*`, `-not`, `/regex/`, `OR`, parentheses,
//! and fields such as `agent:` and `since:`. Code is full of colons, slashes and parentheses, so
//! each of these means something only where a word begins.

use jiff::Zoned;

use super::field::{self, Field};
use super::query::{
    Clause, MAX_QUERY_BYTES, MAX_QUERY_DEPTH, MAX_QUERY_PATTERNS, MAX_QUERY_WORDS, Pattern,
};
use super::{Filter, Regex};
use crate::error::{Error, Result};
use crate::index::words;

/// Reads one query.
pub(super) struct Parser<'t> {
    text: &'t str,
    at: usize,
    now: &'t Zoned,
    filter: Filter,
    /// How many parentheses are open.
    depth: usize,
    /// How many words and fields were read.
    words: usize,
    /// How many beginnings and expressions were read.
    patterns: usize,
}

/// What stands between two spaces.
enum Item {
    Clause(Clause),
    /// Clauses in parentheses, and the first field among them.
    Group {
        clauses: Vec<Clause>,
        field: Option<String>,
    },
    Field {
        field: &'static Field,
        value: String,
        negated: bool,
    },
}

/// Things of which one must be there: mostly one thing.
type Alternatives = Vec<Item>;

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, now: &'t Zoned) -> Self {
        Self { text, at: 0, now, filter: Filter::default(), depth: 0, words: 0, patterns: 0 }
    }

    pub(super) fn query(mut self) -> Result<(Vec<Clause>, Filter)> {
        check_length(self.text)?;
        let (clauses, _) = self.sequence(None)?;
        Ok((clauses, self.filter))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Reads up to the end, or to the parenthesis that closes the one opened at `opened`.
    fn sequence(&mut self, opened: Option<usize>) -> Result<(Vec<Clause>, Option<String>)> {
        let mut all: Vec<Alternatives> = Vec::new();
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

    /// Turns what was read into clauses; fields go to the filter.
    fn resolve(&mut self, all: Vec<Alternatives>) -> Result<(Vec<Clause>, Option<String>)> {
        let (mut clauses, mut first_field) = (Vec::new(), None);
        for mut alternatives in all {
            let fields = alternatives.iter().filter_map(Item::field).collect::<Vec<_>>();
            first_field = first_field.or_else(|| fields.first().map(|name| (*name).to_owned()));
            if alternatives.len() > 1 && !fields.is_empty() {
                let same = fields.iter().all(|name| *name == fields[0]);
                if !same
                    || fields.len() < alternatives.len()
                    || !alternatives.iter().all(Item::joins)
                {
                    return Err(wrong(format!(
                        "`{}:` stands beside OR: OR joins words, or values of one field",
                        fields[0]
                    )));
                }
            }
            if alternatives.len() == 1 || !fields.is_empty() {
                for item in alternatives {
                    self.take(item, &mut clauses)?;
                }
            } else {
                let options = alternatives.drain(..).map(Item::into_clauses).collect();
                clauses.push(Clause::new(Pattern::Any(options)));
            }
        }
        Ok((clauses, first_field))
    }

    fn take(&mut self, item: Item, clauses: &mut Vec<Clause>) -> Result<()> {
        match item {
            Item::Clause(clause) => clauses.push(clause),
            Item::Group { clauses: inner, .. } => clauses.extend(inner),
            Item::Field { field, value, negated } => {
                let filter = if negated {
                    &mut **self.filter.not.get_or_insert_default()
                } else {
                    &mut self.filter
                };
                field.set(&value, self.now, filter)?;
            }
        }
        Ok(())
    }

    /// Reads one item; none where a lone `*` stands, which means everything.
    fn item(&mut self, grouped: bool) -> Result<Option<Item>> {
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
                wrong(format!("`/{source}/` is no regular expression{place}: {reason}"))
            })?)
        } else {
            match self.word(grouped, negated)? {
                Ok(pattern) => pattern,
                Err(field) => return Ok(Some(field)),
            }
        };
        Ok(Some(Item::Clause(Clause { pattern, negated })))
    }

    fn group(&mut self, negated: bool) -> Result<Item> {
        let opened = self.at;
        if self.depth == MAX_QUERY_DEPTH {
            return Err(wrong(format!(
                "parentheses are nested more than {MAX_QUERY_DEPTH} deep{} — leave out those that \
                 are not needed, or put them in quotes to look for them",
                self.place(opened)
            )));
        }
        self.depth += 1;
        self.at += 1;
        let (clauses, field) = self.sequence(Some(opened))?;
        self.depth -= 1;
        if !negated {
            return Ok(Item::Group { clauses, field });
        }
        if let Some(name) = field {
            return Err(wrong(format!(
                "`{name}:` cannot stand in parentheses that are left out: write `-{name}:`"
            )));
        }
        Ok(Item::Clause(Clause { pattern: Pattern::Any(vec![clauses]), negated }))
    }

    /// Reads what stands between two quotes.
    fn quoted(&mut self) -> Result<&'t str> {
        let Some((inside, _)) = self.rest()[1..].split_once('"') else {
            return Err(self.unclosed("quote", self.at));
        };
        self.at += inside.len() + 2;
        Ok(inside)
    }

    /// Reads a word, or a field with its value.
    fn word(&mut self, grouped: bool, negated: bool) -> Result<Result<Pattern, Item>> {
        let rest = self.rest();
        let end = rest.find(|one: char| one.is_whitespace() || one == '"').unwrap_or(rest.len());
        if let Some((field, length)) = field::recognise(&rest[..end], &rest[end..])? {
            self.count_words(1)?;
            self.at += length;
            let value = self.value(field, grouped)?;
            return Ok(Err(Item::Field { field, value, negated }));
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

    /// Counts words and fields; one that holds no word counts as well.
    fn count_words(&mut self, count: usize) -> Result<()> {
        self.words += count.max(1);
        if self.words <= MAX_QUERY_WORDS {
            return Ok(());
        }
        Err(wrong(format!(
            "the query has more than {MAX_QUERY_WORDS} words — keep the ones that matter most"
        )))
    }

    /// Counts what stands for many words.
    fn count_pattern(&mut self) -> Result<()> {
        self.patterns += 1;
        if self.patterns <= MAX_QUERY_PATTERNS {
            return Ok(());
        }
        Err(wrong(format!(
            "the query has more than {MAX_QUERY_PATTERNS} beginnings (begin*) and regular \
             expressions — search for fewer at a time"
        )))
    }

    /// Reads a field's value: a word, something in quotes, or a time of two words.
    fn value(&mut self, field: &Field, grouped: bool) -> Result<String> {
        if self.rest().starts_with('"') {
            return Ok(self.quoted()?.to_owned());
        }
        let rest = self.rest();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let mut word = self.balanced(&rest[..end], grouped)?.to_owned();
        self.at += word.len();
        let next = self.rest().trim_start();
        let next = next.split([' ', '\t', '\n', ')']).next().unwrap_or_default();
        if field.is_time && super::date::is_two_words(&word, next) {
            self.at = self.text.len() - self.rest().trim_start().len() + next.len();
            word = format!("{word} {next}");
        }
        Ok(word)
    }

    /// Leaves the parentheses at a word's end that close more than the word opens.
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

    /// A parenthesis at `at` that closes nothing, in the word that is being read.
    fn stray(&self, at: usize) -> Error {
        let rest = self.rest();
        let word = rest.split_whitespace().next().unwrap_or(rest);
        wrong(format!(
            "a parenthesis closes nothing{}: {word} — put it in quotes to look for it",
            self.place(at)
        ))
    }

    fn unclosed(&self, what: &str, at: usize) -> Error {
        wrong(format!("a {what} is not closed{}: {}", self.place(at), &self.text[at..]))
    }

    fn place(&self, at: usize) -> String {
        format!(" (character {})", self.text[..at].chars().count() + 1)
    }
}

impl Item {
    fn field(&self) -> Option<&str> {
        match self {
            Self::Clause(_) => None,
            Self::Group { field, .. } => field.as_deref(),
            Self::Field { field, .. } => Some(field.name),
        }
    }

    /// Whether a field's values may be joined by OR.
    fn joins(&self) -> bool {
        matches!(self, Self::Field { field, negated: false, .. } if field.is_choice)
    }

    fn into_clauses(self) -> Vec<Clause> {
        match self {
            Self::Clause(clause) => vec![clause],
            Self::Group { clauses, .. } => clauses,
            Self::Field { .. } => Vec::new(),
        }
    }
}

/// Refuses a query that is longer than the limit.
fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_QUERY_BYTES {
        return Ok(());
    }
    Err(wrong(format!(
        "the query is too long: {} bytes, {MAX_QUERY_BYTES} are allowed — keep the words that \
         matter most",
        text.len()
    )))
}

/// Whether something that can be left out follows.
fn begins_something(text: &str) -> bool {
    text.starts_with(|one: char| one == '"' || one == '(' || one.is_alphanumeric())
        || regex(text).is_some()
}

/// Whether a text begins with an operator, and something follows it.
fn is_operator(text: &str, name: &str) -> bool {
    text.strip_prefix(name)
        .is_some_and(|rest| rest.starts_with(char::is_whitespace) && !rest.trim_start().is_empty())
}

/// Whether a text goes on in capitals, and not with an operator.
fn is_shouted_on(text: &str) -> bool {
    is_shouted(text) && !is_operator(text.trim_start(), "NOT")
}

/// Whether the next word is in capitals: then the one before it is no operator, as in `NOT NULL`
/// and `FILE NOT FOUND`.
fn is_shouted(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.chars().filter(|one| one.is_alphabetic()).count() > 1
        && !word.chars().any(char::is_lowercase)
}

/// Reads `/…/` or `/…/i`: the expression, its flags, the length of all. The first slash that
/// is not escaped must end a word: other texts with slashes are paths.
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
        Query::parse(text, &now())
    }

    /// What is understood, or the mistake.
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
            "a parenthesis closes nothing (character 6): login) — put it in quotes to look for it",
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
        assert!(wrong.starts_with("`/fo(o/` is no regular expression (character 7): "), "{wrong}");
        assert!(!wrong.contains('\n'), "{wrong}");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        check("prjoect:web login", "unknown field `prjoect:` — did you mean `project:`?");
        check("agent:cl/aud x", "unknown agent `cl/aud` — did you mean `claude`?");
        check(r#"login "never closed"#, "a quote is not closed (character 7): \"never closed");
        check(r#"x project:"my web"#, "a quote is not closed (character 11): \"my web");
        check("a (b OR c", "a parenthesis is not closed (character 3): (b OR c");
        check(
            "a b) c",
            "a parenthesis closes nothing (character 4): b) — put it in quotes to look for it",
        );
        check("is:runing x", "unknown `is:runing` — did you mean `is:running`?");
        check(
            "since:tomorow",
            "`tomorow` is no date — try 2026-11-03, 7d, 12h, yesterday or last week",
        );
        check(
            "login OR project:web",
            "`project:` stands beside OR: OR joins words, or values of one field",
        );
        check(
            "(login project:web) OR logout",
            "`project:` stands beside OR: OR joins words, or values of one field",
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
            "the query is too long: 8193 bytes, 8192 are allowed — keep the words that matter most",
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
            (&["my web".to_owned()][..], &["user".to_owned()][..])
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
