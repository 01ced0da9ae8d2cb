//! Inputs: ignored files of their folders, the results folder, and files that jobs write into them.

use crate::sandbox::{Sandbox, list, until};

/// A job that reads the names of the files in `data`, and takes its own from `load.py`.
fn with_data(more: &str) -> Sandbox {
    let sandbox = Sandbox::with(&format!(
        "steps: {{ a: {{ uses: command, with: {{ argv: [sh, -c, 'echo x=1'], inputs: [data]{more} }} }} }}"
    ));
    sandbox.write("data/a.txt", "1");
    sandbox.write("data/README.md", "about");
    sandbox
}

fn run(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr
}

fn is_cached(sandbox: &Sandbox) -> bool {
    sandbox.plan_tally(&["recipe.yaml"]).1 == 0
}

#[test]
fn traces_of_tools_in_an_input_folder_rerun_nothing() {
    let sandbox = with_data("");
    run(&sandbox);
    for name in [
        "data/.DS_Store",
        "data/x.swp",
        "data/.a.txt.swp",
        "data/a.txt~",
        "data/.git/HEAD",
        "data/sub/.git/HEAD",
        "data/__pycache__/m.cpython-313.pyc",
        "data/.ipynb_checkpoints/a-checkpoint.ipynb",
    ] {
        sandbox.write(name, "1");
    }
    fs_err::os::unix::fs::symlink("me@host.1:2", sandbox.path("data/.#a.txt")).unwrap();
    // A folder for nothing but a repository is one more folder.
    fs_err::remove_dir_all(sandbox.path("data/sub")).unwrap();
    assert!(is_cached(&sandbox));
    sandbox.write("data/README.md", "about more");
    assert!(!is_cached(&sandbox), "it is content unless the recipe says otherwise");
    sandbox.write("data/README.md", "about");
    sandbox.write("data/a.txt", "2");
    assert!(!is_cached(&sandbox));
}

#[test]
fn a_recipe_names_further_files_that_are_no_content() {
    let sandbox = with_data(", ignore: [README.md, '*.cache', '!.git']");
    run(&sandbox);
    sandbox.write("data/README.md", "about more");
    sandbox.write("data/sub.cache", "1");
    assert!(is_cached(&sandbox));
    sandbox.write("data/.git/HEAD", "1");
    assert!(!is_cached(&sandbox), "it was brought back");

    let without = with_data("");
    run(&without);
    let recipe = without.read("recipe.yaml").replace("inputs: [data]", "inputs: [data], ignore: ['*.nothing']");
    without.write("recipe.yaml", &recipe);
    assert!(is_cached(&without), "a pattern that leaves nothing out changes no key");
    without.write("recipe.yaml", &recipe.replace("'*.nothing'", "'../x'"));
    let ended = without.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("the pattern `../x` has a part that is empty, `.` or `..`"), "{}", ended.stderr);
}

#[test]
fn a_broken_link_in_an_input_folder_is_named() {
    let sandbox = with_data("");
    sandbox.write("data/sub/b.txt", "1");
    fs_err::os::unix::fs::symlink("../gone.txt", sandbox.path("data/sub/link.txt")).unwrap();
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3));
    let said = ended.stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    assert!(said.contains("data/sub/link.txt` is a link to `../gone.txt`, which does not exist"), "{}", ended.stderr);
    let recipe = sandbox.read("recipe.yaml").replace("inputs: [data]", "inputs: [data], ignore: [link.txt]");
    sandbox.write("recipe.yaml", &recipe);
    run(&sandbox);
}

#[test]
fn the_results_folder_is_part_of_no_input() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { seed: [0, 1] }, with: { run: 'echo x=1', inputs: [.], seed: '${{ matrix.seed }}' } } }",
    );
    sandbox.write("train.py", "1");
    let said = run(&sandbox);
    run(&sandbox);
    assert!(is_cached(&sandbox));
    let said_now = run(&sandbox);
    assert!(!said.contains("changed"), "{said}");
    let times = said_now.matches("contains the results folder").count();
    assert_eq!(times, 1, "{said_now}");
    sandbox.write("train.py", "2");
    assert!(!is_cached(&sandbox));
}

