//! Studies without a recipe: `sweep run train.py --axis lr=1e-3,1e-2`, and `sweep run --axis lr=1,2 -- ./train --lr {lr}`.
//!
//! The recipe of such a study is written to the results folder. Its table has the metrics that the jobs have measured, which are
//! known after the first run.

pub(in crate::cli) mod logs;
mod measured;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    logs::{differ, outputs},
    measured::Measured,
};
use super::{
    ChangeArgs, Prepared, init, report,
    run::{self, Ended, RunArgs},
    studies::{self, Claim},
};
use crate::{
    error::{Error, Exit},
    format::{clean, say},
    host::replaced::{Outlives, Readers, replace},
    init::{self as recipes, InitError, Measurement, Wish},
    plan::{Job, Point},
    record::Remarks,
    stats::Better,
    store::Store,
};

/// The folder of the recipes, below the results folder.
const FOLDER: &str = "studies";
/// Maximum number of metrics in the table, and of figures.
const MAX_METRICS: usize = 6;
const MAX_CURVES: usize = 3;
/// Maximum time that a script may take until it reads its parameters.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// A study of a script or a command line.
pub(super) struct Study {
    pub(super) subject: Subject,
    /// The name of the recipe.
    pub(super) name: String,
    /// The recipe's file.
    pub(super) file: PathBuf,
    pub(super) wish: Wish,
    /// The command that writes the recipe to the current folder.
    pub(super) keep: Option<String>,
    /// True once a job has a record.
    pub(super) has_records: bool,
    /// Metrics that the jobs report, as they are named in messages.
    pub(super) left_out: Vec<String>,
    /// True for a recipe in the results folder, which is run as it is.
    pub(super) is_claimed: bool,
    /// True once the logs from which no metric comes were named.
    pub(super) has_named_logs: bool,
}

pub(super) enum Subject {
    Script(recipes::Script, recipes::Found),
    Command { argv: Vec<String>, folder: PathBuf },
    Files(Measurement),
}

/// Runs recipes, a script, or a command line.
pub(super) fn run(results: &Path, mut args: RunArgs) -> Result<Exit, Error> {
    let Some(mut study) = Study::of(results, &args)? else {
        if args.seeds.is_some() || args.python.is_some() || !args.command.is_empty() {
            return Err(Error::ForScripts);
        }
        let outcome = run::run(results, &args)?;
        return outcome.exit_after_answer(results, &args);
    };
    args.changes.axes.clear();
    args.command.clear();
    let _claim = study.claim()?;
    run_study(results, args, study)
}

/// Runs a study that was claimed, and adds the measured metrics to its recipe.
pub(super) fn run_study(results: &Path, mut args: RunArgs, mut study: Study) -> Result<Exit, Error> {
    args.paths = vec![study.file.clone()];
    args.is_study = true;
    let was_known = study.learn(results, &args.changes)?;
    let known_metrics = study.wish.metrics.clone();
    let mut outcome = run::run(results, &args)?;
    let has_metrics = outcome.has_run() || !was_known;
    if has_metrics && study.learn(results, &args.changes)? && study.wish.metrics != known_metrics {
        report::report_again(results, &args, &mut outcome)?;
        let page = results.join("reports").join(&study.name).join("index.html");
        say(format_args!("report: {}", clean(&page.display().to_string())));
    }
    study.say_nothing_found(&outcome);
    if let Subject::Script(script, found) = &study.subject
        && !study.has_records
    {
        for (argument, word) in recipes::misspelled(script, found) {
            say(format_args!("`{}` after `--`: the script has `{}`", clean(&argument), clean(&word)));
        }
    }
    if let Some(keep) = &study.keep {
        say(format_args!("keep this study: {}", clean(keep)));
    } else {
        say(format_args!("the recipe of this study: {}", clean(&study.file.display().to_string())));
    }
    outcome.exit_after_answer(results, &args)
}

