//! The points of a recipe's steps as jobs: their values, checked, with inputs, keys and dependencies.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    path::Path,
    rc::Rc,
    sync::Arc,
};

use sweep_job::{
    Backend, Kind, Name, Param, ParamError, TaskSpec, Value, Values,
    tasks::{Command, complete_ranks},
};

use super::{
    Digests, Job, JobId, Label, ListId, Manifests, Origin, PlanError, Point,
    join::{Group, Join},
    lint,
    needs::Needs,
    room::{Room, weight_of},
    selection::{resolved, selected},
};
use crate::recipe::{
    Collector, GpuCount, LONGEST, Names, Need, Problem, Recipe, Reference, Scope, Span, Spanned, Step, Template,
    suggest, too_long,
};
use crate::record::{self, Deferred, Identity, Key, KeyList, Product, SeedPlan};

/// The jobs of all recipes.
#[derive(Default)]
pub(super) struct Jobs {
    /// Each after those that it needs.
    pub(super) all: Vec<Job>,
    pub(super) needs: Needs,
    /// The keys of lists of jobs.
    keys: HashMap<ListId, Arc<KeyList>>,
    pub(super) origins: Vec<Origin>,
    /// For every job, in which further round it runs, if at all; 0 for those that run at once.
    pub(super) rounds: Vec<usize>,
    /// For every job, true if it only runs if a decision of a search releases it.
    pub(super) held: Vec<bool>,
    by_key: HashMap<Key, JobId>,
    pub(super) digests: Digests,
    pub(super) manifests: Manifests,
}

impl Jobs {
    /// None yet, with digests of input files from earlier runs.
    pub(super) fn new(mut digests: Digests) -> Self {
        let manifests = std::mem::take(&mut digests.manifests);
        Self { digests, manifests, ..Self::default() }
    }

    /// Adds a job that needs what another one does, and counts as a job of the same step; answers the one with the same key
    /// if there is one.
    pub(super) fn add(&mut self, job: Job, like: JobId) -> JobId {
        if let Some(known) = self.by_key.get(&job.key) {
            return *known;
        }
        let id = JobId::new(self.all.len());
        self.by_key.insert(job.key, id);
        self.all.push(job);
        self.needs.push_like(like);
        self.origins.push(self.origins[like.index()]);
        self.rounds.push(0);
        self.held.push(self.held[like.index()]);
        id
    }

    /// The keys of a list's jobs.
    fn keys(&mut self, list: ListId) -> Arc<KeyList> {
        let (jobs, needs) = (&self.all, &self.needs);
        let keys = || needs.jobs(list).iter().map(|id| jobs[id.index()].key).collect();
        Arc::clone(self.keys.entry(list).or_insert_with(|| Arc::new(KeyList::new(keys()))))
    }
}

/// The parameters that a recipe sets for a job, in the order of the task, each with the place of its value.
type Places = Vec<(&'static Param, Span)>;

/// Turns the points of a recipe into jobs.
pub(super) struct Builder<'a> {
    /// The recipe's index.
    pub(super) study: usize,
    pub(super) recipe: &'a Recipe,
    /// The names of the metrics that it uses.
    pub(super) used: Arc<BTreeSet<String>>,
    /// The recipe's name, where there are several.
    pub(super) prefix: Option<Name>,
    pub(super) backend: Backend,
    pub(super) jobs: &'a mut Jobs,
    pub(super) steps: Vec<Vec<(Point, JobId)>>,
    pub(super) problems: &'a mut Collector,
    pub(super) room: &'a mut Room,
}

/// The number of seeds that a step plans; `None` if its points have no seed.
fn seed_plan(step: &Step, points: &[Point]) -> Option<SeedPlan> {
    if let Some(adaptive) = step.adaptive {
        return Some(SeedPlan { least: adaptive.least, most: adaptive.most });
    }
    let seeds: HashSet<u64> = points.iter().filter_map(|point| Some(point.get("seed")?.as_f64()?.to_bits())).collect();
    (!seeds.is_empty()).then_some(SeedPlan { least: seeds.len(), most: seeds.len() })
}

