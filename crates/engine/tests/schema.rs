//! Agreement of the JSON Schema and the recipe's reader: the schema accepts every recipe that the reader accepts, and
//! rejects mistakes that can be found without looking up a name.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;
use sweep_engine::{
    plan::Plan,
    recipe::{Draft, schema},
};
use sweep_job::Backend;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn validator() -> Validator {
    validator_of(&schema::recipe())
}

fn validator_of(schema: &Value) -> Validator {
    jsonschema::draft7::meta::validate(schema).unwrap();
    jsonschema::draft7::new(schema).unwrap()
}

/// The text as JSON, read as YAML 1.2 like the reader and the editors do.
fn json(recipe: &str) -> Value {
    serde_saphyr::from_str_with_options(recipe, serde_saphyr::options! { strict_booleans: true }).unwrap()
}

/// The schema's objections to a recipe.
fn mistakes(validator: &Validator, recipe: &str) -> Vec<String> {
    validator.iter_errors(&json(recipe)).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// True if the reader accepts a recipe; else its objections.
fn read(path: &Path, recipe: &str) -> Result<(), String> {
    let draft = Draft::parse(path, recipe.to_owned(), &[]).map_err(|problems| problems.to_string())?;
    Plan::new(draft, Backend::Cpu).map(|_| ()).map_err(|error| error.to_string())
}

fn shipped(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(!files.is_empty(), "{folder} has files");
    files
}

#[test]
fn the_files_are_what_the_program_prints() {
    for (name, schema) in [("recipe", schema::recipe()), ("sweep", schema::sweep())] {
        let path = root().join(format!("docs/{name}.schema.json"));
        let text = schema::text(schema.clone());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, text).unwrap();
        } else {
            let stale = "the schema is stale: UPDATE_DOCS=1 cargo test -p sweep-engine --test schema";
            assert!(std::fs::read_to_string(&path).is_ok_and(|file| file == text), "{name}: {stale}");
        }
    }
}

#[test]
fn shipped_files_name_their_schema_and_fit_it() {
    for (folder, name, schema) in [("recipes", "recipe", schema::recipe()), ("sweeps", "sweep", schema::sweep())] {
        let validator = validator_of(&schema);
        for path in shipped(folder) {
            let text = std::fs::read_to_string(&path).unwrap();
            let line = format!("# yaml-language-server: $schema=../docs/{name}.schema.json\n");
            assert!(text.starts_with(&line), "{}: the first line is not: {line}", path.display());
            assert_eq!(mistakes(&validator, &text), Vec::<String>::new(), "{}", path.display());
        }
    }
}

