//! Searches: rungs, races, and their decisions, through the program.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sandbox::{Sandbox, list};

/// Twenty-seven rates, of which 14 is the best from the second rung on; the ranks change a little with the rungs. A program
/// says which rung it is at, and how many steps it has made since its last checkpoint.
const STUDY: &str = "\
name: halving
params: { rungs: [1, 3, 9], keep: 1/3 }
steps:
  train:
    uses: command
    matrix: { rate: { range: [1, 28] } }
    search: { rungs: { of: until, at: [1, 3, 9], keep: 1/3, by: loss } }
    with:
      run: 'd=$(( RATE > 14 ? RATE - 14 : 14 - RATE )); echo loss=$(( d * 100 + 1000 / SWEEP_UNTIL + RATE % 2 ))'
      env: { RATE: '${{ matrix.rate }}' }
    resources: { cpus: 1 }
metrics: { loss: { deterministic: true } }
tables:
  losses: { from: train, rows: rate, cells: loss }
  first: { from: train, where: { until: 1 }, rows: rate, cells: loss }
claims:
  best: { value: { metric: loss, of: { step: train, rate: 14 } }, expect: { at_most: 200 } }
  worst: { value: { metric: loss, of: { step: train, rate: 27 } }, expect: { at_least: 200 } }
  rest: { value: { metric: loss, of: { step: train } }, expect: { at_most: 200 }, missing: ignore }
";

/// The study without tables and claims, with other rates.
fn with_rates(rates: &str) -> String {
    STUDY.split("metrics:").next().unwrap().replace("{ range: [1, 28] }", rates)
}

/// Runs a study to its end; the labels that started, without the step's name.
fn started(sandbox: &Sandbox, args: &[&str]) -> BTreeSet<String> {
    let before = sandbox.journal("started").len();
    let ended = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = sandbox.journal("started");
    lines[before..].iter().map(|line| line["label"].as_str().unwrap().trim_start_matches("train/").to_owned()).collect()
}

/// The decisions in the store, by name.
fn decisions(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let files = list(&sandbox.path("results/store/decisions"));
    let read = |path: &std::path::PathBuf| serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    files.iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), read(path))).collect()
}

/// Number of jobs at each rung.
fn rungs(labels: impl IntoIterator<Item = String>) -> BTreeMap<u64, usize> {
    let mut rungs = BTreeMap::new();
    for label in labels {
        *rungs.entry(label.split("until=").nth(1).unwrap().parse().unwrap()).or_default() += 1;
    }
    rungs
}

#[test]
fn the_best_third_goes_on_and_nothing_runs_twice() {
    let sandbox = Sandbox::with(STUDY);
    let (cached, to_run) = sandbox.plan_tally(&["recipe.yaml"]);
    assert_eq!((cached, to_run), (0, 27), "later rungs are in reserve");
    let first = started(&sandbox, &[]);
    assert_eq!(rungs(first.clone()), [(1, 27), (3, 9), (9, 3)].into());
    assert!(first.contains("rate=14,until=9") && first.contains("rate=13,until=9"), "{first:?}");
    // Of the full grid's steps, each rung continuing the one below: (27·1 + 9·2 + 3·6) / (27·9) = 26 %.
    let kept = decisions(&sandbox);
    assert_eq!(kept.len(), 2);
    let ended = sandbox.sweep(&["report", "recipe.yaml"]);
    assert!(ended.stdout.contains("stopped at 1: rank "), "{}", ended.stdout);

    // Nothing is left to do.
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(decisions(&sandbox), kept);

    // Another rung: the survivors only.
    sandbox.write("recipe.yaml", &STUDY.replace("at: [1, 3, 9]", "at: [1, 3, 9, 27]"));
    assert_eq!(started(&sandbox, &[]), ["rate=14,until=27".to_owned()].into());
    assert_eq!(decisions(&sandbox).len(), 3, "the first two are the same");

    // Another configuration, which is better than all others: at most the jobs of the new ranking.
    sandbox.write("recipe.yaml", &STUDY.replace("{ range: [1, 28] }", "{ range: [1, 29] }"));
    let further = started(&sandbox, &[]);
    assert_eq!(further, ["rate=28,until=1".to_owned()].into(), "the last rank takes nobody's place");
}

