//! All formats of a table, from one fixed store: measured, compared, missing and dangerous values.

use std::{fmt::Write as _, process::Command};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const STUDY: &str = r#"
name: fixed
steps:
  train:
    uses: train
    matrix:
      prune: [none, magnitude, bitter7, bitter8]
      optimizer: [adamw, adamwspam]
      exclude: [{ prune: bitter8, optimizer: adamwspam }]
    seeds: 3
  score:
    uses: command
    matrix: { label: ["=cmd|' /C calc'!A0", "<script>alert(1)</script>", "a_b & 50 % {x} \\input{y}", "@sum"] }
    with: { run: "echo cost=1", env: { LABEL: "${{ matrix.label }}" } }
tables:
  quality:
    title: Loss & time of `train`, 50 % pruned
    from: train
    where: { prune: [none, magnitude, bitter7] }
    rows: [prune]
    columns: [optimizer]
    cells: [loss, time.step]
    paper:
      - { prune: none, optimizer: adamw, loss: 3.15, time.step: 40ms }
      - { prune: magnitude, optimizer: adamw, loss: 3.5 }
  memory:
    from: train
    rows: [prune, optimizer]
    cells: [memory.peak, sparsity, perplexity]
    best: { memory.peak: none, perplexity: min }
  differences:
    from: train
    where: { optimizer: adamw }
    compare: { axis: prune, pairs: [[magnitude, none], [bitter7, magnitude], [bitter8, none]] }
    cells: [loss, time.step]
  ratios:
    from: train
    compare: { axis: prune, pairs: [[magnitude, none], [bitter7, magnitude]], show: ratio, noise: seed }
    cells: [memory.peak]
  hostile: { title: "<b>|*_", from: score, rows: [label], cells: [cost] }
claims:
  pruning-costs:
    says: Magnitude pruning costs less than 10 % of the loss & nothing_else.
    ratio: { metric: loss, of: { step: train, prune: magnitude, optimizer: adamw }, to: { step: train, prune: none, optimizer: adamw } }
    expect: { at_most: 1.1 }
    paper: 1.04
"#;

/// The study with a record for most of its jobs, and a run whose journal has the outcomes of the others.
pub(crate) fn fixed() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("{}", plan.stderr));
    let mut journal = String::new();
    for job in plan["jobs"].as_array().unwrap() {
        let (label, key) = (job["label"].as_str().unwrap(), job["key"].as_str().unwrap());
        let event = if label.contains("prune=bitter7,optimizer=adamwspam") {
            let failure = json!({ "kind": "experiment", "message": "loss is NaN at iteration 41" });
            json!({ "failed": { "job": 0, "seconds": 1.0, "failure": failure, "log": null } })
        } else if label.contains("prune=magnitude,optimizer=adamwspam,seed=2") {
            json!({ "skipped": { "job": 1, "because": 0 } })
        } else {
            json!(null)
        };
        if !event.is_null() {
            let line = json!({ "at": "2026-01-01T00:00:00Z", "label": label, "key": key, "event": event });
            writeln!(journal, "{line}").unwrap();
            continue;
        }
        if label.contains("prune=bitter8") && !label.ends_with("seed=0") {
            continue;
        }
        record(&sandbox, label, key);
    }
    fs_err::create_dir_all(sandbox.path("results/runs/20260101T000000Z-1")).unwrap();
    sandbox.write("results/runs/20260101T000000Z-1/journal.jsonl", &journal);
    let manifest = json!({
        "format": 1, "recipe": "fixed", "at": "2026-01-01T00:00:00Z", "pid": 1, "host": "here",
        "limits": { "cpus": 2, "gpus": 0, "memory": 0, "jobs": 2 },
        "jobs": [{
            "label": "prepare", "key": "0".repeat(64), "wanted": "yes",
            "demand": { "cpus": 1, "gpus": 0, "memory": 0, "exclusive": false },
        }],
    });
    sandbox.write("results/runs/20260101T000000Z-1/plan.json", &manifest.to_string());
    sandbox
}

