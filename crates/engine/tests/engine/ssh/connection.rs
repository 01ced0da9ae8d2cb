//! The connection: the files that are sent, the jobs that run, and the results that return.

use std::path::Path;

use rustix::process::{Pid, test_kill_process};
use sweep_engine::hosts::{Project, SpoolState, Started, Stop, hosted};

use super::{
    sshd::Sshd,
    world::{World, start_of},
};
use crate::sandbox::{list, until};

/// Two jobs: a program that reads its script, a file of the project and a variable, and leaves a file; and a program that takes this file.
const TWO: &str = "
name: two
steps:
  make:
    uses: command
    with:
      argv: [sh, make.sh]
      inputs: [make.sh, data]
      outputs: [made.txt]
      env: { TOKEN: { from: PATH } }
  take:
    needs: make
    uses: command
    with:
      run: 'echo length=$(wc -c < made.txt)'
      inputs: [\"${{ needs.make.artifacts.made.txt }}\"]
";

fn two() -> World {
    let world = World::with(TWO);
    world.sandbox.write("make.sh", "cat data/a data/b > made.txt\necho tokens=${#TOKEN}\n");
    world.sandbox.write("data/a", "first\n");
    world.sandbox.write("data/b", "second\n");
    world
}

/// Every file below a folder.
pub(super) fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in list(folder) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_job_runs_on_a_host_and_nothing_is_sent_twice() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = two();
    let link = world.open(&sshd, "box1");
    let probe = link.connected();
    assert!(probe.cpus > 0 && probe.memory > 0 && probe.free > 0 && probe.skew.abs() < 60.0, "{probe:?}");
    assert_eq!((probe.jobs.len(), probe.workdir), (0, sshd.home("box1").join(".sweep")));

    let make = world.hosted("make");
    let (shipped, started) = link.start(&make, "1");
    assert_eq!((shipped.files, started), (4, Started::Now), "the recipe, the script and the data");
    let end = link.ended(make.spec.key);
    assert!(end.has_record, "{end:?}");
    assert_eq!(end.kinds(), ["begun", "started", "storing", "done", "ended"]);
    assert_eq!(world.fetch(&link, make.spec.key).added, 1);
    let record = world.store.get(make.spec.key).unwrap().unwrap();
    assert_eq!(record.label, "make");
    let text = fs_err::read_to_string(world.store.files(make.spec.key).join("made.txt")).unwrap();
    assert_eq!(text, "first\nsecond\n");

    // The record is there already, so the next job needs nothing.
    let take = world.hosted("take");
    assert_eq!(take.shipment.records, [make.spec.key]);
    let (shipped, _) = link.start(&take, "1");
    assert_eq!((shipped.files, shipped.records), (0, 0));
    assert!(link.ended(take.spec.key).has_record);
    let log = link.connection.log(take.spec.key, 0).unwrap();
    assert!(String::from_utf8(log).unwrap().contains("length=13"));
    world.fetch(&link, take.spec.key);
    assert_eq!(world.store.get(take.spec.key).unwrap().unwrap().outcome.metrics["length"].value, 13.0);

    // Both are known on reconnection, until they are forgotten.
    drop(link);
    let link = world.open(&sshd, "box1");
    let states: Vec<SpoolState> = link.connected().jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [SpoolState::Recorded; 2]);
    let (shipped, started) = link.start(&take, "1");
    assert_eq!((shipped.files, shipped.records, started), (0, 0, Started::Over { has_record: true }));
    assert!(link.connection.traffic().sent < 20_000, "{:?}", link.connection.traffic());
    for key in [make.spec.key, take.spec.key] {
        link.connection.forget(key).unwrap();
    }
    assert_eq!(link.connection.jobs().unwrap(), []);
    // Files on the host are removed on request, and sent again when they are needed.
    let cleaned = link.connection.clean().unwrap();
    assert_eq!((cleaned.programs, cleaned.records), (0, 2), "{cleaned:?}");
    assert_eq!(link.start(&make, "2").0.files, 4);
    assert!(link.ended(make.spec.key).has_record);
}

