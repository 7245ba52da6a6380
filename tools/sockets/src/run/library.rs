// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Where the library is, and how the dynamic linker is told. It must not know which program is run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Beside the program, as cargo leaves it, and where it is installed.
const PLACES: [&str; 3] = ["libweft-sockets.so", "libweft_sockets.so", "../lib/libweft-sockets.so"];

/// Returns the library that was named, or that belongs to this program.
pub fn find(named: Option<PathBuf>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return usable(&path);
    }
    let own = std::env::current_exe()
        .map_err(|error| format!("where weft-run is cannot be found out: {error}"))?;
    let dir = own.parent().unwrap_or(Path::new("/"));
    match PLACES.iter().map(|place| dir.join(place)).find(|path| path.exists()) {
        Some(path) => usable(&path),
        None => Err(format!(
            "there is no libweft-sockets.so in {} or {}: install it, or name it by --library",
            dir.display(),
            dir.join("../lib").display()
        )),
    }
}

fn usable(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    if real.as_os_str().as_encoded_bytes().iter().any(|byte| b" :\n\t".contains(byte)) {
        return Err(format!(
            "{}: LD_PRELOAD cannot have a path with spaces or colons",
            real.display()
        ));
    }
    Ok(real)
}

/// Returns what LD_PRELOAD is to be: the library before others that are there already.
pub fn preload(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}
