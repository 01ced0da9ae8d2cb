//! Ways around the seal of a proposal: code that changes while a question is open, records that are made again, estimates and
//! entries of somebody else, and a ledger that was cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    propose::{ASK, BETTER, RECIPE, answer, ask, ledger, verified, with},
    sandbox::{Sandbox, list, until},
};

/// Jobs of the noise and of the search.
const BEFORE: usize = 5 + 6;

/// A sandbox whose program is a file outside of the jobs' folders, which no `inputs` declares.
fn with_tool(tool: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("tool.sh", tool);
    let path = sandbox.path("tool.sh").display().to_string();
    let recipe = RECIPE.replace("pause: 0", "pause: 0.2");
    let (head, rest) = recipe.split_once("run: '").unwrap();
    let (_, tail) = rest.split_once("'\n").unwrap();
    sandbox.write("recipe.yaml", &format!("{head}run: 'sh {path}'\n{tail}"));
    sandbox.write("delta.yaml", BETTER);
    sandbox
}

const TOOL: &str = "sleep $PAUSE; echo score=$(( SWEEP_SEED * FACTOR % 101 + GAIN ))\n";

/// Interrupts a proposal when its confirmation has records, and returns their number.
fn interrupt(sandbox: &Sandbox) -> usize {
    let engine = sandbox.start(&ASK);
    until("the confirmation has a record", || sandbox.records().len() > BEFORE);
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    sandbox.records().len() - BEFORE
}

/// The files of a folder by path, with their content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in list(folder) {
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.display().to_string(), fs_err::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_program_that_is_changed_while_the_question_is_open_gets_no_verdict() {
    let sandbox = with_tool(TOOL);
    interrupt(&sandbox);
    let mut before = ledger(&sandbox);
    // Whoever has seen the first sealed results writes a program for the others.
    sandbox.write("tool.sh", &TOOL.replace("+ GAIN", "+ GAIN * 3"));
    for _ in 0..2 {
        let refused = ask(&sandbox, &[]);
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(refused.stderr.contains("has changed since its level was granted"), "{}", refused.stderr);
        assert!(refused.stderr.contains("tool.sh"), "{}", refused.stderr);
    }
    before["questions"][0]["altered"] = 2.into();
    assert_eq!(ledger(&sandbox), before, "the question is still open, and both attempts are counted");
    sandbox.write("tool.sh", TOOL);
    assert_eq!(answer(&sandbox, &[])["conclusion"]["verdict"], "accepted");
    verified(&sandbox);
}

#[test]
fn a_module_that_is_changed_while_the_question_is_open_gets_no_verdict() {
    let sandbox = Sandbox::new();
    let module = "def score(seed, factor, gain):\n    return seed * factor % 101 + gain\n";
    sandbox.write("helper.py", module);
    let program = "import os, time, helper\nenv = os.environ\ntime.sleep(0.2)\n\
        print('score=%d' % helper.score(int(env['SWEEP_SEED']), int(env['FACTOR']), int(env['GAIN'])))\n";
    sandbox.write("train.py", program);
    let path = sandbox.path("train.py").display().to_string();
    let (head, rest) = RECIPE.split_once("run: '").unwrap();
    let (_, tail) = rest.split_once("'\n").unwrap();
    sandbox.write("recipe.yaml", &format!("{head}run: 'python3 {path}'\n{tail}"));
    sandbox.write("delta.yaml", BETTER);
    interrupt(&sandbox);
    sandbox.write("helper.py", &module.replace("+ gain", "+ 3 * gain"));
    let refused = ask(&sandbox, &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("helper.py"), "{}", refused.stderr);
    sandbox.write("helper.py", module);
    assert_eq!(answer(&sandbox, &[])["conclusion"]["verdict"], "accepted");
    verified(&sandbox);
}

