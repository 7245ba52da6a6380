// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Transfers in one process, over connections that break where chance will have
//! it: the file arrives as it was, or an error says that it did not.

#![allow(clippy::expect_used)]

mod pipe;

use pipe::{Fate, Hub};
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use weftctl::failure::{Failure, Kind};
use weftctl::ping;
use weftctl::transfer::folder::Folder;
use weftctl::transfer::message::{Code, Id, Message, Offer};
use weftctl::transfer::receiver::{Outcome, Receiver, Settings};
use weftctl::transfer::sender::{Sender, Source};
use weftctl::transfer::{Patience, Report, Want, Wire};

fn patience(timeout: Duration) -> Patience {
    Patience { timeout, pause: Duration::ZERO, longest: Duration::ZERO, at_first: true }
}

/// Long: nothing here should take it.
const LONG: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings { timeout: LONG, progress_bytes: 2000, ..Settings::default() }
}

struct Dirs {
    _temporary: tempfile::TempDir,
    from: PathBuf,
    to: PathBuf,
}

fn dirs() -> Dirs {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let (from, to) = (temporary.path().join("from"), temporary.path().join("to"));
    std::fs::create_dir(&from).expect("mkdir");
    std::fs::create_dir(&to).expect("mkdir");
    Dirs { _temporary: temporary, from, to }
}

fn content(size: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[3]
    };
    (0..size).map(|_| next()).collect()
}

/// Serves until `hub` is closed; returns what came of the connections.
fn receive(hub: &Hub, mut receiver: Receiver) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while let Some(mut wire) = hub.accept() {
        outcomes.push(receiver.serve(&mut wire, &mut |_, _| {}).outcome);
    }
    outcomes
}

/// One file from one directory to another.
fn transfer(
    file: &Path,
    to: &Path,
    fates: Vec<Fate>,
    chunk: usize,
) -> (Result<Report, Failure>, Vec<Outcome>) {
    let hub = Hub::new(fates);
    let receiver = Receiver::new(Folder::open(to, false).expect("folder"), settings());
    thread::scope(|scope| {
        let served = scope.spawn(|| receive(&hub, receiver));
        let mut watcher = |_, _| {};
        let source = Source::open(file).expect("source");
        let sender = Sender::new(source, Id([7; 16]), patience(LONG), &mut watcher).chunk(chunk);
        let sent = sender.run(&mut hub.connector());
        hub.close();
        (sent, served.join().expect("receiver"))
    })
}

fn files(dir: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("list");
    entries.map(|e| e.expect("entry").file_name().as_bytes().to_vec()).collect()
}

