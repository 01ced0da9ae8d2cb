//! Data outside of the project, which nobody declares: a program that was observed to read them runs again when they change.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use serde_json::json;

use crate::sandbox::{Ended, Sandbox, until};

/// A project in the folder `nets` whose script runs `body`; the data are beside it.
fn project(body: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("nets/train.py", &format!("import glob, os, sys\ndata = os.path.abspath('../data')\n{body}"));
    sandbox.write(
        "nets/recipe.yaml",
        "steps:\n  train:\n    uses: command\n    matrix: { seed: [1, 2] }\n    with: { argv: [python3, train.py, '${{ matrix.seed }}'] }\n",
    );
    sandbox.write("nets/pyproject.toml", "");
    sandbox.write("data/x.txt", "1");
    sandbox
}

/// `sweep run` in the project, not started yet.
fn command(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    command.current_dir(sandbox.path("nets")).env("SWEEP_RESULTS", sandbox.path("results"));
    command
}

fn run(sandbox: &Sandbox) -> Ended {
    let output = command(sandbox).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// The number of jobs that ran.
fn ran(sandbox: &Sandbox) -> usize {
    let ended = run(sandbox);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let number = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).find_map(|pair| pair[0].parse().ok().filter(|_| pair[1] == "done"))
    };
    ended.stderr.lines().rev().find_map(number).unwrap_or(0)
}

/// Makes a link, or replaces it.
fn lead(at: &Sandbox, link: &str, target: &str) {
    let _ = fs_err::remove_file(at.path(link));
    symlink(target, at.path(link)).unwrap();
}

/// Installs a folder with packages as `pip install -e` does.
fn install(at: &Sandbox, folder: &str) {
    at.write("site-packages/__editable__.mine-1.0.pth", &format!("{}\n", at.path(folder).display()));
}

/// A name, the body of a script, and a change of the data that it reads.
type Case<'a> = (&'a str, &'a str, fn(&Sandbox));

#[test]
fn changed_data_run_the_programs_again() {
    let cases: [Case<'_>; 9] = [
        ("a file", "print('loss=' + open(data + '/x.txt').read())", |at| at.write("data/x.txt", "2")),
        ("a new file", "print('loss=%d' % len(glob.glob(data + '/*')))", |at| at.write("data/y.txt", "2")),
        ("a missing file", "print('loss=%d' % os.path.exists(data + '/extra'))", |at| at.write("data/extra", "2")),
        ("a module", "sys.path.insert(0, '../lib')\nimport mine\nprint('loss=%d' % mine.V)", |at| {
            at.write("lib/mine.py", "V = 25\n");
        }),
        ("a link", "print('loss=' + open('../latest/x.txt').read())", |at| lead(at, "latest", "other")),
        ("a link to no data", "print('loss=' + open('../current').read())", |at| lead(at, "current", ".store/2")),
        (
            "an editable installation",
            "import site\nsite.addsitedir('../site-packages')\nimport mine\nprint('loss=%d' % mine.V)",
            |at| install(at, "lib2"),
        ),
        ("a program", "os.system('../tool')", |at| at.write("tool", "#!/bin/sh\necho loss=2\n")),
        ("a missing name beside the project", "print('loss=%d' % os.path.exists('../extra'))", |at| {
            at.write("extra", "");
        }),
    ];
    for (case, body, change) in cases {
        let sandbox = project(body);
        sandbox.write("lib/mine.py", "V = 1\n");
        sandbox.write("lib2/mine.py", "V = 2\n");
        sandbox.write("other/x.txt", "1");
        sandbox.write("tool", "#!/bin/sh\necho loss=1\n");
        fs_err::set_permissions(sandbox.path("tool"), Permissions::from_mode(0o755)).unwrap();
        sandbox.write(".store/1", "1");
        sandbox.write(".store/2", "2");
        lead(&sandbox, "latest", "data");
        lead(&sandbox, "current", ".store/1");
        install(&sandbox, "lib");
        assert_eq!((ran(&sandbox), ran(&sandbox)), (2, 0), "{case}");
        // Nothing that the program looked at.
        sandbox.write("elsewhere.txt", "");
        sandbox.write("lib/unused.txt", "");
        assert_eq!(ran(&sandbox), 0, "{case}");
        change(&sandbox);
        assert_eq!((ran(&sandbox), ran(&sandbox)), (2, 0), "{case}");
    }
}

#[test]
fn many_files_outside_of_the_project_hide_no_change_in_it() {
    let body = "\
for entry in os.scandir('../many'):
    open(entry.path).close()
    os.path.exists(entry.path[:-3] + 'txt')
scale = 2 if os.path.exists('override') else 1
print('loss=%g' % (scale * float(open('config').read())))
";
    let sandbox = project(body);
    fs_err::create_dir_all(sandbox.path("many")).unwrap();
    for number in 0..20_001 {
        fs_err::write(sandbox.path(&format!("many/{number}.png")), "").unwrap();
    }
    sandbox.write("nets/config", "1");
    let ended = run(&sandbox);
    assert!(
        ended.stderr.contains("not observed: the program reads more than 20000 files outside of the project"),
        "{}",
        ended.stderr
    );
    sandbox.write("nets/config", "2");
    assert_eq!((ran(&sandbox), ran(&sandbox)), (2, 0));
    sandbox.write("nets/override", "");
    assert_eq!((ran(&sandbox), ran(&sandbox)), (2, 0));
}

