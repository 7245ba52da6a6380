# SPDX-License-Identifier: GPL-2.0
"""The DMA engine of every function: channels of VFs beside those of their PF, and what keeps them apart."""

import regs as R
from dma import LOCAL, OK, QUANTUM, REMOTE, RINGS, Channel, half, negotiate, noise, nop, write
from functions import FIRST, SLOT_SIZE, Endpoints, Machine, to
from iommu import Iommu
from port import ECAM, PAGE
from tap import equal
from test_iommu import IOVA, PRESENT

# Guest memory of function n: rings, data, and what its slot leads to.
STRIDE = 0x100000


def onto_itself(port, base=REMOTE, length=SLOT_SIZE, at=None):
    """Slot 0 of a function on memory of its own host."""
    port.set_inbound(0, 0, length, base if at is None else at, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, length)
    assert port.slot_status(0) & R.SLOT_LIVE, "the slot is live"


def granted(pf, count, **quota):
    """VFs of a PF that may do everything but what the quota names."""
    vfs = pf.enable(count)
    for n, vf in enumerate(vfs):
        pf.grant(n, **quota)
        vf.write(R.R_CTRL, R.CTRL_ENABLE)
    return vfs


def test_channels(scope):
    """each function has channels, rings, interrupts and counters of its own, all at work at once, each on its peer"""
    pair = Endpoints(scope)
    near, far = [pair.a, *pair.virtual(pair.a, 2)], [pair.b, *pair.virtual(pair.b, 2)]
    channels, data = [], []
    for n, (one, other) in enumerate(zip(near, far)):
        base = REMOTE + n * STRIDE
        pair.opened(other, 0, 0, base, 0x40000)
        one.set_slot(0, to(other.function), 0, 0x40000)
        one.write(R.R_DMA_MASK, 0)
        data.append(noise(3 * QUANTUM + n, n))
        one.qemu.write_bytes(LOCAL + n * STRIDE, data[n])
        channels.append(Channel(one, 0, ring=RINGS + n * STRIDE))
    for n, channel in enumerate(channels):
        channel.submit(write(LOCAL + n * STRIDE, len(data[n]), flags=R.DMA_IRQ if n else 0))
    channels[0].step(2)
    equal([channel.counter(R.DMA_CNT_BYTES) for channel in channels], [2 * QUANTUM] * 3, "bytes after two ticks")
    for channel in channels:
        channel.finish()
    equal([channel.result(0) for channel in channels], [(OK, len(one)) for one in data], "results")
    equal([(one.read(R.R_DMA_PENDING), one.fired()) for one in near], [(0, set()), (1, {3}), (1, {3})], "interrupts")
    for n, other in enumerate(far):
        equal(other.qemu.read_bytes(REMOTE + n * STRIDE, len(data[n])) == data[n], True, f"data of function {n}")


def test_address_spaces(scope):
    """a function's DMA is translated, and its faults recorded, under its own requester id"""
    machine = Machine(scope, "h1", vfs=5, second=False, beside=PRESENT)
    machine.qemu.complains = True       # the IOMMU, of each fault
    pf = machine.pf[0]
    vf = granted(pf, 5)[4]
    iommu = Iommu(machine.qemu)
    domains = []
    for n, port in enumerate((pf, vf)):
        domain = iommu.domain()
        # The same addresses, other memory.
        domain.map(IOVA + RINGS, RINGS + n * STRIDE)
        domain.map(IOVA, LOCAL + n * STRIDE, 2 - n)
        domain.map(IOVA + STRIDE, REMOTE + n * STRIDE, 16)
        iommu.attach(port.devfn >> 3, domain, bus=1)
        domains.append(domain)
    iommu.start()
    iommu.enable()
    for n, port in enumerate((pf, vf)):
        onto_itself(port, length=16 * PAGE, at=IOVA + STRIDE)
        channel = Channel(port, ring=RINGS + n * STRIDE, bus=IOVA - n * STRIDE)
        port.qemu.write_bytes(LOCAL + n * STRIDE, bytes([n + 1]) * 2 * PAGE)
        want = (OK, 2 * PAGE) if n == 0 else (R.DMA_ST_LOCAL, PAGE)
        equal(channel.run(write(IOVA, 2 * PAGE)), [want], f"write of function {n}")
        equal(port.qemu.read_bytes(REMOTE + n * STRIDE, PAGE), bytes([n + 1]) * PAGE, f"data of function {n}")
        fault = None if n == 0 else (1 << 8 | port.devfn, IOVA + PAGE)
        equal(iommu.fault(), fault, f"fault of function {n}")


def test_quota(scope):
    """a VF's descriptors reach no further than its quota: slots, doorbell pages, doorbells"""
    machine = Machine(scope, "h1", second=False)
    pf = machine.pf[0]
    vf = granted(pf, 1, slots=1, db_pages=1, bytes=SLOT_SIZE)[0]
    onto_itself(vf)
    vf.set_slot(1, R.DEST_SELF, 0, PAGE)
    for page in 0, 1:
        vf.set_page(page, R.DEST_SELF, 0xffffffff)
    channel = Channel(vf)
    bell = {"flags": R.DMA_BELL}
    equal(channel.run(write(LOCAL, 8), write(LOCAL, 8, slot=1), nop(bell=1 << 16, **bell), nop(bell=0, **bell)),
          [(OK, 8), (R.DMA_ST_CLOSED, 0), (R.DMA_ST_BELL, 0), (OK, 0)], "within the quota and beyond it")
    pf.grant(0, slots=0)
    equal(channel.run(write(LOCAL, 8)), [(R.DMA_ST_CLOSED, 0)], "after the slot was taken away")


