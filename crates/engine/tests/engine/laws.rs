//! Claims about power laws over sizes. Reference values are those of `scipy.stats.linregress` 1.17.1 on logarithms, and of the
//! textbook's prediction interval with its t quantile.

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox};

/// One job for each size, with these values; 256 is predicted.
const STUDY: &str = "\
name: study
steps:
  a:
    uses: command
    matrix: { zip: { width: [16, 32, 64, 128, 256, 512], height: [4.02, 3.51, 3.11, 2.70, 2.41, 2.0] } }
    with: { run: 'echo loss=${{ matrix.height }}', env: { WIDTH: '${{ matrix.width }}' } }
claims:
  falls:
    law: { metric: loss, of: { step: a, width: [16, 32, 64, 128] }, x: width }
    expect: { less_than: -0.1 }
  flat: { law: { metric: loss, of: { step: a, width: [16, 32, 64, 128] }, x: width }, expect: { more_than: -0.1 } }
  predicted:
    law: { metric: loss, of: { step: a, width: [16, 32, 64, 128, 256] }, x: width, predict: 256 }
    expect: { within: 0.1 }
  close:
    law: { metric: loss, of: { step: a, width: [16, 32, 64, 128, 256] }, x: width, predict: 256 }
    expect: { within: 0.03 }
  unmeasured: { law: { metric: loss, of: { step: a }, x: width, predict: 1024 }, expect: { within: 0.1 } }
  few: { law: { metric: loss, of: { step: a, width: [16, 32] }, x: width }, expect: { less_than: 0 } }
  sizeless: { law: { metric: loss, of: { step: a }, x: depth }, expect: { less_than: 0 } }
";

fn verdicts(sandbox: &Sandbox) -> (Ended, Vec<Value>) {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    (ended, serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap())
}

fn near(found: &Value, wanted: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - wanted).abs() < 1e-9)
}

