//! Numbers that a program printed, with patterns that read them: `Epoch 3: train loss 0.25` has `train_loss` by `epoch`.
//!
//! `collect.rs` finds the numbers, `names.rs` names them, `patterns.rs` writes their patterns, `layouts.rs` has lines whose layout names
//! their numbers, and `columns.rs` tables without bars; `forms.rs` keeps a pattern from reading lines of other numbers, `ranks.rs` from
//! reading numbers of other processes, and `open.rs` has words that are values of axes. `missed.rs` has the numbers that no pattern reads.

mod collect;
mod columns;
mod forms;
mod layouts;
mod missed;
mod names;
mod open;
mod patterns;
mod ranks;
mod sections;
mod steps;

use std::collections::BTreeSet;

use regex::Captures;
use sweep_job::tasks::{Pattern, Reading};

use self::{
    collect::{Taken, collect},
    names::{Named, joined, named, separated},
    ranks::Ranks,
    steps::Steps,
};
pub use self::{missed::Missed, open::with_open_words};
use super::languages::regex;
use super::scalar;
use crate::stats::Better;

/// A number that a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The name of the metric.
    pub name: String,
    /// The pattern that reads it, for `reads.stdout`.
    pub pattern: String,
    /// The last line that has it.
    pub line: String,
}

impl Printed {
    /// The pattern as YAML, an item of `reads.stdout`.
    pub fn item(&self) -> String {
        scalar::text(&self.pattern)
    }
}

/// Maximum number of lines that are searched, from the end.
const MAX_LINES: usize = 5_000;
/// Maximum number of lines that are looked at, from the end.
const MAX_SEEN: usize = 200_000;
/// Maximum number of similar lines after one another that are searched, if there are more than [`MAX_LINES`]: states of a
/// progress bar would hide all else.
const MAX_ALIKE: usize = 50;
/// Maximum length of a line that is searched, in bytes.
const MAX_LENGTH: usize = 16_000;
/// Words before numbers that are the steps of lines.
const STEPS: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// The numbers of outputs.
#[derive(Debug, Default)]
pub struct PrintedNumbers {
    /// Numbers that a pattern reads, in the order of their first lines.
    pub read: Vec<Printed>,
    /// Numbers that no pattern reads, or that a pattern reads together with other numbers.
    pub missed: Vec<Missed>,
}

/// The numbers in the outputs of several jobs whose names imply a better direction.
pub fn printed_results<'o>(outputs: impl Iterator<Item = &'o str>) -> PrintedNumbers {
    of_all(outputs, Wanted::Results)
}

/// The numbers in the outputs with a name and a separator, such as `time: 1.5 ms`, except numbers with the names in `params`.
pub fn printed_numbers<'o>(outputs: impl Iterator<Item = &'o str>, params: &BTreeSet<&str>) -> PrintedNumbers {
    of_all(outputs, Wanted::Numbers(params))
}

/// The last value of a number in an output.
pub fn last_value(number: &Printed, output: &str) -> Option<f64> {
    let pattern = Pattern::new(&number.pattern).ok()?;
    output.lines().rev().take(MAX_SEEN).find_map(|line| value(&pattern, line))
}

/// The number that a pattern reads in a line.
fn value(pattern: &Pattern, line: &str) -> Option<f64> {
    match pattern.find(line)?.parts.pop()? {
        (_, Reading::Number(number)) => Some(number.value),
        _ => None,
    }
}

/// The numbers that are looked for.
#[derive(Clone, Copy)]
enum Wanted<'p> {
    /// Numbers whose names imply a better direction.
    Results,
    /// Numbers with a name and a separator, except these names.
    Numbers(&'p BTreeSet<&'p str>),
}

