//! Converts the records of a declared agent to sessions and messages.

use std::collections::HashSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::declaration::{AgentDeclaration, DeclaredCall, DeclaredResult, DeclaredRole};
use super::field_path::FieldPaths;
use crate::model::{
    Block, Extensions, Json, Message, Origin, Role, Session, SessionKind, Timestamp, TitleRank,
    Tokens, Usage,
};

/// Texts of a field for failures that mean success.
const SUCCESS: [&str; 9] =
    ["", "0", "false", "ok", "success", "succeeded", "completed", "complete", "done"];

/// The result of converting one record.
pub(super) enum ConvertedRecord {
    /// Messages of the session: tool results, and the message itself.
    Messages(Vec<Message>),
    /// A record that is declared to be no part of the conversation, or a message without content.
    Empty,
    /// A record that is neither, with the reason.
    Unknown(&'static str),
}

/// Adds the facts of a session that a record names. Returns whether there are any.
pub(super) fn add_session_facts(
    declaration: &AgentDeclaration,
    record: &Value,
    session: &mut Session,
) -> bool {
    let declared = &declaration.session;
    let title = declared.title.find_text(record);
    let time = declared.time.find_value(record).and_then(parse_time);
    // The first directory, and the latest branch, count for a session as a whole.
    let first = [
        (&mut session.cwd, declared.cwd.find_text(record)),
        (&mut session.model, declared.model.find_text(record)),
        (&mut session.parent, declared.parent.find_text(record)),
    ];
    let mut has_facts = title.is_some() || time.is_some();
    for (field, found) in first {
        has_facts |= found.is_some();
        *field = field.take().or(found);
    }
    let latest = [
        (&mut session.branch, declared.branch.find_text(record)),
        (&mut session.agent_version, declared.version.find_text(record)),
    ];
    for (field, found) in latest {
        has_facts |= found.is_some();
        *field = found.or(field.take());
    }
    if session.parent.is_some() {
        session.kind = SessionKind::Agent;
    }
    session.add_title(TitleRank::Generated, title.unwrap_or_default());
    session.extend_time_span(time);
    has_facts || !declared.id.find_values(record).is_empty()
}

/// Keeps the fields of a session's record that no path names, without its messages.
pub(super) fn keep_unnamed_session_fields(
    declaration: &AgentDeclaration,
    record: &Value,
    session: &mut Session,
) {
    let mut named = NamedValues::default();
    named.add_session(declaration, record);
    named.add(&declaration.message.each, record);
    named.keep_rest(record, &mut session.extensions);
}

/// Converts a record that may be a message.
pub(super) fn convert_record(declaration: &AgentDeclaration, record: &Value) -> ConvertedRecord {
    let declared = &declaration.message;
    let Some(recorded) = declared.role.find_text(record) else {
        return ConvertedRecord::Unknown("no role");
    };
    let role = declared.roles.get(&recorded).copied();
    let Some(role) = role.or_else(|| DeclaredRole::usual_meaning(&recorded)) else {
        return ConvertedRecord::Unknown("unknown role");
    };
    let Some(side) = role.side() else { return ConvertedRecord::Empty };
    let id = declared.id.find_text(record);
    let parts = RecordParts::from_record(declaration, record, id.as_deref());
    let message = Message {
        uuid: id,
        parent: declared.parent.find_text(record),
        at: declared.time.find_value(record).and_then(parse_time),
        model: declared.model.find_text(record).filter(|_| side == Role::Assistant),
        ..Message::default()
    };
    let usage = find_usage(declaration, record);
    let has_results = !parts.results.is_empty();
    let has_own_message = !parts.blocks.is_empty() || (usage.is_some() && !has_results);
    let answers_own_call = parts.answers_own_call();
    let mut own = has_own_message.then(|| {
        let origin = match side {
            Role::User => Origin::Human,
            Role::Assistant => Origin::Assistant,
            Role::Tool => Origin::Tool,
            Role::System => Origin::System,
        };
        Message { role: side, origin, blocks: parts.blocks, ..message.clone() }
    });
    // The id belongs to the message that is shown, if there is one.
    let mut results = has_results.then(|| Message {
        role: Role::Tool,
        origin: Origin::Tool,
        blocks: parts.results,
        model: None,
        uuid: message.uuid.clone().filter(|_| !has_own_message),
        ..message
    });
    let Some(main) = own.as_mut().or(results.as_mut()) else { return ConvertedRecord::Empty };
    main.usage = usage;
    let mut named = NamedValues::default();
    named.add_session(declaration, record);
    named.add_message(declaration, record);
    named.keep_rest(record, &mut main.extensions);
    // Results precede the text that follows them, but never the call that they answer.
    let in_order = if answers_own_call { [own, results] } else { [results, own] };
    ConvertedRecord::Messages(in_order.into_iter().flatten().collect())
}

/// The blocks of a record.
#[derive(Default)]
struct RecordParts {
    blocks: Vec<Block>,
    results: Vec<Block>,
}

/// A block with the value it was made from.
struct SourcedBlock<'v> {
    source: &'v Value,
    block: Option<Block>,
}

