// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of a PCI function: is it there, is the driver bound to it, can it be
//! reached, can it reach memory and raise interrupts.

use super::finding::{Finding, Place};
use super::snapshot::{Family, Function, Snapshot};
use crate::failure::plain;

/// Of the command register.
const MEMORY: u16 = 0x2;
const BUS_MASTER: u16 = 0x4;
/// Of a resource.
const IS_UNSET: u64 = 0x2000_0000;
/// Vectors that the driver takes at least: of a Weft port with four links, of an ivshmem.
const VECTORS: u32 = 14;
const VECTORS_IVSHMEM: u32 = 3;
/// Interrupts that may be on their way.
const UNDER_WAY: u64 = 4;

pub fn check(snapshot: &Snapshot, function: &Function) -> Vec<Finding> {
    if function.is_gone() {
        return vec![gone(function)];
    }
    let mut found = Vec::new();
    match &function.driver {
        Some(_) if function.is_ours() => {
            found.extend(switched_off(function));
            found.extend(interrupts(function));
        }
        Some(driver) => found.extend(other_driver(function, driver)),
        // What is missing then is the module, not a driver of this function.
        None if !snapshot.module.loaded => {}
        None => found.push(unbound(snapshot, function)),
    }
    found.extend(slot(function));
    found.extend(aer(function));
    found
}

fn here(function: &Function) -> Place {
    Place::Function(function.address.clone())
}

fn dir(function: &Function) -> String {
    format!("/sys/bus/pci/devices/{}", function.address)
}

fn gone(function: &Function) -> Finding {
    let what = "reads all ones: it was removed, has no power, or the bus lost it";
    Finding::fault("function-gone", here(function), what).mend(format!(
        "look at the slot, then `echo 1 >{}/remove; echo 1 >/sys/bus/pci/rescan`",
        dir(function)
    ))
}

/// Another driver has it.
fn other_driver(function: &Function, driver: &str) -> Option<Finding> {
    let Function { address, family, .. } = function;
    let ours = family.driver();
    let drivers = "/sys/bus/pci/drivers";
    let why = match driver {
        "vfio-pci" => " (given to a guest or a user's program)",
        _ => "",
    };
    let what = format!("is bound to {driver}{why}, not to {ours}");
    let finding = match family {
        Family::Weft => Finding::fault("other-driver", here(function), what),
        // It may be needed as it is.
        Family::Ivshmem => Finding::note("other-driver", here(function), what),
    };
    Some(finding.mend(format!(
        "`echo {ours} >{dir}/driver_override; echo {address} >{drivers}/{driver}/unbind; echo \
         {address} >/sys/bus/pci/drivers_probe`",
        dir = dir(function)
    )))
}

