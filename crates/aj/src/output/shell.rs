//! Commands as a shell reads them: every word comes out as it went in.

use std::path::Path;

use agent_journal::connectors::Resume;
use clap::ValueEnum;

use super::quote::is_hidden;

/// A shell, as far as quoting differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// bash, zsh, dash and every other that follows POSIX
    Sh,
    Fish,
    #[value(name = "powershell")]
    Power,
}

impl Shell {
    /// The shell that is in use, as far as the environment tells.
    pub(crate) fn current() -> Self {
        let named = std::env::var("SHELL").unwrap_or_default();
        let name = Path::new(&named).file_stem().unwrap_or_default().to_string_lossy();
        match &*name {
            "fish" => Self::Fish,
            "pwsh" => Self::Power,
            "" if cfg!(windows) => Self::Power,
            _ => Self::Sh,
        }
    }

    /// A line that goes to a directory and runs a command there.
    pub(crate) fn line(self, directory: Option<&Path>, command: &Resume) -> String {
        let words = std::iter::once(command.program)
            .chain(command.arguments.iter().map(String::as_str))
            .map(|word| self.quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        let Some(directory) = directory else { return words };
        let directory = self.quote(&directory.to_string_lossy());
        match self {
            // A directory that begins with a dash is no option.
            Self::Sh => format!("cd -- {directory} && {words}"),
            Self::Fish => format!("cd {directory} && {words}"),
            Self::Power => {
                format!("Set-Location -LiteralPath {directory}; if ($?) {{ {words} }}")
            }
        }
    }

    /// One word; what needs no quotes has none.
    pub(crate) fn quote(self, word: &str) -> String {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./:@%+=".contains(one);
        if !word.is_empty() && word.chars().all(is_plain) {
            return word.to_owned();
        }
        if word.chars().any(steers) { self.spelled(word) } else { self.quoted(word) }
    }

    fn quoted(self, word: &str) -> String {
        match self {
            Self::Sh => format!("'{}'", word.replace('\'', r"'\''")),
            Self::Fish => format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'")),
            Self::Power => {
                // It takes typographic quotes for quotes as well.
                let mut quoted = String::from("'");
                for one in word.chars() {
                    quoted.push(one);
                    if matches!(one, '\'' | '\u{2018}'..='\u{201b}') {
                        quoted.push(one);
                    }
                }
                quoted.push('\'');
                quoted
            }
        }
    }

    /// One word with characters that would steer a terminal: these are spelled out, so that the
    /// shell gets them and the terminal does not.
    fn spelled(self, word: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut plain = String::new();
        for one in word.chars() {
            if !steers(one) {
                plain.push(one);
                continue;
            }
            if !plain.is_empty() {
                parts.push(self.quoted(&std::mem::take(&mut plain)));
            }
            parts.push(self.code_of(one));
        }
        if !plain.is_empty() {
            parts.push(self.quoted(&plain));
        }
        match self {
            Self::Sh | Self::Fish => parts.concat(),
            Self::Power => format!("({})", parts.join(" + ")),
        }
    }

    /// A character by its number.
    fn code_of(self, one: char) -> String {
        let number = u32::from(one);
        match self {
            // Octal numbers of bytes are what every shell's `printf` knows.
            Self::Sh => {
                let bytes = one.to_string().into_bytes();
                let codes: Vec<String> = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
                let codes = codes.concat();
                format!("\"$(printf '{codes}')\"")
            }
            Self::Fish => format!("\\U{number:08x}"),
            Self::Power if number > 0xffff => format!("[char]::ConvertFromUtf32({number})"),
            Self::Power => format!("[string][char]{number}"),
        }
    }
}

/// Whether a character does something to a terminal, or hides or turns text, instead of being
/// seen. Line ends and tabs may stand in quotes.
fn steers(one: char) -> bool {
    is_hidden(one) && !matches!(one, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_of_a_shell_as_they_went_in() {
        let check = |shell: Shell, word: &str, expected: &str| {
            assert_eq!(shell.quote(word), expected);
        };
        check(Shell::Sh, "plain-1.2/x", "plain-1.2/x");
        check(Shell::Sh, "", "''");
        check(Shell::Sh, "it's $HOME `x`", r"'it'\''s $HOME `x`'");
        check(Shell::Fish, r"it's a \ path", r"'it\'s a \\ path'");
        check(Shell::Power, "it's ‘here’", "'it''s ‘‘here’’'");
        check(Shell::Sh, "a\x1bb", r#"'a'"$(printf '\033')"'b'"#);
        check(Shell::Fish, "a\x1bb", r"'a'\U0000001b'b'");
        check(Shell::Power, "a\x1bb", "('a' + [string][char]27 + 'b')");
    }

    #[cfg(unix)]
    #[test]
    fn a_real_shell_reads_the_same_words() {
        let words = ["a b", "it's", "$(touch x)", "back`tick", "new\nline", "*", "\"", "\\", "ä€"];
        let steering =
            ["\x1b]52;c;YQ==\x07", "a\u{9b}31mb", "it's\u{202e}x\r", "\u{e0041}\u{200b}"];
        for word in words.into_iter().chain(steering) {
            assert!(!Shell::Sh.quote(word).contains(steers), "{word:?}");
            let line = format!("printf %s {}", Shell::Sh.quote(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
