// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What became of a wish, what that means, and what mends it.

use super::known::{Component, Hwid, Known};
use super::name::Names;
use serde::{Deserialize, Serialize};

pub use weft::WishState as State;

/// Names of the states in JSON, which never change.
const STATES: [(State, &str); 11] = [
    (State::Waits, "waits"),
    (State::Done, "done"),
    (State::NoEndpoint, "no-endpoint"),
    (State::NoVe, "no-ve"),
    (State::NoRoot, "no-root"),
    (State::NoLid, "no-lid"),
    (State::NoWay, "no-way"),
    (State::NoPlane, "no-plane"),
    (State::NoRoom, "no-room"),
    (State::Failed, "failed"),
    (State::NotTaken, "not-taken"),
];

/// States by their names, for serde.
pub mod named {
    use super::{STATES, State};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Its name; one that has none is unknown.
    pub fn serialize<S: Serializer>(state: &Option<State>, to: S) -> Result<S::Ok, S::Error> {
        let name = |state: State| {
            STATES.iter().find(|(of, _)| *of == state).map_or("unknown", |(_, name)| name)
        };
        state.map(name).serialize(to)
    }

    /// The state of that name.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<State>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        let state = |name: String| {
            let found = STATES.iter().find(|(_, of)| *of == name);
            found.map_or(State::Other(u32::MAX), |(state, _)| *state)
        };
        Ok(name.map(state))
    }
}

/// That a virtual endpoint is to belong to a host, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wish {
    /// Hardware id of the endpoint.
    pub endpoint: Hwid,
    /// Which of its virtual endpoints.
    pub ve: u32,
    /// Hardware id of the host.
    pub root: Hwid,
    /// What became of it; only the master says.
    #[serde(with = "named")]
    pub state: Option<State>,
}

impl Wish {
    /// Whether it is about the same, for the same.
    pub fn is(&self, other: &Wish) -> bool {
        (self.endpoint, self.ve, self.root) == (other.endpoint, other.ve, other.root)
    }

    /// As the text of the wishes has it.
    pub fn line(&self) -> weft::Wish {
        // No text can name a larger one.
        let ve = u8::try_from(self.ve).unwrap_or(u8::MAX);
        weft::Wish { endpoint: self.endpoint.0, ve, root: self.root.0 }
    }
}

/// Whether a state may become another one by itself, within seconds.
pub fn passes(state: State) -> bool {
    matches!(state, State::Waits | State::NoLid | State::Failed | State::NotTaken)
}

/// What mends it, with the command; empty where nothing is wrong.
pub fn mend(wish: &Wish, known: &Known) -> String {
    let names = Names::new(known.components.as_deref());
    let (ve, host) = (names.ve(wish.endpoint, wish.ve), names.of(wish.root));
    let component = |hwid| known.component(hwid);
    let take_back = format!("`weftctl withdraw {ve}` takes it back");
    match wish.state {
        None | Some(State::Done) => String::new(),
        Some(State::Waits) => {
            "it takes a second or two from the last change of the fabric: `weftctl events` shows \
             them; `dmesg` of this host, if it stays so"
                .into()
        }
        Some(State::NoEndpoint) => format!(
            "is it on, and its cable in? `weftctl tree` shows what there is; emulated: `plugged` in \
             the topology, `weft-fabric status`; if it will not come, {take_back}"
        ),
        Some(State::NoVe) => {
            let endpoint = names.of(wish.endpoint);
            let has = match component(wish.endpoint).map(|component| component.ves) {
                Some(ves) if ves > 0 => format!("it has {ves}, from 0 on: "),
                _ => String::new(),
            };
            format!("{has}{take_back}, `weftctl assign {endpoint} {host}` gives one that is free")
        }
        Some(State::NoRoot) => format!(
            "is host {host} on, its cable in, its driver loaded (`modprobe weft` there)? \
             `weftctl tree` shows who is there; if it will not come, {take_back}"
        ),
        Some(State::NoLid) => {
            let lacks = |component: Option<&Component>| component.is_some_and(|c| c.lid == 0);
            match (lacks(component(wish.root)), lacks(component(wish.endpoint))) {
                (true, _) => format!(
                    "host {host} was found, and its driver takes no part: is it alive? `modprobe weft` \
                     there; if manager/allow is not 0, here or there, that list has to name the other host as \
                     well: `echo {} >manager/allow` here, in the directory of the port's function",
                    wish.root
                ),
                (false, true) => format!(
                    "endpoint {} does not answer the master's messages: `weftctl tree`, \
                     `weftctl diagnose`",
                    names.of(wish.endpoint)
                ),
                _ => "the master gives them in a second or two: `weftctl tree` shows LIDs".into(),
            }
        }
        Some(State::NoWay) => format!(
            "switches that route have to join them by links that are up: `weftctl tree`; hosts pass \
             nothing on; emulated: `routes = true` of switches in the topology, `weft-fabric route \
             walk HOST LID`; or {take_back}"
        ),
        Some(State::NoPlane) => format!(
            "a link carries the hierarchies of 15 hosts: join them by another switch, or withdraw \
             what other hosts have beyond it; `weftctl tree --vh all` shows that; {take_back}"
        ),
        Some(State::NoRoom) => format!(
            "host {host} has as much as one host can: something of 16 endpoints, or 85 places in its \
             hierarchy, of which each switch on the way takes one: `weftctl tree --vh {host}` shows \
             them, `weftctl withdraw ENDPOINT` makes room"
        ),
        Some(State::Failed) => {
            "it is tried again; `dmesg` of this host names the component and its \
                                answer; switches obey the master only if `managers` of the \
                                topology does not leave it out"
                .into()
        }
        Some(State::NotTaken) => format!(
            "it is tried again; is host {host} alive? there: `weftctl diagnose`; what it is to lose it \
             has to let go of first, and a neighbour of it that hangs may hold on to that; a driver \
             of another version may not understand what it is told"
        ),
        Some(_) => "use weftctl and the driver of one release".into(),
    }
}
