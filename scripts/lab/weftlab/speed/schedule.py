# SPDX-License-Identifier: GPL-2.0
"""What the processors of hosts did while something ran: how often they switched between tasks and took interrupts,
and how much of the time they had nothing to do. Counts of the guests' own kernels, of all that ran."""

import contextlib

# Of a connection or a request, both hosts together; the last one is the share of the time of their processors.
COUNTED = ("switches", "interrupts", "idle")


def _read(host):
    """Context switches, interrupts, and ticks: idle, all."""
    rows = {words[0]: words[1:] for words in map(str.split, host.out("cat /proc/stat").splitlines())}
    ticks = [int(word) for word in rows["cpu"]]
    # idle and iowait; guest time is part of user time.
    return int(rows["ctxt"][0]), int(rows["intr"][0]), ticks[3] + ticks[4], sum(ticks[:8])


@contextlib.contextmanager
def counted(samples, hosts, way, count):
    """Adds samples of what happens meanwhile, in `count` equal pieces, to those of the way."""
    before = [_read(host) for host in hosts]
    yield
    after = [_read(host) for host in hosts]
    switches, interrupts, idle, ticks = (sum(now) - sum(then) for now, then in zip(zip(*after), zip(*before)))
    samples.add(f"{way}-switches", switches / count)
    samples.add(f"{way}-interrupts", interrupts / count)
    samples.add(f"{way}-idle", idle / ticks if ticks else 0)


def report(figures, samples, way, name):
    """Writes them down under a name."""
    for what in COUNTED:
        figures.add(f"{name}-{what}", "ratio" if what == "idle" else "1/operation", samples[f"{way}-{what}"])
