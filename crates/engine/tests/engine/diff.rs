//! `sweep diff`: two recipes, two runs, two folders.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Two methods at four seeds; `SHIFT` moves the second one.
const STUDY: &str = "\
name: study
params: { shift: 0 }
steps:
  a:
    uses: command
    matrix: { method: [x, y] }
    seeds: 4
    with:
      run: |
        noise=$(( SWEEP_SEED * SWEEP_SEED ))
        if [ $METHOD = y ]; then echo loss=$(( 100 + noise + SHIFT + SHIFT * SWEEP_SEED / 10 )); else echo loss=$(( 100 + noise )); fi
      env: { METHOD: '${{ matrix.method }}', SHIFT: '${{ params.shift }}' }
    resources: { cpus: 1 }
metrics: { loss: { resolution: 1 } }
claims:
  same: { difference: { metric: loss, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { at_most: 5 } }
";

fn diff(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ended = sandbox.sweep(&[&["diff", "--format", "json"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Two recipes, both run.
fn two() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    sandbox.write("other.yaml", &STUDY.replace("shift: 0", "shift: 20"));
    for recipe in ["recipe.yaml", "other.yaml"] {
        assert_eq!(sandbox.sweep(&["run", recipe]).code, Some(0));
    }
    sandbox
}

#[test]
fn recipes() {
    let sandbox = two();
    let text = sandbox.sweep(&["diff", "recipe.yaml", "other.yaml"]).stdout;
    insta::with_settings!({ filters => [(r"time\.run: .*", "time.run …"), (r"in 2 runs \(.*\)", "in 2 runs (…)")] }, { insta::assert_snapshot!(text); });
    let difference = diff(&sandbox, &["recipe.yaml", "other.yaml"]);
    assert_eq!((&difference["shared"], &difference["same"]), (&8.into(), &0.into()));
    let change = &difference["params"][0];
    assert_eq!(change["what"], "env.SHIFT");
    assert_eq!(change["jobs"].as_array().unwrap().len(), 8, "what differs in eight jobs is said once: {change}");
    let metrics = difference["metrics"].as_array().unwrap();
    let loss = metrics.iter().find(|change| change["metric"] == "loss").unwrap();
    assert_eq!((&loss["group"], &loss["n"], &loss["significant"]), (&"a/method=y".into(), &4.into(), &true.into()));
    assert_eq!(loss["difference"].as_f64(), Some(23.0));
    assert!(!metrics.iter().any(|change| change["group"] == "a/method=x" && change["metric"] == "loss"));
    assert_eq!(difference["claims"][0]["states"], serde_json::json!(["supported", "refuted"]));
}

#[test]
fn runs_and_folders() {
    let sandbox = two();
    let runs = sandbox.runs();
    let difference = diff(&sandbox, &[&runs[0], &runs[1], "--claims", "recipe.yaml"]);
    assert_eq!((&difference["shared"], &difference["same"]), (&8.into(), &0.into()));
    assert_eq!(difference["claims"][0]["claim"], "same");

    sandbox.sweep(&["--results", "elsewhere", "run", "other.yaml", "--only", "a/method=y"]);
    let difference = diff(&sandbox, &["elsewhere", &runs[1]]);
    assert_eq!((&difference["shared"], &difference["same"]), (&4.into(), &4.into()));
    assert_eq!(difference["only"][1].as_array().unwrap().len(), 4);
    assert!(difference["params"].as_array().unwrap().is_empty());

    let ended = sandbox.sweep(&["diff", "recipe.yaml", "nowhere"]);
    assert_eq!(ended.code, Some(2));
    assert_message!(ended.stderr);
    assert_message!(sandbox.sweep(&["diff", "recipe.yaml", "recipe.yaml"]).stdout);
}

fn git(sandbox: &Sandbox, args: &[&str]) -> bool {
    let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let status = std::process::Command::new("git").args(author).args(args).current_dir(sandbox.path("")).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn files_that_changed_are_named_as_in_explain_with_their_lines() {
    let sandbox = Sandbox::with(
        "\
name: study
steps:
  a:
    uses: command
    matrix: { seed: [0, 1] }
    with: { argv: [sh, train.sh, --rate, '1'], inputs: [train.sh], project: . }
    resources: { cpus: 1 }
",
    );
    sandbox.write("train.sh", "rate=1\n. ./model.sh\necho loss=$rate$width\n");
    sandbox.write("model.sh", "width=1\n");
    if !git(&sandbox, &["init", "-q"]) {
        eprintln!("skipped: there is no `git` here");
        return;
    }
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    // A change that no commit has.
    sandbox.write("train.sh", "rate=2\n. ./model.sh\necho \"loss=$rate$width\" # \u{1b}[2J\n");
    sandbox.write("model.sh", "width=2\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let runs = sandbox.runs();
    let difference = diff(&sandbox, &[&runs[0], &runs[1]]);
    let change = |what: &str| {
        let changes = difference["params"].as_array().unwrap();
        changes.iter().find(|change| change["what"] == what).unwrap_or_else(|| panic!("{what}: {difference:#}")).clone()
    };
    assert_eq!(change("train.sh")["jobs"].as_array().unwrap().len(), 2);
    let lines = serde_json::json!(["@@ -1 +1 @@", "-width=1", "+width=2"]);
    assert_eq!(change("model.sh")["lines"]["shown"], lines);
    let text = sandbox.sweep(&["diff", &runs[0], &runs[1]]).stdout;
    assert!(
        text.contains("train.sh changed in a/seed=0; a/seed=1\n    @@ -1,3 +1,3 @@\n    -rate=1\n    +rate=2\n"),
        "{text}"
    );
    assert!(text.contains("+echo \"loss=$rate$width\" # \\u{1b}[2J"), "{text}");

    // Of a further change the lines are not known: the content between was neither committed nor kept.
    sandbox.write("model.sh", "width=3\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let runs = sandbox.runs();
    let text = sandbox.sweep(&["diff", &runs[1], &runs[2]]).stdout;
    let unknown = "model.sh changed in a/seed=0; a/seed=1\n    its lines are not known: neither a file here nor a commit has the content of A";
    assert!(text.contains(unknown), "{text}");
    // A recipe whose code has changed since is compared with a run.
    sandbox.write("model.sh", "width=4\n");
    let text = sandbox.sweep(&["diff", &runs[0], "recipe.yaml"]).stdout;
    assert!(
        text.contains("model.sh changed in a/seed=0; a/seed=1\n    @@ -1 +1 @@\n    -width=1\n    +width=4"),
        "{text}"
    );
}
