// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When what runs in a switch changes to the mode of a large fabric.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weft_fabric::firmware::{Action, Firmware, Surroundings};
use weft_proto::nm::{
    kind::NO_HOST,
    mastership::Mastership,
    packet::MAX_BYTES,
    port::Port,
    scale::state::{MAGIC, Message, State},
};

/// The port that the host is at, and the host.
const PORT: u8 = 3;
const HOST: u64 = 7;

/// A fabric that attests nothing, and says whether any host may manage the switch.
struct Around(bool);

impl Surroundings for Around {
    fn there(&self, _path: &[u8]) -> Option<u64> {
        None
    }

    fn attests(&self) -> bool {
        false
    }

    fn admits(&mut self, _mastership: &Mastership) -> bool {
        true
    }

    fn admits_all(&self) -> bool {
        self.0
    }
}

fn switch() -> Firmware {
    let mut switch = Firmware::new(NO_HOST | 1, 1);
    switch.port(0, PORT, Port { peer: HOST, speed: 4, width: 8, excluded: false });
    switch
}

/// What a host says that has changed the mode.
fn word() -> Vec<u8> {
    let state =
        State { mastership: Mastership { term: 0, master: HOST }, life: 1, ..State::default() };
    let message = Message { number: 1, seen: 0, again: false, state };
    let mut bytes = [0; MAX_BYTES];
    let len = message.encode(&mut bytes);
    bytes[..len].to_vec()
}

#[test]
fn p_5_a_switch_follows_a_host_into_the_mode_of_a_large_fabric_and_answers() {
    let mut switch = switch();
    assert!(!switch.is_large());
    let mut said = switch.receive(10, PORT, &word(), &mut Around(true));
    assert!(switch.is_large());
    said.extend(switch.tick(60));
    let answers =
        |action: &Action| matches!(action, Action::Send(PORT, data) if data.starts_with(&MAGIC));
    assert!(said.iter().any(answers), "{said:?}");
}

#[test]
fn p_5_a_switch_that_not_every_host_may_manage_does_not_follow() {
    let mut switch = switch();
    assert_eq!(switch.receive(10, PORT, &word(), &mut Around(false)), []);
    assert!(!switch.is_large());
}

#[test]
fn p_5_a_word_from_a_port_without_a_neighbour_changes_nothing() {
    let mut switch = switch();
    assert_eq!(switch.receive(10, PORT + 1, &word(), &mut Around(true)), []);
    assert!(!switch.is_large());
}
