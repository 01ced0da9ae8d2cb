//! Programs that run in their project as they do by hand.

use fs_err as fs;

use crate::{
    sandbox::Sandbox,
    tracking::{is_observed, open, run},
};

/// True if this machine gives programs private views; says so where it does not.
pub(crate) fn has_views() -> bool {
    let place = tempfile::tempdir().unwrap();
    let refused = sweep_observer::View::check(&place.path().join("check")).err();
    if let Some(error) = &refused {
        eprintln!("not tested: this machine has no private views of folders: {error}");
    }
    refused.is_none()
}

/// A project with a package, a configuration that is executed, and data beside the folder that programs start in.
fn project() -> Sandbox {
    let sandbox = Sandbox::with(
        "
steps:
  train:
    uses: command
    matrix: { lr: [0.1, 0.2] }
    with:
      project: code
      argv: [python3, -m, pkg.train, '--lr=${{ matrix.lr }}']
      outputs: [runs/model.pt]
      reads: { csv: log.csv }
    resources: { cpus: 1 }
tables:
  loss: { from: train, rows: [lr], cells: [loss, lines] }
",
    );
    sandbox.write("pyproject.toml", "");
    sandbox.write("data/points.txt", "1\n2\n3\n");
    sandbox.write("code/configurator.py", "scale = 10\n");
    sandbox.write("code/pkg/__init__.py", "");
    sandbox.write("code/pkg/model.py", "def loss(lr, scale): return lr * scale\n");
    sandbox.write(
        "code/pkg/train.py",
        "import os, sys\nfrom pkg.model import loss\nexec(open('configurator.py').read())\n\
         lines = len(open('../data/points.txt').readlines())\nlr = float(sys.argv[1].split('=')[1])\n\
         assert not os.path.exists('runs') and not os.path.exists('../data/cache')\n\
         os.makedirs('runs')\nopen('runs/model.pt', 'w').write(str(lr))\nopen('../data/cache', 'w').write('x')\n\
         os.remove('configurator.py')\n\
         open('log.csv', 'w').write('step,loss\\n1,%g\\n' % loss(lr, scale))\nprint('lines=%d' % lines)\n",
    );
    sandbox
}

/// A data set, a folder inside of it and the results are file systems of their own, as volumes of a container are.
#[test]
fn file_systems_inside_of_a_project_are_part_of_it() {
    const MOUNTS: &str = "mount --bind \"$0/data\" data; mount --bind \"$0/deep\" data/deep; mount --bind \"$0/results\" results; exec \"$@\"";
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::with(
        "steps:\n  train:\n    uses: command\n    matrix: { lr: [1, 2] }\n    with: { argv: [python3, train.py, '${{ matrix.lr }}'], outputs: [data/out.txt] }\n",
    );
    sandbox.write("pyproject.toml", "");
    sandbox.write(
        "train.py",
        "import os, sys\nassert sorted(os.listdir('data')) == ['deep', 'in.txt'] and os.listdir('results')\n\
         loss = float(open('data/in.txt').read()) * float(open('data/deep/scale.txt').read()) * int(sys.argv[1])\n\
         open('data/out.txt', 'w').write('x')\nos.remove('data/in.txt')\nprint(f'loss={loss}')\n",
    );
    for folder in ["data", "results"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    let disks = tempfile::tempdir().unwrap();
    for folder in ["data/deep", "deep", "results"] {
        fs::create_dir_all(disks.path().join(folder)).unwrap();
    }
    fs::write(disks.path().join("data/in.txt"), "0.5").unwrap();
    fs::write(disks.path().join("deep/scale.txt"), "3").unwrap();
    let may_mount = std::process::Command::new("unshare").args(["--mount", "true"]).status().unwrap().success();
    let namespaces = if may_mount { "-m" } else { "-Urm" };
    let sweep = |rest: &[&str]| {
        let own = sandbox.command(&[&["run", "recipe.yaml"], rest].concat());
        let mut command = std::process::Command::new("unshare");
        command.args([namespaces, "sh", "-ec", MOUNTS]).arg(disks.path()).arg(own.get_program()).args(own.get_args());
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.current_dir(sandbox.path("")).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let first = sweep(&[]);
    assert!(first.contains("loss 1.5") && first.contains("loss 3") && first.contains("2 done"), "{first}");
    assert!(disks.path().join("data/in.txt").exists() && !disks.path().join("data/out.txt").exists());
    assert!(sweep(&[]).contains("2 cached"));
    fs::write(disks.path().join("deep/scale.txt"), "5").unwrap();
    let edited = sweep(&[]);
    assert!(edited.contains("loss 2.5") && edited.contains("2 done"), "{edited}");
}

#[test]
fn a_program_runs_in_its_project_and_its_writes_are_its_own() {
    if !has_views() {
        return;
    }
    let sandbox = project();
    run(&sandbox);
    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "csv"]);
    assert!(report.stdout.contains("\n0.1,loss,,1,") && report.stdout.contains("\n0.2,lines,,3,"), "{}", report.stdout);
    for path in ["code/runs", "code/log.csv", "data/cache"] {
        assert!(!sandbox.path(path).exists(), "{path}");
    }
    assert!(sandbox.path("code/configurator.py").exists());
    let kept = |name: &str| {
        let records = fs::read_dir(sandbox.path("results/store"))
            .unwrap()
            .filter_map(|shard| fs::read_dir(shard.ok()?.path()).ok());
        let files = records
            .flatten()
            .filter_map(|record| fs::read_to_string(record.ok()?.path().join("files").join(name)).ok());
        let mut files: Vec<String> = files.collect();
        files.sort();
        files
    };
    assert_eq!(kept("runs/model.pt"), ["0.1", "0.2"]);
    assert_eq!(kept("log.csv"), Vec::<String>::new());
    assert_eq!(fs::read_dir(sandbox.path("results/store/staging")).map_or(0, Iterator::count), 0);
}

