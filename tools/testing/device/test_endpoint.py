# SPDX-License-Identifier: GPL-2.0
"""A shared endpoint of the daemon, and two real ports whose hosts use it at the same time."""

import struct

import regs as R
from crc import crc32c
from port import MEMORY, PAGE
from tap import equal, until
from test_routes import LIVE, Net, read_config, topology, write_config

LID = 9
# Root complexes 1 and 2 at ports 0 and 1 of s1, on VPs 1 and 2 of every link.
PATH = [0, 2]
TEXT = topology((1, 2), (1,), [("h1:0", "s1:0"), ("s1:1", "h2:0"), ("s1:2", "ep:0")]) + (
    'endpoint = [{ name = "ep", kind = "copy", ves = 2 }]\n')
TERM = 1


class Tenant:
    """A host and its virtual endpoint: a slot onto it, a page to ring it, and memory that is open to it."""

    BYTES = 16 * PAGE
    RING = 3
    ENTRIES = 8

    def __init__(self, net, n):
        self.net, self.n, self.port, self.vp = net, n, net[n], n
        self.base = MEMORY + n * 64 * PAGE
        self.at = (n - 1) * R.EP_FUNCTION_BYTES
        # Where its memory is in its aperture space: the same for both.
        self.space = 0x700000
        self.posted = self.done = 0

    def entries(self):
        """What the master writes for it: how to put each entry, and how to take it."""
        master, ve = self.net[1], (self.n - 1) << 8

        def write(path, space, address, data):
            equal(write_config(master, path, space, address, data, TERM), R.CFG_OK, f"space {space} {address:#x}")

        def entry(path, space, address, data):
            return lambda: write(path, space, address, R.TABLE_VALID | data), lambda: write(path, space, address, 0)

        def base():
            write(PATH, R.SPACE_BASE, ve | R.BASE_ROOT, self.n)
            write(PATH, R.SPACE_BASE, ve | R.BASE_VE, R.TABLE_VALID | self.vp)

        return {
            "plane of the host": entry([0], R.SPACE_VP, (self.n - 1) << 8 | self.vp, 100 + self.n),
            "plane of the endpoint": entry([0], R.SPACE_VP, 2 << 8 | self.vp, 100 + self.n),
            "way back": entry([0], R.SPACE_ROUTE, self.n, self.n - 1),
            "base function": (base, lambda: write(PATH, R.SPACE_BASE, ve | R.BASE_VE, 0)),
            "route of the host": (lambda: self.net.host_route(self.n, 0, LID, 0, self.vp),
                                  lambda: self.net.host_route(self.n, 0, LID, 0, self.vp, ctrl=0)),
            "entry of the host": (self.open, self.close),
        }

    def open(self):
        self.port.admit(0, 0, self.vp, LID)
        self.port.set_inbound(0, self.space, self.BYTES, self.base, allow=0)
        self.released()

    def close(self):
        self.port.close_inbound(0)
        self.released()

    def released(self):
        until(lambda: not self.port.inbound_status(0) & R.INBOUND_BUSY, "the entry to be in force")

    def start(self):
        for put, _ in self.entries().values():
            put()
        self.port.write(R.R_DB_ALLOW_VP + 4 * self.vp, 1 << self.RING)
        self.port.set_slot(0, R.DEST_LID | LID, self.at, PAGE)
        self.port.set_page(0, R.DEST_LID | LID, 1)
        until(self.reaches, f"the slot of h{self.n} to live")
        equal(self.get(R.EP_ID), R.EP_ID_VALUE, "what is there")
        equal(self.get(R.EP_FUNCTION), self.n - 1, "whose it is")
        self.enable()

    def reaches(self):
        return self.port.slot_status(0) & LIVE == LIVE

    def get(self, register):
        return self.port.qemu.read(self.port.slot(0, register), 4)

    def set(self, register, value):
        self.port.qemu.write(self.port.slot(0, register), 4, value)

    def ring(self):
        self.port.ring(0, 0)

    def enable(self):
        """Sets the queues up, in the host's memory: pull, pull, push."""
        self.set(R.EP_CTRL, 0)
        self.ring()
        until(lambda: self.get(R.EP_STATUS) == 0, "the function to be disabled")
        self.posted = self.done = 0
        self.port.qemu.write_bytes(self.base, bytes(2 * PAGE))
        queues = (R.EP_WQ, 0, R.EP_WQE_BYTES), (R.EP_CQ, PAGE, R.EP_CQE_BYTES)
        for group, offset, element in queues:
            for register, value in ((R.EP_Q_BASE, self.space + offset),
                                    (R.EP_Q_LIMIT, self.space + offset + self.ENTRIES * element - 1)):
                self.set(group + register, value)
                self.set(group + register + 4, 0)
            self.set(group + R.EP_Q_DOORBELL, 0)
            self.set(group + R.EP_Q_TAKEN, 0)
        self.set(R.EP_CTRL, R.EP_ENABLE | R.EP_RING | self.RING << 16)
        self.ring()
        until(lambda: self.get(R.EP_STATUS) == R.EP_ENABLED, "the function to be enabled")

    def post(self, seed):
        """A copy of a page with its checksum, from page 2 to page 3 of what is open."""
        data = bytes((n * 7 + seed) & 0xff for n in range(PAGE))
        self.port.qemu.write_bytes(self.base + 2 * PAGE, data)
        self.port.qemu.write_bytes(self.base + 3 * PAGE, bytes(PAGE))
        source, dest = self.space + 2 * PAGE, self.space + 3 * PAGE
        wqe = struct.pack("<4BIQ4Q", R.EP_COPY_CRC32C, 1, 1, 0, 0, seed,
                          source, source + PAGE - 1, dest, dest + PAGE - 1)
        slot = self.posted % self.ENTRIES
        self.port.qemu.write_bytes(self.base + slot * R.EP_WQE_BYTES, wqe.ljust(R.EP_WQE_BYTES, b"\0"))
        self.posted += 1
        self.set(R.EP_WQ + R.EP_Q_DOORBELL, self.posted)
        self.ring()
        return data

    def completion(self):
        at = self.base + PAGE + self.done % self.ENTRIES * R.EP_CQE_BYTES
        # The number first, for it is written last.
        if self.port.qemu.read(at + R.EP_CQE_NUMBER, 4) != self.done + 1:
            return None
        return struct.unpack_from("<QIIQ", self.port.qemu.read_bytes(at, R.EP_CQE_BYTES))

    def finish(self, seed, data):
        until(self.completion, f"the completion of h{self.n}")
        equal(self.completion(), (seed, R.EP_OK, crc32c(data), PAGE), "completion")
        self.done += 1
        self.set(R.EP_CQ + R.EP_Q_TAKEN, self.done)
        assert self.port.qemu.read_bytes(self.base + 3 * PAGE, PAGE) == data, "the copy"
        until(lambda: self.port.read(R.R_DB_PENDING) & 1 << self.RING, "the doorbell of the completion")
        self.port.write(R.R_DB_PENDING, 1 << self.RING)

    def works(self, seed):
        self.finish(seed, self.post(seed))


