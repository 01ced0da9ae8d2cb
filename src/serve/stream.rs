//! What is sent to a page as it happens (server-sent events).

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_util::stream::unfold;

use super::{Site, read};

/// How often the disk is looked at for a page.
const PAUSE: Duration = Duration::from_millis(700);

/// Somebody who looks, and says what is new: a text that is one line of JSON.
pub(super) trait Look: Send + 'static {
    /// What a page has to be told; `None` if nothing changed.
    fn look(&mut self) -> Option<String>;
}

/// Looks again and again, until the page is closed or the server ends.
pub(super) fn stream(site: Arc<Site>, look: impl Look) -> Response {
    let begin = (Some(look), site, true);
    let events = unfold(begin, |(look, site, first)| async move {
        let mut look = look?;
        let mut closing = site.closing.clone();
        let mut first = first;
        loop {
            if !first {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    _ = closing.wait_for(|closing| *closing) => return None,
                }
            }
            first = false;
            let (back, news) = read(move || {
                let news = look.look();
                (look, news)
            })
            .await
            .ok()?;
            look = back;
            if let Some(news) = news {
                let event = Event::default().data(news);
                return Some((Ok::<_, Infallible>(event), (Some(look), site, false)));
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}
