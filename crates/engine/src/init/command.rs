//! The recipe of a command line with places for the values of axes.

use std::{fmt::Write as _, path::Path};

use super::{
    InitError, Wish, scalar,
    text::{self, reads, results},
};

/// The place of the seed in a command line.
const SEED: &str = "seed";

/// A recipe called `name` for a command line that is run in `folder`. `{AXIS}` is replaced by the values of an axis, and `{seed}`
/// by the seed.
///
/// # Errors
/// The command has no place for an axis of `wish`, or none for seeds.
pub fn command(argv: &[String], folder: &Path, name: &str, wish: &Wish) -> Result<String, InitError> {
    let has = |place: &str| argv.iter().any(|argument| argument.contains(&format!("{{{place}}}")));
    if let Some((axis, _)) = wish.axes.iter().find(|(axis, _)| !has(axis)) {
        return Err(InitError::NoPlace { name: axis.clone(), flag: format!("--axis {axis}") });
    }
    if wish.seeds.is_some() && !has(SEED) {
        return Err(InitError::NoPlace { name: SEED.to_owned(), flag: "--seeds".to_owned() });
    }
    let axes: Vec<&str> = wish.axes.iter().map(|(axis, _)| axis.as_str()).collect();
    let mut out = format!("name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    if !axes.is_empty() {
        out.push_str("    matrix:\n");
        for (axis, values) in &wish.axes {
            let _ = writeln!(out, "      {}: {}", scalar::text(axis), text::values(values));
        }
    }
    if has(SEED) {
        let _ = writeln!(out, "    seeds: {}", wish.seeds.unwrap_or(1));
    }
    let filled = argv.iter().map(|argument| {
        let places = axes.iter().copied().chain([SEED]);
        let filled = places.fold(argument.clone(), |text, place| {
            text.replace(&format!("{{{place}}}"), &format!("${{{{ matrix.{place} }}}}"))
        });
        scalar::text(&filled)
    });
    let argv: Vec<String> = filled.collect();
    let _ = writeln!(out, "    with:\n      argv: [{}]", argv.join(", "));
    let _ = writeln!(out, "      project: {}", scalar::text(&folder.to_string_lossy()));
    reads(&mut out, wish);
    results(&mut out, name, &axes, wish);
    Ok(out)
}
