# SPDX-License-Identifier: GPL-2.0
"""The DMA engine: what ends with an error, and guests that want it to do harm."""

import random

import regs as R
from dma import (BUSY, HALTED, LISTS, LOCAL, OK, QUANTUM, REMOTE, REMOTE_BYTES, RINGS, RUNNING, Channel, alone,
                 descriptor, joined, noise, nop, read, write)
from port import PAGE
from tap import equal


# ---- errors

def test_bad_descriptors(scope):
    """descriptors that make no sense end so, move nothing and harm no other"""
    port = alone(scope)
    channel = Channel(port, order=8)
    top = (1 << 64) - 1
    listed = {"flags": R.DMA_LIST, "count": 2}
    good = channel.put_list([(LOCAL, 8), (LOCAL + 8, 8)])
    bad = {
        "op 3": descriptor(3, LOCAL, 8),
        "op 255": descriptor(255, LOCAL, 8),
        "a reserved flag": write(LOCAL, 8, flags=0x1000),
        "the highest flag": write(LOCAL, 8, flags=0x80000000),
        "a reserved word": write(LOCAL, 8, zero=1),
        "the other reserved word": write(LOCAL, 8, zero2=1 << 63),
        "no bytes": write(LOCAL, 0),
        "a slot beyond the last": write(LOCAL, 8, slot=port.read(R.R_CAP0) & R.CAP0_SLOTS),
        "a slot of all ones": write(LOCAL, 8, slot=0xffffffff),
        "a count without a list": write(LOCAL, 8, count=1),
        "an address that wraps": write(top, 2),
        "a bell without its flag": write(LOCAL, 8, bell=1),
        "a bell beyond the last": write(LOCAL, 8, flags=R.DMA_BELL, bell=R.DOORBELLS),
        "a page beyond the last": write(LOCAL, 8, flags=R.DMA_BELL, bell=R.DB_PAGES << 16),
        "a nop with bytes": nop(length=8),
        "a nop with a list": nop(flags=R.DMA_LIST, count=1),
        "an empty list": write(good, 16, flags=R.DMA_LIST),
        "a list too long": write(good, 16, flags=R.DMA_LIST, count=R.DMA_MAX_ELEMENTS + 1),
        "a list of all ones": write(good, 16, flags=R.DMA_LIST, count=0xffffffff),
        "a misaligned list": write(good + 8, 16, **listed),
        "a list that wraps": write(top - 15, 16, **listed),
        "more bytes than the list's": write(good, 17, **listed),
        "fewer bytes than the list's": write(good, 15, **listed),
        "an element without bytes": write(channel.put_list([(LOCAL, 0), (LOCAL, 8)], 64), 8, **listed),
        "an element that wraps": write(channel.put_list([(top, 2), (LOCAL, 8)], 128), 10, **listed),
        "an element's reserved word": write(channel.put_list([(LOCAL, 8, 1), (LOCAL, 8)], 192), 16, **listed),
        "a sum that wraps": write(channel.put_list([(LOCAL, 0xffffffff), (LOCAL, 9)], 256), 8, **listed),
    }
    before = port.qemu.read_bytes(REMOTE, 64)
    results = channel.run(*bad.values(), write(LOCAL, 8, 1 << 20))
    equal(dict(zip(bad, results)), dict.fromkeys(bad, (R.DMA_ST_BAD, 0)), "results")
    equal(results[-1], (OK, 8), "the good one behind them")
    equal(port.qemu.read_bytes(REMOTE, 64), before, "memory at the slot")
    equal(channel.counter(R.DMA_CNT_ERRORS), len(bad), "errors counted")
    equal(port.error(), (R.ERR_DMA, R.DMA_ST_BAD << 8, channel.entry(0)), "the first error")
    equal(port.read(R.R_EVENT), R.EVENT_ERROR, "event")


