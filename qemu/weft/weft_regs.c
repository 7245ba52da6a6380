/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the register file, BAR 0. weft_regs.h says what is where.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "trace.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_mbox.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_session.h"
#include "weft_slot.h"
#include "weft_vf.h"

/* Is @addr in an array of @count groups of @stride bytes from @base on? */
static bool weft_in(hwaddr addr, hwaddr base, unsigned stride, unsigned count)
{
    return addr >= base && addr - base < (hwaddr)stride * count;
}

static uint32_t weft_half(uint64_t val, hwaddr addr)
{
    return addr & 4 ? val >> 32 : val;
}

static uint32_t weft_status(WeftPort *s)
{
    return (weft_fab_ready(s) && !s->generations_due ?
            WEFT_STATUS_FABRIC : 0) |
           (s->traced ? WEFT_STATUS_TRACED : 0) |
           (s->adversary.on ? WEFT_STATUS_ADVERSARIAL : 0);
}

static uint32_t weft_cap0(WeftPort *s)
{
    const WeftQuota *q = s->quota;

    return MIN(q->slots, s->slots) |
           MIN(q->inbound, WEFT_MAX_INBOUND) << ctz32(WEFT_CAP0_INBOUND) |
           MIN(q->doorbells, WEFT_DOORBELLS) << ctz32(WEFT_CAP0_DOORBELLS) |
           MIN(q->db_pages, WEFT_DB_PAGES) << ctz32(WEFT_CAP0_DB_PAGES);
}

static uint32_t weft_cap1(WeftPort *s)
{
    return WEFT_MAX_LINKS | WEFT_CAP1_STORED | WEFT_CAP1_TRACED |
           WEFT_CAP1_ROUTES |
           (s == s->ep ? WEFT_CAP1_LINK_BYTES : 0) |
           (s == s->ep && s->fab.attests ? WEFT_CAP1_ATTESTS : 0) |
           (s == s->pf ? WEFT_CAP1_MBOX_LID : 0) |
           (weft_dma_channels(s) ? WEFT_CAP1_DMA : 0) |
           (s->vfs ? WEFT_CAP1_SRIOV | WEFT_CAP1_VF_HWID |
                   WEFT_CAP1_VF_RATE | WEFT_CAP1_VF_NUMBER : 0) |
           (s == s->pf ? (uint32_t)WEFT_MBOX_BYTES <<
                         ctz32(WEFT_CAP1_MBOX_BYTES) : 0);
}

/*
 * The endpoint's; of its other functions, with their number on top. A VF is
 * the one that its PF says.
 */
static uint64_t weft_hwid(WeftPort *s)
{
    if (s->quota->hwid) {
        return s->quota->hwid;
    }
    return s->ep->hwid ? s->ep->hwid ^ (uint64_t)s->number << 58 : 0;
}

static uint32_t weft_function(WeftPort *s)
{
    return s->number | s->vfs << ctz32(WEFT_FUNCTION_VFS) |
           (s == s->pf ? 0 : WEFT_FUNCTION_VF);
}

