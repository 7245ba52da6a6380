// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two ends of the link queues ("trunk" in the code): positions and credit of their FIFOs, and the
//! order in which they are read.
//!
//! [`Outbound`] writes into the peer's link queues through the window and posts locally, in its own,
//! what the peer is to pull. [`Inbound`] reads its own link queues and returns credit in batches.
//! Everything that is pushed is stored by the sender and loaded by the receiver from its own memory. The
//! peer can write what is loaded at any time: each word is loaded once, checked, and then used.
//!
//! The receive and the transmit FIFO are read in the order in which both were written: a cell of the
//! latter says how many of the former came before it. So the requests of a queue pair keep their
//! order though they use two FIFOs. This file is independent of queue pairs and doorbells.

use super::{
    fence::Fence,
    request::{self, Address, Data, Lane, Message, HEAD},
    trunk::{
        Fault, Layout, Slots, CELL_BYTES, CQ_CREDIT_AT, EVENT_AT, PULL_CQ_CREDIT_AT,
        PULL_CQ_TAIL_AT, PULL_CREDIT_AT, PULL_TAIL_AT, RX_CREDIT_AT, TX_CREDIT_AT,
    },
    window::{passed, Area, Window},
    word::Word,
};

const PHASE: u64 = 1 << 63;

/// Credit is returned for this many slots at once, or for a quarter of all slots if that is more.
const EARLY: u64 = 16;

/// Reason why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no room until the peer has taken something.
    Full,
    /// The peer broke the protocol.
    Corrupt(Fault),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Corrupt(fault)
    }
}

/// The end of a FIFO that fills its slots.
#[derive(Debug)]
struct Writer {
    slots: Slots,
    credit_at: usize,
    written: u64,
    taken: u64,
}

impl Writer {
    const fn new(slots: Slots, credit_at: usize) -> Self {
        Self {
            slots,
            credit_at,
            written: 0,
            taken: 0,
        }
    }

    /// Loads the count of slots that the peer has taken.
    ///
    /// No fence: a store into a slot that has become free depends on the value loaded here, and no
    /// processor makes a speculative store visible.
    fn refresh(&mut self, area: &impl Area) -> Result<(), Fault> {
        let taken = area.load(self.credit_at);
        if taken < self.taken || taken > self.written {
            return Err(Fault::Count);
        }
        self.taken = taken;
        Ok(())
    }

    /// Returns the number of free slots.
    const fn free(&self) -> u64 {
        self.slots.count() as u64 - (self.written - self.taken)
    }

    /// Makes sure that `count` slots are free; [`Error::Full`] if they are not.
    #[inline]
    fn reserve(&mut self, area: &impl Area, count: u64) -> Result<(), Error> {
        if self.free() >= count {
            return Ok(());
        }
        self.refresh(area)?;
        if self.free() >= count {
            Ok(())
        } else {
            Err(Error::Full)
        }
    }

    /// Stores a message into a slot that was reserved.
    fn cell<P: AsRef<[u8]>>(
        &mut self,
        window: &impl Window,
        address: Address,
        message: &Message<P>,
        order: Option<u64>,
    ) {
        let at = self.slots.place(self.written);
        let store = window.places(at, CELL_BYTES / 8);
        let head = request::encode(address, message, order, &store);
        window.wmb(Fence::Publish);
        store(HEAD, head | self.slots.phase(self.written));
        self.written += 1;
    }

    /// Takes a reserved slot for `word`. Returns its offset and the value to be stored there.
    fn word(&mut self, word: &Word) -> (usize, u64) {
        let number = self.written;
        self.written += 1;
        (self.slots.place(number), word.encode(number, self.slots))
    }
}

/// The end of a FIFO that empties its slots.
#[derive(Debug)]
struct Reader {
    slots: Slots,
    credit_at: usize,
    taken: u64,
    returned: u64,
}

impl Reader {
    const fn new(slots: Slots, credit_at: usize) -> Self {
        Self {
            slots,
            credit_at,
            taken: 0,
            returned: 0,
        }
    }

    /// Returns the head of the next cell, if it has come.
    fn head(&self, area: &impl Area) -> Option<u64> {
        let head = area.load(self.slots.place(self.taken) + 8 * HEAD);
        if head & PHASE != self.slots.phase(self.taken) {
            return None;
        }
        area.rmb(Fence::Head);
        Some(head)
    }

