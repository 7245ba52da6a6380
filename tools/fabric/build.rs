// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Makes the Rust view of the two headers that QEMU is compiled with, and of that
//! of shared endpoints, so that there is no second copy to go stale.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// All in one translation unit, as the device has them.
const HEADERS: [&str; 3] = ["weft_regs.h", "weft_fabric.h", "weft_endpoint.h"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let headers = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../qemu/weft");
    let out = env::var("OUT_DIR")?;
    let wrapper = Path::new(&out).join("wrapper.h");
    let bindgen = env::var("BINDGEN").unwrap_or_else(|_| "bindgen".into());

    println!("cargo::rerun-if-env-changed=BINDGEN");
    for header in HEADERS {
        println!("cargo::rerun-if-changed={}", headers.join(header).display());
    }
    fs::write(&wrapper, HEADERS.map(|header| format!("#include \"{header}\"\n")).concat())?;
    let status = Command::new(&bindgen)
        .arg(&wrapper)
        .args(["--allowlist-item", "(WEFT|weft_fab)_.*"])
        .args(["--no-prepend-enum-name", "--no-doc-comments", "--use-core"])
        .arg("--output")
        .arg(Path::new(&out).join("abi.rs"))
        .arg("--")
        .arg("-I")
        .arg(&headers)
        .status()
        .map_err(|e| format!("cannot run {bindgen}: {e}; install bindgen or name it in BINDGEN"))?;
    if !status.success() {
        return Err(format!("{bindgen} failed on {}: {status}", wrapper.display()).into());
    }
    Ok(())
}