impl RecordParts {
    /// Returns whether the record has both a call and its result.
    fn answers_own_call(&self) -> bool {
        self.results.iter().any(|result| {
            let Block::ToolResult { call_id, .. } = result else { return false };
            let is_call =
                |block: &Block| matches!(block, Block::ToolCall { id, .. } if id == call_id);
            self.blocks.iter().any(is_call)
        })
    }

    fn from_record(declaration: &AgentDeclaration, record: &Value, id: Option<&str>) -> Self {
        let call = |declared: &DeclaredCall| tool_calls(declared, record, id.unwrap_or_default());
        let mut calls = declaration.call.as_ref().map(call).unwrap_or_default();
        let result = |declared: &DeclaredResult| tool_results(declared, record);
        let mut results = declaration.result.as_ref().map(result).unwrap_or_default();
        let mut reasoning: Vec<SourcedBlock<'_>> = declaration
            .message
            .reasoning
            .find_values(record)
            .into_iter()
            .filter_map(|source| {
                let text = source.as_str().filter(|text| !text.trim().is_empty())?;
                Some(SourcedBlock { source, block: Some(Block::Thinking(text.to_owned())) })
            })
            .collect();
        let mut parts = Self::default();
        let mut text = Vec::new();
        // The text of a message that is itself a result is the output of the result.
        let is_result = results.iter().any(|result| std::ptr::eq(result.source, record));
        if !is_result {
            for value in declaration.message.text.find_values(record) {
                let elements = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for element in elements {
                    let lists = [&mut calls, &mut reasoning];
                    if let Some(block) = lists.into_iter().find_map(|all| take_block(all, element))
                    {
                        text.push(block);
                    } else if let Some(block) = take_block(&mut results, element) {
                        parts.results.push(block);
                    } else {
                        text.extend(content_block(element));
                    }
                }
            }
        }
        parts.blocks.extend(remaining_blocks(reasoning));
        parts.blocks.extend(text);
        parts.blocks.extend(remaining_blocks(calls));
        parts.results.extend(remaining_blocks(results));
        parts
    }
}

/// Returns the blocks that are not in the content of the message.
fn remaining_blocks(blocks: Vec<SourcedBlock<'_>>) -> impl Iterator<Item = Block> {
    blocks.into_iter().filter_map(|one| one.block)
}

/// Takes the block that was made from an element or from a field of it.
fn take_block(blocks: &mut [SourcedBlock<'_>], element: &Value) -> Option<Block> {
    let is_inside = |source: &Value| {
        std::ptr::eq(source, element)
            || element
                .as_object()
                .is_some_and(|fields| fields.values().any(|field| std::ptr::eq(field, source)))
    };
    blocks.iter_mut().find(|one| one.block.is_some() && is_inside(one.source))?.block.take()
}

/// Converts an element of a message's content that is neither call, result nor reasoning.
fn content_block(element: &Value) -> Option<Block> {
    match element {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(Block::Text(text.clone())),
        Value::Object(fields) => match fields.get("text") {
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::String(text)) => Some(Block::Text(text.clone())),
            _ => Some(Block::Other(Json::from_value(element))),
        },
        _ => Some(Block::Other(Json::from_value(element))),
    }
}

fn tool_calls<'v>(
    declared: &DeclaredCall,
    record: &'v Value,
    message: &str,
) -> Vec<SourcedBlock<'v>> {
    let found = elements(&declared.each, record).into_iter().enumerate();
    found
        .filter_map(|(at, source)| {
            // An odd name costs the name, not the call.
            declared.name.find_value(source)?;
            let name = declared.name.find_text(source).unwrap_or_default();
            let id = declared.id.find_text(source).unwrap_or_else(|| format!("{message}#{at}"));
            let input = declared.input.find_value(source).map_or_else(
                || Json::from_value(&Map::new()),
                |input| Json::from_value(&parsed_text(input).unwrap_or_else(|| input.clone())),
            );
            Some(SourcedBlock { source, block: Some(Block::ToolCall { id, name, input }) })
        })
        .collect()
}

