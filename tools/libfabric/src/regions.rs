// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that others may reach, and the endpoints by which they do.
//!
//! A region belongs to a domain, and has a key that the program has chosen. Each endpoint of the domain has it in its
//! lists, from when it is registered, or the endpoint is enabled, until either is closed.

use crate::base::lock;
use crate::fi::*;
use crate::progress::Progress;
use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex};

/// Bytes of a key: what match bits have room for.
pub const KEY_BYTES: usize = 7;
/// The largest key.
pub const KEYS: u64 = (1 << (8 * KEY_BYTES)) - 1;

/// A counter.
pub trait Counts: Debug + Send + Sync {
    /// Counts an operation.
    fn count(&self, failed: bool);
    /// Has the events of an endpoint handled when it is looked at.
    fn watch(&self, endpoint: &Arc<dyn Progress>) -> Result<(), c_int>;
    /// And no more.
    fn leave(&self, endpoint: &Arc<dyn Progress>);
}

/// An endpoint.
pub trait Exposes: Debug + Send + Sync {
    /// Lets others reach a region by it.
    fn expose(&self, region: &Arc<Region>) -> Result<(), c_int>;
    /// And no more, when it returns. FI_EBUSY: something is still under way there.
    fn withdraw(&self, region: &Arc<Region>) -> Result<(), c_int>;
    /// Its events have to be handled.
    fn events(self: Arc<Self>) -> Arc<dyn Progress>;
}

/// A region.
#[derive(Debug)]
pub struct Region {
    pub key: u64,
    /// FI_REMOTE_READ, FI_REMOTE_WRITE.
    pub access: u64,
    /// The program has exposed the address by registering it.
    at: usize,
    bytes: usize,
    /// Those bound to it, and what they count.
    cntrs: Mutex<Vec<(Arc<dyn Counts>, u64)>>,
}

impl Region {
    pub fn new(key: u64, access: u64, memory: Iovec) -> Self {
        let at = memory.iov_base.expose_provenance();
        Region { key, access, at, bytes: memory.iov_len, cntrs: Mutex::default() }
    }

    pub fn memory(&self) -> Iovec {
        Iovec { iov_base: with_exposed_provenance_mut::<c_void>(self.at), iov_len: self.bytes }
    }

    /// Counts what another has done there: FI_REMOTE_READ or FI_REMOTE_WRITE.
    pub fn count(&self, what: u64, failed: bool) {
        let cntrs = lock(&self.cntrs);
        cntrs.iter().filter(|(_, of)| of & what != 0).for_each(|(cntr, _)| cntr.count(failed));
    }
}

#[derive(Debug, Default)]
struct Inside {
    regions: Vec<Arc<Region>>,
    endpoints: Vec<Arc<dyn Exposes>>,
}

/// The regions of a domain, and its endpoints that are enabled.
#[derive(Debug, Default)]
pub struct Regions(Mutex<Inside>);

impl Regions {
    /// Adds a region. FI_ENOKEY: another one has the key.
    pub fn add(&self, region: Region) -> Result<Arc<Region>, c_int> {
        let mut inside = lock(&self.0);
        if inside.regions.iter().any(|other| other.key == region.key) {
            return Err(FI_ENOKEY);
        }
        let region = Arc::new(region);
        for (n, endpoint) in inside.endpoints.iter().enumerate() {
            if let Err(error) = endpoint.expose(&region) {
                for endpoint in &inside.endpoints[..n] {
                    // No other program knows the key yet.
                    let _ = endpoint.withdraw(&region);
                }
                return Err(error);
            }
        }
        inside.regions.push(region.clone());
        Ok(region)
    }

    /// Removes a region. FI_EBUSY: something is still under way there, and it stays one.
    pub fn remove(&self, region: &Arc<Region>) -> Result<(), c_int> {
        let mut inside = lock(&self.0);
        for endpoint in &inside.endpoints {
            endpoint.withdraw(region)?;
        }
        for (cntr, _) in lock(&region.cntrs).drain(..) {
            inside.endpoints.iter().for_each(|endpoint| cntr.leave(&endpoint.clone().events()));
        }
        inside.regions.retain(|other| !Arc::ptr_eq(other, region));
        Ok(())
    }

    /// Adds an endpoint, which is to have all regions.
    pub fn join(&self, endpoint: &Arc<dyn Exposes>) -> Result<(), c_int> {
        let mut inside = lock(&self.0);
        inside.endpoints.push(endpoint.clone());
        for region in &inside.regions {
            endpoint.expose(region)?;
            for (cntr, _) in &*lock(&region.cntrs) {
                cntr.watch(&endpoint.clone().events())?;
            }
        }
        Ok(())
    }

