//! Design by power: the probability that the planned seeds decide a claim or a comparison for a difference of a given
//! size, and the number of seeds that it takes.
//!
//! The spread comes from the existing records, over the units that the verdict uses. The level is the level of the verdict: it allows for
//! all looks at adaptive seeds and for earlier plans with fewer seeds. Corrections for several tests (Holm) count with their first step
//! (Bonferroni), which is conservative.

mod budget;
mod decisions;
mod detect;
mod model;
mod pilot;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use sweep_base::SEED;
use sweep_job::{Precision, Unit};

pub use self::{
    budget::{Choice, StepSeeds},
    decisions::Kind,
    detect::Detect,
    spread::Basis,
};
use self::{
    decisions::{Decision, decisions},
    detect::Size,
    model::Model,
    pilot::Pilot,
    spread::{Shape, Spread, Squares},
};
use super::{
    Results,
    evidence::{Silence, Source},
    items::NO_SCORES,
};
use crate::{
    format::{clean, count},
    plan::{JobId, Plan, Point},
    recipe::{Claim, suggest},
    record::SeedPlan,
    stats::{WANTED, sd_interval},
};

/// Degrees of freedom below which a standard deviation is rough.
const MIN_DEGREES_OF_FREEDOM: f64 = 10.0;

/// Reason why a design cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The argument has another form.
    #[error(
        "`--detect {0}` names no metric and difference; write `--detect METRIC=DIFFERENCE`, for example `--detect loss=0.01`"
    )]
    NotWritten(String),
    /// No claim and no table is about the metric.
    #[error("no claim and no table uses `{metric}`; {help}")]
    Unknown {
        /// The metric.
        metric: String,
        /// The nearest name, and the list.
        help: String,
    },
    /// The difference is not a number.
    #[error("`--detect {text}` has no valid difference; write {accepted}")]
    NoNumber {
        /// The argument.
        text: String,
        /// Accepted values.
        accepted: &'static str,
    },
    /// The difference is zero or negative.
    #[error("`--detect {0}` has no difference; write a difference above zero, which counts in either direction")]
    NotPositive(String),
    /// A percentage of a metric that is a fraction is ambiguous.
    #[error("`--detect {0}` is ambiguous, because the metric is a fraction; write `0.01` for one percentage point")]
    PercentOfFraction(String),
    /// The budget is not a span of time.
    #[error(
        "`--budget {0}` is not a span of time above zero; write it with its unit, for example `40h`, `1h30m` or `90s`"
    )]
    Budget(String),
    /// The format has no place for it.
    #[error("`--detect` needs `--format table` or `--format json`")]
    Format,
}

/// The designs for some differences.
#[derive(Debug, Serialize)]
pub struct Design {
    /// The target power, from 0 to 1.
    pub wanted_power: f64,
    /// Every decision about each of the metrics, in the order of the differences and of the recipes.
    pub decisions: Vec<Outlook>,
    /// The command that runs the measurements that a standard deviation still needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pilot: Option<String>,
    /// The choice of seeds within a budget of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Choice>,
    /// The reason why `budget` is missing although a budget was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_budget: Option<String>,
}

/// The outlook of a decision.
#[derive(Debug, Serialize)]
pub struct Outlook {
    /// The difference, as the user wrote it.
    pub detect: String,
    /// The recipe.
    pub recipe: String,
    /// The kind of the decision.
    pub kind: Kind,
    /// The name of the claim or the table.
    pub name: String,
    /// The pair of values, or the column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The metric.
    pub metric: String,
    /// Number of records behind the standard deviation.
    pub records: usize,
    /// Number of planned seeds, the largest if it depends on the results.
    pub seeds: usize,
    /// The least number, if it depends on the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_seeds: Option<usize>,
    /// The numbers; `None` without enough records.
    #[serde(flatten)]
    pub numbers: Option<Numbers>,
    /// Reason for missing numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Unit of the metric.
    #[serde(skip)]
    pub unit: Unit,
    #[serde(skip)]
    model: Option<Model>,
    #[serde(skip)]
    study: usize,
    #[serde(skip)]
    steps: Vec<usize>,
}

