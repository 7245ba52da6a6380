// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Joins two queue pairs: each end tells the other its number, and the memory it offers, over a
//! channel.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::mr::Rights;
use crate::qp::{Qp, QpPath};
use crate::stag::Remote;
use crate::time::Deadline;
use std::time::Duration;

/// Messages of this module, in their tag.
const HELLO: u64 = 0x5745_4654_5150_0001;
const READY: u64 = 0x5745_4654_5150_0002;
const BYE: u64 = 0x5745_4654_5150_0003;

/// Bytes of a place and its length.
const OFFER: usize = 24;

/// Memory that an end offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it begins.
    pub remote: Remote,
    /// Bytes of it.
    pub bytes: u64,
}

/// Joins `qp`, in RESET, with the one that the other end of `channel` joins at the same time. The
/// peer may do by it what `rights` say. When it returns both are in RTS; what the other end offers
/// is returned.
///
/// Receive requests that have to be there when the first message comes are to be posted in
/// `prepare`, which is called when the pair is in INIT.
pub fn join(
    channel: &mut Channel,
    qp: &mut Qp,
    rights: Rights,
    offers: &[Offer],
    timeout: Option<Duration>,
    prepare: impl FnOnce(&mut Qp) -> Result<()>,
) -> Result<Vec<Offer>> {
    let deadline = Deadline::after(timeout);
    qp.init(rights)?;
    prepare(qp)?;
    channel.send(&encode(qp.qpn(), offers), HELLO, deadline.left())?;
    let mut came = Vec::new();
    if channel.recv(&mut came, deadline.left())? != HELLO {
        return Err(unexpected());
    }
    let (qpn, theirs) = decode(&came).ok_or_else(unexpected)?;
    qp.connect(&QpPath { peer: channel.peer().hwid, link: Some(channel.link()), qpn })?;
    // The end that sends first must find the other end in RTR.
    channel.send(&[], READY, deadline.left())?;
    if channel.recv(&mut came, deadline.left())? != READY {
        return Err(unexpected());
    }
    Ok(theirs)
}

/// Waits until the other end calls this as well: what one of them waits for is not to be taken away
/// by the other one, which needs nothing more.
pub fn part(channel: &mut Channel, timeout: Option<Duration>) -> Result<()> {
    let deadline = Deadline::after(timeout);
    channel.send(&[], BYE, deadline.left())?;
    match channel.recv(&mut Vec::new(), deadline.left())? {
        BYE => Ok(()),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Error {
    Error::Invalid("the other end of the channel does not join queue pairs".into())
}

fn encode(qpn: u32, offers: &[Offer]) -> Vec<u8> {
    let mut out = u64::from(qpn).to_le_bytes().to_vec();
    for offer in offers {
        out.extend(u64::from(offer.remote.stag).to_le_bytes());
        out.extend(offer.remote.to.to_le_bytes());
        out.extend(offer.bytes.to_le_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> Option<(u32, Vec<Offer>)> {
    let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let (qpn, offers) = bytes.split_at_checked(8)?;
    if offers.len() % OFFER != 0 {
        return None;
    }
    let offers = offers.chunks(OFFER).map(|offer| {
        let stag = word(&offer[..8])?.try_into().ok()?;
        let remote = Remote { stag, to: word(&offer[8..16])? };
        Some(Offer { remote, bytes: word(&offer[16..])? })
    });
    Some((word(qpn)?.try_into().ok()?, offers.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let offer = Offer { remote: Remote { stag: 0x8000_0001, to: 1 << 40 }, bytes: 4096 };
        for offers in [vec![], vec![offer], vec![offer; 3]] {
            assert_eq!(decode(&encode(77, &offers)), Some((77, offers)));
        }
        let whole = encode(77, &[offer]);
        for cut in (1..8).chain(9..whole.len()) {
            assert_eq!(decode(&whole[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&[0xff; 8]), None);
    }
}
