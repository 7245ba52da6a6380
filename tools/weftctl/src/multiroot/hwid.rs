// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Hardware ids, as texts and JSON have them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A hardware id; as text, hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hwid(pub u64);

impl fmt::Display for Hwid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Hwid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hwid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let number = u64::from_str_radix(digits, 16);
        number.map(Hwid).map_err(|_| serde::de::Error::custom("not a hardware id"))
    }
}
