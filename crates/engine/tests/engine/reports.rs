//! Tables, and their output streams.

use crate::{messages::Transcript, sandbox::Sandbox};

const STUDY: &str = "
name: study
steps:
  train:
    uses: mock
    matrix:
      variant: [1, 2]
      value: [0.5, 0.25]
      end: [done]
      exclude: [{ variant: 2, value: 0.25 }]
      include: [{ variant: 3, value: 1000000, end: fail }]
tables:
  means:
    title: Mean of | the values
    from: train
    rows: [variant]
    cells: [value]
  by-end:
    from: train
    where: { variant: [1, 2] }
    rows: [variant]
    columns: [end]
    cells: [value]
";

#[test]
fn the_same_cells_in_every_format() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    insta::assert_snapshot!(ended.stdout);
    insta::assert_snapshot!(sandbox.read("results/reports/study/tables/means.md"));
    insta::assert_snapshot!(sandbox.read("results/reports/study/tables/by-end.csv"));
    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "md"]);
    assert!(report.stdout.starts_with(&sandbox.read("results/reports/study/tables/means.md")));
}

#[test]
fn in_a_pipe_there_is_no_control_character() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    let control = |text: &str| text.chars().any(|char| char.is_control() && char != '\n');
    assert!(!control(&ended.stdout) && !control(&ended.stderr), "{ended:?}");
}

#[test]
fn a_plan_runs_nothing_and_says_what_would() {
    let sandbox = Sandbox::with(STUDY);
    assert_message!(sandbox.sweep(&["plan", "recipe.yaml"]).stdout);
    assert!(!sandbox.path("results").exists());
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_message!(sandbox.sweep(&["plan", "recipe.yaml", "--list"]).stdout);
}

#[test]
fn a_plan_in_every_format() {
    let sandbox = Sandbox::with(
        "
name: graph
steps:
  a: { uses: mock }
  b: { uses: mock, needs: a, matrix: { x: ['say \"hi\"', 1] }, if: matrix.x != null, with: { value: 2 } }
  c: { uses: mock, needs: [a, b], with: { value: 3 } }
",
    );
    sandbox.sweep(&["run", "recipe.yaml", "--only", "a"]);
    let print = |format: &str| sandbox.sweep(&["plan", "recipe.yaml", "--format", format]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&print("json")).unwrap();
    assert_eq!((&plan["format"], &plan["recipes"][0]), (&1.into(), &"graph".into()));
    let jobs = plan["jobs"].as_array().unwrap();
    let states: Vec<_> =
        jobs.iter().map(|job| (job["label"].as_str().unwrap(), job["state"].as_str().unwrap())).collect();
    assert_eq!(
        states,
        [("a", "cached"), ("b/x=say \"hi\"", "to run"), ("c", "to run")],
        "the second point of b is the same job"
    );
    assert_eq!(jobs[2]["needs"].as_array().unwrap().len(), 2);
    assert!(jobs[1]["needs"][0] == jobs[0]["key"]);
    insta::assert_snapshot!(print("dot"));
    insta::assert_snapshot!(print("mermaid"));
}

