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
        if let Some(searched_step) = step.confirms {
            let search = recipe.steps[searched_step].search.as_ref();
            let confirm = search.and_then(|search| Some((search, search.confirm.as_ref()?)));
            let Some((search, confirm)) = confirm.filter(|_| self.known.is_none()) else { return Ok(None) };
            return self.confirmed(searched_step, search, confirm, store, mode);
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
        let results = Ended::read(self.plan, store, points.iter().map(|(_, id)| *id), metric, mode)?;
        // Jobs that no decision releases do not run.
        if let Some(stage_metric) = search.staged_by() {
            let study = &self.plan.studies[self.study];
            let stage_results = Ended::read(self.plan, store, points.iter().map(|(_, id)| *id), stage_metric, mode)?;
            let required_jobs = stage_results.required(self.plan, study, step, true)?;
            for configuration in &mut configurations {
                configuration.jobs.retain(|(id, _)| required_jobs.contains(id));
            }
        }
        Ok((configurations, results))
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
        let (tried_configurations, results) = self.results(self.step, search, &suggest.by.value, store, mode)?;
        let known_points: Vec<(usize, &Point)> = batches
            .iter()
            .enumerate()
            .flat_map(|(batch, points)| points.iter().map(move |point| (batch, point)))
            .collect();
        let better = suggest.better(&self.recipe().rules, step);
        let mut history = History::new(better);
        for (batch, point) in known_points {
            let configuration = tried_configurations.iter().find(|configuration| configuration.values == *point);
            let outcome =
                configuration.map_or(Outcome::Failed, |configuration| results.outcome(self.plan, configuration));
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
        let members = results.members(self.plan, &tried_configurations);
        let is_complete = results.all(self.plan, &tried_configurations);
        let Some(Answered { points, is_new, unkept, warning }) =
            rule.answer(&question, &members, is_complete, store, mode)?
        else {
            return Ok(None);
        };
        let later_batches = suggest.batches - batch - 1;
        let remaining = if points.is_empty() { 0 } else { later_batches.saturating_mul(suggest.batch) };
        let message = is_new.then(|| {
            let (number, configurations) = (batch + 1, count(points.len(), "configuration"));
            format!(
                "{name}: batch {number} of {}: {configurations}, chosen by {}",
                suggest.batches,
                suggest.source.name()
            )
        });
        let message = message.map(|message| warning.map_or(message.clone(), |warning| format!("{message}; {warning}")));
        Ok(Some(Decided { points, left: remaining, says: message, unkept }))
    }

    /// The best configurations of a search that has ended.
    fn confirmed(
        &self,
        searched_step: usize,
        search: &Search,
        confirm: &Confirm,
        store: &Store,
        mode: Mode<'_>,
    ) -> Result<Option<Decided>, SearchError> {
        let study = &self.plan.studies[self.study];
        let recipe = &study.recipe;
        let step = &recipe.steps[searched_step];
        // A search continues while configurations may be added.
        if study.left.get(&searched_step).is_some_and(|remaining| *remaining > 0) {
            return Ok(None);
        }
        let (metric, better) = match (&search.suggest, &search.rungs, &search.racing) {
            (Some(suggest), ..) => (&suggest.by, suggest.better(&recipe.rules, step)),
            (None, Some(rungs), _) => (&rungs.by, rungs.better(&recipe.rules, step)),
            (None, None, Some(racing)) => (&racing.by, racing.better(&recipe.rules, step)),
            (None, None, None) => return Ok(None),
        };
        let (tried_configurations, results) = self.results(searched_step, search, &metric.value, store, mode)?;
        if tried_configurations.is_empty() {
            return Ok(None);
        }
        let mut history = History::new(better);
        for (batch, configuration) in tried_configurations.iter().enumerate() {
            let outcome = results.outcome(self.plan, configuration);
            history.trials.push(Trial { point: configuration.values.clone(), batch, outcome });
        }
        let ranking = history.ranked().into_iter().map(|index| &history.trials[index]);
        let best_trials = ranking.filter(|trial| trial.outcome != Outcome::Failed).take(confirm.top);
        let points: Vec<Point> = best_trials.map(|trial| trial.point.clone()).collect();
        let rule = json!({
            "step": step.name.value, "by": metric.value, "direction": direction(better), "top": confirm.top,
        });
        let result = json!({ "points": named(self.axes, &points) });
        let members = results.members(self.plan, &tried_configurations);
        let decision = Decision::new(CONFIRMATION.0, CONFIRMATION.1, rule, members, result);
        let is_known = store.decision(&key_of(&decision)?)?.is_some();
        if !is_known && !results.all(self.plan, &tried_configurations) {
            return Ok(None);
        }
        let unkept = keep(store, decision, is_known, mode)?;
        let is_new = !is_known && matches!(mode, Mode::Decide(_));
        let message = is_new.then(|| {
            let configurations = count(points.len(), "configuration");
            format!("{}: {configurations} to confirm", step.name.value)
        });
        Ok(Some(Decided { points, left: 0, says: message, unkept }))
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

    /// The configurations, and whether they are newly decided; `None` if they cannot be decided yet. `is_complete` is true if
    /// all earlier jobs have ended.
    fn answer(
        &self,
        question: &Question<'_>,
        members: &[Member],
        is_complete: bool,
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
            let is_known = store.decision(&key)?.is_some();
            if !is_known && !is_complete {
                return Ok(None);
            }
            let new_suggestion = suggestion(&ask()?);
            let points = points_of(&new_suggestion, question);
            let unkept = keep(store, new_suggestion, is_known, mode)?;
            return Ok(points.map(|points| Answered { points, is_new: !is_known, unkept, warning: None }));
        }
        // The sampler's version is a separate decision, so that the output does not depend on the installed version.
        let version_decision = decision(SAMPLER, None, Json::Null);
        if let Some(version) = store
            .decision(&key_of(&version_decision)?)?
            .as_ref()
            .and_then(|version_decision| version_decision.result["version"].as_str())
        {
            let kept_suggestion = store.decision(&key_of(&decision(SUGGESTION, Some(version), Json::Null))?)?;
            if let Some(points) = kept_suggestion.and_then(|kept_suggestion| points_of(&kept_suggestion, question)) {
                return Ok(Some(Answered { points, is_new: false, unkept: None, warning: None }));
            }
        }
        if !is_complete || matches!(mode, Mode::Look) {
            return Ok(None);
        }
        let of_version = |version: &str| decision(SUGGESTION, Some(version), Json::Null);
        let ask_sampler = || -> Result<(Decision, Decision), SearchError> {
            let answer = ask()?;
            let version_decision = decision(SAMPLER, None, json!({ "name": answer.name, "version": answer.version }));
            Ok((suggestion(&answer), version_decision))
        };
        let ((new_suggestion, version_decision), warning) = match self.remote {
            None => (ask_sampler()?, None),
            Some(remote) => shared(remote, store, &version_decision, &of_version, &ask_sampler)?,
        };
        let points = points_of(&new_suggestion, question);
        keep(store, new_suggestion, false, mode)?;
        keep(store, version_decision, false, mode)?;
        Ok(points.map(|points| Answered { points, is_new: true, unkept: None, warning }))
    }
}

