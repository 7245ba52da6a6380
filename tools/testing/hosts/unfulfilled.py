# SPDX-License-Identifier: GPL-2.0
"""Assignments that cannot be fulfilled for want of something: what is wanting is taken away for real, diagnose has
to call it by its name, and what it advises has to mend it.

For that it takes as many hosts as share a link, and one more: sixteen, in two guests of eight ports each.
"""

import collections
import time

from weftlab import kernel
from weftlab.errors import Mismatch
from weftlab.suite import test
from weftlab.topology import Topology

from . import sharing
from .diagnose import diagnose, named
from .fabric import until

LAB = "crowd"
# Of weftctl's words; what becomes of assignments is closely looked at by `multiroot`.
CLOSELY = False
HOSTS = [f"h{number}" for number in range(1, 17)]
FULL = [f"e{number}" for number in range(1, 7)]
VES = 15
NODES = len(HOSTS) + len(FULL) + 1 + 4
# Of s1, to s3.
DETOUR = "s1:10"
# As Documentation/multiroot.rst has it: the host and two switches are some of them.
PLACES = 85


def shape():
    """Half of the hosts at s0, the others at s1, six endpoints at s2 and one at s3; s0 - s1 - s2 - s3, and a
    cable from s1 to s3."""
    made = Topology().switch("s0", 9).switch("s1", 11).switch("s2", 8).switch("s3", 3)
    for number, name in enumerate(HOSTS):
        made.host(name, number + 1).link(f"{name}:0", f"s{int(number < 8)}:{number % 8}")
    made.link("s0:8", "s1:8").link("s1:9", "s2:0").link("s2:1", "s3:1").link(DETOUR, "s3:0")
    for number, name in enumerate(FULL):
        made.endpoint(name, VES).link(f"s2:{number + 2}", f"{name}:0")
    made.endpoint("far", 2).link("s3:2", "far:0")
    # Who is left out would have the switches obey him.
    made.managers = ["h1"]
    return made


def crowd(bench):
    """The lab, in which nothing is assigned, and its master."""
    guests = {"a": HOSTS[:8], "b": HOSTS[8:]}
    # Without slots for links over routes: there would be a hundred.
    lab = bench.shape("crowd", shape(), guests=guests, slots=4, memory=384)
    master = lab["a"]
    for guest in lab.hosts.values():
        for port in range(8):
            guest.until(f"[ $(cat /sys/class/weft/weft{port}/device/manager/nodes) = {NODES} ]")
    master.run("echo '# none' | weftctl assignments --restore -")
    return lab, master


def assign(lab, master, assignments):
    """Has the master assignment exactly this."""
    ids = sharing.hwids(lab)
    lines = "\n".join(f"{ids[endpoint]:x}.{ve:x} {ids[host]:x}" for endpoint, ve, host in assignments)
    file = master.push("assignments", (lines + "\n").encode())
    master.run(f"weftctl assignments --restore {file} --no-wait")


def become(lab, master, expected):
    """Until so many assignments have come to that."""
    deadline = time.monotonic() + 60 * kernel.patience()
    while True:
        ends = collections.Counter(sharing.states(lab, master).values())
        if ends == expected:
            return
        if time.monotonic() > deadline:
            raise Mismatch(f"the assignments are {dict(ends)}, not {expected}")
        time.sleep(0.2)


def found(master, name, level, *words):
    """Until diagnose says so; what mends it."""
    report = {}

    def is_said():
        report.update(diagnose(master, program="weftctl --port weft0"))
        return any(f["id"] == name for f in report["findings"])

    try:
        until(f"{name} is said", is_said, 60)
    except Mismatch as error:
        raise Mismatch(f"{error}: {report['findings']}")
    named(report, name, level, *words)
    return next(f["mend"] for f in report["findings"] if f["id"] == name)


def mended(master, *more):
    """Until diagnose says nothing of assignments and of what they are for any more."""

    def is_said():
        said = diagnose(master, program="weftctl --port weft0")["findings"]
        return [f for f in said if f["id"].startswith(("assignment-", "vpd-", "host-", "not-", "node-", *more))]

    until("nothing is said any more", lambda: not is_said(), 60)


def command(mend, begin):
    """What the advice says is to be typed."""
    all_ = [words for words in mend.split("`")[1::2] if words.startswith(begin)]
    if len(all_) != 1:
        raise Mismatch(f"{mend!r} has not one command that begins with {begin!r}")
    return all_[0]


@test("MR-4: diagnose: a host that is to have more than a hierarchy holds; what is withdrawn makes room", long=True)
def no_room(bench):
    lab, master = crowd(bench)
    assign(lab, master, [(endpoint, ve, "h1") for endpoint in FULL for ve in range(VES)])
    holds = PLACES - 3
    become(lab, master, {"done": holds, "no room": len(FULL) * VES - holds})
    mend = found(master, "assignment-no-room", "fault", "host h1", "85")
    shown = master.run(command(mend, "weftctl tree")).out
    if shown.count(", VE ") != holds or "endpoint e1 " not in shown:
        raise Mismatch(f"it shows {shown}")
    master.run(command(mend, "weftctl withdraw").replace("ENDPOINT", "e1"))
    become(lab, master, {"done": (len(FULL) - 1) * VES})
    mended(master)


