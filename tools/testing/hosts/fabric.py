# SPDX-License-Identifier: GPL-2.0
"""Fabrics of more than two hosts, which find their master, local ids and routes by themselves."""

import time

from weftlab import kernel
from weftlab.errors import Mismatch
from weftlab.suite import test
from weftlab.topology import Topology

from . import steps

LAB = "figure-5"
PORT = "/sys/class/weft/weft0/device"


def figure_5():
    """Section 5.2 of the seed: 2.p0 to 4.p2, 2.p2 to 3.p2. A cable from 3 to 4 makes a ring of it."""
    shape = Topology()
    for hwid in (2, 3, 4):
        shape.host(f"n{hwid}", hwid)
    return shape.link("n2:0", "n4:2").link("n2:2", "n3:2").link("n3:0", "n4:0")


RING = "n3:0"

# Guests, and the nodes that their ports are. Of no cable are both ends in one guest.
FIGURE_3 = {"g1": ["a", "c", "e"], "g2": ["b", "d", "f"]}

# What each node of Fig. 3 finds: hardware ids in the order in which they are found, and the ports by which
# a packet leaves one node after the other. The first line is Table 1, as the seed has it for node A; the
# others are the same search from the other nodes.
FOUND = {
    0xA: [(0xA, []), (0xB, [0]), (0xD, [3]), (0xC, [0, 0]), (0xE, [0, 3]), (0xF, [0, 0, 3])],
    0xB: [(0xB, []), (0xC, [0]), (0xA, [1]), (0xE, [3]), (0xF, [0, 3]), (0xD, [1, 3])],
    0xC: [(0xC, []), (0xB, [1]), (0xF, [3]), (0xA, [1, 1]), (0xE, [1, 3]), (0xD, [1, 1, 3])],
    0xD: [(0xD, []), (0xA, [1]), (0xB, [1, 0]), (0xC, [1, 0, 0]), (0xE, [1, 0, 3]), (0xF, [1, 0, 0, 3])],
    0xE: [(0xE, []), (0xF, [0]), (0xB, [1]), (0xC, [0, 1]), (0xA, [1, 1]), (0xD, [1, 1, 3])],
    0xF: [(0xF, []), (0xE, [0]), (0xC, [1]), (0xB, [0, 1]), (0xA, [0, 1, 1]), (0xD, [0, 1, 1, 3])],
}


def figure_3():
    """The figure is not in the text of the seed. Section 4.2 and Table 1 say: A has B at port 0 and D at
    port 3; B has A, C at port 0 and E at port 3; F is behind port 3 of C. What they do not say of the far
    ends is as in tools/sim/tests/seed.rs. The cable from E to F closes a circle: F is as far from A over E
    as over C, and found over C, as C is found before E."""
    shape = Topology()
    for node in "abcdef":
        shape.host(node, int(node, 16))
    for ends in ("a:0 b:1", "a:3 d:1", "b:0 c:1", "b:3 e:1", "c:3 f:1", "e:0 f:0"):
        shape.link(*ends.split())
    return shape

# Says what sysfs names as master whenever it tells of a change, and what uevents say.
WATCH = f"""import os, select, socket
NETLINK_KOBJECT_UEVENT = 15
events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT)
events.bind((0, 1))
fd = os.open("{PORT}/manager/master", os.O_RDONLY)
poll = select.poll()
poll.register(fd, select.POLLPRI)
poll.register(events, select.POLLIN)
# Read before each wait, so that no change is missed.
master = os.pread(fd, 64, 0)
print("watching", flush=True)
while True:
    ready = [one for one, _ in poll.poll()]
    # A waiter is told of the file before the event.
    before, master = master, os.pread(fd, 64, 0)
    if master != before:
        print("master", master.decode().strip(), flush=True)
    if events.fileno() in ready:
        words = events.recv(8192).split(bytes(1))
        told = sorted(w.decode() for w in words if w.startswith(b"WEFT_"))
        if told:
            print("event", *told, flush=True)
"""


def two_switches():
    """h1 and h2 at s1, h3 and h4 at s2."""
    shape = Topology().switch("s1", 8).switch("s2", 8)
    for number in range(1, 5):
        shape.host(f"h{number}", number)
    shape.link("h1:0", "s1:0").link("h2:0", "s1:1").link("s1:4", "s2:4")
    return shape.link("h3:0", "s2:0").link("h4:0", "s2:1").link("s1:5", "s2:5", speed=3)


