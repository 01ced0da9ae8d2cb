//! The units of laws, orders, aggregates and effects, and the axes that repeat or name imported runs. Reference values are those of NumPy and
//! `SciPy` 1.17.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Imports a table and evaluates the additions of the recipe: the report, and the verdicts.
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
    let table = "opt,dataset,seed,loss\na,x,0,19.97\na,y,10,30.03\na,y,11,29.97\na,y,12,29.99\na,z,20,25.01\na,w,30,26.99\n\
    a,w,31,27.01\na,w,32,27.03\na,v,40,22.97\nb,x,0,20.51\nb,x,1,20.53\nb,x,2,20.47\nb,y,10,30.49\nb,z,20,25.47\n\
    b,z,21,25.49\nb,z,22,25.51\nb,w,30,27.53\nb,v,40,23.51\nb,v,41,23.53\nb,v,42,23.47\n";
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

/// The same if the data sets share seeds of which each of them lacks some. With `NumPy` and `SciPy`, by least squares of data sets and
/// seeds within each side: only the seeds of b stand out, and each side's seeds have two degrees of freedom.
#[test]
fn orders_over_data_sets_that_lack_some_of_their_shared_seeds() {
    let table = "opt,dataset,seed,loss\na,x,0,19.97\na,y,0,30.03\na,y,1,29.97\na,y,2,29.99\na,z,0,25.01\na,w,0,26.99\n\
    a,w,1,27.01\na,w,2,27.03\na,v,0,22.97\nb,x,0,20.51\nb,x,1,20.53\nb,x,2,20.47\nb,y,0,30.49\nb,z,0,25.47\n\
    b,z,1,25.49\nb,z,2,25.51\nb,w,0,27.53\nb,v,0,23.51\nb,v,1,23.53\nb,v,2,23.47\n";
    let rest = format!(
        "tables:\n  t: {{ from: runs, rows: [opt], cells: [loss] }}\n  c: {{ from: runs, compare: {{ axis: opt, baseline: a }}, cells: [loss] }}\n  g: {{ from: runs, aggregate: {{ axis: opt, baseline: a }}, cells: [loss] }}\nclaims:\n  o: {{ order: {{ metric: loss, step: runs, axis: opt, ascending: [a, b] }} }}\n  worse: {{ {DIFFERENCE} }}\n"
    );
    let (said, verdicts) = judged(table, &rest);
    let [order, worse] = [&verdicts[0], &verdicts[1]];
    assert_eq!((&order["state"], &worse["state"]), (&"supported".into(), &"supported".into()), "{verdicts:?}");
    assert!(has_interval(worse, 0.450_212_015_846_488_07, 0.573_787_984_153_511_5), "{worse}");
    assert!((order["p"].as_f64().unwrap() - 0.000_785_748_277_495_709_6).abs() < 1e-9, "{order}");
    let text = "equal `seed` has a part in the results of several values of `dataset`, so it is a random factor";
    for said in [because(order), because(worse)] {
        assert!(said.contains("; 5 datasets × 3 seeds; ") && said.contains(text), "{said}");
    }
    // The rows of the table have the same seeds as the sides of the claim.
    let lines = || said.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>().join(" "));
    assert!(lines().any(|line| line == "a 25.0 ± 4.8 ◀"), "{said}");
    assert!(lines().any(|line| line == "b − a 0.512 ± 0.062 (p < 0.001)"), "{said}");
    // A task with a single run has no spread.
    assert!(lines().any(|line| line == "b 25.5 0.00") && lines().any(|line| line == "a 25.0 –"), "{said}");
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
        assert!(!said.contains("varies, but is not a source"), "{axis}: {said}");
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
    assert!(said.contains("the results of `tune` decided which jobs ran"), "{said}");
    assert!(said.contains("1 claim was judged by results that a search chose by themselves"), "{said}");
    assert!(!said.contains("of at most 5 %"), "{said}");
}

