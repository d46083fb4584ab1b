//! Working out the listing of the sessions that changed: the best telling, the title, the sums.

use std::collections::HashMap;

use rusqlite::{Row, named_params, params};

use super::project::{self, Projects};
use super::summaries::{self, Summaries, hashes};
use super::{Writer, account, chunk};
use crate::error::Result;
use crate::model::{Facts, Kind, Session, SessionId, Timestamp, TitleRank, decoded, sha256};

/// A title made of a prompt is cut here, in characters.
const LONGEST_TITLE: usize = 120;

/// Sessions that are listed while others are still read.
const MANY: usize = 16;

/// What was looked up for listings, and holds for the next ones.
#[derive(Default)]
pub(super) struct Lister {
    projects: Projects,
    /// The summaries by agent.
    summaries: HashMap<String, Summaries>,
    /// Known directories by the hash of their paths.
    directories: Option<HashMap<String, String>>,
}

impl Lister {
    /// Notes a new summary.
    pub(super) fn add(&mut self, agent: &str, (leaf, text): (i64, &str)) {
        if let Some(known) = self.summaries.get_mut(agent) {
            known.entry(leaf).or_default().add(text);
        }
    }
}

impl Writer<'_> {
    /// Works out what follows from everything since the last commit.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.touch_summarised()?;
        self.settle_calls()?;
        let touched = std::mem::take(&mut self.touched);
        let mut changed = &touched | &self.owners;
        self.list()?;
        if self.settle_lineages(&touched)? {
            self.settle_calls()?;
        }
        changed.extend(self.owners.iter().chain(&self.unlisted));
        self.find_incomplete_forks()?;
        self.settle_bills(&changed)?;
        if !self.contested.is_empty() {
            self.settle_calls()?;
        }
        // What was learnt meanwhile of sessions that were listed before.
        while !self.unlisted.is_empty() {
            self.list()?;
        }
        if self.touch_nameless()? {
            self.list()?;
        }
        self.lister = Lister::default();
        self.settle_spending()
    }

    /// Works out the listing of the sessions told so far, if there are many: what others tell
    /// later may change it, and less is left for the end, when there is nothing else to do.
    pub(crate) fn list_many(&mut self) -> Result<()> {
        if self.unlisted.len() < MANY { Ok(()) } else { self.list() }
    }

    fn list(&mut self) -> Result<()> {
        let mut lister = std::mem::take(&mut self.lister);
        for session in std::mem::take(&mut self.unlisted) {
            self.list_one(session, &mut lister)?;
        }
        self.lister = lister;
        Ok(())
    }

    fn list_one(&mut self, session: u64, lister: &mut Lister) -> Result<()> {
        let joined = account::joined(self.connection, session).map_err(self.error())?;
        let Some((leader, mut account)) = joined else { return Ok(()) };
        let telling = self.combined(session)?.unwrap_or(leader);
        let mut figures = self.figures(session, telling)?;
        figures.keep_to_conversation(&account);
        let agent = account.id.agent.clone();
        let Lister { projects, summaries: known, directories } = lister;
        if !known.contains_key(&agent) {
            let all = summaries::of_agent(self.connection, &agent).map_err(self.error())?;
            known.insert(agent.clone(), all);
        }
        if let Some(known) = known.get_mut(&agent).filter(|known| !known.is_empty()) {
            let ending = summaries::in_telling(self.connection, telling, known);
            let ending = ending.map_err(self.error())?;
            // The latest covers most.
            if let Some(summary) = ending.first().and_then(|leaf| known[leaf].texts.last()) {
                account.title(TitleRank::Summary, summary.clone());
            }
            for leaf in ending {
                self.find_leaf(leaf, known)?;
            }
            let unowned = summaries::without_owner(self.connection, session);
            figures.summaries = unowned.map_err(self.error())?;
        }
        if account.cwd.is_none()
            && let Some(folder) = account.project_dir()
        {
            account.cwd = account.found_dir().or_else(|| decoded(&folder));
            if is_hash(&folder) {
                account.cwd = self.directories(directories)?.get(&folder).cloned();
            }
        }
        self.write_session(session, telling, &account, &figures, projects)?;
        self.note_bills(session, &account)?;
        let shown = is_shown(&account, &figures);
        if let (false, Some(native)) = (shown, &account.parent) {
            let parent = SessionId { agent, native: native.clone() };
            self.stale_tokens.insert(parent.key());
        }
        self.write_activity(session, &account, figures.into_own(), shown)?;
        if self.owners.remove(&session) { self.write_spending(session) } else { Ok(()) }
    }

    /// Finds the sessions of which only the hash of their directory is known, where a session that
    /// names that directory has come.
    fn touch_nameless(&mut self) -> Result<bool> {
        let sql = "SELECT sessions.key, tellings.account ->> '$.extensions.project_dir'
                   FROM sessions JOIN tellings ON tellings.key = sessions.telling
                   WHERE sessions.cwd IS NULL";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let nameless: Vec<(i64, Option<String>)> =
            rows.and_then(Iterator::collect).map_err(self.error())?;
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

    /// Returns the directories that sessions name, by the hash of their paths. A drive has two
    /// spellings.
    fn directories<'d>(
        &self,
        known: &'d mut Option<HashMap<String, String>>,
    ) -> Result<&'d HashMap<String, String>> {
        if known.is_none() {
            let sql = "SELECT DISTINCT cwd FROM sessions WHERE cwd IS NOT NULL";
            let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
            let rows = statement.query_map([], |row| row.get(0)).map_err(self.error())?;
            let mut all = HashMap::new();
            for directory in rows {
                let directory: String = directory.map_err(self.error())?;
                if let Some(other) = other_drive(&directory) {
                    all.insert(sha256::hex(&other), directory.clone());
                }
                all.insert(sha256::hex(&directory), directory);
            }
            *known = Some(all);
        }
        Ok(known.get_or_insert_default())
    }

    /// Notes that a session has the message a summary ends at: the session in whose file the
    /// summary stands has no part in it any more.
    fn find_leaf(&mut self, leaf: i64, known: &mut Summaries) -> Result<()> {
        let Some(known) = known.get_mut(&leaf).filter(|known| !known.is_found) else {
            return Ok(());
        };
        known.is_found = true;
        let sql = "UPDATE summaries SET found = 1 WHERE leaf = ?1 AND found = 0 RETURNING holder";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([leaf], |row| row.get::<_, Option<i64>>(0));
        for holder in rows.map_err(self.error())? {
            let holder = holder.map_err(crate::error::Error::store(self.path))?;
            self.unlisted.extend(holder.map(|session| session as u64));
        }
        Ok(())
    }

    /// A new summary may name a session that did not change otherwise.
    fn touch_summarised(&mut self) -> Result<()> {
        let leaves = std::mem::take(&mut self.new_leaves);
        if leaves.is_empty() {
            return Ok(());
        }
        let sql = "SELECT tellings.session, chunks.uuids FROM chunks
                   JOIN tellings ON tellings.key = chunks.telling";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let (session, uuids) = pair::<i64>(row).map_err(self.error())?;
            if hashes(&uuids).any(|uuid| leaves.contains(&uuid)) {
                self.unlisted.insert(session as u64);
            }
        }
        Ok(())
    }

    /// Works out the facts of a session as a whole, and of its own part where it begins with
    /// messages of another one.
    fn figures(&self, session: u64, telling: i64) -> Result<Figures> {
        let whole = self.facts(telling, 0)?;
        let shared_messages = self.lineage(session)?.map_or(0, |lineage| lineage.shared_messages);
        let own = match shared_messages {
            0 => None,
            shared => Some(self.facts(telling, shared)?),
        };
        Ok(Figures { whole, own, started_at: None, ended_at: None, summaries: Vec::new() })
    }

    /// Adds up the facts of a recording's messages from a position on.
    fn facts(&self, telling: i64, from: u64) -> Result<Facts> {
        let sql = "SELECT first, facts, body FROM chunks WHERE telling = ?1 AND first + count > ?2
                   ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling, from as i64]).map_err(self.error())?;
        let mut all = Facts::default();
        while let Some(row) = rows.next().map_err(self.error())? {
            let first = row.get::<_, i64>(0).map_err(self.error())? as u64;
            let blob = |at: usize| row.get_ref(at).and_then(|blob| Ok(blob.as_blob()?));
            if first >= from {
                all.append(chunk::facts(blob(1).map_err(self.error())?));
                continue;
            }
            let run = blob(2).and_then(|body| self.store.unpack(body)).map_err(self.error())?;
            let run = run.unwrap_or_default();
            for line in chunk::lines(&run).skip((from - first) as usize) {
                if let Ok(message) = serde_json::from_slice(line) {
                    all.add(&message);
                }
            }
        }
        Ok(all)
    }

    fn write_session(
        &self,
        key: u64,
        telling: i64,
        account: &Session,
        figures: &Figures,
        projects: &mut Projects,
    ) -> Result<()> {
        let (facts, own) = (&figures.whole, figures.own());
        let counts = own.counts();
        let is_garbled = facts.messages == 0 && self.is_garbled(telling)?;
        let shown = is_shown(account, figures) || (is_garbled && account.kind != Kind::Copy);
        let tokens = self.tokens(key)?;
        // A sub-agent that was given its parent's history has a task of its own.
        let of_title = if account.kind == Kind::Agent { own } else { facts };
        let (title, title_source) = title(account, of_title, figures.summaries.first());
        let told = account.provenance.as_ref().and_then(|it| it.project_path.clone());
        let found = || project::place(account).map(|place| projects.of(place).to_owned());
        let project_path = told.or_else(found);
        let parent = account.parent.as_ref().map(|native| {
            SessionId { agent: account.id.agent.clone(), native: native.clone() }.key() as i64
        });
        let (mut started, mut ended) = (figures.started_at, figures.ended_at);
        let is_note = shown && counts.messages == 0 && figures.summaries.is_empty();
        if is_note && started.is_none() && ended.is_none() {
            // A note about a session is as old as its file.
            started = self.modified(telling)?;
            ended = started;
        }
        let sql = include_str!("write_session.sql");
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement
            .execute(named_params! {
                ":key": key as i64,
                ":agent": account.id.agent,
                ":native": account.id.native,
                ":kind": account.kind as i64,
                ":shown": shown,
                ":parent": parent,
                ":parent_native": account.parent,
                ":title": title,
                ":title_source": title_source.name(),
                ":project": project_path.as_deref().map(project::name),
                ":project_path": project_path,
                ":cwd": account.cwd,
                ":branch": account.branch,
                ":agent_version": account.agent_version,
                ":started_at": started,
                ":ended_at": ended,
                ":active_s": own.active_seconds() as i64,
                ":prompts": counts.user_prompts as i64,
                ":answers": counts.assistant_messages as i64,
                ":tool_calls": counts.tool_calls as i64,
                ":tool_results": counts.tool_results as i64,
                ":tool_errors": counts.tool_errors as i64,
                ":messages": counts.messages as i64,
                ":models": models(account, if own.models.is_empty() { facts } else { own }),
                ":input": tokens.input as i64,
                ":output": tokens.output as i64,
                ":cache_read": tokens.cache_read as i64,
                ":cache_creation": tokens.cache_creation as i64,
                ":reasoning": tokens.reasoning.map(|n| n as i64),
                ":failed": facts.ends_failed == Some(true),
                ":refs": serde_json::to_string(&account.refs).unwrap_or_default(),
                ":telling": telling,
                ":generation": self.generation + 1,
                ":branches": several(&facts.branches, account.branch.as_deref()),
                ":directories": several(&facts.directories, account.cwd.as_deref()),
                ":repository": account.repository,
                ":summary": summary(account),
            })
            .map_err(self.error())?;
        self.hide_others(key, telling, shown)
    }

    /// Returns when the source of a telling changed last, in milliseconds.
    fn modified(&self, telling: i64) -> Result<Option<i64>> {
        let sql = "SELECT nullif(modified, 0) / 1000000 FROM sources
                   JOIN tellings ON tellings.source = sources.id WHERE tellings.key = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.query_row([telling], |row| row.get(0)).map_err(self.error())
    }

    /// Whether a telling is all that a source has, and none of its records could be read.
    fn is_garbled(&self, telling: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM tellings
                     JOIN sources ON sources.id = tellings.source
                     WHERE tellings.key = ?1 AND sources.records = 0 AND sources.skipped != '{}'
                     AND (SELECT count(*) FROM tellings AS other
                          WHERE other.source = sources.id) = 1)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.query_row([telling], |row| row.get(0)).map_err(self.error())
    }

    /// Marks the tellings of a session that must not be found: all but the one that is shown.
    fn hide_others(&self, session: u64, shown_telling: i64, shown: bool) -> Result<()> {
        let sql = "UPDATE tellings SET hidden = (key != ?2 OR NOT ?3)
                   WHERE session = ?1 AND hidden != (key != ?2 OR NOT ?3)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![session as i64, shown_telling, shown];
        statement.execute(row).map_err(self.error())?;
        Ok(())
    }
}

