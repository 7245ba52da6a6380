# SPDX-License-Identifier: GPL-2.0
"""Routes over switches and hosts: every entry on the way is needed, and each stops what uses it and nothing else."""

import os

import regs as R
from fabric import Fabric
from functions import Machine
from port import MEMORY, PAGE, host
from tap import equal, until
from test_daemon import Daemon, join

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT
ONES = (1 << 64) - 1


def topology(hosts, switches, links):
    lines = [f'host = [{", ".join(f"""{{ name = "h{n}", hwid = {10 * n} }}""" for n in hosts)}]']
    if switches:
        each = (f'{{ name = "s{n}", ports = 4, routes = true, blade = "B{n}" }}' for n in switches)
        lines.append(f"switch = [{', '.join(each)}]")
    each = (f'{{ ends = ["{a}", "{b}"] }}' for a, b in links)
    return "\n".join([*lines, f"link = [{', '.join(each)}]", ""])


TWO = topology((1, 2), (1,), [("h1:0", "s1:0"), ("s1:1", "h2:1")])
# h3 is in a hierarchy of its own.
ONE = topology((1, 2, 3), (1,), [("h1:0", "s1:0"), ("s1:1", "h2:1"), ("s1:2", "h3:0")])
THREE = topology((1, 2), (1, 2, 3), [("h1:0", "s1:0"), ("s1:1", "s2:0"), ("s2:1", "s3:0"), ("s3:1", "h2:1")])
CHAIN = topology((1, 2, 3), (), [("h1:0", "h2:0"), ("h2:1", "h3:0")])
# h1 and h2 to h3 and h4 share the cable in the middle; there is another.
SHARED = topology((1, 2, 3, 4), (1, 2), [("h1:0", "s1:0"), ("h2:0", "s1:1"), ("s1:2", "s2:2"), ("s2:0", "h3:0"),
                                         ("s2:1", "h4:0"), ("s1:3", "s2:3")])


class Net:
    """A daemon and its hosts, h1 with LID 1 and so on; make() makes the port of one."""

    def __init__(self, scope, text, make=host):
        self.scope = scope
        self.daemon = Daemon(scope, text)
        count = text.count("hwid")
        self.ports = [make(scope, f"h{n + 1}", fabric=self.daemon.port) for n in range(count)]
        for n in range(count):
            self.start(n + 1)
        self.daemon.command("wait", "--links", "--timeout", "30")

    def __getitem__(self, n):
        return self.ports[n - 1]

    def start(self, n):
        join(self[n])
        self[n].write(R.R_LID, n)

    def vp(self, end, vp, vh):
        self.daemon.command("vp", "set", end, str(vp), str(vh))

    def route(self, switch, lid, port):
        self.daemon.command("route", "set", switch, str(lid), str(port))

    def host_route(self, n, entry, lid, link, vp, **how):
        self[n].set_route(entry, lid, link, vp, **how)
        self.settle(n, entry)

    def settle(self, n, entry):
        until(lambda: not self[n].route(entry, R.ROUTE_STATUS) & R.ROUTE_BUSY, "the route to be in force")

    def stopped(self, switch, why):
        """What a switch has stopped for that reason."""
        switches = {s["name"]: s for s in self.daemon.command("status")["switches"]}
        return switches[switch]["stopped"].get(why, 0)


