# SPDX-License-Identifier: GPL-2.0
"""Functions of a shared endpoint that two hosts keep busy while parts of the fabric come and go, so that work is led
another way again and again.

Each host hands pieces on from place to place (``weft-endpoint --shift``): what is lost, done twice or out of turn gives
other checksums, and each piece completes once, in order. Of what was asked all has to be done when a program ends.
"""

import os
import random

from weftlab.errors import Mismatch
from weftlab.suite import test

from . import sharing
from .endpoints import Working
from .hotplug import plant

LAB = "triangle"
# How many parts come and go, at random: more by hand, and others each time.
FEW = 3
REROUTES = int(os.environ.get("WEFT_REROUTES", FEW))
SEED = int(os.environ.get("WEFT_SEED") or (53 if REROUTES == FEW else random.randrange(1 << 32)))
# The endpoint is at the first switch, its users at the second and at the third; of the first one there are two parts.
ENDPOINT = "e1"
ASSIGNMENTS = [(ENDPOINT, 0, "h3"), (ENDPOINT, 1, "h4"), ("e3", 0, "h2")]
USERS = {"h3": (0, ()), "h4": (1, ("--push-work", "--pull-done"))}
# Cables between switches: of a triangle one at a time can be out.
TRUNKS = ["s1:4", "s1:5", "s2:6"]
# Parts that work does not need: two that become master, and another endpoint.
OTHERS = ["h1", "h2", "e3"]
# Seconds that a step may take.
STEP = 60


class Users:
    """Programs of both hosts, at work."""

    def __init__(self, made, steps):
        self.made, self.lab = made, made.lab
        ids = sharing.hwids(self.lab)
        self.all = [
            Working(self.lab, host, None, "--shift", 3, "--piece", 8192, "--pieces", 16, *options,
                    place=f"{ids[ENDPOINT]:x}.{ve}", limit=STEP * (steps + 2))
            for host, (ve, options) in USERS.items()
        ]  # fmt: skip

    def ways(self):
        """How work goes, there and back."""
        lids = self.made.lids()

        def way(source, target):
            walk = self.lab.fabric.walk(source, lids[target])
            return walk["at"], tuple(hop["from"] for hop in walk["hops"])

        return [(way(host, ENDPOINT), way(ENDPOINT, host)) for host in USERS]

    def go_on(self):
        for user in self.all:
            user.goes_on()

    def whole(self):
        return sum(user.whole()["done"] for user in self.all)


def users(bench, steps):
    made = plant(bench)
    sharing.assign(made.lab, made.lab["h1"], ASSIGNMENTS)
    sharing.become(made.lab, made.lab["h1"], {assignment: "done" for assignment in ASSIGNMENTS})
    return made, Users(made, steps)


@test("HP-2: a copy endpoint that two hosts keep busy is led another way by cables that go and come, and by a new master: no "
      "piece is lost, done twice or out of turn", core=True)  # fmt: skip
def cables(bench):
    made, both = users(bench, 6)
    changed = 0
    for part in ("s1:4", "h1", "s1:4", "h1"):
        before = both.ways()
        made.toggle(part)
        both.go_on()
        made.settle()
        both.go_on()
        changed += sum(one != other for one, other in zip(before, both.ways()))
    if changed != 2:
        raise Mismatch(f"ways of {changed} users have changed, not of 2")
    bench.note(f"{both.whole()} pieces")


@test(f"HP-2: a copy endpoint that two hosts keep busy outlasts {REROUTES} additions, removals and other ways at random: no "
      "piece is lost, done twice or out of turn", patient=True)  # fmt: skip
def at_random(bench):
    made, both = users(bench, REROUTES + 4)
    changed = 0
    with made.at_random(SEED) as rng:
        for _ in range(REROUTES):
            parts = [*OTHERS, *(made.cut or TRUNKS)]
            # Two masters that are out at once leave it to a user.
            part = rng.choice(sorted(parts))
            before = both.ways()
            made.toggle(part, announced=":" not in part and rng.random() < 0.5)
            # Sometimes there is another change before the last one is known everywhere.
            if rng.random() < 0.7:
                made.settle()
            both.go_on()
            changed += both.ways() != before
        made.restore()
        both.go_on()
        pieces = both.whole()
    bench.note(f"{len(made.done)} additions and removals, {changed} changes of ways, {pieces} pieces, WEFT_SEED={SEED}")
