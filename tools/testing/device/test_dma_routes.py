# SPDX-License-Identifier: GPL-2.0
"""The DMA engine over routes: descriptors go where their slot's route leads, and end where it ends."""

import regs as R
from dma import LOCAL, OK, QUANTUM, REMOTE, Channel, noise, read, write
from tap import equal, until
from test_routes import shared, traffic

OFFSET, BYTES = 1 << 30, 1 << 20
SLOT, ENTRY = 3, 9


def far(scope):
    """A channel of h1, whose slot 3 leads to REMOTE of h3 over two switches; h1's doorbell there is `first`'s."""
    net, first, second = shared(scope)
    first.target.admit(ENTRY, 0, first.vp, 1)
    first.target.set_inbound(ENTRY, OFFSET, BYTES, REMOTE, allow=0)
    until(lambda: not first.target.inbound_status(ENTRY) & R.INBOUND_BUSY, "the entry to be in force")
    first.source.set_slot(SLOT, R.DEST_LID | 3, OFFSET, BYTES)
    until(lambda: first.source.slot_status(SLOT) & R.SLOT_LIVE, "the slot to live")
    return net, first, second, Channel(first.source)


def test_both_ways(scope):
    """over three cables: data, a doorbell behind them, and the TLPs at every cable of the way"""
    net, first, _, channel = far(scope)
    h1, h3 = first.source, first.target
    net.daemon.command("trace", "h1", "on")
    until(lambda: h1.read(R.R_STATUS) & R.STATUS_TRACED, "traced mode")
    before = traffic(net)
    data = noise(8192)
    h1.qemu.write_bytes(LOCAL, data)
    # The page of `first` leads to h3.
    equal(channel.run(write(LOCAL, 8192, slot=SLOT, flags=R.DMA_BELL, bell=first.number << 16 | first.bell)),
          [(OK, 8192)], "a write with a doorbell")
    until(lambda: h3.read(R.R_DB_PENDING) & 1 << first.bell, "the doorbell")
    equal(h3.qemu.read_bytes(REMOTE, 8192) == data, True, "data of the write")
    equal(channel.run(read(LOCAL + 8192, 8192, slot=SLOT)), [(OK, 8192)], "a read")
    equal(h1.qemu.read_bytes(LOCAL + 8192, 8192) == data, True, "data of the read")
    after = traffic(net)
    # 64 writes of 128 bytes, and 16 requests for 512.
    for way in ("h1:0", "s1:0"), ("s1:2", "s2:2"), ("s2:0", "h3:0"):
        passed = tuple(b - a for a, b in zip(before[way], after[way]))
        equal(passed, (64 + 16, 2 * 8192, 1), f"traffic from {way[0]} to {way[1]}")


def test_route_removed(scope):
    """an entry on the way is taken out in the middle of a descriptor: nothing passes any more, and it says so"""
    net, first, second, channel = far(scope)
    h1, h3 = first.source, first.target
    h1.qemu.write_bytes(LOCAL, b"\xff" * BYTES)
    channel.submit(write(LOCAL, BYTES, slot=SLOT), write(LOCAL, 8, slot=SLOT))
    channel.step(2)
    net.daemon.command("route", "del", "s2", "3")
    equal(h1.slot_status(SLOT) & R.SLOT_LIVE, 0, "the slot, at once")
    h3.qemu.write_bytes(REMOTE, bytes(BYTES))
    channel.finish()
    equal([channel.result(0), channel.result(1)], [(R.DMA_ST_LINK, 2 * QUANTUM), (R.DMA_ST_LINK, 0)], "results")
    equal(any(h3.qemu.read_bytes(REMOTE, BYTES)), False, "memory of the target")
    second.works()
    net.route("s2", 3, 0)
    until(lambda: h1.slot_status(SLOT) & R.SLOT_LIVE, "the slot to live again")
    equal(channel.run(write(LOCAL, BYTES, slot=SLOT)), [(OK, BYTES)], "afterwards")
    equal(h3.qemu.read_bytes(REMOTE, BYTES) == b"\xff" * BYTES, True, "memory of the target, afterwards")
