/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the neighbour mailbox, vendor-defined messages that need no
 * address on either side.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "weft_port.h"

#define WEFT_MBOX_TX_BYTES_SHIFT        8
#define WEFT_MBOX_LEN_SHIFT             8

void weft_mbox_reset(WeftPort *s)
{
    memset(s->mbox_tx, 0, sizeof(s->mbox_tx));
    s->mbox_failed = false;
    s->mbox_head = 0;
    s->mbox_count = 0;
}

void weft_mbox_send(WeftPort *s, uint32_t val)
{
    unsigned link = val & WEFT_MBOX_LINK;
    uint32_t len = val >> WEFT_MBOX_TX_BYTES_SHIFT;
    struct weft_fab_msg m = { .type = WEFT_FAB_MBOX };

    s->mbox_failed = link >= WEFT_MAX_LINKS || !s->link[link].up ||
                     !weft_fab_ready(s) || !len || len > WEFT_MBOX_BYTES;
    if (s->mbox_failed) {
        return;
    }
    m.link = link;
    m.len = len;
    memcpy(m.data, s->mbox_tx, len);
    s->counter[WEFT_CNT_TX_MSG]++;
    weft_fab_send(s, &m);
}

/* The caller has checked link and len. */
void weft_mbox_receive(WeftPort *s, unsigned link, const uint8_t *data,
                       unsigned len)
{
    WeftMessage *m;

    if (s->mbox_count == WEFT_MBOX_DEPTH) {
        s->counter[WEFT_CNT_MSG_DROPPED]++;
        weft_error(s, WEFT_ERR_MSG_DROPPED, link, 0);
        return;
    }
    m = &s->mbox_rx[(s->mbox_head + s->mbox_count) % WEFT_MBOX_DEPTH];
    memset(m->data, 0, sizeof(m->data));
    memcpy(m->data, data, len);
    m->link = link;
    m->len = len;
    s->mbox_count++;
    s->counter[WEFT_CNT_RX_MSG]++;
    weft_event(s, WEFT_EVENT_MBOX);
}

uint32_t weft_mbox_rx_status(WeftPort *s)
{
    const WeftMessage *m = &s->mbox_rx[s->mbox_head];

    return s->mbox_count ?
           WEFT_MBOX_RX_VALID | m->len << WEFT_MBOX_LEN_SHIFT | m->link : 0;
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
        s->mbox_head = (s->mbox_head + 1) % WEFT_MBOX_DEPTH;
        s->mbox_count--;
    }
}
