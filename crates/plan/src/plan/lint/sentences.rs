//! Numbers in the sentence of a claim that its bounds do not have: factors, shares, and quantities with a unit.

use sweep_job::{Unit, units::parse_quantity};

use crate::recipe::{Claim, Collector, Expectation, Measure, Names, Recipe, Side, Step, Template};

/// Relative difference below which two numbers are the same, because sentences round.
const SAME: f64 = 0.01;
/// Words for whole numbers.
const NUMBERS: &[(&str, f64)] = &[
    ("a", 1.0),
    ("an", 1.0),
    ("one", 1.0),
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("hundred", 100.0),
    ("thousand", 1000.0),
];
/// Words for parts of a whole, with the number of parts.
const PARTS: &[(&str, f64)] = &[
    ("third", 3.0),
    ("quarter", 4.0),
    ("fifth", 5.0),
    ("sixth", 6.0),
    ("seventh", 7.0),
    ("eighth", 8.0),
    ("ninth", 9.0),
    ("tenth", 10.0),
    ("fourteenth", 14.0),
    ("sixteenth", 16.0),
    ("twentieth", 20.0),
    ("hundredth", 100.0),
    ("thousandth", 1000.0),
];
/// Words for factors.
const FACTORS: &[(&str, f64)] = &[
    ("twice", 2.0),
    ("double", 2.0),
    ("doubles", 2.0),
    ("halve", 2.0),
    ("halves", 2.0),
    ("half", 2.0),
    ("thrice", 3.0),
    ("triples", 3.0),
];
/// Words before which `half` and `double` are not numbers: `half precision`.
const KINDS: &[&str] = &["precision", "pass", "passes", "descent"];

/// A number of a sentence.
#[derive(Debug, PartialEq)]
struct Mentioned {
    /// The words.
    text: String,
    /// The bounds that they may mean.
    means: Vec<f64>,
    /// The unit of the numbers; `None` for factors and shares.
    unit: Option<Unit>,
    /// True if the first meaning is the number in the form of a setting: a share in percent, or a quantity.
    is_literal: bool,
}

/// Warns about claims whose sentence has a factor, a share or a quantity that is neither a bound of the claim nor a
/// setting of its jobs. Numbers in parentheses are remarks.
pub(in crate::plan) fn sentences(recipe: &Recipe, problems: &mut Collector) {
    for claim in &recipe.claims {
        let (Some(says), Some(expect)) = (&claim.says, claim.expectation()) else { continue };
        let steps: Vec<&Step> = claim.selections().iter().map(|(step, _)| &recipe.steps[*step]).collect();
        let unit = match claim.statement.number() {
            Some((_, Measure::Ratio | Measure::Law(_))) => Unit::One,
            _ => expect.unit.unwrap_or_else(|| recipe.traits(steps[0], claim.metric()).unit),
        };
        let (bounds, settings, factors) = (bounds(expect), settings(recipe, &steps), factors(recipe, claim));
        for Mentioned { text, means, unit: own, is_literal } in mentioned(says) {
            // A quantity in another unit describes a setting, such as the length of a text.
            if own.is_some_and(|own| !own.is_like(unit)) {
                continue;
            }
            let in_unit = |bound: f64| own.map_or(bound, |own| unit.convert(bound, own));
            let is = |known: f64| means.iter().any(|mean| (mean - known).abs() <= SAME * known.abs());
            let is_setting =
                is_literal && settings.iter().any(|setting| (means[0] - setting).abs() <= SAME * setting.abs());
            if is_setting || bounds.iter().any(|bound| is(in_unit(*bound))) || factors.iter().any(|factor| is(*factor))
            {
                continue;
            }
            let (name, expected) = (&claim.name.value, expect.words());
            let message = format!("claim `{name}` says `{text}`, and expects {expected}");
            let help = "give `expect` the bound of the sentence, or write the number as a remark: `(… in the paper)`";
            problems.warn(&recipe.sources, claim.name.span, message, help);
        }
    }
}

