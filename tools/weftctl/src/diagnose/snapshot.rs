// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What there is to see of Weft on a host at one moment: plain data, that the
//! checks draw their conclusions from. It can be kept in a file, so that what one
//! host shows can be judged at another, and by tests.

use crate::multiroot::Known;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Release of the running kernel.
    pub kernel: String,
    /// Words of the kernel's command line.
    pub command_line: Vec<String>,
    /// The module.
    pub module: Module,
    /// Functions that are Weft ports, or ivshmem.
    pub functions: Vec<Function>,
    /// Device files, present or to be expected.
    pub nodes: Vec<Node>,
    /// The caller.
    pub user: User,
    /// Lines of the kernel's log that are about any of this, oldest first.
    /// `None`: it could not be read.
    pub log: Option<Vec<String>>,
    /// What could not be looked at.
    pub unseen: Vec<Unseen>,
}

/// The module `weft`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// It is loaded.
    pub loaded: bool,
    /// `modprobe` finds it for the running kernel.
    pub installed: bool,
    /// Other kernels that it is installed for.
    pub other_kernels: Vec<String>,
    /// The kernel takes signed modules only.
    pub signed_only: bool,
    /// Letters of its taint of the kernel.
    pub taint: String,
}

/// A PCI function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Function {
    /// Domain, bus, device and function, as 0000:01:00.0.
    pub address: String,
    /// Weft, or a device that the driver takes if it is told to.
    pub family: Family,
    /// The driver that is bound.
    pub driver: Option<String>,
    /// The only driver that may bind, if that was set.
    pub driver_override: Option<String>,
    /// D0 if it has power.
    pub power: Option<String>,
    /// The vendor id in its configuration space, read now: all ones if it does
    /// not answer.
    pub vendor_now: Option<u16>,
    /// Its command register.
    pub command: Option<u16>,
    /// Its base address registers 0 to 5.
    pub bars: Vec<Bar>,
    /// Vectors of its MSI-X table; only root may read that far.
    pub vectors: Option<u32>,
    /// Vectors that its driver has.
    pub vectors_in_use: u32,
    /// Speed and width of the slot it sits in.
    pub slot: Option<Rate>,
    /// The most that the function and its slot can.
    pub slot_max: Option<Rate>,
    /// Errors that the bus has reported, by severity (correctable, nonfatal,
    /// fatal) and kind, those that are not 0.
    pub aer: BTreeMap<String, BTreeMap<String, u64>>,
    /// Interrupts that have reached a processor, of all vectors.
    pub interrupts: Option<u64>,
    /// What the driver shows.
    pub port: Option<Port>,
    /// Its virtual functions, those that are enabled.
    pub vfs: Vec<Vf>,
}

/// Which driver a function is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// A Weft port.
    #[default]
    Weft,
    /// QEMU's ivshmem-doorbell, or -plain.
    Ivshmem,
}

/// A base address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bar {
    /// First address.
    pub start: u64,
    /// Last address.
    pub end: u64,
    /// `IORESOURCE_*`.
    pub flags: u64,
}

/// Speed and width of a PCI Express link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// GT/s.
    pub speed: f64,
    /// Lanes.
    pub width: u32,
}

/// What the driver shows of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Name of its device file, as weft0.
    pub name: String,
    /// Hardware id, as it is written.
    pub hwid: String,
    /// Version of the protocol that the driver speaks.
    pub version: Option<u64>,
    /// Whether its registers answer.
    pub present: Option<bool>,
    /// Whether it is attached to a fabric.
    pub fabric: Option<bool>,
    /// Its links.
    pub links: Vec<Link>,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
    /// Its manager, if it has one.
    pub manager: Option<Manager>,
    /// The peers that it knows; none where the device file could not be opened.
    pub nodes: Vec<tree::Node>,
    /// Functions of shared endpoints that programs can have open at a time; `None`: the driver does not say.
    pub endpoint_slots: Option<u64>,
    /// Those that they have open now, likewise.
    pub endpoint_functions: Option<u64>,
    /// And of these the ones that are held until there is a route.
    pub endpoint_held: Option<u64>,
    /// How many have failed under their programs.
    pub endpoint_failures: u64,
    /// What is known of the endpoints that hosts share, likewise.
    pub known: Known,
}

