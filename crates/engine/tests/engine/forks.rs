//! Jobs whose processes are forked from an interpreter are like those that are started, but for the time of the imports.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    projects::has_views,
    sandbox::{Sandbox, until},
    tracking::{is_observed, manifests, open, run},
};

/// True if this machine can fork jobs: it needs observation and private views.
fn forks() -> bool {
    is_observed() && has_views()
}

/// A project whose `train.py` is run with the seeds 0 to 2, and an installed package outside of it.
fn study(script: &str, launch: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let site = sandbox.path("venv/lib/site-packages");
    sandbox.write("venv/pyvenv.cfg", "");
    sandbox.write("venv/lib/site-packages/slow-1.2.dist-info/RECORD", "slow/__init__.py,,\n");
    sandbox.write("venv/lib/site-packages/slow-1.2.dist-info/METADATA", "Name: slow\nVersion: 1.2\n");
    sandbox.write(
        "venv/lib/site-packages/slow/__init__.py",
        "import json, os, random, sys\nprint('import', file=sys.stderr)\nPID = os.getpid()\nMODE = os.environ.get('MODE')\n\
         os.environ['SLOW'] = '1'\nVALUE = 1\nHAS_SETTINGS = os.path.exists('slow.cfg')\n",
    );
    sandbox.write("train.py", script);
    sandbox.write("helper.py", "import slow\nfrom slow import VALUE\n\nFACTOR = 2\n");
    sandbox.write(
        "recipe.yaml",
        &format!(
            "
steps:
  train:
    uses: command
    matrix: {{ seed: [0, 1, 2] }}
    with:
      argv: [python3, train.py, --seed, '${{{{ matrix.seed }}}}']
      env: {{ PYTHONPATH: '{}' }}
      {launch}
    resources: {{ cpus: 1 }}
",
            site.display()
        ),
    );
    sandbox
}

const FORK: &str = "launch: fork";

/// Runs the study with one job at a time; returns its standard error.
fn run_in_turn(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr
}

/// The values of a metric, by label.
fn metric(sandbox: &Sandbox, name: &str) -> BTreeMap<String, Value> {
    let value = |record: &Value| record["outcome"]["metrics"][name]["value"].clone();
    sandbox.records().iter().map(|(label, record)| (label.clone(), value(record))).collect()
}

