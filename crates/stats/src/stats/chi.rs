//! Expectations over the standard deviation of a normal sample.

/// Widest step in the logarithm. The trapezoidal rule is exact to rounding here, because the density is analytic in a
/// strip of π/4 around the real axis.
const STEP: f64 = 0.06;
/// Logarithm of a density that cannot matter.
const NEGLIGIBLE: f64 = -40.0;

/// The expectation of a bounded function of `s`, where `s` is a sample's standard deviation with this number of degrees
/// of freedom, and the true one is 1 (`s` = χ / √freedom). `sharpness` is the reciprocal of the narrowest scale in ln s
/// on which the function changes. With infinitely many degrees of freedom, `s` is 1.
///
/// The trapezoidal rule in ln s, whose density is ∝ exp(freedom · (x − (e²ˣ − 1) / 2)). The sum of the densities
/// normalizes it.
pub(super) fn expectation(freedom: f64, sharpness: f64, function: impl Fn(f64) -> f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 {
        return f64::NAN;
    }
    if freedom > 1e15 {
        return function(1.0);
    }
    let step = STEP.min(0.6 / (2.0 * freedom).sqrt()).min(0.6 / sharpness.max(1.0));
    let log_density = |x: f64| freedom * (x - (2.0 * x).exp_m1() / 2.0);
    let (mut sum, mut whole) = (function(1.0), 1.0);
    for sign in [1.0, -1.0] {
        let mut place = 1.0;
        loop {
            let x = sign * place * step;
            let log = log_density(x);
            if log < NEGLIGIBLE {
                break;
            }
            let density = log.exp();
            whole += density;
            sum += density * function(x.exp());
            place += 1.0;
        }
    }
    sum / whole
}

#[cfg(test)]
mod tests {
    use super::expectation;

    #[test]
    fn moments_are_exact() {
        for freedom in [1.0, 2.0, 3.5, 12.0, 1e3, 1e7] {
            let square = expectation(freedom, 1.0, |s| s * s);
            assert!((square - 1.0).abs() < 1e-12, "{freedom}: {square}");
            let fourth = expectation(freedom, 1.0, |s| s.powi(4));
            assert!((fourth - (1.0 + 2.0 / freedom)).abs() < 1e-11, "{freedom}: {fourth}");
        }
        assert_eq!(expectation(f64::INFINITY, 1.0, |s| s), 1.0);
        assert!(expectation(0.0, 1.0, |s| s).is_nan());
    }
}
