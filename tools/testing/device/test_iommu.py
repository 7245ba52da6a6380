# SPDX-License-Identifier: GPL-2.0
"""Inbound entries behind an IOMMU: what is not mapped for the function is not opened, and what is
unmapped is out of reach before the invalidation completes."""

import os
import time

import regs as R
from fabric import Fabric
from fixture import Pair
from functions import Endpoints, to
from hotplug import OPTIONS, Slot
from iommu import DONE, PASS_THROUGH, READ, REGISTERS, WRITE, Iommu
from port import CTRL, DEVICE, MEMORY, MSIX, PAGE, RW, WINDOW, Bus, Port, host
from qtest import Qemu
from tap import equal, until
from test_daemon import Daemon, join

LINK0 = R.DEST_LINK
LIVE = R.SLOT_LIVE | R.SLOT_DIRECT
# Not what any physical address is.
IOVA = 0x7000000000
PRESENT = "-device", "intel-iommu"
OTHER = DEVICE + 1
# For what must happen before a wait ends by itself; short where it is to end so.
LONG, SHORT = 60000, 200


class Behind(Pair):
    """Host b, and with `both` host a as well, behind an IOMMU that translates."""

    def __init__(self, scope, both=False, unmap_wait=LONG, **properties):
        self.both = both
        self.unmap_wait = unmap_wait
        super().__init__(scope, **properties)
        self.iommu, self.domain = translated(self.b)
        if both:
            self.iommu_a, self.domain_a = translated(self.a)

    def arrive(self, scope, name, **properties):
        if name == "h2" or self.both:
            properties.update(beside=PRESENT, unmap_wait=self.unmap_wait)
        return super().arrive(scope, name, **properties)

    def open(self, pages=1, base=IOVA, **how):
        """Share `pages` at `base`, with slot 0 of a on them."""
        self.share(length=pages * PAGE, base=base, **how)
        self.a.set_slot(0, LINK0, 0, pages * PAGE)

    def store(self, value, page=0):
        self.a.qemu.write(self.a.slot(0, page * PAGE), 8, value)

    def unmap(self, iova, count=1):
        """Unmap and invalidate, with a fabric that works."""
        self.domain.unmap(iova, count)
        self.invalidate(*(self.domain.invalidation(iova + n * PAGE) for n in range(count)))

    def invalidate(self, *descriptors):
        self.b.qemu.begin(self.iommu.prepare(*descriptors))
        self.until(self.b.qemu.finished, "the invalidation to complete")
        self.b.qemu.finish()
        equal(self.b.qemu.readl(self.iommu.status), DONE, "the status of the wait descriptor")

    def held_back(self, *descriptors):
        """Begin an invalidation; give a function that says whether it is complete."""
        memory = self.node_b.hello.fds[0]
        self.b.qemu.begin(self.iommu.prepare(*descriptors))

        def complete():
            status = int.from_bytes(os.pread(memory, 4, self.iommu.status), "little")
            equal(status in (0, DONE), True, "a status that makes sense")
            return status == DONE
        return complete


def translated(port):
    """An IOMMU switched on, and the domain the port is in: its interrupts are mapped, nothing else."""
    iommu = Iommu(port.qemu)
    domain = iommu.domain()
    domain.map(port.msi_page, port.msi_page)
    iommu.attach(port.device, domain)
    iommu.start()
    iommu.enable()
    return iommu, domain


def test_mapped(scope):
    """a base that is mapped is opened where the tables say, and carries both ways"""
    pair = Behind(scope)
    pair.domain.map(IOVA, MEMORY, 4)
    pair.open(4)
    equal(pair.b.inbound_status(0), R.INBOUND_LIVE, "entry")
    equal(pair.a.slot_status(0), LIVE, "slot")
    for page in range(4):
        pair.store(0xabc0 + page, page)
        equal(pair.b.qemu.read(MEMORY + page * PAGE, 8), 0xabc0 + page, f"memory, page {page}")
    pair.b.qemu.write(MEMORY + PAGE + 8, 8, 0x1234)
    equal(pair.a.qemu.read(pair.a.slot(0, PAGE + 8), 8), 0x1234, "what the owner wrote")
    equal(pair.b.read(R.R_ERR_STATUS), 0, "errors")
    equal(pair.iommu.fault(), None, "fault")


