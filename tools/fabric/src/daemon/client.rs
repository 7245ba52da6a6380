// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A connection of the command line: lines in, lines out. Does not know what
//! they ask for.

use crate::control::{MAX_REQUEST, Reply, Request};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Serialize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes a client may leave unread.
const MAX_UNREAD: usize = 4 << 20;

/// A connection.
pub struct Client {
    fd: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Wants events.
    pub follows: bool,
    /// Its request is not answered yet; the next one has to wait.
    pub busy: bool,
    ended: bool,
}

/// The connection is of no more use.
pub struct Lost;

impl Client {
    pub fn new(fd: OwnedFd) -> Self {
        Client { fd, input: vec![], output: vec![], follows: false, busy: false, ended: false }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What to wait for. A client that has closed its sending side may still
    /// wait for answers.
    pub fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if !self.ended && self.input.len() < MAX_REQUEST {
            flags |= PollFlags::IN;
        }
        if !self.output.is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }

    /// Reads what there is, without waiting.
    pub fn fill(&mut self) -> Result<(), Lost> {
        let mut bytes = [0; 4096];
        while !self.ended && self.input.len() < MAX_REQUEST {
            match recv(&self.fd, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.ended = true,
                Ok((n, _)) => self.input.extend(bytes.iter().take(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(Lost),
            }
        }
        Ok(())
    }

    /// [`Self::next`] would find something to do.
    pub fn has_request(&self) -> bool {
        !self.busy && self.input.contains(&b'\n')
    }

    /// The next request, unless one is being worked on; bad ones are answered here.
    pub fn next(&mut self) -> Result<Option<Request>, Lost> {
        while !self.busy {
            let Some(end) = self.input.iter().position(|b| *b == b'\n') else {
                if self.input.len() >= MAX_REQUEST {
                    self.reply(&Reply::Error(format!(
                        "a request of {MAX_REQUEST} bytes or more; send less"
                    )))?;
                    let _ = self.flush();
                    return Err(Lost);
                }
                return Ok(None);
            };
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(request) => {
                    self.busy = true;
                    return Ok(Some(request));
                }
                Err(e) => self.reply(&Reply::Error(format!("not a request: {e}")))?,
            }
        }
        Ok(None)
    }

    /// Answers the request that is being worked on.
    pub fn reply(&mut self, reply: &Reply) -> Result<(), Lost> {
        self.busy = false;
        self.line(reply)
    }

    /// Sends a line; a client that does not read is lost.
    pub fn line(&mut self, line: &impl Serialize) -> Result<(), Lost> {
        serde_json::to_writer(&mut self.output, line).map_err(|_| Lost)?;
        self.output.push(b'\n');
        if self.output.len() > MAX_UNREAD { Err(Lost) } else { Ok(()) }
    }

    /// Sends what can be sent without waiting.
    pub fn flush(&mut self) -> Result<(), Lost> {
        while !self.output.is_empty() {
            match send(&self.fd, &self.output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Lost),
            }
        }
        // One that waits or follows is looked at for its end by poll's HUP.
        if self.ended && !self.busy && !self.follows { Err(Lost) } else { Ok(()) }
    }
}
