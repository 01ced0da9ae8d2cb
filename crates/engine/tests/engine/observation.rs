//! Programs in many languages are observed by the kernel: an edit of anything that one reads runs exactly that one again.

use std::{collections::BTreeMap, fmt::Write as _, process::Command};

use crate::{
    sandbox::{Sandbox, until},
    tracking::{files, is_observed, manifests, open, run},
};

/// A way to read: its name, the shell's text, and the file that it reads, with the content before and after an edit. `$P` is the project's
/// folder, `$PY` an interpreter of Python.
struct Way {
    name: &'static str,
    run: &'static str,
    files: &'static [(&'static str, &'static str)],
    edit: Edit,
}

enum Edit {
    /// Another content of the first file.
    Content(&'static str),
    /// A file that was not there.
    New(&'static str),
    /// A link with another target.
    Link(&'static str, &'static str),
    /// Another content of a file that has the first one's inode.
    HardLink(&'static str, &'static str),
}

use Edit::{Content, HardLink, Link, New};

const WAYS: &[Way] = &[
    Way { name: "cat", run: "cat $P/f/cat", files: &[("f/cat", "x=1\n")], edit: Content("x=2\n") },
    Way { name: "awk", run: "awk '{ print \"x=\" $1 }' $P/f/awk", files: &[("f/awk", "1\n")], edit: Content("2\n") },
    Way { name: "stdin", run: "read -r v < $P/f/stdin; echo x=$v", files: &[("f/stdin", "1\n")], edit: Content("2\n") },
    Way {
        name: "source",
        run: ". $P/f/lib.sh; value",
        files: &[("f/lib.sh", "value() { echo x=1; }\n")],
        edit: Content("value() { echo x=2; }\n"),
    },
    Way { name: "script", run: "sh $P/f/tool", files: &[("f/tool", "echo x=1\n")], edit: Content("echo x=2\n") },
    Way {
        name: "make",
        run: "make -s -C $P/mk",
        files: &[("mk/value", "x=1\n"), ("mk/Makefile", "all:\n\t@cat value\n")],
        edit: Content("x=2\n"),
    },
    Way {
        name: "rplus",
        run: "$PY -c 'print(\"x=\" + open(\"'$P/f/rplus'\", \"r+b\").read().decode())'",
        files: &[("f/rplus", "1")],
        edit: Content("2"),
    },
    Way {
        name: "mmap",
        run: "$PY -c 'import mmap; f = open(\"'$P/f/mmap'\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); print(\"x=\" + m[:].decode())'",
        files: &[("f/mmap", "1")],
        edit: Content("2"),
    },
    Way {
        name: "rdwr",
        run: "$PY -c 'import os; print(\"x=\" + os.read(os.open(\"'$P/f/rdwr'\", os.O_RDWR), 9).decode())'",
        files: &[("f/rdwr", "1")],
        edit: Content("2"),
    },
    Way {
        name: "dir_fd",
        run: "$PY -c 'import os; d = os.open(\"'$P/f'\", os.O_RDONLY); print(\"x=\" + os.read(os.open(\"dir_fd\", os.O_RDONLY, dir_fd=d), 9).decode())'",
        files: &[("f/dir_fd", "1")],
        edit: Content("2"),
    },
    Way {
        name: "size",
        run: "$PY -c 'import os; print(\"x=%d\" % os.stat(\"'$P/f/size'\").st_size)'",
        files: &[("f/size", "1")],
        edit: Content("22"),
    },
    Way {
        name: "pythonpath",
        run: "PYTHONPATH=$P/src $PY -c 'import of_path; print(\"x=%d\" % of_path.x)'",
        files: &[("src/of_path.py", "x = 1\n")],
        edit: Content("x = 22\n"),
    },
    Way {
        name: "isolated",
        run: "$PY -I $P/isolated/a.py",
        files: &[("isolated/a.py", "print('x=1')\n")],
        edit: Content("print('x=22')\n"),
    },
    Way {
        name: "ignores",
        run: "bash -c \"$PY -E $P/ignores/a.py\"",
        files: &[("ignores/b.py", "x = 1\n"), ("ignores/a.py", "import b\nprint('x=%d' % b.x)\n")],
        edit: Content("x = 22\n"),
    },
    Way {
        name: "nothing",
        run: "env -i $PY $P/nothing/a.py",
        files: &[("nothing/b.py", "x = 1\n"), ("nothing/a.py", "import b\nprint('x=%d' % b.x)\n")],
        edit: Content("x = 22\n"),
    },
    Way {
        name: "child",
        run: "$PY -c 'import subprocess, sys; subprocess.run([sys.executable, \"'$P/child/a.py'\"], env={}, check=True)'",
        files: &[("child/b.py", "x = 1\n"), ("child/a.py", "import b\nprint('x=%d' % b.x)\n")],
        edit: Content("x = 22\n"),
    },
    Way {
        name: "vendored",
        run: "PYTHONPATH=$P/third/site-packages $PY -c 'import vendored; print(\"x=%d\" % vendored.x)'",
        files: &[("third/site-packages/vendored/__init__.py", "x = 1\n")],
        edit: Content("x = 22\n"),
    },
    Way {
        name: "sqlite",
        run: "$PY -c 'import sqlite3; print(\"x=%d\" % sqlite3.connect(\"'$P/f/p.db'\").execute(\"select x from t\").fetchone())'",
        files: &[],
        edit: Content(""),
    },
    Way {
        name: "link",
        run: "cat $P/current",
        files: &[("v1", "x=1\n"), ("v2", "x=2\n")],
        edit: Link("current", "v2"),
    },
    Way {
        name: "folder_link",
        run: "cat $P/now/value",
        files: &[("d1/value", "x=1\n"), ("d2/value", "x=2\n")],
        edit: Link("now", "d2"),
    },
    Way { name: "hard_link", run: "cat $P/h1", files: &[("h1", "x=1\n")], edit: HardLink("h2", "x=2\n") },
    Way { name: "listed", run: "echo x=$(ls $P/listed | wc -l)", files: &[("listed/a", "")], edit: New("listed/b") },
    Way {
        name: "scandir",
        run: "$PY -c 'import os; print(\"x=%d\" % len(list(os.scandir(\"'$P/scanned'\"))))'",
        files: &[("scanned/a", "")],
        edit: New("scanned/b"),
    },
    Way {
        name: "optional",
        run: "if [ -e $P/f/optional ]; then echo x=2; else echo x=1; fi",
        files: &[],
        edit: New("f/optional"),
    },
    Way {
        name: "attempted",
        run: "(cat $P/f/attempted && echo x=2) 2> err || echo x=1",
        files: &[],
        edit: New("f/attempted"),
    },
    Way {
        name: "library",
        run: "$PY -c 'import ctypes; print(\"x=%d\" % ctypes.CDLL(\"'$P/f/libx.so'\").value())'",
        files: &[],
        edit: Content(""),
    },
    Way { name: "compiled", run: "$P/f/program", files: &[], edit: Content("") },
];

/// True where a test can show nothing.
fn skips() -> bool {
    if !is_observed() {
        eprintln!("skipped: the kernel reports no system calls here");
    }
    !is_observed()
}

fn python() -> String {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Creates the files that are not text.
fn build(sandbox: &Sandbox, value: u32) {
    let sh = |script: &str| {
        assert!(Command::new("sh").args(["-euc", script]).current_dir(sandbox.path("")).status().unwrap().success());
    };
    sh(&format!(
        "rm -f f/p.db; python3 -c 'import sqlite3; d = sqlite3.connect(\"f/p.db\"); d.execute(\"create table t (x)\"); \
         d.execute(\"insert into t values ({value})\"); d.commit()'"
    ));
    if has("cc") {
        sh(&format!("echo 'int value(void) {{ return {value}; }}' > lib.c; cc -shared -fPIC -o f/libx.so lib.c"));
        sh(&format!(
            "echo '#include <stdio.h>\nint main(void) {{ puts(\"x={value}\"); }}' > main.c; cc -o f/program main.c"
        ));
    }
}

/// The values of `x`, by step.
fn values(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let ended = sandbox.sweep(&["query", "recipe.yaml", "--select", "label,x", "--format", "csv"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let rows = ended.stdout.lines().skip(1).filter_map(|line| line.split_once(','));
    rows.map(|(label, x)| (label.to_owned(), x.to_owned())).collect()
}

#[test]
fn an_edit_of_anything_that_a_program_reads_runs_it_again() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::new();
    let ways: Vec<&Way> = WAYS.iter().filter(|way| has("cc") || !matches!(way.name, "library" | "compiled")).collect();
    let mut recipe = "steps:\n".to_owned();
    for way in &ways {
        let run =
            way.run.replace("$PY", &python()).replace("$P", sandbox.path("").to_str().unwrap().trim_end_matches('/'));
        writeln!(recipe, "  {}:\n    uses: command\n    with:\n      run: |\n        {run}", way.name).unwrap();
        for (name, content) in way.files {
            sandbox.write(name, content);
        }
    }
    sandbox.write("recipe.yaml", &recipe);
    sandbox.write("f/other", "");
    sandbox.write("src/unread.py", "");
    fs_err::os::unix::fs::symlink("v1", sandbox.path("current")).unwrap();
    fs_err::os::unix::fs::symlink("d1", sandbox.path("now")).unwrap();
    fs_err::hard_link(sandbox.path("h1"), sandbox.path("h2")).unwrap();
    build(&sandbox, 1);
    let said = run(&sandbox);
    assert!(!said.contains("not observed"), "{said}");
    let first = values(&sandbox);
    assert_eq!(first.len(), ways.len());
    assert_eq!(open(&sandbox), Vec::<String>::new());
    // Nothing has read these.
    sandbox.write("f/other", "other");
    sandbox.write("f/new", "");
    sandbox.write("src/unread.py", "edited = 1\n");
    sandbox.write("listed/.a.swp", "");
    assert_eq!(open(&sandbox), Vec::<String>::new());
    for way in &ways {
        let before = open(&sandbox);
        match way.edit {
            Content("") => {}
            Content(content) => sandbox.write(way.files[0].0, content),
            New(name) => sandbox.write(name, ""),
            Link(link, target) => {
                fs_err::remove_file(sandbox.path(link)).unwrap();
                fs_err::os::unix::fs::symlink(target, sandbox.path(link)).unwrap();
            }
            HardLink(name, content) => sandbox.write(name, content),
        }
        if !matches!(way.edit, Content("")) {
            let now = open(&sandbox);
            let new: Vec<&String> = now.iter().filter(|name| !before.contains(name)).collect();
            assert_eq!(new, [way.name], "the edit runs exactly this one again");
        }
    }
    build(&sandbox, 2);
    assert_eq!(open(&sandbox).len(), ways.len(), "{:?}", open(&sandbox));
    run(&sandbox);
    let second = values(&sandbox);
    let stale: Vec<&String> =
        first.iter().filter(|(name, value)| second.get(*name) == Some(*value)).map(|(name, _)| name).collect();
    assert_eq!(stale, Vec::<&String>::new());
    assert_eq!(open(&sandbox), Vec::<String>::new());
}

#[test]
fn explanations_name_links_and_names() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::new();
    let project = sandbox.path("").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &format!("steps: {{ a: {{ uses: command, with: {{ run: 'cat {project}current; ls {project}d; cat {project}opt || true' }} }} }}"),
    );
    sandbox.write("v1", "x=1\n");
    sandbox.write("v2", "x=2\n");
    sandbox.write("d/a", "");
    let link = |target: &str| {
        let _ = fs_err::remove_file(sandbox.path("current"));
        fs_err::os::unix::fs::symlink(target, sandbox.path("current")).unwrap();
    };
    link("v1");
    run(&sandbox);
    let why = || sandbox.sweep(&["plan", "recipe.yaml", "--why"]).stdout;
    link("v2");
    assert!(why().contains("current v1 → v2; 1 job reads it"), "{}", why());
    link("v1");
    sandbox.write("d/b", "");
    assert!(why().contains("names in d changed; 1 job reads it"), "{}", why());
    fs_err::remove_file(sandbox.path("d/b")).unwrap();
    sandbox.write("opt", "");
    assert!(why().contains("opt absent → there; 1 job reads it"), "{}", why());
    fs_err::remove_file(sandbox.path("opt")).unwrap();
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// A job that reads a file of the project and replaces it is valid as long as nobody else changes the file.
#[test]
fn a_state_that_jobs_read_and_replace() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { seed: [0, 1] }, with: { argv: [python3, a.py], inputs: [a.py], seed: '${{ matrix.seed }}' } } }",
    );
    sandbox.write(
        "a.py",
        "import json, os
here = os.path.dirname(os.path.realpath(__file__))
state = os.path.join(here, 'state.json')
count = json.load(open(state))['count'] + 1
with open(state + '.new', 'w') as file:
    json.dump({'count': count}, file)
os.replace(state + '.new', state)
print('x=%d' % count)
",
    );
    // Both jobs write one file.
    let one_by_one = || assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "-j", "1"]).code, Some(0));
    sandbox.write("state.json", "{\"count\": 0}");
    one_by_one();
    assert_eq!(open(&sandbox), Vec::<String>::new());
    assert_eq!(sandbox.read("state.json"), "{\"count\": 2}");
    sandbox.write("state.json", "{\"count\": 70}");
    assert_eq!(open(&sandbox), ["a/seed=0", "a/seed=1"]);
    one_by_one();
    assert_eq!(open(&sandbox), Vec::<String>::new());
    assert_eq!(sandbox.read("state.json"), "{\"count\": 72}");
    // The record of the second run has read 70 or 71, not 0.
    sandbox.write("state.json", "{\"count\": 5}");
    assert_eq!(open(&sandbox), ["a/seed=0", "a/seed=1"]);
}

