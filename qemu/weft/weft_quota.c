/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what a PF lets each of its VFs have, and the PF's registers for
 * that. The quota is checked where it bites (slots, entries, doorbells).
 */
#include "qemu/osdep.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_inbound.h"
#include "weft_port.h"
#include "weft_slot.h"
#include "weft_vf.h"

#define WEFT_VF_NEWS    (WEFT_VF_RESET | WEFT_VF_RX | WEFT_VF_TAKEN)

/* What a PF may have: all there is. */
const WeftQuota weft_unlimited = {
    .slots = UINT32_MAX,
    .inbound = UINT32_MAX,
    .doorbells = UINT32_MAX,
    .db_pages = UINT32_MAX,
    .channels = UINT32_MAX,
    .bytes = UINT64_MAX,
    .links = UINT32_MAX,
    .peers = UINT64_MAX,
};

static uint32_t weft_vf_status(WeftPort *pf, unsigned n)
{
    const WeftPort *vf = pf->vf_port[n];

    return (PCI_DEVICE(vf)->enabled ? WEFT_VF_ENABLED : 0) |
           (vf->bus_master ? WEFT_VF_MASTER : 0) | pf->vf[n].news;
}

static uint32_t weft_vf_used(const WeftPort *vf)
{
    unsigned slots = 0, live = 0;

    for (unsigned i = 0; i < vf->slots; i++) {
        slots += vf->slot[i].active.ctrl & WEFT_SLOT_ENABLE;
    }
    for (unsigned i = 0; i < WEFT_MAX_INBOUND; i++) {
        live += vf->inbound[i].open.len != 0;
    }
    return slots | live << 8;
}

static uint32_t weft_vf_quota_read(const WeftQuota *q, unsigned reg)
{
    switch (reg) {
    case WEFT_VF_SLOTS:
        return q->slots;
    case WEFT_VF_INBOUND:
        return q->inbound;
    case WEFT_VF_DOORBELLS:
        return q->doorbells;
    case WEFT_VF_DB_PAGES:
        return q->db_pages;
    case WEFT_VF_BYTES:
        return q->bytes;
    case WEFT_VF_BYTES + 4:
        return q->bytes >> 32;
    case WEFT_VF_LINKS:
        return q->links;
    case WEFT_VF_CHANNELS:
        return q->channels;
    case WEFT_VF_PEERS:
        return q->peers;
    case WEFT_VF_PEERS + 4:
        return q->peers >> 32;
    case WEFT_VF_HWID:
        return q->hwid;
    case WEFT_VF_HWID + 4:
        return q->hwid >> 32;
    case WEFT_VF_RATE:
        return q->rate;
    case WEFT_VF_RATE + 4:
        return q->rate >> 32;
    case WEFT_VF_RINGS:
        return q->rings;
    }
    return 0;
}

uint32_t weft_quota_read(WeftPort *pf, unsigned n, unsigned reg)
{
    const WeftPort *vf = pf->vf_port[n];
    const WeftVf *v = &pf->vf[n];

    if (!vf) {
        return 0;
    }
    if (reg >= WEFT_VF_MBOX && reg - WEFT_VF_MBOX < WEFT_PAIR_STRIDE) {
        return weft_pair_read(&v->down, &v->up, reg - WEFT_VF_MBOX);
    }
    switch (reg) {
    case WEFT_VF_STATUS:
        return weft_vf_status(pf, n);
    case WEFT_VF_FUNCTION:
        return vf->number;
    case WEFT_VF_USED:
        return weft_vf_used(vf);
    case WEFT_VF_USED_BYTES:
        return weft_inbound_bytes(vf);
    case WEFT_VF_USED_BYTES + 4:
        return weft_inbound_bytes(vf) >> 32;
    case WEFT_VF_MOVED:
        return v->bucket[WEFT_RATE_DMA].count;
    case WEFT_VF_MOVED + 4:
        return v->bucket[WEFT_RATE_DMA].count >> 32;
    case WEFT_VF_RUNG:
        return v->bucket[WEFT_RATE_RING].count;
    case WEFT_VF_RUNG + 4:
        return v->bucket[WEFT_RATE_RING].count >> 32;
    }
    return weft_vf_quota_read(&v->wanted, reg);
}

