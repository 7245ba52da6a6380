// SPDX-License-Identifier: GPL-2.0

//! Why an open function is broken, and the errors that its program gets.

use crate::sys::{
    errno::{ECONNRESET, EPROTO, ESHUTDOWN},
    ext,
};
use kernel::prelude::*;

/// Why a function is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Its file was closed, or was not opened.
    Closed,
    /// The port is gone.
    Removed,
    /// The port was reset.
    Reset,
    /// Its route is lost, or another one.
    Route,
    /// It is not in the hierarchy any more, or is about to be removed.
    Withdrawn,
    /// It reports a failure: `WEFT_EP_FAIL_*`.
    Failed(u32),
    /// It has broken the protocol.
    Lied,
}

impl Why {
    pub(super) fn errno(self) -> Error {
        match self {
            Self::Closed | Self::Removed => ENODEV,
            Self::Reset | Self::Route => ECONNRESET.into(),
            Self::Withdrawn => ESHUTDOWN.into(),
            Self::Failed(_) => EIO,
            Self::Lied => EPROTO.into(),
        }
    }

    /// Returns the part of the function that has failed, in a word, if the endpoint is the cause.
    pub(super) fn failure(self) -> Option<&'static CStr> {
        Some(match self {
            Self::Failed(0) => c"disabled",
            Self::Failed(ext::WEFT_EP_FAIL_SETUP) => c"setup",
            Self::Failed(ext::WEFT_EP_FAIL_OVERRUN) => c"overrun",
            Self::Failed(ext::WEFT_EP_FAIL_WQ) => c"work-queue",
            Self::Failed(ext::WEFT_EP_FAIL_CQ) => c"completion-queue",
            Self::Failed(_) => c"unknown",
            Self::Lied => c"nonsense",
            _ => return None,
        })
    }
}
