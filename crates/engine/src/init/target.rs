//! The target of a command: the file of a script, a module of a package, or a program that `pyproject.toml` names.

use std::{
    io::Write as _,
    path::{Component, Path, PathBuf},
};

use super::Start;

/// Largest file that is looked into, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// A module or a program of the project in the current folder.
#[derive(Debug)]
pub struct Target {
    /// How it is started.
    pub start: Start,
    /// The file that shows its parameters.
    pub file: PathBuf,
    /// The file of a program, which calls a function of the project. It is removed when this is dropped.
    _made: Option<tempfile::NamedTempFile>,
}

/// The module or the program that `name` is: `package.module`, a file of a package that imports others of it by relative names, or a
/// program of `pyproject.toml`. `None` for every other script.
pub fn target(name: &Path) -> Option<Target> {
    let of_module = |name: String, file: PathBuf| Target { start: Start::Module(name), file, _made: None };
    if name.is_file() {
        return Some(of_module(module_of(name)?, name.to_owned()));
    }
    let word = name.to_str().filter(|word| !word.contains(['/', '\\']))?;
    if let Some(file) = is_dotted(word).then(|| file_of(word)).flatten() {
        return Some(of_module(word.to_owned(), file));
    }
    let (module, function) = program(word)?;
    let first_name = function.split('.').next().unwrap_or_default();
    let text = format!("import sys\nfrom {module} import {first_name}\nsys.exit({function}())\n");
    let mut script = tempfile::Builder::new().suffix(".py").tempfile().ok()?;
    script.write_all(text.as_bytes()).ok()?;
    Some(Target { start: Start::Console(word.to_owned()), file: script.path().to_owned(), _made: Some(script) })
}

/// The name of the module of a file that Python cannot run by its path, because it imports by relative names.
fn module_of(file: &Path) -> Option<String> {
    let is_python = file.extension().is_some_and(|end| end == "py");
    let is_small = is_python && file.metadata().is_ok_and(|metadata| metadata.len() <= MAX_SIZE);
    let text = if is_small { fs_err::read(file).ok()? } else { return None };
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .find(|line| line.trim_start().strip_prefix("from ").is_some_and(|rest| rest.trim_start().starts_with('.')))?;
    let stem = file.with_extension("");
    let mut words = Vec::new();
    for part in stem.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(word) => words.push(word.to_str()?.to_owned()),
            _ => return None,
        }
    }
    let name = words.join(".");
    is_dotted(&name).then_some(name)
}

/// True for identifiers with dots between them.
fn is_dotted(name: &str) -> bool {
    name.contains('.') && name.split('.').all(is_identifier)
}

fn is_identifier(word: &str) -> bool {
    let is_first = |char: char| char.is_ascii_alphabetic() || char == '_';
    word.starts_with(is_first) && word.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// The file of a module below the current folder or its `src`.
fn file_of(module: &str) -> Option<PathBuf> {
    let path: PathBuf = module.split('.').collect();
    ["", "src"]
        .into_iter()
        .map(|root| Path::new(root).join(&path))
        .find_map(|path| [path.with_extension("py"), path.join("__main__.py")].into_iter().find(|file| file.is_file()))
}

/// The module and the function of a program that `pyproject.toml` names.
fn program(name: &str) -> Option<(String, String)> {
    let file = Path::new("pyproject.toml");
    let is_small = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SIZE);
    let text = if is_small { fs_err::read_to_string(file).ok()? } else { return None };
    let project: toml::Table = toml::from_str(&text).ok()?;
    let entry_in = |keys: &[&str]| {
        let first_value = project.get(*keys.first()?)?;
        keys[1..].iter().try_fold(first_value, |value, key| value.get(key))?.get(name)?.as_str()
    };
    let entry = entry_in(&["project", "scripts"]).or_else(|| entry_in(&["tool", "poetry", "scripts"]))?;
    let (module, function) = entry.split_once(':')?;
    let (module, function) = (module.trim(), function.split('[').next().unwrap_or_default().trim());
    let is_name = |name: &str| name.split('.').all(is_identifier);
    (is_name(module) && is_name(function)).then(|| (module.to_owned(), function.to_owned()))
}
