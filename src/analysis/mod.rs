//! Records to numbers and verdicts: the jobs of a cell, means, the uncertainty of differences, and the states of
//! claims.

mod absence;
pub mod adaptive_seeds;
mod cell;
mod claim;
mod compare;
mod frame;
mod origins;
mod pairs;
mod results;
mod stats;
mod summary;
mod table;

use std::collections::BTreeMap;

pub use self::{
    absence::Absence,
    cell::{Cell, Compared, Mark, Show},
    claim::{State, Verdict},
    frame::{Frame, Row},
    results::Results,
    stats::{Estimate, Quartiles, Sample},
    table::{Column, Table, TableRow},
};
pub(crate) use self::{
    cell::digits_of,
    stats::{LEVEL, holm},
    table::{better_of, is_timing},
};
use crate::{
    plan::{JobId, Plan, Study},
    store::{Measured, Store},
};

/// The tables of a recipe, those of claims last, and the verdicts on its claims, both in the recipe's order.
pub(crate) fn analyze(plan: &Plan, study: &Study, results: &Results, store: &Store) -> (Vec<Table>, Vec<Verdict>) {
    let measured = results.measured();
    let absences = absence::absences(plan, study, measured, store);
    let table = |table: &crate::recipe::Table| {
        let frame = Frame::new(study, table, measured);
        let mut made = match &table.compare {
            Some(pairs) => compare::table(table, pairs, study, &frame, &absences),
            None => Table::new(table, study, &frame, &absences),
        };
        made.notes.extend(origins::notes(frame.rows.iter().map(|row| row.job), measured));
        made
    };
    let mut tables: Vec<Table> = study.recipe.tables.iter().map(table).collect();
    let verdicts: Vec<Verdict> = judge(study, measured);
    let summary = |summary: &crate::recipe::Summary| {
        let mut made = summary::table(summary, study, measured, &verdicts);
        let claims = summary.claims.iter().map(|index| &study.recipe.claims[index.value]);
        let jobs = claims.flat_map(|claim| claim::selected_jobs(claim, study)).map(|(_, job)| job);
        made.notes.extend(origins::notes(jobs, measured));
        made
    };
    tables.extend(study.recipe.summaries.iter().map(summary));
    (tables, verdicts)
}

/// Undecided results of a study that more seeds may decide: the reason, and the jobs at whose points they would help.
pub fn undecided(study: &Study, measured: &BTreeMap<JobId, Measured>) -> Vec<(String, Vec<JobId>)> {
    let mut undecided = Vec::new();
    for (claim, verdict) in study.recipe.claims.iter().zip(judge(study, measured)).filter(|(_, verdict)| verdict.open) {
        let jobs = claim::selected_jobs(claim, study).map(|(_, job)| job).collect();
        undecided.push((format!("claim `{}` is undecided: {}", claim.name.value, verdict.because), jobs));
    }
    for table in &study.recipe.tables {
        if let Some(compare) = table.compare.as_ref().filter(|compare| compare.decide) {
            undecided.extend(compare::undecided(table, compare, study, measured));
        }
    }
    undecided
}

/// The verdicts on a recipe's claims.
pub fn judge(study: &Study, measured: &BTreeMap<JobId, Measured>) -> Vec<Verdict> {
    study.recipe.claims.iter().map(|claim| claim::judge(claim, study, measured)).collect()
}
