//! Walks a transcript line by line and tells its messages, one for each record.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::AGENT;
use super::line::Line;
use super::place::{self, Place};
use super::system::{self, Told};
use super::telemetry::{Event, Payload};
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, Text, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{
    Block, Json, Kind, Message, Origin, Role, Session, Timestamp, TitleRank, Usage,
};

/// Reads a transcript from a checkpoint on.
pub(super) fn read(path: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let mut reader = Reader::new(path, start, sink)?;
    reader.switch(None)?;
    let mut lines = Lines::open(path, start.offset)?;
    while let Some(line) = lines.next()? {
        let told = reader.told;
        reader.line(&line)?;
        if line.end == End::File {
            reader.settled = Some(told);
        } else {
            reader.end = lines.offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish(path)
}

struct Reader<'s> {
    sink: &'s mut dyn Sink,
    /// What this read has learnt about the session.
    session: Session,
    state: State,
    /// Sub-agents told from this file, by name.
    agents: BTreeMap<String, Session>,
    /// The sub-agent whose messages are being told; `None` is the session itself.
    current: Option<String>,
    place: Place,
    told: u64,
    /// Messages told before a last line that may not be whole.
    settled: Option<u64>,
    /// End of the last line that was written whole.
    end: u64,
}

/// What the lines before a checkpoint mean for those after it.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// The session's id.
    native: String,
    /// Whether sub-agents were told from this file too: their messages cannot be counted by one
    /// number, so that such a file is read as a whole.
    has_agents: bool,
    /// Calls of sub-agents whose telemetry may follow.
    #[serde(default)]
    tasks: Vec<Task>,
    /// The model of a sub-agent's answers, which name none.
    #[serde(default)]
    model: Option<String>,
}

/// What a sub-agent was asked to do.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Task {
    description: String,
    prompt: String,
    subagent_type: String,
}

/// Calls of sub-agents that are remembered.
const MAX_TASKS: usize = 64;

