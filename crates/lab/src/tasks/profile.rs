//! `uses: profile`: training steps of a network, operation by operation.

use std::{collections::BTreeMap, fmt::Write as _, time::Instant};

use burn::tensor::{Int, Tensor, TensorData};
use rand::Rng;
use sweep_job::{
    MetricInfo, Outcome, Progress, Report,
    tasks::{Computing, NetworkMetrics, Profile},
};

use super::{Context, Run, network};
use crate::{
    Folders, LabError,
    backend::{
        BackendTask, Compute, dispatch_profiled,
        profiled::{self, Counter, Group, Operation},
        sync,
    },
    device::read::number,
    measure::{heap, trace::Trace},
    model::{self, Gpt, VOCAB_BYTES},
    optim::gradient::{Dropout, Forward},
    rng,
};

/// File names of the artifacts.
const OPERATORS_FILE: &str = "operators.csv";
const TRACE_FILE: &str = "trace.json";
/// Steps in the trace.
const TRACED: usize = 2;
/// The parts of a step.
const PARTS: [&str; 3] = ["forward", "backward", "optimizer"];

/// The heap, for operations that allocate on it.
const HEAP: Counter = Counter {
    begin: || {
        heap::begin();
    },
    end: || heap::end().map(|heap| heap.peak as f64),
};

/// The metric of the time in each group.
const TIMES: [(Group, &MetricInfo); 5] = [
    (Group::Product, &Profile::TIME_PRODUCTS),
    (Group::Pointwise, &Profile::TIME_POINTWISE),
    (Group::Reduction, &Profile::TIME_REDUCTIONS),
    (Group::Movement, &Profile::TIME_MOVEMENT),
    (Group::Other, &Profile::TIME_OTHER),
];

impl Run for Profile {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_profiled(backend, Job { profile: self, folders, report })
    }
}

/// A profile to make.
struct Job<'a> {
    profile: &'a Profile,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

/// Operations of a step.
struct Step {
    /// By part.
    operations: [Vec<Operation>; PARTS.len()],
    started: Instant,
    ended: Instant,
    loss: f64,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { profile, folders, report } = self;
        let settings = &profile.profiling;
        let mut network = network(&profile.model, &profile.architecture, VOCAB_BYTES, settings.seed, device)?;
        let mut outcome = Outcome::default();
        let parameters: usize = model::infos(&network).iter().map(|info| info.shape.iter().product::<usize>()).sum();
        outcome.set(&NetworkMetrics::PARAMETERS, parameters as f64);
        outcome.set(&NetworkMetrics::ACTIVE, network.dims().active_parameter_count() as f64);
        let batch = batch::<B>(profile, network.dims(), device)?;
        let mut steps = Vec::with_capacity(settings.steps);
        let (warmups, total) = (settings.warmups, settings.warmups + settings.steps);
        for done in 1..=total {
            let profiled_step = step(&mut network, &batch, settings.lr, device)?;
            if done == 1 {
                outcome.set(&Profile::LOSS, profiled_step.loss);
            }
            if done > warmups {
                steps.push(profiled_step);
            }
            report.progress(Progress { done: done as u64, total: total as u64, ..Progress::default() });
        }
        let rows = rows(&steps);
        describe(&mut outcome, &steps, &rows);
        write(folders, OPERATORS_FILE, |path| fs_err::write(path, table(&rows, steps.len())))?;
        write(folders, TRACE_FILE, |path| trace(&steps).write(path))?;
        for (name, file) in [(Profile::OPERATORS, OPERATORS_FILE), (Profile::TRACE, TRACE_FILE)] {
            outcome.artifacts.insert(name.to_owned(), file.to_owned());
        }
        Ok(outcome)
    }
}

fn write(
    folders: &Folders,
    file: &str,
    write: impl FnOnce(&std::path::Path) -> std::io::Result<()>,
) -> Result<(), LabError> {
    let path = folders.files.join(file);
    write(&path).map_err(|source| LabError::Write { path, source })
}

/// Random inputs and targets.
fn batch<B: Compute>(
    profile: &Profile,
    dims: &model::GptDims,
    device: &B::Device,
) -> Result<[Tensor<B, 2, Int>; 2], LabError> {
    let settings = &profile.profiling;
    let length = settings.length.unwrap_or(dims.block_size);
    if length > dims.block_size {
        let message = format!("`length: {length}` exceeds the network's context of {} tokens", dims.block_size);
        return Err(LabError::Dimensions(message));
    }
    let vocab_size = i64::try_from(dims.vocab_size).unwrap_or(i64::MAX);
    Ok(["inputs", "targets"].map(|name| {
        let mut random = rng::stream(settings.seed, "profile", name, &[]);
        let ids: Vec<i64> = (0..settings.batch_size * length).map(|_| random.random_range(0..vocab_size)).collect();
        Tensor::from_data(TensorData::new(ids, [settings.batch_size, length]), device)
    }))
}

