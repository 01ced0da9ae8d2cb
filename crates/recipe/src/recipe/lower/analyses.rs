//! `curve`, `profile`, `fit` and `variance`: tables of further analyses, each of which has rows of its own.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{Lower, OfStep};
use crate::recipe::{
    Names, Selection, Step, Template,
    keys::{Custom, Flag, Given, Mapping as _, Number, Text, Texts, mapping},
    node::{Node, NodeKind, typed_value},
    schema::reference,
    source::Spanned,
};

/// A further analysis of the points of a step.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The points that were measured.
    pub of: OfStep,
    /// The kind of the analysis.
    pub kind: AnalysisKind,
}

/// The kinds of further analyses.
#[derive(Debug, Clone)]
pub enum AnalysisKind {
    /// A number of each job's curve, by an axis.
    Curve(CurveTable),
    /// How near methods are to the fastest one, over workloads.
    Profile(Profile),
    /// A power law over sizes.
    Fit(Fit),
    /// Components of variance. The axes; if there are none, all axes that repeat a measurement.
    Variance(Vec<Spanned<String>>),
}

/// A number of each job's curve, by the values of an axis.
#[derive(Debug, Clone)]
pub struct CurveTable {
    /// The axis whose values are the rows.
    pub axis: Spanned<String>,
    /// The value that the others are compared with.
    pub baseline: Option<Template>,
    /// The number.
    pub read: CurveRead,
    /// A metric or a parameter with the cost of one step; steps count as one without it.
    pub cost: Option<Spanned<String>>,
}

/// A number that is read off a curve. Places are in steps, or in the unit of the cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CurveRead {
    /// The place at which the metric reaches this value.
    Target(f64),
    /// The mean height up to this place.
    Area(f64),
    /// The value at this place.
    At(f64),
}

/// The times to a target of methods on workloads.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The axis whose values are the methods.
    pub axis: Spanned<String>,
    /// The axis whose values are the workloads.
    pub workload: Spanned<String>,
    /// The workloads, each with the value that the metric has to reach.
    pub targets: Vec<(Value, f64)>,
    /// As for [`CurveTable`].
    pub cost: Option<Spanned<String>>,
}

/// A power law of a metric over the sizes of jobs.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The axis, parameter or metric with the size.
    pub x: Spanned<String>,
    /// The size that is no part of the fit, and is predicted.
    pub predict: Option<f64>,
    /// True if the law has a constant.
    pub constant: bool,
    /// The axis whose values have a law each.
    pub axis: Option<Spanned<String>>,
}

mapping! {
    /// The keys of a table's `curve`. Exactly one of `target`, `area` and `at` is given.
    struct CurveKeys = "curve" {
        /// The axis whose values are the rows.
        axis [required]: Text = Text::NAME,
        /// The value of the axis with which the others are compared.
        baseline: Custom = Custom { schema: || reference("value"), accepts: "a value" },
        /// Shows the number of steps until the metric is at least as good as this value.
        ///
        /// Runs that end before it count as longer (Kaplan and Meier); the groups are compared by the log-rank test.
        target: Number,
        /// Shows the mean height of the curve up to this number of steps, which is the area below it per step.
        area: Number,
        /// Shows the value of the curve at this number of steps.
        at: Number,
        /// The cost of one step: a metric or a parameter of the jobs, such as tokens or FLOPs. `target`, `area` and
        /// `at` are then in the unit of the cost, which compares jobs at equal compute instead of equal steps.
        /// Default: one step costs 1.
        cost: Text = Text::METRIC,
    }
}

mapping! {
    /// The keys of a table's `profile`.
    struct ProfileKeys = "profile" {
        /// The axis whose values are the rows, for example the methods.
        axis [required]: Text = Text::NAME,
        /// The axis whose values are the workloads.
        workload [required]: Text = Text::NAME,
        /// The value that the metric must reach on each workload.
        targets [required]: Custom = Custom { schema: targets, accepts: "values of `workload` to numbers" },
        /// The cost of one step: a metric or a parameter of the jobs, as in `curve`. Default: one step costs 1.
        cost: Text = Text::METRIC,
    }
}

