//! The list of jobs as a dashboard: columns, filters, groups, curves of many jobs and linked plots.

use serde_json::{Value, json};

use crate::{alone, driver::Browser, sandbox::Sandbox, server::serve};

/// A metric whose name would do harm if it were taken for anything else.
const HOSTILE: &str = "a.<img src=x onerror=alert(1)>";

const STUDY: &str = r#"
name: tuned
steps:
  train:
    uses: command
    matrix: { lr: [0.01, 0.1], note: [plain, "<b>x</b>"], seed: [1, 2, 10] }
    with: { run: "true", env: { LR: "${{ matrix.lr }}", NOTE: "${{ matrix.note }}", SEED: "${{ matrix.seed }}" } }
tables: { t: { from: train, rows: [lr], cells: [loss] } }
"#;

/// The loss of a job: its mean over the seeds 1, 2 and 10 of a configuration is `10 * lr + 0.02`.
fn loss(lr: f64, seed: f64) -> f64 {
    10.0 * lr
        + if seed == 1.0 {
            0.01
        } else if seed == 2.0 {
            0.02
        } else {
            0.03
        }
}

/// A store with all jobs but the last, which a run makes.
fn tuned() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    for (number, job) in plan["jobs"].as_array().unwrap().iter().enumerate().take(11) {
        let (key, label) = (job["key"].as_str().unwrap(), job["label"].as_str().unwrap());
        let value = |name: &str| {
            let text = label.split(&format!("{name}=")).nth(1).unwrap().split(',').next().unwrap();
            text.parse::<f64>().unwrap()
        };
        let (lr, seed) = (value("lr"), value("seed"));
        let at: Vec<u64> = (1..=5000).collect();
        let tokens: Vec<f64> = at.iter().map(|at| *at as f64 * 1000.0).collect();
        let mut curve: Vec<f64> = at.iter().map(|at| loss(lr, seed) + 3.0 / *at as f64).collect();
        curve[2500] = 9.0;
        let mut metrics =
            json!({ "loss": { "value": loss(lr, seed), "unit": "nats" }, HOSTILE: { "value": 1.0, "unit": "1" } });
        for other in 0..12 {
            metrics[format!("a.{other}")] = json!({ "value": number as f64, "unit": "1" });
        }
        let record = json!({
            "format": 1, "key": key, "label": label, "params": {},
            "identity": { "format": 1, "task": "command", "revision": 1 },
            "outcome": { "metrics": metrics, "curves": {
                "loss": { "unit": "nats", "at": at, "values": curve }, "tokens": { "unit": "1", "at": at, "values": tokens },
            } },
            "provenance": { "sweep": "0", "started": format!("2026-01-01T00:{number:02}:00Z"), "seconds": 12.0, "threads": 2, "host": "here" },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
    let run = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    sandbox
}

/// Opens the page of the only run.
fn open_run(browser: &mut Browser, sandbox: &Sandbox, address: &str, query: &str) {
    let run = fs_err::read_dir(sandbox.path("results/runs")).unwrap().next().unwrap().unwrap().file_name();
    browser.open(&format!("{address}/runs/{}{query}", run.to_string_lossy()));
    browser.until("document.getElementById('shown')?.textContent.length > 0");
}

fn type_filter(browser: &mut Browser, text: &str) -> String {
    browser.eval(&format!(
        "{{ const filter = document.getElementById('filter'); filter.value = {}; filter.dispatchEvent(new Event('input')) }}",
        json!(text)
    ));
    browser.text("#shown")
}

fn choose(browser: &mut Browser, selector: &str, value: &str) {
    browser.eval(&format!(
        "{{ const select = document.querySelector({}); select.value = {}; select.dispatchEvent(new Event('input')) }}",
        json!(selector),
        json!(value)
    ));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one visit of a page")]
fn jobs_are_filtered_by_value_and_grouped_and_columns_are_chosen() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = tuned();
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    open_run(&mut browser, &sandbox, &address, "");
    // Axes and the recipe's metric come first, although others are earlier in the alphabet.
    let headings = browser.texts("#jobs-head th");
    assert_eq!(headings[..6], ["State", "Job", "lr", "note", "seed", "Loss (nats)"]);
    assert_eq!(headings.last().unwrap(), "Time");

    // Values are compared as values.
    for (filter, jobs) in [
        ("seed=1", 4),
        ("seed=10", 4),
        ("lr=1e-2", 6),
        ("lr=0.1", 6),
        ("LR=0.01 seed!=2", 4),
        ("seed=1|10", 8),
        ("seed=2..10", 8),
        ("lr<0.1", 6),
        ("loss:<0.125", 4),
        ("loss>=0.12", 9),
        ("state=cached", 11),
        ("state=done", 1),
        ("note=<b>x</b> seed=1", 2),
        ("plain", 6),
        (&format!("\"{HOSTILE}=1\""), 11),
        ("time>11", 11),
        ("loss < 0.125", 4),
        ("seed = 1 loss >= 0.12", 2),
        ("\"Loss (nats)\" >= 0.12", 9),
        ("seed=2..", 8),
        ("lr=..0.05", 6),
        ("loss=–", 1),
        ("loss!=–", 11),
        ("note=\"<b>x</b>\"|plain", 12),
    ] {
        let noun = if jobs == 1 { "job" } else { "jobs" };
        assert_eq!(type_filter(&mut browser, filter), format!("{jobs} {noun}"), "{filter}");
        assert_eq!(browser.eval("document.getElementById('filter-note').hidden"), true, "{filter}");
    }
    for (filter, remark) in [
        ("momentum=1", "momentum is not an axis or metric of these jobs"),
        ("loss<", "a value is missing after loss<"),
        ("loss<x", "loss<x needs a number after <"),
        ("!lr=1", "!lr is not an axis or metric of these jobs"),
    ] {
        type_filter(&mut browser, filter);
        let note = browser.text("#filter-note");
        assert!(note.starts_with(remark) && note.contains("Names: state, step, tag, lr, note, seed, loss"), "{note}");
    }

    type_filter(&mut browser, "lr=0.0*");
    assert_eq!(browser.text("#filter-note"), "no job has this lr, which is 0.01, 0.1.");

    // A group is a row with the mean over seeds and its interval: of 0.11, 0.12 and 0.13, 4.30265 * 0.01 / sqrt(3) (Student's t).
    type_filter(&mut browser, "");
    choose(&mut browser, "#group", "configuration");
    assert_eq!(browser.text("#shown"), "4 groups of 12 jobs");
    let cell = "#jobs-body tr:first-child [data-column='metric:loss']";
    assert_eq!(browser.text(cell), "0.120 ± 0.025");
    browser.eval("document.querySelector('#jobs-body button[data-group]').focus()");
    browser.press("Enter");
    assert_eq!(browser.texts("#jobs-body .member th button").len(), 3);
    browser.press("ArrowDown");
    assert_eq!(browser.eval("document.activeElement.textContent"), "train/lr=0.01,note=plain,seed=1");
    browser.until("location.search.includes('opened=train')");
    // Over both notes the seeds are still the units; where a seed lacks a note, there is no interval.
    choose(&mut browser, "#group", "lr");
    assert_eq!(browser.text(cell), "0.120 ± 0.025");
    let means = browser.text("#means");
    assert!(means.starts_with("Means ± intervals are over seeds: note averaged within each seed."), "{means}");
    let uneven = "#jobs-body tr:nth-child(2) [data-column='metric:loss']";
    assert_eq!(browser.text(uneven), "1.02 (5 of 6)");
    let title = browser.eval(&format!("document.querySelector(\"{uneven}\").title"));
    assert!(title.as_str().unwrap().contains("not every seed has the same configurations"), "{title}");

    // Columns are chosen, moved and pinned, and the address has the view.
    browser.click("#columns summary");
    browser.until("document.querySelector('#columns li') !== null");
    browser.click("#columns [data-pin='metric:loss']");
    browser.click("#columns [data-id='axis:note']");
    assert_eq!(browser.texts("#jobs-head th")[..5], ["State", "Group", "Loss (nats)", "lr", "seed"]);
    browser.click("#columns [data-move='-1axis:seed']");
    assert_eq!(browser.texts("#jobs-head th")[..5], ["State", "Group", "Loss (nats)", "seed", "lr"]);
    browser.eval("{ const width = document.querySelector('#columns [aria-label=\"Width of seed in pixels\"]'); width.value = '200'; width.dispatchEvent(new Event('change')) }");
    browser.click("[data-sort='metric:loss']");
    browser.click("[data-sort='metric:loss']");
    browser.until("location.search.includes('sort=-metric%3Aloss') && location.search.includes('widths=200')");
    // A third click gives the first order back.
    browser.click("[data-sort='metric:loss']");
    assert_eq!(browser.eval("document.querySelector('#jobs-head [aria-sort]')"), Value::Null);
    browser.click("[data-sort='metric:loss']");
    browser.click("[data-sort='metric:loss']");
    browser.until("location.search.includes('sort=-metric%3Aloss')");
    // A column is found by its name in queries.
    browser.eval("{ const find = document.querySelector('#columns [type=search]'); find.value = 'metric:loss'; find.dispatchEvent(new Event('input')) }");
    assert_eq!(browser.texts("#columns li label"), [" Loss (nats)"]);
    let query = browser.eval("location.search");
    browser.inspect("dashboard-groups");
    open_run(&mut browser, &sandbox, &address, query.as_str().unwrap());
    assert_eq!(browser.texts("#jobs-head th")[..5], ["State", "Group", "Loss (nats)", "seed", "lr"]);
    assert_eq!(browser.texts("#jobs-body th button")[0], "train/lr=0.1");
    let width = browser.eval("document.querySelector('#jobs-head [data-column=\"axis:seed\"]').offsetWidth");
    assert!(width.as_u64().unwrap() >= 200, "{width}");
    assert_eq!(browser.eval("document.querySelectorAll('img, #jobs b').length"), 0);
    // An address that means nothing does no harm.
    let strange = "?filter=%3Cimg%3E&group=nothing&sort=metric%3Anone&columns=%25E0%25A4,metric%3Anone&pins=x&widths=a:b,:&charts=none&x=none&color=none&log=q&plot=none&smooth=NaN&jobs=%2C%2C&from=1e9&open=%2C&opened=%2C%2C";
    open_run(&mut browser, &sandbox, &address, strange);
    assert_eq!(browser.text("#shown"), "0 jobs");
    browser.is_content();
}

#[test]
fn pages_write_numbers_as_the_engine_does() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = tuned();
    browser.open_file(&sandbox.path("results/reports/tuned/index.html"));
    // The same cases as of a test of tables.
    let cases = include_str!("../../../report/src/render/page/numbers.json");
    let wrong = browser.eval(&format!(
        "(() => {{ const {{ numbers, means, ends, lists, spans }} = {cases};
         return [...numbers.map(([value, text]) => [text, shown(value)]), ...means.map(([mean, half, text]) => [text, withHalf(mean, half)]),
           ...ends.map(([mean, low, high, text]) => [text, withEnds(mean, low, high)]),
           ...lists.flatMap(([values, texts]) => values.map((value, index) => [texts[index], listed(value, sharedDigits(values))])),
           ...spans.map(([value, text]) => [text, span(value)])].filter(([one, other]) => one !== other); }})()"
    ));
    assert_eq!(wrong, json!([]));
    // Values of axes may look like anything.
    let hostile = browser.eval(
        "(() => { const row = (text) => ({ axes: axesOf(text, ['v', 'seed']) });
         const rows = ['v=a,b=c,seed=1', 'v=a\"q\\'b,seed=1', 'v=,seed=1', 'v=0.1|0.2,seed=1', 'v=1..2,seed=1'].map(row);
         const columns = [{ id: 'axis:v', kind: 'axis', name: 'v', title: 'v', values: [], of: (row) => row.axes.get('v') }];
         return rows.map((wanted) => rows.filter((row) => compileFilter(`v=${quoted(wanted.axes.get('v'))}`, columns, rows).fits(row)).map((row) => row.axes.get('v'))); })()",
    );
    assert_eq!(hostile, json!([["a,b=c"], ["a\"q'b"], [""], ["0.1|0.2"], ["1..2"]]));
    assert_eq!(browser.eval("logMarks(1024, 2048000)"), json!([10_000, 100_000, 1_000_000]));
    assert_eq!(browser.eval("logMarks(0.2, 0.9)"), json!([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]));
    // Marks have the digits that tell them apart, and exponents where digits would have no room.
    for (marks, texts) in [
        ("ticks([1000012, 1000014, 1000016])", json!(["1.000012M", "1.000014M", "1.000016M"])),
        ("ticks([0, 2500, 5000])", json!(["0", "2.5K", "5K"])),
        ("ticks([1e300, -2e-300, 0.0005])", json!(["1e300", "−2e−300", "5e−4"])),
        ("marksOf([1000011, 1000023])", json!(["1000011", "1000023"])),
        ("marksOf([0.1, 0.25, 3e300])", json!(["0.1", "0.25", "3e300"])),
        ("reading(1000013, [1000011, 1000023])", json!("1000013")),
        ("reading(1.0000123456, [1.0000011, 1.0000123])", json!("1.0000123")),
        ("multiplesIn(2e-300, 4e-300, 1e-300)", json!([2e-300, 3e-300, 4e-300])),
        ("stepsIn(0.5, true)", json!([1, 2, 5])),
        ("nearly(1234567.891, 0.1)", json!(1_234_567.9)),
    ] {
        assert_eq!(browser.eval(marks), texts, "{marks}");
    }
    browser.is_content();
}

