# SPDX-License-Identifier: GPL-2.0
"""Random programs of slots and entries, each access compared with the manual's rules in Python."""

import random

import regs as R
from fixture import Pair
from port import MEMORY, ONES, PAGE
from tap import each_seed, equal

STEPS = 150
# All that entries may lead to, and a guard of the same size on either side.
SHARED = 32 * PAGE
PLAIN = 0xa5
TOP = (1 << 64) - 1


class Entry:
    """An inbound entry, as the manual describes it."""

    def __init__(self, rng):
        self.enabled = rng.random() < 0.8
        self.offset = PAGE * rng.choice([0, 0, 1, 2, 8, (1 << 52) - 2])
        self.length = PAGE * rng.choice([0, 1, 2, 4, 8, 16, 16])
        self.base = MEMORY + PAGE * rng.randrange(24)
        if rng.random() < 0.1:
            field = rng.choice(["offset", "length", "base"])
            setattr(self, field, getattr(self, field) + rng.choice([1, 8, 2048]))
        self.rights = rng.choice([0, 1, 2, 3, 3, 3])
        self.allow = rng.choice([0, 1, 1, 1, 0xf, 0xe])

    def live(self):
        return (self.enabled and self.length and not (self.offset | self.length | self.base) % PAGE
                and self.offset + self.length - 1 <= TOP and self.base + self.length <= MEMORY + SHARED)

    def holds(self, offset):
        return self.live() and self.allow & 1 and self.offset <= offset < self.offset + self.length

    def program(self, port, n):
        port.set_inbound(n, self.offset, self.length, self.base, self.rights, self.allow, int(self.enabled))


class Slot:
    """An outbound slot, as the manual describes it."""

    def __init__(self, rng, entries, size):
        self.enabled = rng.random() < 0.9
        self.dest = rng.choice([R.DEST_LINK] * 8 + [0, R.DEST_LINK | 1, R.DEST_SELF, R.DEST_TYPE])
        near = rng.choice(entries)
        self.offset = near.offset + rng.choice([0, 0, 0, 0, PAGE, -PAGE, 4, near.length]) & TOP
        self.length = rng.choice([0, 100, PAGE, 2 * PAGE, 8 * PAGE, 8 * PAGE, size, size, size + 1])
        self.size = size

    def reach(self, entries):
        """(entry, live bytes) or (None, 0)."""
        if (not self.enabled or self.dest != R.DEST_LINK or not 0 < self.length <= self.size
                or self.offset + self.length - 1 > TOP):
            return None, 0
        for entry in entries:
            if entry.holds(self.offset):
                return entry, min(self.length, entry.offset + entry.length - self.offset)
        return None, 0

    def program(self, port, n):
        port.set_slot(n, self.dest, self.offset, self.length, int(self.enabled))


def check_access(rng, pair, n, slot, entries, memory):
    """One access of random size and place, by the rules and by the device."""
    entry, live = slot.reach(entries)
    size = rng.choice([1, 2, 4, 8])
    at = rng.choice([0, live - size, live - 1, live, rng.randrange(max(live, PAGE)), rng.randrange(max(live, PAGE))])
    at = max(0, min(at, slot.size - size))
    address = pair.a.slot(n, at, rng.random() < 0.5)
    inside = entry and at + size <= live
    # An access that QEMU splits is judged piece by piece, so keep it aligned.
    if address % size:
        address, at = address - address % size, at - address % size
        inside = entry and at + size <= live
    place = entry.base + slot.offset - entry.offset + at - (MEMORY - SHARED) if inside else 0
    if rng.random() < 0.5:
        value = rng.getrandbits(8 * size)
        pair.a.qemu.write(address, size, value)
        if inside and entry.rights & R.RIGHT_WRITE:
            memory[place:place + size] = value.to_bytes(size, "little")
    else:
        want = ONES[size]
        if inside and entry.rights & R.RIGHT_READ:
            want = int.from_bytes(memory[place:place + size], "little")
        equal(pair.a.qemu.read(address, size), want, f"read of {size} bytes at {at:#x} of slot {n}")
    return bool(inside)


def run(scope, seed):
    rng = random.Random(seed)
    pair = Pair(scope)
    low = MEMORY - SHARED
    memory = bytearray([PLAIN]) * (3 * SHARED)
    pair.b.qemu.write_bytes(low, bytes(memory))
    entries = [Entry(random.Random(0)) for _ in range(6)]
    for entry in entries:
        entry.enabled = False
    slots = [None] * 4
    inside = accesses = 0
    for _ in range(STEPS):
        if rng.random() < 0.5:
            n = rng.randrange(len(entries))
            entry = Entry(rng)
            # Beyond the shared memory is memory too; this test wants to see it untouched.
            while entry.base + entry.length > MEMORY + SHARED:
                entry = Entry(rng)
            entries[n] = entry
            entry.program(pair.b, n)
            pair.until(lambda n=n: not pair.b.inbound_status(n) & R.INBOUND_BUSY, f"entry {n} to settle")
            equal(bool(pair.b.inbound_status(n) & R.INBOUND_LIVE), bool(entry.live()), f"entry {n} live")
        else:
            n = rng.randrange(len(slots))
            slots[n] = Slot(rng, entries, pair.a.slot_size)
            slots[n].program(pair.a, n)
        if rng.random() < 0.1:
            pair.node_a.send(R.FAB_TRACE, arg=(rng.randrange(2),))
        for n, slot in enumerate(slots):
            if slot:
                equal(bool(pair.a.slot_status(n) & R.SLOT_LIVE), bool(slot.reach(entries)[0]), f"slot {n} live")
                for _ in range(3):
                    inside += check_access(rng, pair, n, slot, entries, memory)
                    accesses += 1
    assert inside > 50 and accesses - inside > 50, f"{inside} of {accesses} accesses reach memory: too one-sided"
    equal(pair.b.qemu.read_bytes(low, len(memory)) == memory, True, "memory, the guards included, is as expected")


def test_rules(_scope):
    """what is reached, read and written is exactly what the rules say"""
    each_seed(run)
