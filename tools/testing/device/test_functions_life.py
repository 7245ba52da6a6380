# SPDX-License-Identifier: GPL-2.0
"""Resets of functions, the second PF, hot plug with VFs, and errors that are injected."""

import random

import regs as R
from fabric import Fabric
from functions import CONTROL, LINK, NUM, VF_ENABLE, Endpoints, Machine, Pf, WideSlot, cannot, to
from hotplug import DEVICE, OPTIONS
from port import MEMORY, PAGE, Bus, host
from qtest import Qemu
from tap import equal, until

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT


class RootPort:
    """AER of the root port of a machine."""

    def __init__(self, bus):
        self.bus = bus
        self.at = 0x100
        while bus.read(DEVICE, self.at) & 0xffff != 1:
            self.at = bus.read(DEVICE, self.at) >> 20

    def read(self, register):
        return self.bus.read(DEVICE, self.at + register)

    def write(self, register, value):
        self.bus.write(DEVICE, self.at + register, value)

    def report(self):
        """Take part in error reporting, as a kernel sets it up."""
        express = self.bus.read(DEVICE, 0x34, 1)
        while self.bus.read(DEVICE, express, 1) != 0x10:
            express = self.bus.read(DEVICE, express + 1, 1)
        self.bus.write(DEVICE, express + 8, 0xf, 2)
        self.bus.write(DEVICE, 4, 0x106, 2)
        self.bus.write(DEVICE, 0x3e, 2, 2)
        self.write(0x2c, 7)


def joined(scope, count=2):
    """Endpoints whose VFs and first PFs have memory open to the functions of the same index there, which use it."""
    pair = Endpoints(scope)
    near = [pair.a, *pair.virtual(pair.a, count)]
    far = [pair.b, *pair.virtual(pair.b, count)]
    for n, (user, owner) in enumerate(zip(near, far)):
        pair.opened(owner, 0, 0, MEMORY + n * PAGE)
        user.set_slot(0, R.DEST_LINK, 0, PAGE)
        equal(user.slot_status(0), LIVE, f"slot of function {user.function}")
    return pair, near, far


def test_vf_reset(scope):
    """a function level reset of a VF withdraws what it had open, and touches no other"""
    pair, near, far = joined(scope)
    pair.b.write(R.R_EVENT_MASK, 0)
    generations = [port.read(R.R_GENERATION) for port in far]
    far[1].write(R.R_SCRATCH, 1)
    far[2].write(R.R_SCRATCH, 2)
    far[1].write(R.R_PF_MBOX + R.PAIR_CTRL, R.PAIR_SEND | 4)
    far[1].flr()
    pair.until(lambda: not near[1].slot_status(0), "the slot to die")
    cannot(near[1], 0, "after the reset of the owner")
    equal((far[1].read(R.R_SCRATCH), far[2].read(R.R_SCRATCH)), (0, 2), "SCRATCH of the two VFs")
    equal([port.slot_status(0) for port in (near[0], near[2])], [LIVE] * 2, "slots to the others")
    equal(pair.b.link(0, R.LINK_TRAINED), 1, "how often the link came up")
    pair.settled(far[1], 0)
    pair.ready(far[1])
    now = [port.read(R.R_GENERATION) for port in far]
    equal((now[0], now[2]), (generations[0], generations[2]), "generations of the others")
    assert now[1] > max(generations), now
    # Its PF hears of it; the quota is still there, the message is not.
    equal(pair.b.read(R.R_VF_PENDING) & 1, 1, "pending at the PF")
    equal(pair.b.vf(0, R.VF_STATUS) & R.VF_RESET, R.VF_RESET, "STATUS")
    equal(pair.b.vf(0, R.VF_MBOX + R.PAIR_STATUS), 0, "mailbox")
    assert 1 in pair.b.fired(), "vector of FUNCTION"
    far[1].write(R.R_CTRL, R.CTRL_ENABLE)
    pair.opened(far[1], 0, 0, MEMORY + PAGE)
    pair.until(lambda: near[1].slot_status(0) == LIVE, "the slot to live again")


