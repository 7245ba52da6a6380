# SPDX-License-Identifier: GPL-2.0
"""The DMA engine in traced mode: how many TLPs carry what it moves."""

import random

import regs as R
from dma import LOCAL, OK, Channel, alone, joined, negotiate, read, write
from hotplug import DEVICE, OPTIONS, Slot
from port import PAGE, Bus
from qtest import Qemu
from tap import equal


def parts(at, length, size):
    return (at + length - 1) // size - at // size + 1


def expected(near, far, length, payload, request, out):
    """The counters of one element, by the manual's rule: pieces end at pages of the far side."""
    mwr = mrd = cpl = host_mwr = host_mrd = host_cpl = 0
    while length:
        piece = min(length, PAGE - far % PAGE)
        if out:
            host_mrd += parts(near, piece, request)
            host_cpl += parts(near, piece, min(payload, request))
            mwr += parts(far, piece, payload)
        else:
            mrd += parts(far, piece, request)
            cpl += parts(far, piece, min(payload, request))
            host_mwr += parts(near, piece, payload)
        near, far, length = near + piece, far + piece, length - piece
    return [mwr, mrd, cpl, host_mwr, host_mrd, host_cpl]


def test_traced(scope):
    """traced: TLPs of both sides, split at the negotiated sizes and at pages, exactly"""
    port = alone(scope, traced="on")
    channel = Channel(port)
    rng = random.Random(11)
    for payload, request in ((128, 512), (256, 128), (512, 4096), (128, 128)):
        negotiate(port, payload, request)
        for length in 1, 127, 128, 129, 4096, 4097, 100_000:
            near, far = rng.choice([0, 1, 100, 4095]), rng.choice([0, 1, 100, 4095])
            out = rng.random() < 0.5
            before = channel.counters()
            port.write(R.R_COUNTERS_CLEAR, 0)
            equal(channel.run((write if out else read)(LOCAL + near, length, far)), [(OK, length)], "result")
            after = [new - old for new, old in zip(channel.counters(), before)]
            want = expected(LOCAL + near, far, length, payload, request, out)
            # The descriptor is read, and its status written.
            want[3] += 1
            want[4] += 1
            want[5] += parts(channel.entry(channel.tail - 1), 64, min(payload, request))
            what = f"{length} bytes, {near} and {far} off, payload {payload}, request {request}, out {out}"
            equal(after, [1, length, 0] + want, what)
            port_wide = [port.counter(n) for n in (R.CNT_TX_MWR, R.CNT_TX_MWR_BYTES, R.CNT_TX_MRD, R.CNT_TX_MRD_BYTES)]
            equal(port_wide, [want[0], length if out else 0, want[1], 0 if out else length], f"port, {what}")


def test_traced_figures(scope):
    """traced: the figures one can check by hand, at a payload of 128 and requests of 512"""
    port = alone(scope, traced="on")
    channel = Channel(port)
    channel.run(write(LOCAL, 4096))
    # Ahead: the descriptor, 1 request and 1 completion; behind: its status.
    equal(channel.counters()[3:], [32, 0, 0, 1, 8 + 1, 32 + 1], "a page written")
    channel.write(R.DMA_CTRL, R.DMA_RESET)
    channel.start()
    channel.run(read(LOCAL, 4096))
    equal(channel.counters()[3:], [0, 8, 32, 32 + 1, 1, 1], "a page read")
    channel.write(R.DMA_CTRL, R.DMA_RESET)
    channel.start()
    where = channel.put_list([(LOCAL + 200 * n, 100) for n in range(16)])
    channel.run(write(where, 1600, flags=R.DMA_LIST, count=16))
    # One for each element, and one more for each of the 12 multiples of 128 within one.
    equal(channel.counter(R.DMA_CNT_MWR), 16 + 12, "a list written")


def test_traced_order(scope):
    """tracing can be switched in the middle, and refused transfers count nothing"""
    pair = joined(scope)
    channel = Channel(pair.a)
    channel.run(write(LOCAL, 4096))
    equal(channel.counters()[3:], [0] * 6, "not traced")
    pair.node_a.send(R.FAB_TRACE, arg=(1,))
    pair.until(lambda: pair.a.read(R.R_STATUS) & R.STATUS_TRACED, "traced mode")
    channel.run(write(LOCAL, 4096, slot=3))
    equal(channel.counters()[3:6], [0] * 3, "refused")
    channel.run(write(LOCAL, 4096))
    equal(channel.counter(R.DMA_CNT_MWR), 32, "traced")


def test_root_port(scope):
    """a slot carries payloads of 256 bytes, once both ends are told so; a reset of the machine forgets it"""
    qemu = Qemu(scope, "h1", *OPTIONS)
    bus = Bus(qemu)

    def field(slot, register):
        return bus.read(DEVICE, slot.express + register, 2)

    slot = Slot(bus)
    equal(field(slot, 4) & 7, 1, "Max_Payload_Size Supported: 256")
    equal(field(slot, 8) & 0xe0, 0, "Max_Payload_Size: 128")
    bus.write(DEVICE, slot.express + 8, field(slot, 8) | 0x20, 2)
    equal(field(slot, 8) & 0xe0, 0x20, "Max_Payload_Size: 256")
    qemu.qmp("system_reset")
    qemu.wait_event("RESET")
    slot = Slot(Bus(qemu))
    equal(field(slot, 8) & 0xe0, 0, "Max_Payload_Size after a reset: 128")
