//! The top-level keys of a recipe: its name, its description and its sections.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{
    Lower, claims::Context, family::claims_schema, metrics::metrics_schema, notify::NotifyKeys, scales::scales_schema,
    search::select_last,
};
use crate::recipe::{
    Names, Recipe, TableKind, is_name,
    keys::{Custom, Mapping as _, Shape, Text, Within, mapping},
    node::{Node, NodeKind},
    schema::{named, reference},
    source::{Sources, Span, Spanned},
};

/// The work that a study is about, as cited in its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The publication's title.
    pub title: String,
    /// The publication's authors.
    pub authors: Option<String>,
    /// The year of publication.
    pub year: Option<String>,
    /// The journal or conference.
    pub venue: Option<String>,
    /// The publication's address.
    pub url: Option<String>,
}

impl std::fmt::Display for Citation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(authors) = &self.authors {
            write!(f, "{authors}: ")?;
        }
        f.write_str(&self.title)?;
        for part in [&self.venue, &self.year, &self.url].into_iter().flatten() {
            write!(f, ", {part}")?;
        }
        Ok(())
    }
}

mapping! {
    /// The keys of a recipe.
    struct RecipeKeys = "recipe" {
        /// The name of the report's folder. Default: the name of the file.
        name: Text = Text::NAME,
        /// The question that the study answers, for readers of the report.
        about: Text,
        /// The work that the study is about, as cited in the report.
        cite: Within<CiteKeys<'static>>,
        /// The recipe that this one extends: a path, relative to the folder of this file.
        ///
        /// See [`extends`](#extends).
        extends: Custom = Custom { schema: || json!({ "type": "string" }), accepts: "a path" },
        /// Values for the whole study. `${{ params.NAME }}` refers to a value, `--set name=value` overrides it.
        params: Custom = Custom { schema: || named("literal"), accepts: "name to value" },
        /// Named settings of params and axes, for example for a large machine. `--scale NAME` chooses one.
        ///
        /// See [`scales`](#scales).
        scales: Custom = Custom { schema: scales_schema, accepts: "name to `{ about, set, axes }`" },
        /// The steps of the study. Each step runs one task at every point of its matrix.
        ///
        /// See [`steps`](#steps).
        steps: Custom = Custom { schema: || named("step"), accepts: "name to step" },
        /// The tables of the report: metrics of a step by its axes.
        ///
        /// See [`tables`](#tables).
        tables: Custom = Custom { schema: || named("table"), accepts: "name to table" },
        /// The figures of the report: charts of a step's metrics and curves.
        ///
        /// See [`figures`](#figures).
        figures: Custom = Custom { schema: || named("figure"), accepts: "name to figure" },
        /// Properties of metrics that verdicts and comparisons use.
        ///
        /// See [`metrics`](#metrics).
        metrics: Custom = Custom { schema: metrics_schema, accepts: "metric to `{ better, resolution, deterministic }`" },
        /// Statements about metrics. A run supports a claim, refutes it, finds a tie or leaves it undecided.
        ///
        /// `family: holm` corrects the verdicts for the number of claims. See [`claims`](#claims).
        claims: Custom = Custom { schema: || claims_schema(&reference("claim")), accepts: "name to claim" },
        /// Messages about a run, for example at its end or when a job fails.
        ///
        /// See [`notify`](#notify).
        notify: Within<NotifyKeys<'static>>,
    }
}

mapping! {
    /// The keys of `cite`.
    struct CiteKeys = "cite" {
        /// The title of the work.
        title [required]: Text,
        /// The authors of the work.
        authors: Text,
        /// The year of publication.
        year: Year,
        /// The journal or conference, or another place of publication.
        venue: Text,
        /// The address of the work on the web.
        url: Text,
    }
}

/// A year, as a number or as text.
#[derive(Default)]
pub(in crate::recipe) struct Year;

impl Shape for Year {
    type Value = String;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<String> {
        match &node.kind {
            NodeKind::Scalar(Value::Int(year)) => Some(year.to_string()),
            _ => lower.text(node, &format!("`{key}`")),
        }
    }

    fn schema(&self) -> Json {
        json!({ "type": ["integer", "string"] })
    }

    fn accepts(&self) -> String {
        "an integer, or text".to_owned()
    }
}

