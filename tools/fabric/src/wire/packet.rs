// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One `struct weft_fab_msg` as bytes. Offsets come from the generated structure,
//! so this file holds no number of its own.

use super::abi::{WEFT_FAB_DATA, weft_fab_msg};
use std::mem::offset_of;

/// Bytes of every packet.
pub const PACKET_BYTES: usize = size_of::<weft_fab_msg>();

const DATA: usize = WEFT_FAB_DATA as usize;

/// A packet whose length fields have been checked, nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// `enum weft_fab_type`.
    pub kind: u32,
    /// Number of the link at the port that sends or gets this.
    pub link: u16,
    /// Meaning depends on the kind.
    pub arg: [u64; 6],
    /// The valid bytes of data, at most `WEFT_FAB_DATA`.
    pub data: Vec<u8>,
}

impl Packet {
    /// Takes a packet apart; `Err` says what is wrong with its size.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; PACKET_BYTES] = bytes
            .try_into()
            .map_err(|_| format!("a packet of {} bytes; each has {PACKET_BYTES}", bytes.len()))?;
        let len = u32::from_ne_bytes(at(bytes, offset_of!(weft_fab_msg, len))) as usize;
        if len > DATA {
            return Err(format!("a packet with {len} bytes of data; the most is {DATA}"));
        }
        let mut arg = [0; 6];
        for (n, arg) in arg.iter_mut().enumerate() {
            *arg = u64::from_ne_bytes(at(bytes, offset_of!(weft_fab_msg, arg) + n * 8));
        }
        let data = offset_of!(weft_fab_msg, data);
        Ok(Packet {
            kind: u16::from_ne_bytes(at(bytes, offset_of!(weft_fab_msg, type_))).into(),
            link: u16::from_ne_bytes(at(bytes, offset_of!(weft_fab_msg, link))),
            arg,
            data: bytes[data..data + len].to_vec(),
        })
    }

    /// The bytes to send. Data beyond the most a packet holds are cut off.
    pub fn encode(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        let len = self.data.len().min(DATA);
        let mut put = |offset: usize, field: &[u8]| {
            bytes[offset..offset + field.len()].copy_from_slice(field);
        };
        put(offset_of!(weft_fab_msg, type_), &(self.kind as u16).to_ne_bytes());
        put(offset_of!(weft_fab_msg, link), &self.link.to_ne_bytes());
        put(offset_of!(weft_fab_msg, len), &(len as u32).to_ne_bytes());
        for (n, arg) in self.arg.iter().enumerate() {
            put(offset_of!(weft_fab_msg, arg) + n * 8, &arg.to_ne_bytes());
        }
        put(offset_of!(weft_fab_msg, data), &self.data[..len]);
        bytes
    }
}

/// The `N` bytes at `offset`, both known when this is compiled.
fn at<const N: usize>(bytes: &[u8; PACKET_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[offset + n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            kind in 0..=u32::from(u16::MAX),
            link: u16,
            arg: [u64; 6],
            data in prop::collection::vec(any::<u8>(), 0..=DATA),
        ) {
            let packet = Packet { kind, link, arg, data };
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }

        #[test]
        fn garbage_is_refused_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            match Packet::decode(&bytes) {
                Ok(packet) => prop_assert!(bytes.len() == PACKET_BYTES && packet.data.len() <= DATA),
                Err(why) => prop_assert!(why.contains("bytes")),
            }
        }
    }

    #[test]
    fn a_length_beyond_the_data_is_refused() {
        let mut bytes = Packet::default().encode();
        let len = offset_of!(weft_fab_msg, len);
        bytes[len..len + 4].copy_from_slice(&257u32.to_ne_bytes());
        assert!(Packet::decode(&bytes).is_err());
    }
}
