//! Variables that a script reads, with the values that they have where `sweep` runs. Jobs inherit them, but only `env` is in a key.

use std::{collections::BTreeMap, fmt::Write as _, sync::LazyLock};

use regex::Regex;
use serde_json::Value as Json;

use super::{Found, Parameter, Source, regex, scalar};
use crate::format::is_secret;

/// Variables that belong to the machine, the user or a launcher: they are no settings of a program.
const OF_MACHINE: &str = "\
    CI COLUMNS DEBUG DISPLAY EDITOR GROUP_RANK HOME HOST HOSTNAME JOB_ID LANG LINES LOGNAME MPLBACKEND NODE_RANK \
    OLDPWD PATH PWD RANK SHELL TEMP TERM USER WORLD_SIZE";
/// Beginnings of the names of further ones.
const GROUPS_OF_MACHINE: &str = "\
    AWS_ AZURE_ COLAB_ CONDA_ CUDA_ CUDNN_ DATABRICKS_ DBUS_ GITHUB_ GLOO_ GOOGLE_ HF_ HIP_ JAX_ JUPYTER KAGGLE_ \
    KUBERNETES_ LC_ LD_ LOCAL_ MASTER_ MKL_ MLFLOW_ NCCL_ NEPTUNE_ NUMEXPR_ NVIDIA_ OMP_ OPENBLAS_ PBS_ PYTHON \
    ROCR_ SGE_ SLURM_ SSH_ SWEEP_ TF_ TMP TORCH TQDM_ TRANSFORMERS_ VIRTUAL_ENV WANDB_ XDG_ XLA_";

/// True for a variable that is no setting of a program.
fn is_of_machine(name: &str) -> bool {
    is_secret(name)
        || OF_MACHINE.split(' ').any(|own| own == name)
        || GROUPS_OF_MACHINE.split(' ').any(|start| name.starts_with(start))
}

/// Returns the value of a variable in the environment of `sweep`, which replaces the script's default. Values of secrets must not be in a
/// recipe.
pub(super) fn inherited(parameter: &Parameter) -> Option<Json> {
    let is_of_machine = parameter.default.is_null() && is_of_machine(&parameter.name) || is_secret(&parameter.name);
    if is_of_machine { None } else { value(&parameter.name) }
}

/// The variables that a script with another source of parameters reads, as a part of a recipe, with the values that they have where `sweep`
/// runs. `is_set` is true for variables that the command line or an axis sets.
pub(super) fn section(script: &str, is_set: &dyn Fn(&str) -> bool) -> String {
    static READ: LazyLock<Regex> = LazyLock::new(|| {
        regex(concat!(
            r#"(?:\benviron(?:\.get)?\s*[\[(]|\bgetenv\s*\(|\bENV\s*\[|\bget\(\s*ENV\s*,)\s*['"](?<name>\w+)['"]"#,
            r#"|\bprocess\.env\.(?<property>\w+)"#,
        ))
    });
    let names = READ.captures_iter(script).filter_map(|found| found.name("name").or_else(|| found.name("property")));
    let names = names.map(|name| name.as_str()).filter(|name| !is_of_machine(name) && !is_set(name));
    let values: BTreeMap<&str, String> = names.filter_map(|name| Some((name, scalar::yaml(&value(name)?)?))).collect();
    let mut section = String::new();
    if !values.is_empty() {
        section.push_str("      # Variables that the script reads, as where `sweep` ran.\n      env:\n");
    }
    for (name, value) in values {
        let _ = writeln!(section, "        {name}: {value}");
    }
    section
}

/// The value of a variable, which is not empty.
fn value(name: &str) -> Option<Json> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    // A number that has another form in a recipe stays a text.
    let number = serde_json::from_str(&text).ok().filter(Json::is_number);
    let written = number.as_ref().map(Json::to_string);
    let number = number.filter(|_| written.as_deref() == Some(text.as_str()));
    Some(number.unwrap_or(Json::String(text)))
}

impl Found {
    /// Replaces the defaults of variables that are set where `sweep` runs.
    pub(super) fn with_inherited(mut self) -> Self {
        if self.source == Source::Environment {
            for parameter in &mut self.parameters {
                if let Some(value) = inherited(parameter) {
                    parameter.default = value;
                }
            }
        }
        self
    }
}
