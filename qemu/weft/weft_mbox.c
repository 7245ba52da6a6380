/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the neighbour mailbox, vendor-defined messages that need no
 * address on either side, and by routes to ports that have one. Each PF has
 * one; a VF talks to its PF (weft_pair.c).
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "weft_dest.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_link.h"
#include "weft_mbox.h"
#include "weft_port.h"

#define WEFT_MBOX_TX_BYTES              0x007fff00

void weft_mbox_reset(WeftPort *s)
{
    memset(s->mbox_tx, 0, sizeof(s->mbox_tx));
    s->mbox_failed = false;
    s->mbox_tx_lid = 0;
    s->mbox_vps = 0;
    s->mbox_head = 0;
    s->mbox_count = 0;
    s->mbox_routed = 0;
    memset(s->mbox_near, 0, sizeof(s->mbox_near));
}

/* To the port of a local id. Whether a route leads there the fabric knows. */
static bool weft_mbox_far(WeftPort *s, uint32_t dest, struct weft_fab_msg *m)
{
    unsigned function = s->number;

    if (dest & WEFT_DEST_FUNCTION) {
        function = (dest & WEFT_DEST_NUMBER) >> ctz32(WEFT_DEST_NUMBER);
    }
    if (!s->mbox_tx_lid || function >= WEFT_FUNCTIONS) {
        return false;
    }
    m->type = WEFT_FAB_MBOX_LID;
    m->arg[0] = function;
    m->arg[2] = s->mbox_tx_lid;
    return true;
}

static bool weft_mbox_near(WeftPort *s, uint32_t dest, struct weft_fab_msg *m)
{
    unsigned link, function;

    if (dest & WEFT_DEST_TYPE) {
        return false;
    }
    if (!weft_dest_link(s, dest, &link, &function)) {
        if (!weft_dest_switch_up(s, link)) {
            return false;
        }
        /* A switch has one function. */
        function = 0;
    }
    m->link = link;
    m->arg[0] = function;
    return true;
}

void weft_mbox_send(WeftPort *s, uint32_t val)
{
    uint32_t len = (val & WEFT_MBOX_TX_BYTES) >> ctz32(WEFT_MBOX_TX_BYTES);
    uint32_t dest = val & (WEFT_MBOX_LINK | WEFT_DEST_TYPE |
                           WEFT_DEST_FUNCTION | WEFT_DEST_NUMBER);
    struct weft_fab_msg m = { .type = WEFT_FAB_MBOX };

    s->mbox_failed = s != s->pf || !weft_fab_ready(s) || !len ||
                     len > WEFT_MBOX_BYTES ||
                     !(val & WEFT_MBOX_TX_ROUTED ? weft_mbox_far(s, dest, &m) :
                                                   weft_mbox_near(s, dest, &m));
    if (s->mbox_failed) {
        return;
    }
    m.arg[1] = s->number;
    m.len = len;
    memcpy(m.data, s->mbox_tx, len);
    s->counter[WEFT_CNT_TX_MSG]++;
    weft_fab_send(s, &m);
    if (!(val & WEFT_MBOX_TX_ROUTED)) {
        /* The way of the others the fabric knows. */
        weft_traffic_moved(s, m.link, len, true);
    }
}

static bool weft_mbox_check(const struct weft_fab_msg *m, Error **errp)
{
    if (!m->len || m->len > WEFT_MBOX_BYTES || m->arg[1] >= WEFT_FUNCTIONS ||
        (m->type == WEFT_FAB_MBOX_LID &&
         (m->arg[2] > WEFT_DEST_WHERE || m->arg[3] >= WEFT_VPS))) {
        error_setg(errp, "mailbox message of %" PRIu32 " bytes from function %"
                   PRIu64 ", LID %" PRIu64 ", VP %" PRIu64, m->len, m->arg[1],
                   m->arg[2], m->arg[3]);
        return false;
    }
    return true;
}

/*
 * Whether there is room for one more. Each link that is up has a few places
 * of its own, which neither another link's messages nor those by routes take:
 * a neighbour that sends without end does not silence the others.
 */
