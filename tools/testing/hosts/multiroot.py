# SPDX-License-Identifier: GPL-2.0
"""Endpoints that hosts share: the master finds them, gives them to the hosts that the administrator assigns them to, and
the next one goes on with that."""

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import sharing
from .diagnose import diagnose, named
from .fabric import settled, until

LAB = "figs10-12"
ASSIGNMENTS = [("ep2", 0, "rc1"), ("ep4", 0, "rc1"), ("ep5", 0, "rc1"),
          ("ep1", 0, "rc2"), ("ep3", 0, "rc2"), ("ep6", 0, "rc2")]  # fmt: skip
DONE = {assignment: "done" for assignment in ASSIGNMENTS}
# Figs 11 and 12, as 0083 has them.
TREES = {
    "rc1": [(0, "rc1"), (1, "sw1"), (2, "sw2"), (3, "ep2"), (2, "sw3"), (3, "ep4"), (3, "ep5")],
    "rc2": [(0, "rc2"), (1, "sw2"), (2, "sw1"), (3, "ep1"), (2, "sw3"), (3, "ep3"), (3, "ep6")],
}
# By which ports of switches each hierarchy goes.
PORTS = {
    "rc1": {("sw1", 0), ("sw1", 2), ("sw1", 3), ("sw2", 2), ("sw2", 1), ("sw3", 0), ("sw3", 3),
            ("sw3", 4)},
    "rc2": {("sw2", 0), ("sw2", 2), ("sw2", 3), ("sw1", 2), ("sw1", 1), ("sw3", 1), ("sw3", 2),
            ("sw3", 5)},
}  # fmt: skip
NODES = 11


def equal(what, found, expected):
    if found != expected:
        raise Mismatch(f"{what}: {found}, not {expected}")


def figures(bench):
    """Hosts and switches of Fig. 10, whose is what as in Figs 11 and 12."""
    lab = bench.shape("figs10-12", sharing.figures())
    settled(list(lab.hosts.values()), 1, NODES)
    if sharing.states(lab, lab["rc1"]) != DONE:
        sharing.assign(lab, lab["rc1"], ASSIGNMENTS)
        sharing.become(lab, lab["rc1"], DONE)
    return lab, lab["rc1"], lab["rc2"]


def lid(lab, host):
    return int(host.out(f"cat {sharing.PORT}/manager/lid"))


def in_order(lab, hosts):
    """Tables of the fabric are those of Figs 11 and 12, and nothing more."""
    vhs = {name: sharing.ask(lab["rc1"], "vh", host)[0]["vh"] for name, host in (("rc1", 1), ("rc2", 2))}
    tables = sharing.planes(lab)
    for name, vh in vhs.items():
        ports = [(switch, port) for (switch, port, _), of in tables.items() if of == vh]
        equal(f"ports of {name}'s hierarchy {vh}", sorted(ports), sorted(PORTS[name]))
    equal("hierarchies", set(tables.values()), set(vhs.values()))
    roots = {endpoint: lid(lab, lab[root]) for endpoint, _, root in ASSIGNMENTS}
    equal("whose it is", {ep: root for (ep, _), (_, root) in sharing.bases(lab).items()}, roots)
    for host in hosts:
        for (endpoint, _), place in sharing.given(lab, host).items():
            # There and back, each by its own tables.
            equal(f"{host.name} to {endpoint}", lab.fabric.walk(host.name, place["lid"])["at"], endpoint)
            equal(f"{endpoint} to {host.name}", lab.fabric.walk(endpoint, lid(lab, host))["at"], host.name)


