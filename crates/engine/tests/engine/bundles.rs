//! Bundles: a study that others can check.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    messages::{Transcript, settled},
    sandbox::{Ended, Sandbox, sealed},
};

const BASE: &str = "
about: Whether two is more than one
cite: { title: On numbers, year: 1900 }
steps:
  first: { uses: mock, matrix: { value: [1, 2] }, seeds: 3 }
  second:
    needs: [first]
    uses: command
    matrix: { value: [1, 2] }
    with: { run: 'cat in.txt; echo total=$VALUE', inputs: [../data/in.txt], env: { VALUE: '${{ matrix.value }}' } }
tables:
  values: { from: first, rows: [value], cells: [value] }
figures:
  values: { from: first, kind: bar, x: value, y: value }
claims:
  more:
    ratio: { metric: value, of: { step: first, value: 2 }, to: { step: first, value: 1 } }
    expect: { at_least: 1.5 }
";

/// A sandbox with a finished study in three files, and its bundle.
fn bundled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("recipes/base.yaml", BASE);
    sandbox.write("recipes/study.yaml", "extends: base.yaml\nname: study\n");
    sandbox.write("data/in.txt", "input\n");
    let run = sandbox.sweep(&["run", "recipes/study.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let ended = sandbox.sweep(&["bundle", "recipes/study.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox
}

fn verify(sandbox: &Sandbox, args: &[&str]) -> Ended {
    sandbox.sweep(&[&["verify", "study.sweep.tar"], args].concat())
}

/// Changes the files of a bundle, and their digests with them if `honest`.
fn change(sandbox: &Sandbox, honest: bool, mut edit: impl FnMut(&str, &mut String)) {
    let path = sandbox.path("study.sweep.tar");
    let mut archive = tar::Archive::new(fs_err::File::open(&path).unwrap());
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (name, mut content) = (entry.path().unwrap().into_owned(), Vec::new());
        std::io::copy(&mut entry, &mut content).unwrap();
        files.push((name, content));
    }
    let (contents, files) = files.split_last_mut().unwrap();
    let mut listed: serde_json::Value = serde_json::from_slice(&contents.1).unwrap();
    for (name, content) in files.iter_mut() {
        let Ok(mut text) = String::from_utf8(content.clone()) else { continue };
        let name = name.strip_prefix("sweep-bundle").unwrap().to_str().unwrap().to_owned();
        edit(&name, &mut text);
        *content = text.into_bytes();
        if honest {
            let sum = blake3::hash(content).to_hex().to_string();
            listed["files"][&name] = serde_json::json!({ "bytes": content.len(), "blake3": sum });
        }
    }
    contents.1 = listed.to_string().into_bytes();
    let mut out = tar::Builder::new(fs_err::File::create(&path).unwrap());
    for (name, content) in files.iter().chain([&*contents]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    out.into_inner().unwrap().flush().unwrap();
}

/// Changes a measured number of a record, but not its identity. The digest is valid for the forged record.
fn measured(record: &mut String, then: &str, now: &str) {
    let (before, outcome) = record.split_once("\"outcome\"").unwrap();
    let changed = outcome.replace(&format!("\"value\": {then}"), &format!("\"value\": {now}"));
    assert_ne!(outcome, changed, "there is nothing to change");
    *record = sealed(&format!("{before}\"outcome\"{changed}"));
}

#[test]
fn a_bundle_is_verified_where_nothing_else_is() {
    let here = bundled();
    let first = fs_err::read(here.path("study.sweep.tar")).unwrap();
    assert_eq!(here.sweep(&["bundle", "recipes/study.yaml"]).code, Some(0));
    assert_eq!(first, fs_err::read(here.path("study.sweep.tar")).unwrap(), "the same results, the same bundle");

    let there = Sandbox::new();
    fs_err::copy(here.path("study.sweep.tar"), there.path("study.sweep.tar")).unwrap();
    drop(here);
    let ended = verify(&there, &[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_message!(ended.stdout);
    assert!(!Path::new(&there.path("results")).exists(), "nothing is left behind");
}

#[test]
fn what_was_changed_is_found() {
    type Edit<'a> = &'a dyn Fn(&str, &mut String);

    let edits: [(&str, bool, Edit<'_>); 6] = [
        ("a digest", false, &|name, text| {
            if name.ends_with("values.md") {
                text.push(' ');
            }
        }),
        ("a table", true, &|name, text| {
            if name.ends_with("values.csv") {
                *text = text.replacen(",2,", ",3,", 1);
            }
        }),
        ("a verdict", true, &|name, text| {
            *text = if name.ends_with("claims.json") { text.replace("undecided", "supported") } else { text.clone() }
        }),
        ("a measurement", true, &|name, text| {
            if name.starts_with("records/") && text.contains("first/value=2,seed=0") {
                measured(text, "2.0", "9.0");
            }
        }),
        ("a record", true, &|name, text| {
            if name.starts_with("records/") && text.contains("second/value=1") {
                *text = text.replace("\"threads\": ", "\"threads\": 1");
            }
        }),
        ("the recipe", true, &|name, text| {
            if name.ends_with("base.yaml") {
                *text = text.replace("seeds: 3", "seeds: 2");
            }
        }),
    ];
    let mut said = Transcript::default();
    for (what, honest, edit) in edits {
        let sandbox = bundled();
        change(&sandbox, honest, |name, text| edit(name, text));
        let ended = verify(&sandbox, &[]);
        assert_eq!(ended.code, Some(1), "{what}: {}{}", ended.stdout, ended.stderr);
        said.add(what, &ended.stdout);
    }
    assert_message!(said);
}

#[test]
fn jobs_of_a_bundle_run_again() {
    let sandbox = bundled();
    let ended = verify(&sandbox, &["--rerun", "8", "--seed", "1", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let mut said = Transcript::default();
    said.add("again", &ended.stdout);

    // The bundle has its inputs.
    sandbox.write("data/in.txt", "other\n");
    let other = verify(&sandbox, &["--rerun", "8", "--seed", "1", "--yes"]);
    assert_eq!((other.code, &other.stdout), (Some(0), &ended.stdout), "{}", other.stderr);
    sandbox.write("data/in.txt", "input\n");
    assert_eq!(sandbox.sweep(&["bundle", "create", "recipes/study.yaml", "--input-limit", "0"]).code, Some(0));
    sandbox.write("data/in.txt", "other\n");
    let other = verify(&sandbox, &["--rerun", "8", "--seed", "1", "--yes", "--inputs", "data"]);
    said.add("inputs that are not in the bundle", &settled(&(other.stdout + &other.stderr)));
    assert_eq!(other.code, Some(1));

    // A record that says something else than the job computes, and tables that follow from it.
    let forged = Sandbox::with("name: study\nsteps: { a: { uses: mock, with: { value: 3 } } }\n");
    assert_eq!(forged.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(forged.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
    change(&forged, true, |name, text| {
        if name.starts_with("records/") {
            measured(text, "3.0", "4.0");
        }
    });
    assert_eq!(verify(&forged, &[]).code, Some(0), "nothing but the job itself can tell");
    let caught = verify(&forged, &["--rerun", "1"]);
    assert_eq!(caught.code, Some(1), "{}{}", caught.stdout, caught.stderr);
    said.add("a forgery", &caught.stdout);
    assert_message!(said);
}

#[test]
fn commands_of_a_bundle_are_shown_and_not_run_without_a_word() {
    let sandbox = bundled();
    fs_err::remove_dir_all(sandbox.path("results")).unwrap();
    let refused = verify(&sandbox, &["--rerun", "8"]);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert_message!(refused.stderr);
    let ran = verify(&sandbox, &["--rerun", "8", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_message!(settled(&ran.stderr));
    // Jobs of this program's own do nothing that it would not do anyway.
    let own = Sandbox::with("name: study\nsteps: { a: { uses: mock, with: { value: 3 } } }\n");
    assert_eq!(own.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(own.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
    assert_eq!(verify(&own, &["--rerun", "1"]).code, Some(0));
}

#[test]
fn a_program_with_arguments_is_shown_as_one_would_type_it() {
    let step = r#"{ uses: command, with: { argv: [echo, "it's x=1", "${{ flags }}"], params: { lr: 0.1 } } }"#;
    let sandbox = Sandbox::with(&format!("name: study\nsteps: {{ a: {step} }}\n"));
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(sandbox.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
    let refused = verify(&sandbox, &["--rerun", "1"]);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("\n    $ echo 'it'\\''s x=1' --lr 0.1\n"), "{}", refused.stderr);
}

/// A short recipe can mean very many jobs, or long ones; a bundle lists those that it has.
#[test]
fn a_small_bundle_cannot_mean_more_than_it_may() {
    let text = "x".repeat(20_000);
    let step = |step| format!("  s{step}: {{ uses: mock, matrix: {{ value: {{ range: [0, 300000] }} }} }}\n");
    let steps = (0..5).map(step).collect::<Vec<_>>().concat();
    let mut said = Transcript::default();
    for (what, recipe) in [
        ("many jobs", format!("steps:\n{steps}")),
        (
            "a long parameter",
            format!(
                "steps: {{ a: {{ uses: mock, matrix: {{ value: {{ range: [0, 100000] }} }}, with: {{ text: {text} }} }} }}"
            ),
        ),
        (
            "a long value of an axis",
            format!(
                "steps: {{ a: {{ uses: mock, matrix: {{ value: {{ range: [0, 100000] }}, variant: [{text}] }} }} }}"
            ),
        ),
    ] {
        let sandbox = Sandbox::with("name: study\nsteps: { a: { uses: mock } }\n");
        assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
        assert_eq!(sandbox.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
        change(&sandbox, true, |name, text| {
            if name.ends_with("recipe.yaml") {
                text.clone_from(&recipe);
            }
        });
        let ended = verify(&sandbox, &[]);
        assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
        said.add(what, &ended.stderr);
    }
    assert_message!(said, "x{20,}" => "[long]", r"[\d.]+ MiB" => "[size]");
}

#[test]
fn what_is_no_bundle_is_refused() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }\n");
    let nothing = sandbox.sweep(&["bundle", "recipe.yaml"]);
    assert_eq!(nothing.code, Some(2));
    assert_message!(nothing.stderr);
    sandbox.write("study.sweep.tar", "no archive");
    let ended = verify(&sandbox, &[]);
    assert_eq!(ended.code, Some(1));
    assert_message!(ended.stderr);
}

/// A study whose program is a script, with an executable, a folder and a module that nobody declares.
const SCRIPTS: &str = "
name: study
steps:
  shell:
    uses: command
    seeds: 2
    with: { argv: [sh, train.sh], inputs: [../src/train.sh, ../src/run.sh, ../data] }
  python:
    uses: command
    seeds: 2
    with: { argv: [python3, train.py], inputs: [../src/train.py] }
tables: { t: { from: shell, rows: [], cells: [length] } }
";

fn with_scripts(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("recipes/study.yaml", recipe);
    sandbox.write("src/train.sh", "./run.sh\n");
    sandbox.write("src/run.sh", "#!/bin/sh\necho length=$(cat data/deep/in.txt | wc -c)\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(sandbox.path("src/run.sh"), mode).unwrap();
    sandbox.write("src/train.py", "import helper\nprint(f'score={helper.score()}')\n");
    sandbox.write("src/helper.py", "def score():\n    return 7\n");
    sandbox.write("data/deep/in.txt", "some text\n");
    sandbox.write("pyproject.toml", "");
    let run = sandbox.command(&["run", "recipes/study.yaml"]).env("HOME", sandbox.path("home")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    sandbox
}

/// Makes a bundle where its author's folders are, and leaves nothing but the bundle.
fn moved(sandbox: Sandbox, args: &[&str]) -> Sandbox {
    let args = [&["bundle", "create", "recipes/study.yaml"], args].concat();
    let created = sandbox.command(&args).env("HOME", sandbox.path("home")).output().unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let there = Sandbox::new();
    fs_err::rename(sandbox.path("study.sweep.tar"), there.path("study.sweep.tar")).unwrap();
    drop(sandbox);
    there
}

fn contains(file: &Path, text: &str) -> bool {
    fs_err::read(file).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_bundle_has_what_its_jobs_read_and_no_path_of_its_author() {
    let here = with_scripts(SCRIPTS);
    let folder = here.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    let there = moved(here, &[]);
    assert!(!contains(&there.path("study.sweep.tar"), folder), "{folder} is in the bundle");
    let ended = verify(&there, &["--rerun", "8", "--seed", "1", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("4 of 4 jobs that ran again agree"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("everything agrees"), "{}", ended.stdout);
}

#[test]
fn a_bundle_without_its_inputs_confirms_nothing() {
    let here = with_scripts(SCRIPTS);
    let elsewhere = Sandbox::new();
    for name in ["src/train.sh", "src/run.sh", "src/train.py", "src/helper.py", "data/deep/in.txt"] {
        elsewhere.write(name, &here.read(name));
        let mode = fs_err::metadata(here.path(name)).unwrap().permissions();
        fs_err::set_permissions(elsewhere.path(name), mode).unwrap();
    }
    let there = moved(here, &["--input-limit", "0"]);
    let ended = verify(&there, &["--rerun", "1", "--yes"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("is not in the bundle; `--inputs DIR` takes it from a folder"), "{}", ended.stdout);
    assert!(ended.stdout.contains("nothing ran again: 1 job of the selection cannot run again"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("everything agrees") && !ended.stderr.contains("running 0 jobs"));
    assert_eq!(verify(&there, &[]).code, Some(0), "the bundle itself is whole");
    let inputs = elsewhere.path("").display().to_string();
    let supplied = verify(&there, &["--rerun", "8", "--yes", "--inputs", &inputs]);
    assert_eq!(supplied.code, Some(0), "{}{}", supplied.stdout, supplied.stderr);
    // A file of another content is none of its inputs.
    elsewhere.write("src/train.sh", "echo length=10\n");
    let other = verify(&there, &["--rerun", "8", "--seed", "1", "--yes", "--inputs", &inputs]);
    assert_eq!(other.code, Some(1), "{}{}", other.stdout, other.stderr);
    assert!(other.stdout.contains("2 jobs of the selection cannot run again"), "{}", other.stdout);
}

#[test]
fn a_bundle_has_the_files_of_a_folder_that_count_and_no_others() {
    let recipe = "
name: study
steps:
  a:
    uses: command
    with: { argv: [cat, src/score.txt], inputs: [../src], ignore: ['*.cache'] }
";
    let sandbox = Sandbox::new();
    sandbox.write("recipes/study.yaml", recipe);
    sandbox.write("src/score.txt", "score=7\n");
    sandbox.write("src/.git/HEAD", "ref: refs/heads/secret\n");
    fs_err::create_dir_all(sandbox.path("src/.git/refs/tags")).unwrap();
    sandbox.write("src/train.cache", "cached\n");
    sandbox.write("src/__pycache__/train.pyc", "compiled\n");
    let run = sandbox.sweep(&["run", "recipes/study.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let created = sandbox.sweep(&["bundle", "create", "recipes/study.yaml"]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert!(!created.stderr.contains("not in the bundle"), "{}", created.stderr);
    let mut archive = tar::Archive::new(fs_err::File::open(sandbox.path("study.sweep.tar")).unwrap());
    let names: Vec<String> =
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
    assert!(names.iter().any(|name| name.ends_with("src/score.txt")), "{names:?}");
    for passed in [".git", "train.cache", "__pycache__"] {
        assert!(!names.iter().any(|name| name.contains(passed)), "{passed}: {names:?}");
    }
    let there = moved(sandbox, &[]);
    let ended = verify(&there, &["--rerun", "1", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 of 1 job that ran again agree"), "{}", ended.stdout);
}

#[test]
fn an_input_that_a_recipe_names_by_an_absolute_path_is_in_the_bundle() {
    let data = Sandbox::new();
    data.write("in.txt", "some text\n");
    let path = data.path("in.txt").display().to_string();
    let recipe = format!(
        "name: study\nsteps:\n  a:\n    uses: command\n    with: {{ run: 'echo length=$(wc -c < in.txt)', inputs: ['{path}'] }}\n"
    );
    let there = moved(with_scripts(&recipe), &[]);
    drop(data);
    let ended = verify(&there, &["--rerun", "1", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn what_is_larger_than_the_limit_is_named() {
    let sandbox = with_scripts(SCRIPTS);
    sandbox.write("data/deep/in.txt", &"x".repeat(3 << 20));
    assert_eq!(sandbox.sweep(&["run", "recipes/study.yaml"]).code, Some(0));
    let created = sandbox.sweep(&["bundle", "create", "recipes/study.yaml", "--input-limit", "2"]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert!(created.stderr.contains("at most 2 MiB of inputs: ../data (3.00 MiB)"), "{}", created.stderr);
    let whole = sandbox.sweep(&["bundle", "create", "recipes/study.yaml"]);
    assert!(!whole.stderr.contains("not in the bundle"), "{}", whole.stderr);
}

/// A script that the recipe does not declare is not in the bundle, and is no mistake of its recipe.
#[test]
fn a_bundle_without_its_script_is_verified() {
    let with = "argv: [python3, train.py], project: ., tracks: declared";
    let sandbox = Sandbox::with(&format!("steps: {{ train: {{ uses: command, with: {{ {with} }} }} }}"));
    sandbox.write("train.py", "print('loss=0.5')\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let created = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--output", "study.sweep.tar"]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    fs_err::remove_file(sandbox.path("train.py")).unwrap();
    let verified = sandbox.sweep(&["bundle", "verify", "study.sweep.tar"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert_eq!(sandbox.sweep(&["plan", "recipe.yaml"]).code, Some(3), "here it is one");
}

/// The file of this name in a bundle.
fn file_of(sandbox: &Sandbox, name: &str) -> String {
    let mut archive = tar::Archive::new(fs_err::File::open(sandbox.path("study.sweep.tar")).unwrap());
    let entry = archive.entries().unwrap().map(Result::unwrap).find(|entry| entry.path().unwrap().ends_with(name));
    std::io::read_to_string(entry.unwrap_or_else(|| panic!("there is no {name}"))).unwrap()
}

/// The identifiers that an entity refers to.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) if entries.len() == 1 && entries.contains_key("@id") => {
            found.extend(entries["@id"].as_str());
        }
        Value::Object(entries) => entries.values().for_each(|value| references(value, found)),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn a_bundle_is_a_research_object_that_describes_every_job() {
    let sandbox = bundled();
    let crate_text = file_of(&sandbox, "sweep-bundle/ro-crate-metadata.json");
    let described: Value = serde_json::from_str(&crate_text).unwrap();
    let graph = described["@graph"].as_array().unwrap();
    let ids: Vec<&str> = graph.iter().map(|entity| entity["@id"].as_str().unwrap()).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "an identifier is that of one entity");
    let mut referred = Vec::new();
    for entity in graph {
        references(entity, &mut referred);
    }
    let open = referred.iter().filter(|id| !ids.contains(id) && !id.starts_with("https://w3id.org/ro/crate/"));
    assert_eq!(open.collect::<Vec<_>>(), Vec::<&&str>::new());
    let of_type = |name: &str| graph.iter().filter(|entity| entity["@type"] == *name).collect::<Vec<_>>();
    // 6 and 2 jobs, and the run of the study.
    assert_eq!((of_type("CreateAction").len(), of_type("ControlAction").len(), of_type("HowToStep").len()), (9, 8, 2));
    let root = graph.iter().find(|entity| entity["@id"] == "./").unwrap();
    assert_eq!(root["mainEntity"]["@id"], "sources/@/recipes/study.yaml".replace("@/recipes", "%40"));
    assert!(root["conformsTo"].to_string().contains("https://w3id.org/ro/wfrun/provenance/0.5"));
    let job = of_type("CreateAction").into_iter().find(|job| job["name"] == "first/value=2,seed=1").unwrap();
    let record = job["result"]["@id"].as_str().unwrap();
    assert!(file_of(&sandbox, record).contains("\"first/value=2,seed=1\""));
    let values: Vec<&Value> = graph.iter().filter(|entity| entity["@type"] == "PropertyValue").collect();
    assert!(values.iter().any(|value| value["name"] == "value" && value["value"] == 2.0), "{values:?}");
}

#[test]
fn a_bundle_has_a_readme_and_a_citation_which_may_be_that_of_the_project() {
    let sandbox = bundled();
    let readme = file_of(&sandbox, "sweep-bundle/README.md");
    assert!(readme.starts_with("# Results of the study study\n\nWhether two is more than one"), "{readme}");
    let citation = file_of(&sandbox, "sweep-bundle/CITATION.cff");
    assert!(citation.contains("title: \"Results of the study study\"\n"), "{citation}");
    sandbox.write("recipes/CITATION.cff", "cff-version: 1.2.0\ntitle: Ours\n");
    assert_eq!(sandbox.sweep(&["bundle", "recipes/study.yaml"]).code, Some(0));
    assert_eq!(file_of(&sandbox, "sweep-bundle/CITATION.cff"), "cff-version: 1.2.0\ntitle: Ours\n");
    assert_eq!(verify(&sandbox, &[]).code, Some(0));
}
