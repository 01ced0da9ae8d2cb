//! Keys that decide the presentation of a figure: scales, limits, labels, legend, palette, and the style of a paper.

use std::fmt::Write as _;

use crate::sandbox::Sandbox;

/// A throughput that grows with the batch and repeats with noise, and a size of zero.
const STEPS: &str = "\
name: drawn
steps:
  a:
    uses: command
    matrix: { batch: [1, 2, 4, 8, 16], fused: [false, true] }
    seeds: 3
    with:
      run: >-
        awk -v b=$B -v f=$F -v s=$SWEEP_SEED 'BEGIN { print \"speed=\" b * (f == \"true\" ? 120 : 100) + s * b;
        printf \"{\\\"when\\\": {\\\"value\\\": %d, \\\"unit\\\": \\\"ms\\\"}}\\n\", b + s > ENVIRON[\"SWEEP_REPORT\"];
        print \"time.step=\" 0.001 * b + 0.0001 * s; print \"none=0\"; print \"gap=\" (b == 4 ? \"nan\" : b) }'
      env: { B: '${{ matrix.batch }}', F: '${{ matrix.fused }}' }
";

/// The SVGs of figures, by name.
fn drawn(figures: &[(&str, &str)]) -> (Sandbox, Vec<Option<String>>) {
    let text = figures.iter().fold(format!("{STEPS}figures:\n"), |mut text, (name, keys)| {
        writeln!(text, "  {name}: {{ from: a, {keys} }}").unwrap();
        text
    });
    let sandbox = Sandbox::with(&text);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let read =
        |name: &str| fs_err::read_to_string(sandbox.path(&format!("results/reports/drawn/figures/{name}.svg"))).ok();
    let all = figures.iter().map(|(name, _)| read(name)).collect();
    (sandbox, all)
}

/// The texts in a drawing.
fn texts(svg: &str) -> Vec<String> {
    let texts =
        svg.split("<text").skip(1).map(|text| text.split_once('>').unwrap().1.split('<').next().unwrap().trim());
    texts.map(str::to_owned).collect()
}

fn has(svg: &str, text: &str) -> bool {
    texts(svg).iter().any(|found| found == text)
}

#[test]
fn a_metric_over_an_axis_is_a_line_with_a_band() {
    let (_sandbox, all) = drawn(&[
        ("plain", "kind: line, x: batch, y: speed, color: fused"),
        ("bare", "kind: line, x: batch, y: speed, color: fused, band: none"),
        ("words", "kind: line, x: fused, y: speed"),
    ]);
    let [plain, bare, words] = [0, 1, 2].map(|index| all[index].clone().unwrap());
    // Two bands below two lines; five values of the axis, doubled, so they are on a logarithmic scale.
    assert_eq!(plain.matches("<polygon").count(), 2 + 5, "bands, and the triangles of the second line");
    assert_eq!(bare.matches("<polygon").count(), 5);
    assert!(plain.rfind("opacity=\"0.16\"") < plain.find("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0072B2\""));
    for text in ["1", "2", "4", "8", "16", "batch (logarithmic)", "Speed", "fused=true", "fused=false"] {
        assert!(has(&plain, text), "{text}: {:?}", texts(&plain));
    }
    assert!(has(&words, "false") && has(&words, "true") && has(&words, "fused"));
}

#[test]
fn scales_and_limits_and_labels_are_those_of_the_author() {
    let (_sandbox, all) = drawn(&[
        (
            "log",
            "kind: line, x: batch, y: speed, xscale: linear, yscale: log, xlabel: Batch, ylabel: 'Images a second'",
        ),
        ("cut", "kind: scatter, x: time.step, y: speed, xlim: [0.0015, 0.0045], ylim: [null, 1000]"),
        ("bars", "kind: bar, x: batch, y: speed, yscale: log, ylim: [10, 10000]"),
        ("dots", "kind: pareto, x: time.step, y: speed, xscale: log, yscale: log, color: fused"),
        ("unit", "kind: line, x: batch, y: when, xlabel: Batch, ylabel: A step"),
    ]);
    let [log, cut, bars, dots, unit] = [0, 1, 2, 3, 4].map(|index| all[index].clone().unwrap());
    // The prefix follows the numbers, so no author can write the unit.
    assert!(has(&unit, "A step (ms)") && has(&unit, "Batch (logarithmic)"), "{:?}", texts(&unit));
    for text in ["Batch", "Images a second", "500", "1000"] {
        assert!(has(&log, text), "{text}: {:?}", texts(&log));
    }
    assert!(!has(&log, "batch (logarithmic)") && !has(&log, "Speed"));
    // Batches of 2 and 4 are between 1.5 and 4.5 ms: two settings and three seeds each.
    assert_eq!(cut.matches("<circle").count(), 12, "what lies beyond the limits is not drawn");
    for text in ["10", "100", "1000", "10000"] {
        assert!(has(&bars, text), "{text}: {:?}", texts(&bars));
    }
    assert!(dots.matches("<circle").count() >= 15, "{dots}");
}

