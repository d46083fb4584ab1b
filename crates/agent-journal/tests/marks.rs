//! Marks: set, searched, and kept whatever happens to the session.

use std::time::Duration;

use agent_journal::{Journal, MarkChange, Marks, SyncOptions};

use crate::support::place::{Place, Script, all, found, query};

const WAIT: Duration = Duration::from_mins(1);

fn place() -> Place {
    let place = Place::new();
    for number in [1, 2] {
        let script = Script::new(number).you("draw the plan").agent("drawn");
        place.file(&script.path(), &script.lines);
    }
    place
}

fn mark(journal: &mut Journal, id: &str, changes: &[MarkChange]) -> Marks {
    let entry = journal.find_session(id).unwrap();
    journal.mark_sessions(&[entry], changes, WAIT).unwrap();
    journal.find_session(id).unwrap().marks
}

fn listed(journal: &Journal, text: &str) -> Vec<String> {
    let filter = query(text).filter;
    let entries = journal.list_entries(&filter, None).unwrap();
    entries.iter().map(|entry| entry.native_id[..8].to_owned()).collect()
}

#[test]
fn marks_are_searched_and_survive_every_read() {
    let place = place();
    let mut journal = place.sync();
    let changes = [
        MarkChange::Star,
        MarkChange::AddTag("#Release".to_owned()),
        MarkChange::AddTag("wip".to_owned()),
        MarkChange::SetNote("the marmalade of it".to_owned()),
        MarkChange::SetTitle("my own title".to_owned()),
    ];
    let marks = mark(&mut journal, "00000001", &changes);
    assert_eq!(marks.tags, ["release", "wip"]);
    let check = |journal: &Journal| {
        let entry = journal.find_session("00000001").unwrap();
        assert_eq!(entry.marks, marks);
        assert_eq!((&*entry.title, &*entry.title_source), ("my own title", "renamed"));
        for text in ["is:starred", "tag:release", "tag:#RELEASE", "has:note", "has:tag"] {
            assert_eq!(listed(journal, text), ["00000001"], "{text}");
        }
        for text in ["-is:starred", "-tag:release", "-has:note"] {
            assert_eq!(listed(journal, text), ["00000002"], "{text}");
        }
        assert!(listed(journal, "tag:releas").is_empty());
        assert_eq!(listed(journal, "tag:none OR tag:wip"), ["00000001"]);
        assert_eq!(found(journal, "marmalade").len(), 1, "the text of the note");
        assert_eq!(found(journal, "\"my own title\"").len(), 1, "the title");
        assert_eq!(found(journal, "plan is:starred").len(), 1);
        assert_eq!(journal.count_tags().unwrap().len(), 2);
    };
    check(&journal);
    journal.sync(SyncOptions { full: true, ..SyncOptions::default() }, &mut |_| {}).unwrap();
    check(&journal);
    std::fs::remove_dir_all(place.directory.path().join("journal/index")).unwrap();
    check(&place.sync());
    let script = Script::new(1).you("draw the plan").agent("drawn").you("more");
    place.file(&script.path(), &script.lines);
    check(&place.sync());
    std::fs::remove_file(place.home().join(script.path())).unwrap();
    check(&place.sync());
}

#[test]
fn marks_are_removed_one_by_one() {
    let place = place();
    let mut journal = place.sync();
    let recorded = journal.find_session("00000001").unwrap().title;
    let set = [
        MarkChange::Star,
        MarkChange::AddTag("a".to_owned()),
        MarkChange::AddTag("b".to_owned()),
        MarkChange::AddTag("c".to_owned()),
        MarkChange::SetNote("marmalade".to_owned()),
        MarkChange::SetTitle("mine".to_owned()),
    ];
    mark(&mut journal, "00000001", &set);
    let left = mark(&mut journal, "00000001", &[MarkChange::RemoveTag("b".to_owned())]);
    assert_eq!(left.tags, ["a", "c"]);
    let rest = [
        MarkChange::Unstar,
        MarkChange::RemoveAllTags,
        MarkChange::SetNote(String::new()),
        MarkChange::SetTitle(String::new()),
    ];
    assert!(mark(&mut journal, "00000001", &rest).is_empty());
    assert_eq!(journal.find_session("00000001").unwrap().title, recorded);
    assert!(found(&journal, "marmalade").is_empty());
    assert!(listed(&journal, "is:starred").is_empty());
}

#[test]
fn an_invalid_mark_changes_nothing() {
    let place = place();
    let mut journal = place.sync();
    let entry = journal.find_session("00000001").unwrap();
    let changes = [MarkChange::Star, MarkChange::AddTag("two words".to_owned())];
    let error = journal.mark_sessions(&[entry], &changes, WAIT).unwrap_err().to_string();
    assert!(error.contains("`two words` is not a tag"), "{error}");
    assert!(journal.find_session("00000001").unwrap().marks.is_empty());
    assert_eq!(journal.list_entries(&all(), None).unwrap().len(), 2);
}
