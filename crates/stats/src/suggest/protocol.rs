//! Samplers in other programs: one question and one answer in JSON (docs/search.md describes the protocol).

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sweep_job::Value;

use super::{Outcome, Point, Question, Space};
use crate::{
    host::ask::{self, Children, Limits, converse},
    stats::Better,
};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;
/// The program that implements the protocol with Optuna's samplers.
const OPTUNA: &str = include_str!("../../../../python/sweep/optuna.py");
/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Maximum length of the shown end of stderr, in bytes.
const MAX_STDERR_LENGTH: usize = 2000;
/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_mins(30);
/// Longest name and version in bytes.
const MAX_NAME_LENGTH: usize = 200;

/// A sampler in another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// A sampler of Optuna: `tpe`, `cmaes` or `gp`.
    Optuna(&'static str),
    /// A program and its arguments.
    Program {
        /// The command.
        argv: Vec<String>,
        /// The folder in which it runs: the recipe's folder.
        folder: PathBuf,
    },
}

/// Configurations, and the sampler that chose them.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The sampler's name.
    pub name: String,
    /// The sampler's version.
    pub version: String,
    /// The configurations.
    pub points: Vec<Point>,
}

/// Reason why a sampler gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The program cannot be started.
    #[error("the sampler `{sampler}` cannot be started: {source}")]
    Start {
        /// The sampler.
        sampler: String,
        /// The reason.
        source: io::Error,
    },
    /// The program ended with an error or did not end.
    #[error("the sampler `{sampler}` {how}{}", .says.as_ref().map(|says| format!(": {says}")).unwrap_or_default())]
    Failed {
        /// The sampler.
        sampler: String,
        /// The exit status or signal of the sampler.
        how: String,
        /// The end of its standard error.
        says: Option<String>,
    },
    /// The output is not a valid answer.
    #[error("the sampler `{sampler}` gave an invalid answer: {reason}; docs/search.md describes the protocol")]
    Answer {
        /// The sampler.
        sampler: String,
        /// The mistake.
        reason: String,
    },
}

/// The serialized form of a question.
#[derive(Debug, Serialize)]
struct Written<'a> {
    protocol: u32,
    sampler: String,
    direction: &'static str,
    n: usize,
    batch: usize,
    rungs: usize,
    seed: u32,
    study_seed: u32,
    space: &'a Space,
    trials: Vec<WrittenTrial<'a>>,
}

#[derive(Debug, Serialize)]
struct WrittenTrial<'a> {
    batch: usize,
    point: BTreeMap<&'a str, &'a Value>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rung: Option<usize>,
}

/// The deserialized form of an answer. Further keys are ignored.
#[derive(Debug, Deserialize)]
struct Read {
    protocol: u32,
    name: String,
    version: String,
    points: Vec<BTreeMap<String, Value>>,
}

impl Provider {
    /// Its name in messages and decisions.
    pub fn name(&self) -> String {
        match self {
            Self::Optuna(sampler) => format!("optuna.{sampler}"),
            Self::Program { argv, .. } => argv.join(" "),
        }
    }

    /// Asks for configurations.
    pub(super) fn ask(&self, question: &Question<'_>) -> Result<Answer, AskError> {
        let sampler = self.name();
        let input = serde_json::to_vec(&self.written(question)).map_err(|error| self.unusable(error.to_string()))?;
        let limits = Limits { most: MAX_ANSWER_BYTES, until: Instant::now() + TIMEOUT, children: Children::Awaited };
        let reply = converse(&mut self.command(), Some(input), limits)
            .map_err(|source| AskError::Start { sampler: sampler.clone(), source })?;
        let output = self.output(reply)?;
        let response: Read = serde_json::from_slice(&output).map_err(|error| self.unusable(error.to_string()))?;
        self.checked(response, question)
    }

