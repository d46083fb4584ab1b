//! The model calls of a conversation. The table `gen_metadata` has a row for each; the step that a
//! call wrote repeats its tokens.

use crate::connectors::formats::protobuf::ProtobufMessage;
use crate::connectors::formats::rows::number_column;
use crate::connectors::formats::sqlite::{self, Database};
use crate::error::Result;
use crate::model::{Message, Timestamp, Tokens, Usage};

/// A model call.
#[derive(Clone, Debug, Default)]
pub(super) struct Generation {
    /// Id that the provider gave the answer.
    pub(super) response_id: Option<String>,
    pub(super) model: Option<String>,
    /// Name of the model as a person sees it.
    label: Option<String>,
    pub(super) tokens: Tokens,
    at: Option<Timestamp>,
    /// Row number.
    row: i64,
    /// Indexes of the steps that the call wrote.
    steps: Vec<u64>,
    is_claimed: bool,
}

impl Generation {
    /// Reads a row: a `CortexStepGeneratorMetadata`. A row without usage is no model call.
    fn from_row(data: &[u8], row: i64) -> Option<Self> {
        let metadata = ProtobufMessage::new(data);
        let call = metadata.message(1)?;
        let usage = call.message(4)?;
        Some(Self {
            response_id: usage.text(11),
            model: call.text(19).or_else(|| call.text(22)),
            label: call.text(21),
            tokens: tokens_of_usage(usage),
            at: call.message(9).and_then(|start| start.time(4)),
            row,
            steps: metadata.numbers(2),
            is_claimed: false,
        })
    }

    /// Reads the usage that a step repeats: a `ModelUsageStats`.
    pub(super) fn from_step_usage(usage: ProtobufMessage<'_>) -> Self {
        let tokens = tokens_of_usage(usage);
        Self { response_id: usage.text(11), tokens, ..Self::default() }
    }

    /// Returns the usage of the call. `position` identifies a call without an id of its own.
    pub(super) fn into_usage(self, position: String) -> Option<Usage> {
        let usage = Usage {
            identity: Some(self.response_id.unwrap_or(position)),
            tokens: self.tokens,
            ..Usage::default()
        };
        self.tokens.is_known().then(|| usage.within_reason())
    }
}

/// Reads a `ModelUsageStats`. Input excludes what was read from a cache; output includes reasoning.
fn tokens_of_usage(usage: ProtobufMessage<'_>) -> Tokens {
    let (reasoning, reply) = (usage.number(9), usage.number(10));
    let parts = reasoning.unwrap_or(0).saturating_add(reply.unwrap_or(0));
    let output = usage.number(3).unwrap_or(parts);
    // A part that is 0 is not written. Without either part the reasoning is unknown.
    let reasoning = reasoning.or(reply.map(|_| 0)).filter(|reasoning| *reasoning <= output);
    Tokens {
        input: usage.number(2).unwrap_or(0),
        output,
        cache_read: usage.number(5).unwrap_or(0),
        cache_creation: usage.number(4).unwrap_or(0),
        reasoning,
    }
}

/// Adds the names of models to calls that have a label only: the name that other calls have beside
/// the same label, or the label itself.
fn complete_models(calls: &mut [Generation]) {
    let known: Vec<(String, String)> =
        calls.iter().filter_map(|call| Some((call.label.clone()?, call.model.clone()?))).collect();
    for call in calls.iter_mut().filter(|call| call.model.is_none()) {
        let Some(label) = &call.label else { continue };
        let found = known.iter().find(|(name, _)| name == label).map(|(_, model)| model);
        call.model = Some(found.unwrap_or(label).clone());
    }
}

/// All model calls of a conversation.
#[derive(Default)]
pub(super) struct GenerationTable(Vec<Generation>);

impl GenerationTable {
    /// Reads the table. Its rows can be large, because they repeat what the model was given.
    pub(super) fn read_table(database: &Database) -> Result<Self> {
        let mut all = Vec::new();
        let columns = database.table_columns("gen_metadata")?;
        if !["idx", "data"].iter().all(|name| columns.iter().any(|column| column == name)) {
            return Ok(Self::default());
        }
        let data = sqlite::size_bounded_column("data");
        let sql = format!("SELECT idx, {data} AS data FROM gen_metadata ORDER BY idx");
        database.for_each_row(&sql, [], |row| {
            let number = number_column(row, "idx").unwrap_or(0);
            let data = row.get_ref("data").ok().and_then(sqlite::format_bytes).unwrap_or_default();
            all.extend(Generation::from_row(data, number));
            Ok(())
        })?;
        complete_models(&mut all);
        Ok(Self(all))
    }

