/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: virtual functions, what their PF lets them have, and its mailbox
 * to each.
 */
#ifndef WEFT_VF_H
#define WEFT_VF_H

#include "weft_port.h"

/* weft_vf.c */
bool weft_vfs_init(WeftPort *pf, Error **errp);
void weft_vfs_exit(WeftPort *pf);

/* weft_quota.c */
extern const WeftQuota weft_unlimited;
uint32_t weft_quota_read(WeftPort *pf, unsigned n, unsigned reg);
void weft_quota_write(WeftPort *pf, unsigned n, unsigned reg, uint32_t val);

/* weft_pair.c */
uint32_t weft_pair_read(const WeftPairBox *tx, const WeftPairBox *rx,
                        unsigned reg);
bool weft_pair_write(WeftPairBox *tx, WeftPairBox *rx, unsigned reg,
                     uint32_t val, bool *taken);
uint32_t weft_pair_vf_read(WeftPort *s, unsigned reg);
void weft_pair_vf_write(WeftPort *s, unsigned reg, uint32_t val);

/* weft_rate.c */
void weft_rate_latched(WeftPort *s, const WeftQuota *old);
int64_t weft_rate_opens(WeftPort *s, unsigned what);
void weft_rate_take(WeftPort *s, unsigned what, unsigned amount);
void weft_rate_count(WeftPort *s, unsigned what, uint64_t amount);

#endif /* WEFT_VF_H */
