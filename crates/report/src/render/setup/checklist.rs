//! Answers to the questions of conferences about a study, from the topics of its setup.

use std::path::{Path, PathBuf};

use std::fmt::Write as _;

use super::{Setup, Topic, markdown::escape};
use crate::{format::clean, host::project_of};

/// A question of the NeurIPS Paper Checklist (<https://neurips.cc/public/guides/PaperChecklist>), named as in the LaTeX template of 2025, with
/// the topics that answer it.
/// Questions without topics are about the text of a paper.
struct Question {
    name: &'static str,
    topics: &'static [&'static str],
    /// Open points that records do not answer.
    left: &'static str,
}

const fn question(name: &'static str, topics: &'static [&'static str], left: &'static str) -> Question {
    Question { name, topics, left }
}

const QUESTIONS: [Question; 16] = [
    question("Claims", &["claims and corrections"], "agreement of the text with the claims of the recipe"),
    question("Limitations", &[], "limitations"),
    question("Theory assumptions and proofs", &[], "proofs, or that there are none"),
    question("Experimental result reproducibility", &["results", "state of the code", "software"], ""),
    question(
        "Open access to data and code",
        &["data and license", LICENSE],
        "addresses at which code and data are public",
    ),
    question("Experimental setting/details", &[SETTING], "the choice of the hyperparameters"),
    question("Experiment statistical significance", &["seeds", "error bars", "claims and corrections"], ""),
    question("Experiments compute resources", &["hardware", "conditions of times", "total compute"], ""),
    question("Code of ethics", &[], "conformity with the code of ethics"),
    question("Broader impacts", &[], "impacts"),
    question("Safeguards", &[], "safeguards for released models and data, or that none are needed"),
    question("Licenses for existing assets", &["data and license", LICENSE], "licenses of models, data and libraries"),
    question("New assets", &[], "documentation of new assets"),
    question(
        "Crowdsourcing and research with human subjects",
        &[],
        "instructions and pay, or that there were no subjects",
    ),
    question(
        "Institutional review board (IRB) approvals or equivalent for research with human subjects",
        &[],
        "approvals, or that none are needed",
    ),
    question("Declaration of LLM usage", &[], "usage of language models in the method"),
];

/// Topics of the checklist alone.
const LICENSE: &str = "license of the code";
const SETTING: &str = "setting";

/// Beginnings of the names of files with licenses.
const LICENSE_FILES: [&str; 3] = ["LICENSE", "LICENCE", "COPYING"];

/// The checklist of a study whose recipe is in `folder`, in Markdown.
pub(in crate::render) fn markdown(setup: &Setup, name: &str, folder: &Path) -> String {
    let own = [license(folder), setting(name)];
    let find = |name: &&str| setup.topics.iter().chain(&own).find(|topic| topic.name == *name);
    let mut text = format!(
        "# Checklist of the study {}\n\nAnswers to the questions of the NeurIPS Paper Checklist (2025) from the recipe and the records. \"Yes\": the \
         records state all of it. \"In part\" and \"no\": something is not determined. \"Authors\": only the authors can answer.\n",
        escape(&clean(name))
    );
    for (index, Question { name, topics, left }) in QUESTIONS.iter().enumerate() {
        let topics: Vec<&Topic> = topics.iter().filter_map(find).collect();
        let answer = answer(&topics, !left.is_empty());
        let _ = write!(text, "\n## {}. {name}\n\n- Answer: {answer}\n", index + 1);
        let sentences: Vec<&str> = topics.iter().flat_map(|topic| &topic.sentences).map(String::as_str).collect();
        let mut unknown: Vec<&str> = topics.iter().flat_map(|topic| &topic.unknown).map(String::as_str).collect();
        unknown.dedup();
        for (label, words) in [
            ("From the records", sentences.join(" ")),
            ("Not determined", unknown.join("; ")),
            ("Left to the authors", (*left).to_owned()),
        ] {
            if !words.is_empty() {
                let _ = writeln!(text, "- {label}: {}", escape(&words));
            }
        }
    }
    text + &badges(setup)
}

/// The answer of topics together; `is_left` if a part is left to the authors.
fn answer(topics: &[&Topic], is_left: bool) -> &'static str {
    let answers: Vec<&str> = topics.iter().map(|topic| topic.answer()).collect();
    match () {
        () if answers.is_empty() => "authors",
        () if answers.iter().all(|answer| *answer == "no") => "no",
        () if is_left || answers.iter().any(|answer| *answer != "yes") => "in part",
        () => "yes",
    }
}

/// The badges of the ACM (Artifact Review and Badging, version 1.1).
fn badges(setup: &Setup) -> String {
    let results = setup.topics.iter().find(|topic| topic.name == "results");
    let is_whole = results.is_some_and(|topic| topic.answer() == "yes");
    let functional = if is_whole {
        "all jobs have results; \"sweep bundle verify\" recomputes keys, tables and verdicts"
    } else {
        "jobs without results, or without conditions, are named under question 4"
    };
    let reusable =
        "the recipe can be run with other values, \"--axis\" and \"--set\"; documentation is left to the authors";
    let rows = [
        (
            "Artifacts Available",
            "a bundle (\"sweep bundle create\") in a public archive, with an identifier, which is left to the authors",
        ),
        ("Artifacts Evaluated – Functional", functional),
        ("Artifacts Evaluated – Reusable", reusable),
        ("Results Reproduced", "others run \"sweep bundle verify FILE --rerun N\""),
        ("Results Replicated", "others obtain the results without these artifacts; no record can show it"),
    ];
    let mut text = "\n## ACM artifact badges\n\n| badge | state |\n| --- | --- |\n".to_owned();
    text.extend(rows.map(|(badge, state)| format!("| {badge} | {} |\n", escape(state))));
    text
}

/// The files with licenses beside the recipe and at the root of its project.
fn license(folder: &Path) -> Topic {
    let mut topic = Topic { name: LICENSE, ..Topic::default() };
    let mut folders: Vec<PathBuf> = vec![folder.to_owned(), project_of(folder)];
    folders.dedup();
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| LICENSE_FILES.iter().any(|start| name.to_uppercase().starts_with(start)))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        topic.lacks("license of the code: there is no file LICENSE");
    } else {
        topic.say(format!("The project has the license files {}.", clean(&names.join(", "))));
    }
    topic
}

fn setting(name: &str) -> Topic {
    let mut topic = Topic { name: SETTING, ..Topic::default() };
    topic.say(format!(
        "The recipe \"{}\" states the parameters of all jobs, and the record of each job has its values with defaults; \"sweep plan\" \
         lists the jobs.",
        clean(name)
    ));
    topic
}
