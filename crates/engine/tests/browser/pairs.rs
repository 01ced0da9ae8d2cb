//! Pairs of a claim's jobs, the comparison of two jobs, tags and notes, and further seeds of a run.

use std::process::Command;

use serde_json::json;

use crate::{
    alone,
    driver::Browser,
    sandbox::{Sandbox, until},
    server::{serve, serve_with_token},
};

const STUDY: &str = "\
name: paired
steps:
  train: { uses: mock, matrix: { value: [1, 2], seed: [0, 1, 2] } }
tables: { t: { from: train, rows: [value], cells: [value] } }
claims:
  less: { says: 'One is less than two.', difference: { metric: value, of: { step: train, value: 1 }, to: { step: train, value: 2 } }, expect: { less_than: 0 } }
  one: { value: { metric: value, of: { step: train, value: 1 } }, expect: { at_most: 1 } }
";

/// Markup that would do harm if it were taken for anything but text.
const HOSTILE: &str = "<img/src=x/onerror=alert(1)>";

fn study() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let run = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    sandbox
}

#[test]
fn a_claim_leads_to_the_jobs_of_its_pairs() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    browser.look(1280, false);
    browser.open_file(&sandbox.path("results/reports/paired/index.html"));
    assert_eq!(browser.texts(".evidence summary"), ["3 pairs of jobs", "3 jobs"]);
    browser.eval("document.querySelectorAll('.evidence').forEach((part) => { part.open = true; })");
    let row = browser.texts(".evidence tbody tr:first-child td");
    assert_eq!((row.len(), row[0].as_str(), row[2].as_str()), (5, "train/value=1,seed=0", "train/value=2,seed=0"));
    assert!(row[4].starts_with('-') || row[4].starts_with('−'), "{row:?}");
    browser.inspect("claim-pairs");
    browser.click(".evidence tbody tr:nth-child(2) td:nth-child(3) a");
    browser.until("document.activeElement.textContent === 'train/value=2,seed=1'");
    assert_eq!(browser.eval("document.querySelectorAll('.opened').length"), 1);
    browser.is_content();
}

#[test]
fn a_run_is_extended_and_its_jobs_get_tags_and_notes() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    let (_server, address, acting) = serve_with_token(&sandbox);
    let page = format!("{address}/runs/{}", sandbox.runs()[0]);
    browser.look(1280, false);
    browser.open(&page);
    browser.until("document.querySelectorAll('#jobs-body tr').length === 6");
    assert_eq!(browser.eval("document.querySelector('#acts').hidden"), true, "without the token");
    browser.open(&acting);
    browser.until("location.hash === ''");
    browser.open(&page);
    browser
        .until("document.querySelectorAll('#jobs-body tr').length === 6 && !document.querySelector('#extend').hidden");

    // By keyboard: the axis of seeds proposes the next one.
    browser.click("#extend summary");
    assert_eq!(browser.eval("JSON.parse(document.getElementById('extend-axis').value)[1]"), "seed", "seeds are first");
    browser.eval("{ const axis = document.getElementById('extend-axis'); axis.value = JSON.stringify(['train', 'seed']); axis.dispatchEvent(new Event('input')); document.getElementById('extend-values').focus(); }");
    assert_eq!(browser.eval("document.getElementById('extend-values').value"), "3");
    browser.press("Enter");
    browser.until(
        "document.getElementById('extend-plan').textContent.startsWith('$ sweep run recipe.yaml --axis seed=0,1,2,3')",
    );
    browser.inspect("run-extend");
    browser.click("#extend-run");
    browser.until(
        "document.getElementById('acted').textContent === 'Carried out: sweep run recipe.yaml --axis seed=0,1,2,3'",
    );
    until("the further seed is done", || sandbox.records().len() == 8);

    browser.click("#jobs-body tr:first-child th button");
    browser.until("document.querySelector('.detail input[name=tag]') !== null");
    for (name, text) in [("tag", HOSTILE), ("note", &format!("{HOSTILE} \u{202e}late"))] {
        browser.eval(&format!("document.querySelector('.detail input[name={name}]').value = {}", json!(text)));
    }
    browser.eval("document.querySelector('.detail input[name=note]').focus()");
    browser.press("Enter");
    browser.until("document.querySelectorAll('.detail .written').length === 1");
    assert_eq!(browser.text(".tags"), format!("#{HOSTILE}"));
    browser.until("document.getElementById('acted').textContent.split('Carried out: sweep note ').length === 3");
    assert!(browser.text(".written").starts_with(HOSTILE));
    assert_eq!(browser.eval("document.querySelectorAll('main img').length"), 0);
    browser.inspect("run-notes");
    // The tag is a word of the filter, and is there for the next reader.
    browser.open(&format!("{page}?filter=tag%3D{}", "%3Cimg/src%3Dx/onerror%3Dalert(1)%3E"));
    browser.until("document.getElementById('shown').textContent === '1 job'");
    browser.click("#jobs-body tr:first-child th button");
    browser.until("document.querySelectorAll('.detail .command button').length >= 3");
    for label in [format!("Remove #{HOSTILE}"), "Remove note 1".to_owned()] {
        // The page may draw the job again at any time, with other buttons.
        browser.until(&format!(
            "(() => {{ const button = [...document.querySelectorAll('.detail button')].find((button) => button.textContent === {}); \
             button?.click(); return button !== undefined; }})()",
            json!(label)
        ));
        browser.until("document.getElementById('acted').textContent.startsWith('Carried out: sweep note ')");
        browser.eval(
            "document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))",
        );
    }
    until("nothing is left", || {
        sandbox.sweep(&["note", "train/value=1,seed=0"]).stdout.contains("no tags and no notes")
    });
    browser.is_content();
}