#[test]
fn a_needed_record_is_sent_with_its_files() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = two();
    let ended = world.sandbox.sweep(&["run", "recipe.yaml", "--only", "make"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let link = world.open(&sshd, "box1");
    link.connected();
    let take = world.hosted("take");
    assert_eq!(link.start(&take, "1").0.records, 1);
    assert!(link.ended(take.spec.key).has_record);
    world.fetch(&link, take.spec.key);
    // The same key as here.
    world.sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn the_same_start_twice_is_one() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(
        "name: one\nsteps:\n  a: { uses: mock, with: { seconds: 2 } }\n  bad: { uses: mock, with: { end: fail } }\n",
    );
    let (first, second) = (world.open(&sshd, "box1"), world.open(&sshd, "box1"));
    first.connected();
    second.connected();
    let job = world.hosted("a");
    assert_eq!(first.start(&job, "1").1, Started::Now);
    assert_eq!(first.start(&job, "1").1, Started::Running { tag: "1".into() });
    assert_eq!(second.start(&job, "2").1, Started::Running { tag: "1".into() });
    assert!(first.ended(job.spec.key).has_record && second.ended(job.spec.key).has_record, "both see the end");
    let starts = |end: &super::world::End| end.kinds().iter().filter(|kind| **kind == "started").count();

    // A failure is no result: another start is another one, the same start is not.
    let bad = world.hosted("bad");
    assert_eq!(first.start(&bad, "1").1, Started::Now);
    let end = first.ended(bad.spec.key);
    assert_eq!((end.has_record, starts(&end)), (false, 1));
    assert!(end.kinds().contains(&"failed"), "{end:?}");
    assert_eq!(second.start(&bad, "1").1, Started::Over { has_record: false });
    assert_eq!(starts(&second.ended(bad.spec.key)), 1);
    assert_eq!(second.start(&bad, "2").1, Started::Now);
    assert_eq!(starts(&second.ended(bad.spec.key)), 1, "its journal begins anew");
}

#[test]
fn versions_of_a_project_do_not_disturb_each_other() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(
        "name: versions\nsteps:\n  a:\n    uses: command\n    with: { argv: [sh, a.sh], inputs: [a.sh], outputs: [out] }\n",
    );
    let link = world.open(&sshd, "box1");
    link.connected();
    let version = |text: &str| {
        world
            .sandbox
            .write("a.sh", &format!("sleep 1; echo {text} > out; echo x >> $(dirname $(readlink -f a.sh))/trace\n"));
        world.hosted("a")
    };
    let (one, two) = (version("one"), version("two"));
    assert_ne!((one.spec.key, one.shipment.project.digest()), (two.spec.key, two.shipment.project.digest()));
    // A file that has changed since it was read cannot be sent as the old one.
    let error = link.connection.prepare(&one.shipment).unwrap_err();
    assert!(error.to_string().contains("a.sh has changed since the sweep began; run again"), "{error}");
    link.start(&two, "1");
    let one = version("one");
    link.start(&one, "1");
    assert!(link.ended(one.spec.key).has_record);
    for (job, text) in [(&one, "one\n"), (&two, "two\n")] {
        until("it has ended", || link.connection.jobs().unwrap().iter().all(|job| job.state == SpoolState::Recorded));
        world.fetch(&link, job.spec.key);
        assert_eq!(fs_err::read_to_string(world.store.files(job.spec.key).join("out")).unwrap(), text);
    }
    // Files that a program writes into its folder stay in the tree of that version.
    let traces = files(&sshd.home("box1")).into_iter().filter(|path| path.ends_with("trace")).count();
    assert_eq!(traces, 2);
}

