//! Cells: the values at a row and a column of a table, and their text.

use crate::{
    analysis::{Absence, absence::Footnotes},
    format::{Scale, decimals, number},
    plan::JobId,
    stats::{Estimate, LEVEL, Quartiles, Sample},
};

/// Cell at a row and a column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// The sample of the metric over the points of the cell, or of the differences between pairs of points; `None` if
    /// no job of the cell has the metric.
    pub sample: Option<Sample>,
    /// The quartiles of that sample.
    pub quartiles: Option<Quartiles>,
    /// The result of the comparison, in a table of comparisons.
    pub compared: Option<Compared>,
    /// The paper's measurement, in base units.
    pub paper: Option<f64>,
    /// Rank among the best cells of its column.
    pub mark: Option<Mark>,
    /// Points of the cell without a result.
    pub missing: usize,
    /// Points of the cell.
    pub points: usize,
    /// Reasons for missing results in short form, without duplicates.
    pub absences: Vec<&'static str>,
    /// The letters of the footnotes.
    pub letters: String,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The difference or the ratio with its interval; its probability is corrected for the number of comparisons.
    pub estimate: Estimate,
    /// True if chance or measurement noise can explain it.
    pub noise: bool,
}

/// Rank of a cell among those of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// No cell is better.
    Best,
    /// Not significantly worse than the best.
    Tied,
}

/// Contents of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// The mean, and half the width of its 95 % confidence interval.
    Mean,
    /// The median, and the quartiles.
    Median,
    /// The mean difference between pairs, with its interval and its probability.
    Difference,
    /// The ratio of pairs, with its interval and its probability.
    Ratio,
    /// A factor's share of the differences between points.
    Share,
    /// The paper's measurement.
    Paper,
    /// Relative difference to the paper's measurement.
    Delta,
}

/// A cell's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// The numbers.
    pub(crate) numbers: String,
    /// Mark of the best values of their column.
    pub(crate) mark: Option<Mark>,
    /// The letters of footnotes.
    pub(crate) letters: String,
}

impl Cell {
    /// The number that represents the cell.
    pub(crate) fn value(&self, show: Show) -> Option<f64> {
        match show {
            Show::Median => self.quartiles.map(|quartiles| quartiles.median),
            Show::Difference | Show::Ratio | Show::Share => self.compared.map(|compared| compared.estimate.value),
            Show::Mean | Show::Paper | Show::Delta => self.sample.map(|sample| sample.mean),
        }
    }

    /// The text of the cell, with numbers rounded according to their uncertainty.
    pub(crate) fn text(&self, show: Show, scale: Scale) -> Text {
        let numbers = match (show, self.sample) {
            (Show::Share, _) => self.share(scale),
            (Show::Paper | Show::Delta, None) => String::new(),
            (_, None) => "–".to_owned(),
            (Show::Paper, Some(sample)) => plain(sample.mean / scale.factor),
            (Show::Delta, Some(sample)) => self.delta(sample, scale),
            (Show::Median, Some(sample)) => self.median(sample, scale),
            (Show::Mean, Some(sample)) => mean(sample, scale),
            (Show::Difference | Show::Ratio, Some(sample)) => self.comparison(show, sample, scale),
        };
        Text { numbers, mark: self.mark, letters: self.letters.clone() }
    }

    /// Adds a footnote with the reason for a missing result.
    pub(crate) fn lacks(&mut self, absence: &Absence, job: Option<JobId>, footnotes: &mut Footnotes) {
        let letter = footnotes.letter(absence, job);
        if !self.letters.contains(letter) {
            let mut letters: Vec<char> = self.letters.chars().chain([letter]).collect();
            letters.sort_unstable();
            self.letters = letters.into_iter().collect();
            self.absences.push(absence.word());
        }
    }

    fn median(&self, sample: Sample, scale: Scale) -> String {
        let Some(Quartiles { low, median, high }) = self.quartiles else { return mean(sample, scale) };
        let [low, median, high] = [low, median, high].map(|value| value / scale.factor);
        if sample.n < 2 {
            return number(median, decimals(median));
        }
        let digits = if high > low { digits_of((high - low) / 2.0) } else { decimals(median) };
        format!("{} [{}–{}]", number(median, digits), number(low, digits), number(high, digits))
    }

    fn delta(&self, sample: Sample, scale: Scale) -> String {
        let delta = sample.mean / scale.factor;
        let sign = if delta > 0.0 { "+" } else { "" };
        let noise = if self.compared.is_some_and(|compared| compared.noise) { "≈ " } else { "" };
        format!("{noise}{sign}{}", number(delta, decimals(delta).min(2)).replace('-', "−"))
    }

    /// A share; empty in a row that has none.
    fn share(&self, scale: Scale) -> String {
        match self.compared {
            Some(Compared { estimate, noise }) => {
                let noise = if noise { "≈ " } else { "" };
                format!("{noise}{}", number(estimate.value / scale.factor, 1))
            }
            None if self.points > 0 => "–".to_owned(),
            None => String::new(),
        }
    }

