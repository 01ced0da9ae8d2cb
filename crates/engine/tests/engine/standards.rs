//! Evidence in standard forms: signed in-toto statements about bundles, and data sets with Croissant metadata.

use std::{path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const RECIPE: &str = "
name: study
about: Whether two is more than one
steps:
  first: { uses: mock, matrix: { value: [1, 2] }, seeds: 2 }
  second:
    uses: command
    matrix: { rate: [1, 2] }
    with:
      run: |
        for step in 1 2 3; do printf '{\"step\": %s, \"loss\": %s, \"share\": 0.5}\\n' $step $(( 9 - step * RATE )) >> \"$SWEEP_REPORT\"; done
        printf 'id,score\\n1,0.5\\n' > out.csv
      inputs: [in.txt]
      env: { RATE: '${{ matrix.rate }}' }
      outputs: [out.csv]
tables: { t: { from: first, rows: [value], cells: [value] } }
";

fn finished() -> Sandbox {
    let sandbox = Sandbox::with(RECIPE);
    sandbox.write("in.txt", "input\n");
    let run = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    sandbox
}

/// Runs a Python program with the packages of `scripts/python-deps.sh`; `None` if they are not there.
fn python(program: &str, arguments: &[&str]) -> Option<Value> {
    let folder = std::env::var_os("SWEEP_PYTHON_STANDARDS").map(PathBuf::from);
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".cache/sweep/standards")))?;
    let output = Command::new(folder.join("bin/python")).args(["-c", program]).args(arguments).output();
    let Ok(output) = output else {
        eprintln!("no package was asked: there is no Python in {}", folder.display());
        return None;
    };
    let why = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && why.contains("ModuleNotFoundError") {
        eprintln!("no package was asked: {}", why.lines().last().unwrap_or_default());
        return None;
    }
    assert!(output.status.success(), "{why}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

/// Checks a statement with the packages of in-toto and of the Secure Systems Lab.
#[cfg(feature = "remote")]
const STATEMENT: &str = "
import base64, hashlib, json, sys
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
archive, public = sys.argv[1:]
text = json.load(open(archive + '.intoto.jsonl'))
secret = base64.b64decode(public.removeprefix('ed25519:')).hex()
key = SSlibKey(public, 'ed25519', 'ed25519', {'public': secret})
envelope = Envelope.from_dict(text)
envelope.verify([key], 1)
statement = json_format.Parse(envelope.payload, statement_pb2.Statement())
Statement.copy_from_pb(statement).validate()
predicate = json_format.MessageToDict(statement.predicate)
json_format.ParseDict(predicate, provenance_pb2.Provenance())
digest = hashlib.sha256(open(archive, 'rb').read()).hexdigest()
print(json.dumps({'same': statement.subject[0].digest['sha256'] == digest, 'type': statement.predicate_type,
    'name': statement.subject[0].name, 'recipes': predicate['buildDefinition']['externalParameters']['recipes'],
    'sources': [source['name'] for source in predicate['buildDefinition']['resolvedDependencies']]}))
";

#[cfg(feature = "remote")]
#[test]
fn a_signed_statement_is_about_one_bundle_and_by_one_key() {
    let sandbox = finished();
    let key = |name: &str| {
        let made = sandbox.sweep(&["cache", "keygen", name, "--format", "json"]);
        let made: Value = serde_json::from_str(&made.stdout).unwrap();
        made["public_key"].as_str().unwrap().to_owned()
    };
    let (ada, eve) = (key("ada.key"), key("eve.key"));
    sandbox.write("trusted", &format!("# the team\n{ada} Ada\n"));
    let created = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--sign", "ada.key", "--format", "json"]);
    let created: Value = serde_json::from_str(&created.stdout).unwrap();
    assert_eq!(created["statement"], "study.sweep.tar.intoto.jsonl");
    let archive = sandbox.path("study.sweep.tar").display().to_string();
    if let Some(checked) = python(STATEMENT, &[&archive, &ada]) {
        let expected = json!({
            "same": true, "type": "https://slsa.dev/provenance/v1", "name": "study.sweep.tar", "recipes": ["recipe.yaml"],
            "sources": ["sources/recipe.yaml", "sources/in.txt"],
        });
        assert_eq!(checked, expected);
    }
    let verify = |args: &[&str]| sandbox.sweep(&[&["bundle", "verify", "study.sweep.tar"], args].concat());
    let plain = verify(&[]);
    assert_eq!(plain.code, Some(0), "{}{}", plain.stdout, plain.stderr);
    assert!(plain.stdout.contains(&format!("signed by {ada}: https://slsa.dev/provenance/v1\n")), "{}", plain.stdout);
    assert!(plain.stderr.contains("anyone can sign"), "{}", plain.stderr);
    let trusted = verify(&["--trust", "trusted"]);
    assert_eq!(trusted.code, Some(0), "{}{}", trusted.stdout, trusted.stderr);
    assert!(trusted.stdout.contains(&format!("signed by {ada}, a trusted key")), "{}", trusted.stdout);

    // Another signer, a changed statement, another bundle, and no statement.
    let statement = sandbox.read("study.sweep.tar.intoto.jsonl");
    assert_eq!(sandbox.sweep(&["bundle", "create", "recipe.yaml", "--sign", "eve.key"]).code, Some(0));
    let by_eve = verify(&["--trust", "trusted"]);
    assert_eq!(by_eve.code, Some(1), "{}", by_eve.stdout);
    assert!(by_eve.stdout.contains("✗ no statement about it is signed by a key in trusted"), "{}", by_eve.stdout);
    sandbox.write("study.sweep.tar.intoto.jsonl", &statement.replace(&ada, &eve));
    let changed = verify(&[]);
    assert_eq!(changed.code, Some(1));
    assert!(changed.stdout.contains("line 1: its signature is not that of ed25519:"), "{}", changed.stdout);
    sandbox.write("study.sweep.tar.intoto.jsonl", &statement);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--axis", "first.value=1"]).code, Some(0));
    let created =
        sandbox.sweep(&["bundle", "create", "recipe.yaml", "--axis", "first.value=1", "-o", "study.sweep.tar"]);
    assert!(
        created.stderr.contains("is about an earlier bundle; `--sign` writes a new statement"),
        "{}",
        created.stderr
    );
    let other = verify(&[]);
    assert_eq!(other.code, Some(1));
    assert!(
        other.stdout.contains("the statement is about a file with different content: study.sweep.tar"),
        "{}",
        other.stdout
    );
    fs_err::remove_file(sandbox.path("study.sweep.tar.intoto.jsonl")).unwrap();
    assert_eq!(verify(&[]).code, Some(0), "a bundle needs no statement");
    let absent = verify(&["--trust", "trusted", "--format", "json"]);
    let absent: Value = serde_json::from_str(&absent.stdout).unwrap();
    assert_eq!((&absent["good"], &absent["statements"]), (&json!(false), &json!([])));
    assert!(absent["defects"][0].as_str().unwrap().contains("there is no signed statement"), "{absent}");
}

/// Reads a data set and all of its records with `mlcroissant`.
const CROISSANT: &str = "
import json, logging, os, sys, warnings
warnings.simplefilter('ignore')
import mlcroissant
os.chdir(sys.argv[1])
data = mlcroissant.Dataset(jsonld='croissant.json')
issues = data.metadata.ctx.issues
records = {s.id: [{k: (v.decode() if isinstance(v, bytes) else v) for k, v in r.items()} for r in data.records(record_set=s.id)]
           for s in data.metadata.record_sets}
print(json.dumps({'errors': sorted(issues.errors), 'warnings': sorted(issues.warnings), 'name': data.metadata.name,
    'sets': {name: len(rows) for name, rows in records.items()},
    'losses': [row['records/loss'] for row in records['records'] if row['records/loss'] is not None]}, default=str))
";

#[test]
fn a_study_is_a_data_set_with_croissant_metadata() {
    let sandbox = finished();
    let bare = sandbox.sweep(&["export", "croissant", "bare", "recipe.yaml"]);
    assert_eq!(bare.code, Some(0), "{}", bare.stderr);
    assert!(
        bare.stderr.contains("lacks `citeAs`, `creator`, `license`, `url`, which Croissant requires or recommends"),
        "{}",
        bare.stderr
    );
    sandbox.write(
        "CITATION.cff",
        "cff-version: 1.2.0\ntitle: Ours\nlicense: MIT\nurl: https://example.org/study\nversion: 2.1.0\nauthors:\n  - { given-names: Ada, family-names: Lovelace }\n",
    );
    let ended = sandbox.sweep(&["export", "croissant", "data", "recipe.yaml", "--files", "out.csv"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "6 jobs in data\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
    let metadata: Value = serde_json::from_str(&sandbox.read("data/croissant.json")).unwrap();
    assert_eq!(metadata["creator"][0]["name"], "Ada Lovelace");
    assert_eq!((&metadata["name"], &metadata["version"]), (&json!("Results of study"), &json!("2.1.0")));
    for file in metadata["distribution"].as_array().unwrap() {
        let content = fs_err::read(sandbox.path("data").join(file["contentUrl"].as_str().unwrap())).unwrap();
        assert_eq!(file["contentSize"], format!("{} B", content.len()));
    }
    assert_eq!(sandbox.read("data/records.csv").lines().count(), 7);
    assert_eq!(sandbox.read("data/curves.csv").lines().count(), 1 + 2 * 2 * 3, "two jobs, two series, three steps");
    assert_eq!(sandbox.read("data/files.csv").matches(",out.csv,files/").count(), 2);
    let folder = sandbox.path("data").display().to_string();
    if let Some(read) = python(CROISSANT, &[&folder]) {
        assert_eq!((&read["errors"], &read["warnings"]), (&json!([]), &json!([])), "{read:#}");
        assert_eq!(read["sets"], json!({ "records": 6, "curves": 12, "files": 2 }));
        assert_eq!(read["losses"], json!([6.0, 3.0]));
    }
    let wrong = sandbox.sweep(&["export", "croissant", "data", "recipe.yaml", "--files", "model"]);
    assert_ne!(wrong.code, Some(0));
    assert!(wrong.stderr.contains("no record has the artifact `model`: there are `out.csv`"), "{}", wrong.stderr);
    let other = sandbox.sweep(&["export", "mlflow", "runs", "recipe.yaml", "--files", "out.csv"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("`--files` is an option of `sweep export croissant`"), "{}", other.stderr);
}
