// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a program asks of integers in a region, as libfabric has it: pieces, and how many there are in each; and
//! whether that makes sense.

use super::area::length;
use super::task::{Parts, Task};
use super::{COMPLETE, Endpoint, Far, INJECT, Later, PIECES, REMOTE_PIECES, WHEN};
use crate::atomics::{Kind, change};
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, slice_from_raw_parts};
use weft::matching::{Change, Operation};

/// Flags of atomic operations: they tell the other end nothing.
const FLAGS: u64 = COMPLETE | WHEN | FI_INJECT | FI_COMPLETION | FI_MORE;

/// Integers in pieces, as the program says: the pieces, and how many.
pub type Counted = (*const Ioc, usize);
/// None of them.
pub const NONE: Counted = (std::ptr::null(), 0);

/// Where an operation is to be done, as the program says.
#[derive(Clone, Copy)]
pub struct Place {
    pub to: FiAddr,
    pub addr: u64,
    pub key: u64,
}

/// What is to be done there.
#[derive(Clone, Copy)]
pub struct Asked {
    pub datatype: u32,
    pub op: u32,
    pub kind: Kind,
    pub values: Counted,
    pub compared: Counted,
    pub results: Counted,
    /// How many integers of the region are meant, if the program says.
    pub count: Option<usize>,
}

/// Pieces of bytes.
struct Pieces {
    all: [Iovec; PIECES],
    count: usize,
}

impl Pieces {
    /// Pieces of integers of `width` bytes. FI_EINVAL: they are too many.
    ///
    /// # Safety
    ///
    /// There are as many as is said.
    unsafe fn of((from, count): Counted, width: usize) -> Result<Self, c_int> {
        let none = Iovec { iov_base: null_mut(), iov_len: 0 };
        let mut pieces = Pieces { all: [none; PIECES], count: 0 };
        if from.is_null() || count == 0 {
            return Ok(pieces);
        }
        // SAFETY: As the caller says.
        let iocs = unsafe { &*slice_from_raw_parts(from, count) };
        pieces.count = count;
        let all = pieces.all.get_mut(..count).ok_or(FI_EINVAL)?;
        for (to, ioc) in all.iter_mut().zip(iocs) {
            *to = Iovec { iov_base: ioc.addr, iov_len: ioc.count.saturating_mul(width) };
        }
        Ok(pieces)
    }

    fn get(&self) -> &[Iovec] {
        self.all.get(..self.count).unwrap_or(&[])
    }
}

/// The bytes of the region that are meant. FI_EINVAL: there is not the same number of everything; FI_EMSGSIZE: they are
/// more than can be changed at once.
fn whole(
    change: &Change,
    parts: &Parts<'_>,
    kind: Kind,
    count: Option<usize>,
) -> Result<usize, c_int> {
    let reads = change.operation() == Operation::Read;
    let own = match parts.results {
        Some(results) => length(results),
        None => length(parts.values),
    };
    let said = count.map_or(own, |count| count.saturating_mul(change.width()));
    let values = if reads { 0 } else { own };
    let compared = if kind == Kind::Compare { own } else { 0 };
    let same = said == own
        && length(parts.values) == values
        && length(parts.compared) == compared
        && own > 0;
    match same {
        true if own > change.most() * change.width() => Err(FI_EMSGSIZE),
        true => Ok(own),
        false => Err(FI_EINVAL),
    }
}

impl Endpoint {
    /// Does what is asked.
    ///
    /// # Safety
    ///
    /// There are as many pieces as is said, and memory for them: to be read now, if they are injected, or else until it
    /// is over, and to be written as long.
    pub(super) unsafe fn change(&self, far: &Far<'_>, asked: &Asked) -> Result<(), c_int> {
        if far.flags & !FLAGS != 0 {
            return Err(FI_EBADFLAGS);
        }
        let change = change(asked.datatype, asked.op, asked.kind)?;
        let width = change.width();
        let reads = change.operation() == Operation::Read;
        // SAFETY: As the caller says.
        let (values, compared, results) = unsafe {
            // There may be some, which do not matter.
            let values = if reads { NONE } else { asked.values };
            let compared = if asked.kind == Kind::Compare { asked.compared } else { NONE };
            (
                Pieces::of(values, width)?,
                Pieces::of(compared, width)?,
                Pieces::of(asked.results, width)?,
            )
        };
        let parts = Parts {
            values: values.get(),
            compared: compared.get(),
            results: (asked.kind != Kind::Base).then_some(results.get()),
        };
        let bytes = whole(&change, &parts, asked.kind, asked.count)?;
        if far.flags & FI_INJECT != 0 && bytes > INJECT {
            return Err(FI_EINVAL);
        }
        // SAFETY: As the caller says.
        unsafe { self.reach(far, |remote| Task::change(remote, change, bytes, &parts)) }
    }

