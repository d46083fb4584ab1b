//! Reads the records that describe the session as a whole, and the current turn.

use super::line::{HistoryBase, ThreadMeta, TurnContext};
use super::prompt;
use super::reader::RolloutReader;
use crate::connectors::formats::json::{self, BorrowedText};
use crate::error::Result;
use crate::model::{Continuation, Json, SessionKind, Timestamp, TitleRank};

impl RolloutReader<'_> {
    /// Sets the session's id at the first record that is understood.
    pub(super) fn set_session_id(&mut self, id: Option<&str>) {
        if !self.state.native.is_empty() {
            return;
        }
        let id = id.filter(|id| !id.is_empty());
        self.state.native = id.unwrap_or(&self.name.thread).to_owned();
        self.session.id.native.clone_from(&self.state.native);
        if self.now.is_none() {
            self.session.extend_time_span(self.name.time);
        }
    }

    /// Reads a `session_meta`. The first one describes the file. Later ones repeat it, or belong to
    /// the replayed history of another thread.
    pub(super) fn read_session_meta(&mut self, mut meta: ThreadMeta<'_>) -> Result<()> {
        let id = meta.id.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let began = meta
            .timestamp
            .as_ref()
            .and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str()));
        self.set_session_id(Some(id));
        let id = if id.is_empty() { &*self.state.native } else { id };
        if self.forks.is_empty() {
            self.session.extend_time_span(self.now);
        }
        let is_first = self.state.threads.has_no_thread();
        let is_new = self.state.threads.add_thread(id, began.map(Timestamp::as_millis));
        // In a referenced history, each file in turn names the history it continues.
        let base = meta.history_base.take().and_then(|base| base.0);
        let base = base.filter(|_| is_first || (is_new && !self.forks.is_empty()));
        if is_first {
            self.session.extend_time_span(began);
            self.describe_session(meta, base.as_ref());
        } else {
            self.pass_over_record(if is_new {
                "session_meta of a replay"
            } else {
                "repeated session_meta"
            })?;
        }
        base.map_or(Ok(()), |base| self.take_history(&base))
    }

    fn describe_session(&mut self, mut meta: ThreadMeta<'_>, base: Option<&HistoryBase<'_>>) {
        self.state.origin =
            base.and_then(HistoryBase::base_thread_id).or_else(|| meta.history_origin());
        self.state.is_fork = meta.forked_from.is_some();
        let session = &mut self.session;
        if let Some(origin) = self.state.origin.clone().filter(|_| self.state.is_fork) {
            session.continues = Some(Continuation { session: origin, messages: 0 });
        }
        session.parent = meta.parent_thread();
        session.kind = if meta.is_agent() { SessionKind::Agent } else { SessionKind::Root };
        session.cwd = meta.cwd.take().map(BorrowedText::into_owned).filter(|cwd| !cwd.is_empty());
        session.agent_version = meta.version.take().map(BorrowedText::into_owned);
        if let Some(nickname) = meta.nickname.take() {
            session.add_title(TitleRank::Slug, nickname.into_owned());
        }
        if let Some(git) = meta.git.take() {
            session.repository = git.repository_name();
            session.branch =
                git.branch.map(BorrowedText::into_owned).filter(|branch| !branch.is_empty());
            self.state.branch.is_recorded |= session.branch.is_some();
            json::keep_non_empty_fields(git.rest, &mut session.extensions);
        }
        if let Some(source) = meta.source {
            session.extensions.insert("source".into(), Json::from(source));
        }
        let texts = [("thread_source", meta.thread_source), ("forked_from_id", meta.forked_from)];
        for (key, text) in texts {
            if let Some(text) = text {
                session.extensions.insert(key.into(), Json::from_value(&text.as_borrowed_str()));
            }
        }
        json::keep_non_empty_fields(meta.rest, &mut session.extensions);
    }

    pub(super) fn read_turn_context(&mut self, turn: TurnContext<'_>) -> Result<()> {
        self.state
            .threads
            .begin_turn(None, turn.turn_id.as_ref().map(BorrowedText::as_borrowed_str));
        let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
        if let Some(model) = owned(turn.model) {
            if self.state.threads.is_own_record() {
                self.session.model.get_or_insert_with(|| model.clone());
            }
            self.state.model = Some(model);
        }
        self.state.effort = owned(turn.effort);
        self.state.cwd = owned(turn.cwd).or(self.state.cwd.take());
        self.pass_over_record("turn_context")
    }

    /// Takes the working directory from a text, for files that record it nowhere else.
    pub(super) fn look_for_cwd(&mut self, text: &str) {
        if self.session.cwd.is_none() {
            self.session.cwd = prompt::find_injected_cwd(text).map(str::to_owned);
        }
    }
}