/// No driver has it: the first reason that there is.
fn unbound(snapshot: &Snapshot, function: &Function) -> Finding {
    let Function { address, family, .. } = function;
    let ours = family.driver();
    let again = format!("`echo {address} >/sys/bus/pci/drivers_probe`");
    let fault = |id, what: String| Finding::fault(id, here(function), what);
    let told = function.driver_override.as_deref();

    if *family == Family::Ivshmem && told != Some(ours) {
        let what = "an ivshmem, which is never taken by itself: other programs use such, too";
        let others = snapshot.functions.iter().any(|f| f.is_ours());
        let finding = match others {
            true => Finding::note("ivshmem-unbound", here(function), what),
            false => fault("ivshmem-unbound", what.into()),
        };
        return finding.mend(format!(
            "if it is for Weft: `echo {ours} >{}/driver_override`, then {again}",
            dir(function)
        ));
    }
    if let Some(other) = told.filter(|other| *other != ours) {
        return fault("driver-override", format!("only the driver {other} may bind"))
            .mend(format!("`echo >{}/driver_override`, then {again}", dir(function)));
    }
    if let Some(n) = unset(function) {
        return fault("bar-unassigned", format!("BAR {n} has no address: there was no room")).mend(
            "allow 64-bit BARs (\"above 4G decoding\") in the firmware, boot with \
             `pci=realloc`; emulated: `pref64-reserve=1G` at its root port",
        );
    }
    if snapshot.command_line.iter().any(|word| word.starts_with("pci=") && word.contains("nomsi")) {
        return fault("msi-off", "the kernel was booted with pci=nomsi".into())
            .mend("boot without it: a port has message interrupts only");
    }
    let needed = if *family == Family::Weft { VECTORS } else { VECTORS_IVSHMEM };
    if let Some(has) = function.vectors.filter(|has| *has < needed) {
        let mend = match family {
            Family::Weft => "the port's firmware is too old for this driver".into(),
            Family::Ivshmem => format!("start QEMU and ivshmem-server with {needed} vectors"),
        };
        return fault("few-vectors", format!("has {has} MSI-X vectors, {needed} are needed"))
            .mend(mend);
    }
    if let Some(finding) = probe(snapshot, function) {
        return finding;
    }
    let what = match snapshot.log {
        Some(_) => "no driver is bound",
        None => "no driver is bound; why, the kernel's log may say, which only root may read",
    };
    fault("port-unbound", what.into())
        .mend(format!("`echo {address} >/sys/bus/pci/drivers/{ours}/bind`, then see `dmesg`"))
}

/// The first BAR without an address, of those that the function has. Of one for which there was
/// no room the kernel may show nothing at all.
fn unset(function: &Function) -> Option<usize> {
    let bars: &[usize] = match function.family {
        Family::Weft => &[0, 2, 4],
        Family::Ivshmem => &[0, 2],
    };
    let unset =
        |n: &usize| function.bars.get(*n).is_some_and(|b| b.start == 0 || b.flags & IS_UNSET != 0);
    bars.iter().copied().find(unset)
}

/// What the driver says when nothing is wrong with a probe.
fn is_news(line: &str) -> bool {
    const NEWS: [&str; 6] = [
        ": hardware id ",
        ": down",
        ": ready",
        "waiting for the neighbour",
        "is back from",
        "probe",
    ];
    NEWS.iter().any(|news| line.contains(news))
}

/// What the log says of the last probe.
fn probe(snapshot: &Snapshot, function: &Function) -> Option<Finding> {
    let Function { address, family, .. } = function;
    let ours = family.driver();
    let head = format!("{ours} {address}: ");
    let lines: Vec<_> =
        snapshot.log.as_ref()?.iter().filter_map(|l| l.strip_prefix(&head)).collect();
    let fault = |id, what: String| Finding::fault(id, here(function), what);
    let is_cause = |line: &&str| line.starts_with("probe: step ") || line.starts_with("arena_kib=");
    let last = lines.iter().rposition(is_cause)?;
    let line = lines.get(last)?;
    if line.starts_with("arena_kib=") {
        return Some(
            fault("bad-parameter", format!("the module's parameter {line}"))
                .mend("load it with another: `modprobe weft arena_kib=4096`; see /etc/modprobe.d"),
        );
    }
    // "probe: step 6 (interrupts) failed: -28"
    let step = line.split(['(', ')']).nth(1).unwrap_or_default();
    let code = line.split("failed: -").nth(1).unwrap_or_default();
    let code = code.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let why = match code.parse() {
        Ok(code) => plain(std::io::Error::from_raw_os_error(code)),
        Err(_) => "no reason given".into(),
    };
    // What the driver said before that, if it is of the same probe.
    let before = last.checked_sub(1).and_then(|n| lines.get(n));
    let before = before.filter(|line| !is_news(line));
    let before = before.map_or(String::new(), |line| format!(": {line}"));
    let again = format!("then `echo {address} >/sys/bus/pci/drivers/{ours}/bind`");
    let mend = match step {
        _ if line.contains("as fail_probe wants") => {
            "load the module without fail_probe, which is for tests".into()
        }
        "enable" => format!("`lspci -vv -s {address}`: has it power, have its BARs addresses?"),
        "registers" => "the function is no Weft port, or one that this driver does not know".into(),
        "windows" => "the window BAR is too small, or another driver claims it: /proc/iomem".into(),
        "arenas" => {
            "`modprobe -r weft; modprobe weft arena_kib=256`, or load it early after a boot".into()
        }
        "interrupts" => "the machine has no vectors left, or message interrupts are off: \
                         /proc/interrupts, `dmesg | grep -i msi`"
            .into(),
        "shared memory" => "it has to be ivshmem-doorbell with at least 1 MiB".into(),
        "owner of the memory" => {
            format!("fill the shared memory with zeroes if nothing else needs it, {again}")
        }
        _ => format!("see `dmesg | grep {address}`, {again}"),
    };
    Some(
        fault("probe-failed", format!("the driver gave up at \"{step}\": {why}{before}"))
            .mend(mend),
    )
}

