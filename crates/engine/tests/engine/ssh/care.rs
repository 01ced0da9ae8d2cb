//! `sweep doctor` for hosts, and `sweep hosts clean`.

use std::{collections::BTreeMap, path::Path, process::Command};

use super::{
    connection::files,
    faults::list_all,
    runs::{HOSTS, RUN, TEN, begin, on_hosts, once, sandbox, starts},
    sshd::Sshd,
};
use crate::{
    doctor::findings,
    sandbox::{Running, Sandbox, until},
};

fn script(path: &Path, text: &str) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, text).unwrap();
    fs_err::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn doctor(sandbox: &Sandbox, more: &[&str]) -> (Option<i32>, BTreeMap<String, (String, String)>) {
    let ended = sandbox.sweep(&[&["doctor", "sweep.yaml", "--format", "json"], more].concat());
    (ended.code, findings(&ended))
}

#[test]
fn doctor_checks_each_host_and_says_what_to_do() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS, "local: false");
    let (code, found) = doctor(&sandbox, &[]);
    assert_eq!(code, Some(0), "{found:?}");
    for host in HOSTS {
        for check in ["", ": clock", ": folder", ": locks", ": spool", ": GPUs"] {
            assert_eq!(found[&format!("{host}{check}")].0, "good", "{host}{check}: {found:?}");
        }
        assert!(found[host].1.starts_with(concat!("version ", env!("CARGO_PKG_VERSION"), " runs there")), "{found:?}");
        assert!(found[&format!("{host}: disk")].1.ends_with("are free"), "{found:?}");
    }
    assert!(!found.contains_key("box1: quota"), "this system tells none: {found:?}");

    // A clock that is wrong, a quota that is almost used, GPUs that are not there, and a key that is refused.
    let bin = sshd.home("box1").join("bin");
    let quota = "#!/bin/sh\necho 'Disk quotas for user me (uid 1000):'\necho ' Filesystem blocks quota limit grace files quota limit grace'\n\
                 echo ' fs:/home 10400000 10485760 11000000 none 12 0 0 none'\n";
    script(&bin.join("quota"), quota);
    sshd.rc("box1", "PATH=$HOME/bin:$PATH\nexport SWEEP_CLOCK=-3600\n");
    fs_err::write(sshd.path("box3/authorized_keys"), "").unwrap();
    let text = sandbox.read("sweep.yaml").replace("host: box2, cpus: 2", "host: box2, cpus: 2, gpus: 7");
    sandbox.write("sweep.yaml", &text);
    let (code, found) = doctor(&sandbox, &[]);
    assert_eq!(code, Some(1), "{found:?}");
    let (verdict, says) = &found["box1: clock"];
    assert!(verdict == "doubtful" && says.contains(" s behind that of this machine"), "{says}");
    let (verdict, says) = &found["box1: quota"];
    assert!(verdict == "doubtful" && says.ends_with("are used on fs:/home"), "{says}");
    let (verdict, says) = &found["box2: GPUs"];
    assert!(verdict == "failed" && says.ends_with("and 7 are declared"), "{says}");
    let (verdict, says) = &found["box3"];
    assert!(verdict == "failed" && says.starts_with("box3 refuses the login"), "{says}");
    // Each that is not met has a remedy, with the name of its host.
    let shown = sandbox.sweep(&["doctor", "sweep.yaml"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    for (line, next) in lines.iter().zip(lines.iter().skip(1)) {
        if line.starts_with("doubt") || line.starts_with("failed") {
            assert!(next.starts_with("       ") && !next.contains("HOST"), "{line}\n{next}");
        }
    }
}

#[test]
fn doctor_shows_results_that_wait_on_a_host() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let engine = begin(&sandbox);
    until("a job runs", || !starts(&sshd, &[]).is_empty());
    // By SIGKILL.
    drop(engine);
    until("a result waits there", || {
        let says = &doctor(&sandbox, &[]).1["box1: spool"].1;
        !says.contains(" 0 results")
    });
    let shown = sandbox.sweep(&["doctor", "sweep.yaml"]).stdout;
    assert!(shown.contains("the next run with this host takes over the jobs"), "{shown}");
    assert_eq!(sandbox.sweep(&RUN).code, Some(0));
    assert_eq!(starts(&sshd, &[]), once(10));
}

#[test]
fn what_no_run_needs_is_removed_from_a_host() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let config = sshd.path("config");
    let clean = || sandbox.sweep(&["hosts", "clean", "box1", "--option", "-F", "--option", config.to_str().unwrap()]);
    let engine = begin(&sandbox);
    until("a job runs", || !starts(&sshd, &[]).is_empty());
    // Not while somebody uses it, and not while a job runs that nobody waits for.
    let used = clean();
    assert_eq!(used.code, Some(1), "{}", used.stderr);
    assert!(used.stderr.contains("box1 is in use") && used.stderr.contains("nothing was removed"), "{}", used.stderr);
    drop(engine);
    let ended = begin(&sandbox).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let workdir = sshd.home("box1").join(".sweep");
    let old = workdir.join("bin").join("0".repeat(64));
    fs_err::create_dir_all(&old).unwrap();
    fs_err::write(old.join("sweep"), "an earlier version").unwrap();
    let cleaned = clean();
    assert_eq!(cleaned.code, Some(0), "{}", cleaned.stderr);
    assert!(
        cleaned.stderr.contains("1 program, ") && cleaned.stderr.contains("10 records removed"),
        "{}",
        cleaned.stderr
    );
    assert!(!old.exists());
    let left: Vec<_> = ["blobs", "trees"].iter().flat_map(|name| list_all(&workdir.join(name))).collect();
    assert!(left.is_empty(), "{left:?}");
    // The next run sends the files that it needs again.
    sandbox.write("recipe.yaml", &TEN.replace("[0, 10]", "[0, 11]"));
    let ended = sandbox.sweep(&RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("cached", 10), ("done", 1)]);
    assert_eq!(starts(&sshd, &[]), once(11));
}

/// As a hook of another repository would: Git's variables are about that one.
#[test]
fn a_sweep_that_another_repository_started_sends_the_files_of_its_own() {
    let Some(sshd) = Sshd::start(1) else { return };
    let sandbox =
        sandbox("name: own\nsteps: { a: { uses: command, with: { argv: [sh, make.sh], inputs: [make.sh] } } }\n");
    sandbox.write(".gitignore", "secret\n");
    sandbox.write("secret", "a secret of this project\n");
    let other = Sandbox::new();
    for folder in [&sandbox, &other] {
        let made = Command::new("git").args(["init", "-q"]).current_dir(folder.path("")).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no `git` here");
            return;
        }
    }
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let tied = [("GIT_DIR", ".git"), ("GIT_INDEX_FILE", ".git/index"), ("GIT_WORK_TREE", "")];
    let tied = tied.map(|(name, path)| (name, other.path(path)));
    let ended = Running::from(sandbox.command(&RUN).envs(tied).spawn().unwrap()).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let sent = files(&sshd.home("box1"));
    let holds =
        |text: &str| sent.iter().any(|path| fs_err::read_to_string(path).is_ok_and(|found| found.contains(text)));
    assert!(holds("echo made=1"), "{sent:?}");
    assert!(!holds("a secret of this project"), "{sent:?}");
}
