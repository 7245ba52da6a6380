# SPDX-License-Identifier: GPL-2.0
"""Faults on command: what each does to two hosts and their users, and how they recover.

Each test injects a fault while something is under way, and shows that nothing that was acknowledged
is lost, that nothing hangs, that the kernel's log names the cause, and that the link works again by
itself when the fault ends. How long that takes is told, not asserted.
"""

import re
import time

from weftlab import paths
from weftlab.errors import Mismatch
from weftlab.fabric import wait_until
from weftlab.suite import test

from . import steps
from .verbs import all_results, verbs

LAB = "pair"
# Enough to be under way yet when a fault comes, on a machine that has other things to do.
LINK = "/sys/class/weft/weft0/device/link0"


class Log:
    """What the kernels say from here on."""

    def __init__(self, lab):
        self.hosts = lab.hosts.values()
        self.before = {host.name: len(self.lines(host)) for host in self.hosts}

    @staticmethod
    def lines(host):
        return host.out("dmesg").splitlines()

    def said(self, host, pattern):
        return [line for line in self.lines(host)[self.before[host.name]:] if re.search(pattern, line)]

    def check(self, host, pattern, most=1):
        """The cause is named, and not again and again."""
        wait_until(lambda: self.said(host, pattern), 60, f"{host.name} to say {pattern!r}", every=0.5)
        lines = self.said(host, pattern)
        if not 1 <= len(lines) <= most:
            raise Mismatch(f"{host.name} says {len(lines)} times, not 1 to {most}, {pattern!r}:\n"
                           + "\n".join(self.lines(host)[self.before[host.name]:][-40:]))  # fmt: skip


def attribute(host, name):
    return int(host.out(f"cat {LINK}/{name}"))


def recovered_by_aer(log, host):
    """The kernel's own recovery, where it is told of errors: it resets the function."""
    if not host.run("dmesg | grep -q 'AER: enabled'", status=None).status:
        wait_until(lambda: log.said(host, "weft.*is back from"), 60, f"{host.name}: the reset by AER", every=0.5)


def recovered(bench, lab, what, since):
    """Waits until the link carries again; says how long that took from `since` on."""
    for host in lab.hosts.values():
        host.wait_links()
    bench.note(f"recovery: {what}: link ready after {time.monotonic() - since:.1f} s")


@test("flap: a transfer under way goes on each time, and is whole", long=True)
def flap(bench):
    lab = bench.pair()
    way = steps.UnderWay(lab, "flap")
    lab.fabric.inject("flap", "h1:0", "--count", 4, "--period", 1000)
    wait_until(lambda: not lab.fabric.faults(), 60, "the end of the fault")
    recovered(bench, lab, "flap", time.monotonic())
    way.whole(resumed=True)
    steps.both_ways(lab)


@test("surprise down: silence tells; nothing is lost, the link comes back by itself", long=True)
def surprise_down(bench):
    lab = bench.pair()
    way = steps.UnderWay(lab, "surprise")
    began = time.monotonic()
    lab.fabric.inject("surprise-down", "h1:0")
    for host in lab.hosts.values():
        host.wait_link("hello")
    bench.note(f"recovery: surprise down: noticed after {time.monotonic() - began:.1f} s")
    lab.fabric.clear()
    recovered(bench, lab, "surprise down", time.monotonic())
    way.whole(resumed=True)
    steps.both_ways(lab)


@test("surprise down, for a moment: what was lost meanwhile is not taken for carried")
def surprise_moment(bench):
    lab = bench.pair()
    way = steps.UnderWay(lab, "moment")
    lab.fabric.inject("surprise-down", "h2:0")
    lab.fabric.clear()
    recovered(bench, lab, "surprise down for a moment", time.monotonic())
    way.whole(resumed=False)


@test("slow link: everything arrives, the link stays ready")
def slow(bench):
    lab = bench.pair()
    broken = attribute(lab["h1"], "channels_broken")
    lab.fabric.inject("slow", "h1:0", "--latency", 100000, "--bandwidth", 1000000)
    steps.both_ways(lab, 64 << 10)
    lab.fabric.clear()
    recovered(bench, lab, "slow link", time.monotonic())
    if attribute(lab["h1"], "channels_broken") != broken:
        raise Mismatch("a channel broke, and the link was only slow")
    steps.both_ways(lab)


@test("poisoned write: both ends begin anew, the transfer goes on and is whole", long=True)
def poisoned_write(bench):
    lab = bench.pair()
    log = Log(lab)
    way = steps.UnderWay(lab, "poisoned")
    broken = attribute(lab["h2"], "channels_broken")
    began = time.monotonic()
    lab.fabric.inject("poisoned-write", "h1:0", "--count", 1)
    lab["h2"].until(f"[ $(cat {LINK}/channels_broken) -gt {broken} ]", 30)
    recovered_by_aer(log, lab["h2"])
    recovered(bench, lab, "poisoned write", began)
    way.whole(resumed=True)
    log.check(lab["h2"], "weft.*data came poisoned", most=2)
    steps.both_ways(lab)


