//! The revision that changed a metric, found by halving: each examined revision is compared with the good and the bad revision by a
//! sequential test over seeds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::Serialize;
use sweep_job::BackendChoice;

use super::{Change, Direction, Effect, Proposal, ProposeError, study::Subject};
use crate::{
    format::say,
    host,
    plan::normal,
    stats::{Sample, extension_level},
    store::Store,
};

/// Numbers of seeds after which a difference is looked at.
const LOOKS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];
/// The probability that any of the examined revisions is misclassified.
const ERROR_RATE: f64 = 0.05;
/// Most revisions of which cached records are looked for before anything runs.
const MAX_SCANNED: usize = 100;
/// Time for Git to list revisions.
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest list of revisions, in bytes.
const MAX_LIST: usize = 64 << 20;

/// The subject of the search.
#[derive(Debug, Clone)]
pub struct Bisection {
    /// The recipe, whose program is run with each revision.
    pub recipe: PathBuf,
    /// A revision before the change.
    pub good: String,
    /// A revision after it.
    pub bad: String,
    /// The step that measures; `None` for the only one with seeds.
    pub step: Option<String>,
    /// Values on the step's axes, as `axis=value`.
    pub at: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Most seeds for each revision.
    pub most: usize,
    /// Backend of the jobs that need a device.
    pub backend: BackendChoice,
}

/// A revision on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Its commit.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

/// The kind of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nearer to the good one.
    Good,
    /// Nearer to the bad one.
    Bad,
    /// Its jobs fail.
    Fails,
    /// The maximum number of seeds does not decide.
    Undecided,
}

/// A revision that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Look {
    /// The revision.
    #[serde(flatten)]
    pub revision: Revision,
    /// Its kind.
    pub kind: Kind,
    /// Number of seeds.
    pub seeds: usize,
    /// The mean of the metric over them.
    pub mean: Option<f64>,
}

/// The end of a search.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// The difference between the bad and the good revision.
    pub whole: Effect,
    /// The first bad revision, or the revisions among which it is.
    pub first: Vec<Revision>,
    /// The difference between the first bad revision and the last good one, if both were measured.
    pub effect: Option<Effect>,
    /// The revisions that were looked at, in this order.
    pub looks: Vec<Look>,
    /// Number of revisions after the good one, up to the bad one.
    pub revisions: usize,
}

/// A search in progress.
struct Search<'a> {
    subject: Subject<'a>,
    asked: &'a Bisection,
    store: &'a Store,
    /// From the good revision to the bad one.
    revisions: Vec<Revision>,
    /// The recipes of revisions, by their places.
    recipes: BTreeMap<usize, PathBuf>,
    /// Numbers of seeds at the looks.
    sizes: Vec<usize>,
    /// Confidence level of each look.
    level: f64,
    looks: Vec<Look>,
}

/// Finds the revision that changed a metric.
///
/// # Errors
/// There are no such revisions, the good one and the bad one do not differ beyond their noise, or jobs of one of them fail.
pub fn bisect(asked: &Bisection, store: &Store) -> Result<Found, ProposeError> {
    let revisions = revisions(asked)?;
    let last_index = revisions.len() - 1;
    let good_recipe =
        Change::Revision(revisions[0].commit.clone()).write(&asked.recipe, asked.step.as_deref(), store)?;
    let bad_recipe =
        Change::Revision(revisions[last_index].commit.clone()).write(&asked.recipe, asked.step.as_deref(), store)?;
    let proposal = Proposal {
        recipe: asked.recipe.clone(),
        delta: bad_recipe.clone(),
        step: asked.step.clone(),
        at: asked.at.clone(),
        metric: asked.metric.clone(),
        better: Direction::Max,
        least: f64::MIN_POSITIVE,
        most: asked.most,
        backend: asked.backend,
        sealed: Vec::new(),
        is_quiet: false,
    };
    let subject = Subject::new(&proposal, store)?;
    let sizes: Vec<usize> = LOOKS.into_iter().filter(|size| *size <= asked.most.max(LOOKS[0])).collect();
    // One test of the ends, and one for each halving.
    let tests = 1 + last_index.next_power_of_two().ilog2().max(1);
    let level = extension_level(&[], &sizes, ERROR_RATE / f64::from(tests));
    let recipes = BTreeMap::from([(0, good_recipe), (last_index, bad_recipe)]);
    let mut search = Search { subject, asked, store, revisions, recipes, sizes, level, looks: Vec::new() };
    let whole_effect = search.ends()?;
    let (low, high) = search.halve(whole_effect.mean)?;
    let first = search.revisions[low + 1..=high].to_vec();
    let effect = if first.len() == 1 { search.effect(low, high)? } else { None };
    Ok(Found { whole: whole_effect, first, effect, looks: search.looks, revisions: last_index })
}

