// SPDX-License-Identifier: GPL-2.0

//! Steps of a migration that concern one function, and the loop over all steps. What comes next is decided by
//! `proto::migration`. This file does not know where the other function is.

use super::{side::Side, Report};
use crate::{
    hw::VfState,
    proto::{
        migration::{Action, Event, Machine, Next, Plan},
        pair::Ask,
    },
    sys::virtfn::Bound,
};
use kernel::{
    fmt::Arguments,
    prelude::*,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How often to look whether something waited for has come.
const POLL: Delta = Delta::from_millis(5);

/// Returns what to report if a function that a step needs does not exist any more.
pub(super) type Gone<'a> = &'a dyn Fn() -> Option<Event>;

/// Logs the result of a step of a migration of the function `of`, to or from `other`; success only for debugging.
pub(super) fn log(of: &Side<'_>, other: Arguments<'_>, action: Action, event: Event) {
    let n = of.number();
    if event == Event::Done {
        dev_dbg!(of.pf(), "VF {} {}: {:?}\n", n, other, action);
    } else {
        dev_info!(
            of.pf(),
            "migration of VF {} {}: {:?}: {:?}\n",
            n,
            other,
            action,
            event
        );
    }
}

/// Carries out a migration of the function `of`, to or from `other`: `act` does one step, and waits at most so many
/// milliseconds for it. The report has the outcome then, and what went wrong first.
pub(super) fn run(
    plan: Plan,
    of: &Side<'_>,
    other: Arguments<'_>,
    report: &mut Report,
    mut act: impl FnMut(Action, u64) -> Event,
) {
    let mut machine = Machine::new(plan);
    let outcome = loop {
        match machine.next() {
            Next::End(outcome) => break outcome,
            Next::Do(action) => {
                let event = act(action, machine.limit_ms());
                log(of, other, action, event);
                machine.event(event);
            }
        }
    };
    report.outcome = Some(outcome);
    report.why = machine.why();
}

/// Waits until `is` returns true. Reads of a function that is being reset fail, and are repeated.
pub(super) fn until(
    limit: Delta,
    cancellable: bool,
    gone: Gone<'_>,
    mut is: impl FnMut() -> Result<bool>,
) -> Result<(), Event> {
    let since = Instant::<Monotonic>::now();
    loop {
        if matches!(is(), Ok(true)) {
            return Ok(());
        }
        if let Some(gone) = gone() {
            return Err(gone);
        }
        if cancellable && kernel::current!().signal_pending() {
            return Err(Event::Cancelled);
        }
        if since.elapsed() >= limit {
            return Err(Event::Timeout);
        }
        fsleep(POLL);
    }
}

/// Calls `f`, which does not wait, and repeats it while the function `source` is being reset.
pub(super) fn try_or_retry(
    source: &Side<'_>,
    limit: Delta,
    f: impl Fn() -> Result,
) -> Result<(), Event> {
    let since = Instant::<Monotonic>::now();
    loop {
        if f().is_ok() {
            return Ok(());
        }
        if source.is_gone() {
            return Err(Event::SourceGone);
        }
        if since.elapsed() >= limit {
            return Err(Event::Failed);
        }
        fsleep(POLL);
    }
}

/// Unbinds the driver of a function, and waits until the function is idle.
pub(super) fn take(
    side: &Side<'_>,
    limit: Delta,
    cancellable: bool,
    gone: Gone<'_>,
) -> Result<(), Event> {
    // A function of another driver is not taken: its user has to give it back.
    until(limit, cancellable, gone, || {
        Ok(side.device().map(|device| device.release()) != Some(Err(EAGAIN)))
    })?;
    until(limit, cancellable, gone, || {
        Ok(side.vf()?.state == VfState::Idle)
    })
}

/// Asks the driver of `source` to finish, and waits until nothing is outstanding; `outstanding` is what it said
/// last.
pub(super) fn finish(
    source: &Side<'_>,
    ask: Ask,
    limit: Delta,
    gone: Gone<'_>,
    outstanding: &mut u32,
) -> Result<(), Event> {
    // The request is repeated after each reset of either function, and applies to the next driver, too.
    try_or_retry(source, limit, || source.ask(ask))?;
    let mut said = 0;
    let done = until(limit, true, gone, || {
        let vf = source.vf()?;
        said = vf.left.unwrap_or(said);
        // A function that was just reset is idle, too, until its driver is back.
        let left_alone = vf.state == VfState::Idle && source.bound() != Bound::SameAsPf;
        Ok(vf.left == Some(0) || left_alone)
    });
    *outstanding = said;
    done
}

/// Takes the quota of `source` away, and waits until the hardware shows that nothing can be outstanding; its
/// driver has said before that nothing is.
pub(super) fn cut(source: &Side<'_>, limit: Delta, gone: Gone<'_>) -> Result<(), Event> {
    try_or_retry(source, limit, || source.cut())?;
    until(limit, true, gone, || {
        let vf = source.vf()?;
        let nothing = !vf.master && vf.slots == 0 && vf.apertures == 0 && vf.bytes == 0;
        Ok(vf.state == VfState::Idle && nothing)
    })
}

/// Binds a function to its driver, and waits until the driver works. `failed`: what it is if no driver takes it.
pub(super) fn drive(
    side: &Side<'_>,
    limit: Delta,
    cancellable: bool,
    gone: Gone<'_>,
    failed: &dyn Fn() -> Event,
) -> Result<(), Event> {
    let device = side.device().ok_or_else(failed)?;
    let mut attached = Err(EAGAIN);
    until(limit, cancellable, gone, || {
        attached = device.attach();
        Ok(attached != Err(EAGAIN))
    })?;
    attached.map_err(|_| failed())?;
    if device.bound() != Bound::SameAsPf {
        // Whether another driver begins to use it is not waited for.
        return Ok(());
    }
    until(limit, cancellable, gone, || {
        let vf = side.vf()?;
        Ok(matches!(vf.state, VfState::Driven | VfState::Used))
    })
}
