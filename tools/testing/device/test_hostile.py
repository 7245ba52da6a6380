# SPDX-License-Identifier: GPL-2.0
"""A fabric that sends garbage. The port gives it up, says why, and tries again; it never crashes."""

import os
import socket

import fcntl

import regs as R
from fabric import MESSAGE_BYTES, Fabric, pack
from fixture import Pair
from port import MEMORY, PAGE, RW, host
from tap import equal, until


def joined(scope):
    fabric = Fabric(scope)
    port = host(scope, fabric=fabric.path, hwid=0xa)
    port.qemu.complains = True
    node = fabric.attach(links=2)
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    return fabric, port, node


def check_given_up(fabric, port, node, what):
    """The connection closes, everything is down, and a good fabric is joined again."""
    def step():
        if fabric.nodes:
            fabric.step()
    until(lambda: not fabric.nodes, f"the port to give up after {what}", step=step)
    equal(port.read(R.R_STATUS), 0, f"status after {what}")
    equal(port.link(0), 0, f"link after {what}")
    node = fabric.attach(links=2)
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, f"the port to join after {what}")
    return node


def bring_up(fabric, port, node):
    """A link whose neighbour is the port itself, as far as descriptors go."""
    node.send(R.FAB_LINK_UP, 0, (4, 4, 0, 0xb, 1, 1), fds=node.hello.fds)
    fabric.until(port.link_up, "the link to come up")


def segment(offset, length):
    return offset.to_bytes(8, "little") + length.to_bytes(8, "little")


def test_malformed_packets(scope):
    """short, long and empty packets, lengths beyond the packet, unknown types"""
    fabric, port, node = joined(scope)
    good = pack(R.FAB_TRACE)
    for what, packet in {
        "one byte": b"x",
        "a short packet": good[:-1],
        "a long packet": good + b"x",
        "a huge packet": bytes(60000),
        "a length beyond the data": pack(R.FAB_TRACE, length=R.FAB_DATA + 1),
        "a length of all ones": pack(R.FAB_TRACE, length=0xffffffff),
        "type 0": pack(0),
        "type 65535": pack(0xffff),
        "a message only a port sends": pack(R.FAB_HELLO),
        "random bytes": os.urandom(MESSAGE_BYTES),
    }.items():
        node.send_raw(packet)
        node = check_given_up(fabric, port, node, what)


def test_bad_messages(scope):
    """messages whose numbers are out of range"""
    fabric, port, node = joined(scope)
    ack = R.FAB_INBOUND_ACK
    for what, packet in {
        "a link there is not": pack(R.FAB_LINK_DOWN, 2),
        "link 65535": pack(R.FAB_LINK_DOWN, 0xffff),
        "a fault there is not": pack(R.FAB_FAULT, 0, (99, 1)),
        "fault 0": pack(R.FAB_FAULT, 0, (0, 1)),
        "a fault of a link there is not": pack(R.FAB_FAULT, 4, (R.FAB_FAULT_SLOW, 1)),
        "LINK_INFO of a link there is not": pack(R.FAB_LINK_INFO, 9),
        "a speed there is not": pack(R.FAB_LINK_INFO, 0, (7, 1, 0, 1, 1, 1)),
        "a width there is not": pack(R.FAB_LINK_INFO, 0, (1, 1 << 40, 0, 1, 1, 1)),
        "a highest width there is not": pack(R.FAB_LINK_INFO, 0, (1, 1, 0, 1, 1, 64)),
        "a second WELCOME": pack(R.FAB_WELCOME, 0, (1, 1, 1, 0)),
        "an ACK of an entry there is not": pack(ack, 0, (R.FUNCTIONS * R.MAX_INBOUND,)),
        "an ACK of an entry of all ones": pack(ack, 0, ((1 << 64) - 1,)),
        "an empty message": pack(R.FAB_MBOX),
        "a message of function 34": pack(R.FAB_MBOX, 0, (0, R.FUNCTIONS), b"x"),
        "a generation of function 34": pack(R.FAB_GENERATION, 0, (1, R.FUNCTIONS)),
        "a LINK_UP without descriptors": pack(R.FAB_LINK_UP, 0, (4, 4, 0, 1, 1, 0)),
    }.items():
        node.send_raw(packet)
        node = check_given_up(fabric, port, node, what)


def test_bad_welcome(scope):
    """a WELCOME of impossible links or generation, and messages before it"""
    fabric = Fabric(scope)
    port = host(scope, fabric=fabric.path)
    port.qemu.complains = True
    for packet in (pack(R.FAB_WELCOME, 0, (1, 1, 5, 0)), pack(R.FAB_WELCOME, 0, (1 << 32, 1, 1, 0)),
                   pack(R.FAB_LINK_INFO, 0, (1, 1, 0, 1, 1, 1)), pack(R.FAB_TRACE, 0, (1,)),
                   pack(R.FAB_REFUSED, data=b"go away\n\x1b[31m%s%n")):
        node = fabric.accept()
        node.send_raw(packet)
        fabric.nodes.append(node)
        until(lambda: not fabric.nodes, "the port to give up", step=fabric.step)
    equal(port.read(R.R_STATUS), 0, "status")
    fabric.attach()
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    errors = port.qemu.errors()
    assert "refused: go away??[31m%s%n" in errors, errors