/// Returns the answer of a sampler and the decision with the sampler's version, from a remote if it has them; else new ones, unless another
/// process was faster. If the remote fails, the run continues, and a warning is returned.
fn shared(
    remote: &Remote,
    store: &Store,
    version_decision: &Decision,
    of_version: &dyn Fn(&str) -> Decision,
    ask_sampler: &dyn Fn() -> Result<(Decision, Decision), SearchError>,
) -> Result<((Decision, Decision), Option<String>), SearchError> {
    store.create()?;
    let fetch_suggestion = |version_decision: Decision| -> Result<Option<(Decision, Decision)>, RemoteError> {
        let Some(grounds) = version_decision.result["version"].as_str().map(of_version) else { return Ok(None) };
        let Ok(key) = grounds.key() else { return Ok(None) };
        Ok(remote.decision(store, key)?.map(|suggestion| (suggestion, version_decision)))
    };
    let remote_answer = remote
        .decision(store, key_of(version_decision)?)
        .and_then(|version_decision| version_decision.map_or(Ok(None), fetch_suggestion));
    let warning = |error: RemoteError| format!("other machines may decide differently: {}", clean(&error.to_string()));
    match remote_answer {
        Ok(Some(remote_answer)) => return Ok((remote_answer, None)),
        Ok(None) => {}
        Err(error) => return Ok((ask_sampler()?, Some(warning(error)))),
    }
    let (suggestion, version_decision) = ask_sampler()?;
    // The answer is stored first, so that a process that finds the version also finds the answer.
    let remote_suggestion = remote
        .agree(store, &suggestion)
        .and_then(|remote_suggestion| Ok((remote_suggestion, remote.agree(store, &version_decision)?)));
    Ok(match remote_suggestion {
        Ok((remote_suggestion, remote_version)) if remote_version.result == version_decision.result => {
            ((remote_suggestion, remote_version), None)
        }
        Ok((_, remote_version)) => match fetch_suggestion(remote_version) {
            Ok(Some(pair)) => (pair, None),
            Ok(None) => ((suggestion, version_decision), None),
            Err(error) => ((suggestion, version_decision), Some(warning(error))),
        },
        Err(error) => ((suggestion, version_decision), Some(warning(error))),
    })
}

/// Stores a new decision, if `mode` allows decisions; else returns it.
fn keep(store: &Store, decision: Decision, is_known: bool, mode: Mode<'_>) -> Result<Option<Decision>, SearchError> {
    match mode {
        _ if is_known => Ok(None),
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
    let mut files = BTreeMap::new();
    for (step, _) in plan.steps() {
        let source = step.search.as_ref().and_then(|search| Some(&search.suggest.as_ref()?.source));
        if let Some(Source::Provider(Provider::Program { argv, folder })) = source {
            files.extend(read_files(argv, folder).map(|(argument, text)| (folder.join(argument), text)));
        }
    }
    files
}
