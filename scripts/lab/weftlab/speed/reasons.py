# SPDX-License-Identifier: GPL-2.0
"""Why times are not better, as far as counts tell: what a message takes by one way and by the other."""

import re

# What a ratio is called; what is done, and the counts that make it up, of ours and of the other way.
_PAIRS, _TCP = "queue pairs", "TCP"
_PORTS, _VIRTIO = "TCP over the ports", "TCP over virtio-net"
_SOCKETS = "native sockets"
_TRIP = "a round trip of ends that sleep"
_COUNTS = (
    ("(qp|channel)-.*-message-rate-64-to-tcp", "a message of 64 B in a batch of 16",
     _PAIRS, ("qp-batched-send-64", "qp-batched-receive-64"),
     _TCP, ("tcp-batched-send-64", "tcp-batched-receive-64", "tcp-batched-between-64")),
    ("qp-polled-message-rate-64-256-pairs-to-1", "a message of 64 B",
     "256 queue pairs, of which 8 messages share a call,", ("qp-256-pairs-send-64", "qp-256-pairs-receive-64"),
     "one, of which 16 do", ("qp-batched-send-64", "qp-batched-receive-64")),
    ("mpi-stream-(1|8|64|512)(-.-pairs)?-to-tcp", "a message of 64 B", "matching interfaces, which both ends poll,",
     ("match-append-64", "match-send-64", "match-exact-1-64"),
     _TCP, ("tcp-send-64", "tcp-receive-64", "tcp-between-64")),
    ("qp-.*-throughput-32k-to-tcp", "32 KiB", _PAIRS, ("qp-write-32k",), _TCP, ("tcp-32k",)),
    ("qp-sleeping-round-trip-8-to-tcp", _TRIP,
     _PAIRS, ("qp-sleeping-round-trip-64",), _TCP, ("tcp-sleeping-round-trip-64",)),
    ("net-sleeping-round-trip-8-to-virtio-net", _TRIP,
     _PORTS, ("net-sleeping-round-trip-64",), _VIRTIO, ("tcp-sleeping-round-trip-64",)),
    ("net-.*-throughput-(8|64|512|4k)-to-virtio-net", "a message of 64 B in a batch of 16",
     _PORTS, ("net-batched-send-64", "net-batched-receive-64", "net-batched-between-64"),
     _VIRTIO, ("tcp-batched-send-64", "tcp-batched-receive-64", "tcp-batched-between-64")),
    ("net-.*-throughput-32k-to-virtio-net", "32 KiB", _PORTS, ("net-32k",), _VIRTIO, ("tcp-32k",)),
    ("net-.*-throughput-.*-to-virtio-net", "1 MiB", _PORTS, ("net-1m",), _VIRTIO, ("tcp-1m",)),
    ("run-sleeping-round-trip-8-to-virtio-net", _TRIP,
     _SOCKETS, ("socket-sleeping-round-trip-64",), _VIRTIO, ("tcp-sleeping-round-trip-64",)),
    ("run-connections-to-virtio-net", "a connection with a byte each way",
     "programs under weft-run", ("run-connection-1",), _VIRTIO, ("tcp-connection-1",)),
    ("run-.*-throughput-32k-to-virtio-net", "32 KiB", _SOCKETS, ("socket-32k",), _VIRTIO, ("tcp-32k",)),
    ("run-.*-throughput-.*-to-virtio-net", "1 MiB", _SOCKETS, ("socket-1m",), _VIRTIO, ("tcp-1m",)),
)  # fmt: skip

# Of what is measured with all that runs: what is done, and the figures of ours and of the other way (schedule.py).
_SCHEDULED = (
    ("run-connections-to-virtio-net", "a connection of two programs",
     "under weft-run", "run-connections", _VIRTIO, "virtio-net-connections"),
)  # fmt: skip


def _sum(names, figures):
    found = [figures.get(f"{name}-instructions") for name in names]
    return sum(figure.value for figure in found) if all(found) else None


def _scheduled(name, figures):
    """What the processors of both hosts did besides, or None."""
    for pattern, what, our_way, ours, their_way, theirs in _SCHEDULED:
        if not re.fullmatch(pattern, name):
            continue
        found = [figures.get(f"{of}-{counted}") for of in (ours, theirs) for counted in ("switches", "interrupts")]
        if all(found):
            counts = [figure.value for figure in found]
            return (f"{what} takes {counts[0]:.0f} switches between tasks and {counts[1]:.0f} interrupts {our_way}, "
                    f"{counts[2]:.0f} and {counts[3]:.0f} by {their_way}")  # fmt: skip
    return None


def _instructions(name, figures):
    """What both ends together take, or None."""
    for pattern, what, our_way, ours, their_way, theirs in _COUNTS:
        if re.fullmatch(pattern, name):
            ours, theirs = _sum(ours, figures), _sum(theirs, figures)
            if ours and theirs:
                said = (f"both ends together, {what} takes {ours:.0f} instructions by {our_way} and "
                        f"{theirs:.0f} by {their_way}")  # fmt: skip
                return said if ours > theirs else f"{said}: they are not the reason"
            return None
    return None


def of(name, figures):
    """The reason for the figure of this name, or None."""
    rung = figures.get("qp-64-doorbells-undisturbed")
    if name == "qp-send-and-completion-64-doorbells" and rung:
        return (f"where nothing else has the processors the ends ring {rung.value:.3g} times a message: the engine asks for "
                "a doorbell when no program has run it for a while, as when the host does not run a guest")  # fmt: skip
    return "; ".join(filter(None, (_instructions(name, figures), _scheduled(name, figures)))) or None