def standing(host):
    """What the node is, as sysfs has it."""
    files = ("role", "lid", "master", "term", "nodes", "routes")
    words = host.out(f"cd {PORT}/manager && cat {' '.join(files)}").split()
    found = dict(zip(files, words))
    return {k: v if k == "role" else int(v, 0) for k, v in found.items()}


def settled(hosts, master, nodes, timeout=60):
    """Until all these hosts obey `master` in the same term, and know `nodes` nodes and the routes to them."""
    deadline = time.monotonic() + timeout * kernel.patience()
    while True:
        found = {host.name: standing(host) for host in hosts}
        good = all(
            s["master"] == master and s["nodes"] == nodes and s["routes"] == nodes - 1 and s["lid"]
            for s in found.values()
        )
        if good and len({s["term"] for s in found.values()}) == 1:
            return found
        if time.monotonic() > deadline:
            raise Mismatch(f"no master {master} of {nodes} nodes: {found}")
        time.sleep(0.2)


def tree(host):
    """Nodes by hardware id, as the host knows them."""
    return {int(n["hwid"], 0): n for n in host.weftctl_json("tree")["nodes"]}


def peers(host):
    """Hardware ids of those to which the host has a link that carries."""
    links = host.weftctl_json("show")["ports"][0]["links"]
    return {int(link["peer_hwid"], 0) for link in links if link["state"] == "ready"}


def reaches(host, others):
    """Connects a host to others; whether it has links then that carry to all of them."""
    steps.meet({host: others})
    return peers(host) >= set(others)


def until(what, condition, timeout=30, have=None):
    deadline = time.monotonic() + timeout * kernel.patience()
    while not condition():
        if time.monotonic() > deadline:
            told = f": {have()}" if have else ""
            raise Mismatch(f"{what}: not within {timeout} s{told}")
        time.sleep(0.2)


def walks(lab, names, lids):
    """Every host's route to every other gets there, in the fabric's own tables."""
    for source in names:
        for target in names:
            if source == target:
                continue
            walk = lab.fabric.walk(source, lids[target])
            if walk["at"] != target:
                raise Mismatch(f"{source} to {target}, LID {lids[target]}: {walk}")


@test("N-3, N-5: three hosts in the chain of Fig. 5 find Table 3 and agree on Table 4", core=True)
def tables_3_and_4(bench):
    lab = bench.shape("figure-5", figure_5())
    hosts = list(lab.hosts.values())
    # All lose what they know of the fabric that they were in.
    for host in hosts:
        host.rmmod()
    for end in (RING, "n2:0", "n2:2"):
        lab.fabric.link("down", end)
    for host in hosts:
        host.insmod()
    # Cables come up one after the other; in the order of the ports the numbers are those of the table,
    # whether the master looks in between or not.
    lab.fabric.link("up", "n2:0")
    lab["n2"].wait_link("ready")
    lab.fabric.link("up", "n2:2")
    found = settled(hosts, 2, 3)
    table_4 = {"n2": ("master", 1), "n3": ("standby", 3), "n4": ("standby", 2)}
    have = {name: (s["role"], s["lid"]) for name, s in found.items()}
    if have != table_4:
        raise Mismatch(f"{have}, not Table 4: {table_4}")
    table_3 = {2: {3: [2], 4: [0]}, 3: {2: [2], 4: [2, 0]}, 4: {2: [2], 3: [2, 2]}}
    for host in hosts:
        own = int(host.name[1:])
        ways = {hwid: node["path"] for hwid, node in tree(host).items() if hwid != own}
        if ways != table_3[own]:
            raise Mismatch(f"{host.name} has found {ways}, not Table 3: {table_3[own]}")
    walks(lab, ["n2", "n3", "n4"], {name: s["lid"] for name, s in found.items()})


