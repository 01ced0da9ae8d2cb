//! `steps`: tasks with their parameters, their order and their policies.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use sweep_job::{Task, TaskInfo, Value};

use super::{
    Lower,
    adaptive::AdaptiveKeys,
    items,
    matrix::ablate,
    replicates,
    resources::ResourceKeys,
    search::SearchKeys,
    states::{AdoptKeys, AdoptPolicy, StateKeys, StatePolicy},
};
use crate::recipe::{
    Condition, Dimension, Known, Names, Reference, Scope, Selection, Step, Template, check_references,
    foreign::{self, PROGRAM},
    keys::{Custom, Flag, Mapping as _, Text, TimeSpan, Whole, Within, mapping},
    node::{Entry, Node, NodeKind},
    problem::{nearest, suggest},
    schema::{NAME, Reach, one_expression, reference, whole},
    source::{Span, Spanned},
};

/// A step that must be done first.
#[derive(Debug, Clone)]
pub struct Need {
    /// The step's index in [`crate::recipe::Recipe::steps`].
    pub step: usize,
    /// The needed points of that step.
    pub only: Selection,
    /// The place in the text.
    pub span: Span,
}

/// Policy for a job that exceeds its time limit, shows no activity, or fails. The policy is not part of any key: it
/// affects whether a job has a result, but not the result.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Maximum number of retries of a failed job.
    pub retries: u32,
    /// Maximum duration.
    pub timeout: Option<Duration>,
    /// Time between the request to stop and SIGTERM; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
    /// Maximum time without activity.
    pub heartbeat: Option<Duration>,
    /// True if the run continues and counts as successful although the job failed.
    pub tolerated: bool,
    /// States that the job leaves and shares.
    #[serde(default, skip_serializing_if = "StatePolicy::is_default")]
    pub states: StatePolicy,
    /// Adoption of earlier results after a change of the code; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptPolicy>,
}