# Connects, maps the peer's area, waits for a file and reads through the window.
READ = """import fcntl, mmap, os, struct, time
IOCTL = 0x{type:02x} << 8
file = os.open("/dev/weft0", os.O_RDWR)
fcntl.ioctl(file, IOCTL | {connect}, bytearray(struct.pack("<IIQIIIIII", 40, 0, 0, 0, {service}, 16, 4096, 20000, 0)))
told = bytearray(struct.pack("<I", 96).ljust(96, b"\\0"))
fcntl.ioctl(file, IOCTL | {info}, told)
window, size = struct.unpack_from("<QQ", told, 56)
memory = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=window)
print("mapped", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.02)
print("read", memory[4096:4104].hex(), flush=True)
"""
SERVICE = 7400


def header(name):
    """A number of the user interface."""
    text = (paths.TOP / "include/uapi/linux/weft.h").read_text()
    value = re.search(rf"#define {name}\s+(?:_IO\(WEFT_IOC_TYPE, WEFT_IOC_BASE \+ )?('.'|\w+)", text).group(1)
    return ord(value[1]) if value[0] == "'" else int(value, 0)


def user_reads(bench, fault, complaint):
    """A user of h1 reads through its window, and the read fails."""
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    log = Log(lab)
    base = header("WEFT_IOC_BASE")
    script = READ.format(type=header("WEFT_IOC_TYPE"), service=SERVICE,
                         connect=base + header("WEFT_CHAN_CONNECT"), info=base + header("WEFT_CHAN_INFO"))  # fmt: skip
    h1.run("rm -f /tmp/go")
    path = h1.push("read.py", script.encode())
    listening = h2.start_job(f"/mnt/tools/weft-soak listen 0 {SERVICE}")
    listening.expect("listening", 30)
    reading = h1.start_job(f"python3 {path}")
    reading.expect("mapped", 30)
    began = time.monotonic()
    lab.fabric.inject(fault, "h1:0", "--count", 1)
    h1.run("touch /tmp/go")
    reading.expect("read ffffffffffffffff", 30)
    reading.wait(30)
    wait_until(lambda: not lab.fabric.faults(), 30, "the end of the fault")
    recovered_by_aer(log, h1)
    recovered(bench, lab, fault, began)
    log.check(h1, complaint, most=2)
    steps.both_ways(lab)
    if listening.running:
        listening.kill()
    listening.wait(90)


@test("poisoned read: the user gets ones, the port says why, the link works on")
def poisoned_read(bench):
    user_reads(bench, "poisoned-read", "weft.*data came poisoned")


@test("completion timeout: the user gets ones and does not hang, the port says why, the link works on")
def completion_timeout(bench):
    user_reads(bench, "completion-timeout", "weft.*read without an answer")


@test("mailbox messages dropped, doubled, corrupted, one in three, both ways: all arrives")
def mailbox_some(bench):
    lab = bench.pair()
    for does in "drop", "duplicate", "corrupt":
        for end in "h1:0", "h2:0":
            lab.fabric.inject("mailbox", does, end, "--every", 3)
        steps.both_ways(lab, 256 << 10)
        lab.fabric.clear()


@test("every mailbox message dropped: silence tells, the link comes back by itself")
def mailbox_silent(bench):
    lab = bench.pair()
    lab.fabric.inject("mailbox", "drop", "h1:0")
    lab["h2"].wait_link("hello")
    lab.fabric.clear()
    recovered(bench, lab, "every message dropped", time.monotonic())
    steps.both_ways(lab)


@test("every mailbox message corrupted: counted and named, not repeated; the link comes back by itself")
def mailbox_corrupt(bench):
    lab = bench.pair()
    log = Log(lab)
    lab.fabric.inject("mailbox", "corrupt", "h1:0")
    lab["h2"].wait_link("hello")
    lab["h2"].until(f"[ $(cat {LINK}/messages_bad) -gt 0 ]", 30)
    # Of which byte is wrong it depends what is said, and of how many there were before, when.
    wait_until(lambda: log.said(lab["h2"], "not a message"), 60, "the driver to say so", every=0.5)
    lab.fabric.clear()
    recovered(bench, lab, "every message corrupted", time.monotonic())
    log.check(lab["h2"], "not a message", most=10)
    steps.both_ways(lab)


