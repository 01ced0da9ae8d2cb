//! The report as a page: whole in itself, and harmless whatever stands in a recipe.

use crate::sandbox::Sandbox;

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
    assert!(ended.stderr.contains("report: results/reports/page/index.html"), "{}", ended.stderr);
    let page = sandbox.read("results/reports/page/index.html");
    for foreign in ["<script>alert", "<img", "<b>bold", "<i>figure", "<u>claim", "\u{202e}"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // One script element for the data, one for what the page does.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("4 of 4 jobs done") && page.contains("&lt;b&gt;bold&lt;/b&gt;"));
    let begin = page.find("id=\"data\">").unwrap() + 10;
    let data = &page[begin..begin + page[begin..].find("</script>").unwrap()];
    for outside in ["src=", "href=\"http", "@import", "url(", "fetch("] {
        assert!(!page.replace(data, "").contains(outside), "{outside}");
    }
    let jobs: serde_json::Value = serde_json::from_str(data).unwrap();
    let params = &jobs[3]["params"];
    assert!(
        params.to_string().contains("</script><img src=x onerror=alert(2)>"),
        "as data it is what it was: {params}"
    );
}

#[test]
fn a_report_of_what_is_not_done_says_so() {
    let sandbox = Sandbox::with(HOSTILE);
    let ended = sandbox.sweep(&["report", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = sandbox.read("results/reports/page/index.html");
    assert!(page.contains("0 of 4 jobs done") && page.contains("there is nothing to draw yet"));
}

#[test]
fn ten_thousand_jobs_fit_into_two_megabytes() {
    let sandbox = Sandbox::with(
        "name: page\nsteps: { a: { uses: mock, matrix: { value: { range: [0, 100] }, seed: { range: [0, 100] } } } }\n",
    );
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    let page = sandbox.read("results/reports/page/index.html");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}
