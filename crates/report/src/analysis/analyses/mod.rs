//! Tables of further analyses: numbers of curves (`curve.rs`, `reading.rs`), performance profiles (`profile.rs`), power laws over
//! sizes (`fit.rs`) and components of variance (`variance.rs`). Each has a function that makes the columns, rows and notes of a [`Table`].

mod curve;
mod fit;
mod profile;
mod reading;
mod variance;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Table, TableRow, absence::Footnotes, claim::law::jobs_by_key, curves::Curves, evidence::Source,
    no_interval::explain, table::Column,
};
use crate::{
    format::clean,
    plan::{JobId, resolved},
    recipe::{self, Analysis, AnalysisKind},
    record::Key,
};

/// The content of a table, without its name.
#[derive(Default)]
struct Made {
    axes: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<TableRow>,
    notes: Vec<String>,
    footnotes: Footnotes,
}

/// Makes the table of an analysis.
pub(super) fn table(table: &recipe::Table, analysis: &Analysis, source: Source<'_>, curves: &Curves) -> Table {
    let mut contents = Made::default();
    match &analysis.kind {
        AnalysisKind::Curve(settings) => curve::fill(&mut contents, (table, analysis, settings), source, curves),
        AnalysisKind::Fit(settings) => fit::fill(&mut contents, (table, analysis, settings), source),
        AnalysisKind::Profile(settings) => profile::fill(&mut contents, (table, analysis, settings), source, curves),
        AnalysisKind::Variance(axes) => variance::fill(&mut contents, (table, analysis, axes), source),
    }
    let Made { axes, columns, mut rows, notes, mut footnotes } = contents;
    let unexplained = explain(&mut rows, &columns, &mut footnotes);
    let notes: Vec<String> = notes.into_iter().chain(unexplained).chain(footnotes.texts()).collect();
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes,
        columns,
        rows,
        notes: notes.iter().map(|note| clean(note).into_owned()).collect(),
    }
}

/// The records and metrics whose curves the tables of a recipe need.
pub(super) fn curves_of_tables(source: Source<'_>) -> BTreeSet<(Key, &str)> {
    let mut curve_keys = BTreeSet::new();
    for table in &source.study.recipe.tables {
        let recipe::TableKind::Analysis(analysis) = &table.kind else { continue };
        if !matches!(analysis.kind, AnalysisKind::Curve(_) | AnalysisKind::Profile(_)) {
            continue;
        }
        for key in jobs(analysis, source).keys() {
            curve_keys.extend(table.cells.iter().map(|cell| (*key, cell.value.as_str())));
        }
    }
    curve_keys
}

/// The measured jobs of an analysis by the keys of their records.
fn jobs(analysis: &Analysis, source: Source<'_>) -> BTreeMap<Key, JobId> {
    jobs_by_key(analysis.of.step, &resolved(&source.study.recipe, &analysis.of.only), source)
}
