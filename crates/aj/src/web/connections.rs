//! Limits the number of open connections, and the time that each may take.
//!
//! A client that is slow, silent or greedy loses its connection, so that the owner's browser never
//! waits for it. A new connection is always accepted: when there are too many, the least valuable
//! one is closed. A connection is proven, and thus more valuable, once `guard` has accepted a
//! request on it, which includes checking the secret where one is needed.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// Most bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Delay after the system failed to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// Limits on the number of connections and on the time that each may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections in all; a browser opens six.
    pub(super) connections: usize,
    /// Connections on which no request was accepted yet.
    pub(super) unproven: usize,
    /// Connections from one network address, except this machine's own, which all local clients
    /// share.
    pub(super) per_address: usize,
    /// Open event streams.
    pub(super) event_streams: usize,
    /// Most time until the head of a request has arrived, from the connection or from the end of
    /// the previous answer.
    pub(super) head: Duration,
    /// Most time of an answer, from the head of its request to its last byte.
    pub(super) answer: Duration,
    /// Most time without a byte written on an event stream.
    pub(super) silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            unproven: 64,
            per_address: 64,
            event_streams: 32,
            head: Duration::from_secs(15),
            answer: Duration::from_mins(5),
            silence: Duration::from_mins(1),
        }
    }
}

/// All open connections.
pub(super) struct Connections {
    limits: Limits,
    registry: Mutex<ConnectionRegistry>,
}

#[derive(Default)]
struct ConnectionRegistry {
    next_id: u64,
    /// By id, so the oldest come first.
    open: BTreeMap<u64, OpenConnection>,
}

/// The registered state of an open connection.
struct OpenConnection {
    /// The address it comes from; `None` for this machine's own.
    address: Option<IpAddr>,
    /// Whether a request on it was accepted.
    is_proven: bool,
    stage: ConnectionStage,
    /// Start of the current stage.
    since: Instant,
    /// Time of the last write that the client accepted.
    last_write: Instant,
    /// Notified of every change of the stage, and of eviction.
    changed: Arc<Notify>,
    /// Ends the event stream on the connection.
    stream_end: Arc<Notify>,
}

/// The stage of a connection. Connections in the first stage are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionStage {
    /// Waits for a request.
    Reading,
    /// Streams events.
    Following,
    /// Answers a request.
    Answering,
}

impl OpenConnection {
    /// Returns the time at which the connection is closed unless its stage changes.
    fn stage_deadline(&self, limits: &Limits) -> Instant {
        match self.stage {
            // The end of the previous answer may still be in transit.
            ConnectionStage::Reading if self.is_proven => {
                let taken = self.since.max(self.last_write) + limits.head;
                taken.min(self.since + limits.answer)
            }
            ConnectionStage::Reading => self.since + limits.head,
            ConnectionStage::Following => self.since.max(self.last_write) + limits.silence,
            ConnectionStage::Answering => self.since + limits.answer,
        }
    }
}

impl ConnectionRegistry {
    /// Closes the least valuable connection among those that match.
    fn evict_connection(&mut self, among: impl Fn(&OpenConnection) -> bool) {
        let candidates = self.open.iter().filter(|(_, entry)| among(entry));
        let rank = |entry: &OpenConnection| (entry.is_proven, entry.stage, entry.since);
        let least = candidates.min_by_key(|(id, entry)| (rank(entry), **id)).map(|(id, _)| *id);
        if let Some(entry) = least.and_then(|id| self.open.remove(&id)) {
            entry.changed.notify_one();
        }
    }

    fn count_connections(&self, among: impl Fn(&OpenConnection) -> bool) -> usize {
        self.open.values().filter(|entry| among(entry)).count()
    }
}