    fn written<'a>(&self, question: &Question<'a>) -> Written<'a> {
        let trial = |trial: &'a super::Trial| {
            let (state, value, rung) = match trial.outcome {
                Outcome::Measured { rung, value } => ("done", Some(value), Some(rung)),
                Outcome::Failed => ("failed", None, None),
            };
            let point = question.space.names().zip(&trial.point).collect();
            WrittenTrial { batch: trial.batch, point, state, value, rung }
        };
        Written {
            protocol: PROTOCOL,
            sampler: self.name(),
            direction: match question.history.better {
                Better::Less => "min",
                Better::More => "max",
            },
            n: question.n,
            batch: question.batch,
            rungs: question.rungs,
            seed: low_bits(question.seed),
            study_seed: low_bits(question.study_seed),
            space: question.space,
            trials: question.history.trials.iter().map(trial).collect(),
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Optuna(_) => {
                let mut command = Command::new(python());
                command.args(["-c", OPTUNA]);
                // Threads may add numbers in another order.
                command.envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, "1")));
                command.env("PYTHONUTF8", "1").env("PYTHONHASHSEED", "0");
                command
            }
            Self::Program { argv, folder } => {
                let (program, arguments) = argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
                // A path of the recipe is relative to its folder, as the arguments are.
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                let path = folder.join(program);
                let path = std::path::absolute(&path).unwrap_or(path);
                let is_path = program.contains('/');
                let mut command = if is_path { Command::new(path) } else { Command::new(program) };
                command.args(arguments).current_dir(folder);
                command
            }
        }
    }

    /// The output of a program that ended well.
    fn output(&self, reply: ask::Answer) -> Result<Vec<u8>, AskError> {
        let stderr = reply.complaint.trim();
        let end = &stderr[stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_STDERR_LENGTH))..];
        let says = (!end.is_empty()).then(|| end.to_owned());
        let failure = |how: String| AskError::Failed { sampler: self.name(), how, says };
        match reply.status {
            None => Err(failure(format!("has not answered within {} minutes", TIMEOUT.as_secs() / 60))),
            Some(status) if !status.success() => Err(failure(format!("failed ({status})"))),
            Some(_) if !reply.is_whole() => Err(self.unusable(format!("it is longer than {MAX_ANSWER_BYTES} bytes"))),
            Some(_) => Ok(reply.text),
        }
    }

    /// Returns the answer, if every configuration is in the space. Configurations that were tried before are left out.
    fn checked(&self, response: Read, question: &Question<'_>) -> Result<Answer, AskError> {
        let Read { protocol, name, version, points } = response;
        if protocol != PROTOCOL {
            return Err(self.unusable(format!("it has protocol {protocol}, but this program supports {PROTOCOL}")));
        }
        if name.len() > MAX_NAME_LENGTH || version.len() > MAX_NAME_LENGTH || version.is_empty() {
            let reason = format!("`name` and `version` are texts of 1 to {MAX_NAME_LENGTH} bytes");
            return Err(self.unusable(reason));
        }
        if points.len() > question.n {
            return Err(self.unusable(format!(
                "it has {} points, but at most {} were requested",
                points.len(),
                question.n
            )));
        }
        let axes = &question.space.axes;
        let mut new_points: Vec<Point> = Vec::with_capacity(points.len());
        for (index, entry) in points.iter().enumerate() {
            if let Some(unknown) = entry.keys().find(|name| !axes.iter().any(|axis| axis.name == **name)) {
                return Err(self.unusable(format!("point {index} has an unknown axis `{unknown}`")));
            }
            let mut point = Vec::with_capacity(axes.len());
            for axis in axes {
                let Some(value) = entry.get(&axis.name) else {
                    return Err(self.unusable(format!("point {index} has no `{}`", axis.name)));
                };
                let Some(value) = axis.domain.admit(value) else {
                    return Err(self.unusable(format!("point {index} has `{}: {value}`, which is outside", axis.name)));
                };
                point.push(value);
            }
            let is_known =
                question.history.trials.iter().any(|trial| trial.point == point) || new_points.contains(&point);
            if !is_known {
                new_points.push(point);
            }
        }
        Ok(Answer { name, version, points: new_points })
    }

    fn unusable(&self, reason: String) -> AskError {
        AskError::Answer { sampler: self.name(), reason }
    }
}

