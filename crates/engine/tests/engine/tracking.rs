//! The files that a program was observed to read decide whether its record is valid.

use serde_json::Value;

use crate::sandbox::{Sandbox, list, until};

/// Two seeds that read `utils.py`, one that also reads `special.py`, and a job that needs them all.
const STUDY: &str = "
steps:
  train:
    uses: command
    matrix: { seed: [0, 1] }
    with: { argv: [python3, train.py], inputs: [train.py], seed: '${{ matrix.seed }}' }
  other:
    uses: command
    with: { argv: [python3, other.py], inputs: [other.py] }
  sum:
    needs: train
    uses: command
    with: { run: 'echo total=1' }
";

/// A study with its files, of which nothing has run.
pub(crate) fn study() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    sandbox.write(
        "train.py",
        "import os\nimport utils\nif os.environ['SWEEP_SEED'] == '1':\n    import special\nprint('loss=%d' % utils.loss())\n",
    );
    sandbox.write("utils.py", "def loss():\n    return 1\n");
    sandbox.write("special.py", "value = 1\n");
    sandbox.write("unread.py", "value = 1\n");
    sandbox.write("other.py", "print('loss=5')\n");
    sandbox
}

pub(crate) fn run(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr
}

/// The labels of the jobs that would run.
pub(crate) fn open(sandbox: &Sandbox) -> Vec<String> {
    let planned = sandbox.planned(&["recipe.yaml"]);
    planned.into_iter().filter(|(_, state)| state == "to run").map(|(label, _)| label).collect()
}

/// The manifests of a store.
pub(crate) fn manifests(sandbox: &Sandbox) -> Vec<Value> {
    let text = fs_err::read_to_string(sandbox.path("results/store/manifests/list.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The paths of the files of a manifest.
pub(crate) fn files(sandbox: &Sandbox, manifest: &Value) -> Vec<String> {
    let id = manifest["set"].as_str().unwrap();
    let set: Value =
        serde_json::from_str(&sandbox.read(&format!("results/store/manifests/sets/{}/{id}", &id[..2]))).unwrap();
    set["files"].as_object().unwrap().keys().cloned().collect()
}

/// True if the kernel reports what programs do. Elsewhere, nobody observes a shell.
pub(crate) fn is_observed() -> bool {
    sweep_observer::is_supported()
}

#[test]
fn the_jobs_that_read_an_edited_module_run_again() {
    let sandbox = study();
    run(&sandbox);
    assert_eq!(open(&sandbox), Vec::<String>::new());
    assert_eq!(manifests(&sandbox).len(), 3 + usize::from(is_observed()), "the shell is no Python");

    sandbox.write("unread.py", "value = 1  # a comment\n");
    sandbox.write("notes.md", "new");
    assert_eq!(open(&sandbox), Vec::<String>::new(), "nothing has read it");

    sandbox.write("special.py", "value = 2\n");
    assert_eq!(open(&sandbox), ["sum", "train/seed=1"], "the other seed has not imported it");

    sandbox.write("utils.py", "def loss():\n    return 2\n");
    assert_eq!(open(&sandbox), ["sum", "train/seed=0", "train/seed=1"]);
    run(&sandbox);
    assert_eq!(sandbox.tally(), [("cached", 1), ("done", 3)]);
    let starts = sandbox.starts();
    assert_eq!((starts["other"], starts["train/seed=0"], starts["train/seed=1"], starts["sum"]), (1, 2, 2, 2));

    // The results before the edits are valid again, and so are the results after them.
    sandbox.write("special.py", "value = 1\n");
    sandbox.write("utils.py", "def loss():\n    return 1\n");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert!(sandbox.sweep(&["report", "recipe.yaml"]).code == Some(0));
    sandbox.write("special.py", "value = 2\n");
    sandbox.write("utils.py", "def loss():\n    return 2\n");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "keys have the code");
}

#[test]
fn explanations_name_the_file_and_who_imported_it() {
    let sandbox = study();
    run(&sandbox);
    sandbox.write("utils.py", "def loss():\n    return 3\n");
    let said = sandbox.sweep(&["explain", "recipe.yaml", "train/seed=0"]).stdout;
    assert!(said.contains("utils.py changed   imported by train.py"), "{said}");
    let said = sandbox.sweep(&["plan", "recipe.yaml", "--why"]).stdout;
    assert_eq!(said.matches("utils.py changed; 2 jobs read it").count(), 3, "{said}");
    fs_err::remove_file(sandbox.path("utils.py")).unwrap();
    let said = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(said.contains("utils.py is gone; 2 jobs read it"), "{said}");
}

/// A return to an earlier version of a script that reads a file which has changed meanwhile.
#[test]
fn a_file_that_only_some_versions_read_is_not_forgotten() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
    sandbox.write("a.py", "import b\nb.run()\n");
    let versions = ["def run():\n    pass\n", "def run():\n    import c\n    print('c=%d' % c.c)\n"];
    sandbox.write("c.py", "c = 1\n");
    for version in [versions[0], versions[1]] {
        sandbox.write("b.py", version);
        run(&sandbox);
    }
    sandbox.write("b.py", "def run():\n    print('x=1')\n");
    run(&sandbox);
    sandbox.write("b.py", versions[1]);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("c.py", "c = 2\n");
    assert_eq!(open(&sandbox), ["a"]);
    run(&sandbox);
    let values: Vec<f64> =
        all_records(&sandbox).iter().filter_map(|record| record["outcome"]["metrics"]["c"]["value"].as_f64()).collect();
    assert!(values.contains(&1.0) && values.contains(&2.0), "{values:?}");
}

/// All records, several of one job included.
fn all_records(sandbox: &Sandbox) -> Vec<Value> {
    let shards = list(&sandbox.path("results/store")).into_iter().filter(|path| path.file_name().unwrap().len() == 2);
    let records = shards.flat_map(|shard| list(&shard));
    records.map(|job| serde_json::from_slice(&fs_err::read(job.join("record.json")).unwrap()).unwrap()).collect()
}

#[test]
fn data_of_the_project_is_tracked_and_what_the_program_writes_is_not() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
    sandbox.write(
        "a.py",
        "import os
here = os.path.dirname(os.path.realpath(__file__))
at = lambda name: os.path.join(here, name)
open(at('data.txt')).read()
os.close(os.open(at('raw.bin'), os.O_RDONLY))
open(at('log.txt'), 'a').write('x')
open(at('log.txt')).read()
open(at('made.txt'), 'w').write('x')
open(at('made.txt')).read()
open('own.txt', 'w').write('x')
open('own.txt').read()
open(os.environ['SWEEP_SCRATCH'] + '/state', 'w').close()
open(os.environ['SWEEP_SCRATCH'] + '/state').read()
open('/proc/self/stat').read()
try:
    open(at('missing.txt'))
except FileNotFoundError:
    pass
print('ok=1')
",
    );
    sandbox.write("data.txt", "1");
    sandbox.write("raw.bin", "1");
    sandbox.write("log.txt", "");
    run(&sandbox);
    assert_eq!(files(&sandbox, &manifests(&sandbox)[0]), ["data.txt", "raw.bin"]);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("data.txt", "2");
    assert_eq!(open(&sandbox), ["a"]);
}

