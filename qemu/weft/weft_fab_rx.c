/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what weft-fabric says, checked and handed on.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qapi/error.h"
#include "weft_port.h"

#define WEFT_LINK_UP_FDS        3

static bool weft_fab_welcome(WeftPort *s, const struct weft_fab_msg *m,
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
    weft_link_joined(s);
    weft_trace_wanted(s, m->arg[3] & 1);
    weft_adversary_wanted(s, m->arg[4] & 1, m->arg[5]);
    if (--s->fab.welcomes_due) {
        return true;
    }
    weft_link_publish(s);
    weft_functions_joined(s);
    weft_fab_enable(s);
    return true;
}

/* Those of all functions together. */
static void weft_fab_counters(WeftPort *s, const struct weft_fab_msg *m)
{
    struct weft_fab_msg reply = { .type = WEFT_FAB_COUNTERS };
    uint64_t sum[WEFT_COUNTERS] = { };

    QEMU_BUILD_BUG_ON(sizeof(sum) > sizeof(reply.data));

    /* Who reads the counters may look at the cables' next. */
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
}

/* A function, not the first, has got its generation after a reset. */
static bool weft_fab_generation(WeftPort *s, const struct weft_fab_msg *m,
                                Error **errp)
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
            weft_fab_function_reset(f);
        }
    }
    return true;
}

static bool weft_fab_acked(WeftPort *s, const struct weft_fab_msg *m,
                           Error **errp)
{
    unsigned n = m->arg[0] % WEFT_MAX_INBOUND;
    WeftPort *f;

    if (m->arg[0] >= WEFT_FUNCTIONS * WEFT_MAX_INBOUND) {
        error_setg(errp, "confirmation of aperture entry %" PRIu64,
                   m->arg[0]);
        return false;
    }
    f = s->function[m->arg[0] / WEFT_MAX_INBOUND];
    if (f) {
        weft_inbound_ack(f, n, m->arg[5] >> 32);
    }
    return true;
}

static void weft_fab_denied(WeftPort *s, const struct weft_fab_msg *m)
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
        weft_inbound_denied(f, where, m->arg[0], m->arg[2]);
    }
}

static void weft_fab_refused(WeftPort *s, const struct weft_fab_msg *m,
                             Error **errp)
{
    g_autofree char *why = g_strndup((const char *)m->data, m->len);

    for (char *p = why; *p; p++) {
        if (!g_ascii_isprint(*p)) {
            *p = '?';
        }
    }
    error_setg(errp, "refused: %s", why);
}

/* Messages of a link, while the fabric knows the port as it is. */
static bool weft_fab_link_message(WeftPort *s, const struct weft_fab_msg *m,
                                  int *fds, Error **errp)
{
    switch (m->type) {
    case WEFT_FAB_LINK_UP:
        return weft_link_up(s, m, fds, errp);
    case WEFT_FAB_LINK_DOWN:
        weft_link_down(s, m->link);
        return true;
    case WEFT_FAB_INBOUND:
        /* A link that went down takes its apertures along. */
        return !s->link[m->link].up || weft_seen_inbound(s, m, errp);
    case WEFT_FAB_DENIED:
        weft_fab_denied(s, m);
        return true;
    case WEFT_FAB_REMOTE_UP:
    case WEFT_FAB_REMOTE_DOWN:
        return weft_remote_message(s, m, fds, errp);
    case WEFT_FAB_MOVED:
        weft_traffic_carried(s, m);
        return true;
    default: /* WEFT_FAB_MBOX, WEFT_FAB_MBOX_LID */
        if (!m->len || m->len > WEFT_MBOX_BYTES ||
            m->arg[1] >= WEFT_FUNCTIONS ||
            (m->type == WEFT_FAB_MBOX_LID &&
             (m->arg[2] > WEFT_DEST_WHERE || m->arg[3] >= WEFT_VPS))) {
            error_setg(errp, "mailbox message of %" PRIu32 " bytes from "
                       "function %" PRIu64 ", LID %" PRIu64 ", VP %" PRIu64,
                       m->len, m->arg[1], m->arg[2], m->arg[3]);
            return false;
        }
        /* A switch may have sent it itself, or be the last of a route. */
        if (m->type == WEFT_FAB_MBOX_LID || s->link[m->link].up ||
            s->link[m->link].switch_up) {
            weft_mbox_receive(s, m);
        }
        return true;
    }
}