    /// Loads word `n` of the next cell.
    #[inline]
    fn load(&self, area: &impl Area, n: usize) -> u64 {
        area.load(self.slots.place(self.taken) + 8 * n)
    }

    /// Returns whether the peer has posted another slot in its own memory. `tail` is the count at the
    /// last call and is updated; `at` is the offset at which the peer stores the count.
    fn is_offered(&self, area: &impl Area, at: usize, tail: &mut u64) -> Result<bool, Fault> {
        if *tail == self.taken {
            let now = area.load(at);
            if now < *tail || now > self.taken + u64::from(self.slots.count()) {
                return Err(Fault::Count);
            }
            *tail = now;
            area.rmb(Fence::Head);
        }
        Ok(*tail != self.taken)
    }

    /// Returns whether the peer may have posted another slot: a hint that [`Self::is_offered`] checks.
    fn may_be_offered(&self, area: &impl Area, at: usize, tail: u64) -> bool {
        tail != self.taken || area.load(at) != tail
    }

    /// Returns the next word and takes it, if it has come.
    fn word(&mut self, area: &impl Area) -> Result<Option<Word>, Fault> {
        let word = area.load(self.slots.place(self.taken));
        let word = Word::decode(word, self.taken, self.slots)?;
        if word.is_some() {
            // Data that a word refers to are loaded after it.
            area.rmb(Fence::Head);
            self.taken += 1;
        }
        Ok(word)
    }

    /// Returns whether so many slots were taken that credit is to be returned.
    fn is_due(&self) -> bool {
        self.taken - self.returned >= EARLY.max(u64::from(self.slots.count()) / 4)
    }

    /// Returns all credit to the peer.
    fn flush(&mut self, window: &impl Window) {
        if self.returned != self.taken {
            window.wmb(Fence::Credit);
            window.store(self.credit_at, self.taken);
            self.returned = self.taken;
        }
    }
}

/// The sending side of this end. In its functions `area` is this end's link queues (loads), `window` the
/// peer's (stores), and `own` this end's again (stores).
#[derive(Debug)]
pub struct Outbound {
    rx: Writer,
    tx: Writer,
    cq: Writer,
    cells: Writer,
    words: Writer,
    /// Counts of [`Self::cells`] and of [`Self::words`] that the peer was told.
    offered: u64,
    offered_words: u64,
    /// Total ([`Self::total`]) at the last check for a doorbell.
    kicked: u64,
    /// The peer's event index at that check.
    event: u64,
    /// Total at the last check at which everything was stored.
    told: u64,
}

impl Outbound {
    /// Creates the state at the beginning of a session between link queues of these layouts.
    pub const fn new(own: Layout, peer: Layout) -> Self {
        Self {
            rx: Writer::new(peer.rx(), RX_CREDIT_AT),
            tx: Writer::new(peer.tx(), TX_CREDIT_AT),
            cq: Writer::new(peer.cq(), CQ_CREDIT_AT),
            cells: Writer::new(own.out_cells(), PULL_CREDIT_AT),
            words: Writer::new(own.out_words(), PULL_CQ_CREDIT_AT),
            offered: 0,
            offered_words: 0,
            kicked: 0,
            event: 0,
            told: 0,
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut Writer {
        match lane {
            Lane::Receive => &mut self.rx,
            Lane::Transmit => &mut self.tx,
            Lane::Pulled => &mut self.cells,
        }
    }

    /// Returns how many cells were written to `lane`.
    pub const fn written(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Receive => self.rx.written,
            Lane::Transmit => self.tx.written,
            Lane::Pulled => self.cells.written,
        }
    }

    /// Returns how many cells of `lane` the peer is known to have taken. The bytes of the eager ring
    /// that they name are free.
    pub const fn taken(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Receive => self.rx.taken,
            Lane::Transmit => self.tx.taken,
            Lane::Pulled => self.cells.taken,
        }
    }

    /// Loads the counts that the peer has taken.
    pub fn refresh(&mut self, area: &impl Area) -> Result<(), Fault> {
        for writer in [
            &mut self.rx,
            &mut self.tx,
            &mut self.cq,
            &mut self.cells,
            &mut self.words,
        ] {
            writer.refresh(area)?;
        }
        Ok(())
    }

