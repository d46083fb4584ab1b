//! What holds for the file as a whole.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::filter::TextKind;

const DIMENSIONS: usize = 8;

/// A directory with one file of vectors in it.
struct Case {
    _directory: tempfile::TempDir,
    path: PathBuf,
    shape: VectorShape,
}

impl Case {
    fn new(dimensions: usize, precision: Precision) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index").join("vectors");
        let shape =
            VectorShape { journal: 7, embedder: "test-1".to_owned(), dimensions, precision };
        Self { _directory: directory, path, shape }
    }

    fn write(&self) -> VectorWriter {
        VectorWriter::open(&self.path, &self.shape).unwrap().0
    }

    fn read(&self) -> Vectors {
        Vectors::open(&self.path, &self.shape).unwrap()
    }

    fn rows(&self, places: &[(u64, Option<u64>)]) -> VectorRows {
        let mut rows = VectorRows::new(&self.shape);
        for (recording, position) in places {
            let vector = unit(self.shape.dimensions, recording ^ position.unwrap_or(99) << 32);
            add(&mut rows, (*recording, *position), &vector);
        }
        rows
    }

    /// All that can be found, as (recording, position) in order.
    fn found(&self) -> Vec<(u64, Option<u64>)> {
        let query = unit(self.shape.dimensions, 5);
        let near = self.read().search(&query, &|_| true, 10_000);
        let mut all: Vec<_> =
            near.iter().map(|near| (near.place.recording, near.place.position)).collect();
        all.sort_unstable();
        all
    }
}

fn add(rows: &mut VectorRows, (recording, position): (u64, Option<u64>), vector: &[f32]) {
    let kind = if position.is_some() { TextKind::Prompt } else { TextKind::Title };
    let key = VectorKey { place: VectorPlace { recording, position, kind }, content: recording };
    rows.add_with(key, |into| {
        into.copy_from_slice(vector);
        true
    });
}

