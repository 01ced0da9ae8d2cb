//! Runs through hosts: the same results as on one machine, whatever happens to hosts and to the sweep.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use super::sshd::Sshd;
use crate::{
    sandbox::{Running, Sandbox, until},
    slurm::cluster,
};

/// 40 jobs: 24 of one step, 10 that each need some of them, one that needs these; a retry, a failure with a job that needs it,
/// and two programs, one of which takes what the other one has left.
const FORTY: &str = "
name: forty
steps:
  a:
    uses: mock
    matrix: { value: { range: [0, 8] }, seed: [0, 1, 2] }
    resources: { cpus: 1 }
  b:
    uses: mock
    needs: [{ step: a, where: { seed: [0, 1] } }]
    matrix: { variant: { range: [0, 10] } }
    resources: { cpus: 1 }
  c: { uses: mock, needs: b, with: { value: 7, text: whole } }
  again: { uses: mock, with: { failures: 1 }, retries: 1 }
  bad: { uses: mock, needs: again, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 4 } }
  make:
    uses: command
    with: { argv: [sh, make.sh], inputs: [make.sh], outputs: [made.txt] }
    resources: { cpus: 1 }
  take:
    needs: make
    uses: command
    with: { run: 'echo length=$(wc -c < made.txt)', inputs: [\"${{ needs.make.artifacts.made.txt }}\"] }
tables: { t: { from: a, rows: [value], cells: [value] } }
";

/// Ten programs that say on their host that they have begun, and take a second.
pub(super) const TEN: &str = "
name: ten
steps:
  a:
    uses: command
    matrix: { number: { range: [0, 10] } }
    with:
      argv: [sh, -c, 'echo $0 >> $HOME/starts; sleep 1; echo value=$0', '${{ matrix.number }}']
    resources: { cpus: 1 }
";

/// A sweep file that runs the recipe on hosts.
pub(super) fn on_hosts(sandbox: &Sandbox, sshd: &Sshd, hosts: &[&str], more: &str) {
    let config = sshd.path("config");
    let hosts: Vec<String> =
        hosts.iter().map(|host| format!("{{ host: {host}, cpus: 2, options: [-F, {}] }}", config.display())).collect();
    let hosts = hosts.join(", ");
    sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {{ ssh: {{ hosts: [{hosts}], {more} }} }}\n"));
}

pub(super) const RUN: [&str; 4] = ["run", "sweep.yaml", "--poll", "0.1"];
pub(super) const HOSTS: [&str; 3] = ["box1", "box2", "box3"];

pub(super) fn sandbox(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("make.sh", "printf 'some text' > made.txt\necho made=1\n");
    // Otherwise the project could be a folder further up.
    sandbox.write("pyproject.toml", "");
    sandbox
}

/// The same recipe on this machine alone.
pub(super) fn locally(recipe: &str) -> (Sandbox, Option<i32>, String) {
    let local = sandbox(recipe);
    local.write("sweep.yaml", "recipe: recipe.yaml\n");
    let ended = local.command(&["run", "sweep.yaml"]).env("HOME", local.path("")).spawn().unwrap();
    let ended = Running::from(ended).wait();
    (local, ended.code, ended.stdout)
}

/// The parts of records that do not differ between runs.
pub(super) fn results(sandbox: &Sandbox) -> BTreeMap<String, (Value, Value, Value)> {
    let records = sandbox.records().into_iter().map(|(label, mut record)| {
        let mut metrics = record["outcome"]["metrics"].take();
        if let Some(metrics) = metrics.as_object_mut() {
            // Those that are measured have names such as `time.run`.
            metrics.retain(|name, _| !name.contains('.'));
        }
        (label, (record["key"].take(), metrics, record["files"].take()))
    });
    records.collect()
}

/// Number of starts of each program, on all hosts and below these folders.
pub(super) fn starts(sshd: &Sshd, others: &[&Path]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let homes = HOSTS.iter().map(|host| sshd.home(host));
    for home in homes.chain(others.iter().map(|folder| folder.to_path_buf())) {
        for line in fs_err::read_to_string(home.join("starts")).unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
    }
    counts
}

pub(super) fn once(count: usize) -> BTreeMap<String, usize> {
    (0..count).map(|number| (number.to_string(), 1)).collect()
}

pub(super) fn begin(sandbox: &Sandbox) -> Running {
    sandbox.command(&RUN).env("HOME", sandbox.path("")).spawn().unwrap().into()
}

#[test]
fn forty_jobs_end_on_three_hosts_as_they_do_on_one_machine() {
    let Some(sshd) = Sshd::start(3) else { return };
    let (local, code, stdout) = locally(FORTY);
    let sandbox = sandbox(FORTY);
    on_hosts(&sandbox, &sshd, &HOSTS, "local: false");
    let ended = sandbox.sweep(&RUN);
    assert_eq!((ended.code, code), (Some(5), Some(5)), "{}", ended.stderr);
    assert_eq!(ended.stdout, stdout);
    assert_eq!(results(&sandbox), results(&local));
    assert_eq!(sandbox.tally(), [("done", 38), ("failed", 1), ("skipped", 1)]);
    assert_eq!(sandbox.tally(), local.tally());
    assert_eq!(sandbox.failure("bad"), local.failure("bad"));
    assert_eq!(sandbox.skipped()["after"], "bad");
    assert_eq!(sandbox.journal("retrying").iter().map(|line| &line["label"]).collect::<Vec<_>>(), ["again"]);
    let mut hosts: Vec<String> = sandbox
        .journal("started")
        .iter()
        .map(|line| line["event"]["started"]["host"].as_str().expect("it says where").to_owned())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    // On a busy machine one of them may answer only when no job is left.
    assert!(hosts.len() >= 2 && hosts.iter().all(|host| HOSTS.contains(&host.as_str())), "{hosts:?}");
    assert!(sandbox.sweep(&["logs", "bad"]).stdout.contains("mock job"));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    // Records of one's own machines are one's own.
    assert!(!sandbox.sweep(&["show", "c"]).stdout.contains("not signed"));
    assert_eq!(fs_err::read_dir(sandbox.path("results/hosts/placed")).unwrap().count(), 0);
}

#[test]
fn a_sweep_that_is_killed_is_followed_by_one_that_takes_its_jobs_over() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..2], "local: true");
    let home = sandbox.path("");
    // At the first start, at the first record, and later.
    for moment in 0..3 {
        let engine = begin(&sandbox);
        until("it is time", || match moment {
            0 => !starts(&sshd, &[&home]).is_empty(),
            _ => sandbox.records().len() > 3 * (moment - 1),
        });
        // By SIGKILL.
        drop(engine);
    }
    let last = begin(&sandbox).wait();
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert_eq!(starts(&sshd, &[&home]), once(10), "nothing ran twice");
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
}

