# SPDX-License-Identifier: GPL-2.0
"""Why times are not better, as far as counts of instructions tell: what a message takes by one way and by the other."""

# By how a ratio's name ends: what is done, and the counts that make it up, of queue pairs and of TCP.
_BATCHED = ("a message of 64 B in a batch of 16", ("qp-batched-send-64", "qp-batched-receive-64"),
            ("tcp-batched-send-64", "tcp-batched-receive-64", "tcp-batched-between-64"))  # fmt: skip
_WRITTEN = ("32 KiB", ("qp-write-32k",), ("tcp-32k",))
_COUNTS = {
    "message-rate-64-to-tcp": _BATCHED,
    "throughput-32k-to-tcp": _WRITTEN,
    "sleeping-round-trip-8-to-tcp": ("a round trip of ends that sleep", ("qp-sleeping-round-trip-64",),
                                     ("tcp-sleeping-round-trip-64",)),
}  # fmt: skip


def _sum(names, figures):
    found = [figures.get(f"{name}-instructions") for name in names]
    return sum(figure.value for figure in found) if all(found) else None


def of(name, figures):
    """The reason for the figure of this name, or None."""
    for end, (what, ours, theirs) in _COUNTS.items():
        if name.endswith(end):
            ours, theirs = _sum(ours, figures), _sum(theirs, figures)
            if ours and theirs:
                return (f"both ends together, {what} takes {ours:.0f} instructions by queue pairs and "
                        f"{theirs:.0f} by TCP")  # fmt: skip
    return None
