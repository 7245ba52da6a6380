# SPDX-License-Identifier: GPL-2.0
"""What the machines of a run have, whatever a test asks for: the command line of `check` decides."""

# DMA and interrupts of all devices go through an IOMMU, in strict mode: what a driver unmaps is
# unmapped when it has returned, not some time later.
iommu = False


def devices():
    """For QEMU, before all other devices."""
    return ["-device", "intel-iommu,intremap=on"] if iommu else []


def kvm():
    """For the accelerator: the kernel's own interrupt controller could not remap."""
    return ",kernel-irqchip=split" if iommu else ""


def append():
    """For the kernel's command line."""
    return " intel_iommu=on iommu.strict=1 iommu.passthrough=0" if iommu else ""
