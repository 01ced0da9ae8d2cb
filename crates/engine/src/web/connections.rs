//! Connections: limits on their number and on the time that a request may take to arrive, so that clients with many or
//! idle connections cannot exhaust the machine.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use super::{
    clients::{Client, Streams},
    patient::Patient,
};

/// Time limit of the head of a request, and of an idle connection.
const HEAD: Duration = Duration::from_secs(5);

/// Maximum number of open connections; further ones wait in the system's queue.
const MAX_CONNECTIONS: usize = 512;

/// Delay if the system gives no connection, because there are too many open files.
const ACCEPT_DELAY: Duration = Duration::from_millis(200);

/// Returns the maximum number of connections, which leaves half of this process's file descriptors for other purposes.
fn most() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files / 2).ok());
    files.map_or(MAX_CONNECTIONS, |files| files.clamp(1, MAX_CONNECTIONS))
}

/// Answers on every connection until `closing` turns true, and then ends them all.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut closing: watch::Receiver<bool>) {
    let max_connections = most();
    let free = Arc::new(Semaphore::new(max_connections));
    let streams = Streams::of_connections(max_connections);
    loop {
        let next = async {
            let place = Arc::clone(&free).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_DELAY).await;
            continue;
        };
        let (router, closing) = (router.clone(), closing.clone());
        let client = streams.client(peer.ip());
        tokio::spawn(async move {
            answer(stream, client, router, closing).await;
            drop(place);
        });
    }
    let _ = free.acquire_many(u32::try_from(max_connections).unwrap_or(u32::MAX)).await;
}

/// Answers on one connection. Requests have its client as an extension.
async fn answer(stream: TcpStream, client: Client, router: Router, mut closing: watch::Receiver<bool>) {
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        inner.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut connection = pin!(http.serve_connection(Patient::new(TokioIo::new(stream)), service));
    // Closed or lost clients need no answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
