//! `sweep show`.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use sweep_job::Task;

use super::{print, runs};
use crate::{
    error::{Error, Exit},
    store::{Origin, Record, Store},
    text::{clean, count},
    ui::{duration, quantity},
};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The job: its step and point, or the beginning of its key.
    job: String,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: ShowFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShowFormat {
    Text,
    Json,
}

pub(super) fn show(results: &Path, args: &ShowArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let record = runs::find_record(&store, &args.job)?;
    let origin = store.origin(record.key);
    match args.format {
        ShowFormat::Text => print(&text(&record, origin.as_ref(), &store.folder(record.key)))?,
        ShowFormat::Json => {
            let text = serde_json::to_string_pretty(&Shown { record: &record, origin: origin.as_ref() })
                .map_err(|error| Error::io("cannot write it")(error.into()));
            print(&(text? + "\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// A record, and beside it where it came from.
#[derive(Serialize)]
struct Shown<'r> {
    #[serde(flatten)]
    record: &'r Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'r Origin>,
}

fn text(record: &Record, origin: Option<&Origin>, folder: &Path) -> String {
    let provenance = &record.provenance;
    let device = provenance.device.as_ref().map_or_else(String::new, |device| format!(", {}", device.name));
    let mut lines = vec![
        format!("{} · record {}", record.label, record.key.short()),
        format!(
            "  made {} on {}{device} by sweep {}, in {} with {}",
            provenance.started.strftime("%Y-%m-%d %H:%M UTC"),
            provenance.host,
            provenance.sweep,
            duration(provenance.seconds),
            count(provenance.threads, "thread"),
        ),
        format!("  in {}", folder.display()),
    ];
    // What it says above was said elsewhere.
    lines.extend(origin.map(|origin| format!("  from {origin}")));
    lines.push(format!("task {}", record.identity.task));
    let task = Task::info(&record.identity.task);
    for (name, value) in &record.params {
        let default = task.and_then(|task| task.param(name)).is_some_and(|param| (param.default)() == *value);
        if !default {
            lines.push(format!("  {name}: {value}"));
        }
    }
    let outcome = &record.outcome;
    section(
        &mut lines,
        "metrics",
        outcome.metrics.iter().map(|(name, metric)| format!("{name}: {}", quantity(metric.value, metric.unit))),
    );
    section(&mut lines, "facts", outcome.facts.iter().map(|(name, fact)| format!("{name}: {fact}")));
    section(
        &mut lines,
        "curves",
        outcome.curves.iter().map(|(name, curve)| format!("{name}: {}", count(curve.values.len(), "value"))),
    );
    section(&mut lines, "artifacts", outcome.artifacts.iter().map(|(name, path)| format!("{name}: files/{path}")));
    section(&mut lines, "files", record.files.iter().map(|(name, digest)| format!("{name}: {digest}")));
    let lines: Vec<String> = lines.iter().map(|line| clean(line).into_owned()).collect();
    lines.join("\n") + "\n"
}

fn section(lines: &mut Vec<String>, title: &str, entries: impl Iterator<Item = String>) {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        lines.push(title.to_owned());
        lines.extend(entries.map(|entry| format!("  {entry}")));
    }
}
