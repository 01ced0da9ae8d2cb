//! Figures of a search: parallel coordinates, slices and importance.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    best::{measure, number},
    sandbox::Sandbox,
};

/// A study of numbers on both scales, of words, and of an axis without an effect.
fn study(matrix: &str) -> Sandbox {
    Sandbox::with(&format!(
        "\
name: searched
steps:
  tune:
    uses: train
    matrix: {matrix}
    seeds: 2
figures:
  all: {{ title: Loss by all axes, from: tune, kind: parallel, value: loss }}
  lr: {{ from: tune, kind: slice, x: lr, y: loss, color: activation }}
  words: {{ from: tune, kind: slice, x: activation, y: loss }}
  why: {{ title: Importance, from: tune, kind: importance, value: loss }}
"
    ))
}

const GRID: &str = "{ lr: { logspace: [0.0001, 0.1, 4] }, dropout: [0, 0.1, 0.2], activation: [gelu, gelu_new] }";
const RANDOM: &str = "{ random: { n: 60, axes: { lr: { log_uniform: [0.00001, 0.1] }, dropout: { uniform: [0, 0.5] }, weight_decay: { log_uniform: [0.001, 0.3] }, activation: { choice: [gelu, gelu_new] } } } }";

fn loss(values: &BTreeMap<&str, &str>) -> Value {
    let activation = if values["activation"] == "gelu" { 0.0 } else { 0.15 };
    let lr = number(values, "lr").log10() + 3.0;
    let noise = 0.02 * (number(values, "seed") * 9.0 + lr * 5.0).sin();
    json!({ "loss": { "value": 2.0 + 0.3 * lr * lr + number(values, "dropout") * (0.5 + activation) + activation + noise, "unit": "nats" } })
}

/// The texts in a drawing.
fn texts(svg: &str) -> Vec<String> {
    let texts =
        svg.split("<text").skip(1).map(|text| text.split_once('>').unwrap().1.split('<').next().unwrap().trim());
    texts.map(str::to_owned).collect()
}

fn drawn(sandbox: &Sandbox, name: &str) -> String {
    let png = fs_err::read(sandbox.path(&format!("results/reports/searched/figures/{name}.png"))).unwrap();
    let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
    let inked = pixels.pixels().iter().filter(|pixel| pixel.red() < 250 || pixel.blue() < 250).count();
    assert!(inked > 5_000, "{name} has {inked} pixels of ink");
    sandbox.read(&format!("results/reports/searched/figures/{name}.svg"))
}

#[test]
fn a_search_is_drawn() {
    for (matrix, exact) in [(GRID, true), (RANDOM, false)] {
        let sandbox = study(matrix);
        measure(&sandbox, |values| Some(loss(values)));
        let ended = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let all = drawn(&sandbox, "all");
        let configurations = if exact { 24 } else { 60 };
        // A line for each configuration, one tick for each text.
        let lines = all.matches("<polyline").count();
        assert!(lines >= configurations, "{lines} lines of {configurations} configurations");
        for text in ["lr", "dropout", "activation", "gelu_new", "Loss (nats)", "log"] {
            assert!(texts(&all).iter().any(|found| found == text), "{text} of {:?}", texts(&all));
        }
        assert!(texts(&all).iter().all(|text| text != "seed"), "seeds are averaged");
        let lr = drawn(&sandbox, "lr");
        assert!(texts(&lr).iter().any(|text| text == "lr (logarithmic)"), "{:?}", texts(&lr));
        drawn(&sandbox, "words");
        let why = texts(&drawn(&sandbox, "why"));
        let basis = why.iter().find(|text| text.contains("configurations") && !text.contains("variance")).unwrap();
        assert_eq!(basis.starts_with("exact, of all 24"), exact, "{basis}");
        // The largest share is on top.
        let place = |name: &str| why.iter().position(|text| text == name).unwrap();
        assert!(place("lr") < place("dropout"), "{why:?}");
    }
}

/// The shares of the effects of a full factorial, by hand: the losses are sums of effects without interactions.
#[test]
fn the_importance_of_a_full_factorial_is_that_of_its_effects() {
    let sandbox = study(GRID);
    let (of_lr, of_dropout) = ([0.0, 3.0, 3.0, 0.0], [0.0, 1.0, 2.0]);
    measure(&sandbox, |values| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
        let (lr, dropout) = (
            (number(values, "lr").log10() + 4.0).round() as usize,
            (number(values, "dropout") * 10.0).round() as usize,
        );
        Some(json!({ "loss": { "value": of_lr[lr] + of_dropout[dropout], "unit": "nats" } }))
    });
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]).code, Some(0));
    let why = texts(&drawn(&sandbox, "why"));
    // The variances are 9/4 and 2/3.
    for share in ["77 %", "23 %", "0 %"] {
        assert!(why.iter().any(|text| text == share), "{share} of {why:?}");
    }
}

#[test]
fn a_search_that_says_nothing_is_not_drawn_and_breaks_nothing() {
    let sandbox = study(GRID);
    measure(&sandbox, |_| Some(json!({ "loss": { "value": 1.0, "unit": "nats" } })));
    let ended = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!sandbox.path("results/reports/searched/figures/why.svg").exists(), "equal losses have no shares");
    drawn(&sandbox, "all");
    // One configuration has no axes that vary.
    let sandbox = study("{ lr: [0.1], dropout: [0], activation: [gelu] }");
    measure(&sandbox, |values| Some(loss(values)));
    let ended = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for name in ["all", "lr", "why"] {
        assert!(!sandbox.path(&format!("results/reports/searched/figures/{name}.svg")).exists(), "{name}");
    }
}
