# SPDX-License-Identifier: GPL-2.0
"""The pre-shared key for messages of managers, where the fabric attests no hardware ids and where it does."""

from weftlab.errors import Mismatch
from weftlab.suite import test
from weftlab.topology import chain

from .diagnose import diagnose, named
from .fabric import PORT, reaches, settled, standing, two_switches, until
from .forged import IN_FORCE, NO_NODE, WRITES, forger, forges

LAB = "unattested"
KEY, OTHER = "5a" * 32, "c3" * 64
EINVAL = 22
FILE = f"{PORT}/manager/key"


def unattested(bench):
    """h1 (2), h2 (3) and h3 (4) in a row, in a fabric that attests nothing."""
    shape = chain(3, base=2)
    shape.attests = False
    return bench.shape("unattested", shape)


def give(host, key):
    """Gives it this key; none: takes it away."""
    if key is None:
        return host.weftctl_json("key", "clear")
    file = host.push("fabric.key", f"{key}\n".encode())
    try:
        return host.weftctl_json("key", "set", file)
    finally:
        host.run(f"rm {file}")


def authenticated(host):
    return host.weftctl_json("show")["ports"][0]["authenticated"]


def refused(host):
    return int(host.out(f"cat {PORT}/manager/messages_refused"))


def keys(hosts, key):
    for host in hosts:
        give(host, key)


@test("N-5: where the fabric attests nothing a forging host is obeyed without a key, and by no host that has one")
def forging(bench):
    lab = unattested(bench)
    h1, h2, h3 = hosts = list(lab.hosts.values())
    settled(hosts, 2, 3)
    if authenticated(h1) != []:
        raise Mismatch(f"{h1.name} believes managers by {authenticated(h1)}")
    named(diagnose(h1), "no-authentication", "note", "any host can speak for the master", "weftctl key set")
    with forger(h3) as function:
        settled([h1, h2], 2, 2)
        words, taken = forges(h3, function, lie=[0, NO_NODE, 4], forge=[([0], [NO_NODE])])
        if ["believed", str(NO_NODE)] not in words or f"0 {NO_NODE} Assign 0" not in taken:
            raise Mismatch(f"what was forged was not believed: {words}")
        # The same host is a neighbour still, and the others have a key now.
        keys([h1, h2], KEY)
        before = settled([h1, h2], 2, 2)
        if authenticated(h2) != ["key"]:
            raise Mismatch(f"{h2.name} believes managers by {authenticated(h2)}")
        counts = [refused(h1), refused(h2)]
        claims = [IN_FORCE, 2, NO_NODE]
        _, taken = forges(h3, function, forge=[([0], claims), ([0, 1], claims)])
        if taken:
            raise Mismatch(f"forged writes were taken: {taken}")
        now = {host.name: standing(host) for host in (h1, h2)}
        if now != before:
            raise Mismatch(f"{before} became {now}")
        # h1, which is the lowest, refuses without looking at seals.
        if refused(h1) < counts[0] or refused(h2) < counts[1] + 2 * WRITES:
            raise Mismatch(f"refused by {counts} and {[refused(h1), refused(h2)]}")
        # A neighbour without the key is none, whatever its id.
        h2.run(f"echo 1 >{PORT}/reset")
        settled([h1, h2], 2, 2)
        hellos = int(h2.out(f"cat {PORT}/link0/hellos_refused"))
        words, _ = forges(h3, function, greet=[0, 4], forge=[])
        if ["greeted", "4"] in words:
            raise Mismatch(f"{h2.name} believes a hello without the key")
        if int(h2.out(f"cat {PORT}/link0/hellos_refused")) == hellos:
            raise Mismatch("hellos that were refused are not counted")
    # With the key the third host is one of them; and the true master is obeyed as ever, also when it changes.
    give(h3, KEY)
    settled(hosts, 2, 3)
    h1.rmmod()
    settled([h2, h3], 3, 2)
    h1.insmod()
    give(h1, KEY)
    found = settled(hosts, 2, 3)
    if {s["term"] for s in found.values()} == {before["h1"]["term"]}:
        raise Mismatch(f"no later term than {before}: {found}")
    until("a link over a route, by a proof", lambda: reaches(h1, {4}) and reaches(h3, {2}))
    keys(hosts, None)
    settled(hosts, 2, 3)