mapping! {
    /// The keys of a step.
    struct StepKeys = "step" {
        /// The task to run. `sweep tasks` lists all tasks, `sweep tasks NAME` shows one.
        uses: Text = Text { schema: uses, accepts: "a [task](#tasks)" },
        /// The step or steps that must be done first. Two steps are joined on the axes that they share.
        ///
        /// `eval` at `prune=none` waits for `train` at `prune=none`. If the steps share no axis, every job waits for
        /// all jobs of the needed step. An entry `{ step: train, where: { prune: none } }` waits only for the selected
        /// points.
        needs: Custom = Custom { schema: needs, accepts: "a name, a map with `step` and `where`, or a list of these" },
        /// The axes of the step. Its points are the Cartesian product of the axes.
        ///
        /// See [`matrix`](#matrix).
        matrix: Custom = Custom { schema: || reference("matrix"), accepts: "axis to values" },
        /// The number of seeds. It adds the axis `seed` with the values 0, 1, … to every point.
        ///
        /// A map with a minimum and a maximum adds seeds while a result is undecided; see [adaptive
        /// seeds](#adaptive-seeds).
        seeds: Custom = Custom { schema: seeds, accepts: "an integer from 1, or `{ min, max, until, budget }`" },
        /// The kind of replication of axes: `dataset`, `fold`, `seed`, `repeat`, or `condition` for any other axis.
        /// Default: the kind that the name of the axis implies, such as `dataset`, `fold` or `data_seed`.
        ///
        /// The kinds determine the independent units of results; see [replication](#replication).
        replicates: Custom = Custom { schema: replicates::schema, accepts: "axis to a kind of replication" },
        /// Scores of individual items in a file that each job writes, by the name of the metric for claims.
        ///
        /// The scores are read when claims are judged and are not part of a key; see [items](#items).
        items: Custom = Custom { schema: items::schema, accepts: "metric to `{ file, id, score, cluster }`" },
        /// An ablation design: a baseline and the changes to it.
        ///
        /// See [`ablate`](#ablate).
        ablate: Custom = Custom { schema: ablate, accepts: "`{ design, baseline, factors, patches }`" },
        /// A search: the results so far decide which jobs run next.
        ///
        /// See [`search`](#search).
        search: Within<SearchKeys<'static>>,
        /// A condition on params and axes, for example `matrix.lr < 1e-3 && params.deep`. Points for which it is false
        /// are omitted.
        ///
        /// See [`if`](#if).
        condition = "if": Custom = Custom {
            schema: || json!({ "type": "string", "minLength": 1 }),
            accepts: "a condition",
        },
        /// The parameters of the task.
        with: Custom = Custom { schema: || json!({ "type": "object" }), accepts: "parameter to value" },
        /// The resources of the machine that a job uses.
        ///
        /// See [`resources`](#resources).
        resources: Within<ResourceKeys<'static>>,
        /// Runs no other job at the same time, so that other jobs do not distort measurements. Default: `false`.
        ///
        /// This holds for all sweeps on the machine, of all users and with all stores: a job of an exclusive step waits
        /// until no other job runs, and meanwhile no other job starts. Programs other than `sweep` are not stopped.
        /// See [order of measurements](#order-of-measurements).
        exclusive: Flag,
        /// The maximum duration of a job. A job that exceeds it is ended.
        ///
        /// A program that writes reports is asked to stop, and receives SIGTERM after its `grace`. Every other
        /// process receives SIGTERM at once. 5 s after SIGTERM, the process and all processes that it started receive
        /// SIGKILL.
        timeout: TimeSpan = TimeSpan { zero: false },
        /// The time that a program has between the request to stop and SIGTERM. Default: 30 s.
        ///
        /// The request is the file `SWEEP_STOP`, which appears when the job exceeds its `timeout`, when the run is
        /// interrupted, and when a batch system ends its allocation. During this time, the program can save a
        /// checkpoint. `grace` applies to programs that write reports; see [stop](programs.md#stopping). A batch
        /// system grants its own time, which can be shorter.
        grace: TimeSpan = TimeSpan { zero: true },
        /// The maximum time for which a job may show no activity. A job that exceeds it is ended.
        ///
        /// See [execution of a job](#execution-of-a-job).
        heartbeat: TimeSpan = TimeSpan { zero: false },
        /// Settings of the states from which longer jobs continue: the states to keep, and whether variants share
        /// them.
        ///
        /// See [`states`](#states).
        states: Within<StateKeys<'static>>,
        /// Adopts the earlier result of a program after a change of its code, if the program repeats the first steps
        /// of the earlier run bit for bit. Default: after every change of the code that a program reads, the program
        /// runs to its end.
        ///
        /// See [`adopt`](#adopt).
        adopt: Within<AdoptKeys<'static>>,
        /// The maximum number of retries of a failed job. Default: 0.
        ///
        /// The delay before a retry is 1 s, 2 s, 4 s, …, up to one minute.
        retries: Whole = Whole { range: 0..=100, of: "retries" },
        /// Tolerates failures: a failed job neither stops the run nor changes its exit code. Default: `false`.
        ///
        /// Jobs that need the failed job are still skipped, and the exit code is then 5, unless their own step also
        /// tolerates failures.
        tolerated = "continue-on-error": Flag,
    }
}

mapping! {
    /// The keys of an entry of `needs`.
    struct NeedKeys = "needs" {
        /// The name of the needed step.
        step [required]: Custom = Custom { schema: || reference("name"), accepts: "a name" },
        /// Selects the points of the step that have these values.
        only = "where": Custom = Custom::SELECTION,
    }
}

