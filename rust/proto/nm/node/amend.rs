// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Changes of the assignments for which a host asks the master.
//!
//! A request names its sender and the change; [`Effects::amend`] makes a text of it, or refuses. It is not
//! answered: a host repeats it until its own assignments show the change, or that it cannot be made any more.
//! The master believes it as a mastership is believed: by its seal, and if its sender is at the end of the
//! path back. This file does not interpret a change.

use super::{
    super::{kind::is_host, member::Member, message::Message, path::Path, table::Slot},
    auth::{Return, Sender},
    Effects, Node, Phase, Role, Taken,
};

impl<M, T, B, A> Node<M, T, B, A>
where
    M: AsRef<[Member]> + AsMut<[Member]>,
    T: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[u64]>,
{
    /// Asks the master, which may be this node, for a change of the assignments. `Later`: the request may be
    /// on its way, or there is no master now; otherwise this node is the master, and has taken it like that.
    pub fn amend(&mut self, now: u64, change: &[u8], fx: &mut impl Effects) -> Taken {
        match self.role() {
            Role::Master => return self.amended(now, self.me.hwid, change, fx),
            Role::Unknown => return Taken::Later,
            Role::Standby => {}
        }
        let to = match self.members.get(self.lowest) {
            Some(master) if master.known => Return {
                path: self.to_master,
                ..Return::of(master)
            },
            _ => Return::to(self.to_master),
        };
        let message = Message::Amend {
            from: self.me.hwid,
            life: self.me.life,
            change,
        };
        self.xids = self.xids.wrapping_add(1);
        self.tell(&to, self.xids, &message, fx);
        Taken::Later
    }

    /// Takes a request of another host.
    pub(super) fn asked(
        &mut self,
        now: u64,
        (from, life): (u64, u32),
        change: &[u8],
        back: Path,
        sender: &Sender,
        fx: &mut impl Effects,
    ) {
        if self.role() != Role::Master || !is_host(from) || !self.allowed.has(from) {
            return;
        }
        let member = self.members.get(from);
        if !member.is_some_and(|member| member.known && member.info.life == life) {
            return;
        }
        let believed = self.auth.believes(now, sender, from, fx);
        if believed && self.attest.admits(now, from, &back, &self.allowed, fx) {
            // Its sender reads what has become of it.
            let _ = self.amended(now, from, change, fx);
        }
    }

    /// Makes the change, as the master.
    fn amended(&mut self, now: u64, from: u64, change: &[u8], fx: &mut impl Effects) -> Taken {
        if self.phase != Phase::Settled || self.dirty {
            return Taken::Later;
        }
        let members = self.members.all();
        let any = |is: &dyn Fn(u64) -> bool| members.iter().any(|m| m.known && is(m.info.hwid));
        let edited = self
            .assignments
            .edit(|text, to| fx.amend(text, from, change, &any, to));
        match edited {
            Ok(true) => {
                self.assigned(now, fx);
                Taken::Yes
            }
            Ok(false) => Taken::Yes,
            Err(taken) => taken,
        }
    }
}
