//! Faults of hosts and of the network.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use sweep_engine::hosts::{HostError, HostEvent, Started};

use super::{
    sshd::Sshd,
    world::{Link, World, start_of},
};
use crate::sandbox::until;

fn mock(seconds: u32) -> World {
    World::with(&format!("name: m\nsteps:\n  a: {{ uses: mock, with: {{ seconds: {seconds} }} }}\n"))
}

/// The sentence with which a connection cannot be made.
fn refused(world: &World, sshd: &Sshd) -> (HostError, String) {
    let link = world.open(sshd, "box1");
    let error = link.lost();
    assert!(!link.connection.is_connected());
    let text = error.to_string();
    // Everything else says the same, at once.
    assert!(link.connection.jobs().unwrap_err().to_string().contains(&text), "{text}");
    (error, text)
}

#[test]
fn a_login_that_is_refused_is_one_sentence() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    fs_err::write(sshd.path("box1/authorized_keys"), "").unwrap();
    let (error, text) = refused(&world, &sshd);
    assert!(matches!(error, HostError::Login { .. }) && error.is_lasting(), "{text}");
    assert!(text.starts_with("box1 refuses the login: ") && text.contains("Permission denied (publickey)"), "{text}");
    assert!(text.ends_with("`ssh box1` must work without a prompt (with a key or an agent)"), "{text}");
}

#[test]
fn an_unknown_host_key_is_one_sentence() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    fs_err::write(sshd.path("known_hosts"), "").unwrap();
    let (error, text) = refused(&world, &sshd);
    assert!(matches!(error, HostError::HostKey { .. }) && error.is_lasting(), "{text}");
    assert!(text.contains("Host key verification failed"), "{text}");
    // Nothing was sent to a host that may be another one.
    assert!(!sshd.home("box1").join(".sweep").exists());
}

#[test]
fn another_processor_is_one_sentence() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    let bin = sshd.home("box1").join("bin");
    fs_err::create_dir(&bin).unwrap();
    fs_err::write(bin.join("uname"), "#!/bin/sh\necho Linux riscv64\n").unwrap();
    fs_err::set_permissions(bin.join("uname"), std::fs::Permissions::from_mode(0o755)).unwrap();
    sshd.rc("box1", "PATH=$HOME/bin:$PATH\n");
    let (error, text) = refused(&world, &sshd);
    assert!(matches!(error, HostError::Architecture { .. }) && error.is_lasting(), "{text}");
    assert!(text.starts_with("box1 is Linux riscv64, but this program is built for Linux "), "{text}");
    assert!(!sshd.home("box1").join(".sweep").exists(), "nothing was sent");
}

#[test]
fn a_missing_library_is_one_sentence() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    // A program that does not run there, as the dynamic linker says it.
    let program = world.sandbox.path("broken");
    let text =
        "#!/bin/sh\necho \"sweep: /lib/libc.so.6: version 'GLIBC_2.99' not found (required by sweep)\" >&2\nexit 1\n";
    fs_err::write(&program, text).unwrap();
    let link = world.open_with(sshd.options(), "box1", &program);
    let error = link.lost();
    let text = error.to_string();
    assert!(matches!(error, HostError::Library { .. }) && error.is_lasting(), "{text}");
    assert!(text.contains("does not run on box1: sweep: /lib/libc.so.6: version 'GLIBC_2.99' not found"), "{text}");
    let left = std::fs::read_dir(sshd.home("box1").join(".sweep/bin")).unwrap();
    let left: Vec<_> = left.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_login_that_talks_is_skipped_up_to_a_limit() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    sshd.rc("box1", "seq 1000; echo Welcome >&2; printf 'no end of a line'\n");
    let link = world.open(&sshd, "box1");
    link.connected();
    drop(link);
    sshd.rc("box1", "echo 'Please choose a new password'; while :; do echo '.............................'; done\n");
    let (error, text) = refused(&world, &sshd);
    assert!(matches!(error, HostError::Protocol { .. }), "{text}");
    assert!(text.contains("its login prints `Please choose a new password") && text.len() < 600, "{text}");
}

