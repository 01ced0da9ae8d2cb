//! Importance of axes: their shares of the differences between configurations, as horizontal bars.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::Value;

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FAINT, FONT, INK, Role, SIZE, Shows,
    configurations::Configurations, pixels,
};
use crate::{
    format::{clean, count, shortened},
    stats::{Factor, Importance, Share, importance},
};

pub(super) const IMPORTANCE: Declaration = Declaration {
    word: "importance",
    doc: "The importance of axes for a metric: each axis's share of the variance between configurations, alone (dark) \
        and with its interactions (light), by functional analysis of variance. The shares are exact if every \
        combination was measured; otherwise a random forest estimates them, and the figure shows how well the forest \
        predicts.",
    value: Some(Role::Metric),
    shows: Shows::Configurations,
    ..Declaration::NOTHING
};

/// Number of axes that have room.
const MAX_ROWS: usize = 16;
/// The longest label in characters.
const MAX_LABEL_LENGTH: usize = 30;
/// Below this coefficient of determination the shares of a forest mean little.
const WEAK: f64 = 0.3;

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let Some(metric) = &chart.spec.value else { return Ok(Err(Empty::NoValues)) };
    let configurations = Configurations::new(chart, metric);
    let (names, factors) = factors(&configurations);
    let means: Vec<f64> = configurations.rows.iter().map(|row| row.sample.mean).collect();
    let Some(result) = chart.importance.get_or_init(|| importance(&factors, &means)) else {
        return Ok(Err(if means.is_empty() { Empty::NoValues } else { Empty::NoVariation }));
    };
    let mut rows: Vec<(String, Share)> = names.into_iter().zip(result.shares.iter().copied()).collect();
    rows.sort_by(|(_, a), (_, b)| b.whole.total_cmp(&a.whole));
    let hidden = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);

    let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let (left, right) = (32 + 8 * pixels(longest), pixels(SIZE.0) - 130);
    let (top, bottom) = (84, pixels(SIZE.1) - 66);
    let font = |size: u32| (FONT, size).into_font().color(&INK);
    let at = |h, v| Pos::new(h, v);
    root.draw(&Text::new(chart.title.to_owned(), (pixels(SIZE.0) / 2, 16), font(17).pos(at(HPos::Center, VPos::Top))))?;
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of pixels")]
    let x_of = |share: f64| left + (f64::from(right - left) * share.clamp(0.0, 1.0)).round() as i32;
    for tick in 0..=5 {
        let x = x_of(f64::from(tick) / 5.0);
        root.draw(&PathElement::new([(x, top), (x, bottom)], FAINT.stroke_width(1)))?;
        root.draw(&Text::new((20 * tick).to_string(), (x, bottom + 6), font(13).pos(at(HPos::Center, VPos::Top))))?;
    }
    let below = (i32::midpoint(left, right), bottom + 26);
    let x_name = format!("share of the variance of {} between configurations (%)", clean(metric));
    root.draw(&Text::new(x_name, below, font(13).pos(at(HPos::Center, VPos::Top))))?;
    for (x, opacity, name) in [(left, 1.0, "alone"), (left + 90, LIGHT, "with interactions")] {
        root.draw(&Rectangle::new([(x, 58), (x + 22, 68)], chart.color(0).mix(opacity).filled()))?;
        root.draw(&Text::new(name, (x + 30, 63), font(13).pos(at(HPos::Left, VPos::Center))))?;
    }
    let height = ((bottom - top) / pixels(rows.len().max(1))).min(72);
    for (index, (name, Share { alone, whole })) in rows.iter().enumerate() {
        let (from, to) = (top + height * pixels(index), top + height * pixels(index + 1));
        let gap = (height / 6).max(2);
        let bar = |end: f64| [(left, from + gap), (x_of(end).max(left + 1), to - gap)];
        root.draw(&Rectangle::new(bar(*whole), chart.color(0).mix(LIGHT).filled()))?;
        root.draw(&Rectangle::new(bar(*alone), chart.color(0).filled()))?;
        let middle = i32::midpoint(from, to);
        root.draw(&Text::new(name.clone(), (left - 8, middle), font(13).pos(at(HPos::Right, VPos::Center))))?;
        let numbers = format!("{} to {} %", percent(*alone), percent(*whole));
        let numbers = if percent(*alone) == percent(*whole) { format!("{} %", percent(*alone)) } else { numbers };
        root.draw(&Text::new(numbers, (x_of(*whole) + 8, middle), font(13).pos(at(HPos::Left, VPos::Center))))?;
    }
    root.draw(&PathElement::new([(left, top), (left, bottom)], INK.stroke_width(1)))?;
    let more = (hidden > 0).then(|| format!("{} of less importance not shown", axes(hidden)));
    let basis = basis(result, configurations.rows.len());
    configurations.remark(root, Some(more.map_or_else(|| basis.clone(), |more| format!("{basis}; {more}"))))?;
    Ok(Ok(()))
}

/// The opacity of shares with interactions.
const LIGHT: f64 = 0.4;

fn axes(number: usize) -> String {
    if number == 1 { "1 axis".to_owned() } else { format!("{number} axes") }
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// The axes as factors. Axes whose values determine each other are one.
fn factors(configurations: &Configurations<'_>) -> (Vec<String>, Vec<Factor>) {
    let mut groups: Vec<(Vec<&str>, Vec<usize>, Factor)> = Vec::new();
    for (index, (name, span)) in configurations.axes.iter().enumerate() {
        let values: Vec<&Value> = configurations.rows.iter().map(|row| &row.values[index]).collect();
        let order = order_of_appearance(&values);
        // Numbers that are drawn one by one do not determine each other, although all are different.
        let repeats = order.iter().max().is_some_and(|last| 2 * (last + 1) <= order.len());
        if let Some((names, ..)) = groups.iter_mut().find(|(_, known, _)| repeats && *known == order) {
            names.push(name);
            continue;
        }
        let numbers: Option<Vec<f64>> = values.iter().map(|value| span.number(value)).collect();
        let factor = numbers.map_or_else(|| Factor::Categories(order.clone()), Factor::Numbers);
        groups.push((vec![name], order, factor));
    }
    groups
        .into_iter()
        .map(|(names, _, factor)| (shortened(&clean(&names.join(", ")), MAX_LABEL_LENGTH), factor))
        .unzip()
}

/// The values, numbered in the order in which they appear first.
fn order_of_appearance(values: &[&Value]) -> Vec<usize> {
    let mut indices = std::collections::HashMap::new();
    values
        .iter()
        .map(|value| {
            let next = indices.len();
            *indices.entry(value.to_string()).or_insert(next)
        })
        .collect()
}

/// Origin of the shares.
fn basis(result: &Importance, configurations: usize) -> String {
    let total = count(configurations, "configuration");
    match result.fit {
        None => format!("exact, of all {total}"),
        Some(fit) if fit < WEAK => {
            format!("random forest of {total}, which hardly predicts others (R² = {fit:.2}): the shares mean little")
        }
        Some(fit) => format!("random forest of {total}; it predicts others with R² = {fit:.2}"),
    }
}
