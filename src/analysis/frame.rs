//! The records of a table, as rows of axes and metrics.

use std::collections::BTreeMap;

use sweep_job::Metrics;

use crate::{
    plan::{JobId, Point, Study, resolved, selected},
    recipe::OfStep,
    store::Measured,
};

/// The points of a step that a table selects.
#[derive(Debug)]
pub struct Frame<'a> {
    /// In the order of the step's points.
    pub rows: Vec<Row<'a>>,
}

/// One point, with its metrics if its job is done.
#[derive(Debug)]
pub struct Row<'a> {
    /// The point.
    pub point: &'a Point,
    /// Its job; several points can share a job.
    pub job: JobId,
    /// The job's metrics; `None` if it is not done.
    pub metrics: Option<&'a Metrics>,
}

impl<'a> Frame<'a> {
    /// The selection of a table's `from` and `where`.
    pub fn new(study: &'a Study, of: &OfStep, measured: &'a BTreeMap<JobId, Measured>) -> Self {
        let only = resolved(&study.recipe, &of.only);
        // An additional seed that was not needed is not missing.
        let needed = |job: &JobId| measured.contains_key(job) || !study.rounds.contains_key(job);
        let rows = study.steps[of.step].iter().filter(|(point, job)| selected(point, &only) && needed(job));
        let rows = rows.map(|(point, job)| Row {
            point,
            job: *job,
            metrics: measured.get(job).map(|measured| &measured.metrics),
        });
        Self { rows: rows.collect() }
    }
}
