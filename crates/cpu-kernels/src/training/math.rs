//! Functions of one number that compilers can vectorize: no branch, no table, no call.
//!
//! `FMA` is true if the target has fused multiply-add; without it the two operations round separately.

/// Compiles a body for the instruction sets that matter and chooses among them at run time.
///
/// The body is an `#[inline(always)]` function with a constant parameter that is true where the processor has fused
/// multiply-add.
macro_rules! versions {
    ($(#[$meta:meta])* $visibility:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:ident) => {
        $(#[$meta])*
        $visibility fn $name($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn with_512_bits($($arg: $type),*) $(-> $result)? {
                    $body::<true>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn with_256_bits($($arg: $type),*) $(-> $result)? {
                    $body::<true>($($arg),*)
                }
                #[expect(unsafe_code, reason = "what a processor has is known at run time only")]
                match $crate::training::math::vectors() {
                    // SAFETY: `vectors` found every feature that the function is compiled for.
                    $crate::training::math::Vectors::Bits512 => return unsafe { with_512_bits($($arg),*) },
                    // SAFETY: as above.
                    $crate::training::math::Vectors::Bits256 => return unsafe { with_256_bits($($arg),*) },
                    $crate::training::math::Vectors::Baseline => {}
                }
            }
            $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}
pub(crate) use versions;

/// The instruction sets that bodies are compiled for.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// AVX-512 as servers have it.
    Bits512,
    /// AVX2 and FMA.
    Bits256,
    /// Instructions that every processor of the architecture has.
    Baseline,
}

/// Instructions that this processor has.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn vectors() -> Vectors {
    use std::sync::OnceLock;
    static FOUND: OnceLock<Vectors> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let has_fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let has_avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (has_fma, has_avx512) {
            (true, true) => Vectors::Bits512,
            (true, false) => Vectors::Bits256,
            (false, _) => Vectors::Baseline,
        }
    })
}

/// `a * b + c`.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `exp(x)`, within 2 units in the last place where it is a normal number.
///
/// Below -87.3 it is 0, above 88 it stays at `exp(88)`; NaN gives NaN. The reduction to `|r| <= ln 2 / 2` and the
/// polynomial come from Cephes' `expf`.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const MIN_EXPONENT: f32 = -87.3;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// Adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;

    let clamped = x.clamp(MIN_EXPONENT, 88.0);
    let shifted = fma::<FMA>(clamped, std::f32::consts::LOG2_E, ROUND);
    let integer = shifted - ROUND;
    let r = fma::<FMA>(integer, -LN_2_LOW, fma::<FMA>(integer, -LN_2_HIGH, clamped));
    let mut p = 1.987_569_1e-4;
    p = fma::<FMA>(p, r, 1.398_199_9e-3);
    p = fma::<FMA>(p, r, 8.333_452e-3);
    p = fma::<FMA>(p, r, 4.166_579_6e-2);
    p = fma::<FMA>(p, r, 1.666_666_5e-1);
    p = fma::<FMA>(p, r, 0.5);
    let exponential = fma::<FMA>(p * r, r, r) + 1.0;
    // The low bits of `shifted` are the whole number; moved into the exponent they make the power of two.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < MIN_EXPONENT { 0.0 } else { exponential * power }
}

/// The error function, within 2 units in the last place.
///
/// Two polynomials: an odd one near 0, and the logarithm of `1 - erf` further out (the fit is N. Juffa's).
#[inline(always)]
pub(crate) fn erf<const FMA: bool>(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;

    let mut far = fma::<FMA>(-1.728_534_7e-5, t, 3.831_972e-4);
    let upper = fma::<FMA>(-3.883_964_4e-3, t, 2.425_462_2e-2);
    far = fma::<FMA>(far, s, upper);
    far = fma::<FMA>(far, t, -1.067_778_8e-1);
    far = fma::<FMA>(far, t, -6.348_467e-1);
    far = fma::<FMA>(far, t, -1.287_175_1e-1);
    far = fma::<FMA>(far, t, -t);
    let far = (1.0 - exp::<FMA>(far)).copysign(x);

    let mut near = -5.967_617e-4;
    near = fma::<FMA>(near, s, 4.991_194_2e-3);
    near = fma::<FMA>(near, s, -2.676_813_5e-2);
    near = fma::<FMA>(near, s, 1.128_199_2e-1);
    near = fma::<FMA>(near, s, -3.761_253_4e-1);
    near = fma::<FMA>(near, s, 1.283_791_7e-1);
    let near = fma::<FMA>(near, x, x);
    if t > 0.927_734_4 { far } else { near }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FMA>(-x))
}

