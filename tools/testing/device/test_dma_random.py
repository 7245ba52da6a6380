# SPDX-License-Identifier: GPL-2.0
"""Random programs for all channels at once, each result and every byte compared with the manual's rules in Python."""

import random

import regs as R
from dma import LOCAL, OK, REMOTE, Channel, descriptor, joined
from tap import each_seed, equal

# Each channel has so much of either side for itself.
SHARE = 256 << 10
ROUNDS = 60
ORDER = 4


class Model:
    """What one channel does to its shares."""

    def __init__(self, rng, n):
        self.rng = rng
        self.near, self.far = LOCAL + n * SHARE, n * SHARE
        self.memory = {"near": bytearray(rng.randbytes(SHARE)), "far": bytearray(rng.randbytes(SHARE))}
        self.skip = False
        self.want = []

    def elements(self, total):
        """Places in the near share that add up to total; they may overlap, for their order is defined."""
        count = self.rng.choice([1, 2, 16, 40])
        cuts = sorted(self.rng.randrange(1, total) for _ in range(count - 1)) if total > 1 else []
        lengths = [b - a for a, b in zip([0] + cuts, cuts + [total]) if b > a]
        return [(self.rng.randrange(SHARE - length + 1), length) for length in lengths]

    def make(self, channel):
        """A descriptor, and what is to come of it; `channel` gets its list."""
        rng = self.rng
        op = rng.choice([R.DMA_WRITE, R.DMA_READ])
        total = rng.choice([1, 7, 64, 4096, rng.randrange(1, 20000), rng.randrange(1, 150_000)])
        at = rng.randrange(SHARE - total + 1)
        flags = R.DMA_CHAIN if rng.random() < 0.3 else 0
        parts, how = [(rng.randrange(SHARE - total + 1), total)], {}
        address = self.near + parts[0][0]
        if rng.random() < 0.5:
            parts = self.elements(total)
            where = 0x1000 * (len(self.want) % (1 << ORDER))
            address = channel.put_list([(self.near + place, length) for place, length in parts], where)
            how = {"count": len(parts)}
            flags |= R.DMA_LIST
        bad = rng.random() < 0.1
        raw = descriptor(op, address, total, 1 << 30 if bad else self.far + at, flags=flags, **how)
        if self.skip:
            self.want.append((R.DMA_ST_SKIPPED, 0))
        elif bad:
            self.want.append((R.DMA_ST_BOUNDS, 0))
        else:
            self.want.append((OK, total))
            self.move(op, at, parts)
        self.skip = self.want[-1][0] != OK and bool(flags & R.DMA_CHAIN)
        return raw

    def move(self, op, at, parts):
        near, far = self.memory["near"], self.memory["far"]
        for place, length in parts:
            if op == R.DMA_WRITE:
                far[at:at + length] = near[place:place + length]
            else:
                near[place:place + length] = far[at:at + length]
            at += length


def run(scope, seed):
    rng = random.Random(seed)
    pair = joined(scope)
    channels = [Channel(pair.a, n, order=ORDER) for n in range(4)]
    models = [Model(rng, n) for n in range(4)]
    for model in models:
        pair.a.qemu.write_bytes(model.near, bytes(model.memory["near"]))
        pair.b.qemu.write_bytes(REMOTE + model.far, bytes(model.memory["far"]))
    checked = [0] * 4
    for _ in range(ROUNDS):
        for n, (channel, model) in enumerate(zip(channels, models)):
            room = (1 << ORDER) - (channel.tail - channel.head())
            while checked[n] < channel.head():
                equal(channel.result(checked[n]), model.want[checked[n]], f"descriptor {checked[n]} of channel {n}")
                checked[n] += 1
            channel.submit(*[model.make(channel) for _ in range(rng.randint(0, room))])
        channels[0].step(rng.randint(1, 8))
    for n, (channel, model) in enumerate(zip(channels, models)):
        channel.finish()
        while checked[n] < channel.tail:
            equal(channel.result(checked[n]), model.want[checked[n]], f"descriptor {checked[n]} of channel {n}")
            checked[n] += 1
        near, far = pair.a.qemu.read_bytes(model.near, SHARE), pair.b.qemu.read_bytes(REMOTE + model.far, SHARE)
        equal((near == model.memory["near"], far == model.memory["far"]), (True, True), f"memory of channel {n}")
        equal(channel.counter(R.DMA_CNT_BYTES), sum(moved for _, moved in model.want), f"bytes of channel {n}")
        assert len(model.want) > 50 and channel.counter(R.DMA_CNT_ERRORS), f"{len(model.want)}: too little happened"


def test_rules(_scope):
    """what four channels do in the same time is exactly what the rules say of each"""
    each_seed(run)
