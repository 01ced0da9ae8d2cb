//! Programs that run in the recipe's folder because their command lines name files in it.

use std::path::{Path, PathBuf};

use sweep_job::{Value, Values};

/// Programs that read a file of the folder they are started in, with the names of that file.
const TOOLS: &[(&str, &[&str])] = &[
    ("cargo", &["Cargo.toml"]),
    ("cmake", &["CMakeLists.txt"]),
    ("go", &["go.mod"]),
    ("just", &["justfile", "Justfile"]),
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("mvn", &["pom.xml"]),
    ("ninja", &["build.ninja"]),
    ("npm", &["package.json"]),
    ("npx", &["package.json"]),
    ("pixi", &["pixi.toml", "pyproject.toml"]),
    ("poetry", &["pyproject.toml"]),
    ("uv", &["pyproject.toml"]),
];

/// True if a program with these parameters names a file of `folder`: a script, a module, a file of a tool such as
/// `make`, or data. `is_there` returns true for the files that the folder has.
pub(super) fn names_files_of(folder: &Path, values: &Values, is_there: &mut dyn FnMut(&Path) -> bool) -> bool {
    let texts = |name: &str| match values.get(name) {
        Some(Value::List(items)) => items.iter().filter_map(Value::as_text).collect(),
        Some(Value::Text(text)) => vec![text.as_str()],
        _ => Vec::new(),
    };
    let outputs = texts("outputs");
    let mut is_named = |words: &[&str]| {
        named(words).into_iter().any(|path| {
            let is_output = outputs.iter().any(|output| Path::new(output) == path);
            !is_output && is_there(&folder.join(path))
        })
    };
    let mut commands = texts("run").into_iter().flat_map(commands);
    is_named(&texts("argv")) || commands.any(|words| is_named(&words))
}

/// The commands of a shell script as words, without the files that output is redirected to.
fn commands(script: &str) -> Vec<Vec<&str>> {
    let mut commands = Vec::new();
    for part in script.split(['\n', ';', '&', '|', '(', ')']) {
        let mut words = Vec::new();
        let mut is_target = false;
        for word in part.split_whitespace() {
            let (arguments, target) =
                word.split_once('>').map_or((word, None), |(arguments, target)| (arguments, Some(target)));
            if !is_target {
                words.extend(
                    arguments.split('<').map(|word| word.trim_matches(['\'', '"'])).filter(|word| !word.is_empty()),
                );
            }
            is_target = target.is_some_and(|target| target.trim_start_matches(['>', '|']).is_empty());
        }
        commands.push(words);
    }
    commands
}

/// The relative paths of files that the words of a command could name.
fn named(words: &[&str]) -> Vec<PathBuf> {
    let is_assignment =
        |word: &&&str| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-') && !name.contains('/'));
    let program = words.iter().find(|word| !is_assignment(word)).copied().unwrap_or_default();
    let files = TOOLS.iter().filter(|(tool, _)| *tool == program).flat_map(|(_, files)| *files);
    let mut paths: Vec<PathBuf> = files.map(PathBuf::from).collect();
    for (word, module) in words.iter().zip(words.iter().skip(1)) {
        if *word == "-m" && is_module(module) {
            let path = PathBuf::from(module.replace('.', "/"));
            paths.extend([path.with_extension("py"), path.join("__main__.py")]);
        }
    }
    for word in words {
        let value = word.split_once('=').map(|(_, value)| value);
        paths.extend([Some(*word), value].into_iter().flatten().filter(|word| is_file(word)).map(PathBuf::from));
    }
    paths
}

fn is_module(word: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || char == '_');
    word.split('.').all(is_name)
}

/// True for a relative path that has a folder or an extension: any other word may be a file by accident.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    path.is_relative() && path.file_name().is_some() && (word.contains('/') || path.extension().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_name_files() {
        let files = [
            "train.py",
            "pkg/train.py",
            "tool/__main__.py",
            "conf/a.yaml",
            "data",
            "run.sh",
            "Makefile",
            "log.txt",
            "out.pt",
        ];
        let folder = Path::new("/study");
        let check = |name: &str, value: Value| {
            let outputs = Value::List(vec![Value::Text("out.pt".into())]);
            let values = Values::from([(name.to_owned(), value), ("outputs".to_owned(), outputs)]);
            names_files_of(folder, &values, &mut |path| files.iter().any(|name| folder.join(name) == path))
        };
        let argv =
            |line: &str| check("argv", Value::List(line.split(' ').map(|word| Value::Text(word.into())).collect()));
        for line in [
            "python3 -u train.py --lr 0.1",
            "python3 -m pkg.train",
            "torchrun --nproc 2 -m tool",
            "./run.sh",
            "make all",
            "app --config=conf/a.yaml",
            "uv run train.py",
            "wc -l ./data",
        ] {
            assert!(argv(line), "{line}");
        }
        for line in
            ["echo data", "python3 -m json.tool", "app out.pt", "/bin/true", "cargo run", "app 0.1 a.b", "make_it x"]
        {
            assert!(!argv(line), "{line}");
        }
        let run = |text: &str| check("run", Value::Text(text.into()));
        assert!(
            run("cd .\npython3 train.py > log.txt")
                && run("cat 'conf/a.yaml'|wc")
                && run("A=1 make x")
                && run("wc <conf/a.yaml")
        );
        assert!(!run("echo 1 > log.txt; echo 2 >>log.txt; app > out.pt 2>&1") && !run("echo data Makefile"));
    }
}