def test_bad_descriptors(scope):
    """LINK_UP with too few, too many, wrong or unsafe descriptors; and descriptors that were not asked for"""
    fabric, port, node = joined(scope)
    small = os.memfd_create("small", os.MFD_ALLOW_SEALING)
    scope.callback(os.close, small)
    open_ended = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    scope.callback(os.close, open_ended)
    os.ftruncate(open_ended, 1 << 20)
    os.ftruncate(small, 100)
    fcntl.fcntl(small, 1033, 2)     # F_ADD_SEALS, F_SEAL_SHRINK
    plain = os.open(os.path.join(scope.dir, "plain"), os.O_RDWR | os.O_CREAT)
    scope.callback(os.close, plain)
    os.ftruncate(plain, 1 << 20)
    null = os.open("/dev/null", os.O_RDWR)
    scope.callback(os.close, null)
    left, right = socket.socketpair()
    scope.enter_context(left)
    scope.enter_context(right)
    ram, doorbell, event = node.hello.fds
    up = pack(R.FAB_LINK_UP, 0, (4, 4, 0, 0xb, 1, 1))
    for what, fds in {
        "two descriptors": [ram, doorbell],
        "four descriptors": [ram, doorbell, event, event],
        "more descriptors than any message has": [event] * 60,
        "small RAM": [small, doorbell, event],
        "RAM that can shrink": [open_ended, doorbell, event],
        "RAM that is a file": [plain, doorbell, event],
        "RAM that is a device": [null, doorbell, event],
        "RAM that is a socket": [left.fileno(), doorbell, event],
        "a small doorbell page": [ram, small, event],
        "a doorbell page that can shrink": [ram, open_ended, event],
        "a doorbell page that is a socket": [ram, left.fileno(), event],
    }.items():
        before = port.qemu.descriptors()
        node.send_raw(up, fds)
        node = check_given_up(fabric, port, node, what)
        equal(port.qemu.descriptors(), before, f"descriptors after {what}")
    for far_link in 4, 0xffffffff:
        node.send_raw(pack(R.FAB_LINK_UP, 0, (4, 4, 0, 0xb, 1, far_link)), [ram, doorbell, event])
        node = check_given_up(fabric, port, node, f"link {far_link} at the neighbour")
    node.send_raw(pack(R.FAB_TRACE, 0, (1,)), [event])
    check_given_up(fabric, port, node, "a descriptor that was not asked for")


def test_bad_event(scope):
    """a doorbell event that is something else, or always full, does not stop the port"""
    fabric, port, node = joined(scope)
    full = os.eventfd(0)
    scope.callback(os.close, full)
    os.eventfd_write(full, 0xfffffffffffffffe)
    read_end, write_end = os.pipe()
    scope.callback(os.close, write_end)
    os.close(read_end)
    ram, doorbell, _ = node.hello.fds
    port.set_page(0, R.DEST_LINK, 1)
    for event in full, write_end:
        node.send(R.FAB_LINK_UP, 0, (4, 4, 0, 0xb, 1, 1), fds=[ram, doorbell, event])
        fabric.until(port.link_up, "the link to come up")
        port.ring(0, 0)
        equal(port.read(R.R_ID), R.ID, "id")
        node.send(R.FAB_LINK_DOWN, 0)
        fabric.until(lambda: not port.link_up(), "the link to go down")


