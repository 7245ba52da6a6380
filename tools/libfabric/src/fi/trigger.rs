// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What operations that wait for a counter have, and deferred work (`rdma/fi_trigger.h`); and aliases of endpoints.

use super::*;

numbers! {
    FI_ALIAS: c_int = 4;
    FI_QUEUE_WORK: c_int = 11;
    FI_CANCEL_WORK: c_int = 12;
    FI_FLUSH_WORK: c_int = 13;

    FI_TRIGGER_THRESHOLD: u32 = 0;
    FI_OP_RECV: u32 = 0;
    FI_OP_SEND: u32 = 1;
    FI_OP_TRECV: u32 = 2;
    FI_OP_TSEND: u32 = 3;
    FI_OP_READ: u32 = 4;
    FI_OP_WRITE: u32 = 5;
    FI_OP_ATOMIC: u32 = 6;
    FI_OP_FETCH_ATOMIC: u32 = 7;
    FI_OP_COMPARE_ATOMIC: u32 = 8;
    FI_OP_CNTR_SET: u32 = 9;
    FI_OP_CNTR_ADD: u32 = 10;
}

structures! {
    Alias ("struct fi_alias") { fid: Out<Fid>, flags: u64, }
    /// As it is for [`FI_TRIGGER_THRESHOLD`].
    TriggeredContext ("struct fi_triggered_context") {
        event_type: u32,
        cntr ("trigger.threshold.cntr"): *mut FidCntr,
        threshold ("trigger.threshold.threshold"): usize,
        spare ("trigger.internal[2]"): *mut c_void,
    }
    DeferredWork ("struct fi_deferred_work") {
        context: [*mut c_void; 8],
        threshold: u64,
        triggering_cntr: *mut FidCntr,
        completion_cntr: *mut FidCntr,
        op_type: u32,
        op: *mut c_void,
    }
    OpMsg ("struct fi_op_msg") { ep: *mut FidEp, msg: Msg, flags: u64, }
    OpTagged ("struct fi_op_tagged") { ep: *mut FidEp, msg: MsgTagged, flags: u64, }
    OpRma ("struct fi_op_rma") { ep: *mut FidEp, msg: MsgRma, flags: u64, }
    OpAtomic ("struct fi_op_atomic") { ep: *mut FidEp, msg: MsgAtomic, flags: u64, }
    MsgFetch ("struct fi_msg_fetch") {
        msg_iov: *mut Ioc,
        desc: *mut *mut c_void,
        iov_count: usize,
    }
    MsgCompare ("struct fi_msg_compare") {
        msg_iov: *const Ioc,
        desc: *mut *mut c_void,
        iov_count: usize,
    }
    OpFetchAtomic ("struct fi_op_fetch_atomic") {
        ep: *mut FidEp,
        msg: MsgAtomic,
        fetch: MsgFetch,
        flags: u64,
    }
    OpCompareAtomic ("struct fi_op_compare_atomic") {
        ep: *mut FidEp,
        msg: MsgAtomic,
        fetch: MsgFetch,
        compare: MsgCompare,
        flags: u64,
    }
    OpCntr ("struct fi_op_cntr") { cntr: *mut FidCntr, value: u64, }
}
