//! The report.

use serde_json::json;

use crate::{alone, driver::Browser, sandbox::Sandbox};

/// Names and texts that would do harm if they were taken for anything else.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

const STUDY: &str = r#"
name: pruning
about: What does half of the weights cost, and does it matter which? <script>alert(0)</script>
params: { iters: 200 }
steps:
  dry-run: { uses: check }
  train:
    needs: [dry-run]
    uses: train
    matrix: { prune: [none, magnitude, bitter7], seed: [0, 1, 2] }
    with: { iters: "${{ params.iters }}" }
  evaluate: { uses: mock, needs: [train], matrix: { prune: [none, magnitude, bitter7], seed: [0, 1, 2] }, with: { text: "${{ matrix.prune }}" } }
  listing: { uses: command, needs: [evaluate], with: { run: "true", env: { NOTE: "</script><script>alert(2)</script>" } } }
tables:
  quality: { title: "Held-out loss <b>after</b> training", from: train, rows: [prune], cells: [loss, memory.peak] }
  wide: { title: Every seed, from: train, rows: [prune], columns: [seed], cells: [loss, memory.peak, throughput.tokens_per_s] }
figures:
  loss: { title: Loss, from: train, kind: line, x: iteration, y: loss, color: prune, band: ci95 }
  dots: { title: Loss against memory, from: train, kind: scatter, x: memory.peak, y: loss, color: prune }
  memory: { title: Peak memory, from: train, kind: bar, x: prune, y: memory.peak }
claims:
  cheap: { says: Half of the weights can go., value: { metric: loss, of: { step: train, prune: bitter7 } }, expect: { at_most: 9 } }
  free: { says: It costs nothing., value: { metric: loss, of: { step: train, prune: bitter7 } }, expect: { at_most: 1 } }
"#;

