// SPDX-License-Identifier: GPL-2.0

//! The tests, a suite for each part of `sys`, and the helpers that they share.

mod drain;
mod gate;
mod irqlock;
mod slots;
mod throttle;
mod waitq;
mod work;

use kernel::{
    prelude::*,
    sync::{Arc, Completion},
    workqueue,
};

/// An event that happens once.
#[pin_data]
struct Event {
    #[pin]
    completion: Completion,
}

impl Event {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                completion <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    fn happens(&self) {
        self.completion.complete_all();
    }

    fn wait(&self) {
        self.completion.wait_for_completion();
    }
}

/// Calls `f` in another thread. The event that is returned happens when `f` has returned.
fn spawn(f: impl FnOnce() + Send + 'static) -> Result<Arc<Event>> {
    let ended = Event::new()?;
    let tell = ended.clone();
    workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
        f();
        tell.happens();
    })?;
    Ok(ended)
}
