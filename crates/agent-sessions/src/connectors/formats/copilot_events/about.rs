//! Events about the session as a whole: working directory, model, usage totals, shutdown.

use serde_json::value::RawValue;

use super::EventLogReader;
use super::emit::{Envelope, EventOutcome, keep_text_extension, non_empty_owned, parse_event_data};
use super::event::{Begin, ModelChange, RunTokenCounts, SessionContext, Shutdown, Truncation};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Message, Role, SessionKind, Timestamp};

impl EventLogReader<'_> {
    pub(super) fn begin_session(&mut self, envelope: &Envelope, data: &RawValue) -> EventOutcome {
        let Some(begin) = parse_event_data::<Begin<'_>>(data) else { return EventOutcome::Unknown };
        if let Some(id) = non_empty_owned(begin.session_id).filter(|_| !self.is_session_emitted) {
            self.state.native.clone_from(&id);
            self.session.id.native = id;
        }
        self.begin_run(envelope);
        let start = begin.start_time.and_then(|text| non_empty_owned(text.0));
        self.session.extend_time_span(start.and_then(|text| Timestamp::parse_iso_time(&text)));
        let version = non_empty_owned(begin.version).filter(|version| version != "unknown");
        self.session.agent_version = version.or(self.session.agent_version.take());
        if let Some(parent) = non_empty_owned(begin.parent) {
            self.session.parent = Some(parent);
            self.session.kind = SessionKind::Agent;
        }
        json::keep_non_empty_fields(begin.rest, &mut self.session.extensions);
        self.set_main_model(begin.model);
        self.apply_context(begin.context);
        EventOutcome::Nothing
    }

    pub(super) fn resume_session(&mut self, envelope: &Envelope, data: &RawValue) -> EventOutcome {
        let Some(begin) = parse_event_data::<Begin<'_>>(data) else { return EventOutcome::Unknown };
        self.begin_run(envelope);
        self.set_main_model(begin.model);
        self.apply_context(begin.context);
        EventOutcome::Nothing
    }

    pub(super) fn read_directory_change(&mut self, data: &RawValue) -> EventOutcome {
        let context = parse_event_data::<SessionContext<'_>>(data);
        let outcome = if context.is_some() { EventOutcome::Nothing } else { EventOutcome::Unknown };
        self.apply_context(context);
        outcome
    }

    fn apply_context(&mut self, context: Option<SessionContext<'_>>) {
        let Some(context) = context else { return };
        let state = &mut self.state;
        state.cwd = state.cwd.take().or_else(|| non_empty_owned(context.cwd));
        state.branch = non_empty_owned(context.branch).or(state.branch.take());
        state.root = state.root.take().or_else(|| non_empty_owned(context.git_root.clone()));
        let mut rest = Extensions::new();
        if context.repository.is_some() {
            keep_text_extension(&mut rest, "gitRoot", context.git_root.clone());
        }
        let repository = context.repository.or(context.git_root);
        state.repository = state.repository.take().or_else(|| non_empty_owned(repository));
        json::keep_non_empty_fields(context.rest, &mut rest);
        if !rest.is_empty() {
            self.session.extensions.insert("context".into(), Json::from_value(&rest));
        }
        self.apply_logged_location();
    }

    pub(super) fn change_model(&mut self, data: &RawValue) -> EventOutcome {
        let Some(change) = parse_event_data::<ModelChange<'_>>(data) else {
            return EventOutcome::Unknown;
        };
        self.set_main_model(change.chosen.or(change.new));
        EventOutcome::Nothing
    }

    /// Sets the main agent's model. `auto` leaves the choice to the service; the replies name the
    /// model that was used.
    fn set_main_model(&mut self, model: Option<BorrowedText<'_>>) {
        if let Some(model) = non_empty_owned(model).filter(|model| model != "auto") {
            self.state.models.insert(String::new(), model);
        }
    }

    /// Reads a truncation of the context. Old versions write one after every reply; those that
    /// removed nothing are kept in the session's extensions only.
    pub(super) fn read_truncation(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let Some(truncation) = parse_event_data::<Truncation<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        self.session.extensions.insert("truncation".into(), Json::from(data));
        if truncation.messages.unwrap_or(0) + truncation.tokens.unwrap_or(0) == 0 {
            return Ok(EventOutcome::Nothing);
        }
        let mut message = envelope.new_message(Role::System);
        let [messages, tokens] = [truncation.messages, truncation.tokens].map(|n| n.unwrap_or(0));
        message.blocks.push(Block::Text(format!(
            "Context truncated: {messages} messages, {tokens} tokens removed"
        )));
        message.extensions.insert("truncation".into(), Json::from(data));
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    /// Reads counters of the session so far. The latest values win.
    pub(super) fn read_usage_checkpoint(&mut self, data: &RawValue) -> EventOutcome {
        lenient! {
            struct Counters<'a> {
                "totalNanoAiu" total_nano_aiu: Option<&'a RawValue>,
            }
        }
        let Some(counters) = parse_event_data::<Counters<'_>>(data) else {
            return EventOutcome::Unknown;
        };
        self.session.extensions.extend(
            counters.total_nano_aiu.map(|nano| ("totalNanoAiu".to_owned(), Json::from(nano))),
        );
        EventOutcome::Nothing
    }

    /// Reads the end of one run of the program. Emits one message for each model used in the run,
    /// with the tokens that no other record contains.
    pub(super) fn read_shutdown(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let Some(mut shutdown) = parse_event_data::<Shutdown<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        self.emit_unclaimed()?;
        let mut first = envelope.new_message(Role::System);
        let error = non_empty_owned(shutdown.error.take());
        first.failed = shutdown.kind.as_ref().is_some_and(|kind| kind.as_borrowed_str() == "error");
        first.blocks.extend(error.map(Block::Text));
        keep_text_extension(&mut first.extensions, "shutdownType", shutdown.kind.take());
        json::keep_non_empty_fields(std::mem::take(&mut shutdown.rest), &mut first.extensions);
        if let Some(nano) = shutdown.nano_aiu {
            self.session.extensions.insert("totalNanoAiu".into(), Json::from(nano));
        }
        if let Some(changes) = shutdown.changes.take() {
            let mut counts = Extensions::new();
            json::keep_non_empty_fields(changes.rest, &mut counts);
            first.extensions.insert("codeChanges".into(), Json::from_value(&counts));
            changes.files.into_iter().flatten().for_each(|file| self.add_touched_file(&file.0));
        }
        let sums = self.sums_of(envelope, &shutdown);
        let mut message = Some(first);
        for (model, metrics) in shutdown.models.unwrap_or_default() {
            let mut message =
                message.take().unwrap_or_else(|| Message { at: envelope.at, ..Message::default() });
            message.usage = metrics
                .usage
                .as_ref()
                .map(RunTokenCounts::run_tokens)
                .and_then(|tokens| self.unrecorded_usage(&sums, &model, tokens));
            message.model = Some(model);
            json::keep_non_empty_fields(metrics.rest, &mut message.extensions);
            self.emit_after_held_reply(message)?;
        }
        if let Some(message) = message {
            self.emit_after_held_reply(message)?;
        }
        self.end_run(envelope);
        Ok(EventOutcome::Yes)
    }
}
