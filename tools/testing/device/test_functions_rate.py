# SPDX-License-Identifier: GPL-2.0
"""How much a PF lets its VFs do in a time: bytes by DMA, and doorbells."""

import regs as R
from dma import LEAST, LOCAL, OK, QUANTUM, RINGS, Channel, noise, nop, write
from functions import SLOT_SIZE, Endpoints, Machine, to
from port import PAGE
from tap import equal
from test_dma_functions import granted, onto_itself

US, MS = 1000, 1000_000
# A page takes 100 us.
RATE = 10_000 * PAGE
PAGE_NS = 100 * US
BEGIN_NS = PAGE_NS * LEAST // PAGE
# What a bucket has room for, at least.
ROOM_NS = PAGE_NS * QUANTUM // PAGE
LEAST_RINGS = 16
WORDS = {"rate": 8, "rings": 4}


def limit(pf, n, **rates):
    """Set rates of a VF, and leave what else it may have."""
    for name, value in rates.items():
        register = getattr(R, "VF_" + name.upper())
        for word in range(0, WORDS[name], 4):
            pf.set_vf(n, register + word, value >> 8 * word & 0xffffffff)
    pf.set_vf(n, R.VF_CTRL, 1)


def count(pf, n, name):
    register = getattr(R, "VF_" + name.upper())
    return pf.vf(n, register) | pf.vf(n, register + 4) << 32


def machine(scope, vfs=1, **quota):
    pf = Machine(scope, "h1", second=False).pf[0]
    functions = granted(pf, vfs, **quota)
    for vf in functions:
        onto_itself(vf)
    return pf, functions


