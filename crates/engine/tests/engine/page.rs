//! The report as a page: self-contained, and safe for any content of a recipe.

use serde_json::Value;

use crate::sandbox::{Sandbox, list, until};

const HOSTILE: &str = "\
name: page
about: <script>alert(1)</script> & \u{202e}reversed
steps:
  a: { uses: mock, matrix: { value: [1, 2, 10], steps: [3] }, if: \"matrix.value != '</script><script>'\" }
  b: { uses: mock, needs: a, with: { text: '</script><img src=x onerror=alert(2)>', value: 5 } }
tables:
  t: { title: '<b>bold</b>', from: a, rows: [value], cells: [value] }
figures:
  f: { title: '<i>figure</i>', from: a, kind: bar, x: value, y: value }
claims:
  c: { says: '<u>claim</u>', value: { metric: value, of: { step: b } }, expect: { at_most: 4 } }
";

#[test]
fn the_page_is_whole_and_nothing_in_it_is_markup_of_the_recipe() {
    let sandbox = Sandbox::with(HOSTILE);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("results/reports/page/index.html"), "{}", ended.stderr);
    let page = sandbox.read("results/reports/page/index.html");
    for foreign in ["<script>alert", "<img", "<b>bold", "<i>figure", "<u>claim", "\u{202e}"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // One script element for the data, one for the library of charts, one for the page's own code.
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script>").count(), 3);
    assert_eq!(states(&page), ["done"; 4]);
    assert!(page.contains("&lt;b&gt;bold&lt;/b&gt;"), "text stays text");
    let data = data(&page);
    // The recipe is shown as it was written.
    let (before, recipe) = page.split_once("<pre").unwrap();
    let page = &format!("{before}{}", recipe.split_once("</pre>").unwrap().1);
    for outside in ["src=", "href=\"http", "@import", "url(", "fetch("] {
        assert!(!page.replace(data, "").contains(outside), "{outside}");
    }
    // Only scripts with the page's nonce run.
    let policy = "content=\"default-src 'none'; script-src 'nonce-";
    let word = page.split_once(policy).unwrap().1.split('\'').next().unwrap();
    assert!(word.len() == 32 && page.contains(&format!("<script nonce=\"{word}\">")), "{word}");
    let value: Value = serde_json::from_str(data).unwrap();
    let params = &value["details"][value["jobs"][3][3].as_str().unwrap()]["params"];
    assert!(
        params.to_string().contains("</script><img src=x onerror=alert(2)>"),
        "as data it is what it was: {params}"
    );
}

#[test]
fn values_with_commas_are_not_divided_and_times_are_sorted_by_their_means() {
    let sandbox = Sandbox::with(
        "name: page
steps: { a: { uses: command, matrix: { v: ['x=1,seed=5', y], seed: [1, 10, 100] }, with: { run: 'echo step_ms=${{ matrix.seed }}', env: { V: '${{ matrix.v }}' } } } }
tables: { t: { from: a, rows: [v], cells: [step_ms] } }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let page = sandbox.read("results/reports/page/index.html");
    let value: Value = serde_json::from_str(data(&page)).unwrap();
    let axes = serde_json::json!([["v", "x=1,seed=5"], ["seed", "1"]]);
    assert_eq!([&value["jobs"][0][1], &value["jobs"][3][1]], [&axes, &serde_json::json!("v=y,seed=1")]);
    // Pages of the run have the same.
    let plan: Value =
        serde_json::from_str(&sandbox.read(&format!("results/runs/{}/plan.json", sandbox.runs()[0]))).unwrap();
    assert_eq!([&plan["jobs"][0]["axes"], &plan["jobs"][3]["axes"]], [&axes, &Value::Null]);
    // Lists know that the metric is a time, and tables sort it by the geometric mean, which they show.
    assert_eq!(value["columns"][0].as_array().unwrap().last(), Some(&Value::Bool(true)));
    let means =
        page.split("<td data-value=\"").skip(1).map(|cell| cell.split('"').next().unwrap().parse::<f64>().unwrap());
    let means: Vec<f64> = means.collect();
    assert!(means.len() == 2 && means.iter().all(|mean| (mean - 10.0).abs() < 1e-9), "{means:?}");
    // The files of the table are beside the page.
    for end in ["csv", "tex", "md"] {
        assert!(
            page.contains(&format!("href=\"tables/t.{end}\""))
                && sandbox.path(&format!("results/reports/page/tables/t.{end}")).is_file()
        );
    }
}

#[test]
fn a_report_of_what_is_not_done_says_so() {
    let sandbox = Sandbox::with(HOSTILE);
    let ended = sandbox.sweep(&["report", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = sandbox.read("results/reports/page/index.html");
    assert_eq!(states(&page), ["open"; 4]);
    assert_message!(texts(&page, "p", "summary").join("\n") + "\n" + &texts(&page, "p", "note").join("\n"));
}

/// The data in a page.
fn data(page: &str) -> &str {
    let begin = page.find("id=\"data\">").unwrap() + 10;
    &page[begin..begin + page[begin..].find("</script>").unwrap()]
}

/// The states of a page's jobs.
fn states(page: &str) -> Vec<String> {
    let data: Value = serde_json::from_str(data(page)).unwrap();
    let state = |job: &Value| data["states"][usize::try_from(job[2].as_u64().unwrap()).unwrap()].clone();
    data["jobs"].as_array().unwrap().iter().map(|job| state(job).as_str().unwrap().to_owned()).collect()
}

/// The texts of a page's elements of a class.
fn texts<'a>(page: &'a str, element: &str, class: &str) -> Vec<&'a str> {
    let open = format!("<{element} class=\"{class}\">");
    page.split(&open).skip(1).map(|rest| rest.split('<').next().unwrap()).collect()
}

#[test]
fn a_job_has_all_that_is_known_of_it() {
    let sandbox = Sandbox::with(
        "
name: known
steps:
  a: { uses: command, matrix: { x: [\"it's\", b] }, with: { run: 'echo loss=0.5; printf \"\\033[2Jred\\n\" >&2', env: { X: '${{ matrix.x }}' } } }
  b: { uses: mock, needs: a, with: { end: fail } }
  c: { uses: mock, needs: b }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let page = sandbox.read("results/reports/known/index.html");
    assert_message!(texts(&page, "p", "summary").concat());
    assert_eq!(states(&page), ["done", "done", "failed", "skipped"]);
    let data: Value = serde_json::from_str(data(&page)).unwrap();
    let jobs = data["jobs"].as_array().unwrap();
    assert_message!(format!("{}\n{}", jobs[2][6].as_str().unwrap(), jobs[3][6].as_str().unwrap()));
    assert_eq!(
        (&data["columns"][0], &jobs[0][5][0]),
        (&serde_json::json!(["Loss", "loss", "min", false]), &0.5.into())
    );
    let detail = &data["details"][jobs[0][3].as_str().unwrap()];
    assert_eq!(detail["command"], r"sweep run recipe.yaml --only 'a/x=it'\\''s'".replace("\\\\", "\\"));
    assert_eq!(detail["metrics"][0], serde_json::json!(["loss", "0.500"]));
    assert!(detail["log"]["text"].as_str().unwrap().contains("\\u{1b}[2Jred"), "{detail}");
    let made: Vec<&str> = detail["made"].as_array().unwrap().iter().map(|fact| fact[0].as_str().unwrap()).collect();
    assert_eq!(made[..7], ["key", "task", "begun", "took", "machine", "threads", "sweep"]);
    assert!(["system", "exclusive use", "attempts", "run"].iter().all(|name| made.contains(name)), "{made:?}");
    assert!(made.contains(&"user"), "{made:?}");
}

#[test]
fn the_page_is_written_anew_while_the_run_goes_on_and_left_alone_when_nothing_is_new() {
    let sandbox = Sandbox::with(
        "name: live\nsteps:\n  a: { uses: mock }\n  hang: { uses: mock, needs: a, with: { end: hang } }\n",
    );
    let run = sandbox.start(&["run", "recipe.yaml"]);
    let path = sandbox.path("results/reports/live/index.html");
    let read = || fs_err::read_to_string(&path).unwrap_or_default();
    until("the page says what runs", || path.exists() && states(&read()) == ["done", "running"]);
    let page = read();
    assert!(page.contains("\"live\":true"));
    for known in ["Run by", "Date", "Machine", "Version"] {
        assert!(page.contains(&format!("<dt>{known}</dt>")), "{known}: {page}");
    }
    assert!(!page.contains("<dt>Compute</dt>"), "the cost is known at the end");
    run.signal(rustix::process::Signal::INT);
    until("the engine has heard it", || !sandbox.journal("stopping").is_empty());
    run.signal(rustix::process::Signal::INT);
    assert_eq!(run.wait().code, Some(130));
    let page = read();
    assert_eq!(states(&page), ["done", "skipped"], "what was stopped is said");
    assert!(page.contains("\"live\":false"));

    sandbox.write("recipe.yaml", "name: live\nsteps:\n  a: { uses: mock }\n");
    let changed = || fs_err::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let before = changed();
    assert_eq!(states(&read()), ["done"]);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(changed(), before, "nothing is new");
    sandbox.write("recipe.yaml", "name: live\nabout: New words\nsteps:\n  a: { uses: mock }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(texts(&read(), "p", "about"), ["New words"]);
}

#[test]
fn ten_thousand_jobs_fit_into_two_megabytes() {
    let recipe = |to: usize| {
        format!(
            "name: page\nsteps: {{ a: {{ uses: mock, matrix: {{ value: {{ range: [0, {to}] }}, seed: {{ range: [0, 100] }} }} }} }}\n"
        )
    };
    let sandbox = Sandbox::with(&recipe(100));
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    let page = sandbox.read("results/reports/page/index.html");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let index: Value = serde_json::from_str(data(&page)).unwrap();
    assert_eq!(index["jobs"].as_array().unwrap().len(), 10_000);
    // The pages beside it have all of them, each one once.
    let parts = list(&sandbox.path("results/reports/page/jobs"));
    assert!(parts.len() > 1 && index["parts"].as_array().unwrap().len() == parts.len());
    let mut jobs = 0;
    for part in &parts {
        let page = fs_err::read_to_string(part).unwrap();
        assert!(page.len() < 1_500_000, "{} bytes", page.len());
        let part: Value = serde_json::from_str(data(&page)).unwrap();
        assert_eq!(part["details"].as_object().unwrap().len(), part["jobs"].as_array().unwrap().len());
        jobs += part["jobs"].as_array().unwrap().len();
    }
    assert_eq!(jobs, 10_000);
    // A smaller study removes the additional files.
    sandbox.write("recipe.yaml", &recipe(2));
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    assert_eq!(list(&sandbox.path("results/reports/page/jobs")).len(), 0);
}
