//! The tools that answer over many sessions: search, list and stats.

use agent_journal::analyze::{By, Extent, Figures, Stats, StatsQuery};
use agent_journal::export::NamedText;
use agent_journal::search::{
    Answer, Filter, Found, Grouping, Hit, Options as SearchOptions, Query, Scope, Tier,
};
use agent_journal::{Entry, Journal, TextKind};
use anyhow::{Result, bail, ensure};

use super::caller::is_among;
use super::page::{Item, Page};
use super::{Call, input};
use crate::commands::of_sessions;
use crate::commands::search::{usual_mode, why_no_meaning};
use crate::output::quote::{Quoter, cut, neutral};
use crate::output::search::place;
use crate::output::{amount, count, duration, kind_name, money};

/// Tokens of a title, a snippet, a name.
const LINE: (usize, usize, usize) = (60, 160, 30);

impl Call {
    /// Finds sessions.
    pub(super) fn search(&self) -> Result<String> {
        let input: input::Search = self.input()?;
        let limit = checked(input.limit, input.offset, 10)?;
        ensure!(!input.query.trim().is_empty(), "the query is empty");
        ensure!(
            input.query.len() <= input::QUERY,
            "the query is too long: at most {} bytes; keep the words that matter most",
            input::QUERY
        );
        let choice: input::Choice = self.input()?;
        let chosen = choice.filter(Scope::All, &self.context.now)?;
        let mut query = Query::parse(&input.query, &self.context.now)?;
        query.filter.agents.extend(chosen.agents);
        query.filter.projects.extend(chosen.projects);
        query.filter.branches.extend(chosen.branches);
        query.filter.since = chosen.since.or(query.filter.since);
        query.filter.until = chosen.until.or(query.filter.until);
        if !query.is_fields_only() {
            ensure!(query.looks_for_something(), "give at least one word that must be there");
        } else if !query.filter.lists_messages() {
            return self.list_chosen(&query.filter, limit, input.offset, input.include_current);
        }
        let answered = self.context.answer(|journal| {
            let own = if input.include_current { Vec::new() } else { self.current(journal)? };
            // The sessions that ask are passed over, not counted against the limit.
            let options = SearchOptions {
                limit: limit + own.len() * 4,
                offset: input.offset,
                mode: usual_mode(&self.context.settings),
                ..SearchOptions::default()
            };
            if let Some(reason) = why_no_meaning(journal, options.mode) {
                bail!(reason);
            }
            let answer = journal.find(&query, &options)?;
            Ok((own, answer))
        })?;
        let (own, mut answer) = answered.answer;
        let own: Vec<bool> =
            answer.sessions.iter().map(|found| is_among(&found.entry, &own)).collect();
        let mut flags = own.iter();
        answer.sessions.retain(|_| !flags.next().copied().unwrap_or_default());
        let mut quoter = Quoter::new(answered.journal.redactor());
        let mut page = Page::new(self.budget()?, &found_heading(&answer));
        let wanted = &answer.sessions[..limit.min(answer.sessions.len())];
        let shown = sessions(&mut page, wanted, &mut quoter, &answered.journal)?;
        // Where the first that is not shown stands among all of them.
        let others = own.iter().enumerate().filter(|(_, is_own)| !**is_own).map(|(at, _)| at);
        let next = input.offset + others.into_iter().nth(shown).unwrap_or(own.len());
        let hidden = own.iter().filter(|is_own| **is_own).count();
        Ok(page.finish(&closing(answer.total, (input.offset, next), hidden)))
    }

    /// Lists sessions.
    pub(super) fn list(&self) -> Result<String> {
        let input: input::List = self.input()?;
        let limit = checked(input.limit, input.offset, 20)?;
        let choice: input::Choice = self.input()?;
        let scope = if input.include_sub_agents { Scope::All } else { Scope::Roots };
        let filter = choice.filter(scope, &self.context.now)?;
        self.list_chosen(&filter, limit, input.offset, input.include_current)
    }

