// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the administrator wishes: which virtual endpoint belongs to which root complex.
//!
//! Wishes name hardware ids, so they hold also for what is not there yet. Their text form has a line for
//! each, `EP.VE ROOT` with ids in hexadecimal, and can be saved, edited and read back; lines that are
//! empty or begin with `#` say nothing. This file must not know what there is.

use super::list::{Full, List};

/// First line of the text.
pub const HEAD: &[u8] = b"# weft wishes: endpoint.ve root\n";

/// A wish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wish {
    /// Hardware id of the endpoint.
    pub endpoint: u64,
    /// Which of its virtual endpoints.
    pub ve: u8,
    /// Hardware id of the root complex.
    pub root: u64,
}

impl Wish {
    /// For memory that was not used yet.
    pub const NONE: Self = Self {
        endpoint: 0,
        ve: 0,
        root: 0,
    };
}

/// Why a text was not taken; the wishes are as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// This line, from 1, is no wish.
    Line(u32),
    /// This line names a virtual endpoint that a line before it has given away.
    Twice(u32),
    /// There is no room for this line.
    Full(u32),
}

/// All wishes, sorted.
pub struct Wishes<M>(List<Wish, M>);

impl<M: AsRef<[Wish]> + AsMut<[Wish]>> Wishes<M> {
    /// None.
    pub fn new(memory: M) -> Self {
        Self(List::new(memory))
    }

    /// All of them, by endpoint.
    pub fn all(&self) -> &[Wish] {
        self.0.all()
    }

    /// The root complex that a virtual endpoint is to belong to.
    pub fn root_of(&self, endpoint: u64, ve: u8) -> Option<u64> {
        let wish = self
            .all()
            .iter()
            .find(|w| (w.endpoint, w.ve) == (endpoint, ve))?;
        Some(wish.root)
    }

    /// A virtual endpoint is to belong to this root complex and no other.
    pub fn assign(&mut self, wish: Wish) -> Result<(), Full> {
        let of = |w: &Wish| (w.endpoint, w.ve) == (wish.endpoint, wish.ve);
        if self.0.all().len() == self.0.capacity() && !self.0.all().iter().any(of) {
            return Err(Full);
        }
        self.0.retain(|w| !of(w));
        self.0.insert(wish)
    }

    /// A virtual endpoint is to belong to nobody. Whether it did belong to somebody.
    pub fn withdraw(&mut self, endpoint: u64, ve: u8) -> bool {
        let before = self.all().len();
        self.0.retain(|w| (w.endpoint, w.ve) != (endpoint, ve));
        self.all().len() < before
    }

    /// Writes the text. How many bytes it has, if there is room for it.
    pub fn write(&self, to: &mut [u8]) -> Option<usize> {
        let mut out = Out { to, at: 0 };
        out.put(HEAD)?;
        for wish in self.all() {
            out.hex(wish.endpoint)?;
            out.put(b".")?;
            out.hex(wish.ve.into())?;
            out.put(b" ")?;
            out.hex(wish.root)?;
            out.put(b"\n")?;
        }
        Some(out.at)
    }

    /// Takes the wishes of a text instead of those there are, all or none.
    pub fn read(&mut self, text: &[u8]) -> Result<(), Error> {
        // Looked at twice, so that a text that is not taken changes nothing.
        let mut count = 0;
        for (wish, line) in lines(text) {
            let wish = wish.ok_or(Error::Line(line))?;
            let of = |w: &Wish| (w.endpoint, w.ve) == (wish.endpoint, wish.ve);
            let before = lines(text).take_while(|(_, other)| *other < line);
            if before.filter_map(|(wish, _)| wish).any(|w| of(&w)) {
                return Err(Error::Twice(line));
            }
            count += 1;
            if count > self.0.capacity() {
                return Err(Error::Full(line));
            }
        }
        self.0.clear();
        for (wish, line) in lines(text) {
            let wish = wish.ok_or(Error::Line(line))?;
            self.assign(wish).map_err(|Full| Error::Full(line))?;
        }
        Ok(())
    }
}

/// The wishes of a text and their lines; `None` for a line that is none.
fn lines(text: &[u8]) -> impl Iterator<Item = (Option<Wish>, u32)> + '_ {
    let lines = text.split(|b| *b == b'\n').zip(1u32..);
    let lines = lines.map(|(line, n)| (line.trim_ascii(), n));
    lines
        .filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(line, n)| (parse(line), n))
}

/// The wish of a line, if it is one.
pub fn parse(line: &[u8]) -> Option<Wish> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    let (who, root) = (words.next()?, words.next()?);
    let dot = who.iter().position(|b| *b == b'.')?;
    let wish = Wish {
        endpoint: number(who.get(..dot)?)?,
        ve: u8::try_from(number(who.get(dot + 1..)?)?).ok()?,
        root: number(root)?,
    };
    (words.next().is_none() && wish.endpoint != 0 && wish.root != 0).then_some(wish)
}

/// A number in hexadecimal, at most 16 digits.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let digit = |n: u64, b: &u8| Some((n << 4) | u64::from(char::from(*b).to_digit(16)?));
    digits.iter().try_fold(0u64, digit)
}

struct Out<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.to.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    fn hex(&mut self, n: u64) -> Option<()> {
        let digits = (67 - n.leading_zeros()) / 4;
        for at in (0..digits.max(1)).rev() {
            let digit = ((n >> (4 * at)) & 15) as u8;
            let letter = if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            };
            self.put(&[letter])?;
        }
        Some(())
    }
}
