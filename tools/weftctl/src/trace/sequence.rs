// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What belongs to a request, from its first message to what ends it, as the
//! rules of `Documentation/queues.rst` have it. One host's tracepoints suffice:
//! each end sees both directions.

use super::event::{Event, Role, What};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Which way a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The receive FIFO.
    Receive,
    /// The transmit FIFO.
    Transmit,
    /// The completion FIFO.
    Completion,
    /// Not a message: data, which move before the message behind this.
    Data,
}

impl Way {
    /// As in text.
    pub fn name(self) -> &'static str {
        match self {
            Way::Receive => "receive",
            Way::Transmit => "transmit",
            Way::Completion => "completion",
            Way::Data => "data",
        }
    }

    fn of(event: &Event) -> Self {
        match (event.what, event.name.as_str()) {
            (What::Word(_), _) => Way::Completion,
            (_, "LEND" | "READ" | "OFFER" | "SIZE") => Way::Transmit,
            _ => Way::Receive,
        }
    }
}

/// An arrow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Microseconds of the kernel's clock.
    pub at_us: u64,
    /// The sender; of data, where they go from.
    #[serde(serialize_with = "role")]
    pub from: Role,
    /// By which way.
    pub way: Way,
    /// Its name.
    pub name: String,
    /// Low bits of the request's number.
    pub psn: u16,
    /// Bytes of data that it carries or speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of DONE: which part. Of NAK: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde wants it.
fn role<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name(*role))
}

/// As in text.
pub fn name(role: Role) -> &'static str {
    match role {
        Role::Initiator => "initiator",
        Role::Responder => "responder",
    }
}

/// What belongs to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sequence {
    /// PCI address of the port.
    pub device: String,
    /// Link of the port.
    pub link: u32,
    /// Queue pair of this end, 0 if it is of none.
    pub qpn: u32,
    /// That of the peer, if it is known yet.
    pub peer_qpn: Option<u32>,
    /// Whether this end is the initiator; `None`: it is about the queue pair.
    pub initiator_here: Option<bool>,
    /// Low bits of the request's number.
    pub psn: u16,
    /// Whether its beginning and its end were seen.
    pub complete: bool,
    /// Message by message.
    pub steps: Vec<Step>,
    /// What was named for data that have not moved yet: bytes, and whether they are pulled.
    #[serde(skip)]
    named: VecDeque<(u64, bool)>,
    /// Bytes of data that have yet to be named, or asked for.
    #[serde(skip)]
    left: u64,
    #[serde(skip)]
    ends: Ends,
}

/// What ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// ACK of it, or of one behind it.
    Ack,
    /// All data that it has asked for.
    Data,
    /// The size, and then as above.
    Size,
    /// The old value.
    Value,
}

impl Ends {
    /// `None`: the message begins no request.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "READ" => Ends::Data,
            "SIZE" => Ends::Size,
            "FETCH_ADD" | "CMP_SWAP" => Ends::Value,
            _ if name.starts_with("SEND") || name.starts_with("WRITE") => Ends::Ack,
            _ => return None,
        })
    }
}

/// Whether `psn` is `other`, or before it.
fn is_up_to(psn: u16, other: u16) -> bool {
    other.wrapping_sub(psn) < 0x8000
}

impl Sequence {
    fn push(&mut self, event: &Event, from: Role) {
        let (bytes, detail) = match event.what {
            What::Cell(bytes) => ((bytes != 0).then_some(bytes), None),
            What::Word(detail) => {
                (None, matches!(event.name.as_str(), "DONE" | "NAK").then_some(detail))
            }
        };
        self.steps.push(Step {
            at_us: event.at,
            from,
            way: Way::of(event),
            name: event.name.clone(),
            psn: event.psn,
            bytes,
            detail,
        });
    }

    /// What was named is written, or read, before DONE says so.
    fn data(&mut self, event: &Event, from: Role) {
        let Some((bytes, pulled)) = self.named.pop_front() else { return };
        // The end that reads says DONE to the other.
        let from = if pulled { from.other() } else { from };
        self.steps.push(Step {
            at_us: event.at,
            from,
            way: Way::Data,
            name: "data".into(),
            psn: event.psn,
            bytes: Some(bytes),
            detail: None,
        });
    }

    /// Takes a message of it; returns whether it is done.
    fn take(&mut self, event: &Event, from: Role) -> bool {
        let bytes = match event.what {
            What::Cell(bytes) => bytes,
            What::Word(_) => 0,
        };
        match event.name.as_str() {
            "DONE" => self.data(event, from),
            "LEND" | "OFFER" => {
                let here = bytes.min(self.left);
                self.left -= here;
                self.named.push_back((here, event.name == "OFFER"));
            }
            "SEND_LONG" | "WRITE_LONG" | "SIZE_IS" => self.left = bytes,
            // Of a read of unknown size this is how much of it is asked for.
            "READ" => {
                self.left = self.left.saturating_sub(bytes);
                self.named.push_back((bytes, false));
            }
            _ => {}
        }
        self.push(event, from);
        match event.name.as_str() {
            "NAK" | "GONE" => true,
            "ACK" => self.ends == Ends::Ack,
            "VALUE" => self.ends == Ends::Value,
            "SIZE_IS" => self.ends == Ends::Size && bytes == 0,
            "DONE" => {
                matches!(self.ends, Ends::Data | Ends::Size)
                    && self.left == 0
                    && self.named.is_empty()
            }
            _ => false,
        }
    }
}

