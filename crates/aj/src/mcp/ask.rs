//! The MCP tools that answer from many sessions: search, list and stats.

use agent_journal::analyze::{Extent, Figures, GroupBy, Stats, StatsQuery};
use agent_journal::export::NamedText;
use agent_journal::present::{nothing_close_line, text_kind_label, tier_label, tier_note};
use agent_journal::search::{
    Answer, Filter, Found, Grouping, Hit, Query, Scope, SearchOptions, Tier,
};
use agent_journal::{Entry, Journal, TextKind};
use anyhow::{Result, bail, ensure};

use super::caller::is_among;
use super::page::{AnswerPage, PageItem};
use super::{ToolCall, input};
use crate::output::quote::{Quoter, cut_to_tokens, remove_invisible};
use crate::output::search::session_of_hit;
use crate::output::{amount, count, duration, money};
use crate::session_filter::{require_session_fields, why_no_meaning};

/// Most tokens of a title.
const TITLE_TOKENS: usize = 60;

/// Most tokens of a snippet.
const SNIPPET_TOKENS: usize = 160;

/// Most tokens of a name.
const NAME_TOKENS: usize = 30;

impl ToolCall {
    /// Answers the `search` tool.
    pub(super) fn answer_search_tool(&self) -> Result<String> {
        let input: input::SearchInput = self.parse_input()?;
        let limit = checked_limit(input.limit, input.offset, 10)?;
        ensure!(!input.query.trim().is_empty(), "the query is empty");
        ensure!(
            input.query.len() <= input::QUERY,
            "the query is too long: at most {} bytes; keep the words that matter most",
            input::QUERY
        );
        let choice: input::SessionChoice = self.parse_input()?;
        let chosen = choice.choice_filter(Scope::All, &self.context.now)?;
        let mut query = Query::parse(&input.query, &self.context.now)?;
        query.filter.agents.extend(chosen.agents);
        query.filter.projects.extend(chosen.projects);
        query.filter.branches.extend(chosen.branches);
        query.filter.since = chosen.since.or(query.filter.since);
        query.filter.until = chosen.until.or(query.filter.until);
        if !query.is_fields_only() {
            ensure!(
                query.looks_for_something(),
                "the query only excludes: add at least one word to search for"
            );
        } else if !query.filter.lists_messages() {
            return self.list_chosen(&query.filter, limit, input.offset, input.include_current);
        }
        let answered = self.context.answer_fresh(|journal| {
            let own =
                if input.include_current { Vec::new() } else { self.callers_sessions(journal)? };
            // Sessions of the calling agent are skipped and do not count against the limit.
            let options = SearchOptions {
                limit: limit + own.len() * 4,
                offset: input.offset,
                mode: self.context.settings.search.mode,
                ..SearchOptions::default()
            };
            if let Some(reason) = why_no_meaning(journal, options.mode) {
                bail!(reason);
            }
            let answer = journal.search(&query, &options)?;
            Ok((own, answer))
        })?;
        let (own, mut answer) = answered.answer;
        let own: Vec<bool> =
            answer.sessions.iter().map(|found| is_among(&found.entry, &own)).collect();
        let mut flags = own.iter();
        answer.sessions.retain(|_| !flags.next().copied().unwrap_or_default());
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        let heading = found_heading(&query, &answer);
        let mut page =
            AnswerPage::new(self.token_budget()?, &heading).add_pending(answered.freshness);
        let wanted = &answer.sessions[..limit.min(answer.sessions.len())];
        let shown = add_sessions(&mut page, wanted, &mut quoter, &answered.journal)?;
        // Position, among all results, of the first one that is not shown.
        let others = own.iter().enumerate().filter(|(_, is_own)| !**is_own).map(|(at, _)| at);
        let next = input.offset + others.into_iter().nth(shown).unwrap_or(own.len());
        let hidden = own.iter().filter(|is_own| **is_own).count();
        Ok(page.finish_page(
            &ListEnd { total: answer.total, offset: input.offset, next, hidden }.lines(),
        ))
    }

