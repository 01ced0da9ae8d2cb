//! Time of `sweep plan` for cached jobs whose programs were observed to read files, compared with jobs that were not
//! observed.
//!
//! ```text
//! cargo bench -p sweep-engine --bench manifests
//! ```
//!
//! Every number is the best of several runs of the whole program, including process start. The files are new, so that
//! each plan reads them: their digests are kept only once they have been unchanged for a minute.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

mod common;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::finish_all;
use sweep_engine::{
    plan::{Digests, Plan},
    recipe::Draft,
    record::{Manifest, Own, ReadFile, ReadSet},
};
use sweep_job::{Backend, Outcome, Tool};

const RUNS: usize = 7;
const FILES: usize = 200;

fn main() {
    println!("{:>8} {:>16} {:>16} {:>8}", "jobs", "not observed", "200 files each", "ratio");
    for jobs in [1_000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        let recipe = format!(
            "name: scale\nsteps:\n  a:\n    uses: command\n    matrix: {{ x: {{ range: [0, {}] }}, seed: {{ range: [0, 100] }} }}\n    with: {{ argv: [train, '${{{{ matrix.x }}}}'], seed: '${{{{ matrix.seed }}}}' }}\n",
            jobs / 100
        );
        fs::write(folder.path().join("recipe.yaml"), &recipe).unwrap();
        finish_all(folder.path(), recipe.clone(), |_| Outcome::default());
        let before = best(folder.path());
        observe_all(folder.path(), recipe);
        let after = best(folder.path());
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let ratio = after.as_secs_f64() / before.as_secs_f64();
        println!("{jobs:>8} {:>16} {:>16} {ratio:>8.2}", milliseconds(before), milliseconds(after));
    }
}

/// A manifest for each job of a recipe, with the same files.
fn observe_all(folder: &Path, recipe: String) {
    let files: BTreeMap<String, ReadFile> = (0..FILES)
        .map(|file| {
            let name = format!("package/module_{file}.py");
            let path = folder.join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("x = {file}\n").repeat(200)).unwrap();
            (name, ReadFile { digest: Digests::default().of(&path).unwrap(), by: None })
        })
        .collect();
    let set = ReadSet::new(files, BTreeMap::new());
    let manifests = folder.join("results/store/manifests");
    let shard = manifests.join("sets").join(&set.id()[..2]);
    fs::create_dir_all(&shard).unwrap();
    fs::write(shard.join(set.id()), serde_json::to_vec(&set).unwrap()).unwrap();
    let plan = Plan::new(Draft::parse(&folder.join("recipe.yaml"), recipe, &[]).unwrap(), Backend::Cpu).unwrap();
    let mut list = String::new();
    for (_, job) in plan.jobs() {
        let (set, own) = (set.id(), Own::default());
        let manifest = Manifest { base: job.key, record: job.key, code: None, set, tool: Tool::Audit, own };
        writeln!(list, "{}", serde_json::to_string(&manifest).unwrap()).unwrap();
    }
    fs::write(manifests.join("list.jsonl"), list).unwrap();
}

/// The shortest time of several plans, all of whose jobs are cached.
fn best(folder: &Path) -> Duration {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
    command.args(["plan", "recipe.yaml"]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(said.contains(" 0 to run"), "{said}");
    command.stdout(Stdio::null());
    let time = (0..RUNS).map(|_| {
        let begun = Instant::now();
        assert!(command.status().unwrap().success());
        begun.elapsed()
    });
    time.min().unwrap()
}
