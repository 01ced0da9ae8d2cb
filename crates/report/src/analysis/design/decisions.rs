//! The decisions of a study about a metric: its claims, its comparisons and the marks of its tables, each with the points
//! that it is about.

use sweep_job::Value;

use super::Detect;
use crate::{
    analysis::{
        claim::family_size,
        compare,
        evidence::{Question, Source},
        items::declared,
        pairs::{apart, without_same},
        table::Keys,
    },
    format::clean,
    plan::{JobId, Point, resolved, selected},
    recipe::{
        Claim, Comparison, Measure, Metrics, Names, OfStep, Order, Rules, Selection, Side, Statement, Statistic, Table,
        TableKind,
    },
};

/// Points of a step with their jobs.
pub(super) type Points<'a> = Vec<(&'a Point, JobId)>;

/// A decision about a metric.
pub(super) struct Decision<'a> {
    pub(super) kind: Kind,
    /// The name of the claim or the table.
    pub(super) name: &'a str,
    /// The part of it: a pair of values, or a column.
    pub(super) part: Option<String>,
    pub(super) metric: &'a str,
    pub(super) form: Form<'a>,
    pub(super) question: Question<'a>,
    /// The steps of the points.
    pub(super) steps: Vec<usize>,
    /// Number of tests among which the decision is corrected.
    pub(super) tests: usize,
    /// The decisions of one group are of one kind, so that their spread is estimated together.
    pub(super) group: usize,
    /// The reason why its power does not follow from the spread of its units.
    pub(super) unplanned: Option<&'static str>,
}

/// Kind of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A claim.
    Claim,
    /// A table of comparisons, or one of its rows.
    Comparison,
    /// The marks of a table's column: the difference of two of its rows.
    Marks,
}

/// The points of a decision.
pub(super) enum Form<'a> {
    /// A mean.
    One(Points<'a>),
    /// A difference or a ratio.
    Two(Points<'a>, Points<'a>),
    /// The rows of a column.
    Rows(Vec<Points<'a>>),
}

impl<'a> Form<'a> {
    /// The points of each side.
    pub(super) fn sides(&self) -> Vec<&Points<'a>> {
        match self {
            Self::One(points) => vec![points],
            Self::Two(of, to) => vec![of, to],
            Self::Rows(rows) => rows.iter().collect(),
        }
    }
}

/// The decisions about a metric, in the order of the recipe.
pub(super) fn decisions<'a>(source: Source<'a>, detect: &Detect) -> Vec<Decision<'a>> {
    let recipe = &source.study.recipe;
    let mut finder = Finder { source, found: Vec::new(), group: 0 };
    for claim in recipe.claims.iter().filter(|claim| detect.is_about(claim.metric())) {
        finder.claim(claim);
        finder.group += 1;
    }
    for table in &recipe.tables {
        for metric in table.cells.iter().map(|cell| cell.value.as_str()).filter(|metric| detect.is_about(metric)) {
            match &table.kind {
                TableKind::Compare(compare) => finder.comparison(table, compare, metric),
                TableKind::Metrics(metrics) => finder.marks(table, metrics, metric),
                // Rows that are claims are listed as claims.
                TableKind::Claims(_) => {}
                TableKind::Effects(effects) => {
                    finder.unplanned(table, metric, &effects.of, "the error of an effect is that of the whole design");
                }
                TableKind::Aggregate(aggregate) => {
                    finder.unplanned(table, metric, &aggregate.of, "aggregates are judged by a bootstrap within tasks");
                }
                TableKind::Analysis(analysis) => {
                    finder.unplanned(table, metric, &analysis.of, "other analyses have their own units");
                }
            }
            finder.group += 1;
        }
    }
    finder.found
}

struct Finder<'a> {
    source: Source<'a>,
    found: Vec<Decision<'a>>,
    group: usize,
}

impl<'a> Finder<'a> {
    fn claim(&mut self, claim: &'a Claim) {
        match &claim.statement {
            Statement::Number(comparison, measure, _) => self.compared(claim, comparison, measure),
            Statement::Order(order) => self.order(claim, order),
        }
    }

