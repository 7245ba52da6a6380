// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vital product data in PCI's layout: what a component is, and the hardware unit that it is on.
//!
//! The component may be broken or hostile: every length is checked, and the data are rejected as a whole
//! if any part is invalid, the checksum included.

use super::super::crc::crc32c;

/// Most bytes of a text.
pub const TEXT_BYTES: usize = 32;
/// Tags of the three resources.
const NAME: u8 = 0x82;
const READ_ONLY: u8 = 0x90;
const END: u8 = 0x78;
/// Bytes of the head of a resource, and of a field.
const HEAD: usize = 3;

/// A short text, compared byte by byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; TEXT_BYTES],
    len: u8,
}

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self {
        bytes: [0; TEXT_BYTES],
        len: 0,
    };

    /// Creates a text from `bytes`; `None` if they are more than [`TEXT_BYTES`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut text = Self::EMPTY;
        text.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        text.len = bytes.len() as u8;
        Some(text)
    }

    /// Returns the bytes of the text.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl core::fmt::Debug for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// Reason why the data are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The data end too soon.
    Short,
    /// A resource or field is not where it belongs.
    Order,
    /// A text is longer than [`TEXT_BYTES`].
    Long,
    /// The sum of the bytes is not 0.
    Sum,
}

/// The vital product data of a component, as far as they are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vpd {
    /// PN: part number.
    pub part: Text,
    /// SN: serial number.
    pub serial: Text,
    /// V0: the hardware unit (blade) that it is on.
    pub blade: Text,
    /// V1: it supports sockets.
    pub sockets: bool,
    /// V2: the co-residence field of a switch, the hardware unit of the components at its ports.
    pub resident: Text,
}

impl Vpd {
    /// The data of a component that has none.
    pub const NONE: Self = Self {
        part: Text::EMPTY,
        serial: Text::EMPTY,
        blade: Text::EMPTY,
        sockets: false,
        resident: Text::EMPTY,
    };

    /// Returns a checksum of the data that are kept. Different data have different ones with high
    /// probability.
    pub fn digest(&self) -> u32 {
        let texts = [self.part, self.serial, self.blade, self.resident];
        // Each text ends with a byte that no text contains.
        let bytes = texts
            .iter()
            .flat_map(|t| t.bytes().iter().copied().chain([0xff]));
        crc32c(bytes.chain([u8::from(self.sockets)]))
    }

    /// Decodes the data; bytes behind them are ignored.
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
                // A field for other users.
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

/// Returns how many bytes of the data have to be read, as far as the bytes read so far tell. The caller
/// reads until it has as many.
pub fn wanted(data: &[u8]) -> usize {
    let mut at = 0;
    for tag in [NAME, READ_ONLY] {
        let head = data.get(at..).and_then(|rest| rest.first_chunk::<HEAD>());
        match head {
            Some([t, low, high]) if *t == tag => {
                at += HEAD + usize::from(u16::from_le_bytes([*low, *high]));
            }
            // The data are invalid: no more bytes are needed.
            Some(_) => return data.len(),
            None => return at + HEAD,
        }
    }
    at + 1
}

/// Returns the contents of the resource at the beginning of `data`.
fn resource(data: &[u8], tag: u8) -> Result<&[u8], Error> {
    let (head, rest) = data.split_first_chunk::<HEAD>().ok_or(Error::Short)?;
    if head[0] != tag {
        return Err(Error::Order);
    }
    let len = usize::from(u16::from_le_bytes([head[1], head[2]]));
    rest.get(..len).ok_or(Error::Short)
}

/// Returns key and value of the field at the beginning of `fields`.
fn field(fields: &[u8]) -> Result<([u8; 2], &[u8]), Error> {
    let (head, rest) = fields.split_first_chunk::<HEAD>().ok_or(Error::Short)?;
    let value = rest.get(..usize::from(head[2])).ok_or(Error::Short)?;
    Ok(([head[0], head[1]], value))
}
