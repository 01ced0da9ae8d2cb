//! Legends, and the symbols of series in them and in plots.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Area, Canvas, Chart, DASHES, FONT, INK, Legend, Mark, Series, pixels};

/// Width of a letter of the legend, and of the symbol with its gap.
const LETTER: i32 = 8;
const SYMBOL: i32 = 34;

/// Draws the legend to the right of the plot or below it.
pub(super) fn legend<B: Canvas>(
    root: &Area<B>,
    chart: &Chart<'_>,
    series: &[Series],
) -> Result<(), Box<dyn std::error::Error>> {
    let (width, height) = chart.size();
    let named_series = || series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
    let place = chart.legend_place();
    if place == Legend::Bottom {
        let rows = legend_rows(chart, series);
        let mut y = pixels(height) - 12 - 20 * (pixels(rows.len()) - 1);
        for row in rows {
            let wide: i32 = row.iter().map(|index| entry_width(&series[*index])).sum();
            let mut x = ((pixels(width) - wide) / 2).max(8);
            for index in row {
                symbol(root, chart, index, (x, y))?;
                label(root, series[index].name.clone(), (x + SYMBOL, y))?;
                x += entry_width(&series[index]);
            }
            y += 20;
        }
        return Ok(());
    }
    if place == Legend::Off {
        return Ok(());
    }
    let left = pixels(width) - legend_room(chart, series).0 + 12;
    let rows = (height as usize - 52) / 22;
    for (index, Series { name, .. }) in named_series() {
        let at = (left, 52 + 22 * pixels(index));
        if index + 1 == rows && series.len() > rows {
            label(root, format!("and {} more", series.len() - index), at)?;
            break;
        }
        symbol(root, chart, index, at)?;
        label(root, name.clone(), (left + SYMBOL, at.1))?;
    }
    Ok(())
}

fn label<B: Canvas>(root: &Area<B>, text: String, at: (i32, i32)) -> Result<(), Box<dyn std::error::Error>> {
    let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(text, at, style))?;
    Ok(())
}

/// Draws the symbol of a series, which is 26 units wide.
fn symbol<B: Canvas>(
    root: &Area<B>,
    chart: &Chart<'_>,
    index: usize,
    (x, y): (i32, i32),
) -> Result<(), Box<dyn std::error::Error>> {
    let color = chart.color(index);
    match chart.spec.kind.declaration().mark {
        Mark::Line => {
            let (dash, gap) = DASHES[index % DASHES.len()].unwrap_or((26, 0));
            let mut start = 0;
            while start < 26 {
                let end = (start + dash).min(26);
                root.draw(&PathElement::new([(x + start, y), (x + end, y)], color.stroke_width(2)))?;
                start += dash + gap;
            }
        }
        Mark::Area => {
            root.draw(&Rectangle::new([(x, y - 6), (x + 26, y + 6)], color.mix(0.85).filled()))?;
        }
        Mark::Dot => marker(root, chart, index, (x + 13, y))?,
        Mark::Nothing => {}
    }
    Ok(())
}

/// Width of an entry in a legend below the plot.
fn entry_width(series: &Series) -> i32 {
    SYMBOL + LETTER * pixels(series.name.chars().count()) + 10
}

/// Returns the entries of a legend below the plot, by rows. Entries without room are left out.
fn legend_rows(chart: &Chart<'_>, series: &[Series]) -> Vec<Vec<usize>> {
    let (width, height) = chart.size();
    let mut rows: Vec<(i32, Vec<usize>)> = Vec::new();
    for (index, entry) in series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        let wide = entry_width(entry);
        match rows.last_mut() {
            Some((used, row)) if *used + wide <= pixels(width) - 16 => {
                *used += wide;
                row.push(index);
            }
            _ => rows.push((wide, vec![index])),
        }
    }
    rows.truncate(height as usize / 60);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Width of the legend beside the plot, and its height below.
pub(super) fn legend_room(chart: &Chart<'_>, series: &[Series]) -> (i32, i32) {
    let longest = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    match chart.legend_place() {
        Legend::Right if longest > 0 => (12 + SYMBOL + LETTER * pixels(longest.min(40)) + 10, 0),
        Legend::Bottom => (24, 20 * pixels(legend_rows(chart, series).len())),
        Legend::Right | Legend::Off => (24, 0),
    }
}

/// Draws a dot in the shape of its color.
pub(super) fn marker<B: Canvas>(
    root: &Area<B>,
    chart: &Chart<'_>,
    index: usize,
    at: (i32, i32),
) -> Result<(), Box<dyn std::error::Error>> {
    let color = chart.color(index);
    match index % 3 {
        0 => root.draw(&Circle::new(at, 5, color.filled()))?,
        1 => root.draw(&TriangleMarker::new(at, 6, color.filled()))?,
        _ => root.draw(&Cross::new(at, 5, color.stroke_width(2)))?,
    }
    Ok(())
}