/// A store in which the trainings are done, with curves, and some of the later jobs.
pub(crate) fn study() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    for (number, job) in plan["jobs"].as_array().unwrap().iter().enumerate() {
        let (key, label) = (job["key"].as_str().unwrap(), job["label"].as_str().unwrap());
        let task = label.split('/').next().unwrap();
        if !["dry-run", "train"].contains(&task) {
            continue;
        }
        let at: Vec<u64> = (1..=40).map(|step| step * 5).collect();
        let own = number as f64 / 10.0;
        let curve: Vec<f64> = at.iter().map(|at| 2.2 + own / 5.0 + 3.0 / (1.0 + *at as f64 / 25.0)).collect();
        let mut metrics = json!({ "loss": { "value": curve[39], "unit": "nats" }, "memory.peak": { "value": 1e8 * (1.0 + own), "unit": "B" }, "throughput.tokens_per_s": { "value": 12000.0 - 500.0 * own, "unit": "tokens/s" } });
        if label == "train/prune=none,seed=0" {
            metrics[HOSTILE] = json!({ "value": 1.0, "unit": "1" });
        }
        let mut facts = json!({ "note": HOSTILE });
        // As many and as long as those of a training.
        for number in 0..40 {
            facts[format!("allocator.reserved_in_segment_{number}.peak_of_all_streams")] =
                format!("{} bytes at sha256:{}", number * 4096, "0123456789abcdef".repeat(4)).into();
        }
        let record = json!({
            "format": 1, "key": key, "label": label, "params": {},
            "identity": { "format": 1, "task": if task == "train" { "train" } else { "check" }, "revision": 1 },
            "outcome": { "metrics": metrics, "curves": { "loss": { "unit": "nats", "at": at, "values": curve } }, "facts": facts },
            "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 12.0 + own, "threads": 2, "host": "here",
                "conditions": { "run": { "user": "ada", "git": { "commit": "0123456789abcdef", "dirty": true } } } },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
    let report = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    sandbox
}

#[test]
fn a_report_is_read_sorted_and_followed_from_the_steps_to_a_job() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    browser.look(1280, false);
    browser.open_file(&sandbox.path("results/reports/pruning/index.html"));
    assert_eq!(browser.text("h1"), "pruning");
    assert_eq!(browser.text(".status .summary"), "10 of 20 jobs done");
    let byline = browser.text(".byline");
    for known in ["Run by", "ada", "2026-01-01", "0123456789 (uncommitted changes)", "here", "sweep 0", "core-minutes"]
    {
        assert!(byline.contains(known), "{known}: {byline}");
    }
    let summary = "The study makes 2 claims: 1 supported, 1 refuted. Supported: Half of the weights can go. Refuted: It costs nothing.";
    assert_eq!(browser.text(".abstract"), summary);
    assert_eq!(browser.texts(".contents > ul > li > a")[..3], ["Claims", "Tables", "Figures"]);
    assert_eq!(browser.texts("#table-quality thead th"), ["prune", "Loss (nats)", "Memory: peak (MiB)"]);
    assert_eq!(browser.eval("document.querySelector('#table-quality th:nth-child(3)').title"), "memory.peak (MiB)");
    assert_eq!(browser.texts("#claims .pill"), ["✓ supported", "✗ refuted"]);

    // A table is sorted by the values of its numbers, in both directions.
    let rows = "#table-quality tbody th";
    assert_eq!(browser.texts(rows), ["none", "magnitude", "bitter7"]);
    let heading = "#table-quality thead th:nth-child(3) button";
    browser.click(heading);
    browser.click(heading);
    assert_eq!(browser.texts(rows), ["bitter7", "magnitude", "none"]);
    assert_eq!(browser.eval("document.querySelector('#table-quality [aria-sort]').ariaSort"), "descending");

    // A step leads to its jobs.
    browser.click("a[data-step=train]");
    browser.until("location.hash === '#jobs' && document.querySelectorAll('#jobs-body tr').length === 9");
    assert_eq!(browser.text("#shown"), "9 jobs");
    browser.click("[data-sort='metric:loss']");
    let losses: Vec<f64> =
        browser.texts("#jobs-body td[data-column='metric:loss']").iter().map(|loss| loss.parse().unwrap()).collect();
    assert!(losses.len() == 9 && losses.is_sorted() && losses[0] < losses[8], "{losses:?}");

    // A job opens, by keyboard too, to everything that is known of it.
    browser.eval("document.getElementById('filter').focus()");
    browser.write("PRUNE=none seed=0");
    assert_eq!(browser.texts("#jobs-body th button"), ["train/prune=none,seed=0"]);
    browser.eval("document.querySelector('#jobs-body th button').focus()");
    let closed = browser.height();
    browser.press("Enter");
    browser.until("document.querySelector('.detail .curve canvas') !== null");
    let detail = browser.text(".detail");
    for known in [
        "loss",
        "2.55",
        HOSTILE,
        "iters",
        "how it came about",
        "2026-01-01 00:00:00 UTC",
        "sweep run recipe.yaml --backend cpu --only",
    ] {
        assert!(detail.to_lowercase().contains(&known.to_lowercase()), "{known}: {detail}");
    }
    assert_eq!(browser.eval("document.activeElement.ariaExpanded"), "true", "the focus stays where it was");
    let opened = browser.height() - closed;
    assert!(opened < 1600, "an open job is {opened} high");
    browser.inspect("report");
    // A wide table scrolls below its first column.
    browser.look(390, false);
    let stays = browser.eval(
        "(() => { const scroll = document.querySelector('#table-wide .scroll'); scroll.scrollLeft = 400;
         const left = (element) => element.getBoundingClientRect().left;
         return [scroll.scrollLeft > 0, left(scroll.querySelector('tbody th')) === left(scroll)]; })()",
    );
    assert_eq!(stays, json!([true, true]));
    browser.look(1280, false);
    browser.press("Escape");
    assert_eq!(
        browser.eval("document.querySelector('.detail') === null && document.activeElement.dataset.key !== undefined"),
        true
    );

    // Markup in names is shown as text, and scripts that are not the page's own do not run.
    assert_eq!(browser.eval("document.querySelectorAll('img, .detail script').length"), 0);
    browser.is_content();
    let blocked = browser.eval(
        "(() => { const script = document.createElement('script'); script.textContent = 'window.ran = true'; document.body.append(script); return window.ran === undefined; })()",
    );
    assert_eq!(blocked, true, "the page's policy lets no other script run");
}

