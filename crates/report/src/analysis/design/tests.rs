//! Simulation of claims with the numbers of seeds that a design suggests.

use std::path::Path;

use sweep_job::{Backend, Metric, Metrics, Unit};

use super::*;
use crate::{analysis::State, recipe::Draft, record::Remarks, stats::Draws, store::Measured};

/// Standard deviation of a value around the effect of its seed.
const NOISE: f64 = 0.7;

fn plan(seeds: &str) -> Plan {
    let recipe = format!(
        "
name: simulated
steps: {{ a: {{ uses: mock, matrix: {{ variant: [0, 1] }}, seeds: {seeds} }} }}
claims:
  less: {{ difference: {{ metric: value, of: {{ step: a, variant: 0 }}, to: {{ step: a, variant: 1 }} }}, expect: {{ less_than: 0 }} }}
"
    );
    let draft = Draft::parse(Path::new("recipe.yaml"), recipe, &[]).unwrap();
    Plan::new(draft, Backend::Cpu).unwrap()
}

/// Measurements of the first seeds with a true difference between the variants, and a common effect of every seed.
fn measured(plan: &Plan, seeds: usize, difference: f64, draws: &mut Draws) -> BTreeMap<JobId, Measured> {
    let effects: Vec<f64> = (0..seeds).map(|_| 3.0 * draws.normal()).collect();
    let mut records = BTreeMap::new();
    for (point, job) in &plan.studies[0].steps[0] {
        let seed = point.get(SEED).unwrap().to_string().parse::<usize>().unwrap();
        let Some(effect) = effects.get(seed) else { continue };
        let shift = if point.get("variant").unwrap().to_string() == "0" { -difference } else { 0.0 };
        let value = effect + shift + NOISE * draws.normal();
        let measured = Measured {
            key: plan.job(*job).key,
            metrics: Metrics::from_iter([("value".to_owned(), Metric { value, unit: Unit::One })]),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            backend: None,
            device: None,
            host: "a machine".to_owned(),
            sweep: "a test".to_owned(),
            origin: None,
            adopted: None,
            under: None,
            remarks: Remarks::default(),
        };
        records.insert(*job, measured);
    }
    records
}

/// The suggested number of seeds for a difference. The records have enough seeds for a standard deviation close to the
/// true one.
fn suggested(difference: &str, draws: &mut Draws) -> usize {
    let plan = plan("900");
    let results = Results::of(measured(&plan, 900, 0.0, draws));
    let detect = Detect::parse(&format!("value={difference}")).unwrap();
    let design = Designer::new(&plan, &results).design(&[detect]).unwrap();
    design.decisions[0].numbers.as_ref().unwrap().seeds_needed.unwrap()
}

#[test]
fn suggested_seeds_decide_80_percent_of_claims() {
    const CLAIMS: usize = 4000;
    let mut draws = Draws::new(5);
    let seeds = suggested("0.9", &mut draws);
    let plan = plan(&seeds.to_string());
    let decided = (0..CLAIMS).filter(|_| {
        let measured = measured(&plan, seeds, 0.9, &mut draws);
        crate::analysis::judge(&plan.studies[0], &measured)[0].state == State::Supported
    });
    let share = decided.count() as f64 / CLAIMS as f64;
    assert!((0.77..=0.83).contains(&share), "{seeds} seeds decide {share}");
}
