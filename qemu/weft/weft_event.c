/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: events, errors and the interrupts they raise.
 *
 * An interrupt is sent when a bit turns from 0 to 1 while unmasked, and when
 * a set bit is unmasked. Causes that share a vector send one message.
 */
#include "qemu/osdep.h"
#include "hw/pci/msix.h"
#include "trace.h"
#include "weft_event.h"
#include "weft_hook.h"
#include "weft_port.h"

/* @vectors: a bit a vector. */
void weft_interrupt(WeftPort *s, uint32_t vectors)
{
    if (weft_hook_interrupt(s, vectors)) {
        return;
    }
    if (vectors) {
        trace_weft_interrupt(s->ep->node, s->number, vectors);
    }
    while (vectors) {
        unsigned n = ctz32(vectors);

        vectors &= vectors - 1;
        s->counter[WEFT_CNT_IRQS]++;
        msix_notify(PCI_DEVICE(s), n);
    }
}

static uint32_t weft_event_vector(WeftPort *s, uint32_t field)
{
    uint32_t n = (s->event_vector & field) >> ctz32(field);

    return n < WEFT_VECTORS ? BIT(n) : 0;
}

static void weft_event_raise(WeftPort *s, uint32_t bits)
{
    uint32_t vectors = 0;

    if (bits & (WEFT_EVENT_LINK | WEFT_EVENT_ROUTE)) {
        vectors |= weft_event_vector(s, WEFT_EVENT_VECTOR_LINK);
    }
    if (bits & (WEFT_EVENT_MBOX | WEFT_EVENT_FUNCTION | WEFT_EVENT_CFG |
                WEFT_EVENT_PLUG)) {
        vectors |= weft_event_vector(s, WEFT_EVENT_VECTOR_MBOX);
    }
    if (bits & WEFT_EVENT_ERROR) {
        vectors |= weft_event_vector(s, WEFT_EVENT_VECTOR_ERROR);
    }
    weft_interrupt(s, vectors);
}

void weft_event(WeftPort *s, uint32_t bits)
{
    uint32_t fresh = bits & ~s->event;

    s->event |= bits;
    weft_event_raise(s, weft_hook_delay(s, WEFT_LATE_EVENT, 0,
                                        fresh & ~s->event_mask));
}

/* Late interrupts, as far as there is still a reason for them. */
void weft_event_send(WeftPort *s, uint32_t bits)
{
    weft_event_raise(s, bits & s->event & ~s->event_mask);
}

void weft_event_set_mask(WeftPort *s, uint32_t mask)
{
    uint32_t unmasked = s->event_mask & ~mask;

    s->event_mask = mask;
    weft_event_raise(s, weft_hook_delay(s, WEFT_LATE_EVENT, 0,
                                        s->event & unmasked));
}

/* @where: slot, entry, link or doorbell page; @addr: what ERR_ADDR shows. */
void weft_error(WeftPort *s, uint32_t bit, unsigned where, uint64_t addr)
{
    trace_weft_error(s->ep->node, s->number, bit, where, addr);
    if (!s->err_status) {
        s->err_info = ctz32(bit) | where << 8;
        s->err_addr = addr;
    }
    if (!(s->err_status & bit)) {
        s->err_status |= bit;
        weft_event(s, WEFT_EVENT_ERROR);
    }
}

/* A neighbour, or this port itself, was refused. @offset: aperture space. */
void weft_error_denied(WeftPort *s, unsigned where, uint64_t offset,
                       uint64_t count)
{
    s->counter[WEFT_CNT_IN_DENIED] += count;
    weft_error(s, WEFT_ERR_IN_DENIED, where, offset);
}

/* ---- what several functions are to know ------------------------------- */

void weft_event_link(WeftPort *ep, unsigned link)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        if (f->quota->links & BIT(link)) {
            weft_event(f, BIT(link));
        }
    }
}

void weft_error_all(WeftPort *ep, uint32_t bit)
{
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_error(f, bit, 0, 0);
    }
}

/* A PF is to look at its VF @n. */
void weft_event_vf(WeftPort *pf, unsigned n, uint32_t bit)
{
    pf->vf[n].news |= bit;
    pf->vf_pending |= BIT(n);
    weft_event(pf, WEFT_EVENT_FUNCTION);
}

/* ---- life ------------------------------------------------------------ */

void weft_event_reset(WeftPort *s)
{
    s->event = 0;
    s->event_mask = UINT32_MAX;
    s->event_vector = 0x03020100;
    s->err_status = 0;
    s->err_info = 0;
    s->err_addr = 0;
    s->iommu.vectors = 0;
    memset(s->counter, 0, sizeof(s->counter));
}
