//! Walks a log run by run. A run that is not over may grow, so a later read begins where the last
//! run does.

use std::path::Path;

use super::inputs::Inputs;
use super::line;
use super::run::Run;
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::Timestamp;

/// Reads a log from a checkpoint on.
pub(super) fn read(path: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let mut reader = Reader::new(path, start, sink)?;
    let mut lines = Lines::open(path, start.offset)?.with_all_values();
    while let Some(line) = lines.next()? {
        reader.line(&line)?;
    }
    reader.finish(path)
}

struct Reader<'s> {
    sink: &'s mut dyn Sink,
    directory: String,
    inputs: Inputs,
    /// When the runs that follow the present one began, last first.
    starts: Vec<Option<Timestamp>>,
    /// Keys of the runs told so far.
    known: Vec<u64>,
    run: Option<Run>,
    mark: Mark,
}

/// Where the last run begins, and how many were told before it.
struct Mark {
    offset: u64,
    known: usize,
}

impl<'s> Reader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let known = start.state.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key));
        let known: Vec<u64> = known.collect();
        let inputs = Inputs::of(path);
        let starts = if inputs.is_empty() { Vec::new() } else { starts(path, start.offset)? };
        Ok(Self {
            sink,
            directory: path.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned(),
            inputs,
            starts,
            mark: Mark { offset: start.offset, known: known.len() },
            known,
            run: None,
        })
    }

    fn line(&mut self, line: &jsonl::Line<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept(Record::bad(line.offset, LINE_TOO_LONG));
        }
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.strip_prefix('\u{feff}').filter(|_| line.offset == 0).unwrap_or(&text);
        if let Some(stamp) = line::header(text) {
            self.close()?;
            self.begin(stamp, line.offset);
            return Ok(());
        }
        let Some(run) = &mut self.run else {
            if text.trim().is_empty() {
                return Ok(());
            }
            return self.sink.accept(Record::bad(line.offset, "before the first run"));
        };
        if line.end == End::File && run.is_torn(text) {
            return Ok(());
        }
        run.line(text, line.offset, &mut self.inputs);
        self.tell()
    }

    fn begin(&mut self, stamp: &str, offset: u64) {
        self.mark = Mark { offset, known: self.known.len() };
        let run = Run::new(stamp, &self.directory);
        self.starts.pop();
        self.inputs.enter(run.start(), self.starts.last().copied().flatten());
        self.run = Some(run);
    }

    /// Hands on what the present run has told. Until somebody speaks there is nothing to tell:
    /// most runs are opened and left.
    fn tell(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if let Some(key) = run.name(&self.known) {
            self.known.push(key);
            self.sink.accept(run.session())?;
        }
        run.told().try_for_each(|record| self.sink.accept(record))
    }

    fn close(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if !run.is_conversation() {
            return self.sink.accept(Record::passed(self.mark.offset, "run without a prompt"));
        }
        run.finish(&mut self.inputs);
        let session = run.session();
        self.tell()?;
        self.sink.accept(session)
    }

    fn finish(mut self, path: &Path) -> Result<Checkpoint> {
        self.close()?;
        let Mark { offset, known } = self.mark;
        let state: Vec<u8> = self.known[..known].iter().flat_map(|key| key.to_le_bytes()).collect();
        if state.is_empty() {
            return Ok(Checkpoint::default());
        }
        Ok(Checkpoint {
            offset,
            guard: jsonl::guard(path, offset)?,
            messages: 0,
            state,
            ..Checkpoint::default()
        })
    }
}

/// Looks ahead for when each run began, last first.
fn starts(path: &Path, offset: u64) -> Result<Vec<Option<Timestamp>>> {
    let mut starts = Vec::new();
    let mut lines = Lines::open(path, offset)?.with_all_values();
    while let Some(line) = lines.next()? {
        let header = std::str::from_utf8(line.bytes).ok().and_then(line::header);
        starts.extend(header.map(line::instant));
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
        fn accept(&mut self, record: Record) -> Result<()> {
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
        read(&path, &Checkpoint::default(), &mut names).unwrap();
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
