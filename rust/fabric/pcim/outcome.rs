// SPDX-License-Identifier: GPL-2.0

//! What becomes of a wish.

use crate::{proto::mr::design::Why, sys::ext};

/// `WEFT_WISH_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    Waits = ext::WEFT_WISH_WAITS,
    Done = ext::WEFT_WISH_DONE,
    NoEndpoint = ext::WEFT_WISH_NO_ENDPOINT,
    NoVe = ext::WEFT_WISH_NO_VE,
    NoRoot = ext::WEFT_WISH_NO_ROOT,
    NoLid = ext::WEFT_WISH_NO_LID,
    NoWay = ext::WEFT_WISH_NO_WAY,
    NoPlane = ext::WEFT_WISH_NO_PLANE,
    NoRoom = ext::WEFT_WISH_NO_ROOM,
    Failed = ext::WEFT_WISH_FAILED,
    NotTaken = ext::WEFT_WISH_NOT_TAKEN,
}

impl From<Why> for Outcome {
    fn from(why: Why) -> Self {
        match why {
            Why::NoEndpoint => Self::NoEndpoint,
            Why::NoVe => Self::NoVe,
            Why::NoRoot => Self::NoRoot,
            Why::NoLid => Self::NoLid,
            Why::NoWay => Self::NoWay,
            Why::NoPlane => Self::NoPlane,
        }
    }
}
