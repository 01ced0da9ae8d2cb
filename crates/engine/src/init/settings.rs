//! Files of settings: an axis that names a key of a file among the arguments of a program gets its values in a copy of this file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::{Found, InitError, Script, Style, Wish, axis_values, forms};

/// Texts in place of a value of another kind, as in `batch_size: auto`.
const STAND_INS: [&str; 4] = ["auto", "default", "none", "null"];

/// A file of settings among the arguments of a program.
pub(super) struct SettingsFile {
    path: PathBuf,
    content: sweep_base::settings::Settings,
}

impl SettingsFile {
    /// The file that has the keys of these axes; of several, the first.
    pub(super) fn of(argv: &[String], folder: &Path, axes: &[&str]) -> Option<Self> {
        Self::all(argv, folder, axes).into_iter().next()
    }

    /// Refuses axes that are keys of several files, of which one may hide the others.
    pub(super) fn check_alone(argv: &[String], folder: &Path, axes: &[&str]) -> Result<(), InitError> {
        let paths: Vec<String> =
            Self::all(argv, folder, axes).iter().map(|file| format!("`{}`", file.path.display())).collect();
        match axes {
            [axis, ..] if paths.len() > 1 => {
                Err(InitError::SeveralSettings { axis: (*axis).to_owned(), files: paths.join(" and ") })
            }
            _ => Ok(()),
        }
    }

    fn all(argv: &[String], folder: &Path, axes: &[&str]) -> Vec<Self> {
        let files = argv.iter().filter_map(|argument| {
            let path = match argument.split_once('=') {
                Some((name, path)) if name.starts_with('-') => path,
                _ => argument.as_str(),
            };
            let path = folder.join(path);
            let content = sweep_base::settings::Settings::read(&path).ok()?;
            axes.iter().all(|axis| content.value(axis).is_some()).then_some(Self { path, content })
        });
        files.collect()
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The key of the seed, on the first level.
    pub(super) fn seed(&self) -> Option<String> {
        self.content.names().find(|key| forms::is_seed_name(key)).map(str::to_owned)
    }

    /// The values of an axis as they are typed, for the recipe: a text stays a text.
    pub(super) fn typed(&self, axis: &str, values: &str) -> String {
        match self.content.value(axis) {
            Some(Json::String(text)) if !STAND_INS.contains(&text.to_ascii_lowercase().as_str()) => {
                axis_values::all_texts(values)
            }
            Some(Json::Array(_)) => axis_values::lists(values),
            _ => values.to_owned(),
        }
    }

    /// Refuses values of an axis that the file cannot have.
    pub(super) fn check(&self, axis: &str, values: &str) -> Result<(), InitError> {
        let Ok(Json::Array(values)) = serde_saphyr::from_str(&axis_values::values(values)) else { return Ok(()) };
        values.into_iter().try_for_each(|value| {
            let Ok(value) = serde_json::from_value(value) else { return Ok(()) };
            let copy = self.content.with(&BTreeMap::from([(axis.to_owned(), value)]));
            copy.map(|_| ()).map_err(|error| InitError::Settings { file: self.path.clone(), reason: error.to_string() })
        })
    }
}

/// The keys of the files of settings among the arguments that are like a name.
pub(super) fn keys_like(argv: &[String], folder: &Path, name: &str) -> Option<String> {
    let keys = SettingsFile::of(argv, folder, &[])?.content.keys();
    crate::recipe::suggest(name, "its keys", keys.iter().map(String::as_str))
}

/// The command line of a script that takes the axes from a file of settings: one of its arguments, or the default of an option.
pub fn by_settings(script: &Script, found: &Found, wish: &Wish) -> Option<Vec<String>> {
    let normal_form = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let is_parameter =
        |axis: &str| found.parameters.iter().any(|parameter| normal_form(&parameter.name) == normal_form(axis));
    let axes: Vec<&str> = wish.axes.iter().map(|(axis, _)| axis.as_str()).collect();
    if axes.is_empty() || axes.iter().any(|axis| is_parameter(axis)) {
        return None;
    }
    let mut argv = script.argv();
    argv.extend(script.arguments.iter().cloned());
    if SettingsFile::of(&argv, &script.folder, &axes).is_some() {
        return Some(argv);
    }
    let options =
        found.parameters.iter().filter(|parameter| parameter.style == Style::Value && parameter.default.is_string());
    options.filter_map(|parameter| Some((parameter, parameter.default.as_str()?))).find_map(|(parameter, path)| {
        let argv: Vec<String> = argv.iter().cloned().chain([format!("--{}={path}", parameter.name)]).collect();
        SettingsFile::of(&argv, &script.folder, &axes).is_some().then_some(argv)
    })
}
