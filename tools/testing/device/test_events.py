# SPDX-License-Identifier: GPL-2.0
"""Events, errors, masks, and the MSI-X messages they raise. An access to a dead slot serves as the event."""

import regs as R
from port import host
from tap import equal, until

ERROR_VECTOR = 2


def fail_read(port, slot=0, offset=0):
    """A read of a slot that leads nowhere: an error, so an event."""
    equal(port.qemu.read(port.slot(slot, offset), 4), 0xffffffff, "read of a dead slot")


def test_masked(scope):
    """a masked event is recorded and silent; unmasking it fires"""
    port = host(scope)
    fail_read(port)
    equal(port.read(R.R_EVENT), R.EVENT_ERROR, "event")
    equal(port.fired(), set(), "interrupts while masked")
    port.write(R.R_EVENT_MASK, ~R.EVENT_LINK & 0xffffffff)
    equal(port.fired(), set(), "interrupts when something else is unmasked")
    port.write(R.R_EVENT_MASK, 0)
    equal(port.fired(), {ERROR_VECTOR}, "interrupts at unmasking")
    port.write(R.R_EVENT_MASK, 0)
    equal(port.fired(), set(), "interrupts when nothing changes")


def test_edges(scope):
    """an interrupt comes when the bit turns 1, not while it is"""
    port = host(scope)
    port.write(R.R_EVENT_MASK, 0)
    fail_read(port)
    equal(port.fired(), {ERROR_VECTOR}, "interrupts at the first error")
    fail_read(port)
    equal(port.fired(), set(), "interrupts at the second")
    port.qemu.write(port.slot(0), 4, 0)
    equal(port.read(R.R_ERR_STATUS), R.ERR_OUT_READ | R.ERR_OUT_WRITE, "errors")
    equal(port.fired(), set(), "interrupts at an error of another kind, the event being there")
    port.write(R.R_EVENT, R.EVENT_MBOX)
    equal(port.read(R.R_EVENT), R.EVENT_ERROR, "event after clearing another")
    port.write(R.R_EVENT, R.EVENT_ERROR)
    equal(port.read(R.R_EVENT), 0, "event after clearing it")
    fail_read(port)
    equal(port.read(R.R_EVENT), 0, "event: the error is known")
    port.clear_errors()
    fail_read(port)
    equal(port.fired(), {ERROR_VECTOR}, "interrupts at a new error")
    equal(port.counter(R.CNT_IRQS), 2, "interrupts counted")


def test_vectors(scope):
    """the vector of a purpose can be chosen; one that does not exist is silent"""
    port = host(scope)
    port.write(R.R_EVENT_MASK, 0)
    for vector in 0, 9, 15:
        port.write(R.R_EVENT_VECTOR, vector << 16)
        port.clear_errors()
        fail_read(port)
        equal(port.fired(), {vector}, f"interrupts at vector {vector}")
    for vector in 16, 255:
        port.write(R.R_EVENT_VECTOR, vector << 16)
        port.clear_errors()
        fail_read(port)
        equal(port.fired(), set(), f"interrupts at vector {vector}")
        equal(port.read(R.R_EVENT), R.EVENT_ERROR, "event all the same")


def test_vector_mask(scope):
    """a vector masked in the MSI-X table pends, and fires when it is unmasked"""
    port = host(scope)
    port.write(R.R_EVENT_MASK, 0)
    port.mask_vector(ERROR_VECTOR, True)
    fail_read(port)
    equal(port.fired(), set(), "interrupts of a masked vector")
    pending = port.msix + (port.config_read(port.capability(0x11) + 8) & ~7)
    equal(port.qemu.readl(pending), 1 << ERROR_VECTOR, "pending bits")
    port.mask_vector(ERROR_VECTOR, False)
    equal(port.fired(), {ERROR_VECTOR}, "interrupts at unmasking")
    equal(port.qemu.readl(pending), 0, "pending bits afterwards")


def test_not_a_master(scope):
    """without bus mastering no message leaves"""
    port = host(scope)
    port.write(R.R_EVENT_MASK, 0)
    port.config_write(0x04, 2, 2)
    fail_read(port)
    equal(port.fired(), set(), "interrupts of a port that is no master")


def test_first_error(scope):
    """ERR_INFO and ERR_ADDR keep the first error until ERR_STATUS is clear"""
    port = host(scope)
    fail_read(port, slot=3, offset=0x1234)
    port.qemu.write(port.slot(5, 0x40), 4, 0)
    equal(port.read(R.R_ERR_STATUS), R.ERR_OUT_READ | R.ERR_OUT_WRITE, "errors")
    equal(port.error(), (R.ERR_OUT_READ, 3, 0x1234), "first error")
    port.write(R.R_ERR_STATUS, R.ERR_OUT_READ)
    equal(port.read(R.R_ERR_STATUS), R.ERR_OUT_WRITE, "errors after clearing one")
    fail_read(port, slot=1)
    equal(port.error(), (R.ERR_OUT_READ, 3, 0x1234), "first error, one being left")
    port.write(R.R_ERR_STATUS, 0xffffffff)
    port.qemu.write(port.slot(7, 8), 4, 0)
    equal(port.error(), (R.ERR_OUT_WRITE, 7, 8), "first error after clearing all")


def test_counters(scope):
    """counters count, clear on demand, and show as properties of the device"""
    port = host(scope)
    for _ in range(3):
        fail_read(port)
    equal(port.counter(R.CNT_OUT_ONES), 3, "reads answered by ones")
    path = next(child["name"] for child in port.qemu.qmp("qom-list", path="/machine/peripheral-anon")
                if "weft-port" in child["type"])
    value = port.qemu.qmp("qom-get", path=f"/machine/peripheral-anon/{path}", property="out-ones")
    equal(value, 3, "property out-ones")
    port.write(R.R_COUNTERS_CLEAR, 0)
    until(lambda: port.counter(R.CNT_OUT_ONES) == 0, "the counter to be clear")


def test_shared_vector(scope):
    """causes that share a vector send one message"""
    port = host(scope)
    for n in range(R.DOORBELLS):
        port.write(R.R_DB_VECTOR + 4 * n, 5)
    port.set_page(0, R.DEST_SELF, 0xffffffff)
    for n in range(R.DOORBELLS):
        port.ring(0, n)
    port.write(R.R_DB_MASK, 0)
    equal(port.fired(), {5}, "interrupts")
    equal(port.counter(R.CNT_IRQS), 1, "messages")
