//! Three referees: a greedy loop, a gate of one standard deviation, and the rule of `sweep propose`.

use std::collections::{BTreeSet, HashMap, HashSet};

use sweep_engine::{
    propose::{
        Effect, Verdict,
        rule::{self, Next, Stages},
    },
    stats::{Draws, Sample, online},
};

use crate::{
    changes::{Change, Kind},
    tasks::{Loss, State, Task},
};

/// Seeds with which `sweep propose` and the gate measure the noise of a baseline.
const NOISE: usize = 5;
/// Most sealed seeds, the default of `sweep propose`.
pub(crate) const MAX_SEALED_SEEDS: usize = 20;
/// The seeds of the recipe.
pub(crate) const SEARCH: [i64; 2] = [0, 1];

/// A referee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Keeps a change whose metric is lower with one seed.
    Greedy,
    /// Keeps a change whose metric is lower by one standard deviation with one seed.
    Gate,
    /// The rule of `sweep propose` on printed metrics.
    Propose,
    /// The same with `--sealed`, and with a metric that a script of the referee's measures.
    Sealed,
}

/// Outcome of the changes of a proposer on a task.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: usize,
    /// Runs of a program with a seed that had run before.
    pub(crate) repeated: usize,
    /// Runs with sealed seeds in confirmations.
    pub(crate) confirming: usize,
    /// The changes that were accepted.
    pub(crate) accepted: Vec<Change>,
}

/// The runs of a task, each of which is made once where there is a cache.
pub(crate) struct Runs<'a> {
    task: &'a Task,
    known: HashMap<(Vec<u64>, i64), Option<Loss>>,
    began: HashSet<(Vec<u64>, i64)>,
    tally: Tally,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(task: &'a Task) -> Self {
        Self { task, known: HashMap::new(), began: HashSet::new(), tally: Tally::default() }
    }

    /// Runs a program, without a cache.
    fn run(&mut self, state: &State, seed: i64) -> Option<Loss> {
        let run = (state.changes.clone(), seed);
        self.tally.runs += 1;
        self.tally.repeated += usize::from(!self.began.insert(run));
        self.task.run(state, seed)
    }

    /// Runs a program unless it has run with this seed.
    fn cached(&mut self, state: &State, seed: i64) -> Option<Loss> {
        let run = (state.changes.clone(), seed);
        if let Some(known) = self.known.get(&run) {
            return *known;
        }
        let loss = self.run(state, seed);
        self.known.insert(run, loss);
        loss
    }
}

/// Judges all changes of a proposer, each of which is made to the program with those that were accepted.
pub(crate) fn judge_all(referee: Rule, task: &Task, changes: &[Change], draws: &mut Draws) -> Tally {
    match referee {
        Rule::Greedy => loops(task, changes, 0),
        Rule::Gate => loops(task, changes, NOISE),
        Rule::Propose | Rule::Sealed => {
            let mut referee = Referee::new(task, referee == Rule::Sealed, draws);
            let mut state = State::default();
            for change in changes {
                let next = change.applied(&state);
                if referee.judge(&state, &next) == Some(Verdict::Accepted) {
                    referee.runs.tally.accepted.push(change.clone());
                    state = next;
                }
            }
            referee.runs.tally
        }
    }
}

/// A loop that keeps a change whose loss with one seed is lower; with seeds for the noise, lower by a standard deviation.
fn loops(task: &Task, changes: &[Change], noise: usize) -> Tally {
    let mut runs = Runs::new(task);
    let mut state = State::default();
    let first = |runs: &mut Runs<'_>, state: &State, seed| runs.run(state, seed).map(|loss| loss.printed);
    let mut best = first(&mut runs, &state, 0).unwrap_or(f64::INFINITY);
    let losses: Vec<f64> = (1..).take(noise).filter_map(|seed| first(&mut runs, &state, seed)).collect();
    let margin = Sample::new(&losses).and_then(|sample| sample.sd).unwrap_or(0.0);
    let mut seed = 0;
    for change in changes {
        let next = change.applied(&state);
        // Another seed stays if it is kept.
        let tried = if change.kind == Kind::AxisSeed { change.id.cast_signed() } else { seed };
        if let Some(loss) = runs.run(&next, tried).filter(|loss| loss.printed < best - margin) {
            (best, state, seed) = (loss.printed, next, tried);
            runs.tally.accepted.push(change.clone());
        }
    }
    runs.tally
}

