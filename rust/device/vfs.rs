// SPDX-License-Identifier: GPL-2.0

//! How many virtual functions a physical one gets: as many as there are addresses and interrupt vectors for.
//!
//! The kernel assigns addresses to the BARs of all that there can be, or to none. How many vectors are left it does not
//! tell: so VFs are enabled, and taken away again if some have got none. This file must not know what VFs do.

use crate::{
    hw::weft_port,
    sys::{
        ext,
        pci::{self as sys_pci, vf_bar},
        virtfn::{Bound, VirtFn},
    },
};
use kernel::{device::Core, pci, prelude::*};

/// The BARs of a VF.
const BARS: [u32; 3] = [ext::WEFT_BAR_CTRL, ext::WEFT_BAR_WINDOW, ext::WEFT_BAR_MSIX];

/// Enables `count` VFs of `dev`, or none. `ENOSPC`: there are no addresses for them, or too few interrupt vectors,
/// which is logged; and errors of the kernel.
pub(super) fn enable(dev: &pci::Device<Core<'_>>, count: u32) -> Result {
    check_addresses(dev)?;
    let before = weft_port::without_vectors();
    sys_pci::enable_vfs(dev, count).inspect_err(|e| {
        dev_err!(
            dev,
            "the kernel does not enable {} VFs: {}\n",
            count,
            e.to_errno()
        );
    })?;
    if weft_port::without_vectors() == before {
        return Ok(());
    }
    let is_bound = |n: &u32| {
        VirtFn::find(dev.as_ref(), *n as usize).is_some_and(|vf| vf.bound() != Bound::None)
    };
    let carried = (0..count).filter(is_bound).count();
    sys_pci::disable_vfs(dev);
    dev_err!(
        dev,
        "{} VFs are too many: the processors have interrupt vectors for {} of them, up to {} each; write {} or less to \
         sriov_numvfs, give this machine more processors, or unbind devices that have many vectors\n",
        count,
        carried,
        weft_port::VF_VECTORS,
        carried
    );
    Err(ENOSPC)
}

/// Checks that the BARs of VFs have addresses. `ENOSPC`: one has none, which is logged.
fn check_addresses(dev: &pci::Device<Core<'_>>) -> Result {
    let bars = BARS.map(|bar| vf_bar(dev, bar));
    if bars
        .iter()
        .all(|bar| bar.is_some_and(|bar| bar.is_assigned))
    {
        return Ok(());
    }
    let all = bars.iter().flatten();
    let bytes: u64 = all.map(|bar| bar.bytes * u64::from(bar.count)).sum();
    dev_err!(
        dev,
        "VFs have no addresses: the bridge above has no {} KiB left for the BARs of all VFs that there can be, however \
         few are wanted; give it a larger window (kernel parameters pci=realloc, pci=hpmmioprefsize=, firmware) or \
         plug the device in elsewhere\n",
        bytes >> 10
    );
    Err(ENOSPC)
}
