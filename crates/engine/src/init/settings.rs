//! Files of settings: an axis that names a key of a file among the arguments of a program gets its values in a copy of this file.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value as Json;

use super::{Found, Script, Style, Wish, forms, scalar};

/// Maximum size of a file, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// A file of settings among the arguments.
pub(super) struct Settings {
    /// The place of the argument.
    at: usize,
    /// What the argument has before the path: `--config=`.
    before: String,
    values: Json,
}

impl Settings {
    /// The file that has the keys of these axes.
    pub(super) fn of(argv: &[String], folder: &Path, axes: &[&str]) -> Option<Self> {
        argv.iter().enumerate().find_map(|(at, argument)| {
            let (before, path) = match argument.split_once('=') {
                Some((name, path)) if name.starts_with('-') => (format!("{name}="), path),
                _ => (String::new(), argument.as_str()),
            };
            let values = read(&folder.join(path))?;
            axes.iter().all(|axis| has(&values, axis)).then_some(Self { at, before, values })
        })
    }

    /// The key of the seed: one without a path above all others.
    pub(super) fn seed(&self) -> Option<String> {
        let keys = self.values.as_object()?;
        keys.keys().find(|key| forms::is_seed_name(key)).cloned()
    }

    /// The settings as YAML in one line, in which keys have the values of axes. `None` if a setting cannot be written so.
    pub(super) fn yaml(&self, replaced: &BTreeMap<String, String>) -> Option<String> {
        flow(&self.values, "", replaced)
    }

    /// The command, which gets the copy in the place of the file.
    pub(super) fn command(&self, argv: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        let mut number = 0;
        for at in 0..argv.len() {
            if at == self.at {
                words.push(format!("{}\"$SWEEP_PARAMS\"", self.before));
            } else {
                number += 1;
                words.push(format!("\"${{{number}}}\""));
            }
        }
        let others = argv.iter().enumerate().filter(|(at, _)| *at != self.at).map(|(_, word)| word.clone());
        let shell = ["sh".to_owned(), "-c".to_owned(), format!("exec {}", words.join(" ")), "sh".to_owned()];
        shell.into_iter().chain(others).collect()
    }
}

/// The command line of a script that takes the axes from a file of settings: one of its arguments, or the default of an option.
pub fn by_settings(script: &Script, found: &Found, wish: &Wish) -> Option<Vec<String>> {
    let spelled = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let is_parameter = |axis: &str| found.parameters.iter().any(|one| spelled(&one.name) == spelled(axis));
    let axes: Vec<&str> = wish.axes.iter().map(|(axis, _)| axis.as_str()).collect();
    if axes.is_empty() || axes.iter().any(|axis| is_parameter(axis)) {
        return None;
    }
    let mut argv = script.argv();
    argv.extend(script.arguments.iter().cloned());
    if Settings::of(&argv, &script.folder, &axes).is_some() {
        return Some(argv);
    }
    let options = found.parameters.iter().filter(|one| one.style == Style::Value && one.default.is_string());
    options.filter_map(|one| Some((one, one.default.as_str()?))).find_map(|(one, path)| {
        let argv: Vec<String> = argv.iter().cloned().chain([format!("--{}={path}", one.name)]).collect();
        Settings::of(&argv, &script.folder, &axes).is_some().then_some(argv)
    })
}

/// The object in a file of YAML or JSON.
fn read(path: &Path) -> Option<Json> {
    let is_settings = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
    let is_small = is_settings && fs_err::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_SIZE);
    let text = if is_small { fs_err::read_to_string(path).ok()? } else { return None };
    serde_saphyr::from_str::<Json>(&text).ok().filter(Json::is_object)
}

/// True if the settings have a value at a path such as `model.lr`.
fn has(values: &Json, path: &str) -> bool {
    path.split('.').try_fold(values, |values, key| values.get(key)).is_some_and(|value| !value.is_object())
}

fn flow(value: &Json, path: &str, replaced: &BTreeMap<String, String>) -> Option<String> {
    if let Some(text) = replaced.get(path) {
        return Some(scalar::text(text));
    }
    let Json::Object(values) = value else { return scalar::yaml(value) };
    let inner = values.iter().map(|(key, value)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        Some(format!("{}: {}", scalar::text(key), flow(value, &path, replaced)?))
    });
    let inner: Vec<String> = inner.collect::<Option<_>>()?;
    Some(if inner.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", inner.join(", ")) })
}
