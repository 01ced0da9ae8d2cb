//! Jobs read the content that their keys name, and changed records and artifacts are not used.

use std::{
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
};

use rustix::process::Signal;

use crate::{
    messages::Transcript,
    sandbox::{Ended, Sandbox, list, until},
    tracking::is_observed,
};

/// Parameter of a program whose reads and writes are not observed.
const UNOBSERVED: &str = ", tracks: declared";

/// The folder of a job's record.
fn folder(sandbox: &Sandbox, label: &str) -> String {
    let key = sandbox.records()[label]["key"].as_str().unwrap().to_owned();
    format!("results/store/{}/{key}", &key[..2])
}

fn done(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

/// The numbers of cached jobs and of jobs to run in the plan.
fn plan(sandbox: &Sandbox, args: &[&str]) -> (usize, usize) {
    sandbox.plan_tally(&[&["recipe.yaml"], args].concat())
}

/// Changes one byte of a file, in place.
fn flip(path: PathBuf) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 0).unwrap();
}

#[test]
fn an_input_that_changes_while_its_job_waits_fails_the_job() {
    // The edited file, and the job that waits for the edit and reads the file.
    let cases = [
        ("data.txt", "{ uses: command, with: { run: 'cat data.txt; echo n=1', inputs: [data.txt] } }"),
        ("tool.sh", "{ uses: command, with: { argv: [sh, tool.sh], inputs: [tool.sh] } }"),
        ("folder/sub/data.txt", "{ uses: command, with: { run: 'ls folder/; echo n=1', inputs: [folder] } }"),
        ("data.txt", "{ uses: mock, with: { input: data.txt } }"),
    ];
    let mut said = Transcript::default();
    for (file, job) in cases {
        let sandbox = Sandbox::new();
        let path = sandbox.path(file);
        let job = job.replace(" } }", " }, needs: edit, retries: 2 }");
        let edit = format!("edit: {{ uses: command, with: {{ run: 'echo \"echo n=2\" > {}' }} }}", path.display());
        sandbox.write("recipe.yaml", &format!("steps:\n  {edit}\n  job: {job}\n"));
        sandbox.write(file, "echo n=1\n");
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(5), "{file}: {}", ended.stderr);
        said.add(&job, &ended.stderr);
        assert_eq!(sandbox.failure("job")["kind"], "changed", "{file}");
        assert_eq!(sandbox.records().into_keys().collect::<Vec<_>>(), ["edit"], "{file}: nothing is kept");
        assert!(!sandbox.starts().contains_key("job"), "{file}: it did not start, and was not tried again");
        done(&sandbox, &[]);
        assert_eq!(sandbox.tally(), [("cached", 1), ("done", 1)], "{file}");
    }
    assert_message!(said);
}

/// Without observation, the engine cannot know who changed an input, and rejects the result. An observed program is
/// known to have made the change itself, so its result is kept with a note.
#[test]
fn a_program_that_changes_its_own_input_has_no_result() {
    for write in ["echo more >> data.txt", "echo else > data.txt.new; mv data.txt.new $(readlink data.txt)"] {
        let recipe = |with: &str| {
            format!(
                "steps: {{ job: {{ uses: command, with: {{ run: '{write}; echo n=1', inputs: [data.txt]{with} }}, retries: 3 }} }}"
            )
        };
        if is_observed() {
            let sandbox = Sandbox::with(&recipe(""));
            sandbox.write("data.txt", "content\n");
            let said = done(&sandbox, &[]).stderr;
            assert!(said.contains("the job changed `data.txt`, which is an input"), "{said}");
            assert_eq!(plan(&sandbox, &[]), (0, 1), "{write}: its input is another one");
        }
        let sandbox = Sandbox::with(&recipe(UNOBSERVED));
        sandbox.write("data.txt", "content\n");
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(5), "{write}: {}", ended.stderr);
        assert_eq!(sandbox.failure("job")["kind"], "changed", "{write}");
        assert_message!(ended.stderr);
        assert!(sandbox.records().is_empty(), "{write}");
        assert_eq!(sandbox.starts()["job"], 1, "{write}: it is not tried again");
        assert!(list(&sandbox.path("results/store/staging")).is_empty(), "{write}");
    }
}

