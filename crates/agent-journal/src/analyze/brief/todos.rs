//! Lists of things to do, in the shapes agents write them: a whole list with every call, or one
//! thing created and updated at a time.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::model::{Json, tool_name};

/// A thing that is still to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Todo {
    /// What.
    pub text: String,
    /// How far it is, as the agent put it.
    pub status: String,
    /// The message that says so.
    pub message: u64,
}

/// The list as it stands.
#[derive(Default)]
pub(super) struct Todos {
    /// The last list that was written as a whole.
    list: Vec<Todo>,
    /// Things created one at a time, by their number.
    tasks: BTreeMap<u64, Todo>,
    /// Those whose number is not known yet, by call.
    created: HashMap<String, Todo>,
}

/// A list, under any of its names.
#[derive(Deserialize)]
struct List {
    #[serde(alias = "plan", alias = "todoList", alias = "items")]
    todos: Items,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Items {
    Described(Vec<Item>),
    /// Markdown, with boxes that are ticked or not.
    Written(String),
}

#[derive(Deserialize)]
struct Item {
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
    /// Takes what a call says.
    pub(super) fn call(&mut self, number: u64, (id, name): (&str, &str), input: &Json) {
        match name {
            "TaskCreate" => {
                if let Some(Created { subject }) = input.parse() {
                    let todo = todo(subject, "pending".to_owned(), number);
                    self.created.insert(id.to_owned(), todo);
                }
            }
            "TaskUpdate" => self.update(number, input),
            _ if tool_name(name) == "todo" || name == "update_todo" => {
                if let Some(list) = list(number, input) {
                    self.list = list;
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, number: u64, input: &Json) {
        let Some(Updated { task_id, subject, status }) = input.parse() else { return };
        let Some(task) = task_id.parse().ok().and_then(|id: u64| self.tasks.get_mut(&id)) else {
            return;
        };
        task.message = number;
        task.text = subject.unwrap_or_else(|| std::mem::take(&mut task.text));
        task.status = status.unwrap_or_else(|| std::mem::take(&mut task.status));
    }

    /// Takes the number of a thing that was created from what the tool answered: `Task #3 …`.
    pub(super) fn result(&mut self, call: &str, output: &str) {
        let Some(todo) = self.created.remove(call) else { return };
        let digits = output.split_once('#').map_or("", |(_, rest)| rest);
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        let next = self.tasks.keys().last().map_or(1, |last| last + 1);
        self.tasks.insert(digits.parse().unwrap_or(next), todo);
    }

    /// What is left.
    pub(super) fn finish(self) -> Vec<Todo> {
        let is_open = |todo: &Todo| {
            let done = ["completed", "complete", "done", "cancelled", "canceled", "deleted"];
            !todo.text.trim().is_empty() && !done.contains(&todo.status.as_str())
        };
        self.list.into_iter().chain(self.tasks.into_values()).filter(is_open).collect()
    }
}

fn list(number: u64, input: &Json) -> Option<Vec<Todo>> {
    // Some agents record the input as text.
    let inner = input.parse::<String>();
    let found: Option<List> =
        input.parse().or_else(|| inner.and_then(|text| serde_json::from_str(&text).ok()));
    Some(match found?.todos {
        Items::Described(items) => {
            items.into_iter().map(|item| todo(item.content, item.status, number)).collect()
        }
        Items::Written(text) => text.lines().filter_map(|line| ticked(line, number)).collect(),
    })
}

/// A line of Markdown with a box.
fn ticked(line: &str, number: u64) -> Option<Todo> {
    let rest = line.trim_start().trim_start_matches(['-', '*', ' ']).strip_prefix('[')?;
    let (mark, text) = rest.split_once(']')?;
    let status = if mark.trim().is_empty() { "pending" } else { "completed" };
    Some(todo(text.trim().to_owned(), status.to_owned(), number))
}

fn todo(text: String, status: String, message: u64) -> Todo {
    Todo { text, status, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: &[(&str, &str, &str)], expected: &[&str]) {
        let mut todos = Todos::default();
        for (at, (name, input, output)) in calls.iter().enumerate() {
            let id = at.to_string();
            todos.call(at as u64 + 1, (&id, name), &serde_json::from_str(input).unwrap());
            todos.result(&id, output);
        }
        let left: Vec<String> = todos
            .finish()
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
