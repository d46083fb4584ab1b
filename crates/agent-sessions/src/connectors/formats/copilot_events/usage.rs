//! Usage of model calls. Three kinds of records contain it: a reply has its output tokens,
//! `session.usage_record` all tokens of one call, and `session.shutdown` sums: of one run of the
//! program in older versions, of the session so far since 1.0.10x.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::EventLogReader;
use super::emit::{Envelope, EventOutcome, non_empty_owned, parse_event_data};
use super::event::{CallFacts, HiddenCall, RunTokenCounts, Shutdown, UsageRecord};
use crate::connectors::formats::copilot_store::cost_micros;
use crate::connectors::formats::json;
use crate::error::Result;
use crate::model::{Extensions, Json, Message, Role, Timestamp, Tokens, Usage};

/// Number of calls that may wait for their replies: those of concurrent sub-agents.
const MAX_UNCLAIMED: usize = 16;

/// Number of recent calls whose API id is kept.
const MAX_KNOWN_CALLS: usize = 16;

/// Usage state that the records before a checkpoint leave for the calls after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CallState {
    /// Number of model calls, by their number of output tokens.
    outputs: BTreeMap<u64, u64>,
    /// Recent calls: API id, and the identity under which they are counted.
    known: Vec<(String, String)>,
    /// Calls whose reply has not been read yet.
    unclaimed: Vec<Message>,
    /// Time at which this run of the program began.
    run: Option<Timestamp>,
    /// Whether a record of this run contains output tokens.
    is_counted: bool,
    /// Time of the last shutdown; before the first one, the beginning of the session.
    since_shutdown: Option<Timestamp>,
    /// Output tokens recorded since then.
    output_since_shutdown: u64,
    /// Sums of the last shutdown, by model.
    last_sums: BTreeMap<String, Tokens>,
    /// Total of all shutdowns so far, by model.
    all_sums: BTreeMap<String, Tokens>,
}

/// The meaning of a shutdown's sums.
pub(super) struct ShutdownSums {
    /// Event id of the shutdown.
    id: String,
    /// Whether the sums include those of earlier shutdowns.
    is_cumulative: bool,
    /// Whether other records of the same period contain the output tokens.
    is_output_counted: bool,
    since: Option<Timestamp>,
}