/// The good revision and those after it, up to the bad one.
fn revisions(bisection: &Bisection) -> Result<Vec<Revision>, ProposeError> {
    let recipe = normal(&bisection.recipe);
    let folder = recipe.parent().unwrap_or(Path::new("."));
    let list = |range: &str, options: &[&str]| -> Option<Vec<Revision>> {
        let mut git = host::git(folder);
        git.args(["log", "--first-parent", "--reverse", "--format=%H%x09%s"]).args(options);
        let answer = host::ask(git.args(["--end-of-options", range]), MAX_LIST, Instant::now() + GIT_TIMEOUT)?;
        let revision = |line: &str| {
            let (commit, subject) = line.split_once('\t').unwrap_or((line, ""));
            Revision { commit: commit.to_owned(), subject: subject.to_owned() }
        };
        Some(answer.out().lines().map(revision).collect())
    };
    let single = |name: &String| list(name, &["--max-count=1"]).ok_or_else(|| ProposeError::NoRevision(name.clone()));
    let mut all_revisions = single(&bisection.good)?;
    single(&bisection.bad)?;
    let range = format!("{}..{}", bisection.good, bisection.bad);
    let later_revisions = list(&range, &[]).unwrap_or_default();
    if later_revisions.is_empty() {
        return Err(ProposeError::NoRange { good: bisection.good.clone(), bad: bisection.bad.clone() });
    }
    all_revisions.extend(later_revisions);
    Ok(all_revisions)
}

