//! Runs one task in this process and prints its measurements, without the engine:
//!
//! ```text
//! cargo run --release -p sweep-lab --example task -- train cpu iters=200 prune=bitter7 dropout=0
//! ```

use std::{error::Error, path::PathBuf};

use sweep_job::{Backend, Progress, Report, Task, Value, Values};

struct Lines;

impl Report for Lines {
    fn progress(&mut self, progress: Progress) {
        let Progress { done, total, loss, tokens_per_s, sequences_per_s, .. } = progress;
        eprintln!("{done}/{total} loss {loss:?} tokens/s {tokens_per_s:?} sequences/s {sequences_per_s:?}");
    }

    fn note(&mut self, text: &str) {
        eprintln!("note: {text}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (task, backend) = (arguments.next(), arguments.next());
    let info = task.and_then(|name| Task::info(&name)).ok_or("usage: task TASK BACKEND [PARAMETER=VALUE]…")?;
    let backend = backend.and_then(|name| Backend::ALL.into_iter().find(|backend| backend.name() == name));
    let backend = backend.ok_or("the backend is `cuda`, `wgpu` or `cpu`")?;
    let mut given = Values::new();
    for argument in arguments {
        let (name, text) = argument.split_once('=').ok_or("parameters are given as NAME=VALUE")?;
        let param = info.param(name).ok_or_else(|| format!("`{name}` is no parameter"))?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::Text(text.to_owned()));
        given.insert(name.to_owned(), param.check(&value).map_err(|error| format!("{name}: {error}"))?);
    }
    let task = info.build(&info.complete(given)).ok_or("the parameters do not fit")?;
    let here = sweep_lab::Folders { files: PathBuf::from("."), scratch: PathBuf::from(".") };
    let outcome = sweep_lab::run(&task, backend, &here, &mut Lines).map_err(|failure| failure.message)?;
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    Ok(())
}