def test_bad_apertures(scope):
    """INBOUND that is misaligned, out of the RAM, incomplete or out of order"""
    fabric, port, node = joined(scope)
    size = node.hello.arg[2]
    one = segment(MEMORY, PAGE)
    for what, (arg, data) in {
        "an entry there is not": ((R.FUNCTIONS * R.MAX_INBOUND, 0, PAGE, RW), one),
        "an entry of all ones": (((1 << 64) - 1, 0, PAGE, RW), one),
        "an odd offset": ((0, 8, PAGE, RW), one),
        "an odd length": ((0, 0, PAGE + 1, RW), one),
        "an offset that wraps": ((0, (1 << 64) - PAGE, 2 * PAGE, RW), segment(0, 2 * PAGE)),
        "rights there are not": ((0, 0, PAGE, 1 << 40), one),
        "half a segment": ((0, 0, PAGE, RW), one[:8]),
        "no segment": ((0, 0, PAGE, RW), b""),
        "a segment too many": ((0, 0, PAGE, RW), one + one),
        "a segment of nothing": ((0, 0, PAGE, RW), segment(MEMORY, 0) + one),
        "an odd segment": ((0, 0, PAGE, RW), segment(MEMORY + 8, PAGE)),
        "a segment of odd length": ((0, 0, PAGE, RW), segment(MEMORY, PAGE - 8) + segment(MEMORY, 8)),
        "a segment behind the RAM": ((0, 0, PAGE, RW), segment(size, PAGE)),
        "a segment over its end": ((0, 0, 2 * PAGE, RW), segment(size - PAGE, 2 * PAGE)),
        "a segment that wraps": ((0, 0, 2 * PAGE, RW), segment((1 << 64) - PAGE, 2 * PAGE)),
        "a length that wraps": ((0, 0, PAGE, RW), segment(PAGE, (1 << 64) - PAGE)),
        "a second piece first": ((0, 0, 2 * PAGE, RW, 0, 1 << 1), one),
        "segments of nothing withdrawn": ((0, 0, 0, RW), one),
    }.items():
        bring_up(fabric, port, node)
        node.send(R.FAB_INBOUND, 0, arg, data)
        node = check_given_up(fabric, port, node, what)
    for what, second in {
        "a second piece of another entry": (1, 0, 2 * PAGE, RW, 0, 5 << 32 | 1 << 1),
        "a second piece of another change": (0, 0, 2 * PAGE, RW, 0, 6 << 32 | 1 << 1),
        "a second piece of other rights": (0, 0, 2 * PAGE, 1, 0, 5 << 32 | 1 << 1),
        "a third piece second": (0, 0, 2 * PAGE, RW, 0, 5 << 32 | 2 << 1),
        "a second piece of another length": (0, 0, 3 * PAGE, RW, 0, 5 << 32 | 1 << 1),
    }.items():
        bring_up(fabric, port, node)
        node.send(R.FAB_INBOUND, 0, (0, 0, 2 * PAGE, RW, 0, 5 << 32 | 1), one)
        node.send(R.FAB_INBOUND, 0, second, one)
        node = check_given_up(fabric, port, node, what)


def test_too_many_segments(scope):
    """an aperture in more pieces than there may be is refused, not swallowed"""
    fabric, port, node = joined(scope)
    bring_up(fabric, port, node)
    first = 0
    while node.alive and first < 20000:
        # Every other page, so that they do not merge.
        data = b"".join(segment(2 * PAGE * ((first + n) % 1000), PAGE) for n in range(R.FAB_SEGS))
        node.send(R.FAB_INBOUND, 0, (0, 0, 1 << 40, RW, 0, 1 << 32 | first << 1 | 1), data)
        first += R.FAB_SEGS
    assert first > 16000, f"given up after {first} segments"
    check_given_up(fabric, port, node, "too many segments")


def test_harmless_strays(scope):
    """messages of a link that is down are late, not hostile: nothing happens"""
    fabric, port, node = joined(scope)
    node.send(R.FAB_INBOUND, 0, (0, 0, PAGE, RW), segment(MEMORY, PAGE))
    node.send(R.FAB_MBOX, 0, data=b"late")
    node.send(R.FAB_LINK_DOWN, 0)
    node.send(R.FAB_INBOUND_ACK, 0, (3, 0, 0, 0, 0, 99 << 32))
    node.send(R.FAB_LINK_INFO, 1, (1, 1, 0, 1, 6, 32))
    fabric.until(lambda: port.link(1, R.LINK_MAX) == 6 << 4 | 32 << 8, "the last message to be taken")
    equal(port.read(R.R_MBOX_RX_STATUS), 0, "mailbox")
    equal(len(fabric.nodes), 1, "connections")


def test_fabric_takes_nothing(scope):
    """a fabric that reads nothing: the port does not wait, and gives it up when too much is queued"""
    fabric, port, node = joined(scope)
    bring_up(fabric, port, node)
    sent = 0
    while port.read(R.R_STATUS) & R.STATUS_FABRIC:
        for _ in range(100):
            port.write(R.R_MBOX_TX_CTRL, 8 << 8)
        sent += 100
        assert sent < 100000, "the queue has no bound"
    assert sent > 1000, f"given up after {sent} messages"
    check_given_up(fabric, port, node, "a full queue")


def test_doorbell_page_scribbled(scope):
    """a neighbour that writes all of the doorbell page rings what it may, and nothing breaks"""
    pair = Pair(scope)
    pair.b.write(R.R_DB_ALLOW, 0xff)
    _, doorbell, event = pair.node_b.hello.fds
    os.pwrite(doorbell, b"\xff" * R.FAB_DOORBELL_BYTES, 0)
    os.eventfd_write(event, 1)
    pair.until(lambda: pair.b.read(R.R_DB_PENDING) == 0xff, "the doorbells that are allowed")
    equal(pair.b.counter(R.CNT_DB_DENIED), 24 + (3 + R.FAB_GATES) * 32, "doorbells refused")
