//! The reports at the end of a run.

use std::{collections::BTreeMap, io, path::Path};

use crate::{
    analysis::{Results, State, Verdict},
    cli::print,
    error::Error,
    format::{count, say},
    plan::Plan,
    render::{Format, Page, Report, ReportData, overview},
    run::Summary,
    store::{Stamp, Store},
};

/// End of a run, for its reports.
pub(super) struct End {
    /// The pages to write.
    pub(super) page: Page,
    /// True if the run has come to its end.
    pub(super) ended: bool,
    /// True if the reports are for the JSON output.
    pub(super) is_json: bool,
}

/// The reports of a run.
#[derive(Default)]
pub(super) struct Reported {
    /// True if the run is complete and a claim is refuted.
    pub(super) refuted: bool,
    /// The reports for the JSON output.
    pub(super) data: Vec<ReportData>,
    /// For each study, the verdicts on its claims as sentences.
    pub(super) verdicts: BTreeMap<String, Vec<String>>,
}

/// Writes the reports, and prints or returns them if the run is complete.
/// `stamps` are the stamps of the jobs' records, if they are known because no job had to run.
pub(super) fn report(
    results: &Path,
    plan: &Plan,
    store: &Store,
    end: &End,
    stamps: Option<Vec<Option<Stamp>>>,
) -> Result<Reported, Error> {
    let End { page, ended, is_json } = *end;
    let mut reported = Reported::default();
    let done = match stamps {
        Some(stamps) => Results::read_of(plan, store, stamps)?,
        None => Results::read(plan, store)?,
    };
    let reports: Vec<Report<'_>> = plan.studies.iter().map(|study| Report::new(plan, study, &done, store)).collect();
    // Finished jobs can be read in a read-only folder; after a run, the report is expected to exist.
    let is_refused = |error: &io::Error| {
        page == Page::IfStale
            && matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
    };
    let mut refused = None;
    for (report, study) in reports.iter().zip(&plan.studies) {
        let folder = match report.write(results, page) {
            Err(error) if is_refused(&error) => {
                refused.get_or_insert(error);
                None
            }
            written => Some(written.map_err(Error::io("cannot write the report"))?),
        };
        // The report of an interrupted run is not printed; the page shows its progress.
        if ended && !report.is_empty() {
            reported.refuted |= report.verdicts.iter().any(|verdict| verdict.state == State::Refuted);
            let sentence =
                |verdict: &Verdict| format!("`{}` is {}: {}", verdict.claim, verdict.state.word(), verdict.because);
            let verdicts = report.verdicts.iter().map(sentence).collect();
            reported.verdicts.insert(study.recipe.name.clone(), verdicts);
            if is_json {
                reported.data.push(ReportData::new(report, folder.clone()));
            } else {
                print(&format!("\n{}", report.render(Format::Term)))?;
            }
            if let Some(why) = report.why_apart() {
                say(format_args!("note: {why}"));
            }
            if let Some(folder) = folder {
                say(format_args!("report: {}", folder.join("index.html").display()));
            }
        }
    }
    if refused.is_none() {
        let overview = overview::write(&reports, results).map_err(Error::io("cannot write the report"))?;
        if let Some(folder) = overview.filter(|_| ended) {
            say(format_args!("all of them: {}", folder.join("index.html").display()));
        }
    }
    if let Some(error) = refused {
        say(format_args!("note: nothing had to run, and no report is written here: {error}"));
    }
    Ok(reported)
}

/// Returns the number of jobs whose missing result is a failure of the run, and prints a note if the recipe tolerates the
/// failures that caused it.
pub(super) fn lost(summary: &Summary) -> usize {
    if let Summary { failed: 0, stopped: 0, interrupted: None, blocked: blocked @ 1.., .. } = summary {
        let need = if *blocked == 1 { "it needs" } else { "they need" };
        say(format_args!(
            "{} did not run, because a job that {need} failed; `continue-on-error` tolerates the failure itself, but not what \
             is missing after it, unless the step that needs it has `continue-on-error`, too",
            count(*blocked, "job")
        ));
    }
    summary.failed + summary.blocked + summary.stopped
}
