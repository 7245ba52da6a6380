# SPDX-License-Identifier: GPL-2.0
"""What a message costs the processor, from user to user: a guest whose clock counts instructions.

What is counted, and what is left out, is in tools/bench/src/instructions.rs.
"""

import json

from .. import topology
from ..lab import Lab
from . import ways
from .machines import Samples

# By way: the target of either end.
TARGETS = {"channel": "<=500", "qp": None, "qp-batched": "<=1500"}


def measure(figures, say, _runs):
    """instructions a message: both ends in one guest whose clock counts them"""
    with Lab("bench-counted", say) as lab:
        lab.join(topology.chain(2, prefix="n"))
        host = lab.add("host", ["n1", "n2"], counted=True)
        lab.boot().load()
        out = host.run(f"{ways.PROGRAM} instructions 0 1", 300).out
    samples = Samples()
    for line in out.splitlines():
        one = json.loads(line)
        samples.add(one["job"], one["instructions"])
    for way, target in TARGETS.items():
        for job in ("send", "receive"):
            name = f"{way}-{job}"
            figures.add(f"{name}-64-instructions", "instructions", samples[name], target)
