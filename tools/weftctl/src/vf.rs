// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The virtual functions of a port, by the files that the driver has of each in
//! sysfs. Knows nothing of how they are shown.

use crate::channel::no_port;
use crate::failure::{Failure, Kind, plain};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a quota is of, by the names of its files.
pub const NAMES: [&str; 10] = [
    "slots",
    "apertures",
    "doorbells",
    "pages",
    "bytes",
    "links",
    "channels",
    "peers",
    "rate",
    "rings",
];

/// A virtual function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vf {
    /// The port of its physical function.
    pub port: String,
    /// Its number there.
    pub vf: u32,
    /// off, idle, driven or used.
    pub state: String,
    /// Its address, if it is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its own device file, if this host's driver has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What it may use.
    pub quota: Quota,
    /// What it uses of that.
    pub used: Used,
}

/// What a virtual function may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// Windows onto neighbours.
    pub slots: u64,
    /// Pieces of memory that it opens.
    pub apertures: u64,
    /// That may ring at it.
    pub doorbells: u64,
    /// Doorbell pages, by which it rings.
    pub pages: u64,
    /// Memory that neighbours may reach, all together.
    pub bytes: u64,
    /// A bit a link.
    pub links: u64,
    /// Of the DMA engine.
    pub channels: u64,
    /// A bit a function of a neighbour.
    pub peers: u64,
    /// Bytes that it moves by DMA in a second; 0: any number.
    pub rate: u64,
    /// Doorbells that it rings in a second; 0: any number.
    pub rings: u64,
}

/// What it uses of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// Windows that are open.
    pub slots: u64,
    /// Pieces of memory that neighbours reach.
    pub apertures: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that it has moved by DMA, if the port says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// Doorbells that it has rung, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<u64>,
}

/// A member of a quota, and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// One of [`NAMES`].
    pub name: String,
    /// What it is to be.
    pub value: u64,
}

impl Change {
    /// "links=0x3", "bytes=8M".
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
        if !NAMES.contains(&name) {
            return Err(format!("a quota is of {}", NAMES.join(", ")));
        }
        Ok(Change { name: name.into(), value: number(value)? })
    }
}

/// Decimal or 0x…, with K, M or G of 1024 and so on.
fn number(text: &str) -> Result<u64, String> {
    let shift = match text.bytes().last() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { text.get(..text.len() - 1).unwrap_or_default() };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (digits, 10),
    };
    let wrong = || "not a number, decimal or 0x…, with K, M or G behind it if need be".to_string();
    if digits.starts_with('+') {
        return Err(wrong());
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| wrong())?;
    value.checked_mul(1 << shift).ok_or_else(|| "more than 64 bits".into())
}

/// A port with its directory in sysfs.
pub struct Pf {
    port: String,
    dir: PathBuf,
}

