//! Runs of trackio: a database for each project, `PROJECT.db`.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{End, ImportError, Run, Runs, lenient, sqlite::Database};

/// True for a database of trackio.
pub(super) fn is_database(database: &Database) -> bool {
    database.has_column("metrics", "run_name") && database.has_column("metrics", "metrics") && database.has("configs")
}

/// Reads a database. trackio does not record the ends of runs, so all of them count as finished.
pub(super) fn read_database(database: &Database) -> Result<Runs, ImportError> {
    // Earlier versions know runs by their names only.
    let has_ids = database.has_column("metrics", "run_id") && database.has_column("configs", "run_id");
    let id = if has_ids { "run_id" } else { "run_name" };
    let mut runs = Runs::default();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut place = |runs: &mut Runs, id: &str, name: &str| {
        *places.entry(id.to_owned()).or_insert_with(|| {
            runs.runs.push(Run { id: id.to_owned(), name: name.to_owned(), end: End::Finished, ..Run::default() });
            runs.runs.len() - 1
        })
    };
    database.rows("configs", &[id, "run_name", "config"], &mut |cells| {
        let (Some(id), Some(config)) = (cells[0].text(), cells[2].text().and_then(lenient::json)) else { return };
        let place = place(&mut runs, id, cells[1].text().unwrap_or_default());
        if let Json::Object(entries) = config {
            for (name, value) in entries.iter().filter(|(name, _)| !name.starts_with('_')) {
                lenient::add(&mut runs.runs[place].params, name, value);
            }
        }
    })?;
    let mut unread = 0;
    database.rows("metrics", &[id, "run_name", "step", "metrics", "timestamp"], &mut |cells| {
        let (Some(id), Some(Json::Object(values))) = (cells[0].text(), cells[3].text().and_then(lenient::json)) else {
            unread += 1;
            return;
        };
        let place = place(&mut runs, id, cells[1].text().unwrap_or_default());
        let run = &mut runs.runs[place];
        let at = cells[4].text().and_then(lenient::milliseconds);
        let started = *run.started.get_or_insert(at.unwrap_or_default());
        run.seconds = at.map_or(run.seconds, |at| run.seconds.max((at - started) as f64 / 1000.0));
        let step = lenient::step(cells[2].number().unwrap_or(0.0));
        for (name, value) in &values {
            if let Some(number) = lenient::number(value) {
                run.log(name, step, number);
            }
        }
    })?;
    if unread > 0 {
        runs.notices.push(format!("{unread} rows of metrics are not JSON, and are left out"));
    }
    Ok(runs)
}