fn record(sandbox: &Sandbox, label: &str, key: &str) {
    let methods = ["prune=none", "prune=magnitude", "prune=bitter7", "prune=bitter8"];
    let method = methods.iter().position(|method| label.contains(method)).unwrap_or(0) as f64;
    let seed: f64 = label.rsplit("seed=").next().unwrap().parse().unwrap_or(0.0);
    let spam = if label.contains("adamwspam") { 1.0 } else { 0.0 };
    let loss = 3.1 + 0.2 * method - 0.16 * (method - 1.0).max(0.0) + 0.031 * seed - spam * (0.05 + 0.06 * (seed - 1.0))
        + if method == 2.0 { 0.04 * (seed - 1.0) * (seed - 1.5) } else { 0.002 * method * seed };
    let metrics = if label.starts_with("score") {
        json!({ "cost": { "value": -1.5, "unit": "1" } })
    } else {
        json!({
            "loss": { "value": loss, "unit": "nats" },
            "perplexity": { "value": loss.exp(), "unit": "1" },
            "sparsity": { "value": 0.5 * method.min(1.0), "unit": "fraction" },
            "memory.peak": { "value": 1e8 * (1.0 + 0.1 * method + 0.001 * seed), "unit": "B" },
            "time.step": { "value": 0.04 + 0.003 * method + 0.000_5 * seed * seed, "unit": "s" },
        })
    };
    let record = json!({
        "format": 1, "key": key, "label": label, "params": {},
        "identity": { "format": 1, "task": "train", "revision": 1 },
        "outcome": { "metrics": metrics },
        "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 1.0, "threads": 1, "host": "here" },
    });
    let folder = format!("results/store/{}/{key}", &key[..2]);
    fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
    sandbox.write(&format!("{folder}/record.json"), &record.to_string());
}

fn report(sandbox: &Sandbox, format: &str) -> String {
    let ended = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu", "--format", format]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn every_format_of_every_table() {
    let sandbox = fixed();
    for format in ["term", "md", "latex", "csv"] {
        let text = report(&sandbox, format);
        insta::with_settings!({ snapshot_suffix => format, omit_expression => true }, {
            insta::assert_snapshot!(text);
        });
    }
    for (end, format) in [("md", "md"), ("tex", "latex"), ("csv", "csv")] {
        let file = sandbox.read(&format!("results/reports/fixed/tables/quality.{end}"));
        assert!(report(&sandbox, format).starts_with(&file), "the file is what is printed as {format}");
    }
}

