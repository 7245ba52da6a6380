# SPDX-License-Identifier: GPL-2.0
"""What a port says of itself, and the values of its registers after reset."""

import regs as R
from port import COMMAND_MASTER, host
from qtest import Qemu
from tap import equal, until

RESET_VALUES = {
    R.R_ID: R.ID,
    R.R_VERSION: R.VERSION,
    R.R_LID: 0,
    R.R_CTRL: 0,
    R.R_STATUS: 0,
    R.R_EVENT: 0,
    R.R_EVENT_MASK: 0xffffffff,
    R.R_EVENT_VECTOR: 0x03020100,
    R.R_SCRATCH: 0,
    R.R_DB_PENDING: 0,
    R.R_DB_MASK: 0xffffffff,
    R.R_MBOX_TX_STATUS: 0,
    R.R_MBOX_RX_STATUS: 0,
    R.R_ERR_STATUS: 0,
    R.R_ERR_INFO: 0,
    R.R_ERR_ADDR: 0,
    R.R_ERR_ADDR + 4: 0,
}

READ_WRITE = {
    R.R_LID: 0xffffffff,
    R.R_EVENT_VECTOR: 0xffffffff,
    R.R_EVENT_MASK: 0xffffffff,
    R.R_SCRATCH: 0xffffffff,
    R.R_DB_MASK: 0xffffffff,
    R.R_LINK + R.LINK_CTRL: R.LINK_DISABLE | R.LINK_TARGET_SPEED | R.LINK_TARGET_WIDTH,
    R.R_MBOX_TX_DATA: 0xffffffff,
    R.R_MBOX_TX_DATA + R.MBOX_BYTES - 4: 0xffffffff,
    R.R_SLOT + R.SLOT_DEST: 0xffffffff,
    R.R_SLOT + R.SLOT_OFFSET + 4: 0xffffffff,
    R.R_SLOT + R.SLOT_LEN: 0xffffffff,
    R.R_SLOT + R.SLOT_CTRL: R.SLOT_ENABLE,
    R.R_INBOUND + R.INBOUND_OFFSET: 0xffffffff,
    R.R_INBOUND + R.INBOUND_LEN + 4: 0xffffffff,
    R.R_INBOUND + R.INBOUND_BASE: 0xffffffff,
    R.R_INBOUND + R.INBOUND_RIGHTS: R.RIGHT_READ | R.RIGHT_WRITE,
    R.R_INBOUND + R.INBOUND_ALLOW: R.ALLOW_SELF | 0xf,
    R.R_DB_VECTOR + 4 * 31: 0xffffffff,
    R.R_DB_ALLOW + 4 * 3: 0xffffffff,
    R.R_DB_PAGE + 8 * 15 + R.DB_PAGE_DEST: 0xffffffff,
    R.R_DB_PAGE + 8 * 15 + R.DB_PAGE_ALLOW: 0xffffffff,
}


def check_reset_values(port):
    for register, value in RESET_VALUES.items():
        equal(port.read(register), value, f"register {register:#x}")
    for register in range(R.R_LINK, R.R_LINK + 4 * R.LINK_STRIDE, 4):
        equal(port.read(register), 0, f"link register {register:#x}")
    for register in range(R.R_COUNTERS, R.R_COUNTERS + 8 * R.COUNTERS, 4):
        equal(port.read(register), 0, f"counter register {register:#x}")
    for register in range(R.R_SLOT, R.R_SLOT + 16 * R.SLOT_STRIDE, 4):
        equal(port.read(register), 0, f"slot register {register:#x}")
    for register in range(R.R_INBOUND, R.R_INBOUND + 32 * R.INBOUND_STRIDE, 4):
        equal(port.read(register), 0, f"inbound register {register:#x}")
    for n in range(R.DOORBELLS):
        equal(port.read(R.R_DB_VECTOR + 4 * n), 4 + n % 12, f"vector of doorbell {n}")
    for n in range(R.MAX_LINKS):
        equal(port.read(R.R_DB_ALLOW + 4 * n), 0, f"doorbells allowed to link {n}")
    for n in range(R.DB_PAGES):
        for half in R.DB_PAGE_DEST, R.DB_PAGE_ALLOW:
            equal(port.read(R.R_DB_PAGE + 8 * n + half), 0, f"doorbell page {n}")


