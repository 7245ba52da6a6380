/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: state of the device model and what its files offer each other.
 *
 * Everything here runs under the BQL: MMIO, configuration space, timers and
 * the handlers of the descriptors. Only two things are touched by others at
 * the same time: doorbell pages (atomics alone) and guest memory.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "qemu/event_notifier.h"
#include "qemu/queue.h"
#include "qemu/timer.h"
#include "hw/pci/pci_device.h"
#include "weft_compat.h"
#include "weft_dma.h"
#include "weft_fabric.h"
#include "weft_hook.h"
#include "weft_regs.h"

#define TYPE_WEFT_PORT "weft-port"
/* A VF is a port too, without cables: see weft_vf.c. */
#define TYPE_WEFT_VF "weft-vf"
OBJECT_DECLARE_SIMPLE_TYPE(WeftPort, WEFT_PORT)

/* Capabilities. */
#define WEFT_CFG_PM             0x60
#define WEFT_CFG_VPD            0x70
#define WEFT_CFG_EXP            0xa0
#define WEFT_CFG_AER            0x100
#define WEFT_CFG_ARI            0x150
#define WEFT_CFG_SERIAL         0x160
#define WEFT_CFG_ACS            0x170
#define WEFT_CFG_SRIOV          0x200

/* Routing ids of the VFs: those of two PFs side by side alternate. */
#define WEFT_VF_OFFSET          16
#define WEFT_VF_ROUTING_STRIDE  2

#define WEFT_VPD_BYTES          1024
/* Pieces of one aperture: each becomes a host mapping, and these are few. */
#define WEFT_MAX_SEGMENTS       16384
#define WEFT_VF_SEGMENTS        512
/* A file of ones, mapped under slots that have just been taken away. */
#define WEFT_ONES_BYTES         0x100000
#define WEFT_RIGHTS             (WEFT_RIGHT_READ | WEFT_RIGHT_WRITE)
/* Where a slot or a doorbell leads: a link, this port, or nowhere. */
#define WEFT_VIA_SELF           255
/* In ERR_INFO's where: the port's own. */
#define WEFT_WHERE_SELF         31
/* And what came by a route: by which link, on which VP. */
#define WEFT_WHERE_ROUTED(gate) ((gate) / WEFT_VPS | 1 << 5 | \
                                 (gate) % WEFT_VPS << 8)
#define WEFT_VIA_NONE           (-1)

/* What a CPU combines, and how many lines of it adversarial mode holds. */
#define WEFT_WC_LINE            64
#define WEFT_WC_LINES           8

/* Memory of a host, as its memory backend's descriptor. */
typedef struct WeftRam {
    int fd;                     /* -1: none */
    uint64_t size;
    uint8_t *ptr;               /* all of it, for accesses that trap */
} WeftRam;

typedef struct WeftSegment {
    uint64_t pos;               /* in the aperture */
    uint64_t offset;            /* in the owner's RAM */
    uint64_t len;
} WeftSegment;

/* Memory an owner has opened: an entry of this port, or one of a neighbour. */
typedef struct WeftAperture {
    uint64_t offset;            /* in the owner's aperture space */
    uint64_t len;               /* 0: closed */
    uint32_t rights;
    uint32_t allow;             /* the owner's own entries only */
    uint64_t gates;             /* likewise: who may come by routes */
    uint32_t from;
    uint64_t serial;            /* a new one with every change */
    GArray *segments;
} WeftAperture;

/* What a slot resolves to. */
typedef struct WeftTarget {
    int via;                    /* link, WEFT_VIA_SELF or WEFT_VIA_NONE */
    unsigned function;          /* of the neighbour on that link */
    const WeftAperture *aperture;       /* NULL: nothing there is reachable */
    const WeftRam *ram;
    uint64_t serial;            /* of the aperture */
    uint64_t pos;               /* of the slot's first byte, in the aperture */
    uint64_t len;               /* live bytes, from the slot's first byte on */
} WeftTarget;

typedef struct WeftSlotRegs {
    uint32_t dest;
    uint64_t offset;
    uint64_t len;
    uint32_t ctrl;
} WeftSlotRegs;

/* Refused accesses the owner has not been told of. */
typedef struct WeftReport {
    uint64_t offset;
    uint64_t count;
} WeftReport;

