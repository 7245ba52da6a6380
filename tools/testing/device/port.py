# SPDX-License-Identifier: GPL-2.0
"""A Weft port as a driver sees it: configuration space, BARs, registers, interrupts."""

import regs as R
from qtest import Qemu
from tap import equal

ECAM = 0xb0000000
CTRL = 0xc0000000
MSIX = 0xc0100000
WINDOW = 0x800000000
DEVICE = 4

# Guest memory: interrupts land here, a page a purpose.
MSI_PAGE = 0x100000
MEMORY = 0x200000
PAGE = R.PAGE

PCI_COMMAND = 0x04
COMMAND_MEMORY, COMMAND_MASTER = 2, 4

RW = R.RIGHT_READ | R.RIGHT_WRITE
ONES = {1: 0xff, 2: 0xffff, 4: 0xffffffff, 8: 0xffffffffffffffff}


class Bus:
    """Configuration space of a machine, by ECAM."""

    def __init__(self, qemu):
        self.qemu = qemu
        # The host bridge opens ECAM; there is no firmware to do it.
        qemu.command(f"outl 0xcf8 {0x80000060:#x}")
        qemu.command(f"outl 0xcfc {ECAM | 1:#x}")

    def address(self, bus, device, register):
        return ECAM + (bus << 20) + (device << 15) + register

    def read(self, device, register, size=4, bus=0):
        return self.qemu.read(self.address(bus, device, register), size)

    def write(self, device, register, value, size=4, bus=0):
        self.qemu.write(self.address(bus, device, register), size, value)


