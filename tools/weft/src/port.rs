// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A port of this host: what it is, its links, and the way to listeners and channels.

use crate::abi;
use crate::assignments::{
    AssignmentStatus, Assignments, assignment_statuses, assignments, set_assignments,
};
use crate::channel::Channel;
use crate::component::{Component, components};
use crate::connect::Connect;
use crate::device::open_file;
use crate::endpoint::{Function, FunctionOptions};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, FabricRoute, fabric, routes};
use crate::hierarchy::{Hierarchy, hierarchy};
use crate::ioctl::Ioctl;
use crate::link::{Link, LinkState, link_if_any, links};
use crate::listener::Listener;
use crate::migrate::{Migrate, Migration, Other, migrate};
use crate::objects::Objects;
use crate::slot::{Slot, announce, slots};
use crate::time::{Deadline, sleep};
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fstat, major, minor};
use rustix::io::Errno;
use std::fs::{File, read_dir};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

const FOLDER: &str = "/dev";

/// Kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortKind {
    /// A Weft port.
    Weft,
    /// ivshmem-doorbell.
    Ivshmem,
    /// A kind that this library does not know.
    Other(u32),
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PortKind::Weft => "weft",
            PortKind::Ivshmem => "ivshmem",
            PortKind::Other(_) => "unknown",
        })
    }
}

/// What keeps a peer to what it was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// The owner's device, on each access.
    pub device: bool,
    /// The aperture holds granted pages only.
    pub aperture: bool,
    /// The kernel copies out of a ring of its own.
    pub bounce: bool,
}

impl Protection {
    /// Of a mask of `WEFT_PROT_*`.
    fn of(mask: u32) -> Self {
        Protection {
            device: mask & abi::WEFT_PROT_DEVICE != 0,
            aperture: mask & abi::WEFT_PROT_APERTURE != 0,
            bounce: mask & abi::WEFT_PROT_BOUNCE != 0,
        }
    }

    /// Names of what there is, best first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [(self.device, "device"), (self.aperture, "aperture"), (self.bounce, "bounce")]
            .into_iter()
            .filter_map(|(is, name)| is.then_some(name))
    }
}

/// What guards what, of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Guards arenas, and the channels in them.
    pub channels: Protection,
    /// Guards registered memory.
    pub memory: Protection,
    /// Guards doorbells.
    pub doorbells: Protection,
}

impl Guards {
    /// Of the mask that the driver tells; `None`: it is one that does not say, as those of version 1
    /// did not.
    fn of(mask: u32) -> Option<Self> {
        let of = |shift| Protection::of((mask >> shift) & abi::WEFT_PROT_MASK);
        (mask & !abi::WEFT_PROT_MASK != 0).then(|| Guards {
            channels: of(abi::WEFT_PROT_CHANNELS),
            memory: of(abi::WEFT_PROT_MEMORY),
            doorbells: of(abi::WEFT_PROT_DOORBELLS),
        })
    }
}

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortInfo {
    /// Its kind.
    pub kind: PortKind,
    /// Changes with every reset of the port.
    pub generation: u32,
    /// Hardware id, unique in the fabric.
    pub hwid: u64,
    /// Local id, if it has one.
    pub lid: Option<u32>,
    /// Links that it has, numbered from 0.
    pub links: u32,
    /// What keeps a peer to what it was granted, all together.
    pub protection: Protection,
    /// The same by what is guarded; `None` if the driver does not say.
    pub guards: Option<Guards>,
}

/// A port of this host.
#[derive(Debug)]
pub struct Port {
    path: PathBuf,
    file: OwnedFd,
}

