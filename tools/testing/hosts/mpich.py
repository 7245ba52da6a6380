# SPDX-License-Identifier: GPL-2.0
"""What MPI promises, over Weft's provider of libfabric, by the MPICH of the index of Python packages, unmodified. It has
a libfabric of its own, and no other transport is left to it; the interface beside has not carried the messages."""

from weftlab.errors import Mismatch
from weftlab.mpich import CHOSEN, PROGRAMS, Job
from weftlab.suite import test

from .mpi import RANKS, beside, semantics, told
from .ofi import hosts

LAB = "mpi"


def promised(at, ranks, where, apart=False):
    """Each promise."""
    with beside(at, "MPICH"):
        done = Job(at, ranks, *semantics(programs=PROGRAMS), apart=apart).wait()
    if CHOSEN not in done.out:
        raise Mismatch(f"messages went another way: {done.out[-2000:]}{done.err[-2000:]}")
    yield from told(done, f"MPICH, {where}")


@test("MPICH between two hosts: those of a host share memory, others are reached by Weft")
def two_hosts(bench):
    with hosts(bench) as (h1, h2, (a1, a2)):
        yield from promised([(h1, a1), (h2, a2)], RANKS, "two hosts")


@test("MPICH within one host, four ranks, which are reached by Weft alone", long=True)
def one_host(bench):
    with hosts(bench) as (h1, _, (a1, _)):
        yield from promised([(h1, a1)], 4, "one host", apart=True)
