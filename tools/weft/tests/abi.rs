// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What was made from the driver's header is still what the header says.

#[allow(missing_docs, non_camel_case_types, dead_code)]
#[rustfmt::skip]
#[path = "../src/abi.rs"]
mod abi;

use std::mem::offset_of;
use std::process::Command;
use weft_proto::cell;

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

/// `proto` knows nobody, not even the header: here they are held against each other.
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
    ] {
        let word = cell::Head { kind, len: 33 }.encode(5, shape);
        let fields = (u64::from(number) << abi::WEFT_HEAD_KIND_SHIFT)
            | (5 << abi::WEFT_HEAD_SEQ_SHIFT)
            | (33 & u64::from(abi::WEFT_HEAD_LEN));
        assert_eq!(word, fields | abi::WEFT_HEAD_PHASE as u64);
    }
}