#[test]
fn no_spreadsheet_computes_a_label() {
    let csv = report(&fixed(), "csv");
    let starts = csv.lines().flat_map(|line| line.split(',')).filter_map(|field| {
        let field = field.trim_matches('"');
        (field.starts_with(['=', '+', '-', '@', '\t']) && field.parse::<f64>().is_err()).then_some(field)
    });
    assert_eq!(starts.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(csv.contains("'=cmd") && csv.contains("'@sum"), "{csv}");
    assert!(csv.lines().any(|line| line.starts_with("'@sum,cost,,-1.5,")), "a negative number is a number: {csv}");
}

/// Runs LaTeX where it is installed, in both encodings of its fonts; elsewhere, checks the properties that every text must have.
#[test]
fn latex_compiles() {
    let sandbox = fixed();
    for (format, packages) in [("latex", PACKAGES.to_vec()), ("latex-siunitx", [&PACKAGES[..], &["siunitx"]].concat())]
    {
        let tables = report(&sandbox, format);
        assert_eq!(tables.matches("\\caption{").count(), 6);
        for (open, close) in [("\\caption{", "\\label{"), ("\\toprule", "\\bottomrule")] {
            assert_eq!(tables.matches(open).count(), tables.matches(close).count(), "{open}");
        }
        let bare = tables.replace("\\{", "").replace("\\}", "");
        assert_eq!(bare.matches('{').count(), bare.matches('}').count(), "braces go in pairs");
        assert!(!tables.contains('`'), "a backtick is a quotation mark: {tables}");
        for encoding in ["OT1", "T1"] {
            let _ = set(&sandbox, &tables, encoding, &packages);
        }
    }
}

#[test]
fn symbols_are_set_with_both_encodings() {
    let sandbox = Sandbox::with(
        r#"
name: symbols
steps:
  a:
    uses: command
    matrix:
      label:
        - "--α_1 ≤ 2β → √x² ± ∞, \"q\" `c` ?`!`"
        - "ΓΔΘΛΠΣΦΨΩ γδεζηθικλμνξπρστφχψω"
        - "− × · ≈ ≠ ≥ ← ↔ ∝ ∈ ∂ ∇ ∑ ∫ ‖ ′ ° µ ½ ¬ é ß ø … –"
        - "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷᶻⁿ⁻⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃ₜ"
    with: { run: echo cost=1, env: { LABEL: "${{ matrix.label }}" } }
tables: { t: { from: a, rows: [label], cells: [cost] } }
"#,
    );
    let table = report(&sandbox, "latex");
    assert!(table.contains("\n-{}-$\\alpha$\\_1 $\\leq$ 2$\\beta$ "), "{table}");
    assert!(!table.contains('`'), "{table}");
    for encoding in ["OT1", "T1"] {
        let _ = set(&sandbox, &table, encoding, &PACKAGES);
    }
}

#[test]
fn columns_of_a_group_share_a_heading() {
    let tables = report(&fixed(), "latex");
    for text in [
        " & \\multicolumn{6}{c}{optimizer=adamw} & \\multicolumn{2}{c}{optimizer=adamwspam} \\\\\n\\cmidrule(lr){2-7}\\cmidrule(lr){8-9}\n",
        "\nprune & Loss (nats) & paper (nats) & $\\Delta$ (\\%) & Time: step (ms) & paper (ms) & $\\Delta$ (\\%) & Loss (nats) & Time: step (ms) \\\\\n",
    ] {
        assert!(tables.contains(text), "{text}: {tables}");
    }
    let sandbox = Sandbox::with(
        "name: groups\nsteps: { a: { uses: mock, matrix: { value: [1, 2], text: [x, y], seconds: [0, 0.001] } } }\n\
         tables: { t: { from: a, rows: [value], columns: [text, seconds], cells: [value] } }\n",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let table = sandbox.read("results/reports/groups/tables/t.tex");
    let header = " & \\multicolumn{4}{c}{Value} \\\\\n\\cmidrule(lr){2-5}\n & \\multicolumn{2}{c}{text=x} & \\multicolumn{2}{c}{text=y} \\\\\n\
                  \\cmidrule(lr){2-3}\\cmidrule(lr){4-5}\nvalue & seconds=0 & seconds=0.001 & seconds=0 & seconds=0.001 \\\\\n\\midrule\n";
    assert!(table.contains(header), "{table}");
}

#[test]
fn numbers_are_aligned_by_siunitx() {
    let tables = report(&fixed(), "latex-siunitx");
    for text in [
        "% \\usepackage{booktabs,graphicx,rotating,siunitx}",
        "\\sisetup{",
        "none & \\bfseries 3.131 \\pm 0.078 & 3.15 & {$\\approx$ } -0.60 & ",
        " & {Loss (nats)} & ",
    ] {
        assert!(tables.contains(text), "{text}: {tables}");
    }
}

/// The packages of tables without `siunitx`.
const PACKAGES: [&str; 3] = ["booktabs", "graphicx", "rotating"];

/// Sets tables with LaTeX; answers its messages, or `None` where it or a package is not installed.
fn set(sandbox: &Sandbox, tables: &str, encoding: &str, packages: &[&str]) -> Option<String> {
    let document = format!(
        "\\documentclass{{article}}\n\\usepackage[{encoding}]{{fontenc}}\n\\usepackage{{{}}}\n\\begin{{document}}\n{tables}\\end{{document}}\n",
        packages.join(",")
    );
    sandbox.write("document.tex", &document);
    let files = packages.iter().map(|package| format!("{package}.sty"));
    if !Command::new("kpsewhich").args(files).output().is_ok_and(|output| output.status.success()) {
        eprintln!("LaTeX was not asked: it is not installed, or not with the packages {}", packages.join(", "));
        return None;
    }
    let output = Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "document.tex"])
        .current_dir(sandbox.path("."))
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{messages}");
    assert!(sandbox.path("document.pdf").is_file());
    Some(messages)
}

#[test]
fn latex_has_room_for_every_column() {
    for (columns, float) in [(5, "table"), (9, "table"), (16, "sidewaystable"), (40, "sidewaystable")] {
        let sandbox = Sandbox::with(&format!(
            "name: wide\nsteps: {{ a: {{ uses: mock, matrix: {{ value: [1, 2], seed: {{ range: [0, {columns}] }} }} }} }}\n\
             tables: {{ t: {{ from: a, rows: [value], columns: [seed], cells: [value] }} }}\n"
        ));
        assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
        let table = sandbox.read("results/reports/wide/tables/t.tex");
        assert!(table.contains(&format!("\\begin{{{float}}}")), "{table}");
        for column in 0..columns {
            assert_eq!(table.matches(&format!("seed={column} ")).count(), 1, "{table}");
        }
        let parts = table.matches("\\begin{tabular}").count();
        assert_eq!(parts > 1, columns > 16, "{parts}: {table}");
        assert_eq!(table.matches("value & ").count(), parts, "every part has the labels: {table}");
        if let Some(messages) = set(&sandbox, &table, "T1", &PACKAGES) {
            assert!(!messages.contains("Overfull"), "{columns}: {messages}");
        }
    }
}
