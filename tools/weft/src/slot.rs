// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The slots of switches, as the master sees them, and the announcement of a component that will be put
//! into one.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::told::{self, Told};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// A port of a switch, as its hot-plug controllers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Hardware id of the switch.
    pub switch: u64,
    /// Number of the port.
    pub port: u32,
    /// A component is plugged in.
    pub occupied: bool,
    /// One will come or, if it is occupied, it will go.
    pub announced: bool,
    /// It has power.
    pub power: bool,
    /// The link is up.
    pub link: bool,
    /// The virtual planes on which a hierarchy is connected.
    pub planes: Vec<u8>,
}

impl From<&abi::weft_fabric_slot> for Slot {
    fn from(told: &abi::weft_fabric_slot) -> Self {
        let is = |bit| told.state & bit != 0;
        let has = |vp: &u8| told.planes & (1 << vp) != 0;
        Slot {
            switch: told.hwid,
            port: told.port,
            occupied: is(abi::WEFT_SLOT_OCCUPIED),
            announced: is(abi::WEFT_SLOT_ANNOUNCED),
            power: is(abi::WEFT_SLOT_POWER),
            link: is(abi::WEFT_SLOT_LINK),
            planes: (0..u32::BITS as u8).filter(has).collect(),
        }
    }
}

/// All slots, as they were at one time.
pub fn slots(port: BorrowedFd<'_>) -> Result<Option<Vec<Slot>>> {
    told::all("asking for the slots of switches", |index| {
        let mut call = abi::weft_fabric_slot { index, ..Default::default() };
        call.call(port)?;
        Ok(Told { value: Slot::from(&call), count: call.count, serial: call.serial })
    })
}

/// Announces a component at a port of a switch, or withdraws that; `false`: the port has no manager.
pub fn announce(fd: BorrowedFd<'_>, switch: u64, port: u32, coming: bool) -> Result<bool> {
    let flags = if coming { 0 } else { abi::WEFT_ANNOUNCE_WITHDRAW };
    let mut call = abi::weft_fabric_announce { flags, hwid: switch, port, ..Default::default() };
    answered(call.call(fd), switch, port)
}

fn answered(done: io::Result<()>, switch: u64, port: u32) -> Result<bool> {
    let Err(e) = done else { return Ok(true) };
    if told::unmanaged(&e) {
        return Ok(false);
    }
    Err(match Errno::from_io_error(&e) {
        Some(Errno::NOENT) => Error::NoSlot { switch, port },
        Some(Errno::EXIST) => Error::Occupied { switch, port },
        Some(Errno::HOSTUNREACH) => Error::Unreachable(format!("switch {switch:#x}")),
        _ => Error::managed("announcing a component", e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hp_1_what_is_told_of_a_slot_is_said() {
        let told = abi::weft_fabric_slot {
            hwid: 3 << 62,
            port: 5,
            state: abi::WEFT_SLOT_ANNOUNCED | abi::WEFT_SLOT_POWER,
            planes: (1 << 1) | (1 << 15),
            ..Default::default()
        };
        let slot = Slot {
            switch: 3 << 62,
            port: 5,
            occupied: false,
            announced: true,
            power: true,
            link: false,
            planes: vec![1, 15],
        };
        assert_eq!(Slot::from(&told), slot);
        let state = abi::WEFT_SLOT_OCCUPIED | abi::WEFT_SLOT_LINK;
        let told = abi::weft_fabric_slot { state, planes: u32::MAX, ..told };
        let slot = Slot::from(&told);
        assert!(slot.occupied && slot.link && !slot.announced && !slot.power);
        assert_eq!(slot.planes.len(), 32);
    }

    #[test]
    fn hp_1_refusals_of_an_announcement_are_told_apart() {
        let refused = |errno: Errno| answered(Err(errno.into()), 1, 2);
        assert!(matches!(answered(Ok(()), 1, 2), Ok(true)));
        assert!(matches!(refused(Errno::OPNOTSUPP), Ok(false)));
        assert!(matches!(refused(Errno::NOENT), Err(Error::NoSlot { switch: 1, port: 2 })));
        assert!(matches!(refused(Errno::EXIST), Err(Error::Occupied { switch: 1, port: 2 })));
        assert!(matches!(refused(Errno::REMOTE), Err(Error::NotMaster)));
        assert!(matches!(refused(Errno::PERM), Err(Error::Privilege(_))));
        assert!(matches!(refused(Errno::HOSTUNREACH), Err(Error::Unreachable(_))));
        assert!(matches!(refused(Errno::IO), Err(Error::Os { .. })));
    }
}
