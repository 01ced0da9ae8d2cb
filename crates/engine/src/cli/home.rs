//! `sweep` without a command: the recipes of the folder, the latest run, and the next commands.

use std::path::{Path, PathBuf};

use super::{nearby, print};
use crate::{
    error::{Error, Exit},
    format::{clean, count, duration},
    host,
    progress::{counts, span},
    run::{RunFolder, watch::Snapshot},
    store::Store,
};

/// Recipes that are listed; the others are counted.
const SHOWN: usize = 12;

/// Prints the recipes of the current folder, the latest run, the number of records and the next command.
pub(super) fn home(results: &Path) -> Result<Exit, Error> {
    let recipes = nearby::recipes(Path::new(""), results);
    let latest_run =
        RunFolder::all(results).into_iter().rev().find_map(|folder| Some((Snapshot::read(&folder).ok()?, folder)));
    let records = Store::new(results).keys().map_or(0, |keys| keys.len());
    let mut lines =
        vec![concat!("sweep ", env!("CARGO_PKG_VERSION"), ": ablations and sweeps from recipes").to_owned()];
    lines.push(String::new());
    lines.extend(listed(&recipes));
    if let Some((snapshot, folder)) = &latest_run {
        lines.push(format!(
            "latest run: {} · {} · {}",
            folder.name(),
            clean(&snapshot.manifest.recipe),
            ended(snapshot)
        ));
        lines.push(format!("  {}", counts(snapshot)));
    }
    if records > 0 {
        lines.push(format!("{} in {}", count(records, "record"), results.display()));
    }
    lines.push(String::new());
    let next = next(&recipes, latest_run.as_ref().map(|(snapshot, _)| snapshot));
    let width = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (index, (command, purpose)) in next.iter().enumerate() {
        lines.push(format!("{} {command:width$}  {purpose}", if index == 0 { "next:" } else { "     " }));
    }
    lines.push("      `sweep --help` lists all commands".to_owned());
    print(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}

fn listed(recipes: &[PathBuf]) -> Vec<String> {
    if recipes.is_empty() {
        return vec!["there are no recipes in this folder".to_owned()];
    }
    let names: Vec<String> = recipes.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!("{} in this folder:", count(recipes.len(), "recipe"))];
    for (name, path) in names.iter().zip(recipes) {
        let about = nearby::about(&nearby::beginning(path)).unwrap_or_default();
        lines.push(format!("  {:width$}  {}", clean(name), clean(&about)).trim_end().to_owned());
    }
    if recipes.len() > SHOWN {
        lines.push(format!("  and {} more", recipes.len() - SHOWN));
    }
    lines
}

/// The state of a run in a few words.
fn ended(snapshot: &Snapshot) -> String {
    let now = host::clock::now();
    match &snapshot.summary {
        _ if snapshot.live => format!("live since {}", span(now, snapshot.manifest.at)),
        Some(summary) => {
            let word = if summary.interrupted.is_some() { "interrupted" } else { "ended" };
            format!("{word} {} ago after {}", span(now, snapshot.last), duration(summary.seconds))
        }
        None if snapshot.elsewhere => "in the queue".to_owned(),
        None => format!("its engine was killed {} ago", span(now, snapshot.last)),
    }
}

/// The commands that are likely to be next, each with its purpose, the likeliest first.
fn next(recipes: &[PathBuf], latest: Option<&Snapshot>) -> Vec<(String, &'static str)> {
    let last_run = latest.and_then(|snapshot| Some((snapshot, snapshot.manifest.typed.first()?)));
    let status = || ("sweep status".to_owned(), "shows each of its jobs");
    match (last_run, recipes.first()) {
        (Some((snapshot, _)), _) if snapshot.live => {
            let mut next = vec![status()];
            if cfg!(feature = "ui") {
                next.push(("sweep ui".to_owned(), "follows it on a page"));
            }
            next
        }
        (Some((snapshot, recipe)), _) => {
            let is_done = snapshot.summary.as_ref().is_some_and(|summary| {
                summary.interrupted.is_none() && summary.failed + summary.skipped + summary.stopped == 0
            });
            let first_command = if is_done {
                (format!("sweep report {recipe}"), "prints its tables")
            } else {
                (format!("sweep run {recipe}"), "continues it")
            };
            vec![
                first_command,
                status(),
                (
                    format!("sweep plan {recipe}"),
                    "shows the cached jobs and the jobs that \
                would run",
                ),
            ]
        }
        (None, Some(recipe)) => vec![
            (format!("sweep plan {}", recipe.display()), "shows its jobs, without running them"),
            (format!("sweep run {}", recipe.display()), "runs those that are not cached"),
        ],
        (None, None) => vec![
            ("sweep demo".to_owned(), "runs a small study, and prints its results"),
            ("sweep new".to_owned(), "writes an example recipe"),
            ("sweep new train.py".to_owned(), "writes a recipe with the parameters of a script"),
            ("sweep examples".to_owned(), "lists the recipes that come with the program"),
        ],
    }
}
