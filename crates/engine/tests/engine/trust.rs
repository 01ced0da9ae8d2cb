//! Trust in a remote's records, and the marks of records made elsewhere.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    messages::Transcript,
    sandbox::{Ended, Sandbox, list},
};

const RECIPE: &str = "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3] } }
tables: { t: { from: a, rows: [value], cells: [value] } }
";

/// A folder that is a remote.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn address(&self) -> String {
        format!("file://{}", self.0.path().display())
    }

    fn objects(&self) -> Vec<PathBuf> {
        list(&self.0.path().join("records")).iter().flat_map(|shard| list(shard)).collect()
    }

    fn object(&self, key: &str) -> PathBuf {
        self.0.path().join("records").join(&key[..2]).join(key)
    }

    fn run(&self, sandbox: &Sandbox, args: &[&str]) -> Ended {
        let ended = sandbox.sweep(&[&["run", "recipe.yaml", "--remote", &self.address()], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    }
}

/// The keys of a sandbox's records, by label.
fn keys(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let key = |record: &serde_json::Value| record["key"].as_str().unwrap().to_owned();
    sandbox.records().iter().map(|(label, record)| (label.clone(), key(record))).collect()
}

/// An object as it is made of an archive.
fn sealed(archive: &[u8]) -> Vec<u8> {
    let line = format!("sweep-record 1 {} {:020}\n", blake3::hash(archive).to_hex(), archive.len());
    [line.as_bytes(), archive].concat()
}

/// The time and place of a record, which differ from machine to machine.
const MADE: &str = r"(?m)^  (?:made|took|on|by|at) .*\n";

fn warnings(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect()
}

/// Whoever can write to a remote can put anything into an object; but only under a key that somebody asks for.
#[test]
fn an_object_brings_the_record_of_its_key_and_no_other() {
    let folder = Folder::new();
    let first = Sandbox::with(RECIPE);
    folder.run(&first, &[]);
    let keys = keys(&first);
    assert_eq!(first.sweep(&["cache", "export", "two.tar", "a/value=1", "a/value=2"]).code, Some(0));
    let two = fs_err::read(first.path("two.tar")).unwrap();
    fs_err::write(folder.object(&keys["a/value=1"]), sealed(&two)).unwrap();
    // Only the first job is asked for.
    let second = Sandbox::with("steps: { a: { uses: mock, with: { value: 1 } } }");
    let ended = folder.run(&second, &[]);
    assert_message!(warnings(&ended).join("\n"));
    assert_eq!(second.starts().len(), 1, "{}", ended.stderr);
    assert_eq!(second.records().keys().collect::<Vec<_>>(), ["a"]);
    assert!(list(&second.path("results/store/staging")).is_empty());
}

#[test]
fn what_was_not_made_here_says_so_wherever_it_is_shown() {
    let folder = Folder::new();
    let (first, second) = (Sandbox::with(RECIPE), Sandbox::with(RECIPE));
    folder.run(&first, &[]);
    let mut said = Transcript::default();
    said.add("made here", &first.sweep(&["report", "recipe.yaml"]).stdout);
    fs_err::remove_file(folder.object(&keys(&first)["a/value=3"])).unwrap();
    let ended = folder.run(&second, &[]);
    assert_eq!(second.starts().len(), 1, "{}", ended.stderr);

    said.add("two of three pulled", &ended.stdout);
    for file in ["tables/t.md", "tables/t.tex", "index.html"] {
        let text = second.read(&format!("results/reports/recipe/{file}"));
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(&folder.address())).collect();
        let notes = lines.iter().flat_map(|line| line.split(['<', '>'])).filter(|text| text.contains("file://"));
        said.add(file, &notes.collect::<Vec<_>>().join("\n"));
    }
    let from = |label: &str| -> String {
        let shown = second.sweep(&["show", label]).stdout;
        shown.lines().filter(|line| line.contains("file://")).collect()
    };
    said.add("shown", &from("a/value=1"));
    let json: serde_json::Value =
        serde_json::from_str(&second.sweep(&["show", "a/value=1", "--format", "json"]).stdout).unwrap();
    assert_eq!((&json["origin"]["from"], &json["label"]), (&folder.address().into(), &"a/value=1".into()));
    assert_eq!(from("a/value=3"), "", "it was made here");
    // The record itself is the same.
    assert_eq!(first.records()["a/value=1"], second.records()["a/value=1"]);

    // So does a bundle, whose tables follow from it.
    assert_eq!(second.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
    let verified = second.sweep(&["verify", "recipe.sweep.tar"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    said.add("bundle", &verified.stdout);

    // And an archive is as good as a remote.
    assert_eq!(second.sweep(&["cache", "export", "all.tar", "recipe.yaml"]).code, Some(0));
    let third = Sandbox::with(RECIPE);
    fs_err::copy(second.path("all.tar"), third.path("all.tar")).unwrap();
    assert_eq!(third.sweep(&["cache", "import", "all.tar"]).code, Some(0));
    let report = third.sweep(&["report", "recipe.yaml"]);
    said.add("archive", &report.stdout);
    assert_message!(said);
}

#[test]
fn a_mark_that_cannot_be_read_is_no_proof_of_having_been_made_here() {
    let folder = Folder::new();
    let (first, second) = (Sandbox::with(RECIPE), Sandbox::with(RECIPE));
    folder.run(&first, &[]);
    folder.run(&second, &[]);
    let key = &keys(&second)["a/value=1"];
    second.write(&format!("results/store/{}/{key}/origin.json", &key[..2]), "{\"from\":");
    let shown = second.sweep(&["show", "a/value=1"]);
    let verified = second.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(1));
    let mut said = Transcript::default();
    said.add("shown", &shown.stdout);
    said.add("verified", &verified.stdout);
    assert_message!(said, MADE => "");
}

/// Makes a key pair; the public half.
fn keygen(sandbox: &Sandbox, file: &str) -> String {
    let made = sandbox.sweep(&["cache", "keygen", file]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let secret = sandbox.read(file);
    let secret = secret.trim().rsplit(':').next().unwrap();
    assert!(!made.stdout.contains(secret) && !made.stderr.contains(secret));
    made.stdout.trim().to_owned()
}

#[test]
fn only_what_a_trusted_key_has_signed_is_taken() {
    let folder = Folder::new();
    let first = Sandbox::with(RECIPE);
    let public = keygen(&first, "ada.key");
    folder.run(&first, &["--remote-key", "ada.key", "--remote-trust", "own"]);
    let secret = first.read("ada.key");
    assert!(folder.objects().iter().all(|object| !contains(object, secret.trim().as_bytes())));

    // Who trusts that key takes them, and shows whose they are.
    let second = Sandbox::with(RECIPE);
    second.write("team.keys", &format!("# the team\n{public} Ada\n"));
    let ended = folder.run(&second, &["--remote-trust", "team.keys"]);
    assert_eq!((second.starts().len(), warnings(&ended).len()), (0, 0), "{}", ended.stderr);
    assert!(ended.stdout.contains(&format!("signed by {public}")), "{}", ended.stdout);
    assert!(second.sweep(&["show", "a/value=1"]).stdout.contains(&format!("signed by {public}")));

    // A machine that forwards records of other machines does not sign them with its own key.
    keygen(&second, "bob.key");
    let elsewhere = Folder::new();
    let mut said = Transcript::default();
    let pushed = second.sweep(&["cache", "push", "--remote", &elsewhere.address(), "--remote-key", "bob.key"]);
    said.add("pushed", &pushed.stderr);
    assert!(elsewhere.objects().iter().all(|object| contains(object, b"sweep-record 1 ")));

    // Who trusts another key alone runs everything; that is one warning.
    let third = Sandbox::with(RECIPE);
    keygen(&third, "eve.key");
    let ended = folder.run(&third, &["--remote-key", "eve.key", "--remote-trust", "own"]);
    assert_eq!((third.starts().len(), warnings(&ended).len()), (3, 1), "{}", ended.stderr);
    said.add("another key", &warnings(&ended).concat());

    // The third has left its own objects there, signed; an unsigned one is refused as well.
    let fourth = Sandbox::with(RECIPE);
    fourth.write("team.keys", &format!("{public}\n"));
    let ended = elsewhere.run(&fourth, &["--remote-trust", "team.keys"]);
    assert_eq!((fourth.starts().len(), warnings(&ended).len()), (3, 1), "{}", ended.stderr);
    said.add("no key", &warnings(&ended).concat());
    assert_message!(said, r"record \w+" => "record [key]", r"sweep-\w+:\S+|ed25519\S+" => "[public key]");
}

/// A record that was changed before it was pushed has correct digests, but no signature of its author.
#[test]
fn what_somebody_else_pushes_again_is_not_taken_for_signed() {
    let (folder, first) = (Folder::new(), Sandbox::with(RECIPE));
    let public = keygen(&first, "ada.key");
    folder.run(&first, &["--remote-key", "ada.key"]);
    let key = &keys(&first)["a/value=1"];
    let object = fs_err::read(folder.object(key)).unwrap();
    let end = object.iter().position(|byte| *byte == b'\n').unwrap();
    let line = String::from_utf8(object[..end].to_vec()).unwrap();
    let mut archive = object[end + 1..].to_vec();
    let at = archive
        .windows(12)
        .position(|window| window == b"\"host\": \"mac")
        .map_or_else(|| archive.windows(9).position(|window| window == b"\"seconds\"").unwrap() + 11, |at| at + 9);
    archive[at] = if archive[at] == b'9' { b'8' } else { b'9' };
    let words: Vec<&str> = line.split(' ').collect();
    let digest = blake3::hash(&archive).to_hex().to_string();
    let forged = [words[0], words[1], &digest, words[3], words[4], words[5]].join(" ") + "\n";
    fs_err::write(folder.object(key), [forged.as_bytes(), &archive].concat()).unwrap();
    let second = Sandbox::with(RECIPE);
    second.write("team.keys", &public);
    let ended = folder.run(&second, &["--remote-trust", "team.keys"]);
    assert_message!(warnings(&ended).join("\n"), r"record \w+" => "record [key]", r"sweep-\w+:\S+|ed25519\S+" => "[public key]");
    assert_eq!(second.starts().keys().collect::<Vec<_>>(), ["a/value=1"]);
}

fn contains(path: &Path, what: &[u8]) -> bool {
    fs_err::read(path).unwrap().windows(what.len()).any(|window| window == what)
}

#[test]
fn keys_that_cannot_be_used_are_usage() {
    let (folder, sandbox) = (Folder::new(), Sandbox::with(RECIPE));
    keygen(&sandbox, "key");
    let again = sandbox.sweep(&["cache", "keygen", "key"]);
    assert_eq!(again.code, Some(2));
    let mut said = Transcript::default();
    said.add("keygen again", &again.stderr);
    sandbox.write("empty", "");
    let open = sandbox.path("key");
    for args in [
        ["--remote-trust", "own"],
        ["--remote-trust", "empty"],
        ["--remote-trust", "missing"],
        ["--remote-key", "empty"],
    ] {
        let ended = sandbox.sweep(&[&["run", "recipe.yaml", "--remote", &folder.address()], &args[..]].concat());
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        said.add(&args.join(" "), &ended.stderr);
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs_err::set_permissions(&open, mode).unwrap();
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--remote", &folder.address(), "--remote-key", "key"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    said.add("a key that others can read", &ended.stderr);
    assert_message!(said);
}