#[test]
fn processes_that_a_program_starts_are_observed() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
    sandbox.write(
        "a.py",
        "import multiprocessing, os, subprocess, sys
here = os.path.dirname(os.path.realpath(__file__))

def forked(_):
    import in_fork
    return 1

def spawned(_):
    import in_spawn
    return 1

if __name__ == '__main__':
    for method, work in (('fork', forked), ('spawn', spawned)):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work, [1, 2]) == [1, 1]
    subprocess.run([sys.executable, os.path.join(here, 'child.py')], check=True)
    print('ok=1')
",
    );
    for name in ["in_fork.py", "in_spawn.py", "child.py"] {
        sandbox.write(name, "x = 1\n");
    }
    run(&sandbox);
    assert_eq!(files(&sandbox, &manifests(&sandbox)[0]), ["child.py", "in_fork.py", "in_spawn.py"]);
}

#[test]
fn declared_tracks_nothing_and_strict_refuses() {
    let recipe = |tracks: &str| {
        format!(
            "steps: {{ a: {{ uses: command, with: {{ argv: [python3, a.py], inputs: [a.py], tracks: {tracks} }} }} }}"
        )
    };
    let sandbox = Sandbox::with(&recipe("strict"));
    sandbox.write("a.py", "import b\nprint('ok=1')\n");
    sandbox.write("b.py", "");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    if is_observed() {
        let message = sandbox.failure("a")["message"].as_str().unwrap().to_owned();
        assert_eq!(message, "the program read files that are not declared: `b.py`; add it to `inputs`");
        sandbox.write("recipe.yaml", &recipe("strict").replace("[a.py]", "[a.py, b.py]"));
        run(&sandbox);
    }
    let count = manifests(&sandbox).len();
    assert!(manifests(&sandbox).iter().all(|manifest| files(&sandbox, manifest).is_empty()), "all files are declared");

    sandbox.write("recipe.yaml", &recipe("declared"));
    run(&sandbox);
    sandbox.write("b.py", "x = 1");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(manifests(&sandbox).len(), count);
    // The key does not say how the code is tracked.
    sandbox.write("recipe.yaml", &recipe("code"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn a_module_that_is_edited_while_the_job_runs() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
    sandbox.write(
        "a.py",
        "import b, os, time
here = os.path.dirname(os.path.realpath(__file__))
os.mkdir(os.path.join(here, 'imported'))
while not os.path.exists(os.path.join(here, 'edited')):
    time.sleep(0.01)
print('ok=1')
",
    );
    sandbox.write("b.py", "");
    for planned in [false, true] {
        let running = sandbox.start(&["run", "recipe.yaml"]);
        until("the module is imported", || sandbox.path("imported").exists());
        sandbox.write("b.py", &format!("edited = '{planned}'\n"));
        sandbox.write("edited", "");
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        // The content that it had read is known from the copy of the file.
        let message = "`b.py` changed during the run: 1 job ";
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert_eq!(manifests(&sandbox).len(), 1 + 2 * usize::from(planned));
        // The next time the file is one of those that the key has.
        fs_err::remove_dir(sandbox.path("imported")).unwrap();
        run(&sandbox);
        fs_err::remove_dir(sandbox.path("imported")).unwrap();
        fs_err::remove_file(sandbox.path("edited")).unwrap();
        sandbox.write("b.py", "again = 1\n");
    }
}

#[test]
fn a_package_with_another_version_runs_its_jobs_again() {
    let sandbox = Sandbox::with(
        "params: { path: x }
steps:
  a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py], env: { PYTHONPATH: '${{ params.path }}' } } }
  b: { uses: command, with: { argv: [python3, b.py], inputs: [b.py], env: { PYTHONPATH: '${{ params.path }}' } } }",
    );
    let site = "lib/site-packages";
    sandbox.write(&format!("{site}/tool/__init__.py"), "x = 1\n");
    sandbox.write(&format!("{site}/Some_Tool-1.0.dist-info/RECORD"), "tool/__init__.py,,\n");
    sandbox.write(&format!("{site}/unused-1.0.dist-info/RECORD"), "unused.py,,\n");
    sandbox.write("a.py", "import tool\nprint('ok=1')\n");
    sandbox.write("b.py", "print('ok=1')\n");
    let set = format!("path={}", sandbox.path(site).display());
    let arguments = ["recipe.yaml", "--set", &set];
    let open = || -> Vec<String> {
        let planned = sandbox.planned(&arguments).into_iter();
        planned.filter(|(_, state)| state == "to run").map(|(label, _)| label).collect()
    };
    assert_eq!(sandbox.sweep(&[&["run"], arguments.as_slice()].concat()).code, Some(0));
    sandbox.assert_all_cached(&arguments);
    let rename = |from: &str, to: &str| {
        fs_err::rename(sandbox.path(&format!("{site}/{from}")), sandbox.path(&format!("{site}/{to}"))).unwrap();
    };
    rename("unused-1.0.dist-info", "unused-2.0.dist-info");
    assert_eq!(open(), Vec::<String>::new());
    rename("Some_Tool-1.0.dist-info", "Some_Tool-1.1.dist-info");
    assert_eq!(open(), ["a"]);
    let said = sandbox.sweep(&[&["plan", "--why"], arguments.as_slice()].concat()).stdout;
    assert!(said.contains("some-tool 1.0 → 1.1; 1 job reads it"), "{said}");
    assert_eq!(sandbox.sweep(&[&["run"], arguments.as_slice()].concat()).code, Some(0));
    rename("Some_Tool-1.1.dist-info", "Some_Tool-1.0.dist-info");
    sandbox.assert_all_cached(&arguments);
}

