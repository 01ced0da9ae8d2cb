//! The manifests of the preset `kubernetes`. There is no cluster in tests: `kubectl` is a stand-in that keeps the manifests and
//! runs their commands on this machine.

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;

use crate::sandbox::{Ended, Running, Sandbox};

/// `apply` keeps the manifest and starts its command; `get` shows the jobs as the preset asks for them; `delete` removes them.
const KUBECTL: &str = r#"#!/usr/bin/python3
import json, os, re, signal, subprocess, sys
folder = os.environ["FAKE_CLUSTER"]
if sys.argv[1] == "apply":
    text = sys.stdin.read()
    field = lambda pattern: re.search(pattern, text)[1]
    name = field(r"(?m)^  name: (\S+)$")
    if os.path.exists(f"{folder}/full"):
        sys.exit("Error from server (Forbidden): jobs.batch is forbidden: exceeded quota: jobs")
    open(f"{folder}/{name}.yaml", "w").write(text)
    command = json.loads(field(r"command: \[/bin/sh, -c, (.*)\]"))
    members = re.search(r"completions: (\d+)", text)
    several = "".join(f"(export SWEEP_MEMBER={member}\n{command}\n) & " for member in range(int(members[1]))) + "wait" if members else ""
    script = f"({several or command}\n); echo $? >{folder}/{name}.end.new; mv {folder}/{name}.end.new {folder}/{name}.end"
    subprocess.Popen(["setsid", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"job.batch/{name} created")
elif sys.argv[1] == "get":
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".yaml"):
            continue
        name = file[:-5]
        label = re.search(r"sweep/label: (\S+) ", open(f"{folder}/{file}").read())[1]
        end = f"{folder}/{name}.end"
        if not os.path.exists(end):
            print(f"{name}|{label}||1|1")
        else:
            print(f"{name}|{label}|{'Complete' if open(end).read().strip() == '0' else 'Failed'}||0")
elif sys.argv[1] == "delete":
    for name in sys.argv[2:]:
        if os.path.exists(f"{folder}/{name}.yaml"):
            os.remove(f"{folder}/{name}.yaml")
"#;

