# SPDX-License-Identifier: GPL-2.0
"""Modules and drivers that go and come while the other side stays."""

import os

from weftlab import kernel, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps

LAB = "pair"
# How often the module goes and comes: more by hand, and in `make check-long`.
RELOADS = int(os.environ.get("WEFT_RELOADS", "8"))
DEVICE = "$(basename $(readlink -f /sys/class/weft/weft0/device))"
HOLD = (
    "exec python3 -c 'import os, signal; os.open(\"/dev/weft0\", os.O_RDWR); "
    "print(\"open\", flush=True); signal.pause()'"
)


def memory(host):
    """KiB that are not free and not cached."""
    words = host.out("sync; echo 3 >/proc/sys/vm/drop_caches; cat /proc/meminfo").splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) for line in words}
    free = ("MemFree", "Buffers", "Cached", "SReclaimable")
    return values["MemTotal"] - sum(values[key] for key in free)


@test(f"insmod and rmmod {RELOADS} times on one side while the other stays")
def reload(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    h1.run("rmmod weft")
    h2.wait_link("down")
    before = memory(h1), memory(h2)
    h1.run(
        f"for i in $(seq {RELOADS}); do insmod /mnt/module/weft.ko && [ -e /dev/weft0 ] || exit 1; "
        # Every tenth time the neighbours talk first, the others catch them at any moment.
        "if [ $((i % 10)) = 0 ]; then weftctl wait --timeout 30 || exit 2; fi; "
        "rmmod weft && [ ! -e /dev/weft0 ] || exit 3; done",
        6 * RELOADS,
    )
    h2.wait_link("down")
    after = memory(h1), memory(h2)
    # An arena is 4 MiB: one lost a round would be five times that.
    for name, was, now in zip(("h1", "h2"), before, after):
        if now - was > 16384:
            raise Mismatch(f"{name}: {now - was} KiB more are in use than before")
    h1.insmod()
    for host in lab.hosts.values():
        host.wait_links()
    steps.both_ways(lab)


@test("rmmod is refused while a file is open, and works when it is closed")
def rmmod_busy(bench):
    lab = bench.pair()
    h1 = lab["h1"]
    job = h1.start_job(HOLD)
    job.expect("^open")
    refused = h1.run("rmmod weft", status=None)
    if not refused.status:
        raise Mismatch("rmmod took the module away from under an open file")
    steps.refused(refused, refused.status, "in use")
    h1.run("test -e /dev/weft0")
    job.kill()
    job.wait(20)
    h1.run("rmmod weft && test ! -e /dev/weft0")


@test("unbind in mid-transfer, files open and mapped: both ends learn of it, and it works again", core=True, long=True)
def unbind(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    for who, other in ((h1, h2), (h2, h1)):
        device = who.out(f"echo {DEVICE}")
        path, _ = steps.payload(h1, "unbind", 48 << 20, 6)
        limit = 8 * kernel.patience()
        receiving = transfer.Receiver(h2, ["--timeout", limit])
        sending = h1.start_job(transfer.send_line(h1, path, "--timeout", limit))
        receiving.has(1 << 20)
        who.run(f"echo {device} >/sys/bus/pci/drivers/weft/unbind", 60)
        who.run("test ! -e /dev/weft0")
        other.wait_link("down")
        # The end that lost its port says so at once, the other one tries for a while.
        mine = sending if who is h1 else receiving.job
        lost = mine.wait(60)
        if not lost.status:
            raise Mismatch(f"{who.name}: the transfer succeeded without a port")
        steps.refused(lost, lost.status, "port")
        other = receiving.job if who is h1 else sending
        given_up = other.wait(90)
        if not given_up.status:
            raise Mismatch(f"{other.name}: the transfer succeeded without a peer")
        who.run(f"echo {device} >/sys/bus/pci/drivers/weft/bind", 60)
        for host in lab.hosts.values():
            host.wait_links()
        steps.both_ways(lab)
