//! `sweep ui`: a server of pages that show the runs of a results folder live. It reads, and writes only if an action is asked for with its token (`act.rs`).
//!
//! Every client that can reach the server can read the pages, so it listens on this machine only unless configured
//! otherwise, and answers only to host names that a page from elsewhere cannot have (`guard.rs`). It serves reports of
//! the results folder (`files.rs`), and the data of its pages. Curves of many jobs are binary columns (`curves.rs`).

mod act;
pub(crate) mod clients;
mod compare;
pub(crate) mod connections;
mod curves;
mod extend;
mod files;
mod followed;
mod guard;
mod pair;
mod patient;
mod runs;
mod stream;
mod view;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, header},
    middleware,
    response::{Html, IntoResponse as _, Response},
    routing::{get, post},
};
use maud::{Markup, html};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use self::guard::Guard;
pub(crate) use self::guard::{Names, Token, secret};
use crate::render::page::Layout;

/// Maximum number of requests that read files at once; others wait, so that their contents are never in memory together.
const READERS: usize = 4;

/// Longest body of a request, in bytes.
const MAX_BODY: usize = 16 << 10;

/// Time for connections to end when the server does.
const GRACE: Duration = Duration::from_secs(2);

/// State that all requests share.
#[derive(Debug)]
struct Site {
    results: PathBuf,
    /// The beginning of command lines for a shell: the program, with its results folder if that is not the default one.
    program: String,
    /// Turns true when the server ends.
    closing: watch::Receiver<bool>,
    runs: runs::Known,
    /// Runs that pages have shown, with the results that were read for them.
    followed: followed::Followed,
    /// Live updates for pages.
    hub: stream::Hub,
    /// Series that were read for charts.
    series: curves::Kept,
    /// The run that an action has started.
    started: act::Started,
}

/// Serves the folder `results` until a signal ends the server; calls `ready` with the address. Command lines that pages show begin with `program`. Requests that have `token` may act. Returns the signal.
pub fn serve(
    results: &Path,
    program: String,
    (host, port): (IpAddr, u16),
    token: Option<&str>,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let listener = TcpListener::bind((host, port)).await?;
        let (close, closing) = watch::channel(false);
        let (runs, hub) = (runs::Known::default(), stream::Hub::default());
        let series = curves::Kept::default();
        let started = act::Started::default();
        let (results, followed) = (results.to_owned(), followed::Followed::default());
        let site = Site { results, program, closing: closing.clone(), runs, followed, hub, series, started };
        let guard = Guard { names: Names::new(host), token: token.map(Token::new) };
        ready(listener.local_addr()?);
        let serving = tokio::spawn(connections::serve(listener, router(Arc::new(site), guard), closing));
        let received = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        let _ = close.send(true);
        // A connection that does not end is not waited for.
        let _ = tokio::time::timeout(GRACE, serving).await;
        Ok(received.as_raw_value())
    })
}

fn router(site: Arc<Site>, guard: Guard) -> Router {
    Router::new()
        .route("/", get(runs::page))
        .route("/events", get(runs::events))
        .route("/runs/{run}", get(view::page))
        .route("/runs/{run}/events", get(view::events))
        .route("/runs/{run}/curves", get(curves::read_curves))
        .route("/runs/{run}/jobs/{key}", get(view::job))
        .route("/runs/{run}/jobs/{key}/log", get(view::log))
        .route("/act/runs/{run}", post(act::run_again))
        .route("/act/runs/{run}/extend", post(act::extend))
        .route("/act/runs/{run}/jobs/{key}/note", post(act::note))
        .route("/act/runs/{run}/jobs/{key}", post(act::run_job_again))
        .route("/act/runs/{run}/jobs/{key}/stop", post(act::stop))
        .route("/act/runs/{run}/jobs/{key}/explain", post(act::explain))
        .route("/compare", get(compare::page))
        .route("/compare/jobs", get(pair::page))
        .route("/reports/{*path}", get(files::report))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .fallback(|| async { not_found("The page does not exist.") })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
        .with_state(site)
}

/// The script of a page.
struct Script {
    text: &'static str,
    /// True if it draws charts.
    charts: bool,
}

/// A page of the site.
fn page(title: &str, header: Markup, main: Markup, data: &str, script: &Script) -> Response {
    let Script { text: script, charts } = *script;
    let shell = Layout { title, mark: "", header, main, data, script, charts, connect: true };
    ([(header::CACHE_CONTROL, "no-store")], Html(shell.render())).into_response()
}

/// The way back, above a page's heading.
fn crumbs() -> Markup {
    html! { nav .crumbs aria-label="Where this is" { a href="/" { "Runs" } } }
}

fn not_found(text: &str) -> Response {
    let header = html! { (crumbs()) h1 { "Not found" } };
    let script = Script { text: "", charts: false };
    (StatusCode::NOT_FOUND, page("Not found", header, html! { p { (text) } }, "{}", &script)).into_response()
}

/// Reads files on a thread that may wait for them.
async fn read<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Response> {
    let failure = |_| (StatusCode::INTERNAL_SERVER_ERROR, "it could not be read").into_response();
    tokio::task::spawn_blocking(work).await.map_err(failure)
}
