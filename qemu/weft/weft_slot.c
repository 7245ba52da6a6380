/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: outbound slots, where each leads and what lies under it.
 *
 * A live slot that may be read and written runs straight on the peer's
 * memory: the RAM region below the slots is made once, and the host mapping
 * under it is changed. That is safe against other vCPUs at once, while a
 * change of the memory topology reaches them only some time later. All else
 * traps (weft_window.c): refused accesses, partial rights, odd alignments,
 * traced and adversarial mode.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "trace.h"
#include "weft_aperture.h"
#include "weft_dest.h"
#include "weft_hook.h"
#include "weft_port.h"
#include "weft_slot.h"

/* ---- where a slot leads --------------------------------------------- */

static const WeftAperture *weft_slot_match(const WeftAperture *ap,
                                           uint64_t offset)
{
    return ap->len && offset >= ap->offset && offset - ap->offset < ap->len ?
           ap : NULL;
}

static WeftTarget weft_slot_resolve(WeftPort *s, WeftSlot *slot)
{
    const WeftSlotRegs *r = &slot->active;
    unsigned link, function;
    WeftTarget t = { .via = WEFT_VIA_NONE };

    if (!(r->ctrl & WEFT_SLOT_ENABLE) || weft_hook_silent(s) ||
        slot - s->slot >= s->quota->slots) {
        return t;
    }
    switch (r->dest & WEFT_DEST_TYPE) {
    case WEFT_DEST_SELF:
        t.via = WEFT_VIA_SELF;
        t.ram = &s->pf->ram;
        break;
    case WEFT_DEST_LINK:
        if (!weft_dest_link(s, r->dest, &link, &function)) {
            return t;
        }
        t.via = link;
        t.function = function;
        t.ram = &s->link[link].ram;
        break;
    case WEFT_DEST_LID:
        if (!weft_dest_remote(s, r->dest, &link, &function)) {
            return t;
        }
        t.via = link;
        t.function = function;
        if (!s->link[link].up) {
            return t;
        }
        t.ram = &s->link[link].ram;
        break;
    default:
        return t;
    }
    if (!r->len || r->len > s->slot_size ||
        r->len - 1 > UINT64_MAX - r->offset) {
        return t;
    }
    for (unsigned n = 0; n < WEFT_MAX_INBOUND && !t.aperture; n++) {
        if (t.via != WEFT_VIA_SELF) {
            unsigned seen = function * WEFT_MAX_INBOUND + n;

            t.aperture = weft_slot_match(&s->link[link].seen[seen], r->offset);
        } else if (s->inbound[n].open.allow & WEFT_ALLOW_SELF) {
            t.aperture = weft_slot_match(&s->inbound[n].open, r->offset);
        }
    }
    if (t.aperture) {
        t.serial = t.aperture->serial;
        t.pos = r->offset - t.aperture->offset;
        t.len = MIN(r->len, t.aperture->len - t.pos);
    }
    return t;
}

/* ---- the host mapping under the slots ------------------------------- */

static uint8_t *weft_slot_host(WeftPort *s, unsigned n)
{
    return s->slot_ptr + ((uint64_t)n << s->slot_shift);
}

