// SPDX-License-Identifier: GPL-2.0

//! The virtual hot-plug controllers of switches, one for each virtual plane of a port: connects the
//! hierarchy that has the plane there, and disconnects it.
//!
//! This must not know which hierarchy that is, nor when it is to be connected.

use super::{
    bus::Bus,
    controller::{decode, encode},
};
use crate::{
    proto::{mr::slot::Controller, nm::path::Path},
    sys::ext,
};
use kernel::prelude::*;

/// Returns the address of a virtual plane of a port, in the VP tables and among the controllers.
pub(super) fn plane_at(port: u8, vp: u8) -> u32 {
    u32::from(port) << 8 | u32::from(vp)
}

/// Connects the hierarchy on a virtual plane of a port, if it is not, and acknowledges what its controller has
/// noticed. Errors as of [`Bus`].
pub(super) fn connect(bus: &Bus<'_>, path: &Path, port: u8, vp: u8) -> Result {
    let at = plane_at(port, vp);
    let is = decode(bus.read(path, ext::WEFT_SPACE_PLUG, at)?);
    for write in is.connect() {
        bus.write(path, ext::WEFT_SPACE_PLUG, at, encode(write))?;
    }
    Ok(())
}

/// Disconnects the hierarchy on a virtual plane of a port. Errors as of [`Bus`].
pub(super) fn disconnect(bus: &Bus<'_>, path: &Path, port: u8, vp: u8) -> Result {
    let data = encode(Controller::disconnect());
    bus.write(path, ext::WEFT_SPACE_PLUG, plane_at(port, vp), data)
}
