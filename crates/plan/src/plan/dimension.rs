//! A dimension of a matrix, as the assignments that the product takes from it.

use std::collections::HashMap;

use sweep_job::Value;

use super::{
    Point, Room,
    progression::{self, between},
    room::weight,
    searched::Searched,
};
use crate::{
    recipe::{
        Ablation, Axis, AxisValues, Collector, Design, Dimension, Draw, Names, Random, Sources, Span, Spanned,
        Suggested, Template,
    },
    suggest::number,
};

/// Names that a matrix's values may refer to, and the collector of mistakes.
pub(super) struct Context<'a> {
    pub(super) params: &'a Names,
    pub(super) sources: &'a Sources,
    pub(super) problems: &'a mut Collector,
    pub(super) room: &'a mut Room,
    /// The points of the steps that come before, by name.
    pub(super) earlier: &'a dyn Fn(&str) -> Option<&'a [Point]>,
    /// The configurations of the step that are decided.
    pub(super) searched: Option<&'a Searched>,
}

/// Values for the axes of one dimension.
pub(super) type Values = Vec<(String, Spanned<Value>)>;

/// No axis has more values than this.
const MAX_VALUES: usize = 1_000_000;

impl Context<'_> {
    pub(super) fn resolve(&self, template: &Template) -> Option<Spanned<Value>> {
        template.resolve(self.params, &Names::new())
    }

    /// The values of numbers, each of which must be one.
    fn numbers(&mut self, templates: &[Template]) -> Option<Vec<Spanned<Value>>> {
        let values: Vec<Spanned<Value>> = templates.iter().filter_map(|template| self.resolve(template)).collect();
        for value in &values {
            if value.value.as_f64().is_none() {
                let message = format!("expected a number, found {} `{}`", value.value.kind(), value.value);
                self.problem(value.span, message, "not a number", "write a number, or a param with a number");
                return None;
            }
        }
        (values.len() == templates.len()).then_some(values)
    }

    /// Number of values of an axis.
    pub(super) fn count(&mut self, number: &Spanned<Value>, least: usize) -> Option<usize> {
        let (value, span) = (number.value.as_f64()?, number.span);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: whole, in range")]
        if value.fract() == 0.0 && value >= least as f64 && value <= MAX_VALUES as f64 {
            return self.take(weight(&Value::Int(0)).saturating_mul(value as u64), span).then_some(value as usize);
        }
        let help = format!("write an integer from {least} to {MAX_VALUES}");
        self.problem(span, format!("`{}` is not a number of values", Value::Float(value)), "not a count", help);
        None
    }
}

/// The assignments of a dimension; `None` after a mistake, which has been reported.
pub(super) fn assignments(dimension: &Dimension, context: &mut Context<'_>) -> Option<Vec<Values>> {
    match dimension {
        Dimension::Axis(axis) => {
            let values = axis_values(axis, context)?;
            no_duplicates(axis, &values, context);
            Some(values.into_iter().map(|value| vec![(axis.name.value.clone(), value)]).collect())
        }
        Dimension::Zip(axes) => zip(axes, context),
        Dimension::Random(random) => draw(random, context),
        Dimension::Ablation(ablation) => ablate(ablation, context),
        Dimension::Suggested(suggested) => Some(decided(suggested, context)),
    }
}

/// The configurations that are decided, which may be none.
fn decided(suggested: &Suggested, context: &Context<'_>) -> Vec<Values> {
    let points = context.searched.into_iter().flat_map(Searched::points);
    let assignment = |point: &Vec<Value>| {
        let values = suggested.axes.iter().zip(point).map(|(axis, value)| {
            let number = value.as_f64().filter(|_| suggested.floats.contains(&axis.value));
            let value = number.map_or_else(|| value.clone(), Value::Float);
            (axis.value.clone(), Spanned::new(value, axis.span))
        });
        values.collect()
    };
    points.map(assignment).collect()
}

fn axis_values(axis: &Axis, context: &mut Context<'_>) -> Option<Vec<Spanned<Value>>> {
    match &axis.values {
        AxisValues::List(templates) => {
            Some(templates.iter().filter_map(|template| context.resolve(template)).collect())
        }
        AxisValues::Numbers(progression, templates, span) => {
            let numbers = context.numbers(templates)?;
            let values = progression::values(*progression, &numbers, *span, context)?;
            Some(values.into_iter().map(|value| Spanned::new(value, *span)).collect())
        }
        AxisValues::Of { step, axis: other } => {
            let points = (context.earlier)(&step.value)?;
            let mut values: Vec<Spanned<Value>> = Vec::new();
            for value in points.iter().filter_map(|point| point.get(&other.value)) {
                if !values.iter().any(|candidate| candidate.value == *value) {
                    values.push(Spanned::new(value.clone(), other.span));
                }
            }
            if values.is_empty() {
                let message = format!("step `{}` has no axis `{}`", step.value, other.value);
                let axes = points.first().map(|point| point.values.iter().map(|(name, _)| name.as_str()));
                let help = crate::recipe::suggest(&other.value, "its axes", axes.into_iter().flatten())
                    .unwrap_or_else(|| format!("`{}` has no matrix", step.value));
                context.problem(other.span, message, "unknown axis", help);
                return None;
            }
            Some(values)
        }
    }
}

