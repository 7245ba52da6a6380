# SPDX-License-Identifier: GPL-2.0
"""The DMA engine: aborts, resets, and what goes away in the middle of a descriptor."""

import os

import regs as R
from dma import (BUSY, HALTED, LEAST, LOCAL, OK, QUANTUM, REMOTE, REMOTE_BYTES, RUNNING, Channel, alone, half, joined,
                 nop, put, read, write)
from port import DEVICE, PAGE, Port
from qtest import Qemu
from tap import equal, until


# ---- abort and reset

def test_abort(scope):
    """an abort ends what is submitted with a status each, and an interrupt; the channel goes on"""
    port = alone(scope)
    port.write(R.R_DMA_MASK, 0)
    channel = Channel(port)
    channel.submit(nop(), write(LOCAL, 1 << 20), write(LOCAL, 8), nop())
    channel.step(3)
    moved = channel.counter(R.DMA_CNT_BYTES)
    assert 2 * QUANTUM < moved < 4 * QUANTUM, moved
    channel.write(R.DMA_CTRL, R.DMA_ENABLE | R.DMA_ABORT)
    equal(channel.status(), (RUNNING | BUSY, 0), "status")
    channel.submit(write(LOCAL, 16))
    channel.finish()
    equal([channel.result(n) for n in range(5)],
          [(OK, 0), (R.DMA_ST_ABORTED, moved), (R.DMA_ST_ABORTED, 0), (R.DMA_ST_ABORTED, 0), (OK, 16)], "results")
    equal((channel.status(), channel.head(), port.fired()), ((RUNNING, 0), 5, {3}), "afterwards")
    equal((channel.counter(R.DMA_CNT_ERRORS), port.read(R.R_ERR_STATUS)), (0, 0), "an abort is no error")
    port.write(R.R_DMA_PENDING, 1)
    channel.write(R.DMA_CTRL, R.DMA_ENABLE | R.DMA_ABORT)
    channel.step()
    equal((channel.status(), port.fired()), ((RUNNING, 0), set()), "an abort of nothing")


