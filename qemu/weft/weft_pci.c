/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what a PF and a VF have alike as PCI functions.
 */
#include "qemu/osdep.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_aer.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_fence.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_port.h"
#include "weft_slot.h"

/* BARs and vectors. */
bool weft_pci_open(WeftPort *s, Error **errp)
{
    PCIDevice *d = PCI_DEVICE(s);

    if (!weft_window_init(s, errp)) {
        return false;
    }
    memory_region_init_io(&s->bar_ctrl, OBJECT(s), &weft_regs_ops, s,
                          "weft-ctrl", WEFT_BAR_CTRL_SIZE);
    pci_register_bar(d, WEFT_BAR_CTRL, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->bar_ctrl);
    pci_register_bar(d, WEFT_BAR_WINDOW, PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->bar_window);
    weft_doorbell_open(s);
    weft_dma_init(s);
    if (msix_init_exclusive_bar(d, WEFT_VECTORS, WEFT_BAR_MSIX, errp)) {
        weft_dma_exit(s);
        weft_doorbell_close(s);
        weft_window_exit(s);
        return false;
    }
    for (unsigned n = 0; n < WEFT_VECTORS; n++) {
        msix_vector_use(d, n);
    }
    weft_hook_init(s);
    return true;
}

/* The opposite, for a function that has been in use, or not. */
void weft_pci_close(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);

    weft_dma_exit(s);
    weft_doorbell_close(s);
    weft_iommu_exit(s);
    for (unsigned n = 0; n < s->slots; n++) {
        s->slot[n].active.ctrl = 0;
    }
    weft_inbound_reset(s);
    weft_slots_update(s);
    weft_window_exit(s);
    weft_fence_exit(s);
    weft_hook_exit(s);
    if (d->exp.aer_cap) {
        pcie_aer_exit(d);
    }
    if (d->exp.exp_cap) {
        pcie_cap_exit(d);
    }
    msix_uninit_exclusive_bar(d);
}

/*
 * No function reaches another but through the fabric, so there is nothing to
 * be controlled. Saying so makes each of them an IOMMU group of its own.
 * (QEMU's own function for this knows no VFs.)
 */
void weft_pci_acs(PCIDevice *d)
{
    pcie_add_capability(d, PCI_EXT_CAP_ID_ACS, PCI_ACS_VER, WEFT_CFG_ACS,
                        PCI_ACS_SIZEOF);
}
