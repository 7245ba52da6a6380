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
#include "weft_port.h"

QEMU_BUILD_BUG_ON(WEFT_FUNCTIONS != WEFT_PFS * (1 + WEFT_VFS));
QEMU_BUILD_BUG_ON(WEFT_FUNCTIONS != WEFT_FAB_FUNCTIONS);
QEMU_BUILD_BUG_ON(WEFT_MAX_LINKS != WEFT_FAB_LINKS);

#define WEFT_ALL_LINKS          ((1u << WEFT_MAX_LINKS) - 1)

/* The function of @ep after @f, or the first after NULL; NULL at the end. */
WeftPort *weft_function_next(const WeftPort *ep, const WeftPort *f)
{
    for (unsigned n = f ? f->number + 1 : 0; n < WEFT_FUNCTIONS; n++) {
        if (ep->function[n]) {
            return ep->function[n];
        }
    }
    return NULL;
}

/* ---- what a function may use of the links ---------------------------- */

/* The links that lead anywhere for this function, if they are up. */
uint32_t weft_function_links(const WeftPort *s)
{
    if (s == s->ep) {
        return WEFT_ALL_LINKS;
    }
    return s->ctrl & WEFT_CTRL_ENABLE ? s->quota->links & WEFT_ALL_LINKS : 0;
}

bool weft_function_link_up(const WeftPort *s, unsigned link)
{
    return link < WEFT_MAX_LINKS && s->link[link].up &&
           (weft_function_links(s) & BIT(link));
}

/* The same of a link to a switch. */
bool weft_function_switch_up(const WeftPort *s, unsigned link)
{
    return link < WEFT_MAX_LINKS && s->link[link].switch_up &&
           (weft_function_links(s) & BIT(link));
}

/* Where a destination of type LINK leads; false: nowhere. */
bool weft_function_dest(const WeftPort *s, uint32_t dest, unsigned *link,
                        unsigned *function)
{
    *link = dest & WEFT_DEST_WHERE;
    *function = s->number;
    if (dest & WEFT_DEST_FUNCTION) {
        *function = (dest & WEFT_DEST_NUMBER) >> ctz32(WEFT_DEST_NUMBER);
    }
    return weft_function_link_up(s, *link) && *function < WEFT_FUNCTIONS &&
           (s->quota->peers & BIT_ULL(*function));
}

/* CTRL.ENABLE of a function: of the endpoint it is the links' own switch. */
void weft_function_enable(WeftPort *s, uint32_t ctrl)
{
    if (ctrl == s->ctrl) {
        return;
    }
    s->ctrl = ctrl;
    if (s == s->ep) {
        weft_session_enable(s);
        return;
    }
    weft_slots_update(s);
    weft_inbound_quota(s, true);
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        if (s->link[n].up && (s->quota->links & BIT(n))) {
            weft_event(s, BIT(n));
        }
    }
}

/* ---- what all functions are to know ---------------------------------- */

void weft_functions_link_event(WeftPort *ep, unsigned link)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        if (f->quota->links & BIT(link)) {
            weft_event(f, BIT(link));
        }
    }
}

void weft_functions_error(WeftPort *ep, uint32_t bit)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_error(f, bit, 0, 0);
    }
}

/* Links or a neighbour's apertures have changed. */
void weft_functions_update(WeftPort *ep)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_slots_update(f);
    }
}

/* ---- the PFs of an endpoint ------------------------------------------ */

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
            weft_port_reset(f);
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

/*
 * No function reaches another but through the fabric, so there is nothing to
 * be controlled. Saying so makes each of them an IOMMU group of its own.
 * (QEMU's own function for this knows no VFs.)
 */
void weft_function_acs(PCIDevice *d)
{
    pcie_add_capability(d, PCI_EXT_CAP_ID_ACS, PCI_ACS_VER, WEFT_CFG_ACS,
                        PCI_ACS_SIZEOF);
}
