# SPDX-License-Identifier: GPL-2.0
"""What a PF lets its VFs have, and the mailbox between them."""

import regs as R
from functions import ALL, VF_SLOTS, Endpoints, Machine, cannot, to
from port import MEMORY, PAGE
from tap import equal

LIVE = R.SLOT_LIVE | R.SLOT_DIRECT
OPEN = R.INBOUND_LIVE


def machine(scope, count=2):
    """A PF without a fabric, and VFs; enabled, and with nothing but SELF to reach."""
    pf = Machine(scope, "h1").pf[0]
    return pf, pf.enable(count)


def loop(vf, n, length=PAGE, base=MEMORY):
    """Open memory of a VF to itself."""
    vf.set_inbound(n, n * 0x10000000, length, base, allow=R.ALLOW_SELF)


def test_nothing(scope):
    """a VF has nothing until its PF gives it something"""
    pf, (vf, _) = machine(scope)
    equal(vf.read(R.R_CAP0), 0, "CAP0")
    loop(vf, 0)
    equal(vf.inbound_status(0), R.INBOUND_INVALID, "an entry")
    equal(vf.error(), (R.ERR_QUOTA, 0, PAGE), "its error")
    vf.clear_errors()
    vf.set_slot(2, R.DEST_SELF, 0, PAGE)
    cannot(vf, 2, "without a quota")
    equal(vf.error()[:2], (R.ERR_QUOTA, 2), "error of the slot")
    vf.set_page(0, R.DEST_SELF, 1)
    vf.ring(0, 0)
    equal((vf.read(R.R_DB_PENDING), vf.counter(R.CNT_DB_DENIED)), (0, 1), "a doorbell")
    for register in R.VF_SLOTS, R.VF_INBOUND, R.VF_BYTES, R.VF_LINKS, R.VF_PEERS, R.VF_USED_BYTES:
        equal(pf.vf(0, register), 0, f"register {register:#x} of the group")


def test_numbers(scope):
    """slots, entries, doorbells and pages from the quota on are refused, those below it work"""
    pf, (vf, other) = machine(scope)
    quota = {"slots": 2, "inbound": 3, "doorbells": 4, "db_pages": 5}
    pf.grant(0, **quota)
    equal(vf.read(R.R_CAP0), 2 | 3 << 8 | 4 << 16 | 5 << 24, "CAP0")
    equal(other.read(R.R_CAP0), 0, "CAP0 of another VF")
    for n in range(R.MAX_INBOUND):
        loop(vf, n)
        equal(vf.inbound_status(n), OPEN if n < 3 else R.INBOUND_INVALID, f"entry {n}")
    for n in range(VF_SLOTS):
        vf.set_slot(n, R.DEST_SELF, 0, PAGE)
        equal(vf.slot_status(n), LIVE if n < 2 else 0, f"slot {n}")
    equal(pf.vf(0, R.VF_USED), VF_SLOTS | 3 << 8, "used")
    equal(pf.vf(0, R.VF_USED_BYTES), 3 * PAGE, "used bytes")
    equal(vf.read(R.R_ERR_STATUS), R.ERR_QUOTA, "errors of the VF")
    equal(pf.read(R.R_ERR_STATUS), 0, "errors of the PF")
    for page in range(R.DB_PAGES):
        vf.set_page(page, R.DEST_SELF, 0xffffffff)
        vf.ring(page, 3)
        equal(vf.read(R.R_DB_PENDING), 8 if page < 5 else 0, f"doorbell of page {page}")
        vf.write(R.R_DB_PENDING, 0xffffffff)
    for doorbell in range(R.DOORBELLS):
        vf.ring(0, doorbell)
    equal(vf.read(R.R_DB_PENDING), 0xf, "doorbells")


def test_bytes(scope):
    """live entries together are bounded in bytes; what is closed can be opened elsewhere"""
    pf, (vf, _) = machine(scope)
    pf.grant(0, bytes=4 * PAGE)
    loop(vf, 0, 3 * PAGE)
    loop(vf, 1, 2 * PAGE)
    equal([vf.inbound_status(n) for n in (0, 1)], [OPEN, R.INBOUND_INVALID], "three pages and two more")
    equal(vf.error(), (R.ERR_QUOTA, 1, 2 * PAGE), "the error")
    loop(vf, 2, PAGE)
    equal(vf.inbound_status(2), OPEN, "one more")
    loop(vf, 0, 4 * PAGE)
    equal(vf.inbound_status(0), R.INBOUND_INVALID, "the first grown beyond it")
    loop(vf, 1, 3 * PAGE)
    equal(vf.inbound_status(1), OPEN, "in its place")
    loop(vf, 3, (1 << 64) - PAGE, 0)
    equal(vf.inbound_status(3), R.INBOUND_INVALID, "nearly all of the address space")
    equal(pf.vf(0, R.VF_USED_BYTES), 4 * PAGE, "used bytes")


