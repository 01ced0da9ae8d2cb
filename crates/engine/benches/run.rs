//! Overhead of a job: mock jobs in real worker processes, compared with ninja and GNU make running `true`.
//!
//! ```text
//! cargo bench -p sweep-engine --bench run [-- JOBS…]
//! ```
//!
//! `process` is the time to start and end as many bare workers (`sweep worker` without a job, as many at once as the
//! engine has cores for). `overhead` is the additional time per job: its lock, the messages, the record with its
//! digests, the journal, and the syncs to the disk, without which a finished job could be lost (three, or fewer when jobs
//! end together); `a sync` is the time of one of them on this machine. `in memory` is the same overhead with the results on
//! `/dev/shm`, where a sync costs nothing: the engine's own. ninja and make sync nothing; they are skipped if they are not installed.
//!
//! The second table has programs, each of which is `true` in a shell. `sh` is the time of as many bare shells, as many at once
//! as there are cores. `HyperQueue` runs beside them if the virtual environment in `SWEEP_PYTHON_HYPERQUEUE` or
//! `~/.cache/sweep/hyperqueue` has the package `hyperqueue`; that package keeps no
//! journal, and `ratio` is the time of `sweep run` over its time.
//!
//! The third table has programs of Python that import PyTorch: forked from an interpreter (`launch: fork`), started, and as many bare
//! processes. It needs PyTorch in the environment in `SWEEP_PYTHON_TRANSFORMERS` or `~/.cache/sweep/transformers`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Largest number of programs that import PyTorch.
const MAX_IMPORTS: usize = 100;

fn main() {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{cores} jobs at once, a sync takes {:.2} ms; per job:", sync_time().as_secs_f64() * 1e3);
    let titles = ["sweep run", "process", "overhead", "in memory", "ninja", "make"].map(|title| format!("{title:>12}"));
    println!("{:>8} {}", "jobs", titles.join(" "));
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![100, 1_000, 10_000] } else { given };
    for jobs in sizes.iter().copied() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = format!(
            "name: scale\nsteps:\n  a:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {}] }}, seed: {{ range: [0, 100] }} }}\n    resources: {{ cpus: 1 }}\n",
            jobs / 100
        );
        fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
        build_files(folder.path(), jobs);
        let sweep = env!("CARGO_BIN_EXE_sweep-engine");
        let run = time(Command::new(sweep).args(["run", "recipe.yaml"]).current_dir(folder.path())).unwrap();
        let in_memory = tempfile::tempdir_in("/dev/shm").ok().and_then(|results| {
            let mut command = Command::new(sweep);
            command.args(["run", "recipe.yaml", "--results"]).arg(results.path()).current_dir(folder.path());
            time(&mut command)
        });
        let process = processes(sweep, jobs, cores);
        let at_once = cores.to_string();
        let ninja = time(Command::new("ninja").args(["-j", &at_once]).current_dir(folder.path()));
        let make = time(Command::new("make").args(["-s", "-j", &at_once]).current_dir(folder.path()));
        let beyond = |time: Duration| time.saturating_sub(process);
        let times = [Some(run), Some(process), Some(beyond(run)), in_memory.map(beyond), ninja, make];
        println!("{jobs:>8} {}", times.map(|time| each(time, jobs)).join(" "));
    }
    println!("programs, per job:");
    let titles = ["sweep run", "in memory", "sh", "HyperQueue", "ratio"].map(|title| format!("{title:>12}"));
    println!("{:>8} {}", "jobs", titles.join(" "));
    for jobs in sizes.iter().copied() {
        programs(jobs, cores);
    }
    let python = environment("SWEEP_PYTHON_TRANSFORMERS", "transformers").map(|folder| folder.join("bin/python"));
    let Some(python) = python.filter(|python| python.exists()) else { return };
    println!("programs that import PyTorch, per job:");
    let titles = ["forked", "started", "bare", "ratio"].map(|title| format!("{title:>12}"));
    println!("{:>8} {}", "jobs", titles.join(" "));
    imports(&python, sizes.into_iter().min().unwrap_or(MAX_IMPORTS).min(MAX_IMPORTS), cores);
}

/// The folder of an environment of Python: the value of a variable, or a folder of the cache.
fn environment(variable: &str, name: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    given.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/sweep").join(name)))
}

/// Prints the time of programs that import PyTorch.
fn imports(python: &Path, jobs: usize, cores: usize) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.py"), "import torch\nprint('loss=1')\n").unwrap();
    let sweep = env!("CARGO_BIN_EXE_sweep-engine");
    let run = |launch: &str| {
        let recipe = format!(
            "steps:\n  a:\n    uses: command\n    with:\n      argv: [{}, train.py, --seed, '${{{{ matrix.seed }}}}']\n{launch}    \
             matrix: {{ seed: {{ range: [0, {jobs}] }} }}\n    resources: {{ cpus: 1 }}\n",
            python.display()
        );
        fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
        let results = tempfile::tempdir_in(folder.path()).unwrap();
        let mut command = Command::new(sweep);
        command.args(["run", "recipe.yaml", "--jobs", &cores.to_string(), "--results"]).arg(results.path());
        time(command.current_dir(folder.path())).unwrap()
    };
    let forked = run("      launch: fork\n");
    let started = run("");
    let bare = in_turns(jobs, cores, || {
        let mut command = Command::new(python);
        command.arg(folder.path().join("train.py"));
        command
    });
    let ratio = forked.as_secs_f64() / bare.as_secs_f64();
    let times = [Some(forked), Some(started), Some(bare)].map(|time| each(time, jobs));
    println!("{jobs:>8} {} {ratio:>12.2}", times.join(" "));
}

