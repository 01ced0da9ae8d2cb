//! Interactive figures of the report.

use serde_json::json;

use crate::{alone, driver::Browser, report::study};

/// Does something with the mouse on the plot of a figure: events with places from 0 to 1 in the plot.
fn mouse(browser: &mut Browser, figure: &str, events: &[(&str, f64, f64)]) {
    let script = format!(
        "(() => {{ const over = document.querySelector('#figure-{figure} .u-over'); over.scrollIntoView({{ block: 'center' }});
         const box = over.getBoundingClientRect();
         for (const [kind, x, y] of {}) over.dispatchEvent(new MouseEvent(kind, {{ bubbles: true, cancelable: true, button: 0, detail: 1, movementX: 9, movementY: 1,
           clientX: box.x + box.width * x, clientY: box.y + box.height * y, view: window }})); }})()",
        json!(events)
    );
    browser.eval(&script);
}

/// The values under the pointer, in words.
const SHOWN: &str = "document.querySelector('#figure-loss .note').textContent";

#[test]
fn figures_answer_the_pointer_and_have_controls() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    browser.look(1280, false);
    browser.open_file(&sandbox.path("results/reports/pruning/index.html"));
    browser.until("document.querySelector('#figure-loss canvas') !== null");
    // The drawing is there for paper and for those without scripts, and the bar chart has no other form.
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('#figure-loss .drawing')).display"), "none");
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('#figure-memory .drawing')).display"), "block");
    assert_eq!(browser.texts("#figure-loss .choices label").len(), 3 + 3, "three series, two axes, smoothing");

    mouse(&mut browser, "loss", &[("mouseenter", 0.5, 0.5), ("mousemove", 0.5, 0.5)]);
    browser.until(&format!("{SHOWN}.startsWith('Iteration ')"));
    let said = browser.text("#figure-loss .note");
    for series in ["none: ", "magnitude: ", "bitter7: ", " ± "] {
        assert!(said.contains(series), "{said}");
    }
    // A series that is off is not said.
    browser.click("#figure-loss .choices input");
    mouse(&mut browser, "loss", &[("mouseenter", 0.5, 0.5), ("mousemove", 0.5, 0.5)]);
    browser.until(&format!("{SHOWN}.includes('magnitude') && !{SHOWN}.includes('none')"));

    // Zoom: the same place is another iteration afterwards; the button shows everything again.
    let at = |browser: &mut Browser| {
        mouse(browser, "loss", &[("mouseenter", 0.9, 0.5), ("mousemove", 0.9, 0.5)]);
        browser.until(&format!("{SHOWN}.startsWith('Iteration ')"));
        let said = browser.text("#figure-loss .note");
        said.split(' ').nth(1).unwrap().parse::<f64>().unwrap()
    };
    let whole = at(&mut browser);
    let drag = [
        ("mouseenter", 0.1, 0.5),
        ("mousemove", 0.1, 0.5),
        ("mousedown", 0.1, 0.5),
        ("mousemove", 0.4, 0.5),
        ("mouseup", 0.4, 0.5),
    ];
    mouse(&mut browser, "loss", &drag);
    let zoomed = at(&mut browser);
    assert!(zoomed < whole / 1.5, "{zoomed}, of {whole}");
    browser.click("#figure-loss button");
    assert_eq!(at(&mut browser), whole);
    // By keyboard, too.
    let key = |browser: &mut Browser, key: &str| {
        browser.eval(&format!(
            "document.querySelector('#figure-loss .canvas').dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }}))"
        ))
    };
    key(&mut browser, "+");
    let zoomed = at(&mut browser);
    assert!(zoomed < whole, "{zoomed}, of {whole}");
    key(&mut browser, "0");
    assert_eq!(at(&mut browser), whole);

    // Controls by keyboard: a logarithmic axis and smoothing draw something else.
    let picture = |browser: &mut Browser| browser.eval("document.querySelector('#figure-loss canvas').toDataURL()");
    let plain = picture(&mut browser);
    browser.eval("[...document.querySelectorAll('#figure-loss label')].find((label) => label.textContent.includes('log y')).querySelector('input').focus()");
    browser.press("Space");
    browser.until(&format!("document.querySelector('#figure-loss canvas').toDataURL() !== {plain}"));
    browser.press("Space");
    browser.until(&format!("document.querySelector('#figure-loss canvas').toDataURL() === {plain}"));
    browser.eval("(() => { const range = document.querySelector('#figure-loss input[type=range]'); range.value = 0.9; range.dispatchEvent(new Event('input', { bubbles: true })); })()");
    assert_ne!(picture(&mut browser), plain, "smoothing changes the lines");

    // A dot of a scatter plot is the nearest to the pointer, and leads to its job.
    let said = "document.querySelector('#figure-dots .note').textContent";
    let near = [("mouseenter", 0.02, 0.98), ("mousemove", 0.02, 0.98)];
    mouse(&mut browser, "dots", &near);
    browser.until(&format!("{said}.includes('train/prune=')"));
    let dot = "(() => { const point = [...document.querySelectorAll('#figure-dots .u-cursor-pt')].find((point) => !point.classList.contains('u-off'));
         const [point_box, over] = [point.getBoundingClientRect(), document.querySelector('#figure-dots .u-over').getBoundingClientRect()];
         return [(point_box.x + point_box.width / 2 - over.x) / over.width, (point_box.y + point_box.height / 2 - over.y) / over.height]; })()";
    let place: [f64; 2] = serde_json::from_value(browser.eval(dot)).unwrap();
    let job = browser.text("#figure-dots .note").split(" · ").nth(1).unwrap().split(": ").next().unwrap().to_owned();
    let [x, y] = place;
    let click = [("mousemove", x, y), ("mousedown", x, y), ("mouseup", x, y), ("click", x, y)];
    mouse(&mut browser, "dots", &click);
    browser.until("document.querySelector('.detail .curve canvas') !== null");
    assert_eq!(browser.texts("#jobs-body button[aria-expanded=true]"), [job]);
    browser.inspect("figures");
    browser.is_content();

    // On a phone the plot has the width of its figure.
    browser.look(390, false);
    browser.until("(() => { const plot = document.querySelector('#figure-loss .uplot'); return plot.getBoundingClientRect().right <= document.querySelector('#figure-loss').getBoundingClientRect().right + 1; })()");
}

#[test]
fn without_scripts_and_on_paper_figures_are_drawings() {
    let _alone = alone();
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = study();
    let page = sandbox.path("results/reports/pruning/index.html");
    browser.look(1280, false);
    browser.open_file(&page);
    browser.until("document.querySelector('#figure-loss canvas') !== null");
    browser.media("print");
    let shown = "['.chart', '.drawing'].map((part) => getComputedStyle(document.querySelector(`#figure-loss ${part}`)).display)";
    assert_eq!(browser.eval(shown), json!(["none", "block"]));
    browser.media("screen");
    assert_eq!(browser.eval(shown), json!(["block", "none"]));
    let text = fs_err::read_to_string(&page).unwrap();
    assert!(text.contains("uPlot"), "the library is in the page");
    // A page without such figures, curves and results does not have it.
    let bare = crate::sandbox::Sandbox::with(
        "name: bare\nsteps: { a: { uses: mock, matrix: { value: [1, 2] } } }\nfigures: { f: { from: a, kind: bar, x: value, y: value } }\n",
    );
    assert_eq!(bare.sweep(&["report", "recipe.yaml"]).code, Some(0));
    assert!(!bare.read("results/reports/bare/index.html").contains("uPlot"));
}
