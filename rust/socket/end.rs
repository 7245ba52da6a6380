// SPDX-License-Identifier: GPL-2.0

//! A socket: its state, and what waits for its peer.
//!
//! The peer writes the own half at any time; each word is loaded once. What is sent and received is in `transfer`.

use crate::{
    channel::{Pages, Sleeper},
    fabric::Node,
    hw::Port,
    proto::{
        fence::Fence,
        socket::{
            stream::{Receiver, Sender},
            Half, Mode, Shape, END, EVENT_AT, FULL_AT, SENT_AT, WQES_AT,
        },
        wire::Incarnation,
    },
    share::Charge,
    sys::{
        area::{self, Area},
        file::events,
        gate::Gate,
        irqlock::{new_spinlock_irq, SpinLockIrq},
        waitq::WaitQueue,
    },
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc, Mutex, SetOnce,
    },
};

/// The state of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The peer has not answered the request.
    Connecting,
    Open,
    /// The peer has closed its end, of which all is still to be fetched: it waits for that.
    Draining,
    /// The peer has closed its end.
    PeerClosed,
    /// Closed here. The peer has not confirmed.
    Closing,
    /// There is no connection any more, or none was made: with the error.
    Ended(Error),
}

/// What is fixed when a socket is made.
pub(super) struct Making {
    pub(super) id: u32,
    pub(super) link: usize,
    pub(super) service: u32,
    pub(super) shape: Shape,
    pub(super) peer: Incarnation,
    pub(super) pages: Pages,
    /// A routed link counts for the user, too.
    pub(super) _charge: Option<Charge>,
}

impl Making {
    /// Returns the offset of the half in the arena.
    pub(super) fn at(&self) -> usize {
        self.pages.first() * PAGE_SIZE
    }

    /// Returns the half, as messages describe it.
    pub(super) fn half(&self) -> Half {
        Half {
            base: self.at() as u64,
            shape: self.shape,
        }
    }
}

/// What the peer has said.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    /// Its id of the socket.
    pub(super) id: u32,
    /// Where its half is in the window.
    pub(super) base: usize,
}

/// What is locked for a change of the state, and for a store that asks the peer to ring.
struct Wakeup {
    state: State,
    /// The event indices that the peer was told.
    event: Option<u64>,
    full: Option<u64>,
    /// Quiesced: nothing is written to the peer for now.
    rests: bool,
}

/// One of the two directions, as those that wait for it see it.
pub(super) struct Direction {
    /// Waits for the peer's doorbell.
    sleeper: Sleeper,
    /// The count of the peer at which there is nothing to do; [`READY`]: there is something, whatever it has counted.
    mark: Atomic<u64>,
}

/// See [`Direction::mark`].
const READY: u64 = u64::MAX;

impl Direction {
    const fn new(mark: Option<u64>) -> Self {
        Self {
            sleeper: Sleeper::new(),
            mark: Atomic::new(match mark {
                Some(mark) => mark,
                None => READY,
            }),
        }
    }

    pub(super) fn set_mark(&self, mark: Option<u64>) {
        self.mark.store(mark.unwrap_or(READY), Release);
    }
}

/// What sends.
pub(super) struct Sending {
    pub(super) sender: Sender,
}

/// What receives.
pub(super) struct Receiving {
    pub(super) receiver: Receiver,
}

/// One end of a connection.
#[pin_data]
pub(crate) struct Socket {
    pub(super) made: Making,
    pub(super) remote: SetOnce<Remote>,
    #[pin]
    wakeup: SpinLockIrq<Wakeup>,
    /// Entered for accesses to the halves. Closed while there is no connection, or it is quiesced.
    #[pin]
    pub(super) accesses: Gate<()>,
    #[pin]
    pub(super) sending: Mutex<Sending>,
    #[pin]
    pub(super) receiving: Mutex<Receiving>,
    /// Those of the file.
    pub(super) waiters: Arc<WaitQueue>,
    pub(super) input: Direction,
    pub(super) output: Direction,
    /// Why the connection was given up here.
    pub(super) failure: SetOnce<Error>,
    /// This end receives no more: the program does not want it, or has come to the end of the stream.
    pub(super) deaf: Atomic<bool>,
    /// This end sends no more.
    pub(super) finished: Atomic<bool>,
    /// Calls that wait for `sending` or `receiving`.
    pub(super) queued: Atomic<u32>,
    /// How often the buffer-full flag was written.
    pub(super) full: Atomic<u64>,
    pub(super) sent: Atomic<u64>,
    pub(super) received: Atomic<u64>,
}

