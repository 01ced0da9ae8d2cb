//! Overhead of jobs on a host through `ssh`: mock jobs that do nothing, one after the other over one connection, compared with the
//! same jobs on this machine.
//!
//! ```text
//! cargo bench -p sweep-engine --bench hosts [-- JOBS]
//! ```
//!
//! The host is a server of OpenSSH on loopback (`scripts/sshd-test.sh`); nothing is measured where it is not installed.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use sweep_engine::{
    batches::Batches,
    hosts::{Connection, HostEvent, Hosted, Project, StartJob, Submitter, Target, hosted},
    plan::SerializedJob,
    recipe::{Draft, Request},
    store::Store,
};
use sweep_job::Backend;

fn main() {
    let jobs = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(200_usize);
    let folder = tempfile::Builder::new().prefix("sshd").tempdir_in("/tmp").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sshd-test.sh");
    let host = folder.path().join("s");
    let mut script =
        Command::new(script).arg(&host).arg("1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(script.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    if ready.trim() == "ready" {
        measure(jobs, folder.path(), &host.join("config"));
    } else {
        println!("not measured: OpenSSH was not found");
    }
    // The end of its input takes the server down.
    drop(script.stdin.take());
    script.wait().unwrap();
}

fn measure(jobs: usize, folder: &Path, configuration: &Path) {
    let recipe = folder.join("nothing.yaml");
    let text = format!(
        "name: nothing\nsteps:\n  a: {{ uses: mock, matrix: {{ value: {{ range: [0, {jobs}] }} }}, resources: {{ cpus: 1 }} }}\n"
    );
    std::fs::write(&recipe, text).unwrap();
    let store = Store::new(&folder.join("results"));
    let planned = planned(&recipe, &store);
    let target = Target {
        host: "box1".into(),
        options: vec!["-F".into(), configuration.to_str().unwrap().into()],
        workdir: None,
    };
    let submitter = Submitter { program: env!("CARGO_BIN_EXE_sweep-engine").into(), store: store.id().unwrap() };
    let (sender, events) = channel();
    let begun = Instant::now();
    let connection = Connection::open(target, submitter, move |event| drop(sender.send(event))).unwrap();
    until(&events, |event| matches!(event, HostEvent::Connected(_)));
    println!("first connection, with the program sent: {:.2} s", begun.elapsed().as_secs_f64());

    let (mut answered, mut started, mut ended, mut fetched) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for job in &planned {
        let key = job.spec.key;
        let begun = Instant::now();
        connection.prepare(&job.shipment).unwrap();
        let start = StartJob {
            key,
            tag: "1".into(),
            spec: job.spec.clone(),
            project: job.shipment.project.digest().to_owned(),
            env: [].into(),
            gpus: None,
        };
        connection.start(&start).unwrap();
        answered.push(begun.elapsed());
        until(&events, |event| matches!(event, HostEvent::Said { line, .. } if line.contains("\"started\"")));
        started.push(begun.elapsed());
        until(&events, |event| matches!(event, HostEvent::Ended { has_record: true, .. }));
        ended.push(begun.elapsed());
        connection.fetch(key, &folder.join("record.tar")).unwrap();
        connection.forget(key).unwrap();
        fetched.push(begun.elapsed());
    }
    println!("{jobs} jobs that do nothing, one after the other; median (mean) in ms since the start was asked for:");
    for (name, times) in [
        ("start answered", &mut answered),
        ("start said by the job", &mut started),
        ("end said by the host", &mut ended),
        ("record fetched and forgotten", &mut fetched),
    ] {
        println!("  {name:<29} {}", summary(times));
    }
    let mut local: Vec<Duration> = planned.iter().take(50).map(|job| here(folder, &recipe, &job.spec)).collect();
    println!("  engine for one job, here      {}", summary(&mut local));
}

/// Time of one job in a separate engine on this machine.
fn here(folder: &Path, recipe: &Path, job: &SerializedJob) -> Duration {
    let results = folder.join("here");
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
    command.arg("--results").arg(results).arg("run").arg(recipe).args(["--only", &job.label.to_string()]);
    assert!(command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    begun.elapsed()
}

fn planned(recipe: &Path, store: &Store) -> Vec<Hosted> {
    let paths = [recipe.to_owned()];
    let draft = Draft::load(&Request { paths: &paths, ..Request::default() }).unwrap();
    let Ok((_, plan)) = Batches::plan(draft, Backend::Cpu, store) else { return Vec::new() };
    let specs =
        plan.jobs().map(|(id, job)| SerializedJob { identity: job.identity.clone(), ..plan.serialize_job(id, |_| 0) });
    specs.map(|spec| hosted(spec, &Project::empty(), store, Path::new("/")).unwrap()).collect()
}

fn until(events: &Receiver<HostEvent>, mut is_it: impl FnMut(&HostEvent) -> bool) {
    loop {
        match events.recv_timeout(Duration::from_mins(1)).unwrap() {
            HostEvent::Lost(error) => panic!("{error}"),
            event if is_it(&event) => return,
            _ => {}
        }
    }
}

fn summary(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len().max(1) as f64;
    let median = times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64();
    format!("{:>7.1} ({:.1})", median * 1e3, mean * 1e3)
}
