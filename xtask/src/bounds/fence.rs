//! A cgroup with a memory limit. The system kills processes that exceed it, so that the limit is
//! enforced and not only measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The cgroup directories and limit files of cgroup version 1 and version 2.
const PLACES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A cgroup with a memory limit, removed when the value is dropped.
pub(crate) struct Fence {
    group: PathBuf,
}

impl Fence {
    /// Creates a cgroup. Returns `None` if this user may not.
    pub(crate) fn new(limit: u64) -> Option<Self> {
        PLACES.iter().find_map(|(place, file)| {
            let group = Path::new(place).join(format!("aj-bounds-{}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let fence = Self { group };
            fs::write(fence.group.join(file), limit.to_string()).ok()?;
            Some(fence)
        })
    }

    /// Returns a command that runs the given one inside the cgroup.
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
        // Removes an empty cgroup. One with processes is left to the system.
        let _ = fs::remove_dir(&self.group);
    }
}
