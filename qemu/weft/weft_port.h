/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: state of the device model. What its files offer each other is in
 * a header for each noun.
 *
 * Everything here runs under the BQL: MMIO, configuration space, timers and
 * the handlers of the descriptors. Only two things are touched by others at
 * the same time: doorbell pages (atomics alone) and guest memory.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "qemu/event_notifier.h"
#include "hw/pci/pci_device.h"
#include "weft_dma_state.h"
#include "weft_state.h"

#define TYPE_WEFT_PORT "weft-port"
/* A VF is a port too, without cables: see weft_vf.c. */
#define TYPE_WEFT_VF "weft-vf"
OBJECT_DECLARE_SIMPLE_TYPE(WeftPort, WEFT_PORT)

#define WEFT_VPD_BYTES          1024

struct WeftPort {
    PCIDevice parent_obj;
    const struct WeftHooks *const *hooks;      /* NULL behind the last one */

    /* properties */
    char *fabric;
    char *node;
    uint64_t hwid_wanted;
    uint32_t slots;
    uint64_t slot_size;
    bool traced_always;
    uint32_t unmap_wait;        /* ms */
    uint32_t vfs;
    uint32_t vf_slots;
    char *part;
    char *serial;
    char *blade;
    char *sockets;

    /*
     * Which function this is. The endpoint is its first PF: that one has the
     * links, the doorbell page and the connection to the fabric.
     */
    WeftPort *ep;
    WeftPort *pf;               /* of a VF; a PF itself */
    unsigned number;
    WeftPort *function[WEFT_FUNCTIONS]; /* of an endpoint: those there are */
    unsigned vf_index;          /* of a VF: which of its PF */
    WeftPort *vf_port[WEFT_VFS]; /* of a PF: they */
    WeftLink *link;             /* the endpoint's */
    WeftLink *own_link;         /* a PF's, should it be the endpoint */
    const WeftQuota *quota;
    WeftVf vf[WEFT_VFS];        /* of a PF */
    uint32_t vf_pending;
    /* FUNCTION_RESETs: 1 not answered yet, 2 and another to be sent then */
    unsigned generations_due;

    MemoryRegion bar_ctrl;
    MemoryRegion bar_window;
    MemoryRegion slot_ram;      /* the slots' host addresses, fixed for life */
    uint8_t *slot_ptr;
    int ones_fd;
    unsigned slot_shift;
    uint64_t wc_offset;

    WeftRam ram;                /* this guest's own */
    MemoryRegion *ram_mr;
    bool bus_master;

    uint64_t hwid;
    uint32_t generation;
    uint32_t lid;
    uint32_t ctrl;
    uint32_t event, event_mask, event_vector;
    uint32_t scratch;
    uint32_t err_status, err_info;
    uint64_t err_addr;
    uint64_t counter[WEFT_COUNTERS];

    uint64_t linger;            /* channels closed whose port still holds on */
    uint64_t lives_over[WEFT_FAB_CHANNELS]; /* all below this one are */
    QEMUTimer *linger_timer;

    WeftSlot slot[WEFT_MAX_SLOTS];
    QEMUTimer *report_timer;
    WeftInbound inbound[WEFT_MAX_INBOUND];
    uint64_t aperture_serial;
    WeftIommu iommu;

    uint32_t db_pending, db_mask;
    uint32_t db_vector[WEFT_DOORBELLS];
    uint32_t db_allow[WEFT_MAX_LINKS];
    uint32_t db_allow_vp[WEFT_FAB_GATES];
    struct {
        uint32_t dest;
        uint32_t allow;
    } db_page[WEFT_DB_PAGES];
    struct {                    /* rung too soon, the first one first */
        uint32_t bits[WEFT_DB_PAGES];
        uint16_t queue[WEFT_DB_PAGES * WEFT_DOORBELLS];
        unsigned head, count;
        QEMUTimer *timer;
    } db_wait;
    int db_fd;
    struct weft_fab_doorbell *db_shared;
    EventNotifier db_event;

    uint8_t mbox_tx[WEFT_MBOX_BYTES];
    bool mbox_failed;
    uint32_t mbox_tx_lid;
    uint64_t mbox_vps;          /* gates of which messages are taken */
    WeftMessage mbox_rx[WEFT_MBOX_DEPTH];
    unsigned mbox_head, mbox_count, mbox_routed;
    unsigned mbox_near[WEFT_MAX_LINKS];     /* not by routes, of each link */

    /* Of an endpoint. */
    WeftRemote remote[WEFT_FAB_REMOTES];
    uint32_t taken;             /* the last number of a route; never reset */
    WeftRoute route[WEFT_ROUTES];
    WeftConfig config;
    QEMUTimer *traffic_timer;

    WeftDma dma;

    struct {                    /* fences of the guest, if a mode wants them */
        bool on;
        Notifier notifier;
    } fence;

    bool traced;
    struct {                    /* the write-combining buffer, traced mode */
        bool open;
        const CPUState *cpu;    /* that combines */
        hwaddr next;
        unsigned bytes;
        int via;                /* where it leads */
        QEMUTimer *timer;
    } wc;

    struct {
        bool on;
        bool always;            /* by property, then with this seed */
        uint64_t seed;
        uint64_t random;
        WeftHeld held[WEFT_WC_LINES];
        QEMUTimer *timer;
    } adversary;
    struct {
        WeftLate bit[WEFT_LATE_MAX];
        unsigned count;
        QEMUTimer *timer;
    } late;
    struct {
        QSIMPLEQ_HEAD(, WeftPosted) queue[WEFT_MAX_DMA];
        unsigned count[WEFT_MAX_DMA];
        QEMUTimer *timer;
    } posted;

    WeftFab fab;

    WeftFaults fault[WEFT_MAX_LINKS];   /* of an endpoint */
    MemoryRegion bar_ones;      /* over the table of MSI-X */

    uint8_t vpd[WEFT_VPD_BYTES];
};

/* The function of @ep after @f, or the first after NULL; NULL at the end. */
static inline WeftPort *weft_function_next(const WeftPort *ep,
                                           const WeftPort *f)
{
    for (unsigned n = f ? f->number + 1 : 0; n < WEFT_FUNCTIONS; n++) {
        if (ep->function[n]) {
            return ep->function[n];
        }
    }
    return NULL;
}

/* What the PF keeps of @s; NULL if it is no VF. */
static inline WeftVf *weft_vf_of(WeftPort *s)
{
    return s == s->pf ? NULL : &s->pf->vf[s->vf_index];
}

#endif /* WEFT_PORT_H */
