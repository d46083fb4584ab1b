//! What the records say about the session as a whole, and about the turn they are in.

use super::line::{Context, HistoryBase, Meta};
use super::prompt;
use super::reader::Reader;
use crate::connectors::formats::json::{self, Text};
use crate::error::Result;
use crate::model::{Continuation, Json, Kind, Timestamp, TitleRank};

impl Reader<'_> {
    /// Settles the session's id with the first record that is understood.
    pub(super) fn identify(&mut self, id: Option<&str>) {
        if !self.state.native.is_empty() {
            return;
        }
        let id = id.filter(|id| !id.is_empty());
        self.state.native = id.unwrap_or(&self.name.thread).to_owned();
        self.session.id.native.clone_from(&self.state.native);
        if self.now.is_none() {
            self.session.seen(self.name.time);
        }
    }

    /// The first description is the file's own. Later ones repeat it, or come with the history
    /// of another thread that is replayed here.
    pub(super) fn meta(&mut self, mut meta: Meta<'_>) -> Result<()> {
        let id = meta.id.as_ref().map_or("", Text::as_str);
        let began = meta.timestamp.as_ref().and_then(|text| Timestamp::parse(text.as_str()));
        self.identify(Some(id));
        let id = if id.is_empty() { &*self.state.native } else { id };
        if self.forks.is_empty() {
            self.session.seen(self.now);
        }
        let is_first = self.state.threads.is_empty();
        let is_new = self.state.threads.add(id, began.map(Timestamp::as_millis));
        // In a history that is referred to, each file names what it goes on from in turn.
        let base = meta.history_base.take().and_then(|base| base.0);
        let base = base.filter(|_| is_first || (is_new && !self.forks.is_empty()));
        if is_first {
            self.session.seen(began);
            self.describe(meta, base.as_ref());
        } else {
            self.pass(if is_new { "session_meta of a replay" } else { "repeated session_meta" })?;
        }
        base.map_or(Ok(()), |base| self.take_history(&base))
    }

    fn describe(&mut self, mut meta: Meta<'_>, base: Option<&HistoryBase<'_>>) {
        self.state.origin = base.and_then(HistoryBase::thread).or_else(|| meta.origin());
        self.state.is_fork = meta.forked_from.is_some();
        let session = &mut self.session;
        if let Some(origin) = self.state.origin.clone().filter(|_| self.state.is_fork) {
            session.continues = Some(Continuation { session: origin, messages: 0 });
        }
        session.parent = meta.parent();
        session.kind = if meta.is_agent() { Kind::Agent } else { Kind::Root };
        session.cwd = meta.cwd.take().map(Text::into_owned).filter(|cwd| !cwd.is_empty());
        session.agent_version = meta.version.take().map(Text::into_owned);
        if let Some(nickname) = meta.nickname.take() {
            session.title(TitleRank::Slug, nickname.into_owned());
        }
        if let Some(git) = meta.git.take() {
            session.repository = git.repository();
            session.branch = git.branch.map(Text::into_owned).filter(|branch| !branch.is_empty());
            self.state.branch.is_recorded |= session.branch.is_some();
            json::keep(git.rest, &mut session.extensions);
        }
        if let Some(source) = meta.source {
            session.extensions.insert("source".into(), Json::from(source));
        }
        let texts = [("thread_source", meta.thread_source), ("forked_from_id", meta.forked_from)];
        for (key, text) in texts {
            if let Some(text) = text {
                session.extensions.insert(key.into(), Json::from_value(&text.as_str()));
            }
        }
        json::keep(meta.rest, &mut session.extensions);
    }

    pub(super) fn turn(&mut self, turn: Context<'_>) -> Result<()> {
        self.state.threads.turn(None, turn.turn_id.as_ref().map(Text::as_str));
        let owned = |text: Option<Text<'_>>| text.map(Text::into_owned);
        if let Some(model) = owned(turn.model) {
            if self.state.threads.is_own() {
                self.session.model.get_or_insert_with(|| model.clone());
            }
            self.state.model = Some(model);
        }
        self.state.effort = owned(turn.effort);
        self.state.cwd = owned(turn.cwd).or(self.state.cwd.take());
        self.pass("turn_context")
    }

    /// Looks for the directory in a text, for files that record it nowhere else.
    pub(super) fn look_for_cwd(&mut self, text: &str) {
        if self.session.cwd.is_none() {
            self.session.cwd = prompt::cwd(text).map(str::to_owned);
        }
    }
}
