// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hot-plug controllers: a model that is written as its driver says, in every state that it can be in.

#![allow(clippy::unwrap_used)] // A test may.

use weft_proto::mr::slot::{Announced, Controller, Refused, Write};

/// Every state of a controller.
fn all() -> impl Iterator<Item = Controller> {
    (0..32u8).map(|bits| {
        let is = |bit: u8| bits & (1 << bit) != 0;
        Controller {
            occupied: is(0),
            changed: is(1),
            on: is(2),
            announced: is(3),
            up: is(4),
        }
    })
}

/// A physical controller after a write, as Documentation/hardware.rst has it.
fn physical(is: Controller, write: Write) -> Controller {
    let announced = match write.announces {
        Some(true) => is.announced || !is.occupied,
        Some(false) => false,
        None => is.announced,
    };
    Controller {
        on: write.on,
        changed: is.changed && !write.seen,
        announced,
        ..is
    }
}

/// A virtual one: that it was switched is a change that this write cannot acknowledge.
fn virtual_(is: Controller, write: Write) -> Controller {
    let changed = is.changed && !write.seen || is.on != write.on;
    Controller {
        on: write.on,
        changed,
        ..is
    }
}

#[test]
fn hp_1_a_component_is_announced_where_none_is_and_nothing_else_changes() {
    for is in all() {
        let coming = is.announce(true);
        assert_eq!(coming.is_err(), is.occupied, "{is:?}");
        if let Ok(write) = coming {
            let now = physical(is, write);
            assert_eq!(
                now,
                Controller {
                    announced: true,
                    ..is
                }
            );
            assert_eq!(now.announces(true), Ok(()));
            // It comes, at once.
            let came = Controller {
                announced: false,
                occupied: true,
                changed: true,
                ..now
            };
            assert_eq!(came.announces(true), Ok(()));
        }
        let now = physical(is, is.announce(false).unwrap());
        assert_eq!(
            now,
            Controller {
                announced: false,
                ..is
            }
        );
        assert_eq!(now.announces(false), Ok(()));
        assert_eq!(
            physical(is, is.acknowledge()),
            Controller {
                changed: false,
                ..is
            }
        );
    }
    // A controller that knows of no announcements.
    assert_eq!(Controller::default().announces(true), Err(Refused::Ignored));
}

#[test]
fn hp_1_a_hierarchy_is_connected_and_what_has_changed_is_acknowledged() {
    for is in all() {
        let writes: Vec<_> = is.connect().collect();
        let now = writes.iter().fold(is, |is, write| virtual_(is, *write));
        assert!(now.on && !now.changed, "{is:?}: {writes:?}");
        // What is in order is not written.
        assert_eq!(now.connect().count(), 0, "{is:?}");
        assert!(!virtual_(is, Controller::disconnect()).on);
    }
}

#[test]
fn hp_1_users_are_told_once_of_what_is_announced() {
    let (none, one) = (
        Controller::default(),
        Controller {
            announced: true,
            ..Controller::default()
        },
    );
    let mut announced = Announced::default();
    assert!(!announced.is_news(3, none));
    assert!(announced.is_news(3, one), "it was not told yet");
    assert!(announced.is_news(3, one), "nor in the meantime");
    announced.told(3);
    assert!(!announced.is_news(3, one));
    assert!(announced.is_news(4, one), "of another port");
    assert!(!announced.is_news(3, none), "withdrawn, or over");
    assert!(announced.is_news(3, one), "and announced again");
}
