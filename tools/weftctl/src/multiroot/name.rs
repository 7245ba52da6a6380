// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How people call what is in a fabric: by the serial number of its VPD, by its local
//! id, or by its hardware id, which is always understood.

use super::hwid::Hwid;
use super::known::Component;
use crate::failure::{Failure, Kind};

/// Which virtual endpoints of an endpoint are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// It was not said.
    Any,
    /// This one.
    One(u8),
    /// All that it has.
    All,
}

/// Names of what the master has found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a>(&'a [Component]);

impl<'a> Names<'a> {
    /// Of these, if there are any.
    pub fn new(components: Option<&'a [Component]>) -> Self {
        Names(components.unwrap_or_default())
    }

    /// Its serial number, where no other component has the same and it is no word; else its
    /// hardware id. [`Self::find`] understands it.
    pub fn of(&self, hwid: Hwid) -> String {
        self.name(hwid).map_or_else(|| hwid.to_string(), String::from)
    }

    /// The same; `None`: the hardware id.
    pub fn name(&self, hwid: Hwid) -> Option<&'a str> {
        let serial = |c: &&'a Component| c.hwid == hwid && !c.serial_number.is_empty();
        let name = self.0.iter().find(serial)?.serial_number.as_str();
        let word = !name.contains(|c: char| c.is_whitespace() || c == ',');
        (word && self.named(name).len() == 1 && !name.starts_with("0x")).then_some(name)
    }

    /// "endpoint ep1 0xc000…", or without a name.
    pub fn called(&self, kind: &str, hwid: Hwid) -> String {
        match self.name(hwid) {
            Some(name) => format!("{kind} {name} {hwid}"),
            None => format!("{kind} {hwid}"),
        }
    }

    /// A virtual endpoint, as ENDPOINT.VE.
    pub fn ve(&self, endpoint: Hwid, ve: u32) -> String {
        format!("{}.{ve}", self.of(endpoint))
    }

    /// Those that a text may mean: all of that serial number, and the one of that LID.
    fn named(&self, text: &str) -> Vec<&'a Component> {
        let lid = text.parse::<u32>().ok().filter(|lid| *lid != 0);
        let is = |c: &&Component| c.serial_number == text || lid == Some(c.lid);
        self.0.iter().filter(is).collect()
    }

    /// The hardware id of a `kind` (host, endpoint) of that name. A hardware id need not have
    /// been found: an assignment may be there before its endpoint.
    pub fn find(&self, text: &str, kind: &str) -> Result<Hwid, Failure> {
        let usage = |message: String| Failure::new(Kind::Usage, message);
        if let Some(hwid) = hwid(text) {
            let found = self.0.iter().find(|component| component.hwid == hwid);
            return match found.filter(|component| component.kind != kind) {
                None => Ok(hwid),
                Some(other) => Err(usage(format!("{hwid} is {}, no {kind}", a(&other.kind)))),
            };
        }
        let (fits, others): (Vec<_>, Vec<_>) =
            self.named(text).into_iter().partition(|component| component.kind == kind);
        let ids = |all: &[&Component]| {
            let ids: Vec<_> = all.iter().map(|c| c.hwid.to_string()).collect();
            ids.join(", ")
        };
        match (fits.as_slice(), others.as_slice()) {
            ([one], _) => Ok(one.hwid),
            ([], []) => Err(usage(format!("there is no {kind} {text}")).hint(self.known(kind))),
            ([], [other, ..]) => Err(usage(format!("{text} is {}, no {kind}", a(&other.kind)))),
            (several, _) => {
                let what = format!("{text} may be {} {kind}s", several.len());
                Err(usage(what).hint(format!("name one by its hardware id: {}", ids(several))))
            }
        }
    }

    /// ENDPOINT, ENDPOINT.VE or ENDPOINT.all; points may be in a name, too.
    pub fn target(&self, text: &str) -> Result<(Hwid, Which), Failure> {
        let whole = self.find(text, "endpoint");
        if whole.is_ok() {
            return whole.map(|hwid| (hwid, Which::Any));
        }
        let Some((endpoint, ve)) = text.rsplit_once('.') else {
            return whole.map(|hwid| (hwid, Which::Any));
        };
        let which = match ve {
            "all" => Which::All,
            number => match number.parse() {
                Ok(number) => Which::One(number),
                Err(_) => {
                    let message = format!("{text}: behind the point stands 0 to 255, or all");
                    return Err(Failure::new(Kind::Usage, message));
                }
            },
        };
        Ok((self.find(endpoint, "endpoint")?, which))
    }

    /// What there is of a kind, for a mistyped name.
    fn known(&self, kind: &str) -> String {
        let of_kind = self.0.iter().filter(|component| component.kind == kind);
        let names: Vec<_> = of_kind.map(|component| self.of(component.hwid)).collect();
        match names.as_slice() {
            [] => format!("no {kind} was found; one that will come has a hardware id, 0x…"),
            names => format!("there are {}", names.join(", ")),
        }
    }
}

