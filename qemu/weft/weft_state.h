/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what the device keeps of links, slots, entries and the rest, by
 * which struct WeftPort is made (weft_port.h).
 */
#ifndef WEFT_STATE_H
#define WEFT_STATE_H

#include "qemu/queue.h"
#include "qemu/timer.h"
#include "weft_compat.h"
#include "weft_fabric.h"
#include "weft_regs.h"

typedef struct WeftPort WeftPort;

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
    uint64_t gates;             /* likewise: what may come by routes */
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
    uint64_t hwid;              /* the id it has, 0: its own */
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
    bool attests;               /* this fabric, hardware ids */
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
    bool changed;               /* the translation, in this transaction */
    uint32_t vectors;           /* interrupts put off */
    QEMUBH *resume;
} WeftIommu;

#endif /* WEFT_STATE_H */
