// SPDX-License-Identifier: GPL-2.0

//! The physical function of a virtual one, as the virtual one has it: it may be another system's, hang, or
//! not be there at all.

use crate::proto::pair::Asked;

/// Of a virtual function.
pub(crate) trait Owner: Send + Sync {
    /// Whether the owner has reset this function without a word: [`super::Port::suspend`] and
    /// [`super::Port::resume`] bring it back.
    fn was_reset(&self) -> bool;

    /// Tells the owner whether this function has users: to be called whenever that changes, and after
    /// [`super::Port::resume`] and [`super::Port::restart`]. May sleep.
    fn tell_users(&self, any: bool);

    /// What the owner wants of the users. [`super::Events::message`] tells of a change.
    fn asked(&self) -> Asked;

    /// Answers that: how much is outstanding. May sleep.
    fn tell_left(&self, asked: Asked, left: u32);
}
