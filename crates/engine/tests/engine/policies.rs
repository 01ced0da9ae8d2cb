//! Policies for jobs that fail, hang, take too long, or request more than there is.

use rustix::process::Signal;

use crate::sandbox::{Sandbox, list, until};

/// Runs a single job that fails; returns the standard error.
fn failure(step: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::with(&format!("steps: {{ a: {{ uses: mock, {step} }} }}"));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(sandbox.records().is_empty() && sandbox.workers().is_empty(), "{}", ended.stderr);
    assert!(list(&sandbox.path("results/store/staging")).is_empty(), "a failure leaves nothing in the store");
    (sandbox, ended.stderr)
}

#[test]
fn what_takes_too_long_is_ended() {
    let (sandbox, stderr) = failure("with: { end: hang }, timeout: 300ms");
    assert_eq!(sandbox.failure("a")["kind"], "timeout");
    assert_message!(stderr);
}

#[test]
fn what_does_not_hear_is_killed() {
    let (sandbox, _) = failure("with: { end: deaf }, timeout: 300ms");
    assert_eq!(sandbox.failure("a")["kind"], "timeout");
    let seconds = sandbox.journal("failed")[0]["event"]["failed"]["seconds"].as_f64().unwrap();
    assert!(seconds >= 5.0, "it had its time to end by itself: {seconds}");
}

#[test]
fn what_waits_for_what_never_comes_has_stalled() {
    let (sandbox, stderr) = failure("with: { end: hang }, heartbeat: 1s");
    assert_eq!(sandbox.failure("a")["kind"], "stalled");
    assert_message!(stderr);
}

#[test]
fn what_computes_has_not_stalled() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: spin }, heartbeat: 3s, timeout: 5s } }");
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.failure("a")["kind"], "timeout");
}

#[test]
fn a_program_that_computes_has_not_stalled_and_one_that_waits_has() {
    let recipe = "
steps:
  busy: { uses: command, with: { run: 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 0.2' }, heartbeat: 2s }
  idle: { uses: command, with: { run: sleep 600 }, heartbeat: 1s }
";
    let sandbox = Sandbox::with(recipe);
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.records().into_keys().collect::<Vec<_>>(), ["busy"]);
    assert_eq!(sandbox.failure("idle")["kind"], "stalled");
}

#[test]
fn a_retry_may_succeed_and_has_what_the_first_attempt_left() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { failures: 2 }, retries: 2 } }");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let retrying = sandbox.journal("retrying");
    let waits: Vec<_> = retrying.iter().map(|line| line["event"]["retrying"]["wait"].as_f64().unwrap()).collect();
    assert_eq!((waits, sandbox.tally()), (vec![1.0, 2.0], vec![("done", 1)]));
    assert_message!(ended.stderr);
    let log = list(&sandbox.path("results/runs"))[0].join("logs");
    let log = fs_err::read_to_string(&list(&log)[0]).unwrap();
    assert_eq!(log.matches("mock job").count(), 3, "one log for all attempts");
    assert!(list(&sandbox.path("results/store/partial")).is_empty(), "what it left goes when it is done");
}

#[test]
fn the_last_attempts_failure_is_the_jobs_and_the_scratch_stays() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { failures: 3 }, retries: 1 } }");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("failed", 1)]);
    assert_eq!(list(&sandbox.path("results/store/partial")).len(), 1);
    // Two attempts have failed; the next run's first is the third, its second succeeds.
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(list(&sandbox.path("results/store/partial")).is_empty());
}

#[test]
fn a_stop_ends_the_wait_for_another_attempt() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: fail }, retries: 100 } }");
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("an attempt has failed", || !sandbox.journal("retrying").is_empty());
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("failed", 1)], "its failure is not forgotten: {}", ended.stderr);
}