impl Pf {
    /// Of a device file, /dev/weftN.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        Self::below(Path::new("/sys/class/weft"), path)
    }

    fn below(class: &Path, path: &Path) -> Result<Self, Failure> {
        let port = path.display().to_string();
        let dir = class.join(path.file_name().unwrap_or_default()).join("device");
        if !dir.is_dir() {
            return Err(no_port(path));
        }
        Ok(Pf { port, dir })
    }

    /// All that it can have.
    pub fn vfs(&self) -> Result<Vec<Vf>, Failure> {
        (0..self.count()).map(|n| self.vf(n)).collect()
    }

    fn count(&self) -> u32 {
        (0..).take_while(|n| self.of(*n).is_dir()).count() as u32
    }

    fn of(&self, n: u32) -> PathBuf {
        self.dir.join(format!("vf{n}"))
    }

    /// Address of the function.
    pub fn address(&self) -> Result<String, Failure> {
        let link = fs::read_link(&self.dir).map_err(|_| no_port(Path::new(&self.port)))?;
        Ok(link.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    /// One of them.
    pub fn vf(&self, n: u32) -> Result<Vf, Failure> {
        if n >= self.count() {
            return Err(self.no_vf(n));
        }
        self.look(n)
    }

    fn no_vf(&self, n: u32) -> Failure {
        let message = match self.count() {
            0 => format!("{} can have no VFs", self.port),
            count => format!("{} has no VF {n}; they are 0 to {}", self.port, count - 1),
        };
        Failure::new(Kind::Usage, message)
    }

    fn look(&self, n: u32) -> Result<Vf, Failure> {
        let read = |name: &str| -> Result<String, Failure> {
            let text = fs::read_to_string(self.of(n).join(name));
            Ok(text.map_err(|e| self.failure(n, name, &e))?.trim().to_owned())
        };
        let value = |name: &str| {
            number(&read(name)?).map_err(|e| {
                Failure::new(Kind::Failed, format!("VF {n} of {}: {name}: {e}", self.port))
            })
        };
        let function = fs::read_link(self.dir.join(format!("virtfn{n}"))).ok();
        // Its files are those of a PCI function, wherever the link leads.
        let weft = fs::read_dir(self.dir.join(format!("virtfn{n}/weft"))).ok();
        let node = weft.and_then(|mut dir| dir.next()?.ok());
        Ok(Vf {
            port: self.port.clone(),
            vf: n,
            state: read("state")?,
            function: function.and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned())),
            node: node.map(|node| format!("/dev/{}", node.file_name().to_string_lossy())),
            quota: Quota {
                slots: value("slots")?,
                apertures: value("apertures")?,
                doorbells: value("doorbells")?,
                pages: value("pages")?,
                bytes: value("bytes")?,
                links: value("links")?,
                channels: value("channels")?,
                peers: value("peers")?,
                rate: value("rate")?,
                rings: value("rings")?,
            },
            used: Used {
                slots: value("used_slots")?,
                apertures: value("used_apertures")?,
                bytes: value("used_bytes")?,
                moved: value("moved_bytes").ok(),
                rung: value("rung").ok(),
            },
        })
    }

    /// Changes what VF `n` may use, one after the other; gives back how it is then. What a change is
    /// refused after stays.
    pub fn set(&self, n: u32, changes: &[Change]) -> Result<Vf, Failure> {
        if n >= self.count() {
            return Err(self.no_vf(n));
        }
        for change in changes {
            let file = self.of(n).join(&change.name);
            fs::write(file, change.value.to_string())
                .map_err(|e| self.failure(n, &change.name, &e))?;
        }
        self.vf(n)
    }

    fn failure(&self, n: u32, name: &str, e: &io::Error) -> Failure {
        const EINVAL: i32 = 22;
        const ERANGE: i32 = 34;
        const ENODEV: i32 = 19;
        const EOPNOTSUPP: i32 = 95;
        let failed = |kind, what: String| {
            Failure::new(kind, format!("VF {n} of {}: {name}: {what}", self.port))
        };
        let text = plain(io::Error::from(e.kind()));
        match (e.kind(), e.raw_os_error()) {
            (io::ErrorKind::PermissionDenied, _) => failed(Kind::Permission, text)
                .hint("what a VF may use is root's to say (CAP_SYS_ADMIN)"),
            (_, Some(EINVAL)) if name == "rate" => {
                failed(Kind::Usage, "64K a second is the least; 0 is no limit".into())
            }
            (_, Some(EINVAL)) => failed(Kind::Usage, "there is no such link or function".into()),
            (_, Some(EOPNOTSUPP)) => failed(Kind::Usage, "the port knows no rates".into()),
            (_, Some(ERANGE)) => failed(Kind::Usage, "too large".into()),
            (_, Some(ENODEV)) => failed(Kind::NoDevice, "the port does not answer".into()),
            _ => failed(Kind::Failed, text),
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    /// A port with one VF, as sysfs shows it.
    fn port(name: &str) -> PathBuf {
        let top = std::env::temp_dir().join(format!("weftctl-vf-{name}-{}", std::process::id()));
        let dir = top.join("weft0/device");
        let vf = dir.join("vf0");
        fs::create_dir_all(&vf).expect("a folder");
        fs::create_dir_all(top.join("0000:01:02.0/weft/weft2")).expect("a folder");
        let link = dir.join("virtfn0");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("../../0000:01:02.0", link).expect("a link");
        for name in NAMES {
            fs::write(vf.join(name), "4\n").expect("a file");
        }
        for name in ["used_slots", "used_apertures", "used_bytes", "moved_bytes", "rung"] {
            fs::write(vf.join(name), "1\n").expect("a file");
        }
        fs::write(vf.join("links"), "0x000000000000000f\n").expect("a file");
        fs::write(vf.join("state"), "driven\n").expect("a file");
        top
    }

    #[test]
    fn vfs_are_read_and_changed_by_their_files() {
        let top = port("read");
        let pf = Pf::below(&top, Path::new("/dev/weft0")).expect("a port");
        let vfs = pf.vfs().expect("VFs");
        assert_eq!(vfs.len(), 1);
        let vf = &vfs[0];
        assert_eq!((vf.state.as_str(), vf.quota.links, vf.used.bytes), ("driven", 15, 1));
        assert_eq!(vf.function.as_deref(), Some("0000:01:02.0"));
        assert_eq!(vf.node.as_deref(), Some("/dev/weft2"));
        let changes = ["bytes=8M", "links=0x3"].map(|text| Change::parse(text).expect("a change"));
        let vf = pf.set(0, &changes).expect("it is changed");
        assert_eq!((vf.quota.bytes, vf.quota.links), (8 << 20, 3));
        assert_eq!((vf.used.moved, vf.used.rung), (Some(1), Some(1)));
        fs::remove_file(top.join("weft0/device/vf0/rung")).expect("it goes");
        assert_eq!(pf.vf(0).expect("a VF").used.rung, None);
        let failure = pf.set(1, &changes).expect_err("there is one VF");
        assert_eq!(failure.kind, Kind::Usage);
        fs::remove_dir_all(top).expect("it goes");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let top = port("none");
        let failure = Pf::below(&top, Path::new("/dev/weft7")).err().expect("no port");
        assert_eq!(failure.kind, Kind::NoDevice);
        fs::remove_dir_all(top.join("weft0/device/vf0")).expect("it goes");
        let pf = Pf::below(&top, Path::new("/dev/weft0")).expect("a port");
        assert_eq!(pf.vfs().expect("none"), []);
        assert!(pf.set(0, &[]).expect_err("none").message.contains("can have no VFs"));
        fs::remove_dir_all(top).expect("it goes");
    }

    #[test]
    fn changes_are_names_and_numbers() {
        let change = |name: &str, value| Ok(Change { name: name.into(), value });
        assert_eq!(Change::parse("slots=0"), change("slots", 0));
        assert_eq!(Change::parse("bytes=0x10K"), change("bytes", 16 << 10));
        for text in [
            "",
            "slots",
            "slots=",
            "slots=x",
            "slots=-1",
            "slots=+1",
            "=1",
            "state=1",
            "bytes=K",
            "bytes=18446744073709551615G",
            "links=0x",
        ] {
            assert!(Change::parse(text).is_err(), "{text}");
        }
    }
}
