# SPDX-License-Identifier: GPL-2.0
"""The kernel that the guests boot: Debian's own, or one that looks closely (scripts/env.d/debug).

Which one is said by KERNEL in the environment, as everywhere: a series, `debug` or `kasan`.
"""

import contextlib
import os
import re

from .errors import LeakError

VARIANTS = ("debug", "kasan")
KMEMLEAK = "/sys/kernel/debug/kmemleak"
# Where those that watch say that they still do; each goes silent after something it cannot bear.
_DMA_DEBUGGER = "/sys/kernel/debug/dma-api/disabled"
_WATCHERS = (
    ("lockdep", "/proc/lockdep_stats", r"debug_locks:\s+1$"),
    ("the DMA debugger", _DMA_DEBUGGER, r"^N$"),
)
PROVE_LOCKING = "/proc/sys/kernel/prove_locking"
# The module area. Once weft.ko has gone, its functions are plain addresses, and it is the only
# module of such a kernel.
_OURS = re.compile(r"\[weft|\bweft_|\b0xffffffff[a-e][0-9a-f]{7}\b")


def variant():
    """`debug`, `kasan`, or None for Debian's own."""
    name = os.environ.get("KERNEL", "")
    return name if name in VARIANTS else None


def use(name):
    """Has everything that comes boot this kernel."""
    os.environ["KERNEL"] = name


def patience():
    """How much longer than on Debian's kernel a command may take."""
    return {"debug": 4, "kasan": 6}.get(variant(), 1)


def memory(mebibytes):
    """The RAM for a guest that needs so much on Debian's kernel: shadows and records take theirs."""
    return mebibytes + {"debug": 320, "kasan": 320}.get(variant(), 0)


@contextlib.contextmanager
def slots_at_work(host):
    """While ports are plugged and pulled: has lockdep look away, without giving up.

    pciehp holds its reset_lock when it takes the PCI core's lock for removals, lets go of the former
    to bind and unbind drivers, and takes it again inside of the latter. Lockdep knows no better than
    to call that a deadlock, and is silent from then on.
    """
    if variant() != "debug":
        yield
        return
    host.run(f"echo 0 >{PROVE_LOCKING}")
    try:
        yield
    finally:
        # Goes through that same lock: pciehp has let go of it.
        host.run(f"echo 1 >/sys/bus/pci/rescan && echo 1 >{PROVE_LOCKING}")


def _entries(report):
    entries = re.split(r"^(?=unreferenced object)", report, flags=re.M)
    return [entry.rstrip() for entry in entries if entry.strip()]


def leaks(report):
    """The entries of a kmemleak report that are weft's."""
    return [entry for entry in _entries(report) if _OURS.search(entry)]


def strange_leaks(report):
    """Those that the PCI core does not leave behind whatever the driver does.

    An endpoint that is pulled with VFs enabled loses these first. When the PF goes, pci_iov_remove_virtfn()
    does not find them any more, and does not give back the reference to the PF that each had.
    """
    return [entry for entry in _entries(report) if "pci_scan_single_device+" not in entry]


def last_look(host):
    """What shows only when the driver has gone: fails if it has left memory behind.

    What is still mapped for DMA when a driver is unbound the kernel says itself (dmesg).
    """
    if not variant() or not host.alive:
        return
    if not host.run("test -d /sys/module/weft", status=None).status:
        host.rmmod()
    for name, path, awake in _WATCHERS:
        if host.starved and path == _DMA_DEBUGGER:
            continue
        said = host.run(f"test ! -e {path} || cat {path}")
        if said.out and not re.search(awake, said.out, re.M):
            raise LeakError(f"{host.name}: {name} has given up:\n{said.out[:2000]}")
    if host.run(f"test -w {KMEMLEAK}", status=None).status:
        return
    # What a scan finds for the first time may be on its way from one place to another.
    for _ in range(2):
        host.run(f"echo scan >{KMEMLEAK}", 120)
    found = leaks(host.out(f"cat {KMEMLEAK}"))
    if found:
        raise LeakError(f"{host.name}: kmemleak:\n" + "\n".join(found))
