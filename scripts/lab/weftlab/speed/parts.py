# SPDX-License-Identifier: GPL-2.0
"""What is measured: each part runs in machines of its own and adds its figures.

All ways take turns in each run, so that what else the machine does falls on all of them alike.
"""

import contextlib
import json

from .. import paths, topology
from ..errors import LabError
from ..lab import Lab
from . import model, network, ways
from .figures import size_name

SIZES = (8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20)
ROUND_TRIPS = dict(zip(SIZES, (200, 200, 200, 100, 20, 4, 2, 1)))
STREAMED = 8 << 20
MESSAGES = 4000
# Of what is counted, not timed: enough that the ports' other messages do not show.
COUNTED = 4096


def _stream(size):
    return f"stream:{size}:{max(2, min(MESSAGES, STREAMED // size))}"


JOBS = [f"round-trip:{size}:{count}" for size, count in ROUND_TRIPS.items()]
JOBS += [_stream(size) for size in SIZES]


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
def _machines(say, backends):
    with Lab("bench", say) as lab:
        lab.join(topology.chain(2))
        for host, peer in (("h1", "h2"), ("h2", "h1")):
            lab.add(
                host,
                extra=network.arguments(host, peer, lab.sockets, backends),
                shares={"modules": paths.modules(), "bench": paths.env("bench")},
            )
        lab.boot().load()
        yield lab


def _take(samples, way, found):
    """Of a run over one way: seconds there and back, bytes and messages a second."""
    for (job, size), (seconds, count) in found.items():
        name = f"{way}-{job}-{size_name(size)}"
        samples.add(name, seconds / count if job == "round-trip" else size * count / seconds)
        if job == "stream" and size == 64:
            samples.add(f"{way}-rate-64", count / seconds)


def speed(figures, say, runs):
    """Latency, throughput and message rate: channels, TCP, Soft-RoCE."""
    backends = list(network.BACKENDS)
    missing = network.prepare(["h1", "h2"])
    if missing:
        say(f"no taps here, only sockets between the machines: {missing}")
        backends.remove("tap")
    samples = Samples()
    with _machines(say, backends) as lab:
        for host in lab.hosts.values():
            network.configure(host, backends)
        backends = network.ready(lab["h1"], "h2", backends)
        if not backends:
            raise LabError("virtio-net carries nothing between the two machines")
        rdma = all(ways.soft_roce(host, backends[-1]) for host in lab.hosts.values())
        say(f"virtio-net over {' and '.join(backends)}; Soft-RoCE {'works' if rdma else 'does not work'}")
        for run in range(runs):
            for how in ("polled", "sleeping"):
                _take(samples, f"channel-{how}", ways.channel(lab, how, JOBS))
            for backend in backends:
                _take(samples, f"tcp-{backend}", ways.tcp(lab, backend, JOBS))
            if rdma:
                half = ways.perftest(lab, backends[-1], "ib_send_lat", 4, "-s 8 -n 200")
                samples.add("soft-roce-round-trip-8", 2e-6 * half)
                mib = ways.perftest(lab, backends[-1], "ib_write_bw", 3, "-s 1048576 -n 8 -t 4")
                samples.add("soft-roce-stream-1m", mib * (1 << 20))
            say(f"speed: run {run + 1} of {runs}")
    _speed_figures(figures, samples, backends)


def _speed_figures(figures, samples, backends):
    way_names = ["channel-polled", "channel-sleeping", *(f"tcp-{name}" for name in backends)]
    for way in way_names:
        modelled = way == "channel-polled"
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
    if "soft-roce-round-trip-8" in samples:
        trip = [1e6 * s for s in samples["soft-roce-round-trip-8"]]
        figures.add("soft-roce-round-trip-8", "us", trip)
        rate = [s / 1e6 for s in samples["soft-roce-stream-1m"]]
        figures.add("soft-roce-throughput-1m", "MB/s", rate)

    # Against the faster of the backends, run by run.
    def best(what, choose):
        return [choose(of) for of in zip(*(samples[f"tcp-{name}-{what}"] for name in backends))]

    for how in ("polled", "sleeping"):
        pairs = zip(samples[f"channel-{how}-round-trip-8"], best("round-trip-8", min))
        figures.add(f"channel-{how}-round-trip-8-to-tcp", "ratio", [a / b for a, b in pairs],
                    "<=0.2" if how == "polled" else None)  # fmt: skip
    pairs = zip(samples["channel-polled-stream-1m"], best("stream-1m", max))
    figures.add("channel-polled-throughput-1m-to-tcp", "ratio", [a / b for a, b in pairs])


def tlps(figures, say, runs):
    """What messages cost under load, on the wire and in interrupts: each TLP is counted."""
    with _machines(say, []) as lab:
        samples = Samples()
        for run in range(runs):
            for how in ("polled", "sleeping"):
                for node in lab.hosts:
                    lab.fabric.trace(node, True)
                    lab.fabric.counters(node, clear=True)
                before = ways.interrupts(lab["h2"])
                ways.channel(lab, how, [f"flood:64:{COUNTED}"])
                taken = ways.interrupts(lab["h2"]) - before
                there, back = (lab.fabric.counters(node) for node in lab.hosts)
                for node in lab.hosts:
                    lab.fabric.trace(node, False)
                name = f"channel-{how}"
                samples.add(f"{name}-posted", (there["tx_mwr"] + back["tx_mwr"]) / COUNTED)
                samples.add(f"{name}-read", there["tx_mrd"] + back["tx_mrd"])
                samples.add(f"{name}-credit", back["tx_mwr"] / COUNTED)
                samples.add(f"{name}-interrupts", taken / COUNTED)
            say(f"tlps: run {run + 1} of {runs}")
    for how in ("polled", "sleeping"):
        name = f"channel-{how}"
        figures.add(f"{name}-posted-tlps-64", "TLPs/message", samples[f"{name}-posted"])
        figures.add(f"{name}-non-posted-tlps-64", "TLPs", samples[f"{name}-read"], "<=0")
        figures.add(f"{name}-credit-writes-64", "TLPs/message", samples[f"{name}-credit"], "<=0.0625")
    figures.add("channel-sleeping-interrupts-64", "1/message", samples["channel-sleeping-interrupts"],
                "<=0.03125")  # fmt: skip


def instructions(figures, say, _runs):
    """Instructions a message: both ends in one guest whose clock counts them."""
    with Lab("bench-counted", say) as lab:
        lab.join(topology.chain(2, prefix="n"))
        host = lab.add("host", ["n1", "n2"], counted=True)
        lab.boot().load()
        out = host.run(f"{ways.PROGRAM} instructions 0 1", 300).out
    samples = Samples()
    for line in out.splitlines():
        one = json.loads(line)
        samples.add(one["job"], one["instructions"])
    for job in ("send", "receive"):
        figures.add(f"channel-{job}-64-instructions", "instructions", samples[job], "<=500")


ALL = {"speed": speed, "tlps": tlps, "instructions": instructions}
