// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Takes a snapshot of this host: reads sysfs, procfs, the device files'
//! permissions and, if it may, the kernel's log. Judges nothing, changes nothing.

use super::kmsg;
use super::snapshot::{Bar, Family, Function, Link, Manager, Module, Node, Port, Rate};
use super::snapshot::{Snapshot, Unseen, User, Vf};
use crate::failure::plain;
use crate::multiroot::Known;
use rustix::fs::{Access, access};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Vendor and device ids of what may be a port.
pub const IDS: [(u64, u64, Family); 2] =
    [(0x1234, 0x7ef7, Family::Weft), (0x1af4, 0x1110, Family::Ivshmem)];

/// Bytes of the configuration space that everybody may read.
const CONFIG_HEADER: usize = 64;

/// Takes a snapshot of the host whose file system is at `root`.
pub fn collect(root: &Path) -> Snapshot {
    Collector { root, unseen: BTreeSet::new() }.run()
}

struct Collector<'a> {
    root: &'a Path,
    unseen: BTreeSet<Unseen>,
}

/// A small file's content, without the newline.
pub fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    let text = text(path)?;
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn flag(path: &Path) -> Option<bool> {
    number(path).map(|n| n != 0)
}

/// The last component of where a symbolic link leads.
fn target(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Names in a directory, in order; none of one that is not there.
pub fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A little-endian number in a configuration space.
fn config16(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*config.get(at..)?.first_chunk()?))
}

/// Size of the MSI-X table by the capability that says so.
fn msix(config: &[u8]) -> Option<u32> {
    const STATUS: usize = 0x06;
    const HAS_CAPABILITIES: u16 = 0x10;
    const FIRST: usize = 0x34;
    const MSIX: u8 = 0x11;
    if config16(config, STATUS)? & HAS_CAPABILITIES == 0 {
        return Some(0);
    }
    let mut at = usize::from(*config.get(FIRST)? & 0xfc);
    // As many as there is room for: a list that ends in itself ends all the same.
    for _ in 0..48 {
        if at < CONFIG_HEADER {
            return Some(0);
        }
        if *config.get(at)? == MSIX {
            return Some(u32::from(config16(config, at + 2)? & 0x7ff) + 1);
        }
        at = usize::from(*config.get(at + 1)? & 0xfc);
    }
    Some(0)
}

/// "16.0 GT/s PCIe" and "8"; not a function without a link, or one that is gone.
fn rate(dir: &Path, which: &str) -> Option<Rate> {
    let speed = text(&dir.join(format!("{which}_link_speed")))?;
    let speed = speed.split(' ').next()?.parse().ok()?;
    let width = u32::try_from(number(&dir.join(format!("{which}_link_width")))?).ok()?;
    (width != 0 && width < 64).then_some(Rate { speed, width })
}