impl Subject {
    /// The file that is run; `None` if there is none, or if the study is about files of jobs.
    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Script(script, _) => script.folder.join(&script.path).canonicalize().ok(),
            Self::Command { argv, folder } => {
                folder.join(subject_of(argv)).canonicalize().ok().filter(|file| file.is_file())
            }
            Self::Files(_) => None,
        }
    }
}

impl Study {
    /// The study that `args` describe, unless they name recipes.
    fn of(results: &Path, args: &RunArgs) -> Result<Option<Self>, Error> {
        let axes: Vec<(String, String)> = args.changes.axes.iter().map(|axis| init::named(axis)).collect();
        if let Some((name, _)) = axes.iter().find(|(_, values)| values.is_empty()) {
            return Err(InitError::NoValues(clean(name).into_owned()).into());
        }
        let wish = Wish { axes, seeds: args.seeds, waits: true, ..Wish::default() };
        let (subject, name, keep) = match (args.paths.as_slice(), args.command.as_slice()) {
            ([], []) => return Ok(None),
            ([], argv) => {
                let folder = std::env::current_dir().map_err(Error::io("cannot find the current folder"))?;
                let name = recipes::name(Path::new(subject_of(argv)))?;
                (Subject::Command { argv: argv.to_vec(), folder }, name, None)
            }
            ([script], arguments) if is_script(script) => {
                let (script, found) = init::inspect(script, arguments, args.python.as_deref(), INSPECTION_TIMEOUT)?;
                let name = recipes::name(&script.path)?;
                match recipes::by_settings(&script, &found, &wish) {
                    Some(argv) => (Subject::Command { argv, folder: script.folder }, name, None),
                    None => {
                        let keep = init::command_line(results, &script, &wish);
                        (Subject::Script(script, found), name, Some(keep))
                    }
                }
            }
            (paths, _) => {
                if let Some(script) = paths.iter().find(|path| is_script(path)) {
                    return Err(Error::OneScript(script.clone()));
                }
                return paths.iter().find_map(|path| unread(path)).map_or(Ok(None), Err);
            }
        };
        Ok(Some(Self::new(results, subject, name, wish, keep)))
    }

    pub(super) fn new(results: &Path, subject: Subject, name: String, wish: Wish, keep: Option<String>) -> Self {
        let folder = results.join(FOLDER);
        let name = match subject.file() {
            Some(file) => studies::name_for(&folder, &name, &file),
            None => name,
        };
        let file = folder.join(format!("{name}.yaml"));
        Self {
            subject,
            name,
            file,
            wish,
            keep,
            has_records: false,
            left_out: Vec::new(),
            is_claimed: false,
            has_named_logs: false,
        }
    }

    fn text(&self) -> Result<String, Error> {
        let text = match &self.subject {
            Subject::Script(script, found) => {
                let (text, missing_names) = recipes::text(script, found, &self.name, &self.file, &self.wish)?;
                if self.is_claimed && !missing_names.is_empty() {
                    return Err(InitError::required(script, found, &missing_names).into());
                }
                text
            }
            Subject::Command { argv, folder } => recipes::command(argv, folder, &self.name, &self.wish)?,
            Subject::Files(measurement) => measurement.text(&self.name, &self.wish)?,
        };
        Ok(if self.is_claimed { studies::marked(text, self.subject.file().as_deref()) } else { text })
    }

    /// Writes the recipe, and reserves it until the claim is dropped. If another run of the same script is using a recipe with other
    /// values, this study gets another name.
    pub(super) fn claim(&mut self) -> Result<Option<Claim>, Error> {
        self.is_claimed = true;
        let writing = || Error::io("cannot write the recipe");
        fs_err::create_dir_all(self.file.parent().unwrap_or(Path::new("."))).map_err(writing())?;
        if let Some(claim) = Claim::of(&self.file).map_err(writing())? {
            self.write()?;
            return Ok(Some(claim));
        }
        let name = std::mem::take(&mut self.name);
        self.name = format!("{name}-{}", studies::short(self.text()?.as_bytes()));
        say(format_args!(
            "another run of the study `{}` is in progress: this study is named `{}`",
            clean(&name),
            clean(&self.name)
        ));
        self.file.set_file_name(format!("{}.yaml", self.name));
        let claim = Claim::of(&self.file).map_err(writing())?;
        self.write()?;
        Ok(claim)
    }

