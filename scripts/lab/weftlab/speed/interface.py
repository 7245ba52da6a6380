# SPDX-License-Identifier: GPL-2.0
"""TCP over the Ethernet interface of the ports, beside TCP over virtio-net: the same program, between the same two
machines, which knows of neither."""

from . import network, ways
from .figures import size_name
from .machines import Samples, networked
from .times import HOW, PERCENTILES, SIZES, jobs, ratio, take

ROUND_TRIPS = {8: 400, 64: 100, 4096: 50, 32768: 20}
STREAMED = 16 << 20
MESSAGES = 4096
STREAM_SIZES = [size for size in SIZES if size >= 64]
STREAMS = {size: min(MESSAGES, STREAMED // size) for size in STREAM_SIZES}
JOBS = jobs("round-trip", ROUND_TRIPS) + jobs("stream", STREAMS)
# From this size on a stream is to be this much faster; a shorter one not slower.
LARGE, TARGET_LARGE, TARGET_SMALL, TARGET_TRIP = 16 << 10, ">=1.2", ">=1", "<=0.8"


def measure(figures, say, runs):
    """TCP over the Ethernet interface, beside TCP over virtio-net"""
    samples = Samples()
    with networked(say) as (lab, backends):
        network.interface(list(lab.hosts.values()))
        for run in range(runs):
            for how in HOW:
                for way in (*backends, network.WEFT):
                    take(samples, f"{way}-{how}", ways.tcp(lab, way, how, JOBS))
            say(f"run {run + 1} of {runs}")
    for how in HOW:
        _report(figures, samples, backends, how)


def _report(figures, samples, backends, how):
    ours = f"{network.WEFT}-{how}"

    def best(what, choose):
        return [choose(of) for of in zip(*(samples[f"{name}-{how}-{what}"] for name in backends))]

    for size in ROUND_TRIPS:
        name = f"round-trip-{size_name(size)}"
        figures.add(f"net-{how}-{name}", "us", [1e6 * s for s in samples[f"{ours}-{name}"]])
        ratio(figures, f"net-{how}-{name}-to-virtio-net", samples[f"{ours}-{name}"], best(name, min),
              TARGET_TRIP if size == min(ROUND_TRIPS) else None)  # fmt: skip
    for percentile in PERCENTILES:
        figures.add(f"net-{how}-round-trip-8-{percentile}", "us", [1e6 * s for s in samples[f"{ours}-{percentile}"]])
    for size in STREAM_SIZES:
        name = f"stream-{size_name(size)}"
        figures.add(f"net-{how}-throughput-{size_name(size)}", "MB/s", [s / 1e6 for s in samples[f"{ours}-{name}"]])
        ratio(figures, f"net-{how}-throughput-{size_name(size)}-to-virtio-net", samples[f"{ours}-{name}"],
              best(name, max), TARGET_LARGE if size >= LARGE else TARGET_SMALL)  # fmt: skip
