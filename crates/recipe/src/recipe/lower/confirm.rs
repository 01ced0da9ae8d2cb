//! `confirm`: the step that repeats the best configurations of a search.

use sweep_job::Value;

use super::{Lower, search::Search, suggest::MAX_INTEGER};
use crate::recipe::{
    Axis, AxisValues, Dimension, Names, Progression, Step, Suggested, Template,
    keys::{Custom, Mapping as _, mapping},
    node::Node,
    schema::reference,
    source::{Span, Spanned},
};

/// A confirmation of the best configurations by seeds that the search has not seen.
#[derive(Debug, Clone)]
pub struct Confirm {
    /// Number of configurations.
    pub top: usize,
    /// Number of seeds of each.
    pub seeds: usize,
    /// The place of the request in the text.
    pub span: Span,
}

mapping! {
    /// The keys of `confirm`.
    struct ConfirmKeys = "confirm" {
        /// The number of configurations, the best ones of the search. Default: 1.
        top: Custom = Custom { schema: || reference("number"), accepts: "an integer from 1" },
        /// The number of seeds of each configuration, none of which the search has used.
        seeds [required]: Custom = Custom { schema: || reference("number"), accepts: "an integer from 2" },
    }
}

/// The end of the name of the step that confirms a search.
const CONFIRMED: &str = "-confirmed";

