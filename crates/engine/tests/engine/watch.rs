//! `sweep watch`: the view of a run on a terminal, and `sweep stop`.

use rustix::process::Signal;

use crate::{
    sandbox::{Running, Sandbox, until},
    terminal::Terminal,
};

const RECIPE: &str = "
name: watched
steps:
  broken: { uses: mock, with: { end: fail }, resources: { cpus: 1 } }
  quick:
    uses: mock
    matrix: { value: [0.125, 0.25, 1.25], variant: [7] }
    resources: { cpus: 1 }
  slow:
    uses: mock
    matrix: { seed: [1] }
    with: { seconds: 600, steps: 6000, value: 0.5 }
    resources: { cpus: 1 }
  after: { uses: mock, needs: slow, resources: { cpus: 1 } }
";

const LEFT: &str = "\x1b[D";
const RIGHT: &str = "\x1b[C";
const DOWN: &str = "\x1b[B";

/// A run in which one job has failed, three are done, one runs and one waits.
fn live() -> (Sandbox, Running) {
    let sandbox = Sandbox::with(RECIPE);
    let run = sandbox.start(&["run", "recipe.yaml", "--jobs", "2"]);
    until("the slow job is alone", || {
        let slow = sandbox.journal("progress").iter().any(|line| line["label"] == "slow/seed=1");
        slow && sandbox.journal("done").len() == 3 && sandbox.journal("failed").len() == 1
    });
    (sandbox, run)
}

/// The rows of the table: state, step and value of the axis.
fn table(terminal: &Terminal) -> Vec<String> {
    let lines = terminal.lines();
    let begin = lines.iter().position(|line| line.starts_with("State")).map_or(lines.len(), |header| header + 1);
    let column = lines[begin - 1].find("value").map_or(0, |column| column);
    let words = |line: &str| {
        let axis: String = line.chars().skip(column).take_while(|char| !char.is_whitespace()).collect();
        let words: Vec<&str> = line.split_whitespace().take(2).chain([axis.as_str()]).collect();
        words.join(" ").trim_end().to_owned()
    };
    let is_row =
        |line: &&String| ["failed ", "running ", "waiting ", "done "].iter().any(|word| line.starts_with(word));
    lines[begin..].iter().filter(is_row).map(|line| words(line)).collect()
}

/// Waits until the table begins with these rows: a screen may be half drawn.
fn until_rows(terminal: &Terminal, rows: &[&str]) {
    until(&format!("the table begins with {rows:?}"), || {
        let table = table(terminal);
        table.len() >= rows.len() && table.iter().zip(rows).all(|(row, expected)| row == expected)
    });
}

