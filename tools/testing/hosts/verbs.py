# SPDX-License-Identifier: GPL-2.0
"""Queue pairs between two hosts, by the library: weft-verbs, requirement by requirement, and the
examples as the manual has them."""

import contextlib
import re

from weftlab import paths
from weftlab.errors import Mismatch
from weftlab.speed import tlps, ways
from weftlab.suite import test

LAB = "pair"
PATIENCE = 300
# What can be pulled, by its bit in the number of a protocol, and which host reads it over the bridge:
# h1 asks for everything that weft-verbs does. Data go either way, as messages and by reads.
PULLED = {1: {"h2"}, 2: {"h1", "h2"}, 4: {"h1"}}
# Masks of WEFT_PULL_*, all there are.
PROTOCOLS = range(8)
MANUAL = paths.TOP / "Documentation" / "uapi.rst"


def verbs(lab, *protocol):
    """Runs both ends; (what the connecting end reports, what the other one does)."""
    words = " ".join(map(str, ("0 7300", *protocol)))
    listener = lab["h2"].start_job(f"/mnt/tools/weft-verbs listen {words}")
    listener.expect("^listening", 60)
    done = lab["h1"].run(f"/mnt/tools/weft-verbs connect {words}", PATIENCE, status=None)
    other = listener.wait(120)
    return done, other


@contextlib.contextmanager
def counted(lab):
    """Counts every TLP meanwhile: what comes of it is a dict of each node's counters."""
    counts = {}
    for node in lab.hosts:
        lab.fabric.trace(node, True)
        lab.fabric.counters(node, clear=True)
    try:
        yield counts
        counts.update((node, lab.fabric.counters(node)) for node in lab.hosts)
    finally:
        for node in lab.hosts:
            lab.fabric.trace(node, False)


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


def all_results(done, other):
    """The same, if there are as many as were planned."""
    parts = list(results(done, other))
    yield from parts
    planned = re.search(r"^1\.\.(\d+)", done.out, re.M)
    if not planned or int(planned[1]) != len(parts):
        raise Mismatch(f"{len(parts)} tests were run:\n{done.out}{done.err}\n{other.out}{other.err}")


@test("queue pairs")
def queue_pairs(bench):
    """Each requirement in turn; not one read crosses the bridge on the way."""
    lab = bench.pair()
    with counted(lab) as counts:
        done, other = verbs(lab)
    yield from all_results(done, other)
    reads = {node: counters["tx_mrd"] for node, counters in counts.items()}
    yield (
        "P-1 not one non-posted request crosses the bridge",
        not any(reads.values()) and all(c["tx_mwr"] for c in counts.values()),
        f"reads: {reads}",
        None,
        None,
    )


@test("protocols")
def protocols(bench):
    """What moves something, by each protocol: an end that pulls reads, and no other."""
    lab = bench.pair()
    for number in PROTOCOLS:
        with counted(lab) as counts:
            done, other = verbs(lab, number)
        yield from all_results(done, other)
        wanted = {host for bit, hosts in PULLED.items() if number & bit for host in hosts}
        reads = {node: counters["tx_mrd"] for node, counters in counts.items()}
        name = "/".join("pull" if number & bit else "push" for bit in PULLED)
        yield (
            f"Q-3 {name}: {' and '.join(sorted(wanted)) or 'neither end'} reads over the bridge",
            {node for node, count in reads.items() if count} == wanted,
            f"reads: {reads}",
            None,
            None,
        )


@test("what messages cost", long=True)
def costs(bench):
    """Each TLP is counted. One by one: the least of a few, since a guest that does not get its
    processor for a while may have to be rung for, or answers several messages by one write."""
    lab = bench.pair()
    posted, reads, doorbells = (min(of) for of in zip(*(tlps.single(lab) for _ in range(3))))
    yield (
        "Q-2 a send of 64 bytes and its completion: 3 posted writes, no read, no doorbell",
        2 < posted <= 3.1 and not reads and not doorbells,
        f"a message: {posted} posted writes, {reads} reads, {doorbells} doorbells",
        None,
        None,
    )
    load = [f"flood:64:{tlps.LOADED}"]
    for how in ("polled", "sleeping"):
        counted = [tlps.count(lab, ways.qp, how, load)[1:] for _ in range(3)]
        back, said = min(counted, key=lambda each: each[0]["tx_mwr"] - each[1])
        yield (
            f"Q-2 under load, {how}: one write in 16 messages says what was taken",
            said and back["tx_mwr"] - said <= tlps.LOADED / 16,
            f"{back['tx_mwr']} writes back, {said} of them of messages",
            None,
            None,
        )
    # The least of a few, here too: a sender that has no processor for a while lets it sleep.
    taken = min(tlps.interrupts(lab, ways.qp) for _ in range(3))
    yield (
        "Q-2 under load, sleeping: one interrupt in 32 messages",
        taken <= 1 / 32,
        f"{taken} interrupts a message",
        None,
        None,
    )


def examples():
    """Of the manual: (what h2 is told, what h1 is told, what one of them says then)."""
    found = re.findall(r"^\t\th2# (.*)\n\t\th1# (.*)\n\t\t(.*)$", MANUAL.read_text(), re.M)
    if len(found) < 3:
        raise Mismatch(f"{MANUAL} has {len(found)} examples with both their commands")
    return found


@test("examples")
def as_written(bench):
    """The library's examples, by the very commands of the manual."""
    lab = bench.pair()
    for there, here, said in examples():
        path = "export PATH=/mnt/tools/examples:$PATH;"
        listener = lab["h2"].start_job(f"{path} {there}")
        listener.expect("^listening", 60)
        done = lab["h1"].run(f"{path} {here}", PATIENCE, status=None)
        other = listener.wait(120)
        pattern = ".+".join(map(re.escape, said.split("…")))
        yield (
            f"example: {here}",
            not done.status and not other.status and bool(re.search(f"^{pattern}$", done.out, re.M)),
            f"wanted: {said}\nh1: {done.out}{done.err}\nh2: {other.out}{other.err}",
            None,
            None,
        )
