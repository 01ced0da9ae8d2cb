//! Conditions under which jobs ran, in their records, and the setup that a report states from them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, list, sealed};

/// A value that must not be stored.
const SECRET: &str = "hunter2-4711";

fn done(sandbox: &Sandbox, args: &[&str]) {
    let ended = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Changes the record of a job, as another machine could have written it.
pub(crate) fn change(sandbox: &Sandbox, label: &str, change: impl FnOnce(&mut Value)) {
    let mut record = sandbox.records()[label].clone();
    let key = record["key"].as_str().unwrap().to_owned();
    record.as_object_mut().unwrap().remove("digest");
    change(&mut record);
    let text = serde_json::to_string_pretty(&record).unwrap().replacen("{\n", "{\n  \"digest\": \"\",\n", 1);
    let text = sealed(&text);
    sandbox.write(&format!("results/store/{}/{key}/record.json", &key[..2]), &text);
}

/// An executable script.
fn script(sandbox: &Sandbox, name: &str, text: &str) {
    sandbox.write(name, &format!("#!/bin/sh\n{text}\n"));
    fs_err::set_permissions(sandbox.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The build ID of a program by the linker's own tools; the digest of its file if it has none.
fn identity(program: &str) -> String {
    let notes = std::process::Command::new("readelf").args(["--notes", program]).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    match notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")) {
        Some(id) => id.to_owned(),
        None => blake3::hash(&fs_err::read(program).unwrap()).to_hex().to_string(),
    }
}

#[test]
fn a_record_says_under_which_conditions_its_job_ran() {
    let sandbox = Sandbox::with(
        "name: study\nsteps:\n  alone: { uses: mock, seeds: 2, with: { seconds: 0.5 }, exclusive: true, matrix: { value: [1] } }\n",
    );
    done(&sandbox, &[]);
    let record = &sandbox.records()["alone/value=1,seed=0"];
    let conditions = &record["provenance"]["conditions"];
    let machine = &conditions["machine"];
    let uname = rustix::system::uname();
    assert_eq!(machine["kernel"].as_str(), Some(uname.release().to_str().unwrap()));
    assert!(machine["os"].as_str().unwrap().starts_with("Linux"), "{machine}");
    assert!(
        machine["cores"].as_u64() >= machine["usable"].as_u64() && machine["usable"].as_u64() > Some(0),
        "{machine}"
    );
    assert!(machine["memory"].as_u64() > Some(1 << 20), "{machine}");
    assert_eq!(conditions["exclusive"], json!({ "asked": true, "held": true }));
    assert!(conditions["load_before"].as_f64().is_some() && conditions["load_after"].as_f64().is_some());
    let (own, foreign) = (conditions["own"].as_f64().unwrap(), conditions["foreign"].as_f64().unwrap());
    // A mock job sleeps.
    assert!((0.0..0.5).contains(&own) && foreign >= 0.0, "{conditions}");
    assert!(own + foreign <= machine["cores"].as_f64().unwrap() * 1.2 + 0.2, "{conditions}");
    assert_eq!((&conditions["neighbors"], &conditions["attempts"]), (&json!(0), &json!(1)));
    assert_eq!(conditions["seeds"], json!({ "least": 2, "most": 2 }));
    let run = &conditions["run"];
    assert_eq!(run["name"].as_str(), Some(sandbox.runs()[0].as_str()));
    assert_eq!(run["arguments"], json!(["run", "recipe.yaml"]));
    assert_eq!(run["program"].as_str(), Some(identity(env!("CARGO_BIN_EXE_sweep-engine")).as_str()));
    assert_eq!(run.get("git"), None, "there is no repository");
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn other_jobs_attempts_and_a_busy_machine_are_recorded() {
    let recipe = "name: study\nsteps:\n  busy: { uses: command, with: { run: 'for n in 1 2; do (while :; do :; done) & p=$!; sleep 0.4; kill $p; done; echo n=1' } }\n  idle: { uses: mock, with: { seconds: 1 }, needs: busy }\n  beside: { uses: mock, with: { seconds: 0.8 }, resources: { cpus: 1 }, matrix: { value: [1, 2] }, needs: idle }\n  again: { uses: command, with: { run: 'test -e \"$SWEEP_SCRATCH/x\" || { touch \"$SWEEP_SCRATCH/x\"; exit 1; }; echo n=1' }, retries: 1, needs: beside }\n";
    let sandbox = Sandbox::with(recipe);
    done(&sandbox, &["--jobs", "2"]);
    let records = sandbox.records();
    let of = |label: &str| &records[label]["provenance"]["conditions"];
    // A job that only sleeps has 0.01. On a machine where other tests compute, this one has had less than 0.2.
    assert!(of("busy")["own"].as_f64() > Some(0.05), "its children count: {}", of("busy"));
    assert_eq!(of("again")["attempts"], json!(2));
    let usable = of("idle")["machine"]["usable"].as_u64();
    if usable > Some(1) {
        assert_eq!(of("beside/value=1")["neighbors"], json!(1));
    }
    assert_eq!(of("idle")["neighbors"], json!(0));
}

#[test]
fn secrets_of_the_command_line_and_of_the_environment_are_not_stored() {
    let recipe = "name: study\nparams: { hf_token: none, n: 1 }\nsteps:\n  a: { uses: command, with: { run: 'test -n \"$KEY\"; echo n=1', env: { KEY: { from: API_KEY } }, argv: [] } }\n";
    let sandbox = Sandbox::with(&recipe.replace(", argv: []", ""));
    let ended = sandbox
        .command(&["run", "recipe.yaml", "--set", &format!("hf_token={SECRET}"), "--set", "n=2"])
        .env("API_KEY", SECRET)
        .env("DB_PASSWORD", SECRET)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let record = &sandbox.records()["a"];
    assert!(!record.to_string().contains(SECRET), "{record}");
    let masked = json!(["run", "recipe.yaml", "--set", "hf_token=***", "--set", "n=2"]);
    assert_eq!(record["provenance"]["conditions"]["run"]["arguments"], masked);
    let run = format!("results/runs/{}", sandbox.runs()[0]);
    let own = sandbox.read(&format!("{run}/provenance.json"));
    let user: Value = serde_json::from_str(&own).unwrap();
    assert!(user["user"].as_str().is_some_and(|user| !user.is_empty()), "{own}");
    assert!(own.contains("hf_token=***") && !own.contains(SECRET), "{own}");
    for report in list(&sandbox.path("results/reports")) {
        let setup = fs_err::read_to_string(report.join("setup.md")).unwrap();
        assert!(!setup.contains(SECRET) && !report.to_string_lossy().contains(SECRET), "{setup}");
    }
}

#[test]
fn the_state_of_the_repository_and_the_packages_of_python_are_recorded() {
    let sandbox = Sandbox::with(
        "name: study\nsteps: { a: { uses: command, with: { run: 'python3 -c pass; echo n=1', env: { PATH: VENV } } } }\n",
    );
    let path = format!("{}:/usr/bin:/bin", sandbox.path("venv/bin").display());
    sandbox.write("recipe.yaml", &sandbox.read("recipe.yaml").replace("VENV", &format!("'{path}'")));
    script(&sandbox, "venv/bin/python3", "exit 0");
    sandbox.write("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n");
    sandbox.write("venv/lib/python3.12/site-packages/numpy-2.1.0.dist-info/METADATA", "");
    let git = |args: &[&str]| {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let status = std::process::Command::new("git").current_dir(sandbox.path("")).args(author).args(args).status();
        status.is_ok_and(|status| status.success())
    };
    if !git(&["init", "-q"]) {
        eprintln!("skipped: there is no `git` here");
        return;
    }
    assert!(git(&["add", "recipe.yaml"]) && git(&["commit", "-qm", "first"]));
    sandbox.write("recipe.yaml", &sandbox.read("recipe.yaml").replace("n=1", "n=2"));
    done(&sandbox, &[]);
    let conditions = sandbox.records()["a"]["provenance"]["conditions"].clone();
    let state = &conditions["run"]["git"];
    assert_eq!((state["commit"].as_str().unwrap().len(), &state["dirty"]), (40, &json!(true)), "{state}");
    let run = format!("results/runs/{}", sandbox.runs()[0]);
    let diff = sandbox.read(&format!("{run}/diff.patch"));
    assert!(diff.contains("-name: study") || diff.contains("n=2"), "{diff}");
    assert_eq!(state["diff"].as_str(), Some(blake3::hash(diff.as_bytes()).to_hex().as_str()));
    let python = &conditions["interpreter"];
    assert_eq!(python["python"], json!("3.12.3"));
    let packages = python["packages"].as_str().unwrap();
    assert_eq!(sandbox.read(&format!("{run}/packages-{}.txt", &packages[..12])), "numpy-2.1.0\n");
    let setup = sandbox.read("results/reports/study/setup.md");
    for stated in ["Python 3.12.3", "uncommitted changes", state["commit"].as_str().unwrap().get(..12).unwrap()] {
        assert!(setup.contains(stated), "{stated}: {setup}");
    }
    // A committed change makes the project clean.
    assert!(git(&["commit", "-qam", "second"]));
    sandbox.write("results/none", "");
    fs_err::remove_dir_all(sandbox.path("results/store")).unwrap();
    done(&sandbox, &[]);
    assert_eq!(sandbox.records()["a"]["provenance"]["conditions"]["run"]["git"]["dirty"], json!(false));
}

const SETUP: &str = "\
name: study
steps:
  train:
    uses: mock
    matrix: { value: [1, 2] }
    seeds: 3
    with: { seconds: 0.3, input: data.txt }
  fails: { uses: mock, with: { end: fail }, continue-on-error: true }
tables:
  t: { from: train, rows: [value], cells: [value] }
claims:
  small: { value: { metric: value, of: { step: train } }, expect: { at_most: 4 } }
";

#[test]
fn a_report_ends_with_the_experimental_setup() {
    let sandbox = Sandbox::with(SETUP);
    sandbox.write("data.txt", "x\n");
    done(&sandbox, &[]);
    let setup = sandbox.read("results/reports/study/setup.md");
    assert_message!(
        setup,
        r"on 1 machine: .*?\)\." => "on 1 machine: [machine].",
        r"system was .*?\. (The|Step|Values)" => "system was [system]. $1",
        r"[\d.]+ core-(seconds|minutes|hours)" => "[compute]",
        r"; frequency governor[^|]*|frequency governor[^|;]*" => "[governor] ",
        r"\(BLAKE3 [0-9a-f]{12}\)" => "(BLAKE3 [digest])",
    );
    let page = sandbox.read("results/reports/study/index.html");
    assert!(page.contains("<section id=\"setup\">") && page.contains("href=\"#setup\""));
    assert!(page.rfind("id=\"tables\"") < page.find("id=\"setup\""), "after the results");
}

#[test]
fn records_of_another_machine_and_of_an_earlier_version_are_read_and_named() {
    let sandbox = Sandbox::with(&SETUP.replace("end: fail", "value: 5"));
    sandbox.write("data.txt", "x\n");
    done(&sandbox, &[]);
    change(&sandbox, "train/value=1,seed=0", |record| {
        record["provenance"].as_object_mut().unwrap().remove("conditions");
    });
    change(&sandbox, "train/value=1,seed=1", |record| {
        record["provenance"]["host"] = json!("elsewhere");
        record["provenance"]["conditions"]["machine"]["cpu"] = json!("Other <b>processor</b>");
    });
    done(&sandbox, &[]);
    assert_eq!(sandbox.runs().len(), 1, "nothing ran again");
    let setup = sandbox.read("results/reports/study/setup.md");
    for stated in ["on 2 machines", "Other &lt;b>processor&lt;/b>", "1 record of an earlier version without conditions"]
    {
        assert!(setup.contains(stated), "{stated}: {setup}");
    }
    let page = sandbox.read("results/reports/study/index.html");
    assert!(!page.contains("<b>processor"));
}

const TIMES: &str = "\
name: study
steps:
  train:
    uses: command
    with: { run: 'sleep 0.25; echo n=$A', env: { A: '${{ matrix.a }}' } }
    matrix: { a: [1, 2] }
    seeds: 3
    exclusive: true
claims:
  faster:
    ratio: { metric: time.run, of: { step: train, a: 1 }, to: { step: train, a: 2 } }
    expect: { at_most: 100 }
";

/// The verdict of the only claim: its state and the reason.
fn verdict(sandbox: &Sandbox) -> (String, String) {
    done(sandbox, &[]);
    let claims: Value = serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap();
    let text = |name: &str| claims[0][name].as_str().unwrap().to_owned();
    (text("state"), text("because"))
}

#[test]
fn times_of_other_hosts_and_of_a_busy_machine_decide_nothing() {
    let sandbox = Sandbox::with(TIMES);
    done(&sandbox, &[]);
    // The load of other tests on this machine must not affect the result.
    let calm = |record: &mut Value| {
        let conditions = &mut record["provenance"]["conditions"];
        conditions["machine"]["cores"] = json!(2);
        (conditions["own"], conditions["foreign"]) = (json!(0.1), json!(0.02));
    };
    let labels: Vec<String> = sandbox.records().into_keys().collect();
    assert_eq!(labels.len(), 6);
    for label in &labels {
        change(&sandbox, label, calm);
    }
    assert_eq!(verdict(&sandbox).0, "supported");
    let changed = &labels[0];
    change(&sandbox, changed, |record| record["provenance"]["host"] = json!("elsewhere"));
    let (state, because) = verdict(&sandbox);
    assert!(state == "undecided" && because.contains("measured on 2 hosts (elsewhere, "), "{state}: {because}");
    change(&sandbox, changed, |record| {
        record["provenance"]["host"] = sandbox.records()[&labels[1]]["provenance"]["host"].clone();
        record["provenance"]["conditions"]["foreign"] = json!(1.3);
    });
    let (state, because) = verdict(&sandbox);
    let expected = format!("other processes kept 1.3 of 2 cores busy while {changed} ran (limit 0.25)");
    assert!(state == "undecided" && because.contains(&expected), "{state}: {because}");
    change(&sandbox, changed, |record| {
        record["provenance"].as_object_mut().unwrap().remove("conditions");
    });
    assert_eq!(verdict(&sandbox).0, "supported", "what an earlier version did not record is a remark");
}

#[test]
fn disturbed_times_are_taken_again_on_request() {
    let sandbox = Sandbox::with(TIMES);
    done(&sandbox, &[]);
    let labels: Vec<String> = sandbox.records().into_keys().collect();
    let load = |label: &str, foreign: f64| {
        change(&sandbox, label, |record| {
            let conditions = &mut record["provenance"]["conditions"];
            conditions["machine"]["cores"] = json!(2);
            (conditions["own"], conditions["foreign"]) = (json!(0.1), json!(foreign));
        });
    };
    for label in &labels {
        load(label, 0.02);
    }
    let disturbed = "train/a=2,seed=1";
    load(disturbed, 1.3);
    let (state, because) = verdict(&sandbox);
    assert!(state == "undecided" && because.contains("`sweep run --remeasure` takes the times again"), "{because}");
    let before = sandbox.records();
    let remeasured = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["run", "recipe.yaml", "--remeasure"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };

    // Another part of the recipe has none.
    let said = remeasured(&["--only", "train/a=1"]);
    assert!(said.contains("other processes disturbed 0 jobs\n"), "{said}");
    assert_eq!((sandbox.runs().len(), sandbox.records()), (1, before.clone()));

    let said = remeasured(&[]);
    let whole =
        "other processes disturbed 1 job, and 1 other took no turns or belong to the same rounds, measured again now\n";
    assert!(said.contains(whole), "{said}");
    let after = sandbox.records();
    let changed: Vec<&String> =
        after.iter().filter(|(label, now)| before[*label] != **now).map(|(label, _)| label).collect();
    let round = ["train/a=1,seed=1".to_owned(), disturbed.to_owned()];
    assert_eq!((sandbox.runs().len(), changed), (2, round.iter().collect()));
    assert_eq!(after[disturbed]["provenance"]["conditions"]["run"]["name"], json!(sandbox.runs()[1]));

    for label in &round {
        load(label, 0.02);
    }
    assert_eq!(verdict(&sandbox).0, "supported");
    assert!(remeasured(&[]).contains("other processes disturbed 0 jobs\n"));
    assert_eq!(sandbox.runs().len(), 2, "nothing ran again");
}

#[test]
fn a_rerun_without_a_metric_to_compare_does_not_agree() {
    let sandbox = Sandbox::with(
        "name: study\nsteps:\n  timed: { uses: command, with: { run: 'true' } }\n  counted: { uses: command, with: { run: 'echo n=1' } }\n",
    );
    done(&sandbox, &[]);
    assert_eq!(sandbox.sweep(&["bundle", "create", "recipe.yaml"]).code, Some(0));
    let rerun = |n: &str, seed: &str| {
        let ended = sandbox.sweep(&["bundle", "verify", "study.sweep.tar", "--rerun", n, "--seed", seed, "--yes"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    };
    let both = rerun("2", "1");
    assert!(both.contains("· timed  nothing could be compared: 1 depends on the machine (time.run)"), "{both}");
    assert!(both.contains("✓ counted  1 metric the same, 1 depends on the machine (time.run)"), "{both}");
    assert!(
        both.ends_with("1 of 2 jobs that ran again agree, in 1 metric; nothing could be compared in 1\n"),
        "{both}"
    );
    let alone = (0..50).map(|seed| rerun("1", &seed.to_string())).find(|text| text.contains("· timed"));
    let last = "nothing could be compared: no metric of 1 job that ran again is independent of the machine\n";
    assert!(alone.as_ref().is_some_and(|text| text.ends_with(last) && !text.contains("agree\n1")), "{alone:?}");
}
