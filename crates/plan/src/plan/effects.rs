//! The design of a table or a figure of effects: the factors of its points, their levels, and the effects that can be
//! estimated.

use std::collections::{BTreeSet, HashMap, HashSet};

use sweep_job::Value;

use super::Point;
use crate::{
    format::clean,
    recipe::{Collector, Design, Dimension, Effects, Interactions, Problem, Recipe, Replication, Span, Spanned, Step},
    stats::factorial::{Effect, Factorial, Group, MAX_CELLS, MAX_FACTORS, Missing},
};

/// The points of a step as a factorial design.
#[derive(Debug)]
pub struct Layout {
    /// The factors.
    pub factors: Vec<Levels>,
    /// The combinations of their levels.
    pub design: Factorial,
    /// The interactions, as indices of factors.
    pub interactions: Vec<[usize; 2]>,
    /// The combinations, by the level of each factor.
    cells: HashMap<Vec<usize>, usize>,
    /// The axes that repeat a measurement: `seed`, and the axes zipped with it.
    repeats: Vec<String>,
}

/// A factor with its levels.
#[derive(Debug)]
pub struct Levels {
    /// The axis.
    pub axis: String,
    /// The factor's values, in the order of their first appearance.
    pub values: Vec<Value>,
    /// The levels, by the text of the value.
    known: HashMap<String, usize>,
}

/// The largest number of effects in a table or a figure.
const MAX_EFFECTS: usize = 200;

/// Reason why effects cannot be estimated from the points.
/// Each variant has the place in the recipe.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum LayoutError {
    #[error("no axis varies except `seed`, so there are no effects")]
    NoFactor { span: Span },
    #[error("factor `{axis}` has only the value `{value}` in this selection")]
    OneLevel { axis: String, value: Value, span: Span },
    #[error("point `{point}` has no value on axis `{axis}`")]
    NoLevel { axis: String, point: String, span: Span },
    #[error("axis `{axis}` varies, but is not a factor")]
    Varies { axis: String, span: Span },
    #[error("effects have at most {most} {what}")]
    TooMany { what: &'static str, most: usize, span: Span },
    #[error(
        "the points are not a complete design of {factors}: {missing} {} missing",
        if *.several { "are" } else { "is" }
    )]
    Incomplete { factors: String, missing: String, several: bool, span: Span },
    #[error("`{axis}` is in `interactions`, but does not vary")]
    NotAFactor { axis: String, span: Span },
    #[error("the interaction of `{first}` and `{second}` cannot be estimated")]
    NoInteraction { first: String, second: String, span: Span },
    #[error("{effect} cannot be distinguished from {alias} in this fraction")]
    Aliased { effect: String, alias: String, span: Span },
}

impl LayoutError {
    fn span(&self) -> Span {
        match self {
            Self::NoFactor { span }
            | Self::OneLevel { span, .. }
            | Self::NoLevel { span, .. }
            | Self::Varies { span, .. }
            | Self::TooMany { span, .. }
            | Self::Incomplete { span, .. }
            | Self::NotAFactor { span, .. }
            | Self::NoInteraction { span, .. }
            | Self::Aliased { span, .. } => *span,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::NoFactor { .. } => "no factors".to_owned(),
            Self::OneLevel { .. } => "does not vary".to_owned(),
            Self::NoLevel { axis, .. } => format!("not every point has `{axis}`"),
            Self::Varies { axis, .. } => format!("effects would be mixed with those of `{axis}`"),
            Self::TooMany { .. } => "too many".to_owned(),
            Self::Incomplete { .. } => "combinations are missing".to_owned(),
            Self::NotAFactor { .. } => "not a factor".to_owned(),
            Self::NoInteraction { .. } => "each is changed alone".to_owned(),
            Self::Aliased { alias, .. } => format!("aliased with {alias}"),
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoFactor { .. } => "give the step a matrix or `ablate`, or widen `where`".to_owned(),
            Self::OneLevel { .. } => "remove it from `factors`, or widen `where`".to_owned(),
            Self::NoLevel { .. } => "select points that have it with `where`, or name other factors".to_owned(),
            Self::Varies { axis, .. } => {
                format!("add it to `factors`, or select one value with `where: {{ {axis}: … }}`")
            }
            Self::TooMany { .. } => "name fewer factors, or select fewer points with `where`".to_owned(),
            Self::Incomplete { .. } => {
                "select a complete factorial with `where`, or an add-one, leave-one-out or half-fraction design"
                    .to_owned()
            }
            Self::NotAFactor { .. } => "remove the pair, or widen `where`".to_owned(),
            Self::NoInteraction { .. } => {
                "remove the interaction, or run the combinations with `design: factorial`; pairs that can be estimated \
                 may be listed: `interactions: [[factor, factor]]`"
                    .to_owned()
            }
            Self::Aliased { .. } => {
                "estimate only one of the two effects, or run all combinations with `design: factorial`".to_owned()
            }
        }
    }
}

