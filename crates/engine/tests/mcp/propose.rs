//! The referee through the server: a change from its estimate to its verdict in the ledger.

use serde_json::json;

use crate::client::{Client, Project};

const RECIPE: &str = "
params: { gain: 0, factor: 7919 }
steps:
  train:
    uses: command
    seeds: 3
    with:
      run: 'echo score=$(( SWEEP_SEED * FACTOR % 101 + GAIN ))'
      env: { GAIN: '${{ params.gain }}', FACTOR: '${{ params.factor }}' }
";

fn project() -> Project {
    let project = Project::new();
    project.write("recipe.yaml", RECIPE);
    project.write("delta.yaml", "extends: recipe.yaml\nparams: { gain: 1000, factor: 104729 }\n");
    project
}

#[test]
fn a_change_is_estimated_judged_and_known() {
    let project = project();
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs"]);
    let ask = |more: serde_json::Value| {
        let mut all = json!({
            "recipe": "recipe.yaml", "delta": "delta.yaml", "metric": "score", "better": "max", "least": 400,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let estimate = client.call("propose", ask(json!({ "estimate": true })));
    assert_eq!(estimate["answer"]["standing"], "estimate", "{estimate:#}");
    assert_eq!(client.call("ledger", json!({}))["questions"], json!([]), "an estimate asks nothing");
    let judged = client.call("propose", ask(json!({ "wait_seconds": 60 })));
    assert_eq!(judged["going_on"], false, "{judged:#}");
    assert_eq!(judged["answer"]["conclusion"]["verdict"], "accepted", "{judged:#}");
    let known = client.call("propose", ask(json!({ "least": 1 })));
    assert_eq!((&known["answer"]["standing"], &known["run"]), (&"known".into(), &json!(null)), "{known:#}");
    let board = client.call("ledger", json!({ "accepted": true }));
    assert_eq!((&board["accepted"], &board["questions"][0]["question"]["delta"]), (&1.into(), &"delta.yaml".into()));
    client.close();
}

#[test]
fn a_proposal_needs_the_permissions_and_the_budget_of_a_run() {
    let project = project();
    let ask = json!({
        "recipe": "recipe.yaml", "delta": "delta.yaml", "metric": "score", "better": "max", "least": 400,
    });
    for (flags, kind) in [
        (&["--allow-programs"][..], "not-allowed"),
        (&["--allow-run", "."][..], "not-allowed"),
        (&["--allow-run", ".", "--allow-programs", "--max-jobs", "2"][..], "budget"),
    ] {
        let mut client = Client::start(&project, flags);
        assert_eq!(client.refused("propose", ask.clone())["kind"], kind, "{flags:?}");
        client.close();
    }
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs"]);
    let mut outside = ask;
    outside["delta"] = "../delta.yaml".into();
    assert_eq!(client.refused("propose", outside)["kind"], "outside");
    assert!(!project.path("results/ledger").exists());
    client.close();
}

/// The number of jobs that were started, over all runs.
fn starts(project: &Project) -> usize {
    let journals = project.runs().into_iter().map(|run| project.path("results/runs").join(run).join("journal.jsonl"));
    let lines = journals.flat_map(|journal| crate::client::lines(&journal));
    lines.filter(|line| !line["event"]["started"].is_null()).count()
}

#[test]
fn a_proposal_starts_no_job_beyond_the_budget() {
    let project = project();
    let ask = json!({
        "recipe": "recipe.yaml", "delta": "delta.yaml", "metric": "score", "better": "max", "least": 400, "wait_seconds": 60,
    });
    // The noise takes 5 jobs, and the search 6.
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs", "--max-jobs", "10"]);
    let error = client.refused("propose", ask.clone());
    assert_eq!((&error["kind"], starts(&project)), (&json!("budget"), 0), "{error}");
    assert!(error["message"].as_str().unwrap().contains("11 jobs could run"), "{error}");
    client.close();
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs", "--max-jobs", "12"]);
    let error = client.refused("propose", ask.clone());
    assert_eq!((&error["kind"], starts(&project)), (&json!("budget"), 12), "{error}");
    client.close();
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs"]);
    let judged = client.call("propose", ask);
    assert_eq!(judged["answer"]["conclusion"]["verdict"], "accepted", "{judged:#}");
    client.close();
}

#[test]
fn a_server_of_one_bit_shows_no_results() {
    let project = project();
    let mut client = Client::start(&project, &["--allow-run", ".", "--allow-programs", "--one-bit"]);
    let ask = json!({
        "recipe": "recipe.yaml", "delta": "delta.yaml", "metric": "score", "better": "max", "least": 400, "wait_seconds": 60,
    });
    let judged = client.call("propose", ask.clone());
    assert_eq!(judged["answer"], json!({ "standing": "judged", "accepted": true }), "{judged:#}");
    let mut known = ask;
    known["estimate"] = true.into();
    assert_eq!(client.call("propose", known)["answer"], json!({ "standing": "known", "accepted": true }));
    let tools = client.request("tools/list", &json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["describe", "validate", "plan", "run", "status", "stop", "propose"]);
    let resources = client.request("resources/list", &json!({})).to_string();
    assert!(!resources.contains("sweep://reports/"), "{resources}");
    client.close();
}
