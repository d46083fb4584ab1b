//! A service that keeps the journal up to date from login on: a systemd user unit or a launchd
//! agent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::connectors::{Machine, Os};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output;
use crate::settings::{UserSettings, home_directory_name};

/// What to do with the service.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Install {
    /// Print the service file
    Print,
    /// Install the service file
    Write,
}

/// A service definition file.
struct Service {
    path: PathBuf,
    text: String,
    /// The command that starts the service, now and after each login.
    start: String,
}

pub(super) fn run_service(install: Install, context: &CommandContext) -> Result<ExitCode> {
    let service = Service::new(&context.settings)?;
    let mut out = anstream::stdout();
    let is_written = matches!(install, Install::Write);
    if is_written {
        service.write_service()?;
    }
    if context.json {
        let Service { path, text, start } = &service;
        let document = json!({
            "path": path.display().to_string(), "text": text, "start": start, "written": is_written,
        });
        output::json::print_document("service", document)?;
    } else if is_written {
        writeln!(out, "wrote {}", service.path.display())?;
        writeln!(out, "start it: {}", service.start)?;
    } else {
        write!(out, "{}", service.text)?;
    }
    Ok(FOUND)
}

/// The command and environment of the service.
struct ServiceTask {
    /// The suffix that distinguishes it from the service of the user's own home.
    suffix: String,
    command: Vec<String>,
    /// Environment variables that a login shell may have set and the service needs.
    variables: BTreeMap<String, String>,
}

impl ServiceTask {
    fn new(settings: &UserSettings, own: &Machine) -> Result<Self> {
        let program = std::env::current_exe().context("could not determine the path of aj")?;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let mut command = vec![text(&program).context("the path of aj is not valid UTF-8")?];
        let mut suffix = String::new();
        if settings.is_other {
            let home = settings.scanned_machine().home;
            suffix = format!("-{}", unit_name(&home_directory_name(&home)));
            let home = text(&home).context("the path of the home is not valid UTF-8")?;
            command.extend(["--home".to_owned(), home]);
        }
        command.extend(["index", "--watch"].map(str::to_owned));
        Ok(Self { suffix, command, variables: settings.relevant_variables(own) })
    }
}

/// Makes a name valid for systemd: non-ASCII letters become their code points.
fn unit_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        _ if letter.is_ascii() => letter.to_string(),
        _ => format!("u{:x}", u32::from(letter)),
    };
    name.chars().map(plain).collect()
}

impl Service {
    fn new(settings: &UserSettings) -> Result<Self> {
        // The service starts with the user's own login, even if it reads another home.
        let own = Machine::current()?;
        let task = ServiceTask::new(settings, &own)?;
        match own.os {
            Os::MacOs => Ok(Self::launchd_service(&own.home, &task)),
            Os::Linux => {
                let config = own.env_path("XDG_CONFIG_HOME");
                let config = config.unwrap_or_else(|| own.home.join(".config"));
                Ok(Self::systemd_service(&config, &task))
            }
            _ => {
                bail!("services are not supported on this system: run `aj index --watch` at login")
            }
        }
    }

    fn systemd_service(config: &Path, task: &ServiceTask) -> Self {
        let mut environment = String::new();
        for (name, value) in &task.variables {
            let pair = quoted_for_unit(&format!("{name}={value}"));
            environment.push_str(&format!("Environment={pair}\n"));
        }
        // systemd expands variables only in commands.
        let command: Vec<String> =
            task.command.iter().map(|one| unit_word(one).replace('$', "$$")).collect();
        let command = command.join(" ");
        let name = format!("agent-journal{}.service", task.suffix);
        Self {
            path: config.join("systemd/user").join(&name),
            text: format!(
                "[Unit]\n\
                 Description=Keep the journal of coding agents up to date\n\
                 \n\
                 [Service]\n\
                 ExecStart={command}\n\
                 {environment}\
                 Restart=on-failure\n\
                 RestartSec=30\n\
                 Nice=10\n\
                 IOSchedulingClass=idle\n\
                 \n\
                 [Install]\n\
                 WantedBy=default.target\n"
            ),
            start: format!("systemctl --user enable --now {name}"),
        }
    }

    fn launchd_service(home: &Path, task: &ServiceTask) -> Self {
        let entry = |(name, value): (&String, &String)| {
            format!("    <key>{name}</key>\n    <string>{}</string>\n", escaped_xml(value))
        };
        let variables: String = task.variables.iter().map(entry).collect();
        let word = |one: &String| format!("    <string>{}</string>\n", escaped_xml(one));
        let command: String = task.command.iter().map(word).collect();
        let label = format!("agent-journal.watch{}", task.suffix);
        let path = home.join(format!("Library/LaunchAgents/{label}.plist"));
        Self {
            start: format!("launchctl load -w '{}'", path.display()),
            path,
            text: format!(
                r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{command}  </array>
  <key>EnvironmentVariables</key>
  <dict>
{variables}  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ProcessType</key>
  <string>Background</string>
</dict>
</plist>
"#
            ),
        }
    }

    fn write_service(&self) -> Result<()> {
        let failed = || format!("could not write {}", self.path.display());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(failed)?;
        }
        fs::write(&self.path, &self.text).with_context(failed)
    }
}

/// Quotes a word of a unit file if necessary.
fn unit_word(text: &str) -> String {
    let is_plain = text.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
    if is_plain { text.to_owned() } else { quoted_for_unit(text) }
}

/// Quotes a text for a unit file. systemd expands `%` and splits at spaces.
fn quoted_for_unit(text: &str) -> String {
    let mut word = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => word.extend(['\\', character]),
            '%' => word.push_str("%%"),
            _ => word.push(character),
        }
    }
    word.push('"');
    word
}

/// Escapes text for an XML element.
fn escaped_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_survive_in_a_unit_and_in_a_plist() {
        let words = [r#"/opt/50% & "more"/aj"#, "--home", "/a $b", "index", "--watch"];
        let task = |value: &str| ServiceTask {
            suffix: "-a".to_owned(),
            command: words.map(str::to_owned).into(),
            variables: [("AJ_HOME".to_owned(), value.to_owned())].into(),
        };
        let unit = Service::systemd_service(Path::new("/c"), &task("/a b"));
        let command = r#"ExecStart="/opt/50%% & \"more\"/aj" --home "/a $$b" index --watch"#;
        assert!(unit.text.contains(command), "{}", unit.text);
        assert!(unit.text.contains("Environment=\"AJ_HOME=/a b\"\n"));
        assert!(unit.start.ends_with(" agent-journal-a.service"));
        let agent = Service::launchd_service(Path::new("/h"), &task("/a<b"));
        assert!(agent.text.contains(r#"<string>/opt/50% &amp; "more"/aj</string>"#));
        assert!(agent.text.contains("<string>--home</string>\n    <string>/a $b</string>"));
        assert!(agent.text.contains("<key>AJ_HOME</key>\n    <string>/a&lt;b</string>"));
        assert!(agent.path.ends_with("agent-journal.watch-a.plist"));
        assert_eq!(unit_name("home-jörg"), "home-juf6rg");
    }
}