impl<'s> Reader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let mut place = Place::of(path);
        let mut state: State = serde_json::from_slice(&start.state).unwrap_or_default();
        if state.native.is_empty() {
            state.native = match place.native.take() {
                Some(native) => native,
                None => place::first_session(path)?,
            };
        }
        let mut session = Session::new(AGENT.id, state.native.clone());
        session.parent = place.parent.take();
        session.kind = place.kind;
        if place.kind == Kind::Agent {
            place::sidecar(path, &mut session);
            let model = session.model.clone();
            // Answers that were told before lack the model that is known now.
            if start.offset > 0 && model.is_some() && state.model != model {
                return Err(Error::StartOver);
            }
            state.model = model.or(state.model);
        }
        Ok(Self {
            sink,
            session,
            state,
            agents: BTreeMap::new(),
            current: None,
            place,
            told: start.messages,
            settled: None,
            end: start.offset,
        })
    }

    /// Tells whose messages follow.
    fn switch(&mut self, agent: Option<&str>) -> Result<()> {
        self.current = agent.map(str::to_owned);
        let known = agent.and_then(|agent| self.agents.get(agent));
        let session = known.unwrap_or(&self.session).clone();
        self.sink.accept(Record::Session(Box::new(session)))
    }

    /// Notes that a sub-agent was at work for a session: this one, or the one it is a copy of.
    fn note_agent(&mut self, (parent, agent): (&str, &str), at: Option<Timestamp>) -> Result<()> {
        if !self.agents.contains_key(agent) {
            let mut session = Session {
                parent: Some(parent.to_owned()),
                kind: Kind::Agent,
                cwd: self.session.cwd.clone(),
                branch: self.session.branch.clone(),
                agent_version: self.session.agent_version.clone(),
                ..Session::new(AGENT.id, place::agent_id(agent, parent))
            };
            session.title(TitleRank::Slug, agent);
            let task = self.take_task(agent);
            session.title(TitleRank::Generated, task.description);
            session.seen(at);
            self.agents.insert(agent.to_owned(), session);
            if !task.prompt.trim().is_empty() {
                let message = Message {
                    role: Role::User,
                    origin: Origin::Human,
                    at,
                    blocks: vec![Block::Text(task.prompt)],
                    ..Message::default()
                };
                self.tell(Some(agent), message)?;
            }
        }
        if let Some(session) = self.agents.get_mut(agent) {
            session.seen(at);
        }
        Ok(())
    }

    /// Remembers the sub-agents that an answer asks for.
    fn note_tasks(&mut self, message: &Message) {
        for block in &message.blocks {
            let Block::ToolCall { name, input, .. } = block else { continue };
            let task = input.parse::<Task>().filter(|_| matches!(&**name, "agent" | "task"));
            let Some(task) = task.filter(|task| !task.subagent_type.is_empty()) else { continue };
            if self.state.tasks.len() == MAX_TASKS {
                self.state.tasks.remove(0);
            }
            self.state.tasks.push(task);
        }
    }

    /// Takes the task of a sub-agent, whose name begins with its type: the first that nobody has.
    fn take_task(&mut self, agent: &str) -> Task {
        let is_its = |task: &Task| {
            agent.strip_prefix(&task.subagent_type).is_some_and(|rest| rest.starts_with('-'))
        };
        let place = self.state.tasks.iter().position(is_its);
        place.map(|place| self.state.tasks.remove(place)).unwrap_or_default()
    }

    fn finish(mut self, path: &Path) -> Result<Checkpoint> {
        for session in std::mem::take(&mut self.agents).into_values() {
            self.sink.accept(Record::Session(Box::new(session)))?;
        }
        self.switch(None)?;
        if self.state.has_agents {
            return Ok(Checkpoint::default());
        }
        Ok(Checkpoint {
            offset: self.end,
            guard: jsonl::guard(path, self.end)?,
            messages: self.settled.unwrap_or(self.told),
            state: serde_json::to_vec(&self.state).unwrap_or_default(),
            ..Checkpoint::default()
        })
    }

    fn line(&mut self, line: &jsonl::Line<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept(Record::bad(line.offset, LINE_TOO_LONG));
        }
        if jsonl::is_blank(line.bytes) {
            return Ok(());
        }
        let bytes = jsonl::mend_escapes(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<Line<'_>>(&bytes) {
            return self.record(parsed, &jsonl::Line { bytes: &bytes, ..*line });
        }
        let mended = jsonl::mend(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<Line<'_>>(&mended) {
            return self.record(parsed, &jsonl::Line { bytes: &mended, ..*line });
        }
        match json::parse_odd::<Line<'_>>(&mended) {
            Some(parsed) => self.record(parsed, &jsonl::Line { bytes: &mended, ..*line }),
            // A line that is still being written is read again when it is whole.
            None if line.end == End::File => Ok(()),
            None => self.sink.accept(Record::bad(line.offset, "not a JSON object")),
        }
    }

    fn record(&mut self, mut line: Line<'_>, source: &jsonl::Line<'_>) -> Result<()> {
        self.note(&line);
        let kind = line.kind.take().map(Text::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user" => self.user(line),
            "assistant" => self.assistant(line),
            "tool_result" => self.result(line),
            "system" if line.subtype() == "ui_telemetry" => self.telemetry(line, source.offset),
            "system" => {
                let subtype = line.subtype().to_owned();
                match system::read(line, &mut self.session) {
                    Told::Message(message) => self.tell(None, *message),
                    Told::Fact => Ok(()),
                    Told::Nothing => self.sink.accept(Record::passed(source.offset, subtype)),
                }
            }
            _ => match serde_json::from_slice::<&RawValue>(source.bytes) {
                Ok(raw) => self.keep(Message { at: line.at(), ..Message::default() }, raw),
                Err(_) => self.sink.accept(Record::bad(source.offset, "not a JSON object")),
            },
        }
    }

    /// Takes in what every record says about the session.
    fn note(&mut self, line: &Line<'_>) {
        let session = &mut self.session;
        session.seen(line.at());
        if session.cwd.is_none() {
            set(&mut session.cwd, line.cwd.as_ref());
        }
        set(&mut session.branch, line.branch.as_ref());
        set(&mut session.agent_version, line.version.as_ref());
        if session.kind == Kind::Agent && session.parent.is_none() {
            set(&mut session.parent, line.session.as_ref());
        }
        if let Some(name) = &line.agent_name {
            session.extensions.insert("agentName".to_owned(), Json::from_value(&name.as_str()));
        }
    }

    fn user(&mut self, mut line: Line<'_>) -> Result<()> {
        let origin = match (line.subtype(), line.provenance.as_ref().map(Text::as_str)) {
            ("", None | Some("real_user")) => Origin::Human,
            ("mid_turn_user_message", _) => Origin::Queued,
            _ => Origin::Injected,
        };
        let parts = line.take_parts();
        let shown = displayed(&line);
        let mut message = Message { role: Role::User, origin, ..line.envelope() };
        if let Some(parts) = parts {
            genai::blocks(parts, &mut message.blocks);
        }
        if message.blocks.iter().any(|block| matches!(block, Block::ToolResult { .. })) {
            message.role = Role::Tool;
            message.origin = Origin::Tool;
        } else if let Some(shown) = shown.filter(|shown| *shown != message.text()) {
            // What was typed, where the program sent more than that.
            message.blocks = vec![Block::Text(shown)];
            message.extensions.extend(parts.map(|raw| ("parts".to_owned(), Json::from(raw))));
        }
        self.tell(None, message)
    }

    fn assistant(&mut self, mut line: Line<'_>) -> Result<()> {
        let parts = line.take_parts();
        let usage: Option<genai::UsageMetadata> =
            line.usage.take().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut message =
            Message { role: Role::Assistant, origin: Origin::Assistant, ..line.envelope() };
        if message.model.is_none() {
            message.model.clone_from(&self.state.model);
        }
        message.usage = usage.map(|usage| Usage {
            identity: message.uuid.clone(),
            tokens: usage.tokens(),
            ..Usage::default()
        });
        if let Some(parts) = parts {
            genai::blocks(parts, &mut message.blocks);
        }
        self.note_tasks(&message);
        self.tell(None, message)
    }

    fn result(&mut self, mut line: Line<'_>) -> Result<()> {
        lenient! {
            struct Outcome<'a> {
                "status" status: Option<Text<'a>>,
                "resultDisplay" result_display: Option<&'a RawValue>,
            }
        }
        let parts = line.take_parts();
        let outcome: Option<Outcome<'_>> = line.result.and_then(|raw| json::parse(raw.get()));
        let mut message = Message { role: Role::Tool, origin: Origin::Tool, ..line.envelope() };
        if let Some(parts) = parts {
            genai::blocks(parts, &mut message.blocks);
        }
        if let Some(Outcome { status, result_display }) = outcome {
            let status = status.map(Text::into_owned).unwrap_or_default();
            let failed = match status.as_str() {
                "success" => Some(false),
                "error" => Some(true),
                // Cancelled, or still under way.
                _ => None,
            };
            for block in &mut message.blocks {
                if let Block::ToolResult { is_error, .. } = block {
                    *is_error = failed;
                }
            }
            if failed.is_none() {
                message.extensions.insert("status".to_owned(), Json::from_value(&status));
            }
            if let Some(display) = result_display.and_then(json::small) {
                message.extensions.insert("resultDisplay".to_owned(), display);
            }
        }
        self.tell(None, message)
    }

    /// Telemetry of a sub-agent stands for the transcript it did not get.
    fn telemetry(&mut self, line: Line<'_>, offset: u64) -> Result<()> {
        let raw = line.payload;
        let event = raw.and_then(|raw| json::parse::<Payload<'_>>(raw.get()));
        let event: Option<Event<'_>> = event.and_then(|payload| payload.event);
        let agent = event.as_ref().and_then(Event::agent);
        let agent = agent.map(|(session, agent)| (session.to_owned(), agent.to_owned()));
        let known = agent.filter(|(session, _)| !self.place.has_transcripts(session));
        let (Some(event), Some((session, agent))) = (event, known) else {
            return self.sink.accept(Record::passed(offset, "ui_telemetry"));
        };
        self.state.has_agents = true;
        let mut envelope = line.envelope();
        // The chain of parents is the session's, and most of its links are not told.
        envelope.parent = None;
        self.note_agent((&session, &agent), envelope.at)?;
        for message in event.messages(envelope) {
            self.tell(Some(&agent), message)?;
        }
        Ok(())
    }

    /// Keeps a record we have no word for.
    fn keep(&mut self, mut message: Message, raw: &RawValue) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.tell(None, message)
    }

    fn tell(&mut self, agent: Option<&str>, message: Message) -> Result<()> {
        if self.current.as_deref() != agent {
            self.switch(agent)?;
        }
        self.told += 1;
        self.sink.accept(Record::Message(Box::new(message)))
    }
}

/// The text a prompt was shown as.
fn displayed(line: &Line<'_>) -> Option<String> {
    lenient! {
        struct Display<'a> {
            "displayText" display_text: Option<Text<'a>>,
        }
    }
    line.payload::<Display<'_>>()?
        .display_text
        .map(Text::into_owned)
        .filter(|text| !text.trim().is_empty())
}

fn set(known: &mut Option<String>, text: Option<&Text<'_>>) {
    if let Some(text) = text.map(Text::as_str)
        && !text.is_empty()
        && known.as_deref() != Some(text)
    {
        *known = Some(text.to_owned());
    }
}
