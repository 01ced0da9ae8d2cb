//! The study of imported runs: the parameters that are axes, and the two recipes. `NAME.runs.yaml` has the runs and is written by every
//! import; `NAME.yaml` extends it with a table, and belongs to the user after the first import.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use sweep_base::SEED;
use sweep_job::{Value, tasks::Imported};

use super::{End, ImportError, Run, Runs};
use crate::{
    format::{clean, count},
    init::{scalar, seed_rank},
    recipe::{Replication, is_name, suggest},
    stats::Better,
};

/// Name of the step.
pub(super) const STEP: &str = "runs";
const RUN: &str = Imported::RUN;
/// Maximum number of metrics in the table of a study.
const MAX_CELLS: usize = 6;
/// Maximum length of a value, in characters, because names of jobs contain all values.
const MAX_VALUE_LENGTH: usize = 120;
/// Names that an axis cannot have: parameters of the task, and keys of `matrix`.
const TAKEN: [&str; 8] = ["from", RUN, "params", "zip", "random", "include", "exclude", "code"];

/// The user's choice of axes, seed and metrics.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// The parameters that are axes; empty for all that vary.
    pub axes: Vec<String>,
    /// The parameter with the seed.
    pub seed: Option<String>,
    /// The metrics of the table.
    pub metrics: Vec<String>,
}

/// The study of some runs.
#[derive(Debug)]
pub struct Study {
    /// Parameters with the names of their axes.
    pub axes: Vec<(String, String)>,
    /// The metrics of the table, the most important one first.
    pub metrics: Vec<String>,
    /// The better directions of metrics that their names do not tell.
    pub better: BTreeMap<String, Better>,
    /// Sentences about values that differ from the store.
    pub notices: Vec<String>,
    /// The parameters of the jobs, one map for each run: parameters that are axes, and parameters that are equal in all runs.
    pub params: Vec<BTreeMap<String, Value>>,
    /// The names of the runs for the parameter `run`.
    pub references: Vec<String>,
}

impl Study {
    /// Decides the axes and metrics of some runs, and makes their identifiers and the values of their parameters usable in a recipe.
    pub fn new(Runs { runs, better, .. }: &mut Runs, wishes: &Wishes) -> Result<Self, ImportError> {
        let mut notices = Vec::new();
        unique_ids(runs, &mut notices);
        let metrics = metrics(runs, wishes)?;
        let references = runs.iter().map(Run::reference).map(|reference| readable(&reference).0).collect();
        let mut params: Vec<BTreeMap<String, Value>> = runs.iter().map(|run| run.params.clone()).collect();
        shorten(&mut params, &mut notices);
        one_kind_of_number(&mut params);
        same_types(&mut params, &mut notices);
        let names: BTreeSet<String> = params.iter().flat_map(BTreeMap::keys).cloned().collect();
        let known = |name: &String| {
            if names.contains(name) {
                return Ok(());
            }
            let help = suggest(name, "parameters", names.iter().map(String::as_str));
            let help = help.unwrap_or_else(|| "the runs have no parameters".to_owned());
            Err(ImportError::NoName { kind: "parameter", name: name.clone(), help })
        };
        wishes.axes.iter().chain(&wishes.seed).try_for_each(known)?;
        // Beside folds, a seed that draws them is not a seed of the training, and keeps its name.
        let has_folds = names.iter().any(|name| ["fold", "cv_fold"].contains(&name.to_ascii_lowercase().as_str()));
        let seeds = names.iter().filter(|name| !has_folds || !Replication::draws_partition(name));
        let ranked = seeds.filter_map(|name| Some((seed_rank(name)?, name)));
        let seed = wishes.seed.clone().or_else(|| ranked.min().map(|(_, name)| name.clone()));
        let (axes, left_out) = split(&params, &names, seed.as_ref(), wishes);
        for map in &mut params {
            map.retain(|name, _| !left_out.contains(name));
        }
        if !left_out.is_empty() && wishes.axes.is_empty() {
            let names: Vec<String> = left_out.iter().map(|name| format!("`{name}`")).collect();
            let differ = if names.len() == 1 { "differs" } else { "differ" };
            notices.push(format!(
                "{} {differ} in every run and {} not used as an axis: `--axes` names other axes",
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" }
            ));
        }
        let axes = named(&axes, seed.as_ref());
        Ok(Self { axes, metrics, better: better.clone(), notices, params, references })
    }

