# SPDX-License-Identifier: GPL-2.0
"""The machines that are measured, and the samples that come of it."""

import contextlib

from .. import paths, topology
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
def pair(say, backends=(), **options):
    """h1 and h2, joined by a link and by virtio-net over these backends."""
    with Lab("bench", say) as lab:
        lab.join(topology.chain(2))
        for host, peer in (("h1", "h2"), ("h2", "h1")):
            lab.add(
                host,
                extra=network.arguments(host, peer, lab.sockets, backends),
                shares={"modules": paths.modules(), "bench": paths.env("bench")},
                **options,
            )
        lab.boot().load()
        yield lab
