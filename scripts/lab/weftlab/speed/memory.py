# SPDX-License-Identifier: GPL-2.0
"""What matching takes of the memory of hosts: of a list entry, an interface, a port, a peer, and of so many ranks.

Counts, not estimates: what the driver allocates between two ports of one guest, as its kernel tells of each allocation
(tools/bench/src/allocated.rs), and what the logic takes with peers that are not there, by its own code
(tools/bench/src/simulated.rs). Figures of the latter, and those that are computed of others, have "simulated" in their
names."""

import re

from .. import topology
from ..errors import LabError
from ..lab import Lab
from . import ways
from .machines import Samples

RANKS = (8, 64, 512)
NODES = ("n1", "n2")
# 512 interfaces, and the program.
MEMORY = 1024
# Freed memory is not kept for the next that wants some: what is counted is in use.
EXACT = "env GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
TRACING = "/sys/kernel/tracing"
# Limits that Documentation/matching.rst says.
TARGETS = {"entry": "<=136", "endpoint": "<=512"}
# A thread of the kernel that an interface has: its description and its stack are none of the driver's allocations.
_TASK = re.compile(r"^task_struct +\d+ +\d+ +(\d+) ", re.M)
# Which function is said to have allocated a stack depends on what the compiler has inlined.
_STACK = re.compile(r" (?:dup_task_struct|copy_process|kernel_clone|fork_idle)\+\S* pages=(\d+) ", re.M)
PAGE = 4096


def _run(samples, host, words):
    for one in ways.parsed(host.run(words, ways.PATIENCE).out):
        samples.add(one["what"], one["bytes"])


def thread(slabs, areas):
    """Bytes that the kernel has for a thread, by its lists of objects and of areas of memory."""
    task, stacks = _TASK.search(slabs), [int(pages) for pages in _STACK.findall(areas)]
    if not task or not stacks:
        raise LabError("the kernel does not say what a thread takes")
    return int(task.group(1)) + PAGE * max(stacks)


def peers(samples, count):
    """What a host takes, run by run, for one interface that has so many hosts for peers."""
    parts = zip(*(samples[part] for part in ("port", "engine", "interface", "peer")))
    return [port + engine + interface + count * peer for port, engine, interface, peer in parts]


def report(figures, samples):
    def add(name, values):
        figures.add(f"match-memory-{name}", "bytes", values, TARGETS.get(name))

    for name in ("entry", "endpoint", "interface", "thread", "engine", "port", "peer", "peer-arena"):
        add(name, samples[name])
    for count in RANKS:
        add(f"{count}-ranks", samples[f"{count}-ranks"])
        add(f"{count}-ranks-each", [one / count for one in samples[f"{count}-ranks"]])
        add(f"{count}-simulated-peers", peers(samples, count))
        add(f"{count}-simulated-peers-idle-lists", samples[f"{count}-peers-idle"])
        add(f"{count}-simulated-peers-busy-lists", samples[f"{count}-peers-busy"])
        add(f"{count}-simulated-addresses", samples[f"{count}-addresses"])


def measure(figures, say, runs):
    """memory of matching: what the driver allocates, and what its logic takes with peers that are simulated"""
    samples = Samples()
    ranks = " ".join(map(str, RANKS))
    with Lab("bench-memory", say) as lab:
        lab.join(topology.chain(2, prefix="n"))
        host = lab.add("host", list(NODES), cpus=2, memory=MEMORY)
        lab.boot().load()
        host.run(f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}")
        for run in range(runs):
            _run(samples, host, f"{EXACT} {ways.PROGRAM} simulated {ranks}")
            _run(samples, host, f"{ways.PROGRAM} matched 0 1 {ranks}")
            samples.add("thread", thread(host.out("cat /proc/slabinfo"), host.out("cat /proc/vmallocinfo")))
            say(f"run {run + 1} of {runs}")
    report(figures, samples)
