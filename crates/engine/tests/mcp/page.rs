//! The documentation for agents: its session equals a real session, and its tables list the tools and the kinds of
//! errors.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Client, Project};

/// The blocks of a language in the documentation.
fn blocks(language: &str) -> Vec<String> {
    let text = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md")).unwrap();
    let mark = format!("```{language}\n");
    text.split(&mark).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The first cells of the rows of the table with this header.
fn first_cells(header: &str) -> BTreeSet<String> {
    let text = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md")).unwrap();
    let rows = text.split(header).nth(1).unwrap().lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

/// True if an answer has everything that a part of it has.
fn has(answer: &Value, part: &Value) -> bool {
    match (answer, part) {
        (Value::Object(answer), Value::Object(part)) => {
            part.iter().all(|(key, part)| answer.get(key).is_some_and(|answer| has(answer, part)))
        }
        (Value::Array(answer), Value::Array(part)) => {
            answer.len() == part.len() && answer.iter().zip(part).all(|(answer, part)| has(answer, part))
        }
        _ => answer == part,
    }
}

#[test]
fn the_session_of_the_documentation_is_what_happens() {
    let project = Project::new();
    fs_err::remove_file(project.path("study.yaml")).unwrap();
    project.write("recipes/width.yaml", &blocks("yaml")[0]);
    let mut client = Client::start(&project, &["--allow-run", "recipes"]);
    let mut calls = 0;
    for block in blocks("json") {
        let shown: Value = serde_json::from_str(&block).unwrap();
        let Some(tool) = shown["call"].as_str() else { continue };
        let answer = match shown["answer"].get("error") {
            Some(_) => json!({ "error": client.refused(tool, shown["arguments"].clone()) }),
            None => client.call(tool, shown["arguments"].clone()),
        };
        assert!(has(&answer, &shown["answer"]), "{block}{answer:#}");
        calls += 1;
    }
    assert!(calls > 5);
    client.close();
}

#[test]
fn the_tables_have_every_tool() {
    let project = Project::new();
    let mut client = Client::start(&project, &[]);
    let listed = client.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    let tools: BTreeSet<String> = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(first_cells("| tool | answer |"), tools);
    client.close();
}