fn uses() -> Json {
    let (hidden, listed): (Vec<&TaskInfo>, Vec<&TaskInfo>) = Task::all().iter().partition(|task| task.hidden);
    let names: Vec<&str> = listed.iter().map(|task| task.name).collect();
    let about: Vec<&str> = listed.iter().map(|task| task.about).collect();
    let hidden: Vec<&str> = hidden.iter().map(|task| task.name).collect();
    json!({
        "type": "string",
        // Editors offer the words of an `enum`. Hidden tasks are accepted, but not offered.
        "anyOf": [
            { "enum": names, "enumDescriptions": about },
            { "pattern": format!("^(?:{})$", hidden.join("|")), "patternErrorMessage": format!("Tasks: {}.", names.join(", ")) },
        ],
    })
}

/// An entry of `needs`; `types` are the forms accepted.
pub(in crate::recipe) fn need(types: &[&str]) -> Json {
    let mut schema = NeedKeys::schema();
    schema["type"] = json!(types);
    schema["pattern"] = json!(whole(NAME));
    schema
}

fn needs() -> Json {
    let mut schema = need(&["string", "object", "array"]);
    schema["items"] = reference("need");
    schema["uniqueItems"] = json!(true);
    schema
}

fn seeds() -> Json {
    let mut schema = AdaptiveKeys::schema();
    schema["type"] = json!(["integer", "string", "object"]);
    schema["minimum"] = json!(1);
    schema["pattern"] = json!(one_expression(Reach::Params));
    schema["patternErrorMessage"] = json!("Expected a number of seeds, or `${{ params.NAME }}`.");
    schema
}

