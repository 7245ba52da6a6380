// SPDX-License-Identifier: GPL-2.0

//! The mailbox of a virtual function, which goes through its physical function.
//!
//! This driver cuts messages into pieces; the PF's driver passes them on to neighbours, and sends the
//! quota of the VF. The PF's driver may run on another host, hang, or be absent: waits for it are short.

use super::{chip::Chip, pair::Pair, WeftPort};
use crate::{
    hw::{Owner, MBOX_BYTES},
    proto::pair::{Asked, Assembler, Note, Packed, Quota, Via, Way, PAIR_BYTES},
    sys::ext,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed},
        Mutex,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How long to wait until the PF takes a note, and for its answer to the hello.
const PATIENCE: Delta = Delta::from_millis(100);
const ANSWER_TIME: Delta = Delta::from_secs(3);
/// How long to wait for the answer to a question for a way, after which part of that to ask again, as a note may get
/// lost, and how often to look.
const WAY_TIME: Delta = Delta::from_millis(400);
const WAY_AGAIN: Delta = Delta::from_millis(150);
const WAY_POLL: Delta = Delta::from_micros(500);
const POLL: Delta = Delta::from_micros(50);

/// The state of the sending side.
struct Out {
    /// Counts messages.
    number: u8,
}

/// The mailbox to the PF, and through it to other hosts. Of its locks `seeking` is outside of `out` and `way`,
/// and `inbox` outside of `way`; no other is taken inside another.
#[pin_data]
pub(super) struct ToPf {
    #[pin]
    out: Mutex<Out>,
    #[pin]
    inbox: Mutex<Assembler>,
    /// The VF has users.
    users: Atomic<bool>,
    /// The PF has taken the note that says so, or that it has none.
    told: Atomic<bool>,
    /// The last request of the PF, an [`Asked`].
    asked: Atomic<u32>,
    /// Held by the caller that asks for a way: there is one question at a time.
    #[pin]
    seeking: Mutex<()>,
    /// The last answer.
    #[pin]
    way: Mutex<Option<(u64, Way)>>,
}

