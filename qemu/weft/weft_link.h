/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: links, what they carry, and the neighbours behind them.
 */
#ifndef WEFT_LINK_H
#define WEFT_LINK_H

#include "weft_port.h"

/* weft_link.c */
void weft_link_init(WeftPort *s);
void weft_link_exit(WeftPort *s);
void weft_link_reset(WeftPort *s);
bool weft_link_up(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                  Error **errp);
bool weft_link_down(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                    Error **errp);
bool weft_link_info(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                    Error **errp);
void weft_link_lost(WeftPort *s);
void weft_link_publish(WeftPort *s);
uint32_t weft_link_read(WeftPort *s, unsigned n, unsigned reg);
void weft_link_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

bool weft_link_attach(WeftLink *link, int *fds, unsigned channel,
                      uint32_t life, Error **errp);
void weft_link_detach(WeftPort *s, WeftLink *link);

/* weft_linger.c */
void weft_linger_init(WeftPort *s);
void weft_linger_exit(WeftPort *s);
void weft_linger_settle(WeftPort *s);
void weft_linger_add(WeftPort *s, unsigned n, uint64_t over);
void weft_linger_all(WeftPort *s);
void weft_linger_joined(WeftPort *s);

/* weft_seen.c */
bool weft_seen_inbound(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);

/* weft_traffic.c */
void weft_traffic_init(WeftPort *s);
void weft_traffic_exit(WeftPort *s);
void weft_traffic_add(WeftPort *s, int via, uint64_t tlps, uint64_t bytes,
                      bool write);
void weft_traffic_moved(WeftPort *s, int via, uint64_t bytes, bool write);
void weft_traffic_doorbell(WeftPort *s, unsigned link);
void weft_traffic_refused(WeftPort *s, unsigned link, uint32_t doorbell);
void weft_traffic_report(WeftPort *ep, unsigned link);
bool weft_traffic_carried(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                          Error **errp);
uint32_t weft_traffic_read(WeftPort *s, unsigned link, unsigned reg);
void weft_traffic_flush(WeftPort *ep, unsigned link);
void weft_traffic_flush_all(WeftPort *ep);

#endif /* WEFT_LINK_H */
