//! The reader of `batch`: a preset, the templates that replace its own, and the settings of jobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regex::Regex;
use serde_json::Value as Json;
use sweep_job::Value;

use super::{
    Argument, BatchKeys, CommandTemplates, JOB_FIELDS, OF_NAMES, OF_STEP, PHASES, PRESETS, Phase, TemplateRequest,
    fields, whole_word,
};
use crate::recipe::{
    keys::{Given, Mapping as _, meaning},
    lower::{Lower, executor::Settings},
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::{Span, Spanned},
};

impl Settings for CommandTemplates {
    fn read(lower: &mut Lower<'_>, node: &Node) -> (Self, Vec<Spanned<String>>) {
        read(lower, node, true)
    }

    fn definitions() -> Vec<(&'static str, Json)> {
        vec![("batch-step", super::of_step())]
    }
}

/// Reads the mapping. A preset by itself may have fields to which only a sweep file gives values.
pub(super) fn read(lower: &mut Lower<'_>, node: &Node, complete: bool) -> (CommandTemplates, Vec<Spanned<String>>) {
    let entries = lower.map(node, "`batch`", BatchKeys::NAMES).unwrap_or_default();
    let base = lower.base(entries);
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.key.value.as_str()).collect();
    let replaced = |entry: &&Entry| entry.key.value == "values" || !names.contains(entry.key.value.as_str());
    let (base_values, base): (Vec<Entry>, Vec<Entry>) =
        base.iter().filter(replaced).cloned().partition(|entry| entry.key.value == "values");
    let all: Vec<Entry> = base.into_iter().chain(entries.iter().cloned()).collect();
    let mut keys = BatchKeys::of(lower, &all);
    let mut named = Vec::new();
    let mut own = Vec::new();
    for Entry { key, value } in keys.steps.node().map(|node| lower.entries(node, "`steps`")).unwrap_or_default() {
        named.push(key.clone());
        let entries = lower.map(value, "a step of `batch`", OF_STEP).unwrap_or_default();
        let keys = BatchKeys::of(lower, entries);
        own.push((key.value.clone(), lower.template_request(keys.options, keys.time.value, &[keys.values.node()])));
    }
    let options = std::mem::replace(&mut keys.options, Given { entry: None, value: None });
    let preset_values = base_values.first().map(|entry| &entry.value);
    let all_jobs = lower.template_request(options, keys.time.value, &[preset_values, keys.values.node()]);
    let mut templates = lower.templates(node.span, keys);
    (templates.all, templates.steps) = (all_jobs, own);
    if complete {
        lower.check_fields(&all, &templates);
    }
    (templates, named)
}

