// SPDX-License-Identifier: GPL-2.0

//! The outcome of an assignment.

use crate::{proto::mr::design::Why, sys::ext};

/// `WEFT_ASSIGNMENT_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    Waits = ext::WEFT_ASSIGNMENT_WAITS,
    Done = ext::WEFT_ASSIGNMENT_DONE,
    NoEndpoint = ext::WEFT_ASSIGNMENT_NO_ENDPOINT,
    NoVe = ext::WEFT_ASSIGNMENT_NO_VE,
    NoRoot = ext::WEFT_ASSIGNMENT_NO_ROOT,
    NoLid = ext::WEFT_ASSIGNMENT_NO_LID,
    NoWay = ext::WEFT_ASSIGNMENT_NO_WAY,
    NoPlane = ext::WEFT_ASSIGNMENT_NO_PLANE,
    NoRoom = ext::WEFT_ASSIGNMENT_NO_ROOM,
    Failed = ext::WEFT_ASSIGNMENT_FAILED,
    NotTaken = ext::WEFT_ASSIGNMENT_NOT_TAKEN,
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
