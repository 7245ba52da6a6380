/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: outbound slots and the window BAR.
 *
 * A live slot that may be read and written runs straight on the peer's
 * memory: the RAM region below the slots is made once, and the host mapping
 * under it is changed. That is safe against other vCPUs at once, while a
 * change of the memory topology reaches them only some time later. All else
 * traps: refused accesses, partial rights, odd alignments, traced mode.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/memfd.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "weft_port.h"

/* What lies under a slot that has just been taken away, for late vCPUs. */
#define WEFT_ONES_BYTES         (1 * MiB)
#define WEFT_REPORT_MS          10

#define WEFT_RIGHTS             (WEFT_RIGHT_READ | WEFT_RIGHT_WRITE)

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
    unsigned link = r->dest & ~WEFT_DEST_TYPE;
    WeftTarget t = { .via = WEFT_VIA_NONE };

    if (!(r->ctrl & WEFT_SLOT_ENABLE)) {
        return t;
    }
    switch (r->dest & WEFT_DEST_TYPE) {
    case WEFT_DEST_SELF:
        t.via = WEFT_VIA_SELF;
        t.ram = &s->ram;
        break;
    case WEFT_DEST_LINK:
        if (link >= WEFT_MAX_LINKS || !s->link[link].up) {
            return t;
        }
        t.via = link;
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
            t.aperture = weft_slot_match(&s->link[link].seen[n], r->offset);
        } else if (s->inbound[n].open.allow & WEFT_ALLOW_SELF) {
            t.aperture = weft_slot_match(&s->inbound[n].open, r->offset);
        }
    }
    if (t.aperture) {
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
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->ones_fd, 0) ==
            MAP_FAILED &&
            mmap(base + from, len, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                 -1, 0) == MAP_FAILED) {
            /* The peer's memory must not stay in reach: there is no plan C. */
            error_report("weft-port: cannot unmap a slot: %s",
                         strerror(errno));
            abort();
        }
        from += len;
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

static bool weft_slot_direct(WeftPort *s, const WeftTarget *t)
{
    return t->aperture && !s->traced && t->aperture->rights == WEFT_RIGHTS &&
           !(t->pos % WEFT_PAGE) && !(t->len % WEFT_PAGE);
}

static void weft_slot_update(WeftPort *s, unsigned n)
{
    WeftSlot *slot = &s->slot[n];
    WeftTarget t = weft_slot_resolve(s, slot);
    uint64_t serial = t.aperture ? t.aperture->serial : 0;
    uint64_t want = weft_slot_direct(s, &t) ? t.len : 0;
    uint64_t had = slot->mapped;

    slot->target = t;
    if (want == had &&
        (!want || (slot->mapped_serial == serial &&
                   slot->mapped_pos == t.pos))) {
        return;
    }
    if (want && !weft_slot_map(s, n, &t)) {
        /* It works all the same, by trapping. */
        warn_report_once("weft-port: cannot map a slot: %s; it will be slow",
                         strerror(errno));
        had = MAX(had, want);
        want = 0;
    }
    weft_slot_unmap(s, n, want, had);
    if (want != slot->mapped) {
        if (want) {
            memory_region_set_size(&slot->uncached, want);
            memory_region_set_size(&slot->combining, want);
        }
        memory_region_set_enabled(&slot->uncached, want != 0);
        memory_region_set_enabled(&slot->combining, want != 0);
    }
    slot->mapped = want;
    slot->mapped_serial = serial;
    slot->mapped_pos = t.pos;
    s->counter[WEFT_CNT_REMAPS]++;
}

/*
 * Links, apertures or slots have changed. When this returns, nothing that was
 * taken away can be reached any more.
 */
void weft_window_update(WeftPort *s)
{
    memory_region_transaction_begin();
    for (unsigned n = 0; n < s->slots; n++) {
        weft_slot_update(s, n);
    }
    memory_region_transaction_commit();
}

/* ---- refused accesses ----------------------------------------------- */

static void weft_report_send(WeftPort *s, unsigned n, unsigned kind)
{
    WeftReport *r = &s->link[n].report[kind];
    struct weft_fab_msg m = {
        .type = WEFT_FAB_DENIED, .link = n,
        .arg = { r->offset, kind, r->count },
    };

    if (r->count && s->link[n].up) {
        weft_fab_send(s, &m);
    }
    r->count = 0;
}

static void weft_report_timer(void *opaque)
{
    WeftPort *s = opaque;

    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        weft_report_send(s, n, 0);
        weft_report_send(s, n, 1);
    }
}

