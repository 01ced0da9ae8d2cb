//! Tests of archives.

use super::*;
use crate::record::sample;

/// A store with one record that has a file and a link.
fn store_with_one(results: &Path) -> (Store, Record) {
    let store = Store::new(results);
    let record = sample();
    let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done yet") };
    fs::create_dir(pending.dir().join("sub")).unwrap();
    fs::write(pending.dir().join("sub/weights"), "1 2 3").unwrap();
    fs::os::unix::fs::symlink("sub/weights", pending.dir().join("latest")).unwrap();
    let record = pending.commit(record).unwrap();
    (store, record)
}

fn origin() -> Origin {
    Origin { from: "file:///elsewhere".into(), at: jiff::Timestamp::UNIX_EPOCH, signed: None }
}

fn exported(store: &Store, key: Key) -> Vec<u8> {
    let mut archive = Vec::new();
    store.export(&BTreeSet::from([key]), &mut archive).unwrap();
    archive
}

#[test]
fn records_travel_whole() {
    let (source_folder, target_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, record) = store_with_one(source_folder.path());
    let archive = exported(&store, record.key);
    assert_eq!(archive, exported(&store, record.key), "the same records, the same archive");
    let target = Store::new(target_folder.path());
    assert_eq!(target.import(archive.as_slice(), &origin()).unwrap(), Imported { added: 1, ..Imported::default() });
    assert_eq!(target.get(record.key).unwrap(), Some(record.clone()));
    assert_eq!(fs::read_to_string(target.folder(record.key).join("files/latest")).unwrap(), "1 2 3");
    assert_eq!(target.import(archive.as_slice(), &origin()).unwrap(), Imported { known: 1, ..Imported::default() });
    let report = target.verify().unwrap();
    assert_eq!((report.records, report.files, report.defects), (1, 2, vec![]));
}

/// A link makes the folders above a path others than they seem, so nothing may be written below one.
#[test]
fn nothing_is_written_through_a_link() {
    type Attempt<'a> = &'a dyn Fn(&mut Builder<Vec<u8>>);

    let key = sample().key;
    let top = format!("{TOP}/{key}/files");
    let link = |archive: &mut Builder<Vec<u8>>, path: &str, to: &str| {
        archive.append_link(&mut header(EntryType::Symlink, 0), format!("{top}/{path}"), to).unwrap();
    };
    let attempts: [Attempt<'_>; 4] = [
        &|archive| {
            link(archive, "p", ".");
            append(archive, &format!("{top}/p/evil"), b"x").unwrap();
        },
        &|archive| {
            link(archive, "p/q", "..");
            link(archive, "p/q/r", "../..");
            append(archive, &format!("{top}/p/q/r/evil"), b"x").unwrap();
        },
        &|archive| {
            link(archive, "p", ".");
            link(archive, "out", "p/../..");
        },
        &|archive| link(archive, "out", "../.."),
    ];
    for attempt in attempts {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Builder::new(Vec::new());
        attempt(&mut archive);
        let archive = archive.into_inner().unwrap();
        let result = Store::new(&folder.path().join("results")).import(archive.as_slice(), &origin());
        assert!(matches!(result, Err(TransferError::Foreign(_))), "{result:?}");
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == "results"), "{names:?}");
    }
}

#[test]
fn what_was_changed_on_the_way_is_refused() {
    let (source_folder, target_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, record) = store_with_one(source_folder.path());
    let archive = exported(&store, record.key);
    for (from, to, reason) in [
        ("1 2 3", "1 2 4", "digests"),
        (
            "\"format\": 1,\n    \"task\": \"mock\"",
            "\"format\": 2,\n    \"task\": \"mock\"",
            "changed since it was written",
        ),
    ] {
        let at = archive.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut changed_archive = archive.clone();
        changed_archive[at..at + to.len()].copy_from_slice(to.as_bytes());
        let target = Store::new(target_folder.path());
        let report = target.import(changed_archive.as_slice(), &origin()).unwrap();
        assert!(report.refused[0].1.contains(reason), "{report:?}");
        assert!(!target.contains(record.key));
    }
}

#[test]
fn an_archive_for_one_job_has_its_record_and_nothing_else() {
    let (source_folder, target_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, record) = store_with_one(source_folder.path());
    let mut other = sample();
    other.params.insert("value", sweep_job::Value::Float(7.0));
    other.identity.params = [("value".to_owned(), sweep_job::Value::Float(7.0))].into();
    other.key = other.identity.key().unwrap();
    let Claim::Miss(pending) = store.claim(other.key).unwrap() else { panic!("not done yet") };
    let other = pending.commit(other).unwrap();
    let mut two_records = Vec::new();
    store.export(&BTreeSet::from([record.key, other.key]), &mut two_records).unwrap();
    let mut appended = exported(&store, record.key);
    appended.extend(exported(&store, other.key));
    for archive in [two_records, appended] {
        let taker = Store::new(target_folder.path());
        let result = taker.import_only(archive.as_slice(), record.key, &origin());
        assert!(matches!(result, Err(TransferError::Foreign(_))), "{result:?}");
        assert_eq!(taker.keys().unwrap(), []);
    }
    let taker = Store::new(target_folder.path());
    let report = taker.import_only(exported(&store, record.key).as_slice(), record.key, &origin()).unwrap();
    assert_eq!(report, Imported { added: 1, ..Imported::default() });
    assert_eq!(taker.origin(record.key), Some(origin()));
    assert_eq!(store.origin(record.key), None, "what was made here comes from nowhere");
}

#[test]
fn nothing_is_no_archive() {
    let results = tempfile::tempdir().unwrap();
    let result = Store::new(results.path()).import(&[][..], &origin());
    assert!(matches!(result, Err(TransferError::Foreign(_))), "{result:?}");
}

#[test]
fn an_archive_cannot_write_elsewhere() {
    let key = sample().key;
    let entry = |path: &str, kind: EntryType, link: &str| {
        let mut header = header(kind, 0);
        // Through the raw bytes: the library refuses to write such paths.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let record_path = format!("{TOP}/{key}");
    for (path, kind, link) in [
        ("../evil".to_owned(), EntryType::Regular, ""),
        ("/tmp/evil".to_owned(), EntryType::Regular, ""),
        (format!("{record_path}/../evil"), EntryType::Regular, ""),
        (format!("{record_path}/other"), EntryType::Regular, ""),
        (format!("{TOP}/notakey/record.json"), EntryType::Regular, ""),
        (format!("{record_path}/files/l"), EntryType::Symlink, "/etc/passwd"),
        (format!("{record_path}/files/l"), EntryType::Symlink, "../record.json"),
        (format!("{record_path}/files/l"), EntryType::Link, "/etc/passwd"),
        (format!("{record_path}/files/l"), EntryType::Char, ""),
    ] {
        let results = tempfile::tempdir().unwrap();
        let mut archive = entry(&path, kind, link);
        archive.extend([0; 1024]);
        let error = Store::new(results.path()).import(archive.as_slice(), &origin()).unwrap_err();
        assert!(matches!(error, TransferError::Foreign(_)), "{path} {link}: {error}");
    }
}