class Port:
    """One port; `vectors` of it that have fired are read from guest memory."""

    def __init__(self, qemu, device=DEVICE, ctrl=CTRL, msix=MSIX, window=WINDOW, bus=None, number=0):
        self.qemu = qemu
        self.bus = bus or Bus(qemu)
        self.device = device
        self.number = number
        self.ctrl, self.msix, self.window = ctrl, msix, window
        self.set_up()

    @property
    def msi_page(self):
        return MSI_PAGE + 0x1000 * self.device

    def place(self):
        """Give the BARs their addresses."""
        self.config_write(0x10, self.ctrl)
        self.config_write(0x18, self.window & 0xffffffff)
        self.config_write(0x1c, self.window >> 32)
        self.config_write(0x20, self.msix)

    def set_up(self):
        """What firmware and a driver's probe do."""
        self.place()
        self.config_write(PCI_COMMAND, COMMAND_MEMORY | COMMAND_MASTER, 2)
        for vector in range(R.VECTORS):
            entry = self.msix + 16 * vector
            self.qemu.writel(entry, self.msi_page + 4 * vector)
            self.qemu.writel(entry + 4, 0)
            self.qemu.writel(entry + 8, 0x1000 + vector)
            self.qemu.writel(entry + 12, 0)
            self.qemu.writel(self.msi_page + 4 * vector, 0)
        capability = self.capability(0x11)
        self.config_write(capability + 2, 0x8000, 2)
        self.slot_size = 1 << self.read(R.R_SLOT_SHIFT)
        self.wc_offset = self.read64(R.R_WC_OFFSET)

    # ---- configuration space

    def config_read(self, register, size=4):
        return self.bus.read(self.device, register, size, self.number)

    def config_write(self, register, value, size=4):
        self.bus.write(self.device, register, value, size, self.number)

    def capability(self, wanted):
        at = self.config_read(0x34, 1)
        while at:
            if self.config_read(at, 1) == wanted:
                return at
            at = self.config_read(at + 1, 1)
        raise AssertionError(f"no capability {wanted:#x}")

    def extended(self, wanted):
        at = 0x100
        while at:
            header = self.config_read(at)
            if header & 0xffff == wanted:
                return at
            at = header >> 20
        raise AssertionError(f"no extended capability {wanted:#x}")

    # ---- registers

    def read(self, register):
        return self.qemu.readl(self.ctrl + register)

    def write(self, register, value):
        self.qemu.writel(self.ctrl + register, value)

    def read64(self, register):
        return self.read(register) | self.read(register + 4) << 32

    def write64(self, register, value):
        self.write(register, value & 0xffffffff)
        self.write(register + 4, value >> 32)

    def counter(self, number):
        return self.read64(R.R_COUNTERS + 8 * number)

    def error(self):
        """The first error: bit, where, address."""
        info = self.read(R.R_ERR_INFO)
        return 1 << (info & 0xff), info >> 8, self.read64(R.R_ERR_ADDR)

    def clear_errors(self):
        self.write(R.R_ERR_STATUS, 0xffffffff)
        self.write(R.R_EVENT, R.EVENT_ERROR)

    # ---- interrupts

    def fired(self):
        """The vectors that fired since the last call."""
        page = self.qemu.read_bytes(self.msi_page, 4 * R.VECTORS)
        self.qemu.write_bytes(self.msi_page, bytes(4 * R.VECTORS))
        vectors = set()
        for vector in range(R.VECTORS):
            data = int.from_bytes(page[4 * vector:4 * vector + 4], "little")
            if data:
                equal(data, 0x1000 + vector, f"message of vector {vector}")
                vectors.add(vector)
        return vectors

    def mask_vector(self, vector, masked):
        self.qemu.writel(self.msix + 16 * vector + 12, int(masked))

    # ---- links

    def link(self, n, register=R.LINK_STATUS):
        return self.read(R.R_LINK + n * R.LINK_STRIDE + register)

    def carried(self, n=0):
        """Bytes that a link has carried, out and in."""
        group = R.R_LINK + n * R.LINK_STRIDE
        return self.read64(group + R.LINK_OUT), self.read64(group + R.LINK_IN)

    def link_up(self, n=0):
        return bool(self.link(n) & R.LINK_UP)

    # ---- slots and inbound entries

    def set_slot(self, n, dest, offset, length, ctrl=R.SLOT_ENABLE):
        base = R.R_SLOT + n * R.SLOT_STRIDE
        self.write(base + R.SLOT_DEST, dest)
        self.write64(base + R.SLOT_OFFSET, offset)
        self.write64(base + R.SLOT_LEN, length)
        self.write(base + R.SLOT_CTRL, ctrl)

    def slot_status(self, n):
        return self.read(R.R_SLOT + n * R.SLOT_STRIDE + R.SLOT_STATUS)

    def slot(self, n, offset=0, wc=False):
        """The address of a byte in a slot."""
        return self.window + (self.wc_offset if wc else 0) + n * self.slot_size + offset

    def set_inbound(self, n, offset, length, base, rights=RW, allow=1, ctrl=R.INBOUND_ENABLE):
        group = R.R_INBOUND + n * R.INBOUND_STRIDE
        self.write64(group + R.INBOUND_OFFSET, offset)
        self.write64(group + R.INBOUND_LEN, length)
        self.write64(group + R.INBOUND_BASE, base)
        self.write(group + R.INBOUND_RIGHTS, rights)
        self.write(group + R.INBOUND_ALLOW, allow)
        self.write(group + R.INBOUND_CTRL, ctrl)

    def admit(self, n, link, vp, lid):
        """Who may come by routes, from the next set_inbound() on."""
        group = R.R_INBOUND + n * R.INBOUND_STRIDE
        self.write64(group + R.INBOUND_VPS, 1 << R.VPS * link + vp)
        self.write(group + R.INBOUND_FROM, lid)

    def close_inbound(self, n):
        self.write(R.R_INBOUND + n * R.INBOUND_STRIDE + R.INBOUND_CTRL, 0)

    def inbound_status(self, n):
        return self.read(R.R_INBOUND + n * R.INBOUND_STRIDE + R.INBOUND_STATUS)

    # ---- doorbells

    def set_page(self, n, dest, allow):
        self.write(R.R_DB_PAGE + n * R.DB_PAGE_STRIDE + R.DB_PAGE_DEST, dest)
        self.write(R.R_DB_PAGE + n * R.DB_PAGE_STRIDE + R.DB_PAGE_ALLOW, allow)

    def ring(self, page, doorbell):
        more = page - R.DB_PAGES_AT_BASE
        self.write(R.DB_PAGE_MORE + more * PAGE if more >= 0 else R.DB_PAGE_BASE + page * PAGE, doorbell)

    # ---- routes

    def route(self, n, register):
        return self.read(R.R_ROUTE + n * R.ROUTE_STRIDE + register)

    def set_route(self, n, first, link, vp, last=None, own=True, links=0, vps=0, ctrl=R.ROUTE_ENABLE):
        group = R.R_ROUTE + n * R.ROUTE_STRIDE
        self.write(group + R.ROUTE_FIRST, first)
        self.write(group + R.ROUTE_LAST, first if last is None else last)
        self.write(group + R.ROUTE_OUT, link | vp << 8)
        self.write(group + R.ROUTE_FROM, (R.ROUTE_FROM_SELF if own else 0) | links | vps << 8)
        self.write(group + R.ROUTE_CTRL, ctrl)

    def config(self, path, space, address, write=None, term=0):
        """Sends a configuration request over a path of ports; its answer follows in CFG_STATUS."""
        padded = bytes(path).ljust(32, b"\0")
        for at in range(0, 32, 4):
            self.write(R.R_CFG_PATH + at, int.from_bytes(padded[at:at + 4], "little"))
        self.write(R.R_CFG_ADDR, address)
        self.write(R.R_CFG_DATA, write or 0)
        self.write(R.R_CFG_TERM, term)
        self.write(R.R_CFG_CTRL, len(path) | space << 8 | (R.CFG_WRITE if write is not None else 0))

    # ---- mailbox

    def send(self, link, data):
        """`link` may be MBOX_TX_ROUTED."""
        for at in range(0, len(data), 4):
            self.write(R.R_MBOX_TX_DATA + at, int.from_bytes(data[at:at + 4], "little"))
        self.write(R.R_MBOX_TX_CTRL, link | len(data) << 8)

    def send_to(self, lid, data):
        self.write(R.R_MBOX_TX_LID, lid)
        self.send(R.MBOX_TX_ROUTED, data)

    def receive(self):
        """The oldest message, (link, data), or None; it is taken."""
        status = self.read(R.R_MBOX_RX_STATUS)
        if not status & R.MBOX_RX_VALID:
            return None
        length = R.field(R.MBOX_LEN, status)
        data = b"".join(self.read(R.R_MBOX_RX_DATA + at).to_bytes(4, "little")
                        for at in range(0, length, 4))
        self.write(R.R_MBOX_RX_POP, 0)
        return R.field(R.MBOX_LINK, status), data[:length]


def fence(port):
    """What a fence instruction of a CPU does: qtest has no CPU."""
    folder = "/machine/peripheral-anon"
    name = next(child["name"] for child in port.qemu.qmp("qom-list", path=folder)
                if child["type"] == "child<weft-port>")
    port.qemu.qmp("qom-set", path=f"{folder}/{name}", property="fence", value=True)


def host(scope, name="h1", beside=(), **properties):
    """A machine with one port, on the node of that name if no other is given; `beside`: more options."""
    properties.setdefault("node", name)
    option = ",".join(["weft-port", f"addr={DEVICE:#x}"] +
                      [f"{key.replace('_', '-')}={value}" for key, value in properties.items()])
    return Port(Qemu(scope, name, *beside, "-device", option))
