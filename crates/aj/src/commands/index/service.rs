//! A service that keeps the journal up from login on: a systemd user unit, or a launchd agent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::connectors::{Machine, Os};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::context::Context;
use crate::error::FOUND;
use crate::output;
use crate::settings::{Settings, name_of, own_machine};

/// What to do with the service.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Install {
    /// Print it
    Print,
    /// Put it in its place
    Write,
}

/// A service's file.
struct Service {
    path: PathBuf,
    text: String,
    /// What starts it, now and from the next login on.
    start: String,
}

pub(super) fn run(install: Install, context: &Context) -> Result<ExitCode> {
    let service = Service::new(&context.settings)?;
    let mut out = anstream::stdout();
    let is_written = matches!(install, Install::Write);
    if is_written {
        service.write()?;
    }
    if context.json {
        let Service { path, text, start } = &service;
        let document = json!({
            "path": path.display().to_string(), "text": text, "start": start, "written": is_written,
        });
        output::json::print("service", document)?;
    } else if is_written {
        writeln!(out, "wrote {}", service.path.display())?;
        writeln!(out, "start it: {}", service.start)?;
    } else {
        write!(out, "{}", service.text)?;
    }
    Ok(FOUND)
}

/// What the service is to do.
struct Task {
    /// What sets it apart from the service of the user's own home.
    suffix: String,
    command: Vec<String>,
    /// What it must know that a login shell may have set.
    variables: BTreeMap<String, String>,
}

impl Task {
    fn new(settings: &Settings, own: &Machine) -> Result<Self> {
        let program = std::env::current_exe().context("could not find this program's own path")?;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let mut command = vec![text(&program).context("the path of this program is not UTF-8")?];
        let mut suffix = String::new();
        if settings.is_other {
            let home = settings.machine().home;
            suffix = format!("-{}", unit_name(&name_of(&home)));
            let home = text(&home).context("the path of the home is not UTF-8")?;
            command.extend(["--home".to_owned(), home]);
        }
        command.extend(["index", "--watch"].map(str::to_owned));
        Ok(Self { suffix, command, variables: settings.variables(own) })
    }
}

/// The name as systemd takes it: letters of other alphabets are told by their numbers.
fn unit_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        _ if letter.is_ascii() => letter.to_string(),
        _ => format!("u{:x}", u32::from(letter)),
    };
    name.chars().map(plain).collect()
}

impl Service {
    fn new(settings: &Settings) -> Result<Self> {
        // Whoever's home is read, it is the user's own session that it starts with.
        let own = own_machine()?;
        let task = Task::new(settings, &own)?;
        match own.os {
            Os::MacOs => Ok(Self::launchd(&own.home, &task)),
            Os::Linux => {
                let config = own.path("XDG_CONFIG_HOME");
                let config = config.unwrap_or_else(|| own.home.join(".config"));
                Ok(Self::systemd(&config, &task))
            }
            _ => bail!("there is no service for this system: run `aj index --watch` at login"),
        }
    }

    fn systemd(config: &Path, task: &Task) -> Self {
        let mut environment = String::new();
        for (name, value) in &task.variables {
            let pair = quoted(&format!("{name}={value}"));
            environment.push_str(&format!("Environment={pair}\n"));
        }
        // Only commands have variables in them.
        let command: Vec<String> =
            task.command.iter().map(|one| word(one).replace('$', "$$")).collect();
        let command = command.join(" ");
        let name = format!("agent-journal{}.service", task.suffix);
        Self {
            path: config.join("systemd/user").join(&name),
            text: format!(
                "[Unit]\n\
                 Description=Keeps the journal of coding agents up to date\n\
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

    fn launchd(home: &Path, task: &Task) -> Self {
        let entry = |(name, value): (&String, &String)| {
            format!("    <key>{name}</key>\n    <string>{}</string>\n", escaped(value))
        };
        let variables: String = task.variables.iter().map(entry).collect();
        let word = |one: &String| format!("    <string>{}</string>\n", escaped(one));
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

    fn write(&self) -> Result<()> {
        let failed = || format!("could not write {}", self.path.display());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(failed)?;
        }
        fs::write(&self.path, &self.text).with_context(failed)
    }
}

/// A word of a unit's line, in quotes where it needs them.
fn word(text: &str) -> String {
    let is_plain = text.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// A text in quotes: systemd expands `%`, and splits at spaces.
fn quoted(text: &str) -> String {
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

/// Text inside an element of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_survive_in_a_unit_and_in_a_plist() {
        let words = [r#"/opt/50% & "more"/aj"#, "--home", "/a $b", "index", "--watch"];
        let task = |value: &str| Task {
            suffix: "-a".to_owned(),
            command: words.map(str::to_owned).into(),
            variables: [("AJ_HOME".to_owned(), value.to_owned())].into(),
        };
        let unit = Service::systemd(Path::new("/c"), &task("/a b"));
        let command = r#"ExecStart="/opt/50%% & \"more\"/aj" --home "/a $$b" index --watch"#;
        assert!(unit.text.contains(command), "{}", unit.text);
        assert!(unit.text.contains("Environment=\"AJ_HOME=/a b\"\n"));
        assert!(unit.start.ends_with(" agent-journal-a.service"));
        let agent = Service::launchd(Path::new("/h"), &task("/a<b"));
        assert!(agent.text.contains(r#"<string>/opt/50% &amp; "more"/aj</string>"#));
        assert!(agent.text.contains("<string>--home</string>\n    <string>/a $b</string>"));
        assert!(agent.text.contains("<key>AJ_HOME</key>\n    <string>/a&lt;b</string>"));
        assert!(agent.path.ends_with("agent-journal.watch-a.plist"));
        assert_eq!(unit_name("home-jörg"), "home-juf6rg");
    }
}