/// A `PATH` with replacements for Slurm's commands: `sbatch` saves the script of the batch job, which stays in the
/// queue.
fn waiting_slurm(sandbox: &Sandbox) -> std::ffi::OsString {
    for (name, script) in [("sbatch", "[ \"$1\" = --version ] || cat > handed-over.sh; echo 7"), ("squeue", "exit 0")] {
        sandbox.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(sandbox.path(&format!("bin/{name}")), executable).unwrap();
    }
    let known = std::env::var_os("PATH").unwrap();
    std::env::join_paths([sandbox.path("bin")].into_iter().chain(std::env::split_paths(&known))).unwrap()
}

#[test]
fn an_input_that_changes_while_its_job_is_in_slurms_queue_fails_the_job() {
    let sandbox = Sandbox::with(
        "steps: { job: { uses: command, with: { run: 'cat data.txt; echo n=1', inputs: [data.txt] }, retries: 2 } }",
    );
    sandbox.write("data.txt", "planned\n");
    let mut submit = sandbox.command(&["run", "recipe.yaml", "--executor", "slurm", "--detach"]);
    let submitted = submit.env("PATH", waiting_slurm(&sandbox)).output().unwrap();
    assert_eq!(submitted.status.code(), Some(0), "{}", String::from_utf8_lossy(&submitted.stderr));
    sandbox.write("data.txt", "another\n");
    let ran = std::process::Command::new("sh").arg(sandbox.path("handed-over.sh")).output().unwrap();
    assert_ne!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = list(&list(&sandbox.path("results/runs"))[0].join("jobs")).remove(0);
    let said = fs_err::read_to_string(said).unwrap();
    let events = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone());
    let events: Vec<_> = events.collect();
    assert!(events.iter().any(|event| event["failed"]["failure"]["kind"] == "changed"), "{said}");
    assert!(events.iter().all(|event| event["started"].is_null() && event["retrying"].is_null()), "{said}");
    assert!(sandbox.records().is_empty());
}

#[test]
fn an_input_that_is_only_touched_is_the_same() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("data.txt");
    sandbox.write(
        "recipe.yaml",
        &format!(
            "steps: {{ job: {{ uses: command, with: {{ run: 'touch {}; echo n=1', inputs: [data.txt] }} }} }}",
            path.display()
        ),
    );
    sandbox.write("data.txt", "content\n");
    done(&sandbox, &[]);
}

const MEASURED: &str = "
params: { other: 1 }
steps:
  a: { uses: mock, with: { value: 1.25 } }
  b: { uses: mock, needs: a, with: { value: 2, variant: '${{ params.other }}' } }
";

#[test]
fn a_record_in_which_anything_was_changed_is_not_used() {
    let mut said = Transcript::default();
    for (from, to) in [
        ("\"value\": 1.25,\n        \"unit\"", "\"value\": 1.26,\n        \"unit\""),
        ("\"task\": \"mock\"", "\"task\": \"mack\""),
        ("\"label\": \"a\"", "\"label\": \"c\""),
        ("\"threads\": ", "\"threads\": 1"),
    ] {
        let sandbox = Sandbox::with(MEASURED);
        done(&sandbox, &[]);
        let path = format!("{}/record.json", folder(&sandbox, "a"));
        let whole = sandbox.read(&path);
        assert!(whole.contains(from), "{whole}");
        // The modification time is restored, and most changes keep the length, so that metadata do not reveal the
        // change.
        let time = fs_err::metadata(sandbox.path(&path)).unwrap().modified().unwrap();
        sandbox.write(&path, &whole.replace(from, to));
        let file = std::fs::File::options().write(true).open(sandbox.path(&path)).unwrap();
        file.set_modified(time).unwrap();

        let verified = sandbox.sweep(&["cache", "verify"]);
        assert_eq!(verified.code, Some(1), "{to}: {}", verified.stderr);
        said.add(&format!("verified: {}", to.replace('\n', " ")), &verified.stdout);
        let bundled = sandbox.sweep(&["bundle", "recipe.yaml"]);
        assert_ne!(bundled.code, Some(0), "{to}: {}", bundled.stdout);
        assert_eq!(plan(&sandbox, &[]), (1, 1), "{to}");
        said.add("run again", &done(&sandbox, &[]).stderr);
        assert_eq!(sandbox.tally(), [("cached", 1), ("done", 1)], "{to}");
        assert_eq!(sandbox.records()["a"]["outcome"]["metrics"]["value"]["value"], 1.25);
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    }
    assert_message!(said);
}

