//! Connections: limits on their number and on the time that a request may take to arrive, so that clients with many or
//! idle connections cannot exhaust the machine. A new connection beyond the limit ends the oldest one without a request.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{
    Request,
    body::{Body as _, Incoming},
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
    sync::{Notify, Semaphore, watch},
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

/// The open connections by their age: the first one is the oldest.
#[derive(Debug, Default)]
struct Open(Mutex<BTreeMap<u64, Arc<State>>>);

/// State of a connection.
#[derive(Debug, Default)]
struct State {
    /// True from the arrival of a request until it is answered, and as long as a stream of events is open.
    is_busy: AtomicBool,
    /// True after the first request.
    has_asked: AtomicBool,
    /// Tells the connection to end.
    end: Notify,
}

impl Open {
    fn states(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<State>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the oldest connection that waits for a request.
    fn end_oldest(&self) {
        let mut states = self.states();
        let idle = states.iter().find(|(_, state)| !state.is_busy.load(Ordering::Relaxed)).map(|(id, _)| *id);
        if let Some(state) = idle.and_then(|id| states.remove(&id)) {
            state.end.notify_one();
        }
    }
}

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Number of open connections.
    connections: usize,
    /// Time for the head of a request.
    head: Duration,
}

/// Serves every connection until `closing` becomes true, and then ends all of them.
pub(crate) async fn serve(listener: TcpListener, router: Router, closing: watch::Receiver<bool>) {
    serve_within(listener, router, closing, Limits { connections: most(), head: HEAD }).await;
}

async fn serve_within(
    listener: TcpListener,
    router: Router,
    mut closing: watch::Receiver<bool>,
    Limits { connections: max_connections, head }: Limits,
) {
    let free = Arc::new(Semaphore::new(max_connections));
    let streams = Streams::of_connections(max_connections);
    let open = Arc::new(Open::default());
    for id in 0.. {
        let next = async {
            let accepted = listener.accept().await;
            if free.available_permits() == 0 {
                open.end_oldest();
            }
            (Arc::clone(&free).acquire_owned().await, accepted)
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
        let state = Arc::new(State::default());
        open.states().insert(id, Arc::clone(&state));
        let open = Arc::clone(&open);
        tokio::spawn(async move {
            answer(stream, client, (router, head), (state, closing)).await;
            open.states().remove(&id);
            drop(place);
        });
    }
    let _ = free.acquire_many(u32::try_from(max_connections).unwrap_or(u32::MAX)).await;
}

/// Serves one connection. Requests have its client as an extension.
async fn answer(
    stream: TcpStream,
    client: Client,
    (router, head): (Router, Duration),
    (state, mut closing): (Arc<State>, watch::Receiver<bool>),
) {
    let inner = TowerToHyperService::new(router);
    let asked = Arc::clone(&state);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        let (answer, state) = (inner.call(request), Arc::clone(&asked));
        state.is_busy.store(true, Ordering::Relaxed);
        state.has_asked.store(true, Ordering::Relaxed);
        async move {
            let response = answer.await?;
            // The length of a stream of events is not known.
            state.is_busy.store(response.body().size_hint().exact().is_none(), Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let mut connection = pin!(http.serve_connection(Patient::new(TokioIo::new(stream)), service));
    // Errors of closed or lost connections are ignored.
    tokio::select! {
        _ = connection.as_mut() => return,
        // A shutdown would wait for the first request.
        () = state.end.notified() => if !state.has_asked.load(Ordering::Relaxed) { return },
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream as Client,
        thread,
    };

    use axum::routing::get;

    use super::*;

    /// The status that a request gets.
    fn status(address: std::net::SocketAddr, connection: &str) -> (Client, String) {
        let mut client = Client::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        write!(client, "GET / HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        (client, String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn the_oldest_connection_without_a_request_makes_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (close, closing) = watch::channel(false);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = thread::spawn(move || {
            // No request, and no further one: they would wait for an hour.
            let mut oldest = Client::connect(address).unwrap();
            let (_second, first_answer) = status(address, "keep-alive");
            let others: Vec<String> = (0..4).map(|_| status(address, "close").1).collect();
            oldest.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
            let end = match oldest.read(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(0),
                end => end.map_err(|error| error.to_string()),
            };
            close.send(true).unwrap();
            (first_answer, others, end)
        });
        let router = Router::new().route("/", get(|| async { "page" }));
        let limits = Limits { connections: 2, head: Duration::from_hours(1) };
        runtime.block_on(serve_within(listener, router, closing, limits));
        let (first_answer, others, end) = clients.join().unwrap();
        assert_eq!((first_answer.as_str(), end), ("HTTP/1.1 200", Ok(0)));
        assert!(others.iter().all(|answer| answer == "HTTP/1.1 200"), "{others:?}");
    }
}
