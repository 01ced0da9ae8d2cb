//! Claims over the items of a test set, over shares of failures, and over quantiles.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Two methods that answer 24 questions about 8 documents with three seeds; the program writes who was right.
const STUDY: &str = "\
name: study
steps:
  eval:
    uses: command
    matrix: { method: [0, 1] }
    seeds: 3
    with:
      run: |
        awk -v m=$METHOD -v s=$SWEEP_SEED 'BEGIN { print \"id,document,correct\";
          for (i = 0; i < 24; i++) print i \",d\" int(i / 3) \",\" ((i*i*7 + i*3*m + s*5*m + s*i) % 11 < 4 + 2*m) }' > items.csv
        echo accuracy=0.5
      env: { METHOD: '${{ matrix.method }}' }
      outputs: [items.csv]
    items: { correct: { file: items.csv, cluster: document } }
claims:
  better: { difference: { metric: correct, of: { step: eval, method: 1 }, to: { step: eval, method: 0 } }, expect: { more_than: 0 } }
  one-seed: { difference: { metric: correct, of: { step: eval, method: 1, seed: 0 }, to: { step: eval, method: 0, seed: 0 } }, expect: { more_than: 0 } }
  ratio: { ratio: { metric: correct, of: { step: eval, method: 1 }, to: { step: eval, method: 0 } }, expect: { more_than: 1 } }
  right: { value: { metric: correct, of: { step: eval, method: 1 } }, expect: { at_least: 0.5 } }
";

fn claims(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap()
}

fn number(verdict: &Value, key: &str) -> f64 {
    verdict[key].as_f64().unwrap_or_else(|| panic!("{verdict}"))
}

/// The means are NumPy's, the error with one seed that of statsmodels' `cov_cluster` with Student's t of 7 degrees of freedom.
#[test]
fn claims_over_items_pair_items_and_allow_for_clusters() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found = claims(&sandbox);
    let because = |index: usize| found[index]["because"].as_str().unwrap().to_owned();
    assert!((number(&found[0], "value") - 0.347_222_222).abs() < 1e-9, "{}", found[0]);
    assert!(because(0).contains("; 8 clusters of 3 items, 3 seeds"), "{}", because(0));
    assert_eq!(
        (&found[0]["state"], &found[0]["lacks"]),
        (&"undecided".into(), &"samples".into()),
        "seeds differ too much"
    );
    assert_eq!(found[1]["state"], "supported", "{}", found[1]);
    assert!((number(&found[1], "value") - 1.0 / 3.0).abs() < 1e-9);
    let low = found[1]["interval"][0].as_f64().unwrap();
    let student = 1.0 / 3.0 - 2.364_624_251 * 0.062_994_079;
    assert!(low <= student + 1e-6 && low > 0.0, "the wider of Student's t and the signs of clusters: {low} {student}");
    assert!(because(1).contains("; one seed per side, so the verdict is about these runs"), "{}", because(1));
    assert!((number(&found[2], "value") - 0.666_666_667 / 0.319_444_444).abs() < 1e-6, "{}", found[2]);
    assert!((number(&found[3], "value") - 0.666_666_667).abs() < 1e-6);
    // Other claims about other columns run no job again.
    sandbox.write("recipe.yaml", &STUDY.replace("cluster: document", "id: id"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.sweep(&["report", "recipe.yaml"]);
    assert!(claims(&sandbox)[0]["because"].as_str().unwrap().contains("; 24 items, 3 seeds"));
}

/// Changes after the job are not read, and a bundle has the files from which its verdicts follow.
#[test]
fn items_are_those_of_the_record() {
    let sandbox = Sandbox::with(STUDY);
    sandbox.sweep(&["run", "recipe.yaml"]);
    let ended = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--output", "b.tar"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let verified = sandbox.sweep(&["bundle", "verify", "b.tar"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    let (key, _) = sandbox.records().into_iter().next().unwrap();
    let key = sandbox.records()[&key]["key"].as_str().unwrap().to_owned();
    let place = format!("results/store/{}/{key}/files/items.csv", &key[..2]);
    sandbox.write(&place, &sandbox.read(&place).replace(",1\n", ",0\n"));
    sandbox.sweep(&["report", "recipe.yaml"]);
    let because = claims(&sandbox)[0]["because"].as_str().unwrap().to_owned();
    assert!(because.contains("has changed since it was made"), "{because}");
}

#[test]
fn files_with_items_are_checked() {
    let reason = |from: &str, to: &str| {
        assert!(STUDY.contains(from), "{from}");
        let sandbox = Sandbox::with(&STUDY.replace(from, to));
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let found = claims(&sandbox).remove(0);
        assert_eq!(found["state"], "undecided");
        found["because"].as_str().unwrap().to_owned()
    };
    let because = reason("cluster: document", "cluster: page");
    assert!(
        because.contains(
            "`items.csv`: row 1: it has no value in column `page`; its columns are `correct`, `document`, `id`"
        )
    );
    let because = reason("(i*i*7 + i*3*m + s*5*m + s*i) % 11 < 4 + 2*m", "\"yes\"");
    assert!(because.contains("`items.csv`: row 1: the score is not a finite number: \"yes\""), "{because}");
    let because = reason("print i \",d\"", "print (i + m) \",d\"");
    assert!(because.contains("the jobs have different items: 2 items in only one of the two"), "{because}");
    let because = reason("print i \",d\"", "print (i % 5) \",d\"");
    assert!(because.contains("row 6: item `0` is listed twice"), "{because}");
    let because = reason("i < 24", "i < 0");
    assert!(because.contains("`items.csv`: it has no items"), "{because}");
    let because = reason("seeds: 3\n", "seeds: 3\n    replicates: {}\n");
    assert!(because.contains("8 clusters"), "{because}");
}

#[test]
fn items_are_outputs_of_programs() {
    let refused = |from: &str, to: &str, wanted: &str| {
        let sandbox = Sandbox::with(&STUDY.replace(from, to));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stdout);
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
    };
    refused("      outputs: [items.csv]\n", "", "`items.csv` is not an output of step `eval`");
    refused("file: items.csv", "file: items.xlsx", "`items.xlsx` does not have the extension of a file with items");
    refused("file: items.csv", "file: ../items.csv", "`../items.csv` is not an output");
}

