//! The table the bench prints.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::process::Used;

/// One line of the table.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: String,
    /// Processor time: what the figure would be on a machine with nothing else to do.
    pub(crate) cpu: String,
    pub(crate) limit: String,
    /// Whether the limit holds; none where there is no limit.
    pub(crate) holds: Option<bool>,
    /// ripgrep on the same question.
    pub(crate) ripgrep: String,
}

/// Runs of one command.
pub(crate) struct Runs(pub(crate) Vec<Used>);

impl Runs {
    /// The median of the wall times.
    pub(crate) fn wall(&self) -> Duration {
        median(self.0.iter().map(|used| used.wall))
    }

    /// The median of the processor times.
    pub(crate) fn cpu(&self) -> Duration {
        median(self.0.iter().map(|used| used.cpu))
    }

    /// The most memory any run used.
    pub(crate) fn memory(&self) -> u64 {
        self.0.iter().map(|used| used.memory).max().unwrap_or(0)
    }

    /// The most bytes any run wrote.
    pub(crate) fn written(&self) -> u64 {
        self.0.iter().map(|used| used.written).max().unwrap_or(0)
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Writes the table with the facts it depends on.
pub(crate) fn markdown(about: &[String], rows: &[Row]) -> String {
    let mut text = about.join(" · ");
    text.push_str("\n\n| | aj | CPU | limit | verdict | ripgrep |\n|---|--:|--:|--:|---|--:|\n");
    for Row { what, ours, cpu, limit, holds, ripgrep } in rows {
        let verdict = holds.map_or("", |holds| if holds { "holds" } else { "**over**" });
        text.push_str(&format!("| {what} | {ours} | {cpu} | {limit} | {verdict} | {ripgrep} |\n"));
    }
    text
}

/// The machine: processor, cores, memory, system.
pub(crate) fn machine() -> String {
    let processor = fact("/proc/cpuinfo", "model name").unwrap_or_else(|| "processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = fact("/proc/meminfo", "MemTotal").and_then(|text| {
        let kibibytes: u64 = text.split(' ').next()?.parse().ok()?;
        Some(format!(", {} GiB", kibibytes >> 20))
    });
    let system = first_line("uname", &["-sr"]).unwrap_or_default();
    format!("{processor}, {cores} cores{}, {system}", memory.unwrap_or_default())
}

/// How busy the machine is with other things.
pub(crate) fn load() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    Some(format!("load {} before", text.split(' ').next()?))
}

/// Reads `name : value` of a file of the system.
fn fact(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first line a program prints; none when it is not installed.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}

/// A time as people read it.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// Memory as people read it.
pub(crate) fn memory(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!(time(Duration::from_micros(6_240)), "6.2 ms");
        assert_eq!(time(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(memory(3 << 19), "1.5 MiB");
    }
}
