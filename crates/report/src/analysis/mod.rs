//! Analysis of records: the cells of tables, means, the uncertainty of differences, and the verdicts on claims.
//!
//! Input: `results.rs` has a line for each record, `source.rs` a metric in one unit. `evidence.rs` finds missing measurements and the
//! errors of independent units, which are in `units.rs`, by the kinds of replication in `kinds.rs`. `items.rs` reads scores of single
//! items, `alike.rs` leaves out jobs with equal results, `pairs.rs` pairs measurements, `question.rs` has the questions about them,
//! `exact.rs` intervals and tests without a standard error, `looks.rs` the level of each look, `absence.rs` the reasons for empty
//! cells, and `no_interval.rs` those for numbers without an interval.
//!
//! Output: `table.rs` (metrics), `compare.rs`, `effects.rs`, `aggregate.rs`, `analyses/` (curves, laws over sizes,
//! sources of variance) and `summary.rs` (claims) make tables of cells (`cell.rs`), `marks.rs` ranks their rows, and
//! `claim.rs` gives verdicts, and `figure_units.rs` gives figures their means. `curves.rs` reads curves, `further_seeds.rs` finds seeds that only the store has.
//! `best.rs` ranks configurations, `search.rs` decides searches, `decisions.rs` describes the decisions,
//! `adaptive_seeds.rs` adds seeds, and `design.rs` computes power.
//!
//! Notes: `conditions.rs` decides whether times were measured under like conditions, `environments.rs` names
//! environments that differ, `adopted.rs` adopted records, and `origins.rs` records that were made elsewhere.

mod absence;
pub mod adaptive_seeds;
mod adopted;
mod aggregate;
mod alike;
mod analyses;
pub mod best;
mod cell;
mod claim;
mod compare;
pub mod conditions;
mod curves;
mod decisions;
pub mod design;
mod effects;
mod environments;
mod evidence;
mod exact;
mod figure_units;
mod further_seeds;
mod items;
mod kinds;
mod looks;
mod marks;
mod no_interval;
mod origins;
mod pairs;
mod partners;
mod question;
mod results;
pub mod search;
mod source;
mod summary;
mod table;
mod units;

use std::collections::{BTreeMap, BTreeSet};

pub use self::{
    absence::Absence,
    cell::{Cell, Compared, Mark, Show},
    claim::{Choice, ClaimJobs, Lack, State, Verdict, chance_of_error, jobs_of, tally},
    results::Results,
    table::{Column, Table, TableRow},
};
pub use self::{
    cell::{Text, digits_of},
    decisions::{Account, about, accounts, reached},
    effects::estimates,
    items::claimed,
    no_interval::NoInterval,
};
use self::{environments::Environments, evidence::Source, further_seeds::FurtherSeeds, items::NO_SCORES};
pub(crate) use self::{figure_units::FigureUnits, kinds::replicated_axes};
use crate::{
    plan::{JobId, Plan, Study, resolved},
    recipe::{self, OfStep, TableKind},
    store::{Measured, Store},
};

/// The tables of a recipe and the verdicts on its claims, in the order of the recipe. Tables of claims come last.
pub fn analyze(plan: &Plan, study: &Study, results: &Results, store: &Store) -> (Vec<Table>, Vec<Verdict>) {
    let measured = results.measured();
    let absences = absence::absences(plan, study, measured, store);
    let items = items::load(study, measured, store);
    // An error is ignored: it was reported when the results were read from the same index.
    let further = FurtherSeeds::find(plan, study, results, store).ok().flatten();
    let source = Source { study, measured, absences: &absences, items: &items, further: further.as_ref() };
    let mut verdicts: Vec<Verdict> = claim::judge_all(source);
    let curve_keys = claim::curves_of_claims(source).into_iter().chain(analyses::curves_of_tables(source));
    let curves = curves::load(curve_keys, store);
    claim::add_choices(&mut verdicts, source, &curves);
    let mut environments = Environments::new(store);
    let mut table = |table: &recipe::Table| {
        let jobs = |of: &OfStep| source.jobs(of.step, &resolved(&study.recipe, &of.only));
        let (mut result_table, jobs) = match &table.kind {
            TableKind::Metrics(metrics) => (Table::new(table, metrics, source), jobs(&metrics.of)),
            TableKind::Compare(compare) => (compare::table(table, compare, source), jobs(&compare.of)),
            TableKind::Aggregate(aggregate) => (aggregate::table(table, aggregate, source), jobs(&aggregate.of)),
            TableKind::Effects(effects) => (effects::table(table, effects, source), jobs(&effects.of)),
            TableKind::Analysis(analysis) => (analyses::table(table, analysis, source, &curves), jobs(&analysis.of)),
            TableKind::Claims(claims) => {
                let listed_claims = claims.iter().map(|index| &study.recipe.claims[index.value]);
                let jobs =
                    listed_claims.flat_map(|claim| claim::selected_jobs(claim, study)).map(|(_, job)| job).collect();
                (summary::table(table, claims, source, &verdicts), jobs)
            }
        };
        let jobs: BTreeSet<JobId> = jobs.into_iter().collect();
        result_table.notes.extend(environments.note(&jobs, measured));
        result_table.notes.extend(adopted::note(jobs.iter().copied(), measured));
        result_table.notes.extend(origins::notes(jobs.into_iter(), measured));
        result_table
    };
    let tables = study.recipe.tables.iter().map(&mut table).collect();
    (tables, verdicts)
}

/// Undecided results of a study that more seeds may decide: for each, the reason, and the jobs whose points get the
/// seeds. `lost` has the jobs that failed or were skipped.
pub fn undecided(
    study: &Study,
    measured: &BTreeMap<JobId, Measured>,
    lost: &BTreeSet<usize>,
) -> Vec<(String, Vec<JobId>)> {
    let failed = |job: &usize| (JobId::new(*job), Absence::Failed(String::new()));
    let absences = lost.iter().map(failed).collect();
    let source = Source { study, measured, absences: &absences, items: &NO_SCORES, further: None };
    let mut undecided = Vec::new();
    let verdicts = claim::judge_all(source);
    for (claim, verdict) in study.recipe.claims.iter().zip(verdicts).filter(|(_, verdict)| verdict.open) {
        let jobs = claim::selected_jobs(claim, study).map(|(_, job)| job).collect();
        undecided.push((format!("claim `{}` is undecided: {}", claim.name.value, verdict.because), jobs));
    }
    for table in &study.recipe.tables {
        if let TableKind::Compare(compare) = &table.kind
            && compare.decide
        {
            undecided.extend(compare::undecided(table, compare, source));
        }
    }
    undecided
}

/// The verdicts on a recipe's claims.
pub fn judge(study: &Study, measured: &BTreeMap<JobId, Measured>) -> Vec<Verdict> {
    claim::judge_all(Source { study, measured, absences: &BTreeMap::new(), items: &NO_SCORES, further: None })
}
