//! Syntax highlighting: comments, strings, numbers and keywords of the common languages. Unknown
//! languages stay plain text, and no character is changed.

use super::text::push_escaped;

/// The classes of highlighted spans: comment, keyword, number, string, type, added line, removed
/// line, position in a diff.
pub(super) const CLASSES: [&str; 8] = ["hc", "hk", "hn", "hs", "ht", "ha", "hr", "hp"];

/// The longest code that is highlighted, in bytes. For longer code highlighting would cost more
/// than it helps.
const LONGEST: usize = 128 << 10;

/// The lexical rules of a language.
struct Language {
    names: &'static [&'static str],
    /// The marks that begin a comment which ends with its line.
    line: &'static [&'static str],
    /// The marks that begin and end a block comment.
    block: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    keywords: &'static str,
}

const C_LIKE: &[&str] = &["//"];
const SLASHES: Option<(&str, &str)> = Some(("/*", "*/"));

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line: C_LIKE,
        block: SLASHES,
        quotes: &['"'],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
    },
    Language {
        names: &[
            "js",
            "jsx",
            "ts",
            "tsx",
            "javascript",
            "typescript",
            "mjs",
            "cjs",
            "vue",
            "svelte",
        ],
        line: C_LIKE,
        block: SLASHES,
        quotes: &['"', '\'', '`'],
        keywords: "abstract as async await break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while yield",
    },
    Language {
        names: &["python", "py", "pyi"],
        line: &["#"],
        block: None,
        quotes: &['"', '\''],
        keywords: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield",
    },
    Language {
        names: &["go", "golang"],
        line: C_LIKE,
        block: SLASHES,
        quotes: &['"', '`'],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var",
    },
    Language {
        names: &[
            "c", "h", "cc", "cpp", "hpp", "cxx", "c++", "m", "cs", "csharp", "java", "kt",
            "kotlin", "swift", "scala", "dart", "php", "zig",
        ],
        line: C_LIKE,
        block: SLASHES,
        quotes: &['"', '\''],
        keywords: "abstract as auto bool boolean break byte case catch char class const continue default defer delete do double else enum extends extension extern false final finally float for foreach fun func function guard if implements import in inline int interface internal is let long namespace new nil null object open operator override package private protected public return sealed short sizeof static struct super switch template this throw throws true try typedef typename union unsigned using val var virtual void volatile when where while",
    },
    Language {
        names: &[
            "sh",
            "bash",
            "zsh",
            "shell",
            "console",
            "fish",
            "powershell",
            "ps1",
            "dockerfile",
            "makefile",
        ],
        line: &["#"],
        block: None,
        quotes: &['"', '\''],
        keywords: "case do done elif else esac exit export fi for function if in local return set then until while",
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "exs", "perl", "pl", "r"],
        line: &["#"],
        block: None,
        quotes: &['"', '\''],
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure false fn for if in module my nil not or require rescue return self sub super then true unless until use when while yield",
    },
    Language {
        names: &["sql", "psql", "sqlite", "mysql"],
        line: &["--"],
        block: SLASHES,
        quotes: &['\'', '"'],
        keywords: "add all alter and as asc begin by case commit create delete desc distinct drop else end exists from full group having if in index inner insert into is join key left like limit not null on or order outer primary references rollback select set table then union unique update values view when where with",
    },
    Language {
        names: &["json", "jsonc", "json5", "ndjson", "jsonl"],
        line: C_LIKE,
        block: None,
        quotes: &['"'],
        keywords: "true false null",
    },
    Language {
        names: &["yaml", "yml", "toml", "ini", "conf", "env", "properties", "hcl", "tf", "nix"],
        line: &["#"],
        block: None,
        quotes: &['"', '\''],
        keywords: "true false null yes no on off",
    },
    Language {
        names: &["css", "scss", "less"],
        line: &[],
        block: SLASHES,
        quotes: &['"', '\''],
        keywords: "important media import supports keyframes from to",
    },
    Language {
        names: &["html", "xml", "svg", "xhtml"],
        line: &[],
        block: Some(("<!--", "-->")),
        quotes: &['"', '\''],
        keywords: "",
    },
    Language {
        names: &["lua", "haskell", "hs", "elm"],
        line: &["--"],
        block: None,
        quotes: &['"', '\''],
        keywords: "and break case class data deriving do else elseif end false for function if import in instance let local module newtype nil not of or repeat return then true type until where while",
    },
];

/// Renders a block of highlighted code.
pub(super) fn highlighted_block(text: &str, language: &str) -> String {
    let mut page = String::with_capacity(text.len() * 3 / 2 + 40);
    page.push_str("<pre><code");
    if !language.is_empty() && language.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        page.push_str(&format!(" data-lang=\"{language}\""));
    }
    page.push('>');
    append_code(&mut page, text, language);
    page.push_str("</code></pre>");
    page
}

/// Appends highlighted code.
pub(super) fn append_code(page: &mut String, text: &str, language: &str) {
    if text.len() > LONGEST {
        return push_escaped(page, text);
    }
    if matches!(language, "diff" | "patch") {
        return append_diff(page, text);
    }
    let name = language.to_ascii_lowercase();
    match LANGUAGES.iter().find(|language| language.names.contains(&name.as_str())) {
        Some(language) => language.append_colored(page, text),
        None => push_escaped(page, text),
    }
}

