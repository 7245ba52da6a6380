/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the window, and the slots in it.
 */
#ifndef WEFT_SLOT_H
#define WEFT_SLOT_H

#include "weft_port.h"

/* weft_window.c */
void weft_report_flush(WeftPort *s, unsigned slot);
bool weft_window_init(WeftPort *s, Error **errp);
void weft_window_exit(WeftPort *s);
void weft_window_finalize(WeftPort *s);
void weft_window_report(WeftPort *s, unsigned slot, uint64_t offset,
                        unsigned kind);
void weft_window_count_refused(WeftPort *s, unsigned n, uint64_t off,
                               bool write);
bool weft_window_move(WeftPort *s, unsigned n, uint64_t off, void *buf,
                      uint64_t len, bool write);
void weft_window_put(WeftPort *s, hwaddr addr, uint64_t val, unsigned size);

/* weft_slot.c */
void weft_slots_update(WeftPort *s);
void weft_slots_update_all(WeftPort *ep);
void weft_slots_show(WeftPort *s);

/* weft_slot_regs.c */
void weft_slots_reset(WeftPort *s);
uint32_t weft_slot_read(WeftPort *s, unsigned n, unsigned reg);
void weft_slot_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);
void weft_slot_stored(WeftPort *s, uint32_t val);

#endif /* WEFT_SLOT_H */