#[test]
fn forked_jobs_share_the_imports() {
    if !forks() {
        return;
    }
    let script = "import os\nfrom helper import FACTOR, VALUE\nimport slow\nprint('imported_by=%d' % slow.PID)\n\
                  print('pid=%d' % os.getpid())\nprint('loss=%d' % (FACTOR * VALUE))\n";
    let sandbox = study(script, FORK);
    let recipe = sandbox.read("recipe.yaml").replace("[0, 1, 2]", "[0, 1, 2, 3, 4, 5, 6, 7]");
    sandbox.write("recipe.yaml", &recipe);
    run_in_turn(&sandbox);
    let values = |name: &str| {
        let mut values: Vec<f64> = metric(&sandbox, name).values().filter_map(Value::as_f64).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (importers, processes) = (values("imported_by"), values("pid"));
    // A worker that does not end its job in time is followed by another one, which has an interpreter of its own.
    assert!(importers.windows(2).filter(|pair| pair[0].total_cmp(&pair[1]).is_eq()).count() > 3, "{importers:?}");
    assert!(processes.windows(2).all(|pair| pair[0] < pair[1]), "{processes:?}");
    assert!(processes.iter().all(|process| !importers.contains(process)), "{importers:?} {processes:?}");
    assert_eq!(values("loss"), [2.0; 8]);
    // Forked and started programs have equal keys.
    let recipe = sandbox.read("recipe.yaml").replace(FORK, "");
    sandbox.write("recipe.yaml", &recipe);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// Everything that a record says of the files, packages and programs of its job.
fn observations(sandbox: &Sandbox) -> Vec<Value> {
    let mut observations = Vec::new();
    for manifest in manifests(sandbox) {
        let id = manifest["set"].as_str().unwrap();
        let path = format!("results/store/manifests/sets/{}/{id}", &id[..2]);
        let mut set: Value = serde_json::from_str(&sandbox.read(&path)).unwrap();
        let folder = sandbox.path("").display().to_string();
        set = serde_json::from_str(&set.to_string().replace(folder.trim_end_matches('/'), "FOLDER")).unwrap();
        observations.push(set);
    }
    observations
}

#[test]
fn forked_jobs_are_observed_as_started_ones() {
    if !forks() {
        return;
    }
    let script = "from helper import FACTOR\nimport json\nimport slow\nimport other\nimport argparse\nopen('data.txt').read()\n\
                  print('loss=%d' % slow.VALUE)\n";
    let mut seen = Vec::new();
    for launch in [FORK, ""] {
        let sandbox = study(script, launch);
        sandbox.write("other.py", "from slow import MODE\n");
        sandbox.write("data.txt", "1\n");
        run_in_turn(&sandbox);
        seen.push(observations(&sandbox));
        for (path, text) in
            [("data.txt", "2\n"), ("other.py", "MODE = 1\n"), ("slow.cfg", ""), ("helper.py", "FACTOR = 3\n")]
        {
            sandbox.write(path, text);
            assert_eq!(open(&sandbox).len(), 3, "{launch} {path}");
            run_in_turn(&sandbox);
            assert_eq!(open(&sandbox).len(), 0, "{launch} {path}");
        }
    }
    let [forked, started] = seen.as_slice() else { panic!() };
    for (forked, started) in forked.iter().zip(started) {
        for part in ["files", "listed"] {
            assert_eq!(forked[part], started[part], "{part}");
        }
        // The interpreter also looks for the modules of the program that forks.
        let facts = |set: &Value| set["facts"].as_object().unwrap().clone();
        let (forked, started) = (facts(forked), facts(started));
        assert!(started.keys().all(|path| forked.contains_key(path)), "{forked:?} {started:?}");
        for (path, fact) in started {
            let words = |fact: &Value| fact.as_str().unwrap().split([' ', ':']).map(str::to_owned).collect::<Vec<_>>();
            let known = words(&forked[&path]);
            assert!(words(&fact).iter().all(|word| known.contains(word)), "{path}: {fact} {}", forked[&path]);
        }
    }
}

/// Prints everything that may tell a forked process from a started one.
const STATE: &str = r"import os
import sys
import slow
import json, random, signal, threading, warnings

import __main__

def fds():
    kept = {}
    for name in sorted(os.listdir('/proc/self/fd'), key=int):
        try:
            target = os.readlink('/proc/self/fd/' + name)
        except OSError:
            continue
        kept[name] = target.split(':')[0]
    return kept

status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
state = {
    'argv': sys.argv, 'path': sys.path, 'flags': str(sys.flags), 'executable': sys.executable, 'cwd': os.getcwd(),
    'env': {name: '' if name.startswith('SWEEP_') or name == 'PYTHONPATH' else value for name, value in os.environ.items()},
    'main': sorted(name for name in vars(__main__) if name not in ('__annotations__',)),
    'name': __name__, 'file': __file__, 'spec': __spec__ is None, 'package': __package__, 'doc': __doc__,
    'builtins': __builtins__ is sys.modules['builtins'],
    'loader': type(__loader__).__name__, 'fds': fds(), 'threads': threading.active_count(),
    'signals': [str(signal.getsignal(number)) for number in (2, 13, 15)],
    'masks': [status[name].strip() for name in ('SigBlk', 'SigIgn', 'CapEff', 'CapPrm', 'Umask', 'NoNewPrivs', 'Seccomp')],
    'filters': len(warnings.filters), 'isatty': [sys.stdin.isatty(), sys.stdout.isatty()],
    'buffered': [sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.encoding],
    'ppid_is_worker': b'worker' in open('/proc/%d/cmdline' % os.getppid(), 'rb').read(),
    'group': os.getpgid(0) == os.getppid(), 'limit': sys.getrecursionlimit(), 'umask': os.umask(18),
    'trace': sys.gettrace() is None, 'slow': slow.MODE, 'hook': sys.excepthook is sys.__excepthook__,
    'main_thread': threading.current_thread() is threading.main_thread(),
    'orig': getattr(sys, 'orig_argv', [''])[1:],
}
with open(os.environ['OUT'] + '/' + sys.argv[-1], 'w') as out:
    json.dump(state, out, indent=1, sort_keys=True)
with open(os.environ['OUT'] + '/random' + sys.argv[-1], 'w') as out:
    out.write(str(random.random()))
print('loss=1')
";

#[test]
fn the_state_of_a_forked_job_is_that_of_a_started_one() {
    if !forks() {
        return;
    }
    let sandbox = study(STATE, FORK);
    let recipe = sandbox.read("recipe.yaml").replace("env: { ", "env: { MODE: fast, OUT: OUTPUTS, ");
    let mut states = Vec::new();
    for (name, launch) in [("forked", FORK), ("started", "")] {
        let outputs = tempfile::tempdir().unwrap();
        let text = recipe.replace("OUTPUTS", &outputs.path().display().to_string()).replace(FORK, launch);
        sandbox.write("recipe.yaml", &text);
        run_in_turn(&sandbox);
        let folder = outputs.path().display().to_string();
        let read = |file: String| fs_err::read_to_string(outputs.path().join(file)).unwrap().replace(&folder, "OUT");
        let of_job: Vec<String> = (0..3).map(|seed| read(seed.to_string())).collect();
        assert_ne!(read("random0".into()), read("random1".into()), "{name}: both have the same state of `random`");
        states.push(of_job);
    }
    let [forked, started] = states.as_slice() else { panic!() };
    for (forked, started) in forked.iter().zip(started) {
        for (forked, started) in forked.lines().zip(started.lines()) {
            assert_eq!(forked, started);
        }
    }
}

#[test]
fn variables_that_a_script_sets_before_an_import_are_seen_by_the_import() {
    if !forks() {
        return;
    }
    let script = "import os\nos.environ['MODE'] = '7'\nimport slow\nprint('loss=%s' % slow.MODE)\n";
    let sandbox = study(script, FORK);
    run_in_turn(&sandbox);
    assert!(
        metric(&sandbox, "loss").values().all(|value| value.as_f64() == Some(7.0)),
        "{:?}",
        metric(&sandbox, "loss")
    );
    // And those of the recipe, which differ between jobs.
    fs_err::remove_dir_all(sandbox.path("results")).unwrap();
    let recipe = sandbox.read("recipe.yaml").replace("env: { ", "env: { MODE: '${{ matrix.seed }}', ");
    sandbox.write("recipe.yaml", &recipe);
    sandbox.write("train.py", "import slow\nprint('loss=%s' % slow.MODE)\n");
    run_in_turn(&sandbox);
    let mut values: Vec<f64> = metric(&sandbox, "loss").values().filter_map(Value::as_f64).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values[..3], [0.0, 1.0, 2.0]);
}

#[test]
fn an_import_that_changes_between_two_jobs_is_imported_again() {
    if !forks() {
        return;
    }
    let script = "import slow, sys\nprint('loss=%d' % slow.VALUE)\nif '0' in sys.argv:\n    path = slow.__file__\n    \
                  text = open(path).read()\n    open(path, 'w').write(text.replace('VALUE = 1', 'VALUE = 12'))\n";
    let sandbox = study(script, FORK);
    // The package is outside of the project, where a job's changes stay.
    let outside = tempfile::tempdir().unwrap();
    let site = outside.path().join("site-packages");
    fs_err::rename(sandbox.path("venv/lib/site-packages"), &site).unwrap();
    let recipe = sandbox.read("recipe.yaml");
    let recipe =
        recipe.replace(&sandbox.path("venv/lib/site-packages").display().to_string(), &site.display().to_string());
    sandbox.write("recipe.yaml", &recipe);
    run_in_turn(&sandbox);
    let values = metric(&sandbox, "loss");
    assert_eq!(values["train/seed=0"], 1.0);
    assert_eq!(values["train/seed=2"], 12.0, "{values:?}");
}

#[test]
fn jobs_stay_forked_while_files_are_edited_that_no_import_depends_on() {
    if !forks() {
        return;
    }
    let script = "import os, sys, time\nimport slow\nfrom helper import FACTOR\nif '0' in sys.argv:\n    \
                  open(os.environ['OUT'] + '/waits', 'w').close()\n    while not os.path.exists(os.environ['OUT'] + '/edited'):\n        \
                  time.sleep(0.01)\nprint('imported_by=%d' % slow.PID)\nprint('loss=%d' % FACTOR)\n";
    let sandbox = study(script, FORK);
    sandbox.write("log.txt", "1\n");
    let signals = tempfile::tempdir().unwrap();
    let recipe =
        sandbox.read("recipe.yaml").replace("env: { ", &format!("env: {{ OUT: {}, ", signals.path().display()));
    sandbox.write("recipe.yaml", &recipe);
    let running = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    until("the first job runs", || signals.path().join("waits").exists());
    sandbox.write("log.txt", "1\n2\n");
    sandbox.write("helper.py", "import slow\nfrom slow import VALUE\n\nFACTOR = 3\n");
    fs_err::write(signals.path().join("edited"), "").unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("not forked"), "{}", ended.stderr);
    assert_eq!(metric(&sandbox, "loss").into_values().collect::<Vec<_>>(), [2.0; 3], "{}", ended.stderr);
}