/// The script of a browser with columns and rows of jobs whose names and values differ in capitals, or little.
const ALIKE: &str = "
    const heading = (name, isTiming) => [name, name, null, isTiming];
    const steps = [['x', 'none', 'best'], ['x', 'None', 'Best'], ['y', 'none', '']];
    const made = { steps: ['train', 'plain'], states: ['done', 'stopped'], seeds: ['seed'], quantiles: [12.7, 4.3], axes: ['v', 'mode', 'seed'], shown: 1,
      columns: [heading('loss'), heading('Loss'), heading('near'), heading('ms', true)],
      jobs: steps.map(([v, mode, tag], at) => [0, [['v', `${v}=1,seed=5`], ['mode', mode], ['seed', String(at)]], 0, `key${at}`, [2, 8, 4][at], [0.912345 + at * 1e-6, 2, 1000011 + 6 * at, 10 ** at], '', 1, tag ? [tag] : []]) };
    const rows = readRows(made); const columns = readColumns(made, rows); const column = (id) => columns.find((column) => column.id === id);
    const found = (text) => rows.filter(compileFilter(text, columns, rows).fits).length;";

/// Draws curves by the color of an axis that one of the jobs lacks.
fn colors_of_jobs_without_the_axis(browser: &mut Browser) {
    // Jobs without the axis that gives the color have a color of their own, which is none of its values.
    browser.eval(&format!(
        "{{ {ALIKE} const box = document.body.appendChild(make('div')); box.id = 'made';
         const mixed = rows.map((row, at) => (at < 2 ? row : {{ ...row, step: 'plain', axes: new Map([['seed', '0']]) }}));
         curveOverlay(box, made, {{ columns: () => columns, watch: (seen) => seen(mixed, mixed, false) }}, {{ names: () => [['loss', '']], running: () => new Map(),
           read: async (asked, range, got) => got(new Map(asked.map(({{ key }}) => [key, {{ x: [1, 2], y: [1, 2] }}]))) }}); }}"
    ));
    browser.until("document.querySelectorAll('#made .keys li').length > 0");
    choose(browser, "#made label:nth-child(3) select", "mode");
    browser.until("document.querySelectorAll('#made .keys li').length === 3");
    assert_eq!(browser.texts("#made .keys li > span:first-of-type"), ["none", "None", "no mode"]);
    assert_eq!(browser.texts("#made label:nth-child(4) option"), ["nothing", "none", "None", "no mode"]);
}