    /// Answers the `list` tool.
    pub(super) fn answer_list_tool(&self) -> Result<String> {
        let input: input::ListInput = self.parse_input()?;
        let limit = checked_limit(input.limit, input.offset, 20)?;
        let choice: input::SessionChoice = self.parse_input()?;
        let scope = if input.include_sub_agents { Scope::All } else { Scope::Roots };
        let filter = choice.choice_filter(scope, &self.context.now)?;
        self.list_chosen(&filter, limit, input.offset, input.include_current)
    }

    /// Lists the sessions that match a filter.
    fn list_chosen(
        &self,
        filter: &Filter,
        limit: usize,
        offset: usize,
        include_current: bool,
    ) -> Result<String> {
        require_session_fields(filter)?;
        let answered = self.context.answer_fresh(|journal| {
            let own = if include_current { Vec::new() } else { self.callers_sessions(journal)? };
            let entries = journal.list_entries(filter, Some(limit + offset + own.len()))?;
            Ok((own, entries, journal.count_sessions(filter)?))
        })?;
        let (own, mut entries, total) = answered.answer;
        let before = entries.len();
        entries.retain(|entry| !is_among(entry, &own));
        let hidden = before - entries.len();
        let total = total - hidden as u64;
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        let mut page = AnswerPage::new(
            self.token_budget()?,
            &format!("{}, latest first", count(total, "session")),
        )
        .add_pending(answered.freshness);
        let mut shown = 0;
        for entry in entries.iter_mut().skip(offset).take(limit) {
            quoter.redact_entry(entry, &answered.journal)?;
            if !page.add_item(&session_item(entry, "", &mut quoter)) {
                break;
            }
            shown += 1;
        }
        Ok(page.finish_page(&ListEnd { total, offset, next: offset + shown, hidden }.lines()))
    }

    /// Answers the `stats` tool.
    pub(super) fn answer_stats_tool(&self) -> Result<String> {
        let input: input::StatsInput = self.parse_input()?;
        let choice: input::SessionChoice = self.parse_input()?;
        let by = input.by.map(GroupBy::from);
        let query = StatsQuery {
            filter: choice.choice_filter(Scope::All, &self.context.now)?,
            by,
            extent: Extent::Tasks,
            explain: false,
            now: self.context.now.clone(),
        };
        let mut answered = self.context.answer_fresh(|journal| Ok(journal.stats(&query)?))?;
        let mut redactor = answered.journal.owner_redactor();
        answered.journal.redact_stats(&mut answered.answer, &mut redactor)?;
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        let mut page = AnswerPage::new(
            self.token_budget()?,
            &format!("all: {}", figures_text(&answered.answer.totals)),
        )
        .add_pending(answered.freshness);
        let rows = group_items(&answered.answer, &mut quoter);
        let shown = rows.iter().take_while(|row| page.add_item(row)).count();
        let left = rows.len() - shown;
        let closing = (left > 0).then(|| {
            format!(
                "Left out: {}; narrow the call with since, project or agent.",
                count(left as u64, "line")
            )
        });
        Ok(page.finish_page(&closing.into_iter().collect::<Vec<_>>()))
    }
}

impl From<input::GroupByInput> for GroupBy {
    fn from(by: input::GroupByInput) -> Self {
        match by {
            input::GroupByInput::Day => Self::Day,
            input::GroupByInput::Week => Self::Week,
            input::GroupByInput::Month => Self::Month,
            input::GroupByInput::Agent => Self::Agent,
            input::GroupByInput::Model => Self::Model,
            input::GroupByInput::Project => Self::Project,
            input::GroupByInput::Branch => Self::Branch,
            input::GroupByInput::Tool => Self::Tool,
        }
    }
}

/// Returns the limit in force: the requested one if it is valid, else `usual`.
pub(super) fn checked_limit(limit: Option<usize>, offset: usize, usual: usize) -> Result<usize> {
    let limit = limit.unwrap_or(usual);
    let most = input::LIMIT;
    ensure!((1..=most).contains(&limit), "limit must be a number from 1 to {most}");
    ensure!(offset <= 1_000_000, "offset must be at most 1000000");
    Ok(limit)
}

fn found_heading(query: &Query, answer: &Answer) -> String {
    let found = found_line(answer);
    match &query.reading_note {
        Some(note) => format!("{found} ({note})"),
        None => found,
    }
}

