// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections within one process that break when told to.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;
use weftctl::failure::{Failure, Kind};
use weftctl::transfer::message::Message;
use weftctl::transfer::{Broken, Connect, NoConnection, Want, Wire};

/// What becomes of a connection.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Breaks with this message, counted from 1.
    pub after: Option<usize>,
    /// It is those to the sender that count.
    pub count_to_sender: bool,
    /// So many of those that were not received yet are lost then, the latest first.
    pub lost: usize,
    /// Messages on their way, per direction.
    pub capacity: usize,
    /// This byte of the data gets these bits flipped.
    pub damage: Option<(usize, u8)>,
}

impl Default for Fate {
    fn default() -> Self {
        Fate { after: None, count_to_sender: false, lost: 0, capacity: 64, damage: None }
    }
}

type Queue = VecDeque<(u64, Vec<u8>)>;

struct State {
    fate: Fate,
    queues: [Queue; 2],
    sent: [usize; 2],
    data_bytes: usize,
    broken: bool,
    closed: [bool; 2],
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// One end; 0 is the sender's.
pub struct End {
    shared: Arc<Shared>,
    hub: Arc<Inner>,
    side: usize,
}

impl End {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("lock")
    }

    fn broken(&self, state: &State) -> Option<Broken> {
        if state.broken {
            Some(Broken { closed: false, why: "broken by the test".into() })
        } else if state.closed[1 - self.side] {
            Some(Broken { closed: true, why: "closed by the peer".into() })
        } else {
            None
        }
    }
}

impl Wire for End {
    fn try_send(&mut self, tag: u64, payload: &[u8]) -> Result<bool, Broken> {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(broken) = self.broken(state) {
            return Err(broken);
        }
        if state.queues[self.side].len() >= state.fate.capacity {
            return Ok(false);
        }
        let mut payload = payload.to_vec();
        let is_data = matches!(Message::decode(tag, &payload), Ok(Message::Data(..)));
        if self.side == 0 && is_data {
            if let Some((at, bits)) = state.fate.damage {
                if let Some(byte) =
                    at.checked_sub(state.data_bytes).and_then(|at| payload.get_mut(at))
                {
                    *byte ^= bits;
                }
            }
            state.data_bytes += payload.len();
        }
        state.queues[self.side].push_back((tag, payload));
        state.sent[self.side] += 1;
        if self.side == 0 {
            self.hub.state.lock().expect("lock").to_receiver += 1;
        }
        let counted = usize::from(state.fate.count_to_sender);
        if state.fate.after.is_some_and(|after| state.sent[counted] >= after) {
            state.broken = true;
            for queue in &mut state.queues {
                let kept = queue.len().saturating_sub(state.fate.lost);
                queue.truncate(kept);
            }
        }
        self.shared.changed.notify_all();
        Ok(true)
    }

    fn try_receive(&mut self, payload: &mut Vec<u8>) -> Result<Option<u64>, Broken> {
        let mut state = self.state();
        match state.queues[1 - self.side].pop_front() {
            Some((tag, data)) => {
                *payload = data;
                self.shared.changed.notify_all();
                Ok(Some(tag))
            }
            None => self.broken(&state).map_or(Ok(None), Err),
        }
    }

    fn wait(&mut self, want: Want, until: Instant) -> Result<(), Broken> {
        let mut state = self.state();
        loop {
            let message = !state.queues[1 - self.side].is_empty();
            let room = state.queues[self.side].len() < state.fate.capacity;
            if message && want != Want::Room || room && want != Want::Message {
                return Ok(());
            }
            if let Some(broken) = self.broken(&state) {
                return Err(broken);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            state = self.shared.changed.wait_timeout(state, left).expect("lock").0;
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.state().closed[self.side] = true;
        self.shared.changed.notify_all();
    }
}

struct HubState {
    fates: VecDeque<Fate>,
    waiting: VecDeque<End>,
    closed: bool,
    /// No program listens; whether one may later.
    refusing: Option<bool>,
    attempts: usize,
    to_receiver: usize,
}

struct Inner {
    state: Mutex<HubState>,
    changed: Condvar,
}

/// Where a sender and a receiver meet.
pub struct Hub(Arc<Inner>);

impl Hub {
    /// The connections have these fates; those after them hold.
    pub fn new(fates: Vec<Fate>) -> Self {
        let state = HubState {
            fates: fates.into(),
            waiting: VecDeque::new(),
            closed: false,
            refusing: None,
            attempts: 0,
            to_receiver: 0,
        };
        Hub(Arc::new(Inner { state: Mutex::new(state), changed: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.0.state.lock().expect("lock")
    }

    /// The next connection; `None`: there will be none.
    pub fn accept(&self) -> Option<End> {
        let mut state = self.state();
        loop {
            if let Some(end) = state.waiting.pop_front() {
                return Some(end);
            }
            if state.closed {
                return None;
            }
            state = self.0.changed.wait(state).expect("lock");
        }
    }

    /// A sender's end of a new connection.
    pub fn connect(&self) -> End {
        let mut state = self.state();
        let shared = Shared {
            state: Mutex::new(State {
                fate: state.fates.pop_front().unwrap_or_default(),
                queues: [VecDeque::new(), VecDeque::new()],
                sent: [0; 2],
                data_bytes: 0,
                broken: false,
                closed: [false; 2],
            }),
            changed: Condvar::new(),
        };
        let shared = Arc::new(shared);
        let end = |side| End { shared: Arc::clone(&shared), hub: Arc::clone(&self.0), side };
        state.waiting.push_back(end(1));
        self.0.changed.notify_all();
        end(0)
    }

    pub fn connector(&self) -> Connector<'_> {
        Connector(self)
    }

    /// No connections after those that wait.
    pub fn close(&self) {
        self.state().closed = true;
        self.0.changed.notify_all();
    }

    /// As if no program listened, for the moment or for ever.
    pub fn refuse_from_now_on(&self, passing: bool) {
        self.state().refusing = Some(passing);
    }

    pub fn attempts(&self) -> usize {
        self.state().attempts
    }

    pub fn messages_to_receiver(&self) -> usize {
        self.state().to_receiver
    }
}

/// The sender's way to a [`Hub`].
pub struct Connector<'a>(&'a Hub);

impl Connect for Connector<'_> {
    type Wire = End;

    /// A refusal is told at once; where it may pass, no attempt after the first has an answer before `until`.
    fn connect(&mut self, until: Instant) -> Result<End, NoConnection> {
        let mut state = self.0.state();
        state.attempts += 1;
        if let Some(passing) = state.refusing {
            let unanswered = passing && state.attempts > 1;
            if unanswered {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            let why = if unanswered { "no answer" } else { "no program listens" };
            let failure = Failure::new(Kind::Unreachable, why);
            return Err(NoConnection { failure, passing, unanswered });
        }
        drop(state);
        Ok(self.0.connect())
    }
}