def test_lowered(scope):
    """a quota that is lowered takes the excess away before the write returns, and nothing else"""
    pf, (vf, _) = machine(scope)
    pf.grant(0)
    for n in range(4):
        loop(vf, n, 2 * PAGE)
        vf.set_slot(n, R.DEST_SELF, n * 0x10000000, 2 * PAGE)
    equal([vf.slot_status(n) for n in range(4)], [LIVE] * 4, "slots")
    pf.grant(0, bytes=5 * PAGE)
    equal([vf.inbound_status(n) & 5 for n in range(4)], [OPEN] * 2 + [R.INBOUND_INVALID] * 2, "entries")
    for n in 2, 3:
        cannot(vf, n, "to an entry that was closed")
    pf.grant(0, slots=1)
    equal([vf.slot_status(n) for n in range(4)], [LIVE, 0, 0, 0], "slots of a lower quota")
    equal(vf.inbound_status(1) & 5, OPEN, "an entry within it")
    pf.grant(0, inbound=1)
    equal([vf.inbound_status(n) & 5 for n in range(2)], [OPEN, R.INBOUND_INVALID], "entries of a lower quota")
    pf.grant(0)
    equal([vf.slot_status(n) for n in range(2)], [LIVE, 0], "slots when it is raised again")
    equal(vf.inbound_status(1) & 5, R.INBOUND_INVALID, "an entry that was closed, then")
    loop(vf, 1, 2 * PAGE)
    equal((vf.inbound_status(1) & 5, vf.slot_status(1)), (OPEN, LIVE), "when the VF opens it again")


def test_links_of_the_second(scope):
    """the same for VFs of the second PF, which need not be enabled itself"""
    pair = Endpoints(scope)
    pf = pair.second(pair.b)
    far = pair.virtual(pf, 1)[0]
    pair.opened(far, 0, 0, MEMORY)
    pair.a.set_slot(0, to(far.function), 0, PAGE)
    equal(pair.a.slot_status(0), LIVE, "slot")
    pf.write(R.R_CTRL, 0)
    equal(pair.a.slot_status(0), LIVE, "slot with the PF disabled")
    pf.grant(0, links=0)
    pair.settled(far, 0)
    cannot(pair.a, 0, "link taken from the owner")


def test_latched(scope):
    """a quota takes effect as a whole, with CTRL"""
    pf, (vf, _) = machine(scope)
    for name, value in ALL.items():
        pf.set_vf(0, getattr(R, "VF_" + name.upper()), value & 0xffffffff)
    equal(vf.read(R.R_CAP0), 0, "CAP0 before CTRL")
    pf.set_vf(0, R.VF_CTRL, 0)
    equal(vf.read(R.R_CAP0) & R.CAP0_SLOTS, VF_SLOTS, "slots after it")


def hwid(port):
    return port.read(R.R_HWID) | port.read(R.R_HWID + 4) << 32


def test_mig_1_identity(scope):
    """MIG-1: a VF has the identity that its PF says, from CTRL on and through its resets, until the PF is reset"""
    pair = Endpoints(scope)
    vf, other = pair.virtual(pair.a, 2)
    own = hwid(vf)
    equal(own, hwid(pair.a) ^ vf.function << 58, "its own")
    equal(pair.a.read(R.R_CAP1) & R.CAP1_VF_HWID, R.CAP1_VF_HWID, "CAP1 of the PF")
    equal(vf.read(R.R_CAP1) & R.CAP1_VF_HWID, 0, "CAP1 of the VF")
    for word, value in ((0, 0x89abcdef), (4, 0x01234567)):
        pair.a.set_vf(0, R.VF_HWID + word, value)
    equal(hwid(vf), own, "before CTRL")
    pair.a.set_vf(0, R.VF_CTRL, 1)
    equal(hwid(vf), 0x0123456789abcdef, "from then on")
    equal(hwid(other), hwid(pair.a) ^ other.function << 58, "another's")
    vf.write(R.R_HWID, 5)
    vf.write(R.R_CTRL, R.CTRL_RESET)
    equal(hwid(vf), 0x0123456789abcdef, "after its reset")
    pair.a.write(R.R_CTRL, R.CTRL_RESET)
    equal((hwid(vf), pair.a.vf(0, R.VF_HWID)), (own, 0), "after one of the PF")


