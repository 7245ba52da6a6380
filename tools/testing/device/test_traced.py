# SPDX-License-Identifier: GPL-2.0
"""Traced mode: how many TLPs carry what a CPU stores and loads."""

import regs as R
from fixture import Pair
from port import MEMORY, PAGE, fence, host
from tap import equal


def traced(scope):
    """A port whose slot 0 leads to itself, and its counters from zero."""
    port = host(scope, traced="on")
    equal(port.read(R.R_STATUS) & R.STATUS_TRACED, R.STATUS_TRACED, "traced mode")
    port.set_inbound(0, 0, 16 * PAGE, MEMORY, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, 16 * PAGE)
    equal(port.slot_status(0), R.SLOT_LIVE, "slot")
    port.write(R.R_COUNTERS_CLEAR, 0)
    return port


def store(port, offset, size=8, wc=True):
    port.qemu.write(port.slot(0, offset, wc), size, 0x1122334455667788 & (1 << 8 * size) - 1)


def tlps(port):
    """(write TLPs, their bytes); reading registers closes the line."""
    counts = port.counter(R.CNT_TX_MWR), port.counter(R.CNT_TX_MWR_BYTES)
    port.write(R.R_COUNTERS_CLEAR, 0)
    return counts


def test_uncached(scope):
    """uncached: a store is a TLP, a load is a TLP"""
    port = traced(scope)
    for offset in range(0, 64, 8):
        store(port, offset, wc=False)
    equal(tlps(port), (8, 64), "TLPs of eight stores")
    for size in 1, 2, 4, 8:
        store(port, 0, size, wc=False)
    equal(tlps(port), (4, 15), "TLPs of four sizes")
    for size in 1, 2, 4, 8:
        port.qemu.read(port.slot(0), size)
    equal((port.counter(R.CNT_TX_MRD), port.counter(R.CNT_TX_MRD_BYTES)), (4, 15), "TLPs of four loads")


def test_data(scope):
    """the data arrive as without tracing"""
    port = traced(scope)
    data = bytes(range(256)) * 16
    port.qemu.write_bytes(port.slot(0, wc=True), data)
    equal(port.qemu.read_bytes(MEMORY, len(data)), data, "memory")
    equal(port.qemu.read_bytes(port.slot(0), len(data)), data, "window")


def test_full_line(scope):
    """write-combining: a full aligned line is one TLP"""
    port = traced(scope)
    for offset in range(0, 64, 8):
        store(port, offset)
    equal(tlps(port), (1, 64), "TLPs of a line")
    for offset in range(0, 64, 4):
        store(port, 128 + offset, 4)
    equal(tlps(port), (1, 64), "TLPs of a line of small stores")
    port.qemu.write_bytes(port.slot(0, 256, wc=True), bytes(1024))
    equal(tlps(port), (16, 1024), "TLPs of sixteen lines")


def test_partial_line(scope):
    """a run that ends early, or begins late, is one TLP of its length"""
    port = traced(scope)
    for offset in 0, 8, 16:
        store(port, offset)
    equal(tlps(port), (1, 24), "TLPs of the start of a line")
    for offset in 40, 48, 56, 64, 72:
        store(port, offset)
    equal(tlps(port), (2, 40), "TLPs of the end of one and the start of the next")


def test_fence_order(scope):
    """bytes 8 to 63 and then 0 to 7 are two TLPs, as a fence between them makes them"""
    port = traced(scope)
    for offset in range(8, 64, 8):
        store(port, offset)
    store(port, 0)
    equal(tlps(port), (2, 64), "TLPs of a cell whose first word comes last")


def test_fence(scope):
    """a fence closes the line, though the store behind it follows on"""
    port = traced(scope)
    store(port, 0)
    store(port, 8)
    fence(port)
    store(port, 16)
    equal(tlps(port), (2, 24), "TLPs of stores around a fence")
    fence(port)
    fence(port)
    equal(tlps(port), (0, 0), "TLPs of fences alone")