#[test]
fn what_may_fail_does_not_fail_the_run() {
    let recipe = "
steps:
  a: { uses: mock, with: { end: fail }, continue-on-error: true }
  after: { uses: mock, needs: a, continue-on-error: true }
  b: { uses: mock, with: { value: 2 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1", "--fail-fast"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 1), ("tolerated", 1), ("skipped", 1)]);
    assert_eq!(sandbox.skipped()["after"], "a");
    assert_message!(ended.stderr);
}

#[test]
fn a_devices_memory_is_told_from_other_failures() {
    let (sandbox, stderr) = failure("with: { end: device-memory }");
    assert_eq!(sandbox.failure("a")["kind"], "memory");
    // A worker that ends at once is rarely measured, but on a slow machine it is.
    assert_message!(stderr, r" \(main memory at its peak: [\d.]+ [KMG]iB\)" => "");
}

#[test]
fn an_allocator_that_gives_up_is_out_of_memory() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: devour, seconds: 0.3 } } }");
    // The limit is the worker's, too.
    let script = format!("ulimit -v 1000000; exec {} run recipe.yaml", env!("CARGO_BIN_EXE_sweep-engine"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(sandbox.path(".")).env("NO_COLOR", "1");
    let ended = shell.output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(5), "{stderr}");
    assert_eq!(sandbox.failure("a")["kind"], "memory", "{stderr}");
    assert_message!(stderr, r"allocation of \d+ bytes" => "allocation of [bytes]", r"[\d.]+ [KMG]iB" => "[size]");
}

#[test]
fn what_the_kernel_kills_for_want_of_memory_is_told_so() {
    let Some(group) = Group::new(64 << 20) else {
        eprintln!("not run: this process may not make a control group with a limit for memory");
        return;
    };
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: devour } } }");
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} run recipe.yaml",
        group.0.display(),
        env!("CARGO_BIN_EXE_sweep-engine")
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(sandbox.path(".")).env("NO_COLOR", "1");
    let ended = shell.output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    if ended.status.code() != Some(5) {
        eprintln!("not run: the kernel has ended more than the worker: {:?} {stderr}", ended.status);
        return;
    }
    assert_eq!(sandbox.failure("a")["kind"], "memory", "{stderr}");
    // Whether the worker was looked at before it ended is a matter of milliseconds.
    assert_message!(stderr, r" \(main memory at its peak: [\d.]+ [KMG]iB\)" => "");
}

