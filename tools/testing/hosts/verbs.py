# SPDX-License-Identifier: GPL-2.0
"""Queue pairs between two hosts, by the library: weft-verbs, requirement by requirement."""

import re

from weftlab.errors import Mismatch
from weftlab.suite import test

PATIENCE = 300


def verbs(lab):
    """Runs both ends; (what the connecting end reports, what the other one does)."""
    listener = lab["h2"].start_job("/mnt/tools/weft-verbs listen 0 7300")
    listener.expect("^listening", 60)
    done = lab["h1"].run("/mnt/tools/weft-verbs connect 0 7300", PATIENCE, status=None)
    other = listener.wait(120)
    return done, other


def results(done, other):
    """Of TAP, as the parts of a test."""
    said = []
    for line in done.out.splitlines():
        found = re.match(r"(not )?ok \d+ - (.*)", line)
        if found:
            why = "\n".join([*said, other.out[-1000:], other.err[-1000:]])
            yield found[2], not found[1], why, None, None
            said = []
        elif line.startswith("#"):
            said.append(line[2:])


@test("queue pairs")
def queue_pairs(bench):
    """Each requirement in turn; not one read crosses the bridge on the way."""
    lab = bench.pair()
    nodes = list(lab.hosts)
    for node in nodes:
        lab.fabric.trace(node, True)
        lab.fabric.counters(node, clear=True)
    try:
        done, other = verbs(lab)
        counted = {node: lab.fabric.counters(node) for node in nodes}
    finally:
        for node in nodes:
            lab.fabric.trace(node, False)
    parts = list(results(done, other))
    yield from parts
    planned = re.search(r"^1\.\.(\d+)", done.out, re.M)
    if not planned or int(planned[1]) != len(parts):
        raise Mismatch(f"{len(parts)} tests were run:\n{done.out}{done.err}\n{other.out}{other.err}")
    reads = {node: counters["tx_mrd"] for node, counters in counted.items()}
    yield (
        "P-1 not one non-posted request crosses the bridge",
        not any(reads.values()) and all(c["tx_mwr"] for c in counted.values()),
        f"reads: {reads}",
        None,
        None,
    )
