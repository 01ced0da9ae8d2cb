//! `uses: parity`: comparison of a backend with Burn's operations on the CPU.
//!
//! Both get the same weights and batches. Logits, gradients, the losses of a few steps and a mask are compared. Each
//! block is also compared separately, on the reference's input, so that a difference is located where it arises.

use burn::{backend::Autodiff, module::AutodiffModule, tensor::Tensor};
use sweep_job::{
    Backend, Outcome, Progress,
    tasks::{Computing, MaskPlan, NetworkMetrics, Parity, Precision, Prune, PruneMethod},
};

use super::{Context, Run, adamw, network};
use crate::{
    LabError,
    backend::{BackendTask, Compute, ExecutionTarget, dispatch, dispatch_eager},
    data::{Batch, Dataset},
    device::read::host,
    model::{self, Auxiliary, Gpt, Handed, Network as _, ParamInfo},
    ops,
    optim::{
        self, Gradients, LossScale,
        gradient::{self, Derived, Dropout, Forward, check_precision, in_precision, with_products},
    },
    prune::Pruner,
};

impl Run for Parity {
    /// Runs the reference, then `backend`.
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        let mut step = |done| report.progress(Progress { done, total: 2, ..Progress::default() });
        let mut reference = reference(self, &[])?;
        step(1);
        let observe = Observe { parity: self, inputs: Some(&reference.modules), left_out: &[], spoilt: None };
        let results = dispatch(ExecutionTarget::new(backend, &self.computing), observe)?;
        if !results.left_out.is_empty() {
            reference = self::reference(self, &results.left_out)?;
        }
        step(2);
        let mut outcome = judge(&reference, &results, Allowed::new(self, backend))?;
        explain_absence(&mut outcome);
        Ok(outcome)
    }
}

/// Results of unoptimized operations on the CPU, with the steps of the iterations `left_out` skipped.
fn reference(parity: &Parity, left_out: &[usize]) -> Result<Observed, LabError> {
    let plain_parity = Parity { computing: Computing::default(), ..parity.clone() };
    // The switch is the process's, and a worker has one job.
    ops::use_kernels(false);
    let results = dispatch_eager(Backend::Cpu, Observe { parity: &plain_parity, inputs: None, left_out, spoilt: None });
    ops::use_kernels(true);
    results
}

/// Allowed differences.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    /// Logits and outputs of blocks, relative to the largest number.
    outputs: f64,
    /// Gradients, relative to the parameter's largest gradient.
    gradients: f64,
    /// Losses, in nats.
    losses: f64,
    /// Masks, as a fraction of the prunable weights: scores close to the threshold may fall on either side of it.
    masks: f64,
}

impl Allowed {
    /// Four to ten times the errors of shorter formats in small networks, because errors grow with a network's depth;
    /// more in single precision, to allow another order of summation. The tensor cores of NVIDIA GPUs round the operands of
    /// products in single precision to TF32, which has ten bits of mantissa.
    fn new(parity: &Parity, backend: Backend) -> Self {
        let [outputs, gradients, losses] = match parity.computing.precision {
            Precision::F32 if backend == Backend::Cuda => [1e-3, 1e-2, 1e-3],
            Precision::F32 => [1e-4, 1e-3, 1e-3],
            Precision::F16 => [1e-2, 4e-2, 1e-2],
            Precision::Bf16 | Precision::Mixed => [5e-2, 2e-1, 5e-2],
        };
        let times = parity.comparing.tolerance;
        let masks = (100.0 * outputs * times).min(0.25);
        Self { outputs: outputs * times, gradients: gradients * times, losses: losses * times, masks }
    }
}

