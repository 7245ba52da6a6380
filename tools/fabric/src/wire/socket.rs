// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets and the descriptors that ride along, over a socket.

use super::{PACKET_BYTES, Packet};
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most descriptors with one packet.
pub const DESCRIPTORS: usize = 3;

/// Why a connection is gone, where its process did nothing worth a complaint.
pub const ENDED: &str = "the connection ended";

/// What came in.
pub enum Received {
    /// Nothing, for now.
    Nothing,
    /// A packet and its descriptors.
    Packet(Packet, Vec<OwnedFd>),
    /// The connection has ended.
    Gone(String),
    /// Something that is no packet.
    Bad(String),
}

/// Takes the next packet, without waiting.
pub fn receive(fd: BorrowedFd<'_>) -> Received {
    let mut bytes = [0; PACKET_BYTES];
    // Room for more than is ever sent, to tell one too many from none.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = match recvmsg(fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        // It died with something unread.
        Err(Errno::CONNRESET) => return Received::Gone(ENDED.into()),
        Err(e) => return Received::Gone(format!("the connection broke: {e}")),
    };
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if got.bytes == 0 {
        return Received::Gone(ENDED.into());
    }
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Received::Bad(format!("a packet of more than {PACKET_BYTES} bytes"));
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Received::Bad("more descriptors than can be taken".into());
    }
    match Packet::decode(&bytes[..got.bytes]) {
        Ok(packet) => Received::Packet(packet, fds),
        Err(why) => Received::Bad(why),
    }
}

/// Sends an encoded packet with at most [`DESCRIPTORS`].
pub fn send(
    to: BorrowedFd<'_>,
    bytes: &[u8; PACKET_BYTES],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::NOBUFS);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags).map(|_| ())
}
