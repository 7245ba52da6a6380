// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The proof of a hello: shows a neighbour with the same key that the sender has the key, and the hardware id
//! that the hello gives.
//!
//! It covers the hello, and against repetition the nonce of the receiver: a number that the receiver
//! has drawn when it got its key, and that its own hellos tell. A hello that names no receiver has none, and
//! could be repeated: it makes a neighbour known, but a link is not READY without one that names the
//! receiver's session. Messages of a session have no proof. This file is independent of links.

use super::{
    bytes::Writer,
    mac::{is_same, Mac, Tag},
    wire::{Body, Message, Offer, Proof},
};

/// First bytes of what is tagged.
const LABEL: [u8; 16] = *b"weft hello 6\0\0\0\0";
/// Bytes of what is tagged.
const TEXT_BYTES: usize = LABEL.len() + 8 + 4 + 8 + 4 + 8 + 24 + 8 + 8;

/// Returns the proof of a hello of the node that has drawn `nonce`, to the one that has drawn `peer`; `None`:
/// there is no key, or it is no hello.
pub fn prove(mac: &impl Mac, message: &Message, nonce: u64, peer: u64) -> Option<Proof> {
    let tag = tag(mac, message, nonce, peer)?;
    Some(Proof { nonce, tag })
}

/// Returns whether a hello has the proof of a node with the same key, to this one, which has drawn `nonce`.
pub fn is_proved(mac: &impl Mac, message: &Message, nonce: u64) -> bool {
    let Some(proof) = &message.proof else {
        return false;
    };
    let tag = tag(mac, message, proof.nonce, nonce);
    tag.is_some_and(|tag| is_same(&tag, &proof.tag))
}

fn tag(mac: &impl Mac, message: &Message, nonce: u64, peer: u64) -> Option<Tag> {
    let Body::Hello(offer) = &message.body else {
        return None;
    };
    let header = &message.header;
    let offer = offer.unwrap_or(Offer::NONE);
    let mut text = [0; TEXT_BYTES];
    let mut w = Writer::new(&mut text);
    w.put(&LABEL);
    w.u64(header.from.hwid);
    w.u32(header.from.generation);
    w.u64(header.from.session);
    w.u32(header.to_generation);
    w.u64(header.to_session);
    w.u64(offer.offset);
    w.u64(offer.bytes);
    w.u32(offer.wake);
    w.u32(offer.echo);
    w.u64(nonce);
    w.u64(if header.to_session == 0 { 0 } else { peer });
    let bytes = w.finish()?;
    mac.tag(text.get(..bytes)?)
}
