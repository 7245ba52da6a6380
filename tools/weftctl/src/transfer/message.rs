// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The messages of a transfer: to bytes and, with every check that needs no
//! more than the message itself, from bytes.
//!
//! A message's kind is in the low 8 bits of its tag, a number in the upper 56;
//! the rest is payload. Knows nothing of files and connections.

use super::CHUNK;
use super::digest::Digest;

const MAGIC: &[u8; 8] = b"WEFTFILE";
/// Version of the protocol that is spoken here.
pub const VERSION: u32 = 1;
/// Largest file: what fits beside the kind.
pub const MAX_SIZE: u64 = (1 << 56) - 1;
/// Longest name.
pub const MAX_NAME: usize = 255;
/// Longest text of a message.
pub const MAX_TEXT: usize = 1024;
/// Bytes of an offer before the name.
const OFFER_HEAD: usize = 40;

const OFFER: u64 = 1;
const GO_ON: u64 = 2;
const REFUSED: u64 = 3;
const DATA: u64 = 4;
const END: u64 = 5;
const PROGRESS: u64 = 6;
const VERDICT: u64 = 7;
const ABORT: u64 = 8;

/// Names a transfer over all its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub [u8; 16]);

/// What the sender wants to bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The same each time this transfer is offered.
    pub id: Id,
    /// Bytes of the file.
    pub size: u64,
    /// Last component of its name.
    pub name: Vec<u8>,
}

/// Why a receiver wants no more of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The offer or the sender's behaviour is against the protocol.
    Protocol,
    /// The name cannot be the name of a file.
    Name,
    /// There is such a file already.
    Exists,
    /// The file is too large, or there is no room for it.
    Room,
    /// Writing failed.
    Storage,
    /// The receiver takes no more files.
    Busy,
    /// What arrived is not what was sent.
    Mismatch,
    /// A code of a later version.
    Other(u64),
}

const CODES: [Code; 7] = [
    Code::Protocol,
    Code::Name,
    Code::Exists,
    Code::Room,
    Code::Storage,
    Code::Busy,
    Code::Mismatch,
];

impl Code {
    fn number(self) -> u64 {
        match self {
            Code::Other(number) => number,
            code => CODES.iter().position(|c| *c == code).map_or(0, |i| i as u64 + 1),
        }
    }

    fn from_number(number: u64) -> Self {
        let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        index.and_then(|i| CODES.get(i).copied()).unwrap_or(Code::Other(number))
    }
}

/// One message; data stay where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Sender: first on every connection.
    Offer(Offer),
    /// Receiver: has this much, wants the rest.
    GoOn(u64),
    /// Receiver: wants nothing of this, or no more.
    Refused(Code, String),
    /// Sender: what lies at this offset.
    Data(u64, &'a [u8]),
    /// Sender: that was all, and its sum.
    End(u64, Digest),
    /// Receiver: has this much.
    Progress(u64),
    /// Receiver: has it all under its final name, with this sum.
    Verdict(Digest),
    /// Sender: gives the transfer up.
    Abort(String),
}

/// A tag and what goes with it.
pub type Encoded<'a> = (u64, std::borrow::Cow<'a, [u8]>);

fn tag(kind: u64, number: u64) -> u64 {
    debug_assert!(number <= MAX_SIZE);
    (number << 8) | kind
}

fn text_bytes(text: &str) -> Vec<u8> {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.as_bytes().get(..end).unwrap_or_default().to_vec()
}

/// A peer's text goes to a terminal: no control characters.
fn text_of(payload: &[u8]) -> Result<String, String> {
    if payload.len() > MAX_TEXT {
        return Err(format!("a text of {} bytes; at most {MAX_TEXT} are allowed", payload.len()));
    }
    Ok(printable(payload))
}

/// Bytes of a peer or of a file's name, as can be shown.
pub fn printable(bytes: &[u8]) -> String {
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(bytes).chars().map(plain).collect()
}

