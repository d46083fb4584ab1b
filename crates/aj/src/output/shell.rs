//! Quotes commands for a shell, so that every word arrives unchanged.

use std::path::Path;

use agent_journal::connectors::Resume;
use clap::ValueEnum;

use super::quote::is_hidden;

/// A shell, as far as quoting differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellKind {
    /// bash, zsh, dash and other POSIX shells
    Sh,
    Fish,
    #[value(name = "powershell")]
    Power,
}

impl ShellKind {
    /// Returns the shell that the environment names.
    pub(crate) fn current_shell() -> Self {
        let named = std::env::var("SHELL").unwrap_or_default();
        let name = Path::new(&named).file_stem().unwrap_or_default().to_string_lossy();
        match &*name {
            "fish" => Self::Fish,
            "pwsh" => Self::Power,
            "" if cfg!(windows) => Self::Power,
            _ => Self::Sh,
        }
    }

    /// Returns a command line that changes to a directory and runs a command there.
    pub(crate) fn command_line(self, directory: Option<&Path>, command: &Resume) -> String {
        let words = std::iter::once(command.program)
            .chain(command.arguments.iter().map(String::as_str))
            .map(|word| self.quote_word(word))
            .collect::<Vec<_>>()
            .join(" ");
        let Some(directory) = directory else { return words };
        let directory = self.quote_word(&directory.to_string_lossy());
        match self {
            // Without `--`, a directory that begins with a dash would be read as an option.
            Self::Sh => format!("cd -- {directory} && {words}"),
            Self::Fish => format!("cd {directory} && {words}"),
            Self::Power => {
                format!("Set-Location -LiteralPath {directory}; if ($?) {{ {words} }}")
            }
        }
    }

    /// Quotes one word, if it needs quotes.
    pub(crate) fn quote_word(self, word: &str) -> String {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./:@%+=".contains(one);
        if !word.is_empty() && word.chars().all(is_plain) {
            return word.to_owned();
        }
        if word.chars().any(controls_terminal) {
            self.quote_with_escapes(word)
        } else {
            self.quoted_word(word)
        }
    }

    fn quoted_word(self, word: &str) -> String {
        match self {
            Self::Sh => format!("'{}'", word.replace('\'', r"'\''")),
            Self::Fish => format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'")),
            Self::Power => {
                // PowerShell treats typographic quotes as quotes as well.
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

    /// Quotes a word that has characters which would control a terminal. These are written as
    /// escapes, so that the shell receives them and the terminal does not.
    fn quote_with_escapes(self, word: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut plain = String::new();
        for one in word.chars() {
            if !controls_terminal(one) {
                plain.push(one);
                continue;
            }
            if !plain.is_empty() {
                parts.push(self.quoted_word(&std::mem::take(&mut plain)));
            }
            parts.push(self.code_of(one));
        }
        if !plain.is_empty() {
            parts.push(self.quoted_word(&plain));
        }
        match self {
            Self::Sh | Self::Fish => parts.concat(),
            Self::Power => format!("({})", parts.join(" + ")),
        }
    }

    /// Writes a character as an escape.
    fn code_of(self, one: char) -> String {
        let number = u32::from(one);
        match self {
            // Every shell's `printf` supports octal escapes of bytes.
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

/// Returns whether a character would control a terminal, or hide or reverse text. Line ends and
/// tabs are allowed inside quotes.
fn controls_terminal(one: char) -> bool {
    is_hidden(one) && !matches!(one, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_of_a_shell_as_they_went_in() {
        let check = |shell: ShellKind, word: &str, expected: &str| {
            assert_eq!(shell.quote_word(word), expected);
        };
        check(ShellKind::Sh, "plain-1.2/x", "plain-1.2/x");
        check(ShellKind::Sh, "", "''");
        check(ShellKind::Sh, "it's $HOME `x`", r"'it'\''s $HOME `x`'");
        check(ShellKind::Fish, r"it's a \ path", r"'it\'s a \\ path'");
        check(ShellKind::Power, "it's ‘here’", "'it''s ‘‘here’’'");
        check(ShellKind::Sh, "a\x1bb", r#"'a'"$(printf '\033')"'b'"#);
        check(ShellKind::Fish, "a\x1bb", r"'a'\U0000001b'b'");
        check(ShellKind::Power, "a\x1bb", "('a' + [string][char]27 + 'b')");
    }

    #[cfg(unix)]
    #[test]
    fn a_real_shell_reads_the_same_words() {
        let words = ["a b", "it's", "$(touch x)", "back`tick", "new\nline", "*", "\"", "\\", "ä€"];
        let steering =
            ["\x1b]52;c;YQ==\x07", "a\u{9b}31mb", "it's\u{202e}x\r", "\u{e0041}\u{200b}"];
        for word in words.into_iter().chain(steering) {
            assert!(!ShellKind::Sh.quote_word(word).contains(controls_terminal), "{word:?}");
            let line = format!("printf %s {}", ShellKind::Sh.quote_word(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