typedef struct WeftSlot {
    WeftSlotRegs regs;          /* as written */
    WeftSlotRegs active;        /* as latched by CTRL */
    WeftTarget target;
    MemoryRegion uncached;
    MemoryRegion combining;
    bool lost;                  /* a write was refused since it was latched */
    uint64_t mapped;            /* bytes with the peer's memory under them */
    uint64_t direct;            /* bytes that lead straight there */
    uint64_t shown;             /* as the guest's memory map has it */
    uint64_t mapped_serial;     /* of the aperture they belong to */
    uint64_t mapped_pos;
    WeftReport report[WEFT_FAB_DENIED_POISONED + 1];    /* by kind */
} WeftSlot;

typedef struct WeftInboundRegs {
    uint64_t offset;
    uint64_t len;
    uint64_t base;
    uint32_t rights;
    uint32_t allow;
    uint64_t vps;
    uint32_t from;
    uint32_t ctrl;
} WeftInboundRegs;

typedef struct WeftInbound {
    WeftInboundRegs regs;       /* as written */
    WeftInboundRegs active;     /* as latched by CTRL */
    WeftAperture open;
    uint64_t base;              /* of what is open, as DMA address */
    bool invalid;
    bool poisoned;              /* a write to it was, since it was latched */
    bool ack_due;               /* the fabric has not confirmed yet */
    uint64_t lingering;         /* channels by which it may still be reached */
    uint64_t held_first;        /* while BUSY: the DMA addresses that were */
    uint64_t held_last;         /* open before, all of them in between */
    bool late;                  /* while BUSY: an unmap has waited in vain */
    uint32_t seq;
} WeftInbound;

/* What was sent over a link and the fabric has not been told of. */
typedef struct WeftTraffic {
    uint64_t mwr, mwr_bytes, mrd, mrd_bytes, doorbells;
    uint64_t out, in;           /* bytes, traced or not */
} WeftTraffic;

/*
 * A link, or behind the links a remote: what is reached by a route. All
 * functions of an endpoint share them.
 */
typedef struct WeftLink {
    bool up;
    bool present;
    bool to_switch;             /* and not to a port */
    bool switch_up;             /* so is the link */
    bool role_ep;
    uint32_t speed, width;
    uint32_t max_speed, max_width;
    uint32_t ctrl;
    uint32_t trained;
    uint64_t bytes_out, bytes_in;       /* that it has carried */

    /* The neighbour, while the link is up. */
    WeftRam ram;
    struct weft_fab_doorbell *doorbell;
    int doorbell_lock;          /* says that this port may reach its memory */
    int doorbell_event;
    unsigned far_link;          /* the link's number over there, or channel */
    uint32_t life;              /* which this is: weft_fabric.h */
    unsigned gate;              /* of a remote: by which it comes in there */
    WeftTraffic traffic;
    WeftAperture seen[WEFT_FUNCTIONS * WEFT_MAX_INBOUND];
    struct {                    /* an INBOUND of which more packets follow */
        bool active;
        unsigned entry;
        uint32_t seq;
        unsigned segments;      /* received so far */
        WeftAperture aperture;
    } partial;
} WeftLink;

typedef struct WeftMessage {
    unsigned link;
    unsigned from;
    unsigned len;
    bool routed;
    uint32_t lid;               /* of the source, if routed, */
    unsigned vp;                /* and the last link's VP */
    uint8_t data[WEFT_MBOX_BYTES];
} WeftMessage;

/* What a PF lets a VF have. */
typedef struct WeftQuota {
    uint32_t slots, inbound, doorbells, db_pages, channels;
    uint64_t bytes;             /* of the live entries together */
    uint32_t links;
    uint64_t peers;             /* functions of a neighbour, a bit each */
    uint64_t hwid;              /* whom it is, 0: itself */
    uint64_t rate;              /* bytes by DMA in a second, 0: any number */
    uint32_t rings;             /* doorbells that it rings, likewise */
} WeftQuota;

/* What a VF does at a rate. */
enum {
    WEFT_RATE_DMA,
    WEFT_RATE_RING,
    WEFT_RATES
};

/* How far a VF has used up a rate. */
typedef struct WeftBucket {
    int64_t paid;               /* when all that was done has its time */
    uint64_t count;             /* of what was done */
} WeftBucket;

