//! A decision: the next batch of a step, or the configurations to confirm.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{
    Mode, SearchError,
    trials::{Configuration, Ended, configurations},
};
use crate::{
    format::{clean, count},
    plan::{Plan, Searched},
    recipe::{Confirm, Recipe, Search, Step, Suggest},
    remote::{Remote, RemoteError},
    stats::Better,
    store::{Decision, Member, Store},
    suggest::{Answer, History, Outcome, Point, Provider, Question, Source, Trial, seed_of},
};

/// The versions of the kinds of decisions.
const SUGGESTION: (&str, u32) = ("suggestion", 1);
const SAMPLER: (&str, u32) = ("sampler", 1);
const CONFIRMATION: (&str, u32) = ("confirmation", 1);
/// Largest file among a sampler's arguments whose content is part of its key, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A step whose next points are wanted.
pub(super) struct BatchRequest<'a> {
    pub(super) plan: &'a Plan,
    pub(super) study: usize,
    pub(super) step: usize,
    /// The axes that are decided.
    pub(super) axes: &'a [String],
    /// The batches that are decided already.
    pub(super) known: Option<&'a Searched>,
    /// The remote with which answers are shared.
    pub(super) remote: Option<&'a Remote>,
}

/// The next points of a step.
pub(super) struct Decided {
    pub(super) points: Vec<Point>,
    /// The largest number of configurations that may follow.
    pub(super) left: usize,
    /// The decision in words, if it is new.
    pub(super) says: Option<String>,
    /// The decision, if it follows from records and is not kept.
    pub(super) unkept: Option<Decision>,
}