/// The bounds of a claim, and the distances from them that do not matter.
fn bounds(expect: Expectation) -> Vec<f64> {
    let distances = expect.ties().flat_map(|(bound, [_, high])| [high - bound.value, high / bound.value - 1.0]);
    let bounds = expect.bounds().map(|(bound, _)| bound.value);
    bounds.chain(expect.within).chain(distances).collect()
}

/// A number that does not depend on the point.
fn value_of(recipe: &Recipe, template: &Template) -> Option<f64> {
    template.resolve(&recipe.params, &Names::new())?.value.as_f64()
}

/// The numbers that the jobs of some steps get: values of axes, parameters and defaults.
fn settings(recipe: &Recipe, steps: &[&Step]) -> Vec<f64> {
    let axes = steps.iter().flat_map(|step| step.matrix.dimensions.iter().flat_map(|dimension| dimension.listed()));
    let params = steps.iter().flat_map(|step| step.with.iter().map(|(_, template)| template));
    let defaults = steps.iter().flat_map(|step| step.task.params()).filter_map(|param| (param.default)().as_f64());
    axes.chain(params).filter_map(|template| value_of(recipe, template)).chain(defaults).collect()
}

/// The factors between the values of axes that distinguish the sides of a claim.
fn factors(recipe: &Recipe, claim: &Claim) -> Vec<f64> {
    let mut found = Vec::new();
    if let Some(comparison) = claim.statement.compared()
        && let Some(to) = &comparison.to
    {
        let chosen = |side: &Side, axis: &str| {
            let values = side.only.0.iter().find(|(name, _)| name.value == axis).map(|(_, values)| values.as_slice());
            values.and_then(<[Template]>::first).and_then(|template| value_of(recipe, template))
        };
        for (axis, _) in &comparison.of.only.0 {
            let both = chosen(&comparison.of, &axis.value).zip(chosen(to, &axis.value));
            found.extend(both.filter(|(_, to)| *to != 0.0).map(|(of, to)| of / to));
        }
    }
    found
}

/// The bounds that a factor may mean.
fn factor(value: f64) -> Vec<f64> {
    vec![value, value.recip()]
}

/// The bounds that a share may mean: the share, 1 minus the share, 1 plus the share, and their reciprocals.
fn share(value: f64) -> Vec<f64> {
    [value, 1.0 - value, 1.0 + value].into_iter().flat_map(factor).collect()
}

/// The numbers of a sentence.
fn mentioned(says: &str) -> Vec<Mentioned> {
    let text = without_parentheses(says);
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches([',', ';', ':', '"', '\'', '“', '”', '.'])).collect();
    let mut found = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let (more, length) = read(&words[index..]);
        found.extend(more);
        index += length;
    }
    found
}

fn without_parentheses(text: &str) -> String {
    let (mut depth, mut kept) = (0_usize, String::new());
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            char if depth == 0 => kept.push(char),
            _ => {}
        }
    }
    kept
}