/// What follows from the messages of a session.
struct Figures {
    whole: Facts,
    /// Facts of its own part, where it begins with messages of another session.
    own: Option<Facts>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    /// Summaries in the session's file that end in a message nobody has.
    summaries: Vec<String>,
}

impl Figures {
    /// Works out when the conversation began and ended: by what was said and done, by what the
    /// format says, and only where neither tells by notices.
    fn keep_to_conversation(&mut self, account: &Session) {
        let facts = &self.whole;
        let told = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let starts = [told(account.started_at), facts.first_said];
        let ends = [told(account.ended_at), facts.last_said];
        let first = starts.into_iter().flatten().min();
        let last = ends.into_iter().flatten().max();
        self.started_at = first.or(facts.times.iter().min().copied());
        self.ended_at = last.or(facts.times.iter().max().copied());
        let activity = account.activity.iter().map(|at| at.as_millis());
        self.whole.activity = activity.clone().collect();
        if let Some(own) = &mut self.own {
            // What was done before its own part was done in the session that it continues.
            let begins = own.times.iter().min().copied().unwrap_or(i64::MAX);
            own.activity = activity.filter(|at| *at >= begins).collect();
        }
        for facts in [Some(&mut self.whole), self.own.as_mut()].into_iter().flatten() {
            facts.clip_times(first, last);
        }
    }

