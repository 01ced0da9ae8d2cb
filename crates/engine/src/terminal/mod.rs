//! `sweep watch`: a view of a run on the whole terminal, for connections by SSH, where a browser is far.
//!
//! `view.rs` has the state of the view and the effects of keys, `rows.rs` the table's rows and columns, `filter.rs` its filter,
//! `opened.rs` the data of an opened job, `table.rs` and `job.rs` draw both, and `screen.rs` takes the terminal and gives it back.

mod filter;
mod job;
mod opened;
mod rows;
mod screen;
mod table;
mod view;

use std::{
    io::{self, IsTerminal as _, stdin, stdout},
    path::Path,
    time::{Duration, Instant},
};

use ratatui::crossterm::event::{self, Event};

use self::{screen::Screen, view::View};
use crate::{format::use_color, host, run::RunFolder};

/// Interval between reads of the run's files.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for which a key is waited for, after which signals are handled.
const KEY_INTERVAL: Duration = Duration::from_millis(100);

/// End of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user quit.
    Quit,
    /// A signal ended the view.
    Signal(i32),
}

/// True if standard input and output are a terminal on which a view can be drawn.
pub fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

/// Shows a run until the user quits. The run is not affected, except by the jobs that the user stops.
///
/// # Errors
/// The run cannot be read, or the terminal fails.
pub fn watch(results: &Path, folder: RunFolder) -> io::Result<Ended> {
    let mut view = View::new(results, folder, use_color(&stdout()))?;
    let mut screen = Screen::take()?;
    let mut last_look = Instant::now();
    let mut is_stale = true;
    loop {
        if std::mem::take(&mut is_stale) {
            host::failpoints::point("watch: before drawing")?;
            screen.terminal.draw(|frame| view.draw(frame))?;
        }
        if event::poll(KEY_INTERVAL)? {
            is_stale = true;
            if let Event::Key(key) = event::read()?
                && view.on_key(key)
            {
                return Ok(Ended::Quit);
            }
        }
        if let Some(signal) = screen.signal() {
            return Ok(Ended::Signal(signal));
        }
        if last_look.elapsed() >= LOOK_INTERVAL {
            view.look();
            (last_look, is_stale) = (Instant::now(), true);
        }
    }
}
