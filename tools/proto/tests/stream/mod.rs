// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of a program that sends over a socket, or receives, for the tests of streams.

use weft_proto::{
    socket::stream::{Fault, Sender, Sink, Source},
    window::{Area, Window},
};

/// Bytes that are sent.
pub struct Bytes<'a>(pub &'a [u8]);

impl<W: Window> Source<W> for Bytes<'_> {
    fn store(&mut self, ring: &W, at: usize, count: usize, word: &mut u64) -> usize {
        let (now, rest) = self.0.split_at(count.min(self.0.len()));
        let held = at % 8;
        let mut whole = word.to_le_bytes()[..held].to_vec();
        whole.extend_from_slice(now);
        ring.write(at - held, &whole);
        let mut last = [0; 8];
        let left = whole.len() % 8;
        last[..left].copy_from_slice(&whole[whole.len() - left..]);
        *word = u64::from_le_bytes(last);
        self.0 = rest;
        now.len()
    }
}

/// Bytes that are received, and room for more.
pub struct Room<'a>(pub &'a mut [u8]);

impl<A: Area> Sink<A> for Room<'_> {
    fn load(&mut self, ring: &A, at: usize, count: usize) -> usize {
        let skipped = at % 8;
        let count = count.min(self.0.len());
        let mut whole = vec![0; skipped + count];
        ring.read(at - skipped, &mut whole);
        let (now, rest) = core::mem::take(&mut self.0).split_at_mut(count);
        now.copy_from_slice(&whole[skipped..]);
        self.0 = rest;
        count
    }
}

/// Sends as many of `bytes` as there is room for.
pub fn send<M: Area + Window>(
    sender: &mut Sender,
    own: &M,
    peer: &M,
    bytes: &[u8],
) -> Result<usize, Fault> {
    sender.send(own, peer, bytes.len(), &mut Bytes(bytes))
}
