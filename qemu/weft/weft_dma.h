/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the DMA engine.
 */
#ifndef WEFT_DMA_H
#define WEFT_DMA_H

#include "weft_hook.h"
#include "weft_port.h"

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