def test_local_faults(scope):
    """local addresses must be memory: holes, registers, other devices and the port's own BARs are not"""
    port = alone(scope)
    channel = Channel(port)
    ram_end = 64 << 20
    places = {"beyond memory": ram_end, "a hole": 1 << 40, "the top": (1 << 64) - 8,
              "the control BAR": port.ctrl + R.R_SCRATCH, "the MSI-X table": port.msix,
              "a slot": port.slot(0), "a slot's other alias": port.slot(0, wc=True),
              "configuration space": 0xb0000000}
    port.write(R.R_SCRATCH, 0x5c7a7c4)
    for where, addr in places.items():
        for make in write, read:
            equal(channel.run(make(addr, 8)), [(R.DMA_ST_LOCAL, 0)], f"{make.__name__}, {where}")
        listed = channel.put_list([(LOCAL, PAGE), (addr, 8)])
        equal(channel.run(write(listed, PAGE + 8, flags=R.DMA_LIST, count=2)), [(R.DMA_ST_LOCAL, PAGE)],
              f"in a list, {where}")
        equal(channel.run(write(addr & ~15, 16, flags=R.DMA_LIST, count=1)), [(R.DMA_ST_LIST, 0)], f"a list, {where}")
    equal(port.read(R.R_SCRATCH), 0x5c7a7c4, "a register that was aimed at")
    equal(channel.counter(R.DMA_CNT_ERRORS), 4 * len(places), "errors")
    equal(channel.run(write(ram_end - PAGE, 2 * PAGE)), [(R.DMA_ST_LOCAL, PAGE)], "half in memory")
    equal(channel.run(read(ram_end - PAGE, 2 * PAGE)), [(R.DMA_ST_LOCAL, PAGE)], "half in memory")
    equal(channel.run(write(LOCAL, 8)), [(OK, 8)], "afterwards")


def test_rings_in_bad_places(scope):
    """a ring that is not in memory halts the channel, and reads nothing of where it is"""
    port = alone(scope)
    for base in 64 << 20, 1 << 40, port.ctrl, port.slot(0), port.slot(0, wc=True), 0xb0000000:
        channel = Channel(port, ring=base)
        channel.write(R.DMA_TAIL, 1)
        equal(channel.status(), (RUNNING | BUSY, 0), "before it works")
        channel.step()
        equal(channel.status(), (HALTED, R.DMA_ST_RING), f"ring at {base:#x}")
        equal(channel.head(), 0, "HEAD")
        equal(port.error(), (R.ERR_DMA, R.DMA_ST_RING << 8, base), "error")
        channel.write(R.DMA_CTRL, 0)
        port.clear_errors()


def test_slot_errors(scope):
    """closed, out of bounds, not allowed, link down: each has its code, and the owner hears of it"""
    pair = joined(scope)
    channel = Channel(pair.a, order=6)
    live = 8 * PAGE
    pair.a.set_slot(0, R.DEST_LINK, 0, live)
    pair.a.set_slot(1, R.DEST_LINK, REMOTE_BYTES, PAGE)
    pair.a.set_slot(2, R.DEST_LINK | 1, 0, PAGE)
    pair.a.set_slot(3, R.DEST_LINK | 9, 0, PAGE)
    pair.b.set_inbound(1, 1 << 30, PAGE, REMOTE, rights=R.RIGHT_READ)
    pair.until(lambda: not pair.b.inbound_status(1) & R.INBOUND_BUSY, "the aperture to be open")
    pair.a.set_slot(4, R.DEST_LINK, 1 << 30, PAGE)
    cases = [
        (write(LOCAL, 8, live - 8), OK), (write(LOCAL, 8, live - 7), R.DMA_ST_BOUNDS),
        (write(LOCAL, 8, live), R.DMA_ST_BOUNDS), (read(LOCAL, 1, (1 << 64) - 1), R.DMA_ST_BOUNDS),
        (write(LOCAL, live + 1), R.DMA_ST_BOUNDS), (read(LOCAL, 0xffffffff), R.DMA_ST_BOUNDS),
        (write(LOCAL, 8, slot=1), R.DMA_ST_CLOSED), (read(LOCAL, 8, slot=5), R.DMA_ST_CLOSED),
        (write(LOCAL, 8, slot=2), R.DMA_ST_LINK), (write(LOCAL, 8, slot=3), R.DMA_ST_CLOSED),
        (write(LOCAL, 8, slot=4), R.DMA_ST_RIGHTS), (read(LOCAL, 8, slot=4), OK),
    ]
    results = channel.run(*[raw for raw, _ in cases])
    equal(results, [(code, 0 if code else 8) for _, code in cases], "results")
    errors = sum(code != OK for _, code in cases)
    equal(channel.counter(R.DMA_CNT_ERRORS), errors, "errors of the channel")
    equal(pair.a.counter(R.CNT_OUT_DROPPED) + pair.a.counter(R.CNT_OUT_ONES), errors, "accesses refused")
    equal(pair.a.read(R.R_ERR_STATUS), R.ERR_DMA, "errors")
    equal(pair.a.error(), (R.ERR_DMA, R.DMA_ST_BOUNDS << 8, channel.entry(1)), "the first")
    # All but those to where no neighbour is.
    pair.until(lambda: pair.b.counter(R.CNT_IN_DENIED) == errors - 3, "the owner to be told")


