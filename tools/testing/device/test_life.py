# SPDX-License-Identifier: GPL-2.0
"""Resets, deaths and returns: of the fabric, of a neighbour, of the port itself."""

import regs as R
from dma import Channel, write
from fabric import Fabric
from fixture import Pair
from hotplug import OPTIONS, Slot
from port import MEMORY, PAGE, Bus, Port, host
from qtest import Qemu
from tap import equal, until

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT


def held(qemu):
    """What links cost a process."""
    return (qemu.descriptors(), qemu.mappings("memfd:weft-doorbell"), qemu.mappings("memfd:memory-backend"))


def test_fabric_dies(scope):
    """the fabric dies: links down, windows dead, an error and events, no hang; self still works"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.a.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    pair.a.set_slot(1, R.DEST_SELF, 0, PAGE)
    generation = pair.a.read(R.R_GENERATION)
    pair.fabric.die()
    for port in pair.a, pair.b:
        until(lambda p=port: not p.link_up(), "the link to go down")
        equal(port.read(R.R_STATUS), 0, "status")
        equal(port.read(R.R_ERR_STATUS), R.ERR_FABRIC_LOST, "errors")
        equal(port.read(R.R_EVENT), R.EVENT_ERROR | 1, "events")
        equal(port.link(0), 0, "link")
        until(lambda p=port: not p.inbound_status(0) & R.INBOUND_BUSY, "BUSY to clear")
    equal(pair.a.read(R.R_GENERATION), generation, "generation as last known")
    equal(pair.a.slot_status(0), 0, "slot to the peer")
    equal(pair.a.qemu.read(pair.a.slot(0), 8), (1 << 64) - 1, "read of it")
    pair.b.close_inbound(0)
    until(lambda: not pair.b.inbound_status(0), "the withdrawal to end without a fabric")
    pair.a.qemu.write(pair.a.slot(1), 8, 5)
    equal(pair.a.qemu.read(MEMORY, 8), 5, "own memory")


def test_fabric_returns(scope):
    """the fabric returns: ports join again with what they had open, under a new generation"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    before = pair.a.read(R.R_GENERATION)
    pair.fabric.die()
    for port in pair.a, pair.b:
        until(lambda p=port: not p.read(R.R_STATUS), "the loss to be noticed")
    pair.fabric.listen()
    first, second = pair.fabric.attach(), pair.fabric.attach()
    pair.fabric.wire(first, 0, second, 0)
    pair.until(lambda: pair.a.link_up() and pair.a.slot_status(0) == LIVE, "the slot to live again")
    assert pair.a.read(R.R_GENERATION) > before, "generation"
    pair.a.qemu.write(pair.a.slot(0), 8, 0xbac)
    equal(pair.b.qemu.read(MEMORY, 8), 0xbac, "memory of the peer")


def test_fabric_late(scope):
    """a fabric that starts after the port finds it"""
    fabric = Fabric(scope)
    fabric.die()
    port = host(scope, fabric=fabric.path)
    equal(port.read(R.R_STATUS), 0, "status")
    fabric.listen()
    fabric.attach()
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")


