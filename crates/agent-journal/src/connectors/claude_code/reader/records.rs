//! What each kind of record says: prompts, answers, notices, attachments, the queue.

use std::collections::HashMap;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::super::content::Content;
use super::super::line::{Body, Line};
use super::super::{prompt, rest};
use super::{Open, Reader, WARMUP, WaitingPrompt};
use crate::connectors::Record;
use crate::connectors::formats::json::{self, Lenient, Text, lenient};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Kind, Message, Origin, Role, Timestamp};

/// Attachments that repeat what every request of the program begins with: its instructions and the
/// descriptions of its tools, up to 60 kB each time.
const PASSED_ATTACHMENTS: &[&str] = &["prompt_snapshot"];

/// Values of `toolUseResult` longer than this repeat what the call and its result say.
const MAX_TWIN: usize = 512;

impl Reader<'_> {
    pub(super) fn user(&mut self, mut line: Line<'_>, at: Option<Timestamp>) -> Result<()> {
        let mut body = line.message.take().unwrap_or_default();
        let Some(content) = body.content.take() else {
            return self.tell(envelope(line, body, at, Role::User));
        };
        let is_result = content.has_tool_result();
        let mut blocks = Vec::new();
        let mut words = Vec::new();
        let mut unknown = Extensions::new();
        for mut part in content.parts() {
            part.keep(&mut unknown);
            let is_beside = is_result && part.is("text");
            part.push(&self.place.tool_results, if is_beside { &mut words } else { &mut blocks });
        }
        let source = line.prompt_source.take().and_then(|source| source.0).map(Text::into_owned);
        let from = line.origin.take().and_then(|from| from.0).and_then(|from| from.kind);
        let from = from.map(Text::into_owned);
        let told = Told {
            is_meta: line.is_meta == Some(true),
            is_summary: line.is_compact_summary == Some(true),
            is_hidden: line.is_transcript_only == Some(true),
            is_system: source.as_deref() == Some("system")
                || from.as_deref().is_some_and(|kind| kind != "human"),
        };
        let twin = line.tool_use_result.take();
        let mut message = envelope(line, body, at, if is_result { Role::Tool } else { Role::User });
        message.blocks = blocks;
        message.extensions.extend(unknown);
        for (name, value) in [("promptSource", source), ("origin", from)] {
            if let Some(value) = value {
                message.extensions.insert(name.into(), Json::from_value(&value));
            }
        }
        if let Some(twin) = twin {
            keep_twin(twin, &mut message.extensions);
        }
        if !is_result {
            message.origin = told.origin(&mut message);
            self.warm_up(&message)?;
            return self.tell(message);
        }
        message.origin = Origin::Tool;
        let beside = beside_result(&message, words.clone(), &told);
        if beside.is_none() {
            message.blocks.append(&mut words);
        }
        self.tell(message)?;
        beside.map_or(Ok(()), |prompt| self.tell(prompt))
    }

    /// A sub-agent that is started with one word to warm the program up is a working copy.
    fn warm_up(&mut self, message: &Message) -> Result<()> {
        let is_first = self.told == 0 && self.open.is_none();
        if self.place.kind == Kind::Agent && is_first && message.text().trim() == WARMUP {
            self.session.kind = Kind::Copy;
            return self.tell_session();
        }
        Ok(())
    }

    pub(super) fn assistant(&mut self, mut line: Line<'_>, at: Option<Timestamp>) -> Result<()> {
        let mut usage = line.usage();
        let failed = line.is_api_error == Some(true);
        let top_model = line.model.take();
        let mut body = line.message.take().unwrap_or_default();
        let counts = body.usage.take();
        let model = body.model.take().or(top_model).map(Text::into_owned);
        let synthetic = model.as_deref() == Some("<synthetic>");
        if synthetic {
            usage = None;
        }
        let content = body.content.take();
        let stop_reason = body.stop_reason.take().or(body.stop_reason_camel.take());
        let api_id = body.id.take().map(Text::into_owned).filter(|id| !id.is_empty());
        let mut message = envelope(line, body, at, Role::Assistant);
        message.origin = if synthetic { Origin::System } else { Origin::Assistant };
        message.failed = failed;
        message.model = model.filter(|_| !synthetic);
        message.api_id = api_id;
        message.stop_reason = stop_reason.map(Text::into_owned);
        message.usage = usage;
        rest::keep("usage", counts.unwrap_or_default().rest, &mut message.extensions);
        for mut part in content.map(Content::parts).unwrap_or_default() {
            part.keep(&mut message.extensions);
            part.push(&self.place.tool_results, &mut message.blocks);
        }
        if let Some(open) = &mut self.open
            && open.message.api_id.is_some()
            && open.message.api_id == message.api_id
            && open.message.request_id == message.request_id
        {
            fold(&mut open.message, message);
            return Ok(());
        }
        self.close()?;
        self.open = Some(Open { message: Box::new(message), trailing: Vec::new() });
        Ok(())
    }

    pub(super) fn system(
        &mut self,
        mut line: Line<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        let subtype = line.subtype.take().map(Text::into_owned).unwrap_or_default();
        let content = text_of(line.content.take());
        let failed = subtype == "api_error";
        if content.is_empty() && !failed {
            let what = if subtype.is_empty() { "system" } else { &*subtype };
            self.pass_over(&line);
            return self.sink.accept(Record::passed(offset, what.to_owned()));
        }
        line.parent = line.parent.take().or(line.logical_parent.take());
        let mut message = envelope(line, Body::default(), at, Role::System);
        message.failed = failed;
        message.origin = match prompt::origin(&content) {
            Origin::Command => Origin::Command,
            _ => Origin::System,
        };
        message.extensions.insert("subtype".into(), Json::from_value(&subtype));
        let text = prompt::command(&content).filter(|_| message.origin == Origin::Command);
        let text = text.unwrap_or(content);
        message.blocks.push(Block::Text(if text.is_empty() { subtype } else { text }));
        self.tell(message)
    }

    /// Context the program attached. A prompt that was typed while the agent worked is one of them.
    pub(super) fn attachment(
        &mut self,
        mut line: Line<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        lenient! {
            struct Attachment<'a> {
                "type" kind: Option<Text<'a>>,
                "prompt" prompt: Option<Content<'a>>,
            }
        }
        let Some(raw) = line.attachment.take() else {
            return self.tell(envelope(line, Body::default(), at, Role::User));
        };
        let attachment: Option<Attachment<'_>> = json::parse(raw.get());
        let kind = attachment.as_ref().and_then(|one| one.kind.as_ref());
        let kind = kind.map(|kind| kind.as_str().to_owned()).unwrap_or_default();
        if PASSED_ATTACHMENTS.contains(&kind.as_str()) {
            self.pass_over(&line);
            return self.sink.accept(Record::passed(offset, format!("attachment {kind}")));
        }
        let rendered = take_rendered(&mut line.rest);
        let queued = attachment.filter(|_| kind == "queued_command");
        let mut message = envelope(line, Body::default(), at, Role::User);
        message.origin = Origin::Injected;
        if let Some(prompt) = queued.and_then(|queued| queued.prompt) {
            for part in prompt.parts() {
                part.push(&self.place.tool_results, &mut message.blocks);
            }
            let text = message.text();
            if !prompt::is_machine(&text) {
                if !first_time(&text, &mut self.state.removed, &mut self.state.attached) {
                    if let Some(uuid) = &message.uuid {
                        self.passed.pass(uuid, message.parent.as_deref());
                    }
                    return Ok(());
                }
                message.origin = prompt::queued_origin(&text);
            }
        } else if let Some(rendered) = rendered {
            message.blocks.push(Block::Text(rendered));
            message.extensions.insert("attachment".into(), Json::from_value(&kind));
        } else {
            message.blocks.push(Block::Other(Json::from(raw)));
        }
        self.tell(message)
    }

    /// The queue of prompts typed while the agent works. One taken out by `dequeue` follows as a
    /// user record; one taken out by `remove` went into the running turn and stands nowhere else.
    pub(super) fn queue(
        &mut self,
        line: Line<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        let operation = line.operation.as_ref().map_or("", Text::as_str);
        let content = text_of(line.content);
        match operation {
            "enqueue" => self.state.queue.push(WaitingPrompt { text: content, at }),
            "dequeue" => drop(self.leave_queue(&content)),
            "popAll" => self.state.queue.clear(),
            "remove" => {
                let text = self.leave_queue(&content).unwrap_or(content);
                if let Some(message) = queued(text.clone(), at)
                    && first_time(&text, &mut self.state.attached, &mut self.state.removed)
                {
                    return self.tell(message);
                }
            }
            _ => {}
        }
        self.sink.accept(Record::passed(offset, "queue-operation"))
    }

    /// Takes the prompt that is named out of the queue, else the oldest.
    fn leave_queue(&mut self, content: &str) -> Option<String> {
        let queue = &mut self.state.queue;
        let named = queue.iter().position(|one| !content.is_empty() && one.text == content);
        (!queue.is_empty()).then(|| queue.remove(named.unwrap_or(0)).text)
    }

    /// Keeps a record we have no word for.
    pub(super) fn keep(&mut self, mut message: Message, raw: &RawValue) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.tell(message)
    }
}