static bool weft_mbox_has_room(const WeftPort *s, unsigned from, bool routed)
{
    unsigned links = weft_dest_links(s), taken = s->mbox_count;

    if (routed && s->mbox_routed == WEFT_MBOX_ROUTED_DEPTH) {
        return false;
    }
    if (!routed && s->mbox_near[from] < WEFT_MBOX_LINK_DEPTH) {
        return taken < WEFT_MBOX_DEPTH;
    }
    for (unsigned link = 0; link < WEFT_MAX_LINKS; link++) {
        const WeftLink *l = &s->ep->link[link];

        if ((links & BIT(link)) && (l->up || l->switch_up) &&
            s->mbox_near[link] < WEFT_MBOX_LINK_DEPTH) {
            taken += WEFT_MBOX_LINK_DEPTH - s->mbox_near[link];
        }
    }
    return taken < WEFT_MBOX_DEPTH;
}

/* A message, which has been checked, for a function of the endpoint @ep. */
static void weft_mbox_deliver(WeftPort *ep, const struct weft_fab_msg *msg)
{
    WeftPort *s = msg->arg[0] < WEFT_PFS ? ep->function[msg->arg[0]] : NULL;
    bool routed = msg->type == WEFT_FAB_MBOX_LID;
    unsigned gate = routed ? msg->link * WEFT_VPS + msg->arg[3] : 0;
    WeftMessage *m;

    if (!s || !(weft_dest_links(s) & BIT(msg->link)) ||
        (routed && !(s->mbox_vps & BIT_ULL(gate)))) {
        /* It has no reader, or the reader wants none of them. */
        (s ? s : ep)->counter[WEFT_CNT_MSG_DROPPED]++;
        return;
    }
    if (!weft_mbox_has_room(s, msg->link, routed)) {
        s->counter[WEFT_CNT_MSG_DROPPED]++;
        weft_error(s, WEFT_ERR_MSG_DROPPED,
                   routed ? WEFT_WHERE_ROUTED(gate) : msg->link,
                   routed ? msg->arg[2] : 0);
        return;
    }
    m = &s->mbox_rx[(s->mbox_head + s->mbox_count) % WEFT_MBOX_DEPTH];
    memset(m->data, 0, sizeof(m->data));
    memcpy(m->data, msg->data, msg->len);
    m->link = msg->link;
    m->from = msg->arg[1];
    m->len = msg->len;
    m->routed = routed;
    m->lid = routed ? msg->arg[2] : 0;
    m->vp = routed ? msg->arg[3] : 0;
    s->mbox_routed += routed;
    s->mbox_near[msg->link] += !routed;
    s->mbox_count++;
    s->counter[WEFT_CNT_RX_MSG]++;
    weft_event(s, WEFT_EVENT_MBOX);
}

/* MBOX and MBOX_LID */
bool weft_mbox_receive(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp)
{
    if (!weft_mbox_check(m, errp)) {
        return false;
    }
    /* A switch may have sent it itself, or be the last of a route. */
    if (m->type == WEFT_FAB_MBOX_LID || ep->link[m->link].up ||
        ep->link[m->link].switch_up) {
        weft_mbox_deliver(ep, m);
    }
    return true;
}

uint32_t weft_mbox_rx_status(WeftPort *s)
{
    const WeftMessage *m = &s->mbox_rx[s->mbox_head];

    return s->mbox_count ?
           WEFT_MBOX_RX_VALID | m->from << ctz32(WEFT_MBOX_FROM) |
           (m->routed ? WEFT_MBOX_RX_ROUTED : 0) |
           m->vp << ctz32(WEFT_MBOX_VP) |
           m->len << ctz32(WEFT_MBOX_LEN) | m->link : 0;
}

uint32_t weft_mbox_rx_lid(WeftPort *s)
{
    return s->mbox_count ? s->mbox_rx[s->mbox_head].lid : 0;
}

/* @offset: of a word in the message, already checked. */
uint32_t weft_mbox_rx_word(WeftPort *s, unsigned offset)
{
    return s->mbox_count ?
           ldl_le_p(s->mbox_rx[s->mbox_head].data + offset) : 0;
}

void weft_mbox_pop(WeftPort *s)
{
    if (s->mbox_count) {
        const WeftMessage *m = &s->mbox_rx[s->mbox_head];

        s->mbox_routed -= m->routed;
        s->mbox_near[m->link] -= !m->routed;
        s->mbox_head = (s->mbox_head + 1) % WEFT_MBOX_DEPTH;
        s->mbox_count--;
    }
}