/// The schema of `targets`.
fn targets() -> Json {
    json!({ "type": "object", "minProperties": 1, "additionalProperties": { "type": "number" } })
}

mapping! {
    /// The keys of a table's `fit`.
    struct FitKeys = "fit" {
        /// The size of a job: an axis, a parameter or a metric, such as `parameters`, `tokens` or `flops`.
        x [required]: Text = Text::METRIC,
        /// A size that is left out of the fit. The table shows the law's prediction for this size with its 95 %
        /// prediction interval, and whether the interval contains the measured mean.
        predict: Number,
        /// Adds a constant to the law, as in a claim's `law`. Such a law needs four sizes. Default: `false`.
        constant: Flag,
        /// The axis with one law for each of its values, such as `method`. The table shows whether smaller sizes give
        /// the same ranking as the largest size.
        axis: Text = Text::NAME,
    }
}

mapping! {
    /// The keys of a table's `variance`.
    struct VarianceKeys = "variance" {
        /// The axes with the random sources, such as `data_seed` and `init_seed`. Default: all axes that repeat a measurement
        /// (`replicates`). Every other axis must be constant.
        axes: Texts = Texts::NAMES,
    }
}

impl Analysis {
    /// The selection of the baseline.
    pub(super) fn selection(&self) -> Selection {
        match &self.kind {
            AnalysisKind::Curve(CurveTable { axis, baseline: Some(baseline), .. }) => {
                Selection(vec![(axis.clone(), vec![baseline.clone()])])
            }
            _ => Selection::default(),
        }
    }

    /// The axes and metrics that it names besides the cells.
    pub fn named(&self) -> impl Iterator<Item = &Spanned<String>> {
        let named: [Option<&Spanned<String>>; 3] = match &self.kind {
            AnalysisKind::Curve(curve) => [Some(&curve.axis), curve.cost.as_ref(), None],
            AnalysisKind::Profile(profile) => [Some(&profile.axis), Some(&profile.workload), profile.cost.as_ref()],
            AnalysisKind::Fit(fit) => [Some(&fit.x), fit.axis.as_ref(), None],
            AnalysisKind::Variance(_) => [None; 3],
        };
        named.into_iter().flatten()
    }
}