/// Makes a message of a prompt in the queue; `None` when the program wrote it.
pub(super) fn queued(text: String, at: Option<Timestamp>) -> Option<Message> {
    (!prompt::is_machine(&text)).then(|| Message {
        role: Role::User,
        origin: prompt::queued_origin(&text),
        at,
        blocks: vec![Block::Text(text)],
        ..Message::default()
    })
}

/// Makes a prompt of the words that a person typed beside a tool's result; `None` when there are
/// none, or the program wrote them.
fn beside_result(result: &Message, words: Vec<Block>, told: &Told) -> Option<Message> {
    if words.is_empty() {
        return None;
    }
    let mut prompt = Message {
        parent: result.uuid.clone(),
        role: Role::User,
        at: result.at,
        cwd: result.cwd.clone(),
        branch: result.branch.clone(),
        agent_version: result.agent_version.clone(),
        sidechain: result.sidechain,
        blocks: words,
        ..Message::default()
    };
    prompt.origin = told.origin(&mut prompt);
    (prompt.origin == Origin::Human).then_some(prompt)
}

/// Takes the text that the model was given for an attachment, where the record has it.
fn take_rendered(rest: &mut json::Rest<'_>) -> Option<String> {
    lenient! {
        struct Rendered<'a> {
            "content" content: Option<Content<'a>>,
        }
    }
    let (_, raw) = rest.iter().find(|(key, _)| key == "rendered")?;
    let parts = json::elements(raw)?;
    let parts = parts.into_iter().filter_map(|raw| json::parse::<Rendered<'_>>(raw.get()));
    let texts: Vec<String> =
        parts.filter_map(|part| part.content).map(Content::into_text).collect();
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return None;
    }
    rest.retain(|(key, _)| key != "rendered" && key != "renderedRole");
    Some(text)
}

