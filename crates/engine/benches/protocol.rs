//! Two equal variants are timed while other programs use the machine: how often are they found to differ?
//!
//! ```text
//! cargo bench -p sweep-engine --bench protocol [-- RUNS]
//! ```
//!
//! Every run times a short program as variant `a` and as variant `b`, with 8 seeds each. `blocks` runs all jobs of `a`
//! before those of `b`, as two commands; `rounds` is the order of `sweep run`. Processes of this benchmark load all cores
//! for a fraction of the time, which drifts (autoregressive, with a correlation of 0.97 from one tenth of a second to the
//! next). `claims` counts the runs in which the claim that `a` takes at least as long as `b` is supported or refuted at
//! 95 %, and `paired t` the runs in which a t-test of the paired logarithms has p < 0.05. One in twenty is the share that
//! chance gives to a valid protocol.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    os::unix::process::parent_id,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use sweep_engine::{stats::Sample, store::Store};

const RECIPE: &str = "
name: equal
steps:
  bench:
    uses: command
    exclusive: true
    matrix: { variant: [a, b] }
    seeds: 8
    with:
      run: i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done
      env: { VARIANT: '${{ matrix.variant }}' }
tables:
  times: { from: bench, conditions: any, compare: { axis: variant, pairs: [[a, b]], show: ratio }, cells: [time.run] }
claims:
  slower:
    conditions: any
    ratio: { metric: time.run, of: { step: bench, variant: a }, to: { step: bench, variant: b } }
    expect: { at_least: 1 }
";

/// Length of a period with one load.
const PERIOD: Duration = Duration::from_millis(100);
/// Correlation of the loads of adjacent periods.
const CORRELATION: f64 = 0.97;
/// Period in which a loading process works for the fraction of the load, and sleeps for the rest.
const SLICE: Duration = Duration::from_millis(10);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, epoch] = arguments.as_slice()
        && word == "load"
    {
        load(Duration::from_millis(epoch.parse().unwrap()));
        return;
    }
    let runs: usize = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(20);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let _foreign = Foreign::start(cores);
    println!("{:>8} {:>6} {:>10} {:>10} {:>16}", "order", "runs", "claims", "paired t", "largest |ratio-1|");
    let mut blocks = Found::default();
    let mut rounds = Found::default();
    // In turn, so that both meet the same loads of others.
    for _ in 0..runs {
        blocks.add(&measured(&["bench/variant=a", "bench/variant=b"]));
        rounds.add(&measured(&["bench"]));
    }
    for (order, found) in [("blocks", blocks), ("rounds", rounds)] {
        let Found { claims, tests, largest } = found;
        println!("{order:>8} {runs:>6} {claims:>10} {tests:>10} {:>15.1} %", largest * 100.0);
    }
}

/// Number of runs in which equal variants were found to differ.
#[derive(Default)]
struct Found {
    claims: usize,
    tests: usize,
    largest: f64,
}

impl Found {
    fn add(&mut self, (decided, differences): &(bool, Vec<f64>)) {
        let estimate = Sample::new(differences).unwrap().estimate();
        self.claims += usize::from(*decided);
        self.tests += usize::from(estimate.p.is_some_and(|p| p < 0.05));
        self.largest = self.largest.max((estimate.value.exp() - 1.0).abs());
    }
}

/// Runs the selections one after another; answers whether the claim was decided, and the logarithms of the ratios.
fn measured(selections: &[&str]) -> (bool, Vec<f64>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("recipe.yaml"), RECIPE).unwrap();
    let sweep = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
        command.args(arguments).current_dir(folder.path()).env("SWEEP_LOCKS", folder.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for selection in selections {
        sweep(&["run", "recipe.yaml", "--only", selection]);
    }
    sweep(&["run", "recipe.yaml"]);
    let claims = fs::read_to_string(folder.path().join("results/reports/equal/claims.json")).unwrap();
    let claims: Value = serde_json::from_str(&claims).unwrap();
    let state = claims[0]["state"].as_str().unwrap();
    (state == "supported" || state == "refuted", differences(folder.path()))
}

/// The logarithms of the ratios of `a` to `b`, by seed.
fn differences(folder: &Path) -> Vec<f64> {
    let entries = Store::new(&folder.join("results")).index().unwrap();
    let mut times: BTreeMap<String, f64> = BTreeMap::new();
    let store = Store::new(&folder.join("results"));
    for entry in entries {
        let record = store.get(entry.key).unwrap().unwrap();
        times.insert(entry.label, record.outcome.metrics["time.run"].value);
    }
    let of = |variant: &str, seed: usize| times[&format!("bench/variant={variant},seed={seed}")];
    (0..times.len() / 2).map(|seed| (of("a", seed) / of("b", seed)).ln()).collect()
}

/// Processes that load the machine; ended with this value.
struct Foreign(Vec<Child>);

impl Foreign {
    fn start(count: usize) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
        let own = std::env::current_exe().unwrap();
        let start = || Command::new(&own).args(["load", &epoch]).stdin(Stdio::null()).spawn().unwrap();
        Self((0..count).map(|_| start()).collect())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Loads a core until the benchmark is gone. All loading processes have the same load at the same time.
fn load(epoch: Duration) {
    let parent = parent_id();
    let mut numbers = Numbers(1);
    let (mut state, mut period) = (0.0_f64, 0_u128);
    while parent_id() == parent {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().saturating_sub(epoch);
        while period < now.as_millis() / PERIOD.as_millis() {
            state = CORRELATION * state + (1.0 - CORRELATION * CORRELATION).sqrt() * numbers.normal();
            period += 1;
        }
        // From nearly nothing to nearly a whole core, half of it on average.
        let busy = SLICE.mul_f64(1.0 / (1.0 + (-1.5 * state).exp()));
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < busy {
            sum = (0..1000).fold(sum, |sum, number| black_box(sum.wrapping_add(number)));
        }
        thread::sleep(SLICE.saturating_sub(busy));
    }
}

/// Random numbers, the same in every process (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal deviate: twelve uniform ones are close enough.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
