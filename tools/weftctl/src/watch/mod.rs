// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What happens to the ports of this host, as it happens: [`watcher`] sleeps until
//! sysfs or the kernel's own events tell of something, [`state`] is what sysfs
//! shows of an [`object`], [`event`] what has changed between two looks. Knows nothing
//! of how it is shown, and asks no port: it needs no privileges.

pub mod event;
pub mod object;
pub mod state;
pub mod uevent;
pub mod watcher;
