//! Overhead of a run through Slurm, Grid Engine and Ray: mock jobs compared with as many jobs of the system's own client on the
//! same cluster, and pilot jobs compared with the engine on this machine.
//!
//! ```text
//! cargo bench -p sweep-engine --bench cluster [-- JOBS]
//! ```
//!
//! The clusters are the tests' own, on loopback (`scripts/slurm-test.sh`, `scripts/gridengine-test.sh`, `scripts/ray-test.sh`);
//! nothing is measured where a system is not installed. Ray gets a tenth of the jobs, because it starts a Python process for each.

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
    with("slurm-test.sh", |folder, cluster, _| measure(jobs, folder, &cluster.join("etc/slurm.conf")));
    with("gridengine-test.sh", |folder, cluster, _| grid_engine(jobs, folder, cluster));
    with("ray-test.sh", |folder, _, inside| ray(jobs.div_ceil(10), folder, inside));
}

/// Starts a cluster with a script, and measures in a folder; the last argument of `measure` is the script's output when the cluster is
/// ready. The script stops the cluster at the end of its input.
fn with(script: &str, measure: impl FnOnce(&Path, &Path, &str)) {
    let folder = tempfile::Builder::new().prefix("bench").tempdir_in("/tmp").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let cluster = folder.path().join("c");
    let mut process = Command::new(path).arg(&cluster).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    match ready.trim().split_once(' ').unwrap_or((ready.trim(), "")) {
        ("ready", inside) => measure(folder.path(), &cluster, inside),
        _ => println!("not measured: {script} found no system"),
    }
    drop(process.stdin.take());
    process.wait().unwrap();
}

/// Writes a recipe with `jobs` jobs that each take `seconds`.
fn write(folder: &Path, name: &str, jobs: usize, seconds: f64) {
    let recipe = format!(
        "name: {name}\nsteps:\n  a:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {jobs}] }} }}\n    \
         with: {{ seconds: {seconds} }}\n    resources: {{ cpus: 1 }}\n"
    );
    fs::write(folder.join(format!("{name}.yaml")), recipe).unwrap();
}

fn compare(jobs: usize, client: &str, plain: Duration, through: Duration) {
    println!("{jobs} jobs that do nothing, one batch job each:");
    println!("  {client:<15} {:>7.2} s", plain.as_secs_f64());
    println!("  sweep run       {:>7.2} s, {:.2} times as long", through.as_secs_f64(), ratio(through, plain));
}

fn grid_engine(jobs: usize, folder: &Path, cluster: &Path) {
    let client = |line: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!(". '{}/settings.sh'; {line}", cluster.display())]).current_dir(folder);
        command
    };
    let plain = time(|| {
        for _ in 0..jobs {
            let mut submit = client("exec qsub -b y -N plain -o /dev/null -j y true");
            assert!(submit.stdout(Stdio::null()).status().unwrap().success());
        }
        while !client("exec qstat").output().unwrap().stdout.is_empty() {
            thread::sleep(Duration::from_millis(200));
        }
    });
    write(folder, "nothing", jobs, 0.0);
    fs::write(folder.join("sweep.yaml"), "recipe: nothing.yaml\nexecutor: { batch: { preset: sge } }\n").unwrap();
    let mut sweep = client(&format!("exec '{}' --results through run sweep.yaml", env!("CARGO_BIN_EXE_sweep-engine")));
    sweep.stdout(Stdio::null()).stderr(Stdio::null());
    let through = time(|| assert!(sweep.status().unwrap().success()));
    compare(jobs, "qsub true", plain, through);
}

/// Submits jobs with Ray's own client, and waits for them.
const RAY_CLIENT: &str = "
import sys, time
from ray.job_submission import JobSubmissionClient
client = JobSubmissionClient('http://127.0.0.1:8265')
begun = time.time()
jobs = [client.submit_job(entrypoint='true', entrypoint_num_cpus=1) for _ in range(int(sys.argv[1]))]
while any(client.get_job_status(job) not in ('SUCCEEDED', 'FAILED') for job in jobs):
    time.sleep(0.2)
print(time.time() - begun)
";

fn ray(jobs: usize, folder: &Path, inside: &str) {
    let within = |program: &str| {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--preserve-credentials", "--net", "-t", inside, "--", program]).current_dir(folder);
        command
    };
    let cache = std::env::var("HOME").unwrap_or_default() + "/.cache/sweep/ray";
    let environment = std::env::var("SWEEP_PYTHON_RAY").unwrap_or(cache);
    let mut client = within(&format!("{environment}/bin/python"));
    // Its own start is not counted.
    let plain = client.args(["-c", RAY_CLIENT, &jobs.to_string()]).stderr(Stdio::null()).output().unwrap();
    let plain: f64 = String::from_utf8_lossy(&plain.stdout).trim().parse().unwrap();
    write(folder, "nothing", jobs, 0.0);
    let mut sweep = within(env!("CARGO_BIN_EXE_sweep-engine"));
    sweep.args(["--results", "through", "run", "nothing.yaml", "--executor", "ray"]);
    sweep.stdout(Stdio::null()).stderr(Stdio::null());
    let through = time(|| assert!(sweep.status().unwrap().success()));
    compare(jobs, "Ray's client", Duration::from_secs_f64(plain), through);
}

fn measure(jobs: usize, folder: &Path, configuration: &Path) {
    let slurm = |program: &str| {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", configuration).current_dir(folder);
        command
    };
    // Nothing to do, so that all that counts is the way there and back; and something short, for pilots.
    write(folder, "nothing", jobs, 0.0);
    write(folder, "short", jobs, 0.1);
    let sweep = |results: &str, arguments: &[&str]| {
        let mut command = slurm(env!("CARGO_BIN_EXE_sweep-engine"));
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
    compare(jobs, "sbatch true", plain, through);

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
