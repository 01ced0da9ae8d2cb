//! Search spaces: axes with the values that a sampler may choose.

use serde::{Deserialize, Serialize};
use sweep_job::Value;

/// A configuration: a value for each axis, in the order of the axes.
pub type Point = Vec<Value>;

/// The axes of a search.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Space {
    /// The axes, in the order of the text.
    pub axes: Vec<Axis>,
}

/// An axis of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values.
    #[serde(flatten)]
    pub domain: Domain,
}

/// The values of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Domain {
    /// Numbers between two bounds, inclusive.
    Float {
        /// The lower bound.
        low: f64,
        /// The upper bound, which is `low` plus a multiple of `step`.
        high: f64,
        /// True if the logarithm varies evenly.
        log: bool,
        /// The distance of neighbors; `None` for all numbers. Not with `log`.
        step: Option<f64>,
    },
    /// Whole numbers between two bounds, inclusive.
    Int {
        /// The lower bound.
        low: i64,
        /// The upper bound, which is `low` plus a multiple of `step`.
        high: i64,
        /// True if the logarithm varies evenly. Then `step` is 1.
        log: bool,
        /// The distance of neighbors.
        step: i64,
    },
    /// Some values without an order.
    Choice {
        /// The values, all different.
        values: Vec<Value>,
    },
}

/// A numeric domain as a piece of a line: a normal distribution on it is meaningful. Values with a step have half a step of
/// room on both sides, so that all values have the same room.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The width that belongs to each value; `None` if a value has a density rather than a probability.
    pub(super) bin: Option<f64>,
}

/// Twelve significant digits: `0.001`, not `0.0010000000000000002`. More digits of ratios and draws are not significant, and the shorter
/// number is the same with every platform's `exp`.
pub fn short(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Rounds `value` to its significant digits. Whole numbers become integers, so that `range: [0, 3]` gives 0, 1, 2.
pub fn number(value: f64) -> Value {
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
    let value = if is_whole(value) { value } else { short(value) };
    #[expect(clippy::cast_possible_truncation, reason = "checked: whole and below 2^53")]
    if is_whole(value) { Value::Int(value as i64) } else { Value::Float(value) }
}

/// The nearest whole number.
fn nearest(value: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "bounded by a domain, whose bounds are integers; saturates")]
    let integer = value.round() as i64;
    integer
}

impl Domain {
    /// The number of values; `None` if it exceeds a `u64` or the domain is continuous.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::Float { low, high, step: Some(step), .. } => {
                u64::try_from(nearest((high - low) / step)).ok()?.checked_add(1)
            }
            Self::Float { low, high, step: None, .. } => (low == high).then_some(1),
            Self::Int { low, high, step, .. } => u64::try_from(high.checked_sub(*low)? / step).ok()?.checked_add(1),
            Self::Choice { values } => Some(values.len() as u64),
        }
    }

    /// The domain as a piece of a line; `None` for a choice.
    pub(super) fn line(&self) -> Option<Line> {
        match *self {
            Self::Float { low, high, log: true, .. } => {
                Some(Line { low: libm::log(low), high: libm::log(high), bin: None })
            }
            Self::Float { low, high, step: Some(step), .. } => {
                Some(Line { low: low - step / 2.0, high: high + step / 2.0, bin: Some(step) })
            }
            Self::Float { low, high, .. } => Some(Line { low, high, bin: None }),
            Self::Int { low, high, log: true, .. } => {
                Some(Line { low: libm::log(low as f64 - 0.5), high: libm::log(high as f64 + 0.5), bin: None })
            }
            Self::Int { low, high, step, .. } => {
                let half_step = step as f64 / 2.0;
                Some(Line { low: low as f64 - half_step, high: high as f64 + half_step, bin: Some(step as f64) })
            }
            Self::Choice { .. } => None,
        }
    }

    /// The place of a value on the line, or among the choices.
    pub(super) fn place(&self, value: &Value) -> f64 {
        match self {
            Self::Choice { values } => values.iter().position(|candidate| candidate == value).unwrap_or(0) as f64,
            Self::Float { log, .. } | Self::Int { log, .. } => {
                let number = value.as_f64().unwrap_or(f64::NAN);
                if *log { libm::log(number) } else { number }
            }
        }
    }

    /// The value at a place on the line, or the choice of this index.
    pub(super) fn value(&self, place: f64) -> Value {
        match self {
            Self::Float { low, high, log: true, .. } => number(short(libm::exp(place)).clamp(*low, *high)),
            Self::Float { low, high, step: Some(step), .. } => {
                let max_steps = ((high - low) / step).round();
                let steps = ((place - low) / step).round().clamp(0.0, max_steps);
                number(short(low + steps * step).clamp(*low, *high))
            }
            Self::Float { low, high, .. } => number(short(place).clamp(*low, *high)),
            Self::Int { low, high, log: true, .. } => Value::Int(nearest(libm::exp(place)).clamp(*low, *high)),
            Self::Int { low, high, step, .. } => {
                let steps = nearest((place - *low as f64) / *step as f64).clamp(0, (high - low) / step);
                Value::Int(low + steps * step)
            }
            Self::Choice { values } => {
                let index = usize::try_from(nearest(place)).unwrap_or(0).min(values.len().saturating_sub(1));
                values.get(index).cloned().unwrap_or(Value::Null)
            }
        }
    }

    /// The value of this index, of a domain whose values are counted.
    pub(super) fn nth(&self, index: u64) -> Value {
        match self {
            Self::Float { low, step: Some(step), .. } => self.value(low + index as f64 * step),
            Self::Float { low, .. } => number(*low),
            Self::Int { low, high, step, .. } => {
                let steps = i64::try_from(index).unwrap_or(i64::MAX);
                Value::Int(low.saturating_add(steps.saturating_mul(*step)).min(*high))
            }
            Self::Choice { .. } => self.value(index as f64),
        }
    }

    /// The value of the domain that another program means by `value`; `None` if it is outside.
    pub(super) fn admit(&self, value: &Value) -> Option<Value> {
        /// Of a step, for numbers that were computed from others.
        const TOLERANCE: f64 = 1e-6;
        match self {
            Self::Choice { values } => values.iter().find(|candidate| *candidate == value).cloned(),
            Self::Float { low, high, step, .. } => {
                let input = value.as_f64().filter(|input| input.is_finite())?;
                let slack = step.map_or(0.0, |step| TOLERANCE * step).max(1e-12 * low.abs().max(high.abs()));
                if input < low - slack || input > high + slack {
                    return None;
                }
                let place = if matches!(self, Self::Float { log: true, .. }) { libm::log(input) } else { input };
                let Some(step) = step else { return Some(number(short(input).clamp(*low, *high))) };
                let value = self.value(place);
                (value.as_f64()? - input).abs().le(&(TOLERANCE * step).max(slack)).then_some(value)
            }
            Self::Int { low, high, step, .. } => {
                let input = value.as_f64().filter(|input| input.fract() == 0.0)?;
                let integer = nearest(input);
                ((*low..=*high).contains(&integer) && (integer - low) % step == 0).then_some(Value::Int(integer))
            }
        }
    }
}

