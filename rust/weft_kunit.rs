// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the wrappers in `sys`: gates, wait queues, locks, timers.
//!
//! A separate module, built only for kernels with KUnit: weft.ko has no tests in it. They run when it is
//! loaded; the results are in the log, as KTAP. Pure logic (`proto`) is tested by cargo.

use kernel::prelude::*;

mod kunit;

/// The parts of `sys` that are tested, the same files that the driver has.
#[allow(dead_code)]
mod sys {
    pub(crate) mod clock;
    pub(crate) mod drain;
    pub(crate) mod gate;
    pub(crate) mod irqlock;
    pub(crate) mod slots;
    pub(crate) mod throttle;
    pub(crate) mod waitq;
    pub(crate) mod work;
}

struct KunitModule;

impl kernel::Module for KunitModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

module! {
    type: KunitModule,
    name: "weft_kunit",
    authors: ["Weft developers"],
    description: "KUnit tests of weft.ko",
    license: "GPL",
}
