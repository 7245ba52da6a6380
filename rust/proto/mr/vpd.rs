// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vital product data, as PCI lays them out: what a component is, and on which hardware unit it sits.
//!
//! Whoever answers may be broken or hostile: every length is checked, and data that are not in order
//! as a whole, the checksum included, are no data.

use super::super::crc::crc32c;

/// Bytes of a text that are kept.
pub const TEXT_BYTES: usize = 32;
/// Tags of the three resources.
const NAME: u8 = 0x82;
const READ_ONLY: u8 = 0x90;
const END: u8 = 0x78;
/// Bytes in front of a resource, and in front of a field.
const HEAD: usize = 3;

/// A short text, compared byte by byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; TEXT_BYTES],
    len: u8,
}

impl Text {
    /// None.
    pub const EMPTY: Self = Self {
        bytes: [0; TEXT_BYTES],
        len: 0,
    };

    /// `bytes`, unless they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut text = Self::EMPTY;
        text.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        text.len = bytes.len() as u8;
        Some(text)
    }

    /// What it says.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// It says nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl core::fmt::Debug for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// What is wrong with the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// They end before they should.
    Short,
    /// A resource or field is not where it belongs.
    Order,
    /// A text is longer than is kept.
    Long,
    /// Their sum is not 0.
    Sum,
}

/// What is kept of the data of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vpd {
    /// PN: part number.
    pub part: Text,
    /// SN: serial number.
    pub serial: Text,
    /// V0: the hardware unit (blade) that it sits on.
    pub blade: Text,
    /// V1: it supports sockets.
    pub sockets: bool,
    /// V2: the co-residence field of a switch, the hardware unit of what sits at its ports.
    pub resident: Text,
}

impl Vpd {
    /// Of a component that has none.
    pub const NONE: Self = Self {
        part: Text::EMPTY,
        serial: Text::EMPTY,
        blade: Text::EMPTY,
        sockets: false,
        resident: Text::EMPTY,
    };

    /// One number for all that is kept of the data: another one for others, as good as always.
    pub fn digest(&self) -> u32 {
        let texts = [self.part, self.serial, self.blade, self.resident];
        // A byte that no text has in it as its end.
        let bytes = texts
            .iter()
            .flat_map(|t| t.bytes().iter().copied().chain([0xff]));
        crc32c(bytes.chain([u8::from(self.sockets)]))
    }

    /// Reads the data; what follows them does not matter.
    pub fn parse(data: &[u8]) -> Result<Self, Error> {
        let name = resource(data, NAME)?;
        let rest = data.get(HEAD + name.len()..).ok_or(Error::Short)?;
        let mut fields = resource(rest, READ_ONLY)?;
        let before = HEAD + name.len() + HEAD;
        let mut vpd = Self::NONE;
        let mut at = before;
        loop {
            let (key, value) = field(fields)?;
            if key == *b"RV" {
                let summed = data.get(..=at + HEAD).ok_or(Error::Short)?;
                if summed.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) != 0 {
                    return Err(Error::Sum);
                }
                break;
            }
            let text = Text::new(value).ok_or(Error::Long);
            match &key {
                b"PN" => vpd.part = text?,
                b"SN" => vpd.serial = text?,
                b"V0" => vpd.blade = text?,
                b"V1" => vpd.sockets = value == b"1",
                b"V2" => vpd.resident = text?,
                // Somebody else's.
                _ => {}
            }
            at += HEAD + value.len();
            fields = fields.get(HEAD + value.len()..).ok_or(Error::Short)?;
        }
        let end = before + resource(rest, READ_ONLY)?.len();
        match data.get(end) {
            Some(&END) => Ok(vpd),
            Some(_) => Err(Error::Order),
            None => Err(Error::Short),
        }
    }
}

/// How many bytes have to be read to know all that the data say, as far as those that were read tell;
/// they are to be read until there are as many.
pub fn wanted(data: &[u8]) -> usize {
    let mut at = 0;
    for tag in [NAME, READ_ONLY] {
        let head = data.get(at..).and_then(|rest| rest.first_chunk::<HEAD>());
        match head {
            Some([t, low, high]) if *t == tag => {
                at += HEAD + usize::from(u16::from_le_bytes([*low, *high]));
            }
            // That they are not in order is known by now.
            Some(_) => return data.len(),
            None => return at + HEAD,
        }
    }
    at + 1
}

/// The contents of the resource that `data` begin with.
fn resource(data: &[u8], tag: u8) -> Result<&[u8], Error> {
    let (head, rest) = data.split_first_chunk::<HEAD>().ok_or(Error::Short)?;
    if head[0] != tag {
        return Err(Error::Order);
    }
    let len = usize::from(u16::from_le_bytes([head[1], head[2]]));
    rest.get(..len).ok_or(Error::Short)
}

/// The field that `fields` begin with.
fn field(fields: &[u8]) -> Result<([u8; 2], &[u8]), Error> {
    let (head, rest) = fields.split_first_chunk::<HEAD>().ok_or(Error::Short)?;
    let value = rest.get(..usize::from(head[2])).ok_or(Error::Short)?;
    Ok(([head[0], head[1]], value))
}