#[test]
fn variants_of_code_are_forked() {
    if !forks() {
        return;
    }
    let script =
        "from helper import FACTOR\nimport slow\nprint('imported_by=%d' % slow.PID)\nprint('loss=%d' % FACTOR)\n";
    let sandbox = study(script, FORK);
    sandbox.write("other.py", "import slow\nFACTOR = 7\n");
    sandbox
        .write("early.py", "import os\nos.environ['MODE'] = 'x'\nimport slow\nFACTOR = 9 if slow.MODE == 'x' else 0\n");
    let recipe = sandbox.read("recipe.yaml").replace(
        "seed: [0, 1, 2]",
        "seed: [0], code: ['.', { files: { helper.py: other.py } }, { files: { helper.py: early.py } }]",
    );
    sandbox.write("recipe.yaml", &recipe);
    let stderr = run_in_turn(&sandbox);
    assert!(!stderr.contains("not forked"), "{stderr}");
    let mut losses: Vec<f64> = metric(&sandbox, "loss").values().filter_map(Value::as_f64).collect();
    losses.sort_by(f64::total_cmp);
    assert_eq!(losses, [2.0, 7.0, 9.0], "{stderr}");
}

#[test]
fn failures_of_forked_jobs_read_as_those_of_started_ones() {
    if !forks() {
        return;
    }
    let script = "import slow, sys\n\ndef f():\n    raise ValueError('bad')\n\nif '1' in sys.argv:\n    sys.exit(7)\n\
                  if '2' in sys.argv:\n    import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)\nf()\n";
    let mut failures = Vec::new();
    for launch in [FORK, ""] {
        let sandbox = study(script, launch);
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1", "--keep-going"]);
        assert_ne!(ended.code, Some(0));
        let messages: Vec<String> =
            (0..3).map(|seed| sandbox.failure(&format!("train/seed={seed}"))["message"].to_string()).collect();
        let log = sandbox.sweep(&["logs", "train/seed=0"]).stdout;
        assert!(log.contains("ValueError: bad"), "{log}");
        let folder = sandbox.path("").display().to_string();
        failures.push((messages, log.replace(&folder, "FOLDER/")));
    }
    assert_eq!(failures[0].0, failures[1].0);
    assert!(failures[0].0[0].contains("ValueError: bad") && failures[0].0[1].contains("exit code 7"), "{failures:?}");
    assert_eq!(failures[0].1, failures[1].1);
}