class Flow:
    """What one host has of another: a slot, and a page for a doorbell."""

    def __init__(self, net, source, target, link, vp, number=0):
        self.net, self.source, self.target = net, net[source], net[target]
        self.gate = R.VPS * link + vp
        self.link, self.vp, self.from_lid, self.number = link, vp, source, number
        self.memory = MEMORY + 16 * PAGE * source
        self.bell = source
        self.value = 0
        self.open()
        self.target.write(R.R_DB_ALLOW_VP + 4 * self.gate, self.allowed() | 1 << self.bell)
        self.source.set_slot(number, R.DEST_LID | target, 16 * PAGE * source, 4 * PAGE)
        self.source.set_page(number, R.DEST_LID | target, 1 << self.bell)

    def allowed(self):
        return self.target.read(R.R_DB_ALLOW_VP + 4 * self.gate)

    def open(self):
        self.target.admit(self.bell, self.link, self.vp, self.from_lid)
        self.target.set_inbound(self.bell, 16 * PAGE * self.bell, 4 * PAGE, self.memory, allow=0)
        self.released()

    def close(self):
        self.target.close_inbound(self.bell)
        self.released()

    def released(self):
        until(lambda: not self.target.inbound_status(self.bell) & R.INBOUND_BUSY, "the entry to be in force")

    def status(self):
        return self.source.slot_status(self.number)

    def hops(self):
        return R.field(R.SLOT_HOPS, self.status())

    def stop(self):
        return R.field(R.SLOT_STOP, self.status())

    def address(self):
        return self.source.slot(self.number, 8)

    def works(self):
        """Memory and doorbell, both ways as far as there are two."""
        until(lambda: self.status() & LIVE == LIVE, f"the slot of h{self.from_lid} to live")
        self.value += 1
        self.source.qemu.write(self.address(), 8, self.value)
        equal(self.target.qemu.read(self.memory + 8, 8), self.value, "memory of the target")
        self.target.qemu.write(self.memory + 16, 4, self.value)
        equal(self.source.qemu.read(self.source.slot(self.number, 16), 4), self.value, "read by the source")
        self.rings()

    def rings(self):
        self.source.ring(self.number, self.bell)
        until(lambda: self.target.read(R.R_DB_PENDING) & 1 << self.bell, "the doorbell")
        self.target.write(R.R_DB_PENDING, 1 << self.bell)

    def dead(self):
        """Nothing arrives, and nothing comes back."""
        equal(self.status() & LIVE, 0, "slot")
        equal(self.source.qemu.read(self.address(), 8), ONES, "read")
        self.source.qemu.write(self.address(), 8, 0xdead)
        equal(self.target.qemu.read(self.memory + 8, 8), self.value, "memory of the target")

    def silent(self):
        """Its doorbell does not ring; the source knows at once."""
        rung = self.target.counter(R.CNT_RX_DB)
        denied = self.source.counter(R.CNT_DB_DENIED)
        self.source.ring(self.number, self.bell)
        equal(self.source.counter(R.CNT_DB_DENIED), denied + 1, "doorbells refused")
        equal(self.target.counter(R.CNT_RX_DB), rung, "doorbells taken")


class Entry:
    """An entry of some table: how it is taken out and put back, what it stops, why, and where that is counted."""

    def __init__(self, what, out, back, flows, why=0, counted=None, hops=None):
        self.what, self.out, self.back, self.flows = what, out, back, flows
        self.why, self.counted, self.hops = why, counted, hops

    def check(self, flows):
        before = self.counted() if self.counted else 0
        self.out()
        for flow in flows:
            if flow in self.flows:
                # At once: the port that took it out was answered when it was in force.
                flow.dead()
                if self.why:
                    equal(flow.stop(), self.why, f"{self.what}: why")
                    flow.silent()
                if self.hops is not None:
                    equal(flow.hops(), self.hops, f"{self.what}: hops")
            else:
                flow.works()
        if self.counted:
            # Reads and writes, and where a route ends, doorbells.
            want = before + len(self.flows) * (3 if self.why else 2)
            until(lambda: self.counted() == want, f"{self.what}: what it stopped to be counted there")
        self.back()
        for flow in flows:
            flow.works()


def switch_entries(net, name, vps, routes):
    """vps: (port, vp, vh, flows); routes: (lid, port, flows, hops)."""
    def vp(port, vp, vh, flows):
        end = f"{name}:{port}"
        return Entry(f"VP {vp} at {end}", lambda: net.daemon.command("vp", "del", end, str(vp)),
                     lambda: net.vp(end, vp, vh), flows, R.STOP_VP, lambda: net.stopped(name, "no_vp"))

    def route(lid, port, flows, hops):
        return Entry(f"LID {lid} at {name}", lambda: net.daemon.command("route", "del", name, str(lid)),
                     lambda: net.route(name, lid, port), flows, R.STOP_ROUTE,
                     lambda: net.stopped(name, "no_route"), hops)

    for entry in vps:
        net.vp(f"{name}:{entry[0]}", entry[1], entry[2])
    for entry in routes:
        net.route(name, entry[0], entry[1])
    return [vp(*entry) for entry in vps] + [route(*entry) for entry in routes]


