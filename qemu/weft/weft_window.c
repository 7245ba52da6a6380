/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the window BAR, and the accesses to it that trap.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/memfd.h"
#include "qapi/error.h"
#include "weft_aperture.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_port.h"
#include "weft_slot.h"

#define WEFT_REPORT_MS          10

/* ---- refused accesses ----------------------------------------------- */

static void weft_report_send(WeftPort *s, unsigned n, unsigned kind)
{
    const WeftTarget *t = &s->slot[n].target;
    WeftReport *r = &s->slot[n].report[kind];
    struct weft_fab_msg m = {
        .type = WEFT_FAB_DENIED, .link = t->via,
        .arg = { r->offset, kind, r->count, t->function },
    };

    if (r->count) {
        weft_fab_send(s, &m);
    }
    r->count = 0;
}

/* The slot is to lead elsewhere: what is left to be told of it is told now. */
void weft_report_flush(WeftPort *s, unsigned slot)
{
    for (unsigned kind = 0; kind <= WEFT_FAB_DENIED_POISONED; kind++) {
        weft_report_send(s, slot, kind);
    }
}

static void weft_report_timer(void *opaque)
{
    WeftPort *s = opaque;

    for (unsigned n = 0; n < s->slots; n++) {
        weft_report_flush(s, n);
    }
}

/* Tell the owner, but not for every access: they may come at any rate. */
void weft_window_report(WeftPort *s, unsigned slot, uint64_t offset,
                        unsigned kind)
{
    WeftReport *r = &s->slot[slot].report[kind];

    if (!r->count++) {
        r->offset = offset;
    }
    if (!timer_pending(s->report_timer)) {
        timer_mod(s->report_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + WEFT_REPORT_MS);
    }
}

/* Count it and tell the owner; the error here is the caller's to raise. */
void weft_window_count_refused(WeftPort *s, unsigned n, uint64_t off,
                               bool write)
{
    WeftSlot *slot = &s->slot[n];

    slot->lost |= write;
    s->counter[write ? WEFT_CNT_OUT_DROPPED : WEFT_CNT_OUT_ONES]++;
    off += slot->active.offset;
    if (slot->target.via == WEFT_VIA_SELF) {
        weft_error_denied(s, WEFT_WHERE_SELF, off, 1);
    } else if (slot->target.via != WEFT_VIA_NONE) {
        weft_window_report(s, n, off, write);
    }
}

static void weft_window_refuse(WeftPort *s, unsigned n, uint64_t off,
                               bool write)
{
    weft_window_count_refused(s, n, off, write);
    weft_error(s, write ? WEFT_ERR_OUT_WRITE : WEFT_ERR_OUT_READ, n, off);
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

/*
 * Move bytes of the live range between @buf and the slot; the caller has
 * checked that this is allowed. False if there is nothing after all.
 */
bool weft_window_move(WeftPort *s, unsigned n, uint64_t off, void *buf,
                      uint64_t len, bool write)
{
    for (uint64_t done = 0, run = 0; done < len; done += run) {
        uint8_t *p = weft_window_host(&s->slot[n].target, off + done, &run);

        if (!p) {
            return false;
        }
        run = MIN(run, len - done);
        if (write) {
            memcpy(p, buf + done, run);
        } else {
            memcpy(buf + done, p, run);
        }
    }
    return true;
}

static uint64_t weft_window_read(void *opaque, hwaddr addr, unsigned size)
{
    WeftPort *s = opaque;
    unsigned n = (addr & (s->wc_offset - 1)) >> s->slot_shift;
    uint64_t off = addr & (s->slot_size - 1);
    const WeftTarget *t = &s->slot[n].target;
    WeftAccess a = { .slot = n, .off = off, .addr = addr, .size = size };
    uint64_t val = 0, run;
    uint8_t *p;

    weft_hook_flush(s);
    if (weft_hook_silent(s)) {
        return UINT64_MAX;
    }
    weft_hook_drain(s);
    if (!weft_window_allowed(t, off, size, WEFT_RIGHT_READ)) {
        weft_window_refuse(s, n, off, false);
        return UINT64_MAX;
    }
    if (weft_hook_load(s, &a)) {
        return UINT64_MAX;
    }
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

/* A store arrives where its slot leads. @addr: in BAR 2. */
void weft_window_put(WeftPort *s, hwaddr addr, uint64_t val, unsigned size)
{
    unsigned n = (addr & (s->wc_offset - 1)) >> s->slot_shift;
    uint64_t off = addr & (s->slot_size - 1);
    const WeftTarget *t = &s->slot[n].target;
    uint64_t run;
    uint8_t *p;

    if (!weft_window_allowed(t, off, size, WEFT_RIGHT_WRITE)) {
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
}

static void weft_window_write(void *opaque, hwaddr addr, uint64_t val,
                              unsigned size)
{
    WeftPort *s = opaque;
    unsigned n = (addr & (s->wc_offset - 1)) >> s->slot_shift;
    uint64_t off = addr & (s->slot_size - 1);
    const WeftTarget *t = &s->slot[n].target;
    WeftAccess a = {
        .slot = n, .off = off, .addr = addr, .val = val, .size = size,
        .combining = addr >= s->wc_offset,
    };

    if (weft_hook_silent(s)) {
        return;
    }
    if (!weft_window_allowed(t, off, size, WEFT_RIGHT_WRITE)) {
        weft_hook_flush(s);
        weft_window_refuse(s, n, off, true);
        return;
    }
    if (!weft_hook_store(s, &a)) {
        weft_window_put(s, addr, val, size);
    }
}

static const MemoryRegionOps weft_window_ops = {
    .read = weft_window_read,
    .write = weft_window_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

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
    if (s == s->pf) {
        s->ones_fd = weft_ones_create(errp);
        if (s->ones_fd < 0) {
            return false;
        }
    }
    ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED) {
        error_setg_errno(errp, errno, "weft-port: address space of the slots");
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
    }
    if (s->ones_fd >= 0) {
        close(s->ones_fd);
    }
}
