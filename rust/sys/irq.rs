// SPDX-License-Identifier: GPL-2.0

//! MSI-X vectors, with a threaded handler each.
//!
//! This file must not know what a vector is for; the names come with the [`Line`]s.

use crate::sys::raw_pci;
use kernel::{
    bindings,
    device::Bound,
    error::to_result,
    pci,
    prelude::*,
    str::{CStrExt, CString},
    sync::{
        aref::ARef,
        atomic::{Atomic, Full},
        Arc,
    },
};

#[cfg(not(KERNEL_7_3))]
mod verdict {
    use kernel::bindings;
    pub(super) const HANDLED: bindings::irqreturn_t = bindings::irqreturn_IRQ_HANDLED;
    pub(super) const WAKE_THREAD: bindings::irqreturn_t = bindings::irqreturn_IRQ_WAKE_THREAD;
}
#[cfg(KERNEL_7_3)]
mod verdict {
    use kernel::bindings;
    pub(super) const HANDLED: bindings::irqreturn_t = bindings::irqreturn::IRQ_HANDLED;
    pub(super) const WAKE_THREAD: bindings::irqreturn_t = bindings::irqreturn::IRQ_WAKE_THREAD;
}
use verdict::{HANDLED, WAKE_THREAD};

/// What follows the hard interrupt.
pub(crate) enum Next {
    /// Nothing: `IRQ_HANDLED`.
    Done,
    /// A call of [`Handler::thread`]: `IRQ_WAKE_THREAD`.
    Thread,
}

/// The interrupt handlers of a device.
pub(crate) trait Handler: Send + Sync + Sized + 'static {
    /// Handles `vector` in the hard interrupt; must not sleep.
    fn hard(self: &Arc<Self>, vector: u32) -> Next;

    /// Handles `vector` in its interrupt thread; may sleep.
    fn thread(&self, vector: u32);
}

/// A vector that gets a handler.
pub(crate) struct Line {
    pub(crate) vector: u32,
    /// The purpose of the vector, for `/proc/interrupts`.
    pub(crate) name: CString,
}

/// The `dev_id` of an interrupt, which the kernel passes to the handlers.
struct Cookie<H: Handler> {
    handler: Arc<H>,
    vector: u32,
    irq: u32,
    /// The kernel keeps a pointer to it.
    name: CString,
}

/// The MSI-X vectors of a device, and the handlers of some of them. All handlers are disabled until
/// [`IrqSet::enable`]. Dropping frees the handlers, then the vectors (`free_irq()`,
/// `include/linux/interrupt.h`; `pci_free_irq_vectors()`, `include/linux/pci.h`), and sleeps.
pub(crate) struct IrqSet<H: Handler> {
    pdev: ARef<pci::Device>,
    cookies: KVec<KBox<Cookie<H>>>,
    enabled: Atomic<bool>,
}

extern "C" fn hard<H: Handler>(_irq: c_int, data: *mut c_void) -> bindings::irqreturn_t {
    // SAFETY: The cookie given to `request_threaded_irq` by `IrqSet<H>`; it lives until `free_irq`.
    let cookie = unsafe { &*data.cast::<Cookie<H>>() };
    match cookie.handler.hard(cookie.vector) {
        Next::Done => HANDLED,
        Next::Thread => WAKE_THREAD,
    }
}

extern "C" fn thread<H: Handler>(_irq: c_int, data: *mut c_void) -> bindings::irqreturn_t {
    // SAFETY: As above; `free_irq` waits for the thread, too.
    let cookie = unsafe { &*data.cast::<Cookie<H>>() };
    cookie.handler.thread(cookie.vector);
    HANDLED
}

impl<H: Handler> IrqSet<H> {
    /// Allocates exactly `vectors` vectors, and requests those of `lines`, disabled.
    ///
    /// Wraps `pci_alloc_irq_vectors()`, `include/linux/pci.h`, and `request_threaded_irq()`,
    /// `include/linux/interrupt.h`, and returns their errors. Sleeps.
    pub(crate) fn new(
        dev: &pci::Device<Bound>,
        handler: &Arc<H>,
        vectors: u32,
        lines: KVec<Line>,
    ) -> Result<Self> {
        let raw = raw_pci(dev);
        let mut cookies = KVec::with_capacity(lines.len(), GFP_KERNEL)?;
        // SAFETY: The device is bound.
        to_result(unsafe {
            bindings::pci_alloc_irq_vectors(raw, vectors, vectors, bindings::PCI_IRQ_MSIX)
        })
        .inspect_err(|_| dev_err!(dev, "needs {} MSI-X vectors\n", vectors))?;
        // From here on dropping `set` undoes what was done.
        let mut set = Self {
            pdev: dev.into(),
            cookies: KVec::new(),
            enabled: Atomic::new(false),
        };
        core::mem::swap(&mut set.cookies, &mut cookies);
        for line in lines {
            // SAFETY: The vectors are allocated; the call fails for a number that is not among them.
            let irq = unsafe { bindings::pci_irq_vector(raw, line.vector) };
            to_result(irq)?;
            let cookie = KBox::new(
                Cookie {
                    handler: handler.clone(),
                    vector: line.vector,
                    irq: irq as u32,
                    name: CString::try_from_fmt(fmt!(
                        "weft-{}-{}",
                        dev.as_ref().name(),
                        &*line.name
                    ))?,
                },
                GFP_KERNEL,
            )?;
            // SAFETY: The cookie and its name stay where they are until `free_irq`.
            to_result(unsafe {
                bindings::request_threaded_irq(
                    cookie.irq,
                    Some(hard::<H>),
                    Some(thread::<H>),
                    bindings::IRQF_NO_AUTOEN as c_ulong,
                    cookie.name.as_char_ptr(),
                    core::ptr::from_ref::<Cookie<H>>(&cookie).cast_mut().cast(),
                )
            })?;
            // There is room: reserved above.
            set.cookies.push(cookie, GFP_KERNEL)?;
        }
        Ok(set)
    }

    /// Enables the interrupts. Must not run at the same time as [`IrqSet::disable`].
    ///
    /// Wraps `enable_irq()`, `include/linux/interrupt.h`.
    pub(crate) fn enable(&self) {
        if !self.enabled.xchg(true, Full) {
            for cookie in &self.cookies {
                // SAFETY: Requested, and disabled.
                unsafe { bindings::enable_irq(cookie.irq) };
            }
        }
    }

    /// Disables the interrupts and waits until no handler runs; none runs until [`IrqSet::enable`].
    ///
    /// Wraps `disable_irq()`, `include/linux/interrupt.h`. Sleeps.
    pub(crate) fn disable(&self) {
        if self.enabled.xchg(false, Full) {
            for cookie in &self.cookies {
                // SAFETY: Requested, and enabled.
                unsafe { bindings::disable_irq(cookie.irq) };
            }
        }
    }
}

impl<H: Handler> Drop for IrqSet<H> {
    fn drop(&mut self) {
        for cookie in &self.cookies {
            let data = core::ptr::from_ref::<Cookie<H>>(cookie).cast_mut();
            // SAFETY: Requested with this cookie; the call waits for handlers that run.
            unsafe { bindings::free_irq(cookie.irq, data.cast()) };
        }
        // SAFETY: No handler is left.
        unsafe { bindings::pci_free_irq_vectors(raw_pci(&self.pdev)) };
    }
}
