// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encoding and decoding of the members of a message, one after the other, little endian.
//!
//! A writer reports a lack of room at the end, a reader at once. A structure whose encoding is that of its
//! members gets it by `members!`. This file knows no message.

/// Reason why bytes are not a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The bytes end before the member does.
    Short,
    /// A member has an invalid value.
    Value,
}

/// Returns `Value` unless it is `ok`.
pub fn check(ok: bool) -> Result<(), Malformed> {
    ok.then_some(()).ok_or(Malformed::Value)
}

/// Returns `bit` if it is `set`, else 0.
pub const fn flag(set: bool, bit: u32) -> u32 {
    if set {
        bit
    } else {
        0
    }
}

/// A member with an encoding of its own.
pub trait Member<'a>: Sized {
    /// Writes it.
    fn put(&self, w: &mut Writer<'_>);
    /// Reads it, and checks all that does not depend on the receiver's state.
    fn get(r: &mut Reader<'a>) -> Result<Self, Malformed>;
}

/// Implements [`Member`] for structures: their members in this order, and what has to be true of them.
macro_rules! members {
    ($($name:ident $(<$life:lifetime>)? { $($member:ident),* } $(if |$it:ident| $ok:expr)?;)*) => {
        $(impl<'a> Member<'a> for $name $(<$life>)? {
            fn put(&self, w: &mut Writer<'_>) {
                $(self.$member.put(w);)*
            }

            fn get(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                let all = Self {
                    $($member: Member::get(r)?,)*
                };
                $(let $it = &all;
                check($ok)?;)?
                Ok(all)
            }
        })*
    };
}
pub(crate) use members;

macro_rules! numbers {
    ($($number:ident)*) => {
        $(impl Member<'_> for $number {
            fn put(&self, w: &mut Writer<'_>) {
                w.$number(*self);
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
                r.$number()
            }
        })*
    };
}

numbers!(u8 u16 u32 u64);

/// A byte, 0 or 1.
impl Member<'_> for bool {
    fn put(&self, w: &mut Writer<'_>) {
        w.u8(u8::from(*self));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let byte = r.u8()?;
        check(byte <= 1)?;
        Ok(byte == 1)
    }
}

/// All bytes that are left.
impl<'a> Member<'a> for &'a [u8] {
    fn put(&self, w: &mut Writer<'_>) {
        w.put(self);
    }

    fn get(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(core::mem::take(&mut r.0))
    }
}

/// Writes members.
pub struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl<'a> Writer<'a> {
    /// Writes to the start of `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self {
            buf,
            at: 0,
            fits: true,
        }
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        match self.buf.get_mut(self.at..end) {
            Some(to) if self.fits => {
                to.copy_from_slice(bytes);
                self.at = end;
            }
            _ => self.fits = false,
        }
    }

    /// Appends a number of 8 bits.
    pub fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }

    /// Appends a number of 16 bits.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }

    /// Appends a number of 32 bits.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    /// Appends a number of 64 bits.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }

    /// Returns the bytes that were written.
    pub fn written(self) -> &'a [u8] {
        self.buf.get(..self.at).unwrap_or_default()
    }

    /// Returns how many bytes were written; `None` if not all fit.
    pub fn finish(self) -> Option<usize> {
        self.fits.then_some(self.at)
    }
}

/// Reads members.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    /// Reads a number of 8 bits.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Reads a number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Returns the bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}
