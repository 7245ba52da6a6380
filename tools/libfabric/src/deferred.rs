// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What waits until a counter has come so far: operations with FI_TRIGGER, and the deferred work of a domain.
//!
//! Which of it is due is found by `weft_proto::matching::counter`, the driver's own code, which knows an operation by a
//! number. A counter that something has ever waited for has a slot there. Operations with FI_TRIGGER wait for successes,
//! deferred work for all that has ended, failures too: as fi_trigger(3) says.
//!
//! What is due begins in its order, by whatever thread comes along, and by none that has a lock: a counter counts while
//! the lock of an endpoint is held. What finds no room is tried again, and does not hold up what is elsewhere.

use crate::attendant::Attendant;
use crate::base::lock;
use crate::fi::*;
use crate::progress::Progress;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::fmt::{self, Debug};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weft_proto::matching::counter::{Counter, Counters, Of, Trigger};

/// Counters that something can wait for.
const SLOTS: usize = 1024;
/// What can wait in a domain.
const MOST: usize = 4096;

/// Where an operation is to begin: an endpoint, and whether it receives there. What is to begin at one place begins in
/// its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub endpoint: usize,
    pub receives: bool,
}

/// An operation that is to begin.
pub trait Work: Debug + Send + Sync {
    /// Begins it. FI_EAGAIN: there is no room now.
    fn begin(&self) -> Result<(), c_int>;
    /// Tells of it as one that has failed: it is not begun.
    fn fail(&self, error: c_int);
    /// `None`: it is at no endpoint, and finds room at once.
    fn place(&self) -> Option<Place>;
}

/// Called with whether it has failed when work is over; dropped if the work is taken back.
pub type Completion = Box<dyn FnOnce(bool) + Send>;

/// What an operation is to its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation of an endpoint, with FI_TRIGGER: the program is told when it is taken back.
    Triggered,
    /// Work of the domain.
    Deferred,
}

/// What waits for a counter.
pub struct Waiting {
    pub number: u64,
    pub kind: Kind,
    /// The address of the structure that the program has given.
    pub key: usize,
    pub threshold: u64,
    pub work: Arc<dyn Work>,
    pub completion: Option<Completion>,
}

/// How a counter has changed: successes, and failures.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// So many more.
    Counting(u64, u64),
    /// So many.
    Setting(u64, u64),
}

/// What was taken out, and is dropped without a lock.
type Taken = Vec<Entry>;

struct Entry {
    kind: Kind,
    key: usize,
    /// The slot of the counter that it waits for; `None`: it is due, or has begun.
    slot: Option<u32>,
    place: Option<Place>,
    /// `None`: it has begun.
    work: Option<Arc<dyn Work>>,
    completion: Option<Completion>,
}

impl Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("kind", &self.kind).field("work", &self.work).finish()
    }
}

#[derive(Default)]
struct Inside {
    /// Made when something waits for the first time.
    counters: Option<Counters<Vec<Counter>, Vec<Trigger>>>,
    slots: usize,
    free: Vec<u32>,
    /// By number: so in the order in which the program has given them.
    entries: BTreeMap<u64, Entry>,
    due: VecDeque<u64>,
    /// A thread begins what is due.
    running: bool,
    /// What it begins now.
    current: Option<(u64, Option<Place>)>,
}

/// What waits in a domain.
#[derive(Default)]
pub struct Deferred {
    inside: Mutex<Inside>,
    /// Something that was being begun is.
    begun: Condvar,
    numbers: AtomicU64,
    /// How many are due: looked at without the lock.
    due: AtomicUsize,
    attendant: Arc<Attendant>,
}

impl Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("entries", &lock(&self.inside).entries).finish()
    }
}

impl Inside {
    /// A slot that no counter has.
    fn slot(&mut self) -> Option<u32> {
        let fresh = (self.slots < SLOTS).then_some(self.slots as u32);
        self.free.pop().or_else(|| fresh.inspect(|_| self.slots += 1))
    }

