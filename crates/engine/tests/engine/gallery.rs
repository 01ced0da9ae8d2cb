//! The gallery of mistakes: `crates/engine/tests/mistakes/` has a page for each section of a recipe, with bad recipes and the message that
//! each of them gets, and pages of typical recipes and commands of newcomers. `INSTA_UPDATE=always` writes the current messages.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crate::sandbox::{Sandbox, list};

/// The fence before a recipe.
const RECIPE: &str = "```yaml\n";
/// The fence before a command and its output.
const CONSOLE: &str = "```console\n$ sweep ";
const END: &str = "```\n";

/// A recipe of a page, and how it is run.
struct Mistake<'a> {
    name: &'a str,
    recipe: &'a str,
    command: &'a str,
}

impl<'a> Mistake<'a> {
    /// Reads the text after a heading.
    fn read(entry: &'a str) -> Option<Self> {
        let (name, rest) = entry.split_once('\n')?;
        let (recipe, rest) = rest.split_once(RECIPE)?.1.split_once(END)?;
        let command = rest.split_once(CONSOLE)?.1.split_once('\n')?.0;
        Some(Self { name, recipe, command })
    }

    /// The message, after the checks that hold for all of them.
    fn message(&self) -> String {
        let sandbox = Sandbox::with(self.recipe);
        let ended = sandbox.sweep(&self.command.split(' ').collect::<Vec<_>>());
        let (name, text) = (self.name, &ended.stderr.replace(&sandbox.path("").display().to_string(), "[folder]/"));
        let text = &text.replace(sandbox.path("").display().to_string().trim_end_matches('/'), "[folder]");
        if !text.contains("is not a valid recipe") {
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}: {text}");
            assert!(text.starts_with("error: "), "{name}: {text}");
            assert!(!sandbox.path("results").exists(), "{name}: nothing was run");
            return text.clone();
        }
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""), "{name}: {text}");
        assert!(!sandbox.path("results").exists(), "{name}: nothing was run");
        let places = text.matches("╭─[recipe.yaml:").count() + text.matches("╭─[--").count();
        assert_eq!(text.matches("  × ").count(), places, "{name}: every mistake has a place: {text}");
        assert_ne!(places, 0, "{name}: {text}");
        text.clone()
    }

    /// The entry with the message that the recipe gets now.
    fn entry(&self) -> String {
        let Self { name, recipe, command } = self;
        format!("{name}\n\n{RECIPE}{recipe}{END}\n{CONSOLE}{command}\n{}{END}", self.message())
    }
}

fn pages() -> Vec<PathBuf> {
    list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes"))
}

#[test]
fn every_mistake_has_its_place() {
    let update = std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always");
    let mut stale = Vec::new();
    for page in pages() {
        let text = fs_err::read_to_string(&page).unwrap();
        let mut entries = text.split("\n## ");
        let mut now = entries.next().unwrap().to_owned();
        for entry in entries {
            let mistake = Mistake::read(entry).unwrap_or_else(|| panic!("{}: not an entry:\n{entry}", page.display()));
            let new = mistake.entry();
            if new.trim_end() != entry.trim_end() {
                stale.push(format!("{}: {new}", page.display()));
            }
            write!(now, "\n## {new}").unwrap();
        }
        if update {
            fs_err::write(&page, now).unwrap();
        }
    }
    assert!(update || stale.is_empty(), "other messages than the pages have:\n\n{}", stale.join("\n"));
}
