// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the administrator wishes: which virtual endpoint is to be whose, as a text that is read, changed
//! line by line, and given back; and what became of each wish.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::{self, Ioctl};
use crate::told::{self, Told, unmanaged};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::BorrowedFd;
use weft_proto::mr::wish;

pub use weft_proto::mr::wish::Wish;

/// Times that the text is read anew because it has become longer meanwhile.
const TRIES: u32 = 100;

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WishState {
    /// Nobody has looked at it yet.
    Waits,
    /// The endpoint is the host's.
    Done,
    /// No such endpoint was found.
    NoEndpoint,
    /// It has no such virtual endpoint.
    NoVe,
    /// No such host was found.
    NoRoot,
    /// One of the two has no local id yet.
    NoLid,
    /// No way between them leads through switches.
    NoWay,
    /// A link on the way has no virtual plane left.
    NoPlane,
    /// The host's hierarchy has no room for it.
    NoRoom,
    /// A table on the way could not be written.
    Failed,
    /// The host has not taken it.
    NotTaken,
    /// A state that this library does not know.
    Other(u32),
}

impl From<u32> for WishState {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_WISH_WAITS => WishState::Waits,
            abi::WEFT_WISH_DONE => WishState::Done,
            abi::WEFT_WISH_NO_ENDPOINT => WishState::NoEndpoint,
            abi::WEFT_WISH_NO_VE => WishState::NoVe,
            abi::WEFT_WISH_NO_ROOT => WishState::NoRoot,
            abi::WEFT_WISH_NO_LID => WishState::NoLid,
            abi::WEFT_WISH_NO_WAY => WishState::NoWay,
            abi::WEFT_WISH_NO_PLANE => WishState::NoPlane,
            abi::WEFT_WISH_NO_ROOM => WishState::NoRoom,
            abi::WEFT_WISH_FAILED => WishState::Failed,
            abi::WEFT_WISH_NOT_TAKEN => WishState::NotTaken,
            other => WishState::Other(other),
        }
    }
}

impl fmt::Display for WishState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            WishState::Waits => "the master has not looked at it yet",
            WishState::Done => "done",
            WishState::NoEndpoint => "no such endpoint was found",
            WishState::NoVe => "the endpoint has no such virtual endpoint",
            WishState::NoRoot => "no such host was found",
            WishState::NoLid => "one of the two has no local id yet",
            WishState::NoWay => "no way between them leads through switches",
            WishState::NoPlane => "a link on the way has no virtual plane left",
            WishState::NoRoom => "the host's hierarchy has no room for it",
            WishState::Failed => "a table on the way could not be written",
            WishState::NotTaken => "the host has not taken it",
            WishState::Other(_) => "unknown",
        })
    }
}

/// A wish, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WishStatus {
    /// The wish.
    pub wish: Wish,
    /// What became of it.
    pub state: WishState,
}

/// The text of all wishes. Whatever else stands in it, comments for example, stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// A wish a line, see Documentation/multiroot.rst.
    pub text: Vec<u8>,
    /// Its version, 0: there never were any.
    pub version: u32,
}

impl Wishes {
    /// The longest text.
    pub const MOST_BYTES: usize = abi::WEFT_WISHES_BYTES as usize;

    /// Those that the text states.
    pub fn all(&self) -> impl Iterator<Item = Wish> + '_ {
        self.lines().filter_map(wish::of_line)
    }

    /// To whom a virtual endpoint is to belong.
    pub fn root_of(&self, endpoint: u64, ve: u8) -> Option<u64> {
        self.all().find(|w| (w.endpoint, w.ve) == (endpoint, ve)).map(|w| w.root)
    }

    /// A virtual endpoint is to belong to this host and no other. Its line is put where the one before
    /// was, or at the end.
    pub fn assign(&mut self, wish: Wish) {
        let Wish { endpoint, ve, root } = wish;
        let line = format!("{endpoint:x}.{ve:x} {root:x}\n");
        let (mut text, mut done) = (Vec::new(), false);
        // Whoever edits it later learns what its lines are.
        if self.wished().is_empty() {
            text.extend_from_slice(wish::HEAD);
        }
        for old in self.lines() {
            match wish::of_line(old) {
                Some(w) if (w.endpoint, w.ve) == (endpoint, ve) => {
                    if !done {
                        text.extend_from_slice(line.as_bytes());
                    }
                    done = true;
                }
                _ => text.extend_from_slice(old),
            }
        }
        if !done {
            if !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.as_bytes());
        }
        self.text = text;
    }

    /// A virtual endpoint is to belong to nobody. Whether it did belong to somebody.
    pub fn withdraw(&mut self, endpoint: u64, ve: u8) -> bool {
        let is = |line: &&[u8]| {
            let wish = wish::of_line(line);
            wish.is_some_and(|w| (w.endpoint, w.ve) == (endpoint, ve))
        };
        let text: Vec<u8> = self.lines().filter(|line| !is(line)).flatten().copied().collect();
        let was = text.len() < self.text.len();
        self.text = text;
        was
    }

    /// The text without what the master has added to it, for comparison: lines that say what components
    /// were when they were seen.
    pub fn wished(&self) -> Vec<u8> {
        let mut text = vec![0; self.text.len()];
        let bytes = wish::annotate(&self.text, &[], |_| false, &mut text).unwrap_or_default();
        text.truncate(bytes);
        text
    }

    /// Lines, each with its newline.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split_inclusive(|b| *b == b'\n')
    }
}