def tenants(scope):
    net = Net(scope, TEXT)
    master = net[1]
    equal(read_config(master, PATH, R.CS_ID), R.DEVICE_ID_ENDPOINT << 16 | R.VENDOR_ID, "what is at port 2")
    equal(write_config(master, PATH, R.SPACE_BASE, R.BASE_ENDPOINT | R.BASE_LID, LID, TERM), R.CFG_OK, "LID")
    equal(write_config(master, [0], R.SPACE_ROUTE, LID, R.TABLE_VALID | 2, TERM), R.CFG_OK,
          "the way there")
    both = [Tenant(net, n) for n in (1, 2)]
    for tenant in both:
        tenant.start()
    return both


def test_two_hosts(scope):
    """MR-6: two hosts have an endpoint copy and sum at the same time; interrupts come to whose work it was"""
    both = tenants(scope)
    for seed in range(0, 40, 2):
        data = [tenant.post(seed + n) for n, tenant in enumerate(both)]
        for n, tenant in enumerate(both):
            tenant.finish(seed + n, data[n])


def test_isolation(scope):
    """MR-7: a host reaches its own virtual endpoint only, on whatever plane it tries, and by no work of its own another host"""
    first, second = tenants(scope)
    for vp in range(R.VPS):
        first.net.host_route(1, 0, LID, 0, vp)
        first.port.set_slot(0, R.DEST_LID | LID, second.at, PAGE)
        assert not first.reaches(), f"VP {vp}"
    # Nor does it help to go by the other's local id: the plane is the switch's to say.
    first.port.write(R.R_LID, 2)
    for vp in range(R.VPS):
        first.net.host_route(1, 0, LID, 0, vp)
        assert not first.reaches(), f"VP {vp} in another's name"
    second.works(9)
    first.port.write(R.R_LID, 1)
    first.net.host_route(1, 0, LID, 0, first.vp)
    first.port.set_slot(0, R.DEST_LID | LID, first.at, PAGE)
    until(first.reaches, "its own")
    # The same address is in the memory of either, but of itself.
    second.port.qemu.write_bytes(second.base + 2 * PAGE, b"a secret of the second host")
    first.works(1)
    second.works(2)
    # What is not open is not reached, and that is reported to whose memory it is.
    denied = first.port.counter(R.CNT_IN_DENIED)
    outside = first.space + first.BYTES
    wqe = struct.pack("<4BIQ2Q", R.EP_CRC32C, 1, 0, 0, 0, 77, outside, outside + 7)
    first.port.qemu.write_bytes(first.base + first.posted % first.ENTRIES * R.EP_WQE_BYTES,
                                wqe.ljust(R.EP_WQE_BYTES, b"\0"))
    first.posted += 1
    first.set(R.EP_WQ + R.EP_Q_DOORBELL, first.posted)
    first.ring()
    until(first.completion, "the refusal")
    equal(first.completion()[:2], (77, R.EP_UNREACHABLE), "completion")
    until(lambda: first.port.counter(R.CNT_IN_DENIED) == denied + 1, "the refusal to be counted")


