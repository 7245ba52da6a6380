// SPDX-License-Identifier: GPL-2.0

//! The directories of the virtual functions that a port can have, `vf0` to `vf15`: the state of each,
//! and its quota, which users with `CAP_SYS_ADMIN` can change.

use crate::{
    device::Device,
    hw::{Vf, VfQuota, VfState},
    sys::{
        errno::EOPNOTSUPP,
        sysfs::{Attr, List, Value},
    },
};
use kernel::prelude::*;

pub(super) const NAMES: [&CStr; 16] = [
    c"vf0", c"vf1", c"vf2", c"vf3", c"vf4", c"vf5", c"vf6", c"vf7", c"vf8", c"vf9", c"vf10",
    c"vf11", c"vf12", c"vf13", c"vf14", c"vf15",
];

/// Returns virtual function `n`. `ENOENT`: the port does not have it.
fn vf(data: &Device, n: usize) -> Result<Vf> {
    data.node.port()?.vfs().ok_or(ENOENT)?.get(n)
}

fn change(data: &Device, n: usize, change: &dyn Fn(&mut VfQuota)) -> Result {
    data.node.port()?.vfs().ok_or(ENOENT)?.change(n, change)
}

fn state(state: VfState) -> &'static CStr {
    match state {
        VfState::Off => c"off",
        VfState::Idle => c"idle",
        VfState::Driven => c"driven",
        VfState::Used => c"used",
    }
}

/// Shows and sets a member of the quota.
macro_rules! quota {
    ($name:ident, $show:expr) => {
        mod $name {
            use super::*;

            pub(super) fn show(data: &Device, n: usize) -> Result<Value> {
                Ok($show(vf(data, n)?.quota.$name.into()))
            }

            pub(super) fn store(data: &Device, n: usize, value: u64) -> Result {
                let value = value.try_into().map_err(|_| ERANGE)?;
                change(data, n, &|quota| quota.$name = value)
            }
        }
    };
}

quota!(slots, Value::Decimal);
quota!(apertures, Value::Decimal);
quota!(doorbells, Value::Decimal);
quota!(pages, Value::Decimal);
quota!(bytes, Value::Decimal);
quota!(links, Value::Hex64);
quota!(channels, Value::Decimal);
quota!(peers, Value::Hex64);
quota!(rate, Value::Decimal);
quota!(rings, Value::Decimal);

/// Returns the bytes that it has moved by DMA, and the doorbells that it has rung. `EOPNOTSUPP`: the
/// hardware does not say.
fn done(vf: &Vf) -> Result<(u64, u64)> {
    vf.done.ok_or(EOPNOTSUPP.into())
}

const FILES: usize = 17;

const fn attrs(n: usize) -> [Attr<Device>; FILES] {
    files!(n, vf = vf {
        c"state" => state(vf.state),
        c"used_slots" => vf.slots,
        c"used_apertures" => vf.apertures,
        c"used_bytes" => vf.bytes,
        c"moved_bytes" => done(&vf)?.0,
        c"rung" => done(&vf)?.1,
        // It migrates, and is shown while no driver is bound, too.
        c"hwid" => Value::Hex64(vf.hwid),
    }
        Attr::writable(c"slots", slots::show, slots::store, n),
        Attr::writable(c"apertures", apertures::show, apertures::store, n),
        Attr::writable(c"doorbells", doorbells::show, doorbells::store, n),
        Attr::writable(c"pages", pages::show, pages::store, n),
        Attr::writable(c"bytes", bytes::show, bytes::store, n),
        Attr::writable(c"links", links::show, links::store, n),
        Attr::writable(c"channels", channels::show, channels::store, n),
        Attr::writable(c"peers", peers::show, peers::store, n),
        Attr::writable(c"rate", rate::show, rate::store, n),
        Attr::writable(c"rings", rings::show, rings::store, n))
}

static FILES_OF: [[Attr<Device>; FILES]; NAMES.len()] = each!(NAMES.len(), n => attrs(n));

pub(super) static LISTS: [List<Device, { FILES + 1 }>; NAMES.len()] =
    each!(NAMES.len(), n => List::new(&FILES_OF[n]));
