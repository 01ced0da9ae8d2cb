//! A gallery of bad recipes, one mistake each, with the message that an author sees.

use crate::sandbox::Sandbox;

/// A recipe with one step `a` that uses `mock`.
fn step(rest: &str) -> String {
    format!("steps:\n  a:\n    uses: mock\n    {rest}\n")
}

fn table(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ value: [1, 2] }} }} }}\ntables:\n  t: {{ {rest} }}\n")
}

fn claim(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ value: [1, 2] }} }} }}\nclaims:\n  c: {{ {rest} }}\n")
}

fn figure(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ value: [1, 2] }} }} }}\nfigures:\n  f: {{ {rest} }}\n")
}

fn gallery() -> Vec<(&'static str, String)> {
    vec![
        // YAML.
        ("yaml-unclosed-list", "steps: [a".into()),
        ("yaml-unclosed-quote", "name: 'x\nsteps: { a: { uses: mock } }\n".into()),
        ("yaml-bad-indent", "steps:\n  a:\n    uses: mock\n   with: { value: 1 }\n".into()),
        ("yaml-tab", "steps:\n\ta: { uses: mock }\n".into()),
        ("yaml-duplicate-key", step("uses: mock")),
        ("yaml-two-documents", "steps: { a: { uses: mock } }\n---\nb: 1\n".into()),
        ("yaml-unknown-alias", "steps: { a: *base }\n".into()),
        ("yaml-expression-in-flow", step("with: { value: ${{ params.v }} }")),
        ("yaml-key-is-null", "steps: { ~: { uses: mock } }\n".into()),
        // Shapes.
        ("empty", String::new()),
        ("not-a-map", "- steps\n".into()),
        ("no-steps", "name: x\n".into()),
        ("empty-steps", "steps: {}\n".into()),
        ("steps-is-a-list", "steps:\n  - a\n".into()),
        ("step-is-text", "steps: { a: mock }\n".into()),
        ("unknown-key", "nmae: x\nsteps: { a: { uses: mock } }\n".into()),
        ("unknown-step-key", step("wiht: { value: 1 }")),
        ("no-uses", "steps: { a: { with: { value: 1 } } }\n".into()),
        ("unknown-task", "steps: { a: { uses: tarin } }\n".into()),
        ("uses-is-a-list", "steps: { a: { uses: [mock] } }\n".into()),
        ("name-is-a-number", "name: 3\nsteps: { a: { uses: mock } }\n".into()),
        ("bad-recipe-name", "name: a/b\nsteps: { a: { uses: mock } }\n".into()),
        ("bad-step-name", "steps: { 'a b': { uses: mock } }\n".into()),
        // Values.
        ("unknown-parameter", step("with: { valeu: 1 }")),
        ("text-for-a-number", step("with: { value: fast }")),
        ("quoted-number", step("with: { steps: '3' }")),
        ("fraction-for-an-integer", step("with: { steps: 1.5 }")),
        ("out-of-range", step("with: { seconds: -1 }")),
        ("unknown-word", step("with: { end: faill }")),
        ("null", step("with: { value: null }")),
        ("list-for-a-number", step("with: { value: [1] }")),
        ("leading-zero", step("with: { value: 010 }")),
        ("underscore", step("with: { value: 1_000 }")),
        ("not-finite", step("with: { value: .nan }")),
        ("missing-input", step("with: { input: missing.txt }")),
        // Expressions.
        ("unknown-param", step("with: { value: '${{ params.v }}' }")),
        ("unknown-axis", step("matrix: { seed: [1] }\n    with: { value: '${{ matrix.sed }}' }")),
        ("unknown-scope", step("with: { value: '${{ env.HOME }}' }")),
        ("expression-without-end", step("with: { value: '${{ params.v' }")),
        ("expression-in-params", format!("params: {{ v: '${{{{ params.w }}}}' }}\n{}", step("with: { value: 1 }"))),
        // Needs.
        ("unknown-need", step("needs: b")),
        ("needs-itself", step("needs: a")),
        ("cycle", "steps: { a: { uses: mock, needs: b }, b: { uses: mock, needs: a } }\n".into()),
        ("needed-twice", "steps: { a: { uses: mock }, b: { uses: mock, needs: [a, a] } }\n".into()),
        ("needs-no-agreeing-point", "steps:\n  b: { uses: mock, matrix: { seed: [1] } }\n  a: { uses: mock, needs: b, matrix: { seed: [2] } }\n".into()),
        // Matrices.
        ("axis-is-a-scalar", step("matrix: { seed: 3 }")),
        ("axis-is-empty", step("matrix: { seed: [] }")),
        ("axis-value-twice", step("matrix: { value: [1, 1.0] }")),
        ("unused-axis", step("matrix: { colour: [red] }")),
        ("unknown-axis-form", step("matrix: { seed: { rnage: [0, 3] } }")),
        ("range-of-two-needed", step("matrix: { seed: { range: [3] } }")),
        ("empty-range", step("matrix: { seed: { range: [3, 0] } }")),
        ("logspace-of-zero", step("matrix: { value: { logspace: [0, 1, 3] } }")),
        ("zip-of-different-lengths", step("matrix: { zip: { seed: [1, 2], value: [1] } }")),
        ("random-without-n", step("matrix: { random: { axes: { value: { uniform: [0, 1] } } } }")),
        ("exclude-nothing", step("matrix: { seed: [1], exclude: [{ seed: 2 }] }")),
        ("exclude-everything", step("matrix: { seed: [1], exclude: [{ seed: 1 }] }")),
        ("include-incomplete", step("matrix: { seed: [1], value: [1], include: [{ seed: 2 }] }")),
        ("include-again", step("matrix: { seed: [1], include: [{ seed: 1 }] }")),
        ("seeds-is-negative", step("seeds: -1")),
        ("ablate-without-design", step("ablate: { baseline: { value: 1 }, factors: { value: 2 } }")),
        ("ablate-without-baseline", step("ablate: { design: add-one, baseline: {}, factors: { value: 2 } }")),
        ("condition-bare-word", step("matrix: { end: [done] }\n    if: matrix.end == done")),
        ("condition-unknown-name", step("matrix: { seed: [1] }\n    if: matrix.sede == 1")),
        ("condition-no-truth", step("matrix: { seed: [1] }\n    if: matrix.seed")),
        ("axis-of-a-step-not-needed", step("matrix: { seed: '${{ needs.b.axes.seed }}' }")),
        // What becomes of a job.
        ("timeout-without-unit", step("timeout: 30")),
        ("timeout-of-nothing", step("timeout: 0s")),
        ("memory-of-unknown-unit", step("resources: { memory: 4 gigs }")),
        ("too-many-retries", step("retries: 1000")),
        ("exclusive-is-text", step("exclusive: yes")),
        // What does not go together.
        ("heads-do-not-divide", "steps: { a: { uses: train, with: { n_head: 5 } } }\n".into()),
        ("program-without-a-program", "steps: { a: { uses: command } }\n".into()),
        ("output-outside", "steps: { a: { uses: command, with: { run: 'true', outputs: [../x] } } }\n".into()),
    ]
}

