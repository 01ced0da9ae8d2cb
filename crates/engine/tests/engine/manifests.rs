//! The list of the files that jobs were observed to read, damaged or lost, and records of files that were not read.

use std::path::PathBuf;

use serde_json::{Value, json};
use sweep_engine::record::ReadSet;

use crate::{
    sandbox::{Sandbox, list, sealed},
    tracking::{is_observed, manifests, open, run, study},
};

const LIST: &str = "results/store/manifests/list.jsonl";
const READERS: [&str; 3] = ["sum", "train/seed=0", "train/seed=1"];

#[test]
fn a_damaged_or_lost_list_serves_nothing_stale_and_is_found() {
    let sandbox = study();
    run(&sandbox);
    let whole = fs_err::read(sandbox.path(LIST)).unwrap();
    let mut damages = vec![Vec::new(), whole[..whole.len() - 40].to_vec(), whole[..whole.len() / 2].to_vec()];
    // In the digest, the base key, the record's key, the set, and the end of the line.
    for at in [3, 20, 90, 170, 260, whole.iter().position(|byte| *byte == b'\n').unwrap()] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        damages.push(changed);
    }
    let lose = |damage: Option<&Vec<u8>>| match damage {
        Some(text) => fs_err::write(sandbox.path(LIST), text).unwrap(),
        None => fs_err::remove_file(sandbox.path(LIST)).unwrap(),
    };
    for damage in damages.iter().map(Some).chain([None]) {
        for index in [true, false] {
            lose(damage);
            if !index {
                fs_err::remove_file(sandbox.path("results/store/index.jsonl")).unwrap();
            }
            // Where the name of the digest is hit, the line is one of an earlier version, and says the same.
            if damage.is_none_or(|damage| damage.get(3).is_none_or(|byte| *byte == whole[3])) {
                let verified = sandbox.sweep(&["cache", "verify"]);
                assert_eq!(verified.code, Some(1), "{damage:?}: {}", verified.stderr);
                assert!(verified.stdout.contains("the list of manifests"), "{}", verified.stdout);
            }
            sandbox.write("utils.py", "def loss():\n    return 2\n");
            assert_eq!(open(&sandbox), READERS, "{damage:?}");
            sandbox.write("utils.py", "def loss():\n    return 1\n");
            assert_eq!(open(&sandbox), Vec::<String>::new(), "nothing is lost either");
        }
    }
    lose(None);
    let said = sandbox.sweep(&["plan", "recipe.yaml"]).stderr;
    let lines = 3 + usize::from(is_observed());
    assert!(said.contains(&format!("list.jsonl lacks {lines} lines, written again from the records")), "{said}");
    let said = sandbox.sweep(&["plan", "recipe.yaml"]).stderr;
    assert!(!said.contains("list.jsonl"), "{said}");
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn a_lost_set_is_found_and_its_jobs_run_again() {
    let sandbox = study();
    run(&sandbox);
    fs_err::remove_dir_all(sandbox.path("results/store/manifests/sets")).unwrap();
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(1));
    assert!(verified.stdout.contains("the list of the files that its program read is missing"), "{}", verified.stdout);
    assert_eq!(open(&sandbox).len(), 4);
}

/// The folder of each record.
fn records(sandbox: &Sandbox) -> Vec<PathBuf> {
    let shards = list(&sandbox.path("results/store")).into_iter().filter(|path| path.file_name().unwrap().len() == 2);
    shards.flat_map(|shard| list(&shard)).map(|folder| folder.join("record.json")).collect()
}

