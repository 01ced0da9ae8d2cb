//! Sources of an observation: Python as it is started, files of dependencies, and reports and manifests with anything in
//! them.

use std::os::unix::ffi::OsStringExt as _;

use serde_json::Value;

use crate::{
    sandbox::Sandbox,
    tracking::{files, is_observed, manifests, open, run, study},
};

#[test]
fn the_script_behaves_as_without_observation() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py], env: { PYTHONPATH: '${{ params.own }}' } } } }
params: { own: x }",
    );
    sandbox.write("own/sitecustomize.py", "import builtins\nbuiltins.mine = True\n");
    sandbox.write("own/helper.py", "x = 1\n");
    sandbox.write(
        "a.py",
        "import sys, sitecustomize, helper
assert mine and sitecustomize.__file__.endswith('own/sitecustomize.py'), sitecustomize.__file__
assert not any('tracking' in folder for folder in sys.path), sys.path
for fd in range(3, 64):
    try:
        import os; os.close(fd)
    except OSError:
        pass
import late
print('ok=1')
",
    );
    sandbox.write("late.py", "");
    let own = sandbox.path("own");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", &format!("own={}", own.display())]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(files(&sandbox, &manifests(&sandbox)[0]), ["late.py", "own/helper.py", "own/sitecustomize.py"]);
}

#[test]
fn a_python_that_ignores_its_environment_is_observed_by_the_kernel_and_says_so_without_it() {
    for option in ["-I", "-E", "-S"] {
        let sandbox = Sandbox::with(&format!(
            "steps: {{ a: {{ uses: command, with: {{ argv: [python3, {option}, a.py], inputs: [a.py] }} }} }}"
        ));
        sandbox.write(
            "a.py",
            "import os\nprint('x=' + open(os.path.join(os.path.dirname(os.path.realpath(__file__)), 'f')).read())\n",
        );
        sandbox.write("f", "1");
        let output = sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_OBSERVE", "off").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("not observed: the files that the program reads"), "{said}");
        assert_eq!(manifests(&sandbox), Vec::<Value>::new());
        if !is_observed() {
            continue;
        }
        sandbox.write("a.py", &sandbox.read("a.py").replace("x=", "y="));
        run(&sandbox);
        assert_eq!(files(&sandbox, &manifests(&sandbox)[0]), ["f"]);
        sandbox.write("f", "2");
        assert_eq!(open(&sandbox), ["a"]);
    }
}

#[test]
fn a_compiler_lists_its_dependencies() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { argv: [sh, ./build.sh], inputs: [build.sh], depfile: out.d, outputs: [out] } } }",
    );
    // As gcc writes it, with a blank in a name.
    sandbox.write(
        "build.sh",
        "here=$(dirname \"$(readlink -f build.sh)\")\necho x > out\nprintf 'out: %s/a.c \\\\\\n %s/my\\\\ dir/b.h build.sh\\n' \"$here\" \"$here\" > out.d\necho ok=1\n",
    );
    sandbox.write("a.c", "1");
    sandbox.write("my dir/b.h", "1");
    run(&sandbox);
    let found = manifests(&sandbox);
    assert_eq!(found[0]["tool"], "depfile");
    assert_eq!(files(&sandbox, &found[0]), ["a.c", "my dir/b.h"]);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("my dir/b.h", "2");
    assert_eq!(open(&sandbox), ["a"]);
    run(&sandbox);
    sandbox.write("build.sh", "echo no rule > out.d; echo x > out\n");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(sandbox.failure("a")["message"].as_str().unwrap().contains("is not in Makefile format"));
}

#[test]
fn names_of_any_bytes() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } } }");
    sandbox.write(
        "a.py",
        "import os
here = os.fsencode(os.path.dirname(os.path.realpath(__file__)))
for name in (b'new\\nline', b'not utf-8 \\xff', b'tab\\t\\\\slash', b'\\x1b[31mred'):
    open(os.path.join(here, name)).read()
print('ok=1')
",
    );
    let names: [&[u8]; 4] = [b"new\nline", b"not utf-8 \xff", b"tab\t\\slash", b"\x1b[31mred"];
    let path = |name: &[u8]| sandbox.path("").join(std::ffi::OsString::from_vec(name.to_vec()));
    for name in names {
        fs_err::write(path(name), "1").unwrap();
    }
    run(&sandbox);
    assert_eq!(files(&sandbox, &manifests(&sandbox)[0]).len(), 4);
    for name in names {
        sandbox.assert_all_cached(&["recipe.yaml"]);
        fs_err::write(path(name), "2").unwrap();
        assert_eq!(open(&sandbox), ["a"]);
        let said = sandbox.sweep(&["explain", "recipe.yaml", "a"]).stdout;
        assert!(!said.contains('\u{1b}') && said.contains(" changed"), "{said:?}");
        fs_err::write(path(name), "1").unwrap();
    }
}

