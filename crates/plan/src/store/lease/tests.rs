//! Holders, dead holders and their heirs.

use fs_err as fs;

use super::*;

fn holder(folder: &Path, change: impl FnOnce(&mut Owner)) {
    let own_path = folder.join("x.other");
    let mut owner = Owner::new(&own_path);
    change(&mut owner);
    fs::write(&own_path, serde_json::to_vec(&owner).unwrap()).unwrap();
    fs::hard_link(&own_path, folder.join("x")).unwrap();
}

fn age(path: &Path, by: Duration) {
    std::fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

#[test]
fn one_holder_at_a_time_and_nothing_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
    assert!(Lease::try_take(folder.path(), "x").unwrap().is_none() && Lease::is_held(folder.path(), "x"));
    assert!(!lease.is_lost());
    drop(lease);
    assert!(!Lease::is_held(folder.path(), "x"));
    drop(Lease::try_take(folder.path(), "x").unwrap().unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn of_many_who_ask_at_once_one_gets_it_whoever_held_it_before() {
    for is_dead in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        if is_dead {
            holder(folder.path(), |owner| owner.pid = u32::MAX);
        }
        let leases: Vec<Option<Lease>> = thread::scope(|scope| {
            let askers: Vec<_> =
                (0..16).map(|_| scope.spawn(|| Lease::try_take(folder.path(), "x").unwrap())).collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        let held_leases: Vec<&Lease> = leases.iter().flatten().filter(|lease| !lease.is_lost()).collect();
        assert_eq!(held_leases.len(), 1, "the holder before was dead: {is_dead}");
    }
}

#[test]
fn the_dead_are_told_from_the_living() {
    type Change = fn(&mut Owner);
    let move_elsewhere: Change = |owner| owner.host = "elsewhere".into();
    for (change, is_silent, is_held) in [
        ((|_| {}) as Change, false, true),
        // This process lives, however late it is.
        (|_| {}, true, true),
        (|owner| owner.begun += 1, false, false),
        // The process is not visible from this machine: only the age of its lease counts.
        (move_elsewhere, false, true),
        (move_elsewhere, true, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        holder(folder.path(), change);
        if is_silent {
            age(&folder.path().join("x"), STALE + RENEWAL);
        }
        assert_eq!(Lease::is_held(folder.path(), "x"), is_held);
        assert_eq!(Lease::try_take(folder.path(), "x").unwrap().is_none(), is_held);
    }
}

#[test]
fn slurm_takes_over_from_its_own_earlier_start_only() {
    let owner = |host: &str, slurm: Option<(&str, u32)>| Owner {
        host: host.into(),
        slurm: slurm.map(|(id, restart)| (id.to_owned(), restart)),
        ..Owner::new(Path::new("x"))
    };
    let me = owner("b", Some(("7", 1)));
    assert_eq!(owner("a", Some(("7", 0))).lives(&me), Some(false));
    assert_eq!(owner("a", Some(("7", 1))).lives(&me), None, "another task of the same job");
    assert_eq!(owner("a", Some(("8", 0))).lives(&me), None);
}

/// Takes a lease over as soon as its holder counts as dead.
fn take_over(folder: &Path, lease: &Lease) -> Lease {
    let own = Presence::announce(&folder.join(format!("x.{}", unique()))).unwrap();
    let holder = look(&lease.path).unwrap().unwrap();
    let heir = Heir::of(&lease.path, &holder, &own, SystemTime::now()).unwrap().unwrap();
    assert!(heir.take_over(&holder).unwrap());
    Lease { path: lease.path.clone(), own }
}

#[test]
fn whoever_was_silent_for_too_long_is_told_that_it_has_lost() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
    let next_lease = take_over(folder.path(), &lease);
    assert!(lease.is_lost());
    drop(lease);
    assert!(!next_lease.is_lost(), "the old holder does not take the new one's away");
    drop(next_lease);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_look_before_a_take_over_removes_no_later_lease() {
    let folder = tempfile::tempdir().unwrap();
    holder(folder.path(), |owner| owner.pid = u32::MAX);
    let path = folder.path().join("x");
    let (own, dead_holder) =
        (Presence::announce(&folder.path().join("x.late")).unwrap(), look(&path).unwrap().unwrap());
    let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
    let heir = Heir::of(&path, &dead_holder, &own, SystemTime::now()).unwrap().unwrap();
    assert!(!heir.take_over(&dead_holder).unwrap() && !lease.is_lost());
    drop((lease, own));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_heir_that_died_has_a_heir() {
    let folder = tempfile::tempdir().unwrap();
    holder(folder.path(), |owner| owner.pid = u32::MAX);
    let heir_path = folder.path().join("x.heir");
    let mut heir = Owner::new(&heir_path);
    heir.begun += 1;
    fs::write(&heir_path, serde_json::to_vec(&heir).unwrap()).unwrap();
    fs::hard_link(&heir_path, folder.path().join("x.other.heir")).unwrap();
    drop(Lease::try_take(folder.path(), "x").unwrap().unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_its_holder_could_not_remove_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
    let copy = folder.path().join("copy");
    fs::hard_link(&lease.path, &copy).unwrap();
    drop(lease);
    fs::rename(&copy, folder.path().join("x")).unwrap();
    assert!(!Lease::is_held(folder.path(), "x"), "its process lives, and has given it up");
    drop(Lease::try_take(folder.path(), "x").unwrap().unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
