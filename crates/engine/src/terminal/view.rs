//! The state of the view, and the effects of keys.

use std::{
    io,
    path::{Path, PathBuf},
};

use ratatui::{
    Frame,
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use super::{
    filter::Filter,
    job,
    opened::Opened,
    rows::{self, Column, Kind, Row},
    table,
};
use crate::{
    format::{clean, quoted},
    host::clock,
    render::page::{FollowedRun, Headings},
    run::{RunFolder, request_stop, watch::Snapshot},
};

/// Number of rows that a page key moves by, if the height of the table is not known yet.
const PAGE: usize = 10;

/// States of jobs that can be stopped.
const STOPPABLE: [&str; 3] = ["running", "retrying", "waiting"];

/// The view of a run.
pub(super) struct View {
    results: PathBuf,
    folder: RunFolder,
    run: FollowedRun,
    pub(super) snapshot: Snapshot,
    pub(super) has_color: bool,
    /// All jobs.
    jobs: Vec<Row>,
    /// The jobs that the filter selects, in order.
    pub(super) rows: Vec<Row>,
    pub(super) columns: Vec<Column>,
    /// The identifier of the column that keys act on.
    pub(super) column: String,
    /// The identifier of the sorted column, and whether it is descending.
    pub(super) order: Option<(String, bool)>,
    /// The selected job's index in the run's plan.
    selected: Option<usize>,
    /// The first shown row, and the number of shown rows.
    pub(super) window: (usize, usize),
    pub(super) filter: String,
    /// The filter before it is edited, while it is.
    pub(super) edited: Option<String>,
    /// Remarks on the filter.
    pub(super) remark: Option<String>,
    pub(super) opened: Option<Opened>,
    /// The job that will be stopped if the user confirms it.
    pub(super) asked: Option<usize>,
    /// The answer to the last key.
    pub(super) message: String,
    pub(super) shows_help: bool,
}

impl View {
    /// Begins to show a run.
    pub(super) fn new(results: &Path, folder: RunFolder, has_color: bool) -> io::Result<Self> {
        let mut run = FollowedRun::new(folder.clone(), results)?;
        let snapshot = run.look()?;
        let mut view = Self {
            results: results.to_owned(),
            folder,
            run,
            snapshot,
            has_color,
            jobs: Vec::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            column: "state".to_owned(),
            order: None,
            selected: None,
            window: (0, PAGE),
            filter: String::new(),
            edited: None,
            remark: None,
            opened: None,
            asked: None,
            message: String::new(),
            shows_help: false,
        };
        view.arrange();
        Ok(view)
    }

    /// Name of the run.
    pub(super) fn name(&self) -> String {
        self.folder.name()
    }

    /// Looks at the run again. If it cannot be read, the view keeps its rows and shows the error.
    pub(super) fn look(&mut self) {
        match self.run.look() {
            Ok(snapshot) => self.snapshot = snapshot,
            Err(error) => self.message = format!("the run cannot be read: {}", clean(&error.to_string())),
        }
        self.arrange();
    }

    /// Arranges rows and columns after a change of the run, the filter or the order.
    fn arrange(&mut self) {
        let headings: Headings = self.run.headings(&self.snapshot.manifest);
        self.jobs = rows::rows(&self.run, &self.snapshot, clock::now());
        self.columns = rows::columns(&self.jobs, &headings);
        let filter = Filter::new(&self.filter, &self.columns, &self.jobs);
        self.remark = filter.note(&self.columns);
        self.rows = self.jobs.iter().filter(|row| filter.fits(row)).cloned().collect();
        let order = self.order.as_ref();
        let order =
            order.and_then(|(name, down)| Some((self.columns.iter().find(|column| column.id() == *name)?, *down)));
        rows::sort(&mut self.rows, order);
        let columns = self.shown_columns();
        if !columns.iter().any(|column| column.id() == self.column) {
            self.column = columns.first().map_or_else(String::new, Column::id);
        }
        if !self.rows.iter().any(|row| Some(row.index) == self.selected) {
            let place = self.window.0.min(self.rows.len().saturating_sub(1));
            self.selected = self.rows.get(place).map(|row| row.index);
        }
        self.look_at_opened();
    }

    fn look_at_opened(&mut self) {
        let Some(opened) = &mut self.opened else { return };
        let job = self.snapshot.manifest.jobs.get(opened.index);
        if let (Some(row), Some(job)) = (self.jobs.iter().find(|row| row.index == opened.index), job) {
            let metrics = self.columns.iter().filter(|column| matches!(column.kind, Kind::Metric(_)));
            let metrics: Vec<&str> = metrics.map(|column| column.name.as_str()).collect();
            opened.look(row, job.key, &self.run, (&self.results, &self.folder), &metrics);
        }
    }

    /// The columns of the table: all that distinguish jobs.
    pub(super) fn shown_columns(&self) -> Vec<Column> {
        let columns = self.columns.iter().filter(|column| !rows::is_idle(column, &self.jobs));
        columns.cloned().collect()
    }

    /// The place of the selected job in the rows.
    pub(super) fn place(&self) -> usize {
        self.rows.iter().position(|row| Some(row.index) == self.selected).unwrap_or(0)
    }

    /// The row of the opened job, or the selected one.
    pub(super) fn current(&self) -> Option<&Row> {
        let index = self.opened.as_ref().map_or(self.selected, |opened| Some(opened.index))?;
        self.jobs.iter().find(|row| row.index == index)
    }

    /// Number of all jobs.
    pub(super) fn total(&self) -> usize {
        self.jobs.len()
    }

    /// True if the end of a job that still runs was requested.
    pub(super) fn is_stopping(&self, index: usize) -> bool {
        self.snapshot.requested.contains(&index)
    }

    /// Draws the view.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        match &self.opened {
            Some(_) => job::draw(self, frame),
            None => table::draw(self, frame),
        }
    }

    /// Carries a key out; returns true if the user quits.
    pub(super) fn on_key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        self.message.clear();
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return true;
        }
        if has_control || key.modifiers.contains(KeyModifiers::ALT) {
            // Other characters with Control or Alt are no text.
            if has_control && self.edited.is_some() && !self.shows_help && self.asked.is_none() {
                self.edit_as_a_shell(key.code);
            }
            return false;
        }
        if self.shows_help {
            self.shows_help = false;
        } else if let Some(index) = self.asked.take() {
            match key.code {
                KeyCode::Char('y' | 'Y') => self.stop(index),
                _ => "not stopped".clone_into(&mut self.message),
            }
        } else if self.edited.is_some() {
            self.edit(key.code);
        } else if key.code == KeyCode::Char('q') {
            return true;
        } else if self.opened.is_some() {
            self.on_key_of_job(key.code);
        } else {
            self.on_key_of_table(key.code);
        }
        false
    }

    /// Edits the filter by the keys of a shell: Ctrl-U removes the text, Ctrl-W its last word.
    fn edit_as_a_shell(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('u') => self.filter.clear(),
            KeyCode::Char('w') => {
                let text = self.filter.trim_end();
                let mut letters = text.char_indices().rev();
                let blank = letters.find(|(_, char)| char.is_whitespace());
                self.filter.truncate(blank.map_or(0, |(at, char)| at + char.len_utf8()));
            }
            KeyCode::Char('h') => drop(self.filter.pop()),
            _ => return,
        }
        self.arrange();
    }

    /// Edits the filter.
    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.edited = None,
            KeyCode::Esc => self.filter = self.edited.take().unwrap_or_default(),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(char) => self.filter.push(char),
            _ => {}
        }
        self.arrange();
    }

    fn on_key_of_table(&mut self, code: KeyCode) {
        let (place, last, page) = (self.place(), self.rows.len().saturating_sub(1), self.window.1.max(1));
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(place + 1),
            KeyCode::PageUp => self.select(place.saturating_sub(page)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(place + page),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(last),
            KeyCode::Left | KeyCode::Char('h') => self.move_column(false),
            KeyCode::Right | KeyCode::Char('l') => self.move_column(true),
            KeyCode::Char('s') => {
                let is_same = self.order.as_ref().is_some_and(|(name, _)| *name == self.column);
                let is_descending = is_same && self.order.as_ref().is_some_and(|(_, down)| !down);
                self.order = Some((self.column.clone(), is_descending));
                self.arrange();
            }
            KeyCode::Char('u') => {
                self.order = None;
                self.arrange();
            }
            KeyCode::Char('/') => self.edited = Some(self.filter.clone()),
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Enter => {
                self.opened = self.selected.map(Opened::new);
                self.look_at_opened();
            }
            KeyCode::Char('x') => self.ask(self.selected),
            KeyCode::Char('?') => self.shows_help = true,
            _ => {}
        }
    }

    fn on_key_of_job(&mut self, code: KeyCode) {
        let Some(opened) = &mut self.opened else { return };
        let (page, series) = (self.window.1.max(1), opened.curves.len().max(1));
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.opened = None,
            KeyCode::Up | KeyCode::Char('k') => opened.scrolled = opened.scrolled.saturating_add(1),
            KeyCode::Down | KeyCode::Char('j') => opened.scrolled = opened.scrolled.saturating_sub(1),
            KeyCode::PageUp => opened.scrolled = opened.scrolled.saturating_add(page),
            KeyCode::PageDown | KeyCode::Char(' ') => opened.scrolled = opened.scrolled.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => opened.scrolled = usize::MAX,
            KeyCode::End | KeyCode::Char('G') => opened.scrolled = 0,
            KeyCode::Left | KeyCode::Char('h') => opened.shown = (opened.shown + series - 1) % series,
            KeyCode::Right | KeyCode::Char('l') => opened.shown = (opened.shown + 1) % series,
            KeyCode::Char('x') => {
                let index = opened.index;
                self.ask(Some(index));
            }
            KeyCode::Char('?') => self.shows_help = true,
            _ => {}
        }
    }

    fn select(&mut self, place: usize) {
        let place = place.min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(place).map(|row| row.index);
    }

    fn move_column(&mut self, is_forward: bool) {
        let columns = self.shown_columns();
        let place = columns.iter().position(|column| column.id() == self.column).unwrap_or(0);
        let place = if is_forward { place + 1 } else { place.saturating_sub(1) };
        if let Some(column) = columns.get(place) {
            self.column = column.id();
        }
    }

    /// Asks whether a job shall stop, unless it has ended.
    fn ask(&mut self, index: Option<usize>) {
        let row = index.and_then(|index| self.jobs.iter().find(|row| row.index == index));
        match row {
            Some(row) if !self.snapshot.live || !STOPPABLE.contains(&row.state) => {
                self.message = format!("{} has ended", row.label);
            }
            _ => self.asked = index,
        }
    }

    /// Requests the end of a job, as `sweep stop` does.
    fn stop(&mut self, index: usize) {
        let label = self.snapshot.manifest.jobs.get(index).map_or("", |job| &job.label);
        let text = match request_stop(&self.folder, &self.snapshot, index) {
            Ok(()) => format!("the end of {label} is requested, as by `sweep stop {}`", quoted(label)),
            Err(error) => error.to_string(),
        };
        self.message = clean(&text).into_owned();
    }
}
