// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a port that is stopped still waits for. `qp_sim` stops ports at any time, and starts them again.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod qp;
mod trunk;

use qp::user::{Op, Wr};
use qp::world::{Do, World};
use weft_proto::cqe::Status;
use weft_proto::protocol::Protocol;
use weft_proto::qp::Flow;
use weft_proto::trunk::Layout;

const WRITE: Op = Op::Write { imm: false };

/// How many requests of the first end have no completion: in all, and of those that a stopped port waits for.
fn outstanding(world: &World) -> (u32, u32) {
    let qp = &world.ends[0].qps[0];
    let count = |posted| qp.machine.outstanding(&qp.user, posted);
    (count(true), count(false))
}

#[test]
fn mig_2_what_finds_no_receive_request_keeps_no_port_from_being_stopped() {
    let layout = Layout::of_arena(4 << 20).expect("large enough");
    let mut world = World::new([layout; 2], &[Protocol::PUSH], false);
    world.finish();
    for op in [WRITE, Op::Send, WRITE] {
        world.run((
            0,
            0,
            Do::Post(Wr {
                op,
                len: 64,
                bad: false,
            }),
        ));
    }
    assert_eq!(outstanding(&world), (3, 0));
    world.settle();
    assert_eq!(world.ends[0].qps[0].user.sent.len(), 1);
    assert_eq!(
        outstanding(&world),
        (2, 0),
        "the SEND, and what is behind it"
    );

    // A receive request that comes meanwhile makes no difference.
    world.run((0, 0, Do::Flow(Flow::Paused)));
    world.run((1, 0, Do::Recv(1)));
    let before = world.ends[0].link.sent;
    world.settle();
    assert_eq!(world.ends[0].link.sent, before, "sent again");
    assert_eq!(outstanding(&world), (2, 0));

    world.finish();
    world.check();
    let statuses: Vec<Status> = world.ends[0].qps[0]
        .user
        .sent
        .iter()
        .map(|cqe| cqe.status)
        .collect();
    assert_eq!(statuses, [Status::Success; 3]);
}