/// `sweep propose` without its files.
struct Referee<'a, 'd> {
    runs: Runs<'a>,
    is_sealed: bool,
    draws: &'d mut Draws,
    asked: HashSet<[Vec<u64>; 2]>,
    tests: usize,
    discoveries: usize,
    /// The sealed values of the baseline with these changes.
    noise: HashMap<Vec<u64>, Vec<f64>>,
}

impl<'a, 'd> Referee<'a, 'd> {
    fn new(task: &'a Task, is_sealed: bool, draws: &'d mut Draws) -> Self {
        let (runs, asked, noise) = (Runs::new(task), HashSet::new(), HashMap::new());
        Self { runs, is_sealed, draws, asked, tests: 0, discoveries: 0, noise }
    }

    /// The loss of a run; `None` if it failed, or is refused because the change reads sealed data.
    fn loss(&mut self, state: &State, seed: i64) -> Option<f64> {
        let is_sealed = self.is_sealed;
        let loss = self.runs.cached(state, seed).filter(|loss| !(is_sealed && loss.reads_sealed))?;
        Some(if is_sealed { loss.measured } else { loss.printed })
    }

    /// Sealed seeds that nobody has seen.
    fn seeds(&mut self, count: usize) -> Vec<i64> {
        let mut seeds = BTreeSet::new();
        while seeds.len() < count {
            seeds.insert(1000 + i64::try_from(self.draws.below(1 << 31)).unwrap_or(0));
        }
        seeds.into_iter().collect()
    }

    /// The verdict on a change; `None` if the change is known, refused or fails.
    fn judge(&mut self, old: &State, new: &State) -> Option<Verdict> {
        let question = [old.changes.clone(), new.changes.clone()];
        if old.changes == new.changes || !self.asked.insert(question) {
            return None;
        }
        let noise = match self.noise.get(&old.changes) {
            Some(noise) => noise.clone(),
            None => {
                let seeds = self.seeds(NOISE);
                seeds.into_iter().filter_map(|seed| self.loss(old, seed)).collect()
            }
        };
        self.noise.insert(old.changes.clone(), noise.clone());
        let sd = self.runs.task.sd;
        let level = online::level_after(self.tests + 1, self.discoveries);
        let sealed = self.seeds(MAX_SEALED_SEEDS);
        let judged = judge(|state, seed| self.loss(state, seed), [old, new], &noise, sd, level, &sealed)?;
        self.tests += usize::from(judged.confirmed.is_some());
        self.runs.tally.confirming += judged.confirmed.as_ref().map_or(0, |effect| 2 * effect.seeds.len());
        if judged.verdict == Verdict::Accepted {
            self.discoveries += 1;
            self.noise.extend(judged.confirmed.map(|effect| (new.changes.clone(), effect.candidate)));
        }
        Some(judged.verdict)
    }
}

/// A verdict with its grounds.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) search: Effect,
    pub(crate) confirmed: Option<Effect>,
}

/// Judges a change with the rule of `sweep propose`; `None` if a run fails. `noise` has the sealed values of the baseline.
pub(crate) fn judge(
    mut loss: impl FnMut(&State, i64) -> Option<f64>,
    [old, new]: [&State; 2],
    noise: &[f64],
    least: f64,
    level: f64,
    sealed: &[i64],
) -> Option<Judged> {
    /// A smaller loss is better.
    const SIGN: f64 = -1.0;
    let sd = Sample::new(noise)?.sd?;
    let mut effect = |seeds: &[i64]| {
        let mut values = |state| seeds.iter().map(|seed| loss(state, *seed)).collect::<Option<Vec<f64>>>();
        Effect::new(seeds.to_vec(), values(old)?, values(new)?, SIGN)
    };
    let mut search = None;
    for count in 1..=SEARCH.len() {
        let found = effect(&SEARCH[..count])?;
        if rule::search(&found, SEARCH.len(), noise, SIGN, least, sd) == Next::Dropped {
            return Some(Judged { verdict: Verdict::Dropped, search: found, confirmed: None });
        }
        search = Some(found);
    }
    let (pairs, _) = rule::pairs(least, sd, level, MAX_SEALED_SEEDS);
    let stages = Stages::new(pairs, level);
    for size in stages.sizes() {
        let confirmed = effect(sealed.get(..*size)?)?;
        if stages.is_end(&confirmed, SIGN, least, sd) {
            let (verdict, _) = confirmed.judge(SIGN, least, &stages);
            return Some(Judged { verdict, search: search?, confirmed: Some(confirmed) });
        }
    }
    None
}
