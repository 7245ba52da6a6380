# SPDX-License-Identifier: GPL-2.0
"""Outbound slots and inbound apertures: what is reached, what is refused, and who is told."""

import os

import regs as R
from fixture import Pair
from port import MEMORY, ONES, PAGE, RW, host
from qtest import RAM_BYTES
from tap import equal, until

LINK0 = R.DEST_LINK
LIVE = R.SLOT_LIVE | R.SLOT_DIRECT


def check_refused(pair, address, offset, aperture, owner_told=True):
    """Accesses at address: ones, dropped, counted, an error here and, if it belongs to a port, there."""
    pair.quiet()
    for size, ones in ONES.items():
        equal(pair.a.qemu.read(address, size), ones, f"refused read of {size} bytes")
        pair.a.qemu.write(address, size, 0x0123456789abcdef & ones)
    equal(pair.a.counter(R.CNT_OUT_ONES), 4, "reads answered by ones")
    equal(pair.a.counter(R.CNT_OUT_DROPPED), 4, "writes dropped")
    equal(pair.a.read(R.R_ERR_STATUS), R.ERR_OUT_READ | R.ERR_OUT_WRITE, "errors here")
    equal(pair.a.read(R.R_EVENT), R.EVENT_ERROR, "event here")
    bit, _, where = pair.a.error()
    equal((bit, where), (R.ERR_OUT_READ, offset), "first error here")
    if owner_told:
        pair.until(lambda: pair.b.counter(R.CNT_IN_DENIED) == 8, "the owner to be told of all")
        equal(pair.b.read(R.R_ERR_STATUS), R.ERR_IN_DENIED, "errors there")
        equal(pair.b.error(), (R.ERR_IN_DENIED, 0, aperture), "first error there")
    equal(pair.b.counter(R.CNT_IN_DENIED), 8 if owner_told else 0, "refusals counted there")


def test_write_and_read(scope):
    """a store through a slot is in the peer's memory, a load sees it, in both aliases"""
    pair = Pair(scope)
    pair.share(offset=0x40000, length=4 * PAGE)
    pair.a.set_slot(2, LINK0, 0x40000, 4 * PAGE)
    equal(pair.a.slot_status(2), LIVE, "slot")
    for wc in False, True:
        data = os.urandom(4 * PAGE)
        pair.a.qemu.write_bytes(pair.a.slot(2, wc=wc), data)
        equal(pair.b.qemu.read_bytes(MEMORY, len(data)), data, "memory of the peer")
        data = os.urandom(4 * PAGE)
        pair.b.qemu.write_bytes(MEMORY, data)
        equal(pair.a.qemu.read_bytes(pair.a.slot(2, wc=wc), len(data)), data, "window")
    for size in ONES:
        pair.a.qemu.write(pair.a.slot(2, 8), size, 0x1122334455667788 & ONES[size])
        equal(pair.b.qemu.read(MEMORY + 8, size), 0x1122334455667788 & ONES[size], f"store of {size}")
    equal(pair.a.read(R.R_ERR_STATUS) | pair.b.read(R.R_ERR_STATUS), 0, "errors")