fn found_line(answer: &Answer) -> String {
    let how = tier_label(answer.tier);
    let latest = if answer.tier == Tier::Listed { ", latest first" } else { "" };
    let note = tier_note(answer.tier);
    let is_mixed = answer.sessions.iter().any(|found| tier_note(found.tier) != note);
    let best = if is_mixed { "the best " } else { "" };
    match answer.total {
        0 if answer.distant > 0 => nothing_close_line(answer.distant),
        0 if answer.tier == Tier::Listed => "no session matches these fields".to_owned(),
        0 => "nothing found; try fewer words, or a prefix such as begin*".to_owned(),
        total => {
            let noun = match answer.grouping {
                Grouping::Session => "session",
                Grouping::Message => "message",
            };
            format!("{}, {best}{how}{latest}", count(total, noun))
        }
    }
}

/// Returns the note after a session that does not match the whole query.
fn tier_suffix(tier: Tier) -> String {
    tier_note(tier).map_or(String::new(), |note| format!(" ({note})"))
}

/// Adds as many sessions as fit, the last one with fewer hits. Returns the number added.
fn add_sessions(
    page: &mut AnswerPage,
    all: &[Found],
    quoter: &mut Quoter,
    journal: &Journal,
) -> Result<usize> {
    for (shown, found) in all.iter().enumerate() {
        let mut entry = found.entry.clone();
        quoter.redact_entry(&mut entry, journal)?;
        let head = session_item(&entry, &tier_suffix(found.tier), quoter);
        // The title is part of the session's own line already.
        let hits = found.hits.iter().filter(|one| one.kind != TextKind::Title);
        let hits = hits.map(|one| {
            let texts = journal.hit_texts(session_of_hit(found, one), one)?;
            Ok(hit_item(found, one, &texts, quoter))
        });
        let mut hits: Vec<PageItem> = hits.collect::<Result<_>>()?;
        let room = page.remaining_tokens();
        let cost = |hits: &[PageItem]| {
            head.estimated_tokens() + hits.iter().map(PageItem::estimated_tokens).sum::<usize>()
        };
        while cost(&hits) > room && hits.len() > 1 {
            hits.pop();
        }
        if cost(&hits) > room || !page.add_item(&head) {
            return Ok(shown);
        }
        for hit in &hits {
            page.add_item(hit);
        }
    }
    Ok(all.len())
}

/// Builds the item of a session: its id and counts, then its title and other recorded facts.
pub(super) fn session_item(entry: &Entry, mark: &str, quoter: &mut Quoter) -> PageItem {
    let date = entry.ended_at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..10]));
    let counts = &entry.counts;
    let (prompts, messages) =
        (count(counts.user_prompts, "prompt"), count(counts.messages, "message"));
    let id = ShownId::new(&entry.id);
    let own = format!("{}{date} {prompts}, {messages}{mark}", id.own);
    let mut facts = vec![quoter.clean_line(&entry.title, TITLE_TOKENS)];
    facts.extend(id.quoted);
    for (what, value) in [("project", &entry.project), ("branch", &entry.branch)] {
        facts.extend(
            value.as_ref().map(|value| format!("{what} {}", quoter.clean_line(value, NAME_TOKENS))),
        );
    }
    PageItem::new(&own).quoted_text(&facts.join(", "))
}

/// Builds the item of one hit: its position, then the quoted snippet.
fn hit_item(found: &Found, hit: &Hit, texts: &[NamedText], quoter: &mut Quoter) -> PageItem {
    let kind = text_kind_label(hit.kind);
    let place = match hit.position {
        Some(position) => {
            let at = hit.message.as_ref().and_then(|message| message.at);
            let at = at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..16]));
            format!("{}#{} {kind}{at}", short_id(session_of_hit(found, hit)), position + 1)
        }
        None => kind,
    };
    PageItem::new(&place).quoted_text(&quoter.clean_excerpt(
        &hit.snippet.text,
        texts,
        SNIPPET_TOKENS,
    ))
}

/// The end of a list of sessions.
struct ListEnd {
    total: u64,
    offset: usize,
    /// The position of the first session that is not shown.
    next: usize,
    /// The sessions of the calling agent that are not shown.
    hidden: usize,
}

