# SPDX-License-Identifier: GPL-2.0
"""N-4: port-path packets by the mailbox of a link to a switch: for the switch itself, and passed on by it."""

import struct

import regs as R
from crc import crc32c
from tap import equal, until
from test_routes import TWO, Net

HOPS = 32
PORTS_REQUEST, PORTS_REPLY = 1, 2
# Of a node without a host.
NO_HOST = 1 << 63


def packet(path, payload, spoilt=0):
    """The seed's Table 2 behind the envelope of the mailbox, not sent yet: Documentation/manager.rst."""
    header = bytes([0, 0, len(path), 0]) + bytes(path).ljust(HOPS, b"\0") + bytes(HOPS)
    body = header + struct.pack("<H", len(payload)) + payload
    return b"WFNM" + struct.pack("<BBHI", 2, 0, 12 + len(body), crc32c(body) ^ spoilt) + body


def read(message):
    """(hops, nodes passed, forward path, backward path, payload), of a packet that is one."""
    equal(message[:4], b"WFNM", "magic")
    _, _, count, checksum = struct.unpack_from("<BBHI", message, 4)
    equal((count, checksum), (len(message), crc32c(message[12:])), "envelope")
    method, _, hops, passed = message[12:16]
    equal(method, 0, "routing method")
    forward, backward = message[16:16 + hops], message[16 + HOPS:16 + HOPS + passed]
    return hops, passed, forward, backward, message[18 + 2 * HOPS:]


def question(xid):
    return struct.pack("<BIB", PORTS_REQUEST, xid, 0)


def answer(port):
    until(lambda: port.read(R.R_MBOX_RX_STATUS) & R.MBOX_RX_VALID, "a message")
    return port.receive()


def register(port, address):
    """Of the switch next to it."""
    port.config([0], 0, address)
    until(lambda: not port.read(R.R_CFG_STATUS) & R.CFG_BUSY, "the answer")
    return port.read(R.R_CFG_DATA)


def test_switch_answers(scope):
    """a switch says what it is and what is at its ports, to any that asks it by a path of one link"""
    net = Net(scope, TWO)
    net[1].send(0, packet([0], question(77)))
    equal(net[1].read(R.R_MBOX_TX_STATUS), 0, "sending")
    link, message = answer(net[1])
    equal(link, 0, "link")
    hops, passed, forward, backward, payload = read(message)
    equal((hops, passed, forward, backward), (1, 0, b"\0", b""), "the way back: by the port it came in by")
    kind, xid, hwid = struct.unpack_from("<BIQ", payload)
    equal((kind, xid, hwid & NO_HOST), (PORTS_REPLY, 77, NO_HOST), "a reply, of a switch")
    low, high = (register(net[1], R.CS_HWID + at) for at in (0, 4))
    equal(hwid, high << 32 | low, "the hardware id that its configuration space has")
    # Info, where the next page begins, then number, peer, speed and width of each port.
    equal(payload[45], 0, "all in one page")
    ports = list(struct.iter_unpack("<BQBB", payload[46:]))
    equal(ports, [(0, 10, 4, 8), (1, 20, 4, 8)], "its ports")


def test_switch_relays(scope):
    """a switch passes a packet on by the next port, with the port it came in by written down; the way back works"""
    net = Net(scope, TWO)
    net[1].send(0, packet([0, 1], b"there"))
    link, message = answer(net[2])
    equal(link, 1, "link")
    equal(read(message), (2, 1, b"\0\1", b"\0", b"there"), "hops, passed, forward, backward, payload")
    net[2].send(1, packet([1, 0], b"back"))
    link, message = answer(net[1])
    equal((link, read(message)), (0, (2, 1, b"\1\0", b"\1", b"back")), "the other way")


def test_nonsense_is_dropped(scope):
    """a switch passes nothing on that is no packet, is spoilt, or leads nowhere"""
    net = Net(scope, TWO)
    whole = packet([0, 1], b"x")
    for data in (b"x", b"WFNM", whole[:-1], packet([0, 1], b"x", spoilt=1), packet([0, 3], b"x"), bytes(256)):
        net[1].send(0, data)
        equal(net[1].read(R.R_MBOX_TX_STATUS), 0, "sending")
    # What comes behind them has overtaken none.
    net[1].send(0, whole)
    _, message = answer(net[2])
    equal(read(message)[4], b"x", "the last one")
    equal(net[2].receive(), None, "nothing else")
