//! Measures existing results, without training.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
};

use sweep_job::Unit;

use super::{
    Prepared,
    run::{self as command, RunArgs},
    script::{self, Study, Subject},
};
use crate::{
    error::{Error, Exit},
    format::{count, duration, quantity, say},
    init::{self as recipes, Measurement, Wish},
    plan::{JobId, Plan, Point},
    recipe::Step,
    run::{self, History},
    store::Store,
};

/// Measures the finished jobs of a recipe: with the command line, or with the steps of the recipe that need them.
pub(super) fn measure(results: &Path, mut args: RunArgs) -> Result<Exit, Error> {
    let [recipe] = args.paths.as_slice() else { return Err(Error::OneRecipe) };
    let recipe = recipe.clone();
    let Prepared { plan, .. } = args.changes.prepare(results, &args.paths, &args.only.only, false)?;
    let store = Store::new(results);
    if args.command.is_empty() {
        args.measures = true;
        let selected_jobs = plan.selection()?;
        let runs = ready(&plan, &store, &selected_jobs);
        let waiting_count = selected_jobs.iter().filter(|id| !store.contains(plan.job(**id).key)).count() - runs.len();
        say(format_args!(
            "{} that need no other result; {} without a result are left",
            count(runs.len(), "job"),
            count(waiting_count, "job")
        ));
        let jobs: Vec<JobId> = runs.into_iter().collect();
        say(format_args!("{}", cost(&plan, &store, &jobs, args.jobs)?));
        let outcome = command::run(results, &args)?;
        return outcome.exit_after_answer(results, &args);
    }
    let measurement = of_command(&plan, &store, &recipe, std::mem::take(&mut args.command))?;
    let program = recipes::name(Path::new(script::subject_of(&measurement.argv)))?;
    let name = format!("{}-{program}", plan.studies.first().map_or("measure", |study| study.recipe.name.as_str()));
    let mut study =
        Study::new(results, Subject::Files(measurement), name, Wish { waits: true, ..Wish::default() }, None);
    let _claim = study.claim()?;
    args.only.only = vec![study.name.clone()];
    let Prepared { plan, .. } =
        args.changes.prepare(results, std::slice::from_ref(&study.file), &args.only.only, false)?;
    let jobs: Vec<JobId> = plan.selection()?.into_iter().filter(|id| !store.contains(plan.job(*id).key)).collect();
    say(format_args!("{}", cost(&plan, &store, &jobs, args.jobs)?));
    script::run_study(results, args, study)
}

/// The selected jobs without a result that need others, all of which have one.
pub(super) fn ready(plan: &Plan, store: &Store, selected_jobs: &HashSet<JobId>) -> HashSet<JobId> {
    let is_done = |id: &JobId| store.contains(plan.job(*id).key);
    let is_ready = |id: &JobId| {
        let lists = plan.lists_of(*id);
        !lists.is_empty() && lists.iter().all(|list| plan.list(*list).iter().all(is_done)) && !is_done(id)
    };
    selected_jobs.iter().copied().filter(is_ready).collect()
}

/// The cost of measuring jobs, before they run: their duration on this machine, estimated from earlier jobs of their steps, and the bytes
/// of the files that needed jobs keep. `at_once` is the largest number of jobs at once.
fn cost(plan: &Plan, store: &Store, jobs: &[JobId], at_once: Option<u16>) -> Result<String, Error> {
    let (limits, _) = run::allocation::share(None, at_once.map(usize::from));
    let history = History::read(store, plan).map_err(Error::io("cannot read the store"))?;
    let time = match history.duration(plan, jobs, &limits) {
        _ if jobs.is_empty() => String::new(),
        Some(seconds) => format!(", about {}", duration(seconds)),
        None => ", for an unknown time, because no job of their step has a record".to_owned(),
    };
    let own: HashSet<JobId> = jobs.iter().copied().collect();
    let mut bytes = 0;
    for id in plan.with_needs(jobs.iter().copied()).into_iter().filter(|id| !own.contains(id)) {
        let key = plan.job(id).key;
        let Some(record) = store.get(key)? else { continue };
        let files = record.outcome.artifacts.values().map(|file| store.files(key).join(file));
        bytes += files
            .filter_map(|file| file.metadata().ok())
            .filter(std::fs::Metadata::is_file)
            .map(|data| data.len())
            .sum::<u64>();
    }
    let kept = quantity(bytes as f64, Unit::Bytes);
    Ok(format!("cost: {} to run{time}; kept files that they can read: {kept}", count(jobs.len(), "job")))
}

/// The measurement of the finished jobs of a step by a command line.
fn of_command(plan: &Plan, store: &Store, recipe: &Path, argv: Vec<String>) -> Result<Measurement, Error> {
    let (selected_jobs, study) = (plan.selection()?, plan.studies.first().ok_or(Error::OneRecipe)?);
    let mut steps = Vec::new();
    for (index, (step, jobs)) in study.recipe.steps.iter().zip(&study.steps).enumerate() {
        let jobs = jobs.iter().filter(|(_, id)| plan.wants(0, index) && selected_jobs.contains(id));
        let jobs: Vec<&(Point, JobId)> = jobs.collect();
        let (mut points, mut files) = (Vec::new(), BTreeSet::new());
        for (point, id) in &jobs {
            let Some(record) = store.get(plan.job(*id).key)? else { continue };
            files.extend(record.outcome.artifacts.into_keys());
            points.push(yaml(point));
        }
        if !files.is_empty() {
            steps.push((step, jobs.len(), points, files));
        }
    }
    let names: Vec<&str> = steps.iter().map(|(step, ..)| step.name.value.as_str()).collect();
    let names = names.join(", ");
    let Ok([(step, job_count, points, files)]) = <[(&Step, usize, Vec<_>, BTreeSet<String>); 1]>::try_from(steps)
    else {
        return Err(Error::NoFiles(names));
    };
    say(format_args!(
        "measures {} of {} of `{}`; nothing is trained",
        points.len(),
        count(job_count, "job"),
        step.name.value
    ));
    let axes: BTreeSet<String> = points.iter().flatten().map(|(axis, _): &(String, String)| axis.clone()).collect();
    let study_recipe = &study.recipe;
    let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>();
    let results = BTreeMap::from([
        ("tables", names(&mut study_recipe.tables.iter().map(|table| &table.name.value))),
        ("figures", names(&mut study_recipe.figures.iter().map(|figure| &figure.name.value))),
        ("claims", names(&mut study_recipe.claims.iter().map(|claim| &claim.name.value))),
    ]);
    Ok(Measurement {
        recipe: std::path::absolute(recipe).map_err(Error::io("cannot find the recipe"))?,
        results: results.into_iter().collect(),
        step: step.name.value.clone(),
        axes: axes.into_iter().collect(),
        points,
        files,
        argv,
        folder: std::env::current_dir().map_err(Error::io("cannot find the current folder"))?,
    })
}

/// The values of a point, in the form of JSON, which is YAML.
fn yaml(point: &Point) -> Vec<(String, String)> {
    let text = |value| serde_json::to_string(value).unwrap_or_default();
    point.values.iter().map(|(axis, value)| (axis.clone(), text(&value.value))).collect()
}
