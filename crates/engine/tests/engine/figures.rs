//! Figures: drawn from records, as SVG.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, sealed};

const STUDY: &str = "\
name: drawn
steps:
  train:
    uses: train
    matrix: { prune: [none, magnitude, bitter7] }
    seeds: 3
figures:
  loss: { title: Loss while training, from: train, kind: line, x: iteration, y: loss, color: prune }
  memory: { from: train, kind: bar, x: prune, y: memory.peak }
  speed: { from: train, kind: bar, x: seed, y: throughput.tokens_per_s, color: prune, band: none }
  trade: { from: train, kind: scatter, x: time.step, y: loss, color: prune }
  front: { from: train, kind: pareto, x: time.step, y: loss, color: prune }
  heat: { title: Memory by method and seed, from: train, kind: heat, x: prune, y: seed, value: memory.peak }
  spread: { from: train, kind: histogram, x: loss, color: prune }
  when: { title: When, from: train, kind: timeline, color: prune }
  undrawn: { from: train, kind: line, x: iteration, y: val_loss }
";

/// Gives every job of the study a record, as if it had run on this machine.
fn records(sandbox: &Sandbox) {
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    for (index, job) in plan["jobs"].as_array().unwrap().iter().enumerate() {
        let (method, seed) = ((index / 3) as f64, (index % 3) as f64);
        let key = job["key"].as_str().unwrap();
        let at: Vec<u64> = (1..=20).map(|step| step * 10).collect();
        let curve: Vec<f64> = at
            .iter()
            .map(|at| {
                2.2 + 0.15 * method + 3.0 / (1.0 + *at as f64 / 25.0) + 0.06 * (seed - 1.0) * (*at as f64 / 40.0).sin()
            })
            .collect();
        let loss = curve.last().unwrap() + 0.02 * seed;
        // Two at a time, and the last three an hour later.
        let started = format!("2026-01-01T0{}:00:{:02}Z", index / 6, 1 + index / 2);
        let record = json!({
            "format": 1, "key": key, "label": job["label"], "params": {},
            "identity": { "format": 1, "task": "train", "revision": 1 },
            "outcome": {
                "metrics": {
                    "loss": { "value": loss, "unit": "nats" },
                    "memory.peak": { "value": 1e8 * (1.0 + 0.3 * method + 0.05 * seed), "unit": "B" },
                    "throughput.tokens_per_s": { "value": 12000.0 - 900.0 * method + 200.0 * seed, "unit": "tokens/s" },
                    "time.step": { "value": 0.04 + 0.003 * method + 0.0005 * seed, "unit": "s" },
                },
                "curves": { "loss": { "unit": "nats", "at": at, "values": curve } },
            },
            "provenance": { "sweep": "0", "started": started, "seconds": 1.0 + 0.1 * index as f64, "threads": 1, "host": "here" },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
}

#[test]
fn figures_are_drawn_from_records() {
    let sandbox = Sandbox::with(STUDY);
    records(&sandbox);
    let ended = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut all = String::new();
    for name in ["loss", "memory", "speed", "trade", "front", "heat", "spread", "when"] {
        let svg = sandbox.read(&format!("results/reports/drawn/figures/{name}.svg"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
        writeln!(all, "{name}\n{svg}").unwrap();
        // The same picture, twice as large, and not empty.
        let png = fs_err::read(sandbox.path(&format!("results/reports/drawn/figures/{name}.png"))).unwrap();
        let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (1520, 920), "{name}");
        let inked = pixels.pixels().iter().filter(|pixel| pixel.red() < 250 || pixel.blue() < 250).count();
        assert!(inked > 5_000, "{name} has {inked} pixels of ink");
    }
    assert!(!sandbox.path("results/reports/drawn/figures/undrawn.svg").exists(), "there is nothing to draw");
    insta::assert_snapshot!(all);
}

/// The texts in a drawing, without the numbers on its axes.
fn texts(svg: &str) -> String {
    let texts =
        svg.split("<text").skip(1).map(|text| text.split_once('>').unwrap().1.split('<').next().unwrap().trim());
    texts.filter(|text| text.parse::<f64>().is_err()).collect::<Vec<_>>().join("\n")
}

#[test]
fn rooflines_have_their_roofs() {
    let sandbox = Sandbox::with(
        "\
name: roof
steps:
  a:
    uses: command
    matrix: { size: [1, 8, 64] }
    with: { run: 'echo intensity=$SIZE; echo rate=$((SIZE * 2000000000)); echo peak=100e9', env: { SIZE: '${{ matrix.size }}' } }
figures:
  metric: { from: a, kind: roofline, x: intensity, y: rate, roofs: { compute: peak, bandwidth: 2.5e9 }, color: size }
  slope: { from: a, kind: roofline, x: intensity, y: rate, roofs: { bandwidth: 2.5e9 } }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let metric = sandbox.read("results/reports/roof/figures/metric.svg");
    let slope = sandbox.read("results/reports/roof/figures/slope.svg");
    assert_message!(format!("# metric\n{}\n\n# slope\n{}", texts(&metric), texts(&slope)));
}

#[test]
fn figures_are_drawn_anew_when_something_is_new() {
    let sandbox = Sandbox::with(
        "name: drawn\nsteps: { a: { uses: mock, matrix: { value: [1, 2] } } }\nfigures: { f: { from: a, kind: bar, x: value, y: value } }\n",
    );
    let report = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["report", "recipe.yaml"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        sandbox.read("results/reports/drawn/figures/f.svg")
    };
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let first = report(&[]);
    fs_err::remove_file(sandbox.path("results/reports/drawn/figures/f.svg")).unwrap();
    assert_eq!(report(&[]), first, "what was removed comes back");
    sandbox.write("results/reports/drawn/figures/f.svg", "mine");
    assert_eq!(report(&[]), "mine", "what is up to date is left alone");
    // A record that was written anew may say something else.
    let records = sandbox.records();
    let key = records["a/value=1"]["key"].as_str().unwrap();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    let text = sandbox.read(&path);
    let (head, outcome) = text.split_once("\"outcome\"").unwrap();
    let outcome = outcome.replace("\"value\": 1.0", "\"value\": 7.0");
    sandbox.write(&path, &sealed(&format!("{head}\"outcome\"{outcome}")));
    let second = report(&[]);
    assert!(second != first && second != "mine", "{second}");
}

#[test]
fn markup_in_names_stays_text() {
    let sandbox = Sandbox::with(
        "name: drawn
steps: { a: { uses: mock, matrix: { end: [done], value: [1, 2] }, if: matrix.end != '<script>' } }
figures: { f: { title: '<script>alert(1)</script> & more', from: a, kind: bar, x: value, y: value } }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let svg = sandbox.read("results/reports/drawn/figures/f.svg");
    assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
}