/// The numbers of a decision's design.
#[derive(Debug, Clone, Serialize)]
pub struct Numbers {
    /// Standard deviation of an independent unit: of the difference of a pair, or of a value. A fraction if
    /// `relative`, else in the metric's unit.
    pub sd: f64,
    /// Degrees of freedom of the standard deviation.
    pub freedom: f64,
    /// 95 % confidence interval of the standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_interval: Option<[f64; 2]>,
    /// The kind of measurements behind the standard deviation.
    pub basis: Basis,
    /// True if ratios are judged: `sd` and `difference` are differences of natural logarithms.
    pub relative: bool,
    /// The difference to detect, like `sd`.
    pub difference: f64,
    /// The confidence level of a single decision, after all corrections.
    pub level: f64,
    /// The power with the planned seeds, from 0 to 1.
    pub power: f64,
    /// The fewest seeds with the wanted power; `None` if no number up to 1000 (200 for adaptive seeds) has it.
    pub seeds_needed: Option<usize>,
    /// The confidence level of a single decision with these seeds.
    pub level_needed: Option<f64>,
}

/// A plan with its records, and the differences to detect.
pub struct Designer<'a> {
    plan: &'a Plan,
    results: &'a Results,
}

impl<'a> Designer<'a> {
    /// Creates a designer for `plan`, with the spread in `results`.
    pub fn new(plan: &'a Plan, results: &'a Results) -> Self {
        Self { plan, results }
    }

    /// The outlook of every decision about the metrics of these differences.
    pub fn design(&self, detects: &[Detect]) -> Result<Design, DesignError> {
        let absences = BTreeMap::new();
        let mut pilot = Pilot::default();
        let mut design =
            Design { wanted_power: WANTED, decisions: Vec::new(), pilot: None, budget: None, no_budget: None };
        for detect in detects {
            let previous_count = design.decisions.len();
            for (index, study) in self.plan.studies.iter().enumerate() {
                pilot.group = None;
                let source = Source {
                    study,
                    measured: self.results.measured(),
                    absences: &absences,
                    items: &NO_SCORES,
                    further: None,
                };
                let decisions = decisions(source, detect);
                let spreads: Vec<Result<Spread, Silence>> =
                    decisions.iter().map(|decision| Spread::of(decision, source)).collect();
                for (decision, spread) in decisions.iter().zip(&spreads) {
                    let squares = pooled(decision, spread, &decisions, &spreads);
                    let outlook = self.outlook(detect, index, decision, spread, &squares)?;
                    let certain = decision.question.traits.precision == Precision::Deterministic && squares.records > 0;
                    let unmeasured = spread.as_ref().is_ok_and(|spread| spread.is_unmeasured);
                    if squares.freedom == 0.0 && spread.is_ok() && !certain && !unmeasured {
                        pilot.add(index, study, decision);
                    }
                    design.decisions.push(outlook);
                }
            }
            if design.decisions.len() == previous_count {
                return Err(self.unknown(detect));
            }
        }
        design.pilot = pilot.command(self.plan);
        Ok(design)
    }

    /// Chooses the cheapest seeds within a budget of time in seconds. `seconds` has the expected duration of each job, and
    /// `cached` is true for the jobs that are done.
    pub fn choose(&self, design: &mut Design, budget: f64, seconds: &[Option<f64>], cached: &[bool]) {
        match budget::choose(self.plan, &design.decisions, seconds, cached, budget) {
            Ok(choice) => design.budget = Some(choice),
            Err(reason) => design.no_budget = Some(reason),
        }
    }

    fn unknown(&self, detect: &Detect) -> DesignError {
        let recipes = || self.plan.studies.iter().map(|study| &study.recipe);
        let claims = recipes().flat_map(|recipe| recipe.claims.iter().map(Claim::metric));
        let tables = recipes().flat_map(|recipe| &recipe.tables);
        let mut names: Vec<&str> =
            claims.chain(tables.flat_map(|table| table.cells.iter().map(|cell| cell.value.as_str()))).collect();
        names.retain(|metric| !detect.is_about(metric));
        names.sort_unstable();
        names.dedup();
        let help = suggest(&detect.metric, "metrics of claims and tables", names);
        let help = help.unwrap_or_else(|| "add a claim, or a table that compares values".to_owned());
        DesignError::Unknown { metric: clean(&detect.metric).into_owned(), help }
    }

