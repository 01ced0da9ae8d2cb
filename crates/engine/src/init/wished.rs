//! The axes of a script that a person has named.

use super::{Found, InitError, Script, Source, Style, Wish, axis_values, forms, remedy, suggest::Axis};

/// Names of the types of texts: of Python, click, and absl.
const TEXT_TYPES: [&str; 3] = ["str", "string", "text"];

/// The axes that a person has named.
///
/// # Errors
/// The script has neither a parameter nor a place for an axis.
pub(super) fn wished(script: &Script, found: &Found, wish: &Wish) -> Result<Vec<Axis>, InitError> {
    let normal_form = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let axis = |(name, values): &(String, String)| {
        let exact_match = found.parameters.iter().find(|parameter| parameter.name == *name);
        let parameter = exact_match
            .or_else(|| found.parameters.iter().find(|candidate| normal_form(&candidate.name) == normal_form(name)))
            .or_else(|| found.parameters.iter().find(|candidate| candidate.spellings.contains(name)));
        let names = || found.parameters.iter().chain(&found.groups).map(|parameter| parameter.name.as_str());
        // The parameters that the arguments set are not among the others.
        let sets = |argument: &&String| {
            let option = argument.split('=').next().unwrap_or_default();
            (option.starts_with('-') || argument.contains('='))
                && normal_form(option.trim_start_matches(['-', '+'])) == normal_form(name)
        };
        let unknown_parameter = || match script.arguments.iter().find(sets) {
            Some(argument) => InitError::Twice { name: name.clone(), argument: argument.clone() },
            None => InitError::NoParameter {
                script: script.path.clone(),
                name: name.clone(),
                help: crate::recipe::suggest(name, "parameters", names()).map_or_else(
                    || by_command(script, name, values),
                    |known| known + &elsewhere(script, found, name, values),
                ),
            },
        };
        let Some(parameter) = parameter else {
            if script.has_place(name) {
                let (parameter, value) = (name.clone(), values.clone());
                return Ok(Axis { parameter, name: forms::axis_name(name), value, more: String::new() });
            }
            return Err(unknown_parameter());
        };
        let name = forms::axis_name(&parameter.name);
        // `"${{ flags }}"` writes booleans as flags, and nothing for null.
        let takes_text =
            matches!(parameter.style, Style::Value | Style::List | Style::Commas | Style::Repeat | Style::Short)
                && forms::uses_flags(found.source)
                && !forms::has_types(found.source);
        let takes_lists = !matches!(parameter.style, Style::Value | Style::Short);
        let value = if takes_text {
            axis_values::texts(values, takes_lists, TEXT_TYPES.contains(&parameter.kind.as_str()))
        } else {
            values.clone()
        };
        Ok(Axis { parameter: parameter.name.clone(), name, value, more: String::new() })
    };
    wish.axes.iter().map(axis).collect()
}

/// The way to vary an option that a script takes at another place than the others: argparse and click before the command, tyro behind
/// the choice of a class.
fn elsewhere(script: &Script, found: &Found, name: &str, values: &str) -> String {
    let (program, arguments) = (script.argv().join(" "), script.arguments.join(" "));
    let text = remedy::text_of(&script.folder.join(&script.path)).unwrap_or_default();
    let flag = remedy::flag_of(&text, name);
    let (about, words) = match (found.source, flag) {
        (Source::Click | Source::Argparse, Some(flag)) if !arguments.is_empty() => {
            ("an option before the command", format!("{program} {flag} {{{name}}} {arguments}"))
        }
        (Source::Tyro, flag) => {
            let chosen = if arguments.is_empty() { "CHOICE" } else { &arguments };
            let flag = flag.unwrap_or_else(|| format!("--{name}"));
            ("an option of a chosen class", format!("{program} {chosen} {flag} {{{name}}}"))
        }
        _ => return String::new(),
    };
    format!("; {about} needs its place in the command: `sweep run --axis {name}={values} -- {words}`")
}

/// The way to vary a parameter that a script does not show.
fn by_command(script: &Script, name: &str, values: &str) -> String {
    remedy::of_constant(script, name).unwrap_or_else(|| {
        let words = remedy::with_place(name, &script.argv(), &script.folder);
        format!("it shows none: write the command with a place for the value, as in `sweep run --axis {name}={values} -- {words}`")
    })
}
