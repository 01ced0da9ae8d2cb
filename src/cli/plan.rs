//! `sweep plan`.

use std::{collections::HashSet, path::Path};

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets::NOTHING};

use super::{
    OnlyArgs, Prepared, RecipeArgs, look_up, print,
    saved::{SavedJob, SavedPlan, SavedRequest},
};
use crate::{
    error::{Error, Exit},
    plan::{Job, JobId, Plan, Study},
    recipe::Recipe,
    store::Store,
    text::{clean, count},
};

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    only: OnlyArgs,
    /// List every job with its key, not only the steps.
    #[arg(long)]
    list: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value = "table")]
    format: PlanFormat,
}

/// How to print a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// For a terminal.
    Table,
    /// For machines; docs/recipe.md describes it.
    Json,
    /// Graphviz.
    Dot,
    /// A Mermaid flow chart, which GitHub shows in Markdown.
    Mermaid,
}

/// What is known of the jobs to print.
struct View<'a> {
    plan: &'a Plan,
    selected: HashSet<JobId>,
    cached: Vec<bool>,
}

pub(super) fn plan(results: &Path, args: &PlanArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &args.only.only, false)?;
    let cached = look_up(&Store::new(results), &plan);
    let selected = plan.selection()?;
    let view = View { plan: &plan, selected, cached };
    print(&match args.format {
        PlanFormat::Table => view.table(args.list),
        PlanFormat::Json => view.json(args),
        PlanFormat::Dot => view.dot(),
        PlanFormat::Mermaid => view.mermaid(),
    })?;
    Ok(Exit::Done)
}

impl<'a> View<'a> {
    fn jobs(&self) -> impl Iterator<Item = (JobId, &'a Job)> + '_ {
        self.plan.jobs().filter(|(id, _)| self.selected.contains(id))
    }

    fn state(&self, id: JobId) -> &'static str {
        if self.cached[id.index()] { "cached" } else { "to run" }
    }

    fn table(&self, list: bool) -> String {
        let plan = self.plan;
        let done = self.selected.iter().filter(|id| self.cached[id.index()]).count();
        let (all, open) = (self.selected.len(), self.selected.len() - done);
        let mut text = format!("{} · {}: {done} cached, {open} to run\n", plan.title(), count(all, "job"));
        if let [Study { recipe: Recipe { about: Some(about), .. }, .. }] = plan.studies.as_slice() {
            text = format!("{}\n{text}", clean(about));
        }
        let mut grid = Table::new();
        grid.load_style(NOTHING);
        if list {
            grid.set_header(["  job", "key", "state"]);
            for (id, job) in self.jobs() {
                let label = format!("  {}", clean(&job.label.to_string()));
                grid.add_row([label, job.key.short(), self.state(id).to_owned()]);
            }
        } else {
            grid.set_header(["  step", "jobs", "cached", "to run"]);
            let several = plan.studies.len() > 1;
            let steps = plan.studies.iter().flat_map(|study| {
                let name = |step: &str| if several { format!("{}:{step}", study.recipe.name) } else { step.to_owned() };
                study.recipe.steps.iter().zip(&study.steps).map(move |(step, jobs)| (name(&step.name.value), jobs))
            });
            for (name, jobs) in steps {
                let jobs: Vec<_> = jobs.iter().map(|(_, id)| id).filter(|id| self.selected.contains(id)).collect();
                if jobs.is_empty() {
                    continue;
                }
                let hits = jobs.iter().filter(|id| self.cached[id.index()]).count();
                let row = [jobs.len(), hits, jobs.len() - hits].map(|number| number.to_string());
                grid.add_row(std::iter::once(format!("  {name}")).chain(row));
            }
            for column in grid.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.extend(grid.lines().map(|line| format!("{}\n", line.trim_end())));
        text
    }

    fn json(&self, args: &PlanArgs) -> String {
        let jobs = self.jobs().map(|(id, job)| SavedJob {
            label: job.label.to_string(),
            step: job.label.step.clone(),
            point: job.label.point.clone(),
            task: job.task.name.to_owned(),
            key: job.key,
            state: self.state(id).to_owned(),
            needs: self.plan.needs(id).map(|need| self.plan.job(need).key).collect(),
        });
        let request = SavedRequest {
            paths: args.recipe.paths.clone(),
            changes: args.recipe.changes.clone(),
            only: args.only.only.clone(),
        };
        let plan = SavedPlan::new(self.plan, request, jobs.collect());
        // Text keys and nothing that is not finite: this cannot fail.
        serde_json::to_string_pretty(&plan).map(|text| text + "\n").unwrap_or_default()
    }

    fn dot(&self) -> String {
        let mut lines = vec![format!("digraph \"{}\" {{", self.plan.title()), "  rankdir=LR;".to_owned()];
        for (id, job) in self.jobs() {
            let style = if self.cached[id.index()] { "filled" } else { "solid" };
            let label = quoted(&job.label.to_string());
            lines.push(format!("  j{} [shape=box, style={style}, label={label}];", id.index()));
        }
        lines.extend(self.edges().map(|(from, to)| format!("  j{from} -> j{to};")));
        lines.push("}".to_owned());
        lines.join("\n") + "\n"
    }

    fn mermaid(&self) -> String {
        let mut lines = vec!["flowchart LR".to_owned(), "  classDef cached fill:#ddd".to_owned()];
        for (id, job) in self.jobs() {
            let class = if self.cached[id.index()] { ":::cached" } else { "" };
            // Inside quotes Mermaid knows no escapes but its own.
            let label = clean(&job.label.to_string()).replace('"', "#quot;");
            lines.push(format!("  j{}[\"{label}\"]{class}", id.index()));
        }
        lines.extend(self.edges().map(|(from, to)| format!("  j{from} --> j{to}")));
        lines.join("\n") + "\n"
    }

    fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.jobs().flat_map(|(id, _)| {
            let mut needs: Vec<usize> = self.plan.needs(id).map(JobId::index).collect();
            needs.sort_unstable();
            needs.into_iter().map(move |need| (need, id.index()))
        })
    }
}

/// A text in Graphviz's quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", clean(text).replace('\\', "\\\\").replace('"', "\\\""))
}
