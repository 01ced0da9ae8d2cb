//! Limits: the folder, the permissions, the budget, and runs that outlive their client.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::client::{Client, Project, until};

const ALL: &[&str] = &["--allow-run", "."];

/// A study of one job that takes a long time, in many steps.
const SLOW: &str = "name: slow\nsteps: { a: { uses: mock, with: { seconds: 600, steps: 6000 } } }\n";

#[test]
fn nothing_outside_of_the_folder_is_read() {
    let project = Project::new();
    fs_err::write(project.outside().join("secret.yaml"), "name: secret\nsteps: { a: { uses: mock } }\n").unwrap();
    fs_err::write(project.outside().join("data.bin"), "1234").unwrap();
    symlink(project.outside().join("secret.yaml"), project.path("link.yaml")).unwrap();
    symlink(project.outside(), project.path("up")).unwrap();
    project.write("extends.yaml", "extends: ../secret.yaml\nname: x\n");
    project.write("through.yaml", "extends: up/secret.yaml\nname: x\n");
    project.write("sweep.yaml", "recipes: [link.yaml]\n");
    let reads = |path: &str| format!("name: x\nsteps: {{ a: {{ uses: mock, with: {{ input: '{path}' }} }} }}\n");
    project.write("input.yaml", &reads("../data.bin"));
    project.write("linked.yaml", &reads("up/data.bin"));
    let mut client = Client::start(&project, ALL);
    let absolute = project.outside().join("secret.yaml").display().to_string();
    for path in ["../secret.yaml", "./a/../../secret.yaml", "link.yaml", "up/secret.yaml", &absolute, "/etc/passwd"] {
        for tool in ["validate", "plan", "run", "report", "query"] {
            let error = client.refused(tool, json!({ "recipes": [path] }));
            assert_eq!(error["kind"], "outside", "{tool} {path}: {error}");
            assert!(!error.to_string().contains("name: secret"), "{error}");
        }
        assert_eq!(client.refused("describe", json!({ "recipe": path }))["kind"], "outside");
    }
    for path in ["extends.yaml", "through.yaml", "sweep.yaml"] {
        let error = client.refused("plan", json!({ "recipes": [path] }));
        assert!(error.to_string().contains("outside of the project's folder"), "{path}: {error}");
    }
    for path in ["input.yaml", "linked.yaml"] {
        assert_eq!(client.refused("run", json!({ "recipes": [path] }))["kind"], "outside", "{path}");
    }
    assert_eq!(project.runs(), Vec::<String>::new());
    client.close();
}

#[test]
fn only_what_the_user_allows_is_run() {
    let project = Project::new();
    project.write("open/study.yaml", crate::client::STUDY);
    project
        .write("open/program.yaml", "name: program\nsteps: { a: { uses: command, with: { argv: [touch, made] } } }\n");
    project.write("open/elsewhere.yaml", "recipes: [study.yaml]\nexecutor: slurm\n");
    project.write(
        "open/sampler.yaml",
        "name: sampler\nsteps:\n  a:\n    uses: mock\n    with: { value: '${{ matrix.x }}' }\n    search:\n      \
         suggest: { sampler: { argv: [touch, sampled] }, space: { x: { uniform: [0, 1] } }, batch: 2, batches: 2, by: value }\n",
    );
    let mut client = Client::start(&project, &[]);
    let error = client.refused("run", json!({ "recipes": ["study.yaml"] }));
    assert_eq!(error["kind"], "not-allowed");
    assert!(error["help"].as_str().unwrap().contains("--allow-run"), "{error}");
    client.close();
    let mut client = Client::start(&project, &["--allow-run", "open"]);
    for (path, flag) in [
        ("study.yaml", "--allow-run"),
        ("open/../study.yaml", "--allow-run"),
        ("open/program.yaml", "--allow-programs"),
        ("open/elsewhere.yaml", "--allow-executors"),
    ] {
        let error = client.refused("run", json!({ "recipes": [path] }));
        assert_eq!(error["kind"], "not-allowed", "{path}: {error}");
        assert!(error["help"].as_str().unwrap().contains(flag), "{path}: {error}");
    }
    // A sampler would run while a plan is made.
    for tool in ["validate", "plan", "run", "report"] {
        let error = client.refused(tool, json!({ "recipes": ["open/sampler.yaml"] }));
        assert_eq!(error["kind"], "not-allowed", "{tool}: {error}");
    }
    // A program can be planned.
    assert_eq!(client.call("plan", json!({ "recipes": ["open/program.yaml"] }))["most_jobs"], 1);
    assert_eq!(client.call("run", json!({ "recipes": ["open/study.yaml"], "wait_seconds": 60 }))["state"], "done");
    client.close();
    assert!(!project.path("made").exists() && !project.path("sampled").exists());
    let mut client = Client::start(&project, &["--allow-run", "open", "--allow-programs"]);
    let run = client.call("run", json!({ "recipes": ["open/program.yaml"], "wait_seconds": 60 }));
    assert_eq!(run["used"]["jobs"], 1, "{run:#}");
    client.close();
}