impl Lower<'_> {
    pub(super) fn steps(&mut self, node: &Node, params: &Names) -> Vec<Step> {
        let entries = self.entries(node, "`steps`");
        if entries.is_empty() && matches!(node.kind, NodeKind::Map(_)) {
            self.problem(node.span, "this recipe has no steps", "nothing to run", "add a step");
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.key.value.as_str()).collect();
        let steps: Vec<Option<Step>> = entries.iter().map(|entry| self.step(entry, &names, params)).collect();
        // A step that a mistake makes unreadable is dropped, so the indices of the following steps decrease.
        let mut new_places = vec![None; steps.len()];
        let present = steps.iter().enumerate().filter(|(_, step)| step.is_some());
        for (to, (from, _)) in present.enumerate() {
            new_places[from] = Some(to);
        }
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        for step in &mut steps {
            step.needs.retain_mut(|need| new_places[need.step].map(|to| need.step = to).is_some());
        }
        self.check_not_searched(&steps);
        steps.extend(self.confirming(&steps, params));
        self.check_selections(&steps);
        for step in &steps {
            self.check_axes_used(step, &steps);
        }
        steps
    }

    fn step(&mut self, entry: &Entry, names: &[&str], params: &Names) -> Option<Step> {
        let name = &entry.key;
        self.check_name(name, "step");
        let keys = StepKeys::read(self, &entry.value, "a step")?;
        let needs = keys.needs.node().map_or_else(Vec::new, |node| self.needs(node, name, names, params));
        let needed_names: Vec<&str> = needs.iter().map(|need| names[need.step]).collect();
        let matrix = self.matrix(&keys, params, &needed_names);
        let adaptive = keys.seeds.node().and_then(|node| self.adaptive(node, params));
        let search = keys.search.node().and_then(|node| self.search(node, params));
        let mut resources = keys.resources.node().map(|node| self.resources(node)).unwrap_or_default();
        resources.exclusive = keys.exclusive.value.unwrap_or(false);
        if let Some(node) = keys.resources.node().filter(|_| resources.exclusive && resources.shares_gpu()) {
            let message =
                format!("`{}` is exclusive because its times are measured, but its jobs would share a GPU", name.value);
            let help = "write `gpus: 1`; `exclusive: true` and a fraction of a GPU exclude each other";
            self.problem(node.span, message, "an exclusive step uses whole GPUs", help);
        }
        let mut policy = Policy {
            retries: keys.retries.value.unwrap_or(0),
            timeout: keys.timeout.value,
            grace: keys.grace.value,
            heartbeat: keys.heartbeat.value,
            tolerated: keys.tolerated.value.unwrap_or(false),
            states: keys.states.node().map(|node| self.states(node)).unwrap_or_default(),
            adopt: None,
        };
        let mut with = Vec::new();
        for entry in keys.with.node().map(|node| self.entries(node, "`with`")).unwrap_or_default() {
            let mistakes = self.problems.len();
            let template = Template::parse_any(&entry.value, self.sources, self.problems);
            with.extend(template.map(|template| (entry.key.clone(), template)));
            let mut words = Vec::new();
            words_in(&entry.value, &mut words);
            if self.problems.len() > mistakes || words.iter().any(|word| word == "matrix") {
                // An axis that an unreadable value or a mistaken expression names is not reported as unused, too.
                self.meant.extend(words.into_iter().map(|word| (name.span, word)));
            }
        }
        let variants = self.take_variants(&mut with);
        if self.is_missing(&entry.value, "uses", &keys.uses) {
            let help = "add `uses:` with a task, such as `command` for a program; `sweep tasks` lists all tasks";
            self.problem(name.span, format!("step `{}` uses no task", name.value), "`uses` is missing", help);
        }
        let uses = keys.uses.spanned()?;
        let Some(task) = Task::info(&uses.value) else {
            let tasks = Task::all().iter().filter(|info| !info.hidden).map(|info| info.name);
            let help = nearest(&uses.value, tasks).map(|task| format!("did you mean `{task}`?"));
            let help = help.unwrap_or_else(|| foreign::task(&uses.value));
            self.problem(uses.span, format!("unknown task `{}`", uses.value), "no task has this name", help);
            return None;
        };
        policy.adopt = keys.adopt.node().and_then(|node| self.adopt(node, task, resources.exclusive));
        let mut step = Step {
            name: name.clone(),
            task,
            needs,
            matrix,
            replicates: Vec::new(),
            items: Vec::new(),
            adaptive,
            search,
            confirms: None,
            with,
            variants,
            resources,
            policy,
        };
        step.replicates = keys.replicates.node().map_or_else(Vec::new, |node| self.replicates(node, &step));
        step.items = keys.items.node().map_or_else(Vec::new, |node| self.items(node, &step, params));
        self.place_search(&mut step);
        self.check_step(&step, params, &needed_names);
        // A program in the words of another tool is reported as such; that the step lacks one is no further mistake.
        let NodeKind::Map(entries) = &entry.value.kind else { return None };
        let is_program = |entry: &Entry| PROGRAM.contains(&entry.key.value.as_str());
        (!entries.iter().any(is_program)).then_some(step)
    }

    /// Checks the parts of a step that need no expansion: the names of parameters and axes.
    fn check_step(&mut self, step: &Step, params: &Names, needed_names: &[&str]) {
        let axes = step.axes();
        for (key, template) in &step.with {
            let flags = step.task.name == "command" && key.value == "argv";
            let known = Known { axes: Some(&axes), needs: Some(needed_names), flags };
            check_references(template, params, known, self.sources, self.problems);
            if step.task.param(&key.value).is_none() {
                let allowed = step.task.params().map(|param| param.name);
                let kind = format!("parameters of `{}`", step.task.name);
                let help = foreign::parameter(step.task.name, &key.value).map(str::to_owned);
                let help = help.or_else(|| suggest(&key.value, &kind, allowed)).unwrap_or_default();
                let message = format!("task `{}` has no parameter `{}`", step.task.name, key.value);
                self.problem(key.span, message, "unknown parameter", help);
            }
        }
    }

    /// Checks that every axis is used: it sets the parameter of its name, occurs in `with` or `if`, or selects the
    /// needed jobs of another step.
    fn check_axes_used(&mut self, step: &Step, steps: &[Step]) {
        let joins = |axis: &str| step.needs.iter().any(|need| steps[need.step].axes().contains(&axis));
        let is_given = |axis: &str| step.with.iter().any(|(key, _)| key.value == axis);
        let condition = step.matrix.condition.iter().flat_map(Condition::references);
        let with = step.with.iter().flat_map(|(_, template)| template.references());
        let references: Vec<&Reference> = with.chain(condition).collect();
        let referenced =
            |axis: &str| references.iter().any(|reference| reference.scope == Scope::Matrix && reference.name == axis);
        let declared = step.matrix.dimensions.iter().flat_map(Dimension::axes);
        let further = step.matrix.include.iter().flat_map(|entry| entry.values.iter().map(|(name, _)| name));
        let mut names = Vec::new();
        for axis in declared.chain(further) {
            let name = axis.value.as_str();
            let is_meant = self.meant.contains(&(step.name.span, name.to_owned()));
            if names.contains(&name) || is_meant || referenced(name) || (joins(name) && !is_given(name)) {
                continue;
            }
            names.push(name);
            if is_given(name) {
                let help = format!("write `{name}: ${{{{ matrix.{name} }}}}` in `with`, or remove it there");
                let message = format!("axis `{name}` is not used: `with` gives `{name}` another value");
                self.problem(axis.span, message, "unused axis", help);
            } else if step.task.param(name).is_none() {
                let help = suggest(name, "parameters", step.task.params().map(|param| param.name)).unwrap_or_default();
                let message = format!(
                    "axis `{name}` is not used: `{}` has no such parameter, and `with` does not mention it",
                    step.task.name
                );
                self.problem(axis.span, message, "unused axis", help);
            }
        }
    }

    /// Reads `needs: step` or `needs: [step, …]`; the list can contain maps with `step` and `where`.
    fn needs(&mut self, node: &Node, step: &Spanned<String>, names: &[&str], params: &Names) -> Vec<Need> {
        let items = match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut needs: Vec<Need> = Vec::new();
        for item in items {
            let (name, only) = if let NodeKind::Map(_) = &item.kind {
                let keys = NeedKeys::read_or_empty(self, item, "an entry of `needs`");
                let only = keys.only.node().map(|node| self.selection(node, params)).unwrap_or_default();
                (keys.step.node().unwrap_or(item), only)
            } else {
                (item, Selection::default())
            };
            let span = name.span;
            let Some(name) = self.text(name, "`needs`") else { continue };
            match names.iter().position(|known| *known == name) {
                Some(index) if needs.iter().any(|need| need.step == index) => {
                    self.problem(span, format!("`{name}` is needed twice"), "again", "remove one of them");
                }
                Some(step) => needs.push(Need { step, only, span }),
                None => {
                    let other_names = names.iter().copied().filter(|known| *known != step.value);
                    let help = suggest(&name, "steps", other_names).unwrap_or_else(|| "there is no other step".into());
                    let message = format!("step `{}` needs unknown step `{name}`", step.value);
                    self.problem(span, message, "no step has this name", help);
                }
            }
        }
        needs
    }

    /// Checks that `needs` selects by axes of the needed step, which may come later in the text.
    fn check_selections(&mut self, steps: &[Step]) {
        for need in steps.iter().flat_map(|step| &step.needs) {
            let needed_step = &steps[need.step];
            let axes = needed_step.axes();
            for (axis, _) in &need.only.0 {
                self.check_axis(axis, needed_step, &axes);
            }
        }
    }
}

/// The words in the texts of a value.
fn words_in(node: &Node, found: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Scalar(Value::Text(text)) => {
            let words = text.split(|sign: char| !(sign.is_alphanumeric() || "_-".contains(sign)));
            found.extend(words.map(str::to_owned));
        }
        NodeKind::Scalar(_) => {}
        NodeKind::List(items) => items.iter().for_each(|item| words_in(item, found)),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| words_in(&entry.value, found)),
    }
}
