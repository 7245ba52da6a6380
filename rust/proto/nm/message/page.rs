// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ports of a node, as many at a time as a message carries.

use super::super::{
    super::bytes::{check, Malformed, Member, Reader, Writer},
    packet::MAX_PAYLOAD,
    port::{Port, PORTS, PORT_BYTES},
};
use super::info::INFO_BYTES;

/// Bytes before the ports of a page: type, number, [`Info`](super::Info), and first port of the next
/// page.
const PAGE_HEAD: usize = 5 + INFO_BYTES + 1;
/// Number of ports that fit into one message, each with its number.
pub const PAGE_PORTS: usize = (MAX_PAYLOAD - PAGE_HEAD) / (1 + PORT_BYTES);

/// The ports of a node, as many as one message carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The ports with a neighbour; the others are down, or in another page.
    pub ports: [Port; PORTS],
    /// The number of the first port that did not fit, 0 if all did.
    pub next: u8,
}

impl Page {
    /// Returns the ports from number `first` on, as many as fit into a message.
    pub fn of(ports: &[Port; PORTS], first: u8) -> Self {
        let mut page = Self {
            ports: [Port::NONE; PORTS],
            next: 0,
        };
        let places = page.ports.iter_mut().zip(ports).zip(0u8..);
        let listed = places.filter(|((_, port), n)| *n >= first && port.is_up());
        for (count, ((place, port), number)) in listed.enumerate() {
            if count == PAGE_PORTS {
                page.next = number;
                break;
            }
            *place = *port;
        }
        page
    }
}

impl Member<'_> for Page {
    fn put(&self, w: &mut Writer<'_>) {
        w.u8(self.next);
        for (port, number) in self.ports.iter().zip(0u8..) {
            if port.is_up() {
                w.u8(number);
                port.put(w);
            }
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut page = Self {
            ports: [Port::NONE; PORTS],
            next: r.u8()?,
        };
        let mut free = 0;
        while !r.rest().is_empty() {
            let number = r.u8()?;
            check(number >= free)?;
            let place = page.ports.get_mut(usize::from(number));
            *place.ok_or(Malformed::Value)? = Port::get(r)?;
            free = number + 1;
        }
        check(page.next == 0 || (page.next >= free && usize::from(page.next) < PORTS))?;
        Ok(page)
    }
}
