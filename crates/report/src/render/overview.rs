//! The overview of several recipes that ran as one: an HTML page and a Markdown file, beside the folders of their reports.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use maud::html;

use super::{Format, Report, page::Layout, written};
use crate::{
    analysis::{self, Verdict},
    format::clean,
};

/// Writes `index.html` and `index.md` into the common parent folder of the reports' folders, and returns its path; `None` without a common
/// folder.
pub fn write(reports: &[Report<'_>], results: &Path) -> io::Result<Option<PathBuf>> {
    let [first, rest @ ..] = reports else { return Ok(None) };
    let Some(name) = first.folder.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(None) };
    if rest.is_empty() || rest.iter().any(|report| report.folder.parent() != Some(name)) {
        return Ok(None);
    }
    let folder = results.join("reports").join(name);
    fs::create_dir_all(&folder)?;
    let title = clean(&name.display().to_string()).into_owned();
    written(&folder.join("index.html"), page(&title, reports))?;
    written(&folder.join("index.md"), markdown(&title, reports))?;
    Ok(Some(folder))
}

/// The last part of a report's folder.
fn place(report: &Report<'_>) -> String {
    report.folder.file_name().map(|name| clean(&name.to_string_lossy()).into_owned()).unwrap_or_default()
}

fn page(title: &str, reports: &[Report<'_>]) -> String {
    let part = reports.first().and_then(Report::part);
    let header = html! { h1 { (title) } @if let Some(part) = &part { p .note .part { (clean(part)) } } p .about { (tally(reports.iter().flat_map(|report| &report.verdicts))) } };
    let main = html! {
        @for report in reports {
            section {
                h2 { a href={ (place(report)) "/index.html" } { (clean(&report.study.recipe.name)) } }
                @if let Some(about) = &report.study.recipe.about { p { (clean(about)) } }
                p .note {
                    (tally(&report.verdicts)) "; " (crate::format::count(report.tables.len(), "table")) ", "
                    (crate::format::count(report.study.recipe.figures.len(), "figure"))
                }
                @if !report.verdicts.is_empty() {
                    div .panel {
                        div .scroll tabindex="0" role="region" aria-label={ "Claims of " (clean(&report.study.recipe.name)) } {
                            table .sides {
                                thead { tr { th scope="col" { "claim" } th scope="col" { "verdict" } th scope="col" { "because" } } }
                                tbody {
                                    @for verdict in &report.verdicts {
                                        @let (class, word) = (verdict.state.word(), verdict.word());
                                        tr {
                                            th scope="row" { (verdict.claim) }
                                            td { span class={ "pill " (class) } { span aria-hidden="true" { (verdict.state.sign()) } " " (word) } }
                                            td { (clean(&verdict.because)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Layout { title, mark: "", header, main, data: "{}", script: "", charts: false, connect: false }.render()
}

fn markdown(title: &str, reports: &[Report<'_>]) -> String {
    let mut text = format!("# {title}\n\n{}\n", tally(reports.iter().flat_map(|report| &report.verdicts)));
    if let Some(part) = reports.first().and_then(Report::part) {
        let _ = write!(text, "\n{}", super::markdown::remark(&part));
    }
    for report in reports {
        let recipe = &report.study.recipe;
        let _ = write!(text, "\n# [{}]({}/index.html)\n", clean(&recipe.name), place(report));
        if let Some(about) = &recipe.about {
            let _ = write!(text, "\n{}\n", clean(about));
        }
        if !report.is_empty() {
            let _ = write!(text, "\n{}", report.render(Format::Md));
        }
    }
    text
}

/// Numbers of verdicts by state.
fn tally<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> String {
    analysis::tally(verdicts).unwrap_or_else(|| "no claims".to_owned())
}
