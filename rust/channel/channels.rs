// SPDX-License-Identifier: GPL-2.0

//! The channels of a port, and how they handle the events of a link.

use super::{
    conns::{Charges, Conn, Conns, PerLink},
    end::Making,
    Channel, Listener,
};
use crate::{
    fabric::{Reason, Session, Usage},
    hw::{Port, MAX_LINKS},
    proto::{cell::Shape, link::Peer, pair::Ask, trunk::Layout, wire::Body},
    share::{Payer, Table},
    sys::{errno::ENOTCONN, ext, home::Home, vma::Mapping},
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The channels of a port.
#[pin_data]
pub(crate) struct Channels {
    home: Arc<Home>,
    pub(super) mapping: Arc<Mapping>,
    #[pin]
    pub(super) links: [PerLink; MAX_LINKS],
    #[pin]
    pub(super) listeners: Mutex<KVec<Arc<Listener>>>,
    last_id: Atomic<u32>,
    /// No channel is made any more.
    ending: Atomic<bool>,
}

impl Channels {
    /// Makes the channels of a port, which are mapped through the address space `mapping`.
    pub(crate) fn new(home: &Arc<Home>, mapping: Arc<Mapping>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                home: home.clone(),
                mapping,
                links <- pin_init::pin_init_array_from_fn(|_| PerLink::new()),
                listeners <- new_mutex!(KVec::new(), "weft listeners"),
                last_id: Atomic::new(0),
                ending: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the address space of all mappings of channels.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns an id that no connection of the link has.
    fn new_id(&self, conns: &Conns) -> u32 {
        loop {
            let id = self.last_id.fetch_add(1, Relaxed).wrapping_add(1);
            if id != 0 && conns.find_own(id).is_none() {
                return id;
            }
        }
    }

    /// Makes a channel, whose pages count for `payer` as long as the connection has the charge. Its area is to
    /// be zeroed, see [`Self::zero`], before the peer learns of it. `ENOSPC`: the arena has no room for it;
    /// `EDQUOT`: `payer` has its share of the arena, or of the routed links; `ENOTCONN`: the peer is not known.
    pub(super) fn make(
        &self,
        session: &Session<'_>,
        conns: &mut Conns,
        payer: &Payer,
        service: u32,
        shape: Shape,
    ) -> Result<(Arc<Channel>, Charges)> {
        let link = session.link();
        let peer = session.peer().ok_or(ENOTCONN)?.id;
        let pages = shape.area_bytes() / PAGE_SIZE;
        let charges = Charges {
            _pages: payer.take(Table::Arena(link), conns.room(), pages as u32)?,
            _link: payer.take_link(&session.port().far_links(), link)?,
        };
        let run = conns.pages.take(pages).ok_or(ENOSPC)?;
        let channel = Channel::new(Making {
            dev: self.home.get(),
            id: self.new_id(conns),
            link,
            service,
            shape,
            peer,
            run,
            kick: conns.kick,
        });
        if channel.is_err() {
            conns.give(run);
        }
        Ok((channel?, charges))
    }

    /// Returns how many bytes of the arena of a link the user may have in all.
    pub(crate) fn arena_share(&self, link: usize, payer: &Payer) -> Result<u64> {
        let room = self.per_link(link)?.conns.lock().room();
        Ok(u64::from(payer.share(Table::Arena(link), room)) * PAGE_SIZE as u64)
    }

    /// Zeroes the area of a channel. `EINVAL`: it is not in the arena.
    pub(super) fn zero(session: &Session<'_>, channel: &Channel) -> Result {
        let arena = session.port().arena(session.link())?;
        arena.zero(channel.area_at(), channel.made.shape.area_bytes())
    }

    /// Adds a connection. On failure its channel's area is given back.
    pub(super) fn add(&self, conns: &mut Conns, conn: Conn) -> Result {
        let run = conn.channel.made.run;
        conns
            .table
            .push(conn, GFP_KERNEL_ACCOUNT)
            .inspect_err(|_| conns.give(run))?;
        Ok(())
    }

    pub(super) fn listener(&self, service: u32) -> Option<Arc<Listener>> {
        if self.ending.load(Relaxed) {
            return None;
        }
        self.listeners
            .lock()
            .iter()
            .find(|listener| listener.service() == service)
            .cloned()
    }

    pub(super) fn per_link(&self, link: usize) -> Result<&PerLink> {
        self.links.get(link).ok_or(EINVAL)
    }
}

/// Events of the links, as `fabric::Client` describes them.
impl Channels {
    pub(crate) fn ready(&self, port: &dyn Port, link: usize, peer: &Peer) {
        if let Some(per_link) = self.links.get(link) {
            let bytes = port.arena(link).map_or(0, |arena| arena.bytes());
            let trunk = Layout::of_arena(bytes as u64).map_or(0, Layout::bytes);
            let wake = peer.offer.wake;
            let kick = (
                port.user_doorbells()
                    .and_then(|bells| bells.page(link, wake)),
                wake,
            );
            let pages = (bytes / PAGE_SIZE, trunk / PAGE_SIZE);
            per_link.conns.lock().begin(pages, kick);
        }
    }

    pub(crate) fn broken(&self, link: usize, reason: Reason) {
        let reason = match reason {
            Reason::Link => ext::WEFT_REASON_LINK,
            Reason::Silence | Reason::Bye | Reason::Restart => ext::WEFT_REASON_PEER,
            Reason::Removed => ext::WEFT_REASON_REMOVED,
        };
        if let Some(per_link) = self.links.get(link) {
            let mut conns = per_link.conns.lock();
            per_link.replace_awake(KVec::new());
            conns.break_off(&self.mapping, reason);
        }
    }

    pub(crate) fn bury(&self, port: &dyn Port, link: usize, sound: bool) {
        if let Some(per_link) = self.links.get(link) {
            // If something is missing, a message behind the gap must not be taken for complete.
            let arena = port.arena(link).ok().filter(|_| sound);
            per_link.conns.lock().bury(&self.mapping, arena.as_deref());
        }
    }

    pub(crate) fn message(&self, session: &mut Session<'_>, body: Body) {
        // An error means that the message is for a connection that does not exist, or not any more.
        let _ = self.on_message(session, body);
    }

    /// Users write to the peer themselves: their windows are unmapped until `go_on`.
    pub(crate) fn hold(&self, session: &mut Session<'_>) -> bool {
        if let Some(per_link) = self.links.get(session.link()) {
            per_link.conns.lock().rest(&self.mapping);
        }
        true
    }

    pub(crate) fn go_on(&self, session: &mut Session<'_>) {
        if let Some(per_link) = self.links.get(session.link()) {
            per_link.conns.lock().go_on();
        }
    }

    pub(crate) fn tick(&self, session: &mut Session<'_>, now: u64) {
        if let Some(per_link) = self.links.get(session.link()) {
            let mut lost = 0;
            for conn in &mut per_link.conns.lock().table {
                if let Some(body) = conn.due(now) {
                    session.send(body);
                }
                lost += u64::from(conn.channel.recheck(session.port()));
            }
            if per_link.doorbells_lost(lost) {
                session.complain(fmt!(
                    "link {}: data come, but no doorbell: sleepers are woken by the clock",
                    session.link()
                ));
            }
        }
    }

    /// Returns how many bytes the users of a link have stored at the peer since the last call.
    pub(crate) fn take_stored(&self, port: &dyn Port, link: usize) -> u64 {
        let (Some(per_link), Ok(arena)) = (self.links.get(link), port.arena(link)) else {
            return 0;
        };
        per_link.conns.lock().take_stored(&arena)
    }

    pub(crate) fn wake(&self, port: &dyn Port, link: usize) {
        if let (Some(per_link), Ok(arena)) = (self.links.get(link), port.arena(link)) {
            per_link.wake(&arena);
        }
    }

    pub(crate) fn asked(&self, ask: Ask) {
        self.ending.store(ask.concerns_users(), Relaxed);
    }

    pub(crate) fn closed(&self) {
        for listener in &*self.listeners.lock() {
            listener.wake_all();
        }
        for per_link in &self.links {
            for conn in &per_link.conns.lock().table {
                conn.channel.wake_all();
            }
        }
    }

    pub(crate) fn is_used(&self, link: usize) -> bool {
        let per_link = self.links.get(link);
        per_link.is_some_and(|per_link| !per_link.conns.lock().table.is_empty())
    }

    pub(crate) fn usage(&self, link: usize) -> Usage {
        self.links
            .get(link)
            .map_or_else(Usage::default, PerLink::usage)
    }
}
