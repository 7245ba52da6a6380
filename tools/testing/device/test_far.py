# SPDX-License-Identifier: GPL-2.0
"""What a driver needs of ports that are no neighbours: messages by routes, and news of the routes themselves."""

import regs as R
from port import MEMORY, PAGE, host
from tap import equal, until
from test_routes import CHAIN, ONE, Flow, Net, switch_entries

ALL_VPS = (1 << R.FAB_GATES) - 1


def over_a_switch(scope):
    """h1 to h2 by link 0, VP 1; it comes in there by link 1, VP 3. And back."""
    net = Net(scope, ONE)
    net.host_route(1, 0, 2, 0, 1)
    net.host_route(2, 0, 1, 1, 3)
    switch_entries(net, "s1", [(0, 1, 700, ()), (1, 3, 700, ())], [(2, 1, (), 1), (1, 0, (), 1)])
    for port in net.ports:
        port.write64(R.R_MBOX_VPS, ALL_VPS)
    return net


def came(port, count):
    until(lambda: port.counter(R.CNT_RX_MSG) == count, "the message")


def test_message(scope):
    """a message to a local id follows the routes, whole; the reader learns whose it is and by which VP it came"""
    net = over_a_switch(scope)
    equal(bool(net[1].read(R.R_CAP1) & R.CAP1_MBOX_LID), True, "capability")
    for count, data in enumerate([b"a", bytes(range(48)), bytes(n % 251 for n in range(256))], 1):
        net[1].send_to(2, data)
        equal(net[1].read(R.R_MBOX_TX_STATUS), 0, "sending")
        came(net[2], count)
        status = net[2].read(R.R_MBOX_RX_STATUS)
        equal(bool(status & R.MBOX_RX_ROUTED), True, "by a route")
        equal((R.field(R.MBOX_LINK, status), R.field(R.MBOX_VP, status)), (1, 3), "last link and VP")
        equal(net[2].read(R.R_MBOX_RX_LID), 1, "source")
        equal(net[2].receive(), (1, data), "message")
    equal(net[2].read(R.R_MBOX_RX_LID), 0, "source, without a message")
    net[2].send_to(1, b"back")
    came(net[1], 1)
    equal(net[1].read(R.R_MBOX_RX_LID), 2, "source")
    equal(net[1].receive(), (0, b"back"), "message")


def test_refused(scope):
    """sending to a local id fails and says so: no id, no bytes, too many; the register keeps 23 bits"""
    net = over_a_switch(scope)
    for lid, control in (0, 4), (2, 0), (2, 257), (0, 0):
        net[1].write(R.R_MBOX_TX_LID, lid)
        net[1].write(R.R_MBOX_TX_CTRL, R.MBOX_TX_ROUTED | control << 8)
        equal(net[1].read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, f"LID {lid}, {control} bytes")
    net[1].write(R.R_MBOX_TX_LID, 0xffffffff)
    equal(net[1].read(R.R_MBOX_TX_LID), R.DEST_WHERE, "local id")
    equal(net[1].counter(R.CNT_TX_MSG), 0, "messages sent")
    alone = host(scope, "alone", node="h9")
    alone.send_to(2, b"x")
    equal(alone.read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, "without a fabric")


def test_ends_on_the_way(scope):
    """MR-5: a message whose route ends is counted where it ends, and arrives nowhere"""
    net = over_a_switch(scope)
    stopped = net.stopped("s1", "no_route")
    net.daemon.command("route", "del", "s1", "2")
    net[1].send_to(2, b"lost")
    until(lambda: net.stopped("s1", "no_route") == stopped + 1, "the switch to have stopped it")
    net.route("s1", 2, 1)
    vps = net.stopped("s1", "no_vp")
    net.daemon.command("vp", "del", "s1:1", "3")
    net[1].send_to(2, b"lost")
    until(lambda: net.stopped("s1", "no_vp") == vps + 1, "the switch to have stopped it")
    net.vp("s1:1", 3, 700)
    denied = net[1].counter(R.CNT_ROUTE_DENIED)
    net[1].clear_errors()
    net[1].send_to(77, b"to none")
    until(lambda: net[1].counter(R.CNT_ROUTE_DENIED) == denied + 1, "to be counted here")
    equal(net[1].error(), (R.ERR_ROUTE_DENIED, 31, 77 | R.STOP_ROUTE << 32), "error")
    equal(net[2].counter(R.CNT_RX_MSG), 0, "messages that came")
    net[1].send_to(2, b"again")
    came(net[2], 1)