/// Differences of 4 data sets and 5 seeds, of which the seeds have a part in all data sets.
const EQUAL_SEEDS: &str = "\
opt,dataset,seed,loss\na,w,0,9.20\nb,w,0,10.26\na,w,1,8.68\nb,w,1,9.94\na,w,2,9.75\nb,w,2,8.80\n\
a,w,3,10.42\nb,w,3,10.84\na,w,4,11.14\nb,w,4,10.78\na,x,0,10.11\nb,x,0,11.38\na,x,1,9.45\nb,x,1,11.27\n\
a,x,2,9.22\nb,x,2,8.42\na,x,3,10.75\nb,x,3,11.29\na,x,4,11.63\nb,x,4,11.76\na,y,0,10.27\nb,y,0,11.34\n\
a,y,1,8.77\nb,y,1,10.71\na,y,2,9.04\nb,y,2,8.42\na,y,3,11.60\nb,y,3,11.82\na,y,4,10.20\nb,y,4,10.15\n\
a,z,0,8.27\nb,z,0,9.18\na,z,1,9.92\nb,z,1,11.48\na,z,2,8.84\nb,z,2,7.93\na,z,3,9.37\nb,z,3,9.44\n\
a,z,4,9.51\nb,z,4,9.21\n";

/// The same without such a part.
const OWN_SEEDS: &str = "\
opt,dataset,seed,loss\na,w,0,11.05\nb,w,0,11.76\na,w,1,11.78\nb,w,1,12.47\na,w,2,7.45\nb,w,2,8.12\n\
a,w,3,9.86\nb,w,3,10.67\na,w,4,11.01\nb,w,4,11.61\na,x,0,11.35\nb,x,0,12.22\na,x,1,10.65\nb,x,1,11.20\n\
a,x,2,11.50\nb,x,2,12.11\na,x,3,10.29\nb,x,3,10.81\na,x,4,10.55\nb,x,4,11.32\na,y,0,10.18\nb,y,0,11.11\n\
a,y,1,8.93\nb,y,1,9.68\na,y,2,9.15\nb,y,2,10.47\na,y,3,10.38\nb,y,3,11.23\na,y,4,9.42\nb,y,4,10.32\n\
a,z,0,11.27\nb,z,0,12.33\na,z,1,11.29\nb,z,1,12.62\na,z,2,11.80\nb,z,2,12.75\na,z,3,9.97\nb,z,3,11.10\n\
a,z,4,11.38\nb,z,4,12.38\n";

/// The mean over data sets is told apart from zero by a t-test, and not by the error of both factors. Reference values of an independent
/// computation with `NumPy` and `SciPy`: the mean squares of both factors minus the residual, Cochran and Cox's quantile.
#[test]
fn seeds_that_data_sets_share_are_a_factor_of_their_own() {
    let rest = format!(
        "tables:\n  t: {{ from: runs, rows: [opt], cells: [loss] }}\n  g: {{ from: runs, aggregate: {{ axis: opt, baseline: a }}, cells: [loss] }}\nclaims:\n  worse: {{ {DIFFERENCE} }}\n  typical: {{ statistic: median, {DIFFERENCE} }}\n"
    );
    let (said, verdicts) = judged(EQUAL_SEEDS, &rest);
    let worse = &verdicts[0];
    assert_eq!(worse["state"], "undecided", "{worse}");
    assert!(has_interval(worse, -0.819_581_910_005_736_9, 1.647_581_910_005_736_7), "{worse}");
    assert!(because(worse).contains("4 datasets × 5 seeds; "), "{worse}");
    let text =
        "equal `seed` has a part in the results of several values of `dataset`, so it is a random factor of its own";
    assert!(because(worse).contains(text), "{worse}");
    assert!(because(&verdicts[1]).contains("needs independent units"), "{}", verdicts[1]);
    assert!(said.contains("where equal `seed` has a part in the results of several values of `dataset`"), "{said}");
    assert!(said.contains("that draws each value of `seed` for several tasks at once"), "{said}");
    // SciPy's `ttest_1samp` of the means.
    let (said, verdicts) = judged(OWN_SEEDS, &rest);
    assert!(has_interval(&verdicts[0], 0.522_518_710_356_540_5, 1.179_481_289_643_459_2), "{}", verdicts[0]);
    assert!(because(&verdicts[0]).contains("4 datasets, 5 seeds each"), "{}", verdicts[0]);
    assert!(!said.contains("at once"), "{said}");
    // Other seeds on every data set.
    let mut line = 0;
    let own: Vec<String> = EQUAL_SEEDS
        .lines()
        .map(|text| {
            line += 1;
            let fields: Vec<&str> = text.split(',').collect();
            let seed = if line == 1 { "seed".to_owned() } else { format!("{}", (line - 2) / 2) };
            format!("{},{},{seed},{}\n", fields[0], fields[1], fields[3])
        })
        .collect();
    let (said, verdicts) = judged(&own.concat(), &rest);
    assert!(has_interval(&verdicts[0], 0.154_843_853_063_601_27, 0.673_156_146_936_398_8), "{}", verdicts[0]);
    assert!(!said.contains("several values of `dataset`"), "{said}");
}

