/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what was sent over which link or remote, for the fabric, which
 * counts it at every cable on the way (weft-fabric traffic). Memory TLPs are
 * counted in traced mode only, doorbells always. Told now and then, and before
 * the way changes.
 *
 * Bytes are told besides, traced or not, of all but what a CPU moves by a slot
 * that does not trap. Which links carry them, of this port and on the way, the
 * fabric knows; it tells each end, and so the counters of both agree.
 */
#include "qemu/osdep.h"
#include "weft_fab.h"
#include "weft_link.h"
#include "weft_port.h"

#define WEFT_TRAFFIC_MS         10
#define WEFT_ALL_VIAS           (WEFT_MAX_LINKS + WEFT_FAB_REMOTES)
/* What a doorbell carries. */
#define WEFT_DOORBELL_BYTES     4

static void weft_traffic_later(WeftPort *ep)
{
    if (!timer_pending(ep->traffic_timer)) {
        timer_mod(ep->traffic_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + WEFT_TRAFFIC_MS);
    }
}

/* @via: may be none, or this port itself; then no link carries it. */
void weft_traffic_add(WeftPort *s, int via, uint64_t tlps, uint64_t bytes,
                      bool write)
{
    WeftTraffic *t;

    if (via < 0 || via >= WEFT_ALL_VIAS) {
        return;
    }
    t = &s->link[via].traffic;
    if (write) {
        t->mwr += tlps;
        t->mwr_bytes += bytes;
    } else {
        t->mrd += tlps;
        t->mrd_bytes += bytes;
    }
    weft_traffic_later(s->ep);
}

/* Bytes were moved; @write: from here. @via as above. */
void weft_traffic_moved(WeftPort *s, int via, uint64_t bytes, bool write)
{
    WeftTraffic *t;

    if (via < 0 || via >= WEFT_ALL_VIAS) {
        return;
    }
    t = &s->link[via].traffic;
    if (write) {
        t->out += bytes;
    } else {
        t->in += bytes;
    }
    weft_traffic_later(s->ep);
}

void weft_traffic_doorbell(WeftPort *s, unsigned link)
{
    s->link[link].traffic.doorbells++;
    weft_traffic_moved(s, link, WEFT_DOORBELL_BYTES, true);
}

void weft_traffic_flush(WeftPort *ep, unsigned link)
{
    WeftTraffic *t = &ep->link[link].traffic;
    struct weft_fab_msg m = {
        .type = WEFT_FAB_TRAFFIC, .link = link,
        .arg = { t->mwr, t->mwr_bytes, t->mrd, t->mrd_bytes, t->doorbells },
    };
    struct weft_fab_msg moved = {
        .type = WEFT_FAB_MOVED, .link = link, .arg = { t->out, t->in },
    };

    if ((t->mwr || t->mrd || t->doorbells) && weft_fab_ready(ep)) {
        weft_fab_send(ep, &m);
    }
    if ((t->out || t->in) && weft_fab_ready(ep)) {
        weft_fab_send(ep, &moved);
    }
    *t = (WeftTraffic) { };
}

void weft_traffic_flush_all(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_ALL_VIAS; n++) {
        weft_traffic_flush(ep, n);
    }
}

/* ---- doorbells in vain ------------------------------------------------ */

/* Doorbells in vain are told the fabric, which knows where they ended. */
void weft_traffic_report(WeftPort *ep, unsigned link)
{
    WeftReport *r = &ep->remote[link - WEFT_MAX_LINKS].doorbells;
    struct weft_fab_msg m = {
        .type = WEFT_FAB_DENIED, .link = link,
        .arg = { r->offset, WEFT_FAB_DENIED_DOORBELL, r->count },
    };

    if (r->count) {
        weft_fab_send(ep, &m);
    }
    r->count = 0;
}

/* A doorbell rung at a remote that is down. */
void weft_traffic_refused(WeftPort *s, unsigned link, uint32_t doorbell)
{
    WeftReport *r = &s->ep->remote[link - WEFT_MAX_LINKS].doorbells;

    if (!r->count++) {
        r->offset = doorbell;
    }
    weft_traffic_later(s->ep);
}

/* ---- what links have carried ------------------------------------------ */

/* The fabric tells of a link: all since the WELCOME. */
bool weft_traffic_carried(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                          Error **errp)
{
    WeftLink *link = &ep->link[m->link];

    link->bytes_out = m->arg[0];
    link->bytes_in = m->arg[1];
    return true;
}

/* @reg: in the link's group. The links are the endpoint's, and so are these. */
uint32_t weft_traffic_read(WeftPort *s, unsigned link, unsigned reg)
{
    uint64_t val = reg < WEFT_LINK_IN ? s->link[link].bytes_out :
                                        s->link[link].bytes_in;

    return s == s->ep ? (reg & 4 ? val >> 32 : val) : 0;
}

/* ---- life ------------------------------------------------------------- */

static void weft_traffic_timeout(void *opaque)
{
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        weft_traffic_report(opaque, WEFT_MAX_LINKS + n);
    }
    weft_traffic_flush_all(opaque);
}

void weft_traffic_init(WeftPort *s)
{
    s->traffic_timer = timer_new_ms(QEMU_CLOCK_REALTIME, weft_traffic_timeout,
                                    s);
}

void weft_traffic_exit(WeftPort *s)
{
    timer_free(s->traffic_timer);
    s->traffic_timer = NULL;
}