fn no_duplicates(axis: &Axis, values: &[Spanned<Value>], context: &mut Context<'_>) {
    // By a text that equal values share; there may be very many of them.
    let mut groups: HashMap<String, Vec<&Value>> = HashMap::new();
    for value in values {
        // `-0.0` and `0.0` are equal.
        let number = value.value.as_f64().map(|number| (number + 0.0).to_string());
        let group = groups.entry(number.unwrap_or_else(|| value.value.to_string())).or_default();
        if group.contains(&&value.value) {
            let message = format!("axis `{}` has the value `{}` twice", axis.name.value, value.value);
            context.problem(value.span, message, "again", "remove one of them");
            return;
        }
        group.push(&value.value);
    }
}

/// Checks that numbers are above 0.
pub(super) fn positive(numbers: &[Spanned<Value>], name: &str, context: &mut Context<'_>) -> Option<()> {
    for number in numbers {
        if number.value.as_f64()? <= 0.0 {
            let message = format!("`{name}` needs numbers above 0, found {}", number.value);
            context.problem(number.span, message, "not above 0", "only positive numbers have a logarithm");
            return None;
        }
    }
    Some(())
}

fn zip(axes: &[Axis], context: &mut Context<'_>) -> Option<Vec<Values>> {
    let columns: Vec<Vec<Spanned<Value>>> =
        axes.iter().map(|axis| axis_values(axis, context)).collect::<Option<_>>()?;
    let (first_axis, other_axes) = (axes.first()?, axes.iter().zip(&columns).skip(1));
    for (axis, column) in other_axes {
        if column.len() != columns[0].len() {
            let message = format!(
                "zipped axes must have the same number of values: `{}` has {}, `{}` has {}",
                first_axis.name.value,
                columns[0].len(),
                axis.name.value,
                column.len()
            );
            context.problem(
                axis.name.span,
                message,
                "different length",
                "give all axes of a `zip` the same number of values",
            );
            return None;
        }
    }
    let row = |index: usize| {
        axes.iter().zip(&columns).map(|(axis, column)| (axis.name.value.clone(), column[index].clone())).collect()
    };
    Some((0..columns[0].len()).map(row).collect())
}

/// The points that are drawn, each once.
fn draw(random: &Random, context: &mut Context<'_>) -> Option<Vec<Values>> {
    let n = context.numbers(std::slice::from_ref(&random.n))?;
    let n = context.count(&n[0], 1)?;
    let seed = random.seed.as_ref().and_then(|seed| context.resolve(seed)).map_or(Value::Int(0), |seed| seed.value);
    let mut points: Vec<Values> = vec![Vec::new(); n];
    for (axis, draw) in &random.axes {
        let values = draws(draw, &seed, &axis.value, n, context)?;
        for (point, value) in points.iter_mut().zip(values) {
            point.push((axis.value.clone(), Spanned::new(value, random.span)));
        }
    }
    let mut groups: HashMap<String, Vec<Values>> = HashMap::new();
    points.retain(|point| {
        let text: Vec<String> = point.iter().map(|(_, value)| value.value.to_string()).collect();
        let group = groups.entry(text.join("\0")).or_default();
        let is_new = !group.iter().any(|other| other.iter().zip(point).all(|(one, two)| one.1.value == two.1.value));
        if is_new {
            group.push(point.clone());
        }
        is_new
    });
    if points.len() < n {
        let message =
            format!("`random` draws {n} points, of which {} are distinct; each distinct point runs once", points.len());
        let help = "draws may repeat: list the values of an axis to run each of them, or draw fewer points";
        context.problems.warn(context.sources, random.n.span, message, help);
    }
    Some(points)
}

fn draws(draw: &Draw, seed: &Value, axis: &str, n: usize, context: &mut Context<'_>) -> Option<Vec<Value>> {
    let parts = (0..n).map(|index| part(seed, axis, index));
    match draw {
        Draw::Uniform(numbers, span) => {
            let (low, high) = bounds(numbers, "uniform", *span, context)?;
            Some(parts.map(|at| float(between(low, high, at))).collect())
        }
        Draw::LogUniform(numbers, span) => {
            let (low, high) = bounds(numbers, "log_uniform", *span, context)?;
            let (low, high) = (low.ln(), high.ln());
            Some(parts.map(|at| float(between(low, high, at).exp())).collect())
        }
        Draw::Choice(templates) => {
            let values: Vec<Value> =
                templates.iter().filter_map(|template| context.resolve(template)).map(|value| value.value).collect();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of values")]
            let choice = |at: f64| values[((at * values.len() as f64) as usize).min(values.len() - 1)].clone();
            (!values.is_empty()).then(|| parts.map(choice).collect())
        }
    }
}

