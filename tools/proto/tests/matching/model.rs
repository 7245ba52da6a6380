// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an engine has to do, in the plainest way: lists are vectors, searched from the front.

use std::collections::BTreeMap;
use weft_proto::matching::{
    endpoint::{Config, State},
    engine::hand_over::{Given, SHORT_NS},
    outcome::{Outcome, Reason, Receipt, Resume},
    request::{Buffer, Command, Criteria, Header, List, Message, Op, Work},
};

/// A buffer in a list. Its number tells it from all others.
#[derive(Clone, Debug)]
struct Listed {
    number: usize,
    buffer: Buffer,
}

#[derive(Clone, Debug)]
struct Stored {
    header: Header,
    /// The overflow buffer that has its eager bytes.
    overflow: Option<usize>,
}

pub struct Lists {
    pub config: Config,
    pub state: State,
    returning: bool,
    refused: bool,
    priority: Vec<Listed>,
    overflow: Vec<Listed>,
    request: Vec<Listed>,
    /// Overflow buffers that were unlinked: their context.
    unlinked: BTreeMap<usize, u64>,
    unexpected: Vec<Stored>,
    claimed: Vec<(u64, Stored)>,
    appending: Option<Listed>,
    short_since: Option<u64>,
}

impl Lists {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Disabled,
            returning: false,
            refused: false,
            priority: vec![],
            overflow: vec![],
            request: vec![],
            unlinked: BTreeMap::new(),
            unexpected: vec![],
            claimed: vec![],
            appending: None,
            short_since: None,
        }
    }

    pub fn entries(&self) -> usize {
        self.priority.len()
            + self.overflow.len()
            + self.request.len()
            + self.unlinked.len()
            + self.unexpected.len()
            + self.claimed.len()
            + usize::from(self.appending.is_some())
    }

    pub fn count(&self, list: List) -> usize {
        match list {
            List::Priority => self.priority.len(),
            List::Overflow => self.overflow.len(),
            List::Unexpected => self.unexpected.len(),
            List::Request => self.request.len(),
            List::Claimed => self.claimed.len(),
            _ => 0,
        }
    }

    fn users(&self, overflow: usize) -> usize {
        let is = |stored: &Stored| stored.overflow == Some(overflow);
        self.unexpected.iter().filter(|stored| is(stored)).count()
            + self.claimed.iter().filter(|(_, stored)| is(stored)).count()
    }

    fn criteria(&self, criteria: Criteria) -> Criteria {
        if self.config.matching {
            criteria
        } else {
            Criteria::ANY
        }
    }

    /// The header as a program sees it.
    fn shown(&self, stored: &Stored) -> Header {
        let Some(overflow) = stored.overflow else {
            return stored.header;
        };
        let listed = self
            .overflow
            .iter()
            .find(|listed| listed.number == overflow);
        Header {
            context: match listed {
                Some(listed) => listed.buffer.context,
                None => self.unlinked[&overflow],
            },
            ..stored.header
        }
    }

    /// What its overflow buffer is freed by, when a header is in no list any more.
    fn freed(&mut self, stored: &Stored) -> Option<u64> {
        let Some(overflow) = stored.overflow else {
            // Given back, with bytes of its own.
            return (stored.header.eager > 0).then_some(stored.header.context);
        };
        if self.users(overflow) > 0 {
            return None;
        }
        self.unlinked.remove(&overflow)
    }

    fn drop_overflow(&mut self, at: usize) {
        let listed = self.overflow.remove(at);
        if self.users(listed.number) > 0 {
            self.unlinked.insert(listed.number, listed.buffer.context);
        }
    }
}

/// What has come of a step, but for the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub outcome: Outcome,
    pub more: bool,
    pub freed: Option<u64>,
    pub hold: Option<bool>,
    pub again: bool,
    pub resume: Resume,
}

fn told(outcome: Outcome) -> Told {
    Told {
        outcome,
        more: false,
        freed: None,
        hold: None,
        again: false,
        resume: Resume::None,
    }
}

fn rejected(reason: Reason) -> Told {
    told(Outcome::Rejected(reason))
}

pub struct Model {
    pub capacity: usize,
    pub reserve: usize,
    pub endpoints: Vec<Lists>,
    numbers: usize,
    starved: bool,
}

