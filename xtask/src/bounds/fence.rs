//! A group of processes that may not have more than some memory. The system kills what asks for
//! more, so that a limit is not only measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where such groups are made: the older and the newer way of Linux.
const PLACES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A group with a limit, until it is dropped.
pub(crate) struct Fence {
    group: PathBuf,
}

impl Fence {
    /// Makes a group; `None` where this user may not.
    pub(crate) fn new(limit: u64) -> Option<Self> {
        PLACES.iter().find_map(|(place, file)| {
            let group = Path::new(place).join(format!("aj-bounds-{}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let fence = Self { group };
            fs::write(fence.group.join(file), limit.to_string()).ok()?;
            Some(fence)
        })
    }

    /// The same command inside the group.
    pub(crate) fn around(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        let procs = self.group.join("cgroup.procs");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs);
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // An empty group goes; one that somebody is still in stays for the system to clean up.
        let _ = fs::remove_dir(&self.group);
    }
}