fn arrivals(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|o| matches!(o, Outcome::Arrived(_))).count()
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = (1usize..120, 1usize..12, 0usize..40, any::<bool>()).prop_map(
        |(after, capacity, lost, to_sender)| Fate {
            after: Some(after),
            capacity,
            lost,
            count_to_sender: to_sender,
            ..Fate::default()
        },
    );
    proptest::collection::vec(fate, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_transfer_survives_any_breaks(
        size in prop_oneof![0usize..3, 0usize..60_000, Just(65536usize), Just(65537)],
        chunk in 200usize..5000,
        seed: u64,
        fates in fates(),
    ) {
        let dirs = dirs();
        let file = dirs.from.join("a file");
        let content = content(size, seed);
        std::fs::write(&file, &content).expect("write");
        let (sent, outcomes) = transfer(&file, &dirs.to, fates, chunk);
        let report = sent.expect("a transfer whose last connection holds");
        prop_assert_eq!(report.bytes, size as u64);
        prop_assert_eq!(report.here, report.there);
        prop_assert_eq!(std::fs::read(dirs.to.join("a file")).expect("read"), content);
        prop_assert_eq!(files(&dirs.to).len(), 1);
        prop_assert_eq!(arrivals(&outcomes), 1);
    }

    #[test]
    fn damage_on_the_way_is_found(
        size in 1usize..20_000,
        chunk in 200usize..5000,
        seed: u64,
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let dirs = dirs();
        let file = dirs.from.join("f");
        std::fs::write(&file, content(size, seed)).expect("write");
        let fate = Fate { damage: Some((at.index(size), 1 << bit)), ..Fate::default() };
        let (sent, outcomes) = transfer(&file, &dirs.to, vec![fate], chunk);
        prop_assert_eq!(sent.expect_err("damage").kind, Kind::Integrity);
        prop_assert!(matches!(outcomes.as_slice(), [Outcome::Mismatch(_)]), "{:?}", outcomes);
        prop_assert!(files(&dirs.to).is_empty());
    }

    #[test]
    fn a_hostile_sender_gets_nothing_but_its_file_in(
        names in proptest::collection::vec(name(), 1..3),
        script in proptest::collection::vec(hostile_message(), 0..20),
        size in 0u64..6,
    ) {
        let dirs = dirs();
        std::fs::write(dirs.to.join("mine"), "mine").expect("write");
        let hub = Hub::new(vec![]);
        let folder = Folder::open(&dirs.to, false).expect("folder");
        let receiver = Receiver::new(folder, settings());
        thread::scope(|scope| {
            let served = scope.spawn(|| receive(&hub, receiver));
            for name in &names {
                let mut wire = hub.connect();
                let offer = Offer { id: Id([1; 16]), size, name: name.clone() };
                let (tag, payload) = Message::Offer(offer).encode();
                let mut all = vec![(tag, payload.into_owned())];
                all.extend(script.iter().cloned());
                for (tag, payload) in all {
                    if !matches!(wire.try_send(tag, &payload), Ok(true)) {
                        break;
                    }
                }
            }
            hub.close();
            served.join().expect("receiver");
        });
        let allowed = |f: &[u8]| f == b"mine" || names.iter().any(|n| n == f);
        let found = files(&dirs.to);
        prop_assert!(found.iter().all(|f| allowed(f)), "{:?}", found);
        prop_assert_eq!(std::fs::read(dirs.to.join("mine")).expect("read"), b"mine");
        prop_assert_eq!(files(dirs.to.parent().expect("parent")).len(), 2);
        prop_assert!(files(&dirs.from).is_empty());
    }

    #[test]
    fn a_hostile_receiver_gets_an_error(script in proptest::collection::vec(hostile_message(), 0..20)) {
        let dirs = dirs();
        let file = dirs.from.join("f");
        std::fs::write(&file, content(3000, 1)).expect("write");
        let hub = Hub::new(vec![]);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut wire = hub.accept().expect("the sender's connection");
                for (tag, payload) in &script {
                    if !matches!(wire.try_send(*tag, payload), Ok(true)) {
                        break;
                    }
                }
                hub.refuse_from_now_on(false);
            });
            let mut watcher = |_, _| {};
            let source = Source::open(&file).expect("source");
            let sender = Sender::new(source, Id([7; 16]), patience(LONG), &mut watcher);
            let sent = sender.chunk(500).run(&mut hub.connector());
            prop_assert!(sent.is_err());
            Ok(())
        })?;
    }
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known: [&[u8]; 9] =
        [b"", b"..", b".", b"../from/f", b"/tmp/f", b"mine", b"a\0b", b"ok", b".x.weft-part"];
    prop_oneof![
        prop::sample::select(known.map(<[u8]>::to_vec).to_vec()),
        proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

/// Kinds that exist, numbers and lengths that nearly fit.
fn hostile_message() -> impl Strategy<Value = (u64, Vec<u8>)> {
    let number = prop_oneof![0u64..8, any::<u64>().prop_map(|n| n >> 8)];
    let payload = prop_oneof![
        Just(vec![]),
        proptest::collection::vec(any::<u8>(), 1..6),
        Just(vec![0x5a; 32]),
    ];
    (0u64..10, number, payload).prop_map(|(kind, number, payload)| ((number << 8) | kind, payload))
}

#[test]
fn a_verdict_that_was_lost_is_repeated() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, "content").expect("write");
    // To the sender go: the answer, the verdict.
    let fate = Fate { after: Some(2), count_to_sender: true, lost: 1, ..Fate::default() };
    let (sent, outcomes) = transfer(&file, &dirs.to, vec![fate], 100);
    assert_eq!(sent.expect("sent").resumed, 1);
    assert!(
        matches!(outcomes.as_slice(), [Outcome::Arrived(_), Outcome::Confirmed]),
        "{outcomes:?}"
    );
}

/// What came last before a break may have a hole in it, which was not known yet when it was read.
#[test]
fn what_arrives_with_a_hole_after_a_break_comes_once_more() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    let content = content(100_000, 3);
    std::fs::write(&file, &content).expect("write");
    let hole = Fate { after: Some(60), damage: Some((40_000, 1)), ..Fate::default() };
    let (sent, outcomes) = transfer(&file, &dirs.to, vec![hole], 1000);
    assert_eq!(sent.expect("sent").resumed, 2);
    assert!(
        matches!(
            outcomes.as_slice(),
            [Outcome::Interrupted(_), Outcome::Interrupted(_), Outcome::Arrived(_)]
        ),
        "{outcomes:?}"
    );
    assert_eq!(std::fs::read(dirs.to.join("f")).expect("read"), content);
    // With nothing that broke since, it would not help to do that again.
    let file = dirs.from.join("g");
    std::fs::write(&file, &content).expect("write");
    let breaks = Fate { after: Some(10), ..Fate::default() };
    let spoils = Fate { damage: Some((40_000, 1)), ..Fate::default() };
    let fates = vec![breaks, spoils.clone(), spoils];
    let (sent, outcomes) = transfer(&file, &dirs.to, fates, 1000);
    assert_eq!(sent.expect_err("damage").kind, Kind::Integrity);
    assert!(matches!(outcomes.last(), Some(Outcome::Mismatch(_))), "{outcomes:?}");
}