/* Tell the owner, but not for every access: they may come at any rate. */
static void weft_report(WeftPort *s, unsigned n, uint64_t offset, bool write)
{
    WeftReport *r = &s->link[n].report[write];

    if (!r->count++) {
        r->offset = offset;
    }
    if (!timer_pending(s->report_timer)) {
        timer_mod(s->report_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + WEFT_REPORT_MS);
    }
}

static void weft_window_refuse(WeftPort *s, unsigned n, uint64_t off,
                               bool write)
{
    const WeftSlot *slot = &s->slot[n];

    s->counter[write ? WEFT_CNT_OUT_DROPPED : WEFT_CNT_OUT_ONES]++;
    weft_error(s, write ? WEFT_ERR_OUT_WRITE : WEFT_ERR_OUT_READ, n, off);

    off += slot->active.offset;
    if (slot->target.via == WEFT_VIA_SELF) {
        weft_inbound_denied(s, WEFT_VIA_SELF, off, 1);
    } else if (slot->target.via != WEFT_VIA_NONE) {
        weft_report(s, slot->target.via, off, write);
    }
}

/* ---- accesses that trap --------------------------------------------- */

static bool weft_window_allowed(const WeftTarget *t, uint64_t off,
                                unsigned size, uint32_t right)
{
    return t->aperture && (t->aperture->rights & right) && off < t->len &&
           size <= t->len - off;
}

/* The host address of @off in the slot, with @run bytes behind it. */
static uint8_t *weft_window_host(const WeftTarget *t, uint64_t off,
                                 uint64_t *run)
{
    const WeftSegment *seg = weft_aperture_find(t->aperture, t->pos + off);
    uint64_t skip;

    if (!seg) {
        return NULL;
    }
    skip = t->pos + off - seg->pos;
    *run = seg->len - skip;
    return t->ram->ptr + seg->offset + skip;
}

static uint64_t weft_window_read(void *opaque, hwaddr addr, unsigned size)
{
    WeftPort *s = opaque;
    unsigned n = (addr & (s->wc_offset - 1)) >> s->slot_shift;
    uint64_t off = addr & (s->slot_size - 1);
    const WeftTarget *t = &s->slot[n].target;
    uint64_t val = 0, run;
    uint8_t *p;

    weft_trace_close(s);
    if (!weft_window_allowed(t, off, size, WEFT_RIGHT_READ)) {
        weft_window_refuse(s, n, off, false);
        return UINT64_MAX;
    }
    weft_trace_read(s, size);
    p = weft_window_host(t, off, &run);
    if (p && run >= size) {
        return ldn_le_p(p, size);
    }
    for (unsigned i = 0; i < size; i++) {
        p = weft_window_host(t, off + i, &run);
        val |= (uint64_t)(p ? *p : 0xff) << 8 * i;
    }
    return val;
}

static void weft_window_write(void *opaque, hwaddr addr, uint64_t val,
                              unsigned size)
{
    WeftPort *s = opaque;
    unsigned n = (addr & (s->wc_offset - 1)) >> s->slot_shift;
    uint64_t off = addr & (s->slot_size - 1);
    const WeftTarget *t = &s->slot[n].target;
    uint64_t run;
    uint8_t *p;

    if (!weft_window_allowed(t, off, size, WEFT_RIGHT_WRITE)) {
        weft_trace_close(s);
        weft_window_refuse(s, n, off, true);
        return;
    }
    p = weft_window_host(t, off, &run);
    if (p && run >= size) {
        stn_le_p(p, size, val);
    } else {
        for (unsigned i = 0; i < size; i++) {
            p = weft_window_host(t, off + i, &run);
            if (p) {
                *p = val >> 8 * i;
            }
        }
    }
    weft_trace_write(s, addr, size, addr >= s->wc_offset);
}

static const MemoryRegionOps weft_window_ops = {
    .read = weft_window_read,
    .write = weft_window_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/* ---- registers ------------------------------------------------------ */

uint32_t weft_slot_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftSlot *slot = &s->slot[n];

    switch (reg) {
    case WEFT_SLOT_DEST:
        return slot->regs.dest;
    case WEFT_SLOT_OFFSET:
        return slot->regs.offset;
    case WEFT_SLOT_OFFSET + 4:
        return slot->regs.offset >> 32;
    case WEFT_SLOT_LEN:
        return slot->regs.len;
    case WEFT_SLOT_LEN + 4:
        return slot->regs.len >> 32;
    case WEFT_SLOT_CTRL:
        return slot->regs.ctrl;
    case WEFT_SLOT_STATUS:
        return (slot->target.aperture ? WEFT_SLOT_LIVE : 0) |
               (slot->mapped ? WEFT_SLOT_DIRECT : 0);
    }
    return 0;
}