/// The program is started in a folder of its project, imports a package from there and reads beside it.
#[test]
fn a_program_in_its_project_runs_in_the_copy_on_the_host() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(
        "
name: project
steps:
  deep:
    uses: command
    with: { project: code, argv: [python3, -m, pkg.train], outputs: [runs/model.txt] }
  top:
    uses: command
    with: { argv: [sh, top.sh] }
",
    );
    world.sandbox.write("pyproject.toml", "");
    world.sandbox.write("data/points.txt", "1\n2\n3\n");
    world.sandbox.write("code/pkg/__init__.py", "");
    world.sandbox.write("code/pkg/model.py", "scale = 2\n");
    world.sandbox.write(
        "code/pkg/train.py",
        "import os\nfrom pkg.model import scale\nlines = len(open('../data/points.txt').readlines())\n\
         os.makedirs('runs')\nopen('runs/model.txt', 'w').write(str(scale * lines))\nprint(f'lines={lines}')\n",
    );
    world.sandbox.write("top.sh", "echo lines=$(wc -l < data/points.txt)\n");
    let link = world.open(&sshd, "box1");
    link.connected();
    for label in ["deep", "top"] {
        let job = world.hosted(label);
        link.start(&job, "1");
        let end = link.ended(job.spec.key);
        assert!(end.has_record, "{end:?}");
        world.fetch(&link, job.spec.key);
        let record = world.store.get(job.spec.key).unwrap().unwrap();
        assert_eq!(record.outcome.metrics["lines"].value, 3.0, "{label}");
        if label == "deep" {
            let model = world.store.files(job.spec.key).join("runs/model.txt");
            assert_eq!(fs_err::read_to_string(model).unwrap(), "6");
        }
    }
    // The program's writes are not in the copy.
    assert!(!files(&sshd.home("box1")).iter().any(|path| path.ends_with("code/runs/model.txt")));
    // The results are valid on this machine, and after an edit of a file that the job read on the host the job runs again.
    world.sandbox.assert_all_cached(&["recipe.yaml"]);
    world.sandbox.write("code/pkg/model.py", "scale = 3\n");
    let plan = world.sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(plan.contains("1 cached, 1 to run"), "{plan}");
}

#[test]
fn inputs_outside_of_the_project_go_by_content() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with("");
    let elsewhere = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(elsewhere.path().join("set/empty")).unwrap();
    fs_err::write(elsewhere.path().join("set/x.bin"), "12345").unwrap();
    let recipe = "name: n\nsteps:\n  a:\n    uses: command\n    with: { run: 'wc -c < set/x.bin > out', inputs: [FOLDER], outputs: [out] }\n";
    world.sandbox.write("recipe.yaml", &recipe.replace("FOLDER", elsewhere.path().join("set").to_str().unwrap()));
    let link = world.open(&sshd, "box1");
    link.connected();
    let job = hosted(world.jobs()["a"].clone(), &Project::empty(), &world.store, Path::new("/")).unwrap();
    link.start(&job, "1");
    let end = link.ended(job.spec.key);
    assert!(end.has_record, "{end:?}");
    world.fetch(&link, job.spec.key);
    assert_eq!(fs_err::read_to_string(world.store.files(job.spec.key).join("out")).unwrap().trim(), "5");
}

#[test]
fn no_secret_is_in_a_file_or_on_a_command_line_there() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(
        "name: s\nsteps:\n  a:\n    uses: command\n    with: { run: 'echo length=${#TOKEN}; sleep 2', env: { TOKEN: { from: HUSH } } }\n",
    );
    let link = world.open(&sshd, "box1");
    link.connected();
    let job = world.hosted("a");
    link.connection.prepare(&job.shipment).unwrap();
    let mut start = start_of(&job, "1");
    assert!(start.env.is_empty(), "it is not set here");
    let secret = "correct-horse-battery";
    start.env.insert("HUSH".into(), secret.into());
    assert_eq!(link.connection.start(&start).unwrap(), Started::Now);
    link.started(job.spec.key);
    for process in list(Path::new("/proc")) {
        let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&arguments).contains(secret), "{}", process.display());
    }
    assert!(link.ended(job.spec.key).has_record);
    world.fetch(&link, job.spec.key);
    assert_eq!(world.store.get(job.spec.key).unwrap().unwrap().outcome.metrics["length"].value, secret.len() as f64);
    let holds = |path: &Path| {
        path.file_name().unwrap() != "sweep" && String::from_utf8_lossy(&fs_err::read(path).unwrap()).contains(secret)
    };
    let found: Vec<_> = files(&sshd.home("box1")).into_iter().filter(|path| path.is_file() && holds(path)).collect();
    assert_eq!(found, Vec::<std::path::PathBuf>::new());
}

