// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The user interface of the driver, made from `include/uapi/linux/weft.h` by `abi.sh`.

pub const WEFT_IOC_TYPE: u8 = 87u8;
pub const WEFT_IOC_BASE: u32 = 128;
pub const WEFT_PORT_WEFT: u32 = 1;
pub const WEFT_PORT_IVSHMEM: u32 = 2;
pub const WEFT_PROT_DEVICE: u32 = 1;
pub const WEFT_PROT_APERTURE: u32 = 2;
pub const WEFT_PROT_BOUNCE: u32 = 4;
pub const WEFT_PROT_MASK: u32 = 255;
pub const WEFT_PROT_CHANNELS: u32 = 8;
pub const WEFT_PROT_MEMORY: u32 = 16;
pub const WEFT_PROT_DOORBELLS: u32 = 24;
pub const WEFT_LINK_DOWN: u32 = 0;
pub const WEFT_LINK_HELLO: u32 = 1;
pub const WEFT_LINK_READY: u32 = 2;
pub const WEFT_LINK_TO_SWITCH: u32 = 3;
pub const WEFT_ROLE_ROOT: u32 = 0;
pub const WEFT_ROLE_ENDPOINT: u32 = 1;
pub const WEFT_ROLE_LOOPBACK: u32 = 2;
pub const WEFT_POWER_PERFORMANCE: u32 = 0;
pub const WEFT_POWER_AUTO: u32 = 1;
pub const WEFT_ANY_LINK: u32 = 4294967295;
pub const WEFT_SERVICE_KERNEL: u32 = 4294901760;
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
pub const WEFT_SOCK_MAX_BACKLOG: u32 = 4096;
pub const WEFT_SOCK_MIN_BYTES: u32 = 4096;
pub const WEFT_SOCK_DEFAULT_BYTES: u32 = 16384;
pub const WEFT_SOCK_MAX_BYTES: u32 = 1048576;
pub const WEFT_SOCK_CONNECTING: u32 = 1;
pub const WEFT_SOCK_OPEN: u32 = 2;
pub const WEFT_SOCK_PEER_CLOSED: u32 = 3;
pub const WEFT_SOCK_ENDED: u32 = 4;
pub const WEFT_SHUT_RECV: u32 = 1;
pub const WEFT_SHUT_SEND: u32 = 2;
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
pub const WEFT_KIND_SPLIT: u32 = 4;
pub const WEFT_ENGINE_DMA: u32 = 1;
pub const WEFT_ENGINE_KICK_PAGE: u32 = 2;
pub const WEFT_ACCESS_LOCAL_WRITE: u32 = 1;
pub const WEFT_ACCESS_REMOTE_READ: u32 = 2;
pub const WEFT_ACCESS_REMOTE_WRITE: u32 = 4;
pub const WEFT_ACCESS_REMOTE_ATOMIC: u32 = 8;
pub const WEFT_ACCESS_MW_BIND: u32 = 16;
pub const WEFT_STAG_KEY: u32 = 255;
pub const WEFT_STAG_INDEX_SHIFT: u32 = 8;
pub const WEFT_CQ_ENTRIES_AT: u32 = 128;
pub const WEFT_CQE_PHASE: u32 = 2147483648;
pub const WEFT_WC_FLAG_IMM: u32 = 1;
pub const WEFT_WC_FLAG_END: u32 = 2;
pub const WEFT_WC_SUCCESS: u32 = 0;
pub const WEFT_WC_FLUSHED: u32 = 1;
pub const WEFT_WC_LOCAL_LENGTH: u32 = 2;
pub const WEFT_WC_LOCAL_REQUEST: u32 = 3;
pub const WEFT_WC_LOCAL_PROT: u32 = 4;
pub const WEFT_WC_REMOTE_ACCESS: u32 = 5;
pub const WEFT_WC_REMOTE_REQUEST: u32 = 6;
pub const WEFT_WC_REMOTE_OP: u32 = 7;
pub const WEFT_WC_BIND: u32 = 8;
pub const WEFT_WC_LINK: u32 = 9;
pub const WEFT_WC_PEER: u32 = 10;
pub const WEFT_WC_PROTOCOL: u32 = 11;
pub const WEFT_PULL_WQE: u32 = 1;
pub const WEFT_PULL_DATA: u32 = 2;
pub const WEFT_PULL_CQE: u32 = 4;
pub const WEFT_QUEUE_ENTRIES_AT: u32 = 128;
pub const WEFT_OP_SEND: u32 = 1;
pub const WEFT_OP_WRITE: u32 = 2;
pub const WEFT_OP_WRITE_IMM: u32 = 3;
pub const WEFT_OP_READ: u32 = 4;
pub const WEFT_OP_READ_ALL: u32 = 5;
pub const WEFT_OP_FETCH_ADD: u32 = 6;
pub const WEFT_OP_CMP_SWAP: u32 = 7;
pub const WEFT_OP_BIND_MW: u32 = 8;
pub const WEFT_OP_LOCAL_INV: u32 = 9;
pub const WEFT_OP_RECV: u32 = 16;
pub const WEFT_OP_RECV_WRITE_IMM: u32 = 17;
pub const WEFT_WR_SIGNALED: u32 = 1;
pub const WEFT_WR_INLINE: u32 = 2;
pub const WEFT_WR_IMM: u32 = 4;
pub const WEFT_WR_FENCE: u32 = 8;
pub const WEFT_QP_RESET: u32 = 0;
pub const WEFT_QP_INIT: u32 = 1;
pub const WEFT_QP_RTR: u32 = 2;
pub const WEFT_QP_RTS: u32 = 3;
pub const WEFT_QP_SQD: u32 = 4;
pub const WEFT_QP_ERR: u32 = 5;
pub const WEFT_QP_STATE: u32 = 1;
pub const WEFT_QP_ACCESS: u32 = 2;
pub const WEFT_QP_PATH: u32 = 4;
pub const WEFT_KICK_DEFAULT: u32 = 512;
pub const WEFT_KICK_MOST: u32 = 1024;
pub const WEFT_CQ_FOREVER: u32 = 4294967295;
pub const WEFT_MIGRATE_DRY_RUN: u32 = 1;
pub const WEFT_MIGRATE_STOP: u32 = 2;
pub const WEFT_MIGRATE_LIVE: u32 = 4;
pub const WEFT_MIGRATE_FAR: u32 = 8;
pub const WEFT_MIGRATE_RECEIVE: u32 = 16;
pub const WEFT_MIGRATE_STAYED: u32 = 1;
pub const WEFT_MIGRATE_MOVED: u32 = 2;
pub const WEFT_MIGRATE_AT_SOURCE: u32 = 3;
pub const WEFT_MIGRATE_AT_TARGET: u32 = 4;
pub const WEFT_MIGRATE_LOST: u32 = 5;
pub const WEFT_MIGRATE_SAME: u32 = 1;
pub const WEFT_MIGRATE_INCAPABLE: u32 = 2;
pub const WEFT_MIGRATE_UNKNOWN: u32 = 4;
pub const WEFT_MIGRATE_UNEQUAL: u32 = 8;
pub const WEFT_MIGRATE_NO_SOURCE: u32 = 16;
pub const WEFT_MIGRATE_NO_TARGET: u32 = 32;
pub const WEFT_MIGRATE_TAKEN: u32 = 64;
pub const WEFT_MIGRATE_SILENT: u32 = 128;
pub const WEFT_MIGRATE_ELSEWHERE: u32 = 256;
pub const WEFT_MIGRATE_FOREIGN: u32 = 512;
pub const WEFT_MIGRATE_CHANNELS: u32 = 1024;
pub const WEFT_MIGRATE_FAILED: u32 = 1;
pub const WEFT_MIGRATE_TIMEOUT: u32 = 2;
pub const WEFT_MIGRATE_CANCELLED: u32 = 3;
pub const WEFT_MIGRATE_SOURCE_GONE: u32 = 4;
pub const WEFT_MIGRATE_TARGET_GONE: u32 = 5;
pub const WEFT_NODE_HOST: u32 = 1;
pub const WEFT_NODE_SWITCH: u32 = 2;
pub const WEFT_NODE_ENDPOINT: u32 = 3;
pub const WEFT_NODE_KNOWN: u32 = 1;
pub const WEFT_NODE_SELF: u32 = 2;
pub const WEFT_NODE_MASTER: u32 = 4;
pub const WEFT_NODE_SCALE: u32 = 8;
pub const WEFT_FABRIC_PORTS: u32 = 16;
pub const WEFT_FABRIC_HOPS: u32 = 32;
pub const WEFT_FABRIC_PAGE: u32 = 32;
pub const WEFT_ASSIGNMENTS_SET: u32 = 1;
pub const WEFT_ASSIGNMENTS_BYTES: u32 = 4096;
pub const WEFT_ASSIGNMENT_WAITS: u32 = 0;
pub const WEFT_ASSIGNMENT_DONE: u32 = 1;
pub const WEFT_ASSIGNMENT_NO_ENDPOINT: u32 = 2;
pub const WEFT_ASSIGNMENT_NO_VE: u32 = 3;
pub const WEFT_ASSIGNMENT_NO_ROOT: u32 = 4;
pub const WEFT_ASSIGNMENT_NO_LID: u32 = 5;
pub const WEFT_ASSIGNMENT_NO_WAY: u32 = 6;
pub const WEFT_ASSIGNMENT_NO_PLANE: u32 = 7;
pub const WEFT_ASSIGNMENT_NO_ROOM: u32 = 8;
pub const WEFT_ASSIGNMENT_FAILED: u32 = 9;
pub const WEFT_ASSIGNMENT_NOT_TAKEN: u32 = 10;
pub const WEFT_COMPONENT_THERE: u32 = 1;
pub const WEFT_COMPONENT_REPLACED: u32 = 2;
pub const WEFT_COMPONENT_NO_VPD: u32 = 4;
pub const WEFT_COMPONENT_SOCKETS: u32 = 8;
pub const WEFT_VPD_TEXT: u32 = 32;
pub const WEFT_VH_GIVEN: u32 = 1;
pub const WEFT_SLOT_OCCUPIED: u32 = 1;
pub const WEFT_SLOT_ANNOUNCED: u32 = 2;
pub const WEFT_SLOT_POWER: u32 = 4;
pub const WEFT_SLOT_LINK: u32 = 8;
pub const WEFT_ANNOUNCE_WITHDRAW: u32 = 1;
pub const WEFT_EP_PUSH_WORK: u32 = 1;
pub const WEFT_EP_PUSH_DATA: u32 = 2;
pub const WEFT_EP_PULL_DONE: u32 = 4;
pub const WEFT_EP_MAX_ENTRIES: u32 = 1024;
pub const WEFT_EP_MAX_BATCH: u32 = 64;
pub const WEFT_EP_MAX_AREAS: u32 = 4;
pub const WEFT_EP_MAX_AREA: u32 = 4194304;
pub const WEFT_EP_MAX_WORK: u32 = 16777216;
pub const WEFT_EP_MAY_READ: u32 = 1;
pub const WEFT_EP_MAY_WRITE: u32 = 2;
pub const WEFT_EP_OP_NOP: u32 = 0;
pub const WEFT_EP_OP_COPY: u32 = 1;
pub const WEFT_EP_OP_CRC32C: u32 = 2;
pub const WEFT_EP_OP_COPY_CRC32C: u32 = 3;
pub const WEFT_EP_MAX_SEGMENTS: u32 = 7;
pub const WEFT_EP_DONE_OK: u32 = 0;
pub const WEFT_EP_DONE_BAD: u32 = 1;
pub const WEFT_EP_DONE_PROTOCOL: u32 = 2;
pub const WEFT_EP_DONE_UNREACHABLE: u32 = 3;
pub const WEFT_EP_DONE_TOO_LONG: u32 = 4;
pub const WEFT_EP_DONE_FLUSHED: u32 = 5;
pub const WEFT_EP_FOREVER: u32 = 4294967295;
pub const WEFT_MATCH_ANY: u32 = 1;
pub const WEFT_MATCH_HANDS_OVER: u32 = 2;
pub const WEFT_MATCH_MAX_ENTRIES: u32 = 16384;
pub const WEFT_MATCH_MAX_SLOTS: u32 = 4096;
pub const WEFT_MATCH_INLINE: u32 = 64;
pub const WEFT_MATCH_EAGER: u32 = 4096;
pub const WEFT_MATCH_TARGET_PRODUCED_AT: u32 = 0;
pub const WEFT_MATCH_TARGET_CONSUMED_AT: u32 = 64;
pub const WEFT_MATCH_INITIATOR_PRODUCED_AT: u32 = 128;
pub const WEFT_MATCH_INITIATOR_CONSUMED_AT: u32 = 192;
pub const WEFT_MATCH_EVENTS_PRODUCED_AT: u32 = 256;
pub const WEFT_MATCH_EVENTS_CONSUMED_AT: u32 = 320;
pub const WEFT_MATCH_IDLE_AT: u32 = 384;
pub const WEFT_MATCH_WANTS_AT: u32 = 448;
pub const WEFT_MATCH_RECEIVED_AT: u32 = 512;
pub const WEFT_MATCH_RECEIVE_ERRORS_AT: u32 = 520;
pub const WEFT_MATCH_SENT_AT: u32 = 528;
pub const WEFT_MATCH_SEND_ERRORS_AT: u32 = 536;
pub const WEFT_MATCH_POLL: u32 = 1;
pub const WEFT_MATCH_REST: u32 = 2;
pub const WEFT_MATCH_APPEND: u32 = 1;
pub const WEFT_MATCH_SEARCH: u32 = 2;
pub const WEFT_MATCH_CLAIM: u32 = 3;
pub const WEFT_MATCH_DISCARD: u32 = 4;
pub const WEFT_MATCH_RECEIVE: u32 = 5;
pub const WEFT_MATCH_UNLINK: u32 = 6;
pub const WEFT_MATCH_ENABLE: u32 = 7;
pub const WEFT_MATCH_DISABLE: u32 = 8;
pub const WEFT_MATCH_HAND_OVER: u32 = 9;
pub const WEFT_MATCH_REPORT: u32 = 10;
pub const WEFT_MATCH_APPEND_HEADER: u32 = 11;
pub const WEFT_MATCH_PULL: u32 = 12;
pub const WEFT_MATCH_PUT: u32 = 16;
pub const WEFT_MATCH_GET: u32 = 17;
pub const WEFT_MATCH_ATOMIC: u32 = 18;
pub const WEFT_MATCH_FETCH: u32 = 19;
pub const WEFT_MATCH_PERSISTENT: u32 = 1;
pub const WEFT_MATCH_MANAGE_LOCAL: u32 = 2;
pub const WEFT_MATCH_ANY_SOURCE: u32 = 4;
pub const WEFT_MATCH_QUIET: u32 = 8;
pub const WEFT_MATCH_IN_RING: u32 = 16;
pub const WEFT_MATCH_OVERFLOW: u32 = 32;
pub const WEFT_MATCH_SILENT: u32 = 64;
pub const WEFT_MATCH_AT_OFFSET: u32 = 128;
pub const WEFT_MATCH_READABLE: u32 = 256;
pub const WEFT_MATCH_READ_ONLY: u32 = 512;
pub const WEFT_MATCH_RETRY: u32 = 1024;
pub const WEFT_MATCH_REQUESTS: u32 = 2048;
pub const WEFT_MATCH_MIN: u32 = 1;
pub const WEFT_MATCH_MAX: u32 = 2;
pub const WEFT_MATCH_SUM: u32 = 3;
pub const WEFT_MATCH_PRODUCT: u32 = 4;
pub const WEFT_MATCH_DIFFERENCE: u32 = 5;
pub const WEFT_MATCH_LOGICAL_OR: u32 = 6;
pub const WEFT_MATCH_LOGICAL_AND: u32 = 7;
pub const WEFT_MATCH_BIT_OR: u32 = 8;
pub const WEFT_MATCH_BIT_AND: u32 = 9;
pub const WEFT_MATCH_LOGICAL_XOR: u32 = 10;
pub const WEFT_MATCH_BIT_XOR: u32 = 11;
pub const WEFT_MATCH_READ: u32 = 12;
pub const WEFT_MATCH_WRITE: u32 = 13;
pub const WEFT_MATCH_SWAP_EQUAL: u32 = 14;
pub const WEFT_MATCH_SWAP_NOT_EQUAL: u32 = 15;
pub const WEFT_MATCH_SWAP_LESS_EQUAL: u32 = 16;
pub const WEFT_MATCH_SWAP_LESS: u32 = 17;
pub const WEFT_MATCH_SWAP_GREATER_EQUAL: u32 = 18;
pub const WEFT_MATCH_SWAP_GREATER: u32 = 19;
pub const WEFT_MATCH_SWAP_MASKED: u32 = 20;
pub const WEFT_MATCH_SIGNED: u32 = 128;
pub const WEFT_MATCH_MAX_ATOMIC: u32 = 2048;
pub const WEFT_MATCH_DISABLED: u32 = 0;
pub const WEFT_MATCH_ONLOAD: u32 = 1;
pub const WEFT_MATCH_SOFTWARE: u32 = 2;
pub const WEFT_MATCH_RETURNING: u32 = 3;
pub const WEFT_MATCH_COMMAND: u32 = 1;
pub const WEFT_MATCH_RECEIVED: u32 = 2;
pub const WEFT_MATCH_SENT: u32 = 3;
pub const WEFT_MATCH_UNLINKED: u32 = 4;
pub const WEFT_MATCH_FREED: u32 = 5;
pub const WEFT_MATCH_GOT: u32 = 6;
pub const WEFT_MATCH_CHANGED: u32 = 7;
pub const WEFT_MATCH_BUFFER: u32 = 8;
pub const WEFT_MATCH_HEADER: u32 = 9;
pub const WEFT_MATCH_STATE: u32 = 10;
pub const WEFT_MATCH_BUFFER_UNLINKED: u32 = 1;
pub const WEFT_MATCH_TRUNCATED: u32 = 2;
pub const WEFT_MATCH_CLAIMED: u32 = 4;
pub type __u8 = ::std::os::raw::c_uchar;
pub type __u16 = ::std::os::raw::c_ushort;
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
    pub lid: __u32,
    pub hops: __u32,
    pub max_speed: __u32,
    pub max_width: __u32,
    pub power: __u32,
    pub reserved: __u32,
    pub arena_share: __u64,
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
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sock_listen {
    pub size: __u32,
    pub flags: __u32,
    pub service: __u32,
    pub backlog: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sock_connect {
    pub size: __u32,
    pub flags: __u32,
    pub peer: __u64,
    pub link: __u32,
    pub service: __u32,
    pub protocol: __u32,
    pub bytes: __u32,
    pub timeout_ms: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sock_accept {
    pub size: __u32,
    pub flags: __u32,
    pub listen_fd: __s32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sock_info {
    pub size: __u32,
    pub flags: __u32,
    pub state: __u32,
    pub error: __u32,
    pub peer_hwid: __u64,
    pub peer_generation: __u32,
    pub link: __u32,
    pub service: __u32,
    pub protocol: __u32,
    pub bytes: __u32,
    pub reserved: __u32,
    pub sent: __u64,
    pub received: __u64,
    pub buffer_full: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sock_shutdown {
    pub size: __u32,
    pub flags: __u32,
    pub how: __u32,
    pub reserved: __u32,
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
    pub bulk: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_limits {
    pub size: __u32,
    pub flags: __u32,
    pub qps: __u32,
    pub cqs: __u32,
    pub srqs: __u32,
    pub stags: __u32,
    pub pds: __u32,
    pub queue_entries: __u32,
    pub cq_entries: __u32,
    pub sges: __u32,
    pub inline_bytes: __u32,
    pub engine: __u32,
    pub mr_bytes: __u64,
    pub qp_share: __u32,
    pub cq_share: __u32,
    pub srq_share: __u32,
    pub stag_share: __u32,
    pub pd_share: __u32,
    pub listeners: __u32,
    pub listener_share: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_pd_alloc {
    pub size: __u32,
    pub flags: __u32,
    pub pd: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_mr_reg {
    pub size: __u32,
    pub flags: __u32,
    pub addr: __u64,
    pub length: __u64,
    pub base: __u64,
    pub pd: __u32,
    pub access: __u32,
    pub key: __u32,
    pub mr: __u32,
    pub stag: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_mw_alloc {
    pub size: __u32,
    pub flags: __u32,
    pub pd: __u32,
    pub mw: __u32,
    pub stag: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_cq_create {
    pub size: __u32,
    pub flags: __u32,
    pub entries: __u32,
    pub event_fd: __s32,
    pub cq: __u32,
    pub reserved: __u32,
    pub ring_offset: __u64,
    pub ring_bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_cq_ctl {
    pub consumed: __u64,
    pub reserved0: [__u64; 7usize],
    pub produced: __u64,
    pub overrun: __u32,
    pub reserved1: [__u32; 13usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_cqe {
    pub wr_id: __u64,
    pub qpn: __u32,
    pub byte_len: __u32,
    pub imm: __u32,
    pub status: __u16,
    pub opcode: __u8,
    pub flags: __u8,
    pub reserved: __u32,
    pub valid: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_cq_arm {
    pub size: __u32,
    pub flags: __u32,
    pub cq: __u32,
    pub reserved: __u32,
    pub consumed: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_srq_create {
    pub size: __u32,
    pub flags: __u32,
    pub pd: __u32,
    pub entries: __u32,
    pub sges: __u32,
    pub srq: __u32,
    pub stride: __u32,
    pub reserved: __u32,
    pub ring_offset: __u64,
    pub ring_bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_qp_create {
    pub size: __u32,
    pub flags: __u32,
    pub pd: __u32,
    pub send_cq: __u32,
    pub recv_cq: __u32,
    pub srq: __u32,
    pub send_entries: __u32,
    pub recv_entries: __u32,
    pub send_sges: __u32,
    pub recv_sges: __u32,
    pub inline_bytes: __u32,
    pub protocol: __u32,
    pub qp: __u32,
    pub qpn: __u32,
    pub send_stride: __u32,
    pub recv_stride: __u32,
    pub ring_offset: __u64,
    pub ring_bytes: __u64,
    pub send_at: __u32,
    pub recv_at: __u32,
    pub kick_page_offset: __u64,
    pub kick_offset: __u64,
    pub kick_value: __u32,
    pub kick_bit: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_queue_ctl {
    pub posted: __u64,
    pub reserved0: [__u64; 7usize],
    pub taken: __u64,
    pub reserved1: [__u64; 7usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_sge {
    pub to: __u64,
    pub length: __u32,
    pub stag: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_send_wqe {
    pub wr_id: __u64,
    pub opcode: __u8,
    pub flags: __u8,
    pub count: __u16,
    pub imm: __u32,
    pub remote_to: __u64,
    pub remote_stag: __u32,
    pub access: __u32,
    pub arg0: __u64,
    pub arg1: __u64,
    pub reserved: [__u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_recv_wqe {
    pub wr_id: __u64,
    pub count: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_qp_modify {
    pub size: __u32,
    pub flags: __u32,
    pub qp: __u32,
    pub mask: __u32,
    pub state: __u32,
    pub access: __u32,
    pub peer: __u64,
    pub link: __u32,
    pub peer_qpn: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_qp_query {
    pub size: __u32,
    pub flags: __u32,
    pub qp: __u32,
    pub state: __u32,
    pub why: __u32,
    pub access: __u32,
    pub protocol: __u32,
    pub link: __u32,
    pub peer_qpn: __u32,
    pub reserved: __u32,
    pub peer: __u64,
    pub sent: __u64,
    pub received: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_destroy {
    pub size: __u32,
    pub flags: __u32,
    pub handle: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_kick {
    pub size: __u32,
    pub flags: __u32,
    pub qp: __u32,
    pub budget: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_cq_wait {
    pub size: __u32,
    pub flags: __u32,
    pub consumed: __u64,
    pub cq: __u32,
    pub qp: __u32,
    pub budget: __u32,
    pub timeout_ms: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_vf_migrate {
    pub size: __u32,
    pub flags: __u32,
    pub vf: __u32,
    pub target_fd: __s32,
    pub target_vf: __u32,
    pub timeout_ms: __u32,
    pub outcome: __u32,
    pub obstacles: __u32,
    pub step: __u32,
    pub event: __u32,
    pub outstanding: __u32,
    pub reserved: __u32,
    pub hwid: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_port {
    pub peer: __u64,
    pub speed: __u32,
    pub width: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_nodes {
    pub size: __u32,
    pub flags: __u32,
    pub index: __u32,
    pub nodes: __u32,
    pub serial: __u32,
    pub lid: __u32,
    pub hwid: __u64,
    pub kind: __u32,
    pub state: __u32,
    pub hops: __u32,
    pub links: __u32,
    pub path: [__u8; 32usize],
    pub ports: [weft_fabric_port; 16usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_route {
    pub lid: __u32,
    pub hops: __u16,
    pub link: __u16,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_routes {
    pub size: __u32,
    pub flags: __u32,
    pub first: __u32,
    pub count: __u32,
    pub routes: __u32,
    pub lid: __u32,
    pub route: [weft_fabric_route; 32usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_assignments {
    pub size: __u32,
    pub flags: __u32,
    pub text: __u64,
    pub bytes: __u32,
    pub version: __u32,
    pub line: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_assignment {
    pub size: __u32,
    pub flags: __u32,
    pub index: __u32,
    pub count: __u32,
    pub serial: __u32,
    pub state: __u32,
    pub endpoint: __u64,
    pub root: __u64,
    pub ve: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_component {
    pub size: __u32,
    pub flags: __u32,
    pub index: __u32,
    pub count: __u32,
    pub serial: __u32,
    pub kind: __u32,
    pub state: __u32,
    pub lid: __u32,
    pub hwid: __u64,
    pub resident: __u64,
    pub ports: __u32,
    pub ves: __u32,
    pub functions: __u32,
    pub reserved: __u32,
    pub part: [__u8; 32usize],
    pub serial_number: [__u8; 32usize],
    pub blade: [__u8; 32usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_vh {
    pub size: __u32,
    pub flags: __u32,
    pub root: __u64,
    pub index: __u32,
    pub count: __u32,
    pub serial: __u32,
    pub vh: __u32,
    pub kind: __u32,
    pub state: __u32,
    pub depth: __u32,
    pub port: __u32,
    pub hwid: __u64,
    pub lid: __u32,
    pub ve: __u32,
    pub functions: __u32,
    pub vp: __u32,
    pub base: __u64,
    pub limit: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_slot {
    pub size: __u32,
    pub flags: __u32,
    pub index: __u32,
    pub count: __u32,
    pub serial: __u32,
    pub port: __u32,
    pub hwid: __u64,
    pub state: __u32,
    pub planes: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_fabric_announce {
    pub size: __u32,
    pub flags: __u32,
    pub hwid: __u64,
    pub port: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_open {
    pub size: __u32,
    pub flags: __u32,
    pub endpoint: __u64,
    pub ve: __u32,
    pub function: __u32,
    pub entries: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_query {
    pub size: __u32,
    pub flags: __u32,
    pub broken: __u32,
    pub failed: __u32,
    pub outstanding: __u32,
    pub areas: __u32,
    pub submitted: __u64,
    pub completed: __u64,
    pub bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_area {
    pub size: __u32,
    pub flags: __u32,
    pub bytes: __u64,
    pub area: __u32,
    pub reserved: __u32,
    pub offset: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_free {
    pub size: __u32,
    pub flags: __u32,
    pub area: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_segment {
    pub area: __u32,
    pub bytes: __u32,
    pub offset: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_work {
    pub cookie: __u64,
    pub op: __u8,
    pub sources: __u8,
    pub dests: __u8,
    pub reserved: [__u8; 5usize],
    pub segment: [weft_ep_segment; 7usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_submit {
    pub size: __u32,
    pub flags: __u32,
    pub work: __u64,
    pub count: __u32,
    pub done: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_done {
    pub cookie: __u64,
    pub status: __u32,
    pub crc: __u32,
    pub bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_ep_reap {
    pub size: __u32,
    pub flags: __u32,
    pub done: __u64,
    pub count: __u32,
    pub timeout_ms: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_match_open {
    pub size: __u32,
    pub flags: __u32,
    pub entries: __u32,
    pub commands: __u32,
    pub events: __u32,
    pub traffic_class: __u32,
    pub endpoint: __u32,
    pub generation: __u32,
    pub hwid: __u64,
    pub target_at: __u64,
    pub initiator_at: __u64,
    pub events_at: __u64,
    pub bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_match_kick {
    pub size: __u32,
    pub flags: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_match_command {
    pub op: __u8,
    pub reserved: __u8,
    pub flags: __u16,
    pub min_free: __u32,
    pub context: __u64,
    pub address: __u64,
    pub length: __u64,
    pub bits: __u64,
    pub ignore: __u64,
    pub hwid: __u64,
    pub endpoint: __u16,
    pub reserved2: __u16,
    pub generation: __u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_match_more {
    pub offset: __u64,
    pub result: __u64,
    pub compare: __u64,
    pub operation: __u8,
    pub integer: __u8,
    pub reserved: __u16,
    pub reserved2: __u32,
    pub reserved3: [__u64; 4usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct weft_match_event {
    pub kind: __u8,
    pub flags: __u8,
    pub endpoint: __u16,
    pub status: __u32,
    pub context: __u64,
    pub address: __u64,
    pub length: __u64,
    pub stored: __u64,
    pub bits: __u64,
    pub data: __u64,
    pub hwid: __u64,
}
pub const IOCTL_WEFT_PORT_INFO: __u32 = 22400;
pub const IOCTL_WEFT_LINK_INFO: __u32 = 22401;
pub const IOCTL_WEFT_CHAN_LISTEN: __u32 = 22402;
pub const IOCTL_WEFT_CHAN_CONNECT: __u32 = 22403;
pub const IOCTL_WEFT_CHAN_ACCEPT: __u32 = 22404;
pub const IOCTL_WEFT_CHAN_INFO: __u32 = 22405;
pub const IOCTL_WEFT_CHAN_KICK: __u32 = 22406;
pub const IOCTL_WEFT_PD_ALLOC: __u32 = 22407;
pub const IOCTL_WEFT_MR_REG: __u32 = 22408;
pub const IOCTL_WEFT_MW_ALLOC: __u32 = 22409;
pub const IOCTL_WEFT_CQ_CREATE: __u32 = 22410;
pub const IOCTL_WEFT_SRQ_CREATE: __u32 = 22411;
pub const IOCTL_WEFT_QP_CREATE: __u32 = 22412;
pub const IOCTL_WEFT_QP_MODIFY: __u32 = 22413;
pub const IOCTL_WEFT_QP_QUERY: __u32 = 22414;
pub const IOCTL_WEFT_DESTROY: __u32 = 22415;
pub const IOCTL_WEFT_KICK: __u32 = 22416;
pub const IOCTL_WEFT_CQ_ARM: __u32 = 22417;
pub const IOCTL_WEFT_CQ_WAIT: __u32 = 22426;
pub const IOCTL_WEFT_LIMITS: __u32 = 22418;
pub const IOCTL_WEFT_VF_MIGRATE: __u32 = 22419;
pub const IOCTL_WEFT_FABRIC_NODES: __u32 = 22420;
pub const IOCTL_WEFT_FABRIC_ROUTES: __u32 = 22421;
pub const IOCTL_WEFT_FABRIC_ASSIGNMENTS: __u32 = 22422;
pub const IOCTL_WEFT_FABRIC_ASSIGNMENT: __u32 = 22423;
pub const IOCTL_WEFT_FABRIC_COMPONENT: __u32 = 22424;
pub const IOCTL_WEFT_FABRIC_VH: __u32 = 22425;
pub const IOCTL_WEFT_FABRIC_SLOT: __u32 = 22427;
pub const IOCTL_WEFT_FABRIC_ANNOUNCE: __u32 = 22428;
pub const IOCTL_WEFT_SOCK_LISTEN: __u32 = 22440;
pub const IOCTL_WEFT_SOCK_CONNECT: __u32 = 22441;
pub const IOCTL_WEFT_SOCK_ACCEPT: __u32 = 22442;
pub const IOCTL_WEFT_SOCK_INFO: __u32 = 22443;
pub const IOCTL_WEFT_SOCK_SHUTDOWN: __u32 = 22444;
pub const IOCTL_WEFT_MATCH_OPEN: __u32 = 22448;
pub const IOCTL_WEFT_MATCH_KICK: __u32 = 22449;
pub const IOCTL_WEFT_EP_OPEN: __u32 = 22432;
pub const IOCTL_WEFT_EP_QUERY: __u32 = 22433;
pub const IOCTL_WEFT_EP_AREA: __u32 = 22434;
pub const IOCTL_WEFT_EP_FREE: __u32 = 22435;
pub const IOCTL_WEFT_EP_SUBMIT: __u32 = 22436;
pub const IOCTL_WEFT_EP_REAP: __u32 = 22437;
