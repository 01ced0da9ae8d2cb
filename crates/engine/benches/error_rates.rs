//! Rates of wrong and right decisions, simulated with the functions that decide.
//!
//! ```text
//! cargo bench -p sweep-engine --bench error_rates
//! cargo bench -p sweep-engine --bench error_rates -- items 10000     # only situations with this word, with fewer replications
//! ```
//!
//! Every row is a situation in which the truth is known: its nominal rate, and the simulated one with its standard
//! error. Rows without a promise are practices that the engine avoids. Ends with status 1 if a promise is not kept.

#[path = "common/analyses.rs"]
mod analyses;
#[path = "common/items.rs"]
mod items;
#[path = "common/races.rs"]
mod races;
#[path = "common/rates.rs"]
mod rates;
#[path = "common/replication.rs"]
mod replication;
#[path = "common/situation.rs"]
mod situation;
#[path = "common/tasks.rs"]
mod tasks;

use std::{process::ExitCode, time::Instant};

use analyses::of_analyses;
use items::over_items;
use races::races;
use rates::situations;
use replication::dependent;
use situation::Promise;
use sweep_engine::{decide, stats};
use tasks::over_tasks;

const REPLICATIONS: usize = 100_000;

fn main() -> ExitCode {
    let begun = Instant::now();
    println!("| situation | nominal | simulated |");
    println!("| --- | --- | --- |");
    let mut broken = 0;
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let replications = words.iter().find_map(|word| word.parse().ok()).unwrap_or(REPLICATIONS);
    let wanted: Vec<&String> = words.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let all = situations().into_iter().chain(dependent()).chain(over_items()).chain(of_analyses());
    let all = all.chain(over_tasks()).chain(races());
    for situation in all.filter(|situation| wanted.iter().all(|word| situation.name.contains(word.as_str()))) {
        let rate = situation.simulate(replications);
        let nominal = match situation.promise {
            Promise::AtMost => format!("≤ {}", rounded(situation.nominal)),
            Promise::AtLeast => format!("≥ {}", rounded(situation.nominal)),
            Promise::Nothing => "none".to_owned(),
        };
        let is_kept = situation.is_kept(rate, replications);
        broken += usize::from(!is_kept);
        let remark = if is_kept { "" } else { " not kept" };
        println!("| {} | {nominal} | {:.4} ± {:.4}{remark} |", situation.name, rate.share, rate.standard_error);
    }
    println!("\n{replications} replications each, {:.1} s", begun.elapsed().as_secs_f64());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A rate with four decimals at most.
fn rounded(rate: f64) -> f64 {
    (rate * 1e4).round() / 1e4
}
