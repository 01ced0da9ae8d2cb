//! Partners: the measurements of a side that pair with those of another side, and the names of sides.

use std::collections::BTreeSet;

use sweep_base::SEED;

use super::{
    conditions::names,
    evidence::{Found, Question, Side},
    units::{free_axes, place},
};
use crate::{
    format::{clean, count},
    plan::Point,
};

/// The measurements of each side that have a partner on the other one.
pub(super) fn with_partners<'a>(of: &Side<'a>, to: &Side<'a>, question: &Question<'_>) -> [Side<'a>; 2] {
    let points = |side: &Side<'a>| side.found.iter().map(|found| found.point).collect::<Vec<&Point>>();
    let free = free_axes(&points(of), &points(to), &question.apart, &question.kinds);
    [(of, to), (to, of)].map(|(own, other)| with_partner(own, other, &free))
}

/// The values of a side on the axes that distinguish the sides; `None` if it has several ones or none.
pub(super) fn name_of(side: &Side<'_>, apart: &[String]) -> Option<String> {
    let first = side.found.first()?.point;
    let mut values = Vec::new();
    let axes: BTreeSet<&String> = apart.iter().collect();
    for axis in axes {
        let value = first.get(axis)?;
        if side.found.iter().any(|found| found.point.get(axis) != Some(value)) {
            return None;
        }
        values.push(value.to_string());
    }
    (!values.is_empty()).then(|| format!("`{}`", clean(&values.join(", "))))
}

/// The jobs of each side that have no partner, in words.
pub(super) fn without_partners(sides: [&Side<'_>; 2], partners: &[Side<'_>; 2], apart: &[String]) -> Option<String> {
    let words = ["the first side", "the second side"];
    let texts = sides.iter().zip(partners).zip(words).filter_map(|((all, paired), word)| {
        let paired: BTreeSet<Vec<String>> = paired.found.iter().map(|found| place(found.point, |_| false)).collect();
        let others = all.found.iter().filter(|found| !paired.contains(&place(found.point, |_| false)));
        let others: Vec<&Found<'_>> = others.collect();
        let seeds: Vec<String> =
            others.iter().filter_map(|found| found.point.get(SEED)).map(ToString::to_string).collect();
        let name = name_of(all, apart).unwrap_or_else(|| word.to_owned());
        let seeds = if seeds.is_empty() {
            "the other side has no such run".to_owned()
        } else {
            let seed = if seeds.len() == 1 { "seed" } else { "seeds" };
            format!("the other side lacks {seed} {}", names(seeds.iter().map(String::as_str)))
        };
        (!others.is_empty()).then(|| format!("{} of {name} left out: {seeds}", count(others.len(), "job")))
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn with_partner<'a>(side: &Side<'a>, other: &Side<'_>, free: &[String]) -> Side<'a> {
    let key = |found: &Found<'_>| place(found.point, |axis| free.iter().any(|other| other == axis));
    let partners: BTreeSet<Vec<String>> = other.found.iter().map(key).collect();
    let found = side.found.iter().filter(|found| partners.contains(&key(found))).cloned().collect();
    Side { found, ..Side::default() }
}
