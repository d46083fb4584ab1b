//! `bench --serve`: measures response times of the dashboard with several concurrent clients, and
//! its memory.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::MIB;
use super::report::{Row, memory, time};

/// Number of concurrent clients.
const CLIENTS: usize = 8;

/// Requests of each client.
const QUESTIONS: usize = 25;

/// Time after which the dashboard has released the memory of the requests.
const REST: Duration = Duration::from_secs(10);

/// Maximum size of a page as it is sent, in bytes.
const LARGEST: usize = 300_000;

/// Words that occur in many sessions of the generated history.
const WORDS: [&str; 8] =
    ["error", "test", "function", "cache", "retry", "file", "query", "session"];

/// A page of the dashboard to request.
struct Page {
    what: &'static str,
    limit: Duration,
    /// Returns the address of the n-th request.
    address: fn(usize) -> String,
}

const PAGES: [Page; 6] = [
    Page { what: "sessions", limit: Duration::from_millis(50), address: |_| "/".to_owned() },
    Page {
        what: "sessions, another page each time",
        limit: Duration::from_millis(50),
        address: |number| format!("/?sort=tokens&offset={number}"),
    },
    Page {
        what: "search, common word",
        limit: Duration::from_millis(50),
        address: |_| "/search?q=error".to_owned(),
    },
    Page {
        what: "search, another word or page each time",
        limit: Duration::from_millis(50),
        address: |number| {
            let (one, other) = (WORDS[number % WORDS.len()], number / WORDS.len());
            format!("/search?q={one}&offset={other}")
        },
    },
    Page {
        what: "analytics",
        limit: Duration::from_millis(150),
        address: |_| "/analytics".to_owned(),
    },
    Page {
        what: "analytics, another span each time",
        limit: Duration::from_millis(150),
        address: |number| format!("/analytics?since={}d", number + 2),
    },
];

/// A running dashboard, which is stopped when the value is dropped.
pub(crate) struct Server {
    child: Child,
    /// The address of the dashboard.
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("could not start aj")?;
        let output = child.stdout.take().context("the server says nothing")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }

    /// Returns the resident memory in bytes, if the system reports it.
    fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kibibytes * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures a dashboard that has just been started.
pub(crate) fn measure(server: &Server) -> Result<Vec<Row>> {
    let host = server.url.trim_start_matches("http://").trim_end_matches('/');
    Client::connect(host)?.get("/sources")?;
    let idle = server.memory();
    let mut rows = pages(host)?;
    if let Some(bytes) = server.memory() {
        rows.push(Row::new("dashboard, in use", memory(bytes)));
    }
    eprintln!("serve, at rest");
    std::thread::sleep(REST);
    let limits = [("idle", idle, 30 * MIB), ("after use", server.memory(), 80 * MIB)];
    for (what, bytes, limit) in limits {
        if let Some(bytes) = bytes {
            let row = Row::new(&format!("dashboard, {what}"), memory(bytes));
            rows.push(row.within(memory(limit), bytes < limit));
        }
    }
    Ok(rows)
}

fn pages(host: &str) -> Result<Vec<Row>> {
    PAGES.iter().map(|page| crowd(host, page)).collect()
}

/// Requests a page repeatedly from all clients.
fn crowd(host: &str, page: &Page) -> Result<Row> {
    eprintln!("serve, {}", page.what);
    let asked = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || ask(host, page, client * QUESTIONS)))
            .collect();
        let answers = clients.into_iter().map(|one| one.join().expect("a client does not panic"));
        answers.collect::<Result<Vec<_>>>()
    })?;
    let mut times: Vec<Duration> = asked.iter().flatten().map(|(time, _)| *time).collect();
    times.sort_unstable();
    let largest = asked.iter().flatten().map(|(_, size)| *size).max().unwrap_or(0);
    ensure!(largest <= LARGEST, "{}: a page of {largest} bytes", page.what);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    let ours = format!("{} (median {})", time(at(95)), time(at(50)));
    let what = format!("{}, p95 of {CLIENTS} clients, {} kB", page.what, largest / 1000);
    Ok(Row::new(&what, ours).within(time(page.limit), at(95) < page.limit))
}

/// Sends the requests of one client. Returns time and size of each response.
fn ask(host: &str, page: &Page, first: usize) -> Result<Vec<(Duration, usize)>> {
    let mut client = Client::connect(host)?;
    let mut answers = Vec::new();
    for number in first..first + QUESTIONS {
        let started = Instant::now();
        let size = client.get(&(page.address)(number))?;
        answers.push((started.elapsed(), size));
    }
    Ok(answers)
}

/// A persistent HTTP connection.
struct Client<'h> {
    host: &'h str,
    stream: BufReader<TcpStream>,
}

impl<'h> Client<'h> {
    fn connect(host: &'h str) -> Result<Self> {
        let stream = TcpStream::connect(host).context("could not reach the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { host, stream: BufReader::new(stream) })
    }

    /// Requests an address and returns the length of the response.
    fn get(&mut self, address: &str) -> Result<usize> {
        let Self { host, stream } = self;
        let request =
            format!("GET {address} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 200"), "{address}: {}", line.trim());
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "{address}: the answer ends too soon");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(length)
    }
}
