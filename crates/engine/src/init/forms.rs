//! The forms in which scripts take their parameters.

use super::{Found, Parameter, Source, Style};

/// Names of parameters that take the seed.
const SEEDS: [&str; 8] =
    ["seed", "random_seed", "random_state", "rng_seed", "manual_seed", "manualseed", "torch_seed", "seed_everything"];

/// Form of booleans on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Booleans {
    Flag,
    NoFlag,
    Value,
    Python,
}

impl Booleans {
    /// The word of the key `booleans`; `None` for the default.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Flag => None,
            Self::NoFlag => Some("no-flag"),
            Self::Value => Some("value"),
            Self::Python => Some("python"),
        }
    }
}

/// The place where a recipe has the value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// `params`.
    Params,
    /// `env`.
    Env,
    /// `argv`, after these words. The last one is joined with the value if it ends with `: `.
    Argv(Vec<String>),
}

/// The place of a parameter with a name.
pub(super) fn place(source: Source, parameter: &Parameter) -> Place {
    match source {
        Source::Environment => Place::Env,
        Source::Papermill if parameter.style == Style::Value => {
            Place::Argv(vec!["-p".to_owned(), parameter.name.clone()])
        }
        // Papermill reads other values of `-p` as texts.
        Source::Papermill => Place::Argv(vec!["-y".to_owned(), format!("{}: ", parameter.name)]),
        _ if parameter.style == Style::Short => Place::Argv(vec![parameter.option.clone()]),
        _ => Place::Params,
    }
}

/// Returns the usual name of `source`; empty if it has no name.
pub(super) fn origin(source: Source) -> &'static str {
    match source {
        Source::Argparse => "argparse",
        Source::Click => "click",
        Source::Hydra => "Hydra",
        Source::Tyro => "tyro",
        Source::Sweep => "`sweep.params`",
        Source::Configurator => "its global variables",
        Source::Optparse => "optparse",
        Source::Docopt => "docopt",
        Source::Fire => "Fire",
        Source::Absl => "absl",
        Source::Omegaconf => "OmegaConf",
        Source::Draccus => "draccus",
        Source::Pydantic => "pydantic",
        Source::Jsonargparse => "jsonargparse",
        Source::Lightning => "the command line of Lightning",
        Source::Environment => "its environment variables",
        Source::Papermill => "the cell with the tag `parameters`",
        Source::Options | Source::Equals => "its options",
        Source::Getopts => "getopts",
        Source::Places => "its arguments",
        Source::None | Source::Broken => "",
    }
}

/// True if a script takes parameters as `"${{ flags }}"` writes them.
pub(super) fn uses_flags(source: Source) -> bool {
    use Source as S;
    !matches!(source, S::Sweep | S::Environment | S::Papermill | S::Getopts | S::Places | S::None | S::Broken)
}

/// The word of the key `flags` for a script of which these parameters have values; `None` for the default.
pub(super) fn flags(source: Source, given: &[&Parameter]) -> Option<&'static str> {
    use Source as S;
    if let Some(form) = given.iter().find_map(|parameter| form_of_list(parameter.style)) {
        return Some(form);
    }
    match source {
        S::Hydra | S::Omegaconf => Some("hydra"),
        S::Configurator | S::Fire | S::Absl | S::Draccus | S::Pydantic | S::Jsonargparse | S::Lightning | S::Equals => {
            Some("equals")
        }
        _ => None,
    }
}

/// The word of the key `flags` that a list of this style needs; `None` for any other parameter.
fn form_of_list(style: Style) -> Option<&'static str> {
    match style {
        Style::Commas => Some("commas"),
        Style::Repeat => Some("repeat"),
        _ => None,
    }
}

/// The first parameter whose list has another form than the list of one before it.
pub(super) fn other_list<'a>(given: &[&'a Parameter]) -> Option<&'a Parameter> {
    let mut lists =
        given.iter().filter(|parameter| matches!(parameter.style, Style::List | Style::Commas | Style::Repeat));
    let first = lists.next()?;
    lists.find(|list| list.style != first.style).copied()
}

/// Returns true if `true` and `false` reach a script unchanged, regardless of `booleans`.
pub(super) fn has_types(source: Source) -> bool {
    use Source as S;
    matches!(source, S::Hydra | S::Omegaconf | S::Sweep | S::Environment | S::Papermill)
}

/// True if the values `true` and `false` of a parameter reach the script in this form.
pub(super) fn suits(parameter: &Parameter, booleans: Booleans) -> bool {
    match parameter.style {
        Style::Value | Style::List | Style::Commas | Style::Repeat | Style::Position | Style::Short => true,
        // With the default `true`, no flag at all means `true`.
        Style::Pair => booleans == Booleans::NoFlag || parameter.default.as_bool() != Some(true),
        Style::Flag => booleans == Booleans::Flag,
        Style::Truth => booleans == Booleans::Value,
        Style::Python => booleans == Booleans::Python,
        Style::Other => false,
    }
}

/// The parameters with names; those without are part of `argv`.
pub(super) fn named(found: &Found) -> Vec<Parameter> {
    found.parameters.iter().filter(|parameter| parameter.style != Style::Position).cloned().collect()
}

/// The name of the axis of a parameter: `opt_lr` for `opt.lr`, `server_site` for `server/site`, `experiment` for `+experiment`.
pub(super) fn axis_name(parameter: &str) -> String {
    let valid = |char: char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' };
    parameter.trim_start_matches(['+', '~']).chars().map(valid).collect()
}

/// True for a parameter that takes the seed.
pub(super) fn is_seed(parameter: &Parameter) -> bool {
    let is_single = matches!(parameter.style, Style::Value | Style::Short | Style::Position);
    is_single && is_seed_name(&parameter.name)
}

/// True for the name of a seed.
pub(super) fn is_seed_name(name: &str) -> bool {
    seed_rank(name).is_some()
}

/// Returns how usual `name` is for a seed, 0 for the most usual one; `None` if it is not the name of a seed. Compound names
/// such as `train_seed` rank last.
pub(crate) fn seed_rank(name: &str) -> Option<usize> {
    let leaf = name.rsplit('.').next().unwrap_or_default().replace('-', "_");
    let is_compound = leaf.ends_with("Seed");
    let leaf = leaf.to_ascii_lowercase();
    let is_compound = is_compound || leaf.ends_with("_seed");
    SEEDS.iter().position(|seed| *seed == leaf).or_else(|| is_compound.then_some(SEEDS.len()))
}

/// The form that suits all booleans of a script.
pub(super) fn booleans(parameters: &[&Parameter]) -> Booleans {
    let has_style = |style| parameters.iter().any(|parameter| parameter.style == style);
    let is_paired = |parameter: &&Parameter| parameter.negative == negated(&parameter.name);
    match (has_style(Style::Flag), has_style(Style::Pair), has_style(Style::Truth), has_style(Style::Python)) {
        (false, false, true, false) => Booleans::Value,
        (false, false, false, true) => Booleans::Python,
        (_, true, false, false)
            if !has_style(Style::Flag)
                && parameters.iter().filter(|parameter| parameter.style == Style::Pair).all(is_paired) =>
        {
            Booleans::NoFlag
        }
        _ => Booleans::Flag,
    }
}

/// The name that `booleans: no-flag` gives to the opposite of a flag.
fn negated(name: &str) -> String {
    let leaf = name.rfind('.').map_or(0, |dot| dot + 1);
    format!("{}no-{}", &name[..leaf], &name[leaf..])
}
