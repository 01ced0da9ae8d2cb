//! [`Recipe`]s to [`Plan`]: every job that they mean, typed, keyed, and connected to the jobs that it needs.
//!
//! A `Plan` can only come from [`Plan::new`]; that it exists proves that the graph has no cycle, that every value fits
//! its task, and that every key is computed.

mod digest;
mod dimension;
mod expand;
mod flow;
mod frozen;
mod key;
mod select;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    path::Path,
};

use petgraph::{Direction, algo::tarjan_scc, graph::DiGraph};
use serde::{Deserialize, Serialize};
use sweep_job::{Backend, Kind, Param, ParamError, Part, TaskInfo, Value, Values};

pub(crate) use self::flow::without_keys;
pub use self::{
    digest::Digests,
    expand::Point,
    flow::{Unsettled, settle},
    frozen::{Frozen, Thawing},
    key::{BadKey, Identity, Key},
    select::NothingSelected,
};
use self::{dimension::Context, flow::Flow};
use crate::recipe::{
    Claim, Collector, Draft, Executor, Names, Need, Policy, Problem, Problems, Product, Recipe, Reference, Resources,
    Scope, Selection, Sources, Span, Spanned, Step, Template, suggest,
};

/// A job's index in a [`Plan`].
pub type JobId = petgraph::graph::NodeIndex<u32>;

/// The jobs of recipes and what each needs. What is the same job in several of them is one.
#[derive(Debug)]
pub struct Plan {
    /// The recipes, in the order in which they were named.
    pub studies: Vec<Study>,
    /// What a sweep file says of where the jobs get their processes.
    pub executor: Executor,
    /// The part of them that is wanted: `step` or `step/axis=value,…`; all of it if there is none.
    only: Vec<Spanned<String>>,
    sources: Sources,
    /// See [`Plan::command`].
    typed: Vec<String>,
    graph: DiGraph<Job, ()>,
    origins: Vec<Origin>,
    rounds: Vec<usize>,
}

/// Where a job was met first: indices of the recipe, of its step, and of the point in the step's jobs.
#[derive(Debug, Clone, Copy)]
struct Origin {
    study: usize,
    step: usize,
    point: usize,
}

/// A recipe and its jobs.
#[derive(Debug)]
pub struct Study {
    /// The recipe.
    pub recipe: Recipe,
    /// The jobs of each step, in the order of its points; as many as the recipe has steps.
    pub steps: Vec<Vec<(Point, JobId)>>,
    /// The jobs that only run if something is undecided without them, and in which further round that would be, from 1.
    pub rounds: BTreeMap<JobId, usize>,
}

impl Study {
    /// The points that its tables and claims are about, with their jobs.
    pub fn reported(&self) -> impl Iterator<Item = &(Point, JobId)> {
        let steps: BTreeSet<usize> = self.recipe.reported().collect();
        steps.into_iter().flat_map(|step| &self.steps[step])
    }
}

/// A step at a point, or several that are the same job.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name in the store.
    pub key: Key,
    /// What the key is made of.
    pub identity: Identity,
    /// The task.
    pub task: &'static TaskInfo,
    /// Every parameter, inputs as paths that can be opened from here.
    pub values: Values,
    /// What it takes of the machine.
    pub resources: Resources,
    /// What becomes of it if it does not go as it should.
    pub policy: Policy,
    /// The step and the point that it is known by: `train/prune=bitter7,seed=0`.
    pub label: Label,
}

/// How people name a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The recipe's name, where there are several.
    pub recipe: Option<String>,
    /// The step's name.
    pub step: String,
    /// The point, as `axis=value,axis=value`; empty for a step without a matrix.
    pub point: String,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.point.is_empty() { "" } else { "/" };
        if let Some(recipe) = &self.recipe {
            write!(f, "{recipe}:")?;
        }
        write!(f, "{}{separator}{}", self.step, self.point)
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The recipe means something impossible.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// A key could not be written.
    #[error("cannot compute a job's key: {0}")]
    Key(#[from] serde_json::Error),
}

