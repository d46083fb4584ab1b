//! Finds passwords on command lines that have no name: `curl -u me:value`, `mysql -pvalue`.

use std::ops::Range;

/// A command that takes a password.
struct PasswordCommand {
    /// The first words of the command, in lower case.
    word: &'static str,
    /// The options that a password follows.
    options: &'static [&'static str],
    /// The form of the password after the option.
    takes: Takes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// `user:password`
    Login,
    /// The password directly after the option.
    Joined,
    /// The password after a space.
    Separate,
}

const fn command(
    word: &'static str,
    options: &'static [&'static str],
    takes: Takes,
) -> PasswordCommand {
    PasswordCommand { word, options, takes }
}

const COMMANDS: &[PasswordCommand] = &[
    command("curl", &["-u", "--user", "--proxy-user", "-U"], Takes::Login),
    command("httpie", &["-a", "--auth"], Takes::Login),
    command("mysql", &["-p"], Takes::Joined),
    command("mysqldump", &["-p"], Takes::Joined),
    command("mysqladmin", &["-p"], Takes::Joined),
    command("mariadb", &["-p"], Takes::Joined),
    command("sshpass", &["-p"], Takes::Joined),
    command("sshpass", &["-p"], Takes::Separate),
    command("redis-cli", &["-a"], Takes::Separate),
    command("docker login", &["-p"], Takes::Separate),
    command("podman login", &["-p"], Takes::Separate),
    command("helm registry login", &["-p"], Takes::Separate),
    command("mongo", &["-p"], Takes::Separate),
    command("mongosh", &["-p"], Takes::Separate),
    command("az login", &["-p"], Takes::Separate),
    command("ldapsearch", &["-w"], Takes::Separate),
    command("ldapmodify", &["-w"], Takes::Separate),
    command("sqlcmd", &["-P"], Takes::Separate),
    command("sqlcmd", &["-P"], Takes::Joined),
    command("zip", &["-P"], Takes::Separate),
    command("unzip", &["-P"], Takes::Separate),
    command("htpasswd", &["-b", "-nb", "-nbB"], Takes::Login),
];

/// Returns the words that commands begin with, each once.
pub(super) fn command_words() -> impl Iterator<Item = &'static str> {
    let mut known: Vec<&str> = Vec::new();
    COMMANDS.iter().filter_map(move |command| {
        let is_new = !known.contains(&command.word);
        known.push(command.word);
        is_new.then_some(command.word)
    })
}

/// The longest command that is searched, in bytes.
const LONGEST: usize = 600;

/// Finds the passwords on the command line that begins with a word, and calls the callback with
/// their ranges.
pub(super) fn passwords_at(text: &str, word: Range<usize>, report: &mut dyn FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let is_name = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let before = word.start.checked_sub(1).and_then(|at| bytes.get(at));
    // After an escaped line end a new word begins.
    let is_escape = word.start >= 2 && bytes[word.start - 2] == b'\\' && before == Some(&b'n');
    if is_name(before) && !is_escape || !matches!(bytes.get(word.end), Some(b' ' | b'\t')) {
        return;
    }
    let line = line_from(text, word.end);
    for command in
        COMMANDS.iter().filter(|command| text[word.clone()].eq_ignore_ascii_case(command.word))
    {
        for (at, option) in password_options(line, command) {
            if let Some(range) = password_range(line, at + option.len(), command.takes) {
                report(word.end + range.start..word.end + range.end);
            }
        }
    }
}

/// Returns the rest of a command line, up to the end of the command.
fn line_from(text: &str, from: usize) -> &str {
    let mut end = from;
    let bytes = text.as_bytes();
    while end < bytes.len() && end - from < LONGEST {
        match bytes[end] {
            b'\n' if bytes[end - 1] != b'\\' => break,
            b'|' | b';' if bytes[end - 1] == b' ' => break,
            _ => end += 1,
        }
    }
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[from..end]
}

/// Iterates over the positions of a command's password options on its line.
fn password_options<'l>(
    line: &'l str,
    command: &'l PasswordCommand,
) -> impl Iterator<Item = (usize, &'static str)> + 'l {
    command.options.iter().flat_map(move |option| {
        line.match_indices(option).filter_map(move |(at, _)| {
            let is_begun =
                at > 0 && matches!(line.as_bytes()[at - 1], b' ' | b'\t' | b'"' | b'\'' | b',');
            is_begun.then_some((at, *option))
        })
    })
}

/// Returns the range of the password after an option.
fn password_range(line: &str, from: usize, takes: Takes) -> Option<Range<usize>> {
    let rest = line.get(from..)?;
    let start = match takes {
        Takes::Joined => from,
        Takes::Separate | Takes::Login => {
            let gap = rest.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'=')).count();
            let is_joined_login = takes == Takes::Login && gap == 0 && !rest.starts_with('-');
            if gap == 0 && !is_joined_login {
                return None;
            }
            from + gap
        }
    };
    let (start, end) = shell_word(line, start)?;
    let word = line.get(start..end)?;
    let (start, password) = match takes {
        Takes::Login => {
            let at = word.find(':')?;
            (start + at + 1, &word[at + 1..])
        }
        _ => (start, word),
    };
    let is_known = password.len() >= 3
        && !password.starts_with(['<', '{'])
        && !super::judge::is_reference(password)
        && !super::judge::is_stand_in(password)
        && !password.contains("://");
    is_known.then_some(start..start + password.len())
}

/// Returns the range of a shell word, without its quotes.
fn shell_word(line: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = line.as_bytes();
    let escapes = bytes.get(from..)?.iter().take(4).take_while(|byte| **byte == b'\\').count();
    let first = *bytes.get(from + escapes)?;
    if matches!(first, b'"' | b'\'') {
        let start = from + escapes + 1;
        let end = start + line.get(start..)?.find(char::from(first))?;
        return Some((start, end - escapes.min(end - start)));
    }
    let ends =
        |one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '`' | ')' | '>' | '<' | '\\');
    let end = from + line.get(from..)?.find(ends).unwrap_or(line.len() - from);
    (end > from).then_some((from, end))
}