/// Mistakes in the reports.
fn reports() -> Vec<(&'static str, String)> {
    vec![
        // Tables.
        ("table-without-from", table("rows: [value], cells: [value]")),
        ("table-of-unknown-step", table("from: b, cells: [value]")),
        ("table-without-cells", table("from: a, rows: [value]")),
        ("table-unknown-metric", table("from: a, cells: [valeu]")),
        ("table-unknown-axis", table("from: a, rows: [vlaue], cells: [value]")),
        ("table-axis-twice", table("from: a, rows: [value], columns: [value], cells: [value]")),
        ("table-selects-nothing", table("from: a, where: { value: 3 }, cells: [value]")),
        ("table-compares-nothing", table("from: a, compare: { axis: value, pairs: [] }, cells: [value]")),
        ("table-compares-one", table("from: a, compare: { axis: value, pairs: [[1]] }, cells: [value]")),
        ("table-compares-unknown", table("from: a, compare: { axis: value, pairs: [[1, 3]] }, cells: [value]")),
        (
            "table-compares-rows",
            table("from: a, rows: [value], compare: { axis: value, pairs: [[1, 2]] }, cells: [value]"),
        ),
        // Figures.
        ("figure-without-kind", figure("from: a, x: value, y: value")),
        ("figure-unknown-kind", figure("from: a, kind: liine, x: iteration, y: value")),
        ("figure-without-y", figure("from: a, kind: bar, x: value")),
        ("figure-unknown-step", figure("from: b, kind: bar, x: value, y: value")),
        ("figure-unknown-axis", figure("from: a, kind: bar, x: vlaue, y: value")),
        ("figure-unknown-metric", figure("from: a, kind: scatter, x: value, y: valeu")),
        ("figure-unknown-curve", figure("from: a, kind: line, x: iteration, y: loss")),
        ("figure-unknown-color", figure("from: a, kind: bar, x: value, y: value, color: sede")),
        ("figure-timeline-of-a-metric", figure("from: a, kind: timeline, x: value")),
        ("figure-roofline-without-roofs", figure("from: a, kind: roofline, x: value, y: value")),
        ("figure-roof-is-nothing", figure("from: a, kind: roofline, x: value, y: value, roofs: { compute: -1 }")),
        ("figure-unknown-band", figure("from: a, kind: bar, x: value, y: value, band: sd")),
        // Claims.
        ("claim-of-nothing", claim("says: it is so")),
        ("claim-of-two-things", claim("value: { metric: value, of: { step: a } }, order: {}, expect: { at_most: 1 }")),
        ("claim-without-expect", claim("value: { metric: value, of: { step: a } }")),
        ("claim-expects-nothing", claim("value: { metric: value, of: { step: a } }, expect: {}")),
        (
            "claim-expects-the-impossible",
            claim("value: { metric: value, of: { step: a } }, expect: { at_least: 2, at_most: 1 }"),
        ),
        ("claim-unknown-step", claim("value: { metric: value, of: { step: b } }, expect: { at_most: 1 }")),
        ("claim-without-step", claim("value: { metric: value, of: { value: 1 } }, expect: { at_most: 1 }")),
        ("claim-unknown-axis", claim("value: { metric: value, of: { step: a, sede: 1 } }, expect: { at_most: 1 }")),
        ("claim-unknown-value", claim("value: { metric: value, of: { step: a, value: 3 } }, expect: { at_most: 1 }")),
        ("claim-unknown-metric", claim("value: { metric: valeu, of: { step: a } }, expect: { at_most: 1 }")),
        ("claim-compares-nothing", claim("ratio: { metric: value, of: { step: a } }, expect: { at_most: 1 }")),
        (
            "claim-unknown-backend",
            claim("value: { metric: value, of: { step: a } }, expect: { at_most: 1 }, hardware: [cudaa]"),
        ),
        ("claim-order-of-one", claim("order: { metric: value, step: a, axis: value, ascending: [1] }")),
        (
            "claim-order-expects",
            claim("order: { metric: value, step: a, axis: value, ascending: [1, 2] }, expect: { at_most: 1 }"),
        ),
    ]
}

#[test]
fn every_mistake_has_its_place() {
    let gallery = [gallery(), reports()].concat();
    let mut texts = Vec::new();
    for (name, recipe) in &gallery {
        let sandbox = Sandbox::with(recipe);
        let ended = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu"]);
        assert_eq!(ended.code, Some(3), "{name}: {}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.stderr.matches("  × ").count(), 1, "{name} is one mistake: {}", ended.stderr);
        assert!(ended.stderr.contains("╭─[recipe.yaml:"), "{name} has no place: {}", ended.stderr);
        texts.push((name, ended.stderr));
    }
    for (name, text) in texts {
        insta::assert_snapshot!(format!("gallery-{name}"), text);
    }
}