#[test]
fn a_program_that_is_changed_while_the_sealed_seeds_run_gets_no_verdict() {
    let sandbox = with_tool(TOOL);
    let engine = sandbox.start(&ASK);
    until("the confirmation has a record", || sandbox.records().len() > BEFORE);
    // In one go: a shell that reads half of the old file and half of the new one fails.
    sandbox.write("other.sh", &TOOL.replace("+ GAIN", "+ GAIN * 3"));
    fs_err::rename(sandbox.path("other.sh"), sandbox.path("tool.sh")).unwrap();
    let ended = engine.wait();
    // A job that is observed to read the tool while it is replaced fails before the question does.
    assert!(matches!(ended.code, Some(1 | 5)), "{:?} {}", ended.code, ended.stdout);
    assert!(ended.stderr.contains("tool.sh"), "{}", ended.stderr);
    assert!(ledger(&sandbox)["questions"][0]["conclusion"].is_null());
}

#[test]
fn records_of_an_open_question_cannot_be_made_again() {
    let sandbox = Sandbox::with(&RECIPE.replace("pause: 0", "pause: 0.2"));
    sandbox.write("delta.yaml", BETTER);
    let engine = sandbox.start(&ASK);
    until("the search is over", || sandbox.records().len() >= BEFORE);
    let before = sandbox.records();
    until("the confirmation has two records", || sandbox.records().len() >= BEFORE + 2);
    engine.signal(Signal::INT);
    assert_eq!(engine.wait().code, Some(130));
    let records = sandbox.records();
    let sealed = records.iter().find(|(label, _)| !before.contains_key(*label)).unwrap();
    let key = sealed.1["key"].as_str().unwrap().to_owned();
    let refused = sandbox.sweep(&["cache", "rm", &key[..12], "--yes"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("belongs to question"), "{}", refused.stderr);
    let swept = sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
    assert_eq!(swept.code, Some(0), "{}", swept.stderr);
    assert!(sandbox.records().contains_key(sealed.0), "records of an open question are kept");
    // By hand.
    let folder = sandbox.path("results/store").join(&key[..2]).join(&key);
    let aside = sandbox.path("aside");
    fs_err::rename(&folder, &aside).unwrap();
    let refused = ask(&sandbox, &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("was removed or replaced"), "{}", refused.stderr);
    fs_err::rename(&aside, &folder).unwrap();
    assert_eq!(answer(&sandbox, &[])["conclusion"]["verdict"], "accepted");
    verified(&sandbox);
    let free = sandbox.sweep(&["cache", "rm", &key[..12], "--yes"]);
    assert_eq!(free.code, Some(0), "the bundle has it now: {}", free.stderr);
    verified(&sandbox);
}

#[test]
fn jobs_that_began_again_are_counted_and_the_count_is_verified() {
    // Long enough that the kill comes while a job runs.
    let sandbox = Sandbox::with(&RECIPE.replace("pause: 0", "pause: 0.4"));
    sandbox.write("delta.yaml", BETTER);
    let engine = sandbox.start(&ASK);
    let attempts = sandbox.path("results/store/ledger/000003.attempts");
    // Both jobs of a stage end at nearly the same time, and the next stage has just begun.
    until("a job has begun after the first stage", || {
        let text = fs_err::read_to_string(&attempts).unwrap_or_default();
        let count = |event: &str| text.matches(event).count();
        let done = count("\"done\"");
        done > 0 && done.is_multiple_of(2) && count("\"started\"") > done
    });
    engine.signal(Signal::KILL);
    assert_eq!(engine.wait().code, None);
    let found = answer(&sandbox, &[]);
    let end = &found["conclusion"];
    let seeds: Vec<i64> = serde_json::from_value(end["confirmed"]["seeds"].clone()).unwrap();
    let is_sealed = |label: &str| seeds.iter().any(|seed| label.ends_with(&format!("seed={seed}")));
    let again = sandbox.starts().into_iter().filter(|(label, starts)| *starts > 1 && is_sealed(label)).count();
    assert_eq!(end["repeated"].as_u64().unwrap_or(0), again as u64);
    assert!(again > 0, "a job was running at the kill");
    verified(&sandbox);
    let text = fs_err::read_to_string(&attempts).unwrap();
    let shorter: Vec<&str> = text.lines().skip(1).collect();
    fs_err::write(&attempts, shorter.join("\n")).unwrap();
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("the list of attempts"), "{}", ended.stdout);
}

