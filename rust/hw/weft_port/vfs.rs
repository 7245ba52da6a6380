// SPDX-License-Identifier: GPL-2.0

//! The virtual functions of a physical one: what each may use, and the messages between them and
//! neighbours.
//!
//! The driver of a VF is not trusted. The hardware keeps the VF within its quota; its messages are taken
//! at a limited rate, checked, and passed on with its own number as the sender only. This file must not
//! know what is in a message.

use super::{
    chip::Chip,
    layout::{field, vf_reg},
    pair::Pair,
};
use crate::{
    hw::{identity_map, Guide, Vf, VfQuota, VfState, VirtualFunctions, MAX_FAR},
    proto::pair::{
        self, own_hwid, Address, Ask, Asked, Assembler, Note, Packed, Quota, Via, Way, PAIR_BYTES,
    },
    sys::{errno::EOPNOTSUPP, ext},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, SetOnce},
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// The maximum number of messages that wait for a VF; more are dropped, as by a full mailbox.
const QUEUE: usize = 8;
/// How often a VF is served in each interval, at most; one note is taken each time. Further notes wait
/// for the next interval. A VF that keeps raising events delays only the thread that handles them, by
/// [`PAUSE`] each time.
const BURST: u32 = 256;
const INTERVAL: Delta = Delta::from_millis(200);
/// The minimum rate, in bytes per second: with less, transfers take so long that they time out.
const LEAST_RATE: u64 = 64 << 10;
const PAUSE: Delta = Delta::from_millis(1);
/// How long to try to give VFs their own numbers.
const RENUMBER_TIME: Delta = Delta::from_secs(1);

/// A message on its way to a VF.
struct Parcel {
    via: Via,
    bytes: usize,
    message: [u8; pair::MAX_BYTES],
}

/// The state of a VF.
struct Kept {
    /// The number by which neighbours address it.
    known_as: u8,
    quota: VfQuota,
    inbox: Assembler,
    /// Messages to the VF, oldest first.
    outbox: KVec<Parcel>,
    /// The number of the oldest message, and its piece that is sent next.
    number: u8,
    piece: usize,
    /// The quota must be sent: the VF has sent a hello, or the quota has changed.
    tell: bool,
    /// It has sent a hello since its last reset.
    greeted: bool,
    /// Its driver says that it has users.
    users: bool,
    /// The last request to its driver; whether it must be sent; the answer.
    ask: Asked,
    ask_due: bool,
    left: Option<u32>,
    /// The answer to its last question for a way, until it is sent.
    way: Option<(u64, Way)>,
    /// How often it may still be served in this interval.
    looks: u32,
    since: Instant<Monotonic>,
}

impl Kept {
    fn new(known_as: u8, quota: VfQuota) -> Result<KBox<Self>> {
        let kept = Self {
            known_as,
            quota,
            inbox: Assembler::new(),
            outbox: KVec::with_capacity(QUEUE, GFP_KERNEL)?,
            number: 0,
            piece: 0,
            tell: false,
            greeted: false,
            users: false,
            ask: Asked::default(),
            ask_due: false,
            left: None,
            way: None,
            looks: BURST,
            since: Instant::now(),
        };
        Ok(KBox::new(kept, GFP_KERNEL)?)
    }

    /// Clears the state of the communication after a reset of the VF.
    fn forget(&mut self) {
        self.inbox.clear();
        self.outbox.clear();
        self.piece = 0;
        self.tell = false;
        self.greeted = false;
        self.users = false;
        self.ask_due = false;
        self.left = None;
        self.way = None;
    }

    /// Returns whether the VF may be served now, once.
    fn turn(&mut self) -> bool {
        if self.since.elapsed() >= INTERVAL {
            self.since = Instant::now();
            self.looks = BURST;
        }
        let turn = self.looks != 0;
        self.looks = self.looks.saturating_sub(1);
        turn
    }

    /// Returns the note that must be sent next, if there is one.
    fn next(&self) -> Option<Packed> {
        if self.tell {
            return Some(Packed::quota(&Quota {
                links: self.quota.links,
                bytes: self.quota.bytes,
            }));
        }
        if self.ask_due {
            return Some(Packed::ask(self.ask));
        }
        if let Some((hwid, way)) = &self.way {
            return Some(Packed::way(*hwid, way));
        }
        let parcel = self.outbox.first()?;
        let message = parcel.message.get(..parcel.bytes)?;
        Packed::piece(message, parcel.via, self.number, self.piece)
    }

