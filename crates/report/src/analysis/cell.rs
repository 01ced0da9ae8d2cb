//! Cells: the values at a row and a column of a table, and their text.

use std::collections::BTreeMap;

use crate::{
    analysis::{Absence, absence::Footnotes, no_interval::NoInterval},
    format::{Scale, decimals, number},
    plan::JobId,
    stats::{Estimate, LEVEL, Odds, Quartiles, Sample},
};

/// Cell at a row and a column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// The sample of the metric over the points of the cell, or of the differences between pairs of points; `None` if
    /// no job of the cell has the metric.
    pub sample: Option<Sample>,
    /// The quartiles of the metric over the points of the cell.
    pub quartiles: Option<Quartiles>,
    /// The mean with its interval, or the geometric mean for times and rates.
    pub estimate: Option<Estimate>,
    /// The smallest difference between two values of the metric, if it is declared.
    pub resolution: Option<f64>,
    /// The result of the comparison, in a table of comparisons.
    pub compared: Option<Compared>,
    /// The probabilities that the difference is negative, practically none, and positive.
    pub odds: Option<Odds>,
    /// True if more seeds may decide the comparison.
    pub open: bool,
    /// The paper's measurement, in the metric's unit.
    pub paper: Option<f64>,
    /// Rank among the best cells of its column.
    pub mark: Option<Mark>,
    /// Points of the cell without a result.
    pub missing: usize,
    /// Points of the cell.
    pub points: usize,
    /// Reasons for missing results in short form, without duplicates.
    pub absences: Vec<&'static str>,
    /// True if the comparison is already corrected for the others of its column.
    pub joint: bool,
    /// Correlation of the values of the pairs of a comparison, if it is known.
    pub correlation: Option<f64>,
    /// True for a comparison of samples that are not paired.
    pub is_unpaired: bool,
    /// The letters of the footnotes.
    pub letters: String,
    /// The reason why the number has no interval.
    pub no_interval: Option<NoInterval>,
    /// Digits beyond the digits of its interval, which distinguish it from the other cells of its column.
    pub(super) further_digits: usize,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The difference or the ratio with its interval; its probability is corrected for the number of comparisons.
    pub estimate: Estimate,
    /// True if chance or measurement noise can explain it.
    pub noise: bool,
}

/// Rank of a cell in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// No cell is better.
    Best,
    /// Not significantly worse than the best, or the column has no significant difference.
    Tied,
    /// Unknown, because there are too few seeds.
    Unclear,
}

impl Mark {
    /// The rank in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Tied => "tied",
            Self::Unclear => "unclear",
        }
    }
}

/// Contents of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// The mean, and half the width of its 95 % confidence interval.
    Mean,
    /// A geometric or an interquartile mean, and both ends of its 95 % interval.
    Interval,
    /// The mean difference between pairs, with its interval and its probability.
    Difference,
    /// The ratio of pairs, with its interval and its probability.
    Ratio,
    /// The probabilities that the difference of pairs is negative, practically none, and positive.
    Odds,
    /// A factor's share of the differences between points.
    Share,
    /// The probability that a run is better than a run of the baseline, with its interval.
    Improvement,
    /// The paper's measurement.
    Paper,
    /// Relative difference to the paper's measurement.
    Delta,
}

/// A cell's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The numbers.
    pub numbers: String,
    /// Mark of the best values of their column.
    pub mark: Option<Mark>,
    /// The letters of footnotes.
    pub letters: String,
}

/// Text of an interval that is too wide to be informative.
pub(super) const TOO_WIDE: &str = "[?]";
/// Ratio of the ends of an interval from which on it is not informative.
const MAX_RATIO: f64 = 1e4;
/// Maximum number of digits beyond the digits of an interval.
const MAX_FURTHER_DIGITS: usize = 2;

/// Gives the cells of a column the fewest digits that distinguish different values.
pub(super) fn tell_apart(cells: &mut [Cell], show: Show, scale: Scale) {
    let look_different = |cells: &[Cell]| {
        let mut values_by_text: BTreeMap<String, u64> = BTreeMap::new();
        cells.iter().filter_map(|cell| Some((cell, cell.value(show)?))).all(|(cell, value)| {
            let text = cell.text(show, scale).numbers;
            let value_text = text.split(' ').next().unwrap_or_default().to_owned();
            *values_by_text.entry(value_text).or_insert(value.to_bits()) == value.to_bits()
        })
    };
    if !matches!(show, Show::Mean | Show::Interval) {
        return;
    }
    for digits in 0..=MAX_FURTHER_DIGITS {
        for cell in &mut *cells {
            cell.further_digits = digits;
        }
        if look_different(cells) {
            return;
        }
    }
    for cell in cells {
        cell.further_digits = 0;
    }
}

