# SPDX-License-Identifier: GPL-2.0
"""Doorbells, to oneself and to neighbours."""

import os
import select

import regs as R
from fixture import Pair
from port import host
from tap import equal

LINK0 = R.DEST_LINK
PEER = 1 << 63


def join(scope, allow=0xffffffff):
    """A pair whose b lets its neighbour ring `allow`, and whose a may ring all by page 0."""
    pair = Pair(scope)
    pair.b.write(R.R_DB_ALLOW, allow)
    pair.a.set_page(0, LINK0, 0xffffffff)
    return pair


def test_self(scope):
    """a port rings itself, each doorbell with the vector that is set for it"""
    port = host(scope)
    port.set_page(3, R.DEST_SELF, 0xffffffff)
    port.write(R.R_DB_MASK, 0)
    for n in range(R.DOORBELLS):
        port.ring(3, n)
        equal(port.read(R.R_DB_PENDING), 1 << n, f"pending after doorbell {n}")
        equal(port.fired(), {4 + n % 12}, f"interrupts of doorbell {n}")
        port.write(R.R_DB_PENDING, 1 << n)
    port.write(R.R_DB_VECTOR + 4 * 7, 0)
    port.ring(3, 7)
    equal(port.fired(), {0}, "interrupts with another vector")
    port.write(R.R_DB_VECTOR + 4 * 8, 16)
    port.ring(3, 8)
    equal(port.fired(), set(), "interrupts with a vector there is not")
    equal(port.read(R.R_DB_PENDING), 3 << 7, "pending all the same")


def test_peer(scope):
    """a neighbour's doorbell arrives, and is counted at both ends"""
    pair = join(scope)
    pair.b.write(R.R_DB_MASK, 0)
    for n in 0, 17, 31:
        pair.a.ring(0, n)
        pair.until(lambda n=n: pair.b.read(R.R_DB_PENDING) == 1 << n, f"doorbell {n}")
        equal(pair.b.fired(), {4 + n % 12}, f"interrupts of doorbell {n}")
        pair.b.write(R.R_DB_PENDING, 0xffffffff)
    equal(pair.a.counter(R.CNT_TX_DB), 3, "doorbells sent")
    equal(pair.b.counter(R.CNT_RX_DB), 3, "doorbells received")
    equal(pair.a.read(R.R_DB_PENDING), 0, "pending at the sender")


def test_masked(scope):
    """a masked doorbell pends silently, and fires when it is unmasked"""
    pair = join(scope)
    pair.a.ring(0, 4)
    pair.until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 4, "the doorbell")
    equal(pair.b.fired(), set(), "interrupts while masked")
    pair.b.write(R.R_DB_MASK, ~(1 << 5) & 0xffffffff)
    equal(pair.b.fired(), set(), "interrupts when another is unmasked")
    pair.b.write(R.R_DB_MASK, 0)
    equal(pair.b.fired(), {8}, "interrupts at unmasking")


def test_coalesced(scope):
    """a doorbell that pends already makes no second interrupt"""
    port = host(scope)
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    port.write(R.R_DB_MASK, 0)
    for _ in range(5):
        port.ring(0, 2)
    equal(port.counter(R.CNT_IRQS), 1, "interrupts")
    port.write(R.R_DB_PENDING, 1 << 2)
    port.ring(0, 2)
    equal(port.counter(R.CNT_IRQS), 2, "interrupts after it was taken")


def test_page_denies(scope):
    """a page rings only what it may, where it leads, by its first word"""
    pair = join(scope)
    cases = [
        (LINK0, 0x4, 3), (LINK0, 0, 0), (0, 0xffffffff, 1), (R.DEST_LID | 2, 0xffffffff, 1),
        (R.DEST_LINK | 1, 0xffffffff, 1), (R.DEST_LINK | 4, 0xffffffff, 1), (R.DEST_LINK | 0xffff, 0xffffffff, 1),
        (R.DEST_TYPE, 0xffffffff, 1), (LINK0, 0xffffffff, 32), (LINK0, 0xffffffff, 0xffffffff),
    ]
    for dest, allow, value in cases:
        pair.quiet()
        pair.a.set_page(15, dest, allow)
        pair.a.ring(15, value)
        equal(pair.a.counter(R.CNT_DB_DENIED), 1, f"refusals with {dest:#x}, {allow:#x}, {value}")
        equal(pair.a.error(), (R.ERR_DB_DENIED, 15, value), "first error")
        equal(pair.a.read(R.R_EVENT), R.EVENT_ERROR, "event")
    pair.quiet()
    pair.a.set_page(15, LINK0, 0xffffffff)
    for offset in 4, 8, 0x800, R.PAGE - 4:
        pair.a.write(R.DB_PAGE_BASE + 15 * R.PAGE + offset, 1)
    equal((pair.a.counter(R.CNT_TX_DB), pair.a.counter(R.CNT_DB_DENIED)), (0, 0), "what the rest of a page does")


def test_owner_denies(scope):
    """a doorbell the owner does not allow is refused and counted there"""
    pair = join(scope, allow=1 << 6)
    pair.b.write(R.R_DB_MASK, 0)
    pair.a.ring(0, 5)
    pair.until(lambda: pair.b.counter(R.CNT_DB_DENIED) == 1, "the refusal")
    equal(pair.b.error(), (R.ERR_DB_DENIED, 0, PEER | 5), "first error")
    equal(pair.b.read(R.R_DB_PENDING), 0, "pending")
    equal(pair.b.fired(), set(), "interrupts")
    pair.a.ring(0, 6)
    pair.until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 6, "one that is allowed")
    pair.b.write(R.R_DB_ALLOW, 0)
    pair.b.write(R.R_DB_ALLOW + 4, 0xffffffff)
    pair.a.ring(0, 6)
    pair.until(lambda: pair.b.counter(R.CNT_DB_DENIED) == 2, "the refusal of what another link may")


def test_link_down(scope):
    """no doorbell over a link that is down"""
    pair = join(scope)
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    pair.a.ring(0, 1)
    equal(pair.a.counter(R.CNT_DB_DENIED), 1, "refusals")
    equal(pair.a.counter(R.CNT_TX_DB), 0, "doorbells sent")


def test_reset_clears(scope):
    """a reset takes pending doorbells, also those not looked at yet"""
    pair = join(scope)
    pair.a.ring(0, 3)
    pair.until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 3, "the doorbell")
    # Rung by the page alone; the port is told after its reset.
    _, doorbell, event = pair.node_b.hello.fds
    os.pwrite(doorbell, b"\xff" * 4, 0)
    pair.b.write(R.R_CTRL, R.CTRL_RESET)
    pair.ready(pair.b)
    os.eventfd_write(event, 1)
    pair.until(lambda: not select.select([event], [], [], 0)[0], "the event to be taken")
    equal(pair.b.read(R.R_DB_PENDING), 0, "pending")
    equal((pair.b.counter(R.CNT_RX_DB), pair.b.counter(R.CNT_DB_DENIED)), (0, 0), "doorbells received, refused")
