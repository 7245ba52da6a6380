/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the registers of inbound entries.
 */
#include "qemu/osdep.h"
#include "weft_inbound.h"
#include "weft_port.h"

uint32_t weft_inbound_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftInbound *e = &s->inbound[n];

    switch (reg) {
    case WEFT_INBOUND_OFFSET:
        return e->regs.offset;
    case WEFT_INBOUND_OFFSET + 4:
        return e->regs.offset >> 32;
    case WEFT_INBOUND_LEN:
        return e->regs.len;
    case WEFT_INBOUND_LEN + 4:
        return e->regs.len >> 32;
    case WEFT_INBOUND_BASE:
        return e->regs.base;
    case WEFT_INBOUND_BASE + 4:
        return e->regs.base >> 32;
    case WEFT_INBOUND_RIGHTS:
        return e->regs.rights;
    case WEFT_INBOUND_ALLOW:
        return e->regs.allow;
    case WEFT_INBOUND_VPS:
        return e->regs.vps;
    case WEFT_INBOUND_VPS + 4:
        return e->regs.vps >> 32;
    case WEFT_INBOUND_FROM:
        return e->regs.from;
    case WEFT_INBOUND_CTRL:
        return e->regs.ctrl;
    case WEFT_INBOUND_STATUS:
        return (e->open.len ? WEFT_INBOUND_LIVE : 0) |
               (weft_inbound_busy(e) ? WEFT_INBOUND_BUSY : 0) |
               (e->invalid ? WEFT_INBOUND_INVALID : 0) |
               (e->poisoned ? WEFT_INBOUND_POISONED : 0);
    }
    return 0;
}

void weft_inbound_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    WeftInbound *e = &s->inbound[n];
    WeftInboundRegs *r = &e->regs;

    switch (reg) {
    case WEFT_INBOUND_OFFSET:
        r->offset = deposit64(r->offset, 0, 32, val);
        break;
    case WEFT_INBOUND_OFFSET + 4:
        r->offset = deposit64(r->offset, 32, 32, val);
        break;
    case WEFT_INBOUND_LEN:
        r->len = deposit64(r->len, 0, 32, val);
        break;
    case WEFT_INBOUND_LEN + 4:
        r->len = deposit64(r->len, 32, 32, val);
        break;
    case WEFT_INBOUND_BASE:
        r->base = deposit64(r->base, 0, 32, val);
        break;
    case WEFT_INBOUND_BASE + 4:
        r->base = deposit64(r->base, 32, 32, val);
        break;
    case WEFT_INBOUND_RIGHTS:
        r->rights = val & WEFT_RIGHTS;
        break;
    case WEFT_INBOUND_ALLOW:
        r->allow = val & (WEFT_ALLOW_SELF | WEFT_ALLOW_LINKS);
        break;
    case WEFT_INBOUND_VPS:
        r->vps = deposit64(r->vps, 0, 32, val);
        break;
    case WEFT_INBOUND_VPS + 4:
        r->vps = deposit64(r->vps, 32, 32, val);
        break;
    case WEFT_INBOUND_FROM:
        r->from = val;
        break;
    case WEFT_INBOUND_CTRL:
        r->ctrl = val & WEFT_INBOUND_ENABLE;
        e->active = *r;
        e->poisoned = false;
        weft_inbound_apply(s, n);
        break;
    }
}
