//! Derives the listings of changed sessions: the shown recording, the title, the sums.

use std::collections::HashMap;

use rusqlite::{named_params, params};

use super::project::{self, Projects};
use super::summaries::{self, Summaries, hashes};
use super::{Writer, chunk, metadata};
use crate::error::Result;
use crate::model::{
    MessageFacts, Session, SessionId, SessionKind, Timestamp, TitleRank, decode_path_from_name,
    sha256,
};

/// Maximum length of a title made from a prompt, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// Number of queued sessions at which listings are written while other sources are still being
/// read.
const MANY_SESSIONS: usize = 16;

/// Data that was read for listings and can be reused for the next ones.
#[derive(Default)]
pub(super) struct ListingCache {
    projects: Projects,
    /// Summaries by agent.
    summaries: HashMap<String, Summaries>,
    /// Known directories by the hash of their paths.
    directories: Option<HashMap<String, String>>,
}

impl ListingCache {
    /// Adds a new summary.
    pub(super) fn add(&mut self, agent: &str, leaf: i64, text: &str) {
        if let Some(known) = self.summaries.get_mut(agent) {
            known.entry(leaf).or_default().add(text);
        }
    }
}

impl Writer<'_> {
    /// Derives all data that depends on the changes since the last commit.
    pub(super) fn derive_sessions(&mut self) -> Result<()> {
        self.queue_summarised()?;
        self.dedupe_usage()?;
        let touched = std::mem::take(&mut self.touched);
        let mut changed = &touched | &self.owners;
        self.derive_listings()?;
        if self.derive_lineages(&touched)? {
            self.dedupe_usage()?;
        }
        changed.extend(self.owners.iter().chain(&self.unlisted));
        self.find_incomplete_forks()?;
        self.derive_unrecorded_usage(&changed)?;
        if !self.contested.is_empty() {
            self.dedupe_usage()?;
        }
        // Sessions that were listed before and changed by the steps above.
        while !self.unlisted.is_empty() {
            self.derive_listings()?;
        }
        if self.queue_hashed_directories()? {
            self.derive_listings()?;
        }
        self.lister = ListingCache::default();
        self.roll_up_spending()
    }

    /// Writes the listings of the queued sessions if there are many. Later sources may change them
    /// again, but less work is left for the end, when it would delay the commit.
    pub(crate) fn derive_listings_if_many(&mut self) -> Result<()> {
        if self.unlisted.len() < MANY_SESSIONS { Ok(()) } else { self.derive_listings() }
    }

    fn derive_listings(&mut self) -> Result<()> {
        let mut lister = std::mem::take(&mut self.lister);
        for session in std::mem::take(&mut self.unlisted) {
            self.derive_listing(session, &mut lister)?;
        }
        self.lister = lister;
        Ok(())
    }

    fn derive_listing(&mut self, session: u64, lister: &mut ListingCache) -> Result<()> {
        let joined = metadata::joined(self.database, session)?;
        let Some((leader, mut metadata)) = joined else { return Ok(()) };
        let recording = self.combined(session)?.unwrap_or(leader);
        let mut figures = self.figures(session, recording)?;
        figures.keep_to_conversation(&metadata);
        let agent = metadata.id.agent.clone();
        let ListingCache { projects, summaries: known, directories } = lister;
        if !known.contains_key(&agent) {
            let all = summaries::of_agent(self.database, &agent)?;
            known.insert(agent.clone(), all);
        }
        if let Some(known) = known.get_mut(&agent).filter(|known| !known.is_empty()) {
            let ending = summaries::in_recording(self.database, recording, known)?;
            // The latest summary covers most of the session.
            if let Some(summary) = ending.first().and_then(|leaf| known[leaf].texts.last()) {
                metadata.add_title(TitleRank::Summary, summary.clone());
            }
            for leaf in ending {
                self.mark_summary_found(leaf, known)?;
            }
            figures.summaries = summaries::without_owner(self.database, session)?;
        }
        if metadata.cwd.is_none()
            && let Some(folder) = metadata.project_dir()
        {
            metadata.cwd = metadata.found_dir().or_else(|| decode_path_from_name(&folder));
            if is_hash(&folder) {
                metadata.cwd = self.directories(directories)?.get(&folder).cloned();
            }
        }
        // A session that appears takes its calls back from the one that started it.
        let sql = "SELECT parent FROM sessions WHERE key = ?1 AND NOT shown AND parent IS NOT NULL";
        let former: Option<i64> = self.database.optional_value(sql, [session as i64])?;
        self.stale_tokens.extend(former.map(|parent| parent as u64));
        self.write_session(session, recording, &metadata, &figures, projects)?;
        self.note_bills(session, &metadata)?;
        let shown = is_shown(&metadata, &figures);
        if let (false, Some(native)) = (shown, &metadata.parent) {
            let parent = SessionId { agent, native: native.clone() };
            self.stale_tokens.insert(parent.session_key());
        }
        self.write_activity(session, &metadata, figures, shown)?;
        if self.owners.remove(&session) { self.write_spending(session) } else { Ok(()) }
    }

    /// Queues the sessions of which only the hash of the directory is known, if a session now names
    /// that directory. Returns whether there are any.
    fn queue_hashed_directories(&mut self) -> Result<bool> {
        let sql =
            "SELECT sessions.key, recordings.metadata ->> '$.extensions.project_dir' AS folder
                   FROM sessions JOIN recordings ON recordings.key = sessions.recording
                   WHERE sessions.cwd IS NULL";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, i64>("key")?, row.get::<_, Option<String>>("folder")?))
        })?;
        let nameless = rows.collect::<Result<Vec<_>>>()?;
        let mut directories = None;
        for (session, folder) in nameless {
            let Some(folder) = folder.filter(|folder| is_hash(folder)) else { continue };
            if self.directories(&mut directories)?.contains_key(&folder) {
                self.unlisted.insert(session as u64);
            }
        }
        self.lister.directories = directories;
        Ok(!self.unlisted.is_empty())
    }

    /// Returns the known working directories by the hash of their paths. A drive letter has two
    /// spellings.
    fn directories<'d>(
        &self,
        known: &'d mut Option<HashMap<String, String>>,
    ) -> Result<&'d HashMap<String, String>> {
        if known.is_none() {
            let sql = "SELECT DISTINCT cwd FROM sessions WHERE cwd IS NOT NULL";
            let mut statement = self.database.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            let mut all = HashMap::new();
            for directory in rows {
                let directory: String = directory?;
                if let Some(other) = other_drive(&directory) {
                    all.insert(sha256::sha256_hex(&other), directory.clone());
                }
                all.insert(sha256::sha256_hex(&directory), directory);
            }
            *known = Some(all);
        }
        Ok(known.get_or_insert_default())
    }

    /// Marks a summary as found, because a session has the message at which it ends. The session
    /// whose file contains the summary is queued, because the summary no longer belongs to it.
    fn mark_summary_found(&mut self, leaf: i64, known: &mut Summaries) -> Result<()> {
        let Some(known) = known.get_mut(&leaf).filter(|known| !known.is_found) else {
            return Ok(());
        };
        known.is_found = true;
        let sql = "UPDATE summaries SET found = 1 WHERE leaf = ?1 AND found = 0 RETURNING holder";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([leaf], |row| row.get::<_, Option<i64>>(0));
        for holder in rows? {
            let holder = holder?;
            self.unlisted.extend(holder.map(|session| session as u64));
        }
        Ok(())
    }

    /// Queues the sessions that new summaries belong to, because a summary can change a title.
    fn queue_summarised(&mut self) -> Result<()> {
        let leaves = std::mem::take(&mut self.new_leaves);
        if leaves.is_empty() {
            return Ok(());
        }
        let sql = "SELECT recordings.session, chunks.uuids FROM chunks
                   JOIN recordings ON recordings.key = chunks.recording";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let session: i64 = row.get("session")?;
            if hashes(row.blob("uuids")?).any(|uuid| leaves.contains(&uuid)) {
                self.unlisted.insert(session as u64);
            }
        }
        Ok(())
    }

    /// Reads the facts of a session, and those of its own part if it begins with messages of
    /// another session.
    fn figures(&self, session: u64, recording: i64) -> Result<SessionFacts> {
        let whole = self.facts(recording, 0)?;
        let shared_messages = self.lineage(session)?.map_or(0, |lineage| lineage.shared_messages);
        let own = match shared_messages {
            0 => None,
            shared => Some(self.facts(recording, shared)?),
        };
        Ok(SessionFacts { whole, own, started_at: None, ended_at: None, summaries: Vec::new() })
    }

    /// Sums up the facts of a recording's messages from a position on.
    fn facts(&self, recording: i64, from: u64) -> Result<MessageFacts> {
        let sql =
            "SELECT first, facts, body FROM chunks WHERE recording = ?1 AND first + count > ?2
                   ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording, from as i64])?;
        let mut all = MessageFacts::default();
        while let Some(row) = rows.next()? {
            let first = row.get::<i64>("first")? as u64;
            if first >= from {
                all.append_facts(chunk::facts(row.blob("facts")?));
                continue;
            }
            let run = self.store.unpack(row.blob("body")?)?;
            let run = run.unwrap_or_default();
            for line in chunk::lines(&run).skip((from - first) as usize) {
                if let Ok(message) = serde_json::from_slice(line) {
                    all.add_message_facts(&message);
                }
            }
        }
        Ok(all)
    }

    fn write_session(
        &self,
        key: u64,
        recording: i64,
        metadata: &Session,
        figures: &SessionFacts,
        projects: &mut Projects,
    ) -> Result<()> {
        let (facts, own) = (&figures.whole, figures.own());
        let counts = own.count_items();
        let is_garbled = facts.messages == 0 && self.is_garbled(recording)?;
        let shown =
            is_shown(metadata, figures) || (is_garbled && metadata.kind != SessionKind::Copy);
        let tokens = self.tokens(key)?;
        // A sub-agent that received its parent's history has a task of its own.
        let of_title = if metadata.kind == SessionKind::Agent { own } else { facts };
        let (title, title_source) = title(metadata, of_title, figures.summaries.first());
        let recorded = metadata.provenance.as_ref().and_then(|it| it.project_path.clone());
        let found = || project::place(metadata).map(|place| projects.of(place).to_owned());
        let project_path = recorded.or_else(found);
        let parent = metadata.parent.as_ref().map(|native| {
            SessionId { agent: metadata.id.agent.clone(), native: native.clone() }.session_key()
                as i64
        });
        let (mut started, mut ended) = (figures.started_at, figures.ended_at);
        let is_note = shown && counts.messages == 0 && figures.summaries.is_empty();
        if is_note && started.is_none() && ended.is_none() {
            // A note about a session is dated by its file.
            started = self.modified(recording)?;
            ended = started;
        }
        let sql = include_str!("write_session.sql");
        self.database.execute(
            sql,
            named_params! {
                ":key": key as i64,
                ":agent": metadata.id.agent,
                ":native": metadata.id.native,
                ":kind": metadata.kind as i64,
                ":shown": shown,
                ":parent": parent,
                ":parent_native": metadata.parent,
                ":title": title,
                ":title_source": title_source.rank_name(),
                ":project": project_path.as_deref().map(project::name),
                ":project_path": project_path,
                ":cwd": metadata.cwd,
                ":branch": metadata.branch,
                ":agent_version": metadata.agent_version,
                ":started_at": started,
                ":ended_at": ended,
                ":active_s": own.active_seconds() as i64,
                ":prompts": counts.user_prompts as i64,
                ":answers": counts.assistant_messages as i64,
                ":tool_calls": counts.tool_calls as i64,
                ":tool_results": counts.tool_results as i64,
                ":tool_errors": counts.tool_errors as i64,
                ":messages": counts.messages as i64,
                ":models": models(metadata, if own.models.is_empty() { facts } else { own }),
                ":input": tokens.input as i64,
                ":output": tokens.output as i64,
                ":cache_read": tokens.cache_read as i64,
                ":cache_creation": tokens.cache_creation as i64,
                ":reasoning": tokens.reasoning.map(|n| n as i64),
                ":failed": facts.ends_failed == Some(true),
                ":refs": serde_json::to_string(&metadata.refs).unwrap_or_default(),
                ":recording": recording,
                ":generation": self.generation + 1,
                ":branches": several(&facts.branches, metadata.branch.as_deref()),
                ":directories": several(&facts.directories, metadata.cwd.as_deref()),
                ":repository": metadata.repository,
                ":summary": summary(metadata),
            },
        )?;
        self.hide_others(key, recording, shown)
    }

    /// Returns the modification time of a recording's source, in milliseconds.
    fn modified(&self, recording: i64) -> Result<Option<i64>> {
        let sql = "SELECT nullif(modified, 0) / 1000000 FROM sources
                   JOIN recordings ON recordings.source = sources.id WHERE recordings.key = ?1";
        self.database.value(sql, [recording])
    }

    /// Returns whether a recording is the only one of its source and no record of the source could
    /// be read, or was imported from a journal that listed it all the same.
    fn is_garbled(&self, recording: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM recordings
                     JOIN sources ON sources.id = recordings.source
                     WHERE recordings.key = ?1 AND (sources.home = 'import'
                     OR sources.records = 0 AND sources.skipped != '{}'
                     AND NOT EXISTS (SELECT 1 FROM recordings AS other
                                     WHERE other.source = sources.id AND other.key != ?1)))";
        self.database.value(sql, [recording])
    }

    /// Hides all recordings of a session except the shown one from search.
    fn hide_others(&self, session: u64, shown_recording: i64, shown: bool) -> Result<()> {
        let sql = "UPDATE recordings SET hidden = (key != ?2 OR NOT ?3)
                   WHERE session = ?1 AND hidden != (key != ?2 OR NOT ?3)";
        let row = params![session as i64, shown_recording, shown];
        self.database.execute(sql, row)?;
        Ok(())
    }
}