/// Bound, but not to be reached or not allowed to reach memory.
fn switched_off(function: &Function) -> Vec<Finding> {
    let mut found = Vec::new();
    let address = &function.address;
    let rebind = format!(
        "`echo {address} >/sys/bus/pci/drivers/{driver}/unbind; echo {address} \
         >/sys/bus/pci/drivers/{driver}/bind`; who has run setpci?",
        driver = function.family.driver()
    );
    if let Some(power) = function.power.as_deref().filter(|p| p.starts_with("D") && *p != "D0") {
        let what = format!("is in power state {power}");
        found.push(
            Finding::fault("no-power", here(function), what)
                .mend(format!("`echo on >{}/power/control`", dir(function))),
        );
    }
    let off = |bit| function.command.is_some_and(|command| command & bit == 0);
    if off(MEMORY) {
        let what = "its memory decoding is switched off: no register answers";
        found.push(Finding::fault("memory-off", here(function), what).mend(rebind.clone()));
    }
    if off(BUS_MASTER) {
        let what = "may not master the bus: no interrupt and no write of a peer arrives";
        found.push(Finding::fault("bus-master-off", here(function), what).mend(rebind));
    }
    found
}

/// Raised, but never seen.
fn interrupts(function: &Function) -> Option<Finding> {
    let raised = *function.port.as_ref()?.counters.get("interrupts")?;
    if raised < UNDER_WAY || function.interrupts? != 0 {
        return None;
    }
    let what = format!("has raised {raised} interrupts, and none has reached a processor");
    Some(Finding::fault("interrupts-lost", here(function), what).mend(
        "interrupt remapping or the bridge above swallows them: `dmesg | grep -i -e dmar -e msi`",
    ))
}

/// The slot runs slower or narrower than it could.
fn slot(function: &Function) -> Option<Finding> {
    let (now, most) = (function.slot?, function.slot_max?);
    if now.speed >= most.speed && now.width >= most.width {
        return None;
    }
    let what = format!(
        "its slot runs at {} GT/s x{} of {} GT/s x{}",
        now.speed, now.width, most.speed, most.width
    );
    Some(
        Finding::warning("slow-slot", here(function), what)
            .mend("plug the card in again, look at its cable; the firmware may limit the slot"),
    )
}

/// What the bus has reported.
fn aer(function: &Function) -> Vec<Finding> {
    let severity = |(severity, counts): (&String, &std::collections::BTreeMap<String, u64>)| {
        let counts: Vec<_> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let what = format!("bus errors, {severity}: {}", counts.join(", "));
        let mend = format!("`dmesg | grep -e AER -e {}`; cable, slot, power", function.address);
        match severity.as_str() {
            "correctable" => Finding::note("aer", here(function), what).mend(mend),
            _ => Finding::warning("aer", here(function), what).mend(mend),
        }
    };
    function.aer.iter().map(severity).collect()
}