#[test]
fn names_values_and_means_are_those_of_the_jobs() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = tuned();
    browser.open_file(&sandbox.path("results/reports/tuned/index.html"));
    let mut is = |script: &str, expected: Value| {
        assert_eq!(browser.eval(&format!("(() => {{ {ALIKE} return {script}; }})()")), expected, "{script}");
    };
    // Of names and values that differ in capitals, those with the same ones count.
    let filters = "['loss<1', 'Loss<1', 'metric:Loss<3', 'mode=none', 'mode=NONE', 'tag=best', 'tag=BEST', 'loss=0.912', 'loss=0.912346', 'loss=0.9124', '\"loss\"<1'].map(found)";
    is(filters, json!([3, 0, 3, 2, 3, 1, 2, 3, 1, 0, 3]));
    is(
        "compileFilter('LOSS<2', columns, rows).remarks",
        json!(["LOSS<2 may be about loss or Loss: capitals tell them apart"]),
    );
    // Whole numbers of any size are compared exactly.
    is(
        "[['9007199254740992', '9007199254740993'], ['1e-2', '0.01'], ['+3', '3'], ['a', '1']].map(([one, other]) => signOf(one, other))",
        json!([-1, 0, 0, null]),
    );
    // A value may have the name of another axis in it.
    is(
        "[rows[0].axes.get('v'), rows[0].axes.get('seed'), rows[0].label, found('v=x=1,seed=5')]",
        json!(["x=1,seed=5", "0", "train/v=x=1,seed=5,mode=none,seed=0", 2]),
    );
    // A list shows the digits that tell its values apart.
    is(
        "rows.map((row) => column('metric:loss').text(column('metric:loss').of(row)))",
        json!(["0.91234500", "0.91234600", "0.91234700"]),
    );
    // Words of a brushed range have on their side the values that were.
    is(
        "[[0.02, 0.4], [0.4, 0.9], [0.4, 1], [0.5, 0.5], [0.1, 0.2], [0, 1]].map(([from, to]) => { const word = rangeWord(unitScale(column('metric:near'), rows), from, to); return [word, word && found(`near=${word}`)]; })",
        json!([
            ["1000011.2..1000016", 0],
            ["1000016..1000020", 1],
            ["1000016..1000023", 2],
            ["1000017..1000020", 1],
            ["1000012..1000013", 0],
            ["", ""]
        ]),
    );
    // Times have geometric means, as in tables: of 1, 10 and 100.
    is(
        "[summary(rows.map((row, at) => ({ ...row, axes: new Map([['seed', String(at)]]) })), column('metric:ms'), made)].map((mean) => [mean.mean.toFixed(6), meanText(column('metric:ms'), mean)])[0]",
        json!(["10.000000", "10.0 [?]"]),
    );
    is(
        "[made.seeds, averagedIn(rows.slice(0, 2), made), summary(rows, column('time'), made).mean.toFixed(6)]",
        json!([["seed"], [], "4.000000"]),
    );
    is(
        "[rows.map((row) => ({ ...row, state: 'stopped' })), [{ ...rows[0], state: 'stopped' }, ...rows.slice(1)]].map((rows) => { const mean = summary(rows, column('time'), made); return mean && meanText(column('time'), mean); })",
        json!([null, "5.7 s (2 of 3)"]),
    );
    // Other axes are averaged within each seed, and steps are named.
    is("(() => { const crossed = [...rows, ...rows.map((row) => ({ ...row, axes: new Map([...row.axes, ['mode', 'other']]) }))].map((row) => ({ ...row, axes: new Map([...row.axes, ['v', 'x']]) }));
        const same = crossed.map((row, at) => ({ ...row, axes: new Map([...row.axes, ['mode', at < 3 ? 'a' : 'b']]) }));
        return [averagedIn(same, made), /mode: averaged within each seed/.test(summary(same, column('metric:near'), made).about), /jobs of the steps train, plain/.test(summary([rows[0], { ...rows[1], step: 'plain' }], column('metric:near'), made).about)]; })()",
        json!([["mode"], true, true]));
    // Repetitions are averaged within their seed, and are units where there is one seed.
    is("(() => { const runs = (seeds, repeats) => seeds.flatMap((seed) => repeats.map((run, at) => ({ ...rows[0], axes: new Map([['seed', seed], ['run', run]]), cells: [Number(seed) + at] })));
        const kinds = { ...made, seeds: ['seed', 'run'], repeats: ['run'] };
        return [runs(['1', '2'], ['a', 'b', 'c']), runs(['1'], ['a', 'b', 'c'])].map((runs) => { const { mean, half, about } = summary(runs, column('metric:loss'), kinds); return [mean, half.toFixed(4), about.split(' with')[0]]; }); })()",
        json!([[2.5, "6.3500", "mean of 2 seeds"], [2, "2.4826", "mean of 3 seeds"]]));
    // The spread of very small and of very large values is one, that of equal ones is unknown.
    is(
        "[[2, 3, 4], [2e-300, 3e-300, 4e-300], [2e300, 3e300, 4e300]].map((values) => (halfOf(values, [12.7, 4.3]) / values[0]).toFixed(6))",
        json!(["1.241303", "1.241303", "1.241303"]),
    );
    is("[halfOf([0.1 + 0.2, 0.3, 0.3], [12.7, 4.3]), meanOf([1.5e308, 1.5e308])]", json!([null, 1.5e308]));
    // A mean curve has the common steps, and of too many places the means of intervals.
    is("(() => { const at = Array.from({ length: 1500 }, (_, index) => index); const curves = new Map(rows.map(({ key }) => [key, { x: at, y: at.map((step) => (step === 780 ? 50 : 2)) }]));
        const line = meanCurve(rows, curves, false, made); return [line.x.length, Math.max(...line.y), line.edges]; })()", json!([1500, 50, null]));
    is("(() => { const curves = new Map(rows.map(({ key }, job) => { const x = Array.from({ length: 2000 }, (_, index) => index + job / 3); return [key, { x, y: x.map((step) => (Math.floor(step) % 2 ? 1 : 3)) }]; }));
        const line = meanCurve(rows, curves, false, made); return [line.x.length, line.edges.length, line.y.every((value) => value > 1.4 && value < 2.6)]; })()", json!([512, 513, true]));
    // A curve whose places go back and forth is drawn in the order of its steps, and has no mean.
    is(
        "(() => { const curve = { x: [0.1, 1, 0.5], y: [3, 2, 1] }; return [isFolded(curve), nearestPoint(curve, 0.6), valueAt(curve, 0.9), valueAt(curve, 2), meanCurve(rows, new Map(rows.map(({ key }) => [key, curve])), false, made)]; })()",
        json!([true, 2, 2, null, null]),
    );
    colors_of_jobs_without_the_axis(&mut browser);
    browser.is_content();
}

