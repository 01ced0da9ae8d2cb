//! Measurements of a finished program, taken again from its record, its log and its kept files after `reads` or
//! `metrics` changed. The program does not run.

mod log;
mod origin;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use sweep_job::{
    Curve, Metric, Outcome, Reported, ReportedSource, Task, TaskSpec as _, Values,
    tasks::{Collect, Command, MetricsFrom, Pattern, is_pattern},
};

use self::{log::Log, origin::attributed};
use super::{
    kept::KEPT,
    program::Output,
    reads::{self, source_name},
    report::{REPORT, Series, State},
    values::{is_own, is_reserved},
    words::{self, plain},
};
use crate::{batches::Again, record::Record};

/// The kind of a source in a program's output.
const STDOUT: &str = "stdout";

/// A record with the places of the files that its metrics can be taken from.
struct Stored<'a> {
    record: &'a Record,
    /// Folder of the job's files.
    files: &'a Path,
    log: Result<Log, String>,
}

/// The reports of a source that is read now.
struct Source {
    reported: ReportedSource,
    curves: BTreeMap<String, Curve>,
}

/// Takes the metrics and curves of a finished program again, as `values` read them. `files` is the folder of its files.
/// `None` if the record cannot be understood.
pub fn measure_again(record: &Record, values: &Values, files: &Path, log: Option<&Path>) -> Option<Again> {
    let task = Task::info(Command::NAME)?;
    let params = task.complete(record.params.clone());
    let mut new_params = params.clone();
    for name in Command::MEASURING {
        new_params.insert(name.to_owned(), values.get(name)?.clone());
    }
    let (old_command, new_command) = (Command::build(&params)?, Command::build(&new_params)?);
    if (&old_command.reads, &old_command.metrics) == (&new_command.reads, &new_command.metrics) {
        return Some(Again { outcome: record.outcome.clone(), notes: Vec::new() });
    }
    let mut stored_job = Stored { record, files, log: Log::of(record, log) };
    if record.provenance.log.is_none() {
        stored_job.check_log(&old_command);
    }
    Some(stored_job.measure(&old_command, &new_command))
}