impl Wanted<'_> {
    /// The name of a number in a line.
    fn named<'t>(self, line: &'t str, number: &Captures<'t>) -> Named<'t> {
        match self {
            Self::Results => named(line, number),
            Self::Numbers(params) => separated(line, number, params),
        }
    }

    /// True for the name of a number whose line has a layout that names it.
    fn has(self, name: &str) -> bool {
        match self {
            Self::Results => Better::of_name(name.rsplit('.').next().unwrap_or(name)).is_some(),
            Self::Numbers(params) => !names::is_setting(name, params),
        }
    }
}

/// Properties of a whole output that decide the meaning of each line.
struct Context {
    steps: Steps,
    ranks: Ranks,
    /// True if words such as `nan` are in place of numbers before other numbers of a line.
    has_words: bool,
}

/// The lines of an output in which numbers are searched.
pub fn searched(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().rev().take(MAX_SEEN).filter(|line| line.len() <= MAX_LENGTH).collect();
    if lines.len() > MAX_LINES {
        let letters = |line: &str| line.bytes().filter(u8::is_ascii_alphabetic).collect::<Vec<u8>>();
        let (mut previous, mut alike) = (Vec::new(), 0);
        lines.retain(|line| {
            let letters = letters(line);
            alike = if letters == previous { alike + 1 } else { 0 };
            previous = letters;
            alike < MAX_ALIKE
        });
        lines.truncate(MAX_LINES);
    }
    lines.reverse();
    lines
}

