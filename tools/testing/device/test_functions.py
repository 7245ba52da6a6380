# SPDX-License-Identifier: GPL-2.0
"""PFs and VFs of an endpoint: SR-IOV as a kernel programs it, and each function a port of its own."""

import regs as R
from functions import (CONTROL, FIRST, INITIAL, LINK, NUM, OFFSET, PAGES, SLOT_SIZE, SRIOV, STEP, STRIDE,
                       SUPPORTED_PAGES, TOTAL, VF_BAR, VF_ENABLE, VF_ID, VF_MEMORY, VF_SLOTS, VF_WINDOW_SIZE,
                       Endpoints, Machine, Vf, cannot, to)
from iommu import Iommu
from port import ECAM, MEMORY, PAGE, host
from tap import equal

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT
EXTENDED = 1 << 20
# Not what any physical address is.
IOVA = 0x7000000000


def test_capability(scope):
    """MR-8: the SR-IOV capability: how many VFs, where, which page sizes and BARs; dependencies of PFs form a ring"""
    machine = Machine(scope, "h1", vfs=R.VFS)
    for p, pf in enumerate(machine.pf):
        equal(pf.extended(0x10), SRIOV, "place of the capability")
        equal(pf.sriov(TOTAL), 16, "TotalVFs")
        equal(pf.sriov(INITIAL), 16, "InitialVFs")
        equal(pf.sriov(NUM), 0, "NumVFs")
        equal(pf.sriov(OFFSET), FIRST, "First VF Offset")
        equal(pf.sriov(STRIDE), STEP, "VF Stride")
        equal(pf.sriov(VF_ID), R.DEVICE_ID_VF, "VF device id")
        equal(pf.sriov(SUPPORTED_PAGES, 4), 0x553, "page sizes")
        equal(pf.sriov(PAGES, 4), 1, "page size")
        equal(pf.sriov(LINK, 1), 1 - p, "Function Dependency Link")
        equal(pf.read(R.R_CAP1) & R.CAP1_SRIOV, R.CAP1_SRIOV, "CAP1")
        equal(pf.read(R.R_FUNCTION), 16 << 8 | p, "FUNCTION")
        for bar, size, kind in ((0, R.BAR_CTRL_SIZE, 0), (2, VF_WINDOW_SIZE, 0xc), (4, PAGE, 0)):
            pf.set_sriov(VF_BAR + 4 * bar, 0xffffffff, 4)
            value = pf.sriov(VF_BAR + 4 * bar, 4)
            equal((value & 0xf, (~(value & ~0xf) & 0xffffffff) + 1), (kind, size), f"VF BAR {bar}")
    ari = machine.pf[0].extended(0xe)
    equal(machine.pf[0].config_read(ari + 5, 1), 1, "the next function by ARI")
    equal(machine.pf[1].config_read(ari + 5, 1), 0, "the one after it")


def test_alone(scope):
    """a PF alone depends on itself; without VFs it has no SR-IOV and no registers for it"""
    pf = Machine(scope, "h1", second=False).pf[0]
    equal(pf.sriov(LINK, 1), 0, "Function Dependency Link")
    plain = host(scope, "h2")
    equal(plain.config_read(SRIOV), 0, "where SR-IOV would be")
    equal(plain.read(R.R_CAP1) & R.CAP1_SRIOV, 0, "CAP1")
    equal(plain.read(R.R_FUNCTION), 0, "FUNCTION")
    for register in R.R_VF, R.R_VF + R.VF_SLOTS, R.R_VF + R.VF_MBOX, R.R_PF_MBOX, R.R_VF_PENDING:
        plain.write(register, 0xffffffff)
        equal(plain.read(register), 0, f"register {register:#x}")


