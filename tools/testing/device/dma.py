# SPDX-License-Identifier: GPL-2.0
"""Channels of the DMA engine as a driver uses them; the engine moves only when a test steps the clock."""

import random

import regs as R
from fixture import Pair
from port import host
from tap import equal

# As the manual has them: a quantum for each channel every tick, and what the least step counts as.
TICK = 10_000
QUANTUM = 64 << 10
LEAST = 512

# Guest memory: rings and lists 64 KiB each a channel, local buffers, and what the slots lead to.
RINGS = 0x1000000
LISTS = 0x1200000
LOCAL = 0x1400000
REMOTE = 0x2400000
REMOTE_BYTES = 16 << 20

OK = R.DMA_ST_OK
RUNNING, BUSY, HALTED = R.DMA_RUNNING, R.DMA_BUSY, R.DMA_HALTED
# Bytes on either side of data, which must stay.
GUARD = 64


def descriptor(op, addr=0, length=0, offset=0, slot=0, flags=0, count=0, bell=0, zero=0, zero2=0, cookie=0):
    raw = bytearray(R.DMA_DESC_BYTES)
    for at, size, value in ((R.DMA_DESC_CTRL, 4, op | flags), (R.DMA_DESC_SLOT, 4, slot),
                            (R.DMA_DESC_OFFSET, 8, offset), (R.DMA_DESC_ADDR, 8, addr),
                            (R.DMA_DESC_LEN, 4, length), (R.DMA_DESC_COUNT, 4, count),
                            (R.DMA_DESC_BELL, 4, bell), (R.DMA_DESC_ZERO, 4, zero),
                            (R.DMA_DESC_COOKIE, 8, cookie), (R.DMA_DESC_ZERO2, 8, zero2)):
        raw[at:at + size] = value.to_bytes(size, "little")
    return bytes(raw)


def write(addr, length, offset=0, **how):
    return descriptor(R.DMA_WRITE, addr, length, offset, **how)


def read(addr, length, offset=0, **how):
    return descriptor(R.DMA_READ, addr, length, offset, **how)


def nop(**how):
    return descriptor(R.DMA_NOP, **how)


def element(addr, length, zero=0):
    return addr.to_bytes(8, "little") + length.to_bytes(4, "little") + zero.to_bytes(4, "little")


class Channel:
    """Channel n of a port, enabled; the driver's side of its ring."""

    def __init__(self, port, n=0, order=4, ring=None, bus=0):
        self.port = port
        self.n = n
        self.order = order
        self.ring = RINGS + 0x10000 * n if ring is None else ring
        self.bus = bus      # what DMA addresses of the ring are above those of memory
        self.lists = LISTS + 0x10000 * n
        self.tail = 0
        self.start()

    def start(self):
        self.tail = 0
        self.write64(R.DMA_BASE, self.bus + self.ring)
        self.write(R.DMA_ORDER, self.order)
        self.write(R.DMA_CTRL, R.DMA_ENABLE)

    # ---- registers

    def read(self, register):
        return self.port.read(R.R_DMA + self.n * R.DMA_STRIDE + register)

    def write(self, register, value):
        self.port.write(R.R_DMA + self.n * R.DMA_STRIDE + register, value)

    def write64(self, register, value):
        self.write(register, value & 0xffffffff)
        self.write(register + 4, value >> 32)

    def counter(self, number):
        at = R.DMA_COUNTERS + 8 * number
        return self.read(at) | self.read(at + 4) << 32

    def counters(self):
        return [self.counter(n) for n in range(R.DMA_COUNT)]

    def status(self):
        """The channel's state, and the reason if it is halted."""
        value = self.read(R.DMA_STATUS)
        return value & ~R.DMA_REASON, R.field(R.DMA_REASON, value)

    def head(self):
        return self.read(R.DMA_HEAD)

    # ---- descriptors

    def entry(self, index):
        return self.ring + index % (1 << self.order) * R.DMA_DESC_BYTES

    def put(self, *descriptors):
        """Write descriptors, without telling the device."""
        for raw in descriptors:
            self.port.qemu.write_bytes(self.entry(self.tail), raw)
            self.tail += 1

    def submit(self, *descriptors):
        self.put(*descriptors)
        self.write(R.DMA_TAIL, self.tail)

    def result(self, index):
        """(code, bytes) of a descriptor that is done, or None."""
        done = self.port.qemu.read(self.entry(index) + R.DMA_DESC_STATUS, 4)
        moved = self.port.qemu.read(self.entry(index) + R.DMA_DESC_MOVED, 4)
        if not done & R.DMA_DONE:
            equal((done, moved), (0, 0), f"status of descriptor {index}, which is not done")
            return None
        return done & ~R.DMA_DONE, moved

    def put_list(self, elements, at=0):
        """A list in guest memory; its address."""
        self.port.qemu.write_bytes(self.lists + at, b"".join(element(*one) for one in elements))
        return self.lists + at

    # ---- time

    def step(self, ticks=1):
        self.port.qemu.clock_step(ticks * TICK)

    def finish(self):
        """Let the engine work until it is idle, and check that this took no longer than it may."""
        for _ in range(100_000):
            if not self.read(R.DMA_STATUS) & R.DMA_BUSY:
                return
            self.step()
        raise AssertionError(f"channel {self.n} is busy after 100000 ticks")

    def run(self, *descriptors):
        """Submit, finish; the results."""
        first = self.tail
        self.submit(*descriptors)
        self.finish()
        return [self.result(index) for index in range(first, self.tail)]


# ---- hosts and data

def alone(scope, **properties):
    """A port whose slot 0 leads to its own memory at REMOTE."""
    port = host(scope, **properties)
    port.set_inbound(0, 0, REMOTE_BYTES, REMOTE, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, REMOTE_BYTES)
    assert port.slot_status(0) & R.SLOT_LIVE, "the slot is live"
    return port


def joined(scope, **properties):
    """Two hosts; slot 0 of a leads to REMOTE of b."""
    pair = Pair(scope, **properties)
    pair.share(0, 0, REMOTE_BYTES, REMOTE)
    pair.a.set_slot(0, R.DEST_LINK, 0, REMOTE_BYTES)
    assert pair.a.slot_status(0) & R.SLOT_LIVE, "the slot is live"
    return pair


def noise(length, seed=1):
    return random.Random(seed).randbytes(length)


def put(qemu, address, data):
    """Data with a guard on either side."""
    qemu.write_bytes(address - GUARD, b"\xee" * GUARD + data + b"\xee" * GUARD)


def check(qemu, address, data, what):
    have = qemu.read_bytes(address - GUARD, len(data) + 2 * GUARD)
    equal(have[GUARD:-GUARD] == data, True, f"{what}: the data")
    equal((have[:GUARD], have[-GUARD:]), (b"\xee" * GUARD,) * 2, f"{what}: what is next to them")


def half(port):
    """A channel in the middle of a descriptor of 1 MiB, with another behind it."""
    channel = Channel(port)
    channel.submit(write(LOCAL, 1 << 20), nop())
    channel.step(3)
    moved = channel.counter(R.DMA_CNT_BYTES)
    assert 2 * QUANTUM < moved < 4 * QUANTUM, moved
    return channel, moved


def negotiate(port, payload, request):
    """Set the sizes in Device Control, as an operating system does."""
    at = port.capability(0x10) + 8
    value = port.config_read(at, 2) & ~0x70e0
    port.config_write(at, value | (payload.bit_length() - 8) << 5 | (request.bit_length() - 8) << 12, 2)