impl Collector<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn unseen(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unseen.insert(Unseen { what: what.into(), why: why.into() });
    }

    fn run(mut self) -> Snapshot {
        let functions = self.functions();
        let log = self.log(&functions);
        let mut snapshot = Snapshot {
            kernel: text(&self.path("proc/sys/kernel/osrelease")).unwrap_or_default(),
            command_line: self.command_line(),
            module: self.module(),
            functions,
            nodes: self.nodes(),
            user: self.user(),
            log,
            unseen: Vec::new(),
        };
        snapshot.unseen = self.unseen.into_iter().collect();
        snapshot
    }

    fn command_line(&self) -> Vec<String> {
        let line = text(&self.path("proc/cmdline")).unwrap_or_default();
        line.split_whitespace().map(String::from).collect()
    }

    fn log(&mut self, functions: &[Function]) -> Option<Vec<String>> {
        match kmsg::read(&self.path("dev/kmsg")) {
            Ok(lines) => {
                let about = |line: &&String| {
                    ["weft", "unsigned module", "kernel module"].iter().any(|w| line.contains(w))
                        || functions.iter().any(|f| line.contains(&f.address))
                };
                Some(lines.iter().filter(about).cloned().collect())
            }
            Err(e) => {
                let why = format!("{}; root may read it", plain(e));
                self.unseen("the kernel's log, where a probe says why it failed", why);
                None
            }
        }
    }

    fn module(&self) -> Module {
        let release = text(&self.path("proc/sys/kernel/osrelease")).unwrap_or_default();
        let modules = self.path("lib/modules");
        let has = |release: &str| {
            let list = text(&modules.join(release).join("modules.dep")).unwrap_or_default();
            list.lines().any(|line| {
                let file = line.split(':').next().unwrap_or_default();
                file.rsplit('/').next().is_some_and(|name| name.starts_with("weft.ko"))
            })
        };
        let lockdown = text(&self.path("sys/kernel/security/lockdown")).unwrap_or_default();
        let enforce = text(&self.path("sys/module/module/parameters/sig_enforce"));
        Module {
            loaded: self.path("sys/module/weft").is_dir(),
            installed: has(&release),
            other_kernels: names(&modules)
                .into_iter()
                .filter(|r| *r != release && has(r))
                .collect(),
            signed_only: enforce.as_deref() == Some("Y")
                || (lockdown.contains('[') && !lockdown.contains("[none]")),
            taint: text(&self.path("sys/module/weft/taint")).unwrap_or_default(),
        }
    }

    fn functions(&mut self) -> Vec<Function> {
        let all = self.path("sys/bus/pci/devices");
        if !all.is_dir() {
            self.unseen("the PCI functions", "there is no /sys/bus/pci: is sysfs mounted here?");
        }
        let mut functions = Vec::new();
        for address in names(&all) {
            let dir = all.join(&address);
            let id = (number(&dir.join("vendor")), number(&dir.join("device")));
            let known = IDS.iter().find(|(vendor, device, _)| id == (Some(*vendor), Some(*device)));
            if let Some((_, _, family)) = known {
                functions.push(self.function(address, &dir, *family));
            }
        }
        functions
    }

    fn function(&mut self, address: String, dir: &Path, family: Family) -> Function {
        let config = fs::read(dir.join("config")).unwrap_or_default();
        let vendor_now = config16(&config, 0);
        let vectors = match config.len() {
            _ if vendor_now == Some(u16::MAX) => None,
            0..=CONFIG_HEADER => {
                let what = format!("how many MSI-X vectors {address} has");
                self.unseen(what, "only root may read that far into its configuration space");
                None
            }
            _ => msix(&config),
        };
        // The port above, at the other end of the slot.
        let above = fs::canonicalize(dir).ok().and_then(|dir| Some(dir.parent()?.to_owned()));
        let most = [Some(dir.to_owned()), above];
        let slot_max = most.iter().flatten().filter_map(|dir| rate(dir, "max"));
        let slot_max = slot_max
            .reduce(|a, b| Rate { speed: a.speed.min(b.speed), width: a.width.min(b.width) });
        let override_of = text(&dir.join("driver_override"));
        Function {
            driver: target(&dir.join("driver")),
            driver_override: override_of.filter(|name| !name.is_empty() && name != "(null)"),
            power: text(&dir.join("power_state")),
            vendor_now,
            command: config16(&config, 4),
            bars: bars(dir),
            vectors,
            vectors_in_use: names(&dir.join("msi_irqs")).len() as u32,
            slot: rate(dir, "current"),
            slot_max,
            aer: aer(dir),
            interrupts: self.interrupts(&address),
            port: port(dir),
            vfs: vfs(dir),
            family,
            address,
        }
    }

    /// Lines such as `24:  17  0  PCI-MSIX-0000:01:00.0  0-edge  weft-0000:01:00.0-link`.
    fn interrupts(&self, address: &str) -> Option<u64> {
        let table = text(&self.path("proc/interrupts"))?;
        let name = format!("weft-{address}-");
        let lines = table.lines().filter(|line| line.contains(&name));
        let count = |line: &str| -> u64 {
            let columns = line.split_whitespace().skip(1);
            columns.map_while(|column| column.parse::<u64>().ok()).sum()
        };
        Some(lines.map(count).sum())
    }

    fn nodes(&self) -> Vec<Node> {
        let is_port = |name: &String| {
            let number = name.strip_prefix("weft").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        };
        let mut all = names(&self.path("sys/class/weft"));
        all.extend(names(&self.path("dev")));
        let all: BTreeSet<String> = all.into_iter().filter(is_port).collect();
        let groups = text(&self.path("etc/group")).unwrap_or_default();
        let node = |name: String| {
            let path = self.path("dev").join(&name);
            let Ok(status) = fs::metadata(&path) else {
                return Node { name, ..Node::default() };
            };
            let gid = status.gid().to_string();
            let group = groups.lines().find(|line| line.split(':').nth(2) == Some(&gid));
            let group = group.and_then(|line| line.split(':').next()).unwrap_or(&gid).to_owned();
            let usable = access(&path, Access::READ_OK | Access::WRITE_OK).is_ok();
            Node { name, exists: true, usable, mode: status.mode() & 0o7777, group }
        };
        all.into_iter().map(node).collect()
    }

    fn user(&self) -> User {
        let status = text(&self.path("proc/self/status")).unwrap_or_default();
        let id = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        // Real, effective, saved, of the file system.
        let id = id.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()).unwrap_or(u32::MAX);
        let of = |file: &str| text(&self.path(file)).unwrap_or_default();
        let (users, groups) = (of("etc/passwd"), of("etc/group"));
        let number = id.to_string();
        let user = users.lines().find(|line| line.split(':').nth(2) == Some(&number));
        let user = user.and_then(|line| line.split(':').next());
        let group = groups.lines().find(|line| line.starts_with("weft:"));
        let members = group.and_then(|line| line.split(':').nth(3)).unwrap_or_default();
        let limits = of("proc/self/limits");
        let limit = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let rules = ["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d"];
        User {
            id,
            group_exists: group.is_some(),
            listed: user.is_some_and(|user| members.split(',').any(|member| member == user)),
            udev_rule: rules.iter().any(|dir| self.path(dir).join("70-weft.rules").exists()),
            open_files: limit("Max open files"),
            address_space: limit("Max address space"),
        }
    }
}

