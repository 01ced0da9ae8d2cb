//! Arguments behind `--` that spell a parameter of the script in another way: `--lr_rate`, `-lr-rate`, `/lr-rate` and `lr-rate=0.1`
//! for `--lr-rate`.

use super::{Found, Parameter, Script, Style, forms};

/// The misspelled arguments, each with the flag of the parameter that it resembles. `found` lacks the parameters that arguments set
/// already.
pub fn misspelled(script: &Script, found: &Found) -> Vec<(String, String)> {
    let words = script.arguments.iter().filter_map(|argument| {
        let name = argument.split('=').next().unwrap_or_default();
        let plain = name.trim_start_matches(['-', '+', '/']);
        let is_option = plain.len() < name.len() || argument.contains('=');
        let is_name = is_option && plain.starts_with(|char: char| char.is_ascii_alphabetic());
        let parameter =
            found.parameters.iter().find(|parameter| is_name && letters(&parameter.name) == letters(plain))?;
        let word = word(found, parameter)?;
        (word.trim_end_matches('=') != name).then(|| (argument.clone(), word))
    });
    words.collect()
}

/// A name reduced to its letters and digits in lowercase, in which spellings agree.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// The flag of a parameter on the command line; `None` for a parameter without one.
fn word(found: &Found, parameter: &Parameter) -> Option<String> {
    match parameter.style {
        Style::Short => Some(parameter.option.clone()),
        Style::Position | Style::Other => None,
        _ if !forms::uses_flags(found.source) => None,
        _ if forms::flags(found.source, &[parameter]) == Some("hydra") => Some(format!("{}=", parameter.name)),
        _ => Some(format!("--{}", parameter.name)),
    }
}