/// A vector of length one in a direction that only the seed decides.
fn unit(dimensions: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    // The sum of a few even numbers is near enough to a normal one.
    let mut vector: Vec<f32> = (0..dimensions).map(|_| (0..6).map(|_| next()).sum()).collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut vector {
        *value /= length;
    }
    vector
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[test]
fn what_is_committed_is_found_with_its_generation() {
    for precision in [Precision::F16, Precision::F32] {
        let case = Case::new(DIMENSIONS, precision);
        let (mut writer, generation) = VectorWriter::open(&case.path, &case.shape).unwrap();
        assert_eq!(generation, 0);
        writer.append(case.rows(&[(1, Some(0)), (1, Some(1)), (2, None)])).unwrap();
        assert_eq!(case.found(), []);
        writer.commit(3).unwrap();
        assert_eq!(case.found(), [(1, Some(0)), (1, Some(1)), (2, None)]);
        assert_eq!(Vectors::generation(&case.path, &case.shape), Some(3));
        assert_eq!(VectorWriter::open(&case.path, &case.shape).unwrap().1, 3);

        let query = unit(DIMENSIONS, 1 ^ 1 << 32);
        let best = case.read().search(&query, &|_| true, 1)[0];
        assert_eq!((best.place.recording, best.place.position, best.content), (1, Some(1), 1));
        assert!((best.score - 1.0).abs() < 1e-3);
    }
}

#[test]
fn only_allowed_recordings_are_found() {
    let case = Case::new(DIMENSIONS, Precision::F16);
    let mut writer = case.write();
    let places: Vec<_> = (0..600).map(|number| (number % 3, Some(number))).collect();
    writer.append(case.rows(&places)).unwrap();
    writer.commit(1).unwrap();
    let near = case.read().search(&unit(DIMENSIONS, 5), &|recording| recording == 2, 500);
    assert_eq!(near.len(), 200);
    assert!(near.iter().all(|near| near.place.recording == 2));
    assert!(near.is_sorted_by(|one, other| one.score >= other.score));
}

#[test]
fn the_nearest_window_stands_for_a_long_text() {
    let case = Case::new(DIMENSIONS, Precision::F16);
    let mut writer = case.write();
    let mut rows = VectorRows::new(&case.shape);
    for seed in 0..1000 {
        add(&mut rows, (1, Some(0)), &unit(DIMENSIONS, seed));
    }
    add(&mut rows, (2, Some(0)), &unit(DIMENSIONS, 2000));
    writer.append(rows).unwrap();
    writer.commit(1).unwrap();
    let near = case.read().search(&unit(DIMENSIONS, 500), &|_| true, 10);
    assert_eq!(near.len(), 2);
    assert!((near[0].score - 1.0).abs() < 1e-3);
}

#[test]
fn another_journal_embedder_or_precision_needs_another_file() {
    let case = Case::new(DIMENSIONS, Precision::F16);
    case.write().commit(1).unwrap();
    let others = [
        VectorShape { journal: 8, ..case.shape.clone() },
        VectorShape { embedder: "test-12".to_owned(), ..case.shape.clone() },
        VectorShape { dimensions: 9, ..case.shape.clone() },
        VectorShape { precision: Precision::F32, ..case.shape.clone() },
    ];
    for shape in &others {
        assert!(Vectors::open(&case.path, shape).is_none(), "{shape:?}");
        assert_eq!(Vectors::generation(&case.path, shape), None);
    }
    assert_eq!(VectorWriter::open(&case.path, &others[0]).unwrap().1, 0);
    assert_eq!(Vectors::generation(&case.path, &others[0]), Some(0));
}

#[test]
fn a_reader_keeps_what_it_opened_while_the_writer_goes_on() {
    let case = Case::new(DIMENSIONS, Precision::F16);
    let mut writer = case.write();
    let places: Vec<_> = (0..5000).map(|number| (number, Some(0))).collect();
    writer.append(case.rows(&places)).unwrap();
    writer.commit(1).unwrap();
    let before = case.read();
    // More than half dies: the file is replaced.
    (0..4000).for_each(|recording| writer.remove(recording));
    writer.commit(2).unwrap();
    assert_eq!(before.search(&unit(DIMENSIONS, 5), &|_| true, 9999).len(), 5000);
    assert_eq!(before.live(), 5000);
    assert_eq!(case.found().len(), 1000);
    assert_eq!(case.read().live(), 1000);
    writer.append(case.rows(&[(9000, None)])).unwrap();
    writer.commit(3).unwrap();
    assert_eq!(case.found().len(), 1001);
    assert_eq!(Vectors::generation(&case.path, &case.shape), Some(3));
}

#[test]
fn garbage_and_scattered_blocks_are_cleared_away() {
    let case = Case::new(DIMENSIONS, Precision::F16);
    let mut writer = case.write();
    let places: Vec<_> = (0..1500).map(|number| (1, Some(number))).collect();
    let mut sizes = Vec::new();
    for generation in 1..20 {
        writer.remove(1);
        writer.append(case.rows(&places)).unwrap();
        writer.commit(generation).unwrap();
        sizes.push(fs::metadata(&case.path).unwrap().len());
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] * 3), "{sizes:?}");
    for generation in 20..400 {
        writer.append(case.rows(&[(2, Some(generation as u64))])).unwrap();
        writer.commit(generation).unwrap();
    }
    assert!(case.read().segments.len() < 100);
    assert_eq!(case.found().len(), 1500 + 380);
    assert_eq!(fs::read_dir(case.path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn the_coarse_pass_loses_nearly_nothing() {
    const WIDE: usize = 256;
    let case = Case::new(WIDE, Precision::F16);
    let mut writer = case.write();
    let vectors: Vec<Vec<f32>> = (0..3000).map(|seed| unit(WIDE, seed)).collect();
    let mut rows = VectorRows::new(&case.shape);
    for (recording, vector) in vectors.iter().enumerate() {
        add(&mut rows, (recording as u64, None), vector);
    }
    writer.append(rows).unwrap();
    writer.commit(1).unwrap();
    let reader = case.read();
    let mut kept = 0;
    for seed in 0..50 {
        let query = unit(WIDE, 1_000_000 + seed);
        let scores = vectors.iter().map(|vector| dot(vector, &query));
        let mut exact: Vec<(usize, f32)> = scores.enumerate().collect();
        exact.sort_by(|one, other| other.1.total_cmp(&one.1));
        let near = reader.search(&query, &|_| true, 10);
        kept += exact[..10]
            .iter()
            .filter(|(recording, _)| {
                near.iter().any(|near| near.place.recording == *recording as u64)
            })
            .count();
    }
    assert!(kept >= 495, "{kept} of 500");
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<(u64, Option<u64>)>),
    Truncate(u64, u64),
    Remove(u64),
    RemoveWhole(u64),
    Commit,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0..4_u64, proptest::option::of(0..6_u64));
    prop_oneof![
        3 => proptest::collection::vec(place, 0..5).prop_map(Step::Append),
        1 => (0..4_u64, 0..6_u64).prop_map(|(recording, from)| Step::Truncate(recording, from)),
        1 => (0..4_u64).prop_map(Step::Remove),
        1 => (0..4_u64).prop_map(Step::RemoveWhole),
        2 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

/// The places a file should have.
type Places = Vec<(u64, Option<u64>)>;

/// Takes the steps in a file and in a list; returns the list after each commit.
fn take(case: &Case, steps: &[Step]) -> Vec<(i64, Places)> {
    let (mut writer, mut generation) = (case.write(), 0);
    let mut commits = vec![(0, Places::new())];
    let mut now = Places::new();
    for step in steps {
        match step {
            Step::Append(places) => {
                writer.append(case.rows(places)).unwrap();
                now.extend(places);
            }
            Step::Truncate(recording, from) => {
                writer.truncate(*recording, *from);
                now.retain(|(one, at)| one != recording || at.is_none_or(|at| at < *from));
            }
            Step::Remove(recording) => {
                writer.remove(*recording);
                now.retain(|(one, _)| one != recording);
            }
            Step::RemoveWhole(recording) => {
                writer.remove_whole(*recording);
                now.retain(|(one, at)| one != recording || at.is_some());
            }
            Step::Commit => {
                generation += 1;
                writer.commit(generation).unwrap();
                commits.push((generation, now.clone()));
            }
            Step::Reopen => {
                drop(writer);
                writer = case.write();
                now = commits[commits.len() - 1].1.clone();
            }
        }
    }
    for (_, places) in &mut commits {
        places.sort_unstable();
        places.dedup();
    }
    commits
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_file_holds_what_was_committed(steps in proptest::collection::vec(step(), 0..30)) {
        let case = Case::new(DIMENSIONS, Precision::F16);
        let commits = take(&case, &steps);
        let (generation, places) = &commits[commits.len() - 1];
        prop_assert_eq!(&case.found(), places);
        prop_assert_eq!(Vectors::generation(&case.path, &case.shape), Some(*generation));
    }

    #[test]
    fn a_file_cut_anywhere_is_an_earlier_one_or_none(
        steps in proptest::collection::vec(step(), 5..30),
        cut in 0.0..1.0_f64,
    ) {
        let case = Case::new(DIMENSIONS, Precision::F16);
        let commits = take(&case, &steps);
        let size = fs::metadata(&case.path).unwrap().len();
        let file = OpenOptions::new().write(true).open(&case.path).unwrap();
        file.set_len((size as f64 * cut) as u64).unwrap();
        let read = Vectors::generation(&case.path, &case.shape);
        let (mut writer, generation) = VectorWriter::open(&case.path, &case.shape).unwrap();
        prop_assert_eq!(generation, read.unwrap_or(0));
        let places = &commits.iter().find(|(one, _)| *one == generation).unwrap().1;
        prop_assert_eq!(&case.found(), places);
        // What was lost does not come back when the file grows.
        let many: Vec<_> = (0..4100).map(|number| (50, Some(number))).collect();
        writer.append(case.rows(&many)).unwrap();
        prop_assert_eq!(&case.found(), places);
        writer.commit(1000).unwrap();
        prop_assert_eq!(case.found().len(), places.len() + many.len());
    }

    #[test]
    fn what_lies_behind_the_last_commit_is_ignored_and_cut(
        steps in proptest::collection::vec(step(), 5..20),
        tail in proptest::collection::vec(any::<u8>(), 1..300),
    ) {
        use std::io::Write;
        let case = Case::new(DIMENSIONS, Precision::F16);
        let commits = take(&case, &steps);
        let (_, places) = &commits[commits.len() - 1];
        drop(case.write());
        let size = fs::metadata(&case.path).unwrap().len();
        let mut file = OpenOptions::new().append(true).open(&case.path).unwrap();
        file.write_all(&tail).unwrap();
        prop_assert_eq!(&case.found(), places);
        drop(case.write());
        prop_assert_eq!(fs::metadata(&case.path).unwrap().len(), size);
        prop_assert_eq!(&case.found(), places);
    }

    #[test]
    fn a_changed_byte_never_breaks_the_reader(at in 0..8000_usize, byte: u8) {
        let case = Case::new(DIMENSIONS, Precision::F16);
        let mut writer = case.write();
        writer.append(case.rows(&[(1, Some(0)), (1, None), (2, Some(3))])).unwrap();
        writer.commit(1).unwrap();
        writer.remove(2);
        writer.commit(2).unwrap();
        let mut bytes = fs::read(&case.path).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        #[expect(clippy::disallowed_methods, reason = "the file of this test")]
        fs::write(&case.path, bytes).unwrap();
        if let Some(vectors) = Vectors::open(&case.path, &case.shape) {
            prop_assert!(vectors.search(&unit(DIMENSIONS, 5), &|_| true, 10).len() <= 3);
        }
        drop(case.write());
    }
}
