//! The table that the benchmark prints.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::process::Used;

/// A row of the table.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: String,
    /// Processor time: the figure on a machine without other load.
    pub(crate) cpu: String,
    pub(crate) limit: String,
    /// Whether the limit is met; `None` without a limit.
    pub(crate) holds: Option<bool>,
    /// The figures of ripgrep for the same query.
    pub(crate) ripgrep: String,
}

/// The runs of one command.
pub(crate) struct Runs(pub(crate) Vec<Used>);

impl Runs {
    /// Returns the median of the wall times.
    pub(crate) fn wall(&self) -> Duration {
        median(self.0.iter().map(|used| used.wall))
    }

    /// Returns the median of the processor times.
    pub(crate) fn cpu(&self) -> Duration {
        median(self.0.iter().map(|used| used.cpu))
    }

    /// Returns the maximum peak memory of all runs, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.0.iter().map(|used| used.memory).max().unwrap_or(0)
    }

    /// Returns the maximum number of bytes that a run wrote.
    pub(crate) fn written(&self) -> u64 {
        self.0.iter().map(|used| used.written).max().unwrap_or(0)
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Renders the table with the facts that it depends on.
pub(crate) fn markdown(about: &[String], rows: &[Row]) -> String {
    let mut text = about.join(" · ");
    text.push_str("\n\n| | aj | CPU | limit | verdict | ripgrep |\n|---|--:|--:|--:|---|--:|\n");
    for Row { what, ours, cpu, limit, holds, ripgrep } in rows {
        let verdict = holds.map_or("", |holds| if holds { "holds" } else { "**over**" });
        text.push_str(&format!("| {what} | {ours} | {cpu} | {limit} | {verdict} | {ripgrep} |\n"));
    }
    text
}

/// Describes the machine: processor, cores, memory, system.
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

/// Returns the load of the machine before the benchmark.
pub(crate) fn load() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    Some(format!("load {} before", text.split(' ').next()?))
}

/// Reads the value of `name : value` from a system file.
fn fact(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the first line of a program's output, or `None` if it is not installed.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}

/// Formats a time in milliseconds or seconds.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// Formats a size in MiB.
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