def test_vf_register_reset(scope):
    """CTRL.RESET of a VF does the same, and its configuration space stays"""
    pair, near, far = joined(scope, 1)
    far[1].write(R.R_CTRL, R.CTRL_RESET)
    pair.until(lambda: not near[1].slot_status(0), "the slot to die")
    equal(far[1].read(R.R_ID), R.ID, "its registers answer")
    equal(near[0].slot_status(0), LIVE, "the slot to the PF")


def test_vf_resets_without_end(scope):
    """a VF that resets itself without end leaves its endpoint in the fabric, and has a generation then"""
    pair, near, far = joined(scope, 1)
    before = far[1].read(R.R_GENERATION)
    for _ in range(5000):
        far[1].write(R.R_CTRL, R.CTRL_RESET)
    pair.ready(far[1])
    assert far[1].read(R.R_GENERATION) > before, "generation"
    equal(pair.b.link(0, R.LINK_TRAINED), 1, "how often the link came up")
    equal(near[0].slot_status(0), LIVE, "the slot to the PF")


def test_pf_reset(scope):
    """a function level reset of a PF takes its VFs: disabled, without a quota, closed"""
    pair, near, far = joined(scope)
    pair.b.flr()
    equal((pair.b.sriov(CONTROL) & VF_ENABLE, pair.b.sriov(NUM)), (0, 0), "VF Enable, NumVFs")
    pair.until(lambda: not pair.a.link_up(), "the link to go down")
    for port in near:
        cannot(port, 0, f"function {port.function}")
    pair.ready(pair.b)
    pair.enable(pair.b)
    pair.until(pair.a.link_up, "the link to come back")
    vfs = pair.b.enable(2)
    equal(vfs[0].read(R.R_CAP0), 0, "CAP0 of a VF")
    equal([port.slot_status(0) for port in near], [0, 0, 0], "slots")
    for vf in vfs:
        equal(vf.inbound_status(0) & R.INBOUND_LIVE, 0, "its entry")


def test_pf_register_reset(scope):
    """CTRL.RESET of a PF resets the VFs it has, and leaves them enabled"""
    pair, _, far = joined(scope, 1)
    far[1].write(R.R_SCRATCH, 5)
    pair.b.write(R.R_CTRL, R.CTRL_RESET)
    equal(pair.b.sriov(CONTROL) & VF_ENABLE, VF_ENABLE, "VF Enable")
    equal((far[1].read(R.R_SCRATCH), far[1].read(R.R_CAP0)), (0, 0), "SCRATCH and CAP0 of the VF")


def test_other_pf_loses_the_link(scope):
    """for the second PF and its VFs a reset of the first is a link that went down, and a new generation"""
    pair = Endpoints(scope)
    one, two = pair.second(pair.a), pair.second(pair.b)
    vf = pair.virtual(two, 1)[0]
    two.grant(0)
    pair.opened(vf, 0, 0, MEMORY)
    one.set_slot(0, to(vf.function), 0, PAGE)
    equal(one.slot_status(0), LIVE, "slot to a VF of the second PF")
    before = vf.read(R.R_GENERATION)
    pair.b.flr()
    pair.until(lambda: not one.link_up() and not two.link_up(), "the link to go down for them")
    equal(vf.read(R.R_EVENT), 1, "event of the VF")
    pair.ready(pair.b)
    pair.enable(pair.b)
    pair.until(lambda: one.slot_status(0) == LIVE, "the slot to live again")
    assert vf.read(R.R_GENERATION) > before, "generation"
    equal(two.read(R.R_CTRL), R.CTRL_ENABLE, "CTRL of the second PF")


