//! The cheapest numbers of seeds within a budget of time.
//!
//! A decision has as many units as the step with the fewest seeds among its steps, so the cheapest numbers of seeds with a given power are,
//! for each step, the largest number that a decision about it needs. The time is the sum over all jobs that have not run.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Serialize;

use sweep_base::SEED;

use super::{Kind, Outlook, model::MAX_SEEDS, seeds_of};
use crate::{
    plan::{JobId, Plan},
    recipe::{AxisValues, Dimension, Step},
};

/// Numbers of seeds within a budget of time.
#[derive(Debug, Serialize)]
pub struct Choice {
    /// The budget, in seconds of jobs one after the other.
    pub budget_seconds: f64,
    /// The estimated time of the jobs that are still to run with these seeds, in seconds.
    pub seconds: f64,
    /// True if every decision that counts has the wanted power with these seeds, within the budget.
    pub is_enough: bool,
    /// True if these seeds, the fewest with which anything can be decided, fit into the budget.
    pub is_affordable: bool,
    /// The time that the wanted power takes, in seconds.
    pub seconds_needed: f64,
    /// The lowest power of the decisions that count, from 0 to 1.
    pub power: f64,
    /// The seeds of each step that a decision is about, and of the steps whose seeds depend on it.
    pub steps: Vec<StepSeeds>,
    /// Number of decisions that do not count, because no number of seeds that is considered has the wanted power, or
    /// because they have no records.
    pub left_out: usize,
}

/// Chosen seeds of a step.
#[derive(Debug, Serialize)]
pub struct StepSeeds {
    /// The recipe.
    pub recipe: String,
    /// The step.
    pub step: String,
    /// The chosen number of seeds.
    pub seeds: usize,
    /// The planned number of seeds.
    pub planned: usize,
    /// Number of jobs that are still to run.
    pub jobs: usize,
    /// Their time, one after the other, in seconds.
    pub seconds: f64,
}

/// Jobs of a step by point and seed.
struct Cost {
    study: usize,
    step: usize,
    /// Index of the steps that share its number of seeds.
    chain: usize,
    planned: usize,
    /// For each point without its seed, the remaining time of the job of each seed in seconds; 0 for a cached job.
    points: Vec<Vec<f64>>,
    /// For each point without its seed, the time of a further seed in seconds.
    further: Vec<f64>,
}

impl Cost {
    /// Jobs and time with this number of seeds.
    fn of(&self, seeds: usize) -> (usize, f64) {
        let (mut jobs, mut seconds) = (0, 0.0);
        for (known, further) in self.points.iter().zip(&self.further) {
            let open_seconds = known.iter().take(seeds).filter(|own| **own > 0.0);
            let new_seeds = seeds.saturating_sub(known.len());
            jobs += open_seconds.clone().count() + new_seeds;
            seconds += open_seconds.sum::<f64>() + new_seeds as f64 * further;
        }
        (jobs, seconds)
    }
}