impl Stored<'_> {
    fn measure(&self, old_command: &Command, new_command: &Command) -> Again {
        let (mut notes, mut absent_metrics, mut lacks_files) = (Vec::new(), Vec::new(), false);
        let known_reports = match &self.record.outcome.reported {
            Some(reported) => Reported::clone(reported),
            None => attributed(self, old_command),
        };
        let mut sources = Vec::new();
        for name in names(new_command) {
            if let Some(reported) = known_reports.source(&name) {
                let curves = self.curves(&known_reports, &name, old_command);
                sources.push(Source { reported: reported.clone(), curves });
                continue;
            }
            let Some((kind, place)) = name.split_once(' ') else { continue };
            match self.replay(new_command, kind, place) {
                Ok((source, remarks)) => {
                    notes.extend(remarks);
                    sources.push(source);
                }
                Err(reason) => {
                    lacks_files = true;
                    let names = if kind == STDOUT { groups(place) } else { Vec::new() };
                    absent_metrics.extend(names.into_iter().map(|name| (name, reason.clone(), sources.len())));
                    notes.push(reason);
                }
            }
        }
        let mut outcome = self.record.outcome.clone();
        let known_notes = notes.len();
        let numbers = self.found(old_command, new_command, &known_reports, &mut notes);
        if lacks_files || notes.len() > known_notes {
            notes.push("`sweep cache rm JOB --yes` and a run measure all of it".to_owned());
        }
        take(new_command, &sources, numbers, &mut outcome, &mut notes);
        for (name, reason, place) in absent_metrics {
            // A source that takes precedence may have the metric; the value of another source would be wrong.
            if !sources[..place].iter().any(|source| source.reported.has(&name)) {
                outcome.metrics.remove(&name);
                outcome.metrics.remove(&format!("{name}.step"));
                outcome.curves.remove(&name);
                outcome.facts.insert(format!("absent.{name}"), reason);
            }
        }
        let Outcome { facts, metrics, .. } = &mut outcome;
        facts.retain(|fact, _| fact.strip_prefix("absent.").is_none_or(|name| !metrics.contains_key(name)));
        // A source that is read again later is still known then.
        let mut all_sources: Vec<ReportedSource> = sources.into_iter().map(|source| source.reported).collect();
        let other_sources = known_reports
            .sources
            .into_iter()
            .filter(|other| all_sources.iter().all(|source| source.name != other.name));
        let other_sources: Vec<ReportedSource> = other_sources.collect();
        all_sources.extend(other_sources);
        let is_known = self.record.outcome.reported.is_some();
        outcome.reported =
            is_known.then(|| Box::new(Reported { sources: all_sources, lines: known_reports.lines, ..known_reports }));
        Again { outcome, notes }
    }

    /// Does without a log of an earlier version in which standard output and standard error are mixed within lines: such a
    /// log does not reproduce the recorded curves.
    fn check_log(&mut self, old_command: &Command) {
        let patterns = old_command.sources().filter(|(kind, _)| *kind == STDOUT);
        let differs = |(kind, place)| {
            let Ok((source, _)) = self.replay(old_command, kind, place) else { return false };
            let curves = &self.record.outcome.curves;
            source.curves.iter().any(|(name, curve)| curves.get(name) != Some(curve))
                || groups(place).iter().any(|name| curves.contains_key(name) && !source.curves.contains_key(name))
        };
        if patterns.into_iter().any(differs) {
            self.log = Err("the log of its run does not give the curves that were recorded".into());
        }
    }

    /// The path of a file that the program wrote, if it was kept. A pattern stays one.
    fn locate(&self, place: &str) -> PathBuf {
        let kept_files = self.files.join(KEPT);
        let is_kept =
            kept_files.join(place).exists() || is_pattern(place) && !reads::matching(&kept_files, place).is_empty();
        if is_kept { kept_files.join(place) } else { self.files.join(place) }
    }

    /// True if a file that the program wrote was kept.
    fn has(&self, place: &str) -> bool {
        self.locate(place).exists()
            || is_pattern(place)
                && [self.files, &self.files.join(KEPT)].iter().any(|root| !reads::matching(root, place).is_empty())
    }

    /// Reads a source from the stored files. The error is the reason why the files cannot be read.
    fn replay(&self, command: &Command, kind: &str, place: &str) -> Result<(Source, Vec<String>), String> {
        let name = source_name(kind, place);
        let is_output = kind == STDOUT;
        if !is_output && !self.has(place) {
            return Err(format!(
                "`{place}` was not kept, so that nothing can be read from it; the values of other sources are kept"
            ));
        }
        let mut kind_command = command.clone();
        // Nothing would take the matches of other patterns, so that a long log would wait for room.
        kind_command.reads.retain(|read_kind, places| {
            places.0.retain(|other| other == place);
            read_kind == kind
        });
        let open_source = || {
            let (sources, patterns) = reads::sources(&kind_command, |place| self.locate(place), &mut State::default());
            let source = sources.into_iter().find(|source| source.name == name);
            source.map(|source| (source, patterns)).ok_or_else(|| format!("`{place}` cannot be read"))
        };
        let read_error = |error: std::io::Error| format!("`{place}` cannot be read: {error}");
        let mut series = Series::default();
        if is_output {
            let log = self.log.as_ref().map_err(|reason| format!("the pattern `{place}` finds nothing: {reason}"))?;
            for part in log.parts() {
                let (mut source, patterns) = open_source()?;
                source.series = series.resume();
                let mut line_count = 0;
                log.lines(part, &mut |line| {
                    // A log has both outputs.
                    patterns.hear(Output::Out, &plain(line), false);
                    line_count += 1;
                    if line_count % 1000 == 0 {
                        // An error is ignored: the source is read from memory, which cannot fail.
                        let _ = source.follower.poll(&mut source.series);
                    }
                })
                .map_err(read_error)?;
                source.follower.finish(&mut source.series).map_err(read_error)?;
                series = source.series;
            }
        } else {
            let (mut source, _) = open_source()?;
            source.follower.finish(&mut source.series).map_err(read_error)?;
            series = source.series;
        }
        let mut notes = series.notes();
        let reported = series.reported(&name);
        // A program need not print every number in every job, which the table shows.
        if reported == ReportedSource::of(&name) && !is_output {
            notes.push(format!("`{place}` finds nothing in the stored files"));
        }
        let mut curves = BTreeMap::new();
        series.curves(&mut curves);
        Ok((Source { reported, curves }, notes))
    }

    /// The curves of a source of the record that no other source hides.
    fn curves(&self, known_reports: &Reported, source: &str, old_command: &Command) -> BTreeMap<String, Curve> {
        let read_names = names(old_command);
        let is_own = |name: &&String| {
            let mut sources = known_reports.sources.iter().filter(|source| read_names.contains(&source.name));
            sources
                .find(|source| source.series.contains_key(*name))
                .is_some_and(|first_source| first_source.name == source)
        };
        let curves = self.record.outcome.curves.iter();
        curves.filter(|(name, _)| is_own(name)).map(|(name, curve)| (name.clone(), curve.clone())).collect()
    }

    /// The numbers of the metrics file, or of lines `name=value`; `None` for a number that is not finite.
    fn found(
        &self,
        old_command: &Command,
        new_command: &Command,
        known_reports: &Reported,
        notes: &mut Vec<String>,
    ) -> BTreeMap<String, Option<Metric>> {
        let file = |command: &Command| command.metrics.as_ref().and_then(MetricsFrom::file).map(|file| file.0.clone());
        let (old_file, new_file) = (file(old_command), file(new_command));
        let is_same = old_file == new_file;
        match new_file {
            Some(path) => match words::read_json(&self.locate(&path)) {
                Ok(numbers) => {
                    let finite_metric = |metric: Metric| metric.value.is_finite().then_some(metric);
                    numbers.found.into_iter().map(|(name, metric)| (name, finite_metric(metric))).collect()
                }
                Err(_) if is_same => self.rest(old_command, known_reports),
                Err(_) => {
                    notes.push(format!("the metrics file `{path}` was not kept, so that nothing can be read from it"));
                    BTreeMap::new()
                }
            },
            None if self.record.outcome.reported.is_some() => known_reports.lines.clone(),
            None if is_same => self.rest(old_command, known_reports),
            None => match &self.log {
                Ok(log) => log.words(),
                Err(reason) => {
                    notes.push(format!("lines `name=value` cannot be read: {reason}"));
                    BTreeMap::new()
                }
            },
        }
    }

    /// The metrics of a record that come neither from the task nor from a source.
    fn rest(&self, old_command: &Command, known_reports: &Reported) -> BTreeMap<String, Option<Metric>> {
        let Outcome { metrics, curves, .. } = &self.record.outcome;
        let collect = collect(old_command);
        let is_step = |name: &str| {
            let series = name.strip_suffix(".step").filter(|series| curves.contains_key(*series));
            let mode = series.and_then(|series| collect.get(series));
            mode.is_some_and(|mode| mode.has_step())
        };
        let is_reported = |name: &str| {
            curves.contains_key(name) || is_step(name) || known_reports.sources.iter().any(|source| source.has(name))
        };
        let other_metrics = metrics.iter().filter(|(name, _)| !is_own(name) && !is_reported(name));
        other_metrics.map(|(name, metric)| (name.clone(), Some(*metric))).collect()
    }
}

