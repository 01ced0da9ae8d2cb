//! Progressions: `range`, `linspace` and `logspace`.
//!
//! The numbers of a range are computed as decimals, as an author expects them: `[0.1, 0.4, 0.1]` has 0.1, 0.2 and 0.3,
//! although none of them is a binary fraction.

use std::iter;

use sweep_job::Value;

use super::dimension::{Context, float, positive};
use crate::{
    recipe::{Progression, Span, Spanned},
    suggest::{number, short},
};

/// The values of an axis: integers if all of its numbers were written as integers and are whole, else floats. `None` after a
/// mistake, which has been reported.
pub(super) fn values(
    progression: Progression,
    numbers: &[Spanned<Value>],
    span: Span,
    context: &mut Context<'_>,
) -> Option<Vec<Value>> {
    let [from, to, arguments @ ..] = numbers else { return None };
    if progression == Progression::Range {
        return range(from, to, arguments.first(), span, context);
    }
    let (word, spacing): (_, fn(f64, f64, f64) -> f64) = match progression {
        Progression::Logspace => ("logspace", |from, to, at| short(between(from.ln(), to.ln(), at).exp())),
        Progression::Linspace | Progression::Range => ("linspace", between),
    };
    let count = context.count(arguments.first()?, 2)?;
    if progression == Progression::Logspace {
        positive(&numbers[..2], word, context)?;
    }
    if from.value == to.value {
        let message = format!("`{word}` goes from {} to {0}, so that all of its {count} values are equal", from.value);
        context.problem(span, message, "one value", "write different ends, or the value alone in a list");
        return None;
    }
    let (low, high) = (from.value.as_f64()?, to.value.as_f64()?);
    let inner_values = (1..count - 1).map(|index| spacing(low, high, index as f64 / (count - 1) as f64));
    // The ends have the values that the author has written.
    let all = || iter::once(low).chain(inner_values.clone()).chain(iter::once(high));
    let are_ints = [from, to].into_iter().all(is_int) && all().all(|value| matches!(number(value), Value::Int(_)));
    Some(all().map(if are_ints { number } else { float }).collect())
}

fn is_int(number: &Spanned<Value>) -> bool {
    matches!(number.value, Value::Int(_))
}

/// `from` at 0 and `to` at 1, exactly.
pub(super) fn between(from: f64, to: f64, at: f64) -> f64 {
    from * (1.0 - at) + to * at
}

fn range(
    from: &Spanned<Value>,
    to: &Spanned<Value>,
    step: Option<&Spanned<Value>>,
    span: Span,
    context: &mut Context<'_>,
) -> Option<Vec<Value>> {
    let one = Spanned::new(Value::Int(1), span);
    let step = step.unwrap_or(&one);
    let (low, high, distance) = (from.value.as_f64()?, to.value.as_f64()?, step.value.as_f64()?);
    if distance == 0.0 {
        let message = "the step of this range is 0, so the range never reaches `to`";
        context.problem(step.span, message, "no step", "write a step above 0, or below 0 to count down");
        return None;
    }
    if low == high || (low < high) != (distance > 0.0) {
        let message = format!("the range from {} to {} in steps of {} has no values", from.value, to.value, step.value);
        let help = "`to` itself is excluded; a negative step counts down";
        context.problem(span, message, "empty", help);
        return None;
    }
    let decimals = Decimals::of([&from.value, &to.value, &step.value]);
    let count = decimals.as_ref().map_or_else(|| ((high - low) / distance).ceil(), |decimals| decimals.count() as f64);
    let count = context.count(&Spanned::new(Value::number(count), span), 1)?;
    let are_ints = [from, to, step].into_iter().all(is_int);
    let value = |index: usize| match &decimals {
        Some(decimals) => decimals.value(index, are_ints),
        // Numbers with too different exponents to be added as decimals.
        None => float(low + index as f64 * distance),
    };
    let is_before = |value: &Value| value.as_f64().is_some_and(|value| (value < high) == (low < high) && value != high);
    Some((0..count).map(value).filter(is_before).collect())
}