def test_second_pf(scope):
    """the second PF is a port of its own on the same links, and its reset is its own"""
    pair = Endpoints(scope)
    one, two = pair.second(pair.a), pair.second(pair.b)
    equal(two.read64(R.R_HWID), pair.b.read64(R.R_HWID) ^ 1 << 58, "hardware id")
    two.write(R.R_LINK + R.LINK_CTRL, R.LINK_DISABLE)
    equal(pair.b.link(0, R.LINK_CTRL), 0, "LINK_CTRL of the first")
    # To the function of the same number, unless another is named.
    one.send(0, b"second")
    pair.a.send(0, b"first")
    pair.until(lambda: two.read(R.R_MBOX_RX_STATUS) and pair.b.read(R.R_MBOX_RX_STATUS), "both messages")
    equal(R.field(R.MBOX_FROM, two.read(R.R_MBOX_RX_STATUS)), 1, "who it is from")
    equal((two.receive(), pair.b.receive()), ((0, b"second"), (0, b"first")), "the messages")
    pair.a.write(R.R_MBOX_TX_CTRL, R.DEST_FUNCTION | 1 << 23 | 5 << 8)
    pair.until(lambda: two.read(R.R_MBOX_RX_STATUS), "a message for another function")
    equal(two.receive(), (0, b"first"), "the message")
    one.write(R.R_MBOX_TX_CTRL, R.DEST_FUNCTION | 7 << 23 | 5 << 8)
    pair.until(lambda: pair.b.counter(R.CNT_MSG_DROPPED), "a message without a receiver")
    pair.opened(pair.b, 0, 0, MEMORY)
    pair.opened(two, 0, 0, MEMORY + PAGE)
    for port in pair.a, one:
        port.set_slot(0, R.DEST_LINK, 0, PAGE)
        equal(port.slot_status(0), LIVE, "slot")
        port.qemu.write(port.slot(0), 8, 0x70 + port.function)
    equal([pair.b.qemu.read(MEMORY + n * PAGE, 8) for n in (0, 1)], [0x70, 0x71], "memory")
    generation = pair.b.read(R.R_GENERATION)
    two.flr()
    pair.until(lambda: not one.slot_status(0), "the slot to die")
    equal((pair.a.slot_status(0), pair.b.link(0, R.LINK_TRAINED)), (LIVE, 1), "slot and link of the first")
    equal(pair.b.read(R.R_GENERATION), generation, "generation of the first")
    pair.until(lambda: two.read(R.R_GENERATION) > generation, "a generation of its own")


def test_traced(scope):
    """the fabric's setting that traces an endpoint is for all its functions, also for a PF that joins later"""
    pair = Endpoints(scope)
    vf = pair.virtual(pair.a, 1)[0]
    two = pair.second(pair.a)
    pair.node_a.send(R.FAB_TRACE, arg=(1,))
    for port in pair.a, vf, two:
        pair.until(lambda p=port: p.read(R.R_STATUS) & R.STATUS_TRACED, "tracing to begin")
    pair.opened(pair.b, 0, 0, MEMORY)
    vf.set_slot(0, to(0), 0, PAGE)
    equal(vf.slot_status(0), R.SLOT_LIVE, "a slot, which traps now")
    vf.qemu.write(vf.slot(0), 8, 1)
    equal(vf.counter(R.CNT_TX_MWR), 1, "writes of the VF")
    equal(pair.a.counter(R.CNT_TX_MWR), 0, "writes of its PF")


def test_disable_withdraws(scope):
    """VFs that are disabled close what they had open, and are as new when they are enabled again"""
    pair, near, far = joined(scope)
    far[1].write(R.R_SCRATCH, 9)
    far[1].write(R.R_DB_ALLOW, 1)
    pair.b.disable()
    pair.until(lambda: not near[1].slot_status(0) and not near[2].slot_status(0), "their slots to die")
    equal(near[0].slot_status(0), LIVE, "the slot to the PF")
    near[1].set_page(0, R.DEST_LINK, 1)
    near[1].ring(0, 0)
    vf = pair.b.enable(1)[0]
    equal((vf.read(R.R_SCRATCH), vf.inbound_status(0) & R.INBOUND_LIVE), (0, 0), "SCRATCH and entry")
    equal(vf.read(R.R_DB_PENDING), 0, "a doorbell that was rung meanwhile")
    # What is not a bus master any more closes by itself.
    vf = pair.virtual(pair.b, 1)[0]
    pair.opened(vf, 0, 0, MEMORY)
    pair.until(lambda: near[1].slot_status(0) == LIVE, "the slot to live")
    vf.config_write(4, 2, 2)
    pair.until(lambda: not near[1].slot_status(0), "the slot to die with its bus mastering")