#[test]
fn curves_of_many_jobs_are_drawn_together() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = tuned();
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    open_run(&mut browser, &sandbox, &address, "");
    browser.until("document.querySelector('#overlay [role=status]')?.textContent === 'Curves of 11 jobs.'");
    assert_eq!(browser.texts("#overlay .keys li"), [" 0.01", " 0.1"]);
    // The filter holds for the curves, and so does a choice of jobs.
    type_filter(&mut browser, "lr=0.01");
    browser.until("document.querySelector('#overlay [role=status]').textContent === 'Curves of 6 jobs.'");
    type_filter(&mut browser, "");
    browser.click("#jobs-body tr:nth-child(2) input");
    browser
        .until("document.querySelector('#overlay [role=status]').textContent === 'Curves of 1 job, the chosen ones.'");
    browser.click("#unpick");
    browser.until("document.querySelector('#overlay [role=status]').textContent === 'Curves of 11 jobs.'");
    // Means by group, another x axis, a second chart, zoom by keyboard; the address has all of it but the zoom.
    let controls = "#overlay .choices";
    choose(&mut browser, &format!("{controls} label:nth-child(2) select"), "tokens");
    choose(&mut browser, &format!("{controls} label:nth-child(1) select"), "tokens");
    browser.until("document.querySelectorAll('#overlay figure').length === 2");
    browser.click(&format!("{controls} label:nth-child(5) input"));
    browser.until("document.querySelector('#overlay .canvas').getAttribute('aria-label') === 'loss of 2 groups'");
    browser.until("['x=tokens', 'mean=1', 'charts=loss%2Ctokens'].every((part) => location.search.includes(part))");
    let picture = "document.querySelector('#overlay canvas').toDataURL()";
    let whole = browser.settled(picture);
    browser.eval("document.querySelector('#overlay .canvas').focus()");
    browser.press("ArrowRight");
    browser.until(&format!("{picture} !== {whole}"));
    browser.eval("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '0', bubbles: true }))");
    browser.until(&format!("{picture} === {whole}"));
    browser.inspect("dashboard-curves");
    // The columns are binary, thinned out, and have the extremes.
    let run = browser.eval("location.pathname");
    let read = |query: &str| {
        format!(
            "fetch(`{}/curves?{query}`).then(async (answer) => [answer.status, answer.ok ? await answer.arrayBuffer().then((buffer) => {{
             const [view, count] = [new DataView(buffer), new DataView(buffer).getUint32(4, true)];
             const y = new Float64Array(buffer, 8 + 8 * count, count); return [view.getUint32(0, true), count, Math.max(...y)]; }}) : await answer.text()])",
            run.as_str().unwrap()
        )
    };
    assert_eq!(browser.eval(&read("jobs=0&y=loss&points=200")), json!([200, [0, 200, 9]]));
    browser.is_content();
    let refused = browser.eval(&read("jobs=0-999&y=loss&points=200"));
    assert_eq!(refused, json!([400, "`jobs` must be up to 256 indices and ranges, as in 0-99,104"]));
}