    /// Makes sure that `count` cells can be written to `lane`.
    pub fn reserve_cells(&mut self, area: &impl Area, lane: Lane, count: u64) -> Result<(), Error> {
        self.lane(lane).reserve(area, count)
    }

    /// Makes sure that `count` words can be written.
    pub fn reserve_words(&mut self, area: &impl Area, count: u64) -> Result<(), Error> {
        self.cq.reserve(area, count)
    }

    /// Makes sure that `count` words can be posted locally to be pulled.
    pub fn reserve_offered_words(&mut self, area: &impl Area, count: u64) -> Result<(), Error> {
        self.words.reserve(area, count)
    }

    /// Writes a message to the FIFO of its lane.
    pub fn send<P: AsRef<[u8]>>(
        &mut self,
        area: &impl Area,
        window: &impl Window,
        address: Address,
        message: &Message<P>,
    ) -> Result<(), Error> {
        let lane = message.lane();
        let order = match message {
            _ if lane == Lane::Transmit => Some(self.rx.written),
            Message::Gone(_) => Some(self.cq.written),
            _ => None,
        };
        let writer = self.lane(lane);
        writer.reserve(area, 1)?;
        writer.cell(window, address, message, order);
        Ok(())
    }

    /// Writes a word.
    pub fn word(
        &mut self,
        area: &impl Area,
        window: &impl Window,
        word: &Word,
    ) -> Result<(), Error> {
        let (at, word) = self.claim(area, word)?;
        // The word refers to data that were stored before.
        window.wmb(Fence::Publish);
        window.store(at, word);
        Ok(())
    }

    /// Takes the slot of the next word, for a caller that stores it by other means. Returns the offset
    /// in the peer's link queues and the value to store. The peer sees later words only once this one is
    /// stored. To be followed by [`Self::needs_kick`], and once the word is stored by
    /// [`Self::needs_late_kick`].
    pub fn claim(&mut self, area: &impl Area, word: &Word) -> Result<(usize, u64), Error> {
        self.cq.reserve(area, 1)?;
        Ok(self.cq.word(word))
    }

    /// Posts a request locally to be pulled. [`Self::tell`] tells the peer.
    pub fn offer<P: AsRef<[u8]>>(
        &mut self,
        area: &impl Area,
        own: &impl Window,
        address: Address,
        message: &Message<P>,
    ) -> Result<(), Error> {
        self.cells.reserve(area, 1)?;
        let order = Some(self.rx.written);
        self.cells.cell(own, address, message, order);
        Ok(())
    }

    /// Stores the counts of what is to be pulled in the peer's link queues.
    pub fn tell(&mut self, window: &impl Window) {
        for (writer, offered, at) in [
            (&self.cells, &mut self.offered, PULL_TAIL_AT),
            (&self.words, &mut self.offered_words, PULL_CQ_TAIL_AT),
        ] {
            if *offered != writer.written {
                window.wmb(Fence::Publish);
                window.store(at, writer.written);
                *offered = writer.written;
            }
        }
    }

    /// Posts a word locally to be pulled. [`Self::tell`] tells the peer.
    pub fn offer_word(
        &mut self,
        area: &impl Area,
        own: &impl Window,
        word: &Word,
    ) -> Result<(), Error> {
        self.words.reserve(area, 1)?;
        let (at, word) = self.words.word(word);
        own.store(at, word);
        Ok(())
    }

    /// Returns the number of slots that were written or posted locally.
    const fn total(&self) -> u64 {
        self.rx.written
            + self.tx.written
            + self.cq.written
            + self.cells.written
            + self.words.written
    }

    /// Returns whether the peer sleeps and its doorbell is to be rung for what was written since the
    /// last call. Rings, too, for what was written before, if the peer has asked since: it may not have
    /// seen that when it did.
    pub fn needs_kick(&mut self, area: &impl Area, window: &impl Window) -> bool {
        let total = self.total();
        if self.kicked == total {
            return false;
        }
        window.mb(Fence::WakeReceiver);
        let event = area.load(EVENT_AT);
        let before = core::mem::replace(&mut self.kicked, total);
        let is_new = core::mem::replace(&mut self.event, event) != event;
        passed(event, if is_new { 0 } else { before }, total)
    }

    /// Returns whether anything was written or posted locally since the last check for a doorbell.
    pub const fn has_unkicked(&self) -> bool {
        self.kicked != self.total()
    }

