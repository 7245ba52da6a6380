// SPDX-License-Identifier: GPL-2.0

//! The ioctls of matching interfaces: they make a file one, and ring it.

use super::{
    call::{check, Call},
    file::Role,
};
use crate::{
    matching::{self, Open, Shape, Wanted},
    proto::matching::TRAFFIC_CLASSES,
    sys::ext::{self, weft_match_kick, weft_match_open},
};
use kernel::prelude::*;

/// `WEFT_MATCH_OPEN`.
pub(super) fn open(call: &Call<'_>, mut open: weft_match_open) -> Result {
    let known = ext::WEFT_MATCH_ANY | ext::WEFT_MATCH_HANDS_OVER;
    check(open.flags & !known == 0)?;
    check((1..=ext::WEFT_MATCH_MAX_ENTRIES).contains(&open.entries))?;
    check((open.traffic_class as usize) < TRAFFIC_CLASSES)?;
    let wanted = Wanted {
        matching: open.flags & ext::WEFT_MATCH_ANY == 0,
        hands_over: open.flags & ext::WEFT_MATCH_HANDS_OVER != 0,
        entries: open.entries,
        class: open.traffic_class as u8,
        shape: Shape {
            commands: open.commands,
            events: open.events,
        },
    };
    let file = call.file;
    file.node.may_begin()?;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let interface = Open::new(&file.matching, &file.payer, &wanted, waiters)?;
        Ok(Role::Matching(KBox::new(interface, GFP_KERNEL_ACCOUNT)?))
    })?;
    file.interface()?.describe(&mut open);
    call.write(&open)
}

/// `WEFT_MATCH_KICK`.
pub(super) fn kick(call: &Call<'_>, kick: weft_match_kick) -> Result {
    let what = match kick.flags {
        0 => matching::Call::Look,
        ext::WEFT_MATCH_POLL => matching::Call::Poll,
        ext::WEFT_MATCH_REST => matching::Call::Rest,
        _ => return Err(EINVAL),
    };
    call.file.interface()?.kick(what);
    Ok(())
}
