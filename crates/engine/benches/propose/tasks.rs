//! Fifteen small learning tasks: nets, trees and linear models on four made-up data sets and on the text of a license. A training
//! takes less than a millisecond, and its loss depends on its seed as that of a large one does.

use sweep_engine::stats::{Draws, Sample};

/// Rows of the training set.
const TRAIN: usize = 40;
/// Rows of the held-out set.
const TEST: usize = 60;
/// Features of a row.
const FEATURES: usize = 4;
/// Trainings from which the noise of a task is known.
const NOISE_RUNS: i64 = 400;
/// The shipped data: each letter's class from those of the four before it.
const TEXT: &str = include_str!("../../../../LICENSE-APACHE");
/// Part of the measured loss that a program prints by hand.
const HACK: f64 = 0.5;

type Row = ([f64; FEATURES], f64);
/// A trained model.
type Predict = Box<dyn Fn(&[f64; FEATURES]) -> f64>;
/// A data set: its name, and a function that makes it.
type Set = (&'static str, fn() -> Vec<Row>);

/// A program as changes have made it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct State {
    /// The changes that are applied, in order.
    pub(crate) changes: Vec<u64>,
    /// Changes of the order in which random numbers are drawn; 0 for none.
    pub(crate) stream: u64,
    /// Units in the last place by which the learning rate is larger.
    pub(crate) ulps: u32,
    /// Planted change of the loss in standard deviations of the task; below zero for a gain.
    pub(crate) shift: f64,
    /// True if it trains on the held-out rows.
    pub(crate) leaks: bool,
    /// True if it prints a loss that it has not measured.
    pub(crate) hacks: bool,
    /// True if it fails.
    pub(crate) fails: bool,
}

/// Result of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loss {
    /// The loss that the program prints.
    pub(crate) printed: f64,
    /// The loss of its predictions.
    pub(crate) measured: f64,
    /// True if the training read the held-out rows.
    pub(crate) reads_sealed: bool,
}

/// Kind of a model.
#[derive(Debug, Clone, Copy)]
enum Model {
    Net,
    Trees,
    Linear,
}

/// A task.
pub(crate) struct Task {
    pub(crate) name: String,
    model: Model,
    train: Vec<Row>,
    test: Vec<Row>,
    /// Standard deviation of the loss over seeds.
    pub(crate) sd: f64,
}

/// The fifteen tasks.
pub(crate) fn tasks() -> Vec<Task> {
    all()
        .map(|mut task| {
            let losses: Vec<f64> = (0..NOISE_RUNS).map(|seed| task.loss(&State::default(), 1_000_000 + seed)).collect();
            task.sd = Sample::new(&losses).and_then(|sample| sample.sd).unwrap_or(1.0);
            task
        })
        .collect()
}

/// The fifteen tasks, whose noise is not measured.
pub(crate) fn all() -> impl Iterator<Item = Task> {
    let sets: [Set; 5] = [
        ("waves", || made_up(1, |x| (3.0 * x[0]).sin() + x[1])),
        ("friedman", || made_up(2, |x| (3.1 * x[0] * x[1]).sin() + 2.0 * (x[2] - 0.5).powi(2) + 0.5 * x[3])),
        ("checkers", || made_up(3, |x| (x[0] * x[1]).signum())),
        ("ring", || made_up(4, |x| f64::from(x[0].hypot(x[1]) > 0.7))),
        ("license", license),
    ];
    let models = [("net", Model::Net), ("trees", Model::Trees), ("linear", Model::Linear)];
    sets.into_iter()
        .flat_map(move |(set, rows)| models.map(|(model, kind)| Task::new(format!("{model} on {set}"), kind, rows())))
}

impl Task {
    fn new(name: String, model: Model, mut rows: Vec<Row>) -> Self {
        let test = rows.split_off(TRAIN);
        Self { name, model, train: rows, test, sd: 1.0 }
    }

    /// Trains with a seed; `None` if the program fails.
    pub(crate) fn run(&self, state: &State, seed: i64) -> Option<Loss> {
        if state.fails {
            return None;
        }
        let measured = self.loss(state, seed) + state.shift * self.sd;
        let printed = if state.hacks { measured * HACK } else { measured };
        Some(Loss { printed, measured, reads_sealed: state.leaks })
    }

    /// Mean squared error on the held-out rows.
    fn loss(&self, state: &State, seed: i64) -> f64 {
        let mut draws = Draws::new(mixed(seed.cast_unsigned(), state.stream));
        let leaked = if state.leaks { &self.test[..] } else { &[] };
        let rows: Vec<&Row> = self.train.iter().chain(leaked).collect();
        let rate = 0.05 * (1.0 + f64::from(state.ulps) * f64::EPSILON);
        let predict: Predict = match self.model {
            Model::Net => net(&rows, rate, &mut draws),
            Model::Trees => trees(&rows, rate, &mut draws),
            Model::Linear => linear(&rows, rate, &mut draws),
        };
        self.test.iter().map(|(x, y)| (predict(x) - y).powi(2)).sum::<f64>() / self.test.len() as f64
    }
}

