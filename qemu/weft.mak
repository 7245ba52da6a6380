# SPDX-License-Identifier: GPL-2.0-or-later
# The devices of the machines Weft runs in.

# the machine and what it boots with
CONFIG_Q35=y
CONFIG_ISA_DEBUG=y
CONFIG_SERIAL_ISA=y
CONFIG_VTD=y

# PCI Express ports and switches
CONFIG_PCIE_PORT=y
CONFIG_IOH3420=y
CONFIG_XIO3130=y

# root file system, console and network of a guest
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_9P=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y

# the Weft port, and other endpoints to share
CONFIG_WEFT=y
CONFIG_EDU=y
CONFIG_E1000E_PCI_EXPRESS=y
CONFIG_IGB_PCI_EXPRESS=y
CONFIG_IVSHMEM_DEVICE=y
CONFIG_NVME_PCI=y

# functions that are handed to a guest of a guest
CONFIG_VFIO=y
CONFIG_VFIO_PCI=y