    /// The axes that distinguish configurations: all but the seed.
    pub fn configuration(&self) -> impl Iterator<Item = &(String, String)> {
        self.axes.iter().filter(|(_, axis)| axis != SEED)
    }

    /// Number of different configurations.
    pub fn configurations(&self) -> usize {
        let of_run = |params: &BTreeMap<String, Value>| -> Vec<Option<String>> {
            self.configuration().map(|(name, _)| params.get(name).map(Value::to_string)).collect()
        };
        self.params.iter().map(of_run).collect::<BTreeSet<_>>().len()
    }

    /// The parameter with the seed, if it varies.
    pub fn seed(&self) -> Option<&str> {
        self.axes.iter().find(|(_, axis)| axis == SEED).map(|(name, _)| name.as_str())
    }

    /// The better direction of a metric: from the store, else implied by its name.
    pub fn better(&self, metric: &str) -> Option<Better> {
        self.better.get(metric).copied().or_else(|| Better::of_name(metric))
    }

    /// The recipe with the runs. `about` is their number and source, in words.
    pub fn runs_recipe(&self, kind: &str, name: &str, about: &str) -> String {
        let mut out = format!("# {}.\n# Each `sweep import` writes this file anew.\n", clean(about));
        let _ = write!(
            out,
            "name: {name}-runs\n\nsteps:\n  {STEP}:\n    uses: imported\n    replicates: {{ {RUN}: repeat }}\n"
        );
        let _ = write!(out, "    with:\n      from: {kind}\n      params:\n");
        let axes: BTreeMap<&str, &str> = self.axes.iter().map(|(name, axis)| (name.as_str(), axis.as_str())).collect();
        let constants: BTreeMap<&String, &Value> = self.params.iter().flatten().collect();
        for (name, value) in &constants {
            let value = match axes.get(name.as_str()) {
                Some(axis) => format!("${{{{ matrix.{axis} }}}}"),
                None => yaml(value),
            };
            let _ = writeln!(out, "        {}: {value}", scalar::text(name));
        }
        if constants.is_empty() {
            out.truncate(out.len() - "      params:\n".len());
        }
        out.push_str("    matrix:\n      include:\n");
        for (params, reference) in self.params.iter().zip(&self.references) {
            let values =
                self.axes.iter().filter_map(|(name, axis)| Some(format!("{axis}: {}", yaml(params.get(name)?))));
            let run = std::iter::once(format!("{RUN}: {}", scalar::text(reference)));
            let _ = writeln!(out, "        - {{ {} }}", values.chain(run).collect::<Vec<_>>().join(", "));
        }
        out
    }

    /// The recipe of the study, which extends the recipe of the runs; `file` is its name.
    pub fn recipe(&self, name: &str, file: &str, runs_file: &str) -> String {
        let metric = self.metrics.first().map_or("", String::as_str);
        // A line break in a name would end the comment, and the rest of the name would be a part of the recipe.
        let quoted = crate::format::quoted(&clean(file));
        let by = crate::format::quoted(&clean(metric));
        let better = if self.better(metric).is_some() { "" } else { " --direction min" };
        let mut out = format!(
            "# A study of imported runs, which are in {}. A further import leaves this file as it is.\n#\n\
             #   sweep report {quoted}    shows the table\n\
             #   sweep best {quoted} --by {by}{better}    ranks the configurations\n\
             name: {name}\nextends: {}\n\ntables:\n  results:\n    from: {STEP}\n",
            clean(runs_file),
            scalar::text(runs_file)
        );
        let rows: Vec<&str> = self.configuration().map(|(_, axis)| axis.as_str()).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "    rows: [{}]", rows.join(", "));
        }
        let cells: Vec<String> = self.metrics.iter().map(|metric| scalar::text(metric)).collect();
        let _ = writeln!(out, "    cells: [{}]", cells.join(", "));
        let word = |better: Better| if better == Better::Less { "min" } else { "max" };
        let best = self.metrics.iter().filter_map(|metric| Some((metric, *self.better.get(metric)?)));
        let best: Vec<String> =
            best.map(|(metric, better)| format!("{}: {}", scalar::text(metric), word(better))).collect();
        if !best.is_empty() {
            let _ = writeln!(out, "    best: {{ {} }}", best.join(", "));
        }
        out
    }
}

