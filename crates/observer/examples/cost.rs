//! Measures the cost of observation: runs a program in turns with and without it, and prints both medians.
//!
//! `cargo run --release -p sweep-observer --example cost -- PAIRS FOLDER PROGRAM [ARGUMENT...]`

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use sweep_observer::{Options, observe};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [pairs, folder, program, arguments @ ..] = words.as_slice() else {
        return Err(io::Error::other("usage: cost PAIRS FOLDER PROGRAM [ARGUMENT...]"));
    };
    let pairs: usize = pairs.parse().map_err(io::Error::other)?;
    let run = |is_observed: bool| -> io::Result<f64> {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null());
        let options = Options {
            project: PathBuf::from(folder),
            inputs: Vec::new(),
            skipped: Vec::new(),
            own: Vec::new(),
            layer: sweep_observer::Layer::default(),
            started: None,
            report: None,
            private: None,
            digest: |path: &Path| std::fs::read(path).map(|content| content.len().to_string()),
        };
        let begun = Instant::now();
        if !is_observed {
            command.status()?;
            return Ok(begun.elapsed().as_secs_f64());
        }
        let (hook, supervisor) = observe(options)?;
        hook.install(&mut command);
        let supervisor = thread::spawn(move || supervisor.run());
        let ended = command.status();
        let seconds = begun.elapsed().as_secs_f64();
        drop((command, hook));
        let seen = supervisor.join().map_err(|_| io::Error::other("the supervisor panicked"))?;
        ended?;
        if env::var_os("SHOW").is_some() {
            println!("{seen:#?}");
        }
        Ok(seconds)
    };
    let (mut bare, mut observed) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        bare.push(run(false)?);
        observed.push(run(true)?);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let (bare, observed) = (median(bare), median(observed));
    println!("bare {bare:.4} s, observed {observed:.4} s: {:.3}", observed / bare);
    Ok(())
}
