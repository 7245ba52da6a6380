# SPDX-License-Identifier: GPL-2.0
"""The machines that are measured, and the samples that come of it."""

import contextlib

from .. import paths, topology
from ..errors import LabError
from ..lab import Lab
from . import network


class Samples:
    """Numbers by name, a list each."""

    def __init__(self):
        self._all = {}

    def add(self, name, value):
        self._all.setdefault(name, []).append(value)

    def __getitem__(self, name):
        return self._all[name]

    def __contains__(self, name):
        return name in self._all


@contextlib.contextmanager
def pair(say, backends=(), shares=None, **options):
    """h1 and h2, joined by a link and by virtio-net over these backends. `shares`: folders that they have besides."""
    with Lab("bench", say) as lab:
        lab.join(topology.chain(2))
        for host, peer in (("h1", "h2"), ("h2", "h1")):
            lab.add(
                host,
                extra=network.arguments(host, peer, lab.sockets, backends),
                shares={"modules": paths.modules(), "bench": paths.env("bench"), **(shares or {})},
                **options,
            )
        lab.boot().load()
        yield lab


@contextlib.contextmanager
def networked(say, **options):
    """The same, and the backends over which virtio-net carries packets."""
    backends = list(network.BACKENDS)
    missing = network.prepare(("h1", "h2"))
    if missing:
        say(f"no taps here, only sockets between the machines: {missing}")
        backends.remove("tap")
    with pair(say, backends, **options) as lab:
        for host in lab.hosts.values():
            network.configure(host, backends)
        backends = network.ready(lab["h1"], "h2", backends)
        if not backends:
            raise LabError("virtio-net carries nothing between the two machines")
        yield lab, backends