impl Lower<'_> {
    /// Reads a recipe that is merged with the recipes that it extends; also returns the place of its name.
    pub(in crate::recipe) fn recipe(mut self, node: &Node, path: &Path) -> (Recipe, Span) {
        let keys = RecipeKeys::read_or_empty(&mut self, node, "a recipe");
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let named = keys.name.is_there();
        let name = if named { keys.name.spanned() } else { Some(Spanned::new(stem, node.span.part(0, 1))) };
        match &name {
            Some(name) if !is_name(&name.value) && !named => {
                let message = format!("the file's name `{}` cannot name a recipe", name.value);
                self.problem(name.span, message, "this recipe has no name of its own", "add `name:` with a name");
            }
            Some(name) => self.check_name(name, "recipe"),
            None => {}
        }
        let cite = keys.cite.node().and_then(|node| self.cite(node));
        let notify = keys.notify.node().and_then(|node| self.notify(node));
        let params = self.params(keys.params.node());
        let scales = keys.scales.node().map_or_else(Vec::new, |node| self.scales(node));
        let scales = scales.into_iter().map(|scale| (scale.name.value, scale.about)).collect();
        // References to steps cannot be checked if the key `steps` is misspelled.
        let misnamed = keys.steps.node().is_none() && self.is_meant(node, "steps");
        let steps = match keys.steps.node() {
            Some(steps) => self.steps(steps, &params),
            None => {
                // The steps of a recipe whose base could not be read are unknown.
                if matches!(node.kind, NodeKind::Map(_)) && !keys.extends.is_there() && !misnamed {
                    let span = node.span.part(0, 1);
                    let help = "a recipe needs `steps:` with at least one step";
                    self.problem(span, "this recipe has no steps", "nothing to run", help);
                }
                Vec::new()
            }
        };
        let step_names = keys.steps.node().map(written).unwrap_or_default();
        let nodes = [keys.metrics.node(), keys.tables.node(), keys.figures.node(), keys.claims.node()];
        let [metrics, tables, figures, claims] = if misnamed { [None; 4] } else { nodes };
        let of_claims = tables;
        let rules = metrics.map_or_else(Vec::new, |node| self.metric_rules(node, &steps));
        let context = Context { steps: &steps, rules: &rules, written: &step_names, params: &params };
        let mut tables = tables.map_or_else(Vec::new, |node| self.tables(node, &context));
        let mut figures = figures.map_or_else(Vec::new, |node| self.figures(node, &steps, &step_names, &params));
        let (mut claims, family) = claims.map(|node| self.claims(node, &context)).unwrap_or_default();
        tables.extend(of_claims.into_iter().flat_map(|node| self.tables_of_claims(node, &steps, &claims)));
        select_last(&steps, &mut tables, &mut figures, &mut claims);
        let decides = !claims.is_empty()
            || tables.iter().any(|table| matches!(&table.kind, TableKind::Compare(compare) if compare.decide));
        for adaptive in steps.iter().filter_map(|step| step.adaptive.as_ref()).filter(|_| !decides) {
            let help = "add a claim, or `decide: true` to a table's `compare`";
            let message = "`seeds` has `until: decided`, but the recipe has nothing to decide";
            self.problem(adaptive.span, message, "nothing to decide", help);
        }
        let span = name.as_ref().map_or(node.span.part(0, 1), |name| name.span);
        let name = name.map(|name| name.value).unwrap_or_default();
        let sources = Sources::default();
        (
            Recipe {
                name,
                // A text in a block ends with a line break.
                about: keys.about.value.map(|about| about.split_whitespace().collect::<Vec<_>>().join(" ")),
                cite,
                file: PathBuf::new(),
                report: PathBuf::new(),
                taken: None,
                flags: String::new(),
                scale: None,
                scales,
                params,
                steps,
                tables,
                figures,
                claims,
                family,
                rules,
                notify,
                sources,
            },
            span,
        )
    }

    /// The work that a study is about.
    fn cite(&mut self, node: &Node) -> Option<Citation> {
        let keys = CiteKeys::read(self, node, "`cite`")?;
        if self.is_missing(node, "title", &keys.title) {
            self.problem(node.span, "`cite` has no `title`", "which work?", "add `title:`");
        }
        Some(Citation {
            title: keys.title.value?,
            authors: keys.authors.value,
            year: keys.year.value,
            venue: keys.venue.value,
            url: keys.url.value,
        })
    }

    fn params(&mut self, node: Option<&Node>) -> Names {
        let mut params = Names::new();
        for entry in node.map(|node| self.entries(node, "`params`")).unwrap_or_default() {
            self.check_name(&entry.key, "param");
            let Some(value) = self.literal(&entry.value) else { continue };
            params.insert(entry.key.value.clone(), Spanned::new(value, entry.value.span));
        }
        params
    }
}

/// The names of all steps in the text, including those that were dropped because of a mistake.
fn written(steps: &Node) -> Vec<String> {
    match &steps.kind {
        NodeKind::Map(entries) => entries.iter().map(|entry| entry.key.value.clone()).collect(),
        // Steps in a list are reported as one mistake, without further mistakes for references to their names.
        NodeKind::List(items) => items.iter().flat_map(names_of_item).collect(),
        NodeKind::Scalar(_) => Vec::new(),
    }
}

/// The names that an item of a list of steps may mean: the value of its `name`, or its keys.
fn names_of_item(item: &Node) -> Vec<String> {
    let NodeKind::Map(entries) = &item.kind else { return Vec::new() };
    let keys = entries.iter().map(|entry| entry.key.value.clone());
    let values = entries.iter().filter_map(|entry| match &entry.value.kind {
        NodeKind::Scalar(Value::Text(text)) => Some(text.clone()),
        _ => None,
    });
    keys.chain(values).collect()
}