#[test]
fn jobs_are_sorted_filtered_and_opened_and_the_screen_is_as_it_was() {
    let (sandbox, run) = live();
    let mut terminal = Terminal::shell(&sandbox, 80, "echo before; \"$0\" watch; echo \"ended with $?\"");
    terminal.until_shown("1 failed");
    terminal.until_shown("/6000 loss 0.50");
    assert!(terminal.with_screen(vt100::Screen::alternate_screen));
    let lines = terminal.lines();
    assert!(lines[0].starts_with("watched · live for "), "{lines:#?}");
    assert_eq!(lines[1], "3 of 6 jobs done, 1 running, 1 failed");
    // A job that failed or runs is first; axes with one value need no column, and a metric may be named like an axis.
    until_rows(&terminal, &["failed broken", "running slow"]);
    let header = lines.iter().find(|line| line.starts_with("State")).unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["State", "Step", "value", "Progress", "Time", "Value"]);

    // By the metric, then in the other direction.
    terminal.press(&format!("{}s", RIGHT.repeat(5)));
    terminal.until_shown("Value▲");
    until_rows(&terminal, &["done quick 0.125", "done quick 0.25", "done quick 1.25"]);
    terminal.press("s");
    terminal.until_shown("Value▼");
    until_rows(&terminal, &["done quick 1.25", "done quick 0.25", "done quick 0.125"]);
    // By the axis, whose values are numbers.
    terminal.press(&format!("{}s", LEFT.repeat(3)));
    terminal.until_shown("value▲");
    until_rows(&terminal, &["done quick 0.125", "done quick 0.25", "done quick 1.25"]);

    terminal.press("/metric:value>=0.25 value=0.1..2|7\r");
    terminal.until_shown("2 of 6 jobs");
    until_rows(&terminal, &["done quick 0.25", "done quick 1.25"]);
    terminal.press("/ momentum=1");
    terminal.until_shown("momentum is not an axis");
    terminal.press("\x1b");
    terminal.until_shown("2 of 6 jobs");
    terminal.press(&format!("{DOWN}\r"));
    terminal.until_shown("quick/value=1.25,variant=7");
    terminal.until_shown("Value 1.25");
    terminal.until_shown("mock job: Mock {");
    terminal.press("\x1b");
    terminal.until_shown("2 of 6 jobs");

    // Escape alone: with a character after it, it would be that character with Alt.
    terminal.press("\x1b");
    until("all jobs are shown again", || table(&terminal).len() == 6);
    // Ctrl-U removes the text, Ctrl-W a word; other characters with Control are none.
    terminal.press("\x15\x0b");
    terminal.press("/state=done\x15value=0.25 seed=1 \x17\x0b\r");
    terminal.until_shown("Filter: value=0.25   1 of 6 jobs");
    // Tags are shown, and are words of the filter.
    let noted = sandbox.sweep(&["note", "quick/value=0.25,variant=7", "--tag", "best"]);
    assert_eq!(noted.code, Some(0), "{}", noted.stderr);
    terminal.until_shown("#best");
    terminal.press("/\x15tag=best\r");
    terminal.until_shown("Filter: tag=best  1 of 6 jobs");
    terminal.press("/\x15state=failed\r");
    terminal.until_shown("Filter: state=failed  1 of 6 jobs");
    terminal.press("\r");
    terminal.until_shown("it was told to fail");
    // A request is seen until the job has ended.
    let requested = sandbox.sweep(&["stop", "after"]);
    assert_eq!(requested.code, Some(0), "{}", requested.stderr);
    let status = sandbox.sweep(&["status"]).stdout;
    assert!(status.contains("after  its end is requested"), "{status}");
    terminal.press("q");
    terminal.until_shown("ended with 0");
    assert!(!terminal.with_screen(|screen| screen.alternate_screen() || screen.hide_cursor()));
    assert_eq!(terminal.ended(0), ["before", "ended with 0"]);
    drop(run);
}

#[test]
fn a_running_job_has_its_curve_and_is_stopped_after_a_question() {
    let (sandbox, run) = live();
    let mut terminal = Terminal::start(&sandbox, 100, &["watch"]);
    terminal.until_shown("/6000 loss 0.50");
    terminal.press("/state=running\r\r");
    terminal.until_shown("slow/seed=1");
    terminal.until_shown("loss");
    terminal.until_shown("[1 of 1]");
    terminal.press("x");
    terminal.until_shown("Stop slow/seed=1? The run continues.");
    terminal.press("n");
    terminal.until_shown("not stopped");
    assert!(sandbox.journal("stopped").is_empty());
    terminal.press("xy");
    terminal.until_shown("the end of slow/seed=1 is requested, as by `sweep stop slow/seed=1`");
    until("the job has stopped", || !sandbox.journal("stopped").is_empty());
    // Jobs that need it are skipped, and the run ends by itself.
    let ended = run.wait();
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 3), ("failed", 1), ("stopped", 1), ("skipped", 1)]);
    terminal.until_shown("stopped");
    terminal.press("\x03");
    terminal.ended(0);
}

#[test]
fn the_terminal_is_restored_after_signals_and_panics() {
    let sandbox = Sandbox::with("steps: { quick: { uses: mock } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let terminal = Terminal::start(&sandbox, 80, &["watch"]);
        terminal.until_shown("1 of 1 job done");
        assert!(!terminal.has_echo());
        terminal.signal(signal);
        until("the terminal is given back", || terminal.has_echo());
        until("the screen is as it was", || terminal.with_screen(|screen| screen.contents().trim().is_empty()));
        terminal.ended(code);
    }
    let terminal = Terminal::shell(
        &sandbox,
        80,
        "RUST_BACKTRACE=0 SWEEP_FAILPOINTS='panic@watch: before drawing' \"$0\" watch; echo \"ended with $?\"",
    );
    terminal.until_shown("ended with 101");
    terminal.until_shown("watch: before drawing");
    assert!(terminal.has_echo() && !terminal.with_screen(|screen| screen.alternate_screen() || screen.hide_cursor()));
    terminal.ended(0);
    // A lost connection ends it.
    let terminal = Terminal::session(&sandbox, 80, &["watch"]);
    terminal.until_shown("1 of 1 job done");
    terminal.hang_up("?");
}

