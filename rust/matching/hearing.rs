// SPDX-License-Identifier: GPL-2.0

//! What hosts say of messages, gets and atomic operations that are under way: of those that the interface has begun,
//! and of those that it pulls or answers. In their work items: nothing waits here.

use super::{
    interface::Interface,
    lists::Member,
    operation::Phase,
    peer::{Payload, Peer},
    to::Asked,
};
use crate::proto::envelope::{Body, Envelope};
use kernel::{bindings, prelude::*, sync::Arc};

impl Interface {
    /// Takes what a host says of something that is under way. Errors as those of [`super::peer::Above::hear`].
    pub(super) fn heed(&self, peer: &Arc<Peer>, what: &Envelope, payload: &Payload<'_>) -> Result {
        let mut state = self.state.lock();
        match what.body {
            Body::Eager(_) | Body::Put(_) | Body::Get(_) | Body::Atomic(..) | Body::Gone => {}
            Body::Stored => state.stored(peer, what),
            Body::Taken => {
                if let Some((_, operation)) = state.operation(peer, what) {
                    if operation.phase == Phase::Sent {
                        operation.phase = Phase::Taken;
                    }
                    let (to, sequence) = (operation.to.clone(), operation.sequence);
                    if let Some(to) = to {
                        state.acknowledge(&to, sequence);
                    }
                }
            }
            Body::Done { status, length } => {
                if let Some(grant) = state.grant(peer, what.from.endpoint, what.cookie) {
                    grant.over = grant.over.or(Some(status.into()));
                } else if let Some((n, operation)) = state.operation(peer, what) {
                    // What is got is over when it has come.
                    let lacks = operation.pull.is_some() && status == 0;
                    let status = if lacks {
                        bindings::EPROTO
                    } else {
                        status.into()
                    };
                    // More than there are cannot have been stored.
                    let stored = length.min(operation.length);
                    state.complete(n, status, stored);
                }
            }
            Body::Granted { grant, .. } => {
                let read = |to: &mut [u8]| payload.read(to);
                if !state.granted(peer, what, payload.bytes, read)? && grant != 0 {
                    drop(state);
                    peer.reply(&what.unknown(bindings::ECONNRESET as u8));
                    return Ok(());
                }
            }
            Body::NoSpace { sequence } => {
                let to = state.operation(peer, what).and_then(|(_, o)| o.to.clone());
                if let Some(to) = to {
                    state.go_back(&to, sequence);
                }
            }
            Body::Resume => {
                for flow in &mut state.flows {
                    let to = &flow.to;
                    if Arc::ptr_eq(&to.peer, peer) && to.address.endpoint == what.from.endpoint {
                        // One that does not wait ignores it.
                        let _ = flow.source.resume();
                    }
                }
            }
            Body::Pull {
                offset,
                length,
                chunk,
            } => {
                let asked = Asked {
                    offset,
                    length,
                    chunk,
                };
                if !state.note_asked(peer, what, asked) {
                    drop(state);
                    peer.reply(&what.unknown(bindings::ECONNRESET as u8));
                    return Ok(());
                }
            }
            Body::Data { chunk, status } => {
                let (from, bytes) = (what.from.endpoint, payload.bytes);
                state.come(peer, from, chunk, status, bytes, |to| payload.read(to))?;
            }
        }
        drop(state);
        self.ring();
        Ok(())
    }
}