#[test]
fn exponents_and_predictions_are_judged_with_the_intervals_of_a_regression() {
    let sandbox = Sandbox::with(STUDY);
    let (ended, verdicts) = verdicts(&sandbox);
    let of = |claim: &str| verdicts.iter().find(|verdict| verdict["claim"] == claim).unwrap();
    let falls = of("falls");
    assert_eq!(falls["state"], "supported", "{falls}");
    assert!(near(&falls["value"], -0.189_726_473_255_825_03), "{falls}");
    assert!(near(&falls["interval"][0], -0.206_098_385_921_522_3), "{falls}");
    assert!(near(&falls["interval"][1], -0.173_354_560_590_127_77), "{falls}");
    assert!(near(&falls["p"], 0.001_793_558_017_401_379_2), "{falls}");
    assert_eq!(of("flat")["state"], "refuted");
    assert_eq!(falls["unit"], Value::Null, "an exponent has no unit: {falls}");
    assert!(ended.stdout.contains("means at 4 sizes of width from 16 to 128"), "{}", ended.stdout);

    let predicted = of("predicted");
    assert_eq!(predicted["state"], "supported", "{predicted}");
    assert!(near(&predicted["value"], 1.014_813_206_661_863_1), "{predicted}");
    assert!(near(&predicted["interval"][0], 0.974_903_108_251_638), "{predicted}");
    assert!(near(&predicted["interval"][1], 1.056_357_124_824_668_8), "{predicted}");
    let because = predicted["because"].as_str().unwrap();
    assert!(because.contains("2.41 at width 256, where the law of 4 sizes predicts 2.3748"), "{because}");
    assert_eq!(of("close")["state"], "undecided");

    for (claim, reason) in [
        ("unmeasured", "no job has a `width` of 1024"),
        ("few", "a law needs means at three or more sizes; there are 2 sizes of `width`"),
        ("sizeless", "6 jobs without a `depth` above zero"),
    ] {
        let verdict = of(claim);
        assert_eq!((&verdict["state"], &verdict["lacks"]), (&"undecided".into(), &"results".into()), "{verdict}");
        assert!(verdict["because"].as_str().unwrap().contains(reason), "{verdict}");
    }
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// Losses near 1.7165671 + 404.9 · size^−0.347891; the references are those of `scipy.optimize.least_squares`, as in the unit tests.
#[test]
fn a_law_with_a_constant_predicts_a_loss_that_nears_a_floor() {
    let sandbox = Sandbox::with(
        "\
name: study
steps:
  a:
    uses: command
    matrix: { zip: { size: [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e10], loss: [5.41, 4.23, 3.385, 2.84, 2.461, 2.225, 1.8] } }
    with: { run: 'echo loss=${{ matrix.loss }}', env: { SIZE: '${{ matrix.size }}' } }
tables:
  laws: { from: a, cells: [loss], fit: { x: size, predict: 1e10, constant: true } }
claims:
  exponent:
    law: { metric: loss, of: { step: a, size: [1e6, 3e6, 1e7, 3e7, 1e8, 3e8] }, x: size, constant: true }
    expect: { less_than: -0.3 }
  predicted:
    law: { metric: loss, of: { step: a }, x: size, predict: 1e10, constant: true }
    expect: { at_least: 1 }
  without: { law: { metric: loss, of: { step: a }, x: size, predict: 1e10 }, expect: { within: 0.1 } }
  few: { law: { metric: loss, of: { step: a, size: [1e6, 3e6, 1e7] }, x: size, constant: true }, expect: { less_than: 0 } }
",
    );
    let (ended, verdicts) = verdicts(&sandbox);
    let of = |claim: &str| verdicts.iter().find(|verdict| verdict["claim"] == claim).unwrap();
    let close = |found: &Value, wanted: f64| found.as_f64().is_some_and(|found| (found / wanted - 1.0).abs() < 1e-5);
    let exponent = of("exponent");
    assert_eq!(exponent["state"], "supported", "{exponent}");
    assert!(close(&exponent["value"], -0.347_890_96) && close(&exponent["interval"][1], -0.333_531_356), "{exponent}");
    assert!(exponent["because"].as_str().unwrap().contains("the constant is 1.7166"), "{exponent}");
    let predicted = of("predicted");
    assert_eq!(predicted["state"], "refuted", "{predicted}");
    assert!(close(&predicted["interval"][0], 1.8 / 1.906_583_6), "{predicted}");
    assert!(close(&predicted["interval"][1], 1.8 / 1.825_523_4), "{predicted}");
    assert!(close(&predicted["p"], 0.014_310_234), "{predicted}");
    // A law without the constant falls too far.
    assert!(of("without")["value"].as_f64().unwrap() > 1.4, "{}", of("without"));
    assert!(
        of("few")["because"].as_str().unwrap().contains("at four or more sizes; there are 3 sizes"),
        "{}",
        of("few")
    );
    let printed = ended.stdout.split_whitespace().collect::<Vec<&str>>().join(" ").replace('−', "-");
    let note = "loss: 1.7166 plus a part in proportion to size to the power -0.3479 [-0.3624, -0.3335]; at 10000000000 it is 1.8, outside of the predicted [1.8255, 1.9066]";
    assert!(printed.contains(note), "{printed}");
}

#[test]
fn mistakes_in_claims_about_laws_have_their_place() {
    let planned = |claim: &str| {
        let steps = STUDY.split("claims:").next().unwrap();
        let ended = Sandbox::with(&format!("{steps}claims:\n  c: {{ {claim} }}\n")).sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{claim}: {}", ended.stdout);
        ended.stderr
    };
    for (claim, message) in [
        ("law: { metric: loss, of: { step: a } }, expect: { less_than: 0 }", "`law` has no sizes"),
        ("law: { metric: loss, x: width }, expect: { less_than: 0 }", "`law` lacks `of`"),
        ("law: { of: { step: a }, x: width }, expect: { less_than: 0 }", "`law` has no metric"),
        ("law: { metric: loss, of: { step: a }, x: width }", "claim `c` has no `expect`"),
        (
            "law: { metric: loss, of: { step: a }, x: width, predict: 0 }, expect: { within: 0.1 }",
            "`predict` must be greater than 0",
        ),
        (
            "law: { metric: loss, of: { step: a }, x: width }, expect: { within: 0.1 }",
            "`within` applies to a `difference` or a `ratio`, not to an exponent",
        ),
        (
            "law: { metric: loss, of: { step: a }, x: width }, expect: { less_than: 3 ms }",
            "an exponent is a number without a unit",
        ),
        (
            "law: { metric: loss, of: { step: a }, x: width }, expect: { less_than: 0 }, statistic: median",
            "a `law` is fitted to means",
        ),
        (
            "law: { metric: loss, of: { step: a }, x: width }, expect: { less_than: 0 }, pair: false",
            "a `law` has one side, so nothing is paired",
        ),
    ] {
        assert!(planned(claim).contains(message), "{claim}: {}", planned(claim));
    }
    let text = "\
steps: { t: { uses: mock, matrix: { value: [1, 2, 3] } } }
claims: { c: { law: { metric: value, of: { step: t }, x: valeu }, expect: { less_than: 0 } } }
";
    let ended = Sandbox::with(text).sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stdout);
    assert!(ended.stderr.contains("has no parameter, axis or metric `valeu`"), "{}", ended.stderr);
}
