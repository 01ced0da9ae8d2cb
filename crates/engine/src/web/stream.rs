//! Server-sent events for pages. A run is observed once, regardless of the number of pages that show it: all of them
//! get the same bytes.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::{
    Site,
    clients::{Client, OpenStream},
    read,
};

/// Interval at which the disk is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(700);

/// Interval of keep-alive messages to a page.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of ended jobs and runs that are remembered.
const MAX_ENDED: usize = 8;

/// A comment, which pages do not see.
const ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Milliseconds after which a page without its own stream polls again.
const AGAIN: &[u8] = b"retry: 5000\n\n";

/// Tells the client that no more events will come, so that it does not reconnect.
const END: Bytes = Bytes::from_static(b"event: end\ndata:\n\n");

/// A source of updates: texts that are one line of JSON.
pub(super) trait Look: Send + 'static {
    /// Update for a page that has the previous state; `None` if nothing changed.
    fn look(&mut self) -> Option<String>;
    /// Complete state for a new page, after a look.
    fn whole(&self) -> String;
    /// True if nothing will change any more.
    fn is_over(&self) -> bool;
}

/// All observed sources, by name.
#[derive(Debug, Default)]
pub(super) struct Hub(Mutex<Shows>);

#[derive(Debug, Default)]
struct Shows {
    live: HashMap<String, Arc<watch::Sender<State>>>,
    /// States of ended sources, the latest first.
    ended: VecDeque<(String, State)>,
}

/// Result of the last look.
#[derive(Debug, Clone, Default)]
struct State {
    /// Number of changes; 0 before the first look.
    version: u64,
    /// Data for pages that have the previous version.
    news: Bytes,
    /// Data for all other pages.
    whole: Bytes,
    over: bool,
    /// True if it exists, once that is known.
    there: Option<bool>,
}

impl Hub {
    fn shows(&self) -> MutexGuard<'_, Shows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends observers without subscribers.
    fn is_idle(&self, name: &str, sender: &watch::Sender<State>) -> bool {
        let mut shows = self.shows();
        let idle = sender.receiver_count() == 0;
        if idle {
            shows.live.remove(name);
        }
        idle
    }

    /// No observer is left; the last state is kept if it is final.
    fn end(&self, name: String, state: Option<State>) {
        let mut shows = self.shows();
        shows.live.remove(&name);
        if let Some(state) = state {
            shows.ended.truncate(MAX_ENDED - 1);
            shows.ended.push_front((name, state));
        }
    }
}

/// Observes the source of this name, unless it is observed already, until every page that shows it is closed, it is
/// over, or the server ends. `open` starts the observation, if there is such a source. A client that has reached its limit
/// of streams gets the complete state once, and has to poll.
pub(super) async fn stream<L: Look>(
    site: Arc<Site>,
    client: &Client,
    name: String,
    open: impl FnOnce() -> Option<L> + Send + 'static,
) -> Response {
    let mut states = {
        let mut shows = site.hub.shows();
        let end_state = shows.ended.iter().find(|(ended_name, _)| *ended_name == name).map(|(_, state)| state.clone());
        match (end_state, shows.live.get(&name)) {
            (Some(state), _) => watch::channel(state).1,
            (None, Some(sender)) => sender.subscribe(),
            (None, None) => {
                let (sender, states) = watch::channel(State::default());
                let sender = Arc::new(sender);
                shows.live.insert(name.clone(), Arc::clone(&sender));
                tokio::spawn(follow(Arc::clone(&site), name, sender, open));
                states
            }
        }
    };
    let mut closing = site.closing.clone();
    tokio::select! {
        found = states.wait_for(|state| state.there.is_some()) => match found.map(|state| state.there) {
            Ok(Some(false)) => return StatusCode::NOT_FOUND.into_response(),
            Ok(_) => {}
            Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
        _ = closing.wait_for(|closing| *closing) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    match client.stream() {
        Some(guard) => (headers, tell(&site, states, guard)).into_response(),
        None => (headers, [(header::CONNECTION, "close")], once(&states.borrow())).into_response(),
    }
}

/// Looks again and again.
async fn follow<L: Look>(
    site: Arc<Site>,
    name: String,
    sender: Arc<watch::Sender<State>>,
    open: impl FnOnce() -> Option<L> + Send + 'static,
) {
    let mut closing = site.closing.clone();
    let Ok(Some(mut look)) = read(open).await else {
        site.hub.end(name, None);
        sender.send_modify(|state| state.there = Some(false));
        return;
    };
    loop {
        let first = sender.borrow().version == 0;
        let reading = read(move || {
            let news = look.look().map(|news| (event(&news), if first { event(&news) } else { event(&look.whole()) }));
            let is_over = look.is_over();
            (look, news, is_over)
        });
        let Ok((returned_look, news, is_over)) = reading.await else {
            site.hub.end(name, None);
            return;
        };
        look = returned_look;
        if let Some((news, whole)) = news {
            let version = sender.borrow().version + 1;
            sender.send_replace(State { version, news, whole, over: is_over, there: Some(true) });
        } else if is_over || first {
            sender.send_modify(|state| (state.over, state.there) = (is_over, Some(true)));
        }
        if is_over {
            let state = sender.borrow().clone();
            site.hub.end(name, Some(state).filter(|state| state.version > 0));
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        if site.hub.is_idle(&name, &sender) {
            return;
        }
    }
}

/// A text as an event.
fn event(text: &str) -> Bytes {
    format!("data: {text}\n\n").into()
}

/// Returns the current state, for a page that polls.
fn once(state: &State) -> Body {
    let end = if state.over { END } else { Bytes::new() };
    Body::from([AGAIN, &state.whole, &end].concat())
}

/// Messages to one page.
fn tell(site: &Site, states: watch::Receiver<State>, guard: OpenStream) -> Body {
    let begin = Some((states, (site.closing.clone(), guard), 0));
    Body::from_stream(unfold(begin, |page| async move {
        let (mut states, (mut closing, open), seen_version) = page?;
        loop {
            let State { version, news, whole, over, .. } = states.borrow_and_update().clone();
            if version > seen_version {
                let message = if seen_version > 0 && version == seen_version + 1 { news } else { whole };
                return Some((Ok::<_, Infallible>(message), Some((states, (closing, open), version))));
            }
            if over {
                return Some((Ok(END), None));
            }
            let silent = tokio::select! {
                changed = states.changed() => {
                    changed.ok()?;
                    false
                },
                () = tokio::time::sleep(KEEP_ALIVE) => true,
                _ = closing.wait_for(|closing| *closing) => return None,
            };
            if silent {
                return Some((Ok(ALIVE), Some((states, (closing, open), seen_version))));
            }
        }
    }))
}
