//! `sweep import`.

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use clap::Args;
use fs_err as fs;
use serde::Serialize;

use super::{
    ChangeArgs, Prepared,
    answer::{self, FormatArgs, answer},
    best::{BestArgs, best},
    init::unchanged,
    print, report,
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, quoted_path, say},
    import::{self, Earlier, End, Kind, Run, Runs, Study, Wishes},
    init::InitError,
    render::ReportData,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The store's folder or file, after its kind (wandb, mlflow, trackio, tensorboard, csv, optuna, hydra, neptune or folders). Default: the kind is detected.
    #[arg(value_name = "[KIND] PATH", num_args = 1..=2, required = true)]
    store: Vec<PathBuf>,
    /// The recipe to write; the runs are written next to it, to `NAME.runs.yaml`. Default: the name of the store.
    #[arg(long, short, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// The parameters that become axes. Default: all parameters that vary, except texts that differ in every run.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    axes: Vec<String>,
    /// The parameter with the seed. Default: the parameter with the most common name for a seed.
    #[arg(long, value_name = "NAME")]
    seed: Option<String>,
    /// The metrics of the table, the most important one first; for CSV, the columns with metrics. Default: metrics with common names first.
    #[arg(long = "metric", value_name = "NAME,…", value_delimiter = ',')]
    metrics: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// The files of a study.
struct Files {
    name: String,
    study: PathBuf,
    runs: PathBuf,
}

pub(super) fn import(results: &Path, args: &ImportArgs) -> Result<Exit, Error> {
    let (kind, path) = source(args)?;
    let mut found = import::read(kind, path, &args.metrics)?;
    let wishes = Wishes { axes: args.axes.clone(), seed: args.seed.clone(), metrics: args.metrics.clone() };
    let study = Study::new(&mut found, &wishes)?;
    // Records and bundles have no path of this machine.
    let whole = fs::canonicalize(path).map_err(Error::io("cannot read the store"))?;
    let store = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = format!("{}, `{}`", kind.title(), clean(&store));
    let files = files(&whole, args.output.as_deref())?;
    let about = format!("{} of {source}", count(found.runs.len(), "run"));
    let text = study.runs_recipe(kind.word(), &files.name, &about);
    let is_kept = is_own(&files)?;
    let earlier = Earlier::read(&files.runs)?;
    let removals = earlier.gone(&study, &files.runs)?;
    let Prepared { plan, .. } = written(results, &files.runs, &text)?;
    let stored = import::store_records(&plan, &found.runs, &study, &source, &Store::open(results)?, &earlier)?;
    if !is_kept {
        let names = [&files.study, &files.runs].map(|file| file.file_name().unwrap_or_default().to_string_lossy());
        let text = study.recipe(&files.name, &names[0], &names[1]);
        written(results, &files.study, &text)?;
    }
    let mut notices = changes(&files, removals, stored);
    notices.extend(found.notices.iter().chain(&study.notices).cloned());
    if is_kept {
        notices.extend(kept(&study, &files)?);
    }
    let import =
        Import { kind, source: &source, about: &about, files: &files, found: &found, study: &study, stored, is_kept };
    import.tell(results, notices, args.format)?;
    Ok(Exit::Done)
}

/// A finished import.
struct Import<'a> {
    kind: Kind,
    /// The program and the name of the store.
    source: &'a str,
    /// The number of runs and the source.
    about: &'a str,
    files: &'a Files,
    found: &'a Runs,
    study: &'a Study,
    stored: import::Stored,
    /// True if the study's recipe is that of an earlier import.
    is_kept: bool,
}