fn tool_results<'v>(declared: &DeclaredResult, record: &'v Value) -> Vec<SourcedBlock<'v>> {
    let found = elements(&declared.each, record).into_iter();
    found
        .filter_map(|source| {
            // An odd id costs the id, not the output.
            declared.call.find_value(source)?;
            let call_id = declared.call.find_text(source).unwrap_or_default();
            let output = declared.output.find_values(source).into_iter().map(output_text);
            let output = output.collect::<Vec<_>>().join("\n");
            let is_error = declared.failed.find_value(source).map(is_failure);
            let block = Block::ToolResult { call_id, output, is_error };
            Some(SourcedBlock { source, block: Some(block) })
        })
        .collect()
}

/// Returns the elements at a path, or the record itself if none is declared.
fn elements<'v>(each: &FieldPaths, record: &'v Value) -> Vec<&'v Value> {
    if each.is_empty() { vec![record] } else { each.find_values(record) }
}

/// Returns the JSON value that a text contains.
fn parsed_text(value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    if text.starts_with(['{', '[']) { serde_json::from_str(text).ok() } else { None }
}

/// Returns the text of a tool's output, which may be a list of blocks.
fn output_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Array(all) if all.iter().all(|one| block_text(one).is_some()) => {
            all.iter().filter_map(block_text).collect::<Vec<_>>().join("\n")
        }
        _ => output.to_string(),
    }
}

fn block_text(block: &Value) -> Option<&str> {
    block.as_str().or_else(|| block.get("text")?.as_str())
}

fn is_failure(recorded: &Value) -> bool {
    match recorded {
        Value::Bool(failed) => *failed,
        Value::Number(code) => code.as_f64() != Some(0.0),
        Value::String(text) => !SUCCESS.contains(&text.trim().to_ascii_lowercase().as_str()),
        Value::Null => false,
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn find_usage(declaration: &AgentDeclaration, record: &Value) -> Option<Usage> {
    let declared = &declaration.tokens;
    let count = |paths: &FieldPaths| paths.find_count(record);
    let (input, output) = (count(&declared.input), count(&declared.output));
    let (cache_read, cache_write) = (count(&declared.cache_read), count(&declared.cache_write));
    let reasoning = count(&declared.reasoning);
    let cost = declared.cost.find_value(record).and_then(Value::as_f64).filter(|cost| *cost > 0.0);
    let all = [input, output, cache_read, cache_write, reasoning];
    if all.iter().all(|count| count.unwrap_or(0) == 0) && cost.is_none() {
        return None;
    }
    let (cache_read, cache_creation) = (cache_read.unwrap_or(0), cache_write.unwrap_or(0));
    let mut tokens = Tokens {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cache_read,
        cache_creation,
        reasoning,
    };
    if declared.input_includes_cache {
        tokens.input = tokens.input.saturating_sub(cache_read.saturating_add(cache_creation));
    }
    if declared.output_excludes_reasoning {
        tokens.output = tokens.output.saturating_add(reasoning.unwrap_or(0));
    }
    let identity = declared.call.find_text(record).map(|call| format!("{}:{call}", declaration.id));
    let cost_micros = cost.map(|dollars| (dollars * 1e6).round() as u64);
    Some(Usage { identity, tokens, cost_micros, ..Usage::default() }.within_reason())
}

/// Parses a time: a text in ISO 8601, with or without a zone, or a number since 1970, whose size
/// shows its unit.
pub(super) fn parse_time(value: &Value) -> Option<Timestamp> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) => number,
            Err(_) => return parse_time_text(text.trim()),
        },
        _ => return None,
    };
    // The year 1973 in milliseconds is the year 5138 in seconds, and so on.
    let millis = match number {
        number if !number.is_finite() || number < 1e8 => return None,
        number if number < 1e11 => number * 1e3,
        number if number < 1e14 => number,
        number if number < 1e17 => number / 1e3,
        number => number / 1e6,
    };
    Timestamp::from_millis(millis as i64)
}

