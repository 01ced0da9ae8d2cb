//! The recipe that measures the files of finished jobs with a command line.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use sweep_base::SEED;

use super::{
    InitError, Wish, scalar,
    text::{reads, results},
};

/// Finished jobs of a step, and the command line that measures their files.
pub struct Measurement {
    /// The recipe that they are of.
    pub recipe: PathBuf,
    /// The tables, figures and claims of that recipe, by their sections: the new recipe has its own.
    pub results: Vec<(&'static str, Vec<String>)>,
    /// The step.
    pub step: String,
    /// The axes of the step.
    pub axes: Vec<String>,
    /// The values of each job on the axes, as YAML.
    pub points: Vec<Vec<(String, String)>>,
    /// The names of the files that the jobs keep.
    pub files: BTreeSet<String>,
    /// The command line. `{NAME}` is replaced by the path of a kept file, or by the value of an axis.
    pub argv: Vec<String>,
    /// The folder that it runs in.
    pub folder: PathBuf,
}

impl Measurement {
    /// The text of the recipe, whose step has its `name`.
    ///
    /// # Errors
    /// The command line names no file that the jobs keep.
    pub fn text(&self, name: &str, wish: &Wish) -> Result<String, InitError> {
        let mut out = format!("name: {name}\nextends: {}\n\nsteps:\n", path(&self.recipe));
        let _ = writeln!(out, "  {name}:\n    needs: [{}]\n    uses: command", scalar::text(&self.step));
        out.push_str("    # The jobs that had a result when this was written.\n    matrix:\n      include:\n");
        for point in &self.points {
            let values = point.iter().map(|(axis, value)| format!("{}: {value}", scalar::text(axis)));
            let _ = writeln!(out, "        - {{ {} }}", values.collect::<Vec<_>>().join(", "));
        }
        let argv = self.argv.iter().map(|argument| scalar::text(&self.filled(argument)));
        let argv: Vec<String> = argv.collect();
        let place = |file: &String| self.argv.iter().any(|argument| argument.contains(&format!("{{{file}}}")));
        if !self.files.iter().any(place) {
            let files = self.files.iter().map(|file| format!("`{{{file}}}`")).collect::<Vec<_>>().join(", ");
            return Err(InitError::NoFile { step: self.step.clone(), files });
        }
        let _ = writeln!(out, "    with:\n      argv: [{}]\n      project: {}", argv.join(", "), path(&self.folder));
        reads(&mut out, wish);
        let mut result_text = String::new();
        // A row has the mean over the seeds.
        let is_row = |axis: &&str| *axis != SEED || self.axes.len() == 1;
        results(&mut result_text, name, &self.axes.iter().map(String::as_str).filter(is_row).collect::<Vec<_>>(), wish);
        for (section, names) in &self.results {
            let head = format!("\n{section}:\n");
            let null_lines: Vec<String> =
                names.iter().map(|name| format!("  {}: null\n", scalar::text(name))).collect();
            let null_lines = null_lines.concat();
            match result_text.find(&head) {
                Some(index) => result_text.insert_str(index + head.len(), &null_lines),
                None if null_lines.is_empty() => {}
                None => result_text.push_str(&(head + &null_lines)),
            }
        }
        Ok(out + &result_text)
    }

    /// An argument with expressions in its places.
    fn filled(&self, argument: &str) -> String {
        let files = self.files.iter().map(|file| (file, format!("${{{{ needs.{}.artifacts.{file} }}}}", self.step)));
        let axes = self.axes.iter().map(|axis| (axis, format!("${{{{ matrix.{axis} }}}}")));
        files.chain(axes).fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
    }
}

fn path(path: &Path) -> String {
    scalar::text(&path.to_string_lossy())
}
