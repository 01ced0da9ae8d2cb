//! [`Recipe`]s to [`Plan`]: all their jobs, typed, keyed, and connected to the jobs that they need.
//!
//! [`Plan::new`] is the only constructor of a `Plan`; its existence proves that the graph has no cycle, that every
//! value fits its task, and that every key is computed.
//!
//! `dimension.rs`, `expand.rs` and `include.rs` expand matrices, `join.rs` joins steps that need each other, `needs.rs` has the lists of
//! needed jobs, which jobs share, and `turns.rs` the order of measuring steps. `digest.rs` has the digests of inputs, `code.rs` the digests
//! of the code that earlier runs read, `planned_code.rs` their comparison with the keys, `environment.rs` the present environment,
//! `states.rs` the states that jobs share. `lint.rs` warns, `select.rs` selects a part, `room.rs` bounds the memory that a recipe may
//! require, `serialized.rs` has the form that other processes read, and `effects.rs` the points of a table of effects. Planning continues
//! after the draft's mistakes and adds its own.

mod as_by_hand;
mod build;
mod code;
mod digest;
mod dimension;
mod effects;
pub mod environment;
mod expand;
mod include;
mod job;
mod join;
mod labels;
mod lint;
mod made;
mod needs;
mod nodes;
mod order;
mod planned_code;
mod progression;
mod room;
mod search;
mod searched;
mod select;
mod selection;
mod serialized;
mod settings;
mod site;
mod states;
mod turns;
mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use sweep_job::{Backend, Name, Values, tasks::ignored};
use tracing::{debug_span, field};

use self::{
    build::{Builder, Jobs},
    needs::Needs,
    order::{Expanded, expand_all},
};
pub use self::{
    code::Manifests,
    digest::Digests,
    expand::Point,
    job::{Job, Label},
    needs::{ListId, Numbering},
    room::Room,
    search::configuration,
    searched::{AllSearched, Searched},
    select::NothingSelected,
    serialized::{DeserializeError, SerializedJob},
    site::{Code, CodeFile},
    states::{Saving, Shared, Stretch},
    turns::Turn,
};
pub use self::{
    code::{digest_now, is_script, set_file, state_now},
    digest::{Tree, content_digest, digest_of, hidden, normal, relative},
    effects::{Layout, LayoutError},
    environment::ENVIRONMENTS,
    made::Made,
    select::{axes_of, means},
    selection::{resolved, selected},
    site::Site,
};
use crate::format::quoted;
use crate::host::log;
use crate::recipe::{
    Claim, Draft, Executor, Names, Problems, Recipe, Sources, Span, Spanned, Step, TableKind, Warning,
};
use crate::record::{self, Key};
use crate::variant::Moments;

/// A job's index in a [`Plan`].
pub type JobId = petgraph::graph::NodeIndex<u32>;

/// The jobs of recipes and the needs of each. A job that several recipes share occurs once.
#[derive(Debug)]
pub struct Plan {
    /// The recipes, in the order in which they were named.
    pub studies: Vec<Study>,
    /// Executor of a sweep file.
    pub executor: Executor,
    /// The selection: `step` or `step/axis=value,…`; empty selects all jobs.
    only: Vec<Spanned<String>>,
    sources: Sources,
    /// Valid but possibly unintended declarations.
    pub warnings: Vec<Warning>,
    /// See [`Plan::command`].
    typed: Vec<String>,
    jobs: Vec<Job>,
    needs: Needs,
    origins: Vec<Origin>,
    rounds: Vec<usize>,
    /// See [`Plan::continues`].
    continues: Vec<Option<JobId>>,
    /// Jobs for states that several jobs share.
    shared: Vec<Shared>,
    /// See [`Plan::is_alone`].
    is_alone: bool,
    held: Vec<bool>,
    /// The names of the layers of the jobs' code, by the values of `code`.
    pub variants: BTreeMap<String, String>,
    /// The files of projects as they were when the run of the plan began.
    pub moments: Arc<Moments>,
}

/// First occurrence of a job: indices of the recipe, of its step, and of the point in the step's jobs.
#[derive(Debug, Clone, Copy)]
struct Origin {
    study: usize,
    step: usize,
    point: usize,
}