#[test]
fn caches_that_jobs_write_are_no_changes_by_others() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { seed: [0, 1] }, with: { argv: [python3, a.py], inputs: [a.py], seed: '${{ matrix.seed }}' } } }",
    );
    sandbox.write(
        "a.py",
        "import os, shutil
here = os.path.dirname(os.path.realpath(__file__))
data = os.path.join(here, 'data')
names = [name for name in os.listdir(data) if name.endswith('.txt')]
cache = os.path.join(data, 'labels.cache')
if os.path.exists(cache):
    total = int(open(cache).read())
else:
    total = sum(int(open(os.path.join(data, name)).read()) for name in names)
    with open(cache, 'w') as file:
        file.write(str(total))
shutil.rmtree(os.path.join(here, '__pycache__'), ignore_errors=True)
for attempt in range(100):
    try:
        os.makedirs(os.path.join(here, '__pycache__'), exist_ok=True)
        open(os.path.join(here, '__pycache__', 'a.nbi'), 'a').write('x')
        break
    except FileNotFoundError:
        pass  # The other job has just removed the folder.
print('x=%d' % total)
",
    );
    sandbox.write("data/a.txt", "1");
    run(&sandbox);
    assert_eq!(open(&sandbox), Vec::<String>::new());
    sandbox.write("data/b.txt", "1");
    assert_eq!(open(&sandbox), ["a/seed=0", "a/seed=1"], "they have listed the folder");
    run(&sandbox);
    assert_eq!(open(&sandbox), Vec::<String>::new());
}

