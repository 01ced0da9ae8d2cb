//! Units of values that other programs show together, without their units.

use std::collections::BTreeMap;

use sweep_job::Unit;

use crate::record::Record;

/// The step of a record.
fn step_of(record: &Record) -> String {
    record.label.split('/').next().unwrap_or_default().to_owned()
}

/// Converts the values of each name and step in several units of one kind to the first of them, and returns sentences about names in
/// units of several kinds.
pub fn unify(records: &mut [Record]) -> Vec<String> {
    let mut units: BTreeMap<(String, String), Vec<Unit>> = BTreeMap::new();
    for record in &*records {
        let metrics = record.outcome.metrics.iter().map(|(name, metric)| (name, metric.unit));
        let curves = record.outcome.curves.iter().map(|(name, curve)| (name, curve.unit));
        for (name, unit) in metrics.chain(curves) {
            let known = units.entry((step_of(record), name.clone())).or_default();
            if !known.contains(&unit) {
                known.push(unit);
            }
        }
    }
    units.retain(|_, units| units.len() > 1);
    for record in records {
        let step = step_of(record);
        let target = |name: &str, unit: Unit| {
            let units = units.get(&(step.clone(), name.to_owned()));
            units.and_then(|units| units.iter().copied().find(|other| other.is_like(unit))).unwrap_or(unit)
        };
        let outcome = &mut record.outcome;
        for (name, metric) in outcome.metrics.iter_mut() {
            let to = target(name, metric.unit);
            metric.value = metric.unit.convert(metric.value, to);
            metric.unit = to;
        }
        for (name, curve) in &mut outcome.curves {
            let to = target(name, curve.unit);
            curve.values.iter_mut().for_each(|value| *value = curve.unit.convert(*value, to));
            curve.unit = to;
        }
    }
    let mixed = units.iter().filter(|(_, units)| units.iter().any(|unit| !unit.is_like(units[0])));
    let words = |units: &[Unit]| {
        let names = units.iter().map(|unit| match unit {
            Unit::One => "no unit".to_owned(),
            unit => format!("`{}`", unit.key()),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    mixed
        .map(|((step, name), units)| {
            format!("`{name}` of {step} is in several units, so its values are not comparable there: {}", words(units))
        })
        .collect()
}