/// Time for each of some jobs, for a column.
fn each(time: Option<Duration>, jobs: usize) -> String {
    time.map_or_else(|| format!("{:>12}", "–"), |time| format!("{:>9.3} ms", time.as_secs_f64() * 1e3 / jobs as f64))
}

/// Prints the time of programs that do nothing, and that of `HyperQueue` with the same.
fn programs(jobs: usize, cores: usize) {
    let folder = tempfile::tempdir().unwrap();
    let recipe = format!(
        "name: scale\nsteps:\n  a:\n    uses: command\n    with: {{ run: 'true', env: {{ VALUE: '${{{{ matrix.value }}}}' }} }}\n    matrix: {{ value: {{ range: [0, {}] }}, seed: {{ range: [0, 100] }} }}\n    resources: {{ cpus: 1 }}\n",
        jobs / 100
    );
    fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
    let sweep = env!("CARGO_BIN_EXE_sweep-engine");
    let at_once = cores.to_string();
    let arguments = ["run", "recipe.yaml", "--jobs", &at_once, "--results"];
    let run = |results: &Path| time(Command::new(sweep).args(arguments).arg(results).current_dir(folder.path()));
    let on_disk = run(Path::new("results")).unwrap();
    let in_memory = tempfile::tempdir_in("/dev/shm").ok().and_then(|results| run(results.path()));
    let shells = in_turns(jobs, cores, || {
        let mut shell = Command::new("sh");
        shell.args(["-c", "true"]);
        shell
    });
    let peer = hyperqueue(jobs, cores);
    let ratio = peer.map_or("–".to_owned(), |peer| format!("{:.2}", on_disk.as_secs_f64() / peer.as_secs_f64()));
    let times = [Some(on_disk), in_memory, Some(shells), peer].map(|time| each(time, jobs));
    println!("{jobs:>8} {} {ratio:>12}", times.join(" "));
}

/// Run time of as many tasks in `HyperQueue`; `None` if it is not installed.
fn hyperqueue(tasks: usize, cores: usize) -> Option<Duration> {
    let environment = environment("SWEEP_PYTHON_HYPERQUEUE", "hyperqueue")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/hyperqueue_true.py");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(script).args([tasks.to_string(), cores.to_string()]).arg(folder.path().join("server"));
    let output = command.current_dir(folder.path()).stderr(Stdio::null()).output().ok()?;
    // The server describes itself before.
    let seconds: f64 = String::from_utf8(output.stdout).ok()?.lines().last()?.parse().ok()?;
    Some(Duration::from_secs_f64(seconds))
}

/// Time to write a small file to the disk durably.
fn sync_time() -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(folder.path().join("file")).unwrap();
    let begun = Instant::now();
    for _ in 0..20 {
        file.write_all(&[1; 2000]).unwrap();
        file.sync_all().unwrap();
    }
    begun.elapsed() / 20
}

/// Run time of a program; `None` if it is not installed.
fn time(command: &mut Command) -> Option<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status().ok()?;
    assert!(status.success(), "{command:?} failed");
    Some(begun.elapsed())
}

/// Run time of as many bare workers, with the given number at once.
fn processes(sweep: &str, count: usize, at_once: usize) -> Duration {
    in_turns(count, at_once, || {
        let mut worker = Command::new(sweep);
        worker.args(["worker", "--engine", &std::process::id().to_string()]);
        worker
    })
}

/// Run time of as many processes, with the given number at once.
fn in_turns(count: usize, at_once: usize, make: impl Fn() -> Command + Sync) -> Duration {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let mut process = make();
                    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    process.status().unwrap();
                }
            });
        }
    });
    begun.elapsed()
}

/// As many targets for ninja and for make, each of which runs `true`.
fn build_files(folder: &Path, targets: usize) {
    let mut ninja = "rule true\n  command = true\n".to_owned();
    let mut make = ".PHONY: all\n".to_owned();
    let mut all = "all:".to_owned();
    for target in 0..targets {
        writeln!(ninja, "build t{target}: true").unwrap();
        // The path keeps make from answering `true` without a process.
        writeln!(make, "t{target}:\n\t@/bin/true").unwrap();
        write!(all, " t{target}").unwrap();
    }
    fs::write(folder.join("build.ninja"), ninja).unwrap();
    fs::write(folder.join("Makefile"), format!("{all}\n{make}")).unwrap();
}
