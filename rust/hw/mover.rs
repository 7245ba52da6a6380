// SPDX-License-Identifier: GPL-2.0

//! DMA channels, which move bulk data through the window of a link without a CPU.
//!
//! A channel must not know what the data are, nor to which queue pair they belong.

/// A piece of local memory, by its DMA address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) bytes: u32,
}

/// The state of a request to a [`Mover`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    NotYet,
    /// The local memory may be reused. The data have left this host, and may still be in transit.
    Done,
    /// The local memory could not be read; part of it may have been moved.
    Refused,
    /// The neighbour could not be reached.
    Failed,
}

/// A DMA channel: moves data from local memory through the window of a link.
///
/// Requests are processed in the order of the calls, and their data arrive in this order. They are not
/// ordered with stores through [`super::Port::window`], nor with doorbells rung by
/// [`super::Port::ring`].
///
/// Each request has a number, counted up modulo 2^32. One caller at a time, in threads.
pub(crate) trait Mover: Send + Sync {
    /// Returns the maximum number of pieces of one write.
    fn max_pieces(&self) -> usize;

    /// Returns how many requests the channel takes now.
    fn room(&self) -> usize;

    /// Writes `pieces`, one after the other, to byte `at` of the window, and rings doorbell `ring` of
    /// the neighbour when they have arrived. Returns the number of the request; `None` if there is no
    /// room, if there are too many pieces or none, or if there is no such doorbell.
    fn write(&self, at: usize, pieces: &[Piece], ring: Option<u32>) -> Option<u32>;

    /// Rings a doorbell of the neighbour when the data of all earlier requests have arrived. Returns the
    /// number of the request; `None` if there is no room or no such doorbell.
    fn ring(&self, doorbell: u32) -> Option<u32>;

    /// Has [`super::Events::moved`] called when all earlier requests are done. Returns the number of the
    /// request; `None` if there is no room.
    fn report(&self) -> Option<u32>;

    /// Returns the state of request `number`, which was not released.
    fn state(&self, number: u32) -> Moved;

    /// Releases request `number`, which is done, and all earlier ones: there is room for others.
    fn release(&self, number: u32);

    /// Returns whether the channel is running. False after an error has stopped it, and after
    /// [`Mover::stop`].
    fn works(&self) -> bool;

    /// Aborts the requests that are not done, and stops the channel until the window is attached again.
    /// When this returns, the channel does not access the local memory any more.
    fn stop(&self);
}