def test_admitted(scope):
    """messages by routes are taken of the VPs in MBOX_VPS alone, of none after a reset; neighbours' always"""
    net = over_a_switch(scope)
    gate = R.VPS * 1 + 3
    for count, mask in enumerate([0, ALL_VPS & ~(1 << gate)], 1):
        net[2].write64(R.R_MBOX_VPS, mask)
        equal(net[2].read64(R.R_MBOX_VPS), mask, "mask")
        net[1].send_to(2, b"no")
        until(lambda count=count: net[2].counter(R.CNT_MSG_DROPPED) == count, "the refusal")
    equal(net[2].read(R.R_MBOX_RX_STATUS), 0, "nothing came")
    equal(net[2].read(R.R_ERR_STATUS) & R.ERR_MSG_DROPPED, 0, "error")
    net[2].write64(R.R_MBOX_VPS, 1 << gate)
    net[1].send_to(2, b"yes")
    came(net[2], 1)
    net[2].write(R.R_CTRL, R.CTRL_RESET)
    equal(net[2].read64(R.R_MBOX_VPS), 0, "mask after a reset")
    equal(net[2].read(R.R_MBOX_RX_STATUS), 0, "message after a reset")


def test_room(scope):
    """messages by routes take half of the mailbox at most: neighbours find room"""
    net = Net(scope, CHAIN)
    net.host_route(1, 0, 3, 0, 1)
    net.host_route(2, 0, 3, 1, 2, own=False, links=1, vps=1 << 1)
    net[3].write64(R.R_MBOX_VPS, ALL_VPS)
    for n in range(R.MBOX_DEPTH):
        net[1].send_to(3, bytes([n]))
    half = R.MBOX_DEPTH - R.MBOX_ROUTED_DEPTH
    until(lambda: net[3].counter(R.CNT_MSG_DROPPED) == half, "the drops")
    equal(net[3].error(), (R.ERR_MSG_DROPPED, 0 | 1 << 5 | 2 << 8, 1), "first error: link 0, VP 2, LID 1")
    for n in range(half):
        net[2].send(1, bytes([100 + n]))
    came(net[3], R.MBOX_DEPTH)
    got = [net[3].receive() for _ in range(R.MBOX_DEPTH)]
    equal(got[:R.MBOX_ROUTED_DEPTH], [(0, bytes([n])) for n in range(R.MBOX_ROUTED_DEPTH)], "by the route")
    equal(got[R.MBOX_ROUTED_DEPTH:], [(0, bytes([100 + n])) for n in range(half)], "of the neighbour")
    net[1].send_to(3, b"room")
    came(net[3], R.MBOX_DEPTH + 1)
    equal(net[3].receive(), (0, b"room"), "message")


def taken(port, slot=0):
    return port.read(R.R_SLOT + slot * R.SLOT_STRIDE + R.SLOT_TAKEN)


def events(port):
    bits = port.read(R.R_EVENT) & R.EVENT_ROUTE
    port.write(R.R_EVENT, bits)
    return bool(bits)


