/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: routes, remotes that are reached by them, configuration requests.
 */
#ifndef WEFT_ROUTE_H
#define WEFT_ROUTE_H

#include "weft_port.h"

/* weft_route.c */
void weft_routes_publish(WeftPort *ep);
void weft_routes_reset(WeftPort *ep);
void weft_routes_lost(WeftPort *ep);
bool weft_route_acked(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp);
bool weft_route_denied(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
void weft_route_set_lid(WeftPort *s, uint32_t lid);
uint32_t weft_route_read(WeftPort *s, unsigned n, unsigned reg);
void weft_route_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

/* weft_remote.c */
void weft_remotes_update(WeftPort *s);
void weft_remotes_publish(WeftPort *ep);
void weft_remotes_drop(WeftPort *ep);
void weft_remotes_lost(WeftPort *ep);
bool weft_remote_up(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                    Error **errp);
bool weft_remote_down(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp);
bool weft_remote_peer_gone(WeftPort *ep, const struct weft_fab_msg *m,
                           int *fds, Error **errp);

/* weft_config.c */
void weft_config_reset(WeftPort *ep);
void weft_config_lost(WeftPort *ep);
bool weft_config_reply(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
bool weft_config_covers(const WeftPort *s, hwaddr a);
uint32_t weft_config_read(WeftPort *s, hwaddr a);
void weft_config_write(WeftPort *s, hwaddr a, uint32_t val);

#endif /* WEFT_ROUTE_H */