static bool weft_vf_quota_write(WeftQuota *q, unsigned reg, uint32_t val)
{
    switch (reg) {
    case WEFT_VF_SLOTS:
        q->slots = val;
        return true;
    case WEFT_VF_INBOUND:
        q->inbound = val;
        return true;
    case WEFT_VF_DOORBELLS:
        q->doorbells = val;
        return true;
    case WEFT_VF_DB_PAGES:
        q->db_pages = val;
        return true;
    case WEFT_VF_BYTES:
        q->bytes = deposit64(q->bytes, 0, 32, val);
        return true;
    case WEFT_VF_BYTES + 4:
        q->bytes = deposit64(q->bytes, 32, 32, val);
        return true;
    case WEFT_VF_LINKS:
        q->links = val;
        return true;
    case WEFT_VF_CHANNELS:
        q->channels = val;
        return true;
    case WEFT_VF_PEERS:
        q->peers = deposit64(q->peers, 0, 32, val);
        return true;
    case WEFT_VF_PEERS + 4:
        q->peers = deposit64(q->peers, 32, 32, val);
        return true;
    case WEFT_VF_HWID:
        q->hwid = deposit64(q->hwid, 0, 32, val);
        return true;
    case WEFT_VF_HWID + 4:
        q->hwid = deposit64(q->hwid, 32, 32, val);
        return true;
    case WEFT_VF_RATE:
        q->rate = deposit64(q->rate, 0, 32, val);
        return true;
    case WEFT_VF_RATE + 4:
        q->rate = deposit64(q->rate, 32, 32, val);
        return true;
    case WEFT_VF_RINGS:
        q->rings = val;
        return true;
    }
    return false;
}

/* What the VF has beyond its new quota is taken away before this returns. */
static void weft_vf_quota_latch(WeftPort *pf, unsigned n)
{
    WeftPort *vf = pf->vf_port[n];
    WeftVf *v = &pf->vf[n];
    uint32_t links = v->wanted.links ^ v->quota.links;
    WeftQuota old = v->quota;

    v->quota = v->wanted;
    weft_slots_update(vf);
    weft_inbound_quota(vf, links);
    weft_dma_quota(vf);
    weft_rate_latched(vf, &old);
    if (v->quota.rate != old.rate) {
        weft_dma_kick(vf);
    }
    if (v->quota.rings != old.rings) {
        weft_doorbell_again(vf);
    }
    for (unsigned i = 0; i < WEFT_MAX_LINKS; i++) {
        if ((links & BIT(i)) && vf->link[i].up) {
            weft_event(vf, BIT(i));
        }
    }
}

/* Does no other port have anything to do with @vf now? */
static bool weft_vf_is_closed(WeftPort *vf)
{
    return !weft_vf_used(vf) && weft_inbound_is_idle(vf) &&
           !vf->generations_due;
}

/*
 * VF @n gets the number @number, and the VF that has that gets its. Neighbours name a
 * function by its number: what they know of one must be over.
 */
static void weft_vf_renumber(WeftPort *pf, unsigned n, uint32_t number)
{
    WeftPort *ep = pf->ep, *vf = pf->vf_port[n];
    WeftPort *other = number < WEFT_FUNCTIONS ? ep->function[number] : NULL;

    if (!other || other == vf || other == pf || other->pf != pf ||
        !weft_vf_is_closed(vf) || !weft_vf_is_closed(other)) {
        return;
    }
    ep->function[vf->number] = other;
    ep->function[number] = vf;
    other->number = vf->number;
    vf->number = number;
    weft_doorbell_forget(vf);
    weft_doorbell_forget(other);
    weft_inbound_exchange(vf, other);
}

static void weft_vf_mbox_write(WeftPort *pf, unsigned n, unsigned reg,
                               uint32_t val)
{
    bool taken;
    bool sent = weft_pair_write(&pf->vf[n].down, &pf->vf[n].up, reg, val,
                                &taken);

    if (sent || taken) {
        weft_event(pf->vf_port[n], WEFT_EVENT_FUNCTION);
    }
}

void weft_quota_write(WeftPort *pf, unsigned n, unsigned reg, uint32_t val)
{
    if (!pf->vf_port[n] ||
        weft_vf_quota_write(&pf->vf[n].wanted, reg, val)) {
        return;
    }
    if (reg == WEFT_VF_STATUS) {
        pf->vf[n].news &= ~(val & WEFT_VF_NEWS);
    } else if (reg == WEFT_VF_CTRL) {
        weft_vf_quota_latch(pf, n);
    } else if (reg == WEFT_VF_NUMBER) {
        weft_vf_renumber(pf, n, val);
    } else if (reg >= WEFT_VF_MBOX && reg - WEFT_VF_MBOX < WEFT_PAIR_STRIDE) {
        weft_vf_mbox_write(pf, n, reg - WEFT_VF_MBOX, val);
    }
}
