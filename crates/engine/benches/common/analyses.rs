//! Simulated situations of tables of curves, sizes and sources. The benchmark `error_rates` and a unit test run them.

use super::{
    situation::{Promise, Situation},
    stats::{
        Draws, Estimate, LawNumber, Leveled, PowerLaw, Sample, TimeToEvent, agreement, components, log_rank,
        pseudo_times,
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

/// Means at sizes 1, 2, 4, … with a law of exponent −0.1 and 2 % of noise; with a constant, sizes are 1, 4, 16, … and the exponent is −0.3.
fn law(draws: &mut Draws, sizes: i32, constant: f64) -> Vec<(f64, f64)> {
    let (base, exponent): (f64, f64) = if constant > 0.0 { (4.0, -0.3) } else { (2.0, -0.1) };
    let y = |x: f64, noise: f64| (constant + 3.0 * x.powf(exponent)) * (0.02 * noise).exp();
    (0..sizes).map(|size| base.powi(size)).map(|x| (x, y(x, draws.normal()))).collect()
}

fn laws() -> Vec<Situation> {
    let mut all = Vec::new();
    for (sizes, constant) in [(3, 0.0), (4, 0.0), (6, 0.0), (5, 1.5), (8, 1.5)] {
        let with_constant = constant > 0.0;
        let name = format!("power law {}over {sizes} sizes", if with_constant { "with a constant " } else { "" });
        all.push(Situation::new(
            format!("{name}: {} × the largest is outside of its prediction", if with_constant { 16 } else { 4 }),
            Promise::AtMost,
            ERROR,
            move |draws| {
                let mut points = law(draws, sizes + 2, constant);
                let Some((x, y)) = points.pop() else { return false };
                points.pop();
                PowerLaw::new(&points, with_constant)
                    .is_some_and(|law| law.p_at(LawNumber::RatioAt { x, y }, 0.0) < Some(ERROR))
            },
        ));
        all.push(Situation::new(
            format!("{name}: the interval excludes the exponent"),
            Promise::AtMost,
            ERROR,
            move |draws| {
                let exponent = if with_constant { -0.3 } else { -0.1 };
                let law = PowerLaw::new(&law(draws, sizes, constant), with_constant);
                law.is_some_and(|law| law.p_at(LawNumber::Exponent, exponent) < Some(ERROR))
            },
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
