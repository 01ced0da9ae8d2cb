//! Tests of which records are valid for the code that is there.

use sweep_job::Tool;

use super::*;
use crate::record::ReadFile;

/// A project with manifests.
struct World {
    folder: tempfile::TempDir,
    lines: String,
}

fn key(digit: char) -> Key {
    digit.to_string().repeat(64).parse().unwrap()
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), lines: String::new() }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn resolve(&self) -> (Option<String>, Arc<Code>) {
        let list = self.folder.path().join("list");
        fs::write(&list, &self.lines).unwrap();
        let mut manifests = Manifests::open(&list, self.folder.path().join("sets"));
        manifests.resolve(key('b'), self.folder.path().to_owned(), Site::default(), &mut Digests::default())
    }

    /// A run that reads these files, as they are now.
    fn run(&mut self, record: char, code: Option<String>, names: &[&str]) {
        let file = |name: &&str| {
            let path = self.folder.path().join(name);
            let digest = Digests::default().of(&path).unwrap();
            ((*name).to_owned(), ReadFile { digest, by: None })
        };
        let set = ReadSet::new(names.iter().map(file).collect(), BTreeMap::new());
        self.keep(record, code, &set);
    }

    fn keep(&mut self, record: char, code: Option<String>, set: &ReadSet) {
        let path = set_file(&self.folder.path().join("sets"), &set.id()).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_vec(set).unwrap()).unwrap();
        let manifest = Manifest {
            base: key('b'),
            record: key(record),
            code,
            set: set.id(),
            tool: Tool::Audit,
            own: Own::default(),
        };
        self.lines += &(serde_json::to_string(&manifest).unwrap() + "\n");
    }
}

#[test]
fn what_has_a_valid_record_has_its_code() {
    let mut world = World::new();
    world.write("a.py", "1");
    assert_eq!(world.resolve().0, None, "nothing is known");
    world.run('1', None, &["a.py"]);
    assert_eq!(world.resolve().0, None, "the first record is valid");
    world.write("a.py", "2");
    let second = world.resolve().0;
    assert!(second.is_some());
    world.run('2', second.clone(), &["a.py"]);
    assert_eq!(world.resolve().0, second, "so is the second");
    world.write("a.py", "1");
    assert_eq!(world.resolve().0, None, "and the first again");
    world.lines += "{\"torn";
    assert_eq!(world.resolve().0, None);
}

#[test]
fn packages_of_a_host_are_not_compared_with_those_of_this_machine() {
    let with = |folder: &str| {
        let package = sweep_job::Package { version: "2".into(), folder: folder.into() };
        ReadSet::new(BTreeMap::new(), [("numpy".to_owned(), package)].into())
    };
    let mut world = World::new();
    world.keep('1', None, &with("host:/home/me/venv"));
    assert_eq!(world.resolve().0, None, "the record stays valid");
    let mut world = World::new();
    world.keep('1', None, &with("/home/me/venv"));
    assert!(world.resolve().0.is_some(), "it was made here, and the package is gone");
}

/// `train.py` reads `extra.py` in its second version only. If the key had the files of the latest run only, the return
/// to this version would give the key of the record with the old content of `extra.py`.
#[test]
fn a_file_that_only_some_versions_read_is_not_forgotten() {
    let mut world = World::new();
    world.write("train.py", "1");
    world.write("extra.py", "old");
    world.run('1', None, &["train.py"]);
    world.write("train.py", "2");
    let second = world.resolve().0;
    world.run('2', second.clone(), &["train.py", "extra.py"]);
    world.write("train.py", "3");
    let third = world.resolve().0;
    world.run('3', third.clone(), &["train.py"]);
    world.write("train.py", "2");
    assert_eq!(world.resolve().0, second);
    world.write("extra.py", "new");
    let fourth = world.resolve().0;
    assert!(fourth != second && fourth != third && fourth.is_some());
}

#[test]
fn a_lost_set_is_no_set_without_files() {
    let mut world = World::new();
    world.write("a.py", "1");
    world.run('1', None, &["a.py"]);
    fs::remove_dir_all(world.folder.path().join("sets")).unwrap();
    assert!(world.resolve().0.is_some());
}