#[test]
fn a_file_that_is_opened_for_writing_but_not_changed_is_read() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::new();
    let project = sandbox.path("").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &format!("steps: {{ a: {{ uses: command, with: {{ run: ': >> {project}f; cat {project}f' }} }} }}"),
    );
    sandbox.write("f", "x=1\n");
    run(&sandbox);
    sandbox.write("f", "x=2\n");
    assert_eq!(open(&sandbox), ["a"]);
}

#[test]
fn a_module_that_appears_before_the_one_that_was_found() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { argv: [python3, a.py], inputs: [a.py], env: { PYTHONPATH: '${{ params.lib }}' } } } }
params: { lib: x }",
    );
    sandbox.write("a.py", "import helper\nprint('x=%d' % helper.x)\n");
    sandbox.write("lib/helper.py", "x = 1\n");
    let set = format!("lib={}", sandbox.path("lib").display());
    let arguments = ["recipe.yaml", "--set", &set];
    assert_eq!(sandbox.sweep(&[&["run"], arguments.as_slice()].concat()).code, Some(0));
    sandbox.write("unrelated.py", "");
    sandbox.assert_all_cached(&arguments);
    sandbox.write("helper.py", "x = 2\n");
    assert_eq!(sandbox.plan_tally(&arguments), (0, 1));
}

