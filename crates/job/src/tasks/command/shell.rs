//! `run`: the shell of a script.

use super::Command;
use crate::Conflict;

/// Shells that can report the failure of any part of a pipeline.
const WITH_PIPEFAIL: [&str; 4] = ["bash", "zsh", "ksh", "mksh"];
/// Shells that cannot, or not in every version.
const WITHOUT: [&str; 2] = ["sh", "dash"];

/// The shell of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// The program and its arguments before the script.
    Given(Vec<String>),
    /// A shell that ends the script if any part of a pipeline fails.
    Pipefail,
    /// Any shell of POSIX.
    Plain,
}

impl Shell {
    /// The arguments of a shell of POSIX before its script.
    pub const PLAIN: [&'static str; 2] = ["-eu", "-c"];
    /// The arguments of a shell with `pipefail`.
    pub const PIPEFAIL: [&'static str; 3] = ["-euo", "pipefail", "-c"];

    /// The shell of a script; `given` is the parameter `shell`.
    pub fn of(script: &str, given: Option<&[String]>) -> Self {
        match given {
            Some([name]) if WITH_PIPEFAIL.contains(&name.as_str()) => Self::named(name, &Self::PIPEFAIL),
            Some([name]) if WITHOUT.contains(&name.as_str()) => Self::named(name, &Self::PLAIN),
            Some(words) => Self::Given(words.to_vec()),
            None if may_pipe(script) => Self::Pipefail,
            None => Self::Plain,
        }
    }

    fn named(name: &str, arguments: &[&str]) -> Self {
        Self::Given(std::iter::once(&name).chain(arguments).map(|word| (*word).to_owned()).collect())
    }
}

/// True if a script may contain a pipeline: it has a `|` that is not quoted and not part of `||`, or runs a text or a file
/// that may have one, or sets `pipefail`.
pub(super) fn may_pipe(script: &str) -> bool {
    let is_word = |char: char| !char.is_whitespace() && !";&(){}|`\"'".contains(char);
    let sets_it = script.split(|char| !is_word(char)).any(|word| word == "pipefail");
    sets_it || runs_more(script) || has_bar(&unquoted(script).unwrap_or_else(|| script.to_owned()))
}

/// True if a command of a script is `eval`, `source` or `.`.
fn runs_more(script: &str) -> bool {
    const BEFORE: [&str; 10] = ["if", "then", "else", "elif", "while", "until", "do", "!", "builtin", "command"];
    script.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`', '"']).any(|command| {
        let mut words = command.split_whitespace();
        let first = words.find(|word| !BEFORE.contains(word) && !word.contains('='));
        first.is_some_and(|word| matches!(word, "eval" | "source" | "."))
    })
}

/// True if a text has a `|` that is not part of `||`.
fn has_bar(script: &str) -> bool {
    script.replace("||", "").contains('|')
}

/// A script without its single-quoted texts and its comments; `None` if it is not clear where these end.
fn unquoted(script: &str) -> Option<String> {
    let is_nested = script.contains('"') && (script.contains("$(") || script.contains('`'));
    if is_nested || script.contains("<<") {
        return None;
    }
    let mut out = String::new();
    let (mut chars, mut is_double, mut begins) = (script.chars(), false, true);
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                chars.next();
            }
            '"' => is_double = !is_double,
            '\'' if !is_double => {
                chars.by_ref().find(|char| *char == '\'')?;
            }
            '#' if begins && !is_double => {
                chars.by_ref().find(|char| *char == '\n');
                out.push('\n');
            }
            char => out.push(char),
        }
        begins = char.is_whitespace() || ";&|()#".contains(char);
    }
    (!is_double).then_some(out)
}

impl Command {
    /// The shell of its script.
    pub fn shell(&self) -> Option<Shell> {
        Some(Shell::of(self.run.as_ref()?, self.shell.as_ref().map(|shell| shell.0.as_slice())))
    }

    pub(super) fn check_shell(&self, conflicts: &mut Vec<Conflict>) {
        let Some(shell) = &self.shell else { return };
        let (message, advice) = match shell.0.as_slice() {
            _ if self.run.is_none() => (
                "`shell` is the shell of `run`, which is not given".to_owned(),
                "remove `shell`, or write the script as `run`".to_owned(),
            ),
            [] => ("`shell` is empty".to_owned(), "remove it, or write the name of a shell: `bash`".to_owned()),
            [name] if !WITH_PIPEFAIL.contains(&name.as_str()) && !WITHOUT.contains(&name.as_str()) => {
                let words: Vec<&str> = name.split_whitespace().collect();
                let list = if words.len() > 1 { words.join(", ") } else { format!("{name}, -c") };
                let known = [WITH_PIPEFAIL.as_slice(), &WITHOUT].concat().join("`, `");
                let advice = format!("write `{known}`, or a list with the arguments before the script: `[{list}]`");
                (format!("`shell` has the unknown value `{name}`"), advice)
            }
            _ => return,
        };
        conflicts.push(Conflict { params: vec!["shell"], message, advice });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_with_pipes_are_recognized() {
        for script in [
            "a | b",
            "a|b",
            "x=$(a | b)",
            "echo \"$(a | b)\"",
            "a |& b",
            "a || b | c",
            "set -o pipefail",
            ". ./lib.sh",
            "if true; then . ./lib.sh; fi",
            "A=1 . ./lib.sh",
            "eval \"$X\"",
            "cat <<X\nit's\nX\na | b",
            "echo it\\'s; a | b",
            "echo \"it's\"; a | b",
            "a # it's\n| b",
            "echo 'a' | b",
            "x=\"$(echo \"it's\" | tee \"that's\")\"",
        ] {
            assert_eq!(Shell::of(script, None), Shell::Pipefail, "{script}");
        }
        for script in [
            "a || b",
            "echo 'a | b'",
            "python3 -c 'print(1 | 2)'",
            "a # b | c",
            "./run.sh x.y",
            "a; b && c",
            "cp -r x .",
            "cd . && echo source",
        ] {
            assert_eq!(Shell::of(script, None), Shell::Plain, "{script}");
        }
    }

    #[test]
    fn named_shells_get_their_arguments() {
        let given = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match Shell::of("a | b", Some(&words)) {
                Shell::Given(words) => words.join(" "),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(given(&["bash"]), "bash -euo pipefail -c");
        assert_eq!(given(&["sh"]), "sh -eu -c");
        assert_eq!(given(&["zsh", "-c"]), "zsh -c");
    }
}