#[test]
fn a_better_configuration_takes_a_place_at_each_rung() {
    let sandbox = Sandbox::with(&with_rates("[1, 2, 3, 4, 5, 6, 7, 8, 9]"));
    started(&sandbox, &[]);
    sandbox.write("recipe.yaml", &with_rates("[1, 2, 3, 4, 5, 6, 7, 8, 9, 14]"));
    let further: Vec<String> = started(&sandbox, &[]).into_iter().collect();
    assert_eq!(further, ["rate=14,until=1", "rate=14,until=3", "rate=14,until=9"]);
}

/// Whatever the machine does: the same decisions and the same jobs.
#[test]
fn the_number_of_jobs_at_once_decides_nothing() {
    for workers in ["", ", asynchronous: { workers: 4 }"] {
        let study = STUDY.replace("by: loss }", &format!("by: loss{workers} }}"));
        let runs = ["1", "3"].map(|jobs| {
            let sandbox = Sandbox::with(&study);
            let started = started(&sandbox, &["--jobs", jobs]);
            (started, decisions(&sandbox))
        });
        assert_eq!(runs[0], runs[1]);
        let other = Sandbox::with(&study.replace(
            "{ range: [1, 28] }",
            "[27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]",
        ));
        assert_eq!(started(&other, &[]), runs[0].0, "nor does the order of the values");
        assert_eq!(decisions(&other).keys().collect::<Vec<_>>(), runs[0].1.keys().collect::<Vec<_>>());
        assert!(runs[0].0.contains("rate=14,until=9"));
    }
}

