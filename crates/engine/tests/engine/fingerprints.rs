//! The environment of a program outside of its project: recorded, shown, compared, and, where a recipe says so, part of a
//! record's validity. Programs, libraries and virtual environments are real ones.

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use sweep_engine::record::ReadSet;

use crate::{
    sandbox::{Ended, Sandbox, list},
    tracking::{is_observed, manifests, open, run},
};

/// A folder outside of every project, for libraries and programs.
fn outside() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let real = fs_err::canonicalize(folder.path()).unwrap();
    (folder, real)
}

/// True if this machine has a C compiler and reports what programs do.
fn can_link() -> bool {
    let is_able = is_observed() && Command::new("cc").arg("--version").output().is_ok();
    if !is_able {
        println!("skipped: no C compiler, or programs are not observed here");
    }
    is_able
}

fn compile(arguments: &[&Path], source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("source.c");
    fs_err::write(&file, source).unwrap();
    let output = Command::new("cc").arg(&file).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a library whose function answers a number. The old file is replaced, as a package manager does.
fn library(path: &Path, number: u32, has_build_id: bool) {
    let beside = path.with_extension("new");
    let id = if has_build_id { "-Wl,--build-id" } else { "-Wl,--build-id=none" };
    let options = ["-shared", "-fPIC", id, "-o"].map(Path::new);
    compile(&[&options[..], &[&beside]].concat(), &format!("int number(void) {{ return {number}; }}"));
    fs_err::rename(beside, path).unwrap();
}

/// Makes a program that prints the number of the library `libnumber.so` in a folder.
fn program(folder: &Path) -> PathBuf {
    let program = folder.join("printer");
    let search = format!("-Wl,-rpath,{}", folder.display());
    let library = folder.join("libnumber.so");
    let arguments = [&library, Path::new(&search), Path::new("-o"), &program];
    compile(&arguments, "#include <stdio.h>\nint number(void);\nint main(void) { printf(\"x=%d\\n\", number()); }");
    program
}

fn recipe(program: &Path, more: &str) -> String {
    let program = serde_json::to_string(&program.display().to_string()).unwrap();
    format!("steps: {{ a: {{ uses: command, with: {{ argv: [{program}]{more} }} }} }}\n")
}

fn ok(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

fn plan(sandbox: &Sandbox, more: &[&str]) -> String {
    ok(sandbox.sweep(&[&["plan", "recipe.yaml"], more].concat()))
}

/// The files in the folder of environments.
fn environments(sandbox: &Sandbox) -> Vec<PathBuf> {
    let folder = sandbox.path("results/store/manifests/environments");
    if !folder.is_dir() {
        return Vec::new();
    }
    list(&folder).iter().flat_map(|shard| list(shard)).collect()
}

/// The keys of all records, the first one first.
fn keys(sandbox: &Sandbox) -> Vec<String> {
    manifests(sandbox).iter().map(|manifest| manifest["record"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_program_has_an_environment_that_many_jobs_share_and_no_key_has() {
    if !can_link() {
        return;
    }
    let (_kept, folder) = outside();
    library(&folder.join("libnumber.so"), 1, true);
    let program = program(&folder);
    let of = program.display();
    let sandbox = Sandbox::with(&format!(
        "steps: {{ a: {{ uses: command, matrix: {{ seed: [0, 1, 2] }}, with: {{ argv: ['{of}'], seed: '${{{{ matrix.seed }}}}' }} }} }}"
    ));
    run(&sandbox);
    assert_eq!(environments(&sandbox).len(), 1, "three jobs share it");
    let text = fs_err::read_to_string(&environments(&sandbox)[0]).unwrap();
    let environment: Value = serde_json::from_str(&text).unwrap();
    let id = |kind: &str, name: &str| {
        environment[kind][folder.join(name).to_str().unwrap()]["id"].as_str().unwrap_or_default().to_owned()
    };
    assert!(id("programs", "printer").starts_with("build:"), "{environment}");
    assert!(id("libraries", "libnumber.so").starts_with("build:"), "{environment}");
    let libraries = environment["libraries"].as_object().unwrap();
    let libc = libraries.iter().find(|(path, _)| path.ends_with("/libc.so.6"));
    if let Some((_, libc)) = libc {
        assert!(libc["version"].as_str().is_some_and(|version| version.contains("LIBC")), "{libc}");
    }

    let said = ok(sandbox.sweep(&["explain", "recipe.yaml", "a/seed=0"]));
    let short = format!("its environment: {of}, 1 program, ");
    assert!(said.contains(&short) && said.contains("0 packages; `--environment` lists all of it"), "{said}");
    assert!(!said.contains("libnumber"), "{said}");
    let said = ok(sandbox.sweep(&["explain", "recipe.yaml", "a/seed=0", "--environment"]));
    assert!(said.contains(&format!("library {}/libnumber.so (build ", folder.display())), "{said}");
    let json = ok(sandbox.sweep(&["explain", "recipe.yaml", "a/seed=0", "--format", "json"]));
    assert!(json.contains("libnumber.so"), "{json}");

    // The default: another library is no reason to run again.
    library(&folder.join("libnumber.so"), 2, true);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn strict_runs_again_what_another_library_would_change() {
    if !can_link() {
        return;
    }
    for has_build_id in [true, false] {
        let (_kept, folder) = outside();
        let file = folder.join("libnumber.so");
        library(&file, 1, has_build_id);
        let sandbox = Sandbox::with(&recipe(&program(&folder), ", environment: strict"));
        run(&sandbox);
        assert_eq!(open(&sandbox), Vec::<String>::new());
        library(&file, 2, has_build_id);
        assert_eq!(open(&sandbox), ["a"]);
        let said = plan(&sandbox, &["--why"]);
        assert!(said.contains(&format!("library {}", file.display())), "{said}");
        assert!(!said.contains("libc.so"), "{said}");
        let said = ok(sandbox.sweep(&["explain", "recipe.yaml", "a"]));
        assert!(said.contains(&format!("library {}", file.display())), "{said}");
        run(&sandbox);
        assert_eq!((open(&sandbox), environments(&sandbox).len()), (Vec::new(), 2));
        // Both environments have their records, under keys of their own.
        library(&file, 1, has_build_id);
        sandbox.assert_all_cached(&["recipe.yaml"]);
        library(&file, 3, has_build_id);
        run(&sandbox);
        let verified = sandbox.sweep(&["cache", "verify"]);
        assert_eq!((verified.code, keys(&sandbox).len()), (Some(0), 3), "{}", verified.stdout);

        let keys = keys(&sandbox);
        let said = ok(sandbox.sweep(&["diff", &keys[0], &keys[1]]));
        let (_, environment) = said.split_once("environment\n").unwrap();
        let kind = if has_build_id { "build" } else { "content" };
        assert!(environment.starts_with(&format!("  library {}: {kind} ", file.display())), "{said}");
        assert_eq!(environment.lines().count(), 1, "{said}");
        let json = ok(sandbox.sweep(&["diff", &keys[0], &keys[1], "--format", "json"]));
        assert!(json.contains(&format!("library {}", file.display())), "{json}");

        fs_err::remove_file(&file).unwrap();
        let said = plan(&sandbox, &["--why"]);
        assert!(said.contains("libnumber.so") && said.contains("gone"), "{said}");
        assert_eq!(sandbox.sweep(&["cache", "gc", "--yes"]).code, Some(0));
        assert_eq!(environments(&sandbox).len(), 3, "its records are kept");
    }
}

/// The interpreter that a virtual environment has is that of another one, with other versions of packages.
#[test]
fn another_virtual_environment_is_another_environment() {
    if !is_observed() {
        println!("skipped: programs are not observed here");
        return;
    }
    let (_kept, folder) = outside();
    for (name, version) in [("one", "1.0"), ("two", "2.0")] {
        let output =
            Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder.join(name)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let library = list(&folder.join(name).join("lib")).into_iter().next().unwrap();
        let site = library.join("site-packages");
        fs_err::create_dir_all(site.join(format!("thing-{version}.dist-info"))).unwrap();
        fs_err::write(site.join(format!("thing-{version}.dist-info/RECORD")), "thing.py,,\n").unwrap();
        fs_err::write(site.join("thing.py"), format!("x = {version}\n")).unwrap();
    }
    let path = |name: &str| {
        let before = std::env::var("PATH").unwrap();
        format!("{}:{before}", folder.join(name).join("bin").display())
    };
    let sandbox = |more: &str| {
        let sandbox = Sandbox::with(&format!(
            "steps: {{ a: {{ uses: command, with: {{ argv: [python3, a.py], inputs: [a.py]{more} }} }} }}\n"
        ));
        sandbox.write("a.py", "import thing\nprint('x=%s' % thing.x)\n");
        sandbox
    };
    let with = |sandbox: &Sandbox, name: &str, args: &[&str]| {
        let output = sandbox.command(args).env("PATH", path(name)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let strict = sandbox(", environment: strict");
    with(&strict, "one", &["run", "recipe.yaml"]);
    assert!(with(&strict, "one", &["plan", "recipe.yaml"]).contains("1 cached"));
    let why = with(&strict, "two", &["plan", "recipe.yaml", "--why"]);
    let command = |name: &str| folder.join(name).join("bin/python3").display().to_string();
    assert!(why.contains(&format!("{} → {}", command("one"), command("two"))), "{why}");
    with(&strict, "two", &["run", "recipe.yaml"]);
    assert_eq!(keys(&strict).len(), 2);
    let said = with(&strict, "two", &["explain", "recipe.yaml", "a"]);
    assert!(said.contains(&format!("its environment: {} (3.", command("two"))), "the version of Python: {said}");
    for name in ["one", "two"] {
        assert!(with(&strict, name, &["plan", "recipe.yaml"]).contains("1 cached"), "{name}");
    }
    let found = keys(&strict);
    let said = with(&strict, "one", &["diff", &found[0], &found[1]]);
    assert!(said.contains("package thing: 1.0 → 2.0"), "{said}");
    assert!(!said.contains("program python"), "one interpreter serves both: {said}");

    // By default the interpreter's place is no reason, and the first record stays.
    let recorded = sandbox("");
    with(&recorded, "one", &["run", "recipe.yaml"]);
    assert!(with(&recorded, "two", &["plan", "recipe.yaml"]).contains("1 cached"));
}

#[test]
fn a_table_of_several_environments_says_so() {
    if !can_link() {
        return;
    }
    let (_kept, folder) = outside();
    let file = folder.join("libnumber.so");
    library(&file, 1, true);
    let program = program(&folder);
    let of = |seeds: &str| {
        format!(
            "steps: {{ a: {{ uses: command, matrix: {{ seed: [{seeds}] }}, with: {{ argv: ['{}'], seed: '${{{{ matrix.seed }}}}' }} }} }}\n\
             tables: {{ t: {{ from: a, rows: seed, cells: x }} }}\n",
            program.display()
        )
    };
    let sandbox = Sandbox::with(&of("0"));
    run(&sandbox);
    let report = || ok(sandbox.sweep(&["report", "recipe.yaml"]));
    assert!(!report().contains("environments"), "{}", report());
    library(&file, 2, true);
    sandbox.write("recipe.yaml", &of("0, 1"));
    run(&sandbox);
    let said = report();
    assert!(said.contains("the records were made in 2 environments: library libnumber differs"), "{said}");
}

/// Makes the records of a store those of an earlier version, as far as environments are concerned.
fn forget_environments(sandbox: &Sandbox) {
    let store = sandbox.path("results/store");
    fs_err::remove_dir_all(store.join("manifests/environments")).unwrap();
    fs_err::remove_file(store.join("index.jsonl")).unwrap();
    let sealed = |value: &Value| serde_json::to_string(value).unwrap();
    let mut sets = BTreeMap::new();
    for file in list(&store.join("manifests/sets")).iter().flat_map(|shard| list(shard)) {
        let mut set: Value = serde_json::from_str(&fs_err::read_to_string(&file).unwrap()).unwrap();
        set.as_object_mut().unwrap().remove("environment").unwrap();
        let id = serde_json::from_value::<ReadSet>(set.clone()).unwrap().id();
        let folder = store.join("manifests/sets").join(&id[..2]);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(&id), sealed(&set)).unwrap();
        let old = file.file_name().unwrap().to_str().unwrap().to_owned();
        fs_err::remove_file(&file).unwrap();
        sets.insert(old, id);
    }
    let mut lines = String::new();
    for mut manifest in manifests(sandbox) {
        let fields = manifest.as_object_mut().unwrap();
        fields.remove("digest");
        let set = sets[fields["set"].as_str().unwrap()].clone();
        let key = fields["record"].as_str().unwrap().to_owned();
        fields.insert("set".to_owned(), set.clone().into());
        lines += &(sealed(&manifest) + "\n");
        let file = store.join(&key[..2]).join(&key).join("record.json");
        let mut record: Value = serde_json::from_str(&fs_err::read_to_string(&file).unwrap()).unwrap();
        let fields = record.as_object_mut().unwrap();
        fields.remove("digest");
        fields.insert("read".to_owned(), set.into());
        record["provenance"]["conditions"].as_object_mut().unwrap().remove("environment").unwrap();
        fs_err::write(&file, sealed(&record)).unwrap();
    }
    fs_err::write(store.join("manifests/list.jsonl"), lines).unwrap();
}

/// Records of earlier versions name no environment. Their keys stay, and only `strict` cannot rely on them.
#[test]
fn a_record_without_an_environment_stays_valid_unless_it_must_have_one() {
    if !can_link() {
        return;
    }
    let (_kept, folder) = outside();
    library(&folder.join("libnumber.so"), 1, true);
    let program = program(&folder);
    let sandbox = Sandbox::with(&recipe(&program, ""));
    run(&sandbox);
    // Turning it on runs nothing again: the record has its environment.
    sandbox.write("recipe.yaml", &recipe(&program, ", environment: strict"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    forget_environments(&sandbox);
    sandbox.write("recipe.yaml", &recipe(&program, ""));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    let said = ok(sandbox.sweep(&["explain", "recipe.yaml", "a"]));
    assert!(!said.contains("environment"), "{said}");
    sandbox.write("recipe.yaml", &recipe(&program, ", environment: strict"));
    let said = plan(&sandbox, &["--why"]);
    assert!(said.contains("environment not recorded → recorded"), "{said}");
    run(&sandbox);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn environments_travel_with_their_records() {
    if !can_link() {
        return;
    }
    let (_kept, folder) = outside();
    library(&folder.join("libnumber.so"), 1, true);
    let sandbox = Sandbox::with(&recipe(&program(&folder), ", environment: strict"));
    run(&sandbox);
    ok(sandbox.sweep(&["cache", "export", "records.tar", "recipe.yaml"]));
    fs_err::remove_dir_all(sandbox.path("results")).unwrap();
    ok(sandbox.sweep(&["cache", "import", "records.tar"]));
    assert_eq!(environments(&sandbox).len(), 1);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// Bytes that are no text, control characters and marks that turn the direction of writing.
#[test]
fn strange_names_are_recorded_and_shown_harmlessly() {
    if !can_link() {
        return;
    }
    let (_kept, folder) = outside();
    let strange = folder.join(std::ffi::OsStr::from_bytes(b"lib\xff\x1b[31m\n\xe2\x80\xaee\\'.so.1"));
    library(&strange, 1, true);
    let loader = folder.join("loader");
    compile(
        &[Path::new("-o"), &loader],
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(void) { \
         void *library = dlopen(getenv(\"LIBRARY\"), RTLD_NOW);\
         int (*number)(void) = (int (*)(void)) dlsym(library, \"number\");\
         printf(\"x=%d\\n\", number()); }",
    );
    let sandbox = Sandbox::with(&recipe(&loader, ", env: { LIBRARY: { from: LIBRARY } }, environment: strict"));
    let with = |args: &[&str]| {
        let output = sandbox.command(args).env("LIBRARY", &strange).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    with(&["run", "recipe.yaml"]);
    assert!(with(&["plan", "recipe.yaml"]).contains("1 cached"));
    let said = with(&["explain", "recipe.yaml", "a", "--environment"]);
    assert!(said.contains(r"lib\xff\x1b[31m\x0a"), "{said}");
    assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:?}");
    library(&strange, 2, true);
    let said = with(&["plan", "recipe.yaml", "--why"]);
    assert!(said.contains(r"lib\xff\x1b[31m\x0a") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn what_strict_needs_is_said() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: ['true'], environment: fixed } } }");
    let said = sandbox.sweep(&["plan", "recipe.yaml"]).stderr;
    assert!(said.contains("recipe.yaml:1:") && said.contains("recorded") && said.contains("strict"), "{said}");
    let both = "steps: { a: { uses: command, with: { argv: ['true'], environment: strict, tracks: declared } } }";
    sandbox.write("recipe.yaml", both);
    let said = sandbox.sweep(&["plan", "recipe.yaml"]).stderr;
    assert!(said.contains("recipe.yaml:1:") && said.contains("`tracks: declared` observes none"), "{said}");
    sandbox.write("recipe.yaml", "steps: { a: { uses: command, with: { argv: ['true'], environment: strict } } }");
    let output = sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_OBSERVE", "off").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("`environment: strict` needs to know"), "{said}");
}
