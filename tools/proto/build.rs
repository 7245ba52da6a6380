// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Leaves out one fence if `WEFT_WITHOUT_FENCE` names it: `rust/proto/fence.rs` says what for.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(weft_without_fence, values(any()))");
    println!("cargo::rustc-check-cfg=cfg(MODULE)");
    println!("cargo::rerun-if-env-changed=WEFT_WITHOUT_FENCE");
    if let Ok(name) = std::env::var("WEFT_WITHOUT_FENCE") {
        println!("cargo::rustc-cfg=weft_without_fence=\"{name}\"");
    }
}