/*
 * @fds: taken over where set to -1. False: the fabric is not to be trusted
 * any more; the caller gives it up.
 */
bool weft_fab_message(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                      unsigned nfds, Error **errp)
{
    unsigned want_fds = m->type == WEFT_FAB_LINK_UP ||
                        m->type == WEFT_FAB_REMOTE_UP ? WEFT_LINK_UP_FDS : 0;
    bool remote = m->type == WEFT_FAB_REMOTE_UP ||
                  m->type == WEFT_FAB_REMOTE_DOWN ||
                  (m->type == WEFT_FAB_INBOUND && m->link >= WEFT_MAX_LINKS);
    unsigned first = remote ? WEFT_MAX_LINKS : 0;
    unsigned end = remote ? WEFT_MAX_LINKS + WEFT_FAB_REMOTES : s->fab.links;

    if (nfds != want_fds) {
        error_setg(errp, "message %u with %u descriptors instead of %u",
                   m->type, nfds, want_fds);
        return false;
    }
    if (m->type == WEFT_FAB_WELCOME) {
        return weft_fab_welcome(s, m, errp);
    }
    if (m->type == WEFT_FAB_REFUSED) {
        weft_fab_refused(s, m, errp);
        return false;
    }
    if (!s->fab.welcomed) {
        error_setg(errp, "message %u before WELCOME", m->type);
        return false;
    }
    switch (m->type) {
    case WEFT_FAB_LINK_UP:
    case WEFT_FAB_LINK_DOWN:
    case WEFT_FAB_LINK_INFO:
    case WEFT_FAB_INBOUND:
    case WEFT_FAB_DENIED:
    case WEFT_FAB_MBOX:
    case WEFT_FAB_MBOX_LID:
    case WEFT_FAB_MOVED:
    case WEFT_FAB_REMOTE_UP:
    case WEFT_FAB_REMOTE_DOWN:
        if (m->link < first || m->link >= end) {
            error_setg(errp, "message %u for link %u of %u to %u", m->type,
                       m->link, first, end);
            return false;
        }
        if (m->type == WEFT_FAB_LINK_INFO) {
            return weft_link_info(s, m, errp);
        }
        /* Meant for the port as it was before its reset: */
        return s->fab.welcomes_due || weft_fab_link_message(s, m, fds, errp);
    case WEFT_FAB_PEER_GONE:
        return s->fab.welcomes_due || weft_remote_message(s, m, fds, errp);
    case WEFT_FAB_ROUTE_ACK:
    case WEFT_FAB_ROUTE_DENIED:
        return s->fab.welcomes_due || weft_route_message(s, m, errp);
    case WEFT_FAB_CONFIG_REPLY:
        weft_config_reply(s, m);
        return true;
    case WEFT_FAB_PRESENCE:
        weft_event(s, WEFT_EVENT_PLUG);
        return true;
    case WEFT_FAB_INBOUND_ACK:
        return weft_fab_acked(s, m, errp);
    case WEFT_FAB_GENERATION:
        return weft_fab_generation(s, m, errp);
    case WEFT_FAB_FAULT:
        return weft_fault_message(s, m, errp);
    case WEFT_FAB_TRACE:
        weft_trace_wanted(s, m->arg[0] & 1);
        return true;
    case WEFT_FAB_ADVERSARIAL:
        weft_adversary_wanted(s, m->arg[0] & 1, m->arg[1]);
        return true;
    case WEFT_FAB_COUNTERS_GET:
        weft_fab_counters(s, m);
        return true;
    }
    error_setg(errp, "message of unknown type %u", m->type);
    return false;
}