/// Killed before and in each write of a decision, the next run makes the same decisions.
#[test]
fn a_kill_at_a_decision_changes_nothing() {
    if !cfg!(debug_assertions) {
        return;
    }
    let study = with_rates("[10, 13, 16, 18]").replace("[1, 3, 9]", "[1, 3]");
    let run = |sandbox: &Sandbox, fault: &str| {
        let mut command = sandbox.command(&["run", "recipe.yaml", "--jobs", "1"]);
        command.env("SWEEP_FAILPOINTS", fault).output().unwrap()
    };
    let calm = Sandbox::with(&study);
    let ended = run(&calm, &format!("trace={}", calm.path("trace").display()));
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let trace = calm.read("trace");
    let points: Vec<(usize, &str)> =
        trace.lines().enumerate().filter(|(_, name)| name.starts_with("decision:")).collect();
    assert!(points.len() >= 4, "{points:?}");
    let (records, decided) = (calm.records(), decisions(&calm));
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    // The range includes the operations after the last decision.
    for at in first..=last + 6 {
        let sandbox = Sandbox::with(&study);
        let killed = run(&sandbox, &format!("kill@{}", at + 1));
        assert_ne!(killed.status.code(), Some(0), "{at}");
        let again = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(again.code, Some(0), "{at}: {}", again.stderr);
        assert_eq!(decisions(&sandbox), decided, "{at}");
        let keys = |records: &BTreeMap<String, Value>| -> BTreeMap<String, Value> {
            records.iter().map(|(label, record)| (label.clone(), record["key"].clone())).collect()
        };
        assert_eq!(keys(&sandbox.records()), keys(&records), "{at}");
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
    // A full disk is said, and the next run goes on.
    let sandbox = Sandbox::with(&study);
    let full = run(&sandbox, &format!("full@{}", first + 1));
    assert_ne!(full.status.code(), Some(0));
    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((again.code, decisions(&sandbox)), (Some(0), decided), "{}", again.stderr);
}

/// A failed configuration is last, does not go on, and stops nobody else; when it succeeds later, the decision is made anew.
#[test]
fn a_failure_ranks_last() {
    let mended = tempfile::tempdir().unwrap();
    let flag = mended.path().join("flag");
    let run = format!("run: 'test $RATE -ne 14 -o -e {} || exit 1; d=", flag.display());
    let sandbox = Sandbox::with(&with_rates("[10, 11, 12, 13, 14, 15]").replace("run: 'd=", &run));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let labels: BTreeSet<String> = sandbox.records().into_keys().collect();
    assert!(labels.contains("train/rate=15,until=9") || labels.contains("train/rate=13,until=9"), "{labels:?}");
    assert!(!labels.iter().any(|label| label.contains("rate=14")), "{labels:?}");
    let first = decisions(&sandbox);
    let ranking = first.values().find(|decision| decision["result"]["at"] == 1).unwrap()["result"]["ranking"].clone();
    let last = ranking.as_array().unwrap().last().unwrap();
    assert_eq!((last["configuration"].as_str(), last["goes_on"].as_bool()), (Some("rate=14"), Some(false)));
    assert_eq!(last["value"], Value::Null);
    // The next run tries it again; a failure that lasts decides the same again.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    assert_eq!(decisions(&sandbox), first);
    fs_err::write(&flag, "").unwrap();
    let further = started(&sandbox, &[]);
    assert_eq!(further.len(), 3, "{further:?}");
    assert!(further.contains("rate=14,until=9"), "{further:?}");
    assert!(decisions(&sandbox).len() > first.len());
}

/// Six rates, of which the third is best by 20. The noise of a run, from 0 to a limit, depends on rate, seed and study. With a
/// slope other than 0 the ranks of the first rung are not those of the second.
fn noisy(study: u32, noise: u32, slope: i32) -> String {
    format!(
        "\
name: noisy
steps:
  train:
    uses: command
    matrix: {{ rate: [1, 2, 3, 4, 5, 6] }}
    seeds: 5
    search: {{ rungs: {{ of: until, at: [1, 4], keep: 1/3, by: loss }} }}
    with:
      run: 'n=$(echo $RATE $SWEEP_SEED {study} | cksum); n=$(( ${{n%% *}} % {noise} ));
        echo loss=$(( (RATE - 3) * (RATE - 3) * 20 + n + RATE * {slope} * (SWEEP_UNTIL - 4) + 400 / SWEEP_UNTIL ))'
      env: {{ RATE: '${{{{ matrix.rate }}}}' }}
    resources: {{ cpus: 1 }}
metrics: {{ loss: {{ deterministic: true }} }}
"
    )
}

/// The losses at the last rung by rate, in the order of the seeds.
fn last_losses(sandbox: &Sandbox) -> BTreeMap<u32, Vec<f64>> {
    let mut losses: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (label, record) in sandbox.records().into_iter().filter(|(label, _)| label.ends_with("until=4")) {
        let rate = label.split("rate=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        losses.entry(rate).or_default().push(record["outcome"]["metrics"]["loss"]["value"].as_f64().unwrap());
    }
    losses
}

/// The rate with the smallest mean over seeds.
fn best_of(losses: &BTreeMap<u32, Vec<f64>>) -> u32 {
    let (rate, _) = losses.iter().min_by(|a, b| mean(a.1).total_cmp(&mean(b.1))).unwrap();
    *rate
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// By how much the best of a search is worse than the best of the grid, at the same seeds: the mean, and the half width of the
/// interval of 95 % by Student's t.
fn regret(study: u32, noise: u32, slope: i32) -> (f64, f64) {
    let [sandbox, grid] = [(); 2].map(|()| Sandbox::with(&noisy(study, noise, slope)));
    assert_eq!(rungs(started(&sandbox, &[])), [(1, 30), (4, 10)].into());
    assert_eq!(rungs(started(&grid, &["--only", "train/until=4"])), [(4, 30)].into());
    let (found, all) = (last_losses(&sandbox), last_losses(&grid));
    assert_eq!((found.len(), all.len()), (2, 6));
    for (rate, losses) in &found {
        assert_eq!(losses, &all[rate], "a configuration that goes on has the results that it has in the grid");
    }
    let pairs = all[&best_of(&found)].iter().zip(&all[&best_of(&all)]);
    let differences: Vec<f64> = pairs.map(|(search, grid)| search - grid).collect();
    let mean = mean(&differences);
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
    // scipy.stats.t.ppf(0.975, 4)
    (mean, 2.776_445_105_198_054 * (squares / 4.0 / 5.0).sqrt())
}

#[test]
fn the_best_of_a_search_is_that_of_the_grid_within_the_noise() {
    let found: Vec<(f64, f64)> = (0..4).map(|study| regret(study, 200, 0)).collect();
    for (mean, half) in &found {
        assert!(*mean >= 0.0 && mean <= half, "{mean} ± {half} in {found:?}");
    }
    // The same comparison tells a search that its first rung misleads.
    let (mean, half) = regret(0, 50, 100);
    assert!(mean > half, "{mean} ± {half}");
}

/// A step that needs the configurations of the last rung runs for those that reach it.
#[test]
fn steps_that_follow_run_for_the_survivors() {
    let study = with_rates("[11, 12, 13, 14, 15, 16]");
    let sandbox = Sandbox::with(&format!(
        "{study}
  test:
    uses: mock
    needs: {{ step: train, where: {{ until: 9 }} }}
    matrix: {{ rate: '${{{{ needs.train.axes.rate }}}}' }}
    with: {{ value: '${{{{ matrix.rate }}}}' }}
"
    ));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let tests: Vec<String> = sandbox.records().into_keys().filter(|label| label.starts_with("test/")).collect();
    assert_eq!(tests, ["test/rate=14"], "{}", ended.stderr);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    // A step that needs all of them would never run.
    let all = study + "  test: { uses: mock, needs: { step: train, where: { until: 9 } }, with: { value: 1 } }\n";
    sandbox.write("recipe.yaml", &all);
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("needs several configurations of `train`"), "{}", ended.stderr);
}

/// A configuration that stopped early feeds no claim, and tables and explanations say so.
#[test]
fn what_stopped_is_never_taken_for_what_did_not() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    let verdicts: Value = serde_json::from_str(&sandbox.read("results/reports/halving/claims.json")).unwrap();
    let states: Vec<&Value> = verdicts.as_array().unwrap().iter().map(|verdict| &verdict["state"]).collect();
    assert_eq!(states, ["supported", "undecided", "undecided"], "{}", ended.stdout);
    let reason = verdicts[1].to_string();
    assert!(reason.contains("stopped"), "{reason}");
    let (losses, first) = ended.stdout.split_once("first\n").unwrap();
    assert!(losses.contains("24 jobs not run: 18 stopped at 1, 6 stopped at 3"), "{losses}");
    // The page counts the jobs that a search has ruled out separately from the jobs that are to run.
    let page = sandbox.read("results/reports/halving/index.html");
    assert!(page.contains(" 42 ruled out") && page.contains("cut at 9"), "{page}");
    // A table of a rung shows that rung.
    assert!(!first.split("best").next().unwrap().contains("not run"), "{first}");
    let explained = sandbox.sweep(&["explain", "recipe.yaml", "train/rate=27,until=9"]);
    assert!(
        explained.stdout.contains("does not run: it stopped at 1: rank 26 of 27, cut at 9"),
        "{}",
        explained.stdout
    );
}

/// Numbers by seed: `far` is worse by 10, `near` by little; the third fails at its second seed.
const RACE: &str = "\
name: race
steps:
  a:
    uses: command
    matrix:
      zip:
        method: [best, near, far, broken]
        values: ['10 11 12 13 14 15', '10.5 10.9 12.6 12.9 14.6 14.9', '20 21.1 22 23 24.1 25', '9 x 9 9 9 9']
    seeds: 6
    search: { racing: { by: value } }
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1
      env: { VALUES: '${{ matrix.values }}', METHOD: '${{ matrix.method }}' }
    resources: { cpus: 1 }
tables: { t: { from: a, rows: method, cells: value } }
";

#[test]
fn configurations_leave_a_race_when_they_are_worse() {
    let seeds = |sandbox: &Sandbox| {
        ["best", "near", "far", "broken"]
            .map(|method| sandbox.records().keys().filter(|label| label.contains(&format!("method={method},"))).count())
    };
    let sandbox = Sandbox::with(RACE);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(seeds(&sandbox), [6, 6, 3, 3], "{}", ended.stderr);
    let table = &ended.stdout;
    assert!(table.contains("left the race after 3 seeds: "), "{table}");
    let exits: Vec<Value> =
        decisions(&sandbox).into_values().map(|decision| decision["result"]["left"].clone()).collect();
    let far = exits.iter().flat_map(|left| left.as_array().unwrap()).find(|left| left["than"] != Value::Null).unwrap();
    assert!(far["by"]["low"].as_f64() > Some(8.0), "{far}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let one = Sandbox::with(RACE);
    one.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(decisions(&one), decisions(&sandbox));
    // Against a baseline that is as bad as the worst method, the race removes only methods that are worse than the baseline.
    let against = Sandbox::with(&RACE.replace("by: value", "by: value, against: { method: far }"));
    assert_eq!(against.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(seeds(&against), [6, 6, 6, 3]);
}
