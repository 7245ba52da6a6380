// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What was made from the driver's header is still what the header says.

#[allow(missing_docs, non_camel_case_types, dead_code)]
#[rustfmt::skip]
#[path = "../src/abi.rs"]
mod abi;

use std::collections::HashMap;
use std::mem::offset_of;
use std::process::Command;
use weft_proto::{cell, cqe, link, protocol::Protocol, stag, wqe};

#[test]
fn the_types_are_those_of_the_header() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/abi.sh");
    let made = Command::new(script).output().expect("sh runs");
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{script} needs bindgen (scripts/in-root has it): {errors}");
    let made = String::from_utf8(made.stdout).expect("text");
    assert!(
        made == include_str!("../src/abi.rs"),
        "src/abi.rs is out of date: scripts/in-root tools/weft/abi.sh >tools/weft/src/abi.rs"
    );
}

/// What programs of version 1 were compiled with holds for ever: constants and offsets are as they were, and
/// structures may only have grown. What is new is not in `uapi-v1`.
#[test]
fn programs_of_version_1_find_what_they_were_compiled_with() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/abi.sh");
    let made = Command::new(script).arg("layout").output().expect("sh runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = String::from_utf8(made.stdout).expect("text");
    let row = |line: &'static str| -> (&str, &str) { line.rsplit_once(' ').expect("a value") };
    let now: HashMap<&str, &str> = made.leak().lines().map(row).collect();
    let mut broken = Vec::new();
    for line in include_str!("uapi-v1").lines().filter(|line| !line.starts_with('#')) {
        let (what, was) = row(line);
        let number = |text: &str| text.parse::<u64>().ok();
        let holds = match now.get(what) {
            Some(is) if what.starts_with("size ") => number(is) >= number(was),
            Some(is) => *is == was,
            None => false,
        };
        if !holds {
            broken.push(format!("{what}: {was}, now {:?}", now.get(what)));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(now.len() > 600, "{} lines: the script finds too little", now.len());
}

/// `proto` imports nothing, not even the header: here they are held against each other.
#[test]
fn the_rings_are_those_of_the_header() {
    assert_eq!(cell::CELL_BYTES, abi::WEFT_CELL_BYTES as usize);
    assert_eq!(cell::CELL_BYTES, size_of::<abi::weft_cell>());
    assert_eq!(cell::INLINE_BYTES, abi::WEFT_CELL_INLINE as usize);
    assert_eq!(cell::CELLS_AT, abi::WEFT_CHAN_CELLS_AT as usize);
    assert_eq!(cell::MIN_CELLS, abi::WEFT_CHAN_MIN_CELLS);
    assert_eq!(cell::MAX_CELLS, abi::WEFT_CHAN_MAX_CELLS);
    assert_eq!(cell::MIN_BULK, abi::WEFT_CHAN_MIN_BULK);
    assert_eq!(cell::MAX_BULK, abi::WEFT_CHAN_MAX_BULK);
    assert_eq!(cell::CREDIT_AT, offset_of!(abi::weft_chan_ctl, credit));
    assert_eq!(cell::RECV_EVENT_AT, offset_of!(abi::weft_chan_ctl, recv_event));
    assert_eq!(cell::SEND_EVENT_AT, offset_of!(abi::weft_chan_ctl, send_event));
    assert_eq!(cell::TAG_AT, offset_of!(abi::weft_cell, tag));
    assert_eq!(cell::DATA_AT, offset_of!(abi::weft_cell, data));
    let shape = cell::Shape::new(16, 4096).expect("allowed");
    for (kind, number) in [
        (cell::Kind::Inline, abi::WEFT_KIND_INLINE),
        (cell::Kind::Bulk, abi::WEFT_KIND_BULK),
        (cell::Kind::Fin, abi::WEFT_KIND_FIN),
        (cell::Kind::Split, abi::WEFT_KIND_SPLIT),
    ] {
        let word = cell::Head { kind, len: 33 }.encode(5, shape);
        let fields = (u64::from(number) << abi::WEFT_HEAD_KIND_SHIFT)
            | (5 << abi::WEFT_HEAD_SEQ_SHIFT)
            | (33 & u64::from(abi::WEFT_HEAD_LEN));
        assert_eq!(word, fields | abi::WEFT_HEAD_PHASE as u64);
    }
}

#[test]
fn the_queues_are_those_of_the_header() {
    assert_eq!(wqe::SEND_BYTES, size_of::<abi::weft_send_wqe>());
    assert_eq!(wqe::RECV_BYTES, size_of::<abi::weft_recv_wqe>());
    assert_eq!(wqe::SGE_BYTES, size_of::<abi::weft_sge>());
    assert_eq!(wqe::ENTRIES_AT, abi::WEFT_QUEUE_ENTRIES_AT as usize);
    assert_eq!(wqe::ENTRIES_AT, size_of::<abi::weft_queue_ctl>());
    assert_eq!(wqe::POSTED_AT, offset_of!(abi::weft_queue_ctl, posted));
    assert_eq!(wqe::TAKEN_AT, offset_of!(abi::weft_queue_ctl, taken));
    for (opcode, number) in [
        (wqe::Opcode::Send, abi::WEFT_OP_SEND),
        (wqe::Opcode::Write, abi::WEFT_OP_WRITE),
        (wqe::Opcode::WriteImm, abi::WEFT_OP_WRITE_IMM),
        (wqe::Opcode::Read, abi::WEFT_OP_READ),
        (wqe::Opcode::ReadAll, abi::WEFT_OP_READ_ALL),
        (wqe::Opcode::FetchAdd, abi::WEFT_OP_FETCH_ADD),
        (wqe::Opcode::CmpSwap, abi::WEFT_OP_CMP_SWAP),
        (wqe::Opcode::BindMw, abi::WEFT_OP_BIND_MW),
        (wqe::Opcode::LocalInv, abi::WEFT_OP_LOCAL_INV),
    ] {
        assert_eq!(wqe::Opcode::of(number as u8), Some(opcode));
    }
    assert_eq!(u32::from(wqe::OP_RECV), abi::WEFT_OP_RECV);
    assert_eq!(u32::from(wqe::OP_RECV_WRITE_IMM), abi::WEFT_OP_RECV_WRITE_IMM);
    assert_eq!((1 << stag::KEY_BITS) - 1, abi::WEFT_STAG_KEY);
    assert_eq!(stag::KEY_BITS, abi::WEFT_STAG_INDEX_SHIFT);
    for (bit, wanted) in [
        (abi::WEFT_PULL_WQE, Protocol { wqe: true, ..Protocol::PUSH }),
        (abi::WEFT_PULL_DATA, Protocol { data: true, ..Protocol::PUSH }),
        (abi::WEFT_PULL_CQE, Protocol { cqe: true, ..Protocol::PUSH }),
    ] {
        assert_eq!(Protocol::of(bit), Some(wanted));
    }
}

#[test]
fn completion_queues_and_links_are_those_of_the_header() {
    assert_eq!(cqe::CQE_BYTES, size_of::<abi::weft_cqe>());
    assert_eq!(cqe::CQE_VALID, offset_of!(abi::weft_cqe, valid) / 8);
    assert_eq!(cqe::ENTRIES_AT, abi::WEFT_CQ_ENTRIES_AT as usize);
    assert_eq!(cqe::ENTRIES_AT, size_of::<abi::weft_cq_ctl>());
    assert_eq!(cqe::CONSUMED_AT, offset_of!(abi::weft_cq_ctl, consumed));
    assert_eq!(cqe::PRODUCED_AT, offset_of!(abi::weft_cq_ctl, produced));
    assert_eq!(cqe::OVERRUN_AT, offset_of!(abi::weft_cq_ctl, overrun));
    assert_eq!(u32::from(cqe::FLAG_IMM), abi::WEFT_WC_FLAG_IMM);
    assert_eq!(u32::from(cqe::FLAG_END), abi::WEFT_WC_FLAG_END);
    for (state, number) in [
        (link::State::Down, abi::WEFT_LINK_DOWN),
        (link::State::Hello, abi::WEFT_LINK_HELLO),
        (link::State::Ready, abi::WEFT_LINK_READY),
    ] {
        assert_eq!(state as u32, number);
    }
}