@test("MR-1, MR-2, S-3: the master finds all of Fig. 10, what each says of itself, and what is cabled to what", core=True)
def found(bench):
    lab, rc1, rc2 = figures(bench)
    names = sharing.hwids(lab)
    told = {c["hwid"]: c for c in sharing.ask(rc1, "components")}
    equal("components", sorted(told), sorted(names.values()))
    resident = {"ep1": names["rc1"], "ep2": names["rc2"]}
    for name, hwid in names.items():
        what = {"rc": (1, "WEFT-PORT", 4), "sw": (2, "WEFT-SWITCH", 8), "ep": (3, "WEFT-COPY", 1)}
        kind, part, ports = what[name[:2]]
        blade = {"1": "host system 1", "2": "host system 2"}.get(name[2:], "")
        expected = {
            "kind": kind, "part": part, "ports": ports, "serial": name, "blade": blade,
            # There; and hosts say that they support sockets.
            "state": 9 if kind == 1 else 1,
            "resident": resident.get(name, 0), "ves": 2 if kind == 3 else 0,
            "functions": 1 if kind == 3 else 0,
        }  # fmt: skip
        equal(name, {key: told[hwid][key] for key in expected}, expected)
        equal(f"{name} has a local id", told[hwid]["lid"] > 0, True)
    # The endpoints were told, and the next master will know what was there.
    status = {n["name"]: n["endpoint"] for n in lab.fabric.status()["nodes"] if n["endpoint"]}
    equal("co-residence", {n: e["resident"] for n, e in status.items()}, {n: resident.get(n, 0) for n in status})
    def noted():
        seen = [line.split()[1] for line in sharing.ask(rc2, "assignments")["text"].splitlines() if line.startswith("seen")]
        return sorted(int(word, 16) for word in seen) == sorted(names.values())

    until("all of them noted with the assignments, at the other host too", noted)
    sharing.ask(rc2, "components", status=1)


@test("MR-3, MR-4, MR-6, MR-7: each host has the hierarchy of Figs 11 and 12, and sees no other", core=True)
def hierarchies(bench):
    lab, rc1, rc2 = figures(bench)
    for host in (rc1, rc2):
        equal(f"tree of {host.name}", sharing.tree(lab, host), TREES[host.name])
        # Apart from each other, and inside of the window.
        places = sorted((p["base"], p["limit"]) for p in sharing.given(lab, host).values())
        for (base, limit), after in zip(places, [*places[1:], (1 << 58, 0)]):
            good = base >= 1 << 40 and limit - base + 1 == 1 << 30 and limit < after[0]
            equal(f"places of {host.name} are apart: {places}", good, True)
    # The master knows those of all; what a host is told is the same.
    mine = sharing.ask(rc2, "vh", 0)
    equal("as the master has it", sharing.ask(rc1, "vh", 2), mine)
    sharing.ask(rc2, "vh", 1, status=1)
    in_order(lab, [rc1, rc2])


@test("MR-7: an assignment that is withdrawn takes away what was its own and nothing else, and comes back")
def withdrawn(bench):
    lab, rc1, rc2 = figures(bench)
    before, bases, others = sharing.planes(lab), sharing.bases(lab), sharing.ask(rc2, "vh", 0)
    changes = sharing.Changes(lab)
    rest = [assignment for assignment in ASSIGNMENTS if assignment[0] != "ep2"]
    sharing.assign(lab, rc1, rest)
    sharing.become(lab, rc1, {assignment: "done" for assignment in rest})
    until("a hierarchy without it", lambda: ("ep2", 0) not in sharing.given(lab, rc1))
    gone = {("ep2", 0)}
    equal("virtual endpoints", sharing.bases(lab), {k: v for k, v in bases.items() if k not in gone})
    # No other of rc1's goes over switch 2.
    vh = sharing.ask(rc1, "vh", 0)[0]["vh"]
    own = {("sw1", 2), ("sw2", 2), ("sw2", 1)}
    left = {k: v for k, v in before.items() if v != vh or k[:2] not in own}
    equal("planes", sharing.planes(lab), left)
    equal("changes", len(changes.lines()), 4)
    equal("the other's hierarchy", sharing.ask(rc2, "vh", 0), others)
    # A master gives away nothing that is given away already.
    twice = sharing.ask(rc1, "set", "c000bd18f058f7c6.0 1", "c000bd18f058f7c6.0 2")
    equal("a line too many", (twice["errno"], twice["line"]), ("EINVAL", 2))
    stale = sharing.ask(rc1, "replace", 1, "")
    equal("an old version", stale["errno"], "ESTALE")
    elsewhere = sharing.ask(rc2, "set")
    equal("not the master", elsewhere["errno"], "EREMOTE")
    sharing.assign(lab, rc1, ASSIGNMENTS)
    sharing.become(lab, rc1, DONE)
    equal("all planes", sharing.planes(lab), before)
    equal("all virtual endpoints", sharing.bases(lab), bases)