/// A recipe and its jobs.
#[derive(Debug, Clone)]
pub struct Study {
    /// The recipe.
    pub recipe: Recipe,
    /// The jobs of each step of the recipe, in the order of the step's points.
    pub steps: Vec<Vec<(Point, JobId)>>,
    /// The jobs that only run if something is undecided without them, and in which further round that would be, from 1.
    pub rounds: BTreeMap<JobId, usize>,
    /// The decided configurations of the steps whose points decisions choose, by the index of the step.
    pub searched: BTreeMap<usize, Searched>,
    /// For each of these steps, the largest number of jobs that decisions may still add.
    pub left: BTreeMap<usize, usize>,
    /// The jobs of races beyond the first look, each with the number of looks before it.
    pub looks: BTreeMap<JobId, usize>,
    /// The parameters of the jobs of claims with a scale, and of tables over sizes.
    pub values: BTreeMap<JobId, Values>,
}

impl Study {
    /// The points that its tables and claims are about, with their jobs.
    pub fn reported(&self) -> impl Iterator<Item = &(Point, JobId)> {
        let steps: BTreeSet<usize> = self.recipe.reported().collect();
        steps.into_iter().flat_map(|step| &self.steps[step])
    }

    /// The jobs of claims with a scale, and of tables over sizes.
    fn of_scales(&self) -> Vec<JobId> {
        let mut jobs = Vec::new();
        let claims = self.recipe.claims.iter().filter(|claim| !claim.scale.is_empty());
        let tables = self.recipe.tables.iter().filter_map(|table| match &table.kind {
            TableKind::Analysis(analysis) => Some((analysis.of.step, analysis.of.only.clone())),
            _ => None,
        });
        // A claim is also judged over all seeds.
        let of_claim = |claim: &Claim| claim.over_all("seed").as_ref().unwrap_or(claim).selections();
        for (step, selection) in claims.flat_map(of_claim).chain(tables) {
            let axis_values = resolved(&self.recipe, &selection);
            let points = self.steps[step].iter().filter(|(point, _)| selected(point, &axis_values));
            jobs.extend(points.map(|(_, id)| *id));
        }
        jobs
    }
}

/// Error of planning.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The recipe means something impossible.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// A key could not be written.
    #[error("cannot compute a job's key: {0}")]
    Key(#[from] serde_json::Error),
}

/// The command that runs a job and the jobs that it needs. `typed` are the arguments that name its recipes.
pub fn command(typed: &[String], label: &str) -> String {
    let arguments = typed.iter().map(String::as_str).chain(["--only", label]);
    let words: Vec<String> = arguments.map(quoted).collect();
    format!("sweep run {}", words.join(" "))
}