#[test]
fn plots_restrict_the_list_and_the_curves() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = tuned();
    browser.look(1280, false);
    browser.open_file(&sandbox.path("results/reports/tuned/index.html"));
    assert_eq!(browser.text("#shown"), "12 jobs");
    let kind = "#plots label:first-child select";
    for plot in ["parallel", "scatter", "best"] {
        choose(&mut browser, kind, plot);
        browser.until("document.querySelector('#plots canvas') !== null");
        browser.inspect(&format!("dashboard-{plot}"));
    }
    // A cell of the heat map is a button, and its range is a word of the filter.
    choose(&mut browser, kind, "heat");
    browser.until("document.querySelectorAll('#plots td button').length === 4");
    browser.inspect("dashboard-heat");
    let means = browser.texts("#plots td button");
    assert_eq!([&means[0], &means[2], &means[3]], ["0.120", "0.120", "1.02"]);
    assert!(means[1].ends_with(" (2 of 3)"), "the jobs that a cell lacks: {means:?}");
    browser.eval("document.querySelector('#plots td button').focus()");
    browser.press("Enter");
    browser.until("document.getElementById('shown').textContent === '3 jobs'");
    let filter = browser.eval("document.getElementById('filter').value");
    assert!(filter.as_str().unwrap().starts_with("lr=0.01 note="), "{filter}");
    browser.until("document.querySelector('#overlay [role=status]').textContent === 'Curves of 3 jobs.'");
    browser.until("location.search.includes('plot=heat') && location.search.includes('filter=lr')");
    // The shares of the axes, the largest first.
    choose(&mut browser, kind, "importance");
    type_filter(&mut browser, "");
    browser.until("document.querySelector('#plots .shares tbody th')?.textContent === 'lr'");
    assert_eq!(browser.texts("#plots .shares tbody th"), ["lr", "note"], "seeds are no axes of configurations");
    browser.inspect("dashboard-importance");
    // A selection in a scatter plot filters the runs, too.
    type_filter(&mut browser, "");
    choose(&mut browser, kind, "scatter");
    browser.until("document.querySelector('#plots canvas') !== null");
    browser.drag("#plots canvas", (0.03, 0.02), (0.5, 0.95));
    browser.until("document.getElementById('filter').value.startsWith('lr=')");
    assert_eq!(browser.text("#shown"), "6 jobs");
    // A range without a value restricts nothing, and keeps the filter.
    choose(&mut browser, "#plots label:nth-child(2) select", "axis:note");
    browser.drag("#plots canvas", (0.4, 0.02), (0.6, 0.95));
    browser.until("document.querySelectorAll('#plots > p')[0].textContent === 'note has no value in this range.'");
    assert_eq!(browser.text("#shown"), "6 jobs");
    // The address has the open job.
    browser.eval("document.querySelector('#jobs-body th button').click()");
    browser.until("location.search.includes('open=')");
    let address = browser.eval("location.href");
    browser.open(address.as_str().unwrap());
    browser.until("document.querySelector('#jobs-body .detail figure') !== null");
    // The recipe's metric is the first curve.
    assert_eq!(browser.texts("#jobs-body .detail figcaption"), ["loss (nats)", "tokens"]);
    browser.is_content();
}

