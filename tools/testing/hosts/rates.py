# SPDX-License-Identifier: GPL-2.0
"""How much a virtual function may do in a time: in the hands of a stranger who takes all he can get,
and of the driver."""

import contextlib
import re

from weftlab import kernel
from weftlab.errors import Mismatch
from weftlab.speed import ways
from weftlab.suite import test

from .constants import constants
from .sriov import SYSFS, carry, undisturbed, vfs

LAB = "functions of both"
# A stranger that drives a VF by its registers alone: FUNCTION. It copies by DMA, from page to page of
# its own, and rings every doorbell of its neighbour, as fast as it can, until it is killed.
GREEDY = """import ctypes, mmap, os, struct, sys
PAGE, ENTRIES = 4096, 64
fd = os.open(f"/sys/bus/pci/devices/{sys.argv[1]}/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(fd, 1 << 17)).cast("I")
memory = mmap.mmap(-1, 3 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
if libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(len(memory))):
    raise OSError(ctypes.get_errno(), "mlock")
memory[:] = bytes([1]) * len(memory)


def physical(page):
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek((at // PAGE + page) * 8)
        return (struct.unpack("<Q", file.read(8))[0] & (1 << 55) - 1) * PAGE


def write(address, value, size=4):
    for word in range(size // 4):
        regs[address // 4 + word] = value >> 32 * word & 0xffffffff


write(R_CTRL, CTRL_ENABLE)
write(R_INBOUND + INBOUND_LEN, PAGE, 8)
write(R_INBOUND + INBOUND_BASE, physical(2), 8)
write(R_INBOUND + INBOUND_RIGHTS, RIGHT_READ | RIGHT_WRITE)
write(R_INBOUND + INBOUND_ALLOW, ALLOW_SELF)
write(R_INBOUND + INBOUND_CTRL, INBOUND_ENABLE)
write(R_SLOT + SLOT_DEST, DEST_SELF)
write(R_SLOT + SLOT_LEN, PAGE, 8)
write(R_SLOT + SLOT_CTRL, SLOT_ENABLE)
write(R_DB_PAGE + DB_PAGE_DEST, DEST_LINK)
write(R_DB_PAGE + DB_PAGE_ALLOW, 0xffffffff)
for n in range(ENTRIES):
    desc = bytearray(DMA_DESC_BYTES)
    struct.pack_into("<I", desc, DMA_DESC_CTRL, DMA_WRITE)
    struct.pack_into("<Q", desc, DMA_DESC_ADDR, physical(1))
    struct.pack_into("<I", desc, DMA_DESC_LEN, PAGE)
    memory[n * DMA_DESC_BYTES:(n + 1) * DMA_DESC_BYTES] = bytes(desc)
write(R_DMA + DMA_BASE, physical(0), 8)
write(R_DMA + DMA_ORDER, ENTRIES.bit_length() - 1)
write(R_DMA + DMA_CTRL, DMA_ENABLE)
print("begins", flush=True)
while True:
    write(R_DMA + DMA_TAIL, regs[(R_DMA + DMA_HEAD) // 4] + ENTRIES & 0xffffffff)
    for bell in range(DOORBELLS):
        write(DB_PAGE_BASE, bell)
"""
# What VFs do meanwhile, as their PF counts it, and how long that took at the most: SECONDS DIRECTORY...
MEANWHILE = """import sys, time


def counts():
    return [int(open(f"{vf}/{name}").read()) for vf in sys.argv[2:] for name in ("moved_bytes", "rung")]


begin = time.monotonic()
before = counts()
time.sleep(float(sys.argv[1]))
after = counts()
print(time.monotonic() - begin, *(b - a for a, b in zip(before, after)))
"""
RATE, RINGS = 1 << 20, 100
# What a bucket has room for, and a step.
ROOM, LEAST_RINGS = (64 << 10) + 4096, 16


@contextlib.contextmanager
def stranger(side, n, program, *words):
    """VF n in the hands of a program that knows its registers."""
    vf = side.vf(n)
    side.host.run(f"echo {vf} >/sys/bus/pci/drivers/weft/unbind")
    side.state(n, "idle")
    side.host.run(f"setpci -s {vf} COMMAND=6")
    path = side.host.push("stranger.py", (constants() + program).encode())
    job = side.host.start_job(f"exec python3 {path} {vf} {' '.join(map(str, words))}")
    try:
        job.expect("begins", 60)
        yield
        if not job.running:
            raise Mismatch(f"the stranger ended: {job.wait(10).err}")
    finally:
        if job.running:
            job.kill(9)
        job.wait(60)
        # What it has left behind is not to be written to any more.
        side.host.run(f"setpci -s {vf} COMMAND=0 && echo 1 >{SYSFS}/{vf}/reset && "
                      f"echo {vf} >/sys/bus/pci/drivers/weft/bind")  # fmt: skip


def meanwhile(side, *vfs_of, seconds=2):
    """What they do in so many seconds of the guest's clock: the time, and bytes and doorbells of each."""
    return parsed(side.host.out(meanwhile_line(side, *vfs_of, seconds=seconds), 60))


