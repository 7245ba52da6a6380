// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What waits for counters, against work that says when it begins.

use super::*;
use crate::tally::{Counting, Hold, Tally, Values};
use crate::wait::{Until, Wait};
use std::sync::mpsc::{Receiver, Sender, channel};

const HERE: Place = Place { endpoint: 1, receives: false };
const ELSEWHERE: Place = Place { endpoint: 2, receives: false };

/// What has become of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Begun(usize),
    Failed(usize, c_int),
    /// Its end was counted, and whether it had failed.
    Over(usize, bool),
}
use Said::{Begun, Failed, Over};

#[derive(Debug)]
struct Task {
    name: usize,
    place: Place,
    /// What it says when it is to begin, the last one first; then it does.
    answers: Mutex<Vec<c_int>>,
    says: Mutex<Sender<Said>>,
}

impl Work for Task {
    fn begin(&self) -> Result<(), c_int> {
        match lock(&self.answers).pop() {
            Some(error) => Err(error),
            None => {
                lock(&self.says).send(Begun(self.name)).expect("the test listens");
                Ok(())
            }
        }
    }

    fn fail(&self, error: c_int) {
        lock(&self.says).send(Failed(self.name, error)).expect("the test listens");
    }

    fn place(&self) -> Option<Place> {
        Some(self.place)
    }
}

/// Work that does something when it begins.
struct Doing<F>(F);

impl<F> Debug for Doing<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doing")
    }
}

impl<F: Fn() + Send + Sync> Work for Doing<F> {
    fn begin(&self) -> Result<(), c_int> {
        (self.0)();
        Ok(())
    }

    fn fail(&self, _: c_int) {}

    fn place(&self) -> Option<Place> {
        Some(HERE)
    }
}

/// A domain without ports.
struct Bench {
    deferred: Arc<Deferred>,
    attendant: Arc<Attendant>,
    says: Sender<Said>,
    said: Receiver<Said>,
}

impl Bench {
    fn new() -> Self {
        let attendant = Arc::new(Attendant::default());
        let (says, said) = channel();
        Bench { deferred: Deferred::new(attendant.clone()), attendant, says, said }
    }

    fn tally(&self) -> Arc<Tally> {
        Arc::new(Tally::new(None, self.deferred.clone()))
    }

    fn task(&self, name: usize, place: Place, answers: &[c_int]) -> Arc<dyn Work> {
        let (answers, says) = (Mutex::new(answers.to_vec()), Mutex::new(self.says.clone()));
        Arc::new(Task { name, place, answers, says })
    }

    /// Something that is to wait, by the name of its task.
    fn waiting(&self, kind: Kind, threshold: u64, work: Arc<dyn Work>, key: usize) -> Waiting {
        let number = self.deferred.number();
        Waiting { number, kind, key, threshold, work, completion: None }
    }

    /// Work whose end a counter counts.
    fn counted(&self, tally: &Arc<Tally>, threshold: u64, work: Arc<dyn Work>) -> Waiting {
        let hold = Hold::new(tally);
        let completion: Completion = Box::new(move |failed| hold.count(failed));
        let waiting = self.waiting(Kind::Deferred, threshold, work, 1);
        Waiting { completion: Some(completion), ..waiting }
    }

    fn add(&self, tally: &Tally, kind: Kind, threshold: u64, name: usize) {
        let task = self.task(name, HERE, &[]);
        tally.defer(self.waiting(kind, threshold, task, name)).expect("there is room");
    }

    /// What was said; what is to begin has begun.
    fn heard(&self) -> Vec<Said> {
        self.deferred.run();
        self.said.try_iter().collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.attendant.end();
        assert!(lock(&self.deferred.inside).entries.is_empty(), "something waits still");
    }
}

/// Waits until something is said, by the thread too.
fn next(bench: &Bench) -> Said {
    bench.said.recv().expect("the bench is there")
}

