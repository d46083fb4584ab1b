//! Reads the repository root of a file and the commit of each line from git. Returns nothing
//! without git or outside a repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_journal::model::Timestamp;

/// Returns the root of the working tree that contains a file.
pub(super) fn worktree_root(file: &Path) -> Option<PathBuf> {
    let text = git_output(file.parent()?, &["rev-parse", "--show-toplevel"])?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// The commit that last changed a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineCommit {
    pub(super) id: String,
    pub(super) at: Option<Timestamp>,
}

/// Returns the commit of each line of a file, `None` for uncommitted lines.
pub(super) fn line_commits(file: &Path) -> Vec<Option<LineCommit>> {
    let blamed = || {
        let name = file.file_name()?.to_str()?;
        git_output(file.parent()?, &["blame", "--porcelain", "--", name])
    };
    blamed().map(|text| parse_blame_porcelain(&text)).unwrap_or_default()
}

fn git_output(folder: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the output of `git blame --porcelain`, which describes a commit only at its first line.
fn parse_blame_porcelain(porcelain: &str) -> Vec<Option<LineCommit>> {
    let mut times: HashMap<&str, Option<Timestamp>> = HashMap::new();
    let (mut commits, mut id) = (Vec::new(), "");
    let mut is_head = true;
    for line in porcelain.lines() {
        if line.starts_with('\t') {
            let is_committed = id.bytes().any(|byte| byte != b'0');
            let at = times.get(id).copied().flatten();
            commits.push(is_committed.then(|| LineCommit { id: id.to_owned(), at }));
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
        let first = Some(LineCommit { id: "a1".to_owned(), at: Timestamp::from_millis(60_000) });
        assert_eq!(parse_blame_porcelain(porcelain), [first.clone(), first.clone(), None, first]);
    }
}