impl Connections {
    /// Creates an empty registry with its limits.
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, registry: Mutex::default() })
    }

    /// Registers a connection from an address; another one may be evicted for it.
    fn register_connection(self: &Arc<Self>, address: IpAddr) -> Arc<Slot> {
        let (now, address) = (Instant::now(), counted_address(address));
        let mut registry = self.lock_registry();
        let is_same = |entry: &OpenConnection| entry.address == address;
        if address.is_some() && registry.count_connections(is_same) >= self.limits.per_address {
            registry.evict_connection(is_same);
        }
        if registry.count_connections(|entry| !entry.is_proven) >= self.limits.unproven {
            registry.evict_connection(|entry| !entry.is_proven);
        }
        if registry.open.len() >= self.limits.connections {
            registry.evict_connection(|_| true);
        }
        let id = registry.next_id;
        registry.next_id += 1;
        let changed = Arc::new(Notify::new());
        let entry = OpenConnection {
            address,
            is_proven: false,
            stage: ConnectionStage::Reading,
            since: now,
            last_write: now,
            changed: Arc::clone(&changed),
            stream_end: Arc::default(),
        };
        registry.open.insert(id, entry);
        Arc::new(Slot { id, changed, connections: Arc::clone(self) })
    }

    fn lock_registry(&self) -> MutexGuard<'_, ConnectionRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of one connection.
pub(super) struct Slot {
    id: u64,
    changed: Arc<Notify>,
    connections: Arc<Connections>,
}

impl Slot {
    /// Records that a request on the connection was accepted.
    pub(super) fn mark_accepted(&self) {
        if let Some(entry) = self.connections.lock_registry().open.get_mut(&self.id) {
            entry.is_proven = true;
        }
    }

    /// Records that the connection streams events from now on, and returns the notification that
    /// ends the stream. Above the limit, the oldest stream ends.
    pub(super) fn mark_streaming(&self) -> Arc<Notify> {
        self.enter_stage(ConnectionStage::Following);
        let mut registry = self.connections.lock_registry();
        let is_following = |entry: &OpenConnection| entry.stage == ConnectionStage::Following;
        if registry.count_connections(is_following) > self.connections.limits.event_streams {
            let streams = registry.open.values_mut().filter(|entry| is_following(entry));
            if let Some(oldest) = streams.min_by_key(|entry| entry.since) {
                // Its answer is completed, and it no longer counts as a stream.
                (oldest.stage, oldest.since) = (ConnectionStage::Answering, Instant::now());
                oldest.stream_end.notify_one();
            }
        }
        let own = registry.open.get(&self.id);
        own.map(|entry| Arc::clone(&entry.stream_end)).unwrap_or_default()
    }

    fn enter_stage(&self, stage: ConnectionStage) {
        if let Some(entry) = self.connections.lock_registry().open.get_mut(&self.id) {
            (entry.stage, entry.since) = (stage, Instant::now());
            // The end of one stream does not apply to the next one.
            if stage == ConnectionStage::Reading {
                entry.stream_end = Arc::default();
            }
            self.changed.notify_one();
        }
    }

    fn note_write(&self) {
        if let Some(entry) = self.connections.lock_registry().open.get_mut(&self.id) {
            entry.last_write = Instant::now();
        }
    }

    /// Returns the time at which the connection is closed unless its stage changes; `None` once it
    /// was evicted.
    fn connection_deadline(&self) -> Option<Instant> {
        let registry = self.connections.lock_registry();
        registry.open.get(&self.id).map(|entry| entry.stage_deadline(&self.connections.limits))
    }

    /// Waits until the connection has to be closed: it was evicted, or its deadline passed.
    async fn until_over(&self) {
        loop {
            let Some(deadline) =
                self.connection_deadline().filter(|deadline| *deadline > Instant::now())
            else {
                return;
            };
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock_registry().open.remove(&self.id);
    }
}

/// Returns the address that connections are counted by. In IPv6 that is the /64 network, because
/// one machine has a whole network of addresses.
fn counted_address(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return None;
    }
    Some(match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    })
}

/// Accepts and serves connections forever.
pub(super) async fn serve_connections(
    listener: TcpListener,
    connections: Arc<Connections>,
    router: Router,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let slot = connections.register_connection(peer.ip());
                tokio::spawn(serve_connection(stream, slot, router.clone()));
                // Existing connections make progress before the next one is accepted.
                tokio::task::yield_now().await;
            }
            Err(error) if is_of_client(&error) => {}
            Err(_) => sleep(ACCEPT_RETRY).await,
        }
    }
}

