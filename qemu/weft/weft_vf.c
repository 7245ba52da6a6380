/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: virtual functions.
 *
 * A VF is a port of its own within the quota that its PF has set for it
 * (weft_quota.c).
 */
#include "qemu/osdep.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_aer.h"
#include "hw/pci/pcie_sriov.h"
#include "qapi/error.h"
#include "qemu/module.h"
#include "weft_dma.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_port.h"
#include "weft_vf.h"

bool weft_vfs_init(WeftPort *pf, Error **errp)
{
    static const int bars[] = { WEFT_BAR_CTRL, WEFT_BAR_WINDOW, WEFT_BAR_MSIX };
    PCIDevice *d = PCI_DEVICE(pf);

    if (!pf->vfs) {
        return true;
    }
    if (!pcie_sriov_pf_init(d, WEFT_CFG_SRIOV, TYPE_WEFT_VF,
                            WEFT_DEVICE_ID_VF, pf->vfs, pf->vfs,
                            WEFT_VF_OFFSET, WEFT_VF_ROUTING_STRIDE, errp)) {
        return false;
    }
    for (unsigned i = 0; i < ARRAY_SIZE(bars); i++) {
        const PCIIORegion *r = &d->exp.sriov_pf.vf[0]->io_regions[bars[i]];

        pcie_sriov_pf_init_vf_bar(d, bars[i], r->type, r->size);
    }
    return true;
}

void weft_vfs_exit(WeftPort *pf)
{
    if (pf->vfs) {
        pcie_sriov_pf_exit(PCI_DEVICE(pf));
    }
}

static void weft_vf_realize(PCIDevice *d, Error **errp)
{
    WeftPort *s = WEFT_PORT(d);
    unsigned n = pcie_sriov_vf_number(d);

    s->pf = WEFT_PORT(pcie_sriov_get_pf(d));
    s->ep = s->pf->ep;
    s->link = s->pf->link;
    s->number = WEFT_PFS + WEFT_VFS * s->pf->number + n;
    s->vf_index = n;
    s->quota = &s->pf->vf[n].quota;
    s->slots = s->pf->vf_slots;
    s->slot_size = s->pf->slot_size;
    s->traced_always = s->pf->traced_always;
    s->adversary.always = s->pf->adversary.always;
    s->adversary.seed = s->pf->adversary.seed + s->number;
    s->unmap_wait = s->pf->unmap_wait;
    s->dma.channels = s->pf->dma.channels;
    if (!weft_pci_open(s, errp)) {
        return;
    }
    if (pcie_endpoint_cap_init(d, WEFT_CFG_EXP) < 0 ||
        pcie_aer_init(d, PCI_ERR_VER, WEFT_CFG_AER, PCI_ERR_SIZEOF, errp) < 0) {
        weft_pci_close(s);
        return;
    }
    pcie_cap_deverr_init(d);
    weft_dma_config_init(s);
    pcie_cap_flr_init(d);
    pcie_ari_init(d, WEFT_CFG_ARI);
    weft_pci_acs(d);
    s->ep->function[s->number] = s;
    s->pf->vf_port[n] = s;
    weft_hook_moved(s);
    weft_reset(s);
}

static void weft_vf_exit(PCIDevice *d)
{
    WeftPort *s = WEFT_PORT(d);

    weft_pci_close(s);
    s->ep->function[s->number] = NULL;
    s->pf->vf_port[s->vf_index] = NULL;
}

static void weft_vf_class_init(ObjectClass *class, WEFT_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = weft_vf_realize;
    pc->exit = weft_vf_exit;
    pc->device_id = WEFT_DEVICE_ID_VF;
    dc->desc = "Weft port: virtual function";
    /* They come with their PF alone. */
    dc->user_creatable = false;
}

static const TypeInfo weft_vf_types[] = {
    {
        .name = TYPE_WEFT_VF,
        .parent = TYPE_WEFT_PORT,
        .class_init = weft_vf_class_init,
    },
};

DEFINE_TYPES(weft_vf_types)