def test_both_directions(scope):
    """two hosts reach each other at the same time"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_inbound(0, 0, PAGE, MEMORY)
    pair.until(lambda: pair.a.inbound_status(0) == R.INBOUND_LIVE, "the aperture to be open")
    pair.a.set_slot(0, LINK0, 0, PAGE)
    pair.b.set_slot(0, LINK0, 0, PAGE)
    pair.a.qemu.write(pair.a.slot(0), 8, 1)
    pair.b.qemu.write(pair.b.slot(0), 8, 2)
    equal(pair.b.qemu.read(MEMORY, 8), 1, "memory of b")
    equal(pair.a.qemu.read(MEMORY, 8), 2, "memory of a")


def test_offset_in_aperture(scope):
    """a slot begins anywhere in an aperture, in one that starts elsewhere in memory"""
    pair = Pair(scope)
    pair.share(offset=1 << 40, length=16 * PAGE, base=MEMORY + PAGE)
    pair.a.set_slot(0, LINK0, (1 << 40) + 3 * PAGE, 2 * PAGE)
    pair.a.qemu.write(pair.a.slot(0, 16), 8, 0xfeed)
    equal(pair.b.qemu.read(MEMORY + 4 * PAGE + 16, 8), 0xfeed, "memory of the peer")


def test_end_of_slot(scope):
    """one byte beyond LEN is refused, and so is what begins before and ends behind"""
    pair = Pair(scope)
    pair.share(length=4 * PAGE)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    check_refused(pair, pair.a.slot(0, PAGE), PAGE, PAGE)
    pair.a.set_slot(0, LINK0, 0, 100)
    equal(pair.a.slot_status(0), R.SLOT_LIVE, "a slot of odd length traps")
    pair.a.qemu.write(pair.a.slot(0, 96), 4, 0x12345678)
    equal(pair.b.qemu.readl(MEMORY + 96), 0x12345678, "last word")
    pair.b.qemu.write(MEMORY + 96, 8, 0)
    pair.a.qemu.write(pair.a.slot(0, 96), 8, 0x1122334455667788)
    equal(pair.b.qemu.read(MEMORY + 96, 8), 0, "memory after a store over the end")


def test_end_of_aperture(scope):
    """a slot reaches no further than the aperture; the owner is told"""
    pair = Pair(scope)
    pair.share(offset=PAGE, length=2 * PAGE)
    pair.b.qemu.write_bytes(MEMORY, b"\x11" * 4 * PAGE)
    pair.a.set_slot(0, LINK0, PAGE, 8 * PAGE)
    equal(pair.a.slot_status(0), LIVE, "slot")
    pair.a.qemu.write(pair.a.slot(0, 2 * PAGE - 8), 8, 0)
    check_refused(pair, pair.a.slot(0, 2 * PAGE), 2 * PAGE, 3 * PAGE)
    equal(pair.b.qemu.read_bytes(MEMORY + 2 * PAGE, 2 * PAGE), b"\x11" * 2 * PAGE, "memory behind")


def test_before_aperture(scope):
    """a slot that begins outside every aperture is dead, even if it runs into one"""
    pair = Pair(scope)
    pair.share(offset=2 * PAGE, length=2 * PAGE)
    pair.a.set_slot(0, LINK0, PAGE, 4 * PAGE)
    equal(pair.a.slot_status(0), 0, "slot")
    check_refused(pair, pair.a.slot(0, PAGE), PAGE, 2 * PAGE)


def test_rights(scope):
    """read-only and write-only apertures refuse the other, and trap"""
    pair = Pair(scope)
    pair.b.qemu.write(MEMORY, 8, 0x77)
    pair.share(rights=R.RIGHT_READ)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    equal(pair.a.slot_status(0), R.SLOT_LIVE, "read-only slot")
    equal(pair.a.qemu.read(pair.a.slot(0), 8), 0x77, "read")
    pair.a.qemu.write(pair.a.slot(0), 8, 0x88)
    equal(pair.b.qemu.read(MEMORY, 8), 0x77, "memory after a refused write")
    pair.share(rights=R.RIGHT_WRITE)
    pair.a.qemu.write(pair.a.slot(0), 8, 0x99)
    equal(pair.b.qemu.read(MEMORY, 8), 0x99, "memory after a write")
    equal(pair.a.qemu.read(pair.a.slot(0), 8), ONES[8], "refused read")
    pair.until(lambda: pair.b.counter(R.CNT_IN_DENIED) == 2, "the owner to be told of both")
    pair.share(rights=0)
    check_refused(pair, pair.a.slot(0), 0, 0)


def test_not_allowed(scope):
    """an aperture open to others is none for this neighbour"""
    pair = Pair(scope)
    pair.share(allow=R.ALLOW_SELF | 0xe)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    equal(pair.a.slot_status(0), 0, "slot")
    check_refused(pair, pair.a.slot(0), 0, 0)


def test_not_enabled(scope):
    """a slot that is disabled, leads nowhere, or over a link that is down tells no owner"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, LINK0, 0, PAGE, ctrl=0)
    check_refused(pair, pair.a.slot(0), 0, 0, owner_told=False)
    for dest in 0, 5, R.DEST_LID | 1, R.DEST_LINK | 1, R.DEST_LINK | 4, R.DEST_LINK | 0x3fffffff, R.DEST_TYPE:
        pair.a.set_slot(0, dest, 0, PAGE)
        equal(pair.a.slot_status(0) & LIVE, 0, f"slot to {dest:#x}")
        check_refused(pair, pair.a.slot(0), 0, 0, owner_told=False)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    equal(pair.a.slot_status(0), LIVE, "slot")
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up() and not pair.b.link_up(), "the link to go down")
    equal(pair.a.slot_status(0), 0, "slot with the link down")
    check_refused(pair, pair.a.slot(0), 0, 0, owner_told=False)
    pair.fabric.link_up(pair.node_a, 0)
    pair.until(lambda: pair.a.slot_status(0) == LIVE | R.SLOT_LOST, "the slot to live again")


