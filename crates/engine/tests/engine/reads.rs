//! Programs in many languages, each with two jobs that read different files. After an edit of a file that a job reads,
//! exactly this job runs again, and its result equals the result of the program when it is started by hand. After other
//! edits, no job runs.
//!
//! The programs are in `reads/*.txt`, whose lines begin with signs:
//!
//! - `@ NAME | LANGUAGE | READS` begins a program in a separate folder, which also has a file `README` that no program
//!   reads. READS describes the way in which the program reads files.
//! - `? PROGRAM …` names required programs; `$PY`, `$NP` and `$TORCH` are Pythons, the latter two with packages.
//! - `$ COMMAND` is the command that both jobs run in the folder; the variable `X` is `a` in one job and `b` in the
//!   other.
//! - `% FILE` adds two jobs that run the command from a job's own folder after `cd` to the program's folder, with FILE
//!   as their input.
//! - `-- FILE` begins a file, which ends at the next sign.
//! - `+ COMMAND` prepares the folder.
//! - `> JOBS: COMMAND` is an edit after which exactly these jobs run again: `a`, `b` or `ab`.
//! - `= COMMAND` is an edit after which no job runs again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
    thread,
};

use crate::{
    projects::has_views,
    sandbox::Sandbox,
    tracking::{is_observed, open, run},
};

/// The file that no program reads.
const UNREAD: &str = "README";
/// Edits after which no job runs again: files of editors and caches, and `touch`.
const COMMON: &str = "echo > .prog.swp; echo > 'README~'; echo changed > README; mkdir -p __pycache__; echo > __pycache__/prog.x.pyc; \
                      find . -path ./.git -prune -o -type f -exec touch {} +";

#[derive(Default)]
struct Program<'a> {
    name: &'a str,
    language: &'a str,
    reads: &'a str,
    needs: Vec<&'a str>,
    command: &'a str,
    script: Option<&'a str>,
    files: Vec<(&'a str, String)>,
    setup: Vec<&'a str>,
    /// Pairs of the jobs that run again (`a`, `b` or `ab`) and the edit.
    edits: Vec<(&'a str, &'a str)>,
    idle: Vec<&'a str>,
}

/// Parses the programs in `text`.
fn programs(text: &str) -> Vec<Program<'_>> {
    let mut programs: Vec<Program<'_>> = Vec::new();
    let mut is_file = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("@ ") {
            let mut parts = title.split(" | ");
            let mut part = || parts.next().unwrap();
            programs.push(Program { name: part(), language: part(), reads: part(), ..Program::default() });
            is_file = false;
            continue;
        }
        let Some(program) = programs.last_mut() else { continue };
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        let edit = rest.split_once(": ").filter(|(jobs, _)| sign == ">" && matches!(*jobs, "a" | "b" | "ab"));
        let was_file = std::mem::replace(&mut is_file, sign == "--");
        match sign {
            "--" => program.files.push((rest, String::new())),
            "?" => program.needs.extend(rest.split(' ')),
            "$" => program.command = rest,
            "%" => program.script = Some(rest),
            "+" => program.setup.push(rest),
            "=" => program.idle.push(rest),
            ">" if edit.is_some() => program.edits.extend(edit),
            _ if was_file => {
                is_file = true;
                writeln!(program.files.last_mut().unwrap().1, "{line}").unwrap();
            }
            _ => assert_eq!(line, "", "{}", program.name),
        }
    }
    programs
}

/// The Pythons that programs require, by the names of their variables.
fn pythons() -> [(&'static str, PathBuf); 3] {
    let kept = |name: &str| std::env::home_dir().unwrap_or_default().join(".cache/sweep").join(name);
    let folder = |variable: &str, name: &str| std::env::var_os(variable).map_or_else(|| kept(name), PathBuf::from);
    // The path of the interpreter itself: a wrapper that chooses a version is slower.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    [
        ("PY", PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())),
        ("NP", folder("SWEEP_PYTHON_MODULE", "module").join("bin/python")),
        ("TORCH", folder("SWEEP_PYTHON", "transformers").join("bin/python")),
    ]
}

