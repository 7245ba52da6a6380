# SPDX-License-Identifier: GPL-2.0
"""What tests stand on: labs that several tests share, put right before each.

A test gets the lab in one known state: hosts up, weft.ko loaded, links ready,
nothing traced, ports adversarial only if the whole run is. After a test that
failed nothing is shared any more.
"""

from . import topology
from .errors import LabError
from .lab import making, pair


class Bench:
    def __init__(self, say):
        self.say = say
        self.notes = []
        # What the present test says that it asks for; any lab without.
        self.declared = None
        self._labs = {}

    def _shared(self, name, make):
        if self.declared not in (None, name):
            raise LabError(f"the test asks for the lab {name!r} and declares {self.declared!r}")
        found = self._labs.get(name)
        if found is None:
            # Guests take memory and processors: one lab at a time.
            self.close()
            found = self._labs[name] = make()
        self._restore(found)
        return found

    def note(self, text):
        """Something measured, for the report: it decides nothing."""
        self.notes.append(text)

    def pair(self):
        """h1 and h2 joined by one link."""
        return self._shared("pair", lambda: pair("pair", self.say))

    def sleepers(self):
        """The same, of hosts that can be sent to sleep."""
        return self._shared("sleepers", lambda: pair("sleepers", self.say, sleeps=True))

    def ivshmem(self):
        """The same over ivshmem-doorbell."""
        return self._shared("ivshmem", lambda: pair("ivshmem", self.say, ivshmem=True))

    def loopback(self):
        """One host with two ports, n1 and n2, joined by one link."""

        def make():
            with making("loopback", self.say) as lab:
                lab.join(topology.chain(2, prefix="n"))
                # Ten thousand queue pairs are 70 MiB, beside the programs.
                lab.add("host", ["n1", "n2"], cpus=2, memory=320)
            return lab

        return self._shared("loopback", make)

    def endpoints(self, vfs, both=False):
        """h1 and h2 joined by one link; h1 has two physical functions, with VFs that no driver has,
        or both have, with VFs for the driver."""

        def make():
            with making("endpoints", self.say) as lab:
                lab.join(topology.chain(2))
                slots = 4 if both else 1
                # Vectors for 16 VFs are more than one processor has, and their memory is 85 MiB.
                many = {"cpus": 2, "memory": 320} if both else {}
                lab.add("h1", vfs=vfs, vf_slots=slots, **many)
                lab.add("h2", vfs=vfs if both else None, vf_slots=slots)
            return lab

        return self._shared("functions of both" if both else "functions", make)

    def twins(self, vfs):
        """h1 and h2 joined by two links, each between an endpoint here and one there, of two physical
        functions with VFs for the driver: a VF can move to another port, and to another endpoint."""

        def make():
            with making("twins", self.say) as lab:
                shape = topology.Topology()
                for number, node in enumerate(("a1", "b1", "a2", "b2"), 1):
                    shape.host(node, number)
                lab.join(shape.link("a1:0", "a2:0").link("b1:0", "b2:0"))
                for name, nodes in (("h1", ["a1", "b1"]), ("h2", ["a2", "b2"])):
                    lab.add(name, nodes, vfs=vfs, vf_slots=4, cpus=2, memory=320)
            return lab

        return self._shared("twins", make)

    def cramped(self, vfs):
        """h1 and h2 joined by one link, with so many VFs for the driver each; h1 has one processor, and the bridge
        of h2 no addresses for VFs."""

        def make():
            with making("cramped", self.say) as lab:
                lab.join(topology.chain(2))
                lab.add("h1", vfs=vfs, vf_slots=4, memory=320)
                # Else the kernel would make the window of the bridge larger.
                lab.add("h2", vfs=vfs, vf_slots=4, words="pci=realloc=off")
                lab["h2"].ports[0].room = "pref64-reserve=512M"
            return lab

        return self._shared("cramped", make)

    def shape(self, name, shape, guests=None, **options):
        """A host a node of a topology, each with one port; or `guests`, each with the ports of
        several nodes."""

        def make():
            with making(name, self.say) as lab:
                lab.join(shape)
                for host, nodes in (guests or {node: [node] for node, _ in shape.hosts}).items():
                    lab.add(host, nodes, **options)
            return lab

        return self._shared(name, make)

    def _restore(self, found):
        if found.fabric:
            if not found.fabric.alive:
                found.fabric.start()
        if not all(host.alive for host in found.hosts.values()):
            found.boot()
        if found.fabric:
            # Before a host has its driver: a large fabric is busy when the first one comes.
            found.fabric.clear()
            status = found.fabric.status()
            for node in [node for node in status["nodes"] if not node["endpoint"]]:
                if node["traced"]:
                    found.fabric.trace(node["name"], False)
                if node["adversarial"] != found.fabric.adversarial_seed:
                    found.fabric.adversarial(node["name"], found.fabric.adversarial_seed)
            for cable in status["cables"]:
                if cable["state"] != "up":
                    found.fabric.link("up", cable["ends"][0])
        for host in found.hosts.values():
            if host.run("test -d /sys/module/weft", status=None).status:
                host.insmod()
            if found.server:
                host.bind_ivshmem()
        for host in found.hosts.values():
            host.wait_links()

    def after(self, ok):
        """Checks every kernel's log; of a failed test nothing is kept."""
        try:
            for found in self._labs.values():
                found.check_dmesg()
        except (LabError, OSError):
            self.abandon()
            raise
        if not ok:
            self.abandon()

    def abandon(self):
        for found in self._labs.values():
            found.abandon()
        self._labs.clear()

    def close(self):
        """Ends what is shared; raises what the kernels said at the very end."""
        labs, self._labs = self._labs, {}
        for found in labs.values():
            found.close()