/// Whether a queued prompt is told for the first time: its other record, if there is one, was
/// told then, and is waited for otherwise.
fn first_time(text: &str, told: &mut Vec<u64>, waiting: &mut Vec<u64>) -> bool {
    let hash = xxh3_64(text.trim().as_bytes());
    match told.iter().position(|known| *known == hash) {
        Some(at) => {
            told.remove(at);
            false
        }
        None => {
            waiting.push(hash);
            true
        }
    }
}

fn text_of(content: Option<Lenient<Content<'_>>>) -> String {
    content.and_then(|content| content.0).map(Content::into_text).unwrap_or_default()
}

/// What a user record says about itself.
#[expect(clippy::struct_excessive_bools, reason = "they are the format's own flags")]
struct Told {
    is_meta: bool,
    is_summary: bool,
    is_hidden: bool,
    is_system: bool,
}

impl Told {
    /// Tells who wrote a user record without tool results, and leaves only their words in it.
    fn origin(&self, message: &mut Message) -> Origin {
        if self.is_summary {
            return Origin::Summary;
        }
        if self.is_meta || self.is_hidden {
            return Origin::Injected;
        }
        let envelope = take_envelopes(&mut message.blocks);
        if !envelope.is_empty() {
            message.extensions.insert("envelope".into(), Json::from_value(&envelope));
        }
        let text = message.text();
        if text.trim().is_empty() {
            let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
            return if has_image { Origin::Human } else { Origin::Injected };
        }
        match prompt::origin(&text) {
            Origin::Human if self.is_system => Origin::Injected,
            Origin::Command => {
                if let Some(command) = prompt::command(&text) {
                    message.blocks = vec![Block::Text(command)];
                }
                Origin::Command
            }
            origin => origin,
        }
    }
}