def test_chain(scope):
    """when one of a chain fails the rest is skipped; a chain that succeeds, and what follows, runs"""
    port = alone(scope)
    port.write(R.R_DMA_MASK, 0)
    channel = Channel(port)
    chain = R.DMA_CHAIN
    equal(channel.run(write(LOCAL, 8, flags=chain), write(LOCAL, 8, slot=5, flags=chain), write(LOCAL, 8, flags=chain),
                      write(LOCAL, 8, flags=R.DMA_IRQ), write(LOCAL, 8)),
          [(OK, 8), (R.DMA_ST_CLOSED, 0), (R.DMA_ST_SKIPPED, 0), (R.DMA_ST_SKIPPED, 0), (OK, 8)], "results")
    equal(port.fired(), {3}, "the last of the chain interrupts all the same")
    equal((channel.counter(R.DMA_CNT_DESCS), channel.counter(R.DMA_CNT_ERRORS)), (2, 1), "counters")
    equal(channel.run(write(LOCAL, 8, flags=chain), write(LOCAL, 8, flags=chain), nop()),
          [(OK, 8), (OK, 8), (OK, 0)], "a chain that succeeds")
    equal(channel.run(nop(flags=chain | 0x1000), nop(flags=chain | 0x1000), nop(), nop()),
          [(R.DMA_ST_BAD, 0), (R.DMA_ST_SKIPPED, 0), (R.DMA_ST_SKIPPED, 0), (OK, 0)], "a bad one in a chain")


# ---- hostile guests

def test_copied_once(scope):
    """what a descriptor and its list say counts when the descriptor begins, whatever they say later"""
    port = alone(scope)
    channel = Channel(port)
    data = noise(4 * QUANTUM)
    port.qemu.write_bytes(LOCAL, data)
    port.qemu.write_bytes(REMOTE, bytes(16 * QUANTUM))
    where = channel.put_list([(LOCAL + n * QUANTUM, QUANTUM) for n in range(4)])
    channel.submit(write(where, len(data), flags=R.DMA_LIST, count=4))
    channel.step()
    port.qemu.write_bytes(where, b"\xff" * 64)
    port.qemu.write_bytes(channel.entry(0), b"\xff" * R.DMA_DESC_STATUS)
    channel.write64(R.DMA_BASE, 0xffffffffffffffc0)
    channel.write(R.DMA_ORDER, 31)
    channel.finish()
    equal(channel.result(0), (OK, len(data)), "result")
    equal(port.qemu.read_bytes(REMOTE, 16 * QUANTUM) == data + bytes(12 * QUANTUM), True, "memory at the slot")