def host_entry(net, n, entry, lid, link, vp, flows, hops=0, **how):
    def back():
        net.host_route(n, entry, lid, link, vp, **how)

    def out():
        net[n].set_route(entry, lid, link, vp, ctrl=0, **how)
        net.settle(n, entry)
    back()
    return Entry(f"route {entry} of h{n}", out, back, flows, R.STOP_ROUTE,
                 lambda: net[n].counter(R.CNT_ROUTE_DENIED), hops)


def inbound_entry(flow):
    return Entry(f"entry {flow.bell} of the target", flow.close, flow.open, [flow],
                 counted=lambda: flow.target.counter(R.CNT_IN_DENIED))


def lid_of(net, n, flows, hops):
    """The destination's own id: without it, it is one that does not relay."""
    def out():
        net[n].write(R.R_LID, 0)
        until(lambda: not any(flow.status() & R.SLOT_LIVE for flow in flows), "the slot to be dead")
    return Entry(f"LID of h{n}", out, lambda: net[n].write(R.R_LID, n), flows, R.STOP_ROUTE,
                 lambda: net[n].counter(R.CNT_ROUTE_DENIED), hops)


def test_one_switch(scope):
    """MR-5: over a switch: each entry taken out stops what uses it, both memory and doorbells, and is counted there"""
    net = Net(scope, ONE)
    there, back = Flow(net, 1, 2, link=1, vp=3), Flow(net, 2, 1, link=0, vp=1)
    other = Flow(net, 1, 3, link=0, vp=0, number=1)
    entries = [
        host_entry(net, 1, 0, 2, 0, 1, [there]), host_entry(net, 2, 0, 1, 1, 3, [back]),
        host_entry(net, 1, 1, 3, 0, 2, [other]),
        *switch_entries(net, "s1", [(0, 1, 700, [there, back]), (1, 3, 700, [there, back]),
                                    (0, 2, 900, [other]), (2, 0, 900, [other])],
                        [(2, 1, [there], 1), (1, 0, [back], 1), (3, 2, [other], 1)]),
        inbound_entry(there), inbound_entry(back),
    ]
    flows = [there, back, other]
    for flow in flows:
        flow.works()
        equal(flow.hops(), 2, "hops")
    for entry in entries:
        entry.check(flows)
    # What comes from there is not known by its id either; h1 has opened to that.
    lid_of(net, 2, [there], 2).check([there, other])


def test_doorbells_admitted(scope):
    """doorbells by routes ring where DB_ALLOW_VP of their link and VP says; what it refuses is counted there"""
    net = Net(scope, ONE)
    there = Flow(net, 1, 2, link=1, vp=3)
    net.host_route(1, 0, 2, 0, 1)
    switch_entries(net, "s1", [(0, 1, 700, ()), (1, 3, 700, ())], [(2, 1, (), 1)])
    there.works()
    allow = R.R_DB_ALLOW_VP + 4 * there.gate
    for mask, other in (0, 0), (0xffffffff & ~(1 << there.bell), 0), (0, 0xffffffff):
        there.target.write(allow, mask)
        for gate in set(range(R.FAB_GATES)) - {there.gate}:
            there.target.write(R.R_DB_ALLOW_VP + 4 * gate, other)
        there.target.write(R.R_DB_ALLOW + 4 * there.link, other)
        there.target.clear_errors()
        before = there.target.counter(R.CNT_DB_DENIED)
        there.source.ring(0, there.bell)
        until(lambda before=before: there.target.counter(R.CNT_DB_DENIED) == before + 1, "the refusal")
        equal(there.target.error(), (R.ERR_DB_DENIED, there.link | 1 << 5 | there.vp << 8, 1 << 63 | there.bell),
              "error")
        equal(there.target.read(R.R_DB_PENDING), 0, "pending")
    there.target.write(allow, 1 << there.bell)
    there.works()


def test_three_switches(scope):
    """MR-7: over three switches, with another VP on each link"""
    net = Net(scope, THREE)
    there, back = Flow(net, 1, 2, link=1, vp=9), Flow(net, 2, 1, link=0, vp=1)
    both = [there, back]
    entries = [host_entry(net, 1, 7, 2, 0, 1, [there]), host_entry(net, 2, 200, 1, 1, 9, [back])]
    for n, (near, far) in enumerate([(1, 15), (15, 0), (0, 9)], 1):
        entries += switch_entries(net, f"s{n}", [(0, near, n, both), (1, far, n, both)],
                                  [(2, 1, [there], n), (1, 0, [back], 4 - n)])
    entries.append(inbound_entry(there))
    for flow in both:
        flow.works()
        equal(flow.hops(), 4, "hops")
    for entry in entries:
        entry.check(both)