#[test]
fn recipes_in_the_documentation_fit() {
    let validator = validator();
    let pages = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut seen = 0;
    for page in pages.chain([root().join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap();
        let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        for recipe in blocks.filter(|block| block.lines().any(|line| line.starts_with("steps:"))) {
            seen += 1;
            assert_eq!(mistakes(&validator, recipe), Vec::<String>::new(), "{}: {recipe}", page.display());
        }
    }
    assert!(seen > 30, "{seen}");
}

/// Recipes with each key and each form at least once, and valid recipes that look wrong.
const GOOD: &[&str] = &[
    "steps: { a: { uses: mock } }",
    "name: _n-1\nabout: yes\nparams: { a: ~, b: on, c: [1, [x, 2.5]], d: 1e3, e: 50 % of $5 }\nsteps: { a: { uses: mock } }",
    "steps: { a: { uses: mock, seeds: 3, resources: { cpus: 2 }, with: { seconds: 0, steps: 2e3, end: done } } }",
    "steps: { a: { uses: mock, with: { seconds: 90s } } }",
    "params: { n: 2, end: do }
steps:
  a:
    uses: mock
    matrix: { seed: { range: [0, '${{ params.n }}'] }, end: ['${{ params.end }}ne'] }
    with: { value: '${{ matrix.seed }}', steps: '${{params.n}}' }
    if: ${{ matrix.seed < params.n }}",
    "steps:
  a:
    uses: mock
    matrix:
      value: { linspace: [0, 1, 5] }
      seed: { range: [4, 0, -2] }
      zip: { steps: [1, 2], variant: [3, 4] }
      exclude: [{ seed: 4, value: 0 }]
      include: [{ seed: 2, end: fail }]
  b:
    uses: mock
    needs: [{ step: a, where: { seed: [2], steps: [1, 2] } }]
    matrix: { value: '${{ needs.a.axes.value }}' }
  c: { uses: mock, needs: { step: a }, matrix: { variant: { logspace: [3, 4, 2] } }, if: 'matrix.variant > 3' }
  d: { uses: mock, needs: [b, a], with: { variant: ~ } }
tables:
  t: { title: T, from: a, where: { seed: [4, 2] }, rows: seed, columns: [value], cells: value }
  u: { from: b, rows: [], cells: [value, bytes] }"
    ,
    "steps:
  a: { uses: mock, matrix: { random: { n: 4, seed: x, axes: { value: { uniform: [0, 1] }, steps: { choice: [1, 2] } } } } }
  b: { uses: mock, matrix: { random: { n: 4, axes: { value: { log_uniform: [1, 10] } } } } }
  c: { uses: mock, ablate: { design: leave-one-out, baseline: { value: 1, seed: 0 }, factors: { value: 2, seed: [1] } } }",
    // The axis has a parameter's name, but `with` makes the parameter of it: its values can be anything.
    "steps: { a: { uses: train, matrix: { prune: [7] }, with: { prune: 'bitter${{ matrix.prune }}', data: kjv } } }",
    "steps: { a: { uses: mock, matrix: { end: [do, noi] }, if: matrix.end != 'x', with: { end: done } } }",
    "steps: { a: { uses: mock, matrix: { value: [1, 2], seed: [0, 1] } } }
claims:
  c: { says: C, ratio: { metric: value, of: { step: a, value: 1 }, to: { step: a, value: [2] } }, expect: { at_most: 1 }, paper: 0.5, hardware: cuda }
  d: { difference: { metric: value, of: { step: a, value: 1 }, to: { step: a, value: 2 } }, expect: { at_least: -1, at_most: 1 }, hardware: [cuda, cpu] }
  e: { value: { metric: value, of: { step: a } }, expect: { at_least: 0 } }
  g: { value: { metric: value, of: { step: a } }, expect: { at_most: 3 } }
figures:
  f: { title: F, from: a, where: { seed: 0 }, kind: bar, x: value, y: bytes, color: seed, band: none }
  g: { from: a, kind: scatter, x: value, y: bytes }",
    "steps: { a: { uses: train, matrix: { seed: [0, 1] } } }
figures:
  l: { from: a, kind: line, x: iteration, y: val_loss, color: seed, band: ci95 }
  h: { from: a, kind: histogram, x: loss }
  p: { from: a, kind: pareto, x: loss, y: time.step, best: { loss: min } }
  m: { from: a, kind: heat, x: seed, y: seed, value: loss }
claims:
  f: { order: { metric: loss, step: a, axis: seed, ascending: [0, 1], where: { seed: [0, 1] } } }",
    // Outputs of needed jobs.
    "steps:
  a: { uses: command, with: { run: x, outputs: [out/a.b.txt] } }
  b: { uses: mock, needs: a, with: { input: '${{ needs.a.artifacts.out/a.b.txt }}', value: '${{ needs.a.metrics.time.run }}' } }
  c: { uses: command, needs: [a, b], with: { argv: [x, 'v=${{ needs.b.metrics.value }}'], inputs: '${{ needs.a.artifacts.out/a.b.txt }}' } }",
    "steps:
  a:
    uses: mock
    resources: { cpus: 1, gpus: 0, memory: 1.5 GiB }
    exclusive: true
    timeout: 1h30m
    heartbeat: 90s
    retries: 3
    continue-on-error: false",
    "steps:
  a: { uses: mock, resources: { gpus: 0.25, gpu_memory: measured } }
  b: { uses: mock, resources: { gpus: 1.0, gpu_memory: 8 GiB } }
  c: { uses: mock, resources: { gpus: 2 } }",
    // Anchors and merges are YAML's business, not the schema's.
    "steps:\n  a: &a { uses: mock, seeds: 2 }\n  b: { <<: *a, with: { value: 3 } }",
];

#[test]
fn what_the_reader_takes_fits() {
    let validator = validator();
    for recipe in GOOD {
        assert_eq!(read(Path::new("good.yaml"), recipe), Ok(()), "{recipe}");
        assert_eq!(mistakes(&validator, recipe), Vec::<String>::new(), "{recipe}");
    }
}

/// A step that uses `mock`.
fn step(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, {rest} }} }}")
}

/// A recipe with a table.
fn table(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ seed: [1] }} }} }}\ntables: {{ t: {{ {rest} }} }}")
}

/// A recipe with a claim.
fn claim(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ seed: [1, 2] }} }} }}\nclaims: {{ c: {{ {rest} }} }}")
}