    /// Where an operation of a kind is done, by the flags of operations that are given none.
    pub(super) fn place<'a>(&self, place: Place, kind: Kind, context: *mut c_void) -> Far<'a> {
        let Place { to, addr, key } = place;
        let caps = FI_ATOMIC | if kind == Kind::Base { FI_WRITE } else { FI_READ | FI_WRITE };
        let flags = self.flags_of_sends() & FLAGS;
        Far { caps, to, offset: addr, key, context, flags, silent: false, later: None }
    }

    /// What a message asks for.
    ///
    /// # Safety
    ///
    /// There are as many pieces as it says.
    pub(super) unsafe fn asked_by<'a>(
        &self,
        msg: &MsgAtomic,
        (flags, later): (u64, Option<&'a Later<'a>>),
        kind: Kind,
        (compared, results): (Counted, Counted),
    ) -> Result<(Far<'a>, Asked), c_int> {
        if msg.rma_iov_count != REMOTE_PIECES || msg.rma_iov.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: There is one.
        let rma = unsafe { &*msg.rma_iov };
        let place = Place { to: msg.addr, addr: rma.addr, key: rma.key };
        let far = Far { flags, later, ..self.place(place, kind, msg.context) };
        let asked = Asked {
            datatype: msg.datatype,
            op: msg.op,
            kind,
            values: (msg.msg_iov, msg.iov_count),
            compared,
            results,
            count: Some(rma.count),
        };
        Ok((far, asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(count: usize) -> Pieces {
        let iocs = [Ioc { addr: null_mut(), count: 1 }, Ioc { addr: null_mut(), count: count - 1 }];
        // SAFETY: There are two.
        unsafe { Pieces::of((iocs.as_ptr(), 2), 4) }.expect("they are few")
    }

    fn length_of(
        op: u32,
        kind: Kind,
        counts: [usize; 3],
        said: Option<usize>,
    ) -> Result<usize, c_int> {
        let change = change(FI_INT8 + 4, op, kind).expect("there is one");
        let [values, compared, results] = counts.map(|n| (n > 0).then(|| integers(n)));
        let get = |pieces: &Option<Pieces>| match pieces {
            Some(pieces) => pieces.get().to_vec(),
            None => Vec::new(),
        };
        let (values, compared, results) = (get(&values), get(&compared), get(&results));
        let results = (kind != Kind::Base).then_some(&results[..]);
        let parts = Parts { values: &values, compared: &compared, results };
        whole(&change, &parts, kind, said)
    }

    #[test]
    fn there_is_the_same_number_of_everything() {
        assert_eq!(length_of(FI_SUM, Kind::Base, [3, 0, 0], None), Ok(12));
        assert_eq!(length_of(FI_SUM, Kind::Base, [3, 0, 0], Some(3)), Ok(12));
        assert_eq!(length_of(FI_SUM, Kind::Base, [3, 0, 0], Some(4)), Err(FI_EINVAL));
        assert_eq!(length_of(FI_SUM, Kind::Base, [0, 0, 0], None), Err(FI_EINVAL));
        assert_eq!(length_of(FI_SUM, Kind::Base, [512, 0, 0], None), Ok(2048));
        assert_eq!(length_of(FI_SUM, Kind::Base, [513, 0, 0], None), Err(FI_EMSGSIZE));
        assert_eq!(length_of(FI_SUM, Kind::Fetch, [3, 0, 3], None), Ok(12));
        assert_eq!(length_of(FI_SUM, Kind::Fetch, [3, 0, 2], None), Err(FI_EINVAL));
        assert_eq!(length_of(FI_ATOMIC_READ, Kind::Fetch, [0, 0, 3], Some(3)), Ok(12));
        assert_eq!(length_of(FI_ATOMIC_READ, Kind::Fetch, [3, 0, 3], None), Err(FI_EINVAL));
        assert_eq!(length_of(FI_CSWAP, Kind::Compare, [2, 2, 2], None), Ok(8));
        assert_eq!(length_of(FI_CSWAP, Kind::Compare, [2, 3, 2], None), Err(FI_EINVAL));
        assert_eq!(length_of(FI_CSWAP, Kind::Compare, [2, 0, 2], None), Err(FI_EINVAL));
    }

    #[test]
    fn integers_are_bytes() {
        let pieces = integers(5);
        let bytes: Vec<usize> = pieces.get().iter().map(|piece| piece.iov_len).collect();
        assert_eq!(bytes, [4, 16]);
        let many = [Ioc { addr: null_mut(), count: 1 }; PIECES + 1];
        // SAFETY: There are as many.
        let of = |count| unsafe { Pieces::of((many.as_ptr(), count), 8) }.map(|p| p.count);
        assert_eq!((of(PIECES), of(PIECES + 1), of(0)), (Ok(PIECES), Err(FI_EINVAL), Ok(0)));
        let long = Ioc { addr: null_mut(), count: usize::MAX };
        // SAFETY: There is one.
        let long = unsafe { Pieces::of((&long, 1), 8) }.expect("it is one");
        assert_eq!(length(long.get()), usize::MAX);
    }
}
