# SPDX-License-Identifier: GPL-2.0
"""A guest of a guest: a second system image, which runs weft.ko itself on a virtual function that its host has handed
to it by vfio-pci.

Its processor is emulated by one that is emulated, so its kernel needs minutes to start."""

import pathlib
import re
import time

from weftlab import dmesg, guest, kernel, paths, topology, transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .sriov import Side

LAB = "nested"
# Seconds until it has done all.
PATIENCE = 900
MEMORY = 320
# Of the payload: what is emulated twice carries 50 KB/s.
BYTES = 300_000
# Bytes of a console that a message can begin in.
TAIL = 2000
# In a file system of the host's that is memory. The names are the tags of the shares.
FOLDER = "/tmp/nested"
# What the kernel of the inner guest runs when it has started.
AGENT = """#!/bin/sh
exec >/dev/console 2>&1
PATH=/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "nested: $*"; }
try() { "$@" || say "failed: $*"; }
say started
try insmod /mnt/lab/weft.ko
cd /sys/class/weft/weft0/device
n=0
until [ "$(cat link0/state)" = ready ] || [ $n = 200 ]; do sleep 1; n=$((n + 1)); done
say "has $(cat hwid), link $(cat link0/state), to $(cat link0/peer_hwid)"
try /mnt/lab/weftctl ping --port 0 --link 0 --count 5 --timeout 60
say pinged
try /mnt/lab/weftctl send --port 0 --link 0 --timeout 60 /mnt/lab/payload >/dev/null
say sent
cd /
try rmmod weft
say over
/bin/busybox poweroff -f
"""


def line(vf):
    """How the inner guest is started."""
    shares = [word for tag, folder in (("rootfs", "/"), ("lab", FOLDER)) for word in guest.Guest.share(tag, folder, True)]
    words = [
        f"{FOLDER}/qemu", "-L", "/usr/share/seabios", "-L", "/usr/share/qemu", "-nodefaults", "-no-user-config",
        "-display", "none", "-M", "q35", "-m", f"{MEMORY}M", "-accel", "tcg", "-cpu", guest.CPU,
        "-action", "reboot=shutdown,panic=shutdown", "-kernel", f"{FOLDER}/kernel", "-initrd", f"{FOLDER}/initrd",
        "-append", f"'{guest.APPEND}{guest.clock()} weft.host=nested'", "-serial", "file:/mnt/run/console",
        *shares, "-device", f"vfio-pci,host={vf}",
    ]  # fmt: skip
    return "exec " + " ".join(map(str, words)) + " 2>&1"


def furnished(host):
    """What the inner guest needs, in the memory of its host."""
    image, initrd, _ = paths.guest_files()
    files = {
        "qemu": paths.env("qemu"), "kernel": image, "initrd": initrd,
        "weft.ko": paths.module(), "weftctl": paths.tools_dir() / "weftctl",
    }  # fmt: skip
    host.run(f"mkdir {FOLDER}")
    for name, file in files.items():
        there = host.push(name, pathlib.Path(file).read_bytes())
        host.run(f"mv {there} {FOLDER}/{name} && chmod 755 {FOLDER}/{name}", 120)
    there = host.push("agent", AGENT.encode())
    host.run(f"mv {there} {FOLDER}/agent && chmod 755 {FOLDER}/agent")
    there, here = steps.payload(host, "payload", BYTES)
    host.run(f"cp {there} {FOLDER}/payload")
    return here


class Inner:
    """The inner guest, by its console."""

    def __init__(self, host, vf, say):
        self.console, self.say = host.run_dir / "console", say
        self.told = 0
        self.deadline = time.monotonic() + PATIENCE * kernel.patience()
        self.job = host.start_job(line(vf))

    def text(self):
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def says(self, pattern):
        """Waits until it does; the match."""
        while True:
            text = self.text()
            all_ = re.findall(r"^nested: (.*)$", text, re.M)
            for told in all_[self.told :]:
                self.say(f"the inner guest: {told}")
            self.told = len(all_)
            if found := re.search(pattern, text):
                return found
            if "nested: failed" in text or not self.job.running:
                raise Mismatch(f"not {pattern!r}: {text[-TAIL:]}\n{self.job.out[-TAIL:]}")
            if time.monotonic() > self.deadline:
                raise Mismatch(f"not {pattern!r} within {PATIENCE} s: {text[-TAIL:]}")
            time.sleep(0.5)


@test("MIG-2, MR-8: a guest of a guest drives a VF by weft.ko of its own, which its host has handed to it by vfio-pci",
      lab=LAB, iommu=True, long=True)  # fmt: skip
def handed(bench):
    shape = topology.Topology().host("h1", 1).host("h2", 2).link("h1:0", "h2:0")
    lab = bench.shape(LAB, shape, vfs=1, vf_slots=4, memory=1024, cpus=2)
    a, b = (Side(host) for host in lab.hosts.values())
    for side in (a, b):
        side.numvfs(1)
    a.ready(1)
    there = b.ready(1)[1]
    vf, hwid = a.lend(0)
    source = furnished(a.host)
    serving = b.host.start_job(b.host.weftctl_line("ping", "--serve", "--port", there))
    serving.expect("listening", 60)
    receiving = transfer.Receiver(b.host, ["--port", there])
    try:
        inner = Inner(a.host, vf, bench.say)
        seen = inner.says(r"nested: has (\S+), link (\S+), to \S+").groups()
        if seen != (hwid, "ready"):
            raise Mismatch(f"{seen} inside, not {(hwid, 'ready')}")
        inner.says("nested: pinged")
        inner.says("nested: sent")
        receiving.wait(60)
        inner.says("nested: over")
        inner.job.wait(120).must(0)
    finally:
        receiving.end()
        serving.kill()
    arrived = receiving.arrived(source.name)
    if steps.digest(arrived) != steps.digest(source):
        raise Mismatch("what has arrived is not what was sent")
    if found := dmesg.complaints(inner.text()):
        raise Mismatch("the kernel of the inner guest says:\n" + "\n".join(found))
    # It is the host's again.
    a.host.run(f"rm -r {FOLDER}")
    a.take_back(vf)
    a.ready(1)
