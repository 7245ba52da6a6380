// SPDX-License-Identifier: GPL-2.0 OR MIT
//! That a host is to have a virtual endpoint, what became of it, and what that means.

use super::hwid::Hwid;
use serde::{Deserialize, Serialize};

pub use weft::AssignmentState as State;

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
pub struct Assignment {
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

impl Assignment {
    /// Whether it is about the same, for the same.
    pub fn is(&self, other: &Assignment) -> bool {
        (self.endpoint, self.ve, self.root) == (other.endpoint, other.ve, other.root)
    }

    /// As the text of the assignments has it.
    pub fn line(&self) -> weft::Assignment {
        // No text can name a larger one.
        let ve = u8::try_from(self.ve).unwrap_or(u8::MAX);
        weft::Assignment { endpoint: self.endpoint.0, ve, root: self.root.0 }
    }
}

/// Whether a state may become another one by itself, within seconds.
pub fn passes(state: State) -> bool {
    matches!(state, State::Waits | State::NoLid | State::Failed | State::NotTaken)
}