fn sandbox(recipe: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("bin/kubectl", KUBECTL);
    fs_err::set_permissions(sandbox.path("bin/kubectl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    fs_err::create_dir(sandbox.path("cluster")).unwrap();
    let values = format!("image: 'sweep:1', claim: study, mount: {}", sandbox.path("").display());
    let text = format!(
        "recipe: recipe.yaml\nexecutor: {{ batch: {{ preset: kubernetes, values: {{ {values} }}, {settings} }} }}\n"
    );
    sandbox.write("sweep.yaml", &text);
    sandbox
}

fn command(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.command(args);
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("FAKE_CLUSTER", sandbox.path("cluster"));
    command
}

fn sweep(sandbox: &Sandbox, args: &[&str]) -> Ended {
    Running::from(command(sandbox, args).spawn().unwrap()).wait()
}

fn manifests(sandbox: &Sandbox) -> Vec<Value> {
    let files = crate::sandbox::list(&sandbox.path("cluster")).into_iter();
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.map(|path| serde_saphyr::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()).collect()
}

#[test]
fn manifests_fit_the_schema_of_the_api_and_their_commands_run() {
    let recipe = "
steps:
  a: { uses: mock, matrix: { value: [1, 2] }, resources: { cpus: 2, memory: 1GiB, gpus: 1 }, timeout: 90s }
  b: { uses: mock, needs: a, with: { value: 3 } }
  bad: { uses: mock, with: { end: fail, text: \"it's ${odd} \\\"text\\\"\" } }
";
    // Whether this machine has a GPU decides how `a` ends; its manifest is the same.
    let sandbox = sandbox(recipe, "options: [--server-side]");
    let ended = sweep(&sandbox, &["run", "sweep.yaml", "--poll", "0.2", "--only", "b", "--only", "bad"]);
    let manifests = manifests(&sandbox);
    let schema: Value = serde_json::from_str(include_str!("testdata/kubernetes-job.json")).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    assert!(!manifests.is_empty(), "{}", ended.stderr);
    for manifest in &manifests {
        let mistakes: Vec<String> =
            validator.iter_errors(manifest).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(mistakes.is_empty(), "{mistakes:?}\n{manifest:#}");
        let name = manifest["metadata"]["name"].as_str().unwrap();
        assert!(
            name.len() <= 63
                && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-'),
            "{name}"
        );
    }
    let mut wrong = manifests[0].clone();
    wrong["spec"]["template"]["spec"]["container"] = Value::Null;
    assert!(!validator.is_valid(&wrong), "the schema knows every property");
    let of = |cpu: &str| manifests.iter().find(|manifest| pod(manifest)["resources"]["requests"]["cpu"] == cpu);
    let a = of("2").unwrap();
    assert_eq!(pod(a)["resources"]["limits"]["memory"], "1073741824");
    assert_eq!(pod(a)["resources"]["limits"]["nvidia.com/gpu"], "1");
    assert_eq!(a["spec"]["activeDeadlineSeconds"], 90 + 120);
    assert_eq!(a["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "study");
    let bad = of("1").unwrap();
    assert!(bad["spec"]["activeDeadlineSeconds"].is_null() && pod(bad)["resources"]["limits"]["memory"].is_null());
    assert_eq!(sandbox.failure("bad")["kind"], "experiment", "{}", ended.stderr);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
}

/// The container of a manifest.
fn pod(manifest: &Value) -> &Value {
    &manifest["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn the_engine_keeps_dependencies_and_a_quota_is_waited_for() {
    let sandbox = sandbox(
        "steps: { a: { uses: mock, matrix: { value: [1, 2] } }, b: { uses: mock, needs: a, with: { value: 3 } } }",
        "answers-within: 20s",
    );
    sandbox.write("cluster/full", "");
    let engine: Running = command(&sandbox, &["run", "sweep.yaml", "--poll", "0.2"]).spawn().unwrap().into();
    crate::sandbox::until("the quota is said", || {
        sandbox.journal("notice").iter().any(|line| line.to_string().contains("exceeded quota"))
    });
    fs_err::remove_file(sandbox.path("cluster/full")).unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 3)]);
    let order: Vec<String> = sandbox
        .events()
        .into_iter()
        .filter(|(_, kind)| kind == "submitted" || kind == "done")
        .map(|(label, kind)| format!("{label} {kind}"))
        .collect();
    let at = |what: &str| order.iter().position(|line| line == what).unwrap();
    assert!(at("b submitted") > at("a/value=1 done") && at("b submitted") > at("a/value=2 done"), "{order:?}");
}

#[test]
fn pilots_are_the_pods_of_an_indexed_job() {
    let sandbox = sandbox(
        "
steps:
  a: { uses: mock, matrix: { value: { range: [0, 12] } }, with: { seconds: 0.3 }, resources: { cpus: 1 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
  bad: { uses: mock, with: { end: fail } }
",
        "answers-within: 20s",
    );
    let ended = sweep(&sandbox, &["run", "sweep.yaml", "--poll", "0.2", "--pilot", "3"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 13), ("failed", 1)], "{}", ended.stderr);
    let manifests = manifests(&sandbox);
    assert_eq!(manifests.len(), 1, "{}", ended.stderr);
    let spec = &manifests[0]["spec"];
    assert_eq!(
        (&spec["completionMode"], &spec["completions"], &spec["parallelism"]),
        (&"Indexed".into(), &3.into(), &3.into())
    );
    assert!(spec["backoffLimit"].is_null() && spec["backoffLimitPerIndex"] == 0);
    let schema: Value = serde_json::from_str(include_str!("testdata/kubernetes-job.json")).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(&manifests[0]).map(|error| error.to_string()).collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
    // Each pod is an engine with its own number and journal.
    let run = sandbox.path("results/runs").join(&sandbox.runs()[0]);
    let journals = crate::sandbox::list(&run.join("pilots"));
    let names: Vec<_> = journals.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["1.jsonl", "2.jsonl", "3.jsonl"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn values_that_a_preset_needs_are_asked_for() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    sandbox.write(
        "sweep.yaml",
        "recipe: recipe.yaml\nexecutor: { batch: { preset: kubernetes, values: { image: x } } }\n",
    );
    let ended = sandbox.sweep(&["plan", "sweep.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("no value for `claim`, `mount` in `input`"), "{}", ended.stderr);
}

/// As [`KUBECTL`], but a pod has nothing of this machine but its image, which is a folder with the project and the program, and the
/// variables of the manifest.
#[cfg(feature = "remote")]
const PODS: &str = r#"#!/usr/bin/python3
import json, os, re, shutil, subprocess, sys
folder = os.environ["FAKE_CLUSTER"]
if sys.argv[1] == "apply":
    text = sys.stdin.read()
    field = lambda pattern: re.search(pattern, text)[1]
    name = field(r"(?m)^  name: (\S+)$")
    open(f"{folder}/{name}.yaml", "w").write(text)
    command = json.loads(field(r"command: \[/bin/sh, -c, (.*)\]"))
    pod = f"{folder}/pods/{name}"
    shutil.copytree(field(r"image: (\S+)"), f"{pod}/work")
    os.mkdir(f"{pod}/tmp")
    env = dict(re.findall(r'- { name: (\w+), value: "(.*)" }', text))
    env.update(PATH=f"{pod}/work/bin:/usr/bin:/bin", TMPDIR=f"{pod}/tmp", SWEEP_RESULTS=f"{pod}/results", SWEEP_LOCKS=pod)
    script = f"({command}\n) >{pod}/output 2>&1; echo $? >{folder}/{name}.end.new; mv {folder}/{name}.end.new {folder}/{name}.end"
    null = subprocess.DEVNULL
    subprocess.Popen(["setsid", "sh", "-c", script], stdin=null, stdout=null, stderr=null, env=env, cwd=f"{pod}/work")
    print(f"job.batch/{name} created")
elif sys.argv[1] == "get":
    for file in sorted(file for file in os.listdir(folder) if file.endswith(".yaml")):
        name = file[:-5]
        label = re.search(r"sweep/label: (\S+) ", open(f"{folder}/{file}").read())[1]
        end = f"{folder}/{name}.end"
        if os.path.exists(end):
            print(f"{name}|{label}|{'Complete' if open(end).read().strip() == '0' else 'Failed'}||0")
        else:
            print(f"{name}|{label}||1|1")
"#;

/// A sandbox whose pods share nothing with it but the folder `remote`.
#[cfg(feature = "remote")]
fn without_a_shared_folder(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("make.sh", "printf 'text %s' $1 > made.txt\necho number=$1\n");
    sandbox.write("pyproject.toml", "");
    for folder in ["cluster/pods", "remote", "bin", "image/bin"] {
        fs_err::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for file in ["make.sh", "pyproject.toml"] {
        fs_err::copy(sandbox.path(file), sandbox.path("image").join(file)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sweep-engine"), sandbox.path("image/bin/sweep")).unwrap();
    sandbox.write("bin/kubectl", PODS);
    fs_err::set_permissions(sandbox.path("bin/kubectl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let values = format!("image: '{}', secret: keys", sandbox.path("image").display());
    let text = format!(
        "recipe: recipe.yaml\nexecutor: {{ batch: {{ preset: kubernetes-remote, values: {{ {values} }} }} }}\n"
    );
    sandbox.write("sweep.yaml", &text);
    sandbox
}

#[cfg(feature = "remote")]
#[test]
fn pods_without_a_shared_folder_take_their_jobs_from_the_remote_and_bring_their_records_there() {
    let recipe = "
steps:
  make:
    uses: command
    matrix: { number: [1, 2, 33] }
    with: { argv: [sh, make.sh, '${{ matrix.number }}'], inputs: [make.sh], outputs: [made.txt] }
  take:
    needs: make
    matrix: { number: '${{ needs.make.axes.number }}' }
    uses: command
    with: { run: 'echo length=$(wc -c < made.txt)', inputs: ['${{ needs.make.artifacts.made.txt }}'] }
  bad: { uses: mock, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { value: 1 } }
tables: { t: { from: take, rows: [number], cells: [length] } }
";
    let local = without_a_shared_folder(recipe);
    let here = local.sweep(&["run", "recipe.yaml"]);
    let sandbox = without_a_shared_folder(recipe);
    let remote = format!("file://{}", sandbox.path("remote").display());
    let run = ["run", "sweep.yaml", "--poll", "0.2", "--remote", &remote];
    // A record of this machine that pods need.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "make/number=2"]).code, Some(0));
    let refused = sweep(&sandbox, &run[..4]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("its machines share no folder with this one"), "{}", refused.stderr);
    // The first one is killed as soon as a pod has a result, and no pod is being made; the second one takes over.
    let first: Running = command(&sandbox, &run).spawn().unwrap().into();
    crate::sandbox::until("a record is in the remote", || {
        sandbox.journal("submitted").len() >= 3 && !crate::sandbox::list(&sandbox.path("remote/records")).is_empty()
    });
    drop(first);
    let ended = sweep(&sandbox, &run);
    assert_eq!((ended.code, here.code), (Some(5), Some(5)), "{}", ended.stderr);
    assert!(ended.stdout.starts_with(&here.stdout), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("3 of 3 records from {remote}, ")), "{}", ended.stdout);
    let keys = |sandbox: &Sandbox| {
        sandbox.records().into_iter().map(|(label, record)| (label, record["key"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(keys(&sandbox), keys(&local));
    let lengths = sandbox.records();
    let length = |label: &str| lengths[label]["outcome"]["metrics"]["length"]["value"].as_f64();
    assert_eq!((length("take/number=1"), length("take/number=33")), (Some(6.0), Some(7.0)));
    // The failure of a pod and its output are recorded on this machine.
    assert_eq!(sandbox.failure("bad"), local.failure("bad"));
    assert_eq!(sandbox.skipped()["after"], "bad");
    assert!(sandbox.sweep(&["logs", "bad"]).stdout.contains("mock job"), "{}", ended.stderr);
    // Each job went to one pod, and no pod saw the results folder.
    let manifests = manifests(&sandbox);
    let mut pods_of: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for manifest in &manifests {
        let script = pod(manifest)["command"][2].as_str().unwrap();
        *pods_of.entry(script.split("--key ").nth(1).unwrap().trim()).or_default() += 1;
    }
    let bad = sandbox.journal("failed")[0]["key"].as_str().unwrap().to_owned();
    assert_eq!(pods_of.len(), 6, "{}", ended.stderr);
    // The second sweep may run the failed job of the first one again.
    assert!(pods_of.iter().all(|(key, pods)| *pods == 1 || *key == bad), "{pods_of:?} {}", ended.stderr);
    let results = sandbox.path("results").display().to_string();
    assert!(manifests.iter().all(|manifest| !manifest.to_string().contains(&results)));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    let schema: Value = serde_json::from_str(include_str!("testdata/kubernetes-job.json")).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    for manifest in &manifests {
        let mistakes: Vec<String> = validator.iter_errors(manifest).map(|error| error.to_string()).collect();
        assert!(mistakes.is_empty(), "{mistakes:?}\n{manifest:#}");
        assert_eq!(pod(manifest)["envFrom"][0]["secretRef"]["name"], "keys");
        assert!(manifest["spec"]["template"]["spec"]["volumes"].is_null());
    }
}

#[cfg(feature = "remote")]
#[test]
fn pods_run_only_what_they_trust() {
    let sandbox = without_a_shared_folder("steps: { a: { uses: mock, with: { value: 1 } } }");
    let remote = format!("file://{}", sandbox.path("remote").display());
    // The pods trust a key that the submitting side does not have.
    assert_eq!(sandbox.sweep(&["cache", "keygen", "other.key"]).code, Some(0));
    let public = sandbox.sweep(&["cache", "keygen", "another.key"]).stdout;
    sandbox.write("image/team.keys", &public);
    let text = sandbox.read("sweep.yaml").replace("secret: keys", "secret: keys, trust: team.keys");
    sandbox.write("sweep.yaml", &text);
    let run = ["run", "sweep.yaml", "--poll", "0.2", "--remote", &remote, "--remote-key", "other.key"];
    let ended = sweep(&sandbox, &run);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let pods = crate::sandbox::list(&sandbox.path("cluster/pods"));
    let output = fs_err::read_to_string(pods[0].join("output")).unwrap();
    assert!(output.contains("is not used"), "{output}");
    assert!(sandbox.records().is_empty());
}

/// The project in the image differs from this machine's project.
#[cfg(feature = "remote")]
#[test]
fn what_pods_read_of_another_project_is_no_result_here() {
    let recipe = "
steps:
  a:
    uses: command
    matrix: { seed: [1, 2] }
    with: { argv: [python3, t.py], inputs: [t.py], seed: '${{ matrix.seed }}' }
tables: { t: { from: a, rows: [seed], cells: [x] } }
";
    let sandbox = without_a_shared_folder(recipe);
    for (folder, x) in [("", 22), ("image/", 1)] {
        // In a pod, the project is beside the folder for temporary files.
        let program = "
import os, sys
work = os.path.join(os.path.dirname(os.environ.get('TMPDIR', '/none/tmp')), 'work')
if os.path.isdir(work):
    sys.path.insert(0, work)
import module
print('x=%d' % (100 * int(os.environ['SWEEP_SEED']) + module.X))
";
        sandbox.write(&format!("{folder}t.py"), program);
        sandbox.write(&format!("{folder}module.py"), &format!("X = {x}\n"));
    }
    let remote = format!("file://{}", sandbox.path("remote").display());
    let run = ["run", "sweep.yaml", "--poll", "0.2", "--remote", &remote];
    // Without the code in the key, and then with it.
    for _ in 0..2 {
        let ended = sweep(&sandbox, &run);
        assert_eq!(ended.code, Some(5), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("its program read a `module.py` on its machine that differs from the one here"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stdout.contains("101"), "{}", ended.stdout);
    }
    // Nor is it taken from the remote by a run on this machine.
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--remote", &remote]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let csv = sandbox.read("results/reports/recipe/tables/t.csv");
    assert!(csv.contains("122") && csv.contains("222") && !csv.contains("101"), "{csv}");
}