def test_enable(scope):
    """VFs are there while enabled, as many as NumVFs; each has what a function has, at its stride of the BARs"""
    machine = Machine(scope, "h1")
    pf = machine.pf[0]
    first = ECAM + EXTENDED + (FIRST << 12)
    equal(machine.qemu.read(first + 8, 4), 0xffffffff, "class of a VF that is not enabled")
    vfs = pf.enable(3)
    for n, vf in enumerate(vfs):
        equal(vf.config_read(0), 0xffffffff, "vendor and device, which SR-IOV has in the PF")
        equal(vf.config_read(0xa, 2), 0x0680, "class")
        express = vf.capability(0x10)
        equal(vf.config_read(express + 4) >> 28 & 1, 1, "FLR in the device capabilities")
        vf.extended(1)
        vf.extended(0xe)
        equal(vf.config_read(vf.capability(0x11) + 2, 2) & 0x7ff, R.VECTORS - 1, "vectors")
        equal(vf.read(R.R_ID), R.ID, "ID")
        equal(vf.read(R.R_FUNCTION), R.FUNCTION_VF | R.PFS + n, "FUNCTION")
        equal(vf.read(R.R_CAP1) & (R.CAP1_SRIOV | R.CAP1_MBOX_BYTES), 0, "no VFs, no neighbour mailbox")
        equal(vf.slot_size, SLOT_SIZE, "slot size")
        equal(vf.wc_offset, VF_SLOTS * SLOT_SIZE, "place of the second alias")
        vf.write(R.R_SCRATCH, 0x1234 + n)
    beyond = Vf.__new__(Vf)
    beyond.qemu, beyond.devfn = machine.qemu, FIRST + 3 * STEP
    equal(beyond.config_read(8), 0xffffffff, "class of the VF after the last")
    for n, vf in enumerate(vfs):
        equal(vf.read(R.R_SCRATCH), 0x1234 + n, f"SCRATCH of VF {n}")
        equal(pf.vf(n, R.VF_STATUS) & R.VF_ENABLED, R.VF_ENABLED, "STATUS in the PF")
        equal(pf.vf(n, R.VF_FUNCTION), R.PFS + n, "its number there")
    equal(pf.vf(3, R.VF_STATUS) & R.VF_ENABLED, 0, "STATUS of the next")
    equal(pf.read(R.R_SCRATCH), 0, "SCRATCH of the PF")
    pf.disable()
    equal(vfs[0].config_read(8), 0xffffffff, "class afterwards")
    equal(machine.qemu.readl(vfs[0].ctrl + R.R_ID), 0, "where its registers were")
    again = machine.pf[1].enable(R.VFS)
    equal([vf.function for vf in again], list(range(18, 34)), "numbers of all VFs of the second PF")


def test_bad_programming(scope):
    """NumVFs beyond TotalVFs, or changed while enabled, and reserved bits do nothing"""
    machine = Machine(scope, "h1", vfs=4)
    pf = machine.pf[0]
    pf.set_sriov(NUM, 5)
    pf.set_sriov(CONTROL, VF_ENABLE | VF_MEMORY)
    equal(pf.sriov(CONTROL) & VF_ENABLE, 0, "VF Enable with too many")
    pf.set_sriov(NUM, 0xffff)
    pf.set_sriov(CONTROL, 0xffff)
    equal(pf.sriov(CONTROL) & VF_ENABLE, 0, "VF Enable with far too many")
    vfs = pf.enable(2)
    pf.set_sriov(NUM, 4)
    equal(pf.sriov(NUM), 2, "NumVFs written while enabled")
    vfs[1].write(R.R_SCRATCH, 7)
    for register in TOTAL, INITIAL, OFFSET, STRIDE, VF_ID, LINK:
        before = pf.sriov(register)
        pf.set_sriov(register, 0xffff)
        equal(pf.sriov(register), before, f"read-only register {register:#x}")
    pf.set_sriov(CONTROL, VF_ENABLE | VF_MEMORY)
    equal(vfs[1].read(R.R_SCRATCH), 7, "a VF that was enabled again")
    for n in 0, 3:
        for register in range(0, R.VF_STRIDE, 4):
            pf.set_vf(n, register, 0xffffffff)
    equal(pf.vf(4, R.VF_SLOTS), 0, "group of a VF that the PF cannot have")
    equal(vfs[0].read(R.R_CAP0) & R.CAP0_SLOTS, VF_SLOTS, "slots of a VF with a quota of all ones")
    pf.set_sriov(NUM, 0)
    pf.disable()
    pf.set_sriov(NUM, 0)
    pf.set_sriov(CONTROL, VF_ENABLE | VF_MEMORY)
    equal(vfs[0].config_read(8), 0xffffffff, "VFs enabled with NumVFs 0")


