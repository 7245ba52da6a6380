// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Links the provider with libfabric where there is none: with a library of the same name that has nothing but the
//! functions a provider calls, and their versions.
//!
//! A provider that is not linked with libfabric loads too. But then each of its references is bound to the oldest
//! function of that name, and to none if libfabric itself was loaded privately, as plug-ins of MPI do.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The functions that `src/fi.rs` declares. All are there since the first version of the interface.
const FUNCTIONS: [&str; 4] = ["fi_log", "fi_log_enabled", "fi_param_define", "fi_param_get"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let source = format!("void {}(void) {{}}\n", FUNCTIONS.join("(void) {}\nvoid "));
    fs::write(out.join("fabric.c"), source)?;
    let global = FUNCTIONS.join("; ");
    fs::write(out.join("fabric.map"), format!("FABRIC_1.0 {{ global: {global}; local: *; }};\n"))?;
    let mut map = std::ffi::OsString::from("-Wl,--version-script=");
    map.push(out.join("fabric.map"));
    let status = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-nostdlib", "-w", "-Wl,-soname,libfabric.so.1"])
        .arg(map)
        .arg("-o")
        .arg(out.join("libfabric.so"))
        .arg(out.join("fabric.c"))
        .status()?;
    if !status.success() {
        return Err("the C compiler cannot make a library".into());
    }
    println!("cargo:rustc-link-arg-cdylib=-L{}", out.display());
    // Tests of the crate are given the same arguments, and do without it.
    println!("cargo:rustc-link-arg-cdylib=-Wl,--as-needed,-lfabric");
    // libfabric unloads providers when the program ends; destructors of threads may be in this library by then.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    Ok(())
}
