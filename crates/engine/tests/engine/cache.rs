//! The store as a user sees it: listed, checked, cleared, transferred.

use crate::{
    messages::{Transcript, sorted},
    sandbox::{Sandbox, list, until},
};

const RECIPE: &str = "
params: { n: 2 }
steps:
  plain: { uses: mock, matrix: { value: { range: [0, '${{ params.n }}'] } } }
  file: { uses: command, with: { run: 'echo hello > out.txt; mkdir d; ln -s ../out.txt d/link', outputs: [out.txt, d] } }
";

/// Sizes of records, which have times in them.
const SIZE: &str = r" *\b[\d.]+ (?:Ki|Mi|)B\b";

/// A sandbox in which the recipe has run.
fn done() -> Sandbox {
    let sandbox = Sandbox::with(RECIPE);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox
}

fn folder(sandbox: &Sandbox, label: &str) -> String {
    let key = sandbox.records()[label]["key"].as_str().unwrap().to_owned();
    format!("results/store/{}/{key}", &key[..2])
}

#[test]
fn records_are_listed() {
    let sandbox = done();
    let listed = sandbox.sweep(&["cache", "ls"]);
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.stdout);
    assert!(listed.stdout.lines().next().unwrap().ends_with("file  6.00 B"), "{}", listed.stdout);
    assert_eq!(sandbox.sweep(&["cache", "ls", "plain/value=1"]).stdout.lines().count(), 1);
}

#[test]
fn what_is_not_what_was_written_is_found() {
    let sandbox = done();
    let whole = sandbox.sweep(&["cache", "verify"]);
    assert_eq!((whole.code, whole.stdout.as_str()), (Some(0), ""), "{}", whole.stderr);
    assert_message!(whole.stderr);

    let (file, plain) = (folder(&sandbox, "file"), folder(&sandbox, "plain/value=1"));
    sandbox.write(&format!("{file}/files/out.txt"), "HELLO\n");
    sandbox.write(&format!("{file}/files/extra"), "");
    fs_err::remove_file(sandbox.path(&format!("{file}/files/d/link"))).unwrap();
    let record = sandbox.read(&format!("{plain}/record.json"));
    sandbox.write(&format!("{plain}/record.json"), &record.replace("\"task\": \"mock\"", "\"task\": \"mack\""));
    let broken = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(broken.code, Some(1));
    assert_eq!(broken.stdout.lines().count(), 4, "{}", broken.stdout);
    assert_message!(sorted(&broken.stdout) + "\n" + &broken.stderr);
}

#[test]
fn only_what_nobody_reaches_is_removed_and_only_if_told_to() {
    let sandbox = done();
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--set", "n=4"]).code, Some(0));
    assert_eq!(sandbox.records().len(), 5);
    let mut said = Transcript::default();
    let recent = sandbox.sweep(&["cache", "gc"]);
    assert_eq!(recent.stdout, "", "recent runs keep theirs");
    said.add("recent", &recent.stderr);
    let shown = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s"]);
    assert_eq!(shown.stdout.lines().count(), 2, "{}", shown.stdout);
    said.add("shown", &(sorted(&shown.stdout) + "\n" + &shown.stderr));
    assert_eq!(sandbox.records().len(), 5, "nothing was removed");
    let removed = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s", "--yes"]);
    said.add("removed", &(sorted(&removed.stdout) + "\n" + &removed.stderr));
    assert_message!(said, SIZE => " [size]");
    assert_eq!(sandbox.records().len(), 3);
    assert!(list(&sandbox.path("results/store/staging")).is_empty());
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn what_unfinished_jobs_left_is_removed_unless_it_is_still_wanted() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { failures: 5 } } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    assert_eq!(list(&sandbox.path("results/store/partial")).len(), 1);
    sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s", "--yes"]);
    assert_eq!(list(&sandbox.path("results/store/partial")).len(), 1, "the recipe still wants it");
    let removed = sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
    assert_message!(removed.stderr, SIZE => " [size]");
    assert!(list(&sandbox.path("results/store/partial")).is_empty());
}

