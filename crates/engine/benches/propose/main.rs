//! A proposer with planted truth: 200 changes on each of fifteen small tasks, judged by three referees.
//!
//! ```text
//! cargo bench -p sweep-engine --bench propose [-- REPETITIONS]
//! ```
//!
//! Among the changes are no-ops, refactorings, other seeds, changes of one unit in the last place, planted gains and losses, crashes, programs that
//! train on the held-out rows, and programs that print a loss that they have not measured. The referees are a greedy loop, a gate
//! of one standard deviation, and the rule of `sweep propose` through the functions of the program. The last table compares
//! those with the command itself. Ends with status 1 if a goal or the agreement is missed.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

mod changes;
mod command;
mod referees;
mod tasks;

use std::{collections::BTreeSet, process::ExitCode, time::Instant};

use sweep_engine::stats::{Draws, Sample};

use self::{
    changes::{Change, Kind, SIZES, changes},
    referees::{Rule, Tally, judge_all},
    tasks::{Task, tasks},
};

/// Proposers on each task.
const REPETITIONS: usize = 5;

/// A measured share with its standard error over tasks.
type Share = (f64, f64);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name] = arguments.as_slice()
        && word == command::TRAIN
    {
        return command::train(name);
    }
    let tasks = tasks();
    let repetitions = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(REPETITIONS);
    let begun = Instant::now();
    let rules = [
        ("greedy loop", Rule::Greedy),
        ("gate of one standard deviation", Rule::Gate),
        ("`sweep propose`", Rule::Propose),
        ("the same, sealed data and measured metric", Rule::Sealed),
    ];
    println!("{} tasks, {repetitions} proposers on each\n", tasks.len());
    let all: Vec<(&str, Vec<Vec<Judgment>>)> =
        rules.iter().map(|(name, rule)| (*name, judged(*rule, &tasks, repetitions))).collect();
    overview(&all);
    kinds(&all);
    let greedy = &all[0].1;
    let sealed = &all[3].1;
    let goals = [
        ("accepted changes that bring nothing, at most 5 %", wrong(sealed).0 <= 0.05),
        ("gains of 2 and 3 standard deviations kept, at least 80 %", kept(sealed, |size| size >= 2.0).0 >= 0.8),
        ("runs, at most 1.5 times those of the greedy loop", ratio(sealed, greedy).0 <= 1.5),
        ("equal experiments run twice, none", sealed.iter().flatten().all(|one| one.tally.repeated == 0)),
    ];
    let (lucky, all) = without_gains(&tasks, repetitions);
    println!(
        "\nwithout any gain, the last one accepts something of {lucky} proposers of {all}; the goal is at most 5 %"
    );
    let confirming = sealed.iter().flatten().map(|one| one.tally.confirming).sum::<usize>() as f64;
    let all_runs = greedy.iter().flatten().map(|one| one.tally.runs).sum::<usize>() as f64;
    println!("\nconfirmations of the last one: {:.2} of the runs of the greedy loop\n", confirming / all_runs);
    for (goal, is_reached) in goals {
        println!("{}: {goal}", if is_reached { "reached" } else { "missed" });
    }
    let agrees = command::agreement(&tasks);
    println!("\n{:.0} s", begun.elapsed().as_secs_f64());
    let is_done = agrees && goals.iter().all(|(_, is_reached)| *is_reached);
    if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The changes of a proposer with a referee's judgment.
struct Judgment {
    changes: Vec<Change>,
    tally: Tally,
}

/// The judgments of a referee, by task and proposer.
fn judged(rule: Rule, tasks: &[Task], repetitions: usize) -> Vec<Vec<Judgment>> {
    let of = |index: usize, task: &Task| {
        let proposers = (0..repetitions).map(|proposer| {
            let mut draws = Draws::new((1000 * index + proposer) as u64);
            let changes = changes(&mut draws);
            let tally = judge_all(rule, task, &changes, &mut draws);
            Judgment { changes, tally }
        });
        proposers.collect()
    };
    tasks.iter().enumerate().map(|(index, task)| of(index, task)).collect()
}

/// The number of proposers without any gain of whom the rule of `sweep propose` accepts something, and of all.
fn without_gains(tasks: &[Task], repetitions: usize) -> (usize, usize) {
    let has_accepted = |task: &Task, proposer: usize| {
        let mut draws = Draws::new(500_000 + proposer as u64);
        let changes: Vec<Change> = changes(&mut draws).into_iter().filter(|change| !change.is_gain()).collect();
        !judge_all(Rule::Sealed, task, &changes, &mut draws).accepted.is_empty()
    };
    let all = tasks.iter().flat_map(|task| (0..4 * repetitions).map(move |proposer| (task, proposer)));
    let found: Vec<bool> = all.map(|(task, proposer)| has_accepted(task, proposer)).collect();
    (found.iter().filter(|found| **found).count(), found.len())
}