impl BatchRequest<'_> {
    /// The next points, if they can be decided.
    pub(super) fn decided(&self, store: &Store, mode: Mode<'_>) -> Result<Option<Decided>, SearchError> {
        let recipe = self.recipe();
        let step = &recipe.steps[self.step];
        if let Some(of) = step.confirms {
            let search = recipe.steps[of].search.as_ref();
            let confirm = search.and_then(|search| Some((search, search.confirm.as_ref()?)));
            let Some((search, confirm)) = confirm.filter(|_| self.known.is_none()) else { return Ok(None) };
            return self.confirmed(of, search, confirm, store, mode);
        }
        match step.search.as_ref().and_then(|search| Some((search, search.suggest.as_ref()?))) {
            Some((search, suggest)) => self.suggested(step, search, suggest, store, mode),
            None => Ok(None),
        }
    }

    fn recipe(&self) -> &Recipe {
        &self.plan.studies[self.study].recipe
    }

    /// The configurations of a step, and the results of their jobs.
    fn results(
        &self,
        step: usize,
        search: &Search,
        metric: &str,
        store: &Store,
        mode: Mode<'_>,
    ) -> Result<(Vec<Configuration>, Ended), SearchError> {
        let points = &self.plan.studies[self.study].steps[step];
        let rungs = search.rungs.as_ref().map(|rungs| (rungs.axis.as_str(), rungs.at.as_slice()));
        let mut configurations = configurations(points, self.axes, rungs);
        let ended = Ended::read(self.plan, store, points.iter().map(|(_, id)| *id), metric, mode)?;
        // Jobs that no decision releases do not run.
        if let Some(by) = search.staged_by() {
            let study = &self.plan.studies[self.study];
            let deciding = Ended::read(self.plan, store, points.iter().map(|(_, id)| *id), by, mode)?;
            let required = deciding.required(self.plan, study, step, true)?;
            for configuration in &mut configurations {
                configuration.jobs.retain(|(id, _)| required.contains(id));
            }
        }
        Ok((configurations, ended))
    }

    /// The next batch of a search.
    fn suggested(
        &self,
        step: &Step,
        search: &Search,
        suggest: &Suggest,
        store: &Store,
        mode: Mode<'_>,
    ) -> Result<Option<Decided>, SearchError> {
        let batches = self.known.map(Searched::batches).unwrap_or_default();
        let batch = batches.len();
        if batch == suggest.batches || batches.last().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let (tried, ended) = self.results(self.step, search, &suggest.by.value, store, mode)?;
        let known: Vec<(usize, &Point)> = batches
            .iter()
            .enumerate()
            .flat_map(|(batch, points)| points.iter().map(move |point| (batch, point)))
            .collect();
        let better = suggest.better(&self.recipe().rules, step);
        let mut history = History::new(better);
        for (batch, point) in known {
            let own = tried.iter().find(|configuration| configuration.values == *point);
            let outcome = own.map_or(Outcome::Failed, |own| ended.outcome(self.plan, own));
            history.trials.push(Trial { point: point.clone(), batch, outcome });
        }
        let name = &step.name.value;
        let question = Question {
            space: &suggest.space,
            history: &history,
            n: suggest.batch,
            seed: seed_of(&[name, &suggest.seed, &batch.to_string()]),
            study_seed: seed_of(&[name, &suggest.seed]),
            batch,
            rungs: search.rungs.as_ref().map_or(1, |rungs| rungs.at.len()),
        };
        let rule = Rule { step, suggest, search, better, batch, remote: self.remote };
        let members = ended.members(self.plan, &tried);
        let whole = ended.all(self.plan, &tried);
        let Some(Answered { points, is_new, unkept, warning }) =
            rule.answer(&question, &members, whole, store, mode)?
        else {
            return Ok(None);
        };
        let after = suggest.batches - batch - 1;
        let left = if points.is_empty() { 0 } else { after.saturating_mul(suggest.batch) };
        let says = is_new.then(|| {
            let (number, configurations) = (batch + 1, count(points.len(), "configuration"));
            format!(
                "{name}: batch {number} of {}: {configurations}, chosen by {}",
                suggest.batches,
                suggest.source.name()
            )
        });
        let says = says.map(|says| warning.map_or(says.clone(), |warning| format!("{says}; {warning}")));
        Ok(Some(Decided { points, left, says, unkept }))
    }

    /// The best configurations of a search that has ended.
    fn confirmed(
        &self,
        of: usize,
        search: &Search,
        confirm: &Confirm,
        store: &Store,
        mode: Mode<'_>,
    ) -> Result<Option<Decided>, SearchError> {
        let study = &self.plan.studies[self.study];
        let recipe = &study.recipe;
        let step = &recipe.steps[of];
        // A search continues while configurations may be added.
        if study.left.get(&of).is_some_and(|left| *left > 0) {
            return Ok(None);
        }
        let (by, better) = match (&search.suggest, &search.rungs, &search.racing) {
            (Some(suggest), ..) => (&suggest.by, suggest.better(&recipe.rules, step)),
            (None, Some(rungs), _) => (&rungs.by, rungs.better(&recipe.rules, step)),
            (None, None, Some(racing)) => (&racing.by, racing.better(&recipe.rules, step)),
            (None, None, None) => return Ok(None),
        };
        let (tried, ended) = self.results(of, search, &by.value, store, mode)?;
        if tried.is_empty() {
            return Ok(None);
        }
        let mut history = History::new(better);
        for (batch, own) in tried.iter().enumerate() {
            let outcome = ended.outcome(self.plan, own);
            history.trials.push(Trial { point: own.values.clone(), batch, outcome });
        }
        let ranked = history.ranked().into_iter().map(|index| &history.trials[index]);
        let best = ranked.filter(|trial| trial.outcome != Outcome::Failed).take(confirm.top);
        let points: Vec<Point> = best.map(|trial| trial.point.clone()).collect();
        let rule = json!({
            "step": step.name.value, "by": by.value, "direction": direction(better), "top": confirm.top,
        });
        let result = json!({ "points": named(self.axes, &points) });
        let members = ended.members(self.plan, &tried);
        let decision = Decision::new(CONFIRMATION.0, CONFIRMATION.1, rule, members, result);
        let known = store.decision(&key_of(&decision)?)?.is_some();
        if !known && !ended.all(self.plan, &tried) {
            return Ok(None);
        }
        let unkept = keep(store, decision, known, mode)?;
        let is_new = !known && matches!(mode, Mode::Decide(_));
        let says = is_new.then(|| {
            let configurations = count(points.len(), "configuration");
            format!("{}: {configurations} to confirm", step.name.value)
        });
        Ok(Some(Decided { points, left: 0, says, unkept }))
    }
}

/// The configurations of a batch.
struct Answered {
    points: Vec<Point>,
    is_new: bool,
    unkept: Option<Decision>,
    /// The reason why other machines may decide otherwise.
    warning: Option<String>,
}