    /// Lists the sessions that a filter chooses.
    fn list_chosen(
        &self,
        filter: &Filter,
        limit: usize,
        offset: usize,
        include_current: bool,
    ) -> Result<String> {
        of_sessions(filter)?;
        let answered = self.context.answer(|journal| {
            let own = if include_current { Vec::new() } else { self.current(journal)? };
            let entries = journal.sessions(filter, Some(limit + offset + own.len()))?;
            Ok((own, entries, journal.count(filter)?))
        })?;
        let (own, mut entries, total) = answered.answer;
        let before = entries.len();
        entries.retain(|entry| !is_among(entry, &own));
        let hidden = before - entries.len();
        let total = total - hidden as u64;
        let mut quoter = Quoter::new(answered.journal.redactor());
        let mut page =
            Page::new(self.budget()?, &format!("{}, the latest first", count(total, "session")));
        let mut shown = 0;
        for entry in entries.iter_mut().skip(offset).take(limit) {
            quoter.entry(entry, &answered.journal)?;
            if !page.add(&session(entry, "", &mut quoter)) {
                break;
            }
            shown += 1;
        }
        Ok(page.finish(&closing(total, (offset, offset + shown), hidden)))
    }

    /// Sums up.
    pub(super) fn stats(&self) -> Result<String> {
        let input: input::Stats = self.input()?;
        let choice: input::Choice = self.input()?;
        let by = input.by.map(By::from);
        let query = StatsQuery {
            filter: choice.filter(Scope::All, &self.context.now)?,
            by,
            extent: Extent::Tasks,
            explain: false,
            now: self.context.now.clone(),
        };
        let mut answered = self.context.answer(|journal| Ok(journal.stats(&query)?))?;
        let mut redactor = answered.journal.redactor();
        answered.journal.redact_stats(&mut answered.answer, &mut redactor)?;
        let mut quoter = Quoter::new(answered.journal.redactor());
        let mut page =
            Page::new(self.budget()?, &format!("all: {}", figures(&answered.answer.totals)));
        let rows = rows(&answered.answer, &mut quoter);
        let shown = rows.iter().take_while(|row| page.add(row)).count();
        let left = rows.len() - shown;
        let closing = (left > 0).then(|| {
            format!("Left out: {}; narrow with since, project, agent.", count(left as u64, "line"))
        });
        Ok(page.finish(&closing.into_iter().collect::<Vec<_>>()))
    }
}

impl From<input::By> for By {
    fn from(by: input::By) -> Self {
        match by {
            input::By::Day => Self::Day,
            input::By::Week => Self::Week,
            input::By::Month => Self::Month,
            input::By::Agent => Self::Agent,
            input::By::Model => Self::Model,
            input::By::Project => Self::Project,
            input::By::Branch => Self::Branch,
            input::By::Tool => Self::Tool,
        }
    }
}

/// The limit in force.
pub(super) fn checked(limit: Option<usize>, offset: usize, usual: usize) -> Result<usize> {
    let limit = limit.unwrap_or(usual);
    let most = input::LIMIT;
    ensure!((1..=most).contains(&limit), "limit must be a number from 1 to {most}");
    ensure!(offset <= 1_000_000, "offset must be at most 1000000");
    Ok(limit)
}

