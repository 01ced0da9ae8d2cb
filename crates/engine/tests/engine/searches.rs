//! Searches by samplers: batches that follow from results, and their confirmation.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value;

use crate::{
    faults::kill_at,
    sandbox::{Ended, Sandbox, list},
    searches_programs::SAMPLER,
    slurm::cluster::shared,
};

/// The best configuration is x = 3, k = 4, kind = b. Seeds add noise.
const STUDY: &str = r#"
name: study
params: { batches: 3, sampler: tpe, breaks: never, seed: 0 }
steps:
  tune:
    uses: command
    seeds: 2
    search:
      suggest:
        sampler: SAMPLER
        space: { x: { uniform: [-5, 10] }, k: { log_int: [1, 64] }, kind: { choice: [a, b] } }
        batch: 4
        batches: '${{ params.batches }}'
        by: loss
        seed: '${{ params.seed }}'
      confirm: { top: 2, seeds: 3 }
    with:
      run: |
        if [ "$KIND" = "$BREAKS" ]; then echo broken >&2; exit 1; fi
        awk -v x="$X" -v k="$K" -v s="$SWEEP_SEED" -v b="$KIND" \
          'BEGIN { printf "loss=%.12g\n", (x - 3) ^ 2 + (k - 4) ^ 2 / 10 + (b != "b") + s / 100 }'
      env:
        X: '${{ matrix.x }}'
        K: '${{ matrix.k }}'
        KIND: '${{ matrix.kind }}'
        BREAKS: '${{ params.breaks }}'
    resources: { cpus: 1 }
tables:
  confirmed: { from: tune-confirmed, rows: [x, k, kind], cells: [loss] }
claims:
  good: { value: { metric: loss, of: { step: tune-confirmed } }, expect: { at_most: 1000 } }
"#;

pub(crate) fn study(sampler: &str) -> Sandbox {
    Sandbox::with(&STUDY.replace("SAMPLER", sampler))
}

pub(crate) fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    sandbox.sweep(&[&["run", "recipe.yaml"], args].concat())
}