impl Plan {
    /// Expands recipes. `backend` is where the jobs that need a device will compute.
    pub fn new(draft: Draft, backend: Backend) -> Result<Self, PlanError> {
        Self::with(draft, backend, Digests::default())
    }

    /// The same with digests of input files from earlier runs.
    pub fn with(draft: Draft, backend: Backend, digests: Digests) -> Result<Self, PlanError> {
        let Draft { recipes, executor, only, sources, typed, mut problems } = draft;
        let several = recipes.len() > 1;
        let mut jobs = Jobs { digests, ..Jobs::default() };
        let mut studies = Vec::with_capacity(recipes.len());
        for (study, recipe) in recipes.into_iter().enumerate() {
            let (order, points) = expand_all(&recipe, &mut problems);
            let prefix = several.then(|| recipe.name.clone());
            let steps = vec![Vec::new(); recipe.steps.len()];
            let mut builder =
                Builder { study, recipe: &recipe, prefix, backend, jobs: &mut jobs, steps, problems: &mut problems };
            for step in order {
                builder.add_step(step, &points[step])?;
            }
            let steps = builder.steps;
            studies.push(Study { recipe, steps, rounds: BTreeMap::new() });
        }
        jobs.digests.keep();
        problems.finish(())?;
        for study in &mut studies {
            let own = study.steps.iter().flatten().map(|(_, id)| (*id, jobs.rounds[id.index()]));
            study.rounds = own.filter(|(_, round)| *round > 0).collect();
        }
        Ok(Self {
            studies,
            executor,
            only,
            sources,
            typed,
            graph: jobs.graph,
            origins: jobs.origins,
            rounds: jobs.rounds,
        })
    }

    /// Whether a job only runs if something is undecided without it. Whoever names its seed wants it in any case.
    pub fn is_reserve(&self, id: JobId) -> bool {
        self.rounds[id.index()] > 0 && !self.only.iter().any(|only| only.value.contains("seed="))
    }

    /// How many jobs there are; points that are the same job count once.
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.graph.node_count() == 0
    }

    /// A job.
    pub fn job(&self, id: JobId) -> &Job {
        &self.graph[id]
    }

    /// Every job, each after the jobs that it needs.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.graph.node_indices().map(|id| (id, &self.graph[id]))
    }

    /// The steps of all recipes with their jobs.
    pub fn steps(&self) -> impl Iterator<Item = (&Step, &[(Point, JobId)])> {
        self.studies.iter().flat_map(|study| study.recipe.steps.iter().zip(study.steps.iter().map(Vec::as_slice)))
    }

    /// The texts that the recipes came from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The command that runs a job, with what it needs.
    pub fn command(&self, id: JobId) -> String {
        let job = self.job(id);
        let backend = job.identity.backend.map(|backend| ["--backend".to_owned(), backend.name().to_owned()]);
        let only = ["--only".to_owned(), job.label.to_string()];
        let arguments = self.typed.iter().cloned().chain(backend.into_iter().flatten()).chain(only);
        let quoted: Vec<String> = arguments.map(|argument| quoted(&argument)).collect();
        format!("sweep run {}", quoted.join(" "))
    }

    /// The names of the recipes, as a title.
    pub fn title(&self) -> String {
        let names: Vec<&str> = self.studies.iter().map(|study| study.recipe.name.as_str()).collect();
        names.join(", ")
    }

    /// Where a recipe decides a job's parameter; `None` if it leaves it at its default.
    pub fn place(&self, id: JobId, param: &str) -> Option<Span> {
        let Origin { study, step, point } = self.origins[id.index()];
        let Study { recipe, steps, .. } = &self.studies[study];
        let (point, _) = &steps[step][point];
        match recipe.steps[step].with.iter().find(|(name, _)| name.value == param) {
            Some((_, template)) => {
                let matrix: Names = point.values.iter().cloned().collect();
                let value = template.resolve(&recipe.params, &matrix);
                Some(value.map_or(template.span, |value| value.span))
            }
            None => point.values.iter().find(|(axis, _)| axis == param).map(|(_, value)| value.span),
        }
    }

    /// The jobs that need a job, directly or through others.
    pub fn dependents(&self, id: JobId) -> HashSet<JobId> {
        let mut reached = HashSet::new();
        let mut open = vec![id];
        while let Some(job) = open.pop() {
            open.extend(self.graph.neighbors(job).filter(|next| reached.insert(*next)));
        }
        reached
    }

    /// The jobs that a job needs.
    pub fn needs(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.graph.neighbors_directed(id, Direction::Incoming)
    }
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-./=:,@+%".contains(char);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// The points of every step of a recipe, and the order in which the steps can be connected.
fn expand_all(recipe: &Recipe, problems: &mut Collector) -> (Vec<usize>, Vec<Vec<Point>>) {
    let order = step_order(recipe, problems);
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); recipe.steps.len()];
    for step in &order {
        let earlier = |name: &str| recipe.step(name).map(|(index, _)| points[index].as_slice());
        let mut context =
            Context { params: &recipe.params, sources: &recipe.sources, problems: &mut *problems, earlier: &earlier };
        points[*step] = expand::expand(&recipe.steps[*step], &mut context);
    }
    for table in &recipe.tables {
        let points = &points[table.from.value];
        check_selection(recipe, table.from.value, &table.only, points, problems);
        if let Some(compare) = &table.compare {
            check_selection(recipe, table.from.value, &compare.selection(), points, problems);
        }
        for row in &table.paper {
            check_selection(recipe, table.from.value, &row.only, points, problems);
        }
    }
    for figure in &recipe.figures {
        check_selection(recipe, figure.from.value, &figure.only, &points[figure.from.value], problems);
    }
    for need in recipe.steps.iter().flat_map(|step| &step.needs) {
        check_selection(recipe, need.step, &need.only, &points[need.step], problems);
    }
    for (step, selection) in recipe.claims.iter().flat_map(Claim::selections) {
        check_selection(recipe, step, &selection, &points[step], problems);
    }
    (order, points)
}