def test_peer_killed(scope):
    """a neighbour is killed in mid-transfer: the link goes down, stores go nowhere, no crash"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.a.set_page(0, R.DEST_LINK, 1)
    pair.b.qemu.kill()
    pair.a.qemu.write_bytes(pair.a.slot(0), bytes(PAGE))
    pair.a.ring(0, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    equal(pair.a.slot_status(0), 0, "slot")
    equal(pair.a.qemu.read(pair.a.slot(0), 8), (1 << 64) - 1, "read of it")
    b, node = pair.arrive(scope, "h2-again", hwid=0xb)
    pair.fabric.wire(pair.node_a, 0, node, 0)
    pair.enable(b)
    pair.until(lambda: pair.a.link_up() and b.link_up(), "the link to come up")
    b.set_inbound(0, 0, PAGE, MEMORY)
    pair.until(lambda: pair.a.slot_status(0) == LIVE, "the slot to live")
    pair.a.qemu.write(pair.a.slot(0), 8, 0x0e0)
    equal(b.qemu.read(MEMORY, 8), 0x0e0, "memory of the one that came back")


def test_reset(scope):
    """a reset closes what was open, takes the links down and changes the generation"""
    def flr(port):
        port.config_write(port.capability(0x10) + 8, 0x8000, 2)
        port.set_up()
    for reset in (lambda port: port.write(R.R_CTRL, R.CTRL_RESET)), flr:
        with scope.__class__() as inner:
            pair = Pair(inner)
            pair.share()
            pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
            before = pair.b.read(R.R_GENERATION)
            reset(pair.b)
            equal(pair.b.link(0) & R.LINK_UP, 0, "link at once")
            equal(pair.b.inbound_status(0) & R.INBOUND_LIVE, 0, "entry at once")
            equal(pair.b.read(R.R_STATUS), 0, "status at once")
            pair.ready(pair.b)
            pair.until(lambda p=pair: not p.a.link_up(), "the peer to see the link down")
            pair.until(lambda p=pair: not p.b.inbound_status(0), "the entry to be free")
            equal(pair.a.slot_status(0), 0, "slot of the peer")
            assert pair.b.read(R.R_GENERATION) > before, "generation"
            pair.enable(pair.b)
            pair.until(lambda p=pair: p.a.link_up() and p.b.link_up(), "the link to come up")
            equal(pair.a.slot_status(0), 0, "slot of the peer: nothing is open")


def test_reset_forgets_old_messages(scope):
    """what the fabric sent before it knew of a reset does not bring the old life back"""
    fabric = Fabric(scope)
    port = host(scope, fabric=fabric.path)
    node = fabric.attach()
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    generation = port.read(R.R_GENERATION)
    port.write(R.R_CTRL, R.CTRL_RESET)
    node.send(R.FAB_LINK_UP, 0, (4, 4, 0, 1, 1, 0), fds=node.hello.fds)
    node.send(R.FAB_MBOX, 0, data=b"old")
    fabric.until(lambda: port.read(R.R_GENERATION) != generation, "the new generation")
    equal(port.link(0), R.LINK_PRESENT, "link")
    equal(port.read(R.R_MBOX_RX_STATUS), 0, "mailbox")


def test_no_descriptor_leaks(scope):
    """links, fabrics and resets come and go without leaving descriptors or mappings"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.until(lambda: pair.a.slot_status(0) == LIVE, "the slot to live")
    before = held(pair.a.qemu)
    assert all(before), f"descriptors and mappings to compare with: {before}"
    for _ in range(5):
        pair.fabric.link_down(pair.node_a, 0)
        pair.until(lambda: not pair.a.link_up() and not pair.b.link_up(), "the link to go down")
        pair.fabric.link_up(pair.node_a, 0)
        pair.until(lambda: pair.a.slot_status(0) == LIVE, "the slot to live")
    for _ in range(3):
        pair.fabric.die()
        for port in pair.a, pair.b:
            until(lambda p=port: not p.read(R.R_STATUS), "the loss to be noticed")
        pair.fabric.listen()
        pair.fabric.wire(pair.fabric.attach(), 0, pair.fabric.attach(), 0)
        pair.until(lambda: pair.a.slot_status(0) == LIVE, "the slot to live")
    equal(held(pair.a.qemu), before, "descriptors and mappings")


def test_unplug(scope):
    """a port that is unplugged is gone whole: device, descriptors, mappings, and its neighbour sees it"""
    fabric = Fabric(scope)
    qemu = Qemu(scope, "h1", *OPTIONS)
    slot = Slot(Bus(qemu))
    other = host(scope, "h2", fabric=fabric.path, hwid=0xb)
    other_node = fabric.attach()
    other.write(R.R_CTRL, R.CTRL_ENABLE)
    baseline = None
    for _ in range(3):
        qemu.qmp("device_add", driver="weft-port", id="port", bus="rp", fabric=fabric.path, hwid=0xa)
        node = fabric.attach()
        slot.power(True)
        port = Port(qemu, 0, bus=slot.bus, number=1)
        fabric.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
        port.write(R.R_CTRL, R.CTRL_ENABLE)
        fabric.wire(node, 0, other_node, 0)
        fabric.until(lambda p=port: p.link_up() and other.link_up(), "the link to come up")
        other.set_inbound(0, 0, PAGE, MEMORY)
        port.set_slot(0, R.DEST_LINK, 0, PAGE)
        fabric.until(lambda p=port: p.slot_status(0) == LIVE, "the slot to live")
        qemu.write(port.slot(0), 8, 0x91)
        equal(other.qemu.read(MEMORY, 8), 0x91, "memory of the peer")
        # A channel has work when the port goes.
        channel = Channel(port)
        channel.submit(write(MEMORY, PAGE))
        assert channel.status()[0] & R.DMA_BUSY, "a transfer is outstanding"
        assert qemu.mappings("memfd:weft-"), "its memory is mapped"
        slot.unplug("port")
        fabric.until(lambda: not other.link_up(), "the neighbour to see it")
        qemu.clock_step(1_000_000)
        gone = until(lambda: not qemu.mappings("memfd:weft-") and (qemu.descriptors(),), "its memory to be released")
        baseline = baseline or gone
        equal(gone, baseline, "descriptors")
