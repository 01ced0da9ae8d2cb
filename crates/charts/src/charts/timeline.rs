//! Timelines: the times at which jobs ran, and their concurrency.
//!
//! Jobs of one study may have run days apart; long pauses are omitted.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::Unit;

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FAINT, FONT, INK, Mark, Series, heading, legend, legend_room, tick,
};
use crate::format::{Scale, shortened};

/// Maximum number of jobs that have their own rows with names; more jobs share rows.
const MAX_NAMED: usize = 24;
/// Idle time is cut out if it is longer than this fraction of the busy time.
const MAX_GAP_FRACTION: f64 = 0.1;
/// Width of a cut, as a fraction of the busy time.
const LEFT: f64 = 0.02;

/// The interval in which a job ran, in seconds since the first job began, and its position.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    begin: f64,
    end: f64,
    color: usize,
    row: usize,
}

pub(super) const TIMELINE: Declaration = Declaration {
    word: "timeline",
    doc: "A timeline with a row for each job. More than 24 jobs share rows. Long pauses are omitted.",
    mark: Mark::Area,
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let Some(first) = chart.dots.iter().map(|dot| dot.started).min() else { return Ok(Err(Empty::NoJobs)) };
    let groups = chart.by_color();
    let mut spans: Vec<(Span, String)> = Vec::new();
    for (color, (_, group)) in groups.iter().enumerate() {
        for dot in group {
            let begin = dot.started.duration_since(first).as_secs_f64();
            let span = Span { begin, end: begin + dot.seconds.max(0.0), color, row: 0 };
            spans.push((span, dot.name.clone()));
        }
    }
    spans.sort_by(|(a, _), (b, _)| a.begin.total_cmp(&b.begin).then(a.color.cmp(&b.color)));
    let cuts = Cuts::new(spans.iter().map(|(span, _)| (span.begin, span.end)));
    let right = cuts.place(spans.iter().map(|(span, _)| span.end).fold(0.0, f64::max));
    if right <= 0.0 || !right.is_finite() {
        return Ok(Err(Empty::Impossible));
    }
    let has_names = spans.len() <= MAX_NAMED && spans.iter().any(|(_, name)| !name.is_empty());
    let rows = if has_names {
        spans.iter_mut().enumerate().for_each(|(row, (span, _))| span.row = row);
        spans.len()
    } else {
        stack(&mut spans)
    };
    let series: Vec<Series> =
        groups.into_iter().map(|(name, _)| Series { name, points: Vec::new(), bars: BTreeMap::new() }).collect();
    let longest = spans.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
    let room = if has_names { 20 + 7 * u32::try_from(longest.min(34)).unwrap_or(0) } else { 48 };
    let (beside, below) = legend_room(chart, &series);
    let mut builder = ChartBuilder::on(root);
    builder.margin(14).margin_right(beside).margin_bottom(14 + below).x_label_area_size(48).y_label_area_size(room);
    builder.caption(chart.title, (FONT, 17).into_font().color(&INK));
    let mut plot = builder.build_cartesian_2d(0.0..right * 1.01, 0.0..rows as f64)?;
    let scale = Scale::of(right, Unit::Seconds);
    let cut_note = if cuts.0.is_empty() { "" } else { ", long pauses cut out" };
    let x_name = format!("{}{cut_note}", heading("time since the first job began", scale, Unit::Seconds));
    let y_name = if has_names { "" } else { "jobs side by side" };
    let x_text = |value: &f64| tick(*value, scale);
    let mut mesh = plot.configure_mesh();
    mesh.disable_y_mesh().light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK);
    mesh.x_label_formatter(&x_text).x_desc(x_name).y_desc(y_name).x_labels(8).y_labels(0);
    mesh.label_style((FONT, 13).into_font().color(&INK));
    mesh.draw()?;
    // The first row is on top.
    let from_below = |row: usize| (rows - 1 - row) as f64;
    for at in cuts.marks() {
        plot.draw_series(DashedLineSeries::new([(at, 0.0), (at, rows as f64)], 3, 4, INK.stroke_width(1)))?;
    }
    plot.draw_series(spans.iter().map(|(span, _)| {
        let (from, to) = (cuts.place(span.begin), cuts.place(span.end));
        let (bottom, top) = (from_below(span.row) + 0.14, from_below(span.row) + 0.86);
        // An interval shorter than a pixel stays visible.
        let to = to.max(from + right / 600.0);
        Rectangle::new([(from, bottom), (to, top)], chart.color(span.color).mix(0.85).filled())
    }))?;
    for (span, name) in spans.iter().filter(|_| has_names) {
        let (x, y) = plot.backend_coord(&(0.0, from_below(span.row) + 0.5));
        let style = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(shortened(name, 34), (x - 8, y), style))?;
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}

/// Puts spans that do not overlap into the same row, and returns the number of rows, which is minimal.
fn stack(spans: &mut [(Span, String)]) -> usize {
    let mut ends: Vec<f64> = Vec::new();
    for (span, _) in spans {
        // The end of a process and the start of the next one may be recorded in either order.
        span.row = ends.iter().position(|end| *end <= span.begin + 0.05).unwrap_or_else(|| {
            ends.push(0.0);
            ends.len() - 1
        });
        ends[span.row] = span.end;
    }
    ends.len()
}

/// Idle intervals that are cut out, and the width of a cut.
struct Cuts(Vec<(f64, f64)>, f64);

impl Cuts {
    /// Finds the long pauses between spans, which are sorted by their start.
    fn new(spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut pauses, mut busy, mut until) = (Vec::new(), 0.0, f64::NEG_INFINITY);
        for (begin, end) in spans {
            if begin > until && until.is_finite() {
                pauses.push((until, begin));
            }
            busy += (end - begin.max(until)).max(0.0);
            until = until.max(end);
        }
        pauses.retain(|(from, to)| to - from > MAX_GAP_FRACTION * busy);
        Self(pauses, LEFT * busy)
    }

    /// Position of a time.
    fn place(&self, time: f64) -> f64 {
        let cut_before = |(from, to): &(f64, f64)| {
            if time <= *from {
                0.0
            } else {
                (to.min(time) - from - self.1 * ((to.min(time) - from) / (to - from))).max(0.0)
            }
        };
        time - self.0.iter().map(cut_before).sum::<f64>()
    }

    /// The middles of the cuts that remain.
    fn marks(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(from, to)| f64::midpoint(self.place(*from), self.place(*to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pauses_are_cut_out() {
        let cuts = Cuts::new([(0.0, 10.0), (2.0, 8.0), (10.5, 20.0), (1000.0, 1010.0)].into_iter());
        assert_eq!(cuts.0, [(20.0, 1000.0)], "a short pause stays");
        let left = LEFT * 29.5;
        assert_eq!(cuts.place(15.0), 15.0);
        assert!((cuts.place(1000.0) - (20.0 + left)).abs() < 1e-9);
        assert!((cuts.place(1010.0) - (30.0 + left)).abs() < 1e-9);
    }

    #[test]
    fn jobs_share_rows_as_far_as_they_do_not_overlap() {
        let span = |begin: f64, end: f64| (Span { begin, end, color: 0, row: 9 }, String::new());
        let mut spans = [span(0.0, 10.0), span(1.0, 4.0), span(4.0, 8.0), span(10.0, 12.0)];
        assert_eq!(stack(&mut spans), 2);
        assert_eq!(spans.map(|(span, _)| span.row), [0, 1, 1, 0]);
    }
}