/// One training is evaluated on several data sets: its seed is a factor, whatever the results.
#[test]
fn a_training_that_data_sets_share_makes_its_seed_a_factor() {
    let sandbox = Sandbox::with(&format!(
        "\
name: study
steps:
  train:
    uses: command
    matrix: {{ opt: [a, b] }}
    seeds: 5
    with: {{ run: 'echo trained=1', env: {{ OPT: '${{{{ matrix.opt }}}}' }} }}
  eval:
    uses: command
    needs: [train]
    matrix: {{ opt: [a, b], dataset: [w, x, y, z] }}
    seeds: 5
    with:
      run: 'echo loss=$(grep ${{{{ matrix.opt }}}},${{{{ matrix.dataset }}}},${{{{ matrix.seed }}}}, data.csv | cut -d, -f4)'
      inputs: [data.csv]
metrics: {{ loss: {{ better: min }} }}
claims: {{ worse: {{ {} }} }}
",
        DIFFERENCE.replace("runs", "eval")
    ));
    sandbox.write("data.csv", OWN_SEEDS);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let verdicts: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap();
    let text = because(&verdicts[0]);
    let is_named = text.contains("values of `dataset` read the same jobs of each `seed`");
    assert!(text.contains("4 datasets × 5 seeds;") && is_named, "{text}");
}

