//! A client of `aj mcp`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{Test, keys, text};

/// A client that speaks the protocol by hand.
pub struct Client {
    pub child: Child,
    pub to: Option<ChildStdin>,
    pub from: BufReader<ChildStdout>,
    pub number: u64,
}

impl Client {
    pub fn start(test: &Test, name: &str, words: &str) -> Self {
        Self::of(&mut test.command(words.split(' ')), name)
    }

    pub fn of(command: &mut Command, name: &str) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, to, from, number: 0 };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        });
        let answer = client.request("initialize", &params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "aj", "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    pub fn send(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{message}").unwrap();
        to.flush().unwrap();
    }

    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let id = self.number;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool: whether it failed, and its said.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> (bool, String) {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        let content = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(content.len(), 1, "{answer}");
        assert_eq!(keys(&content[0]), ["text", "type"], "{answer}");
        (result["isError"] == true, text(&content[0]["text"]))
    }

    #[track_caller]
    pub fn ask(&mut self, tool: &str, arguments: &Value) -> String {
        let (failed, said) = self.call(tool, arguments);
        assert!(!failed, "{said}");
        said
    }

    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let (failed, said) = self.call(tool, arguments);
        assert!(failed, "{said}");
        said
    }

    /// Hangs up; the program ends well and has nothing to complain about.
    pub fn end(self) {
        assert_eq!(self.end_with_warnings(), "");
    }

    /// Hangs up; the program ends well. Returns what it printed to standard error.
    pub fn end_with_warnings(mut self) -> String {
        drop(self.to.take());
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        stderr
    }
}