/// Puts requests together.
#[derive(Default)]
pub struct Sequences {
    open: Vec<Sequence>,
    peers: HashMap<(String, u32, u32), u32>,
}

impl Sequences {
    /// Takes note of a message; returns what it ends, in the order in which it began.
    pub fn take(&mut self, event: &Event) -> Vec<Sequence> {
        if event.sent && event.own != 0 {
            self.peers.insert((event.device.clone(), event.link, event.own), event.qpn);
        }
        let Some(to) = event.to else { return self.about_queue_pair(event) };
        let initiator_here = event.sent == (to == Role::Responder);
        let from = to.other();
        let mine = |s: &Sequence| s.is_of(event) && s.initiator_here == Some(initiator_here);
        match event.name.as_str() {
            "ACK" | "NAK" | "NO_RECV" => {
                return self.up_to(event, from, initiator_here);
            }
            // The size is known: what it asks for belongs to it.
            "READ" => {
                let sized = |s: &&mut Sequence| mine(s) && s.ends == Ends::Size && s.left > 0;
                if let Some(sequence) = self.open.iter_mut().find(sized) {
                    sequence.psn = event.psn;
                    sequence.take(event, from);
                    return vec![];
                }
            }
            _ => {}
        }
        let known = self.open.iter().position(|s| mine(s) && s.psn == event.psn);
        if let Some(at) = known {
            let done = self.open.get_mut(at).is_some_and(|s| s.take(event, from));
            return if done { vec![self.close(at, true)] } else { vec![] };
        }
        let mut sequence = self.new_sequence(event, Some(initiator_here));
        let begins = Ends::of(&event.name);
        sequence.ends = begins.unwrap_or(Ends::Ack);
        sequence.take(event, from);
        match begins {
            Some(_) => {
                self.open.push(sequence);
                vec![]
            }
            // Its beginning was before the trace.
            None => vec![sequence],
        }
    }

    /// What has begun and was not seen to end.
    pub fn finish(mut self) -> Vec<Sequence> {
        std::mem::take(&mut self.open)
    }

    fn new_sequence(&self, event: &Event, initiator_here: Option<bool>) -> Sequence {
        let key = (event.device.clone(), event.link, event.own);
        Sequence {
            peer_qpn: self.peers.get(&key).copied(),
            device: event.device.clone(),
            link: event.link,
            qpn: event.own,
            initiator_here,
            psn: event.psn,
            complete: false,
            steps: vec![],
            named: VecDeque::new(),
            left: 0,
            ends: Ends::Ack,
        }
    }

    fn close(&mut self, at: usize, complete: bool) -> Sequence {
        let mut sequence = self.open.remove(at);
        sequence.complete = complete;
        let key = (sequence.device.clone(), sequence.link, sequence.qpn);
        sequence.peer_qpn = self.peers.get(&key).copied();
        sequence
    }

    /// A word that speaks of a request and of all before it: those are carried out.
    fn up_to(&mut self, event: &Event, from: Role, initiator_here: bool) -> Vec<Sequence> {
        let mut ended = vec![];
        let mut at = 0;
        while let Some(sequence) = self.open.get_mut(at) {
            let mine = sequence.is_of(event)
                && sequence.initiator_here == Some(initiator_here)
                && is_up_to(sequence.psn, event.psn);
            let itself = sequence.psn == event.psn;
            // Reads, SIZE and atomics have answers of their own.
            if !mine || (!itself && sequence.ends != Ends::Ack) {
                at += 1;
                continue;
            }
            if itself {
                if sequence.take(event, from) {
                    ended.push(self.close(at, true));
                } else {
                    at += 1;
                }
            } else {
                sequence.push(event, from);
                ended.push(self.close(at, true));
            }
        }
        ended
    }

    /// The queue pair of either end is gone: so are its requests.
    fn about_queue_pair(&mut self, event: &Event) -> Vec<Sequence> {
        let mut ended = vec![];
        let mut at = 0;
        while let Some(sequence) = self.open.get_mut(at) {
            // JOIN ends nothing: an answer may come when requests are under way already.
            if event.own == 0 || event.name == "JOIN" || !sequence.is_of(event) {
                at += 1;
                continue;
            }
            let from = match sequence.initiator_here == Some(event.sent) {
                true => Role::Initiator,
                false => Role::Responder,
            };
            sequence.take(event, from);
            ended.push(self.close(at, true));
        }
        if ended.is_empty() {
            let mut sequence = self.new_sequence(event, None);
            let from = if event.sent { Role::Initiator } else { Role::Responder };
            sequence.push(event, from);
            ended.push(sequence);
        }
        ended
    }
}

impl Sequence {
    fn is_of(&self, event: &Event) -> bool {
        self.qpn == event.own && self.link == event.link && self.device == event.device
    }
}
