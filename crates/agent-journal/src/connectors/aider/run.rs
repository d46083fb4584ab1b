//! One run of Aider, told line by line.
//!
//! A prompt is known to be whole when something else begins; a reply waits for the notices that
//! follow it, because they say what it cost and what it changed.

use xxhash_rust::xxh3::Xxh3;

use super::AGENT;
use super::inputs::Inputs;
use super::kind::{self, Kind, Place};
use super::line::{self, Fact, Marks};
use super::turn::{self, Counted, Prompt, Reply, Typed, argument, doubled, gist, typed, words};
use crate::connectors::Record;
use crate::model::{Block, Json, Message, Origin, Ref, Session, Timestamp, Usage};

/// More than this is told without waiting for its end, in bytes.
const MAX_HELD: usize = 32 << 20;

/// A shorter prompt may repeat the reply before it by chance.
const MIN_PLAN: usize = 40;

/// One run.
pub(super) struct Run {
    session: Session,
    stamp: String,
    /// Takes in what comes before the first word of the conversation: that tells runs apart.
    hasher: Xxh3,
    key: Option<u64>,
    marks: Option<Marks>,
    place: Place,
    prompt: Option<Prompt>,
    /// A command that the next prompt may repeat.
    command: Option<Typed>,
    reply: Option<Reply>,
    notices: Vec<String>,
    failed: bool,
    /// Whether the reply is in a code block.
    fenced: bool,
    /// The last reply, as `gist` has it.
    plan: Option<u64>,
    model: Option<String>,
    editor: Option<String>,
    /// Whether the editor model is at work.
    editing: bool,
    counted: Counted,
    held: usize,
    out: Vec<Record>,
}

