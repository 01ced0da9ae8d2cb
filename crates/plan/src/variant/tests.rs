use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

use super::*;
use crate::host::git;

/// A project with a recipe's folder in it, and a place for layers beside it.
struct Place {
    _folder: tempfile::TempDir,
    project: PathBuf,
    results: PathBuf,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let place = Self { _folder: folder, project: root.join("project"), results: root.join("results") };
        fs::create_dir_all(&place.project).unwrap();
        for (path, text) in files {
            place.write(path, text);
        }
        place
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let output = git(&self.project).args(author).args(["-c", "protocol.file.allow=always"]).args(args).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The files as they are now, in a first commit.
    fn repository(files: &[(&str, &str)]) -> Self {
        let place = Self::new(files);
        place.git(&["init", "-q", "-b", "main"]);
        place.commit("first");
        place
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", message]);
    }

    fn layer_in(&self, folder: &str, value: &str) -> Result<Layer, VariantError> {
        let value: Value = serde_json::from_str(value).unwrap();
        Variants::default().layer(&value, &self.project, &self.project.join(folder), &self.results)
    }

    fn layer(&self, value: &str) -> Result<Layer, VariantError> {
        self.layer_in("", value)
    }

    /// All files that a program finds under a layer, with their texts.
    fn seen(&self, layer: &Layer) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut queue = vec![self.project.clone()];
        while let Some(folder) = queue.pop() {
            for (name, is_folder) in layer.entries(&folder).unwrap() {
                let path = folder.join(name);
                let place = path.strip_prefix(&self.project).unwrap().to_str().unwrap().to_owned();
                if path.file_name().is_some_and(|name| name == ".git") {
                    continue;
                }
                if is_folder {
                    queue.push(path);
                } else {
                    let real = layer.at(&path);
                    // The target of a link is a path of the project.
                    if real.is_symlink() {
                        continue;
                    }
                    let text = fs::read(real).unwrap();
                    files.insert(place, String::from_utf8_lossy(&text).into_owned());
                }
            }
        }
        files
    }

    fn finds(&self, value: &str) -> BTreeMap<String, String> {
        self.seen(&self.layer(value).unwrap_or_else(|error| panic!("{value}: {error}")))
    }

    fn refused(&self, value: &str) -> String {
        let error = self.layer(value).expect_err(value);
        format!("{error}; {}", error.advice())
    }
}

fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

const MODEL: &str = "rope = 1\nwidth = 4\n\n\n\n\n\nnorm = 1\n";
const NO_ROPE: &str = "--- a/model.py\n+++ b/model.py\n@@ -1,2 +1,2 @@\n-rope = 1\n+rope = 0\n width = 4\n";
const NO_NORM: &str = "--- model.py\n+++ model.py\n@@ -7,2 +7,2 @@\n \n-norm = 1\n+norm = 0\n";