def test_scattered(scope):
    """pages that lie anywhere become pieces, in their order"""
    pair = Behind(scope)
    memory = [MEMORY + PAGE * n for n in (9, 3, 4, 40, 1, 0)]
    for n, address in enumerate(memory):
        pair.domain.map(IOVA + n * PAGE, address)
    pair.open(len(memory))
    equal(pair.a.slot_status(0), LIVE, "slot")
    # 3 and 4 lie together.
    equal(sum(len(m.data) for m in pair.node_b.apertures[0]) // 16, len(memory) - 1, "pieces")
    for n, address in enumerate(memory):
        pair.store(n + 1, n)
        equal(pair.b.qemu.read(address, 8), n + 1, f"memory of page {n}")


def test_too_scattered(scope):
    """more pieces than an entry may have are refused, and as many as it may have are not"""
    pair = Behind(scope)
    pages = 16384
    # Two pages in turn: no two that follow each other are together.
    leaves = 33
    tables = pair.iommu.next
    pair.iommu.next += leaves * PAGE
    both = b"".join((MEMORY + n * 2 * PAGE | READ | WRITE).to_bytes(8, "little") for n in range(2))
    for n in range(leaves):
        pair.b.qemu.write_bytes(tables + n * PAGE, both * 256)
    pair.domain.map(IOVA, MEMORY)
    middle = pair.domain.top
    for level in 3, 2:
        middle = pair.b.qemu.read(middle + 8 * (IOVA >> 12 + 9 * level & 511), 8) & ~0xfff
    for n in range(leaves):
        pair.b.qemu.write(middle + 8 * n, 8, tables + n * PAGE | READ | WRITE)
    pair.b.set_inbound(1, 0, (pages + 1) * PAGE, IOVA)
    equal(pair.b.inbound_status(1), R.INBOUND_INVALID, "entry of one piece too many")
    pair.open(pages)
    equal(pair.b.inbound_status(0), R.INBOUND_LIVE, "entry of as many as there may be")
    pair.a.set_slot(0, LINK0, 0, pair.a.slot_size)
    pair.store(0x1a57, 4095)
    equal(pair.b.qemu.read(MEMORY + 2 * PAGE, 8), 0x1a57, "memory of an odd page")


def test_physical_address(scope):
    """a guest-physical address that is not mapped faults, though there is RAM"""
    pair = Behind(scope)
    pair.b.qemu.complains = True
    pair.b.write(R.R_EVENT_MASK, 0)
    pair.b.set_inbound(0, 0, PAGE, MEMORY)
    equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry")
    equal(pair.b.error(), (R.ERR_IN_INVALID, 0, MEMORY), "first error")
    equal(pair.b.counter(R.CNT_IN_FAULTS), 1, "faults counted")
    equal(pair.b.fired(), {2}, "vectors that fired")
    equal(pair.iommu.fault(), (DEVICE << 3, MEMORY), "what the IOMMU recorded")
    pair.a.set_slot(0, LINK0, 0, PAGE)
    equal(pair.a.slot_status(0), 0, "slot to it")
    # One page of two is not enough.
    pair.domain.map(IOVA, MEMORY)
    pair.b.set_inbound(0, 0, 2 * PAGE, IOVA)
    equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry of which half is mapped")
    equal(pair.iommu.fault(), (DEVICE << 3, IOVA + PAGE), "what the IOMMU recorded")


def test_rights(scope):
    """an entry gives no right that the mapping does not give"""
    pair = Behind(scope)
    pair.b.qemu.complains = True
    pair.domain.map(IOVA, MEMORY, rights=READ)
    pair.domain.map(IOVA + PAGE, MEMORY + PAGE, rights=WRITE)
    for page, right in (0, R.RIGHT_READ), (1, R.RIGHT_WRITE):
        for wanted in RW, R.RIGHT_READ, R.RIGHT_WRITE:
            pair.b.set_inbound(1, 0, PAGE, IOVA + page * PAGE, rights=wanted)
            good = wanted == right
            equal(bool(pair.b.inbound_status(1) & R.INBOUND_LIVE), good, f"page {page}, rights {wanted}: live")
            equal(bool(pair.b.inbound_status(1) & R.INBOUND_INVALID), not good, "invalid")
        pair.b.close_inbound(1)
        pair.open(1, base=IOVA + page * PAGE, rights=right)
        pair.b.qemu.write(MEMORY + page * PAGE, 8, 0x600d)
        pair.store(0xbad)
        have = pair.a.qemu.read(pair.a.slot(0), 8)
        equal(have, 0x600d if right == R.RIGHT_READ else (1 << 64) - 1, "what the peer reads")
        equal(pair.b.qemu.read(MEMORY + page * PAGE, 8), 0x600d if right == R.RIGHT_READ else 0xbad, "memory")


def test_rights_taken(scope):
    """a mapping that loses a right the entry gives is an unmap; one it does not give is none"""
    for taken_to, rights, live in (READ, RW, False), (WRITE, RW, False), (READ, R.RIGHT_READ, True):
        with scope.__class__() as inner:
            pair = Behind(inner)
            pair.domain.map(IOVA, MEMORY)
            pair.open(rights=rights)
            pair.domain.map(IOVA, MEMORY, rights=taken_to)
            pair.invalidate(pair.domain.invalidation(IOVA))
            equal(pair.b.inbound_status(0), R.INBOUND_LIVE if live else R.INBOUND_INVALID, "entry")
            equal(bool(pair.a.slot_status(0)), live, "slot")


def test_unmap(scope):
    """the invalidation of a page, a domain and of all completes when the peer has let go, not before"""
    for kind in "page", "domain", "all":
        with scope.__class__() as inner:
            pair = Behind(inner)
            pair.b.qemu.complains = True
            pair.domain.map(IOVA, MEMORY, 2)
            mapped = pair.a.qemu.mappings("memfd:memory-backend")
            pair.open(2)
            pair.domain.unmap(IOVA + PAGE)
            descriptor = {
                "page": pair.domain.invalidation(IOVA + PAGE),
                "domain": pair.domain.invalidation_of_all(),
                "all": pair.iommu.invalidation_of_all(),
            }[kind]
            pair.fabric.hold = {R.FAB_INBOUND}
            complete = pair.held_back(descriptor)
            pair.until(lambda p=pair: p.fabric.held, "the withdrawal to be on its way")
            pair.store(0x1a7e, 1)
            assert not complete() and not pair.b.qemu.finished(), "complete while the peer does not know"
            pair.fabric.hold, held = {R.FAB_INBOUND_ACK}, pair.fabric.held
            pair.fabric.held = []
            for node, message in held:
                pair.fabric.route(node, message)
            pair.until(lambda p=pair: p.fabric.held, "the peer to have let go")
            equal(pair.a.slot_status(0), 0, "slot of the peer")
            equal(pair.a.qemu.mappings("memfd:memory-backend"), mapped, "mappings of the owner's memory")
            assert not complete() and not pair.b.qemu.finished(), "complete before the owner knows"
            pair.fabric.release()
            pair.until(pair.b.qemu.finished, "the invalidation to complete")
            pair.b.qemu.finish()
            assert complete(), "the status of the wait descriptor"
            equal(pair.b.qemu.read(MEMORY + PAGE, 8), 0x1a7e, "a late store")
            pair.store(0xbad, 1)
            equal(pair.b.qemu.read(MEMORY + PAGE, 8), 0x1a7e, "memory after the unmap")
            equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry")
            equal(pair.b.error(), (R.ERR_IN_INVALID, 0, IOVA), "first error")
            equal(pair.b.counter(R.CNT_IN_FAULTS), 1, "faults counted")


def test_unmap_of_closed(scope):
    """memory of an entry that is closed and BUSY is waited for as well"""
    pair = Behind(scope)
    pair.domain.map(IOVA, MEMORY)
    pair.open()
    pair.fabric.hold = {R.FAB_INBOUND}
    pair.b.close_inbound(0)
    pair.domain.unmap(IOVA)
    complete = pair.held_back(pair.domain.invalidation(IOVA))
    pair.until(lambda: pair.fabric.held, "the withdrawal to be on its way")
    pair.fabric.step(0.05)
    assert not complete() and not pair.b.qemu.finished(), "complete while the entry is BUSY"
    pair.fabric.release()
    pair.until(pair.b.qemu.finished, "the invalidation to complete")
    pair.b.qemu.finish()
    assert complete(), "the status of the wait descriptor"
    equal(pair.b.inbound_status(0), 0, "entry")
    equal(pair.b.read(R.R_ERR_STATUS), 0, "errors")


def test_other_addresses(scope):
    """invalidations of what is mapped still, or of something else, disturb nothing and wait for nothing"""
    pair = Behind(scope)
    pair.domain.map(IOVA, MEMORY, 4)
    pair.domain.map(IOVA + 4 * PAGE, MEMORY + 8 * PAGE, 4)
    pair.open(4)
    said, remaps = pair.node_b.apertures[0], pair.a.counter(R.CNT_REMAPS)
    pair.domain.unmap(IOVA + 4 * PAGE, 4)
    pair.fabric.hold = {R.FAB_INBOUND, R.FAB_INBOUND_ACK}
    # The fabric stands still, so that these could not wait for it.
    pair.iommu.invalidate(pair.domain.invalidation(IOVA + 4 * PAGE, 2))
    pair.iommu.invalidate(pair.domain.invalidation(IOVA, 3))
    pair.iommu.invalidate(pair.domain.invalidation_of_all())
    pair.iommu.invalidate(pair.iommu.context_invalidation(), pair.iommu.invalidation_of_all())
    equal(pair.b.inbound_status(0), R.INBOUND_LIVE, "entry")
    pair.fabric.release()
    pair.until(lambda: pair.b.read(R.R_STATUS) & R.STATUS_FABRIC, "an answer")
    equal(pair.node_b.apertures[0] is said, True, "nothing was said to the fabric")
    equal(pair.a.counter(R.CNT_REMAPS), remaps, "remaps at the peer")
    pair.store(0x600d, 3)
    equal(pair.b.qemu.read(MEMORY + 3 * PAGE, 8), 0x600d, "memory")
    equal(pair.b.read(R.R_ERR_STATUS), 0, "errors")


def test_remap(scope):
    """what is mapped elsewhere by the time of the invalidation is closed, and open there when latched"""
    pair = Behind(scope)
    pair.domain.map(IOVA, MEMORY, 2)
    pair.open(2)
    pair.store(1, 1)
    pair.domain.map(IOVA + PAGE, MEMORY + 7 * PAGE)
    pair.invalidate(pair.domain.invalidation(IOVA + PAGE))
    equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry")
    equal(pair.a.slot_status(0), 0, "slot")
    pair.open(2)
    equal(pair.a.slot_status(0), LIVE, "slot when latched again")
    pair.store(2, 1)
    pair.store(3, 0)
    equal(pair.b.qemu.read(MEMORY + PAGE, 8), 1, "the memory before")
    equal(pair.b.qemu.read(MEMORY + 7 * PAGE, 8), 2, "the memory now")
    equal(pair.b.qemu.read(MEMORY, 8), 3, "what was not touched")


def test_map_again(scope):
    """a mapping that comes back is open when the entry is latched again, not by itself"""
    pair = Behind(scope)
    pair.domain.map(IOVA, MEMORY)
    pair.open()
    pair.unmap(IOVA)
    equal(pair.iommu.fault(), None, "fault")
    pair.domain.map(IOVA, MEMORY + PAGE)
    pair.invalidate(pair.domain.invalidation(IOVA))
    equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry")
    pair.open()
    equal(pair.b.inbound_status(0), R.INBOUND_LIVE, "entry when latched")
    pair.store(0xa9a1)
    equal(pair.b.qemu.read(MEMORY + PAGE, 8), 0xa9a1, "memory")


def test_other_function(scope):
    """a function reaches what is mapped in its own domain, not what is in that of another one"""
    qemu_port = host(scope, "h1", beside=(*PRESENT, "-device", f"weft-port,addr={OTHER:#x},node=other"))
    qemu_port.qemu.complains = True
    other = Port(qemu_port.qemu, OTHER, CTRL + 0x200000, MSIX + 0x200000, WINDOW + (1 << 32), qemu_port.bus)
    iommu, domain = translated(qemu_port)
    domain.map(IOVA, MEMORY)
    second = iommu.domain()
    second.map(IOVA + PAGE, MEMORY + PAGE)
    second.map(other.msi_page, other.msi_page)
    iommu.attach(OTHER, second)
    iommu.invalidate(iommu.context_invalidation(OTHER), iommu.invalidation_of_all())
    for port, device, mine, foreign in (qemu_port, DEVICE, IOVA, IOVA + PAGE), (other, OTHER, IOVA + PAGE, IOVA):
        port.set_inbound(0, 0, PAGE, mine, allow=R.ALLOW_SELF)
        equal(port.inbound_status(0), R.INBOUND_LIVE, f"device {device}: entry on its own mapping")
        port.set_inbound(1, PAGE, PAGE, foreign, allow=R.ALLOW_SELF)
        equal(port.inbound_status(1), R.INBOUND_INVALID, f"device {device}: entry on the other's")
        equal(iommu.fault(), (device << 3, foreign), "what the IOMMU recorded")
        port.set_slot(0, R.DEST_SELF, 0, 2 * PAGE)
        port.qemu.write(port.slot(0), 8, device)
        equal(port.qemu.read(MEMORY + mine - IOVA, 8), device, "memory by the port itself")
    # An unmap in one domain is none in the other.
    second.unmap(IOVA + PAGE)
    iommu.invalidate(second.invalidation_of_all())
    equal(qemu_port.inbound_status(0), R.INBOUND_LIVE, "entry of the first")
    equal(other.inbound_status(0), R.INBOUND_INVALID, "entry of the second")
    equal(other.slot_status(0), 0, "its slot")


class Functions(Endpoints):
    """Host b behind an IOMMU, with what a VF of it has open."""

    def arrive(self, scope, name, **properties):
        if name == "h2":
            properties.update({"beside": PRESENT, "unmap-wait": LONG})
        return super().arrive(scope, name, **properties)


def test_virtual_function(scope):
    """an unmap in the domain of a VF waits for who maps that VF's memory, and leaves the PF's alone"""
    pair = Functions(scope)
    pair.b.qemu.complains = True
    vf = next(vf for vf in pair.virtual(pair.b, 5) if vf.devfn % 8 == 0)
    iommu = Iommu(pair.b.qemu)
    domains = {}
    for function in pair.b, vf:
        domain = domains[function] = iommu.domain()
        domain.map(function.msi_page, function.msi_page)
        domain.map(IOVA, MEMORY if function is vf else MEMORY + PAGE)
        iommu.attach(function.devfn >> 3, domain, bus=1)
    iommu.start()
    iommu.enable()
    for slot, function in enumerate((pair.b, vf)):
        pair.opened(function, 0, 0, IOVA)
        pair.a.set_slot(slot, to(function.function), 0, PAGE)
        equal(pair.a.slot_status(slot), LIVE, f"slot {slot}")
        pair.a.qemu.write(pair.a.slot(slot), 8, slot + 1)
    equal(vf.qemu.read(MEMORY, 8), 2, "memory of the VF")
    equal(vf.qemu.read(MEMORY + PAGE, 8), 1, "memory of the PF")
    pair.fabric.hold = {R.FAB_INBOUND}
    domains[vf].unmap(IOVA)
    vf.qemu.begin(iommu.prepare(domains[vf].invalidation(IOVA)))
    pair.until(lambda: pair.fabric.held, "the withdrawal to be on its way")
    equal(vf.qemu.finished(), False, "the invalidation: complete")
    pair.fabric.release()
    pair.until(vf.qemu.finished, "the invalidation to complete")
    vf.qemu.finish()
    equal(vf.inbound_status(0), R.INBOUND_INVALID, "entry of the VF")
    equal(pair.b.inbound_status(0), R.INBOUND_LIVE, "entry of the PF")
    equal([pair.a.slot_status(n) for n in (0, 1)], [LIVE, 0], "slots to both")
    equal(vf.counter(R.CNT_IN_FAULTS), 1, "faults of the VF")
    equal(pair.b.counter(R.CNT_IN_FAULTS), 0, "faults of the PF")


def test_stopped_peer(scope):
    """a peer that hangs ends the wait, with an error; BUSY tells the truth, and the next unmap is quick"""
    pair = Behind(scope, unmap_wait=SHORT)
    pair.b.qemu.complains = True
    pair.domain.map(IOVA, MEMORY, 2)
    pair.open(2)
    pair.b.write(R.R_EVENT_MASK, 0)
    pair.a.qemu.stop()
    begin = time.monotonic()
    pair.unmap(IOVA)
    spent = time.monotonic() - begin
    # The device counts whole milliseconds, and may begin at the end of one.
    assert spent >= (SHORT - 1) / 1000, f"{spent} s: it did not wait"
    equal(pair.b.inbound_status(0), R.INBOUND_INVALID | R.INBOUND_BUSY, "entry")
    equal(pair.b.read(R.R_ERR_STATUS), R.ERR_IN_INVALID | R.ERR_UNMAP_LATE, "errors")
    equal(pair.b.fired(), {2}, "vectors that fired")
    pair.b.write(R.R_ERR_STATUS, 0xffffffff)
    pair.unmap(IOVA + PAGE)
    equal(pair.b.read(R.R_ERR_STATUS), 0, "errors of an unmap that does not wait again")
    pair.a.qemu.stop(False)
    pair.until(lambda: pair.b.inbound_status(0) == R.INBOUND_INVALID, "BUSY to clear")
    # From here on it is waited for again.
    pair.domain.map(IOVA, MEMORY)
    pair.open()
    pair.fabric.hold = {R.FAB_INBOUND}
    pair.domain.unmap(IOVA)
    complete = pair.held_back(pair.domain.invalidation(IOVA))
    pair.until(lambda: pair.fabric.held, "the withdrawal to be on its way")
    equal(complete(), False, "complete")
    pair.fabric.release()
    pair.until(pair.b.qemu.finished, "the invalidation to complete")
    pair.b.qemu.finish()
    equal(pair.b.read(R.R_ERR_STATUS) & R.ERR_UNMAP_LATE, 0, "late")


def test_peer_dies(scope):
    """a peer that dies, and a fabric that dies, end the wait at once"""
    for who in "peer", "fabric":
        with scope.__class__() as inner:
            pair = Behind(inner)
            pair.b.qemu.complains = True
            pair.domain.map(IOVA, MEMORY)
            pair.open()
            # Either the peer's answer is not heard, or he is not asked.
            pair.fabric.hold = {R.FAB_INBOUND_ACK if who == "peer" else R.FAB_INBOUND}
            pair.domain.unmap(IOVA)
            complete = pair.held_back(pair.domain.invalidation(IOVA))
            pair.until(lambda p=pair: p.fabric.held, "the withdrawal to be on its way")
            if who == "peer":
                pair.a.qemu.kill()
                pair.until(pair.b.qemu.finished, "the invalidation to complete")
            else:
                # With the fabric the link is gone; the peer lets go by itself.
                pair.fabric.die()
                until(pair.b.qemu.finished, "the invalidation to complete")
                equal(pair.a.slot_status(0), 0, "slot of the peer")
            pair.b.qemu.finish()
            assert complete(), "the status of the wait descriptor"
            equal(pair.b.inbound_status(0), R.INBOUND_INVALID, "entry")
            equal(pair.b.read(R.R_ERR_STATUS) & R.ERR_UNMAP_LATE, 0, "late")


def test_both_at_once(scope):
    """two hosts that unmap what they gave each other at the same moment both get on"""
    pair = Behind(scope, both=True)
    for iommu, domain in (pair.iommu, pair.domain), (pair.iommu_a, pair.domain_a):
        iommu.qemu.complains = True
        domain.map(IOVA, MEMORY)
    pair.open()
    pair.a.set_inbound(0, 0, PAGE, IOVA)
    pair.b.set_slot(0, LINK0, 0, PAGE)
    pair.until(lambda: not pair.a.inbound_status(0) & R.INBOUND_BUSY, "the aperture to be open")
    equal(pair.b.slot_status(0), LIVE, "slot the other way")
    pair.fabric.hold = {R.FAB_INBOUND}
    for iommu, domain in (pair.iommu, pair.domain), (pair.iommu_a, pair.domain_a):
        domain.unmap(IOVA)
        iommu.qemu.begin(iommu.prepare(domain.invalidation(IOVA)))
    pair.until(lambda: len(pair.fabric.held) == 2, "both withdrawals to be on their way")
    assert not pair.a.qemu.finished() and not pair.b.qemu.finished(), "both wait"
    pair.fabric.release()
    pair.until(lambda: pair.a.qemu.finished() and pair.b.qemu.finished(), "both to get on")
    for port in pair.a, pair.b:
        port.qemu.finish()
        equal(port.inbound_status(0), R.INBOUND_INVALID, "entry")
        equal(port.slot_status(0), 0, "slot")
        equal(port.read(R.R_ERR_STATUS) & R.ERR_UNMAP_LATE, 0, "late")


def test_loopback(scope):
    """two ports of one machine, joined to each other: an unmap of one waits for the other, not for ever"""
    fabric = Fabric(scope)
    more = f"weft-port,addr={OTHER:#x},node=n2,unmap-wait={LONG},fabric={fabric.path}"
    one = host(scope, "n1", beside=(*PRESENT, "-device", more), unmap_wait=LONG, fabric=fabric.path)
    # In the order of the command line.
    far, near = fabric.attach(links=1), fabric.attach(links=1)
    two = Port(one.qemu, OTHER, CTRL + 0x200000, MSIX + 0x200000, WINDOW + (1 << 32), one.bus)
    iommu, domain = translated(one)
    domain.map(IOVA, MEMORY)
    domain.map(two.msi_page, two.msi_page)
    iommu.attach(OTHER, domain)
    iommu.invalidate(iommu.context_invalidation(), iommu.invalidation_of_all())
    for port in one, two:
        fabric.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
        port.write(R.R_CTRL, R.CTRL_ENABLE)
    fabric.wire(near, 0, far, 0)
    fabric.until(lambda: one.link_up() and two.link_up(), "the link to come up")
    one.set_inbound(0, 0, PAGE, IOVA)
    two.set_slot(0, LINK0, 0, PAGE)
    fabric.until(lambda: not one.inbound_status(0) & R.INBOUND_BUSY, "the aperture to be open")
    equal(two.slot_status(0), LIVE, "slot")
    domain.unmap(IOVA)
    one.qemu.begin(iommu.prepare(domain.invalidation(IOVA)))
    fabric.until(one.qemu.finished, "the invalidation to complete")
    one.qemu.finish()
    equal(one.qemu.readl(iommu.status), DONE, "the status of the wait descriptor")
    equal(one.inbound_status(0), R.INBOUND_INVALID, "entry")
    equal(one.read(R.R_ERR_STATUS), R.ERR_IN_INVALID, "errors")
    equal(two.slot_status(0), 0, "slot")
    equal(one.qemu.read(two.slot(0), 8), (1 << 64) - 1, "a read through it")
    equal(two.counter(R.CNT_OUT_ONES), 1, "which traps, and is counted")


def test_daemon(scope):
    """weft-fabric: unmaps of both hosts at once, again and again, complete with nothing in reach"""
    daemon = Daemon(scope)
    ports = [host(scope, name, beside=PRESENT, fabric=daemon.port, unmap_wait=LONG) for name in ("h1", "h2")]
    links = 0, 1
    hosts = []
    for port, link in zip(ports, links):
        port.qemu.complains = True
        join(port)
        hosts.append((port, link, *translated(port)))
    until(lambda: all(port.link_up(link) for port, link in zip(ports, links)), "the link to come up")
    for turn in range(20):
        for port, link, _, domain in hosts:
            domain.map(IOVA, MEMORY + turn * PAGE, 4)
            port.set_inbound(0, 0, 4 * PAGE, IOVA, allow=1 << link)
            port.set_slot(0, R.DEST_LINK | link, 0, 4 * PAGE)
        until(lambda: all(not port.inbound_status(0) & R.INBOUND_BUSY for port in ports), "the apertures to be open")
        for port in ports:
            equal(port.slot_status(0), LIVE, "slot")
        for port, _, iommu, domain in hosts:
            domain.unmap(IOVA, 4)
            port.qemu.begin(iommu.prepare(domain.invalidation(IOVA, 2)))
        for port in ports:
            port.qemu.finish()
        for port, _, iommu, _ in hosts:
            equal(port.qemu.readl(iommu.status), DONE, "the status of the wait descriptor")
            equal(port.slot_status(0), 0, "slot")
            equal(port.inbound_status(0), R.INBOUND_INVALID, "entry")
            equal(port.read(R.R_ERR_STATUS) & R.ERR_UNMAP_LATE, 0, "late")


def test_switched(scope):
    """switching translation on and off, a pass-through context, and one that goes, all are unmaps"""
    pair = Behind(scope)
    pair.b.qemu.complains = True
    pair.domain.map(IOVA, MEMORY)

    def opened(base):
        pair.open(base=base)
        equal(pair.b.inbound_status(0), R.INBOUND_LIVE, f"entry at {base:#x}")
        equal(pair.a.slot_status(0), LIVE, "slot")
        pair.b.qemu.write(MEMORY, 8, 0)
        pair.store(base)
        equal(pair.b.qemu.read(MEMORY, 8), base, "memory")

    def closed(what, command):
        pair.fabric.hold = {R.FAB_INBOUND}
        pair.b.qemu.begin(command)
        pair.until(lambda: pair.fabric.held, "the withdrawal to be on its way")
        equal(pair.b.qemu.finished(), False, f"{what}: complete")
        pair.fabric.release()
        pair.until(pair.b.qemu.finished, f"{what} to complete")
        pair.b.qemu.finish()
        equal(pair.b.inbound_status(0), R.INBOUND_INVALID, f"entry after {what}")
        equal(pair.a.slot_status(0), 0, f"slot after {what}")

    def contexts():
        return pair.iommu.prepare(pair.iommu.context_invalidation(DEVICE), pair.domain.invalidation_of_all())

    opened(IOVA)
    pair.iommu.detach(DEVICE)
    closed("detaching", contexts())
    pair.iommu.attach(DEVICE, pair.domain, PASS_THROUGH)
    pair.b.qemu.command(contexts())
    opened(MEMORY)
    pair.iommu.attach(DEVICE, pair.domain)
    closed("the end of pass-through", contexts())
    opened(IOVA)
    closed("switching translation off", f"writel {REGISTERS + 0x18:#x} {1 << 26:#x}")
    opened(MEMORY)
    closed("switching translation on", f"writel {REGISTERS + 0x18:#x} {1 << 26 | 1 << 31:#x}")
    opened(IOVA)


def test_messages_meanwhile(scope):
    """what comes during the wait is taken, and its interrupt sent when it is over"""
    pair = Behind(scope)
    pair.b.qemu.complains = True
    pair.b.write(R.R_EVENT_MASK, ~R.EVENT_MBOX & 0xffffffff)
    pair.domain.map(IOVA, MEMORY)
    pair.open()
    # b has a slot of its own on memory of a, which goes while b waits.
    pair.a.set_inbound(0, 0, PAGE, MEMORY)
    pair.b.set_slot(0, LINK0, 0, PAGE)
    pair.until(lambda: not pair.a.inbound_status(0) & R.INBOUND_BUSY, "the aperture to be open")
    equal(pair.b.slot_status(0), LIVE, "slot of b")
    pair.fabric.hold = {R.FAB_INBOUND_ACK}
    pair.domain.unmap(IOVA)
    complete = pair.held_back(pair.domain.invalidation(IOVA))
    pair.until(lambda: pair.fabric.held, "the confirmation to be on its way")
    pair.a.send(0, b"meanwhile")
    pair.a.close_inbound(0)
    pair.until(lambda: len(pair.fabric.held) == 2, "b to have let go")
    equal(complete(), False, "complete")
    equal([node is pair.node_b for node, _ in pair.fabric.held], [False, True], "who has confirmed")
    msi = os.pread(pair.node_b.hello.fds[0], 4 * R.VECTORS, pair.b.msi_page)
    equal(msi, bytes(4 * R.VECTORS), "interrupts during the wait")
    pair.fabric.release()
    pair.until(pair.b.qemu.finished, "the invalidation to complete")
    pair.b.qemu.finish()
    until(lambda: 1 in pair.b.fired(), "the interrupt of the message")
    equal(pair.b.receive(), (0, b"meanwhile"), "message")
    equal(pair.b.slot_status(0), 0, "slot of b")
    equal(pair.b.qemu.read(pair.b.slot(0), 8), (1 << 64) - 1, "a read through it")
    equal(pair.b.counter(R.CNT_OUT_ONES), 1, "which traps, and is counted")


def test_reset(scope):
    """resets of the port and of the machine with entries behind an IOMMU"""
    fabric = Fabric(scope)
    port = host(scope, "h1", beside=PRESENT, fabric=fabric.path)
    fabric.attach(links=1)
    fabric.until(lambda: port.read(R.R_STATUS) & R.STATUS_FABRIC, "the port to join")
    _, domain = translated(port)
    domain.map(IOVA, MEMORY)

    def opened(base):
        port.set_inbound(0, 0, PAGE, base, allow=R.ALLOW_SELF)
        equal(port.inbound_status(0), R.INBOUND_LIVE, "entry")
    opened(IOVA)
    port.write(R.R_CTRL, R.CTRL_RESET)
    equal(port.inbound_status(0), 0, "entry after a reset")
    opened(IOVA)
    port.qemu.qmp("system_reset")
    port.qemu.wait_event("RESET")
    port = Port(port.qemu)
    equal(port.inbound_status(0), 0, "entry after the machine's reset")
    # It has switched translation off.
    opened(MEMORY)
    _, domain = translated(port)
    equal(port.inbound_status(0), R.INBOUND_INVALID, "entry when translation is on")
    domain.map(IOVA, MEMORY)
    opened(IOVA)


def test_unplug(scope):
    """a port that is pulled behind an IOMMU leaves nothing that an unmap could stumble over"""
    qemu = Qemu(scope, "h1", *PRESENT, *OPTIONS)
    slot = Slot(Bus(qemu))
    iommu = Iommu(qemu)
    domain = iommu.domain()
    domain.map(IOVA, MEMORY)
    iommu.attach(0, domain, bus=1)
    iommu.start()
    iommu.enable()
    for _ in range(3):
        qemu.qmp("device_add", driver="weft-port", id="port", bus="rp")
        slot.power(True)
        port = Port(qemu, 0, bus=slot.bus, number=1)
        port.set_inbound(0, 0, PAGE, IOVA, allow=R.ALLOW_SELF)
        equal(port.inbound_status(0), R.INBOUND_LIVE, "entry")
        slot.unplug("port")
        iommu.invalidate(iommu.context_invalidation(), iommu.invalidation_of_all())
        iommu.enable(False)
        iommu.enable()


def test_silent(scope):
    """behind an IOMMU that does not tell of unmaps no entry is live, and QEMU says why"""
    # With snoop control QEMU's IOMMU tells no device.
    port = host(scope, "h1", beside=("-device", "intel-iommu,snoop-control=on"))
    port.qemu.complains = True
    port.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    equal(port.inbound_status(0), R.INBOUND_LIVE, "entry while nothing is translated")
    iommu = Iommu(port.qemu)
    domain = iommu.domain()
    domain.map(MEMORY, MEMORY)
    domain.map(port.msi_page, port.msi_page)
    iommu.attach(DEVICE, domain)
    iommu.start()
    iommu.enable()
    equal(port.inbound_status(0), R.INBOUND_INVALID, "entry when translation is on")
    port.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    equal(port.inbound_status(0), R.INBOUND_INVALID, "entry that is mapped")
    assert "does not tell of unmaps" in port.qemu.errors(), port.qemu.errors()
    iommu.enable(False)
    port.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    equal(port.inbound_status(0), R.INBOUND_LIVE, "entry when translation is off again")


def test_no_translation(scope):
    """with an IOMMU that does not translate, and with none, a base is a physical address"""
    for beside in PRESENT, ():
        port = host(scope, f"h{len(beside)}", beside=beside)
        port.set_inbound(0, 0, 4 * PAGE, MEMORY, allow=R.ALLOW_SELF)
        equal(port.inbound_status(0), R.INBOUND_LIVE, "entry")
        port.set_slot(0, R.DEST_SELF, 0, 4 * PAGE)
        port.qemu.write(port.slot(0, PAGE), 8, 0x5e1f)
        equal(port.qemu.read(MEMORY + PAGE, 8), 0x5e1f, "memory")
        port.set_inbound(1, 0, PAGE, IOVA)
        equal(port.inbound_status(1), R.INBOUND_INVALID, "entry at an address without memory")
