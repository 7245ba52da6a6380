/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what was sent over which link or remote, for the fabric, which
 * counts it at every cable on the way (weft-fabric traffic). Memory TLPs are
 * counted in traced mode only, doorbells always. Told now and then, and before
 * the way changes.
 */
#include "qemu/osdep.h"
#include "weft_port.h"

#define WEFT_TRAFFIC_MS         10
#define WEFT_ALL_VIAS           (WEFT_MAX_LINKS + WEFT_FAB_REMOTES)

void weft_traffic_later(WeftPort *ep)
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

void weft_traffic_doorbell(WeftPort *s, unsigned link)
{
    s->link[link].traffic.doorbells++;
    weft_traffic_later(s->ep);
}

void weft_traffic_flush(WeftPort *ep, unsigned link)
{
    WeftTraffic *t = &ep->link[link].traffic;
    struct weft_fab_msg m = {
        .type = WEFT_FAB_TRAFFIC, .link = link,
        .arg = { t->mwr, t->mwr_bytes, t->mrd, t->mrd_bytes, t->doorbells },
    };

    if ((t->mwr || t->mrd || t->doorbells) && weft_fab_ready(ep)) {
        weft_fab_send(ep, &m);
    }
    *t = (WeftTraffic) { };
}

void weft_traffic_flush_all(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_ALL_VIAS; n++) {
        weft_traffic_flush(ep, n);
    }
}

static void weft_traffic_timeout(void *opaque)
{
    weft_remotes_report(opaque);
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
