//! `uses: pair/precision`: training an MLP in single, mixed, half and 8-bit precision. Updated weights are always in single
//! precision.

use burn::tensor::{DType, Tensor, TensorData};
use sweep_job::{
    Outcome,
    tasks::{FormatVariant, NumberFormat},
};

use super::{
    Call, Contender, Left, Meter, ROUNDING,
    fp8::{self, E4M3, E5M2},
    mlp::{Mlp, mean_squared},
    normal, tensor,
};
use crate::{LabError, backend::Compute, device::read::host, measure::Part};

const LR: f32 = 0.01;
/// The factor of the loss in half precision, whose smallest gradients would be 0 without one.
const LOSS_SCALE: f32 = 1024.0;
/// Numbers whose rounding errors are measured.
const ROUNDED: usize = 1 << 18;

impl Contender for NumberFormat {
    fn reference(&self) -> Self {
        Self { variant: FormatVariant::F32, ..self.clone() }
    }

    fn tolerance(&self) -> f64 {
        match self.variant {
            FormatVariant::F32 => ROUNDING,
            FormatVariant::F16 => 2e-2,
            FormatVariant::Mixed | FormatVariant::Bf16 => 1e-1,
            // The largest gradient belongs to a bias, which sums the rounding errors of a batch.
            FormatVariant::Fp8 => 3e-1,
        }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let format = match self.variant {
            FormatVariant::F32 | FormatVariant::Fp8 => DType::F32,
            FormatVariant::Mixed | FormatVariant::Bf16 => DType::BF16,
            FormatVariant::F16 => DType::F16,
        };
        if !B::supports_dtype(device, format) {
            let reason = format!("the device does not support {}", format.name());
            return Err(LabError::Precision { precision: self.variant.word(), reason });
        }
        if self.variant == FormatVariant::Fp8 && !B::SYNCHRONOUS {
            let reason = "products of 8-bit numbers are emulated on the CPU only: write `--backend cpu`".to_owned();
            return Err(LabError::Precision { precision: self.variant.word(), reason });
        }
        let scale = if self.variant == FormatVariant::F16 { LOSS_SCALE } else { 1.0 };
        let mut mlp = Mlp::<B>::random(&[self.width, self.hidden, self.width], seed, device);
        let rows = |name: &str, index| tensor::<B, 2>(seed, name, index, [self.batch_size, self.width], 1.0, device);
        let batches: Vec<_> = (0..self.micro_batches).map(|index| (rows("x", index), rows("y", index))).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of micro-batches")]
        let part = 1.0 / self.micro_batches as f32;
        Ok(Box::new(move |meter| {
            let network = if self.variant == FormatVariant::Mixed { mlp.clone() } else { mlp.cast(format) };
            let tracked = network.tracked();
            let (mut sum, mut losses) = (None, None);
            for (x, y) in &batches {
                let loss = meter.part::<B, _>(Part::Forward, device, || {
                    let (x, y) = (Tensor::from_inner(x.clone()), Tensor::from_inner(y.clone()));
                    let out = match self.variant {
                        FormatVariant::Mixed => tracked.forward_mixed(x, format),
                        FormatVariant::Fp8 => tracked.forward_fp8(x),
                        _ => tracked.forward(x.cast(format)).cast(DType::F32),
                    };
                    mean_squared(out, y) * part
                })?;
                let loss_value = loss.clone().inner();
                losses = Some(match losses.take() {
                    Some(sum) => sum + loss_value,
                    None => loss_value,
                });
                let gradients = meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss * scale))?;
                let gradients = gradients.cast(DType::F32).scaled(scale.recip());
                sum = Some(match sum.take() {
                    Some(sum) => gradients.plus(sum),
                    None => gradients,
                });
            }
            let (Some(sum), Some(loss)) = (sum, losses) else { return Ok(Left::Host(Vec::new())) };
            mlp = meter.part::<B, _>(Part::Optimizer, device, || mlp.clone().descend(sum.clone(), LR))?;
            Ok(Left::Device(Tensor::cat(vec![sum.flat(), loss], 0)))
        }))
    }

    fn describe(&self, first: &[f32], _: f64, outcome: &mut Outcome) {
        if let Some(loss) = first.last() {
            outcome.set(&NumberFormat::LOSS, f64::from(*loss));
        }
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        let numbers = normal(seed, "rounding", 0, ROUNDED, 1.0);
        let cast = |format: DType| {
            let tensor = Tensor::<B, 1>::from_data(TensorData::new(numbers.clone(), [ROUNDED]), device);
            host(tensor.cast(format).cast(DType::F32))
        };
        let [products, gradients] = match self.variant {
            FormatVariant::F32 => [numbers.clone(), numbers.clone()],
            FormatVariant::Mixed | FormatVariant::Bf16 => [cast(DType::BF16)?, cast(DType::BF16)?],
            FormatVariant::F16 => [cast(DType::F16)?, cast(DType::F16)?],
            FormatVariant::Fp8 => [E4M3, E5M2].map(|format| fp8::rounded(&numbers, format)),
        };
        outcome.set(&NumberFormat::ROUNDING, relative_error(&products, &numbers));
        outcome.set(&NumberFormat::ROUNDING_GRADIENTS, relative_error(&gradients, &numbers));
        let output = |pair: &Self| -> Result<Vec<f32>, LabError> {
            let mut call = pair.ready::<B>(seed, device)?;
            call(&mut Meter::new(None))?.numbers()
        };
        let (outputs, exact) = (output(self)?, output(&self.reference())?);
        // The loss is the last number.
        let gradients = exact.len().saturating_sub(1);
        let pairs = outputs.iter().zip(&exact).take(gradients);
        let difference: f64 = pairs.map(|(outputs, exact)| (f64::from(*outputs) - f64::from(*exact)).powi(2)).sum();
        let norm: f64 = exact.iter().take(gradients).map(|exact| f64::from(*exact).powi(2)).sum();
        outcome.set(&NumberFormat::GRADIENTS, (difference / norm).sqrt());
        Ok(())
    }
}

/// The relative errors of `rounded` numbers, as a root mean square.
fn relative_error(rounded: &[f32], exact: &[f32]) -> f64 {
    let pairs = rounded.iter().zip(exact).filter(|(_, exact)| **exact != 0.0);
    let squares = pairs.map(|(rounded, exact)| ((f64::from(*rounded) - f64::from(*exact)) / f64::from(*exact)).powi(2));
    (squares.sum::<f64>() / exact.len() as f64).sqrt()
}