impl<'a> Message<'a> {
    /// What is sent for it.
    pub fn encode(&self) -> Encoded<'a> {
        match self {
            Message::Offer(offer) => {
                let mut bytes = Vec::with_capacity(OFFER_HEAD + offer.name.len());
                bytes.extend_from_slice(MAGIC);
                bytes.extend_from_slice(&VERSION.to_le_bytes());
                bytes.extend_from_slice(&0u32.to_le_bytes());
                bytes.extend_from_slice(&offer.size.to_le_bytes());
                bytes.extend_from_slice(&offer.id.0);
                bytes.extend_from_slice(&offer.name);
                (tag(OFFER, 0), bytes.into())
            }
            Message::GoOn(offset) => (tag(GO_ON, *offset), (&[][..]).into()),
            Message::Refused(code, text) => (tag(REFUSED, code.number()), text_bytes(text).into()),
            Message::Data(offset, data) => (tag(DATA, *offset), (*data).into()),
            Message::End(size, digest) => (tag(END, *size), digest.0.to_vec().into()),
            Message::Progress(offset) => (tag(PROGRESS, *offset), (&[][..]).into()),
            Message::Verdict(digest) => (tag(VERDICT, 0), digest.0.to_vec().into()),
            Message::Abort(text) => (tag(ABORT, 0), text_bytes(text).into()),
        }
    }

    /// What came; the error says what is wrong with it.
    pub fn decode(tag: u64, payload: &'a [u8]) -> Result<Self, String> {
        let number = tag >> 8;
        let kind = tag & 0xff;
        let empty = |message| match payload.len() {
            0 => Ok(message),
            n => Err(format!("{n} bytes with a message of kind {kind} that has none")),
        };
        let digest = || {
            let sum = payload.try_into().map(Digest);
            sum.map_err(|_| format!("a SHA-256 sum of {} bytes", payload.len()))
        };
        match kind {
            OFFER => offer(payload).map(Message::Offer),
            GO_ON => empty(Message::GoOn(number)),
            REFUSED => Ok(Message::Refused(Code::from_number(number), text_of(payload)?)),
            DATA if payload.is_empty() || payload.len() > CHUNK => Err(format!(
                "{} bytes of data in one message; 1 to {CHUNK} are allowed",
                payload.len()
            )),
            DATA => Ok(Message::Data(number, payload)),
            END => Ok(Message::End(number, digest()?)),
            PROGRESS => empty(Message::Progress(number)),
            VERDICT => Ok(Message::Verdict(digest()?)),
            ABORT => Ok(Message::Abort(text_of(payload)?)),
            _ => Err(format!("a message of unknown kind {kind}")),
        }
    }
}

fn offer(payload: &[u8]) -> Result<Offer, String> {
    let short = || format!("an offer of {} bytes; at least {OFFER_HEAD} are needed", payload.len());
    let (magic, rest) = payload.split_first_chunk::<8>().ok_or_else(short)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (flags, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (size, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (id, name) = rest.split_first_chunk::<16>().ok_or_else(short)?;
    if magic != MAGIC {
        return Err("not the offer of a file".into());
    }
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(format!("version {version} of the protocol; here is version {VERSION}"));
    }
    let flags = u32::from_le_bytes(*flags);
    if flags != 0 {
        return Err(format!("unknown flags {flags:#x} in an offer"));
    }
    if name.len() > MAX_NAME {
        return Err(format!("a name of {} bytes; at most {MAX_NAME} are allowed", name.len()));
    }
    Ok(Offer { id: Id(*id), size: u64::from_le_bytes(*size), name: name.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn offers_survive(id: [u8; 16], size: u64, name in proptest::collection::vec(any::<u8>(), 0..=255)) {
            let message = Message::Offer(Offer { id: Id(id), size, name });
            let (tag, payload) = message.encode();
            prop_assert_eq!(Message::decode(tag, &payload), Ok(message));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(tag: u64, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::decode(tag, &payload) {
                let (again, _) = message.encode();
                prop_assert_eq!(again & 0xff, tag & 0xff);
            }
        }
    }

    #[test]
    fn every_code_survives() {
        for code in CODES.into_iter().chain([Code::Other(77)]) {
            let message = Message::Refused(code, "no".into());
            let (tag, payload) = message.encode();
            assert_eq!(Message::decode(tag, &payload), Ok(message));
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let (tag, payload) = Message::Abort("ä".repeat(1000)).encode();
        assert_eq!(payload.len(), MAX_TEXT);
        assert!(Message::decode(tag, &payload).is_ok());
        let (tag, payload) = Message::Abort(format!("x{}", "ä".repeat(1000))).encode();
        assert_eq!(payload.len(), MAX_TEXT - 1);
        assert!(Message::decode(tag, &payload).is_ok());
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(printable(b"a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
    }

    #[test]
    fn data_are_neither_empty_nor_too_long() {
        assert!(Message::decode(tag(DATA, 0), &[]).is_err());
        assert!(Message::decode(tag(DATA, 0), &vec![0; CHUNK]).is_ok());
        assert!(Message::decode(tag(DATA, 0), &vec![0; CHUNK + 1]).is_err());
    }

    #[test]
    fn versions_and_flags_of_others_are_refused() {
        let offer = Offer { id: Id([1; 16]), size: 3, name: b"n".to_vec() };
        let (tag, payload) = Message::Offer(offer).encode();
        for at in [0, 8, 12] {
            let mut bad = payload.to_vec();
            bad[at] ^= 0x40;
            assert!(Message::decode(tag, &bad).is_err(), "byte {at}");
        }
        assert!(Message::decode(tag, &payload[..39]).is_err());
    }
}
