//! Drawing of the table of jobs.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Block, Clear, Paragraph, Row as Cells, Table},
};

use super::{
    rows::{Column, Kind, Row},
    view::View,
};
use crate::{
    format::{clean, count, duration, shortened},
    host::clock,
    progress::span,
    render::page::Tally,
    run::watch::Snapshot,
};

/// Blanks between columns.
const SPACING: u16 = 2;
/// Number of columns that stay in place: the state and the step.
const PINNED: usize = 2;
/// Maximum width of a column, in characters.
const MAX_WIDTH: usize = 28;
/// Number of rows that decide the widths of columns.
const MAX_MEASURED: usize = 2000;

const HINTS: &str = "↑↓ job  ←→ column  s sort  / filter  Enter open  x stop  ? help  q quit";

const HELP: &str = "\
Table
  ↑ ↓ PgUp PgDn Home End   select a job (also k j g G)
  ← → (also h l)           select a column; there may be more to the right
  s                        sort by the column; again: the other direction
  u                        the first order: failed and running jobs first
  /                        filter; Enter keeps it, Esc restores the one before,
                           Ctrl-U removes it, Ctrl-W its last word
  Esc                      remove the filter
  Enter                    open the job: its curves and its log
  x                        stop the job, after a question
  ? and q (or Ctrl-C)      this help; quit: the run goes on
Job: x, ? and q as in the table
  ← → (also h l)           the previous and the next curve
  ↑ ↓ PgUp PgDn Home       scroll the log; End follows it again
  Esc                      back to the table
Filter: words that must all hold
  lr=0.01  seed!=2  lr=0.001..0.1  lr=0.1..  seed=1|2  loss<2.5  time>60
  state=failed  step=train  tag=best  \"Loss (nats)\">=2  text";

/// The style of a job's state.
pub(super) fn style_of(row: &Row, has_color: bool) -> Style {
    let color = match row.state {
        _ if row.is_remarkable() => Color::Yellow,
        "failed" => Color::Red,
        "running" => Color::Cyan,
        "done" | "cached" => Color::Green,
        "retrying" | "stopped" | "lost" | "skipped" => Color::Yellow,
        _ => return Style::new(),
    };
    if has_color { Style::new().fg(color) } else { Style::new() }
}

/// Draws the table and its surroundings.
pub(super) fn draw(view: &mut View, frame: &mut Frame<'_>) {
    let heights = [1, 1, 1].map(Constraint::Length).into_iter();
    let heights = heights.chain([Constraint::Min(2), Constraint::Length(1), Constraint::Length(1)]);
    let [title, state, filter, body, details, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Line::from(title_of(view)).style(Modifier::BOLD), title);
    frame.render_widget(Line::from(tally(&view.snapshot)), state);
    frame.render_widget(filter_line(view), filter);
    draw_rows(view, frame, body);
    frame.render_widget(Line::from(view.current().map_or_else(String::new, Row::says)), details);
    draw_foot(view, frame, foot, HINTS);
}

/// The recipe, the run and its state.
fn title_of(view: &View) -> String {
    let Snapshot { manifest, summary, .. } = &view.snapshot;
    let now = clock::now();
    let state = match (summary, view.snapshot.live) {
        (_, true) if view.snapshot.stopping => "stopping".to_owned(),
        (_, true) => {
            let left =
                view.snapshot.left(now).map_or_else(String::new, |left| format!(", about {} left", duration(left)));
            format!("live for {}{left}", span(now, manifest.at))
        }
        (Some(summary), false) => format!("ended after {}", duration(summary.seconds)),
        (None, false) if view.snapshot.elsewhere => "in the queue".to_owned(),
        (None, false) => "its engine was killed; run the recipe again to continue".to_owned(),
    };
    format!("{} · {state} · run {}", clean(&manifest.recipe), view.name())
}

/// Numbers of jobs by state.
fn tally(snapshot: &Snapshot) -> String {
    let mut tally = Tally::default();
    snapshot.jobs.iter().filter(|state| state.is_selected()).for_each(|state| tally.add(state.word()));
    tally.words()
}

/// The filter, its remarks, and the number of jobs that it selects.
fn filter_line(view: &View) -> Line<'static> {
    let cursor = if view.edited.is_some() { "▏" } else { "" };
    let filter = clean(&view.filter).into_owned();
    let note = match (filter.is_empty() && view.edited.is_none(), &view.remark) {
        (true, _) => return Line::from(count(view.total(), "job")),
        (false, Some(remark)) => clean(remark).into_owned(),
        (false, None) => format!("{} of {}", view.rows.len(), count(view.total(), "job")),
    };
    Line::from(vec![
        Span::raw("Filter: "),
        Span::styled(format!("{filter}{cursor}"), Modifier::BOLD),
        Span::raw(format!("  {note}")),
    ])
}

