# SPDX-License-Identifier: GPL-2.0
"""The physical pool: memory of the driver's own from which the DMA channel of a port reads small commands. A
tracepoint tells which address each descriptor names."""

import re

from weftlab.errors import Mismatch
from weftlab.suite import test

from .trace import PROGRAM, TRACING, prepared

LAB = "loopback"
EVENTS = ("weft_dma", "weft_word")
# rust/mem/pool.rs: bytes of a command, and how many there are. The pool begins with a page, and those with the
# highest tagged offsets are taken first.
COMMAND, COMMANDS, PAGE = 256, 512, 4096
# Bytes of a control word.
WORD = 8
DESCRIPTOR = re.compile(r"weft_dma: dev=(\S+) .* addr=0x(\w+) bytes=(\d+) elements=(\d+)")
# Says that data have been moved.
DONE = re.compile(r"weft_word: dev=(\S+) link=\d+ sent .* code=DONE ")


def traced(host):
    """Of requests with data that a DMA channel moves, by function: (addresses of the words that the channel moves,
    how many words say that data have been moved)."""
    events = f"{TRACING}/events/weft"
    host.run(f"echo >{TRACING}/trace")
    try:
        for event in EVENTS:
            host.run(f"echo 1 >{events}/{event}/enable")
        host.run(PROGRAM, 120)
    finally:
        for event in EVENTS:
            host.run(f"echo 0 >{events}/{event}/enable")
    addresses, done = {}, {}
    for line in host.out(f"cat {TRACING}/trace").splitlines():
        if found := DESCRIPTOR.search(line):
            function, address, size, elements = found.groups()
            if (int(size), int(elements)) == (WORD, 0):
                addresses.setdefault(function, []).append(int(address, 16))
        elif found := DONE.search(line):
            done[found[1]] = done.get(found[1], 0) + 1
    return addresses, done


@test("M-3, M-4: a command that follows data is read from the pool, at its base and tagged offset, each time anew")
def commands(bench):
    host = prepared(bench)
    rounds = [traced(host) for _ in range(2)]
    for addresses, done in rounds:
        if len(done) != 2:
            raise Mismatch(f"both functions are to move data; words that say so: {done}")
        for function, count in done.items():
            words = addresses.get(function, [])
            if len(words) < count:
                raise Mismatch(f"{function}: {count} words say that data have moved, {len(words)} come from memory")
    for function in rounds[0][1]:
        seen = sorted({address for addresses, _ in rounds for address in addresses[function]})
        shown = " ".join(map(hex, seen))
        if seen[-1] - seen[0] >= COMMAND * COMMANDS or any(address % COMMAND for address in seen):
            raise Mismatch(f"{function}: these are no commands of one pool: {shown}")
        if all(address % PAGE == 0 for address in seen):
            raise Mismatch(f"{function}: the tagged offset is missing in the address: {shown}")
