/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what the fabric and this port tell each other.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "weft_port.h"

/* weft_session.c */
void weft_session_enable(WeftPort *s);
void weft_session_reset(WeftPort *s);
void weft_session_lost(WeftPort *ep, bool was_welcomed);
bool weft_session_welcome(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                          Error **errp);
bool weft_session_generation(WeftPort *ep, const struct weft_fab_msg *m,
                             int *fds, Error **errp);

/* weft_message.c */
extern const WeftFabOps weft_message_ops;

#endif /* WEFT_SESSION_H */
