//! Programs on several nodes, and programs that `srun` or `mpirun` starts.

use std::process::Command;

use serde_json::Value;

use crate::{
    sandbox::{Sandbox, list, until},
    slurm::cluster::shared,
};

/// Adds up a number of each rank over a socket; the first rank says where it and the others are.
const SUM: &str = r#"
import os, socket, time
name = lambda key: int(os.environ[key])
rank, world, local, node = name("RANK"), name("WORLD_SIZE"), name("LOCAL_RANK"), name("NODE_RANK")
assert name("SWEEP_RANK") == rank and rank == node * name("LOCAL_WORLD_SIZE") + local
place = (os.environ["MASTER_ADDR"], name("MASTER_PORT"))
print("hello from", rank, "on", os.environ.get("SLURMD_NODENAME", "here"), flush=True)
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(place)
    server.listen()
    total, nodes = 1, {node}
    for _ in range(world - 1):
        number, other = server.accept()[0].recv(100).decode().split()
        total, nodes = total + int(number), nodes | {int(other)}
    print("sum=%d" % total)
    print("world=%d" % world)
    print("nodes=%d" % len(nodes))
else:
    for attempt in range(500):
        try:
            socket.create_connection(place).sendall(b"%d %d" % (rank + 1, node))
            break
        except OSError:
            time.sleep(0.02)
    print("sum=-1")
"#;

fn recipe(with: &str, resources: &str, more: &str) -> String {
    format!(
        "steps:
  a:
    uses: command
    with: {{ {with} }}
    resources: {{ {resources} }}
{more}"
    )
}

fn metric(sandbox: &Sandbox, name: &str) -> f64 {
    let records = sandbox.records();
    records["a"]["outcome"]["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{records:?}"))
}

fn log(sandbox: &Sandbox) -> String {
    let logs = list(&sandbox.path("results/runs")).pop().unwrap().join("logs");
    let file = list(&logs).into_iter().find(|path| path.extension().is_some_and(|kind| kind == "log")).unwrap();
    fs_err::read_to_string(file).unwrap()
}