static uint32_t weft_array_read(WeftPort *s, hwaddr a)
{
    if (weft_in(a, WEFT_R_LINK, WEFT_LINK_STRIDE, WEFT_MAX_LINKS)) {
        a -= WEFT_R_LINK;
        return weft_link_read(s, a / WEFT_LINK_STRIDE, a % WEFT_LINK_STRIDE);
    }
    if (weft_in(a, WEFT_R_MBOX_TX_DATA, 4, WEFT_MBOX_BYTES / 4)) {
        return ldl_le_p(s->mbox_tx + (a - WEFT_R_MBOX_TX_DATA));
    }
    if (weft_in(a, WEFT_R_MBOX_RX_DATA, 4, WEFT_MBOX_BYTES / 4)) {
        return weft_mbox_rx_word(s, a - WEFT_R_MBOX_RX_DATA);
    }
    if (weft_in(a, WEFT_R_COUNTERS, 8, WEFT_COUNTERS)) {
        return weft_half(s->counter[(a - WEFT_R_COUNTERS) / 8], a);
    }
    if (weft_in(a, WEFT_R_SLOT, WEFT_SLOT_STRIDE, s->slots)) {
        a -= WEFT_R_SLOT;
        return weft_slot_read(s, a / WEFT_SLOT_STRIDE, a % WEFT_SLOT_STRIDE);
    }
    if (weft_in(a, WEFT_R_INBOUND, WEFT_INBOUND_STRIDE, WEFT_MAX_INBOUND)) {
        a -= WEFT_R_INBOUND;
        return weft_inbound_read(s, a / WEFT_INBOUND_STRIDE,
                                 a % WEFT_INBOUND_STRIDE);
    }
    if (weft_in(a, WEFT_R_DB_VECTOR, 4, WEFT_DOORBELLS)) {
        return s->db_vector[(a - WEFT_R_DB_VECTOR) / 4];
    }
    if (weft_in(a, WEFT_R_DB_ALLOW, 4, WEFT_MAX_LINKS)) {
        return s->db_allow[(a - WEFT_R_DB_ALLOW) / 4];
    }
    if (weft_in(a, WEFT_R_DB_PAGE, WEFT_DB_PAGE_STRIDE, WEFT_DB_PAGES)) {
        unsigned n = (a - WEFT_R_DB_PAGE) / WEFT_DB_PAGE_STRIDE;

        return (a & WEFT_DB_PAGE_ALLOW) ? s->db_page[n].allow :
                                          s->db_page[n].dest;
    }
    if (weft_dma_covers(s, a)) {
        return weft_dma_read(s, a);
    }
    if (weft_in(a, WEFT_R_PF_MBOX, WEFT_PAIR_STRIDE, 1)) {
        return weft_pair_vf_read(s, a - WEFT_R_PF_MBOX);
    }
    if (weft_in(a, WEFT_R_ROUTE, WEFT_ROUTE_STRIDE, WEFT_ROUTES)) {
        a -= WEFT_R_ROUTE;
        return s == s->ep ? weft_route_read(s, a / WEFT_ROUTE_STRIDE,
                                            a % WEFT_ROUTE_STRIDE) : 0;
    }
    if (weft_config_covers(s, a)) {
        return weft_config_read(s, a);
    }
    if (weft_in(a, WEFT_R_DB_ALLOW_VP, 4, WEFT_FAB_GATES)) {
        return s->db_allow_vp[(a - WEFT_R_DB_ALLOW_VP) / 4];
    }
    if (weft_in(a, WEFT_R_VF, WEFT_VF_STRIDE, s->vfs)) {
        a -= WEFT_R_VF;
        return weft_quota_read(s, a / WEFT_VF_STRIDE, a % WEFT_VF_STRIDE);
    }
    return 0;
}

static uint64_t weft_regs_read(void *opaque, hwaddr a, unsigned size)
{
    WeftPort *s = opaque;

    if (weft_hook_silent(s)) {
        return UINT32_MAX;
    }
    weft_hook_flush(s);
    switch (a) {
    case WEFT_R_ID:
        return WEFT_ID;
    case WEFT_R_VERSION:
        return WEFT_VERSION;
    case WEFT_R_CAP0:
        return weft_cap0(s);
    case WEFT_R_CAP1:
        return weft_cap1(s);
    case WEFT_R_SLOT_SHIFT:
        return s->slot_shift;
    case WEFT_R_WC_OFFSET:
    case WEFT_R_WC_OFFSET + 4:
        return weft_half(s->wc_offset, a);
    case WEFT_R_HWID:
    case WEFT_R_HWID + 4:
        return weft_half(weft_hwid(s), a);
    case WEFT_R_GENERATION:
        return s->generation;
    case WEFT_R_LID:
        return s->lid;
    case WEFT_R_CTRL:
        return s->ctrl;
    case WEFT_R_STATUS:
        return weft_status(s);
    case WEFT_R_EVENT:
        return s->event;
    case WEFT_R_EVENT_MASK:
        return s->event_mask;
    case WEFT_R_EVENT_VECTOR:
        return s->event_vector;
    case WEFT_R_SCRATCH:
        return s->scratch;
    case WEFT_R_DB_PENDING:
        return s->db_pending;
    case WEFT_R_DB_MASK:
        return s->db_mask;
    case WEFT_R_FUNCTION:
        return weft_function(s);
    case WEFT_R_VF_PENDING:
        return s->vf_pending;
    case WEFT_R_MBOX_TX_STATUS:
        return s->mbox_failed ? WEFT_MBOX_TX_FAILED : 0;
    case WEFT_R_MBOX_TX_LID:
        return s->mbox_tx_lid;
    case WEFT_R_MBOX_VPS:
    case WEFT_R_MBOX_VPS + 4:
        return weft_half(s->mbox_vps, a);
    case WEFT_R_MBOX_RX_STATUS:
        return weft_mbox_rx_status(s);
    case WEFT_R_MBOX_RX_LID:
        return weft_mbox_rx_lid(s);
    case WEFT_R_ERR_STATUS:
        return s->err_status;
    case WEFT_R_ERR_INFO:
        return s->err_info;
    case WEFT_R_ERR_ADDR:
    case WEFT_R_ERR_ADDR + 4:
        return weft_half(s->err_addr, a);
    }
    return weft_array_read(s, a);
}

