//! Reads names, comments and functions from Rust source. A parser would be exact but heavy. For
//! these figures, brackets and keywords outside literals and comments are enough.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// Functions that most types have. Their names say nothing about the code.
const USUAL_FUNCTIONS: [&str; 3] = ["new", "default", "main"];

/// First words of a comment that does not begin with its subject.
const QUESTION_WORDS: [&str; 10] =
    ["What", "Whatever", "Who", "Whoever", "Whose", "Where", "How", "When", "Which", "Why"];

/// More parameters than this are counted.
const USUAL_PARAMETERS: usize = 7;

/// The names, comments and functions of source files.
#[derive(Debug, Default)]
pub(crate) struct SourceSurvey {
    /// The number of functions by name, without those that implement a trait.
    pub(crate) functions: BTreeMap<String, usize>,
    /// The number of structs, enums and traits by name.
    pub(crate) types: BTreeMap<String, usize>,
    pub(crate) doc_comments: usize,
    pub(crate) question_comments: usize,
    pub(crate) tuple_parameters: usize,
    pub(crate) many_parameters: usize,
    /// The lines of each function with a body.
    pub(crate) function_lines: Vec<usize>,
}

impl SourceSurvey {
    pub(crate) fn add_file(&mut self, text: &str) {
        static FUNCTION_NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"\bfn ([a-z_0-9]+)"));
        static TYPE_NAME: LazyLock<Regex> =
            LazyLock::new(|| regex(r"\b(?:struct|enum|trait) ([A-Z]\w*)"));

        self.add_comments(text);
        let code = without_tests(without_literals(text));
        self.add_functions(&code);
        let own = without_trait_impls(&code);
        for name in first_groups(&FUNCTION_NAME, &own) {
            if !USUAL_FUNCTIONS.contains(&name) {
                *self.functions.entry(name.to_owned()).or_default() += 1;
            }
        }
        for name in first_groups(&TYPE_NAME, &own) {
            *self.types.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn add_comments(&mut self, text: &str) {
        let mut is_inside = false;
        for line in text.lines().map(str::trim) {
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(comment) = comment.filter(|_| !is_inside && line.len() > 4) {
                let first = comment.split_whitespace().next().unwrap_or_default();
                let first = first.trim_matches(['`', '*', ',', '.', ':']);
                self.doc_comments += 1;
                self.question_comments += usize::from(QUESTION_WORDS.contains(&first));
            }
            is_inside = comment.is_some();
        }
    }

    fn add_functions(&mut self, code: &str) {
        static FUNCTION: LazyLock<Regex> = LazyLock::new(|| regex(r"\bfn\s+[A-Za-z_]\w*"));

        for found in FUNCTION.find_iter(code) {
            let rest = &code[found.end()..];
            let parameters = parameters(rest);
            let has_tuple = parameters.iter().any(|parameter| parameter.starts_with('('));
            self.tuple_parameters += usize::from(has_tuple);
            self.many_parameters += usize::from(parameters.len() > USUAL_PARAMETERS);
            // A declaration without a body ends with a semicolon.
            let Some(open) = rest.find(['{', ';']).filter(|at| rest[*at..].starts_with('{')) else {
                continue;
            };
            let end = found.end() + open + group_length(&rest[open..], '{', '}');
            self.function_lines.push(code[found.start()..end].matches('\n').count() + 1);
        }
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is constant")
}

fn first_groups<'t>(pattern: &Regex, text: &'t str) -> Vec<&'t str> {
    pattern.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str())).collect()
}