/// A seed that every random number generator accepts.
fn low_bits(seed: u64) -> u32 {
    let [.., a, b, c, d] = seed.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The Python interpreter: the first `python3` on the `PATH`, else the one beside this program, where a wheel installs it.
fn python() -> PathBuf {
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("python3").is_file()));
    let interpreter = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join("python3")));
    interpreter.filter(|interpreter| !on_path && interpreter.is_file()).unwrap_or_else(|| PathBuf::from("python3"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::suggest::{Domain, History, Trial, space::Axis};

    fn program(script: &str) -> Provider {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        Provider::Program { argv, folder: std::env::temp_dir() }
    }

    fn asked(script: &str, n: usize) -> Result<Answer, AskError> {
        let axes = vec![
            Axis { name: "lr".into(), domain: Domain::Float { low: 1e-4, high: 1.0, log: true, step: None } },
            Axis {
                name: "act".into(),
                domain: Domain::Choice { values: vec![Value::Int(1), Value::Text("x".into())] },
            },
        ];
        let space = Space { axes };
        let mut history = History::new(Better::More);
        let point = |lr: f64, act: i64| vec![Value::Float(lr), Value::Int(act)];
        let outcome = Outcome::Measured { rung: 1, value: 0.25 };
        history.trials.push(Trial { point: point(0.5, 1), batch: 0, outcome });
        history.trials.push(Trial { point: point(0.25, 1), batch: 0, outcome: Outcome::Failed });
        let question = Question {
            space: &space,
            history: &history,
            n,
            seed: u64::MAX,
            study_seed: (1 << 32) + 7,
            batch: 1,
            rungs: 2,
        };
        program(script).ask(&question)
    }

    #[test]
    fn the_question_is_as_documented() {
        let Err(AskError::Failed { says: Some(text), .. }) = asked("cat >&2; exit 1", 3) else { panic!() };
        let question: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(
            question,
            json!({
                "protocol": 1, "sampler": "sh -c cat >&2; exit 1", "direction": "max", "n": 3, "batch": 1, "rungs": 2,
                "seed": u32::MAX, "study_seed": 7,
                "space": [
                    { "name": "lr", "type": "float", "low": 1e-4, "high": 1.0, "log": true, "step": null },
                    { "name": "act", "type": "choice", "values": [1, "x"] },
                ],
                "trials": [
                    { "batch": 0, "point": { "lr": 0.5, "act": 1 }, "state": "done", "value": 0.25, "rung": 1 },
                    { "batch": 0, "point": { "lr": 0.25, "act": 1 }, "state": "failed" },
                ],
            })
        );
    }

    #[test]
    fn answers_are_checked() {
        let answer = |points: &str| {
            asked(&format!(r#"echo '{{"protocol":1,"name":"mine","version":"3","points":{points}}}'"#), 2)
        };
        let valid_answer = answer(r#"[{"lr":0.1,"act":1.0},{"lr":0.5,"act":1}]"#).unwrap();
        assert_eq!(valid_answer.version, "3");
        assert_eq!(valid_answer.points, [vec![Value::Float(0.1), Value::Int(1)]], "what was tried is left out");
        for (points, reason) in [
            (r#"[{"lr":0.1}]"#, "has no `act`"),
            (r#"[{"lr":0.1,"act":2}]"#, "`act: 2`, which is outside"),
            (r#"[{"lr":1.5,"act":1}]"#, "`lr: 1.5`, which is outside"),
            (r#"[{"lr":0.1,"act":1,"wd":0}]"#, "unknown axis `wd`"),
            (r#"[{"lr":0.1,"act":1},{"lr":0.2,"act":1},{"lr":0.3,"act":1}]"#, "3 points, but at most 2"),
            ("7", "invalid type"),
        ] {
            let error = answer(points).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        for (script, reason) in [
            (r#"echo '{"protocol":2,"name":"a","version":"1","points":[]}'"#, "protocol 2"),
            (r#"echo '{"protocol":1,"name":"a","version":"","points":[]}'"#, "texts of 1 to 200"),
            ("echo nonsense", "expected"),
            ("", "EOF"),
            ("echo oops >&2; exit 4", "failed (exit status: 4): oops"),
            ("kill -9 $$", "failed (signal: 9"),
        ] {
            let error = asked(script, 2).unwrap_err().to_string();
            assert!(error.contains(reason), "{script}: {error}");
        }
    }
}