#[test]
fn a_run_beyond_the_budget_of_jobs_is_refused() {
    let project = Project::new();
    let mut client = Client::start(&project, &["--allow-run", ".", "--max-jobs", "4"]);
    let error = client.refused("run", json!({ "recipes": ["study.yaml"] }));
    assert_eq!(error["kind"], "budget", "{error}");
    assert!(error["message"].as_str().unwrap().contains("6 jobs could run, and 4 are left"), "{error}");
    let part = json!({ "recipes": ["study.yaml"], "axes": ["seed=0"], "wait_seconds": 60 });
    let run = client.call("run", part);
    assert_eq!((&run["state"], &run["left"]["jobs"]), (&json!("done"), &json!(2)), "{run:#}");
    let error = client.refused("run", json!({ "recipes": ["study.yaml"] }));
    assert_eq!(error["kind"], "budget", "{error}");
    assert_eq!(project.records(), 2);
    client.close();
}

/// A study of three jobs that fail and are tried again.
const RETRIED: &str = "name: retried\nsteps:\n  a:\n    uses: mock\n    matrix: { seed: [0, 1, 2] }\n    \
    with: { end: fail }\n    retries: 4\n";

#[test]
fn every_start_counts_and_none_is_beyond_the_budget() {
    let project = Project::new();
    project.write("retried.yaml", RETRIED);
    let mut client = Client::start(&project, &["--allow-run", ".", "--max-jobs", "4"]);
    client.call("run", json!({ "recipes": ["retried.yaml"], "wait_seconds": 0 }));
    let end = client.wait();
    assert_eq!((&end["state"], &end["stopped_by"]), (&json!("stopped"), &json!("jobs")), "{end:#}");
    assert_eq!((&end["used"]["jobs"], &end["left"]["jobs"]), (&json!(4), &json!(0)), "{end:#}");
    let run = project.path("results/runs").join(end["run"].as_str().unwrap());
    let journal = crate::client::lines(&run.join("journal.jsonl"));
    assert_eq!(journal.iter().filter(|line| !line["event"]["started"].is_null()).count(), 4);
    assert!(
        journal.iter().any(|line| line["event"]["notice"]["text"].as_str().is_some_and(|text| text.contains("budget")))
    );
    assert_eq!(client.refused("run", json!({ "recipes": ["study.yaml"] }))["kind"], "budget");
    client.close();
}

#[test]
fn a_call_waits_as_long_as_it_is_asked_to() {
    let project = Project::new();
    project.write("slow.yaml", "name: slow\nsteps: { a: { uses: mock, with: { seconds: 3 } } }\n");
    let mut client = Client::start(&project, ALL);
    let run = client.call("run", json!({ "recipes": ["slow.yaml"], "wait_seconds": 30 }));
    assert_eq!(run["state"], "done", "{run:#}");
    client.close();
}

