//! Reads a log run by run. The last run may still grow, so a later read begins at its start.

use std::path::Path;

use super::inputs::Inputs;
use super::line;
use super::run::AiderRun;
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::Timestamp;

/// Reads a log from a checkpoint on.
pub(super) fn read_chat_log(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = AiderReader::new(path, start, sink)?;
    let mut lines = LineReader::open_at(path, start.offset)?.with_all_values();
    while let Some(line) = lines.next_line()? {
        reader.read_log_line(&line)?;
    }
    reader.finish_log(path)
}

struct AiderReader<'s> {
    sink: &'s mut dyn Sink,
    directory: String,
    inputs: Inputs,
    /// Start times of the runs after the current one, last first.
    starts: Vec<Option<Timestamp>>,
    /// Keys of the runs emitted so far.
    known: Vec<u64>,
    run: Option<AiderRun>,
    mark: LastRunMark,
}

/// The offset at which the last run begins, and the number of runs emitted before it.
struct LastRunMark {
    offset: u64,
    known: usize,
}

impl<'s> AiderReader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let known = start.state.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key));
        let known: Vec<u64> = known.collect();
        let inputs = Inputs::read_for_chat(path);
        let starts =
            if inputs.has_no_inputs() { Vec::new() } else { scan_run_starts(path, start.offset)? };
        Ok(Self {
            sink,
            directory: path.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned(),
            inputs,
            starts,
            mark: LastRunMark { offset: start.offset, known: known.len() },
            known,
            run: None,
        })
    }

    fn read_log_line(&mut self, line: &jsonl::SourceLine<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG));
        }
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.strip_prefix('\u{feff}').filter(|_| line.offset == 0).unwrap_or(&text);
        if let Some(stamp) = line::parse_run_header(text) {
            self.close_run()?;
            self.begin_run(stamp, line.offset);
            return Ok(());
        }
        let Some(run) = &mut self.run else {
            if text.trim().is_empty() {
                return Ok(());
            }
            return self
                .sink
                .accept_record(Record::unreadable_record(line.offset, "before the first run"));
        };
        if line.end == End::File && run.is_torn(text) {
            return Ok(());
        }
        run.read_run_line(text, line.offset, &mut self.inputs);
        self.emit_pending_records()
    }

    fn begin_run(&mut self, stamp: &str, offset: u64) {
        self.mark = LastRunMark { offset, known: self.known.len() };
        let run = AiderRun::new(stamp, &self.directory);
        self.starts.pop();
        self.inputs.enter_run(run.start_time(), self.starts.last().copied().flatten());
        self.run = Some(run);
    }

    /// Emits the pending records of the current run. A run emits nothing before its first prompt or
    /// reply: most runs are opened and left.
    fn emit_pending_records(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if let Some(key) = run.assign_run_key(&self.known) {
            self.known.push(key);
            self.sink.accept_record(run.session_record())?;
        }
        run.take_emitted_records().try_for_each(|record| self.sink.accept_record(record))
    }

    fn close_run(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if !run.is_conversation() {
            return self.sink.accept_record(Record::passed_over_record(
                self.mark.offset,
                "run without a prompt",
            ));
        }
        run.finish_run(&mut self.inputs);
        let session = run.session_record();
        self.emit_pending_records()?;
        self.sink.accept_record(session)
    }

    fn finish_log(mut self, path: &Path) -> Result<Checkpoint> {
        self.close_run()?;
        let LastRunMark { offset, known } = self.mark;
        let state: Vec<u8> = self.known[..known].iter().flat_map(|key| key.to_le_bytes()).collect();
        if state.is_empty() {
            return Ok(Checkpoint::default());
        }
        Ok(Checkpoint {
            offset,
            guard: jsonl::checkpoint_guard(path, offset)?,
            messages: 0,
            state,
            ..Checkpoint::default()
        })
    }
}

/// Scans ahead for the start times of the runs, last first.
fn scan_run_starts(path: &Path, offset: u64) -> Result<Vec<Option<Timestamp>>> {
    let mut starts = Vec::new();
    let mut lines = LineReader::open_at(path, offset)?.with_all_values();
    while let Some(line) = lines.next_line()? {
        let header = std::str::from_utf8(line.bytes).ok().and_then(line::parse_run_header);
        starts.extend(header.map(line::parse_local_time));
    }
    starts.reverse();
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[derive(Default)]
    struct Names(Vec<String>);

    impl Sink for Names {
        fn accept_record(&mut self, record: Record) -> Result<()> {
            if let Record::Session(session) = record
                && self.0.last() != Some(&session.id.native)
            {
                self.0.push(session.id.native);
            }
            Ok(())
        }
    }

    fn names(log: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".aider.chat.history.md");
        File::create(&path).unwrap().write_all(log.as_bytes()).unwrap();
        let mut names = Names::default();
        read_chat_log(&path, &Checkpoint::default(), &mut names).unwrap();
        names.0
    }

    const LOG: &str = "\n# aider chat started at 2026-01-02 03:04:05\n\n> Aider v0.86.2  \n\
                       \n#### fix __init__  \n\nDone.\n\n> Tokens: 1 sent, 1 received.  \n";

    #[test]
    fn copies_of_a_log_tell_the_same_sessions() {
        let known = names(LOG);
        assert_eq!(known.len(), 1);
        assert_eq!(names(LOG), known);
        assert_eq!(names(&LOG.replace('\n', "\r\n")), known);
        let formatted = LOG.replace("  \n", "\n").replace("__", "\\_\\_");
        assert_eq!(names(&formatted), known);
        assert_eq!(names(&format!("{LOG}\n#### and more  \n")), known);
    }

    #[test]
    fn runs_that_differ_before_the_first_answer_have_other_names() {
        let known = names(LOG);
        assert_ne!(names(&LOG.replace("04:05", "04:06")), known);
        assert_ne!(names(&LOG.replace("fix", "mend")), known);
        assert_ne!(names(&LOG.replace("0.86.2", "0.86.1")), known);
        assert_eq!(names(&LOG.replace("Done", "No")), known);
        let twice = names(&format!("{LOG}{LOG}"));
        assert_eq!(twice, [known[0].clone(), format!("{}-2", known[0])]);
    }

    #[test]
    fn a_run_is_named_when_its_first_prompt_is_whole() {
        let cut = LOG.find(" __init__").unwrap();
        assert_eq!(names(&LOG[..cut]), [""; 0]);
        let cut = LOG.find("\n\nDone").unwrap();
        assert_eq!(names(&LOG[..=cut]), names(LOG));
    }
}