#[test]
fn help_touches_no_driver() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["--help"]);
    let output = command.env("LD_DEBUG", "files").output().unwrap();
    assert!(output.status.success());
    let loaded = String::from_utf8_lossy(&output.stderr);
    assert!(loaded.contains("libc.so"), "the loader says what it loads: {loaded}");
    for driver in ["libcuda", "libvulkan", "libnvidia", "libEGL"] {
        assert!(!loaded.contains(driver), "{driver} was loaded");
    }
    assert_eq!(std::fs::read_dir(sandbox.path(".")).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_saved_plan_is_run_unless_it_is_stale() {
    let recipe = "name: saved\nparams: { v: 1 }\nsteps:\n  a: { uses: mock, matrix: { seed: [0, 1] }, with: { value: '${{ params.v }}' } }\n  b: { uses: mock, needs: a }\n";
    let sandbox = Sandbox::with(recipe);
    let save = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["plan", "recipe.yaml", "--format", "json"], args].concat());
        sandbox.write("plan.json", &ended.stdout);
    };
    save(&["--set", "v=7", "--only", "a/seed=1"]);
    let ended = sandbox.sweep(&["run", "--plan", "plan.json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    assert_eq!(records.keys().collect::<Vec<_>>(), ["a/seed=1"], "with what was asked for then");
    assert_eq!(records["a/seed=1"]["params"]["value"].as_f64(), Some(7.0));

    save(&[]);
    sandbox.write("recipe.yaml", &recipe.replace("v: 1", "v: 2").replace("[0, 1]", "[1, 2]"));
    let ended = sandbox.sweep(&["run", "--plan", "plan.json"]);
    assert_eq!(ended.code, Some(2));
    assert_message!(ended.stderr);
    assert_eq!(sandbox.records().len(), 1, "nothing was run");
    sandbox.write("recipe.yaml", &recipe.replace("v: 1", "v: 1.0"));
    assert_eq!(sandbox.sweep(&["run", "--plan", "plan.json"]).code, Some(0));

    sandbox.write("plan.json", "{}");
    let ended = sandbox.sweep(&["run", "--plan", "plan.json"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_message!(ended.stderr);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--plan", "plan.json"]).code, Some(2), "one or the other");
    assert_eq!(sandbox.sweep(&["run"]).code, Some(2));
}

/// Every file below a folder, with its content.
fn files(folder: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for path in crate::sandbox::list(folder) {
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs_err::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_part_of_a_study_leaves_the_finished_report_as_it_is() {
    let sandbox = Sandbox::with(
        "
name: study
params: { v: 1 }
steps: { a: { uses: mock, matrix: { seed: [0, 1], end: [done] }, with: { value: '${{ params.v }}' } } }
tables: { t: { from: a, rows: [seed], cells: [value] } }
figures: { f: { from: a, kind: bar, x: seed, y: value } }
claims: { c: { value: { metric: value, of: { step: a } }, expect: { at_least: 0 } } }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let reports = sandbox.path("results/reports");
    let finished = files(&reports);
    let remark = |page: &str| -> Option<String> {
        Some(page.split_once("<p class=\"note part\">")?.1.split('<').next()?.to_owned())
    };
    let page = String::from_utf8(finished[&reports.join("study/index.html")].clone()).unwrap();
    assert_eq!(remark(&page), None);
    let mut remarks = Transcript::default();
    for (flags, code) in [
        (&["--set", "v=2"][..], 0),
        (&["--axis", "seed=7"], 0),
        (&["--only", "a/seed=1"], 0),
        (&["--axis", "end=fail"], 5),
        (&["--set", "v=2", "--axis", "seed=7"], 0),
    ] {
        let before = crate::sandbox::list(&reports);
        let ended = sandbox.sweep(&[&["run", "recipe.yaml"], flags].concat());
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        let now = files(&reports);
        assert!(finished.iter().all(|(path, content)| now.get(path) == Some(content)), "{flags:?}");
        let new: Vec<_> = crate::sandbox::list(&reports).into_iter().filter(|path| !before.contains(path)).collect();
        let [folder] = new.as_slice() else { panic!("{flags:?}: {new:?}") };
        let (name, value) = (folder.file_name().unwrap().to_str().unwrap(), flags[1].replace('/', "-"));
        assert!(name.starts_with(&format!("study.{value}")), "{folder:?}");
        assert!(ended.stderr.contains(folder.file_name().unwrap().to_str().unwrap()), "{}", ended.stderr);
        let remark = remark(&fs_err::read_to_string(folder.join("index.html")).unwrap()).unwrap();
        assert!(remark.ends_with(&flags.join(" ")), "{flags:?}: {remark}");
        assert!(fs_err::read_to_string(folder.join("tables/t.md")).unwrap().starts_with(&format!("> {remark}\n")));
        remarks.add(&flags.join(" "), &remark);
    }
    assert_message!(remarks);
    // Equal flags select the same folder, and a command that only prints writes no files.
    let before = files(&reports).len();
    let printed = sandbox.sweep(&["report", "recipe.yaml", "--set", "v=2", "--format", "md"]);
    assert_message!(printed.stdout.lines().next().unwrap());
    assert_eq!(files(&reports).len(), before);
    // A bundle has the report of its own flags, and verifies.
    let bundle = sandbox.sweep(&["bundle", "recipe.yaml", "--set", "v=2", "--output", "part.tar"]);
    assert_eq!(bundle.code, Some(0), "{}", bundle.stderr);
    let verified = sandbox.sweep(&["verify", "part.tar"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn two_recipes_of_one_name_have_two_reports() {
    let sandbox = Sandbox::new();
    let study = |value: u32| {
        format!(
            "name: study\nsteps:\n  a: {{ uses: mock, with: {{ value: {value} }} }}\ntables: {{ t: {{ from: a, cells: [value] }} }}\n"
        )
    };
    for (folder, value) in [("one", 1), ("two", 2)] {
        sandbox.write(&format!("{folder}/study.yaml"), &study(value));
    }
    let run = |path: &str| {
        let ended = sandbox.sweep(&["run", path]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    let reports = || -> Vec<String> {
        let folders = crate::sandbox::list(&sandbox.path("results/reports")).into_iter();
        let names = folders.filter(|path| path.join("tables").is_dir());
        names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let csv = |report: &str| sandbox.read(&format!("results/reports/{report}/tables/t.csv"));
    for _ in 0..2 {
        assert!(!run("one/study.yaml").contains("is also the name of"));
        let said = run("two/study.yaml");
        assert!(said.contains("`study` is also the name of ../one/study.yaml"), "{said}");
        let found = reports();
        let [first, second] = found.as_slice() else { panic!("two reports: {found:?}") };
        assert!(first == "study" && second.starts_with("study."), "{found:?}");
        assert!(csv(first).contains(",1,") && csv(second).contains(",2,"), "each has its own numbers");
    }
    // The name is free again, and a recipe that is read from elsewhere is the same file.
    fs_err::remove_file(sandbox.path("one/study.yaml")).unwrap();
    assert!(!run("two/../two/study.yaml").contains("is also the name of"));
    assert!(csv("study").contains(",2,"));
}
