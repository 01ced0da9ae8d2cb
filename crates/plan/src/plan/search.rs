//! Points of a step with `search`: their configurations, and the points that run only after a decision of the search.

use std::{
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

use sweep_base::SEED;
use sweep_job::Value;

use super::{JobId, Point, build::Builder, join::Group};
use crate::recipe::{Problem, Recipe, Step};

/// The configuration of a point of a step with `search`: its values on all axes except the axis of rungs and the
/// averaged axes, or, in a race, except the seed.
pub fn configuration(step: &Step, point: &Point) -> Point {
    let mut but: Vec<&str> = Vec::new();
    if let Some(search) = &step.search {
        if let Some(rungs) = &search.rungs {
            but.push(&rungs.axis);
            but.extend(rungs.over.iter().map(|axis| axis.value.as_str()));
        }
        if search.racing.is_some() {
            but.push(SEED);
        }
    }
    let values = point.values.iter().filter(|(axis, _)| !but.contains(&axis.as_str()));
    Point { values: values.cloned().collect() }
}

/// The seed of a point in a race, which is also the number of seeds before it, and the number of seeds at the first
/// look (`least`). `None` for a step without a race, or if the seed is not an integer from 0 and below a million.
fn seed(step: &Step, point: &Point) -> Option<(usize, usize)> {
    let racing = step.search.as_ref()?.racing.as_ref()?;
    let seed = point.get(SEED)?.as_f64().filter(|seed| seed.fract() == 0.0 && (0.0..1e6).contains(seed))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 0 to a million")]
    Some((seed as usize, racing.least))
}

/// True if a job is beyond the first rung, or beyond the seeds of the first look of a race.
pub(super) fn is_later(step: &Step, point: &Point) -> bool {
    let rungs = step.search.as_ref().and_then(|search| search.rungs.as_ref());
    let rung = rungs.is_some_and(|rungs| match point.get(&rungs.axis) {
        Some(Value::Int(rung)) => u64::try_from(*rung).ok() != rungs.at.first().copied(),
        _ => false,
    });
    rung || seed(step, point).is_some_and(|(seed, least)| seed >= least)
}

/// The jobs of races beyond the seeds of the first look, each with the number of looks before it.
pub(super) fn looks(recipe: &Recipe, steps: &[Vec<(Point, JobId)>]) -> BTreeMap<JobId, usize> {
    let mut looks = BTreeMap::new();
    for (step, points) in recipe.steps.iter().zip(steps) {
        for (point, id) in points {
            if let Some((seed, least)) = seed(step, point).filter(|(seed, least)| seed >= least) {
                looks.insert(*id, seed + 1 - least);
            }
        }
    }
    looks
}

impl Builder<'_> {
    /// True if a job runs only after a decision of a search: its rung or its seed is not reached by all configurations,
    /// or it needs such a job.
    pub(super) fn held(&mut self, step: &Step, point: &Point, needs: &[Rc<Group>]) -> bool {
        let mut is_held = is_later(step, point);
        for (need, group) in step.needs.iter().zip(needs).filter(|(_, group)| group.held.0) {
            is_held = true;
            let needed_step = &self.recipe.steps[need.step];
            let points = self.steps[need.step].iter().filter(|(_, id)| group.jobs.contains(id));
            let configurations: HashSet<String> =
                points.map(|(point, _)| configuration(needed_step, point).to_string()).collect();
            let name = &needed_step.name.value;
            let (message, help) = match configurations.len() {
                ..=1 if group.held.1 => continue,
                ..=1 => (
                    format!(
                        "`{}` needs jobs of `{name}` that run and others that its search decides about",
                        step.name.value
                    ),
                    format!("select one rung or seed with `where`: `{{ step: {name}, where: {{ … }} }}`"),
                ),
                _ => (
                    format!(
                        "`{}` needs several configurations of `{name}`, but its search stops some",
                        step.name.value
                    ),
                    format!("give both steps the axes of `{name}`, or select jobs that always run with `where`"),
                ),
            };
            let problem = Problem::new(&self.recipe.sources, need.span, message, "may never run").help(help);
            self.problems.push(need.span, problem);
        }
        is_held
    }
}