#[test]
fn a_record_without_a_digest_is_one_of_an_earlier_version() {
    let sandbox = Sandbox::with(MEASURED);
    done(&sandbox, &[]);
    let path = format!("{}/record.json", folder(&sandbox, "a"));
    let whole = sandbox.read(&path);
    let lines: Vec<&str> = whole.lines().filter(|line| !line.starts_with("  \"digest\"")).collect();
    assert_eq!(lines.len() + 1, whole.lines().count());
    sandbox.write(&path, &lines.join("\n"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    assert_message!(verified.stderr);
}

#[test]
fn the_plan_and_the_run_agree_on_what_is_damaged() {
    type Damage<'a> = &'a dyn Fn(&std::path::Path, &str);

    let damages: [(&str, Damage<'_>); 5] = [
        ("cut", &|path, whole| std::fs::write(path, &whole[..whole.len() / 2]).unwrap()),
        ("empty", &|path, _| std::fs::write(path, "").unwrap()),
        ("a pipe", &|path, _| {
            std::fs::remove_file(path).unwrap();
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("a folder", &|path, _| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
        ("gone", &|path, _| std::fs::remove_file(path).unwrap()),
    ];
    for (what, damage) in damages {
        let sandbox = Sandbox::with(MEASURED);
        done(&sandbox, &[]);
        let path = format!("{}/record.json", folder(&sandbox, "a"));
        let whole = sandbox.read(&path);
        damage(&sandbox.path(&path), &whole);
        // With `other=7`, job `b` is to run, and reads the record of `a`.
        assert_eq!(plan(&sandbox, &[]), (1, 1), "{what}");
        assert_eq!(plan(&sandbox, &["--set", "other=7"]), (0, 2), "{what}");
        done(&sandbox, &[]);
        assert_eq!(sandbox.tally(), [("cached", 1), ("done", 1)], "{what}");
        assert_eq!(sandbox.records().len(), 2, "{what}");
    }
}

const TAKEN: &str = "
params: { other: 1 }
steps:
  make:
    uses: command
    with: { run: 'mkdir -p out/sub; echo 12345 > out/sub/n; echo whole > file.txt', outputs: [out, file.txt] }
  file: { needs: make, uses: mock, with: { input: '${{ needs.make.artifacts.file.txt }}', variant: '${{ params.other }}' } }
  folder:
    needs: make
    uses: command
    with:
      run: 'echo n=$(cat out/sub/n)'
      inputs: ['${{ needs.make.artifacts.out }}']
      env: { OTHER: 'v${{ params.other }}' }
";

#[test]
fn an_artifact_that_is_not_what_was_written_is_made_again() {
    type Damage<'a> = &'a dyn Fn(PathBuf);

    let damages: [(&str, Damage<'_>); 4] = [
        ("file.txt", &flip),
        ("file.txt", &|path| std::fs::remove_file(path).unwrap()),
        ("out/sub/n", &flip),
        ("out/more", &|path| std::fs::write(path, "that nobody has made").unwrap()),
    ];
    let mut messages = Transcript::default();
    for (file, damage) in damages {
        let sandbox = Sandbox::with(TAKEN);
        done(&sandbox, &[]);
        damage(sandbox.path(&format!("{}/files/{file}", folder(&sandbox, "make"))));
        assert_eq!(plan(&sandbox, &[]), (3, 0), "{file}: nobody takes it");
        assert_eq!(plan(&sandbox, &["--set", "other=2"]), (0, 3), "{file}");
        let again = done(&sandbox, &["--set", "other=2", "--jobs", "1"]);
        let said: Vec<&str> = again.stderr.lines().filter(|line| !line.starts_with('[')).collect();
        messages.add(file, &said.join("\n"));
        assert_eq!(sandbox.tally(), [("done", 3)], "{file}");
        assert_eq!(sandbox.records()["folder"]["outcome"]["metrics"]["n"]["value"], 12345.0);
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "{file}");
    }
    assert_message!(messages);
}

#[test]
fn a_job_that_changes_what_it_takes_has_no_result() {
    let sandbox = Sandbox::with(&format!(
        "
steps:
  make: {{ uses: command, with: {{ run: 'echo whole > file.txt', outputs: [file.txt] }} }}
  use:
    needs: make
    uses: command
    with: {{ run: 'echo more >> file.txt; echo n=1', inputs: ['${{{{ needs.make.artifacts.file.txt }}}}']{UNOBSERVED} }}
    retries: 1
"
    ));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_message!(ended.stderr);
    assert_eq!((sandbox.records().len(), sandbox.starts()["use"]), (1, 1));
    assert_eq!(plan(&sandbox, &[]), (0, 2));
}

#[test]
fn an_output_that_has_another_name_outside_is_the_stores_own() {
    let sandbox = Sandbox::new();
    let outside = sandbox.path("outside.txt");
    let script = format!("echo kept > {0}; ln {0} out.txt; mkdir d; ln out.txt d/twin", outside.display());
    sandbox.write(
        "recipe.yaml",
        &format!("steps: {{ a: {{ uses: command, with: {{ run: '{script}', outputs: [out.txt, d] }} }} }}"),
    );
    done(&sandbox, &[]);
    fs_err::OpenOptions::new().write(true).open(&outside).unwrap().file().write_all_at(b"K", 0).unwrap();
    let files = format!("{}/files", folder(&sandbox, "a"));
    for name in ["out.txt", "d/twin"] {
        assert_eq!(sandbox.read(&format!("{files}/{name}")), "kept\n");
        assert_eq!(fs_err::metadata(sandbox.path(&format!("{files}/{name}"))).unwrap().nlink(), 1, "{name}");
    }
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

/// `sweep run` with an injected fault, which only debug builds support.
fn broken(sandbox: &Sandbox, fault: &str) -> std::process::Command {
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    command.env("SWEEP_FAILPOINTS", fault);
    command
}

#[test]
fn many_files_are_brought_to_the_disk_at_once() {
    if !cfg!(debug_assertions) {
        return;
    }
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { run: 'mkdir out; cd out; seq 500 | xargs touch', outputs: [out] } } }",
    );
    let ended = broken(&sandbox, &format!("trace={}", sandbox.path("trace").display())).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let trace = sandbox.read("trace");
    let syncs = trace.lines().filter(|line| line.starts_with("commit: before a sync")).count();
    assert!((1..=2).contains(&syncs), "500 files take {syncs} syncs");
    assert_eq!(sandbox.records()["a"]["files"].as_object().unwrap().len(), 500);
}

#[test]
fn the_time_of_a_job_ends_when_its_record_is_there() {
    if !cfg!(debug_assertions) {
        return;
    }
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let ended = broken(&sandbox, "slow=1@commit: before the rename").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let said = sandbox.journal("done")[0]["event"]["done"]["seconds"].as_f64().unwrap();
    assert!(said >= 1.0, "{said} s, of which the record took one");
}

#[test]
fn sigterm_does_not_wait_for_a_record_that_takes_too_long() {
    if !cfg!(debug_assertions) {
        return;
    }
    let sandbox = Sandbox::with("steps: { a: { uses: mock }, b: { uses: mock, needs: a, with: { value: 2 } } }");
    let engine =
        crate::sandbox::Running::from(broken(&sandbox, "slow=3600@commit: before the rename").spawn().unwrap());
    until("it is being stored", || sandbox.events().iter().any(|(_, kind)| kind == "storing"));
    engine.signal(Signal::TERM);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("skipped", 2)]);
    assert!(sandbox.records().is_empty());
    done(&sandbox, &[]);
    assert_eq!(sandbox.tally(), [("done", 2)]);
    assert!(list(&sandbox.path("results/store/staging")).is_empty());
}
