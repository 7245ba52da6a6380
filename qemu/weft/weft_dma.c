/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine's registers and its life.
 *
 * HEAD and TAIL run freely: they count descriptors, and the entry of one is
 * its number modulo the length of the ring. An error of one descriptor is
 * that descriptor's; what leaves the channel without a ring to report to
 * halts it, until it is disabled and enabled again.
 */
#include "qemu/osdep.h"
#include "weft_dma.h"
#include "weft_hook.h"
#include "weft_port.h"
#include "weft_vf.h"

/* ---- service --------------------------------------------------------- */

/* In a tick, but not before @later. */
static void weft_dma_arm(WeftPort *s, int64_t later)
{
    int64_t next = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + WEFT_DMA_TICK_NS;
    int64_t due = MAX(next, later);

    if (!timer_pending(s->dma.timer) || due < s->dma.due) {
        s->dma.due = due;
        timer_mod(s->dma.timer, due);
    }
}

/* There is something to do, or has to be looked at again. */
void weft_dma_kick(WeftPort *s)
{
    weft_dma_arm(s, 0);
}

/* Does nothing that is left wait for anything but the VF's rate? */
static bool weft_dma_only_waits(const WeftPort *s)
{
    bool only = s->dma.waits;

    for (unsigned n = 0; n < s->dma.channels; n++) {
        only &= !s->dma.channel[n].aborting;
    }
    return only;
}

/* Gives each channel its quantum; true if there is more to do. */
static bool weft_dma_round(WeftPort *s)
{
    unsigned first = s->dma.first;
    bool more = false;

    s->dma.waits = false;
    for (unsigned i = 0; i < s->dma.channels; i++) {
        unsigned n = (first + i) % s->dma.channels;

        more |= weft_hook_idle(s) ?
                weft_dma_pending(&s->dma.channel[n]) : weft_dma_serve(s, n);
    }
    return more;
}

static void weft_dma_tick(void *opaque)
{
    WeftPort *s = opaque;
    MemReentrancyGuard *guard = &DEVICE(s)->mem_reentrancy_guard;
    int64_t late = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) - s->dma.due;
    /* The host may call late, and the guest's clock goes on. */
    unsigned rounds = 1 + MIN(late / WEFT_DMA_TICK_NS, WEFT_DMA_MAX_LATE);
    bool more = true;

    /* An interrupt's address may be a register of this port. */
    guard->engaged_in_io = true;
    while (more && rounds--) {
        more = weft_dma_round(s);
    }
    guard->engaged_in_io = false;
    if (more) {
        weft_dma_arm(s, weft_dma_only_waits(s) ?
                        weft_rate_opens(s, WEFT_RATE_DMA) : 0);
    }
}

/* ---- control --------------------------------------------------------- */

static void weft_dma_enable(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    ch->enabled = true;
    ch->reason = 0;
    ch->skip = false;
    ch->head = 0;
    ch->tail = 0;
    if (ch->order > WEFT_DMA_MAX_ORDER || ch->base % WEFT_DMA_DESC_BYTES ||
        (WEFT_DMA_DESC_BYTES << ch->order) - 1 > UINT64_MAX - ch->base) {
        weft_dma_halt(s, n, WEFT_DMA_ST_SETUP, ch->base);
        return;
    }
    ch->ring = ch->base;
    ch->entries = 1u << ch->order;
}

/* All that is submitted by now ends, this or that way. */
static void weft_dma_abort(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    if (weft_dma_pending(ch)) {
        ch->aborting = true;
        ch->abort_to = ch->tail;
        weft_dma_kick(s);
    }
}

static void weft_dma_disable(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    weft_dma_abort(s, n);
    ch->stopping = ch->aborting;
    ch->enabled = ch->stopping;
    ch->reason = 0;
}

static void weft_dma_channel_reset(WeftPort *s, unsigned n)
{
    s->dma.channel[n] = (WeftDmaChannel) { .vector = WEFT_DMA_VECTOR_SHARED };
    s->dma.pending &= ~BIT(n);
}

static void weft_dma_ctrl_write(WeftPort *s, unsigned n, uint32_t val)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    if (val & WEFT_DMA_RESET) {
        weft_dma_channel_reset(s, n);
        return;
    }
    if (val & WEFT_DMA_ABORT) {
        weft_dma_abort(s, n);
    }
    if (!ch->enabled && (val & WEFT_DMA_ENABLE)) {
        weft_dma_enable(s, n);
    } else if (ch->enabled && !(val & WEFT_DMA_ENABLE)) {
        weft_dma_disable(s, n);
    }
}

static void weft_dma_tail_write(WeftPort *s, unsigned n, uint32_t val)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    if (!ch->enabled || ch->stopping || ch->reason) {
        return;
    }
    if (val - ch->head > ch->entries || val - ch->head < ch->tail - ch->head) {
        weft_dma_halt(s, n, WEFT_DMA_ST_TAIL, val);
        return;
    }
    ch->tail = val;
    if (weft_dma_pending(ch)) {
        weft_dma_kick(s);
    }
}

