// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operations of endpoints that there are not: the driver has puts alone.

use crate::base::absent;
use crate::fi::*;

pub static RMA: OpsRma = OpsRma {
    size: size_of::<OpsRma>(),
    read: absent,
    readv: absent,
    readmsg: absent,
    write: absent,
    writev: absent,
    writemsg: absent,
    inject: absent,
    writedata: absent,
    injectdata: absent,
};
pub static ATOMIC: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write: absent,
    writev: absent,
    writemsg: absent,
    inject: absent,
    readwrite: absent,
    readwritev: absent,
    readwritemsg: absent,
    compwrite: absent,
    compwritev: absent,
    compwritemsg: absent,
    writevalid: absent,
    readwritevalid: absent,
    compwritevalid: absent,
};
pub static COLLECTIVE: OpsCollective = OpsCollective {
    size: size_of::<OpsCollective>(),
    barrier: absent,
    broadcast: absent,
    alltoall: absent,
    allreduce: absent,
    allgather: absent,
    reduce_scatter: absent,
    reduce: absent,
    scatter: absent,
    gather: absent,
    msg: absent,
    barrier2: absent,
};
