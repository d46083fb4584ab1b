//! One run of Aider, built line by line.
//!
//! A prompt is complete when something else begins; a reply waits for the notices that follow it,
//! because they state its cost and its changes.

use xxhash_rust::xxh3::Xxh3;

use super::AGENT;
use super::inputs::Inputs;
use super::kind::{self, LineKind, PreviousLine};
use super::line::{self, LineMarks, NoticeFact};
use super::turn::{
    self, EmittedCounts, PromptLines, ReplyLines, TypedCommand, command_argument,
    letters_and_digits, normalized_text_hash, split_repeated_command, typed_message,
};
use crate::connectors::Record;
use crate::model::{Block, Json, Message, Origin, Ref, Session, Timestamp, Usage};

/// Bytes of buffered lines above which a run emits its records without waiting for their end.
const MAX_HELD: usize = 32 << 20;

/// Length in bytes below which a prompt may equal the reply before it by chance.
const MIN_PLAN: usize = 40;

pub(super) struct AiderRun {
    session: Session,
    stamp: String,
    /// Hash of everything before the first prompt or reply, which distinguishes runs.
    hasher: Xxh3,
    key: Option<u64>,
    marks: Option<LineMarks>,
    place: PreviousLine,
    prompt: Option<PromptLines>,
    /// A command that the next prompt may repeat.
    command: Option<TypedCommand>,
    reply: Option<ReplyLines>,
    notices: Vec<String>,
    failed: bool,
    /// Whether the reply is inside a code block.
    fenced: bool,
    /// The last reply, as hashed by `normalized_hash`.
    plan: Option<u64>,
    model: Option<String>,
    editor: Option<String>,
    /// Whether the editor model is active.
    editing: bool,
    counted: EmittedCounts,
    held: usize,
    out: Vec<Record>,
}

impl AiderRun {
    pub(super) fn new(stamp: &str, directory: &str) -> Self {
        let mut session = Session::new(AGENT.id, "");
        session.extend_time_span(line::parse_local_time(stamp));
        session.cwd = Some(directory.to_owned()).filter(|directory| !directory.is_empty());
        let mut hasher = Xxh3::new();
        hasher.update(stamp.as_bytes());
        Self {
            session,
            stamp: stamp.to_owned(),
            hasher,
            key: None,
            marks: None,
            place: PreviousLine::Start,
            prompt: None,
            command: None,
            reply: None,
            notices: Vec::new(),
            failed: false,
            fenced: false,
            plan: None,
            model: None,
            editor: None,
            editing: false,
            counted: EmittedCounts::default(),
            held: 0,
            out: Vec::new(),
        }
    }

    pub(super) fn start_time(&self) -> Option<Timestamp> {
        self.session.started_at
    }

    /// Returns whether the run has a prompt or a reply.
    pub(super) fn is_conversation(&self) -> bool {
        self.key.is_some()
    }

    /// Returns whether the end of the file cut this line short. Neither the run's name nor the
    /// class of a line may depend on a line that is still being written.
    pub(super) fn is_torn(&self, line: &str) -> bool {
        let spaces = self.marks != Some(LineMarks::Prefix);
        self.key.is_none() || (spaces && line.starts_with(['#', '>']) && !line.ends_with("  "))
    }

    /// Names the run once it has become a conversation, and returns its key. A run has no id of its
    /// own: its time and everything before its first prompt or reply are the same in every copy of
    /// the log, and do not change when the log grows.
    pub(super) fn assign_run_key(&mut self, known: &[u64]) -> Option<u64> {
        let key = self.key.filter(|_| self.session.id.native.is_empty())?;
        let stamp = self.stamp.replace(' ', "-").replace(':', "");
        let native = format!("{stamp}-{:08x}", key >> 32);
        self.session.id.native = match known.iter().filter(|other| **other == key).count() {
            0 => native,
            before => format!("{native}-{}", before + 1),
        };
        Some(key)
    }

    /// Returns the session metadata collected so far.
    pub(super) fn session_record(&self) -> Record {
        Record::Session(Box::new(self.session.clone()))
    }