#[test]
fn a_list_of_manifests_that_is_damaged() {
    let sandbox = study();
    run(&sandbox);
    let list = sandbox.path("results/store/manifests/list.jsonl");
    let whole = fs_err::read_to_string(&list).unwrap();
    // A torn line is followed by whole ones.
    fs_err::write(&list, format!("{{\"base\": 7}}\n\u{0}\u{1}\n{whole}{{\"base\":\"12")).unwrap();
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("utils.py", "def loss():\n    return 2\n");
    run(&sandbox);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("utils.py", "def loss():\n    return 1\n");
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn a_script_that_is_no_input() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [sh, run.sh], inputs: [] } } }");
    sandbox.write("run.sh", "echo ok=1\n");
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert!(ended.stderr.contains("`a` runs `run.sh`, which is not in the job's folder"), "{}", ended.stderr);
    assert!(ended.stderr.contains("add `inputs: [run.sh]`"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let absolute = sandbox.path("run.sh").display().to_string();
    sandbox.write("recipe.yaml", &format!("steps: {{ a: {{ uses: command, with: {{ argv: [sh, {absolute}] }} }} }}"));
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    run(&sandbox);
    sandbox.write("run.sh", "echo ok=2\n");
    assert_eq!(open(&sandbox).len(), usize::from(is_observed()));
    let declared = format!("argv: [sh, {absolute}], tracks: declared");
    sandbox.write("recipe.yaml", &format!("steps: {{ a: {{ uses: command, with: {{ {declared} }} }} }}"));
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert!(ended.stderr.contains("a change of this file does not run the job again"), "{}", ended.stderr);
    sandbox.write("run.py", "print('ok=1')\n");
    let absolute = sandbox.path("run.py").display().to_string();
    sandbox
        .write("recipe.yaml", &format!("steps: {{ a: {{ uses: command, with: {{ argv: [python3, {absolute}] }} }} }}"));
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    run(&sandbox);
    sandbox.write("run.py", "print('ok=2')\n");
    assert_eq!(open(&sandbox), ["a"]);
}

/// The key of a first run has no code in it, so two machines with other code have the same key. The observation that comes
/// with a record says whose code it is.
#[test]
fn a_record_of_another_machine_is_not_taken_for_that_of_other_code() {
    let folder = tempfile::tempdir().unwrap();
    let remote = format!("file://{}", folder.path().display());
    let run = |sandbox: &Sandbox| {
        let before = sandbox.starts().values().sum::<usize>();
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--remote", &remote]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        sandbox.starts().values().sum::<usize>() - before
    };
    let loss = |sandbox: &Sandbox| {
        let args = ["query", "recipe.yaml", "--select", "label,loss", "--format", "csv"];
        let ended = sandbox.sweep(&args);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let changed = "def loss():\n    return 2\n";
    let (first, second, third) = (study(), study(), study());
    assert_eq!(run(&first), 4);
    assert_eq!(run(&second), 0, "the same code");
    third.write("utils.py", changed);
    assert_eq!(run(&third), 3, "both trainings and the job that needs them");
    assert_ne!(loss(&third), loss(&first));
    assert_eq!(run(&third), 0);

    // Every machine with the third machine's code uses its results.
    second.write("utils.py", changed);
    assert_eq!(run(&second), 0);
    assert_eq!(loss(&second), loss(&third));
    assert_eq!(second.sweep(&["cache", "verify"]).code, Some(0));

    // Archives bring observations, too.
    let fourth = study();
    fourth.write("utils.py", changed);
    let archive = fourth.path("records.tar").display().to_string();
    assert_eq!(first.sweep(&["cache", "export", "recipe.yaml", "-o", &archive]).code, Some(0));
    let imported = fourth.sweep(&["cache", "import", &archive]);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert_eq!(open(&fourth), ["sum", "train/seed=0", "train/seed=1"]);
    fourth.write("utils.py", "def loss():\n    return 1\n");
    fourth.assert_all_cached(&["recipe.yaml"]);
}

/// What a link of the project leads to is data, even where other files are not.
#[test]
fn data_behind_links_of_the_project_counts() {
    if !is_observed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (hidden, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/tmp").unwrap());
    let data = hidden.path().join(".data");
    fs_err::create_dir(&data).unwrap();
    fs_err::write(data.join("y"), "1").unwrap();
    fs_err::write(temporary.path().join("z"), "10").unwrap();
    std::os::unix::fs::symlink(data.join("y"), sandbox.path("y.txt")).unwrap();
    std::os::unix::fs::symlink(temporary.path(), sandbox.path("data")).unwrap();
    sandbox.write("t.py", "print('loss=%d' % (int(open('y.txt').read()) + int(open('data/z').read())))\n");
    sandbox.write("recipe.yaml", "steps: { a: { uses: command, with: { argv: [python3, t.py] } } }");
    let check = |loss: &str| {
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert!(ended.code == Some(0) && ended.stderr.contains(&format!("loss {loss}")), "{loss}: {}", ended.stderr);
    };
    check("11");
    fs_err::write(data.join("y"), "2").unwrap();
    check("12");
    fs_err::write(temporary.path().join("z"), "20").unwrap();
    check("22");
}
