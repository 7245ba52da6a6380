// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Makes the Rust view of the registers from the header that QEMU is compiled with.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let header = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../qemu/weft/weft_regs.h");
    let bindgen = env::var("BINDGEN").unwrap_or_else(|_| "bindgen".into());

    println!("cargo::rerun-if-env-changed=BINDGEN");
    println!("cargo::rerun-if-changed={}", header.display());
    let status = Command::new(&bindgen)
        .arg(&header)
        .args(["--allowlist-var", "WEFT_.*", "--no-doc-comments", "--use-core"])
        .arg("--output")
        .arg(Path::new(&env::var("OUT_DIR")?).join("regs.rs"))
        .status()
        .map_err(|e| format!("cannot run {bindgen}: {e}; install bindgen or name it in BINDGEN"))?;
    if !status.success() {
        return Err(format!("{bindgen} failed on {}: {status}", header.display()).into());
    }
    Ok(())
}