#[test]
fn jobs_that_cannot_be_forked_are_started_and_say_why() {
    if !forks() {
        return;
    }
    let cases = [
        (
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nVALUE = 1\n",
            "starts threads",
        ),
        ("import os\nos._exit(3)\n", "does not respond"),
    ];
    for (package, reason) in cases {
        let sandbox = study("import sys\nimport slow\nprint('loss=%d' % slow.VALUE)\n", FORK);
        sandbox.write("venv/lib/site-packages/slow/__init__.py", package);
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
        assert!(ended.stderr.contains("was started, not forked") && ended.stderr.contains(reason), "{}", ended.stderr);
        assert_eq!(ended.code == Some(0), reason == "starts threads", "{}", ended.stderr);
    }
}

#[test]
fn settings_that_an_import_reads_are_those_of_the_job() {
    if !forks() {
        return;
    }
    let launch = "launch: fork\n      settings: conf.json\n      set: { lr: '${{ matrix.seed }}' }";
    let sandbox = study("import sys\nimport helper\nprint('loss=%d' % helper.LR)\n", launch);
    sandbox.write("helper.py", "import json\nLR = json.load(open('conf.json'))['lr']\n");
    sandbox.write("conf.json", "{\"lr\": 9}");
    let said = run_in_turn(&sandbox);
    let losses: Vec<f64> = metric(&sandbox, "loss").values().filter_map(Value::as_f64).collect();
    assert_eq!(losses, [0.0, 1.0, 2.0], "{said}");
    assert!(said.contains("was started, not forked: each job has its own copy of `settings`"), "{said}");
}

