/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine, state of its channels.
 *
 * A function has an engine of its own, whose channels move bytes between the
 * function's DMA address space and its slots. weft_dma.c is what the driver
 * sees, the registers; weft_dma_work.c does the descriptors; weft_dma_mem.c
 * reaches memory, and weft_dma_tlp.c counts the TLPs that this takes.
 */
#ifndef WEFT_DMA_STATE_H
#define WEFT_DMA_STATE_H

#include "qemu/timer.h"
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

#endif /* WEFT_DMA_STATE_H */
