//! The recipe of a command line with places for the values of axes.

use std::{fmt::Write as _, path::Path};

use sweep_base::SEED;

use super::{
    InitError, Wish, axis_values,
    forms::axis_name,
    inherited, remedy, scalar,
    settings::{SettingsFile, keys_like},
    text::{reads, results},
};
use crate::plan::is_script;

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

/// The command line that starts a program in a language whose parameters are not read, with a place for a value; `None` for any other file.
pub fn started_by(program: &Path) -> Option<String> {
    if program
        .file_name()
        .is_some_and(|name| ["GNUmakefile", "Makefile", "makefile"].iter().any(|known| name == *known))
    {
        return Some("make TARGET lr={lr}".to_owned());
    }
    let extension = program.extension()?.to_str()?;
    let (_, starter) = OTHER_LANGUAGES.iter().find(|(candidate, _)| *candidate == extension)?;
    Some(match starter {
        Some(starter) => format!("{starter} {} --lr {{lr}}", program.display()),
        None => format!("./{} --lr {{lr}}", program.file_stem()?.display()),
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
    let settings = if open_axes.is_empty() && !needs_seed { None } else { SettingsFile::of(argv, folder, &open_axes) };
    let seed_key = settings.as_ref().and_then(SettingsFile::seed).filter(|_| wish.seeds.is_some());
    let no_place = |name: &str, flag: String| {
        let keys = keys_like(argv, folder, name).map_or_else(String::new, |keys| format!(" ({keys})"));
        let example = remedy::with_place(name, argv, folder);
        InitError::NoPlace { name: name.to_owned(), flag, keys, example }
    };
    if let (Some(axis), None) = (open_axes.first(), &settings) {
        let is_missing = |axis: &&&str| SettingsFile::of(argv, folder, &[**axis]).is_none();
        let axis = open_axes.iter().find(is_missing).unwrap_or(axis);
        return Err(no_place(axis, format!("--axis {axis}")));
    }
    if !open_axes.is_empty() {
        SettingsFile::check_alone(argv, folder, &open_axes)?;
    }
    if needs_seed && seed_key.is_none() {
        return Err(no_place(SEED, "--seeds".to_owned()));
    }
    let axes: Vec<String> = wish.axes.iter().map(|(axis, _)| axis_name(axis)).collect();
    let mut out = format!("name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    if !axes.is_empty() {
        out.push_str("    matrix:\n");
        for (axis, (name, values)) in axes.iter().zip(&wish.axes) {
            let values = match settings.as_ref().filter(|_| open_axes.contains(&name.as_str())) {
                Some(settings) => {
                    let values = settings.typed(name, values);
                    settings.check(name, &values)?;
                    values
                }
                None => values.clone(),
            };
            let _ = writeln!(out, "      {}: {}", scalar::text(axis), axis_values::values(&values));
        }
    }
    let is_axis = axes.iter().any(|axis| axis == SEED);
    if (has_place(SEED) || seed_key.is_some()) && !is_axis {
        let _ = writeln!(out, "    seeds: {}", wish.seeds.unwrap_or(1));
    }
    let arguments = argv.iter().map(|argument| {
        let places = wish.axes.iter().map(|(axis, _)| axis.as_str()).chain([SEED]);
        let argument_text =
            places.fold(argument.clone(), |text, place| text.replace(&format!("{{{place}}}"), &value(place)));
        scalar::text(&argument_text)
    });
    let arguments: Vec<String> = arguments.collect();
    let _ = writeln!(out, "    with:\n      argv: [{}]", arguments.join(", "));
    let _ = writeln!(out, "      project: {}", scalar::text(&folder.to_string_lossy()));
    if let Some(settings) = &settings {
        let _ = writeln!(out, "      settings: {}", scalar::text(&settings.path().to_string_lossy()));
        let seed = seed_key.as_deref().map(|key| (key, SEED));
        let set = open_axes.iter().map(|axis| (*axis, *axis)).chain(seed);
        let set = set.map(|(key, axis)| format!("{}: {}", scalar::text(key), scalar::text(&value(axis))));
        let _ = writeln!(out, "      set: {{ {} }}", set.collect::<Vec<_>>().join(", "));
    }
    // A word such as `DATA={data}` sets a variable, too.
    let is_set = |name: &str| argv.iter().any(|argument| argument.starts_with(&format!("{name}=")));
    let scripts = argv.iter().filter(|argument| is_script(Path::new(argument))).map(|argument| folder.join(argument));
    let texts: Vec<String> = scripts.filter_map(|script| remedy::text_of(&script)).collect();
    out.push_str(&inherited::section(&texts.join("\n"), &is_set));
    reads(&mut out, wish);
    results(&mut out, name, &axes.iter().map(String::as_str).collect::<Vec<_>>(), wish);
    Ok(out)
}

/// The expression for the value of an axis: `${{ matrix.lr }}`.
fn value(axis: &str) -> String {
    format!("${{{{ matrix.{} }}}}", axis_name(axis))
}