/// The two bounds of a distribution.
fn bounds(templates: &[Template], name: &str, span: Span, context: &mut Context<'_>) -> Option<(f64, f64)> {
    let numbers = context.numbers(templates)?;
    if name.starts_with("log") {
        positive(&numbers, name, context)?;
    }
    let (from, to) = (numbers.first()?, numbers.get(1)?);
    let (low, high) = (from.value.as_f64()?, to.value.as_f64()?);
    if low > high {
        let message = format!("`{name}` goes from {} to {}", from.value, to.value);
        context.problem(span, message, "in descending order", "write the smaller number first");
        return None;
    }
    Some((low, high))
}

/// Returns `value` as a float with its significant digits.
pub(super) fn float(value: f64) -> Value {
    Value::Float(number(value).as_f64().unwrap_or(value))
}

/// A number from 0 to 1 that depends on the seed, the axis and the index alone: a further axis or a larger `n` leaves
/// earlier draws as they were.
fn part(seed: &Value, axis: &str, index: usize) -> f64 {
    let digest = blake3::hash(format!("sweep random 1\0{seed}\0{axis}\0{index}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A factor's levels: the baseline first.
type Levels = Vec<Spanned<Value>>;

fn ablate(ablation: &Ablation, context: &mut Context<'_>) -> Option<Vec<Values>> {
    let mut factors: Vec<(&str, Levels)> = Vec::new();
    for factor in &ablation.factors {
        let baseline = context.resolve(&factor.baseline)?;
        let mut levels = vec![baseline];
        for value in factor.values.iter().filter_map(|template| context.resolve(template)) {
            if !levels.iter().any(|level| level.value == value.value) {
                levels.push(value);
            }
        }
        let two_only = matches!(ablation.design, Design::LeaveOneOut | Design::Fractional);
        if levels.len() == 1 || (two_only && levels.len() != 2) {
            let name = &factor.axis.value;
            let (message, help) = if levels.len() == 1 {
                (format!("factor `{name}` has no value except its baseline"), "give the value that it changes to")
            } else {
                let message = format!("factor `{name}` has {} values besides its baseline", levels.len() - 1);
                (message, "this design needs exactly one; `add-one` and `factorial` accept more")
            };
            context.problem(factor.axis.span, message, "not a factor of this design", help);
            return None;
        }
        factors.push((&factor.axis.value, levels));
    }
    let point = |level: &dyn Fn(usize) -> usize| -> Values {
        let values = factors.iter().enumerate();
        values.map(|(index, (name, levels))| ((*name).to_owned(), levels[level(index)].clone())).collect()
    };
    let mut points = vec![point(&|_| 0)];
    match ablation.design {
        Design::AddOne => {
            for (factor, (_, levels)) in factors.iter().enumerate() {
                points.extend((1..levels.len()).map(|to| point(&|index| if index == factor { to } else { 0 })));
            }
        }
        Design::LeaveOneOut => {
            points.push(point(&|_| 1));
            let ablations = (0..factors.len()).map(|factor| point(&|index| usize::from(index != factor)));
            // With one factor, leaving it out is the baseline.
            points.extend(ablations.filter(|_| factors.len() > 1));
        }
        Design::Factorial | Design::Fractional => {
            let total = factors.iter().try_fold(1_usize, |total, (_, levels)| total.checked_mul(levels.len()));
            let factor_weight = |(name, levels): &(&str, Levels)| {
                let level_weight = levels.iter().map(|level| weight(&level.value)).max();
                name.len() as u64 + level_weight.unwrap_or(0)
            };
            let point_weight: u64 = factors.iter().map(factor_weight).sum();
            let Some(total) = total.filter(|total| *total <= MAX_VALUES) else {
                let span = ablation.factors[0].axis.span;
                let message = format!("this design has more than {MAX_VALUES} combinations");
                context.problem(span, message, "too many", "choose another design, or fewer factors");
                return None;
            };
            let first_span = ablation.factors.first().map(|factor| factor.axis.span);
            if first_span.is_some_and(|span| !context.take(point_weight.saturating_mul(total as u64), span)) {
                return None;
            }
            for combination in 1..total {
                // The combination's digits, in a number system whose bases are the numbers of levels.
                let digits: Vec<usize> = factors
                    .iter()
                    .scan(combination, |remainder, (_, levels)| {
                        let digit = *remainder % levels.len();
                        *remainder /= levels.len();
                        Some(digit)
                    })
                    .collect();
                let changes = digits.iter().filter(|digit| **digit > 0).count();
                if ablation.design == Design::Factorial || changes.is_multiple_of(2) {
                    points.push(point(&|index| digits[index]));
                }
            }
        }
    }
    Some(points)
}
