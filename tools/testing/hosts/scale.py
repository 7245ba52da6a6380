# SPDX-License-Identifier: GPL-2.0
"""A fabric that grows past what its hosts explore: the mode of its managers changes under traffic.

Two guests with four ports each are eight hosts at four switches in a ring. By `full_nodes` of a port they have more
nodes than that mode is for."""

import os

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import beyond, steps
from .fabric import reaches, until
from .reach import HOSTS, LINKS, NODES, Servers, Use, answered, channels, device, hwid, line, place, until_open, value

LAB = "eight hosts at four switches"
FOREST = "two hosts among switches"
SWITCHES = 4
# Those of a large fabric, with fewer ports than each may have: more by hand.
MANY = int(os.environ.get("WEFT_SWITCHES", "300"))
BELOW = 13
PORT = "/sys/class/weft/weft0/device/manager"
COUNTERS = "/sys/class/weft/weft0/device/counters"
# Those that have a channel to another one while the mode changes.
PAIRS = [("n1", "n6"), ("n3", "n8"), ("n5", "n2"), ("n7", "n4")]
PATIENCE = 120
# Local ids of an area.
AREA = 256
# That of no node.
ABSENT = 0x77


def text(lab, node, name):
    guest, port = place(node)
    return lab[guest].out(f"cat {device(port)}/manager/{name}")


def write(lab, node, name, what, status=0):
    guest, port = place(node)
    return lab[guest].run(f"echo {what} >{device(port)}/manager/{name}", status=status)


def ring(bench):
    shape = topology.Topology()
    for number, node in enumerate(NODES, 1):
        shape.host(node, number)
    for switch in range(SWITCHES):
        shape.switch(f"s{switch + 1}", 4)
    for number, node in enumerate(NODES):
        shape.link(f"{node}:0", f"s{number // 2 + 1}:{number % 2}")
    for switch in range(SWITCHES):
        shape.link(f"s{switch + 1}:2", f"s{(switch + 1) % SWITCHES + 1}:3")
    return bench.shape(LAB, shape, guests=HOSTS, slots=4 + LINKS, memory=448)


