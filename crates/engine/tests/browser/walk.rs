//! The way of a new user of Python: the wheel in a fresh environment, an own script in an empty folder, curves that move in
//! the browser, a kill, and edits.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;

use crate::{
    alone,
    driver::Browser,
    sandbox::{Running, Sandbox, until},
    server::address_of,
};

/// Makes a wheel of the program and the module, as pip installs it: arguments are the module's folder, the program, and the folder to write
/// to. `make wheel` builds the published wheel; the contents are equal.
const PACK: &str = r#"
import base64, hashlib, pathlib, sys, zipfile
module, program, target = map(pathlib.Path, sys.argv[1:])
info = "sweep_ablations-0.0.1.dist-info"
files = {f"sweep/{path.relative_to(module)}": path.read_bytes() for path in sorted(module.rglob("*")) if path.suffix in (".py", ".typed")}
files["sweep_ablations-0.0.1.data/scripts/sweep"] = program.read_bytes()
files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: sweep-ablations\nVersion: 0.0.1\n"
files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
lines = []
with zipfile.ZipFile(target / "sweep_ablations-0.0.1-py3-none-any.whl", "w") as wheel:
    for name, data in files.items():
        member = zipfile.ZipInfo(name)  # pip wants the bit of a regular file, too
        member.external_attr = (0o100755 if name.endswith("scripts/sweep") else 0o100644) << 16
        wheel.writestr(member, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}")
    wheel.writestr(f"{info}/RECORD", "\n".join(lines) + f"\n{info}/RECORD,,\n")
"#;

/// Each mode imports a separate module. The training is slow until the file `go` exists.
const TRAIN: &str = r#"
import argparse, importlib, json, os, time
import sweep

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["plain", "extra"], default="plain", help="the model")
parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
parser.add_argument("--iters", type=int, default=1000)
args = parser.parse_args()
model = importlib.import_module(f"model_{args.mode}")
# What it writes to its project is its own.
here = os.environ["OUTSIDE"]

loss = 4.0
if sweep.resume() is not None:
    loss = json.loads(open(sweep.resume()).read())["loss"]
def log(word):
    with open(os.path.join(here, "trained.txt"), "a") as file:
        file.write(f"{args.mode} {word}\n")

log("begin")
for step in sweep.steps(args.iters):
    log(step)
    loss *= model.DECAY ** 0.01
    asked = sweep.report(step, loss=loss)
    if asked or step % 50 == 49:
        with sweep.checkpoint() as path:
            with open(path, "w") as file:
                json.dump({"loss": loss}, file)
    if not os.path.exists(os.path.join(here, "go")):
        time.sleep(0.05)
"#;

