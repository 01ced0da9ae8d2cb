//! Scales of axes of a step: numbers on a linear or a logarithmic scale, or words at equal distances.

use std::collections::BTreeSet;

use sweep_job::Value;

use crate::format::{clean, shortened};

/// The fraction of a line that is free beyond its ends, for numbers.
const MARGIN: f64 = 0.05;
/// Maximum number of values that are ticks themselves; more values have round ticks.
const MAX_OWN: usize = 7;
/// The longest word in characters.
const MAX_WORD_LENGTH: usize = 14;

/// The values of an axis along a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisScale {
    values: Values,
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    /// Sorted numbers, at least two.
    Numbers { log: bool, all: Vec<f64> },
    /// Everything else, in the order of its first appearance.
    Words(Vec<Value>),
}

impl AxisScale {
    /// The line of these values; `declared` is true for a logarithmic scale. `None` if they do not vary.
    pub(super) fn new(values: &[&Value], declared: Option<bool>) -> Option<Self> {
        let mut distinct_values: Vec<Value> = Vec::new();
        let mut texts = BTreeSet::new();
        for value in values {
            // An integer and an equal float have the same text.
            if texts.insert(value.to_string()) {
                distinct_values.push((*value).clone());
            }
        }
        if distinct_values.len() < 2 {
            return None;
        }
        let numbers: Option<Vec<f64>> =
            distinct_values.iter().map(|value| value.as_f64().filter(|it| it.is_finite())).collect();
        let values = match numbers {
            Some(mut all) => {
                all.sort_by(f64::total_cmp);
                let log = all[0] > 0.0 && declared.unwrap_or_else(|| is_geometric(&all));
                Values::Numbers { log, all }
            }
            None => Values::Words(distinct_values),
        };
        Some(Self { values })
    }

    /// The numbers by which statistics see a value; `None` for words.
    pub(super) fn number(&self, value: &Value) -> Option<f64> {
        match &self.values {
            Values::Numbers { log, .. } => value.as_f64().map(|number| if *log { number.ln() } else { number }),
            Values::Words(_) => None,
        }
    }

    /// The index of a word.
    pub(super) fn word(&self, value: &Value) -> Option<usize> {
        match &self.values {
            Values::Numbers { .. } => None,
            Values::Words(words) => words.iter().position(|word| word.to_string() == value.to_string()),
        }
    }

    /// The words of an axis without numbers; empty for numbers.
    pub(super) fn words(&self) -> Vec<String> {
        match &self.values {
            Values::Numbers { .. } => Vec::new(),
            Values::Words(words) => words.iter().map(|word| clean(&word.to_string()).into_owned()).collect(),
        }
    }

    /// The number at a place, or the index of the word there.
    pub(super) fn number_at(&self, place: f64) -> f64 {
        match &self.values {
            Values::Words(words) => (place * words.len() as f64 - 0.5).round(),
            Values::Numbers { log, all } => {
                let scaled = |number: f64| if *log { number.ln() } else { number };
                let (low, high) = (scaled(all[0]), scaled(all[all.len() - 1]));
                let number = low + (high - low) * (place - MARGIN) / (1.0 - 2.0 * MARGIN);
                let number = if *log { number.exp() } else { number };
                // Snaps to a value of the axis, because the inverse of the scale has rounding errors.
                let near = all.iter().copied().min_by(|a, b| (a - number).abs().total_cmp(&(b - number).abs()));
                near.filter(|near| (near - number).abs() <= 1e-6 * number.abs().max(1e-300)).unwrap_or(number)
            }
        }
    }

    /// True if the scale is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.values, Values::Numbers { log: true, .. })
    }

    /// True if the values have no numeric scale.
    pub(super) fn has_words(&self) -> bool {
        matches!(self.values, Values::Words(_))
    }

    /// True if this number of rows has each value twice on average.
    pub(super) fn repeats(&self, rows: usize) -> bool {
        let count = match &self.values {
            Values::Numbers { all, .. } => all.len(),
            Values::Words(words) => words.len(),
        };
        2 * count <= rows
    }

    /// The place of a value, from 0 to 1.
    pub(super) fn place(&self, value: &Value) -> Option<f64> {
        match &self.values {
            Values::Numbers { .. } => self.place_of(value.as_f64()?),
            Values::Words(words) => Some((self.word(value)? as f64 + 0.5) / words.len() as f64),
        }
    }

    fn place_of(&self, number: f64) -> Option<f64> {
        let Values::Numbers { log, all } = &self.values else { return None };
        let scaled = |number: f64| if *log { number.ln() } else { number };
        let (low, high) = (scaled(*all.first()?), scaled(*all.last()?));
        // Halved, so that the distance of very large numbers is finite.
        let share = (scaled(number) / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        share.is_finite().then_some(MARGIN + (1.0 - 2.0 * MARGIN) * share)
    }

    /// The ticks, each with its place and its text; about `max_ticks` of them if the values are many numbers.
    pub(super) fn ticks(&self, max_ticks: usize) -> Vec<(f64, String)> {
        match &self.values {
            Values::Words(words) => {
                let count = words.len() as f64;
                let word = |(index, word): (usize, &Value)| {
                    ((index as f64 + 0.5) / count, shortened(&clean(&word.to_string()), MAX_WORD_LENGTH))
                };
                words.iter().enumerate().map(word).collect()
            }
            Values::Numbers { log, all } => {
                let (low, high) = (all[0], all[all.len() - 1]);
                let round = match log {
                    _ if all.len() <= MAX_OWN.min(max_ticks) => all.iter().map(|number| text(*number)).collect(),
                    true => decades(low, high, max_ticks),
                    false => round_numbers(low, high, max_ticks),
                };
                let place = |(number, text)| Some((self.place_of(number)?, text));
                round.into_iter().filter_map(place).collect()
            }
        }
    }
}

