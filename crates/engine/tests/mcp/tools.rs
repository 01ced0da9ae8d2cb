//! The tools: their answers, their errors and the journal of calls.

use serde_json::{Value, json};

use crate::client::{Client, Project, lines};

const ALL: &[&str] = &["--allow-run", "."];
/// Most tokens of the list of tools.
const MAX_LIST_TOKENS: usize = 4000;

#[test]
fn every_answer_fits_its_schema() {
    let project = Project::new();
    let mut client = Client::start(&project, ALL);
    let listed = client.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in
        ["describe", "validate", "plan", "run", "status", "stop", "report", "explain", "query", "propose", "ledger"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        let reads = !["run", "stop", "propose"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{tool}");
    }
    // Clients put the list into each conversation; four bytes are about a token.
    let bytes = listed["result"].to_string().len();
    assert!(bytes < 4 * MAX_LIST_TOKENS, "{bytes} bytes");
    let study = json!({ "recipes": ["study.yaml"] });
    let with = |more: Value| {
        let mut all = study.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let calls = [
        ("describe", json!({})),
        ("describe", json!({ "recipe": "study.yaml" })),
        ("describe", json!({ "task": "mock" })),
        ("validate", study.clone()),
        ("plan", with(json!({ "jobs": true, "detect": ["value=1"], "budget": "1h" }))),
        ("run", with(json!({ "wait_seconds": 60 }))),
        ("status", json!({ "all": true })),
        ("report", study.clone()),
        ("report", with(json!({ "tables": ["widths"] }))),
        ("explain", with(json!({ "job": "train/width=1,seed=0" }))),
        ("ledger", json!({})),
        ("query", json!({})),
        ("query", with(json!({ "where": ["value > 1"], "select": ["seed", "value"], "sort": ["-seed"] }))),
    ];
    for (name, arguments) in calls {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let answer = client.call(name, arguments.clone());
        let schema = client.request("resources/read", &json!({ "uri": format!("sweep://answers/{name}") }));
        let schema = serde_json::from_str(schema["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
        for (schema, value) in [(&schema, &answer), (&tool["inputSchema"], &arguments)] {
            let errors: Vec<String> =
                jsonschema::validator_for(schema).unwrap().iter_errors(value).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name} {arguments}: {value:#}");
        }
    }
    client.close();
}

#[test]
fn a_study_from_its_description_to_its_verdicts() {
    let project = Project::new();
    let mut client = Client::start(&project, ALL);
    let study = || json!({ "recipes": ["study.yaml"] });
    let described = client.call("describe", json!({}));
    assert_eq!(described["files"], json!([{ "path": "study.yaml", "about": "Does the value grow with the width?" }]));
    let recipe = client.call("describe", json!({ "recipe": "study.yaml" }));
    let axis = json!({ "name": "width", "values": [1, 2], "number": 2 });
    assert_eq!(recipe["recipes"][0]["steps"][0]["axes"][0], axis, "{recipe:#}");
    let task = client.call("describe", json!({ "task": "mock" }));
    let seconds = task["parameters"].as_array().unwrap().iter().find(|item| item["name"] == "seconds").unwrap();
    assert_eq!((&seconds["unit"], &seconds["default"]), (&json!("s"), &json!(0.0)));
    assert_eq!(client.call("validate", study())["valid"], true);
    let plan = client.call("plan", study());
    assert_eq!((&plan["tally"]["to_run"], &plan["most_jobs"]), (&json!(6), &json!(6)), "{plan:#}");
    let run = client.call("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 60 }));
    assert_eq!((&run["state"], &run["used"]["jobs"]), (&json!("done"), &json!(6)), "{run:#}");
    assert_eq!(run["left"]["jobs"], 94, "{run:#}");
    let report = client.call("report", study());
    let states: Vec<&Value> = report["verdicts"].as_array().unwrap().iter().map(|verdict| &verdict["state"]).collect();
    assert_eq!(states, ["supported", "refuted"], "{report:#}");
    assert_eq!(report["tables"][0]["markdown"], Value::Null);
    let tables = client.call("report", json!({ "recipes": ["study.yaml"], "tables": ["widths"] }));
    assert!(tables["tables"][0]["markdown"].as_str().unwrap().contains("| width |"), "{tables:#}");
    // The second run has nothing to do and costs nothing.
    let again = client.call("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 60 }));
    assert_eq!((&again["state"], &again["left"]["jobs"]), (&json!("done"), &json!(94)), "{again:#}");
    let cached = client.call("explain", json!({ "recipes": ["study.yaml"], "job": "train/seed=0,width=1" }));
    assert!(cached["lines"][0].as_str().unwrap().contains("is cached"), "{cached:#}");
    client.close();
}

#[test]
fn long_answers_come_in_parts() {
    let project = Project::new();
    let mut client = Client::start(&project, ALL);
    client.call("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 60 }));
    let mut arguments =
        json!({ "recipes": ["study.yaml"], "select": ["width", "seed"], "sort": ["width", "seed"], "limit": 4 });
    let first = client.call("query", arguments.clone());
    assert_eq!(first["rows"].as_array().unwrap().len(), 4);
    arguments["cursor"] = first["next"].clone();
    let second = client.call("query", arguments);
    assert_eq!((&second["rows"], &second["next"]), (&json!([[2, 1], [2, 2]]), &Value::Null), "{second:#}");
    let jobs =
        client.call("plan", json!({ "recipes": ["study.yaml"], "set": ["seconds=0.001"], "jobs": true, "limit": 5 }));
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 5);
    assert!(jobs["jobs"][0]["why"].as_str().unwrap().contains("seconds"), "{jobs:#}");
    assert!(jobs["next"].is_string());
    client.close();
}

#[test]
fn bad_calls_get_typed_errors() {
    let project = Project::new();
    project.write("bad.yaml", "name: bad\nsteps:\n  a: { uses: mock, with: { valeu: 1 } }\n");
    let mut client = Client::start(&project, ALL);
    for (tool, arguments, kind, says) in [
        ("plan", json!({}), "arguments", "`recipes` is missing"),
        ("plan", json!({ "recipes": "study.yaml" }), "arguments", "`recipes` must be of the type array"),
        ("plan", json!({ "recipes": [] }), "arguments", "at least 1 item"),
        ("plan", json!({ "recipes": ["study.yaml"], "sets": [] }), "arguments", "there is no argument `sets`"),
        ("plan", json!({ "recipes": ["study.yaml"], "limit": 0 }), "arguments", "at least 1"),
        ("plan", json!({ "recipes": ["study.yaml"], "cursor": "7" }), "arguments", "cursor"),
        ("plan", json!({ "recipes": ["study.yaml"], "backend": "tpu" }), "arguments", "backend"),
        ("plan", json!({ "recipes": ["study.yaml"], "detect": ["value"] }), "arguments", "value"),
        ("plan", json!({ "recipes": ["study.yaml"], "budget": "1h" }), "arguments", "detect"),
        ("plan", json!({ "recipes": ["study.yaml"], "only": ["none"] }), "arguments", "none"),
        ("plan", json!({ "recipes": ["none.yaml"] }), "not-found", "none.yaml"),
        ("plan", json!({ "recipes": ["bad.yaml"] }), "recipe", "bad.yaml"),
        ("run", json!({ "recipes": ["bad.yaml"] }), "recipe", "bad.yaml"),
        ("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 1e9 }), "arguments", "at most 60"),
        ("explain", json!({ "recipes": ["study.yaml"], "job": "train/width=3,seed=0" }), "not-found", "width=3"),
        ("describe", json!({ "task": "mocc" }), "not-found", "mocc"),
        ("describe", json!({ "task": "mock", "recipe": "study.yaml" }), "arguments", "exclude"),
        ("report", json!({ "recipes": ["study.yaml"], "tables": ["width"] }), "not-found", "width"),
        ("query", json!({ "where": ["loss <"] }), "arguments", "loss <"),
        ("status", json!({}), "not-found", "no run"),
        ("stop", json!({}), "not-found", "no run"),
        ("status", json!({ "run": "../../etc" }), "not-found", "etc"),
    ] {
        let error = client.refused(tool, arguments.clone());
        assert_eq!(error["kind"], kind, "{tool} {arguments}: {error:#}");
        assert!(error["message"].as_str().unwrap().contains(says), "{tool} {arguments}: {error:#}");
    }
    let mistakes = client.call("validate", json!({ "recipes": ["bad.yaml"] }));
    assert_eq!(mistakes["valid"], false);
    assert_eq!(mistakes["mistakes"][0]["at"], "bad.yaml:3:28", "{mistakes:#}");
    assert!(mistakes["mistakes"][0]["help"].as_str().unwrap().contains("`value`"), "{mistakes:#}");
    let unknown = client.request("tools/call", &json!({ "name": "pln", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("did you mean `plan`?"), "{unknown}");
    client.close();
}

#[test]
fn hostile_lines_end_nothing() {
    let project = Project::new();
    let mut client = Client::start(&project, ALL);
    let deep = "[".repeat(100_000);
    let long = "x".repeat(2 << 20);
    for line in [
        "",
        "{",
        "null",
        "[]",
        "\u{0}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"tools/call\",\"params\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":\"tools/call\",\"params\":{\"name\":\"plan\",\"arguments\":[]}}",
        "{\"jsonrpc\":\"2.0\",\"id\":902,\"method\":\"no/such\",\"params\":{}}",
        &format!("{{\"jsonrpc\":\"2.0\",\"id\":903,\"method\":\"tools/call\",\"params\":{deep}"),
        &format!("{{\"jsonrpc\":\"2.0\",\"id\":904,\"method\":\"tools/call\",\"params\":{{\"name\":\"{long}\"}}}}"),
    ] {
        client.send(line);
    }
    let names =
        ["a\u{0}b.yaml", "\u{202e}.yaml", "a\nb.yaml", &"/".repeat(10_000), &"a/".repeat(5000), "${{ x }}", "-rf"];
    for name in names {
        let error = client.refused("plan", json!({ "recipes": [name] }));
        assert!(["not-found", "outside"].contains(&error["kind"].as_str().unwrap()), "{error}");
    }
    for value in ["a", "=", "x=${{ y }}", "seconds=[[[[", "--help"] {
        let error = client.refused("plan", json!({ "recipes": ["study.yaml"], "set": [value] }));
        assert_eq!(error["kind"], "recipe", "{value}: {error}");
    }
    assert_eq!(client.call("plan", json!({ "recipes": ["study.yaml"] }))["tally"]["to_run"], 6);
    client.close();
}

#[test]
fn every_call_is_in_the_journal() {
    let project = Project::new();
    let mut client = Client::start(&project, ALL);
    client.call("plan", json!({ "recipes": ["study.yaml"] }));
    client.refused("plan", json!({ "recipes": ["none.yaml"] }));
    client.request("tools/call", &json!({ "name": "nothing", "arguments": { "a": 1 } }));
    client.request("resources/read", &json!({ "uri": "sweep://recipes/study.yaml" }));
    client.request("resources/read", &json!({ "uri": "sweep://recipes/../secret.yaml" }));
    let run = client.call("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 60 }));
    client.call("status", json!({}));
    client.close();
    let journal = project.journal();
    let kept = |line: &Value| (line["tool"].as_str().unwrap().to_owned(), line["error"]["kind"].clone());
    let expected = [
        ("plan", Value::Null),
        ("plan", json!("not-found")),
        ("nothing", json!("not-found")),
        ("resources/read", Value::Null),
        ("resources/read", json!("outside")),
        ("run", Value::Null),
        ("status", Value::Null),
    ];
    assert_eq!(journal.iter().map(kept).collect::<Vec<_>>(), expected.map(|(tool, kind)| (tool.to_owned(), kind)));
    assert_eq!(journal[1]["arguments"], json!({ "recipes": ["none.yaml"] }));
    let of_run = lines(&project.path("results/runs").join(run["run"].as_str().unwrap()).join("calls.jsonl"));
    assert_eq!(of_run, journal[5..], "the calls about a run are in its folder, too");
}

#[test]
fn recipes_and_reports_are_resources() {
    let project = Project::new();
    fs_err::write(project.outside().join("secret.yaml"), "steps: {}\n").unwrap();
    std::os::unix::fs::symlink(project.outside().join("secret.yaml"), project.path("link.yaml")).unwrap();
    project.write("notes.txt", "secret");
    let mut client = Client::start(&project, ALL);
    client.call("run", json!({ "recipes": ["study.yaml"], "wait_seconds": 60 }));
    let listed = client.request("resources/list", &json!({}));
    let uris: Vec<&str> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|item| item["uri"].as_str().unwrap()).collect();
    let expected = [
        "sweep://recipes/study.yaml",
        "sweep://reports/study/claims.json",
        "sweep://reports/study/setup.md",
        "sweep://reports/study/tables/widths.md",
    ];
    assert_eq!(uris, expected);
    for uri in expected {
        let read = client.request("resources/read", &json!({ "uri": uri }));
        assert!(!read["result"]["contents"][0]["text"].as_str().unwrap().is_empty(), "{read}");
    }
    for uri in [
        "sweep://recipes/link.yaml",
        "sweep://recipes/../secret.yaml",
        "sweep://recipes/%2e%2e/secret.yaml",
        "sweep://recipes//etc/passwd",
        "sweep://recipes/notes.txt",
        "sweep://reports/../mcp",
        "sweep://reports/study/index.html",
        "sweep://reports/%2e%2e/runs",
        "file:///etc/passwd",
        "sweep://recipes/%ff",
        "",
    ] {
        let read = client.request("resources/read", &json!({ "uri": uri }));
        assert_eq!(read["error"]["code"], -32002, "{uri}: {read}");
    }
    client.close();
}
