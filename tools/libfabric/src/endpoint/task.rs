// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint is to begin: a message, an access to a region of another, or a receive; and how its end is told.
//!
//! A [`Task`] has pieces where the program has them. A [`Held`] one has pieces of its own, for what begins later: when a
//! counter has come so far, or when what is before it is over.

use super::area::Area;
use super::bits::Wanted;
use super::told::{Outcome, Side, Telling};
use crate::completion::Done;
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use weft::matching::{Address, Change};

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub to: Address,
    pub kind: u64,
    pub tag: u64,
    pub data: Option<u64>,
    pub context: *mut c_void,
    pub telling: Telling,
    /// Its bytes are the program's as soon as it was posted.
    pub inject: bool,
    /// It begins when all that is before it, to the same target, is over.
    pub fence: bool,
}

/// A region, a place there, and what else all accesses have.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub to: Address,
    pub key: u64,
    pub offset: u64,
    pub context: *mut c_void,
    pub telling: Telling,
    /// Its bytes are the program's as soon as it was posted.
    pub inject: bool,
    /// As that of a message.
    pub fence: bool,
}

/// What an atomic operation has, in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub values: &'a [Iovec],
    /// What is compared.
    pub compared: &'a [Iovec],
    /// Where what there was goes; `None`: the program does not want it.
    pub results: Option<&'a [Iovec]>,
}

/// What is to be begun, without its pieces.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Send(Sending),
    /// Data for the completion queue of the target, if there are any.
    Write(Remote, Option<u64>),
    Read(Remote),
    /// Bytes of the region that are meant, and whether it is told what there was.
    Change(Remote, Change, usize, bool),
    Receive(Wanted, *mut c_void, Telling),
    /// Until there is less room than this.
    ReceiveMany(Wanted, *mut c_void, Telling, usize),
}

impl Act {
    /// Where it goes; `None`: it receives.
    pub fn target(&self) -> Option<Address> {
        match self {
            Act::Send(sending) => Some(sending.to),
            Act::Write(remote, _) | Act::Read(remote) | Act::Change(remote, ..) => Some(remote.to),
            Act::Receive(..) | Act::ReceiveMany(..) => None,
        }
    }

    pub fn fence(&self) -> bool {
        match self {
            Act::Send(sending) => sending.fence,
            Act::Write(remote, _) | Act::Read(remote) | Act::Change(remote, ..) => remote.fence,
            Act::Receive(..) | Act::ReceiveMany(..) => false,
        }
    }

    pub fn inject(&self) -> bool {
        match self {
            Act::Send(sending) => sending.inject,
            Act::Write(remote, _) | Act::Read(remote) | Act::Change(remote, ..) => remote.inject,
            Act::Receive(..) | Act::ReceiveMany(..) => false,
        }
    }

    /// What is told of it if it is not begun.
    pub fn failed(&self, error: c_int) -> Outcome {
        let (side, flags, context, telling) = match *self {
            Act::Send(Sending { kind, context, telling, .. }) => {
                (Side::Send, FI_SEND | kind, context, telling)
            }
            Act::Write(remote, _) => {
                (Side::Write, FI_RMA | FI_WRITE, remote.context, remote.telling)
            }
            Act::Read(remote) => (Side::Read, FI_RMA | FI_READ, remote.context, remote.telling),
            Act::Change(remote, _, _, true) => {
                (Side::Read, FI_ATOMIC | FI_READ, remote.context, remote.telling)
            }
            Act::Change(remote, ..) => {
                (Side::Write, FI_ATOMIC | FI_WRITE, remote.context, remote.telling)
            }
            Act::Receive(wanted, context, telling) => {
                (Side::Receive, FI_RECV | wanted.kind, context, telling)
            }
            Act::ReceiveMany(wanted, context, telling, _) => {
                (Side::Receive, FI_RECV | FI_MULTI_RECV | wanted.kind, context, telling)
            }
        };
        let entry =
            CqTaggedEntry { op_context: context, flags, len: 0, buf: null_mut(), data: 0, tag: 0 };
        let done = Done { entry, source: FI_ADDR_UNSPEC, error, prov_errno: 0, left: 0 };
        Outcome::of(done, side, telling)
    }
}

