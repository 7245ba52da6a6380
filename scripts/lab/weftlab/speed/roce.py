# SPDX-License-Identifier: GPL-2.0
"""What Soft-RoCE costs the processors, both ends together: two guests whose clocks count instructions.

A program of perftest does a number of messages, and then more; the difference is what the further ones take,
in the programs, in the kernel and in interrupts. What is left over for an idle thread is not counted
(tools/bench/src/instructions/asleep.rs).
"""

from . import ways
from .machines import Samples, networked

# By figure: the program with its options, and the two numbers of messages.
JOBS = {
    "soft-roce-64": ("ib_send_bw", "-s 64 -t 16 -n", (512, 2048)),
    "soft-roce-32k": ("ib_send_bw", "-s 32768 -t 4 -n", (32, 160)),
    "soft-roce-1m": ("ib_send_bw", "-s 1048576 -t 4 -n", (8, 24)),
}


def _spent(lab, backend, test, options):
    outs = ways.perftest_ends(lab, backend, test, options, f"{ways.PROGRAM} spent")
    return sum(one["instructions"] for out in outs for one in ways.parsed(out))


def measure(figures, say, runs):
    """instructions that Soft-RoCE takes for a message"""
    samples = Samples()
    with networked(say, counted=True) as (lab, backends):
        if not all(ways.soft_roce(host, backends[-1]) for host in lab.hosts.values()):
            say("Soft-RoCE does not work here")
            return
        for run in range(runs):
            for name, (test, options, (few, more)) in JOBS.items():
                spent = [_spent(lab, backends[-1], test, f"{options} {count}") for count in (few, more)]
                samples.add(name, (spent[1] - spent[0]) / (more - few))
            say(f"run {run + 1} of {runs}")
    for name in JOBS:
        figures.add(f"{name}-instructions", "instructions", samples[name])