#[test]
fn what_a_program_reads_in_its_project_decides_what_runs_again() {
    if !has_views() {
        return;
    }
    let sandbox = project();
    run(&sandbox);
    assert_eq!(open(&sandbox), Vec::<String>::new());
    sandbox.write("notes.md", "unread");
    assert_eq!(open(&sandbox), Vec::<String>::new());
    for (path, text) in [("data/points.txt", "1\n2\n"), ("code/pkg/model.py", "def loss(lr, scale): return 7\n")] {
        sandbox.write(path, text);
        assert_eq!(open(&sandbox), ["train/lr=0.1", "train/lr=0.2"], "{path}");
        run(&sandbox);
    }
}

#[test]
fn a_failed_program_leaves_nothing_in_its_project() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::with(
        "
steps:
  train:
    uses: command
    with: { project: ., run: 'echo x > made; exit 3' }
",
    );
    sandbox.write("pyproject.toml", "");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    assert!(!sandbox.path("made").exists());
}

#[test]
fn the_place_of_a_project_is_no_part_of_the_key() {
    let keys = |folder: &str| {
        let sandbox = Sandbox::with(&format!(
            "steps:\n  a:\n    uses: command\n    with: {{ project: {folder}, run: 'echo x=1' }}\n"
        ));
        fs::create_dir_all(sandbox.path("inner")).unwrap();
        let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
        let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
        plan["jobs"][0]["key"].as_str().unwrap_or_default().to_owned()
    };
    assert!(!keys(".").is_empty());
    assert_eq!(keys("."), keys("inner"));
}

#[test]
fn a_folder_that_is_missing_is_a_mistake_of_the_recipe() {
    let sandbox = Sandbox::with("steps:\n  a:\n    uses: command\n    with: { project: nowhere, run: 'true' }\n");
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("recipe.yaml:4:22") && ended.stderr.contains("there is no `"), "{}", ended.stderr);
}

#[test]
fn folders_that_a_program_locks_are_removed() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::with(
        "steps:\n  a:\n    uses: command\n    with: { project: ., run: 'mkdir -p locked/deep; chmod 0 locked/deep; chmod 500 locked; echo v=1' }\n",
    );
    sandbox.write("pyproject.toml", "");
    run(&sandbox);
    assert_eq!(fs::read_dir(sandbox.path("results/store/staging")).map_or(0, Iterator::count), 0);
}

