// SPDX-License-Identifier: GPL-2.0

//! The files of what a link to a neighbour has carried, and of whether its speed follows that traffic.
//! Links for which the port cannot do that have none.

use super::link;
use crate::{
    device::Device,
    fabric::LinkInfo,
    sys::sysfs::{Attr, Value},
};
use kernel::prelude::*;

/// Indexed by `WEFT_POWER_*`.
static WORDS: [&CStr; 2] = [c"performance", c"auto"];

fn power(data: &Device, n: usize) -> Result<Value> {
    let auto = link(data, n)?.power.ok_or(ENOENT)?.auto;
    let word = WORDS.get(usize::from(auto)).ok_or(ENOENT)?;
    Ok(Value::Text(word))
}

fn set_power(data: &Device, n: usize, word: u64) -> Result {
    data.node.set_power(n, word != 0)
}

/// Returns generation and lanes that this end wants, the highest possible if it has no target.
fn target(link: &LinkInfo) -> Result<(u32, u32)> {
    let target = link.power.ok_or(ENOENT)?.target;
    let most = (link.status.max_speed, link.status.max_width);
    Ok(target.map_or(most, |target| (target.speed.into(), target.width.into())))
}

/// Returns the bytes that the link has carried, out and in.
fn carried(data: &Device, n: usize) -> Result<[u64; 2]> {
    data.node
        .port()?
        .rates()
        .and_then(|rates| rates.traffic(n))
        .ok_or(ENOENT)
}

pub(super) const fn attrs(n: usize) -> [Attr<Device>; 5] {
    let [speed, width] = files!(n, link = link {
        c"target_speed" => target(&link)?.0,
        c"target_width" => target(&link)?.1,
    });
    let [out, into] = files!(n, carried = carried {
        c"bytes_out" => carried[0],
        c"bytes_in" => carried[1],
    });
    let power = Attr::choice(c"power", power, set_power, &WORDS, n);
    [power, speed, width, out, into]
}
