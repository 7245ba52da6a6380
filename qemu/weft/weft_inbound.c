/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: inbound apertures, what of this host's memory others may reach.
 *
 * An entry's base is an address of this function: it is resolved in the
 * function's own address space, so that bus mastering and an IOMMU have their
 * say. A change is over (BUSY clear) when no access under the old entry can
 * land any more: the fabric has confirmed it for the neighbours whose links
 * are up, and those whose links went down have let go (see weft_fabric.h).
 */
#include "qemu/osdep.h"
#include "qemu/rcu.h"
#include "weft_port.h"

#define WEFT_ALLOW_LINKS        ((1u << WEFT_MAX_LINKS) - 1)

/* Append the memory at @base, which must all be guest RAM. */
static bool weft_inbound_resolve(WeftPort *s, WeftAperture *ap, uint64_t base,
                                 uint64_t len, bool write)
{
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));

    RCU_READ_LOCK_GUARD();
    while (len) {
        hwaddr xlat, plen = len;
        MemoryRegion *mr = address_space_translate(as, base, &xlat, &plen,
                                                   write,
                                                   MEMTXATTRS_UNSPECIFIED);

        if (mr != s->ram_mr || !plen || plen % WEFT_PAGE ||
            xlat % WEFT_PAGE || xlat > s->ram.size ||
            plen > s->ram.size - xlat ||
            !weft_aperture_append(ap, xlat, plen)) {
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

/* Open what the entry says, if it can be. */
static void weft_inbound_open(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];
    const WeftInboundRegs *r = &e->active;

    e->invalid = false;
    if (!(r->ctrl & WEFT_INBOUND_ENABLE)) {
        return;
    }
    if (!weft_inbound_valid(r)) {
        e->invalid = true;
    } else if (s->bus_master) {
        e->invalid = !weft_inbound_resolve(s, &e->open, r->base, r->len,
                                           r->rights & WEFT_RIGHT_WRITE);
    } else {
        /* Not a master: nothing is forwarded, now. */
        return;
    }
    if (e->invalid) {
        weft_aperture_close(&e->open);
        weft_error(s, WEFT_ERR_IN_INVALID, n, r->base);
        return;
    }
    e->open.offset = r->offset;
    e->open.len = r->len;
    e->open.rights = r->rights;
    e->open.allow = r->allow;
}

static void weft_inbound_send(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];
    const GArray *segs = e->open.segments;
    unsigned total = segs ? segs->len : 0, first = 0;
    struct weft_fab_msg m = { .type = WEFT_FAB_INBOUND };
    struct weft_fab_seg piece[WEFT_FAB_SEGS];

    QEMU_BUILD_BUG_ON(sizeof(piece) > sizeof(m.data));

    m.arg[0] = n;
    m.arg[1] = e->open.offset;
    m.arg[2] = e->open.len;
    m.arg[3] = e->open.rights;
    m.arg[4] = e->open.allow & WEFT_ALLOW_LINKS;
    do {
        unsigned count = MIN(total - first, WEFT_FAB_SEGS);

        for (unsigned i = 0; i < count; i++) {
            const WeftSegment *seg = &g_array_index(segs, WeftSegment,
                                                    first + i);

            piece[i].offset = seg->offset;
            piece[i].len = seg->len;
        }
        m.len = count * sizeof(piece[0]);
        memcpy(m.data, piece, m.len);
        m.arg[5] = (uint64_t)e->seq << 32 | first << 1 |
                   (first + count < total);
        weft_fab_send(s, &m);
        first += count;
    } while (first < total);
}

static void weft_inbound_apply(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];
    bool was_open = e->open.len;

    weft_aperture_close(&e->open);
    weft_inbound_open(s, n);
    if (!was_open && !e->open.len) {
        return;
    }
    e->open.serial = ++s->aperture_serial;
    e->seq++;
    if (was_open) {
        e->lingering |= s->linger;
    }
    weft_slots_update(s);
    if (weft_fab_ready(s)) {
        e->ack_due = weft_link_any_up(s);
        weft_inbound_send(s, n);
    }
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

