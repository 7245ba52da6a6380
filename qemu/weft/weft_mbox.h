/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the mailbox.
 */
#ifndef WEFT_MBOX_H
#define WEFT_MBOX_H

#include "weft_port.h"

/* weft_mbox.c */
void weft_mbox_reset(WeftPort *s);
void weft_mbox_send(WeftPort *s, uint32_t val);
bool weft_mbox_receive(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
uint32_t weft_mbox_rx_status(WeftPort *s);
uint32_t weft_mbox_rx_lid(WeftPort *s);
uint32_t weft_mbox_rx_word(WeftPort *s, unsigned offset);
void weft_mbox_pop(WeftPort *s);

#endif /* WEFT_MBOX_H */
