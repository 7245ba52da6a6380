// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The manager of one node in a large fabric: its place in the tree, its routes, its entry in the master's
//! directory, and the assignments.
//!
//! The manager acts through [`Effects`] only. All times are in milliseconds.

use super::{
    super::{
        assignments::version_after,
        kept::Kept,
        kind::is_host,
        mastership::Mastership,
        packet::MAX_BYTES,
        path::Path,
        port::{Port, PORTS},
    },
    directory::{Directory, Holder},
    entry::Entry,
    letter::{self, Letter, Name},
    link::Link,
    routes::{self, Routes},
    state,
    store::Store,
    tree::{self, Peer, Tree},
    update,
};

/// Time after which the master is asked again; doubled each time, `PATIENCE` times.
pub const ASK_MS: u64 = 500;
const PATIENCE: u32 = 5;

/// The actions of the machine.
pub trait Effects: routes::Effects {
    /// The node has another local id; 0: none.
    fn lid(&mut self, lid: u32);
    /// The master has answered which local id the node with a hardware id has; 0: there is no such node.
    fn found(&mut self, _name: &Name) {}
    /// The assignments have changed.
    fn assignments(&mut self, _version: u32) {}
}

/// Memory of a manager. What is a [`Store`] may grow.
pub trait Memory {
    /// For routes.
    type Routes: Store<Entry>;
    /// For the directory of a master.
    type Names: Store<Name>;
    /// For the same, by local ids.
    type Holders: Store<Holder>;
    /// For the assignments, twice the longest.
    type Bytes: AsRef<[u8]> + AsMut<[u8]>;
    /// For neighbours in the tree, one for each port.
    type Peers: AsRef<[Peer]> + AsMut<[Peer]>;
    /// For links over which routes are told, one for each port.
    type Links: AsRef<[Link]> + AsMut<[Link]>;
}

/// Memory of a manager, part by part.
pub struct Parts<M: Memory> {
    /// See [`Memory::Routes`].
    pub routes: M::Routes,
    /// See [`Memory::Names`].
    pub names: M::Names,
    /// See [`Memory::Holders`].
    pub holders: M::Holders,
    /// See [`Memory::Bytes`].
    pub bytes: M::Bytes,
    /// See [`Memory::Peers`].
    pub peers: M::Peers,
    /// See [`Memory::Links`].
    pub links: M::Links,
}

/// What the tree does: a local id is kept for the routes.
struct Acts<'a, E> {
    fx: &'a mut E,
    lid: Option<u32>,
}

impl<E: Effects> tree::Effects for Acts<'_, E> {
    fn send(&mut self, port: u8, message: &[u8]) {
        self.fx.send(port, message);
    }

    fn lid(&mut self, lid: u32) {
        self.lid = Some(lid);
        self.fx.lid(lid);
    }
}

/// A question to the master, or a neighbour.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// When it is to be sent, or sent again.
    due: Option<u64>,
    tries: u32,
}

impl Asked {
    const NONE: Self = Self {
        due: None,
        tries: 0,
    };

    fn at(now: u64) -> Self {
        Self {
            due: Some(now),
            tries: 0,
        }
    }

    /// Returns whether it is to be sent now.
    fn is_due(&mut self, now: u64) -> bool {
        let due = self.due.is_some_and(|due| now >= due);
        if due {
            self.due = Some(now + (ASK_MS << self.tries));
            self.tries = (self.tries + 1).min(PATIENCE);
        }
        due
    }
}

/// The manager.
pub struct Node<M: Memory> {
    hwid: u64,
    tree: Tree<M::Peers>,
    routes: Routes<M::Routes, M::Links>,
    directory: Directory<M::Names, M::Holders>,
    /// With which master, in which incarnation, which local id was noted.
    noted: (u64, u32, u32),
    /// The same, as it is to be noted.
    asked: (u64, u32, u32),
    register: Asked,
    /// The hardware id that is looked for.
    wanted: u64,
    find: Asked,
    assignments: Kept<M::Bytes>,
    /// The neighbour from which the assignments come, and the offset of what comes next.
    source: (u8, u16),
    fetch: Asked,
}

