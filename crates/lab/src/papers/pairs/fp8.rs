//! Numbers of 8 bits: e4m3 (without infinities) and e5m2, rounded to nearest, ties to even; and layers whose products are
//! of such numbers.
//!
//! Products of two of them and sums of these are computed in single precision, as hardware does. Stored numbers have 8 bits: the backward
//! pass keeps one byte per number.

use burn::{
    backend::{
        Autodiff,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
            grads::Gradients,
            ops::{Backward, Ops as Step, OpsKind},
        },
    },
    tensor::{Tensor, TensorData, TensorPrimitive, backend::Backend, ops::FloatTensor},
};

/// A format of 8 bits: a sign, an exponent and a mantissa.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Format {
    /// Bits of the mantissa.
    mantissa: u32,
    /// The exponent that is written as 0, negated, plus 1.
    bias: i32,
    /// The code after the code of the largest number: infinity, or NaN.
    beyond: u32,
    /// A code that is not a number.
    nan: u32,
    /// The largest number.
    largest: f32,
}

/// 4 bits of exponent, 3 of mantissa; the largest number is 448, and there is no infinity.
pub(crate) const E4M3: Format = Format { mantissa: 3, bias: 7, beyond: 0x7f, nan: 0x7f, largest: 448.0 };
/// 5 bits of exponent, 2 of mantissa, as in IEEE 754; the largest number is 57344.
pub(crate) const E5M2: Format = Format { mantissa: 2, bias: 15, beyond: 0x7c, nan: 0x7e, largest: 57344.0 };

impl Format {
    /// The code of the number that is nearest.
    pub(crate) fn encode(self, number: f32) -> u8 {
        let sign = if number.is_sign_negative() { 0x80 } else { 0 };
        let code = if number.is_nan() { self.nan } else { self.encode_positive(number.abs()) };
        u8::try_from(code).unwrap_or(u8::MAX) | sign
    }

    fn encode_positive(self, number: f32) -> u32 {
        if number > 2.0 * self.largest {
            return self.beyond;
        }
        // The bits of an `f32`'s exponent; below the least normal number, all have the same.
        let bits = number.to_bits() >> 23;
        let exponent = i32::try_from(bits).unwrap_or(0) - 127;
        let exponent = exponent.max(1 - self.bias);
        let mantissa = i32::try_from(self.mantissa).unwrap_or(0);
        // Exact: a power of 2 scales, and nothing underflows.
        let units = (number * 2_f32.powi(mantissa - exponent)).round_ties_even();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 16, and not negative")]
        let units = units as u32;
        let exponent_bits = u32::try_from(exponent + self.bias - 1).unwrap_or(0) << self.mantissa;
        // A mantissa that is full carries into the exponent.
        (exponent_bits + units).min(self.beyond)
    }

    /// The number of a code.
    pub(crate) fn decode(self, code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7f);
        let number = if magnitude >= self.beyond {
            if magnitude == self.beyond && self.beyond != self.nan { f32::INFINITY } else { f32::NAN }
        } else {
            let exponent = i32::try_from(magnitude >> self.mantissa).unwrap_or(0);
            let fraction = magnitude & ((1 << self.mantissa) - 1);
            let mantissa = i32::try_from(self.mantissa).unwrap_or(0);
            let units = if exponent == 0 { fraction } else { fraction + (1 << self.mantissa) };
            #[expect(clippy::cast_precision_loss, reason = "at most 15")]
            let units = units as f32;
            units * 2_f32.powi(exponent.max(1) - self.bias - mantissa)
        };
        if code & 0x80 == 0 { number } else { -number }
    }
}

/// Numbers in a format, with a common factor that maps the largest number to the format's largest.
#[derive(Debug, Clone)]
struct Coded {
    codes: Vec<u8>,
    /// Factor of the numbers that the codes represent.
    scale: f32,
    format: Format,
    shape: [usize; 2],
}

impl Coded {
    fn new<B: Backend>(tensor: Tensor<B, 2>, format: Format) -> Self {
        let shape = tensor.dims();
        // Numbers that cannot be read are not numbers, which the output shows.
        let numbers = tensor.into_data().to_vec::<f32>().unwrap_or_else(|_| vec![f32::NAN; shape[0] * shape[1]]);
        let (codes, scale) = coded(&numbers, format);
        Self { codes, scale, format, shape }
    }

    fn tensor<B: Backend>(&self, device: &B::Device) -> Tensor<B, 2> {
        let table: Vec<f32> = (0..=u8::MAX).map(|code| self.format.decode(code) * self.scale).collect();
        let numbers: Vec<f32> = self.codes.iter().map(|code| table[usize::from(*code)]).collect();
        Tensor::from_data(TensorData::new(numbers, self.shape), device)
    }
}

/// The codes of scaled numbers, and the factor that scales them back.
fn coded(numbers: &[f32], format: Format) -> (Vec<u8>, f32) {
    let maximum = numbers.iter().fold(0.0_f32, |maximum, number| maximum.max(number.abs()));
    let scale = if maximum > 0.0 && maximum.is_finite() { maximum / format.largest } else { 1.0 };
    // Divided, because the reciprocal of a tiny factor is infinite; the quotient may be a rounding above the largest number.
    let code = |number: &f32| format.encode((number / scale).clamp(-format.largest, format.largest));
    (numbers.iter().map(code).collect(), scale)
}

