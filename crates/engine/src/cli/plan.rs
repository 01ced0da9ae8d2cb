//! `sweep plan`.

mod savings;
#[cfg(feature = "mcp")]
mod summary;
mod unmeasured;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::Path,
};

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets::NOTHING};

pub(super) use self::savings::StepSaving;
#[cfg(feature = "mcp")]
pub(super) use self::summary::{JobLine, PlanTally, StepLine};
use super::{
    OnlyArgs, Prepared, RecipeArgs,
    answer::{self, answer},
    design::{self, DesignArgs},
    print,
    saved::{SavedJob, SavedPlan, SavedRequest},
    warn, warn_of_damage,
};
use crate::{
    analysis::{
        design::{Design, DesignError},
        search::{DecidedJobs, DecidedState},
    },
    charts::Empty,
    error::{Error, Exit},
    format::{clean, count, duration, shortened},
    plan::{Job, JobId, ListId, Numbering, Plan, Study},
    query::explain::Explainer,
    recipe::{Executor, Recipe},
    render::empty_figures,
    run::{self, AtOnce, History, Standing, describe_gpu},
    store::{State, Store},
};

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    only: OnlyArgs,
    /// List every job with its key instead of the steps.
    #[arg(long)]
    list: bool,
    /// Maximum number of jobs at once, as for `sweep run`.
    #[arg(long, short, value_name = "N", env = "SWEEP_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Show the reason for each job that will run: the difference from the nearest record, and its place in the recipe.
    #[arg(long, conflicts_with = "list")]
    why: bool,
    #[command(flatten)]
    design: DesignArgs,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    format: PlanFormat,
}

/// Output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// A table for a terminal.
    Table,
    /// JSON, described in docs/recipe.md.
    Json,
    /// Graphviz.
    Dot,
    /// A Mermaid flow chart, which GitHub shows in Markdown.
    Mermaid,
}

/// State of the jobs to print.
pub(super) struct View<'a> {
    plan: &'a Plan,
    selected: HashSet<JobId>,
    cached: Vec<bool>,
    /// Jobs that another sweep is at, and those that need them.
    blocked: Vec<bool>,
    /// Estimated duration, in seconds.
    about: Option<f64>,
    /// Jobs that run at once.
    at_once: Vec<AtOnce>,
    /// The states that there are.
    states: Vec<State>,
    /// Savings by shared states.
    savings: Vec<StepSaving>,
    history: History,
    explainer: Explainer<'a>,
    /// Decisions of searches about jobs.
    decided_jobs: DecidedJobs,
    /// Lines about metrics that no job has measured.
    unmeasured: Vec<String>,
}

pub(super) fn plan(results: &Path, args: &PlanArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &args.only.only, false)?;
    warn(&plan);
    viewed(results, args, &plan, |view, design| match args.format {
        PlanFormat::Table => {
            print(&(view.table(args) + &design.map(|design| design::text(&design)).unwrap_or_default()))
        }
        PlanFormat::Json => {
            let next = vec![next(results, args, &view)];
            answer(&view.saved(args, design), next)
        }
        PlanFormat::Dot => print(&view.dot()),
        PlanFormat::Mermaid => print(&view.mermaid()),
    })??;
    Ok(Exit::Done)
}

/// Returns the next command after a plan: it runs the jobs, or prints the tables if no job has to run.
fn next(results: &Path, args: &PlanArgs, view: &View<'_>) -> String {
    let arguments = view.plan.typed();
    if !view.jobs().any(|(id, _)| view.state(id) == "to run") && view.plan.left() == 0 {
        return answer::with_words(results, "report", &arguments, &[]);
    }
    let flags = |flag: &str, values: &[String]| -> Vec<String> {
        values.iter().flat_map(|value| [flag.to_owned(), value.clone()]).collect()
    };
    let changes = &args.recipe.changes;
    let executor: Vec<String> = changes.executor.iter().cloned().collect();
    let hosts = if changes.hosts.is_empty() { Vec::new() } else { vec![changes.hosts.join(",")] };
    let flags = [flags("--only", &args.only.only), flags("--executor", &executor), flags("--hosts", &hosts)].concat();
    answer::with_words(results, "run", &arguments, &flags)
}