/// Lines of three numbers: start, end, flags.
fn bars(dir: &Path) -> Vec<Bar> {
    let resources = text(&dir.join("resource")).unwrap_or_default();
    let bar = |line: &str| {
        let mut numbers = line.split(' ').map(|n| u64::from_str_radix(n.get(2..)?, 16).ok());
        Some(Bar { start: numbers.next()??, end: numbers.next()??, flags: numbers.next()?? })
    };
    resources.lines().take(6).filter_map(bar).collect()
}

/// Files of lines of a name and a count; the last is the total.
fn aer(dir: &Path) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for severity in ["correctable", "nonfatal", "fatal"] {
        let table = text(&dir.join(format!("aer_dev_{severity}"))).unwrap_or_default();
        let count = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            let count: u64 = count.trim().parse().ok()?;
            (count != 0 && !name.starts_with("TOTAL")).then(|| (name.to_owned(), count))
        };
        let counts: BTreeMap<_, _> = table.lines().filter_map(count).collect();
        if !counts.is_empty() {
            all.insert(severity.to_owned(), counts);
        }
    }
    all
}

/// The virtual functions that are enabled.
fn vfs(dir: &Path) -> Vec<Vf> {
    let vf = |n: u32| {
        let function = target(&dir.join(format!("virtfn{n}")))?;
        let of = |name: &str| number(&dir.join(format!("vf{n}")).join(name)).unwrap_or_default();
        Some(Vf {
            number: n,
            driver: target(&dir.join(format!("virtfn{n}/driver"))),
            function,
            state: text(&dir.join(format!("vf{n}/state")))?,
            slots: of("slots"),
            apertures: of("apertures"),
            doorbells: of("doorbells"),
            pages: of("pages"),
            bytes: of("bytes"),
            links: of("links"),
            rate: of("rate"),
            rings: of("rings"),
        })
    };
    (0..).map_while(vf).collect()
}

