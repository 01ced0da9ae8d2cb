//! The recipe of a command line with places for the values of axes.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use sweep_base::SEED;

use super::{
    InitError, Wish, axis_values, scalar,
    settings::Settings,
    text::{reads, results},
};

/// Extensions of programs in languages whose parameters are not read, with the command that starts one; without a command, it
/// is compiled first.
const OTHER_LANGUAGES: [(&str, Option<&str>); 17] = [
    ("awk", Some("awk -f")),
    ("c", None),
    ("cc", None),
    ("cpp", None),
    ("cu", None),
    ("f90", None),
    ("go", Some("go run")),
    ("java", Some("java")),
    ("js", Some("node")),
    ("lua", Some("lua")),
    ("m", Some("octave")),
    ("mjs", Some("node")),
    ("php", Some("php")),
    ("pl", Some("perl")),
    ("rb", Some("ruby")),
    ("rs", None),
    ("tcl", Some("tclsh")),
];

/// The command line that starts a program in a language whose parameters are not read; `None` for any other file.
pub fn started_by(program: &Path) -> Option<String> {
    let extension = program.extension()?.to_str()?;
    let (_, starter) = OTHER_LANGUAGES.iter().find(|(candidate, _)| *candidate == extension)?;
    Some(match starter {
        Some(starter) => format!("{starter} {}", program.display()),
        None => format!("./{}", program.file_stem()?.display()),
    })
}

/// A recipe called `name` for a command line that is run in `folder`. `{AXIS}` is replaced by the values of an axis, and `{seed}`
/// by the seed. Axes without a place are keys of a file of settings among the arguments.
///
/// # Errors
/// The command has no place for an axis of `wish`, or none for seeds.
pub fn command(argv: &[String], folder: &Path, name: &str, wish: &Wish) -> Result<String, InitError> {
    let has_place = |place: &str| argv.iter().any(|argument| argument.contains(&format!("{{{place}}}")));
    let open_axes: Vec<&str> =
        wish.axes.iter().map(|(axis, _)| axis.as_str()).filter(|axis| !has_place(axis)).collect();
    let needs_seed = wish.seeds.is_some() && !has_place(SEED);
    let settings = if open_axes.is_empty() && !needs_seed { None } else { Settings::of(argv, folder, &open_axes) };
    if let Some(settings) = &settings {
        settings.check(open_axes.first().map_or(SEED, |axis| axis))?;
    }
    let seed_key = settings.as_ref().and_then(Settings::seed).filter(|_| wish.seeds.is_some());
    if let (Some(axis), None) = (open_axes.first(), &settings) {
        return Err(InitError::NoPlace { name: (*axis).to_owned(), flag: format!("--axis {axis}") });
    }
    if needs_seed && seed_key.is_none() {
        return Err(InitError::NoPlace { name: SEED.to_owned(), flag: "--seeds".to_owned() });
    }
    let axes: Vec<String> = wish.axes.iter().map(|(axis, _)| axis.replace('.', "_")).collect();
    let mut out = format!("name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    if !axes.is_empty() {
        out.push_str("    matrix:\n");
        for (axis, (_, values)) in axes.iter().zip(&wish.axes) {
            let _ = writeln!(out, "      {}: {}", scalar::text(axis), axis_values::values(values));
        }
    }
    if has_place(SEED) || seed_key.is_some() {
        let _ = writeln!(out, "    seeds: {}", wish.seeds.unwrap_or(1));
    }
    let mut replacements: BTreeMap<String, String> =
        open_axes.iter().map(|axis| ((*axis).to_owned(), value(axis))).collect();
    replacements.extend(seed_key.map(|key| (key, value(SEED))));
    let settings_error = || InitError::Settings { name: open_axes.first().map_or(SEED, |axis| axis).to_owned() };
    let words = match &settings {
        Some(settings) => settings.command(argv, &replacements).ok_or_else(settings_error)?,
        None => argv.to_vec(),
    };
    let arguments = words.iter().map(|argument| {
        let places = wish.axes.iter().map(|(axis, _)| axis.as_str()).chain([SEED]);
        let argument_text =
            places.fold(argument.clone(), |text, place| text.replace(&format!("{{{place}}}"), &value(place)));
        scalar::text(&argument_text)
    });
    let arguments: Vec<String> = arguments.collect();
    let _ = writeln!(out, "    with:\n      argv: [{}]", arguments.join(", "));
    let _ = writeln!(out, "      project: {}", scalar::text(&folder.to_string_lossy()));
    if let Some(settings) = settings.filter(Settings::are_params) {
        let yaml = settings.yaml(&replacements).ok_or_else(settings_error)?;
        let _ = writeln!(
            out,
            "      # The settings; the program gets them as a file, in the place of its own.\n      params: {yaml}"
        );
    }
    reads(&mut out, wish);
    results(&mut out, name, &axes.iter().map(String::as_str).collect::<Vec<_>>(), wish);
    Ok(out)
}

/// The value of an axis in a job.
fn value(axis: &str) -> String {
    format!("${{{{ matrix.{} }}}}", axis.replace('.', "_"))
}
