# SPDX-License-Identifier: GPL-2.0
"""Latency, throughput and message rate: channels and queue pairs, TCP, Soft-RoCE.

All ways take turns in each run, so that what else the machine does falls on all of them alike.
"""

from ..errors import LabError
from . import model, network, ways
from .figures import size_name
from .machines import Samples, pair

SIZES = (8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20)
# Queue pairs at once, for message rates.
PAIRS = (1, 2, 16, 256)
ROUND_TRIPS = dict(zip(SIZES, (100, 100, 100, 50, 20, 4, 2, 1)))
STREAMED = 8 << 20
MESSAGES = 2048
HOW = ("polled", "sleeping")


def _jobs(kind, counts):
    return [f"{kind}:{size}:{count}" for size, count in counts.items()]


STREAMS = {size: max(2, min(MESSAGES, STREAMED // size)) for size in SIZES}
JOBS = _jobs("round-trip", ROUND_TRIPS) + _jobs("stream", STREAMS)
WRITES = _jobs("write", STREAMS)


def _take(samples, way, found):
    """Of a run over one way: seconds there and back, bytes a second; of small ones how many."""
    for (job, size), (seconds, count) in found.items():
        name = f"{way}-{job}-{size_name(size)}"
        samples.add(name, seconds / count if job == "round-trip" else size * count / seconds)
        if job == "stream" and size == 64:
            samples.add(f"{way}-rate-64", count / seconds)


def _soft_roce(samples, lab, backend):
    half = ways.perftest(lab, backend, "ib_send_lat", 4, "-s 8 -n 200")
    samples.add("soft-roce-round-trip-8", 2e-6 * half)
    mib = ways.perftest(lab, backend, "ib_write_bw", 3, "-s 1048576 -n 8 -t 4")
    samples.add("soft-roce-stream-1m", mib * (1 << 20))


def _run(samples, lab, backends, rdma):
    for how in HOW:
        _take(samples, f"channel-{how}", ways.channel(lab, how, JOBS))
        _take(samples, f"qp-{how}", ways.qp(lab, how, JOBS))
        for pairs in PAIRS[1:]:
            found = ways.qp(lab, how, [f"stream:64:{MESSAGES}"], pairs)
            ((seconds, count),) = found.values()
            samples.add(f"qp-{how}-rate-64-{pairs}", count / seconds)
    _take(samples, "qp-write", ways.qp(lab, "polled", WRITES))
    for backend in backends:
        _take(samples, f"tcp-{backend}", ways.tcp(lab, backend, JOBS))
    if rdma:
        _soft_roce(samples, lab, backends[-1])


def measure(figures, say, runs):
    """latency, throughput and message rate: channels, queue pairs, TCP, Soft-RoCE"""
    backends = list(network.BACKENDS)
    missing = network.prepare(["h1", "h2"])
    if missing:
        say(f"no taps here, only sockets between the machines: {missing}")
        backends.remove("tap")
    samples = Samples()
    with pair(say, backends) as lab:
        for host in lab.hosts.values():
            network.configure(host, backends)
        backends = network.ready(lab["h1"], "h2", backends)
        if not backends:
            raise LabError("virtio-net carries nothing between the two machines")
        rdma = all(ways.soft_roce(host, backends[-1]) for host in lab.hosts.values())
        say(f"virtio-net over {' and '.join(backends)}; Soft-RoCE {'works' if rdma else 'does not work'}")
        for run in range(runs):
            _run(samples, lab, backends, rdma)
            say(f"run {run + 1} of {runs}")
    _report(figures, samples, backends)


def _report(figures, samples, backends):
    ours = [f"{kind}-{how}" for kind in ("channel", "qp") for how in HOW]
    for way in [*ours, *(f"tcp-{name}" for name in backends)]:
        modelled = way.endswith("-polled")
        for size in SIZES:
            name = size_name(size)
            trip = [1e6 * s for s in samples[f"{way}-round-trip-{name}"]]
            figures.add(f"{way}-round-trip-{name}", "us", trip,
                        model=2e6 * model.one_way(size) if modelled else None)  # fmt: skip
        for size in SIZES:
            name = size_name(size)
            rate = [s / 1e6 for s in samples[f"{way}-stream-{name}"]]
            figures.add(f"{way}-throughput-{name}", "MB/s", rate,
                        model=model.throughput(size) / 1e6 if modelled else None)  # fmt: skip
        figures.add(f"{way}-message-rate-64", "1/s", samples[f"{way}-rate-64"],
                    model=model.messages(2, 128) if modelled else None)  # fmt: skip
    for how in HOW:
        for pairs in PAIRS[1:]:
            figures.add(f"qp-{how}-message-rate-64-{pairs}-pairs", "1/s",
                        samples[f"qp-{how}-rate-64-{pairs}"])  # fmt: skip
    for size in SIZES:
        name = size_name(size)
        rate = [s / 1e6 for s in samples[f"qp-write-write-{name}"]]
        figures.add(f"qp-write-throughput-{name}", "MB/s", rate,
                    model=model.throughput(size, tlp=256) / 1e6)  # fmt: skip
    if "soft-roce-round-trip-8" in samples:
        trip = [1e6 * s for s in samples["soft-roce-round-trip-8"]]
        figures.add("soft-roce-round-trip-8", "us", trip)
        rate = [s / 1e6 for s in samples["soft-roce-stream-1m"]]
        figures.add("soft-roce-throughput-1m", "MB/s", rate)
    _compare(figures, samples, backends, ours)


def _compare(figures, samples, backends, ours):
    """With the faster of the backends, run by run."""

    def best(what, choose):
        return [choose(of) for of in zip(*(samples[f"tcp-{name}-{what}"] for name in backends))]

    for way in ours:
        pairs = zip(samples[f"{way}-round-trip-8"], best("round-trip-8", min))
        figures.add(f"{way}-round-trip-8-to-tcp", "ratio", [a / b for a, b in pairs],
                    "<=0.2" if way.endswith("-polled") else None)  # fmt: skip
    for way, job, target in (("channel-polled", "stream", None), ("qp-polled", "stream", None),
                             ("qp-write", "write", ">=5")):  # fmt: skip
        pairs = zip(samples[f"{way}-{job}-1m"], best("stream-1m", max))
        figures.add(f"{way}-throughput-1m-to-tcp", "ratio", [a / b for a, b in pairs], target)