#[test]
fn ranks_on_two_nodes_meet_and_the_first_reports() {
    let Some((cluster, _quiet)) = shared() else { return };
    for launch in ["torchrun", "srun"] {
        let with = format!("argv: [python3, sum.py], inputs: [sum.py], launch: {launch}, ranks: 4");
        let sandbox = Sandbox::with(&recipe(&with, "nodes: 2, cpus: 2", ""));
        sandbox.write("sum.py", SUM);
        let ended = cluster.sweep(&sandbox, &["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(["sum", "world", "nodes"].map(|name| metric(&sandbox, name)), [10.0, 4.0, 2.0], "{launch}");
        let log = log(&sandbox);
        for (rank, node) in [(0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")] {
            let line = format!("[{rank}] hello from {rank} on {node}");
            assert!(log.lines().any(|written| written == line), "{log}");
        }
        // The number of nodes is not part of the result: the same processes on one are the same job.
        sandbox.write("recipe.yaml", &recipe(&with, "nodes: 1, cpus: 4", ""));
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

#[test]
fn a_dead_rank_ends_the_others_on_all_nodes_and_is_quoted() {
    let Some((cluster, _quiet)) = shared() else { return };
    let run = "if [ $RANK = 3 ]; then sleep 1; echo broken pipe of rank three >&2; exit 4; fi; exec sleep 612";
    let with = format!("run: '{run}', launch: torchrun, ranks: 4");
    let sandbox = Sandbox::with(&recipe(&with, "nodes: 2, cpus: 2", "    retries: 1\n"));
    let ended = cluster.sweep(&sandbox, &["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.journal("retrying").len(), 1, "each attempt fails");
    let message = sandbox.failure("a")["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "rank 3 of 4: the program ended with exit code 4: broken pipe of rank three");
    cluster.until_nothing_is_left(&sandbox);
    until("no rank is left", || sleepers("612").is_empty());
}

/// The processes `sleep SECONDS`.
fn sleepers(seconds: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().filter(|line| *line == format!("sleep {seconds}")).map(str::to_owned).collect()
}

/// All ranks follow the request to stop, which is a file, and the next run goes on from the checkpoint.
#[test]
fn all_ranks_stop_when_they_are_asked_to() {
    let Some((cluster, _quiet)) = shared() else { return };
    let program = r#"
import os, pathlib, sweep, time
rank = os.environ["RANK"]
path = sweep.resume()
begun = int(path.read_text()) if path else 0
pathlib.Path(os.environ["SAW"] + rank).write_text(str(begun))
for step in sweep.steps(40 if begun == 0 else begun + 3, start=begun):
    time.sleep(0.25)
    sweep.report(step, x=step)
    if sweep.should_stop():
        with sweep.checkpoint() as place:
            place.write_text(str(step + 1))
pathlib.Path(os.environ["SAW"] + "end" + rank).write_text(str(step))
sweep.report(begun=begun)
"#;
    let sandbox = Sandbox::new();
    let saw = sandbox.path("saw").display().to_string();
    let with = format!(
        "argv: [python3, program.py], inputs: [program.py], launch: torchrun, ranks: 2, env: {{ SAW: '{saw}' }}"
    );
    sandbox.write("recipe.yaml", &recipe(&with, "nodes: 2, cpus: 1", ""));
    sandbox.write("program.py", program);
    let module = crate::sandbox::repository().join("python");
    let args = ["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"];
    let mut command = cluster.command(&sandbox, &args);
    let running = crate::sandbox::Running::from(command.env("PYTHONPATH", module).spawn().unwrap());
    until("both ranks run", || ["0", "1"].iter().all(|rank| sandbox.path(&format!("saw{rank}")).exists()));
    until("a step is reported", || !sandbox.journal("progress").is_empty());
    // As `sweep` does it: the engine in the allocation hears it, and nothing else. The job is submitted again.
    let live = cluster.live(&sandbox);
    cluster.slurm("scancel", &["--batch", "--signal=INT", &live[0].0]);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    cluster.until_nothing_is_left(&sandbox);
    let both = |name: &str| ["0", "1"].map(|rank| sandbox.read(&format!("{name}{rank}")));
    let [begun, other] = both("saw");
    assert_eq!(begun, other, "both continue from the same checkpoint");
    assert_eq!(metric(&sandbox, "begun"), begun.parse::<f64>().unwrap());
    assert!(metric(&sandbox, "begun") > 0.0, "{}", ended.stderr);
    let [last, other] = both("sawend");
    assert_eq!(last, other, "both end after the same step");
}

#[test]
fn mpirun_starts_the_ranks_on_this_machine() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("not run: there is no `mpirun`; scripts/test-deps.sh installs Open MPI");
        return;
    }
    let with = "argv: [python3, sum.py], inputs: [sum.py], launch: mpirun, ranks: 3";
    let start = |with: &str| {
        let sandbox = Sandbox::with(&recipe(with, "cpus: 1", ""));
        sandbox.write("sum.py", SUM);
        let mut command = sandbox.command(&["run", "recipe.yaml"]);
        // As root, Open MPI runs only if it is told that this is meant.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        (command.output().unwrap(), sandbox)
    };
    let (ended, sandbox) = start(with);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(["sum", "world", "nodes"].map(|name| metric(&sandbox, name)), [6.0, 3.0, 1.0]);
    assert!(log(&sandbox).lines().any(|line| line == "[0] hello from 0 on here"), "{}", log(&sandbox));

    let run = "if [ $RANK = 1 ]; then echo broken pipe of rank one >&2; exit 3; fi; exec sleep 613";
    let (ended, sandbox) = start(&format!("run: '{run}', launch: mpirun, ranks: 3"));
    assert_eq!(ended.status.code(), Some(5));
    let message = sandbox.failure("a")["message"].as_str().unwrap().to_owned();
    // Open MPI does not always say which rank it was.
    assert!(message.contains("the program ended with exit code 3: "), "{message}");
    assert!(message.ends_with("broken pipe of rank one"), "{message}");
    until("no rank is left", || sleepers("613").is_empty());
}

#[test]
fn several_nodes_where_there_is_one_are_a_mistake() {
    let plan = |with: &str, resources: &str| {
        let sandbox = Sandbox::with(&recipe(with, resources, ""));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        (ended.code, ended.stderr)
    };
    for (with, resources, words) in [
        ("run: x", "nodes: 2", "needs a program that is started as several processes"),
        ("run: x, launch: torchrun, ranks: 3", "nodes: 2", "3 processes cannot be spread evenly over 2 nodes"),
        ("run: x, launch: torchrun, ranks: 3", "nodes: 2", "write `ranks: 4`"),
        ("run: x, launch: torchrun, ranks: 3", "nodes: 0", "from 1 to 1024"),
    ] {
        let (code, stderr) = plan(with, resources);
        assert!(code == Some(3) && stderr.contains(words), "{stderr}");
    }
    // One process for each GPU of each node.
    let sandbox = Sandbox::with(&recipe("run: x, launch: torchrun", "nodes: 2, gpus: 4", ""));
    let planned: Value =
        serde_json::from_str(&sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout).unwrap();
    let eight = Sandbox::with(&recipe("run: x, launch: torchrun, ranks: 8", "", ""));
    let other: Value = serde_json::from_str(&eight.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout).unwrap();
    assert_eq!(planned["jobs"][0]["key"], other["jobs"][0]["key"]);

    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let words = "step `a` requests 2 nodes, but this machine is one node: use `--executor slurm`, or write `nodes: 1`";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let srun = Sandbox::with(&recipe("run: x, launch: srun, ranks: 2", "", ""));
    let ended = srun.sweep(&["run", "recipe.yaml"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("requests processes by `srun`"), "{}", ended.stderr);
    let piloted = sandbox.sweep(&["run", "recipe.yaml", "--executor", "slurm", "--pilot", "1"]);
    assert!(
        piloted.stderr.contains("leave out `--pilot`") || piloted.stderr.contains("was not found"),
        "{}",
        piloted.stderr
    );
}