@test("stuck doorbell: sleepers wake all the same, the driver says so once")
def stuck_doorbell(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    log = Log(lab)
    server = h2.start_job("weftctl ping --serve")
    server.expect("listening on", 30)
    lost = attribute(h2, "doorbells_lost")
    for end in "h1:0", "h2:0":
        lab.fabric.inject("stuck-doorbell", end)
    h1.run("weftctl ping --count 8", 60)
    if attribute(h2, "doorbells_lost") <= lost:
        raise Mismatch("doorbells were lost, and it was not noticed")
    log.check(h2, "weft.*no doorbell")
    lab.fabric.clear()
    began = time.monotonic()
    h1.run("weftctl ping --count 1", 60)
    bench.note(f"recovery: stuck doorbell: a ping after {time.monotonic() - began:.1f} s")
    after = attribute(h2, "doorbells_lost")
    h1.run("weftctl ping --count 8", 60)
    if attribute(h2, "doorbells_lost") > after + 1:
        raise Mismatch("the doorbell is not stuck any more, and the clock still wakes")
    server.kill()
    server.wait(20)


@test("memory gone: both ends notice, the transfer goes on when it is back, and is whole")
def memory_gone(bench):
    lab = bench.pair()
    log = Log(lab)
    way = steps.UnderWay(lab, "memory")
    began = time.monotonic()
    lab.fabric.inject("memory-gone", "h2")
    for host in lab.hosts.values():
        host.wait_link("hello")
    bench.note(f"recovery: memory gone: noticed after {time.monotonic() - began:.1f} s")
    lab.fabric.clear()
    recovered(bench, lab, "memory gone", time.monotonic())
    way.whole(resumed=True)
    log.check(lab["h2"], "weft.*(out of the neighbour's reach|cannot grant)", most=2)
    steps.both_ways(lab)


@test("DMA error: what uses the link's queue pairs is told, both ends begin anew, and all works again")
def dma_error(bench):
    lab = bench.pair()
    h1 = lab["h1"]
    log = Log(lab)
    lab.fabric.inject("dma-error", "h1", "--count", 1)
    broken, other = verbs(lab)
    began = time.monotonic()
    if not broken.status or not re.search(r"^# .*link", broken.out, re.M | re.I):
        raise Mismatch(f"no program was told that the link has lost something:\n{broken.out}{broken.err}\n{other.out}")
    if lab.fabric.faults():
        raise Mismatch(f"nothing was struck: {lab.fabric.faults()}")
    log.check(h1, "weft.*DMA engine", most=2)
    recovered(bench, lab, "DMA error", began)
    for name, good, why, _, _ in all_results(*verbs(lab)):
        if not good:
            raise Mismatch(f"{name}: {why}")
    steps.both_ways(lab)


@test("all ones: users get an error at once, the driver lets go; when the function answers again all is back")
def all_ones(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    log = Log(lab)
    receiving = h2.start_job(h2.weftctl_line("recv", "/tmp"))
    receiving.expect("listening on", 30)
    # A program looks at the counters before the driver has noticed.
    looks = "read _ </sys/class/weft/weft0/device/counters/dma_bytes"
    looking = h2.start_job(f"echo looking; while :; do {looks}; done 2>/dev/null")
    looking.expect("looking")
    began = time.monotonic()
    lab.fabric.inject("all-ones", "h2")
    result = receiving.wait(30)
    if not result.status:
        raise Mismatch("a receiver whose port is gone ends as if all were well")
    looking.kill()
    looking.wait()
    bench.note(f"recovery: all ones: noticed after {time.monotonic() - began:.1f} s")
    shown = h2.run("cat /sys/class/weft/weft0/device/hwid", 20, None)
    if not shown.status or "No such device" not in shown.err:
        raise Mismatch(f"sysfs shows a function that does not answer: {shown.out}{shown.err}")
    h1.wait_link("hello")
    lab.fabric.clear()
    recovered(bench, lab, "all ones", time.monotonic())
    log.check(h2, "weft.*does not answer")
    log.check(h2, "weft.*answers again")
    steps.both_ways(lab)


@test("all ones at the receiver of a transfer: it ends in an error, and so does the sender", long=True)
def all_ones_in_transfer(bench):
    lab = bench.pair()
    way = steps.UnderWay(lab, "ones", lasting=False)
    lab.fabric.inject("all-ones", "h2")
    lab["h1"].wait_link("hello")
    # The receiver is told that its port is gone, and so the sender finds no peer in the end.
    result = way.receiving.job.wait(60)
    if not result.status:
        raise Mismatch("the receiver's port is gone, and it ends as if all were well")
    lab.fabric.clear()
    for host in lab.hosts.values():
        host.wait_links()
    if not way.sending.wait(120).status:
        raise Mismatch("the sender takes a file for carried that no host has")
    steps.both_ways(lab)


@test("a neighbour whose machine is stopped holds on to memory: said once, and when it is over; all comes back")
def stopped(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    log = Log(lab)
    h2.freeze()
    lab.fabric.link("down", "h1:0")
    h1.wait_link("down")
    lab.fabric.link("up", "h1:0")
    wait_until(lambda: log.said(h1, "still holds on to the arena"), 60, "the driver to name the cause", every=0.5)
    # It tries again each second: were it to say so each time, it would have by then.
    h1.run("sleep 4")
    h2.freeze(False)
    began = time.monotonic()
    recovered(bench, lab, "stopped machine", began)
    log.check(h1, "still holds on to the arena")
    log.check(h1, "has let go of the arena")
    steps.both_ways(lab)
