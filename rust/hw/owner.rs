// SPDX-License-Identifier: GPL-2.0

//! The owner of a virtual function, its physical function, as the driver of the virtual one sees it: it
//! may belong to another system, hang, or be absent.

use crate::proto::pair::{Asked, Way};
use kernel::prelude::*;

/// The owner of a virtual function.
pub(crate) trait Owner: Send + Sync {
    /// Returns whether the owner has reset this function without notice. [`super::Port::suspend`] and
    /// [`super::Port::resume`] take it into use again.
    fn was_reset(&self) -> bool;

    /// Tells the owner whether this function has users. Called whenever that changes, and after
    /// [`super::Port::resume`] and [`super::Port::restart`]. May sleep.
    fn tell_users(&self, any: bool);

    /// Returns the last request of the owner for the users. [`super::Events::message`] reports a change.
    fn asked(&self) -> Asked;

    /// Answers the request `asked`: `left` things are outstanding. May sleep.
    fn tell_left(&self, asked: Asked, left: u32);

    /// Asks the owner for the way to the function with this hardware id. Sleeps, for at most half a second.
    ///
    /// `ETIMEDOUT` if it does not answer.
    fn way(&self, hwid: u64) -> Result<Way>;
}
