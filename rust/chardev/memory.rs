// SPDX-License-Identifier: GPL-2.0

//! The ioctls that make protection domains and give memory out.

use super::{
    ioctl::{check, Call},
    objects::Object,
};
use crate::{
    mem::{self, Pd},
    sys::ext::{weft_limits, weft_pd_alloc},
};
use kernel::prelude::*;

/// `WEFT_LIMITS`.
pub(super) fn limits(call: &Call<'_>) -> Result {
    let (user, mut limits) = call.read::<weft_limits>()?;
    check(limits.flags == 0)?;
    limits = weft_limits {
        size: limits.size,
        pds: mem::MAX_PDS,
        ..Default::default()
    };
    user.write(&limits)
}

/// `WEFT_PD_ALLOC`.
pub(super) fn pd_alloc(call: &Call<'_>) -> Result {
    let (user, mut alloc) = call.read::<weft_pd_alloc>()?;
    check(alloc.flags == 0 && alloc.reserved == 0)?;
    let objects = call.file.objects_to_be()?;
    let room = objects.room()?;
    let pd = Pd::new(&call.file.memory)?;
    alloc.pd = objects.add(room, Object::Pd(pd));
    user.write(&alloc).inspect_err(|_| objects.undo(alloc.pd))
}