def scribble(port):
    """Every register that can be written holds something else."""
    for register in READ_WRITE:
        port.write(register, 0xa5a5a5a5)


def test_configuration_space(scope):
    """configuration space: ids, class and every capability of the manual"""
    port = host(scope)
    equal(port.config_read(0x00), R.DEVICE_ID_PF << 16 | R.VENDOR_ID, "ids")
    equal(port.config_read(0x08) >> 16, 0x0680, "class")
    equal(port.config_read(port.capability(0x11) + 2, 2) & 0x7ff, R.VECTORS - 1, "MSI-X vectors")
    equal(port.config_read(port.capability(0x11) + 4) & 7, R.BAR_MSIX, "BAR of the MSI-X table")
    express = port.capability(0x10)
    assert port.config_read(express + 4) & 1 << 28, "function level reset"
    port.config_write(express + 8, 0xf, 2)
    equal(port.config_read(express + 8, 2) & 0xf, 0xf, "error reporting enables can be set")
    port.capability(0x01)
    port.capability(0x03)
    for wanted in 0x0001, 0x000e, 0x0003:
        assert port.extended(wanted) < 0x200, "from 0x200 on is left for SR-IOV"


def test_serial_number(scope):
    """the PCIe serial number is the hardware id that was asked for, else made from the serial"""
    serials = []
    for name, properties in ("h1", {"hwid": 0x123456789abc}), ("h2", {"serial": "S1"}), ("h3", {"serial": "S2"}):
        port = host(scope, name, **properties)
        at = port.extended(0x0003)
        serials.append(port.config_read(at + 8) << 32 | port.config_read(at + 4))
    equal(serials[0], 0x123456789abc, "serial number of a given hardware id")
    assert serials[1] != serials[2], "serial numbers of two ports"


def test_power_states(scope):
    """in D3hot the BARs are silent; back in D0 the registers are as they were"""
    port = host(scope)
    port.write(R.R_SCRATCH, 0x5c5c)
    control = port.capability(0x01) + 4
    port.config_write(control, 3, 2)
    equal(port.config_read(control, 2) & 3, 3, "power state")
    assert port.read(R.R_ID) != R.ID, "a register answers in D3hot"
    port.write(R.R_SCRATCH, 0)
    port.config_write(control, 0, 2)
    equal(port.read(R.R_SCRATCH), 0x5c5c, "register back in D0")


def test_window_bar(scope):
    """the window BAR is 64-bit prefetchable and holds all slots twice"""
    port = host(scope, slots=4, slot_size="1M")
    port.config_write(0x04, 0, 2)
    port.config_write(0x18, 0xffffffff)
    port.config_write(0x1c, 0xffffffff)
    low, high = port.config_read(0x18), port.config_read(0x1c)
    equal(low & 0xf, 0xc, "kind of BAR 2")
    equal(-((high << 32 | low) & ~0xf) & (1 << 64) - 1, 2 * 4 << 20, "size of BAR 2")
    port.config_write(0x04, 0, 2)
    port.set_up()
    equal(port.slot_size, 1 << 20, "bytes of a slot")
    equal(port.wc_offset, 4 << 20, "write-combining alias")
    equal(R.field(R.CAP0_SLOTS, port.read(R.R_CAP0)), 4, "slots")


