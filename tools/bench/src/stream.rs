// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages over a stream of bytes, which has none of its own: both ends know their lengths.
//!
//! Short ones that follow each other share a system call, as requests of a queue pair share a doorbell:
//! [`BATCH`] of them go in one write, and one read takes as many as have come.

use crate::verbs::BATCH;
use crate::{PATIENCE, Result};
use std::hint::spin_loop;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A connection that is a stream of bytes.
pub trait Connection: Read + Write {
    /// Sends at once, rather than wait for more; has no call sleep if it is to be `polled`.
    fn prepare(&self, polled: bool) -> std::io::Result<()>;
}

impl Connection for TcpStream {
    fn prepare(&self, polled: bool) -> std::io::Result<()> {
        self.set_nodelay(true)?;
        self.set_nonblocking(polled)
    }
}

impl Connection for weft::net::Stream {
    fn prepare(&self, polled: bool) -> std::io::Result<()> {
        self.set_nonblocking(polled)
    }
}

/// What is longer goes by itself.
const SHORT: usize = 4096;

/// One end of a connection.
pub struct Stream<C> {
    stream: C,
    polled: bool,
    /// What is to go with the next write, and of how many messages it is.
    queued: Vec<u8>,
    messages: usize,
    /// What a read has brought, and how much of it was taken.
    come: Vec<u8>,
    filled: usize,
    taken: usize,
}

impl<C: Connection> Stream<C> {
    /// Polled: no call of it ever sleeps; whether the kernel looks into the queue of a network card meanwhile is
    /// up to `net.core.busy_read`.
    pub fn new(stream: C, polled: bool) -> Result<Self> {
        stream.prepare(polled)?;
        let come = vec![0; BATCH * SHORT];
        Ok(Stream { stream, polled, queued: Vec::new(), messages: 0, come, filled: 0, taken: 0 })
    }

    /// Does what may have to be done again until it can be done.
    fn until(
        &mut self,
        mut what: impl FnMut(&mut Self) -> std::io::Result<usize>,
    ) -> Result<usize> {
        let mut begin = None;
        loop {
            match what(self) {
                Ok(0) => return Err("the other end has closed the connection".into()),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if self.polled && error.kind() == ErrorKind::WouldBlock => {
                    let begin = *begin.get_or_insert_with(Instant::now);
                    if PATIENCE.is_some_and(|limit| begin.elapsed() > limit) {
                        return Err("the other end says nothing any more".into());
                    }
                    spin_loop();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.until(|this| this.stream.write(&bytes[done..]))?;
        }
        Ok(())
    }

    /// Sends a message, and those before it that have waited.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.flush()?;
        self.write(message)
    }

    /// Sends a message that others follow.
    pub fn queue(&mut self, message: &[u8]) -> Result<()> {
        if message.len() > SHORT {
            return self.send(message);
        }
        self.queued.extend_from_slice(message);
        self.messages += 1;
        if self.messages < BATCH { Ok(()) } else { self.flush() }
    }

    /// Sends what has waited.
    pub fn flush(&mut self) -> Result<()> {
        self.messages = 0;
        let queued = std::mem::take(&mut self.queued);
        let sent = self.write(&queued);
        self.queued = queued;
        self.queued.clear();
        sent
    }

    /// Receives a message of just this length.
    pub fn recv(&mut self, message: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < message.len() {
            let rest = message.len() - done;
            if self.taken < self.filled {
                let now = rest.min(self.filled - self.taken);
                let come = &self.come[self.taken..self.taken + now];
                message[done..done + now].copy_from_slice(come);
                self.taken += now;
                done += now;
            } else if rest > SHORT {
                done += self.until(|this| this.stream.read(&mut message[done..]))?;
            } else {
                self.taken = 0;
                self.filled = 0;
                self.filled = self.until(|this| this.stream.read(&mut this.come))?;
            }
        }
        Ok(())
    }
}