impl Import<'_> {
    /// Configurations of which the table is printed; of more, the best are.
    const MAX_ROWS: usize = 40;

    /// Prints the numbers of runs, the table, what the runs can decide, and the next commands.
    fn tell(&self, results: &Path, mut notices: Vec<String>, format: FormatArgs) -> Result<(), Error> {
        let ends = Ends::of(&self.found.runs);
        if !format.is_json() {
            print(&summary(self.files, self.about, &ends, self.stored))?;
        }
        tell(self.found, &notices);
        let reports = self.report(results, format.is_json(), &mut notices)?;
        let advice = import::advise(&self.found.runs, self.study);
        if format.is_json() {
            return self.answer(results, ends, reports, &notices, &advice);
        }
        for sentence in advice {
            print(&format!("{sentence}\n"))?;
        }
        say(format_args!("next: sweep report {}", quoted_path(&self.files.study)));
        Ok(())
    }

    /// Prints the table of the study, or the best configurations of many; for JSON, returns the report.
    fn report(&self, results: &Path, is_json: bool, notices: &mut Vec<String>) -> Result<Vec<ReportData>, Error> {
        let file = &self.files.study;
        let ranked = self.study.metrics.first().filter(|metric| self.study.better(metric).is_some());
        let number = self.study.configurations();
        let result = match ranked {
            _ if number <= Self::MAX_ROWS => report::of_recipe(results, file, is_json),
            Some(metric) if !is_json => {
                say(format_args!("the best of {} by {}:", count(number, "configuration"), clean(metric)));
                best(results, &BestArgs::of(file, metric)).map(|_| Vec::new())
            }
            _ => Ok(Vec::new()),
        };
        match result {
            // The recipe belongs to the user, and may have axes that the runs do not have any more.
            Err(error) if self.is_kept => {
                let notice = format!("{} has no report: {}", file.display(), error.parts().0);
                say(format_args!("note: {}", clean(&notice)));
                notices.push(notice);
                Ok(Vec::new())
            }
            result => result,
        }
    }

    fn answer(
        &self,
        results: &Path,
        runs: Ends,
        reports: Vec<ReportData>,
        notices: &[String],
        advice: &[String],
    ) -> Result<(), Error> {
        let Self { kind, files, found, study, stored, .. } = self;
        let imported = Imported {
            recipe: &files.study,
            runs_file: &files.runs,
            kind: kind.word(),
            source: self.source,
            runs,
            records: *stored,
            axes: study.axes.iter().map(|(param, axis)| AxisOf { axis, param }).collect(),
            metrics: &study.metrics,
            skipped: found.skipped.iter().map(|(reason, runs)| Skipped { reason, runs: *runs }).collect(),
            notices,
            advice,
            reports,
        };
        let file = files.study.display().to_string();
        let mut next = vec![answer::line(results, ["report", &file])];
        let ranked = study.metrics.first().filter(|metric| study.better(metric).is_some());
        next.extend(ranked.map(|metric| answer::line(results, ["best", &file, "--by", metric])));
        answer(&imported, next)
    }
}

/// The JSON output of `sweep import`.
#[derive(Serialize)]
struct Imported<'a> {
    recipe: &'a Path,
    runs_file: &'a Path,
    /// The kind of the store, as on the command line.
    kind: &'a str,
    /// The program and the name of the store.
    source: &'a str,
    runs: Ends,
    records: import::Stored,
    axes: Vec<AxisOf<'a>>,
    /// The metrics of the table, the most important one first.
    metrics: &'a [String],
    skipped: Vec<Skipped<'a>>,
    notices: &'a [String],
    /// Sentences about seeds, and about the comparison of the two best configurations.
    advice: &'a [String],
    /// The report, unless the study has many configurations.
    reports: Vec<ReportData>,
}

/// An axis of the study, and the parameter at the source.
#[derive(Serialize)]
struct AxisOf<'a> {
    axis: &'a str,
    param: &'a str,
}

/// Runs that are left out.
#[derive(Serialize)]
struct Skipped<'a> {
    reason: &'a str,
    runs: usize,
}

/// Numbers of runs by their ends.
#[derive(Debug, Clone, Copy, Serialize)]
struct Ends {
    finished: usize,
    failed: usize,
    running: usize,
    /// Finished runs with a metric without a finite value.
    diverged: usize,
}

impl Ends {
    fn of(runs: &[Run]) -> Self {
        let failed = runs.iter().filter(|run| matches!(run.end, End::Failed(_))).count();
        let running = runs.iter().filter(|run| run.end == End::Running).count();
        let diverged = runs.iter().filter(|run| is_diverged(run)).count();
        Self { finished: runs.len() - failed - running, failed, running, diverged }
    }
}

/// Sentences about runs of the import before.
fn changes(files: &Files, removals: usize, stored: import::Stored) -> Vec<String> {
    let mut sentences = Vec::new();
    if removals > 0 {
        let file = files.runs.display();
        sentences.push(format!("{} not in the store any more, and {file} leaves them out", of_earlier(removals)));
    }
    if stored.again > 0 {
        let runs = count(stored.again, "run");
        let recipe = quoted_path(&files.study);
        sentences.push(format!(
            "{runs} that did not change got a second record, because the choice of parameters did; `sweep query {recipe}` has only \
             the new ones"
        ));
    }
    sentences
}

/// The kind of the store and its path.
fn source(args: &ImportArgs) -> Result<(Kind, &Path), Error> {
    match args.store.as_slice() {
        [kind, path] => {
            let word = kind.to_string_lossy();
            let known = Kind::of_word(&word).ok_or_else(|| {
                let words = Kind::ALL.map(|(word, ..)| word);
                let help = crate::recipe::suggest(&word, "kinds of stores", words).unwrap_or_default();
                Error::NotFound { message: format!("`{}` is not a kind of store", clean(&word)), help }
            })?;
            Ok((known, path))
        }
        [path, ..] => Ok((import::kind_of(path)?, path)),
        [] => Err(Error::Unknown("name the folder or file to import".to_owned())),
    }
}