#[test]
fn a_host_that_goes_away_for_a_while_costs_time_only() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..2], "local: false");
    let engine = begin(&sandbox);
    until("both hosts run jobs", || HOSTS[..2].iter().all(|host| sshd.home(host).join("starts").exists()));
    sshd.send("kill box1");
    until("the other one goes on", || sandbox.records().len() > 3);
    sshd.send("start box1");
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("box1 answers again"), "{}", ended.stderr);
    assert_eq!(starts(&sshd, &[]), once(10), "{}", ended.stderr);
}

#[test]
fn the_jobs_of_a_host_that_stays_away_run_elsewhere() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..2], "local: false, lost_after: 1s");
    let engine = begin(&sandbox);
    until("both hosts run jobs", || HOSTS[..2].iter().all(|host| sshd.home(host).join("starts").exists()));
    sshd.send("kill box1");
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
    // The results that the host has computed meanwhile are not needed, and the next run with work to do removes them there.
    sshd.send("start box1");
    sandbox.write("recipe.yaml", &TEN.replace("[0, 10]", "[0, 11]"));
    let ended = sandbox.sweep(&RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("cached", 10), ("done", 1)]);
}

#[test]
fn what_hosts_have_begun_is_finished_here_or_by_slurm() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS, "local: false");
    let engine = begin(&sandbox);
    until("a job is done", || !sandbox.records().is_empty());
    drop(engine);
    let before = sandbox.records();
    let slurm = cluster::shared();
    let ended = match &slurm {
        Some((cluster, _quiet)) => {
            cluster.sweep(&sandbox, &["run", "recipe.yaml", "--executor", "slurm", "--only", "a/number=9"])
        }
        None => sandbox.sweep(&["run", "recipe.yaml", "--only", "a/number=9"]),
    };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    assert!(before.iter().all(|(label, record)| records[label] == *record), "nothing was repeated");
    assert_eq!(results(&sandbox), results(&locally(TEN).0));
}

#[test]
fn the_first_interrupt_lets_running_jobs_end_and_the_second_ends_them() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(
        "steps: { a: { uses: mock, matrix: { value: [1, 2, 3, 4] }, with: { end: hang }, resources: { cpus: 1 } } }\n",
    );
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let engine = begin(&sandbox);
    until("two jobs run", || sandbox.journal("started").len() == 2);
    let status = sandbox.sweep(&["status"]);
    assert!(status.stdout.contains("on box1"), "{}", status.stdout);
    engine.signal(Signal::INT);
    until("it has heard", || !sandbox.journal("stopping").is_empty());
    let live = sandbox.status();
    assert_eq!((&live["live"], &live["stopping"]), (&true.into(), &true.into()));
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("skipped", 4)], "{}", ended.stderr);
    let list = sandbox.sweep(&["hosts", "list"]).stdout;
    assert_eq!(list, "no host was added or removed, and no run with hosts is in progress\n");
}

