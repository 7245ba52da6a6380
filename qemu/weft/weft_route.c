/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: its own route table, and its local id.
 *
 * An entry says by which link, and on which VP there, local ids are reached,
 * by the host itself and by neighbours that it relays for. The table is the
 * endpoint's. weft-fabric walks the routes (weft_remote.c); a change is over
 * (BUSY clear) when it has confirmed that nothing goes by what the entry said
 * before.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_port.h"
#include "weft_route.h"

#define WEFT_ROUTE_OUT_BITS     (WEFT_ROUTE_LINK | WEFT_ROUTE_VP)
#define WEFT_ROUTE_FROM_BITS    (WEFT_ROUTE_FROM_LINKS | \
                                 WEFT_ROUTE_FROM_VPS | WEFT_ROUTE_FROM_SELF)

QEMU_BUILD_BUG_ON(WEFT_FAB_GATES != WEFT_MAX_LINKS * WEFT_VPS);

static bool weft_route_live(const WeftRoute *r)
{
    return (r->active.ctrl & WEFT_ROUTE_ENABLE) && !r->invalid;
}

static void weft_route_send(WeftPort *ep, unsigned n)
{
    WeftRoute *r = &ep->route[n];
    struct weft_fab_msg m = { .type = WEFT_FAB_ROUTE };

    m.arg[0] = n;
    if (weft_route_live(r)) {
        m.arg[1] = r->active.first | (uint64_t)r->active.last << 32;
        m.arg[2] = r->active.out;
        m.arg[3] = r->active.from;
    }
    r->seq++;
    m.arg[5] = (uint64_t)r->seq << 32;
    r->busy = true;
    weft_fab_send(ep, &m);
}

static void weft_route_latch(WeftPort *ep, unsigned n)
{
    WeftRoute *r = &ep->route[n];
    bool was = weft_route_live(r);

    r->active = r->regs;
    r->invalid = (r->active.ctrl & WEFT_ROUTE_ENABLE) &&
                 (!r->active.first || r->active.first > r->active.last ||
                  (r->active.out & WEFT_ROUTE_LINK) >= WEFT_MAX_LINKS);
    if ((was || weft_route_live(r)) && weft_fab_ready(ep)) {
        weft_route_send(ep, n);
    }
}

static void weft_route_send_lid(WeftPort *ep)
{
    struct weft_fab_msg m = { .type = WEFT_FAB_LID };

    m.arg[0] = ep->lid;
    weft_fab_send(ep, &m);
}

void weft_route_set_lid(WeftPort *s, uint32_t lid)
{
    if (lid == s->lid) {
        return;
    }
    s->lid = lid;
    if (s == s->ep && weft_fab_ready(s)) {
        weft_route_send_lid(s);
    }
}

/* ---- the fabric ------------------------------------------------------ */

/* A fabric that knows nothing of this port wants to know. */
void weft_routes_publish(WeftPort *ep)
{
    if (ep->lid) {
        weft_route_send_lid(ep);
    }
    for (unsigned n = 0; n < WEFT_ROUTES; n++) {
        if (weft_route_live(&ep->route[n])) {
            weft_route_send(ep, n);
        }
    }
}

bool weft_route_denied(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp)
{
    unsigned where = m->link < WEFT_MAX_LINKS ? m->link : WEFT_WHERE_SELF;

    ep->counter[WEFT_CNT_ROUTE_DENIED] += m->arg[1];
    weft_error(ep, WEFT_ERR_ROUTE_DENIED, where,
               (m->arg[0] & UINT32_MAX) | m->arg[2] << 32);
    return true;
}

bool weft_route_acked(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp)
{
    if (m->arg[0] >= WEFT_ROUTES) {
        error_setg(errp, "confirmation of route %" PRIu64, m->arg[0]);
        return false;
    }
    if (ep->route[m->arg[0]].seq == m->arg[5] >> 32) {
        ep->route[m->arg[0]].busy = false;
    }
    return true;
}

/* No port is left to confirm anything, and no route. */
void weft_routes_lost(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_ROUTES; n++) {
        ep->route[n].busy = false;
    }
}

/* The fabric is told by a RESET. Sequence numbers go on. */
void weft_routes_reset(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_ROUTES; n++) {
        WeftRoute *r = &ep->route[n];

        r->regs = (WeftRouteRegs) { };
        r->active = (WeftRouteRegs) { };
        r->invalid = false;
        r->busy = false;
    }
}

/* ---- registers ------------------------------------------------------- */

uint32_t weft_route_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftRoute *r = &s->route[n];

    switch (reg) {
    case WEFT_ROUTE_FIRST:
        return r->regs.first;
    case WEFT_ROUTE_LAST:
        return r->regs.last;
    case WEFT_ROUTE_OUT:
        return r->regs.out;
    case WEFT_ROUTE_FROM:
        return r->regs.from;
    case WEFT_ROUTE_CTRL:
        return r->regs.ctrl;
    case WEFT_ROUTE_STATUS:
        return (weft_route_live(r) ? WEFT_ROUTE_LIVE : 0) |
               (r->busy ? WEFT_ROUTE_BUSY : 0) |
               (r->invalid ? WEFT_ROUTE_INVALID : 0);
    }
    return 0;
}

void weft_route_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    WeftRouteRegs *r = &s->route[n].regs;

    switch (reg) {
    case WEFT_ROUTE_FIRST:
        r->first = val;
        break;
    case WEFT_ROUTE_LAST:
        r->last = val;
        break;
    case WEFT_ROUTE_OUT:
        r->out = val & WEFT_ROUTE_OUT_BITS;
        break;
    case WEFT_ROUTE_FROM:
        r->from = val & WEFT_ROUTE_FROM_BITS;
        break;
    case WEFT_ROUTE_CTRL:
        r->ctrl = val & WEFT_ROUTE_ENABLE;
        weft_route_latch(s, n);
        break;
    }
}