/// Removes comments, and the content of string and character literals. Line ends are kept.
fn without_literals(text: &str) -> String {
    static RAW_STRING: LazyLock<Regex> = LazyLock::new(|| regex(r#"^[bc]?r(#*)""#));
    static CHARACTER: LazyLock<Regex> =
        LazyLock::new(|| regex(r"^'(\\(x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])'"));

    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let follows_word = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let raw_string = if follows_word { None } else { RAW_STRING.captures(rest) };
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_length(rest)
        } else if let Some(start) = raw_string {
            let end = format!("\"{}", &start[1]);
            let inside = start[0].len();
            code.push('"');
            rest[inside..].find(&end).map_or(rest.len(), |at| inside + at + end.len())
        } else if first == '"' {
            code.push('"');
            string_length(rest)
        } else if let Some(character) = CHARACTER.find(rest) {
            character.end()
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push(' ');
        code.extend(rest[..length].chars().filter(|character| *character == '\n'));
        rest = &rest[length..];
    }
    code
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0;
    for (at, _) in text.char_indices() {
        // `/*/` opens a comment and does not close it, which is rare enough to ignore.
        if text[at..].starts_with("/*") {
            depth += 1;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            if depth == 0 {
                return at + 2;
            }
        }
    }
    text.len()
}

/// Returns the length of the string literal at the start of a text, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the bracketed group at the start of a text, with its brackets.
fn group_length(text: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    text.len()
}

/// Removes modules of tests.
fn without_tests(mut code: String) -> String {
    static TESTS: LazyLock<Regex> =
        LazyLock::new(|| regex(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{"));

    while let Some(found) = TESTS.find(&code) {
        let open = found.end() - 1;
        let end = open + group_length(&code[open..], '{', '}');
        code.replace_range(found.start()..end, "");
    }
    code
}

/// Removes implementations of traits: the trait names their functions.
fn without_trait_impls(code: &str) -> String {
    static TRAIT_IMPL: LazyLock<Regex> = LazyLock::new(|| regex(r"\bimpl\b[^{;]*\bfor\b[^{;]*\{"));

    let (mut own, mut from) = (String::new(), 0);
    for found in TRAIT_IMPL.find_iter(code) {
        if found.start() < from {
            continue;
        }
        own.push_str(&code[from..found.start()]);
        let open = found.end() - 1;
        from = open + group_length(&code[open..], '{', '}');
    }
    own + &code[from..]
}

/// Returns the parameters of a function without `self`. The text follows the function's name.
fn parameters(text: &str) -> Vec<&str> {
    static RECEIVER: LazyLock<Regex> =
        LazyLock::new(|| regex(r"^(&\s*('\w+\s+)?)?(mut\s+)?self\b"));

    let mut text = text.trim_start();
    if text.starts_with('<') {
        text = text[generics_length(text)..].trim_start();
    }
    if !text.starts_with('(') {
        return Vec::new();
    }
    let inside = text[1..group_length(text, '(', ')')].strip_suffix(')').unwrap_or_default();
    let (mut parts, mut start, mut depth, mut before) = (Vec::new(), 0, 0, ' ');
    for (at, character) in inside.char_indices() {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inside[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    parts.push(inside[start..].trim());
    parts.retain(|part| !part.is_empty() && !RECEIVER.is_match(part));
    parts
}

/// Returns the length of the generic parameters at the start of a text.
fn generics_length(text: &str) -> usize {
    let (mut depth, mut before) = (0, ' ');
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        before = character;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(text: &str) -> SourceSurvey {
        let mut survey = SourceSurvey::default();
        survey.add_file(text);
        survey
    }

    #[test]
    fn literals_and_comments_hold_no_names() {
        let text = "fn a<'x>(b: &'x str) {\n    // fn no(\n    /* fn no() /* \n */ } */\n    \
                    let f = (\"}\\\"\", r#\"fn no() { \"} \"#, '{', '\\'');\n}\nfn after() {}\n";
        let survey = survey(text);
        assert_eq!(survey.functions.keys().collect::<Vec<_>>(), ["a", "after"]);
        assert_eq!(survey.function_lines, [6, 1]);
    }

    #[test]
    fn tests_and_implementations_of_traits_name_nothing() {
        let survey = survey(
            "impl Clone for Row { fn clone(&self) -> Self { new() } }\n\
             impl Row { fn read_row() {} }\n\
             #[cfg(test)]\n#[allow(x)]\nmod tests { struct Place; fn works() {} }\n",
        );
        assert_eq!(survey.functions.keys().collect::<Vec<_>>(), ["read_row"]);
        assert!(survey.types.is_empty());
        assert_eq!(survey.function_lines.len(), 2);
    }

    #[test]
    fn parameters_are_counted_without_the_receiver_and_not_inside_types() {
        assert_eq!(parameters("(b: HashMap<K, V>, c: (u8, u8)) {}").len(), 2);
        assert_eq!(parameters("<F: Fn(u8, u8) -> u8, G>(&mut self, f: F) {}"), ["f: F"]);
        assert_eq!(parameters("<'s>(&'s self, f: &dyn Fn(&str) -> Option<u8>, b: u8)").len(), 2);
        assert_eq!(parameters("(\n    &self,\n    (b, c): (u8, u8),\n)"), ["(b, c): (u8, u8)"]);
    }

    #[test]
    fn only_the_first_line_of_a_comment_counts() {
        let survey = survey("//! Reads rows.\n//! When\n\n/// `What`: a thing.\nfn a() {}\n");
        assert_eq!((survey.doc_comments, survey.question_comments), (2, 1));
    }
}
