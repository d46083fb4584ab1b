//! A running dashboard, and ways to ask it.

use std::borrow::Borrow;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::Test;

/// A running dashboard over a home. It ends with the test.
pub struct Server<T = Test> {
    child: Child,
    /// Where it listens.
    pub address: String,
    /// Where its first page is.
    pub url: String,
    pub test: T,
}

/// What was answered.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl<T: Borrow<Test>> Server<T> {
    pub fn start(test: T, args: &[&str]) -> Self {
        let all = ["serve", "--port", "0"].iter().chain(args);
        let mut command = test.borrow().command(all);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let address = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Self { child, address, url, test }
    }

    pub fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = all[end + 4..].to_vec();
        Answer { status, head, body }
    }

    /// Asks with further lines in the head.
    pub fn ask(&self, path: &str, lines: &str) -> Answer {
        let host = &self.address;
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n"
        ))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(path, "")
    }

    #[track_caller]
    pub fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.head.contains("content-type: text/html"), "{}", answer.head);
        answer.text()
    }

    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The id of some session.
    pub fn some_id(&self) -> String {
        let all = self.json("/api/v1/sessions?limit=1");
        all["sessions"][0]["id"].as_str().unwrap().to_owned()
    }
}

impl Server {
    /// A server over the history of two agents, read before it starts.
    pub fn of_two_agents() -> Self {
        let test = Test::new().home("two-agents");
        test.aj("index");
        Self::start(test, &[])
    }
}

impl<T> Drop for Server<T> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The status and the body.
    pub fn told(&self) -> (u16, String) {
        (self.status, self.text())
    }
}

/// Runs something again if a moment ended meanwhile: pages are not kept any longer.
pub fn within_a_moment<T>(run: impl Fn() -> T) -> T {
    let moment = || jiff::Timestamp::now().as_second().div_euclid(30);
    loop {
        let (before, came) = (moment(), run());
        if moment() == before {
            return came;
        }
    }
}
