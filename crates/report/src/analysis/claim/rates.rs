//! Claims about the share of jobs that failed or diverged.

use super::judge::Judge;
use crate::{
    analysis::{
        Absence,
        evidence::{Evidence, Side},
        units::place,
    },
    format::count,
    plan::Point,
    recipe::Replication,
    stats::Rates,
};

impl Judge<'_> {
    /// The evidence about the share of failures of one side, or the difference of two shares.
    pub(super) fn of_failures(&self, sides: &[&Side<'_>], apart: &[String]) -> Result<Evidence, String> {
        let runs: Vec<Vec<(&Point, bool)>> =
            sides.iter().map(|side| self.outcomes(side, apart)).collect::<Result<_, _>>()?;
        let events = |runs: &[(&Point, bool)]| runs.iter().filter(|(_, failed)| *failed).count();
        let looks = sides.iter().map(|side| side.looks.clone()).reduce(|all, own| all.joined(&own)).unwrap_or_default();
        let [of, to] = runs.as_slice() else {
            let (events, runs) = (events(&runs[0]), runs[0].len());
            let basis = format!("{events} of {} failed", count(runs, "job"));
            return Ok(Evidence::of_rates(Rates::One { events, runs }, &looks, basis));
        };
        // An axis of names of runs does not define pairs.
        let steps: Vec<usize> = (0..self.source.study.recipe.steps.len()).collect();
        let kinds = self.source.kinds(&steps);
        let is_own = |axis: &str| kinds.identifies(axis) || apart.iter().any(|other| other == axis);
        let key = |point: &Point| place(point, is_own);
        let sorted = |runs: &[(&Point, bool)]| {
            let mut keyed: Vec<(Vec<String>, bool)> =
                runs.iter().map(|(point, failed)| (key(point), *failed)).collect();
            keyed.sort();
            keyed
        };
        let (first, second) = (sorted(of), sorted(to));
        let is_distinct = first.windows(2).all(|two| two[0].0 != two[1].0);
        let is_paired = is_distinct && first.iter().map(|run| &run.0).eq(second.iter().map(|run| &run.0));
        let summary = format!("{} of {} and {} of {} jobs failed", events(of), of.len(), events(to), to.len());
        let (rates, how) = if is_paired && !self.rules.independent {
            let both = || first.iter().zip(&second).map(|(of, to)| (of.1, to.1));
            let only = |outcomes: (bool, bool)| both().filter(|pair| *pair == outcomes).count();
            let (first, second, pairs) = (only((true, false)), only((false, true)), both().count());
            (Rates::Paired { first, second, pairs }, "paired (McNemar's exact test)")
        } else {
            let of_side = |runs: &[(&Point, bool)]| [events(runs), runs.len()];
            (Rates::Independent { first: of_side(of), second: of_side(to) }, "not paired (Fisher's exact test)")
        };
        Ok(Evidence::of_rates(rates, &looks, format!("{summary}, {how}")))
    }

    /// The jobs of a side, each with true if it failed.
    fn outcomes<'s>(&self, side: &'s Side<'_>, apart: &[String]) -> Result<Vec<(&'s Point, bool)>, String> {
        let mut runs: Vec<(&Point, bool)> = side.found.iter().map(|found| (found.point, false)).collect();
        let mut open_jobs = 0;
        for (absence, _, point) in &side.absent {
            match absence {
                Absence::Failed(_) | Absence::Diverged { .. } => runs.push((point, true)),
                _ => open_jobs += 1,
            }
        }
        if open_jobs > 0 {
            return Err(format!("{} neither with a result nor failed", count(open_jobs, "job")));
        }
        let Some((first, _)) = runs.first() else { return Err("no point has these values".to_owned()) };
        let varies = |axis: &str| runs.iter().any(|(point, _)| point.get(axis) != first.get(axis));
        let is_other = |axis: &str| {
            let kind = self.kind_of(axis);
            !apart.iter().any(|name| name == axis) && varies(axis) && kind < Replication::Seed
        };
        if let Some((axis, _)) = first.values.iter().find(|(axis, _)| is_other(axis.as_str())) {
            return Err(format!("failures are counted over seeds, and `{axis}` varies: name one of its values"));
        }
        Ok(runs)
    }

    /// The kind of replication of an axis, by its name and the recipe's declarations.
    fn kind_of(&self, axis: &str) -> Replication {
        let steps: Vec<usize> = (0..self.source.study.recipe.steps.len()).collect();
        self.source.kinds(&steps).of_axis(axis)
    }
}
