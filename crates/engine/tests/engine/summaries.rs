//! Tables of claims: one row for each, from any steps, with the paper's value and the verdict.

use crate::{messages::Transcript, sandbox::Sandbox};

const STUDY: &str = "\
name: study
steps:
  a:
    uses: command
    matrix: { zip: { way: [slow, fast], values: ['4.0 4.2 4.1', '2.0 2.1 2.0'], more: ['10 10 11', '20 21 20'] } }
    seeds: 3
    with:
      run: |
        set -- $VALUES; shift $SWEEP_SEED; echo seconds=$1
        set -- $MORE; shift $SWEEP_SEED; echo bytes=$1
      env: { VALUES: '${{ matrix.values }}', MORE: '${{ matrix.more }}', WAY: '${{ matrix.way }}' }
  b: { uses: command, matrix: { way: [old, new] }, with: { run: 'echo seconds=3; echo bytes=6', env: { WAY: '${{ matrix.way }}' } } }
tables:
  all:
    title: All of them
    claims: [faster, smaller, new-is-faster]
    cells: [seconds, bytes]
claims:
  faster: { ratio: { metric: seconds, of: { step: a, way: slow }, to: { step: a, way: fast } }, expect: { at_least: 1.8 }, paper: 4.01 }
  smaller: { ratio: { metric: bytes, of: { step: a, way: slow }, to: { step: a, way: fast } }, expect: { at_least: 1 } }
  new-is-faster: { ratio: { metric: seconds, of: { step: b, way: old }, to: { step: b, way: new } }, expect: { at_least: 1 } }
  sum: { value: { metric: bytes, of: { step: b } }, expect: { at_least: 1 } }
";

#[test]
fn a_row_has_its_sides_its_ratios_the_papers_value_and_the_verdict() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let table = sandbox.read("results/reports/study/tables/all.md");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches(|c| c == '|' || c == ' ').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows[0], ["claim", "pair", "about", "paper", "verdict", "seconds · ratio", "bytes · ratio"], "{table}");
    assert_eq!(rows[2][..5], ["faster", "slow / fast", "seconds", "4.01", "✓ supported"], "{table}");
    assert_eq!(rows[3][..5], ["smaller", "slow / fast", "bytes", "", "✗ refuted"], "{table}");
    assert_eq!(rows[4][..5], ["new-is-faster", "old / new", "seconds", "", "? undecided"], "{table}");
    assert!(rows[2][5].starts_with("2.0"), "4.1 over 2.03: {table}");
    assert!(rows[3][6].starts_with("0.5"), "the same sides, another metric: {table}");
    assert!(ended.stdout.contains("All of them"), "{}", ended.stdout);
}

#[test]
fn a_metric_that_only_a_table_of_claims_shows_is_read_and_explained() {
    // No claim is about `pages`.
    let study = STUDY
        .replace("echo bytes=$1", "echo bytes=$1 && echo pages=$1")
        .replace("echo bytes=6", "echo bytes=6; echo pages=6");
    let sandbox = Sandbox::with(&study.replace("cells: [seconds, bytes]", "cells: [seconds, pages]"));
    let first = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let ratios = |stdout: &str| stdout.lines().find(|line| line.contains("smaller")).unwrap().to_owned();
    assert!(ratios(&first.stdout).contains("0.5"), "{}", first.stdout);
    // From here on metrics come from the store's derived file, not from the records.
    let second = sandbox.sweep(&["report", "recipe.yaml"]);
    assert_eq!(second.stdout, first.stdout.trim_start(), "{}", second.stderr);
    let explained = sandbox.sweep(&["explain", "recipe.yaml", "b/way=old", "--axis", "b.way=older,old"]);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    let explained = sandbox.sweep(&["explain", "recipe.yaml", "b/way=older", "--axis", "b.way=older,old"]);
    assert_message!(explained.stdout);
}

#[test]
fn rows_are_claims_with_two_sides() {
    let mut said = Transcript::default();
    for (from, to) in [
        ("claims: [faster, ", "claims: [fastr, "),
        ("claims: [faster, ", "claims: [sum, "),
        ("    cells: [seconds, bytes]\n", "    cells: []\n"),
        ("    title: All of them\n", "    from: a\n"),
    ] {
        let sandbox = Sandbox::with(&STUDY.replacen(from, to, 1));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{to}: {}", ended.stderr);
        said.add(to.trim(), &ended.stderr);
    }
    assert_message!(said);
}