@test("MR-3, MR-7: each assignment that cannot be has its reason, and costs the others nothing")
def reasons(bench):
    lab, rc1, _ = figures(bench)
    ids = sharing.hwids(lab)
    lines = [f"{ids[ep]:x}.{ve} {ids[root]:x}" for ep, ve, root in ASSIGNMENTS]
    odd = {
        f"c0000000000000ff.0 {ids['rc1']:x}": "no endpoint",
        f"{ids['ep6']:x}.2 {ids['rc1']:x}": "no ve",
        f"{ids['ep6']:x}.1 77": "no root",
    }
    changes = sharing.Changes(lab)
    equal("taken", sharing.ask(rc1, "set", *lines, *odd)["errno"], 0)

    def told():
        return [sharing.STATES[assignment["state"]] for assignment in sharing.ask(rc1, "states")]

    until("reasons", lambda: sorted(told()) == sorted([*odd.values(), *["done"] * 6]))
    equal("changes", changes.lines(), [])


@test("HP-1, HP-2: an assignment for what is not there is fulfilled when it comes, and users hear of that")
def absent(bench):
    lab, rc1, _ = figures(bench)
    before, bases = sharing.planes(lab), sharing.bases(lab)
    watch = rc1.start_job(f"exec python3 {rc1.push('plugs.py', PLUGS.encode())}")
    watch.expect("watching", 30)
    changes = sharing.Changes(lab)
    switch, slot = f"0x{sharing.hwids(lab)['sw3']:016x}", 5
    lab.fabric.call("unplug", "ep6", "--announce")
    watch.expect(f"announced {switch} {slot}", 30)
    lab.fabric.call("unplug", "ep6")
    watch.expect(f"went {switch} {slot}", 30)
    sharing.become(lab, rc1, {**DONE, ("ep6", 0, "rc2"): "no endpoint"})
    mine = changes.lines()
    equal("changes are its own", [line for line in mine if not line.startswith(("sw3: VP", "ep6"))], [])
    gone = {c["serial"] for c in sharing.ask(rc1, "components") if not c["state"] & 1}
    equal("not there", gone, {"ep6"})
    lab.fabric.call("plug", "ep6", "--announce")
    watch.expect(f"announced {switch} {slot}", 30)
    lab.fabric.call("plug", "ep6")
    watch.expect(f"came {switch} {slot}", 30)
    sharing.become(lab, rc1, DONE)
    equal("planes", sharing.planes(lab), before)
    equal("virtual endpoints", sharing.bases(lab), bases)
    in_order(lab, lab.hosts.values())
    watch.kill()
    watch.wait(20)


PLUGS = """import socket
NETLINK_KOBJECT_UEVENT = 15
events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT)
events.bind((0, 1))
print("watching", flush=True)
while True:
    words = events.recv(8192).decode().split(chr(0))
    told = dict(word.split("=", 1) for word in words if word.startswith("WEFT_"))
    if "WEFT_PLUG" in told:
        print(told["WEFT_PLUG"], told["WEFT_SWITCH"], told["WEFT_SWITCH_PORT"], flush=True)
"""