    /// Adds a table whose power is not planned.
    fn unplanned(&mut self, table: &'a Table, metric: &'a str, of: &OfStep, reason: &'static str) {
        self.add(Decision {
            kind: Kind::Comparison,
            name: &table.name.value,
            part: None,
            metric,
            form: Form::One(self.points(of.step, &resolved(&self.source.study.recipe, &of.only))),
            question: self.question(&[of.step], metric, Vec::new(), false, table.rules),
            steps: vec![of.step],
            tests: 1,
            group: self.group,
            unplanned: Some(reason),
        });
    }

    fn compared(&mut self, claim: &'a Claim, comparison: &'a Comparison, measure: &Measure) {
        let sides = || comparison.sides();
        let metric = comparison.metric.value.as_str();
        let is_over_items = sides().all(|side| declared(self.source.study, side.step, metric).is_some());
        let unplanned = match (measure, claim.rules.statistic) {
            (Measure::Law(_), _) => Some("the error of a law is that of its sizes"),
            _ if is_over_items => Some("its units are items, and more seeds add no items"),
            (_, Statistic::Mean) => None,
            _ => Some("the power of another `statistic` than the mean does not follow from a standard deviation"),
        };
        let axes = match &comparison.to {
            None => Vec::new(),
            Some(to) => {
                let axes = sides().flat_map(|side| self.apart(side.step, &side.only)).collect();
                let recipe = &self.source.study.recipe;
                without_same(axes, &[resolved(recipe, &comparison.of.only), resolved(recipe, &to.only)])
            }
        };
        let of = self.side(&comparison.of);
        let form = match &comparison.to {
            None => Form::One(of),
            Some(to) => Form::Two(of, self.side(to)),
        };
        let steps: Vec<usize> = sides().map(|side| side.step).collect();
        let question = self.question(&steps, metric, axes, matches!(measure, Measure::Ratio), claim.rules);
        self.add(Decision {
            kind: Kind::Claim,
            name: &claim.name.value,
            part: None,
            metric,
            form,
            question,
            steps,
            tests: family_size(claim, &self.source.study.recipe),
            group: self.group,
            unplanned,
        });
    }

    fn order(&mut self, claim: &'a Claim, order: &'a Order) {
        let params = &self.source.study.recipe.params;
        let values: Vec<Value> = order
            .ascending
            .iter()
            .filter_map(|template| Some(template.resolve(params, &Names::new())?.value))
            .collect();
        let mut full_selection = order.only.clone();
        full_selection.0.push((order.axis.clone(), order.ascending.clone()));
        let metric = order.metric.value.as_str();
        let side = |value: &Value| {
            let mut selection = resolved(&self.source.study.recipe, &order.only);
            selection.push((&order.axis.value, vec![value.clone()]));
            self.points(order.step, &selection)
        };
        let mut decisions = Vec::new();
        for two in values.windows(2) {
            decisions.push(Decision {
                kind: Kind::Claim,
                name: &claim.name.value,
                part: Some(format!("{} < {}", two[0], two[1])),
                metric,
                form: Form::Two(side(&two[1]), side(&two[0])),
                question: self.question(
                    &[order.step],
                    metric,
                    self.apart(order.step, &full_selection),
                    false,
                    claim.rules,
                ),
                steps: vec![order.step],
                tests: family_size(claim, &self.source.study.recipe) * (values.len() - 1),
                group: self.group,
                unplanned: None,
            });
        }
        for decision in decisions {
            self.add(decision);
        }
    }

