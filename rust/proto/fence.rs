// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fences of the protocol, each with its name.
//!
//! `Documentation/protocol.rst` says of each why it is there and which test fails without it. For
//! those tests a build can lack exactly one: `--cfg weft_without_fence="NAME"`, which Kbuild and the
//! build script of `tools/proto` make of the variable `WEFT_WITHOUT_FENCE`. In any other build
//! [`Fence::is_there`] is constantly true and costs nothing.

/// A fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Sender: everything of a message, then the head that says that it is there.
    Publish,
    /// Receiver: the head, then everything else of a message.
    Head,
    /// Receiver: the last load of a message, then the credit that lets the sender overwrite it.
    Credit,
    /// Sender: the head, then the load of the event index at which the receiver wants to be woken.
    WakeReceiver,
    /// Receiver: the credit, then the load of the event index at which the sender wants to be woken.
    WakeSender,
    /// Driver of the sleeping end: the event index, then the doorbell that asks for an echo.
    Sleep,
    /// User: the state of a channel, then what the rings say, or why it is broken.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
    State,
    /// User: a message, then the state that says whether its memory was still there.
    #[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
    Reread,
}

impl Fence {
    /// Returns whether this build has the fence.
    #[inline(always)]
    pub const fn is_there(self) -> bool {
        !match self {
            Fence::Publish => cfg!(weft_without_fence = "publish"),
            Fence::Head => cfg!(weft_without_fence = "head"),
            Fence::Credit => cfg!(weft_without_fence = "credit"),
            Fence::WakeReceiver => cfg!(weft_without_fence = "wake-receiver"),
            Fence::WakeSender => cfg!(weft_without_fence = "wake-sender"),
            Fence::Sleep => cfg!(weft_without_fence = "sleep"),
            Fence::State => cfg!(weft_without_fence = "state"),
            Fence::Reread => cfg!(weft_without_fence = "reread"),
        }
    }
}