/* A fabric that knows nothing of this port wants to know. */
void weft_inbound_publish(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        if (s->inbound[n].open.len) {
            s->inbound[n].seq++;
            weft_inbound_send(s, n);
        }
    }
}

void weft_inbound_ack(WeftPort *s, unsigned n, uint32_t seq)
{
    if (seq == s->inbound[n].seq) {
        s->inbound[n].ack_due = false;
    }
}

/*
 * Link @link went down. With none left nobody is there to confirm anything,
 * but the neighbour may not have heard of it yet.
 */
void weft_inbound_link_down(WeftPort *s, unsigned link)
{
    bool any = weft_link_any_up(s);

    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if (e->ack_due) {
            e->lingering |= s->linger & BIT(link);
            e->ack_due = any;
        }
    }
}

/* Some neighbours have let go. */
void weft_inbound_settled(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        s->inbound[n].lingering &= s->linger;
    }
}

/* A neighbour, or this port itself, was refused. @offset: aperture space. */
void weft_inbound_denied(WeftPort *s, unsigned via, uint64_t offset,
                         uint64_t count)
{
    s->counter[WEFT_CNT_IN_DENIED] += count;
    weft_error(s, WEFT_ERR_IN_DENIED, via, offset);
}

uint32_t weft_inbound_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftInbound *e = &s->inbound[n];

    switch (reg) {
    case WEFT_INBOUND_OFFSET:
        return e->regs.offset;
    case WEFT_INBOUND_OFFSET + 4:
        return e->regs.offset >> 32;
    case WEFT_INBOUND_LEN:
        return e->regs.len;
    case WEFT_INBOUND_LEN + 4:
        return e->regs.len >> 32;
    case WEFT_INBOUND_BASE:
        return e->regs.base;
    case WEFT_INBOUND_BASE + 4:
        return e->regs.base >> 32;
    case WEFT_INBOUND_RIGHTS:
        return e->regs.rights;
    case WEFT_INBOUND_ALLOW:
        return e->regs.allow;
    case WEFT_INBOUND_CTRL:
        return e->regs.ctrl;
    case WEFT_INBOUND_STATUS:
        return (e->open.len ? WEFT_INBOUND_LIVE : 0) |
               (e->ack_due || e->lingering ? WEFT_INBOUND_BUSY : 0) |
               (e->invalid ? WEFT_INBOUND_INVALID : 0);
    }
    return 0;
}

void weft_inbound_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    WeftInbound *e = &s->inbound[n];
    WeftInboundRegs *r = &e->regs;

    switch (reg) {
    case WEFT_INBOUND_OFFSET:
        r->offset = deposit64(r->offset, 0, 32, val);
        break;
    case WEFT_INBOUND_OFFSET + 4:
        r->offset = deposit64(r->offset, 32, 32, val);
        break;
    case WEFT_INBOUND_LEN:
        r->len = deposit64(r->len, 0, 32, val);
        break;
    case WEFT_INBOUND_LEN + 4:
        r->len = deposit64(r->len, 32, 32, val);
        break;
    case WEFT_INBOUND_BASE:
        r->base = deposit64(r->base, 0, 32, val);
        break;
    case WEFT_INBOUND_BASE + 4:
        r->base = deposit64(r->base, 32, 32, val);
        break;
    case WEFT_INBOUND_RIGHTS:
        r->rights = val & WEFT_RIGHTS;
        break;
    case WEFT_INBOUND_ALLOW:
        r->allow = val & (WEFT_ALLOW_SELF | WEFT_ALLOW_LINKS);
        break;
    case WEFT_INBOUND_CTRL:
        r->ctrl = val & WEFT_INBOUND_ENABLE;
        e->active = *r;
        weft_inbound_apply(s, n);
        break;
    }
}

/* The links are down already; the fabric is told by a RESET. */
void weft_inbound_reset(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if (e->open.len) {
            e->lingering |= s->linger;
        }
        weft_aperture_close(&e->open);
        e->regs = (WeftInboundRegs) { };
        e->active = (WeftInboundRegs) { };
        e->invalid = false;
        e->ack_due = false;
    }
}
