/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine at work on its descriptors.
 *
 * Rings and lists lie in memory that the guest may change at any moment: each
 * is copied once, when its descriptor begins, and only the copy is looked at.
 * What a slot leads to may change as well, between any two steps, and is
 * therefore checked in each.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "trace.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_hook.h"
#include "weft_port.h"
#include "weft_vf.h"

#define WEFT_DMA_FLAGS          (WEFT_DMA_LIST | WEFT_DMA_IRQ | \
                                 WEFT_DMA_BELL | WEFT_DMA_CHAIN)

/* ---- the end of a descriptor ----------------------------------------- */

static uint64_t weft_dma_entry(const WeftDmaChannel *ch)
{
    return ch->ring + (uint64_t)(ch->head & (ch->entries - 1)) *
           WEFT_DMA_DESC_BYTES;
}

static bool weft_dma_is_error(unsigned code)
{
    return code != WEFT_DMA_ST_OK && code != WEFT_DMA_ST_ABORTED &&
           code != WEFT_DMA_ST_SKIPPED;
}

/* The status is written last: a reader of it sees the data, and may reuse all. */
static void weft_dma_finish(WeftPort *s, unsigned n, unsigned code)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    uint64_t at = weft_dma_entry(ch);
    uint64_t status = (uint64_t)ch->moved << 32 | WEFT_DMA_DONE | code;

    trace_weft_dma_end(s->ep->node, s->number, n, code, ch->moved);
    if (!weft_dma_local_store(s, n, at + WEFT_DMA_DESC_STATUS, status)) {
        weft_dma_halt(s, n, WEFT_DMA_ST_RING, at);
        return;
    }
    ch->active = false;
    ch->skip = code != WEFT_DMA_ST_OK && (ch->desc.ctrl & WEFT_DMA_CHAIN);
    ch->head++;
    if (code == WEFT_DMA_ST_OK) {
        ch->counter[WEFT_DMA_CNT_DESCS]++;
    } else if (weft_dma_is_error(code)) {
        ch->counter[WEFT_DMA_CNT_ERRORS]++;
        weft_error(s, WEFT_ERR_DMA, n | code << 8, at);
    }
    if (ch->desc.ctrl & WEFT_DMA_IRQ) {
        weft_dma_notify(s, n);
    }
}

/* One of those that are being aborted: begun or not, it ends here. */
static void weft_dma_abort_one(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    if (!ch->active) {
        ch->moved = 0;
    }
    ch->desc.ctrl = 0;
    weft_dma_finish(s, n, WEFT_DMA_ST_ABORTED);
    if (ch->aborting && ch->head == ch->abort_to) {
        ch->aborting = false;
        ch->enabled = !ch->stopping;
        ch->stopping = false;
        weft_dma_notify(s, n);
    }
}

/* ---- the start ------------------------------------------------------- */

static bool weft_dma_sane(WeftPort *s, const uint8_t *raw,
                          const WeftDmaDesc *d)
{
    unsigned op = d->ctrl & WEFT_DMA_OP;

    if ((d->ctrl & ~(WEFT_DMA_OP | WEFT_DMA_FLAGS)) || op > WEFT_DMA_READ ||
        ldl_le_p(raw + WEFT_DMA_DESC_ZERO) ||
        ldq_le_p(raw + WEFT_DMA_DESC_ZERO2)) {
        return false;
    }
    if ((d->ctrl & WEFT_DMA_BELL) ?
        d->bell >> 16 >= WEFT_DB_PAGES ||
        (d->bell & 0xffff) >= WEFT_DOORBELLS : d->bell) {
        return false;
    }
    if (op == WEFT_DMA_NOP) {
        return !(d->ctrl & WEFT_DMA_LIST) && !d->len && !d->count;
    }
    if (d->slot >= s->slots || !d->len) {
        return false;
    }
    if (d->ctrl & WEFT_DMA_LIST) {
        return d->count && d->count <= WEFT_DMA_MAX_ELEMENTS &&
               !(d->addr % WEFT_DMA_ELEMENT_BYTES) &&
               d->count * WEFT_DMA_ELEMENT_BYTES - 1 <= UINT64_MAX - d->addr;
    }
    return !d->count && d->len - 1 <= UINT64_MAX - d->addr;
}

