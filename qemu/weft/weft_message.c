/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: which part of the device takes which message of weft-fabric.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_mbox.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_session.h"
#include "weft_slot.h"

/* RAM, doorbell page and eventfd of a neighbour. */
#define WEFT_NEIGHBOUR_FDS      3

/* ---- what is no single part's ----------------------------------------- */

static bool weft_message_refused(WeftPort *s, const struct weft_fab_msg *m,
                                 int *fds, Error **errp)
{
    g_autofree char *why = g_strndup((const char *)m->data, m->len);

    for (char *p = why; *p; p++) {
        if (!g_ascii_isprint(*p)) {
            *p = '?';
        }
    }
    error_setg(errp, "refused: %s", why);
    return false;
}

/* Those of all functions together. */
static bool weft_message_counters(WeftPort *s, const struct weft_fab_msg *m,
                                  int *fds, Error **errp)
{
    struct weft_fab_msg reply = { .type = WEFT_FAB_COUNTERS };
    uint64_t sum[WEFT_COUNTERS] = { };

    QEMU_BUILD_BUG_ON(sizeof(sum) > sizeof(reply.data));

    /* A reader of the counters may look at the cables' next. */
    for (WeftPort *f = NULL; (f = weft_function_next(s, f)); ) {
        weft_hook_flush(f);
        for (unsigned n = 0; n < WEFT_COUNTERS; n++) {
            sum[n] += f->counter[n];
        }
        if (m->arg[1]) {
            memset(f->counter, 0, sizeof(f->counter));
        }
    }
    weft_traffic_flush_all(s);
    reply.arg[0] = m->arg[0];
    reply.len = sizeof(sum);
    memcpy(reply.data, sum, sizeof(sum));
    weft_fab_send(s, &reply);
    return true;
}

static bool weft_message_denied(WeftPort *s, const struct weft_fab_msg *m,
                                int *fds, Error **errp)
{
    WeftPort *f = m->arg[3] < WEFT_FUNCTIONS ? s->function[m->arg[3]] : NULL;
    unsigned where = m->link;

    if (m->arg[4] & WEFT_FAB_ROUTED) {
        where = WEFT_WHERE_ROUTED(m->link * WEFT_VPS +
                                  (m->arg[4] >> 8) % WEFT_VPS);
    }
    /* Of a function that is not there, the endpoint is to know. */
    f = f ? f : s;
    if (m->arg[1] == WEFT_FAB_DENIED_POISONED) {
        weft_fault_poisoned(f, m->link, m->arg[0]);
    } else {
        weft_error_denied(f, where, m->arg[0], m->arg[2]);
    }
    return true;
}

static bool weft_message_presence(WeftPort *s, const struct weft_fab_msg *m,
                                  int *fds, Error **errp)
{
    weft_event(s, WEFT_EVENT_PLUG);
    return true;
}

/* ---- the table -------------------------------------------------------- */

static const WeftFabMessage weft_messages[] = {
    [WEFT_FAB_WELCOME] = { weft_session_welcome, .flags = WEFT_FAB_ANY_TIME },
    [WEFT_FAB_REFUSED] = { weft_message_refused, .flags = WEFT_FAB_ANY_TIME },
    [WEFT_FAB_LINK_UP] = {
        weft_link_up, WEFT_NEIGHBOUR_FDS, WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_LINK_DOWN] = {
        weft_link_down, .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_LINK_INFO] = { weft_link_info, .flags = WEFT_FAB_OF_LINK },
    [WEFT_FAB_INBOUND] = {
        weft_seen_inbound,
        .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_REMOTE | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_INBOUND_ACK] = { weft_inbound_acked },
    [WEFT_FAB_MBOX] = {
        weft_mbox_receive, .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_MBOX_LID] = {
        weft_mbox_receive, .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_DENIED] = {
        weft_message_denied, .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_MOVED] = {
        weft_traffic_carried, .flags = WEFT_FAB_OF_LINK | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_TRACE] = { weft_trace_message },
    [WEFT_FAB_ADVERSARIAL] = { weft_adversary_message },
    [WEFT_FAB_FAULT] = { weft_fault_message },
    [WEFT_FAB_COUNTERS_GET] = { weft_message_counters },
    [WEFT_FAB_GENERATION] = { weft_session_generation },
    [WEFT_FAB_REMOTE_UP] = {
        weft_remote_up, WEFT_NEIGHBOUR_FDS,
        WEFT_FAB_OF_REMOTE | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_REMOTE_DOWN] = {
        weft_remote_down, .flags = WEFT_FAB_OF_REMOTE | WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_PEER_GONE] = {
        weft_remote_peer_gone, .flags = WEFT_FAB_OF_NOW
    },
    [WEFT_FAB_ROUTE_ACK] = { weft_route_acked, .flags = WEFT_FAB_OF_NOW },
    [WEFT_FAB_ROUTE_DENIED] = { weft_route_denied, .flags = WEFT_FAB_OF_NOW },
    [WEFT_FAB_CONFIG_REPLY] = { weft_config_reply },
    [WEFT_FAB_PRESENCE] = { weft_message_presence },
};

const WeftFabOps weft_message_ops = {
    .message = weft_messages,
    .messages = ARRAY_SIZE(weft_messages),
    .lost = weft_session_lost,
    .changed = weft_slots_update_all,
};
