//! Overhead of a run through Slurm: mock jobs compared with as many plain `sbatch true` on the same cluster, and pilot
//! jobs compared with the engine on this machine.
//!
//! ```text
//! cargo bench --no-default-features --bench cluster [-- JOBS]
//! ```
//!
//! The cluster is the tests' own, on loopback (`scripts/slurm-test.sh`); nothing is measured where Slurm is not installed.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

fn main() {
    let jobs = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(200_usize);
    let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/slurm-test.sh");
    let cluster = folder.path().join("c");
    let mut script = Command::new(script).arg(&cluster).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(script.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    if ready.trim() == "ready" {
        measure(jobs, folder.path(), &cluster.join("etc/slurm.conf"));
    } else {
        println!("not measured: Slurm was not found");
    }
    // The end of its input takes the cluster down.
    drop(script.stdin.take());
    script.wait().unwrap();
}

fn measure(jobs: usize, folder: &Path, configuration: &Path) {
    let slurm = |program: &str| {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", configuration).current_dir(folder);
        command
    };
    // Nothing to do, so that all that counts is the way there and back; and something short, for pilots.
    let write = |name: &str, seconds: f64| {
        let recipe = format!(
            "name: {name}\nsteps:\n  a:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {jobs}] }} }}\n    \
             with: {{ seconds: {seconds} }}\n    resources: {{ cpus: 1 }}\n"
        );
        fs::write(folder.join(format!("{name}.yaml")), recipe).unwrap();
    };
    write("nothing", 0.0);
    write("short", 0.1);
    let sweep = |results: &str, arguments: &[&str]| {
        let mut command = slurm(env!("CARGO_BIN_EXE_sweep"));
        command.args(["--results", results, "run"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        time(|| assert!(command.status().unwrap().success()))
    };

    let plain = time(|| {
        for _ in 0..jobs {
            let mut sbatch = slurm("sbatch");
            sbatch.args(["-J", "plain", "-c", "1", "-o", "/dev/null", "--wrap", "true"]).stdout(Stdio::null());
            assert!(sbatch.status().unwrap().success());
        }
        loop {
            let queue = slurm("squeue").args(["-h", "-n", "plain", "-o", "%A"]).output().unwrap();
            if queue.status.success() && queue.stdout.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(200));
        }
    });
    let through = sweep("through", &["nothing.yaml", "--executor", "slurm"]);
    println!("{jobs} jobs that do nothing, one batch job each:");
    println!("  sbatch true     {:>7.2} s", plain.as_secs_f64());
    println!("  sweep run       {:>7.2} s, {:.2} times as long", through.as_secs_f64(), ratio(through, plain));

    // As many at once as the pilot's allocation has cores for.
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string();
    let local = sweep("local", &["short.yaml", "--jobs", &cores]);
    let pilot = sweep("pilot", &["short.yaml", "--executor", "slurm", "--pilot", &cores]);
    println!("{jobs} jobs of 0.1 s, {cores} at once:");
    println!("  sweep run       {:>7.2} s", local.as_secs_f64());
    println!("  --pilot {cores}       {:>7.2} s, {:.2} times as long", pilot.as_secs_f64(), ratio(pilot, local));

    let sent = slurm("squeue").args(["-h", "-t", "all", "-o", "%A"]).output().unwrap();
    let known = String::from_utf8_lossy(&sent.stdout).lines().count();
    let look = time(|| {
        slurm("squeue").args(["-h", "-t", "all", "-o", "%A|%T|%r|%k"]).stdout(Stdio::null()).status().unwrap();
    });
    println!("one squeue of {known} jobs takes {:.1} ms", look.as_secs_f64() * 1e3);
}

fn ratio(time: Duration, of: Duration) -> f64 {
    time.as_secs_f64() / of.as_secs_f64()
}

fn time(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}
