//! The files that an extension touches, as ARCHITECTURE.md says: how to add a task, a pruning method, a batch system.

use std::{io, path::Path};

use sweep_job::for_each_task;

/// Every source file of the workspace with its text, tests and benchmarks left out. Paths begin at the workspace.
fn sources() -> io::Result<Vec<(String, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![root.join("src")];
    for package in fs_err::read_dir(root.join("crates"))? {
        open.push(package?.path().join("src"));
    }
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().into_owned();
                let text = fs_err::read_to_string(&path)?;
                found.push((name, text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The files that name `word`, a whole word.
fn naming(word: &str) -> Vec<String> {
    let part = |char: char| char.is_alphanumeric() || char == '_';
    let code = |text: &str| -> String {
        text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
    };
    let named = |text: &str| code(text).split(|char| !part(char)).any(|found| found == word);
    sources()
        .expect("the sources can be read")
        .into_iter()
        .filter(|(_, text)| named(text))
        .map(|(file, _)| file)
        .collect()
}

#[test]
fn a_task_is_two_files_and_a_line_of_the_list() {
    let expected = ["crates/job/src/tasks/eval.rs", "crates/job/src/tasks/mod.rs", "crates/lab/src/tasks/eval.rs"];
    assert_eq!(naming("Eval"), expected);
    let expected = ["crates/job/src/tasks/mock.rs", "crates/job/src/tasks/mod.rs", "crates/worker/src/worker/mock.rs"];
    assert_eq!(naming("Mock"), expected);
}

#[test]
fn nothing_but_the_list_tells_tasks_apart() {
    macro_rules! variants {
        ($($place:ident $task:ident;)+) => { [$(concat!("Task::", stringify!($task))),+] };
    }
    for variant in for_each_task!(variants) {
        let part = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
        let named = |text: &str| text.split(|char| !part(char)).any(|found| found == variant);
        let files: Vec<String> = sources()
            .expect("the sources can be read")
            .into_iter()
            .filter(|(_, text)| named(text))
            .map(|(file, _)| file)
            .collect();
        assert!(files.is_empty(), "{variant}: {files:?}");
    }
}

#[test]
fn a_pruning_method_is_two_files_and_the_kernels() {
    let expected = [
        "crates/cpu-kernels/src/selection/formula.rs",
        "crates/gpu-kernels/src/formula.rs",
        "crates/job/src/tasks/prune.rs",
        "crates/lab/src/prune/score.rs",
    ];
    assert_eq!(naming("Bitter6"), expected);
}

#[test]
fn a_batch_system_is_its_folder_its_settings_and_two_places() {
    for (system, own, settings) in
        [("Slurm", "slurm", "slurm"), ("Ray", "ray", "ray"), ("CommandTemplates", "templates", "batch")]
    {
        let own = format!("crates/run/src/run/cluster/{own}/");
        let settings = format!("crates/recipe/src/recipe/lower/executor/{settings}");
        let mut outside = naming(system);
        outside.retain(|file| !file.starts_with(&own) && !file.starts_with(&settings));
        // The launchers of programs with several processes have names of their own.
        outside.retain(|file| file != "crates/worker/src/worker/command/launcher.rs");
        // Its line in the list of systems, and its arm where systems are opened.
        assert_eq!(
            outside,
            ["crates/recipe/src/recipe/lower/executor/mod.rs", "crates/run/src/run/cluster/mod.rs"],
            "{system}"
        );
    }
}
