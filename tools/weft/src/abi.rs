// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The user interface of the driver, made from `include/uapi/linux/weft.h` by `abi.sh`.

pub const WEFT_IOC_TYPE: u8 = 87u8;
pub const WEFT_IOC_BASE: u32 = 128;
pub const WEFT_PORT_WEFT: u32 = 1;
pub const WEFT_PORT_IVSHMEM: u32 = 2;
pub const WEFT_PROT_DEVICE: u32 = 1;
pub const WEFT_PROT_APERTURE: u32 = 2;
pub const WEFT_PROT_BOUNCE: u32 = 4;
pub const WEFT_LINK_DOWN: u32 = 0;
pub const WEFT_LINK_HELLO: u32 = 1;
pub const WEFT_LINK_READY: u32 = 2;
pub const WEFT_ANY_LINK: u32 = 4294967295;
pub const WEFT_CHAN_MIN_CELLS: u32 = 16;
pub const WEFT_CHAN_MAX_CELLS: u32 = 16384;
pub const WEFT_CHAN_MIN_BULK: u32 = 4096;
pub const WEFT_CHAN_MAX_BULK: u32 = 1048576;
pub const WEFT_CHAN_OPEN: u32 = 1;
pub const WEFT_CHAN_PEER_CLOSED: u32 = 2;
pub const WEFT_CHAN_BROKEN: u32 = 3;
pub const WEFT_REASON_NONE: u32 = 0;
pub const WEFT_REASON_LINK: u32 = 1;
pub const WEFT_REASON_PEER: u32 = 2;
pub const WEFT_REASON_PROTOCOL: u32 = 3;
pub const WEFT_REASON_REMOVED: u32 = 4;
pub const WEFT_CELL_BYTES: u32 = 64;
pub const WEFT_CELL_INLINE: u32 = 48;
pub const WEFT_CHAN_CELLS_AT: u32 = 4096;
pub const WEFT_HEAD_LEN: u32 = 4294967295;
pub const WEFT_HEAD_KIND_SHIFT: u32 = 32;
pub const WEFT_HEAD_SEQ_SHIFT: u32 = 40;
pub const WEFT_HEAD_PHASE: i64 = -9223372036854775808;
pub const WEFT_KIND_INLINE: u32 = 1;
pub const WEFT_KIND_BULK: u32 = 2;
pub const WEFT_KIND_FIN: u32 = 3;
pub type __u8 = ::std::os::raw::c_uchar;
pub type __s32 = ::std::os::raw::c_int;
pub type __u32 = ::std::os::raw::c_uint;
pub type __u64 = ::std::os::raw::c_ulonglong;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_port_info {
    pub size: __u32,
    pub flags: __u32,
    pub kind: __u32,
    pub generation: __u32,
    pub hwid: __u64,
    pub lid: __u32,
    pub links: __u32,
    pub protection: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_link_info {
    pub size: __u32,
    pub flags: __u32,
    pub link: __u32,
    pub state: __u32,
    pub speed: __u32,
    pub width: __u32,
    pub role: __u32,
    pub trained: __u32,
    pub peer_hwid: __u64,
    pub peer_generation: __u32,
    pub channels: __u32,
    pub arena_bytes: __u64,
    pub arena_free: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_listen {
    pub size: __u32,
    pub flags: __u32,
    pub service: __u32,
    pub backlog: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_connect {
    pub size: __u32,
    pub flags: __u32,
    pub peer: __u64,
    pub link: __u32,
    pub service: __u32,
    pub cells: __u32,
    pub bulk: __u32,
    pub timeout_ms: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_accept {
    pub size: __u32,
    pub flags: __u32,
    pub listen_fd: __s32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_info {
    pub size: __u32,
    pub flags: __u32,
    pub state: __u32,
    pub reason: __u32,
    pub peer_hwid: __u64,
    pub peer_generation: __u32,
    pub link: __u32,
    pub service: __u32,
    pub cells: __u32,
    pub bulk: __u32,
    pub kick_value: __u32,
    pub area_offset: __u64,
    pub window_offset: __u64,
    pub area_bytes: __u64,
    pub status_offset: __u64,
    pub user_offset: __u64,
    pub kick_offset: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_kick {
    pub size: __u32,
    pub flags: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weft_cell {
    pub head: __u64,
    pub tag: __u64,
    pub data: [__u8; 48usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_ctl {
    pub credit: __u64,
    pub reserved0: [__u64; 7usize],
    pub recv_event: __u64,
    pub reserved1: [__u64; 7usize],
    pub send_event: __u64,
    pub reserved2: [__u64; 7usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_status {
    pub state: __u32,
    pub reason: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_chan_user {
    pub consumed: __u64,
    pub produced: __u64,
    pub credit_wanted: __u64,
}
pub const IOCTL_WEFT_PORT_INFO: __u32 = 22400;
pub const IOCTL_WEFT_LINK_INFO: __u32 = 22401;
pub const IOCTL_WEFT_CHAN_LISTEN: __u32 = 22402;
pub const IOCTL_WEFT_CHAN_CONNECT: __u32 = 22403;
pub const IOCTL_WEFT_CHAN_ACCEPT: __u32 = 22404;
pub const IOCTL_WEFT_CHAN_INFO: __u32 = 22405;
pub const IOCTL_WEFT_CHAN_KICK: __u32 = 22406;
