// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One thing that has happened, and how two looks at sysfs become such things.

use super::object::Object;
use super::state::State;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// What happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is there, as it is; the first that is heard of it.
    Seen(State),
    /// One of its files has another value; `None`: there is no such file.
    Changed {
        /// Which file.
        attribute: &'static str,
        /// What it was.
        old: Option<String>,
        /// What it is.
        new: Option<String>,
    },
    /// It is no more.
    Gone,
    /// The kernel says so itself, with what it says besides.
    Kernel {
        /// add, remove, bind, unbind, change …
        action: String,
        /// What the driver has added: `WEFT_…`.
        says: BTreeMap<String, String>,
    },
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// To what.
    pub object: Object,
    /// What.
    pub what: What,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time_ms", &self.time_ms)?;
        map.serialize_entry("object", &self.object.to_string())?;
        if let Object::Port(name) | Object::Link(name, _) = &self.object {
            map.serialize_entry("port", name)?;
        }
        if let Object::Link(_, n) = &self.object {
            map.serialize_entry("link", n)?;
        }
        match &self.what {
            What::Seen(state) => {
                map.serialize_entry("event", "seen")?;
                map.serialize_entry("state", state)?;
            }
            What::Changed { attribute, old, new } => {
                map.serialize_entry("event", "changed")?;
                map.serialize_entry("attribute", attribute)?;
                map.serialize_entry("old", old)?;
                map.serialize_entry("new", new)?;
            }
            What::Gone => map.serialize_entry("event", "gone")?,
            What::Kernel { action, says } => {
                map.serialize_entry("event", "kernel")?;
                map.serialize_entry("action", action)?;
                map.serialize_entry("says", says)?;
            }
        }
        map.end()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<14} ", clock(self.time_ms), self.object.to_string())?;
        match &self.what {
            What::Seen(State(all)) => {
                let all: Vec<_> =
                    all.iter().map(|(name, value)| format!("{name} {value}")).collect();
                write!(f, "is there: {}", all.join(", "))
            }
            What::Changed { attribute, old, new } => {
                let or_none = |value: &Option<String>| value.clone().unwrap_or("-".into());
                write!(f, "{attribute}: {} -> {}", or_none(old), or_none(new))
            }
            What::Gone => f.write_str("is gone"),
            What::Kernel { action, says } => {
                if let Some(words) = plugged(says).or_else(|| failed(says)) {
                    return f.write_str(&words);
                }
                write!(f, "kernel: {action}")?;
                says.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
        }
    }
}

/// What a hot-plug controller of a switch has told, in words.
fn plugged(says: &BTreeMap<String, String>) -> Option<String> {
    let said = |name: &str| says.get(name).map(String::as_str);
    let what = match said("WEFT_PLUG")? {
        "came" => "something was put in",
        "went" => "what was there was taken out",
        "announced" => "something is announced",
        other => other,
    };
    Some(format!("switch {} port {}: {what}", said("WEFT_SWITCH")?, said("WEFT_SWITCH_PORT")?))
}

/// What a driver has told of a function of a shared endpoint, in words.
fn failed(says: &BTreeMap<String, String>) -> Option<String> {
    let said = |name: &str| says.get(name).map(String::as_str);
    let (what, endpoint) = (said("WEFT_FAILURE")?, said("WEFT_ENDPOINT")?);
    let (ve, function) = (said("WEFT_VE")?, said("WEFT_FUNCTION")?);
    Some(format!(
        "endpoint {endpoint}: function {function} of virtual endpoint {ve} has failed: {what}"
    ))
}