fn text(number: f64) -> (f64, String) {
    (number, Value::Float(number).to_string())
}

/// True if the ratios of neighboring numbers, which are positive and sorted, are more alike than their differences.
fn is_geometric(numbers: &[f64]) -> bool {
    let spread = |of: &dyn Fn(f64) -> f64| {
        let steps: Vec<f64> = numbers.windows(2).map(|two| of(two[1]) - of(two[0])).collect();
        let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
        let squares: f64 = steps.iter().map(|step| (step - mean).powi(2)).sum();
        squares.sqrt() / mean
    };
    let ends = numbers.first().zip(numbers.last());
    numbers.len() > 2 && ends.is_some_and(|(low, high)| high / low >= 5.0) && spread(&f64::ln) < 0.99 * spread(&|it| it)
}

/// Round numbers at equal distances between two numbers.
fn round_numbers(low: f64, high: f64, max_ticks: usize) -> Vec<(f64, String)> {
    let rough = (high / 2.0 - low / 2.0) / (max_ticks.max(2) as f64 / 2.0);
    let exponent = rough.log10().floor();
    let unit = 10_f64.powf(exponent);
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * unit).find(|step| *step >= rough).unwrap_or(rough);
    if !step.is_finite() || step <= 0.0 {
        return vec![text(low), text(high)];
    }
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    if !(last - first).is_finite() || last - first > 100.0 {
        return vec![text(low), text(high)];
    }
    let mut ticks = Vec::new();
    let mut index = first;
    while index <= last {
        // The nearest decimal: 0.3, not 0.30000000000000004.
        let number = index * step;
        let digits = format!("{number:.12e}").parse().unwrap_or(number);
        ticks.push(text(digits));
        index += 1.0;
    }
    ticks
}

/// Powers of ten between two positive numbers, and if there are few, their halves and fifths.
pub(super) fn decades(low: f64, high: f64, max_ticks: usize) -> Vec<(f64, String)> {
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a finite number")]
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let ticks_at = |factors: &[f64]| -> Vec<(f64, String)> {
        let numbers = (first..=last).flat_map(|power| factors.iter().map(move |factor| (*factor, power)));
        let numbers = numbers.filter_map(|(factor, power)| format!("{factor}e{power}").parse::<f64>().ok());
        numbers.filter(|number| low * 0.999_999 <= *number && *number <= high * 1.000_001).map(text).collect()
    };
    let candidates: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let fitting_ticks = candidates.into_iter().map(ticks_at).find(|ticks| ticks.len() <= max_ticks.max(2));
    let ticks = fitting_ticks.unwrap_or_else(|| {
        let powers = ticks_at(&[1.0]);
        let every = powers.len().div_ceil(max_ticks.max(2)).max(1);
        powers.into_iter().step_by(every).collect()
    });
    if ticks.is_empty() { vec![text(low), text(high)] } else { ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(numbers: &[f64], declared: Option<bool>) -> AxisScale {
        let values: Vec<Value> = numbers.iter().map(|number| Value::Float(*number)).collect();
        AxisScale::new(&values.iter().collect::<Vec<_>>(), declared).unwrap()
    }

    fn ticks(span: &AxisScale, max_ticks: usize) -> Vec<String> {
        span.ticks(max_ticks).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn scales_are_those_of_the_numbers() {
        assert!(span(&[1e-4, 3e-4, 1e-3, 3e-3], None).is_log());
        assert!(span(&[1.0, 2.0, 4.0, 8.0], None).is_log());
        assert!(!span(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], None).is_log());
        assert!(!span(&[0.1, 0.2], None).is_log());
        assert!(!span(&[0.0, 1.0, 10.0, 100.0], None).is_log(), "zero has no logarithm");
        assert!(!span(&[0.0, 1.0, 10.0], Some(true)).is_log());
        assert!(!span(&[1.0, 10.0, 100.0], Some(false)).is_log());
        let line: Vec<f64> = (1..=100).map(f64::from).collect();
        assert!(!span(&line, None).is_log());
        assert_eq!(AxisScale::new(&[&Value::Int(1), &Value::Float(1.0)], None), None, "does not vary");
    }

    #[test]
    fn places_are_on_the_line() {
        let log = span(&[1e-4, 1e-3, 1e-2], None);
        assert!((log.place(&Value::Float(1e-3)).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(log.place(&Value::Text("a".to_owned())), None);
        let words = [Value::Text("a".to_owned()), Value::Null, Value::Int(3)];
        let words = AxisScale::new(&words.iter().collect::<Vec<_>>(), None).unwrap();
        assert_eq!(words.place(&Value::Int(3)), Some(2.5 / 3.0));
        assert_eq!((words.word(&Value::Null), words.number(&Value::Int(3))), (Some(1), None));
        let huge = span(&[-1.7e308, 1.7e308], None);
        assert!((huge.place(&Value::Float(0.0)).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round_or_the_values() {
        assert_eq!(ticks(&span(&[1e-4, 3e-4, 1e-3], None), 6), ["0.0001", "0.0003", "0.001"]);
        let many: Vec<f64> = (0..40).map(|index| 0.013 + 0.0237 * f64::from(index)).collect();
        assert_eq!(ticks(&span(&many, None), 6), ["0.2", "0.4", "0.6", "0.8"]);
        let many: Vec<f64> = (0..40).map(|index| 3e-5 * 1.2_f64.powi(index)).collect();
        assert_eq!(ticks(&span(&many, None), 6), ["0.0001", "0.001", "0.01"]);
        assert_eq!(ticks(&span(&[-1.7e308, 0.0, 1.7e308], None), 2).len(), 2);
    }
}
