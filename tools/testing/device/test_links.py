# SPDX-License-Identifier: GPL-2.0
"""Links: state, speed and width, events, and who is at the other end."""

import regs as R
from fabric import Fabric
from fixture import Pair
from port import CTRL, MEMORY, MSIX, PAGE, WINDOW, Port, host
from qtest import Qemu
from tap import equal, until


def rate(speed, width):
    return speed << 4 | width << 8


def test_without_fabric(scope):
    """a port without a fabric has no link"""
    port = host(scope)
    port.write(R.R_CTRL, R.CTRL_ENABLE)
    for n in range(R.MAX_LINKS):
        equal(port.link(n), 0, f"link {n}")
    equal(port.read(R.R_STATUS), 0, "status")
    equal((port.read64(R.R_HWID), port.read(R.R_GENERATION)), (0, 0), "identity")


def test_present(scope):
    """what is plugged in shows before the port is enabled"""
    fabric = Fabric(scope)
    port = host(scope, fabric=fabric.path, hwid=0x1234567890)
    fabric.attach(links=2)
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    equal(port.read64(R.R_HWID), 0x1234567890, "hardware id")
    equal(port.link(0), R.LINK_PRESENT, "link 0")
    equal(port.link(1), R.LINK_PRESENT, "link 1")
    equal(port.link(2), 0, "link 2")
    equal(port.link(0, R.LINK_MAX), rate(5, 8), "the most link 0 can")


def test_up(scope):
    """a link that comes up shows speed, width and role, and raises its event"""
    pair = Pair(scope)
    equal(pair.a.link(0), R.LINK_UP | R.LINK_PRESENT | rate(4, 4), "link at a")
    equal(pair.b.link(0), R.LINK_UP | R.LINK_PRESENT | R.LINK_ROLE_EP | rate(4, 4), "link at b")
    equal(pair.a.link(0, R.LINK_TRAINED), 1, "times it came up")
    pair.a.write(R.R_EVENT_MASK, 0)
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    equal(pair.a.link(0), R.LINK_PRESENT, "link at a")
    equal(pair.a.read(R.R_EVENT), 1, "event of the link")
    equal(pair.a.fired(), {0}, "interrupts at the link's end")
    pair.a.write(R.R_EVENT, 1)
    pair.fabric.link_up(pair.node_a, 0, speed=6, width=16)
    pair.until(pair.a.link_up, "the link to come up")
    equal(pair.a.link(0), R.LINK_UP | R.LINK_PRESENT | rate(6, 16), "link at a")
    equal(pair.a.fired(), {0}, "interrupts when it is back")
    equal(pair.a.link(0, R.LINK_TRAINED), 2, "times it came up")


