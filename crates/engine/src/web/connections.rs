//! Connections: limits on their number and on the time that a request may take to arrive, so that clients with many or
//! idle connections cannot exhaust the machine.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

/// Time limit of the head of a request, and of an idle connection.
const HEAD: Duration = Duration::from_secs(5);

/// So many connections at once; further ones wait in the system's queue.
const MOST: usize = 512;

/// Delay if the system gives no connection, because there are too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// As many connections as leave half of this process's files for other things.
fn most() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files / 2).ok());
    files.map_or(MOST, |files| files.clamp(1, MOST))
}

/// Answers on every connection until `closing` turns true, and then ends them all.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut closing: watch::Receiver<bool>) {
    let most = most();
    let free = Arc::new(Semaphore::new(most));
    loop {
        let next = async {
            let place = Arc::clone(&free).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (router, closing) = (router.clone(), closing.clone());
        tokio::spawn(async move {
            answer(stream, router, closing).await;
            drop(place);
        });
    }
    let _ = free.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
}

/// Answers on one connection.
async fn answer(stream: TcpStream, router: Router, mut closing: watch::Receiver<bool>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    // Closed or lost clients need no answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