#[test]
fn a_failed_job_shows_its_failure_its_differences_and_commands_to_copy() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::with(
        r#"
name: failing
steps:
  train:
    uses: command
    matrix: { lr: [0.01, 0.1], seed: [0, 1] }
    with:
      run: |
        echo "an error of before is not it"
        for line in 1 2 3 4 5; do echo "line $line"; done
        if [ "$LR" = 0.1 ]; then echo "Traceback (most recent call last):"; echo "<b>loss</b> is not finite"; exit 1; fi
        echo loss=1
      env: { LR: "${{ matrix.lr }}", SEED: "${{ matrix.seed }}" }
"#,
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let (_server, address) = serve(&sandbox);
    browser.look(1280, false);
    open_run(&mut browser, &sandbox, &address, "?filter=state%3Dfailed");
    assert_eq!(browser.text("#shown"), "2 jobs");
    browser.click("#jobs-body th button");
    browser.until("document.querySelectorAll('.command pre').length === 2");
    assert_eq!(browser.texts(".command pre")[1], "sweep explain recipe.yaml train/lr=0.1,seed=0");
    assert_eq!(browser.texts(".command pre")[0], "sweep run recipe.yaml --only train/lr=0.1,seed=0");
    let failure = browser.text(".failure");
    assert!(failure.starts_with("Traceback") && failure.contains("<b>loss</b> is not finite"), "{failure}");
    assert!(browser.text(".detail").contains("0.1, as 1 other; elsewhere 0.01"), "{}", browser.text(".detail"));
    browser.click(".command button");
    browser.until("/copied|selected/.test(document.querySelector('.command [role=status]').textContent)");
    browser.inspect("dashboard-failed");
    browser.is_content();
}