/// Four data sets with two seeds each: the band is that of four means. `t.ppf(0.975, 3) * np.std(means, ddof=1) / 2`.
#[test]
fn bands_of_figures_are_those_of_the_units() {
    let mut table = vec!["width,dataset,seed,loss\n".to_owned()];
    for width in [1, 2] {
        for (index, set) in (0..).zip(["w", "x", "y", "z"]) {
            for seed in 0..2 {
                let loss = f64::from(width) + f64::from(index) + 0.1 * f64::from(seed);
                table.push(format!("{width},{set},{},{loss}\n", 2 * index + seed));
            }
        }
    }
    let table = table.concat();
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", &table);
    assert_eq!(sandbox.sweep(&["import", "csv", "r.csv", "--metric", "loss"]).code, Some(0));
    sandbox.write(
        "s.yaml",
        "name: s\nextends: r.runs.yaml\nfigures: { f: { from: runs, kind: line, x: width, y: loss } }\n",
    );
    let ended = sandbox.sweep(&["run", "s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    // Over eight jobs it would be 1.0002.
    let page = sandbox.read("results/reports/s/index.html");
    assert!(
        page.contains("\"half\":[2.05426,2.05426]"),
        "{:?}",
        page.split("\"half\":").nth(1).map(|text| &text[..40])
    );
}

/// Three seeds are looked at by the import, and five by the next one: the level is that of seeds that are raised after a look.
#[test]
fn an_import_that_grows_is_another_look() {
    let sandbox = Sandbox::new();
    let rows = |seeds: std::ops::Range<usize>| -> String {
        let noise = [0.02, -0.03, 0.05, -0.04, 0.01];
        let pairs = seeds.map(|seed| format!("a,{seed},{}\nb,{seed},{}\n", seed, seed as f64 + 0.1 + noise[seed]));
        pairs.collect::<Vec<_>>().concat()
    };
    let import = |seeds| {
        sandbox.write("r.csv", &format!("opt,seed,loss\n{}", rows(0..seeds)));
        let ended = sandbox.sweep(&["import", "csv", "r.csv", "--metric", "loss"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    };
    let first = import(3);
    assert!(!first.contains("after a look"), "{first}");
    sandbox.write("s.yaml", &format!("name: s\nextends: r.runs.yaml\nclaims: {{ worse: {{ {DIFFERENCE} }} }}\n"));
    let judged = || {
        assert_eq!(sandbox.sweep(&["run", "s.yaml"]).code, Some(0));
        let verdicts: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/s/claims.json")).unwrap();
        verdicts[0].clone()
    };
    assert!(!because(&judged()).contains("after a look"));
    let second = import(5);
    assert!(second.contains("after a look at 3"), "{second}");
    let verdict = judged();
    assert!(because(&verdict).contains("seeds added after a look at 3, so at 99.27 %"), "{verdict}");
}

/// A paper needs the seeds of imported runs, and a statement that the rest of their setup is unknown.
#[test]
fn the_setup_of_imported_runs_is_theirs() {
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", EQUAL_SEEDS);
    let ended = sandbox.sweep(&["import", "csv", "r.csv", "--metric", "loss"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(sandbox.sweep(&["run", "r.yaml"]).code, Some(0));
    let setup = sandbox.read("results/reports/r/setup.md");
    for stated in [
        "40 jobs with results",
        "40 records imported from CSV",
        "has 5 seeds for each configuration",
        "4 datasets (axis &quot;dataset&quot;)",
        "Values with ± are means over the independent units",
        "| hardware | no | hardware of 40 imported records |",
        "| total compute | no | compute of 40 imported records |",
    ] {
        assert!(setup.replace("\\\"", "\"").replace('"', "&quot;").contains(stated), "{stated}: {setup}");
    }
    for wrong in ["no step has seeds", "at most one seed", "read no input files", "neither records"] {
        assert!(!setup.contains(wrong), "{wrong}: {setup}");
    }
}

/// Repeated runs of equal seeds differ by ±0.1: their variance is 0.02 each, so two measurements differ by `t.ppf(0.975, 4) * 0.2`. A copy of a run is no
/// repetition.
#[test]
fn the_noise_floor_of_imported_runs_is_that_of_repeated_ones() {
    let mut table = "opt,seed,loss,m1,m2,m3\n".to_owned();
    for opt in ["a", "b"] {
        for seed in 0..2 {
            for by in [0.1, -0.1] {
                let loss = 1.0 + f64::from(seed) + by;
                let line =
                    format!("{opt},{seed},{loss},{},{},{}\n", loss * 2.0, loss * 3.0, f64::from(seed) + 7.0 * by);
                table += &line;
                if by > 0.0 {
                    table += &line;
                }
            }
        }
    }
    let rest = "tables: { t: { from: runs, compare: { axis: opt, pairs: [[b, a]], noise: run }, cells: [loss] } }\n";
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", &table);
    let metrics = ["--metric", "loss", "--metric", "m1", "--metric", "m2", "--metric", "m3"];
    assert_eq!(sandbox.sweep(&[["import", "csv", "r.csv"].as_slice(), &metrics].concat()).code, Some(0));
    sandbox.write("s.yaml", &format!("name: s\nextends: r.runs.yaml\n{rest}"));
    let ended = sandbox.sweep(&["run", "s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("noise floor of loss: 0.555"), "{}", ended.stdout);
}