/// Takes the program's envelopes off the first texts of a prompt.
fn take_envelopes(blocks: &mut Vec<Block>) -> String {
    let mut envelopes = Vec::new();
    let mut at = 0;
    while let Some(block) = blocks.get_mut(at) {
        let Block::Text(text) = block else {
            at += 1;
            continue;
        };
        let (envelope, rest) = prompt::unwrap(text);
        if !envelope.is_empty() {
            envelopes.push(envelope.to_owned());
        }
        if !rest.is_empty() {
            if rest.len() != text.len() {
                *text = rest.to_owned();
            }
            break;
        }
        blocks.remove(at);
    }
    envelopes.join("\n")
}

/// Makes a message of a record's envelope; what the envelope holds beyond the model is kept.
fn envelope(line: Line<'_>, body: Body<'_>, at: Option<Timestamp>, role: Role) -> Message {
    let some = |text: Option<Text<'_>>| text.map(Text::into_owned).filter(|text| !text.is_empty());
    let mut extensions = Extensions::new();
    if line.is_meta == Some(true) {
        extensions.insert("isMeta".into(), Json::from_value(&true));
    }
    if let Some(agent) = line.agent_id {
        extensions.insert("agentId".into(), Json::from_value(&agent.as_str()));
    }
    json::keep(line.rest, &mut extensions);
    json::keep(body.rest, &mut extensions);
    Message {
        uuid: some(line.uuid),
        parent: some(line.parent),
        role,
        at,
        request_id: some(line.request_id),
        cwd: some(line.cwd),
        branch: some(line.branch),
        agent_version: some(line.version),
        sidechain: line.is_sidechain == Some(true),
        extensions,
        ..Message::default()
    }
}

/// Takes a further line of the same API message into it.
fn fold(message: &mut Message, line: Message) {
    message.part_uuids.extend(line.uuid);
    message.blocks.extend(line.blocks);
    message.failed |= line.failed;
    message.stop_reason = line.stop_reason.or(message.stop_reason.take());
    message.extensions.extend(line.extensions);
    // Input is the same on every line; output grows, and the largest is the final count.
    let grown = match (&message.usage, &line.usage) {
        (Some(known), Some(new)) => new.tokens.output >= known.tokens.output,
        (known, _) => known.is_none(),
    };
    if grown {
        let cost = message.usage.as_ref().and_then(|usage| usage.cost_micros);
        message.usage = line.usage;
        if let Some(usage) = &mut message.usage {
            usage.cost_micros = usage.cost_micros.max(cost);
        }
    }
}

/// Keeps the small facts of a result's structured twin. Its long values repeat the call's input
/// or the result's text, or hold the whole file before an edit.
fn keep_twin(twin: &RawValue, extensions: &mut Extensions) {
    let Ok(fields) = serde_json::from_str::<HashMap<Text<'_>, &RawValue>>(twin.get()) else {
        return;
    };
    let small: std::collections::BTreeMap<&str, &RawValue> = fields
        .iter()
        .filter(|(key, value)| value.get().len() <= MAX_TWIN || key.as_str() == "structuredPatch")
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    if !small.is_empty() {
        extensions.insert("toolUseResult".into(), Json::from_value(&small));
    }
}