/// Chooses the seeds. `seconds` has the expected duration of each job of the plan, and `cached` the jobs that are done. The
/// error is the name of a step of whose jobs no duration is known, or a reason.
pub(super) fn choose(
    plan: &Plan,
    decisions: &[Outlook],
    seconds: &[Option<f64>],
    cached: &[bool],
    budget: f64,
) -> Result<Choice, String> {
    let chains = chains(plan);
    let counting: Vec<(&Outlook, Vec<usize>, usize)> = counting(decisions, &chains);
    if counting.is_empty() {
        return Err(
            "no claim or comparison has the records to compute the number of seeds that it needs; run the pilot first"
                .to_owned(),
        );
    }
    let involved: BTreeSet<usize> = counting.iter().flat_map(|(_, chains, _)| chains).copied().collect();
    let (costs, fixed_seconds) = costs(plan, &chains, &involved, seconds, cached)?;
    let mut least_seeds: BTreeMap<usize, usize> = BTreeMap::new();
    let mut needed_seeds = least_seeds.clone();
    for (outlook, chains, seeds) in &counting {
        for chain in chains {
            let first = least_seeds.entry(*chain).or_insert(2);
            *first = (*first).max(outlook.least_seeds.unwrap_or(2));
            let enough = needed_seeds.entry(*chain).or_insert(2);
            *enough = (*enough).max(*seeds).max(outlook.least_seeds.unwrap_or(2));
        }
    }
    let total = |chosen: &BTreeMap<usize, usize>| {
        fixed_seconds
            + costs.iter().map(|cost| cost.of(chosen.get(&cost.chain).copied().unwrap_or(cost.planned)).1).sum::<f64>()
    };
    let units = |chosen: &BTreeMap<usize, usize>, decision_chains: &[usize]| {
        decision_chains.iter().filter_map(|chain| chosen.get(chain)).min().copied().unwrap_or(2)
    };
    let power = |chosen: &BTreeMap<usize, usize>, outlook: &Outlook, decision_chains: &[usize]| {
        outlook.model.as_ref().map_or(0.0, |model| model.power(units(chosen, decision_chains)))
    };
    let seconds_needed = total(&needed_seeds);
    let is_enough = seconds_needed <= budget;
    let is_affordable = is_enough || total(&least_seeds) <= budget;
    let mut chosen = if is_enough { needed_seeds } else { least_seeds };
    let lowest = |chosen: &BTreeMap<usize, usize>| {
        counting.iter().map(|(outlook, decision_chains, _)| power(chosen, outlook, decision_chains)).fold(1.0, f64::min)
    };
    // Seeds beyond earlier plans are judged at a stricter level, so more seeds can have less power.
    let mut best = (lowest(&chosen), chosen.clone());
    // The lowest power decides, so the decision with the lowest one gets the next seed.
    let is_open = is_affordable && !is_enough;
    while let Some((_, decision_chains, _)) =
        counting.iter().filter(|_| is_open).min_by(|(a, decision_chains, _), (b, other, _)| {
            power(&chosen, a, decision_chains).total_cmp(&power(&chosen, b, other))
        })
    {
        let seeds = units(&chosen, decision_chains) + 1;
        let mut next = chosen.clone();
        for chain in decision_chains {
            next.entry(*chain).and_modify(|known| *known = (*known).max(seeds));
        }
        if seeds > MAX_SEEDS || total(&next) > budget {
            break;
        }
        chosen = next;
        let power = lowest(&chosen);
        if power > best.0 {
            best = (power, chosen.clone());
        }
    }
    let (lowest, chosen) = best;
    let steps = costs.iter().filter(|cost| chosen.contains_key(&cost.chain)).map(|cost| {
        let seeds = chosen.get(&cost.chain).copied().unwrap_or(cost.planned);
        let (jobs, seconds) = cost.of(seeds);
        let recipe = &plan.studies[cost.study].recipe;
        let step = recipe.steps[cost.step].name.value.clone();
        StepSeeds { recipe: recipe.name.clone(), step, seeds, planned: cost.planned, jobs, seconds }
    });
    Ok(Choice {
        budget_seconds: budget,
        seconds: total(&chosen),
        is_enough,
        is_affordable,
        seconds_needed,
        power: lowest,
        steps: steps.collect(),
        left_out: decisions.iter().filter(|outlook| counts(outlook, decisions)).count() - counting.len(),
    })
}

/// True if a decision counts: marks do only where no claim and no comparison is about the metric.
fn counts(outlook: &Outlook, all: &[Outlook]) -> bool {
    let others = all.iter().filter(|other| other.detect == outlook.detect);
    outlook.kind != Kind::Marks || others.into_iter().all(|other| other.kind == Kind::Marks)
}

/// The decisions that count, each with the chains of its steps and the seeds that it needs.
fn counting<'o>(decisions: &'o [Outlook], chains: &[Vec<usize>]) -> Vec<(&'o Outlook, Vec<usize>, usize)> {
    let counting = decisions.iter().filter(|outlook| counts(outlook, decisions) && outlook.model.is_some());
    let counting = counting.filter_map(|outlook| Some((outlook, outlook.numbers.as_ref()?.seeds_needed?)));
    let counting = counting.map(|(outlook, seeds)| {
        let decision_chains: BTreeSet<usize> = outlook.steps.iter().map(|step| chains[outlook.study][*step]).collect();
        (outlook, decision_chains.into_iter().collect(), seeds)
    });
    counting.collect()
}