def plug(qemu, fabric, vfs=R.VFS):
    """A whole endpoint, the second PF first, as multifunction hot plug has it."""
    for p, more in ((1, {}), (0, {"multifunction": True, "fabric": fabric.path, "hwid": 0xa})):
        qemu.qmp("device_add", driver="weft-port", id=f"pf{p}", bus="rp", addr=f"0.{p}", vfs=vfs, **more,
                 **{"slot-size": 1 << 20})


def test_unplug(scope):
    """an endpoint with VFs enabled and in use is unplugged whole, again and again, and its neighbour sees it"""
    fabric = Fabric(scope)
    qemu = Qemu(scope, "h1", *OPTIONS)
    bus = Bus(qemu)
    slot = WideSlot(bus)
    other = host(scope, "h2", fabric=fabric.path, hwid=0xb)
    other_node = fabric.attach()
    other.write(R.R_CTRL, R.CTRL_ENABLE)
    baseline = qemu.descriptors()
    for _ in range(3):
        plug(qemu, fabric)
        node = fabric.attach()
        slot.power(True)
        pfs = [Pf(qemu, bus, p) for p in (0, 1)]
        equal([pf.sriov(LINK, 1) for pf in pfs], [1, 0], "Function Dependency Links")
        fabric.until(lambda p=pfs[0]: p.read(R.R_STATUS) & R.STATUS_FABRIC, "the endpoint to join")
        pfs[0].write(R.R_CTRL, R.CTRL_ENABLE)
        fabric.wire(node, 0, other_node, 0)
        fabric.until(lambda p=pfs[0]: p.link_up() and other.link_up(), "the link to come up")
        vfs = [vf for pf in pfs for vf in pf.enable(R.VFS)]
        for pf in pfs:
            pf.grant(7)
        other.set_inbound(0, 0, PAGE, MEMORY)
        used = vfs[7], vfs[23]
        for vf in used:
            vf.write(R.R_CTRL, R.CTRL_ENABLE)
            vf.set_inbound(0, 0, PAGE, MEMORY)
            vf.set_slot(0, to(0), 0, PAGE)
        other.set_slot(0, to(used[1].function), 0, PAGE)
        fabric.until(lambda u=used: all(vf.slot_status(0) == LIVE for vf in u) and other.slot_status(0) == LIVE,
                     "slots to live")
        qemu.events.clear()
        qemu.qmp("device_del", id="pf0")
        slot.power(False)
        fabric.until(lambda: not other.link_up(), "the neighbour to see it")
        until(lambda: not qemu.mappings("memfd:weft-"), "its memory to be released")
        equal(other.slot_status(0), 0, "the neighbour's slot")
        until(lambda: qemu.descriptors() == baseline, "its descriptors to be closed")
        equal(qemu.read(pfs[0].config_address(0), 4), 0xffffffff, "where the first PF was")


def test_first_pf_unplugged(scope):
    """the second PF survives without the first: its links are gone, SELF works"""
    machine = Machine(scope, "h1", vfs=0)
    second = machine.pf[1]
    second.write(R.R_CTRL, R.CTRL_ENABLE)
    second.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    second.set_slot(0, R.DEST_SELF, 0, PAGE)
    equal(second.slot_status(0), LIVE, "slot to itself")
    alone = Qemu(scope, "h2", *OPTIONS, "-device", "weft-port,bus=rp,addr=0.1,vfs=2")
    bus = Bus(alone)
    WideSlot(bus).power(True)
    pf = Pf(alone, bus, 1)
    equal((pf.function, pf.read(R.R_STATUS), pf.link(0)), (1, 0, 0), "FUNCTION, STATUS and link")
    equal(pf.sriov(LINK, 1), 1, "Function Dependency Link")
    pf.set_inbound(0, 0, PAGE, MEMORY, allow=R.ALLOW_SELF)
    pf.set_slot(0, R.DEST_SELF, 0, PAGE)
    equal(pf.slot_status(0), LIVE, "slot to itself, alone")


