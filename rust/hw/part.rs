// SPDX-License-Identifier: GPL-2.0

//! A part of an arena, or of the peer's behind a window, as `proto` accesses it.
//!
//! Bounds are checked once, for all of it. This file must not know what is in it.

use crate::{
    proto::{
        fence::Fence,
        socket::stream::{Sink, Source},
        window,
    },
    sys::{
        area::{self, Area},
        iter,
        words::Words,
    },
};
use kernel::iov::{IovIterDest, IovIterSource};

/// Contiguous bytes of an area.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a>(Words<'a>);

impl<'a> Part<'a> {
    /// Nothing: loads return 0, and stores are dropped.
    pub(crate) const NONE: Self = Self(Words::NONE);

    /// Returns `bytes` bytes from `at` on, both multiples of 8; nothing, if they are not inside.
    pub(crate) fn of(area: &'a Area, at: usize, bytes: usize) -> Self {
        Self(
            area.words(at, bytes / size_of::<u64>())
                .unwrap_or(Words::NONE),
        )
    }
}

impl window::Area for Part<'_> {
    fn load(&self, at: usize) -> u64 {
        self.0.load(at / size_of::<u64>())
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        self.0.read(at / size_of::<u64>(), out);
    }

    fn rmb(&self, fence: Fence) {
        if fence.is_there() {
            area::rmb();
        }
    }
}

impl window::Window for Part<'_> {
    fn store(&self, at: usize, word: u64) {
        self.0.store(at / size_of::<u64>(), word);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.0.write(at / size_of::<u64>(), bytes);
    }

    fn wmb(&self, fence: Fence) {
        if fence.is_there() {
            area::wmb();
        }
    }

    fn mb(&self, fence: Fence) {
        if fence.is_there() {
            area::mb();
        }
    }
}

impl Source<Part<'_>> for IovIterSource<'_> {
    fn store(&mut self, ring: &Part<'_>, at: usize, count: usize, word: &mut u64) -> usize {
        iter::store(&ring.0, at, count, word, self)
    }
}

impl Sink<Part<'_>> for IovIterDest<'_> {
    fn load(&mut self, ring: &Part<'_>, at: usize, count: usize) -> usize {
        iter::load(&ring.0, at, count, self)
    }
}