    /// Says why the table has no metric.
    fn say_nothing_found(&self, outcome: &Ended) {
        if !self.wish.metrics.is_empty() {
            return;
        }
        if self.has_records {
            let verb = if self.left_out.len() == 1 { "is" } else { "are" };
            let left_out = match self.left_out.as_slice() {
                [] => String::new(),
                names => format!("{} {verb} the same in all jobs, or the value of an axis; ", clean(&names.join(", "))),
            };
            say(format_args!(
                "no metric was found: {left_out}print lines such as `loss=0.25`, or name a log of the program with `reads` in a recipe"
            ));
        } else if outcome.has_done() {
            say(format_args!(
                "no table: files that the jobs read were edited while they ran; the same command runs them with the present files"
            ));
        }
    }

    /// Writes the recipe.
    pub(super) fn write(&self) -> Result<(), Error> {
        let text = self.text()?;
        let writing = || Error::io("cannot write the recipe");
        fs_err::create_dir_all(self.file.parent().unwrap_or(Path::new("."))).map_err(writing())?;
        replace(&self.file, text.as_bytes(), Readers::All, Outlives::Process).map_err(writing())
    }

    /// Adds the metrics and curves that the jobs have measured to the recipe. `true` if there are any.
    pub(super) fn learn(&mut self, results: &Path, changes: &ChangeArgs) -> Result<bool, Error> {
        let Prepared { plan, .. } = changes.prepare(results, std::slice::from_ref(&self.file), &[], false)?;
        let store = Store::new(results);
        let mut curves = BTreeMap::new();
        let points = plan.steps().filter(|(step, _)| step.name.value == self.name).flat_map(|(_, points)| points);
        let numbers = |point: &Point| {
            let numbers = point.values.iter().filter_map(|(axis, value)| Some((axis.clone(), value.value.as_f64()?)));
            numbers.collect::<Vec<_>>()
        };
        let words = |point: &Point| -> BTreeSet<String> {
            point.values.iter().filter_map(|(_, value)| value.value.as_text().map(str::to_owned)).collect()
        };
        let (points, own_jobs): (Vec<&Point>, Vec<&Job>) = points.map(|(point, id)| (point, plan.job(*id))).unzip();
        let words: Vec<BTreeSet<String>> = points.iter().map(|point| words(point)).collect();
        let mut metrics = Measured::of(points.into_iter().map(numbers).collect());
        for (index, job) in own_jobs.iter().enumerate() {
            let Some(record) = store.get(job.key)? else { continue };
            self.has_records = true;
            let open_metrics = record.outcome.metrics.iter().filter(|(name, _)| job.task.metric(name).is_none());
            for (name, metric) in
                open_metrics.filter(|(name, _)| name.rsplit_once('.').is_none_or(|(_, last_part)| last_part != "step"))
            {
                metrics.add(name, index, metric.value);
            }
            for name in Remarks::of(&record.outcome, &record.identity.task).diverged.keys() {
                metrics.add(name, index, f64::NAN);
            }
            for name in record.outcome.curves.keys() {
                *curves.entry(name.clone()).or_insert(0) += 1;
            }
        }
        let has_results = metrics.names().any(|name| Better::of_name(name).is_some());
        if !has_results && self.wish.printed.is_empty() && self.wish.logs.is_empty() {
            (self.wish.printed, self.wish.logs) = logs::of(&self.wish, (&own_jobs, &words), &store, &metrics, &curves)?;
            if !self.wish.printed.is_empty() || !self.wish.logs.is_empty() {
                // The metrics are taken from the logs: no program runs again.
                self.write()?;
                return self.learn(results, changes);
            }
        }
        if !self.wish.logs.is_empty() {
            // New jobs may have written other files.
            let present = logs::written(&own_jobs, &store)?;
            if present != self.wish.logs && !present.is_empty() {
                self.wish.logs = present;
                self.write()?;
                return self.learn(results, changes);
            }
        }
        if has_results {
            if self.wish.printed.is_empty() && !std::mem::replace(&mut self.has_named_logs, true) {
                logs::say_unread(&self.wish, &own_jobs, &store)?;
            }
            let new = logs::unread(&self.wish, (&own_jobs, &words), &store, &metrics, &curves)?;
            if !new.is_empty() {
                self.wish.printed.extend(new);
                self.write()?;
                return self.learn(results, changes);
            }
        }
        self.left_out = metrics.names().take(MAX_METRICS).map(|name| format!("`{name}`")).collect();
        let do_outputs_differ = || outputs(&own_jobs, &store).is_ok_and(|outputs| differ(&outputs));
        self.wish.metrics = metrics.chosen(metrics.names(), MAX_METRICS, do_outputs_differ);
        self.wish.curves = chosen(curves, MAX_CURVES);
        if !self.wish.metrics.is_empty() {
            self.write()?;
        }
        Ok(!self.wish.metrics.is_empty())
    }
}