/* ---- registers ------------------------------------------------------- */

/* Those that the function may use. */
unsigned weft_dma_channels(const WeftPort *s)
{
    return MIN(s->quota->channels, s->dma.channels);
}

bool weft_dma_covers(WeftPort *s, hwaddr addr)
{
    unsigned channels = weft_dma_channels(s);

    return channels && addr >= WEFT_R_DMA_CAP &&
           addr < WEFT_R_DMA + (hwaddr)WEFT_DMA_STRIDE * channels;
}

static uint32_t weft_dma_status(const WeftDmaChannel *ch)
{
    return (ch->enabled && !ch->stopping && !ch->reason ?
            WEFT_DMA_RUNNING : 0) |
           (weft_dma_pending(ch) ? WEFT_DMA_BUSY : 0) |
           (ch->reason ? WEFT_DMA_HALTED |
                         ch->reason << ctz32(WEFT_DMA_REASON) : 0);
}

static uint32_t weft_dma_channel_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftDmaChannel *ch = &s->dma.channel[n];

    switch (reg) {
    case WEFT_DMA_CTRL:
        return ch->enabled && !ch->stopping ? WEFT_DMA_ENABLE : 0;
    case WEFT_DMA_STATUS:
        return weft_dma_status(ch);
    case WEFT_DMA_BASE:
        return ch->base;
    case WEFT_DMA_BASE + 4:
        return ch->base >> 32;
    case WEFT_DMA_ORDER:
        return ch->order;
    case WEFT_DMA_VECTOR:
        return ch->vector;
    case WEFT_DMA_HEAD:
        return ch->head;
    case WEFT_DMA_TAIL:
        return ch->tail;
    }
    if (reg >= WEFT_DMA_COUNTERS &&
        reg < WEFT_DMA_COUNTERS + 8 * WEFT_DMA_COUNT) {
        uint64_t val = ch->counter[(reg - WEFT_DMA_COUNTERS) / 8];

        return reg & 4 ? val >> 32 : val;
    }
    return 0;
}

static void weft_dma_channel_write(WeftPort *s, unsigned n, unsigned reg,
                                   uint32_t val)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    switch (reg) {
    case WEFT_DMA_CTRL:
        weft_dma_ctrl_write(s, n, val);
        break;
    case WEFT_DMA_BASE:
        ch->base = deposit64(ch->base, 0, 32, val);
        break;
    case WEFT_DMA_BASE + 4:
        ch->base = deposit64(ch->base, 32, 32, val);
        break;
    case WEFT_DMA_ORDER:
        ch->order = val;
        break;
    case WEFT_DMA_VECTOR:
        ch->vector = val;
        break;
    case WEFT_DMA_TAIL:
        weft_dma_tail_write(s, n, val);
        break;
    }
}

/* @addr: one that the engine covers. */
uint32_t weft_dma_read(WeftPort *s, hwaddr addr)
{
    switch (addr) {
    case WEFT_R_DMA_CAP:
        return weft_dma_channels(s) |
               WEFT_DMA_MAX_ORDER << ctz32(WEFT_DMA_CAP_ORDER) |
               WEFT_DMA_MAX_ELEMENTS << ctz32(WEFT_DMA_CAP_ELEMENTS);
    case WEFT_R_DMA_PENDING:
        return s->dma.pending;
    case WEFT_R_DMA_MASK:
        return s->dma.mask;
    }
    if (addr < WEFT_R_DMA) {
        return 0;
    }
    addr -= WEFT_R_DMA;
    return weft_dma_channel_read(s, addr / WEFT_DMA_STRIDE,
                                 addr % WEFT_DMA_STRIDE);
}

void weft_dma_write(WeftPort *s, hwaddr addr, uint32_t val)
{
    switch (addr) {
    case WEFT_R_DMA_PENDING:
        s->dma.pending &= ~val;
        return;
    case WEFT_R_DMA_MASK:
        weft_dma_set_mask(s, val);
        return;
    }
    if (addr >= WEFT_R_DMA) {
        addr -= WEFT_R_DMA;
        weft_dma_channel_write(s, addr / WEFT_DMA_STRIDE,
                               addr % WEFT_DMA_STRIDE, val);
    }
}

/* ---- life ------------------------------------------------------------ */

/* The quota has changed: channels that are too many are reset. */
void weft_dma_quota(WeftPort *s)
{
    for (unsigned n = weft_dma_channels(s); n < WEFT_MAX_DMA; n++) {
        weft_dma_channel_reset(s, n);
    }
}

/* Nothing more is written to memory, of no channel. */
void weft_dma_reset(WeftPort *s)
{
    timer_del(s->dma.timer);
    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        weft_dma_channel_reset(s, n);
    }
    s->dma.mask = UINT32_MAX;
}

void weft_dma_init(WeftPort *s)
{
    s->dma.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_dma_tick, s);
    weft_dma_reset(s);
}

void weft_dma_exit(WeftPort *s)
{
    timer_free(s->dma.timer);
    s->dma.timer = NULL;
}
