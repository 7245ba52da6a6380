// SPDX-License-Identifier: GPL-2.0

//! The ioctls: a function each, found by number in a table.

use super::{
    endpoint, fabric,
    file::{PortFile, Role},
    memory, migrate, objects, qp, queues, wishes,
};
use crate::{
    proto::cell::Shape,
    queue::Wanted,
    sys::{
        ext::{
            self, weft_chan_accept, weft_chan_connect, weft_chan_info, weft_chan_kick,
            weft_chan_listen, weft_link_info, weft_port_info,
        },
        file::Borrowed,
        user::{Extensible, UserStruct},
    },
};
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc, time::Msecs};

const MAX_BACKLOG: u32 = 64;
const DEFAULT_TIMEOUT_MS: Msecs = 5000;
const MAX_TIMEOUT_MS: Msecs = 60_000;

/// One call of an ioctl.
pub(super) struct Call<'a> {
    pub(super) file: &'a PortFile,
    arg: usize,
    pub(super) nonblock: bool,
}

impl Call<'_> {
    /// Copies the structure of the call.
    pub(super) fn read<T: Extensible>(&self) -> Result<(UserStruct, T)> {
        UserStruct::read(self.arg)
    }
}

/// `EINVAL` unless `fits`.
pub(super) fn check(fits: bool) -> Result {
    if fits {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

fn port_info(call: &Call<'_>) -> Result {
    let (user, mut info) = call.read::<weft_port_info>()?;
    check(info.flags == 0)?;
    let node = &call.file.node;
    let port = node.port()?;
    let id = port.identity();
    info = weft_port_info {
        size: info.size,
        kind: id.kind,
        generation: id.generation,
        hwid: id.hwid,
        lid: port.router().map_or(0, |router| router.lid()),
        links: node.link_numbers(None)?.last().map_or(0, |n| n + 1) as u32,
        protection: id.protection,
        ..Default::default()
    };
    drop(port);
    user.write(&info)
}

fn link_info(call: &Call<'_>) -> Result {
    let (user, mut info) = call.read::<weft_link_info>()?;
    check(info.flags == 0)?;
    let link = call.file.node.link_info(info.link as usize)?;
    let (peer_hwid, peer_generation) = link.peer.unwrap_or_default();
    let taken = link.usage.pages.saturating_mul(PAGE_SIZE as u64);
    info = weft_link_info {
        size: info.size,
        link: info.link,
        state: match link.is_to_switch() {
            true => ext::WEFT_LINK_TO_SWITCH,
            false => link.state as u32,
        },
        speed: link.status.speed,
        width: link.status.width,
        role: link.status.endpoint.into(),
        trained: link.status.trained,
        peer_hwid,
        peer_generation,
        channels: link.usage.open as u32,
        arena_bytes: link.arena_bytes,
        arena_free: link.arena_bytes.saturating_sub(taken),
        lid: link.aim.map_or(0, |aim| aim.lid),
        hops: link.aim.map_or(0, |aim| aim.hops),
        max_speed: link.status.max_speed,
        max_width: link.status.max_width,
        power: match link.power {
            Some(power) if power.auto => ext::WEFT_POWER_AUTO,
            _ => ext::WEFT_POWER_PERFORMANCE,
        },
        ..Default::default()
    };
    user.write(&info)
}

fn chan_listen(call: &Call<'_>) -> Result {
    let (_, listen) = call.read::<weft_chan_listen>()?;
    check(listen.flags == 0)?;
    check(listen.service != 0 && (1..=MAX_BACKLOG).contains(&listen.backlog))?;
    let file = call.file;
    file.node.may_begin()?;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let backlog = listen.backlog as usize;
        let listener = file.channels.listen(listen.service, backlog, waiters)?;
        Ok(Role::Listening(listener))
    })
}

fn chan_connect(call: &Call<'_>) -> Result {
    let (_, connect) = call.read::<weft_chan_connect>()?;
    check(connect.flags == 0 && connect.reserved == 0)?;
    check(connect.service != 0 && connect.timeout_ms <= MAX_TIMEOUT_MS)?;
    call.file.node.may_begin()?;
    let wanted = Wanted {
        peer: connect.peer,
        link: match connect.link {
            ext::WEFT_ANY_LINK => None,
            link => Some(link as usize),
        },
        service: connect.service,
        shape: Shape::new(connect.cells, connect.bulk).ok_or(EINVAL)?,
        timeout: match connect.timeout_ms {
            0 => DEFAULT_TIMEOUT_MS,
            ms => ms,
        },
    };
    let file = call.file;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let channel = file.channels.connect(&file.node, &wanted, waiters)?;
        Ok(Role::Channel(channel))
    })
}