/// A kind with its article.
fn a(kind: &str) -> String {
    let article = if kind.starts_with('e') { "an" } else { "a" };
    format!("{article} {kind}")
}

/// 0x and digits.
fn hwid(text: &str) -> Option<Hwid> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (number != 0 && !digits.starts_with('+')).then_some(Hwid(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(kind: &str, hwid: u64, lid: u32, serial: &str) -> Component {
        Component {
            kind: kind.into(),
            hwid: Hwid(hwid),
            lid,
            serial_number: serial.into(),
            ..Component::default()
        }
    }

    fn all() -> Vec<Component> {
        vec![
            component("host", 1, 1, "rc1"),
            component("host", 2, 2, "rc2"),
            component("switch", 0x101, 3, "sw1"),
            component("endpoint", 0x201, 4, "ep1"),
            component("endpoint", 0x202, 5, "ep.2"),
            // A serial number that is also a LID, two that are the same, one that is a text.
            component("endpoint", 0x203, 6, "4"),
            component("endpoint", 0x204, 7, "twin"),
            component("endpoint", 0x205, 8, "twin"),
            component("endpoint", 0x206, 9, "ab cd"),
            component("endpoint", 0x207, 0, ""),
        ]
    }

    #[test]
    fn mr_3_components_are_named_by_serial_number_lid_and_hardware_id() {
        let all = all();
        let names = Names::new(Some(&all));
        for (text, kind, wanted) in [
            ("rc2", "host", 2),
            ("2", "host", 2),
            ("0x2", "host", 2),
            ("ep1", "endpoint", 0x201),
            ("5", "endpoint", 0x202),
            ("6", "endpoint", 0x203),
            ("0xc000000000000001", "endpoint", 0xc000_0000_0000_0001),
        ] {
            assert_eq!(names.find(text, kind).ok(), Some(Hwid(wanted)), "{text}");
        }
        for (text, kind, words) in [
            ("ep9", "endpoint", "there is no endpoint ep9: there are ep1, ep.2, 0x203, 0x204"),
            ("0", "host", "there is no host 0: there are rc1, rc2"),
            ("rc1", "endpoint", "rc1 is a host, no endpoint"),
            ("ep1", "host", "ep1 is an endpoint, no host"),
            ("0x201", "host", "0x201 is an endpoint, no host"),
            ("0x101", "host", "0x101 is a switch, no host"),
            ("4", "endpoint", "4 may be 2 endpoints: name one by its hardware id: 0x201, 0x203"),
            ("twin", "endpoint", "by its hardware id: 0x204, 0x205"),
        ] {
            let failure = names.find(text, kind).expect_err(text);
            assert!(failure.to_string().contains(words), "{failure}");
            assert_eq!(failure.kind, Kind::Usage);
        }
        // Whatever a component is called, that is how it is found.
        for component in &all {
            let name = names.of(component.hwid);
            assert_eq!(names.find(&name, &component.kind).ok(), Some(component.hwid), "{name}");
        }
        assert_eq!(names.of(Hwid(9)), "0x9");
        assert!(Names::default().find("ep1", "endpoint").is_err());
    }

    #[test]
    fn a_virtual_endpoint_stands_behind_a_point() {
        let all = all();
        let names = Names::new(Some(&all));
        for (text, wanted) in [
            ("ep1", (0x201, Which::Any)),
            ("ep1.0", (0x201, Which::One(0))),
            ("4.255", (0, Which::Any)),
            ("5.255", (0x202, Which::One(255))),
            ("ep.2", (0x202, Which::Any)),
            ("ep.2.1", (0x202, Which::One(1))),
            ("ep1.all", (0x201, Which::All)),
            ("0xc0de.3", (0xc0de, Which::One(3))),
        ] {
            let found = names.target(text).ok();
            let wanted = Some((Hwid(wanted.0), wanted.1)).filter(|(hwid, _)| hwid.0 != 0);
            assert_eq!(found, wanted, "{text}");
        }
        let failure = names.target("ep1.256").expect_err("no VE");
        assert!(failure.message.contains("0 to 255, or all"), "{failure}");
        assert!(names.target("rc1.0").expect_err("a host").message.contains("rc1 is a host"));
    }
}