def test_capabilities(scope):
    """CAP0 and CAP1 say what there is"""
    port = host(scope)
    cap0, cap1 = port.read(R.R_CAP0), port.read(R.R_CAP1)
    equal(R.field(R.CAP0_SLOTS, cap0), 16, "slots")
    equal(R.field(R.CAP0_INBOUND, cap0), R.MAX_INBOUND, "inbound entries")
    equal(R.field(R.CAP0_DOORBELLS, cap0), R.DOORBELLS, "doorbells")
    equal(R.field(R.CAP0_DB_PAGES, cap0), R.DB_PAGES, "doorbell pages")
    equal(cap1 & R.CAP1_LINKS, R.MAX_LINKS, "links")
    equal(R.field(R.CAP1_MBOX_BYTES, cap1), R.MBOX_BYTES, "bytes of a message")
    assert cap1 & R.CAP1_TRACED, "traced mode"
    assert cap1 & R.CAP1_ROUTES, "routes"
    equal(cap1 & R.CAP1_SRIOV, 0, "what there is not")


def test_reset_values(scope):
    """every register has its reset value"""
    check_reset_values(host(scope))


def test_read_write(scope):
    """registers keep what may be written, and only that"""
    port = host(scope)
    for register, mask in READ_WRITE.items():
        for value in 0xffffffff, 0x5a5a5a5a, 0:
            port.write(register, value)
            equal(port.read(register), value & mask, f"register {register:#x}")


def test_read_only(scope):
    """read-only and reserved registers ignore writes; reserved ones read 0"""
    port = host(scope)
    fixed = [R.R_ID, R.R_VERSION, R.R_CAP0, R.R_CAP1, R.R_SLOT_SHIFT, R.R_WC_OFFSET, R.R_HWID, R.R_GENERATION,
             R.R_STATUS, R.R_LINK, R.R_LINK + R.LINK_TRAINED, R.R_LINK + R.LINK_MAX, R.R_MBOX_TX_STATUS,
             R.R_MBOX_RX_DATA, R.R_MBOX_RX_STATUS, R.R_MBOX_RX_LID, R.R_COUNTERS, R.R_ERR_INFO, R.R_ERR_ADDR,
             R.R_SLOT + R.SLOT_STATUS, R.R_SLOT + R.SLOT_TAKEN, R.R_INBOUND + R.INBOUND_STATUS, R.R_DMA_CAP, R.R_DMA + R.DMA_STATUS,
             R.R_DMA + R.DMA_HEAD, R.R_DMA + R.DMA_COUNTERS]
    before = [port.read(register) for register in fixed]
    for register in fixed:
        port.write(register, 0xffffffff)
    equal([port.read(register) for register in fixed], before, "read-only registers")
    reserved = [0x014, 0x050, 0x0fc, 0x120, 0x30c, 0x50c, 0x7fc, R.R_COUNTERS + 8 * R.COUNTERS, 0xc10,
                R.R_SLOT + 16 * R.SLOT_STRIDE, R.R_INBOUND + 0x28, 0x2800, 0x3080, 0x3110, 0x3300,
                0x400c, R.R_DMA + R.DMA_COUNTERS + 8 * R.DMA_COUNT, R.R_DMA + 4 * R.DMA_STRIDE, R.R_ROUTE + 0x1c,
                R.R_CFG_PATH - 4, R.DB_PAGE_BASE - 4, R.DB_PAGE_BASE, R.DB_PAGE_BASE + 4, R.DB_PAGE_MORE, 0x20000,
                R.BAR_CTRL_SIZE - 4]
    for register in reserved:
        port.write(register, 0xffffffff)
        equal(port.read(register), 0, f"reserved register {register:#x}")


def test_every_address(scope):
    """no value written anywhere in BAR 0, of any width, harms QEMU"""
    port = host(scope)
    for value in 0xffffffff, 0x80000000 ^ 0xffffffff, 0x40000000, 0:
        for register in range(0, 0x8000, 4):
            if register != R.R_CTRL or not value & R.CTRL_RESET:
                port.write(register, value)
    for size in 1, 2, 8:
        for register in list(range(0, 0x60, size)) + list(range(R.R_SLOT, R.R_SLOT + 0x40, size)):
            port.qemu.write(port.ctrl + register, size, 0xff)
            port.qemu.read(port.ctrl + register, size)
    port.qemu.clock_step(1_000_000)
    equal(port.read(R.R_ID), R.ID, "id")


