/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what the DMA engine does to memory.
 *
 * Local addresses go through the function's own address space, an IOMMU
 * included, and must come out in the guest's RAM: never in a BAR, be it of
 * this port (a slot would be reached without its checks) or of another.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "system/dma.h"
#include "weft_dest.h"
#include "weft_dma.h"
#include "weft_hook.h"
#include "weft_link.h"
#include "weft_port.h"
#include "weft_slot.h"

/* ---- the function's own memory --------------------------------------- */

/* May the function access memory at all? */
bool weft_dma_master(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);

    return s->bus_master &&
           (!d->pm_cap || !(pci_get_word(d->config + d->pm_cap + PCI_PM_CTRL) &
                            PCI_PM_CTRL_STATE_MASK));
}

static void weft_dma_unmap(WeftPort *s, uint8_t *p, dma_addr_t len,
                           DMADirection dir, dma_addr_t used)
{
    dma_memory_unmap(pci_get_address_space(PCI_DEVICE(s)), p, len, dir, used);
}

/* Some of @len bytes at @addr, as a host address; NULL if it is not RAM. */
static uint8_t *weft_dma_map(WeftPort *s, uint64_t addr, dma_addr_t *len,
                             DMADirection dir)
{
    /* .memory: not even a read that is refused reaches another device. */
    uint8_t *p = dma_memory_map(pci_get_address_space(PCI_DEVICE(s)), addr,
                                len, dir, (MemTxAttrs) { .memory = 1 });
    const uint8_t *ram = memory_region_get_ram_ptr(s->pf->ram_mr);

    if (p && *len && (p < ram || p >= ram + s->pf->ram.size)) {
        weft_dma_unmap(s, p, *len, dir, 0);
        return NULL;
    }
    return *len ? p : NULL;
}

/* Copies between @buf and local memory; false if any of it is refused. */
bool weft_dma_local(WeftPort *s, unsigned n, uint64_t addr, void *buf,
                    uint64_t len, bool write)
{
    DMADirection dir = write ? DMA_DIRECTION_FROM_DEVICE :
                               DMA_DIRECTION_TO_DEVICE;

    for (uint64_t done = 0; done < len; ) {
        dma_addr_t run = len - done;
        uint8_t *p = weft_dma_map(s, addr + done, &run, dir);

        if (!p) {
            return false;
        }
        if (write) {
            memcpy(p, buf + done, run);
        } else {
            memcpy(buf + done, p, run);
        }
        weft_dma_unmap(s, p, run, dir, run);
        done += run;
    }
    weft_hook_local(s, n, addr, len, write);
    return true;
}

/* One store of 8 bytes, aligned, after all that was written before. */
bool weft_dma_local_store(WeftPort *s, unsigned n, uint64_t addr,
                          uint64_t val)
{
    dma_addr_t run = sizeof(val);
    uint8_t *p = weft_dma_map(s, addr, &run, DMA_DIRECTION_FROM_DEVICE);

    if (!p) {
        return false;
    }
    if (run < sizeof(val)) {
        weft_dma_unmap(s, p, run, DMA_DIRECTION_FROM_DEVICE, 0);
        return false;
    }
    /* Data and list before the word that gives them back to the driver. */
    smp_wmb();
    qatomic_set__nocheck((uint64_t *)p, cpu_to_le64(val));
    weft_dma_unmap(s, p, run, DMA_DIRECTION_FROM_DEVICE, run);
    weft_hook_local(s, n, addr, run, true);
    return true;
}

/* ---- the window ------------------------------------------------------ */

static unsigned weft_dma_reach(WeftPort *s, const WeftDmaDesc *d, uint64_t off,
                               uint64_t len)
{
    const WeftSlot *slot = &s->slot[d->slot];
    const WeftTarget *t = &slot->target;
    uint32_t dest = slot->active.dest, link = dest & WEFT_DEST_WHERE;
    uint32_t right = (d->ctrl & WEFT_DMA_OP) == WEFT_DMA_WRITE ?
                     WEFT_RIGHT_WRITE : WEFT_RIGHT_READ;

    if (!t->aperture && t->via >= WEFT_MAX_LINKS && t->via != WEFT_VIA_SELF) {
        /* A remote: its route ends on the way, or it has opened nothing. */
        return s->link[t->via].up ? WEFT_DMA_ST_CLOSED : WEFT_DMA_ST_LINK;
    }
    if (!t->aperture) {
        return (slot->active.ctrl & WEFT_SLOT_ENABLE) &&
               (dest & WEFT_DEST_TYPE) == WEFT_DEST_LINK &&
               link < WEFT_MAX_LINKS && !weft_dest_link_up(s, link) ?
               WEFT_DMA_ST_LINK : WEFT_DMA_ST_CLOSED;
    }
    if (off >= t->len || len > t->len - off) {
        return WEFT_DMA_ST_BOUNDS;
    }
    return t->aperture->rights & right ? WEFT_DMA_ST_OK : WEFT_DMA_ST_RIGHTS;
}

/* May @len bytes at @off of the slot be moved? A WEFT_DMA_ST_*. */
unsigned weft_dma_check(WeftPort *s, const WeftDmaDesc *d, uint64_t off,
                        uint64_t len)
{
    unsigned code = weft_dma_reach(s, d, off, len);

    if (code != WEFT_DMA_ST_OK) {
        weft_window_count_refused(s, d->slot, off,
                                  (d->ctrl & WEFT_DMA_OP) == WEFT_DMA_WRITE);
    }
    return code;
}

/* Where @off of the slot is in the destination's aperture space. */
static uint64_t weft_dma_place(WeftPort *s, const WeftDmaDesc *d, uint64_t off)
{
    return s->slot[d->slot].active.offset + off;
}

/* Bytes from there to the end of its page. */
unsigned weft_dma_room(WeftPort *s, const WeftDmaDesc *d, uint64_t off)
{
    return WEFT_PAGE - weft_dma_place(s, d, off) % WEFT_PAGE;
}

/* Moves what weft_dma_check() has allowed. */
bool weft_dma_window(WeftPort *s, unsigned n, const WeftDmaDesc *d,
                     uint64_t off, void *buf, uint64_t len)
{
    bool write = (d->ctrl & WEFT_DMA_OP) == WEFT_DMA_WRITE;
    WeftVerdict verdict = WEFT_PASS;

    if (write) {
        verdict = weft_hook_post(s, n, d->slot, off, buf, len);
    } else {
        weft_hook_push(s, n);
    }
    if (verdict == WEFT_LOST) {
        return true;
    }
    if (verdict == WEFT_PASS &&
        !weft_window_move(s, d->slot, off, buf, len, write)) {
        return false;
    }
    weft_traffic_moved(s, s->slot[d->slot].target.via, len, write);
    weft_hook_remote(s, n, s->slot[d->slot].target.via,
                     weft_dma_place(s, d, off), len, write);
    return true;
}
