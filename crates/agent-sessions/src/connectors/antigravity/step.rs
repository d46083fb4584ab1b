//! One step of a conversation: a prompt, a reply, a tool's result, a notice. Field numbers are those
//! of the messages `gemini_coder.Step` and `exa.cortex_pb.*`.

use super::generation::{Generation, GenerationTable};
use crate::connectors::formats::protobuf::ProtobufMessage;
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp};

/// Kinds of steps (`CortexStepType`).
const USER_INPUT: u64 = 14;
const PLANNER_RESPONSE: u64 = 15;
const ERROR_MESSAGE: u64 = 17;
const CHECKPOINT: u64 = 23;
const EPHEMERAL_MESSAGE: u64 = 90;
const CONVERSATION_HISTORY: u64 = 98;
const SYSTEM_MESSAGE: u64 = 101;
const AGENCY_TOOL_CALL: u64 = 103;
const LIST_DIRECTORY: u64 = 9;

/// States of a step (`CortexStepStatus`).
const PENDING: u64 = 1;
const RUNNING: u64 = 2;
const DONE: u64 = 3;
const CANCELED: u64 = 6;
const FAILED: u64 = 7;
const GENERATING: u64 = 8;
const WAITING: u64 = 9;
const QUEUED: u64 = 11;

/// The fields of a step that every kind has: kind, status, metadata, error, and what the program
/// shows. The field of the kind itself is another one.
const COMMON_FIELDS: [u64; 5] = [1, 4, 5, 31, 148];

/// The places of a tool's output in a step, by the kind of the step. The best one is first.
const OUTPUTS: &[(u64, &[&[u64]])] = &[
    // Generic: any tool since 1.2.
    (132, &[&[140, 2, 1]]),
    // Change of a file: the file.
    (5, &[&[10, 2, 1, 8]]),
    // Search in files.
    (7, &[&[13, 5], &[13, 3]]),
    // View of a file.
    (8, &[&[14, 4], &[14, 9]]),
    // Command: both streams, as the model was given them, and standard output.
    (21, &[&[28, 21, 1], &[28, 21, 2], &[28, 19, 1], &[28, 4]]),
    // Search for files.
    (25, &[&[34, 11], &[34, 8]]),
    // Tool of an MCP server.
    (38, &[&[47, 3]]),
];

/// The places of a tool's error, by the kind of the step. Such a step is done, not failed.
const ERRORS: &[(u64, &[u64])] = &[(7, &[13, 5]), (25, &[34, 8])];

/// The exit code in a step of the kind command.
const EXIT_CODE: (u64, [u64; 2]) = (21, [28, 6]);

/// A row of the table of steps.
pub(super) struct TrajectoryStep<'a> {
    pub(super) index: u64,
    kind: u64,
    status: u64,
    payload: ProtobufMessage<'a>,
    metadata: ProtobufMessage<'a>,
    error: ProtobufMessage<'a>,
}

/// The columns of a row, as far as they can be read.
#[derive(Default)]
pub(super) struct StepColumns<'a> {
    pub(super) index: u64,
    pub(super) kind: Option<u64>,
    pub(super) status: Option<u64>,
    pub(super) payload: &'a [u8],
    pub(super) metadata: Option<&'a [u8]>,
    pub(super) error: Option<&'a [u8]>,
}