/// The rule of a batch.
struct Rule<'a> {
    step: &'a Step,
    suggest: &'a Suggest,
    search: &'a Search,
    better: Better,
    batch: usize,
    remote: Option<&'a Remote>,
}

impl Rule<'_> {
    /// The rule of a sampler with this version; without one, the rule of any version.
    fn json(&self, sampler: &str, version: Option<&str>) -> Json {
        let Self { step, suggest, search, better, batch, .. } = self;
        let mut rule = json!({
            "step": step.name.value,
            "sampler": sampler,
            "space": suggest.space,
            "by": suggest.by.value,
            "direction": direction(*better),
            "points": suggest.batch,
            "batch": batch,
            "seed": suggest.seed,
        });
        if let Some(version) = version {
            rule["version"] = json!(version);
        }
        if let Some(rungs) = &search.rungs {
            rule["rungs"] = json!(rungs.at);
        }
        if let Source::Provider(Provider::Program { argv, folder }) = &suggest.source {
            rule["files"] = files(argv, folder);
        }
        rule
    }

    /// The configurations, and whether they are newly decided; `None` if they cannot be decided yet. `whole` is true if all
    /// earlier jobs have ended.
    fn answer(
        &self,
        question: &Question<'_>,
        members: &[Member],
        whole: bool,
        store: &Store,
        mode: Mode<'_>,
    ) -> Result<Option<Answered>, SearchError> {
        let source = &self.suggest.source;
        let name = source.name();
        let decision = |kind: (&str, u32), version: Option<&str>, result: Json| {
            Decision::new(kind.0, kind.1, self.json(&name, version), members.to_vec(), result)
        };
        let ask =
            || source.ask(question).map_err(|source| SearchError::Ask { step: self.step.name.value.clone(), source });
        let suggestion = |answer: &Answer| {
            let names: Vec<String> = question.space.names().map(str::to_owned).collect();
            let result = json!({ "sampler": answer.name, "points": named(&names, &answer.points) });
            decision(SUGGESTION, Some(&answer.version), result)
        };
        if let Some(version) = source.version() {
            let key = key_of(&decision(SUGGESTION, Some(&version.to_string()), Json::Null))?;
            let known = store.decision(&key)?.is_some();
            if !known && !whole {
                return Ok(None);
            }
            let made = suggestion(&ask()?);
            let points = points_of(&made, question);
            let unkept = keep(store, made, known, mode)?;
            return Ok(points.map(|points| Answered { points, is_new: !known, unkept, warning: None }));
        }
        // The sampler's version is a decision of its own, so that the output does not depend on the installed version.
        let by = decision(SAMPLER, None, Json::Null);
        if let Some(version) = store.decision(&key_of(&by)?)?.as_ref().and_then(|by| by.result["version"].as_str()) {
            let kept = store.decision(&key_of(&decision(SUGGESTION, Some(version), Json::Null))?)?;
            if let Some(points) = kept.and_then(|kept| points_of(&kept, question)) {
                return Ok(Some(Answered { points, is_new: false, unkept: None, warning: None }));
            }
        }
        if !whole || matches!(mode, Mode::Look) {
            return Ok(None);
        }
        let of_version = |version: &str| decision(SUGGESTION, Some(version), Json::Null);
        let asked = || -> Result<(Decision, Decision), SearchError> {
            let answer = ask()?;
            let by = decision(SAMPLER, None, json!({ "name": answer.name, "version": answer.version }));
            Ok((suggestion(&answer), by))
        };
        let ((made, by), warning) = match self.remote {
            None => (asked()?, None),
            Some(remote) => shared(remote, store, &by, &of_version, &asked)?,
        };
        let points = points_of(&made, question);
        keep(store, made, false, mode)?;
        keep(store, by, false, mode)?;
        Ok(points.map(|points| Answered { points, is_new: true, unkept: None, warning }))
    }
}

