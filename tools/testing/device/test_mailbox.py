# SPDX-License-Identifier: GPL-2.0
"""The neighbour mailbox."""

import regs as R
from fabric import Fabric
from fixture import Pair
from port import host
from tap import equal


def test_message(scope):
    """messages of any length arrive whole, in order, from the right link"""
    pair = Pair(scope)
    sent = [bytes(i % 251 for i in range(n, n + n)) for n in (1, 3, 4, 48, 255, 256)]
    pair.b.write(R.R_EVENT_MASK, 0)
    for data in sent:
        pair.a.send(0, data)
        equal(pair.a.read(R.R_MBOX_TX_STATUS), 0, "sending")
    pair.until(lambda: pair.b.counter(R.CNT_RX_MSG) == len(sent), "the messages")
    equal(pair.b.read(R.R_EVENT), R.EVENT_MBOX, "event")
    equal(pair.b.fired(), {1}, "interrupts")
    for data in sent:
        equal(pair.b.receive(), (0, data), "message")
    equal(pair.b.receive(), None, "nothing more")
    equal(pair.a.counter(R.CNT_TX_MSG), len(sent), "messages sent")


def test_rest_is_zero(scope):
    """beyond a message's length its data read 0, whatever was there before"""
    pair = Pair(scope)
    for n in range(R.MBOX_DEPTH):
        pair.a.send(0, b"\xff" * 256)
        pair.until(lambda n=n: pair.b.counter(R.CNT_RX_MSG) == n + 1, "a message")
        pair.b.write(R.R_MBOX_RX_POP, 0)
    pair.a.send(0, b"\x01")
    pair.until(lambda: pair.b.counter(R.CNT_RX_MSG) == R.MBOX_DEPTH + 1, "the short one")
    equal(pair.b.read(R.R_MBOX_RX_DATA), 1, "first word")
    for at in range(4, R.MBOX_BYTES, 4):
        equal(pair.b.read(R.R_MBOX_RX_DATA + at), 0, f"word at {at}")


def test_refused(scope):
    """sending fails and says so: no bytes, too many, no such link, link down"""
    pair = Pair(scope)
    for control in 0, 0x101 << 8, 0xffffff << 8, 4 << 8 | 1, 4 << 8 | 15:
        pair.a.write(R.R_MBOX_TX_CTRL, control)
        equal(pair.a.read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, f"sending {control:#x}")
    pair.a.send(0, b"good")
    equal(pair.a.read(R.R_MBOX_TX_STATUS), 0, "sending a good one")
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    pair.a.send(0, b"late")
    equal(pair.a.read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, "sending with the link down")
    equal(pair.a.counter(R.CNT_TX_MSG), 1, "messages sent")


def test_without_fabric(scope):
    """a port without a fabric refuses to send"""
    port = host(scope)
    port.send(0, b"x")
    equal(port.read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, "sending")


def test_full(scope):
    """a full mailbox drops what comes, counts it and raises an error; the rest is intact"""
    pair = Pair(scope)
    for n in range(R.MBOX_DEPTH + 5):
        pair.a.send(0, n.to_bytes(4, "little"))
    pair.until(lambda: pair.b.counter(R.CNT_MSG_DROPPED) == 5, "the drops")
    equal(pair.b.read(R.R_ERR_STATUS), R.ERR_MSG_DROPPED, "errors")
    equal(pair.b.error(), (R.ERR_MSG_DROPPED, 0, 0), "first error")
    equal(pair.b.counter(R.CNT_RX_MSG), R.MBOX_DEPTH, "messages received")
    for n in range(R.MBOX_DEPTH):
        equal(pair.b.receive(), (0, n.to_bytes(4, "little")), "message")
    equal(pair.b.receive(), None, "nothing more")
    pair.a.send(0, b"room")
    pair.until(lambda: pair.b.counter(R.CNT_RX_MSG) == R.MBOX_DEPTH + 1, "one more")
    equal(pair.b.receive(), (0, b"room"), "message")


def test_places_of_others(scope):
    """a neighbour that sends without end leaves each other link that is up a few places"""
    fabric = Fabric(scope)
    hub = host(scope, "hub", fabric=fabric.path, hwid=1)
    hub_node = fabric.attach(links=2)
    flooding, other = (host(scope, f"h{n}", fabric=fabric.path, hwid=16 + n) for n in range(2))
    for n in range(2):
        fabric.wire(hub_node, n, fabric.attach(), 0)
    for port in hub, flooding, other:
        fabric.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_FABRIC, "a port to join")
        port.write(R.R_CTRL, R.CTRL_ENABLE)
    fabric.until(lambda: hub.link_up(0) and hub.link_up(1), "the links to come up")
    fabric.until(lambda: flooding.link_up() and other.link_up(), "the links to come up")
    kept = R.MBOX_LINK_DEPTH
    for n in range(R.MBOX_DEPTH + 5):
        flooding.send(0, n.to_bytes(4, "little"))
    fabric.until(lambda: hub.counter(R.CNT_MSG_DROPPED) == 5 + kept, "the drops")
    equal(hub.error(), (R.ERR_MSG_DROPPED, 0, 0), "first error")
    for n in range(kept + 1):
        other.send(0, n.to_bytes(4, "little"))
    fabric.until(lambda: hub.counter(R.CNT_MSG_DROPPED) == 6 + kept, "one more drop")
    # The place of one that is taken is for all: the other has all of its own.
    equal(hub.receive(), (0, bytes(4)), "message")
    other.send(0, b"more")
    fabric.until(lambda: hub.counter(R.CNT_RX_MSG) == R.MBOX_DEPTH + 1, "its message")
    for n in range(1, R.MBOX_DEPTH - kept):
        equal(hub.receive(), (0, n.to_bytes(4, "little")), "message")
    for n in range(kept):
        equal(hub.receive(), (1, n.to_bytes(4, "little")), "message of the other")
    equal(hub.receive(), (1, b"more"), "message of the other")
    equal(hub.receive(), None, "nothing more")


def test_pop_empty(scope):
    """taking from an empty mailbox does nothing"""
    pair = Pair(scope)
    for _ in range(40):
        pair.b.write(R.R_MBOX_RX_POP, 1)
    pair.a.send(0, b"after")
    pair.until(lambda: pair.b.counter(R.CNT_RX_MSG) == 1, "the message")
    equal(pair.b.receive(), (0, b"after"), "message")