fn chan_accept(call: &Call<'_>) -> Result {
    let (_, accept) = call.read::<weft_chan_accept>()?;
    check(accept.flags == 0 && accept.reserved == 0)?;
    call.file.node.may_begin()?;
    let listening = Borrowed::get(accept.listen_fd)?;
    let other = listening.file().as_any().downcast_ref::<PortFile>();
    let file = call.file;
    let listener = match other.map(|other| (other.role(), &other.node)) {
        Some((Some(Role::Listening(listener)), node)) if Arc::ptr_eq(node, &file.node) => listener,
        _ => return Err(EINVAL),
    };
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let channel = file
            .channels
            .accept(&file.node, listener, waiters, call.nonblock)?;
        Ok(Role::Channel(channel))
    })
}

fn chan_info(call: &Call<'_>) -> Result {
    let (user, mut info) = call.read::<weft_chan_info>()?;
    check(info.flags == 0)?;
    let size = info.size;
    info = call.file.channel()?.info();
    info.size = size;
    user.write(&info)
}

fn chan_kick(call: &Call<'_>) -> Result {
    let (_, kick) = call.read::<weft_chan_kick>()?;
    check(kick.flags == 0)?;
    call.file.channel()?.kick(&call.file.node)
}

/// An ioctl and its number.
type Entry = (u32, fn(&Call<'_>) -> Result);

const TABLE: &[Entry] = &[
    (ext::WEFT_PORT_INFO, port_info),
    (ext::WEFT_LINK_INFO, link_info),
    (ext::WEFT_CHAN_LISTEN, chan_listen),
    (ext::WEFT_CHAN_CONNECT, chan_connect),
    (ext::WEFT_CHAN_ACCEPT, chan_accept),
    (ext::WEFT_CHAN_INFO, chan_info),
    (ext::WEFT_CHAN_KICK, chan_kick),
    (ext::WEFT_LIMITS, memory::limits),
    (ext::WEFT_PD_ALLOC, memory::pd_alloc),
    (ext::WEFT_MR_REG, memory::mr_reg),
    (ext::WEFT_MW_ALLOC, memory::mw_alloc),
    (ext::WEFT_CQ_CREATE, queues::cq_create),
    (ext::WEFT_SRQ_CREATE, queues::srq_create),
    (ext::WEFT_DESTROY, objects::destroy),
    (ext::WEFT_CQ_ARM, queues::cq_arm),
    (ext::WEFT_QP_CREATE, qp::create),
    (ext::WEFT_QP_MODIFY, qp::modify),
    (ext::WEFT_QP_QUERY, qp::query),
    (ext::WEFT_KICK, qp::kick),
    (ext::WEFT_VF_MIGRATE, migrate::migrate),
    (ext::WEFT_FABRIC_NODES, fabric::nodes),
    (ext::WEFT_FABRIC_ROUTES, fabric::routes),
    (ext::WEFT_FABRIC_WISHES, wishes::wishes),
    (ext::WEFT_FABRIC_WISH, wishes::wish),
    (ext::WEFT_FABRIC_COMPONENT, wishes::component),
    (ext::WEFT_FABRIC_VH, fabric::vh),
    (ext::WEFT_EP_OPEN, endpoint::open),
    (ext::WEFT_EP_QUERY, endpoint::query),
    (ext::WEFT_EP_AREA, endpoint::area),
    (ext::WEFT_EP_FREE, endpoint::free),
    (ext::WEFT_EP_SUBMIT, endpoint::submit),
    (ext::WEFT_EP_REAP, endpoint::reap),
];

/// Those by which the user of a function hears what became of its work, and lets go of what it has: also
/// when there is no port any more, for that is one of the things it is told.
const OUTLIVE: &[u32] = &[ext::WEFT_EP_QUERY, ext::WEFT_EP_FREE, ext::WEFT_EP_REAP];

/// Calls what `cmd` names.
pub(super) fn dispatch(file: &PortFile, cmd: u32, arg: usize, nonblock: bool) -> Result {
    let (_, f) = TABLE
        .iter()
        .find(|(number, _)| *number == cmd)
        .ok_or(ENOTTY)?;
    let _call = file.node.call()?;
    let outlives = OUTLIVE.contains(&cmd) && file.function().is_ok();
    if file.node.is_closed() && !outlives {
        return Err(ENODEV);
    }
    f(&Call {
        file,
        arg,
        nonblock,
    })
}