impl ListEnd {
    /// Returns the lines that name what is left out and the call that shows it.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let left = self.total.saturating_sub(self.next as u64);
        if left > 0 {
            let left = count(left, "session");
            // Repeating the same call would return the same answer.
            let how = if self.next > self.offset {
                format!("repeat the call with \"offset\": {}", self.next)
            } else {
                "use a larger \"max_tokens\"".to_owned()
            };
            lines.push(format!("Left out: {left}; {how}"));
        }
        if self.hidden > 0 {
            lines.push(format!(
                "Not shown: {} running here; use \"include_current\": true",
                self.hidden
            ));
        }
        if self.total > 0 {
            lines.push("To read on: show with \"id\": \"ID#MESSAGE\"".to_owned());
        }
        lines
    }
}

/// A session id as an answer shows it. Agents and imports choose ids, so an id that could be read
/// as a sentence is quoted like any other record.
pub(super) struct ShownId {
    /// The id itself, or a placeholder where the id has to be quoted.
    pub(super) own: String,
    /// The id as a quoted record, where it is not shown as plain text.
    pub(super) quoted: Option<String>,
}

impl ShownId {
    pub(super) fn new(id: &str) -> Self {
        if is_plain_id(id) {
            return Self { own: id.to_owned(), quoted: None };
        }
        let quoted = remove_invisible(id).split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            own: "(id below)".to_owned(),
            quoted: Some(format!("id {}", cut_to_tokens(&quoted, TITLE_TOKENS))),
        }
    }
}

/// Longest id, in bytes, that is shown unquoted.
const LONGEST_ID: usize = 96;

/// Returns whether an id looks like one: few kinds of characters, short, and at most two words.
fn is_plain_id(id: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.:@".contains(one);
    let native = id.split_once(':').map_or(id, |(_, native)| native);
    let parts = native.split(['-', '_', '.', ':', '@']);
    let is_word =
        |part: &&str| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    // `deadbeef` occurs in many ids.
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = parts.filter(is_word).filter(|part| !is_hex(part)).count();
    id.len() <= LONGEST_ID && id.chars().all(is_plain) && words <= 2
}

pub(super) fn short_id(entry: &Entry) -> String {
    ShownId::new(crate::output::short_id(entry)).own
}

/// Builds one item for each group of the statistics.
fn group_items(stats: &Stats, quoter: &mut Quoter) -> Vec<PageItem> {
    let mut name = |text: &str| quoter.clean_line(text, NAME_TOKENS);
    match stats.by {
        Some(GroupBy::Tool) => stats
            .tools
            .iter()
            .map(|tool| {
                let failed = format!("{}, {} failed", count(tool.calls, "call"), tool.errors);
                PageItem::default().quoted_text(&format!("{}: {failed}", name(&tool.tool)))
            })
            .collect(),
        by => {
            let groups = if by.is_some() { &stats.groups } else { &stats.models };
            let is_by_model = by.is_none_or(|by| by == GroupBy::Model);
            groups
                .iter()
                .map(|group| {
                    let key = name(group.label.as_deref().unwrap_or(&group.key));
                    let text = if is_by_model { usage_text } else { figures_text };
                    PageItem::default().quoted_text(&format!("{key}: {}", text(&group.figures)))
                })
                .collect()
        }
    }
}

fn figures_text(figures: &Figures) -> String {
    let done = format!(
        "{}, {} ({} failed), active {}",
        count(figures.prompts, "prompt"),
        count(figures.tool_calls, "tool call"),
        figures.tool_errors,
        duration(figures.active_s),
    );
    format!("{}, {done}, {}", count(figures.sessions, "session"), tokens_and_cost(figures))
}

/// Formats the figures of a model: its tokens and cost. Activity is not recorded by model.
fn usage_text(figures: &Figures) -> String {
    format!("{}, {}", count(figures.sessions, "session"), tokens_and_cost(figures))
}

fn tokens_and_cost(figures: &Figures) -> String {
    let tokens = &figures.tokens;
    let cost = money(&figures.cost).replace('–', "unknown");
    if !tokens.is_known() {
        return format!("tokens unknown, cost {cost}");
    }
    let unrecorded = match figures.not_in_transcript.tokens.total_tokens() {
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
