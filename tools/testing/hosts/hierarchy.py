# SPDX-License-Identifier: GPL-2.0
"""What a host does with its own virtual hierarchy: its routes, who hears of it, what a reset and another
life of the host leave of it."""

import json

from weftlab.suite import test

from . import sharing
from .fabric import WATCH, settled, until
from .multiroot import DONE, NODES, ASSIGNMENTS, equal, figures

LAB = "figs10-12"


def ways(lab, host):
    """VP by local id, of the routes that are for the host's own traffic alone."""
    told = json.loads(lab.fabric.call("route", "show", host.name, "--json").stdout)["routes"]
    return {r["first"]: r["vp"] for r in told if r["own"] and not r["from_links"]}


def wanted(lab, host):
    """What these are to be, by what the host was told."""
    return {place["lid"]: place["vp"] for place in sharing.given(lab, host).values()}


def led(lab, host, endpoints=3):
    """The host has so many endpoints, and a route for each."""
    expected = wanted(lab, host)
    return len(expected) == endpoints and 0 not in expected.values() and ways(lab, host) == expected


def serial(host):
    return int(host.out(f"cat {sharing.PORT}/manager/hierarchy"))


@test("MR-7: a host's own traffic goes by the planes of its hierarchy, also after its port was reset")
def reset(bench):
    lab, rc1, rc2 = figures(bench)
    for host in (rc1, rc2):
        equal(f"routes of {host.name}", ways(lab, host), wanted(lab, host))
        equal(f"{host.name} has three", led(lab, host), True)
    before = sharing.ask(rc2, "vh", 0)
    rc2.run(f"echo 1 >{sharing.PORT}/reset", 60)
    settled([rc1, rc2], 1, NODES)
    # If the master has missed it meanwhile, that is told twice.
    until("the hierarchy as before", lambda: sharing.ask(rc2, "vh", 0) == before)
    until("the routes are written again", lambda: led(lab, rc2))
    sharing.become(lab, rc1, DONE)


@test("MR-3, MR-7: another life of a host is told its hierarchy anew, and the others notice nothing")
def life(bench):
    lab, rc1, rc2 = figures(bench)
    first, other = sharing.ask(rc2, "vh", 0), (serial(rc1), sharing.ask(rc1, "vh", 0), ways(lab, rc1))
    rc2.rmmod()
    lost = {assignment: "no root" if assignment[2] == "rc2" else "done" for assignment in ASSIGNMENTS}
    sharing.become(lab, rc1, lost)
    rc2.insmod()
    settled([rc1, rc2], 1, NODES)
    sharing.become(lab, rc1, DONE)
    equal("routes", led(lab, rc2), True)
    now = sharing.ask(rc2, "vh", 0)
    equal("what it has", [p["hwid"] for p in now], [p["hwid"] for p in first])
    equal("its local id is a new one", now[0]["lid"] == first[0]["lid"], False)
    equal("the other one", (serial(rc1), sharing.ask(rc1, "vh", 0), ways(lab, rc1)), other)


@test("MR-7, HP-2: a program that waits for it hears that the hierarchy is another one, by poll and by uevent")
def told(bench):
    lab, rc1, rc2 = figures(bench)
    script = rc2.push("watch.py", WATCH.replace("master", "hierarchy").encode())
    watching = rc2.start_job(f"exec python3 {script}")
    watching.expect("watching", 30)
    before = serial(rc2)
    rest = [assignment for assignment in ASSIGNMENTS if assignment != ("ep6", 0, "rc2")]
    sharing.assign(lab, rc1, rest)
    watching.expect(f"^hierarchy {before + 1}$", 60)
    watching.expect(f"^event WEFT_HIERARCHY={before + 1} ", 30)
    sharing.become(lab, rc1, {assignment: "done" for assignment in rest})
    until("its route is gone", lambda: led(lab, rc2, 2))
    sharing.assign(lab, rc1, ASSIGNMENTS)
    sharing.become(lab, rc1, DONE)
    watching.expect(f"^hierarchy {before + 2}$", 30)
    equal("routes", led(lab, rc2), True)
    watching.kill()
    watching.wait(20)
