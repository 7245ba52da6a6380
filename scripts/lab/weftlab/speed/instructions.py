# SPDX-License-Identifier: GPL-2.0
"""What messages cost the processor, from user to user: a guest whose clock counts instructions.

What is counted, and what is left out, is in tools/bench/src/instructions.rs and the files of its folder.
"""

import contextlib

from .. import paths, topology
from ..lab import Lab
from . import calls, network, ways
from .figures import size_name
from .machines import Samples

# By way and end: the target, and the one after it.
TARGETS = {
    "channel-send-64": ("<=500", None),
    "channel-receive-64": ("<=500", None),
    "qp-send-64": ("<=4000", None),
    "qp-receive-64": (None, None),
    "qp-batched-send-64": ("<=1500", None),
    "qp-batched-receive-64": ("<=2200", "<=1500"),
    "qp-256-pairs-send-64": (None, None),
    "qp-256-pairs-receive-64": (None, None),
    "qp-write-32k": (None, None),
    "qp-write-1m": (None, None),
    "qp-sleeping-round-trip-64": (None, None),
    "qp-events-round-trip-64": (None, None),
    "socket-send-64": (None, None),
    "socket-receive-64": (None, None),
    "socket-batched-send-64": (None, None),
    "socket-batched-receive-64": (None, None),
    "socket-32k": (None, None),
    "socket-1m": (None, None),
    "socket-sleeping-round-trip-64": (None, None),
    "socket-connection-1": (None, None),
    "match-send-64": ("<=2000", None),
    "match-append-64": (None, None),
    **{f"match-{kind}-{depth}-64": ("<=2500" if depth == 1 else None, None)
       for kind in ("exact", "wildcard") for depth in (1, 64, 1024, 16000)},
}
# TCP's ends, and what interrupts do between them, for both.
TCP = [f"{way}-{part}-64" for way in ("tcp", "tcp-batched") for part in ("send", "receive", "between")]
TCP += ["tcp-32k", "tcp-1m", "tcp-sleeping-round-trip-64", "tcp-connection-1"]
# The same over the interfaces of the ports.
NET = [name.replace("tcp", "net", 1) for name in TCP]
# Both network cards are the guest's, and both interfaces of ports; the second one's is another network namespace.
ENDS = ("n1", "n2")
NAMESPACE = "there"
TCP_ENDS = f"tcp {NAMESPACE} {network.address('tap', ENDS[1])}:7000"
NET_ENDS = f"tcp {NAMESPACE} {network.address(network.WEFT, ENDS[1])}:7000"
# The same under weft-run, connections alone.
RUN_ENDS = f"connections {NAMESPACE} {network.address(network.WEFT, ENDS[1])}:7003"
# Ends of a connection whose calls of the kernel are counted.
CALLING = ("connecting", "accepting")


def _run(samples, host, words, called=None, before=""):
    """`called`: what TCP is, in the names of the counts. `before`: what runs the program."""
    out = host.run(f"{before} {ways.PROGRAM} instructions {words}", ways.PATIENCE).out
    for one in ways.parsed(out):
        job = one["job"].replace("tcp", called or "tcp", 1)
        samples.add(f"{job}-{size_name(one['bytes'])}", one.get("instructions", one.get("doorbells")))


@contextlib.contextmanager
def machine(name, say):
    """The lab, its guest, and why there is no TCP in that, or None."""
    missing = network.prepare(ENDS)
    if missing:
        say(f"no taps here, so that TCP is left out: {missing}")
    cards = [] if missing else [
        word for end in ENDS for word in network.arguments(end, None, None, ["tap"])
    ]  # fmt: skip
    with Lab(name, say) as lab:
        lab.join(topology.chain(2, prefix="n"))
        host = lab.add("host", list(ENDS), counted=True, extra=cards, shares={"modules": paths.modules()})
        lab.boot().load()
        host.run(f"ip netns add {NAMESPACE}")
        yield lab, host, missing


