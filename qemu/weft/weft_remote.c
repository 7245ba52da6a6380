/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: remotes, what is reached by routes.
 *
 * For each local id that a slot or a doorbell page of any function names, the
 * endpoint asks the fabric for a remote. While its route leads to a port, a
 * remote is like a link that is up: with that port's memory, doorbell page and
 * what it has opened to us. When the fabric says that it leads there no more,
 * everything is unmapped before that is confirmed.
 *
 * Seen from the owner's side such a remote is a channel. Nothing is to be done
 * about it but when the port behind it dies: then its lock on the doorbell
 * page says whether it may still reach this host's memory.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "trace.h"
#include "weft_dest.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_slot.h"

QEMU_BUILD_BUG_ON(WEFT_FAB_CHANNELS > 64);

static WeftLink *weft_remote_link(WeftPort *ep, unsigned n)
{
    return &ep->link[WEFT_MAX_LINKS + n];
}

/* ---- what is wanted -------------------------------------------------- */

static bool weft_remote_used_by(const WeftPort *s, uint32_t lid)
{
    const uint32_t mask = WEFT_DEST_TYPE | WEFT_DEST_WHERE;

    for (unsigned n = 0; n < s->slots; n++) {
        const WeftSlotRegs *r = &s->slot[n].active;

        if ((r->ctrl & WEFT_SLOT_ENABLE) &&
            (r->dest & mask) == (WEFT_DEST_LID | lid)) {
            return true;
        }
    }
    for (unsigned n = 0; n < WEFT_DB_PAGES; n++) {
        if (s->db_page[n].allow &&
            (s->db_page[n].dest & mask) == (WEFT_DEST_LID | lid)) {
            return true;
        }
    }
    return false;
}

static bool weft_remote_used(WeftPort *ep, uint32_t lid)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        if (weft_remote_used_by(f, lid)) {
            return true;
        }
    }
    return false;
}

/* Its route has been taken up, or lost. */
static void weft_remote_event(WeftPort *ep, const WeftRemote *r)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        if (weft_remote_used_by(f, r->lid)) {
            weft_event(f, WEFT_EVENT_ROUTE);
        }
    }
}

static void weft_remote_send_want(WeftPort *ep, unsigned n, uint32_t lid)
{
    struct weft_fab_msg m = {
        .type = WEFT_FAB_WANT, .link = WEFT_MAX_LINKS + n, .arg = { lid },
    };

    weft_fab_send(ep, &m);
}

static void weft_remote_want(WeftPort *ep, uint32_t dest)
{
    uint32_t lid = dest & WEFT_DEST_WHERE;

    if ((dest & WEFT_DEST_TYPE) != WEFT_DEST_LID || !lid ||
        weft_dest_find(ep, lid)) {
        return;
    }
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        WeftRemote *r = &ep->remote[n];

        if (r->state == WEFT_REMOTE_FREE) {
            *r = (WeftRemote) {
                .state = WEFT_REMOTE_WANTED, .lid = lid,
                .why = WEFT_STOP_CHANGING,
            };
            weft_remote_send_want(ep, n, lid);
            return;
        }
    }
    /* All are closing, or taken: when one is free this is tried again. */
}

/* ---- up and down ----------------------------------------------------- */

/* What is to be told of the route as it was is told before it changes. */
static void weft_remote_settle(WeftPort *ep, unsigned n)
{
    unsigned link = WEFT_MAX_LINKS + n;

    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_hook_flush(f);
        for (unsigned slot = 0; slot < f->slots; slot++) {
            if (f->slot[slot].target.via == link) {
                weft_report_flush(f, slot);
            }
        }
    }
    weft_traffic_report(ep, link);
    weft_traffic_flush(ep, link);
}

bool weft_remote_up(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                    Error **errp)
{
    unsigned n = m->link - WEFT_MAX_LINKS;
    WeftRemote *r = &ep->remote[n];
    WeftLink *link = weft_remote_link(ep, n);

    if (m->arg[0] > WEFT_MAX_HOPS || m->arg[1] >= WEFT_FAB_GATES ||
        m->arg[2] < WEFT_MAX_LINKS || m->arg[2] >= WEFT_FAB_CHANNELS) {
        error_setg(errp, "remote over %" PRIu64 " links, gate %" PRIu64
                   ", channel %" PRIu64, m->arg[0], m->arg[1], m->arg[2]);
        return false;
    }
    if (r->state != WEFT_REMOTE_WANTED) {
        return true;
    }
    weft_remote_settle(ep, n);
    weft_link_detach(ep, link);
    if (!weft_link_attach(link, fds, m->arg[2], m->arg[5] >> 32, errp)) {
        return false;
    }
    link->gate = m->arg[1];
    link->up = true;
    r->hops = m->arg[0];
    r->why = WEFT_STOP_NONE;
    trace_weft_remote_up(ep->node, ep->number, r->lid, r->hops, link->gate);
    /* 0 is no number; after so many it may begin anew. */
    ep->taken = MAX(ep->taken + 1, 1);
    r->taken = ep->taken;
    weft_remote_event(ep, r);
    return true;
}