/// Reports a table's or figure's effects that cannot be estimated from the points of its step.
pub(super) fn check_effects<'p>(
    recipe: &Recipe,
    effects: &Effects,
    points: impl Iterator<Item = &'p Point>,
    problems: &mut Collector,
) {
    // If the axes have other values, the report lists the missing ones.
    if recipe.is_narrowed() {
        return;
    }
    let points: Vec<&Point> = points.collect();
    let is_there = |axis: &Spanned<String>| points.iter().any(|point| point.get(&axis.value).is_some());
    let factors: HashSet<&str> = effects.factors.iter().map(|axis| axis.value.as_str()).collect();
    let is_sound = factors.len() == effects.factors.len() && !factors.contains("seed");
    // Another mistake has been reported if there are no points, an axis is missing, or factors are unsound.
    if points.is_empty() || !is_sound || !effects.factors.iter().all(is_there) {
        return;
    }
    if let Err(error) = Layout::new(recipe, effects, &points) {
        let problem = Problem::new(&recipe.sources, error.span(), error.to_string(), error.label());
        problems.push(error.span(), problem.help(error.help()));
    }
}

impl Layout {
    /// Arranges the selected points of a step.
    pub fn new(recipe: &Recipe, effects: &Effects, points: &[&Point]) -> Result<Self, LayoutError> {
        let step = &recipe.steps[effects.of.step];
        let repeats = repeats(step);
        let names = factors(step, effects, points, &repeats);
        if names.is_empty() {
            return Err(LayoutError::NoFactor { span: effects.span });
        }
        if names.len() > MAX_FACTORS {
            return Err(LayoutError::TooMany { what: "factors", most: MAX_FACTORS, span: effects.span });
        }
        let mut factors = Vec::with_capacity(names.len());
        for (axis, span) in &names {
            factors.push(Levels::new(axis, *span, points)?);
        }
        let (mut cells, mut order, mut first_points) = (HashMap::new(), Vec::new(), Vec::new());
        for point in points {
            let cell: Vec<usize> = factors.iter().filter_map(|factor| factor.level(point)).collect();
            let index = *cells.entry(cell.clone()).or_insert_with(|| {
                order.push(cell);
                first_points.push(*point);
                order.len() - 1
            });
            if let Some(axis) = varying(point, first_points[index], &names, &repeats) {
                return Err(LayoutError::Varies { axis: axis.to_owned(), span: effects.span });
            }
            if order.len() > MAX_CELLS {
                return Err(LayoutError::TooMany { what: "combinations", most: MAX_CELLS, span: effects.span });
            }
        }
        let levels = factors.iter().map(|factor| factor.values.len()).collect();
        let groups = groups(step, &names);
        let design =
            Factorial::new(levels, order, &groups).map_err(|missing| incomplete(&missing, &factors, effects))?;
        let interactions = interactions(&design, &names, &effects.interactions)?;
        let repeats = without_names(repeats, step, points, &names);
        let layout = Self { factors, design, interactions, cells, repeats };
        layout.check_aliases(effects, &names)?;
        if layout.effects().len() > MAX_EFFECTS {
            return Err(LayoutError::TooMany { what: "rows", most: MAX_EFFECTS, span: effects.span });
        }
        Ok(layout)
    }

