//! The page of ten tasks: every command is run, and its output must equal the page's.

use crate::sandbox::Sandbox;

/// Maximum number of bytes of the commands and their output, four of which are about a token.
const MAX_BYTES: usize = 4 * 10_000;

/// The text of a page of the documentation.
fn page(name: &str) -> String {
    fs_err::read_to_string(crate::sandbox::repository().join("docs").join(name)).unwrap()
}

/// The blocks of a language in a part of a page.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let opening = format!("```{language}\n");
    text.split(opening.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A text with one space between two words, so that columns do not depend on the width of others.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a line of shell in a folder, with `sweep` on the path; returns the exit code and all output.
fn shell(sandbox: &Sandbox, line: &str) -> (Option<i32>, String) {
    let programs = sandbox.path(".bin");
    fs_err::create_dir_all(&programs).unwrap();
    if !programs.join("sweep").exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sweep-engine"), programs.join("sweep")).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("exec 2>&1\n{line}")]).current_dir(sandbox.path("")).env("PATH", path);
    command.env("NO_COLOR", "1").env("SWEEP_LOCKS", sandbox.path("")).stdin(std::process::Stdio::null());
    command.env_remove("SWEEP_RESULTS").env_remove("SWEEP_LOG");
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn ten_tasks_of_a_new_user_are_done_as_the_page_says() {
    let text = page("usability.md");
    let mut sections = text.split("\n## ");
    let beginning = sections.next().unwrap();
    let sandbox = Sandbox::new();
    sandbox.write("train.py", blocks(beginning, "python")[0]);
    sandbox.write("study.yaml", blocks(beginning, "yaml")[0]);
    let (mut done, mut bytes) = (0, 0);
    for section in sections {
        done += 1;
        let title = section.lines().next().unwrap();
        assert!(title.starts_with(&format!("{done}. ")), "{title}");
        let commands: Vec<&str> = blocks(section, "sh").into_iter().flat_map(str::lines).collect();
        assert!((1..=2).contains(&commands.len()), "{title}: {commands:?}");
        let mut printed = String::new();
        for command in commands {
            let (code, output) = shell(&sandbox, command);
            assert_eq!(code, Some(0), "{title}: {command}\n{output}");
            printed += &output;
            bytes += command.len() + output.len();
        }
        let lines: Vec<&str> = blocks(section, "text").into_iter().flat_map(str::lines).collect();
        assert!(!lines.is_empty(), "{title} shows no output");
        for line in lines {
            assert!(words(&printed).contains(&words(line)), "{title}: `{line}` is not in\n{printed}");
        }
    }
    assert_eq!(done, 10);
    assert!(bytes <= MAX_BYTES, "an agent writes and reads {bytes} bytes");
}