def test_taken(scope):
    """each time that a slot's route is taken up it has another number; its loss and its return raise EVENT.ROUTE"""
    net = over_a_switch(scope)
    port = net[1]
    port.write(R.R_EVENT_MASK, ~R.EVENT_ROUTE & 0xffffffff)
    # Enabled and empty: it leads nowhere, but its route is known.
    port.set_slot(0, R.DEST_LID | 2, 0, 0)
    until(lambda: taken(port), "the route to be taken up")
    equal(R.field(R.SLOT_HOPS, port.slot_status(0)), 2, "hops")
    equal(port.slot_status(0) & R.SLOT_LIVE, 0, "live")
    equal((events(port), port.fired()), (True, {0}), "event, vector of LINK")
    seen = {taken(port)}
    there = Flow(net, 1, 2, link=1, vp=3)
    there.works()
    equal({taken(port)}, seen, "number, with the slot latched anew and in use")
    equal(events(port), False, "event")

    def breaks(out, back):
        out()
        until(lambda: not taken(port), "the loss")
        until(lambda: events(port), "the event of the loss")
        back()
        until(lambda: taken(port), "the return")
        until(lambda: events(port), "the event of the return")
        equal(taken(port) in seen, False, "a number that was there before")
        seen.add(taken(port))
        there.works()

    breaks(lambda: net.daemon.command("link", "down", "s1:1"), lambda: net.daemon.command("link", "up", "s1:1"))
    breaks(lambda: net.daemon.command("route", "del", "s1", "2"), lambda: net.route("s1", 2, 1))
    breaks(lambda: net[2].write(R.R_LID, 0), lambda: net[2].write(R.R_LID, 2))
    # The memory of the other end is not the route.
    before = taken(port)
    there.close()
    equal((taken(port), events(port)), (before, False), "number and event, with the memory withdrawn")
    there.open()
    there.works()
    # A port without such a slot is told nothing.
    equal(net[2].read(R.R_EVENT) & R.EVENT_ROUTE, 0, "event of the other end")
    # Another way to the same port is another route.
    net.vp("s1:0", 5, 800)
    net.vp("s1:1", 6, 800)
    net.host_route(1, 0, 2, 0, 5)
    until(lambda: taken(port) and taken(port) not in seen, "another number")
    seen.add(taken(port))
    port.set_slot(0, R.DEST_LID | 2, 0, 0, ctrl=0)
    equal(taken(port), 0, "number of a slot that is not enabled")
    port.set_slot(0, R.DEST_LINK, 0, PAGE)
    equal(taken(port), 0, "number of a slot to a link")


def test_fabric_lost(scope):
    """with the fabric gone so are the routes, and that is an event"""
    net = over_a_switch(scope)
    port = net[1]
    port.set_slot(0, R.DEST_LID | 2, 0, 0)
    until(lambda: taken(port), "the route")
    before = taken(port)
    events(port)
    net.daemon.kill()
    until(lambda: not taken(port), "the loss")
    until(lambda: events(port), "the event")
    equal(before > 0, True, "number")


def test_all_pages(scope):
    """each of the doorbell pages rings, the ones behind the first sixteen as well, and only at its first word"""
    port = host(scope)
    for page in range(R.DB_PAGES):
        port.set_page(page, R.DEST_SELF, 1 << page)
    for page in range(R.DB_PAGES):
        port.ring(page, page)
        equal(port.read(R.R_DB_PENDING), 1 << page, f"doorbell of page {page}")
        port.write(R.R_DB_PENDING, 0xffffffff)
    denied = port.counter(R.CNT_DB_DENIED)
    port.ring(R.DB_PAGES - 1, 0)
    equal(port.counter(R.CNT_DB_DENIED), denied + 1, "one that the page may not ring")
    port.write(R.DB_PAGE_MORE + (R.DB_PAGES - R.DB_PAGES_AT_BASE) * PAGE, 31)
    port.write(R.DB_PAGE_MORE + 4, 16)
    equal(port.read(R.R_DB_PENDING), 0, "behind the pages, and behind the first word")
    equal(port.qemu.read(MEMORY, 4), 0, "memory")