def test_over_a_host(scope):
    """a host relays what its route table says, from where it says; its own links and traffic are not touched"""
    net = Net(scope, CHAIN)
    there, back = Flow(net, 1, 3, link=0, vp=2), Flow(net, 3, 1, link=0, vp=1)
    direct = net[1]
    net[2].set_inbound(20, 0, 4 * PAGE, MEMORY + 0x100000, allow=1)
    direct.set_slot(5, R.DEST_LINK, 0, 4 * PAGE)
    until(lambda: direct.slot_status(5) == LIVE, "the direct slot")
    entries = [
        host_entry(net, 1, 0, 3, 0, 1, [there]), host_entry(net, 3, 0, 1, 0, 2, [back]),
        host_entry(net, 2, 0, 3, 1, 2, [there], 1, own=False, links=1 << 0, vps=1 << 1),
        host_entry(net, 2, 1, 1, 0, 1, [back], 1, own=False, links=1 << 1, vps=1 << 2),
    ]
    for entry in entries:
        entry.check([there, back])
        direct.qemu.write(direct.slot(5), 4, 5)
        equal(net[2].qemu.read(MEMORY + 0x100000, 4), 5, "direct")
    # For other links, other VPs, or its own traffic alone, the entry is none.
    before = net[2].counter(R.CNT_ROUTE_DENIED)
    for how in dict(links=1 << 1, vps=1 << 1), dict(links=1, vps=1 << 3), dict(own=True):
        net.host_route(2, 0, 3, 1, 2, **dict(dict(own=False), **how))
        there.dead()
    until(lambda: net[2].counter(R.CNT_ROUTE_DENIED) == before + 6, "a read and a write of each to be counted")
    net[2].clear_errors()
    net[1].qemu.read(there.address(), 8)
    until(lambda: net[2].read(R.R_ERR_STATUS) & R.ERR_ROUTE_DENIED, "the relay to be told")
    equal(net[2].error(), (R.ERR_ROUTE_DENIED, 0, 3 | R.STOP_ROUTE << 32), "error: link 0, LID 3")


def shared(scope):
    net = Net(scope, SHARED)
    for switch in "s1", "s2":
        for port in range(4):
            net.vp(f"{switch}:{port}", 1, 5)
    for n in 1, 2, 3, 4:
        net.host_route(n, 0, 1, 0, 1, last=4)
        net.route("s1", n, n - 1 if n < 3 else 2)
        net.route("s2", n, 2 if n < 3 else n - 3)
    first, second = Flow(net, 1, 3, link=0, vp=1), Flow(net, 2, 4, link=0, vp=1)
    first.works()
    second.works()
    return net, first, second


def traffic(net):
    """(from, to) -> TLPs, bytes, doorbells, of all that was sent until now: a port that is asked tells of that first."""
    for n in range(len(net.ports)):
        net.daemon.command("counters", f"h{n + 1}")
    found = {}
    for cable in net.daemon.command("traffic"):
        for side in 0, 1:
            passed = cable["traffic"][side]
            found[cable["ends"][side], cable["ends"][1 - side]] = tuple(
                passed[key] for key in ("tlps", "bytes", "doorbells"))
    return found


def test_counters(scope):
    """TLPs, bytes and doorbells show at every cable of the way, sums where ways are shared; slots tell their hops"""
    net, first, second = shared(scope)
    for n in 1, 2, 3:
        net.daemon.command("trace", f"h{n}", "on")
        until(lambda n=n: net[n].read(R.R_STATUS) & R.STATUS_TRACED, "traced mode")
    before = traffic(net)
    for n in range(3):
        first.source.qemu.write(first.source.slot(0, 8 * n), 8, n)
    for n in range(8):
        second.source.qemu.write(second.source.slot(0, 8 * n, wc=True), 8, n)
    second.source.qemu.read(second.source.slot(0), 4)
    first.rings()
    after = traffic(net)
    passed = {way: tuple(b - a for a, b in zip(before[way], after[way])) for way in after}
    mine, others = (3, 24, 1), (2, 68, 0)
    both = (5, 92, 1)
    want = {("h1:0", "s1:0"): mine, ("s1:2", "s2:2"): both, ("s2:0", "h3:0"): mine,
            ("h2:0", "s1:1"): others, ("s2:1", "h4:0"): others}
    for way in passed:
        equal(passed[way], want.get(way, (0, 0, 0)), f"traffic from {way[0]} to {way[1]}")
    equal((first.hops(), second.hops()), (3, 3), "hops")
    # The switch's own registers say the same.
    until(lambda: read_config(net[1], [0], R.CS_PORT + 2 * R.CS_PORT_STRIDE + R.CS_PORT_OUT_BYTES) ==
          after["s1:2", "s2:2"][1], "the register of the port")


