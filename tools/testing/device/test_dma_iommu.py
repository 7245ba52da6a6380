# SPDX-License-Identifier: GPL-2.0
"""The DMA engine behind an IOMMU: rings, lists and data are where the tables say, and nowhere else."""

import regs as R
from dma import HALTED, LISTS, LOCAL, OK, QUANTUM, REMOTE, RINGS, Channel, noise, read, write
from iommu import READ, WRITE
from port import DEVICE, PAGE, host
from tap import equal
from test_iommu import IOVA, PRESENT, translated

# The tables give memory DMA addresses IOVA above its own.
FAR = IOVA + REMOTE
REQUESTER = DEVICE << 3


def behind(scope):
    """A port behind an IOMMU, slot 0 on its own memory; ring 0 and its lists are mapped, data are not."""
    port = host(scope, beside=PRESENT)
    port.qemu.complains = True      # the IOMMU, of each fault
    iommu, domain = translated(port)
    for page in RINGS, LISTS:
        domain.map(IOVA + page, page)
    domain.map(FAR, REMOTE, 16)
    port.set_inbound(0, 0, 16 * PAGE, FAR, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, 16 * PAGE)
    assert port.slot_status(0) & R.SLOT_LIVE, "the slot is live"
    return port, iommu, domain


def test_translated(scope):
    """ring, list and scattered pages are found through the tables, in both directions"""
    port, iommu, domain = behind(scope)
    channel = Channel(port, bus=IOVA)
    pages = [LOCAL + n * PAGE for n in (7, 3, 5, 1)]
    for n, page in enumerate(pages):
        domain.map(IOVA + n * PAGE, page)
    data = noise(4 * PAGE - 200)
    for n, page in enumerate(pages):
        port.qemu.write_bytes(page, bytes(PAGE))
    port.qemu.write_bytes(REMOTE + 9, data)
    equal(channel.run(read(IOVA + 100, len(data), 9)), [(OK, len(data))], "a read to pages that are apart")
    equal(b"".join(port.qemu.read_bytes(page, PAGE) for page in pages) == bytes(100) + data + bytes(100), True, "data")
    where = IOVA + channel.put_list([(IOVA + 100, 5000), (IOVA + 5100, len(data) - 5000)])
    port.qemu.write_bytes(REMOTE, bytes(16 * PAGE))
    equal(channel.run(write(where, len(data), 77, flags=R.DMA_LIST, count=2)), [(OK, len(data))], "a list, back")
    equal(port.qemu.read_bytes(REMOTE + 77, len(data)) == data, True, "data at the slot")
    equal(iommu.fault(), None, "faults")


def test_not_mapped(scope):
    """what is not mapped, or not for this direction, faults: the IOMMU records it and the descriptor says so"""
    port, iommu, domain = behind(scope)
    channel = Channel(port, bus=IOVA)
    domain.map(IOVA, LOCAL, rights=READ)
    domain.map(IOVA + PAGE, LOCAL + PAGE, rights=WRITE)
    listed = {"flags": R.DMA_LIST, "count": 1}
    cases = {
        "a guest-physical address": (write(LOCAL, 8), R.DMA_ST_LOCAL, 0, LOCAL),
        "a page that is not mapped": (read(IOVA + 2 * PAGE, 8), R.DMA_ST_LOCAL, 0, IOVA + 2 * PAGE),
        "a write to what may be read": (read(IOVA, 8), R.DMA_ST_LOCAL, 0, IOVA),
        "a read of what may be written": (write(IOVA + PAGE, 8), R.DMA_ST_LOCAL, 0, IOVA + PAGE),
        "from the one into the other": (write(IOVA, 2 * PAGE, 0), R.DMA_ST_LOCAL, PAGE, IOVA + PAGE),
        "a list that is not mapped": (write(LISTS, 8, **listed), R.DMA_ST_LIST, 0, LISTS),
    }
    for what, (raw, code, moved, address) in cases.items():
        equal(channel.run(raw), [(code, moved)], what)
        equal(iommu.fault(), (REQUESTER, address), f"fault of {what}")
    equal(channel.run(write(IOVA, 8), read(IOVA + PAGE, 8)), [(OK, 8)] * 2, "what is mapped so")
    equal(iommu.fault(), None, "faults of it")


def test_ring_not_mapped(scope):
    """a ring at a guest-physical address, and one that may only be read, halt the channel"""
    port, iommu, domain = behind(scope)
    channel = Channel(port)
    channel.submit(write(IOVA, 8))
    channel.step()
    equal(channel.status(), (HALTED, R.DMA_ST_RING), "a ring that is not mapped")
    equal(iommu.fault(), (REQUESTER, RINGS), "its fault")
    channel.write(R.DMA_CTRL, R.DMA_RESET)
    domain.map(IOVA, LOCAL)
    domain.map(IOVA + RINGS, RINGS, rights=READ)
    iommu.invalidate(domain.invalidation(IOVA + RINGS))
    channel = Channel(port, bus=IOVA)
    port.qemu.write_bytes(LOCAL, b"lastdata")
    channel.submit(write(IOVA, 8))
    channel.step()
    equal((channel.status(), channel.result(0)), ((HALTED, R.DMA_ST_RING), None), "a ring that cannot be written")
    equal(port.qemu.read_bytes(REMOTE, 8), b"lastdata", "data, which moved before the status could not be written")


def test_unmapped(scope):
    """an unmap in the middle of a descriptor: behind the invalidation nothing of it is touched"""
    port, iommu, domain = behind(scope)
    port.close_inbound(0)
    domain.map(FAR, REMOTE, 256)
    port.set_inbound(0, 0, 256 * PAGE, FAR, allow=R.ALLOW_SELF)
    port.set_slot(0, R.DEST_SELF, 0, 256 * PAGE)
    channel = Channel(port, bus=IOVA)
    domain.map(IOVA, LOCAL, 256)
    data = noise(256 * PAGE)
    port.qemu.write_bytes(REMOTE, data)
    port.qemu.write_bytes(LOCAL, bytes(256 * PAGE))
    channel.submit(read(IOVA, 256 * PAGE))
    channel.step(3)
    domain.unmap(IOVA, 256)
    iommu.invalidate(domain.invalidation_of_all())
    channel.finish()
    moved = 3 * QUANTUM
    equal(channel.result(0), (R.DMA_ST_LOCAL, moved), "result")
    equal(iommu.fault(), (REQUESTER, IOVA + moved), "fault")
    equal(port.qemu.read_bytes(LOCAL, 256 * PAGE) == data[:moved] + bytes(256 * PAGE - moved), True, "memory")
