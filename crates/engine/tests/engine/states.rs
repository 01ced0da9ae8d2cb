//! Jobs that continue from the states of others: the rest is computed only, and the result is that of a job alone.

use std::path::PathBuf;

use serde_json::Value;

use crate::{
    faults::kill_at,
    sandbox::{Sandbox, list, sealed},
};

/// A training that adds `lr` to a number in each of its first three steps, and `lr2` from then on. It logs its steps.
const PROGRAM: &str = "
import json, os, sweep, code_of_it
p = sweep.params(lr=1.0, lr2=0.0)
path = sweep.resume()
x = json.loads(path.read_text())['x'] if path else 0.0
with open(os.environ['LOG'], 'a') as log:
    steps = sweep.steps(9)
    for step in steps:
        x += code_of_it.factor * (p['lr'] if step < 3 else p['lr2'])
        log.write(f'{step} ')
        sweep.report(step, x=x)
    log.write('\\n')
with sweep.checkpoint() as place:
    place.write_text(json.dumps({'x': x}))
if len(steps) > 0:
    sweep.report(steps.end - 1, late=x)
sweep.report(final=x, began=1 if path else 0)
";

fn recipe(matrix: &str, with: &str, more: &str) -> String {
    format!(
        "steps:
  job:
    uses: command
    matrix: {{ {matrix} }}
    with: {{ argv: [python3, program.py], inputs: [program.py], {with} }}
    resources: {{ cpus: 1 }}
{more}"
    )
}

fn sandbox(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("program.py", PROGRAM);
    sandbox.write("code_of_it.py", "factor = 1.0\n");
    sandbox
}

/// A recipe whose only job ends at step 3, or where `--axis until=STEP` says.
fn growing() -> Sandbox {
    sandbox(&recipe("lr2: [0.5], until: [3]", "params: { lr2: '${{ matrix.lr2 }}' }", ""))
}

/// A command whose programs find the module `sweep` and the log of their steps.
fn in_environment(sandbox: &Sandbox, args: &[&str]) -> std::process::Command {
    let mut command = sandbox.command(args);
    let module = crate::sandbox::repository().join("python");
    let paths = std::env::join_paths([module, sandbox.path("")]).unwrap();
    command.env("PYTHONPATH", paths).env("PYTHONDONTWRITEBYTECODE", "1").env("LOG", sandbox.path("log"));
    command
}

fn try_run(sandbox: &Sandbox, more: &[&str], fault: &str) -> std::process::Output {
    let mut command = in_environment(sandbox, &[&["run", "recipe.yaml"], more].concat());
    if !fault.is_empty() {
        command.env("SWEEP_FAILPOINTS", fault);
    }
    command.output().unwrap()
}

/// Runs, and gives the steps that the programs have made: a text for each of them.
fn run(sandbox: &Sandbox, more: &[&str]) -> Vec<String> {
    let _ = fs_err::remove_file(sandbox.path("log"));
    let ended = try_run(sandbox, more, "");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let log = fs_err::read_to_string(sandbox.path("log")).unwrap_or_default();
    let mut steps: Vec<String> = log.lines().map(|line| line.trim().to_owned()).collect();
    steps.sort();
    steps
}

/// Key and result of a job. Times and the answer to the question where it began are left out.
fn result(sandbox: &Sandbox, label: &str) -> Value {
    let mut record = sandbox.records().remove(label).unwrap();
    let metrics = record["outcome"]["metrics"].as_object_mut().unwrap();
    metrics.retain(|name, _| ["x", "late", "final"].contains(&name.as_str()));
    serde_json::json!([record["key"], record["outcome"]["metrics"], record["outcome"]["curves"]])
}

/// The folders of the states.
fn states(sandbox: &Sandbox) -> Vec<PathBuf> {
    let steps = sandbox.path("results/store/states");
    if !steps.is_dir() {
        return Vec::new();
    }
    list(&steps).iter().flat_map(|step| list(step)).collect()
}