/// The message when something is to be removed while a sweep runs.
fn refused(sandbox: &Sandbox) -> String {
    sandbox.write("hang.yaml", "steps: { hang: { uses: mock, with: { end: hang } } }");
    let _engine = sandbox.start(&["run", "hang.yaml"]);
    until("it hangs", || !sandbox.workers().is_empty());
    let refused = sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    refused.stderr
}

#[test]
fn nothing_is_removed_while_a_sweep_runs() {
    let sandbox = done();
    assert_message!(refused(&sandbox));
    assert_eq!(sandbox.records().len(), 3);
}

#[test]
fn a_sweep_waits_while_something_is_removed() {
    let sandbox = done();
    // As `cache gc --yes` holds it.
    let store = fs_err::OpenOptions::new().append(true).open(sandbox.path("results/store/in-use")).unwrap();
    store.file().lock().unwrap();
    sandbox.write("more.yaml", "steps: { more: { uses: mock, with: { value: 77 } } }");
    let mut run = sandbox.command(&["run", "more.yaml"]).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(run.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut said).unwrap();
    assert_message!(said);
    assert!(sandbox.runs().len() == 1 && run.try_wait().unwrap().is_none(), "it has not begun");
    drop(store);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0), "{rest}");
    assert!(!rest.contains(&said), "it is said once: {rest}");
    assert_eq!(sandbox.tally(), [("done", 1)]);
}

#[test]
fn sweeps_beside_gc_all_end_well() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, matrix: { value: [1, 2] }, resources: { cpus: 1 } } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let refusal = refused(&sandbox);
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| {
            for _ in 0..60 {
                let ended = sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
                assert!(ended.code == Some(0) || ended.stderr == refusal, "{}", ended.stderr);
            }
        });
        while !removing.is_finished() {
            let ended = sandbox.sweep(&["run", "recipe.yaml"]);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        }
    });
}

#[test]
fn what_killed_processes_were_writing_is_removed_and_what_live_ones_write_is_not() {
    let sandbox = done();
    let before = sandbox.records();
    sandbox.write("results/store/.tmpAbCdEf", &"x".repeat(200_000));
    sandbox.write("results/store/staging/import-4711-0/half", &"x".repeat(100_000));
    let mut said = Transcript::default();
    said.add("shown", &sandbox.sweep(&["cache", "gc", "recipe.yaml"]).stderr);
    // Whoever uses the store may be writing to them.
    sandbox.write("hang.yaml", "steps: { hang: { uses: mock, with: { end: hang } } }");
    let engine = sandbox.start(&["run", "hang.yaml"]);
    until("it hangs", || !sandbox.workers().is_empty());
    said.add("in use", &sandbox.sweep(&["cache", "gc", "recipe.yaml"]).stderr);
    drop(engine);
    until("its worker has ended", || sandbox.workers().is_empty());
    said.add("removed", &sandbox.sweep(&["cache", "gc", "recipe.yaml", "--yes"]).stderr);
    assert_message!(said);
    assert!(!sandbox.path("results/store/.tmpAbCdEf").exists());
    assert!(!sandbox.path("results/store/staging/import-4711-0").exists());
    assert_eq!(sandbox.records(), before);
}

#[test]
fn records_move_to_another_machine() {
    let (here, there) = (done(), Sandbox::with(RECIPE));
    let mut said = Transcript::default();
    said.add("export", &here.sweep(&["cache", "export", "all.tar", "recipe.yaml"]).stderr);
    fs_err::copy(here.path("all.tar"), there.path("all.tar")).unwrap();
    said.add("import", &there.sweep(&["cache", "import", "all.tar"]).stderr);
    assert_eq!(there.records(), here.records());
    there.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(there.sweep(&["cache", "verify"]).code, Some(0));
    said.add("import again", &there.sweep(&["cache", "import", "all.tar"]).stderr);
    assert_message!(said, SIZE => " [size]");

    here.sweep(&["cache", "export", "one.tar", "plain/value=0"]);
    assert!(
        fs_err::metadata(here.path("one.tar")).unwrap().len() < fs_err::metadata(here.path("all.tar")).unwrap().len()
    );
    let none = here.sweep(&["cache", "export", "none.tar", "plain/value=9"]);
    assert_eq!((none.code, here.path("none.tar").exists()), (Some(2), false), "{}", none.stderr);
    there.write("torn.tar", "not an archive");
    assert_eq!(there.sweep(&["cache", "import", "torn.tar"]).code, Some(1));
}