impl<'a> TrajectoryStep<'a> {
    /// Wraps a row. The columns repeat fields of the payload.
    pub(super) fn from_columns(columns: &StepColumns<'a>) -> Self {
        let payload = ProtobufMessage::new(columns.payload);
        let part = |column: Option<&'a [u8]>, field: u64| {
            column.map(ProtobufMessage::new).or_else(|| payload.message(field)).unwrap_or_default()
        };
        Self {
            index: columns.index,
            kind: columns.kind.or_else(|| payload.number(1)).unwrap_or(0),
            status: columns.status.or_else(|| payload.number(4)).unwrap_or(0),
            payload,
            metadata: part(columns.metadata, 5),
            error: part(columns.error, 31),
        }
    }

    /// Returns whether the content of the step can be read to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.payload.is_complete()
    }

    /// Returns the time at which the step was created.
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        self.metadata.time(1)
    }

    /// Returns the id of the trajectory that the step was written for. A fork copies it.
    pub(super) fn trajectory(&self) -> Option<String> {
        self.metadata.text_at(&[20, 1])
    }

    /// Converts the step to a message. A step without content becomes none.
    pub(super) fn into_message(
        self,
        trajectory: &str,
        calls: &mut GenerationTable,
    ) -> Option<Message> {
        let trajectory = self.trajectory().unwrap_or_else(|| trajectory.to_owned());
        let mut message = Message {
            uuid: Some(format!("{trajectory}:{}", self.index)),
            at: self.created_at(),
            ..Message::default()
        };
        match self.kind {
            USER_INPUT => self.fill_prompt(&mut message),
            PLANNER_RESPONSE => self.fill_reply(&mut message),
            CHECKPOINT => self.fill_summary(&mut message),
            SYSTEM_MESSAGE => self.fill_injected(&mut message, 114),
            EPHEMERAL_MESSAGE => self.fill_injected(&mut message, 103),
            CONVERSATION_HISTORY => self.fill_injected(&mut message, 111),
            ERROR_MESSAGE => {
                message.failed = true;
                let error = self.payload.message_at(&[24, 3]).and_then(error_text);
                message.blocks.extend(error.map(Block::Text));
            }
            _ => match self.metadata.message(4) {
                Some(call) => self.fill_result(&mut message, call),
                None => message.blocks.extend(self.unknown_content()),
            },
        }
        if matches!(self.kind, PLANNER_RESPONSE | CHECKPOINT) {
            self.add_call(&mut message, calls);
        }
        (!message.blocks.is_empty() || message.usage.is_some()).then_some(message)
    }

    /// Adds the tokens and the model of the call that wrote the step.
    fn add_call(&self, message: &mut Message, calls: &mut GenerationTable) {
        let repeated = self.metadata.message(9).map(Generation::from_step_usage);
        let named = self.metadata.text_at(&[24, 8]);
        let Some(call) = calls.claim_call(self.index, repeated) else {
            message.model = named;
            return;
        };
        message.model = call.model.clone().or(named);
        message.api_id.clone_from(&call.response_id);
        message.usage = call.into_usage(message.uuid.clone().unwrap_or_default());
    }

    /// `CortexStepUserInput`: the text as typed, and images.
    fn fill_prompt(&self, message: &mut Message) {
        (message.role, message.origin) = (Role::User, Origin::Human);
        let Some(input) = self.payload.message(19) else { return };
        let items: String = input.messages(3).filter_map(|item| item.text(1)).collect();
        let items = Some(items).filter(|items| !items.is_empty());
        let text = input.text(2).or(items).or_else(|| input.text(1));
        message.blocks.extend(text.map(Block::Text));
        message.blocks.extend(input.messages(5).map(|image| {
            let media_type = image.text(2);
            Block::Image(match image.text(1) {
                Some(data) => Image::from_base64(media_type, &data),
                None => Image { media_type, location: image.text(4), ..Image::default() },
            })
        }));
        message.blocks.extend(input.messages(9).map(|media| {
            let media_type = media.text(1);
            Block::Image(match media.bytes(2).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => Image::image_from_bytes(media_type, bytes.to_vec()),
                None => Image { media_type, location: media.text(5), ..Image::default() },
            })
        }));
    }

    /// `CortexStepPlannerResponse`: reasoning, text and tool calls.
    fn fill_reply(&self, message: &mut Message) {
        (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
        message.failed = self.status == FAILED;
        let reply = self.payload.message(20).unwrap_or_default();
        message.stop_reason = reply.number(12).map(stop_reason);
        message.blocks.extend(reply.text(3).map(Block::Thinking));
        message.blocks.extend(reply.text(1).map(Block::Text));
        message.blocks.extend(reply.messages(7).map(|call| Block::ToolCall {
            id: call.text(1).unwrap_or_default(),
            name: call.text(2).unwrap_or_default(),
            input: tool_input(call.text(3)),
        }));
        if message.failed && message.blocks.is_empty() {
            message.blocks.extend(error_text(self.error).map(Block::Text));
        }
    }

    /// `CortexStepCheckpoint`: a summary of the conversation so far.
    fn fill_summary(&self, message: &mut Message) {
        (message.role, message.origin) = (Role::User, Origin::Summary);
        let summary = self.payload.text_at(&[30, 4]).map(Block::Text);
        message.blocks.extend(summary.or_else(|| self.unknown_content()));
    }

    /// Returns the title of the conversation that a checkpoint contains.
    pub(super) fn checkpoint_title(&self) -> Option<String> {
        self.payload.text_at(&[30, 10]).filter(|_| self.kind == CHECKPOINT)
    }

    /// A text that the program addressed to the model.
    fn fill_injected(&self, message: &mut Message, field: u64) {
        (message.role, message.origin) = (Role::User, Origin::Injected);
        message.blocks.extend(self.payload.text_at(&[field, 1]).map(Block::Text));
    }

    /// The result of the tool call that the step carried out.
    fn fill_result(&self, message: &mut Message, call: ProtobufMessage<'_>) {
        (message.role, message.origin) = (Role::Tool, Origin::Tool);
        let output = self.tool_output();
        let is_running = matches!(self.status, PENDING | RUNNING | GENERATING | WAITING | QUEUED);
        if is_running && output.is_none() {
            return;
        }
        let error = error_text(self.error).filter(|_| !is_running);
        let is_error = match self.status {
            FAILED | CANCELED => Some(true),
            DONE => Some(self.has_tool_error(output.as_deref())),
            _ => None,
        };
        let is_known = output.is_some() || error.is_some();
        message.blocks.push(Block::ToolResult {
            call_id: call.text(1).unwrap_or_default(),
            output: output.or(error).unwrap_or_default(),
            is_error,
        });
        if !is_known {
            message.blocks.extend(self.unknown_content());
        }
    }

    fn tool_output(&self) -> Option<String> {
        match self.kind {
            LIST_DIRECTORY => self.listed_names(),
            AGENCY_TOOL_CALL => self.editor_response(),
            _ => {
                let places = OUTPUTS.iter().find(|(kind, _)| *kind == self.kind)?.1;
                places.iter().find_map(|place| self.payload.text_at(place))
            }
        }
    }

    /// `CortexStepListDirectory`: the names in a directory.
    fn listed_names(&self) -> Option<String> {
        let listing = self.payload.message(15)?;
        let names = listing.messages(3).filter_map(|entry| {
            let is_directory = entry.number(2) == Some(1);
            Some(entry.text(1)? + if is_directory { "/" } else { "" })
        });
        Some(names.collect::<Vec<_>>().join("\n")).filter(|names| !names.is_empty())
    }

    /// `CortexStepAgencyToolCall`: the response of a tool that the editor ran, as JSON.
    fn editor_response(&self) -> Option<String> {
        let wrappers = self.payload.message(116)?.messages(4);
        wrappers
            .filter(|any| any.text(1).is_some_and(|name| name.ends_with(".ToolResponse")))
            .find_map(|any| any.text_at(&[2, 2]))
    }

    fn has_tool_error(&self, output: Option<&str>) -> bool {
        let error = ERRORS.iter().find(|(kind, _)| *kind == self.kind);
        error.is_some_and(|(_, place)| self.payload.text_at(place).is_some())
            || self.exit_code(output).is_some_and(|code| code != 0)
    }

    /// Returns the exit code of a command, from its field or from the first lines of its output.
    fn exit_code(&self, output: Option<&str>) -> Option<u64> {
        if self.kind == EXIT_CODE.0 {
            let (number, parents) = EXIT_CODE.1.split_last()?;
            return self.payload.message_at(parents)?.number(*number);
        }
        exit_code_of_output(output?)
    }

    /// Returns the content of a step of unknown form, with field numbers as names.
    fn unknown_content(&self) -> Option<Block> {
        #[derive(serde::Serialize)]
        struct UnknownStep {
            step_type: u64,
            content: Json,
        }
        let mut fields = self.payload.fields();
        fields.find(|(number, _)| !COMMON_FIELDS.contains(number))?;
        let content = self.payload.to_json_without(&COMMON_FIELDS);
        Some(Block::Other(Json::from_value(&UnknownStep { step_type: self.kind, content })))
    }
}