#[test]
fn a_bundle_names_files_outside_of_the_project_and_does_not_have_them() {
    let sandbox = project("print('loss=' + open(data + '/x.txt').read())");
    ran(&sandbox);
    let mut command = sandbox.command(&["bundle", "create", "recipe.yaml", "-o", "../b.tar"]);
    command.current_dir(sandbox.path("nets")).env("SWEEP_RESULTS", sandbox.path("results"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("outside of the project") && text.contains("data/x.txt"), "{text}");
    let archive = fs_err::read(sandbox.path("b.tar")).unwrap();
    assert!(!archive.windows(10).any(|part| part == b"data/x.txt"));
}

#[test]
fn caches_and_what_is_ignored_do_not_count() {
    let body = "\
for name in '.cache/hub', 'venv', 'env/lib/python3.9', '__pycache__', 'scratch':
    print(open('../%s/x.txt' % name).read())
print('loss=1')
";
    let sandbox = project(body);
    let recipe = sandbox.read("nets/recipe.yaml");
    let folder = fs_err::canonicalize(sandbox.path("")).unwrap();
    let ignore = format!("with: {{ ignore: ['{}/scratch/'], ", folder.display());
    sandbox.write("nets/recipe.yaml", &recipe.replace("with: { ", &ignore));
    sandbox.write("venv/pyvenv.cfg", "");
    let files =
        [".cache/hub", "venv", "env/lib/python3.9", "__pycache__", "scratch"].map(|name| format!("{name}/x.txt"));
    for file in &files {
        sandbox.write(file, "1");
    }
    assert_eq!(ran(&sandbox), 2);
    for file in &files {
        sandbox.write(file, "2");
        assert_eq!(ran(&sandbox), 0, "{file}");
    }
}

#[test]
fn a_file_that_the_program_changes_itself_is_no_change() {
    let body = "\
path = data + '/results.csv'
rows = open(path).read() if os.path.exists(path) else ''
open(path, 'w').write(rows + sys.argv[1] + '\\n')
print('loss=1')
";
    let sandbox = project(body);
    assert_eq!((ran(&sandbox), ran(&sandbox)), (2, 0));
    assert!(!sandbox.read("data/results.csv").is_empty());
}

#[test]
fn a_file_that_others_change_meanwhile_loses_no_job() {
    let body = "\
import time
print('loss=' + open(data + '/x.txt').read())
open(data + '/begun', 'w')
while not os.path.exists(data + '/go'):
    time.sleep(0.02)
";
    let sandbox = project(body);
    let recipe = sandbox.read("nets/recipe.yaml").replace("[1, 2]", "[1]");
    sandbox.write("nets/recipe.yaml", &recipe);
    let running = command(&sandbox).spawn().unwrap();
    until("the program has begun", || sandbox.path("data/begun").exists());
    sandbox.write("data/x.txt", "2");
    sandbox.write("data/go", "");
    let ended = running.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{text}");
    let records = sandbox.records();
    let notes = records["train/seed=1"]["provenance"]["notices"].to_string();
    assert!(notes.contains("x.txt") && notes.contains("changed while the job ran"), "{notes}");
    assert_eq!(records["train/seed=1"]["outcome"]["metrics"]["loss"]["value"], json!(1.0));
    // The content that the program has read is not known.
    assert_eq!((ran(&sandbox), ran(&sandbox)), (1, 0));
}

#[test]
fn a_job_that_reads_back_what_another_job_wrote_in_the_meantime_runs_again() {
    // Files below a hidden folder do not count: the programs wait for each other there.
    let body = "\
import time
seed, go = sys.argv[1], os.path.abspath('../.go')
os.makedirs(go, exist_ok=True)
os.makedirs('../out', exist_ok=True)
def wait(name):
    end = time.time() + 60
    while not os.path.exists(go + '/' + name) and time.time() < end:
        time.sleep(0.02)
turns = not os.path.exists(go + '/2')
if turns and seed == '2':
    wait('1')
open('../out/best.pt', 'w').write(WRITTEN)
open(go + '/' + seed, 'w').close()
if turns and seed == '1':
    wait('2')
print('loss=' + open('../out/best.pt').read())
";
    for (written, wrong_jobs) in [("seed", 1), ("'7'", 0)] {
        let sandbox = project(&body.replace("WRITTEN", written));
        let ended = {
            let output = command(&sandbox).args(["--jobs", "2"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let records = sandbox.records();
        let notices = records["train/seed=1"]["provenance"]["notices"].to_string();
        let is_said = notices.contains("best.pt") && notices.contains("changed by another job");
        assert_eq!(is_said, wrong_jobs > 0, "{notices}\n{ended}");
        assert!(!records["train/seed=2"]["provenance"]["notices"].to_string().contains("best.pt"), "the last writer");
        assert_eq!((ran(&sandbox), ran(&sandbox)), (wrong_jobs, 0), "the other job has the content that it wrote");
    }
}