/* One way of the mailbox between a PF and a VF. */
typedef struct WeftPairBox {
    uint8_t tx[WEFT_PAIR_BYTES];
    uint8_t sent[WEFT_PAIR_BYTES];
    unsigned len;               /* of what was sent and is not taken, or 0 */
    bool failed;
} WeftPairBox;

/* What a PF keeps for each of its VFs. */
typedef struct WeftVf {
    WeftQuota wanted;           /* as written */
    WeftQuota quota;            /* as latched by CTRL */
    WeftPairBox down, up;       /* to the VF, from the VF */
    uint32_t news;              /* the rw1c bits of STATUS */
    WeftBucket bucket[WEFT_RATES];
} WeftVf;

/* Stores of a CPU to one line that have not left, in adversarial mode. */
typedef struct WeftHeld {
    uint64_t valid;             /* a bit a byte; 0: free */
    const CPUState *cpu;        /* NULL: none, but qtest */
    hwaddr addr;                /* of the line, in BAR 2 */
    int64_t since;
    uint8_t data[WEFT_WC_LINE];
} WeftHeld;

/* What a DMA channel has written, on its way, in adversarial mode. */
typedef struct WeftPosted WeftPosted;

QEMU_BUILD_BUG_ON(WEFT_MAX_LINKS + WEFT_FAB_REMOTES > WEFT_LATE_EVENT);

#define WEFT_LATE_MAX           64

/* A bit that is on its way: a doorbell, or an interrupt. */
typedef struct WeftLate {
    int64_t due;
    uint8_t what;
    uint8_t function;           /* of the neighbour, for a doorbell */
    uint8_t bit;
} WeftLate;

/* Faults of a link, or with link 0 of the endpoint: weft_fabric.h. */
typedef struct WeftFaults {
    uint64_t left[WEFT_FAB_FAULTS];     /* how often each still strikes */
    uint64_t latency_ns;
    uint64_t bytes_per_second;
    int64_t busy_until;         /* by then a slow link has carried all it got */
} WeftFaults;

/* What a port reaches by a route: link WEFT_MAX_LINKS + n. */
typedef enum WeftRemoteState {
    WEFT_REMOTE_FREE,
    WEFT_REMOTE_WANTED,
    WEFT_REMOTE_CLOSING,        /* the fabric has not let go of it */
} WeftRemoteState;

typedef struct WeftRemote {
    WeftRemoteState state;
    uint32_t lid;
    unsigned hops;              /* links its route passes */
    unsigned why;               /* and why it ends there: WEFT_STOP_* */
    uint32_t taken;             /* its number, while it leads to a port */
    WeftReport doorbells;       /* rung in vain */
} WeftRemote;

typedef struct WeftRouteRegs {
    uint32_t first, last, out, from, ctrl;
} WeftRouteRegs;

typedef struct WeftRoute {
    WeftRouteRegs regs;         /* as written */
    WeftRouteRegs active;       /* as latched by CTRL */
    bool invalid;
    bool busy;                  /* the fabric has not confirmed yet */
    uint32_t seq;
} WeftRoute;

/* The configuration request of an endpoint. */
typedef struct WeftConfig {
    uint8_t path[WEFT_MAX_HOPS];
    uint32_t addr, data, term;
    bool busy;
    uint32_t number;            /* of the request */
    uint32_t result;            /* of the last one */
    unsigned passed;
} WeftConfig;

typedef struct WeftPending WeftPending;

/*
 * Takes a message. @fds: taken over where set to -1. False: the fabric is not
 * to be trusted any more.
 */
typedef bool WeftFabTake(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                         Error **errp);

/* Which messages of a type are taken. */
enum {
    WEFT_FAB_ANY_TIME = 1,      /* before a WELCOME, too */
    WEFT_FAB_OF_LINK = 2,       /* of a link that there is */
    WEFT_FAB_OF_REMOTE = 4,     /* of a remote */
    WEFT_FAB_OF_NOW = 8         /* not while a WELCOME is due */
};

typedef struct WeftFabMessage {
    WeftFabTake *take;
    unsigned fds;               /* descriptors that come along */
    unsigned flags;
} WeftFabMessage;

/* What the connection tells the device. */
typedef struct WeftFabOps {
    const WeftFabMessage *message;      /* by type */
    unsigned messages;
    void (*lost)(WeftPort *ep, bool was_welcomed);
    /* All that was there has been taken. */
    void (*changed)(WeftPort *ep);
} WeftFabOps;