/// Results of a network, on the host.
#[derive(Debug, Clone, Default)]
struct Observed {
    /// Modules in the order of the forward pass, each with its outputs.
    modules: Vec<(String, Vec<f32>)>,
    logits: Vec<f32>,
    /// Gradients of the first step that was not left out, by parameter; empty for a parameter without a gradient. `None` if
    /// every step was left out.
    gradients: Option<Vec<(String, Vec<f32>)>>,
    losses: Vec<f64>,
    /// Iterations whose step was left out, because gradients in half precision overflowed.
    left_out: Vec<usize>,
    /// True for weights that are 0 after the last step, by prunable parameter.
    pruned: Vec<Vec<bool>>,
    parameters: usize,
}

/// Computes the results of a backend.
struct Observe<'a> {
    parity: &'a Parity,
    /// Outputs of each module of the reference, which are the inputs of the next.
    inputs: Option<&'a Vec<(String, Vec<f32>)>>,
    /// Iterations whose step is to be left out.
    left_out: &'a [usize],
    /// A parameter with falsified values, for tests.
    spoilt: Option<&'a str>,
}

impl BackendTask for Observe<'_> {
    type Output = Observed;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Observed, LabError> {
        let Parity { model, architecture, data, comparing, computing, optimizer, prune } = self.parity;
        let data = Dataset::open(data)?;
        let mut network = network::<Autodiff<B>>(model, architecture, data.vocab_size, comparing.seed, device)?;
        let dims = *network.dims();
        check_precision::<B>(computing.precision, &dims.block, device)?;
        let infos = model::infos(&network);
        if let Some(place) = self.spoilt.and_then(|name| infos.iter().position(|info| info.name == name)) {
            network = model::map_values::<Autodiff<B>, _>(network, &mut |index, weight| {
                // The change is not uniform, because a normalization would remove a common factor.
                if index == place { weight * 1.5 + 0.1 } else { weight }
            });
        }
        let batch = |iter: usize| {
            let shape = [comparing.batch_size, dims.block_size];
            data.train.random_batch(comparing.seed, [iter as u64, 0], shape, dims.vocab_size)
        };
        let first_batch = batch(0)?;
        let (tokens, _) = first_batch.to_tensors::<B>(device);
        // In the formats of a training, which differ from the format of the weights.
        let inner = in_precision(&network, computing.precision);
        let (logits, modules) = with_products(computing.precision, || {
            let logits = numbers(inner.logits(tokens, 0.0))?;
            Ok::<_, LabError>((logits, modules(&inner, &first_batch, self.inputs, device)?))
        })?;
        drop(inner);

        let mut adam = adamw::<B>(optimizer, network.dims(), &infos)?.with_fusing(computing.fusion);
        let mut pruner = Pruner::new(prune, &infos)
            .with_seed(comparing.seed)
            .with_fusing(computing.fusion)
            .starting_from::<Autodiff<B>, _>(&network);
        let mut scale = LossScale::new(computing.precision);
        let (mut losses, mut gradients, mut left_out) = (Vec::new(), None, Vec::new());
        for iter in 0..comparing.iters {
            let (tokens, targets) = batch(iter)?.to_tensors(device);
            let dropout = Dropout { p: 0.0, seed: comparing.seed, at: [iter as u64, 0] };
            let derived = Derived { auxiliary: Auxiliary::new(optimizer), ..Derived::default() };
            let forward = Forward::<B>::of(&network, [tokens, targets], computing, dropout, derived);
            losses.push(f64::from(host(forward.loss())?[0]));
            let step_gradients = match &mut scale {
                _ if self.left_out.contains(&iter) => None,
                Some(scale) => scale.unscale(forward.backward(scale.factor()))?,
                None => Some(forward.backward(1.0)),
            };
            let Some(step_gradients) = step_gradients else {
                left_out.push(iter);
                continue;
            };
            if gradients.is_none() {
                gradients = Some(named(&infos, &step_gradients)?);
            }
            let (step_gradients, _) = adam.guard(step_gradients);
            let step_gradients = optim::clip_global_norm(step_gradients, optimizer.grad_clip);
            network = adam.step::<Autodiff<B>, _>(network, step_gradients, optimizer.lr)?;
        }
        let mut pruned = Vec::new();
        if prune.prune != PruneMethod::None {
            if prune.prune.calibrates() {
                let batches: Vec<Batch> = (0..prune.calibration_batches).map(batch).collect::<Result<_, _>>()?;
                let batches = batches.iter().map(|batch| batch.to_tensors::<B>(device));
                if prune.prune.by_gradient() {
                    pruner.sense(gradient::mean(&network, batches, computing));
                } else {
                    pruner.calibrate(&network.valid(), batches.map(|(tokens, _)| tokens))?;
                }
            }
            if prune.prune.plan() == MaskPlan::Replace {
                pruner.draw(prune.target(), device);
                network = pruner.apply::<Autodiff<B>, _>(network, &mut adam);
                let first = [first_batch.to_tensors::<B>(device)].into_iter();
                let gradients = gradient::mean(&network, first, computing);
                network = pruner.replace::<Autodiff<B>, _>(network, &mut adam, &gradients, Prune::REPLACED)?;
            } else {
                pruner.choose::<Autodiff<B>, _>(&network, &adam, prune.target())?;
                network = pruner.apply::<Autodiff<B>, _>(network, &mut adam);
            }
            let values = infos.iter().zip(model::values(&network));
            for (_, values) in values.filter(|(info, _)| info.prunable(prune.prune_tied_head)) {
                pruned.push(host(values)?.into_iter().map(|weight| weight == 0.0).collect());
            }
        }
        let parameters = infos.iter().map(ParamInfo::len).sum();
        Ok(Observed { modules, logits, gradients, losses, left_out, pruned, parameters })
    }
}

