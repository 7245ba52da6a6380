# SPDX-License-Identifier: GPL-2.0
"""Hosts that are no neighbours, over a host that relays and over switches."""

from weftlab import topology, transfer
from weftlab.errors import Mismatch
from weftlab.lab import Lab
from weftlab.suite import test

from . import steps, verbs

DEVICE = "/sys/class/weft/weft0/device"


def chain(bench):
    """h1 and h3, which are joined to h2 each."""
    return bench.shape("chain", topology.chain(3))


def switches(bench):
    """h1 and h2, with two switches between them."""
    shape = topology.Topology().host("h1", 1).host("h2", 2).switch("s1", 4).switch("s2", 4)
    return bench.shape("switches", shape.link("h1:0", "s1:0").link("s1:1", "s2:0").link("s2:1", "h2:0"))


def far_link(host, hwid, state="ready"):
    """The number of the link that leads over a route to who has that id, once it is there."""
    words = f"grep -l '0x{hwid:016x}' {DEVICE}/link*/peer_hwid"
    found = host.out(f"for i in $(seq 3000); do {words} && exit 0; sleep 0.02; done; exit 1", 90)
    link = int(found.splitlines()[-1].split("/link")[-1].split("/")[0])
    host.wait_link(state, link=link)
    return link


def met(lab, one, other):
    """Waits until two hosts reach each other; (link of the one, link of the other)."""
    (a, b), ids = (lab[one], lab[other]), dict(lab.fabric.topology.hosts)
    return far_link(a, ids[other]), far_link(b, ids[one])


def reaches(lab, one, other, hops):
    a, b = lab[one], lab[other]
    ids = dict(lab.fabric.topology.hosts)
    link, _ = met(lab, one, other)
    shown = a.weftctl_json("show")["ports"][0]
    by = next(each for each in shown["links"] if each["link"] == link)
    if (by["role"], by["hops"], by["lid"] > 0, by["state"]) != ("far", hops, True, "ready"):
        raise Mismatch(f"{one} shows {by}")
    serve = b.start_job(b.weftctl_line("ping", "--serve", "--once"))
    serve.expect("listening", 30)
    a.weftctl("ping", "--to", ids[other])
    serve.wait(30)
    for sender, receiver in (one, other), (other, one):
        there(lab, sender, receiver)


def there(lab, sender, receiver, size=1 << 20):
    hwid = dict(lab.fabric.topology.hosts)[receiver]
    path, source = steps.payload(lab[sender], "there", size)
    receiving = transfer.Receiver(lab[receiver])
    lab[sender].run(transfer.send_line(lab[sender], path, "--to", hwid), 90)
    receiving.wait(60)
    if steps.digest(receiving.arrived("there")) != steps.digest(source):
        raise Mismatch(f"{sender} to {receiver}: the file did not arrive as it was")


def queue_pairs(lab, one, other):
    link, _ = met(lab, one, other)
    listener = lab[other].start_job("/mnt/tools/weft-verbs listen 0 7300")
    listener.expect("^listening", 60)
    done = lab[one].run(f"/mnt/tools/weft-verbs connect 0:{link} 7300", verbs.PATIENCE, status=None)
    yield from verbs.all_results(done, listener.wait(120))


@test("N-7: hosts that are no neighbours reach each other over one that relays")
def over_a_host(bench):
    reaches(chain(bench), "h1", "h3", 2)


@test("queue pairs over a host that relays")
def queue_pairs_over_a_host(bench):
    yield from queue_pairs(chain(bench), "h1", "h3")


@test("N-6: a link in the middle of the way flaps under load: the transfer ends with the whole file")
def flap_in_the_middle(bench):
    lab = chain(bench)
    met(lab, "h1", "h3")
    way = steps.UnderWay(lab, "middle", to="h3", options=("--to", 3))
    lab.fabric.link("down", "h2:0")
    lab["h2"].wait_link("down")
    lab.fabric.link("up", "h2:0")
    way.whole(resumed=True)


@test("N-7: hosts reach each other over two switches")
def over_switches(bench):
    reaches(switches(bench), "h1", "h2", 3)


@test("queue pairs over two switches")
def queue_pairs_over_switches(bench):
    yield from queue_pairs(switches(bench), "h1", "h2")
