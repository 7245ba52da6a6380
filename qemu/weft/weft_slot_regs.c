/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the registers of outbound slots. A slot that is latched may need
 * another route, and with that lead elsewhere.
 */
#include "qemu/osdep.h"
#include "qemu/units.h"
#include "weft_dest.h"
#include "weft_event.h"
#include "weft_link.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_slot.h"

uint32_t weft_slot_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftSlot *slot = &s->slot[n];

    switch (reg) {
    case WEFT_SLOT_DEST:
        return slot->regs.dest;
    case WEFT_SLOT_TAKEN:
        return slot->active.ctrl & WEFT_SLOT_ENABLE ?
               weft_dest_taken(s, slot->active.dest) : 0;
    case WEFT_SLOT_OFFSET:
        return slot->regs.offset;
    case WEFT_SLOT_OFFSET + 4:
        return slot->regs.offset >> 32;
    case WEFT_SLOT_LEN:
        return slot->regs.len;
    case WEFT_SLOT_LEN + 4:
        return slot->regs.len >> 32;
    case WEFT_SLOT_CTRL:
        return slot->regs.ctrl;
    case WEFT_SLOT_STATUS:
        return (slot->target.aperture ? WEFT_SLOT_LIVE : 0) |
               (slot->direct ? WEFT_SLOT_DIRECT : 0) |
               (slot->lost ? WEFT_SLOT_LOST : 0) |
               (slot->active.ctrl & WEFT_SLOT_ENABLE ?
                weft_dest_status(s, slot->active.dest) : 0);
    }
    return 0;
}

void weft_slot_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    WeftSlot *slot = &s->slot[n];
    WeftSlotRegs *r = &slot->regs;

    switch (reg) {
    case WEFT_SLOT_DEST:
        r->dest = val;
        break;
    case WEFT_SLOT_OFFSET:
        r->offset = deposit64(r->offset, 0, 32, val);
        break;
    case WEFT_SLOT_OFFSET + 4:
        r->offset = deposit64(r->offset, 32, 32, val);
        break;
    case WEFT_SLOT_LEN:
        r->len = deposit64(r->len, 0, 32, val);
        break;
    case WEFT_SLOT_LEN + 4:
        r->len = deposit64(r->len, 32, 32, val);
        break;
    case WEFT_SLOT_CTRL:
        r->ctrl = val & WEFT_SLOT_ENABLE;
        weft_report_flush(s, n);
        slot->active = *r;
        slot->lost = false;
        weft_slots_update(s);
        weft_remotes_update(s);
        weft_slots_update(s);
        if (r->ctrl && n >= s->quota->slots) {
            weft_error(s, WEFT_ERR_QUOTA, n, 0);
        }
        break;
    }
}

/*
 * What a CPU stores by a slot is counted in traced mode alone. Otherwise it
 * reaches memory unseen, and the driver says how much it was.
 */
void weft_slot_stored(WeftPort *s, uint32_t val)
{
    unsigned n = val & WEFT_STORED_SLOT;
    uint64_t kib = val >> ctz32(WEFT_STORED_KIB);

    if (n < s->slots && s->slot[n].target.aperture && !s->traced) {
        weft_traffic_moved(s, s->slot[n].target.via, kib * KiB, true);
    }
}

void weft_slots_reset(WeftPort *s)
{
    for (unsigned n = 0; n < s->slots; n++) {
        s->slot[n].regs = (WeftSlotRegs) { };
        s->slot[n].active = (WeftSlotRegs) { };
        s->slot[n].lost = false;
    }
    weft_slots_update(s);
}
