// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The three descriptors a port brings: its RAM, its doorbell page and its
//! doorbell eventfd. They are handed on to neighbours, never used here, so this
//! file only makes sure that each is what it is said to be.

use crate::wire::PAGE;
use crate::wire::abi::WEFT_FAB_DOORBELL_BYTES;
use crate::wire::socket::DESCRIPTORS;
use rustix::fs::{FileType, SealFlags, fcntl_get_seals, fstat, readlink};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

/// RAM memfd, doorbell memfd, doorbell eventfd. Shared with the packets that
/// wait to be sent, and closed with the last of them.
pub type Descriptors = Rc<[OwnedFd; 3]>;

/// Number of descriptors of a port.
const COUNT: usize = DESCRIPTORS;

/// Takes the descriptors of a HELLO that offers `ram` bytes.
pub fn check(fds: Vec<OwnedFd>, ram: u64) -> Result<Descriptors, String> {
    let fds: [OwnedFd; COUNT] = fds.try_into().map_err(|fds: Vec<_>| {
        format!(
            "HELLO with {} descriptors; send {COUNT}: RAM, doorbell page, doorbell eventfd",
            fds.len()
        )
    })?;
    if ram == 0 || ram % PAGE != 0 {
        return Err(format!("{ram:#x} bytes of RAM; give a positive multiple of {PAGE}"));
    }
    memory(&fds[0], "RAM", ram)?;
    memory(&fds[1], "doorbell page", WEFT_FAB_DOORBELL_BYTES.into())?;
    eventfd(&fds[2])?;
    Ok(Rc::new(fds))
}

fn memory(fd: &OwnedFd, what: &str, least: u64) -> Result<(), String> {
    let stat = fstat(fd).map_err(|e| format!("{what}: cannot be looked at: {e}"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!(
            "{what}: the descriptor is not memory; use memory-backend-memfd with share=on"
        ));
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size < least) {
        return Err(format!(
            "{what}: the descriptor has {:#x} bytes; {least:#x} are needed",
            stat.st_size
        ));
    }
    // A neighbour that maps memory which then shrinks dies of SIGBUS.
    if !fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Err(format!(
            "{what}: the descriptor is not a memfd sealed against shrinking; use \
             memory-backend-memfd with share=on,seal=on"
        ));
    }
    Ok(())
}

/// An eventfd has no type of its own in fstat; /proc has its name.
fn eventfd(fd: &OwnedFd) -> Result<(), String> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let link = readlink(path, vec![]).map_err(|e| format!("doorbell: cannot be looked at: {e}"))?;
    if link.to_bytes() == b"anon_inode:[eventfd]" {
        return Ok(());
    }
    Err(format!("doorbell: the third descriptor is {}, not an eventfd", link.to_string_lossy()))
}