@test("N-3: six hosts wired as in Fig. 3 find Table 1, and each of the others what the same search finds", lab="figure-3")
def table_1(bench):
    # Slots for neighbours only: no data pass here.
    lab = bench.shape("figure-3", figure_3(), guests=FIGURE_3, slots=4)

    def found(guest, port):
        nodes = lab[guest].weftctl_json("--port", port, "tree")["nodes"]
        return [(int(node["hwid"], 0), node["path"]) for node in nodes]

    for guest, nodes in FIGURE_3.items():
        for port, node in enumerate(nodes):
            expected = FOUND[int(node, 16)]
            # A standby surveys the nodes a moment after the last write of the master.
            until(
                f"node {node} finds {expected}",
                lambda: found(guest, port) == expected,
                have=lambda: found(guest, port),
            )


@test("N-6: a link that breaks in a ring is routed around, and back when it is mended")
def reroute(bench):
    lab = bench.shape("figure-5", figure_5())
    hosts = list(lab.hosts.values())
    names = ["n2", "n3", "n4"]
    found = settled(hosts, 2, 3)
    lids = {name: s["lid"] for name, s in found.items()}

    def hops(source, target):
        return len(lab.fabric.walk(source, lids[target])["hops"])

    until("direct routes", lambda: all(hops(a, b) == 1 for a in names for b in names if a != b))
    lab.fabric.link("down", "n2:2")
    until("a way around", lambda: hops("n2", "n3") == 2 and hops("n3", "n2") == 2)
    now = settled(hosts, 2, 3)
    if {name: s["lid"] for name, s in now.items()} != lids:
        raise Mismatch(f"local ids were {lids} and are {now}")
    walks(lab, names, lids)
    # Over the host in the middle: it relays.
    if [hop["from"] for hop in lab.fabric.walk("n2", lids["n3"])["hops"]] != ["n2:0", "n4:0"]:
        raise Mismatch("the way around does not lead over n4")
    lab.fabric.link("up", "n2:2")
    until("the direct route", lambda: hops("n2", "n3") == 1)


@test("N-5, N-6: when the master goes the next one takes over, and live nodes keep their local ids")
def master_goes(bench):
    lab = bench.shape("figure-5", figure_5())
    hosts = list(lab.hosts.values())
    found = settled(hosts, 2, 3)
    n2, n3, n4 = hosts
    watching = n4.start_job(f"exec python3 {n4.push('watch.py', WATCH.encode())}")
    watching.expect("watching", 30)
    n2.rmmod()
    now = settled([n3, n4], 3, 2)
    for host in (n3, n4):
        if now[host.name]["lid"] != found[host.name]["lid"]:
            raise Mismatch(f"{host.name} had LID {found[host.name]['lid']}: {now[host.name]}")
        if now[host.name]["term"] <= found["n2"]["term"]:
            raise Mismatch(f"not a later term: {now[host.name]}, before {found['n2']}")
    lid = found["n4"]["lid"]
    term = now["n4"]["term"]
    watching.expect("^master 0x0000000000000003", 30)
    master = f"WEFT_LID={lid} WEFT_MASTER=0x0000000000000003 WEFT_ROLE=standby WEFT_TERM={term}"
    watching.expect(f"^event WEFT_HIERARCHY=[0-9]+ {master}", 30)
    watching.kill()
    watching.wait(20)
    n2.insmod()
    again = settled(hosts, 2, 3)
    if any(again[h.name]["lid"] != found[h.name]["lid"] for h in (n3, n4)):
        raise Mismatch(f"local ids were {found} and are {again}")
    if again["n2"]["lid"] in (found[h.name]["lid"] for h in hosts):
        raise Mismatch(f"an id was given twice: {again['n2']}, before {found}")


@test("N-8: routes leave a slow link, and one that the administrator excludes, and come back")
def slow_links(bench):
    lab = bench.shape("figure-5", figure_5())
    # Links that follow their traffic are as slow as the one that is made slow.
    with steps.at_the_most(lab):
        leaves_slow_links(lab)