    /// Notes that everything written is stored, or precedes its doorbell on the same path.
    pub fn told_all(&mut self) {
        self.told = self.kicked;
    }

    /// Returns whether the peer sleeps and was last rung, if at all, before everything written by other
    /// means was stored. A doorbell that now takes the same path as those writes comes in time.
    pub fn needs_late_kick(&mut self, area: &impl Area, window: &impl Window) -> bool {
        let total = self.total();
        window.mb(Fence::WakeReceiver);
        let event = area.load(EVENT_AT);
        self.kicked = total;
        passed(event, core::mem::replace(&mut self.told, total), total)
    }
}

/// A cell that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// FIFO that it has come by.
    pub lane: Lane,
    /// Destination.
    pub address: Address,
    /// Contents.
    pub message: Message,
}

/// Where the next message of what makes and ends connections shows: it has the receive FIFO, or is posted to be
/// pulled.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Offset of the head of the next cell, and its phase bit.
    head_at: usize,
    phase: u64,
    /// Count of what was posted to be pulled.
    tail: u64,
}

impl Next {
    /// Returns whether there may be one. A hint, since the peer may write anything: what has come is checked by the
    /// functions of [`Inbound`].
    pub fn has_come(&self, area: &impl Area) -> bool {
        area.load(self.head_at) & PHASE == self.phase || area.load(PULL_TAIL_AT) != self.tail
    }
}

/// The receiving side of this end. In its functions `area` is this end's link queues (loads), `window`
/// the peer's (stores), and `remote` the peer's again (loads over the bridge).
#[derive(Debug)]
pub struct Inbound {
    own: Layout,
    peer: Layout,
    rx: Reader,
    tx: Reader,
    cq: Reader,
    cells: Reader,
    words: Reader,
    /// Counts of cells and of words that the peer has posted to be pulled.
    tail: u64,
    word_tail: u64,
    /// Bytes of the eager ring that were taken and not returned.
    owed: u64,
}

impl Inbound {
    /// Creates the state at the beginning of a session between link queues of these layouts.
    pub const fn new(own: Layout, peer: Layout) -> Self {
        Self {
            own,
            peer,
            rx: Reader::new(own.rx(), RX_CREDIT_AT),
            tx: Reader::new(own.tx(), TX_CREDIT_AT),
            cq: Reader::new(own.cq(), CQ_CREDIT_AT),
            cells: Reader::new(peer.out_cells(), PULL_CREDIT_AT),
            words: Reader::new(peer.out_words(), PULL_CQ_CREDIT_AT),
            tail: 0,
            word_tail: 0,
            owed: 0,
        }
    }

    /// Returns the next cell of the receive and transmit FIFOs without taking it.
    #[inline]
    pub fn peek(&self, area: &impl Area) -> Result<Option<Arrived>, Fault> {
        let rx = self.rx.head(area);
        // From here on, everything is visible that was written before that cell.
        let Some(tx) = self.tx.head(area) else {
            return self.arrived(Lane::Receive, rx, area);
        };
        let order = request::order(|n| self.tx.load(area, n));
        if order == self.rx.taken {
            return self.arrived(Lane::Transmit, Some(tx), area);
        }
        // And everything that was written before this one.
        match rx.or_else(|| self.rx.head(area)) {
            Some(rx) if order > self.rx.taken => self.arrived(Lane::Receive, Some(rx), area),
            _ => Err(Fault::Order),
        }
    }

    /// Returns where the next message shows, as long as none is taken.
    pub const fn next(&self) -> Next {
        Next {
            head_at: self.rx.slots.place(self.rx.taken) + 8 * HEAD,
            phase: self.rx.slots.phase(self.rx.taken),
            tail: self.cells.taken,
        }
    }

    /// Returns whether there may be a request to be pulled. False for almost all calls, and cheap.
    #[inline]
    pub fn may_pull(&self, area: &impl Area) -> bool {
        self.cells.may_be_offered(area, PULL_TAIL_AT, self.tail)
    }

    /// Returns whether there may be a word to be pulled, as [`Self::may_pull`] does.
    #[inline]
    pub fn may_pull_word(&self, area: &impl Area) -> bool {
        let at = PULL_CQ_TAIL_AT;
        self.words.may_be_offered(area, at, self.word_tail)
    }

