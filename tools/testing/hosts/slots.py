# SPDX-License-Identifier: GPL-2.0
"""Ports that are pulled out of their slot and put back."""

from weftlab import transfer
from weftlab.errors import Mismatch
from weftlab.suite import test

from . import steps


@test("HP-2: a port is pulled with a channel open, its user learns of it; put back, it carries")
def hot_plug(bench):
    lab = bench.pair()
    h1, h2 = lab["h1"], lab["h2"]
    port = h2.ports[0]
    receiving = transfer.Receiver(h2, ["--timeout", 8])
    h2.unplug(port.name)
    h2.run("test ! -e /dev/weft0")
    lost = receiving.job.wait(30)
    if not lost.status:
        raise Mismatch("recv ended well although its port was pulled")
    steps.refused(lost, lost.status, "port")
    h1.wait_link("down")
    h2.plug(port, "slot0")
    h2.run("until [ -e /dev/weft0 ]; do sleep 0.1; done", 60)
    for host in lab.hosts.values():
        host.wait_links()
    steps.both_ways(lab)
