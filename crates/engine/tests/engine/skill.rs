//! The skill for agents (`sweep new --agent`).

use clap::CommandFactory as _;
use sweep_engine::{cli::Cli, error::Exit};

use crate::sandbox::Sandbox;

/// The texts between backticks that begin with `sweep `.
fn commands(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|code| code.starts_with("sweep ")).collect()
}

#[test]
fn it_is_short_and_its_commands_and_exit_codes_exist() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["new", "--agent"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ".agents/skills/sweep/SKILL.md\n"), "{}", ended.stderr);
    let text = sandbox.read(".agents/skills/sweep/SKILL.md");
    assert!(text.lines().count() <= 80);
    let commands = commands(&text);
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let words = command.split(" > ").next().unwrap().split_whitespace().map(|word| word.trim_matches('\''));
        let parsed = Cli::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
    }
    let (_, codes) = text.split_once("## Exit codes").unwrap();
    let (codes, _) = codes.split_once("## Rules").unwrap();
    let codes = codes.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok());
    let exits = [
        Exit::Done,
        Exit::Failure,
        Exit::Usage,
        Exit::Recipe,
        Exit::NothingSelected,
        Exit::JobFailed,
        Exit::Refuted,
        Exit::Interrupted(2),
    ];
    assert_eq!(codes.collect::<Vec<_>>(), exits.map(Exit::code));
}

#[test]
fn the_named_commands_answer_as_json_and_a_file_is_never_replaced() {
    let sandbox = Sandbox::new();
    sandbox.sweep(&["new", "--agent", "--output", "SKILL.md"]);
    let text = sandbox.read("SKILL.md");
    let line = text.split_once("Add `--format json` to ").unwrap().1;
    let names = line.split_once(';').unwrap().0.split('`').skip(1).step_by(2);
    for name in names {
        let command = Cli::command();
        let command = command.get_subcommands().find(|command| command.get_name() == name);
        let command = command.unwrap_or_else(|| panic!("there is no command `{name}`"));
        assert!(command.get_arguments().any(|argument| argument.get_long() == Some("format")), "{name}");
    }
    let again = sandbox.sweep(&["new", "--agent", "--output", "SKILL.md"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("SKILL.md exists and is not overwritten"), "{}", again.stderr);
    assert_eq!(sandbox.sweep(&["new", "--agent", "train.py"]).code, Some(2));
}