/// A control group with a limit for memory, version 1 or 2.
struct Group(std::path::PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |controller: &str| {
            own.lines()
                .find_map(|line| line.split_once(controller).map(|(_, path)| path.trim_start_matches('/').to_owned()))
        };
        let name = format!("sweep-test-{}", std::process::id());
        let places = [
            (path(":memory:").map(|path| format!("/sys/fs/cgroup/memory/{path}/{name}")), "memory.limit_in_bytes"),
            (path("0::").map(|path| format!("/sys/fs/cgroup/{path}/{name}")), "memory.max"),
        ];
        places.into_iter().find_map(|(place, limit)| {
            let group = Self(place?.into());
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn gpus_are_handed_out_one_by_one() {
    let recipe = "
steps:
  one:
    uses: command
    matrix: { n: [1, 2, 3, 4] }
    with: { run: 'sleep 0.3; echo n=${{ matrix.n }}; echo gpu=$CUDA_VISIBLE_DEVICES' }
    resources: { cpus: 1, gpus: 1 }
  both: { uses: command, with: { run: 'echo \"gpus=$CUDA_VISIBLE_DEVICES\" | tr , 0' }, resources: { cpus: 1, gpus: 2 } }
  none: { uses: command, with: { run: 'echo; echo \"gpus=$CUDA_VISIBLE_DEVICES\" | tr , 0' }, resources: { cpus: 1 } }
";
    let sandbox = Sandbox::with(recipe);
    let mut command = sandbox.command(&["run", "recipe.yaml", "--jobs", "8"]);
    let ended = command.env("CUDA_VISIBLE_DEVICES", "5,7").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let records = sandbox.records();
    let metric = |label: &str, name: &str| records[label]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    for n in 1..=4 {
        assert!([5.0, 7.0].contains(&metric(&format!("one/n={n}"), "gpu")));
    }
    assert_eq!(metric("both", "gpus"), 507.0);
    assert_eq!(metric("none", "gpus"), 507.0, "whoever asks for none keeps the environment's");
    // No GPU had two jobs at once.
    let mut on: std::collections::BTreeMap<u64, String> = std::collections::BTreeMap::new();
    for line in sandbox.journal("") {
        let label = line["label"].as_str().unwrap_or_default().to_owned();
        for gpu in line["event"]["started"]["gpus"].as_array().into_iter().flatten() {
            assert_eq!(on.insert(gpu.as_u64().unwrap(), label.clone()), None, "{label}");
        }
        if !line["event"]["storing"].is_null() {
            on.retain(|_, owner| *owner != label);
        }
    }
}

#[test]
fn a_measuring_job_runs_alone() {
    let recipe = "
steps:
  measure: { uses: mock, matrix: { value: [1, 2] }, with: { seconds: 0.2 }, resources: { cpus: 1 }, exclusive: true }
  other: { uses: mock, matrix: { value: [3, 4, 5] }, with: { seconds: 0.2 }, resources: { cpus: 1 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut running = Vec::new();
    for (label, kind) in sandbox.events() {
        match kind.as_str() {
            "started" => running.push(label),
            "storing" => running.retain(|other| *other != label),
            _ => {}
        }
        let measuring = running.iter().any(|label| label.starts_with("measure"));
        assert!(!measuring || running.len() == 1, "{running:?}");
    }
}

#[test]
fn memory_is_shared_out() {
    let recipe = "
steps:
  big: { uses: mock, matrix: { value: [1, 2, 3] }, with: { seconds: 0.2 }, resources: { cpus: 1, memory: 900GiB } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let notes: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_message!(notes.join("\n"), r"has [\d.]+ GiB" => "has [size]");
    let kinds: Vec<String> = sandbox.events().into_iter().map(|(_, kind)| kind).collect();
    let running = kinds.iter().filter(|kind| ["started", "storing"].contains(&kind.as_str()));
    let running: Vec<&str> = running.map(String::as_str).collect();
    assert_eq!(running, ["started", "storing"].repeat(3), "one at a time");
}

#[test]
fn what_took_long_before_starts_first() {
    let recipe = "
params: { v: 1 }
steps:
  job: { uses: mock, matrix: { value: [1, 2, 3] }, with: { variant: '${{ params.v }}' }, resources: { cpus: 1 } }
";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    // In earlier runs the last job took the longest.
    for (label, record) in sandbox.records() {
        let key = record["key"].as_str().unwrap();
        let path = format!("results/store/{}/{key}/record.json", &key[..2]);
        let mut record = record.clone();
        record["provenance"]["seconds"] = label.strip_prefix("job/value=").unwrap().parse::<f64>().unwrap().into();
        record.as_object_mut().unwrap().remove("digest");
        sandbox.write(&path, &record.to_string());
    }
    fs_err::remove_dir_all(sandbox.path("results/runs")).unwrap();
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--set", "v=2"]).stdout;
    assert_message!(plan.lines().next().unwrap());
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", "v=2", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = sandbox.journal("started");
    let order: Vec<&str> = events.iter().map(|line| line["label"].as_str().unwrap()).collect();
    assert_eq!(order, ["job/value=3", "job/value=2", "job/value=1"]);
}

#[test]
fn none_of_it_is_in_the_key() {
    let keys = |rest: &str| {
        let sandbox = Sandbox::with(&format!("steps: {{ a: {{ uses: mock{rest} }} }}"));
        assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
        sandbox.records()["a"]["key"].to_string()
    };
    let plain = keys("");
    let policies = ", timeout: 5m, heartbeat: 2m, retries: 4, continue-on-error: true, exclusive: true, \
                    resources: { cpus: 1, gpus: 1, memory: 1GiB }";
    assert_eq!(plain, keys(policies));
}

#[test]
fn a_job_that_is_skipped_after_a_tolerated_failure_is_a_failure_of_the_run() {
    let recipe = "
name: study
steps:
  train: { uses: mock, matrix: { end: [fail, done] }, continue-on-error: true }
  summary: { uses: mock, needs: [train], with: { value: 2 } }
";
    let sandbox = Sandbox::with(recipe);
    for _ in 0..2 {
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(5), "{}", ended.stderr);
        assert!(ended.stderr.contains("1 job did not run, because a job that it needs failed"), "{}", ended.stderr);
    }
    // Alone, the failure is tolerated; so is it if the summary tolerates it, too.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "train"]).code, Some(0));
    sandbox.write("recipe.yaml", &recipe.replace("needs: [train],", "needs: [train], continue-on-error: true,"));
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
}