impl EventLogReader<'_> {
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

    /// Reads the usage of one call, with all its tokens. The reply follows, was read before, or
    /// does not exist.
    pub(super) fn usage_record(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let record = parse_event_data::<UsageRecord<'_>>(data).and_then(|record| record.usage);
        let Some(raw) = record else { return Ok(EventOutcome::Unknown) };
        let (Some(counts), Some(mut call)) =
            (parse_event_data::<RunTokenCounts<'_>>(raw), parse_event_data::<CallFacts<'_>>(raw))
        else {
            return Ok(EventOutcome::Unknown);
        };
        let accounting =
            call.accounting.take().and_then(|accounting| non_empty_owned(accounting.usage_id));
        let api_id = non_empty_owned(call.api_id.take()).or(accounting);
        let tokens = counts.run_tokens();
        let nano_aiu = call.nano_aiu.or(call.billed.take().and_then(|billed| billed.nano_aiu));
        let (mut message, thread) =
            envelope.new_message_in_thread(Role::System, call.parent_call.take());
        let model = non_empty_owned(call.model.take());
        message.model = self.model_of_thread(&thread, model);
        message.stop_reason = non_empty_owned(call.finish_reason.take());
        message.usage = Some(Usage {
            identity: Some(self.next_call_identity(tokens.output, api_id.as_deref())),
            tokens,
            cost_micros: nano_aiu.map(|nano| cost_micros(nano as u64)),
            ..Usage::default()
        });
        message.api_id = api_id;
        let mut details = Extensions::new();
        json::keep_non_empty_fields(call.rest, &mut details);
        message.extensions.insert("call".into(), Json::from_value(&details));
        if message.api_id.is_none() {
            self.emit_after_held_reply(message)?;
            return Ok(EventOutcome::Yes);
        }
        if let Some(open) = &mut self.state.open
            && open.api_id == message.api_id
        {
            copy_usage_to_reply(message, open);
            return Ok(EventOutcome::Nothing);
        }
        self.state.calls.unclaimed.push(message);
        if self.state.calls.unclaimed.len() > MAX_UNCLAIMED {
            let oldest = self.state.calls.unclaimed.remove(0);
            self.emit_after_held_reply(oldest)?;
        }
        Ok(EventOutcome::Nothing)
    }

    /// Reads a call that the program makes for itself. Its request repeats the conversation, and no
    /// other record of the log has its tokens.
    pub(super) fn read_hidden_call(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let Some(HiddenCall { call, usage: Some(usage) }) =
            parse_event_data::<HiddenCall<'_>>(data)
        else {
            return Ok(EventOutcome::Unknown);
        };
        let call = call.unwrap_or_default();
        let tokens = usage.call_tokens();
        let api_id = non_empty_owned(call.api_id);
        let mut message = envelope.new_message(Role::System);
        message.model = non_empty_owned(call.model);
        message.usage = Some(Usage {
            identity: Some(self.next_call_identity(tokens.output, api_id.as_deref())),
            tokens,
            ..Usage::default()
        });
        message.api_id = api_id;
        message.extensions.insert("type".into(), Json::from_value(&envelope.kind));
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    /// Adds the usage of a call to its reply: all tokens if a usage record of the call was read,
    /// else the output tokens that the reply itself contains.
    pub(super) fn add_usage(&mut self, output: Option<u64>, answer: &mut Message) {
        let unclaimed = &mut self.state.calls.unclaimed;
        let found = unclaimed.iter().position(|call| call.api_id == answer.api_id);
        if let Some(at) = found.filter(|_| answer.api_id.is_some()) {
            copy_usage_to_reply(unclaimed.remove(at), answer);
            return;
        }
        answer.usage = output.map(|output| Usage {
            identity: Some(self.next_call_identity(output, answer.api_id.as_deref())),
            tokens: Tokens { output, ..Tokens::default() },
            ..Usage::default()
        });
    }

    /// Emits the calls without a reply as messages.
    pub(super) fn emit_unclaimed(&mut self) -> Result<()> {
        let mut unclaimed = std::mem::take(&mut self.state.calls.unclaimed).into_iter();
        unclaimed.try_for_each(|message| self.emit_after_held_reply(message))
    }

    fn next_call_identity(&mut self, output: u64, api_id: Option<&str>) -> String {
        let calls = &mut self.state.calls;
        calls.is_counted = true;
        // Another part of the same reply, or the usage record of the reply.
        let known = calls.known.iter().find(|(known, _)| Some(&**known) == api_id);
        if let Some((_, identity)) = known {
            return identity.clone();
        }
        calls.output_since_shutdown += output;
        let count = calls.outputs.entry(output).or_default();
        *count += 1;
        let identity = super::model_call_identity(&self.state.native, output, *count);
        if let Some(api_id) = api_id {
            if calls.known.len() == MAX_KNOWN_CALLS {
                calls.known.remove(0);
            }
            calls.known.push((api_id.to_owned(), identity.clone()));
        }
        identity
    }

    /// Determines the meaning of a shutdown's sums.
    pub(super) fn sums_of(&mut self, envelope: &Envelope, shutdown: &Shutdown<'_>) -> ShutdownSums {
        let models = shutdown.models.iter().flatten();
        let sums: BTreeMap<String, Tokens> = models
            .filter_map(|(model, metrics)| {
                Some((model.clone(), metrics.usage.as_ref()?.run_tokens()))
            })
            .collect();
        let calls = &mut self.state.calls;
        let is_marked = shutdown.watermarks.is_some() || shutdown.snapshot.is_some();
        let is_cumulative = is_marked || calls.go_on(&sums);
        calls.last_sums = sums;
        ShutdownSums {
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

    /// Returns the usage of a model that no other record contains. `None` when there is none.
    pub(super) fn unrecorded_usage(
        &mut self,
        sums: &ShutdownSums,
        model: &str,
        recorded: Tokens,
    ) -> Option<Usage> {
        let all = self.state.calls.all_sums.entry(model.to_owned()).or_default();
        let mut tokens = recorded;
        if sums.is_cumulative && includes_all_tokens(&recorded, all) {
            tokens = token_difference(&recorded, all);
            *all = recorded;
        } else {
            *all += recorded;
        }
        if sums.is_cumulative && tokens.total_tokens() == 0 {
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
    /// Returns whether sums continue those of the last shutdown: none of them decreased, and they
    /// fit the output tokens recorded since then better than sums that start at zero.
    fn go_on(&self, sums: &BTreeMap<String, Tokens>) -> bool {
        let is_contained = |(model, last): (&String, &Tokens)| {
            sums.get(model).is_some_and(|tokens| includes_all_tokens(tokens, last))
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

/// Copies usage, stop reason, model and extensions from a call's usage record to its reply.
fn copy_usage_to_reply(call: Message, answer: &mut Message) {
    answer.usage = call.usage;
    answer.stop_reason = answer.stop_reason.take().or(call.stop_reason);
    answer.model = answer.model.take().or(call.model);
    answer.extensions.extend(call.extensions);
}

fn includes_all_tokens(tokens: &Tokens, earlier: &Tokens) -> bool {
    tokens.input >= earlier.input
        && tokens.output >= earlier.output
        && tokens.cache_read >= earlier.cache_read
        && tokens.cache_creation >= earlier.cache_creation
        && tokens.reasoning >= earlier.reasoning
}

fn token_difference(tokens: &Tokens, earlier: &Tokens) -> Tokens {
    Tokens {
        input: tokens.input - earlier.input,
        output: tokens.output - earlier.output,
        cache_read: tokens.cache_read - earlier.cache_read,
        cache_creation: tokens.cache_creation - earlier.cache_creation,
        reasoning: tokens.reasoning.map(|now| now - earlier.reasoning.unwrap_or(0)),
    }
}