#[test]
fn work_begins_by_threshold_and_then_in_its_order() {
    let bench = Bench::new();
    let tally = bench.tally();
    for (name, threshold) in [(1, 3), (2, 1), (3, 2), (4, 1), (5, 9)] {
        bench.add(&tally, Kind::Triggered, threshold, name);
    }
    assert_eq!(bench.heard(), []);
    tally.set(|values| values.value += 1);
    assert_eq!([next(&bench), next(&bench)], [Begun(2), Begun(4)]);
    // It is set past some.
    tally.set(|values| values.value = 7);
    assert_eq!([next(&bench), next(&bench)], [Begun(3), Begun(1)]);
    tally.set(|values| values.value = 0);
    bench.add(&tally, Kind::Triggered, 0, 6);
    assert_eq!(next(&bench), Begun(6), "its threshold is reached");
    assert_eq!(bench.heard(), []);
    tally.set(|values| values.value = 10);
    assert_eq!(next(&bench), Begun(5));
}

#[test]
fn failures_count_for_deferred_work_alone() {
    let bench = Bench::new();
    let tally = bench.tally();
    bench.add(&tally, Kind::Triggered, 2, 1);
    bench.add(&tally, Kind::Deferred, 2, 2);
    tally.count(false);
    tally.count(true);
    assert_eq!(next(&bench), Begun(2));
    assert_eq!(bench.heard(), []);
    tally.count(false);
    assert_eq!(next(&bench), Begun(1));
}

#[test]
fn work_is_taken_back_by_what_the_program_has_given() {
    let bench = Bench::new();
    let (tally, other) = (bench.tally(), bench.tally());
    for name in [1, 2, 2, 3] {
        bench.add(&tally, Kind::Deferred, 1, name);
    }
    bench.add(&other, Kind::Deferred, 1, 4);
    bench.add(&other, Kind::Triggered, 1, 5);
    assert_eq!(bench.deferred.cancel(2), Ok(()));
    assert_eq!(bench.deferred.cancel(9), Err(FI_ENOENT));
    // That is for what waits in the domain.
    assert_eq!(bench.deferred.cancel(5), Err(FI_ENOENT));
    tally.count(false);
    assert_eq!([next(&bench), next(&bench), next(&bench)], [Begun(1), Begun(2), Begun(3)]);
    assert_eq!(bench.deferred.cancel(1), Err(FI_ENOENT), "it has begun");
    bench.add(&tally, Kind::Deferred, 2, 6);
    tally.flush();
    bench.add(&tally, Kind::Deferred, 2, 7);
    bench.deferred.flush(None);
    tally.count(false);
    other.count(false);
    // An operation of an endpoint is none of the domain's.
    assert_eq!(next(&bench), Begun(5));
    assert_eq!(bench.heard(), []);
}

#[test]
fn an_operation_of_an_endpoint_is_taken_back_and_told_of() {
    let bench = Bench::new();
    let tally = bench.tally();
    bench.add(&tally, Kind::Triggered, 1, 1);
    bench.add(&tally, Kind::Deferred, 1, 2);
    assert_eq!(bench.deferred.cancel_triggered(ELSEWHERE.endpoint, 1), Err(FI_ENOENT));
    assert_eq!(bench.deferred.cancel_triggered(HERE.endpoint, 2), Err(FI_ENOENT));
    assert_eq!(bench.deferred.cancel_triggered(HERE.endpoint, 1), Ok(()));
    assert_eq!(bench.heard(), [Failed(1, FI_ECANCELED)]);
    tally.count(false);
    assert_eq!(next(&bench), Begun(2));
}

#[test]
fn what_finds_no_room_is_tried_again_and_holds_up_none_elsewhere() {
    let bench = Bench::new();
    let tally = bench.tally();
    let full = bench.task(1, HERE, &[FI_EAGAIN; 3]);
    tally.defer(bench.waiting(Kind::Triggered, 1, full, 1)).expect("there is room");
    bench.add(&tally, Kind::Triggered, 1, 2);
    let other = bench.task(3, ELSEWHERE, &[]);
    tally.defer(bench.waiting(Kind::Triggered, 1, other, 3)).expect("there is room");
    let receives = bench.task(4, Place { receives: true, ..HERE }, &[]);
    tally.defer(bench.waiting(Kind::Triggered, 1, receives, 4)).expect("there is room");
    tally.count(false);
    let said = [0; 4].map(|_| next(&bench));
    // At one place it stays in order.
    assert_eq!(said.iter().filter(|said| **said == Begun(3)).count(), 1);
    let at = |name| said.iter().position(|said| *said == Begun(name));
    assert!(at(1) < at(2) && at(4) < at(2), "{said:?}");
}