/// Three of ten seeds of one method fail; the other never does.
#[test]
fn shares_of_failures_and_quantiles_are_claimed() {
    let study = "\
name: study
steps:
  a:
    uses: command
    matrix: { method: [risky, safe] }
    seeds: 10
    with:
      run: if [ $METHOD = risky ] && [ $SWEEP_SEED -ge 4 ]; then exit 1; fi; echo loss=1.$SWEEP_SEED
      env: { METHOD: '${{ matrix.method }}' }
    continue-on-error: true
claims:
  rate: { value: { metric: loss, of: { step: a, method: risky } }, expect: { less_than: 0.95 }, statistic: failure_rate }
  more: { difference: { metric: loss, of: { step: a, method: risky }, to: { step: a, method: safe } }, expect: { more_than: 0 }, statistic: failure_rate }
  apart: { difference: { metric: loss, of: { step: a, method: risky }, to: { step: a, method: safe } }, expect: { more_than: 0 }, statistic: failure_rate, pair: false }
  third: { value: { metric: loss, of: { step: a, method: safe } }, expect: { less_than: 2 }, statistic: quantile, q: 0.4 }
  mean: { value: { metric: loss, of: { step: a, method: risky } }, expect: { less_than: 2 } }
";
    let sandbox = Sandbox::with(study);
    sandbox.sweep(&["run", "recipe.yaml"]);
    let found = claims(&sandbox);
    let of = |index: usize| (found[index]["state"].as_str().unwrap(), found[index]["because"].as_str().unwrap());
    // Clopper and Pearson's interval of 6 of 10: 0.262 to 0.878.
    assert_eq!(of(0).0, "supported", "{}", found[0]);
    assert!(of(0).1.contains("6 of 10 jobs failed"), "{}", of(0).1);
    assert!((found[0]["interval"][1].as_f64().unwrap() - 0.878_447_742).abs() < 1e-6);
    // McNemar: 6 pairs of one kind, p = 0.03125; Fisher: p = 0.0108.
    assert_eq!((of(1).0, of(2).0), ("supported", "supported"), "{} {}", found[1], found[2]);
    assert!((number(&found[1], "p") - 0.031_25).abs() < 1e-9 && (number(&found[2], "p") - 0.010_835_913).abs() < 1e-8);
    assert!(of(1).1.contains("6 of 10 and 0 of 10 jobs failed, paired (McNemar's exact test)"), "{}", of(1).1);
    assert_eq!(of(3).0, "supported", "{}", found[3]);
    assert!(of(3).1.contains("quantile at 0.4 of 10 jobs"), "{}", of(3).1);
    assert_eq!(of(4).0, "undecided", "a mean without the failed jobs is not claimed");
    for wrong in ["statistic: quantile", "statistic: quantile, q: 1.5", "statistic: mean, q: 0.4"] {
        sandbox.write("recipe.yaml", &study.replace("statistic: quantile, q: 0.4", wrong));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{wrong}: {}", ended.stderr);
        assert!(ended.stderr.contains("`q`"), "{}", ended.stderr);
    }
}
