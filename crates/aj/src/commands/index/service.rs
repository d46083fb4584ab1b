//! A service that keeps the journal up from login on: a systemd user unit, or a launchd agent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::connectors::Os;
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::context::Context;
use crate::error::FOUND;
use crate::output;

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
    let service = Service::new(context)?;
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

impl Service {
    fn new(context: &Context) -> Result<Self> {
        let program = std::env::current_exe().context("could not find this program's own path")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?.to_owned();
        let machine = context.settings.machine();
        // What the service must know that a login shell may have set.
        let known = ["AJ_HOME", "AJ_INDEX_PATH"];
        let variables: Vec<(&str, &str)> =
            known.iter().filter_map(|name| Some((*name, machine.var(name)?))).collect();
        match machine.os {
            Os::MacOs => Ok(Self::launchd(&machine.home, &program, &variables)),
            Os::Linux => {
                let config = machine.path("XDG_CONFIG_HOME");
                let config = config.unwrap_or_else(|| machine.home.join(".config"));
                Ok(Self::systemd(&config, &program, &variables))
            }
            _ => bail!("there is no service for this system: run `aj index --watch` at login"),
        }
    }

    fn systemd(config: &Path, program: &str, variables: &[(&str, &str)]) -> Self {
        let mut environment = String::new();
        for (name, value) in variables {
            let pair = quoted(&format!("{name}={value}"));
            environment.push_str(&format!("Environment={pair}\n"));
        }
        // Only commands have variables in them.
        let program = quoted(program).replace('$', "$$");
        Self {
            path: config.join("systemd/user/agent-journal.service"),
            text: format!(
                "[Unit]\n\
                 Description=Keeps the journal of coding agents up to date\n\
                 \n\
                 [Service]\n\
                 ExecStart={program} index --watch\n\
                 {environment}\
                 Restart=on-failure\n\
                 RestartSec=30\n\
                 Nice=10\n\
                 IOSchedulingClass=idle\n\
                 \n\
                 [Install]\n\
                 WantedBy=default.target\n"
            ),
            start: "systemctl --user enable --now agent-journal.service".to_owned(),
        }
    }

    fn launchd(home: &Path, program: &str, variables: &[(&str, &str)]) -> Self {
        let entry = |(name, value): &(&str, &str)| {
            format!("    <key>{name}</key>\n    <string>{}</string>\n", escaped(value))
        };
        let variables: String = variables.iter().map(entry).collect();
        let path = home.join("Library/LaunchAgents/agent-journal.watch.plist");
        let program = escaped(program);
        Self {
            start: format!("launchctl load -w '{}'", path.display()),
            path,
            text: format!(
                r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>agent-journal.watch</string>
  <key>ProgramArguments</key>
  <array>
    <string>{program}</string>
    <string>index</string>
    <string>--watch</string>
  </array>
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

/// A word of a unit's line: systemd expands `%`, and splits at spaces.
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
        let program = r#"/opt/50% & "more"/aj"#;
        let unit = Service::systemd(Path::new("/c"), program, &[("AJ_HOME", "/a b")]);
        assert!(unit.text.contains(r#"ExecStart="/opt/50%% & \"more\"/aj" index --watch"#));
        assert!(unit.text.contains("Environment=\"AJ_HOME=/a b\"\n"));
        let agent = Service::launchd(Path::new("/h"), program, &[("AJ_HOME", "/a<b")]);
        assert!(agent.text.contains(r#"<string>/opt/50% &amp; "more"/aj</string>"#));
        assert!(agent.text.contains("<key>AJ_HOME</key>\n    <string>/a&lt;b</string>"));
    }
}
