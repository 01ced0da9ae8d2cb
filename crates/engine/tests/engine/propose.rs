//! Proposals and the ledger: real programs, kills at each write, and people who would like to gain something.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, list, until};

/// A score of 0 to 100 that depends on the seed, and on nothing else but the parameters.
pub(crate) const RECIPE: &str = "
params: { gain: 0, factor: 7919, pause: 0 }
steps:
  train:
    uses: command
    seeds: 3
    with:
      run: 'sleep $PAUSE; echo score=$(( SWEEP_SEED * FACTOR % 101 + GAIN ))'
      env: { GAIN: '${{ params.gain }}', FACTOR: '${{ params.factor }}', PAUSE: '${{ params.pause }}' }
";

/// Much better than the noise.
pub(crate) const BETTER: &str = "extends: recipe.yaml\nparams: { gain: 1000, factor: 104729 }\n";

/// A sandbox with a recipe and a change of it.
pub(crate) fn with(delta: &str) -> Sandbox {
    let sandbox = Sandbox::with(RECIPE);
    sandbox.write("delta.yaml", delta);
    sandbox
}

pub(crate) const ASK: [&str; 9] =
    ["propose", "recipe.yaml", "delta.yaml", "--metric", "score", "--better", "max", "--least", "400"];

/// Asks about `delta.yaml`.
pub(crate) fn ask(sandbox: &Sandbox, more: &[&str]) -> Ended {
    sandbox.sweep(&[&ASK, more].concat())
}

/// The answer for machines.
pub(crate) fn answer(sandbox: &Sandbox, more: &[&str]) -> Value {
    let ended = ask(sandbox, &[&["--format", "json"], more].concat());
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}{}", ended.stdout, ended.stderr))
}