impl Lower<'_> {
    /// Reads the further analysis of a table: the one of these keys that is given.
    pub(super) fn analysis(
        &mut self,
        given: [(&str, Option<&Node>); 4],
        step: &Step,
        of: &OfStep,
        params: &Names,
    ) -> Option<Analysis> {
        let mut keys = given.into_iter().filter_map(|(key, node)| Some((key, node?)));
        let (key, node) = keys.next()?;
        let subject = format!("a table with `{key}`");
        self.no_place(&subject, "it has rows of its own", keys.map(|(key, node)| (key, Some(node.span))));
        let kind = match key {
            "curve" => AnalysisKind::Curve(self.curve(node, step, params)?),
            "profile" => AnalysisKind::Profile(self.profile(node, step)?),
            "fit" => AnalysisKind::Fit(self.fit(node, step)?),
            _ => AnalysisKind::Variance(self.variance(node, step)?),
        };
        Some(Analysis { of: of.clone(), kind })
    }

    fn curve(&mut self, node: &Node, step: &Step, params: &Names) -> Option<CurveTable> {
        let keys = CurveKeys::read(self, node, "`curve`")?;
        let read = self.curve_read(node, "curve", [&keys.target, &keys.area, &keys.at])?;
        let axis = self.row_axis(node, "curve", keys.axis, step)?;
        let baseline = keys.baseline.node().and_then(|node| self.value(node, params));
        Some(CurveTable { axis, baseline, read, cost: keys.cost.spanned() })
    }

    /// The number of a curve that the keys `target`, `area` and `at` of `key` name, of which one is given.
    pub(super) fn curve_read(&mut self, node: &Node, key: &str, given: [&Given<'_, f64>; 3]) -> Option<CurveRead> {
        let [target, area, at] = given;
        let help = "write a number of steps above 0";
        let steps =
            [(area, "area"), (at, "at")].map(|(given, key)| self.positive(given, key, "not a number of steps", help));
        let reads = [
            (target, target.value.map(CurveRead::Target)),
            (area, steps[0].map(CurveRead::Area)),
            (at, steps[1].map(CurveRead::At)),
        ];
        let given_reads: Vec<Option<CurveRead>> =
            reads.iter().filter(|(given, _)| given.is_there()).map(|(_, read)| *read).collect();
        let [read] = given_reads.as_slice() else {
            let help = "write exactly one of `target: VALUE`, `area: STEPS` and `at: STEPS`";
            self.problem(
                node.span,
                format!("`{key}` must have exactly one of `target`, `area` and `at`"),
                "ambiguous \
                or missing",
                help,
            );
            return None;
        };
        *read
    }

    fn profile(&mut self, node: &Node, step: &Step) -> Option<Profile> {
        let keys = ProfileKeys::read(self, node, "`profile`")?;
        let axis = self.row_axis(node, "profile", keys.axis, step);
        if self.is_missing(node, "workload", &keys.workload) {
            let help = "write `workload: NAME` with the axis whose values are the workloads";
            self.problem(node.span, "`profile` has no `workload`", "`workload` is missing", help);
        }
        let help = "write `targets: { WORKLOAD: VALUE }` with a number for each workload";
        let Some(given) = keys.targets.node() else {
            self.problem(node.span, "`profile` has no `targets`", "`targets` is missing", help);
            return None;
        };
        let mut targets = Vec::new();
        for entry in self.entries(given, "`targets`") {
            match &entry.value.kind {
                NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => {
                    targets.extend(value.as_f64().map(|target| (typed_value(&entry.key.value), target)));
                }
                _ => {
                    let message = format!(
                        "the target of `{}` must be a number, found {}",
                        entry.key.value,
                        entry.value.describe()
                    );
                    self.problem(entry.value.span, message, "not a number", help);
                }
            }
        }
        let workload = keys.workload.spanned()?;
        self.check_axis(&workload, step, &step.axes());
        if targets.is_empty() {
            self.problem(given.span, "`targets` has no workload", "no targets", help);
            return None;
        }
        Some(Profile { axis: axis?, workload, targets, cost: keys.cost.spanned() })
    }

    fn fit(&mut self, node: &Node, step: &Step) -> Option<Fit> {
        let keys = FitKeys::read(self, node, "`fit`")?;
        if self.is_missing(node, "x", &keys.x) {
            let help = "write `{ x: NAME }` with the axis, parameter or metric that is the size";
            self.problem(node.span, "`fit` has no `x`", "`x` is missing", help);
        }
        let predict = self.positive(&keys.predict, "predict", "no size", "write the size that is left out of the fit");
        let axis = keys.axis.spanned();
        if let Some(axis) = &axis {
            self.check_axis(axis, step, &step.axes());
        }
        let x = keys.x.spanned()?;
        self.check_size(&x, step);
        Some(Fit { x, predict, constant: keys.constant.value.unwrap_or_default(), axis })
    }

    fn variance(&mut self, node: &Node, step: &Step) -> Option<Vec<Spanned<String>>> {
        let keys = VarianceKeys::read(self, node, "`variance`")?;
        let axes = keys.axes.value.unwrap_or_default();
        for axis in &axes {
            self.check_axis(axis, step, &step.axes());
        }
        Some(axes)
    }

    /// Reads the axis whose values are the rows; seeds are the runs of a row.
    fn row_axis(&mut self, node: &Node, key: &str, given: Given<'_, String>, step: &Step) -> Option<Spanned<String>> {
        if self.is_missing(node, "axis", &given) {
            let help = "write `axis: NAME` with the axis whose values are the rows";
            self.problem(node.span, format!("`{key}` has no `axis`"), "`axis` is missing", help);
        }
        let axis = given.spanned()?;
        self.check_axis(&axis, step, &step.axes());
        if axis.value == "seed" {
            let help = "seeds are the runs of a row; name another axis";
            self.problem(axis.span, format!("`seed` cannot be the axis of `{key}`"), "repeats the measurement", help);
        }
        Some(axis)
    }
}
