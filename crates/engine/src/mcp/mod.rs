//! `sweep mcp`: a server of tools for agents, by the Model Context Protocol, on standard input and output or on a loopback
//! address.
//!
//! An agent reads, plans and runs studies within limits that the user sets when the server starts: a folder (`project.rs`), permissions and
//! a budget (`session.rs`). Every call is in a journal (`journal.rs`). A run is a separate process that outlives the server and keeps the
//! limits (`bounded.rs`), so a client that disconnects loses nothing. The tools are in `cli/mcp`; `tool.rs` has their types and errors.

mod account;
mod bounded;
mod handler;
mod http;
mod journal;
mod page;
mod part;
mod project;
mod resources;
mod session;
mod tool;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rmcp::{ServiceExt as _, transport::stdio};

use self::handler::Server;
pub use self::{
    account::{Account, Bounds, Limit, Usage},
    bounded::supervise,
    page::{Cursor, Page},
    project::{Project, RecipeFile},
    session::{Permissions, Session, Work},
    tool::{Effect, Fault, FaultKind, Mistake, Tool},
};
use crate::web::Token;

/// Maximum number of concurrent calls; further ones wait.
const CALLS: usize = 16;

/// Time for calls to end when the server does.
const GRACE: Duration = Duration::from_secs(5);

/// Answers on standard input and output until the client closes them.
pub fn serve_stdio(session: Session, tools: Vec<Tool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(CALLS).build()?;
    let server = Server::new(Arc::new(session), tools);
    let session = server.session();
    let result = runtime.block_on(async {
        let service = server.serve(stdio()).await.map_err(io::Error::other)?;
        service.waiting().await.map_err(io::Error::other)
    });
    session.close();
    runtime.shutdown_timeout(GRACE);
    result.map(|_| ())
}

/// Serves `/mcp` on a loopback address until a signal ends the server; calls `ready` with the address. Returns the signal.
pub fn serve_http(
    session: Session,
    tools: Vec<Tool>,
    port: u16,
    token: &str,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(CALLS).build()?;
    let server = Server::new(Arc::new(session), tools);
    let session = server.session();
    let result = runtime.block_on(http::serve(server, port, Token::new(token), ready));
    session.close();
    runtime.shutdown_timeout(GRACE);
    result
}
