//! `sweep note`.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{
    answer::{self, FormatArgs, answer},
    print, runs,
};
use crate::{
    error::{Error, Exit},
    format::{clean, clean_lines},
    record::Key,
    store::{NoteChange, Notes, Store},
};

#[derive(Debug, Args)]
pub(super) struct NoteArgs {
    /// The job with a result: its step and point, or a prefix of its key.
    job: String,
    /// The note to add. Without a note and tags, the command prints the notes and tags of the record.
    text: Option<String>,
    /// Add a tag: a word without spaces and commas; can be repeated.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Remove a tag; can be repeated.
    #[arg(long, value_name = "TAG")]
    untag: Vec<String>,
    /// Remove the note with this number, counted from 1.
    #[arg(long, value_name = "NUMBER")]
    remove: Option<usize>,
    #[command(flatten)]
    format: FormatArgs,
}

/// The JSON output.
#[derive(Serialize)]
struct Output<'n> {
    job: &'n str,
    key: Key,
    tags: Vec<&'n str>,
    notes: Vec<&'n crate::store::Note>,
}

pub(super) fn note(results: &Path, args: &NoteArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let record = runs::find_record(&store, &args.job)?;
    let tags = args.tag.iter().map(|tag| NoteChange::Tag(tag.clone()));
    let untags = args.untag.iter().map(|tag| NoteChange::Untag(tag.clone()));
    let changes = tags.chain(untags).chain(args.remove.map(NoteChange::Remove));
    let changes: Vec<NoteChange> = changes.chain(args.text.clone().map(NoteChange::Add)).collect();
    let notes = if changes.is_empty() {
        store.notes(record.key).map_err(Error::io("cannot read the notes"))?
    } else {
        store.note(record.key, &changes)?
    };
    if args.format.is_json() {
        let output = Output {
            job: &record.label,
            key: record.key,
            tags: notes.tags().collect(),
            notes: notes.notes().collect(),
        };
        answer(&output, vec![answer::line(results, ["show", &record.key.short()])])?;
    } else {
        let lines = lines(&notes);
        let none = vec!["  no tags and no notes".to_owned()];
        let head = format!("{} · record {}", clean(&record.label), record.key.short());
        let lines = [vec![head], if lines.is_empty() { none } else { lines }].concat();
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

/// Tags and notes for people.
pub(super) fn lines(notes: &Notes) -> Vec<String> {
    let tags: Vec<_> = notes.tags().map(clean).collect();
    let mut lines = Vec::new();
    if !tags.is_empty() {
        lines.push(format!("  tags: {}", tags.join(", ")));
    }
    for (index, note) in notes.notes().enumerate() {
        let text = clean_lines(&note.text).replace('\n', "\n     ");
        lines.push(format!("  {}. {} {text}", index + 1, note.at.strftime("%Y-%m-%d %H:%M UTC:")));
    }
    lines
}
