//! Searches whose sampler is a program.

use crate::{
    sandbox::list,
    searches::{configurations, decisions, labels, run, runs, study},
};

/// A program that chooses points: x is the number of the trial, better and better.
pub(crate) const SAMPLER: &str = r#"
import json, pathlib, sys
question = json.load(sys.stdin)
assert question["protocol"] == 1 and question["direction"] == "min" and question["n"] == 4
names = [axis["name"] for axis in question["space"]]
assert names == ["x", "k", "kind"], names
done = [trial for trial in question["trials"] if trial["state"] == "done"]
assert len(done) == 4 * question["batch"], question
assert all(trial["value"] > 0 for trial in done)
points = [{"x": len(done) + i, "k": 1 + i, "kind": "b"} for i in range(4)]
if len(done) == 8:
    points = [dict(done[0]["point"]), *points[:2]]
version = pathlib.Path("version.txt").read_text().strip()
print(json.dumps({"protocol": 1, "name": "counter", "version": version, "points": [{**p, "x": p["x"] / 2} if p not in [d["point"] for d in done] else p for p in points]}))
"#;

#[test]
fn a_program_can_be_the_sampler() {
    let sandbox = study("{ argv: [python3, sampler.py] }");
    sandbox.write("sampler.py", SAMPLER);
    sandbox.write("version.txt", "1.0");
    // Before the program has been asked, nothing is known but the number of jobs.
    assert!(sandbox.planned(&["recipe.yaml"]).is_empty());
    assert!(sandbox.sweep(&["plan", "recipe.yaml"]).stdout.contains("up to 30 more"));
    let ended = runs(&sandbox, &[]);
    // One point of the last batch was tried before, and one is missing.
    assert_eq!(configurations(&sandbox).len(), 10, "{}", ended.stderr);
    assert!(labels(&sandbox).contains("tune/x=2.5,k=2,kind=b,seed=1"), "{:?}", labels(&sandbox));
    assert_eq!((decisions(&sandbox, "suggestion").len(), decisions(&sandbox, "sampler").len()), (3, 3));
    assert!(decisions(&sandbox, "suggestion").iter().all(|kept| kept["rule"]["version"] == "1.0"));

    // Another version of the sampler, or a missing sampler, does not change earlier decisions.
    sandbox.write("version.txt", "2.0");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let script = sandbox.read("sampler.py");
    sandbox.write("sampler.py", &format!("{script}# changed"));
    assert!(sandbox.planned(&["recipe.yaml"]).is_empty(), "another program is another sampler");
    // It chooses the same points, so there is nothing to run.
    let runs_before = sandbox.runs();
    runs(&sandbox, &[]);
    assert_eq!(sandbox.runs(), runs_before);
    assert_eq!(decisions(&sandbox, "suggestion").len(), 6);
}

/// The answers of a program follow from nothing but its mood, and still all machines that share a remote have the same
/// search: the first that asks decides.
#[test]
fn answers_travel_with_a_remote() {
    let moody = r#"
import json, os, random, sys
question = json.load(sys.stdin)
open(os.environ["ASKED"], "a").write("x")
points = [{"x": round(random.uniform(-5, 10), 3), "k": random.randint(1, 64), "kind": "b"} for _ in range(4)]
version = os.environ["SAMPLER_VERSION"]
print(json.dumps({"protocol": 1, "name": "moody", "version": version, "points": points}))
"#;
    let folder = tempfile::tempdir().unwrap();
    let remote = format!("file://{}", folder.path().display());
    let search = |version: &str, address: &str| {
        let sandbox = study("{ argv: [python3, sampler.py] }");
        sandbox.write("sampler.py", moody);
        let mut command = sandbox.command(&["run", "recipe.yaml", "--remote", address]);
        command.env("ASKED", sandbox.path("asked")).env("SAMPLER_VERSION", version);
        let ended = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{stderr}");
        let asked = fs_err::read_to_string(sandbox.path("asked")).map_or(0, |text| text.len());
        (configurations(&sandbox), asked, stderr, sandbox)
    };
    let (first, asked, _, _first) = search("1", &remote);
    assert_eq!((first.len(), asked), (12, 3));
    let (second, asked, stderr, sandbox) = search("2", &remote);
    assert_eq!((second, asked), (first.clone(), 0), "{stderr}");
    assert!(decisions(&sandbox, "suggestion").iter().all(|kept| kept["rule"]["version"] == "1"));
    assert!(sandbox.journal("started").is_empty(), "its records have come, too");
    // Another remote, another search.
    let other = tempfile::tempdir().unwrap();
    let (third, asked, _, _third) = search("1", &format!("file://{}", other.path().display()));
    assert_eq!(asked, 3);
    assert_ne!(third, first);

    // A damaged decision is not believed, and that is said.
    let mut damaged = 0;
    for shard in list(&folder.path().join("decisions")) {
        for object in list(&shard) {
            let text = fs_err::read_to_string(&object).unwrap();
            fs_err::write(&object, text.replace("moody", "noody")).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 6, "a version and an answer for each batch");
    let (_, asked, stderr, _last) = search("1", &remote);
    assert_eq!(asked, 3, "{stderr}");
    assert!(stderr.contains("other machines may decide differently: "), "{stderr}");
}

#[test]
fn a_sampler_that_fails_says_why() {
    for (script, says) in [
        ("import sys; sys.exit('no idea')", "no idea"),
        ("print('{}')", "missing field `protocol`"),
        (
            "print('{\"protocol\":1,\"name\":\"a\",\"version\":\"1\",\"points\":[{\"x\":11,\"k\":1,\"kind\":\"a\"}]}')",
            "which is outside",
        ),
    ] {
        let sandbox = study("{ argv: [python3, sampler.py] }");
        sandbox.write("sampler.py", script);
        let ended = run(&sandbox, &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("step `tune`: the sampler `python3 sampler.py`"), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    let sandbox = study("{ argv: [./nothing-here] }");
    assert!(run(&sandbox, &[]).stderr.contains("cannot be started"));
}
