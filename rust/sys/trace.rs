// SPDX-License-Identifier: GPL-2.0

//! Tracepoints, `/sys/kernel/tracing/events/weft`. `c/weft_trace.h` defines them and their fields.
//!
//! (`kernel::declare_trace!` only knows tracepoints that are in `kernel::bindings`.)

use crate::sys::ext;
use kernel::{device::Device, str::CStrExt};

/// The event that [`port_event`] reports, as `weft_trace.h` names it.
#[derive(Clone, Copy)]
pub(crate) enum Port {
    Start = 0,
    Stop = 1,
    Links = 2,
    Wake = 3,
    Echo = 4,
    Reset = 5,
    Gone = 6,
    Plug = 7,
}

macro_rules! tracepoint {
    ($(#[$doc:meta])* $name:ident if $is_on:ident, $key:ident, $call:ident, ($($arg:ident: $ty:ty),*)) => {
        /// Returns whether the tracepoint of this name is on: then its arguments are worth finding out.
        #[inline]
        pub(crate) fn $is_on() -> bool {
            // SAFETY: The key is that of a tracepoint that `trace.c` defines.
            unsafe {
                kernel::jump_label::static_branch_unlikely!(
                    ext::$key,
                    kernel::bindings::tracepoint,
                    key
                )
            }
        }
        tracepoint!($(#[$doc])* $name, $key, $call, ($($arg: $ty),*));
    };
    ($(#[$doc:meta])* $name:ident, $key:ident, $call:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        #[allow(
            clippy::too_many_arguments,
            reason = "a tracepoint has as many as it has fields"
        )]
        pub(crate) fn $name(dev: &Device, $($arg: $ty),*) {
            // SAFETY: The key is that of a tracepoint that `trace.c` defines.
            let on = unsafe {
                kernel::jump_label::static_branch_unlikely!(
                    ext::$key,
                    kernel::bindings::tracepoint,
                    key
                )
            };
            if on {
                let name = dev.name().as_char_ptr();
                // SAFETY: The name lives as long as the device; the rest are numbers.
                unsafe { ext::$call(name, $($arg),*) };
            }
        }
    };
}

tracepoint!(
    /// Records that a link has changed its state, `WEFT_LINK_*` of the user interface.
    link_state,
    __tracepoint_weft_link_state,
    rust_do_trace_weft_link_state,
    (link: u32, from: u32, to: u32)
);
tracepoint!(
    /// Records that the state of the fabric's manager has changed; `weft_trace.h` names the roles.
    manager,
    __tracepoint_weft_manager,
    rust_do_trace_weft_manager,
    (role: u32, lid: u32, master: u64, term: u32, nodes: u32, routes: u32)
);
tracepoint!(
    raw_port_event,
    __tracepoint_weft_port_event,
    rust_do_trace_weft_port_event,
    (what: u32, arg: u64)
);
tracepoint!(
    /// Records errors that the port reports: their bits, and `ERR_INFO` and address of the first.
    port_error,
    __tracepoint_weft_port_error,
    rust_do_trace_weft_port_error,
    (bits: u32, info: u32, addr: u64)
);
tracepoint!(
    /// Records that a message was given to the mailbox.
    mbox_send,
    __tracepoint_weft_mbox_send,
    rust_do_trace_weft_mbox_send,
    (link: u32, kind: u32, len: u32)
);
tracepoint!(
    /// Records that a message was taken from the mailbox.
    mbox_recv,
    __tracepoint_weft_mbox_recv,
    rust_do_trace_weft_mbox_recv,
    (link: u32, kind: u32, len: u32)
);
tracepoint!(
    /// Records that a channel has changed its state; 0 is the state of a channel that does not exist.
    chan_state,
    __tracepoint_weft_chan_state,
    rust_do_trace_weft_chan_state,
    (id: u64, from: u32, to: u32, reason: u32)
);

/// Records an event of the port; `arg` is the link, if the event concerns one.
pub(crate) fn port_event(dev: &Device, what: Port, arg: u64) {
    raw_port_event(dev, what as u32, arg);
}

tracepoint!(
    /// Records that a cell of a link queue was sent (`sent` is 1) or taken.
    cell if traces_cells,
    __tracepoint_weft_cell,
    rust_do_trace_weft_cell,
    (
        link: u32,
        sent: u32,
        own: u32,
        qpn: u32,
        psn: u32,
        role: u32,
        op: u32,
        bytes: u64
    )
);
tracepoint!(
    /// Records that a control word was sent (`sent` is 1) or taken.
    word if traces_words,
    __tracepoint_weft_word,
    rust_do_trace_weft_word,
    (
        link: u32,
        sent: u32,
        own: u32,
        qpn: u32,
        psn: u32,
        role: u32,
        code: u32,
        detail: u32
    )
);
tracepoint!(
    /// Records that a DMA channel was given a descriptor.
    dma,
    __tracepoint_weft_dma,
    rust_do_trace_weft_dma,
    (
        channel: u32,
        number: u32,
        ctrl: u32,
        at: u64,
        addr: u64,
        bytes: u32,
        elements: u32
    )
);