def test_bad_slots(scope):
    """lengths and offsets that cannot be make a dead slot, never a wrong one"""
    pair = Pair(scope)
    pair.share(length=16 * PAGE)
    size = pair.a.slot_size
    for offset, length in ((0, 0), (0, size + 1), (0, size + PAGE), (0, 1 << 63), (0, (1 << 64) - 1),
                           ((1 << 64) - PAGE, 2 * PAGE), ((1 << 64) - 1, 2), (1 << 63, 1 << 63)):
        pair.a.set_slot(0, LINK0, offset, length)
        equal(pair.a.slot_status(0), 0, f"slot at {offset:#x}, {length:#x} bytes")
        equal(pair.a.qemu.readl(pair.a.slot(0)), ONES[4], "read")
    pair.a.set_slot(0, LINK0, 0, size)
    equal(pair.a.slot_status(0), LIVE, "slot of full size")
    pair.a.set_slot(pair.a.read(R.R_CAP0) & 0xff, LINK0, 0, PAGE)
    equal(pair.a.slot_status(pair.a.read(R.R_CAP0) & 0xff), 0, "a slot there is not")


def test_unaligned_slot(scope):
    """a slot that begins within a page works, trapping"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, LINK0, 0x123, PAGE)
    equal(pair.a.slot_status(0), R.SLOT_LIVE, "slot")
    pair.a.qemu.write(pair.a.slot(0, 1), 8, 0x1122334455667788)
    equal(pair.b.qemu.read(MEMORY + 0x124, 8), 0x1122334455667788, "memory of the peer")


def test_latch(scope):
    """a group takes effect with the write of its CTRL, not before"""
    pair = Pair(scope)
    pair.share(length=16 * PAGE)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    pair.a.write64(R.R_SLOT + R.SLOT_OFFSET, 4 * PAGE)
    pair.a.qemu.write(pair.a.slot(0), 8, 1)
    equal(pair.b.qemu.read(MEMORY, 8), 1, "memory at the old offset")
    pair.a.write(R.R_SLOT + R.SLOT_CTRL, R.SLOT_ENABLE)
    pair.a.qemu.write(pair.a.slot(0), 8, 2)
    equal(pair.b.qemu.read(MEMORY, 8), 1, "memory at the old offset")
    equal(pair.b.qemu.read(MEMORY + 4 * PAGE, 8), 2, "memory at the new offset")
    pair.b.write64(R.R_INBOUND + R.INBOUND_BASE, 0)
    equal(pair.a.qemu.read(pair.a.slot(0), 8), 2, "read before the owner latches")


def test_reprogram(scope):
    """slots and apertures move at run time, and each store lands where they then lead"""
    pair = Pair(scope)
    for step in range(8):
        base = MEMORY + 0x100000 * step
        pair.share(length=(step + 1) * PAGE, base=base)
        pair.a.set_slot(0, LINK0, step * PAGE, PAGE)
        pair.a.qemu.write(pair.a.slot(0), 8, 0xc0de + step)
        equal(pair.b.qemu.read(base + step * PAGE, 8), 0xc0de + step, f"memory, step {step}")
    assert pair.a.counter(R.CNT_REMAPS) >= 8, "remaps counted"


def test_lowest_entry_wins(scope):
    """of two apertures with the same offset the lower entry leads, until it is gone"""
    pair = Pair(scope)
    pair.share(3, base=MEMORY)
    pair.share(1, base=MEMORY + 0x100000)
    pair.share(0, base=MEMORY + 0x200000, allow=0)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    pair.a.qemu.write(pair.a.slot(0), 8, 1)
    equal(pair.b.qemu.read(MEMORY + 0x100000, 8), 1, "memory of entry 1")
    pair.b.close_inbound(1)
    pair.until(lambda: not pair.b.inbound_status(1) & R.INBOUND_BUSY, "entry 1 to be closed")
    pair.a.qemu.write(pair.a.slot(0), 8, 2)
    equal(pair.b.qemu.read(MEMORY, 8), 2, "memory of entry 3")
    equal(pair.b.qemu.read(MEMORY + 0x200000, 8), 0, "memory of entry 0")


def test_bad_inbound(scope):
    """an entry that is not memory or not aligned is invalid: not live, an error, an event"""
    port = host(scope)
    for offset, length, base in ((1, PAGE, MEMORY), (0, PAGE + 1, MEMORY), (0, PAGE, MEMORY + 8),
                                 (0, 0, MEMORY), (0, PAGE, RAM_BYTES), (0, 2 * PAGE, RAM_BYTES - PAGE),
                                 (0, PAGE, 0xfee00000), (0, PAGE, 0xc0000000), (0, PAGE, 0x800000000),
                                 ((1 << 64) - PAGE, 2 * PAGE, MEMORY), (0, (1 << 64) - PAGE, MEMORY),
                                 (0, 2 * PAGE, (1 << 64) - PAGE), (0, 1 << 63, 1 << 63)):
        port.clear_errors()
        port.set_inbound(7, offset, length, base)
        equal(port.inbound_status(7), R.INBOUND_INVALID, f"entry at {base:#x}, {length:#x} bytes")
        equal(port.error(), (R.ERR_IN_INVALID, 7, base), "first error")
        equal(port.read(R.R_EVENT), R.EVENT_ERROR, "event")
    port.set_inbound(7, 0, PAGE, MEMORY)
    equal(port.inbound_status(7), R.INBOUND_LIVE, "a good entry afterwards")
    port.set_inbound(7, 0, PAGE, MEMORY, ctrl=0)
    equal(port.inbound_status(7), 0, "a closed entry")


def test_self(scope):
    """a port without a fabric reaches its own memory, where it allows that"""
    port = host(scope)
    port.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    equal(port.inbound_status(0), R.INBOUND_LIVE, "entry")
    port.set_slot(0, R.DEST_SELF, 0, PAGE)
    equal(port.slot_status(0), LIVE, "slot")
    port.qemu.write(port.slot(0, 8), 8, 0x5e1f)
    equal(port.qemu.read(MEMORY + 8, 8), 0x5e1f, "memory")
    port.set_inbound(0, 0, PAGE, MEMORY, allow=0xf)
    equal(port.slot_status(0), 0, "slot of one that does not allow it")
    equal(port.qemu.read(port.slot(0), 8), ONES[8], "refused read")
    equal(port.counter(R.CNT_IN_DENIED), 1, "refusals counted")
    equal(port.read(R.R_ERR_STATUS), R.ERR_OUT_READ | R.ERR_IN_DENIED, "errors")


def test_bus_master(scope):
    """without bus mastering nothing is forwarded; with it the entries are back"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, LINK0, 0, PAGE)
    pair.b.config_write(0x04, 2, 2)
    pair.until(lambda: not pair.b.inbound_status(0) & R.INBOUND_BUSY, "the entry to be closed")
    equal(pair.b.inbound_status(0), 0, "entry of a port that is no master")
    equal(pair.a.slot_status(0), 0, "slot to it")
    pair.b.config_write(0x04, 6, 2)
    pair.until(lambda: pair.b.inbound_status(0) == R.INBOUND_LIVE, "the entry to be open")
    equal(pair.a.slot_status(0), LIVE, "slot to it")