/// The `max` most frequent names; names with a better direction come first.
fn chosen(counts: BTreeMap<String, usize>, max: usize) -> Vec<String> {
    let mut names: Vec<(String, usize)> = counts.into_iter().collect();
    names.sort_by_key(|(name, count)| (Better::of_name(name).is_none(), std::cmp::Reverse(*count)));
    names.into_iter().map(|(name, _)| name).take(max).collect()
}

/// The recipe that `path` names; for a script, the recipe that `sweep run` has written for it.
pub(super) fn recipe_of(results: &Path, path: &Path) -> Result<PathBuf, Error> {
    if !is_script(path) {
        return unread(path).map_or_else(|| Ok(path.to_owned()), Err);
    }
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    studies::of(&results.join(FOLDER), &recipes::name(path)?, &file).ok_or_else(|| Error::NoStudy(path.to_owned()))
}

/// The error of a program in a language whose parameters are not read; `None` for any other file.
pub(super) fn unread(path: &Path) -> Option<Error> {
    let by = recipes::started_by(path).filter(|_| path.is_file())?;
    Some(Error::UnreadProgram { path: path.to_owned(), by })
}

/// True for a file that is not a recipe: a script of a known kind, or an executable file.
fn is_script(path: &Path) -> bool {
    let is_recipe = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
    !is_recipe
        && (recipes::target(path).is_some()
            || path.extension().is_some_and(|end| end == "py")
            || recipes::language(path).is_ok())
}

/// The part of a command line that names its study: the module or the script that an interpreter or a launcher runs, else the
/// program.
pub(super) fn subject_of(argv: &[String]) -> &str {
    let is_file = |argument: &&String| !argument.starts_with('-') && Path::new(argument.as_str()).is_file();
    let module =
        argv.iter().position(|argument| argument == "-m").and_then(|index| Some((index, argv.get(index + 1)?)));
    let script = module.map(|(index, module)| {
        let path = module.replace('.', "/");
        let is_own = [".py", "/__main__.py"].iter().any(|end| Path::new(&format!("{path}{end}")).is_file());
        // `-m torch.distributed.run train.py`, `-m cProfile train.py`
        let is_python = |argument: &&String| Path::new(argument.as_str()).extension().is_some_and(|end| end == "py");
        let started = argv[index + 2..].iter().filter(is_file).find(is_python);
        started.filter(|_| !is_own).map_or_else(|| module.rsplit('.').next().unwrap_or(module), String::as_str)
    });
    // `./train data.txt`: its files are data.
    let program = argv.first().map(String::as_str).filter(|program| program.contains('/') && !program.starts_with('/'));
    let script = script.or_else(|| program.filter(|program| Path::new(program).is_file()));
    let script = script.or_else(|| argv.iter().skip(1).find(is_file).map(String::as_str));
    script.or_else(|| argv.first().map(String::as_str)).unwrap_or("command")
}