fn found_heading(answer: &Answer) -> String {
    let how = match answer.tier {
        Tier::ExactPhrase => "with the words as they were asked for",
        Tier::AllWords => "with everything that was asked for in one message",
        Tier::WordForms => "with all the words, some in another form (plural, -ed, -ing)",
        Tier::Listed => "chosen by fields, the latest first",
        Tier::Typo => "with words like those asked for, which occur nowhere",
        Tier::Meaning => "about the same, in other words",
        Tier::SomeWords => "with some of the words only",
    };
    let is_mixed = answer.sessions.iter().any(|found| mark(found.tier) != mark(answer.tier));
    let best = if is_mixed { "the best " } else { "" };
    match answer.total {
        0 if answer.tier == Tier::Listed => "nothing found that fits these fields".to_owned(),
        0 => "nothing found; try fewer words, or begin* for beginnings".to_owned(),
        total => {
            let noun = match answer.group {
                Grouping::Session => "session",
                Grouping::Message => "message",
            };
            format!("{}, {best}{how}", count(total, noun))
        }
    }
}

/// Returns what is said of a session that does not have everything that was asked for.
fn mark(tier: Tier) -> &'static str {
    match tier {
        Tier::ExactPhrase | Tier::AllWords | Tier::Listed => "",
        Tier::WordForms => " (other word forms)",
        Tier::Typo => " (similar words)",
        Tier::SomeWords => " (some words)",
        Tier::Meaning => " (by meaning)",
    }
}

/// Writes sessions, as many as fit, the last one with fewer messages; tells how many.
fn sessions(
    page: &mut Page,
    all: &[Found],
    quoter: &mut Quoter,
    journal: &Journal,
) -> Result<usize> {
    for (shown, found) in all.iter().enumerate() {
        let mut entry = found.entry.clone();
        quoter.entry(&mut entry, journal)?;
        let head = session(&entry, mark(found.tier), quoter);
        // The title stands with the session already.
        let hits = found.hits.iter().filter(|one| one.kind != TextKind::Title);
        let hits = hits.map(|one| {
            let texts = journal.hit_texts(place(found, one), one)?;
            Ok(hit(found, one, &texts, quoter))
        });
        let mut hits: Vec<Item> = hits.collect::<Result<_>>()?;
        let room = page.room();
        let cost = |hits: &[Item]| head.tokens() + hits.iter().map(Item::tokens).sum::<usize>();
        while cost(&hits) > room && hits.len() > 1 {
            hits.pop();
        }
        if cost(&hits) > room || !page.add(&head) {
            return Ok(shown);
        }
        for hit in &hits {
            page.add(hit);
        }
    }
    Ok(all.len())
}

/// A session's own line, and what it is called.
pub(super) fn session(entry: &Entry, mark: &str, quoter: &mut Quoter) -> Item {
    let (title, _, name) = LINE;
    let date = entry.ended_at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..10]));
    let counts = &entry.counts;
    let (prompts, messages) =
        (count(counts.user_prompts, "prompt"), count(counts.messages, "message"));
    let id = ShownId::new(&entry.id);
    let own = format!("{}{date} {prompts}, {messages}{mark}", id.own);
    let mut facts = vec![quoter.line(&entry.title, title)];
    facts.extend(id.quoted);
    for (what, value) in [("project", &entry.project), ("branch", &entry.branch)] {
        facts.extend(value.as_ref().map(|value| format!("{what} {}", quoter.line(value, name))));
    }
    Item::new(&own).quote(&facts.join(", "))
}

/// A message that was found.
fn hit(found: &Found, hit: &Hit, texts: &[NamedText], quoter: &mut Quoter) -> Item {
    let kind = kind_name(hit.kind);
    let place = match hit.position {
        Some(position) => {
            let at = hit.message.as_ref().and_then(|message| message.at);
            let at = at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..16]));
            format!("{}#{} {kind}{at}", short(place(found, hit)), position + 1)
        }
        None => kind,
    };
    Item::new(&place).quote(&quoter.piece(&hit.snippet.text, texts, LINE.1))
}

