//! Concurrent programs: the part of the machine that each gets without a declaration in the recipe, and the messages
//! about it.

use crate::sandbox::Sandbox;

const PROGRAMS: &str = "
steps:
  a:
    uses: command
    matrix: { number: [1, 2, 3] }
    with: { run: 'echo threads=$SWEEP_THREADS; echo openmp=$OMP_NUM_THREADS', env: { N: '${{ matrix.number }}' } }
";

fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Describes a limit of `most` jobs at once.
fn at_once(most: usize) -> String {
    if most == 1 { "one at a time".to_owned() } else { format!("{most} at once") }
}

#[test]
fn a_program_takes_one_core_and_plan_and_run_say_so() {
    let sandbox = Sandbox::with(PROGRAMS);
    let line = format!("3 jobs, {} (1 core each)", at_once(cores().min(3)));
    let plan = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(plan.lines().any(|said| said == line), "{plan}");
    let mut run = sandbox.command(&["run", "recipe.yaml"]);
    let ended = run.env_remove("OMP_NUM_THREADS").output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && stderr.lines().any(|said| said == line), "{stderr}");
    for (label, record) in sandbox.records() {
        let metrics = &record["outcome"]["metrics"];
        assert_eq!((&metrics["threads"]["value"], &metrics["openmp"]["value"]), (&1.0.into(), &1.0.into()), "{label}");
        assert_eq!(record["provenance"]["threads"], 1, "{label}");
    }
    // Nothing runs, so there is nothing to say.
    assert!(!sandbox.sweep(&["plan", "recipe.yaml"]).stdout.contains("at once"));
}

/// Programs that wait for something else than a core, at three on each core of the machine.
#[test]
fn a_part_of_a_core_is_enough_for_a_program_that_waits() {
    let sandbox = Sandbox::new();
    let outside = tempfile::tempdir().unwrap();
    let (folder, jobs) = (outside.path().display(), 3 * cores());
    // Each waits for all others.
    sandbox.write(
        "recipe.yaml",
        &format!(
            "steps:\n  a:\n    uses: command\n    matrix: {{ own: {{ range: [0, {jobs}] }} }}\n    timeout: 2m\n    \
             resources: {{ cpus: 0.333 }}\n    with: {{ run: 'touch {folder}/here$OWN; echo threads=$SWEEP_THREADS; \
             until [ $(ls {folder} | grep -c here) = {jobs} ]; do sleep 0.05; done', env: {{ OWN: '${{{{ matrix.own }}}}' }} }}\n"
        ),
    );
    let line = format!("{jobs} jobs, {jobs} at once (0.333 of a core each)");
    let plan = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(plan.lines().any(|said| said == line), "{plan}");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (label, record) in sandbox.records() {
        assert_eq!(record["outcome"]["metrics"]["threads"]["value"], 1.0, "{label}");
    }
}