/// Returns the answer of a sampler and the decision with the sampler's version, from a remote if it has them; else the ones
/// that are made now, unless another process was faster. A failing remote does not stop the run: then a warning is returned.
fn shared(
    remote: &Remote,
    store: &Store,
    by: &Decision,
    of_version: &dyn Fn(&str) -> Decision,
    asked: &dyn Fn() -> Result<(Decision, Decision), SearchError>,
) -> Result<((Decision, Decision), Option<String>), SearchError> {
    store.create()?;
    let there = |by: Decision| -> Result<Option<(Decision, Decision)>, RemoteError> {
        let Some(grounds) = by.result["version"].as_str().map(of_version) else { return Ok(None) };
        let Ok(key) = grounds.key() else { return Ok(None) };
        Ok(remote.decision(store, key)?.map(|made| (made, by)))
    };
    let known = remote.decision(store, key_of(by)?).and_then(|by| by.map_or(Ok(None), there));
    let warning = |error: RemoteError| format!("other machines may decide otherwise: {}", clean(&error.to_string()));
    match known {
        Ok(Some(known)) => return Ok((known, None)),
        Ok(None) => {}
        Err(error) => return Ok((asked()?, Some(warning(error)))),
    }
    let (made, by) = asked()?;
    // The answer is stored first, so that a process that finds the version also finds the answer.
    let agreed = remote.agree(store, &made).and_then(|agreed| Ok((agreed, remote.agree(store, &by)?)));
    Ok(match agreed {
        Ok((agreed, first)) if first.result == by.result => ((agreed, first), None),
        Ok((_, first)) => match there(first) {
            Ok(Some(first)) => (first, None),
            Ok(None) => ((made, by), None),
            Err(error) => ((made, by), Some(warning(error))),
        },
        Err(error) => ((made, by), Some(warning(error))),
    })
}

/// Stores a new decision, if `mode` allows decisions; else returns it.
fn keep(store: &Store, decision: Decision, known: bool, mode: Mode<'_>) -> Result<Option<Decision>, SearchError> {
    match mode {
        _ if known => Ok(None),
        Mode::Look => Ok(Some(decision)),
        Mode::Decide(_) => {
            store.create()?;
            store.keep_decision(&decision)?;
            Ok(None)
        }
    }
}

fn key_of(decision: &Decision) -> Result<crate::record::Key, SearchError> {
    decision.key().map_err(|error| SearchError::Io(error.into()))
}

fn direction(better: Better) -> &'static str {
    match better {
        Better::Less => "min",
        Better::More => "max",
    }
}

/// Configurations as maps from axis to value.
fn named(axes: &[String], points: &[Point]) -> Vec<Json> {
    let point = |point: &Point| axes.iter().zip(point).map(|(axis, value)| (axis.clone(), json!(value))).collect();
    points.iter().map(|values| Json::Object(point(values))).collect()
}

/// The configurations of a kept decision, if they are of the space.
fn points_of(decision: &Decision, question: &Question<'_>) -> Option<Vec<Point>> {
    let points = decision.result["points"].as_array()?;
    let value = |point: &Json, name: &str| serde_json::from_value::<Value>(point.get(name)?.clone()).ok();
    points.iter().map(|point| question.space.names().map(|name| value(point, name)).collect()).collect()
}

/// The digests of the arguments that are files, by argument.
fn files(argv: &[String], folder: &Path) -> Json {
    let digest =
        |(argument, text): (&String, Vec<u8>)| (argument.clone(), json!(blake3::hash(&text).to_hex().as_str()));
    Json::Object(read_files(argv, folder).map(digest).collect())
}

/// The arguments that are files, with their contents.
fn read_files<'a>(argv: &'a [String], folder: &'a Path) -> impl Iterator<Item = (&'a String, Vec<u8>)> {
    argv.iter().filter_map(move |argument| {
        let path = folder.join(argument);
        let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        let text = (size <= MAX_FILE_BYTES).then(|| fs_err::read(&path).ok()).flatten()?;
        Some((argument, text))
    })
}

/// The files of all samplers that are programs, with their contents: the decisions depend on them.
pub fn sampler_files(plan: &Plan) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for (step, _) in plan.steps() {
        let source = step.search.as_ref().and_then(|search| Some(&search.suggest.as_ref()?.source));
        if let Some(Source::Provider(Provider::Program { argv, folder })) = source {
            found.extend(read_files(argv, folder).map(|(argument, text)| (folder.join(argument), text)));
        }
    }
    found
}