/// A job: the number of its program, the name of its step, and the value of `X`.
type Job<'a> = (usize, &'a str, &'a str);

struct World<'a> {
    sandbox: Sandbox,
    /// Copies of the programs' folders before any edit.
    kept: tempfile::TempDir,
    variables: [(&'static str, PathBuf); 3],
    programs: Vec<Program<'a>>,
    /// Names of the steps of each program.
    steps: Vec<Vec<String>>,
    stale: BTreeMap<usize, usize>,
    needless: BTreeMap<usize, usize>,
    wrong: Vec<String>,
}

impl<'a> World<'a> {
    /// The programs in `text` whose requirements are installed. Prints the others.
    fn new(text: &'a str) -> Self {
        let variables = pythons();
        let has = |need: &&str| {
            let python = variables.iter().find(|(name, _)| need.strip_prefix('$') == Some(name));
            python.map_or_else(|| is_command(need), |(_, path)| path.exists())
        };
        let mut programs = programs(text);
        programs.retain(|program| {
            let missing: Vec<&str> = program.needs.iter().filter(|need| !has(need)).copied().collect();
            if !missing.is_empty() {
                eprintln!(
                    "not tested: {} ({}) needs {}, which scripts/test-deps.sh or scripts/python-deps.sh installs",
                    program.name,
                    program.language,
                    missing.join(", ")
                );
            }
            missing.is_empty()
        });
        let (sandbox, kept) = (Sandbox::new(), tempfile::tempdir().unwrap());
        let (stale, needless, wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let steps = programs.iter().map(steps).collect();
        let world = Self { sandbox, kept, variables, programs, steps, stale, needless, wrong };
        world.prepare();
        world
    }

    /// Writes the folders of the programs, and the recipe.
    fn prepare(&self) {
        self.sandbox.write("pyproject.toml", "");
        let mut recipe = "steps:\n".to_owned();
        let variables = self.variables.iter().map(|(name, path)| format!(", {name}: '{}'", path.display()));
        let variables = variables.collect::<Vec<_>>().concat();
        for (program, steps) in self.programs.iter().zip(&self.steps) {
            let name = program.name;
            for (file, text) in &program.files {
                self.sandbox.write(&format!("{name}/{file}"), text);
            }
            self.sandbox.write(&format!("{name}/{UNREAD}"), "");
            for step in steps {
                let (place, command) = match program.script.filter(|_| step != name) {
                    Some(script) => {
                        let folder = self.sandbox.path(name);
                        let command = format!("cd '{}' && {}", folder.display(), program.command);
                        (format!("inputs: [{name}/{script}]"), command)
                    }
                    None => (format!("project: {name}"), program.command.to_owned()),
                };
                write!(
                    recipe,
                    "  {step}:\n    uses: command\n    matrix: {{ x: [a, b] }}\n    with:\n      {place}\n      env: {{ X: \
                     '${{{{ matrix.x }}}}'{variables} }}\n      run: |\n        {command}\n"
                )
                .unwrap();
            }
        }
        self.sandbox.write("recipe.yaml", &recipe);
        self.edit(&self.programs.iter().map(|program| (program.name, program.setup.join("\n"))).collect::<Vec<_>>());
        let names: Vec<&str> = self.programs.iter().map(|program| program.name).collect();
        self.shell(&format!("rm -rf */__pycache__; cp -a {} '{}'", names.join(" "), self.kept.path().display()));
    }

    fn shell(&self, script: &str) {
        let output = command(script, &self.sandbox.path(""), &self.variables).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a script in the folder of each program.
    fn edit(&self, scripts: &[(&str, String)]) {
        let all = scripts.iter().map(|(name, script)| format!("(cd {name}\n{script}\n)\n"));
        self.shell(&all.collect::<String>());
    }

    /// Restores the folders of programs.
    fn undo(&self, names: &[&str]) {
        self.shell(&format!("rm -rf {}", names.join(" ")));
        let kept = names.iter().map(|name| format!("'{}/{name}'", self.kept.path().display()));
        self.shell(&format!("cp -a {} .", kept.collect::<Vec<_>>().join(" ")));
    }

    /// Compares the jobs that would run with the `expected` ones. `edit` describes the edit of a program.
    fn check(&mut self, expected: &[Job<'_>], edit: &dyn Fn(usize) -> String) {
        let planned: BTreeSet<String> = open(&self.sandbox).into_iter().collect();
        let label = |(_, step, x): &Job<'_>| format!("{step}/x={x}");
        for job in expected.iter().filter(|job| !planned.contains(&label(job))) {
            *self.stale.entry(job.0).or_default() += 1;
            self.wrong.push(format!("stale: {} after {}", label(job), edit(job.0)));
        }
        let expected: BTreeSet<String> = expected.iter().map(label).collect();
        for other in planned.difference(&expected) {
            let step = other.split('/').next().unwrap_or_default();
            let program = self.steps.iter().position(|steps| steps.iter().any(|own| own == step)).unwrap();
            *self.needless.entry(program).or_default() += 1;
            self.wrong.push(format!("needless: {other} after {}", edit(program)));
        }
    }

    /// Compares the results of jobs with those of the programs when they are started by hand.
    fn compare(&mut self, jobs: &[Job<'_>]) {
        let ended = self.sandbox.sweep(&["query", "recipe.yaml", "--select", "label,v", "--format", "csv"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let values: BTreeMap<&str, &str> = ended.stdout.lines().filter_map(|line| line.split_once(',')).collect();
        let open = Mutex::new(jobs.iter());
        // A separate function, so that the lock is released before a program runs.
        let next = || open.lock().unwrap().next();
        let wrong = Mutex::new(Vec::new());
        let work = || {
            while let Some((program, step, x)) = next() {
                let label = format!("{step}/x={x}");
                let (value, by_hand) = (values.get(label.as_str()).copied(), self.by_hand(*program, x));
                let number = |text: &str| text.trim().parse::<f64>().ok();
                if value.and_then(number).is_none() || value.and_then(number) != number(&by_hand) {
                    wrong.lock().unwrap().push(format!("wrong: {label} has {value:?}, and {by_hand} by hand"));
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        self.wrong.extend(wrong.into_inner().unwrap());
    }

    /// Runs a program without `sweep`, in a copy of its folder, and returns its result, or its output if it has none.
    fn by_hand(&self, program: usize, x: &str) -> String {
        let Program { name, command: text, .. } = self.programs[program];
        let copy = tempfile::tempdir().unwrap();
        self.shell(&format!("cp -a {name} '{}'", copy.path().display()));
        let Output { stdout, stderr, .. } =
            command(text, &copy.path().join(name), &self.variables).env("X", x).output().unwrap();
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        let value = stdout.lines().rev().find_map(|line| line.strip_prefix("v="));
        value.map_or_else(|| format!("{stdout}{}", String::from_utf8_lossy(&stderr)), str::to_owned)
    }

    /// Makes the first edit of each program, runs the affected jobs, and reverts the edit; then the second edit, and so
    /// on.
    fn edit_each(&mut self) {
        let rounds = self.programs.iter().map(|program| program.edits.len()).max().unwrap_or(0);
        let steps = self.steps.clone();
        for round in 0..rounds {
            let edits: BTreeMap<usize, (&str, &str)> = self
                .programs
                .iter()
                .enumerate()
                .filter_map(|(index, program)| Some((index, *program.edits.get(round)?)))
                .collect();
            let names: Vec<&str> = edits.keys().map(|index| self.programs[*index].name).collect();
            let scripts: Vec<(&str, String)> =
                edits.iter().map(|(index, (_, script))| (self.programs[*index].name, (*script).to_owned())).collect();
            self.edit(&scripts);
            let jobs: Vec<Job<'_>> = edits
                .iter()
                .flat_map(|(index, (jobs, _))| {
                    let steps = steps[*index].iter();
                    steps.flat_map(move |step| {
                        jobs.split("").filter(|x| !x.is_empty()).map(move |x| (*index, step.as_str(), x))
                    })
                })
                .collect();
            let edit =
                |index: usize| edits.get(&index).map_or_else(|| "other edits".to_owned(), |edit| edit.1.to_owned());
            self.check(&jobs, &edit);
            let said = run(&self.sandbox);
            assert!(!said.contains("not observed"), "{said}");
            self.compare(&jobs);
            // The check of the next round fails if a job does not find its record after the revert.
            self.undo(&names);
        }
    }

    /// Makes edits that affect no job.
    fn edit_others(&mut self) {
        let rounds = self.programs.iter().map(|program| program.idle.len()).max().unwrap_or(0);
        for round in 0..=rounds {
            let edits: BTreeMap<usize, &str> = (0..self.programs.len())
                .filter_map(|index| {
                    let own = round.checked_sub(1).map_or(Some(&COMMON), |round| self.programs[index].idle.get(round));
                    Some((index, *own?))
                })
                .collect();
            let scripts: Vec<(&str, String)> =
                edits.iter().map(|(index, script)| (self.programs[*index].name, (*script).to_owned())).collect();
            self.edit(&scripts);
            self.check(&[], &|index| edits.get(&index).copied().unwrap_or("other edits").to_owned());
            let names: Vec<&str> = scripts.iter().map(|(name, _)| *name).collect();
            self.undo(&names);
        }
    }

    fn table(&self) -> String {
        let mut table = "| program | language | reads | jobs | edits | stale | needless |\n".to_owned();
        table += "| --- | --- | --- | --- | --- | --- | --- |\n";
        for (index, program) in self.programs.iter().enumerate() {
            let Program { name, language, reads, edits, idle, .. } = program;
            let count = |counts: &BTreeMap<usize, usize>| counts.get(&index).copied().unwrap_or(0);
            let (jobs, edits) = (2 * self.steps[index].len(), edits.len() + idle.len() + 1);
            let (stale, needless) = (count(&self.stale), count(&self.needless));
            writeln!(table, "| {name} | {language} | {reads} | {jobs} | {edits} | {stale} | {needless} |").unwrap();
        }
        table
    }
}

/// The names of the steps of a program.
fn steps(program: &Program<'_>) -> Vec<String> {
    let own = program.script.map(|_| format!("{}_inputs", program.name));
    [program.name.to_owned()].into_iter().chain(own).collect()
}

/// A shell script, which ends at the first command that fails.
fn command(script: &str, folder: &Path, variables: &[(&'static str, PathBuf)]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-ec", script])
        .current_dir(folder)
        .envs(variables.iter().cloned())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("OMP_NUM_THREADS", "1").env_remove("PYTHONPATH");
    command
}

fn is_command(name: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {name}")]).output().is_ok_and(|output| output.status.success())
}

/// Tests the programs in `text` with all of their edits.
fn check(text: &str) {
    if !has_views() {
        return;
    }
    if !is_observed() {
        eprintln!("not tested: the kernel reports no system calls here");
        return;
    }
    let mut world = World::new(text);
    let said = run(&world.sandbox);
    assert!(!said.contains("not observed"), "{said}");
    world.check(&[], &|_| "the first run".to_owned());
    world.edit_each();
    world.edit_others();
    println!("{}", world.table());
    assert!(world.wrong.is_empty(), "{}\n{}", world.wrong.join("\n"), world.table());
}

#[test]
fn programs_in_python() {
    check(include_str!("reads/python.txt"));
}

#[test]
fn programs_in_other_languages() {
    check(include_str!("reads/others.txt"));
}
