//! Jobs that share GPUs. The GPUs are fakes whose memory is enforced: `gpus/nvidia-smi` replaces the driver's program,
//! and `gpus/allocate` refuses allocations that do not fit.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, list};

/// `sweep` on a machine with two GPUs of 8 GiB.
fn command(sandbox: &Sandbox, args: &[&str]) -> Command {
    sandbox.write("gpus/devices", "0, GPU-a, 8192\n1, GPU-b, 8192\n");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/gpus");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = sandbox.command(args);
    command.env("PATH", path).env("FAKE_GPUS", sandbox.path("gpus")).env("CUDA_VISIBLE_DEVICES", "0,1");
    command
}

fn sweep(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let output = command(sandbox, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    sweep(sandbox, &[&["run", "recipe.yaml", "--jobs", "8"], args].concat())
}

/// The lines of a file of the fake driver.
fn lines(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let text = fs_err::read_to_string(sandbox.path(&format!("gpus/{name}"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The largest number of jobs that were on each GPU at once.
fn together(sandbox: &Sandbox) -> BTreeMap<u64, usize> {
    let (mut on, mut most): (BTreeMap<u64, Vec<String>>, BTreeMap<u64, usize>) = (BTreeMap::new(), BTreeMap::new());
    for line in sandbox.journal("") {
        let label = line["label"].as_str().unwrap_or_default().to_owned();
        for gpu in line["event"]["started"]["gpus"].as_array().into_iter().flatten() {
            let gpu = gpu.as_u64().unwrap();
            let jobs = on.entry(gpu).or_default();
            jobs.push(label.clone());
            let most = most.entry(gpu).or_default();
            *most = (*most).max(jobs.len());
        }
        if ["storing", "retrying", "failed"].iter().any(|kind| !line["event"][*kind].is_null()) {
            for jobs in on.values_mut() {
                jobs.retain(|other| *other != label);
            }
        }
    }
    most
}

fn gpu(sandbox: &Sandbox, label: &str) -> Value {
    sandbox.records()[label]["provenance"]["conditions"]["gpu"].clone()
}

const MIB: u64 = 1 << 20;

#[test]
fn parts_of_a_gpu_have_one_gpu_together() {
    let recipe = "
steps:
  part:
    uses: command
    matrix: { n: [1, 2, 3, 4] }
    with: { run: 'allocate 2000; echo n=${{ matrix.n }}; echo gpu=$CUDA_VISIBLE_DEVICES; echo share=$SWEEP_GPU_SHARE' }
    resources: { cpus: 1, gpus: 0.5 }
  whole: { uses: command, needs: part, with: { run: 'echo gpus=1; echo \"share=0${SWEEP_GPU_SHARE:-7}\"' }, resources: { cpus: 1, gpus: 1 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let metric = |label: &str, name: &str| records[label]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    for n in 1..=4 {
        let label = format!("part/n={n}");
        assert_eq!((metric(&label, "gpu"), metric(&label, "share")), (0.0, 0.5), "the fuller one");
        let gpu = gpu(&sandbox, &label);
        assert_eq!((gpu["share"].as_f64(), gpu["peak"].as_u64()), (Some(0.5), Some(2000 * MIB)), "{gpu}");
    }
    assert_eq!(metric("whole", "share"), 7.0, "who has a whole one is not told of a part");
    assert!(together(&sandbox)[&0] <= 2 && lines(&sandbox, "refused").is_empty(), "{:?}", together(&sandbox));
}

#[test]
fn memory_that_is_declared_has_room_or_waits() {
    let recipe = "
steps:
  job:
    uses: command
    matrix: { n: [1, 2, 3, 4, 5, 6] }
    with: { run: 'allocate 5000; echo n=${{ matrix.n }}' }
    resources: { cpus: 1, gpu_memory: 5GiB }
";
    let sandbox = Sandbox::with(recipe);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((together(&sandbox)[&0], lines(&sandbox, "refused")), (1, Vec::new()));
    assert_eq!(gpu(&sandbox, "job/n=1")["reserved"], 5120 * MIB);
    let half = sandbox.read("recipe.yaml").replace("5000", "4000").replace("5GiB", "4000MiB");
    sandbox.write("recipe.yaml", &half);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(together(&sandbox)[&0] <= 2 && lines(&sandbox, "refused").is_empty());
}

const MEASURED: &str = "
params: { seeds: 1 }
steps:
  job:
    uses: command
    matrix: { size: [1000, 3000], seed: { range: [0, '${{ params.seeds }}'] } }
    with: { run: 'allocate ${{ matrix.size }}; echo --seed=${{ matrix.seed }}; echo value=1' }
    resources: { cpus: 1, gpu_memory: measured }
";

#[test]
fn memory_that_was_measured_is_that_of_the_next_jobs_of_the_same_shape() {
    let sandbox = Sandbox::with(MEASURED);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let first = gpu(&sandbox, "job/size=3000,seed=0");
    assert_eq!((first["share"].as_f64(), first["peak"].as_u64()), (Some(1.0), Some(3000 * MIB)), "nothing was known");
    let plan = sweep(&sandbox, &["plan", "recipe.yaml", "--set", "seeds=4"]).stdout;
    let shares: Vec<&str> = plan.lines().filter(|line| line.contains("share GPUs")).collect();
    assert_message!(shares.join("\n"));
    let explained = sweep(&sandbox, &["explain", "recipe.yaml", "job/size=3000,seed=1", "--set", "seeds=4"]).stdout;
    assert!(explained.contains("it shares a GPU: memory 3.22 GiB: the peak of 1 record of its shape"), "{explained}");
    let ended = run(&sandbox, &["--set", "seeds=4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let later = gpu(&sandbox, "job/size=3000,seed=3");
    assert_eq!((later["share"].as_f64(), later["reserved"].as_u64()), (Some(0.0), Some(3300 * MIB)), "a tenth more");
    assert_eq!(gpu(&sandbox, "job/size=1000,seed=1")["reserved"], 1256 * MIB, "at least 256 MiB more");
    assert!(lines(&sandbox, "refused").is_empty());
}

#[test]
fn memory_that_is_measured_in_a_run_counts_in_it() {
    let sandbox = Sandbox::with(&MEASURED.replace("[1000, 3000]", "[1000]"));
    let ended = run(&sandbox, &["--set", "seeds=6"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let shares: Vec<f64> =
        sandbox.records().keys().map(|label| gpu(&sandbox, label)["share"].as_f64().unwrap()).collect();
    // The first ones have a GPU each, and those that start once there is a record share one.
    assert!(shares[..2] == [1.0, 1.0] && shares[4..] == [0.0, 0.0], "{shares:?}");
}

/// Three jobs, of which two fit on a GPU by their shares, but not by their memory.
const TOO_MUCH: &str = "
params: { seeds: 3, memory: 5000 }
steps:
  job:
    uses: command
    matrix: { seed: { range: [0, '${{ params.seeds }}'] } }
    with: { run: 'allocate ${{ params.memory }}; echo --seed=${{ matrix.seed }}; echo value=1' }
    resources: { cpus: 1, gpus: 0.5 }
";

#[test]
fn a_job_that_runs_out_of_memory_on_a_shared_gpu_runs_again_alone_and_the_next_ones_do_not() {
    let sandbox = Sandbox::with(TOO_MUCH);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 3)]);
    let retrying = sandbox.journal("retrying");
    assert_eq!((retrying.len(), lines(&sandbox, "refused").len()), (1, 1), "{retrying:?}");
    assert_eq!(retrying[0]["event"]["retrying"]["alone"], true);
    let label = retrying[0]["label"].as_str().unwrap();
    assert!(
        ended.stderr.contains("3192.00 MiB are free")
            && ended.stderr.contains("it shared a GPU, and runs again on a whole GPU"),
        "{}",
        ended.stderr
    );
    let again = gpu(&sandbox, label);
    assert_eq!((again["share"].as_f64(), again["exhausted"].as_u64()), (Some(1.0), Some(0)), "{again}");
    assert_eq!(again["peak"].as_u64(), Some(5000 * MIB));
    let explained = sweep(&sandbox, &["explain", "recipe.yaml", label]).stdout;
    assert!(explained.contains("after an attempt that ran out of memory on a shared GPU"), "{explained}");
    // It is learned, although the recipe still says half a GPU.
    let ended = run(&sandbox, &["--set", "seeds=6"]);
    assert_eq!((ended.code, lines(&sandbox, "refused").len()), (Some(0), 1), "{}", ended.stderr);
    assert_eq!(gpu(&sandbox, "job/seed=5")["reserved"], 5500 * MIB);
}

#[test]
fn a_job_that_runs_out_of_memory_alone_has_failed() {
    let sandbox = Sandbox::with(TOO_MUCH);
    let ended = run(&sandbox, &["--set", "seeds=1", "--set", "memory=9000"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let attempts: Vec<u64> = sandbox
        .journal("started")
        .iter()
        .map(|line| line["event"]["started"]["attempt"].as_u64().unwrap_or(1))
        .collect();
    assert_eq!((attempts, lines(&sandbox, "refused").len()), (vec![1, 2], 2), "once again, without any `retries`");
    assert_eq!(sandbox.failure("job/seed=0")["kind"], "memory");
    // The retries of a recipe are in addition to that.
    let text = sandbox.read("recipe.yaml") + "    retries: 1\n";
    sandbox.write("recipe.yaml", &text);
    let ended = run(&sandbox, &["--set", "seeds=1", "--set", "memory=9000"]);
    assert_eq!((ended.code, lines(&sandbox, "refused").len()), (Some(5), 5), "{}", ended.stderr);
    let last: Vec<Value> = sandbox.journal("retrying").into_iter().skip(1).collect();
    assert_eq!(
        last.iter().map(|line| line["event"]["retrying"]["alone"].as_bool()).collect::<Vec<_>>(),
        [Some(true), None]
    );
}

#[test]
fn jobs_that_measure_times_share_no_gpu() {
    let recipe = "
steps:
  timed: { uses: command, matrix: { n: [1, 2, 3] }, with: { run: 'sleep 0.1; echo n=${{ matrix.n }}' }, resources: { cpus: 1, gpus: 0.25 } }
tables:
  times: { from: timed, rows: n, cells: [time.run] }
";
    let sandbox = Sandbox::with(recipe);
    let ended = run(&sandbox, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the jobs of `timed` do not share GPUs, because a time or a rate of them is shown"),
        "{}",
        ended.stderr
    );
    assert!(together(&sandbox).values().all(|jobs| *jobs == 1));
    assert_eq!(gpu(&sandbox, "timed/n=1")["share"], 1.0);
}

#[test]
fn without_a_driver_only_shares_count() {
    let sandbox = Sandbox::with(&MEASURED.replace("gpu_memory: measured", "gpus: 0.5").replace("allocate", "true"));
    let output = sandbox.command(&["run", "recipe.yaml"]).env("CUDA_VISIBLE_DEVICES", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let gpu = gpu(&sandbox, "job/size=1000,seed=0");
    assert_eq!((gpu["share"].as_f64(), gpu["peak"].as_u64()), (Some(0.5), None));
}

#[test]
fn a_run_says_who_shares_a_gpu_and_who_waits_for_a_part() {
    let recipe = "
steps:
  hang: { uses: mock, with: { end: hang }, resources: { cpus: 1, gpus: 0.6 } }
  later: { uses: mock, with: { value: 1 }, resources: { cpus: 1, gpus: 0.5 } }
";
    let sandbox = Sandbox::with(recipe);
    let mut command = command(&sandbox, &["run", "recipe.yaml", "--jobs", "8"]);
    let engine: crate::sandbox::Running = command.env("CUDA_VISIBLE_DEVICES", "0").spawn().unwrap().into();
    crate::sandbox::until("it runs", || !sandbox.journal("started").is_empty());
    let text = sandbox.sweep(&["status"]).stdout;
    assert!(text.contains("GPU 0 (0.6)"), "{text}");
    assert!(text.contains("waits for 0.5 of a GPU, at most 0.4 and 3.20 GiB free"), "{text}");
    engine.signal(rustix::process::Signal::TERM);
    engine.wait();
    assert!(!list(&sandbox.path("results/runs")).is_empty());
}