def meanwhile_line(side, *vfs_of, seconds):
    path = side.host.push("meanwhile.py", MEANWHILE.encode())
    where = " ".join(side.file(n, "").rstrip("/") for n in vfs_of)
    return f"python3 {path} {seconds} {where}"


def parsed(said):
    took, *counts = said.split()
    return float(took), [tuple(map(int, counts[n:n + 2])) for n in range(0, len(counts), 2)]


def within(took, moved, rung):
    """It was as much as it could be, and no more."""
    if moved > RATE * took + ROOM or rung > RINGS * took + LEAST_RINGS + 1:
        raise Mismatch(f"{moved} bytes and {rung} doorbells in {took} s, of {RATE} and {RINGS} in each")
    if moved < RATE * took / 2 or rung < RINGS * took / 2:
        raise Mismatch(f"a VF that has {RATE} bytes and {RINGS} doorbells a second gets {moved} and {rung} in {took} s")


@test("MR-8: a VF in greedy hands moves and rings what its rate lets it, and others go on")
def starving(bench):
    with vfs(bench, 2) as (lab, a, b):
        nodes, there = a.ready(2), b.ready(2)
        # One who takes all he can get.
        with stranger(a, 0, GREEDY):
            took, ((moved, rung),) = meanwhile(a, 0)
            bench.note(f"greedy, without limits: {moved / took / 1e6:.1f} MB/s, {rung / took:.0f} doorbells/s")
            if moved < 4 * RATE * took or rung < 4 * RINGS * took:
                raise Mismatch(f"nothing to limit: {moved} bytes and {rung} doorbells in {took} s")
            a.host.weftctl("vf", "set", 0, 0, f"rate={RATE}", f"rings={RINGS}")
            found = a.host.weftctl_json("vf")["vfs"][0]
            if (found["quota"]["rate"], found["quota"]["rings"]) != (RATE, RINGS) or found["used"]["rung"] < rung:
                raise Mismatch(f"weftctl vf: {found}")
            others = [(side, ports[n]) for side, ports in ((a, nodes), (b, there)) for n in (0, 2)]
            with undisturbed(*others):
                line = meanwhile_line(a, 0, 1, seconds=5 * kernel.patience())
                work = a.host.start_job(f"exec {line}")
                carry(a, b, [nodes[0], nodes[2]], [there[0], there[2]], 2 << 20)
                took, (mine, other) = parsed(work.wait(60).must(0).out)
            within(took, *mine)
            if not other[1]:
                raise Mismatch("the other VF has done nothing")
            bench.note(f"with limits: {mine[0] / took / 1e6:.2f} MB/s, {mine[1] / took:.1f} doorbells/s")
        carry(a, b, a.ready(2), b.ready(2))


@test("MR-8: the driver lives with the rates of its VF: what takes long arrives, and a rate that is too low is refused", long=True)
def driven(bench):
    with vfs(bench, 2) as (lab, a, b):
        # Room for much that is under way at once.
        b.set(0, "bytes", 32 << 20)
        for what in ("unbind", "bind"):
            b.host.run(f"echo {b.vf(0)} >/sys/bus/pci/drivers/weft/{what}")
        nodes, there = a.ready(2), b.ready(2)
        # At the lowest rate all of it takes longer than a transfer may that does not go on.
        for rate, size, count, pairs in ((1 << 20, 64 << 10, 32, 1), (64 << 10, 256 << 10, 8, 4)):
            way = f"qp {{}} 7180 polled {pairs}"
            a.host.weftctl("vf", "set", 0, 0, f"rate={rate}", "rings=50")
            with undisturbed((a, nodes[1]), (b, there[1])):
                before = int(a.get(0, "moved_bytes"))
                serving = b.host.start_job(f"{ways.PROGRAM} serve {way.format(there[1])}")
                serving.expect("^listening", 60)
                done = a.host.run(f"{ways.PROGRAM} run {way.format(nodes[1])} write:{size}:{count}", 180)
                serving.wait(60).must()
                moved = int(a.get(0, "moved_bytes")) - before
            bench.note(f"{count} writes of {size >> 10} KiB at {rate >> 10} KiB/s: {moved} bytes by DMA, {done.out.strip()}")
            if moved < size * count / 4:
                raise Mismatch(f"{moved} bytes by DMA, of {count} times {size}")
        for words, says in ((("rate=65535",), "the least"), (("rings=5G",), "too large")):
            done = a.host.weftctl("vf", "set", 0, 0, *words, status=None)
            if done.status != 2 or says not in done.err:
                raise Mismatch(f"{words}: {done.status}, {done.err}")
        shown = a.host.weftctl("vf").out.splitlines()[1]
        if not re.search(r" 64.0 KiB/s +50/s$", shown):
            raise Mismatch(shown)
        # A reset of the PF leaves it as it was.
        a.host.run(f"echo 1 >/sys/bus/pci/devices/{a.pf}/reset", 60)
        nodes = a.ready(2)
        if a.get(0, "rate") != str(64 << 10) or a.get(0, "rings") != "50":
            raise Mismatch("a rate is another after a reset")
        a.host.weftctl("vf", "set", 0, 0, "rate=0", "rings=0")
        carry(a, b, nodes, b.ready(2))