/// The files of the study of a store, which is a whole path: `mlruns/` and `.` have the name of their folder.
fn files(store: &Path, output: Option<&Path>) -> Result<Files, Error> {
    let study = match output {
        Some(output) => output.to_owned(),
        None => PathBuf::from(format!("{}.yaml", crate::init::name(store)?)),
    };
    let name = crate::init::name(&study)?;
    let runs = study.with_file_name(format!("{name}.runs.yaml"));
    Ok(Files { name, study, runs })
}

/// True if the study's recipe exists and extends that of the runs; an error if it exists and does not.
fn is_own(files: &Files) -> Result<bool, Error> {
    match fs::read_to_string(&files.study) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("cannot read the recipe")(error)),
        Ok(text) => {
            let runs = files.runs.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let extends = text.lines().any(|line| line.starts_with("extends:") && line.contains(&runs));
            if extends { Ok(true) } else { Err(InitError::Exists(files.study.clone()).into()) }
        }
    }
}

/// Writes a recipe if it plans, and returns its plan. It replaces a file of the same name, which an import has written.
fn written(results: &Path, output: &Path, text: &str) -> Result<Prepared, Error> {
    let writing = || Error::io("cannot write the recipe");
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder).map_err(writing())?;
    let mut beside =
        tempfile::Builder::new().prefix(".import").suffix(".yaml").tempfile_in(folder).map_err(writing())?;
    beside.write_all(text.as_bytes()).map_err(writing())?;
    let changes: ChangeArgs = unchanged();
    let prepared = changes.prepare(results, &[beside.path().to_owned()], &[], false)?;
    beside.as_file().set_permissions(PermissionsExt::from_mode(0o644)).map_err(writing())?;
    beside.persist(output).map_err(|error| writing()(error.error))?;
    Ok(prepared)
}

fn of_earlier(number: usize) -> String {
    format!("{} of the earlier import {}", count(number, "run"), if number == 1 { "is" } else { "are" })
}

/// The numbers of runs.
fn summary(files: &Files, about: &str, ends: &Ends, stored: import::Stored) -> String {
    let Ends { finished, failed, running, diverged } = *ends;
    let ends = [(finished, "finished"), (failed, "failed"), (running, "not ended")];
    let ends: Vec<String> =
        ends.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    let diverged = if diverged > 0 { format!(" ({diverged} with values that are not finite)") } else { String::new() };
    let records = format!("{} new, {} in the store already", count(stored.new, "record"), stored.known);
    format!("{}: {about}: {}{diverged}; {records}\n", files.study.display(), ends.join(", "))
}

/// True if a finished run has a metric without a finite value.
fn is_diverged(run: &Run) -> bool {
    run.end == End::Finished && run.series.values().any(|points| points.last().is_some_and(|last| !last.is_finite()))
}

/// Prints the reasons for runs that are left out, and the notices.
fn tell(found: &Runs, notices: &[String]) {
    let skipped: usize = found.skipped.values().sum();
    if skipped > 0 {
        let reasons: Vec<String> =
            found.skipped.iter().map(|(reason, number)| format!("{number}: {}", clean(reason))).collect();
        say(format_args!("{skipped} of {} skipped: {}", count(found.runs.len() + skipped, "run"), reasons.join("; ")));
    }
    for notice in notices {
        say(format_args!("note: {}", clean(notice)));
    }
}

/// Sentences about a study's recipe that an earlier import has written.
fn kept(study: &Study, files: &Files) -> Result<Vec<String>, Error> {
    let text = fs::read_to_string(&files.study).map_err(Error::io("cannot read the recipe"))?;
    let absent: Vec<&str> =
        study.configuration().map(|(_, axis)| axis.as_str()).filter(|axis| !names(&text, axis)).collect();
    let file = files.study.display();
    let mut sentences = vec![format!("{file} stays as it is")];
    if !absent.is_empty() {
        sentences.push(format!("its tables average over {}, which {file} does not name", absent.join(", ")));
    }
    Ok(sentences)
}

/// True if a recipe has a word outside of comments, its name and that of the recipe which it extends.
fn names(recipe: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
    let lines = recipe.lines().filter(|line| !["name:", "extends:", "#"].iter().any(|key| line.starts_with(key)));
    let contents = lines.map(|line| line.split_once(" #").map_or(line, |(content, _)| content));
    contents.flat_map(|content| content.split(|char| !is_part(char))).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_names_whole_words_outside_of_comments() {
        let recipe =
            "# A study of n.\nname: lr\nextends: lr.runs.yaml\ntables:\n  results: { rows: [opt_lr, depth] } # width\n";
        let axes = ["n", "study", "lr", "width", "opt", "opt_lr", "depth"].map(|axis| names(recipe, axis));
        assert_eq!(axes, [false, false, false, false, false, true, true]);
    }
}