/// A value in one line of YAML.
fn yaml(value: &Value) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    scalar::yaml(&json).unwrap_or_else(|| scalar::text(&value.to_string()))
}

/// Gives runs with equal identifiers different ones.
fn unique_ids(runs: &mut [Run], notices: &mut Vec<String>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut renamed = 0;
    for run in runs {
        let copy = seen.entry(run.id.clone()).and_modify(|copy| *copy += 1).or_insert(1);
        if *copy > 1 {
            run.id = format!("{}-{copy}", run.id);
            renamed += 1;
        }
    }
    if renamed > 0 {
        notices.push(format!("{} the identifier of another one, and a number was added", having(renamed, "run")));
    }
}

fn having(number: usize, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "has" } else { "have" })
}

/// Returns `text` in a form that a recipe can contain, and true if that form differs.
fn readable(text: &str) -> (String, bool) {
    const DIGITS: usize = 10;
    let changed = text.replace("${{", "$ {{");
    let is_long = changed.chars().count() > MAX_VALUE_LENGTH;
    if !is_long {
        let is_other = changed != text;
        return (changed, is_other);
    }
    let digest = &blake3::hash(text.as_bytes()).to_hex()[..DIGITS];
    let begin: String = changed.chars().take(MAX_VALUE_LENGTH - DIGITS - 1).collect();
    (format!("{begin}…{digest}"), true)
}

/// Shortens long values.
fn shorten(params: &mut [BTreeMap<String, Value>], notices: &mut Vec<String>) {
    let mut changed = BTreeSet::new();
    for map in params {
        for (name, value) in map {
            if let Value::Text(text) = value {
                let (other, is_other) = readable(text);
                if is_other {
                    changed.insert(name.clone());
                    *value = Value::Text(other);
                }
            }
        }
    }
    if !changed.is_empty() {
        let names: Vec<String> = changed.into_iter().map(|name| format!("`{name}`")).collect();
        notices.push(format!(
            "values of {} have more than {MAX_VALUE_LENGTH} characters or an expression, and are written otherwise",
            names.join(", ")
        ));
    }
}

/// Converts floats to the equal integers that a parameter has in other runs, because exports write `1` as `1.0` where a column has a
/// missing value.
fn one_kind_of_number(params: &mut [BTreeMap<String, Value>]) {
    let read = |name: &String, value: &Value| (name.clone(), value.to_string());
    let ints = params.iter().flatten().filter(|(_, value)| matches!(value, Value::Int(_)));
    let ints: BTreeMap<(String, String), Value> =
        ints.map(|(name, value)| (read(name, value), value.clone())).collect();
    for (name, value) in params.iter_mut().flatten() {
        if let (Value::Float(_), Some(int)) = (&*value, ints.get(&read(name, value))) {
            *value = int.clone();
        }
    }
}

/// Converts all values of a parameter to texts if a number and a text among them read alike.
fn same_types(params: &mut [BTreeMap<String, Value>], notices: &mut Vec<String>) {
    let mut read: BTreeMap<&String, BTreeMap<String, Vec<&Value>>> = BTreeMap::new();
    for (name, value) in params.iter().flatten() {
        let alike = read.entry(name).or_default().entry(value.to_string()).or_default();
        if !alike.contains(&value) {
            alike.push(value);
        }
    }
    let mixed = read.into_iter().filter(|(_, texts)| texts.values().any(|values| values.len() > 1));
    let mixed: BTreeSet<String> = mixed.map(|(name, _)| name.clone()).collect();
    for (_, value) in params.iter_mut().flatten().filter(|(name, _)| mixed.contains(*name)) {
        *value = Value::Text(value.to_string());
    }
    if !mixed.is_empty() {
        let names: Vec<String> = mixed.into_iter().map(|name| format!("`{name}`")).collect();
        notices.push(format!("{} has numbers and equal texts: all of its values are texts", names.join(", ")));
    }
}