def test_message_to_itself(scope):
    """an interrupt whose address is a register of the port does not reach it"""
    port = alone(scope)
    port.qemu.complains = True      # "Blocked re-entrant IO"
    channel = Channel(port)
    port.write(R.R_DMA_MASK, 0)
    port.write(R.R_SCRATCH, 77)
    # Were it to arrive, the reset would come in the middle of the engine's work.
    port.qemu.writel(port.msix + 16 * 3, port.ctrl + R.R_CTRL)
    port.qemu.writel(port.msix + 16 * 3 + 8, R.CTRL_RESET)
    channel.submit(nop(flags=R.DMA_IRQ), write(LOCAL, 8))
    channel.finish()
    equal([channel.result(0), channel.result(1)], [(OK, 0), (OK, 8)], "results")
    equal(port.read(R.R_SCRATCH), 77, "a register that a reset clears")


def garbage(rng, port):
    """A descriptor of which something is right."""
    raw = bytearray(rng.choice([write, read])(
        rng.choice([LOCAL, LOCAL + 77, RINGS, LISTS, port.ctrl, port.slot(0), 1 << 63, (64 << 20) - 100]),
        rng.choice([0, 1, 8, 100, PAGE, 70000, 0xffffffff]), rng.choice([0, 5, PAGE - 1, REMOTE_BYTES - 8, 1 << 63]),
        slot=rng.choice([0, 0, 0, 1, 7, 8, 0xffffffff]),
        flags=rng.choice([0, R.DMA_LIST, R.DMA_IRQ, R.DMA_CHAIN, R.DMA_BELL, 0xf00]),
        count=rng.choice([0, 0, 1, 16, 256, 257]), bell=rng.choice([0, 0, 5, 1 << 16, 0xffffffff])))
    for _ in range(rng.choice([0, 0, 1, 8])):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    raw[R.DMA_DESC_STATUS:] = bytes(8)
    return bytes(raw)


def test_garbage(scope):
    """random rings, lists and registers: every descriptor ends, the device lives, memory it was not given stays"""
    for seed in 1, 2, 3:
        with scope.__class__() as inner:
            rng = random.Random(seed)
            port = alone(inner)
            port.qemu.complains = True
            # All that descriptors lead to, in either direction, is below this and above that.
            low, high = port.qemu.read_bytes(0x300000, 1 << 20), port.qemu.read_bytes(REMOTE + REMOTE_BYTES, 1 << 20)
            channels = [Channel(port, n, order=5) for n in range(4)]
            ended = 0
            for _ in range(40):
                for channel in channels:
                    port.qemu.write_bytes(channel.lists, rng.randbytes(256))
                    count = rng.randrange(1, 32)
                    first = channel.tail
                    channel.submit(*[garbage(rng, port) for _ in range(count)])
                    if rng.random() < 0.2:
                        channel.step()
                        channel.write(R.DMA_CTRL, R.DMA_ENABLE | R.DMA_ABORT)
                    channel.finish()
                    # One that was read into the ring may have changed the others; HEAD tells the truth.
                    if channel.status() == (RUNNING, 0):
                        equal(channel.head(), first + count, "HEAD")
                        ended += count
                    else:
                        channel.write(R.DMA_CTRL, 0)
                        channel.start()
                for _ in range(4):
                    at = rng.randrange(R.R_DMA_CAP, R.R_DMA + 8 * R.DMA_STRIDE, 4)
                    port.write(at, rng.choice([0, 1, 2, 3, 64, 0x80000000, 0xffffffff, rng.getrandbits(32)]))
                for channel in channels:
                    channel.write(R.DMA_CTRL, R.DMA_RESET)
                    channel.start()
            assert ended > 1000, ended
            equal(port.qemu.read_bytes(0x300000, 1 << 20) == low, True, "memory below")
            equal(port.qemu.read_bytes(REMOTE + REMOTE_BYTES, 1 << 20) == high, True, "memory above")
