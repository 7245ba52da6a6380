/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what the fabric knows of this port, from a WELCOME to the next.
 *
 * A session begins with a WELCOME, which all that the port has to say follows,
 * and ends with a reset of the port or the loss of the connection. Functions
 * besides the first have generations of their own in it.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_session.h"

/* ---- the port's word ------------------------------------------------- */

void weft_session_enable(WeftPort *s)
{
    struct weft_fab_msg m = { .type = WEFT_FAB_ENABLE };

    m.arg[0] = s->ctrl & WEFT_CTRL_ENABLE;
    if (weft_fab_ready(s)) {
        weft_fab_send(s, &m);
    }
}

/* Asks for a generation of @s, which is not the first function. */
static void weft_session_ask(WeftPort *s)
{
    struct weft_fab_msg m = { .type = WEFT_FAB_FUNCTION_RESET };

    m.arg[0] = s->number;
    weft_fab_send(s, &m);
}

/* A new generation for @s: the endpoint's reset is that of its links too. */
void weft_session_reset(WeftPort *s)
{
    struct weft_fab_msg m = { .type = WEFT_FAB_RESET };

    if (s != s->ep) {
        /* A VF may be reset as fast as its guest can: ask once a time. */
        if (weft_fab_ready(s) && !s->generations_due) {
            weft_session_ask(s);
        }
        if (weft_fab_ready(s)) {
            s->generations_due = MIN(s->generations_due + 1, 2);
        }
        return;
    }
    for (WeftPort *f = NULL; (f = weft_function_next(s, f)); ) {
        /* What it still owes an answer to, it forgets with a RESET. */
        weft_inbound_lost(f);
    }
    if (s->fab.sock >= 0) {
        s->fab.welcomes_due++;
        weft_fab_send(s, &m);
    }
}

/* ---- the fabric's word ------------------------------------------------ */

/* The fabric knows the endpoint, and nothing yet of what is open. */
static void weft_session_publish(WeftPort *ep)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        f->generation = ep->generation;
        weft_inbound_publish(f);
    }
    weft_routes_publish(ep);
    weft_remotes_publish(ep);
}

bool weft_session_welcome(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                          Error **errp)
{
    if (m->arg[0] > UINT32_MAX || m->arg[2] > WEFT_MAX_LINKS ||
        !s->fab.welcomes_due) {
        error_setg(errp, "unexpected WELCOME, generation %" PRIu64 ", %"
                   PRIu64 " links", m->arg[0], m->arg[2]);
        return false;
    }
    s->generation = m->arg[0];
    s->hwid = m->arg[1];
    s->fab.links = m->arg[2];
    s->fab.welcomed = true;
    s->fab.attests = !(m->arg[4] & WEFT_FAB_UNATTESTED);
    weft_linger_joined(s);
    weft_trace_wanted(s, m->arg[3] & 1);
    weft_adversary_wanted(s, m->arg[4] & 1, m->arg[5]);
    if (--s->fab.welcomes_due) {
        return true;
    }
    weft_link_publish(s);
    weft_session_publish(s);
    weft_session_enable(s);
    return true;
}

/* A function, not the first, has got its generation after a reset. */
bool weft_session_generation(WeftPort *s, const struct weft_fab_msg *m,
                             int *fds, Error **errp)
{
    WeftPort *f;

    if (m->arg[0] > UINT32_MAX || m->arg[1] >= WEFT_FUNCTIONS) {
        error_setg(errp, "generation %" PRIu64 " of function %" PRIu64,
                   m->arg[0], m->arg[1]);
        return false;
    }
    f = s->function[m->arg[1]];
    /* It may have gone meanwhile, or been another's. */
    if (f && f->generations_due) {
        f->generation = m->arg[0];
        if (--f->generations_due) {
            weft_session_ask(f);
        }
    }
    return true;
}

/* The connection is gone, and with it all answers that are due. */
void weft_session_lost(WeftPort *ep, bool was_welcomed)
{
    weft_fault_clear(ep);
    weft_link_lost(ep);
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        f->generations_due = 0;
        weft_inbound_lost(f);
    }
    weft_remotes_lost(ep);
    weft_routes_lost(ep);
    weft_config_lost(ep);
    if (was_welcomed) {
        weft_error_all(ep, WEFT_ERR_FABRIC_LOST);
    }
    ep->fab.attests = false;
    weft_trace_wanted(ep, false);
    weft_adversary_wanted(ep, false, 0);
}