#[test]
fn legends_and_palettes_can_be_chosen() {
    let (_sandbox, all) = drawn(&[
        ("right", "kind: line, x: batch, y: speed, color: fused"),
        ("bottom", "kind: line, x: batch, y: speed, color: fused, legend: bottom, palette: tol"),
        ("off", "kind: line, x: batch, y: speed, color: fused, legend: none, palette: gray"),
    ]);
    let [right, bottom, off] = [0, 1, 2].map(|index| all[index].clone().unwrap());
    let place = |svg: &str, text: &str| {
        let at = svg.find(&format!(">\n{text}\n")).unwrap();
        let tag = &svg[svg[..at].rfind("<text").unwrap()..at];
        let number = |name: &str| -> i32 {
            tag.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        (number("x"), number("y"))
    };
    assert!(place(&right, "fused=true").0 > 600 && place(&right, "fused=true").1 < 120);
    assert!(place(&bottom, "fused=true").1 > 430, "{:?}", place(&bottom, "fused=true"));
    assert!(!has(&off, "fused=true"));
    assert!(right.contains("#0072B2") && bottom.contains("#4477AA") && off.contains("#3C3C3C"));
}

#[test]
fn a_figure_of_a_paper_is_narrow_and_also_a_pdf() {
    let (sandbox, all) = drawn(&[
        ("narrow", "kind: line, x: batch, y: speed, color: fused, style: paper, title: Not in the drawing"),
        ("wide", "kind: heat, x: batch, y: fused, value: speed, style: paper"),
        ("page", "kind: line, x: batch, y: speed"),
    ]);
    let narrow = all[0].clone().unwrap();
    assert!(narrow.contains("width=\"387\" height=\"270\""), "{narrow}");
    assert!(!narrow.contains("Not in the drawing"), "a paper has a caption");
    let file = |name: &str| sandbox.path(&format!("results/reports/drawn/figures/{name}.pdf"));
    assert!(!file("page").exists());
    for (name, width) in [("narrow", "238.00"), ("wide", "504.00")] {
        let pdf = fs_err::read(file(name)).unwrap();
        let text = String::from_utf8(pdf).unwrap();
        assert!(text.starts_with("%PDF-1.4") && text.ends_with("%%EOF\n"));
        assert!(text.contains(&format!("/MediaBox [0 0 {width}")), "{name}");
        // Every object is where the table of references says.
        let start: usize = text.rsplit("startxref\n").next().unwrap().lines().next().unwrap().parse().unwrap();
        let table: Vec<&str> = text[start..].lines().skip(2).take_while(|line| line.len() == 19).collect();
        assert_eq!(table.len(), 5, "{table:?}");
        for (index, line) in table.iter().enumerate().skip(1) {
            let place: usize = line[..10].parse().unwrap();
            assert!(text[place..].starts_with(&format!("{index} 0 obj")), "{name}: object {index}");
        }
        let length: usize = text.split("/Length ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let stream = text.split("stream\n").nth(1).unwrap().trim_end_matches("end");
        assert_eq!(stream.len(), length, "{name}");
    }
    // An earlier PDF goes when the style does.
    let recipe = sandbox.read("recipe.yaml").replace(", style: paper", "");
    sandbox.write("recipe.yaml", &recipe);
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml"]).code, Some(0));
    assert!(!file("narrow").exists());
}

#[test]
fn an_empty_figure_says_why_and_the_plan_says_it_before() {
    let (sandbox, all) = drawn(&[
        ("zeros", "kind: line, x: batch, y: none, yscale: log"),
        ("beyond", "kind: scatter, x: time.step, y: speed, xlim: [5, null]"),
        ("lone", "kind: line, x: batch, y: speed, where: { batch: 4 }"),
        ("unmeasured", "kind: bar, x: batch, y: accuracy"),
    ]);
    assert!(all.iter().all(Option::is_none));
    let page = sandbox.read("results/reports/drawn/index.html");
    for text in [
        "zeros: there is nothing to draw, because no number is above zero",
        "beyond: there is nothing to draw, because no number is between the limits",
        "lone: there is nothing to draw, because its axes have one value each",
        "unmeasured: there is nothing to draw, because no record has the numbers",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let plan = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(plan.contains("figure `lone` will be empty: its axes have one value each"), "{plan}");
    assert!(!plan.contains("`zeros`"), "numbers are not known in advance: {plan}");
    let part = sandbox.sweep(&["plan", "recipe.yaml", "--axis", "batch=64", "--only", "a/fused=true"]).stdout;
    assert!(part.contains("figure `lone` will be empty: no job of it is selected"), "{part}");
}

#[test]
fn no_figure_breaks_on_odd_numbers() {
    let sandbox = Sandbox::new();
    let values = ["1e308", "-1e308", "nan", "inf", "0", "1e-300"];
    let kinds = [
        "kind: line, x: n, y: v",
        "kind: line, x: n, y: v, yscale: log, xscale: log, ylim: [1e-300, 1e300]",
        "kind: bar, x: n, y: v, yscale: log",
        "kind: bar, x: n, y: v, ylim: [-1, 1]",
        "kind: scatter, x: v, y: v, xscale: log, yscale: log",
        "kind: pareto, x: v, y: w, xlim: [null, 1], ylim: [-1e308, 1e308]",
        "kind: histogram, x: v, legend: bottom",
        "kind: heat, x: n, y: n, value: v, xlabel: a, ylabel: b",
        "kind: slice, x: n, y: v",
        "kind: parallel, value: v",
    ];
    let mut text = "name: odd\nsteps: { a: { uses: command, matrix: { n: [-1, 0, 1, 2, 3, 1000000] }, with: { \
        run: 'set -- VALUES; shift $(( (N % 7 + 7) % 6 )); echo v=$1; echo w=$N', env: { N: '${{ matrix.n }}' } } } }\nfigures:\n"
        .replace("VALUES", &values.join(" "));
    for (index, kind) in kinds.iter().enumerate() {
        for (style, more) in ["", ", style: paper", ", color: n, legend: bottom"].iter().enumerate() {
            // Some kinds have no legend, and some no color.
            let takes_color = !["heat", "parallel"].iter().any(|word| kind.contains(word)) && !kind.contains("legend");
            if style < 2 || takes_color {
                writeln!(text, "  f{index}{style}: {{ from: a, {kind}{more} }}").unwrap();
            }
        }
    }
    sandbox.write("recipe.yaml", &text);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panic"), "{}", ended.stderr);
}