static void weft_array_write(WeftPort *s, hwaddr a, uint32_t val)
{
    if (weft_in(a, WEFT_DB_PAGE_BASE, WEFT_PAGE, WEFT_DB_PAGES_AT_BASE)) {
        a -= WEFT_DB_PAGE_BASE;
        if (a % WEFT_PAGE == 0) {
            weft_doorbell_write(s, a / WEFT_PAGE, val);
        }
    } else if (weft_in(a, WEFT_DB_PAGE_MORE, WEFT_PAGE,
                       WEFT_DB_PAGES - WEFT_DB_PAGES_AT_BASE)) {
        a -= WEFT_DB_PAGE_MORE;
        if (a % WEFT_PAGE == 0) {
            weft_doorbell_write(s, WEFT_DB_PAGES_AT_BASE + a / WEFT_PAGE, val);
        }
    } else if (weft_in(a, WEFT_R_LINK, WEFT_LINK_STRIDE, WEFT_MAX_LINKS)) {
        a -= WEFT_R_LINK;
        weft_link_write(s, a / WEFT_LINK_STRIDE, a % WEFT_LINK_STRIDE, val);
    } else if (weft_in(a, WEFT_R_MBOX_TX_DATA, 4, WEFT_MBOX_BYTES / 4)) {
        stl_le_p(s->mbox_tx + (a - WEFT_R_MBOX_TX_DATA), val);
    } else if (weft_in(a, WEFT_R_SLOT, WEFT_SLOT_STRIDE, s->slots)) {
        a -= WEFT_R_SLOT;
        weft_slot_write(s, a / WEFT_SLOT_STRIDE, a % WEFT_SLOT_STRIDE, val);
    } else if (weft_in(a, WEFT_R_INBOUND, WEFT_INBOUND_STRIDE,
                       WEFT_MAX_INBOUND)) {
        a -= WEFT_R_INBOUND;
        weft_inbound_write(s, a / WEFT_INBOUND_STRIDE,
                           a % WEFT_INBOUND_STRIDE, val);
    } else if (weft_in(a, WEFT_R_DB_VECTOR, 4, WEFT_DOORBELLS)) {
        s->db_vector[(a - WEFT_R_DB_VECTOR) / 4] = val;
    } else if (weft_in(a, WEFT_R_DB_ALLOW, 4, WEFT_MAX_LINKS)) {
        s->db_allow[(a - WEFT_R_DB_ALLOW) / 4] = val;
    } else if (weft_in(a, WEFT_R_DB_PAGE, WEFT_DB_PAGE_STRIDE,
                       WEFT_DB_PAGES)) {
        unsigned n = (a - WEFT_R_DB_PAGE) / WEFT_DB_PAGE_STRIDE;

        if (a & WEFT_DB_PAGE_ALLOW) {
            s->db_page[n].allow = val;
        } else {
            s->db_page[n].dest = val;
        }
        weft_remotes_update(s);
    } else if (weft_in(a, WEFT_R_ROUTE, WEFT_ROUTE_STRIDE, WEFT_ROUTES)) {
        a -= WEFT_R_ROUTE;
        if (s == s->ep) {
            weft_route_write(s, a / WEFT_ROUTE_STRIDE, a % WEFT_ROUTE_STRIDE,
                             val);
        }
    } else if (weft_config_covers(s, a)) {
        weft_config_write(s, a, val);
    } else if (weft_in(a, WEFT_R_DB_ALLOW_VP, 4, WEFT_FAB_GATES)) {
        s->db_allow_vp[(a - WEFT_R_DB_ALLOW_VP) / 4] = val;
    } else if (weft_dma_covers(s, a)) {
        weft_dma_write(s, a, val);
    } else if (weft_in(a, WEFT_R_PF_MBOX, WEFT_PAIR_STRIDE, 1)) {
        weft_pair_vf_write(s, a - WEFT_R_PF_MBOX, val);
    } else if (weft_in(a, WEFT_R_VF, WEFT_VF_STRIDE, s->vfs)) {
        a -= WEFT_R_VF;
        weft_quota_write(s, a / WEFT_VF_STRIDE, a % WEFT_VF_STRIDE, val);
    }
}

