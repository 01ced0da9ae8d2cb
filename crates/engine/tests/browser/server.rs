//! `sweep ui`.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
};

use rustix::process::Signal;

use crate::{
    alone,
    driver::Browser,
    sandbox::{Ended, Running, Sandbox, until},
};

const RECIPE: &str = r#"
name: watched
params: { value: 2 }
steps:
  prepare: { uses: mock }
  train:
    needs: [prepare]
    uses: mock
    matrix: { seed: { range: [0, 5] } }
    with: { seconds: 5, steps: 50, value: "${{ params.value }}" }
    resources: { cpus: 1 }
  evaluate: { uses: command, needs: [train], matrix: { seed: { range: [0, 5] } }, with: { run: 'echo "loss=2.5"; echo "<script>alert(1)</script>" >&2' } }
  broken: { uses: mock, needs: [prepare], with: { end: fail } }
tables: { t: { from: train, cells: [value] } }
"#;

/// The server and its address.
pub(crate) fn serve(sandbox: &Sandbox) -> (Running, String) {
    address_of(sandbox.command(&["ui", "--port", "0"]).spawn().unwrap())
}

/// Starts `sweep ui` on the results of the sandbox: the server, its address, and the address with the token.
pub(crate) fn serve_with_token(sandbox: &Sandbox) -> (Running, String, String) {
    let mut child = sandbox.command(&["ui", "--port", "0"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let acting = stderr.find_map(|line| Some(line.split_once("open ")?.1.to_owned())).unwrap();
    let (server, address) = address_of(child);
    (server, address, acting)
}

/// A started server and the address that it prints.
pub(crate) fn address_of(mut child: Child) -> (Running, String) {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_end_matches('/').to_owned();
    assert!(address.starts_with("http://127.0.0.1:"), "{line}");
    (Running::from(child), address)
}

#[test]
fn a_run_is_watched_compared_and_read() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(RECIPE);
    let first =
        sandbox.sweep(&["run", "recipe.yaml", "--set", "value=1", "--only", "train/seed=0", "--only", "train/seed=1"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let (server, address) = serve(&sandbox);
    browser.look(1280, false);
    browser.open(&address);
    browser.until("document.querySelectorAll('#runs-body tr').length === 1");
    assert!(browser.text("#runs-body .pill").contains("done"));

    // A run that begins appears.
    let run = sandbox.start(&["run", "recipe.yaml", "--jobs", "2"]);
    browser.until("document.querySelector('#runs-body tr .pill.running') !== null");
    browser.inspect("runs");
    browser.click("#runs-body tr:first-child th a");
    browser.until(
        "document.querySelectorAll('#running progress').length > 0 && document.querySelector('#running .canvas') !== null",
    );
    let done = "Number(document.getElementById('words').textContent.split(' ')[0])";
    let before = browser.eval(done).as_u64().unwrap();
    browser.inspect("run-live");
    browser.until(&format!("{done} > {before}"));
    // Jobs that need attention come first, although others are earlier in the recipe.
    browser.until("/failed|running/.test(document.querySelector('#jobs-body tr .pill').textContent)");

    // The keyboard leads from a step to its jobs, and into a job that is done, whose log is not markup.
    browser.eval("document.querySelector('a[data-step=evaluate]').focus()");
    browser.press("Enter");
    browser.until("document.querySelectorAll('#jobs-body tr').length === 5");
    assert_eq!(run.wait().code, Some(5));
    browser.until("document.getElementById('state').textContent.includes('failed')");
    browser.until(&format!("{done} === 11"));
    browser.click("#jobs-body th button");
    browser.until("document.querySelector('.log pre')?.textContent.includes('<script>alert(1)</script>') ?? false");
    browser.click(".log button");
    browser.eval("document.querySelector('.log input').focus()");
    browser.write("SCRIPT");
    browser.until("document.querySelector('.log mark')?.textContent === 'script'");
    assert_eq!(browser.text(".log [role=status]"), "1 of 2 lines");
    browser.click("a[data-step=broken]");
    browser.until("document.querySelector('#jobs-body .why')?.textContent.includes('it was told to fail') ?? false");
    browser.inspect("run-over");

    // The report is a click away, and so is the way back.
    browser.click("nav a[href^='/reports/']");
    browser.until(
        "document.querySelector('h1')?.textContent === 'watched' && document.querySelector('figure.table') !== null",
    );
    browser.open(&address);
    browser.until("document.querySelectorAll('#runs-body input').length === 2");
    // Filters, by any word and by state.
    browser.eval("document.getElementById('filter').focus()");
    browser.write("watched nowhere");
    assert_eq!(browser.text("#shown"), "0 runs");
    browser.eval("{ const filter = document.getElementById('filter'); filter.value = 'watched'; filter.dispatchEvent(new Event('input')) }");
    browser.eval("{ const state = document.getElementById('state'); state.value = 'failed'; state.dispatchEvent(new Event('input')) }");
    assert_eq!(browser.texts("#runs-body .pill"), ["✗ failed"]);
    browser.eval("document.getElementById('state').value = ''; document.getElementById('state').dispatchEvent(new Event('input'))");
    browser.click("#runs-body tr:nth-child(1) input");
    browser.click("#runs-body tr:nth-child(2) input");
    browser.click("#compare");
    browser.until("document.querySelector('h1')?.textContent === 'Two runs'");
    assert!(browser.text("#params li").contains("value: 1 → 2 in 2 jobs"), "{}", browser.text("#params"));
    assert_eq!(
        browser.texts("#metrics tbody tr:first-child > *"),
        ["train", "value", "1.00", "2.00", "+1.00", "+100.0", "p < 0.001, 2 pairs"]
    );
    browser.inspect("compare");
    browser.is_content();

    // It ends at once although a page listens.
    browser.open(&address);
    server.signal(Signal::INT);
    let Ended { code, stderr, .. } = server.wait();
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn curves_of_a_program_move_while_it_runs() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::new();
    let go = sandbox.path("go");
    sandbox.write(
        "recipe.yaml",
        &format!(
            r#"
steps:
  train:
    uses: command
    with:
      run: |
        i=0
        while [ ! -e "$GO" ]; do
          i=$((i + 1))
          echo '{{"step": '$i', "total": 100000, "loss": '$((1000 - i))', "<b>acc</b>": '$i'}}' >> "$SWEEP_REPORT"
          sleep 0.1
        done
      env: {{ GO: "{}" }}
"#,
            go.display()
        ),
    );
    let (_server, address) = serve(&sandbox);
    let run = sandbox.start(&["run", "recipe.yaml"]);
    browser.look(1280, false);
    browser.open(&address);
    browser.until("document.querySelector('#runs-body tr .pill.running') !== null");
    browser.click("#runs-body tr:first-child th a");
    browser.until("document.querySelectorAll('#running .canvas').length === 2");
    browser.until("document.querySelector('#running progress')?.max === 100000");
    assert_eq!(browser.text("#running .card").matches("<b>acc</b> ").count(), 1, "{}", browser.text("#running"));
    // Its curve is drawn before any job is done, and its open details have the content of the card.
    browser.until("!document.querySelector('#overlay').hidden");
    browser.until("document.querySelector('#jobs-body .progress')?.textContent.includes('/100000')");
    browser.click("#jobs-body th button");
    browser.until("document.querySelectorAll('.detail .live .canvas').length === 2");
    browser.inspect("run-program");
    let label = "document.querySelector('#running .canvas').getAttribute('aria-label')";
    let before = browser.eval(label);
    assert!(before.as_str().unwrap().starts_with("loss: "), "{before}");
    // Its chart stays where it is while values arrive.
    browser.eval("window.first = document.querySelector('#running canvas')");
    browser.until(&format!("{label} !== {before}"));
    assert_eq!(browser.eval("window.first === document.querySelector('#running canvas')"), true);
    sandbox.write("go", "");
    let ended = run.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn runs_are_laid_over_each_other() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(
        r#"
name: curves
params: { slope: 1 }
steps:
  train:
    uses: command
    matrix: { seed: [0, 1] }
    with:
      run: |
        for i in 1 2 3 4 5; do echo "{\"step\": $i, \"total\": 5, \"loss\": $((i * SLOPE))}" >> "$SWEEP_REPORT"; done; echo loss=1
      env: { SLOPE: "${{ params.slope }}" }
"#,
    );
    for slope in ["slope=1", "slope=2", "slope=3"] {
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", slope]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    browser.open(&address);
    browser.until("document.querySelectorAll('#runs-body input').length === 3");
    for row in 1..=3 {
        browser.click(&format!("#runs-body tr:nth-child({row}) input"));
    }
    browser.click("#compare");
    browser.until("document.querySelector('h1')?.textContent === '3 runs'");
    browser.until("document.querySelectorAll('#curves canvas').length > 0");
    assert_eq!(browser.texts("#curves .curve:first-child .legend label"), [" A", " B", " C"]);
    let dashes = "new Set([...document.querySelectorAll('#curves .curve:first-child .legend path')].map((path) => path.getAttribute('stroke-dasharray'))).size";
    assert_eq!(browser.eval(dashes), 3);
    // A run that is off is drawn no more.
    let picture = "document.querySelector('#curves canvas').toDataURL()";
    let all = browser.settled(picture);
    browser.click("#curves .curve:first-child .legend input");
    browser.until(&format!("{picture} !== {all}"));
    browser.click("#curves .curve:first-child .legend input");
    browser.until(&format!("{picture} === {all}"));
    assert_eq!(browser.texts("#job option"), ["train/seed=0", "train/seed=1"]);
    assert!(
        browser.text("#params-B").contains("SLOPE") && browser.text("#params-C").contains("→ 3"),
        "{}",
        browser.text("main")
    );
    browser.inspect("compare-three");
    browser.is_content();
}

#[test]
fn a_run_of_ten_thousand_jobs_can_be_searched() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(
        "name: many\nsteps: { a: { uses: mock, matrix: { value: { range: [0, 100] }, seed: { range: [0, 100] } } } }\n",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", "a/value=99,seed=98"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    browser.open(&address);
    browser.until("document.querySelectorAll('#runs-body tr').length === 1");
    browser.click("#runs-body th a");
    browser.until("document.getElementById('shown')?.textContent === '10,000 jobs, 1 to 100 shown'");
    assert_eq!(browser.eval("document.querySelectorAll('#jobs-body tr').length"), 100);
    browser.eval("document.getElementById('filter').focus()");
    browser.write("value=99 seed=98");
    assert_eq!(browser.text("#shown"), "1 job");
    browser.click("#jobs-body th button");
    browser.until("document.querySelector('.detail') !== null");
    assert!(browser.text(".detail").contains("99"));
    browser.is_content();
}

#[test]
fn the_pages_are_small_and_need_nobody_else() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(RECIPE);
    sandbox.sweep(&["run", "recipe.yaml", "--only", "train/seed=0"]);
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    let run = fs_err::read_dir(sandbox.path("results/runs")).unwrap().next().unwrap().unwrap().file_name();
    for path in ["/".to_owned(), format!("/runs/{}", run.to_string_lossy()), "/compare?runs=x,y".to_owned()] {
        browser.open(&format!("{address}{path}"));
        let (own, others) = (
            browser.eval("new TextEncoder().encode(document.documentElement.outerHTML).length").as_u64().unwrap(),
            browser.eval("performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(location.origin))"),
        );
        assert!(own < 300_000, "{path}: {own} bytes");
        assert_eq!(others, serde_json::json!([]), "{path}");
    }
}

#[test]
fn jobs_are_stopped_run_again_and_explained_in_pages_with_the_token() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::new();
    let recipe = "name: acted\nsteps:\n  slow: { uses: mock, with: { seconds: 600, steps: 600 }, resources: { cpus: 1 } }\n  broken: { uses: command, with: { run: 'test -e MENDED && echo x=1' }, resources: { cpus: 1 } }\n";
    let mended = sandbox.path("mended");
    sandbox.write("recipe.yaml", &recipe.replace("MENDED", mended.to_str().unwrap()));
    let run = sandbox.start(&["run", "recipe.yaml"]);
    until("a job runs and one has failed", || {
        !sandbox.journal("progress").is_empty() && !sandbox.journal("failed").is_empty()
    });
    let (_server, address, acting) = serve_with_token(&sandbox);
    let page = format!("{address}/runs/{}", sandbox.runs()[0]);
    browser.look(1280, false);
    // Without the token the page only shows.
    browser.open(&page);
    browser.until("document.querySelectorAll('#running .card').length === 1");
    assert_eq!(
        browser
            .eval("document.querySelectorAll('.card button').length + Number(!document.getElementById('acts').hidden)"),
        0
    );

    // The token leaves the address, and holds for the pages of the tab.
    browser.open(&acting);
    browser.until("location.hash === '' && document.querySelectorAll('#runs-body tr').length === 1");
    browser.open(&page);
    browser.until("document.querySelectorAll('#running .card button').length === 1");
    browser.inspect("run-acting");
    browser.eval(
        "window.questions = []; window.confirm = (text) => { questions.push(text); return questions.length > 1; }",
    );
    browser.click(".card button");
    assert_eq!(browser.eval("questions[0]"), "Stop slow? The run continues.");
    assert!(sandbox.journal("stopped").is_empty(), "the first answer is no");
    browser.click(".card button");
    browser.until("document.getElementById('acted').textContent.startsWith('Carried out: sweep stop --run ')");
    assert_eq!(run.wait().code, Some(5));
    browser.until("document.getElementById('state').textContent.includes('failed')");
    browser.until("document.querySelectorAll('#again button').length === 1");

    sandbox.write("mended", "");
    browser.eval("[...document.querySelectorAll('#jobs-body th button')].find((button) => button.textContent === 'broken').click()");
    browser.until(
        "[...document.querySelectorAll('.detail button')].some((button) => button.textContent === 'Show: Why it runs')",
    );
    browser.eval("[...document.querySelectorAll('.detail button')].find((button) => button.textContent === 'Show: Why it runs').click()");
    browser.until(
        "[...document.querySelectorAll('.detail .command h3')].some((title) => title.textContent === 'Why it runs')",
    );
    let text = browser.eval("document.activeElement.textContent");
    assert_eq!(text.as_str().unwrap(), sandbox.sweep(&["explain", "recipe.yaml", "broken"]).stdout.trim_end());
    browser.eval(
        "[...document.querySelectorAll('.detail button')].find((button) => button.textContent === 'Run again').click()",
    );
    browser.until(
        "document.getElementById('acted').textContent.endsWith('Carried out: sweep run recipe.yaml --only broken')",
    );
    // Everything that was carried out stays there.
    assert!(browser.text("#acted").starts_with("Carried out: sweep stop --run "));
    until("the job is done", || sandbox.journal("done").iter().any(|line| line["label"] == "broken"));
    browser.is_content();
}