    /// Returns the next request to be pulled without taking it.
    pub fn pull(&mut self, area: &impl Area, remote: &impl Area) -> Result<Option<Arrived>, Fault> {
        if !self.cells.is_offered(area, PULL_TAIL_AT, &mut self.tail)? {
            return Ok(None);
        }
        let head = self.cells.head(remote).ok_or(Fault::Value)?;
        if request::order(|n| self.cells.load(remote, n)) > self.rx.taken {
            // Cells that were written to the receive FIFO before it come first.
            return Ok(None);
        }
        self.arrived(Lane::Pulled, Some(head), remote)
    }

    /// Returns whether not all words that were written before a cell have been taken.
    fn is_early(&self, message: &Message, load: impl Fn(usize) -> u64) -> Result<bool, Fault> {
        let Message::Gone { .. } = message else {
            return Ok(false);
        };
        let words = request::order(load);
        if words > self.cq.taken + u64::from(self.cq.slots.count()) {
            return Err(Fault::Order);
        }
        Ok(words > self.cq.taken)
    }

    #[inline]
    fn arrived(
        &self,
        lane: Lane,
        head: Option<u64>,
        area: &impl Area,
    ) -> Result<Option<Arrived>, Fault> {
        let Some(head) = head else {
            return Ok(None);
        };
        let reader = match lane {
            Lane::Receive => &self.rx,
            Lane::Transmit => &self.tx,
            Lane::Pulled => &self.cells,
        };
        let load = area.words(reader.slots.place(reader.taken), CELL_BYTES / 8);
        let (address, message) = request::decode(lane, head, &load, &self.own, &self.peer)?;
        if self.is_early(&message, load)? {
            return Ok(None);
        }
        Ok(Some(Arrived {
            lane,
            address,
            message,
        }))
    }

    /// Takes a cell that [`Self::peek`] or [`Self::pull`] has returned: the peer may overwrite the cell,
    /// and the bytes that it names in the eager ring.
    pub fn consume(&mut self, window: &impl Window, arrived: &Arrived) {
        let bytes = match &arrived.message {
            Message::Send { data, .. } | Message::Write { data, .. } => match data {
                Data::Eager { len, .. } => u64::from(*len),
                _ => 0,
            },
            _ => 0,
        };
        self.owed += bytes;
        let reader = match arrived.lane {
            Lane::Receive => &mut self.rx,
            Lane::Transmit => &mut self.tx,
            Lane::Pulled => &mut self.cells,
        };
        reader.taken += 1;
        if reader.is_due() {
            reader.flush(window);
        }
        if self.owed >= self.own.eager_bytes() as u64 / 4 {
            self.rx.flush(window);
            self.cells.flush(window);
            self.owed = 0;
        }
    }

    /// Takes the next word, if it has come.
    pub fn word(&mut self, area: &impl Area, window: &impl Window) -> Result<Option<Word>, Fault> {
        let word = self.cq.word(area)?;
        if self.cq.is_due() {
            self.cq.flush(window);
        }
        Ok(word)
    }

    /// Takes the next word that is to be pulled, if there is one.
    pub fn pull_word(
        &mut self,
        area: &impl Area,
        remote: &impl Area,
        window: &impl Window,
    ) -> Result<Option<Word>, Fault> {
        if !self
            .words
            .is_offered(area, PULL_CQ_TAIL_AT, &mut self.word_tail)?
        {
            return Ok(None);
        }
        let word = self.words.word(remote)?.ok_or(Fault::Value)?;
        if self.words.is_due() {
            self.words.flush(window);
        }
        Ok(Some(word))
    }

    /// Returns all credit to the peer. To be called before sleep, and when nothing has come for a while:
    /// the peer may wait for the last credit.
    pub fn flush(&mut self, window: &impl Window) {
        for reader in [
            &mut self.rx,
            &mut self.tx,
            &mut self.cq,
            &mut self.cells,
            &mut self.words,
        ] {
            reader.flush(window);
        }
        self.owed = 0;
    }

    /// Asks the peer to ring when it has written more. The caller then rings for an echo, which finds
    /// what the peer has written before it saw this.
    pub fn sleep(&mut self, window: &impl Window) {
        self.flush(window);
        let total =
            self.rx.taken + self.tx.taken + self.cq.taken + self.cells.taken + self.words.taken;
        window.store(EVENT_AT, total);
        window.wmb(Fence::Sleep);
    }
}