impl Cell {
    /// The number that represents the cell.
    pub fn value(&self, show: Show) -> Option<f64> {
        match show {
            Show::Interval => self.estimate.map(|estimate| estimate.value),
            Show::Difference | Show::Ratio | Show::Share | Show::Improvement => {
                self.compared.map(|compared| compared.estimate.value)
            }
            Show::Mean | Show::Paper | Show::Delta => self.sample.map(|sample| sample.mean),
            Show::Odds => None,
        }
    }

    /// True if the interval of a geometric mean or a ratio is not informative.
    pub(super) fn is_too_wide(&self, show: Show) -> bool {
        let shown = match show {
            Show::Interval => self.estimate,
            Show::Ratio => self.compared.map(|compared| compared.estimate),
            _ => None,
        };
        let ends = shown.and_then(|shown| shown.low.zip(shown.high));
        ends.is_some_and(|(low, high)| low > 0.0 && high / low > MAX_RATIO)
    }

    /// The text of the cell, with numbers rounded according to their uncertainty.
    pub fn text(&self, show: Show, scale: Scale) -> Text {
        let numbers = match (show, self.sample) {
            (Show::Share, _) => self.share(scale),
            (Show::Paper | Show::Delta, None) => String::new(),
            (_, None) => "–".to_owned(),
            (Show::Paper, Some(sample)) => plain(sample.mean / scale.factor),
            (Show::Delta, Some(sample)) => self.delta(sample, scale),
            (Show::Interval | Show::Mean, Some(sample)) => self.mean(show, sample, scale),
            (Show::Odds, Some(_)) => self.odds.map_or_else(|| "–".to_owned(), odds),
            (Show::Difference | Show::Ratio | Show::Improvement, Some(sample)) => self.comparison(show, sample, scale),
        };
        Text { numbers, mark: self.mark, letters: self.letters.clone() }
    }

    /// Adds a footnote with the reason for a missing result.
    pub fn lacks(&mut self, absence: &Absence, job: Option<JobId>, footnotes: &mut Footnotes) {
        if self.add_letter(footnotes.letter(absence, job)) {
            self.absences.push(absence.word());
        }
    }

    /// Adds a footnote about a result that is not missing.
    pub(super) fn refer(&mut self, absence: &Absence, footnotes: &mut Footnotes) {
        self.add_letter(footnotes.letter(absence, None));
    }

    /// Adds the letter of a footnote; false if the cell has it.
    fn add_letter(&mut self, letter: char) -> bool {
        if self.letters.contains(letter) {
            return false;
        }
        let mut letters: Vec<char> = self.letters.chars().chain([letter]).collect();
        letters.sort_unstable_by_key(|letter| Footnotes::place(*letter));
        self.letters = letters.into_iter().collect();
        true
    }

    /// True if a number of the cell has an interval.
    pub(super) fn has_interval(&self) -> bool {
        let compared = self.compared.map(|compared| compared.estimate);
        self.estimate.into_iter().chain(compared).any(|estimate| estimate.low.is_some())
    }

