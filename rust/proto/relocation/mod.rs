// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Migration of a virtual function to another host.
//!
//! The steps, and the ways back, are those of [`super::migration`], which the source's host runs. What the
//! two hosts have to agree upon is in the text of the assignments, which the master of the fabric changes,
//! and which every host keeps ([`lines`]): how far a migration is, and which identity each function carries.
//! Each host asks the master for the next change ([`lines::amend`]) until its own copy of the text shows the
//! change, or shows that it cannot be made any more. So a host that dies, a master that is another one, and
//! a message that is lost or late leave no doubt: what the text says is so.
//!
//! ```text
//!   the source's host asks    the master writes          the target's host asks
//!   Asked, with the quota     asked
//!                             ready                      Ready: the target is claimed
//!   Given: the source is cut  given; ids exchanged
//!                             done                       Done: the target works
//!   Closed                    no line any more
//!
//!   Back: Revoked             revoked
//!                             failed                     Failed: the target has no driver
//!   Back                      back; ids exchanged again
//!   Closed                    no line any more           Closed: the target is as before
//! ```
//!
//! [`source`] says what the source's host does for a step that concerns the target, [`target`] is what the
//! target's host does. This folder is independent of how a request reaches the master, and of what a quota is.

pub mod lines;
pub mod source;
pub mod target;
