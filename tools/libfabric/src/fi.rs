// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the provider needs of libfabric's headers, of version 2.1: structures, numbers, functions.
//!
//! By hand, so that no header is needed to build it. `layout.rs` has the C compiler compare all of it with the headers.
//! An operation that the provider does not have is an [`Absent`] in its table: headers call most without looking.

use std::ffi::{c_char, c_int, c_void};

/// An operation that is not there: whatever its arguments are, it returns -FI_ENOSYS. The caller removes arguments from
/// the stack on all machines that there are drivers for.
pub type Absent = extern "C" fn() -> isize;

pub type FiAddr = u64;
/// No address, or any.
pub const FI_ADDR_UNSPEC: FiAddr = u64::MAX;

macro_rules! numbers {
    ($($(#[$meta:meta])? $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$meta])? pub const $name: $type = $value;)*
        /// All of them, for the comparison with the headers.
        #[cfg(test)]
        pub const NUMBERS: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

numbers! {
    FI_MSG: u64 = 1 << 1;
    FI_RMA: u64 = 1 << 2;
    FI_TAGGED: u64 = 1 << 3;
    FI_ATOMIC: u64 = 1 << 4;
    FI_READ: u64 = 1 << 8;
    FI_WRITE: u64 = 1 << 9;
    FI_RECV: u64 = 1 << 10;
    FI_SEND: u64 = 1 << 11;
    FI_TRANSMIT: u64 = FI_SEND;
    FI_REMOTE_READ: u64 = 1 << 12;
    FI_REMOTE_WRITE: u64 = 1 << 13;
    FI_MULTI_RECV: u64 = 1 << 16;
    FI_REMOTE_CQ_DATA: u64 = 1 << 17;
    FI_MORE: u64 = 1 << 18;
    FI_PEEK: u64 = 1 << 19;
    FI_TRIGGER: u64 = 1 << 20;
    FI_FENCE: u64 = 1 << 21;
    FI_COMPLETION: u64 = 1 << 24;
    FI_EVENT: u64 = 1 << 24;
    FI_INJECT: u64 = 1 << 25;
    FI_INJECT_COMPLETE: u64 = 1 << 26;
    FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
    FI_DELIVERY_COMPLETE: u64 = 1 << 28;
    FI_LOCAL_COMM: u64 = 1 << 51;
    FI_REMOTE_COMM: u64 = 1 << 52;
    FI_RMA_EVENT: u64 = 1 << 56;
    FI_SOURCE: u64 = 1 << 57;
    FI_DISCARD: u64 = 1 << 58;
    FI_FETCH_ATOMIC: u64 = 1 << 58;
    FI_CLAIM: u64 = 1 << 59;
    FI_COMPARE_ATOMIC: u64 = 1 << 59;
    FI_DIRECTED_RECV: u64 = 1 << 59;
    FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
    FI_ORDER_RAW: u64 = 1 << 1;
    FI_ORDER_WAW: u64 = 1 << 4;
    FI_ORDER_SAS: u64 = 1 << 8;
    FI_ORDER_RMA_RAW: u64 = 1 << 33;
    FI_ORDER_RMA_WAW: u64 = 1 << 35;
    FI_ORDER_ATOMIC_RAR: u64 = 1 << 36;
    FI_ORDER_ATOMIC_RAW: u64 = 1 << 37;
    FI_ORDER_ATOMIC_WAR: u64 = 1 << 38;
    FI_ORDER_ATOMIC_WAW: u64 = 1 << 39;

    FI_ADDR_STR: u32 = 9;
    FI_EP_UNSPEC: u32 = 0;
    FI_EP_RDM: u32 = 3;
    FI_AV_UNSPEC: u32 = 0;
    FI_AV_MAP: u32 = 1;
    FI_AV_TABLE: u32 = 2;
    FI_THREAD_UNSPEC: u32 = 0;
    FI_THREAD_SAFE: u32 = 1;
    FI_PROGRESS_UNSPEC: u32 = 0;
    FI_PROGRESS_AUTO: u32 = 1;
    #[cfg(test)]
    FI_PROGRESS_MANUAL: u32 = 2;
    FI_PROGRESS_CONTROL_UNIFIED: u32 = 3;
    FI_RM_ENABLED: u32 = 2;

    FI_INT8: u32 = 0;
    FI_UINT64: u32 = 7;
    FI_MIN: u32 = 0;
    FI_MAX: u32 = 1;
    FI_SUM: u32 = 2;
    FI_PROD: u32 = 3;
    FI_LOR: u32 = 4;
    FI_LAND: u32 = 5;
    FI_BOR: u32 = 6;
    FI_BAND: u32 = 7;
    FI_LXOR: u32 = 8;
    FI_BXOR: u32 = 9;
    FI_ATOMIC_READ: u32 = 10;
    FI_ATOMIC_WRITE: u32 = 11;
    FI_CSWAP: u32 = 12;
    FI_CSWAP_NE: u32 = 13;
    FI_CSWAP_LE: u32 = 14;
    FI_CSWAP_LT: u32 = 15;
    FI_CSWAP_GE: u32 = 16;
    FI_CSWAP_GT: u32 = 17;
    FI_MSWAP: u32 = 18;
    FI_DIFF: u32 = 19;

    FI_CLASS_FABRIC: usize = 1;
    FI_CLASS_DOMAIN: usize = 2;
    FI_CLASS_EP: usize = 3;
    FI_CLASS_AV: usize = 11;
    FI_CLASS_MR: usize = 12;
    FI_CLASS_EQ: usize = 13;
    FI_CLASS_CQ: usize = 14;
    FI_CLASS_CNTR: usize = 15;

    FI_GETOPSFLAG: c_int = 2;
    FI_SETOPSFLAG: c_int = 3;
    FI_GETWAIT: c_int = 5;
    FI_ENABLE: c_int = 6;
    FI_GETWAITOBJ: c_int = 16;

    FI_WAIT_NONE: u32 = 0;
    FI_WAIT_UNSPEC: u32 = 1;
    FI_WAIT_FD: u32 = 3;

    FI_CQ_FORMAT_UNSPEC: u32 = 0;
    FI_CQ_FORMAT_CONTEXT: u32 = 1;
    FI_CQ_FORMAT_MSG: u32 = 2;
    FI_CQ_FORMAT_DATA: u32 = 3;
    FI_CQ_FORMAT_TAGGED: u32 = 4;
    FI_CNTR_EVENTS_COMP: u32 = 0;

    FI_OPT_ENDPOINT: c_int = 0;
    FI_OPT_MIN_MULTI_RECV: c_int = 0;
    FI_OPT_CM_DATA_SIZE: c_int = 1;

    FI_PARAM_SIZE_T: u32 = 3;
    FI_LOG_WARN: u32 = 0;
    FI_LOG_INFO: u32 = 2;
    FI_LOG_CORE: u32 = 0;
    FI_LOG_DOMAIN: u32 = 2;
    FI_LOG_EP_CTRL: u32 = 3;

    FI_ENOENT: c_int = 2;
    FI_EIO: c_int = 5;
    FI_EAGAIN: c_int = 11;
    FI_ENOMEM: c_int = 12;
    FI_EACCES: c_int = 13;
    FI_EFAULT: c_int = 14;
    FI_EBUSY: c_int = 16;
    FI_ENODEV: c_int = 19;
    FI_EINVAL: c_int = 22;
    FI_ENOSPC: c_int = 28;
    FI_ENOSYS: c_int = 38;
    FI_ENOMSG: c_int = 42;
    FI_ENODATA: c_int = 61;
    FI_EMSGSIZE: c_int = 90;
    FI_ENOPROTOOPT: c_int = 92;
    FI_EOPNOTSUPP: c_int = 95;
    FI_ECONNRESET: c_int = 104;
    FI_ESHUTDOWN: c_int = 108;
    FI_ETIMEDOUT: c_int = 110;
    FI_EHOSTUNREACH: c_int = 113;
    FI_ECANCELED: c_int = 125;
    FI_EKEYREJECTED: c_int = 129;
    FI_ETOOSMALL: c_int = 257;
    FI_EOPBADSTATE: c_int = 258;
    FI_EAVAIL: c_int = 259;
    FI_EBADFLAGS: c_int = 260;
    FI_ENOCQ: c_int = 263;
    FI_ETRUNC: c_int = 265;
    FI_ENOKEY: c_int = 266;
    FI_ENOAV: c_int = 267;
}

macro_rules! structures {
    ($($(#[$meta:meta])* $name:ident ($c:literal) { $($field:ident $(($cname:literal))?: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            pub struct $name { $(pub $field: $type,)* }
        )*
        /// Name in C, bytes, and where each field is.
        #[cfg(test)]
        pub const STRUCTURES: &[(&str, usize, &[(&str, usize)])] = &[$(
            ($c, size_of::<$name>(), &[$((
                structures!(@name $field $($cname)?), std::mem::offset_of!($name, $field)
            )),*])
        ),*];
    };
    (@name $field:ident $cname:literal) => { $cname };
    (@name $field:ident) => { stringify!($field) };
}

type Out<T> = *mut *mut T;
type Context = *mut c_void;

mod trigger;

pub use trigger::*;
#[cfg(test)]
pub use trigger::{NUMBERS as TRIGGER_NUMBERS, STRUCTURES as TRIGGER_STRUCTURES};

structures! {
    Fid ("struct fid") { fclass: usize, context: Context, ops: *const Ops, }
    Ops ("struct fi_ops") {
        size: usize,
        close: unsafe extern "C" fn(*mut Fid) -> c_int,
        bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
        ops_open: Absent,
        tostr: Absent,
        ops_set: Absent,
    }
    #[derive(Clone, Copy, Debug)]
    Iovec ("struct iovec") { iov_base: *mut c_void, iov_len: usize, }

    Info ("struct fi_info") {
        next: *mut Info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut Fid,
        tx_attr: *mut TxAttr,
        rx_attr: *mut RxAttr,
        ep_attr: *mut EpAttr,
        domain_attr: *mut DomainAttr,
        fabric_attr: *mut FabricAttr,
        nic: *mut c_void,
    }
    TxAttr ("struct fi_tx_attr") {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
        iov_limit: usize,
        rma_iov_limit: usize,
        tclass: u32,
    }
    RxAttr ("struct fi_rx_attr") {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
        iov_limit: usize,
    }
    EpAttr ("struct fi_ep_attr") {
        kind ("type"): u32,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
        max_order_raw_size: usize,
        max_order_war_size: usize,
        max_order_waw_size: usize,
        mem_tag_format: u64,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        auth_key_size: usize,
        auth_key: *mut u8,
    }
    DomainAttr ("struct fi_domain_attr") {
        domain: *mut FidDomain,
        name: *mut c_char,
        threading: u32,
        control_progress: u32,
        data_progress: u32,
        resource_mgmt: u32,
        av_type: u32,
        mr_mode: c_int,
        mr_key_size: usize,
        cq_data_size: usize,
        cq_cnt: usize,
        ep_cnt: usize,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize,
        max_ep_stx_ctx: usize,
        max_ep_srx_ctx: usize,
        cntr_cnt: usize,
        mr_iov_limit: usize,
        caps: u64,
        mode: u64,
        auth_key: *mut u8,
        auth_key_size: usize,
        max_err_data: usize,
        mr_cnt: usize,
        tclass: u32,
        max_ep_auth_key: usize,
        max_group_id: u32,
    }
    FabricAttr ("struct fi_fabric_attr") {
        fabric: *mut FidFabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }

    Provider ("struct fi_provider") {
        version: u32,
        fi_version: u32,
        context: [*mut c_void; 4],
        name: *const c_char,
        getinfo: unsafe extern "C" fn(
            u32, *const c_char, *const c_char, u64, *const Info, Out<Info>,
        ) -> c_int,
        fabric: unsafe extern "C" fn(*mut FabricAttr, Out<FidFabric>, Context) -> c_int,
        cleanup: extern "C" fn(),
    }

    FidFabric ("struct fid_fabric") { fid: Fid, ops: *const OpsFabric, api_version: u32, }
    OpsFabric ("struct fi_ops_fabric") {
        size: usize,
        domain: unsafe extern "C" fn(*mut FidFabric, *mut Info, Out<FidDomain>, Context) -> c_int,
        passive_ep: Absent,
        eq_open: unsafe extern "C" fn(*mut FidFabric, *mut EqAttr, Out<FidEq>, Context) -> c_int,
        wait_open: Absent,
        trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
        domain2: Absent,
    }

    FidDomain ("struct fid_domain") { fid: Fid, ops: *const OpsDomain, mr: *const OpsMr, }
    OpsDomain ("struct fi_ops_domain") {
        size: usize,
        av_open: unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, Out<FidAv>, Context) -> c_int,
        cq_open: unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, Out<FidCq>, Context) -> c_int,
        endpoint: unsafe extern "C" fn(*mut FidDomain, *mut Info, Out<FidEp>, Context) -> c_int,
        scalable_ep: Absent,
        cntr_open: unsafe extern "C" fn(*mut FidDomain, *mut CntrAttr, Out<FidCntr>, Context) -> c_int,
        poll_open: Absent,
        stx_ctx: Absent,
        srx_ctx: Absent,
        query_atomic: unsafe extern "C" fn(*mut FidDomain, u32, u32, *mut AtomicAttr, u64) -> c_int,
        query_collective: Absent,
        endpoint2: Absent,
    }
    OpsMr ("struct fi_ops_mr") {
        size: usize,
        reg: unsafe extern "C" fn(
            *mut Fid, *const c_void, usize, u64, u64, u64, u64, Out<FidMr>, Context,
        ) -> c_int,
        regv: unsafe extern "C" fn(
            *mut Fid, *const Iovec, usize, u64, u64, u64, u64, Out<FidMr>, Context,
        ) -> c_int,
        regattr: unsafe extern "C" fn(*mut Fid, *const MrAttr, u64, Out<FidMr>) -> c_int,
    }
    FidMr ("struct fid_mr") { fid: Fid, mem_desc: *mut c_void, key: u64, }
    MrAttr ("struct fi_mr_attr") {
        mr_iov: *const Iovec,
        iov_count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        context: Context,
        auth_key_size: usize,
        auth_key: *mut u8,
        iface: u32,
        device: u64,
        hmem_data: *mut c_void,
        page_size: usize,
        base_mr: *const FidMr,
        sub_mr_cnt: usize,
    }

    FidAv ("struct fid_av") { fid: Fid, ops: *const OpsAv, }
    AvAttr ("struct fi_av_attr") {
        kind ("type"): u32,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
    OpsAv ("struct fi_ops_av") {
        size: usize,
        insert: unsafe extern "C" fn(
            *mut FidAv, *const c_void, usize, *mut FiAddr, u64, Context,
        ) -> c_int,
        insertsvc: unsafe extern "C" fn(
            *mut FidAv, *const c_char, *const c_char, *mut FiAddr, u64, Context,
        ) -> c_int,
        insertsym: Absent,
        remove: unsafe extern "C" fn(*mut FidAv, *mut FiAddr, usize, u64) -> c_int,
        lookup: unsafe extern "C" fn(*mut FidAv, FiAddr, *mut c_void, *mut usize) -> c_int,
        straddr: unsafe extern "C" fn(
            *mut FidAv, *const c_void, *mut c_char, *mut usize,
        ) -> *const c_char,
        av_set: Absent,
        insert_auth_key: Absent,
        lookup_auth_key: Absent,
        set_user_id: Absent,
    }

    FidEq ("struct fid_eq") { fid: Fid, ops: *const OpsEq, }
    EqAttr ("struct fi_eq_attr") {
        size: usize,
        flags: u64,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_set: *mut c_void,
    }
    EqErrEntry ("struct fi_eq_err_entry") {
        fid: *mut Fid,
        context: Context,
        data: u64,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
    OpsEq ("struct fi_ops_eq") {
        size: usize,
        read: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize,
        readerr: unsafe extern "C" fn(*mut FidEq, *mut EqErrEntry, u64) -> isize,
        write: unsafe extern "C" fn(*mut FidEq, u32, *const c_void, usize, u64) -> isize,
        sread: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
        strerror: unsafe extern "C" fn(
            *mut FidEq, c_int, *const c_void, *mut c_char, usize,
        ) -> *const c_char,
    }

    FidCq ("struct fid_cq") { fid: Fid, ops: *const OpsCq, }
    CqAttr ("struct fi_cq_attr") {
        size: usize,
        flags: u64,
        format: u32,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_cond: u32,
        wait_set: *mut c_void,
    }
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    CqTaggedEntry ("struct fi_cq_tagged_entry") {
        op_context: Context,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
    }
    CqErrEntry ("struct fi_cq_err_entry") {
        op_context: Context,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
        src_addr: FiAddr,
    }
    OpsCq ("struct fi_ops_cq") {
        size: usize,
        read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
        readfrom: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut FiAddr) -> isize,
        readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
        sread: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *const c_void, c_int) -> isize,
        sreadfrom: unsafe extern "C" fn(
            *mut FidCq, *mut c_void, usize, *mut FiAddr, *const c_void, c_int,
        ) -> isize,
        signal: unsafe extern "C" fn(*mut FidCq) -> c_int,
        strerror: unsafe extern "C" fn(
            *mut FidCq, c_int, *const c_void, *mut c_char, usize,
        ) -> *const c_char,
    }

    FidCntr ("struct fid_cntr") { fid: Fid, ops: *const OpsCntr, }
    CntrAttr ("struct fi_cntr_attr") {
        events: u32,
        wait_obj: u32,
        wait_set: *mut c_void,
        flags: u64,
    }
    OpsCntr ("struct fi_ops_cntr") {
        size: usize,
        read: unsafe extern "C" fn(*mut FidCntr) -> u64,
        readerr: unsafe extern "C" fn(*mut FidCntr) -> u64,
        add: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        set: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        wait: unsafe extern "C" fn(*mut FidCntr, u64, c_int) -> c_int,
        adderr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        seterr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    }

    FidEp ("struct fid_ep") {
        fid: Fid,
        ops: *const OpsEp,
        cm: *const OpsCm,
        msg: *const OpsMsg,
        rma: *const OpsRma,
        tagged: *const OpsTagged,
        atomic: *const OpsAtomic,
        collective: *const OpsCollective,
    }
    OpsEp ("struct fi_ops_ep") {
        size: usize,
        cancel: unsafe extern "C" fn(*mut Fid, Context) -> isize,
        getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
        setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
        tx_ctx: Absent,
        rx_ctx: Absent,
        rx_size_left: unsafe extern "C" fn(*mut FidEp) -> isize,
        tx_size_left: unsafe extern "C" fn(*mut FidEp) -> isize,
    }
    OpsCm ("struct fi_ops_cm") {
        size: usize,
        setname: Absent,
        getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
        getpeer: Absent,
        connect: Absent,
        listen: Absent,
        accept: Absent,
        reject: Absent,
        shutdown: Absent,
        join: Absent,
    }
    Msg ("struct fi_msg") {
        msg_iov: *const Iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: FiAddr,
        context: Context,
        data: u64,
    }
    OpsMsg ("struct fi_ops_msg") {
        size: usize,
        recv: unsafe extern "C" fn(
            *mut FidEp, *mut c_void, usize, *mut c_void, FiAddr, Context,
        ) -> isize,
        recvv: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, Context,
        ) -> isize,
        recvmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
        send: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, FiAddr, Context,
        ) -> isize,
        sendv: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, Context,
        ) -> isize,
        sendmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, FiAddr) -> isize,
        senddata: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, u64, FiAddr, Context,
        ) -> isize,
        injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, FiAddr) -> isize,
    }
    MsgTagged ("struct fi_msg_tagged") {
        msg_iov: *const Iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: FiAddr,
        tag: u64,
        ignore: u64,
        context: Context,
        data: u64,
    }
    OpsTagged ("struct fi_ops_tagged") {
        size: usize,
        recv: unsafe extern "C" fn(
            *mut FidEp, *mut c_void, usize, *mut c_void, FiAddr, u64, u64, Context,
        ) -> isize,
        recvv: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, u64, u64, Context,
        ) -> isize,
        recvmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
        send: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, FiAddr, u64, Context,
        ) -> isize,
        sendv: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, u64, Context,
        ) -> isize,
        sendmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, FiAddr, u64) -> isize,
        senddata: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, u64, FiAddr, u64, Context,
        ) -> isize,
        injectdata: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, u64, FiAddr, u64,
        ) -> isize,
    }
    RmaIov ("struct fi_rma_iov") { addr: u64, len: usize, key: u64, }
    MsgRma ("struct fi_msg_rma") {
        msg_iov: *const Iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: FiAddr,
        rma_iov: *const RmaIov,
        rma_iov_count: usize,
        context: Context,
        data: u64,
    }
    OpsRma ("struct fi_ops_rma") {
        size: usize,
        read: unsafe extern "C" fn(
            *mut FidEp, *mut c_void, usize, *mut c_void, FiAddr, u64, u64, Context,
        ) -> isize,
        readv: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, u64, u64, Context,
        ) -> isize,
        readmsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
        write: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, FiAddr, u64, u64, Context,
        ) -> isize,
        writev: unsafe extern "C" fn(
            *mut FidEp, *const Iovec, *mut *mut c_void, usize, FiAddr, u64, u64, Context,
        ) -> isize,
        writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, FiAddr, u64, u64) -> isize,
        writedata: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, u64, FiAddr, u64, u64, Context,
        ) -> isize,
        injectdata: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, u64, FiAddr, u64, u64,
        ) -> isize,
    }
    #[derive(Clone, Copy)]
    Ioc ("struct fi_ioc") { addr: *mut c_void, count: usize, }
    RmaIoc ("struct fi_rma_ioc") { addr: u64, count: usize, key: u64, }
    AtomicAttr ("struct fi_atomic_attr") { count: usize, size: usize, }
    MsgAtomic ("struct fi_msg_atomic") {
        msg_iov: *const Ioc,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: FiAddr,
        rma_iov: *const RmaIoc,
        rma_iov_count: usize,
        datatype: u32,
        op: u32,
        context: Context,
        data: u64,
    }
    OpsAtomic ("struct fi_ops_atomic") {
        size: usize,
        write: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, FiAddr, u64, u64, u32, u32, Context,
        ) -> isize,
        writev: unsafe extern "C" fn(
            *mut FidEp, *const Ioc, *mut *mut c_void, usize, FiAddr, u64, u64, u32, u32, Context,
        ) -> isize,
        writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, u64) -> isize,
        inject: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, FiAddr, u64, u64, u32, u32,
        ) -> isize,
        readwrite: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, FiAddr, u64,
            u64, u32, u32, Context,
        ) -> isize,
        readwritev: unsafe extern "C" fn(
            *mut FidEp, *const Ioc, *mut *mut c_void, usize, *mut Ioc, *mut *mut c_void, usize,
            FiAddr, u64, u64, u32, u32, Context,
        ) -> isize,
        readwritemsg: unsafe extern "C" fn(
            *mut FidEp, *const MsgAtomic, *mut Ioc, *mut *mut c_void, usize, u64,
        ) -> isize,
        compwrite: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, *const c_void, *mut c_void, *mut c_void,
            *mut c_void, FiAddr, u64, u64, u32, u32, Context,
        ) -> isize,
        compwritev: unsafe extern "C" fn(
            *mut FidEp, *const Ioc, *mut *mut c_void, usize, *const Ioc, *mut *mut c_void, usize,
            *mut Ioc, *mut *mut c_void, usize, FiAddr, u64, u64, u32, u32, Context,
        ) -> isize,
        compwritemsg: unsafe extern "C" fn(
            *mut FidEp, *const MsgAtomic, *const Ioc, *mut *mut c_void, usize, *mut Ioc,
            *mut *mut c_void, usize, u64,
        ) -> isize,
        writevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        readwritevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        compwritevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
    }
    OpsCollective ("struct fi_ops_collective") {
        size: usize,
        barrier: Absent,
        broadcast: Absent,
        alltoall: Absent,
        allreduce: Absent,
        allgather: Absent,
        reduce_scatter: Absent,
        reduce: Absent,
        scatter: Absent,
        gather: Absent,
        msg: Absent,
        barrier2: Absent,
    }
}

#[cfg(not(test))]
unsafe extern "C" {
    pub fn fi_log_enabled(provider: *const Provider, level: u32, subsystem: u32) -> c_int;
    pub fn fi_log(
        provider: *const Provider,
        level: u32,
        subsystem: u32,
        function: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
    pub fn fi_param_define(
        provider: *const Provider,
        name: *const c_char,
        kind: u32,
        help: *const c_char,
        ...
    ) -> c_int;
    pub fn fi_param_get(provider: *mut Provider, name: *const c_char, value: *mut c_void) -> c_int;
}
