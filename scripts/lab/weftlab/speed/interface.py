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
JOBS = jobs("round-trip", ROUND_TRIPS) + jobs("stream", {size: min(MESSAGES, STREAMED // size) for size in SIZES})
# From this size on a stream is to be this much faster; a shorter one not slower.
LARGE, TARGET_LARGE, TARGET_SMALL, TARGET_TRIP = 16 << 10, ">=1.2", ">=1", "<=0.8"


def measure(figures, say, runs):
    """TCP over the Ethernet interface, beside TCP over virtio-net"""
    samples = Samples()
    with networked(say) as (lab, backends):
        network.interfaces(list(lab.hosts.values()))
        for run in range(runs):
            for how in HOW:
                for way in (*backends, network.WEFT):
                    take(samples, f"{way}-{how}", ways.tcp(lab, way, how, JOBS))
            say(f"run {run + 1} of {runs}")
    for how in HOW:
        beside_virtio_net(figures, samples, backends, how, "net", network.WEFT, TARGET_TRIP,
                          lambda size: TARGET_LARGE if size >= LARGE else TARGET_SMALL)  # fmt: skip


def beside_virtio_net(figures, samples, backends, how, name, way, trip, throughput):
    """Reports the jobs over `way`, by this name, and with the faster of the backends, run by run. `trip`: the target
    of the shortest; `throughput`: returns that of a size."""
    ours = f"{way}-{how}"

    def best(what, choose):
        return [choose(of) for of in zip(*(samples[f"{backend}-{how}-{what}"] for backend in backends))]

    for size in ROUND_TRIPS:
        what = f"round-trip-{size_name(size)}"
        figures.add(f"{name}-{how}-{what}", "us", [1e6 * s for s in samples[f"{ours}-{what}"]])
        ratio(figures, f"{name}-{how}-{what}-to-virtio-net", samples[f"{ours}-{what}"], best(what, min),
              trip if size == min(ROUND_TRIPS) else None)  # fmt: skip
    for percentile in PERCENTILES:
        figures.add(f"{name}-{how}-round-trip-8-{percentile}", "us",
                    [1e6 * s for s in samples[f"{ours}-{percentile}"]])  # fmt: skip
    for size in SIZES:
        what, figure = f"stream-{size_name(size)}", f"{name}-{how}-throughput-{size_name(size)}"
        figures.add(figure, "MB/s", [s / 1e6 for s in samples[f"{ours}-{what}"]])
        ratio(figures, f"{figure}-to-virtio-net", samples[f"{ours}-{what}"], best(what, max), throughput(size))
