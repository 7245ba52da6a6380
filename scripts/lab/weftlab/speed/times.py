# SPDX-License-Identifier: GPL-2.0
"""Latency, throughput and message rate: channels and queue pairs, TCP, Soft-RoCE.

All ways take turns in each run, so that what else the machine does falls on all of them alike. Ways that
spin are compared with TCP that spins, ways that sleep with TCP that sleeps.
"""

from . import model, ways
from .figures import size_name
from .machines import Samples, networked

SIZES = (8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20)
# Queue pairs at once, for message rates.
PAIRS = (1, 2, 16, 256)
# Of the shortest there are enough for a percentile.
ROUND_TRIPS = dict(zip(SIZES, (400, 100, 100, 50, 20, 4, 2, 1)))
PERCENTILES = ("p50", "p90", "p99")
STREAMED = 8 << 20
MESSAGES = 2048
HOW = ("polled", "sleeping")


def jobs(kind, counts):
    return [f"{kind}:{size}:{count}" for size, count in counts.items()]


STREAMS = {size: max(2, min(MESSAGES, STREAMED // size)) for size in SIZES}
JOBS = jobs("round-trip", ROUND_TRIPS) + jobs("stream", STREAMS) + [f"each:64:{MESSAGES}"]
WRITES = jobs("write", STREAMS)


def take(samples, way, found):
    """Of a run over one way: seconds there and back, bytes a second; of small ones how many."""
    for (job, size), one in found.items():
        seconds, count = one["seconds"], one["count"]
        name = f"{way}-{job}-{size_name(size)}"
        samples.add(name, seconds / count if job == "round-trip" else size * count / seconds)
        if size == 64 and job in ("stream", "each"):
            samples.add(f"{way}-{job}-rate-64", count / seconds)
        if size == 8 and job == "round-trip":
            for percentile in PERCENTILES:
                samples.add(f"{way}-{percentile}", one[percentile])


def _soft_roce(samples, lab, backend):
    """By events: on one processor a side that polls keeps the other's packets waiting."""
    half = ways.perftest(lab, backend, "ib_send_lat", 4, "-s 8 -n 200")
    samples.add("soft-roce-round-trip-8", 2e-6 * half)
    mib = ways.perftest(lab, backend, "ib_send_bw", 3, "-s 1048576 -n 8 -t 4")
    samples.add("soft-roce-stream-1m", mib * (1 << 20))


def _run(samples, lab, backends, rdma):
    for how in HOW:
        take(samples, f"channel-{how}", ways.channel(lab, how, JOBS))
        take(samples, f"qp-{how}", ways.qp(lab, how, JOBS))
        for backend in backends:
            take(samples, f"tcp-{backend}-{how}", ways.tcp(lab, backend, how, JOBS))
        for pairs in PAIRS[1:]:
            (found,) = ways.qp(lab, how, [f"stream:64:{MESSAGES}"], pairs).values()
            samples.add(f"qp-{how}-rate-64-{pairs}", found["count"] / found["seconds"])
        # A side that sleeps leaves a processor to the thread of QEMU's that is the port's engine.
        take(samples, f"qp-write-{how}", ways.qp(lab, how, WRITES))
    if rdma:
        _soft_roce(samples, lab, backends[-1])


def measure(figures, say, runs):
    """latency, throughput and message rate: channels, queue pairs, TCP, Soft-RoCE"""
    samples = Samples()
    with networked(say) as (lab, backends):
        rdma = all(ways.soft_roce(host, backends[-1]) for host in lab.hosts.values())
        say(f"virtio-net over {' and '.join(backends)}; Soft-RoCE {'works' if rdma else 'does not work'}")
        for run in range(runs):
            _run(samples, lab, backends, rdma)
            say(f"run {run + 1} of {runs}")
    _report(figures, samples, backends)


def _report(figures, samples, backends):
    for kind in ("channel", "qp", *(f"tcp-{name}" for name in backends)):
        for how in HOW:
            _way(figures, samples, f"{kind}-{how}", how == "polled" and kind in ("channel", "qp"))
    for how in HOW:
        for pairs in PAIRS[1:]:
            figures.add(f"qp-{how}-message-rate-64-{pairs}-pairs", "1/s", samples[f"qp-{how}-rate-64-{pairs}"])
        ratio(figures, f"qp-{how}-message-rate-64-{PAIRS[-1]}-pairs-to-1", samples[f"qp-{how}-rate-64-{PAIRS[-1]}"],
              samples[f"qp-{how}-stream-rate-64"], ">=0.9")  # fmt: skip
        for size in SIZES:
            name = size_name(size)
            rate = [s / 1e6 for s in samples[f"qp-write-{how}-write-{name}"]]
            figures.add(f"qp-write-{how}-throughput-{name}", "MB/s", rate,
                        model=model.throughput(size, tlp=256) / 1e6)  # fmt: skip
    if "soft-roce-round-trip-8" in samples:
        trip = [1e6 * s for s in samples["soft-roce-round-trip-8"]]
        figures.add("soft-roce-round-trip-8", "us", trip)
        rate = [s / 1e6 for s in samples["soft-roce-stream-1m"]]
        figures.add("soft-roce-throughput-1m", "MB/s", rate)
    for how in HOW:
        _compare(figures, samples, backends, how)


def _way(figures, samples, way, modelled):
    for size in SIZES:
        name = size_name(size)
        trip = [1e6 * s for s in samples[f"{way}-round-trip-{name}"]]
        figures.add(f"{way}-round-trip-{name}", "us", trip,
                    model=2e6 * model.one_way(size) if modelled else None)  # fmt: skip
    for percentile in PERCENTILES:
        figures.add(f"{way}-round-trip-8-{percentile}", "us", [1e6 * s for s in samples[f"{way}-{percentile}"]])
    for size in SIZES:
        name = size_name(size)
        rate = [s / 1e6 for s in samples[f"{way}-stream-{name}"]]
        figures.add(f"{way}-throughput-{name}", "MB/s", rate,
                    model=model.throughput(size) / 1e6 if modelled else None)  # fmt: skip
    figures.add(f"{way}-message-rate-64", "1/s", samples[f"{way}-stream-rate-64"],
                model=model.messages(2, 128) if modelled else None)  # fmt: skip
    figures.add(f"{way}-message-rate-64-each", "1/s", samples[f"{way}-each-rate-64"])


def ratio(figures, name, ours, theirs, target=None, later=None):
    figures.add(name, "ratio", [a / b for a, b in zip(ours, theirs)], target, later=later)


def _compare(figures, samples, backends, how):
    """With the faster of the backends, run by run."""

    def best(what, choose):
        return [choose(of) for of in zip(*(samples[f"tcp-{name}-{how}-{what}"] for name in backends))]

    trip = best("round-trip-8", min)
    ratio(figures, f"channel-{how}-round-trip-8-to-tcp", samples[f"channel-{how}-round-trip-8"], trip)
    ratio(figures, f"qp-{how}-round-trip-8-to-tcp", samples[f"qp-{how}-round-trip-8"], trip,
          "<=0.1" if how == "polled" else "<=1")  # fmt: skip
    for kind, target in (("channel", None), ("qp", ">=2")):
        way = f"{kind}-{how}"
        # As many messages share a call on either side.
        ratio(figures, f"{way}-message-rate-64-to-tcp", samples[f"{way}-stream-rate-64"],
              best("stream-rate-64", max), target)  # fmt: skip
        ratio(figures, f"{way}-message-rate-64-each-to-tcp", samples[f"{way}-each-rate-64"],
              best("each-rate-64", max))  # fmt: skip
        for size in ("32k", "1m", "4m"):
            ratio(figures, f"{way}-throughput-{size}-to-tcp", samples[f"{way}-stream-{size}"],
                  best(f"stream-{size}", max), target)  # fmt: skip
    for size in ("32k", "1m", "4m"):
        ratio(figures, f"qp-write-{how}-throughput-{size}-to-tcp", samples[f"qp-write-{how}-write-{size}"],
              best(f"stream-{size}", max), ">=2", ">=5" if size == "1m" else None)  # fmt: skip
