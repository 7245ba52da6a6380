# SPDX-License-Identifier: GPL-2.0
"""An Intel IOMMU, programmed by hand: root and context tables, second-level tables, the queue."""

from tap import equal

REGISTERS = 0xfed90000
GCMD, GSTS, RTADDR, FSTS, IQT, IQA, FRCD = 0x18, 0x1c, 0x20, 0x34, 0x88, 0x90, 0x220
TRANSLATE, SRTP, QIE = 1 << 31, 1 << 30, 1 << 26

READ, WRITE = 1, 2
PAGE = 4096
MASK = ~0xfff & (1 << 48) - 1

# Types of context entries.
MULTI_LEVEL, PASS_THROUGH = 0, 2

# Invalidations: what of the context cache and the IOTLB.
GLOBAL, DOMAIN, PAGES = 1, 2, 3
CONTEXT_DEVICE = 3

DONE = 0xd09e


class Domain:
    """Four levels of tables."""

    def __init__(self, iommu, number):
        self.iommu = iommu
        self.number = number
        self.top = iommu.page()

    def _entry(self, iova):
        """Where the last level has the entry of a page; the tables to it are made."""
        qemu, table = self.iommu.qemu, self.top
        for level in 3, 2, 1:
            at = table + 8 * (iova >> 12 + 9 * level & 511)
            if not qemu.read(at, 8):
                qemu.write(at, 8, self.iommu.page() | READ | WRITE)
            table = qemu.read(at, 8) & MASK
        return table + 8 * (iova >> 12 & 511)

    def map(self, iova, memory, count=1, rights=READ | WRITE):
        """`count` pages, one after the other in both."""
        for n in range(count):
            self.iommu.qemu.write(self._entry(iova + n * PAGE), 8, memory + n * PAGE | rights)

    def unmap(self, iova, count=1):
        """The tables alone: what is cached stays until it is invalidated."""
        for n in range(count):
            self.iommu.qemu.write(self._entry(iova + n * PAGE), 8, 0)

    def invalidation(self, iova, order=0):
        """The descriptor for 2 ** order pages."""
        return 2 | PAGES << 4 | self.number << 16, iova | order

    def invalidation_of_all(self):
        return 2 | DOMAIN << 4 | self.number << 16, 0


class Iommu:
    """The IOMMU of a machine; its tables lie at `at` and above."""

    def __init__(self, qemu, at=0x2000000):
        self.qemu = qemu
        self.next = at
        self.domains = 0
        self.root, self.queue, self.status = (self.page() for _ in range(3))
        self.tail = 0

    def page(self):
        self.next += PAGE
        self.qemu.write_bytes(self.next - PAGE, bytes(PAGE))
        return self.next - PAGE

    def domain(self):
        self.domains += 1
        return Domain(self, self.domains)

    def _context(self, device, bus):
        """Where the entry of a function is; the table is made."""
        root = self.root + 16 * bus
        if not self.qemu.read(root, 8):
            self.qemu.write(root, 8, self.page() | 1)
        return (self.qemu.read(root, 8) & MASK) + 16 * (device << 3)

    def attach(self, device, domain, kind=MULTI_LEVEL, bus=0):
        """A function into a domain; to be invalidated if translation is on."""
        entry = self._context(device, bus)
        self.qemu.write(entry + 8, 8, domain.number << 8 | 2)
        self.qemu.write(entry, 8, domain.top | kind << 2 | 1)

    def detach(self, device, bus=0):
        self.qemu.write(self._context(device, bus), 8, 0)

    # ---- registers

    def read(self, register):
        return self.qemu.readl(REGISTERS + register)

    def command(self, bits):
        self.qemu.writel(REGISTERS + GCMD, bits)

    def start(self):
        """The tables and the queue, without translation."""
        self.qemu.write(REGISTERS + RTADDR, 8, self.root)
        self.command(SRTP)
        self.qemu.write(REGISTERS + IQA, 8, self.queue)
        self.command(QIE)

    def enable(self, on=True):
        self.command(QIE | (TRANSLATE if on else 0))
        equal(bool(self.read(GSTS) & TRANSLATE), on, "translation")

    def fault(self):
        """The fault recorded, as (requester, address), or None; it is taken."""
        high = self.qemu.read(REGISTERS + FRCD + 8, 8)
        if not high >> 63:
            return None
        address = self.qemu.read(REGISTERS + FRCD, 8)
        self.qemu.writel(REGISTERS + FRCD + 12, 1 << 31)
        self.qemu.writel(REGISTERS + FSTS, 0xff)
        return high & 0xffff, address

    # ---- the queue

    def prepare(self, *descriptors):
        """Descriptors and one that waits for them; gives the command that sets them going."""
        self.qemu.write(self.status, 4, 0)
        for low, high in (*descriptors, (5 | 1 << 5 | DONE << 32, self.status)):
            self.qemu.write(self.queue + 16 * self.tail, 8, low)
            self.qemu.write(self.queue + 16 * self.tail + 8, 8, high)
            self.tail = (self.tail + 1) % 256
        return f"writeq {REGISTERS + IQT:#x} {16 * self.tail:#x}"

    def invalidate(self, *descriptors):
        """For what nothing has to wait for."""
        self.qemu.command(self.prepare(*descriptors))
        equal(self.qemu.readl(self.status), DONE, "the status of the wait descriptor")

    @staticmethod
    def invalidation_of_all():
        return 2 | GLOBAL << 4, 0

    @staticmethod
    def context_invalidation(device=None):
        if device is None:
            return 1 | GLOBAL << 4, 0
        return 1 | CONTEXT_DEVICE << 4 | device << 35, 0
