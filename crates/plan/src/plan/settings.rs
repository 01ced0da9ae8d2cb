//! The keys of `set`, compared with those of the file of settings.

use std::{collections::BTreeMap, path::Path, rc::Rc};

use sweep_base::settings::{Settings, SettingsError};
use sweep_job::{Group as _, Part, Values, tasks::Command};

use super::build::Builder;
use crate::recipe::{Problem, Span, Step, suggest};
use crate::record;

/// The parameter with the values of the copy.
const SET: &str = "set";

impl Builder<'_> {
    /// Reports a value of `set` that no copy of the file of settings has. `place` is that of `set`.
    pub(super) fn check_settings(&mut self, step: &Step, values: &Values, place: Span) {
        let Some(command) = Command::from_values(&record::preview(values)) else { return };
        let Some(file) = command.settings.and_then(|file| file.0.to_str().map(str::to_owned)) else { return };
        // Files of needed jobs do not exist yet, and those of another machine's project are not here.
        if record::is_open(&file) || self.jobs.digests.is_locked() {
            return;
        }
        let read = || Settings::read(Path::new(&file)).map(Rc::new).map_err(|error| error.to_string());
        let settings = self.jobs.settings.entry(file.clone()).or_insert_with(read).clone();
        let (key, message, help) = match &settings {
            Err(message) => (None, message.clone(), None),
            Ok(settings) => {
                let with = |(key, value): (&String, &sweep_job::Value)| {
                    let one = BTreeMap::from([(key.clone(), value.clone())]);
                    settings.with(&one).err().map(|error| (key.clone(), error))
                };
                let Some((key, error)) = command.set.iter().find_map(with) else { return };
                let help = match &error {
                    SettingsError::NoKey(name) => suggest(name, "its keys", settings.keys().iter().map(String::as_str)),
                    _ => None,
                };
                (Some(key), error.to_string(), help)
            }
        };
        let template = step.with.iter().find(|(name, _)| name.value == SET).map(|(_, template)| template);
        let part = key.and_then(|key| template?.part(&Part::Key(key)));
        let span = part.map_or(place, |part| part.span);
        let message = format!("`{file}` in step `{}`: {message}", step.name.value);
        let problem = Problem::new(&self.recipe.sources, span, message, "cannot be set").maybe_help(help);
        self.problems.push(span, problem);
    }
}