/// Compares a plan with the store, and shows it.
pub(super) fn viewed<T>(
    results: &Path,
    args: &PlanArgs,
    plan: &Plan,
    show: impl FnOnce(View<'_>, Option<Design>) -> T,
) -> Result<T, Error> {
    let store = Store::open(results)?;
    let mut selected_jobs = plan.selection()?;
    let standing = Standing::of(plan, &store, &selected_jobs)?;
    warn_of_damage(&standing);
    let table = args.format == PlanFormat::Table;
    let unmeasured = if table { unmeasured::unmeasured(plan, &store, &standing, &selected_jobs)? } else { Vec::new() };
    let cached = standing.cached;
    share(plan, &store, &mut selected_jobs, &cached);
    if !table && args.format != PlanFormat::Json && args.design.is_wanted() {
        return Err(DesignError::Format.into());
    }
    // Only jobs that will run have to be compared with the records, and only a table shows that.
    let shares = selected_jobs.iter().any(|id| plan.is_shared(*id));
    let reads = table || (shares && args.format == PlanFormat::Json);
    let entries = if reads && selected_jobs.iter().any(|id| !cached[id.index()]) {
        store.index().map_err(Error::io("cannot read the store"))?
    } else {
        Vec::new()
    };
    let blocked = blocked(&store, plan, &cached);
    let open_jobs: Vec<JobId> = plan
        .jobs()
        .map(|(id, _)| id)
        .filter(|id| selected_jobs.contains(id) && !cached[id.index()] && !plan.is_reserve(*id))
        .collect();
    let (limits, _) = run::allocation::share(None, args.jobs.map(usize::from));
    let savings = savings::savings(plan, &store, &entries, &open_jobs.iter().copied().collect())?;
    let estimates = savings.iter().flat_map(|saving| &saving.of_jobs).map(|(id, seconds)| (*id, *seconds));
    let history = if entries.is_empty() {
        History::default()
    } else {
        History::read(&store, plan).map_err(Error::io("cannot read the store"))?.with(estimates)
    };
    let about = history.duration(plan, &open_jobs, &limits).filter(|_| !open_jobs.is_empty());
    let design = args.design.design(plan, &store, &cached)?;
    let explainer = Explainer::new(plan, &entries);
    let explainer = if entries.is_empty() { explainer } else { explainer.with_manifests(store.manifests()) };
    let states = store.states().map_err(Error::io("cannot read the store"))?;
    let decided_jobs = DecidedJobs::read(plan, &store).map_err(Error::io("cannot read the store"))?;
    let at_once = match plan.executor {
        Executor::Local => AtOnce::of(plan, &open_jobs, &limits, &history.gpus),
        Executor::Batch(_) => Vec::new(),
    };
    let view = View {
        plan,
        selected: selected_jobs,
        cached,
        blocked,
        about,
        at_once,
        states,
        savings,
        history,
        explainer,
        decided_jobs,
        unmeasured,
    };
    Ok(show(view, design))
}

impl<'a> View<'a> {
    fn jobs(&self) -> impl Iterator<Item = (JobId, &'a Job)> + '_ {
        self.plan.jobs().filter(|(id, _)| self.selected.contains(id))
    }

    fn state(&self, id: JobId) -> &'static str {
        match (self.cached[id.index()], self.blocked[id.index()]) {
            (true, _) => "cached",
            (false, _) if self.is_stopped(id) => "stopped",
            (false, _) if self.is_reserve(id) => "in reserve",
            (false, true) => "blocked",
            (false, false) => "to run",
        }
    }

    /// True if a job will only run if a result is undecided without it, or if a decision releases it.
    fn is_reserve(&self, id: JobId) -> bool {
        let is_released = || matches!(self.decided_jobs.of(id), Some((DecidedState::Released, _)));
        !self.cached[id.index()] && self.plan.is_reserve(id) && !is_released()
    }

    /// True if a decision of a search has stopped it.
    fn is_stopped(&self, id: JobId) -> bool {
        self.is_reserve(id) && self.decided_jobs.is_stopped(id)
    }

    fn table(&self, args: &PlanArgs) -> String {
        let plan = self.plan;
        let cached = self.selected.iter().filter(|id| self.cached[id.index()]).count();
        let is_held = |id: &&JobId| self.blocked[id.index()] && !self.is_reserve(**id);
        let blocked = self.selected.iter().filter(is_held).count();
        let stopped = self.selected.iter().filter(|id| self.is_stopped(**id)).count();
        let reserve = self.selected.iter().filter(|id| self.is_reserve(**id)).count() - stopped;
        let total = self.selected.len() - reserve - stopped;
        let open_count = total - cached - blocked;
        let about = self.about.map(|seconds| format!(" (about {})", duration(seconds))).unwrap_or_default();
        let blocked_text = if blocked > 0 { format!(", {blocked} blocked by another sweep") } else { String::new() };
        let mut remarks = if reserve > 0 { format!(", up to {reserve} more while undecided") } else { String::new() };
        if stopped > 0 {
            remarks.push_str(&[", ", &stopped.to_string(), " stopped by decisions"].concat());
        }
        let remaining = plan.left();
        if remaining > 0 {
            remarks.push_str(&[", up to ", &remaining.to_string(), " more as searches decide"].concat());
        }
        let jobs = count(total, "job");
        let mut text =
            format!("{} · {jobs}: {cached} cached, {open_count} to run{about}{blocked_text}{remarks}\n", plan.title());
        if let [Study { recipe: Recipe { about: Some(about), .. }, .. }] = plan.studies.as_slice() {
            text = format!("{}\n{text}", clean(about));
        }
        text.extend(self.at_once.iter().map(|jobs| clean(&jobs.to_string()).into_owned() + "\n"));
        text.extend(self.savings.iter().map(|saving| saving.lines(&self.states)));
        text.extend(self.shares());
        let grid = if args.list {
            self.list()
        } else if args.why {
            self.reasons()
        } else {
            self.steps()
        };
        if grid.row_count() > 0 {
            text.extend(grid.lines().map(|line| format!("{}\n", line.trim_end())));
        }
        text.extend(self.empty_figures());
        text.extend(self.unmeasured.iter().map(String::as_str));
        text
    }

    /// A line for each figure that will have nothing to show.
    fn empty_figures(&self) -> Vec<String> {
        let counts = |id: JobId| self.selected.contains(&id) || self.cached[id.index()];
        let figures = self.plan.studies.iter().flat_map(|study| empty_figures(study, counts));
        let line = |(name, empty): (&str, Empty)| match empty {
            Empty::NoJobs => format!("figure `{name}` will be empty: no job of it is selected\n"),
            reason => format!("figure `{name}` will be empty: {reason}\n"),
        };
        figures.map(line).collect()
    }

    /// A line for each step whose jobs share GPUs, and for each part that they take.
    fn shares(&self) -> Vec<String> {
        let mut parts: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for (id, job) in self.jobs().filter(|(id, _)| !self.cached[id.index()] && !self.is_reserve(*id)) {
            if let Some(part) = describe_gpu(job, &self.history.gpus) {
                *parts.entry((self.plan.job(id).label.step.as_str(), part)).or_default() += 1;
            }
        }
        let line = |((step, part), jobs)| format!("{step}: {} share GPUs: {part}\n", count(jobs, "job"));
        parts.into_iter().map(line).collect()
    }

    /// Returns a table of all jobs.
    fn list(&self) -> Table {
        let turns = self.jobs().any(|(_, job)| job.turn.is_some());
        let mut grid =
            if turns { grid(["  job", "key", "state", "round", "position"]) } else { grid(["  job", "key", "state"]) };
        for (id, job) in self.jobs() {
            let label = format!("  {}", clean(&job.label.to_string()));
            let turn = job.turn.map(|turn| [turn.round, turn.position].map(|number| number.to_string()));
            let cells = [label, job.key.short(), self.state(id).to_owned()];
            grid.add_row(cells.into_iter().chain(turn.into_iter().flatten()));
        }
        grid
    }

    /// Every job that will run, and why.
    fn reasons(&self) -> Table {
        let mut grid = grid(["  job", "why"]);
        for (id, job) in self.jobs().filter(|(id, _)| !self.cached[id.index()] && !self.is_reserve(*id)) {
            grid.add_row([format!("  {}", clean(&job.label.to_string())), self.why(id)]);
        }
        grid
    }

    /// The steps with how many of their jobs are done, and why the others will run.
    fn steps(&self) -> Table {
        let plan = self.plan;
        let mut grid = grid(["  step", "jobs", "cached", "to run", "why"]);
        let has_several = self.plan.studies.len() > 1;
        let steps = self.plan.studies.iter().flat_map(|study| {
            let name = |step: &str| if has_several { format!("{}:{step}", study.recipe.name) } else { step.to_owned() };
            study.recipe.steps.iter().zip(&study.steps).map(move |(step, jobs)| (name(&step.name.value), jobs))
        });
        for (name, jobs) in steps {
            let jobs: Vec<_> = jobs
                .iter()
                .map(|(_, id)| *id)
                .filter(|id| self.selected.contains(id) && !self.is_reserve(*id))
                .collect();
            if jobs.is_empty() {
                continue;
            }
            let open_jobs: Vec<JobId> = jobs.iter().copied().filter(|id| !self.cached[id.index()]).collect();
            let numbers = [jobs.len(), jobs.len() - open_jobs.len(), open_jobs.len()].map(|number| number.to_string());
            let cells = std::iter::once(format!("  {name}")).chain(numbers);
            grid.add_row(cells.chain([self.common_reasons(&open_jobs)]));
        }
        let shared_jobs: Vec<JobId> = self.selected.iter().copied().filter(|id| plan.is_shared(*id)).collect();
        if !shared_jobs.is_empty() {
            let number = shared_jobs.len().to_string();
            grid.add_row(["  (shared states)".to_owned(), number.clone(), "0".to_owned(), number, "-".to_owned()]);
        }
        for column in 1..=3 {
            if let Some(column) = grid.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        grid
    }

    fn why(&self, id: JobId) -> String {
        clean(&self.explainer.line(&self.explainer.explain_quickly(id))).into_owned()
    }

    /// The reasons of these jobs, from a sample of them, each in a line.
    pub(in crate::cli) fn common_reasons(&self, jobs: &[JobId]) -> String {
        const LOOKED_AT: usize = 100;
        const SHOWN: usize = 3;
        // Maximum length of a reason in characters: command lines and lists may be long.
        const MAX_REASON: usize = 160;
        let reason = |id: &JobId| shortened(&self.why(*id), MAX_REASON);
        let reasons: BTreeSet<String> = jobs.iter().take(LOOKED_AT).map(reason).collect();
        let other_count = reasons.len().saturating_sub(SHOWN);
        let remainder =
            (other_count > 0).then(|| format!("and {}: `--why` lists them", count(other_count, "more reason")));
        match reasons.len() {
            0 => "-".to_owned(),
            _ => reasons.into_iter().take(SHOWN).chain(remainder).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The plan for `sweep run --plan`.
    pub(in crate::cli) fn saved(self, args: &PlanArgs, design: Option<Design>) -> SavedPlan {
        let mut numbers = Numbering::default();
        let jobs = self.jobs().map(|(id, job)| {
            let (lists, needs) = self.plan.written_needs(id);
            SavedJob {
                label: job.label.to_string(),
                step: job.label.step.to_string(),
                point: job.label.point.to_string(),
                task: job.task.name.to_owned(),
                key: job.key,
                state: self.state(id).to_owned(),
                turn: job.turn,
                needs: needs.into_iter().map(|need| self.plan.job(need).key).collect(),
                lists: numbers.of(lists),
            }
        });
        let jobs = jobs.collect();
        let keys = |list| self.plan.list(list).iter().map(|need| self.plan.job(*need).key).collect();
        let lists = numbers.lists().into_iter().map(keys).collect();
        let request = SavedRequest {
            paths: args.recipe.paths.clone(),
            changes: args.recipe.changes.clone(),
            only: args.only.only.clone(),
        };
        let mut plan = SavedPlan::new(self.plan, request, jobs, lists);
        plan.design = design;
        plan.savings = self.savings;
        plan
    }

    fn dot(&self) -> String {
        let mut lines = vec![format!("digraph \"{}\" {{", self.plan.title()), "  rankdir=LR;".to_owned()];
        for (id, job) in self.jobs() {
            let style = if self.cached[id.index()] { "filled" } else { "solid" };
            let label = quoted(&job.label.to_string());
            lines.push(format!("  j{} [shape=box, style={style}, label={label}];", id.index()));
        }
        let (point_count, edges) = self.edges();
        lines.extend((0..point_count).map(|list| format!("  n{list} [shape=point];")));
        lines.extend(edges.into_iter().map(|(source, target)| format!("  {source} -> {target};")));
        lines.push("}".to_owned());
        lines.join("\n") + "\n"
    }

    fn mermaid(&self) -> String {
        let mut lines = vec!["flowchart LR".to_owned(), "  classDef cached fill:#ddd".to_owned()];
        for (id, job) in self.jobs() {
            let class = if self.cached[id.index()] { ":::cached" } else { "" };
            // Inside quotes, Mermaid only supports its own escapes.
            let label = clean(&job.label.to_string()).replace('"', "#quot;");
            lines.push(format!("  j{}[\"{label}\"]{class}", id.index()));
        }
        let (point_count, edges) = self.edges();
        lines.extend((0..point_count).map(|list| format!("  n{list}(( ))")));
        lines.extend(edges.into_iter().map(|(source, target)| format!("  {source} --> {target}")));
        lines.join("\n") + "\n"
    }

    /// Edges, and the number of points between jobs: if many jobs need the same ones, both lead to such a point.
    fn edges(&self) -> (usize, Vec<(String, String)>) {
        let job = |id: JobId| format!("j{}", id.index());
        let mut numbers = Numbering::default();
        let mut edges = Vec::new();
        for (id, _) in self.jobs() {
            let (lists, mut needs) = self.plan.written_needs(id);
            needs.sort_unstable();
            edges.extend(needs.into_iter().map(|need| (job(need), job(id))));
            edges.extend(numbers.of(lists).into_iter().map(|list| (format!("n{list}"), job(id))));
        }
        let lists = numbers.lists();
        for (number, list) in lists.iter().enumerate() {
            edges.extend(self.plan.list(*list).iter().map(|need| (job(*need), format!("n{number}"))));
        }
        (lists.len(), edges)
    }
}

/// Selects the jobs for states that several of the selected jobs share, as a run would.
fn share(plan: &Plan, store: &Store, selected_jobs: &mut HashSet<JobId>, cached: &[bool]) {
    let open_jobs = selected_jobs.iter().copied().filter(|id| !cached[id.index()] && !plan.is_reserve(*id)).collect();
    let wanted_jobs = plan.worth_sharing(&open_jobs, |step, key| store.has_state(step, key));
    selected_jobs.extend(wanted_jobs.into_iter().filter(|id| !cached[id.index()]));
}

/// For every job, true if another sweep runs it, or a job that it needs.
fn blocked(store: &Store, plan: &Plan, cached: &[bool]) -> Vec<bool> {
    let mut blocked = vec![false; plan.len()];
    let mut lists: HashMap<ListId, bool> = HashMap::new();
    let claimed_keys = store.claimed();
    for (id, job) in plan.jobs().filter(|(id, _)| !cached[id.index()]) {
        let is_any_blocked = |list: &ListId| plan.list(*list).iter().any(|need| blocked[need.index()]);
        let needs_blocked =
            plan.lists_of(id).iter().any(|list| *lists.entry(*list).or_insert_with(|| is_any_blocked(list)));
        blocked[id.index()] = needs_blocked || claimed_keys.contains(&job.key) && !store.is_free(job.key);
    }
    blocked
}

/// A table without lines.
pub(super) fn grid<const N: usize>(header: [&str; N]) -> Table {
    let mut grid = Table::new();
    grid.load_style(NOTHING);
    grid.set_header(header);
    grid
}

/// A text in Graphviz's quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", clean(text).replace('\\', "\\\\").replace('"', "\\\""))
}
