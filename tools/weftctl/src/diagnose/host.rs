// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of the host: is the module there, is there a port at all, may this user
//! use it.

use super::finding::{Finding, Place};
use super::snapshot::{Family, Node, Snapshot};
use std::collections::BTreeSet;

/// Fewer open files than this are soon used up: a channel takes one.
const FEW_FILES: u64 = 64;
/// A channel maps some of this.
const SMALL_SPACE: u64 = 256 << 20;

pub fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(module(snapshot));
    found.extend(ports(snapshot));
    found.extend(snapshot.nodes.iter().filter_map(|node| permission(snapshot, node)));
    found.extend(limits(snapshot));
    found
}

/// The last line of the log that has all of `words`.
pub fn logged<'a>(snapshot: &'a Snapshot, words: &[&str]) -> Option<&'a str> {
    let lines = snapshot.log.as_deref().unwrap_or_default().iter().rev();
    lines.map(String::as_str).find(|line| words.iter().all(|word| line.contains(word)))
}

/// Why the module is not loaded.
fn module(snapshot: &Snapshot) -> Option<Finding> {
    let module = &snapshot.module;
    if module.loaded {
        return None;
    }
    let kernel = &snapshot.kernel;
    let fault = |id, what: String| Finding::fault(id, Place::Module, what);
    if let Some(line) = logged(snapshot, &["weft: version magic"]) {
        return Some(
            fault("module-other-kernel", format!("was built for another kernel: {line}"))
                .mend(format!("build it for {kernel}: `make modules`, then `make install`")),
        );
    }
    if let Some(line) = logged(snapshot, &["weft: disagrees about version of symbol"])
        .or_else(|| logged(snapshot, &["weft: Unknown symbol"]))
    {
        return Some(
            fault("module-other-kernel", format!("does not fit this kernel: {line}")).mend(
                format!("build it for {kernel} and its configuration: `make modules KDIR=/lib/modules/{kernel}/build`"),
            ),
        );
    }
    let refused = logged(snapshot, &["unsigned module"])
        .or_else(|| logged(snapshot, &["weft", "Key was rejected"]))
        .or_else(|| logged(snapshot, &["weft", "Loading of module with"]));
    if refused.is_some() || module.signed_only {
        let line = refused.map_or(String::new(), |line| format!(": {line}"));
        return Some(
            fault("module-unsigned", format!("this kernel takes signed modules only{line}")).mend(
                "sign weft.ko with a key that the kernel trusts (`scripts/sign-file`, `mokutil \
                 --import`), or switch secure boot and module.sig_enforce off",
            ),
        );
    }
    if module.installed {
        return Some(fault("module-not-loaded", "is not loaded".into()).mend("`modprobe weft`"));
    }
    if let Some(other) = module.other_kernels.first() {
        return Some(
            fault("module-other-kernel", format!("is installed for {other}, but {kernel} runs"))
                .mend(format!("`make install` while {kernel} runs, or boot {other}")),
        );
    }
    Some(
        fault("module-not-loaded", format!("is not loaded, nor installed for {kernel}"))
            .mend("`make install`, then `modprobe weft`; or `insmod weft.ko`"),
    )
}

/// Addresses where the log says that there was a port; virtual functions come and go.
fn known_before(snapshot: &Snapshot) -> BTreeSet<String> {
    let lines = snapshot.log.as_deref().unwrap_or_default().iter();
    // "weft 0000:01:00.0: weft0: hardware id …"; of others "…: virtual function, hardware id …"
    let lines = lines.filter(|line| line.contains(": hardware id 0x"));
    let address = |line: &String| {
        let address = line.split_whitespace().nth(1)?.strip_suffix(':')?;
        address.contains(':').then(|| address.to_owned())
    };
    lines.filter_map(address).collect()
}

/// Whether there is something to drive.
fn ports(snapshot: &Snapshot) -> Vec<Finding> {
    let there: BTreeSet<_> = snapshot.functions.iter().map(|f| f.address.clone()).collect();
    let removed = known_before(snapshot).difference(&there).cloned().collect::<Vec<_>>();
    if let Some(address) = removed.first() {
        let what = format!("the port that was at {} is not there any more", removed.join(", "));
        return vec![
            Finding::fault("port-removed", Place::Function(address.clone()), what)
                .mend("put it back, or `echo 1 >/sys/bus/pci/rescan`; see `dmesg | grep pciehp`"),
        ];
    }
    if snapshot.functions.iter().any(|f| f.family == Family::Weft || f.is_ours()) {
        return Vec::new();
    }
    // An ivshmem is no port until it is told to be one.
    let unless = match snapshot.functions.is_empty() {
        true => "",
        false => ", but for an ivshmem, which is not taken unless told",
    };
    let what = format!("there is no PCI function 1234:7ef7{unless}");
    vec![Finding::fault("no-port", Place::Function(String::new()), what).mend(
        "`lspci -d 1234:7ef7`; an emulated host needs `-device weft-port,fabric=…,node=…`, a \
             real one a look at the slot and `echo 1 >/sys/bus/pci/rescan`",
    )]
}

/// Why a device file cannot be used.
fn permission(snapshot: &Snapshot, node: &Node) -> Option<Finding> {
    let at = Place::Node(node.name.clone());
    let name = &node.name;
    if !node.exists {
        return Some(
            Finding::fault("no-node", at, "the driver has this port, /dev has no file for it")
                .mend("mount devtmpfs at /dev, or give the file to this container"),
        );
    }
    if node.usable {
        return None;
    }
    let user = &snapshot.user;
    let what =
        format!("user {} may not open it: group {}, mode {:04o}", user.id, node.group, node.mode);
    let trigger = format!("`udevadm control --reload && udevadm trigger /dev/{name}`");
    let mend = if !user.group_exists {
        format!("there is no group weft: `groupadd --system weft`, then {trigger}")
    } else if node.group != "weft" && !user.udev_rule {
        format!("install tools/udev/70-weft.rules in /etc/udev/rules.d, then {trigger}")
    } else if node.group != "weft" {
        trigger
    } else if user.listed {
        "this user is in the group weft from the next login on: log in again".into()
    } else {
        "`usermod -aG weft USER`, then log in again".into()
    };
    Some(Finding::fault("permission", at, what).mend(mend))
}

/// What this user is allowed at most.
fn limits(snapshot: &Snapshot) -> Vec<Finding> {
    let user = &snapshot.user;
    let mut found = Vec::new();
    if let Some(files) = user.open_files.filter(|files| *files < FEW_FILES) {
        let what = format!("only {files} files may be open, and each channel is one");
        found.push(
            Finding::warning("few-files", Place::Host, what)
                .mend("`ulimit -n 1024`, or nofile in /etc/security/limits.conf"),
        );
    }
    if let Some(bytes) = user.address_space.filter(|bytes| *bytes < SMALL_SPACE) {
        let what = format!("the address space is limited to {} MiB", bytes >> 20);
        found.push(
            Finding::warning("small-address-space", Place::Host, what)
                .mend("`ulimit -v unlimited`: channels are mapped memory"),
        );
    }
    found
}