def pages(since):
    """Pages of one descriptor that an empty bucket has let through after so long."""
    return max(0, -(-(since - BEGIN_NS) // PAGE_NS))


def test_mr_8_bytes(scope):
    """MR-8: a VF's DMA moves what its rate lets it, to the page, at any time; others are as fast as ever"""
    pf, (vf, other) = machine(scope, 2)
    limit(pf, 0, rate=RATE)
    channels = [Channel(port, ring=RINGS + n * PAGE) for n, port in enumerate((vf, other, pf))]
    onto_itself(pf)
    data = noise(SLOT_SIZE)
    pf.qemu.write_bytes(LOCAL, data)
    for channel in channels:
        channel.submit(write(LOCAL, SLOT_SIZE))
    now = 0
    for step in (1, 5, 4, 3, 90, 97, 1000, 10_000, 1234, 7777):
        channels[0].step(step)
        now += step * 10 * US
        done = [channel.counter(R.DMA_CNT_BYTES) for channel in channels]
        free = min(SLOT_SIZE, now // (10 * US) * QUANTUM)
        equal(done, [min(SLOT_SIZE, pages(now) * PAGE), free, free], f"bytes after {now} ns")
        equal([count(pf, n, "moved") for n in (0, 1)], done[:2], "what the PF says of it")
    equal([channel.result(0) for channel in channels], [(OK, SLOT_SIZE)] * 3, "results")
    equal(pf.read(R.R_CAP1) & R.CAP1_VF_RATE, R.CAP1_VF_RATE, "CAP1 of the PF")
    equal(vf.read(R.R_CAP1) & R.CAP1_VF_RATE, 0, "CAP1 of the VF")


def test_mr_8_room(scope):
    """MR-8: a VF that was idle may move a quantum at once, and no more; a higher rate, what comes in a millisecond"""
    pf, (vf,) = machine(scope)
    for rate, least in ((RATE, QUANTUM), (10 * RATE, 10 * RATE // 1000)):
        limit(pf, 0, rate=rate)
        vf.qemu.clock_step(100 * MS)
        channel = Channel(vf)
        before = channel.counter(R.DMA_CNT_BYTES)
        channel.submit(*[write(LOCAL, SLOT_SIZE)] * 8)
        # The bucket is not filled by much in ten steps.
        for _ in range(10):
            channel.step()
        moved = channel.counter(R.DMA_CNT_BYTES) - before
        come = rate * 100 * US // (1000 * MS)
        most = min(least + come + PAGE, 10 * QUANTUM)
        if not least - LEAST <= moved <= most:
            raise AssertionError(f"{moved} bytes, for a room of {least} and {come} that came")
        channel.write(R.DMA_CTRL, R.DMA_RESET)


def test_mr_8_steps(scope):
    """MR-8: descriptors of nothing count, too; channels of a VF share its rate"""
    pf, (vf,) = machine(scope)
    limit(pf, 0, rate=RATE)
    channel = Channel(vf, order=10)
    channel.submit(*[nop()] * 1000)
    channel.step(1000)
    # Each begins, and ends: two steps.
    equal(channel.head(), 10 * MS // (2 * BEGIN_NS), "descriptors of nothing in 10 ms")
    channel.finish()
    channel.write(R.DMA_CTRL, R.DMA_RESET)
    channels = [Channel(vf, n, ring=RINGS + n * 0x10000) for n in range(3)]
    before = [channel.counter(R.DMA_CNT_BYTES) for channel in channels]
    for channel in channels:
        channel.submit(write(LOCAL, SLOT_SIZE))
    channel.step(3000)
    moved = [channel.counter(R.DMA_CNT_BYTES) - was for channel, was in zip(channels, before)]
    if max(moved) - min(moved) > QUANTUM + PAGE or not 295 * PAGE <= sum(moved) <= 301 * PAGE:
        raise AssertionError(f"{moved} of three channels in 30 ms")


def test_mr_8_kept(scope):
    """MR-8: no reset of the VF fills its bucket; what it aborts and what it loses does not wait"""
    pf, (vf,) = machine(scope)
    # A page in ten seconds.
    limit(pf, 0, rate=PAGE // 10)
    for reset in lambda: vf.write(R.R_CTRL, R.CTRL_RESET), vf.flr:
        reset()
        vf.write(R.R_CTRL, R.CTRL_ENABLE)
        onto_itself(vf)
        channel = Channel(vf)
        channel.submit(write(LOCAL, PAGE), nop())
        channel.step(10)
    # One began.
    equal((count(pf, 0, "moved"), channel.counter(R.DMA_CNT_BYTES)), (0, 0), "bytes")
    equal(channel.status()[0], R.DMA_RUNNING | R.DMA_BUSY, "status")
    channel.write(R.DMA_CTRL, R.DMA_ENABLE | R.DMA_ABORT)
    channel.step(2)
    equal([channel.result(n) for n in (0, 1)], [(R.DMA_ST_ABORTED, 0)] * 2, "what was aborted")
    channel.submit(write(LOCAL, PAGE))
    channel.step(2)
    limit(pf, 0, rate=0)
    channel.step(2)
    equal(channel.result(2), (OK, PAGE), "when there is no limit any more")
    pf.write(R.R_CTRL, R.CTRL_RESET)
    equal([pf.vf(0, register) for register in (R.VF_RATE, R.VF_RINGS, R.VF_MOVED, R.VF_RUNG)], [0] * 4, "the PF reset")


def test_mr_8_extremes(scope):
    """MR-8: the least rate lets through a step, the greatest is none"""
    pf, (vf,) = machine(scope)
    limit(pf, 0, rate=1, rings=1)
    channel = Channel(vf)
    channel.submit(write(LOCAL, PAGE))
    channel.step(1000)
    equal(count(pf, 0, "moved"), 0, "at a byte a second")
    limit(pf, 0, rate=(1 << 64) - 1, rings=0xffffffff)
    channel.step(10)
    equal(channel.result(0), (OK, PAGE), "at all that a register holds")
    vf.set_page(0, R.DEST_SELF, 0xffffffff)
    for bell in range(R.DOORBELLS):
        vf.ring(0, bell)
    vf.qemu.clock_step(10)
    equal(vf.read(R.R_DB_PENDING), 0xffffffff, "doorbells")


def test_mr_8_rings(scope):
    """MR-8: a VF that rings too often is heard later, each doorbell once, in turn; no other waits"""
    pair = Endpoints(scope)
    (near, other), (far, beside) = pair.virtual(pair.a, 2), pair.virtual(pair.b, 2)
    for one, there in ((near, far), (other, beside)):
        there.write(R.R_DB_ALLOW, 0xffffffff)
        one.set_page(0, to(there.function), 0xffffffff)
    limit(pair.a, 0, rings=1000)
    near.qemu.clock_step(100 * MS)
    for _ in range(100):
        for bell in range(R.DOORBELLS):
            near.ring(0, bell)
            other.ring(0, bell)
    first = (1 << LEAST_RINGS) - 1
    pair.until(lambda: far.read(R.R_DB_PENDING) == first, "those that the bucket has")
    pair.until(lambda: beside.read(R.R_DB_PENDING) == 0xffffffff, "all of the other one")
    equal((count(pair.a, 0, "rung"), near.counter(R.CNT_TX_DB)), (LEAST_RINGS,) * 2, "how many have rung")
    equal((count(pair.a, 1, "rung"), other.counter(R.CNT_TX_DB)), (100 * R.DOORBELLS,) * 2, "of the other one")
    # The rest comes, one in a millisecond; the first ones again behind them.
    for n in range(R.DOORBELLS - LEAST_RINGS):
        near.qemu.clock_step(MS)
        rung = first | ((2 << n) - 1) << LEAST_RINGS
        pair.until(lambda: far.read(R.R_DB_PENDING) == rung, f"the next, {n}")
        equal(count(pair.a, 0, "rung"), LEAST_RINGS + n + 1, "how many have rung")
    near.qemu.clock_step(100 * MS)
    equal(count(pair.a, 0, "rung"), R.DOORBELLS + LEAST_RINGS, "all, and the first ones again")
    equal((near.counter(R.CNT_DB_DENIED), far.counter(R.CNT_DB_DENIED)), (0, 0), "refused")


def test_mr_8_rings_of_dma(scope):
    """MR-8: doorbells of descriptors wait like others, and the data does not"""
    pf, (vf,) = machine(scope)
    vf.set_page(3, R.DEST_SELF, 0xffffffff)
    limit(pf, 0, rings=10)
    channel = Channel(vf, order=6)
    results = channel.run(*[write(LOCAL, 8, flags=R.DMA_BELL, bell=3 << 16 | n % R.DOORBELLS) for n in range(40)])
    equal(results, [(OK, 8)] * 40, "results")
    equal(count(pf, 0, "rung") <= 1, True, "an empty bucket")
    # What is not allowed any more when its time has come is refused then.
    vf.set_page(3, R.DEST_SELF, 0x0000ffff)
    vf.qemu.clock_step(4000 * MS)
    equal(vf.read(R.R_DB_PENDING), 0xffff, "doorbells")
    equal(vf.counter(R.CNT_DB_DENIED), R.DOORBELLS - 16, "refused")
    equal(vf.error()[0], R.ERR_DB_DENIED, "the error")


def test_mr_8_waiting(scope):
    """MR-8: doorbells that wait ring at once when the limit goes, and never after a reset of the VF"""
    pf, (vf,) = machine(scope)
    for end, rung in ((lambda: limit(pf, 0, rings=0), 0xff), (lambda: vf.write(R.R_CTRL, R.CTRL_RESET), 0)):
        vf.set_page(0, R.DEST_SELF, 0xffffffff)
        limit(pf, 0, rings=1)
        vf.write(R.R_DB_PENDING, 0xffffffff)
        for bell in range(8):
            vf.ring(0, bell)
        equal(vf.read(R.R_DB_PENDING), 0, "with an empty bucket")
        end()
        vf.qemu.clock_step(US)
        equal(vf.read(R.R_DB_PENDING), rung, "after the end")
        limit(pf, 0, rings=0)
        vf.qemu.clock_step(100_000 * MS)
        equal(vf.read(R.R_DB_PENDING), rung, "and later")
