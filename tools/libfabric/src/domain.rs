// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Domains: a port of this host each, named as its device file. What a program opens in one is in `tree.rs`.

use crate::attendant::Attendant;
use crate::deferred::Deferred;
use crate::fabric::Fabric;
use crate::regions::Regions;
use std::path::Path;
use std::sync::Arc;
use weft::Port;

/// A domain.
#[derive(Debug)]
pub struct Domain {
    pub port: Port,
    /// The version of the interface that the program uses.
    pub api: u32,
    /// What it was opened for.
    pub caps: u64,
    pub regions: Regions,
    /// What waits for counters.
    pub deferred: Arc<Deferred>,
    /// Looks after its endpoints while something is to begin.
    pub attendant: Arc<Attendant>,
    _fabric: Arc<Fabric>,
}

impl Domain {
    /// Opens the port that a domain is named after; `None`: no port has such a name.
    pub fn new(
        name: &str,
        (api, caps): (u32, u64),
        fabric: Arc<Fabric>,
    ) -> Option<weft::Result<Self>> {
        let port = Port::open_path(Path::new(&path_of(name)?));
        Some(port.map(|port| {
            let (regions, attendant) = (Regions::default(), Arc::new(Attendant::default()));
            let deferred = Deferred::new(attendant.clone());
            Domain { port, api, caps, regions, deferred, attendant, _fabric: fabric }
        }))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.attendant.end();
    }
}

/// The path of a port by the name of its domain; `None`: no port has such a name.
fn path_of(name: &str) -> Option<String> {
    let number = name.strip_prefix("weft").filter(|rest| !rest.is_empty())?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then(|| format!("/dev/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_ports() {
        assert_eq!(path_of("weft0").as_deref(), Some("/dev/weft0"));
        assert_eq!(path_of("weft12").as_deref(), Some("/dev/weft12"));
        for name in ["weft", "weft0/../null", "eth0", "", "weftx", "0"] {
            assert_eq!(path_of(name), None);
        }
    }
}