#[test]
fn strict_knows_every_language_and_refuses_where_it_cannot_know() {
    if skips() {
        return;
    }
    let recipe = |project: &str, tracks: &str| {
        format!("steps: {{ a: {{ uses: command, with: {{ run: 'cat {project}f', tracks: {tracks} }} }} }}")
    };
    let sandbox = Sandbox::new();
    let project = sandbox.path("").display().to_string();
    sandbox.write("recipe.yaml", &recipe(&project, "strict"));
    sandbox.write("f", "x=1\n");
    let fails = |arguments: &[&str], switch: &str| {
        let output = sandbox.command(arguments).env("SWEEP_OBSERVE", switch).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        sandbox.failure("a")["message"].as_str().unwrap().to_owned()
    };
    let message = fails(&["run", "recipe.yaml"], "on");
    assert_eq!(message, "the program read files that are not declared: `f`; add it to `inputs`");
    let message = fails(&["run", "recipe.yaml"], "off");
    assert!(message.starts_with("`tracks: strict` needs to know all files"), "{message}");
    assert!(message.contains("`SWEEP_OBSERVE` is `off`"), "{message}");

    sandbox.write("recipe.yaml", &recipe(&project, "code"));
    let output = sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_OBSERVE", "off").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("not observed: the files that the program reads, because `SWEEP_OBSERVE` is `off`"),
        "{said}"
    );
}

/// The supervisor lives as long as the program, whose processes end with their worker.
#[test]
fn observed_programs_end_with_their_engine() {
    let sandbox = Sandbox::new();
    let project = sandbox.path("").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &format!("steps: {{ a: {{ uses: command, with: {{ run: ': > {project}begun; while :; do cat {project}f > out; done' }} }} }}"),
    );
    sandbox.write("f", "");
    let running = sandbox.start(&["run", "recipe.yaml"]);
    until("the program runs", || sandbox.path("begun").exists());
    running.signal(rustix::process::Signal::KILL);
    drop(running);
    until("no worker is left", || sandbox.workers().is_empty());
}

#[test]
fn a_project_in_which_an_environment_is() {
    if skips() {
        return;
    }
    let sandbox = Sandbox::new();
    let project = sandbox.path("").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &format!("steps: {{ a: {{ uses: command, with: {{ run: 'cat {project}.venv/lib/a {project}f' }} }} }}"),
    );
    sandbox.write(".venv/pyvenv.cfg", "");
    sandbox.write(".venv/lib/a", "x=1\n");
    sandbox.write("f", "");
    run(&sandbox);
    assert_eq!(files(&sandbox, &manifests(&sandbox)[0]), ["f"]);
}