impl<M: Memory> Node<M> {
    /// Creates a node that has not begun.
    pub fn new(parts: Parts<M>) -> Self {
        Self {
            hwid: 0,
            tree: Tree::new(parts.peers),
            routes: Routes::new(parts.routes, parts.links),
            directory: Directory::new(parts.names, parts.holders),
            noted: (0, 0, 0),
            asked: (0, 0, 0),
            register: Asked::NONE,
            wanted: 0,
            find: Asked::NONE,
            assignments: Kept::new(parts.bytes),
            source: (0, 0),
            fetch: Asked::NONE,
        }
    }

    /// Begins with all ports down. No two incarnations have the same `life`. `lid` is the local id that
    /// the node has already, and no id from `next` on was given away; 0: it has none.
    pub fn begin(&mut self, hwid: u64, life: u32, (lid, next): (u32, u32)) {
        self.hwid = hwid;
        self.tree.begin(hwid, life, (lid, next));
        self.routes.begin();
        self.directory.clear();
        self.noted = (0, 0, 0);
        self.asked = (0, 0, 0);
        self.register = Asked::NONE;
        self.wanted = 0;
        self.find = Asked::NONE;
        self.assignments.clear();
        self.source = (0, 0);
        self.fetch = Asked::NONE;
    }

    /// Takes part with the local id that the node has already.
    pub fn enter(&mut self, now: u64, fx: &mut impl Effects) {
        self.routes.set_lid(now, self.tree.lid(), fx);
    }

    /// Returns the local id, 0 if it has none.
    pub fn lid(&self) -> u32 {
        self.tree.lid()
    }

    /// Returns the mastership that it obeys.
    pub fn mastership(&self) -> Mastership {
        self.tree.mastership().0
    }

    /// Returns whether the node knows its master, which is a host, and is not about to find another.
    pub fn is_settled(&self) -> bool {
        self.tree.is_settled() && is_host(self.mastership().master)
    }

    /// Returns the node's place in the tree.
    pub fn tree(&self) -> &Tree<M::Peers> {
        &self.tree
    }

    /// Returns the routes.
    pub fn routes(&self) -> &Routes<M::Routes, M::Links> {
        &self.routes
    }

    /// Returns the directory, which is that of the fabric if this is the master.
    pub fn directory(&self) -> &Directory<M::Names, M::Holders> {
        &self.directory
    }

    /// Returns the assignments.
    pub fn assignments(&self) -> &Kept<M::Bytes> {
        &self.assignments
    }

    /// Takes over assignments that the node has already.
    pub fn keep(&mut self, version: u32, bytes: &[u8]) {
        if version != 0 && self.assignments.set(version, bytes) {
            self.tree.set_version(version);
        }
    }

    /// Returns whether this is the master, as far as it knows.
    pub fn leads(&self) -> bool {
        is_host(self.hwid) && self.tree.parent().1.is_none()
    }

    /// Takes the new state of a port: up, down, faster, slower, or excluded.
    pub fn port(&mut self, now: u64, number: u8, port: Port, fx: &mut impl Effects) {
        self.act(now, fx, |tree, acts| {
            tree.port(now, number, port.is_up(), acts)
        });
        let cost = port.is_up().then(|| port.cost().unwrap_or(0));
        self.routes.port(now, number, cost, fx);
        self.follow(now, fx);
    }

    /// Takes a message from the neighbour at `port`. To be followed by [`Self::tick`] when no more
    /// messages are there: most of several that come together need no answer of their own.
    pub fn receive(&mut self, now: u64, port: u8, bytes: &[u8], fx: &mut impl Effects) {
        match bytes.get(..4) {
            Some(magic) if magic == state::MAGIC => self.tree.receive(now, port, bytes),
            Some(magic) if magic == update::MAGIC => self.routes.receive(now, port, bytes, fx),
            Some(magic) if magic == letter::MAGIC => {
                if let Ok((path, letter)) = Letter::parse(bytes) {
                    self.letter(now, port, path, &letter, fx);
                }
            }
            _ => {}
        }
    }