/// What the driver shows of the manager of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // as in Documentation/ABI/testing/sysfs-bus-pci-drivers-weft
pub struct Manager {
    pub mode: String,
    pub role: String,
    pub lid: u64,
    pub master: String,
    pub term: u64,
    pub nodes: u64,
    pub routes: u64,
    pub allow: u64,
    pub excluded: u64,
    /// Not of an older driver.
    pub authenticated: Option<String>,
    pub messages_refused: u64,
    pub key_mismatch: String,
    pub key_mismatch_hwid: String,
    /// Not of an older driver, whose routed links lead to the nearest hosts.
    pub routed_links: Option<u64>,
    pub routed_used: u64,
    pub routed_claimed: u64,
}

/// What the driver of a physical function shows of a virtual one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // as in Documentation/ABI/testing/sysfs-bus-pci-drivers-weft
pub struct Vf {
    pub number: u32,
    /// Its address.
    pub function: String,
    /// The driver that is bound to it here.
    pub driver: Option<String>,
    pub state: String,
    pub slots: u64,
    pub apertures: u64,
    pub doorbells: u64,
    pub pages: u64,
    pub bytes: u64,
    pub links: u64,
    pub rate: u64,
    pub rings: u64,
}

/// What the driver shows of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // as in Documentation/ABI/testing/sysfs-bus-pci-drivers-weft
pub struct Link {
    pub number: u32,
    pub state: String,
    pub lid: Option<u64>,
    pub hops: Option<u64>,
    pub speed: u64,
    pub width: u64,
    pub max_speed: Option<u64>,
    pub max_width: Option<u64>,
    pub power: Option<String>,
    pub target_speed: Option<u64>,
    pub target_width: Option<u64>,
    pub present: Option<bool>,
    pub role: String,
    pub trained: u64,
    pub peer_hwid: String,
    pub peer_generation: u64,
    pub peer_version: Option<u64>,
    pub hello_error: String,
    pub readied: u64,
    pub ended: String,
    pub messages_bad: u64,
    pub echo_overdue: u64,
    pub arena_bytes: u64,
    pub arena_wanted: u64,
    pub channels: u64,
    pub channels_broken: u64,
    pub queue_pairs: u64,
    pub sockets: u64,
}

/// A device file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its name in /dev.
    pub name: String,
    /// It is there.
    pub exists: bool,
    /// This user may read and write it.
    pub usable: bool,
    /// Its permissions.
    pub mode: u32,
    /// Its group, by name if it has one.
    pub group: String,
}

/// The caller, and what it is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// User id.
    pub id: u32,
    /// The host has a group weft.
    pub group_exists: bool,
    /// This user is listed in it: at the next login, if not now.
    pub listed: bool,
    /// The udev rule is installed.
    pub udev_rule: bool,
    /// Soft limit of open files; `None`: none.
    pub open_files: Option<u64>,
    /// Soft limit of the address space in bytes; `None`: none.
    pub address_space: Option<u64>,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why, and what would help.
    pub why: String,
}

impl Link {
    /// Its other end is the same port's.
    pub fn is_loopback(&self) -> bool {
        self.role == "loopback"
    }

    /// There is nothing plugged in, as far as the port knows.
    pub fn is_unplugged(&self) -> bool {
        let near = self.lid.is_none();
        near && self.max_speed == Some(0) && self.present == Some(false) && self.state == "down"
    }
}

impl Function {
    /// It reads all ones, although nothing keeps it from answering.
    pub fn is_gone(&self) -> bool {
        let silent = self.port.as_ref().is_some_and(|port| port.present == Some(false));
        let decodes = self.command.is_none_or(|command| command & 0x2 != 0);
        self.vendor_now == Some(u16::MAX) || (silent && decodes)
    }

    /// A driver of Weft is bound.
    pub fn is_ours(&self) -> bool {
        self.driver.as_deref() == Some(self.family.driver())
    }
}

impl Family {
    /// The driver that takes it.
    pub fn driver(self) -> &'static str {
        match self {
            Family::Weft => "weft",
            Family::Ivshmem => "weft-ivshmem",
        }
    }
}
