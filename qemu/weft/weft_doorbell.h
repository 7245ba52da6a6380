/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: doorbells.
 */
#ifndef WEFT_DOORBELL_H
#define WEFT_DOORBELL_H

#include "weft_port.h"

/* weft_doorbell.c */
bool weft_doorbell_init(WeftPort *s, Error **errp);
void weft_doorbell_exit(WeftPort *s);
void weft_doorbell_reset(WeftPort *s);
void weft_doorbell_forget(WeftPort *s);
bool weft_doorbell_write(WeftPort *s, unsigned page, uint32_t val);
void weft_doorbell_arrive(WeftPort *s, unsigned via, unsigned function,
                          uint32_t bits);
void weft_doorbell_open(WeftPort *s);
void weft_doorbell_close(WeftPort *s);
void weft_doorbell_again(WeftPort *s);
void weft_doorbell_send(WeftPort *s, uint32_t bits);
void weft_doorbell_set_mask(WeftPort *s, uint32_t mask);

#endif /* WEFT_DOORBELL_H */