    /// Returns the facts that count for the session.
    fn own(&self) -> &Facts {
        self.own.as_ref().unwrap_or(&self.whole)
    }

    fn into_own(self) -> Facts {
        self.own.unwrap_or(self.whole)
    }
}

/// A session is worth showing when somebody said or did something in it, or wrote about it; and
/// when none of its records was understood, because nobody knows what it holds.
fn is_shown(account: &Session, figures: &Figures) -> bool {
    let facts = &figures.whole;
    let counts = facts.counts();
    let is_unknown = facts.raw > 0 && facts.raw == facts.messages;
    let done = counts.user_prompts + counts.assistant_messages + counts.tool_calls;
    let is_told = || account.documents.iter().any(|(_, text)| !text.trim().is_empty());
    account.kind != Kind::Copy
        && (done > 0 || is_unknown || !figures.summaries.is_empty() || is_told())
}

/// Chooses the title: what is recorded by rank, else the first prompt, a summary that stands in the
/// session's file and belongs to no other, a name or a place. A command is no title.
fn title(account: &Session, facts: &Facts, summary: Option<&String>) -> (String, TitleRank) {
    let recorded = account.titles.iter().find(|title| title.rank < TitleRank::Prompt);
    let slug = account.titles.iter().find(|title| title.rank >= TitleRank::Prompt);
    let place = account.cwd.as_deref().map(last_two);
    let candidates = [
        recorded.map(|title| (title.text.clone(), title.rank)),
        facts.first_prompt.clone().map(|text| (text, TitleRank::Prompt)),
        summary.map(|text| (text.clone(), TitleRank::Summary)),
        slug.map(|title| (title.text.clone(), title.rank)),
        place.map(|text| (text, TitleRank::Path)),
    ];
    let best = candidates.into_iter().flatten().map(|(text, rank)| (tidy(&text), rank));
    let id = || (account.id.native.chars().take(8).collect(), TitleRank::Id);
    best.into_iter().find(|(text, _)| !text.is_empty()).unwrap_or_else(id)
}

