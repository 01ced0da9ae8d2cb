//! The log that `-v` and `SWEEP_LOG` turn on.

use std::collections::BTreeSet;

use crate::sandbox::{Ended, Sandbox};

const RECIPE: &str = "\
steps:
  a: { uses: mock, matrix: { seed: [0, 1] } }
  b:
    uses: command
    needs: a
    with: { run: 'echo length=${#TOKEN}', env: { TOKEN: { from: MY_TOKEN } } }
tables:
  t: { from: a, rows: [seed], cells: [value] }
";
const SECRET: &str = "hunter2-of-the-log";

fn run(args: &[&str], log: Option<&str>) -> (Sandbox, Ended) {
    let sandbox = Sandbox::with(RECIPE);
    let mut command = sandbox.command(args);
    command.env("MY_TOKEN", SECRET).envs(log.map(|log| ("SWEEP_LOG", log)));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    (sandbox, ended)
}

/// The levels and first words of the lines that are a log's: those that begin with a time.
fn logged(stderr: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<jiff::Timestamp>().ok()?;
        let (level, first) = (words.next()?, words.next()?.split(['{', ':']).next()?);
        Some((level.to_owned(), first.to_owned()))
    };
    stderr.lines().filter_map(line).collect()
}

fn set(lines: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    lines.iter().map(|(level, word)| ((*level).to_owned(), (*word).to_owned())).collect()
}

#[test]
fn stages_are_logged_to_standard_error_and_nothing_else_changes() {
    let (_, quiet) = run(&["run", "recipe.yaml"], None);
    assert_eq!(quiet.code, Some(0), "{}", quiet.stderr);
    assert_eq!(logged(&quiet.stderr), BTreeSet::new(), "off by default: {}", quiet.stderr);
    let (sandbox, verbose) = run(&["-v", "run", "recipe.yaml"], None);
    let stages = [("INFO", "plan"), ("INFO", "look-up"), ("INFO", "claim"), ("INFO", "spawn"), ("INFO", "commit")];
    assert_eq!(logged(&verbose.stderr), set(&stages), "{}", verbose.stderr);
    assert_eq!(verbose.stdout, quiet.stdout);
    for line in
        [" INFO plan{recipes=\"recipe.yaml\" jobs=3}: plan: close time.busy=", "answer=\"acquired\"}: claim: close"]
    {
        assert!(verbose.stderr.contains(line), "{line}: {}", verbose.stderr);
    }
    let again = sandbox.sweep(&["-vv", "plan", "recipe.yaml"]);
    let debugged = logged(&again.stderr);
    assert_eq!(debugged, set(&[("DEBUG", "plan"), ("INFO", "plan"), ("INFO", "look-up")]), "{}", again.stderr);
}

#[test]
fn a_filter_chooses_stages_and_a_wrong_one_is_refused() {
    let (_, ended) = run(&["run", "recipe.yaml"], Some("store=debug"));
    assert_eq!(logged(&ended.stderr), set(&[("INFO", "look-up"), ("INFO", "commit"), ("DEBUG", "commit")]));
    let (sandbox, refused) = run(&["run", "recipe.yaml"], Some("info,stroe=debug"));
    assert_eq!((refused.code, sandbox.records().len()), (Some(2), 0));
    insta::assert_snapshot!(refused.stderr);
}

#[test]
fn secrets_are_not_logged() {
    let (sandbox, ended) = run(&["run", "recipe.yaml"], Some("debug"));
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    // The workers have the same filter, and their own log.
    let log = sandbox.sweep(&["logs", "b"]).stdout;
    assert_eq!(logged(&log), set(&[("INFO", "spawn")]), "{log}");
    assert!(!log.contains(SECRET), "{log}");
}
