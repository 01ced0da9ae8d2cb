//! Roots of functions of one variable.

/// Most evaluations of a function; the method needs about ten.
const MAX_EVALUATIONS: usize = 200;

/// The root of a continuous function that has different signs at `low` and `high`, to this tolerance (Chandrupatla's
/// method: inverse quadratic interpolation where it is safe, else bisection); `low` if the function is no number at an end.
pub(super) fn root(mut function: impl FnMut(f64) -> f64, low: f64, high: f64, tolerance: f64) -> f64 {
    let (mut last, mut at_last) = (low, function(low));
    let (mut other, mut at_other) = (high, function(high));
    if at_last.is_nan() || at_other.is_nan() {
        return low;
    }
    let mut share = (at_last / (at_last - at_other)).clamp(0.05, 0.95);
    for _ in 0..MAX_EVALUATIONS {
        let next = last + share * (other - last);
        let at_next = function(next);
        let (before, at_before) = if (at_next < 0.0) == (at_last < 0.0) {
            (last, at_last)
        } else {
            let replaced = (other, at_other);
            (other, at_other) = (last, at_last);
            replaced
        };
        (last, at_last) = (next, at_next);
        let best = if at_last.abs() < at_other.abs() { last } else { other };
        let least = (tolerance + 2.0 * f64::EPSILON * best.abs()) / (other - last).abs();
        if at_last == 0.0 || least > 0.5 {
            return best;
        }
        let place = (last - other) / (before - other);
        let height = (at_last - at_other) / (at_before - at_other);
        share = if height * height < place && (1.0 - height).powi(2) < 1.0 - place {
            let linear = at_last / (at_other - at_last) * at_before / (at_other - at_before);
            let rest = at_last / (at_before - at_last) * at_other / (at_before - at_other);
            linear + (before - last) / (other - last) * rest
        } else {
            0.5
        };
        share = share.clamp(least, 1.0 - least);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::root;

    #[test]
    fn roots_are_found_in_few_evaluations() {
        for (power, most) in [(1, 5), (2, 12), (9, 20)] {
            let mut count = 0;
            let zero = root(
                |x| {
                    count += 1;
                    x.powi(power) - 2.0
                },
                0.0,
                4.0,
                1e-13,
            );
            assert!((zero.powi(power) - 2.0).abs() < 1e-11, "{power}: {zero}");
            assert!(count <= most, "{power}: {count}");
        }
    }
}
