//! Programs under observation.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use sweep_observer::{Fact, Options, Seen, is_supported, observe};

/// Runs a script of the shell in the project's folder.
fn seen(folder: &Path, script: &str) -> Seen {
    let options = Options {
        project: folder.join("project"),
        inputs: vec![folder.join("inputs")],
        skipped: vec![folder.join("project/results")],
        own: vec![folder.join("project/results/own")],
        layer: sweep_observer::Layer::default(),
        started: Some(folder.join("inputs/started")),
        report: None,
        private: None,
        digest: |path| fs::read_to_string(path),
    };
    let (hook, supervisor) = observe(options).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder.join("project"));
    hook.install(&mut command);
    let supervisor = thread::spawn(move || supervisor.run());
    let status = command.status().unwrap();
    assert!(status.success(), "{script}");
    drop((command, hook));
    supervisor.join().unwrap()
}

/// A folder with a project and inputs, and with files in both.
fn world() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(folder.path()).unwrap();
    for inner in ["project/sub", "project/results/own", "project/.git", "inputs"] {
        fs::create_dir_all(real.join(inner)).unwrap();
    }
    for (name, text) in [("project/a", "1"), ("project/sub/b", "2"), ("inputs/c", "3"), ("project/.git/x", "")] {
        fs::write(real.join(name), text).unwrap();
    }
    (folder, real)
}

fn names(folder: &Path, paths: impl Iterator<Item = impl AsRef<Path>>) -> Vec<String> {
    paths.map(|path| path.as_ref().strip_prefix(folder).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn files_links_names_and_listings() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    std::os::unix::fs::symlink("sub", folder.join("project/link")).unwrap();
    let script =
        "cat a link/b .git/x > /dev/null; ls sub > /dev/null; test -e none || true; cat ../inputs/c > results/own/x";
    let seen = seen(&folder, script);
    assert_eq!(names(&folder, seen.files.keys()), ["project/a", "project/sub/b"]);
    let fact = |name: &str| seen.facts.get(&folder.join(name));
    assert_eq!(fact("project/link"), Some(&Fact::Link("sub".into())));
    assert_eq!(fact("project/none"), Some(&Fact::Absent));
    let listed = &seen.listed[&folder.join("project/sub")];
    assert_eq!((listed.opens, listed.names.as_ref().unwrap().len()), (1, 1));
    assert!(seen.written.is_empty() && seen.blind.is_empty(), "{seen:?}");
}

/// Python's import system lists a folder of its path again and again while others change it, also before the module that
/// tells it from the program is imported.
#[test]
fn folders_that_an_interpreter_lists_at_its_start_are_no_reads() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    fs::write(folder.join("inputs/started"), "").unwrap();
    let started = format!("true < {}", folder.join("inputs/started").display());
    let opens = |script: &str| {
        let seen = seen(&folder, script);
        seen.listed.get(&folder.join("project/sub")).map_or(0, |listed| listed.opens)
    };
    let list = "echo sub/* > /dev/null";
    assert_eq!(opens(&format!("{list}; {list}; {started}")), 0);
    assert_eq!(opens(&format!("{list}; {started}; {list}; {list}")), 2);
    assert_eq!(opens(&format!("{list}; {started}; ({list}; {started}); {list}; {started}")), 2, "a fork has started");
    let other = format!("{list}; exec sh -c '{list}; {started}'");
    assert_eq!(opens(&other), 1, "the program before it has listed, too");
    assert_eq!(opens(&format!("sh -c '{list}'; {started}")), 1, "so has another process");
}

#[test]
fn a_file_is_known_as_it_was_before_the_program_changed_it() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    let script = "cat a; echo new > a; cat a; echo x > made; cat made; cat sub/b > sub/b.new; mv sub/b.new sub/b; \
        echo y >> ../inputs/c; echo z > temporary; rm temporary";
    let seen = seen(&folder, script);
    assert_eq!(names(&folder, seen.files.keys()), ["project/a", "project/sub/b"]);
    assert_eq!(seen.files[&folder.join("project/a")].digest.as_deref(), Some("1"));
    assert_eq!(seen.files[&folder.join("project/sub/b")].digest.as_deref(), Some("2"));
    assert_eq!(names(&folder, seen.written.iter()), ["inputs/c", "project/a", "project/made", "project/sub/b"]);
    assert_eq!(names(&folder, seen.made.iter()), ["project/made"]);
}