    fn comparison(&mut self, table: &'a Table, compare: &'a crate::recipe::Compare, metric: &'a str) {
        let pairs = compare::pairs(compare, self.source);
        let step = compare.of.step;
        let axis = compare.axis.value.as_str();
        let side = |value: &Value| {
            let mut selection = resolved(&self.source.study.recipe, &compare.of.only);
            selection.push((axis, vec![value.clone()]));
            self.points(step, &selection)
        };
        let sign = if compare.ratio { '/' } else { '−' };
        let mut decisions = Vec::new();
        for (of, to) in &pairs {
            let axes = apart(&self.source.study.recipe.steps[step], &[axis]);
            let mut question = self.question(&[step], metric, axes, compare.ratio, table.rules);
            question.repeats = compare.noise.as_ref().map(|noise| noise.value.as_str());
            decisions.push(Decision {
                kind: Kind::Comparison,
                name: &table.name.value,
                part: Some(format!("{of} {sign} {to}")),
                metric,
                form: Form::Two(side(of), side(to)),
                question,
                steps: vec![step],
                tests: pairs.len() * table.cells.len(),
                group: self.group,
                unplanned: None,
            });
        }
        for decision in decisions {
            self.add(decision);
        }
    }

    fn marks(&mut self, table: &'a Table, metrics: &'a Metrics, metric: &'a str) {
        let step = metrics.of.step;
        let recipe = &self.source.study.recipe;
        let mut better = self.source.traits(step, metric).better;
        if let Some((_, direction)) = metrics.best.iter().find(|(name, _)| sweep_job::same_metric(&name.value, metric))
        {
            better = *direction;
        }
        if better.is_none() {
            return;
        }
        let names =
            |axes: &[crate::recipe::Spanned<String>]| axes.iter().map(|axis| axis.value.clone()).collect::<Vec<_>>();
        let (row_axes, column_axes) = (names(&metrics.rows), names(&metrics.columns));
        let points = self.points(step, &resolved(recipe, &metrics.of.only));
        let (rows, columns) = (Keys::new(&points, &row_axes), Keys::new(&points, &column_axes));
        let names: Vec<&str> = row_axes.iter().chain(&column_axes).map(String::as_str).collect();
        let axes = apart(&recipe.steps[step], &names);
        for (column, label) in columns.labels.iter().enumerate() {
            let mut members: Vec<Points<'a>> = vec![Vec::new(); rows.labels.len()];
            for ((point, row), _) in
                points.iter().zip(&rows.of_row).zip(&columns.of_row).filter(|(_, own)| **own == column)
            {
                members[*row].push(*point);
            }
            members.retain(|row| !row.is_empty());
            if members.len() < 2 {
                continue;
            }
            let part = (!label.is_empty()).then(|| label.join(", "));
            self.add(Decision {
                kind: Kind::Marks,
                name: &table.name.value,
                part,
                metric,
                form: Form::Rows(members),
                question: self.question(&[step], metric, axes.clone(), false, table.rules),
                steps: vec![step],
                tests: 1,
                group: self.group,
                unplanned: None,
            });
            self.group += 1;
        }
    }

    fn add(&mut self, mut decision: Decision<'a>) {
        decision.steps.sort_unstable();
        decision.steps.dedup();
        decision.part = decision.part.map(|part| clean(&part).into_owned());
        self.found.push(decision);
    }

    fn question(&self, steps: &[usize], metric: &str, apart: Vec<String>, ratio: bool, rules: Rules) -> Question<'a> {
        let traits = self.source.traits(steps[0], metric);
        let kinds = self.source.kinds(steps);
        Question { traits, apart, kinds, repeats: None, ratio, unpaired: true, rules }
    }

    fn apart(&self, step: usize, selection: &Selection) -> Vec<String> {
        let names: Vec<&str> = selection.0.iter().map(|(name, _)| name.value.as_str()).collect();
        apart(&self.source.study.recipe.steps[step], &names)
    }

    fn side(&self, side: &Side) -> Points<'a> {
        self.points(side.step, &resolved(&self.source.study.recipe, &side.only))
    }

    /// All points of a step that have these values, also those whose seeds are added on demand.
    fn points(&self, step: usize, selection: &[(&str, Vec<Value>)]) -> Points<'a> {
        let points = self.source.study.steps[step].iter().filter(|(point, _)| selected(point, selection));
        points.map(|(point, job)| (point, *job)).collect()
    }
}