@test("MR-7: diagnose: a link carries the hierarchies of 15 hosts; another link, or less beyond it, mends that", long=True)
def no_plane(bench):
    lab, master = crowd(bench)
    lab.fabric.link("down", DETOUR)
    assign(lab, master, [("e1", ve, host) for ve, host in enumerate(HOSTS[:VES])] + [("far", 0, "h16")])
    full = {"done": VES, "no plane": 1}
    become(lab, master, full)
    mend = found(master, "assignment-no-plane", "fault", "endpoint far.0", "15 hosts", "another switch", "withdraw")
    lab.fabric.link("up", DETOUR)
    become(lab, master, {"done": VES + 1})
    mended(master)
    lab.fabric.link("down", DETOUR)
    become(lab, master, full)
    mend = found(master, "assignment-no-plane", "fault")
    # Of the hosts that have something beyond the link.
    shown = master.run(command(mend, "weftctl tree")).out
    if shown.count("endpoint e1 ") != VES:
        raise Mismatch(f"it shows {shown}")
    master.run("weftctl withdraw e1.14")
    become(lab, master, {"done": VES})
    mended(master)


@test("MR-3, N-5: diagnose: a host that is not on the list of those that may take part gets no local id", long=True)
def no_lid(bench):
    lab, master = crowd(bench)
    folder = f"{sharing.PORT}/manager"
    for number in range(1, len(HOSTS)):
        master.run(f"echo {number} >{folder}/allow")
    assign(lab, master, [("far", 0, "h16")])
    become(lab, master, {"no lid": 1})
    mend = found(master, "assignment-no-lid", "fault", "host h16", "modprobe weft", "manager/allow")
    found(master, "host-no-driver", "warning", "host h16", "manager/allow")
    master.run(f"cd {folder}/.. && {command(mend, 'echo')}")
    become(lab, master, {"done": 1})
    master.run(f"echo 0 >{folder}/allow")
    mended(master)


@test("MR-7: diagnose: no route leads to an endpoint, and what it advises shows where that ends")
def no_way(bench):
    lab, master = crowd(bench)
    (far,) = (node["lid"] for node in master.weftctl_json("tree")["nodes"] if node["name"] == "far")
    lab.fabric.call("route", "del", "s1", far)
    assign(lab, master, [("far", 0, "h9")])
    become(lab, master, {"no way": 1})
    found(master, "assignment-no-way", "fault", "endpoint far.0", "`weft-fabric route walk HOST LID`")
    if lab.fabric.walk("h9", far)["at"] != "s1":
        raise Mismatch("what it says does not show where the route ends")
    lab.fabric.call("route", "set", "s1", far, int(DETOUR.partition(":")[2]))
    # No host looks at routes by itself; one that hears of a slot looks at everything.
    for word in ("unplug", "plug"):
        lab.fabric.call(word, "e1")
    become(lab, master, {"done": 1})
    mended(master)


@test("MR-3: diagnose: a host that hangs is asked for, and has what is assigned to it when it goes on", long=True)
def hangs(bench):
    lab, master = crowd(bench)
    other = lab["b"]
    other.qmp.call("stop")
    try:
        assign(lab, master, [("far", 0, "h9")])
        become(lab, master, {"no lid": 1})
        found(master, "assignment-no-lid", "fault", "host h9", "is it alive?")
        found(master, "node-silent", "warning", "host 0x9", "is it alive?")
    finally:
        other.qmp.call("cont")
    become(lab, master, {"done": 1})
    mended(master)


@test("MR-1: diagnose: VPD that are damaged give no name; written anew and put in again, they do")
def vpd(bench):
    lab, master = crowd(bench)
    assign(lab, master, [("far", 0, "h1")])
    become(lab, master, {"done": 1})
    hwid = f"{sharing.hwids(lab)['far']:#x}"
    lab.fabric.inject("vpd", "far")
    lab.fabric.call("unplug", "far")
    become(lab, master, {"no endpoint": 1})
    lab.fabric.call("plug", "far")
    become(lab, master, {"done": 1})
    # A port with so few slots can do nothing with it.
    mend = found(master, "endpoint-no-slots", "warning", "1 virtual endpoints", "slots=16")
    found(master, "vpd-broken", "warning", f"endpoint {hwid}", "weft-fabric inject")
    lab.fabric.clear()
    for word in ("unplug", "plug"):
        lab.fabric.call(word, "far")
    become(lab, master, {"done": 1})
    mended(master)
    master.run(f"{command(mend, 'weftctl withdraw')} far")
    mended(master, "endpoint-no-slots")
