//! Simulated situations of tables of curves, sizes and sources. The benchmark `error_rates` and a unit test run them.

use super::{
    situation::{Promise, Situation},
    stats::{
        Draws, Estimate, LEVEL, Leveled, PowerLaw, Sample, TimeToEvent, agreement, components, log_rank, pseudo_times,
    },
};

/// The probability of a wrong decision that all rules are made for.
const ERROR: f64 = 0.05;

/// All situations.
pub(crate) fn of_analyses() -> Vec<Situation> {
    [times(), laws(), rankings(), sources()].into_iter().flatten().collect()
}

fn excludes(estimate: Estimate, value: f64) -> bool {
    estimate.low.is_some_and(|low| low > value) || estimate.high.is_some_and(|high| high < value)
}

/// Times to a target with an exponential distribution of mean 1, in runs that end at `end` at the latest; some end before.
fn runs(draws: &mut Draws, count: usize, end: f64, early: f64) -> Vec<TimeToEvent> {
    let run = |_| {
        let (time, budget) = (-draws.uniform().ln(), if draws.uniform() < early { end * draws.uniform() } else { end });
        TimeToEvent { time: time.min(budget), reached: time <= budget }
    };
    (0..count).map(run).collect()
}

fn times() -> Vec<Situation> {
    let mut all = Vec::new();
    for (count, early) in [(4, 0.0), (5, 0.3), (12, 0.3)] {
        let name = format!("{count} runs each, {:.0} % end early, equal times to a target", 100.0 * early);
        // Tests of larger groups draw assignments, which would take minutes here.
        if count < 6 {
            all.push(Situation::new(format!("{name}: log-rank test"), Promise::AtMost, ERROR, move |draws| {
                let [a, b] = [(); 2].map(|()| runs(draws, count, 1.5, early));
                log_rank(&a, &b).is_some_and(|found| found.p < ERROR)
            }));
        }
        all.push(Situation::new(format!("{name}: mean time up to the budget"), Promise::AtMost, ERROR, move |draws| {
            let [a, b] = [(); 2].map(|()| Sample::new(&pseudo_times(&runs(draws, count, 1.5, early), 1.5)));
            a.zip(b).is_some_and(|(a, b)| excludes(a.welch_difference(&b), 0.0))
        }));
    }
    all
}

/// Means at sizes 1, 2, 4, … with a law of exponent −0.1 and 2 % of noise.
fn law(draws: &mut Draws, sizes: i32) -> Vec<(f64, f64)> {
    (0..sizes).map(|size| 2.0_f64.powi(size)).map(|x| (x, 3.0 * x.powf(-0.1) * (0.02 * draws.normal()).exp())).collect()
}

fn laws() -> Vec<Situation> {
    let mut all = Vec::new();
    for sizes in [3, 4, 6] {
        let name = format!("power law over {sizes} sizes");
        all.push(Situation::new(
            format!("{name}: 4 × the largest is outside of its prediction"),
            Promise::AtMost,
            ERROR,
            move |draws| {
                let mut points = law(draws, sizes + 2);
                let Some((x, y)) = points.pop() else { return false };
                points.pop();
                PowerLaw::new(&points, LEVEL).is_some_and(|law| excludes(law.predict(x, LEVEL), y))
            },
        ));
        all.push(Situation::new(
            format!("{name}: the interval excludes the exponent"),
            Promise::AtMost,
            ERROR,
            move |draws| PowerLaw::new(&law(draws, sizes), LEVEL).is_some_and(|law| excludes(law.exponent, -0.1)),
        ));
    }
    all
}

fn rankings() -> Vec<Situation> {
    let ranking = |methods: usize| {
        Situation::new(
            format!("{methods} methods, unrelated orders at two sizes (Kendall's τ)"),
            Promise::AtMost,
            ERROR,
            move |draws| {
                let [a, b] = [(); 2].map(|()| (0..methods).map(|_| draws.normal()).collect::<Vec<f64>>());
                agreement(&a, &b).is_some_and(|found| found.p < ERROR)
            },
        )
    };
    [5, 12].map(ranking).into()
}

fn sources() -> Vec<Situation> {
    let mut all = Vec::new();
    for (first, second, spread) in [(5, 5, 0.0_f64), (5, 5, 1.0), (3, 6, 0.5)] {
        let values = move |draws: &mut Draws| -> Vec<Leveled> {
            let [rows, columns] = [first, second].map(|count| (0..count).map(|_| draws.normal()).collect::<Vec<f64>>());
            let cells = (0..first).flat_map(|row| (0..second).map(move |column| vec![row, column]));
            cells.map(|at| (at.clone(), spread * rows[at[0]] + 0.5 * columns[at[1]] + draws.normal())).collect()
        };
        let name = format!("{first} × {second} crossed sources, one with {spread} × the noise");
        all.push(Situation::new(
            format!("{name}: the interval excludes its part"),
            Promise::AtMost,
            ERROR,
            move |draws| components(&values(draws)).is_some_and(|found| excludes(found.factors[0], spread * spread)),
        ));
        all.push(Situation::new(
            format!("{name}: the interval excludes the rest"),
            Promise::AtMost,
            ERROR,
            move |draws| {
                components(&values(draws)).and_then(|found| found.rest).is_some_and(|rest| excludes(rest, 1.0))
            },
        ));
    }
    all
}