/// The numbers at the beginning of some words, and the number of words that they take; at least one.
fn read(words: &[&str]) -> (Vec<Mentioned>, usize) {
    let next = |place: usize| words.get(place).copied().unwrap_or_default();
    let one = |means: Vec<f64>, length: usize| {
        (vec![Mentioned { text: words[..length].join(" "), means, unit: None, is_literal: true }], length)
    };
    if let Some(value) = of(FACTORS, words[0]).filter(|_| !KINDS.contains(&next(1)) && next(1) != "or") {
        let (mut found, length) = one(if words[0] == "half" { share(0.5) } else { factor(value) }, 1);
        found[0].is_literal = words[0] == "half";
        return (found, length);
    }
    let (Some(first), single) = number(words[0]) else { return (Vec::new(), 1) };
    if single {
        return one(share(first / 100.0), 1);
    }
    if let Some(parts) = of(PARTS, next(1).trim_end_matches('s')) {
        return one(share(first / parts), 2);
    }
    // `nine weights in ten`, `one in a thousand`.
    for (place, last) in [(1, 2), (1, 3), (2, 3), (2, 4)] {
        let is_in = next(place) == "in" && (last == place + 1 || next(last - 1) == "a");
        if is_in
            && last < words.len()
            && let (Some(all), false) = number(words[last])
            && all >= 10.0
            && first < all
        {
            return one(share(first / all), last + 1);
        }
    }
    // `two to three times`, `20 to 30 %`.
    let (second, end) = match next(1) {
        "to" | "or" | "and" => (number(next(2)), 3),
        _ => ((None, false), 1),
    };
    let last = if second.0.is_some() { end } else { 1 };
    let values: Vec<f64> = std::iter::once(first).chain(second.0).collect();
    let word = if second.1 { "%" } else { next(last) };
    let length = if second.1 { last } else { last + 1 };
    let each = |means: &dyn Fn(f64) -> Vec<f64>, unit: Option<Unit>| {
        let (text, is_literal) = (words[..length].join(" "), !matches!(word, "times" | "fold"));
        let of = |value: &f64| Mentioned { text: text.clone(), means: means(*value), unit, is_literal };
        (values.iter().map(of).collect(), length)
    };
    match word {
        "%" | "percent" => each(&|value| share(value / 100.0), None),
        "times" | "fold" => each(&factor, None),
        "" => (Vec::new(), 1),
        unit => {
            let unit = match unit {
                "second" | "seconds" => "s",
                "minute" | "minutes" => "min",
                unit => unit,
            };
            // A single letter is more likely a name than a unit.
            let unit = (unit.len() > 1 || unit == "s").then(|| parse_quantity(&format!("1 {unit}")).ok()?.1).flatten();
            unit.map_or((Vec::new(), 1), |unit| each(&|value| vec![value], Some(unit)))
        }
    }
}

fn of(known: &[(&str, f64)], word: &str) -> Option<f64> {
    known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// A number in digits or in words, and true if a percent sign follows at once.
fn number(word: &str) -> (Option<f64>, bool) {
    let digits = word.strip_suffix('%');
    let value = |text: &str| {
        let plain = text.starts_with(|char: char| char.is_ascii_digit()) && !text.contains('e');
        plain.then(|| text.replace(',', "").parse().ok()).flatten()
    };
    (value(digits.unwrap_or(word)).or_else(|| of(NUMBERS, &word.to_lowercase())), digits.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(says: &str) -> Vec<String> {
        mentioned(says).into_iter().map(|mentioned| mentioned.text).collect()
    }

    #[test]
    fn factors_shares_and_quantities_are_found() {
        for (says, wanted) in [
            ("It is five times as fast.", &["five times"] as &[&str]),
            ("It halves the memory.", &["halves"]),
            ("It takes 1.2 % of a step.", &["1.2 %"]),
            ("It is 20 to 30 % slower.", &["20 to 30 %", "20 to 30 %"]),
            ("It saves a third, or two thirds.", &["a third", "two thirds"]),
            ("Nine weights in ten are alike, one in a thousand is not.", &["Nine weights in ten", "one in a thousand"]),
            ("It takes 25 ms and 8.5 GB.", &["25 ms", "8.5 GB"]),
            ("It is as fast (5 times in the paper).", &[]),
            ("Half precision with batches of 256 and GPT-2 of 124 million weights.", &[]),
            ("The second third of 19 networks.", &[]),
        ] {
            assert_eq!(texts(says), wanted, "{says}");
        }
    }

    #[test]
    fn a_share_stands_for_what_it_leaves_and_adds() {
        let means = |says: &str, wanted: f64| {
            let all = mentioned(says);
            all[0].means.iter().any(|mean| (mean - wanted).abs() < SAME * wanted)
        };
        assert!(means("16 % less", 0.84) && means("16 % more", 1.16) && means("79.7 % goes", 0.203));
        assert!(means("a third less", 0.667) && means("a fourteenth", 14.0) && means("half as much", 2.0));
        assert!(!means("five times", 3.75) && !means("halves", 2.2));
    }
}