/// What is to be begun. The pieces of an atomic operation are values, what is compared, and results; others have their
/// own in the first place.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub act: Act,
    pub pieces: [&'a [Iovec]; 3],
}

impl<'a> Task<'a> {
    pub fn new(act: Act, pieces: &'a [Iovec]) -> Self {
        Task { act, pieces: [pieces, &[], &[]] }
    }

    /// An atomic operation.
    pub fn change(remote: Remote, change: Change, length: usize, parts: &Parts<'a>) -> Self {
        let act = Act::Change(remote, change, length, parts.results.is_some());
        let pieces = [parts.values, parts.compared, parts.results.unwrap_or(&[])];
        Task { act, pieces }
    }
}

/// What begins later.
#[derive(Debug)]
pub struct Held {
    pub act: Act,
    pieces: [Vec<Iovec>; 3],
    /// Bytes that the program has back already.
    _copies: Vec<Area>,
}

// SAFETY: The addresses in it are the program's, or of the copies, and belong to no thread.
unsafe impl Send for Held {}
// SAFETY: Likewise; nothing in it is changed.
unsafe impl Sync for Held {}

impl Held {
    /// Keeps a task, with a copy of what is injected.
    ///
    /// # Safety
    ///
    /// The bytes can be read, if they are injected.
    pub unsafe fn of(task: &Task<'_>) -> Self {
        let mut copies = Vec::new();
        let mut pieces = task.pieces.map(<[Iovec]>::to_vec);
        if task.act.inject() {
            // Results are where the program has them.
            for pieces in pieces.iter_mut().take(2).filter(|pieces| !pieces.is_empty()) {
                // SAFETY: As the caller says; the copy is kept with its piece.
                let area = unsafe { Area::gathered(pieces) };
                *pieces = vec![area.piece()];
                copies.push(area);
            }
        }
        Held { act: task.act, pieces, _copies: copies }
    }

    pub fn task(&self) -> Task<'_> {
        Task { act: self.act, pieces: self.pieces.each_ref().map(Vec::as_slice) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(inject: bool) -> Act {
        Act::Send(Sending {
            to: Address { hwid: 1, endpoint: 2, generation: 3 },
            kind: FI_MSG,
            tag: 0,
            data: None,
            context: null_mut(),
            telling: true.into(),
            inject,
            fence: true,
        })
    }

    #[test]
    fn bytes_that_are_injected_are_kept() {
        let mut bytes = *b"abcdef";
        let at = bytes.as_mut_ptr();
        // SAFETY: Each is within the bytes.
        let pieces = [0, 4].map(|n| Iovec { iov_base: unsafe { at.add(n) }.cast(), iov_len: 2 });
        let held = [true, false].map(|inject| {
            let task = Task::new(sending(inject), &pieces);
            // SAFETY: The bytes are there.
            unsafe { Held::of(&task) }
        });
        bytes.fill(b'!');
        let read = |held: &Held| {
            let pieces = held.task().pieces[0].to_vec();
            // SAFETY: They are of the test, or kept.
            unsafe { Area::gathered(&pieces) }
        };
        for (held, want) in held.iter().zip([*b"abef", *b"!!!!"]) {
            let (mut to, area) = ([0u8; 4], read(held));
            let piece = Iovec { iov_base: to.as_mut_ptr().cast(), iov_len: 4 };
            // SAFETY: There is room for four.
            unsafe { area.scatter(4, &[piece]) };
            assert_eq!(to, want);
        }
        assert_eq!(held[0].act.target().map(|to| to.hwid), Some(1));
    }

    #[test]
    fn what_is_not_begun_is_told_as_what_it_was_to_be() {
        let outcome = sending(false).failed(FI_ENODEV);
        assert_eq!((outcome.done.error, outcome.side), (FI_ENODEV, Side::Send));
        assert_eq!(outcome.done.entry.flags, FI_SEND | FI_MSG);
        let wanted = Wanted { kind: FI_TAGGED, tag: 1, ignore: 0, source: None };
        let work = Telling { reported: false, work: Some(3) };
        let outcome = Act::Receive(wanted, null_mut(), work).failed(FI_ECANCELED);
        assert_eq!((outcome.side, outcome.done.entry.flags), (Side::Receive, FI_RECV | FI_TAGGED));
        assert_eq!((outcome.work, outcome.counts), (Some(3), false));
    }
}