/// Whether a folder is named after the hash of a path.
fn is_hash(folder: &str) -> bool {
    folder.len() == 64 && folder.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A path on a drive, with the drive's letter in the other case.
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

/// One line, with single spaces, of a length that fits a list.
fn tidy(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(LONGEST_TITLE) {
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

/// Lists values as JSON where there is more than the one that is known of the session anyway.
fn several(all: &[String], known: Option<&str>) -> String {
    let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
    all.extend(known.filter(|known| !all.contains(known)));
    if all.len() < 2 { "[]".to_owned() } else { serde_json::to_string(&all).unwrap_or_default() }
}

/// Returns the summary on record: one that is told as such, or a longer text of that name. None is
/// made up.
fn summary(account: &Session) -> Option<&str> {
    let told = account.titles.iter().find(|title| title.rank == TitleRank::Summary);
    let document = || {
        let is_summary = |name: &str| name.to_lowercase().starts_with("summary");
        account.documents.iter().find(|(name, _)| is_summary(name)).map(|(_, text)| text)
    };
    told.map(|title| &title.text).or_else(document).map(|text| text.trim())
}

/// The models as JSON, the most used first.
fn models(account: &Session, facts: &Facts) -> String {
    let mut models: Vec<(&String, u64)> = facts.models.iter().map(|(name, n)| (name, *n)).collect();
    models.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let mut names: Vec<&String> = models.into_iter().map(|(name, _)| name).collect();
    if let Some(model) = &account.model
        && !names.contains(&model)
    {
        names.push(model);
    }
    serde_json::to_string(&names).unwrap_or_default()
}

fn pair<T: rusqlite::types::FromSql>(row: &Row<'_>) -> rusqlite::Result<(T, Vec<u8>)> {
    Ok((row.get(0)?, row.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fall_back_from_rank_to_rank() {
        let mut account = Session::new("x", "0123456789");
        let mut facts = Facts::default();
        let check = |account: &Session, facts: &Facts, text: &str, rank: TitleRank| {
            assert_eq!(title(account, facts, None), (text.to_owned(), rank));
        };
        check(&account, &facts, "01234567", TitleRank::Id);
        account.cwd = Some("/home/mara/web".into());
        check(&account, &facts, "mara/web", TitleRank::Path);
        account.title(TitleRank::Slug, "brave-otter");
        check(&account, &facts, "brave-otter", TitleRank::Slug);
        facts.first_prompt = Some("fix\n  it".into());
        check(&account, &facts, "fix it", TitleRank::Prompt);
        account.title(TitleRank::Listed, "listed");
        check(&account, &facts, "listed", TitleRank::Listed);
        account.title(TitleRank::Renamed, "mine");
        check(&account, &facts, "mine", TitleRank::Renamed);
    }

    #[test]
    fn long_titles_are_cut_at_a_character() {
        let text = tidy(&"ä".repeat(500));
        assert_eq!(text.chars().count(), LONGEST_TITLE + 1);
    }
}
