# SPDX-License-Identifier: GPL-2.0
"""Hosts with libfabric, Weft's provider of it, Open MPI, MPICH, and IP beside them for what programs tell each other before
they have a transport. Both ends of a program are started by the lab's agent: there is no ssh."""

import contextlib
import os

from weftlab import kernel, mpich, mpirun, paths, topology
from weftlab.errors import Skip
from weftlab.layers import inside, mount

from .net import address, interfaces

# How much: short in `make check`, whole in `make check-long`.
WHOLE = os.environ.get("WEFT_MPI", "") == "whole"


def prepared(bench):
    """The lab of h1 and h2, which have all but interfaces."""
    if kernel.variant():
        raise Skip("this kernel has no overlay file system")
    shares = mpirun.shares() | mpich.shares() | {"fabtests": paths.env("fabtests")}
    # Two of the largest programs of fabtests in a host, or a benchmark.
    lab = bench.shape("mpi", topology.chain(2), shares=shares, memory=3072)
    for host in lab.hosts.values():
        mount(host, *mpirun.LAYERS)
    return lab


@contextlib.contextmanager
def hosts(bench):
    """h1, h2 and the address of each."""
    lab = prepared(bench)
    with interfaces(lab) as (h1, h2):
        yield h1, h2, [address(lab, host) for host in (h1, h2)]


def over(provider, *words):
    """A command of a guest that has this provider alone."""
    return inside("env", f"FI_PROVIDER={provider}", f"FI_PROVIDER_PATH={mpirun.FOLDER}", *words)
