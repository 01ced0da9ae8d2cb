//! Jobs one after another in one worker: nothing of one reaches a later one.

use std::process::Command;

use crate::sandbox::Sandbox;

fn metric(sandbox: &Sandbox, label: &str, name: &str) -> Option<f64> {
    sandbox.records()[label]["outcome"]["metrics"][name]["value"].as_f64()
}

/// Keeps the report and the folder of a first job open, and writes to both when a second one asks for it.
const SERVICE: &str = r#"
cd "$1"
{ read -r report; read -r folder; } < ask
exec 3>>"$report"
here=$PWD
cd "$folder"
echo held > "$here/answer"
read -r go < "$here/ask"
echo '{"step": 1, "x": 999}' >&3
echo 999 > left
echo written > "$here/answer"
"#;

#[test]
fn what_a_process_keeps_of_a_job_is_not_in_the_next_one() {
    let sandbox = Sandbox::new();
    for pipe in ["ask", "answer"] {
        assert!(Command::new("mkfifo").arg(sandbox.path(pipe)).status().unwrap().success());
    }
    let pipes = sandbox.path(".").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &format!(
            "
steps:
  a:
    uses: command
    with:
      env: {{ PIPES: '{pipes}' }}
      run: |
        printf '%s\\n%s\\n' \"$SWEEP_REPORT\" \"$PWD\" > \"$PIPES/ask\"
        read answer < \"$PIPES/answer\"
        echo parent=$PPID
  b:
    uses: command
    needs: a
    with:
      env: {{ PIPES: '{pipes}' }}
      run: |
        echo go > \"$PIPES/ask\"
        read answer < \"$PIPES/answer\"
        echo parent=$PPID
        echo files=$(ls | wc -l)
        echo '{{\"step\": 2, \"y\": 1}}' >> \"$SWEEP_REPORT\"
"
        ),
    );
    sandbox.write("service.sh", SERVICE);
    let mut service = Command::new("sh").arg(sandbox.path("service.sh")).arg(sandbox.path(".")).spawn().unwrap();
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(service.wait().unwrap().success());
    let of_b = |name| metric(&sandbox, "b", name);
    assert_eq!(metric(&sandbox, "a", "parent"), of_b("parent"), "one worker");
    assert_eq!((of_b("x"), of_b("y"), of_b("files")), (None, Some(1.0), Some(0.0)));
}

/// Says which settings it starts with, and changes one of its parent's.
const CHANGES: &str = r#"
import ctypes, os, platform, resource, sys
what, parent = sys.argv[1], os.getppid()
GET, SET = {"x86_64": (252, 251), "aarch64": (31, 30)}.get(platform.machine(), (0, 0))
call = ctypes.CDLL(None).syscall
read = lambda name: open(f"/proc/self/{name}").read().strip()
print(f"nice={os.getpriority(os.PRIO_PROCESS, 0)}")
print(f"files={resource.getrlimit(resource.RLIMIT_NOFILE)[0]}")
print(f"cores={len(os.sched_getaffinity(0))}")
print(f"oom={read('oom_score_adj')}")
print(f"core={int(read('coredump_filter'), 16)}")
print(f"policy={os.sched_getscheduler(0)}")
print(f"io={call(GET, 1, 0) if GET else 0}")
print(f"slack={read('timerslack_ns')}")
sys.stdout.flush()
if what == "nice":
    os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PGRP, 0) + 5)
elif what == "files":
    resource.prlimit(parent, resource.RLIMIT_NOFILE, (64, resource.prlimit(parent, resource.RLIMIT_NOFILE)[1]))
elif what == "cores":
    os.sched_setaffinity(parent, {min(os.sched_getaffinity(parent))})
elif what == "oom":
    open(f"/proc/{parent}/oom_score_adj", "w").write("900")
elif what == "core":
    open(f"/proc/{parent}/coredump_filter", "w").write("0x1")
elif what == "policy":
    os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))
elif what == "io" and SET:
    call(SET, 1, parent, 3 << 13)
elif what == "slack":
    try:
        open(f"/proc/{parent}/timerslack_ns", "w").write("123456")
    except OSError:
        pass
"#;

#[test]
fn settings_that_a_job_changes_are_not_those_of_later_ones() {
    let sandbox = Sandbox::with(
        "
steps:
  a:
    uses: command
    matrix: { what: [nothing, nice, files, cores, oom, core, policy, io, slack, last] }
    with: { argv: [python3, job.py, '${{ matrix.what }}'], inputs: [job.py] }
    resources: { cpus: 1 }
",
    );
    sandbox.write("job.py", CHANGES);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let first = &records["a/what=nothing"]["outcome"]["metrics"];
    assert!(first["files"]["value"].as_f64().unwrap() > 64.0);
    for (label, record) in &records {
        for name in ["nice", "files", "cores", "oom", "core", "policy", "io", "slack"] {
            let value = &record["outcome"]["metrics"][name]["value"];
            assert_eq!(value, &first[name]["value"], "{name} of {label}");
        }
    }
}

#[test]
fn a_change_of_the_sweep_itself_is_said() {
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: command, with: { run: 'read a b c engine rest < /proc/$PPID/stat; echo 901 > /proc/$engine/oom_score_adj' } }
  b: { uses: mock, needs: a }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("`oom_score_adj` of `sweep` itself changed"), "{}", ended.stderr);
}