/* CTRL.ENABLE of a function: of the endpoint it is the links' own switch. */
static void weft_ctrl_enable(WeftPort *s, uint32_t ctrl)
{
    if (ctrl == s->ctrl) {
        return;
    }
    s->ctrl = ctrl;
    if (s == s->ep) {
        weft_session_enable(s);
        return;
    }
    weft_slots_update(s);
    weft_inbound_quota(s, true);
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        if (s->link[n].up && (s->quota->links & BIT(n))) {
            weft_event(s, BIT(n));
        }
    }
}

static void weft_ctrl_write(WeftPort *s, uint32_t val)
{
    if (val & WEFT_CTRL_RESET) {
        weft_reset(s);
        return;
    }
    weft_ctrl_enable(s, val & WEFT_CTRL_ENABLE);
}

static void weft_regs_write(void *opaque, hwaddr a, uint64_t val,
                            unsigned size)
{
    WeftPort *s = opaque;

    trace_weft_regs_write(s->ep->node, s->number, a, val);
    if (weft_hook_silent(s)) {
        return;
    }
    weft_hook_flush(s);
    switch (a) {
    case WEFT_R_LID:
        weft_route_set_lid(s, val);
        break;
    case WEFT_R_CTRL:
        weft_ctrl_write(s, val);
        break;
    case WEFT_R_EVENT:
        s->event &= ~val;
        break;
    case WEFT_R_EVENT_MASK:
        weft_event_set_mask(s, val);
        break;
    case WEFT_R_EVENT_VECTOR:
        s->event_vector = val;
        break;
    case WEFT_R_SCRATCH:
        s->scratch = val;
        break;
    case WEFT_R_DB_PENDING:
        s->db_pending &= ~val;
        break;
    case WEFT_R_DB_MASK:
        weft_doorbell_set_mask(s, val);
        break;
    case WEFT_R_STORED:
        weft_slot_stored(s, val);
        break;
    case WEFT_R_VF_PENDING:
        s->vf_pending &= ~val;
        break;
    case WEFT_R_MBOX_TX_CTRL:
        weft_mbox_send(s, val);
        break;
    case WEFT_R_MBOX_TX_LID:
        s->mbox_tx_lid = val & WEFT_DEST_WHERE;
        break;
    case WEFT_R_MBOX_VPS:
        s->mbox_vps = deposit64(s->mbox_vps, 0, 32, val);
        break;
    case WEFT_R_MBOX_VPS + 4:
        s->mbox_vps = deposit64(s->mbox_vps, 32, 32, val);
        break;
    case WEFT_R_MBOX_RX_POP:
        weft_mbox_pop(s);
        break;
    case WEFT_R_COUNTERS_CLEAR:
        memset(s->counter, 0, sizeof(s->counter));
        break;
    case WEFT_R_ERR_STATUS:
        s->err_status &= ~val;
        break;
    default:
        weft_array_write(s, a, val);
    }
}

const MemoryRegionOps weft_regs_ops = {
    .read = weft_regs_read,
    .write = weft_regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 8 },
    .impl = { .min_access_size = 4, .max_access_size = 4 },
};