    /// Records that the note of [`Kept::next`] was sent.
    fn sent(&mut self) {
        // In the order of `next`.
        if core::mem::take(&mut self.tell) || core::mem::take(&mut self.ask_due) {
            return;
        }
        if self.way.take().is_some() {
            return;
        }
        self.piece += 1;
        if self.next().is_none() {
            self.piece = 0;
            self.number = self.number.wrapping_add(1);
            if !self.outbox.is_empty() {
                drop(self.outbox.remove(0));
            }
        }
    }
}

/// Returns whether a VF may communicate by one of `links` links to neighbours; by routes, if it may use all
/// of them, as the hardware has it.
fn may_use(quota: &VfQuota, via: Via, links: usize) -> bool {
    match via {
        Via::Link(link) => usize::from(link) < links && quota.links >> link & 1 != 0,
        Via::Lid(lid) => {
            (1..=ext::WEFT_DEST_WHERE).contains(&lid) && quota.links == (1 << links) - 1
        }
    }
}

/// All VFs that can be enabled.
#[pin_data]
pub(super) struct Vfs {
    chip: Arc<Chip>,
    /// The number of this function, and the own number of VF 0.
    pf: u8,
    first: u8,
    /// Knows the ways to other hosts.
    guide: SetOnce<&'static dyn Guide>,
    #[pin]
    all: Mutex<All>,
}

struct All {
    kept: KVec<KBox<Kept>>,
    /// The VFs that must be served even if the hardware reports no event, a bit each.
    again: u32,
}

/// Passes on a message of a VF through this PF's mailbox: where to, address, message.
pub(super) type Post<'a> = &'a dyn Fn(Via, Address, &[u8]);

