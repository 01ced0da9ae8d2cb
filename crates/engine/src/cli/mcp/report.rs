//! The tool `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fault, study::StudyInput};
use crate::{
    analysis::{Results, Verdict},
    mcp::{Effect, Fault, FaultKind, Page, Session, Tool},
    recipe::suggest,
    render::{self, Format, Report},
    store::Store,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
    /// The tables to show, by name; without them, the verdicts and the names of the tables are shown.
    #[serde(default)]
    tables: Vec<String>,
    #[serde(flatten)]
    page: Page,
}

/// The verdict on a claim.
#[derive(Debug, Serialize, JsonSchema)]
struct VerdictLine {
    /// The recipe.
    recipe: String,
    /// The claim.
    claim: String,
    /// The statement in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    /// `supported`, `refuted`, `tied` or `undecided`.
    state: String,
    /// The reason: the numbers, or what is missing for a decision.
    because: String,
    /// The number that was compared with the expected range.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    /// Its confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<[f64; 2]>,
    /// The p-value: the probability of this decision by chance alone, corrected if the recipe corrects for the number
    /// of claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    /// The reason why the claim is undecided: lack of `hardware`, `scale`, `samples` or `results`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacks: Option<String>,
}

/// A table.
#[derive(Debug, Serialize, JsonSchema)]
struct TableText {
    /// The recipe.
    recipe: String,
    /// Its name.
    name: String,
    /// Its text in Markdown, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<String>,
}

/// A report of the existing records.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The verdicts on the claims, in the order of the recipes.
    verdicts: Vec<VerdictLine>,
    /// The tables.
    tables: Vec<TableText>,
    /// Folders of the reports' pages, from the project's folder.
    pages: Vec<String>,
    /// The cursor of the following verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Judges the claims of recipes and makes their tables from the existing records, without running anything: \
        verdicts with intervals and corrected p-values, and tables in Markdown by name.";
    Tool::new(("report", "Report results"), ABOUT, Effect::Reads, report)
}

fn report(session: &Session, input: Input) -> Result<Output, Fault> {
    let Input { study, tables: table_names, page } = input;
    let cursor = page.cursor()?;
    study.with_plan(session, |plan| {
        let store = Store::open(&session.results).map_err(|error| fault(error.into()))?;
        let job_results = Results::read(plan, &store).map_err(|error| fault(error.into()))?;
        let reports: Vec<Report<'_>> =
            plan.studies.iter().map(|study| Report::new(plan, study, &job_results, &store)).collect();
        let names: Vec<&str> =
            reports.iter().flat_map(|report| &report.tables).map(|table| table.name.as_str()).collect();
        if let Some(name) = table_names.iter().find(|name| !names.contains(&name.as_str())) {
            let not_found = Fault::new(FaultKind::NotFound, format!("there is no table `{name}`"));
            let help = suggest(name, "tables", names).unwrap_or_else(|| "the recipes have no tables".to_owned());
            return Err(not_found.help(help));
        }
        let (mut tables, mut pages) = (Vec::new(), Vec::new());
        for report in &reports {
            // A read-only folder gets no page; the answer is complete without it.
            if let Ok(folder) = report.write(&session.results, render::Page::IfStale) {
                pages.push(folder.display().to_string());
            }
            tables.extend(report.tables.iter().filter_map(|table| {
                let is_shown = table_names.contains(&table.name);
                let markdown = is_shown.then(|| render::render(table, Format::Md));
                let (recipe, name) = (report.name().to_owned(), table.name.clone());
                (is_shown || table_names.is_empty()).then_some(TableText { recipe, name, markdown })
            }));
        }
        let verdicts =
            reports.iter().flat_map(|report| report.verdicts.iter().map(|verdict| line(report.name(), verdict)));
        let (verdicts, next) = if table_names.is_empty() { cursor.take(verdicts) } else { (Vec::new(), None) };
        Ok(Output { verdicts, tables, pages, next })
    })
}

fn line(recipe: &str, verdict: &Verdict) -> VerdictLine {
    let word = |value: serde_json::Result<serde_json::Value>| value.ok()?.as_str().map(str::to_owned);
    VerdictLine {
        recipe: recipe.to_owned(),
        claim: verdict.claim.clone(),
        says: verdict.says.clone(),
        state: word(serde_json::to_value(verdict.state)).unwrap_or_default(),
        because: verdict.because.clone(),
        value: verdict.value,
        interval: verdict.interval,
        p: verdict.p,
        lacks: word(serde_json::to_value(verdict.lacks)),
    }
}