#[test]
fn a_store_of_a_later_version_is_refused_by_every_command() {
    let sandbox = done();
    assert_eq!(sandbox.read("results/store/format"), "1\n");
    sandbox.write("results/store/format", "2\n");
    let mut said = Transcript::default();
    for command in
        [vec!["run", "recipe.yaml"], vec!["cache", "verify"], vec!["show", "file"], vec!["report", "recipe.yaml"]]
    {
        let refused = sandbox.sweep(&command);
        assert_eq!(refused.code, Some(1), "{command:?}");
        assert_eq!(refused.stderr.lines().count(), 1);
        said.add(&command.join(" "), &refused.stderr);
    }
    assert_message!(said);
}

#[test]
fn a_link_in_the_store_is_not_followed_when_it_is_cleared() {
    let sandbox = done();
    fs_err::create_dir(sandbox.path("precious")).unwrap();
    sandbox.write("precious/file", "mine");
    let file = folder(&sandbox, "file");
    fs_err::os::unix::fs::symlink(sandbox.path("precious"), sandbox.path(&format!("{file}/files/trap"))).unwrap();
    let key = "ab".repeat(32);
    fs_err::create_dir_all(sandbox.path("results/store/staging")).unwrap();
    let trap = sandbox.path(&format!("results/store/staging/{key}"));
    fs_err::os::unix::fs::symlink(sandbox.path("precious"), trap).unwrap();
    let removed = sandbox.sweep(&["cache", "gc", "--recent", "0s", "--yes"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(sandbox.records().is_empty() && list(&sandbox.path("results/store/staging")).is_empty());
    assert_eq!(sandbox.read("precious/file"), "mine");
}

#[test]
fn the_checkpoint_of_a_wanted_job_is_kept() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: hang } } }");
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the job hangs", || sandbox.events().iter().any(|(job, kind)| job == "a" && kind == "started"));
    engine.signal(rustix::process::Signal::KILL);
    drop(engine);
    let partial = fs_err::read_dir(sandbox.path("results/store/partial")).unwrap().next().unwrap().unwrap().path();
    fs_err::write(partial.join("checkpoint"), "half way").unwrap();
    let ended = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(partial.join("checkpoint").is_file(), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn records_at_other_values_of_an_axis_are_reached() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, matrix: { value: [1, 2] } } }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--axis", "value=5,6"]).code, Some(0));
    let kept = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s", "--axis", "value=5,6"]);
    assert_eq!((kept.code, kept.stdout.as_str()), (Some(0), ""), "nothing is to be removed: {}", kept.stderr);
    assert_eq!(sandbox.sweep(&["cache", "export", "all.tar", "recipe.yaml", "--axis", "value=5"]).code, Some(0));
    let other = Sandbox::new();
    fs_err::copy(sandbox.path("all.tar"), other.path("all.tar")).unwrap();
    assert_eq!(other.sweep(&["cache", "import", "all.tar"]).code, Some(0));
    assert_eq!(other.records().into_keys().collect::<Vec<_>>(), ["a/value=5"]);
    let nothing = sandbox.sweep(&["cache", "import", "/dev/null"]);
    assert_eq!(nothing.code, Some(1));
    assert_message!(nothing.stderr);
}

#[test]
fn named_jobs_run_again_when_their_records_are_removed() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, matrix: { value: [1, 2] } } }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let listed = sandbox.sweep(&["cache", "rm", "a/value=1"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (Some(0), 1), "{}", listed.stderr);
    assert!(listed.stderr.contains("`--yes` removes it"), "{}", listed.stderr);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let removed = sandbox.sweep(&["cache", "rm", "a/value=1", "--yes"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (1, 1));
    let unknown = sandbox.sweep(&["cache", "rm", "a/value=3", "--yes"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""), "{}", unknown.stderr);
}