/// What else there is, and how to get it.
fn closing(total: u64, (offset, next): (usize, usize), hidden: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let left = total.saturating_sub(next as u64);
    if left > 0 {
        let left = count(left, "session");
        // The same call again would say the same again.
        let how = if next > offset {
            format!("the same call with \"offset\": {next}")
        } else {
            "a larger \"max_tokens\" has room for them".to_owned()
        };
        lines.push(format!("Left out: {left}; {how}"));
    }
    if hidden > 0 {
        lines.push(format!("Not shown: {hidden} running here; \"include_current\": true"));
    }
    if total > 0 {
        lines.push("Read on: show with \"id\": \"ID#MESSAGE\"".to_owned());
    }
    lines
}

/// A session's id in an answer. Agents and imports choose ids, so one that could be read as words
/// is quoted like any other record.
pub(super) struct ShownId {
    /// The id, or what stands for it in our own words.
    pub(super) own: String,
    /// The id as a record, where it is not said in our own words.
    pub(super) quoted: Option<String>,
}

impl ShownId {
    pub(super) fn new(id: &str) -> Self {
        if is_plain_id(id) {
            return Self { own: id.to_owned(), quoted: None };
        }
        let quoted = neutral(id).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { own: "(id below)".to_owned(), quoted: Some(format!("id {}", cut(&quoted, LINE.0))) }
    }
}

/// The longest id that is said in our own words.
const LONGEST_ID: usize = 96;

/// Whether an id looks like one: few signs, not long, and no more than two words.
fn is_plain_id(id: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.:@".contains(one);
    let native = id.split_once(':').map_or(id, |(_, native)| native);
    let parts = native.split(['-', '_', '.', ':', '@']);
    let is_word =
        |part: &&str| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    // `deadbeef` is a part of many ids.
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = parts.filter(is_word).filter(|part| !is_hex(part)).count();
    id.len() <= LONGEST_ID && id.chars().all(is_plain) && words <= 2
}

pub(super) fn short(entry: &Entry) -> String {
    ShownId::new(crate::output::short_id(entry)).own
}

/// The groups of statistics, a line each.
fn rows(stats: &Stats, quoter: &mut Quoter) -> Vec<Item> {
    let mut name = |text: &str| quoter.line(text, LINE.2);
    match stats.by {
        Some(By::Tool) => stats
            .tools
            .iter()
            .map(|tool| {
                let failed = format!("{}, {} failed", count(tool.calls, "call"), tool.errors);
                Item::default().quote(&format!("{}: {failed}", name(&tool.tool)))
            })
            .collect(),
        by => {
            let groups = if by.is_some() { &stats.groups } else { &stats.models };
            let is_by_model = by.is_none_or(|by| by == By::Model);
            groups
                .iter()
                .map(|group| {
                    let key = name(group.label.as_deref().unwrap_or(&group.key));
                    let told = if is_by_model { spent } else { figures };
                    Item::default().quote(&format!("{key}: {}", told(&group.figures)))
                })
                .collect()
        }
    }
}

fn figures(figures: &Figures) -> String {
    let done = format!(
        "{}, {} ({} failed), active {}",
        count(figures.prompts, "prompt"),
        count(figures.tool_calls, "tool call"),
        figures.tool_errors,
        duration(figures.active_s),
    );
    format!("{}, {done}, {}", count(figures.sessions, "session"), tokens_and_cost(figures))
}

/// What is known of a model: what it spent, not what was done with it.
fn spent(figures: &Figures) -> String {
    format!("{}, {}", count(figures.sessions, "session"), tokens_and_cost(figures))
}

fn tokens_and_cost(figures: &Figures) -> String {
    let tokens = &figures.tokens;
    let cost = money(&figures.cost).replace('–', "unknown");
    if !tokens.is_known() {
        return format!("tokens unknown, cost {cost}");
    }
    let unrecorded = match figures.not_in_transcript.tokens.total() {
        0 => String::new(),
        total => format!(" ({} of them not in the transcript)", amount(total)),
    };
    format!(
        "tokens in {} out {} cached {}{unrecorded}, cost {cost}",
        amount(tokens.input),
        amount(tokens.output),
        amount(tokens.cache_read),
    )
}
