// SPDX-License-Identifier: GPL-2.0

//! The register of a hot-plug controller of a switch, physical or virtual.

use crate::{
    proto::{
        bytes::flag,
        mr::slot::{Controller, Write},
    },
    sys::ext,
};

/// Returns what a controller says by its register.
pub(super) fn decode(register: u32) -> Controller {
    let is = |bit: u32| register & bit != 0;
    Controller {
        occupied: is(ext::WEFT_PLUG_PRESENT),
        changed: is(ext::WEFT_PLUG_CHANGED),
        on: is(ext::WEFT_PLUG_POWER),
        announced: is(ext::WEFT_PLUG_ANNOUNCED),
        up: is(ext::WEFT_PLUG_LINK),
    }
}

/// Returns the data of a write to a controller.
pub(super) fn encode(write: Write) -> u32 {
    flag(write.on, ext::WEFT_PLUG_POWER)
        | flag(write.seen, ext::WEFT_PLUG_CHANGED)
        | flag(write.announces == Some(true), ext::WEFT_PLUG_ANNOUNCE)
        | flag(write.announces == Some(false), ext::WEFT_PLUG_WITHDRAW)
}