impl Port {
    /// The numbers of the ports that this host has, lowest first.
    pub fn list() -> Result<Vec<u32>> {
        let failed = |e| Error::os("reading /dev", e);
        let mut numbers = Vec::new();
        for entry in read_dir(FOLDER).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            numbers.extend(name.to_str().and_then(number));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens `/dev/weft<number>`.
    pub fn open(number: u32) -> Result<Self> {
        Self::open_path(Path::new(FOLDER).join(format!("weft{number}")))
    }

    /// Opens a port by the path of its device file.
    pub fn open_path(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = open_file(&path, OFlags::empty())?;
        let port = Port { path, file };
        match port.info() {
            Err(Error::Os { source, .. })
                if Errno::from_io_error(&source) == Some(Errno::NOTTY) =>
            {
                Err(Error::NoPort(port.path))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(port),
        }
    }

    /// The port of this host that has this hardware id now. A virtual function that is moved takes its
    /// id along, so this is how a program finds it again.
    pub fn find(hwid: u64) -> Result<Option<Self>> {
        for number in Self::list()? {
            // One that goes in this moment, or that is another user's, is not it.
            let Ok(port) = Self::open(number) else { continue };
            if port.info().is_ok_and(|info| info.hwid == hwid) {
                return Ok(Some(port));
            }
        }
        Ok(None)
    }

    /// Whether programs that use the port are to finish, as it is about to be taken away: what they
    /// have begun goes on, and nothing new can be begun. Waits for that; any time without `timeout`.
    pub fn wait_asked(&self, timeout: Option<Duration>) -> Result<bool> {
        sleep(self.file.as_fd(), PollFlags::PRI, Deadline::after(timeout))
    }

    /// Moves a virtual function of this port to one of `target`, which may be this one.
    pub fn migrate(&self, assignment: &Migrate, target: &Port) -> Result<Migration> {
        migrate(self.file.as_fd(), Other::Port(target.file.as_fd()), assignment)
    }

    /// Moves a virtual function of this port to one of another host, which receives it
    /// ([`Port::receive`]). `target` is the hardware id of that one.
    pub fn migrate_far(&self, options: &Migrate, target: u64) -> Result<Migration> {
        migrate(self.file.as_fd(), Other::Far(target), options)
    }

    /// Has a virtual function of this port, that of `options`, take the place of another host's, once that host
    /// asks for it. `from` is the hardware id that may come, 0 for any.
    pub fn receive(&self, options: &Migrate, from: u64) -> Result<Migration> {
        migrate(self.file.as_fd(), Other::Source(from), options)
    }

    /// The path of its device file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn info(&self) -> Result<PortInfo> {
        let mut info = abi::weft_port_info::default();
        info.call(self.file.as_fd()).map_err(|e| Error::os("asking for the port", e))?;
        Ok(PortInfo {
            kind: match info.kind {
                abi::WEFT_PORT_WEFT => PortKind::Weft,
                abi::WEFT_PORT_IVSHMEM => PortKind::Ivshmem,
                other => PortKind::Other(other),
            },
            generation: info.generation,
            hwid: info.hwid,
            lid: (info.lid != 0).then_some(info.lid),
            links: info.links,
            protection: Protection::of(info.protection),
            guards: Guards::of(info.protection),
        })
    }

    /// The nodes of the fabric, as the manager of this port knows it; `None` if it has none.
    pub fn fabric(&self) -> Result<Option<Fabric>> {
        fabric(self.file.as_fd())
    }

    /// The routes that the port has now; `None` if it has no manager.
    pub fn routes(&self) -> Result<Option<Vec<FabricRoute>>> {
        routes(self.file.as_fd())
    }

    /// Which endpoint is to be whose, as this host keeps it; `None` if it has no manager. Every user of
    /// the port may read it.
    pub fn assignments(&self) -> Result<Option<Assignments>> {
        assignments(self.file.as_fd())
    }

    /// Replaces the assignments whose version `assignments` has by its text, and gives it that of the new ones;
    /// `false` if the port has no manager. The text is taken whole or not at all.
    ///
    /// [`Error::NotMaster`], [`Error::NoMaster`]: only the master takes it. [`Error::Stale`]: another program
    /// else was faster. [`Error::Privilege`]. [`Error::AssignmentLine`], [`Error::AssignmentRoom`]: because of this
    /// line.
    pub fn set_assignments(&self, assignments: &mut Assignments) -> Result<bool> {
        set_assignments(self.file.as_fd(), assignments)
    }

    /// What became of each assignment, by endpoint; `None` if the port has no manager.
    /// [`Error::NotMaster`]: only the master knows.
    pub fn assignment_statuses(&self) -> Result<Option<Vec<AssignmentStatus>>> {
        assignment_statuses(self.file.as_fd())
    }

    /// What the master has found in the fabric; `None` if the port has no manager.
    /// [`Error::NotMaster`]; [`Error::Privilege`].
    pub fn components(&self) -> Result<Option<Vec<Component>>> {
        components(self.file.as_fd())
    }

    /// The ports of all switches, as their hot-plug controllers see them; `None` if the port has no manager.
    /// [`Error::NotMaster`]; [`Error::Privilege`].
    pub fn slots(&self) -> Result<Option<Vec<Slot>>> {
        slots(self.file.as_fd())
    }

    /// Has the hot-plug controller of a port of a switch, by its hardware id, announce that a component will be
    /// put in; if not `coming`, withdraws that. `false` if this port has no manager. The switch keeps it until
    /// the component comes.
    ///
    /// [`Error::NotMaster`]; [`Error::Privilege`]; [`Error::NoSlot`]; [`Error::Occupied`]: a component is there
    /// already. [`Error::Unreachable`]: the switch does not answer.
    pub fn announce(&self, switch: u64, port: u32, coming: bool) -> Result<bool> {
        announce(self.file.as_fd(), switch, port, coming)
    }

    /// The virtual hierarchy of this host, or, at the master, of the one with hardware id `root`; `None`
    /// if the port has no manager. Of another host: [`Error::NotMaster`], [`Error::Privilege`],
    /// [`Error::NoHost`].
    pub fn hierarchy(&self, root: Option<u64>) -> Result<Option<Hierarchy>> {
        hierarchy(self.file.as_fd(), root)
    }

    /// One of its links, as it is now.
    pub fn link(&self, number: u32) -> Result<Link> {
        self.link_if_any(number)?.ok_or_else(|| {
            Error::Invalid(format!("{}: there is no link {number}", self.path.display()))
        })
    }

    /// The same; `None` if there is no such link.
    fn link_if_any(&self, number: u32) -> Result<Option<Link>> {
        link_if_any(self.file.as_fd(), number)
    }

    /// All of its links, as they are now: those to neighbours, and those over routes, which lead to hosts
    /// that a program has connected to of late, or that have connected to this one.
    pub fn links(&self) -> Result<Vec<Link>> {
        links(self.file.as_fd())
    }

    /// Waits until link `number` is in `state`; any time without `timeout`.
    pub fn wait_link(
        &self,
        number: u32,
        state: LinkState,
        timeout: Option<Duration>,
    ) -> Result<Link> {
        let deadline = Deadline::after(timeout);
        let failed = |e| Error::os("watching a link in sysfs", e);
        self.link(number)?;
        let file = File::open(self.attribute(number)?).map_err(failed)?;
        loop {
            // Sysfs tells of changes since it was read last: to be read first, then asked.
            match file.read_at(&mut [0; 64], 0) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed(e)),
            }
            let link = self.link(number)?;
            if link.state == state {
                return Ok(link);
            }
            if !sleep(file.as_fd(), PollFlags::PRI, deadline)? {
                return Err(Error::TimedOut("waiting for the link"));
            }
        }
    }

    /// Where sysfs shows the state of a link.
    fn attribute(&self, link: u32) -> Result<PathBuf> {
        let device = fstat(&self.file).map_err(|e| Error::os("fstat", e.into()))?.st_rdev;
        let (major, minor) = (major(device), minor(device));
        Ok(format!("/sys/dev/char/{major}:{minor}/device/link{link}/state").into())
    }

    /// Listens on `service`; up to `backlog` connections may wait to be accepted.
    pub fn listen(&self, service: u32, backlog: u32) -> Result<Listener> {
        Listener::new(&self.path, service, backlog)
    }

    /// A file for objects: protection domains, memory, queues.
    pub fn objects(&self) -> Result<Objects> {
        Ok(Objects::new(open_file(&self.path, OFlags::empty())?))
    }

    /// Opens a function of a shared endpoint, which no other program can use meanwhile.
    pub fn function(&self, options: &FunctionOptions) -> Result<Function> {
        Function::open(open_file(&self.path, OFlags::empty())?, options)
    }

    /// Connects to a listener on another host.
    pub fn connect(&self, connect: &Connect) -> Result<Channel> {
        connect.connect(&self.path)
    }
}

