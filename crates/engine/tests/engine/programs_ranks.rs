//! Programs that are started as several processes.

use crate::sandbox::{Sandbox, list};

/// Adds up a number of each rank, over a socket.
const SUM: &str = r#"
import os, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert os.environ["LOCAL_RANK"] == os.environ["SWEEP_RANK"] == str(rank)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
print("hello from", rank, flush=True)
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(place)
    server.listen()
    total = 1
    for _ in range(world - 1):
        total += int(server.accept()[0].recv(100))
    print("sum=%d" % total)
    print("world=%d" % world)
else:
    for attempt in range(500):
        try:
            socket.create_connection(place).sendall(str(rank + 1).encode())
            break
        except OSError:
            time.sleep(0.02)
    print("sum=-1")
"#;

fn log(sandbox: &Sandbox) -> String {
    let logs = list(&sandbox.path("results/runs")).pop().unwrap().join("logs");
    fs_err::read_to_string(&list(&logs)[0]).unwrap()
}

#[test]
fn ranks_meet_on_this_machine_and_the_first_reports() {
    let recipe = "steps: { a: { uses: command, with: { argv: [python3, sum.py], inputs: [sum.py], launch: torchrun, ranks: 3 } } }";
    let sandbox = Sandbox::with(recipe);
    sandbox.write("sum.py", SUM);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let metric = |name: &str| records["a"]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    assert_eq!((metric("sum"), metric("world")), (6.0, 3.0));
    let log = log(&sandbox);
    for rank in 0..3 {
        assert!(log.lines().any(|line| line == format!("[{rank}] hello from {rank}")), "{log}");
    }
}

#[test]
fn a_dead_rank_ends_the_others_and_is_quoted() {
    let run = "if [ $RANK = 1 ]; then echo broken pipe of rank one >&2; exit 3; fi; sleep 600";
    let recipe = format!("steps: {{ a: {{ uses: command, with: {{ run: '{run}', launch: processes, ranks: 3 }} }} }}");
    let sandbox = Sandbox::with(&recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let message = sandbox.failure("a")["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "rank 1 of 3: the program ended with exit code 3: broken pipe of rank one");
    assert!(sandbox.workers().is_empty());
}

#[test]
fn each_gpu_has_its_rank() {
    let recipe = "
steps:
  all: { uses: command, with: { run: 'echo \"gpus=$CUDA_VISIBLE_DEVICES\" | tr , 0; echo world=$WORLD_SIZE', launch: torchrun }, resources: { cpus: 1, gpus: 2 } }
  own: { uses: command, with: { run: 'echo \"gpus=$CUDA_VISIBLE_DEVICES\" | tr , 0; echo world=$WORLD_SIZE', launch: processes }, resources: { cpus: 1, gpus: 2 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.command(&["run", "recipe.yaml"]).env("CUDA_VISIBLE_DEVICES", "5,7").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let records = sandbox.records();
    let metric = |label: &str, name: &str| records[label]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    assert_eq!((metric("all", "gpus"), metric("all", "world")), (507.0, 2.0));
    assert_eq!((metric("own", "gpus"), metric("own", "world")), (5.0, 2.0));
    // The number of processes is part of the result.
    let more = recipe.replace("gpus: 2", "gpus: 1");
    sandbox.write("recipe.yaml", &more);
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 2));
}

#[test]
fn a_launch_without_a_number_is_a_mistake() {
    for (with, words) in [
        ("run: x, launch: torchrun", "`launch` needs a number of processes"),
        ("run: x, ranks: 2", "`ranks` has no effect without `launch`"),
        ("run: x, launch: deepspeed, ranks: 2", "is not one of"),
    ] {
        let sandbox = Sandbox::with(&format!("steps: {{ a: {{ uses: command, with: {{ {with} }} }} }}"));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert!(ended.code == Some(3) && ended.stderr.contains(words), "{}", ended.stderr);
    }
}