fn fit(buffer: &mut Buffer, header: Header, offset: u64, stored: bool) -> Receipt {
    let offset = match buffer.options.manage_local {
        true => buffer.offset,
        false => offset,
    };
    let offset = offset.min(buffer.length);
    let length = header.length.min(buffer.length - offset);
    let address = buffer.address + offset;
    if buffer.options.manage_local {
        buffer.offset += length;
    }
    Receipt {
        header,
        stored,
        context: buffer.context,
        address,
        length,
        unlinked: over(buffer),
        full: buffer.options.full,
        counting: buffer.options.counting,
    }
}

fn over(buffer: &Buffer) -> bool {
    let small = buffer.length - buffer.offset.min(buffer.length) < u64::from(buffer.min_free);
    !buffer.options.persistent || buffer.options.manage_local && small
}

fn header_of(message: &Message) -> Header {
    Header {
        source: message.source,
        bits: message.bits,
        length: message.length,
        eager: u64::from(message.eager).min(message.length) as u32,
        data: message.data,
        cookie: message.cookie,
        address: 0,
        context: 0,
    }
}

fn accepts(criteria: Criteria, source: u32, bits: u64) -> bool {
    criteria.source.unwrap_or(source) == source
        && (0..64).all(|bit| {
            let mask = 1u64 << bit;
            criteria.ignore & mask != 0 || criteria.bits & mask == bits & mask
        })
}

impl Model {
    pub fn new(capacity: usize, reserve: usize, configs: &[Config]) -> Self {
        Self {
            capacity,
            reserve,
            endpoints: configs.iter().map(|config| Lists::new(*config)).collect(),
            numbers: 0,
            starved: false,
        }
    }

    pub fn free(&self) -> usize {
        self.capacity - self.endpoints.iter().map(Lists::entries).sum::<usize>()
    }

    fn has_room(&self, n: usize) -> bool {
        let at = &self.endpoints[n];
        self.free() > 0 && at.entries() < at.config.limit as usize
    }

    fn is_short(&self, n: usize) -> bool {
        let at = &self.endpoints[n];
        let scarce = self.free() <= self.reserve || at.entries() >= at.config.limit as usize;
        scarce && at.config.hand_over && !at.request.is_empty()
    }

    fn list(&mut self, buffer: Buffer) -> Listed {
        self.numbers += 1;
        Listed {
            number: self.numbers,
            buffer,
        }
    }

    pub fn execute(&mut self, n: usize, work: &Work, now: u64) -> Told {
        let told = match work {
            Work::Message(message) => self.message(n, message),
            Work::Command(command) => self.command(n, command, now),
        };
        self.finish(n, told)
    }

    pub fn go_on(&mut self, n: usize) -> Told {
        let told = self.compare(n);
        self.finish(n, told)
    }

    fn finish(&mut self, n: usize, mut told: Told) -> Told {
        if told.outcome != Outcome::NoSpace {
            let posted = told.outcome == Outcome::Appended;
            let posted = posted && self.endpoints[n].state == State::Enabled;
            told.resume = self.resume(n, posted);
        }
        told
    }

    /// Whether sources can be resumed after anything but a refusal; `posted`: a buffer was posted.
    pub fn resume(&mut self, n: usize, posted: bool) -> Resume {
        let (free, room) = (self.free(), self.has_room(n));
        let at = &mut self.endpoints[n];
        let takes = match at.state {
            State::Disabled => true,
            State::Enabled => room && !at.overflow.is_empty(),
            State::Onload => false,
            State::Software => !at.returning && !at.request.is_empty(),
        };
        if self.starved && free > 0 {
            self.starved = false;
            at.refused = false;
            Resume::All
        } else if at.refused && (posted || takes) {
            at.refused = false;
            Resume::Endpoint
        } else {
            Resume::None
        }
    }

    /// The same after an endpoint was closed.
    pub fn relieve(&mut self) -> bool {
        let relieved = self.starved && self.free() > 0;
        self.starved &= !relieved;
        relieved
    }