#[test]
fn patches_apply_to_the_project_as_it_is_without_git() {
    let place = Place::new(&[("model.py", MODEL), ("no-rope.patch", NO_ROPE), ("no-norm.diff", NO_NORM)]);
    let with = |text: &str| files(&[("model.py", text), ("no-rope.patch", NO_ROPE), ("no-norm.diff", NO_NORM)]);
    assert_eq!(place.finds("\".\""), with(MODEL));
    assert_eq!(place.layer("\".\"").unwrap(), Layer::default());
    let no_rope = MODEL.replace("rope = 1", "rope = 0");
    assert_eq!(place.finds("\"no-rope.patch\""), with(&no_rope));
    let no_rope_or_norm = no_rope.replace("norm = 1", "norm = 0");
    for value in [
        r#"["no-rope.patch", "no-norm.diff"]"#,
        r#"{"patches": ["no-norm.diff", "no-rope.patch"]}"#,
        r#"{"patches": {"no-norm.diff": true, "no-rope.patch": true}}"#,
    ] {
        assert_eq!(place.finds(value), with(&no_rope_or_norm), "{value}");
    }
    assert_eq!(place.layer(r#"{"patches": {"no-norm.diff": false}}"#).unwrap(), Layer::default());
    assert_eq!(fs::read_to_string(place.project.join("model.py")).unwrap(), MODEL, "the project is as it was");
    // Equal contents are one layer, however they come about.
    let layer = place.layer("\"no-rope.patch\"").unwrap();
    place.write("other.py", &no_rope);
    assert_eq!(place.layer(r#"{"files": {"model.py": "other.py"}}"#).unwrap(), layer);
    // A patch applies to an edited file while its lines are unchanged.
    place.write("model.py", format!("# edited\n\n\n{MODEL}"));
    assert!(place.finds("\"no-rope.patch\"")["model.py"].starts_with("# edited\n\n\nrope = 0\n"));
}

#[test]
fn a_patch_that_does_not_fit_is_refused_with_its_place() {
    let second_patch = NO_ROPE.replace("+rope = 0", "+rope = 2");
    let place = Place::new(&[("model.py", MODEL), ("no-rope.patch", NO_ROPE), ("rope2.patch", &second_patch)]);
    let message = place.refused(r#"["no-rope.patch", "rope2.patch"]"#);
    assert!(message.starts_with("`rope2.patch` does not apply to `model.py`: hunk 1 of 1, for line 1"), "{message}");
    assert!(message.contains("`no-rope.patch` is applied before it"), "{message}");
    place.write("model.py", MODEL.replace("rope = 1", "rope = 0"));
    assert!(place.refused("\"no-rope.patch\"").contains("its changes are already applied"));
    place.write("gone.patch", NO_ROPE.replace("model.py", "gone.py"));
    assert!(place.refused("\"gone.patch\"").contains("`gone.py`: there is no such file"));
    for (text, expected) in [
        ("hello\n", "is not a patch"),
        ("", "is not a patch"),
        ("--- a/model.py\n+++ b/model.py\n@@ -1,9 +1,2 @@\n-rope = 1\n", "is not a patch"),
        ("--- a/../../etc/x\n+++ b/../../etc/x\n@@ -1 +1 @@\n-a\n+b\n", "is not in the project"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+b\n", "is not in the project"),
        ("--- /dev/null\n+++ b/model.py\n@@ -0,0 +1 @@\n+b\n", "it creates the file, which already exists"),
    ] {
        place.write("bad.patch", text);
        let message = place.refused("\"bad.patch\"");
        assert!(message.contains(expected), "{text}: {message}");
    }
    for (value, expected) in [
        ("\"missing.patch\"", "missing.patch` cannot be used"),
        ("true", "is not a variant of code"),
        (r#"{"revision": "HEAD"}"#, "no key `revision`"),
        (r#"{"files": ["a"]}"#, "must be a map"),
        (r#"{"files": {"../x": "model.py"}}"#, "is not in the project"),
        (r#"{"patches": {"no-rope.patch": 1}}"#, "must be `true` or `false`"),
        ("\"HEAD\"", "is not in a Git repository"),
    ] {
        let message = place.refused(value);
        assert!(message.contains(expected), "{value}: {message}");
    }
    assert!(!place.results.exists(), "nothing was kept");
}

#[test]
fn patches_of_git_rename_make_remove_and_change_modes_links_and_binary_files() {
    let place =
        Place::repository(&[("pkg/old.py", "a\nb\nc\nd\ne\nf\n"), ("gone/x", "x\n"), ("run.sh", "#!/bin/sh\n")]);
    place.write("data.bin", [0, 1, 2, 255, 254]);
    place.commit("binary");
    place.git(&["mv", "pkg/old.py", "pkg/new.py"]);
    place.write("pkg/new.py", "a\nb\nc\nd\ne\nF\n");
    place.write("data.bin", [0, 1, 2, 3, 255, 254]);
    place.write("made/deep.py", "made\n");
    fs::remove_dir_all(place.project.join("gone")).unwrap();
    fs::set_permissions(place.project.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("new.py", place.project.join("pkg/link.py")).unwrap();
    place.git(&["add", "-A"]);
    let patch = place.git(&["diff", "--cached", "--binary", "-M"]);
    assert!(patch.contains("rename from") && patch.contains("GIT binary patch") && patch.contains("120000"));
    let expected = place.finds("\".\"");
    place.git(&["reset", "-q", "--hard"]);
    fs::write(place.project.with_file_name("all.patch"), patch).unwrap();
    let layer = place.layer("\"../all.patch\"").unwrap();
    assert_eq!(place.seen(&layer), expected);
    let mode = |path: &str| fs::metadata(layer.at(&place.project.join(path))).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("run.sh"), mode("made/deep.py")), (0o755, 0o644));
    assert!(fs::symlink_metadata(layer.at(&place.project.join("pkg/link.py"))).unwrap().is_symlink());
    assert!(layer.entries(&place.project.join("gone")).is_err(), "an empty folder is none to Git");
}

#[test]
fn ends_of_lines_are_those_of_the_file() {
    let place = Place::new(&[("model.py", &MODEL.replace('\n', "\r\n")), ("lf.patch", NO_ROPE)]);
    let expected_text = MODEL.replace("rope = 1", "rope = 0");
    assert_eq!(place.finds("\"lf.patch\"")["model.py"], expected_text.replace('\n', "\r\n"));
    place.write("model.py", MODEL);
    place.write("crlf.patch", NO_ROPE.replace('\n', "\r\n"));
    assert_eq!(place.finds("\"crlf.patch\"")["model.py"], expected_text);
}

#[test]
fn a_revision_has_its_tracked_files_and_those_of_the_project_that_nobody_tracks() {
    let place = Place::repository(&[("model.py", "one\n"), ("old/a.py", "a\n"), ("same", "s\n")]);
    let first_commit = place.git(&["rev-parse", "HEAD"]).trim().to_owned();
    place.write("model.py", "two\n");
    place.write("new/b.py", "b\n");
    place.git(&["rm", "-rq", "old"]);
    place.commit("second");
    place.git(&["branch", "feature"]);
    place.write("data.txt", "data\n");
    let second_files = files(&[("model.py", "two\n"), ("new/b.py", "b\n"), ("same", "s\n"), ("data.txt", "data\n")]);
    assert_eq!(place.layer("\"HEAD\"").unwrap(), Layer::default(), "the project is as the commit has it");
    // A dirty tree, with an edited, a staged, a removed and a new file.
    place.write("model.py", "edited\n");
    place.write("staged.py", "staged\n");
    place.git(&["add", "staged.py"]);
    fs::remove_file(place.project.join("same")).unwrap();
    for revision in ["\"HEAD\"", "\"feature\"", r#"{"rev": "main"}"#] {
        assert_eq!(place.finds(revision), second_files, "{revision}");
    }
    let first_files = files(&[("model.py", "one\n"), ("old/a.py", "a\n"), ("same", "s\n"), ("data.txt", "data\n")]);
    let layer = place.layer(&format!("\"{}\"", &first_commit[..12])).unwrap();
    assert_eq!(place.seen(&layer), first_files);
    assert!(layer.entries(&place.project.join("new")).is_err());
    assert_eq!(place.git(&["status", "--porcelain"]), " M model.py\n D same\nA  staged.py\n?? data.txt\n");
    // A patch on a revision, whose files the project does not have like that.
    place.write("p.patch", "--- a/model.py\n+++ b/model.py\n@@ -1 +1 @@\n-one\n+uno\n");
    let value = format!(r#"{{"rev": "{first_commit}", "patches": ["p.patch"]}}"#);
    assert_eq!(place.finds(&value)["model.py"], "uno\n");
    let message = place.refused("\"no-such-branch\"");
    assert!(message.contains("no revision `no-such-branch`"), "{message}");
    assert!(place.refused("\"--help\"").contains("no revision"));
}

#[test]
fn ends_of_lines_and_filters_of_a_repository_hold_for_revisions() {
    let place =
        Place::repository(&[(".gitattributes", "*.txt text eol=crlf\n"), ("a.txt", "1\r\n"), ("é b.py", "1\n")]);
    place.write("a.txt", "2\r\n");
    place.write("é b.py", "2\n");
    let contents = place.finds("\"HEAD\"");
    assert_eq!((contents["a.txt"].as_str(), contents["é b.py"].as_str()), ("1\r\n", "1\n"));
}

#[test]
fn submodules_have_the_commits_of_the_revision() {
    let library = Place::repository(&[("lib.py", "1\n")]);
    let place = Place::repository(&[("main.py", "1\n")]);
    place.git(&["submodule", "add", "-q", library.project.to_str().unwrap(), "lib"]);
    place.commit("with a library");
    fs::write(place.project.join("lib/lib.py"), "2\n").unwrap();
    let of_library = |args: &[&str]| place.git(&[&["-C", "lib"], args].concat());
    of_library(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "second"]);
    place.commit("a newer library");
    assert_eq!(place.finds("\"HEAD\"")["lib/lib.py"], "2\n");
    let layer = place.layer("\"HEAD~1\"").unwrap();
    assert_eq!(place.seen(&layer)["lib/lib.py"], "1\n");
    let layer = place.layer("\"HEAD~2\"").unwrap();
    assert!(!place.seen(&layer).contains_key("lib/lib.py"), "there was none");
    fs::remove_dir_all(place.project.join("lib")).unwrap();
    let message = place.refused("\"HEAD~1\"");
    assert!(message.contains("of the submodule `lib`"), "{message}");
}

#[test]
fn a_folder_stands_in_place_and_a_worktree_as_a_whole() {
    let place = Place::repository(&[("study/model.py", "1\n"), ("other.py", "o\n"), ("gone.py", "g\n")]);
    place.write("study/v2/model.py", "2\n");
    place.write("study/v2/extra/x.py", "x\n");
    let layer = place.layer_in("study", r#"{"folder": "v2"}"#).unwrap();
    let contents = place.seen(&layer);
    assert_eq!((contents["study/model.py"].as_str(), contents["study/extra/x.py"].as_str()), ("2\n", "x\n"));
    let worktree = place.project.with_file_name("tree");
    place.git(&["worktree", "add", "-q", "-b", "try", worktree.to_str().unwrap()]);
    fs::write(worktree.join("study/model.py"), "tried\n").unwrap();
    fs::write(worktree.join("new.py"), "n\n").unwrap();
    fs::remove_file(worktree.join("gone.py")).unwrap();
    let contents = place.seen(&place.layer(r#"{"folder": "../tree"}"#).unwrap());
    assert_eq!((contents["study/model.py"].as_str(), contents["new.py"].as_str()), ("tried\n", "n\n"));
    assert!(!contents.contains_key("gone.py") && contents.contains_key("other.py"));
    assert_eq!(contents["study/v2/model.py"], "2\n", "a file that is not tracked stays");
}

#[test]
fn a_project_in_a_repository_has_its_part_of_a_patch_and_of_a_revision() {
    let repository = Place::repository(&[("sub/pyproject.toml", ""), ("sub/a.py", "1\n"), ("b.py", "1\n")]);
    repository.write("sub/a.py", "2\n");
    repository.write("b.py", "2\n");
    let patch = repository.git(&["diff", "--", "sub"]);
    let full_diff = repository.git(&["diff"]);
    let part = Place { project: repository.project.join("sub"), ..repository };
    assert_eq!(part.finds("\"HEAD\"")["a.py"], "1\n");
    fs::write(part.project.join("a.py"), "1\n").unwrap();
    fs::write(part.results.with_file_name("p.patch"), patch).unwrap();
    fs::write(part.results.with_file_name("q.patch"), full_diff).unwrap();
    assert_eq!(part.finds("\"../../p.patch\"")["a.py"], "2\n");
    assert!(part.refused("\"../../q.patch\"").contains("`b.py`"), "it is outside of the project");
}

#[test]
fn links_are_no_way_to_a_file_and_a_damaged_layer_is_made_anew() {
    let place = Place::repository(&[("pkg/a.py", "1\n"), ("other.py", "2\n")]);
    std::os::unix::fs::symlink("pkg", place.project.join("link")).unwrap();
    let message = place.refused(r#"{"files": {"link/a.py": "other.py"}}"#);
    assert!(message.contains("is not in the project"), "{message}");
    place.commit("a link");
    // A folder in place of the link, in an earlier revision.
    place.git(&["rm", "-q", "link"]);
    place.write("link/b.py", "3\n");
    place.commit("a folder");
    let contents = place.finds("\"HEAD~1\"");
    assert!(!contents.contains_key("link/b.py"), "{contents:?}");
    place.git(&["checkout", "-q", "HEAD~1"]);
    assert_eq!(place.finds("\"main\"")["link/b.py"], "3\n");
    let value = r#"{"files": {"pkg/a.py": "other.py"}}"#;
    let layer = place.layer(value).unwrap();
    let file = layer.at(&place.project.join("pkg/a.py")).into_owned();
    fs::write(&file, "torn").unwrap();
    assert_eq!(place.finds(value)["pkg/a.py"], "2\n");
}