#[test]
fn ten_thousand_jobs_are_a_page_that_opens_at_once() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let mut recipe = "name: many\nsteps:\n".to_owned();
    recipe.push_str("  a: { uses: mock, matrix: { value: { range: [0, 100] }, seed: { range: [0, 100] } } }\n");
    let sandbox = Sandbox::with(&recipe);
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    let page = sandbox.path("results/reports/many/index.html");
    assert!(fs_err::metadata(&page).unwrap().len() < 2_000_000);
    browser.look(1280, false);
    browser.open_file(&page);
    assert_eq!(browser.text("#shown"), "10,000 jobs, 1 to 100 shown");
    browser.click("#later");
    assert_eq!(browser.text("#shown"), "10,000 jobs, 101 to 200 shown");
    // By keyboard from job to job and from page to page.
    browser.eval("document.querySelector('#jobs-body th button').focus()");
    for (key, name) in [
        ("ArrowDown", "value=1,seed=1"),
        ("End", "value=1,seed=99"),
        ("ArrowUp", "value=1,seed=98"),
        ("PageDown", "value=2,seed=0"),
    ] {
        browser.press(key);
        assert_eq!(browser.eval("document.activeElement.textContent"), format!("a/{name}"), "{key}");
    }
    browser.eval("document.getElementById('filter').focus()");
    browser.write("value=99 seed=98");
    assert_eq!(browser.text("#shown"), "1 job");
    // Details without room in the page are in a separate page, which opens at the job.
    browser.click("#jobs-body th button");
    browser.until("document.querySelector('.opened a') !== null");
    browser.click(".opened a");
    browser.until("document.querySelector('.detail') !== null");
    assert!(browser.text("h1").starts_with("many: jobs "));
    assert!(browser.text(".opened .detail").contains("--only a/value=99,seed=98"));
    browser.inspect("part");
    browser.is_content();
}

#[test]
fn the_report_of_a_run_follows_it() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(
        "name: follow\nsteps:\n  a: { uses: mock, matrix: { seed: { range: [0, 6] } }, with: { seconds: 1.5, steps: 10 }, resources: { cpus: 1 } }\n  b: { uses: mock, needs: a, with: { end: fail } }\n",
    );
    let run = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    let page = sandbox.path("results/reports/follow/index.html");
    crate::sandbox::until("there is a page", || page.is_file());
    browser.look(1280, false);
    browser.open_file(&page);
    browser.until("document.querySelector('.pill.running') !== null");
    // Whoever has chosen something finds it chosen when the page has loaded itself anew.
    browser.eval("window.first = true; const step = document.getElementById('step'); step.value = 'a'; step.dispatchEvent(new Event('input'))");
    browser.until("window.first === undefined && document.getElementById('step')?.value === 'a'");
    browser.until("/^[3-6] of 7/.test(document.querySelector('.summary')?.textContent)");
    browser.picture("report-live-1280-light");
    assert_eq!(run.wait().code, Some(5));
    browser.until("document.querySelector('.summary')?.textContent === '6 of 7 jobs done, 1 failed'");
    browser.until("document.querySelector('a.failed[data-step=b]') !== null");
    assert_eq!(browser.eval("document.getElementById('pause') === null"), true, "it is over");
    browser.is_content();
}

#[test]
fn every_job_is_printed_up_to_a_limit_that_is_stated() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    for (jobs, printed, words) in [(135, 135, "135 jobs"), (1100, 1000, "1,100 jobs, 1 to 1,000 shown")] {
        let sandbox = Sandbox::with(&format!(
            "name: many\nsteps: {{ a: {{ uses: mock, matrix: {{ value: {{ range: [0, {jobs}] }} }} }} }}\n\
             tables: {{ t: {{ from: a, rows: [value], cells: [value] }} }}\n"
        ));
        assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
        browser.look(1280, true);
        browser.open_file(&sandbox.path("results/reports/many/index.html"));
        let rows = "document.querySelectorAll('#jobs-body tr').length";
        assert_eq!(browser.eval(rows), json!(100));
        browser.eval(&format!(
            "window.addEventListener('beforeprint', () => {{ window.printed = [{rows}, document.querySelector('#shown').textContent]; }})"
        ));
        browser.print();
        assert_eq!(browser.eval("window.printed"), json!([printed, words]));
        browser.until(&format!("{rows} === 100"));
        browser.media("print");
        for (element, property, value) in [
            ("h2", "breakAfter", "avoid"),
            ("figcaption", "breakAfter", "avoid"),
            ("thead button", "display", "contents"),
        ] {
            let rule = format!("getComputedStyle(document.querySelector('{element}')).{property}");
            assert_eq!(browser.eval(&rule), json!(value), "{element}");
        }
        let ink = browser.eval("getComputedStyle(document.body).color");
        assert_eq!(ink, json!("rgb(27, 31, 39)"), "dark ink on white paper, whatever the screen has");
        browser.media("");
    }
    browser.is_content();
}