    fn message(&mut self, n: usize, message: &Message) -> Told {
        let header = header_of(message);
        let at = &mut self.endpoints[n];
        match at.state {
            State::Disabled => return told(Outcome::Drop(Reason::Disabled)),
            State::Software if !at.returning => {
                if message.op != Op::Put || message.offset.is_some() {
                    return told(Outcome::Drop(Reason::Software));
                }
                return self.store_for_program(n, header);
            }
            State::Onload | State::Software => {
                return Told {
                    hold: Some(true),
                    again: true,
                    ..told(Outcome::Held)
                }
            }
            State::Enabled => {}
        }
        let found = (at.priority.iter())
            .position(|listed| accepts(listed.buffer.criteria, message.source, message.bits));
        if let Some(place) = found {
            let buffer = &mut at.priority[place].buffer;
            let allowed = match message.op {
                Op::Put | Op::Atomic => buffer.options.put,
                Op::Get => buffer.options.get,
                Op::Fetch => buffer.options.put && buffer.options.get,
            };
            if !allowed {
                return told(Outcome::Drop(Reason::Denied));
            }
            let receipt = fit(buffer, header, message.offset.unwrap_or(0), false);
            if receipt.unlinked {
                at.priority.remove(place);
            }
            return told(Outcome::Receive(receipt));
        }
        if message.op != Op::Put || message.offset.is_some() {
            return told(Outcome::Drop(Reason::NoBuffer));
        }
        self.unexpected(n, header)
    }

    fn unexpected(&mut self, n: usize, mut header: Header) -> Told {
        if self.is_short(n) {
            return Told {
                again: true,
                ..self.hand_over(n)
            };
        }
        if !self.has_room(n) {
            self.starved |= self.free() == 0;
            self.endpoints[n].refused = true;
            return told(Outcome::NoSpace);
        }
        let at = &mut self.endpoints[n];
        let found = (at.overflow.iter())
            .position(|listed| accepts(listed.buffer.criteria, header.source, header.bits));
        let Some(place) = found else {
            if header.eager > 0 {
                at.refused = true;
                return told(Outcome::NoSpace);
            }
            at.unexpected.push(Stored {
                header,
                overflow: None,
            });
            return told(Outcome::Unexpected(Receipt {
                header,
                ..Receipt::NONE
            }));
        };
        let mut buffer = at.overflow[place].buffer;
        let eager = Header {
            length: u64::from(header.eager),
            ..header
        };
        let mut receipt = fit(&mut buffer, eager, 0, false);
        if receipt.length < eager.length {
            at.refused = true;
            return told(Outcome::NoSpace);
        }
        header.address = receipt.address;
        receipt.header = header;
        at.overflow[place].buffer = buffer;
        at.unexpected.push(Stored {
            header,
            overflow: Some(at.overflow[place].number),
        });
        if receipt.unlinked {
            at.drop_overflow(place);
        }
        told(Outcome::Unexpected(receipt))
    }

    fn store_for_program(&mut self, n: usize, header: Header) -> Told {
        let at = &mut self.endpoints[n];
        let Some(first) = at.request.first_mut() else {
            at.refused = true;
            return told(Outcome::NoSpace);
        };
        let mut buffer = first.buffer;
        let eager = Header {
            length: u64::from(header.eager),
            ..header
        };
        let mut receipt = fit(&mut buffer, eager, 0, false);
        if receipt.length < eager.length {
            at.refused = true;
            return told(Outcome::NoSpace);
        }
        receipt.header = Header {
            address: receipt.address,
            ..header
        };
        first.buffer = buffer;
        if receipt.unlinked {
            at.request.remove(0);
        }
        told(Outcome::Software(receipt))
    }

    fn hand_over(&mut self, n: usize) -> Told {
        let at = &mut self.endpoints[n];
        at.state = State::Onload;
        at.returning = false;
        at.short_since = None;
        Told {
            hold: Some(true),
            ..told(Outcome::HandOver)
        }
    }

