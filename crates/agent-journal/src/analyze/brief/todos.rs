//! Tracks to-do lists in the forms agents write them: a complete list with every call, or single
//! items that are created and updated.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::model::{Json, tool_name};

/// An open item of a to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Todo {
    /// The text of the item.
    pub text: String,
    /// The status, as the agent named it.
    pub status: String,
    /// The number of the message with this status.
    pub message: u64,
}

/// The current to-do list.
#[derive(Default)]
pub(super) struct Todos {
    /// The last list that was written as a whole.
    list: Vec<Todo>,
    /// Items created one at a time, by their number.
    tasks: BTreeMap<u64, Todo>,
    /// Items whose number is not known yet, by call id.
    created: HashMap<String, Todo>,
}

/// A to-do list under any of its field names.
#[derive(Deserialize)]
struct TodoList {
    #[serde(alias = "plan", alias = "todoList", alias = "items")]
    todos: Items,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Items {
    Described(Vec<TodoItem>),
    /// Markdown, with checkboxes.
    Written(String),
}

#[derive(Deserialize)]
struct TodoItem {
    #[serde(alias = "step", alias = "title", alias = "description", alias = "text")]
    content: String,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct Created {
    subject: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Updated {
    task_id: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

impl Todos {
    /// Applies a tool call.
    pub(super) fn apply_call(&mut self, number: u64, id: &str, name: &str, input: &Json) {
        match name {
            "TaskCreate" => {
                if let Some(Created { subject }) = input.parse_as() {
                    let todo = new_todo(subject, "pending".to_owned(), number);
                    self.created.insert(id.to_owned(), todo);
                }
            }
            "TaskUpdate" => self.apply_update(number, input),
            _ if tool_name(name) == "todo" || name == "update_todo" => {
                if let Some(list) = parse_todo_list(number, input) {
                    self.list = list;
                }
            }
            _ => {}
        }
    }

    fn apply_update(&mut self, number: u64, input: &Json) {
        let Some(Updated { task_id, subject, status }) = input.parse_as() else { return };
        let Some(task) = task_id.parse().ok().and_then(|id: u64| self.tasks.get_mut(&id)) else {
            return;
        };
        task.message = number;
        task.text = subject.unwrap_or_else(|| std::mem::take(&mut task.text));
        task.status = status.unwrap_or_else(|| std::mem::take(&mut task.status));
    }

    /// Reads the number of a created item from the output of the tool: `Task #3 …`.
    pub(super) fn read_created_number(&mut self, call: &str, output: &str) {
        let Some(todo) = self.created.remove(call) else { return };
        let digits = output.split_once('#').map_or("", |(_, rest)| rest);
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        let next = self.tasks.keys().last().map_or(1, |last| last + 1);
        self.tasks.insert(digits.parse().unwrap_or(next), todo);
    }

    /// Returns the open items.
    pub(super) fn into_open_items(self) -> Vec<Todo> {
        let is_open = |todo: &Todo| {
            let done = ["completed", "complete", "done", "cancelled", "canceled", "deleted"];
            !todo.text.trim().is_empty() && !done.contains(&todo.status.as_str())
        };
        self.list.into_iter().chain(self.tasks.into_values()).filter(is_open).collect()
    }
}

fn parse_todo_list(number: u64, input: &Json) -> Option<Vec<Todo>> {
    // Some agents record the input as text.
    let inner = input.parse_as::<String>();
    let found: Option<TodoList> =
        input.parse_as().or_else(|| inner.and_then(|text| serde_json::from_str(&text).ok()));
    Some(match found?.todos {
        Items::Described(items) => {
            items.into_iter().map(|item| new_todo(item.content, item.status, number)).collect()
        }
        Items::Written(text) => {
            text.lines().filter_map(|line| parse_checkbox(line, number)).collect()
        }
    })
}

/// Parses a line of Markdown with a checkbox.
fn parse_checkbox(line: &str, number: u64) -> Option<Todo> {
    let rest = line.trim_start().trim_start_matches(['-', '*', ' ']).strip_prefix('[')?;
    let (mark, text) = rest.split_once(']')?;
    let status = if mark.trim().is_empty() { "pending" } else { "completed" };
    Some(new_todo(text.trim().to_owned(), status.to_owned(), number))
}

fn new_todo(text: String, status: String, message: u64) -> Todo {
    Todo { text, status, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: &[(&str, &str, &str)], expected: &[&str]) {
        let mut todos = Todos::default();
        for (at, (name, input, output)) in calls.iter().enumerate() {
            let id = at.to_string();
            todos.apply_call(at as u64 + 1, &id, name, &serde_json::from_str(input).unwrap());
            todos.read_created_number(&id, output);
        }
        let left: Vec<String> = todos
            .into_open_items()
            .into_iter()
            .map(|todo| format!("{} {} #{}", todo.text, todo.status, todo.message))
            .collect();
        assert_eq!(left, expected);
    }

    #[test]
    fn the_last_list_holds_and_what_is_done_is_left_out() {
        let list = |status: &str| {
            format!(
                r#"{{"todos":[{{"content":"a","status":"{status}"}},{{"content":"b","status":"pending"}}]}}"#
            )
        };
        let (first, second) = (list("in_progress"), list("completed"));
        check(&[("TodoWrite", &first, ""), ("TodoWrite", &second, "")], &["b pending #2"]);
    }

    #[test]
    fn every_shape_of_list_is_read() {
        check(
            &[("update_plan", r#"{"plan":[{"step":"s","status":"in_progress"}]}"#, "")],
            &["s in_progress #1"],
        );
        check(
            &[(
                "manage_todo_list",
                r#""{\"todoList\":[{\"title\":\"t\",\"status\":\"not-started\"}]}""#,
                "",
            )],
            &["t not-started #1"],
        );
        check(
            &[("update_todo", r#"{"todos":"- [x] done\n- [ ] open"}"#, "")],
            &["open pending #1"],
        );
    }

    #[test]
    fn things_created_one_at_a_time_are_updated_by_their_number() {
        let create = |subject: &str| format!(r#"{{"subject":"{subject}"}}"#);
        check(
            &[
                ("TaskCreate", &create("one"), "Task #1 created successfully: one"),
                ("TaskCreate", &create("two"), "Task #2 created successfully: two"),
                ("TaskUpdate", r#"{"taskId":"1","status":"completed"}"#, "Updated task #1 status"),
                (
                    "TaskUpdate",
                    r#"{"taskId":"2","status":"in_progress"}"#,
                    "Updated task #2 status",
                ),
            ],
            &["two in_progress #4"],
        );
    }
}