#[test]
fn what_cannot_be_forked_is_a_mistake() {
    for (with, message) in [
        ("run: 'python3 train.py'", "needs a script of Python"),
        ("argv: [python3, -c, pass]", "needs a script of Python"),
        ("argv: [python3, train.py]\n      ranks: 2", "starts one process"),
        ("argv: [python3, train.py]\n      inputs: [train.py]", "runs a script in its project"),
    ] {
        let sandbox =
            Sandbox::with(&format!("steps:\n  a:\n    uses: command\n    with:\n      {with}\n      launch: fork\n"));
        sandbox.write("train.py", "");
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{with}");
        assert!(ended.stderr.contains(message), "{with}: {}", ended.stderr);
    }
}

#[test]
fn a_forked_job_ends_with_its_engine() {
    if !forks() {
        return;
    }
    let script = "import os, sys, time\nimport slow\nopen(os.environ['OUT'], 'w').write('%d %d' % (os.getpid(), slow.PID))\ntime.sleep(600)\n";
    let sandbox = study(script, FORK);
    let pids = tempfile::NamedTempFile::new().unwrap();
    let recipe = sandbox.read("recipe.yaml").replace("env: { ", &format!("env: {{ OUT: {}, ", pids.path().display()));
    sandbox.write("recipe.yaml", &recipe);
    let running = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    let text = || fs_err::read_to_string(pids.path()).unwrap();
    until("the job runs", || text().contains(' '));
    let processes: Vec<String> = text().split(' ').map(str::to_owned).collect();
    running.signal(rustix::process::Signal::KILL);
    running.code();
    let is_gone = |pid: &String| !std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists();
    until("its processes have ended", || processes.iter().all(is_gone));
    // The next run is not disturbed.
    sandbox.write("train.py", "import slow\nprint('loss=1')\n");
    run(&sandbox);
}