/// Returns whether accepting failed because the client has gone away.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn serve_connection(stream: TcpStream, slot: Arc<Slot>, router: Router) {
    // Small answers are sent without delay.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&slot));
        router.call(request)
    });
    let io = TokioIo::new(NotedStream { stream, slot: Arc::clone(&slot) });
    let connection =
        http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).serve_connection(io, service);
    tokio::select! {
        _ = connection => {}
        () = slot.until_over() => {}
    }
}

/// Returns the registration of the connection that a request came by.
pub(super) fn slot_of(request: &Request) -> Option<Arc<Slot>> {
    request.extensions().get::<Arc<Slot>>().cloned()
}

/// Records on the connection that its request is being answered.
pub(super) fn mark_answering(slot: &Slot) {
    slot.enter_stage(ConnectionStage::Answering);
}

/// Wraps a response so that its end is recorded on the connection.
pub(super) fn track_response_end(slot: Arc<Slot>, response: Response) -> Response {
    response.map(|body| Body::new(NotedBody { body, slot }))
}

/// A TCP stream that records successful writes.
struct NotedStream {
    stream: TcpStream,
    slot: Arc<Slot>,
}

impl NotedStream {
    fn note_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.slot.note_write();
        }
        written
    }
}

impl AsyncRead for NotedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for NotedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of an answer. When it is dropped, the connection waits for its next request.
struct NotedBody {
    body: Body,
    slot: Arc<Slot>,
}

impl HttpBody for NotedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for NotedBody {
    fn drop(&mut self) {
        self.slot.enter_stage(ConnectionStage::Reading);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Extension;
    use axum::middleware::{Next, from_fn};
    use axum::routing::get;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

    use super::*;

    /// Never reached in a test.
    const LONG: Duration = Duration::from_hours(1);

    /// Reached while a test waits for its effect.
    const SHORT: Duration = Duration::from_millis(1);

    fn patient() -> Limits {
        Limits { head: LONG, answer: LONG, silence: LONG, ..Limits::default() }
    }

    /// Accepts every request except those for `/secret`.
    async fn let_through(request: Request, next: Next) -> Response {
        let slot = slot_of(&request).unwrap();
        mark_answering(&slot);
        if request.uri().path() != "/secret" {
            slot.mark_accepted();
        }
        let response = next.run(request).await;
        track_response_end(slot, response)
    }

    async fn follow(Extension(slot): Extension<Arc<Slot>>) -> Body {
        let end = slot.mark_streaming();
        Body::from_stream(futures_util::stream::unfold(0, move |count| {
            let end = Arc::clone(&end);
            async move {
                if count > 0 {
                    end.notified().await;
                    return None;
                }
                Some((Ok::<_, std::convert::Infallible>(Bytes::from("data\n")), 1))
            }
        }))
    }

    /// Starts a server with the given limits.
    async fn start(limits: Limits) -> (SocketAddr, Arc<Connections>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Connections::new(limits));
        let router = Router::new()
            .route("/", get(async || "page"))
            .route("/secret", get(async || "no"))
            .route("/events", get(follow))
            .route("/stuck", get(async || std::future::pending::<()>().await))
            .layer(from_fn(let_through));
        tokio::spawn(serve_connections(listener, Arc::clone(&connections), router));
        (address, connections)
    }