/// A recipe with a figure.
fn figure(rest: &str) -> String {
    format!("steps: {{ a: {{ uses: mock, matrix: {{ seed: [1, 2] }} }} }}\nfigures: {{ f: {{ {rest} }} }}")
}

fn recipe(text: &str) -> String {
    text.to_owned()
}

/// Recipes with one mistake each, and where the schema sees it.
fn bad() -> Vec<(String, &'static str)> {
    [bad_keys(), bad_shapes(), bad_values()].concat()
}

fn bad_keys() -> Vec<(String, &'static str)> {
    vec![
        // Keys.
        (recipe("abuot: x\nsteps: { a: { uses: mock } }"), ""),
        (step("wiht: { value: 1 }"), "/steps/a"),
        (step("resources: { cpu: 1 }"), "/steps/a/resources"),
        (step("with: { sedonds: 1 }"), "/steps/a/with"),
        (recipe("steps: { a: { uses: mock }, b: { uses: mock, needs: [{ stpe: a }] } }"), "/steps/b/needs/0"),
        (table("from: a, cels: [value]"), "/tables/t"),
        (table("from: a, cells: value, where: [seed]"), "/tables/t/where"),
        (step("matrix: { random: { n: 1, sede: 2, axes: { value: { uniform: [0, 1] } } } }"), "/steps/a/matrix/random"),
        (step("ablate: { design: add-one, base: { value: 1 }, factors: { value: 2 } }"), "/steps/a/ablate"),
        // Claims.
        (claim("value: { metric: value, of: { step: a } }"), "/claims/c"),
        (claim("expect: { at_most: 1 }"), "/claims/c"),
        (claim("value: { metric: value, of: { step: a } }, expect: {}"), "/claims/c/expect"),
        (claim("value: { metric: value, of: { step: a } }, expect: { at_msot: 1 }"), "/claims/c/expect"),
        (claim("value: { metric: value, of: { seed: 1 } }, expect: { at_most: 1 }"), "/claims/c/value/of"),
        (claim("ratio: { metric: value, of: { step: a } }, expect: { at_most: 1 }"), "/claims/c/ratio"),
        (claim("order: { metric: value, step: a, axis: seed, ascending: [1] }"), "/claims/c/order/ascending"),
        (
            claim("value: { metric: value, of: { step: a } }, expect: { at_most: 1 }, hardware: [tpu]"),
            "/claims/c/hardware",
        ),
        (claim("value: { metric: value, of: { step: a } }, expect: { at_most: one }"), "/claims/c/expect/at_most"),
        // Figures.
        (figure("from: a, kind: pie, x: seed, y: value"), "/figures/f/kind"),
        (figure("from: a, kind: bar, x: seed"), "/figures/f"),
        (figure("from: a, kind: bar, x: seed, y: value, band: sd"), "/figures/f/band"),
        (figure("from: a, kind: bar, x: seed, y: value, hue: seed"), "/figures/f"),
    ]
}

fn bad_shapes() -> Vec<(String, &'static str)> {
    vec![
        // Required keys.
        (recipe("name: x"), ""),
        (recipe("steps: {}"), "/steps"),
        (recipe("steps: { a: { with: { value: 1 } } }"), "/steps/a"),
        (table("cells: [value]"), "/tables/t"),
        (table("from: a, rows: [seed]"), "/tables/t"),
        (step("matrix: { random: { axes: { value: { uniform: [0, 1] } } } }"), "/steps/a/matrix/random"),
        (step("ablate: { design: add-one }"), "/steps/a/ablate"),
        (step("matrix: { zip: {} }"), "/steps/a/matrix/zip"),
        // Shapes.
        (recipe("just text"), ""),
        (recipe("steps: [a, b]"), "/steps"),
        (recipe("steps: { a: [uses, mock] }"), "/steps/a"),
        (recipe("name: 3\nsteps: { a: { uses: mock } }"), "/name"),
        (step("with: [1]"), "/steps/a/with"),
        (step("if: true"), "/steps/a/if"),
        (step("resources: { cpus: all }"), "/steps/a/resources/cpus"),
        (step("resources: { cpus: 0 }"), "/steps/a/resources/cpus"),
        (step("resources: { gpus: -1 }"), "/steps/a/resources/gpus"),
        (step("resources: { gpus: 1.5 }"), "/steps/a/resources/gpus"),
        (step("resources: { gpus: half }"), "/steps/a/resources/gpus"),
        (step("resources: { gpu_memory: 8 }"), "/steps/a/resources/gpu_memory"),
        (step("resources: { gpu_memory: most }"), "/steps/a/resources/gpu_memory"),
        (step("resources: { memory: 4 }"), "/steps/a/resources/memory"),
        (step("resources: { memory: 4G }"), "/steps/a/resources/memory"),
        (step("timeout: 30"), "/steps/a/timeout"),
        (step("heartbeat: a while"), "/steps/a/heartbeat"),
        (step("retries: often"), "/steps/a/retries"),
        (step("exclusive: yes"), "/steps/a/exclusive"),
        (step("continue-on-error: 1"), "/steps/a/continue-on-error"),
        (step("matrix: { value: 3 }"), "/steps/a/matrix/value"),
        (step("matrix: { value: [] }"), "/steps/a/matrix/value"),
        (step("matrix: { value: [{ a: 1 }] }"), "/steps/a/matrix/value/0"),
        (step("seeds: 0"), "/steps/a/seeds"),
        (step("seeds: 2.5"), "/steps/a/seeds"),
        (step("matrix: { include: { value: 1 } }"), "/steps/a/matrix/include"),
    ]
}