def test_fence_on_command(scope):
    """tracing that is switched on listens to fences, and again after it was off"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    for on in 1, 0, 1:
        pair.node_a.send(R.FAB_TRACE, arg=(on,))
        pair.until(lambda on=on: bool(pair.a.read(R.R_STATUS) & R.STATUS_TRACED) == bool(on), "the mode to change")
        pair.a.write(R.R_COUNTERS_CLEAR, 0)
        store(pair.a, 0)
        fence(pair.a)
        store(pair.a, 8)
        equal(tlps(pair.a), (2 * on, 16 * on), "TLPs around a fence")


def test_gap(scope):
    """a store that does not follow on begins a new TLP"""
    port = traced(scope)
    for offset in 0, 16, 32:
        store(port, offset)
    equal(tlps(port), (3, 24), "TLPs of three stores with gaps")
    store(port, 0)
    store(port, 0)
    equal(tlps(port), (2, 16), "TLPs of two stores at one place")


def test_line_change(scope):
    """another line closes the one before, in whatever order"""
    port = traced(scope)
    store(port, 0)
    store(port, 64)
    store(port, 8)
    equal(tlps(port), (3, 24), "TLPs of stores to two lines in turn")
    store(port, 60)
    equal(tlps(port), (2, 8), "TLPs of a store across two lines")


def test_closers(scope):
    """an uncached store, a load, a register, a doorbell and the timer close the line"""
    port = traced(scope)
    port.set_page(0, R.DEST_SELF, 1)
    closers = {
        "an uncached store": (lambda: store(port, 512, wc=False), 1, 8),
        "an uncached load": (lambda: port.qemu.read(port.slot(0), 4), 0, 0),
        "a write-combining load": (lambda: port.qemu.read(port.slot(0, wc=True), 4), 0, 0),
        "a register read": (lambda: port.read(R.R_ID), 0, 0),
        "a register write": (lambda: port.write(R.R_SCRATCH, 1), 0, 0),
        "a doorbell": (lambda: port.ring(0, 0), 0, 0),
        "the timer": (lambda: port.qemu.clock_step(200_000_000), 0, 0),
        "a refused store": (lambda: port.qemu.write(port.slot(0, 16 * PAGE, wc=True), 4, 0), 0, 0),
    }
    tlps(port)
    for name, (close, count, size) in closers.items():
        store(port, 0)
        close()
        store(port, 8)
        equal(tlps(port), (2 + count, 16 + size), f"TLPs around {name}")
    store(port, 0)
    port.qemu.clock_step(100)
    store(port, 8)
    equal(tlps(port), (1, 16), "TLPs within the timer's time")


def test_refused(scope):
    """what the port refuses is counted as refused, not as a TLP"""
    port = traced(scope)
    port.qemu.write(port.slot(1), 8, 0)
    port.qemu.write(port.slot(1, wc=True), 8, 0)
    port.qemu.read(port.slot(1), 8)
    equal(tlps(port), (0, 0), "write TLPs")
    equal(port.counter(R.CNT_TX_MRD), 0, "read TLPs")


def test_on_command(scope):
    """the fabric turns it on and off, and slots trap or run direct, with the same data"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    equal(pair.a.slot_status(0), R.SLOT_LIVE | R.SLOT_DIRECT, "slot")
    for on in 1, 0, 1:
        pair.node_a.send(R.FAB_TRACE, arg=(on,))
        pair.until(lambda on=on: bool(pair.a.read(R.R_STATUS) & R.STATUS_TRACED) == bool(on), "the mode to change")
        equal(pair.a.slot_status(0), R.SLOT_LIVE if on else R.SLOT_LIVE | R.SLOT_DIRECT, "slot")
        pair.a.write(R.R_COUNTERS_CLEAR, 0)
        pair.a.qemu.write(pair.a.slot(0), 8, 0x1000 + on)
        equal(pair.b.qemu.read(MEMORY, 8), 0x1000 + on, "memory of the peer")
        equal(pair.a.counter(R.CNT_TX_MWR), on, "TLPs")


def test_counters_by_fabric(scope):
    """the fabric reads the counters with the open line in them, and clears them"""
    pair = Pair(scope)
    pair.share()
    pair.node_a.send(R.FAB_TRACE, arg=(1,))
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.until(lambda: pair.a.read(R.R_STATUS) & R.STATUS_TRACED, "traced mode")
    pair.a.write(R.R_COUNTERS_CLEAR, 0)
    pair.a.qemu.write(pair.a.slot(0, 0, wc=True), 8, 1)
    replies = []
    pair.fabric.route = lambda node, message: message.type == R.FAB_COUNTERS and replies.append(message)
    pair.node_a.send(R.FAB_COUNTERS_GET, arg=(42, 1))
    pair.until(lambda: replies, "the counters")
    equal((replies[0].type, replies[0].arg[0], len(replies[0].data)), (R.FAB_COUNTERS, 42, 8 * R.COUNTERS), "reply")
    counts = [int.from_bytes(replies[0].data[8 * n:8 * n + 8], "little") for n in range(R.COUNTERS)]
    equal((counts[R.CNT_TX_MWR], counts[R.CNT_TX_MWR_BYTES]), (1, 8), "TLPs")
    equal(pair.a.counter(R.CNT_TX_MWR), 0, "counter afterwards")
