// SPDX-License-Identifier: GPL-2.0

//! The end of a channel that the kernel itself uses, for a client in another module.
//!
//! By the rules of `proto::ring`, as programs do in the library. The counts that a program keeps in the
//! page of `struct weft_chan_user` are kept there too, so that sleepers are woken in the same way. Nothing
//! here sleeps. This file must not know the interface of clients.
//!
//! # Locks
//!
//! `KernelEnd::sender`, `KernelEnd::incoming`: never waited for, as calls of one direction exclude each
//! other by themselves; outside of the locks of a channel that a hard interrupt takes.

use super::{access::Access, Channel, Channels, State};
use crate::{
    fabric::Node,
    hw::Part,
    proto::{
        payload::Payload,
        ring::{self, Message, Next, Receiver, SendError, Sender},
    },
    sys::{
        client::{Short, SHORT_BYTES},
        errno::{EMSGSIZE, ENODATA, EPROTO},
        ext::weft_chan_user,
        file::events,
    },
};
use core::mem::offset_of;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};

const _: () = assert!(SHORT_BYTES == ring::SHORT_BYTES);

/// Memory for [`Sender`].
struct Starts(KVVec<u64>);

impl AsRef<[u64]> for Starts {
    fn as_ref(&self) -> &[u64] {
        &self.0
    }
}

impl AsMut<[u64]> for Starts {
    fn as_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

/// What comes.
struct Incoming {
    receiver: Receiver,
    /// The message that is being read.
    now: Option<Message>,
}

/// One end of a channel, closed when this is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct KernelEnd {
    node: Arc<Node>,
    channels: Arc<Channels>,
    channel: Arc<Channel>,
    #[pin]
    sender: SpinLock<Sender<Starts>>,
    #[pin]
    incoming: SpinLock<Incoming>,
}

impl KernelEnd {
    /// Makes it of `channel`, which is open, and closes that if there is no memory.
    pub(crate) fn new(
        node: &Arc<Node>,
        channels: &Arc<Channels>,
        channel: Arc<Channel>,
    ) -> Result<Arc<Self>> {
        let made = Self::make(node.clone(), channels.clone(), channel.clone());
        if made.is_err() {
            channels.close(node, &channel);
        }
        made
    }

