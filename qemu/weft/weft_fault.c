/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: faults that the fabric has injected, where hardware would show
 * them.
 *
 * The fabric says how often each is to strike (weft_fabric.h) and the hooks
 * below do it: to every access that traps, and a slot whose link has such a
 * fault is not direct; to doorbells; to inbound entries; and, for a function
 * that answers nothing any more, to everything the host reads of it.
 * Faults belong to the world around the port: no reset takes them away.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_aer.h"
#include "trace.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_slot.h"

/* Bytes of posted writes that a slow link takes without the CPU waiting. */
#define WEFT_SLOW_CREDIT        4096
/* The longest that one access may keep the guest waiting. */
#define WEFT_SLOW_MAX_NS        (20 * SCALE_MS)

/* Marks ERR_ADDR of data that came poisoned in answer to an own read. */
#define WEFT_POISONED_READ      BIT_ULL(63)

static bool weft_fault_on(WeftPort *s, unsigned link, enum weft_fab_fault kind)
{
    return s->ep->fault[link].left[kind] != 0;
}

/* The endpoint does not answer its host. */
static bool weft_fault_ones(WeftPort *s)
{
    return weft_fault_on(s, 0, WEFT_FAB_FAULT_ONES);
}

/* What this host has opened is out of reach. */
static bool weft_fault_closed(WeftPort *s)
{
    return weft_fault_on(s, 0, WEFT_FAB_FAULT_MEMORY) || weft_fault_ones(s);
}

/* Nothing gets through, and it is not said. */
static bool weft_fault_dead(WeftPort *s, int via)
{
    return via >= 0 && via < WEFT_MAX_LINKS &&
           weft_fault_on(s, via, WEFT_FAB_FAULT_DEAD);
}

/* Accesses through @via have to trap. */
static bool weft_fault_traps(WeftPort *s, int via)
{
    static const enum weft_fab_fault kinds[] = {
        WEFT_FAB_FAULT_DEAD, WEFT_FAB_FAULT_SLOW, WEFT_FAB_FAULT_POISONED_READ,
        WEFT_FAB_FAULT_POISONED_WRITE, WEFT_FAB_FAULT_TIMEOUT,
    };

    if (via < 0 || via >= WEFT_MAX_LINKS) {
        return false;
    }
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (weft_fault_on(s, via, kinds[i])) {
            return true;
        }
    }
    return false;
}

/* Doorbells that come over @link are lost. */
static bool weft_fault_deaf(WeftPort *s, unsigned link)
{
    return weft_fault_on(s, link, WEFT_FAB_FAULT_DOORBELL) ||
           weft_fault_on(s, link, WEFT_FAB_FAULT_DEAD);
}

/* ---- what is reported ------------------------------------------------ */

/* An error that PCI Express itself knows, besides this port's own registers. */
static void weft_fault_aer(WeftPort *s, uint32_t status)
{
    PCIDevice *d = PCI_DEVICE(s);
    PCIEAERErr err = {
        .status = status, .source_id = pci_requester_id(d),
    };

    pcie_aer_inject_error(d, &err);
}

static void weft_fault_timeout(WeftPort *s, unsigned n, uint64_t off)
{
    s->counter[WEFT_CNT_OUT_ONES]++;
    weft_error(s, WEFT_ERR_TIMEOUT, n, off);
    weft_fault_aer(s, PCI_ERR_UNC_COMP_TIME);
}

/* A neighbour's write to @offset came poisoned, and was dropped. */
void weft_fault_poisoned(WeftPort *s, unsigned link, uint64_t offset)
{
    for (unsigned n = 0; n < WEFT_MAX_INBOUND; n++) {
        WeftInbound *e = &s->inbound[n];

        if ((e->open.allow & BIT(link)) && offset >= e->open.offset &&
            offset - e->open.offset < e->open.len) {
            e->poisoned = true;
            break;
        }
    }
    weft_error(s, WEFT_ERR_POISONED, link, offset);
    weft_fault_aer(s, PCI_ERR_UNC_POISON_TLP);
}

/* ---- striking -------------------------------------------------------- */