    /// Asks the master for the local id of the node with a hardware id: [`Effects::found`] is called. Another
    /// question that has no answer yet is dropped.
    pub fn find(&mut self, now: u64, hwid: u64, fx: &mut impl Effects) {
        self.wanted = hwid;
        self.find = Asked::at(now);
        self.follow(now, fx);
    }

    /// Takes new assignments of the administrator. Returns whether it took them: only a master does, if
    /// it has room for them.
    pub fn set_assignments(&mut self, now: u64, bytes: &[u8], fx: &mut impl Effects) -> bool {
        let version = version_after(self.assignments.version(), bytes);
        let taken = self.leads() && self.assignments.set(version, bytes);
        if taken {
            self.tree.set_version(version);
            fx.assignments(version);
            self.tick(now, fx);
        }
        taken
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, fx: &mut impl Effects) {
        self.act(now, fx, |tree, acts| tree.tick(now, acts));
        self.routes.tick(now, fx);
        self.follow(now, fx);
    }

    /// Returns when [`Self::tick`] is to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<u64> {
        // A message of a neighbour comes before the tree is settled.
        let settled = self.is_settled();
        let asked = [self.register.due, self.find.due].map(|due| due.filter(|_| settled));
        let others = [self.fetch.due, self.tree.deadline(), self.routes.deadline()];
        asked.into_iter().chain(others).flatten().min()
    }

    /// Has the tree do something.
    fn act<E: Effects>(
        &mut self,
        now: u64,
        fx: &mut E,
        what: impl FnOnce(&mut Tree<M::Peers>, &mut Acts<'_, E>),
    ) {
        let (lack, from) = self.tree.lack();
        if lack != 0 {
            self.tree.reuse(self.directory.free_areas(from, lack));
        }
        let mut acts = Acts { fx, lid: None };
        what(&mut self.tree, &mut acts);
        if let Some(lid) = acts.lid {
            self.routes.set_lid(now, lid, fx);
        }
    }

    /// Does what follows from the node's place in the tree, and from its neighbours' assignments.
    fn follow<E: Effects>(&mut self, now: u64, fx: &mut E) {
        if !self.leads() && self.directory.count() != 0 {
            // If it is the master again, nodes are to register again.
            self.directory.clear();
            self.tree.renew();
        }
        let (mastership, life) = self.tree.mastership();
        let current = (mastership.master, life, self.tree.lid());
        if current == self.noted || current.2 == 0 || !is_host(current.0) {
            self.register = Asked::NONE;
        } else if current != self.asked || self.register.due.is_none() {
            self.register = Asked::at(now);
        }
        self.asked = current;
        // While another master may be found it is too soon.
        let settled = self.is_settled();
        if settled && self.register.is_due(now) {
            let name = Name {
                hwid: self.hwid,
                lid: current.2,
            };
            self.ask(now, Letter::Register(life, name), fx);
        }
        if settled && self.find.is_due(now) {
            let name = Name {
                hwid: self.wanted,
                lid: 0,
            };
            self.ask(now, Letter::Find(name), fx);
        }
        let newest = (0..PORTS as u8).max_by_key(|port| self.tree.version_at(*port));
        let newest = newest.filter(|port| {
            let room = self.assignments.capacity() != 0;
            room && self.tree.version_at(*port) > self.assignments.version()
        });
        let Some(port) = newest else {
            self.fetch = Asked::NONE;
            return;
        };
        if self.fetch.due.is_none()
            || self.tree.version_at(self.source.0) != self.tree.version_at(port)
        {
            self.source = (port, 0);
            self.fetch = Asked::at(now);
        }
        if self.fetch.is_due(now) {
            let letter = Letter::Fetch(self.source.1);
            self.send(self.source.0, &Path::EMPTY, &letter, fx);
        }
    }

    /// Asks the master, which may be this node.
    fn ask<E: Effects>(&mut self, now: u64, letter: Letter<'_>, fx: &mut E) {
        match self.tree.parent().1 {
            Some(parent) => self.send(parent, &Path::EMPTY, &letter, fx),
            None if self.leads() => {
                if let Some(answer) = self.answer(&letter) {
                    self.answered(now, &answer, fx);
                }
            }
            None => {}
        }
    }

    fn send<E: Effects>(&mut self, port: u8, path: &Path, letter: &Letter<'_>, fx: &mut E) {
        let mut buf = [0; MAX_BYTES];
        let len = letter.encode(path, &mut buf);
        fx.send(port, buf.get(..len).unwrap_or_default());
    }

    fn letter<E: Effects>(
        &mut self,
        now: u64,
        port: u8,
        path: Path,
        letter: &Letter<'_>,
        fx: &mut E,
    ) {
        match letter {
            Letter::Fetch(offset) => {
                let piece = self.assignments.piece(*offset);
                let mut buf = [0; MAX_BYTES];
                let len = Letter::Part(piece).encode(&Path::EMPTY, &mut buf);
                fx.send(port, buf.get(..len).unwrap_or_default());
            }
            Letter::Part(piece) => {
                let wanted = port == self.source.0 && piece.version > self.assignments.version();
                if !wanted || self.fetch.due.is_none() {
                    return;
                }
                match self.assignments.take(piece, |_| Ok(())) {
                    Ok(Some(next)) => {
                        self.source.1 = next;
                        self.fetch = Asked::at(now);
                    }
                    Ok(None) => {
                        self.fetch = Asked::NONE;
                        self.tree.set_version(self.assignments.version());
                        fx.assignments(self.assignments.version());
                    }
                    Err(_) => self.source.1 = 0,
                }
            }
            up if up.is_for_master() => {
                let Some(path) = path.then(port) else {
                    return;
                };
                match self.tree.parent().1 {
                    Some(parent) => self.send(parent, &path, letter, fx),
                    None if self.leads() => {
                        if let Some(answer) = self.answer(letter) {
                            self.pass_down(now, path, &answer, fx);
                        }
                    }
                    None => {}
                }
            }
            _ => self.pass_down(now, path, letter, fx),
        }
    }

    /// Passes an answer on, or takes it.
    fn pass_down<E: Effects>(&mut self, now: u64, path: Path, letter: &Letter<'_>, fx: &mut E) {
        match path.ports().split_last() {
            Some((port, rest)) => {
                // Neighbours have written the path.
                let up = self.routes.is_up(*port);
                if let Some(rest) = Path::new(rest).filter(|_| up) {
                    self.send(*port, &rest, letter, fx);
                }
            }
            None => self.answered(now, letter, fx),
        }
    }

    /// Answers a question as the master.
    fn answer(&mut self, letter: &Letter<'_>) -> Option<Letter<'static>> {
        match letter {
            Letter::Register(life, name) if name.lid != 0 => {
                // An earlier one would not be in the directory any more.
                if *life != self.tree.mastership().1 {
                    return None;
                }
                let noted = self.directory.note(*name)?;
                // Most of those that are noted are gone.
                let all = self.tree.total().map_or(usize::MAX, |total| total as usize);
                if self.directory.count() / 2 > all {
                    self.directory.clear();
                    self.tree.renew();
                }
                Some(Letter::Registered(*life, *name, noted))
            }
            Letter::Find(name) => Some(Letter::Found(Name {
                hwid: name.hwid,
                lid: self.directory.find(name.hwid),
            })),
            _ => None,
        }
    }

    /// Takes an answer of the master.
    fn answered<E: Effects>(&mut self, now: u64, letter: &Letter<'_>, fx: &mut E) {
        match letter {
            Letter::Registered(life, name, noted) => {
                let asked = (name.hwid, *life, name.lid);
                if asked != (self.hwid, self.asked.1, self.tree.lid()) {
                    return;
                }
                self.noted = self.asked;
                self.register = Asked::NONE;
                if !noted {
                    self.act(now, fx, |tree, acts| tree.renumber(now, acts));
                }
            }
            Letter::Found(name) if name.hwid == self.wanted && self.find.due.is_some() => {
                self.find = Asked::NONE;
                fx.found(name);
            }
            _ => {}
        }
    }
}