/// A loader that writes a cache beside its data, as those of YOLO do, with a folder for itself.
const LOADER: &str = "
import os, sys
data = os.path.join(sys.argv[1], 'labels')
if not os.path.exists(os.path.join(data, 'train.cache')):
    os.makedirs(os.path.join(data, 'cached'), exist_ok=True)
    with open(os.path.join(data, 'cached', 'part'), 'w') as file:
        file.write(os.environ['SWEEP_SEED'])
    temporary = os.path.join(data, 'tmp' + os.environ['SWEEP_SEED'])
    with open(temporary, 'w') as file:
        file.write(os.environ['SWEEP_SEED'])
    os.replace(temporary, os.path.join(data, 'train.cache'))
print('x=%d' % len(open(os.path.join(data, 'a.txt')).read()))
";

fn with_loader(more: &str) -> Sandbox {
    let sandbox = Sandbox::with(&format!(
        "steps: {{ a: {{ uses: command, matrix: {{ seed: [0, 1, 2, 3] }}, with: {{ argv: [python3, load.py, data], inputs: [load.py, data], \
         seed: '${{{{ matrix.seed }}}}'{more} }} }} }}"
    ));
    sandbox.write("load.py", LOADER);
    sandbox.write("data/labels/a.txt", "1");
    sandbox
}

#[test]
fn a_cache_that_jobs_write_into_their_input_loses_no_result() {
    for jobs in ["1", "4"] {
        let sandbox = with_loader("");
        let ended = sandbox.sweep(&["run", "recipe.yaml", "-j", jobs]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(sandbox.tally(), [("done", 4)], "{}", ended.stderr);
        assert!(ended.stderr.contains("`data/labels/") && ended.stderr.contains("`copy: true`"), "{}", ended.stderr);
        assert!(is_cached(&sandbox), "the cache is no part of the input");
        sandbox.write("data/labels/train.cache", "another one");
        assert!(!is_cached(&sandbox), "what somebody else writes there is");
        fs_err::remove_file(sandbox.path("data/labels/train.cache")).unwrap();
        assert!(is_cached(&sandbox));
        sandbox.write("data/labels/a.txt", "2");
        assert!(!is_cached(&sandbox));
    }
}

#[test]
fn a_copy_of_an_input_is_the_jobs_own() {
    let sandbox = with_loader(", copy: true");
    let said = run(&sandbox);
    assert!(!said.contains("train.cache"), "{said}");
    assert_eq!(list(&sandbox.path("data/labels")), [sandbox.path("data/labels/a.txt")]);
    assert!(is_cached(&sandbox));
    let recipe = sandbox.read("recipe.yaml").replace(", copy: true", "");
    sandbox.write("recipe.yaml", &recipe);
    assert!(is_cached(&sandbox), "it makes no difference to the key");
}

#[test]
fn a_cache_that_a_job_writes_into_an_artifact_is_not_kept() {
    let sandbox = Sandbox::with(
        "steps:
  prep: { uses: command, with: { run: 'mkdir -p out/labels; echo 1 > out/labels/a.txt', outputs: [out] } }
  a:
    needs: prep
    uses: command
    matrix: { seed: [0, 1] }
    retries: 1
    with: { argv: [python3, load.py, out], inputs: [load.py, '${{ needs.prep.artifacts.out }}'], seed: '${{ matrix.seed }}' }
",
    );
    sandbox.write("load.py", LOADER);
    let said = run(&sandbox);
    assert_eq!(sandbox.tally(), [("done", 3)], "{said}");
    assert!(said.contains("labels/train.cache") && said.contains("the artifact `out` of prep"), "{said}");
    assert_eq!(sandbox.starts()["prep"], 1, "{said}");
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    assert!(is_cached(&sandbox));
}

#[test]
fn what_others_change_in_an_input_while_a_job_runs_fails_it_and_is_named() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { run: 'touch ../../../../../started; while ! [ -e ../../../../../go ]; do sleep 0.05; done', inputs: [data] } } }",
    );
    sandbox.write("data/a.txt", "1");
    let running = sandbox.start(&["run", "recipe.yaml"]);
    until("the job runs", || sandbox.path("started").exists());
    sandbox.write("data/new.txt", "1");
    sandbox.write("go", "");
    assert_eq!(running.wait().code, Some(5));
    let failure = sandbox.failure("a")["message"].as_str().unwrap().to_owned();
    assert!(failure.contains("while the job ran: `new.txt` appeared"), "{failure}");
    assert!(failure.contains("ignore: ['new.txt']"), "{failure}");
}