impl ToPf {
    pub(super) fn new() -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                out <- new_mutex!(Out { number: 0 }, "weft_port::to_pf"),
                inbox <- new_mutex!(Assembler::new(), "weft_port::from_pf"),
                users: Atomic::new(false),
                told: Atomic::new(true),
                asked: Atomic::new(Asked::default().word()),
                seeking <- new_mutex!((), "weft_port::seeking"),
                way <- new_mutex!(None, "weft_port::way"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sends one note. Returns false if the PF does not take the previous one within 100 ms, or if the
    /// function does not answer. Sleeps.
    fn post(chip: &Chip, note: &Packed) -> bool {
        let since = Instant::<Monotonic>::now();
        while let Some(false) = Pair::PF.send(&chip.regs, note) {
            if since.elapsed() >= PATIENCE {
                return false;
            }
            fsleep(POLL);
        }
        // The function may not answer any more.
        chip.is_present()
    }

    /// Sends a hello and returns the quota that the PF answers; `None` without an answer. The caller
    /// makes sure that nothing else takes notes meanwhile. Sleeps for up to 3 seconds.
    pub(super) fn ask(&self, chip: &Chip) -> Option<Quota> {
        let _out = self.out.lock();
        let since = Instant::<Monotonic>::now();
        if !Self::post(chip, &Packed::hello()) {
            return None;
        }
        let mut buf = [0; PAIR_BYTES];
        while since.elapsed() < ANSWER_TIME {
            let Some(bytes) = Pair::PF.take(&chip.regs, &mut buf) else {
                fsleep(POLL);
                continue;
            };
            match Note::parse(buf.get(..bytes).unwrap_or_default()) {
                Ok(Note::Quota(quota)) => return Some(quota),
                Ok(Note::Ask(asked)) => self.asked.store(asked.word(), Relaxed),
                _ => {}
            }
        }
        None
    }

    /// Tells the PF whether the VF has users. Sleeps.
    pub(super) fn tell_users(&self, chip: &Chip, any: bool) {
        let _out = self.out.lock();
        self.users.store(any, Relaxed);
        let told = Self::post(chip, &Packed::users(any));
        self.told.store(told, Relaxed);
    }

    /// Returns the last request of the PF for the users.
    pub(super) fn asked(&self) -> Asked {
        Asked::of(self.asked.load(Relaxed))
    }

    /// Answers the request `asked`. An answer that the PF does not take is lost; callers repeat it.
    /// Sleeps.
    pub(super) fn tell_left(&self, chip: &Chip, asked: Asked, left: u32) {
        let _out = self.out.lock();
        let _ = Self::post(chip, &Packed::left(asked, left));
    }

    /// Repeats the note of [`ToPf::tell_users`] if the PF did not take it.
    fn tell_again(&self, chip: &Chip) {
        if self.told.load(Relaxed) {
            return;
        }
        let _out = self.out.lock();
        let note = Packed::users(self.users.load(Relaxed));
        // Without waiting: the next call tries again.
        if Pair::PF.send(&chip.regs, &note) == Some(true) {
            self.told.store(true, Relaxed);
        }
    }

    /// Asks the PF for the way to the function with this hardware id. Another thread takes the answer, by
    /// [`ToPf::recv`]. `None` without an answer. Sleeps.
    fn seek(&self, chip: &Chip, hwid: u64) -> Option<Way> {
        let _seeking = self.seeking.lock();
        *self.way.lock() = None;
        let since = Instant::<Monotonic>::now();
        let mut asked: Option<Instant<Monotonic>> = None;
        while since.elapsed() < WAY_TIME {
            if asked.is_none_or(|asked| asked.elapsed() >= WAY_AGAIN) {
                let _out = self.out.lock();
                if !Self::post(chip, &Packed::seek(hwid)) {
                    return None;
                }
                asked = Some(Instant::now());
            }
            if let Some((found, way)) = *self.way.lock() {
                if found == hwid {
                    return Some(way);
                }
            }
            fsleep(WAY_POLL);
        }
        None
    }

    /// Sends `msg` by a link or a route. Returns false if it cannot be sent, or if the PF does not
    /// take it. Sleeps.
    pub(super) fn send(&self, chip: &Chip, via: Via, msg: &[u8]) -> bool {
        let mut out = self.out.lock();
        out.number = out.number.wrapping_add(1);
        let number = out.number;
        let piece = |index| Packed::piece(msg, via, number, index);
        let mut pieces = (0..).map_while(piece).peekable();
        pieces.peek().is_some() && pieces.all(|piece| Self::post(chip, &piece))
    }

    /// As [`crate::hw::Port::recv`].
    pub(super) fn recv(&self, chip: &Chip, buf: &mut [u8; MBOX_BYTES]) -> Option<(Via, usize)> {
        self.tell_again(chip);
        let mut inbox = self.inbox.lock();
        let mut note = [0; PAIR_BYTES];
        // Each piece is an event: later pieces are taken then.
        for _ in 0..ext::WEFT_MBOX_DEPTH {
            let bytes = Pair::PF.take(&chip.regs, &mut note)?;
            let piece = match Note::parse(note.get(..bytes).unwrap_or_default()) {
                Ok(Note::Piece(piece)) => piece,
                Ok(Note::Ask(asked)) => {
                    self.asked.store(asked.word(), Relaxed);
                    continue;
                }
                Ok(Note::Way(hwid, way)) => {
                    *self.way.lock() = Some((hwid, way));
                    continue;
                }
                _ => continue,
            };
            let Ok(Some((via, message))) = inbox.push(piece) else {
                continue;
            };
            let is_one = match via {
                Via::Link(link) => usize::from(link) < chip.caps.links,
                Via::Lid(lid) => lid != 0 && chip.caps.far != 0,
            };
            if is_one {
                for (to, from) in buf.iter_mut().zip(message) {
                    *to = *from;
                }
                return Some((via, message.len()));
            }
        }
        None
    }
}

impl Owner for WeftPort {
    fn was_reset(&self) -> bool {
        let ctrl = self.chip.read(ext::WEFT_R_CTRL);
        self.chip.caps.is_vf
            && !self.suspended.load(Acquire)
            && ctrl != u32::MAX
            && ctrl & ext::WEFT_CTRL_ENABLE == 0
    }

    fn tell_users(&self, any: bool) {
        if let Some(to_pf) = &self.to_pf {
            to_pf.tell_users(&self.chip, any);
        }
    }

    fn asked(&self) -> Asked {
        let to_pf = self.to_pf.as_ref();
        to_pf.map_or(Asked::default(), |to_pf| to_pf.asked())
    }

    fn tell_left(&self, asked: Asked, left: u32) {
        if let Some(to_pf) = &self.to_pf {
            to_pf.tell_left(&self.chip, asked, left);
        }
    }

    fn way(&self, hwid: u64) -> Result<Way> {
        let to_pf = self.to_pf.as_ref().ok_or(ENODEV)?;
        to_pf.seek(&self.chip, hwid).ok_or(ETIMEDOUT)
    }
}
