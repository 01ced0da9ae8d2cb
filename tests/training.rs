//! Training through the command line: recipe, worker processes, records, tables. Needs the lab.
#![cfg(feature = "cpu")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use sweep_job::{Backend, Job, Message, Outcome, PROTOCOL, Task, Values};

fn sweep(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(args)
        .current_dir(folder)
        .env_remove("SWEEP_RESULTS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every record below a folder's results.
fn records(folder: &Path) -> Vec<Value> {
    let mut records = Vec::new();
    for shard in std::fs::read_dir(folder.join("results/store")).unwrap() {
        let shard = shard.unwrap().path();
        // The other files and folders there are the store's own.
        let jobs = shard.is_dir().then(|| std::fs::read_dir(&shard).unwrap());
        for job in jobs.into_iter().flatten() {
            if let Ok(text) = std::fs::read(job.unwrap().path().join("record.json")) {
                records.push(serde_json::from_slice(&text).unwrap());
            }
        }
    }
    records
}

fn metric(record: &Value, name: &str) -> f64 {
    record["outcome"]["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// The shipped recipe, shortened: every metric is there, sparsity is reached, a second run trains nothing.
#[test]
fn bitter_from_recipe_to_tables() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/bitter.yaml");
    let args = ["run", recipe.to_str().unwrap(), "--backend", "cpu", "--set", "iters=21", "--set", "batch_size=1"];
    let first = sweep(folder.path(), &args);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let table = String::from_utf8(first.stdout).unwrap();
    assert!(table.contains("mean ± 95 % CI over seed (n = 5)"), "{table}");
    assert!(table.contains("p is corrected for 12 comparisons (Holm)"), "{table}");

    let records = records(folder.path());
    // The last five are the beginnings that the variants share.
    assert_eq!(records.len(), 1 + 13 * 5 + 5);
    for record in records.iter().filter(|record| record["identity"]["task"] == "train") {
        let task = sweep_job::Task::info("train").unwrap();
        for declared in task.metrics() {
            let absent = &record["outcome"]["facts"][format!("absent.{}", declared.name)];
            let measured = &record["outcome"]["metrics"][declared.name];
            assert!(measured.is_object() != absent.is_string(), "{}: measured, or absent with a reason", declared.name);
        }
        let wanted = match record["params"]["prune"].as_str().unwrap() {
            "none" => 0.0,
            // From 0.35 in the first layer to 0.65 in the last; the larger ones come later in every block.
            "bitter4" => 0.5068,
            _ => 0.5,
        };
        assert!((metric(record, "sparsity") - wanted).abs() < 0.005, "{record}");
        assert_eq!(record["provenance"]["device"]["backend"], "cpu");
    }
    // What `--set` asks for has a report beside the whole study's.
    let mut reports = std::fs::read_dir(folder.path().join("results/reports")).unwrap();
    let report = reports.next().unwrap().unwrap().path();
    assert!(report.file_name().unwrap().to_str().unwrap().starts_with("bitter."), "{}", report.display());
    let quality = std::fs::read_to_string(report.join("tables/quality.csv")).unwrap();
    assert_eq!(quality.lines().count(), 1 + 13 * 4, "{quality}");

    let second = sweep(folder.path(), &args);
    assert!(stderr(&second).contains("66 of 66 jobs cached"), "{}", stderr(&second));
    assert_eq!(String::from_utf8(second.stdout).unwrap(), table);
}

/// A saved network is loaded by `init` and has the loss that it was saved with; the same training gives the same bits.
#[test]
fn what_was_saved_evaluates_to_the_same_loss() {
    let folder = tempfile::tempdir().unwrap();
    let small = "n_layer: 1, n_head: 2, d_model: 32, block_size: 16, eval_batches: 4, batch_size: 4";
    let train = format!(
        "steps: {{ train: {{ uses: train, with: {{ {small}, iters: 5, warmup_iters: 0, save: true, dropout: 0.1 }} }} }}"
    );
    std::fs::write(folder.path().join("train.yaml"), train).unwrap();
    let args = ["run", "train.yaml", "--backend", "cpu"];
    let trained = sweep(folder.path(), &args);
    assert_eq!(trained.status.code(), Some(0), "{}", stderr(&trained));
    let record = records(folder.path()).remove(0);
    let key = record["key"].as_str().unwrap();
    let saved = folder.path().join("results/store").join(&key[..2]).join(key).join("files/checkpoint");
    std::fs::rename(&saved, folder.path().join("network")).unwrap();

    std::fs::remove_dir_all(folder.path().join("results")).unwrap();
    sweep(folder.path(), &args);
    let again = records(folder.path()).remove(0);
    assert_eq!(metric(&record, "loss").to_bits(), metric(&again, "loss").to_bits());
    assert_eq!(record["key"], again["key"]);

    std::fs::remove_dir_all(folder.path().join("results")).unwrap();
    let eval = "steps: { eval: { uses: eval, with: { init: network, eval_batches: 4, batch_size: 4 } } }";
    std::fs::write(folder.path().join("eval.yaml"), eval).unwrap();
    let evaluated = sweep(folder.path(), &["run", "eval.yaml", "--backend", "cpu"]);
    assert_eq!(evaluated.status.code(), Some(0), "{}", stderr(&evaluated));
    let evaluated = records(folder.path()).remove(0);
    assert!((metric(&record, "loss") - metric(&evaluated, "loss")).abs() < 1e-5, "{record} {evaluated}");
}

/// A training that diverges, and data that is not what it should be, fail their own job in one sentence.
#[test]
fn bad_data_and_divergence_are_sentences() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("short.txt"), "too short").unwrap();
    std::fs::write(folder.path().join("latin.txt"), b"caf\xe9 ".repeat(2000)).unwrap();
    std::fs::write(
        folder.path().join("recipe.yaml"),
        "
steps:
  train:
    uses: train
    matrix: { data: [short.txt, latin.txt, kjv] }
    with: { n_layer: 1, n_head: 1, d_model: 8, block_size: 8, iters: 30, warmup_iters: 0, lr: 10, grad_clip: 0, log_every: 1, epsilon: 0, decay_on: all, weight_decay: 10 }
",
    )
    .unwrap();
    let output = sweep(folder.path(), &["run", "recipe.yaml", "--backend", "cpu"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    let line = |name: &str| stderr.lines().find(|line| line.contains(name) && line.contains("FAILED")).unwrap();
    assert!(line("short.txt").contains("short.txt"), "{stderr}");
    assert!(line("latin.txt").contains("UTF-8"), "{stderr}");
    assert!(line("kjv").contains("at iteration"), "{stderr}");
}

#[test]
fn a_backend_that_is_not_there_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recipe.yaml"), "steps: { check: { uses: check } }").unwrap();
    let devices = String::from_utf8(sweep(folder.path(), &["devices"]).stdout).unwrap();
    assert!(devices.contains("cpu "), "{devices}");
    let Some(reason) = devices.lines().find(|line| line.starts_with("cuda  none: ")) else {
        eprintln!("not tested: this machine has a CUDA device, or this build has no CUDA backend: {devices}");
        return;
    };
    let output = sweep(folder.path(), &["run", "recipe.yaml", "--backend", "cuda"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("`--backend cuda` cannot be used: no NVIDIA driver"), "{stderr} {reason}");
    assert!(stderr.contains("--backend cpu"), "it says what to do: {stderr}");
    assert!(!folder.path().join("results").exists(), "nothing was run");
}

/// A job on a GPU, through wgpu and Vulkan. The lab's own tests compare whole networks there.
#[test]
#[cfg(feature = "wgpu")]
fn a_job_computes_on_vulkan() {
    let folder = tempfile::tempdir().unwrap();
    let recipe =
        "steps: { choose: { uses: bench/threshold, with: { n_layer: 1, d_model: 32, method: radix, calls: 1 } } }";
    std::fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
    let devices = String::from_utf8(sweep(folder.path(), &["devices"]).stdout).unwrap();
    if let Some(reason) = devices.lines().find(|line| line.starts_with("wgpu  none: ")) {
        eprintln!("not tested: {reason}; scripts/test-deps.sh installs Vulkan in software where it may");
        return;
    }
    let output = sweep(folder.path(), &["run", "recipe.yaml", "--backend", "wgpu"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let emulated = devices.lines().find(|line| line.starts_with("wgpu ")).is_some_and(|line| line.contains("emulated"));
    let warned = stderr(&output).lines().any(|line| line.starts_with("warning: `--backend wgpu` computes on "));
    assert_eq!(warned, emulated, "{}", stderr(&output));
    let record = records(folder.path()).remove(0);
    assert_eq!((metric(&record, "error.threshold"), &record["identity"]["backend"]), (0.0, &Value::from("wgpu")));
}

/// The shipped checks, in part: the steps with everything hold, and a network that sees the future fails by name.
#[test]
fn architectures_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (recipe, only) in [("check.yaml", "check/ablation=16"), ("check-v.yaml", "check/ablation=V17")] {
        let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes").join(recipe);
        let args = ["run", recipe.to_str().unwrap(), "--strict", "--backend", "cpu", "--only", only];
        let output = sweep(folder.path(), &args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let recipe = "steps: { check: { uses: check, with: { ablation: 3, gate_pool: sequence_mean, vocab_size: 64 } } }";
    std::fs::write(folder.path().join("leak.yaml"), recipe).unwrap();
    let output = sweep(folder.path(), &["run", "leak.yaml", "--strict", "--backend", "cpu"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("3 of 14 assertions do not hold: causality: logits at position 0 changed by"), "{text}");
}

/// The engine is killed in the middle of a training; the next run goes on from the last checkpoint, to the same result.
#[test]
fn a_killed_training_goes_on_from_its_checkpoint() {
    let recipe = "steps:
  train:
    uses: train
    with: { n_layer: 1, n_head: 2, d_model: 32, block_size: 32, iters: 600, eval_batches: 2, checkpoint_every: 40, prune: bitter7 }
    resources: { cpus: 1 }
";
    let killed = tempfile::tempdir().unwrap();
    std::fs::write(killed.path().join("recipe.yaml"), recipe).unwrap();
    let mut engine = Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(["run", "recipe.yaml", "--backend", "cpu"])
        .current_dir(killed.path())
        .env_remove("SWEEP_RESULTS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let saved = || {
        let partial = std::fs::read_dir(killed.path().join("results/store/partial")).into_iter().flatten().flatten();
        let checkpoints = partial.flat_map(|job| std::fs::read_dir(job.path()).into_iter().flatten().flatten());
        checkpoints.into_iter().any(|checkpoint| checkpoint.file_name().to_string_lossy().starts_with("after-"))
    };
    while !saved() {
        assert!(engine.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    engine.kill().unwrap();
    engine.wait().unwrap();
    let args = ["run", "recipe.yaml", "--backend", "cpu"];
    let again = sweep(killed.path(), &args);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(stderr(&again).contains("resuming after iteration "), "{}", stderr(&again));

    let whole = tempfile::tempdir().unwrap();
    std::fs::write(whole.path().join("recipe.yaml"), recipe.replace(", checkpoint_every: 40", "")).unwrap();
    assert_eq!(sweep(whole.path(), &args).status.code(), Some(0));
    let (killed, whole) = (&records(killed.path())[0], &records(whole.path())[0]);
    assert_eq!(killed["key"], whole["key"], "how often it is saved is not in the key");
    assert_eq!(killed["outcome"]["curves"], whole["outcome"]["curves"]);
    assert_eq!(metric(killed, "loss").to_bits(), metric(whole, "loss").to_bits());
    assert_eq!((metric(killed, "attempts"), metric(whole, "attempts")), (2.0, 1.0));
    assert!(killed["outcome"]["facts"]["attempt.1"].is_string(), "{killed}");
}

/// Runs a training in a worker process of this process's; gives its result, and what the system says was the largest
/// resident memory of that process, in bytes.
fn worked(folder: &Path, more: &Value) -> (Outcome, f64) {
    let info = Task::info("train").unwrap();
    let mut given = serde_json::json!({"block_size": 32, "batch_size": 2, "iters": 4, "eval_batches": 1, "dropout": 0});
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let given: Values = serde_json::from_value(given).unwrap();
    let given = given.into_iter().map(|(name, value)| {
        let value = info.param(&name).unwrap().check(&value).unwrap();
        (name, value)
    });
    let [dir, scratch] = ["files", "scratch"].map(|name| folder.join(name));
    for folder in [&dir, &scratch] {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir(folder).unwrap();
    }
    let job = Job {
        protocol: PROTOCOL,
        task: info.name.to_owned(),
        params: info.complete(given.collect()),
        backend: Some(Backend::Cpu),
        threads: 2,
        dir,
        scratch,
        project: None,
        layer: None,
        nodes: 1,
        heartbeat: None,
        log: None,
        used: BTreeSet::new(),
        trial: None,
    };
    let mut worker = Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(["worker", "--engine", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = serde_json::to_vec(&job).unwrap();
    line.push(b'\n');
    worker.stdin.take().unwrap().write_all(&line).unwrap();
    let mut said = worker.stdout.take().unwrap();
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        text
    });
    // It only ever grows, so the last reading before the end is the process's.
    let mut peak = 0.0_f64;
    while worker.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak = peak.max(line.map_or(0.0, |kibibytes| 1024.0 * kibibytes.parse::<f64>().unwrap()));
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
    let text = listener.join().unwrap();
    let ended = text.lines().find_map(|line| match serde_json::from_str(line).unwrap() {
        Message::Done(outcome) => Some(outcome),
        Message::Failed(failure) => panic!("{failure:?}"),
        _ => None,
    });
    (ended.unwrap(), peak)
}

/// The recorded memory is the system's number for the process, with saving and without the measurement of the device.
#[test]
fn peak_memory_is_that_of_training_and_saving() {
    let folder = tempfile::tempdir().unwrap();
    let peak = |outcome: &Outcome| outcome.metrics["memory.peak"].value;
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.03;
    let large = |more: Value| {
        let mut given = serde_json::json!({"n_layer": 8, "n_head": 4, "d_model": 384});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        worked(folder.path(), &given)
    };
    let (plain, seen_plain) = large(serde_json::json!({}));
    assert!(near(peak(&plain), seen_plain), "{} told, {seen_plain} seen", peak(&plain));
    let (saved, seen_saved) = large(serde_json::json!({"save": true}));
    assert!(near(peak(&saved), seen_saved), "{} told, {seen_saved} seen", peak(&saved));
    let network = 4.0 * saved.metrics["parameters"].value;
    assert!(seen_saved < seen_plain + 0.5 * network, "{seen_saved} with saving, {seen_plain} without: a second copy");

    let small = |more| worked(folder.path(), &more);
    let (plain, _) = small(serde_json::json!({"n_layer": 1, "n_head": 2, "d_model": 32}));
    let (measured, seen) = small(serde_json::json!({"n_layer": 1, "n_head": 2, "d_model": 32, "ceiling": true}));
    assert!(measured.metrics["peak.compute"].value > 0.0);
    assert!((peak(&measured) / peak(&plain) - 1.0).abs() < 0.1, "{} told, {} without", peak(&measured), peak(&plain));
    assert!(seen > 1.5 * peak(&measured), "{seen} seen, with what measuring the device takes");
}

/// Everything that does not depend on when and where a job ran.
fn timeless(record: &Value) -> Value {
    let measured = ["time.", "throughput", "memory", "compute.", "bandwidth", "utilization", "attempts"];
    let mut outcome = record["outcome"].clone();
    let metrics = outcome["metrics"].as_object_mut().unwrap();
    metrics.retain(|name, _| !measured.iter().any(|prefix| name.starts_with(prefix)));
    serde_json::json!([record["key"], outcome["metrics"], outcome["curves"], record["files"]])
}

/// The thirteen variants share what they do before the first masks, and have the results of variants that run alone.
#[test]
fn variants_share_their_beginning_bit_for_bit() {
    let step = "steps:
  train:
    uses: train
    matrix: { prune: [none, magnitude, movement, bitter0, bitter1, bitter2, bitter3, bitter4, bitter5, bitter6, bitter7, bitter8, bitter9], seed: [0, 1] }
    with: { n_layer: 2, n_head: 2, d_model: 32, block_size: 16, batch_size: 4, iters: 40, prune_warmup: 25, prune_every: 3,
      prune_ramp_end: 35, log_every: 7, save: true, dropout: 0.1, eval_batches: 2 }
    resources: { cpus: 1 }
";
    let results = |share: bool| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("r.yaml"), format!("{step}    states: {{ share: {share} }}\n")).unwrap();
        if share {
            let planned = sweep(folder.path(), &["plan", "r.yaml", "--backend", "cpu"]);
            let planned = String::from_utf8(planned.stdout).unwrap();
            // 27 iterations are the same, of 40: once for each seed instead of 13 times.
            let line = "train: 13 variants × 2 seeds share 27 of 40 iterations: 62 % fewer (392 iterations instead of 1040; 2 shared states)";
            assert!(planned.lines().any(|planned| planned == line), "{planned}");
        }
        let ended = sweep(folder.path(), &["run", "r.yaml", "--backend", "cpu"]);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        let records = records(folder.path());
        let continued = |record: &&Value| record["provenance"]["continued"]["step"] == 27;
        assert_eq!(records.iter().filter(continued).count(), if share { 26 } else { 0 });
        assert!(!folder.path().join("results/store/states/27").exists(), "nobody needs it any more");
        let results: std::collections::BTreeMap<String, Value> = records
            .iter()
            .filter(|record| record["label"].as_str().unwrap().contains("prune="))
            .map(|record| (record["label"].as_str().unwrap().to_owned(), timeless(record)))
            .collect();
        results
    };
    let (shared, alone) = (results(true), results(false));
    assert_eq!(shared.len(), 26);
    for (label, expected) in &alone {
        assert_eq!(&shared[label], expected, "{label}");
    }
}

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let of_parent = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name, in parentheses, may have spaces; after it come the state and the parent.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.get(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    processes.filter(of_parent).collect()
}

/// Polls until `found` gives something.
fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not happen within a minute")
}

fn sharding(folder: &Path, variants: &str, more: &str) {
    let text = format!(
        "name: sharding\nsteps:\n  train:\n    uses: pair/sharding\n    matrix: {{ variant: {variants} }}\n    \
         with: {{ shards: 4, {more} }}\n"
    );
    std::fs::write(folder.join("sharding.yaml"), text).unwrap();
}

/// Four processes compute what one does, with a quarter of its state each.
#[test]
fn ranks_that_are_processes_share_a_training() {
    let folder = tempfile::tempdir().unwrap();
    sharding(folder.path(), "[whole, processes]", "calls: 2, n_layer: 24, width: 128, batch_size: 16");
    let ended = sweep(folder.path(), &["run", "sharding.yaml", "--backend", "cpu"]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let records = records(folder.path());
    let of = |variant: &str| records.iter().find(|record| record["params"]["variant"] == variant).unwrap();
    let (whole, shared) = (of("whole"), of("processes"));
    assert!(metric(shared, "error.output") <= metric(shared, "error.allowed"));
    let state = 16.0 * 24.0 * 128.0 * 128.0;
    for (record, part) in [(whole, 1.0), (shared, 4.0)] {
        let measured = metric(record, "memory.state");
        assert!((measured * part / state - 1.0).abs() < 0.05, "{measured} of {}", state / part);
    }
    assert!(metric(shared, "memory.rank") < metric(whole, "memory.rank") / 1.5, "{shared}");
    // Two gathers of every layer but the last, of which there is one, and a scatter of each: three quarters of all numbers.
    assert_eq!(metric(shared, "bytes.sent"), (3.0 * 24.0 - 1.0) * 0.75 * 4.0 * 128.0 * 128.0);
    assert!(metric(shared, "time.collectives") > 0.0);
}

/// A rank that is killed ends the job with a sentence, and leaves no process.
#[test]
fn a_killed_rank_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    sharding(folder.path(), "[processes]", "calls: 100000, n_layer: 4, width: 128, batch_size: 16");
    let mut sweep = Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(["run", "sharding.yaml", "--backend", "cpu"])
        .current_dir(folder.path())
        .env_remove("SWEEP_RESULTS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ranks = eventually(|| {
        let ranks: Vec<u32> = children(sweep.id()).into_iter().flat_map(children).collect();
        (ranks.len() == 3).then_some(ranks)
    });
    let killed = rustix::process::Pid::from_raw(ranks[1].try_into().unwrap()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let status = eventually(|| sweep.try_wait().unwrap());
    let mut text = String::new();
    sweep.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(!status.success(), "{text}");
    let said = ["the ranks of the job stopped: rank ", " of 4 was ended by signal 9"];
    assert!(said.iter().all(|said| text.contains(said)), "{text}");
    eventually(|| ranks.iter().all(|rank| !Path::new(&format!("/proc/{rank}")).exists()).then_some(()));
}
