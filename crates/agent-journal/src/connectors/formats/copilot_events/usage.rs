//! What calls of models used. Three records tell it: an answer says what it wrote, a
//! `session.usage_record` everything about one call, and `session.shutdown` sums: of one run of
//! the program in older versions, of the session so far since 1.0.10x.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Reader;
use super::event::{CallFacts, Counts, Shutdown, UsageRecord};
use super::tell::{Envelope, Told, owned, parse};
use crate::connectors::formats::copilot_store::cost_micros;
use crate::connectors::formats::json;
use crate::error::Result;
use crate::model::{Extensions, Json, Message, Role, Timestamp, Tokens, Usage};

/// How many calls wait for their answers at most: those of sub-agents at work at the same time.
const MAX_UNCLAIMED: usize = 16;

/// How many of the last calls are known by the program's own id.
const MAX_KNOWN_CALLS: usize = 16;

/// What the records before a checkpoint say of the calls after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CallState {
    /// How many calls of the model wrote so many tokens.
    outputs: BTreeMap<u64, u64>,
    /// The last calls: the program's own id and the identity under which they are counted.
    known: Vec<(String, String)>,
    /// Calls whose answer has not come yet.
    unclaimed: Vec<Message>,
    /// When this run of the program began.
    run: Option<Timestamp>,
    /// Whether a record of this run says what was written.
    is_counted: bool,
    /// When the last shutdown was recorded, before that: when the session began.
    since_shutdown: Option<Timestamp>,
    /// The tokens that were recorded as written since then.
    output_since_shutdown: u64,
    /// What the last shutdown says, by model.
    last_sums: BTreeMap<String, Tokens>,
    /// What all shutdowns so far say together, by model.
    all_sums: BTreeMap<String, Tokens>,
}

/// What the sums of a shutdown stand for.
pub(super) struct Sums {
    /// Names the shutdown.
    id: String,
    /// Whether they include what earlier shutdowns said.
    is_cumulative: bool,
    /// Whether other records of the same time say what was written.
    is_output_counted: bool,
    since: Option<Timestamp>,
}