    /// Removes and returns the records emitted since the last call.
    pub(super) fn take_emitted_records(&mut self) -> impl Iterator<Item = Record> + '_ {
        self.out.drain(..)
    }

    pub(super) fn read_run_line(&mut self, line: &str, at: u64, inputs: &mut Inputs) {
        if self.key.is_none() {
            self.hasher.update(letters_and_digits(line).as_bytes());
        }
        self.held += line.len();
        if self.held > MAX_HELD {
            self.finish_run(inputs);
        }
        // Only Aider has written so far, so this line is a prompt and shows which marks the log
        // has.
        if self.marks.is_none() && self.key.is_none() && line.starts_with("####") {
            let spaces = line.ends_with("  ");
            self.marks = Some(if spaces { LineMarks::Spaces } else { LineMarks::Prefix });
        }
        let marks = self.marks.unwrap_or(LineMarks::Spaces);
        match kind::classify_line(line, marks, self.place, self.fenced) {
            LineKind::Blank => self.end_block_at_blank_line(marks, inputs),
            LineKind::Prompt(text) => self.add_prompt_line(text, at, inputs),
            LineKind::Notice(text, place) => self.apply_notice(text, place, inputs),
            LineKind::Text => self.add_reply_line(line, inputs),
        }
    }

    fn end_block_at_blank_line(&mut self, marks: LineMarks, inputs: &mut Inputs) {
        match self.place {
            PreviousLine::Prompt => {
                if marks == LineMarks::Spaces {
                    self.close_prompt(inputs);
                }
                self.place = PreviousLine::AfterPrompt;
            }
            PreviousLine::Notice => self.place = PreviousLine::AfterNotice,
            PreviousLine::OpenNotice => self.notices.push(String::new()),
            PreviousLine::Reply => self.open_reply().lines.push('\n'),
            PreviousLine::Start | PreviousLine::AfterPrompt | PreviousLine::AfterNotice => {}
        }
    }

    fn add_prompt_line(&mut self, text: &str, at: u64, inputs: &mut Inputs) {
        self.fix_run_key();
        let goes_on = match self.place {
            PreviousLine::Prompt => true,
            PreviousLine::AfterPrompt => {
                self.prompt.as_ref().is_some_and(|open| open.continues_with(text))
            }
            _ => false,
        };
        self.place = PreviousLine::Prompt;
        if let Some(prompt) = self.prompt.as_mut().filter(|_| goes_on) {
            prompt.lines.push(text.to_owned());
            return;
        }
        self.close_prompt(inputs);
        self.emit_reply();
        self.prompt = Some(PromptLines { at, lines: vec![text.to_owned()] });
    }

    fn apply_notice(&mut self, text: &str, place: PreviousLine, inputs: &mut Inputs) {
        self.close_prompt(inputs);
        self.emit_pending_command();
        self.place = place;
        self.fenced = false;
        match line::parse_notice_fact(text) {
            Some(NoticeFact::Usage(usage)) => return self.add_reported_usage(usage),
            Some(NoticeFact::Cost(cost)) => {
                if let Some(usage) = self.reply.as_mut().and_then(|reply| reply.usage.as_mut()) {
                    usage.cost_micros = Some(cost);
                    return;
                }
            }
            Some(NoticeFact::Edit(path)) => {
                self.open_reply().edits.push(path.to_owned());
                return;
            }
            Some(NoticeFact::Commit(commit)) => {
                let commit = Ref { kind: "commit".to_owned(), value: commit.to_owned() };
                if !self.session.refs.contains(&commit) {
                    self.session.refs.push(commit);
                }
            }
            Some(NoticeFact::Version(version)) => {
                self.session.agent_version = Some(version.to_owned());
            }
            Some(NoticeFact::Model(model)) => {
                self.session.model.get_or_insert_with(|| model.to_owned());
                self.model = Some(model.to_owned());
            }
            Some(NoticeFact::Editor(model)) => self.editor = Some(model.to_owned()),
            Some(NoticeFact::Failure) => self.failed = true,
            None => {}
        }
        self.notices.push(text.to_owned());
    }

    fn add_reply_line(&mut self, line: &str, inputs: &mut Inputs) {
        if self.place != PreviousLine::Reply {
            self.close_prompt(inputs);
            self.emit_pending_command();
            self.emit_reply();
            self.place = PreviousLine::Reply;
        }
        self.fenced ^= line.trim_start().starts_with("```");
        let reply = self.open_reply();
        reply.lines.push_str(line);
        reply.lines.push('\n');
    }

    fn add_reported_usage(&mut self, usage: Usage) {
        if self.reply.as_ref().is_some_and(|reply| reply.usage.is_some()) {
            self.emit_reply();
        }
        self.open_reply().usage = Some(usage);
    }

    /// Returns the reply that notices refer to. A reply without text still counts as an answer.
    fn open_reply(&mut self) -> &mut ReplyLines {
        if self.reply.is_none() {
            self.fix_run_key();
            self.emit_reply();
        }
        self.reply.get_or_insert_default()
    }

    /// Fixes the run's key at its first prompt or reply.
    fn fix_run_key(&mut self) {
        if self.key.is_none() {
            self.key = Some(self.hasher.digest());
        }
    }

    /// Completes the prompt, determines its origin and emits it.
    fn close_prompt(&mut self, inputs: &mut Inputs) {
        let Some(PromptLines { at: offset, lines }) = self.prompt.take() else { return };
        let text = lines.join("\n").trim_end().to_owned();
        if text == "<blank>" {
            self.emit_pending_command();
            self.out.push(Record::passed_over_record(offset, "empty input"));
            return;
        }
        self.editing = text.len() >= MIN_PLAN && self.plan == Some(normalized_text_hash(&text));
        if self.editing {
            self.emit_pending_command();
            return self.queue_message(typed_message(Origin::Injected, text, None));
        }
        if let Some((command, text)) = split_repeated_command(&lines) {
            self.emit_pending_command();
            let at = inputs.take_input_time(&format!("{command} {text}"));
            return self.emit_typed_message(text, at, Some(&command));
        }
        let repeats =
            |command: &mut TypedCommand| command_argument(&command.text) == Some(text.trim());
        if let Some(command) = self.command.take_if(repeats) {
            let text = text.trim().to_owned();
            return self.emit_typed_message(
                text,
                command.at,
                command.text.split_whitespace().next(),
            );
        }
        if text.starts_with(turn::QUESTION)
            && let Some(help) = self.command.take_if(|command| command.text.starts_with("/help "))
        {
            let question = command_argument(&help.text).unwrap_or_default().to_owned();
            self.emit_typed_message(question, help.at, Some("/help"));
            return self.queue_message(typed_message(Origin::Injected, text, None));
        }
        self.emit_pending_command();
        let at = inputs.take_input_time(&text);
        if text.starts_with(['/', '!']) {
            self.command = Some(TypedCommand { text, at });
        } else {
            self.emit_typed_message(text, at, None);
        }
    }

    fn emit_typed_message(&mut self, text: String, at: Option<Timestamp>, command: Option<&str>) {
        let mut message = typed_message(Origin::Human, text, at);
        if let Some(command) = command {
            message.extensions.insert("command".into(), Json::from_value(&command));
        }
        self.queue_message(message);
    }

    /// Emits the pending command, which no prompt repeated.
    fn emit_pending_command(&mut self) {
        if let Some(TypedCommand { text, at }) = self.command.take() {
            self.queue_message(typed_message(Origin::Command, text, at));
        }
    }

    /// Emits the reply, its edits, and the notices since.
    fn emit_reply(&mut self) {
        self.held = 0;
        self.fenced = false;
        if let Some(reply) = self.reply.take() {
            self.queue_reply(reply);
        }
        let text = self.notices.join("\n").trim().to_owned();
        let failed = std::mem::take(&mut self.failed);
        self.notices.clear();
        if !text.is_empty() {
            self.queue_message(Message {
                failed,
                blocks: vec![Block::Text(text)],
                ..Message::default()
            });
        }
    }

    fn queue_reply(&mut self, reply: ReplyLines) {
        let text = reply.written_text();
        if !text.is_empty() {
            self.plan = Some(normalized_text_hash(text));
        }
        for path in &reply.edits {
            if !self.session.files.contains(path) {
                self.session.files.push(path.clone());
            }
        }
        let editor = self.editor.as_ref().filter(|_| self.editing);
        let model = editor.or(self.model.as_ref()).cloned();
        let [answer, results] = reply.into_messages(&self.session.id.native, &mut self.counted);
        self.queue_message(Message { model, ..answer });
        if !results.blocks.is_empty() {
            self.queue_message(results);
        }
    }

    fn queue_message(&mut self, message: Message) {
        self.session.extend_time_span(message.at);
        self.out.push(Record::Message(Box::new(message)));
    }

    /// Emits everything that is still waiting for more lines.
    pub(super) fn finish_run(&mut self, inputs: &mut Inputs) {
        self.close_prompt(inputs);
        self.emit_pending_command();
        self.emit_reply();
    }
}