def forest(bench):
    """Two hosts at the last switches of a tree."""
    shape = topology.Topology().host("h1", 1).host("h2", 2)
    for switch in range(MANY):
        shape.switch(f"s{switch + 1}", BELOW + 2)
    # Port 0 leads up, the last one to a host.
    for switch in range(1, MANY):
        shape.link(f"s{switch + 1}:0", f"s{(switch - 1) // BELOW + 1}:{(switch - 1) % BELOW + 1}")
    for host, switch in ("h1", MANY), ("h2", MANY // 2):
        shape.link(f"{host}:0", f"s{switch}:{BELOW + 1}")
    return bench.shape(FOREST, shape, slots=4 + LINKS)


def anew(lab):
    """All begin as hosts and switches that explore."""
    for guest in lab.hosts.values():
        guest.rmmod()
    lab.fabric.stop()
    lab.fabric.start()
    for guest in lab.hosts.values():
        guest.insmod()


def fresh(bench):
    lab = ring(bench)
    anew(lab)
    for node in NODES:
        until(f"{node} to know all", lambda: value(lab, node, "manager/routes") == len(NODES) + SWITCHES - 1, PATIENCE)
        if text(lab, node, "mode") != "full":
            raise Mismatch(f"{node} begins in the mode {text(lab, node, 'mode')}")
    return lab


def at_scale(lab, nodes=NODES, master="n1"):
    """Until these are in that mode, have a local id, and obey a master."""
    for node in nodes:
        until(
            f"{node} to be at scale",
            lambda: text(lab, node, "mode") == "scale"
            and int(text(lab, node, "lid"))
            and int(text(lab, node, "master"), 16) == hwid(master)
            and text(lab, node, "role") == ("master" if node == master else "standby"),
            PATIENCE,
            lambda: " ".join(text(lab, node, name) for name in ("mode", "lid", "role", "master", "term")),
        )


def lids(lab, nodes=NODES):
    return {node: int(text(lab, node, "lid")) for node in nodes}


def used(lab, pairs):
    """What the routed links of these carry: how many channels are open, and how many broke."""
    return {(one, to): channels(lab, one).get(hwid(to)) for one, to in pairs}


def all_to_all(lab, nodes=NODES):
    for node in nodes:
        for to in nodes:
            if to != node:
                answered(lab, node, to)


@test("P-5, N-5, N-6: the mode changes under traffic: local ids, links and channels stay, and hosts that never met find "
      "each other by the directory", core=True)  # fmt: skip
def under_traffic(bench):
    lab = fresh(bench)
    before = lids(lab)
    with Servers(lab):
        uses = [Use(lab, one, to) for one, to in PAIRS]
        for one, to in PAIRS:
            until_open(lab, one, (to,))
        carries = used(lab, PAIRS)
        write(lab, "n4", "full_nodes", 5)
        at_scale(lab)
        if lids(lab) != before:
            raise Mismatch(f"local ids were {before} and are {lids(lab)}")
        all_to_all(lab)
        if used(lab, PAIRS) != carries:
            raise Mismatch(f"the links in use: {carries} became {used(lab, PAIRS)}")
        for use in uses:
            use.end()
    if text(lab, "n1", "nodes") != str(len(NODES) + SWITCHES):
        raise Mismatch(f"the master knows {text(lab, 'n1', 'nodes')} nodes")
    guest, port = place("n1")
    shown = lab[guest].out(f"weftctl --port {port} tree")
    if "managed at scale" not in shown or "host n8" in shown:
        raise Mismatch(f"weftctl tree:\n{shown}")
    absent = lab[guest].run(line("n1", "ping", "--to", ABSENT, "--count", 1, "--timeout", 2), status=None)
    steps.refused(absent, 5, f"{ABSENT:#x}")


@test(f"P-5, N-5, N-6: two hosts among {MANY} switches: past 256 nodes the mode changes by itself, local ids are by areas, "
      "and the hosts find and reach each other", lab=FOREST)  # fmt: skip
def among_switches(bench):
    lab = forest(bench)
    one, other = lab["h1"], lab["h2"]
    for host, role in (one, "master"), (other, "standby"):
        host.until(f"cd {PORT} && [ $(cat mode) = scale ] && [ $(cat role) = {role} ] && [ $(cat lid) != 0 ]", PATIENCE)
    one.until(f"[ $(cat {PORT}/nodes) = {MANY + 2} ]", PATIENCE)
    found = {host: int(host.out(f"cat {PORT}/lid")) for host in (one, other)}
    said = {host: [int(host.out(f"cat {COUNTERS}/{way}_messages")) for way in ("tx", "rx")] for host in (one, other)}
    # Routes spread from neighbour to neighbour.
    for host, hwid_ in (one, 2), (other, 1):
        until(f"{host.name} to reach {hwid_:#x}", lambda: reaches(host, [hwid_]), PATIENCE)
    steps.carry(lab, "h1", "h2", 256 << 10, "there", options=("--to", 2))
    steps.carry(lab, "h2", "h1", 256 << 10, "back", options=("--to", 1))
    # A table has far fewer entries than there are nodes, and most are for areas.
    for node in ("h1", "s1"):
        routes = lab.fabric.tables(node)["routes"]
        areas = [route for route in routes if route["first"] != route["last"]]
        if not areas or len(routes) > 4 * (MANY + 2) ** 0.5 + 1:
            raise Mismatch(f"{node} has {len(routes)} routes, {len(areas)} of them to areas")
        bench.note(f"{node} has {len(routes)} routes, {len(areas)} of them to areas")
    at = lab.fabric.walk("h1", found[other])["at"]
    if found[one] // AREA == found[other] // AREA or at != "h2":
        raise Mismatch(f"local ids are {found}, and the way ends at {at}")
    for host, (sent, come) in said.items():
        used = steps.available(host)
        host.rmmod()
        used = steps.available(host) - used
        host.insmod()
        bench.note(f"{host.name}: {sent} messages sent, {come} received until all nodes were known; {used} KiB of memory")


@test("N-5, N-6: at scale the master dies and comes back: links in use stay, local ids stay, hosts are found",
      long=True)  # fmt: skip
def master_dies(bench):
    lab = fresh(bench)
    write(lab, "n1", "full_nodes", 1)
    at_scale(lab)
    before = lids(lab)
    others = NODES[1:]
    with Servers(lab):
        use = Use(lab, "n3", "n8")
        until_open(lab, "n3", ("n8",))
        carries = used(lab, [("n3", "n8")])
        lab.fabric.link("down", "n1:0")
        at_scale(lab, others, "n2")
        answered(lab, "n4", "n7")
        lab.fabric.link("up", "n1:0")
        at_scale(lab)
        answered(lab, "n1", "n5")
        answered(lab, "n6", "n1")
        if used(lab, [("n3", "n8")]) != carries:
            raise Mismatch(f"the link in use: {carries} became {used(lab, [('n3', 'n8')])}")
        use.end()
    if lids(lab) != before:
        raise Mismatch(f"local ids were {before} and are {lids(lab)}")


@test("N-6: a cable between switches goes at scale: what can be reached is reached by another way, others' links stay",
      long=True)  # fmt: skip
def cable(bench):
    lab = fresh(bench)
    write(lab, "n2", "full_nodes", 1)
    at_scale(lab)
    with Servers(lab):
        use = Use(lab, "n5", "n8")
        until_open(lab, "n5", ("n8",))
        carries = used(lab, [("n5", "n8")])
        lab.fabric.link("down", "s1:2")
        lid = lids(lab)["n4"]
        until("the way round", lambda: len(lab.fabric.walk("n1", lid)["hops"]) == 5, PATIENCE)
        answered(lab, "n1", "n4")
        answered(lab, "n2", "n3")
        lab.fabric.link("up", "s1:2")
        until("the short way", lambda: len(lab.fabric.walk("n1", lid)["hops"]) == 3, PATIENCE)
        answered(lab, "n2", "n3")
        if used(lab, [("n5", "n8")]) != carries:
            raise Mismatch(f"the link in use: {carries} became {used(lab, [('n5', 'n8')])}")
        use.end()


@test("P-5, MR-8: links of a VF and of a second PF to those of hosts behind switches outlive the change of the mode, and "
      "new ones are made", lab=beyond.LAB, long=True)  # fmt: skip
def functions(bench):
    with beyond.switches(bench) as (lab, sides):
        a, b, c = (sides[name] for name in ("h1", "h2", "h3"))
        ways = [(1, 1), (2, a.node(0)), (3, a.node(1))]
        with beyond.serving(b.host, 1, b.node(0), b.node(1)), beyond.serving(c.host, 1, c.node(0), c.node(1)):
            for number, here in ways:
                beyond.reaches(a.host, here, beyond.of("h2", number))
            before = [beyond.far_links(a.host, here) for _, here in ways]
            sessions = a.host.out("dmesg | grep -c ': ready'")
            b.host.run(f"echo 1 >{PORT}/full_nodes")
            for side in sides.values():
                side.host.until(f"cd {PORT} && [ $(cat mode) = scale ] && [ $(cat lid) != 0 ]", PATIENCE)
            for number, here in ways:
                beyond.reaches(a.host, here, beyond.of("h2", number))
            after = [beyond.far_links(a.host, here) for _, here in ways]
            if after != before or a.host.out("dmesg | grep -c ': ready'") != sessions:
                raise Mismatch(f"links were {before} and are {after}")
            for number, here in ways:
                beyond.reaches(a.host, here, beyond.HOSTS["h3"])
                if beyond.far_links(a.host, here).get(beyond.of("h3", number)) != "ready":
                    raise Mismatch(f"function {number} of h1: {beyond.far_links(a.host, here)}")
    anew(lab)


@test("P-5: a host with a key, or that is told not to, does not follow into a mode in which nothing is sealed")
def stays(bench):
    lab = fresh(bench)
    key = "00112233445566778899aabbccddeeff" * 2
    write(lab, "n7", "key", key)
    write(lab, "n8", "full_nodes", 0)
    for what, status in ((257, 1), (-1, 1)):
        write(lab, "n1", "full_nodes", what, status)
    write(lab, "n1", "full_nodes", 1)
    at_scale(lab, NODES[:6])
    for node in ("n7", "n8"):
        if text(lab, node, "mode") != "full":
            raise Mismatch(f"{node} has followed")
    # There are no keys in that mode.
    write(lab, "n2", "key", key, 1)