/// The number in the name of a device file.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("weft")?;
    let number = digits.parse().ok()?;
    // Not "+1", nor "01".
    (format!("{number}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_files_are_known_by_name() {
        assert_eq!(number("weft0"), Some(0));
        assert_eq!(number("weft17"), Some(17));
        for name in ["weft", "weft+1", "weft01", "weft-1", "weft1p", "wef1", "weft99999999999"] {
            assert_eq!(number(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_port_is_reported() {
        assert!(matches!(Port::open_path("/dev/null"), Err(Error::NoPort(_))));
        let missing = Port::open_path("/dev/weft-missing");
        let Err(error @ Error::NoPort(_)) = missing else { panic!("{missing:?}") };
        assert_eq!(error.to_string(), "/dev/weft-missing: there is no such port");
        assert!(error.hint().is_some_and(|hint| hint.contains("lspci -d 1234:7ef7")));
    }

    #[test]
    fn guards_are_told_by_what_they_guard() {
        let (device, aperture, bounce) =
            (abi::WEFT_PROT_DEVICE, abi::WEFT_PROT_APERTURE, abi::WEFT_PROT_BOUNCE);
        let mask = device
            | aperture
            | bounce
            | ((device | aperture) << abi::WEFT_PROT_CHANNELS)
            | (bounce << abi::WEFT_PROT_MEMORY)
            | (device << abi::WEFT_PROT_DOORBELLS);
        let names = |p: Protection| p.names().collect::<Vec<_>>();
        let guards = Guards::of(mask).expect("the driver says");
        assert_eq!(names(guards.channels), ["device", "aperture"]);
        assert_eq!(names(guards.memory), ["bounce"]);
        assert_eq!(names(guards.doorbells), ["device"]);
        assert_eq!(names(Protection::of(mask)), ["device", "aperture", "bounce"]);
    }

    #[test]
    fn a_driver_of_version_1_does_not_say_what_guards_what() {
        assert_eq!(Guards::of(abi::WEFT_PROT_DEVICE | abi::WEFT_PROT_APERTURE), None);
    }
}