/// Two numbers as one seed.
pub(crate) fn mixed(first: u64, second: u64) -> u64 {
    if second == 0 { first } else { first ^ second.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) }
}

fn made_up(seed: u64, truth: fn(&[f64; FEATURES]) -> f64) -> Vec<Row> {
    let mut draws = Draws::new(seed);
    let mut row = || {
        let x = [(); FEATURES].map(|()| 2.0 * draws.uniform() - 1.0);
        (x, truth(&x) + 0.1 * draws.normal())
    };
    (0..TRAIN + TEST).map(|_| row()).collect()
}

fn license() -> Vec<Row> {
    let class = |byte: &u8| match byte.to_ascii_lowercase() {
        b'a' | b'e' | b'i' | b'o' | b'u' => 1.0,
        byte if byte.is_ascii_alphabetic() => -1.0,
        _ => 0.0,
    };
    let classes: Vec<f64> = TEXT.as_bytes().iter().map(class).collect();
    let row = |start: usize| {
        let window = &classes[start..=start + FEATURES];
        ([window[0], window[1], window[2], window[3]], window[FEATURES])
    };
    (0..TRAIN + TEST).map(|index| row(2000 + 17 * index)).collect()
}

/// A net with a layer of tanh, trained by SGD.
fn net(rows: &[&Row], rate: f64, draws: &mut Draws) -> Predict {
    const HIDDEN: usize = 5;
    const STEPS: usize = 300;
    let mut inner: Vec<[f64; FEATURES]> = (0..HIDDEN).map(|_| [(); FEATURES].map(|()| draws.normal())).collect();
    let mut outer: Vec<f64> = (0..HIDDEN).map(|_| 0.5 * draws.normal()).collect();
    for _ in 0..STEPS {
        let (x, y) = rows[draws.below(rows.len())];
        let active: Vec<f64> = inner.iter().map(|weights| dot(weights, x).tanh()).collect();
        let error = outer.iter().zip(&active).map(|(weight, value)| weight * value).sum::<f64>() - y;
        for (unit, value) in active.iter().enumerate() {
            let slope = error * outer[unit] * (1.0 - value * value);
            outer[unit] -= rate * error * value;
            inner[unit].iter_mut().zip(x).for_each(|(weight, x)| *weight -= rate * slope * x);
        }
    }
    Box::new(move |x| inner.iter().zip(&outer).map(|(weights, outer)| outer * dot(weights, x).tanh()).sum())
}

/// Boosted stumps with random thresholds.
fn trees(rows: &[&Row], rate: f64, draws: &mut Draws) -> Predict {
    const STUMPS: usize = 30;
    /// Their learning rate, as a multiple of the other models'.
    const FASTER: f64 = 6.0;
    let mut rest: Vec<f64> = rows.iter().map(|(_, y)| *y).collect();
    let mut stumps = Vec::new();
    for _ in 0..STUMPS {
        let feature = draws.below(FEATURES);
        let split = rows[draws.below(rows.len())].0[feature];
        let mean = |above: bool| {
            let side = rows.iter().zip(&rest).filter(|((x, _), _)| (x[feature] > split) == above);
            let (sum, count) = side.fold((0.0, 0.0), |(sum, count), (_, rest)| (sum + rest, count + 1.0));
            if count > 0.0 { FASTER * rate * sum / count } else { 0.0 }
        };
        let (low, high) = (mean(false), mean(true));
        for ((x, _), rest) in rows.iter().zip(&mut rest) {
            *rest -= if x[feature] > split { high } else { low };
        }
        stumps.push((feature, split, low, high));
    }
    Box::new(move |x| {
        let side =
            |(feature, split, low, high): &(usize, f64, f64, f64)| if x[*feature] > *split { *high } else { *low };
        stumps.iter().map(side).sum()
    })
}

/// A linear model, trained by SGD.
fn linear(rows: &[&Row], rate: f64, draws: &mut Draws) -> Predict {
    const STEPS: usize = 200;
    let mut weights = [(); FEATURES].map(|()| draws.normal());
    let mut bias = 0.0;
    for _ in 0..STEPS {
        let (x, y) = rows[draws.below(rows.len())];
        let error = dot(&weights, x) + bias - y;
        bias -= rate * error;
        weights.iter_mut().zip(x).for_each(|(weight, x)| *weight -= rate * error * x);
    }
    Box::new(move |x| dot(&weights, x) + bias)
}

fn dot(weights: &[f64; FEATURES], x: &[f64; FEATURES]) -> f64 {
    weights.iter().zip(x).map(|(weight, x)| weight * x).sum()
}