typedef struct WeftFab {
    const WeftFabOps *ops;
    int sock;
    bool welcomed;              /* has been, on this connection */
    bool broken;                /* to be closed by the timer */
    unsigned welcomes_due;      /* HELLO and RESETs not answered yet */
    unsigned links;
    bool traced;
    bool adversarial;
    uint64_t seed;
    QEMUTimer *retry;
    QSIMPLEQ_HEAD(, WeftPending) queue;
    unsigned queued;
    GArray *acks;               /* struct weft_fab_msg, sent when in force */
    QLIST_ENTRY(WeftPort) others;       /* of this QEMU */
    char *complaint;            /* the last one, to say it once */
} WeftFab;

/* What an unmap of [first, last] means for the device. */
typedef struct WeftIommuOps {
    void (*unmapped)(WeftPort *s, uint64_t first, uint64_t last);
    /* May a neighbour still reach what was open there? */
    bool (*held)(WeftPort *s, uint64_t first, uint64_t last);
    /* It may, and cannot be waited for any longer. */
    void (*late)(WeftPort *s, uint64_t first, uint64_t last);
    /* See which neighbours have let go. */
    void (*settle)(WeftPort *ep);
} WeftIommuOps;

/* The IOMMU in front of the function, see weft_iommu.c. */
typedef struct WeftIommu {
    const WeftIommuOps *ops;
    AddressSpace *as;           /* the function's; NULL: not watched yet */
    MemoryListener listener;
    IOMMUNotifier notifier;
    MemoryRegion *mr;           /* that translates; NULL: none does */
    unsigned sections;          /* of it, in the address space */
    unsigned unwatched;         /* sections of what does not tell of unmaps */
    bool changed;               /* who translates, in this transaction */
    uint32_t vectors;           /* interrupts put off */
    QEMUBH *resume;
} WeftIommu;

struct WeftPort {
    PCIDevice parent_obj;
    const WeftHooks *const *hooks;      /* NULL behind the last one */

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

    /* Of an endpoint. */
    WeftRemote remote[WEFT_FAB_REMOTES];
    uint32_t taken;             /* the last number of a route; never reset */
    WeftRoute route[WEFT_ROUTES];
    WeftConfig config;
    QEMUTimer *traffic_timer;

    WeftDma dma;