    async fn connect(address: SocketAddr, bytes: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    fn get_of(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
    }

    /// Sends a request on a connection of its own and returns the status line.
    async fn ask(address: SocketAddr, path: &str) -> String {
        first_line(&mut connect(address, &get_of(path)).await).await
    }

    async fn first_line(stream: &mut BufReader<TcpStream>) -> String {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        line
    }

    /// Waits until the server has closed a connection.
    async fn is_closed(mut stream: BufReader<TcpStream>) {
        let mut rest = Vec::new();
        // A connection that is reset counts as closed too.
        let _ = stream.read_to_end(&mut rest).await;
    }

    #[tokio::test]
    async fn a_head_that_takes_too_long_is_not_waited_for() {
        let (address, _) = start(Limits { head: SHORT, ..patient() }).await;
        is_closed(connect(address, "").await).await;
        is_closed(connect(address, "GET / HTTP/1.1\r\nhost:").await).await;
    }

    #[tokio::test]
    async fn a_connection_is_not_kept_for_a_next_request_that_does_not_come() {
        let (address, _) = start(Limits { head: SHORT, ..patient() }).await;
        let mut stream = connect(address, "").await;
        // If the first deadline passes before the request is sent, this is the case of a silent
        // client.
        if stream.write_all(get_of("/").as_bytes()).await.is_ok() {
            is_closed(stream).await;
        }
    }

    #[tokio::test]
    async fn an_answer_that_takes_too_long_is_given_up() {
        let (address, _) = start(Limits { answer: SHORT, ..patient() }).await;
        is_closed(connect(address, &get_of("/stuck")).await).await;
    }

    #[tokio::test]
    async fn many_silent_connections_leave_room_for_a_page() {
        let (address, connections) = start(Limits { unproven: 4, ..patient() }).await;
        let mut kept = connect(address, &get_of("/")).await;
        assert_eq!(first_line(&mut kept).await, "HTTP/1.1 200 OK\r\n");
        let oldest = connect(address, "GET /").await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(connect(address, "GET /").await);
            assert_eq!(ask(address, "/").await, "HTTP/1.1 200 OK\r\n");
        }
        is_closed(oldest).await;
        assert!(connections.lock_registry().count_connections(|entry| !entry.is_proven) <= 4);
        // A proven connection is not evicted.
        let mut body = [0; 512];
        let read = kept.read(&mut body).await.unwrap();
        assert!(String::from_utf8_lossy(&body[..read]).contains("content-length: 4"));
        kept.write_all(get_of("/").as_bytes()).await.unwrap();
        let mut lines = kept.lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("200 OK") {
                return;
            }
        }
        panic!("the connection was closed");
    }

    #[tokio::test]
    async fn those_who_are_refused_never_take_a_place() {
        let (address, connections) = start(Limits { unproven: 2, ..patient() }).await;
        let mut refused = Vec::new();
        for _ in 0..10 {
            let mut stream = connect(address, &get_of("/secret")).await;
            first_line(&mut stream).await;
            refused.push(stream);
        }
        assert!(connections.lock_registry().open.len() <= 2);
        assert_eq!(ask(address, "/").await, "HTTP/1.1 200 OK\r\n");
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_event_streams_ends() {
        let (address, connections) = start(Limits { event_streams: 3, ..patient() }).await;
        let mut streams = Vec::new();
        for _ in 0..20 {
            let mut stream = connect(address, &get_of("/events")).await;
            assert_eq!(first_line(&mut stream).await, "HTTP/1.1 200 OK\r\n");
            streams.push(stream);
        }
        // The first stream is ended.
        let mut lines = streams.swap_remove(0).lines();
        while lines.next_line().await.unwrap().is_some_and(|line| line != "0") {}
        let following = |entry: &OpenConnection| entry.stage == ConnectionStage::Following;
        assert!(connections.lock_registry().count_connections(following) <= 3);
        assert_eq!(ask(address, "/").await, "HTTP/1.1 200 OK\r\n");
    }

    #[tokio::test]
    async fn an_address_has_a_share_unless_it_is_this_machine() {
        let connections = Connections::new(Limits { per_address: 2, connections: 10, ..patient() });
        let enter = |address: &str, times: usize| -> Vec<Arc<Slot>> {
            (0..times).map(|_| connections.register_connection(address.parse().unwrap())).collect()
        };
        let open = || connections.lock_registry().open.len();
        let own = enter("127.0.0.1", 5);
        assert_eq!(open(), 5);
        let other = enter("192.0.2.7", 5);
        assert_eq!(open(), 7);
        let networked = [enter("2001:db8::1", 3), enter("2001:db8::2", 3)];
        assert_eq!(open(), 9, "all addresses of one network are one");
        drop(networked);
        assert_eq!(open(), 7);
        // The oldest connection of the address was evicted.
        tokio::join!(other[0].until_over(), other[2].until_over());
        assert!(other[4].connection_deadline().is_some());
        // When the limit is reached, a connection without an accepted request is evicted first.
        own[0].mark_accepted();
        let more = enter("127.0.0.1", 8);
        assert_eq!(open(), 10);
        assert!(own[0].connection_deadline().is_some() && own[1].connection_deadline().is_none());
        drop((own, other, more));
        assert_eq!(open(), 0);
    }
}