def test_mig_2_numbers(scope):
    """MIG-2: two VFs exchange their numbers: what a neighbour has programmed leads to the other one"""
    pair = Endpoints(scope)
    near, (vf, other) = pair.virtual(pair.a, 1)[0], pair.virtual(pair.b, 2)
    pf, number, others = pair.b, vf.function, other.function
    equal(pf.read(R.R_CAP1) & R.CAP1_VF_NUMBER, R.CAP1_VF_NUMBER, "CAP1 of the PF")
    equal(vf.read(R.R_CAP1) & R.CAP1_VF_NUMBER, 0, "CAP1 of the VF")

    def written(wanted):
        pf.set_vf(0, R.VF_NUMBER, wanted)
        return vf.function, other.function, pf.vf(0, R.VF_FUNCTION), pf.vf(1, R.VF_FUNCTION)

    same = (number, others) * 2
    for wrong in number, pf.function, 1, R.PFS + R.VFS, R.FUNCTIONS, 0xffffffff:
        equal(written(wrong), same, f"number {wrong}")
    near.set_slot(0, to(number), 0, PAGE)
    near.set_page(0, to(number), 1)
    for n, port in enumerate((vf, other)):
        port.write(R.R_DB_ALLOW, 1)
        pair.b.qemu.write(MEMORY + n * PAGE, 8, 0)
    for user in vf, other:
        pair.opened(user, 0, 0, MEMORY)
        equal(written(others), same, "with an entry open")
        user.close_inbound(0)
        pair.settled(user, 0)
        user.set_slot(0, R.DEST_SELF, 0, PAGE)
        equal(written(others), same, "with a slot enabled")
        user.set_slot(0, R.DEST_SELF, 0, PAGE, ctrl=0)
    pair.opened(vf, 0, 0, MEMORY)
    pair.a.qemu.write(near.slot(0), 8, 1)
    vf.close_inbound(0)
    pair.settled(vf, 0)
    ids = hwid(vf), hwid(other)
    equal(written(others), (others, number) * 2, "exchanged")
    equal((hwid(vf), hwid(other)), ids[::-1], "hardware ids")
    pair.opened(other, 0, 0, MEMORY + PAGE)
    equal(near.slot_status(0), LIVE, "the slot")
    pair.a.qemu.write(near.slot(0), 8, 2)
    near.ring(0, 0)
    pair.until(lambda: other.read(R.R_DB_PENDING), "the doorbell")
    equal([pair.b.qemu.read(MEMORY + n * PAGE, 8) for n in range(2)], [1, 2], "memory")
    equal(vf.read(R.R_DB_PENDING), 0, "doorbells of the other one")
    # Resets change nothing of it.
    for reset in other, pf:
        reset.write(R.R_CTRL, R.CTRL_RESET)
    pair.until(lambda: pf.read(R.R_STATUS) & R.STATUS_FABRIC, "the fabric")
    equal((vf.function, other.function), (others, number), "after resets")