def read_config(port, path, address, space=R.SPACE_CONFIG):
    port.config(path, space, address)
    until(lambda: not port.read(R.R_CFG_STATUS) & R.CFG_BUSY, "the answer")
    equal(R.field(R.CFG_RESULT, port.read(R.R_CFG_STATUS)), R.CFG_OK, "result")
    return port.read(R.R_CFG_DATA)


def write_config(port, path, space, address, data, term):
    port.config(path, space, address, data, term)
    until(lambda: not port.read(R.R_CFG_STATUS) & R.CFG_BUSY, "the answer")
    return R.field(R.CFG_RESULT, port.read(R.R_CFG_STATUS))


def test_another_way(scope):
    """a route that changes its way leads on over the other cable; a cable that is switched off ends it"""
    net, first, second = shared(scope)
    before = traffic(net)["s1:3", "s2:3"]
    net.route("s1", 3, 3)
    first.works()
    second.works()
    until(lambda: traffic(net)["s1:3", "s2:3"][2] == before[2] + 1, "the doorbell on the other cable")
    net.daemon.command("link", "down", "s1:3")
    until(lambda: not first.status() & R.SLOT_LIVE, "the slot to be dead")
    first.dead()
    equal((first.stop(), first.hops()), (R.STOP_LINK, 1), "why, and where")
    first.silent()
    until(lambda: net.stopped("s1", "link_down") == 3, "it to be counted at the switch")
    second.works()
    net.daemon.command("link", "up", "s2:3")
    first.works()


def test_loop(scope):
    """a loop ends at the limit of hops"""
    net, first, second = shared(scope)
    net.route("s2", 3, 3)
    net.route("s1", 3, 2)
    equal((first.stop(), first.hops()), (R.STOP_HOPS, R.MAX_HOPS), "why, and where")
    first.dead()
    second.works()
    net.route("s2", 3, 0)
    first.works()


def test_owner_waits(scope):
    """an owner gets its memory back when the source has let go: stopped, broken on the way, or dead"""
    net, first, _ = shared(scope)
    source, target = first.source, first.target
    source.qemu.stop()
    target.close_inbound(first.bell)
    denied = net.daemon.command("route", "del", "s2", "3", check=False)
    equal(denied, None, "a change that is not over")
    equal(target.inbound_status(first.bell), R.INBOUND_BUSY, "entry, its source stopped")
    source.qemu.stop(False)
    first.released()
    net.route("s2", 3, 0)
    first.open()
    first.works()
    source.qemu.stop()
    target.close_inbound(first.bell)
    source.qemu.kill()
    first.released()


def test_resets(scope):
    """reset of the source, of the owner, and a daemon that dies: all comes back as far as it is programmed"""
    net, first, second = shared(scope)
    first.target.write(R.R_CTRL, R.CTRL_RESET)
    until(lambda: not first.status() & R.SLOT_LIVE, "the slot to be dead")
    equal(first.target.read(R.R_LID), 0, "LID after a reset")
    equal(first.target.route(0, R.ROUTE_STATUS), 0, "route after a reset")
    net.start(3)
    first.open()
    first.target.write(R.R_DB_ALLOW_VP + 4 * first.gate, 1 << first.bell)
    first.works()
    first.source.write(R.R_CTRL, R.CTRL_RESET)
    equal(first.status(), 0, "slot after the reset")
    net.start(1)
    net.host_route(1, 0, 1, 0, 1, last=4)
    first.source.set_slot(0, R.DEST_LID | 3, 16 * PAGE, 4 * PAGE)
    first.source.set_page(0, R.DEST_LID | 3, 1 << first.bell)
    first.works()
    second.works()

    # The daemon keeps the tables of switches, and takes them along.
    net.daemon.kill()
    until(lambda: not first.status() & R.SLOT_LIVE, "the slot to be dead")
    net.daemon.start()
    net.daemon.command("wait", "--links", "--timeout", "30")
    for switch in "s1", "s2":
        for port in range(4):
            net.vp(f"{switch}:{port}", 1, 5)
    net.route("s1", 3, 2)
    net.route("s2", 3, 0)
    first.works()


