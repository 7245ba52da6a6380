// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operations of endpoints that there are not: what all members of a group do together.

use crate::base::absent;
use crate::fi::*;

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
