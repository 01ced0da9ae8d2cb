//! The reference of the commands, against the program's own help.
//!
//! `UPDATE_DOCS=1 cargo test -p sweep-engine --test engine commands::` writes its generated part.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::sandbox::{Sandbox, repository};

/// The short help of a command.
fn help(sandbox: &Sandbox, command: &[String]) -> String {
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["-h"]).collect();
    let ended = sandbox.sweep(&args);
    assert_eq!(ended.code, Some(0), "{command:?}: {}", ended.stderr);
    ended.stdout
}

/// The part of a help under a heading, without it.
fn part<'t>(text: &'t str, heading: &str) -> &'t str {
    let Some((_, rest)) = text.split_once(&format!("\n{heading}:\n")) else { return "" };
    rest.split("\n\n").next().unwrap_or(rest)
}

/// The commands that a help lists.
fn listed(text: &str) -> Vec<String> {
    let name =
        |line: &str| line.strip_prefix("  ")?.split(' ').next().filter(|word| !word.is_empty()).map(str::to_owned);
    part(text, "Commands").lines().filter_map(name).filter(|name| name != "help").collect()
}

/// Every visible command that does something, with its help.
pub(crate) fn commands() -> BTreeMap<Vec<String>, String> {
    let sandbox = Sandbox::new();
    let (mut found, mut open) = (BTreeMap::new(), vec![Vec::new()]);
    while let Some(command) = open.pop() {
        let text = help(&sandbox, &command);
        let within = listed(&text);
        open.extend(within.iter().map(|name| [command.as_slice(), std::slice::from_ref(name)].concat()));
        if within.is_empty() {
            found.insert(command, text);
        }
    }
    assert!(found.len() > 25, "{found:?}");
    found
}

/// The options of a help that are not those of every command.
fn own_options(text: &str) -> String {
    let mut own = String::new();
    let mut kept = true;
    for line in part(text, "Options").lines() {
        if line.trim_start().starts_with('-') && line.len() - line.trim_start().len() <= 6 {
            kept = !["--results <", "--verbose", "--help", "--version"].iter().any(|option| line.contains(option));
        }
        if kept {
            writeln!(own, "{line}").unwrap();
        }
    }
    own
}

/// The generated part of the page.
fn reference() -> String {
    let mut text = String::new();
    for (command, help) in commands() {
        let about = help.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap();
        write!(text, "\n### `sweep {}`\n\n{about}.\n\n```text\n{usage}\n", command.join(" ")).unwrap();
        for (heading, lines) in
            [("Arguments", part(&help, "Arguments").to_owned() + "\n"), ("Options", own_options(&help))]
        {
            if !lines.trim().is_empty() {
                write!(text, "\n{heading}:\n{lines}").unwrap();
            }
        }
        text += "```\n";
    }
    text + "\n"
}

#[test]
fn the_reference_of_commands_is_their_help() {
    // The page has the commands of every feature.
    if cfg!(not(all(feature = "remote", feature = "ui", feature = "mcp"))) {
        return;
    }
    let path = repository().join("docs/commands.md");
    let page = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- commands:").unwrap();
    let (mark, rest) = rest.split_once("-->\n").unwrap();
    let (there, after) = rest.split_once("<!-- /commands -->").unwrap();
    let made = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, format!("{before}<!-- commands:{mark}-->\n{made}<!-- /commands -->{after}")).unwrap();
    } else {
        assert!(there == made, "docs/commands.md is stale: run the command that its comment names");
    }
}

#[test]
fn the_table_of_commands_has_every_command() {
    let page = fs_err::read_to_string(repository().join("docs/commands.md")).unwrap();
    let table = page.split("| --- | --- |\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let sandbox = Sandbox::new();
    let known: BTreeSet<String> = listed(&help(&sandbox, &[])).into_iter().collect();
    let mut named = BTreeSet::new();
    for row in table.lines() {
        let cell = row.split(" | ").next().unwrap();
        let codes: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        let first = codes[0].strip_prefix("sweep").unwrap().split_whitespace().next().unwrap_or_default();
        // Further names are commands of their own (`examples`), or verbs of the first.
        let within = if first.is_empty() { Vec::new() } else { listed(&help(&sandbox, &[first.to_owned()])) };
        named.insert(first.to_owned());
        for code in &codes[1..] {
            let name = code.split_whitespace().next().unwrap().to_owned();
            let target = first == "export" && ["mlflow", "croissant"].contains(&name.as_str());
            assert!(target || within.contains(&name) || known.contains(&name), "there is no `{name}`: {row}");
            named.insert(name);
        }
    }
    named.remove("");
    let missing: Vec<&String> = known.iter().filter(|name| !named.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/commands.md has no row for {missing:?}");
    let optional =
        |name: &str| (name == "ui" && cfg!(not(feature = "ui"))) || (name == "mcp" && cfg!(not(feature = "mcp")));
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `sweep ")?.split(['`', ' ']).next());
    let unknown: Vec<&str> = rows.filter(|name| !known.contains(*name) && !optional(name)).collect();
    assert!(unknown.is_empty(), "there are no commands {unknown:?}");
}

/// The lines of shell in a text that call `sweep`.
fn calls(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole = blocks.map(|block| block.replace("\\\n", " ")).collect::<Vec<_>>().join("\n");
    whole.lines().map(str::trim).filter(|line| line.starts_with("sweep ")).map(str::to_owned).collect()
}

#[test]
fn commands_in_the_documentation_have_flags_that_exist() {
    let commands = commands();
    let pages = fs_err::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages =
        pages.chain([repository().join("README.md")]).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut seen = 0;
    for page in pages {
        for line in calls(&fs_err::read_to_string(&page).unwrap()) {
            let call = line.split(['#', '|', '&', ';', '>']).next().unwrap();
            let words: Vec<&str> = call.split_whitespace().skip(1).take_while(|word| *word != "--").collect();
            let verbs: Vec<String> = words.iter().take(2).map(|word| (*word).to_owned()).collect();
            let found = commands.get(&verbs).or_else(|| commands.get(&verbs[..1.min(verbs.len())]));
            let Some(help) = found else {
                // The older forms of two commands, and commands of a feature that is not built.
                let other = ["verify", "bundle", "ui"].contains(&words[0]) || words[0].starts_with('-');
                assert!(other, "{}: there is no such command: {line}", page.display());
                continue;
            };
            seen += 1;
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap();
                assert!(has_flag(help, flag), "{}: no {flag}: {line}", page.display());
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// True if a help names a flag.
fn has_flag(help: &str, flag: &str) -> bool {
    help.split(|char: char| !char.is_alphanumeric() && char != '-').any(|word| word == flag)
}

#[test]
fn the_script_of_backends_says_what_it_leaves_out() {
    let script = repository().join("scripts/backends.sh");
    let output = std::process::Command::new("sh").arg(&script).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (options, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success());
    if options.is_empty() {
        assert_eq!(said, "", "nothing is left out");
    } else {
        assert_eq!(options, "--no-default-features --features cpu,mcp,remote,ui\n");
        assert!(said.lines().count() == 1 && said.contains("CPU only"), "{said}");
    }
    // A library that only this variable shows is found.
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("libvulkan.so.1"), "").unwrap();
    let output = std::process::Command::new("sh").arg(&script).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
}
