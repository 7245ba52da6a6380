// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the master of the fabric has found, and what each component says of itself.

use crate::abi;
use crate::error::Result;
use crate::fabric::NodeKind;
use crate::ioctl::Ioctl;
use crate::told::{self, Told};
use std::os::fd::BorrowedFd;

/// A component: a host, a switch, an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// What it is.
    pub kind: NodeKind,
    /// Hardware id.
    pub hwid: u64,
    /// Local id, if it has one.
    pub lid: Option<u32>,
    /// It answers now.
    pub there: bool,
    /// Under its hardware id there was another one before.
    pub replaced: bool,
    /// What it says of itself is in order; if not, the texts are empty.
    pub vpd_in_order: bool,
    /// It says that it supports sockets.
    pub sockets: bool,
    /// Of an endpoint, the host on the same hardware unit.
    pub resident: Option<u64>,
    /// How many ports it has.
    pub ports: u32,
    /// Virtual endpoints of an endpoint.
    pub ves: u32,
    /// Functions of each of them.
    pub functions: u32,
    /// Part number.
    pub part: String,
    /// Serial number.
    pub serial_number: String,
    /// The hardware unit that it sits on.
    pub blade: String,
}

/// A text up to its NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

impl From<&abi::weft_fabric_component> for Component {
    fn from(told: &abi::weft_fabric_component) -> Self {
        let is = |bit| told.state & bit != 0;
        Component {
            kind: NodeKind::from(told.kind),
            hwid: told.hwid,
            lid: (told.lid != 0).then_some(told.lid),
            there: is(abi::WEFT_COMPONENT_THERE),
            replaced: is(abi::WEFT_COMPONENT_REPLACED),
            vpd_in_order: !is(abi::WEFT_COMPONENT_NO_VPD),
            sockets: is(abi::WEFT_COMPONENT_SOCKETS),
            resident: (told.resident != 0).then_some(told.resident),
            ports: told.ports,
            ves: told.ves,
            functions: told.functions,
            part: text(&told.part),
            serial_number: text(&told.serial_number),
            blade: text(&told.blade),
        }
    }
}

/// All components, as they were at one time.
pub fn components(port: BorrowedFd<'_>) -> Result<Option<Vec<Component>>> {
    told::all("asking what the master has found", |index| {
        let mut call = abi::weft_fabric_component { index, ..Default::default() };
        call.call(port)?;
        Ok(Told { value: Component::from(&call), count: call.count, serial: call.serial })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_said() {
        let mut told = abi::weft_fabric_component {
            kind: abi::WEFT_NODE_ENDPOINT,
            state: abi::WEFT_COMPONENT_THERE | abi::WEFT_COMPONENT_REPLACED,
            hwid: 3 << 62,
            resident: 1,
            ves: 2,
            ..Default::default()
        };
        told.part[..4].copy_from_slice(b"PN-1");
        told.blade = [b'x'; abi::WEFT_VPD_TEXT as usize];
        let component = Component::from(&told);
        assert_eq!(component.kind, NodeKind::Endpoint);
        assert_eq!((component.lid, component.resident), (None, Some(1)));
        assert!(
            component.there && component.replaced && component.vpd_in_order && !component.sockets
        );
        assert_eq!((component.part.as_str(), component.serial_number.as_str()), ("PN-1", ""));
        // No NUL: all of it, and no more.
        assert_eq!(component.blade, "x".repeat(32));
    }
}