/// For each study and step, the index of the steps that share its number of seeds: a step takes its seeds from another
/// one, or needs another one with the same seed.
fn chains(plan: &Plan) -> Vec<Vec<usize>> {
    let mut next = 0;
    plan.studies
        .iter()
        .map(|study| {
            let steps = &study.recipe.steps;
            let mut chain_of_step: Vec<usize> = (0..steps.len()).map(|step| next + step).collect();
            next += steps.len();
            let has_seeds = |step: usize| study.steps[step].iter().any(|(point, _)| point.get(SEED).is_some());
            for (index, step) in steps.iter().enumerate() {
                let narrowed = |only: &crate::recipe::Selection| only.0.iter().any(|(axis, _)| axis.value == SEED);
                let needs = step.needs.iter().filter(|need| !narrowed(&need.only)).map(|need| need.step);
                let source = source(step).and_then(|name| steps.iter().position(|step| step.name.value == name));
                for other in needs.chain(source).filter(|other| has_seeds(index) && has_seeds(*other)) {
                    let (from, to) = (
                        chain_of_step[index].max(chain_of_step[other]),
                        chain_of_step[index].min(chain_of_step[other]),
                    );
                    chain_of_step.iter_mut().filter(|chain| **chain == from).for_each(|chain| *chain = to);
                }
            }
            chain_of_step
        })
        .collect()
}

/// The step that a step takes its seeds from.
fn source(step: &Step) -> Option<&str> {
    let axes = step.matrix.dimensions.iter().flat_map(|dimension| match dimension {
        Dimension::Axis(axis) => std::slice::from_ref(axis),
        Dimension::Zip(axes) => axes.as_slice(),
        Dimension::Random(_) | Dimension::Suggested(_) | Dimension::Ablation(_) => &[],
    });
    axes.filter(|axis| axis.name.value == SEED).find_map(|axis| match &axis.values {
        AxisValues::Of { step, .. } => Some(step.value.as_str()),
        AxisValues::List(_) | AxisValues::Numbers(..) => None,
    })
}

/// The time of the jobs of each step, and of the steps with a fixed number of seeds.
fn costs(
    plan: &Plan,
    chains: &[Vec<usize>],
    involved: &BTreeSet<usize>,
    seconds: &[Option<f64>],
    cached: &[bool],
) -> Result<(Vec<Cost>, f64), String> {
    let mut counted_jobs: HashSet<JobId> = HashSet::new();
    let (mut costs, mut fixed_seconds) = (Vec::new(), 0.0);
    for (index, study) in plan.studies.iter().enumerate() {
        for (step, points) in study.steps.iter().enumerate() {
            let chain = chains[index][step];
            let varies = involved.contains(&chain);
            let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            let mut seconds_of_place: BTreeMap<String, f64> = BTreeMap::new();
            // Jobs that are in several steps run once.
            for (point, job) in points.iter().filter(|(_, job)| counted_jobs.insert(*job)) {
                let is_done = cached[job.index()];
                if !varies && (is_done || study.rounds.contains_key(job)) {
                    continue;
                }
                let name = &study.recipe.steps[step].name.value;
                let seconds = seconds[job.index()].or(is_done.then_some(0.0));
                let Some(seconds) = seconds else {
                    return Err(format!("no duration of a job of step `{name}` is known; run one of them first"));
                };
                if !varies {
                    fixed_seconds += seconds;
                    continue;
                }
                let place = point.but(SEED);
                groups.entry(place.clone()).or_default().push(if is_done {
                    0.0
                } else {
                    seconds.max(f64::MIN_POSITIVE)
                });
                seconds_of_place.entry(place).or_insert(seconds);
            }
            if varies && !groups.is_empty() {
                let planned = seeds_of(points).len().max(1);
                let further =
                    groups.keys().map(|place| seconds_of_place.get(place).copied().unwrap_or_default()).collect();
                costs.push(Cost {
                    study: index,
                    step,
                    chain,
                    planned,
                    points: groups.into_values().collect(),
                    further,
                });
            }
        }
    }
    Ok((costs, fixed_seconds))
}