impl Reader<'_> {
    pub(super) fn begin_run(&mut self, envelope: &Envelope) {
        let calls = &mut self.state.calls;
        calls.run = envelope.at;
        calls.is_counted = false;
        calls.since_shutdown = calls.since_shutdown.or(envelope.at);
    }

    pub(super) fn end_run(&mut self, envelope: &Envelope) {
        let calls = &mut self.state.calls;
        (calls.run, calls.is_counted) = (envelope.at, false);
        (calls.since_shutdown, calls.output_since_shutdown) = (envelope.at, 0);
    }

    /// One call with all its tokens. Its answer follows, or came already, or there is none.
    pub(super) fn usage_record(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let record = parse::<UsageRecord<'_>>(data).and_then(|record| record.usage);
        let Some(raw) = record else { return Ok(Told::Unknown) };
        let (Some(counts), Some(mut call)) =
            (parse::<Counts<'_>>(raw), parse::<CallFacts<'_>>(raw))
        else {
            return Ok(Told::Unknown);
        };
        let accounting = call.accounting.take().and_then(|accounting| owned(accounting.usage_id));
        let api_id = owned(call.api_id.take()).or(accounting);
        let tokens = counts.tokens();
        let nano_aiu = call.nano_aiu.or(call.billed.take().and_then(|billed| billed.nano_aiu));
        let (mut message, thread) = envelope.inside(Role::System, call.parent_call.take());
        let model = owned(call.model.take());
        message.model = self.model(&thread, model);
        message.stop_reason = owned(call.finish_reason.take());
        message.usage = Some(Usage {
            identity: Some(self.call_identity(tokens.output, api_id.as_deref())),
            tokens,
            cost_micros: nano_aiu.map(|nano| cost_micros(nano as u64)),
            ..Usage::default()
        });
        message.api_id = api_id;
        let mut details = Extensions::new();
        json::keep(call.rest, &mut details);
        message.extensions.insert("call".into(), Json::from_value(&details));
        if message.api_id.is_none() {
            self.tell(message)?;
            return Ok(Told::Yes);
        }
        if let Some(open) = &mut self.state.open
            && open.api_id == message.api_id
        {
            claim(message, open);
            return Ok(Told::Nothing);
        }
        self.state.calls.unclaimed.push(message);
        if self.state.calls.unclaimed.len() > MAX_UNCLAIMED {
            let oldest = self.state.calls.unclaimed.remove(0);
            self.tell(oldest)?;
        }
        Ok(Told::Nothing)
    }

    /// Adds to an answer what its call used: all of it where a record of the call was met, else
    /// the tokens that the answer itself carries.
    pub(super) fn add_usage(&mut self, output: Option<u64>, answer: &mut Message) {
        let unclaimed = &mut self.state.calls.unclaimed;
        let found = unclaimed.iter().position(|call| call.api_id == answer.api_id);
        if let Some(at) = found.filter(|_| answer.api_id.is_some()) {
            claim(unclaimed.remove(at), answer);
            return;
        }
        answer.usage = output.map(|output| Usage {
            identity: Some(self.call_identity(output, answer.api_id.as_deref())),
            tokens: Tokens { output, ..Tokens::default() },
            ..Usage::default()
        });
    }

    /// Tells the calls that no answer came for.
    pub(super) fn tell_unclaimed(&mut self) -> Result<()> {
        let mut unclaimed = std::mem::take(&mut self.state.calls.unclaimed).into_iter();
        unclaimed.try_for_each(|message| self.tell(message))
    }

    fn call_identity(&mut self, output: u64, api_id: Option<&str>) -> String {
        let calls = &mut self.state.calls;
        calls.is_counted = true;
        // An answer in several pieces, or the record of an answer.
        let known = calls.known.iter().find(|(known, _)| Some(&**known) == api_id);
        if let Some((_, identity)) = known {
            return identity.clone();
        }
        calls.output_since_shutdown += output;
        let count = calls.outputs.entry(output).or_default();
        *count += 1;
        let identity = super::call_identity(&self.state.native, output, *count);
        if let Some(api_id) = api_id {
            if calls.known.len() == MAX_KNOWN_CALLS {
                calls.known.remove(0);
            }
            calls.known.push((api_id.to_owned(), identity.clone()));
        }
        identity
    }

    /// Finds out what the sums of a shutdown stand for.
    pub(super) fn sums_of(&mut self, envelope: &Envelope, shutdown: &Shutdown<'_>) -> Sums {
        let models = shutdown.models.iter().flatten();
        let sums: BTreeMap<String, Tokens> = models
            .filter_map(|(model, metrics)| Some((model.clone(), metrics.usage.as_ref()?.tokens())))
            .collect();
        let calls = &mut self.state.calls;
        let is_marked = shutdown.watermarks.is_some() || shutdown.snapshot.is_some();
        let is_cumulative = is_marked || calls.go_on(&sums);
        calls.last_sums = sums;
        Sums {
            id: envelope.id.clone().unwrap_or_default(),
            is_cumulative,
            is_output_counted: if is_cumulative {
                calls.output_since_shutdown > 0
            } else {
                calls.is_counted
            },
            since: if is_cumulative { calls.since_shutdown } else { calls.run },
        }
    }

    /// Returns what a model used beyond what other records say of it; `None` when that is nothing.
    pub(super) fn unrecorded(
        &mut self,
        sums: &Sums,
        model: &str,
        recorded: Tokens,
    ) -> Option<Usage> {
        let all = self.state.calls.all_sums.entry(model.to_owned()).or_default();
        let mut tokens = recorded;
        if sums.is_cumulative && contains(&recorded, all) {
            tokens = difference(&recorded, all);
            *all = recorded;
        } else {
            *all += recorded;
        }
        if sums.is_cumulative && tokens.total() == 0 {
            return None;
        }
        if sums.is_output_counted {
            tokens.output = 0;
        }
        let identity = Some(format!("{} {} {model}", self.state.native, sums.id));
        Some(Usage { identity, tokens, since: sums.since, ..Usage::default() })
    }
}

impl CallState {
    /// Whether sums go on from those of the last shutdown: none of them fell, and they fit what
    /// was written since better than sums that began anew.
    fn go_on(&self, sums: &BTreeMap<String, Tokens>) -> bool {
        let is_contained = |(model, last): (&String, &Tokens)| {
            sums.get(model).is_some_and(|tokens| contains(tokens, last))
        };
        if self.last_sums.is_empty() || !self.last_sums.iter().all(is_contained) {
            return false;
        }
        let output = |sums: &BTreeMap<String, Tokens>| -> u64 {
            sums.values().map(|tokens| tokens.output).sum()
        };
        let (now, written) = (output(sums), self.output_since_shutdown);
        let more = now - output(&self.last_sums);
        written == 0 || more.abs_diff(written) < now.abs_diff(written)
    }
}

/// Gives an answer what the record of its call says.
fn claim(call: Message, answer: &mut Message) {
    answer.usage = call.usage;
    answer.stop_reason = answer.stop_reason.take().or(call.stop_reason);
    answer.model = answer.model.take().or(call.model);
    answer.extensions.extend(call.extensions);
}

fn contains(tokens: &Tokens, earlier: &Tokens) -> bool {
    tokens.input >= earlier.input
        && tokens.output >= earlier.output
        && tokens.cache_read >= earlier.cache_read
        && tokens.cache_creation >= earlier.cache_creation
        && tokens.reasoning >= earlier.reasoning
}

fn difference(tokens: &Tokens, earlier: &Tokens) -> Tokens {
    Tokens {
        input: tokens.input - earlier.input,
        output: tokens.output - earlier.output,
        cache_read: tokens.cache_read - earlier.cache_read,
        cache_creation: tokens.cache_creation - earlier.cache_creation,
        reasoning: tokens.reasoning.map(|now| now - earlier.reasoning.unwrap_or(0)),
    }
}