/// Two jobs write the same input. The first reads it while the second has emptied it, and its content is the planned one at the end.
#[test]
fn a_job_fails_whose_input_another_job_has_changed_meanwhile() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { x: [1, 2] }, with: { argv: [python3, t.py, '${{ matrix.x }}'], inputs: [t.py, data] } } }",
    );
    let program = "
import os, sys, time
root = '../' * 5
def mark(name): open(root + name, 'w').close()
def wait(name):
    while not os.path.exists(root + name): time.sleep(0.02)
if sys.argv[1] == '2':
    open('data/a.txt', 'w').close()
    mark('emptied'); wait('read')
    open('data/a.txt', 'w').write('5')
    mark('restored')
else:
    wait('emptied')
    text = open('data/a.txt').read()
    mark('read'); wait('restored')
    open('data/a.txt', 'w').write('5')
    print('loss=%d' % len(text))
";
    sandbox.write("t.py", program);
    sandbox.write("data/a.txt", "5");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "-j", "2"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let failure = sandbox.failure("a/x=1")["message"].as_str().unwrap().to_owned();
    assert!(failure.contains("while the job ran: `a.txt` was written by another job"), "{failure}");
    assert!(!sandbox.records().contains_key("a/x=1"));
}

/// A module that is edited while the jobs of a step run.
#[test]
fn jobs_that_read_two_versions_of_a_module_are_not_in_one_table() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { seed: [0, 1, 2, 3] }, with: { argv: [python3, t.py], inputs: [t.py], seed: '${{ matrix.seed }}' } } }
tables: { t: { from: a, cells: [x] } }
claims: { small: { value: { metric: x, of: { step: a } }, expect: { at_most: 100 } } }
",
    );
    sandbox.write(
        "t.py",
        "import os, time
# What is among the results is not observed.
signs = os.path.join(os.path.dirname(os.path.realpath(__file__)), 'results', 'signs')
os.makedirs(signs, exist_ok=True)
open(os.path.join(signs, os.environ['SWEEP_SEED']), 'w').close()
if len(os.listdir(signs)) == 3:
    while not os.path.exists(os.path.join(signs, 'go')):
        time.sleep(0.05)
import lib
print('x=%d' % lib.X)
",
    );
    sandbox.write("lib.py", "X = 1\n");
    let running = sandbox.start(&["run", "recipe.yaml", "-j", "1"]);
    let begun = || (0..4).filter(|seed| sandbox.path(&format!("results/signs/{seed}")).exists()).count();
    until("the third job runs", || begun() == 3);
    sandbox.write("lib.py", "X = 22\n");
    sandbox.write("results/signs/go", "");
    let ended = running.wait();
    let said = ended.stderr;
    assert_eq!(ended.code, Some(0), "{said}");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (2, 2), "{said}");
    assert!(said.contains("`lib.py` changed during the run: 2 jobs read it before"), "{said}");
    let claims = sandbox.read("results/reports/recipe/claims.json");
    assert!(claims.contains("undecided") && !claims.contains("supported"), "{claims}");
    let said = run(&sandbox);
    assert!(!said.contains("changed during the run"), "{said}");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (4, 0));
}