/// Outputs of the embedding and of each block: for the input in `inputs`, or else for the previous output.
///
/// Values that blocks pass on besides the residual stream are always this network's own.
fn modules<B: Compute>(
    network: &Gpt<B>,
    batch: &Batch,
    inputs: Option<&Vec<(String, Vec<f32>)>>,
    device: &B::Device,
) -> Result<Vec<(String, Vec<f32>)>, LabError> {
    let (tokens, _) = batch.to_tensors::<B>(device);
    let rows = network.rows(batch.length);
    let flow = network.flow(&tokens, 0, &rows, 0.0);
    let mut stream = (network.embed(tokens, 0, 0.0, false), Handed::NOTHING);
    let mut outputs = vec![("wte and wpe".to_owned(), numbers(stream.0.clone())?)];
    for index in 0..network.h.len() {
        if let Some((_, input)) = inputs.and_then(|inputs| inputs.get(index)) {
            let shape = stream.0.dims();
            stream.0 = Tensor::<B, 1>::from_floats(&input[..], device).reshape(shape).cast(stream.0.dtype());
        }
        stream = network.through(index..index + 1, stream, &flow, None);
        outputs.push((format!("h.{index}"), numbers(stream.0.clone())?));
    }
    Ok(outputs)
}

fn named<B: Compute>(infos: &[ParamInfo], gradients: &Gradients<B>) -> Result<Vec<(String, Vec<f32>)>, LabError> {
    let pairs = infos.iter().zip(gradients).map(|(info, gradient)| {
        let numbers = gradient.clone().map_or(Ok(Vec::new()), host)?;
        Ok((info.name.clone(), numbers))
    });
    pairs.collect()
}

fn numbers<B: Compute, const D: usize>(tensor: Tensor<B, D>) -> Result<Vec<f32>, LabError> {
    let length = tensor.shape().num_elements();
    host(tensor.reshape([length]))
}

/// The largest difference, relative to the largest number of the reference; infinite if a number is not finite.
fn error(reference: &[f32], numbers: &[f32]) -> f64 {
    let scale = reference.iter().map(|number| f64::from(number.abs())).fold(1e-6, f64::max);
    let differences = reference.iter().zip(numbers).map(|(reference, numbers)| f64::from((reference - numbers).abs()));
    let maximum =
        differences.fold(0.0, |maximum: f64, next| if next.is_finite() { maximum.max(next) } else { f64::INFINITY });
    maximum / scale
}

