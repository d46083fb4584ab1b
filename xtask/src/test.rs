//! `test`: runs all tests. Installs their requirements beyond cargo first, so that nothing has to
//! be installed by hand. If that fails, the tests that need them are skipped with a message.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, run as call, target, words};
use crate::{browser, needs, no_arguments};

/// How many of the slowest tests are listed.
const LISTED_TESTS: usize = 10;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    browser::ready();
    if let Err(error) = needs::python::prepare(&target()?) {
        eprintln!("no MCP client: {error:#}");
    }
    if let Err(error) = needs::tables::prepare(&target()?) {
        eprintln!("no readers of tables: {error:#}");
    }
    if !is_nextest_installed() {
        return call(&mut cargo(&["test", "--workspace"]));
    }
    // nextest does not run the examples of the documentation. Its summary is the last line.
    call(&mut cargo(&["test", "--workspace", "--doc"]))?;
    run_nextest(&mut cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]))
}

/// Returns whether `cargo nextest` runs. It runs all test programs at once, and `cargo test` one
/// after the other.
fn is_nextest_installed() -> bool {
    let mut version = cargo(&["nextest", "--version"]);
    version
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the tests and lists the slowest ones before the summary.
fn run_nextest(command: &mut Command) -> Result<()> {
    let words = words(command);
    eprintln!("$ {words}");
    let attempt = || format!("could not run `{words}`");
    let mut child = command.stderr(Stdio::piped()).spawn().with_context(attempt)?;
    let output = child.stderr.take().context("stderr is a pipe")?;
    forward_report(output, |line| eprintln!("{line}")).with_context(attempt)?;
    ensure!(child.wait().with_context(attempt)?.success(), "`{words}` failed");
    Ok(())
}

/// Forwards the report of nextest line by line, with a list of the slowest tests before its
/// summary.
fn forward_report(report: impl Read, mut print: impl FnMut(&str)) -> std::io::Result<()> {
    let mut tests = Vec::new();
    for line in BufReader::new(report).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if line.trim_start().starts_with("Summary [") {
            tests.sort_by(|(one, _): &(f64, String), (other, _)| other.total_cmp(one));
            print(&format!("The {LISTED_TESTS} slowest tests:"));
            for (seconds, name) in tests.drain(..).take(LISTED_TESTS) {
                print(&format!("{seconds:>9.1} s  {name}"));
            }
        }
        tests.extend(finished_test(&line));
        print(&line);
    }
    Ok(())
}

/// Returns the seconds and the name of a test, if a line of the report says that it finished.
fn finished_test(line: &str) -> Option<(f64, String)> {
    let (status, rest) = line.split_once('[')?;
    let is_result = matches!(status.trim(), "PASS" | "LEAK" | "FAIL" | "LEAK-FAIL");
    let (seconds, rest) = rest.split_once("s]").filter(|_| is_result)?;
    // Newer versions count the tests before the name: `( 12/899)`.
    let name = match rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, name)) => name,
        None => rest,
    };
    Some((seconds.trim().parse().ok()?, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_tests_are_listed_before_the_summary() {
        let report = "        PASS [   0.500s] ( 1/12) aj::runner search::a_word\n\
                      \x20       SLOW [> 60.000s] (─────) aj::runner kills::b_word\n\
                      \x20       FAIL [  61.250s] ( 2/12) aj::runner kills::b_word\n\
                      \x20       PASS [   1.000s] xtask tests::[brackets]\n\
                      ------------\n\
                      \x20    Summary [  61.250s] 3 tests run: 2 passed, 1 failed\n\
                      \x20       FAIL [  61.250s] ( 2/12) aj::runner kills::b_word\n";
        let mut printed = Vec::new();
        forward_report(report.as_bytes(), |line| printed.push(line.to_owned())).unwrap();
        let at = printed.iter().position(|line| line == "The 10 slowest tests:").unwrap();
        assert_eq!(
            printed[at + 1..at + 4],
            [
                "     61.2 s  aj::runner kills::b_word",
                "      1.0 s  xtask tests::[brackets]",
                "      0.5 s  aj::runner search::a_word",
            ]
        );
        assert!(printed[at + 4].contains("Summary") && printed.len() == 11, "{printed:#?}");
    }
}