#[test]
fn a_run_stops_at_the_budget_of_time() {
    let project = Project::new();
    project.write("slow.yaml", SLOW);
    let mut client = Client::start(&project, &["--allow-run", ".", "--max-time", "10s"]);
    let run = client.call("run", json!({ "recipes": ["slow.yaml"], "wait_seconds": 0 }));
    assert_eq!(run["state"], "running", "{run:#}");
    assert_eq!(client.refused("run", json!({ "recipes": ["study.yaml"] }))["kind"], "busy");
    let end = client.wait();
    assert_eq!((&end["state"], &end["stopped_by"]), (&json!("stopped"), &json!("time")), "{end:#}");
    assert_eq!(end["run"], run["run"]);
    let error = client.refused("run", json!({ "recipes": ["study.yaml"] }));
    assert_eq!(error["kind"], "budget", "{error}");
    client.close();
}

#[test]
fn a_run_is_stopped_and_continued() {
    let project = Project::new();
    project.write("slow.yaml", SLOW);
    let mut client = Client::start(&project, ALL);
    client.call("run", json!({ "recipes": ["slow.yaml"], "wait_seconds": 0 }));
    client.call("stop", json!({ "wait_seconds": 60 }));
    let end = client.wait();
    assert_eq!((&end["state"], &end["stopped_by"]), (&json!("stopped"), &Value::Null), "{end:#}");
    let again = client.call("run", json!({ "recipes": ["slow.yaml"], "wait_seconds": 0 }));
    assert_eq!(again["state"], "running", "{again:#}");
    client.call("stop", json!({ "wait_seconds": 60 }));
    assert_eq!(client.wait()["state"], "stopped");
    client.close();
}

#[test]
fn a_client_that_disconnects_loses_nothing() {
    let project = Project::new();
    let slow = json!({ "recipes": ["study.yaml"], "set": ["seconds=1.5"], "wait_seconds": 0 });
    let mut client = Client::start(&project, ALL);
    let run = client.call("run", slow.clone());
    assert_eq!(run["state"], "running", "{run:#}");
    // The server is killed, as a client may do that does not wait.
    client.child.kill().unwrap();
    drop(client);
    until("the run ends by itself", || project.records() == 6);
    let mut client = Client::start(&project, ALL);
    let status = client.wait();
    assert_eq!((&status["run"], &status["state"]), (&run["run"], &json!("done")), "{status:#}");
    let again = client.call("run", slow);
    assert_eq!((&again["state"], &again["run"]), (&json!("done"), &Value::Null), "{again:#}");
    assert_eq!(project.runs().len(), 1);
    client.close();
}

#[test]
fn the_limits_hold_without_the_server() {
    let project = Project::new();
    project.write("slow.yaml", SLOW);
    let mut client = Client::start(&project, &["--allow-run", ".", "--max-time", "10s"]);
    client.call("run", json!({ "recipes": ["slow.yaml"], "wait_seconds": 0 }));
    client.child.kill().unwrap();
    drop(client);
    let mut client = Client::start(&project, &[]);
    let status = client.wait();
    assert_eq!(status["state"], "stopped", "{status:#}");
    client.close();
}

#[test]
fn limits_that_make_no_sense_are_refused_at_the_start() {
    let project = Project::new();
    for args in [
        ["--max-time", "0s"],
        ["--max-time", "soon"],
        ["--max-gpu-hours", "-1"],
        ["--max-gpu-hours", "NaN"],
        ["--allow-run", "../elsewhere"],
        ["--allow-run", "none.yaml"],
        ["--token-file", "token"],
    ] {
        let ended = project.command(&[&["mcp"], &args[..]].concat()).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{args:?}");
        assert!(ended.stdout.is_empty(), "{args:?}");
    }
}