def test_every_entry(scope):
    """MR-7: an entry of any kind less stops exactly the traffic of its hierarchy, there or back"""
    first, second = tenants(scope)
    for what, (put, take) in first.entries().items():
        take()
        back = what in ("way back", "entry of the host")
        equal(first.reaches(), back, what)
        if back:
            first.post(5)
            until(lambda: R.field(R.EP_FAILED, first.get(R.EP_STATUS)) == R.EP_FAIL_WQ, f"{what}: to be missed")
        second.works(6)
        put()
        until(first.reaches, f"{what}: the slot to live again")

        def again():
            first.enable()
            first.post(7)
            until(lambda: first.completion() or first.get(R.EP_STATUS) != R.EP_ENABLED, "an end")
            return first.completion()
        until(again, f"{what}: the way back")
        first.enable()
        first.works(8)
        second.works(9)


def test_hot_plug(scope):
    """HP-1: a switch's hot-plug controller interrupts who programs it; the endpoint is away for both, and comes back empty"""
    first, second = tenants(scope)
    master = first.port
    master.write(R.R_EVENT, R.EVENT_PLUG)
    master.write(R.R_EVENT_MASK, ~R.EVENT_PLUG & 0xffffffff)
    master.fired()
    first.net.daemon.command("unplug", "ep")
    until(lambda: master.read(R.R_EVENT) & R.EVENT_PLUG, "the event")
    equal(master.fired(), {1}, "the mailbox's vector")
    assert not first.reaches() and not second.reaches()
    slot = 2 << 8 | R.PLUG_PHYSICAL
    equal(read_config(master, [0], slot, R.SPACE_PLUG), R.PLUG_POWER | R.PLUG_CHANGED, "slot")
    equal(write_config(master, PATH, R.SPACE_BASE, 0, 0, TERM), R.CFG_NO_PATH, "its base function")
    master.write(R.R_EVENT, R.EVENT_PLUG)
    first.net.daemon.command("plug", "ep")
    until(lambda: master.read(R.R_EVENT) & R.EVENT_PLUG, "the event")
    first.net.daemon.command("wait", "--links", "--timeout", "30")
    equal(write_config(master, PATH, R.SPACE_BASE, R.BASE_ENDPOINT | R.BASE_LID, LID, TERM), R.CFG_OK, "LID")
    for tenant in first, second:
        tenant.entries()["base function"][0]()
        until(tenant.reaches, "the endpoint to be back")
        tenant.enable()
        tenant.works(3)