    fn comparison(&self, show: Show, sample: Sample, scale: Scale) -> String {
        let Some(Compared { estimate, noise }) = self.compared else { return mean(sample, scale) };
        let scale = if show == Show::Ratio { Scale { factor: 1.0, suffix: "" } } else { scale };
        let value = estimate.value / scale.factor;
        let ends = estimate.low.zip(estimate.high).map(|(low, high)| (low / scale.factor, high / scale.factor));
        let text = match ends {
            None => number(value, decimals(value)),
            Some((low, high)) if low == high && show == Show::Difference => {
                format!("{} ± 0", number(value, decimals(value)))
            }
            Some((low, high)) => {
                let half = (high - low) / 2.0;
                let digits = if half > 0.0 { digits_of(half) } else { decimals(value) };
                if show == Show::Ratio {
                    format!("{} [{}, {}]", number(value, digits), number(low, digits), number(high, digits))
                } else {
                    format!("{} ± {}", number(value, digits), number(half, digits))
                }
            }
        };
        let noise = if noise { "≈ " } else { "" };
        let chance = estimate.p.map_or_else(String::new, |p| format!(" ({})", probability(p)));
        format!("{noise}{text}{chance}")
    }
}

/// The text of a probability: `p = 0.032`.
fn probability(p: f64) -> String {
    // Rounding must not make a significant difference appear insignificant.
    match p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p if p < 1.0 - LEVEL && format!("{p:.3}") == "0.050" => "p < 0.05".to_owned(),
        p => format!("p = {p:.3}"),
    }
}

fn mean(sample: Sample, scale: Scale) -> String {
    let mean = sample.mean / scale.factor;
    match sample.half_width().map(|half| half / scale.factor) {
        Some(half) if half > 0.0 => {
            let digits = digits_of(half);
            format!("{} ± {}", number(mean, digits), number(half, digits))
        }
        Some(_) => format!("{} ± 0", number(mean, decimals(mean))),
        None => number(mean, decimals(mean)),
    }
}

/// A number that was rounded elsewhere.
fn plain(value: f64) -> String {
    let text = number(value, 6);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Number of decimals that shows two significant digits of an uncertainty.
pub(crate) fn digits_of(uncertainty: f64) -> usize {
    let exponent = uncertainty.log10().floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=9")]
    let digits = (1.0 - exponent).clamp(0.0, 9.0) as usize;
    digits
}

impl Text {
    /// The plain text with its marks.
    pub(crate) fn marked(&self) -> String {
        let mark = match self.mark {
            Some(Mark::Best) => " ◀",
            Some(Mark::Tied) => " ≈",
            None => "",
        };
        format!("{}{}{mark}", self.numbers, self.letters)
    }

    /// The text in a markup language: `bold` encloses the best cells, `tied` marks those that chance can explain.
    pub(crate) fn styled(&self, escape: fn(&str) -> String, bold: (&str, &str), tied: &str) -> String {
        let (text, letters) = (escape(&self.numbers), escape(&self.letters));
        match self.mark {
            Some(Mark::Best) => format!("{}{text}{}{letters}", bold.0, bold.1),
            Some(Mark::Tied) => format!("{text}{letters} {tied}"),
            None => format!("{text}{letters}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Unit;

    use super::*;

    fn cell(values: &[f64]) -> Cell {
        Cell { sample: Sample::new(values), quartiles: Quartiles::new(values), ..Cell::default() }
    }

    #[test]
    fn numbers_are_rounded_to_their_uncertainty() {
        let shown = |values: &[f64], show, unit| cell(values).text(show, Scale::of(values[0], unit)).numbers;
        assert_eq!(shown(&[3.276_592_6], Show::Mean, Unit::Nats), "3.28");
        assert_eq!(shown(&[3.1, 3.2, 3.3], Show::Mean, Unit::Nats), "3.20 ± 0.25");
        assert_eq!(shown(&[2.0, 2.0], Show::Mean, Unit::One), "2.00 ± 0");
        assert_eq!(shown(&[1e-3, 1.1e-3, 1.3e-3, 1.2e-3], Show::Median, Unit::Seconds), "1.150 [1.075–1.225]");
        assert_eq!(shown(&[1e-3], Show::Median, Unit::Seconds), "1.00");
        assert_eq!(shown(&[1e-3, 1e-3], Show::Median, Unit::Seconds), "1.00 [1.00–1.00]");
        assert_eq!(cell(&[]).text(Show::Mean, Scale::of(0.0, Unit::One)).numbers, "–");
    }

    #[test]
    fn a_significant_difference_looks_like_one() {
        assert_eq!(probability(0.049_9), "p < 0.05");
        assert_eq!(probability(0.050_1), "p = 0.050");
        assert_eq!(probability(0.04), "p = 0.040");
        assert_eq!(probability(1e-9), "p < 0.001");
    }
}