/* Private pages of ones: nothing written there goes anywhere. */
static void weft_slot_unmap(WeftPort *s, unsigned n, uint64_t from,
                            uint64_t to)
{
    uint8_t *base = weft_slot_host(s, n);

    while (from < to) {
        uint64_t len = MIN(to - from, WEFT_ONES_BYTES);

        if (mmap(base + from, len, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->pf->ones_fd, 0) ==
            MAP_FAILED) {
            break;
        }
        from += len;
    }
    /* Short of mappings: one of zeroes for the rest needs none. */
    if (from < to &&
        mmap(base + from, to - from, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
        MAP_FAILED) {
        /* The peer's memory must not stay in reach. */
        error_report("weft-port: cannot unmap a slot: %s", strerror(errno));
        abort();
    }
}

static bool weft_slot_map(WeftPort *s, unsigned n, const WeftTarget *t)
{
    uint8_t *base = weft_slot_host(s, n);
    uint64_t done = 0;

    while (done < t->len) {
        const WeftSegment *seg = weft_aperture_find(t->aperture,
                                                    t->pos + done);
        uint64_t skip, len;

        if (!seg) {
            return false;
        }
        skip = t->pos + done - seg->pos;
        len = MIN(seg->len - skip, t->len - done);
        if (mmap(base + done, len, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, t->ram->fd,
                 seg->offset + skip) == MAP_FAILED) {
            return false;
        }
        done += len;
    }
    return true;
}

/* The peer's memory can lie under the slot. */
static bool weft_slot_mappable(WeftPort *s, const WeftTarget *t)
{
    return t->aperture && t->aperture->rights == WEFT_RIGHTS &&
           !(t->pos % WEFT_PAGE) && !(t->len % WEFT_PAGE) &&
           !weft_hook_dead(s, t->via);
}

static bool weft_slot_same(const WeftTarget *a, const WeftTarget *b)
{
    return a->via == b->via && a->aperture == b->aperture &&
           a->serial == b->serial && a->pos == b->pos && a->len == b->len;
}

static void weft_slot_update(WeftPort *s, unsigned n)
{
    WeftSlot *slot = &s->slot[n];
    WeftTarget t = weft_slot_resolve(s, slot);
    uint64_t want = weft_slot_mappable(s, &t) ? t.len : 0;
    uint64_t had = slot->mapped, was_direct = slot->direct;
    bool other = want != had ||
                 (want && (slot->mapped_serial != t.serial ||
                           slot->mapped_pos != t.pos));

    if (t.via != slot->target.via || t.function != slot->target.function) {
        /* The port that was to be told is not there any more. */
        memset(slot->report, 0, sizeof(slot->report));
    }
    if (!weft_slot_same(&slot->target, &t)) {
        weft_hook_drop(s, n);
    }
    slot->target = t;
    if (other) {
        trace_weft_slot_map(s->ep->node, s->number, n, t.via, t.pos, want);
        if (want && !weft_slot_map(s, n, &t)) {
            /* It works all the same, by trapping. */
            warn_report_once("weft-port: cannot map a slot: %s; it will be "
                             "slow", strerror(errno));
            had = MAX(had, want);
            want = 0;
        }
        weft_slot_unmap(s, n, want, had);
        slot->mapped = want;
        slot->mapped_serial = t.serial;
        slot->mapped_pos = t.pos;
    }
    /*
     * Where accesses are only to trap, the memory stays: a vCPU that has not
     * heard of it yet may still store there, and that must not be lost.
     */
    slot->direct = weft_hook_traps(s, t.via) ? 0 : slot->mapped;
    if (slot->direct != was_direct || (other && slot->direct)) {
        s->counter[WEFT_CNT_REMAPS]++;
    }
}

static void weft_slot_show(WeftSlot *slot)
{
    if (slot->shown == slot->direct) {
        return;
    }
    if (slot->direct) {
        memory_region_set_size(&slot->uncached, slot->direct);
        memory_region_set_size(&slot->combining, slot->direct);
    }
    memory_region_set_enabled(&slot->uncached, slot->direct != 0);
    memory_region_set_enabled(&slot->combining, slot->direct != 0);
    slot->shown = slot->direct;
}

/* Let the guest's memory map follow. */
void weft_slots_show(WeftPort *s)
{
    memory_region_transaction_begin();
    for (unsigned n = 0; n < s->slots; n++) {
        weft_slot_show(&s->slot[n]);
    }
    memory_region_transaction_commit();
}

/*
 * Links, apertures or slots have changed. When this returns, nothing that was
 * taken away can be reached any more.
 */
void weft_slots_update(WeftPort *s)
{
    for (unsigned n = 0; n < s->slots; n++) {
        weft_slot_update(s, n);
    }
    /* An unmap may come from the middle of a change of the memory map. */
    if (!weft_hook_put_off(s)) {
        weft_slots_show(s);
    }
}

/* Links or a neighbour's apertures have changed. */
void weft_slots_update_all(WeftPort *ep)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_slots_update(f);
    }
}
