// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint has under way: operations by the number that the driver knows them by, and in the order in which
//! the program has begun them.

use super::area::Area;
use super::filled::Filled;
use super::told::Telling;
use crate::fi::Iovec;
use std::ffi::c_void;
use weft::matching::{Address, Append};

/// An operation.
#[derive(Debug)]
pub struct Operation {
    /// The program knows it by this.
    pub context: *mut c_void,
    /// FI_MSG or FI_TAGGED; of an access, all flags that are told of it.
    pub kind: u64,
    pub telling: Telling,
    /// Where it goes, if it is sent, or an access.
    pub to: Option<Address>,
    pub what: What,
}

// SAFETY: The addresses in it are the program's; the driver reads and writes there, not a thread.
unsafe impl Send for Operation {}

/// What is done.
#[derive(Debug)]
pub enum What {
    /// A message is sent; the bytes are here if they are not the program's.
    Send { _bytes: Option<Area>, injected: bool },
    /// A region of another is accessed.
    Remote(Accessing),
    /// A buffer is for one message.
    Receive(Receive),
    /// A buffer is for many.
    Many { append: Append, filled: Filled, unlinking: bool },
    /// The lists are searched; what is found is claimed for later, or not.
    Search { claims: bool },
    /// A message was claimed, and waits.
    Claimed,
    /// A claimed message is dropped.
    Drop,
    /// A message is claimed that no receive was known for.
    Early,
    /// It is over for the program; the driver has something to say yet.
    Over,
}

impl What {
    /// How its buffer is appended, if it is one that has, or waits for, a list entry.
    pub fn append(&self) -> Option<&Append> {
        match self {
            What::Receive(receive) => receive.append.as_ref(),
            What::Many { append, .. } => Some(append),
            _ => None,
        }
    }
}

/// An access that is under way.
#[derive(Debug)]
pub struct Accessing {
    /// What the driver reads, if it is not the program's.
    pub _kept: [Option<Area>; 2],
    /// Where what is read goes, from memory of the provider.
    pub pieces: Option<(Area, Vec<Iovec>)>,
    pub injected: bool,
    /// Bytes of the region that are meant.
    pub length: usize,
}

/// A buffer for one message.
#[derive(Debug)]
pub struct Receive {
    /// What was appended; `None`: it is for a message that was claimed.
    pub append: Option<Append>,
    /// The driver was asked to give it back.
    pub unlinking: bool,
    /// Where the bytes go from memory of the provider.
    pub pieces: Option<(Area, Vec<Iovec>)>,
}

#[derive(Debug)]
struct Place {
    /// Rises with each operation.
    number: u64,
    operation: Operation,
}

/// Operations by number.
#[derive(Debug, Default)]
pub struct Operations {
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    next: u64,
}

impl Operations {
    pub fn insert(&mut self, operation: Operation) -> u64 {
        let place = Some(Place { number: self.next, operation });
        self.next += 1;
        match self.free.pop() {
            Some(index) => {
                if let Some(free) = self.places.get_mut(index) {
                    *free = place;
                }
                index as u64
            }
            None => {
                self.places.push(place);
                self.places.len() as u64 - 1
            }
        }
    }

    pub fn get(&mut self, number: u64) -> Option<&mut Operation> {
        let place = self.places.get_mut(usize::try_from(number).ok()?)?;
        place.as_mut().map(|place| &mut place.operation)
    }

    /// Rises with each operation; that of none is that of the youngest.
    pub fn age(&self, number: u64) -> u64 {
        let place = usize::try_from(number).ok().and_then(|index| self.places.get(index));
        place.and_then(Option::as_ref).map_or(u64::MAX, |place| place.number)
    }

    pub fn remove(&mut self, number: u64) -> Option<Operation> {
        let index = usize::try_from(number).ok()?;
        let place = self.places.get_mut(index)?.take()?;
        self.free.push(index);
        Some(place.operation)
    }

    /// Whether any goes to a target.
    pub fn any_to(&self, target: Address) -> bool {
        self.places.iter().flatten().any(|place| place.operation.to == Some(target))
    }

    /// The oldest operation with a context that `is` what is looked for.
    pub fn find(&self, context: *mut c_void, is: impl Fn(&What) -> bool) -> Option<u64> {
        let fits = |place: &Place| place.operation.context == context && is(&place.operation.what);
        let all = self.places.iter().enumerate();
        let fitting =
            all.filter_map(|(n, place)| place.as_ref().filter(|p| fits(p)).map(|p| (n, p.number)));
        fitting.min_by_key(|(_, number)| *number).map(|(n, _)| n as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    fn operation(context: usize, what: What) -> Operation {
        Operation {
            context: without_provenance_mut(context),
            kind: 0,
            telling: true.into(),
            to: None,
            what,
        }
    }

    #[test]
    fn the_oldest_with_a_context_is_found() {
        let mut all = Operations::default();
        let first = all.insert(operation(1, What::Claimed));
        let second = all.insert(operation(2, What::Claimed));
        let third = all.insert(operation(2, What::Claimed));
        assert_eq!((first, second, third), (0, 1, 2));
        assert!(all.remove(first).is_some() && all.remove(first).is_none());
        // It has the place of the first, and is the youngest.
        assert_eq!(all.insert(operation(2, What::Claimed)), first);
        let claimed = |what: &What| matches!(what, What::Claimed);
        let find = |all: &Operations, context| all.find(without_provenance_mut(context), claimed);
        assert_eq!(find(&all, 2), Some(second));
        all.remove(second);
        assert_eq!(find(&all, 2), Some(third));
        if let Some(operation) = all.get(third) {
            operation.what = What::Drop;
        }
        assert_eq!(find(&all, 2), Some(first));
        assert_eq!(find(&all, 3), None);
        let target = Address { hwid: 1, endpoint: 2, generation: 3 };
        assert!(!all.any_to(target));
        let to = Some(target);
        let sent = all.insert(Operation { to, ..operation(4, What::Claimed) });
        assert!(all.any_to(target) && !all.any_to(Address { generation: 4, ..target }));
        all.remove(sent);
        assert!(!all.any_to(target));
        assert!(all.get(77).is_none() && all.get(u64::MAX).is_none() && all.remove(77).is_none());
    }
}