/// Lines have no digest, and records name no set.
#[test]
fn a_store_of_the_version_before_is_read_with_its_list() {
    let sandbox = study();
    run(&sandbox);
    let lines = manifests(&sandbox).into_iter().map(|mut line| {
        line.as_object_mut().unwrap().remove("digest").unwrap();
        format!("{line}\n")
    });
    let lines: String = lines.collect();
    sandbox.write(LIST, &lines);
    for path in records(&sandbox) {
        let text = fs_err::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').filter(|line| !line.starts_with("  \"read\": ")).collect();
        fs_err::write(&path, sealed(&lines.concat())).unwrap();
    }
    fs_err::remove_file(sandbox.path("results/store/index.jsonl")).unwrap();
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    sandbox.write("utils.py", "def loss():\n    return 2\n");
    assert_eq!(open(&sandbox), READERS);
    // The lost content cannot be known, and a notice says so.
    fs_err::remove_file(sandbox.path(LIST)).unwrap();
    let said = sandbox.sweep(&["cache", "verify"]).stderr;
    assert!(said.contains("4 records of programs name no list of the files that the program read"), "{said}");
}

/// As a host, a container or a machine behind a remote leaves it whose project is another one.
#[test]
fn a_record_under_the_key_of_files_that_were_not_read_is_passed_over() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { argv: [python3, t.py], inputs: [t.py] } } }\ntables: { t: { from: a, cells: [x] } }\n",
    );
    sandbox.write("t.py", "import module\nprint('x=%d' % (100 + module.X))\n");
    for x in [5, 1, 22] {
        sandbox.write("module.py", &format!("X = {x}\n"));
        run(&sandbox);
    }
    let lines = manifests(&sandbox);
    let set = |line: &Value| {
        let id = line["set"].as_str().unwrap();
        sandbox.read(&format!("results/store/manifests/sets/{}/{id}", &id[..2]))
    };
    // The record of 22 says now that its program has read 1, and has measured that.
    let read: ReadSet = serde_json::from_str(&set(&lines[1])).unwrap();
    let key = lines[2]["record"].as_str().unwrap();
    let path = sandbox.path(&format!("results/store/{}/{key}/record.json", &key[..2]));
    let record = fs_err::read_to_string(&path).unwrap();
    let (old, new) = (lines[2]["set"].as_str().unwrap(), read.id());
    assert_ne!(old, new);
    fs_err::write(&path, sealed(&record.replace(old, &new).replace("122.0", "101.0"))).unwrap();
    let mut lie = lines[2].clone();
    lie.as_object_mut().unwrap().remove("digest").unwrap();
    lie["set"] = json!(new);
    sandbox.write(LIST, &format!("{}\n{}\n{lie}\n", lines[0], lines[1]));

    assert_eq!(open(&sandbox), ["a"], "the record is of other files");
    run(&sandbox);
    let csv = sandbox.read("results/reports/recipe/tables/t.csv");
    assert!(csv.contains("122"), "{csv}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("module.py", "X = 1\n");
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// An archive of a record that names a list of files, without this list.
#[test]
fn a_record_from_elsewhere_needs_the_list_that_it_names() {
    let (sandbox, other) = (study(), study());
    run(&sandbox);
    assert_eq!(sandbox.sweep(&["cache", "export", "all.tar", "recipe.yaml"]).code, Some(0));
    let folder = sandbox.path("unpacked");
    fs_err::create_dir(&folder).unwrap();
    let tar = |args: &[&str]| assert!(std::process::Command::new("tar").args(args).status().unwrap().success());
    tar(&["-xf", sandbox.path("all.tar").to_str().unwrap(), "-C", folder.to_str().unwrap()]);
    let archive = other.path("without.tar");
    let names = list(&folder.join("sweep-records")).into_iter().map(|record| record.join("record.json"));
    let names: Vec<String> =
        names.map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned()).collect();
    let mut args = vec!["-cf", archive.to_str().unwrap(), "-C", folder.to_str().unwrap()];
    args.extend(names.iter().map(String::as_str));
    tar(&args);
    let ended = other.sweep(&["cache", "import", "without.tar"]);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("the archive lacks the list of the files that the job read"), "{said}");
    assert_eq!(records(&other).len(), usize::from(!is_observed()), "nobody has observed the shell");
}
