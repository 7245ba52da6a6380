// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ioctls of the driver, each called by its structure.

use crate::abi;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::io;
use std::os::fd::BorrowedFd;

/// A structure that an ioctl takes.
pub trait Ioctl {
    /// Calls the ioctl.
    fn call(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;
}

macro_rules! ioctls {
    ($($structure:ident: $number:ident;)*) => { $(
        impl Ioctl for abi::$structure {
            fn call(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
                self.size = size_of::<Self>() as u32;
                // SAFETY: The number is that of this very structure, both made from the header of
                // the driver, which writes no more than the size that the structure begins with.
                unsafe { ioctl(fd, Updater::<{ abi::$number as Opcode }, Self>::new(self)) }?;
                Ok(())
            }
        }
    )* };
}

ioctls! {
    weft_port_info: IOCTL_WEFT_PORT_INFO;
    weft_link_info: IOCTL_WEFT_LINK_INFO;
    weft_chan_listen: IOCTL_WEFT_CHAN_LISTEN;
    weft_chan_connect: IOCTL_WEFT_CHAN_CONNECT;
    weft_chan_accept: IOCTL_WEFT_CHAN_ACCEPT;
    weft_chan_info: IOCTL_WEFT_CHAN_INFO;
    weft_chan_kick: IOCTL_WEFT_CHAN_KICK;
    weft_limits: IOCTL_WEFT_LIMITS;
    weft_pd_alloc: IOCTL_WEFT_PD_ALLOC;
    weft_mr_reg: IOCTL_WEFT_MR_REG;
    weft_mw_alloc: IOCTL_WEFT_MW_ALLOC;
    weft_cq_create: IOCTL_WEFT_CQ_CREATE;
    weft_cq_arm: IOCTL_WEFT_CQ_ARM;
    weft_cq_wait: IOCTL_WEFT_CQ_WAIT;
    weft_srq_create: IOCTL_WEFT_SRQ_CREATE;
    weft_qp_create: IOCTL_WEFT_QP_CREATE;
    weft_qp_modify: IOCTL_WEFT_QP_MODIFY;
    weft_qp_query: IOCTL_WEFT_QP_QUERY;
    weft_destroy: IOCTL_WEFT_DESTROY;
    weft_kick: IOCTL_WEFT_KICK;
    weft_vf_migrate: IOCTL_WEFT_VF_MIGRATE;
    weft_fabric_nodes: IOCTL_WEFT_FABRIC_NODES;
    weft_fabric_routes: IOCTL_WEFT_FABRIC_ROUTES;
    weft_fabric_assignment: IOCTL_WEFT_FABRIC_ASSIGNMENT;
    weft_fabric_component: IOCTL_WEFT_FABRIC_COMPONENT;
    weft_fabric_vh: IOCTL_WEFT_FABRIC_VH;
    weft_fabric_slot: IOCTL_WEFT_FABRIC_SLOT;
    weft_fabric_announce: IOCTL_WEFT_FABRIC_ANNOUNCE;
    weft_sock_listen: IOCTL_WEFT_SOCK_LISTEN;
    weft_sock_connect: IOCTL_WEFT_SOCK_CONNECT;
    weft_sock_accept: IOCTL_WEFT_SOCK_ACCEPT;
    weft_sock_info: IOCTL_WEFT_SOCK_INFO;
    weft_sock_shutdown: IOCTL_WEFT_SOCK_SHUTDOWN;
    weft_match_open: IOCTL_WEFT_MATCH_OPEN;
    weft_match_kick: IOCTL_WEFT_MATCH_KICK;
    weft_ep_open: IOCTL_WEFT_EP_OPEN;
    weft_ep_query: IOCTL_WEFT_EP_QUERY;
    weft_ep_area: IOCTL_WEFT_EP_AREA;
    weft_ep_free: IOCTL_WEFT_EP_FREE;
    weft_ep_submit: IOCTL_WEFT_EP_SUBMIT;
    weft_ep_reap: IOCTL_WEFT_EP_REAP;
}

/// Reads the assignments into `text`; the structure says how long they are.
pub fn read_assignments(
    call: &mut abi::weft_fabric_assignments,
    text: &mut [u8],
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    call.flags = 0;
    call.bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
    // SAFETY: Without flags the driver writes to `text`, which is borrowed alone for as long as this
    // takes, no more than the bytes that are said to be there.
    unsafe { assignments(call, text.as_mut_ptr() as u64, fd) }
}

/// Replaces the assignments by `text`.
pub fn write_assignments(
    call: &mut abi::weft_fabric_assignments,
    text: &[u8],
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    call.flags = abi::WEFT_ASSIGNMENTS_SET;
    call.bytes = u32::try_from(text.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: With this flag the driver only reads the text.
    unsafe { assignments(call, text.as_ptr() as u64, fd) }
}

/// # Safety
///
/// With the flags of the structure the driver may do to the bytes at `text`, as many as it says, what
/// it does.
unsafe fn assignments(
    call: &mut abi::weft_fabric_assignments,
    text: u64,
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    const NUMBER: Opcode = abi::IOCTL_WEFT_FABRIC_ASSIGNMENTS as Opcode;
    call.size = size_of::<abi::weft_fabric_assignments>() as u32;
    call.text = text;
    // SAFETY: As for the others, and the caller answers for the text.
    unsafe { ioctl(fd, Updater::<NUMBER, _>::new(call)) }?;
    Ok(())
}