def test_programming(scope):
    """a master programs switches over the fabric; a lower term is refused, also of one who was master before"""
    net = Net(scope, ONE)
    master, late = net[1], net[2]
    flow = Flow(net, 1, 2, link=1, vp=3)
    net.host_route(1, 0, 2, 0, 1)
    equal(read_config(master, [0], R.CS_ID), R.DEVICE_ID_SWITCH << 16 | R.VENDOR_ID, "what is at link 0")
    equal(read_config(master, [0, 2], R.CS_HWID), 30, "hardware id behind port 2")
    equal(read_config(late, [1], R.CS_PORTS), 4 | 1 << 8, "ports, and the one it came in by")
    master.write(R.R_EVENT, R.EVENT_CFG)
    master.write(R.R_EVENT_MASK, ~R.EVENT_CFG & 0xffffffff)
    equal(master.fired(), set(), "vectors")
    for address, vh in (0 << 8 | 1, 700), (1 << 8 | 3, 700):
        equal(write_config(master, [0], R.SPACE_VP, address, R.TABLE_VALID | vh, 7), R.CFG_OK, "VP")
    equal(write_config(master, [0], R.SPACE_ROUTE, 2, R.TABLE_VALID | 1, 7), R.CFG_OK, "route")
    equal(master.read(R.R_EVENT) & R.EVENT_CFG, R.EVENT_CFG, "event")
    equal(master.fired(), {1}, "the mailbox's vector")
    flow.works()
    for term in 6, 7:
        equal(write_config(late, [1], R.SPACE_ROUTE, 2, 0, term), R.CFG_STALE, f"term {term}")
        equal(late.read(R.R_CFG_DATA), 7, "the term in force")
    flow.works()
    equal(write_config(late, [1], R.SPACE_ROUTE, 2, 0, 8), R.CFG_OK, "the next master")
    flow.dead()
    equal(write_config(master, [0], R.SPACE_ROUTE, 2, R.TABLE_VALID | 1, 7), R.CFG_STALE, "the old one")
    equal(read_config(master, [0], R.CS_MASTER), 20, "who is master")
    equal(read_config(master, [0], 2, R.SPACE_ROUTE), 0, "the entry")
    for path, result in ([0, 3], R.CFG_NO_PATH), ([1], R.CFG_NO_PATH), ([0, 1], R.CFG_READ_ONLY):
        equal(write_config(master, path, R.SPACE_ROUTE, 2, 0, 9), result, f"path {path}")
    for count in 0, 33:
        master.write(R.R_CFG_CTRL, count)
        equal(master.read(R.R_CFG_STATUS), R.CFG_BAD << 4, f"a path of {count}")


