//! Faults of hosts and of the network in the middle of a whole run.

use std::{collections::BTreeMap, path::PathBuf, process::Command, sync::atomic::Ordering};

use super::{
    faults::Proxy,
    runs::{HOSTS, RUN, TEN, begin, locally, on_hosts, once, results, sandbox, starts},
    sshd::Sshd,
};
use crate::sandbox::{Sandbox, until};

/// A sweep file that runs the recipe on two hosts, the first of which is behind a proxy.
fn behind(sandbox: &Sandbox, sshd: &Sshd, proxy: &Proxy, more: &str) {
    let (config, port) = (sshd.path("config"), proxy.port);
    let host =
        |name: &str, more: &str| format!("{{ host: {name}, cpus: 2, options: [-F, {}{more}] }}", config.display());
    let hosts = [host("box1", &format!(", '-oPort={port}'")), host("box2", "")].join(", ");
    sandbox.write(
        "sweep.yaml",
        &format!("recipe: recipe.yaml\nexecutor: {{ ssh: {{ hosts: [{hosts}], local: false{more} }} }}\n"),
    );
}

fn until_both_run(sshd: &Sshd) {
    until("both hosts run jobs", || HOSTS[..2].iter().all(|host| sshd.home(host).join("starts").exists()));
}

fn notices(sandbox: &Sandbox, text: &str) -> usize {
    sandbox.journal("notice").iter().filter(|line| line.to_string().contains(text)).count()
}

#[test]
fn a_network_that_stalls_in_the_middle_of_a_run_costs_time_only() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    let proxy = Proxy::of(&sshd, "box1");
    behind(&sandbox, &sshd, &proxy, "");
    let engine = begin(&sandbox);
    until_both_run(&sshd);
    proxy.stalled.store(true, Ordering::SeqCst);
    until("the loss is said", || notices(&sandbox, "the connection to box1 was lost: no message from it") > 0);
    until("the other host has done the rest", || sandbox.records().len() >= 8);
    proxy.stalled.store(false, Ordering::SeqCst);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(starts(&sshd, &[]), once(10), "{}", ended.stderr);
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
}

#[test]
fn a_network_that_stalls_for_good_loses_nothing() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    let proxy = Proxy::of(&sshd, "box1");
    behind(&sandbox, &sshd, &proxy, ", lost_after: 1s");
    let engine = begin(&sandbox);
    until_both_run(&sshd);
    proxy.stalled.store(true, Ordering::SeqCst);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
    assert_eq!(sandbox.tally(), [("done", 10)], "each has one result");
    let starts = starts(&sshd, &[]);
    let twice = starts.values().filter(|count| **count > 1).count();
    assert!(starts.len() == 10 && twice <= 2, "only those of the lost host begin again: {starts:?}");
}

/// A small disk in place of the working folder of a host, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it; `None` where this user cannot.
    fn mount(sshd: &Sshd, host: &str, mebibytes: u64) -> Option<Self> {
        let folder = sshd.home(host).join(".sweep");
        fs_err::create_dir_all(&folder).unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            eprintln!("not run: this user cannot mount a small disk");
            return None;
        }
        Some(Self(folder))
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        let file = self.0.join("fill");
        let mut file = fs_err::File::create(file).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_run_is_one_sentence_and_others_do_the_work() {
    let Some(sshd) = Sshd::start(3) else { return };
    let program = fs_err::metadata(env!("CARGO_BIN_EXE_sweep-engine")).unwrap().len();
    let Some(disk) = SmallDisk::mount(&sshd, "box1", (program >> 20) + 20) else { return };
    let recipe = TEN.replace("[0, 10]", "[0, 16]");
    let sandbox = sandbox(&recipe);
    on_hosts(&sandbox, &sshd, &HOSTS[..2], "local: false");
    let engine = begin(&sandbox);
    until_both_run(&sshd);
    disk.fill();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(results(&sandbox), results(&locally(&recipe).0));
    assert_eq!(sandbox.tally(), [("done", 16)], "{}", ended.stderr);
    assert!(ended.stderr.contains("the disk of box1 is full"), "{}", ended.stderr);
    // Only jobs that were on that host when its disk was full may have begun again elsewhere.
    let starts = starts(&sshd, &[]);
    let twice = starts.values().filter(|count| **count > 1).count();
    assert!(starts.len() == 16 && twice <= 2, "{starts:?}");
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn hosts_on_which_the_program_does_not_run_are_one_sentence_each_and_others_do_the_work() {
    let Some(sshd) = Sshd::start(3) else { return };
    // One is of another kind, and one lacks a library of this program.
    let bin = sshd.home("box1").join("bin");
    fs_err::create_dir(&bin).unwrap();
    let uname = bin.join("uname");
    fs_err::write(&uname, "#!/bin/sh\necho Linux riscv64\n").unwrap();
    fs_err::set_permissions(&uname, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    sshd.rc("box1", "PATH=$HOME/bin:$PATH\n");
    let lib = sshd.home("box2").join("lib");
    fs_err::create_dir(&lib).unwrap();
    fs_err::write(lib.join("libgcc_s.so.1"), "none").unwrap();
    sshd.rc("box2", "export LD_LIBRARY_PATH=$HOME/lib\n");
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS, "local: false");
    let ended = sandbox.sweep(&RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        ended.stderr.matches("box1 is Linux riscv64, but this program is built for").count(),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.matches("this program does not run on box2: ").count(), 1, "{}", ended.stderr);
    assert_eq!(starts(&sshd, &[]), once(10));
    let hosts: BTreeMap<String, usize> = sandbox.journal("started").iter().fold(BTreeMap::new(), |mut hosts, line| {
        *hosts.entry(line["event"]["started"]["host"].as_str().unwrap().to_owned()).or_default() += 1;
        hosts
    });
    assert_eq!(hosts, BTreeMap::from([("box3".to_owned(), 10)]));
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
}