    /// Returns the call that wrote a step. `repeated` is the usage that the step itself has.
    pub(super) fn claim_call(
        &mut self,
        step: u64,
        repeated: Option<Generation>,
    ) -> Option<Generation> {
        let found = self.find_call(step, repeated.as_ref());
        let Some(call) = found.and_then(|at| self.0.get_mut(at)) else { return repeated };
        call.is_claimed = true;
        let mut call = call.clone();
        if let Some(repeated) = repeated {
            call.response_id = call.response_id.or(repeated.response_id);
            call.model = call.model.or(repeated.model);
        }
        Some(call)
    }

    fn find_call(&self, step: u64, repeated: Option<&Generation>) -> Option<usize> {
        let free = || self.0.iter().enumerate().filter(|(_, call)| !call.is_claimed);
        let place = |found: Option<(usize, &Generation)>| found.map(|(at, _)| at);
        let id = repeated.and_then(|repeated| repeated.response_id.as_deref());
        if id.is_some()
            && let Some(at) = place(free().find(|(_, call)| call.response_id.as_deref() == id))
        {
            return Some(at);
        }
        // The ids of two calls differ.
        let may_be = |call: &Generation| id.is_none() || call.response_id.is_none();
        let by_step = || free().find(|(_, call)| may_be(call) && call.steps.contains(&step));
        let tokens = repeated.map(|repeated| repeated.tokens).filter(Tokens::is_known);
        let by_tokens = || free().find(|(_, call)| may_be(call) && Some(call.tokens) == tokens);
        place(by_step().or_else(by_tokens))
    }

    /// Returns the calls that wrote no step, such as summaries, as messages without content.
    pub(super) fn into_unclaimed_calls(self, trajectory: &str) -> Vec<Message> {
        let calls = self.0.into_iter().filter(|call| !call.is_claimed);
        calls
            .filter_map(|call| {
                let (at, model) = (call.at, call.model.clone());
                let usage = call.clone().into_usage(format!("{trajectory}:call {}", call.row))?;
                Some(Message { at, model, usage: Some(usage), ..Message::default() })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_known_if_either_part_of_the_output_is() {
        let check = |usage: &[u8], output: u64, reasoning: Option<u64>| {
            let tokens = tokens_of_usage(ProtobufMessage::new(usage));
            assert_eq!((tokens.output, tokens.reasoning), (output, reasoning), "{usage:?}");
        };
        check(b"\x18\x0c\x48\x04\x50\x08", 12, Some(4));
        check(b"\x48\x04\x50\x08", 12, Some(4));
        check(b"\x18\x08\x50\x08", 8, Some(0));
        check(b"\x18\x08", 8, None);
        check(b"\x18\x08\x48\x14", 8, None);
    }

    #[test]
    fn a_step_has_the_call_with_its_id_before_the_one_that_names_it() {
        let call = |id: Option<&str>, steps: &[u64], output: u64| Generation {
            response_id: id.map(str::to_owned),
            steps: steps.to_vec(),
            tokens: Tokens { output, ..Tokens::default() },
            ..Generation::default()
        };
        let mut table = GenerationTable(vec![
            call(Some("a"), &[3], 1),
            call(Some("b"), &[], 2),
            call(None, &[], 4),
            call(None, &[9], 5),
        ]);
        let mut claim = |step: u64, repeated: Option<Generation>| {
            table.claim_call(step, repeated).map(|call| call.tokens.output)
        };
        assert_eq!(claim(3, Some(call(Some("b"), &[], 7))), Some(2));
        assert_eq!(claim(3, None), Some(1));
        assert_eq!(claim(5, Some(call(Some("c"), &[], 4))), Some(4));
        assert_eq!(claim(6, Some(call(Some("d"), &[], 8))), Some(8));
        assert_eq!(claim(7, None), None);
        assert_eq!(table.into_unclaimed_calls("t").len(), 1);
    }
}