/// The steps, each after those that it needs, otherwise in the order of the text; without those that are in a cycle or
/// need one that is. Cycles are reported.
fn step_order(recipe: &Recipe, problems: &mut Collector) -> Vec<usize> {
    let mut graph = DiGraph::<usize, Span>::new();
    let nodes: Vec<_> = (0..recipe.steps.len()).map(|index| graph.add_node(index)).collect();
    for (index, step) in recipe.steps.iter().enumerate() {
        for need in &step.needs {
            graph.add_edge(nodes[need.step], nodes[index], need.span);
        }
    }
    for mut component in tarjan_scc(&graph) {
        if component.len() > 1 || graph.contains_edge(component[0], component[0]) {
            component.sort_unstable();
            report_cycle(recipe, &graph, &component, problems);
        }
    }
    let mut waiting_for: Vec<usize> = recipe.steps.iter().map(|step| step.needs.len()).collect();
    let mut ready: BTreeSet<usize> = (0..waiting_for.len()).filter(|index| waiting_for[*index] == 0).collect();
    let mut order = Vec::with_capacity(recipe.steps.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for dependent in graph.neighbors(nodes[index]) {
            let step = graph[dependent];
            waiting_for[step] -= 1;
            if waiting_for[step] == 0 {
                ready.insert(step);
            }
        }
    }
    order
}

fn report_cycle(
    recipe: &Recipe,
    graph: &DiGraph<usize, Span>,
    component: &[petgraph::graph::NodeIndex],
    problems: &mut Collector,
) {
    let name = |node: petgraph::graph::NodeIndex| recipe.steps[graph[node]].name.value.as_str();
    // From a step to one that it needs, inside the component, until a step comes back.
    let mut path = vec![component[0]];
    let closing = loop {
        let last = path[path.len() - 1];
        let mut needed = graph.neighbors_directed(last, Direction::Incoming).filter(|node| component.contains(node));
        let Some(next) = needed.next() else { return };
        if let Some(start) = path.iter().position(|node| *node == next) {
            path.drain(..start);
            break next;
        }
        path.push(next);
    };
    let chain: Vec<_> = path.iter().chain([&closing]).map(|node| format!("`{}`", name(*node))).collect();
    let last = path[path.len() - 1];
    let span = graph.find_edge(closing, last).map_or_else(Span::default, |edge| graph[edge]);
    let message = format!("the steps need each other: {}", chain.join(" needs "));
    let problem =
        Problem::new(&recipe.sources, span, message, "this closes the circle").help("remove one of these `needs`");
    problems.push(span, problem);
}