fn of_all<'o>(outputs: impl Iterator<Item = &'o str>, wanted: Wanted<'_>) -> PrintedNumbers {
    let mut all = PrintedNumbers::default();
    let outputs: Vec<Vec<&str>> = outputs.map(searched).collect();
    let has_words = outputs.iter().flatten().any(|line| names::has_word_for_number(line));
    for mut lines in outputs {
        let ranks = Ranks::of(&lines);
        lines.retain(|line| !ranks.is_other(line));
        let context = Context { steps: Steps::of(&lines), ranks, has_words };
        let found = collect(&lines, wanted, &context);
        let new = |name: &str, known: &PrintedNumbers| known.read.iter().all(|number| number.name != name);
        let read: Vec<Printed> = found.read.into_iter().filter(|number| new(&number.name, &all)).collect();
        all.read.extend(read);
        for missed in found.missed {
            if all.missed.iter().all(|known| known.name != missed.name) {
                all.missed.push(missed);
            }
        }
    }
    let PrintedNumbers { read, missed } = &mut all;
    let is_read =
        |missed: &Missed| read.iter().any(|number| number.name == missed.name || missed.is_read_as(&number.name));
    missed.retain(|missed| missed.why.is_of_read() || !is_read(missed));
    open::opened(all)
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::Pattern;

    use super::*;

    fn printed(output: &str, params: &BTreeSet<&str>) -> Vec<Printed> {
        let results = printed_results(std::iter::once(output)).read;
        if results.is_empty() { printed_numbers(std::iter::once(output), params).read } else { results }
    }

    #[test]
    fn numbers_of_all_jobs_are_found() {
        let outputs = ["done", "loss: nan", "loss: 0.5\nval loss: 0.7", "acc 3"];
        let names: Vec<String> =
            printed_results(outputs.into_iter()).read.into_iter().map(|number| number.name).collect();
        assert_eq!(names, ["loss", "val_loss", "acc"]);
        assert_eq!(self::names("val loss -inf, device: info, inference: 3"), ["val_loss"]);
    }

    /// Returns the names of the numbers in `output`; panics if the pattern of a number is invalid.
    fn names(output: &str) -> Vec<String> {
        let numbers = printed(output, &BTreeSet::from(["lr"]));
        for number in &numbers {
            Pattern::new(&number.pattern).unwrap_or_else(|error| panic!("{}: {error}", number.pattern));
        }
        numbers.into_iter().map(|number| number.name).collect()
    }

    #[test]
    fn usual_lines_have_their_numbers() {
        assert_eq!(names("iter 10: loss 2.3012, time 30.1ms, mfu 1.20%"), ["loss"]);
        assert_eq!(names("step 0: train loss 4.2, val loss 4.3"), ["train_loss", "val_loss"]);
        assert_eq!(names("Epoch 3/10 | loss: 0.53 | acc: 91.2%"), ["loss", "acc"]);
        assert_eq!(names("Test set: Average loss: 0.0274, Accuracy: 9905/10000 (99%)"), ["average_loss", "accuracy"]);
        assert_eq!(names("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.299824"), ["loss"]);
        assert_eq!(names("saved to model-0.5, version 1.2.3, lr 0.1, took 3 s"), Vec::<String>::new());
    }

    #[test]
    fn splits_of_the_data_have_metrics_of_their_own() {
        for lines in [
            "train: loss=0.5 acc=0.8\nvalid: loss=0.7 acc=0.6",
            "[train] loss 0.5, acc 0.8\n[valid] loss 0.7, acc 0.6",
            "epoch 3 | train: loss 0.5 acc 0.8 | valid: loss 0.7 acc 0.6",
            "train | epoch 3 | loss: 0.5 | acc: 0.8\nvalid | epoch 3 | loss: 0.7 | acc: 0.6",
            "train loss: 0.5 acc: 0.8 | valid loss: 0.7 acc: 0.6",
            "Train - loss 0.5 acc 0.8\nValid - loss 0.7 acc 0.6",
            "loss (train): 0.5, acc (train): 0.8, loss (valid): 0.7, acc (valid): 0.6",
        ] {
            let numbers = printed(lines, &BTreeSet::new());
            let names: Vec<&str> = numbers.iter().map(|number| number.name.as_str()).collect();
            assert_eq!(names, ["train_loss", "train_acc", "valid_loss", "valid_acc"], "{lines}");
            for (number, value) in numbers.iter().zip(["0.5", "0.8", "0.7", "0.6"]) {
                let pattern = Pattern::new(&number.pattern).unwrap();
                let found: Vec<String> = lines
                    .lines()
                    .filter_map(|line| pattern.find(line))
                    .map(|found| format!("{:?}", found.parts))
                    .collect();
                assert!(found.len() == 1 && found[0].contains(value), "{lines}: {} {found:?}", number.pattern);
            }
        }
        assert_eq!(
            names("[cifar10] accuracy: 0.5\n[cifar100] accuracy: 0.4"),
            ["cifar10_accuracy", "cifar100_accuracy"]
        );
        assert_eq!(names("[INFO] loss: 0.5\n[rank0] acc: 0.5"), ["loss", "acc"]);
        let sections = "Training:\n  loss: 0.5\n  lr_loss: 1\nValidation:\n  loss: 0.7\n";
        assert_eq!(names(sections), ["lr_loss"], "one name of two sections has no value");
        assert_eq!(names("Validation:\n  loss: 0.7\n"), ["loss"]);
    }

    #[test]
    fn only_the_first_rank_counts() {
        let lines = "[rank0]: loss: 0.5\n[rank1]: loss: 0.7\n";
        let number = printed_results(std::iter::once(lines)).read.pop().unwrap();
        let found: Vec<f64> = lines.lines().filter_map(|line| last_value(&number, line)).collect();
        assert_eq!(found, [0.5], "{}", number.pattern);
    }

    #[test]
    fn numbers_without_a_direction_are_taken_where_there_are_no_others() {
        assert_eq!(names("n=2 sum 12.5\ntime: 12.3 ms\nlr: 0.1\nepoch: 3\nseed = 1\n"), ["n", "time_ms"]);
        assert_eq!(names("Throughput = 120.5 img/s, total time: 3.5 s."), ["throughput", "total_time_s"]);
        assert_eq!(names("time: 12.3 ms\nloss: 0.5"), ["loss"]);
        let numbers = printed("time: 12.3 ms", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("time: 11.0 ms").is_some() && pattern.find("wall time: 11.0 ms").is_none());
        assert!(pattern.find("time: 11.0 s").is_none(), "another unit");
        assert_eq!(names("time: 900ms\ntime: 1.5 s\npeak memory: 1.25 GiB"), ["time_ms", "time_s", "peak_memory_gib"]);
        let pattern = Pattern::new(&printed("took: 3us/iter", &BTreeSet::new())[0].pattern).unwrap();
        assert!(format!("{:?}", pattern.find("took: 3us/iter")).contains("3.0"));
    }

    #[test]
    fn each_form_of_a_line_has_a_pattern_that_reads_it() {
        for (line, name, value) in [
            ("====> Test set loss: 127.4", "test_set_loss", 127.4),
            ("[9]\ttrain-rmse:0.45\ttest-rmse:0.55", "test_rmse", 0.55),
            ("{'eval_loss': 0.45, 'epoch': 1.0}", "eval_loss", 0.45),
            ("{\"loss\": 0.25}", "loss", 0.25),
            ("| loss | 0.25 |", "loss", 0.25),
            ("training has finished with loss 0.3", "loss", 0.3),
            ("Epoch 3 - val_loss: 0.5 - val_acc: 0.9", "val_acc", 0.9),
            ("acc: 0.91±0.02", "acc", 0.91),
            ("loss: tensor(0.25)", "loss", 0.25),
            ("Test set: Average loss: 0.02, Accuracy: 9905/10000 (99%)", "accuracy", 0.9905),
            ("top-1 acc: 3 / 4", "acc", 0.75),
            ("RMSE (test): 3.21", "test_rmse", 3.21),
            ("10-fold CV accuracy: 0.91 (+/- 0.03)", "accuracy", 0.91),
            ("Accuracy of the network on the 10000 test images: 54 %", "accuracy", 54.0),
            ("R^2: 0.77", "r2", 0.77),
            ("reward: \u{2212}0.5", "reward", -0.5),
            ("loss: 1,234.5", "loss", 1234.5),
            ("ndcg_cut_10           \tall\t0.5123", "ndcg_cut_10", 0.5123),
            ("The RMSE of prediction is: 0.445", "rmse", 0.445),
            ("loss -> 0.51", "loss", 0.51),
            ("val_loss => 0.51", "val_loss", 0.51),
            ("{\"epoch\": 1, \"train\": {\"loss\": 0.5}, \"val\": {\"loss\": 0.61}}", "val.loss", 0.61),
            ("Epoch 1: val_acc improved from 0.80000 to 0.81", "val_acc", 0.81),
        ] {
            let numbers = printed_results(std::iter::once(line)).read;
            let number = numbers.iter().find(|number| number.name == name);
            let Some(number) = number else { panic!("{line}: {numbers:?}") };
            let found = Pattern::new(&number.pattern).unwrap().find(line);
            assert!(format!("{found:?}").contains(&format!("{value:?}")), "{line}: {} {found:?}", number.pattern);
        }
        let both = "Train Epoch: 1 Loss: 2.5\n====> Test set loss: 2.4\n";
        let names: Vec<String> =
            printed_results(std::iter::once(both)).read.into_iter().map(|number| number.name).collect();
        assert_eq!(names, ["loss", "test_set_loss"]);
        let batches = "Epoch 1 [1/2] loss: 0.9\nEpoch 1 [2/2] loss: 0.8\nepoch 1 mean loss 0.85\n";
        assert_eq!(
            self::names(batches),
            ["mean_loss", "loss"],
            "the mean of an epoch comes before the loss of a batch"
        );
        assert_eq!(self::names("time: 12.3 ms\nEpoch 1 time: 11 ms"), ["time_ms"], "one name for one number");
    }

    /// The logs of 100 frameworks and examples, each below a line `@ NAME`, with the values that count behind it.
    #[test]
    fn logs_of_frameworks_have_their_numbers() {
        let logs = include_str!("printed/frameworks.txt");
        let mut wrong = Vec::new();
        for log in logs.split("\n@ ").skip(1) {
            let (name, text) = log.split_once('\n').unwrap_or_default();
            let (expected, text) = text.split_once('\n').unwrap_or_default();
            let numbers = printed(text, &BTreeSet::from(["x"]));
            let value =
                |number: &Printed| last_value(number, text).map_or("nothing".to_owned(), |value| value.to_string());
            let found: Vec<String> =
                numbers.iter().map(|number| format!("{}={}", number.name, value(number))).collect();
            if found.join(" ") != expected {
                wrong.push(format!("{name}: {}", found.join(" ")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn words_in_place_of_numbers_are_no_names() {
        let value = |lines: &str, name: &str| {
            let numbers = printed(lines, &BTreeSet::new());
            assert_eq!(
                numbers.iter().map(|number| number.name.as_str()).collect::<Vec<_>>(),
                ["loss", "acc"],
                "{lines}"
            );
            last_value(numbers.iter().find(|number| number.name == name).unwrap(), lines).unwrap()
        };
        for word in ["nan", "NaN", "-nan", "Inf", "NA", "None", "null", "N/A", "1.#QNAN", "-1.#IND"] {
            for (first, last) in [
                ("epoch 2 loss: 0.6 acc: 0.8", format!("epoch 3 loss: {word} acc: 0.9")),
                ("epoch 2 loss 0.6 acc 0.8", format!("epoch 3 loss {word} acc 0.9")),
                ("loss=0.6, acc=0.8", format!("loss={word}, acc=0.9")),
            ] {
                let lines = format!("{first}\n{last}\n");
                assert_eq!(value(&lines, "acc").to_string(), "0.9", "{lines}");
                let is_number = !["NA", "None", "null", "N/A"].contains(&word);
                assert_eq!(value(&lines, "loss").is_finite(), !is_number, "{lines}");
            }
        }
    }

    #[test]
    fn names_keep_what_tells_them_apart() {
        let kernels = "accuracy (Linear kernel): 0.8\naccuracy (RBF kernel): 0.9\n";
        assert_eq!(names(kernels), ["linear_kernel_accuracy", "rbf_kernel_accuracy"]);
        assert_eq!(names("Acc(%): 70.1"), ["acc"]);
        assert_eq!(names("WER [%]: 12.5"), ["wer"]);
        assert_eq!(names("Top-1 Acc %: 70.5"), ["acc"]);
        assert_eq!(names("Model:   OLS   Adj. R-squared:    0.25"), ["adj_r_squared"]);
        assert_eq!(names("Best: 0.615 using {'C': 1.5}"), ["best"]);
        assert_eq!(names("Best validation accuracy of 91.00% obtained at iteration 4"), ["validation_accuracy"]);
        assert_eq!(names("précision: 0.25"), ["précision"]);
        let splits = "Accuracy: train 0.375, val 0.3, test 0.25";
        assert_eq!(names(splits), ["accuracy_train", "accuracy_val", "accuracy_test"]);
        assert_eq!(names("RMSE train 1.5, test 0.75"), ["rmse_train", "rmse_test"]);
        let splits = "MSE Train: 1.5 Test: 0.75\nMAE Train: 1.25 Test: 0.5";
        assert_eq!(names(splits), ["mse_train", "mse_test", "mae_train", "mae_test"]);
        let read = printed_results(std::iter::once(splits)).read;
        let values: Vec<_> = read.iter().map(|number| last_value(number, splits)).collect();
        assert_eq!(values, [Some(1.5), Some(0.75), Some(1.25), Some(0.5)]);
        assert_eq!(names("loss 0.25, accuracy: train 0.5, test 0.75"), ["loss", "accuracy_train", "accuracy_test"]);
        assert_eq!(names("Acc@1: 15.0pts\nTop-5: 20pts\nloss: 0.5"), ["loss"]);
        assert_eq!(names("model  acc  f1\nreporting mean acc1 and std"), Vec::<String>::new());
        assert_eq!(names("step,loss\n1,0.5\n2,0.25\nstep,val_loss\n1,0.75\n2,0.375"), Vec::<String>::new());
        assert_eq!(names("mAP@0.5: 0.375, mAP@0.5:0.95: 0.3"), ["map_0_5", "map_0_5_0_95"]);
        assert_eq!(names("mAP@.5 = 0.375, mAP@.5:.95 = 0.3"), ["map_5", "map_5_95"]);
        assert_eq!(names("Loss 1: 1.5\nLoss 2: 0.75\nacc 0.5"), ["acc"]);
        assert_eq!(names("Epoch 2: loss 0.5"), ["loss"]);
        assert_eq!(names("mem 900M loss 1.5\nmem 1.2G loss 0.75"), ["loss"]);
        assert_eq!(names("saved=True loss 1.5\nsaved=False loss 0.75\n59.2s loss 0.5"), ["loss"]);
        let part = "Accuracy: 45 of 50 (90.0%)";
        assert_eq!(names(part), ["accuracy"]);
        assert_eq!(last_value(&printed(part, &BTreeSet::new())[0], part), Some(0.9));
        assert_eq!(names("loss：0.5，acc：0.9"), ["loss", "acc"]);
        assert_eq!(names("accuracy – 0.9\nloss ⇒ 0.5"), ["accuracy", "loss"]);
        assert_eq!(names("---- mean acc: 0.375 std: 0.02"), ["mean_acc"]);
        assert_eq!(names("score on train 0.375\nscore on test 0.3"), ["score_on_train", "score_on_test"]);
        assert_eq!(names("| Accuracy | **0.40** |\n| F1 | **0.30** |"), ["accuracy", "f1"]);
        assert_eq!(names("achieved tok/s: 100.5"), ["achieved_tok_per_s"]);
        assert_eq!(names("D_B: 0.25 G_B: 0.5"), ["d_B", "g_B"]);
        assert_eq!(
            names("Training time: 50 sec\nTesting time: 1.5 min"),
            ["training_time_sec", "testing_time_minutes"]
        );
        assert_eq!(
            names("Root mean squared error   0.27\nMean squared error   0.07"),
            ["root_mean_squared_error", "mean_squared_error"]
        );
        let report = "              precision    recall  f1-score   support\n\n   macro avg       0.60      0.70      0.65       100\n";
        assert_eq!(names(report), ["macro_avg_precision", "macro_avg_recall", "macro_avg_f1_score"]);
        let frame = " epoch loss  acc\n1     1 1.30 0.10\n2     2 0.65 0.20\n3     3   NA 0.30\n";
        let numbers = printed(frame, &BTreeSet::new());
        let value = |name: &str| last_value(numbers.iter().find(|number| number.name == name).unwrap(), frame);
        assert_eq!((value("loss"), value("acc")), (Some(0.65), Some(0.3)));
        assert_eq!(
            names("[1, 2000] loss: 1.5\n[1, 4000] loss: 0.75\nFinished Training\nAccuracy: 0.5"),
            ["loss", "accuracy"]
        );
        assert_eq!(names("Test Results\nacc: 0.5\nf1: 0.4\nauc: 0.3"), ["acc", "f1", "auc"]);
        assert_eq!(names("Using cuda\nEpoch 1\nloss: 0.5\nEpoch 2\nloss: 0.4"), ["loss"]);
    }

    #[test]
    fn rows_with_names_have_metrics_of_their_own() {
        let data = "   model rmse  mae\n1    lm  1.0 0.50\n2    rf  2.0 0.33\n";
        let bars = "| Model | Accuracy | F1 |\n|---|---|---|\n| lm | 0.5 | 0.4 |\n| rf | 0.6 | 0.3 |\n";
        for (table, expected) in [
            (data, vec![("lm_rmse", 1.0), ("lm_mae", 0.5), ("rf_rmse", 2.0), ("rf_mae", 0.33)]),
            (bars, vec![("lm_accuracy", 0.5), ("lm_f1", 0.4), ("rf_accuracy", 0.6), ("rf_f1", 0.3)]),
            ("| Model | Accuracy | F1 |\n|---|---|---|\n| lm | 0.5 | 0.4 |\n", vec![("accuracy", 0.5), ("f1", 0.4)]),
        ] {
            let numbers = printed(table, &BTreeSet::new());
            let found: Vec<_> =
                numbers.iter().map(|number| (number.name.as_str(), last_value(number, table).unwrap())).collect();
            assert_eq!(found, expected, "{table}");
        }
    }

    #[test]
    fn marks_before_numbers_and_long_names_are_read() {
        for mark in [">", "~", "$", "< ", "<=", "≈"] {
            let lines = format!("epoch 2 loss: 0.6 acc: 0.8\nepoch 3 loss: {mark}0.5 acc: 0.9\n");
            let numbers = printed(&lines, &BTreeSet::new());
            assert_eq!(numbers.len(), 2, "{lines}: {numbers:?}");
            assert_eq!(last_value(&numbers[0], &lines), Some(0.5), "{lines}: {numbers:?}");
        }
        assert_eq!(names("loss: 1.2e-3±2e-4 acc: 0.9"), ["loss", "acc"]);
        for (line, name) in [
            ("Area under the curve: 0.3333", "area_under_the_curve"),
            ("          Mean of squared residuals: 0.10000", "mean_of_squared_residuals"),
            ("AUC (95% CI): 0.33 (0.1-0.2)", "auc"),
            ("Multiple R-squared:  0.1706,\tAdjusted R-squared:  0.141", "multiple_r_squared"),
        ] {
            assert_eq!(names(line).first().map(String::as_str), Some(name), "{line}");
        }
        assert_eq!(names("R2: 0.2\nR-squared: 0.17\n"), ["r2", "r_squared"]);
    }

    #[test]
    fn long_lines_and_progress_bars_hide_no_result() {
        let bar = "\n 50%|#####     | 5/10 [00:01<00:01, 5.00it/s]".repeat(2 * MAX_LINES);
        let output = format!("step 1,500: val loss 0.5\nstep 2,500: val loss 0.4{bar}\n");
        let numbers = printed(&output, &BTreeSet::new());
        assert_eq!((numbers[0].name.as_str(), last_value(&numbers[0], &output)), ("val_loss", Some(0.4)));
        let output = format!(r#"{{"config": "{}", "test_accuracy": 0.6}}"#, "x".repeat(5_000));
        assert_eq!(self::names(&output), ["test_accuracy"]);
    }

    #[test]
    fn words_between_a_name_and_its_number_are_read() {
        for (line, name, value) in [
            ("The test accuracy is 0.7", "test_accuracy", 0.7),
            ("Test accuracy was 60.0%", "test_accuracy", 60.0),
            ("Test accuracy ........ 0.7", "test_accuracy", 0.7),
            ("3 [D loss: 0.5, acc.: 50.10%]", "loss", 0.5),
            ("Top-1 accuracy (%)    70.1", "accuracy", 70.1),
            ("loss tensor(0.08, device='cuda:0')", "loss", 0.08),
        ] {
            let numbers = printed(line, &BTreeSet::new());
            let found = numbers.first().map(|number| (number.name.as_str(), last_value(number, line)));
            assert_eq!(found, Some((name, Some(value))), "{line}");
        }
        assert_eq!(self::names("3 [D loss: 0.5, acc.: 50.10%]"), ["loss", "acc"]);
        assert_eq!(self::names("Validation: 100%|#####| 10/10\nval loss 0.5"), ["val_loss"]);
        let stages = "Baseline accuracy: 0.9\nPruned accuracy: 0.5\nAccuracy after finetuning: 0.8\n";
        assert_eq!(self::names(stages), ["baseline_accuracy", "pruned_accuracy", "accuracy_after_finetuning"]);
    }

    #[test]
    fn a_metric_is_not_read_from_the_line_of_another() {
        let numbers = printed("loss 0.5\nval loss 0.7\n", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("loss 0.5").is_some() && pattern.find("val loss 0.7").is_none(), "{}", numbers[0].pattern);
    }
}