@test("HP-2: a switch goes with all that is below, and has its tables again when it is back")
def switch(bench):
    lab, rc1, _ = figures(bench)
    before, bases = sharing.planes(lab), sharing.bases(lab)
    changes = sharing.Changes(lab)
    lab.fabric.call("unplug", "sw3")
    below = {"ep3", "ep4", "ep5", "ep6"}
    lost = {assignment: "no endpoint" if assignment[0] in below else "done" for assignment in ASSIGNMENTS}
    sharing.become(lab, rc1, lost)
    equal("others keep theirs", [line for line in changes.lines() if line.startswith(("ep1", "ep2"))], [])
    lab.fabric.call("plug", "sw3")
    sharing.become(lab, rc1, DONE)
    in_order(lab, lab.hosts.values())
    kept = {"ep1", "ep2"}
    equal("kept", [bases[k] for k in sorted(bases) if k[0] in kept],
          [v for k, v in sorted(sharing.bases(lab).items()) if k[0] in kept])  # fmt: skip
    equal("as many planes as before", len(sharing.planes(lab)), len(before))


@test("MR-1: one that was put in another's place is noticed by the next master, which never saw that")
def replaced(bench):
    lab, rc1, rc2 = figures(bench)
    before = lab.fabric.topology.toml()
    other = before.replace('name = "ep4",', 'name = "ep4", serial = "another one",')
    equal("there is another one", other != before, True)
    for text, serial, hosts in ((other, "another one", [rc2]), (before, "ep4", [rc1, rc2])):
        lab.fabric.stop()
        if hosts == [rc2]:
            rc1.rmmod()
        else:
            rc1.insmod()
        lab.fabric.written(text)
        lab.fabric.start()
        settled(hosts, 1 + (hosts == [rc2]), NODES - (hosts == [rc2]))

        def noticed():
            told = {c["serial"]: c["state"] for c in sharing.ask(hosts[0], "components")}
            return [name for name, state in told.items() if state & 2] == [serial]

        until(f"{serial} in another's place", noticed)
        hwid = f"{sharing.hwids(lab)['ep4']:#x}"
        named(diagnose(hosts[0]), "component-replaced", "note", hwid)


@test("N-6, MR-7: a master that was away brings nothing back that was withdrawn meanwhile")
def away(bench):
    lab, rc1, rc2 = figures(bench)
    own = {k: v for k, v in sharing.bases(lab).items() if v[1] == lid(lab, rc2)}
    changes = sharing.Changes(lab)
    lab.fabric.link("down", "rc1:0")
    settled([rc2], 2, NODES - 1)
    lost = {assignment: "no root" if assignment[2] == "rc1" else "done" for assignment in ASSIGNMENTS}
    sharing.become(lab, rc2, lost)
    equal("virtual endpoints", sharing.bases(lab), own)
    touched = [line for line in changes.lines() if line.startswith(("ep1", "ep3", "ep6"))]
    equal("who keeps something keeps it", touched, [])
    rest = [assignment for assignment in ASSIGNMENTS if assignment[0] != "ep3"]
    sharing.assign(lab, rc2, rest)
    sharing.become(lab, rc2, {assignment: lost[assignment] for assignment in rest})
    lab.fabric.link("up", "rc1:0")
    settled([rc1, rc2], 1, NODES)
    sharing.become(lab, rc1, {assignment: "done" for assignment in rest})
    equal("not given away", ("ep3", 0) in sharing.bases(lab), False)


@test("N-6, MR-7: the master dies, and the next one keeps all that is given without a write", core=True)
def dies(bench):
    lab, rc1, rc2 = figures(bench)
    mine, number = sharing.given(lab, rc2), lid(lab, rc2)
    vh = sharing.ask(rc2, "vh", 0)[0]["vh"]
    planes = {k: v for k, v in sharing.planes(lab).items() if v == vh}
    changes = sharing.Changes(lab)
    rc1.kill()
    settled([rc2], 2, NODES - 1)
    lost = {assignment: "no root" if assignment[2] == "rc1" else "done" for assignment in ASSIGNMENTS}
    sharing.become(lab, rc2, lost)
    equal("virtual endpoints", {root for _, root in sharing.bases(lab).values()}, {number})
    equal("planes", sharing.planes(lab), planes)
    equal("hierarchy", sharing.given(lab, rc2), mine)
    wrong = [line for line in changes.lines() if line.startswith(("ep1", "ep3", "ep6")) or f" in VH {vh}," in line]
    equal("who keeps something keeps it", wrong, [])