#[test]
fn programs_run_beside_each_other() {
    if cores() < 2 {
        eprintln!("not run: this machine has one core");
        return;
    }
    // Each waits for the other.
    let sandbox = Sandbox::new();
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().display();
    sandbox.write(
        "recipe.yaml",
        &format!(
            "steps:\n  a:\n    uses: command\n    matrix: {{ own: [0, 1] }}\n    timeout: 1m\n    with: {{ run: 'touch {folder}/here$OWN; \
             until [ -e {folder}/here$((1 - OWN)) ]; do sleep 0.05; done', env: {{ OWN: '${{{{ matrix.own }}}}' }} }}\n"
        ),
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_number_of_jobs_at_once_is_bounded_by_a_flag_and_by_the_environment() {
    let sandbox = Sandbox::with(PROGRAMS);
    let line = "3 jobs, one at a time (`--jobs 1` or `SWEEP_JOBS=1`)";
    let said = |command: &mut std::process::Command| {
        let ended = command.output().unwrap();
        (ended.status.code(), String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap())
    };
    let expected = if cores() == 1 { "3 jobs, one at a time (1 core each)" } else { line };
    for command in [
        sandbox.command(&["plan", "recipe.yaml", "--jobs", "1"]).env_remove("SWEEP_JOBS"),
        sandbox.command(&["plan", "recipe.yaml"]).env("SWEEP_JOBS", "1"),
        sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_JOBS", "1"),
    ] {
        let (code, text) = said(command);
        assert!(code == Some(0) && text.contains(expected), "{text}");
    }
    for wrong in ["0", "many", "-1"] {
        for command in ["plan", "run"] {
            let (code, text) = said(sandbox.command(&[command, "recipe.yaml"]).env("SWEEP_JOBS", wrong));
            assert!(code == Some(2) && text.contains(wrong), "{command} {wrong}: {text}");
        }
    }
}

#[test]
fn steps_that_take_different_parts_of_the_machine_are_told_apart() {
    let sandbox = Sandbox::with(
        "
steps:
  small: { uses: command, matrix: { seed: [0, 1] }, with: { run: 'true' } }
  alone: { uses: command, matrix: { seed: [2, 3] }, with: { run: 'true' }, exclusive: true }
  lab: { uses: mock, matrix: { seed: [4, 5] } }
  narrow: { uses: command, matrix: { seed: [6, 7] }, with: { run: 'true' }, resources: { cpus: 1 } }
",
    );
    let plan = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    let all = if cores() == 1 { "1 core each".to_owned() } else { format!("all {} cores each", cores()) };
    let lines = [
        format!("small, narrow: 4 jobs, {} (1 core each)", at_once(cores().min(4))),
        "alone: 2 jobs, one at a time (`exclusive: true`: nothing else runs at the same time)".to_owned(),
        format!("lab: 2 jobs, one at a time ({all})"),
    ];
    for line in lines.iter().take(if cores() == 1 { 2 } else { 3 }) {
        assert!(cores() == 1 || plan.lines().any(|said| said == line), "{line}: {plan}");
    }
    // One that measures has all cores.
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", "alone"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.records()["alone/seed=2"]["provenance"]["threads"].as_u64(), Some(cores() as u64));
}

#[test]
fn a_program_takes_one_gpu_of_a_machine_with_gpus_unless_it_wants_none() {
    let sandbox = Sandbox::with(
        "
steps:
  one: { uses: command, matrix: { seed: [0, 1, 2] }, with: { run: 'echo gpu=$CUDA_VISIBLE_DEVICES' } }
  none: { uses: command, matrix: { seed: [3, 4, 5] }, with: { run: 'echo gpu=\"$CUDA_VISIBLE_DEVICES\"' }, resources: { gpus: 0 } }
  two:
    uses: command
    with: { run: 'if [ $RANK = 0 ]; then echo gpu=$(echo $CUDA_VISIBLE_DEVICES | tr -d ,); fi', launch: torchrun, ranks: 2 }
",
    );
    let ended = sandbox.command(&["run", "recipe.yaml"]).env("CUDA_VISIBLE_DEVICES", "5,7").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let records = sandbox.records();
    for (label, record) in &records {
        let gpu = record["outcome"]["metrics"]["gpu"]["value"].as_f64();
        match label.split('/').next().unwrap() {
            "one" => assert!(gpu == Some(5.0) || gpu == Some(7.0), "{label}: {gpu:?}"),
            "two" => assert_eq!(gpu, Some(57.0)),
            _ => assert_eq!(record["provenance"]["conditions"]["gpu"], serde_json::Value::Null, "{label}"),
        }
    }
    let plan =
        sandbox.command(&["plan", "recipe.yaml", "--axis", "seed=8,9"]).env("CUDA_VISIBLE_DEVICES", "5,7").output();
    let plan = String::from_utf8(plan.unwrap().stdout).unwrap();
    assert!(cores() < 2 || plan.contains("2 at once ("), "{plan}");
}