def test_functions(scope):
    """VFs go by the route table of their endpoint, to the function they name; a VF needs all links for it"""
    net = Net(scope, TWO, lambda scope, name, **how: Machine(scope, name, node=name, **how).pf[0])
    net.host_route(1, 0, 2, 0, 1)
    switch_entries(net, "s1", [(0, 1, 700, ()), (1, 3, 700, ())], [(2, 1, (), 1)])
    (near,), (far,) = net[1].enable(1), net[2].enable(1)
    for pf, vf in (net[1], near), (net[2], far):
        pf.grant(0)
        until(lambda vf=vf: vf.read(R.R_STATUS) & R.STATUS_FABRIC, "the VF to join")
        vf.write(R.R_CTRL, R.CTRL_ENABLE)
    for function, base in (net[2], MEMORY), (far, MEMORY + PAGE):
        function.admit(0, 1, 3, 1)
        function.set_inbound(0, 0, PAGE, base, allow=0)
        until(lambda f=function: not f.inbound_status(0) & R.INBOUND_BUSY, "the entry to be in force")
        function.write(R.R_DB_ALLOW_VP + 4 * (R.VPS + 3), 0xff)
    # Where it leads without a function named: to the function of the same index.
    near.set_slot(0, R.DEST_LID | 2, 0, PAGE)
    near.set_slot(1, R.DEST_LID | R.DEST_FUNCTION | 2, 0, PAGE)
    near.set_page(0, R.DEST_LID | 2, 1)
    near.set_page(1, R.DEST_LID | R.DEST_FUNCTION | 2, 2)
    until(lambda: near.slot_status(0) & near.slot_status(1) & LIVE == LIVE, "the slots to live")
    near.qemu.write(near.slot(0), 4, 11)
    near.qemu.write(near.slot(1), 4, 22)
    equal((far.qemu.read(MEMORY + PAGE, 4), far.qemu.read(MEMORY, 4)), (11, 22), "memory of VF and PF")
    near.ring(0, 0)
    near.ring(1, 1)
    until(lambda: (far.read(R.R_DB_PENDING), net[2].read(R.R_DB_PENDING)) == (1, 2), "doorbells of VF and PF")
    # The table is the first PF's.
    near.set_route(1, 5, 0, 0)
    equal([near.route(1, 4 * n) for n in range(8)], [0] * 8, "route table of a VF")
    near.config([0], R.SPACE_CONFIG, 0)
    equal(near.read(R.R_CFG_STATUS), 0, "configuration request of a VF")
    for quota in dict(links=7), dict(peers=1 << 1):
        net[1].grant(0, **quota)
        equal((near.slot_status(0), near.slot_status(1)), (0, 0), f"slots with {quota}")
        equal(near.qemu.read(near.slot(0), 4), 0xffffffff, "read")
        net[1].grant(0)
        equal(near.slot_status(0) & LIVE, LIVE, "slot with all")


def test_registers(scope):
    """route tables: what they hold, what is INVALID, and slots that name no port"""
    port = host(scope, "h1")
    cap = port.read(R.R_ROUTE_CAP)
    equal((cap & 0xffff, cap >> 16 & 0xff, cap >> 24), (R.ROUTES, R.VPS, R.MAX_HOPS), "ROUTE_CAP")
    equal(port.read(R.R_CAP1) & R.CAP1_ROUTES, R.CAP1_ROUTES, "CAP1")
    for n in 0, 1, R.ROUTES - 1:
        port.set_route(n, n + 1, 3, 15, last=0x7fffff, links=0xf, vps=0xffff)
        values = [port.route(n, register) for register in (R.ROUTE_FIRST, R.ROUTE_LAST, R.ROUTE_OUT, R.ROUTE_FROM)]
        equal(values, [n + 1, 0x7fffff, 0xf03, 0x80ffff0f], f"route {n}")
        equal(port.route(n, R.ROUTE_STATUS), R.ROUTE_LIVE, "status, without a fabric")
    for first, last, link in (0, 0, 0), (0, 5, 0), (6, 5, 0), (1, 1, 4), (1, 1, 15):
        port.set_route(1, first, link, 0, last=last)
        equal(port.route(1, R.ROUTE_STATUS), R.ROUTE_INVALID, f"{first} to {last} by {link}")
    port.set_route(1, 0, 4, 0, ctrl=0)
    equal(port.route(1, R.ROUTE_STATUS), 0, "one that is not enabled")
    port.write(R.R_ROUTE + R.ROUTE_OUT, 0xffffffff)
    equal(port.route(0, R.ROUTE_OUT), 0xf0f, "spare bits")
    for lid in 0, 1, R.DEST_WHERE:
        port.set_slot(0, R.DEST_LID | lid, 0, PAGE)
        equal(port.slot_status(0), 0, f"slot to LID {lid}")
        equal(port.qemu.read(port.slot(0), 4), 0xffffffff, "read")
    port.config([0], R.SPACE_CONFIG, 0)
    equal(port.read(R.R_CFG_STATUS), R.CFG_NO_FABRIC << 4, "request without a fabric")
    port.write(R.R_CTRL, R.CTRL_RESET)
    equal([port.route(0, 4 * n) for n in range(8)], [0] * 8, "after a reset")
    equal(port.read(R.R_CFG_ADDR), 0, "CFG_ADDR after it")


