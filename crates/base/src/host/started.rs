//! The program that a `command` job starts, as this machine resolves it.

use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use sweep_job::{
    ParamType as _, Value, Values,
    tasks::{Shell, Texts},
};

/// Path of the program that a job's command starts: of a script, the first Python in it, or else the shell.
pub fn program(values: &Values, dir: &Path) -> Option<PathBuf> {
    let search = match values.get("env") {
        Some(Value::Map(env)) => env.get("PATH").and_then(|path| Some(OsString::from(path.as_text()?))),
        _ => None,
    };
    let search = search.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let find = |name: &str| {
        if name.contains('/') {
            return Some(dir.join(name)).filter(|path| is_program(path));
        }
        std::env::split_paths(&search).map(|folder| dir.join(folder).join(name)).find(|path| is_program(path))
    };
    if let Some(script) = values.get("run").and_then(Value::as_text) {
        let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
        let words = lines.flat_map(|line| line.split(|char: char| char.is_whitespace() || ";|&()\"'`".contains(char)));
        let shell_words: Option<Vec<String>> = values.get("shell").and_then(Texts::from_value).map(|shell| shell.0);
        let shell = || match Shell::of(script, shell_words.as_deref()) {
            Shell::Given(words) => find(words.first()?),
            Shell::Pipefail => find("bash").or_else(|| find("sh")),
            Shell::Plain => find("sh"),
        };
        return words.filter(|word| is_python(Path::new(word))).find_map(find).or_else(shell);
    }
    match values.get("argv") {
        Some(Value::List(argv)) => find(argv.first()?.as_text()?),
        _ => None,
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// `python`, `python3`, `python3.12`, `pypy3`.
pub fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn values(pairs: &[(&str, Value)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn executable(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_python_of_a_script_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        executable(&dir.join("bin/python3"));
        executable(&dir.join("bin/sh"));
        let path = text(&dir.join("bin").display().to_string());
        let env = Value::Map([("PATH".to_owned(), path)].into());
        let of = |run: &str| program(&values(&[("run", text(run)), ("env", env.clone())]), dir);
        assert_eq!(of("cd x\nCUDA=0 python3 train.py"), Some(dir.join("bin/python3")));
        assert_eq!(of("exec \"python3\" train.py; echo"), Some(dir.join("bin/python3")));
        assert_eq!(of("# python3\nmake"), Some(dir.join("bin/sh")));
        assert_eq!(of("python4 x"), Some(dir.join("bin/sh")), "not installed");
        let argv = Value::List(vec![text("bin/python3"), text("x.py")]);
        assert_eq!(program(&values(&[("argv", argv)]), dir), Some(dir.join("bin/python3")));
        assert_eq!(program(&Values::new(), dir), None);
    }
}