impl Builder<'_> {
    pub(super) fn add_step(&mut self, index: usize, points: Vec<Point>) -> Result<(), PlanError> {
        let step = &self.recipe.steps[index];
        let mut joins: Vec<Join> = step.needs.iter().map(|need| self.join(need, &points)).collect();
        let seeds = seed_plan(step, &points);
        let template = |param: &Param| step.with.iter().find(|(name, _)| name.value == param.name);
        let written = |param| (param, template(param).map(|(_, template)| template));
        let written: Vec<(&'static Param, Option<&Template>)> = step.task.params().map(written).collect();
        for point in points {
            let needs = self.needed_jobs(step, &point, &mut joins);
            let matrix: Names = point.values.iter().cloned().collect();
            let Some((values, inputs)) = self.values(step, &point, &matrix, &written, &needs) else { continue };
            if self.steps[index].is_empty() {
                lint::scripts(self.recipe, step, &point, self.problems);
            }
            let label = self.label(step, &point);
            lint::point(self.recipe, step, &matrix, &label, self.problems);
            let round = self.round(step, &point, &needs);
            let held = self.held(step, &point, &needs);
            let backend = step.task.on_device.then_some(self.backend);
            let lists = || needs.iter().filter_map(|group| group.list);
            let keys = lists().map(|list| self.jobs.keys(list)).collect();
            let mut identity = Identity::new(step.task, &values, backend, inputs, keys);
            let folder = self.recipe.sources.folder(step.name.span.source);
            let Jobs { manifests, digests, .. } = &mut *self.jobs;
            let (key, code) = manifests.keyed(&mut identity, &values, folder, digests)?;
            let id = match self.jobs.by_key.get(&key) {
                Some(id) => *id,
                None => {
                    let Step { task, resources, policy, .. } = *step;
                    let (turn, used) = (None, Arc::default());
                    let job = Job { key, identity, task, values, resources, policy, turn, label, seeds, code, used };
                    let id = JobId::new(self.jobs.all.len());
                    self.jobs.all.push(job);
                    self.jobs.needs.push(lists());
                    let point = self.steps[index].len();
                    self.jobs.origins.push(Origin { study: self.study, step: index, point });
                    self.jobs.by_key.insert(key, id);
                    self.jobs.rounds.push(round);
                    self.jobs.held.push(held);
                    id
                }
            };
            self.jobs.all[id.index()].use_metrics(&self.used);
            // What one recipe holds in reserve, another one may want at once.
            let known = &mut self.jobs.rounds[id.index()];
            *known = round.min(*known);
            self.jobs.held[id.index()] &= held;
            self.steps[index].push((point, id));
        }
        Ok(())
    }

    /// In which further round a job runs, if at all: as far as its seed is beyond those that every point has, and no earlier
    /// than what it needs.
    fn round(&mut self, step: &Step, point: &Point, needs: &[Rc<Group>]) -> usize {
        let seed = step.adaptive.and_then(|adaptive| {
            let seed = point.get("seed")?.as_f64()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 0 to 10,000")]
            Some((seed as usize + 1).saturating_sub(adaptive.least))
        });
        let mut round = seed.unwrap_or(0);
        for (need, group) in step.needs.iter().zip(needs) {
            let (first, last) = group.rounds;
            if first < last {
                let name = &self.recipe.steps[need.step].name.value;
                let message = format!(
                    "`{}` needs every seed of `{name}`, but the run decides how many there are",
                    step.name.value
                );
                let help = format!("select seeds that always exist: `{{ step: {name}, where: {{ seed: [0, 1] }} }}`");
                let problem = Problem::new(&self.recipe.sources, need.span, message, "not a count").help(help);
                self.problems.push(need.span, problem);
            }
            round = round.max(last);
        }
        round
    }

    /// Sorts the points of a needed step by the axes that they all share with these points.
    fn join(&self, need: &Need, points: &[Point]) -> Join {
        let (recipe, candidates) = (self.recipe, &self.steps[need.step]);
        let everywhere = |axis: &str| {
            points.iter().all(|point| point.get(axis).is_some())
                && candidates.iter().all(|(point, _)| point.get(axis).is_some())
        };
        let all: Vec<String> = recipe.steps[need.step].axes().into_iter().map(str::to_owned).collect();
        let axes = all.iter().filter(|axis| everywhere(axis)).cloned().collect();
        let only = resolved(recipe, &need.only);
        // An axis that the needed step does not have has been reported, and so has a step without jobs.
        let known = recipe.steps[need.step].axes();
        let sound = !candidates.is_empty() && only.iter().all(|(axis, _)| known.contains(axis));
        let mut join = Join { axes, all, by_shared: HashMap::new(), groups: HashMap::new(), sound };
        for (index, (point, _)) in candidates.iter().enumerate() {
            if selected(point, &only) {
                join.by_shared.entry(join.key(point)).or_default().push(index);
            }
        }
        join
    }

    /// For each needed step, its jobs whose points agree with this one and are selected.
    fn needed_jobs(&mut self, step: &Step, point: &Point, joins: &mut [Join]) -> Vec<Rc<Group>> {
        let mut needed_jobs = Vec::with_capacity(joins.len());
        for (need, join) in step.needs.iter().zip(joins) {
            let values = join.group(point);
            let group = match join.groups.get(&values) {
                Some(group) => Rc::clone(group),
                None => {
                    let group = Rc::new(self.group(need, join, point));
                    join.groups.insert(values, Rc::clone(&group));
                    group
                }
            };
            if group.jobs.is_empty() && join.sound {
                let needed = &self.recipe.steps[need.step].name.value;
                let message = format!("`{}` needs `{needed}`, but none of its points agrees", self.label(step, point));
                let help = "steps join on their common axes; give the needed step these values, too";
                let problem = Problem::new(&self.recipe.sources, need.span, message, "no point agrees").help(help);
                self.problems.push(need.span, problem);
            }
            needed_jobs.push(group);
        }
        needed_jobs
    }

    /// Reserves the memory for a point and its job before they are made: the point's values are in the list of points
    /// and in the job's name, the job's own in the job and in its identity. `false` after a mistake, which has been
    /// reported.
    fn has_room(&mut self, step: &Step, point: &Point, matrix: &Names) -> bool {
        const EACH: u64 = 512;
        let sources = &self.recipe.sources;
        let mut values = 0;
        let mut fits = true;
        for (_, template) in &step.with {
            let size = template.size(&self.recipe.params, matrix);
            if size > LONGEST {
                too_long(template, size, sources, self.problems);
                fits = false;
            }
            values += size as u64;
        }
        fits && self.room.take(EACH + 2 * weight_of(&point.values) + 2 * values, step.name.span, sources, self.problems)
    }

    /// The jobs of a needed step whose points agree with a point.
    fn group(&mut self, need: &Need, join: &Join, point: &Point) -> Group {
        let candidates = join.by_shared.get(&join.key(point)).map(Vec::as_slice).unwrap_or_default();
        let needed = &self.steps[need.step];
        let matching = candidates.iter().map(|index| &needed[*index]).filter(|(other, _)| point.agrees(other));
        let mut seen = HashSet::new();
        let jobs: Vec<JobId> = matching.map(|(_, id)| *id).filter(|id| seen.insert(*id)).collect();
        let rounds = jobs.iter().map(|id| self.jobs.rounds[id.index()]);
        let rounds = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        let list = (!jobs.is_empty()).then(|| self.jobs.needs.list(jobs.clone()));
        let held = |id: &JobId| self.jobs.held[id.index()];
        let held = (jobs.iter().any(held), jobs.iter().all(held));
        Group { jobs, list, rounds, held }
    }

    /// Every parameter of a job, checked, and the digests of its inputs. Reports what does not fit.
    fn values(
        &mut self,
        step: &Step,
        point: &Point,
        matrix: &Names,
        written: &[(&'static Param, Option<&Template>)],
        needs: &[Rc<Group>],
    ) -> Option<(Values, BTreeMap<String, String>)> {
        if !self.has_room(step, point, matrix) {
            return None;
        }
        let results = self.results(step, point, needs);
        let result = |reference: &Reference| {
            let (_, value) = results.iter().find(|(found, _)| found == reference)?;
            value.clone()
        };
        let mut given = Values::new();
        let mut places = Places::new();
        let mut ok = true;
        for (param, template) in written {
            let value = match template {
                Some(template) => {
                    let value = template.resolve_with(&self.recipe.params, matrix, &result);
                    // An expression that names nothing has been reported, and what follows from it is no other mistake.
                    ok &= value.is_some();
                    value
                }
                None => matrix.get(param.name).cloned(),
            };
            let Some(value) = value else { continue };
            places.push((param, value.span));
            match record::check(param, &value.value) {
                Ok(checked) => {
                    given.insert(param.name.to_owned(), checked);
                }
                Err(error) => {
                    // Where the author has written the parts out, the one that does not fit is marked.
                    let part = match &error {
                        ParamError::Part { part, .. } => template.and_then(|template| template.part(part)),
                        _ => None,
                    };
                    let used_at = part.or(*template).map_or(value.span, |template| template.span);
                    let part = part.and_then(|part| part.resolve(&self.recipe.params, matrix));
                    self.bad_value(step, param.name, part.as_ref().unwrap_or(&value), used_at, &error);
                    ok = false;
                }
            }
        }
        let mut values = step.task.complete(given);
        if step.task.name == <Command as TaskSpec>::NAME {
            complete_ranks(&mut values, step.resources.gpus.map(GpuCount::devices), step.resources.nodes());
        }
        let inputs = self.inputs(step, &mut values, &places)?;
        if !ok {
            return None;
        }
        for conflict in step.task.conflicts(&record::preview(&values)) {
            let place = |name: &&str| places.iter().find(|(param, _)| param.name == *name).map(|(_, place)| *place);
            let span = conflict.params.iter().find_map(place).unwrap_or(step.name.span);
            let message = format!("{}: {}", self.label(step, point), conflict.message);
            let problem = Problem::new(&self.recipe.sources, span, message, "does not go together");
            self.problems.push(span, problem.help(conflict.advice));
        }
        self.check_nodes(step, point, &values);
        Some((values, inputs))
    }

    /// The values of a step's expressions that name results of needed jobs: a text for each that
    /// [`resolve`](crate::record::resolve) replaces, or a list of them where several jobs are needed. By the expression with
    /// its place, because all values that come from one alias have the place of the alias.
    fn results(&mut self, step: &Step, point: &Point, needs: &[Rc<Group>]) -> Vec<(Reference, Option<Value>)> {
        let mut found = Vec::new();
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
                    [] => None,
                    [one] => Some(one.clone()),
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
                found.push((reference.clone(), value));
            }
        }
        found
    }

    /// One result of one job, if that job will leave it.
    fn result(&mut self, id: JobId, product: Product, reference: &Reference) -> Option<Deferred> {
        let job = &self.jobs.all[id.index()];
        let name = reference.name.as_str();
        let (message, help) = match product {
            Product::Metric if job.task.open_metrics || job.task.metric(name).is_some() => {
                return Some(Deferred { key: job.key, product, name: name.to_owned() });
            }
            Product::Metric => {
                let known = job.task.metrics().map(|metric| metric.name);
                (format!("task `{}` does not measure `{name}`", job.task.name), suggest(name, "metrics", known))
            }
            // A program may report any name.
            Product::Curve if job.task.open_metrics || job.task.curves.contains(&name) => {
                return Some(Deferred { key: job.key, product, name: name.to_owned() });
            }
            Product::Curve => {
                let none = || format!("task `{}` records no curves", job.task.name);
                let help = suggest(name, "curves", job.task.curves.iter().copied()).unwrap_or_else(none);
                (format!("task `{}` does not record a curve `{name}`", job.task.name), Some(help))
            }
            Product::Artifact => {
                let known = job.task.artifacts(&job.values);
                if known.iter().any(|known| known == name) {
                    return Some(Deferred { key: job.key, product, name: name.to_owned() });
                }
                let none =
                    format!("it keeps no artifacts; `sweep tasks {}` shows which parameters keep some", job.task.name);
                let help = suggest(name, "artifacts", known.iter().map(String::as_str)).or(Some(none));
                (format!("`{}` leaves no artifact `{name}`", job.label), help)
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
        // Defaults are no files.
        for (param, place) in places {
            let Some(value) = values.get_mut(param.name) else { continue };
            // What a needed job leaves is known by that job's key.
            for (part, written) in
                record::input_paths(param.kind, value).into_iter().filter(|(_, path)| !record::is_open(path))
            {
                let path = self.recipe.sources.folder(place.source).join(&*written);
                match self.jobs.digests.of(&path) {
                    Ok(digest) => {
                        inputs.insert(record::digest_name(param.name, part.as_ref()), digest);
                        let absolute = std::path::absolute(&path).unwrap_or(path);
                        let Some(text) = absolute.to_str() else {
                            let message = format!("the path {} is not UTF-8", absolute.display());
                            let problem = Problem::new(&self.recipe.sources, *place, message, "not UTF-8");
                            self.problems.push(*place, problem.help("rename the folder that is not UTF-8"));
                            return None;
                        };
                        text.clone_into(written);
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
        let what = format!("`{}` of step `{}`", param.name, step.name.value);
        let message = match error.kind() {
            io::ErrorKind::NotFound => format!("{what}: there is no `{}`", path.display()),
            _ => format!("{what} cannot be read: {error}"),
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

    pub(super) fn label(&self, step: &Step, point: &Point) -> Label {
        Label { recipe: self.prefix.clone(), step: step.name.value.as_str().into(), point: point.to_string().into() }
    }
}