/// The facts derived from the messages of a session.
pub(super) struct SessionFacts {
    whole: MessageFacts,
    /// Facts of the session's own part, if it begins with messages of another session.
    own: Option<MessageFacts>,
    pub(super) started_at: Option<i64>,
    ended_at: Option<i64>,
    /// Summaries in the session's file that end at a message no session has.
    summaries: Vec<String>,
}

impl SessionFacts {
    /// Sets the start and end of the conversation: from its messages and from the times in the
    /// metadata, and only if both lack times from notices.
    fn keep_to_conversation(&mut self, metadata: &Session) {
        let facts = &self.whole;
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let starts = [millis(metadata.started_at), facts.first_said];
        let ends = [millis(metadata.ended_at), facts.last_said];
        let first = starts.into_iter().flatten().min();
        let last = ends.into_iter().flatten().max();
        self.started_at = first.or(facts.times.iter().min().copied());
        self.ended_at = last.or(facts.times.iter().max().copied());
        let activity = metadata.activity.iter().map(|at| at.as_millis());
        self.whole.activity = activity.clone().collect();
        if let Some(own) = &mut self.own {
            // Activity before the own part belongs to the continued session.
            let begins = own.times.iter().min().copied().unwrap_or(i64::MAX);
            own.activity = activity.filter(|at| *at >= begins).collect();
        }
        for facts in [Some(&mut self.whole), self.own.as_mut()].into_iter().flatten() {
            facts.clip_times(first, last);
        }
    }