    fn make(node: Arc<Node>, channels: Arc<Channels>, channel: Arc<Channel>) -> Result<Arc<Self>> {
        let shape = channel.made.shape;
        let starts = KVVec::from_elem(0, shape.cells() as usize, GFP_KERNEL_ACCOUNT)?;
        let sender = Sender::new(shape, Starts(starts)).ok_or(EINVAL)?;
        let incoming = Incoming {
            receiver: Receiver::new(shape),
            now: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                node,
                channels,
                channel,
                sender <- new_spinlock!(sender, "weft sender"),
                incoming <- new_spinlock!(incoming, "weft incoming"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends a message. With `more` the peer is not woken for it. `EAGAIN`: there is no room for it, or the
    /// channel is quiesced; the waiters are woken when that has changed. `EMSGSIZE`: it is longer than the bulk
    /// ring. `EPIPE`: the peer has closed its end, or this one was finished. `ECONNRESET`: the channel is broken.
    /// `EPROTO`: the peer has broken the protocol. `EBUSY`: another call sends. Any context but hard interrupts.
    pub(crate) fn send(&self, payload: &impl Payload, tag: u64, more: bool) -> Result {
        self.put(more, |sender, own, peer| {
            sender.send(own, peer, payload, tag)
        })
    }

    /// Sends short messages, as many as there is room for: returns how many, 1 at least. Errors as [`Self::send`].
    pub(crate) fn send_short(&self, all: &[Short]) -> Result<usize> {
        let mut sent = 0;
        let put = self.put(false, |sender, own, peer| {
            while let Some(next) = all.get(sent) {
                sender.send_short(own, peer, next.payload(), next.tag)?;
                sent += 1;
            }
            Ok(())
        });
        match sent {
            0 => put.map(|()| 0),
            _ => Ok(sent),
        }
    }

    /// Sends that no more will be sent. Errors as [`Self::send`].
    pub(crate) fn finish(&self) -> Result {
        self.put(false, |sender, own, peer| sender.finish(own, peer))
    }

    fn put(
        &self,
        more: bool,
        mut put: impl FnMut(&mut Sender<Starts>, &Part<'_>, &Part<'_>) -> Result<(), SendError>,
    ) -> Result {
        let mut sender = self.sender.try_lock().ok_or(EBUSY)?;
        let port = self.node.port()?;
        let access = Access::new(&self.channel, &**port)?;
        if self.channel.state() != State::Open {
            return Err(EPIPE);
        }
        let (own, peer) = (access.own(), access.peer());
        // Room may come between the first try and the announcement that this end waits for it.
        for _ in 0..2 {
            let wanted = match put(&mut sender, &own, &peer) {
                Ok(()) => {
                    self.tell(&sender);
                    if !more && sender.needs_kick(&own, &peer) {
                        self.kick();
                    }
                    return Ok(());
                }
                Err(SendError::Full(wanted)) => wanted,
                Err(SendError::TooLong(_)) => return Err(EMSGSIZE.into()),
                Err(SendError::Finished) => return Err(EPIPE),
                Err(SendError::Corrupt(_)) => return Err(EPROTO.into()),
            };
            // The peer makes room when it has seen what was sent.
            if sender.needs_kick(&own, &peer) {
                self.kick();
            }
            self.tell(&sender);
            self.note(offset_of!(weft_chan_user, credit_wanted), wanted);
            if self.channel.poll(&self.node, events::OUT) & events::OUT == 0 {
                break;
            }
        }
        Err(EAGAIN)
    }

    /// Returns how many messages can be sent before the peer has read one; long ones may be fewer. If there is room
    /// for none, the waiters are woken when that has changed. Errors as [`Self::send`].
    pub(crate) fn room(&self) -> Result<u32> {
        let mut sender = self.sender.try_lock().ok_or(EBUSY)?;
        let port = self.node.port()?;
        let access = Access::new(&self.channel, &**port)?;
        let own = access.own();
        // As in `put`.
        for _ in 0..2 {
            let credit = sender.refresh(&own).map_err(|_| EPROTO)?;
            // At most as many as there are cells.
            let sent = (sender.produced() - credit) as u32;
            let room = self.channel.made.shape.cells() - sent;
            if room != 0 {
                return Ok(room);
            }
            self.tell(&sender);
            self.note(offset_of!(weft_chan_user, credit_wanted), 0);
            if self.channel.poll(&self.node, events::OUT) & events::OUT == 0 {
                break;
            }
        }
        Ok(0)
    }

    /// Returns the message that is to be read next, its tag and its length. `EAGAIN`: none has come, or the
    /// channel is quiesced; the waiters are woken when that has changed. `ENODATA`: the peer has finished, and all
    /// was read. `EPIPE`: likewise, but the peer has closed its end without that. Other errors as those of
    /// [`Self::send`].
    pub(crate) fn next(&self) -> Result<(u64, u32)> {
        self.look_for(true)
    }

    /// As [`Self::next`], but the waiters are not woken when a message comes.
    pub(crate) fn look(&self) -> Result<(u64, u32)> {
        self.look_for(false)
    }

    fn look_for(&self, arms: bool) -> Result<(u64, u32)> {
        let mut incoming = self.incoming.try_lock().ok_or(EBUSY)?;
        if let Some(message) = incoming.now {
            return Ok((message.tag, message.len));
        }
        let port = self.node.port()?;
        let access = Access::new(&self.channel, &**port)?;
        let message = self.find(&mut incoming.receiver, &access.own(), &access.peer(), arms)?;
        incoming.now = Some(message);
        Ok((message.tag, message.len))
    }

    fn find(
        &self,
        receiver: &mut Receiver,
        own: &Part<'_>,
        peer: &Part<'_>,
        arms: bool,
    ) -> Result<Message> {
        // As in `put`.
        for _ in 0..2 {
            if let Some(message) = come(receiver, own, peer)? {
                return Ok(message);
            }
            // What was sent before the peer closed has come by then: it is looked for once more.
            if self.channel.state() == State::PeerClosed {
                return come(receiver, own, peer)?.ok_or(EPIPE);
            }
            if arms {
                // The peer may wait for the last of its credit.
                receiver.flush(peer);
            }
            if receiver.needs_kick(own, peer) {
                self.kick();
            }
            if !arms {
                break;
            }
            self.note(offset_of!(weft_chan_user, consumed), receiver.consumed());
            if self.channel.poll(&self.node, events::IN) & events::IN == 0 {
                break;
            }
        }
        Err(EAGAIN)
    }

    /// Takes short messages out, the next ones, as many as have come and `to` has room for: returns how many. None: the
    /// next one is longer; it is that of [`Self::next`]. With `looks` the waiters are not woken when one comes. Errors as
    /// [`Self::next`].
    pub(crate) fn take(&self, to: &mut [Short], looks: bool) -> Result<usize> {
        let mut incoming = self.incoming.try_lock().ok_or(EBUSY)?;
        let Incoming { receiver, now } = &mut *incoming;
        let port = self.node.port()?;
        let access = Access::new(&self.channel, &**port)?;
        let (own, peer) = (access.own(), access.peer());
        let mut taken = 0;
        for place in to {
            let next = match *now {
                Some(message) => Ok(message),
                None => self.find(receiver, &own, &peer, !looks && taken == 0),
            };
            let message = match next {
                Ok(message) => message,
                // Found again.
                Err(_) if taken > 0 => break,
                Err(e) => return Err(e),
            };
            let Some(room) = place.room(message.tag, message.len) else {
                *now = Some(message);
                break;
            };
            receiver.copy(&own, &message, 0, room);
            *now = None;
            receiver.take(&message);
            taken += 1;
        }
        if taken > 0 {
            receiver.settle(&peer);
            if receiver.needs_kick(&own, &peer) {
                self.kick();
            }
        }
        Ok(taken)
    }

    /// Copies a part of the message that [`Self::next`] has returned, from byte `from` on. `ENODATA`: it has
    /// returned none, or that was consumed. `EINVAL`: `from` is no multiple of 8, or the message is shorter.
    /// Other errors as those of [`Self::send`].
    pub(crate) fn read(&self, from: usize, to: &mut [u8]) -> Result {
        let incoming = self.incoming.try_lock().ok_or(EBUSY)?;
        let message = incoming.now.ok_or(ENODATA)?;
        let port = self.node.port()?;
        let access = Access::new(&self.channel, &**port)?;
        let wanted = to.len();
        let whole = from % size_of::<u64>() == 0
            && incoming.receiver.copy(&access.own(), &message, from, to) == wanted;
        match whole {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// Consumes that message. Its place is given back to the peer now, or, if the channel is quiesced, by a later
    /// call: were this to fail, the caller would get a message again that it has dealt with. `ENODATA`, `EBUSY`: as
    /// [`Self::read`].
    pub(crate) fn consume(&self) -> Result {
        let mut incoming = self.incoming.try_lock().ok_or(EBUSY)?;
        let message = incoming.now.take().ok_or(ENODATA)?;
        let receiver = &mut incoming.receiver;
        receiver.take(&message);
        let Ok(port) = self.node.port() else {
            return Ok(());
        };
        if let Ok(access) = Access::new(&self.channel, &**port) {
            let (own, peer) = (access.own(), access.peer());
            receiver.settle(&peer);
            if receiver.needs_kick(&own, &peer) {
                self.kick();
            }
        }
        Ok(())
    }

    /// Rings for sleepers at the other end. If the channel is not open any more, none is there.
    fn kick(&self) {
        let _ = self.channel.kick(&self.node);
    }

    /// Writes how much was sent where the wake-up and the count of the link look for it.
    fn tell(&self, sender: &Sender<Starts>) {
        self.note(offset_of!(weft_chan_user, bulk), sender.bulk());
        self.note(offset_of!(weft_chan_user, produced), sender.produced());
    }

    /// Writes a count where the wake-up looks for it.
    fn note(&self, at: usize, count: u64) {
        self.channel.note(at, count);
    }
}

#[pinned_drop]
impl PinnedDrop for KernelEnd {
    fn drop(self: Pin<&mut Self>) {
        self.channels.close(&self.node, &self.channel);
    }
}

/// Returns the next message, if one has come. `ENODATA`: the peer sends no more; `EPROTO`: it has broken the protocol.
fn come(receiver: &mut Receiver, own: &Part<'_>, peer: &Part<'_>) -> Result<Option<Message>> {
    match receiver.peek(own, peer).map_err(|_| EPROTO)? {
        Next::Message(message) => Ok(Some(message)),
        Next::End => Err(ENODATA.into()),
        Next::Nothing => Ok(None),
    }
}