impl Lower<'_> {
    /// Parses a preset.
    pub(super) fn preset(&mut self, name: &str, text: &str) -> Option<Node> {
        let source = self.sources.add(format!("preset {name}"), text);
        Node::parse(self.sources, source, self.problems)
    }

    /// The entries of the preset that is named.
    fn base(&mut self, entries: &[Entry]) -> Vec<Entry> {
        let Some(entry) = entries.iter().find(|entry| entry.key.value == "preset") else { return Vec::new() };
        let Some(name) = self.text(&entry.value, "`preset`") else { return Vec::new() };
        let names = || PRESETS.iter().map(|(name, _)| *name);
        let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) else {
            let help = suggest(&name, "presets", names()).unwrap_or_default();
            self.problem(entry.value.span, format!("unknown preset `{name}`"), "not a preset", help);
            return Vec::new();
        };
        match self.preset(&name, text).map(|node| node.kind) {
            Some(NodeKind::Map(entries)) => entries,
            _ => Vec::new(),
        }
    }

    fn template_request(
        &mut self,
        options: Given<'_, Vec<Spanned<String>>>,
        time: Option<Duration>,
        values: &[Option<&Node>],
    ) -> TemplateRequest {
        let options = options.value.unwrap_or_default().into_iter().map(|option| option.value).collect();
        let mut texts = BTreeMap::new();
        let entries: Vec<&Entry> = values.iter().flatten().flat_map(|node| self.entries(node, "`values`")).collect();
        for Entry { key, value } in entries {
            let text = match &value.kind {
                NodeKind::Scalar(Value::Text(text)) => Some(text.clone()),
                NodeKind::Scalar(number @ (Value::Int(_) | Value::Float(_))) => Some(number.to_string()),
                _ => self.text(value, &format!("`{}`", key.value)),
            };
            texts.extend(text.map(|text| (key.value.clone(), text)));
        }
        TemplateRequest { options, time, values: texts }
    }

    /// The templates, without the settings of jobs.
    fn templates(&mut self, span: Span, keys: BatchKeys<'_>) -> CommandTemplates {
        let missing_keys: Vec<&str> = [
            ("submit", keys.submit.is_there()),
            ("id", keys.id.is_there()),
            ("status", keys.status.is_there()),
            ("job", keys.job.is_there()),
            ("states", keys.states.is_there()),
            ("cancel", keys.cancel.is_there()),
        ]
        .into_iter()
        .filter(|(_, is_there)| !is_there)
        .map(|(name, _)| name)
        .collect();
        if !missing_keys.is_empty() && !keys.preset.is_there() {
            let message = format!("`batch` has no {}", missing_keys.join(", no "));
            let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
            let help = format!("write the missing templates, or `preset: NAME`, one of {}", names.join(", "));
            self.problem(span, message, "incomplete templates", help);
        }
        let pattern = |lower: &mut Self, given: Given<'_, String>, groups: &[&str]| {
            let pattern = given.spanned()?;
            lower.check_pattern(&pattern, groups);
            Some(pattern.value)
        };
        CommandTemplates {
            system: keys.system.value.unwrap_or_else(|| "the batch system".to_owned()),
            submit: self.command(keys.submit.node()),
            input: keys.input.value,
            id: pattern(self, keys.id, &["1"]).unwrap_or_default(),
            after: keys.after.value.unwrap_or_else(|| "${id}".to_owned()),
            join: keys.join.value.unwrap_or_else(|| ",".to_owned()),
            status: self.command(keys.status.node()),
            job: pattern(self, keys.job, &["id", "state"]).unwrap_or_default(),
            states: self.phases(keys.states.node()),
            cancel: self.command(keys.cancel.node()),
            interrupt: self.command(keys.interrupt.node()),
            history: self.command(keys.history.node()),
            ended: pattern(self, keys.ended, &[]),
            full: pattern(self, keys.full, &[]),
            unreachable: pattern(self, keys.unreachable, &[]),
            none: pattern(self, keys.none, &[]),
            patience: keys.answers_within.value,
            ..CommandTemplates::default()
        }
    }

    fn command(&mut self, node: Option<&Node>) -> Vec<Argument> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::List(items) = &node.kind else {
            let message = format!("a command must be a list of arguments, found {}", node.describe());
            self.problem(node.span, message, "not a list", "write `[program, argument, …]`");
            return Vec::new();
        };
        if items.is_empty() {
            self.problem(node.span, "a command without a program", "nothing to run", "write `[program, argument, …]`");
        }
        let argument = |item: &Node| match &item.kind {
            NodeKind::List(_) => {
                Some(Argument::Together(self.texts(item, "arguments").into_iter().map(|text| text.value).collect()))
            }
            NodeKind::Scalar(number @ (Value::Int(_) | Value::Float(_))) => Some(Argument::One(number.to_string())),
            _ => self.text(item, "an argument").map(Argument::One),
        };
        items.iter().filter_map(argument).collect()
    }

    fn phases(&mut self, node: Option<&Node>) -> Vec<(String, Phase)> {
        let mut states = Vec::new();
        for Entry { key, value } in node.map(|node| self.entries(node, "`states`")).unwrap_or_default() {
            self.check_pattern(&Spanned::new(whole_word(&key.value), key.span), &[]);
            let Some(word) = self.text(value, &format!("`{}`", key.value)) else { continue };
            let phase = meaning(self, PHASES, &Spanned::new(word, value.span), "states");
            states.extend(phase.map(|phase| (key.value.clone(), phase)));
        }
        states
    }

    /// Checks a regular expression: it can be read, and it has these groups.
    fn check_pattern(&mut self, pattern: &Spanned<String>, groups: &[&str]) {
        let help = "the syntax is that of Rust's crate `regex`, for example `(?P<id>[0-9]+)` for a group";
        match Regex::new(&pattern.value) {
            Ok(regex) => {
                let has = |group: &str| match group.parse::<usize>() {
                    Ok(number) => regex.captures_len() > number,
                    Err(_) => regex.capture_names().flatten().any(|name| name == group),
                };
                if let Some(group) = groups.iter().find(|group| !has(group)) {
                    let message = format!("the regular expression has no group `{group}`");
                    self.problem(pattern.span, message, "a group is missing", help);
                }
            }
            Err(error) => {
                let last = error.to_string().lines().last().unwrap_or_default().to_owned();
                let message = format!("the regular expression cannot be read: {last}");
                self.problem(pattern.span, message, "not a regular expression", help);
            }
        }
    }

    /// Checks that every field of a template has a value in some job.
    fn check_fields(&mut self, entries: &[Entry], templates: &CommandTemplates) {
        let requests = templates.steps.iter().map(|(_, request)| request).chain([&templates.all]);
        let own_fields: Vec<&str> = requests.flat_map(|request| request.values.keys()).map(String::as_str).collect();
        for Entry { key, value } in entries {
            let known_fields: &[&str] = match key.value.as_str() {
                "submit" | "input" => JOB_FIELDS,
                "status" => OF_NAMES,
                "cancel" | "interrupt" => &["id", "ids", "name"],
                "history" | "after" => &["id"],
                _ => continue,
            };
            let mut open = vec![value];
            while let Some(node) = open.pop() {
                match &node.kind {
                    NodeKind::List(items) => open.extend(items),
                    NodeKind::Scalar(Value::Text(text)) => {
                        let mut unknown_fields = fields(text);
                        unknown_fields.retain(|field| !known_fields.contains(field) && !own_fields.contains(field));
                        unknown_fields.sort_unstable();
                        unknown_fields.dedup();
                        if let [first, ..] = unknown_fields.as_slice() {
                            let all: Vec<String> = unknown_fields.iter().map(|field| format!("`{field}`")).collect();
                            let message = format!("no value for {} in `{}`", all.join(", "), key.value);
                            let help = suggest(
                                first,
                                "fields",
                                known_fields.iter().copied().chain(own_fields.iter().copied()),
                            );
                            let help = format!("add it to `values`; {}", help.unwrap_or_default());
                            self.problem(node.span, message, "a field without a value", help);
                        }
                    }
                    NodeKind::Scalar(_) | NodeKind::Map(_) => {}
                }
            }
        }
    }
}