#[test]
fn who_leaves_can_come_back_or_end_the_jobs_that_stay() {
    let Some(sshd) = Sshd::start(3) else { return };
    let sandbox = sandbox(TEN);
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let engine = begin(&sandbox);
    until("a job runs", || !starts(&sshd, &[]).is_empty());
    for _ in 0..3 {
        engine.signal(Signal::HUP);
    }
    let ended = engine.wait();
    assert_eq!(ended.code, Some(129), "{}", ended.stderr);
    let status = sandbox.sweep(&["status"]);
    assert!(status.stdout.contains("the same command") || status.stdout.contains("10 jobs"), "{}", status.stdout);
    let ended = begin(&sandbox).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(starts(&sshd, &[]), once(10), "{}", ended.stderr);

    // Jobs that nobody waits for are ended by a command.
    let hang = self::sandbox("steps: { a: { uses: mock, with: { end: hang } } }\n");
    on_hosts(&hang, &sshd, &HOSTS[..1], "local: false");
    let engine = begin(&hang);
    until("it runs", || !hang.journal("started").is_empty());
    drop(engine);
    let ended = hang.sweep(&["hosts", "cancel"]);
    assert_eq!((ended.code, ended.stderr.trim()), (Some(0), "the end of 1 job was requested"));
}

#[test]
fn hosts_join_and_leave_a_run() {
    let Some(sshd) = Sshd::start(3) else { return };
    // On the first host, jobs wait for a file: however long the second one takes to connect, there are jobs left for it.
    let waiting = TEN.replace("sleep 1", "until [ -e $HOME/go ]; do sleep 0.1; done; sleep 1");
    let sandbox = sandbox(&waiting.replace("[0, 10]", "[0, 24]"));
    fs_err::write(sshd.home("box2").join("go"), "").unwrap();
    on_hosts(&sandbox, &sshd, &HOSTS[..1], "local: false");
    let engine = begin(&sandbox);
    until("a job runs", || !starts(&sshd, &[]).is_empty());
    let config = sshd.path("config");
    let add = ["hosts", "add", "box2", "--cpus", "4", "--option", "-F", "--option", config.to_str().unwrap()];
    assert_eq!(sandbox.sweep(&add).code, Some(0));
    until("the new host runs jobs", || sshd.home("box2").join("starts").exists());
    until("it is listed", || {
        let list = sandbox.sweep(&["hosts", "list"]).stdout;
        list.contains("box2  connected") && list.contains("of 4 cores")
    });
    assert_eq!(sandbox.sweep(&["hosts", "rm", "box1"]).code, Some(0));
    fs_err::write(sshd.home("box1").join("go"), "").unwrap();
    until("it is told, and its jobs have ended", || {
        let list = sandbox.sweep(&["hosts", "list"]).stdout;
        let first = list.lines().find(|line| line.contains("box1"));
        first.is_none_or(|line| line.contains("leaving") && line.contains(" 0 jobs"))
    });
    let on_first = fs_err::read_to_string(sshd.home("box1").join("starts")).unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(fs_err::read_to_string(sshd.home("box1").join("starts")).unwrap(), on_first, "it gets no new jobs");
    assert_eq!(starts(&sshd, &[]), once(24));
    // The next run remembers it.
    sandbox.write("recipe.yaml", &TEN.replace("[0, 10]", "[24, 25]"));
    let ended = sandbox.sweep(&RUN);
    assert!(ended.stderr.contains("box1 is not used: it was removed"), "{}", ended.stderr);
}

#[test]
fn a_host_that_refuses_the_key_is_one_sentence() {
    let Some(sshd) = Sshd::start(3) else { return };
    fs_err::write(sshd.path("box1/authorized_keys"), "").unwrap();
    let recipe = "steps: { a: { uses: mock, matrix: { value: [1, 2] } } }\n";
    // Others do its work.
    let both = sandbox(recipe);
    on_hosts(&both, &sshd, &HOSTS[..2], "local: false");
    let ended = both.sweep(&RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("box1 refuses the login").count(), 1, "{}", ended.stderr);
    // Alone it cannot be waited for.
    let alone = sandbox(recipe);
    on_hosts(&alone, &sshd, &HOSTS[..1], "local: false");
    let ended = alone.sweep(&RUN);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let message = alone.failure("a/value=1")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("SSH cannot start it: box1 refuses the login"), "{message}");
    // This machine is a place, too.
    let here = sandbox(recipe);
    on_hosts(&here, &sshd, &HOSTS[..1], "local: true");
    let ended = here.sweep(&RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn what_makes_no_sense_with_hosts_is_refused() {
    let sandbox = sandbox("steps: { a: { uses: mock } }\n");
    let mut said = String::new();
    let commands: [&[&str]; 7] = [
        &["run", "recipe.yaml", "--executor", "ssh"],
        &["run", "recipe.yaml", "--hosts", "box1", "--detach"],
        &["run", "recipe.yaml", "--hosts", "box1", "--pilot", "2"],
        &["run", "recipe.yaml", "--hosts", "box1", "--executor", "slurm"],
        &["run", "recipe.yaml", "--hosts=-oProxyCommand=evil"],
        &["hosts", "add", "--", "-oProxyCommand=evil"],
        &["hosts", "rm", "two words"],
    ];
    for command in commands {
        let ended = sandbox.sweep(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        writeln!(said, "{}\n  {}", command.join(" "), ended.stderr.trim()).unwrap();
    }
    assert!(sandbox.runs().is_empty());
    assert_message!(said);
}
