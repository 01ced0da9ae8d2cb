//! Drawing of an opened job: its state, its metrics, a curve and its log.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::Marker,
    text::{Line, Span, Text},
    widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph, Wrap},
};

use super::{
    opened::{Opened, Series},
    rows::{Cell, Kind},
    table::{draw_foot, style_of},
    view::View,
};
use crate::format::{listed, shared_digits};

/// Width of a tab in a log.
const TAB: &str = "    ";
/// Smallest height of a terminal that has room for a curve.
const MIN_HEIGHT: u16 = 18;
/// Number of lines about a failure that are shown.
const FAILURE_LINES: u16 = 8;

const HINTS: &str = "←→ curve  ↑↓ log  End follow  x stop  ? help  Esc back  q quit";

/// Draws the opened job.
pub(super) fn draw(view: &mut View, frame: &mut Frame<'_>) {
    let Some(opened) = &view.opened else { return };
    let area = frame.area();
    let curve = if opened.curves.is_empty() || area.height < MIN_HEIGHT { 0 } else { area.height / 3 };
    let failure = opened.failure.as_ref().map_or(0, |text| {
        let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
        lines.min(FAILURE_LINES).min(area.height / 4) + 1
    });
    let heights = [1, 2, 1, curve, failure].map(Constraint::Length).into_iter();
    let heights = heights.chain([Constraint::Min(2), Constraint::Length(1)]);
    let [title, state, metrics, chart, excerpt, log, foot] = Layout::vertical(heights).areas(area);
    if let Some(row) = view.current() {
        frame.render_widget(Line::from(row.label.clone()).style(Modifier::BOLD), title);
        let word = if view.is_stopping(row.index) { "stopping" } else { row.state };
        let mut parts = vec![Span::styled(word, style_of(row, view.has_color))];
        parts.extend(Some(row.says()).filter(|says| !says.is_empty()).map(|says| Span::raw(format!(" · {says}"))));
        frame.render_widget(Paragraph::new(Line::from(parts)).wrap(Wrap { trim: true }), state);
        frame.render_widget(Line::from(metrics_of(view)), metrics);
    }
    draw_curve(opened, view.has_color, frame, chart);
    if let Some(text) = &opened.failure {
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.len().saturating_sub(usize::from(excerpt.height.saturating_sub(1)));
        let text: Vec<Line<'_>> = lines[begin..].iter().map(|line| Line::from(line.replace('\t', TAB))).collect();
        frame.render_widget(Paragraph::new(text).block(Block::new().borders(Borders::TOP).title(" Failure ")), excerpt);
    }
    view.window.1 = usize::from(log.height.saturating_sub(1)).max(1);
    if let Some(opened) = &mut view.opened {
        draw_log(opened, frame, log);
    }
    draw_foot(view, frame, foot, HINTS);
}

/// The metrics of the job in a line.
fn metrics_of(view: &View) -> String {
    let Some(row) = view.current() else { return String::new() };
    let metrics = view.columns.iter().filter(|column| matches!(column.kind, Kind::Metric(_)));
    let metrics = metrics.filter(|column| column.value(row) != Cell::Missing);
    metrics.map(|column| format!("{} {}", column.heading, column.text(row))).collect::<Vec<_>>().join("  ")
}

/// Draws the shown curve, with its range.
fn draw_curve(opened: &Opened, has_color: bool, frame: &mut Frame<'_>, area: Rect) {
    let Some(curve) = opened.curves.get(opened.shown).filter(|_| area.height > 2) else { return };
    let Series { name, unit, points } = curve;
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        // A constant curve is in the middle.
        let margin = if high > low { 0.0 } else { (high.abs() / 2.0).max(0.5) };
        [low - margin, high + margin]
    };
    let steps = range(&mut points.iter().map(|(step, _)| *step));
    let values = range(&mut points.iter().map(|(_, value)| *value));
    let text = |value: f64| listed(value, shared_digits(points.iter().map(|(_, value)| *value)));
    let label = |value: f64| Span::raw(text(value));
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let last = points.last().map_or_else(String::new, |(step, value)| format!(": {} at {step}", text(*value)));
    let title = format!(" {name}{unit}{last}  [{} of {}] ", opened.shown + 1, opened.curves.len());
    let style = if has_color { Style::new().fg(Color::Cyan) } else { Style::new() };
    let dataset = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points);
    let ends = |bounds: [f64; 2]| bounds.map(label);
    let chart = Chart::new(vec![dataset])
        .block(Block::new().borders(Borders::TOP).title(title))
        .x_axis(
            Axis::default()
                .bounds(steps)
                .labels([steps[0], steps[1]].map(|step| Span::raw(format!("{}", step.round())))),
        )
        .y_axis(Axis::default().bounds(values).labels(ends(values)));
    frame.render_widget(chart, area);
}

/// Draws the end of the log, or the part that was scrolled to.
fn draw_log(opened: &mut Opened, frame: &mut Frame<'_>, area: Rect) {
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let text = opened.log.as_ref().map_or("", |log| &log.text);
    let (lines, scrolled) = window(text, usize::from(area.width).max(1), height, opened.scrolled);
    opened.scrolled = scrolled;
    let title = match (&opened.log, scrolled) {
        (None, _) => " Log: there is none yet ".to_owned(),
        (Some(log), 0) => format!(" Log {} ", log.path),
        (Some(log), _) => format!(" Log {}: {scrolled} lines follow ", log.path),
    };
    let lines = lines.into_iter().map(Line::from).collect::<Vec<_>>();
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Paragraph::new(Text::from(lines)).block(block), area);
}

/// The `height` lines of a text, wrapped at `width`, that end `scrolled` lines before its end. Also returns `scrolled`, limited to
/// the beginning of the text.
fn window(text: &str, width: usize, height: usize, scrolled: usize) -> (Vec<String>, usize) {
    let wanted = height.saturating_add(scrolled);
    // From the end, because the beginning of a long log is rarely needed.
    let mut reversed: Vec<String> = Vec::new();
    for line in text.lines().rev() {
        if reversed.len() >= wanted {
            break;
        }
        reversed.extend(wrapped(&line.replace('\t', TAB), width).into_iter().rev());
    }
    let scrolled = scrolled.min(reversed.len().saturating_sub(height));
    let mut lines: Vec<String> = reversed.into_iter().skip(scrolled).take(height).collect();
    lines.reverse();
    (lines, scrolled)
}

/// A line in parts of at most `width` terminal cells.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut used = 0;
    for char in line.chars() {
        let size = Span::raw(char.to_string()).width();
        if used + size > width && used > 0 {
            parts.push(String::new());
            used = 0;
        }
        if let Some(part) = parts.last_mut() {
            part.push(char);
        }
        used += size;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_wrapped_and_scrolled_to_its_beginning_at_most() {
        let text = "one\ntwo is long\n\nthree";
        let lines = |scrolled| window(text, 5, 3, scrolled).0;
        assert_eq!(lines(0), ["g", "", "three"]);
        assert_eq!(lines(2), ["two i", "s lon", "g"]);
        assert_eq!(window(text, 5, 3, usize::MAX).0[0], "one");
        assert_eq!(window("", 5, 3, 9), (Vec::new(), 0));
        assert_eq!(wrapped("日本語", 4), ["日本", "語"], "wide characters");
        assert_eq!(wrapped("日", 1), ["日"], "no endless loop");
    }
}