#[test]
fn an_estimate_of_an_open_question_is_about_the_question_that_was_asked() {
    let sandbox = Sandbox::with(&RECIPE.replace("pause: 0", "pause: 0.2"));
    sandbox.write("delta.yaml", BETTER);
    interrupt(&sandbox);
    let grant = ledger(&sandbox)["questions"][0]["grant"].clone();
    let other = ASK.map(|word| if word == "400" { "1" } else { word });
    let ended = sandbox.sweep(&[&other[..], &["--dry-run", "--most", "1000", "--format", "json"]].concat());
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found["standing"], "estimate", "{found:#}");
    assert_eq!(found["question"]["least"], 400.0);
    for field in ["level", "pairs", "power"] {
        assert_eq!(found[field], grant[field], "{field}");
    }
}

#[test]
fn a_dropped_change_follows_from_its_bundle() {
    let sandbox = with(&BETTER.replace("gain: 1000", "gain: -1000"));
    let found = answer(&sandbox, &[]);
    assert_eq!(found["conclusion"]["verdict"], "dropped", "{found:#}");
    assert!(verified(&sandbox).contains("1 verdict recomputed"));
    let latest = sandbox.path("results/store/ledger/000004.json");
    let text = fs_err::read_to_string(&latest).unwrap();
    let mean = found["conclusion"]["search"]["mean"].to_string();
    assert!(text.contains(&mean), "{text}");
    fs_err::write(&latest, text.replacen(&mean, "-1.5", 1)).unwrap();
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("another search"), "{}", ended.stdout);
}

#[test]
fn a_ledger_without_its_end_leaves_a_bundle_without_a_verdict() {
    let sandbox = with(BETTER);
    let found = answer(&sandbox, &[]);
    let head = found["head"].as_str().unwrap();
    assert!(verified(&sandbox).contains(head), "the answer names the head");
    for entry in ["000005.json", "000004.json", "000003.json"] {
        fs_err::remove_file(sandbox.path("results/store/ledger").join(entry)).unwrap();
        let ended = sandbox.sweep(&["ledger", "verify"]);
        assert_eq!(ended.code, Some(1), "without {entry}: {}", ended.stdout);
        assert!(ended.stdout.contains("is the bundle of no verdict"), "{}", ended.stdout);
    }
}

#[test]
fn the_report_of_the_recipe_is_left_alone() {
    let sandbox = with(BETTER);
    for path in ["recipe.yaml", "delta.yaml"] {
        assert_eq!(sandbox.sweep(&["run", path]).code, Some(0));
    }
    let before = files(&sandbox.path("results/reports"));
    assert!(!before.is_empty());
    assert_eq!(answer(&sandbox, &[])["conclusion"]["verdict"], "accepted");
    let after = files(&sandbox.path("results/reports"));
    for (path, content) in &before {
        assert!(after.get(path) == Some(content), "{path} has changed");
    }
}

/// Copies the results of a sandbox to another one.
fn copy_results(from: &Sandbox, to: &Sandbox) {
    for (path, content) in files(&from.path("results")) {
        let inner = Path::new(&path).strip_prefix(from.path("")).unwrap().to_owned();
        fs_err::create_dir_all(to.path("").join(&inner).parent().unwrap()).unwrap();
        fs_err::write(to.path("").join(inner), content).unwrap();
    }
}

/// A sandbox with a slow recipe, whose question is open with at least one sealed record.
fn open(delta: &str) -> Sandbox {
    let sandbox = Sandbox::with(&RECIPE.replace("pause: 0", "pause: 0.2"));
    sandbox.write("delta.yaml", delta);
    interrupt(&sandbox);
    sandbox
}