/// `numbers` as they are after rounding to `format` with a scale for all.
pub(crate) fn rounded(numbers: &[f32], format: Format) -> Vec<f32> {
    let (codes, scale) = coded(numbers, format);
    codes.iter().map(|code| format.decode(*code) * scale).collect()
}

/// The backward pass of a product.
#[derive(Debug)]
struct ProductBackward;

impl<B: Backend> Backward<B, 2> for ProductBackward {
    /// Both factors.
    type State = ([Coded; 2], B::Device);

    fn backward(self, step: Step<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = wrap::<B>(gradients.consume::<B>(&step.node));
        let ([x, weight], device) = step.state;
        let gradient = Coded::new(gradient, E5M2).tensor::<B>(&device);
        let [x_node, weight_node] = step.parents;
        if let Some(node) = x_node {
            let weight = weight.tensor::<B>(&device);
            gradients.register::<B>(node.id, unwrap(gradient.clone().matmul(weight.transpose())));
        }
        if let Some(node) = weight_node {
            let x = x.tensor::<B>(&device);
            gradients.register::<B>(node.id, unwrap(x.transpose().matmul(gradient)));
        }
    }
}

fn wrap<B: Backend>(primitive: FloatTensor<B>) -> Tensor<B, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

fn unwrap<B: Backend>(tensor: Tensor<B, 2>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

/// `x W` of both in e4m3; gradients are in e5m2.
pub(super) fn product<B: Backend>(x: Tensor<Autodiff<B>, 2>, weight: Tensor<Autodiff<B>, 2>) -> Tensor<Autodiff<B>, 2> {
    let device = x.device();
    let (x, weight) = (x.into_primitive().tensor(), weight.into_primitive().tensor());
    let factors = [&x, &weight].map(|factor| Coded::new(wrap::<B>(factor.primitive.clone()), E4M3));
    let out = {
        let [x, weight] = factors.each_ref().map(|factor| factor.tensor::<B>(&device));
        unwrap(x.matmul(weight))
    };
    let out = match ProductBackward.prepare::<NoCheckpointing>([x.node, weight.node]).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish((factors, device), out),
        OpsKind::UnTracked(step) => step.finish(out),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// Output of `scripts/fp8-vectors.py`: codes and numbers of `ml_dtypes`.
    const VECTORS: &str = include_str!("testdata/fp8.json");

    #[derive(Deserialize)]
    struct Vectors {
        /// The bits of single-precision numbers to round.
        bits: Vec<u32>,
        formats: std::collections::BTreeMap<String, Expected>,
    }

    #[derive(Deserialize)]
    struct Expected {
        /// The bits of the numbers of all 256 codes; codes of NaN have the bits 0x7fc00000.
        decoded: Vec<u32>,
        /// The codes of the numbers to round; the code of any NaN is 255.
        codes: Vec<u8>,
    }

    fn formats() -> [(&'static str, Format); 2] {
        [("float8_e4m3fn", E4M3), ("float8_e5m2", E5M2)]
    }

    #[test]
    fn codes_and_numbers_are_those_of_ml_dtypes() {
        let vectors: Vectors = serde_json::from_str(VECTORS).unwrap();
        for (name, format) in formats() {
            let expected = &vectors.formats[name];
            for (code, bits) in (0..=u8::MAX).zip(&expected.decoded) {
                let (number, expected) = (format.decode(code), f32::from_bits(*bits));
                assert!(number.to_bits() == *bits || (number.is_nan() && expected.is_nan()), "{name} {code}: {number}");
            }
            assert_eq!(vectors.bits.len(), expected.codes.len());
            for (bits, expected) in vectors.bits.iter().zip(&expected.codes) {
                let number = f32::from_bits(*bits);
                let code = format.encode(number);
                let code = if format.decode(code).is_nan() { 255 } else { code };
                assert_eq!(code, *expected, "{name} of {number:e}");
            }
        }
    }

    #[test]
    fn every_code_is_its_own_nearest() {
        for (name, format) in formats() {
            for code in 0..=u8::MAX {
                let number = format.decode(code);
                assert!(number.is_nan() || format.encode(number) == code, "{name} {code}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_number_is_nearer(number in -500.0_f32..500.0) {
            for (name, format) in formats() {
                let result = format.decode(format.encode(number)).clamp(-format.largest, format.largest);
                let distance = |code: u8| f64::from(format.decode(code)) - f64::from(number);
                let numbers = (0..=u8::MAX).map(distance).filter(|distance| distance.is_finite());
                let min_distance = numbers.map(f64::abs).fold(f64::INFINITY, f64::min);
                let error = (f64::from(result) - f64::from(number)).abs();
                prop_assert!(result.is_nan() || error <= min_distance, "{}: {} of {}", name, result, number);
            }
        }
    }
}
