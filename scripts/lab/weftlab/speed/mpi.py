# SPDX-License-Identifier: GPL-2.0
"""MPI between two hosts: Open MPI over Weft's provider of libfabric, beside its TCP over virtio-net, and over the
Ethernet interface of the ports. Ranks that wait let others run (mpi_yield_when_idle), on either side.

A job of Open MPI begins anew for each way, number of pairs and run; ways take turns, in either order."""

import statistics

from .. import mpirun
from ..errors import LabError
from ..layers import mount
from . import network, ways
from .figures import size_name
from .machines import Samples, networked

SIZES = (1, 8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20)
# Pairs of ranks at once: those of more send messages that show rates, and one that shows throughput.
PAIRS = (1, 2, 4, 8)
OF_MANY = (1, 64, 4096, 262144)
TRIPS = dict(zip(SIZES, (200, 200, 200, 100, 50, 20, 10, 4, 2)))
STREAMED, MESSAGES = 8 << 20, 1024
# From this size on it is the throughput that counts.
LARGE = 4096
MEMORY = 1024
# Each point, and the geometric mean of all of them.
POINT, MEAN = ">=0.9", ">=1.5"
# By libfabric; all other ways are names of interfaces.
OFI = "ofi"


def count(size, pairs):
    return max(2, min(MESSAGES, STREAMED // size) // pairs)


def jobs(pairs):
    """Words for pairs."""
    if pairs > 1:
        return [f"stream:{size}:{count(size, pairs)}" for size in OF_MANY]
    return [f"latency:{size}:{trips}" for size, trips in TRIPS.items()] + \
        [f"stream:{size}:{count(size, 1)}" for size in SIZES]  # fmt: skip


def points():
    """All that is measured: kind, bytes, pairs."""
    yield from (("latency", size, 1) for size in SIZES)
    yield from (("stream", size, 1) for size in SIZES)
    yield from (("stream", size, pairs) for pairs in PAIRS[1:] for size in OF_MANY)


def name(kind, size, pairs):
    return f"{kind}-{size_name(size)}" + (f"-{pairs}-pairs" if pairs > 1 else "")


def _run(samples, lab, way, pairs, daemons):
    """A job over a way: libfabric, or TCP over the interface of that name. `daemons`: where these talk."""
    transport = mpirun.MATCHED if way == OFI else (*mpirun.TCP, "--mca", "btl_tcp_if_include", way)
    at = [(host, network.address(daemons, host.name)) for host in lab.hosts.values()]
    job = mpirun.Job(at, pairs, transport, f"{mpirun.PROGRAMS}/pairs", *jobs(pairs))
    found = ways.parsed(job.wait(ways.PATIENCE).must().out)
    if len(found) != len(jobs(pairs)):
        raise LabError(f"of {len(jobs(pairs))} jobs {len(found)} are done")
    for one in found:
        seconds, messages = one["seconds"], one["count"]
        # Half of a round trip, or messages a second.
        value = seconds / messages / 2 if one["job"] == "latency" else messages / seconds
        samples.add(f"{way}-{name(one['job'], one['bytes'], one['pairs'])}", value)


def _fastest(lab, backends, say):
    """The backend that TCP is faster over, by a look at each."""
    looks = {}
    for backend in backends:
        look = Samples()
        _run(look, lab, backend, 1, backends[-1])
        looks[backend] = statistics.geometric_mean(look[f"{backend}-{name('stream', size, 1)}"][0] for size in SIZES)
    say("messages a second over virtio-net: " + ", ".join(f"{rate:.0f} by {backend}" for backend, rate in looks.items()))
    return max(looks, key=looks.get)


def measure(figures, say, runs):
    """Open MPI over libfabric, beside its TCP over virtio-net"""
    samples = Samples()
    with networked(say, shares=mpirun.shares(), memory=MEMORY) as (lab, backends):
        for host in lab.hosts.values():
            mount(host, *mpirun.LAYERS)
        network.interfaces(list(lab.hosts.values()))
        tcp = _fastest(lab, backends, say)
        for run in range(runs):
            turn = (OFI, tcp, network.WEFT)
            for pairs in PAIRS:
                # Of the interface of the ports one pair is enough to see.
                for way in turn if run % 2 else turn[::-1]:
                    if way != network.WEFT or pairs == 1:
                        _run(samples, lab, way, pairs, backends[-1])
            say(f"run {run + 1} of {runs}")
    report(figures, samples, tcp)


def speedup(samples, ours, theirs, point):
    """Run by run, how many times as fast."""
    both = zip(samples[f"{ours}-{name(*point)}"], samples[f"{theirs}-{name(*point)}"])
    return [b / a if point[0] == "latency" else a / b for a, b in both]


def report(figures, samples, tcp):
    for way, title in ((OFI, "mpi"), (tcp, "mpi-tcp"), (network.WEFT, "mpi-net")):
        for kind, size, pairs in points():
            if f"{way}-{name(kind, size, pairs)}" not in samples:
                continue
            found = samples[f"{way}-{name(kind, size, pairs)}"]
            if kind == "latency":
                figures.add(f"{title}-latency-{size_name(size)}", "us", [1e6 * one for one in found])
                continue
            figures.add(f"{title}-{name('rate', size, pairs)}", "1/s", found)
            if size >= LARGE:
                rate = [size * one / 1e6 for one in found]
                figures.add(f"{title}-{name('throughput', size, pairs)}", "MB/s", rate)
    all_of_them = []
    for point in points():
        faster = speedup(samples, OFI, tcp, point)
        all_of_them.append(faster)
        figures.add(f"mpi-{name(*point)}-to-tcp", "ratio", faster, POINT)
    means = [statistics.geometric_mean(of_a_run) for of_a_run in zip(*all_of_them)]
    figures.add("mpi-to-tcp", "ratio", means, MEAN)
