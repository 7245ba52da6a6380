/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the connection to weft-fabric.
 */
#ifndef WEFT_FAB_H
#define WEFT_FAB_H

#include "weft_port.h"

/* weft_fab.c */
/*
 * The connection is the endpoint's; send, ready and complain can be called for
 * any of its functions.
 */
bool weft_fab_init(WeftPort *s, const WeftFabOps *ops, Error **errp);
void weft_fab_exit(WeftPort *s);
void weft_fab_send(WeftPort *s, const struct weft_fab_msg *m);
bool weft_fab_ready(WeftPort *s);
bool weft_fab_answers(WeftPort *s);
void weft_fab_wait(unsigned ms);
void weft_fab_complain(WeftPort *s, const char *what);

/* weft_fab_rx.c */
int weft_fab_receive(WeftPort *s, Error **errp);

#endif /* WEFT_FAB_H */