    /// The mean, or the geometric mean, with its interval.
    fn mean(&self, show: Show, sample: Sample, scale: Scale) -> String {
        let Some(Estimate { value, low, high, .. }) = self.estimate else { return plain(sample.mean / scale.factor) };
        let (low, high) = (low.map(|low| low / scale.factor), high.map(|high| high / scale.factor));
        let (value, half) = (value / scale.factor, low.zip(high).map(|(low, high)| (high - low) / 2.0));
        let most = self.resolution.map_or(usize::MAX, |resolution| digits_of(resolution / scale.factor));
        match (half, low.zip(high)) {
            _ if self.is_too_wide(show) => format!("{} {TOO_WIDE}", number(value, decimals(value))),
            (Some(half), Some((low, high))) if half > 0.0 => {
                let digits = (digits_of(half) + self.further_digits).min(most);
                if show == Show::Interval {
                    format!("{} [{}, {}]", number(value, digits), lower(low, digits), number(high, digits))
                } else {
                    with_half(value, half, digits)
                }
            }
            (Some(_), _) if sample.n > 1 => format!("{} ± 0", number(value, decimals(value))),
            (_, _) => number(value, decimals(value).min(most)),
        }
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
        let Some(Compared { estimate, noise }) = self.compared else { return plain(sample.mean / scale.factor) };
        let bare = matches!(show, Show::Ratio | Show::Improvement);
        let scale = if bare { Scale { factor: 1.0, suffix: "" } } else { scale };
        let value = estimate.value / scale.factor;
        let ends = estimate.low.zip(estimate.high).map(|(low, high)| (low / scale.factor, high / scale.factor));
        let text = match ends {
            Some(_) if self.is_too_wide(show) => format!("{} {TOO_WIDE}", number(value, decimals(value))),
            None => number(value, decimals(value)),
            Some((low, high)) if low == high && show == Show::Difference => {
                format!("{} ± 0", number(value, decimals(value)))
            }
            Some((low, high)) => {
                let half = (high - low) / 2.0;
                let digits = if half > 0.0 { digits_of(half) } else { decimals(value) };
                if bare {
                    format!("{} [{}, {}]", number(value, digits), lower(low, digits), number(high, digits))
                } else {
                    with_half(value, half, digits)
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

/// The text of odds: `12 / 85 / 3 %`.
fn odds(Odds { less, equivalent, more }: Odds) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    format!("{} / {} / {} %", percent(less), percent(equivalent), percent(more))
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
pub fn digits_of(uncertainty: f64) -> usize {
    let exponent = uncertainty.log10().floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=300")]
    let digits = (1.0 - exponent).clamp(0.0, 300.0) as usize;
    digits
}

/// The lower end of an interval: an end above zero is not rounded to zero, which the interval would then seem to contain.
fn lower(low: f64, digits: usize) -> String {
    let is_hidden = low > 0.0 && low < 0.5 * 10.0_f64.powi(-i32::try_from(digits).unwrap_or(0));
    number(low, if is_hidden { digits_of(low) } else { digits })
}

/// A number with half of its interval; lists of jobs have the same (`withHalf` in `render/page/numbers.js`).
fn with_half(value: f64, half: f64, digits: usize) -> String {
    // An exponent would have fewer digits than the interval justifies.
    if value.abs() >= 1e9 && value.abs() < MAX_PLAIN && half < value.abs() / 1000.0 {
        return format!("{value:.digits$} ± {}", number(raised(half, digits), digits));
    }
    format!("{} ± {}", number(value, digits), number(raised(half, digits), digits))
}

/// Size from which on a mean is written with an exponent.
const MAX_PLAIN: f64 = 1e16;

/// Half of an interval, rounded up, so that rounding does not make it narrower.
fn raised(half: f64, digits: usize) -> f64 {
    let factor = 10.0_f64.powi(i32::try_from(digits).unwrap_or(0));
    // Ignores rounding errors above a decimal.
    (half * factor - 1e-9).ceil() / factor
}

impl Text {
    /// The plain text with its marks.
    pub(crate) fn marked(&self) -> String {
        let mark = match self.mark {
            Some(Mark::Best) => " ◀",
            Some(Mark::Tied) => " ≈",
            Some(Mark::Unclear) => " ?",
            None => "",
        };
        format!("{}{}{mark}", self.numbers, self.letters)
    }

    /// The text in a markup language: `bold` encloses the best cells, `tied` marks cells whose distance from the best
    /// chance can explain.
    pub(crate) fn styled(&self, escape: fn(&str) -> String, bold: (&str, &str), tied: &str) -> String {
        let (text, letters) = (escape(&self.numbers), escape(&self.letters));
        match self.mark {
            Some(Mark::Best) => format!("{}{text}{}{letters}", bold.0, bold.1),
            Some(Mark::Tied) => format!("{text}{letters} {tied}"),
            Some(Mark::Unclear) => format!("{text}{letters} ?"),
            None => format!("{text}{letters}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Unit;

    use super::*;
    use crate::format::{listed, shared_digits};

    fn cell(values: &[f64]) -> Cell {
        let sample = Sample::new(values);
        let estimate = sample.map(|sample| Estimate { p: None, ..sample.estimate() });
        Cell { sample, estimate, ..Cell::default() }
    }

    #[test]
    fn numbers_are_rounded_to_their_uncertainty() {
        let shown = |values: &[f64], show, unit| cell(values).text(show, Scale::of(values[0], unit)).numbers;
        assert_eq!(shown(&[3.276_592_6], Show::Mean, Unit::Nats), "3.28");
        assert_eq!(shown(&[3.1, 3.2, 3.3], Show::Mean, Unit::Nats), "3.20 ± 0.25");
        assert_eq!(shown(&[3.1, 3.2, 3.3, 3.1, 3.2, 3.3], Show::Mean, Unit::Nats), "3.200 ± 0.094");
        assert_eq!(shown(&[2.0, 2.0], Show::Mean, Unit::One), "2.00 ± 0");
        assert_eq!(shown(&[1e-3, 1.1e-3, 1.3e-3, 1.2e-3], Show::Interval, Unit::Seconds), "1.15 [0.94, 1.36]");
        assert_eq!(shown(&[1e-3], Show::Interval, Unit::Seconds), "1.00");
        assert_eq!(cell(&[]).text(Show::Mean, Scale::of(0.0, Unit::One)).numbers, "–");
    }

    #[test]
    fn numbers_are_those_of_the_pages() {
        #[derive(serde::Deserialize)]
        struct Cases {
            numbers: Vec<(f64, String)>,
            means: Vec<(f64, f64, String)>,
            ends: Vec<(f64, f64, f64, String)>,
            lists: Vec<(Vec<f64>, Vec<String>)>,
            spans: Vec<(f64, String)>,
        }
        // A test in the browser compares the scripts with the same file.
        let cases: Cases = serde_json::from_str(include_str!("../render/page/numbers.json")).unwrap();
        for (value, text) in cases.numbers {
            assert_eq!(number(value, decimals(value)), text, "{value}");
        }
        for (value, half, text) in cases.means {
            assert_eq!(with_half(value, half, digits_of(half)), text, "{value} ± {half}");
        }
        for (value, low, high, text) in cases.ends {
            let estimate = Some(Estimate { value, low: Some(low), high: Some(high), p: None });
            let cell = Cell { sample: Sample::new(&[value; 2]), estimate, ..Cell::default() };
            assert_eq!(cell.text(Show::Interval, Scale { factor: 1.0, suffix: "" }).numbers, text);
        }
        for (values, texts) in cases.lists {
            let shared = shared_digits(values.iter().copied());
            assert_eq!(values.iter().map(|value| listed(*value, shared)).collect::<Vec<_>>(), texts);
        }
        for (seconds, text) in cases.spans {
            assert_eq!(crate::format::duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn rows_that_differ_look_different() {
        let mut cells = [cell(&[0.510, 1.510]), cell(&[0.511, 1.511]), cell(&[0.511, 1.511])];
        let scale = Scale::of(0.5, Unit::One);
        tell_apart(&mut cells, Show::Mean, scale);
        let texts = cells.each_ref().map(|cell| cell.text(Show::Mean, scale).numbers);
        assert_eq!(texts, ["1.010 ± 6.354", "1.011 ± 6.354", "1.011 ± 6.354"]);
        let mut cells = [cell(&[1.0, 2.0]), cell(&[1.0 + 1e-9, 2.0])];
        tell_apart(&mut cells, Show::Mean, scale);
        assert_eq!(cells[0].text(Show::Mean, scale).numbers, "1.5 ± 6.4", "no number of digits would do");
    }

    #[test]
    fn an_interval_that_says_nothing_is_not_written_out() {
        let wide = |show, low, high| {
            let estimate = Estimate { value: 30.0, low: Some(low), high: Some(high), p: None };
            let compared = Some(Compared { estimate, noise: false });
            let cell =
                Cell { sample: Sample::new(&[30.0, 30.0]), estimate: Some(estimate), compared, ..Cell::default() };
            cell.text(show, Scale::of(30.0, Unit::One)).numbers
        };
        assert_eq!(wide(Show::Interval, 3e-8, 2.9e10), "30.0 [?]");
        assert_eq!(wide(Show::Ratio, 3e-8, 2.9e10), "30.0 [?]");
        assert_eq!(wide(Show::Interval, 3.0, 300.0), "30 [3, 300]");
        assert_eq!(wide(Show::Difference, -3.0, 3e10).split(' ').next(), Some("30"));
    }

    #[test]
    fn a_resolution_limits_the_digits() {
        let fine = cell(&[0.5, 0.5001]);
        assert_eq!(fine.text(Show::Mean, Scale::of(0.5, Unit::One)).numbers, "0.50005 ± 0.00064");
        let coarse = Cell { resolution: Some(0.01), ..fine };
        assert_eq!(coarse.text(Show::Mean, Scale::of(0.5, Unit::One)).numbers, "0.500 ± 0.001");
    }

    #[test]
    fn a_significant_difference_looks_like_one() {
        assert_eq!(probability(0.049_9), "p < 0.05");
        assert_eq!(probability(0.050_1), "p = 0.050");
        assert_eq!(probability(0.04), "p = 0.040");
        assert_eq!(probability(1e-9), "p < 0.001");
    }
}