/// A step of SGD on `network`, with its operations.
fn step<B: Compute>(
    network: &mut Gpt<burn::backend::Autodiff<B>>,
    [inputs, targets]: &[Tensor<B, 2, Int>; 2],
    lr: f64,
    device: &B::Device,
) -> Result<Step, LabError> {
    sync::<B>(device)?;
    let started = Instant::now();
    let dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
    profiled::begin(HEAP);
    let forward = Forward::<B>::new(network, inputs.clone(), targets.clone(), &Computing::default(), dropout);
    let loss = forward.loss();
    let forward_operations = profiled::end();
    profiled::begin(HEAP);
    let gradients = forward.backward(1.0);
    let backward_operations = profiled::end();
    profiled::begin(HEAP);
    let mut change = |index: usize, values: Tensor<B, 1>| match gradients.get(index) {
        Some(Some(gradient)) => values - gradient.clone() * lr,
        _ => values,
    };
    *network = model::map_values(network.clone(), &mut change);
    let optimizer_operations = profiled::end();
    sync::<B>(device)?;
    let ended = Instant::now();
    Ok(Step {
        operations: [forward_operations, backward_operations, optimizer_operations],
        started,
        ended,
        loss: number(loss)?,
    })
}

/// All calls of an operation.
struct Row {
    name: String,
    group: Group,
    calls: usize,
    /// Seconds in each part.
    seconds: [f64; PARTS.len()],
    bytes: Option<f64>,
    /// Seconds and shape of the longest call.
    longest: (f64, Vec<usize>),
}

impl Row {
    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// A row for each operation, in descending order of time.
fn rows(steps: &[Step]) -> Vec<Row> {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for step in steps {
        for (part, operations) in step.operations.iter().enumerate() {
            for operation in operations {
                let Operation { name, group, shape, started, ended, bytes } = operation;
                let seconds = ended.duration_since(*started).as_secs_f64();
                let row = rows.entry(name).or_insert_with(|| Row {
                    name: name.clone(),
                    group: *group,
                    calls: 0,
                    seconds: [0.0; PARTS.len()],
                    bytes: None,
                    longest: (0.0, Vec::new()),
                });
                row.calls += 1;
                row.seconds[part] += seconds;
                row.bytes = bytes.map(|bytes| row.bytes.unwrap_or(0.0) + bytes).or(row.bytes);
                if seconds > row.longest.0 {
                    row.longest = (seconds, shape.clone());
                }
            }
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by(|a, b| b.total().total_cmp(&a.total()));
    rows
}

fn describe(outcome: &mut Outcome, steps: &[Step], rows: &[Row]) {
    let count = steps.len() as f64;
    let step_seconds: f64 = steps.iter().map(|step| step.ended.duration_since(step.started).as_secs_f64()).sum();
    outcome.set(&Profile::TIME_STEP, step_seconds / count);
    let total: f64 = rows.iter().map(Row::total).sum();
    outcome.set(&Profile::TIME_OPERATIONS, total / count);
    let seconds = |group: Group| rows.iter().filter(|row| row.group == group).map(Row::total).sum::<f64>();
    for (group, metric) in TIMES {
        outcome.set(metric, seconds(group) / count);
    }
    outcome.set(&Profile::SHARE_PRODUCTS, seconds(Group::Product) / total);
    outcome.set(&Profile::SHARE_TOP, rows.first().map_or(f64::NAN, Row::total) / total);
    outcome.set(&Profile::CALLS, rows.iter().map(|row| row.calls).sum::<usize>() as f64 / count);
    outcome.set(&Profile::OPERATORS_COUNT, rows.len() as f64);
    let bytes: Option<Vec<f64>> = rows.iter().map(|row| row.bytes).collect();
    if let Some(bytes) = bytes {
        outcome.set(&Profile::MEMORY_OPERATIONS, bytes.iter().sum::<f64>() / count);
    }
}

/// The rows as CSV, in means per step.
fn table(rows: &[Row], steps: usize) -> String {
    let total: f64 = rows.iter().map(Row::total).sum();
    let count = steps as f64;
    let mut text = String::from("operation,group,calls,seconds,share,seconds_per_call");
    for part in PARTS {
        text.push_str(",seconds_");
        text.push_str(part);
    }
    text.push_str(",bytes,shape_of_longest\n");
    for row in rows {
        let group = Group::ALL.iter().find(|(group, _)| *group == row.group).map_or("", |(_, name)| name);
        let (calls, seconds) = (row.calls as f64, row.total());
        let share = seconds / total;
        let bytes = row.bytes.map(|bytes| format!("{:.0}", bytes / count)).unwrap_or_default();
        let shape = row.longest.1.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        // Writing to a text does not fail.
        let mut parts = String::new();
        for seconds in &row.seconds {
            let _ = write!(parts, ",{:.9}", seconds / count);
        }
        let name = &row.name;
        let (per_step, per_call) = (seconds / count, seconds / calls);
        let calls = calls / count;
        let _ = writeln!(text, "{name},{group},{calls},{per_step:.9},{share:.6},{per_call:.9}{parts},{bytes},{shape}");
    }
    text
}

/// The operations of the first steps, as a trace.
fn trace(steps: &[Step]) -> Trace {
    let mut trace = Trace::begin("profile");
    for (index, step) in steps.iter().take(TRACED).enumerate() {
        for (part, operations) in PARTS.iter().zip(&step.operations) {
            for operation in operations {
                trace.operation(&operation.name, operation.started, operation.ended);
            }
            if let Some((first, last)) = operations.first().zip(operations.last()) {
                trace.span(part, first.started, last.ended, last.ended, false);
            }
        }
        trace.step(index + 1, step.started, step.ended);
    }
    trace
}