impl Run {
    pub(super) fn new(stamp: &str, directory: &str) -> Self {
        let mut session = Session::new(AGENT.id, "");
        session.seen(line::instant(stamp));
        session.cwd = Some(directory.to_owned()).filter(|directory| !directory.is_empty());
        let mut hasher = Xxh3::new();
        hasher.update(stamp.as_bytes());
        Self {
            session,
            stamp: stamp.to_owned(),
            hasher,
            key: None,
            marks: None,
            place: Place::Start,
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
            counted: Counted::default(),
            held: 0,
            out: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> Option<Timestamp> {
        self.session.started_at
    }

    /// Whether anybody has said anything.
    pub(super) fn is_conversation(&self) -> bool {
        self.key.is_some()
    }

    /// Whether the end of the file cut this line short. What a run is called, and who speaks,
    /// must not depend on a line that is still being written.
    pub(super) fn is_torn(&self, line: &str) -> bool {
        let spaces = self.marks != Some(Marks::Prefix);
        self.key.is_none() || (spaces && line.starts_with(['#', '>']) && !line.ends_with("  "))
    }

    /// Names the run when it has become a conversation and returns its key. A run has no id of
    /// its own: its time and everything up to its first word are the same in every copy of the
    /// log, and do not change when the log grows.
    pub(super) fn name(&mut self, known: &[u64]) -> Option<u64> {
        let key = self.key.filter(|_| self.session.id.native.is_empty())?;
        let stamp = self.stamp.replace(' ', "-").replace(':', "");
        let native = format!("{stamp}-{:08x}", key >> 32);
        self.session.id.native = match known.iter().filter(|other| **other == key).count() {
            0 => native,
            before => format!("{native}-{}", before + 1),
        };
        Some(key)
    }

    /// The session as far as it is known.
    pub(super) fn session(&self) -> Record {
        Record::Session(Box::new(self.session.clone()))
    }

    /// What was told since the last call.
    pub(super) fn told(&mut self) -> impl Iterator<Item = Record> + '_ {
        self.out.drain(..)
    }

    pub(super) fn line(&mut self, line: &str, at: u64, inputs: &mut Inputs) {
        if self.key.is_none() {
            self.hasher.update(words(line).as_bytes());
        }
        self.held += line.len();
        if self.held > MAX_HELD {
            self.finish(inputs);
        }
        // Nobody but Aider has written anything yet, so this is a prompt and shows its marks.
        if self.marks.is_none() && self.key.is_none() && line.starts_with("####") {
            let spaces = line.ends_with("  ");
            self.marks = Some(if spaces { Marks::Spaces } else { Marks::Prefix });
        }
        let marks = self.marks.unwrap_or(Marks::Spaces);
        match kind::of(line, marks, self.place, self.fenced) {
            Kind::Blank => self.blank(marks, inputs),
            Kind::Prompt(text) => self.prompt(text, at, inputs),
            Kind::Notice(text, place) => self.notice(text, place, inputs),
            Kind::Text => self.text(line, inputs),
        }
    }

    fn blank(&mut self, marks: Marks, inputs: &mut Inputs) {
        match self.place {
            Place::Prompt => {
                if marks == Marks::Spaces {
                    self.close_prompt(inputs);
                }
                self.place = Place::AfterPrompt;
            }
            Place::Notice => self.place = Place::AfterNotice,
            Place::OpenNotice => self.notices.push(String::new()),
            Place::Reply => self.reply().lines.push('\n'),
            Place::Start | Place::AfterPrompt | Place::AfterNotice => {}
        }
    }

    fn prompt(&mut self, text: &str, at: u64, inputs: &mut Inputs) {
        self.begin();
        let goes_on = match self.place {
            Place::Prompt => true,
            Place::AfterPrompt => self.prompt.as_ref().is_some_and(|open| open.takes(text)),
            _ => false,
        };
        self.place = Place::Prompt;
        if let Some(prompt) = self.prompt.as_mut().filter(|_| goes_on) {
            prompt.lines.push(text.to_owned());
            return;
        }
        self.close_prompt(inputs);
        self.flush();
        self.prompt = Some(Prompt { at, lines: vec![text.to_owned()] });
    }

    fn notice(&mut self, text: &str, place: Place, inputs: &mut Inputs) {
        self.close_prompt(inputs);
        self.release();
        self.place = place;
        self.fenced = false;
        match line::fact(text) {
            Some(Fact::Usage(usage)) => return self.report(usage),
            Some(Fact::Cost(cost)) => {
                if let Some(usage) = self.reply.as_mut().and_then(|reply| reply.usage.as_mut()) {
                    usage.cost_micros = Some(cost);
                    return;
                }
            }
            Some(Fact::Edit(path)) => {
                self.reply().edits.push(path.to_owned());
                return;
            }
            Some(Fact::Commit(commit)) => {
                let commit = Ref { kind: "commit".to_owned(), value: commit.to_owned() };
                if !self.session.refs.contains(&commit) {
                    self.session.refs.push(commit);
                }
            }
            Some(Fact::Version(version)) => self.session.agent_version = Some(version.to_owned()),
            Some(Fact::Model(model)) => {
                self.session.model.get_or_insert_with(|| model.to_owned());
                self.model = Some(model.to_owned());
            }
            Some(Fact::Editor(model)) => self.editor = Some(model.to_owned()),
            Some(Fact::Failure) => self.failed = true,
            None => {}
        }
        self.notices.push(text.to_owned());
    }

    fn text(&mut self, line: &str, inputs: &mut Inputs) {
        if self.place != Place::Reply {
            self.close_prompt(inputs);
            self.release();
            self.flush();
            self.place = Place::Reply;
        }
        self.fenced ^= line.trim_start().starts_with("```");
        let reply = self.reply();
        reply.lines.push_str(line);
        reply.lines.push('\n');
    }

    fn report(&mut self, usage: Usage) {
        if self.reply.as_ref().is_some_and(|reply| reply.usage.is_some()) {
            self.flush();
        }
        self.reply().usage = Some(usage);
    }

    /// The reply that notices speak of. One that left no text is still an answer.
    fn reply(&mut self) -> &mut Reply {
        if self.reply.is_none() {
            self.begin();
            self.flush();
        }
        self.reply.get_or_insert_default()
    }

    /// The conversation has begun.
    fn begin(&mut self) {
        if self.key.is_none() {
            self.key = Some(self.hasher.digest());
        }
    }

    /// Takes the prompt as whole and tells who wrote it.
    fn close_prompt(&mut self, inputs: &mut Inputs) {
        let Some(Prompt { at: offset, lines }) = self.prompt.take() else { return };
        let text = lines.join("\n").trim_end().to_owned();
        if text == "<blank>" {
            self.release();
            self.out.push(Record::passed(offset, "empty input"));
            return;
        }
        self.editing = text.len() >= MIN_PLAN && self.plan == Some(gist(&text));
        if self.editing {
            self.release();
            return self.tell(typed(Origin::Injected, text, None));
        }
        if let Some((command, text)) = doubled(&lines) {
            self.release();
            let at = inputs.time(&format!("{command} {text}"));
            return self.ask(text, at, Some(&command));
        }
        let repeats = |command: &mut Typed| argument(&command.text) == Some(text.trim());
        if let Some(command) = self.command.take_if(repeats) {
            let text = text.trim().to_owned();
            return self.ask(text, command.at, command.text.split_whitespace().next());
        }
        if text.starts_with(turn::QUESTION)
            && let Some(help) = self.command.take_if(|command| command.text.starts_with("/help "))
        {
            let question = argument(&help.text).unwrap_or_default().to_owned();
            self.ask(question, help.at, Some("/help"));
            return self.tell(typed(Origin::Injected, text, None));
        }
        self.release();
        let at = inputs.time(&text);
        if text.starts_with(['/', '!']) {
            self.command = Some(Typed { text, at });
        } else {
            self.ask(text, at, None);
        }
    }

    fn ask(&mut self, text: String, at: Option<Timestamp>, command: Option<&str>) {
        let mut message = typed(Origin::Human, text, at);
        if let Some(command) = command {
            message.extensions.insert("command".into(), Json::from_value(&command));
        }
        self.tell(message);
    }

    /// Tells the command that nothing repeated.
    fn release(&mut self) {
        if let Some(Typed { text, at }) = self.command.take() {
            self.tell(typed(Origin::Command, text, at));
        }
    }

    /// Tells the reply, what it changed, and the notices since.
    fn flush(&mut self) {
        self.held = 0;
        self.fenced = false;
        if let Some(reply) = self.reply.take() {
            self.tell_reply(reply);
        }
        let text = self.notices.join("\n").trim().to_owned();
        let failed = std::mem::take(&mut self.failed);
        self.notices.clear();
        if !text.is_empty() {
            self.tell(Message { failed, blocks: vec![Block::Text(text)], ..Message::default() });
        }
    }

    fn tell_reply(&mut self, reply: Reply) {
        let text = reply.text();
        if !text.is_empty() {
            self.plan = Some(gist(text));
        }
        for path in &reply.edits {
            if !self.session.files.contains(path) {
                self.session.files.push(path.clone());
            }
        }
        let editor = self.editor.as_ref().filter(|_| self.editing);
        let model = editor.or(self.model.as_ref()).cloned();
        let [answer, results] = reply.messages(&self.session.id.native, &mut self.counted);
        self.tell(Message { model, ..answer });
        if !results.blocks.is_empty() {
            self.tell(results);
        }
    }

    fn tell(&mut self, message: Message) {
        self.session.seen(message.at);
        self.out.push(Record::Message(Box::new(message)));
    }

    /// Tells what is still waiting for more.
    pub(super) fn finish(&mut self, inputs: &mut Inputs) {
        self.close_prompt(inputs);
        self.release();
        self.flush();
    }
}