    /// Returns the facts that count for the session.
    fn own(&self) -> &MessageFacts {
        self.own.as_ref().unwrap_or(&self.whole)
    }

    pub(super) fn into_own(self) -> MessageFacts {
        self.own.unwrap_or(self.whole)
    }
}

/// Returns whether a session is worth showing: it has prompts, replies, tool calls, documents or
/// summaries. A session of which no record was parsed is shown too, because its content is unknown.
fn is_shown(metadata: &Session, figures: &SessionFacts) -> bool {
    let facts = &figures.whole;
    let counts = facts.count_items();
    let is_unknown = facts.raw > 0 && facts.raw == facts.messages;
    let done = counts.user_prompts + counts.assistant_messages + counts.tool_calls;
    let has_document = || metadata.documents.iter().any(|(_, text)| !text.trim().is_empty());
    metadata.kind != SessionKind::Copy
        && (done > 0 || is_unknown || !figures.summaries.is_empty() || has_document())
}

/// Chooses the title: a recorded title by rank, else the first prompt, else a summary in the
/// session's file that belongs to no other session, else a slug, the directory or the id. A command
/// is never a title.
fn title(
    metadata: &Session,
    facts: &MessageFacts,
    summary: Option<&String>,
) -> (String, TitleRank) {
    let recorded = metadata.titles.iter().find(|title| title.rank < TitleRank::Prompt);
    let slug = metadata.titles.iter().find(|title| title.rank >= TitleRank::Prompt);
    let place = metadata.cwd.as_deref().map(last_two);
    let candidates = [
        recorded.map(|title| (title.text.clone(), title.rank)),
        facts.first_prompt.clone().map(|text| (text, TitleRank::Prompt)),
        summary.map(|text| (text.clone(), TitleRank::Summary)),
        slug.map(|title| (title.text.clone(), title.rank)),
        place.map(|text| (text, TitleRank::Path)),
    ];
    let best = candidates.into_iter().flatten().map(|(text, rank)| (one_line_title(&text), rank));
    let id = || (metadata.id.native.chars().take(8).collect(), TitleRank::Id);
    best.into_iter().find(|(text, _)| !text.is_empty()).unwrap_or_else(id)
}

