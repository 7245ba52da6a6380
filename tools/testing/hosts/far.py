# SPDX-License-Identifier: GPL-2.0
"""Hosts that are no neighbours, over a host that relays and over switches: the manager of each has found
the ways, and aimed the links."""

import json

from weftlab import topology
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps, verbs
from .fabric import two_switches, until
from .constants import constants

LAB = "four-hosts"
DEVICE = "/sys/class/weft/weft0/device"


def chain(bench):
    """h1 and h3, which are joined to h2 each."""
    return bench.shape("chain", topology.chain(3))


def switches(bench):
    """h1 and h2 at one switch, h3 and h4 at another, and two cables between these."""
    return bench.shape("four-hosts", two_switches())


def ids(lab):
    """Hardware ids by name."""
    return dict(lab.fabric.topology.hosts)


def far_link(host, hwid):
    """The number of the link that leads over a route to the host of that id and is ready; `None`: none does."""
    links = host.weftctl_json("show")["ports"][0]["links"]
    found = [link for link in links if link["lid"] and int(link["peer_hwid"] or "0", 0) == hwid]
    return next((link["link"] for link in found if link["state"] == "ready"), None)


def met(lab, one, other):
    """Has two hosts connect to each other, if only to be refused, so that links lead there: they stay if both
    have used them. (link of the one, link of the other)."""
    found = None

    def have_met():
        nonlocal found
        for a, b in (one, other), (other, one):
            lab[a].weftctl("ping", "--to", ids(lab)[b], "--timeout", 5, status=None)
        found = far_link(lab[one], ids(lab)[other]), far_link(lab[other], ids(lab)[one])
        return None not in found

    until(f"{one} and {other}", have_met, 60)
    return found


def reaches(lab, one, other, hops):
    a, b = lab[one], lab[other]
    link, _ = met(lab, one, other)
    shown = a.weftctl_json("show")["ports"][0]
    by = next(each for each in shown["links"] if each["link"] == link)
    if (by["role"], by["hops"], by["lid"] > 0, by["state"]) != ("far", hops, True, "ready"):
        raise Mismatch(f"{one} shows {by}")
    serve = b.start_job(b.weftctl_line("ping", "--serve", "--once"))
    serve.expect("listening", 30)
    a.weftctl("ping", "--to", ids(lab)[other])
    serve.wait(30)
    there_and_back(lab, one, other)


def there_and_back(lab, one, other):
    for sender, receiver in (one, other), (other, one):
        steps.carry(lab, sender, receiver, 1 << 20, "there", options=("--to", ids(lab)[receiver]))


def queue_pairs(lab, one, other):
    link, _ = met(lab, one, other)
    listener = lab[other].start_job("/mnt/tools/weft-verbs listen 0 7300")
    listener.expect("^listening", 60)
    done = lab[one].run(f"/mnt/tools/weft-verbs connect 0:{link} 7300", verbs.PATIENCE, status=None)
    yield from verbs.all_results(done, listener.wait(120))


@test("N-7, MR-6: hosts that are no neighbours reach each other over one that relays", core=True, lab="chain")
def over_a_host(bench):
    reaches(chain(bench), "h1", "h3", 2)


@test("queue pairs over a host that relays", lab="chain")
def queue_pairs_over_a_host(bench):
    yield from queue_pairs(chain(bench), "h1", "h3")


@test("N-6: a link in the middle of the way flaps under load: the transfer ends with the whole file", lab="chain")
def flap_in_the_middle(bench):
    lab = chain(bench)
    met(lab, "h1", "h3")
    way = steps.UnderWay(lab, "middle", to="h3", options=("--to", 3))
    lab.fabric.link("down", "h2:0")
    lab["h2"].wait_link("down")
    lab.fabric.link("up", "h2:0")
    way.whole(resumed=True)


@test("N-7, MR-6: hosts reach each other over two switches", core=True)
def over_switches(bench):
    reaches(switches(bench), "h1", "h3", 3)


@test("queue pairs over two switches")
def queue_pairs_over_switches(bench):
    yield from queue_pairs(switches(bench), "h1", "h3")


@test("N-6: a cable between switches is cut under load: the transfer goes on over the other, and ends whole")
def cut(bench):
    lab = switches(bench)
    met(lab, "h1", "h3")
    way = steps.UnderWay(lab, "cut", to="h3", options=("--to", ids(lab)["h3"]))
    used = lab.fabric.walk("h1", lid_of(lab, "h3"))["hops"][1]["from"]
    lab.fabric.link("down", used)
    way.whole(resumed=True)
    lab.fabric.link("up", used)


