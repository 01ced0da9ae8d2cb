//! Regret of samplers on functions whose minima are known.
//!
//! ```text
//! cargo bench -p sweep-engine --bench search [-- SEEDS [FIRST]]
//! ```
//!
//! For each function and sampler: the median regret over the seeds (the best value so far, less the minimum) after some
//! numbers of evaluations. The seeds are `SEEDS` integers from `FIRST` on (30, from 0). `rungs` spends the same number of evaluations, each of which is a third, a ninth, … of a full
//! one at the lower rungs. Optuna's own loop (`crates/engine/benches/peers/optuna_loop.py`) runs beside it on the same functions and
//! seeds, if the Python in `SWEEP_PYTHON_OPTUNA` or `~/.cache/sweep/optuna` has Optuna. The last lines compare both
//! implementations of TPE: the ratio of the mean logarithms' exponentials with its 95 % interval. Ends with status 1 if the
//! interval is above 1.

use std::{
    collections::BTreeMap,
    f64::consts::PI,
    ops::Range,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use sweep_engine::{
    decide::{Fraction, rungs::places},
    stats::{Better, Draws},
    suggest::{Axis, Domain, History, Outcome, Point, Question, Random, Sampler, Space, Tpe, Trial, seed_of},
};

/// Full evaluations of each search.
const BUDGET: usize = 100;
/// The numbers of evaluations after which the regret is shown.
const SHOWN: [usize; 5] = [10, 20, 40, 70, 100];

/// A function with its domain and its minimum.
struct Function {
    name: &'static str,
    bounds: &'static [(f64, f64)],
    minimum: f64,
    /// Standard deviation of the noise that a search sees; the regret is without it.
    noise: f64,
    at: fn(&[f64]) -> f64,
}

const FUNCTIONS: &[Function] = &[
    Function {
        name: "Branin",
        bounds: &[(-5.0, 10.0), (0.0, 15.0)],
        minimum: 0.397_887_357_729_738,
        noise: 0.0,
        at: branin,
    },
    Function {
        name: "Hartmann-6",
        bounds: &[(0.0, 1.0); 6],
        minimum: -3.322_368_011_391_339,
        noise: 0.0,
        at: hartmann,
    },
    Function {
        name: "noisy Branin",
        bounds: &[(-5.0, 10.0), (0.0, 15.0)],
        minimum: 0.397_887_357_729_738,
        noise: 2.0,
        at: branin,
    },
];

fn branin(x: &[f64]) -> f64 {
    let (a, b) = (x[0], x[1]);
    (b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0).powi(2) + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0
}

fn hartmann(x: &[f64]) -> f64 {
    const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const A: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const P: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let term = |row: usize| {
        let exponent: f64 = (0..6).map(|axis| A[row][axis] * (x[axis] - P[row][axis]).powi(2)).sum();
        ALPHA[row] * (-exponent).exp()
    };
    -(0..4).map(term).sum::<f64>()
}

impl Function {
    fn space(&self) -> Space {
        let axis = |(index, (low, high)): (usize, &(f64, f64))| Axis {
            name: format!("x{index}"),
            domain: Domain::Float { low: *low, high: *high, log: false, step: None },
        };
        Space { axes: self.bounds.iter().enumerate().map(axis).collect() }
    }

    fn value(&self, point: &Point) -> f64 {
        let numbers: Vec<f64> = point.iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect();
        (self.at)(&numbers)
    }
}

/// A search: evaluations in the order in which they ended, as (cost in full evaluations, true value or none).
type Curve = Vec<(f64, Option<f64>)>;

/// The next points of a batch.
type Ask = fn(&Question<'_>) -> Vec<Point>;

/// Batches of full evaluations.
fn search(function: &Function, ask: Ask, batch: usize, seed: u64) -> Curve {
    let space = function.space();
    let mut history = History::new(Better::Less);
    let mut noise = Draws::new(seed_of(&["noise", &seed.to_string()]));
    let mut curve = Curve::new();
    for number in 0..BUDGET.div_ceil(batch) {
        let of_batch = seed_of(&["bench", &seed.to_string(), &number.to_string()]);
        let n = batch.min(BUDGET - curve.len());
        let question =
            Question { space: &space, history: &history, n, seed: of_batch, study_seed: seed, batch: number, rungs: 1 };
        for point in ask(&question) {
            let value = function.value(&point);
            curve.push((1.0, Some(value)));
            let outcome = Outcome::Measured { rung: 0, value: value + function.noise * noise.normal() };
            history.trials.push(Trial { point, batch: number, outcome });
        }
    }
    curve
}

/// Batches of 9 configurations, of which a third goes on from each rung. A lower rung costs a part of an evaluation, and shows
/// the value with a bias and noise, as the beginning of a training does.
fn halving(function: &Function, ask: Ask, seed: u64) -> Curve {
    const RUNGS: [f64; 3] = [1.0 / 9.0, 1.0 / 3.0, 1.0];
    let keep = Fraction::parse("1/3").expect("a fraction");
    let space = function.space();
    let mut history = History::new(Better::Less);
    let mut noise = Draws::new(seed_of(&["noise", &seed.to_string()]));
    let spread = function.value(&space.axes.iter().map(|_| sweep_job::Value::Float(0.5)).collect()).abs().max(1.0);
    let (mut curve, mut spent) = (Curve::new(), 0.0);
    let mut number = 0;
    while spent < BUDGET as f64 {
        let of_batch = seed_of(&["bench", &seed.to_string(), &number.to_string()]);
        let question = Question {
            space: &space,
            history: &history,
            n: 9,
            seed: of_batch,
            study_seed: seed,
            batch: number,
            rungs: 3,
        };
        let points = ask(&question);
        let mut reached: Vec<(usize, f64)> = vec![(0, f64::NAN); points.len()];
        let mut alive: Vec<usize> = (0..points.len()).collect();
        let mut before = 0.0;
        for (rung, part) in RUNGS.into_iter().enumerate() {
            let mut values = Vec::new();
            for index in &alive {
                let value = function.value(&points[*index]);
                let error = (1.0 - part) * 0.1 * spread;
                let seen = value + error * (1.0 + noise.normal()) + function.noise * noise.normal();
                spent += part - before;
                curve.push((part - before, (rung == RUNGS.len() - 1).then_some(value)));
                reached[*index] = (rung, seen);
                values.push(Some(seen));
            }
            before = part;
            let places = places(&values, keep, Better::Less);
            alive = places.iter().filter(|place| place.goes_on).map(|place| alive[place.configuration]).collect();
        }
        for (point, (rung, value)) in points.into_iter().zip(reached) {
            history.trials.push(Trial { point, batch: number, outcome: Outcome::Measured { rung, value } });
        }
        number += 1;
    }
    curve
}

/// The regret after each of [`SHOWN`] full evaluations.
fn regrets(curve: &Curve, minimum: f64) -> Vec<f64> {
    let after = |budget: usize| {
        let (mut spent, mut best) = (0.0, f64::INFINITY);
        for (cost, value) in curve {
            spent += cost;
            if spent > budget as f64 + 1e-9 {
                break;
            }
            best = value.map_or(best, |value| best.min(value));
        }
        (best - minimum).max(1e-9)
    };
    SHOWN.iter().map(|budget| after(*budget)).collect()
}

/// The curves of Optuna's own loop, by sampler; `None` without Optuna.
fn optuna(function: &Function, seeds: &Range<u64>) -> Option<BTreeMap<String, Vec<Vec<f64>>>> {
    let folder = std::env::var_os("SWEEP_PYTHON_OPTUNA").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/sweep/optuna")))?;
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/peers/optuna_loop.py");
    let mut command = Command::new(folder.join("bin/python3"));
    let [budget, first, end] = [BUDGET as u64, seeds.start, seeds.end].map(|number| number.to_string());
    command.arg(script).args([function.name, &budget, &first, &end, &function.noise.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().ok().filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

fn row(name: &str, regrets: &[Vec<f64>]) {
    let medians = (0..SHOWN.len()).map(|at| median(regrets.iter().map(|regret| regret[at]).collect()));
    let cells: Vec<String> =
        medians.map(|regret| if regret.is_finite() { format!("{regret:.3}") } else { "–".into() }).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

/// The mean difference of the logarithms of two final regrets, with its 95 % interval, as a ratio.
fn ratio(own: &[Vec<f64>], other: &[Vec<f64>]) -> Option<(f64, f64, f64)> {
    let logs = |regrets: &[Vec<f64>]| -> Vec<f64> { regrets.iter().filter_map(|r| r.last()).map(|r| r.ln()).collect() };
    let (own, other) = (logs(own), logs(other));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64 / values.len() as f64
    };
    if own.len() < 2 || other.len() < 2 {
        return None;
    }
    let difference = mean(&own) - mean(&other);
    let reach = 1.96 * (variance(&own) + variance(&other)).sqrt();
    Some((difference.exp(), (difference - reach).exp(), (difference + reach).exp()))
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (number, first) = (numbers.next().unwrap_or(30), numbers.next().unwrap_or(0));
    let seeds = first..first.saturating_add(number);
    let mut worse = 0;
    for function in FUNCTIONS {
        println!("\n{}, median regret of {number} seeds after n full evaluations\n", function.name);
        println!("| sampler | {} |", SHOWN.map(|n| format!("n = {n}")).join(" | "));
        println!("| --- |{}", " ---: |".repeat(SHOWN.len()));
        let all = |search: &dyn Fn(u64) -> Curve| -> Vec<Vec<f64>> {
            seeds.clone().map(|seed| regrets(&search(seed), function.minimum)).collect()
        };
        row("random", &all(&|seed| search(function, Random::suggest, 1, seed)));
        let own = all(&|seed| search(function, Tpe::suggest, 1, seed));
        row("TPE, one at a time", &own);
        row("TPE, batches of 8", &all(&|seed| search(function, Tpe::suggest, 8, seed)));
        row("rungs, random", &all(&|seed| halving(function, Random::suggest, seed)));
        row("rungs, TPE", &all(&|seed| halving(function, Tpe::suggest, seed)));
        let Some(peers) = optuna(function, &seeds) else {
            println!("\nOptuna is not installed, so nothing is compared with it");
            continue;
        };
        let peers: BTreeMap<String, Vec<Vec<f64>>> = peers
            .into_iter()
            .map(|(name, curves)| {
                let curve = |values: Vec<f64>| values.into_iter().map(|value| (1.0, Some(value))).collect::<Curve>();
                (name, curves.into_iter().map(|values| regrets(&curve(values), function.minimum)).collect())
            })
            .collect();
        for (name, regrets) in &peers {
            row(&format!("Optuna's {name}"), regrets);
        }
        if let Some((ratio, low, high)) = peers.get("TPE").and_then(|other| ratio(&own, other)) {
            println!("\nregret of TPE / that of Optuna's TPE: {ratio:.2}, from {low:.2} to {high:.2}");
            worse += u32::from(low > 1.0);
        }
    }
    println!("\n{:.1} s", begun.elapsed().as_secs_f64());
    if worse == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
