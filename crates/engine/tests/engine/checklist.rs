//! The checklist of a study.

use crate::sandbox::Sandbox;

const STUDY: &str = "
name: study
steps: { a: { uses: mock, matrix: { value: [1, 2] }, seeds: 3 } }
tables: { t: { from: a, rows: [value], cells: [value] } }
claims:
  more: { ratio: { metric: value, of: { step: a, value: 2 }, to: { step: a, value: 1 } }, expect: { at_least: 1.5 } }
";

/// The names of the questions in the LaTeX template of NeurIPS 2025.
const NAMES: [&str; 16] = [
    "Claims",
    "Limitations",
    "Theory assumptions and proofs",
    "Experimental result reproducibility",
    "Open access to data and code",
    "Experimental setting/details",
    "Experiment statistical significance",
    "Experiments compute resources",
    "Code of ethics",
    "Broader impacts",
    "Safeguards",
    "Licenses for existing assets",
    "New assets",
    "Crowdsourcing and research with human subjects",
    "Institutional review board (IRB) approvals or equivalent for research with human subjects",
    "Declaration of LLM usage",
];

/// The badges of the ACM's policy, version 1.1.
const BADGES: [&str; 5] = [
    "Artifacts Available",
    "Artifacts Evaluated – Functional",
    "Artifacts Evaluated – Reusable",
    "Results Reproduced",
    "Results Replicated",
];

/// The lines below the heading of a question.
fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!(". {name}\n")).unwrap_or_else(|| panic!("{name}: {text}"));
    rest.split_once("\n## ").unwrap().0
}

fn checklist(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["checklist", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn records_answer_questions_and_the_rest_is_left_to_the_authors() {
    let sandbox = Sandbox::with(STUDY);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let text = checklist(&sandbox);
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let names = NAMES.iter().enumerate().map(|(index, name)| format!("{}. {name}", index + 1));
    assert_eq!(headings, names.chain(["ACM artifact badges".to_owned()]).collect::<Vec<_>>());
    let (_, badges) = text.split_once("| --- | --- |\n").unwrap();
    let badges: Vec<&str> = badges.lines().filter_map(|line| line.split(" | ").next()?.strip_prefix("| ")).collect();
    assert_eq!(badges, BADGES);
    assert!(section(&text, "Limitations").contains("- Answer: authors\n- Left to the authors: limitations"));
    let seeds = section(&text, "Experiment statistical significance");
    assert!(seeds.contains("Step \"a\" has 3 seeds.") && seeds.contains("95 % confidence intervals"), "{seeds}");
    assert!(seeds.contains("- Answer: yes"), "{seeds}");
    assert!(section(&text, "Experiments compute resources").contains("The jobs ran on 1 machine"), "{text}");
    assert!(section(&text, "Licenses for existing assets").contains("there is no file LICENSE"), "{text}");
    sandbox.write("LICENSE-MIT", "MIT License");
    assert!(section(&checklist(&sandbox), "Licenses for existing assets").contains("license files LICENSE-MIT"));
}

#[test]
fn a_study_without_results_has_no_answers_from_records() {
    let text = checklist(&Sandbox::with(&STUDY.replace("seeds: 3", "seeds: 1")));
    assert!(text.starts_with("# Checklist of the study study\n"), "{text}");
    let resources = section(&text, "Experiments compute resources");
    assert!(resources.contains("there are no records") && !resources.contains("Answer: yes"), "{resources}");
    assert!(section(&text, "Experimental result reproducibility").contains("2 jobs without a result"), "{text}");
}
