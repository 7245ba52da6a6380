// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The slots of switches, in words.

use super::hwid::Hwid;
use serde::Serialize;

/// A port of a switch, as its hot-plug controllers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Hardware id of the switch.
    pub switch: Hwid,
    /// Number of the port.
    #[serde(rename = "switch_port")]
    pub port: u32,
    /// A component is plugged in.
    pub occupied: bool,
    /// One will come or, if it is occupied, it will go.
    pub announced: bool,
    /// It has power.
    pub power: bool,
    /// The link is up.
    pub link: bool,
    /// The virtual planes on which a hierarchy is connected.
    pub planes: Vec<u8>,
}

impl Slot {
    /// What is plugged in, or will be.
    pub fn presence(&self) -> &'static str {
        match (self.occupied, self.announced) {
            (false, false) => "empty",
            (false, true) => "empty, a component is announced",
            (true, false) => "occupied",
            (true, true) => "occupied, to be taken out",
        }
    }

    /// What of power and link there is.
    pub fn link(&self) -> &'static str {
        match (self.power, self.link) {
            (false, _) => "no power",
            (true, false) => "down",
            (true, true) => "up",
        }
    }

    /// The planes, as 1,3; without any, -.
    pub fn planes(&self) -> String {
        let all: Vec<_> = self.planes.iter().map(u8::to_string).collect();
        if all.is_empty() { "-".into() } else { all.join(",") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hp_1_a_slot_says_what_is_there_and_what_will_come() {
        let slot = |occupied, announced, power, link| Slot {
            switch: Hwid(1),
            port: 2,
            occupied,
            announced,
            power,
            link,
            planes: vec![],
        };
        let said = |slot: Slot| (slot.presence(), slot.link());
        assert_eq!(said(slot(false, false, true, false)), ("empty", "down"));
        assert_eq!(
            said(slot(false, true, true, false)),
            ("empty, a component is announced", "down")
        );
        assert_eq!(said(slot(true, false, true, true)), ("occupied", "up"));
        assert_eq!(said(slot(true, true, false, false)), ("occupied, to be taken out", "no power"));
        let planes =
            |planes: &[u8]| Slot { planes: planes.to_vec(), ..slot(true, false, true, true) };
        assert_eq!((planes(&[]).planes(), planes(&[1, 15]).planes()), ("-".into(), "1,15".into()));
    }
}