def test_options(scope):
    """options that make no sense are refused, and say why"""
    for number, (option, why) in enumerate({
            "weft-port,vfs=17": "more than the 16 VFs",
            "weft-port,vfs=2,vf-slots=3": "vf-slots=3 is not a power of two",
            "weft-port,addr=5.2": "an endpoint has 2 PFs",
            "weft-port,addr=5.1,fabric=/nowhere": "give fabric=... to that one",
            "weft-port,addr=1e.0,vfs=16": "VF addr overflows",
            "weft-vf": "expects a pluggable device type"}.items()):
        qemu = Qemu(scope, f"h{number}", "-device", option, fails=True)
        assert qemu.process.wait(30), f"{option} is taken"
        assert why in qemu.errors(), f"{option}: {qemu.errors()}"


def test_aer(scope):
    """an error injected into a PF is in its AER registers, and the root port reports whose it is"""
    machine = Machine(scope, "h1")
    pf, root = machine.pf[0], RootPort(machine.bus)
    control = pf.capability(0x10) + 8
    pf.config_write(control, pf.config_read(control, 2) | 0xf, 2)
    pf.config_write(4, pf.config_read(4, 2) | 0x100, 2)
    root.report()
    aer = pf.extended(1)
    # Where the PF shows it, which bit; what the root port has received, and where it says from which function.
    for name, register, bit, received, source in (("BAD_TLP", 0x10, 1 << 6, 1, 0), ("POISON_TLP", 4, 1 << 12, 0x24, 16)):
        told = machine.qemu.qmp("human-monitor-command", **{"command-line": f"pcie_aer_inject_error pf0 {name}"})
        assert "OK" in told, told
        equal(pf.config_read(aer + register), bit, f"{name} in the AER registers of the PF")
        equal(root.read(0x30) & 0x7f, received, f"{name} in the root error status")
        equal(root.read(0x34) >> source & 0xffff, 0x100, f"requester id of {name}")
        pf.config_write(aer + register, bit)
        equal(pf.config_read(aer + register), 0, f"{name} cleared")
        root.write(0x30, 0x7f)
    equal(pf.read(R.R_ID), R.ID, "the PF works on")


def test_random(scope):
    """random programs of PFs and VFs do no harm: the neighbour's memory that is not open stays as it is"""
    pair = Endpoints(scope)
    rng = random.Random(1)
    vfs = pair.virtual(pair.a, 4)
    functions = [pair.a, *vfs]
    guarded = pair.b.qemu.read_bytes(MEMORY, 4 * PAGE)
    pair.opened(pair.b, 0, 0, MEMORY + 4 * PAGE)
    for _ in range(1500):
        port = rng.choice(functions)
        kind = rng.randrange(6)
        if kind == 0:
            pair.a.set_vf(rng.randrange(16), rng.randrange(0, R.VF_STRIDE, 4), rng.getrandbits(32))
        elif kind == 1:
            pair.a.grant(rng.randrange(4), **{rng.choice(["slots", "inbound", "bytes", "links", "peers"]): rng.getrandbits(6)})
        elif kind == 2:
            port.write(R.R_PF_MBOX + rng.randrange(0, R.PAIR_STRIDE, 4), rng.getrandbits(32))
        elif kind == 3:
            port.set_slot(rng.randrange(4), rng.choice([R.DEST_LINK, R.DEST_SELF, to(rng.randrange(64))]),
                          rng.randrange(4) * PAGE, rng.randrange(3) * PAGE)
            port.qemu.write(port.slot(rng.randrange(4), rng.randrange(PAGE // 8) * 8), 8, rng.getrandbits(64))
        elif kind == 4:
            port.set_inbound(rng.randrange(32), rng.randrange(8) * PAGE, rng.randrange(8) * PAGE,
                             MEMORY + rng.randrange(1 << 15) * PAGE, allow=rng.getrandbits(32))
        elif port is not pair.a:
            port.write(R.R_CTRL, rng.choice([R.CTRL_ENABLE, 0, R.CTRL_RESET]))
        pair.fabric.step(0)
    equal(pair.b.qemu.read_bytes(MEMORY, 4 * PAGE), guarded, "memory that was not open")
    equal(pair.a.read(R.R_ID), R.ID, "the PF")
    assert pair.node_a.alive and pair.node_b.alive, "both ports are still in the fabric"