    fn outlook(
        &self,
        detect: &Detect,
        study: usize,
        decision: &Decision<'_>,
        spread: &Result<Spread, Silence>,
        squares: &Squares,
    ) -> Result<Outlook, DesignError> {
        let traits = decision.question.traits;
        let size = detect.size(traits.unit)?;
        let recipe = &self.plan.studies[study].recipe;
        let mut outlook = Outlook {
            detect: detect.text(),
            recipe: recipe.name.clone(),
            kind: decision.kind,
            name: decision.name.to_owned(),
            part: decision.part.clone(),
            metric: decision.metric.to_owned(),
            records: squares.records,
            seeds: 0,
            least_seeds: None,
            numbers: None,
            reason: None,
            notes: Vec::new(),
            unit: traits.unit,
            model: None,
            study,
            steps: decision.steps.clone(),
        };
        let spread = match spread {
            Ok(spread) => spread,
            Err(silence) => {
                let unplanned = decision.unplanned.map(|reason| format!("not planned: {reason}"));
                outlook.reason = Some(unplanned.unwrap_or_else(|| reason(silence, decision.metric)));
                return Ok(outlook);
            }
        };
        outlook.seeds = spread.seeds;
        outlook.least_seeds = spread.least;
        if squares.freedom == 0.0 {
            outlook.reason = Some(if traits.precision == Precision::Deterministic && squares.records > 0 {
                "one measurement is enough, because the metric is deterministic".to_owned()
            } else if spread.is_unmeasured {
                format!("the records have no `{}`", clean(decision.metric))
            } else {
                "too few records for a standard deviation".to_owned()
            });
            return Ok(outlook);
        }
        let Some(units) = spread.modelled(squares, &decision.question) else {
            outlook.reason =
                Some("all measurements are equal; declare the metric's `resolution` under `metrics`".to_owned());
            return Ok(outlook);
        };
        let Some(difference) = spread.difference(size) else {
            outlook.reason =
                Some("the mean is 0, so the size cannot be converted; write it in the metric's unit".to_owned());
            return Ok(outlook);
        };
        let model = Model::new(units, difference, spread.least, self.plans(decision), decision.tests);
        outlook.fill(model, spread, squares, difference);
        if matches!(size, Size::Relative(_)) && !spread.logarithm {
            outlook.notes.push("a percentage refers to the mean of the compared values".to_owned());
        }
        Ok(outlook)
    }

