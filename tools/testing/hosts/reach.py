# SPDX-License-Identifier: GPL-2.0
"""More hosts than routed links: links follow the programs that use them.

Two guests with four ports each are eight hosts at one switch. Each port has slots for four routed links."""

import time

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps
from .fabric import until

LAB = "eight hosts"
HOSTS = {"g1": ["n1", "n2", "n3", "n4"], "g2": ["n5", "n6", "n7", "n8"]}
NODES = [node for nodes in HOSTS.values() for node in nodes]
LINKS = 4
# A call that finds all links of its host used a moment ago waits for one of them.
PATIENCE = 20


def eight(bench):
    shape = topology.Topology()
    for hwid, node in enumerate(NODES, 1):
        shape.host(node, hwid)
    shape.switch("s1", len(NODES))
    for port, node in enumerate(NODES):
        shape.link(f"{node}:0", f"s1:{port}")
    lab = bench.shape(LAB, shape, guests=HOSTS, slots=4 + LINKS, memory=448)
    for guest, port in map(place, NODES):
        lab[guest].until(f"[ $(cat {device(port)}/manager/routes) = {len(NODES)} ]", 120)
    return lab


def place(node):
    """The guest of a node, and the number of its port there."""
    return next((guest, nodes.index(node)) for guest, nodes in HOSTS.items() if node in nodes)


def device(port):
    return f"/sys/class/weft/weft{port}/device"


def value(lab, node, name):
    guest, port = place(node)
    return int(lab[guest].out(f"cat {device(port)}/{name}"))


def opened(lab):
    """How often links have become ready, at each guest."""
    return [int(lab[guest].out("dmesg | grep -c ': ready' || true")) for guest in HOSTS]


def line(node, *words):
    return f"weftctl --port {place(node)[1]} " + " ".join(map(str, words))


def hwid(node):
    return NODES.index(node) + 1


class Servers:
    """On each port something answers."""

    def __init__(self, lab):
        self.jobs = [lab[place(node)[0]].start_job(line(node, "ping", "--serve")) for node in NODES]

    def __enter__(self):
        for job in self.jobs:
            job.expect("listening", 60)
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            job.kill()


class Use:
    """A program of a node that has a channel to another one open, and uses it, until it is killed."""

    def __init__(self, lab, node, to, before=""):
        self.guest, self.path = lab[place(node)[0]], f"/mnt/run/{node}-{to}"
        words = line(node, "--json", "ping", "--to", hwid(to), "--count", 10**6, "--interval", 0.05, "--timeout", PATIENCE)
        self.job = self.guest.start_job(f"exec {before} {words} >{self.path}")
        self.lab, self.node = lab, node

    def end(self):
        self.job.kill()


def channels(lab, node):
    """The channels of each routed link: hardware id of the peer and how many are open, and how many broke."""
    guest, port = place(node)
    shown = lab[guest].weftctl_json("--port", port, "show")["ports"][0]["links"]
    return {
        int(link["peer_hwid"], 16): (link["channels"], value(lab, node, f"link{link['link']}/channels_broken"))
        for link in shown
        if link["lid"] and link.get("peer_hwid")
    }


def ping(lab, node, to, timeout=PATIENCE):
    words = line(node, "ping", "--to", hwid(to), "--count", 1, "--timeout", timeout)
    return lab[place(node)[0]].run(words, timeout + 60, status=None)


def answered(lab, node, to):
    done = ping(lab, node, to)
    if done.status:
        raise Mismatch(f"{node} does not reach {to}: {done.err}")


def until_open(lab, node, hosts):
    """Until a node has channels to these hosts open, and to no others."""

    def are_open():
        return {peer for peer, (count, _) in channels(lab, node).items() if count} == set(map(hwid, hosts))

    until(f"channels of {node}", are_open)


@test("P-5, N-7: eight hosts of four routed links reach each other, all to all", core=True, long=True)
def all_to_all(bench):
    lab = eight(bench)
    if any(value(lab, node, "manager/routed_links") != LINKS for node in NODES):
        raise Mismatch("a port has another number of routed links")
    with Servers(lab):
        for node in NODES:
            for to in NODES:
                if to != node:
                    answered(lab, node, to)