/* Once less, if there is anything left. */
static bool weft_fault_strike(WeftPort *s, unsigned link,
                              enum weft_fab_fault kind)
{
    uint64_t *left = &s->ep->fault[link].left[kind];
    struct weft_fab_msg m = {
        .type = WEFT_FAB_FAULT_USED, .link = link, .arg = { kind },
    };

    if (!*left) {
        return false;
    }
    trace_weft_fault_strike(s->ep->node, s->number, link, kind);
    if (*left != WEFT_FAB_FAULT_ALWAYS && !--*left) {
        weft_fab_send(s, &m);
        /* Perhaps nothing has to trap any more. */
        weft_slots_update_all(s->ep);
    }
    return true;
}

/*
 * What @bytes cost on a slow link. Posted writes wait for room only, a read
 * for its data. The whole guest waits: there is no other way to stop a CPU in
 * the middle of an instruction.
 */
static void weft_fault_stall(WeftPort *s, unsigned link, unsigned bytes,
                             bool write)
{
    WeftFaults *f = &s->ep->fault[link];
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_REALTIME), wait;
    int64_t each = f->bytes_per_second ?
                   NANOSECONDS_PER_SECOND / f->bytes_per_second : 0;
    int64_t credit = each * WEFT_SLOW_CREDIT;

    if (!weft_fault_on(s, link, WEFT_FAB_FAULT_SLOW)) {
        return;
    }
    f->busy_until = MAX(now, f->busy_until) + each * bytes;
    wait = f->busy_until - now;
    if (!write) {
        wait += 2 * f->latency_ns;
    } else if (wait <= credit) {
        return;
    } else {
        /* Until half of it is free again: short sleeps are not exact. */
        wait -= credit / 2;
    }
    g_usleep(MIN(wait, WEFT_SLOW_MAX_NS) / SCALE_US);
}

/* A read that would succeed: why there are no data, a WEFT_DMA_ST_*. */
static unsigned weft_fault_answer(WeftPort *s, unsigned n, uint64_t off)
{
    int via = s->slot[n].target.via;

    if (!weft_fault_traps(s, via)) {
        return WEFT_DMA_ST_OK;
    }
    if (weft_fault_dead(s, via) ||
        weft_fault_strike(s, via, WEFT_FAB_FAULT_TIMEOUT)) {
        weft_fault_timeout(s, n, off);
        return WEFT_DMA_ST_TIMEOUT;
    }
    if (weft_fault_strike(s, via, WEFT_FAB_FAULT_POISONED_READ)) {
        s->counter[WEFT_CNT_OUT_ONES]++;
        weft_error(s, WEFT_ERR_POISONED, n, off | WEFT_POISONED_READ);
        weft_fault_aer(s, PCI_ERR_UNC_POISON_TLP);
        return WEFT_DMA_ST_POISONED;
    }
    return WEFT_DMA_ST_OK;
}

/* A write that would succeed. True: it is lost, and the writer not told. */
static bool weft_fault_loses(WeftPort *s, unsigned n, uint64_t off)
{
    int via = s->slot[n].target.via;

    if (!weft_fault_traps(s, via)) {
        return false;
    }
    if (weft_fault_dead(s, via)) {
        return true;
    }
    if (weft_fault_strike(s, via, WEFT_FAB_FAULT_POISONED_WRITE)) {
        weft_window_report(s, n, off + s->slot[n].active.offset,
                           WEFT_FAB_DENIED_POISONED);
        return true;
    }
    return false;
}

static bool weft_fault_load(WeftPort *s, const WeftAccess *a)
{
    int via = s->slot[a->slot].target.via;

    if (weft_fault_answer(s, a->slot, a->off) != WEFT_DMA_ST_OK) {
        return true;
    }
    if (weft_fault_traps(s, via)) {
        weft_fault_stall(s, via, a->size, false);
    }
    return false;
}

static bool weft_fault_store(WeftPort *s, const WeftAccess *a)
{
    int via = s->slot[a->slot].target.via;

    if (weft_fault_loses(s, a->slot, a->off)) {
        return true;
    }
    if (weft_fault_traps(s, via)) {
        weft_fault_stall(s, via, a->size, true);
    }
    return false;
}