    fn command(&mut self, n: usize, command: &Command, now: u64) -> Told {
        let at = &mut self.endpoints[n];
        match *command {
            Command::Append(list, buffer) => self.append(n, list, buffer),
            Command::Search(criteria) => match at.find(criteria) {
                Some(place) => told(Outcome::Found(at.shown(&at.unexpected[place]))),
                None => told(Outcome::NotFound),
            },
            Command::SearchAndDelete {
                criteria,
                context,
                discard,
            } => {
                let Some(place) = at.find(criteria) else {
                    return told(Outcome::NotFound);
                };
                let shown = at.shown(&at.unexpected[place]);
                let mut stored = at.unexpected.remove(place);
                if discard {
                    return Told {
                        freed: at.freed(&stored),
                        ..told(Outcome::Discarded(shown))
                    };
                }
                stored.header.context = context;
                at.claimed.push((context, stored));
                told(Outcome::Claimed(shown))
            }
            Command::Receive {
                context,
                address,
                length,
            } => {
                if address.checked_add(length).is_none() {
                    return rejected(Reason::Invalid);
                }
                let place = at.claimed.iter().position(|(by, _)| *by == context);
                let Some(place) = place else {
                    return told(Outcome::NotFound);
                };
                let shown = at.shown(&at.claimed[place].1);
                let (_, stored) = at.claimed.remove(place);
                Told {
                    freed: at.freed(&stored),
                    ..told(Outcome::Receive(Receipt {
                        header: shown,
                        stored: true,
                        context,
                        address,
                        length: length.min(shown.length),
                        unlinked: true,
                        full: true,
                        counting: false,
                    }))
                }
            }
            Command::Unlink { context } => at.unlink(context),
            Command::Enable => {
                let returns = at.state == State::Software && at.returning;
                if !returns && !matches!(at.state, State::Disabled | State::Enabled) {
                    return rejected(Reason::State);
                }
                at.state = State::Enabled;
                at.returning = false;
                Told {
                    hold: Some(false),
                    ..told(Outcome::State(State::Enabled))
                }
            }
            Command::Disable => {
                at.state = State::Disabled;
                at.returning = false;
                Told {
                    hold: Some(false),
                    ..told(Outcome::State(State::Disabled))
                }
            }
            Command::HandOver if at.state == State::Enabled && at.config.hand_over => {
                self.hand_over(n)
            }
            Command::HandOver => rejected(Reason::State),
            Command::Report { entries } => self.report(n, entries, now),
            Command::AppendHeader(header) => {
                let end = header.address.checked_add(u64::from(header.eager));
                if end.is_none() || u64::from(header.eager) > header.length {
                    return rejected(Reason::Invalid);
                }
                if at.state != State::Software || !at.returning {
                    return rejected(Reason::State);
                }
                if self.is_short(n) || !self.has_room(n) {
                    return self.hand_over(n);
                }
                self.endpoints[n].unexpected.push(Stored {
                    header,
                    overflow: None,
                });
                told(Outcome::Appended)
            }
        }
    }

    fn append(&mut self, n: usize, list: List, mut buffer: Buffer) -> Told {
        let at = &mut self.endpoints[n];
        if !matches!(list, List::Priority | List::Overflow | List::Request)
            || buffer.address.checked_add(buffer.length).is_none()
            || buffer.offset > buffer.length
            || list != List::Priority && !buffer.options.put
        {
            return rejected(Reason::Invalid);
        }
        buffer.criteria = at.criteria(buffer.criteria);
        if list == List::Request {
            buffer.criteria = Criteria::ANY;
            return self.append_only(n, list, buffer);
        }
        let returns = at.state == State::Software && at.returning;
        if !returns && !matches!(at.state, State::Disabled | State::Enabled) {
            return rejected(Reason::Software);
        }
        if list == List::Priority && !buffer.options.persistent && buffer.options.put {
            if let Some(place) = at.find(buffer.criteria) {
                return at.receive(place, &mut buffer);
            }
        }
        let disabled = at.state == State::Disabled;
        if self.is_short(n) && !disabled {
            return self.hand_over(n);
        }
        if list == List::Overflow {
            return self.append_only(n, list, buffer);
        }
        if !self.has_room(n) {
            return rejected(Reason::NoEntry);
        }
        let listed = self.list(buffer);
        self.endpoints[n].appending = Some(listed);
        self.compare(n)
    }

    fn append_only(&mut self, n: usize, list: List, buffer: Buffer) -> Told {
        if !self.has_room(n) {
            return rejected(Reason::NoEntry);
        }
        let listed = self.list(buffer);
        match list {
            List::Overflow => self.endpoints[n].overflow.push(listed),
            _ => self.endpoints[n].request.push(listed),
        }
        told(Outcome::Appended)
    }