/// The mean over tasks with its standard error.
fn over_tasks(all: &[Vec<Judgment>], of: impl Fn(&[Judgment]) -> f64) -> Share {
    let values: Vec<f64> = all.iter().map(|one| of(one)).collect();
    let sample = Sample::new(&values);
    let error = sample.as_ref().and_then(|sample| sample.sd).unwrap_or(0.0) / (values.len() as f64).sqrt();
    (sample.map_or(0.0, |sample| sample.mean), error)
}

/// The part of accepted changes that bring nothing.
fn wrong(all: &[Vec<Judgment>]) -> Share {
    over_tasks(all, |one| {
        let accepted: Vec<&Change> = one.iter().flat_map(|judgment| &judgment.tally.accepted).collect();
        accepted.iter().filter(|change| !change.is_gain()).count() as f64 / accepted.len().max(1) as f64
    })
}

/// The part of gains of some sizes that are kept.
fn kept(all: &[Vec<Judgment>], of: impl Fn(f64) -> bool) -> Share {
    let is_counted = |change: &&Change| matches!(change.kind, Kind::Gain(size) if size > 0.0 && of(size));
    over_tasks(all, |one| {
        let counts = one.iter().map(|Judgment { changes, tally }| {
            let count =
                |changes: &[Change]| changes.iter().filter(is_counted).map(|one| one.id).collect::<BTreeSet<_>>().len();
            (count(&tally.accepted), count(changes))
        });
        let (accepted, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        accepted as f64 / all.max(1) as f64
    })
}

/// The runs of a referee over those of another one.
fn ratio(all: &[Vec<Judgment>], other: &[Vec<Judgment>]) -> Share {
    let runs = |one: &[Judgment]| one.iter().map(|judgment| judgment.tally.runs).sum::<usize>() as f64;
    let others: Vec<f64> = other.iter().map(|one| runs(one)).collect();
    let base = others.iter().sum::<f64>() / others.len().max(1) as f64;
    over_tasks(all, |one| runs(one) / base)
}

/// The number of tasks on which another seed was accepted at least once by the first proposer.
fn lucky(all: &[Vec<Judgment>]) -> usize {
    let is_seed = |change: &Change| matches!(change.kind, Kind::AxisSeed | Kind::CodeSeed);
    all.iter().filter(|one| one[0].tally.accepted.iter().any(is_seed)).count()
}

fn percent((share, error): Share) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * share, 100.0 * error)
}

fn overview(all: &[(&str, Vec<Vec<Judgment>>)]) {
    println!(
        "| referee | accepted for a proposer | of them bring nothing | gains of 2 and 3 sd kept | runs, of the greedy loop | equal experiments run again | tasks that accept a seed |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, judged) in all {
        let accepted = over_tasks(judged, |one| {
            one.iter().map(|judgment| judgment.tally.accepted.len()).sum::<usize>() as f64 / one.len().max(1) as f64
        });
        let (ratio, error) = ratio(judged, &all[0].1);
        let repeated: usize = judged.iter().flatten().map(|one| one.tally.repeated).sum();
        let (wrong, kept, lucky) = (percent(wrong(judged)), percent(kept(judged, |size| size >= 2.0)), lucky(judged));
        println!(
            "| {name} | {:.1} ± {:.1} | {wrong} | {kept} | {ratio:.2} ± {error:.2} | {repeated} | {lucky} of {} |",
            accepted.0,
            accepted.1,
            judged.len()
        );
    }
}

/// The accepted part of each kind of change.
fn kinds(all: &[(&str, Vec<Vec<Judgment>>)]) {
    let plain = [
        ("no-op", Kind::NoOp),
        ("refactoring", Kind::Refactoring),
        ("another seed, by the axis", Kind::AxisSeed),
        ("another seed, in the code", Kind::CodeSeed),
        ("one unit in the last place", Kind::OneUlp),
        ("neutral", Kind::Neutral),
        ("crash", Kind::Crash),
        ("leak", Kind::Leak),
        ("metric printed by hand", Kind::Hack),
    ];
    let planted = |sign: f64, word: &str| {
        SIZES.map(|size| (format!("{word} of {size} sd"), Kind::Gain(sign * size))).into_iter().collect::<Vec<_>>()
    };
    let plain = plain.map(|(name, kind)| (name.to_owned(), kind));
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    println!("\n| accepted of | {} |", names.join(" | "));
    println!("| --- | {} |", vec!["---"; names.len()].join(" | "));
    for (name, kind) in plain.into_iter().chain(planted(1.0, "gain")).chain(planted(-1.0, "loss")) {
        let share = |judged: &Vec<Vec<Judgment>>| {
            let count = |changes: &[Change]| changes.iter().filter(|one| one.kind == kind && !one.is_again).count();
            percent(over_tasks(judged, |one| {
                let counts = one.iter().map(|judgment| (count(&judgment.tally.accepted), count(&judgment.changes)));
                let (accepted, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                accepted as f64 / all.max(1) as f64
            }))
        };
        let cells: Vec<String> = all.iter().map(|(_, judged)| share(judged)).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}
