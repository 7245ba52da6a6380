/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what stands between an access and where it leads.
 *
 * Faults, the IOMMU, traced and adversarial mode change or watch what passes,
 * each in a file of its own. They are a chain of hooks, in the order of the
 * table in weft_port.c: a point of the device asks the hooks that have
 * something to say there, one after the other, and knows none of them. All
 * points of a hook may be left out.
 */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include "system/fence.h"
#include "weft_port.h"

/* What becomes of data that a DMA channel writes. */
typedef enum WeftVerdict {
    WEFT_PASS,                  /* they go on, to the next hook */
    WEFT_LOST,                  /* nothing of them arrives, or is counted */
    WEFT_TAKEN                  /* the hook has them arrive, later */
} WeftVerdict;

/* An access of a CPU to a slot, which is allowed. */
typedef struct WeftAccess {
    unsigned slot;
    uint64_t off;               /* in the slot */
    hwaddr addr;                /* in BAR 2 */
    uint64_t val;               /* of a store */
    unsigned size;
    bool combining;
} WeftAccess;

/* What becomes late: a doorbell to the link of that number, or one of these. */
enum {
    WEFT_LATE_EVENT = 252,      /* the interrupt of an event */
    WEFT_LATE_DOORBELL,         /* the interrupt of a doorbell */
    WEFT_LATE_DMA,              /* the interrupt of a DMA channel */
    WEFT_LATE_SELF              /* a doorbell to this port */
};

typedef struct WeftHooks {
    /* ---- life of the function ---- */
    void (*init)(WeftPort *s);
    void (*exit)(WeftPort *s);
    void (*reset)(WeftPort *s);
    /* Its endpoint is another one, and with it what the fabric wants. */
    void (*moved)(WeftPort *s);

    /* ---- accesses of the host ---- */
    /* True: the function answers its host nothing. */
    bool (*silent)(WeftPort *s);
    /* Stores that have been combined so far leave. */
    void (*flush)(WeftPort *s);
    /* A CPU executes a fence. */
    void (*fence)(WeftPort *s, const CPUState *cpu, FenceOf of);
    /* A CPU loads: its own stores arrive before. */
    void (*drain)(WeftPort *s);
    /* True: the load is answered with all ones. */
    bool (*load)(WeftPort *s, const WeftAccess *a);
    /* True: the store has been dealt with. */
    bool (*store)(WeftPort *s, const WeftAccess *a);

    /* ---- slots ---- */
    /* True: accesses through @via have to trap. */
    bool (*traps)(WeftPort *s, int via);
    /* True: what goes through @via is lost, and the host not told. */
    bool (*dead)(WeftPort *s, int via);
    /* What is on its way through @slot is lost. */
    void (*drop)(WeftPort *s, unsigned slot);
    /* True: memory that is open is out of reach. */
    bool (*closed)(WeftPort *s);

    /* ---- the DMA engine ---- */
    /* True: a channel has something better to do now. */
    bool (*idle)(WeftPort *s);
    /* Why a step through @slot fails, or WEFT_DMA_ST_OK. */
    unsigned (*step)(WeftPort *s, unsigned slot, uint64_t off, bool write);
    /* Channel @n writes. */
    WeftVerdict (*post)(WeftPort *s, unsigned n, unsigned slot, uint64_t off,
                        const void *buf, uint32_t len);
    /* All that channel @n has written arrives. */
    void (*push)(WeftPort *s, unsigned n);
    /* Channel @n has reached the host's memory at @addr. */
    void (*local)(WeftPort *s, unsigned n, uint64_t addr, uint64_t len,
                  bool write);
    /* And by @via a neighbour's, at @at of its aperture space. */
    void (*remote)(WeftPort *s, unsigned n, int via, uint64_t at, uint64_t len,
                   bool write);

    /* ---- doorbells and interrupts ---- */
    /* True: doorbells that come over @link are lost. */
    bool (*deaf)(WeftPort *s, unsigned link);
    /* Those of @bits that are to have their effect now; the rest follow. */
    uint32_t (*delay)(WeftPort *s, unsigned what, unsigned function,
                      uint32_t bits);
    /* Nothing is to be late any more. */
    void (*prompt)(WeftPort *s);
    /* What is late and was to go over @link is lost. */
    void (*link_down)(WeftPort *s, unsigned link);
    /* True: the interrupts are lost, or come later. */
    bool (*interrupt)(WeftPort *s, uint32_t vectors);
    /* True: the guest's memory map must wait, and is shown by then. */
    bool (*put_off)(WeftPort *s);
} WeftHooks;

/* Each asks the whole chain of @s; true, or not OK, ends it. */
void weft_hook_init(WeftPort *s);
void weft_hook_exit(WeftPort *s);
void weft_hook_reset(WeftPort *s);
void weft_hook_moved(WeftPort *s);
bool weft_hook_silent(WeftPort *s);
void weft_hook_flush(WeftPort *s);
void weft_hook_fence(WeftPort *s, const CPUState *cpu, FenceOf of);
void weft_hook_drain(WeftPort *s);
bool weft_hook_load(WeftPort *s, const WeftAccess *a);
bool weft_hook_store(WeftPort *s, const WeftAccess *a);
bool weft_hook_traps(WeftPort *s, int via);
bool weft_hook_dead(WeftPort *s, int via);
void weft_hook_drop(WeftPort *s, unsigned slot);
bool weft_hook_closed(WeftPort *s);
bool weft_hook_idle(WeftPort *s);
unsigned weft_hook_step(WeftPort *s, unsigned slot, uint64_t off, bool write);
WeftVerdict weft_hook_post(WeftPort *s, unsigned n, unsigned slot,
                           uint64_t off, const void *buf, uint32_t len);
void weft_hook_push(WeftPort *s, unsigned n);
void weft_hook_local(WeftPort *s, unsigned n, uint64_t addr, uint64_t len,
                     bool write);
void weft_hook_remote(WeftPort *s, unsigned n, int via, uint64_t at,
                      uint64_t len, bool write);
bool weft_hook_deaf(WeftPort *s, unsigned link);
uint32_t weft_hook_delay(WeftPort *s, unsigned what, unsigned function,
                         uint32_t bits);
void weft_hook_prompt(WeftPort *s);
void weft_hook_link_down(WeftPort *s, unsigned link);
bool weft_hook_interrupt(WeftPort *s, uint32_t vectors);
bool weft_hook_put_off(WeftPort *s);

#endif /* WEFT_HOOK_H */
