/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine's interrupts, and the halt of a channel.
 */
#include "qemu/osdep.h"
#include "trace.h"
#include "weft_dma.h"
#include "weft_event.h"
#include "weft_hook.h"
#include "weft_port.h"

static void weft_dma_raise(WeftPort *s, uint32_t channels)
{
    uint32_t vectors = 0;

    while (channels) {
        uint32_t vector = s->dma.channel[ctz32(channels)].vector;

        channels &= channels - 1;
        if (vector == WEFT_DMA_VECTOR_SHARED) {
            vector = s->event_vector >> ctz32(WEFT_EVENT_VECTOR_DMA);
        }
        if (vector < WEFT_VECTORS) {
            vectors |= BIT(vector);
        }
    }
    weft_interrupt(s, vectors);
}

void weft_dma_notify(WeftPort *s, unsigned n)
{
    uint32_t fresh = BIT(n) & ~s->dma.pending;

    s->dma.pending |= BIT(n);
    weft_dma_raise(s, weft_hook_delay(s, WEFT_LATE_DMA, 0,
                                      fresh & ~s->dma.mask));
}

/* Late interrupts, as far as there is still a reason for them. */
void weft_dma_send(WeftPort *s, uint32_t channels)
{
    weft_dma_raise(s, channels & s->dma.pending & ~s->dma.mask);
}

void weft_dma_set_mask(WeftPort *s, uint32_t mask)
{
    uint32_t unmasked = s->dma.mask & ~mask;

    s->dma.mask = mask;
    weft_dma_raise(s, weft_hook_delay(s, WEFT_LATE_DMA, 0,
                                      s->dma.pending & unmasked));
}

/* @addr: of the descriptor at HEAD, or what the driver wrote. */
void weft_dma_halt(WeftPort *s, unsigned n, unsigned reason, uint64_t addr)
{
    WeftDmaChannel *ch = &s->dma.channel[n];

    trace_weft_dma_halt(s->ep->node, s->number, n, reason, addr);
    ch->reason = reason;
    ch->active = false;
    ch->aborting = false;
    if (ch->stopping) {
        ch->stopping = false;
        ch->enabled = false;
    }
    ch->counter[WEFT_DMA_CNT_ERRORS]++;
    weft_error(s, WEFT_ERR_DMA, n | reason << 8, addr);
    weft_dma_notify(s, n);
}
