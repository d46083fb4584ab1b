//! A disk that loses power: operations that `write_faults.c` wrote down are carried out up to some
//! point, and of what was not synced by then some is lost.
//!
//! The rules: the content of a file is safe once the file was synced. Until then each write may be
//! kept, lost or torn. Names (creating, renaming, deleting) reach the disk in their order; those
//! are safe that came before the last sync of a directory, or before the name of a file that was
//! synced. Shared memory (`-shm`) never survives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Random;

enum Operation {
    Create(PathBuf),
    Write { path: PathBuf, place: usize, data: Vec<u8> },
    Truncate { path: PathBuf, length: usize },
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
}

/// The operations of one run below a directory.
pub struct Recording {
    operations: Vec<Operation>,
}

impl Recording {
    /// Reads what was written down.
    pub fn read(log: &Path, below: &Path) -> Self {
        let bytes = fs::read(log).unwrap();
        let mut rest = &bytes[..];
        let mut operations = Vec::new();
        let mut take = |count: usize| -> Option<Vec<u8>> {
            let (taken, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(taken.to_vec())
        };
        while let Some(head) = take(16) {
            let numbers: Vec<usize> = head
                .as_chunks()
                .0
                .iter()
                .map(|bytes| u32::from_ne_bytes(*bytes) as usize)
                .collect();
            let place = i64::from_ne_bytes(take(8).unwrap().try_into().unwrap());
            let place = usize::try_from(place).unwrap();
            let mut path = |length: usize| {
                let path = PathBuf::from(String::from_utf8(take(length).unwrap()).unwrap());
                path.strip_prefix(below).map_or_else(|_| path.clone(), Path::to_owned)
            };
            let (path, other) = (path(numbers[1]), path(numbers[2]));
            let data = if numbers[0] == 2 { take(numbers[3]).unwrap() } else { Vec::new() };
            operations.push(match numbers[0] {
                1 => Operation::Create(path),
                2 => Operation::Write { path, place, data },
                3 => Operation::Truncate { path, length: place },
                4 => Operation::Sync(path),
                5 => Operation::Rename(path, other),
                6 => Operation::Unlink(path),
                7 => Operation::MakeDirectory(path),
                _ => Operation::RemoveDirectory(path),
            });
        }
        Self { operations }
    }

    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Makes a directory as it is found after the power was lost behind the first `count`
    /// operations on a copy of `before`.
    pub fn lose_power(&self, before: &Path, count: usize, random: &mut Random, target: &Path) {
        let mut disk = Disk::of(before);
        for operation in &self.operations[..count] {
            disk.apply(operation);
        }
        disk.write_remains(random, target);
    }
}

#[derive(Default)]
struct Disk {
    files: Vec<Content>,
    /// Names as the running system sees them.
    names: Names,
    /// Names as they were in the beginning, and every change since.
    first_names: Names,
    changes: Vec<NameChange>,
    /// How many of the changes are safe.
    safe: usize,
}

#[derive(Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Default)]
struct Content {
    safe: Vec<u8>,
    pending: Vec<Change>,
}

enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

enum NameChange {
    Add(PathBuf, usize),
    Move(PathBuf, PathBuf),
    Remove(PathBuf),
    AddDirectory(PathBuf),
    RemoveDirectory(PathBuf),
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Add(path, file) => drop(self.files.insert(path.clone(), *file)),
            NameChange::Move(from, to) => {
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(to.clone(), file);
                }
            }
            NameChange::Remove(path) => drop(self.files.remove(path)),
            NameChange::AddDirectory(path) => drop(self.directories.insert(path.clone())),
            NameChange::RemoveDirectory(path) => drop(self.directories.remove(path)),
        }
    }
}

impl Disk {
    fn of(directory: &Path) -> Self {
        let mut disk = Self::default();
        disk.load(directory, Path::new(""));
        disk.first_names = disk.names.clone();
        disk
    }

    fn load(&mut self, directory: &Path, prefix: &Path) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let name = prefix.join(entry.file_name());
            if entry.path().is_dir() {
                self.names.directories.insert(name.clone());
                self.load(&entry.path(), &name);
            } else {
                self.names.files.insert(name, self.files.len());
                let safe = fs::read(entry.path()).unwrap();
                self.files.push(Content { safe, pending: Vec::new() });
            }
        }
    }

    fn rename(&mut self, change: NameChange) {
        self.names.apply(&change);
        self.changes.push(change);
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path) => {
                self.files.push(Content::default());
                self.rename(NameChange::Add(path.clone(), self.files.len() - 1));
            }
            Operation::Write { path, place, data } => {
                self.change(path, Change::Write(*place, data.clone()));
            }
            Operation::Truncate { path, length } => self.change(path, Change::Truncate(*length)),
            Operation::Sync(path) => self.sync(path),
            Operation::Rename(from, to) => {
                self.rename(NameChange::Move(from.clone(), to.clone()));
            }
            Operation::Unlink(path) => self.rename(NameChange::Remove(path.clone())),
            Operation::MakeDirectory(path) => self.rename(NameChange::AddDirectory(path.clone())),
            Operation::RemoveDirectory(path) => {
                self.rename(NameChange::RemoveDirectory(path.clone()));
            }
        }
    }

    fn change(&mut self, path: &Path, change: Change) {
        // A file that was deleted meanwhile concerns nobody.
        if let Some(file) = self.names.files.get(path) {
            self.files[*file].pending.push(change);
        }
    }

    fn sync(&mut self, path: &Path) {
        if let Some(file) = self.names.files.get(path) {
            let content = &mut self.files[*file];
            for change in std::mem::take(&mut content.pending) {
                change.apply(&mut content.safe);
            }
            let names_it = |change: &NameChange| match change {
                NameChange::Add(name, _) | NameChange::Move(_, name) => name == path,
                _ => false,
            };
            let named = self.changes.iter().rposition(names_it);
            self.safe = self.safe.max(named.map_or(0, |at| at + 1));
        } else {
            self.safe = self.changes.len();
        }
    }

    fn write_remains(mut self, random: &mut Random, target: &Path) {
        let more = random.below((self.changes.len() - self.safe) as u64 + 1) as usize;
        let mut names = self.first_names;
        for change in &self.changes[..self.safe + more] {
            names.apply(change);
        }
        fs::create_dir_all(target).unwrap();
        for directory in &names.directories {
            fs::create_dir_all(target.join(directory)).unwrap();
        }
        for (name, file) in &names.files {
            if name.to_string_lossy().ends_with("-shm") {
                continue;
            }
            let content = &mut self.files[*file];
            for change in std::mem::take(&mut content.pending) {
                match (random.below(4), change) {
                    (0, _) => {}
                    (1, Change::Write(place, data)) => {
                        let kept = random.below(data.len() as u64) as usize;
                        Change::Write(place, data[..kept].to_vec()).apply(&mut content.safe);
                    }
                    (_, change) => change.apply(&mut content.safe),
                }
            }
            let path = target.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content.safe).unwrap();
        }
    }
}

impl Change {
    fn apply(self, content: &mut Vec<u8>) {
        match self {
            Self::Write(place, data) => {
                let end = place + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[place..end].copy_from_slice(&data);
            }
            Self::Truncate(length) => content.resize(length, 0),
        }
    }
}