    /// Moves what is due to its queue, of a slot; whether there was anything.
    fn collect(&mut self, slot: u32) -> bool {
        let before = self.due.len();
        while let Some(number) = self.counters.as_mut().and_then(|all| all.due(slot)) {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.slot = None;
            }
            self.due.push_back(number);
        }
        self.due.len() > before
    }

    /// Takes out all that have not begun, and `is` what is meant, up to `most`.
    fn take(&mut self, most: usize, is: impl Fn(&Entry) -> bool) -> Taken {
        let current = self.current.map(|(number, _)| number);
        let meant = |(number, entry): &(&u64, &Entry)| {
            entry.work.is_some() && Some(**number) != current && is(entry)
        };
        let all = self.entries.iter().filter(meant).take(most).map(|(number, _)| *number);
        let numbers: Vec<u64> = all.collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        match entry.slot {
            Some(slot) => {
                self.counters.as_mut().map(|all| all.withdraw(slot, number));
            }
            None => self.due.retain(|other| *other != number),
        }
        Some(entry)
    }
}

impl Deferred {
    /// That of a domain, with a thread of its own.
    pub fn new(attendant: Arc<Attendant>) -> Arc<Self> {
        let deferred = Arc::new(Deferred { attendant, ..Deferred::default() });
        let member: Arc<dyn Progress> = deferred.clone();
        // There is no descriptor to be watched.
        let _ = deferred.attendant.add(&member);
        deferred
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }

    /// A number for something that is to wait.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Has something wait, for a counter with this slot, or a new one, that has counted so many successes and failures.
    /// Returns the slot. FI_EAGAIN: too much waits already; it is given back, to be dropped without locks. The caller
    /// goes on with [`Self::run`], without locks as well.
    pub fn add(
        &self,
        slot: Option<u32>,
        values: (u64, u64),
        waiting: Waiting,
    ) -> Result<u32, (c_int, Waiting)> {
        if let Err(error) = self.attendant.summon() {
            return Err((error, waiting));
        }
        let mut inside = self.lock();
        let inside = &mut *inside;
        let Some(at) = slot.or_else(|| inside.slot()) else { return Err((FI_EAGAIN, waiting)) };
        let counters = inside.counters.get_or_insert_with(|| {
            Counters::new(vec![Counter::ZERO; SLOTS], vec![Trigger::FREE; MOST])
        });
        if slot.is_none() {
            counters.set(at, values.0, values.1);
        }
        let of = match waiting.kind {
            Kind::Triggered => Of::Successes,
            Kind::Deferred => Of::All,
        };
        if !counters.add(at, of, waiting.threshold, waiting.number) {
            if slot.is_none() {
                inside.free.push(at);
            }
            return Err((FI_EAGAIN, waiting));
        }
        let Waiting { number, kind, key, work, completion, .. } = waiting;
        let place = work.place();
        let work = Some(work);
        let entry = Entry { kind, key, slot: Some(at), place, work, completion };
        inside.entries.insert(number, entry);
        inside.collect(at);
        self.due.store(inside.due.len(), Ordering::Relaxed);
        Ok(at)
    }

    /// A counter with a slot has counted, or was set: with its lock held. What is due then begins by [`Self::run`].
    pub fn changed(&self, slot: u32, by: By) {
        let mut inside = self.lock();
        match (by, &mut inside.counters) {
            (By::Counting(success, failure), Some(all)) => all.count(slot, success, failure),
            (By::Setting(success, failure), Some(all)) => all.set(slot, success, failure),
            (_, None) => {}
        }
        let any = inside.collect(slot);
        self.due.store(inside.due.len(), Ordering::Relaxed);
        drop(inside);
        if any {
            self.attendant.call();
        }
    }

    /// Begins what is due, unless another thread does. Without locks.
    pub fn run(&self) {
        if self.due.load(Ordering::Relaxed) == 0
            || std::mem::replace(&mut self.lock().running, true)
        {
            return;
        }
        let mut full = Vec::new();
        while let Some((number, work)) = self.next(&full) {
            let begun = work.begin();
            let over = match begun {
                Err(FI_EAGAIN) => {
                    full.extend(work.place());
                    None
                }
                Ok(()) => self.is_begun(number),
                Err(error) => {
                    work.fail(error);
                    self.is_begun(number)
                }
            };
            // A counter that is closed, or an endpoint, waits for that.
            drop((work, over));
            self.lock().current = None;
            self.begun.notify_all();
        }
    }

    /// The next that is due, and is not where there is no room.
    fn next(&self, full: &[Place]) -> Option<(u64, Arc<dyn Work>)> {
        let mut inside = self.lock();
        let next = inside.due.iter().find_map(|number| {
            let entry = inside.entries.get(number)?;
            let room = entry.place.is_none_or(|place| !full.contains(&place));
            entry.work.clone().filter(|_| room).map(|work| (*number, work, entry.place))
        });
        inside.current = next.as_ref().map(|(number, _, place)| (*number, *place));
        inside.running = next.is_some();
        next.map(|(number, work, _)| (number, work))
    }