/// The first of `reference` whose error in `results` exceeds `tolerance`, and the largest error of all.
fn first_difference<'a>(
    reference: &'a [(String, Vec<f32>)],
    results: &[(String, Vec<f32>)],
    tolerance: f64,
) -> (Option<(&'a str, f64)>, f64) {
    let errors = reference.iter().zip(results).map(|((name, reference), (_, results))| {
        // If the loss does not depend on a parameter, one backend may return no gradient and the other a gradient of 0.
        let zeros = vec![0.0; reference.len().max(results.len())];
        let gradient = |numbers: &'a [f32]| if numbers.is_empty() { None } else { Some(numbers) };
        (name.as_str(), error(gradient(reference).unwrap_or(&zeros), if results.is_empty() { &zeros } else { results }))
    });
    let errors: Vec<(&str, f64)> = errors.collect();
    let max_error = errors.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    (errors.into_iter().find(|(_, error)| *error > tolerance), max_error)
}

fn judge(reference: &Observed, results: &Observed, limits: Allowed) -> Result<Outcome, LabError> {
    let (module, modules) = first_difference(&reference.modules, &results.modules, limits.outputs);
    // Backward, the last module comes first.
    let backward = |observed: &Observed| {
        observed.gradients.as_ref().map(|gradients| gradients.iter().rev().cloned().collect::<Vec<_>>())
    };
    let (expected, result_gradients) = (backward(reference), backward(results));
    let (parameter, gradients) = match (&expected, &result_gradients) {
        (Some(expected), Some(result_gradients)) => {
            let (parameter, max_error) = first_difference(expected, result_gradients, limits.gradients);
            (parameter, Some(max_error))
        }
        _ => (None, None),
    };
    let logits = error(&reference.logits, &results.logits);
    let losses = reference.losses.iter().zip(&results.losses).map(|(reference, results)| (reference - results).abs());
    let losses =
        losses.fold(0.0, |maximum: f64, next| if next.is_finite() { maximum.max(next) } else { f64::INFINITY });
    let pairs = || reference.pruned.iter().flatten().zip(results.pruned.iter().flatten());
    let difference_count = pairs().filter(|(reference, results)| reference != results).count();
    let masks =
        Some(pairs().count()).filter(|weights| *weights > 0).map(|weights| difference_count as f64 / weights as f64);

    let first = match (module, parameter) {
        (Some((name, error)), _) => format!("the first module that differs is `{name}`, by {error:.1e}"),
        (None, Some((name, error))) => {
            format!(
                "all blocks agree, and the first gradient that differs in the backward pass is that of `{name}`, by \
                 {error:.1e}"
            )
        }
        (None, None) => "all blocks and gradients agree, so the difference arises after them".to_owned(),
    };
    let errors = [
        ("blocks' outputs", Some(modules), limits.outputs),
        ("logits", Some(logits), limits.outputs),
        ("gradients", gradients, limits.gradients),
        ("losses", Some(losses), limits.losses),
        ("masks", masks, limits.masks),
    ];
    let mut errors = errors.into_iter().filter_map(|(what, error, allowed)| Some((what, error?, allowed)));
    if let Some((what, error, allowed)) = errors.find(|(_, error, allowed)| error > allowed) {
        return Err(LabError::Parity { what, error, allowed, first });
    }
    let mut outcome = Outcome::default();
    for (metric, value) in [
        (&Parity::ERROR_LOGITS, Some(logits)),
        (&Parity::ERROR_GRADIENTS, gradients),
        (&Parity::ERROR_LOSS, Some(losses)),
        (&Parity::ERROR_MODULES, Some(modules)),
        (&Parity::ERROR_MASKS, masks),
        (&Parity::STEPS_SKIPPED, Some(results.left_out.len() as f64)),
        (&NetworkMetrics::PARAMETERS, Some(reference.parameters as f64)),
    ] {
        outcome.set(metric, value.unwrap_or(f64::NAN));
    }
    Ok(outcome)
}

/// Adds the reason for every metric that was not measured.
fn explain_absence(outcome: &mut Outcome) {
    for (name, reason) in [
        ("error.gradients", "the gradients of every step overflowed in half precision; raise `iters`"),
        ("error.masks", "needs `prune`"),
    ] {
        if !outcome.metrics.contains_key(name) {
            outcome.facts.insert(format!("absent.{name}"), reason.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sweep_job::{
        Report, Value, Values,
        tasks::{Model, ModelSize},
    };

    use super::*;
    use crate::Folders;

    fn tiny() -> Parity {
        let model = Model {
            model: ModelSize::Gpt2Nano,
            n_layer: Some(3),
            n_head: Some(2),
            d_model: Some(16),
            block_size: Some(8),
            ..Model::default()
        };
        Parity { model, ..Parity::default() }
    }

    #[test]
    fn the_first_module_that_differs_is_named() {
        let parity = tiny();
        let observe = |inputs, spoilt| {
            dispatch_eager(Backend::Cpu, Observe { parity: &parity, inputs, left_out: &[], spoilt }).unwrap()
        };
        let limits = Allowed::new(&parity, Backend::Cpu);
        let reference = observe(None, None);
        let results = observe(Some(&reference.modules), None);
        assert!(judge(&reference, &results, limits).is_ok());
        for (spoilt, place) in
            [("wpe.weight", "`wte and wpe`"), ("h.1.mlp.c_fc.weight", "`h.1`"), ("h.2.attn.c_proj.bias", "`h.2`")]
        {
            let altered_results = observe(Some(&reference.modules), Some(spoilt));
            let message = judge(&reference, &altered_results, limits).unwrap_err().to_string();
            assert!(message.contains(place) && message.starts_with("blocks' outputs differ"), "{spoilt}: {message}");
        }
        let altered_results = observe(Some(&reference.modules), Some("ln_f.weight"));
        let message = judge(&reference, &altered_results, limits).unwrap_err().to_string();
        assert!(message.starts_with("logits differ") && message.contains("gradient that differs"), "{message}");
        let mut altered_results = results.clone();
        altered_results.losses[2] = f64::NAN;
        assert!(judge(&reference, &altered_results, limits).unwrap_err().to_string().starts_with("losses differ"));
    }

    #[test]
    fn a_run_compares_kernels_with_plain_operations() {
        /// A report that drops all messages.
        struct Deaf;

        impl Report for Deaf {
            fn progress(&mut self, _: Progress) {}
            fn note(&mut self, _: &str) {}
        }

        let info = sweep_job::Task::info("parity").unwrap();
        let values = Values::from([("prune".to_owned(), Value::Text("bitter7".to_owned()))]);
        let Some(sweep_job::Task::Parity(task)) = info.build(&info.complete(values)) else { panic!("a parity") };
        let parity = Parity { prune: task.prune, ..tiny() };
        let folders = Folders { files: PathBuf::new(), scratch: PathBuf::new() };
        let context = Context { backend: Backend::Cpu, folders: &folders, report: &mut Deaf };
        let outcome = parity.run(context).unwrap();
        let names: Vec<&str> = info.metrics().map(|metric| metric.name).collect();
        assert!(names.iter().all(|name| outcome.metrics.contains_key(*name)), "{:?}", outcome.metrics);
        let errors = ["error.logits", "error.gradients"].map(|name| outcome.metrics[name].value);
        assert!(
            errors.iter().all(|error| *error > 0.0 && *error < 1e-4),
            "other operations, and almost the same: {errors:?}"
        );
    }
}