/// The result of a job that is trained alone.
fn alone(until: &str) -> Value {
    let sandbox = growing();
    assert!(run(&sandbox, &["--axis", until])[0].starts_with("0 1 2"));
    result(&sandbox, &format!("job/lr2=0.5,{until}"))
}

#[test]
fn a_longer_program_makes_only_the_rest_of_the_steps() {
    let sandbox = growing();
    assert_eq!(run(&sandbox, &[]), ["0 1 2"]);
    assert_eq!(states(&sandbox).len(), 1);
    let listed = sandbox.sweep(&["cache", "ls"]);
    assert!(listed.stdout.contains("state after step 3 of job/lr2=0.5,until=3"), "{}", listed.stdout);
    assert!(listed.stderr.contains("1 record, 1 state ("), "{}", listed.stderr);

    assert_eq!(run(&sandbox, &["--axis", "until=6"]), ["3 4 5"]);
    assert_eq!(result(&sandbox, "job/lr2=0.5,until=6"), alone("until=6"));
    let record = sandbox.records().remove("job/lr2=0.5,until=6").unwrap();
    assert_eq!(record["provenance"]["continued"]["step"], 3);
    assert_eq!(record["outcome"]["metrics"]["attempts"]["value"], 1.0);
    let text = sandbox.journal("note").pop().unwrap()["event"]["note"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("continues after step 3, from the state "), "{text}");
    // The shorter one is superseded.
    let left = states(&sandbox);
    assert!(left.len() == 1 && left[0].parent().unwrap().ends_with("6"), "{left:?}");

    assert_eq!(run(&sandbox, &["--axis", "until=6"]), Vec::<String>::new());
    assert_eq!(run(&sandbox, &["--axis", "until=9"]), ["6 7 8"]);
}

