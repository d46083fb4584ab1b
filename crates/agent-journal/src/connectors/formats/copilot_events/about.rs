//! Events that speak of the session as a whole: where it runs, with which model, what it used.

use serde_json::value::RawValue;

use super::Reader;
use super::event::{Begin, Context, Counts, ModelChange, Shutdown, Truncation};
use super::tell::{Envelope, Told, owned, parse, put};
use crate::connectors::formats::json::{self, Text, lenient};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Kind, Message, Role, Timestamp};

impl Reader<'_> {
    pub(super) fn begin(&mut self, envelope: &Envelope, data: &RawValue) -> Told {
        let Some(begin) = parse::<Begin<'_>>(data) else { return Told::Unknown };
        if let Some(id) = owned(begin.session_id).filter(|_| !self.is_session_told) {
            self.state.native.clone_from(&id);
            self.session.id.native = id;
        }
        self.begin_run(envelope);
        let start = begin.start_time.and_then(|text| owned(text.0));
        self.session.seen(start.and_then(|text| Timestamp::parse(&text)));
        let version = owned(begin.version).filter(|version| version != "unknown");
        self.session.agent_version = version.or(self.session.agent_version.take());
        if let Some(parent) = owned(begin.parent) {
            self.session.parent = Some(parent);
            self.session.kind = Kind::Agent;
        }
        json::keep(begin.rest, &mut self.session.extensions);
        self.select(begin.model);
        self.stand(begin.context);
        Told::Nothing
    }

    pub(super) fn resume(&mut self, envelope: &Envelope, data: &RawValue) -> Told {
        let Some(begin) = parse::<Begin<'_>>(data) else { return Told::Unknown };
        self.begin_run(envelope);
        self.select(begin.model);
        self.stand(begin.context);
        Told::Nothing
    }

    pub(super) fn move_to(&mut self, data: &RawValue) -> Told {
        let context = parse::<Context<'_>>(data);
        let told = if context.is_some() { Told::Nothing } else { Told::Unknown };
        self.stand(context);
        told
    }

    fn stand(&mut self, context: Option<Context<'_>>) {
        let Some(context) = context else { return };
        let state = &mut self.state;
        state.cwd = state.cwd.take().or_else(|| owned(context.cwd));
        state.branch = owned(context.branch).or(state.branch.take());
        state.root = state.root.take().or_else(|| owned(context.git_root.clone()));
        let mut rest = Extensions::new();
        if context.repository.is_some() {
            put(&mut rest, "gitRoot", context.git_root.clone());
        }
        let repository = context.repository.or(context.git_root);
        state.repository = state.repository.take().or_else(|| owned(repository));
        json::keep(context.rest, &mut rest);
        if !rest.is_empty() {
            self.session.extensions.insert("context".into(), Json::from_value(&rest));
        }
        self.place();
    }

    pub(super) fn change_model(&mut self, data: &RawValue) -> Told {
        let Some(change) = parse::<ModelChange<'_>>(data) else { return Told::Unknown };
        self.select(change.chosen.or(change.new));
        Told::Nothing
    }

    /// Notes the main agent's model. `auto` leaves the choice to the service: what it chose shows
    /// in the answers.
    fn select(&mut self, model: Option<Text<'_>>) {
        if let Some(model) = owned(model).filter(|model| model != "auto") {
            self.state.models.insert(String::new(), model);
        }
    }

    /// Old versions write one after every answer: those that removed nothing are only remembered.
    pub(super) fn truncation(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(truncation) = parse::<Truncation<'_>>(data) else { return Ok(Told::Unknown) };
        self.session.extensions.insert("truncation".into(), Json::from(data));
        if truncation.messages.unwrap_or(0) + truncation.tokens.unwrap_or(0) == 0 {
            return Ok(Told::Nothing);
        }
        let mut message = envelope.message(Role::System);
        let [messages, tokens] = [truncation.messages, truncation.tokens].map(|n| n.unwrap_or(0));
        message.blocks.push(Block::Text(format!(
            "Context truncated: {messages} messages, {tokens} tokens removed"
        )));
        message.extensions.insert("truncation".into(), Json::from(data));
        self.tell(message)?;
        Ok(Told::Yes)
    }

    /// Counters of the whole session so far: the last ones hold.
    pub(super) fn checkpoint(&mut self, data: &RawValue) -> Told {
        lenient! {
            struct Counters<'a> {
                "totalNanoAiu" total_nano_aiu: Option<&'a RawValue>,
            }
        }
        let Some(counters) = parse::<Counters<'_>>(data) else { return Told::Unknown };
        self.session.extensions.extend(
            counters.total_nano_aiu.map(|nano| ("totalNanoAiu".to_owned(), Json::from(nano))),
        );
        Told::Nothing
    }

    /// The end of one run of the program: one message for each model that worked in it, with the
    /// tokens that no other record has.
    pub(super) fn shutdown(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(mut shutdown) = parse::<Shutdown<'_>>(data) else { return Ok(Told::Unknown) };
        self.tell_unclaimed()?;
        let mut first = envelope.message(Role::System);
        let error = owned(shutdown.error.take());
        first.failed = shutdown.kind.as_ref().is_some_and(|kind| kind.as_str() == "error");
        first.blocks.extend(error.map(Block::Text));
        put(&mut first.extensions, "shutdownType", shutdown.kind.take());
        json::keep(std::mem::take(&mut shutdown.rest), &mut first.extensions);
        if let Some(nano) = shutdown.nano_aiu {
            self.session.extensions.insert("totalNanoAiu".into(), Json::from(nano));
        }
        if let Some(changes) = shutdown.changes.take() {
            let mut counts = Extensions::new();
            json::keep(changes.rest, &mut counts);
            first.extensions.insert("codeChanges".into(), Json::from_value(&counts));
            changes.files.into_iter().flatten().for_each(|file| self.touch(&file.0));
        }
        let sums = self.sums_of(envelope, &shutdown);
        let mut message = Some(first);
        for (model, metrics) in shutdown.models.unwrap_or_default() {
            let mut message =
                message.take().unwrap_or_else(|| Message { at: envelope.at, ..Message::default() });
            message.usage = metrics
                .usage
                .as_ref()
                .map(Counts::tokens)
                .and_then(|tokens| self.unrecorded(&sums, &model, tokens));
            message.model = Some(model);
            json::keep(metrics.rest, &mut message.extensions);
            self.tell(message)?;
        }
        if let Some(message) = message {
            self.tell(message)?;
        }
        self.end_run(envelope);
        Ok(Told::Yes)
    }
}
