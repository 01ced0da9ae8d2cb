//! `sweep` with the networks of this project: a file and a line of the list below for each task.

mod recurrence;
mod shapes;

use std::process::ExitCode;

use sweep::{
    burn::{
        module::AutodiffModule,
        optim::{AdamWConfig, GradientsParams, Optimizer as _},
        tensor::{ElementConversion as _, Tensor, backend::AutodiffBackend},
    },
    job::{Curve, Progress, Report, TaskInfo, Unit},
    lab::LabError,
};

fn main() -> ExitCode {
    sweep::main(&[TaskInfo::added::<shapes::Shapes>(), TaskInfo::added::<recurrence::Recurrence>()])
}

/// Trains `network` with AdamW, a step for each batch, and returns it with the curve of the loss. `loss` computes the loss of a
/// step's batch, `[1]`.
fn trained<B: AutodiffBackend, M: AutodiffModule<B>>(
    mut network: M,
    (steps, lr): (usize, f64),
    report: &mut dyn Report,
    mut loss: impl FnMut(&M, usize) -> Tensor<B, 1>,
) -> Result<(M, Curve), LabError> {
    let mut optimizer = AdamWConfig::new().init();
    let mut curve = Curve { unit: Unit::Nats, at: Vec::new(), values: Vec::new() };
    for step in 1..=steps {
        let loss = loss(&network, step);
        let value = loss.clone().into_scalar().elem::<f64>();
        if !value.is_finite() {
            return Err(LabError::diverged("loss", value, format!("in step {step}")));
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(lr, network, gradients);
        curve.at.push(step as u64);
        curve.values.push(value);
        let (done, total) = (step as u64, steps as u64);
        report.progress(Progress { done, total, loss: Some(value), ..Progress::default() });
    }
    Ok((network, curve))
}