/// A training that resumes from a checkpoint, if one of an earlier run is there.
#[test]
fn names_below_a_folder_that_the_program_makes_were_not_there_before() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    let script = "mkdir -p out/inner; test -e out/last || true; test -e out/inner/best || true; echo x > out/last; cat out/last; \
        mkdir list; ls list; mkdir mute; echo y > mute/file; cat mute/file";
    let seen = seen(&folder, script);
    // The loader also looks in the folders that cargo adds to the path of libraries.
    let is_absent = |(path, fact): &(&PathBuf, &Fact)| **fact == Fact::Absent && path.starts_with(&folder);
    let absent = seen.facts.iter().filter(is_absent).map(|(path, _)| path);
    let absent: Vec<String> =
        names(&folder, absent).into_iter().filter(|name| !name.ends_with("mute") && !name.ends_with("out")).collect();
    assert_eq!(absent, ["project/list", "project/out/inner/best", "project/out/last"]);
    assert!(!seen.facts.contains_key(&folder.join("project/mute/file")), "{seen:?}");
}

#[test]
fn a_call_that_fails_changes_nothing() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    let script = "(mkdir sub; mv none other) 2> results/own/x || true; : >> a; cat sub/b a";
    let seen = seen(&folder, script);
    assert_eq!(names(&folder, seen.files.keys()), ["project/a", "project/sub/b"]);
    assert!(seen.written.is_empty(), "{seen:?}");
}

#[test]
fn many_processes_at_once() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    for number in 0..200 {
        fs::write(folder.join(format!("project/sub/{number}")), "x").unwrap();
    }
    let script =
        "for part in 0 1 2 3; do (for number in $(seq $part 4 199); do cat sub/$number > /dev/null; done) & done; wait";
    let seen = seen(&folder, script);
    assert_eq!(seen.files.len(), 200);
}

/// Trackers of experiments log the commit and the changes.
#[test]
fn the_state_that_git_tells_is_not_read() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    let git = |words: &[&str]| {
        let status = Command::new("git").args(words).current_dir(folder.join("project")).status();
        status.is_ok_and(|status| status.success())
    };
    fs::remove_dir_all(folder.join("project/.git")).unwrap();
    if !git(&["init", "--quiet"]) {
        eprintln!("skipped: there is no Git here");
        return;
    }
    let told = seen(&folder, "git status > results/own/x; git -C . diff > results/own/x; cat sub/b");
    assert_eq!(names(&folder, told.files.keys()), ["project/sub/b"]);
    let read = seen(&folder, "git hash-object a");
    assert_eq!(names(&folder, read.files.keys()), ["project/a"]);
}

/// Programs and shared libraries that are not the project's, also behind links and after a question for their size.
#[test]
fn programs_and_libraries_outside_of_the_project() {
    if !is_supported() {
        eprintln!("skipped: the kernel reports no system calls here");
        return;
    }
    let (_kept, folder) = world();
    for inner in ["lib", "project/venv/bin", "project/venv/lib"] {
        fs::create_dir_all(folder.join(inner)).unwrap();
    }
    fs::write(folder.join("project/venv/pyvenv.cfg"), "").unwrap();
    let text = "#!/bin/sh\n: < ../lib/libx.so.1.2\n";
    for (name, text) in [
        ("lib/libx.so.1.2", ""),
        ("lib/liby.so", ""),
        ("lib/ld.so.cache", ""),
        ("lib/notes.so.txt", ""),
        ("lib/data.bin", ""),
        ("project/libown.so", ""),
        ("project/venv/lib/libz.so", ""),
        ("project/venv/bin/tool", text),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("../lib/liby.so", folder.join("project/link")).unwrap();
    fs::set_permissions(folder.join("project/venv/bin/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let script = "venv/bin/tool; test -e ../lib/libx.so.1.2; stat ../lib/libx.so.1.2 > results/own/x; \
                  cat ../lib/* libown.so venv/lib/libz.so link > /dev/null; \
                  : > ../lib/libmade.so; cat ../lib/libmade.so; sleep 0.01";
    let seen = seen(&folder, script);
    let own: Vec<(String, bool)> = seen
        .outside
        .iter()
        .filter_map(|(path, used)| Some((path.strip_prefix(&folder).ok()?.to_str()?.to_owned(), used.is_started)))
        .collect();
    let expected = [
        ("lib/libx.so.1.2", false),
        ("lib/liby.so", false),
        ("project/venv/bin/tool", true),
        ("project/venv/lib/libz.so", false),
    ];
    assert_eq!(own, expected.map(|(path, is_started)| (path.to_owned(), is_started)));
    let is_shell =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name == "dash" || name == "bash" || name == "sh");
    assert!(seen.outside.keys().any(|path| is_shell(&path)), "the interpreter of the script: {:?}", seen.outside);
    let data = seen.files.keys().filter(|path| !path.starts_with(folder.join("project")));
    assert_eq!(names(&folder, data), ["lib/data.bin", "lib/ld.so.cache", "lib/notes.so.txt"]);
}