bool weft_remote_down(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp)
{
    unsigned n = m->link - WEFT_MAX_LINKS;
    WeftRemote *r = &ep->remote[n];
    struct weft_fab_msg ack = {
        .type = WEFT_FAB_REMOTE_ACK, .link = m->link,
        .arg = { [5] = m->arg[5] },
    };

    if (m->arg[0] > WEFT_STOP_BUSY || m->arg[1] > WEFT_MAX_HOPS) {
        error_setg(errp, "remote that ends after %" PRIu64 " links, reason %"
                   PRIu64, m->arg[1], m->arg[0]);
        return false;
    }
    if (r->state == WEFT_REMOTE_CLOSING && m->arg[2]) {
        r->state = WEFT_REMOTE_FREE;
        weft_remotes_update(ep);
        return true;
    }
    if (r->state != WEFT_REMOTE_WANTED) {
        return true;
    }
    weft_remote_settle(ep, n);
    weft_link_detach(ep, weft_remote_link(ep, n));
    r->hops = m->arg[1];
    r->why = m->arg[0];
    trace_weft_remote_down(ep->node, ep->number, r->lid, r->hops, r->why);
    if (r->taken) {
        r->taken = 0;
        weft_remote_event(ep, r);
    }
    if (m->arg[5]) {
        weft_fab_send(ep, &ack);
    }
    return true;
}

/* The port behind a channel is gone. */
bool weft_remote_peer_gone(WeftPort *ep, const struct weft_fab_msg *m,
                           int *fds, Error **errp)
{
    if (m->arg[0] < WEFT_MAX_LINKS || m->arg[0] >= WEFT_FAB_CHANNELS) {
        error_setg(errp, "channel %" PRIu64, m->arg[0]);
        return false;
    }
    weft_linger_add(ep, m->arg[0], (m->arg[5] >> 32) + 1);
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_inbound_link_down(f, m->arg[0]);
    }
    return true;
}

/* ---- changes of what is wanted, and life ----------------------------- */

/* Slots or doorbell pages of a function have changed. */
void weft_remotes_update(WeftPort *s)
{
    WeftPort *ep = s->ep;

    if (!weft_fab_ready(ep)) {
        return;
    }
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        WeftRemote *r = &ep->remote[n];

        if (r->state == WEFT_REMOTE_WANTED && !weft_remote_used(ep, r->lid)) {
            weft_remote_settle(ep, n);
            r->state = WEFT_REMOTE_CLOSING;
            r->taken = 0;
            weft_link_detach(ep, weft_remote_link(ep, n));
            weft_remote_send_want(ep, n, 0);
        }
    }
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        for (unsigned n = 0; n < f->slots; n++) {
            if (f->slot[n].active.ctrl & WEFT_SLOT_ENABLE) {
                weft_remote_want(ep, f->slot[n].active.dest);
            }
        }
        for (unsigned n = 0; n < WEFT_DB_PAGES; n++) {
            if (f->db_page[n].allow) {
                weft_remote_want(ep, f->db_page[n].dest);
            }
        }
    }
}

/* A fabric that knows nothing of this port wants to know. */
void weft_remotes_publish(WeftPort *ep)
{
    weft_remotes_update(ep);
}

/* The fabric has forgotten all remotes, or will have with a RESET. */
void weft_remotes_drop(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        weft_link_detach(ep, weft_remote_link(ep, n));
        ep->remote[n] = (WeftRemote) { };
        weft_remote_link(ep, n)->traffic = (WeftTraffic) { };
    }
}

/* There is no fabric any more, and no route. */
void weft_remotes_lost(WeftPort *ep)
{
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        if (ep->remote[n].taken) {
            weft_remote_event(ep, &ep->remote[n]);
        }
    }
    weft_remotes_drop(ep);
}