impl Vfs {
    /// Returns `None` if this function has no VFs. By default other hosts may access `bytes` bytes of
    /// each VF. Each has `slots` slots.
    pub(super) fn new(
        chip: &Arc<Chip>,
        bytes: u64,
        slots: usize,
    ) -> Result<Option<Pin<KBox<Self>>>> {
        let function = chip.read(ext::WEFT_R_FUNCTION);
        if function == u32::MAX || function & ext::WEFT_FUNCTION_VF != 0 {
            return Ok(None);
        }
        let total = field(function, ext::WEFT_FUNCTION_VFS).min(ext::WEFT_VFS) as usize;
        let number = field(function, ext::WEFT_FUNCTION_NUMBER);
        if total == 0 || number >= ext::WEFT_PFS {
            return Ok(None);
        }
        let first = (ext::WEFT_PFS + ext::WEFT_VFS * number) as u8;
        Self::own_numbers(chip, first, total);
        let mut kept = KVec::with_capacity(total, GFP_KERNEL)?;
        for n in 0..total {
            let number = Self::number_of(chip, n);
            // The resources that the links need, also routed ones, and as peers the functions with the same number.
            let links = chip.caps.links as u32;
            let far = slots.saturating_sub(chip.caps.links).min(MAX_FAR) as u32;
            let all = links + far;
            // See `layout`: those of routed links begin behind that of users of this host.
            let bells = 2 * all + u32::from(far != 0);
            let quota = VfQuota {
                slots: all,
                apertures: all,
                doorbells: bells,
                pages: bells,
                bytes,
                links: (1 << links) - 1,
                channels: links,
                peers: 1 << number,
                rate: 0,
                rings: 0,
            };
            kept.push(Kept::new(number, quota)?, GFP_KERNEL)?;
        }
        let all = All { kept, again: 0 };
        let vfs = KBox::pin_init(
            pin_init!(Self {
                chip: chip.clone(),
                pf: number as u8,
                first,
                guide: SetOnce::new(),
                all <- new_mutex!(all, "weft_port::vfs"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Some(vfs))
    }

    /// Returns the own number of VF `n`.
    fn function(&self, n: usize) -> u8 {
        self.first.wrapping_add(n as u8)
    }

    /// Gives each VF its own number; a previous driver may have exchanged the numbers. The VFs are not
    /// enabled. A VF that cannot get its own number within a second keeps the one that it has, which
    /// works, too.
    fn own_numbers(chip: &Chip, first: u8, total: usize) {
        let since = Instant::<Monotonic>::now();
        loop {
            let mut all = true;
            for n in 0..total {
                let own = first.wrapping_add(n as u8);
                if Self::number_of(chip, n) != own {
                    chip.regs
                        .write32(vf_reg(n, ext::WEFT_VF_NUMBER), own.into());
                    all &= Self::number_of(chip, n) == own;
                }
            }
            // Shortly after a reset the numbers cannot be exchanged.
            if all || since.elapsed() >= RENUMBER_TIME {
                return;
            }
            fsleep(PAUSE);
        }
    }

    /// Returns the number that VF `n` has, from the hardware.
    fn number_of(chip: &Chip, n: usize) -> u8 {
        chip.regs.read32(vf_reg(n, ext::WEFT_VF_FUNCTION)) as u8 & 0x3f
    }

    /// Programs the quota and the identity of VF `n`.
    fn program(&self, n: usize, quota: &VfQuota) {
        let regs = &self.chip.regs;
        for (reg, value) in [
            (ext::WEFT_VF_SLOTS, quota.slots),
            (ext::WEFT_VF_INBOUND, quota.apertures),
            (ext::WEFT_VF_DOORBELLS, quota.doorbells),
            (ext::WEFT_VF_DB_PAGES, quota.pages),
            (ext::WEFT_VF_LINKS, quota.links),
            (ext::WEFT_VF_CHANNELS, quota.channels),
        ] {
            regs.write32(vf_reg(n, reg), value);
        }
        regs.write64(vf_reg(n, ext::WEFT_VF_BYTES), quota.bytes);
        regs.write64(vf_reg(n, ext::WEFT_VF_PEERS), quota.peers);
        if self.has_rates() {
            regs.write64(vf_reg(n, ext::WEFT_VF_RATE), quota.rate);
            regs.write32(vf_reg(n, ext::WEFT_VF_RINGS), quota.rings);
        }
        self.name(n);
    }

    fn can(&self, what: u32) -> bool {
        let cap1 = self.chip.read(ext::WEFT_R_CAP1);
        cap1 != u32::MAX && cap1 & what != 0
    }

    fn has_rates(&self) -> bool {
        self.can(ext::WEFT_CAP1_VF_RATE)
    }

    /// Programs the hardware id that VF `n` carries, and makes its quota and identity take effect.
    fn name(&self, n: usize) {
        let regs = &self.chip.regs;
        if self.can_migrate() {
            let hwid = identity_map::of(self.own_hwid(n));
            regs.write64(vf_reg(n, ext::WEFT_VF_HWID), hwid);
        }
        regs.write32(vf_reg(n, ext::WEFT_VF_CTRL), 1);
    }

    /// Programs all VFs. Called before any is enabled, and after a reset of this function, which clears
    /// all quotas and resets the VFs, too.
    pub(super) fn restore(&self) {
        let mut all = self.all.lock();
        for (n, kept) in all.kept.iter_mut().enumerate() {
            kept.forget();
            self.program(n, &kept.quota);
        }
        all.again = 0;
    }

    /// Queues a message that function `sender` of the port behind `via` has sent, for the VF with
    /// number `address.to`. Drops it if that VF may not communicate with `address.from`, or if its queue
    /// is full.
    pub(super) fn deliver(&self, via: Via, sender: u32, address: Address, message: &[u8]) {
        // Only a PF sends messages of VFs, and only of its own.
        if sender >= ext::WEFT_PFS {
            return;
        }
        let first = ext::WEFT_PFS + ext::WEFT_VFS * sender;
        let of_sender = first..first + ext::WEFT_VFS;
        let mut all = self.all.lock();
        let to = |(_, kept): &(usize, &mut KBox<Kept>)| kept.known_as == address.to;
        let Some((n, kept)) = all.kept.iter_mut().enumerate().find(to) else {
            return;
        };
        let quota = &kept.quota;
        // In this order: the number of a VF of the sender is a valid bit number of `peers`.
        let allowed = of_sender.contains(&address.from.into())
            && may_use(quota, via, self.chip.caps.links)
            && quota.peers >> address.from & 1 != 0;
        if !allowed || !kept.greeted || kept.outbox.len() >= QUEUE {
            return;
        }
        let mut parcel = Parcel {
            via,
            bytes: message.len(),
            message: [0; pair::MAX_BYTES],
        };
        for (to, from) in parcel.message.iter_mut().zip(message) {
            *to = *from;
        }
        // Its memory is allocated by `Kept::new`.
        if kept.outbox.push_within_capacity(parcel).is_ok() {
            all.again |= 1 << n;
        }
    }

    /// Exchanges notes with the VFs that have events or messages, one in each direction. Sleeps.
    pub(super) fn pump(&self, post: Post<'_>) {
        let regs = &self.chip.regs;
        let mut all = self.all.lock();
        let pending = self.chip.read(ext::WEFT_R_VF_PENDING);
        if pending == u32::MAX {
            return;
        }
        // Before the VFs are served: a change from here on is another event.
        self.chip.write(ext::WEFT_R_VF_PENDING, pending);
        let look = pending | core::mem::take(&mut all.again);
        let (mut again, mut noisy) = (0, false);
        for (n, kept) in all.kept.iter_mut().enumerate() {
            if look >> n & 1 == 0 {
                continue;
            }
            if !kept.turn() {
                again |= 1 << n;
                noisy |= pending >> n & 1 != 0;
                continue;
            }
            let status = regs.read32(vf_reg(n, ext::WEFT_VF_STATUS));
            if status == u32::MAX {
                return;
            }
            regs.write32(vf_reg(n, ext::WEFT_VF_STATUS), status);
            if status & ext::WEFT_VF_RESET != 0 {
                kept.forget();
            }
            self.hear(n, kept, post);
            // The VF takes this note, which is an event; the next one is sent then.
            if let Some(note) = kept.next() {
                if Pair::vf(n).send(regs, &note) == Some(true) {
                    kept.sent();
                }
            }
        }
        all.again = again;
        drop(all);
        if noisy {
            fsleep(PAUSE);
        }
    }

    /// Takes the note that VF `n` has sent, if there is one.
    fn hear(&self, n: usize, kept: &mut Kept, post: Post<'_>) {
        let mut buf = [0; PAIR_BYTES];
        let Some(bytes) = Pair::vf(n).take(&self.chip.regs, &mut buf) else {
            return;
        };
        match Note::parse(buf.get(..bytes).unwrap_or_default()) {
            Ok(Note::Hello) => {
                kept.greeted = true;
                kept.tell = true;
                kept.ask_due = kept.ask.ask != Ask::GoOn;
                kept.left = None;
                // Its identity may not have been known before.
                self.name(n);
            }
            Ok(Note::Left(asked, left)) if asked == kept.ask => kept.left = Some(left),
            Ok(Note::Users(any)) => kept.users = any,
            Ok(Note::Piece(piece)) => {
                let function = kept.known_as;
                let links = self.chip.caps.links;
                let quota = kept.quota;
                if let Ok(Some((via, message))) = kept.inbox.push(piece) {
                    // To the function with the same number: only slots and doorbells address other
                    // peers.
                    let address = Address {
                        to: function,
                        from: function,
                    };
                    if may_use(&quota, via, links) {
                        post(via, address, message);
                    }
                }
            }
            Ok(Note::Seek(hwid)) => {
                let pf = self.chip.regs.read64(ext::WEFT_R_HWID as usize);
                let guide = self.guide.as_ref();
                let (first, number) = (own_hwid(pf, self.pf), kept.known_as);
                let way = guide.and_then(|guide| guide.way(first, number, hwid));
                // Without an answer the VF asks again.
                kept.way = way.map(|way| (hwid, way));
            }
            Ok(Note::Quota(_) | Note::Ask(_) | Note::Left(..) | Note::Way(..)) | Err(_) => {}
        }
    }
}

impl VirtualFunctions for Vfs {
    fn change(&self, n: usize, change: &dyn Fn(&mut VfQuota)) -> Result {
        let mut all = self.all.lock();
        let kept = all.kept.get_mut(n).ok_or(EINVAL)?;
        let mut quota = kept.quota;
        change(&mut quota);
        let links: u32 = (1 << self.chip.caps.links) - 1;
        if quota.links & !links != 0 || quota.peers >> ext::WEFT_FUNCTIONS != 0 {
            return Err(EINVAL);
        }
        if quota.rate != 0 && quota.rate < LEAST_RATE {
            return Err(EINVAL);
        }
        if (quota.rate != 0 || quota.rings != 0) && !self.has_rates() {
            return Err(EOPNOTSUPP.into());
        }
        self.program(n, &quota);
        kept.quota = quota;
        kept.tell = kept.greeted;
        all.again |= 1 << n;
        Ok(())
    }

    fn get(&self, n: usize) -> Result<Vf> {
        let all = self.all.lock();
        let kept = all.kept.get(n).ok_or(ENOENT)?;
        let status = self.chip.regs.read32(vf_reg(n, ext::WEFT_VF_STATUS));
        if status == u32::MAX {
            return Err(ENODEV);
        }
        let read64 = |reg| self.chip.regs.read64(vf_reg(n, reg));
        let used = self.chip.regs.read32(vf_reg(n, ext::WEFT_VF_USED));
        let state = if status & ext::WEFT_VF_ENABLED == 0 {
            VfState::Off
        } else if kept.users || !kept.greeted && status & ext::WEFT_VF_MASTER != 0 {
            // A VF that masters the bus without a hello may do anything.
            VfState::Used
        } else if kept.greeted {
            VfState::Driven
        } else {
            VfState::Idle
        };
        Ok(Vf {
            quota: kept.quota,
            state,
            hwid: identity_map::of(self.own_hwid(n)),
            greeted: kept.greeted,
            master: status & ext::WEFT_VF_MASTER != 0,
            left: kept.left,
            slots: used & 0xff,
            apertures: used >> 8 & 0xff,
            bytes: read64(ext::WEFT_VF_USED_BYTES),
            done: self
                .has_rates()
                .then(|| (read64(ext::WEFT_VF_MOVED), read64(ext::WEFT_VF_RUNG))),
        })
    }

    fn count(&self) -> usize {
        self.all.lock().kept.len()
    }

    fn can_migrate(&self) -> bool {
        self.can(ext::WEFT_CAP1_VF_HWID)
    }

    fn own_hwid(&self, n: usize) -> u64 {
        let pf = self.chip.regs.read64(ext::WEFT_R_HWID as usize);
        if pf == 0 || pf == u64::MAX {
            return 0;
        }
        own_hwid(pf, self.pf ^ self.function(n))
    }

    fn rename(&self) {
        if !self.can_migrate() {
            return;
        }
        let all = self.all.lock();
        for n in 0..all.kept.len() {
            let hwid = identity_map::of(self.own_hwid(n));
            // 0: the port has no id now. `restore` does it when it has.
            if hwid != 0 && self.chip.regs.read64(vf_reg(n, ext::WEFT_VF_HWID)) != hwid {
                self.name(n);
            }
        }
    }

    fn offers(&self) -> [u32; 4] {
        let shift = self.chip.read(ext::WEFT_R_SLOT_SHIFT);
        let rates = self.has_rates().into();
        [
            self.chip.caps.links as u32,
            self.chip.caps.channels as u32,
            shift,
            rates,
        ]
    }

    fn peer_index(&self, n: usize) -> u64 {
        let all = self.all.lock();
        all.kept.get(n).map_or(0, |kept| 1 << kept.known_as)
    }

    fn can_renumber(&self) -> bool {
        let cap1 = self.chip.read(ext::WEFT_R_CAP1);
        cap1 != u32::MAX && cap1 & ext::WEFT_CAP1_VF_NUMBER != 0
    }

    fn renumber(&self, one: usize, other: usize) -> Result {
        if !self.can_renumber() {
            return Err(EOPNOTSUPP.into());
        }
        let mut all = self.all.lock();
        let wanted = all.kept.get(other).ok_or(ENOENT)?.known_as;
        let reg = vf_reg(one, ext::WEFT_VF_NUMBER);
        self.chip.regs.write32(reg, wanted.into());
        if Self::number_of(&self.chip, one) != wanted {
            return Err(EBUSY);
        }
        for n in [one, other] {
            let number = Self::number_of(&self.chip, n);
            all.kept.get_mut(n).ok_or(ENOENT)?.known_as = number;
        }
        Ok(())
    }

    fn ask(&self, n: usize, ask: Ask) -> Result {
        let mut all = self.all.lock();
        let kept = all.kept.get_mut(n).ok_or(ENOENT)?;
        kept.ask = Asked {
            ask,
            number: kept.ask.number.wrapping_add(1),
        };
        kept.ask_due = kept.greeted;
        kept.left = None;
        all.again |= 1 << n;
        Ok(())
    }

    fn set_guide(&self, guide: &'static dyn Guide) {
        self.guide.populate(guide);
    }
}
