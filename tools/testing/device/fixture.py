# SPDX-License-Identifier: GPL-2.0
"""Two hosts on a fabric that the test plays."""

import regs as R
from fabric import Fabric
from port import host
from tap import until


class Pair:
    """Hosts a and b, link 0 of each joined; the fabric moves only in `until` and `settle`."""

    def __init__(self, scope, **properties):
        self.fabric = Fabric(scope)
        self.a, self.node_a = self.arrive(scope, "h1", hwid=0xa, **properties)
        self.b, self.node_b = self.arrive(scope, "h2", hwid=0xb, **properties)
        self.fabric.wire(self.node_a, 0, self.node_b, 0)
        self.enable(self.a, self.b)
        self.until(lambda: self.a.link_up() and self.b.link_up(), "the link to come up")
        self.quiet()

    def arrive(self, scope, name, **properties):
        port = host(scope, name, fabric=self.fabric.path, **properties)
        node = self.fabric.attach()
        self.ready(port)
        return port, node

    def ready(self, port):
        """Until the answer to the last reset has come."""
        self.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join the fabric")

    def enable(self, *ports):
        for port in ports:
            port.write(R.R_CTRL, R.CTRL_ENABLE)

    def until(self, predicate, what):
        return until(predicate, what, step=self.fabric.step)

    def quiet(self):
        """Forget what happened on the way up."""
        for port in self.a, self.b:
            port.write(R.R_EVENT, 0xffffffff)
            port.write(R.R_ERR_STATUS, 0xffffffff)
            port.write(R.R_COUNTERS_CLEAR, 0)
            port.fired()

    def share(self, entry=0, offset=0, length=0x10000, base=0x200000, **how):
        """Open memory of b to a, and wait until it is."""
        self.b.set_inbound(entry, offset, length, base, **how)
        self.until(lambda: not self.b.inbound_status(entry) & R.INBOUND_BUSY, "the aperture to be open")