#[test]
fn what_was_confirmed_is_not_sent_again() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, content(100_000, 3)).expect("write");
    let fate = Fate { after: Some(60), ..Fate::default() };
    let hub = Hub::new(vec![fate]);
    let receiver = Receiver::new(Folder::open(&dirs.to, false).expect("folder"), settings());
    thread::scope(|scope| {
        scope.spawn(|| receive(&hub, receiver));
        let mut watcher = |_, _| {};
        let source = Source::open(&file).expect("source");
        let sender = Sender::new(source, Id([7; 16]), patience(LONG), &mut watcher).chunk(1000);
        let report = sender.run(&mut hub.connector()).expect("sent");
        hub.close();
        assert_eq!(report.resumed, 1);
    });
    // Two offers, two ends at most, 100 pieces: none of those that had come again.
    assert_eq!(hub.messages_to_receiver(), 2 + 1 + 100);
}

#[test]
fn what_exists_is_refused_and_kept() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, "new").expect("write");
    std::fs::write(dirs.to.join("f"), "old").expect("write");
    let (sent, outcomes) = transfer(&file, &dirs.to, vec![], 100);
    let failure = sent.expect_err("refused");
    assert_eq!(failure.kind, Kind::Failed);
    assert!(failure.to_string().contains("exists there already"), "{failure}");
    assert!(failure.to_string().contains("--force"), "{failure}");
    assert!(matches!(outcomes.as_slice(), [Outcome::Dropped(_)]), "{outcomes:?}");
    assert_eq!(std::fs::read_to_string(dirs.to.join("f")).expect("read"), "old");
}

#[test]
fn a_source_that_changes_is_found_out() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |file| std::fs::write(file, content(5000, 9)).expect("write"),
        |file| std::fs::write(file, content(20_000, 9)).expect("write"),
        |file| {
            let other = std::fs::OpenOptions::new().write(true).open(file).expect("open");
            std::os::unix::fs::FileExt::write_all_at(&other, b"x", 17).expect("write");
        },
    ];
    for change in changes {
        let dirs = dirs();
        let file = dirs.from.join("f");
        std::fs::write(&file, content(10_000, 1)).expect("write");
        let hub = Hub::new(vec![]);
        let receiver = Receiver::new(Folder::open(&dirs.to, false).expect("folder"), settings());
        thread::scope(|scope| {
            let served = scope.spawn(|| receive(&hub, receiver));
            // The clock of a file system may be coarse.
            let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
            std::fs::File::options()
                .write(true)
                .open(&file)
                .and_then(|f| f.set_modified(old))
                .expect("mtime");
            let source = Source::open(&file).expect("source");
            let mut changed = false;
            let mut watcher = |_, _| {
                if !changed {
                    changed = true;
                    change(&file);
                }
            };
            let sender = Sender::new(source, Id([7; 16]), patience(LONG), &mut watcher).chunk(1000);
            let failure = sender.run(&mut hub.connector()).expect_err("changed");
            assert_eq!(failure.kind, Kind::Integrity, "{failure}");
            hub.close();
            let outcomes = served.join().expect("receiver");
            assert!(matches!(outcomes.as_slice(), [Outcome::Dropped(_)]), "{outcomes:?}");
        });
        assert!(files(&dirs.to).is_empty());
    }
}

#[test]
fn a_silent_receiver_is_given_up() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, "content").expect("write");
    let hub = Hub::new(vec![]);
    let mut watcher = |_, _| {};
    let source = Source::open(&file).expect("source");
    let soon = patience(Duration::from_millis(50));
    let failure = Sender::new(source, Id([7; 16]), soon, &mut watcher)
        .run(&mut hub.connector())
        .expect_err("silence");
    assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
}

#[test]
fn a_receiver_that_stays_away_is_given_up() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, "content").expect("write");
    for at_first in [false, true] {
        let hub = Hub::new(vec![]);
        hub.refuse_from_now_on(true);
        let mut watcher = |_, _| {};
        let source = Source::open(&file).expect("source");
        // No pause is as long as this: the second attempt is one that the end of the time cuts short.
        let soon = Patience { at_first, longest: LONG, ..patience(Duration::from_millis(50)) };
        let start = Instant::now();
        let failure = Sender::new(source, Id([7; 16]), soon, &mut watcher)
            .run(&mut hub.connector())
            .expect_err("no listener");
        assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
        assert_eq!(failure.message, "no program listens");
        assert_eq!(hub.attempts(), if at_first { 2 } else { 1 });
        assert!(!at_first || start.elapsed() >= Duration::from_millis(50));
    }
}