def test_windows(scope):
    """each VF opens and reaches memory for itself: the same offset of different functions is different memory"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a), pair.virtual(pair.b)
    pair.opened(pair.b, 0, 0, MEMORY)
    for n, vf in enumerate(far):
        pair.opened(vf, 0, 0, MEMORY + (n + 1) * PAGE)
    for n, vf in enumerate(near):
        # Each to the function of the same index over there, to another VF, and to the PF.
        vf.set_slot(0, R.DEST_LINK, 0, PAGE)
        vf.set_slot(1, to(far[(n + 1) % 3].function), 0, PAGE)
        vf.set_slot(2, to(0), 0, PAGE)
        for slot, page in (0, n + 1), (1, (n + 1) % 3 + 1), (2, 0):
            equal(vf.slot_status(slot), LIVE, f"slot {slot} of VF {n}")
            value = 0x100 * n + slot + 1
            vf.qemu.write(vf.slot(slot), 8, value)
            equal(pair.b.qemu.read(MEMORY + page * PAGE, 8), value, f"memory behind slot {slot} of VF {n}")
    pair.a.set_slot(0, to(far[1].function), 0, PAGE)
    equal(pair.a.slot_status(0), LIVE, "a slot of the PF to a VF")
    far[1].close_inbound(0)
    pair.settled(far[1], 0)
    cannot(pair.a, 0, "withdrawn by the VF")
    cannot(near[1], 0, "withdrawn by the VF")
    equal(near[1].slot_status(2), LIVE, "the slot to the PF")
    equal(near[0].slot_status(0), LIVE, "the slot to another VF")


def test_refused(scope):
    """a refused access is told to the function it was meant for, and counted for the endpoint"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a), pair.virtual(pair.b)
    near[0].set_slot(0, to(far[2].function), 0x5000, PAGE)
    near[0].qemu.write(near[0].slot(0, 8), 8, 1)
    pair.until(lambda: far[2].counter(R.CNT_IN_DENIED) == 1, "the owner to be told")
    equal(far[2].error(), (R.ERR_IN_DENIED, 0, 0x5008), "its error")
    equal(near[0].error(), (R.ERR_OUT_WRITE, 0, 8), "error of the VF that tried")
    for port in pair.a, pair.b, near[1], far[0]:
        equal(port.read(R.R_ERR_STATUS), 0, "errors of the others")
    pair.node_a.send(R.FAB_COUNTERS_GET, arg=(1, 0))
    pair.fabric.hold = {R.FAB_COUNTERS}
    pair.until(lambda: pair.fabric.held, "the counters")
    counters = pair.fabric.held[0][1].data
    at = 8 * R.CNT_OUT_DROPPED
    equal(int.from_bytes(counters[at:at + 8], "little"), 1, "what the fabric is told of dropped writes")