#[test]
fn a_host_that_talks_nonsense_is_given_up() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    let nonsense = [
        ("echo 'You are welcome'", "the line `You are welcome` is not a frame"),
        (r#"echo '{"id":1,"bytes":99999999,"head":"done"}'"#, "a body of 99999999 bytes is longer than"),
        ("head -c 3000000 /dev/zero", "a line is longer than"),
        (r#"echo '{"id":1,"head":"done"}'"#, "its first answer"),
    ];
    for (said, expected) in nonsense {
        sshd.rc("box1", &format!("echo \"sweep-hosts/1 $(uname -sm)\"; echo serve; {said}; sleep 1; exit 0\n"));
        let (error, text) = refused(&world, &sshd);
        assert!(matches!(error, HostError::Protocol { .. }) && text.contains(expected), "{said}: {text}");
    }
}

#[test]
fn a_job_outlives_the_servers_and_every_line_is_said_once() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(6);
    let link = world.open(&sshd, "box1");
    link.connected();
    let job = world.hosted("a");
    link.start(&job, "1");
    link.started(job.spec.key);
    sshd.send("kill box1");
    let lost = link.lost();
    assert!(lost.is_away() && !lost.is_lasting(), "{lost}");
    assert!(link.connection.jobs().unwrap_err().is_away());
    sshd.send("start box1");
    link.connected();
    let end = link.ended(job.spec.key);
    assert!(end.has_record, "{end:?}");
    assert_eq!(
        end.kinds().iter().filter(|kind| **kind != "progress").collect::<Vec<_>>(),
        [&"storing", &"done", &"ended"]
    );
    assert_eq!(link.start(&job, "2").1, Started::Over { has_record: true });
    assert_eq!(world.fetch(&link, job.spec.key).added, 1);
}

#[test]
fn a_host_with_another_clock_is_said_and_works() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    sshd.rc("box1", "export SWEEP_CLOCK=-3600\n");
    let link = world.open(&sshd, "box1");
    let skew = link.connected().skew;
    assert!((-3660.0..-3540.0).contains(&skew), "{skew}");
    let said = link.next();
    assert!(
        matches!(&said, HostEvent::Note(text) if text.starts_with("box1: its clock is 3") && text.contains(" s behind ")),
        "{said:?}"
    );
    let job = world.hosted("a");
    link.start(&job, "1");
    assert!(link.ended(job.spec.key).has_record);
    assert_eq!(world.fetch(&link, job.spec.key).added, 1);
    world.sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn a_job_outlives_the_submitting_side() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(3);
    let link = world.open(&sshd, "box1");
    link.connected();
    let job = world.hosted("a");
    link.start(&job, "1");
    link.started(job.spec.key);
    drop(link);
    until("the server is gone", || {
        !fs_err::read_dir("/proc").unwrap().any(|process| {
            let process = process.unwrap().path();
            let text = |name: &str| {
                String::from_utf8_lossy(&std::fs::read(process.join(name)).unwrap_or_default()).into_owned()
            };
            text("cmdline").contains("serve") && text("environ").contains(sshd.path("").to_str().unwrap())
        })
    });
    let link = world.open(&sshd, "box1");
    let probe = link.connected();
    assert_eq!(probe.jobs.iter().map(|job| (job.key, job.tag.as_str())).collect::<Vec<_>>(), [(job.spec.key, "1")]);
    link.connection.follow(job.spec.key).unwrap();
    let end = link.ended(job.spec.key);
    assert_eq!((end.has_record, end.kinds().iter().filter(|kind| **kind == "started").count()), (true, 1));
    assert_eq!(world.fetch(&link, job.spec.key).added, 1);
}

/// Forwards connections to a port, until it is stalled.
pub(super) struct Proxy {
    pub(super) port: u16,
    pub(super) stalled: Arc<AtomicBool>,
}

impl Proxy {
    /// A proxy for the port of a host.
    pub(super) fn of(sshd: &Sshd, host: &str) -> Self {
        let port = fs_err::read_to_string(sshd.path(&format!("{host}/port"))).unwrap();
        Self::to(port.trim().parse().unwrap())
    }

    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let stalled = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stalled);
        thread::spawn(move || {
            for from in listener.incoming() {
                let (from, to) = (from.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
                for (from, to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    let stop = Arc::clone(&stop);
                    thread::spawn(move || Self::forward(from, to, &stop));
                }
            }
        });
        Self { port: own, stalled }
    }

    fn forward(mut from: TcpStream, mut to: TcpStream, stop: &AtomicBool) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            while stop.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(20));
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }
}