/// Appends a diff: added lines, removed lines, positions. Consecutive lines of one kind are one
/// span.
pub(super) fn append_diff(page: &mut String, text: &str) {
    let mut start = 0;
    let mut at = 0;
    let mut run = "";
    for line in text.split_inclusive('\n') {
        let class = line_class(line.as_bytes());
        if class != run {
            append_span(page, run, &text[start..at]);
            (start, run) = (at, class);
        }
        at += line.len();
    }
    append_span(page, run, &text[start..]);
}

fn line_class(line: &[u8]) -> &'static str {
    match line {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => "hc",
        [b'@', b'@', ..] | [b'*', b'*', b'*', b' ', ..] => "hp",
        [b'+', ..] => "ha",
        [b'-', ..] => "hr",
        _ => "",
    }
}

fn append_span(page: &mut String, class: &str, text: &str) {
    if class.is_empty() {
        return push_escaped(page, text);
    }
    page.push_str(&format!("<span class=\"{class}\">"));
    push_escaped(page, text);
    page.push_str("</span>");
}

impl Language {
    fn append_colored(&self, page: &mut String, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let (class, length) = self.next_token(rest);
            let (token, after) = rest.split_at(length);
            append_span(page, class, token);
            rest = after;
        }
    }

    /// Returns the class and length of the token that a text begins with.
    fn next_token(&self, text: &str) -> (&'static str, usize) {
        if self.line.iter().any(|mark| text.starts_with(mark)) {
            return ("hc", text.find('\n').unwrap_or(text.len()));
        }
        if let Some((open, close)) = self.block
            && text.starts_with(open)
        {
            let end = text[open.len()..].find(close);
            return ("hc", end.map_or(text.len(), |end| end + open.len() + close.len()));
        }
        let first = text.chars().next().unwrap_or(' ');
        if self.quotes.contains(&first) {
            return ("hs", string_literal_length(text, first));
        }
        if first == '\''
            && let Some(end) = character_literal_length(text)
        {
            return ("hs", end);
        }
        let length = |fits: fn(char) -> bool| text.find(|one| !fits(one)).unwrap_or(text.len());
        if first.is_ascii_digit() {
            let end = length(|one| one.is_ascii_alphanumeric() || one == '.' || one == '_');
            return ("hn", end);
        }
        if first.is_alphabetic() || first == '_' {
            let end = length(|one| one.is_alphanumeric() || one == '_');
            return (self.word_class(&text[..end]), end);
        }
        // Takes everything up to the next character that may be highlighted.
        let mut end = first.len_utf8();
        while let Some(one) = text[end..].chars().next() {
            let may_begin = one.is_alphanumeric()
                || matches!(one, '_' | '\'')
                || self.quotes.contains(&one)
                || self.line.iter().any(|mark| text[end..].starts_with(mark))
                || self.block.is_some_and(|(open, _)| text[end..].starts_with(open));
            if may_begin {
                break;
            }
            end += one.len_utf8();
        }
        ("", end)
    }

    fn word_class(&self, word: &str) -> &'static str {
        let is_same = |keyword: &str| {
            keyword == word || keyword.eq_ignore_ascii_case(word) && self.ignores_case()
        };
        if self.keywords.split(' ').any(is_same) {
            return "hk";
        }
        let is_type = word.starts_with(|one: char| one.is_ascii_uppercase())
            && word.contains(|one: char| one.is_ascii_lowercase());
        if is_type { "ht" } else { "" }
    }

    /// Returns whether keywords may be written in capitals.
    fn ignores_case(&self) -> bool {
        self.names.contains(&"sql")
    }
}

/// Returns the length of a character literal. A single quote may also begin a lifetime.
fn character_literal_length(text: &str) -> Option<usize> {
    let mut inside = text.char_indices().skip(1);
    let (_, first) = inside.next()?;
    let (end, last) = if first == '\\' { inside.nth(1)? } else { inside.next()? };
    (last == '\'' && first != '\n').then_some(end + 1)
}

/// Returns the length of a string literal: to its closing quote, or to the end of its line.
fn string_literal_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        match one {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if quote != '`' => return at,
            _ if one == quote => return at + one.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: &str, text: &str, expected: &str) {
        let mut page = String::new();
        append_code(&mut page, text, language);
        assert_eq!(page, expected);
    }

    #[test]
    fn code_gets_its_colours() {
        check(
            "rust",
            "let x = \"a\"; // <b>",
            "<span class=\"hk\">let</span> x = <span class=\"hs\">&quot;a&quot;</span>; \
             <span class=\"hc\">// &lt;b&gt;</span>",
        );
        check("rust", "<'a> '\"'", "&lt;&#39;a&gt; <span class=\"hs\">&#39;&quot;&#39;</span>");
        check("unknown", "let x", "let x");
        check("sql", "SELECT 1", "<span class=\"hk\">SELECT</span> <span class=\"hn\">1</span>");
        check(
            "diff",
            "+a\n-b\n c",
            "<span class=\"ha\">+a\n</span><span class=\"hr\">-b\n</span> c",
        );
    }

    #[test]
    fn no_character_is_lost() {
        let text = "fn a<'x>() { 'ü' \"open\n /* never closed 0x1f ";
        for language in LANGUAGES {
            let mut page = String::new();
            language.append_colored(&mut page, text);
            let mut plain = String::new();
            let mut inside = false;
            for one in page.chars() {
                match one {
                    '<' => inside = true,
                    '>' => inside = false,
                    _ if !inside => plain.push(one),
                    _ => {}
                }
            }
            let mut expected = String::new();
            push_escaped(&mut expected, text);
            assert_eq!(plain, expected, "{:?}", language.names);
        }
    }
}