    /// Something has begun. Returns what is left of it to be dropped; if it is completed later, it stays.
    fn is_begun(&self, number: u64) -> Option<Entry> {
        let mut inside = self.lock();
        inside.due.retain(|other| *other != number);
        self.due.store(inside.due.len(), Ordering::Relaxed);
        let entry = inside.entries.get_mut(&number)?;
        if entry.completion.is_none() {
            return inside.entries.remove(&number);
        }
        let work = entry.work.take();
        Some(Entry { slot: None, work, completion: None, ..*entry })
    }

    /// Work has ended.
    pub fn over(&self, number: u64, failed: bool) {
        let completion = {
            let mut inside = self.lock();
            let Some(entry) = inside.entries.get_mut(&number) else { return };
            let completion = entry.completion.take();
            // Else it is just being begun.
            if entry.work.is_none() {
                inside.entries.remove(&number);
            }
            completion
        };
        if let Some(completion) = completion {
            completion(failed);
        }
    }

    /// Takes back the oldest work with a key that has not begun. FI_ENOENT: there is none.
    pub fn cancel(&self, key: usize) -> Result<(), c_int> {
        let is = |entry: &Entry| entry.kind == Kind::Deferred && entry.key == key;
        let taken = self.lock().take(1, is);
        self.taken(taken).ok_or(FI_ENOENT)
    }

    /// Takes back all work that waits, or all that waits for a counter.
    pub fn flush(&self, slot: Option<u32>) {
        let of = |entry: &Entry| slot.is_none_or(|slot| entry.slot == Some(slot));
        let taken = self.lock().take(usize::MAX, |e| e.kind == Kind::Deferred && of(e));
        self.taken(taken);
    }

    /// Takes back the oldest operation of an endpoint with a context, and tells of it. FI_ENOENT: there is none.
    pub fn cancel_triggered(&self, endpoint: usize, key: usize) -> Result<(), c_int> {
        let at = |place: Place| place.endpoint == endpoint;
        let is = |entry: &Entry| {
            entry.kind == Kind::Triggered && entry.key == key && entry.place.is_some_and(at)
        };
        let taken = self.lock().take(1, is);
        self.taken(taken).ok_or(FI_ENOENT)
    }

    /// A counter is being closed: what waits for it is taken back.
    pub fn release(&self, slot: u32) {
        let mut taken = Vec::new();
        let mut inside = self.lock();
        while let Some(number) = inside.counters.as_mut().and_then(|all| all.cancel(slot)) {
            taken.extend(inside.entries.remove(&number));
        }
        inside.free.push(slot);
        drop(inside);
        self.taken(taken);
    }

    /// An endpoint is being closed: nothing of what waits begins there any more, and nothing is told of it.
    pub fn forget(&self, endpoint: usize) {
        let at = |place: Option<Place>| place.is_some_and(|place| place.endpoint == endpoint);
        let mut inside = self.lock();
        let mut taken = inside.take(usize::MAX, |entry| at(entry.place));
        while inside.current.is_some_and(|(_, place)| at(place)) {
            inside = self.begun.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        // That one as well, if it found no room; and what is under way, whose end is not told.
        let left = |(number, entry): (&u64, &Entry)| at(entry.place).then_some(*number);
        let numbers: Vec<u64> = inside.entries.iter().filter_map(left).collect();
        taken.extend(numbers.into_iter().filter_map(|number| inside.remove(number)));
        self.due.store(inside.due.len(), Ordering::Relaxed);
        drop(inside);
        drop(taken);
    }

    /// Tells of operations that were taken back. `None`: there are none.
    fn taken(&self, taken: Taken) -> Option<()> {
        self.due.store(self.lock().due.len(), Ordering::Relaxed);
        let any = !taken.is_empty();
        let triggered = taken.iter().filter(|entry| entry.kind == Kind::Triggered);
        triggered.filter_map(|entry| entry.work.as_ref()).for_each(|work| work.fail(FI_ECANCELED));
        any.then_some(())
    }
}

impl Progress for Deferred {
    fn progress(&self) -> bool {
        self.run();
        false
    }

    /// What is due and has not begun has found no room.
    fn is_settled(&self) -> bool {
        self.due.load(Ordering::Relaxed) == 0
    }

    fn lend(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}

    fn holds(&self) -> bool {
        !self.lock().entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
