//! The last look that found nothing is remembered. What it saves must never hide news: whatever
//! happens to any file or folder of any agent, a journal with a memory says what one without says.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use agent_journal::connectors::ALL;
use agent_journal::{Config, Journal, SyncOptions};

use crate::support::{Home, directories, fixtures};

/// A fixture's home that has been read, and its journal.
struct Place {
    home: Home,
    journal: tempfile::TempDir,
}

impl Place {
    fn of(fixture: &Path) -> Self {
        let place = Self { home: Home::of(fixture), journal: tempfile::tempdir().unwrap() };
        place.settle();
        place
    }

    fn open(&self) -> Journal {
        let mut machine = self.home.machine();
        machine.projects.push(self.home.path().join("project"));
        Journal::open(Config::new(self.journal.path().to_owned()), machine).unwrap()
    }

    fn memory(&self) -> PathBuf {
        self.journal.path().join("scan_cache")
    }

    /// Reads everything, and looks once more at files that nobody touched for an hour.
    fn settle(&self) {
        age(self.home.path());
        self.open().sync(SyncOptions::default(), &mut |_| {}).unwrap();
        assert!(self.open().pending_changes().unwrap().is_nothing());
        assert!(self.memory().exists(), "the look was not remembered");
    }

    /// Whether there is news, with the memory and without it.
    fn has_news(&self) -> (bool, bool) {
        let with = !self.open().pending_changes().unwrap().is_nothing();
        let kept = fs::read(self.memory()).unwrap();
        fs::remove_file(self.memory()).unwrap();
        let without = !self.open().pending_changes().unwrap().is_nothing();
        fs::write(self.memory(), kept).unwrap();
        (with, without)
    }

    #[track_caller]
    fn check(&self, what: &str, path: &Path) {
        let (with, without) = self.has_news();
        assert!(with || !without, "{what} {} went unnoticed", path.display());
    }
}

fn age(path: &Path) {
    for path in everything(path) {
        let past = SystemTime::now() - Duration::from_hours(1);
        File::open(path).unwrap().set_modified(past).unwrap();
    }
}

/// Every file and folder, folders after what is in them.
fn everything(path: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    if path.is_dir() {
        let mut children: Vec<PathBuf> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        children.sort();
        all.extend(children.iter().flat_map(|child| everything(child)));
    }
    all.push(path.to_owned());
    all
}

fn each_fixture(mut check: impl FnMut(&Place)) {
    for connector in ALL {
        for fixture in directories(&fixtures().join(connector.agent().id)) {
            check(&Place::of(&fixture));
        }
    }
}

#[test]
fn a_file_that_grows_is_news_whoever_remembers() {
    let mut noticed = 0;
    each_fixture(|place| {
        for path in everything(place.home.path()).iter().filter(|path| path.is_file()) {
            let before = fs::read(path).unwrap();
            fs::write(path, [&before[..], b"\n"].concat()).unwrap();
            place.check("a change of", path);
            noticed += usize::from(place.has_news().0);
            fs::write(path, before).unwrap();
            File::open(path)
                .unwrap()
                .set_modified(SystemTime::now() - Duration::from_hours(1))
                .unwrap();
        }
    });
    assert!(noticed > 50, "only {noticed} changes were news");
}

#[test]
fn what_appears_is_news_whoever_remembers() {
    each_fixture(|place| {
        let aside = tempfile::tempdir().unwrap();
        for path in everything(place.home.path()) {
            if path == place.home.path() {
                continue;
            }
            // Gone before the look that is remembered, and back after it.
            let kept = aside.path().join("kept");
            fs::rename(&path, &kept).unwrap();
            fs::remove_file(place.memory()).unwrap();
            place.settle();
            fs::rename(&kept, &path).unwrap();
            place.check("the return of", &path);
            fs::remove_file(place.memory()).unwrap();
            place.settle();
        }
    });
}

#[test]
fn a_folder_that_has_just_changed_is_not_remembered() {
    let connector = ALL.first().unwrap();
    let fixture = &directories(&fixtures().join(connector.agent().id))[0];
    let place = Place::of(fixture);
    fs::remove_file(place.memory()).unwrap();
    let source = place.home.sources(*connector).remove(0).path;
    // However long it takes to look.
    let later = SystemTime::now() + std::time::Duration::from_hours(1);
    File::open(source.parent().unwrap()).unwrap().set_modified(later).unwrap();
    assert!(place.open().pending_changes().unwrap().is_nothing());
    assert!(!place.memory().exists(), "what comes in the same tick of the clock would be missed");
}

#[test]
fn a_damaged_memory_is_looked_past() {
    let connector = ALL.first().unwrap();
    let fixture = &directories(&fixtures().join(connector.agent().id))[0];
    let place = Place::of(fixture);
    let whole = fs::read(place.memory()).unwrap();
    let source = place.home.sources(*connector).remove(0).path;
    fs::write(&source, b"").unwrap();
    for cut in [0, 3, 8, 16, 24, 30, whole.len() - 1] {
        fs::write(place.memory(), &whole[..cut]).unwrap();
        assert!(!place.open().pending_changes().unwrap().is_nothing(), "cut at {cut}");
    }
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(place.memory(), bytes).unwrap();
        assert!(!place.open().pending_changes().unwrap().is_nothing(), "byte {at}");
    }
}
