// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions TCP takes for messages, and both TCP and queue pairs for 32 KiB and for a mebibyte.
//!
//! Much of that is done by interrupts while the program waits, so what is spent waiting has to be told from
//! it: the program looks in a loop, each look in vain costs the same, and that many times their number is
//! taken off. What a look costs is counted where nothing happens.
//!
//! TCP's ends are two network cards of the guest, the other one in a network namespace of its own, so that
//! what is sent takes the way through both drivers and the emulator, and not the loopback device.

use super::trace::Trace;
use super::{BYTES, QP_BATCH, RUNS, clock, report};
use crate::Result;
use crate::verbs::{BATCH, Verbs};
use rustix::io::ioctl_fionread;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;

const SIZES: [usize; 2] = [32 << 10, 1 << 20];
/// What TCP is given at a time.
const PIECE: usize = 64 << 10;
/// Batches of a run.
const BATCHES: usize = 21;
/// Batches that are traced: the first one has more in it.
const TRACED: usize = 4;
/// Looks in vain by which their cost is told, and that come behind a batch: acknowledgements go back then.
const QUIET: u64 = 2000;
/// In vain, one after the other, when what is waited for will not come.
const LOST: u64 = 1 << 24;

/// Instructions that are not those of looks in vain.
struct Looks {
    each: f64,
}

impl Looks {
    /// Counts what looks cost when there is nothing to see: of some rounds the least, as any interrupt adds
    /// to it.
    fn new(mut look: impl FnMut() -> Result<bool>) -> Result<Self> {
        let mut least = u64::MAX;
        for _ in 0..RUNS {
            let start = clock();
            for _ in 0..QUIET {
                look()?;
            }
            least = least.min(clock() - start);
        }
        Ok(Looks { each: least as f64 / QUIET as f64 })
    }

    /// Looks until there is what is waited for; what was done meanwhile, besides.
    fn until(&self, mut look: impl FnMut() -> Result<bool>) -> Result<u64> {
        let start = clock();
        for count in 1..LOST {
            if look()? {
                return Ok(self.without(count, clock() - start));
            }
        }
        Err("what was sent does not come".into())
    }

    /// Looks in vain for a while; what was done meanwhile, besides.
    fn quiet(&self, mut look: impl FnMut() -> Result<bool>) -> Result<u64> {
        let start = clock();
        for _ in 0..QUIET {
            look()?;
        }
        Ok(self.without(QUIET, clock() - start))
    }

    fn without(&self, count: u64, spent: u64) -> u64 {
        spent.saturating_sub((count as f64 * self.each) as u64)
    }
}

/// A network namespace, by the name that `ip netns` knows.
pub fn namespace(name: &str) -> Result<File> {
    Ok(File::open(format!("/run/netns/{name}"))?)
}

/// Listens at an address in another network namespace.
pub fn listening(name: &str, address: &str) -> Result<TcpListener> {
    let there = namespace(name)?;
    let at = address.to_owned();
    let bound = thread::spawn(move || -> Result<TcpListener> {
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(TcpListener::bind(at)?)
    });
    bound.join().map_err(|_| "the listening thread panicked")?
}

/// A connection from here to an address in another network namespace: both ends of it.
pub fn connected(namespace: &str, address: &str) -> Result<(TcpStream, TcpStream)> {
    let listener = listening(namespace, address)?;
    let here = TcpStream::connect(address)?;
    let (there, _) = listener.accept()?;
    for end in [&here, &there] {
        end.set_nodelay(true)?;
    }
    Ok((here, there))
}