/// The command that explains a job; `None` if the arguments mean several recipes, because it takes one.
pub fn explanation(typed: &[String], label: &str) -> Option<String> {
    let words = explanation_words(typed, label)?;
    Some(format!("sweep {}", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")))
}

/// The words of that command after the program's name.
pub fn explanation_words(typed: &[String], label: &str) -> Option<Vec<String>> {
    let (recipe, flags) = typed.split_first()?;
    let is_alone = !recipe.starts_with('-') && flags.first().is_none_or(|flag| flag.starts_with("--"));
    let arguments = ["explain", recipe, label].into_iter().chain(flags.iter().map(String::as_str));
    is_alone.then(|| arguments.map(str::to_owned).collect())
}

impl Plan {
    /// Expands recipes. `backend` is where the jobs that need a device will compute.
    pub fn new(draft: Draft, backend: Backend) -> Result<Self, PlanError> {
        Self::with(draft, backend, Digests::default())
    }

    /// Expands recipes like [`Plan::new`], with digests of input files from earlier runs.
    pub fn with(draft: Draft, backend: Backend, digests: Digests) -> Result<Self, PlanError> {
        Self::within(draft, backend, digests, Room::default())
    }

    /// Expands recipes like [`Plan::with`], within the memory of `room`.
    pub fn within(draft: Draft, backend: Backend, digests: Digests, room: Room) -> Result<Self, PlanError> {
        Self::searched(draft, backend, digests, room, &AllSearched::new())
    }

    /// Expands recipes like [`Plan::within`], with the points in `searched`, which decisions have chosen.
    pub fn searched(
        draft: Draft,
        backend: Backend,
        digests: Digests,
        mut room: Room,
        searched: &AllSearched,
    ) -> Result<Self, PlanError> {
        let Draft { recipes, executor, only, sources, typed, mut problems } = draft;
        let has_several_recipes = recipes.len() > 1;
        let mut jobs = Jobs::new(digests);
        let mut studies = Vec::with_capacity(recipes.len());
        for (study, recipe) in recipes.into_iter().enumerate() {
            let expand_span = debug_span!(target: log::PLAN, "expand", recipe = recipe.name, points = field::Empty);
            let of_study = |step: usize| searched.get(&(study, step));
            let Expanded { order, mut points, left } =
                expand_span.in_scope(|| expand_all(&recipe, &of_study, &mut problems, &mut room));
            expand_span.record("points", points.iter().map(Vec::len).sum::<usize>());
            drop(expand_span);
            lint::params(&recipe, &mut problems);
            lint::timing(&recipe, &mut problems);
            lint::states(&recipe, &mut problems);
            lint::gpus(&recipe, &mut problems);
            lint::selection_bias(&recipe, &mut problems);
            lint::sentences(&recipe, &mut problems);
            let prefix = has_several_recipes.then(|| Name::from(recipe.name.as_str()));
            let steps = vec![Vec::new(); recipe.steps.len()];
            let (jobs, problems, room) = (&mut jobs, &mut problems, &mut room);
            let used = Arc::new(recipe.used());
            let mut builder = Builder { study, recipe: &recipe, used, prefix, backend, jobs, steps, problems, room };
            let keys = debug_span!(target: log::PLAN, "keys", recipe = recipe.name).entered();
            for step in order {
                builder.add_step(step, std::mem::take(&mut points[step]))?;
            }
            drop(keys);
            let Builder { steps, problems, .. } = builder;
            lint::absent(&recipe, &steps, problems);
            let looks = search::looks(&recipe, &steps);
            let entries = searched.iter().filter(|((of, _), _)| *of == study);
            let searched = entries.map(|((_, step), searched)| (*step, searched.clone())).collect();
            let (rounds, values) = (BTreeMap::new(), BTreeMap::new());
            studies.push(Study { recipe, steps, rounds, searched, left, looks, values });
        }
        let warnings = problems.take_warnings();
        problems.finish(())?;
        turns::assign(&studies, &mut jobs.all);
        let (shared, left_states) = states::share(&studies, &mut jobs)?;
        jobs.digests.keep();
        let continues = states::continues(&jobs.all, &left_states)?;
        for study in &mut studies {
            let job_rounds = study.steps.iter().flatten().map(|(_, id)| (*id, jobs.rounds[id.index()]));
            study.rounds = job_rounds.filter(|(_, round)| *round > 0).collect();
            study.values = study.of_scales().into_iter().map(|id| (id, jobs.all[id.index()].values.clone())).collect();
        }
        Ok(Self {
            studies,
            executor,
            only,
            sources,
            warnings,
            typed,
            jobs: jobs.all,
            needs: jobs.needs,
            origins: jobs.origins,
            rounds: jobs.rounds,
            continues,
            shared,
            is_alone: false,
            held: jobs.held,
            variants: jobs.variants.into_names(),
            moments: Arc::default(),
        })
    }

    /// True if a job only runs if a result is undecided without it, or if a decision releases it. A request for its seed or
    /// its rung runs it in any case.
    pub fn is_reserve(&self, id: JobId) -> bool {
        let is_selected = |axis: &str| self.only.iter().any(|selection| selection.value.contains(&format!("{axis}=")));
        let rung = || self.step_of(id).search.as_ref()?.axis();
        (self.rounds[id.index()] > 0 || self.held[id.index()])
            && !is_selected("seed")
            && !rung().is_some_and(is_selected)
    }

    /// True if a job only runs if a decision of a search releases it.
    pub fn is_held(&self, id: JobId) -> bool {
        self.held[id.index()]
    }

    /// Returns the step that a job is named after.
    fn step_of(&self, id: JobId) -> &Step {
        let Origin { study, step, .. } = self.origins[id.index()];
        &self.studies[study].recipe.steps[step]
    }

    /// The largest number of jobs that decisions may still add to the wanted steps.
    pub fn left(&self) -> usize {
        let studies = self.studies.iter().enumerate();
        let counts =
            studies.flat_map(|(index, study)| study.left.iter().map(move |(step, count)| (index, *step, *count)));
        counts.filter(|(study, step, _)| self.wants(*study, *step)).map(|(_, _, count)| count).sum()
    }

    /// Number of jobs; points with the same job count once.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// A job.
    pub fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.index()]
    }

    /// Every job, each after the jobs that it needs.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().enumerate().map(|(index, job)| (JobId::new(index), job))
    }

    /// The steps of all recipes with their jobs.
    pub fn steps(&self) -> impl Iterator<Item = (&Step, &[(Point, JobId)])> {
        self.studies.iter().flat_map(|study| study.recipe.steps.iter().zip(study.steps.iter().map(Vec::as_slice)))
    }

    /// The texts that the recipes came from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The arguments of `sweep run` that mean these recipes.
    pub fn typed(&self) -> Vec<String> {
        self.typed_for(self.jobs.iter().find_map(|job| job.identity.backend))
    }

    fn typed_for(&self, backend: Option<Backend>) -> Vec<String> {
        let backend = backend.map(|backend| ["--backend".to_owned(), backend.name().to_owned()]);
        self.typed.iter().cloned().chain(backend.into_iter().flatten()).collect()
    }

    /// The command that runs a job and the jobs that it needs.
    pub fn command(&self, id: JobId) -> String {
        let job = self.job(id);
        command(&self.typed_for(job.identity.backend), &job.label.to_string())
    }

    /// The command that explains a job.
    pub fn explanation(&self, id: JobId) -> Option<String> {
        let job = self.job(id);
        explanation(&self.typed_for(job.identity.backend), &job.label.to_string())
    }

    /// The environment variables whose values a job takes where it runs, and their places in the recipe.
    pub fn inherited(&self, id: JobId) -> (Vec<&str>, Option<Span>) {
        let names = sweep_job::tasks::inherited(&self.job(id).values);
        let place = if names.is_empty() { None } else { self.place(id, "env") };
        (names, place)
    }

    /// A quoted relative path that a program in the job's folder has not found, according to its message, if the recipe's folder contains
    /// it.
    pub fn left_behind<'m>(&self, id: JobId, message: &'m str) -> Option<&'m str> {
        const WORDS: [&str; 6] =
            ["no such file", "not found", "not find", "does not exist", "cannot open", "can't open"];
        let (job, lower) = (self.job(id), message.to_lowercase());
        if !WORDS.iter().any(|word| lower.contains(word))
            || job.identity.task != lint::COMMAND
            || job.values.get("project").is_some_and(|value| value.as_text().is_some())
        {
            return None;
        }
        let Origin { study, step, .. } = self.origins[id.index()];
        let recipe = &self.studies[study].recipe;
        let folder = recipe.sources.folder(recipe.steps[step].name.span.source);
        let quotations = message.split(['\'', '"', '`', '\u{2018}', '\u{2019}']).skip(1).step_by(2);
        let is_there = |path: &&str| {
            let path = Path::new(path);
            path.is_relative() && path.components().next().is_some() && folder.join(path).exists()
        };
        quotations.filter(|path| !path.is_empty()).find(is_there)
    }

    /// The names of the recipes, as a title.
    pub fn title(&self) -> String {
        let names: Vec<&str> = self.studies.iter().map(|study| study.recipe.name.as_str()).collect();
        names.join(", ")
    }

    /// Place in a recipe that sets a job's parameter; `None` for a default.
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

    /// The files that a job reads, with their digests.
    pub fn inputs_of(&self, id: JobId) -> Vec<(PathBuf, String)> {
        let Job { task, values, identity, .. } = self.job(id);
        let mut inputs = Vec::new();
        for param in task.params() {
            let Some(mut value) = values.get(param.name).cloned() else { continue };
            for (part, path) in record::input_paths(param.kind, &mut value) {
                let digest = identity.inputs.get(&record::digest_name(param.name, part.as_ref()));
                inputs.extend(digest.map(|digest| (PathBuf::from(path.as_str()), digest.clone())));
            }
        }
        inputs
    }

    /// The patterns of ignored files in a job's input folders.
    pub fn ignored_by(&self, id: JobId) -> Vec<String> {
        ignored(&self.job(id).values)
    }

    /// The artifacts that a job takes: the keys of the jobs that leave them, and their names.
    pub fn taken_by(&self, id: JobId) -> BTreeSet<(Key, String)> {
        record::taken(&self.job(id).values)
    }

    /// The files that jobs read, with their digests.
    pub fn inputs(&self) -> BTreeMap<PathBuf, String> {
        self.jobs().flat_map(|(id, _)| self.inputs_of(id)).collect()
    }
}