impl Socket {
    pub(super) fn new(made: Making, waiters: Arc<WaitQueue>) -> Result<Arc<Self>> {
        let shape = made.shape;
        let sender = Sender::new(shape);
        let output = Direction::new(sender.mark());
        Arc::pin_init(
            pin_init!(Self {
                made,
                remote: SetOnce::new(),
                wakeup <- new_spinlock_irq!(
                    Wakeup {
                        state: State::Connecting,
                        event: None,
                        full: None,
                        rests: false,
                    },
                    c"weft socket"
                ),
                accesses <- Gate::new(),
                sending <- new_mutex!(
                    Sending { sender },
                    "weft socket sending"
                ),
                receiving <- new_mutex!(
                    Receiving {
                        receiver: Receiver::new(shape),
                    },
                    "weft socket receiving"
                ),
                waiters,
                input: Direction::new(Some(0)),
                output,
                failure: SetOnce::new(),
                deaf: Atomic::new(false),
                finished: Atomic::new(false),
                queued: Atomic::new(0),
                full: Atomic::new(0),
                sent: Atomic::new(0),
                received: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn state(&self) -> State {
        self.wakeup.lock().state
    }

    /// Returns whether nothing keeps this end from storing into the peer's half.
    pub(super) fn writes_to_peer(&self) -> bool {
        self.state().writes()
    }

    pub(super) fn wake_all(&self) {
        self.waiters.wake_all();
    }

    /// Moves to another state, if `next` returns one for the present one. Returns the present one if so.
    pub(super) fn change(&self, next: impl FnOnce(State) -> Option<State>) -> Option<State> {
        let mut wakeup = self.wakeup.lock();
        let old = wakeup.state;
        wakeup.state = next(old)?;
        Some(old)
    }

    /// The other half is known: the socket is open, quiesced if the link is. Returns false if it was not waiting for that.
    pub(super) fn open(&self, remote: Remote, rests: bool) -> bool {
        let connecting = |state| (state == State::Connecting).then_some(State::Open);
        if self.state() != State::Connecting || !self.remote.populate(remote) {
            return false;
        }
        self.wakeup.lock().rests = rests;
        if self.change(connecting).is_none() {
            return false;
        }
        if !rests {
            self.admit();
        }
        true
    }

    fn admit(&self) {
        self.accesses.renew();
        // It was not open: the callers exclude each other, by `PerLink::rests`.
        let _ = self.accesses.open(());
    }

    /// Has accesses that have begun end, and others find the present state. Sleeps.
    pub(super) fn settle(&self) {
        if self.accesses.revoke(|| ()).is_some() {
            self.admit();
        }
    }

    /// Handles that the peer has closed its end. Returns whether nothing is stored for it any more: a socket that pulls
    /// first fetches what the peer has left. Sleeps.
    pub(super) fn close_by_peer(&self) -> bool {
        let drains = self.is_pulled() && !self.deaf.load(Relaxed) && self.error().is_none();
        self.change(|state| match state {
            State::Open if drains => Some(State::Draining),
            State::Open => Some(State::PeerClosed),
            _ => None,
        });
        self.settle();
        self.wake_all();
        self.state() != State::Draining
    }

    /// All that the peer has left was fetched, or will not be. Returns whether the peer waits for that: it is to be told.
    /// Sleeps.
    pub(super) fn drained(&self) -> bool {
        let draining = |state| (state == State::Draining).then_some(State::PeerClosed);
        let waits = self.change(draining).is_some();
        if waits {
            self.settle();
        }
        waits
    }

    /// Returns the error that calls of the program end with, if there is no connection any more.
    pub(super) fn error(&self) -> Option<Error> {
        if let Some(failure) = self.failure.as_ref() {
            return Some(*failure);
        }
        match self.state() {
            State::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Ends the socket with `error`. When this returns, this host writes nothing to the peer's half any more. Sleeps.
    pub(super) fn end(&self, error: Error) {
        self.change(|state| match state {
            State::Ended(_) => None,
            _ => Some(State::Ended(error)),
        });
        self.accesses.revoke(|| ());
        self.wake_all();
    }

    /// Quiesces the socket: when this returns, nothing is written to the peer until [`Self::go_on`]. Sleeps.
    pub(super) fn rest(&self) {
        self.wakeup.lock().rests = true;
        self.accesses.revoke(|| ());
    }

    pub(super) fn go_on(&self) {
        self.wakeup.lock().rests = false;
        if let State::Open | State::Draining | State::PeerClosed = self.state() {
            self.admit();
        }
        // Those that began to wait meanwhile have not told the peer.
        self.wake_all();
    }

    /// Returns `None` if there is something to receive, or room to send, by the counts of the peer; otherwise the count
    /// beyond which there is. Any context.
    fn missing(&self, arena: &Area, recv: bool) -> Option<u64> {
        let (direction, at) = match recv {
            true => (&self.input, SENT_AT),
            false => (&self.output, WQES_AT),
        };
        let mark = direction.mark.load(Acquire);
        let count = arena.read64(self.made.at() + at).ok()? & !END;
        (count == mark).then_some(mark)
    }

    /// Returns whether there is something to receive, or room to send. If not, and `arms`, the peer is asked to ring
    /// when there is.
    pub(super) fn is_ready(&self, node: &Node, port: &dyn Port, recv: bool, arms: bool) -> bool {
        let Ok(arena) = port.arena(self.made.link) else {
            return true;
        };
        match self.missing(&arena, recv) {
            None => true,
            // It may have come meanwhile. If it comes later, the peer rings.
            Some(mark) => {
                arms && self.arm(node, port, recv, mark) && self.missing(&arena, recv).is_none()
            }
        }
    }

    /// Tells the peer that this end waits until its count is beyond `mark`, unless the peer knows. Returns false if there
    /// is no point in waiting.
    fn arm(&self, node: &Node, port: &dyn Port, recv: bool, mark: u64) -> bool {
        let (Some(remote), Ok(window)) = (self.remote.as_ref(), port.window(self.made.link)) else {
            return false;
        };
        let direction = if recv { &self.input } else { &self.output };
        direction.sleeper.sleeps();
        // The state cannot change while the lock is held: nothing is written to the peer after it was told of the
        // change.
        let mut wakeup = self.wakeup.lock();
        if !wakeup.state.writes() {
            return false;
        }
        if wakeup.rests {
            // The waiter is woken by `go_on`.
            return true;
        }
        let (told, at, value) = match recv {
            true => (&mut wakeup.event, EVENT_AT, mark),
            false => (&mut wakeup.full, FULL_AT, mark + 1),
        };
        if *told != Some(mark) {
            *told = Some(mark);
            if !recv {
                self.full.fetch_add(1, Relaxed);
            }
            if window.write64(remote.base + at, value).is_err() {
                return false;
            }
            if Fence::Sleep.is_there() {
                area::wmb();
            }
            node.ring_echo(port, self.made.link);
        }
        true
    }

    /// Wakes waiters for which something has come: the peer has rung. Called in hard interrupts.
    pub(super) fn rung(&self, arena: &Area) {
        let mut come = 0;
        for (direction, recv, event) in [
            (&self.input, true, events::IN),
            (&self.output, false, events::OUT),
        ] {
            if direction
                .sleeper
                .rung(|| self.missing(arena, recv).is_none())
            {
                come |= event;
            }
        }
        if come != 0 {
            self.waiters.wake_for(come);
        }
    }

    /// Wakes waiters whose doorbell was lost, see [`Sleeper::recheck`].
    pub(super) fn recheck(&self, arena: &Area) {
        let mut lost = false;
        for (direction, recv) in [(&self.input, true), (&self.output, false)] {
            lost |= direction
                .sleeper
                .recheck(|| self.missing(arena, recv).is_none());
        }
        if lost {
            self.wake_all();
        }
    }

    /// Returns whether its data are fetched by their receiver.
    pub(super) fn is_pulled(&self) -> bool {
        self.made.shape.mode() == Mode::Pull
    }
}
