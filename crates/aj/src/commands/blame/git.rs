//! What git knows of a file: the repository around it, and the commit of each line. Without git,
//! or outside a repository, nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_journal::model::Timestamp;

/// The root of the working tree that a file belongs to.
pub(super) fn root(file: &Path) -> Option<PathBuf> {
    let text = git(file.parent()?, &["rev-parse", "--show-toplevel"])?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// A commit that brought a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) at: Option<Timestamp>,
}

/// The commit of each line of a file; a line that was not committed has none.
pub(super) fn commits(file: &Path) -> Vec<Option<Commit>> {
    let blamed = || {
        let name = file.file_name()?.to_str()?;
        git(file.parent()?, &["blame", "--porcelain", "--", name])
    };
    blamed().map(|text| read(&text)).unwrap_or_default()
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads `git blame --porcelain`: what is known of a commit stands at its first line only.
fn read(porcelain: &str) -> Vec<Option<Commit>> {
    let mut times: HashMap<&str, Option<Timestamp>> = HashMap::new();
    let (mut commits, mut id) = (Vec::new(), "");
    let mut is_head = true;
    for line in porcelain.lines() {
        if line.starts_with('\t') {
            let is_committed = id.bytes().any(|byte| byte != b'0');
            let at = times.get(id).copied().flatten();
            commits.push(is_committed.then(|| Commit { id: id.to_owned(), at }));
            is_head = true;
        } else if is_head {
            id = line.split(' ').next().unwrap_or_default();
            is_head = false;
        } else if let Some(seconds) = line.strip_prefix("committer-time ") {
            let seconds = seconds.parse::<i64>().ok();
            times.insert(id, seconds.and_then(|one| Timestamp::from_millis(one * 1000)));
        }
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_commit_and_uncommitted_ones_none() {
        let porcelain = "a1 1 1 2\nauthor M\ncommitter-time 60\nfilename x\n\tone\na1 2 2\n\ttwo\n\
                         00 3 3 1\ncommitter-time 90\n\tthree\na1 4 4\n\tcommitter-time 7\n";
        let first = Some(Commit { id: "a1".to_owned(), at: Timestamp::from_millis(60_000) });
        assert_eq!(read(porcelain), [first.clone(), first.clone(), None, first]);
    }
}