/// Runs to the end, without failures.
pub(crate) fn runs(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = run(sandbox, args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

/// The labels of all records.
pub(crate) fn labels(sandbox: &Sandbox) -> BTreeSet<String> {
    sandbox.records().into_keys().collect()
}

/// The configurations of the search that have records, without seeds.
pub(crate) fn configurations(sandbox: &Sandbox) -> BTreeSet<String> {
    let tune = labels(sandbox).into_iter().filter(|label| label.starts_with("tune/"));
    tune.map(|label| label.rsplit_once(",seed=").unwrap().0.to_owned()).collect()
}

/// The kept decisions of a kind.
pub(crate) fn decisions(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let texts = list(&sandbox.path("results/store/decisions")).into_iter().map(|path| fs_err::read(path).unwrap());
    let all = texts.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
    all.filter(|decision| decision["kind"] == kind).collect()
}

#[test]
fn batches_follow_from_results_and_the_best_are_confirmed() {
    let sandbox = study("tpe");
    // The first batch follows from nothing, so it is known before anything runs.
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 8));
    assert!(!sandbox.path("results").exists(), "a plan writes nothing");
    let table = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(table.contains("8 jobs: 0 cached, 8 to run"), "{table}");
    assert!(table.contains("up to 22 more"), "{table}");

    let ended = runs(&sandbox, &["--jobs", "1"]);
    let all = labels(&sandbox);
    assert_eq!((all.len(), configurations(&sandbox).len()), (30, 12), "{}", ended.stderr);
    let confirmed: Vec<&String> = all.iter().filter(|label| label.starts_with("tune-confirmed/")).collect();
    assert_eq!(confirmed.len(), 6);
    for label in confirmed {
        assert!([2, 3, 4].iter().any(|seed| label.ends_with(&format!(",seed={seed}"))), "{label}");
    }
    assert!(ended.stderr.contains("tune: batch 2 of 3: 4 configurations, chosen by tpe"), "{}", ended.stderr);
    assert!(ended.stderr.contains("tune: 2 configurations to confirm"), "{}", ended.stderr);
    assert!(ended.stdout.contains("good") && ended.stdout.contains("supported"), "{}", ended.stdout);
    // The confirmed ones are the best of the search, by its records.
    let best = best(&sandbox, 2);
    let chosen: BTreeSet<String> = all
        .iter()
        .filter_map(|label| Some(label.strip_prefix("tune-confirmed/")?.rsplit_once(",seed=")?.0.to_owned()))
        .collect();
    assert_eq!(chosen, best);

    // A job says which decision has chosen it.
    let explain = |label: &str| sandbox.sweep(&["explain", "recipe.yaml", label]).stdout;
    let tune = all.iter().find(|label| label.starts_with("tune/")).unwrap();
    let told = explain(tune);
    let line = told.lines().find(|line| line.contains("its point was chosen by tpe: configuration "));
    assert!(line.is_some_and(|line| line.contains(" of 4 in batch ") && line.ends_with(" of 3")), "{told}");
    let told = explain(all.iter().find(|label| label.starts_with("tune-confirmed/")).unwrap());
    assert!(told.contains("it confirms configuration ") && told.contains("of the best of `tune`"), "{told}");

    // Nothing is left to do, for any command that plans.
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (30, 0));
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).stdout, ended.stdout.trim_start_matches('\n'));
    assert!(!sandbox.sweep(&["plan", "recipe.yaml"]).stdout.contains("more"));

    // Without the kept decisions, the same ones follow again.
    fs_err::remove_dir_all(sandbox.path("results/store/decisions")).unwrap();
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (30, 0));

    // Another store, many jobs at once: the same jobs.
    let other = study("tpe");
    runs(&other, &["--jobs", "8"]);
    assert_eq!(labels(&other), all);

    // A further batch leaves the earlier ones as they are; the winners may be others.
    let before = configurations(&sandbox);
    runs(&sandbox, &["--set", "batches=4"]);
    assert!(configurations(&sandbox).is_superset(&before));
    assert_eq!(configurations(&sandbox).len(), 16);
    // Another seed is another search.
    let seeded = study("tpe");
    runs(&seeded, &["--set", "seed=1"]);
    assert!(configurations(&seeded).is_disjoint(&before));
}

/// The best configurations of the search by the mean of the loss over seeds.
fn best(sandbox: &Sandbox, n: usize) -> BTreeSet<String> {
    let mut losses: Vec<(f64, String)> = Vec::new();
    let records = sandbox.records();
    for configuration in configurations(sandbox) {
        let loss = |seed: usize| {
            let record = &records[&format!("{configuration},seed={seed}")];
            record["outcome"]["metrics"]["loss"]["value"].as_f64().unwrap()
        };
        losses.push((f64::midpoint(loss(0), loss(1)), configuration.trim_start_matches("tune/").to_owned()));
    }
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    losses.into_iter().take(n).map(|(_, configuration)| configuration).collect()
}

/// Killed at every write of a decision, the search continues with the same jobs.
#[test]
fn a_search_that_is_killed_at_a_decision_continues() {
    if !cfg!(debug_assertions) {
        eprintln!("not run: a release build cannot be made to break");
        return;
    }
    let text = STUDY.replace("SAMPLER", "tpe").replace("batch: 4", "batch: 2").replace("seeds: 2", "seeds: 1");
    let whole = Sandbox::with(&text);
    let trace = format!("trace={}", whole.path("trace").display());
    let ended = whole.command(&["run", "recipe.yaml", "--jobs", "1"]).env("SWEEP_FAILPOINTS", trace).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let expected = labels(&whole);
    let trace = whole.read("trace");
    let trace: Vec<&str> = trace.lines().collect();
    let points: Vec<usize> = (0..trace.len()).filter(|index| trace[*index].contains("decision")).collect();
    assert!(points.len() >= 4 * 4, "three batches and a confirmation: {trace:?}");
    for index in points {
        let (sandbox, name) = (Sandbox::with(&text), trace[index]);
        let fault = kill_at(&trace, index);
        let broken = sandbox.command(&["run", "recipe.yaml", "--jobs", "1"]).env("SWEEP_FAILPOINTS", fault).output();
        assert_ne!(broken.unwrap().status.code(), Some(0), "{name}");
        runs(&sandbox, &[]);
        assert_eq!(labels(&sandbox), expected, "{name}");
    }
}

