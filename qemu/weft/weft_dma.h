/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine, state of its channels.
 *
 * A function has an engine of its own, whose channels move bytes between the
 * function's DMA address space and its slots. weft_dma.c is what the driver
 * sees, the registers; weft_dma_work.c does the descriptors; weft_dma_mem.c
 * reaches memory, and weft_dma_tlp.c counts the TLPs that this takes.
 */
#ifndef WEFT_DMA_H
#define WEFT_DMA_H

#include "qemu/timer.h"
#include "weft_hook.h"
#include "weft_regs.h"

/*
 * Every tick of the guest's clock each channel with work gets one quantum. So
 * a long descriptor holds up neither the VM nor another channel, and how much
 * of it is done at which time depends on that clock alone.
 */
#define WEFT_DMA_TICK_NS        10000
/* Ticks that are made up for at once, at most. */
#define WEFT_DMA_MAX_LATE       15
#define WEFT_DMA_QUANTUM        (64 * 1024)
/* What the least step counts as: lists of single bytes cost time, too. */
#define WEFT_DMA_LEAST          512

/* A descriptor as copied from the ring, in the host's byte order. */
typedef struct WeftDmaDesc {
    uint32_t ctrl;
    uint32_t slot;
    uint64_t offset;
    uint64_t addr;
    uint32_t len;
    uint32_t count;
    uint32_t bell;
} WeftDmaDesc;

typedef struct WeftDmaElement {
    uint64_t addr;
    uint32_t len;
} WeftDmaElement;

typedef struct WeftDmaChannel {
    uint64_t base;              /* as written */
    uint32_t order;
    uint32_t vector;

    bool enabled;
    bool stopping;              /* disabled as soon as the abort is over */
    bool aborting;
    uint8_t reason;             /* why it is halted, or 0 */
    uint64_t ring;              /* as latched by ENABLE */
    uint32_t entries;
    uint32_t head, tail;        /* free running */
    uint32_t abort_to;          /* the first that is not to be aborted */

    bool active;                /* desc is the one at head, begun */
    bool skip;                  /* the chain it belongs to has failed */
    WeftDmaDesc desc;
    WeftDmaElement list[WEFT_DMA_MAX_ELEMENTS];
    unsigned element;           /* where in the list, */
    uint32_t skipped;           /* and in the element */
    uint32_t moved;             /* bytes of the descriptor */

    uint64_t counter[WEFT_DMA_COUNT];
} WeftDmaChannel;

typedef struct WeftDma {
    uint32_t channels;          /* property, 0: no engine */
    WeftDmaChannel channel[WEFT_MAX_DMA];
    uint32_t pending, mask;
    QEMUTimer *timer;
    int64_t due;                /* when it should run */
    unsigned first;             /* the channel that is served first */
    bool waits;                 /* some do, for the VF's rate */
} WeftDma;

/* weft_dma.c */
void weft_dma_init(WeftPort *s);
void weft_dma_exit(WeftPort *s);
void weft_dma_reset(WeftPort *s);
unsigned weft_dma_channels(const WeftPort *s);
void weft_dma_quota(WeftPort *s);
void weft_dma_kick(WeftPort *s);
bool weft_dma_covers(WeftPort *s, hwaddr addr);
uint32_t weft_dma_read(WeftPort *s, hwaddr addr);
void weft_dma_write(WeftPort *s, hwaddr addr, uint32_t val);

/* weft_dma_irq.c */
void weft_dma_notify(WeftPort *s, unsigned n);
void weft_dma_send(WeftPort *s, uint32_t channels);
void weft_dma_set_mask(WeftPort *s, uint32_t mask);
void weft_dma_halt(WeftPort *s, unsigned n, unsigned reason, uint64_t addr);

/* weft_dma_work.c */
bool weft_dma_pending(const WeftDmaChannel *ch);
bool weft_dma_serve(WeftPort *s, unsigned n);

/* weft_dma_mem.c */
bool weft_dma_master(WeftPort *s);
bool weft_dma_local(WeftPort *s, unsigned n, uint64_t addr, void *buf,
                    uint64_t len, bool write);
bool weft_dma_local_store(WeftPort *s, unsigned n, uint64_t addr,
                          uint64_t val);
unsigned weft_dma_check(WeftPort *s, const WeftDmaDesc *d, uint64_t off,
                        uint64_t len);
unsigned weft_dma_room(WeftPort *s, const WeftDmaDesc *d, uint64_t off);
bool weft_dma_window(WeftPort *s, unsigned n, const WeftDmaDesc *d,
                     uint64_t off, void *buf, uint64_t len);

/* weft_dma_tlp.c */
extern const WeftHooks weft_dma_tlp_hooks;
void weft_dma_config_init(WeftPort *s);
void weft_dma_config_reset(WeftPort *s);

#endif /* WEFT_DMA_H */
