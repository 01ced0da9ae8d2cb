//! Tags and notes on records: added, shown, and carried with the records.

use crate::sandbox::Sandbox;

fn study() -> Sandbox {
    let sandbox = Sandbox::with(
        "name: noted\nsteps: { a: { uses: mock, matrix: { seed: [0, 1] } } }\ntables: { t: { from: a, cells: [value] } }\n",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    sandbox
}

#[test]
fn notes_are_added_shown_and_removed() {
    let sandbox = study();
    let ended = sandbox.sweep(&["note", "a/seed=0", "diverges late", "--tag", "best", "--tag", "paper"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("tags: best, paper") && ended.stdout.contains("UTC: diverges late"),
        "{}",
        ended.stdout
    );
    for command in ["note", "show"] {
        let shown = sandbox.sweep(&[command, "a/seed=0"]).stdout;
        assert!(shown.contains("tags: best, paper") && shown.contains("1. "), "{shown}");
    }
    let json = sandbox.sweep(&["show", "a/seed=0", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["notes"]["tags"], serde_json::json!(["best", "paper"]));
    // The record itself is as it was, and its page has them.
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    let page = sandbox.read("results/reports/noted/index.html");
    assert!(page.contains("\"tags\":[\"best\",\"paper\"]") && page.contains("diverges late"));

    for (args, reason) in [
        (["a/seed=0", "--tag", "a b"], "`a b` is not a tag"),
        (["a/seed=0", "--untag", "worst"], "no tag `worst`"),
        (["a/seed=0", "--remove", "2"], "no note 2"),
        (["a/seed=7", "--tag", "x"], "a/seed=7"),
    ] {
        let ended = sandbox.sweep(&[&["note"], args.as_slice()].concat());
        assert!(ended.code == Some(2) && ended.stderr.contains(reason), "{:?} {}", ended.code, ended.stderr);
    }
    let ended = sandbox.sweep(&["note", "a/seed=0", "--untag", "best", "--untag", "paper", "--remove", "1"]);
    assert!(ended.stdout.contains("no tags and no notes"), "{}", ended.stdout);
    sandbox.sweep(&["report", "recipe.yaml"]);
    assert!(!sandbox.read("results/reports/noted/index.html").contains("diverges late"), "the page is made anew");
}

#[test]
fn notes_travel_with_records_and_leave_with_them() {
    let (first, second) = (study(), study());
    first.sweep(&["note", "a/seed=0", "made on the first machine", "--tag", "first"]);
    second.sweep(&["note", "a/seed=0", "made on the second machine", "--tag", "second"]);
    let archive = first.path("records.tar");
    let archive = archive.to_str().unwrap();
    let ended = first.sweep(&["cache", "export", archive, "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // A store without the record gets the notes with it; another one gets those that it does not have.
    for sandbox in [&Sandbox::new(), &second] {
        let ended = sandbox.sweep(&["cache", "import", archive]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let key = first.records()["a/seed=0"]["key"].as_str().unwrap()[..12].to_owned();
        let shown = sandbox.sweep(&["note", &key]).stdout;
        assert!(shown.contains("made on the first machine") && shown.contains("first"), "{shown}");
    }
    let shown = second.sweep(&["note", "a/seed=0"]).stdout;
    assert!(shown.contains("tags: first, second") && shown.contains("made on the second machine"), "{shown}");
}