fn parse_time_text(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text).or_else(|| {
        let clock: DateTime = text.parse().ok()?;
        let instant = clock.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Timestamp::from_millis(instant.as_millisecond())
    })
}

/// The values of a record that paths name.
#[derive(Default)]
struct NamedValues(HashSet<*const Value>);

impl NamedValues {
    fn add(&mut self, paths: &FieldPaths, record: &Value) {
        self.0.extend(paths.find_values(record).into_iter().map(std::ptr::from_ref));
    }

    fn add_session(&mut self, declaration: &AgentDeclaration, record: &Value) {
        let named = &declaration.session;
        let all = [
            &named.id,
            &named.title,
            &named.cwd,
            &named.branch,
            &named.model,
            &named.time,
            &named.parent,
            &named.version,
        ];
        for paths in all {
            self.add(paths, record);
        }
    }

    fn add_message(&mut self, declaration: &AgentDeclaration, record: &Value) {
        let (named, tokens) = (&declaration.message, &declaration.tokens);
        let all = [
            &named.session,
            &named.role,
            &named.text,
            &named.reasoning,
            &named.time,
            &named.id,
            &named.parent,
            &named.model,
            &tokens.call,
            &tokens.input,
            &tokens.output,
            &tokens.cache_read,
            &tokens.cache_write,
            &tokens.reasoning,
            &tokens.cost,
        ];
        for paths in all {
            self.add(paths, record);
        }
        if let Some(call) = &declaration.call {
            let found = elements(&call.each, record).into_iter();
            found.for_each(|one| self.add_part(&[&call.id, &call.name, &call.input], one, record));
        }
        if let Some(result) = &declaration.result {
            let fields = [&result.call, &result.output, &result.failed];
            let found = elements(&result.each, record).into_iter();
            found.for_each(|one| self.add_part(&fields, one, record));
        }
    }

    /// Adds a call or result: the whole element, or the named fields of the record itself.
    fn add_part(&mut self, fields: &[&FieldPaths], element: &Value, record: &Value) {
        if std::ptr::eq(element, record) {
            for paths in fields {
                self.add(paths, element);
            }
        } else {
            self.0.insert(std::ptr::from_ref(element));
        }
    }

    /// Keeps the fields of a record that no path names.
    fn keep_rest(&self, record: &Value, extensions: &mut Extensions) {
        let Value::Object(fields) = record else { return };
        for (name, value) in fields {
            if let Some(rest) = self.rest_of(value) {
                extensions.insert(name.clone(), Json::from_value(&rest));
            }
        }
    }

    /// Returns a value without the named values in it. `None` if nothing is left. The parser bounds
    /// the depth.
    fn rest_of(&self, value: &Value) -> Option<Value> {
        if self.0.contains(&std::ptr::from_ref(value)) {
            return None;
        }
        match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::Array(all) => {
                let rest: Vec<Value> = all.iter().filter_map(|one| self.rest_of(one)).collect();
                (!rest.is_empty()).then_some(Value::Array(rest))
            }
            Value::Object(fields) => {
                let rest: Map<String, Value> = fields
                    .iter()
                    .filter_map(|(name, one)| Some((name.clone(), self.rest_of(one)?)))
                    .collect();
                (!rest.is_empty()).then_some(Value::Object(rest))
            }
            _ => Some(value.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_every_usual_form() {
        let check = |value: Value, expected: Option<&str>| {
            let time = parse_time(&value).map(|time| time.to_string());
            assert_eq!(time.as_deref(), expected, "{value}");
        };
        let same = Some("2026-03-02T09:00:00.500Z");
        check(json!("2026-03-02T10:00:00.5+01:00"), same);
        check(json!("2026-03-02 09:00:00.5"), same);
        check(json!(1_772_442_000.5), same);
        check(json!(1_772_442_000_500_i64), same);
        check(json!("1772442000500"), same);
        check(json!(1_772_442_000_500_000_i64), same);
        check(json!(1_772_442_000_500_000_000_i64), same);
        check(json!(7), None);
        check(json!("yesterday"), None);
    }

    #[test]
    fn failures_are_recognised_however_they_are_recorded() {
        for failed in [json!(true), json!(1), json!("error: no file"), json!({ "code": 1 })] {
            assert!(is_failure(&failed), "{failed}");
        }
        for succeeded in [json!(false), json!(0), json!(""), json!("Completed")] {
            assert!(!is_failure(&succeeded), "{succeeded}");
        }
    }
}
