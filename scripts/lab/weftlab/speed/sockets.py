# SPDX-License-Identifier: GPL-2.0
"""Native sockets, and TCP under weft-run, beside TCP over virtio-net: the same program between the same two machines."""

from ..errors import LabError
from . import network, programs, schedule, ways
from .interface import JOBS, beside_virtio_net
from .machines import Samples, networked
from .times import HOW, ratio, take

RUN = f"{ways.RUN} --explain=/tmp/said"
# One after the other.
CONNECTIONS = 100
# By a ratio's name: what programs are to have of it under weft-run.
LARGE, TARGET_LARGE, TARGET_TRIP, TARGET_CONNECTIONS = 16 << 10, ">=1.5", "<=0.5", ">=2"


def _moved(host):
    """Whether what ran under weft-run went over AF_VSOCK."""
    said = host.out("cat /tmp/said; rm /tmp/said")
    if ": moved to CID " not in said:
        raise LabError(f"{host.name}: what ran under weft-run was not moved: {said}")


def _under_run(lab, how, port):
    """The jobs, by TCP over the interface, both ends under weft-run."""
    served = f"tcp {network.address(network.WEFT, 'h2')}:{port} {how}"
    found = ways.jobs(lab, served, served, JOBS, before=RUN)
    _moved(lab["h1"])
    return found


def _connections(samples, lab, way, at, before=""):
    """How many a second, and what the hosts' processors did for each."""
    way = f"{way}-connections"
    serving = lab["h2"].start_job(f"exec {before} {ways.PROGRAM} answer {at}")
    serving.expect("^listening", 60)
    with schedule.counted(samples, lab.hosts.values(), way, CONNECTIONS):
        done = lab["h1"].run(f"{before} {ways.PROGRAM} connections {at} {CONNECTIONS}", ways.PATIENCE)
    serving.kill()
    serving.wait(60)
    (one,) = ways.parsed(done.out)
    samples.add(way, one["count"] / one["seconds"])


def _run(samples, lab, backends):
    for how in HOW:
        for backend in backends:
            take(samples, f"{backend}-{how}", ways.tcp(lab, backend, how, JOBS))
        way = f"socket 0 7150 {how}"
        take(samples, f"socket-{how}", ways.jobs(lab, way, way, JOBS))
        take(samples, f"run-{how}", _under_run(lab, how, 7001))
    for name in (*backends, network.WEFT):
        _connections(samples, lab, name, f"tcp {network.address(name, 'h2')}:7002")
    _connections(samples, lab, "socket", "socket 0 7151")
    # Each line that explains is a call more: the interface shows as well what was moved.
    with network.moved(lab["h1"], CONNECTIONS):
        _connections(samples, lab, "run", f"tcp {network.address(network.WEFT, 'h2')}:7003", ways.RUN)
    programs.run(samples, lab, backends)


def measure(figures, say, runs):
    """native sockets and TCP under weft-run, beside TCP over virtio-net"""
    samples = Samples()
    with networked(say, shares=programs.shares(), memory=512) as (lab, backends):
        network.interfaces(list(lab.hosts.values()))
        for host in lab.hosts.values():
            host.stock_module("vsock")
            host.run(f"insmod {network.TRANSPORT}")
        with programs.servers(lab):
            for run in range(runs):
                _run(samples, lab, backends)
                say(f"run {run + 1} of {runs}")
    for name, trip, large in (("socket", None, None), ("run", TARGET_TRIP, TARGET_LARGE)):
        for how in HOW:
            beside_virtio_net(figures, samples, backends, how, name, name, trip,
                              lambda size, large=large: large if size >= LARGE else None)  # fmt: skip
        _report_connections(figures, samples, backends, name)
    figures.add("net-connections", "1/s", samples[f"{network.WEFT}-connections"])
    for way, name in (("socket", "socket"), ("run", "run"), (network.WEFT, "net"), (backends[-1], "virtio-net")):
        schedule.report(figures, samples, f"{way}-connections", f"{name}-connections")
    programs.report(figures, samples, backends)


def _report_connections(figures, samples, backends, name):
    ours = samples[f"{name}-connections"]
    best = [max(of) for of in zip(*(samples[f"{backend}-connections"] for backend in backends))]
    figures.add(f"{name}-connections", "1/s", ours)
    ratio(figures, f"{name}-connections-to-virtio-net", ours, best, TARGET_CONNECTIONS if name == "run" else None)
