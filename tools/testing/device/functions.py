# SPDX-License-Identifier: GPL-2.0
"""Endpoints of several functions: two PFs behind a root port, and their VFs."""

import regs as R
from fixture import Pair
from hotplug import DEVICE, OPTIONS, Slot
from port import CTRL, ECAM, MSI_PAGE, MSIX, PCI_COMMAND, WINDOW, Bus, Port
from qtest import Qemu
from tap import equal

SRIOV = 0x200
# Registers of the SR-IOV capability.
CONTROL, INITIAL, TOTAL, NUM, LINK, OFFSET, STRIDE, VF_ID = 8, 0xc, 0xe, 0x10, 0x12, 0x14, 0x16, 0x1a
SUPPORTED_PAGES, PAGES, VF_BAR = 0x1c, 0x20, 0x24
VF_ENABLE, VF_MEMORY = 1, 8
FIRST, STEP = 16, 2

MIB = 1 << 20
SLOT_SIZE = MIB
VF_SLOTS = 4
VF_MSIX_SIZE = 0x1000
VF_WINDOW_SIZE = 2 * VF_SLOTS * SLOT_SIZE
# A PF after the other, a PF's VFs after it.
PF_CTRL, PF_WINDOW = 0x2000000, 0x40000000
VF_CTRL, VF_MSIX, VF_WINDOW = 0x800000, 0x1000000, 0x20000000

# What a VF may have at most, as a PF that gives it everything writes it.
ALL = {"slots": VF_SLOTS, "inbound": R.MAX_INBOUND, "doorbells": R.DOORBELLS, "db_pages": R.DB_PAGES,
       "channels": R.MAX_DMA, "bytes": 1 << 40, "links": 0xf, "peers": (1 << R.FUNCTIONS) - 1}


class Function(Port):
    """A function of a device behind a root port, by its routing id."""

    def __init__(self, qemu, bus, devfn, ctrl, msix, window):
        self.devfn = devfn
        super().__init__(qemu, ctrl=ctrl, msix=msix, window=window, bus=bus)

    @property
    def msi_page(self):
        return MSI_PAGE + 0x1000 * (0x20 + self.devfn)

    def config_address(self, register):
        return ECAM + (1 << 20) + (self.devfn << 12) + register

    def config_read(self, register, size=4):
        return self.qemu.read(self.config_address(register), size)

    def config_write(self, register, value, size=4):
        self.qemu.write(self.config_address(register), size, value)

    @property
    def function(self):
        return R.field(R.FUNCTION_NUMBER, self.read(R.R_FUNCTION))

    def flr(self):
        """A function level reset; what it takes from the driver is set up again."""
        express = self.capability(0x10)
        control = self.config_read(express + 8, 2)
        self.config_write(express + 8, control | 0x8000, 2)
        equal(self.config_read(PCI_COMMAND, 2), 0, "command register after the reset")
        self.set_up()


class Vf(Function):
    """VF n of a PF; its BARs are placed by the PF."""

    def __init__(self, pf, n):
        self.pf = pf
        self.n = n
        super().__init__(pf.qemu, pf.bus, pf.devfn + FIRST + n * STEP, pf.ctrl + VF_CTRL + n * R.BAR_CTRL_SIZE,
                         pf.ctrl + VF_MSIX + n * VF_MSIX_SIZE, pf.window + VF_WINDOW + n * VF_WINDOW_SIZE)

    def place(self):
        """By VF BARs, in the PF."""