def test_peers(scope):
    """a VF reaches, by slot and doorbell, the functions of neighbours that its PF lets it address"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a, 1)[0], pair.virtual(pair.b, 2)
    for n, port in enumerate((pair.b, *far)):
        pair.opened(port, 0, 0, MEMORY + n * PAGE)
        port.write(R.R_DB_ALLOW, 1)
        near.set_slot(n, to(port.function), 0, PAGE)
        near.set_page(n, to(port.function), 1)
    pair.a.grant(0, peers=1 << far[1].function)
    equal([near.slot_status(n) for n in range(3)], [0, 0, LIVE], "slots to the PF and two VFs")
    cannot(near, 0, "to the PF")
    for page in range(3):
        near.ring(page, 0)
    pair.until(lambda: far[1].read(R.R_DB_PENDING), "the doorbell that is allowed")
    equal([port.read(R.R_DB_PENDING) for port in (pair.b, *far)], [0, 0, 1], "doorbells")
    equal(near.counter(R.CNT_DB_DENIED), 2, "doorbells refused")
    # A function number that no endpoint has.
    near.set_slot(3, to(63), 0, PAGE)
    cannot(near, 3, "to function 63")


def test_links(scope):
    """a link out of the quota leads nowhere, and nothing comes in by it, from the write on"""
    pair = Endpoints(scope)
    near, far = pair.virtual(pair.a, 1)[0], pair.virtual(pair.b, 1)[0]
    pair.opened(far, 0, 0, MEMORY)
    near.set_slot(0, R.DEST_LINK, 0, PAGE)
    equal(near.slot_status(0), LIVE, "slot")
    pair.b.grant(0, links=0)
    pair.settled(far, 0)
    cannot(near, 0, "link taken from the owner")
    near.set_page(0, R.DEST_LINK, 1)
    far.write(R.R_DB_ALLOW, 1)
    near.ring(0, 0)
    pair.until(lambda: far.counter(R.CNT_DB_DENIED), "the doorbell to be refused")
    pair.b.grant(0)
    pair.until(lambda: near.slot_status(0) == LIVE, "the slot to live again")
    pair.a.grant(0, links=2)
    cannot(near, 0, "link taken from the user")


def pair_send(port, base, data):
    for at in range(0, len(data), 4):
        port.write(base + R.PAIR_TX + at, int.from_bytes(data[at:at + 4], "little"))
    port.write(base + R.PAIR_CTRL, R.PAIR_SEND | len(data))


def pair_receive(port, base):
    status = port.read(base + R.PAIR_STATUS)
    if not status & R.PAIR_VALID:
        return None
    data = b"".join(port.read(base + R.PAIR_RX + at).to_bytes(4, "little") for at in range(0, R.PAIR_BYTES, 4))
    assert not any(data[status & R.PAIR_LEN:]), "behind the end of a message"
    return data[:status & R.PAIR_LEN]


def test_mailbox(scope):
    """messages between PF and VF, both ways and each to its own; events tell of sent and taken"""
    pf, vfs = machine(scope, 3)
    ends = [R.R_VF + n * R.VF_STRIDE + R.VF_MBOX for n in range(3)]
    for port in (pf, *vfs):
        port.write(R.R_EVENT, 0xffffffff)
        port.write(R.R_EVENT_MASK, 0)
    pf.write(R.R_VF_PENDING, 0xffffffff)
    for n in range(3):
        pf.set_vf(n, R.VF_STATUS, 0xffffffff)
    pf.fired()
    pair_send(vfs[1], R.R_PF_MBOX, bytes(range(64)))
    equal((pf.read(R.R_EVENT), pf.read(R.R_VF_PENDING)), (R.EVENT_FUNCTION, 2), "events of the PF")
    equal(pf.fired(), {1}, "vectors of the PF")
    equal(pf.vf(1, R.VF_STATUS) & R.VF_RX, R.VF_RX, "STATUS")
    equal([pair_receive(pf, end) for end in ends], [None, bytes(range(64)), None], "messages at the PF")
    equal(vfs[1].read(R.R_PF_MBOX + R.PAIR_STATUS), R.PAIR_BUSY, "STATUS at the VF")
    # Not taken yet: another is refused, and the first one stays what it is.
    pair_send(vfs[1], R.R_PF_MBOX, b"more")
    equal(vfs[1].read(R.R_PF_MBOX + R.PAIR_STATUS), R.PAIR_BUSY | R.PAIR_FAILED, "STATUS of one too many")
    equal(pair_receive(pf, ends[1]), bytes(range(64)), "the message at the PF")
    pf.write(ends[1] + R.PAIR_TX, 0x6b6f)
    pf.write(ends[1] + R.PAIR_CTRL, R.PAIR_TAKE | R.PAIR_SEND | 2)
    equal([vf.read(R.R_EVENT) for vf in vfs], [0, R.EVENT_FUNCTION, 0], "events of the VFs")
    equal(pair_receive(vfs[1], R.R_PF_MBOX), b"ok", "the answer")
    equal(pair_receive(vfs[0], R.R_PF_MBOX), None, "at another VF")
    equal(pair_receive(pf, ends[1]), None, "the message, taken")
    pf.write(R.R_VF_PENDING, 0xffffffff)
    pf.write(R.R_EVENT, 0xffffffff)
    pf.set_vf(1, R.VF_STATUS, R.VF_RX)
    vfs[1].write(R.R_PF_MBOX + R.PAIR_CTRL, R.PAIR_TAKE)
    equal(pf.read(R.R_VF_PENDING), 2, "pending after the answer was taken")
    equal(pf.vf(1, R.VF_STATUS) & (R.VF_RX | R.VF_TAKEN), R.VF_TAKEN, "STATUS of it")
    vfs[1].write(R.R_PF_MBOX + R.PAIR_CTRL, R.PAIR_TAKE)
    for length in 0, 65, 0x7f:
        vfs[2].write(R.R_PF_MBOX + R.PAIR_CTRL, R.PAIR_SEND | length)
        equal(vfs[2].read(R.R_PF_MBOX + R.PAIR_STATUS), R.PAIR_FAILED, f"sending {length} bytes")
    equal(pf.vf(2, R.VF_STATUS) & R.VF_RX, 0, "what came of it")
