// SPDX-License-Identifier: GPL-2.0

//! The table of ioctls: number, structure and handler of each.

use super::{
    assignments, call::Call, channel, endpoint, fabric, file::PortFile, matching, memory, migrate,
    port, qp, queues, slots, socket,
};
use crate::{
    fabric::Inside,
    sys::{ext, user::UserStruct},
};
use kernel::prelude::*;

/// An ioctl.
struct Row {
    number: u32,
    /// Copies the structure from an address, enters, and calls the handler.
    run: fn(&PortFile, usize, bool) -> Result,
}

/// Enters a call; waits while the function changes its identity. `ENODEV`: the port is gone.
fn enter(file: &PortFile, outlives: bool) -> Result<Inside<'_>> {
    let inside = file.node.call()?;
    if file.node.is_closed() && !(outlives && file.function().is_ok()) {
        return Err(ENODEV);
    }
    Ok(inside)
}

/// Makes the rows: number, structure, bytes of its first version, handler. One that `outlives` the port
/// works without: the user of a function gets the results of its work, and frees what it has.
macro_rules! rows {
    ($($number:ident: $name:ident $min:literal $module:ident :: $handler:ident $($outlives:ident)?;)*) => {
        &[$(Row {
            number: ext::$number,
            run: {
                fn run(file: &PortFile, arg: usize, nonblock: bool) -> Result {
                    const { assert!($min <= size_of::<ext::$name>()) };
                    let (user, value) = UserStruct::read::<ext::$name>(arg, $min)?;
                    let inside = &enter(file, rows!(@outlives $($outlives)?))?;
                    let call = Call { file, inside, user, nonblock };
                    $module::$handler(&call, value)
                }
                run
            },
        },)*]
    };
    (@outlives) => { false };
    (@outlives outlives) => { true };
}

const ROWS: &[Row] = rows! {
    WEFT_PORT_INFO: weft_port_info 40 port::info;
    WEFT_LINK_INFO: weft_link_info 64 port::link_info;
    WEFT_CHAN_LISTEN: weft_chan_listen 16 channel::listen;
    WEFT_CHAN_CONNECT: weft_chan_connect 40 channel::connect;
    WEFT_CHAN_ACCEPT: weft_chan_accept 16 channel::accept;
    WEFT_CHAN_INFO: weft_chan_info 96 channel::info;
    WEFT_CHAN_KICK: weft_chan_kick 8 channel::kick;
    WEFT_LIMITS: weft_limits 56 memory::limits;
    WEFT_PD_ALLOC: weft_pd_alloc 16 memory::pd_alloc;
    WEFT_MR_REG: weft_mr_reg 56 memory::mr_reg;
    WEFT_MW_ALLOC: weft_mw_alloc 24 memory::mw_alloc;
    WEFT_CQ_CREATE: weft_cq_create 40 queues::cq_create;
    WEFT_SRQ_CREATE: weft_srq_create 48 queues::srq_create;
    WEFT_DESTROY: weft_destroy 16 memory::destroy;
    WEFT_CQ_ARM: weft_cq_arm 24 queues::cq_arm;
    WEFT_CQ_WAIT: weft_cq_wait 32 queues::cq_wait;
    WEFT_QP_CREATE: weft_qp_create 112 qp::create;
    WEFT_QP_MODIFY: weft_qp_modify 40 qp::modify;
    WEFT_QP_QUERY: weft_qp_query 64 qp::query;
    WEFT_KICK: weft_kick 16 qp::kick;
    WEFT_VF_MIGRATE: weft_vf_migrate 56 migrate::migrate;
    WEFT_FABRIC_NODES: weft_fabric_nodes 336 fabric::nodes;
    WEFT_FABRIC_ROUTES: weft_fabric_routes 280 fabric::routes;
    WEFT_FABRIC_ASSIGNMENTS: weft_fabric_assignments 32 assignments::assignments;
    WEFT_FABRIC_ASSIGNMENT: weft_fabric_assignment 48 assignments::assignment;
    WEFT_FABRIC_COMPONENT: weft_fabric_component 160 assignments::component;
    WEFT_FABRIC_VH: weft_fabric_vh 88 fabric::vh;
    WEFT_FABRIC_SLOT: weft_fabric_slot 40 slots::slot;
    WEFT_FABRIC_ANNOUNCE: weft_fabric_announce 24 slots::announce;
    WEFT_SOCK_LISTEN: weft_sock_listen 16 socket::listen;
    WEFT_SOCK_CONNECT: weft_sock_connect 40 socket::connect;
    WEFT_SOCK_ACCEPT: weft_sock_accept 16 socket::accept;
    WEFT_SOCK_INFO: weft_sock_info 72 socket::info;
    WEFT_SOCK_SHUTDOWN: weft_sock_shutdown 16 socket::shutdown;
    WEFT_MATCH_OPEN: weft_match_open 72 matching::open;
    WEFT_MATCH_KICK: weft_match_kick 8 matching::kick;
    WEFT_EP_OPEN: weft_ep_open 32 endpoint::open;
    WEFT_EP_QUERY: weft_ep_query 48 endpoint::query outlives;
    WEFT_EP_AREA: weft_ep_area 32 endpoint::area;
    WEFT_EP_FREE: weft_ep_free 16 endpoint::free outlives;
    WEFT_EP_SUBMIT: weft_ep_submit 24 endpoint::submit;
    WEFT_EP_REAP: weft_ep_reap 24 endpoint::reap outlives;
};

/// The size of the range of numbers.
const NUMBERS: usize = 64;

/// Returns the index of a number in the table.
const fn place(number: u32) -> usize {
    (number & 0xff).wrapping_sub(ext::WEFT_IOC_BASE) as usize
}

/// The rows by the index of their number; a number that occurs twice does not compile.
const TABLE: [Option<&Row>; NUMBERS] = {
    let mut table = [const { None }; NUMBERS];
    let mut n = 0;
    while n < ROWS.len() {
        let at = place(ROWS[n].number);
        assert!(table[at].is_none());
        table[at] = Some(&ROWS[n]);
        n += 1;
    }
    table
};

/// Calls the handler of `cmd`. `ENOTTY`: there is none; other errors are those of [`enter`].
pub(super) fn dispatch(file: &PortFile, cmd: u32, arg: usize, nonblock: bool) -> Result {
    let row = TABLE.get(place(cmd)).copied().flatten();
    let row = row.filter(|row| row.number == cmd).ok_or(ENOTTY)?;
    (row.run)(file, arg, nonblock)
}