def test_withdrawal(scope):
    """BUSY lasts until the peer has let go, and after it nothing lands"""
    pair = Pair(scope)
    pair.share()
    mapped = pair.a.qemu.mappings("memfd:memory-backend")
    pair.a.set_slot(0, LINK0, 0, PAGE)
    equal(pair.a.qemu.mappings("memfd:memory-backend"), mapped + 1, "mappings of the peer's memory")
    pair.fabric.hold = {R.FAB_INBOUND}
    pair.b.close_inbound(0)
    pair.until(lambda: pair.fabric.held, "the withdrawal to be on its way")
    equal(pair.b.inbound_status(0), R.INBOUND_BUSY, "entry while the peer does not know")
    pair.a.qemu.write(pair.a.slot(0), 8, 0x1a7e)
    equal(pair.b.qemu.read(MEMORY, 8), 0x1a7e, "a late store, while BUSY")
    pair.fabric.release()
    pair.until(lambda: not pair.b.inbound_status(0), "BUSY to clear")
    pair.b.qemu.write(MEMORY, 8, 0)
    pair.a.qemu.write(pair.a.slot(0), 8, 0xbad)
    equal(pair.b.qemu.read(MEMORY, 8), 0, "memory after the withdrawal")
    equal(pair.a.qemu.mappings("memfd:memory-backend"), mapped, "mappings after it, for a CPU that is late")