impl Space {
    /// The number of configurations; `None` if it exceeds a `u64` or a domain is continuous.
    pub fn count(&self) -> Option<u64> {
        self.axes.iter().try_fold(1_u64, |count, axis| count.checked_mul(axis.domain.count()?))
    }

    /// The names of the axes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(low: f64, high: f64, log: bool, step: Option<f64>) -> Domain {
        Domain::Float { low, high, log, step }
    }

    #[test]
    fn a_place_and_its_value_agree() {
        let domains = [
            (float(1e-5, 1e-1, true, None), vec![1e-5, 3e-4, 1e-1]),
            (float(0.0, 0.5, false, None), vec![0.0, 0.123, 0.5]),
            (float(0.1, 0.7, false, Some(0.2)), vec![0.1, 0.3, 0.5, 0.7]),
            (Domain::Int { low: 2, high: 8, log: false, step: 3 }, vec![2.0, 5.0, 8.0]),
            (Domain::Int { low: 1, high: 1024, log: true, step: 1 }, vec![1.0, 17.0, 1024.0]),
        ];
        for (domain, values) in domains {
            for value in values {
                let value = number(value);
                let place = domain.place(&value);
                let line = domain.line().unwrap();
                assert!((line.low..=line.high).contains(&place), "{domain:?} {value}");
                assert_eq!(domain.value(place), value, "{domain:?}");
                assert_eq!(domain.admit(&value), Some(value));
            }
            let line = domain.line().unwrap();
            assert!(
                domain.admit(&domain.value(line.low)).is_some() && domain.admit(&domain.value(line.high)).is_some()
            );
        }
    }

    #[test]
    fn values_outside_of_a_domain_are_rejected() {
        let domain = float(0.0, 1.0, false, Some(0.25));
        assert_eq!(domain.admit(&Value::Float(0.750_000_000_001)), Some(Value::Float(0.75)));
        for value in [Value::Float(0.3), Value::Float(1.25), Value::Text("0.5".into()), Value::Null] {
            assert_eq!(domain.admit(&value), None, "{value}");
        }
        let int = Domain::Int { low: 1, high: 9, log: false, step: 2 };
        assert_eq!(int.admit(&Value::Float(3.0)), Some(Value::Int(3)));
        assert_eq!((int.admit(&Value::Int(4)), int.admit(&Value::Float(3.5))), (None, None));
        let choice = Domain::Choice { values: vec![Value::Text("a".into()), Value::Int(1)] };
        assert_eq!(choice.admit(&Value::Float(1.0)), Some(Value::Int(1)));
        assert_eq!(choice.admit(&Value::Text("1".into())), None);
    }

    #[test]
    fn the_configurations_of_a_space_are_counted() {
        let axis = |name: &str, domain| Axis { name: name.into(), domain };
        let mut space = Space {
            axes: vec![
                axis("a", Domain::Int { low: 0, high: 4, log: false, step: 2 }),
                axis("b", Domain::Choice { values: vec![Value::Int(1), Value::Int(2)] }),
                axis("c", float(0.0, 1.0, false, Some(0.25))),
            ],
        };
        assert_eq!(space.count(), Some(30));
        space.axes.push(axis("d", float(0.0, 1.0, false, None)));
        assert_eq!(space.count(), None);
        space.axes.truncate(1);
        space.axes.push(axis("e", Domain::Int { low: i64::MIN, high: i64::MAX, log: false, step: 1 }));
        assert_eq!(space.count(), None);
    }
}