fn bad_values() -> Vec<(String, &'static str)> {
    vec![
        // Names.
        (recipe("steps: { ../escape: { uses: mock } }"), "/steps"),
        (recipe("params: { 9a: 1 }\nsteps: { a: { uses: mock } }"), "/params"),
        (recipe("name: a b\nsteps: { a: { uses: mock } }"), "/name"),
        // Tasks and their parameters.
        (recipe("steps: { a: { uses: mok } }"), "/steps/a/uses"),
        (step("with: { seconds: fast }"), "/steps/a/with/seconds"),
        (step("with: { seconds: -1 }"), "/steps/a/with/seconds"),
        (step("with: { steps: 2.5 }"), "/steps/a/with/steps"),
        (step("with: { end: exploded }"), "/steps/a/with/end"),
        (step("with: { value: '3' }"), "/steps/a/with/value"),
        (recipe("steps: { a: { uses: train, with: { lr: 1e9 } } }"), "/steps/a/with/lr"),
        (recipe("steps: { a: { uses: train, with: { model: gpt-2 } } }"), "/steps/a/with/model"),
        (recipe("steps: { a: { uses: train, with: { save: yes } } }"), "/steps/a/with/save"),
        (recipe("steps: { a: { uses: train, with: { value: 1 } } }"), "/steps/a/with"),
        (recipe("steps: { a: { uses: train, matrix: { prune: [none, bitterr7] } } }"), "/steps/a/matrix/prune/1"),
        (step("matrix: { seed: [0, -1] }"), "/steps/a/matrix/seed/1"),
        // Axes.
        (step("matrix: { value: { rnage: [0, 3] } }"), "/steps/a/matrix/value"),
        (step("matrix: { value: { range: [0, 3], linspace: [0, 1, 2] } }"), "/steps/a/matrix/value"),
        (step("matrix: { value: { range: [0] } }"), "/steps/a/matrix/value/range"),
        (step("matrix: { value: { linspace: [0, 1] } }"), "/steps/a/matrix/value/linspace"),
        (step("matrix: { value: { logspace: [1, ten, 3] } }"), "/steps/a/matrix/value/logspace/1"),
        (step("matrix: { value: '${{ params.x }}' }"), "/steps/a/matrix/value"),
        (
            step("matrix: { random: { n: 2, axes: { value: { normal: [0, 1] } } } }"),
            "/steps/a/matrix/random/axes/value",
        ),
        (step("ablate: { design: add-on, baseline: { value: 1 }, factors: { value: 2 } }"), "/steps/a/ablate/design"),
        // Expressions.
        (step("with: { value: '${{ parms.x }}' }"), "/steps/a/with/value"),
        (step("needs: b, with: { value: '${{ needs.b.value }}' }"), "/steps/a/with/value"),
        (step("with: { input: 'a/${{ params.x' }"), "/steps/a/with/input"),
        (step("matrix: { value: ['${{ matrix.seed }}'] }"), "/steps/a/matrix/value/0"),
        (recipe("params: { a: 1, b: '${{ params.a }}' }\nsteps: { a: { uses: mock } }"), "/params/b"),
    ]
}

#[test]
fn what_does_not_fit_the_reader_refuses_too() {
    let validator = validator();
    for (recipe, place) in bad() {
        let found: Vec<String> =
            validator.iter_errors(&json(&recipe)).map(|error| error.instance_path().to_string()).collect();
        assert!(found.iter().any(|found| found == place), "expected a mistake at `{place}`, found {found:?}: {recipe}");
        assert!(read(Path::new("bad.yaml"), &recipe).is_err(), "the reader takes: {recipe}");
    }
}
