// SPDX-License-Identifier: GPL-2.0

//! The ioctl `WEFT_VF_MIGRATE`: the arguments are checked here; `vf` migrates.

use super::{
    call::{as_admin, check, Call},
    file::PortFile,
};
use crate::{
    sys::{
        chrdev::Borrowed,
        ext::{self, weft_vf_migrate},
    },
    vf::{self, FarOptions, Options, Report},
};
use kernel::prelude::*;

const DEFAULT_MS: u32 = 10_000;
const MAX_MS: u32 = 600_000;

/// The ioctl.
pub(super) fn migrate(call: &Call<'_>, migrate: weft_vf_migrate) -> Result {
    let known = ext::WEFT_MIGRATE_DRY_RUN
        | ext::WEFT_MIGRATE_STOP
        | ext::WEFT_MIGRATE_LIVE
        | ext::WEFT_MIGRATE_FAR
        | ext::WEFT_MIGRATE_RECEIVE;
    let live = migrate.flags & ext::WEFT_MIGRATE_LIVE != 0;
    let stops = migrate.flags & ext::WEFT_MIGRATE_STOP != 0;
    check(migrate.flags & !known == 0 && migrate.reserved == 0)?;
    // A live migration does not stop the users.
    check(migrate.timeout_ms <= MAX_MS && !(live && stops))?;
    // What another host's function takes part in is another kind of call.
    let far = migrate.flags & ext::WEFT_MIGRATE_FAR != 0;
    let receives = migrate.flags == ext::WEFT_MIGRATE_RECEIVE;
    check(receives || migrate.flags & ext::WEFT_MIGRATE_RECEIVE == 0)?;
    check(!far && !receives || !live && migrate.target_fd == -1 && migrate.target_vf == 0)?;
    as_admin()?;
    let grace_ms = match migrate.timeout_ms {
        0 => DEFAULT_MS,
        ms => ms,
    };
    let dry = migrate.flags & ext::WEFT_MIGRATE_DRY_RUN != 0;
    let vf = migrate.vf as usize;
    if receives {
        let report = vf::receive(&call.file.node, vf, migrate.hwid, grace_ms)?;
        return answer(call, migrate, &report);
    }
    if far {
        let options = FarOptions {
            vf,
            target: migrate.hwid,
            stops,
            grace_ms,
            dry,
        };
        let report = vf::migrate_far(&call.file.node, &options)?;
        return answer(call, migrate, &report);
    }
    let target = Borrowed::get(migrate.target_fd)?;
    let file = target.file().as_any().downcast_ref::<PortFile>();
    let options = Options {
        vf,
        target_vf: migrate.target_vf as usize,
        stops,
        live,
        grace_ms,
        dry,
    };
    let report = vf::migrate(&call.file.node, &file.ok_or(EINVAL)?.node, &options)?;
    answer(call, migrate, &report)
}

/// Tells the caller what became of it.
fn answer(call: &Call<'_>, mut migrate: weft_vf_migrate, report: &Report) -> Result {
    migrate.outcome = report.outcome.map_or(0, |outcome| outcome as u32);
    migrate.obstacles = report.obstacles;
    (migrate.step, migrate.event) = match report.why {
        Some((step, event)) => (step as u32, event as u32),
        None => (0, 0),
    };
    migrate.outstanding = report.outstanding;
    migrate.hwid = report.hwid;
    call.write(&migrate)
}