/* Copies the list and checks it: a WEFT_DMA_ST_*. */
static unsigned weft_dma_fetch_list(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    uint8_t raw[WEFT_DMA_MAX_ELEMENTS * WEFT_DMA_ELEMENT_BYTES];
    uint64_t sum = 0;

    if (!weft_dma_local(s, n, ch->desc.addr, raw,
                        ch->desc.count * WEFT_DMA_ELEMENT_BYTES, false)) {
        return WEFT_DMA_ST_LIST;
    }
    for (unsigned i = 0; i < ch->desc.count; i++) {
        const uint8_t *p = raw + i * WEFT_DMA_ELEMENT_BYTES;
        WeftDmaElement *e = &ch->list[i];

        e->addr = ldq_le_p(p + WEFT_DMA_ELEMENT_ADDR);
        e->len = ldl_le_p(p + WEFT_DMA_ELEMENT_LEN);
        if (!e->len || e->len - 1 > UINT64_MAX - e->addr ||
            ldl_le_p(p + WEFT_DMA_ELEMENT_ZERO)) {
            return WEFT_DMA_ST_BAD;
        }
        sum += e->len;
    }
    return sum == ch->desc.len ? WEFT_DMA_ST_OK : WEFT_DMA_ST_BAD;
}

static unsigned weft_dma_prepare(WeftPort *s, unsigned n, const uint8_t *raw)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    const WeftDmaDesc *d = &ch->desc;
    unsigned code;

    if (ch->skip) {
        return WEFT_DMA_ST_SKIPPED;
    }
    if (!weft_dma_sane(s, raw, d)) {
        return WEFT_DMA_ST_BAD;
    }
    if ((d->ctrl & WEFT_DMA_OP) == WEFT_DMA_NOP) {
        return WEFT_DMA_ST_OK;
    }
    if (d->ctrl & WEFT_DMA_LIST) {
        code = weft_dma_fetch_list(s, n);
        if (code != WEFT_DMA_ST_OK) {
            return code;
        }
    } else {
        ch->list[0] = (WeftDmaElement) { .addr = d->addr, .len = d->len };
    }
    return weft_dma_check(s, d, d->offset, d->len);
}

/* Takes the descriptor at HEAD on. */
static void weft_dma_begin(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    uint8_t raw[WEFT_DMA_DESC_BYTES];
    uint64_t at = weft_dma_entry(ch);
    unsigned code;

    if (!weft_dma_local(s, n, at, raw, sizeof(raw), false)) {
        weft_dma_halt(s, n, WEFT_DMA_ST_RING, at);
        return;
    }
    ch->desc = (WeftDmaDesc) {
        .ctrl = ldl_le_p(raw + WEFT_DMA_DESC_CTRL),
        .slot = ldl_le_p(raw + WEFT_DMA_DESC_SLOT),
        .offset = ldq_le_p(raw + WEFT_DMA_DESC_OFFSET),
        .addr = ldq_le_p(raw + WEFT_DMA_DESC_ADDR),
        .len = ldl_le_p(raw + WEFT_DMA_DESC_LEN),
        .count = ldl_le_p(raw + WEFT_DMA_DESC_COUNT),
        .bell = ldl_le_p(raw + WEFT_DMA_DESC_BELL),
    };
    ch->element = 0;
    ch->skipped = 0;
    ch->moved = 0;
    trace_weft_dma_begin(s->ep->node, s->number, n, ch->desc.ctrl,
                         ch->desc.slot, ch->desc.offset, ch->desc.len);
    code = weft_dma_prepare(s, n, raw);
    if (code == WEFT_DMA_ST_OK) {
        ch->active = true;
    } else {
        weft_dma_finish(s, n, code);
    }
}

/* ---- the middle ------------------------------------------------------ */

