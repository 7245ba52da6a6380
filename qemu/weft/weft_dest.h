/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: where destinations lead.
 */
#ifndef WEFT_DEST_H
#define WEFT_DEST_H

#include "weft_port.h"

/* weft_dest.c */
uint32_t weft_dest_links(const WeftPort *s);
bool weft_dest_link_up(const WeftPort *s, unsigned link);
bool weft_dest_switch_up(const WeftPort *s, unsigned link);
bool weft_dest_link(const WeftPort *s, uint32_t dest, unsigned *link,
                    unsigned *function);
WeftRemote *weft_dest_find(WeftPort *ep, uint32_t lid);
bool weft_dest_remote(const WeftPort *s, uint32_t dest, unsigned *link,
                      unsigned *function);
uint32_t weft_dest_status(const WeftPort *s, uint32_t dest);
uint32_t weft_dest_taken(const WeftPort *s, uint32_t dest);

#endif /* WEFT_DEST_H */