def leaves_slow_links(lab):
    hosts = list(lab.hosts.values())
    found = settled(hosts, 2, 3)
    lid = found["n3"]["lid"]

    def direct(yes):
        return lambda: len(lab.fabric.walk("n2", lid)["hops"]) == (1 if yes else 2)

    until("the direct route", direct(True))
    try:
        # One lane of the first generation costs more than two links of the fourth with eight.
        lab.fabric.call("link", "set", "n2:2", "--speed", 1, "--width", 1)
        until("a way around the slow link", direct(False))
        walks(lab, ["n2", "n3", "n4"], {name: s["lid"] for name, s in found.items()})
    finally:
        lab.fabric.call("link", "set", "n2:2", "--speed", 4, "--width", 8)
    until("the link that is fast again", direct(True))
    lab["n3"].run(f"echo {1 << 2} >{PORT}/manager/excluded")
    until("a way around the excluded link", direct(False))
    lab["n3"].run(f"echo 0 >{PORT}/manager/excluded")
    until("the link that is not excluded any more", direct(True))
    lab["n3"].run(f"! echo 16 >{PORT}/manager/excluded")


@test("N-5: a stranger with the lowest id is no master of those who have a list")
def strangers(bench):
    lab = bench.shape("figure-5", figure_5())
    n2, n3, n4 = hosts = list(lab.hosts.values())
    found = settled(hosts, 2, 3)
    for host in (n3, n4):
        host.run(f"echo 3 >{PORT}/manager/allow && echo 4 >{PORT}/manager/allow")
        if host.out(f"cat {PORT}/manager/allow").strip() != "2":
            raise Mismatch(f"{host.name}: not two on the list")
    now = settled([n3, n4], 3, 2)
    if any(now[h.name]["lid"] != found[h.name]["lid"] for h in (n3, n4)):
        raise Mismatch(f"local ids were {found} and are {now}")
    for host in (n3, n4):
        host.run(f"echo 0 >{PORT}/manager/allow")
    settled(hosts, 2, 3)


@test("N-1, N-5, N-6: four hosts at two switches get one master, and all reach all, also when it dies", core=True, lab="four-hosts")
def four_hosts(bench):
    lab = bench.shape("four-hosts", two_switches())
    hosts = list(lab.hosts.values())
    names = [host.name for host in hosts]
    found = settled(hosts, 1, 6)
    lids = {name: s["lid"] for name, s in found.items()}
    for host in hosts:
        nodes = tree(host)
        ids = sorted(node["lid"] for node in nodes.values())
        if len(set(ids)) != 6 or 0 in ids:
            raise Mismatch(f"{host.name}: local ids {ids}")
        kinds = sorted(node["kind"] for node in nodes.values())
        if kinds != ["host"] * 4 + ["switch"] * 2:
            raise Mismatch(f"{host.name}: {kinds}")
    walks(lab, names, lids)
    shown = lab["h1"].weftctl("tree").out
    for word in ("this host, master", "switch s1 0x8", "host h4 0x4, LID", "gen3 x8 - [0x8"):
        if word not in shown:
            raise Mismatch(f"no {word!r} in\n{shown}")
    routes = lab["h1"].weftctl_json("routes")
    if {r["lid"]: r["links"] for r in routes["routes"]}[lids["h4"]] != 3:
        raise Mismatch(f"{routes}")

    ids = set(dict(lab.fabric.topology.hosts).values())
    for host, own in zip(hosts, sorted(ids)):
        until(f"{host.name} ready with all others", lambda: reaches(host, ids - {own}))

    # The faster of the two cables between the switches goes: the other carries.
    def via(end):
        def taken():
            walk = lab.fabric.walk("h1", lids["h4"])
            return walk["at"] == "h4" and walk["hops"][1]["from"] == end

        return taken

    until("the fast cable", via("s1:4"))
    lab.fabric.link("down", "s1:4")
    until("the other cable", via("s1:5"))
    walks(lab, names, lids)
    lab.fabric.link("up", "s1:4")
    until("the mended cable", via("s1:4"))

    # The master dies for good: without a word, and its links go with it. Others do not notice.
    way = steps.UnderWay(lab, "orphan", by="h2", to="h4", options=("--to", 4))
    lab["h1"].kill()
    now = settled(hosts[1:], 2, 5)
    report = way.whole(resumed=False)
    if report.get("resumed"):
        raise Mismatch(f"the death of the master broke a transfer of others: {report}")
    if any(now[name]["lid"] != lids[name] for name in names[1:]):
        raise Mismatch(f"local ids were {lids} and are {now}")
    walks(lab, names[1:], lids)