#[test]
fn the_end_of_work_is_counted_whether_it_has_begun_or_not() {
    let bench = Bench::new();
    let (tally, counted) = (bench.tally(), bench.tally());
    let add = |name, answers: &[c_int]| {
        let task = bench.task(name, HERE, answers);
        let hold = Hold::new(&counted);
        let says = bench.says.clone();
        let completion = move |failed| {
            hold.count(failed);
            says.send(Over(name, failed)).expect("the test listens");
        };
        let waiting = bench.waiting(Kind::Deferred, 1, task, name);
        let (number, completion) = (waiting.number, Some(Box::new(completion) as Completion));
        tally.defer(Waiting { completion, ..waiting }).expect("there is room");
        number
    };
    let (first, second) = (add(1, &[]), add(2, &[]));
    assert!(!counted.close(), "it is to be counted by it");
    tally.count(false);
    assert_eq!([next(&bench), next(&bench)], [Begun(1), Begun(2)]);
    assert!(!counted.close());
    bench.deferred.over(second, true);
    bench.deferred.over(first, false);
    bench.deferred.over(first, false);
    assert_eq!([next(&bench), next(&bench)], [Over(2, true), Over(1, false)]);
    assert_eq!(counted.values(), Values { value: 1, errors: 1 });
    // An endpoint tells of one that is not begun as of one that has failed.
    let third = add(3, &[FI_ENODEV]);
    assert_eq!(next(&bench), Failed(3, FI_ENODEV));
    bench.deferred.over(third, true);
    // One that is taken back is not counted.
    tally.set(|values| values.value = 0);
    add(4, &[]);
    bench.deferred.flush(None);
    assert_eq!(counted.values().value, 1);
    assert!(counted.close());
}

#[test]
fn work_may_be_over_before_it_is_known_to_have_begun() {
    let bench = Bench::new();
    let (tally, counted) = (bench.tally(), bench.tally());
    let number = bench.deferred.number();
    let deferred = bench.deferred.clone();
    let work = Arc::new(Doing(move || deferred.over(number, false)));
    let waiting = Waiting { number, ..bench.counted(&counted, 0, work) };
    tally.defer(waiting).expect("there is room");
    // It is begun by this thread or by the other.
    while counted.values().value == 0 || lock(&bench.deferred.inside).running {
        std::thread::yield_now();
    }
    assert!(!bench.deferred.holds() && counted.close());
}

#[test]
fn counters_are_changed_one_by_the_other() {
    let bench = Bench::new();
    let (first, last) = (bench.tally(), bench.tally());
    let add = |tally: &Tally, threshold, target, value, adds| {
        let work = Arc::new(Counting::new(target, value, adds));
        tally.defer(bench.waiting(Kind::Deferred, threshold, work, 1)).expect("there is room");
    };
    add(&first, 1, &last, 5, false);
    add(&first, 1, &last, 5, true);
    add(&last, 10, &first, 100, true);
    bench.add(&first, Kind::Deferred, 100, 1);
    first.count(false);
    assert_eq!(next(&bench), Begun(1));
    assert_eq!((first.values().value, last.values().value), (101, 10));
}

#[test]
fn a_counter_that_is_closed_gives_back_what_waits_for_it() {
    let bench = Bench::new();
    let tally = bench.tally();
    bench.add(&tally, Kind::Triggered, 1, 1);
    bench.add(&tally, Kind::Deferred, 1, 2);
    assert!(tally.close());
    assert_eq!(bench.heard(), [Failed(1, FI_ECANCELED)]);
    tally.count(false);
    assert_eq!(bench.heard(), []);
    // Its slot is another's, which has counted nothing.
    let other = bench.tally();
    bench.add(&other, Kind::Triggered, 1, 3);
    assert_eq!(bench.heard(), []);
    other.count(false);
    assert_eq!(next(&bench), Begun(3));
}