/// Draws the visible rows and columns.
fn draw_rows(view: &mut View, frame: &mut Frame<'_>, area: Rect) {
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let place = view.place();
    let begin = view.window.0.min(view.rows.len().saturating_sub(height));
    let begin = if place < begin { place } else { begin.max((place + 1).saturating_sub(height)) };
    view.window = (begin, height);
    let columns = view.shown_columns();
    let widths: Vec<u16> = columns.iter().map(|column| width(column, view)).collect();
    let cursor = columns.iter().position(|column| column.id() == view.column).unwrap_or(0);
    let visible = visible(&widths, cursor, area.width);
    let has_color = view.has_color;
    let cells = |row: &Row, index: usize| {
        let texts = visible.iter().map(|column| {
            let column = &columns[*column];
            let is_stopping = column.kind == Kind::State && view.is_stopping(row.index);
            let text = if is_stopping { "stopping".to_owned() } else { shortened(&column.text(row), MAX_WIDTH) };
            let style = if column.kind == Kind::State { style_of(row, has_color) } else { Style::new() };
            let text = Text::from(Span::styled(text, style));
            if column.is_numeric() { text.right_aligned() } else { text }
        });
        let modifier = if begin + index == place { Modifier::REVERSED } else { Modifier::empty() };
        Cells::new(texts).style(modifier)
    };
    let rows = view.rows.iter().skip(begin).take(height).enumerate().map(|(index, row)| cells(row, index));
    let header = visible.iter().map(|index| {
        let column = &columns[*index];
        let modifier = if *index == cursor { Modifier::REVERSED } else { Modifier::BOLD };
        let text = Text::from(Span::styled(heading(column, view), modifier));
        if column.is_numeric() { text.right_aligned() } else { text }
    });
    let constraints = visible.iter().map(|index| Constraint::Length(widths[*index]));
    let table = Table::new(rows, constraints).header(Cells::new(header)).column_spacing(SPACING);
    frame.render_widget(table, area);
}

/// The heading of a column, with the direction if it is sorted.
fn heading(column: &Column, view: &View) -> String {
    let mark = match &view.order {
        Some((name, is_descending)) if *name == column.id() => {
            if *is_descending {
                "▼"
            } else {
                "▲"
            }
        }
        _ => "",
    };
    format!("{}{mark}", shortened(&column.heading, MAX_WIDTH))
}

/// The width of a column, in terminal cells.
fn width(column: &Column, view: &View) -> u16 {
    let rows = view.rows.iter().take(MAX_MEASURED);
    let texts = rows.map(|row| shortened(&column.text(row), MAX_WIDTH)).chain([heading(column, view)]);
    let width = texts.map(|text| Span::raw(text).width()).max().unwrap_or(0);
    // The column shows `stopping` in place of the state of a job that is being stopped.
    let width = if column.kind == Kind::State { width.max("retrying".len()) } else { width };
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// The columns that fit into a width, among them the one at `cursor`.
fn visible(widths: &[u16], cursor: usize, room: u16) -> Vec<usize> {
    let pinned: Vec<usize> = (0..widths.len().min(PINNED)).collect();
    let size =
        |columns: &[usize]| columns.iter().map(|index| u32::from(widths[*index]) + u32::from(SPACING)).sum::<u32>();
    let fits = |columns: &[usize]| size(columns) <= u32::from(room) + u32::from(SPACING);
    let mut first = PINNED;
    loop {
        let mut columns = pinned.clone();
        for index in first..widths.len() {
            columns.push(index);
            // One column beside the pinned ones is always there, even if it is cut.
            if !fits(&columns) && index > first {
                columns.pop();
                break;
            }
        }
        if cursor < PINNED || columns.contains(&cursor) || first >= cursor {
            return columns;
        }
        first += 1;
    }
}

/// Draws the last line: a question, a message or the keys; and help over everything.
pub(super) fn draw_foot(view: &View, frame: &mut Frame<'_>, area: Rect, hints: &str) {
    let text = match view.asked.and_then(|index| view.snapshot.manifest.jobs.get(index)) {
        Some(job) => {
            let room = usize::from(area.width).saturating_sub(42).max(8);
            format!("Stop {}? The run continues. y: stop, n: no", shortened(&clean(&job.label), room))
        }
        None if view.message.is_empty() && view.snapshot.live => hints.to_owned(),
        None if view.message.is_empty() => hints.replace("x stop  ", ""),
        None => view.message.clone(),
    };
    let modifier = if view.asked.is_some() { Modifier::BOLD } else { Modifier::empty() };
    frame.render_widget(Line::from(text).style(modifier), area);
    if view.shows_help {
        let area = frame.area();
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" Keys: any key closes this ")), area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_column_is_always_visible() {
        let widths = [8, 6, 10, 10, 10, 10];
        assert_eq!(visible(&widths, 0, 80), [0, 1, 2, 3, 4, 5]);
        // 8 + 6 + 10 + 10 and three times two blanks.
        assert_eq!(visible(&widths, 0, 40), [0, 1, 2, 3]);
        assert_eq!(visible(&widths, 3, 40), [0, 1, 2, 3]);
        assert_eq!(visible(&widths, 4, 40), [0, 1, 3, 4]);
        assert_eq!(visible(&widths, 5, 40), [0, 1, 4, 5]);
        assert_eq!(visible(&widths, 5, 1), [0, 1, 5], "the table is cut, not empty");
        assert_eq!(visible(&[8], 0, 1), [0]);
        assert_eq!(visible(&[], 0, 10), [0_usize; 0]);
    }
}