/// Number of sums that are accumulated side by side: the lanes of four vectors.
pub(crate) const LANES: usize = 64;

/// Adds up the lanes, in an order that is always the same.
#[inline(always)]
pub(crate) fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum of `term` of every number.
#[inline(always)]
pub(crate) fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, remainder) = values.as_chunks::<LANES>();
    for values in chunks {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += term(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(remainder) {
        *lane += term(*value);
    }
    total(lanes)
}

/// The largest of `values`.
#[inline(always)]
pub(crate) fn maximum(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, remainder) = values.as_chunks::<LANES>();
    for values in chunks {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    for (lane, value) in lanes.iter_mut().zip(remainder) {
        *lane = if *value > *lane { *value } else { *lane };
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = if lanes[lane + width] > lanes[lane] { lanes[lane + width] } else { lanes[lane] };
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `erf` by its series, or by its continued fraction where the series cancels.
    pub(crate) fn erf_64(x: f64) -> f64 {
        let t = x.abs();
        if t < 2.5 {
            let (mut term, mut sum) = (t, t);
            for n in 1..80 {
                let n = f64::from(n);
                term *= -t * t / n;
                sum += term / (2.0 * n + 1.0);
            }
            return (sum * std::f64::consts::FRAC_2_SQRT_PI).copysign(x);
        }
        let mut fraction = 0.0;
        for n in (1..80).rev() {
            fraction = f64::from(n) / 2.0 / (t + fraction);
        }
        let complement = (-t * t).exp() / ((t + fraction) * std::f64::consts::PI.sqrt());
        (1.0 - complement).copysign(x)
    }

    /// Distance in units in the last place of the single-precision number nearest to `expected`.
    fn ulps(value: f32, expected: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest single-precision number is meant")]
        let nearest = expected as f32;
        let unit = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(value) - expected).abs() / unit
    }

    proptest! {
        #[test]
        fn exp_is_exact_to_two_ulps(x in -87.0_f32..88.0) {
            let expected = f64::from(x).exp();
            prop_assert!(ulps(exp::<true>(x), expected) < 2.0, "fused: {}", exp::<true>(x));
            prop_assert!(ulps(exp::<false>(x), expected) < 3.0, "not fused: {}", exp::<false>(x));
        }

        #[test]
        fn erf_is_exact_to_two_ulps(x in -6.0_f32..6.0) {
            let expected = erf_64(f64::from(x));
            prop_assert!(ulps(erf::<true>(x), expected) < 2.0, "fused: {}", erf::<true>(x));
            prop_assert!(ulps(erf::<false>(x), expected) < 3.0, "not fused: {}", erf::<false>(x));
        }

        #[test]
        fn sums_count_every_number(values in prop::collection::vec(-4_i16..4, 0..300)) {
            let floats: Vec<f32> = values.iter().map(|value| f32::from(*value)).collect();
            let expected: i32 = values.iter().map(|value| i32::from(*value).pow(2)).sum();
            prop_assert_eq!(f64::from(sum_of(&floats, |value| value * value)), f64::from(expected));
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(exp::<true>(0.0), 1.0);
        assert_eq!(exp::<true>(-1e30), 0.0);
        assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
        assert!(exp::<true>(f32::INFINITY).is_finite() && exp::<true>(f32::NAN).is_nan());
        assert_eq!((erf::<true>(0.0), erf::<true>(30.0), erf::<true>(-30.0)), (0.0, 1.0, -1.0));
        assert_eq!((erf::<true>(f32::INFINITY), erf::<true>(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf::<true>(f32::NAN).is_nan());
        assert_eq!((sigmoid::<true>(0.0), sigmoid::<true>(200.0)), (0.5, 1.0));
        assert!(sigmoid::<true>(-200.0) < 1e-38);
    }
}