#[test]
fn a_network_that_stalls_is_a_lost_connection_and_comes_back() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(1);
    let proxy = Proxy::of(&sshd, "box1");
    let options = [sshd.options(), vec![format!("-oPort={}", proxy.port)]].concat();
    let link: Link = world.open_with(options, "box1", env!("CARGO_BIN_EXE_sweep-engine").as_ref());
    link.connected();
    let job = world.hosted("a");
    link.start(&job, "1");
    proxy.stalled.store(true, Ordering::SeqCst);
    let lost = link.lost();
    assert_eq!(
        lost.to_string().split(';').next(),
        Some("the connection to box1 was lost: no message from it for 15 s")
    );
    proxy.stalled.store(false, Ordering::SeqCst);
    link.connected();
    assert!(link.ended(job.spec.key).has_record);
    assert_eq!(world.fetch(&link, job.spec.key).added, 1);
}

#[test]
fn a_full_disk_is_one_sentence_and_leaves_nothing_half_written() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    let link = world.open(&sshd, "box1");
    link.connected();
    drop(link);
    let workdir = sshd.home("box1").join(".sweep");
    let job = world.hosted("a");
    // Each write of the server in turn fails, and all later ones.
    for at in 1..20 {
        sshd.rc("box1", &format!("export SWEEP_FAILPOINTS=full@{at}\n"));
        let link = world.open(&sshd, "box1");
        link.connected();
        let prepared = link.connection.prepare(&job.shipment);
        let temporary = |folder: &str| {
            fs_err::read_dir(workdir.join(folder))
                .unwrap()
                .any(|file| file.unwrap().file_name().to_string_lossy().starts_with(".tmp"))
        };
        assert!(!temporary("blobs") && !temporary("trees"), "at {at}");
        // The connection stays usable.
        assert_eq!(link.connection.jobs().unwrap(), []);
        let Err(error) = prepared else {
            assert!(at > 3, "{at}");
            return;
        };
        assert!(error.is_full() && !error.is_lasting(), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("the disk of box1 is full: ") && text.ends_with("run `sweep hosts clean box1`"),
            "{text}"
        );
    }
    panic!("the disk is always full");
}

#[test]
fn a_server_that_is_killed_at_a_write_loses_nothing() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    // The folders are there from now on, so that each server gets as far as its first request.
    world.open(&sshd, "box1").connected();
    for at in 1..=10 {
        // New files each time, so that all writes are made.
        world.sandbox.write("file", &format!("{at}"));
        world
            .sandbox
            .write("recipe.yaml", &format!("name: m\nsteps:\n  a: {{ uses: mock, with: {{ seed: {at} }} }}\n"));
        let job = world.hosted("a");
        sshd.rc("box1", &format!("export SWEEP_FAILPOINTS=kill@{at}\n"));
        let link = world.open(&sshd, "box1");
        link.connected();
        let prepared = link.connection.prepare(&job.shipment);
        let started = prepared.and_then(|_| link.connection.start(&start_of(&job, "1")));
        drop(link);
        sshd.rc("box1", "");
        let link = world.open(&sshd, "box1");
        link.connected();
        link.start(&job, "2");
        if !link.ended(job.spec.key).has_record {
            // The engine of the first start was killed at its own write of this number.
            assert!(started.is_ok(), "at {at}");
            link.start(&job, "3");
            assert!(link.ended(job.spec.key).has_record, "at {at}");
        }
        assert_eq!(world.fetch(&link, job.spec.key).added, 1, "at {at}");
    }
    assert_eq!(world.sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn a_host_without_room_for_the_program_is_one_sentence() {
    let Some(sshd) = Sshd::start(1) else { return };
    let world = mock(0);
    let workdir = sshd.home("box1").join(".sweep");
    fs_err::create_dir(&workdir).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&workdir).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        eprintln!("not run: this user cannot mount a small disk");
        return;
    }
    let (error, text) = refused(&world, &sshd);
    let left: Vec<_> = list_all(&workdir).into_iter().filter(|path| !path.is_dir()).collect();
    assert!(Command::new("umount").arg("-l").arg(&workdir).status().unwrap().success());
    assert!(error.is_full(), "{text}");
    assert!(text.contains("No space left on device"), "{text}");
    assert!(left.is_empty(), "{left:?}");
}

pub(super) fn list_all(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in crate::sandbox::list(folder) {
        if path.is_dir() {
            found.extend(list_all(&path));
        }
        found.push(path);
    }
    found
}