@test("P-5: a link in use stays, a connection too many gets ENOSPC that says so, and an incoming one takes nothing", long=True)
def all_in_use(bench):
    lab = eight(bench)
    guest = lab["g1"]
    with Servers(lab):
        others = ("n2", "n4", "n5", "n6")
        uses = [Use(lab, "n1", to) for to in others]
        until_open(lab, "n1", others)
        before = channels(lab, "n1")

        full = ping(lab, "n1", "n7", 2)
        steps.refused(full, 5, "no link is left for host 0x7", "all 4 links over routes are in use", "weftctl show")
        told = guest.out("dmesg | grep 'no routed link is left' | tail -n 1")
        if "this host uses 4" not in told or "0x0000000000000005" in told:
            raise Mismatch(f"the log says: {told}")

        refused = value(lab, "n1", "manager/calls_refused")
        steps.refused(ping(lab, "n8", "n1", 4), 5, "leads to 0x1")
        if value(lab, "n1", "manager/calls_refused") == refused:
            raise Mismatch("the call was not counted")
        if channels(lab, "n1") != before:
            raise Mismatch(f"{before} became {channels(lab, 'n1')}")

        # Which users have them, an administrator alone is told.
        names = f"cat {device(0)}/link[4-7]/users"
        if guest.out(names).split() != ["0"] * LINKS:
            raise Mismatch(f"the users: {guest.out(names)}")
        told = guest.run(f"setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin {names}", status=None)
        if told.out.strip() or "not permitted" not in told.err:
            raise Mismatch(f"without CAP_SYS_ADMIN the users are {told.out}, {told.err}")

        # A program that dies leaves its link to the next, and a moment later to a call.
        uses.pop(0).end()
        counts = f"{device(0)}/manager/routed_used {device(0)}/manager/routed_claimed"
        guest.until(f"[ $(cat {counts} | tr '\\n' ' ' | tr -d ' ') = {LINKS - 1}0 ]")
        for node, to in (("n1", "n7"), ("n8", "n1")):
            answered(lab, node, to)
            for peer in map(hwid, others[1:]):
                if channels(lab, "n1").get(peer) != before[peer]:
                    raise Mismatch(f"links in use: {before} became {channels(lab, 'n1')}")
        for use in uses:
            use.end()


@test("P-5: a user gets half of the routed links, and others get theirs")
def share(bench):
    lab = eight(bench)
    guest = lab["g1"]
    user = "setpriv --reuid=1000 --regid=1000 --clear-groups"
    guest.run("chmod o+rw /dev/weft0; chmod o+rwx /mnt/run")
    with Servers(lab):
        uses = [Use(lab, "n1", to, user) for to in ("n2", "n5")]
        until_open(lab, "n1", ("n2", "n5"))
        words = line("n1", "ping", "--to", hwid("n6"), "--count", 1, "--timeout", 2)
        steps.refused(guest.run(f"{user} {words}", status=None), 1, "links over routes", "this user has its share")
        # The same user may open more where it has something open, and another one elsewhere.
        guest.run(f"{user} {line('n1', 'ping', '--to', hwid('n5'), '--count', 1)}")
        answered(lab, "n1", "n6")
        for use in uses:
            use.end()
    guest.run("chmod o-rw /dev/weft0")


@test("P-5, N-6: a link in use stays while the master dies, and while others take links", long=True)
def master_dies(bench):
    lab = eight(bench)
    with Servers(lab):
        use = Use(lab, "n2", "n6")
        until_open(lab, "n2", ("n6",))
        before = channels(lab, "n2")[hwid("n6")]
        term = value(lab, "n2", "manager/term")
        lab.fabric.link("down", "n1:0")
        lab["g1"].until(f"[ $(cat {device(1)}/manager/term) -gt {term} ]", 120)
        for to in ("n3", "n4", "n5", "n7", "n8"):
            answered(lab, "n2", to)
        if channels(lab, "n2").get(hwid("n6")) != before:
            raise Mismatch(f"the link in use: {before} became {channels(lab, 'n2')}")
        use.end()
        lab.fabric.link("up", "n1:0")
        eight(bench)
        answered(lab, "n1", "n5")


@test("P-5: memory of routed links is granted when they are needed, and given back when they are idle")
def memory(bench):
    lab = eight(bench)

    def given_back(node, patience):
        guest, port = place(node)
        guest = lab[guest]
        guest.until(f"[ $(cat {device(port)}/manager/routed_bytes) = 0 ]", patience)
        guest.until(f"! ls -d {device(port)}/link[4-7]", 10)

    def keep(seconds):
        for node in NODES:
            guest, port = place(node)
            lab[guest].run(f"echo {seconds} >{device(port)}/manager/routed_idle")

    usual = value(lab, "n1", "manager/routed_idle")
    keep(3)
    # What other tests have used, too.
    for node in NODES:
        given_back(node, 20)
    # Without a listener: neither end uses the link any more.
    steps.refused(ping(lab, "n1", "n5"), 5, "no program listens")
    for node in ("n1", "n5"):
        given_back(node, 20)
    # The one that is given back last does not call the other again.
    before = opened(lab)
    time.sleep(3 * 3)
    if opened(lab) != before or any(value(lab, node, "manager/routed_bytes") for node in NODES):
        raise Mismatch("links that were given back are there again")
    with Servers(lab):
        use = Use(lab, "n1", "n5")
        until_open(lab, "n1", ("n5",))
        memory = [value(lab, node, "manager/routed_bytes") for node in NODES]
        if memory != [memory[0] if node in ("n1", "n5") else 0 for node in NODES] or not memory[0]:
            raise Mismatch(f"bytes of routed links: {memory}")
        # A link in use is not idle, however long.
        time.sleep(2 * 3)
        if channels(lab, "n1").get(hwid("n5")) != (1, 0):
            raise Mismatch(f"the link in use: {channels(lab, 'n1')}")
        use.end()
    keep(usual)
