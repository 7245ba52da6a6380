// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A provider of libfabric, `libweft-fi.so`: reliable datagram endpoints between programs of hosts that Weft joins.
//!
//! An endpoint is a matching interface of a port (`weft::matching`): the driver finds the buffer of each message, and
//! moves it, whether the program runs or not. What is left for the provider is to make commands of operations and
//! completions of events (`endpoint/engine.rs`), and what libfabric has around that: address vectors, completion
//! queues, counters, event queues. Documentation/libfabric.rst says what is offered and what is not.
//!
//! ```text
//! info.rs, hints.rs          what fi_getinfo() answers
//! tree.rs                    what a program opens; fabric.rs, domain.rs: a fabric, and a port in it
//! av.rs, table.rs            address vectors; address.rs: addresses as text
//! cq.rs, cntr.rs, eq.rs      queues and counters; completion.rs: formats; tally.rs: what a counter has; wait.rs,
//!                            progress.rs: how threads sleep, and what is looked after when a program looks
//! deferred.rs                what waits until a counter has come so far; attendant.rs: a thread for that
//! regions.rs, mr.rs          memory that others may reach; atomics.rs: how they may change integers there
//! endpoint.rs, endpoint/     endpoints
//! base.rs, log.rs, fi.rs     objects; libfabric's log; libfabric's headers
//! ```

mod address;
mod atomics;
mod attendant;
mod av;
mod base;
mod cntr;
mod completion;
mod cq;
mod deferred;
mod domain;
mod endpoint;
mod eq;
mod fabric;
mod fi;
mod hints;
mod info;
#[cfg(test)]
mod layout;
mod log;
mod mr;
mod progress;
mod regions;
mod table;
mod tally;
mod tree;
mod wait;

use fi::Provider;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr::null_mut;

/// Of the provider, and of its fabric.
const NAME: &CStr = c"weft";

/// A version, as libfabric writes it.
const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// libfabric keeps what it knows of the provider in it: it must not be in memory that is read only.
struct Shared(UnsafeCell<Provider>);

// SAFETY: The provider only takes its address; libfabric has locks for what it keeps there.
unsafe impl Sync for Shared {}

/// The newest version of the interface that programs may ask for, whichever libfabric has loaded this library. What
/// structures of 2.2 to 2.5 have beyond those of `fi.rs` are limits of counters, at the end of a structure that this
/// library allocates with zeros behind: that there are none.
const NEWEST: u32 = version(2, 5);

static PROVIDER: Shared = Shared(UnsafeCell::new(Provider {
    version: version(0, 1),
    fi_version: NEWEST,
    context: [null_mut(); 4],
    name: NAME.as_ptr(),
    getinfo: info::getinfo,
    fabric: tree::open_fabric,
    cleanup,
}));

fn provider() -> *mut Provider {
    PROVIDER.0.get()
}

extern "C" fn cleanup() {}

/// What libfabric calls when it has loaded this library, with its lock held: `fi_getinfo()` would wait for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut core::ffi::c_void {
    log::ENTRIES.define();
    log::OVERFLOW.define();
    provider().cast()
}