#[test]
fn two_jobs_are_compared_down_to_the_lines_of_their_code() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    let (_server, address) = serve(&sandbox);
    let page = format!("{address}/runs/{}", sandbox.runs()[0]);
    browser.look(1280, false);
    browser.open(&page);
    browser.until("document.querySelectorAll('#jobs-body tr').length === 6");
    browser.click("#jobs-body tr:nth-child(1) input");
    assert_eq!(browser.eval("document.getElementById('pair').hidden"), true, "one job");
    browser.click("#jobs-body tr:nth-child(2) input");
    browser.until("document.querySelector('#pair a') !== null");
    browser.click("#pair a");
    browser.until("document.querySelector('h1')?.textContent === 'Two jobs'");
    assert_eq!(browser.texts("#params li"), ["seed: 0 (default) → 1"]);
    // Back to a job, which is open there.
    browser.click(".letters li:nth-child(2) a");
    browser.until("document.querySelectorAll('.opened').length === 1");

    let git = |args: &[&str]| {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        Command::new("git")
            .args(author)
            .args(args)
            .current_dir(sandbox.path(""))
            .status()
            .is_ok_and(|status| status.success())
    };
    if !git(&["init", "-q"]) {
        println!("the rest cannot run: there is no `git`");
        return;
    }
    sandbox.write(
        "code.yaml",
        "name: code\nsteps: { a: { uses: command, with: { argv: [sh, train.sh], inputs: [train.sh] } } }\n",
    );
    sandbox.write("train.sh", "echo loss=1\n# first\n");
    assert!(git(&["add", "train.sh"]) && git(&["commit", "-qm", "first"]));
    // The key of the only job of the latest run.
    let key = || {
        let plan = sandbox.read(&format!("results/runs/{}/plan.json", sandbox.runs().last().unwrap()));
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        plan["jobs"][0]["key"].as_str().unwrap()[..12].to_owned()
    };
    assert_eq!(sandbox.sweep(&["run", "code.yaml"]).code, Some(0));
    let first = key();
    sandbox.write("train.sh", &format!("echo loss=2\n# {HOSTILE}\n"));
    assert_eq!(sandbox.sweep(&["run", "code.yaml"]).code, Some(0));
    let second = key();
    assert_ne!(first, second);
    browser.open(&format!("{address}/compare/jobs?jobs={first},{second}"));
    browser.until("document.querySelectorAll('.lines .added').length === 2");
    assert!(browser.text("#params li").starts_with("train.sh changed"), "{}", browser.text("#params li"));
    assert_eq!(browser.texts(".lines .removed"), ["-echo loss=1\n", "-# first\n"]);
    assert_eq!(browser.texts(".lines .added"), ["+echo loss=2\n".to_owned(), format!("+# {HOSTILE}\n")]);
    browser.inspect("compare-jobs");
    browser.is_content();
}
