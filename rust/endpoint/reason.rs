// SPDX-License-Identifier: GPL-2.0

//! Why an open function works no more, and what its program is told then.

use crate::sys::{
    errno::{ECONNRESET, EPROTO, ESHUTDOWN},
    ext,
};
use kernel::prelude::*;

/// Why a function works no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Its file was closed, or was not opened.
    Closed,
    /// The port is gone.
    Removed,
    /// The port was reset.
    Reset,
    /// It cannot be reached any more, or is reached another way.
    Route,
    /// It is not in the hierarchy any more, or about to be taken out.
    Withdrawn,
    /// It says so: `WEFT_EP_FAIL_*`.
    Failed(u32),
    /// It has told what cannot be true.
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

    /// If the endpoint is to blame: what of the function has failed, in a word.
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