    /// The effects: the main effects of all factors, then the interactions.
    pub fn effects(&self) -> Vec<Effect> {
        self.design.effects(&self.interactions)
    }

    /// The combination that a point has.
    pub fn cell(&self, point: &Point) -> Option<usize> {
        let levels: Option<Vec<usize>> = self.factors.iter().map(|factor| factor.level(point)).collect();
        self.cells.get(&levels?).copied()
    }

    /// The repetition that a point belongs to: its seed.
    pub fn repetition(&self, point: &Point) -> String {
        let values: Vec<Option<&Value>> = self.repeats.iter().map(|axis| point.get(axis)).collect();
        text(&values)
    }

    /// The label of an effect: `fusion: on − off`, `fusion × dtype`.
    pub fn label(&self, effect: &Effect) -> String {
        let label = match effect.0.as_slice() {
            [(factor, level)] => {
                let Levels { axis, values, .. } = &self.factors[*factor];
                format!("{axis}: {} − {}", values[*level], values[0])
            }
            terms => {
                let axes: Vec<&str> = terms.iter().map(|(factor, _)| self.factors[*factor].axis.as_str()).collect();
                let has_many_levels = terms.iter().any(|(factor, _)| self.factors[*factor].values.len() > 2);
                let values: Vec<String> =
                    terms.iter().map(|(factor, level)| self.factors[*factor].values[*level].to_string()).collect();
                let values = if has_many_levels { format!(": {}", values.join(", ")) } else { String::new() };
                format!("{}{values}", axes.join(" × "))
            }
        };
        clean(&label).into_owned()
    }

    /// Rejects effects that are aliases of other effects.
    fn check_aliases(&self, effects: &Effects, names: &[(String, Span)]) -> Result<(), LayoutError> {
        let requests: BTreeSet<Vec<usize>> = self
            .interactions
            .iter()
            .map(|pair| pair.iter().copied().collect::<BTreeSet<_>>().into_iter().collect())
            .chain((0..self.factors.len()).map(|factor| vec![factor]))
            .collect();
        let name = |effect: &[usize]| match effect {
            [factor] => format!("the effect of `{}`", self.factors[*factor].axis),
            factors => format!("the interaction `{}`", self.interaction(factors)),
        };
        // Interactions first: it is their request that is the mistake, if a main effect is aliased with one.
        let mut order: Vec<&Vec<usize>> = requests.iter().collect();
        order.sort_by_key(|effect| std::cmp::Reverse(effect.len()));
        for effect in order {
            let Some(alias) = self.design.alias(effect).filter(|alias| requests.contains(alias)) else { continue };
            let span = match (&effects.interactions, effect.as_slice()) {
                (Interactions::All(span), [_, _]) => *span,
                (Interactions::Pairs(pairs), [first, second]) => {
                    let axes = [*first, *second].map(|factor| self.factors[factor].axis.as_str());
                    let pair = pairs.iter().find(|pair| pair.iter().all(|name| axes.contains(&name.value.as_str())));
                    pair.map_or(effects.span, |pair| pair[0].span)
                }
                (_, [factor, ..]) => names[*factor].1,
                (_, []) => effects.span,
            };
            return Err(LayoutError::Aliased { effect: name(effect), alias: name(&alias), span });
        }
        Ok(())
    }

    /// The name of an interaction: `fusion × dtype`.
    pub fn interaction(&self, factors: &[usize]) -> String {
        let axes: Vec<&str> = factors.iter().map(|factor| self.factors[*factor].axis.as_str()).collect();
        clean(&axes.join(" × ")).into_owned()
    }
}