#[test]
fn a_transfer_that_is_abandoned_leaves_nothing() {
    let dirs = dirs();
    let hub = Hub::new(vec![]);
    let folder = Folder::open(&dirs.to, false).expect("folder");
    let mut receiver = Receiver::new(folder, settings());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = hub.connect();
            let offer = Offer { id: Id([1; 16]), size: 10, name: b"f".to_vec() };
            let (tag, payload) = Message::Offer(offer).encode();
            assert!(wire.try_send(tag, &payload).expect("sent"));
            let mut answer = Vec::new();
            wire.wait(Want::Message, Instant::now() + LONG).expect("wait");
            assert!(wire.try_receive(&mut answer).expect("answer").is_some());
        });
        let mut wire = hub.accept().expect("connection");
        let served = receiver.serve(&mut wire, &mut |_, _| {});
        assert!(matches!(served.outcome, Outcome::Interrupted(_)), "{served:?}");
    });
    assert_eq!(files(&dirs.to).len(), 1);
    assert!(receiver.expire(Instant::now()).is_empty());
    let expiry = receiver.expiry().expect("an expiry");
    assert_eq!(receiver.expire(expiry).len(), 1);
    assert!(receiver.expiry().is_none());
    assert!(files(&dirs.to).is_empty());
}

#[test]
fn a_receiver_that_closes_takes_nothing_new() {
    let dirs = dirs();
    let file = dirs.from.join("f");
    std::fs::write(&file, "content").expect("write");
    let hub = Hub::new(vec![]);
    let mut receiver = Receiver::new(Folder::open(&dirs.to, false).expect("folder"), settings());
    receiver.close();
    thread::scope(|scope| {
        scope.spawn(|| receive(&hub, receiver));
        let mut watcher = |_, _| {};
        let source = Source::open(&file).expect("source");
        let failure = Sender::new(source, Id([7; 16]), patience(LONG), &mut watcher)
            .run(&mut hub.connector())
            .expect_err("refused");
        assert!(failure.to_string().contains("no more files"), "{failure}");
        hub.close();
    });
    assert!(files(&dirs.to).is_empty());
}

#[test]
fn offers_that_cannot_be_taken_say_why() {
    let cases: [(&[u8], u64, Code); 4] = [
        (b"../f", 1, Code::Name),
        (b"", 1, Code::Name),
        (b"f", u64::MAX, Code::Room),
        (b"f", (1 << 56) - 1, Code::Room),
    ];
    for (name, size, want) in cases {
        let dirs = dirs();
        let hub = Hub::new(vec![]);
        let receiver = Receiver::new(Folder::open(&dirs.to, false).expect("folder"), settings());
        thread::scope(|scope| {
            scope.spawn(|| receive(&hub, receiver));
            let mut wire = hub.connect();
            let offer = Offer { id: Id([1; 16]), size, name: name.to_vec() };
            let (tag, payload) = Message::Offer(offer).encode();
            assert!(wire.try_send(tag, &payload).expect("sent"));
            wire.wait(Want::Message, Instant::now() + LONG).expect("wait");
            let mut answer = Vec::new();
            let tag = wire.try_receive(&mut answer).expect("receive").expect("an answer");
            match Message::decode(tag, &answer) {
                Ok(Message::Refused(code, text)) => {
                    assert_eq!(code, want);
                    assert!(!text.is_empty());
                }
                other => panic!("{other:?}"),
            }
            drop(wire);
            hub.close();
        });
        assert!(files(&dirs.to).is_empty());
    }
}

#[test]
fn messages_come_back_as_they_were() {
    let hub = Hub::new(vec![]);
    thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut wire = hub.accept().expect("connection");
            ping::serve(&mut wire, LONG)
        });
        let mut wire = hub.connect();
        let mut echo = Vec::new();
        for (tag, size) in [(1, 0), (2, 32), (3, 65536)] {
            let payload = content(size, tag);
            ping::round_trip(&mut wire, tag, &payload, &mut echo, LONG).expect("echo");
        }
        drop(wire);
        assert_eq!(served.join().expect("server").expect("closed"), 3);
    });
}

#[test]
fn a_message_that_comes_back_changed_is_found() {
    let hub = Hub::new(vec![]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = hub.accept().expect("connection");
            let mut payload = Vec::new();
            wire.wait(Want::Message, Instant::now() + LONG).expect("wait");
            let tag = wire.try_receive(&mut payload).expect("received").expect("a message");
            payload[5] ^= 1;
            assert!(wire.try_send(tag, &payload).expect("sent"));
        });
        let mut wire = hub.connect();
        let failure = ping::round_trip(&mut wire, 1, &[0; 32], &mut Vec::new(), LONG);
        assert_eq!(failure.expect_err("changed").kind, Kind::Integrity);
    });
}