@test("N-5: diagnose says which host lacks the key, or has another one, and what it says mends it")
def mismatches(bench):
    lab = unattested(bench)
    h1, h2, h3 = hosts = list(lab.hosts.values())
    settled(hosts, 2, 3)
    give(h1, KEY)
    h1.until(f"[ $(cat {PORT}/manager/key_mismatch) = there ]")
    h2.until(f"[ $(cat {PORT}/manager/key_mismatch) = here ]")
    named(diagnose(h1), "key-missing", "warning", "has no key", "weftctl key set")
    named(diagnose(h2), "key-missing", "warning", "host 0x2 has a key", "weftctl key set")
    keys([h2, h3], OTHER)
    for host in (h1, h2):
        host.until(f"[ $(cat {PORT}/manager/key_mismatch) = differs ]")
        named(diagnose(host), "key-differs", "warning", "has another key", "weftctl key set")
    # One by one all get the right one: what they had is gone.
    keys([h2, h3], KEY)
    settled(hosts, 2, 3)
    for host in hosts:
        host.until(f"[ $(cat {PORT}/manager/key_mismatch) = none ]")
        if authenticated(host) != ["key"]:
            raise Mismatch(f"{host.name} believes managers by {authenticated(host)}")
    until("all is well", lambda: all(diagnose(host)["ok"] for host in hosts))
    keys(hosts, None)
    settled(hosts, 2, 3)


@test("N-5: a key is taken from root alone, not shown and not logged, and what is no key is refused")
def secret(bench):
    h1 = unattested(bench)["h1"]
    give(h1, KEY)
    if h1.out(f"stat -c %a,%U {FILE}").strip() != "200,root":
        raise Mismatch("the file of the key can be read")
    if h1.run(f"cat {FILE}", status=None).status == 0:
        raise Mismatch("a key can be read")
    h1.run(f"! grep -rs {KEY[:32]} {PORT}/manager && ! dmesg | grep -i {KEY[:32]}")
    for wrong in ("5a" * 31, "5a" * 65, "5a" * 32 + "5", "zz" * 32):
        done = h1.run(f"printf %s {wrong} >{FILE}", status=None)
        if done.status == 0:
            raise Mismatch(f"{wrong} was taken for a key")
        file = h1.push("wrong.key", wrong.encode())
        done = h1.weftctl("key", "set", file, status=2)
        if wrong in done.err:
            raise Mismatch("weftctl shows what it takes for a key")
    if authenticated(h1) != ["key"]:
        raise Mismatch("what is no key has replaced the one that there was")
    give(h1, None)
    if authenticated(h1) != []:
        raise Mismatch("the key is still there")


@test("N-5: with a key four hosts at two switches have one master, and links over routes, also after a restart", lab="four-hosts")
def attested(bench):
    lab = bench.shape("four-hosts", two_switches())
    h1, h2, h3, h4 = hosts = list(lab.hosts.values())
    settled(hosts, 1, 6)
    try:
        keys(hosts, KEY)
        settled(hosts, 1, 6)
        if authenticated(h2) != ["fabric", "key"]:
            raise Mismatch(f"{h2.name} believes managers by {authenticated(h2)}")
        # The master and another host begin new lives: all that their former ones sealed is old.
        for host in (h1, h3):
            host.rmmod()
        settled([h2, h4], 2, 4)
        for host in (h1, h3):
            host.insmod()
            give(host, KEY)
        settled(hosts, 1, 6)
        ids = {1, 2, 3, 4}
        others = [(host, ids - {own}) for own, host in enumerate(hosts, 1)]
        until("links by a proof", lambda: all(reaches(host, there) for host, there in others))
    finally:
        keys(hosts, None)
    settled(hosts, 1, 6)
