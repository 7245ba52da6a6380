/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the IOMMU in front of this function.
 *
 * Inbound entries are translated when they are latched, and neighbours map
 * what came out of it. To the IOMMU that is a device which caches
 * translations: an invalidation is not complete before the device has dropped
 * them. So an unmap is dealt with, here, before the IOMMU's register write or
 * queue entry is done with: the tables are asked again, entries that they do
 * not map any more as before are closed, and the neighbours are waited for.
 *
 * The wait holds the BQL. It serves the fabric itself, so that two ports that
 * withdraw from each other both get on, in one QEMU or in two; it ends after
 * "unmap-wait" milliseconds, for a neighbour may hang. It may begin inside an
 * access to the IOMMU's registers or inside a change of the memory map, and
 * neither may be entered again: interrupts, which are writes that the IOMMU
 * remaps, and changes to the guest's memory map are put off until it is over.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "weft_aperture.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_port.h"
#include "weft_slot.h"

/* ---- the wait -------------------------------------------------------- */

/* Some port of this QEMU waits; how deep. */
static unsigned weft_iommu_waits;

/* What was put off. */
static void weft_iommu_resume(void *opaque)
{
    WeftPort *s = opaque;
    uint32_t vectors = s->iommu.vectors;

    s->iommu.vectors = 0;
    weft_slots_show(s);
    weft_interrupt(s, vectors);
}

/* Is now the wrong moment? Then weft_iommu_resume() comes when it is over. */
static bool weft_iommu_put_off(WeftPort *s)
{
    if (!weft_iommu_waits) {
        return false;
    }
    if (!s->iommu.resume) {
        s->iommu.resume = qemu_bh_new(weft_iommu_resume, s);
    }
    qemu_bh_schedule(s->iommu.resume);
    return true;
}

static bool weft_iommu_interrupt(WeftPort *s, uint32_t vectors)
{
    if (!weft_iommu_put_off(s)) {
        return false;
    }
    s->iommu.vectors |= vectors;
    return true;
}

const WeftHooks weft_iommu_hooks = {
    .interrupt = weft_iommu_interrupt,
    .put_off = weft_iommu_put_off,
};

/* [first, last] has been unmapped: return when no neighbour reaches it. */
static void weft_iommu_unmapped(WeftPort *s, uint64_t first, uint64_t last)
{
    int64_t end = qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + s->unmap_wait;
    const WeftIommuOps *ops = s->iommu.ops;

    weft_iommu_waits++;
    ops->unmapped(s, first, last);
    while (ops->held(s, first, last)) {
        if (qemu_clock_get_ms(QEMU_CLOCK_REALTIME) >= end) {
            ops->late(s, first, last);
            break;
        }
        weft_fab_wait(1);
        ops->settle(s->ep);
    }
    weft_iommu_waits--;
}

/* ---- what the tables say --------------------------------------------- */

/*
 * Where @base lies in guest RAM, and how much (@len: at most) from there on.
 * Within RCU.
 */
bool weft_iommu_page(WeftPort *s, AddressSpace *as, uint64_t base, bool write,
                     uint64_t *offset, uint64_t *len)
{
    hwaddr xlat, plen = *len;
    MemoryRegion *mr = address_space_translate(as, base, &xlat, &plen, write,
                                               MEMTXATTRS_UNSPECIFIED);

    *offset = xlat;
    *len = plen;
    return mr == s->pf->ram_mr && plen && !(plen % WEFT_PAGE) &&
           !(xlat % WEFT_PAGE) && xlat <= s->pf->ram.size &&
           plen <= s->pf->ram.size - xlat;
}

typedef struct WeftWalk {
    IOMMUNotifier notifier;
    WeftPort *s;
    const WeftAperture *ap;
    uint64_t base;
    uint64_t same;              /* bytes that are mapped as they were */
} WeftWalk;

/* Does guest-physical @addr lie where the aperture has @pos? */
static bool weft_iommu_same(WeftWalk *w, AddressSpace *as, uint64_t addr,
                            uint64_t pos)
{
    const WeftSegment *seg = weft_aperture_find(w->ap, pos);
    uint64_t offset, len = WEFT_PAGE;

    return seg && weft_iommu_page(w->s, as, addr, false, &offset, &len) &&
           offset == seg->offset + pos - seg->pos;
}

/* A mapping, of a page or of many. */
static void weft_iommu_walk(IOMMUNotifier *n, IOMMUTLBEntry *e)
{
    WeftWalk *w = container_of(n, WeftWalk, notifier);
    uint64_t first = MAX(e->iova, w->base);
    uint64_t last = MIN(e->iova + e->addr_mask, w->base + w->ap->len - 1);
    uint32_t rights = (e->perm & IOMMU_RO ? WEFT_RIGHT_READ : 0) |
                      (e->perm & IOMMU_WO ? WEFT_RIGHT_WRITE : 0);

    if (first > last || (w->ap->rights & ~rights)) {
        return;
    }
    for (uint64_t at = first; at - first <= last - first; at += WEFT_PAGE) {
        if (weft_iommu_same(w, e->target_as, e->translated_addr + at - e->iova,
                            at - w->base)) {
            w->same += WEFT_PAGE;
        }
    }
}