/// Nothing but the command line says which files the program needs.
#[test]
fn a_program_whose_command_line_names_files_runs_where_they_are() {
    if !has_views() {
        return;
    }
    let recipe = |with: &str| format!("steps: {{ a: {{ uses: command, with: {{ {with} }} }} }}");
    let sandbox = Sandbox::with("");
    sandbox.write("pkg/train.py", "import os\nprint('x=%s' % open('data.txt').read())\nos.mkdir('runs')\n");
    sandbox.write("go.sh", "python3 -m pkg.train\n");
    sandbox.write("Makefile", "all:\n\t@sh go.sh\n");
    sandbox.write("data.txt", "1");
    for with in [
        "argv: [python3, -m, pkg.train]",
        "argv: [sh, go.sh]",
        "argv: [make]",
        "run: 'python3 -c \"import pkg.train\" < data.txt | tee log'",
    ] {
        sandbox.write("recipe.yaml", &recipe(with));
        run(&sandbox);
        assert!(!sandbox.path("runs").exists(), "{with}");
        sandbox.write("data.txt", "2");
        assert_eq!(open(&sandbox), ["a"], "{with}");
        sandbox.write("data.txt", "1");
        // It is the job that it is when its folder is written out.
        sandbox.write("recipe.yaml", &recipe(&format!("{with}, project: .")));
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
    // A bundle has the files that were read, and not those that the plan asks for.
    sandbox.write("recipe.yaml", &recipe("argv: [sh, go.sh]"));
    let ended = sandbox.sweep(&["bundle", "create", "recipe.yaml", "-o", "bundle"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = sandbox.sweep(&["bundle", "verify", "bundle"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    // A list without files is a declaration, too.
    for with in ["argv: [sh, go.sh], inputs: []", "argv: [sh, go.sh], tracks: strict"] {
        sandbox.write("recipe.yaml", &recipe(with));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("`a` runs `go.sh`, which is not in the job's folder"), "{}", ended.stderr);
    }
}

/// A copy of a program, with other files beside it, is another program.
#[test]
fn copies_of_a_program_have_their_own_results() {
    if !has_views() || !is_observed() {
        return;
    }
    for mark in ["pyproject.toml", "unrelated"] {
        let sandbox = Sandbox::with(
            "
steps:
  one: { uses: command, with: { project: one, argv: [python3, train.py] } }
  two: { uses: command, with: { project: two, argv: [python3, train.py] } }
  first: { uses: command, with: { argv: [python3, train.py], inputs: [one/train.py] } }
  second: { uses: command, with: { argv: [python3, train.py], inputs: [two/train.py] } }
",
        );
        sandbox.write(mark, "");
        for (folder, value) in [("one", 1), ("two", 2)] {
            sandbox.write(&format!("{folder}/train.py"), "import model\nprint('x=%d' % model.value)\n");
            sandbox.write(&format!("{folder}/model.py"), &format!("value = {value}\n"));
        }
        let values = || {
            let ended = sandbox.sweep(&["query", "recipe.yaml", "--select", "label,x", "--format", "csv"]);
            let mut lines: Vec<String> = ended.stdout.lines().skip(1).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        run(&sandbox);
        assert_eq!(values(), ["first,1", "one,1", "second,2", "two,2"], "{mark}");
        assert_eq!(open(&sandbox), Vec::<String>::new(), "{mark}");
        sandbox.write("two/model.py", "value = 30\n");
        assert_eq!(open(&sandbox), ["second", "two"], "{mark}");
        run(&sandbox);
        assert_eq!(values(), ["first,1", "one,1", "second,30", "two,30"], "{mark}");
        sandbox.write("one/model.py", "value = 40\n");
        assert_eq!(open(&sandbox), ["first", "one"], "{mark}");
        run(&sandbox);
        sandbox.write("two/model.py", "value = 2\n");
        sandbox.write("one/model.py", "value = 1\n");
        assert_eq!(open(&sandbox), Vec::<String>::new(), "{mark}: the first records are valid again");
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    }
}

/// Files whose content does not matter are named in `ignore`, also after the run that read them.
#[test]
fn ignored_files_of_a_project_do_not_count() {
    if !has_views() || !is_observed() {
        return;
    }
    let recipe = |with: &str| format!("steps: {{ a: {{ uses: command, with: {{ argv: [sh, go.sh]{with} }} }} }}");
    let sandbox = Sandbox::with(&recipe(""));
    sandbox.write("go.sh", "cat docs/*.md data/* > /dev/null; echo x=1\n");
    sandbox.write("docs/README.md", "1");
    sandbox.write("data/a", "1");
    run(&sandbox);
    sandbox.write("docs/README.md", "2");
    assert_eq!(open(&sandbox), ["a"]);
    sandbox.write("recipe.yaml", &recipe(", ignore: [docs/]"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("docs/MORE.md", "1");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("data/a", "2");
    assert_eq!(open(&sandbox), ["a"]);
    run(&sandbox);
    // A name that appears in a folder that counts.
    sandbox.write("recipe.yaml", &recipe(", ignore: [docs/, '*.tmp']"));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("data/b.tmp", "1");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("data/b", "1");
    assert_eq!(open(&sandbox), ["a"]);
    // Names that were left out of a listing and count again.
    run(&sandbox);
    sandbox.write("recipe.yaml", &recipe(", ignore: ['*.tmp']"));
    assert_eq!(open(&sandbox), ["a"]);
    // A file that counts again is known as it was read.
    sandbox.write("go.sh", "cat docs/README.md > /dev/null; echo x=1\n");
    sandbox.write("recipe.yaml", &recipe(", ignore: [README.md]"));
    run(&sandbox);
    sandbox.write("recipe.yaml", &recipe(""));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("docs/README.md", "3");
    assert_eq!(open(&sandbox), ["a"]);
}
