//! The parameters of a job: the values of a step's templates at a point, checked, with the digests of the input files.

use std::{collections::BTreeMap, io, path::Path, rc::Rc};

use sweep_job::{
    Kind, Param, ParamError, Spelling, TaskSpec, Value, Values,
    tasks::{Command, Tracks, complete_ranks, ignored, is_fork},
};

use super::{JobId, Point, as_by_hand, build::Builder, join::Group, lint, room::weight_of};
use crate::recipe::{
    Axis, AxisValues, Dimension, MAX_VALUE_BYTES, Names, Problem, Reference, ResourceCount, Scope, Span, Spanned, Step,
    Template, suggest, too_long,
};
use crate::record::{self, Deferred, Product};

/// The parameter for the folder that a program runs in.
pub(super) const PROJECT: &str = "project";
/// The parameter for the variant of its code.
pub(super) const CODE: &str = "code";

/// The parameters that a recipe sets for a job, in the order of the task, each with the place of its value.
type Places = Vec<(&'static Param, Span)>;

/// The parameters of a job.
pub(super) struct JobValues {
    /// The values that the job gets.
    pub(super) values: Values,
    /// The values in the job's key, if their [spelling](Spelling) differs.
    pub(super) keyed: Option<Values>,
    /// Digests of the input files.
    pub(super) inputs: BTreeMap<String, String>,
}

impl Builder<'_> {
    /// Every parameter of a job, checked, and the digests of its inputs. Reports invalid values.
    pub(super) fn values(
        &mut self,
        step: &Step,
        point: &Point,
        matrix: &Names,
        params: &[(&'static Param, Option<&Template>)],
        needs: &[Rc<Group>],
    ) -> Option<JobValues> {
        if !self.has_room(step, point, matrix) {
            return None;
        }
        let results = self.results(step, point, needs);
        let result = |reference: &Reference| {
            let (_, value) = results.iter().find(|(candidate, _)| candidate == reference)?;
            value.clone()
        };
        let is_program = step.task.name == <Command as TaskSpec>::NAME;
        let (mut given_values, mut spellings) = (Values::new(), Values::new());
        let mut places = Places::new();
        let mut ok = true;
        for (param, template) in params {
            let resolve = |spelling| match template {
                Some(template) => template.resolve_with(&self.recipe.params, matrix, spelling, &result),
                None => matrix.get(param.name).cloned(),
            };
            let Some(value) = resolve(Spelling::Canonical) else {
                // The point has no such value, or a mistake has been reported; its consequences are not reported again.
                ok &= template.is_none_or(|template| template.is_left_out(matrix));
                if let Some(reference) = template.and_then(|template| template.lacking(matrix)) {
                    self.no_axis(step, point, reference);
                }
                continue;
            };
            let is_respelled = |template: &&Template| is_program && template.is_respelled(&self.recipe.params, matrix);
            let written_value = template.filter(is_respelled).and_then(|_| resolve(Spelling::Written));
            places.push((param, value.span));
            match record::check(param, &value.value, Spelling::Canonical) {
                Ok(canonical) => {
                    given_values.insert(param.name.to_owned(), canonical);
                    let written_value = written_value
                        .and_then(|written_value| record::check(param, &written_value.value, Spelling::Written).ok());
                    spellings.extend(written_value.map(|written_value| (param.name, written_value)));
                }
                Err(error) => {
                    self.does_not_fit(step, matrix, param, *template, &value, &error);
                    ok = false;
                }
            }
        }
        let complete = |values: Values| {
            let mut values = step.task.complete(values);
            if is_program {
                complete_ranks(&mut values, step.resources.gpus.map(ResourceCount::count), step.resources.nodes());
            }
            values
        };
        let mut keyed = (!spellings.is_empty()).then(|| complete(given_values.clone()));
        given_values.extend(spellings);
        let mut values = complete(given_values);
        let inputs = self.inputs(step, &mut values, &places)?;
        if is_program && let Some(folder) = self.folder_by_hand(step, &values, &places) {
            for values in keyed.iter_mut().chain([&mut values]) {
                values.insert(PROJECT.to_owned(), Value::Text(folder.clone()));
            }
        }
        if is_program && !self.vary(step, &mut values, &places) {
            return None;
        }
        if !ok {
            return None;
        }
        let has_unknown = step.with.iter().any(|(name, _)| step.task.param(&name.value).is_none());
        for conflict in step.task.conflicts(&record::preview(&values)) {
            // An unknown parameter has been reported; it may be a misspelling of the missing parameter.
            let is_given = |param: &&str| step.with.iter().any(|(name, _)| name.value == **param);
            if has_unknown && !conflict.params.iter().any(is_given) {
                continue;
            }
            let place = |name: &&str| places.iter().find(|(param, _)| param.name == *name).map(|(_, place)| *place);
            let span = conflict.params.iter().find_map(place).unwrap_or(step.name.span);
            let message = format!("{}: {}", self.label(step, point), conflict.message);
            let problem = Problem::new(&self.recipe.sources, span, message, "incompatible");
            self.problems.push(span, problem.help(conflict.advice));
        }
        self.check_nodes(step, point, &values);
        if is_program && let Some((_, place)) = places.iter().find(|(param, _)| param.name == "set") {
            self.check_settings(step, &values, *place);
        }
        Some(JobValues { values, keyed, inputs })
    }

    /// Replaces the value of `code` by the folder with the files of the variant, or by nothing for the project as it is; `false`
    /// after a mistake, which has been reported.
    fn vary(&mut self, step: &Step, values: &mut Values, places: &Places) -> bool {
        let (Some(code), Some(Value::Text(folder))) = (values.get(CODE), values.get(PROJECT)) else { return true };
        let span = places.iter().find(|(param, _)| param.name == CODE).map(|(_, span)| *span);
        let Some(span) = span.filter(|_| *code != Value::Null) else { return true };
        let sources = &self.recipe.sources;
        let code = code.as_text().and_then(|name| step.variants.get(name)).unwrap_or(code);
        if self.jobs.digests.is_locked() {
            let Some(name) = self.jobs.manifests.variant(code) else {
                let message = "this variant of the code cannot be determined without its project";
                let problem = Problem::new(sources, span, message, "not here").help("run the recipe in its project");
                self.problems.push(span, problem);
                return false;
            };
            let value = if name.is_empty() { Value::Null } else { Value::Text(name.to_owned()) };
            values.insert(CODE.to_owned(), value);
            return true;
        }
        let project = self.jobs.manifests.project(Path::new(folder));
        let results = self.jobs.digests.results().unwrap_or(Path::new("results")).to_owned();
        let layer = match self.jobs.variants.layer(code, &project, sources.folder(span.source), &results) {
            Ok(layer) => layer,
            Err(error) => {
                let message = format!("`code` of step `{}`: {error}", step.name.value);
                let problem = Problem::new(sources, span, message, "no variant of the project's code");
                self.problems.push(span, problem.help(error.advice()));
                return false;
            }
        };
        // Declared inputs are in the key with the content that they have in the project.
        let inputs = match values.get("inputs") {
            Some(Value::List(inputs)) => inputs.as_slice(),
            _ => &[],
        };
        let is_changed = |input: &&str| fs_err::canonicalize(input).is_ok_and(|path| layer.touches(&path));
        let (listed, settings) = (inputs.iter(), values.get("settings"));
        if let Some(input) = listed.chain(settings).filter_map(Value::as_text).find(is_changed) {
            let message =
                format!("`code` of step `{}` changes `{input}`, which is in `inputs` or `settings`", step.name.value);
            let problem = Problem::new(sources, span, message, "changes an input");
            let help = "remove it there: the files that the program reads are observed, and are part of the key";
            self.problems.push(span, problem.help(help));
            return false;
        }
        let text = layer.folder().map(|folder| Value::Text(folder.to_string_lossy().into_owned()));
        values.insert(CODE.to_owned(), text.unwrap_or(Value::Null));
        true
    }

    /// The recipe's folder, if a program without declared files runs there, because its command line names files in it.
    fn folder_by_hand(&self, step: &Step, values: &Values, places: &Places) -> Option<String> {
        const DECLARED: [&str; 4] = ["inputs", PROJECT, "launch", "depfile"];
        let is_observed = values.get("tracks").and_then(Value::as_text).is_none_or(|word| word == Tracks::Code.word());
        let declares = |name: &str| DECLARED.contains(&name) && !(name == "launch" && is_fork(values));
        if !is_observed || places.iter().any(|(param, _)| declares(param.name)) {
            return None;
        }
        let folder = self.recipe.sources.folder(step.source());
        let is_there = &mut |path: &Path| self.jobs.digests.is_there(path);
        as_by_hand::names_files_of(folder, values, is_there).then(|| real_folder(&folder.join(".")).ok())?
    }

    /// Reports an expression within a text or a list whose axis a point lacks.
    fn no_axis(&mut self, step: &Step, point: &Point, reference: &Reference) {
        let name = &reference.name;
        let has_values = |axis: &Axis| !matches!(&axis.values, AxisValues::List(values) if values.is_empty());
        let is_mistaken = |dimension: &Dimension| match dimension {
            Dimension::Axis(axis) => axis.name.value == *name && !has_values(axis),
            Dimension::Zip(axes) => axes.iter().any(|axis| axis.name.value == *name && !has_values(axis)),
            _ => false,
        };
        if !step.axes().contains(&name.as_str()) || step.matrix.dimensions.iter().any(is_mistaken) {
            // An unknown axis, or one without values, has been reported.
            return;
        }
        let message =
            format!("`{}` has no axis `{name}`, so that this expression has no value there", self.label(step, point));
        let help = format!(
            "give every point a value of `{name}`; only an entry of `with`, `params` or `env` that consists of the \
             expression alone is left out if there is no value"
        );
        let problem = Problem::new(&self.recipe.sources, reference.span, message, "no value here").help(help);
        self.problems.push(reference.span, problem);
    }

    /// Reports that a job is left out because the step whose result it takes has no points.
    fn left_out(&mut self, step: &Step, point: &Point, needed_step: &str, span: Span) {
        let message = format!(
            "`{}` is left out: it uses a result of `{needed_step}`, which has no job for it",
            self.label(step, point)
        );
        let help = format!("give `{}` the `if` of `{needed_step}`, or a value that needs no job", step.name.value);
        self.problems.warn(&self.recipe.sources, span, message, help);
    }

    /// Reports a value that a parameter does not accept.
    fn does_not_fit(
        &mut self,
        step: &Step,
        matrix: &Names,
        param: &Param,
        template: Option<&Template>,
        value: &Spanned<Value>,
        error: &ParamError,
    ) {
        // If the recipe has a list, the message marks the invalid item.
        let part = match error {
            ParamError::Part { part, .. } => template.and_then(|template| template.part(part)),
            _ => None,
        };
        let used_at = part.or(template).map_or(value.span, |template| template.span);
        let part = part.and_then(|part| part.resolve(&self.recipe.params, matrix));
        self.bad_value(step, param.name, part.as_ref().unwrap_or(value), used_at, error);
    }

    /// Reserves the memory for a point and its job before they are made: the point's values are stored in the list of points and in the
    /// job's name, and the job's values in the job and in its identity. `false` after a mistake, which has been reported.
    fn has_room(&mut self, step: &Step, point: &Point, matrix: &Names) -> bool {
        const EACH: u64 = 512;
        let sources = &self.recipe.sources;
        let mut values = 0;
        let mut is_short = true;
        for (_, template) in &step.with {
            let size = template.size(&self.recipe.params, matrix);
            if size > MAX_VALUE_BYTES {
                too_long(template, size, sources, self.problems);
                is_short = false;
            }
            values += size as u64;
        }
        is_short
            && self.room.take(EACH + 2 * weight_of(&point.values) + 2 * values, step.name.span, sources, self.problems)
    }

    /// The values of a step's expressions that name results of needed jobs: a text for each that [`resolve`](crate::record::resolve)
    /// replaces, or a list of them where several jobs are needed. The keys are expressions with their places, because all values of one
    /// YAML alias have the same place.
    fn results(&mut self, step: &Step, point: &Point, needs: &[Rc<Group>]) -> Vec<(Reference, Option<Value>)> {
        let mut results = Vec::new();
        for (param, template) in &step.with {
            for reference in template.references() {
                let Scope::Needs(name, product) = &reference.scope else { continue };
                let index = step.needs.iter().position(|need| self.recipe.steps[need.step].name.value == *name);
                let jobs = index.map(|index| needs[index].jobs.as_slice()).unwrap_or_default();
                let flows: Vec<Value> = jobs
                    .iter()
                    .filter_map(|id| self.result(*id, *product, reference))
                    .map(|flow| Value::Text(flow.placeholder()))
                    .collect();
                let is_list = step
                    .task
                    .param(&param.value)
                    .is_some_and(|param| matches!(param.kind, Kind::List(_) | Kind::Map(Kind::Any)));
                let value = match flows.as_slice() {
                    _ if flows.len() < jobs.len() => None,
                    [] => {
                        self.left_out(step, point, name, reference.span);
                        None
                    }
                    [flow] => Some(flow.clone()),
                    several if is_list => Some(Value::List(several.to_vec())),
                    several => {
                        let message = format!(
                            "`{}` needs {} jobs of `{name}`, but only one is allowed here",
                            self.label(step, point),
                            several.len()
                        );
                        let help =
                            "give both steps the axes that distinguish the jobs, or select one with `where` in `needs`";
                        let problem = Problem::new(&self.recipe.sources, reference.span, message, "which one?");
                        self.problems.push(reference.span, problem.help(help));
                        None
                    }
                };
                results.push((reference.clone(), value));
            }
        }
        results
    }

    /// Returns the result `product` of the job `id`, if the job will leave it.
    fn result(&mut self, id: JobId, product: Product, reference: &Reference) -> Option<Deferred> {
        let job = &self.jobs.all[id.index()];
        let name = reference.name.as_str();
        let (message, help) = match product {
            Product::Metric if job.task.open_metrics || job.task.metric(name).is_some() => {
                return Some(Deferred { key: job.key, product, name: name.to_owned() });
            }
            Product::Metric => {
                let metrics = job.task.metrics().map(|metric| metric.name);
                (format!("task `{}` does not measure `{name}`", job.task.name), suggest(name, "metrics", metrics))
            }
            // A program may report any name.
            Product::Curve if job.task.open_metrics || job.task.curves.contains(&name) => {
                return Some(Deferred { key: job.key, product, name: name.to_owned() });
            }
            Product::Curve => {
                let no_curves = || format!("task `{}` records no curves", job.task.name);
                let help = suggest(name, "curves", job.task.curves.iter().copied()).unwrap_or_else(no_curves);
                (format!("task `{}` does not record a curve `{name}`", job.task.name), Some(help))
            }
            Product::Artifact => {
                let artifacts = job.task.artifacts(&job.values);
                if artifacts.iter().any(|artifact| artifact == name) {
                    return Some(Deferred { key: job.key, product, name: name.to_owned() });
                }
                let no_artifacts = format!(
                    "the step keeps no artifacts; `sweep tasks {}` shows the parameters that keep artifacts",
                    job.task.name
                );
                let help = suggest(name, "artifacts", artifacts.iter().map(String::as_str)).or(Some(no_artifacts));
                (format!("`{}` keeps no artifact `{name}`", job.label), help)
            }
        };
        let problem = Problem::new(&self.recipe.sources, reference.span, message, "no such result").maybe_help(help);
        self.problems.push(reference.span, problem);
        None
    }

    fn bad_value(&mut self, step: &Step, param: &str, value: &Spanned<Value>, used_at: Span, error: &ParamError) {
        let sources = &self.recipe.sources;
        let help = match error {
            ParamError::Choice { allowed, found } => suggest(found, "allowed", allowed.iter().copied()),
            ParamError::Type { .. }
            | ParamError::Result { .. }
            | ParamError::Range { .. }
            | ParamError::Outside { .. }
            | ParamError::Nul
            | ParamError::Long { .. }
            | ParamError::Part { .. } => {
                let doc = step.task.param(param).map(|declared| format!("`{param}`: {}", declared.doc));
                lint::remedy(param, &value.value, error).or(doc)
            }
        };
        let message = format!("`{param}` of step `{}`: {error}", step.name.value);
        let problem = Problem::new(sources, value.span, message, "does not fit").maybe_help(help);
        let problem = if used_at == value.span {
            problem
        } else {
            problem.note(format!("used at {}", sources.location(used_at)))
        };
        self.problems.push(value.span, problem);
    }

    /// Resolves the paths of a job's inputs against the recipe's folder and computes their digests.
    fn inputs(&mut self, step: &Step, values: &mut Values, places: &Places) -> Option<BTreeMap<String, String>> {
        let mut inputs = BTreeMap::new();
        let ignore_patterns = ignored(values);
        // Default values do not name files.
        for (param, place) in places {
            let Some(value) = values.get_mut(param.name) else { continue };
            if let (Kind::Folder, Value::Text(folder)) = (param.kind, &mut *value) {
                let path = self.recipe.sources.folder(place.source).join(&*folder);
                match real_folder(&path) {
                    Ok(real) => *folder = real,
                    Err(error) => {
                        self.no_input(step, param, &path, *place, &error);
                        return None;
                    }
                }
                continue;
            }
            // Results of needed jobs are identified by the jobs' keys.
            for (part, input) in
                record::input_paths(param.kind, value).into_iter().filter(|(_, path)| !record::is_open(path))
            {
                let path = self.recipe.sources.folder(place.source).join(&*input);
                match self.jobs.digests.of_input(&path, &ignore_patterns) {
                    Ok(digest) => {
                        if self.jobs.digests.take_found_results() {
                            let results = self.jobs.digests.results().unwrap_or(Path::new("results"));
                            lint::results_in_input(self.recipe, *place, &path, results, self.problems);
                        }
                        inputs.insert(record::digest_name(param.name, part.as_ref()), digest);
                        // A path such as `..` has no file name.
                        let real = path.file_name().is_none().then(|| fs_err::canonicalize(&path).ok()).flatten();
                        let absolute = real.or_else(|| std::path::absolute(&path).ok()).unwrap_or(path);
                        let Some(text) = absolute.to_str() else {
                            let message = format!("the path {} is not UTF-8", absolute.display());
                            let problem = Problem::new(&self.recipe.sources, *place, message, "not UTF-8");
                            self.problems.push(*place, problem.help("rename the folder that is not UTF-8"));
                            return None;
                        };
                        text.clone_into(input);
                    }
                    Err(error) => {
                        let template = step.with.iter().find(|(name, _)| name.value == param.name);
                        let item = template.and_then(|(_, template)| template.part(part.as_ref()?));
                        self.no_input(step, param, &path, item.map_or(*place, |item| item.span), &error);
                        return None;
                    }
                }
            }
        }
        Some(inputs)
    }

    fn no_input(&mut self, step: &Step, param: &Param, path: &Path, span: Span, error: &io::Error) {
        let built_in = if let Kind::Path(built_in) = param.kind { built_in } else { &[] };
        let subject = format!("`{}` of step `{}`", param.name, step.name.value);
        let message = match error.kind() {
            io::ErrorKind::NotFound => format!("{subject}: there is no `{}`", path.display()),
            _ => format!("{subject} cannot be read: {error}"),
        };
        let help = match built_in {
            [] => "paths are relative to the folder of the file that contains them".to_owned(),
            built_in => {
                format!(
                    "paths are relative to the folder of the file that contains them; built in: {}",
                    built_in.join(", ")
                )
            }
        };
        let problem = Problem::new(&self.recipe.sources, span, message, "cannot be read").help(help);
        self.problems.push(span, problem);
    }
}

/// The path of a folder, absolute and without links.
fn real_folder(path: &Path) -> io::Result<String> {
    let real = fs_err::canonicalize(path)?;
    if !real.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    real.into_os_string().into_string().map_err(|_| io::Error::other("its path is not UTF-8"))
}