#[test]
fn failed_configurations_are_part_of_the_history() {
    let sandbox = study("tpe");
    let ended = run(&sandbox, &["--set", "breaks=a"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let starts = sandbox.starts();
    let tried: Vec<&String> = starts.keys().filter(|label| label.starts_with("tune/")).collect();
    assert_eq!(tried.len(), 24, "all batches were decided: {}", ended.stderr);
    assert!(tried.iter().any(|label| label.contains("kind=a")) && tried.iter().any(|label| label.contains("kind=b")));
    assert!(starts.values().all(|starts| *starts == 1), "a failed job does not run again with each batch: {starts:?}");
    assert!(labels(&sandbox).iter().all(|label| label.contains("kind=b")), "only what works is confirmed");
    assert_eq!(labels(&sandbox).iter().filter(|label| label.starts_with("tune-confirmed/")).count(), 6);
    // Another command runs failed jobs again; their failure leads to the same decisions.
    let (cached, open) = sandbox.plan_tally(&["recipe.yaml", "--set", "breaks=a"]);
    assert_eq!(cached + open, 30);
    let before = labels(&sandbox);
    assert_eq!(run(&sandbox, &["--set", "breaks=a"]).code, Some(5));
    assert_eq!(labels(&sandbox), before);
    // With `--fail-fast` nothing is decided after a failure.
    let fast = study("tpe");
    assert_eq!(run(&fast, &["--set", "breaks=a", "--fail-fast", "--jobs", "1"]).code, Some(5));
    assert_eq!(decisions(&fast, "suggestion").len(), 1);
}

/// The study with rungs: a longer training is better by the same for all configurations.
fn with_rungs() -> String {
    let text =
        STUDY.replace("SAMPLER", "tpe").replace("batch: 4", "batch: 6").replace("s / 100 }'", "s / 100 + 1 / u }'");
    let text = text.replace("-v b=", "-v u=\"$SWEEP_UNTIL\" -v b=");
    text.replace("    search:\n", "    search:\n      rungs: { of: until, at: [1, 3, 9], keep: 1/3, by: loss }\n")
}

/// The number of records of the search at each rung.
fn rungs(sandbox: &Sandbox) -> [usize; 3] {
    let all = labels(sandbox);
    ["1", "3", "9"].map(|rung| {
        let at = format!("until={rung}");
        all.iter().filter(|label| label.starts_with("tune/") && label.split(',').any(|part| part == at)).count()
    })
}

/// Each batch goes through the rungs among itself, and the sampler learns how far each configuration came.
#[test]
fn batches_go_through_rungs() {
    let sandbox = Sandbox::with(&with_rungs());
    let ended = runs(&sandbox, &["--jobs", "1"]);
    // Of 6 configurations with 2 seeds 2 go on, and of those 1; in each of 3 batches.
    assert_eq!(rungs(&sandbox), [36, 12, 6], "{}", ended.stderr);
    let confirmed: Vec<String> =
        labels(&sandbox).into_iter().filter(|label| label.starts_with("tune-confirmed/")).collect();
    assert_eq!(confirmed.len(), 6);
    assert!(confirmed.iter().all(|label| label.contains("until=9")), "{confirmed:?}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let rules = decisions(&sandbox, "suggestion");
    assert_eq!(rules.len(), 3);
    let members: BTreeSet<usize> = rules.iter().map(|rule| rule["members"].as_array().unwrap().len()).collect();
    assert_eq!(members, BTreeSet::from([0, 18, 36]), "only what ran is part of a decision");
    // The order of arrival changes nothing, nor do interruptions.
    let other = Sandbox::with(&with_rungs());
    runs(&other, &["--jobs", "7"]);
    assert_eq!(labels(&other), labels(&sandbox));
    fs_err::remove_dir_all(sandbox.path("results/store/decisions")).unwrap();
    runs(&sandbox, &[]);
    assert_eq!(labels(&sandbox), labels(&other));
    // Failed configurations stop at their first rung, and the batches go on.
    let failing = Sandbox::with(&with_rungs());
    let ended = run(&failing, &["--set", "breaks=a"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(decisions(&failing, "suggestion").len(), 3, "{}", ended.stderr);
    assert_eq!(rungs(&failing)[2], 6, "{:?}", rungs(&failing));
    // A job that fails only when it was promoted is lost, and the next batch follows from that.
    let text = with_rungs().replace("[ \"$KIND\" = \"$BREAKS\" ]", "[ \"$SWEEP_UNTIL\" = 9 ]");
    let late = Sandbox::with(&text);
    let ended = run(&late, &[]);
    assert_eq!((ended.code, rungs(&late)), (Some(5), [36, 12, 0]), "{}", ended.stderr);
}

/// The best configurations of a matrix with rungs are confirmed as well.
#[test]
fn rungs_without_a_sampler_are_confirmed() {
    let sandbox = Sandbox::with(
        "\
name: study
steps:
  tune:
    uses: command
    matrix: { x: [1, 2, 3, 4, 5, 6, 7, 8, 9] }
    search:
      rungs: { of: until, at: [1, 3], keep: 1/3, by: loss, direction: max }
      confirm: { top: 2, seeds: 2 }
    with: { run: 'echo loss=$X', env: { X: '${{ matrix.x }}' }, params: { seed: '${{ matrix.seed }}' } }
    seeds: 1
    resources: { cpus: 1 }
",
    );
    assert!(sandbox.sweep(&["plan", "recipe.yaml"]).stdout.contains("up to 4 more as searches decide"));
    let ended = runs(&sandbox, &[]);
    let confirmed: Vec<String> =
        labels(&sandbox).into_iter().filter(|label| label.starts_with("tune-confirmed/")).collect();
    let expected = ["x=8,until=3,seed=1", "x=8,until=3,seed=2", "x=9,until=3,seed=1", "x=9,until=3,seed=2"];
    assert_eq!(confirmed, expected.map(|point| format!("tune-confirmed/{point}")), "{}", ended.stderr);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// A batch system runs the same batches, all in one command.
#[test]
fn a_batch_system_runs_the_same_batches() {
    let Some((cluster, _quiet)) = shared() else { return };
    let text = STUDY.replace("SAMPLER", "tpe").replace("batch: 4", "batch: 2").replace("seeds: 2", "seeds: 1");
    let [local, sandbox] = [(); 2].map(|()| Sandbox::with(&text));
    runs(&local, &[]);
    let ended = cluster.sweep(&sandbox, &["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"]);
    assert_eq!((ended.code, labels(&sandbox)), (Some(0), labels(&local)), "{}", ended.stderr);
}

/// The best of many is better than it will be again; the seeds of the confirmation know nothing of that.
#[test]
fn claims_about_a_search_are_warned_of() {
    let text = STUDY.replace("SAMPLER", "tpe").replace("step: tune-confirmed }", "step: tune }");
    let warned = Sandbox::with(&text).sweep(&["plan", "recipe.yaml"]).stderr;
    assert!(warned.contains("claim `good` uses `tune`, whose results decided which jobs ran"), "{warned}");
    assert!(warned.contains("write `step: tune-confirmed`"), "{warned}");
    assert_eq!(study("tpe").sweep(&["plan", "recipe.yaml"]).stderr, "");
}

/// A space that is used up ends the search.
#[test]
fn a_small_space_ends_the_search() {
    for sampler in ["tpe", "random"] {
        let text = STUDY.replace("SAMPLER", sampler).replace("x: { uniform: [-5, 10] }", "x: { int: [1, 5, 2] }");
        let text = text.replace("k: { log_int: [1, 64] }, ", "k: { choice: [4] }, ").replace("seeds: 2", "seeds: 1");
        let sandbox = Sandbox::with(&text);
        let ended = runs(&sandbox, &[]);
        assert_eq!(configurations(&sandbox).len(), 6, "{}", ended.stderr);
        assert!(labels(&sandbox).contains("tune-confirmed/x=3,k=4,kind=b,seed=1"), "{:?}", labels(&sandbox));
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

/// A bundle has the records from which its search followed, and is verified without running the search; gc keeps the records of all
/// batches.
#[test]
fn bundles_and_garbage() {
    for sampler in ["tpe", "{ argv: [python3, sampler.py] }"] {
        let sandbox = study(sampler);
        sandbox.write("sampler.py", SAMPLER);
        sandbox.write("version.txt", "1");
        let breaks = if sampler == "tpe" { "breaks=a" } else { "breaks=never" };
        run(&sandbox, &["--set", breaks]);
        let all = labels(&sandbox).len();
        let made = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--set", breaks, "--output", "b.tar.gz"]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let verified = sandbox.sweep(&["bundle", "verify", "b.tar.gz"]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
        assert!(verified.stdout.contains(&format!("{all} records")), "{}", verified.stdout);
        let gc = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--set", breaks, "--recent", "0s", "--yes"]);
        assert_eq!(gc.code, Some(0), "{}", gc.stderr);
        assert_eq!(labels(&sandbox).len(), all, "{}", gc.stdout);
    }
}

/// A saved plan remains valid while its search goes on, and `--only` another step asks no sampler.
#[test]
fn saved_plans_and_selections() {
    let sandbox = study("tpe");
    let plan = sandbox.sweep(&["plan", "--format", "json", "recipe.yaml"]).stdout;
    sandbox.write("plan.json", &plan);
    for _ in 0..2 {
        let ended = sandbox.sweep(&["run", "--plan", "plan.json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(labels(&sandbox).len(), 30);
    }
    let text =
        STUDY.replace("SAMPLER", "{ argv: [./nothing-here] }").replace("steps:\n", "steps:\n  other: { uses: mock }\n");
    let sandbox = Sandbox::with(&text);
    runs(&sandbox, &["--only", "other"]);
    assert_eq!(labels(&sandbox).len(), 1);
}

/// The Python with Optuna, if the tests' dependencies are installed.
fn optuna() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folder = std::env::var_os("SWEEP_PYTHON_OPTUNA").map(PathBuf::from);
    let folder = folder.or_else(|| Some(home?.join(".cache/sweep/optuna")))?;
    let found = folder.join("bin/python3").is_file();
    if !found {
        eprintln!("not run: there is no Optuna in {}; scripts/python-deps.sh installs it", folder.display());
    }
    found.then(|| folder.join("bin"))
}

/// Optuna's samplers, with the real package: reproducible, and better than chance.
#[test]
fn optunas_samplers() {
    let Some(bin) = optuna() else { return };
    let path = std::env::join_paths(
        [bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    for sampler in ["optuna.tpe", "optuna.cmaes", "optuna.gp"] {
        let text =
            STUDY.replace("SAMPLER", sampler).replace("seeds: 2", "seeds: 1").replace("batches: 3", "batches: 4");
        let [one, other] = [(); 2].map(|()| Sandbox::with(&text));
        for sandbox in [&one, &other] {
            let ended = sandbox.command(&["run", "recipe.yaml"]).env("PATH", &path).output().unwrap();
            let stderr = String::from_utf8_lossy(&ended.stderr);
            if sampler == "optuna.gp" && stderr.contains("`optuna.gp` needs") {
                // Distributions' PyTorch is too old, and that of PyPI brings gigabytes of CUDA.
                eprintln!("not run with `optuna.gp`: {stderr}");
                continue;
            }
            assert_eq!(ended.status.code(), Some(0), "{sampler}: {stderr}");
            assert!(configurations(sandbox).len() > 12, "{sampler}: {:?}", configurations(sandbox));
        }
        assert_eq!(labels(&one), labels(&other), "{sampler}");
        if labels(&one).is_empty() {
            continue;
        }
        // Seen without Optuna, everything is as it was.
        let empty = one.command(&["plan", "recipe.yaml"]).env("PATH", "").output().unwrap();
        assert!(String::from_utf8_lossy(&empty.stdout).contains(" 0 to run"), "{sampler}");
    }
    // Without Optuna, the message contains the remedy.
    let sandbox = study("optuna.tpe");
    sandbox.write("bin/python3", "#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n");
    let script = sandbox.path("bin/python3");
    fs_err::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    let ended = command.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display())).output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("pip install optuna"), "{stderr}");
}