def test_withdrawal_again(scope):
    """a confirmation of an older change does not end a newer one"""
    pair = Pair(scope)
    pair.share()
    pair.fabric.hold = {R.FAB_INBOUND_ACK}
    pair.b.close_inbound(0)
    pair.b.set_inbound(0, 0, PAGE, MEMORY)
    pair.b.close_inbound(0)
    pair.until(lambda: len(pair.fabric.held) == 3, "three confirmations")
    equal(pair.b.inbound_status(0), R.INBOUND_BUSY, "entry before them")
    for node, message in pair.fabric.held[:2]:
        pair.fabric.route(node, message)
    # The answer to a request that the fabric sends afterwards: both have been taken.
    pair.node_b.send(R.FAB_MBOX, 0, data=b"after")
    pair.until(lambda: pair.b.counter(R.CNT_RX_MSG) == 1, "a later message")
    equal(pair.b.inbound_status(0), R.INBOUND_BUSY, "entry after two of three")
    pair.fabric.held = pair.fabric.held[2:]
    pair.fabric.release()
    pair.until(lambda: not pair.b.inbound_status(0), "BUSY to clear")


def test_stopped_peer(scope):
    """a peer that has not noticed the link's end keeps BUSY set; death lets go"""
    for end, close_first in ("wakes", False), ("dies", False), ("dies", True):
        with scope.__class__() as inner:
            pair = Pair(inner)
            pair.share()
            pair.a.set_slot(0, LINK0, 0, PAGE)
            pair.a.qemu.stop()
            if close_first:
                pair.b.close_inbound(0)
            pair.fabric.link_down(pair.node_a, 0)
            pair.until(lambda p=pair: not p.b.link_up(), "the link to go down")
            if not close_first:
                pair.b.close_inbound(0)
            equal(pair.b.inbound_status(0), R.INBOUND_BUSY, "entry while the peer is stopped")
            pair.fabric.step(0.05)
            equal(pair.b.inbound_status(0), R.INBOUND_BUSY, "entry a little later")
            if end == "wakes":
                pair.a.qemu.stop(False)
            else:
                pair.a.qemu.kill()
            until(lambda p=pair: not p.b.inbound_status(0), f"BUSY to clear when the peer {end}")


def test_many_segments(scope):
    """an aperture in more pieces than one message holds"""
    pair = Pair(scope)
    pieces = 40
    pages = [2 * n for n in range(pieces)]
    pair.a.set_slot(0, LINK0, 0, pieces * PAGE)
    for first in range(0, pieces, R.FAB_SEGS):
        part = pages[first:first + R.FAB_SEGS]
        data = b"".join((MEMORY + page * PAGE).to_bytes(8, "little") + PAGE.to_bytes(8, "little") for page in part)
        more = first + len(part) < pieces
        equal(pair.a.slot_status(0), 0, "slot before the last piece")
        pair.node_a.send(R.FAB_INBOUND, 0, (4, 0, pieces * PAGE, RW, 0, 9 << 32 | first << 1 | more), data)
    pair.until(lambda: pair.a.slot_status(0) == LIVE, "the slot to live")
    for n, page in enumerate(pages):
        pair.a.qemu.write(pair.a.slot(0, n * PAGE), 8, n + 1)
        equal(pair.b.qemu.read(MEMORY + page * PAGE, 8), n + 1, f"page {n}")
    pair.a.set_slot(0, LINK0, PAGE - 4, 100)
    pair.a.qemu.write(pair.a.slot(0), 8, 0x1122334455667788)
    equal(pair.b.qemu.readl(MEMORY + PAGE - 4), 0x55667788, "first half of a store over two pieces")
    equal(pair.b.qemu.readl(MEMORY + 2 * PAGE), 0x11223344, "second half")
    equal(pair.a.qemu.read(pair.a.slot(0), 8), 0x1122334455667788, "load over two pieces")


def test_denied_in_bulk(scope):
    """thousands of refused accesses make few reports and lose none in the count"""
    pair = Pair(scope)
    pair.a.set_slot(0, LINK0, 0, PAGE)
    reports = []
    route = pair.fabric.route
    def watch(node, message):
        if message.type == R.FAB_DENIED:
            reports.append(message.arg[2])
        route(node, message)
    pair.fabric.route = watch
    # One command, many accesses: 8 bytes each.
    for _ in range(4):
        pair.a.qemu.write_bytes(pair.a.slot(0), bytes(4 * PAGE))
    total = 4 * 4 * PAGE // 8
    equal(pair.a.counter(R.CNT_OUT_DROPPED), total, "writes dropped")
    pair.until(lambda: pair.b.counter(R.CNT_IN_DENIED) == total, "the owner to be told of all")
    equal(sum(reports), total, "accesses reported")
    assert len(reports) < total // 10, f"{len(reports)} reports"