def test_wide_access(scope):
    """an 8-byte access is the pair of registers, and narrower ones reach nothing"""
    port = host(scope)
    register = R.R_SLOT + R.SLOT_OFFSET
    port.qemu.write(port.ctrl + register, 8, 0x1122334455667788)
    equal(port.read64(register), 0x1122334455667788, "pair written at once")
    equal(port.qemu.read(port.ctrl + register, 8), 0x1122334455667788, "pair read at once")
    port.qemu.write(port.ctrl + register, 2, 0xffff)
    port.qemu.write(port.ctrl + register, 1, 0xff)
    equal(port.read64(register), 0x1122334455667788, "pair after narrow writes")
    for size in 1, 2:
        equal(port.qemu.read(port.ctrl + register, size), 0, f"read of {size} bytes")


def test_reset_by_register(scope):
    """CTRL.RESET brings every register to its reset value and leaves the BARs alone"""
    port = host(scope)
    scribble(port)
    port.write(R.R_CTRL, R.CTRL_RESET)
    check_reset_values(port)


def test_function_level_reset(scope):
    """a function level reset does so too, and clears the command register"""
    port = host(scope)
    scribble(port)
    express = port.capability(0x10)
    port.config_write(express + 8, 0x8000, 2)
    equal(port.config_read(0x04, 2) & COMMAND_MASTER, 0, "bus mastering")
    equal(port.config_read(0x10) & ~0xf, 0, "BAR 0")
    port.set_up()
    check_reset_values(port)


def test_system_reset(scope):
    """and so does a reset of the machine"""
    port = host(scope)
    scribble(port)
    port.qemu.qmp("system_reset")
    port.qemu.wait_event("RESET")
    port.bus.__init__(port.qemu)
    port.set_up()
    check_reset_values(port)


def test_bad_properties(scope):
    """a property that cannot be is refused with the name and the limit"""
    cases = [
        ({"slots": 3}, "slots=3"), ({"slots": 64}, "1 to 32"), ({"slots": 0}, "slots=0"),
        ({"slot-size": 12288}, "power of two"), ({"slot-size": 2048}, "4 KiB"),
        ({"slot-size": "8G"}, "4 GiB"), ({"fabric": "/" + "x" * 200}, "path of the fabric"),
        ({"node": "n" * 300}, "name of the node"), ({"part": "p" * 200}, "'part'"),
        ({"serial": "p" * 200}, "'serial'"), ({"blade": "p" * 200}, "'blade'"),
        ({"sockets": "p" * 200}, "'sockets'"),
    ]
    for number, (properties, want) in enumerate(cases):
        option = ",".join(["weft-port"] + [f"{key}={value}" for key, value in properties.items()])
        qemu = Qemu(scope, f"bad{number}", "-device", option, fails=True)
        equal(qemu.process.wait(30), 1, f"exit status with {properties}")
        assert want in qemu.errors(), f"{properties}: {qemu.errors()}"


def test_guest_memory_kind(scope):
    """guest memory that cannot be shared is refused with a hint how to start QEMU"""
    for number, ram in enumerate(["memory-backend-ram,id=ram", "memory-backend-memfd,id=ram,share=off",
                                  "memory-backend-memfd,id=ram,share=on,seal=off"]):
        qemu = Qemu(scope, f"ram{number}", "-device", "weft-port", ram=ram, fails=True)
        equal(qemu.process.wait(30), 1, f"exit status with {ram}")
        assert "memory-backend-memfd" in qemu.errors(), qemu.errors()


def test_migration_blocked(scope):
    """a port blocks migration, for its peers cannot follow"""
    port = host(scope)
    until(lambda: port.qemu.qmp("query-migrate").get("blocked-reasons"), "a reason that blocks migration")