    bool traced;
    struct {                    /* the write-combining buffer, traced mode */
        bool open;
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
        Notifier fence;
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

/* weft_function.c */
bool weft_function_init(WeftPort *s, Error **errp);
void weft_function_join(WeftPort *s);
void weft_function_leave(WeftPort *s);

/* weft_vf.c */
bool weft_vfs_init(WeftPort *pf, Error **errp);
void weft_vfs_exit(WeftPort *pf);

/* weft_rate.c */
void weft_rate_latched(WeftPort *s, const WeftQuota *old);
int64_t weft_rate_opens(WeftPort *s, unsigned what);
void weft_rate_take(WeftPort *s, unsigned what, unsigned amount);
void weft_rate_count(WeftPort *s, unsigned what, uint64_t amount);

/* weft_pair.c */
uint32_t weft_pair_read(const WeftPairBox *tx, const WeftPairBox *rx,
                        unsigned reg);
bool weft_pair_write(WeftPairBox *tx, WeftPairBox *rx, unsigned reg,
                     uint32_t val, bool *taken);
uint32_t weft_pair_vf_read(WeftPort *s, unsigned reg);
void weft_pair_vf_write(WeftPort *s, unsigned reg, uint32_t val);

/* weft_ram.c */
bool weft_ram_open(WeftRam *ram, int fd, Error **errp);
void weft_ram_close(WeftRam *ram);
void *weft_map_sealed(int fd, uint64_t least, uint64_t *size, Error **errp);

/* weft_aperture.c */
bool weft_aperture_append(WeftAperture *ap, uint64_t offset, uint64_t len,
                          unsigned limit);
void weft_aperture_close(WeftAperture *ap);
const WeftSegment *weft_aperture_find(const WeftAperture *ap, uint64_t pos);
uint64_t weft_aperture_bytes(const WeftAperture *ap);

/* weft_event.c */
void weft_event(WeftPort *s, uint32_t bits);
void weft_error(WeftPort *s, uint32_t bit, unsigned where, uint64_t addr);
void weft_event_set_mask(WeftPort *s, uint32_t mask);
void weft_interrupt(WeftPort *s, uint32_t vectors);
void weft_event_send(WeftPort *s, uint32_t bits);
void weft_event_reset(WeftPort *s);
void weft_error_denied(WeftPort *s, unsigned where, uint64_t offset,
                         uint64_t count);
void weft_event_link(WeftPort *ep, unsigned link);
void weft_error_all(WeftPort *ep, uint32_t bit);
void weft_event_vf(WeftPort *pf, unsigned n, uint32_t bit);

/* weft_regs.c */
extern const MemoryRegionOps weft_regs_ops;

/* weft_window.c */
void weft_report_flush(WeftPort *s, unsigned slot);
bool weft_window_init(WeftPort *s, Error **errp);
void weft_window_exit(WeftPort *s);
void weft_window_finalize(WeftPort *s);
void weft_window_report(WeftPort *s, unsigned slot, uint64_t offset,
                        unsigned kind);
void weft_window_count_refused(WeftPort *s, unsigned n, uint64_t off,
                               bool write);
bool weft_window_move(WeftPort *s, unsigned n, uint64_t off, void *buf,
                      uint64_t len, bool write);
void weft_window_put(WeftPort *s, hwaddr addr, uint64_t val, unsigned size);

/* weft_slot.c */
void weft_slots_update(WeftPort *s);
void weft_slots_update_all(WeftPort *ep);
void weft_slots_show(WeftPort *s);

/* weft_trace.c */
extern const WeftHooks weft_trace_hooks;
void weft_trace_wanted(WeftPort *ep, bool traced);
bool weft_trace_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp);
void weft_trace_burst(WeftPort *s, int via, uint64_t tlps, uint64_t bytes,
                      bool write);

/* weft_adversary.c */
extern const WeftHooks weft_adversary_hooks;
bool weft_adversary_check(WeftPort *s, Error **errp);
void weft_adversary_class_init(ObjectClass *class);
void weft_adversary_wanted(WeftPort *ep, bool adversarial, uint64_t seed);
bool weft_adversary_message(WeftPort *ep, const struct weft_fab_msg *m,
                            int *fds, Error **errp);
uint32_t weft_adversary_below(WeftPort *s, uint32_t limit);

/* weft_posted.c */
extern const WeftHooks weft_posted_hooks;

/* weft_late.c */
extern const WeftHooks weft_late_hooks;

/* weft_inbound.c */
void weft_inbound_reset(WeftPort *s);
void weft_inbound_refresh(WeftPort *s);
void weft_inbound_publish(WeftPort *s);
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
uint32_t weft_inbound_read(WeftPort *s, unsigned n, unsigned reg);
void weft_inbound_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

/* weft_iommu.c */
extern const WeftHooks weft_iommu_hooks;
void weft_iommu_init(WeftPort *s, const WeftIommuOps *ops);
bool weft_iommu_page(WeftPort *s, AddressSpace *as, uint64_t base,
                       bool write, uint64_t *offset, uint64_t *len);
bool weft_iommu_watch(WeftPort *s);
bool weft_iommu_maps(WeftPort *s, const WeftAperture *ap, uint64_t base);
void weft_iommu_exit(WeftPort *s);

/* weft_doorbell.c */
bool weft_doorbell_init(WeftPort *s, Error **errp);
void weft_doorbell_exit(WeftPort *s);
void weft_doorbell_reset(WeftPort *s);
void weft_doorbell_forget(WeftPort *s);
bool weft_doorbell_write(WeftPort *s, unsigned page, uint32_t val);
void weft_doorbell_arrive(WeftPort *s, unsigned via, unsigned function,
                          uint32_t bits);
void weft_doorbell_open(WeftPort *s);
void weft_doorbell_close(WeftPort *s);
void weft_doorbell_again(WeftPort *s);
void weft_doorbell_send(WeftPort *s, uint32_t bits);
void weft_doorbell_set_mask(WeftPort *s, uint32_t mask);

/* weft_mbox.c */
void weft_mbox_reset(WeftPort *s);
void weft_mbox_send(WeftPort *s, uint32_t val);
bool weft_mbox_receive(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
uint32_t weft_mbox_rx_status(WeftPort *s);
uint32_t weft_mbox_rx_lid(WeftPort *s);
uint32_t weft_mbox_rx_word(WeftPort *s, unsigned offset);
void weft_mbox_pop(WeftPort *s);

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

/* weft_remote.c */
void weft_remotes_update(WeftPort *s);
void weft_remotes_publish(WeftPort *ep);
void weft_remotes_drop(WeftPort *ep);
void weft_remotes_lost(WeftPort *ep);
bool weft_remote_up(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                    Error **errp);
bool weft_remote_down(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp);
bool weft_remote_peer_gone(WeftPort *ep, const struct weft_fab_msg *m,
                           int *fds, Error **errp);

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

/* weft_route.c */
void weft_routes_publish(WeftPort *ep);
void weft_routes_reset(WeftPort *ep);
void weft_routes_lost(WeftPort *ep);
bool weft_route_acked(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                      Error **errp);
bool weft_route_denied(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
void weft_route_set_lid(WeftPort *s, uint32_t lid);
uint32_t weft_route_read(WeftPort *s, unsigned n, unsigned reg);
void weft_route_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

/* weft_config.c */
void weft_config_reset(WeftPort *ep);
void weft_config_lost(WeftPort *ep);
bool weft_config_reply(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);
bool weft_config_covers(const WeftPort *s, hwaddr a);
uint32_t weft_config_read(WeftPort *s, hwaddr a);
void weft_config_write(WeftPort *s, hwaddr a, uint32_t val);

/* weft_seen.c */
bool weft_seen_inbound(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                       Error **errp);

/* weft_fab.c */
/*
 * The connection is the endpoint's; send, ready and complain can be called for
 * any of its functions.
 */
bool weft_fab_init(WeftPort *s, const WeftFabOps *ops, Error **errp);
void weft_fab_exit(WeftPort *s);
void weft_fab_send(WeftPort *s, const struct weft_fab_msg *m);
bool weft_fab_ready(WeftPort *s);
bool weft_fab_answers(WeftPort *s);
void weft_fab_wait(unsigned ms);
void weft_fab_complain(WeftPort *s, const char *what);

/* weft_fab_rx.c */
int weft_fab_receive(WeftPort *s, Error **errp);

/* weft_session.c */
void weft_session_enable(WeftPort *s);
void weft_session_reset(WeftPort *s);
void weft_session_lost(WeftPort *ep, bool was_welcomed);
bool weft_session_welcome(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                          Error **errp);
bool weft_session_generation(WeftPort *ep, const struct weft_fab_msg *m,
                             int *fds, Error **errp);

/* weft_message.c */
extern const WeftFabOps weft_message_ops;

/* weft_fault.c */
extern const WeftHooks weft_fault_hooks;
bool weft_fault_message(WeftPort *ep, const struct weft_fab_msg *m, int *fds,
                        Error **errp);
void weft_fault_clear(WeftPort *ep);
void weft_fault_poisoned(WeftPort *s, unsigned link, uint64_t offset);

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

/* weft_reset.c */
void weft_reset(WeftPort *s);

/* weft_pci.c */
bool weft_pci_open(WeftPort *s, Error **errp);
void weft_pci_close(WeftPort *s);
void weft_pci_acs(PCIDevice *d);

/* weft_quota.c */
extern const WeftQuota weft_unlimited;
uint32_t weft_quota_read(WeftPort *pf, unsigned n, unsigned reg);
void weft_quota_write(WeftPort *pf, unsigned n, unsigned reg, uint32_t val);

/* weft_linger.c */
void weft_linger_init(WeftPort *s);
void weft_linger_exit(WeftPort *s);
void weft_linger_settle(WeftPort *s);
void weft_linger_add(WeftPort *s, unsigned n, uint64_t over);
void weft_linger_all(WeftPort *s);
void weft_linger_joined(WeftPort *s);

/* weft_slot_regs.c */
void weft_slots_reset(WeftPort *s);
uint32_t weft_slot_read(WeftPort *s, unsigned n, unsigned reg);
void weft_slot_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val);

/* weft_vpd.c */
bool weft_vpd_init(WeftPort *s, Error **errp);
void weft_vpd_config_write(WeftPort *s, uint32_t addr, int len);

#endif /* WEFT_PORT_H */
