// SPDX-License-Identifier: GPL-2.0

//! `WEFT_CQ_WAIT`: a user rings for a queue pair and sleeps until there is a completion, in one call.
//!
//! The user's thread runs the engine before it sleeps, and when the peer rings meanwhile: what is sent
//! leaves, and what comes arrives, without another thread. While it sleeps it has not entered the port, and
//! is outside of the gate of calls: whatever happens to the port does not wait for it.

use super::{
    cq::{Next, Sleeper},
    engine::Engine,
    qp::Qp,
    worker::{Runner, Worker},
};
use crate::{
    fabric::{Inside, Node},
    sys::waitq::{sleep_on, Deadline, On},
};
use kernel::{prelude::*, sync::Arc};

/// What a user waits for, and has done before.
pub(crate) struct Wait {
    pub(crate) next: Next,
    /// A queue pair that has work.
    pub(crate) qp: Option<Arc<Qp>>,
    /// As of [`Engine::kick`], for each run.
    pub(crate) budget: usize,
}

/// How a user waits.
struct Waiter<'a> {
    node: &'a Node,
    next: &'a Next,
    budget: usize,
    /// It runs the engine on all links, not on that of a queue pair that it has named.
    on_all: bool,
    /// The link whose doorbells wake it.
    runner: Option<Runner<'a>>,
}

impl Engine {
    /// Runs the engine for `wait.qp`, and sleeps until there is a completion. `deadline`: `None` if it is
    /// not to sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::kick`], [`Next::is_there`] and [`Inside::asleep`]. `ENODEV`: the port goes;
    /// `EAGAIN`: it would have to sleep; `ETIMEDOUT`: `deadline` has passed; `ERESTARTSYS`: a signal
    /// is pending.
    pub(crate) fn wait(
        &self,
        node: &Node,
        inside: &Inside<'_>,
        wait: Wait,
        deadline: Option<&Deadline>,
    ) -> Result {
        let Wait { next, qp, budget } = wait;
        if qp.is_none() && next.is_there()? {
            return Ok(());
        }
        let Some(deadline) = deadline else {
            self.kick(node, qp.as_ref(), budget)?;
            return if next.is_there()? {
                Ok(())
            } else {
                Err(EAGAIN)
            };
        };
        let waiter = Waiter {
            node,
            next: &next,
            budget,
            on_all: qp.is_none(),
            runner: self.own_worker(qp.as_ref()).map(Runner::new),
        };
        let waited = self.run_and_sleep(&waiter, qp, inside, deadline);
        if let Some(runner) = waiter.runner.as_ref().filter(|runner| runner.is_called()) {
            // The work item is queued with the port entered only.
            if let Ok(_port) = node.port() {
                runner.pass_on();
            }
        }
        waited
    }

    /// Returns the worker that a user is to run when the peer rings: that of the link of `qp`, or the only
    /// one that connects queue pairs.
    fn own_worker(&self, qp: Option<&Arc<Qp>>) -> Option<&Arc<Worker>> {
        match qp {
            Some(qp) => self.worker(qp.path()?.link),
            None => {
                let mut used = self.workers().filter(|worker| worker.has_users());
                used.next().filter(|_| used.next().is_none())
            }
        }
    }

    /// As [`Engine::wait`]. The queue pair is let go of before the user sleeps: it can be destroyed, and what
    /// it needs.
    fn run_and_sleep(
        &self,
        waiter: &Waiter<'_>,
        qp: Option<Arc<Qp>>,
        inside: &Inside<'_>,
        deadline: &Deadline,
    ) -> Result {
        self.run_to_sleep(waiter, qp)?;
        while !waiter.next.is_there()? {
            inside.asleep(|| waiter.sleep(deadline))?;
            if waiter.node.is_closed() {
                return Err(ENODEV);
            }
            if waiter.next.is_there()? {
                break;
            }
            // However often the peer rings.
            if kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
            if deadline.left() == Some(0) {
                return Err(ETIMEDOUT);
            }
            self.run_to_sleep(waiter, None)?;
        }
        Ok(())
    }

    /// Runs the engine as [`Engine::kick`] does, before the user sleeps, unless there is a completion then.
    /// `rings` has work.
    fn run_to_sleep(&self, waiter: &Waiter<'_>, rings: Option<Arc<Qp>>) -> Result {
        let Waiter { node, next, .. } = waiter;
        let port = node.port()?;
        let mut budget = waiter.budget;
        let mut rung = None;
        if let Some(qp) = &rings {
            budget = self.rung(qp, budget, |worker, left| {
                worker.run_to_sleep(node, &**port, Some(qp), left, next);
                rung = Some(worker);
            })?;
        }
        let own = waiter.runner.as_ref().map(Runner::worker);
        for worker in self.workers() {
            let is = |other: Option<&Arc<Worker>>| other.is_some_and(|it| Arc::ptr_eq(it, worker));
            if is(rung) {
                continue;
            }
            if is(own) || waiter.on_all && worker.has_users() {
                worker.run_to_sleep(node, &**port, None, budget, next);
            } else if worker.has_users() && !next.has_ended() {
                worker.user_sleeps();
            }
        }
        Ok(())
    }
}

impl Waiter<'_> {
    /// Sleeps until what is waited for is there or will not come, or the peer rings.
    fn sleep(&self, deadline: &Deadline) -> Result {
        let sleeper = Sleeper::new(self.next);
        let (entries, port) = (On::All(sleeper.queue()), On::All(self.node.waiters()));
        let over = || self.node.is_closed() || self.next.has_ended();
        match &self.runner {
            Some(runner) => sleep_on(
                [entries, port, runner.queue()],
                || over() || runner.is_called(),
                deadline,
            ),
            None => sleep_on([entries, port], over, deadline),
        }
    }
}