/// Messages of 64 bytes by TCP: `share` of them in each call.
fn messages(
    ends: &mut (TcpStream, TcpStream),
    looks: &Looks,
    share: usize,
) -> Result<[Vec<u64>; 3]> {
    let (from, to) = ends;
    let mut bytes = vec![7; share * BYTES];
    let [mut sends, mut receives, mut between] = [const { Vec::new() }; 3];
    for _ in 0..BATCHES {
        looks.quiet(|| Ok(ioctl_fionread(&*to)? > 0))?;
        let start = clock();
        for _ in 0..QP_BATCH / share {
            from.write_all(&bytes)?;
        }
        let sent = clock();
        let arriving = looks.until(|| Ok(ioctl_fionread(&*to)? as usize == QP_BATCH * BYTES))?;
        let arrived = clock();
        for _ in 0..QP_BATCH / share {
            to.read_exact(&mut bytes)?;
        }
        receives.push(clock() - arrived);
        sends.push(sent - start);
        between.push(arriving + looks.quiet(|| Ok(ioctl_fionread(&*to)? > 0))?);
    }
    Ok([sends, receives, between])
}

/// So many bytes by TCP, both ends and all that happens between.
fn piece(ends: &mut (TcpStream, TcpStream), looks: &Looks, size: usize) -> Result<Vec<u64>> {
    let (from, to) = ends;
    let (bytes, mut got) = (vec![7; PIECE], vec![0; PIECE]);
    let mut all = Vec::new();
    for _ in 0..BATCHES {
        let (mut done, mut spent) = (0, 0);
        while done < size {
            let start = clock();
            let count = from.write(&bytes[..PIECE.min(size - done)])?;
            spent += clock() - start;
            spent += looks.until(|| Ok(ioctl_fionread(&*to)? as usize >= count))?;
            let start = clock();
            to.read_exact(&mut got[..count])?;
            spent += clock() - start;
            done += count;
        }
        all.push(spent + looks.quiet(|| Ok(ioctl_fionread(&*to)? > 0))?);
    }
    Ok(all)
}

/// A mebibyte at a time, to be traced: the end that receives sleeps until it comes.
pub fn traced_tcp(ends: (TcpStream, TcpStream), trace: &Trace<'_>) -> Result<()> {
    let (mut from, mut to) = ends;
    let (bytes, mut got) = (vec![7; PIECE], vec![0; PIECE]);
    let mut some = |count: usize| -> Result<()> {
        for _ in 0..count {
            clock();
            for _ in 0..(1 << 20) / PIECE {
                from.write_all(&bytes)?;
                to.read_exact(&mut got)?;
            }
            clock();
        }
        Ok(())
    };
    some(BATCHES)?;
    trace.of("tcp-1m", 1, || some(TRACED))
}

/// By TCP, over this connection.
pub fn tcp(mut ends: (TcpStream, TcpStream)) -> Result<()> {
    let receiver = ends.1.try_clone()?;
    let looks = Looks::new(|| Ok(ioctl_fionread(&receiver)? > 0))?;
    for run in 0..=RUNS {
        for (name, share) in [("tcp", 1), ("tcp-batched", BATCH)] {
            let [sends, receives, between] = messages(&mut ends, &looks, share)?;
            // The first one warms up.
            if run > 0 {
                report(&format!("{name}-send"), BYTES, sends, QP_BATCH)?;
                report(&format!("{name}-receive"), BYTES, receives, QP_BATCH)?;
                report(&format!("{name}-between"), BYTES, between, QP_BATCH)?;
            }
        }
        for size in SIZES {
            let whole = piece(&mut ends, &looks, size)?;
            if run > 0 {
                report("tcp", size, whole, 1)?;
            }
        }
    }
    Ok(())
}

/// RDMA writes, both ends.
pub fn queue_pair(sender: &mut Verbs, receiver: &mut Verbs) -> Result<()> {
    let looks = Looks::new(|| {
        receiver.idle()?;
        sender.is_settled()
    })?;
    for run in 0..=RUNS {
        for size in SIZES {
            let mut all = Vec::new();
            for _ in 0..BATCHES {
                let start = clock();
                sender.write(0, size)?;
                let posted = clock() - start;
                let moved = looks.until(|| {
                    receiver.idle()?;
                    sender.is_settled()
                })?;
                all.push(posted + moved);
            }
            if run > 0 {
                report("qp-write", size, all, 1)?;
            }
        }
    }
    Ok(())
}