/// The points of a needed step, by their values on the axes that both steps have at every point.
struct Join {
    axes: Vec<String>,
    by_shared: HashMap<String, Vec<usize>>,
    /// Whether finding nothing is a mistake that is not yet reported.
    sound: bool,
}

impl Join {
    fn key(&self, point: &Point) -> String {
        let values: Vec<String> = self
            .axes
            .iter()
            .map(|axis| match point.get(axis) {
                // As numbers, so that 1 and 1.0 meet.
                Some(value) => value.as_f64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
                None => String::new(),
            })
            .collect();
        values.join("\u{0}")
    }
}

/// The jobs of all recipes.
#[derive(Default)]
struct Jobs {
    graph: DiGraph<Job, ()>,
    origins: Vec<Origin>,
    /// For every job, in which further round it runs, if at all; 0 for those that run at once.
    rounds: Vec<usize>,
    by_key: HashMap<Key, JobId>,
    digests: Digests,
}

/// Turns the points of a recipe into jobs.
struct Builder<'a> {
    /// The recipe's index.
    study: usize,
    recipe: &'a Recipe,
    /// The recipe's name, where there are several.
    prefix: Option<String>,
    backend: Backend,
    jobs: &'a mut Jobs,
    steps: Vec<Vec<(Point, JobId)>>,
    problems: &'a mut Collector,
}