void weft_slot_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    WeftSlot *slot = &s->slot[n];
    WeftSlotRegs *r = &slot->regs;

    switch (reg) {
    case WEFT_SLOT_DEST:
        r->dest = val;
        break;
    case WEFT_SLOT_OFFSET:
        r->offset = deposit64(r->offset, 0, 32, val);
        break;
    case WEFT_SLOT_OFFSET + 4:
        r->offset = deposit64(r->offset, 32, 32, val);
        break;
    case WEFT_SLOT_LEN:
        r->len = deposit64(r->len, 0, 32, val);
        break;
    case WEFT_SLOT_LEN + 4:
        r->len = deposit64(r->len, 32, 32, val);
        break;
    case WEFT_SLOT_CTRL:
        r->ctrl = val & WEFT_SLOT_ENABLE;
        slot->active = *r;
        weft_window_update(s);
        break;
    }
}

void weft_window_reset(WeftPort *s)
{
    for (unsigned n = 0; n < s->slots; n++) {
        s->slot[n].regs = (WeftSlotRegs) { };
        s->slot[n].active = (WeftSlotRegs) { };
    }
    timer_del(s->report_timer);
    weft_window_update(s);
}

/* ---- life ------------------------------------------------------------ */

static int weft_ones_create(Error **errp)
{
    int fd = qemu_memfd_create("weft-ones", WEFT_ONES_BYTES, false, 0,
                               F_SEAL_GROW | F_SEAL_SHRINK, errp);
    void *ptr;

    if (fd < 0) {
        return -1;
    }
    ptr = mmap(NULL, WEFT_ONES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               0);
    if (ptr == MAP_FAILED) {
        error_setg_errno(errp, errno, "weft-port: page of ones");
        close(fd);
        return -1;
    }
    memset(ptr, 0xff, WEFT_ONES_BYTES);
    munmap(ptr, WEFT_ONES_BYTES);
    return fd;
}

static void weft_alias_init(WeftPort *s, MemoryRegion *mr, const char *kind,
                            unsigned n, uint64_t at)
{
    g_autofree char *name = g_strdup_printf("weft-%s%u", kind, n);
    uint64_t off = (uint64_t)n << s->slot_shift;

    memory_region_init_alias(mr, OBJECT(s), name, &s->slot_ram, off,
                             s->slot_size);
    memory_region_set_enabled(mr, false);
    memory_region_add_subregion_overlap(&s->bar_window, at + off, mr, 1);
}

bool weft_window_init(WeftPort *s, Error **errp)
{
    uint64_t bytes = s->slots * s->slot_size;
    void *ptr;

    s->slot_shift = ctz64(s->slot_size);
    s->wc_offset = bytes;
    s->ones_fd = weft_ones_create(errp);
    if (s->ones_fd < 0) {
        return false;
    }
    ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED) {
        error_setg_errno(errp, errno, "weft-port: address space of the slots");
        close(s->ones_fd);
        s->ones_fd = -1;
        return false;
    }
    s->slot_ptr = ptr;
    memory_region_init_io(&s->bar_window, OBJECT(s), &weft_window_ops, s,
                          "weft-window", 2 * bytes);
    memory_region_init_ram_ptr(&s->slot_ram, OBJECT(s), "weft-slots", bytes,
                               ptr);
    for (unsigned n = 0; n < s->slots; n++) {
        weft_alias_init(s, &s->slot[n].uncached, "slot", n, 0);
        weft_alias_init(s, &s->slot[n].combining, "slot-wc", n, s->wc_offset);
    }
    s->report_timer = timer_new_ms(QEMU_CLOCK_REALTIME, weft_report_timer, s);
    return true;
}

void weft_window_exit(WeftPort *s)
{
    /* Left in place, the subregions would keep the device alive for ever. */
    for (unsigned n = 0; n < s->slots; n++) {
        memory_region_del_subregion(&s->bar_window, &s->slot[n].uncached);
        memory_region_del_subregion(&s->bar_window, &s->slot[n].combining);
    }
    timer_free(s->report_timer);
    s->report_timer = NULL;
}

/* The last reference is gone, and with it the last vCPU that looked there. */
void weft_window_finalize(WeftPort *s)
{
    if (s->slot_ptr) {
        munmap(s->slot_ptr, s->slots * s->slot_size);
        close(s->ones_fd);
    }
}
