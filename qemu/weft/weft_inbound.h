/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: inbound entries, and the IOMMU in front of them.
 */
#ifndef WEFT_INBOUND_H
#define WEFT_INBOUND_H

#include "weft_hook.h"
#include "weft_port.h"

#define WEFT_ALLOW_LINKS        ((1u << WEFT_MAX_LINKS) - 1)

/* What was open may still be reached. */
static inline bool weft_inbound_busy(const WeftInbound *e)
{
    return e->ack_due || e->lingering;
}

/* weft_inbound.c */
void weft_inbound_apply(WeftPort *s, unsigned n);
void weft_inbound_reset(WeftPort *s);
void weft_inbound_refresh(WeftPort *s);
bool weft_inbound_acked(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp);
void weft_inbound_link_down(WeftPort *s, unsigned link);
void weft_inbound_lost(WeftPort *s);
bool weft_inbound_is_idle(const WeftPort *s);
void weft_inbound_exchange(WeftPort *a, WeftPort *b);
void weft_inbound_settled(WeftPort *s);
void weft_inbound_unmapped(WeftPort *s, uint64_t first, uint64_t last);
bool weft_inbound_held(WeftPort *s, uint64_t first, uint64_t last);
void weft_inbound_late(WeftPort *s, uint64_t first, uint64_t last);
uint64_t weft_inbound_bytes(const WeftPort *s);
void weft_inbound_quota(WeftPort *s, bool links);

/* weft_inbound_send.c */
void weft_inbound_send(WeftPort *s, unsigned n);
void weft_inbound_publish(WeftPort *s);

/* weft_inbound_regs.c */
uint32_t weft_inbound_read(WeftPort *s, unsigned n, unsigned reg);
void weft_inbound_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

/* weft_iommu.c */
extern const WeftHooks weft_iommu_hooks;
void weft_iommu_init(WeftPort *s, const WeftIommuOps *ops);
bool weft_iommu_page(WeftPort *s, AddressSpace *as, uint64_t base, bool write,
                     uint64_t *offset, uint64_t *len);
bool weft_iommu_watch(WeftPort *s);
bool weft_iommu_maps(WeftPort *s, const WeftAperture *ap, uint64_t base);
void weft_iommu_exit(WeftPort *s);

#endif /* WEFT_INBOUND_H */