static unsigned weft_fault_step(WeftPort *s, unsigned slot, uint64_t off,
                                bool write)
{
    if (weft_fault_strike(s, 0, WEFT_FAB_FAULT_DMA)) {
        return WEFT_DMA_ST_INTERNAL;
    }
    return write ? WEFT_DMA_ST_OK : weft_fault_answer(s, slot, off);
}

static WeftVerdict weft_fault_post(WeftPort *s, unsigned n, unsigned slot,
                                   uint64_t off, const void *buf,
                                   uint32_t len)
{
    return weft_fault_loses(s, slot, off) ? WEFT_LOST : WEFT_PASS;
}

static bool weft_fault_interrupt(WeftPort *s, uint32_t vectors)
{
    return weft_fault_ones(s);
}

/* ---- a function that does not answer ---------------------------------- */

static uint64_t weft_ones_read(void *opaque, hwaddr addr, unsigned size)
{
    return UINT64_MAX;
}

static void weft_ones_write(void *opaque, hwaddr addr, uint64_t val,
                            unsigned size)
{
}

static const MemoryRegionOps weft_ones_ops = {
    .read = weft_ones_read,
    .write = weft_ones_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
};

/* Registers and windows ask; the table of MSI-X belongs to QEMU. */
static void weft_fault_init(WeftPort *s)
{
    MemoryRegion *bar = &PCI_DEVICE(s)->msix_exclusive_bar;

    memory_region_init_io(&s->bar_ones, OBJECT(s), &weft_ones_ops, s,
                          "weft-ones", memory_region_size(bar));
    memory_region_set_enabled(&s->bar_ones, false);
    memory_region_add_subregion_overlap(bar, 0, &s->bar_ones, 1);
}

static void weft_fault_exit(WeftPort *s)
{
    memory_region_del_subregion(&PCI_DEVICE(s)->msix_exclusive_bar,
                                &s->bar_ones);
}

/* ---- the fabric's word ------------------------------------------------ */

static void weft_fault_apply(WeftPort *ep, bool was_closed)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        memory_region_set_enabled(&f->bar_ones, weft_fault_ones(f));
        if (weft_fault_closed(f) != was_closed) {
            weft_inbound_refresh(f);
        }
    }
    weft_slots_update_all(ep);
}

bool weft_fault_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp)
{
    bool was_closed = weft_fault_closed(ep);
    WeftFaults *f;

    if (m->link >= WEFT_MAX_LINKS || !m->arg[0] ||
        m->arg[0] >= WEFT_FAB_FAULTS) {
        error_setg(errp, "fault %" PRIu64 " of link %u", m->arg[0], m->link);
        return false;
    }
    trace_weft_fault_set(ep->node, ep->number, m->link, m->arg[0], m->arg[1]);
    f = &ep->fault[m->link];
    f->left[m->arg[0]] = m->arg[1];
    if (m->arg[0] == WEFT_FAB_FAULT_SLOW) {
        f->latency_ns = MIN(m->arg[2], WEFT_SLOW_MAX_NS);
        f->bytes_per_second = MIN(m->arg[3], NANOSECONDS_PER_SECOND);
        f->busy_until = 0;
    }
    weft_fault_apply(ep, was_closed);
    return true;
}

/* With the fabric gone, nothing is injected. */
void weft_fault_clear(WeftPort *ep)
{
    bool was_closed = weft_fault_closed(ep);

    memset(ep->fault, 0, sizeof(ep->fault));
    weft_fault_apply(ep, was_closed);
}

/* The function has joined an endpoint, or left one. */
static void weft_fault_moved(WeftPort *s)
{
    memory_region_set_enabled(&s->bar_ones, weft_fault_ones(s));
}

const WeftHooks weft_fault_hooks = {
    .init = weft_fault_init,
    .exit = weft_fault_exit,
    .moved = weft_fault_moved,
    .silent = weft_fault_ones,
    .load = weft_fault_load,
    .store = weft_fault_store,
    .traps = weft_fault_traps,
    .dead = weft_fault_dead,
    .closed = weft_fault_closed,
    .step = weft_fault_step,
    .post = weft_fault_post,
    .deaf = weft_fault_deaf,
    .interrupt = weft_fault_interrupt,
};