/// Returns whether a folder is named after the hash of a path.
fn is_hash(folder: &str) -> bool {
    folder.len() == 64 && folder.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a Windows path with its drive letter in the other case.
fn other_drive(path: &str) -> Option<String> {
    let drive = path.chars().next().filter(char::is_ascii_alphabetic)?;
    let rest = path[1..].strip_prefix(':')?;
    let other = if drive.is_ascii_lowercase() {
        drive.to_ascii_uppercase()
    } else {
        drive.to_ascii_lowercase()
    };
    Some(format!("{other}:{rest}"))
}

/// Formats a text as one line with single spaces, cut to the maximum length of a title.
fn one_line_title(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(MAX_TITLE_CHARS) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

fn last_two(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}

/// Returns values as a JSON list if there are several, else an empty list.
fn several(all: &[String], known: Option<&str>) -> String {
    let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
    all.extend(known.filter(|known| !all.contains(known)));
    if all.len() < 2 { "[]".to_owned() } else { serde_json::to_string(&all).unwrap_or_default() }
}

/// Returns the recorded summary: a title of that rank, else a document of that name. None is
/// generated.
fn summary(metadata: &Session) -> Option<&str> {
    let title = metadata.titles.iter().find(|title| title.rank == TitleRank::Summary);
    let document = || {
        let is_summary = |name: &str| name.to_lowercase().starts_with("summary");
        metadata.documents.iter().find(|(name, _)| is_summary(name)).map(|(_, text)| text)
    };
    title.map(|title| &title.text).or_else(document).map(|text| text.trim())
}

/// Returns the models as JSON, the most used first.
fn models(metadata: &Session, facts: &MessageFacts) -> String {
    let mut models: Vec<(&String, u64)> = facts.models.iter().map(|(name, n)| (name, *n)).collect();
    models.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let mut names: Vec<&String> = models.into_iter().map(|(name, _)| name).collect();
    if let Some(model) = &metadata.model
        && !names.contains(&model)
    {
        names.push(model);
    }
    serde_json::to_string(&names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fall_back_from_rank_to_rank() {
        let mut metadata = Session::new("x", "0123456789");
        let mut facts = MessageFacts::default();
        let check = |metadata: &Session, facts: &MessageFacts, text: &str, rank: TitleRank| {
            assert_eq!(title(metadata, facts, None), (text.to_owned(), rank));
        };
        check(&metadata, &facts, "01234567", TitleRank::Id);
        metadata.cwd = Some("/home/mara/web".into());
        check(&metadata, &facts, "mara/web", TitleRank::Path);
        metadata.add_title(TitleRank::Slug, "brave-otter");
        check(&metadata, &facts, "brave-otter", TitleRank::Slug);
        facts.first_prompt = Some("fix\n  it".into());
        check(&metadata, &facts, "fix it", TitleRank::Prompt);
        metadata.add_title(TitleRank::Listed, "listed");
        check(&metadata, &facts, "listed", TitleRank::Listed);
        metadata.add_title(TitleRank::Renamed, "mine");
        check(&metadata, &facts, "mine", TitleRank::Renamed);
    }

    #[test]
    fn long_titles_are_cut_at_a_character() {
        let text = one_line_title(&"ä".repeat(500));
        assert_eq!(text.chars().count(), MAX_TITLE_CHARS + 1);
    }
}