/// Splits parameters into axes and left-out ones: texts that differ in every run, such as paths of outputs, are left out. If nothing else
/// distinguishes the runs, such texts are axes, because a mean over different methods would be meaningless.
fn split(
    params: &[BTreeMap<String, Value>],
    names: &BTreeSet<String>,
    seed: Option<&String>,
    wishes: &Wishes,
) -> (Vec<String>, BTreeSet<String>) {
    const LEAST_RUNS: usize = 3;
    let (mut axes, mut left_out) = (Vec::new(), BTreeSet::new());
    for name in names {
        let values: Vec<Option<&Value>> = params.iter().map(|map| map.get(name)).collect();
        let varies = values.windows(2).any(|two| two[0] != two[1]);
        let is_wished = wishes.axes.contains(name) || seed == Some(name);
        if !varies && !is_wished {
            continue;
        }
        let texts: BTreeSet<&str> = values.iter().flatten().filter_map(|value| value.as_text()).collect();
        let is_identifier = params.len() >= LEAST_RUNS && texts.len() == params.len();
        let is_axis = if wishes.axes.is_empty() { !is_identifier } else { false };
        if is_wished || is_axis {
            axes.push(name.clone());
        } else {
            left_out.insert(name.clone());
        }
    }
    if axes.is_empty() && wishes.axes.is_empty() {
        axes.extend(std::mem::take(&mut left_out));
    }
    (axes, left_out)
}

/// The parameters with names of axes, the seed last.
fn named(params: &[String], seed: Option<&String>) -> Vec<(String, String)> {
    let mut names: BTreeSet<String> = TAKEN.iter().map(|name| (*name).to_owned()).collect();
    names.insert(SEED.to_owned());
    let mut axes = Vec::new();
    for name in params.iter().filter(|name| seed != Some(name)) {
        let valid = |char: char| if char.is_ascii_alphanumeric() || "_-".contains(char) { char } else { '_' };
        let mut axis: String = name.chars().take(MAX_VALUE_LENGTH).map(valid).collect();
        if !is_name(&axis) {
            axis.insert(0, '_');
        }
        while !names.insert(axis.clone()) {
            axis.push('_');
        }
        axes.push((name.clone(), axis));
    }
    axes.extend(seed.filter(|seed| params.contains(seed)).map(|seed| (seed.clone(), SEED.to_owned())));
    axes
}

/// The metrics of the table: the requested metrics, else metrics with a usual name, followed by the metrics that most runs have.
fn metrics(runs: &[Run], wishes: &Wishes) -> Result<Vec<String>, ImportError> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for run in runs {
        // A run that has failed has no results; its metrics exist all the same.
        let weight = if run.end == End::Finished { 2 } else { 1 };
        for name in run.series.keys().filter(|name| !name.trim().is_empty() && !name.contains("${{")) {
            *counts.entry(name).or_default() += weight;
        }
    }
    for name in &wishes.metrics {
        if !counts.contains_key(name) {
            let help = suggest(name, "metrics", counts.keys().map(|name| name.as_str()));
            let help = help.unwrap_or_else(|| "the runs have no metrics".to_owned());
            return Err(ImportError::NoName { kind: "metric", name: name.clone(), help });
        }
    }
    if !wishes.metrics.is_empty() {
        return Ok(wishes.metrics.clone());
    }
    // Metrics of held-out data come before other metrics with a usual name.
    let rank = |name: &str| {
        let lower = name.to_ascii_lowercase();
        let is_held_out = ["val", "eval", "test"].iter().any(|word| lower.contains(word));
        (Better::of_name(name).is_none(), !is_held_out)
    };
    let mut ranked: Vec<(&String, usize)> = counts.into_iter().collect();
    ranked.sort_by(|(one, a), (other, b)| (rank(one), b, one).cmp(&(rank(other), a, other)));
    let metrics: Vec<String> = ranked.into_iter().map(|(name, _)| name.clone()).take(MAX_CELLS).collect();
    if metrics.is_empty() {
        return Err(ImportError::NoMetrics);
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_integers_and_floats_are_one_value() {
        let read = |texts: &[&str]| -> Vec<Value> {
            let value = |text: &&str| super::super::lenient::scalar(text).unwrap();
            let mut params: Vec<_> = texts.iter().map(|text| BTreeMap::from([("x".to_owned(), value(text))])).collect();
            one_kind_of_number(&mut params);
            params.into_iter().flat_map(BTreeMap::into_values).collect()
        };
        assert_eq!(
            read(&["1", "1.0", "2e0", "a"]),
            [Value::Int(1), Value::Int(1), Value::Int(2), Value::Text("a".into())]
        );
        assert_eq!(read(&["1", "1.0", "0.5"]), [Value::Int(1), Value::Int(1), Value::Float(0.5)]);
        assert_eq!(read(&["2", "1.0"]), [Value::Int(2), Value::Float(1.0)], "keys of other values stay");
    }
}