/// The beginning, the end and the step of a range, as multiples of one power of ten.
struct Decimals {
    from: i128,
    to: i128,
    step: i128,
    exponent: i32,
}

impl Decimals {
    /// `None` if a number has more digits than can be computed with.
    fn of(numbers: [&Value; 3]) -> Option<Self> {
        let [from, to, step] = numbers.map(decimal);
        let parts = [from?, to?, step?];
        let exponent = parts.iter().map(|(_, exponent)| *exponent).min()?;
        let [from, to, step] = parts.map(|(digits, digits_exponent)| {
            let shift = u32::try_from(digits_exponent - exponent).ok()?;
            digits.checked_mul(10_i128.checked_pow(shift)?)
        });
        let (from, to, step) = (from?, to?, step?);
        // Computations with twice the distance must not overflow.
        to.checked_sub(from)?.checked_add(step)?.checked_mul(2)?;
        Some(Self { from, to, step, exponent })
    }

    /// The number of values before the end.
    fn count(&self) -> i128 {
        let (distance, step) = ((self.to - self.from).abs(), self.step.abs());
        (distance + step - 1) / step
    }

    /// The value with this index.
    fn value(&self, index: usize, is_int: bool) -> Value {
        let digits = self.from + index as i128 * self.step;
        if let (true, Ok(int)) = (is_int, i64::try_from(digits)) {
            return Value::Int(int);
        }
        Value::Float(format!("{digits}e{}", self.exponent).parse().unwrap_or(f64::NAN))
    }
}

/// The digits of a number and the exponent of ten, of its shortest form.
fn decimal(value: &Value) -> Option<(i128, i32)> {
    let float = match value {
        Value::Int(int) => return Some((i128::from(*int), 0)),
        value => value.as_f64()?,
    };
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e')?;
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.parse().ok()?;
    Some((format!("{integer}{fraction}").parse().ok()?, exponent - i32::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(from: f64, to: f64, step: f64) -> Vec<f64> {
        let decimals = Decimals::of([&Value::Float(from), &Value::Float(to), &Value::Float(step)]).unwrap();
        let count = usize::try_from(decimals.count()).unwrap();
        (0..count).map(|index| decimals.value(index, false).as_f64().unwrap()).collect()
    }

    #[test]
    fn no_decimal_range_has_its_end_or_a_wrong_digit() {
        for scale in [10_i32, 100] {
            for (from, to, step) in (0..30).flat_map(|a| (a + 1..40).flat_map(move |b| (1..12).map(move |c| (a, b, c))))
            {
                let of = |number: i32| f64::from(number) / f64::from(scale);
                let expected: Vec<f64> = (from..to).step_by(usize::try_from(step).unwrap()).map(of).collect();
                assert_eq!(values(of(from), of(to), of(step)), expected, "[{from}, {to}, {step}] / {scale}");
                let descending_values: Vec<f64> =
                    (0..to).map(|index| to - index * step).take_while(|at| *at > from).map(of).collect();
                assert_eq!(values(of(to), of(from), of(-step)), descending_values, "[{to}, {from}, -{step}] / {scale}");
            }
        }
    }

    #[test]
    fn integers_are_exact_beyond_those_of_floats() {
        let (from, to) = (Value::Int(9_007_199_254_740_993), Value::Int(9_007_199_254_740_996));
        let decimals = Decimals::of([&from, &to, &Value::Int(1)]).unwrap();
        let numbers: Vec<Value> = (0..3).map(|index| decimals.value(index, true)).collect();
        assert_eq!((decimals.count(), &numbers[0], numbers[2].to_string()), (3, &from, "9007199254740995".to_owned()));
    }

    #[test]
    fn numbers_with_too_different_exponents_are_no_decimals_together() {
        assert!(Decimals::of([&Value::Float(1e-300), &Value::Int(1), &Value::Float(0.5)]).is_none());
        assert_eq!(values(0.0, 1e30, 2.5e29), [0.0, 2.5e29, 5e29, 7.5e29]);
    }
}
