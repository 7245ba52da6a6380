// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What matching takes of the memory of a host, by what the driver allocates: a port that has interfaces, an interface,
//! a host that these talk with; and so many ranks. Hosts are two ports of this machine.

use crate::Result;
use crate::allocated::Kernel;
use crate::matching::{events, post};
use weft::Port;
use weft::matching::{
    Append, Command, Criteria, EventKind, Matching, MatchingOptions, Memory, Message,
};

/// Rings as the provider of libfabric has them. Lists are the engines': entries take no memory of an interface.
const COMMANDS: u32 = 512;
const EVENTS: u32 = 1024;
const ENTRIES: u32 = 64;
/// The engines of a port. Each is made with the first interface that it is for.
const ENGINES: usize = weft_proto::matching::ENGINES;
const BYTES: usize = 8;

/// An interface that matches, and where it receives.
struct Rank {
    interface: Matching,
    memory: Box<[u8; BYTES]>,
}

impl Rank {
    fn new(port: &Port) -> Result<Self> {
        let options = MatchingOptions::default().entries(ENTRIES);
        let mut interface = port.matching(&options.commands(COMMANDS).events(EVENTS))?;
        post(&mut interface, &Command::enable(0))?;
        events(&mut interface, 1, EventKind::Command)?;
        interface.rest();
        Ok(Rank { interface, memory: Box::default() })
    }

    /// Sends a message, which has arrived then.
    fn send(&mut self, to: &mut Rank) -> Result<()> {
        // SAFETY: It lives as long as the interface, and nothing else looks at it.
        let memory = unsafe { Memory::new(to.memory.as_mut_ptr(), BYTES) };
        let criteria = Criteria { bits: 0, ignore: 0, source: None };
        post(&mut to.interface, &Command::append(&Append::once(criteria, memory, 0)))?;
        to.interface.poll()?;
        let message = Message::in_ring(to.interface.address(), &[7; BYTES], 0);
        let message = message.ok_or("a message is too long for the ring")?;
        if !self.interface.send(&message.bits(0)) {
            return Err("a message does not fit the ring".into());
        }
        self.interface.poll()?;
        events(&mut to.interface, 1, EventKind::Received)?;
        events(&mut self.interface, 1, EventKind::Sent)?;
        to.interface.rest();
        self.interface.rest();
        Ok(())
    }
}

/// Pairs of ranks, one of each port, of which each has got a message of the other.
fn pairs(kernel: &mut Kernel, from: &Port, to: &Port, count: usize) -> Result<Vec<[Rank; 2]>> {
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        let [mut one, mut other] = [Rank::new(from)?, Rank::new(to)?];
        one.send(&mut other)?;
        other.send(&mut one)?;
        pairs.push([one, other]);
        kernel.listen()?;
    }
    Ok(pairs)
}

fn report(what: &str, bytes: u64) {
    println!("{{\"what\": \"{what}\", \"bytes\": {bytes}}}");
}

/// What is in use of the memory that neighbours may reach.
fn in_arenas(port: &Port) -> Result<u64> {
    Ok(port.links()?.iter().map(|link| link.arena_bytes - link.arena_free).sum())
}

/// What each of the parts takes.
fn parts(kernel: &mut Kernel, from: &Port, to: &Port) -> Result<()> {
    let mut ranks = Vec::new();
    let mut there = vec![kernel.settled()?];
    for _ in 0..ENGINES + 1 {
        ranks.push(Rank::new(from)?);
        there.push(kernel.settled()?);
    }
    let each: Vec<u64> = there.iter().zip(there.iter().skip(1)).map(|(a, b)| b - a).collect();
    let [first, .., last, interface] = each[..] else { return Err("there are no engines".into()) };
    let engine = last.checked_sub(interface).ok_or("an engine takes nothing")?;
    let port = first.checked_sub(last).ok_or("a port takes nothing")?;
    report("interface", interface);
    report("engine", engine);
    report("port", port);
    let mut other = Rank::new(to)?;
    let before = kernel.settled()?;
    let arena = in_arenas(from)?;
    let one = ranks.first_mut().ok_or("there is no interface")?;
    one.send(&mut other)?;
    // Each of the two has a peer then, with a channel each way.
    report("peer", (kernel.settled()? - before) / 2);
    report("peer-arena", in_arenas(from)? - arena);
    Ok(())
}

/// Between two ports of this host, then so many ranks, half of them at each.
pub fn measure(from: u32, to: u32, ranks: &[usize]) -> Result<()> {
    let (from, to) = (Port::open(from)?, Port::open(to)?);
    let mut kernel = Kernel::new()?;
    // What is made once, and stays, is there then.
    drop(pairs(&mut kernel, &from, &to, 1)?);
    parts(&mut kernel, &from, &to)?;
    for count in ranks {
        let before = kernel.settled()?;
        let all = pairs(&mut kernel, &from, &to, count / 2)?;
        report(&format!("{count}-ranks"), kernel.settled()? - before);
        drop(all);
    }
    Ok(())
}
