# SPDX-License-Identifier: GPL-2.0
"""Ports that are pulled out of their slot and put back."""

from weftlab import kernel
from weftlab.suite import test

from . import steps

LAB = "pair"


@test("HP-2: a port is pulled with a channel open, its user learns of it; put back, it carries")
def hot_plug(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    port = h2.ports[0]
    with kernel.slots_at_work(h2):
        steps.pull(h2, port, patience=30)
        h1.wait_link("down")
        h2.plug(port, "slot0")
        h2.until("[ -e /dev/weft0 ]")
        for host in lab.hosts.values():
            host.wait_links()
    steps.both_ways(lab)
