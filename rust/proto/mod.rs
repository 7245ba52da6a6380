// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Pure logic of Weft: layouts, rings, messages, state machines.
//!
//! `core` only: no allocation, no kernel crate, no I/O, no `unsafe`. The module mounts this folder,
//! and so does the cargo crate `weft-proto`, in which it is tested and from which the library and
//! the tools take it. It is independent of its callers.
//!
//! In the kernel module it is private, so an item that the module does not use is dead code and fails to
//! compile. An item that only the library or a tool uses is marked
//! `#[cfg_attr(MODULE, expect(dead_code, reason = "used by weft-fabric"))]`, with the name of the crate,
//! or of a file here that the module does not have: `proto::ring`.
//! `scripts/proto-users` checks that the mark is true, and that no item exists for tests alone. A folder that is
//! written before what uses all of it is in `AHEAD` there.

/// Declares an enum of numbers that a format or an interface fixes, and its function `of`, which returns
/// the value with a number.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $number:ty {
            $($(#[$doc:meta])* $value:ident = $is:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($number)]
        pub enum $name {
            $($(#[$doc])* $value = $is,)*
        }

        impl $name {
            /// Returns the value with this number.
            pub const fn of(number: $number) -> Option<Self> {
                match number {
                    $($is => Some(Self::$value),)*
                    _ => None,
                }
            }
        }
    };
}

pub mod bytes;
pub mod cell;
pub mod cqe;
pub mod crc;
pub mod direction;
pub mod eager;
pub mod endpoint;
pub mod envelope;
pub mod ethernet;
pub mod fence;
pub mod fifo;
pub mod heartbeat;
pub mod hold;
pub mod link;
pub mod mac;
pub mod matching;
pub mod migration;
pub mod mr;
pub mod nm;
pub mod pace;
pub mod pages;
pub mod pair;
pub mod payload;
pub mod proof;
pub mod protocol;
pub mod qp;
pub mod quiesce;
pub mod ratelimit;
pub mod reach;
pub mod relocation;
pub mod request;
pub mod ring;
pub mod share;
pub mod slot;
pub mod socket;
pub mod stag;
pub mod staging;
pub mod text;
pub mod tpt;
pub mod trunk;
pub mod watch;
pub mod window;
pub mod wire;
pub mod word;
pub mod wqe;
