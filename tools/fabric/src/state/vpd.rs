// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Vital product data of a node, in the format of PCI: what it is and on which
//! hardware unit (blade) it sits. A host's as the topology has it, and ports of hosts
//! support sockets; what its own device shows its own kernel, QEMU was told.

use crate::topology::{Host, Node, Switch, Topology};

/// Longest text of a field that a reader has to keep.
const TEXT: usize = 32;

/// The data of a node.
pub fn of(topology: &Topology, node: Node) -> Vec<u8> {
    match node {
        Node::Host(n) => host(&topology.hosts[n]),
        Node::Switch(n) => switch(&topology.switches[n]),
    }
}

fn host(host: &Host) -> Vec<u8> {
    let blade = host.blade.as_deref().unwrap_or("");
    match &host.endpoint {
        None => {
            let serial = &host.name;
            let texts = [("PN", "WEFT-PORT"), ("SN", serial), ("V0", blade), ("V1", "1")];
            vpd("Weft port", &texts)
        }
        Some(e) => {
            let name = format!("{} {}", e.vendor, host.name);
            vpd(&name, &[("PN", &e.part), ("SN", &e.serial), ("V0", blade), ("V1", "0")])
        }
    }
}

fn switch(switch: &Switch) -> Vec<u8> {
    let blade = switch.blade.as_deref().unwrap_or("");
    let resident = switch.resident.as_deref().unwrap_or("");
    vpd(
        "Weft switch",
        &[
            ("PN", "WEFT-SWITCH"),
            ("SN", &switch.name),
            ("V0", blade),
            ("V1", "0"),
            ("V2", resident),
        ],
    )
}

fn vpd(name: &str, texts: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![];
    for (key, text) in texts {
        let text = &text.as_bytes()[..text.len().min(TEXT)];
        fields.extend(key.bytes());
        fields.push(text.len() as u8);
        fields.extend(text);
    }
    let name = &name.as_bytes()[..name.len().min(TEXT)];
    let mut vpd = vec![0x82, name.len() as u8, 0];
    vpd.extend(name);
    vpd.push(0x90);
    vpd.extend((fields.len() as u16 + 4).to_le_bytes());
    vpd.extend(fields);
    // The checksum makes the sum of all up to it 0.
    vpd.extend(b"RV\x01");
    let sum = vpd.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    vpd.extend([sum.wrapping_neg(), 0x78]);
    vpd
}
