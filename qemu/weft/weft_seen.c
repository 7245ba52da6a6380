/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: apertures of a neighbour, as the fabric tells of them.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "weft_aperture.h"
#include "weft_link.h"
#include "weft_port.h"

static bool weft_seen_start(WeftLink *link, const struct weft_fab_msg *m,
                            Error **errp)
{
    WeftAperture *ap = &link->partial.aperture;

    if ((m->arg[1] | m->arg[2]) % WEFT_PAGE ||
        (m->arg[2] && m->arg[2] - 1 > UINT64_MAX - m->arg[1]) ||
        m->arg[3] & ~(uint64_t)WEFT_RIGHTS) {
        error_setg(errp, "aperture of %" PRIu64 " bytes at 0x%" PRIx64
                   ", rights 0x%" PRIx64, m->arg[2], m->arg[1], m->arg[3]);
        return false;
    }
    weft_aperture_close(ap);
    ap->offset = m->arg[1];
    ap->len = m->arg[2];
    ap->rights = m->arg[3];
    link->partial.active = true;
    link->partial.entry = m->arg[0];
    link->partial.seq = m->arg[5] >> 32;
    link->partial.segments = 0;
    return true;
}

static bool weft_seen_add(WeftLink *link, const struct weft_fab_msg *m,
                          Error **errp)
{
    struct weft_fab_seg seg;

    for (uint32_t at = 0; at < m->len; at += sizeof(seg)) {
        memcpy(&seg, m->data + at, sizeof(seg));
        if (!seg.len || (seg.offset | seg.len) % WEFT_PAGE ||
            seg.offset > link->ram.size ||
            seg.len > link->ram.size - seg.offset ||
            !weft_aperture_append(&link->partial.aperture, seg.offset,
                                  seg.len, WEFT_MAX_SEGMENTS)) {
            error_setg(errp, "segment of %" PRIu64 " bytes at 0x%" PRIx64
                       " in RAM of %" PRIu64 " bytes", seg.len, seg.offset,
                       link->ram.size);
            return false;
        }
        link->partial.segments++;
    }
    return true;
}

/*
 * INBOUND of the neighbour. The slots follow when the caller has taken all
 * that is there to be read, and only then may the change be confirmed.
 */
bool weft_seen_inbound(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                       Error **errp)
{
    WeftLink *link = &s->link[m->link];
    WeftAperture *ap = &link->partial.aperture;
    uint32_t first = (uint32_t)m->arg[5] >> 1;
    struct weft_fab_msg ack = {
        .type = WEFT_FAB_INBOUND_ACK, .link = m->link,
    };

    if (!link->up) {
        /* A link that went down takes its apertures along. */
        return true;
    }
    if (m->arg[0] >= ARRAY_SIZE(link->seen) ||
        m->len % sizeof(struct weft_fab_seg)) {
        error_setg(errp, "aperture entry %" PRIu64 " with %" PRIu32
                   " bytes of segments", m->arg[0], m->len);
        return false;
    }
    if (!first && !weft_seen_start(link, m, errp)) {
        return false;
    }
    if (!link->partial.active || link->partial.entry != m->arg[0] ||
        link->partial.seq != m->arg[5] >> 32 ||
        link->partial.segments != first ||
        ap->offset != m->arg[1] || ap->len != m->arg[2] ||
        ap->rights != m->arg[3]) {
        error_setg(errp, "aperture in pieces that do not fit together");
        return false;
    }
    if (!weft_seen_add(link, m, errp)) {
        return false;
    }
    if (m->arg[5] & 1) {
        return true;
    }
    if (weft_aperture_bytes(ap) != ap->len) {
        error_setg(errp, "aperture of %" PRIu64 " bytes with %" PRIu64
                   " in its segments", ap->len, weft_aperture_bytes(ap));
        return false;
    }
    weft_aperture_close(&link->seen[m->arg[0]]);
    ap->serial = ++s->aperture_serial;
    link->seen[m->arg[0]] = *ap;
    *ap = (WeftAperture) { };
    link->partial.active = false;

    ack.arg[0] = m->arg[0];
    ack.arg[5] = m->arg[5];
    g_array_append_val(s->fab.acks, ack);
    return true;
}
