//! Claims, commits and damage.

use super::*;
use crate::record::sample;

#[test]
fn a_miss_becomes_a_hit_by_commit_only() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    let record = sample();
    let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("nothing is done yet") };
    assert!(matches!(store.claim(record.key).unwrap(), Claim::Busy), "the lock is held");
    drop(pending);
    let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("a dropped claim writes nothing") };
    fs::write(pending.dir().join("artifact"), "content").unwrap();
    let record = pending.commit(record).unwrap();
    assert_eq!(record.files.len(), 1, "with the digest of its file");
    let Claim::Hit(found) = store.claim(record.key).unwrap() else { panic!("a commit makes a hit") };
    assert_eq!(*found, record);
    assert_eq!(fs::read_to_string(store.folder(record.key).join("files/artifact")).unwrap(), "content");
    assert_eq!(fs::read_dir(results.path().join("store/staging")).unwrap().count(), 0);
    drop(store);
    for folder in ["locks", "spare"] {
        assert_eq!(entries(&results.path().join("store").join(folder)).unwrap(), Vec::<PathBuf>::new());
    }
}

#[test]
fn locks_are_links_to_one_file_and_those_that_a_killed_process_has_left_do_not_hold_each_other() {
    let results = tempfile::tempdir().unwrap();
    let (first, second) = (Store::new(results.path()), Store::new(results.path()));
    let (a, b) = (Key::of_json(&"a").unwrap(), Key::of_json(&"b").unwrap());
    let locks = results.path().join("store/locks");
    fs::create_dir_all(&locks).unwrap();
    // Both are names of one file, which no process has locked anymore.
    fs::write(locks.join(a.to_string()), "").unwrap();
    fs::hard_link(locks.join(a.to_string()), locks.join(b.to_string())).unwrap();
    let Claim::Miss(first_claim) = first.claim(a).unwrap() else { panic!("nobody holds it") };
    assert!(matches!(second.claim(a).unwrap(), Claim::Busy) && !second.is_free(a));
    let Claim::Miss(second_claim) = second.claim(b).unwrap() else { panic!("nobody holds it") };
    assert!(matches!(first.claim(b).unwrap(), Claim::Busy), "each has a file of its own");
    drop(first_claim);
    assert!(second.is_free(a) && !first.is_free(b));
    let Claim::Miss(next_claim) = second.claim(a).unwrap() else { panic!("it was given back") };
    drop((next_claim, second_claim));
    drop((first, second));
    assert_eq!(entries(&locks).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn locks_of_killed_processes_are_no_leases() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    let key = sample().key;
    let lock = results.path().join("store/locks").join(key.to_string());
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    assert!(store.share().unwrap());
    assert!(!lock.exists());
    assert!(matches!(store.claim(key).unwrap(), Claim::Miss(_)), "nobody has to wait for a dead process");
}

#[test]
fn what_a_dead_process_left_in_staging_does_not_get_into_the_record() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    let record = sample();
    let leftover = results.path().join("store/staging").join(record.key.to_string()).join("files");
    fs::create_dir_all(&leftover).unwrap();
    fs::write(leftover.join("half"), "written").unwrap();
    let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done") };
    pending.commit(record.clone()).unwrap();
    assert!(!store.folder(record.key).join("files").exists());
}

#[test]
fn damage_and_later_formats_are_told_apart() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    let key = sample().key;
    fs::create_dir_all(store.folder(key)).unwrap();
    let path = store.folder(key).join("record.json");
    fs::write(&path, "{\"format\":1,").unwrap();
    assert!(matches!(store.get(key), Err(StoreError::Record(RecordError::Damaged { .. }))));
    fs::write(&path, "{\"format\":99,\"news\":true}").unwrap();
    assert!(matches!(store.get(key), Err(StoreError::Record(RecordError::TooNew { found: 99, .. }))));
}

#[test]
fn what_vanishes_while_garbage_is_looked_for_is_no_garbage() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    let record = sample();
    let leftover = results.path().join("store/staging").join(record.key.to_string()).join("files");
    std::thread::scope(|scope| {
        // The thread acts as a worker that outlives its killed engine for a while.
        let worker = scope.spawn(|| {
            for _ in 0..100 {
                fs::create_dir_all(&leftover).unwrap();
                (0..20).for_each(|file| fs::write(leftover.join(file.to_string()), "content").unwrap());
                fs::remove_dir_all(leftover.parent().unwrap()).unwrap();
            }
        });
        while !worker.is_finished() {
            store.garbage(&std::collections::HashSet::new()).unwrap();
        }
    });
    // Two processes remove the same record: it is missing when the second one tries.
    let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done") };
    pending.commit(record.clone()).unwrap();
    let garbage = store.garbage(&std::collections::HashSet::new()).unwrap();
    assert_eq!(garbage.records.len(), 1);
    store.remove(&garbage).unwrap();
    store.remove(&garbage).unwrap();
    assert!(!store.contains(record.key));
}

#[test]
fn a_holder_that_was_late_does_not_replace_the_stored_record() {
    let results = tempfile::tempdir().unwrap();
    let store = Store::new(results.path());
    assert!(store.share().unwrap());
    let key = sample().key;
    let record = |value: f64| {
        let mut record = sample();
        record.outcome.set_open("value", value, sweep_job::Unit::One);
        record
    };
    let Claim::Miss(late) = store.claim(key).unwrap() else { panic!("not done") };
    // As if another machine had taken the lease of a silent holder over.
    fs::remove_file(results.path().join("store/locks").join(key.to_string())).unwrap();
    let Claim::Miss(next) = store.claim(key).unwrap() else { panic!("not done") };
    let stored = next.commit(record(1.0)).unwrap();
    assert_eq!(late.commit(record(2.0)).unwrap(), stored);
    assert_eq!(store.get(key).unwrap(), Some(stored));
    assert_eq!(entries(&results.path().join("store/locks")).unwrap(), Vec::<PathBuf>::new());
}
