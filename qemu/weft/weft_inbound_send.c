/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what the fabric is told of inbound entries.
 */
#include "qemu/osdep.h"
#include "weft_dest.h"
#include "weft_fab.h"
#include "weft_inbound.h"
#include "weft_port.h"

/* What may come by routes, on the links that the function may use. */
static uint64_t weft_inbound_gates(const WeftPort *s, const WeftAperture *ap)
{
    uint64_t gates = 0;

    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        if (weft_dest_links(s) & BIT(n)) {
            gates |= MAKE_64BIT_MASK(n * WEFT_VPS, WEFT_VPS);
        }
    }
    return ap->gates & gates;
}

static void weft_inbound_send_from(WeftPort *s, unsigned n)
{
    const WeftAperture *ap = &s->inbound[n].open;
    struct weft_fab_msg m = {
        .type = WEFT_FAB_INBOUND_FROM,
        .arg = { s->number * WEFT_MAX_INBOUND + n, ap->from,
                 weft_inbound_gates(s, ap) },
    };

    if (ap->len && m.arg[2]) {
        weft_fab_send(s, &m);
    }
}

void weft_inbound_send(WeftPort *s, unsigned n)
{
    WeftInbound *e = &s->inbound[n];
    const GArray *segs = e->open.segments;
    unsigned total = segs ? segs->len : 0, first = 0;
    struct weft_fab_msg m = { .type = WEFT_FAB_INBOUND };
    struct weft_fab_seg piece[WEFT_FAB_SEGS];

    QEMU_BUILD_BUG_ON(sizeof(piece) > sizeof(m.data));

    weft_inbound_send_from(s, n);
    m.arg[0] = s->number * WEFT_MAX_INBOUND + n;
    m.arg[1] = e->open.offset;
    m.arg[2] = e->open.len;
    m.arg[3] = e->open.rights;
    m.arg[4] = e->open.allow & weft_dest_links(s);
    do {
        unsigned count = MIN(total - first, WEFT_FAB_SEGS);

        for (unsigned i = 0; i < count; i++) {
            const WeftSegment *seg = &g_array_index(segs, WeftSegment,
                                                    first + i);

            piece[i].offset = seg->offset;
            piece[i].len = seg->len;
        }
        m.len = count * sizeof(piece[0]);
        memcpy(m.data, piece, m.len);
        m.arg[5] = (uint64_t)e->seq << 32 | first << 1 |
                   (first + count < total);
        weft_fab_send(s, &m);
        first += count;
    } while (first < total);
}

/* A fabric that knows nothing of this port wants to know. */
void weft_inbound_publish(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        if (s->inbound[n].open.len) {
            s->inbound[n].seq++;
            weft_inbound_send(s, n);
        }
    }
}