def wanting(scope):
    """A port that wants LID 9, on a fabric that the test plays."""
    fabric = Fabric(scope)
    port = host(scope, "h1", fabric=fabric.path)
    node = fabric.attach()
    until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join", step=fabric.step)
    port.set_slot(0, R.DEST_LID | 9, 0, PAGE)
    wants = []
    fabric.route = lambda _, message: wants.append(message)
    until(lambda: any(m.type == R.FAB_WANT for m in wants), "WANT", step=fabric.step)
    equal([(m.link, m.arg[0]) for m in wants if m.type == R.FAB_WANT], [(R.MAX_LINKS, 9)], "WANT")
    return fabric, port, node, wants


def test_fabric_talks_nonsense(scope):
    """a fabric that says of routes what cannot be is given up, and the port lives"""
    first = R.MAX_LINKS
    for kind, link, arg in (
            (R.FAB_REMOTE_DOWN, first - 1, ()), (R.FAB_REMOTE_DOWN, first + R.FAB_REMOTES, ()),
            (R.FAB_REMOTE_DOWN, first, (R.STOP_BUSY + 1,)), (R.FAB_REMOTE_DOWN, first, (0, R.MAX_HOPS + 1)),
            (R.FAB_REMOTE_UP, first, (1, 0, first)), (R.FAB_PEER_GONE, 0, (3,)),
            (R.FAB_PEER_GONE, 0, (R.FAB_CHANNELS,)), (R.FAB_ROUTE_ACK, 0, (R.ROUTES,)),
            (R.FAB_INBOUND, first + R.FAB_REMOTES, (0,))):
        with type(scope)() as inner:
            _, port, node, _ = wanting(inner)
            port.qemu.complains = True
            node.send(kind, link, arg)
            until(lambda port=port: not port.read(R.R_STATUS) & R.STATUS_FABRIC, f"message {kind} to be refused")
            equal(port.read(R.R_ID), R.ID, "the port")
    for arg in (R.MAX_HOPS + 1, 0, first), (1, R.FAB_GATES, first), (1, 0, first - 1), (1, 0, R.FAB_CHANNELS):
        with type(scope)() as inner:
            _, port, node, _ = wanting(inner)
            port.qemu.complains = True
            node.send(R.FAB_REMOTE_UP, first, arg, fds=node.hello.fds)
            until(lambda port=port: not port.read(R.R_STATUS) & R.STATUS_FABRIC, f"{arg} to be refused")


def test_remotes_come_and_go(scope):
    """a remote that no port wants any more is not used again before the fabric has let go of it"""
    fabric, port, node, wants = wanting(scope)
    ram, _, _ = node.hello.fds
    node.send(R.FAB_REMOTE_UP, R.MAX_LINKS, (3, 17, 40), fds=node.hello.fds)
    segment = (0x300000).to_bytes(8, "little") + PAGE.to_bytes(8, "little")
    node.send(R.FAB_INBOUND, R.MAX_LINKS, (0, 0, PAGE, 3, 0, 1 << 32), segment)
    until(lambda: port.slot_status(0) == LIVE | 3 << 8, "the slot to live", step=fabric.step)
    port.qemu.write(port.slot(0), 4, 77)
    equal(os.pread(ram, 4, 0x300000), b"M\0\0\0", "memory of the owner")
    port.set_slot(0, R.DEST_LID | 8, 0, PAGE)
    equal(port.slot_status(0) & LIVE, 0, "slot")
    node.send(R.FAB_INBOUND, R.MAX_LINKS, (1, 0, PAGE, 3, 0, 2 << 32), segment)
    until(lambda: sum(m.type == R.FAB_WANT for m in wants) == 3, "WANT", step=fabric.step)
    equal([(m.link, m.arg[0]) for m in wants if m.type == R.FAB_WANT][1:],
          [(R.MAX_LINKS, 0), (R.MAX_LINKS + 1, 8)], "the old one is let go of, a new one wanted")
    port.set_slot(1, R.DEST_LID | 7, 0, PAGE)
    node.send(R.FAB_REMOTE_DOWN, R.MAX_LINKS, (0, 0, 1))
    until(lambda: sum(m.type == R.FAB_WANT for m in wants) == 4, "WANT", step=fabric.step)
    port.set_slot(2, R.DEST_LID | 6, 0, PAGE)
    until(lambda: sum(m.type == R.FAB_WANT for m in wants) == 5, "WANT", step=fabric.step)
    equal([(m.link, m.arg[0]) for m in wants if m.type == R.FAB_WANT][3:],
          [(R.MAX_LINKS + 2, 7), (R.MAX_LINKS, 6)], "the one that is free again")