def join_by_tcp(host):
    network.configure(host, ["tap"], ENDS[0])
    network.configure(host, ["tap"], ENDS[1], NAMESPACE)


def join_by_interfaces(host):
    """Those of the two ports."""
    for port, (end, namespace) in enumerate(zip(ENDS, (None, NAMESPACE))):
        network.interface(host, end, port, f"{network.WEFT}{port}n", namespace)
    network.has_carrier(host, f"{network.WEFT}0n")


def under_run(host):
    """Has AF_VSOCK there, for what runs under weft-run; the interfaces are there."""
    host.stock_module("vsock")
    host.run(f"insmod {network.TRANSPORT}")


def moved(host):
    """As :func:`network.moved`, of the connections of this part."""
    return network.moved(host, calls.CONNECTIONS, f"{network.WEFT}0n")


def connections_under_run(samples, host):
    """What a connection takes under weft-run, and how many calls of the kernel at either end, beside TCP."""
    under_run(host)
    at = network.address(network.WEFT, ENDS[1])
    for name, before in (("tcp", ""), ("run", ways.RUN)):
        with moved(host) if before else contextlib.nullcontext():
            for end, count in zip(CALLING, calls.each(host, NAMESPACE, f"{at}:7004", before)):
                samples.add(f"{name}-connection-{end}", count)
    with moved(host):
        _run(samples, host, RUN_ENDS, "run", ways.RUN)


def _tlps_of_matches(samples, lab, host):
    """What messages with match bits cost on the wire, by the ports' own counters."""
    for node in ENDS:
        lab.fabric.trace(node, True)
    for one in ways.parsed(host.run(f"{ways.PROGRAM} tlps 0 1", ways.PATIENCE).out):
        for what in ("posted", "read"):
            samples.add(f"match-{what}", one[what])
    for node in ENDS:
        lab.fabric.trace(node, False)


def measure(figures, say, _runs):
    """instructions a message: both ends in one guest whose clock counts them; TCP, too, over each kind of interface"""
    samples = Samples()
    with machine("bench-counted", say) as (lab, host, missing):
        _run(samples, host, "0 1")
        _tlps_of_matches(samples, lab, host)
        join_by_interfaces(host)
        _run(samples, host, NET_ENDS, "net")
        connections_under_run(samples, host)
        if not missing:
            join_by_tcp(host)
            _run(samples, host, TCP_ENDS)
    for name, (target, later) in TARGETS.items():
        figures.add(f"{name}-instructions", "instructions", samples[name], target, later=later)
    # Where nothing else has the processors: with those of `tlps` they tell what doorbells are rung for.
    for name in ("qp", "qp-batched"):
        figures.add(f"{name}-64-doorbells-undisturbed", "1/message", samples[f"{name}-doorbells-64"])
    for name in [*NET, *([] if missing else TCP)]:
        figures.add(f"{name}-instructions", "instructions", samples[name])
    figures.add("run-connection-1-instructions", "instructions", samples["run-connection-1"])
    figures.add("match-posted-tlps-64", "TLPs/message", samples["match-posted"], "<=3.1")
    figures.add("match-non-posted-tlps-64", "TLPs", samples["match-read"], "<=0")
    for kind in ("exact", "wildcard"):
        few, many = (samples[f"match-{kind}-{depth}-64"] for depth in (1, 16000))
        ratio = [b / a for a, b in zip(few, many)]
        figures.add(f"match-{kind}-16000-instructions-to-1", "ratio", ratio, "<=1.5")
    for name in ("tcp", "run"):
        for end in CALLING:
            figures.add(f"{name}-connection-{end}-system-calls", "1/connection", samples[f"{name}-connection-{end}"])
    if not missing:
        ours, theirs = (samples[f"{way}-sleeping-round-trip-64"] for way in ("qp", "tcp"))
        ratio = [a / b for a, b in zip(ours, theirs)]
        figures.add("qp-sleeping-round-trip-64-instructions-to-tcp", "ratio", ratio, "<=1")