def test_doorbells(scope):
    """a doorbell rings at the function it is for, with that function's vector"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a), pair.virtual(pair.b)
    everybody = [pair.b, *far]
    for port in everybody:
        port.write(R.R_DB_ALLOW, 0xffffffff)
        port.write(R.R_DB_MASK, 0)
        port.fired()
    for source in pair.a, near[1]:
        for target in everybody:
            source.set_page(3, to(target.function), 0xf0)
            source.ring(3, 5)
            pair.until(lambda t=target: t.read(R.R_DB_PENDING), "the doorbell")
            for port in everybody:
                mine = port is target
                equal(port.read(R.R_DB_PENDING), 0x20 * mine, f"pending at function {port.function}")
                equal(port.fired(), {9} if mine else set(), "vectors")
            target.write(R.R_DB_PENDING, 0x20)
    far[0].write(R.R_DB_ALLOW, 0)
    near[0].set_page(0, R.DEST_LINK, 1)
    near[0].ring(0, 0)
    pair.until(lambda: far[0].counter(R.CNT_DB_DENIED), "the refusal")
    equal(far[0].error()[0], R.ERR_DB_DENIED, "error of the VF")
    equal(pair.b.read(R.R_ERR_STATUS), 0, "errors of its PF")


def test_events(scope):
    """link events reach every function that may use the link; a VF has no switch for it"""
    pair = Endpoints(scope)
    vfs = pair.virtual(pair.a, 2)
    pair.a.grant(1, links=0xe)
    for vf in vfs:
        vf.write(R.R_EVENT, 0xffffffff)
        vf.write(R.R_EVENT_MASK, 0)
        vf.write(R.R_LINK + R.LINK_CTRL, R.LINK_DISABLE)
        equal(vf.link(0, R.LINK_CTRL), 0, "LINK_CTRL of a VF")
    equal([bool(port.link_up()) for port in (pair.a, *vfs)], [True, True, False], "who sees the link up")
    equal(vfs[1].link(0), 0, "STATUS of a link out of the quota")
    pair.fabric.link_down(pair.node_a, 0)
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    equal([vf.read(R.R_EVENT) for vf in vfs], [1, 0], "events")
    equal(vfs[0].fired(), {0}, "vectors")
    vfs[0].write(R.R_EVENT, 1)
    vfs[0].write(R.R_CTRL, 0)
    pair.fabric.link_up(pair.node_a, 0)
    pair.until(pair.a.link_up, "the link to come up")
    equal(vfs[0].link_up(), False, "the link for a VF that is not enabled")
    vfs[0].write(R.R_EVENT, 1)
    vfs[0].write(R.R_CTRL, R.CTRL_ENABLE)
    equal((vfs[0].link_up(), vfs[0].read(R.R_EVENT)), (True, 1), "when it is")


def test_disabled_function(scope):
    """a VF that is not enabled is closed to neighbours and reaches none; so it is again when it is disabled"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a, 1)[0], pair.virtual(pair.b, 1)[0]
    pair.opened(far, 0, 0, MEMORY)
    near.set_slot(0, R.DEST_LINK, 0, PAGE)
    equal(near.slot_status(0), LIVE, "slot")
    far.write(R.R_CTRL, 0)
    pair.settled(far, 0)
    cannot(near, 0, "the other end disabled")
    far.write(R.R_CTRL, R.CTRL_ENABLE)
    pair.until(lambda: near.slot_status(0) == LIVE, "the slot to live again")
    near.write(R.R_CTRL, 0)
    cannot(near, 0, "this end disabled")
    near.set_page(0, R.DEST_LINK, 1)
    near.ring(0, 0)
    equal(near.counter(R.CNT_DB_DENIED), 1, "doorbells denied")
    near.set_inbound(1, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    near.set_slot(1, R.DEST_SELF, 0, PAGE)
    equal(near.slot_status(1), LIVE, "a slot to itself")


def test_private(scope):
    """a VF sees nothing of its PF or of other VFs, and cannot send to neighbours' mailboxes"""
    pair = Endpoints(scope)
    vfs = pair.virtual(pair.a, 2)
    pair.a.write(R.R_SCRATCH, 0x5ec2e7)
    pair.a.set_slot(0, R.DEST_LINK, 0, PAGE)
    pair.a.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    pair.a.write(R.R_MBOX_TX_DATA, 0x5ec2e7)
    pair.b.send(0, b"for the PF")
    pair.until(lambda: pair.a.read(R.R_MBOX_RX_STATUS), "the message at the PF")
    for register in [*range(0x54, 0x100, 4), *range(0x200, 0x640, 4), *range(R.R_VF, R.R_VF + 0x8000, 4)]:
        equal(vfs[1].read(register), 0, f"register {register:#x} of a VF")
    for register in [*range(R.R_VF, R.R_VF + 0x8000, 4), R.R_VF_PENDING]:
        vfs[1].write(register, 0xffffffff)
    equal(pair.a.vf(0, R.VF_SLOTS), VF_SLOTS, "quota of another VF")
    vfs[1].write(R.R_MBOX_TX_CTRL, 4 << 8)
    equal(vfs[1].read(R.R_MBOX_TX_STATUS), R.MBOX_TX_FAILED, "sending")
    equal(vfs[1].read(R.R_LINK + R.LINK_CTRL), 0, "LINK_CTRL")
    vfs[1].set_slot(0, R.DEST_SELF, 0, PAGE)
    cannot(vfs[1], 0, "to what the PF has open to itself")
    equal(pair.a.read(R.R_SCRATCH), 0x5ec2e7, "SCRATCH of the PF")


def test_requester(scope):
    """each function is a bus master by its own requester id: what a VF opens or interrupts is its own domain's"""
    machine = Machine(scope, "h1", beside=("-device", "intel-iommu"))
    machine.qemu.complains = True       # the IOMMU, of each fault
    pf = machine.pf[0]
    # Their routing ids are a device's function 0 each.
    vfs = [vf for vf in pf.enable(5) if vf.devfn % 8 == 0]
    equal(len(vfs), 2, "VFs to look at")
    iommu = Iommu(machine.qemu)
    for n, vf in enumerate(vfs):
        pf.grant(vf.n)
        domain = iommu.domain()
        domain.map(IOVA, MEMORY + n * PAGE)
        domain.map(vf.msi_page, vf.msi_page)
        iommu.attach(vf.devfn >> 3, domain, bus=1)
    iommu.start()
    iommu.enable()
    for n, vf in enumerate(vfs):
        vf.set_inbound(0, 0, PAGE, IOVA, allow=R.ALLOW_SELF)
        equal(vf.inbound_status(0), R.INBOUND_LIVE, "its entry")
        vf.set_slot(0, R.DEST_SELF, 0, PAGE)
        vf.qemu.write(vf.slot(0), 8, 0x10 + n)
        equal(vf.qemu.read(MEMORY + n * PAGE, 8), 0x10 + n, "its page")
        vf.set_inbound(1, 0x1000, PAGE, MEMORY, allow=R.ALLOW_SELF)
        equal(vf.inbound_status(1), R.INBOUND_INVALID, "an entry with a guest-physical address")
        vf.write(R.R_DB_MASK, 0)
        vf.set_page(0, R.DEST_SELF, 1)
        vf.ring(0, 0)
        equal(vf.fired(), {4}, "vectors")
    pf.set_inbound(0, 0, PAGE, IOVA, allow=R.ALLOW_SELF)
    equal(pf.inbound_status(0), R.INBOUND_INVALID, "an entry of the PF, which is in no domain")