def lid_of(lab, host):
    return lab[host].weftctl_json("show")["ports"][0]["lid"]


@test("MR-5, MR-7: a route, or a virtual plane, deleted at a switch stops its traffic and no other's", long=True)
def deleted(bench):
    lab = switches(bench)
    (there, back), lid = met(lab, "h1", "h3"), lid_of(lab, "h3")
    # The transfers may take longer than an idle link is kept.
    idle = "/sys/class/weft/weft0/device/manager/routed_idle"
    usual = lab["h1"].out(f"cat {idle}")
    lab["h1"].run(f"echo 0 >{idle}")
    way = lab.fabric.walk("h1", lid)["hops"]
    out, last = way[1]["from"].split(":"), way[2]["from"].split(":")
    planes = json.loads(lab.fabric.call("vp", "show", last[0], "--json").stdout)
    plane = next(p for p in planes if p["port"] == int(last[1]))
    end = ":".join(last)
    for why, take, give in [
        ("no_route", ("route", "del", out[0], lid), ("route", "set", out[0], lid, out[1])),
        ("no_vp", ("vp", "del", end, plane["vp"]), ("vp", "set", end, plane["vp"], plane["vh"])),
    ]:
        other = steps.UnderWay(lab, "other", options=("--to", ids(lab)["h2"]))
        lab.fabric.call(*take)
        lab["h1"].wait_link("down", link=there)
        if lab.fabric.walk("h1", lid)["why"] != why:
            raise Mismatch(f"after {take}: {lab.fabric.walk('h1', lid)}")
        steps.refused(lab["h1"].weftctl("ping", "--to", ids(lab)["h3"], "--timeout", 2, status=None), 5, "link")
        if other.whole(resumed=False).get("resumed"):
            raise Mismatch("a transfer that goes another way was broken")
        lab.fabric.call(*give)
        lab["h1"].wait_link("ready", link=there)
        lab["h3"].wait_link("ready", link=back)
        there_and_back(lab, "h1", "h3")
    lab["h1"].run(f"echo {usual} >{idle}")


# Deletes an inbound entry of a port beside its driver: ENTRY. Without such an entry nothing translates what the
# neighbour stores.
DELETE = """import mmap, os, sys
file = os.open("/sys/class/weft/weft0/device/resource0", os.O_RDWR)
regs = memoryview(mmap.mmap(file, 1 << 17)).cast("I")
entry = (R_INBOUND + int(sys.argv[1]) * INBOUND_STRIDE) // 4
regs[entry + INBOUND_CTRL // 4] = 0
print("live" if regs[entry + INBOUND_STATUS // 4] & INBOUND_LIVE else "deleted")
"""


@test("MR-5: the entry for a neighbour, deleted at the host that owns the memory, stops that neighbour and no other",
      lab="chain")  # fmt: skip
def entry_deleted(bench):
    lab = chain(bench)
    h1, h2 = lab["h1"], lab["h2"]
    # Of h2, by the topology. The entry for a neighbour has the number of its link.
    back, on = 1, 0
    script = h2.push("delete.py", (constants() + DELETE).encode())
    sessions = {(host, link): number(host, f"link{link}/readied") for host, link in ((h1, 0), (h2, back), (h2, on))}
    denied, dropped = number(h2, "counters/in_denied"), number(h1, "counters/out_dropped")
    stopped = steps.UnderWay(lab, "stopped", options=("--to", ids(lab)["h2"]))
    other = steps.UnderWay(lab, "other", by="h2", to="h3", options=("--to", ids(lab)["h3"]))
    told = h2.out(f"python3 {script} {back}")
    if told != "deleted":
        raise Mismatch(f"the entry of h1 is {told}")
    # Both ends notice, and begin another session, for which the driver writes the entry anew.
    for host, link in ((h1, 0), (h2, back)):
        host.until(f"[ $(cat {DEVICE}/link{link}/readied) -gt {sessions[host, link]} ]", 60)
    stopped.whole(resumed=True)
    if other.whole(resumed=False).get("resumed"):
        raise Mismatch("a transfer to another neighbour was broken")
    if number(h2, f"link{on}/readied") != sessions[h2, on]:
        raise Mismatch("the link to another neighbour has begun anew")
    lost = number(h1, "counters/out_dropped") - dropped, number(h2, "counters/in_denied") - denied
    bench.note(f"the entry of a neighbour deleted: {lost[0]} writes led nowhere, {lost[1]} were refused")
    there_and_back(lab, "h1", "h2")


def number(host, name):
    return int(host.out(f"cat {DEVICE}/{name}"))
