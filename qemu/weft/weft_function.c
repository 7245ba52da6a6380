/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the functions of an endpoint.
 *
 * An endpoint has one or two PFs, and VFs of each. Every function is a port
 * with registers, slots, entries, doorbells and vectors of its own. The links,
 * the doorbell page and the connection to the fabric are those of the first
 * PF, which is therefore what the others call the endpoint.
 *
 * The second PF is function 1 of the same slot. Either may be there without
 * the other, since hot plug adds function 0 last: alone, the second PF is its
 * own endpoint, with links that never come up.
 */
#include "qemu/osdep.h"
#include "hw/pci/pci_bus.h"
#include "hw/pci/pcie_sriov.h"
#include "qapi/error.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_port.h"
#include "weft_vf.h"

QEMU_BUILD_BUG_ON(WEFT_FUNCTIONS != WEFT_PFS * (1 + WEFT_VFS));
QEMU_BUILD_BUG_ON(WEFT_FUNCTIONS != WEFT_FAB_FUNCTIONS);
QEMU_BUILD_BUG_ON(WEFT_MAX_LINKS != WEFT_FAB_LINKS);

/* The other PF of the slot, if it is there. */
static WeftPort *weft_function_sibling(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);
    unsigned devfn = PCI_DEVFN(PCI_SLOT(d->devfn), !PCI_FUNC(d->devfn));
    PCIDevice *other = pci_get_bus(d)->devices[devfn];

    if (!other || !object_dynamic_cast(OBJECT(other), TYPE_WEFT_PORT) ||
        pci_is_vf(other) || !qdev_is_realized(DEVICE(other))) {
        return NULL;
    }
    return WEFT_PORT(other);
}

/*
 * As SR-IOV has it: PFs that depend on each other form a ring of Function
 * Dependency Links, one that depends on none links to itself. The VFs depend
 * on each other as their PFs do.
 */
static void weft_function_depend(WeftPort *pf, const WeftPort *on)
{
    PCIDevice *d = PCI_DEVICE(pf);

    if (d->exp.sriov_cap) {
        pci_set_byte(d->config + d->exp.sriov_cap + PCI_SRIOV_FUNC_LINK,
                     on->number);
    }
}

/* Make @pf and its VFs functions of @ep: of another endpoint, or alone. */
static void weft_function_move(WeftPort *pf, WeftPort *ep)
{
    WeftPort *from = pf->ep;

    for (unsigned n = 0; n < WEFT_FUNCTIONS; n++) {
        WeftPort *f = from->function[n];

        if (f && f->pf == pf) {
            /* What it had open there is withdrawn. */
            weft_reset(f);
            weft_inbound_lost(f);
            from->function[n] = NULL;
            ep->function[n] = f;
            f->ep = ep;
            f->link = ep->own_link;
            f->generation = ep->generation;
            f->generations_due = 0;
            weft_hook_moved(f);
        }
    }
}

void weft_function_join(WeftPort *s)
{
    WeftPort *other = weft_function_sibling(s);
    WeftPort *first = s->number ? other : s;
    WeftPort *second = s->number ? s : other;

    weft_function_depend(s, s);
    if (!other) {
        return;
    }
    weft_function_move(second, first);
    weft_function_depend(first, second);
    weft_function_depend(second, first);
    /* What a scan for functions by ARI follows. */
    pci_set_word(PCI_DEVICE(first)->config + WEFT_CFG_ARI + PCI_ARI_CAP,
                 second->number << 8);
}

void weft_function_leave(WeftPort *s)
{
    WeftPort *first = s->ep, *second = first->function[1];

    if (first == second || !second) {
        return;
    }
    weft_function_move(second, second);
    weft_function_depend(first, first);
    weft_function_depend(second, second);
    pci_set_word(PCI_DEVICE(first)->config + WEFT_CFG_ARI + PCI_ARI_CAP, 0);
}

bool weft_function_init(WeftPort *s, Error **errp)
{
    s->number = PCI_FUNC(PCI_DEVICE(s)->devfn);
    if (s->number >= WEFT_PFS) {
        error_setg(errp, "weft-port: function %u of a slot: an endpoint has "
                   "%d PFs, functions 0 to %d", s->number, WEFT_PFS,
                   WEFT_PFS - 1);
        return false;
    }
    if (s->number && s->fabric) {
        error_setg(errp, "weft-port: function %u shares the links of function "
                   "0 of its slot: give fabric=... to that one", s->number);
        return false;
    }
    s->ep = s;
    s->pf = s;
    s->quota = &weft_unlimited;
    s->own_link = g_new0(WeftLink, WEFT_MAX_LINKS + WEFT_FAB_REMOTES);
    s->link = s->own_link;
    s->function[s->number] = s;
    return true;
}