/*
 * Is all of @ap, at @base, still mapped as it was? A translation would not
 * tell: of a function that has just left its domain the IOMMU may still have
 * cached ones, and not say so when it drops them.
 */
bool weft_iommu_maps(WeftPort *s, const WeftAperture *ap, uint64_t base)
{
    WeftWalk w = { .s = s, .ap = ap, .base = base };
    MemoryRegion *mr = s->iommu.mr;

    RCU_READ_LOCK_GUARD();
    if (s->iommu.unwatched) {
        return false;
    }
    if (!mr) {
        for (uint64_t pos = 0; pos < ap->len; pos += WEFT_PAGE) {
            w.same += weft_iommu_same(&w, s->iommu.as, base + pos, pos) ?
                      WEFT_PAGE : 0;
        }
    } else if (IOMMU_MEMORY_REGION_GET_CLASS(mr)->replay) {
        iommu_notifier_init(&w.notifier, weft_iommu_walk, IOMMU_NOTIFIER_MAP,
                            0, HWADDR_MAX, s->iommu.notifier.iommu_idx);
        memory_region_iommu_replay(IOMMU_MEMORY_REGION(mr), &w.notifier);
    }
    return w.same == ap->len;
}

/* ---- what the IOMMU tells -------------------------------------------- */

static void weft_iommu_notify(IOMMUNotifier *n, IOMMUTLBEntry *e)
{
    WeftPort *s = container_of(n, WeftPort, iommu.notifier);

    weft_iommu_unmapped(s, e->iova, e->iova + e->addr_mask);
}

static void weft_iommu_add(MemoryListener *l, MemoryRegionSection *section)
{
    WeftPort *s = container_of(l, WeftPort, iommu.listener);
    WeftIommu *i = &s->iommu;
    Error *err = NULL;

    if (!memory_region_is_iommu(section->mr)) {
        return;
    }
    i->changed = true;
    if (i->mr == section->mr) {
        i->sections++;
        return;
    }
    /* All of it: what is told is not cut to the notifier's range. */
    iommu_notifier_init(&i->notifier, weft_iommu_notify, IOMMU_NOTIFIER_UNMAP,
                        0, HWADDR_MAX,
                        memory_region_iommu_attrs_to_index(
                            IOMMU_MEMORY_REGION(section->mr),
                            MEMTXATTRS_UNSPECIFIED));
    if (i->mr) {
        error_setg(&err, "it is not the only one");
    } else if (!memory_region_register_iommu_notifier(section->mr,
                                                      &i->notifier, &err)) {
        i->mr = section->mr;
        i->sections = 1;
        return;
    }
    if (i->unwatched++) {
        error_free(err);
    } else {
        warn_reportf_err(err, "weft-port %s: the IOMMU does not tell of "
                         "unmaps, no inbound entry will be live: ", s->node);
    }
}

static void weft_iommu_del(MemoryListener *l, MemoryRegionSection *section)
{
    WeftPort *s = container_of(l, WeftPort, iommu.listener);
    WeftIommu *i = &s->iommu;

    if (!memory_region_is_iommu(section->mr)) {
        return;
    }
    i->changed = true;
    if (i->mr != section->mr) {
        i->unwatched--;
    } else if (!--i->sections) {
        memory_region_unregister_iommu_notifier(i->mr, &i->notifier);
        i->mr = NULL;
    }
}

/* Translation was switched on, off or past: nothing is where it was. */
static void weft_iommu_commit(MemoryListener *l)
{
    WeftPort *s = container_of(l, WeftPort, iommu.listener);

    if (s->iommu.changed) {
        s->iommu.changed = false;
        weft_iommu_unmapped(s, 0, UINT64_MAX);
    }
}

/* ---- life ------------------------------------------------------------ */

void weft_iommu_init(WeftPort *s, const WeftIommuOps *ops)
{
    s->iommu.ops = ops;
}

/*
 * From the first entry on, and not when the device is made: at that time
 * there may be no IOMMU yet. False: unmaps would not be noticed.
 */
bool weft_iommu_watch(WeftPort *s)
{
    WeftIommu *i = &s->iommu;

    if (!i->as) {
        i->as = pci_device_iommu_address_space(PCI_DEVICE(s));
        i->listener = (MemoryListener) {
            .name = "weft-port",
            .region_add = weft_iommu_add,
            .region_del = weft_iommu_del,
            .commit = weft_iommu_commit,
        };
        memory_listener_register(&i->listener, i->as);
    }
    return !i->unwatched;
}

void weft_iommu_exit(WeftPort *s)
{
    WeftIommu *i = &s->iommu;

    if (i->as) {
        i->listener.commit = NULL;
        memory_listener_unregister(&i->listener);
    }
    if (i->resume) {
        qemu_bh_delete(i->resume);
    }
    *i = (WeftIommu) { .ops = i->ops };
}