#[test]
fn escape_sequences_of_names_and_logs_are_shown_as_text() {
    let sandbox = Sandbox::with(
        "name: hostile\nsteps:\n  hostile:\n    uses: command\n    matrix: { text: [\"\\e[31m\\e[9;9Hx\", \"y\\r\\nz\"] }\n    with: { run: \"printf '\\\\033[2J\\\\033]0;title\\\\007loud\\\\n'; echo x=1\", env: { T: \"${{ matrix.text }}\" } }\n",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut terminal = Terminal::start(&sandbox, 100, &["watch"]);
    terminal.until_shown("2 of 2 jobs done");
    terminal.until_shown("\\u{1b}[31m\\u{1b}[9;9Hx");
    terminal.press("\r");
    terminal.until_shown("\\u{1b}[2J\\u{1b}]0;title\\u{7}loud");
    terminal.press("q");
    terminal.ended(0);
}

#[test]
fn colors_are_for_terminals_without_no_color() {
    let sandbox = Sandbox::with("steps: { quick: { uses: mock } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    for (script, has_color) in [("\"$0\" watch", false), ("unset NO_COLOR; \"$0\" watch", true)] {
        let mut terminal = Terminal::shell(&sandbox, 80, script);
        terminal.until_shown("1 of 1 job done");
        let colored = terminal.with_screen(|screen| {
            let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
            cells
                .filter_map(|(row, column)| screen.cell(row, column))
                .any(|cell| cell.fgcolor() != vt100::Color::Default)
        });
        assert_eq!(colored, has_color, "{script}");
        terminal.press("q");
        terminal.ended(0);
    }
}

#[test]
fn without_a_terminal_the_other_commands_are_named() {
    let sandbox = Sandbox::with("steps: { quick: { uses: mock } }");
    let ended = sandbox.sweep(&["watch"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    for command in ["`sweep status`", "`sweep logs JOB --follow`", "`sweep ui`"] {
        assert!(ended.stderr.contains(command), "{}", ended.stderr);
    }
}

#[test]
fn a_job_is_stopped_by_command_and_others_go_on() {
    let (sandbox, run) = live();
    for (job, message) in [
        ("quick/value=0.125,variant=7", "only jobs that run, are retried or wait can be stopped"),
        ("broken", "broken is failed"),
        ("slaw/seed=1", "slow/seed=1"),
        ("../../etc", "there is no job"),
    ] {
        let ended = sandbox.sweep(&["stop", job]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{job}: {}", ended.stderr);
    }
    // Before the first job is stopped, all names are looked up.
    assert_eq!(sandbox.sweep(&["stop", "slow/seed=1", "slaw"]).code, Some(2));
    assert!(sandbox.journal("stopped").is_empty());
    let ended = sandbox.sweep(&["stop", "slow/seed=1", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"job\": \"slow/seed=1\""), "{}", ended.stdout);
    assert_eq!(run.wait().code, Some(5));
    let how = sandbox.journal("stopped").remove(0)["event"]["stopped"]["how"].clone();
    assert_eq!(how, "its end was requested");
    // The run is over now; the next one does the job again.
    let ended = sandbox.sweep(&["stop", "slow/seed=1"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("is not live"), "{}", ended.stderr);
    assert_eq!(sandbox.planned(&["recipe.yaml"])["slow/seed=1"], "to run");
}

#[test]
fn a_job_that_waits_does_not_begin_and_a_stop_is_no_failure_of_a_run_that_fails_fast() {
    let sandbox = Sandbox::with(
        "steps:\n  one: { uses: mock, matrix: { seed: [1, 2] }, with: { seconds: 600, steps: 6000 }, resources: { cpus: 1 } }\n  two: { uses: mock, resources: { cpus: 1 } }\n",
    );
    let run = sandbox.start(&["run", "recipe.yaml", "--jobs", "1", "--fail-fast"]);
    until("a job runs", || !sandbox.journal("progress").is_empty());
    let running = sandbox.journal("started").remove(0)["label"].as_str().unwrap().to_owned();
    let waiting = if running == "one/seed=1" { "one/seed=2" } else { "one/seed=1" };
    assert_eq!(sandbox.sweep(&["stop", waiting, &running]).code, Some(0));
    assert_eq!(run.wait().code, Some(5));
    assert_eq!(sandbox.tally(), [("done", 1), ("stopped", 2)]);
    assert_eq!(sandbox.starts().get(waiting), None);
}
