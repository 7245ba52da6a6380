// SPDX-License-Identifier: GPL-2.0

//! The vital product data of a component, in its configuration space.

use super::bus::Bus;
use crate::{
    proto::{
        mr::vpd::{wanted, Vpd},
        nm::path::Path,
    },
    sys::ext,
};
use kernel::prelude::*;

/// Bytes of a register.
const WORD: usize = 4;

/// The result of reading the data.
pub(super) enum Said {
    /// They were not read, or the component could not be reached.
    Nothing,
    /// They are not in order.
    Nonsense,
    This(Vpd),
}

/// Reads no more than there is: each register is a request.
pub(super) fn read(bus: &Bus<'_>, path: &Path) -> Result<Said> {
    let mut data = [0; ext::WEFT_CS_VPD_BYTES as usize];
    let mut have = 0;
    while let Some(rest) = data.get_mut(have..have + WORD) {
        let word = bus.reg(path, ext::WEFT_CS_VPD + have as u32)?;
        rest.copy_from_slice(&word.to_le_bytes());
        have += WORD;
        if wanted(data.get(..have).unwrap_or_default()) <= have {
            break;
        }
    }
    let vpd = Vpd::parse(data.get(..have).unwrap_or_default());
    Ok(vpd.map_or(Said::Nonsense, Said::This))
}