class Pf(Function):
    """A physical function, function p of its slot."""

    def __init__(self, qemu, bus, p):
        super().__init__(qemu, bus, p, CTRL + p * PF_CTRL, MSIX + p * PF_CTRL, WINDOW + p * PF_WINDOW)

    def sriov(self, register, size=2):
        return self.config_read(SRIOV + register, size)

    def set_sriov(self, register, value, size=2):
        self.config_write(SRIOV + register, value, size)

    def enable(self, count):
        """Enable VFs, as a kernel does; give them."""
        for bar, address in ((R.BAR_CTRL, self.ctrl + VF_CTRL), (R.BAR_MSIX, self.ctrl + VF_MSIX),
                             (R.BAR_WINDOW, self.window + VF_WINDOW)):
            self.set_sriov(VF_BAR + 4 * bar, address & 0xffffffff, 4)
            if bar == R.BAR_WINDOW:
                self.set_sriov(VF_BAR + 4 * bar + 4, address >> 32, 4)
        self.set_sriov(NUM, count)
        self.set_sriov(CONTROL, VF_ENABLE | VF_MEMORY)
        return [Vf(self, n) for n in range(count)]

    def disable(self):
        self.set_sriov(CONTROL, 0)

    # ---- what a PF keeps of its VFs

    def vf(self, n, register):
        return self.read(R.R_VF + n * R.VF_STRIDE + register)

    def set_vf(self, n, register, value):
        self.write(R.R_VF + n * R.VF_STRIDE + register, value)

    def grant(self, n, **quota):
        """Give VF n everything, but for what is named."""
        for name, value in {**ALL, **quota}.items():
            register = getattr(R, "VF_" + name.upper())
            self.set_vf(n, register, value & 0xffffffff)
            if name in ("bytes", "peers", "rate"):
                self.set_vf(n, register + 4, value >> 32)
        self.set_vf(n, R.VF_CTRL, 1)


class WideSlot(Slot):
    """One with room for many functions."""

    def __init__(self, bus):
        super().__init__(bus)
        bus.write(DEVICE, 0x20, 0xcff0c000)
        bus.write(DEVICE, 0x2c, (WINDOW >> 32) + 7)


class Machine:
    """A machine with an endpoint of two PFs."""

    def __init__(self, scope, name, vfs=R.VFS, second=True, beside=(), **properties):
        self.option = ",".join(["weft-port,bus=rp", f"slot-size={SLOT_SIZE}", f"vfs={vfs}", f"vf-slots={VF_SLOTS}"])
        self.first = ",".join(["", "addr=0.0,id=pf0", "multifunction=on"] +
                              [f"{key}={value}" for key, value in properties.items()])
        ports = ["-device", self.option + ",addr=0.1,id=pf1"] if second else []
        self.qemu = Qemu(scope, name, *beside, *OPTIONS, *ports, "-device", self.option + self.first)
        self.bus = Bus(self.qemu)
        self.slot = WideSlot(self.bus)
        self.pf = [Pf(self.qemu, self.bus, p) for p in range(1 + second)]


class Endpoints(Pair):
    """Two such machines, joined; a and b are their first PFs."""

    def arrive(self, scope, name, **properties):
        machine = Machine(scope, name, fabric=self.fabric.path, node=name, **properties)
        node = self.fabric.attach()
        self.ready(machine.pf[0])
        return machine.pf[0], node

    def virtual(self, port, count=3, **quota):
        """VFs of a PF, enabled and free to do everything but what the quota names."""
        vfs = port.enable(count)
        for n, vf in enumerate(vfs):
            port.grant(n, **quota)
            self.ready(vf)
            vf.write(R.R_CTRL, R.CTRL_ENABLE)
            vf.write(R.R_EVENT, 0xffffffff)
            vf.fired()
        port.write(R.R_VF_PENDING, 0xffffffff)
        for n in range(count):
            port.set_vf(n, R.VF_STATUS, 0xffffffff)
        port.write(R.R_EVENT, 0xffffffff)
        port.fired()
        return vfs

    def second(self, port):
        """The other PF of a machine, enabled."""
        pf = Pf(port.qemu, port.bus, 1)
        self.ready(pf)
        pf.write(R.R_CTRL, R.CTRL_ENABLE)
        pf.write(R.R_EVENT, 0xffffffff)
        pf.fired()
        return pf

    def opened(self, port, entry, offset, base, length=0x1000, **how):
        """Open memory of a function, and wait until neighbours have it."""
        port.set_inbound(entry, offset, length, base, **how)
        self.settled(port, entry)

    def settled(self, port, entry):
        self.until(lambda: not port.inbound_status(entry) & R.INBOUND_BUSY, "the entry to be settled")


def to(function, link=0):
    """A destination: that function of the neighbour."""
    return R.DEST_LINK | R.DEST_FUNCTION | function << 23 | link


def cannot(port, slot, what):
    """A slot that leads nowhere: reads are ones."""
    equal(port.slot_status(slot), 0, f"status of the slot, {what}")
    equal(port.qemu.read(port.slot(slot), 8), (1 << 64) - 1, f"read, {what}")
