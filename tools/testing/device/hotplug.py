# SPDX-License-Identifier: GPL-2.0
"""A slot for a port that is plugged and unplugged while the machine runs: a root port with bus 1 behind it."""

from port import WINDOW

DEVICE = 3
OPTIONS = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
           "-device", f"weft-root-port,id=rp,addr={DEVICE:#x},chassis=1,slot=1")


class Slot:
    """The root port of a machine that was started with OPTIONS; ports go to bus "rp"."""

    def __init__(self, bus):
        self.bus = bus
        # Bus 1 behind the root port, with memory and prefetchable memory.
        bus.write(DEVICE, 0x18, 0x010100)
        bus.write(DEVICE, 0x20, 0xc010c000)
        bus.write(DEVICE, 0x24, 0xfff10001)
        bus.write(DEVICE, 0x28, WINDOW >> 32)
        bus.write(DEVICE, 0x2c, WINDOW >> 32)
        bus.write(DEVICE, 0x04, 6, 2)
        self.express = bus.read(DEVICE, 0x34, 1)
        while bus.read(DEVICE, self.express, 1) != 0x10:
            self.express = bus.read(DEVICE, self.express + 1, 1)

    def power(self, on):
        """Power controller and indicator together, as pciehp sets them."""
        control = self.bus.read(DEVICE, self.express + 0x18, 2) & ~0x700
        self.bus.write(DEVICE, self.express + 0x18, control | (0x100 if on else 0x700), 2)

    def unplug(self, name):
        """The request presses the attention button; the guest then cuts the power."""
        qemu = self.bus.qemu
        qemu.events.clear()
        qemu.qmp("device_del", id=name)
        self.power(False)
        qemu.wait_event("DEVICE_DELETED")