#[test]
fn a_kill_at_any_write_leaves_no_record_whose_code_is_unknown() {
    if !cfg!(debug_assertions) {
        return;
    }
    let study = || {
        let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
        sandbox.write("a.py", "import b\nprint('b=%d' % b.b)\n");
        sandbox.write("b.py", "b = 1\n");
        sandbox
    };
    let broken = |sandbox: &Sandbox, fault: &str| {
        sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_FAILPOINTS", fault).output().unwrap()
    };
    let traced = study();
    broken(&traced, &format!("trace={}", traced.path("trace").display()));
    let points: Vec<String> = traced.read("trace").lines().map(str::to_owned).collect();
    let own: Vec<usize> = (1..=points.len()).filter(|number| points[number - 1].starts_with("manifest: ")).collect();
    assert!(own.len() >= 6, "{points:?}");
    // These, and a few of the record's own after them.
    let last = own[own.len() - 1];
    for number in own.into_iter().chain(last + 1..=(last + 8).min(points.len())) {
        for fault in ["kill", "full"] {
            let sandbox = study();
            broken(&sandbox, &format!("{fault}@{number}"));
            until("no worker is left", || sandbox.workers().is_empty());
            // If there is a record, the edit must be noticed.
            sandbox.write("b.py", "b = 2\n");
            run(&sandbox);
            let record = sandbox.planned(&["recipe.yaml"]);
            assert_eq!(record["a"], "cached");
            let said = sandbox.sweep(&["query", "recipe.yaml", "--format", "json"]).stdout;
            let rows: Value = serde_json::from_str(&said).unwrap();
            let text = rows.to_string();
            assert!(text.contains("2.0") || text.contains(":2"), "{fault}@{number} {}: {text}", points[number - 1]);
            sandbox.write("b.py", "b = 1\n");
            run(&sandbox);
            sandbox.write("b.py", "b = 2\n");
            sandbox.assert_all_cached(&["recipe.yaml"]);
        }
    }
}

