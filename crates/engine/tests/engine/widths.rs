//! Tables, done lines and bars in terminals of 60, 80, 120 and 200 columns.

use crate::{
    sandbox::{Sandbox, until},
    terminal::Terminal,
};

const WIDTHS: [u16; 4] = [60, 80, 120, 200];

const WIDE: &str = "
steps:
  a:
    uses: mock
    matrix: { variant: [1111111111, 2222222222, 3333333333, 4444444444], value: [1] }
tables:
  t: { title: Values by variant, from: a, rows: [value], columns: [variant], cells: [value] }
";

/// The rows that a command leaves on a terminal.
fn shown(sandbox: &Sandbox, columns: u16, args: &[&str]) -> Vec<String> {
    Terminal::start(sandbox, columns, args).ended(0)
}

#[test]
fn a_wide_table_has_its_columns_in_parts() {
    let sandbox = Sandbox::with(WIDE);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let mut all_parts = Vec::new();
    for columns in WIDTHS {
        let rows = shown(&sandbox, columns, &["report", "recipe.yaml"]);
        // Three lines for each part; a line that is wrapped would have a row more.
        let rules: Vec<&String> = rows.iter().filter(|row| row.starts_with('─')).collect();
        let parts = rules.len() / 3;
        assert_eq!(rules.len(), parts * 3, "{columns}: {rows:#?}");
        for part in rules.chunks(3) {
            assert!(part.iter().all(|rule| rule.chars().count() == part[0].chars().count()), "{columns}: {rows:#?}");
        }
        for variant in ["1111111111", "2222222222", "3333333333", "4444444444"] {
            assert_eq!(rows.concat().matches(variant).count(), 1, "{columns}: every column is in one part: {rows:#?}");
        }
        assert_eq!(rows.concat().contains("the terminal is narrow"), parts > 1, "{columns}: it says so: {rows:#?}");
        all_parts.push(parts);
    }
    assert!(all_parts[0] > 1 && all_parts[0] >= all_parts[1], "{all_parts:?}");
    assert_eq!(all_parts[3], 1, "{all_parts:?}");
    // A pipe has no width.
    assert!(!sandbox.sweep(&["report", "recipe.yaml"]).stdout.contains("the terminal is narrow"));
}

#[test]
fn done_lines_are_one_row_each() {
    for columns in WIDTHS {
        let sandbox = Sandbox::with(
            "steps:\n  a:\n    uses: command\n    matrix: { variant: [a123456789012345678901234567890, b123456789012345678901234567890] }\n    \
             with: { run: 'echo first-metric=0.123456; echo second-metric=0.234567; echo third-metric=0.345678 # ${{ matrix.variant }}' }\n",
        );
        let rows = shown(&sandbox, columns, &["run", "recipe.yaml"]);
        let done = rows.iter().filter(|row| row.starts_with("  ✓ a ")).count();
        let other = rows.iter().filter(|row| row.starts_with("2 jobs: 2 done")).count();
        assert_eq!((done, other, rows.len()), (2, 1, 4), "{columns}: {rows:#?}");
        assert_eq!(rows.concat().contains("third-metric"), columns >= 120, "{columns}: {rows:#?}");
    }
}

#[test]
fn failed_lines_are_one_row_each() {
    for columns in WIDTHS {
        let sandbox = Sandbox::with(
            "steps:\n  a:\n    uses: command\n    matrix: { variant: [a12345678901234567890, b12345678901234567890] }\n    \
             with: { run: 'exit 3 # ${{ matrix.variant }}' }\n",
        );
        let rows = Terminal::start(&sandbox, columns, &["run", "recipe.yaml"]).ended(5);
        let failed: Vec<&String> = rows.iter().filter(|row| row.starts_with("  ✗ a ")).collect();
        assert_eq!(failed.len(), 2, "{columns}: {rows:#?}");
        // A text without room in its row is cut, and the first log is named below.
        let below = rows.iter().filter(|row| row.starts_with("  ! the first failed job: sweep logs ")).count();
        let in_row =
            failed.iter().filter(|row| row.contains("the program ended with exit code 3  log: sweep logs ")).count();
        assert_eq!((below, in_row), if columns < 120 { (1, 0) } else { (0, 2) }, "{columns}: {rows:#?}");
        assert_eq!(rows.len(), 4 + below, "{columns}: {rows:#?}");
    }
}

#[test]
fn a_bar_without_a_known_end_moves() {
    let report = "echo '{\"step\": 1, \"loss\": 2}' >> \"$SWEEP_REPORT\"; sleep 600";
    for columns in WIDTHS {
        let recipe = format!("steps:\n  a:\n    uses: command\n    with:\n      run: |\n        {report}\n");
        let sandbox = Sandbox::with(&recipe);
        let terminal = Terminal::start(&sandbox, columns, &["run", "recipe.yaml"]);
        let mut seen = std::collections::BTreeSet::new();
        until("the bar has moved", || {
            let lines = terminal.lines();
            let row = lines.iter().find(|line| line.contains("step 1"));
            seen.extend(row.and_then(|row| row.split_whitespace().nth(1).map(str::to_owned)));
            seen.len() > 2
        });
        assert!(seen.iter().all(|bar| bar.chars().count() == 10 && !bar.starts_with("━━━━")), "{seen:?}");
        assert_eq!(terminal.lines().len(), 2, "a row for the job and one for the whole: {:#?}", terminal.lines());
        terminal.interrupt();
    }
}
