/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: an aperture, as a list of pieces of its owner's RAM.
 */
#include "qemu/osdep.h"
#include "weft_aperture.h"
#include "weft_port.h"

uint64_t weft_aperture_bytes(const WeftAperture *ap)
{
    const WeftSegment *last;

    if (!ap->segments || !ap->segments->len) {
        return 0;
    }
    last = &g_array_index(ap->segments, WeftSegment, ap->segments->len - 1);
    return last->pos + last->len;
}

/*
 * The caller has checked that offset + len does not wrap. @limit: the pieces
 * there may be.
 */
bool weft_aperture_append(WeftAperture *ap, uint64_t offset, uint64_t len,
                          unsigned limit)
{
    WeftSegment seg = {
        .pos = weft_aperture_bytes(ap), .offset = offset, .len = len,
    };
    WeftSegment *last;

    if (len > UINT64_MAX - seg.pos) {
        return false;
    }
    if (!ap->segments) {
        ap->segments = g_array_new(false, false, sizeof(WeftSegment));
    }
    if (ap->segments->len) {
        last = &g_array_index(ap->segments, WeftSegment,
                              ap->segments->len - 1);
        if (last->offset + last->len == offset) {
            last->len += len;
            return true;
        }
    }
    if (ap->segments->len >= limit) {
        return false;
    }
    g_array_append_val(ap->segments, seg);
    return true;
}

void weft_aperture_close(WeftAperture *ap)
{
    if (ap->segments) {
        g_array_free(ap->segments, true);
    }
    *ap = (WeftAperture) { };
}

/* The piece that holds @pos, or NULL. */
const WeftSegment *weft_aperture_find(const WeftAperture *ap, uint64_t pos)
{
    unsigned low = 0, high = ap->segments ? ap->segments->len : 0;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        const WeftSegment *seg = &g_array_index(ap->segments, WeftSegment,
                                                mid);

        if (pos < seg->pos) {
            high = mid;
        } else if (pos - seg->pos >= seg->len) {
            low = mid + 1;
        } else {
            return seg;
        }
    }
    return NULL;
}