#[test]
fn jobs_are_stopped_by_request() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(
        "name: s\nsteps:\n  a: { uses: mock, with: { end: hang } }\n  b: { uses: mock, with: { end: hang, seed: 2 } }\n",
    );
    let link = world.open(&sshd, "box1");
    link.connected();
    for (label, how) in [
        ("a", Stop::End { kill_after: std::time::Duration::from_secs(30) }),
        ("b", Stop::End { kill_after: std::time::Duration::ZERO }),
    ] {
        let job = world.hosted(label);
        link.start(&job, "1");
        link.started(job.spec.key);
        let folder = sshd.home("box1").join(".sweep/stores").join(world.store.id().unwrap()).join("runs");
        let pid = fs_err::read_to_string(folder.join(job.spec.key.to_string()).join("pid")).unwrap();
        assert!(link.connection.forget(job.spec.key).unwrap_err().to_string().contains("runs"));
        link.connection.cancel(&[job.spec.key], how).unwrap();
        let end = link.ended(job.spec.key);
        assert!(!end.has_record, "{end:?}");
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        until("its process is gone", || test_kill_process(pid).is_err());
    }
}

/// One job for each seed, with the same files.
const SEEDS: &str = "
name: seeds
steps:
  a:
    uses: command
    matrix: { seed: [0, 1, 2] }
    with: { argv: [python3, t.py], inputs: [t.py, data], seed: '${{ matrix.seed }}' }
";

#[test]
fn a_damaged_copy_of_a_project_is_made_again_before_a_job_starts() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(SEEDS);
    world.sandbox.write("t.py", "import lib\nprint('x=%d' % (lib.X + len(open('data/a.txt').read())))\n");
    world.sandbox.write("lib.py", "X = 22\n");
    world.sandbox.write("data/a.txt", "1");
    let link = world.open(&sshd, "box1");
    link.connected();
    let first = world.hosted("a/seed=0");
    link.start(&first, "1");
    assert!(link.ended(first.spec.key).has_record);
    let tree = sshd.home("box1").join(".sweep/trees").join(first.shipment.project.digest());
    let damages: [&dyn Fn(); 2] = [
        &|| {
            fs_err::write(tree.join("lib.py"), "X = 1\n").unwrap();
            fs_err::write(tree.join("data/a.txt"), "damaged").unwrap();
            fs_err::write(tree.join("data/left.txt"), "by a job").unwrap();
        },
        &|| {
            fs_err::remove_dir_all(tree.join("data")).unwrap();
            std::os::unix::fs::symlink("/etc", tree.join("data")).unwrap();
            fs_err::remove_file(tree.join("lib.py")).unwrap();
        },
    ];
    for (seed, damage) in damages.iter().enumerate() {
        damage();
        let job = world.hosted(&format!("a/seed={}", seed + 1));
        link.start(&job, "1");
        let end = link.ended(job.spec.key);
        assert!(end.has_record, "{end:?}");
        world.fetch(&link, job.spec.key);
        assert_eq!(world.store.get(job.spec.key).unwrap().unwrap().outcome.metrics["x"].value, 23.0);
    }
    assert!(!tree.join("data/left.txt").exists());
}

#[test]
fn a_job_that_rewrites_a_file_of_its_project_on_a_host_has_no_result() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = World::with(SEEDS);
    world.sandbox.write(
        "t.py",
        "import os
path = os.path.join(os.path.dirname(os.path.realpath(__file__)), 'config.txt')
open(path, 'w').write('1')
print('x=%d' % (100 + int(open(path).read())))
",
    );
    world.sandbox.write("config.txt", "22");
    world.sandbox.write("data/a.txt", "1");
    let link = world.open(&sshd, "box1");
    link.connected();
    let job = world.hosted("a/seed=0");
    link.start(&job, "1");
    let end = link.ended(job.spec.key);
    assert!(!end.has_record, "{end:?}");
    assert!(
        format!("{:?}", end.said).contains("config.txt` in the project's folder on this host and then read it"),
        "{end:?}"
    );
}
