# SPDX-License-Identifier: GPL-2.0
"""What links have carried: both ends count the same, and who passes something on counts it too."""

import regs as R
from dma import LOCAL, OK, Channel, noise, read, write
from fixture import Pair
from port import PAGE
from tap import equal, until
from test_dma_routes import SLOT, far

DOORBELL = 4


def same(pair, out, into, what):
    """Both ends say so: what is out here is in there."""
    pair.until(lambda: pair.a.carried() == (out, into) and pair.b.carried() == (into, out), what)


def test_both_ends(scope):
    """DMA both ways, doorbells and messages, untraced; what a CPU stores through a direct slot is not seen"""
    pair = Pair(scope)
    equal(pair.a.read(R.R_CAP1) & R.CAP1_LINK_BYTES, R.CAP1_LINK_BYTES, "the capability")
    equal(pair.a.carried(), (0, 0), "at first")
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, 0x10000)
    pair.until(lambda: pair.a.slot_status(0) & R.SLOT_DIRECT, "the slot to be direct")
    channel = Channel(pair.a)
    pair.a.qemu.write_bytes(LOCAL, noise(10_000))
    equal(channel.run(write(LOCAL, 10_000)), [(OK, 10_000)], "a write")
    same(pair, 10_000, 0, "bytes of a write")
    equal(channel.run(read(LOCAL, 3000)), [(OK, 3000)], "a read")
    same(pair, 10_000, 3000, "what a read brings comes in")
    pair.a.qemu.write(pair.a.slot(0), 8, 7)
    pair.a.send(0, b"x" * 100)
    same(pair, 10_100, 3000, "a message, and not the store")
    pair.b.write(R.R_DB_ALLOW, 1)
    pair.a.set_page(0, R.DEST_LINK, 1)
    pair.a.ring(0, 0)
    same(pair, 10_100 + DOORBELL, 3000, "a doorbell")
    pair.b.send(0, b"y")
    same(pair, 10_100 + DOORBELL, 3001, "the other way")


def test_told(scope):
    """what a driver says to have stored by a live slot, direct or not, counts at both ends; by another it does not"""
    pair = Pair(scope)
    equal(pair.a.read(R.R_CAP1) & R.CAP1_STORED, R.CAP1_STORED, "the capability")
    pair.share()
    pair.a.write(R.R_STORED, 5 << 8)
    pair.a.set_slot(0, R.DEST_LINK, 0, 0x10000)
    pair.until(lambda: pair.a.slot_status(0) & R.SLOT_DIRECT, "the slot to be direct")
    pair.a.write(R.R_STORED, 3 << 8)
    same(pair, 3 << 10, 0, "what was stored by it, and not what was said before")
    pair.a.set_slot(1, R.DEST_LINK, 8, 0x100)
    pair.until(lambda: pair.a.slot_status(1) & R.SLOT_LIVE, "the slot to live")
    equal(pair.a.slot_status(1) & R.SLOT_DIRECT, 0, "a slot whose length is no multiple of a page is direct")
    pair.a.write(R.R_STORED, 4 << 8 | 1)
    same(pair, 7 << 10, 0, "what was stored by a slot that traps, untraced")
    for slot in (2, R.STORED_SLOT):
        pair.a.write(R.R_STORED, 7 << 8 | slot)
    pair.a.write(R.R_STORED, R.STORED_KIB)
    same(pair, (7 + (1 << 24) - 1) << 10, 0, "the most at once, and nothing of slots that lead nowhere")
    equal(pair.a.read(R.R_STORED), 0, "what is read")


def test_traced(scope):
    """in traced mode stores and loads of a CPU count with the rest"""
    pair = Pair(scope, traced="on")
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.until(lambda: pair.a.slot_status(0) & R.SLOT_LIVE, "the slot to live")
    for n in range(3):
        pair.a.qemu.write(pair.a.slot(0, 8 * n), 8, n)
    # It has been counted.
    pair.a.write(R.R_STORED, 1 << 8)
    pair.a.qemu.read(pair.a.slot(0), 4)
    same(pair, 24, 4, "stores and a load")


def test_not_for_others(scope):
    """registers of the endpoint's first function: read only, and gone with a reset"""
    pair = Pair(scope)
    pair.a.send(0, b"x" * 9)
    same(pair, 9, 0, "a message")
    group = R.R_LINK + R.LINK_OUT
    pair.a.write(group, 77)
    pair.a.write(R.R_COUNTERS_CLEAR, 0)
    equal(pair.a.carried(), (9, 0), "after writes")
    pair.a.write(R.R_CTRL, R.CTRL_RESET)
    equal(pair.a.carried(), (0, 0), "after a reset")
    equal(pair.b.carried(), (0, 9), "of the neighbour")


def test_told_wrong(scope):
    """a fabric that speaks of a link that there is not is left"""
    pair = Pair(scope)
    pair.a.qemu.complains = True
    pair.node_a.send(R.FAB_MOVED, R.MAX_LINKS, (1, 1))
    pair.until(lambda: not pair.a.link_up(), "the port to leave")


def test_on_the_way(scope):
    """over a route, both hosts at its ends count the link that is theirs, not the one by which nothing came"""
    _, first, _, channel = far(scope)
    h1, h3 = first.source, first.target
    # The doorbell by which the flow was tried.
    until(lambda: (h1.carried(), h3.carried()) == ((DOORBELL, 0), (0, DOORBELL)), "what was there before")
    h1.qemu.write_bytes(LOCAL, noise(8192))
    equal(channel.run(write(LOCAL, 8192, slot=SLOT)), [(OK, 8192)], "a write")
    bytes_now = DOORBELL + 8192
    until(lambda: (h1.carried(), h3.carried()) == ((bytes_now, 0), (0, bytes_now)), "8192 bytes from end to end")
    equal(h1.carried(1), (0, 0), "another link")