impl Search<'_> {
    /// The difference of the ends, which must be beyond their noise.
    fn ends(&mut self) -> Result<Effect, ProposeError> {
        let last_index = self.revisions.len() - 1;
        for size in self.sizes.clone() {
            let seeds = seeds(size);
            let effect = self.pair(0, last_index, &seeds)?;
            if self.is_decided(&differences(&effect)) {
                return Ok(effect);
            }
        }
        let max_seeds = self.sizes.last().copied().unwrap_or_default();
        Err(ProposeError::NoDifference { metric: self.asked.metric.clone(), seeds: max_seeds })
    }

    /// Halves the revisions until the first bad one is alone, or no revision between can be told. Returns the last good and the first bad
    /// revision.
    fn halve(&mut self, whole_mean: f64) -> Result<(usize, usize), ProposeError> {
        let (mut low, mut high) = (0, self.revisions.len() - 1);
        let mut unclear_places: Vec<usize> = Vec::new();
        for place in self.cached()? {
            if low < place && place < high {
                self.place(place, whole_mean, &mut low, &mut high, &mut unclear_places)?;
            }
        }
        while let Some(place) = middle(low, high, &unclear_places) {
            self.place(place, whole_mean, &mut low, &mut high, &mut unclear_places)?;
        }
        Ok((low, high))
    }

    /// Tests a revision, and moves the end of the range to which it belongs.
    fn place(
        &mut self,
        place: usize,
        whole_mean: f64,
        low: &mut usize,
        high: &mut usize,
        unclear_places: &mut Vec<usize>,
    ) -> Result<(), ProposeError> {
        let look = self.look(place, whole_mean)?;
        let mean = look.mean.map(|mean| format!(", {} {mean:.6}", self.asked.metric)).unwrap_or_default();
        let word = match look.kind {
            Kind::Good => "good",
            Kind::Bad => "bad",
            Kind::Fails => "fails",
            Kind::Undecided => "undecided",
        };
        say(format_args!("{} {word}{mean} ({} seeds): {}", short(&look.revision), look.seeds, look.revision.subject));
        match look.kind {
            Kind::Good => *low = place,
            Kind::Bad => *high = place,
            Kind::Fails | Kind::Undecided => unclear_places.push(place),
        }
        self.looks.push(look);
        Ok(())
    }

    fn look(&mut self, place: usize, whole_mean: f64) -> Result<Look, ProposeError> {
        let revision = self.revisions[place].clone();
        let last_index = self.revisions.len() - 1;
        let mut mean = None;
        for size in self.sizes.clone() {
            let seeds = seeds(size);
            let to_good = match self.pair(0, place, &seeds) {
                Ok(effect) => effect,
                Err(ProposeError::Failed(_)) => {
                    return Ok(Look { revision, kind: Kind::Fails, seeds: size, mean: None });
                }
                Err(error) => return Err(error),
            };
            let to_bad = self.pair(last_index, place, &seeds)?;
            mean = Sample::new(&to_good.candidate).map(|sample| sample.mean);
            // Above zero if the revision is nearer to the bad one.
            let difference_pairs = differences(&to_good).into_iter().zip(differences(&to_bad));
            let positions: Vec<f64> =
                difference_pairs.map(|(good, bad)| f64::midpoint(good, bad) * whole_mean.signum()).collect();
            if self.is_decided(&positions) {
                let kind = if positions.iter().sum::<f64>() > 0.0 { Kind::Bad } else { Kind::Good };
                return Ok(Look { revision, kind, seeds: size, mean });
            }
        }
        let seeds = self.sizes.last().copied().unwrap_or_default();
        Ok(Look { revision, kind: Kind::Undecided, seeds, mean })
    }

    /// True if the mean of differences is not zero.
    fn is_decided(&self, differences: &[f64]) -> bool {
        let Some(sample) = Sample::new(differences) else { return false };
        let estimate = sample.estimate_at(self.level);
        let (Some(low), Some(high)) = (estimate.low, estimate.high) else { return false };
        low > 0.0 || high < 0.0
    }

    /// The places of revisions between the ends whose first seeds are cached, the middle ones first.
    fn cached(&mut self) -> Result<Vec<usize>, ProposeError> {
        let last = self.revisions.len() - 1;
        if last > MAX_SCANNED {
            return Ok(Vec::new());
        }
        let mut places = Vec::new();
        for place in 1..last {
            let recipe = self.recipe(place)?;
            let plan = self.subject.plan(&[recipe], Some(&seeds(LOOKS[0])), false)?;
            if self.subject.wanted(&plan)?.open == 0 {
                places.push(place);
            }
        }
        places.sort_by_key(|place| place.abs_diff(last / 2));
        Ok(places)
    }

    fn recipe(&mut self, place: usize) -> Result<PathBuf, ProposeError> {
        if let Some(recipe) = self.recipes.get(&place) {
            return Ok(recipe.clone());
        }
        let change = Change::Revision(self.revisions[place].commit.clone());
        let recipe = change.write(&self.asked.recipe, self.asked.step.as_deref(), self.store)?;
        self.recipes.insert(place, recipe.clone());
        Ok(recipe)
    }

    /// The difference of a revision to another one, with these seeds.
    fn pair(&mut self, first: usize, second: usize, seeds: &[i64]) -> Result<Effect, ProposeError> {
        let recipes = [self.recipe(first)?, self.recipe(second)?];
        let plan = self.subject.run(&recipes, seeds, None)?;
        self.subject.effect(&plan, seeds)
    }

    /// The difference of two neighbors, if the jobs of both have run.
    fn effect(&mut self, low: usize, high: usize) -> Result<Option<Effect>, ProposeError> {
        let look_of = |place: usize| self.looks.iter().find(|look| look.revision == self.revisions[place]);
        let size = [low, high].iter().filter_map(|place| look_of(*place)).map(|look| look.seeds).min();
        let seeds = seeds(size.unwrap_or(LOOKS[0]));
        self.pair(low, high, &seeds).map(Some)
    }
}

/// The differences of the candidate to the baseline, in the order of the seeds.
fn differences(effect: &Effect) -> Vec<f64> {
    effect.candidate.iter().zip(&effect.baseline).map(|(candidate, baseline)| candidate - baseline).collect()
}

/// The commit of a revision, as people write it.
fn short(revision: &Revision) -> &str {
    revision.commit.get(..10).unwrap_or(&revision.commit)
}

fn seeds(count: usize) -> Vec<i64> {
    (0..).take(count).collect()
}

/// The place in the middle between two, or the nearest to it that is not unclear.
fn middle(low: usize, high: usize, unclear_places: &[usize]) -> Option<usize> {
    let middle = usize::midpoint(low, high);
    (low + 1..high).filter(|place| !unclear_places.contains(place)).min_by_key(|place| place.abs_diff(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_nearest_place_that_can_be_told() {
        assert_eq!(middle(0, 8, &[]), Some(4));
        assert_eq!(middle(0, 8, &[4]), Some(3));
        assert_eq!(middle(0, 8, &[3, 4, 5]), Some(2));
        assert_eq!(middle(3, 4, &[]), None);
        assert_eq!(middle(3, 6, &[4, 5]), None);
    }
}