impl Builder<'_> {
    fn add_step(&mut self, index: usize, points: &[Point]) -> Result<(), PlanError> {
        let step = &self.recipe.steps[index];
        let joins: Vec<Join> = step.needs.iter().map(|need| self.join(need, points)).collect();
        for point in points {
            let needs = self.needed_jobs(step, point, &joins);
            let Some((values, inputs)) = self.values(step, point, &needs) else { continue };
            let round = self.round(step, point, &needs);
            let needs: Vec<JobId> = needs.into_iter().flatten().collect();
            let backend = step.task.on_device.then_some(self.backend);
            let keys = needs.iter().map(|id| self.jobs.graph[*id].key).collect();
            let identity = Identity::new(step.task, &values, backend, inputs, keys);
            let key = identity.key()?;
            let id = match self.jobs.by_key.get(&key) {
                Some(id) => *id,
                None => {
                    let label = self.label(step, point);
                    let Step { task, resources, policy, .. } = *step;
                    let job = Job { key, identity, task, values, resources, policy, label };
                    let id = self.jobs.graph.add_node(job);
                    for need in needs {
                        self.jobs.graph.update_edge(need, id, ());
                    }
                    let point = self.steps[index].len();
                    self.jobs.origins.push(Origin { study: self.study, step: index, point });
                    self.jobs.by_key.insert(key, id);
                    self.jobs.rounds.push(round);
                    id
                }
            };
            // What one recipe holds in reserve, another one may want at once.
            let known = &mut self.jobs.rounds[id.index()];
            *known = round.min(*known);
            self.steps[index].push((point.clone(), id));
        }
        Ok(())
    }

    /// In which further round a job runs, if at all: as far as its seed is beyond those that every point has, and no earlier
    /// than what it needs.
    fn round(&mut self, step: &Step, point: &Point, needs: &[Vec<JobId>]) -> usize {
        let seed = step.adaptive.and_then(|adaptive| {
            let seed = point.get("seed")?.as_f64()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 0 to 10,000")]
            Some((seed as usize + 1).saturating_sub(adaptive.least))
        });
        let mut round = seed.unwrap_or(0);
        for (need, jobs) in step.needs.iter().zip(needs) {
            let rounds: BTreeSet<usize> = jobs.iter().map(|id| self.jobs.rounds[id.index()]).collect();
            if rounds.len() > 1 {
                let name = &self.recipe.steps[need.step].name.value;
                let message =
                    format!("`{}` needs every seed of `{name}`, whose number is decided on the way", step.name.value);
                let help =
                    format!("select seeds that are always there: `{{ step: {name}, where: {{ seed: [0, 1] }} }}`");
                let problem = Problem::new(&self.recipe.sources, need.span, message, "how many?").help(help);
                self.problems.push(need.span, problem);
            }
            round = round.max(rounds.last().copied().unwrap_or(0));
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
        let axes = recipe.steps[need.step].axes().into_iter().filter(|axis| everywhere(axis)).map(str::to_owned);
        let only = resolved(recipe, &need.only);
        // An axis that the needed step does not have has been reported, and so has a step without jobs.
        let known = recipe.steps[need.step].axes();
        let sound = !candidates.is_empty() && only.iter().all(|(axis, _)| known.contains(axis));
        let mut join = Join { axes: axes.collect(), by_shared: HashMap::new(), sound };
        for (index, (point, _)) in candidates.iter().enumerate() {
            if selected(point, &only) {
                join.by_shared.entry(join.key(point)).or_default().push(index);
            }
        }
        join
    }

    /// For each needed step, its jobs whose points agree with this one and are selected.
    fn needed_jobs(&mut self, step: &Step, point: &Point, joins: &[Join]) -> Vec<Vec<JobId>> {
        let mut needed_jobs = Vec::with_capacity(joins.len());
        for (need, join) in step.needs.iter().zip(joins) {
            let candidates = join.by_shared.get(&join.key(point)).map(Vec::as_slice).unwrap_or_default();
            let needed = &self.steps[need.step];
            let matching = candidates.iter().map(|index| &needed[*index]).filter(|(other, _)| point.agrees(other));
            let mut seen = HashSet::new();
            let jobs: Vec<JobId> = matching.map(|(_, id)| *id).filter(|id| seen.insert(*id)).collect();
            if jobs.is_empty() && join.sound {
                let needed = &self.recipe.steps[need.step].name.value;
                let message = format!("`{}` needs `{needed}`, which has no point that agrees", self.label(step, point));
                let help = "steps join on the axes that both have; give the needed step these values too";
                let problem = Problem::new(&self.recipe.sources, need.span, message, "no point agrees").help(help);
                self.problems.push(need.span, problem);
            }
            needed_jobs.push(jobs);
        }
        needed_jobs
    }

    /// Every parameter of a job, checked, and the digests of its inputs. Reports what does not fit.
    fn values(
        &mut self,
        step: &Step,
        point: &Point,
        needs: &[Vec<JobId>],
    ) -> Option<(Values, BTreeMap<String, String>)> {
        let matrix: Names = point.values.iter().cloned().collect();
        let results = self.results(step, point, needs);
        let result = |reference: &Reference| {
            let (_, value) = results.iter().find(|(span, _)| *span == reference.span)?;
            value.clone()
        };
        let mut given = Values::new();
        let mut places: HashMap<&'static str, Span> = HashMap::new();
        let mut ok = true;
        for param in step.task.params() {
            let written = step.with.iter().find(|(name, _)| name.value == param.name);
            let value = match written {
                Some((_, template)) => {
                    let value = template.resolve_with(&self.recipe.params, &matrix, &result);
                    // An expression that names nothing has been reported, and what follows from it is no other mistake.
                    ok &= value.is_some();
                    value
                }
                None => matrix.get(param.name).cloned(),
            };
            let Some(value) = value else { continue };
            places.insert(param.name, value.span);
            match flow::check(param, &value.value) {
                Ok(checked) => {
                    given.insert(param.name.to_owned(), checked);
                }
                Err(error) => {
                    let template = written.map(|(_, template)| template);
                    // Where the author has written the parts out, the one that does not fit is marked.
                    let part = match &error {
                        ParamError::Part { part, .. } => template.and_then(|template| template.part(part)),
                        _ => None,
                    };
                    let used_at = part.or(template).map_or(value.span, |template| template.span);
                    let part = part.and_then(|part| part.resolve(&self.recipe.params, &matrix));
                    self.bad_value(step, param.name, part.as_ref().unwrap_or(&value), used_at, &error);
                    ok = false;
                }
            }
        }
        let mut values = step.task.complete(given);
        let inputs = self.inputs(step, &mut values, &places)?;
        if !ok {
            return None;
        }
        for conflict in step.task.conflicts(&flow::preview(&values)) {
            let place = conflict.params.iter().find_map(|name| places.get(name));
            let span = place.copied().unwrap_or(step.name.span);
            let message = format!("{}: {}", self.label(step, point), conflict.message);
            let problem = Problem::new(&self.recipe.sources, span, message, "does not go together");
            self.problems.push(span, problem.help(conflict.advice));
        }
        Some((values, inputs))
    }

    /// What the expressions of a step mean that name results of needed jobs: a text for each that [`settle`] replaces,
    /// or a list of them where several jobs are needed. By the place of the expression.
    fn results(&mut self, step: &Step, point: &Point, needs: &[Vec<JobId>]) -> Vec<(Span, Option<Value>)> {
        let mut found = Vec::new();
        for (param, template) in &step.with {
            for reference in template.references() {
                let Scope::Needs(name, product) = &reference.scope else { continue };
                let index = step.needs.iter().position(|need| self.recipe.steps[need.step].name.value == *name);
                let jobs = index.map(|index| needs[index].as_slice()).unwrap_or_default();
                let flows: Vec<Value> = jobs
                    .iter()
                    .filter_map(|id| self.result(*id, *product, reference))
                    .map(|flow| Value::Text(flow.placeholder()))
                    .collect();
                let is_list = step.task.param(&param.value).is_some_and(|param| matches!(param.kind, Kind::List(_)));
                let value = match flows.as_slice() {
                    _ if flows.len() < jobs.len() => None,
                    [] => None,
                    [one] => Some(one.clone()),
                    several if is_list => Some(Value::List(several.to_vec())),
                    several => {
                        let message = format!(
                            "`{}` needs {} jobs of `{name}`, and only one can be meant here",
                            self.label(step, point),
                            several.len()
                        );
                        let help = "give both steps the axes that tell them apart, or select with `where` in `needs`";
                        let problem = Problem::new(&self.recipe.sources, reference.span, message, "which one?");
                        self.problems.push(reference.span, problem.help(help));
                        None
                    }
                };
                found.push((reference.span, value));
            }
        }
        found
    }

    /// One result of one job, if that job will leave it.
    fn result(&mut self, id: JobId, product: Product, reference: &Reference) -> Option<Flow> {
        let job = &self.jobs.graph[id];
        let name = reference.name.as_str();
        let (message, help) = match product {
            Product::Metric if job.task.open_metrics || job.task.metric(name).is_some() => {
                return Some(Flow { key: job.key, product, name: name.to_owned() });
            }
            Product::Metric => {
                let known = job.task.metrics.iter().map(|metric| metric.name);
                (format!("task `{}` does not measure `{name}`", job.task.name), suggest(name, "metrics", known))
            }
            Product::Artifact => {
                let known = job.task.artifacts(&job.values);
                if known.iter().any(|known| known == name) {
                    return Some(Flow { key: job.key, product, name: name.to_owned() });
                }
                let none = format!("it keeps nothing; `sweep tasks {}` shows what makes it", job.task.name);
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
            | ParamError::Part { .. } => {
                let doc = step.task.param(param).map(|param| param.doc);
                doc.map(|doc| format!("`{param}`: {doc}"))
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
    fn inputs(
        &mut self,
        step: &Step,
        values: &mut Values,
        places: &HashMap<&'static str, Span>,
    ) -> Option<BTreeMap<String, String>> {
        let mut inputs = BTreeMap::new();
        for param in step.task.params() {
            let Some(value) = values.get_mut(param.name) else { continue };
            // What a needed job leaves is known by that job's key.
            for (part, written) in
                key::input_paths(param.kind, value).into_iter().filter(|(_, path)| !flow::is_open(path))
            {
                let source = places.get(param.name).map_or(step.name.span, |place| *place).source;
                let path = self.recipe.sources.folder(source).join(&*written);
                match self.jobs.digests.of(&path) {
                    Ok(digest) => {
                        let name = match &part {
                            Some(Part::Item(index)) => format!("{}.{}", param.name, index + 1),
                            Some(Part::Key(key)) => format!("{}.{key}", param.name),
                            None => param.name.to_owned(),
                        };
                        inputs.insert(name, digest);
                        let absolute = std::path::absolute(&path).unwrap_or(path);
                        let Some(text) = absolute.to_str() else {
                            let span = places.get(param.name).copied().unwrap_or(step.name.span);
                            let message = format!("the path {} is not UTF-8", absolute.display());
                            let problem = Problem::new(&self.recipe.sources, span, message, "cannot be passed on");
                            self.problems.push(span, problem.help("rename the folder that is not"));
                            return None;
                        };
                        text.clone_into(written);
                    }
                    Err(error) => {
                        let template = step.with.iter().find(|(name, _)| name.value == param.name);
                        let item = template.and_then(|(_, template)| template.part(part.as_ref()?));
                        let span = item.map(|item| item.span).or(places.get(param.name).copied());
                        self.no_input(step, param, &path, span.unwrap_or(step.name.span), &error);
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
            [] => "paths start from the folder of the file that they stand in".to_owned(),
            built_in => {
                format!("paths start from the folder of the file that they stand in; built in: {}", built_in.join(", "))
            }
        };
        let problem = Problem::new(&self.recipe.sources, span, message, "cannot be read").help(help);
        self.problems.push(span, problem);
    }

    fn label(&self, step: &Step, point: &Point) -> Label {
        Label { recipe: self.prefix.clone(), step: step.name.value.clone(), point: point.to_string() }
    }
}

/// Reports values that no point of a step has: a misspelt one would silently select nothing.
fn check_selection(recipe: &Recipe, step: usize, selection: &Selection, points: &[Point], problems: &mut Collector) {
    if recipe.is_narrowed() {
        // What an author selects need not all be there when the axes have other values.
        return;
    }
    let name = &recipe.steps[step].name.value;
    for (axis, templates) in &selection.0 {
        let mut known: Vec<&Value> = Vec::new();
        for value in points.iter().filter_map(|point| point.get(&axis.value)) {
            if !known.contains(&value) {
                known.push(value);
            }
        }
        if known.is_empty() {
            // An unknown axis, or a step with a mistake: has been reported.
            continue;
        }
        if templates.is_empty() {
            let message = format!("`where` leaves no value for axis `{}`", axis.value);
            let problem = Problem::new(&recipe.sources, axis.span, message, "selects nothing");
            problems.push(axis.span, problem.help("give a value, or remove the axis from `where`"));
        }
        for template in templates {
            let Some(value) = template.resolve(&recipe.params, &Names::new()) else { continue };
            if !known.contains(&&value.value) {
                let message = format!("no point of step `{name}` has {} `{}`", axis.value, value.value);
                let words: Vec<String> = known.iter().map(ToString::to_string).collect();
                let help = suggest(&value.value.to_string(), "its values", words.iter().map(String::as_str));
                let problem = Problem::new(&recipe.sources, template.span, message, "selects nothing");
                problems.push(template.span, problem.maybe_help(help));
            }
        }
    }
}

/// A selection's axes with their values.
pub(crate) fn resolved<'a>(recipe: &Recipe, selection: &'a Selection) -> Vec<(&'a str, Vec<Value>)> {
    let value = |template: &Template| template.resolve(&recipe.params, &Names::new()).map(|value| value.value);
    let axes = selection.0.iter();
    axes.map(|(axis, values)| (axis.value.as_str(), values.iter().filter_map(value).collect())).collect()
}

/// Whether a point has, on each of these axes, one of these values.
pub(crate) fn selected(point: &Point, only: &[(&str, Vec<Value>)]) -> bool {
    only.iter().all(|(axis, values)| point.get(axis).is_some_and(|value| values.contains(value)))
}