    /// The plans of seeds under which the records of a decision were made.
    fn plans(&self, decision: &Decision<'_>) -> Vec<SeedPlan> {
        let jobs = decision.form.sides().into_iter().flatten().map(|(_, job)| job);
        let records = jobs.filter_map(|job| self.results.measured().get(job)?.under.as_ref()?.seeds);
        let mut plans: Vec<SeedPlan> = Vec::new();
        for plan in records {
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
        plans
    }
}

/// The squares of the decisions of a group that have the same units and seeds.
fn pooled(
    decision: &Decision<'_>,
    spread: &Result<Spread, Silence>,
    all: &[Decision<'_>],
    spreads: &[Result<Spread, Silence>],
) -> Squares {
    let mut squares = Squares::default();
    let Ok(own_spread) = spread else { return squares };
    let alike = |other: &Spread| other.shape == own_spread.shape && other.logarithm == own_spread.logarithm;
    let group = || {
        let members = all.iter().zip(spreads).filter(|(other, _)| other.group == decision.group);
        members.filter_map(|(_, spread)| spread.as_ref().ok()).filter(|other| alike(other))
    };
    // Differences of pairs take precedence over an estimate without pairs.
    let pairs = group().any(|other| other.basis == Basis::Pairs && other.squares.freedom > 0.0);
    for other in group().filter(|other| !pairs || other.basis != Basis::Seeds) {
        squares.pool(&other.squares);
    }
    squares
}

impl Outlook {
    /// The maximum number of seeds that was considered; `None` if more seeds change nothing.
    pub fn most_seeds(&self) -> Option<usize> {
        self.model.as_ref().map(Model::most)
    }

    fn fill(&mut self, model: Model, spread: &Spread, squares: &Squares, difference: f64) {
        let needed = if spread.is_fixed() {
            (model.power(spread.seeds) >= WANTED).then_some(spread.seeds)
        } else {
            model.needed(WANTED)
        };
        let sd = model.sd(spread.seeds);
        self.numbers = Some(Numbers {
            sd,
            freedom: squares.freedom,
            sd_interval: sd_interval(sd, squares.freedom),
            basis: spread.basis,
            relative: spread.logarithm,
            difference,
            level: model.level(spread.seeds),
            power: model.power(spread.seeds),
            seeds_needed: needed,
            level_needed: needed.map(|needed| model.level(needed)),
        });
        if spread.basis == Basis::Seeds {
            self.notes
                .push("from seeds within points, without pairs: the standard deviation may be too large".to_owned());
        }
        if let Shape::Levels { count: units, .. } = spread.shape {
            let more = if spread.is_fixed() {
                "; the effect of more seeds is unknown"
            } else {
                ", over which seeds are averaged"
            };
            self.notes.push(format!("the units are {} of other axes{more}", count(units, "value")));
        }
        if needed.is_some_and(|needed| needed > spread.seeds && model.is_raised(needed)) {
            self.notes.push(
                "more seeds than planned are judged at a stricter level, because the results could be looked at before"
                    .to_owned(),
            );
        }
        if let Shape::Rows { fixed: true, .. } = spread.shape {
            self.notes.push("the units are values of other axes, over which seeds are averaged".to_owned());
        }
        if squares.freedom < MIN_DEGREES_OF_FREEDOM
            && let Some([low, high]) = sd_interval(1.0, squares.freedom)
        {
            // The degrees of freedom of crossed factors are not an integer.
            let freedom = (squares.freedom * 10.0).round() / 10.0;
            let freedom = if freedom == 1.0 { "1 degree".to_owned() } else { format!("{freedom} degrees") };
            self.notes.push(format!(
                "a rough estimate: with {freedom} of freedom, the sd may be {low:.1} to {high:.1} times as large"
            ));
        }
        self.model = (!spread.is_fixed()).then_some(model);
    }
}

impl Spread {
    /// The difference to detect on the scale of the decision; `None` if it cannot be converted.
    fn difference(&self, size: Size) -> Option<f64> {
        let of = |mean: Option<f64>| mean.map(f64::abs).filter(|mean| *mean > 0.0);
        match (size, self.logarithm) {
            (Size::Absolute(size), false) => Some(size),
            (Size::Relative(part), true) => Some(part.ln_1p()),
            (Size::Relative(part), false) => Some(part * of(self.mean)?),
            (Size::Absolute(size), true) => Some((size / of(self.reference)?).ln_1p()),
        }
    }
}

/// The seeds of points, in their order.
fn seeds_of(points: &[(Point, JobId)]) -> Vec<String> {
    let mut seeds = Vec::new();
    for seed in points.iter().filter_map(|(point, _)| Some(point.get(SEED)?.to_string())) {
        if !seeds.contains(&seed) {
            seeds.push(seed);
        }
    }
    seeds
}

/// Reason why a decision has no numbers, in words.
fn reason(silence: &Silence, metric: &str) -> String {
    match silence {
        Silence::NoPoint => "no point has these values".to_owned(),
        Silence::Shared(jobs) => format!("{} on both sides, so they cannot be compared", count(*jobs, "job")),
        Silence::Unlike(reason) => format!("{reason}; `conditions: any` compares them nevertheless"),
        Silence::NoRatio => format!("`{}` is not always above zero, so it has no ratio", clean(metric)),
        Silence::Unpaired | Silence::NoStatistic => "the points cannot be paired one to one".to_owned(),
        Silence::Absent => "results are missing".to_owned(),
    }
}