impl Lower<'_> {
    pub(super) fn confirm(&mut self, node: &Node, params: &Names) -> Option<Confirm> {
        let keys = ConfirmKeys::read(self, node, "`confirm`")?;
        if !keys.seeds.is_there() {
            self.problem(node.span, "`confirm` lacks `seeds`", "how many?", "write `confirm: { top: 2, seeds: 5 }`");
        }
        let top = if keys.top.is_there() { self.count(&keys.top, "top", 1.0, params) } else { Some(1) };
        let seeds = self.count(&keys.seeds, "seeds", 2.0, params);
        Some(Confirm { top: top?, seeds: seeds?, span: node.span })
    }

    /// The steps that confirm searches, which follow from the steps of the text.
    pub(super) fn confirming(&mut self, steps: &[Step], params: &Names) -> Vec<Step> {
        let mut confirming = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(Search { confirm: Some(confirm), .. }) = &step.search else { continue };
            let name = format!("{}{CONFIRMED}", step.name.value);
            if steps.iter().any(|other| other.name.value == name) {
                let message = format!("step `{name}` exists, but `confirm` creates a step with this name");
                self.problem(confirm.span, message, "the same name", "rename the other step, or remove `confirm`");
                continue;
            }
            confirming.extend(self.confirming_step(step, index, confirm, name, params));
        }
        confirming
    }

    fn confirming_step(
        &mut self,
        step: &Step,
        of: usize,
        confirm: &Confirm,
        name: String,
        params: &Names,
    ) -> Option<Step> {
        let search = step.search.as_ref()?;
        self.check_name(&Spanned::new(name.clone(), step.name.span), "step");
        let seeds = self.unseen(step, confirm, params)?;
        let rungs = search.rungs.as_ref();
        let mut matrix = step.matrix.clone();
        matrix.rungs = None;
        // The whole configuration is searched if the matrix is; with `suggest`, other axes are repetitions.
        let searched: Vec<Spanned<String>> = match &search.suggest {
            Some(_) => matrix.dimensions.iter().take(1).flat_map(Dimension::axes).cloned().collect(),
            None => {
                let axes = matrix.dimensions.iter().flat_map(Dimension::axes).cloned();
                let rung = |axis: &str| rungs.is_some_and(|rungs| rungs.axis == axis);
                axes.filter(|axis| axis.value != "seed" && !rung(&axis.value)).collect()
            }
        };
        let floats = step.matrix.suggested().map(|suggested| suggested.floats.clone()).unwrap_or_default();
        let decided = Dimension::Suggested(Suggested { axes: searched, floats });
        if search.suggest.is_some() {
            let other = |dimension: &Dimension| match dimension {
                Dimension::Suggested(_) => false,
                Dimension::Axis(axis) => {
                    axis.name.value != "seed" && rungs.is_none_or(|rungs| rungs.axis != axis.name.value)
                }
                Dimension::Zip(_) | Dimension::Random(_) | Dimension::Ablation(_) => true,
            };
            matrix.dimensions.retain(other);
        } else {
            matrix.dimensions.clear();
            (matrix.include, matrix.exclude, matrix.condition) = (Vec::new(), Vec::new(), None);
        }
        matrix.dimensions.insert(0, decided);
        if let Some(rungs) = rungs {
            let last = Value::Int(i64::try_from(rungs.last()).unwrap_or(i64::MAX));
            matrix.dimensions.push(listed(&rungs.axis, vec![last], rungs.span));
        }
        matrix.dimensions.push(listed("seed", seeds, confirm.span));
        let name = Spanned::new(name, step.name.span);
        // A seed that the search has from `with` is an axis here.
        let with =
            step.with.iter().filter(|(name, template)| name.value != "seed" || !template.references().is_empty());
        let with = with.cloned().collect();
        Some(Step { name, matrix, with, search: None, confirms: Some(of), ..step.clone() })
    }

    /// Seeds that a step does not have: the integers above its own.
    fn unseen(&mut self, step: &Step, confirm: &Confirm, params: &Names) -> Option<Vec<Value>> {
        let mut seeds = step.matrix.dimensions.iter().filter_map(|dimension| match dimension {
            Dimension::Axis(axis) if axis.name.value == "seed" => Some(&axis.values),
            _ => None,
        });
        let number = |value: &Template| value.resolve(params, &Names::new())?.value.as_f64();
        let largest = match seeds.next_back() {
            // `seeds: 5` is the range from 0 to 5, which ends before it.
            Some(AxisValues::Numbers(Progression::Range, numbers, _)) => {
                let (from, to) = (numbers.first().and_then(number), numbers.get(1).and_then(number));
                from.zip(to).map(|(from, to)| if to > from { to - 1.0 } else { from })
            }
            Some(AxisValues::Numbers(_, numbers, _)) => {
                let (from, to) = (numbers.first().and_then(number), numbers.get(1).and_then(number));
                from.zip(to).map(|(from, to)| from.max(to))
            }
            Some(AxisValues::List(values)) => {
                let values: Option<Vec<f64>> = values.iter().map(number).collect();
                values.and_then(|values| values.into_iter().reduce(f64::max))
            }
            Some(AxisValues::Of { .. }) => None,
            None => {
                let seed = step.with.iter().find(|(name, _)| name.value == "seed");
                let default = step.task.param("seed").and_then(|param| (param.default)().as_f64());
                match seed {
                    Some((_, template)) => number(template),
                    None => default,
                }
            }
        };
        let Some(largest) = largest.filter(|largest| (0.0..=MAX_INTEGER / 2.0).contains(largest)) else {
            let message = format!(
                "`confirm` needs seeds that step `{}` does not use, but the seeds of the step are not known",
                step.name.value
            );
            let help = "add `seeds:` with a number to the step";
            self.problem(confirm.span, message, "which seeds?", help);
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^52")]
        let first = largest.floor() as i64 + 1;
        Some(
            (0..confirm.seeds)
                .map(|seed| Value::Int(first.saturating_add(i64::try_from(seed).unwrap_or(i64::MAX))))
                .collect(),
        )
    }
}

/// An axis with these values.
fn listed(name: &str, values: Vec<Value>, span: Span) -> Dimension {
    let values = values.into_iter().map(|value| Template::literal(value, span)).collect();
    Dimension::Axis(Axis { name: Spanned::new(name.to_owned(), span), values: AxisValues::List(values) })
}