/// Returns the exit code that the first lines of an output name.
pub(super) fn exit_code_of_output(output: &str) -> Option<u64> {
    let said = |line: &str| {
        let code = line.trim().strip_prefix("The command exited with code ")?;
        code.trim_end_matches('.').parse().ok()
    };
    output.lines().take(6).find_map(said)
}

/// Converts the arguments of a call, which are JSON in a text.
fn tool_input(arguments: Option<String>) -> Json {
    let arguments = arguments.unwrap_or_default();
    let raw = serde_json::from_str::<&serde_json::value::RawValue>(&arguments).map(Json::from);
    raw.unwrap_or_else(|_| Json::from_value(&arguments))
}

/// `CortexErrorDetails`: the text for the model, the whole error, a short one, one for the person.
fn error_text(error: ProtobufMessage<'_>) -> Option<String> {
    [9, 3, 2, 1].into_iter().find_map(|field| error.text(field))
}

/// Returns the name of a reason to stop (`exa.codeium_common_pb.StopReason`).
fn stop_reason(number: u64) -> String {
    match number {
        2 => "stop".to_owned(),
        3 => "max_tokens".to_owned(),
        10 => "tool_use".to_owned(),
        13 => "error".to_owned(),
        16 => "aborted".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_in_the_first_lines() {
        let check = |output: &str, code: Option<u64>| {
            assert_eq!(exit_code_of_output(output), code, "{output}");
        };
        check("Created At: x\n\nThe command exited with code 1.\nStdout:\n", Some(1));
        check("The command exited with code 0.", Some(0));
        check("a\nb\nc\nd\ne\nf\nThe command exited with code 2.", None);
        check("", None);
    }
}