#[test]
fn jobs_of_a_plan_wait_for_the_shorter_ones_and_continue_from_them() {
    let matrix = "lr2: [0.5], until: [9, 3, 6]";
    let with = "params: { lr2: '${{ matrix.lr2 }}' }";
    for (keep, left) in [("last", vec!["9"]), ("rungs", vec!["3", "6", "9"]), ("none", vec![])] {
        let more = format!("    states: {{ keep: {keep} }}\n");
        let sandbox = sandbox(&recipe(matrix, with, &more));
        assert_eq!(run(&sandbox, &["--jobs", "3"]), ["0 1 2", "3 4 5", "6 7 8"], "{keep}");
        let found: Vec<String> = states(&sandbox)
            .iter()
            .map(|path| path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(found, left, "{keep}");
        let own = |until: u64| result(&sandbox, &format!("job/lr2=0.5,until={until}"));
        for until in [3, 6, 9] {
            assert_eq!(own(until), alone(&format!("until={until}")), "{keep} {until}");
        }
    }
}

#[test]
fn variants_share_the_steps_before_they_differ() {
    let with = "params: { lr2: '${{ matrix.lr2 }}' }, acts_from: { lr2: 3 }";
    let shared = sandbox(&recipe("lr2: [0.5, 1.5, 2.5]", with, "    states: { share: true }\n"));
    let planned = shared.sweep(&["plan", "recipe.yaml"]).stdout;
    // A program without `until` has no known end, so there is nothing to count.
    assert!(planned.contains("(shared states)"), "{planned}");
    assert_eq!(run(&shared, &[]), ["0 1 2", "3 4 5 6 7 8", "3 4 5 6 7 8", "3 4 5 6 7 8"]);
    assert!(states(&shared).is_empty(), "all of them have a result");
    let unshared = sandbox(&recipe("lr2: [0.5, 1.5, 2.5]", with, ""));
    assert_eq!(run(&unshared, &[]).concat().len(), 3 * "0 1 2 3 4 5 6 7 8".len());
    for lr2 in ["0.5", "1.5", "2.5"] {
        let label = format!("job/lr2={lr2}");
        assert_eq!(result(&shared, &label), result(&unshared, &label));
    }
    shared.assert_all_cached(&["recipe.yaml"]);

    // With a known end the plan contains the savings.
    let until = format!("{with}, until: 9");
    let counted = sandbox(&recipe("lr2: [0.5, 1.5, 2.5]", &until, "    states: { share: true }\n"));
    let planned = counted.sweep(&["plan", "recipe.yaml"]).stdout;
    let lines = "job: 3 jobs share 3 of 9 steps: 22 % fewer (21 steps instead of 27; 1 shared state)
     no earlier job shows how much time this is
";
    assert!(planned.contains(lines), "{planned}");
    // One of them alone has nothing to share.
    assert_eq!(run(&counted, &["--only", "job/lr2=0.5"]), ["0 1 2 3 4 5 6 7 8"]);
}

/// Replaces the duration and the milestones of a record.
fn set_times(sandbox: &Sandbox, label: &str, seconds: f64, milestones: &[(u64, f64)]) {
    let mut record = sandbox.records().remove(label).unwrap();
    let key = record["key"].as_str().unwrap().to_owned();
    let milestone = |(step, seconds): &(u64, f64)| serde_json::json!({ "step": step, "seconds": seconds });
    record["provenance"]["seconds"] = seconds.into();
    record["provenance"]["milestones"] = milestones.iter().map(milestone).collect();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    assert!(sandbox.path(&path).exists(), "{path}");
    record.as_object_mut().unwrap().remove("digest");
    let text = serde_json::to_string_pretty(&record).unwrap();
    sandbox.write(&path, &sealed(&text.replacen('\n', "\n  \"digest\": \"\",\n", 1)));
}

/// Shared steps cost less than the others here, and every job has a start: the plan's estimate follows from both.
#[test]
fn the_plan_says_how_much_time_sharing_saves() {
    let with = "params: { lr2: '${{ matrix.lr2 }}' }, acts_from: { lr2: 3 }, until: 9";
    let variants = "lr2: [2.5, 3.5, 4.5], seed: [0, 1]";
    let sandbox = sandbox(&recipe("lr2: [0.5, 1.5]", with, ""));
    run(&sandbox, &[]);
    // Five seconds besides the steps, three in the first three, twelve and eighteen in the others.
    set_times(&sandbox, "job/lr2=0.5", 20.0, &[(0, 1.0), (3, 4.0), (9, 16.0)]);
    set_times(&sandbox, "job/lr2=1.5", 26.0, &[(0, 2.0), (3, 5.0), (9, 23.0)]);
    sandbox.write("recipe.yaml", &recipe(variants, with, "    states: { share: true }\n"));
    let (alone, shared) = (6.0 * (5.0 + 3.0 + 15.0), 6.0 * (5.0 + 15.0) + 2.0 * (5.0 + 3.0));
    let planned: Value =
        serde_json::from_str(&sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout).unwrap();
    let saving = &planned["savings"][0];
    assert_eq!(saving["seconds"], serde_json::json!({ "alone": alone, "shared": shared, "records": 2 }));
    assert_eq!((&saving["alone"], &saving["shared"]), (&54.into(), &42.into()));
    let planned = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    let lines =
        "job: 3 variants × 2 seeds share 3 of 9 steps: 22 % fewer (42 steps instead of 54; 2 shared states of 1.93 KiB)
     about 2 min 16 s of job time instead of 2 min 18 s, 1 % less, by 2 earlier jobs
";
    assert!(planned.contains(lines), "{planned}");
    // Jobs that have continued have cost more besides their steps than the shared steps do: sharing does not pay.
    run(&sandbox, &["--axis", "lr2=2.5,3.5", "--axis", "seed=0"]);
    set_times(&sandbox, "job/seed=0,until=3", 7.0, &[(0, 2.0), (3, 5.0)]);
    set_times(&sandbox, "job/lr2=2.5,seed=0", 40.0, &[(3, 4.0), (9, 36.0)]);
    set_times(&sandbox, "job/lr2=3.5,seed=0", 30.0, &[(3, 4.0), (9, 26.0)]);
    let planned: Value =
        serde_json::from_str(&sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout).unwrap();
    // Left are seed 1 of all three variants, and seed 0 of the variant that shares with no other. Starts take 14/3 s at the first step and
    // 8 s at a state; the third variant is as fast as the others are in the mean.
    let third = f64::midpoint(f64::midpoint(12.0, 18.0), f64::midpoint(32.0, 22.0));
    let whole = 14.0 / 3.0 + 3.0;
    let alone = 4.0 * whole + 32.0 + 22.0 + 2.0 * third;
    let shared = whole + 3.0 * 8.0 + 32.0 + 22.0 + third + (whole + third);
    let seconds = &planned["savings"][0]["seconds"];
    assert_eq!(seconds["records"], 5, "{planned}");
    for (name, expected) in [("alone", alone), ("shared", shared)] {
        assert!((seconds[name].as_f64().unwrap() - expected).abs() < 1e-9, "{seconds} is not {expected}");
    }
    let planned = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(planned.contains("job: 3 of 4 jobs continue from shared states: "), "{planned}");
    assert!(planned.contains("instead of 2 min 7 s, 7 % more, by 5 earlier jobs"), "{planned}");
}

/// A record says when its job had done how many steps.
#[test]
fn records_have_milestones() {
    let sandbox = Sandbox::with("steps: { job: { uses: mock, with: { value: 1, steps: 4, seconds: 0.2 } } }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let record = sandbox.records().remove("job").unwrap();
    let milestones = record["provenance"]["milestones"].as_array().unwrap();
    assert_eq!(milestones.iter().map(|at| at["step"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let mut seconds: Vec<f64> = milestones.iter().map(|at| at["seconds"].as_f64().unwrap()).collect();
    seconds.push(record["provenance"]["seconds"].as_f64().unwrap());
    assert!(seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
}

/// Configurations that a search has stopped need no states, unless the recipe keeps them for later ones.
#[test]
fn states_of_stopped_configurations_go() {
    for (keep, left) in [("last", vec!["6"]), ("rungs", vec!["3", "3", "3", "6"])] {
        let with = "params: { lr2: '${{ matrix.lr2 }}', lr: '${{ matrix.lr2 }}' }";
        let more = format!(
            "    search: {{ rungs: {{ of: until, at: [3, 6], keep: 1/3, by: x }} }}
    states: {{ keep: {keep} }}
"
        );
        let sandbox = sandbox(&recipe("lr2: [0.5, 1.5, 2.5]", with, &more));
        assert_eq!(run(&sandbox, &[]), ["0 1 2", "0 1 2", "0 1 2", "3 4 5"]);
        let found: Vec<String> = states(&sandbox)
            .iter()
            .map(|path| path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(found, left, "{keep}");
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

#[test]
fn a_state_that_does_not_hold_is_not_used() {
    // Its file has changed.
    let sandbox = growing();
    run(&sandbox, &[]);
    let checkpoints = states(&sandbox)[0].join("files/checkpoints");
    let checkpoint = list(&checkpoints)[0].join("checkpoint");
    fs_err::write(&checkpoint, "{\"x\": 100.0}").unwrap();
    assert_eq!(run(&sandbox, &["--axis", "until=6"]), ["0 1 2 3 4 5"]);
    assert_eq!(result(&sandbox, "job/lr2=0.5,until=6"), alone("until=6"));

    // The program reads other code.
    let sandbox = growing();
    let text = sandbox.read("recipe.yaml");
    sandbox.write("recipe.yaml", &format!("{text}    states: {{ keep: rungs }}\n"));
    run(&sandbox, &[]);
    sandbox.write("code_of_it.py", "factor = 2.0\n");
    assert_eq!(run(&sandbox, &["--axis", "until=6"]), ["0 1 2 3 4 5"]);
    sandbox.write("code_of_it.py", "factor = 1.0\n");
    assert_eq!(run(&sandbox, &["--axis", "until=9"]), ["3 4 5 6 7 8"], "the state of the first run holds again");

    // A job of an exclusive step measures all of its steps.
    let sandbox = growing();
    run(&sandbox, &[]);
    sandbox.write("recipe.yaml", &format!("{text}    exclusive: true\n"));
    assert_eq!(run(&sandbox, &["--axis", "until=6"]), ["0 1 2 3 4 5"]);
}

#[test]
fn jobs_run_again_from_their_first_step() {
    let sandbox = growing();
    run(&sandbox, &[]);
    run(&sandbox, &["--axis", "until=6"]);
    let again = ["cache", "verify", "recipe.yaml", "--axis", "until=6", "--rerun", "1"];
    let ended = in_environment(&sandbox, &again).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "it says whether it has begun with a state: {stdout}{stderr}");
    assert!(stdout.contains("    began: 1 then, 0 now"), "{stdout}");
    assert!(!stdout.contains("x: ") && !stdout.contains("final: "), "{stdout}");
    assert!(sandbox.read("log").ends_with("3 4 5 \n0 1 2 3 4 5 \n"), "{}", sandbox.read("log"));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn states_are_garbage_when_they_serve_no_job() {
    let sandbox = growing();
    run(&sandbox, &[]);
    run(&sandbox, &["--axis", "until=6"]);
    let gc = |more: &[&str]| {
        let ended = sandbox.sweep(&[&["cache", "gc", "--recent", "0s", "--yes"], more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    // The job at 9 continues from the state at 6.
    let said = gc(&["recipe.yaml", "--axis", "until=9"]);
    assert!(said.contains("removed 2 records, "), "{said}");
    assert_eq!(run(&sandbox, &["--axis", "until=9"]), ["6 7 8"], "a state does not need the record of its job");
    run(&sandbox, &["--axis", "until=4"]);
    let said = gc(&["recipe.yaml", "--axis", "until=9"]);
    assert!(said.contains("removed 1 record, "), "{said}");
    let said = gc(&[]);
    assert!(said.contains("1 record and ") || said.contains("state"), "{said}");
    assert!(states(&sandbox).is_empty());
}

#[test]
fn killed_at_every_write_of_a_state_jobs_have_the_same_results() {
    if !cfg!(debug_assertions) {
        eprintln!("not run: a release build cannot be made to break");
        return;
    }
    let expected = alone("until=6");
    for (until, least) in [("until=3", 8), ("until=6", 15)] {
        // The first run keeps a state; the second one takes it, and keeps another.
        let begin = || {
            let sandbox = growing();
            if until == "until=6" {
                run(&sandbox, &[]);
            }
            sandbox
        };
        let traced = begin();
        let trace = format!("trace={}", traced.path("trace").display());
        assert_eq!(try_run(&traced, &["--axis", until], &trace).status.code(), Some(0));
        let points: Vec<String> = traced.read("trace").lines().map(str::to_owned).collect();
        let of_states = |point: &String| point.starts_with("state: ") || point.starts_with("scratch: ");
        let at: Vec<usize> = (1..=points.len()).filter(|at| of_states(&points[at - 1])).collect();
        assert!(at.len() >= least, "{points:?}");
        for at in at {
            let point = &points[at - 1];
            let sandbox = begin();
            let killed = try_run(&sandbox, &["--axis", until], &kill_at(&points, at - 1));
            assert_eq!(killed.status.code(), None, "{point}");
            run(&sandbox, &["--axis", "until=6"]);
            assert_eq!(result(&sandbox, "job/lr2=0.5,until=6"), expected, "{point}");
            let verified = sandbox.sweep(&["cache", "verify"]);
            assert_eq!(verified.code, Some(0), "{point}: {}", verified.stdout);
            sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
            assert!(list(&sandbox.path("results/store/staging")).is_empty(), "{point}");
        }
        for at in (1..=points.len()).filter(|at| of_states(&points[at - 1])).step_by(3) {
            let sandbox = begin();
            let full = try_run(&sandbox, &["--axis", until], &format!("full@{at}"));
            let stderr = String::from_utf8_lossy(&full.stderr);
            assert!(!stderr.contains("panicked"), "{stderr}");
            run(&sandbox, &["--axis", "until=6"]);
            assert_eq!(result(&sandbox, "job/lr2=0.5,until=6"), expected, "full at {}", points[at - 1]);
        }
    }
}