def test_rate_changes(scope):
    """a link that gets slower stays up and raises its event; the same again does not"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    for times in range(2):
        pair.node_a.send(R.FAB_LINK_INFO, 0, (1, 2, 0, 1, 5, 8))
        pair.until(lambda: pair.a.link(0) == R.LINK_UP | R.LINK_PRESENT | rate(1, 2), "the new rate")
        # A later message: the one before has been taken.
        pair.node_a.send(R.FAB_MBOX, 0, data=b"x")
        pair.until(lambda n=times: pair.a.counter(R.CNT_RX_MSG) == n + 1, "a later message")
        equal(pair.a.read(R.R_EVENT) & R.EVENT_LINK, 1 - times, "event")
        pair.a.write(R.R_EVENT, 0xffffffff)
    pair.a.qemu.write(pair.a.slot(0), 8, 7)
    equal(pair.b.qemu.read(MEMORY, 8), 7, "memory of the peer")


def test_control(scope):
    """LINK_CTRL and CTRL.ENABLE reach the fabric, now and after it was away"""
    pair = Pair(scope)
    heard = []
    route = pair.fabric.route
    def watch(node, message):
        if node.hello.arg[1] == 0xa and message.type in (R.FAB_LINK_CTRL, R.FAB_ENABLE):
            heard.append((message.type, message.link) + message.arg[:3])
        route(node, message)
    pair.fabric.route = watch
    pair.a.write(R.R_LINK + R.LINK_CTRL, R.LINK_DISABLE | rate(3, 2))
    pair.a.write(R.R_LINK + R.LINK_STRIDE + R.LINK_CTRL, R.LINK_DISABLE)
    pair.a.write(R.R_CTRL, R.CTRL_ENABLE)
    pair.a.write(R.R_CTRL, 0)
    pair.until(lambda: len(heard) == 2, "both messages")
    equal(heard, [(R.FAB_LINK_CTRL, 0, 1, 3, 2), (R.FAB_ENABLE, 0, 0, 0, 0)], "what the fabric heard")
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    pair.a.write(R.R_CTRL, R.CTRL_ENABLE)
    pair.until(pair.a.link_up, "the link to come up")
    heard.clear()
    pair.fabric.die()
    pair.fabric.listen()
    for _ in range(2):
        pair.fabric.attach()
    pair.until(lambda: heard and heard[-1][0] == R.FAB_ENABLE, "the port to say what it wants")
    assert (R.FAB_LINK_CTRL, 0, 1, 3, 2) in heard, heard
    equal(heard[-1], (R.FAB_ENABLE, 0, 1, 0, 0), "enable")


def test_flap(scope):
    """fifty flaps: apertures are back each time, nothing is reached in between"""
    pair = Pair(scope)
    pair.share()
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    for n in range(50):
        pair.fabric.link_down(pair.node_a, 0)
        pair.until(lambda: not pair.a.link_up() and not pair.b.link_up(), "the link to go down")
        equal(pair.a.qemu.read(pair.a.slot(0), 8), (1 << 64) - 1, "read with the link down")
        pair.fabric.link_up(pair.node_a, 0)
        pair.until(lambda: pair.a.slot_status(0), "the slot to live")
        pair.a.qemu.write(pair.a.slot(0), 8, n)
        equal(pair.b.qemu.read(MEMORY, 8), n, "memory of the peer")
    equal(pair.a.link(0, R.LINK_TRAINED), 51, "times it came up")


def test_four_links(scope):
    """four links at once, each with its own neighbour's memory behind it"""
    fabric = Fabric(scope)
    hub = host(scope, "hub", fabric=fabric.path, hwid=1)
    hub_node = fabric.attach(links=4)
    far = []
    for n in range(4):
        port = host(scope, f"h{n}", fabric=fabric.path, hwid=16 + n)
        fabric.wire(hub_node, n, fabric.attach(links=2), n % 2)
        far.append(port)
    for port in [hub] + far:
        fabric.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_FABRIC, "a port to join")
        port.write(R.R_CTRL, R.CTRL_ENABLE)
    for n, port in enumerate(far):
        fabric.until(lambda n=n, p=port: hub.link_up(n) and p.link_up(n % 2), f"link {n}")
        port.set_inbound(n, 0, PAGE, MEMORY, allow=1 << n % 2)
        hub.set_slot(n, R.DEST_LINK | n, 0, PAGE)
        fabric.until(lambda n=n: hub.slot_status(n), f"slot {n}")
        port.write(R.R_DB_ALLOW + 4 * (n % 2), 1)
        hub.set_page(n, R.DEST_LINK | n, 1)
    for n, port in enumerate(far):
        hub.qemu.write(hub.slot(n), 8, 0x100 + n)
        hub.ring(n, 0)
        hub.send(n, bytes([n]))
    for n, port in enumerate(far):
        equal(port.qemu.read(MEMORY, 8), 0x100 + n, f"memory of neighbour {n}")
        fabric.until(lambda p=port: p.read(R.R_DB_PENDING) == 1, f"doorbell at neighbour {n}")
        fabric.until(lambda p=port: p.counter(R.CNT_RX_MSG) == 1, f"message at neighbour {n}")
        equal(port.receive(), (n % 2, bytes([n])), f"message at neighbour {n}")
    fabric.link_down(hub_node, 2)
    fabric.until(lambda: not hub.link_up(2), "link 2 to go down")
    equal([bool(hub.slot_status(n)) for n in range(4)], [True, True, False, True], "slots that live")


def test_loopback(scope):
    """two ports of one machine are neighbours like any others, withdrawal included"""
    fabric = Fabric(scope)
    args = []
    for n in range(2):
        args += ["-device", f"weft-port,addr={4 + n},node=p{n},hwid={16 + n},fabric={fabric.path}"]
    qemu = Qemu(scope, "h1", *args)
    # Both have connected, in whatever order.
    nodes = sorted((fabric.attach() for _ in range(2)), key=lambda node: node.hello.arg[1])
    a = Port(qemu, 4)
    b = Port(qemu, 5, ctrl=CTRL + 0x200000, msix=MSIX + 0x200000, window=2 * WINDOW, bus=a.bus)
    fabric.wire(nodes[0], 0, nodes[1], 0)
    for port in a, b:
        fabric.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_FABRIC, "a port to join")
        port.write(R.R_CTRL, R.CTRL_ENABLE)
    fabric.until(lambda: a.link_up() and b.link_up(), "the link to come up")
    equal((a.read64(R.R_HWID), b.read64(R.R_HWID)), (16, 17), "hardware ids")
    b.set_inbound(0, 0, PAGE, MEMORY)
    a.set_slot(0, R.DEST_LINK, 0, PAGE)
    fabric.until(lambda: a.slot_status(0) == R.SLOT_LIVE | R.SLOT_DIRECT, "the slot to live")
    qemu.write(a.slot(0), 8, 0x100b)
    equal(qemu.read(MEMORY, 8), 0x100b, "memory")
    b.write(R.R_DB_ALLOW, 1)
    b.write(R.R_DB_MASK, 0)
    a.set_page(0, R.DEST_LINK, 1)
    a.ring(0, 0)
    fabric.until(lambda: b.fired() == {4}, "the doorbell")
    equal(a.fired(), set(), "interrupts at the one that rang")
    a.send(0, b"hello")
    fabric.until(lambda: b.read(R.R_EVENT) & R.EVENT_MBOX, "the message")
    equal(b.receive(), (0, b"hello"), "message")
    b.close_inbound(0)
    fabric.until(lambda: not b.inbound_status(0), "the withdrawal")
    equal(qemu.read(a.slot(0), 8), (1 << 64) - 1, "read after it")
    fabric.link_down(nodes[0], 0)
    fabric.until(lambda: not a.link_up() and not b.link_up(), "the link to go down")
    until(lambda: not b.inbound_status(0), "no port to hold on to the other")