pub(crate) fn ledger(sandbox: &Sandbox) -> Value {
    let ended = sandbox.sweep(&["ledger", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Asserts that the whole ledger follows from its records.
pub(crate) fn verified(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

#[test]
fn a_change_that_improves_is_accepted_with_a_bundle() {
    let sandbox = with(BETTER);
    let found = answer(&sandbox, &[]);
    let end = &found["conclusion"];
    assert_eq!((&found["standing"], &end["verdict"]), (&"judged".into(), &"accepted".into()), "{found:#}");
    let mean = end["confirmed"]["mean"].as_f64().unwrap();
    assert!((900.0..1100.0).contains(&mean), "{mean}");
    // The sealed seeds are none of the recipe's, and the baseline and the candidate share them.
    let seeds: Vec<i64> = serde_json::from_value(end["confirmed"]["seeds"].clone()).unwrap();
    assert!(seeds.len() >= 4 && seeds.iter().all(|seed| *seed > 2), "{seeds:?}");
    let bundle = sandbox.path("results").join(end["bundle"]["file"].as_str().unwrap());
    let ended = sandbox.sweep(&["bundle", "verify", bundle.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    verified(&sandbox);
    let board = sandbox.sweep(&["ledger", "--accepted"]).stdout;
    assert!(board.contains("delta.yaml (score)") && board.contains("000003.sweep.tar"), "{board}");
}

#[test]
fn what_was_asked_is_answered_without_a_run_and_without_a_level() {
    let sandbox = with(BETTER);
    assert_eq!(answer(&sandbox, &[])["standing"], "judged");
    let (runs, before) = (sandbox.runs(), ledger(&sandbox));
    // Another name, other seeds, and another least effect are the same question.
    sandbox.write("delta.yaml", &format!("{BETTER}about: Another name\nsteps: {{ train: {{ seeds: 4 }} }}\n"));
    let found = answer(&sandbox, &[]);
    assert_eq!((&found["standing"], &found["conclusion"]["verdict"]), (&"known".into(), &"accepted".into()));
    let less = ASK.map(|word| if word == "400" { "1" } else { word });
    let again = sandbox.sweep(&less);
    assert!(again.code == Some(0) && again.stdout.starts_with("known, question 3"), "{}", again.stdout);
    assert_eq!((sandbox.runs(), ledger(&sandbox)), (runs, before));
}

#[test]
fn other_seeds_alone_are_no_change() {
    let sandbox = with("extends: recipe.yaml\nsteps: { train: { seeds: 5 } }\n");
    for _ in 0..3 {
        let ended = ask(&sandbox, &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stdout.contains("only seeds"), "{}", ended.stdout);
    }
    let ledger = ledger(&sandbox);
    assert_eq!((&ledger["tests"], ledger["questions"].as_array().unwrap().len()), (&0.into(), 0));
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_change_that_does_not_improve_is_dropped_or_not_accepted_and_pays() {
    let sandbox = Sandbox::with(RECIPE);
    for (index, factor) in [104_729, 15_485_863, 32_452_843, 49_979_687].into_iter().enumerate() {
        sandbox.write("delta.yaml", &format!("extends: recipe.yaml\nparams: {{ factor: {factor} }}\n"));
        let found = answer(&sandbox, &["--most", "5"]);
        let verdict = found["conclusion"]["verdict"].as_str().unwrap();
        assert_ne!(verdict, "accepted", "change {index}: {found:#}");
        assert_eq!(verdict == "dropped", found["conclusion"]["evidence"].is_null());
    }
    let ledger = ledger(&sandbox);
    let levels: Vec<f64> =
        ledger["questions"].as_array().unwrap().iter().filter_map(|row| row["grant"]["level"].as_f64()).collect();
    assert!(levels.windows(2).all(|pair| pair[1] < pair[0]), "each further test has less: {levels:?}");
    let next = ledger["next_level"].as_f64().unwrap();
    assert!(levels.iter().all(|level| next < *level), "{next}, after {levels:?}");
    verified(&sandbox);
}

#[test]
fn a_question_can_be_estimated_without_a_run() {
    let sandbox = with(BETTER);
    let found = answer(&sandbox, &["--dry-run"]);
    assert_eq!((&found["standing"], &found["cost"]["open"]), (&"estimate".into(), &6.into()), "{found:#}");
    assert!(found["power"].is_null() && found["level"].as_f64().unwrap() < 0.05);
    assert!(!sandbox.path("results").exists(), "nothing was written");
}

#[test]
fn a_proposal_that_cannot_be_judged_says_why() {
    let sandbox = with("extends: other.yaml\n");
    sandbox.write("other.yaml", RECIPE);
    let foreign = ask(&sandbox, &[]);
    assert_eq!(foreign.code, Some(2));
    assert!(foreign.stderr.contains("does not extend `recipe.yaml`"), "{}", foreign.stderr);
    let constant = Sandbox::with("steps: { a: { uses: mock, seeds: 3, with: { value: 1 } } }");
    constant.write("delta.yaml", "extends: recipe.yaml\nsteps: { a: { with: { value: 2 } } }\n");
    let ended = constant.sweep(&[
        "propose",
        "recipe.yaml",
        "delta.yaml",
        "--metric",
        "value",
        "--better",
        "max",
        "--least",
        "1",
    ]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stdout.contains("no noise to test against"), "{}", ended.stdout);
}

#[test]
fn killed_at_every_write_of_the_ledger_no_level_is_granted_twice() {
    if !cfg!(debug_assertions) {
        return;
    }
    let whole = with(BETTER);
    let trace = whole.path("trace");
    let fault = format!("trace={}", trace.display());
    let ended = whole.command(&ASK).env("SWEEP_FAILPOINTS", fault).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let points = whole.read("trace");
    let places = |name: &'static str| {
        let count = points.lines().filter(|point| point.starts_with(name)).count();
        // Every job has the same points in the list of attempts: the first two jobs are enough.
        let count = if name == "attempts: " { count.min(12) } else { count };
        (1..=count).map(move |at| format!("{at}@{name}"))
    };
    let own: Vec<String> = ["secret: ", "ledger: ", "attempts: "].into_iter().flat_map(places).collect();
    assert!(own.len() > 20, "{own:?}");
    let expected = ledger(&whole)["questions"].as_array().unwrap().len();
    for at in own {
        let sandbox = with(BETTER);
        let killed = sandbox.command(&ASK).env("SWEEP_FAILPOINTS", format!("kill={at}")).output().unwrap();
        assert_eq!(killed.status.code(), None, "point {at} was not reached");
        let found = answer(&sandbox, &[]);
        assert_eq!(found["conclusion"]["verdict"], "accepted", "point {at}: {found:#}");
        let ledger = ledger(&sandbox);
        let rows = ledger["questions"].as_array().unwrap();
        assert_eq!((&ledger["tests"], rows.len()), (&1.into(), expected), "point {at}");
        verified(&sandbox);
    }
}

#[test]
fn interrupted_in_each_stage_it_goes_on_with_the_same_seeds() {
    let slow = RECIPE.replace("pause: 0", "pause: 0.2");
    let sandbox = Sandbox::with(&slow);
    sandbox.write("delta.yaml", BETTER);
    let jobs = |sandbox: &Sandbox| sandbox.records().len();
    // Noise, search and confirmation: 5 jobs, 6 jobs, and the rest.
    for least in [0, 5, 11] {
        let engine = sandbox.start(&ASK);
        until("the stage has a job", || !sandbox.workers().is_empty() && jobs(&sandbox) >= least);
        engine.signal(Signal::INT);
        let ended = engine.wait();
        // Also between two runs.
        assert_eq!(ended.code, Some(130), "after {least} jobs: {}", ended.stderr);
    }
    let granted = ledger(&sandbox);
    let found = answer(&sandbox, &[]);
    assert_eq!(found["conclusion"]["verdict"], "accepted", "{found:#}");
    let grant = &granted["questions"][0]["grant"];
    assert!(grant.is_null() || *grant == ledger(&sandbox)["questions"][0]["grant"]);
    let starts: BTreeSet<usize> = sandbox.starts().into_values().collect();
    assert!(starts.iter().all(|starts| *starts <= 2), "what was done does not run again: {starts:?}");
    verified(&sandbox);
}

#[test]
fn two_at_once_wait_for_each_other() {
    let sandbox = with(BETTER);
    sandbox.write("other.yaml", "extends: recipe.yaml\nparams: { gain: 2000, factor: 15485863 }\n");
    let other = ASK.map(|word| if word == "delta.yaml" { "other.yaml" } else { word });
    let both = [sandbox.start(&ASK), sandbox.start(&other), sandbox.start(&ASK)];
    for engine in both {
        let ended = engine.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let ledger = ledger(&sandbox);
    assert_eq!((&ledger["tests"], &ledger["accepted"]), (&2.into(), &2.into()), "{ledger:#}");
    verified(&sandbox);
}

#[test]
fn what_was_changed_in_the_ledger_is_found() {
    let sandbox = with(BETTER);
    assert_eq!(ask(&sandbox, &[]).code, Some(0));
    let said = verified(&sandbox);
    let head = said.lines().find_map(|line| line.strip_prefix("head: ")).unwrap().to_owned();
    let entries: Vec<_> = list(&sandbox.path("results/store/ledger"));
    let entries: Vec<_> =
        entries.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert_eq!(entries.len(), 5, "opened, noise, asked, granted, concluded");
    for path in &entries[..4] {
        let text = fs_err::read_to_string(path).unwrap();
        fs_err::write(path, text.replacen("\"at\": \"20", "\"at\": \"21", 1)).unwrap();
        let ended = sandbox.sweep(&["ledger", "verify"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains("the ledger was changed"), "{}", ended.stderr);
        assert_eq!(ask(&sandbox, &[]).code, Some(1), "nothing is judged on it");
        fs_err::write(path, text).unwrap();
    }
    // The verdict is the latest entry: nothing follows from it, but it follows from its bundle.
    let text = fs_err::read_to_string(&entries[4]).unwrap();
    fs_err::write(&entries[4], text.replace("\"verdict\": \"accepted\"", "\"verdict\": \"refuted\"")).unwrap();
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("its records give `accepted`"), "{}", ended.stdout);
    fs_err::remove_file(&entries[4]).unwrap();
    let ended = sandbox.sweep(&["ledger", "verify", "--head", &head]);
    assert_eq!(ended.code, Some(1), "a ledger without its end: {}", ended.stdout);
    fs_err::write(&entries[4], text).unwrap();
    let bundle = sandbox.path("results/proposals/000003.sweep.tar");
    let mut archive = fs_err::read(&bundle).unwrap();
    let middle = archive.len() / 2;
    archive[middle] ^= 1;
    fs_err::write(&bundle, archive).unwrap();
    assert!(sandbox.sweep(&["ledger", "verify"]).stdout.contains("its bundle was changed"));
    fs_err::write(sandbox.path("results/store/ledger/secret"), [0; 32]).unwrap();
    sandbox.write("delta.yaml", &BETTER.replace("1000", "3000"));
    let ended = ask(&sandbox, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("secret"), "{}", ended.stderr);
}

#[test]
fn a_search_ends_with_the_first_seed_without_a_gain() {
    let sandbox = with("extends: recipe.yaml\nparams: { gain: -1000 }\n");
    let found = answer(&sandbox, &[]);
    let end = &found["conclusion"];
    assert_eq!((&end["verdict"], &end["search"]["seeds"]), (&"dropped".into(), &serde_json::json!([0])), "{found:#}");
    assert_eq!(sandbox.records().len(), 5 + 2, "five jobs of the noise, and one of each recipe");
    verified(&sandbox);
}

#[test]
fn a_confirmation_ends_at_the_stage_that_decides() {
    // With the seeds of the search it is better, with nearly all others it is not.
    let sandbox = Sandbox::with(&RECIPE.replace("+ GAIN ))", "+ (SWEEP_SEED < 3 ? GAIN : 0) ))"));
    sandbox.write("delta.yaml", BETTER);
    let found = answer(&sandbox, &[]);
    let end = &found["conclusion"];
    assert!(["refuted", "undecided"].contains(&end["verdict"].as_str().unwrap()), "{found:#}");
    let seeds = end["confirmed"]["seeds"].as_array().unwrap().len() as u64;
    assert!(seeds < found["pairs"].as_u64().unwrap(), "{seeds} pairs");
    assert_eq!(end["evidence"]["e"], 0.0);
    verified(&sandbox);
}

#[test]
fn the_noise_of_an_accepted_change_is_known() {
    let sandbox = with(BETTER);
    let accepted = answer(&sandbox, &[]);
    assert_eq!(accepted["conclusion"]["verdict"], "accepted");
    let jobs = sandbox.records().len();
    sandbox.write("further.yaml", "extends: delta.yaml\nparams: { gain: 0 }\n");
    let mut further = ASK;
    (further[1], further[2]) = ("delta.yaml", "further.yaml");
    let ended = sandbox.sweep(&further);
    assert!(ended.stdout.starts_with("dropped"), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(sandbox.records().len(), jobs + 1, "only the candidate of the search ran");
    let values = &accepted["conclusion"]["confirmed"]["candidate"];
    let entries = list(&sandbox.path("results/store/ledger"));
    let noise = entries.iter().filter_map(|path| serde_json::from_slice::<Value>(&fs_err::read(path).ok()?).ok());
    assert!(noise.into_iter().any(|entry| entry["event"]["values"] == *values), "{values}");
    verified(&sandbox);
}

#[test]
fn an_answer_of_one_bit_shows_no_number() {
    let sandbox = with(BETTER);
    let ended = ask(&sandbox, &["--answer", "bit"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "accepted\n", ""));
    sandbox.write("delta.yaml", &BETTER.replace("1000", "-1000"));
    let ended = ask(&sandbox, &["--answer", "bit", "--format", "json", "--strict"]);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let fields: BTreeSet<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(fields.is_subset(&BTreeSet::from(["standing", "accepted", "next", "version"])), "{fields:?}");
    assert_eq!((ended.code, &answer["accepted"], ended.stderr.as_str()), (Some(6), &false.into(), ""));
    let ledger = ledger(&sandbox);
    assert_eq!(ledger["questions"][0]["conclusion"]["verdict"], "accepted", "the ledger has everything");
    // Only seeds differ: the reason of a refusal is about the files.
    sandbox.write("delta.yaml", "extends: recipe.yaml\nsteps: { train: { seeds: 5 } }\n");
    let refused = ask(&sandbox, &["--answer", "bit"]);
    assert!(
        refused.code == Some(2) && refused.stdout.starts_with("refused: it changes only seeds"),
        "{}",
        refused.stdout
    );
    assert_eq!(ask(&sandbox, &["--answer", "bit", "--dry-run"]).code, Some(2), "an estimate is no bit");
    verified(&sandbox);
}

#[test]
fn a_change_that_reads_sealed_data_is_refused() {
    let sandbox = Sandbox::new();
    let run = "[ -z \"$LEAK\" ] || read hint < \"$LEAK\"; echo score=$(( SWEEP_SEED * FACTOR % 101 + GAIN ))";
    let recipe = RECIPE.replace("echo score=$(( SWEEP_SEED * FACTOR % 101 + GAIN ))", &run.replace('\'', "''"));
    let recipe = recipe.replace("pause: 0 }", "pause: 0, leak: '' }");
    sandbox.write("recipe.yaml", &recipe.replace("env: { ", "env: { LEAK: '${{ params.leak }}', "));
    sandbox.write("held/test.txt", "1\n");
    sandbox.write("other.txt", "1\n");
    let propose = |name: &str, path: &str, gain: i64, more: &[&str]| {
        let leak = sandbox.path(path).display().to_string();
        let text = format!("extends: recipe.yaml\nparams: {{ gain: {gain}, factor: 104729, leak: '{leak}' }}\n");
        sandbox.write(name, &text);
        let words = ASK.map(|word| if word == "delta.yaml" { name } else { word });
        sandbox.sweep(&[&words[..], &["--sealed", "held"], more].concat())
    };
    let leaks = propose("leaks.yaml", "held/test.txt", 1000, &["--strict"]);
    assert_eq!(leaks.code, Some(6), "{}{}", leaks.stdout, leaks.stderr);
    assert!(leaks.stdout.starts_with("leaked, question 3: the change reads sealed data"), "{}", leaks.stdout);
    assert!(leaks.stdout.contains("train: ") && leaks.stdout.contains("held/test.txt"), "{}", leaks.stdout);
    assert_eq!(sandbox.records().len(), 5 + 2, "it ends with the first seed");
    assert_eq!(ledger(&sandbox)["tests"], 0, "no level was spent");
    let honest = propose("honest.yaml", "other.txt", 1000, &[]);
    assert!(honest.stdout.starts_with("accepted"), "{}{}", honest.stdout, honest.stderr);
    verified(&sandbox);
    // Without observation nothing is known of the reads.
    sandbox.write("recipe.yaml", &sandbox.read("recipe.yaml").replace("with:\n", "with:\n      tracks: declared\n"));
    let unknown = propose("unknown.yaml", "other.txt", 2000, &[]);
    assert_eq!(unknown.code, Some(2), "{}{}", unknown.stdout, unknown.stderr);
    assert!(unknown.stderr.contains("were not observed"), "{}", unknown.stderr);
}

/// A training that leaves a prediction, and the referee's script that measures it.
const JUDGED: &str = "
params: { gain: 0, printed: 1, leak: '' }
steps:
  train:
    uses: command
    seeds: 2
    with:
      run: 'echo $(( SWEEP_SEED * 7919 % 101 + GAIN )) > prediction; [ -z \"$LEAK\" ] || read hint < \"$LEAK\"; echo score=$PRINTED'
      env: { GAIN: '${{ params.gain }}', PRINTED: '${{ params.printed }}', LEAK: '${{ params.leak }}' }
      outputs: [prediction]
  judge:
    uses: command
    seeds: 2
    needs: train
    with:
      run: 'read value < prediction; read held < test.txt; echo score=$(( value + held ))'
      inputs: ['${{ needs.train.artifacts.prediction }}', held/test.txt]
";

#[test]
fn a_metric_of_the_referee_is_moved_by_predictions_only() {
    let sandbox = Sandbox::with(JUDGED);
    sandbox.write("held/test.txt", "5\n");
    let judge = |name: &str, params: &str| {
        sandbox.write(name, &format!("extends: recipe.yaml\nparams: {{ {params} }}\n"));
        let words = ASK.map(|word| if word == "delta.yaml" { name } else { word });
        let ended = sandbox.sweep(&[&words[..], &["--step", "judge", "--sealed", "held"]].concat());
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    };
    let hack = judge("hack.yaml", "printed: 9999");
    assert!(hack.contains("the change has no effect"), "{hack}");
    let leak = sandbox.path("held/test.txt").display().to_string();
    let leak = judge("leak.yaml", &format!("gain: 2000, leak: '{leak}'"));
    assert!(leak.starts_with("leaked") && leak.contains("train: "), "the judge may read it: {leak}");
    let gain = judge("gain.yaml", "gain: 1000");
    assert!(gain.starts_with("undecided") || gain.starts_with("accepted"), "{gain}");
    // A link to the data is the data, and another script of the referee's is not the referee.
    std::os::unix::fs::symlink(sandbox.path("held/test.txt"), sandbox.path("hint.txt")).unwrap();
    let link = sandbox.path("hint.txt").display().to_string();
    let link = judge("link.yaml", &format!("gain: 3000, leak: '{link}'"));
    assert!(link.starts_with("leaked") && link.contains("train: "), "{link}");
    let other =
        "gain: 4000 }\nsteps: { judge: { with: { run: 'read value < prediction; echo score=$(( value * 2 ))' } }";
    let other = judge("other.yaml", other);
    assert!(other.starts_with("leaked") && other.contains("judge: it is the evaluation"), "{other}");
    let ended = sandbox.sweep(&[&ASK[..], &["--step", "judge", "--sealed", "nowhere"]].concat());
    assert!(ended.code == Some(2) && ended.stderr.contains("there is no `nowhere`"), "{}", ended.stderr);
    verified(&sandbox);
}

#[test]
fn a_patch_changes_the_code_of_the_step_that_it_is_for() {
    let sandbox = Sandbox::new();
    sandbox.write("train.sh", "echo $(( SWEEP_SEED * 7919 % 101 )) > prediction\n");
    sandbox.write("judge.sh", "read value < prediction; read held < test.txt; echo score=$(( value + held ))\n");
    sandbox.write("held/test.txt", "5\n");
    let recipe = "steps:\n  train:\n    uses: command\n    seeds: 2\n    with: { argv: [sh, train.sh], project: ., outputs: [prediction] }\n  \
        judge:\n    uses: command\n    seeds: 2\n    needs: train\n    \
        with: { argv: [sh, judge.sh], inputs: [judge.sh, held/test.txt, '${{ needs.train.artifacts.prediction }}'] }\n";
    sandbox.write("recipe.yaml", recipe);
    let patch = |from: &str, to: &str| format!("--- a/train.sh\n+++ b/train.sh\n@@ -1 +1 @@\n-{from}\n+{to}\n");
    let line = "echo $(( SWEEP_SEED * 7919 % 101 )) > prediction";
    let propose = |name: &str, to: &str| {
        sandbox.write(name, &patch(line, to));
        let words = ["propose", "recipe.yaml", "--patch", name, "--code-step", "train", "--step", "judge"];
        let more =
            ["--metric", "score", "--better", "max", "--least", "400", "--sealed", "held", "--sealed", "judge.sh"];
        let ended = sandbox.sweep(&[&words[..], &more].concat());
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    };
    let better = propose("better.patch", "echo $(( SWEEP_SEED * 104729 % 101 + 1000 )) > prediction");
    assert!(better.starts_with("accepted"), "{better}");
    let leak = propose("leak.patch", "read held < held/test.txt; echo $(( SWEEP_SEED % 7 + 9000 )) > prediction");
    assert!(leak.starts_with("leaked") && leak.contains("held/test.txt"), "{leak}");
    verified(&sandbox);
}