/// Sets the metrics and curves of an outcome.
fn take(
    new_command: &Command,
    sources: &[Source],
    numbers: BTreeMap<String, Option<Metric>>,
    outcome: &mut Outcome,
    notes: &mut Vec<String>,
) {
    let old_facts: Vec<String> = outcome.diverged().map(|(name, _)| Outcome::absent(name)).collect();
    for fact in old_facts {
        outcome.facts.remove(&fact);
    }
    outcome.metrics.retain(|name, _| is_own(name));
    for (name, metric) in numbers.into_iter().filter(|(name, _)| !is_reserved(name)) {
        outcome.metrics.remove(&name);
        let Some(Metric { value, unit }) = metric else {
            outcome.set_diverged(&name, None);
            continue;
        };
        outcome.set_open(&name, value, unit);
    }
    let collect = collect(new_command);
    let (mut metrics, mut curves) = (BTreeMap::new(), BTreeMap::new());
    let mut diverged = BTreeMap::new();
    for source in sources.iter().rev() {
        source.reported.metrics(&collect, &mut metrics);
        diverged.retain(|name: &String, _| !source.reported.has(name));
        diverged.extend(source.reported.diverged(&collect).map(|(name, since)| (name.clone(), since)));
        for name in source.reported.series.keys() {
            curves.remove(name);
        }
        curves.extend(source.curves.clone());
    }
    let series = sources.iter().flat_map(|source| &source.reported.series);
    let drawn_names: BTreeSet<&String> =
        series.filter(|(_, aggregates)| aggregates.first.is_some()).map(|(name, _)| name).collect();
    for name in drawn_names.into_iter().filter(|name| !curves.contains_key(*name)) {
        notes.push(format!("the curve of `{name}` was not kept"));
    }
    for (name, mode) in &collect {
        let is_reported = sources.iter().any(|source| source.reported.has(name));
        if !is_reported && !outcome.metrics.contains_key(name) {
            notes.push(format!("`metrics` names `{name}`, which no stored file reports"));
        }
        let first_source = sources.iter().find(|source| source.reported.has(name));
        let series = first_source.and_then(|source| source.reported.series.get(name));
        if matches!(mode, Collect::Mean | Collect::MeanFinite)
            && series.is_some_and(|series| series.mean.is_none() && series.first.is_some())
        {
            notes.push(format!("the mean of `{name}` is not known: its curve has not all points"));
        }
    }
    for (name, Metric { value, unit }) in metrics.into_iter().filter(|(name, _)| !is_reserved(name)) {
        outcome.facts.remove(&Outcome::absent(&name));
        outcome.set_open(&name, value, unit);
    }
    for (name, since) in diverged.into_iter().filter(|(name, _)| !is_reserved(name)) {
        collect.get(&name).copied().unwrap_or(Collect::Last).remove(&name, &mut outcome.metrics);
        outcome.set_diverged(&name, since);
    }
    outcome.curves = curves.into_iter().map(|(name, curve)| (name.clone(), curve.named(&name))).collect();
}

/// The names of the sources of a program, those first that take precedence.
fn names(command: &Command) -> Vec<String> {
    let sources = command.sources().map(|(kind, place)| source_name(kind, place));
    std::iter::once(REPORT.to_owned()).chain(sources).collect()
}

/// The values that become the metrics of series.
fn collect(command: &Command) -> BTreeMap<String, Collect> {
    command.metrics.as_ref().and_then(MetricsFrom::series).cloned().unwrap_or_default()
}

/// The names of the series of a pattern.
fn groups(place: &str) -> Vec<String> {
    let pattern = Pattern::new(place).ok();
    let names = pattern.iter().flat_map(Pattern::names);
    names.filter(|name| !sweep_job::tasks::STEP_NAMES.contains(name)).map(str::to_owned).collect()
}
