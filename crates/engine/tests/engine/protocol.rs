//! The protocol of measurements: rounds, a drawn order, and jobs that are alone on the machine.

use std::path::Path;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    sandbox::{Running, Sandbox, until},
    slurm::cluster,
};

/// Three variants, each with four seeds, whose times are compared.
const MEASURED: &str = "
name: measured
steps:
  bench:
    uses: command
    matrix: { variant: [a, b, c] }
    seeds: 4
    with: { run: 'true', env: { VARIANT: '${{ matrix.variant }}' } }
    resources: { cpus: 1 }
tables:
  times: { from: bench, compare: { axis: variant, pairs: [[a, b]] }, cells: [time.run] }
";

/// The labels of the jobs in the order of their starts, over all runs.
fn started(sandbox: &Sandbox) -> Vec<String> {
    sandbox.journal("started").iter().map(|line| line["label"].as_str().unwrap().to_owned()).collect()
}

/// The jobs of a plan, as JSON.
fn jobs(sandbox: &Sandbox) -> Vec<Value> {
    let ended = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    plan["jobs"].as_array().unwrap().clone()
}

/// The order that the plan announces.
fn announced(sandbox: &Sandbox) -> Vec<String> {
    let mut jobs = jobs(sandbox);
    jobs.sort_by_key(|job| ["round", "position"].map(|part| job["turn"][part].as_u64().unwrap()));
    jobs.iter().map(|job| job["label"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn measurements_run_in_rounds_and_in_a_drawn_order() {
    let sandbox = Sandbox::with(MEASURED);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let order = started(&sandbox);
    let seeds: Vec<&str> = order.iter().map(|label| label.split("seed=").nth(1).unwrap()).collect();
    assert_eq!(seeds, ["0", "0", "0", "1", "1", "1", "2", "2", "2", "3", "3", "3"], "{order:?}");
    let variants = |round: &[String]| -> Vec<String> {
        round.iter().map(|label| label.split(',').next().unwrap().replace("bench/variant=", "")).collect()
    };
    let rounds: Vec<Vec<String>> = order.chunks(3).map(variants).collect();
    assert!(rounds.iter().any(|round| *round != ["a", "b", "c"]), "not always the plan's order: {rounds:?}");
    assert!(rounds.iter().any(|round| *round != rounds[0]), "not always the same: {rounds:?}");

    // The draw, computed here from the keys.
    let mut drawn: Vec<(usize, blake3::Hash, String)> = jobs(&sandbox)
        .iter()
        .map(|job| {
            let label = job["label"].as_str().unwrap().to_owned();
            let round: usize = label.split("seed=").nth(1).unwrap().parse().unwrap();
            let text = format!("sweep round 1\nmeasured\nbench\n{round}\n{}", job["key"].as_str().unwrap());
            (round, blake3::hash(text.as_bytes()), label)
        })
        .collect();
    drawn.sort_by(|a, b| (a.0, a.1.as_bytes()).cmp(&(b.0, b.1.as_bytes())));
    assert_eq!(order, drawn.into_iter().map(|(.., label)| label).collect::<Vec<_>>());
    assert_eq!(order, announced(&sandbox));
    let list = sandbox.sweep(&["plan", "recipe.yaml", "--list"]).stdout;
    assert!(list.lines().nth(1).unwrap().ends_with("round  position"), "{list}");
    // The folder of the run has the order of its jobs.
    let plan = fs_err::read_to_string(sandbox.path("results/runs").join(&sandbox.runs()[0]).join("plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert!(plan["jobs"].as_array().unwrap().iter().all(|job| job["turn"]["round"].is_u64()), "{plan}");

    // So it is in the records.
    for (place, label) in order.iter().enumerate() {
        let run = &sandbox.records()[label]["provenance"]["conditions"]["run"];
        assert_eq!([&run["round"], &run["position"]], [place / 3, place % 3], "{label}");
    }

    // The order does not depend on the folder or on the number of jobs at once.
    let other = Sandbox::with(MEASURED);
    assert_eq!(other.sweep(&["run", "recipe.yaml", "--jobs", "3"]).code, Some(0));
    assert_eq!(started(&other), order);
}

#[test]
fn a_run_that_was_interrupted_goes_on_in_the_same_order() {
    let slow = MEASURED.replace("'true'", "'sleep 0.1'");
    let sandbox = Sandbox::with(&slow);
    let order = announced(&sandbox);
    let engine = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    until("four jobs have started", || sandbox.journal("started").len() >= 4);
    engine.signal(Signal::INT);
    assert_eq!(engine.wait().code, Some(130));
    let first = started(&sandbox).len();
    assert!(first < order.len(), "it was interrupted too late");
    // A part of the rest, by its name.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1", "--only", "bench/variant=c"]).code, Some(0));
    let rest: Vec<&String> = order[first..].iter().filter(|label| label.contains("variant=c")).collect();
    assert_eq!(started(&sandbox)[first..].iter().collect::<Vec<_>>(), rest);
    let so_far = started(&sandbox);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]).code, Some(0));
    let left: Vec<&String> = order.iter().filter(|label| !so_far.contains(label)).collect();
    assert_eq!(started(&sandbox)[so_far.len()..].iter().collect::<Vec<_>>(), left);
}

/// A batch system gets the jobs in this order, and the engine in a pilot job has it, too.
#[test]
fn a_batch_system_gets_measurements_in_the_same_order() {
    let Some((cluster, _quiet)) = cluster::shared() else { return };
    let order = announced(&Sandbox::with(MEASURED));
    let sandbox = Sandbox::with(MEASURED);
    let ended = cluster.sweep(&sandbox, &["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = sandbox.journal("submitted");
    let submitted: Vec<&str> = lines.iter().map(|line| line["label"].as_str().unwrap()).collect();
    assert_eq!(submitted, order);
    let numbers: Vec<u64> = lines.iter().map(|line| line["event"]["submitted"]["id"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");

    let pilot = Sandbox::with(MEASURED);
    let ended = cluster.sweep(&pilot, &["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2", "--pilot", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(started(&pilot), order);
}

/// The rounds follow an axis that is named as noise; steps that do not measure keep the plan's order; additional seeds are further rounds.
#[test]
fn rounds_of_other_axes_and_of_additional_seeds() {
    let noise = "
steps:
  bench:
    uses: command
    matrix: { repeat: [3, 1, 2], variant: [a, b] }
    with: { run: 'true', env: { A: '${{ matrix.repeat }}', B: '${{ matrix.variant }}' } }
    resources: { cpus: 1 }
  plain: { uses: mock, matrix: { value: [2, 1], seed: [1, 0] }, resources: { cpus: 1 } }
tables:
  times: { from: bench, compare: { axis: variant, pairs: [[a, b]], noise: repeat }, cells: [time.run] }
  values: { from: plain, rows: [value], cells: [value] }
";
    let sandbox = Sandbox::with(noise);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]).code, Some(0));
    let order = started(&sandbox);
    let repeats: Vec<&str> =
        order.iter().filter_map(|label| label.split("repeat=").nth(1)?.split(',').next()).collect();
    assert_eq!(repeats, ["1", "1", "2", "2", "3", "3"], "{order:?}");
    let plain: Vec<&String> = order.iter().filter(|label| label.starts_with("plain")).collect();
    let expected = ["2,seed=1", "2,seed=0", "1,seed=1", "1,seed=0"].map(|point| format!("plain/value={point}"));
    assert_eq!(plain, expected.iter().collect::<Vec<_>>());

    let more = "
steps:
  a:
    uses: command
    matrix: { variant: [0, 1, 2, 3] }
    seeds: { min: 2, max: 4, until: decided }
    exclusive: true
    with:
      run: echo value=$(( (SEED * 7 + VARIANT * 5) % 11 ))
      env: { SEED: '${{ matrix.seed }}', VARIANT: '${{ matrix.variant }}' }
tables: { pairs: { from: a, compare: { axis: variant, pairs: [[1, 0], [2, 3]], decide: true }, cells: [value] } }
";
    let sandbox = Sandbox::with(more);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let order = started(&sandbox);
    assert_eq!(order, announced(&sandbox));
    let seeds: String = order.iter().map(|label| label.split("seed=").nth(1).unwrap()).collect();
    assert_eq!(seeds, "0000111122223333", "{order:?}");
}

/// A sandbox whose sweeps share a machine with others.
fn start(sandbox: &Sandbox, machine: &Path, more: &[&str]) -> Running {
    let mut command = sandbox.command(&[&["run", "recipe.yaml"], more].concat());
    command.env("SWEEP_LOCKS", machine).spawn().unwrap().into()
}

/// The times from the start of each job to its end, as the journals of all runs have them. A job without an end has been
/// killed, at the latest before the next run began.
fn intervals(sandbox: &Sandbox) -> Vec<(String, Timestamp, Timestamp)> {
    let lines = sandbox.journal("");
    let at = |line: &Value| -> Timestamp { line["at"].as_str().unwrap().parse().unwrap() };
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line["event"]["started"].is_null()) {
        let ends = |other: &&Value| {
            other["label"] == line["label"]
                && (!other["event"]["storing"].is_null() || !other["event"]["failed"].is_null())
        };
        if let Some(end) = lines[index..].iter().find(ends) {
            found.push((line["label"].as_str().unwrap().to_owned(), at(line), at(end)));
        }
    }
    found
}

fn assert_apart(alone: &Sandbox, others: &Sandbox) {
    let (alone, others) = (intervals(alone), intervals(others));
    for (label, begin, end) in &alone {
        for (other, from, to) in &others {
            assert!(end <= from || to <= begin, "{label} ({begin} to {end}) and {other} ({from} to {to})");
        }
    }
}

fn recipe(name: &str, jobs: usize, exclusive: bool) -> String {
    format!(
        "name: {name}\nsteps:\n  {name}:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {jobs}] }} }}\n    \
         with: {{ seconds: 0.02 }}\n    exclusive: {exclusive}\n    resources: {{ cpus: 1 }}\n"
    )
}

#[test]
fn an_exclusive_job_is_alone_among_all_sweeps_on_the_machine() {
    let machine = tempfile::tempdir().unwrap();
    let alone = Sandbox::with(&recipe("alone", 25, true));
    let also_alone = Sandbox::with(&recipe("also", 10, true));
    let others = Sandbox::with(&recipe("others", 60, false));
    let sweeps = [
        start(&others, machine.path(), &["--jobs", "2"]),
        start(&alone, machine.path(), &[]),
        start(&also_alone, machine.path(), &[]),
    ];
    for sweep in sweeps {
        let ended = sweep.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    assert_eq!([&alone, &also_alone, &others].map(|sandbox| intervals(sandbox).len()), [25, 10, 60]);
    assert_apart(&alone, &others);
    assert_apart(&also_alone, &others);
    assert_apart(&alone, &also_alone);
    // So the records say, and nothing else.
    for (sandbox, asked) in [(&alone, true), (&others, false)] {
        for (label, record) in sandbox.records() {
            let exclusive = &record["provenance"]["conditions"]["exclusive"];
            assert_eq!([&exclusive["asked"], &exclusive["held"]], [asked, asked], "{label}");
        }
    }
}

/// Whoever is killed holds nothing any more.
#[test]
fn an_engine_that_is_killed_lets_the_others_go_on() {
    let machine = tempfile::tempdir().unwrap();
    let hang = "{ uses: mock, with: { end: hang } }";
    for (first, second) in [(true, false), (false, true), (true, true)] {
        let holder = Sandbox::with(
            &format!("steps: {{ hang: {hang} }}").replace("end: hang }", &format!("end: hang }}, exclusive: {first}")),
        );
        let waiter = Sandbox::with(&recipe("waiter", 3, second));
        let engine = start(&holder, machine.path(), &[]);
        until("the job hangs", || !holder.workers().is_empty());
        let waiting = start(&waiter, machine.path(), &[]);
        until("the other one waits", || !waiter.journal("waiting").is_empty());
        assert_eq!(waiter.journal("waiting")[0]["event"]["waiting"]["machine"], true);
        assert!(waiter.journal("started").is_empty());
        // It is killed (SIGKILL) when it is dropped.
        drop(engine);
        let ended = waiting.wait();
        assert_eq!((ended.code, waiter.records().len()), (Some(0), 3), "{}", ended.stderr);
    }
}

/// An interrupt ends the wait, and those who come later do not wait for one who has given up.
#[test]
fn an_interrupt_ends_the_wait_for_the_machine() {
    let machine = tempfile::tempdir().unwrap();
    let holder = Sandbox::with("steps: { hang: { uses: mock, with: { end: hang }, resources: { cpus: 1 } } }");
    let alone = Sandbox::with(&recipe("alone", 2, true));
    let later = Sandbox::with(&recipe("later", 2, false));
    let engine = start(&holder, machine.path(), &[]);
    until("the job hangs", || !holder.workers().is_empty());
    let waiting = start(&alone, machine.path(), &[]);
    until("it waits", || !alone.journal("waiting").is_empty());
    let state = alone.sweep(&["status"]).stdout;
    assert!(state.contains("another sweep uses this machine, and one of the two must run alone"), "{state}");
    let behind = start(&later, machine.path(), &[]);
    until("so does who comes later", || !later.journal("waiting").is_empty());
    waiting.signal(Signal::INT);
    let ended = waiting.wait();
    assert_eq!((ended.code, alone.tally()), (Some(130), vec![("skipped", 2)]), "{}", ended.stderr);
    let line = "waiting: alone value=";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    assert_eq!(behind.wait().code, Some(0), "the first job still hangs");
    drop(engine);
}

/// A sweep that a job starts runs inside of that job.
#[test]
fn a_sweep_inside_of_a_job_does_not_wait_for_that_job() {
    let sweep = env!("CARGO_BIN_EXE_sweep-engine");
    let outer = format!(
        "steps: {{ a: {{ uses: command, exclusive: true, with: {{ inputs: [inner.yaml], run: '{sweep} run inner.yaml >&2' }} }} }}"
    );
    let sandbox = Sandbox::with(&outer);
    sandbox.write("inner.yaml", &recipe("inner", 2, true));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log = sandbox.sweep(&["logs", "a"]).stdout;
    assert!(log.contains("warning: exclusive jobs are alone in this sweep only"), "{log}");
}

#[test]
fn without_a_lock_there_is_a_warning() {
    let sandbox = Sandbox::with(&recipe("alone", 3, true));
    let ended = start(&sandbox, &sandbox.path("missing"), &[]).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let warning = ended.stderr.lines().find(|line| line.starts_with("warning: ")).unwrap();
    assert_message!(warning);
    assert_eq!(ended.stderr.matches("warning: ").count(), 1, "{}", ended.stderr);
    for record in sandbox.records().values() {
        let exclusive = &record["provenance"]["conditions"]["exclusive"];
        assert_eq!([&exclusive["asked"], &exclusive["held"]], [true, false]);
    }
    let other = Sandbox::with(&recipe("others", 3, false));
    let ended = start(&other, &sandbox.path("missing"), &[]).wait();
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
}

#[test]
fn judging_times_of_jobs_that_others_may_disturb_is_warned_of() {
    let recipe = "
name: judged
steps:
  a: { uses: command, matrix: { seed: [0, 1] }, with: { run: 'true' } }
  b: { uses: command, matrix: { seed: [0, 1] }, with: { run: ':' } }
  c: { uses: command, exclusive: true, matrix: { variant: [x, y], seed: [0, 1] }, with: { run: 'true', env: { V: '${{ matrix.variant }}' } } }
tables:
  shown: { from: a, rows: [seed], cells: [time.run] }
  alone: { from: c, compare: { axis: variant, pairs: [[x, y]] }, cells: [time.run] }
  pairs: { from: a, compare: { axis: seed, pairs: [[1, 0]] }, cells: [loss, time.run] }
claims:
  faster: { ratio: { metric: time.run, of: { step: a }, to: { step: b } }, expect: { at_most: 1 } }
  any: { conditions: any, ratio: { metric: time.run, of: { step: a }, to: { step: b } }, expect: { at_most: 1 } }
  mixed: { ratio: { metric: time.run, of: { step: c }, to: { step: b } }, expect: { at_most: 1 } }
  loss: { value: { metric: loss, of: { step: a } }, expect: { at_most: 1 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_message!(ended.stderr);
    let run = sandbox.sweep(&["run", "recipe.yaml"]).stderr;
    assert_eq!(run.matches("warning: ").count(), 3, "{run}");
}
