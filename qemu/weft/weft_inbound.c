/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: inbound apertures, what of this host's memory others may reach.
 *
 * An entry's base is an address of this function: it is resolved in the
 * function's own address space, so that bus mastering and an IOMMU have their
 * say, when it is latched and ever after (weft_iommu.c). A change is over
 * (BUSY clear) when no access under the old entry can land any more: the
 * fabric has confirmed it for the neighbours whose links are up, and those
 * whose links went down have let go (see weft_fabric.h). Whose links are up the
 * fabric knows: of one that has just come up the neighbour may hear first.
 */
#include "qemu/osdep.h"
#include "qemu/rcu.h"
#include "qapi/error.h"
#include "trace.h"
#include "weft_aperture.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_port.h"
#include "weft_slot.h"

/*
 * Append the memory at @base, which must all be guest RAM, and mapped for all
 * that @rights say. Without any it must be there all the same.
 */
static bool weft_inbound_resolve(WeftPort *s, WeftAperture *ap, uint64_t base,
                                 uint64_t len, uint32_t rights)
{
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));

    RCU_READ_LOCK_GUARD();
    while (len) {
        uint64_t offset, again, plen = len;

        if (!weft_iommu_page(s, as, base, rights == WEFT_RIGHT_WRITE, &offset,
                             &plen)) {
            return false;
        }
        if (rights == WEFT_RIGHTS &&
            (!weft_iommu_page(s, as, base, true, &again, &plen) ||
             again != offset)) {
            return false;
        }
        if (!weft_aperture_append(ap, offset, plen, s == s->pf ?
                                  WEFT_MAX_SEGMENTS : WEFT_VF_SEGMENTS)) {
            return false;
        }
        base += plen;
        len -= plen;
    }
    return true;
}

static bool weft_inbound_valid(const WeftInboundRegs *r)
{
    uint64_t all = r->offset | r->len | r->base;

    return r->len && !(all % WEFT_PAGE) &&
           r->len - 1 <= UINT64_MAX - r->offset &&
           r->len - 1 <= UINT64_MAX - r->base;
}

/* Bytes of all live entries. */
uint64_t weft_inbound_bytes(const WeftPort *s)
{
    uint64_t bytes = 0;

    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        /* None is larger than the RAM: this does not wrap. */
        bytes += s->inbound[n].open.len;
    }
    return bytes;
}

/* Would entry @n be within the quota with @len bytes? */
static bool weft_inbound_affordable(const WeftPort *s, unsigned n, uint64_t len)
{
    uint64_t others = weft_inbound_bytes(s) - s->inbound[n].open.len;

    return n < s->quota->inbound && others <= s->quota->bytes &&
           len <= s->quota->bytes - others;
}

/* An entry has nothing behind it. */
static void weft_inbound_fault(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];

    e->invalid = true;
    s->counter[WEFT_CNT_IN_FAULTS]++;
    weft_error(s, WEFT_ERR_IN_INVALID, n, e->active.base);
}

/* What the entry says is to be open: nothing, where that cannot be. */
static WeftAperture weft_inbound_translate(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];
    const WeftInboundRegs *r = &e->active;
    WeftAperture ap = { };

    e->invalid = false;
    if (!(r->ctrl & WEFT_INBOUND_ENABLE)) {
        return ap;
    }
    if (!weft_inbound_valid(r)) {
        weft_inbound_fault(s, n);
        return ap;
    }
    if (!weft_inbound_affordable(s, n, r->len)) {
        e->invalid = true;
        weft_error(s, WEFT_ERR_QUOTA, n, r->len);
        return ap;
    }
    if (!s->bus_master || weft_hook_closed(s)) {
        /* Nothing is forwarded, now. */
        return ap;
    }
    if (!weft_iommu_watch(s) ||
        !weft_inbound_resolve(s, &ap, r->base, r->len, r->rights)) {
        weft_aperture_close(&ap);
        weft_inbound_fault(s, n);
        return ap;
    }
    ap.offset = r->offset;
    ap.len = r->len;
    ap.rights = r->rights;
    ap.allow = r->allow;
    ap.gates = r->vps;
    ap.from = r->from;
    return ap;
}

/* Does no port hold on to any entry? */
bool weft_inbound_is_idle(const WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        if (weft_inbound_busy(&s->inbound[n])) {
            return false;
        }
    }
    return true;
}

/*
 * @a and @b, of which nothing is open or held, have each other's numbers:
 * neighbours know entries by these, and a change of one by what it counts.
 */
void weft_inbound_exchange(WeftPort *a, WeftPort *b)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        uint32_t seq = a->inbound[n].seq;

        a->inbound[n].seq = b->inbound[n].seq;
        b->inbound[n].seq = seq;
    }
}

/* Close what is open. From here on the entry may be BUSY with it. */
static void weft_inbound_leave(WeftPort *s, WeftInbound *e)
{
    if (!weft_inbound_busy(e)) {
        e->held_first = UINT64_MAX;
        e->held_last = 0;
        e->late = false;
    }
    if (e->open.len) {
        e->held_first = MIN(e->held_first, e->base);
        e->held_last = MAX(e->held_last, e->base + e->open.len - 1);
        e->lingering |= s->ep->linger;
    }
    weft_aperture_close(&e->open);
}

