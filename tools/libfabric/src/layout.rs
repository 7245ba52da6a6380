// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compares `fi.rs` with libfabric's headers, by the C compiler.

use crate::fi::{NUMBERS, STRUCTURES, TRIGGER_NUMBERS, TRIGGER_STRUCTURES};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// Where the headers are: on this machine, or unpacked beside the root that all is built in.
fn headers() -> Option<PathBuf> {
    let cache = std::env::var_os("WEFT_CACHE").map(|cache| PathBuf::from(cache).join("libfabric"));
    let places = cache.into_iter().chain([PathBuf::from("/")]);
    places.map(|place| place.join("usr/include")).find(|place| place.join("rdma/fabric.h").exists())
}

#[test]
fn bindings_are_as_the_headers_say() {
    let Some(headers) = headers() else {
        println!(
            "SKIP: there are no headers of libfabric here: scripts/env path libfabric unpacks them"
        );
        return;
    };
    let mut source = String::from("#include <stddef.h>\n#include <sys/uio.h>\n");
    let names = [
        "fabric",
        "fi_domain",
        "fi_endpoint",
        "fi_eq",
        "fi_cm",
        "fi_tagged",
        "fi_rma",
        "fi_atomic",
        "fi_collective",
        "fi_trigger",
        "fi_errno",
        "providers/fi_prov",
        "providers/fi_log",
    ];
    for name in names {
        let _ = writeln!(source, "#include <rdma/{name}.h>");
    }
    for (name, bytes, fields) in STRUCTURES.iter().chain(TRIGGER_STRUCTURES) {
        let _ = writeln!(source, "_Static_assert(sizeof({name}) == {bytes}, \"{name}\");");
        for (field, at) in *fields {
            let _ = writeln!(
                source,
                "_Static_assert(offsetof({name}, {field}) == {at}, \"{name}.{field}\");"
            );
        }
    }
    for (name, value) in NUMBERS.iter().chain(TRIGGER_NUMBERS) {
        let _ = writeln!(
            source,
            "_Static_assert((unsigned long long){name} == {value}ULL, \"{name}\");"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("layout.c");
    std::fs::write(&file, source).expect("written");
    let compiled = Command::new("cc")
        .args(["-fsyntax-only", "-I"])
        .args([&headers, &file])
        .output()
        .expect("there is a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