impl Levels {
    fn new(axis: &str, span: Span, points: &[&Point]) -> Result<Self, LayoutError> {
        let (mut values, mut known) = (Vec::new(), HashMap::new());
        for point in points {
            let Some(value) = point.get(axis) else {
                let point = point.to_string();
                return Err(LayoutError::NoLevel { axis: axis.to_owned(), point, span });
            };
            known.entry(text(value)).or_insert_with(|| {
                values.push(value.clone());
                values.len() - 1
            });
        }
        match values.as_slice() {
            [value] => Err(LayoutError::OneLevel { axis: axis.to_owned(), value: value.clone(), span }),
            _ => Ok(Self { axis: axis.to_owned(), values, known }),
        }
    }

    fn level(&self, point: &Point) -> Option<usize> {
        self.known.get(&text(point.get(&self.axis)?)).copied()
    }
}

/// JSON distinguishes the text "1" from the number 1.
fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The axes that repeat a measurement.
fn repeats(step: &Step) -> Vec<String> {
    let of_dimension = |dimension: &Dimension| {
        let axes: Vec<String> = dimension.axes().into_iter().map(|axis| axis.value.clone()).collect();
        let is_zipped = matches!(dimension, Dimension::Zip(_)) && axes.iter().any(|axis| axis == "seed");
        if is_zipped { axes } else { Vec::new() }
    };
    let zipped_axes = step.matrix.dimensions.iter().flat_map(of_dimension);
    let declared_axes = step.axes().into_iter().filter(|axis| step.is_repeated_by(axis)).map(str::to_owned);
    let other_axes: BTreeSet<String> = zipped_axes.chain(declared_axes).filter(|axis| axis != "seed").collect();
    std::iter::once("seed".to_owned()).chain(other_axes).collect()
}

/// The axes that repeat a measurement, without axes of kind `repeat` that only name the points because the other axes distinguish them,
/// such as the names of imported runs with seeds.
fn without_names(repeats: Vec<String>, step: &Step, points: &[&Point], names: &[(String, Span)]) -> Vec<String> {
    let is_distinct = |axes: &[&str]| {
        let mut places = HashSet::new();
        points.iter().all(|point| places.insert(text(&axes.iter().map(|axis| point.get(axis)).collect::<Vec<_>>())))
    };
    let is_name = |axis: &str| {
        step.replicates.iter().any(|(name, kind)| name == axis && *kind == Replication::Repeat) && is_distinct(&[axis])
    };
    let (named, others): (Vec<String>, Vec<String>) = repeats.into_iter().partition(|axis| is_name(axis));
    let all: Vec<&str> = names.iter().map(|(axis, _)| axis.as_str()).chain(others.iter().map(String::as_str)).collect();
    if is_distinct(&all) { others } else { others.into_iter().chain(named).collect() }
}

/// The factors that the author names, or else all axes that vary, each with the place to report it at.
fn factors(step: &Step, effects: &Effects, points: &[&Point], repeats: &[String]) -> Vec<(String, Span)> {
    if !effects.factors.is_empty() {
        return effects.factors.iter().map(|factor| (factor.value.clone(), factor.span)).collect();
    }
    let mut tied_axes: HashSet<&str> = HashSet::new();
    for dimension in &step.matrix.dimensions {
        if matches!(dimension, Dimension::Zip(_) | Dimension::Random(_)) {
            tied_axes.extend(dimension.axes().into_iter().skip(1).map(|axis| axis.value.as_str()));
        }
    }
    let is_factor = |axis: &&str| {
        let mut values = points.iter().map(|point| point.get(axis));
        let Some(Some(first)) = values.next() else { return false };
        let mut varies = false;
        for value in values {
            let Some(value) = value else { return false };
            varies |= value != first;
        }
        varies && !tied_axes.contains(axis) && !repeats.iter().any(|repeat| repeat == axis)
    };
    step.axes().into_iter().filter(is_factor).map(|axis| (axis.to_owned(), effects.span)).collect()
}