/* Is it open to any but this port itself? */
static bool weft_inbound_public(const WeftAperture *ap)
{
    return ap->len && ((ap->allow & WEFT_ALLOW_LINKS) || ap->gates);
}

/* Takes @ap over. */
static void weft_inbound_set(WeftPort *s, unsigned n, WeftAperture *ap)
{
    WeftInbound *e = &s->inbound[n];
    bool public = weft_inbound_public(&e->open) || weft_inbound_public(ap);

    if (!e->open.len && !ap->len) {
        return;
    }
    trace_weft_inbound_set(s->ep->node, s->number, n, ap->offset, ap->len);
    weft_inbound_leave(s, e);
    e->open = *ap;
    e->open.serial = ++s->ep->aperture_serial;
    e->base = e->active.base;
    e->seq++;
    weft_slots_update(s);
    e->ack_due = (e->ack_due || public) && weft_fab_answers(s);
    if (weft_fab_ready(s)) {
        weft_inbound_send(s, n);
    }
}

/* Has what the entry says come into force. */
void weft_inbound_apply(WeftPort *s, unsigned n)
{
    WeftAperture ap = weft_inbound_translate(s, n);

    weft_inbound_set(s, n, &ap);
}

/* Bus mastering has changed. */
void weft_inbound_refresh(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        if (s->inbound[n].active.ctrl & WEFT_INBOUND_ENABLE) {
            weft_inbound_apply(s, n);
        }
    }
}

/*
 * The quota has changed, or, with @links, which links the function may use.
 * Entries that are too many, or too large together, are closed from the last
 * one on; they are INVALID until they are latched again.
 */
void weft_inbound_quota(WeftPort *s, bool links)
{
    for (unsigned n = WEFT_MAX_INBOUND; n-- > 0; ) {
        bool over = n >= s->quota->inbound ||
                    weft_inbound_bytes(s) > s->quota->bytes;

        if (s->inbound[n].open.len && (over || links)) {
            weft_inbound_apply(s, n);
        }
    }
}

/* ---- the IOMMU ------------------------------------------------------- */

/*
 * [first, last] may not lead any more where it did. An entry that does not in
 * all of its length is closed until it is latched again.
 */
void weft_inbound_unmapped(WeftPort *s, uint64_t first, uint64_t last)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];
        WeftAperture closed = { };

        if (e->open.len && e->base <= last &&
            e->base + e->open.len - 1 >= first &&
            !weft_iommu_maps(s, &e->open, e->base)) {
            weft_inbound_fault(s, n);
            weft_inbound_set(s, n, &closed);
        }
    }
}

/* May a neighbour still reach what was open of [first, last] before? */
bool weft_inbound_held(WeftPort *s, uint64_t first, uint64_t last)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        const WeftInbound *e = &s->inbound[n];

        if (weft_inbound_busy(e) && !e->late && e->held_first <= last &&
            e->held_last >= first) {
            return true;
        }
    }
    return false;
}

/* It may, and cannot be waited for any longer; nor will the next unmap. */
void weft_inbound_late(WeftPort *s, uint64_t first, uint64_t last)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if (weft_inbound_busy(e) && !e->late && e->held_first <= last &&
            e->held_last >= first) {
            e->late = true;
            weft_error(s, WEFT_ERR_UNMAP_LATE, n, e->held_first);
        }
    }
}

/* ---- the fabric and the neighbours ----------------------------------- */

bool weft_inbound_acked(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp)
{
    unsigned n = m->arg[0] % WEFT_MAX_INBOUND;
    WeftPort *f;

    if (m->arg[0] >= WEFT_FUNCTIONS * WEFT_MAX_INBOUND) {
        error_setg(errp, "confirmation of aperture entry %" PRIu64,
                   m->arg[0]);
        return false;
    }
    f = ep->function[m->arg[0] / WEFT_MAX_INBOUND];
    if (f && f->inbound[n].seq == m->arg[5] >> 32) {
        f->inbound[n].ack_due = false;
    }
    return true;
}

/*
 * Link @link went down, or the port at that channel is gone: the fabric waits
 * for it no longer, but the port may not have heard of it yet.
 */
void weft_inbound_link_down(WeftPort *s, unsigned link)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if (e->ack_due) {
            e->lingering |= s->ep->linger & BIT_ULL(link);
        }
    }
}

/* No answer comes any more: what holds on is waited for. */
void weft_inbound_lost(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if (e->ack_due) {
            e->lingering |= s->ep->linger;
            e->ack_due = false;
        }
    }
}

/* Some neighbours have let go. */
void weft_inbound_settled(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        s->inbound[n].lingering &= s->ep->linger;
    }
}

/* ---- life ------------------------------------------------------------ */

/*
 * Of the endpoint the links are down already, and the fabric is told by a
 * RESET. Other functions withdraw what they have open.
 */
void weft_inbound_reset(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        e->poisoned = false;
        if (s != s->ep) {
            e->regs = (WeftInboundRegs) { };
            e->active = (WeftInboundRegs) { };
            weft_inbound_apply(s, n);
            continue;
        }
        weft_inbound_leave(s, e);
        e->regs = (WeftInboundRegs) { };
        e->active = (WeftInboundRegs) { };
        e->invalid = false;
        e->ack_due = false;
    }
}
