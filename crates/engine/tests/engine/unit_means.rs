//! The units of laws, orders, aggregates and effects, and the axes that repeat or name imported runs. Reference values are those of NumPy and
//! `SciPy` 1.17.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Imports a table and judges what the recipe adds: the report, and the verdicts.
fn judged(table: &str, rest: &str) -> (String, Vec<Value>) {
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", table);
    let ended = sandbox.sweep(&["import", "csv", "r.csv", "--metric", "loss"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    sandbox.write("s.yaml", &format!("name: s\nextends: r.runs.yaml\nmetrics: {{ loss: {{ better: min }} }}\n{rest}"));
    let ended = sandbox.sweep(&["run", "s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let claims = sandbox.path("results/reports/s/claims.json");
    let verdicts =
        fs_err::read_to_string(claims).map_or_else(|_| Vec::new(), |text| serde_json::from_str(&text).unwrap());
    (ended.stdout, verdicts)
}

fn because(verdict: &Value) -> &str {
    verdict["because"].as_str().unwrap()
}

fn has_interval(verdict: &Value, low: f64, high: f64) -> bool {
    let near = |index: usize, wanted: f64| (verdict["interval"][index].as_f64().unwrap() - wanted).abs() < 1e-9;
    near(0, low) && near(1, high)
}

const DIFFERENCE: &str =
    "difference: { metric: loss, of: { step: runs, opt: b }, to: { step: runs, opt: a } }, expect: { more_than: 0 }";

/// The law of the pooled means has the exponent -0.004. `linregress` of the means over data sets.
#[test]
fn laws_are_fitted_to_the_means_over_data_sets() {
    let table = "width,dataset,seed,loss\n1,x,0,9.98\n1,x,1,10.02\n1,x,2,10.01\n1,x,3,10.0\n1,y,0,14.02\n2,x,0,9.3303\n\
    2,x,1,9.3203\n2,x,2,9.3103\n2,y,0,13.0425\n2,y,1,13.0825\n4,x,0,8.7255\n4,x,1,8.7155\n4,y,0,12.1777\n\
    4,y,1,12.1677\n4,y,2,12.2077\n8,x,0,8.1125\n8,y,0,11.3715\n8,y,1,11.3615\n8,y,2,11.3515\n8,y,3,11.3915\n";
    let rest = "tables: { f: { from: runs, fit: { x: width }, cells: [loss] } }\nclaims: { falls: { law: { metric: loss, of: { step: runs }, x: width }, expect: { less_than: -0.08 } } }\n";
    let (said, verdicts) = judged(table, rest);
    let falls = &verdicts[0];
    assert_eq!(falls["state"], "supported", "{falls}");
    assert!(has_interval(falls, -0.102_563_541_270_425_55, -0.098_515_716_116_499_81), "{falls}");
    assert!(
        said.contains("to the power −0.1005 [−0.1026, −0.0985]")
            || said.contains("to the power -0.1005 [-0.1026, -0.0985]"),
        "{said}"
    );
    assert!(!said.contains("same values of"), "{said}");
    let lacking: String = table.split_inclusive('\n').filter(|line| !line.starts_with("8,y")).collect();
    let (_, verdicts) = judged(&lacking, rest);
    let text = "sizes do not have the same values of `dataset`, so their differences are part of the law: 8 lacks y";
    assert!(because(&verdicts[0]).contains(text), "{}", verdicts[0]);
}

/// Every data set has a worse b, and the mean over all runs of b is better: 24.2 and 26.6.
#[test]
fn orders_and_aggregates_weigh_data_sets_equally() {
    let table = "opt,dataset,seed,loss\na,x,0,19.97\na,y,0,30.03\na,y,1,29.97\na,y,2,29.99\na,z,0,25.01\na,w,0,26.99\n\
    a,w,1,27.01\na,w,2,27.03\na,v,0,22.97\nb,x,0,20.51\nb,x,1,20.53\nb,x,2,20.47\nb,y,0,30.49\nb,z,0,25.47\n\
    b,z,1,25.49\nb,z,2,25.51\nb,w,0,27.53\nb,v,0,23.51\nb,v,1,23.53\nb,v,2,23.47\n";
    let rest = "tables: { g: { from: runs, aggregate: { axis: opt, baseline: a }, cells: [loss] } }\nclaims: { o: { order: { metric: loss, step: runs, axis: opt, ascending: [a, b] } } }\n";
    let (said, verdicts) = judged(table, rest);
    assert_eq!(verdicts[0]["state"], "supported", "{}", verdicts[0]);
    assert!(because(&verdicts[0]).contains("by their means: a < b"), "{}", verdicts[0]);
    // NumPy's 24.997 and 25.508: see the unit test.
    assert!(
        said.contains("25.5") && said.contains("25.0") && said.contains("of 5 tasks, which weigh equally,"),
        "{said}"
    );
}

/// The corrected repeated k-fold t-test: s² of all 12 differences × (1/12 + 1/2), 11 degrees of freedom.
#[test]
fn a_repeated_cross_validation_has_folds_of_its_own() {
    let table = "opt,fold,repeat,loss\na,0,0,1.0\nb,0,0,1.026\na,1,0,1.0429\nb,1,0,1.1169\na,2,0,1.0857\nb,2,0,1.1237\n\
    a,0,1,1.0714\nb,0,1,1.1334\na,1,1,1.0143\nb,1,1,1.0763\na,2,1,1.0571\nb,2,1,1.0951\na,0,2,1.0429\nb,0,2,1.0809\n\
    a,1,2,1.0857\nb,1,2,1.1357\na,2,2,1.0286\nb,2,2,1.0666\na,0,3,1.0143\nb,0,3,1.0883\na,1,3,1.0571\nb,1,3,1.0951\n\
    a,2,3,1.0\nb,2,3,1.038\n";
    let rest = format!("claims: {{ worse: {{ {DIFFERENCE} }} }}\n");
    let (_, verdicts) = judged(table, &rest);
    assert!(has_interval(&verdicts[0], 0.021_027_214_835_206_96, 0.074_972_785_164_793_05), "{}", verdicts[0]);
    let text = because(&verdicts[0]);
    assert!(text.contains("; 3 folds × 4 values of `repeat`; corrected"), "{text}");
    assert!(text.contains("every value of `repeat` has folds of its own"), "{text}");
    // So has a seed that draws the folds.
    let (_, verdicts) = judged(&table.replace("repeat", "split_seed"), &rest);
    assert!(has_interval(&verdicts[0], 0.021_027_214_835_206_96, 0.074_972_785_164_793_05), "{}", verdicts[0]);
    // Seeds of a training have the same folds: means by fold, 2 degrees of freedom, 1/3 + 1/2.
    let (_, verdicts) = judged(&table.replace("repeat", "seed"), &rest);
    assert!(has_interval(&verdicts[0], 0.012_001_424_529_608_985, 0.083_998_575_470_391_02), "{}", verdicts[0]);
    assert!(
        because(&verdicts[0]).contains("folds of equal number are taken for the same data in every value of `seed`")
    );
}

/// One effect on six seeds. `ttest_rel` has the interval [0.435, 0.505] for the pairs.
#[test]
fn names_of_imported_runs_hide_no_seeds_and_repetitions() {
    let base = [1.0, 3.0, 2.0, 5.0, 4.0, 7.0];
    let noise = [0.02, -0.03, 0.05, -0.04, 0.01, -0.01];
    for axis in ["seed", "trial", "replicate"] {
        let mut table = format!("opt,{axis},loss\n");
        for (index, (base, noise)) in base.iter().zip(noise).enumerate() {
            table = format!("{table}a,{index},{base}\nb,{index},{}\n", base + 0.47 + noise);
        }
        let rest = format!(
            "tables:\n  t: {{ from: runs, rows: [opt], cells: [loss] }}\n  e: {{ from: runs, effects: {{}}, cells: [loss] }}\n  v: {{ from: runs, where: {{ opt: a }}, variance: {{}}, cells: [loss] }}\nclaims: {{ worse: {{ {DIFFERENCE} }} }}\n"
        );
        let (said, verdicts) = judged(&table, &rest);
        assert!(because(&verdicts[0]).contains("6 pairs"), "{axis}: {}", verdicts[0]);
        assert!(
            has_interval(&verdicts[0], 0.434_879_165_987_152_7, 0.505_120_834_012_846_8),
            "{axis}: {}",
            verdicts[0]
        );
        assert!(said.contains("rows compared in 6 blocks"), "{axis}: {said}");
        assert!(!said.contains("varies, and is no source"), "{axis}: {said}");
        if axis == "seed" {
            assert!(said.contains("seeds are blocks"), "{said}");
        }
    }
}

/// Two files with the same runs: four runs of six measured values each are four samples.
#[test]
fn copies_of_imported_runs_count_once() {
    let sandbox = Sandbox::new();
    let mut table = "opt,loss,m1,m2,m3,m4,m5\n".to_owned();
    for (opt, values) in [("a", [0.1, 0.9, 0.4, 0.7]), ("b", [1.3, 2.9, 1.1, 1.2])] {
        for value in values {
            let line = format!(
                "{opt},{value},{},{},{},{},{}\n",
                value * 2.0,
                value * 3.0,
                value * 5.0,
                value * 7.0,
                value * 11.0
            );
            table += &line.repeat(2);
        }
    }
    sandbox.write("r.csv", &table);
    let ended = sandbox.sweep(&[
        "import", "csv", "r.csv", "--metric", "loss", "--metric", "m1", "--metric", "m2", "--metric", "m3", "--metric",
        "m4", "--metric", "m5",
    ]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    sandbox.write("s.yaml", &format!("name: s\nextends: r.runs.yaml\nclaims: {{ worse: {{ {DIFFERENCE} }} }}\n"));
    assert_eq!(sandbox.sweep(&["run", "s.yaml"]).code, Some(0));
    let verdicts: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/s/claims.json")).unwrap();
    let text = because(&verdicts[0]);
    assert!(text.contains("4 against 4, not paired") && text.contains("16 runs are copies"), "{text}");
    // `ttest_ind(b, a, equal_var=False).confidence_interval()` of the four values.
    assert!(has_interval(&verdicts[0], -0.183_632_703_652_870_88, 2.383_632_703_652_871_5), "{text}");
}

/// The results of a search decide which configurations the claim is about.
#[test]
fn a_claim_about_a_winner_of_a_search_is_none_at_five_percent() {
    let sandbox = Sandbox::with(
        "\
name: study
steps:
  tune:
    uses: command
    matrix: { lr: [1, 2, 3] }
    seeds: 3
    search: { rungs: { of: epochs, at: [1, 4], keep: 1/3, by: loss } }
    with: { run: 'echo loss=${{ matrix.lr }}.${{ matrix.seed }}${{ matrix.epochs }}' }
metrics: { loss: { better: min } }
claims: { low: { value: { metric: loss, of: { step: tune, lr: 1, epochs: 4 } }, expect: { less_than: 9 } } }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let said = ended.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(said.contains("the results of `tune` decided what ran"), "{said}");
    assert!(said.contains("1 claim was judged by results that a search chose by themselves"), "{said}");
    assert!(!said.contains("of at most 5 %"), "{said}");
}