#[test]
fn an_endpoint_that_is_closed_begins_nothing_any_more() {
    let bench = Bench::new();
    let (tally, counted) = (bench.tally(), bench.tally());
    bench.add(&tally, Kind::Triggered, 1, 1);
    let full = bench.task(2, HERE, &[FI_EAGAIN; 1 << 16]);
    tally.defer(bench.counted(&counted, 0, full)).expect("there is room");
    let other = bench.task(3, ELSEWHERE, &[]);
    tally.defer(bench.waiting(Kind::Triggered, 1, other, 3)).expect("there is room");
    bench.deferred.forget(HERE.endpoint);
    assert!(counted.close(), "nothing is counted by it any more");
    tally.count(false);
    assert_eq!(next(&bench), Begun(3));
    assert_eq!(bench.heard(), []);
}

#[test]
fn an_endpoint_is_not_closed_while_something_begins_there() {
    let bench = Bench::new();
    let tally = bench.tally();
    let ((begins, begun), (go, gone)) = (channel(), channel());
    let done = Arc::new(AtomicUsize::new(0));
    let (ends, begins, gone) = (done.clone(), Mutex::new(begins), Mutex::new(gone));
    let work = Arc::new(Doing(move || {
        lock(&begins).send(()).expect("the test listens");
        lock(&gone).recv().expect("the test says so");
        ends.store(1, Ordering::SeqCst);
    }));
    let waiting = bench.waiting(Kind::Triggered, 1, work, 1);
    tally.defer(waiting).expect("there is room");
    // By the thread.
    tally.count(false);
    begun.recv().expect("it begins");
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            bench.deferred.forget(HERE.endpoint);
            done.load(Ordering::SeqCst)
        });
        go.send(()).expect("it waits");
        assert_eq!(closing.join().expect("it has not failed"), 1);
    });
    assert_eq!(Arc::strong_count(&done), 1, "and it is forgotten");
}

#[test]
fn a_program_that_does_nothing_has_what_is_due_begun() {
    let bench = Bench::new();
    let wait = Wait::new().expect("there are descriptors");
    let woken = Arc::new(Tally::new(Some(wait), bench.deferred.clone()));
    let tally = bench.tally();
    let work = Arc::new(Counting::new(&woken, 1, true));
    tally.defer(bench.waiting(Kind::Deferred, 1, work, 1)).expect("there is room");
    let wait = woken.wait().expect("it has one");
    assert!(woken.enter_sleep(wait, |values| values.value > 0));
    // As an endpoint does, with its lock.
    tally.count(false);
    assert!(wait.sleep(Until::milliseconds(-1)));
    woken.leave_sleep();
    assert_eq!(woken.values().value, 1);
}

#[test]
fn there_is_room_for_so_many() {
    let bench = Bench::new();
    let tally = bench.tally();
    for _ in 0..MOST {
        bench.add(&tally, Kind::Deferred, 1, 7);
    }
    let counted = bench.tally();
    let task = bench.task(1, HERE, &[]);
    assert_eq!(tally.defer(bench.counted(&counted, 1, task)), Err(FI_EAGAIN));
    assert!(counted.close());
    bench.deferred.flush(None);
    let tallies: Vec<_> = (0..SLOTS).map(|_| bench.tally()).collect();
    for other in &tallies[1..] {
        bench.add(other, Kind::Deferred, 1, 1);
    }
    let task = bench.task(1, HERE, &[]);
    let waiting = bench.waiting(Kind::Deferred, 1, task, 1);
    assert_eq!(tallies[0].defer(waiting), Err(FI_EAGAIN));
    assert!(tally.close());
    bench.add(&tallies[0], Kind::Deferred, 1, 1);
    bench.deferred.flush(None);
}
