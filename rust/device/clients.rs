// SPDX-License-Identifier: GPL-2.0

//! The clients of a port: its channels, its engine, its sockets, and its functions of shared endpoints.
//!
//! Passes each event to them; none knows the others. The engine's link queues are at the beginning of an
//! arena; channels and sockets have the rest.

use crate::{
    channel::Channels,
    endpoint::Endpoints,
    fabric::{Client, Functions, Node, Reason, Session, Usage},
    hw::{Port, MAX_LINKS},
    proto::{link::Peer, pair::Ask, wire::Body},
    socket::Sockets,
    verbs::{Engine, KickPage},
};
use kernel::{prelude::*, sync::Arc};

pub(super) struct Clients {
    channels: Arc<Channels>,
    engine: Arc<Engine>,
    sockets: Arc<Sockets>,
    endpoints: Arc<Endpoints>,
}

impl Clients {
    pub(super) fn new(
        channels: Arc<Channels>,
        engine: Arc<Engine>,
        sockets: Arc<Sockets>,
        endpoints: Arc<Endpoints>,
    ) -> Result<Arc<Self>> {
        let clients = Self {
            channels,
            engine,
            sockets,
            endpoints,
        };
        Ok(Arc::new(clients, GFP_KERNEL)?)
    }
}

impl Client for Clients {
    fn ready(&self, port: &dyn Port, link: usize, peer: &Peer) {
        // A program that touched the doorbell page while the port did not answer has a blank page mapped
        // there.
        KickPage::zap(self.channels.mapping());
        self.channels.ready(port, link, peer);
        self.sockets.ready(link);
        self.engine.ready(port, link, peer);
    }

    fn broken(&self, port: &dyn Port, link: usize, reason: Reason) {
        self.engine.broken(port, link, reason);
        self.sockets.broken(link, reason);
        self.channels.broken(link, reason);
    }

    fn bury(&self, port: &dyn Port, link: usize, sound: bool) {
        self.channels.bury(port, link, sound);
    }

    fn message(&self, session: &mut Session<'_>, body: Body) {
        match body {
            Body::Hold(say) => self.engine.hear(session, say),
            body => self.channels.message(session, body),
        }
    }

    fn hold(&self, session: &mut Session<'_>) -> bool {
        let channels = self.channels.hold(session);
        let sockets = self.sockets.hold(session);
        self.engine.hold(session) && channels && sockets
    }

    fn go_on(&self, session: &mut Session<'_>) {
        self.channels.go_on(session);
        self.sockets.go_on(session);
        self.engine.go_on(session);
    }

    fn parked(&self) {
        KickPage::zap(self.channels.mapping());
        self.engine.park();
    }

    fn adopted(&self, node: &Arc<Node>) {
        self.engine.serve(node);
    }

    fn passed(&self, now: u64) {
        self.engine.passed(now);
        self.endpoints.passed();
    }

    fn looked(&self, port: &dyn Port) {
        self.endpoints.looked(port);
    }

    fn lost(&self, port: &dyn Port, reason: Reason) {
        self.endpoints.lost(port, reason);
    }

    fn hierarchy(&self) {
        self.endpoints.hierarchy();
    }

    fn let_go(&self) -> bool {
        self.endpoints.let_go()
    }

    fn called(&self, slot: usize) {
        self.endpoints.called(slot);
    }

    fn tick(&self, session: &mut Session<'_>, now: u64) {
        self.channels.tick(session, now);
        self.sockets.tick(session);
        self.engine.tick(session, now);
    }

    fn take_stored(&self, port: &dyn Port, link: usize) -> u64 {
        let channels = self.channels.take_stored(port, link);
        let sockets = self.sockets.take_sent(link);
        let engine = self.engine.take_stored(link);
        channels.saturating_add(sockets).saturating_add(engine)
    }

    fn wake(&self, port: &dyn Port, link: usize) {
        self.channels.wake(port, link);
        self.sockets.wake(port, link);
        self.engine.wake(port, link);
    }

    fn moved(&self, link: usize) {
        self.engine.moved(link);
    }

    fn kicked(&self) {
        self.engine.kicked();
    }

    fn closed(&self) {
        self.channels.closed();
        self.sockets.closed();
        self.engine.closed();
        self.endpoints.closed();
    }

    fn retired(&self) {
        self.endpoints.retired();
        KickPage::zap(self.channels.mapping());
        self.engine.retired();
    }

    fn asked(&self, ask: Ask) {
        self.channels.asked(ask);
        self.sockets.asked(ask);
        // Waiters have to see what is wanted.
        self.closed();
        self.outstanding(ask);
    }

    fn outstanding(&self, ask: Ask) -> u32 {
        let open = |link| self.channels.usage(link).open as u32 + self.sockets.count(link);
        let connections = match ask {
            Ask::Finish | Ask::Look => (0..MAX_LINKS).map(open).sum(),
            // Channels and sockets end with the function: what was sent arrives.
            Ask::GoOn | Ask::Stop | Ask::Still => 0,
        };
        if connections != 0 {
            return connections;
        }
        self.engine.outstanding(ask)
    }

    fn is_used(&self, link: usize) -> bool {
        self.channels.is_used(link) || self.sockets.count(link) != 0 || self.engine.is_used(link)
    }

    fn usage(&self, link: usize) -> Usage {
        Usage {
            queue_pairs: self.engine.connected(link),
            sockets: self.sockets.count(link),
            ..self.channels.usage(link)
        }
    }

    fn functions(&self) -> Functions {
        self.endpoints.count()
    }
}
