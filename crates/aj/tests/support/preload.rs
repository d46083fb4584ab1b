//! Libraries that are loaded before the system's own, to disturb what the program does.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Test;

/// Compiles `tests/<name>.c`; `None` where there is no compiler.
pub fn library(test: &Test, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{name}.c"));
    let library = test.beside(&format!("{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    let is_built = compiler.status().is_ok_and(|status| status.success());
    if !is_built {
        println!("SKIPPED: there is no C compiler");
    }
    is_built.then_some(library)
}

/// Numbers of errors of Linux.
pub const NO_SPACE: i32 = 28;
pub const READ_ONLY: i32 = 30;
pub const QUOTA: i32 = 122;

/// What `write_faults.c` does to operations below a directory.
pub struct WriteFaults {
    library: PathBuf,
}

#[allow(clippy::unused_self, reason = "only a library that was built can be asked")]
impl WriteFaults {
    /// `None` where there is no compiler.
    pub fn new(test: &Test) -> Option<Self> {
        library(test, "write_faults").map(|library| Self { library })
    }

    /// The program in a home, with the journal's files under observation.
    pub fn command(&self, test: &Test, journal: &Path, words: &str) -> Command {
        let mut command = test.command(words.split(' '));
        command.env("LD_PRELOAD", &self.library);
        command.env("AJ_HOME", journal).env("FAULT_BELOW", journal);
        command
    }

    /// Runs the program until its `at`-th operation and kills it there; says whether it came to
    /// that.
    pub fn kill(&self, mut command: Command, at: u64, is_torn: bool) -> bool {
        command.env("FAULT_KILL_AT", at.to_string());
        if is_torn {
            command.env("FAULT_TEAR", "1");
        }
        let output = command.output().unwrap();
        let code = output.status.code();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(code, None | Some(0)), "{at}: {code:?} {stderr}");
        code.is_none()
    }

    /// The program, for which writing fails from the `from`-th operation on.
    pub fn failing_from(&self, mut command: Command, from: u64, error: i32) -> Command {
        command.env("FAULT_FAIL_FROM", from.to_string());
        command.env("FAULT_ERRNO", error.to_string());
        command
    }

    /// The program, for which writing fails as long as a file exists.
    pub fn failing_while(&self, mut command: Command, file: &Path, error: i32) -> Command {
        command.env("FAULT_FAIL_WHILE", file);
        command.env("FAULT_ERRNO", error.to_string());
        command
    }
}
