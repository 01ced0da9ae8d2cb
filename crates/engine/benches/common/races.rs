//! Simulated races over seeds in which the truth is known. The benchmark `error_rates` and a unit test run them.

use super::{
    decide::racing::{Course, Known, Race},
    situation::{Promise, Situation},
    stats::{Better, Draws, LEVEL, Sample},
};

/// The probability that the truly best configuration leaves.
const ERROR: f64 = 0.05;

/// Values of configurations with these means by seed. Seeds differ more than configurations, as losses do.
fn values(draws: &mut Draws, means: &[f64], seeds: usize) -> Vec<Vec<f64>> {
    let common: Vec<f64> = (0..seeds).map(|_| 3.0 * draws.normal()).collect();
    means.iter().map(|mean| common.iter().map(|common| mean + common + draws.normal()).collect()).collect()
}

fn run(race: &Race, draws: &mut Draws, means: &[f64]) -> Course {
    let values = values(draws, means, race.most);
    race.run(|configuration, seed| Known::Value(Some(values[configuration][seed])))
}

fn has_left(course: &Course, configuration: usize) -> bool {
    course.looks.iter().flat_map(|look| &look.left).any(|(left, _)| *left == configuration)
}

/// A race in which every look compares with the best so far at 95 %.
fn first_leaves_naively(draws: &mut Draws, means: &[f64], least: usize, most: usize) -> bool {
    let values = values(draws, means, most);
    (least..most).any(|seeds| {
        let mean = |own: &Vec<f64>| own[..seeds].iter().sum::<f64>();
        let Some(best) = values.iter().min_by(|one, other| mean(one).total_cmp(&mean(other))) else { return false };
        let worse: Vec<f64> = values[0][..seeds].iter().zip(best).map(|(own, best)| own - best).collect();
        Sample::new(&worse).and_then(|sample| sample.estimate_at(LEVEL).low).is_some_and(|low| low > 0.0)
    })
}

/// All races.
pub(crate) fn races() -> Vec<Situation> {
    let race = |configurations, baseline| Race { configurations, least: 3, most: 15, better: Better::Less, baseline };
    let mut all = Vec::new();
    for count in [2, 5, 13] {
        let (race, means) = (race(count, None), vec![0.0; count]);
        let name = format!("race, {count} equal configurations, 3 to 15 seeds: a given one leaves");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| has_left(&run(&race, draws, &means), 0)));
    }
    let name = "race, 5 equal configurations, 3 to 15 seeds, every look at 95 %: a given one leaves";
    all.push(Situation::new(name, Promise::Nothing, ERROR, |draws| first_leaves_naively(draws, &[0.0; 5], 3, 15)));
    let close = race(5, None);
    let name = "race, the best of 5 is better by 0.3 sd: it leaves";
    let means = [0.0, 0.3, 0.3, 0.3, 0.3];
    all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| has_left(&run(&close, draws, &means), 0)));
    let against = race(5, Some(0));
    let name = "race against a baseline, 4 equal to it: any leaves";
    all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
        let course = run(&against, draws, &[0.0; 5]);
        (1..5).any(|other| has_left(&course, other))
    }));
    let far = race(5, None);
    let name = "race, worse by 3 sd than the best of 5: it leaves before 15 seeds";
    let means = [3.0, 0.0, 0.0, 0.0, 0.0];
    all.push(Situation::new(name, Promise::AtLeast, 0.95, move |draws| has_left(&run(&far, draws, &means), 0)));
    all
}
