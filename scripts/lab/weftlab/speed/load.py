# SPDX-License-Identifier: GPL-2.0
"""Round trips while the same way, between the same two machines, carries a stream; and message rates of
many processes at once. All of them sleep: programs that spin would measure the scheduler."""

from . import network, ways
from ..errors import LabError
from .machines import Samples, networked
from .times import PERCENTILES

PROCESSES = (1, 4, 16, 64)
# Messages of all processes together.
MESSAGES = 4096
TRIPS = 400
# More than are sent while the round trips are measured: the stream is ended with its process.
ENDLESS = 1 << 30
# Every process has its own memory, registered.
MEMORY = 1024
GO = "/tmp/go"


def _ends(kind, backend, service):
    """The words of both ends of a way, of which each process has its own."""
    if kind == "tcp":
        at = f"tcp {network.address(backend, 'h2')}:{service} sleeping"
        return at, at
    way = f"qp 0 {service} sleeping 1" if kind == "qp" else f"small-{kind} 0 {service} sleeping"
    return way, way


def _loaded(samples, lab, kind, backend):
    served, run = _ends(kind, backend, 7301)
    serving = ways.serve(lab, served)
    stream = lab["h1"].start_job(f"exec {ways.PROGRAM} run {run} after /dev/null stream:4096:{ENDLESS}")
    try:
        stream.expect("^connected", 60)
        served, run = _ends(kind, backend, 7302)
        (found,) = ways.jobs(lab, served, run, [f"round-trip:8:{TRIPS}"]).values()
    finally:
        for job in (stream, serving):
            job.kill(9)
    for job in (stream, serving):
        job.wait(60)
    for percentile in PERCENTILES:
        samples.add(f"{kind}-{percentile}", found[percentile])


def _all(host, commands):
    """A job of many processes; it fails if one of them does."""
    lines = [f"{ways.PROGRAM} {command} & all=\"$all $!\"" for command in commands]
    return host.start_job("\n".join([*lines, "for one in $all; do wait $one || exit 1; done"]))


def _together(samples, lab, kind, backend, processes):
    here, there = lab["h1"], lab["h2"]
    here.run(f"rm -f {GO}")
    each = MESSAGES // processes
    ends = [_ends(kind, backend, 7310 + n) for n in range(processes)]
    serving = _all(there, (f"serve {served}" for served, _ in ends))
    serving.expect(r"(?:listening\n){%d}" % processes, 120)
    running = _all(here, (f"run {run} after {GO} stream:64:{each}" for _, run in ends))
    running.expect(r"(?:connected\n){%d}" % processes, 120)
    here.run(f"touch {GO}")
    found = ways.parsed(running.wait(ways.PATIENCE).must(0).out)
    serving.wait(60).must(0)
    if len(found) != processes:
        raise LabError(f"{len(found)} of {processes} processes have told how they fared")
    begin = min(one["begin"] for one in found)
    end = max(one["begin"] + one["seconds"] for one in found)
    samples.add(f"{kind}-{processes}", each * processes / (end - begin))


def measure(figures, say, runs):
    """round trips beside a stream, and rates of many processes"""
    samples = Samples()
    with networked(say, memory=MEMORY) as (lab, backends):
        for run in range(runs):
            for kind in ("channel", "qp", "tcp"):
                _loaded(samples, lab, kind, backends[-1])
                for processes in PROCESSES:
                    _together(samples, lab, kind, backends[-1], processes)
            say(f"run {run + 1} of {runs}")
    for kind in ("channel", "qp", "tcp"):
        for percentile in PERCENTILES:
            figures.add(f"{kind}-sleeping-loaded-round-trip-8-{percentile}", "us",
                        [1e6 * s for s in samples[f"{kind}-{percentile}"]])  # fmt: skip
        for processes in PROCESSES:
            figures.add(f"{kind}-sleeping-message-rate-64-{processes}-processes", "1/s",
                        samples[f"{kind}-{processes}"])  # fmt: skip