/// The seeds of the sealed records.
fn sealed_seeds(sandbox: &Sandbox) -> Vec<i64> {
    let attempts = sandbox.read("results/store/ledger/000003.attempts");
    let records = sandbox.records().into_iter();
    let sealed = records.filter(|(_, record)| attempts.contains(record["key"].as_str().unwrap()));
    let seeds: BTreeSet<i64> =
        sealed.map(|(label, _)| label.rsplit("seed=").next().unwrap().parse().unwrap()).collect();
    seeds.into_iter().collect()
}

#[test]
fn sealed_seeds_are_not_left_out_by_naming_them_in_the_recipe() {
    let sandbox = open(BETTER);
    let grant = ledger(&sandbox)["questions"][0]["grant"].clone();
    let seen = sealed_seeds(&sandbox);
    assert!(!seen.is_empty());
    let recipe = sandbox.read("recipe.yaml");
    let listed = seen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    sandbox.write("recipe.yaml", &recipe.replace("seeds: 3", &format!("matrix: {{ seed: [0, 1, 2, {listed}] }}")));
    let ended = ask(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the seeds of the recipe changed since"), "{}", ended.stderr);
    assert!(ended.stdout.contains("1 call differed from the question while it was open"), "{}", ended.stdout);
    let found = ledger(&sandbox)["questions"][0].clone();
    assert_eq!(found["grant"], grant);
    let end = &found["conclusion"];
    assert_eq!((&end["altered"], &end["search"]["seeds"]), (&1.into(), &serde_json::json!([0, 1, 2])));
    let judged: Vec<i64> = serde_json::from_value(end["confirmed"]["seeds"].clone()).unwrap();
    assert!(seen.iter().all(|seed| judged.contains(seed)), "{seen:?} {judged:?}");
    let said = sandbox.sweep(&["ledger"]).stdout;
    assert!(said.contains("question 3: 1 call differed"), "{said}");
    verified(&sandbox);
}

#[test]
fn another_least_effect_or_number_of_seeds_is_counted_while_a_question_is_open() {
    let sandbox = open(BETTER);
    let grant = ledger(&sandbox)["questions"][0]["grant"].clone();
    let other = ASK.map(|word| if word == "400" { "1" } else { word });
    let ended = sandbox.sweep(&[&other[..], &["--most", "1000"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found = ledger(&sandbox)["questions"][0].clone();
    assert_eq!((&found["grant"], &found["question"]["least"]), (&grant, &400.0.into()));
    assert!(found["conclusion"]["altered"].as_u64() >= Some(1), "{found:#}");
    verified(&sandbox);
}

/// An earlier version drew new seeds in place of sealed seeds that the recipe named.
#[test]
fn a_verdict_without_a_sealed_seed_that_began_is_a_defect() {
    let sandbox = with(BETTER);
    assert_eq!(ask(&sandbox, &[]).code, Some(0));
    let (list, latest) = ("results/store/ledger/000003.attempts", "results/store/ledger/000005.json");
    let attempts = sandbox.read(list);
    let first = attempts.lines().find(|line| line.contains("started")).unwrap();
    let (before, rest) = first.split_once("\"job\":\"").unwrap();
    let other = format!("{before}\"job\":\"{}{}\n", "0".repeat(64), &rest[64..]);
    let changed = other + &attempts;
    sandbox.write(list, &changed);
    let digest = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    let entry = sandbox.read(latest).replace(&digest(&attempts), &digest(&changed));
    sandbox.write(latest, &entry);
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("1 sealed job that began are not in its bundle"), "{}", ended.stdout);
}

#[test]
fn a_level_that_was_removed_from_the_ledger_is_not_granted_again() {
    let sandbox = open(BETTER);
    fs_err::remove_file(sandbox.path("results/store/ledger/000004.json")).unwrap();
    let refused = ask(&sandbox, &["--most", "4"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("a later entry was removed"), "{}", refused.stderr);
    let ended = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("sealed jobs of a question without a level"), "{}", ended.stdout);
}

#[test]
fn a_copy_of_the_store_does_not_foretell_sealed_results() {
    let here = with(BETTER);
    assert_eq!(ask(&here, &[]).code, Some(0));
    let there = Sandbox::with(RECIPE);
    copy_results(&here, &there);
    let mut drawn = Vec::new();
    for sandbox in [&here, &there] {
        sandbox.write("delta.yaml", &BETTER.replace("1000", "2000"));
        drawn.push(answer(sandbox, &[])["conclusion"]["confirmed"]["seeds"].clone());
        verified(sandbox);
    }
    assert!(drawn[0].is_array() && drawn[0] != drawn[1], "{drawn:?}");
}

#[test]
fn sealed_records_from_elsewhere_are_refused() {
    let here = open(BETTER);
    let there = Sandbox::with(&here.read("recipe.yaml"));
    there.write("delta.yaml", BETTER);
    copy_results(&here, &there);
    assert_eq!(ask(&there, &[]).code, Some(0));
    let own = here.records();
    let there = there.path("results/store");
    for record in list(&there).into_iter().filter(|path| path.is_dir()).flat_map(|path| list(&path)) {
        let to = here.path("results/store").join(record.strip_prefix(&there).unwrap());
        if record.join("record.json").is_file() && !to.exists() {
            fs_err::create_dir_all(&to).unwrap();
            fs_err::copy(record.join("record.json"), to.join("record.json")).unwrap();
        }
    }
    let added: Vec<String> = here
        .records()
        .into_iter()
        .filter(|(label, _)| !own.contains_key(label))
        .map(|(_, record)| record["key"].as_str().unwrap().to_owned())
        .collect();
    assert!(!added.is_empty());
    let refused = ask(&here, &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("was made by no attempt at it"), "{}", refused.stderr);
    for key in &added {
        assert_eq!(here.sweep(&["cache", "rm", &key[..16], "--yes"]).code, Some(0));
    }
    let found = answer(&here, &[]);
    assert_eq!((&found["conclusion"]["verdict"], &found["conclusion"]["altered"]), (&"accepted".into(), &1.into()));
    verified(&here);
}

/// Points that are one job do not weigh more: a question is about jobs, and its mean cannot be changed by listing one twice.
#[test]
fn a_job_counts_once_however_many_points_mean_it() {
    let recipe = |matrix: &str| {
        RECIPE
            .replace("seeds: 3", &format!("seeds: 3\n    matrix: {matrix}"))
            .replace("+ GAIN", "+ GAIN + KIND * 50")
            .replace("env: {", "env: { KIND: '${{ matrix.kind }}',")
    };
    let mut found = Vec::new();
    for matrix in
        ["{ kind: [0, 1] }", "{ kind: [0, 1], tracks: [code, declared], exclude: [{ kind: 1, tracks: declared }] }"]
    {
        let sandbox = Sandbox::with(&recipe(matrix));
        sandbox.write("delta.yaml", BETTER);
        found.push(answer(&sandbox, &[])["conclusion"]["search"].clone());
    }
    assert!(found[0].is_object() && found[0] == found[1], "{found:#?}");
}

#[test]
fn a_change_without_effect_is_dropped_with_that_reason() {
    let sandbox = Sandbox::with(
        &RECIPE.replace("env: {", "env: { NOTE: '${{ params.note }}',").replace("params: {", "params: { note: a,"),
    );
    sandbox.write("delta.yaml", "extends: recipe.yaml\nparams: { note: b }\n");
    let found = answer(&sandbox, &[]);
    assert_eq!(found["conclusion"]["verdict"], "dropped", "{found:#}");
    assert!(found["reason"].as_str().unwrap().contains("the change has no effect"), "{found:#}");
    verified(&sandbox);
}