/// An axis that is not a factor and on which two points of a combination differ.
fn varying<'p>(point: &'p Point, other: &'p Point, factors: &[(String, Span)], repeats: &[String]) -> Option<&'p str> {
    let is_explained =
        |axis: &str| factors.iter().any(|(name, _)| name == axis) || repeats.iter().any(|name| name == axis);
    let mut axes =
        point.values.iter().chain(&other.values).map(|(axis, _)| axis.as_str()).filter(|axis| !is_explained(axis));
    axes.find(|axis| point.get(axis) != other.get(axis))
}

/// The factors of each dimension. Axes that only `include` has are alone.
fn groups(step: &Step, names: &[(String, Span)]) -> Vec<Group> {
    let mut groups = Vec::new();
    for dimension in &step.matrix.dimensions {
        let axes = dimension.axes();
        let is_own =
            |(index, (name, _)): (usize, &(String, Span))| axes.iter().any(|axis| axis.value == *name).then_some(index);
        let factors: Vec<usize> = names.iter().enumerate().filter_map(is_own).collect();
        let leaves_one_out =
            matches!(dimension, Dimension::Ablation(ablation) if ablation.design == Design::LeaveOneOut);
        if !factors.is_empty() {
            groups.push(Group { factors, leaves_one_out });
        }
    }
    let grouped_factors: HashSet<usize> = groups.iter().flat_map(|group| group.factors.iter().copied()).collect();
    let remaining_factors = (0..names.len()).filter(|index| !grouped_factors.contains(index));
    groups.extend(remaining_factors.map(|index| Group { factors: vec![index], leaves_one_out: false }));
    groups
}

fn incomplete(missing: &Missing, factors: &[Levels], effects: &Effects) -> LayoutError {
    let cell_name = |cell: &Vec<usize>| {
        let values =
            cell.iter().zip(factors).map(|(level, factor)| format!("{}={}", factor.axis, factor.values[*level]));
        format!("`{}`", values.collect::<Vec<_>>().join(","))
    };
    let axes: Vec<String> = factors.iter().map(|factor| format!("`{}`", factor.axis)).collect();
    let cells: Vec<String> = missing.first.iter().map(cell_name).collect();
    let suffix = if missing.is_all { "" } else { " and others" };
    LayoutError::Incomplete {
        factors: axes.join(", "),
        missing: format!("{}{suffix}", cells.join(", ")),
        several: cells.len() > 1 || !missing.is_all,
        span: effects.span,
    }
}

/// Returns the requested interactions, if all of them can be estimated.
fn interactions(
    design: &Factorial,
    names: &[(String, Span)],
    interactions: &Interactions,
) -> Result<Vec<[usize; 2]>, LayoutError> {
    let index = |name: &str| names.iter().position(|(axis, _)| axis == name);
    let pairs: Vec<([usize; 2], Span)> = match interactions {
        Interactions::None => Vec::new(),
        Interactions::All(span) => {
            let pair = |first: usize| (first + 1..names.len()).map(move |second| ([first, second], *span));
            (0..names.len()).flat_map(pair).collect()
        }
        Interactions::Pairs(pairs) => {
            let mut index_pairs = Vec::new();
            for pair in pairs {
                let [first, second] = pair;
                for name in pair {
                    if index(&name.value).is_none() {
                        // This concerns only default factors, because factors from the recipe have been checked.
                        return Err(LayoutError::NotAFactor { axis: name.value.clone(), span: name.span });
                    }
                }
                index_pairs.extend(index(&first.value).zip(index(&second.value)).map(|(a, b)| ([a, b], first.span)));
            }
            index_pairs
        }
    };
    for (pair, span) in &pairs {
        if !design.has_interaction(*pair) {
            let [first, second] = pair.map(|factor| names[factor].0.clone());
            return Err(LayoutError::NoInteraction { first, second, span: *span });
        }
    }
    Ok(pairs.into_iter().map(|(pair, _)| pair).collect())
}
