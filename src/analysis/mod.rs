//! Analysis of records: the cells of tables, means, the uncertainty of differences, and the verdicts on claims.

mod absence;
pub mod adaptive_seeds;
mod cell;
mod claim;
mod compare;
mod effects;
mod frame;
mod origins;
mod pairs;
mod results;
mod summary;
mod table;

use std::collections::BTreeMap;

pub use self::{
    absence::Absence,
    cell::{Cell, Compared, Mark, Show},
    claim::{State, Verdict},
    frame::{Frame, Row},
    results::Results,
    table::{Column, Table, TableRow},
};
pub(crate) use self::{cell::digits_of, effects::estimates, table::is_timing};
use crate::{
    plan::{JobId, Plan, Study},
    recipe::{self, TableKind},
    store::{Measured, Store},
};

/// The tables of a recipe and the verdicts on its claims, in the order of the recipe. Tables of claims come last.
pub(crate) fn analyze(plan: &Plan, study: &Study, results: &Results, store: &Store) -> (Vec<Table>, Vec<Verdict>) {
    let measured = results.measured();
    let absences = absence::absences(plan, study, measured, store);
    let verdicts: Vec<Verdict> = judge(study, measured);
    let table = |table: &recipe::Table| {
        let frame = |of| Frame::new(study, of, measured);
        let jobs = |frame: &Frame<'_>| frame.rows.iter().map(|row| row.job).collect::<Vec<_>>();
        let (mut made, jobs) = match &table.kind {
            TableKind::Metrics(metrics) => {
                let frame = frame(&metrics.of);
                (Table::new(table, metrics, study, &frame, &absences), jobs(&frame))
            }
            TableKind::Compare(compare) => {
                let frame = frame(&compare.of);
                (compare::table(table, compare, study, &frame, &absences), jobs(&frame))
            }
            TableKind::Effects(effects) => {
                let frame = frame(&effects.of);
                (effects::table(table, effects, study, &frame, &absences), jobs(&frame))
            }
            TableKind::Claims(claims) => {
                let named = claims.iter().map(|index| &study.recipe.claims[index.value]);
                let jobs = named.flat_map(|claim| claim::selected_jobs(claim, study)).map(|(_, job)| job).collect();
                (summary::table(table, claims, study, measured, &verdicts), jobs)
            }
        };
        made.notes.extend(origins::notes(jobs.into_iter(), measured));
        made
    };
    let tables = study.recipe.tables.iter().map(table).collect();
    (tables, verdicts)
}

/// Undecided results of a study that more seeds may decide: the reason, and the jobs at whose points to add seeds.
pub fn undecided(study: &Study, measured: &BTreeMap<JobId, Measured>) -> Vec<(String, Vec<JobId>)> {
    let mut undecided = Vec::new();
    for (claim, verdict) in study.recipe.claims.iter().zip(judge(study, measured)).filter(|(_, verdict)| verdict.open) {
        let jobs = claim::selected_jobs(claim, study).map(|(_, job)| job).collect();
        undecided.push((format!("claim `{}` is undecided: {}", claim.name.value, verdict.because), jobs));
    }
    for table in &study.recipe.tables {
        if let TableKind::Compare(compare) = &table.kind
            && compare.decide
        {
            undecided.extend(compare::undecided(table, compare, study, measured));
        }
    }
    undecided
}

/// The verdicts on a recipe's claims.
pub fn judge(study: &Study, measured: &BTreeMap<JobId, Measured>) -> Vec<Verdict> {
    study.recipe.claims.iter().map(|claim| claim::judge(claim, study, measured)).collect()
}