#[test]
fn gc_removes_manifests_without_record() {
    let sandbox = study();
    run(&sandbox);
    sandbox.write("utils.py", "def loss():\n    return 2\n");
    run(&sandbox);
    assert_eq!(manifests(&sandbox).len(), 5 + 2 * usize::from(is_observed()));
    let ended = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(manifests(&sandbox).len(), 3 + usize::from(is_observed()), "of each job, that of its record");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("utils.py", "def loss():\n    return 1\n");
    assert_eq!(open(&sandbox), ["sum", "train/seed=0", "train/seed=1"]);
}

#[test]
fn a_bundle_of_tracked_jobs_is_verified() {
    let sandbox = study();
    run(&sandbox);
    sandbox.write("utils.py", "def loss():\n    return 2\n");
    run(&sandbox);
    let ended = sandbox.sweep(&["bundle", "recipe.yaml", "-o", "study.tar"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = sandbox.sweep(&["bundle", "verify", "study.tar"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

/// Strict tracking promises that all files are known; where they are not, the job fails and says why.
#[test]
fn strict_tracking_fails_where_files_are_not_known() {
    let run = |argv: &str, observe: &str| {
        let sandbox = Sandbox::with(&format!(
            "steps:\n  a:\n    uses: command\n    with: {{ argv: {argv}, inputs: [t.py, data.txt], tracks: strict }}\n"
        ));
        sandbox.write("data.txt", "1\n");
        sandbox.write(
            "t.py",
            "import subprocess, sys\nif len(sys.argv) > 1:\n    subprocess.run(['cat', 'data.txt'])\nprint('x=' + open('data.txt').read())\n",
        );
        let output = sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_OBSERVE", observe).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for argv in ["[python3, t.py]", "[cat, data.txt]", "[python3, t.py, more]", "[python3, -I, t.py]"] {
        let (code, said) = run(argv, "on");
        assert_eq!(code, Some(if is_observed() { 0 } else { 5 }), "{argv}: {said}");
        let (code, said) = run(argv, "off");
        assert_eq!(code, Some(5), "{argv}: {said}");
        assert!(said.contains("they are not observed: `SWEEP_OBSERVE` is `off`"), "{argv}: {said}");
    }
}

/// A file that is opened for reading and writing, as by `np.memmap`, has been read if it is unchanged. If the program changes the file, the
/// kernel reports the opening before the change.
#[test]
fn a_file_that_is_opened_for_reading_and_writing_is_read_or_named() {
    for open_file in [
        "descriptor = os.open(os.environ['STATE'], os.O_RDWR)",
        "file = open(os.environ['STATE'], 'r+b')\ndescriptor = file.fileno()",
    ] {
        let sandbox = study();
        sandbox.write("state.bin", "1");
        let read = format!("import os\n{open_file}\nprint('loss=' + os.read(descriptor, 9).decode())\n");
        sandbox.write("other.py", &read);
        let with = |tracks: &str| {
            let recipe = STUDY.replace(
                "with: { argv: [python3, other.py], inputs: [other.py] }",
                &format!(
                    "with: {{ argv: [python3, other.py], inputs: [other.py]{tracks}, env: {{ STATE: '{}' }} }}",
                    sandbox.path("state.bin").display()
                ),
            );
            sandbox.write("recipe.yaml", &recipe);
        };
        with("");
        let says = run(&sandbox);
        assert!(!says.contains("is not tracked"), "{says}");
        sandbox.write("state.bin", "2");
        assert_eq!(open(&sandbox), ["other"]);

        let write = read + "os.write(descriptor, b'3')\n";
        sandbox.write("other.py", &write);
        let output = sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_OBSERVE", "off").output().unwrap();
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(says.contains("`state.bin` is not tracked: the program reads it and writes it"), "{says}");

        if is_observed() {
            sandbox.write("other.py", &format!("{write}# observed\n"));
            run(&sandbox);
            assert_eq!(open(&sandbox), Vec::<String>::new(), "the job itself has changed the file");
            sandbox.write("state.bin", "4");
            assert_eq!(open(&sandbox), ["other"]);
        }
        with(", tracks: strict");
        sandbox.write("other.py", &(write + "# again\n"));
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(5), "{}", ended.stderr);
        let reason = if is_observed() { "not declared: `state.bin`" } else { "they are not observed" };
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    }
}