    /// Forgets an endpoint, which is being closed.
    pub fn leave(&self, endpoint: &Arc<dyn Exposes>) {
        let mut inside = lock(&self.0);
        for region in &inside.regions {
            for (cntr, _) in &*lock(&region.cntrs) {
                cntr.leave(&endpoint.clone().events());
            }
        }
        let is =
            |other: &Arc<dyn Exposes>| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(endpoint));
        inside.endpoints.retain(|other| !is(other));
    }

    /// Has a counter count what others do in a region.
    pub fn bind(&self, region: &Region, cntr: Arc<dyn Counts>, what: u64) -> Result<(), c_int> {
        let inside = lock(&self.0);
        for endpoint in &inside.endpoints {
            cntr.watch(&endpoint.clone().events())?;
        }
        lock(&region.cntrs).push((cntr, what));
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::fd::BorrowedFd;
    use std::ptr::{null_mut, without_provenance_mut};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// An endpoint that keeps the keys of the regions it exposes, up to `room`.
    #[derive(Debug, Default)]
    struct Fake {
        room: usize,
        keys: Mutex<Vec<u64>>,
        busy: Mutex<Option<u64>>,
    }

    impl Progress for Fake {
        fn progress(&self) -> bool {
            false
        }

        fn is_settled(&self) -> bool {
            true
        }

        fn lend(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
    }

    impl Exposes for Fake {
        fn expose(&self, region: &Arc<Region>) -> Result<(), c_int> {
            let mut keys = lock(&self.keys);
            if keys.len() == self.room {
                return Err(FI_ENOSPC);
            }
            keys.push(region.key);
            Ok(())
        }

        fn withdraw(&self, region: &Arc<Region>) -> Result<(), c_int> {
            if *lock(&self.busy) == Some(region.key) {
                return Err(FI_EBUSY);
            }
            lock(&self.keys).retain(|key| *key != region.key);
            Ok(())
        }

        fn events(self: Arc<Self>) -> Arc<dyn Progress> {
            self
        }
    }

    #[derive(Debug, Default)]
    struct Counter {
        counted: [AtomicUsize; 2],
        watched: AtomicUsize,
    }

    impl Counts for Counter {
        fn count(&self, failed: bool) {
            self.counted[usize::from(failed)].fetch_add(1, Relaxed);
        }

        fn watch(&self, _: &Arc<dyn Progress>) -> Result<(), c_int> {
            self.watched.fetch_add(1, Relaxed);
            Ok(())
        }

        fn leave(&self, _: &Arc<dyn Progress>) {
            self.watched.fetch_sub(1, Relaxed);
        }
    }

    pub fn region(key: u64, access: u64) -> Region {
        let memory = Iovec { iov_base: without_provenance_mut(0x1000), iov_len: 64 };
        Region::new(key, access, memory)
    }

    fn fake(room: usize) -> Arc<Fake> {
        Arc::new(Fake { room, ..Fake::default() })
    }

    fn keys(fake: &Fake) -> Vec<u64> {
        lock(&fake.keys).clone()
    }

    #[test]
    fn all_endpoints_have_all_regions() {
        let regions = Regions::default();
        let first = regions.add(region(1, FI_REMOTE_READ)).expect("no endpoint is there");
        let (one, two) = (fake(9), fake(9));
        let (a, b): (Arc<dyn Exposes>, Arc<dyn Exposes>) = (one.clone(), two.clone());
        regions.join(&a).expect("there is room");
        regions.add(region(2, FI_REMOTE_READ)).expect("there is room");
        regions.join(&b).expect("there is room");
        assert_eq!(regions.add(region(2, 0)).err(), Some(FI_ENOKEY));
        assert_eq!((keys(&one), keys(&two)), (vec![1, 2], vec![1, 2]));
        *lock(&two.busy) = Some(1);
        assert_eq!(regions.remove(&first), Err(FI_EBUSY));
        // It is still one: its key is in use.
        assert_eq!(regions.add(region(1, 0)).err(), Some(FI_ENOKEY));
        *lock(&two.busy) = None;
        assert_eq!(regions.remove(&first), Ok(()));
        regions.leave(&b);
        regions.add(region(1, 0)).expect("there is room");
        assert_eq!((keys(&one), keys(&two)), (vec![2, 1], vec![2]));
        assert_eq!(Arc::strong_count(&two), 2);
    }

    #[test]
    fn a_region_that_one_endpoint_has_no_room_for_is_none() {
        let regions = Regions::default();
        let (one, two) = (fake(2), fake(1));
        for endpoint in [&one, &two] {
            regions.join(&(endpoint.clone() as Arc<dyn Exposes>)).expect("there are none");
        }
        regions.add(region(1, 0)).expect("there is room");
        assert_eq!(regions.add(region(2, 0)).err(), Some(FI_ENOSPC));
        assert_eq!((keys(&one), keys(&two)), (vec![1], vec![1]));
    }

    #[test]
    fn counters_count_what_they_are_bound_for() {
        let regions = Regions::default();
        let one: Arc<dyn Exposes> = fake(9);
        regions.join(&one).expect("there are none");
        let region = regions.add(region(1, 0)).expect("there is room");
        let cntr = Arc::new(Counter::default());
        regions.bind(&region, cntr.clone(), FI_REMOTE_WRITE).expect("bound");
        let two: Arc<dyn Exposes> = fake(9);
        regions.join(&two).expect("there is room");
        assert_eq!(cntr.watched.load(Relaxed), 2);
        region.count(FI_REMOTE_READ, false);
        region.count(FI_REMOTE_WRITE, false);
        region.count(FI_REMOTE_WRITE, true);
        assert_eq!(cntr.counted.each_ref().map(|n| n.load(Relaxed)), [1, 1]);
        regions.leave(&one);
        assert_eq!(cntr.watched.load(Relaxed), 1);
        regions.remove(&region).expect("nothing is under way");
        assert_eq!((cntr.watched.load(Relaxed), Arc::strong_count(&cntr)), (0, 1));
    }

    #[test]
    fn memory_is_what_was_registered() {
        let mut bytes = [1u8; 8];
        let memory = Iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
        let region = Region::new(KEYS, 0, memory);
        assert_eq!(region.memory().iov_base, memory.iov_base);
        assert_eq!(region.memory().iov_len, 8);
        let none = Region::new(0, 0, Iovec { iov_base: null_mut(), iov_len: 0 });
        assert!(none.memory().iov_base.is_null());
    }
}
