//! The socket: bound with a message people understand, and never held by a client that is silent.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Result, anyhow};
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// How many connections are held at once; a browser opens six.
const CONNECTIONS: usize = 128;

/// How long a connection may be silent both ways.
const SILENCE: Duration = Duration::from_secs(30);

/// A bound socket.
pub(super) struct Socket {
    inner: TcpListener,
    address: SocketAddr,
    places: Arc<Semaphore>,
}

/// A connection that ends when nothing has come or gone for a while.
pub(super) struct Connection {
    inner: TcpStream,
    limit: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

/// Binds an address.
pub(super) async fn bind(address: SocketAddr) -> Result<Socket> {
    let inner = TcpListener::bind(address).await.map_err(|error| refused(address, error))?;
    let address = inner.local_addr()?;
    Ok(Socket { inner, address, places: Arc::new(Semaphore::new(CONNECTIONS)) })
}

fn refused(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "port {port} is in use, perhaps by another `aj serve`: try `--port 0` for a free one"
        ),
        io::ErrorKind::PermissionDenied => {
            anyhow!("port {port} is not yours to use: try `--port 0` for a free one")
        }
        io::ErrorKind::AddrNotAvailable => {
            anyhow!("{} is not an address of this machine", address.ip())
        }
        _ => anyhow!(error).context(format!("could not listen on {address}")),
    }
}

/// Tells where the dashboard is, and opens it if that is wanted.
pub(super) fn announce(url: &str, open: bool) -> Result<()> {
    use std::io::Write;
    let mut out = anstream::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()?;
    crate::error::remark("ctrl-c ends it");
    if open && !open_browser(url) {
        crate::error::warn("could not find a browser to open; open the address above yourself");
    }
    Ok(())
}

/// Opens an address with what the system has for it.
fn open_browser(url: &str) -> bool {
    let (program, before): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(before).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

impl Socket {
    /// The address that was bound.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener for Socket {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let (inner, address) = Listener::accept(&mut self.inner).await;
        // Small answers should not wait for each other.
        let _ = inner.set_nodelay(true);
        (Connection { inner, limit: Box::pin(sleep(SILENCE)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connection {
    /// Passes on what the stream said, and counts the silence.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        said: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if said.is_ready() {
            self.limit.as_mut().reset(Instant::now() + SILENCE);
            return said;
        }
        match self.limit.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.watch(context, said)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch(context, said)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