/// The wishes that the host keeps.
pub fn wishes(port: BorrowedFd<'_>) -> Result<Option<Wishes>> {
    let mut room = Wishes::MOST_BYTES;
    for _ in 0..TRIES {
        let mut text = vec![0; room];
        let mut call = abi::weft_fabric_wishes::default();
        match ioctl::read_wishes(&mut call, &mut text, port) {
            Ok(()) => {
                text.truncate(call.bytes as usize);
                return Ok(Some(Wishes { text, version: call.version }));
            }
            Err(e) if unmanaged(&e) => return Ok(None),
            // A driver that has room for more than there was at this library's time.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => {
                room = call.bytes as usize;
            }
            Err(e) => return Err(Error::managed("asking for the wishes", e)),
        }
    }
    Err(Error::Driver("the wishes grow faster than they can be read"))
}

/// Replaces the wishes; `false`: the port has no manager.
pub fn set_wishes(port: BorrowedFd<'_>, wishes: &mut Wishes) -> Result<bool> {
    let mut call = abi::weft_fabric_wishes { version: wishes.version, ..Default::default() };
    match ioctl::write_wishes(&mut call, &wishes.text, port) {
        Ok(()) => {
            wishes.version = call.version;
            Ok(true)
        }
        Err(e) if unmanaged(&e) => Ok(false),
        Err(e) => Err(match (Errno::from_io_error(&e), call.line) {
            (Some(Errno::INVAL), line @ 1..) => Error::WishLine(line),
            (Some(Errno::NOSPC), line) => Error::WishRoom(line.max(1)),
            _ => Error::managed("replacing the wishes", e),
        }),
    }
}

/// What became of each wish, as it was at one time.
pub fn wish_statuses(port: BorrowedFd<'_>) -> Result<Option<Vec<WishStatus>>> {
    told::all("asking what became of the wishes", |index| {
        let mut call = abi::weft_fabric_wish { index, ..Default::default() };
        call.call(port)?;
        // No text says of a larger one.
        let ve = u8::try_from(call.ve).unwrap_or(u8::MAX);
        let wish = Wish { endpoint: call.endpoint, ve, root: call.root };
        let value = WishStatus { wish, state: WishState::from(call.state) };
        Ok(Told { value, count: call.count, serial: call.serial })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(endpoint: u64, ve: u8, root: u64) -> Wish {
        Wish { endpoint, ve, root }
    }

    fn text(wishes: &Wishes) -> &str {
        std::str::from_utf8(&wishes.text).expect("text")
    }

    #[test]
    fn a_change_leaves_the_other_lines_as_they_are() {
        let mut wishes = Wishes::default();
        wishes.assign(wish(0xc000_0000_0000_0007, 10, 0x1f));
        assert_eq!(text(&wishes), "# weft wishes: endpoint.ve root\nc000000000000007.a 1f\n");

        wishes.text = b"# the left rack\n  7.0   1\n\n# spare\n8.0 2".to_vec();
        wishes.assign(wish(7, 0, 3));
        assert_eq!(text(&wishes), "# the left rack\n7.0 3\n\n# spare\n8.0 2");
        wishes.assign(wish(7, 1, 3));
        assert_eq!(text(&wishes), "# the left rack\n7.0 3\n\n# spare\n8.0 2\n7.1 3\n");
        assert_eq!(wishes.all().collect::<Vec<_>>(), [wish(7, 0, 3), wish(8, 0, 2), wish(7, 1, 3)]);
        assert_eq!((wishes.root_of(8, 0), wishes.root_of(8, 1)), (Some(2), None));

        assert!(wishes.withdraw(7, 0) && !wishes.withdraw(7, 0) && !wishes.withdraw(9, 0));
        assert_eq!(text(&wishes), "# the left rack\n\n# spare\n8.0 2\n7.1 3\n");

        // What the master has seen stays, and is nobody's wish.
        wishes.text = b"8.0 2\nseen 8 1f2e\n# end".to_vec();
        assert_eq!(wishes.all().count(), 1);
        assert_eq!(wishes.wished(), b"8.0 2\n# end");
        assert!(wishes.withdraw(8, 0));
        assert_eq!(text(&wishes), "seen 8 1f2e\n# end");
        wishes.text = b"seen 8 1f2e\n".to_vec();
        wishes.assign(wish(8, 0, 2));
        assert_eq!(text(&wishes), "# weft wishes: endpoint.ve root\nseen 8 1f2e\n8.0 2\n");
    }

    #[test]
    fn every_state_has_words_of_its_own() {
        let words: Vec<_> = (0..12).map(|n| WishState::from(n).to_string()).collect();
        for (n, word) in words.iter().enumerate() {
            assert!(!words[..n].contains(word), "{word}");
        }
        assert_eq!(WishState::from(1), WishState::Done);
        assert_eq!(WishState::from(11), WishState::Other(11));
    }
}