    fn compare(&mut self, n: usize) -> Told {
        let at = &mut self.endpoints[n];
        let Some(mut listed) = at.appending.take() else {
            return told(Outcome::Appended);
        };
        let found = match listed.buffer.options.put {
            true => at.find(listed.buffer.criteria),
            false => None,
        };
        let Some(place) = found else {
            at.priority.push(listed);
            return told(Outcome::Appended);
        };
        let mut told = at.receive(place, &mut listed.buffer);
        if !over(&listed.buffer) {
            at.appending = Some(listed);
            told.more = true;
        }
        told
    }

    fn report(&mut self, n: usize, entries: u32, now: u64) -> Told {
        let (free, reserve, capacity) = (self.free(), self.reserve, self.capacity);
        let at = &mut self.endpoints[n];
        if at.state != State::Software || at.returning {
            return rejected(Reason::State);
        }
        let most = (at.config.limit as usize).min(capacity);
        let fits = free > entries as usize + reserve;
        if entries as usize >= most / 2 || !fits {
            at.short_since = None;
            return told(Outcome::Noted);
        }
        let since = *at.short_since.get_or_insert(now);
        if now - since < SHORT_NS {
            return told(Outcome::Noted);
        }
        at.short_since = None;
        at.returning = true;
        Told {
            hold: Some(true),
            ..told(Outcome::Return)
        }
    }

    /// What is given next; `None` at the end.
    pub fn give(&mut self, n: usize) -> Option<Given> {
        let given = self.pop(n, false);
        if given.is_none() {
            self.endpoints[n].state = State::Software;
        }
        given
    }

    pub fn clear(&mut self, n: usize) -> Option<Given> {
        let at = &mut self.endpoints[n];
        at.state = State::Disabled;
        at.returning = false;
        at.appending = None;
        self.pop(n, true)
    }

    fn pop(&mut self, n: usize, all: bool) -> Option<Given> {
        let at = &mut self.endpoints[n];
        if !at.priority.is_empty() {
            let listed = at.priority.remove(0);
            return Some(Given::Buffer(List::Priority, listed.buffer));
        }
        if let Some(listed) = at.overflow.first().cloned() {
            at.drop_overflow(0);
            return Some(Given::Buffer(List::Overflow, listed.buffer));
        }
        if all && !at.request.is_empty() {
            let listed = at.request.remove(0);
            return Some(Given::Buffer(List::Request, listed.buffer));
        }
        if !at.unexpected.is_empty() {
            let shown = at.shown(&at.unexpected[0]);
            let stored = at.unexpected.remove(0);
            at.freed(&stored);
            return Some(Given::Header(shown, None));
        }
        if at.claimed.is_empty() {
            return None;
        }
        let shown = at.shown(&at.claimed[0].1);
        let (context, stored) = at.claimed.remove(0);
        at.freed(&stored);
        Some(Given::Header(shown, Some(context)))
    }
}

impl Lists {
    fn find(&self, criteria: Criteria) -> Option<usize> {
        let criteria = self.criteria(criteria);
        (self.unexpected.iter())
            .position(|stored| accepts(criteria, stored.header.source, stored.header.bits))
    }

    fn receive(&mut self, place: usize, buffer: &mut Buffer) -> Told {
        let shown = self.shown(&self.unexpected[place]);
        let stored = self.unexpected.remove(place);
        Told {
            freed: self.freed(&stored),
            ..told(Outcome::Receive(fit(buffer, shown, 0, true)))
        }
    }

    /// The oldest buffer with a context, of whatever list.
    fn unlink(&mut self, context: u64) -> Told {
        let mut all: Vec<(usize, List)> = vec![];
        for (list, of) in [
            (List::Priority, &self.priority),
            (List::Overflow, &self.overflow),
            (List::Request, &self.request),
        ] {
            let with = of.iter().filter(|listed| listed.buffer.context == context);
            all.extend(with.map(|listed| (listed.number, list)));
        }
        let Some((number, list)) = all.into_iter().min_by_key(|(number, _)| *number) else {
            return told(Outcome::NotFound);
        };
        let is = |listed: &Listed| listed.number == number;
        match list {
            List::Priority => self.priority.retain(|listed| !is(listed)),
            List::Request => self.request.retain(|listed| !is(listed)),
            _ => {
                if let Some(place) = self.overflow.iter().position(is) {
                    self.drop_overflow(place);
                }
            }
        }
        told(Outcome::Unlinked(context))
    }
}
