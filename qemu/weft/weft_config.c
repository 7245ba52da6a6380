/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: configuration requests, to nodes named by a path of ports. The
 * fabric carries them and answers for switches; here is the mailbox for one
 * request at a time, which the endpoint has.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_port.h"
#include "weft_route.h"

#define WEFT_CFG_END    (WEFT_R_ROUTE_CAP + 4)

static void weft_config_done(WeftPort *ep, uint32_t result, unsigned passed)
{
    ep->config.busy = false;
    ep->config.result = result;
    ep->config.passed = passed;
    weft_event(ep, WEFT_EVENT_CFG);
}

static void weft_config_send(WeftPort *ep, uint32_t ctrl)
{
    WeftConfig *c = &ep->config;
    unsigned hops = ctrl & WEFT_CFG_HOPS;
    struct weft_fab_msg m = { .type = WEFT_FAB_CONFIG, .len = hops };

    if (c->busy) {
        return;
    }
    if (!hops || hops > sizeof(c->path)) {
        weft_config_done(ep, WEFT_CFG_BAD, 0);
        return;
    }
    if (!weft_fab_ready(ep)) {
        weft_config_done(ep, WEFT_CFG_NO_FABRIC, 0);
        return;
    }
    m.arg[0] = ++c->number;
    m.arg[1] = ctrl & (WEFT_CFG_HOPS | WEFT_CFG_SPACE | WEFT_CFG_WRITE);
    m.arg[2] = c->addr;
    m.arg[3] = c->data;
    m.arg[4] = c->term;
    memcpy(m.data, c->path, hops);
    c->busy = true;
    weft_fab_send(ep, &m);
}

/* One that was given up before, by a reset, is not waited for any more. */
bool weft_config_reply(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp)
{
    const uint32_t most = WEFT_CFG_RESULT >> ctz32(WEFT_CFG_RESULT);
    WeftConfig *c = &ep->config;

    if (c->busy && m->arg[0] == c->number) {
        c->data = m->arg[3];
        weft_config_done(ep, MIN(m->arg[1], most), MIN(m->arg[2], UINT8_MAX));
    }
    return true;
}

void weft_config_lost(WeftPort *ep)
{
    if (ep->config.busy) {
        weft_config_done(ep, WEFT_CFG_NO_FABRIC, 0);
    }
}

void weft_config_reset(WeftPort *ep)
{
    ep->config = (WeftConfig) { .number = ep->config.number };
}

/* ---- registers ------------------------------------------------------- */

bool weft_config_covers(const WeftPort *s, hwaddr a)
{
    return s == s->ep && a >= WEFT_R_CFG_PATH && a < WEFT_CFG_END;
}

uint32_t weft_config_read(WeftPort *s, hwaddr a)
{
    const WeftConfig *c = &s->config;

    if (a < WEFT_R_CFG_PATH + sizeof(c->path)) {
        return ldl_le_p(c->path + (a - WEFT_R_CFG_PATH));
    }
    switch (a) {
    case WEFT_R_CFG_ADDR:
        return c->addr;
    case WEFT_R_CFG_DATA:
        return c->data;
    case WEFT_R_CFG_TERM:
        return c->term;
    case WEFT_R_CFG_STATUS:
        return (c->busy ? WEFT_CFG_BUSY : 0) |
               c->result << ctz32(WEFT_CFG_RESULT) |
               c->passed << ctz32(WEFT_CFG_PASSED);
    case WEFT_R_ROUTE_CAP:
        return WEFT_ROUTES | WEFT_VPS << ctz32(WEFT_ROUTE_CAP_VPS) |
               (uint32_t)WEFT_MAX_HOPS << ctz32(WEFT_ROUTE_CAP_HOPS);
    }
    return 0;
}

void weft_config_write(WeftPort *s, hwaddr a, uint32_t val)
{
    WeftConfig *c = &s->config;

    if (a < WEFT_R_CFG_PATH + sizeof(c->path)) {
        stl_le_p(c->path + (a - WEFT_R_CFG_PATH), val);
        return;
    }
    switch (a) {
    case WEFT_R_CFG_ADDR:
        c->addr = val;
        break;
    case WEFT_R_CFG_DATA:
        c->data = val;
        break;
    case WEFT_R_CFG_TERM:
        c->term = val;
        break;
    case WEFT_R_CFG_CTRL:
        weft_config_send(s, val);
        break;
    }
}