def test_disable(scope):
    """disabling aborts, then stops; BUSY says when, and nothing is accepted meanwhile"""
    port = alone(scope)
    channel = Channel(port, order=8)
    channel.submit(write(LOCAL, 1 << 20), *[nop()] * 200)
    channel.step()
    moved = channel.counter(R.DMA_CNT_BYTES)
    channel.write(R.DMA_CTRL, 0)
    equal((channel.status(), channel.read(R.DMA_CTRL)), ((BUSY, 0), 0), "status")
    channel.write(R.DMA_TAIL, 202)
    equal(channel.read(R.DMA_TAIL), 201, "TAIL")
    channel.write(R.DMA_CTRL, R.DMA_ENABLE)
    equal(channel.status(), (BUSY, 0), "status: not before it has stopped")
    channel.step()
    equal(channel.head(), QUANTUM // LEAST, "how many statuses fit into a quantum")
    channel.finish()
    equal([channel.result(n) for n in range(201)], [(R.DMA_ST_ABORTED, moved)] + [(R.DMA_ST_ABORTED, 0)] * 200, "results")
    equal(channel.status(), (0, 0), "status")
    channel.start()
    equal(channel.run(write(LOCAL, 8)), [(OK, 8)], "afterwards")


def test_channel_reset(scope):
    """the reset of a channel takes effect at once and writes nothing more"""
    port = alone(scope)
    port.write(R.R_DMA_MASK, 0)
    channel = Channel(port)
    channel.submit(nop(flags=R.DMA_IRQ), write(LOCAL, 1 << 20, flags=R.DMA_IRQ), nop(flags=R.DMA_IRQ))
    channel.step(2)
    equal(port.fired(), {3}, "the first one's interrupt")
    port.qemu.write_bytes(REMOTE, bytes(1 << 20))
    channel.write(R.DMA_CTRL, R.DMA_RESET)
    equal((channel.status(), channel.counters(), port.read(R.R_DMA_PENDING)), ((0, 0), [0] * R.DMA_COUNT, 0), "state")
    equal([channel.read(at) for at in (R.DMA_BASE, R.DMA_ORDER, R.DMA_HEAD, R.DMA_TAIL, R.DMA_VECTOR)],
          [0, 0, 0, 0, R.DMA_VECTOR_SHARED], "registers")
    put(port.qemu, LOCAL, b"\xff" * (1 << 20))
    channel.step(50)
    equal([channel.result(n) for n in range(3)], [(OK, 0), None, None], "results")
    equal(any(port.qemu.read_bytes(REMOTE, 1 << 20)), False, "memory at the slot")
    equal(port.fired(), set(), "interrupts")
    channel.start()
    channel.put(nop(), write(LOCAL, 8), nop())
    channel.write(R.DMA_TAIL, 3)
    channel.finish()
    equal([channel.result(n) for n in range(3)], [(OK, 0), (OK, 8), (OK, 0)], "afterwards")


# ---- life

def test_link_down(scope):
    """the link goes down in the middle: the descriptor ends with what had moved, the next ones find it down"""
    pair = joined(scope)
    channel, moved = half(pair.a)
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    channel.submit(read(LOCAL, 8))
    channel.finish()
    equal([channel.result(n) for n in range(3)], [(R.DMA_ST_LINK, moved), (OK, 0), (R.DMA_ST_LINK, 0)], "results")
    pair.fabric.link_up(pair.node_a, 0)
    pair.until(lambda: pair.a.slot_status(0) & R.SLOT_LIVE, "the slot to live again")
    equal(channel.run(write(LOCAL, 8)), [(OK, 8)], "afterwards")


def test_neighbour_dies(scope):
    """a neighbour killed in the middle is a link that went down"""
    pair = joined(scope)
    channel, moved = half(pair.a)
    pair.b.qemu.kill()
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    channel.finish()
    equal([channel.result(n) for n in range(2)], [(R.DMA_ST_LINK, moved), (OK, 0)], "results")


def test_withdrawn(scope):
    """the owner withdraws in the middle: once BUSY is clear nothing lands any more"""
    pair = joined(scope)
    channel, moved = half(pair.a)
    pair.b.close_inbound(0)
    pair.until(lambda: not pair.b.inbound_status(0) & R.INBOUND_BUSY, "the withdrawal to be over")
    pair.b.qemu.write_bytes(REMOTE, bytes(1 << 20))
    pair.a.qemu.write_bytes(LOCAL, b"\xff" * (1 << 20))
    channel.finish()
    equal([channel.result(n) for n in range(2)], [(R.DMA_ST_CLOSED, moved), (OK, 0)], "results")
    equal(any(pair.b.qemu.read_bytes(REMOTE, 1 << 20)), False, "memory that was withdrawn")


def test_slot_changes(scope):
    """a slot that shrinks or closes in the middle ends the descriptor there"""
    port = alone(scope)
    for slot, code in (((R.DEST_SELF, 0, PAGE), R.DMA_ST_BOUNDS), ((R.DEST_SELF, 0, PAGE, 0), R.DMA_ST_CLOSED)):
        port.set_slot(0, R.DEST_SELF, 0, REMOTE_BYTES)
        channel, moved = half(port)
        port.set_slot(0, *slot)
        channel.finish()
        equal([channel.result(n) for n in range(2)], [(code, moved), (OK, 0)], "results")
        channel.write(R.DMA_CTRL, R.DMA_RESET)


def test_bus_master(scope):
    """bus mastering off in the middle: the channel halts, nothing is written; it is started anew afterwards"""
    port = alone(scope)
    channel, _ = half(port)
    port.config_write(4, 2, 2)
    channel.step(2)
    equal(channel.status(), (HALTED, R.DMA_ST_MASTER), "status")
    equal(port.error(), (R.ERR_DMA, R.DMA_ST_MASTER << 8, channel.entry(0)), "error")
    equal(channel.counter(R.DMA_CNT_ERRORS), 1, "errors")
    port.config_write(4, 6, 2)
    channel.step(30)
    equal((channel.result(0), channel.head(), channel.status()[0]), (None, 0, HALTED), "it does not go on by itself")
    channel.write(R.DMA_CTRL, 0)
    channel.start()
    equal(channel.run(write(LOCAL, 8)), [(OK, 8)], "afterwards")


def test_power_state(scope):
    """a function in D3hot accesses no memory"""
    port = alone(scope)
    channel, _ = half(port)
    at = port.capability(1) + 4
    port.config_write(at, 3, 2)
    channel.step(2)
    port.config_write(at, 0, 2)
    equal((channel.status(), channel.result(0)), ((HALTED, R.DMA_ST_MASTER), None), "channel")


def test_resets(scope):
    """a reset of the port, of the function or of the machine in the middle: nothing is written after it"""
    def flr(port):
        port.config_write(port.capability(0x10) + 8, 0x8000, 2)

    def machine(port):
        port.qemu.qmp("system_reset")
        port.qemu.wait_event("RESET")
    for reset in (lambda port: port.write(R.R_CTRL, R.CTRL_RESET)), flr, machine:
        with scope.__class__() as inner:
            port = alone(inner)
            channel, _ = half(port)
            reset(port)
            port.qemu.write_bytes(REMOTE, bytes(1 << 20))
            channel.step(30)
            equal([channel.result(n) for n in range(2)], [None, None], "results")
            equal(any(port.qemu.read_bytes(REMOTE, 1 << 20)), False, "memory at the slot")
            if reset is machine:
                continue
            port.set_up()
            equal((channel.status(), channel.counters()), ((0, 0), [0] * R.DMA_COUNT), "channel")
            equal((port.read(R.R_DMA_PENDING), port.read(R.R_DMA_MASK)), (0, 0xffffffff), "interrupts")
            channel.start()
            equal(channel.run(nop()), [(OK, 0)], "afterwards")


def test_paused(scope):
    """no channel works while the machine is stopped"""
    port = alone(scope)
    channel, moved = half(port)
    port.qemu.qmp("stop")
    channel.step(3)
    equal(channel.counter(R.DMA_CNT_BYTES), moved, "bytes")
    port.qemu.qmp("cont")
    channel.finish()
    equal(channel.result(0), (OK, 1 << 20), "afterwards")


def test_running(scope):
    """beside a CPU and a clock that run: registers answer in the middle of long work, and an abort ends it"""
    rom = os.path.join(scope.dir, "spin")
    with open(rom, "wb") as file:
        # jmp to itself, where a CPU begins.
        file.write(bytes(0xfff0) + b"\xeb\xfe" + bytes(14))
    port = Port(Qemu(scope, "h1", "-bios", rom, "-device", f"weft-port,addr={DEVICE:#x}", accel="tcg"))
    port.set_inbound(0, 0, REMOTE_BYTES, REMOTE, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, REMOTE_BYTES)
    channels = [Channel(port, n, order=8) for n in range(4)]
    total = 256 * REMOTE_BYTES
    for channel in channels:
        # Many seconds, at the speed of memory.
        channel.submit(*[write(LOCAL, REMOTE_BYTES)] * 256)
    until(lambda: all(channel.counter(R.DMA_CNT_BYTES) for channel in channels), "all channels to move")
    for channel in channels:
        channel.write(R.DMA_CTRL, R.DMA_ENABLE | R.DMA_ABORT)
    until(lambda: not any(channel.status()[0] & BUSY for channel in channels), "the aborts to end")
    for n, channel in enumerate(channels):
        results = [channel.result(index) for index in range(256)]
        moved = channel.counter(R.DMA_CNT_BYTES)
        equal(sum(one[1] for one in results), moved, f"bytes of channel {n}")
        assert 0 < moved < total, f"{moved} of {total} bytes"
        equal(results[-1], (R.DMA_ST_ABORTED, 0), f"the last of channel {n}")
