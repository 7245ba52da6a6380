/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: events, errors and interrupts.
 */
#ifndef WEFT_EVENT_H
#define WEFT_EVENT_H

#include "weft_port.h"

/* weft_event.c */
void weft_event(WeftPort *s, uint32_t bits);
void weft_error(WeftPort *s, uint32_t bit, unsigned where, uint64_t addr);
void weft_event_set_mask(WeftPort *s, uint32_t mask);
void weft_interrupt(WeftPort *s, uint32_t vectors);
void weft_event_send(WeftPort *s, uint32_t bits);
void weft_event_reset(WeftPort *s);
void weft_error_denied(WeftPort *s, unsigned where, uint64_t offset,
                       uint64_t count);
void weft_event_link(WeftPort *ep, unsigned link);
void weft_error_all(WeftPort *ep, uint32_t bit);
void weft_event_vf(WeftPort *pf, unsigned n, uint32_t bit);

#endif /* WEFT_EVENT_H */
