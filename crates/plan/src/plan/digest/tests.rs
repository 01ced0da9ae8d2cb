//! Tests of digests.

use super::*;

fn later() -> SystemTime {
    SystemTime::now() + 2 * REST
}

#[test]
fn a_folder_is_its_files_names_and_contents() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |path: &Path| Digests::default().of(path).unwrap();
    fs::write(folder.path().join("a"), "1").unwrap();
    let first = digest(folder.path());
    fs::write(folder.path().join("a"), "2").unwrap();
    let second = digest(folder.path());
    fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
    let third = digest(folder.path());
    assert!(first != second && second != third && first != third);
    fs::copy(folder.path().join("b"), folder.path().join("b.bin")).unwrap();
    assert_ne!(digest(&folder.path().join("b")), digest(&folder.path().join("b.bin")), "tokens are no text");
}

#[test]
fn what_has_rested_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("digests"), folder.path().join("data"));
    fs::write(&file, "content").unwrap();
    let mut first = Digests::open(cache.clone());
    let digest = first.at(&file, &[], later()).unwrap();
    assert_eq!(first.at(&file, &[], later()).unwrap(), digest);
    assert_eq!(first.read, 1);
    first.keep();
    let mut second = Digests::open(cache.clone());
    assert_eq!((second.at(&file, &[], later()).unwrap(), second.read), (digest.clone(), 0));
    fs::write(&file, "another").unwrap();
    let mut third = Digests::open(cache);
    assert_ne!(third.at(&file, &[], later()).unwrap(), digest);
    assert_eq!(third.read, 1);
}

/// An edit in the tick of the clock in which the file was read leaves its size and its times as they were.
#[test]
fn what_was_just_changed_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("digests"), folder.path().join("data"));
    fs::write(&file, "one").unwrap();
    let mut first = Digests::open(cache.clone());
    let digest = first.of(&file).unwrap();
    first.keep();
    assert!(!cache.exists(), "nothing about a file that was just written is kept");
    fs::write(&file, "two").unwrap();
    assert_ne!(Digests::open(cache).of(&file).unwrap(), digest);
}

#[test]
fn a_file_with_another_ones_times_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("digests"), folder.path().join("data"));
    fs::write(&file, "one").unwrap();
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let mut first = Digests::open(cache.clone());
    let digest = first.at(&file, &[], later()).unwrap();
    first.keep();
    // `cp --preserve` and `touch -r` keep the time, too.
    fs::write(&file, "two").unwrap();
    fs::File::options().write(true).open(&file).unwrap().file().set_modified(time).unwrap();
    assert_ne!(Digests::open(cache).at(&file, &[], later()).unwrap(), digest);
}

/// Each of these folders has two links to the next, so that there are 2^35 ways to the last.
#[test]
fn links_that_double_are_followed_once() {
    const DEPTH: usize = 35;
    let folder = tempfile::tempdir().unwrap();
    let folder_at = |depth: usize| folder.path().join(depth.to_string());
    for depth in 0..DEPTH {
        fs::create_dir(folder_at(depth)).unwrap();
        for name in ["a", "b"] {
            fs::os::unix::fs::symlink(folder_at(depth + 1), folder_at(depth).join(name)).unwrap();
        }
    }
    fs::create_dir(folder_at(DEPTH)).unwrap();
    let first_digest = Digests::default().of(&folder_at(0)).unwrap();
    fs::write(folder_at(DEPTH).join("file"), "content").unwrap();
    assert_ne!(Digests::default().of(&folder_at(0)).unwrap(), first_digest);
    // The digest is the same with copies in place of links.
    let digest_of_both = |inner: &str| blake3::hash(format!("a\0{inner}b\0{inner}").as_bytes()).to_hex();
    let last_digest = Digests::default().of(&folder_at(DEPTH)).unwrap();
    assert_eq!(
        Digests::default().of(&folder_at(DEPTH - 1)).unwrap(),
        format!("folder:{}", digest_of_both(&last_digest))
    );

    fs::os::unix::fs::symlink(folder_at(0), folder_at(DEPTH).join("back")).unwrap();
    let error = Digests::default().of(&folder_at(0)).unwrap_err();
    assert!(error.to_string().contains("is a link to a folder that contains it"), "{error}");
}

#[test]
fn what_is_asked_for_again_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.bin");
    fs::write(&file, "one").unwrap();
    let mut digests = Digests::default();
    let first = digests.of(&file).unwrap();
    fs::write(&file, "two").unwrap();
    assert_eq!(digests.of(&file).unwrap(), first, "one plan, one content");
    assert_ne!(digests.now(&file, &[]).unwrap(), first);
    assert_eq!(digests.of_artifact(&file).unwrap(), blake3::hash(b"two").to_hex().to_string());
}

/// A file that is written through a shared mapping may change without its times, until the system has brought the pages
/// to the disk.
#[test]
fn what_a_mapping_may_still_change_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("digests"), folder.path().join("data"));
    fs::write(&file, "one").unwrap();
    for (age, is_kept) in [(10, false), (40, false), (70, true)] {
        let mut digests = Digests::open(cache.clone());
        digests.at(&file, &[], SystemTime::now() + Duration::from_secs(age)).unwrap();
        digests.keep();
        assert_eq!(cache.exists(), is_kept, "{age} s after it was written");
    }
}

#[test]
fn a_damaged_memory_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("digests"), folder.path().join("data"));
    fs::write(&file, "one").unwrap();
    for text in ["", "{", "{\"format\":9,\"files\":{}}"] {
        fs::write(&cache, text).unwrap();
        assert!(Digests::open(cache.clone()).of(&file).is_ok());
    }
}