/// Time of day in UTC, as `weft-fabric` writes it.
fn clock(time_ms: u64) -> String {
    let (s, ms) = (time_ms / 1000, time_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", s / 3600 % 24, s / 60 % 60, s % 60)
}

/// What has happened between two looks, in the order of the objects.
pub fn between(
    before: &BTreeMap<Object, State>,
    after: &BTreeMap<Object, State>,
) -> Vec<(Object, What)> {
    let mut all = Vec::new();
    let gone = before.keys().filter(|object| !after.contains_key(object));
    all.extend(gone.map(|object| (object.clone(), What::Gone)));
    for (object, state) in after {
        match before.get(object) {
            None => all.push((object.clone(), What::Seen(state.clone()))),
            Some(old) => all.extend(changes(old, state).map(|what| (object.clone(), what))),
        }
    }
    all
}

fn changes<'a>(before: &'a State, after: &'a State) -> impl Iterator<Item = What> + 'a {
    let lost = before.0.iter().filter(|(name, _)| after.get(name).is_none());
    let names = after.0.iter().chain(lost).map(|(name, _)| *name);
    names.filter_map(|attribute| {
        let (old, new) = (before.get(attribute), after.get(attribute));
        let changed =
            || What::Changed { attribute, old: old.map(String::from), new: new.map(String::from) };
        (old != new).then(changed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(all: &[(&'static str, &str)]) -> State {
        State(all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    fn link(n: u32) -> Object {
        Object::Link("weft0".into(), n)
    }

    #[test]
    fn what_lies_between_two_looks() {
        let before = [
            (link(0), state(&[("state", "ready"), ("speed", "4")])),
            (link(1), state(&[("state", "down")])),
        ];
        let after = [
            (link(0), state(&[("state", "down"), ("speed", "4"), ("width", "0")])),
            (link(2), state(&[("state", "hello")])),
        ];
        let (before, after) = (before.into(), after.into());
        let said: Vec<_> = between(&before, &after)
            .into_iter()
            .map(|(object, what)| Event { time_ms: 3_723_004, object, what }.to_string())
            .collect();
        assert_eq!(
            said,
            [
                "01:02:03.004Z weft0 link 1   is gone",
                "01:02:03.004Z weft0 link 0   state: ready -> down",
                "01:02:03.004Z weft0 link 0   width: - -> 0",
                "01:02:03.004Z weft0 link 2   is there: state hello",
            ]
        );
        assert_eq!(between(&after, &after), []);
        let back = between(&after, &before);
        let lost = What::Changed { attribute: "width", old: Some("0".into()), new: None };
        assert!(back.contains(&(link(0), lost)), "{back:?}");
    }

    #[test]
    fn hp_1_what_is_plugged_is_said_in_words() {
        let says = |what: &str| {
            let pairs = [
                ("WEFT_PLUG", what),
                ("WEFT_SWITCH", "0x8000000000000011"),
                ("WEFT_SWITCH_PORT", "3"),
            ];
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        let object = Object::Function("0000:01:00.0".into());
        let said = |what: &str| {
            let what = What::Kernel { action: "change".into(), says: says(what) };
            Event { time_ms: 0, object: object.clone(), what }.to_string()
        };
        assert_eq!(
            said("came"),
            "00:00:00.000Z 0000:01:00.0   switch 0x8000000000000011 port 3: something was put in"
        );
        assert!(said("went").ends_with("port 3: what was there was taken out"));
        assert!(said("announced").ends_with("port 3: something is announced"));
    }

    #[test]
    fn mr_7_what_has_failed_is_said_in_words() {
        let says = [
            ("WEFT_FAILURE", "work-queue"),
            ("WEFT_ENDPOINT", "0xc000000000000011"),
            ("WEFT_VE", "2"),
            ("WEFT_FUNCTION", "1"),
        ];
        let says = says.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let what = What::Kernel { action: "change".into(), says };
        let object = Object::Function("0000:01:00.0".into());
        assert_eq!(
            Event { time_ms: 0, object, what }.to_string(),
            "00:00:00.000Z 0000:01:00.0   endpoint 0xc000000000000011: function 1 of virtual \
             endpoint 2 has failed: work-queue"
        );
    }

    #[test]
    fn json_names_the_object_and_its_parts() {
        let json =
            |object, what| serde_json::to_value(Event { time_ms: 5, object, what }).expect("JSON");
        let changed =
            What::Changed { attribute: "state", old: Some("down".into()), new: Some("up".into()) };
        assert_eq!(
            json(link(3), changed),
            serde_json::json!({"time_ms": 5, "object": "weft0 link 3", "port": "weft0", "link": 3,
                "event": "changed", "attribute": "state", "old": "down", "new": "up"})
        );
        let says = [("WEFT_LID".to_owned(), "2".to_owned())].into();
        let kernel = What::Kernel { action: "change".into(), says };
        assert_eq!(
            json(Object::Function("0000:01:00.0".into()), kernel),
            serde_json::json!({"time_ms": 5, "object": "0000:01:00.0", "event": "kernel",
                "action": "change", "says": {"WEFT_LID": "2"}})
        );
        assert_eq!(
            json(Object::Port("weft1".into()), What::Seen(state(&[("hwid", "0x7")]))),
            serde_json::json!({"time_ms": 5, "object": "weft1", "port": "weft1", "event": "seen",
                "state": {"hwid": "0x7"}})
        );
    }
}