/*
 * Moves the next piece: up to the end of the element, or of a page of the
 * destination's aperture space. Through a buffer, so that a piece moves whole
 * or not at all as far as the far side can tell.
 */
static unsigned weft_dma_move(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    const WeftDmaDesc *d = &ch->desc;
    const WeftDmaElement *e = &ch->list[ch->element];
    bool out = (d->ctrl & WEFT_DMA_OP) == WEFT_DMA_WRITE;
    uint64_t off = d->offset + ch->moved, addr = e->addr + ch->skipped;
    unsigned len = MIN(e->len - ch->skipped, weft_dma_room(s, d, off));
    unsigned code = weft_dma_check(s, d, off, len);
    uint8_t piece[WEFT_PAGE];

    if (code != WEFT_DMA_ST_OK) {
        return code;
    }
    code = weft_hook_step(s, d->slot, off, out);
    if (code != WEFT_DMA_ST_OK) {
        return code;
    }
    if (out && !weft_dma_local(s, n, addr, piece, len, false)) {
        return WEFT_DMA_ST_LOCAL;
    }
    if (!weft_dma_window(s, n, d, off, piece, len)) {
        return WEFT_DMA_ST_CLOSED;
    }
    if (!out && !weft_dma_local(s, n, addr, piece, len, true)) {
        return WEFT_DMA_ST_LOCAL;
    }
    ch->counter[WEFT_DMA_CNT_BYTES] += len;
    ch->moved += len;
    ch->skipped += len;
    if (ch->skipped == e->len) {
        ch->element++;
        ch->skipped = 0;
    }
    return WEFT_DMA_ST_OK;
}

/* A step on the descriptor that has begun. */
static void weft_dma_continue(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    const WeftDmaDesc *d = &ch->desc;
    unsigned code = WEFT_DMA_ST_OK;

    if (ch->moved < d->len) {
        code = weft_dma_move(s, n);
    }
    if (code == WEFT_DMA_ST_OK && ch->moved < d->len) {
        return;
    }
    if (code == WEFT_DMA_ST_OK && (d->ctrl & WEFT_DMA_BELL)) {
        weft_hook_push(s, n);
        if (!weft_doorbell_write(s, d->bell >> 16, d->bell & 0xffff)) {
            code = WEFT_DMA_ST_BELL;
        }
    }
    weft_dma_finish(s, n, code);
}

/* ---- a quantum ------------------------------------------------------- */

bool weft_dma_pending(const WeftDmaChannel *ch)
{
    return ch->enabled && !ch->reason && ch->head != ch->tail;
}

/* Gives channel @n its quantum; true if there is more to do. */
bool weft_dma_serve(WeftPort *s, unsigned n)
{
    WeftDmaChannel *ch = &s->dma.channel[n];
    int64_t budget = weft_hook_silent(s) ? 0 : WEFT_DMA_QUANTUM;

    while (budget > 0 && weft_dma_pending(ch)) {
        uint64_t before = ch->counter[WEFT_DMA_CNT_BYTES], bytes, cost;

        if (!weft_dma_master(s)) {
            weft_dma_halt(s, n, WEFT_DMA_ST_MASTER, weft_dma_entry(ch));
        } else if (ch->aborting) {
            weft_dma_abort_one(s, n);
        } else if (weft_rate_opens(s, WEFT_RATE_DMA)) {
            s->dma.waits = true;
            if (budget < WEFT_DMA_QUANTUM) {
                /* The others are before this one now. */
                s->dma.first = n + 1;
            }
            break;
        } else if (!ch->active) {
            weft_dma_begin(s, n);
        } else {
            weft_dma_continue(s, n);
        }
        bytes = ch->counter[WEFT_DMA_CNT_BYTES] - before;
        cost = MAX(bytes, WEFT_DMA_LEAST);
        budget -= cost;
        weft_rate_take(s, WEFT_RATE_DMA, cost);
        weft_rate_count(s, WEFT_RATE_DMA, bytes);
    }
    return weft_dma_pending(ch);
}
