# SPDX-License-Identifier: GPL-2.0
"""The DMA engine: what it moves, in which order, and what waits for what."""

import random

import regs as R
from dma import (GUARD, HALTED, LEAST, LISTS, LOCAL, OK, QUANTUM, REMOTE, REMOTE_BYTES, RUNNING, TICK, Channel, alone,
                 check, joined, noise, nop, put, read, write)
from fixture import Pair
from port import PAGE, host
from qtest import Qemu
from tap import equal, until


# ---- what there is

def test_identity(scope):
    """the registers say what there is, and have their reset values"""
    port = host(scope)
    assert port.read(R.R_CAP1) & R.CAP1_DMA, "CAP1"
    cap = port.read(R.R_DMA_CAP)
    equal([R.field(mask, cap) for mask in (R.DMA_CAP_CHANNELS, R.DMA_CAP_ORDER, R.DMA_CAP_ELEMENTS)],
          [4, R.DMA_MAX_ORDER, R.DMA_MAX_ELEMENTS], "DMA_CAP")
    equal((port.read(R.R_DMA_PENDING), port.read(R.R_DMA_MASK)), (0, 0xffffffff), "PENDING and MASK")
    for n in range(4):
        group = [port.read(R.R_DMA + n * R.DMA_STRIDE + at) for at in range(0, R.DMA_STRIDE, 4)]
        want = [0] * len(group)
        want[R.DMA_VECTOR // 4] = R.DMA_VECTOR_SHARED
        equal(group, want, f"channel {n}")


def test_channels_property(scope):
    """a port has as many channels as it was given; none is no engine, and too many is refused"""
    for count in 0, 1, 8:
        with scope.__class__() as inner:
            port = host(inner, dma_channels=count)
            equal(bool(port.read(R.R_CAP1) & R.CAP1_DMA), count > 0, "CAP1")
            for n in range(8):
                at = R.R_DMA + n * R.DMA_STRIDE + R.DMA_ORDER
                port.write(at, 3)
                equal(port.read(at), 3 if n < count else 0, f"ORDER of channel {n} of {count}")
    qemu = Qemu(scope, "h1", "-device", "weft-port,dma-channels=9", fails=True)
    equal(qemu.process.wait(30), 1, "exit status")
    assert "dma-channels=9 is more than 8" in qemu.errors(), qemu.errors()


# ---- what moves

def test_sizes(scope):
    """both directions, 1 byte to 3 pages, aligned and not at either side, between two hosts"""
    pair = joined(scope)
    channel = Channel(pair.a)
    rng = random.Random(7)
    skews = [(0, 0), (1, 0), (0, 1), (3, 5), (63, 4095), (4095, 4095), (8, 4088)]
    for length in 1, 2, 3, 4, 7, 8, 63, 64, 65, 511, 4095, 4096, 4097, 3 * PAGE + 17:
        for near, far in rng.sample(skews, 3):
            data = noise(length, length)
            what = f"{length} bytes, {near} and {far} off"
            put(pair.a.qemu, LOCAL + GUARD + near, data)
            put(pair.b.qemu, REMOTE + GUARD + far, bytes(length))
            equal(channel.run(write(LOCAL + GUARD + near, length, GUARD + far)), [(OK, length)], f"write of {what}")
            check(pair.b.qemu, REMOTE + GUARD + far, data, f"write of {what}")
            data = noise(length, ~length)
            put(pair.b.qemu, REMOTE + GUARD + far, data)
            equal(channel.run(read(LOCAL + GUARD + near, length, GUARD + far)), [(OK, length)], f"read of {what}")
            check(pair.a.qemu, LOCAL + GUARD + near, data, f"read of {what}")
    equal(pair.a.read(R.R_ERR_STATUS), 0, "errors")


def test_megabytes(scope):
    """several MiB in one descriptor take one tick a quantum, no more and no less"""
    pair = joined(scope)
    channel = Channel(pair.a)
    length = 3 << 20
    data = noise(length)
    put(pair.a.qemu, LOCAL + 4096, data)
    put(pair.b.qemu, REMOTE + 4096, bytes(length))
    channel.submit(write(LOCAL + 4096, length, 4096))
    # A quantum ends with the step that uses it up: the descriptor's own costs no tick.
    ticks = length // QUANTUM
    channel.step(ticks - 1)
    equal((channel.result(0), channel.head()), (None, 0), "before the last ticks")
    channel.step()
    equal((channel.result(0), channel.head()), ((OK, length), 1), "after them")
    check(pair.b.qemu, REMOTE + 4096, data, "written")
    put(pair.a.qemu, LOCAL + 4096, bytes(length))
    equal(channel.run(read(LOCAL + 4096, length, 4096)), [(OK, length)], "read back")
    check(pair.a.qemu, LOCAL + 4096, data, "read back")


def test_lists(scope):
    """scatter lists of 1 to 256 elements of odd sizes, gathered and scattered"""
    port = alone(scope)
    channel = Channel(port)
    rng = random.Random(3)
    for count in 1, 2, 16, 17, 256:
        elements, at = [], LOCAL
        for _ in range(count):
            at += rng.choice([0, 0, 1, 100, 5000])
            elements.append((at, rng.choice([1, 2, 64, 100, 4096, 5001])))
            at += elements[-1][1]
        rng.shuffle(elements)
        total = sum(length for _, length in elements)
        data = noise(total, count)
        where = channel.put_list(elements)
        memory = bytearray(b"\xdd" * (at - LOCAL))
        done = 0
        for addr, length in elements:
            memory[addr - LOCAL:addr - LOCAL + length] = data[done:done + length]
            done += length
        port.qemu.write_bytes(LOCAL, bytes(memory))
        put(port.qemu, REMOTE + 777, bytes(total))
        how = {"offset": 777, "flags": R.DMA_LIST, "count": count}
        equal(channel.run(write(where, total, **how)), [(OK, total)], f"gather of {count}")
        check(port.qemu, REMOTE + 777, data, f"gather of {count}")
        port.qemu.write_bytes(LOCAL, b"\xdd" * len(memory))
        equal(channel.run(read(where, total, **how)), [(OK, total)], f"scatter of {count}")
        equal(port.qemu.read_bytes(LOCAL, len(memory)) == memory, True, f"memory after a scatter of {count}")


def test_partial_rights(scope):
    """a slot that traps, of odd offset and with one right only, works as far as the right goes"""
    pair = Pair(scope)
    data = noise(10000)
    for rights, good, bad in ((R.RIGHT_WRITE, write, read), (R.RIGHT_READ, read, write)):
        pair.share(0, 0, REMOTE_BYTES, REMOTE, rights=rights)
        pair.a.set_slot(0, R.DEST_LINK, 4001, 20000)
        channel = Channel(pair.a, order=2)
        near, far = (pair.a.qemu, LOCAL), (pair.b.qemu, REMOTE + 4001 + 99)
        source, sink = (near, far) if good is write else (far, near)
        put(*source, data)
        put(*sink, bytes(len(data)))
        equal(channel.run(good(LOCAL, len(data), 99), bad(LOCAL, 8, 99)),
              [(OK, len(data)), (R.DMA_ST_RIGHTS, 0)], f"rights {rights}")
        check(*sink, data, f"rights {rights}")
        channel.write(R.DMA_CTRL, 0)
        pair.a.clear_errors()


# ---- rings

def test_wrap(scope):
    """a ring of one entry, of four, of many: descriptors in order, again and again"""
    port = alone(scope)
    rng = random.Random(5)
    for order in 0, 2, 7:
        channel = Channel(port, order=order)
        done = 0
        while done < 5 << order or done < 40:
            batch = rng.randint(1, 1 << order)
            # Each takes the byte the one before has put: only the right order gives the right end.
            port.qemu.write_bytes(LOCAL, bytes([done % 256, 0]))
            results = channel.run(*[(write if n % 2 == 0 else read)(LOCAL + n % 2, 1, 0) for n in range(batch)])
            equal(results, [(OK, 1)] * batch, f"results in a ring of {1 << order}")
            want = done % 256 if batch > 1 else 0
            equal(list(port.qemu.read_bytes(LOCAL, 2)), [done % 256, want], "what the last ones moved")
            done += batch
            equal(channel.head(), done, "HEAD")
        channel.write(R.DMA_CTRL, 0)


def test_order(scope):
    """descriptors of a channel end one after the other: what one reads, the next finds"""
    port = alone(scope)
    channel = Channel(port, order=6)
    data = noise(PAGE)
    port.qemu.write_bytes(LOCAL, data)
    hops = [(write if n % 2 == 0 else read)(LOCAL + (n + 1) // 2 * PAGE, PAGE, n // 2 * PAGE) for n in range(40)]
    equal(channel.run(*hops), [(OK, PAGE)] * 40, "results")
    equal(port.qemu.read_bytes(LOCAL + 20 * PAGE, PAGE), data, "after 40 hops")


def test_full_ring(scope):
    """a ring can be filled to its last entry; one more halts the channel until it is enabled again"""
    port = alone(scope)
    channel = Channel(port, order=3)
    equal(channel.run(*[nop()] * 8), [(OK, 0)] * 8, "a full ring")
    channel.submit(*[nop()] * 8)
    channel.write(R.DMA_TAIL, 17)
    equal(channel.status(), (HALTED, R.DMA_ST_TAIL), "status")
    equal(port.error(), (R.ERR_DMA, R.DMA_ST_TAIL << 8, 17), "error")
    channel.step(2)
    equal(channel.result(8), None, "a descriptor of a channel that is halted")
    channel.write(R.DMA_CTRL, R.DMA_ENABLE)
    equal(channel.status(), (HALTED, R.DMA_ST_TAIL), "status: enabled it was already")
    channel.write(R.DMA_CTRL, 0)
    equal(channel.status(), (0, 0), "status when disabled")
    channel.start()
    equal(channel.run(nop()), [(OK, 0)], "afterwards")
    channel.write(R.DMA_TAIL, 0)
    equal(channel.status(), (HALTED, R.DMA_ST_TAIL), "status after a TAIL that goes back")


def test_latched(scope):
    """BASE and ORDER count when the channel is enabled, and TAIL only while it is"""
    port = alone(scope)
    channel = Channel(port)
    channel.write64(R.DMA_BASE, LISTS)
    channel.write(R.DMA_ORDER, 0)
    equal(channel.run(nop(), nop()), [(OK, 0)] * 2, "in the ring as it was latched")
    channel.write(R.DMA_CTRL, 0)
    channel.write(R.DMA_TAIL, 3)
    equal((channel.head(), channel.read(R.DMA_TAIL), channel.status()), (2, 2, (0, 0)), "when disabled")
    for base, order in ((LISTS + 8, 0), (LISTS, R.DMA_MAX_ORDER + 1), (LISTS, 0xffffffff),
                        ((1 << 64) - 64, 1), ((1 << 64) - 1, 0)):
        channel.write64(R.DMA_BASE, base)
        channel.write(R.DMA_ORDER, order)
        channel.write(R.DMA_CTRL, R.DMA_ENABLE)
        equal(channel.status(), (HALTED, R.DMA_ST_SETUP), f"ring of order {order:#x} at {base:#x}")
        channel.write(R.DMA_TAIL, 1)
        channel.step()
        equal(channel.head(), 0, "HEAD")
        channel.write(R.DMA_CTRL, 0)
    channel.start()
    equal(channel.run(nop()), [(OK, 0)], "afterwards")


# ---- several channels

def test_fair(scope):
    """channels with work get one quantum a tick each, whatever the size of their descriptors"""
    port = alone(scope)
    long = 2 << 20
    channels = [Channel(port, n, order=8) for n in range(4)]
    channels[0].submit(write(LOCAL, long))
    channels[1].submit(read(LOCAL, long, 4 << 20))
    where = channels[2].put_list([(LOCAL + 64 * n, 64) for n in range(256)])
    channels[2].submit(*[write(where, 256 * 64, flags=R.DMA_LIST, count=256)] * 64)
    channels[3].submit(*[write(LOCAL, 64)] * 200)
    steps = QUANTUM // LEAST
    for tick in range(1, 31):
        port.qemu.clock_step(TICK)
        moved = [channel.counter(R.DMA_CNT_BYTES) for channel in channels]
        for n in 0, 1:
            equal(moved[n], min(long, tick * QUANTUM), f"bytes of channel {n} in tick {tick}")
        # A step of 64 bytes counts as 512; each descriptor costs one more to begin.
        assert abs(moved[2] - tick * steps * 64 * 256 // 257) <= 128, f"{moved} in tick {tick}"
        equal(moved[3], 64 * min(200, tick * steps // 2), f"bytes of channel 3 in tick {tick}")
    for n in 0, 1:
        channels[n].finish()
        equal(channels[n].result(0), (OK, long), f"channel {n}")


def test_independent(scope):
    """an error, a halt or a reset of one channel is nothing to the others"""
    port = alone(scope)
    channels = [Channel(port, n) for n in range(4)]
    channels[0].submit(write(LOCAL, 1 << 20))
    channels[1].submit(write(LOCAL, 8, slot=31), nop())
    channels[2].write(R.DMA_TAIL, 99)
    channels[3].submit(write(LOCAL, 1 << 20))
    port.qemu.clock_step(TICK)
    channels[3].write(R.DMA_CTRL, R.DMA_RESET)
    channels[0].finish()
    equal([channel.result(0) for channel in channels], [(OK, 1 << 20), (R.DMA_ST_BAD, 0), None, None], "results")
    equal(channels[1].result(1), (OK, 0), "the one after the error")
    equal([channel.status() for channel in channels],
          [(RUNNING, 0), (RUNNING, 0), (HALTED, R.DMA_ST_TAIL), (0, 0)], "states")
    equal([channel.counter(R.DMA_CNT_ERRORS) for channel in channels], [0, 1, 1, 0], "errors")


# ---- interrupts

def test_interrupts(scope):
    """a descriptor that asks for it sets PENDING and sends a message; the vector is shared or the channel's own"""
    port = alone(scope)
    channels = [Channel(port, n) for n in range(2)]
    port.write(R.R_DMA_MASK, 0)
    equal(channels[0].run(nop()), [(OK, 0)], "without")
    equal((port.read(R.R_DMA_PENDING), port.fired()), (0, set()), "without an interrupt")
    channels[0].run(nop(flags=R.DMA_IRQ))
    equal((port.read(R.R_DMA_PENDING), port.fired()), (1, {3}), "by the shared vector")
    channels[0].run(nop(flags=R.DMA_IRQ))
    equal((port.read(R.R_DMA_PENDING), port.fired()), (1, set()), "coalesced")
    channels[1].write(R.DMA_VECTOR, 9)
    port.write(R.R_EVENT_VECTOR, 0x0b020100)
    port.write(R.R_DMA_PENDING, 1)
    for channel in channels:
        channel.submit(nop(flags=R.DMA_IRQ))
    channels[0].step()
    equal((port.read(R.R_DMA_PENDING), port.fired()), (3, {9, 11}), "two channels, two vectors")
    port.write(R.R_DMA_PENDING, 2)
    equal(port.read(R.R_DMA_PENDING), 1, "PENDING after half of it was cleared")
    port.write(R.R_DMA_PENDING, 1)
    port.write(R.R_DMA_MASK, 1)
    channels[0].run(nop(flags=R.DMA_IRQ))
    equal((port.read(R.R_DMA_PENDING), port.fired()), (1, set()), "masked")
    port.write(R.R_DMA_MASK, 0)
    equal(port.fired(), {11}, "unmasked")
    for vector in 16, 0xff00, 0xffffffff:
        port.write(R.R_DMA_PENDING, 3)
        channels[1].write(R.DMA_VECTOR, vector)
        channels[1].run(nop(flags=R.DMA_IRQ))
        equal((port.read(R.R_DMA_PENDING), port.fired()), (2, set()), f"vector {vector:#x}")


def test_status_before_interrupt(scope):
    """when the message is there, data and status of its descriptor are there, and of no later one"""
    port = alone(scope)
    channel = Channel(port)
    port.write(R.R_DMA_MASK, 0)
    data = noise(3 * QUANTUM)
    port.qemu.write_bytes(REMOTE, data)
    channel.submit(read(LOCAL, len(data), flags=R.DMA_IRQ), write(LOCAL, 8 * QUANTUM))
    while not port.fired():
        equal(channel.result(0), None, "status before the interrupt")
        channel.step()
    equal((channel.result(0), channel.result(1), channel.head()), ((OK, len(data)), None, 1), "then")
    equal(port.qemu.read_bytes(LOCAL, len(data)) == data, True, "data")


# ---- doorbells

def test_bell(scope):
    """a write with a doorbell: the neighbour that is rung has the data; nothing rings before they are complete"""
    pair = joined(scope)
    channel = Channel(pair.a)
    pair.a.set_page(2, R.DEST_LINK, 1 << 5)
    pair.b.write(R.R_DB_ALLOW, 1 << 5)
    pair.b.write(R.R_DB_MASK, 0)
    data = noise(2 * QUANTUM + 100)
    pair.a.qemu.write_bytes(LOCAL, data)
    channel.submit(write(LOCAL, len(data), flags=R.DMA_BELL, bell=2 << 16 | 5))
    channel.step(2)
    equal((pair.b.read(R.R_DB_PENDING), pair.a.counter(R.CNT_TX_DB), channel.result(0)), (0, 0, None), "too early")
    channel.step()
    equal((pair.a.counter(R.CNT_TX_DB), channel.result(0)), (1, (OK, len(data))), "rung")
    until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 5, "the doorbell to arrive")
    equal(pair.b.qemu.read_bytes(REMOTE, len(data)) == data, True, "data at the neighbour")
    pair.b.write(R.R_DB_PENDING, 1 << 5)
    equal(channel.run(nop(flags=R.DMA_BELL, bell=2 << 16 | 5)), [(OK, 0)], "a doorbell alone")
    until(lambda: pair.b.read(R.R_DB_PENDING) == 1 << 5, "the doorbell to arrive")


def test_bell_refused(scope):
    """a doorbell that is refused is an error of the descriptor, whose data have moved"""
    port = alone(scope)
    channel = Channel(port)
    port.set_page(1, R.DEST_SELF, 1 << 7)
    data = noise(100)
    port.qemu.write_bytes(LOCAL, data)
    equal(channel.run(write(LOCAL, 100, flags=R.DMA_BELL, bell=1 << 16 | 8),
                      write(LOCAL, 100, 200, flags=R.DMA_BELL, bell=7),
                      write(LOCAL, 100, 400, flags=R.DMA_BELL, bell=1 << 16 | 7)),
          [(R.DMA_ST_BELL, 100), (R.DMA_ST_BELL, 100), (OK, 100)], "doorbells not allowed, of a page to nowhere, good")
    equal(port.qemu.read_bytes(REMOTE, 100), data, "data")
    equal(port.counter(R.CNT_DB_DENIED), 2, "doorbells refused")
    equal(port.read(R.R_DB_PENDING), 1 << 7, "doorbells rung")
    equal(port.read(R.R_ERR_STATUS), R.ERR_DB_DENIED | R.ERR_DMA, "errors")
