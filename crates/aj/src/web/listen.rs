//! Binds the socket, with readable errors, and opens the browser.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Result, anyhow};
use maud::{DOCTYPE, html};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Binds an address.
pub(super) async fn bind_address(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| bind_error(address, error))
}

fn bind_error(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "port {port} is in use, perhaps by another `aj serve`; use `--port 0` to pick a free one"
        ),
        io::ErrorKind::PermissionDenied => {
            anyhow!("no permission to use port {port}; use `--port 0` to pick a free one")
        }
        io::ErrorKind::AddrNotAvailable => {
            anyhow!("{} is not an address of this machine", address.ip())
        }
        _ => anyhow!(error).context(format!("could not listen on {address}")),
    }
}

/// Prints the URL of the dashboard.
pub(super) fn announce_url(url: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()?;
    crate::error::print_remark("press Ctrl-C to stop");
    Ok(())
}

/// Opens the dashboard in a browser. Other users can see the arguments of every process, so a URL
/// with a secret is passed in a file that only this user can read. The file exists until the
/// returned directory is dropped.
pub(super) fn open_dashboard(url: &str, has_secret: bool) -> Option<TempDir> {
    let file = if has_secret { redirect_file(url).ok() } else { None };
    let is_open = match &file {
        Some((_, path)) => open_browser(path.as_os_str()),
        None => !has_secret && open_browser(OsStr::new(url)),
    };
    if !is_open {
        crate::error::print_warning("could not open a browser; open the URL above yourself");
    }
    file.map(|(directory, _)| directory)
}

/// Writes a page that redirects to a URL into a directory that only this user can read.
fn redirect_file(url: &str) -> io::Result<(TempDir, std::path::PathBuf)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("aj-open-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let directory = builder.tempdir()?;
    let path = directory.path().join("dashboard.html");
    let page = html! {
        (DOCTYPE)
        meta charset="utf-8";
        meta name="referrer" content="no-referrer";
        meta http-equiv="refresh" content={ "0; url=" (url) };
        title { "aj" }
        a href=(url) { "Continue to the dashboard" }
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&path)?.write_all(page.0.as_bytes())?;
    Ok((directory, path))
}

/// Opens a URL or a file with the system's default program.
fn open_browser(what: &OsStr) -> bool {
    let (program, before): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(before).arg(what).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