/// A new environment with the wheel: the folder of its programs. `None`, with the reason, where Python makes none.
fn installed(folder: &Path) -> Option<PathBuf> {
    let run = |program: &Path, args: &[&std::ffi::OsStr]| {
        let output = Command::new(program).args(args).env_remove("PYTHONPATH").stdin(Stdio::null()).output();
        match output {
            Ok(output) => (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => (false, error.to_string()),
        }
    };
    let venv = folder.join("venv");
    let (made, told) = run(Path::new("python3"), &["-m".as_ref(), "venv".as_ref(), venv.as_os_str()]);
    if !made {
        eprintln!("not run: `python3 -m venv` fails here: {told}");
        return None;
    }
    let python = venv.join("bin/python");
    let wheel = match std::env::var_os("SWEEP_TEST_WHEEL") {
        Some(wheel) => PathBuf::from(wheel),
        None => {
            let module = crate::sandbox::repository().join("python/sweep");
            let program = Path::new(env!("CARGO_BIN_EXE_sweep-engine"));
            let args = ["-c".as_ref(), PACK.as_ref(), module.as_os_str(), program.as_os_str(), folder.as_os_str()];
            let (packed, told) = run(&python, &args);
            assert!(packed, "{told}");
            folder.join("sweep_ablations-0.0.1-py3-none-any.whl")
        }
    };
    let args =
        ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"].map(AsRef::as_ref);
    let (done, told) = run(&python, &[&args[..], &[wheel.as_os_str()]].concat());
    assert!(done, "{told}");
    Some(venv.join("bin"))
}

/// The user: a folder with a script, and the installed program.
struct User {
    sandbox: Sandbox,
    bin: PathBuf,
    /// A folder that all jobs share.
    outside: tempfile::TempDir,
}

impl User {
    fn start(&self, args: &[&str]) -> Child {
        let path = format!("{}:/usr/bin:/bin", self.bin.display());
        let mut command = Command::new(self.bin.join("sweep"));
        command.args(args).current_dir(self.sandbox.path("")).env("PATH", path).env("NO_COLOR", "1");
        command.env_remove("SWEEP_RESULTS").env_remove("SWEEP_LOG").env_remove("PYTHONPATH");
        command.env("SWEEP_LOCKS", self.sandbox.path("")).env("OUTSIDE", self.outside.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs the program, which must succeed; its output.
    fn sweep(&self, args: &[&str]) -> String {
        let ended = Running::from(self.start(args)).wait();
        assert_eq!(ended.code, Some(0), "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// The steps that each attempt of a mode has trained so far.
    fn trained(&self, mode: &str) -> Vec<Vec<u64>> {
        let text = std::fs::read_to_string(self.outside.path().join("trained.txt")).unwrap_or_default();
        let mut attempts: Vec<Vec<u64>> = Vec::new();
        for word in text.lines().filter_map(|line| line.strip_prefix(mode)).map(str::trim) {
            match (word.parse(), attempts.last_mut()) {
                (Ok(step), Some(attempt)) => attempt.push(step),
                _ => attempts.push(Vec::new()),
            }
        }
        attempts
    }
}

#[test]
fn from_an_empty_folder_to_a_study_that_survives_kills_and_edits() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let environment = tempfile::tempdir().unwrap();
    let Some(bin) = installed(environment.path()) else { return };
    let user = User { sandbox: Sandbox::new(), bin, outside: tempfile::tempdir().unwrap() };
    let sandbox = &user.sandbox;
    sandbox.write("train.py", TRAIN);
    sandbox.write("model_plain.py", "DECAY = 0.9\n");
    sandbox.write("model_extra.py", "DECAY = 0.8\n");
    sandbox.write("notes.py", "# nobody reads this\n");

    user.sweep(&["init", "train.py"]);
    // The one edit: both jobs at once.
    let recipe = sandbox.read("train.yaml");
    let edited = recipe.replace("# resources: { cpus: 1, gpus: 1 }", "resources: { cpus: 1 }");
    assert_ne!(edited, recipe);
    sandbox.write("train.yaml", &edited);
    let recipe = ["run", "train.yaml", "--axis", "mode=plain,extra", "--jobs", "2"];

    // Curves move while it trains.
    let (_server, address) = address_of(user.start(&["ui", "--port", "0"]));
    let run = Running::from(user.start(&recipe));
    browser.look(1280, false);
    browser.open(&address);
    browser.until("document.querySelector('#runs-body tr .pill.running') !== null");
    browser.click("#runs-body tr:first-child th a");
    browser.until("document.querySelectorAll('#running .canvas').length === 2");
    let label = "document.querySelector('#running .canvas').getAttribute('aria-label')";
    let before = browser.eval(label);
    assert!(before.as_str().unwrap().starts_with("loss: "), "{before}");
    browser.until(&format!("{label} !== {before}"));
    let modes = ["plain", "extra"];
    until("both have a checkpoint", || {
        modes.iter().all(|mode| user.trained(mode).iter().flatten().any(|step| *step >= 60))
    });

    // Killed with everything that it has started, it goes on from the last checkpoints.
    run.signal(Signal::KILL);
    drop(run);
    until("the workers end with the engine", || sandbox.workers().is_empty());
    std::fs::write(user.outside.path().join("go"), "").unwrap();
    user.sweep(&recipe);
    for mode in modes {
        let attempts = user.trained(mode);
        let [first, second] = attempts.as_slice() else { panic!("{mode}: {attempts:?}") };
        let from = second[0];
        assert!(from >= 50 && from % 50 == 0 && first.len() as u64 - from <= 50, "{mode}: {attempts:?}");
        assert!(first.iter().copied().eq(0..first.len() as u64) && second.iter().copied().eq(from..1000), "{mode}");
    }
    let records = sandbox.records();
    assert_eq!(records.len(), 2, "{records:?}");
    let at = records.values().next().unwrap()["outcome"]["curves"]["loss"]["at"].as_array().unwrap().len();
    assert_eq!(at, 1000, "the curve has every step once");

    // Nothing has changed, and then something that nobody reads.
    let rerun = |expected: usize, why: &str| {
        let before = sandbox.starts().values().sum::<usize>();
        user.sweep(&recipe);
        assert_eq!(sandbox.starts().values().sum::<usize>() - before, expected, "{why}");
    };
    rerun(0, "everything is cached");
    sandbox.write("notes.py", "# nobody reads this, still\n");
    rerun(0, "a comment in a file that nobody reads");
    sandbox.write("model_extra.py", "DECAY = 0.7\n");
    let why = user.sweep(&["plan", "train.yaml", "--axis", "mode=plain,extra", "--why"]);
    assert!(why.contains("model_extra.py changed; 1 job reads it"), "{why}");
    rerun(1, "the module that one of both imports");
    sandbox.write("train.py", &format!("{TRAIN}\n# the end\n"));
    rerun(2, "the script is read by all");
}
