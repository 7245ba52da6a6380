/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: traced mode, in which every TLP of the windows is counted.
 *
 * The data of a store reach the peer at once; what is modelled here is only
 * how many TLPs carry them. Through the uncached alias a store is one memory
 * write and a load one memory read. Through the write-combining alias, stores
 * that each begin where the last one ended share a TLP, as long as they stay
 * within an aligned line and their CPU executes no fence in between.
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "weft_fence.h"
#include "weft_hook.h"
#include "weft_link.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_slot.h"

/*
 * A real buffer is not closed by age at all while nothing else wants it. Here
 * it must not happen to a guest whose vCPU was merely not scheduled for a
 * while: counts are to depend on what the guest does alone.
 */
#define WEFT_WC_TIMEOUT_NS      (100 * SCALE_MS)

static void weft_trace_count(WeftPort *s, int via, unsigned bytes)
{
    s->counter[WEFT_CNT_TX_MWR]++;
    s->counter[WEFT_CNT_TX_MWR_BYTES] += bytes;
    weft_traffic_add(s, via, 1, bytes, true);
    weft_traffic_moved(s, via, bytes, true);
}

/* The open line leaves: by an uncached access, a fence, or its age. */
static void weft_trace_close(WeftPort *s)
{
    if (s->wc.open) {
        s->wc.open = false;
        timer_del(s->wc.timer);
        weft_trace_count(s, s->wc.via, s->wc.bytes);
    }
}

/* A fence closes the line of its CPU, though what follows may follow on. */
static void weft_trace_fence(WeftPort *s, const CPUState *cpu, FenceOf of)
{
    if (weft_fence_is_for(s->wc.cpu, cpu, of)) {
        weft_trace_close(s);
    }
}

/* What the DMA engine sends; it does not pass the write-combining buffer. */
void weft_trace_burst(WeftPort *s, int via, uint64_t tlps, uint64_t bytes,
                      bool write)
{
    weft_traffic_add(s, via, tlps, bytes, write);
    s->counter[write ? WEFT_CNT_TX_MWR : WEFT_CNT_TX_MRD] += tlps;
    s->counter[write ? WEFT_CNT_TX_MWR_BYTES : WEFT_CNT_TX_MRD_BYTES] += bytes;
}

static bool weft_trace_load(WeftPort *s, const WeftAccess *a)
{
    int via = s->slot[a->slot].target.via;

    if (s->traced) {
        weft_traffic_add(s, via, 1, a->size, false);
        weft_traffic_moved(s, via, a->size, false);
        s->counter[WEFT_CNT_TX_MRD]++;
        s->counter[WEFT_CNT_TX_MRD_BYTES] += a->size;
    }
    return false;
}

static void weft_trace_combine(WeftPort *s, int via, hwaddr addr,
                               unsigned size)
{
    if (s->wc.open && addr == s->wc.next && s->wc.cpu == current_cpu) {
        s->wc.bytes += size;
    } else {
        weft_trace_close(s);
        s->wc.open = true;
        s->wc.bytes = size;
        s->wc.via = via;
        s->wc.cpu = current_cpu;
        timer_mod(s->wc.timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                  WEFT_WC_TIMEOUT_NS);
    }
    s->wc.next = addr + size;
    if (s->wc.next % WEFT_WC_LINE == 0) {
        /* What follows is another line. */
        weft_trace_close(s);
    }
}

static bool weft_trace_store(WeftPort *s, const WeftAccess *a)
{
    int via = s->slot[a->slot].target.via;
    unsigned head;

    if (!s->traced) {
        return false;
    }
    if (!a->combining) {
        weft_trace_close(s);
        weft_trace_count(s, via, a->size);
        return false;
    }
    head = MIN(a->size, WEFT_WC_LINE - a->addr % WEFT_WC_LINE);
    weft_trace_combine(s, via, a->addr, head);
    if (a->size > head) {
        weft_trace_combine(s, via, a->addr + head, a->size - head);
    }
    return false;
}

static bool weft_trace_traps(WeftPort *s, int via)
{
    return s->traced;
}

/* ---- life ------------------------------------------------------------ */

static void weft_trace_timeout(void *opaque)
{
    weft_trace_close(opaque);
}

static void weft_trace_init(WeftPort *s)
{
    s->wc.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_trace_timeout, s);
}

static void weft_trace_exit(WeftPort *s)
{
    timer_free(s->wc.timer);
    s->wc.timer = NULL;
}

/* Traced mode by property or by the fabric's setting, whichever says so. */
static void weft_trace_set(WeftPort *s)
{
    bool traced = s->traced_always || s->ep->fab.traced;

    if (traced == s->traced) {
        return;
    }
    weft_trace_close(s);
    s->traced = traced;
    weft_fence_listen(s);
    weft_slots_update(s);
}

/* Whether the fabric wants the endpoint traced. */
void weft_trace_wanted(WeftPort *ep, bool traced)
{
    ep->fab.traced = traced;
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_trace_set(f);
    }
}

bool weft_trace_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp)
{
    weft_trace_wanted(ep, m->arg[0] & 1);
    return true;
}

const WeftHooks weft_trace_hooks = {
    .init = weft_trace_init,
    .exit = weft_trace_exit,
    .reset = weft_trace_close,
    .moved = weft_trace_set,
    .flush = weft_trace_close,
    .fence = weft_trace_fence,
    .load = weft_trace_load,
    .store = weft_trace_store,
    .traps = weft_trace_traps,
};