/// No port has a link of this number.
pub const MOST_LINKS: u32 = 64;

/// What the driver shows of the port whose function has this directory.
pub fn port(dir: &Path) -> Option<Port> {
    let name = names(&dir.join("weft")).into_iter().next()?;
    let counters = dir.join("counters");
    // Behind those of neighbours, those that lead nowhere now have no directory.
    let links = (0..MOST_LINKS).filter_map(|n| link(&dir.join(format!("link{n}")), n));
    Some(Port {
        name,
        hwid: text(&dir.join("hwid")).unwrap_or_default(),
        version: number(&dir.join("version")),
        present: flag(&dir.join("present")),
        fabric: flag(&dir.join("fabric")),
        links: links.collect(),
        counters: names(&counters)
            .into_iter()
            .filter_map(|name| Some((name.clone(), number(&counters.join(name))?)))
            .collect(),
        manager: manager(&dir.join("manager")),
        nodes: Vec::new(),
        endpoint_slots: number(&dir.join("endpoint_slots")),
        endpoint_functions: number(&dir.join("endpoint_functions")),
        endpoint_held: number(&dir.join("endpoint_held")),
        endpoint_failures: number(&dir.join("endpoint_failures")).unwrap_or(0),
        known: Known::default(),
    })
}

fn manager(dir: &Path) -> Option<Manager> {
    let count = |name: &str| number(&dir.join(name)).unwrap_or(0);
    let word = |name: &str| text(&dir.join(name)).unwrap_or_default();
    dir.is_dir().then(|| Manager {
        mode: word("mode"),
        role: word("role"),
        lid: count("lid"),
        master: word("master"),
        term: count("term"),
        nodes: count("nodes"),
        routes: count("routes"),
        allow: count("allow"),
        excluded: count("excluded"),
        authenticated: text(&dir.join("authenticated")),
        messages_refused: count("messages_refused"),
        key_mismatch: word("key_mismatch"),
        key_mismatch_hwid: word("key_mismatch_hwid"),
        routed_links: number(&dir.join("routed_links")),
        routed_used: count("routed_used"),
        routed_claimed: count("routed_claimed"),
    })
}

fn link(dir: &Path, number_of: u32) -> Option<Link> {
    let file = |name: &str| dir.join(name);
    let count = |name: &str| number(&file(name)).unwrap_or(0);
    let word = |name: &str| text(&file(name)).unwrap_or_default();
    dir.is_dir().then(|| Link {
        number: number_of,
        state: word("state"),
        lid: number(&file("lid")),
        hops: number(&file("hops")),
        speed: count("speed"),
        width: count("width"),
        max_speed: number(&file("max_speed")),
        max_width: number(&file("max_width")),
        power: text(&file("power")),
        target_speed: number(&file("target_speed")),
        target_width: number(&file("target_width")),
        present: flag(&file("present")),
        role: word("role"),
        trained: count("trained"),
        peer_hwid: word("peer_hwid"),
        peer_generation: count("peer_generation"),
        peer_version: number(&file("peer_version")),
        hello_error: word("hello_error"),
        readied: count("readied"),
        ended: word("ended"),
        messages_bad: count("messages_bad"),
        echo_overdue: count("echo_overdue"),
        arena_bytes: count("arena_bytes"),
        arena_wanted: count("arena_wanted"),
        channels: count("channels"),
        channels_broken: count("channels_broken"),
        queue_pairs: count("queue_pairs"),
        sockets: count("sockets"),
    })
}
