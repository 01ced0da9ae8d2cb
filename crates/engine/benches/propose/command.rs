//! The command `sweep propose` on a part of the changes, and the functions of the rule on the same seeds.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use serde_json::Value;
use sweep_engine::{propose::Verdict, stats::Draws};

use crate::{
    changes::{Change, changes},
    referees::{MAX_SEALED_SEEDS, SEARCH, judge},
    tasks::{self, State, Task},
};

/// The argument with which this program trains a task.
pub(crate) const TRAIN: &str = "train";
/// Tasks that the command judges.
const TASKS: usize = 2;
/// Changes of each.
const CHANGES: usize = 60;

/// Trains a task with the seed and the changes in the environment, and prints its loss.
pub(crate) fn train(name: &str) -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let text = std::env::var("CHANGES").unwrap_or_default();
    let Some(mut task) = tasks::all().find(|task| slug(&task.name) == name) else { return ExitCode::FAILURE };
    // Measured by the benchmark: a job would take longer to measure it than to train.
    task.sd = std::env::var("SD").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let state = state(&text, &changes(&mut Draws::new(number("PROPOSER").cast_unsigned())));
    let Some(loss) = task.run(&state, number("SWEEP_SEED")) else { return ExitCode::FAILURE };
    println!("loss={:e}", loss.printed);
    ExitCode::SUCCESS
}

/// The program with the changes of these numbers.
fn state(text: &str, all: &[Change]) -> State {
    let numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let known = numbers.filter_map(|number| all.iter().find(|change| change.id == number));
    known.fold(State::default(), |state, change| change.applied(&state))
}

fn slug(name: &str) -> String {
    name.replace(' ', "-")
}

/// Judges a part of the changes with the command, and again with the functions; true if all verdicts, values and numbers of
/// seeds agree, and no job ran twice.
pub(crate) fn agreement(tasks: &[Task]) -> bool {
    println!("\n| task | judged by the command | accepted | the functions agree | jobs | of them equal |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut agrees = true;
    for (index, task) in tasks.iter().enumerate().step_by(tasks.len() / TASKS + 1) {
        let folder = tempfile::tempdir().unwrap();
        let proposer = 1000 * index as u64;
        let all = changes(&mut Draws::new(proposer));
        let (mut judged, mut agreed, mut accepted) = (0, 0, 0);
        let mut applied = String::new();
        for change in all.iter().take(CHANGES) {
            let next = format!("{applied} {}", change.id).trim().to_owned();
            let Some(answer) = ask(folder.path(), task, proposer, [&applied, &next]) else { continue };
            if answer["standing"] != "judged" {
                continue;
            }
            judged += 1;
            agreed += usize::from(is_same(task, &all, [&applied, &next], &answer, folder.path()));
            if answer["conclusion"]["verdict"] == "accepted" {
                accepted += 1;
                applied = next;
            }
        }
        let (jobs, equal) = jobs(folder.path());
        println!("| {} | {judged} | {accepted} | {agreed} | {jobs} | {equal} |", task.name);
        agrees &= judged == agreed && equal == 0;
    }
    agrees
}

/// The recipe of a program with changes.
fn recipe(folder: &Path, task: &Task, proposer: u64, changes: &str) -> String {
    let name = format!("changes-{}.yaml", changes.replace(' ', "-"));
    let text = if changes.is_empty() {
        let program = std::env::current_exe().unwrap();
        format!(
            "params: {{ changes: '' }}\nsteps:\n  train:\n    uses: command\n    seeds: {}\n    with:\n      argv: ['{}', {TRAIN}, {}]\n      env: {{ PROPOSER: '{proposer}', SD: '{:e}', CHANGES: '${{{{ params.changes }}}}' }}\n",
            SEARCH.len(),
            program.display(),
            slug(&task.name),
            task.sd
        )
    } else {
        let (before, _) = changes.rsplit_once(' ').unwrap_or(("", changes));
        format!("extends: changes-{}.yaml\nparams: {{ changes: '{changes}' }}\n", before.replace(' ', "-"))
    };
    fs::write(folder.join(&name), text).unwrap();
    name
}

/// The answer of the command; `None` if it has none, for example because a job failed.
fn ask(folder: &Path, task: &Task, proposer: u64, [old, new]: [&str; 2]) -> Option<Value> {
    let [old, new] = [old, new].map(|changes| recipe(folder, task, proposer, changes));
    let least = format!("{:e}", task.sd);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
    command.args(["propose", &old, &new, "--metric", "loss", "--better", "min", "--least", &least, "--format", "json"]);
    command.args(["--most", &MAX_SEALED_SEEDS.to_string()]);
    let output = command.current_dir(folder).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    answer.get("standing").is_some().then_some(answer)
}

/// True if the functions give the answer of the command with its seeds.
fn is_same(task: &Task, all: &[Change], [old, new]: [&str; 2], answer: &Value, folder: &Path) -> bool {
    let end = &answer["conclusion"];
    let list = |value: &Value| serde_json::from_value::<Vec<f64>>(value.clone()).unwrap_or_default();
    let sealed: Vec<i64> = serde_json::from_value(end["confirmed"]["seeds"].clone()).unwrap_or_default();
    let Some(noise) = noise(folder, &answer["question"]["baseline"]) else { return false };
    let [old, new] = [old, new].map(|text| state(text, all));
    let level = answer["level"].as_f64().unwrap_or_default();
    let loss = |state: &State, seed: i64| task.run(state, seed).map(|loss| loss.printed);
    let Some(judged) = judge(loss, [&old, &new], &noise, task.sd, level, &sealed) else { return false };
    let words: BTreeMap<&str, Verdict> =
        [Verdict::Accepted, Verdict::Refuted, Verdict::Undecided, Verdict::Dropped].map(|one| (one.word(), one)).into();
    let is_verdict = words.get(end["verdict"].as_str().unwrap_or_default()) == Some(&judged.verdict);
    let is_search = list(&end["search"]["candidate"]) == judged.search.candidate;
    let confirmed = judged.confirmed.map(|effect| effect.candidate).unwrap_or_default();
    is_verdict && is_search && list(&end["confirmed"]["candidate"]) == confirmed
}

/// The sealed values of a baseline in the ledger.
fn noise(folder: &Path, baseline: &Value) -> Option<Vec<f64>> {
    let entries = fs::read_dir(folder.join("results/store/ledger")).ok()?;
    entries.filter_map(|entry| serde_json::from_slice::<Value>(&fs::read(entry.ok()?.path()).ok()?).ok()).find_map(
        |entry| {
            let event = &entry["event"];
            let is_noise = event["kind"] == "noise" && event["baseline"] == *baseline;
            serde_json::from_value(event["values"].clone()).ok().filter(|_| is_noise)
        },
    )
}

/// The number of jobs that were done in all runs, and of those that were done before: every record is of one of them.
fn jobs(folder: &Path) -> (usize, usize) {
    let lists = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let journals =
        lists(&folder.join("results/runs")).filter_map(|run| fs::read_to_string(run.join("journal.jsonl")).ok());
    let is_done = |line: &&str| serde_json::from_str::<Value>(line).is_ok_and(|line| !line["event"]["done"].is_null());
    let done: usize = journals.map(|text| text.lines().filter(is_done).count()).sum();
    let mut records = 0;
    let mut open = vec![folder.join("results/store")];
    while let Some(path) = open.pop() {
        open.extend(lists(&path).filter(|path| path.is_dir()));
        records += usize::from(path.join("record.json").exists());
    }
    (done, done.saturating_sub(records))
}
