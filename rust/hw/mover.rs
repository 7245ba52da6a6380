// SPDX-License-Identifier: GPL-2.0

//! What moves bulk data through the window of a link without a CPU.
//!
//! It must not know what the data are, nor which queue pair they are of.

/// A piece of local memory, by its DMA address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) bytes: u32,
}

/// What became of what a [`Mover`] was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    NotYet,
    /// The local memory may be used for something else. What was written has left, and may still be on
    /// its way.
    Done,
    /// The local memory could not be read; part of it may have been moved.
    Refused,
    /// The neighbour could not be reached.
    Failed,
}

/// Moves data from local memory through the window of a link, one thing after the other, in the order
/// in which it is given them; that is the order in which they arrive. It is not ordered with stores
/// through [`super::Port::window`], or with doorbells rung by [`super::Port::ring`].
///
/// Each thing has a number: they count up, modulo 2^32. One caller at a time, in threads.
pub(crate) trait Mover: Send + Sync {
    /// The most pieces of one write.
    fn max_pieces(&self) -> usize;

    /// How many things it takes now.
    fn room(&self) -> usize;

    /// Writes `pieces`, one behind the other, to `at` of the window, and rings a doorbell of the
    /// neighbour when they are there. `None`: there is no room, or there are too many pieces, or none.
    fn write(&self, at: usize, pieces: &[Piece], ring: Option<u32>) -> Option<u32>;

    /// Rings a doorbell of the neighbour, when all before it is there. `None`: there is no room.
    fn ring(&self, doorbell: u32) -> Option<u32>;

    /// Calls [`super::Events::moved`] when all before it is done. `None`: there is no room.
    fn report(&self) -> Option<u32>;

    /// What became of one that was not released.
    fn state(&self, number: u32) -> Moved;

    /// Forgets one that is done, and all before it: there is room for others.
    fn release(&self, number: u32);

    /// Whether it goes on: false if it has stopped, by itself or not.
    fn works(&self) -> bool;

    /// Gives up what is not done, until the window is attached again. No memory that it was given is
    /// looked at when this returns.
    fn stop(&self);
}