def test_channels_of_a_vf(scope):
    """a VF has the channels that its quota says; those that it loses stop at once and are as new when it has them again"""
    machine = Machine(scope, "h1", second=False)
    pf = machine.pf[0]
    vf = granted(pf, 1, channels=2)[0]
    onto_itself(vf)
    equal(vf.read(R.R_DMA_CAP) & R.DMA_CAP_CHANNELS, 2, "channels")
    equal(vf.read(R.R_CAP1) & R.CAP1_DMA, R.CAP1_DMA, "CAP1")
    channels = [Channel(vf, n, ring=RINGS + n * PAGE) for n in range(3)]
    equal([channel.status()[0] for channel in channels], [R.DMA_RUNNING, R.DMA_RUNNING, 0], "the third one")
    data = noise(2 * QUANTUM, 1)
    machine.qemu.write_bytes(LOCAL, data)
    for channel in channels[:2]:
        channel.submit(write(LOCAL, 2 * QUANTUM))
    channels[0].step(1)
    pf.grant(0, channels=1)
    equal(vf.read(R.R_DMA_CAP) & R.DMA_CAP_CHANNELS, 1, "channels that are left")
    channels[0].finish()
    equal(channels[0].result(0), (OK, 2 * QUANTUM), "the one that is left")
    equal(channels[1].result(0), None, "status of the other's descriptor")
    equal(channels[1].status()[0], 0, "status of the other channel")
    pf.grant(0, channels=0)
    equal((vf.read(R.R_CAP1) & R.CAP1_DMA, vf.read(R.R_DMA_CAP)), (0, 0), "without any")
    pf.grant(0)
    equal([channel.status()[0] for channel in channels], [0] * 3, "all are as new")
    equal(Channel(vf, 1, ring=RINGS + PAGE).run(write(LOCAL, 8)), [(OK, 8)], "and work")


def test_reset_of_one(scope):
    """a VF that is reset, or loses bus mastering, in the middle stops; PF and other VFs go on"""
    machine = Machine(scope, "h1", vfs=3, second=False)
    pf = machine.pf[0]
    functions = [pf, *granted(pf, 3)]
    channels = []
    for n, port in enumerate(functions):
        onto_itself(port, REMOTE + n * STRIDE)
        channels.append(Channel(port, ring=RINGS + n * STRIDE))
        channels[n].submit(write(LOCAL, SLOT_SIZE))
    channels[0].step(2)
    functions[1].flr()
    functions[2].config_write(4, 2, 2)
    machine.qemu.write_bytes(REMOTE + STRIDE, bytes(2 * STRIDE))
    machine.qemu.write_bytes(LOCAL, b"\xff" * SLOT_SIZE)
    for n in 0, 3:
        channels[n].finish()
        equal(channels[n].result(0), (OK, SLOT_SIZE), f"function {n}")
    equal([channels[n].result(0) for n in (1, 2)], [None, None], "those that were stopped")
    equal(any(machine.qemu.read_bytes(REMOTE + STRIDE, 2 * STRIDE)), False, "memory at their slots")
    equal(channels[1].status(), (0, 0), "the one that was reset")
    equal(channels[2].status(), (R.DMA_HALTED, R.DMA_ST_MASTER), "the one that may not")


def test_end_of_vfs(scope):
    """VFs that are disabled, or whose PF is reset, in the middle of a descriptor write nothing more"""
    machine = Machine(scope, "h1", vfs=1, second=False)
    pf = machine.pf[0]
    for end in pf.disable, pf.flr, lambda: pf.write(R.R_CTRL, R.CTRL_RESET):
        vf = granted(pf, 1)[0]
        onto_itself(vf)
        channel, _ = half(vf)
        end()
        machine.qemu.write_bytes(REMOTE, bytes(SLOT_SIZE))
        machine.qemu.clock_step(1_000_000)
        equal((channel.result(0), any(machine.qemu.read_bytes(REMOTE, SLOT_SIZE))), (None, False), "status and memory")
        pf.disable()
        equal(machine.qemu.read(ECAM + (1 << 20) + (FIRST << 12) + 8, 4), 0xffffffff, "class of the VF, disabled")


def test_payload(scope):
    """traced: the sizes are those of the PF, whatever a VF's own Device Control says"""
    machine = Machine(scope, "h1", vfs=1, second=False, traced="on")
    pf = machine.pf[0]
    vf = granted(pf, 1)[0]
    onto_itself(vf)
    negotiate(pf, 512, 4096)
    negotiate(vf, 128, 128)
    channel = Channel(vf)
    equal(channel.run(write(LOCAL, PAGE)), [(OK, PAGE)], "write")
    equal((channel.counter(R.DMA_CNT_MWR), channel.counter(R.DMA_CNT_HOST_MRD)), (8, 1 + 1), "TLPs")
