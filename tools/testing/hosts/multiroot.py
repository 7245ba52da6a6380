# SPDX-License-Identifier: GPL-2.0
"""Endpoints that hosts share: who finds them, whose they are, and what the tables say then."""

from weftlab.suite import test

from . import sharing
from .fabric import settled

WISHES = [("ep2", 0, "rc1"), ("ep4", 0, "rc1"), ("ep5", 0, "rc1"),
          ("ep1", 0, "rc2"), ("ep3", 0, "rc2"), ("ep6", 0, "rc2")]  # fmt: skip


@test("MR-1, MR-2: wip")
def wip(bench):
    lab = bench.shape("figs10-12", sharing.figures())
    hosts = list(lab.hosts.values())
    print(settled(hosts, 1, 11))
    rc1 = lab["rc1"]
    import time
    t=time.time()
    sharing.wish(lab, rc1, WISHES)
    sharing.become(lab, rc1, {w: "done" for w in WISHES})
    print(time.time()-t)
    print(sharing.ask(rc1, "components"))
    print(sharing.ask(rc1, "wishes"))
    for s in ("sw1","sw2","sw3"):
        print(lab.fabric.call("route","show",s).stdout)
    print(lab.fabric.call("status").stdout)
