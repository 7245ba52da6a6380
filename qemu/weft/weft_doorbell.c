/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: doorbells, to neighbours and to oneself.
 *
 * A neighbour sets bits in this port's doorbell page, shared memory, and
 * kicks its eventfd. The page is written by another process: it is read only
 * by atomic exchange, and every bit is checked against DB_ALLOW here.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/memfd.h"
#include "qapi/error.h"
#include "trace.h"
#include "weft_aperture.h"
#include "weft_dest.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_link.h"
#include "weft_port.h"
#include "weft_vf.h"

/* Marks ERR_ADDR of a doorbell that a neighbour rang without a right to. */
#define WEFT_DB_FROM_PEER       BIT_ULL(63)

QEMU_BUILD_BUG_ON(sizeof(struct weft_fab_doorbell) > WEFT_FAB_DOORBELL_BYTES);
QEMU_BUILD_BUG_ON(WEFT_FAB_DOORBELL_BYTES % WEFT_PAGE);

static void weft_doorbell_raise(WeftPort *s, uint32_t bits)
{
    uint32_t vectors = 0;

    while (bits) {
        unsigned n = ctz32(bits);

        bits &= bits - 1;
        if (s->db_vector[n] < WEFT_VECTORS) {
            vectors |= BIT(s->db_vector[n]);
        }
    }
    weft_interrupt(s, vectors);
}

/* Late interrupts, as far as there is still a reason for them. */
void weft_doorbell_send(WeftPort *s, uint32_t bits)
{
    weft_doorbell_raise(s, bits & s->db_pending & ~s->db_mask);
}

static void weft_doorbell_set(WeftPort *s, uint32_t bits)
{
    uint32_t fresh = bits & ~s->db_pending;

    if (bits) {
        trace_weft_doorbell_set(s->ep->node, s->number, bits);
    }
    s->db_pending |= bits;
    weft_doorbell_raise(s, weft_hook_delay(s, WEFT_LATE_DOORBELL, 0,
                                           fresh & ~s->db_mask));
}

void weft_doorbell_set_mask(WeftPort *s, uint32_t mask)
{
    uint32_t unmasked = s->db_mask & ~mask;

    s->db_mask = mask;
    weft_doorbell_raise(s, weft_hook_delay(s, WEFT_LATE_DOORBELL, 0,
                                           s->db_pending & unmasked));
}

/* Doorbells that are there at all: for a VF, as its PF says. */
static uint32_t weft_doorbell_all(const WeftPort *s)
{
    return s->quota->doorbells < WEFT_DOORBELLS ?
           BIT(s->quota->doorbells) - 1 : UINT32_MAX;
}

/* Those of @bits that came by @link and that @allow lets ring. */
static uint32_t weft_doorbell_admit(WeftPort *s, uint32_t bits, unsigned link,
                                    uint32_t allow, unsigned where)
{
    uint32_t denied;

    allow &= weft_dest_links(s) & BIT(link) ? weft_doorbell_all(s) : 0;
    denied = bits & ~allow;
    if (denied) {
        s->counter[WEFT_CNT_DB_DENIED] += ctpop32(denied);
        weft_error(s, WEFT_ERR_DB_DENIED, where,
                   WEFT_DB_FROM_PEER | ctz32(denied));
    }
    s->counter[WEFT_CNT_RX_DB] += ctpop32(bits & allow);
    return bits & allow;
}

/* @pending, @routed: of this function, in the page. */
static void weft_doorbell_collect(WeftPort *s, uint32_t *pending,
                                  uint32_t *routed)
{
    uint32_t rung = 0;

    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        uint32_t bits = qatomic_xchg(&pending[n], 0);

        if (!weft_hook_deaf(s, n)) {
            rung |= weft_doorbell_admit(s, bits, n, s->db_allow[n], n);
        }
    }
    for (unsigned n = 0; n < WEFT_FAB_GATES; n++) {
        if (qatomic_read(&routed[n])) {
            rung |= weft_doorbell_admit(s, qatomic_xchg(&routed[n], 0),
                                        n / WEFT_VPS, s->db_allow_vp[n],
                                        WEFT_WHERE_ROUTED(n));
        }
    }
    weft_doorbell_set(s, rung);
}

static void weft_doorbell_take(EventNotifier *e)
{
    WeftPort *ep = container_of(e, WeftPort, db_event);

    if (!event_notifier_test_and_clear(e)) {
        return;
    }
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_doorbell_collect(f, ep->db_shared->pending[f->number],
                              ep->db_shared->routed[f->number]);
    }
}

/* Doorbells get to where they were rung, if the link is still up. */
void weft_doorbell_arrive(WeftPort *s, unsigned via, unsigned function,
                          uint32_t bits)
{
    WeftLink *link;
    uint64_t one = 1;

    if (via == WEFT_VIA_SELF) {
        weft_doorbell_set(s, bits);
        return;
    }
    link = &s->link[via];
    if (!bits || !link->up) {
        return;
    }
    qatomic_or(via < WEFT_MAX_LINKS ?
               &link->doorbell->pending[function][link->far_link] :
               &link->doorbell->routed[function][link->gate], bits);
    /* Not blocking: when the count is full the neighbour has a kick. */
    if (write(link->doorbell_event, &one, sizeof(one)) < 0 &&
        errno != EAGAIN) {
        weft_fab_complain(s, "a neighbour's doorbell cannot be written");
    }
    for (; bits; bits &= bits - 1) {
        s->counter[WEFT_CNT_TX_DB]++;
        weft_traffic_doorbell(s, via);
    }
}

static bool weft_doorbell_allowed(WeftPort *s, unsigned page, uint32_t val)
{
    return page < s->quota->db_pages && val < WEFT_DOORBELLS &&
           (s->db_page[page].allow & BIT(val));
}

static bool weft_doorbell_ring(WeftPort *s, unsigned page, uint32_t val)
{
    uint32_t dest = s->db_page[page].dest;
    unsigned n, function;

    if (!weft_doorbell_allowed(s, page, val)) {
        goto denied;
    }
    trace_weft_doorbell_ring(s->ep->node, s->number, page, val, dest);
    weft_rate_take(s, WEFT_RATE_RING, 1);
    weft_rate_count(s, WEFT_RATE_RING, 1);
    switch (dest & WEFT_DEST_TYPE) {
    case WEFT_DEST_SELF:
        if (!(weft_doorbell_all(s) & BIT(val))) {
            goto denied;
        }
        weft_doorbell_arrive(s, WEFT_VIA_SELF, 0,
                             weft_hook_delay(s, WEFT_LATE_SELF, 0, BIT(val)));
        return true;
    case WEFT_DEST_LINK:
        if (!weft_dest_link(s, dest, &n, &function)) {
            goto denied;
        }
        if (weft_hook_dead(s, n)) {
            s->counter[WEFT_CNT_TX_DB]++;
            return true;
        }
        weft_doorbell_arrive(s, n, function,
                             weft_hook_delay(s, n, function, BIT(val)));
        return true;
    case WEFT_DEST_LID:
        if (!weft_dest_remote(s, dest, &n, &function)) {
            goto denied;
        }
        if (!s->link[n].up) {
            weft_traffic_refused(s, n, val);
            goto denied;
        }
        weft_doorbell_arrive(s, n, function,
                             weft_hook_delay(s, n, function, BIT(val)));
        return true;
    }
denied:
    s->counter[WEFT_CNT_DB_DENIED]++;
    weft_error(s, WEFT_ERR_DB_DENIED, page, val);
    return false;
}

/* ---- doorbells that wait ---------------------------------------------- */

/* False: it may ring now. Rung again while it waits it is the same one. */
static bool weft_doorbell_put_off(WeftPort *s, unsigned page, unsigned doorbell)
{
    int64_t opens = weft_rate_opens(s, WEFT_RATE_RING);
    unsigned at;

    if (!opens && !s->db_wait.count) {
        return false;
    }
    if (!(s->db_wait.bits[page] & BIT(doorbell))) {
        s->db_wait.bits[page] |= BIT(doorbell);
        at = s->db_wait.head + s->db_wait.count++;
        s->db_wait.queue[at % ARRAY_SIZE(s->db_wait.queue)] =
            page * WEFT_DOORBELLS + doorbell;
    }
    if (!timer_pending(s->db_wait.timer)) {
        timer_mod(s->db_wait.timer, opens);
    }
    return true;
}

/* Those whose time has come ring, if they may still do so. */
static void weft_doorbell_late(void *opaque)
{
    WeftPort *s = opaque;

    while (s->db_wait.count) {
        unsigned at = s->db_wait.queue[s->db_wait.head];
        unsigned page = at / WEFT_DOORBELLS, doorbell = at % WEFT_DOORBELLS;
        int64_t opens = weft_rate_opens(s, WEFT_RATE_RING);

        if (opens) {
            timer_mod(s->db_wait.timer, opens);
            return;
        }
        s->db_wait.bits[page] &= ~BIT(doorbell);
        s->db_wait.head = (s->db_wait.head + 1) %
                          ARRAY_SIZE(s->db_wait.queue);
        s->db_wait.count--;
        weft_doorbell_ring(s, page, doorbell);
    }
}

/* The VF's rate has changed. */
void weft_doorbell_again(WeftPort *s)
{
    if (s->db_wait.count) {
        timer_mod(s->db_wait.timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    }
}

/*
 * A write at the first word of doorbell page @page; false if it is refused. A
 * VF that rings more often than it may is heard later.
 */
bool weft_doorbell_write(WeftPort *s, unsigned page, uint32_t val)
{
    if (weft_doorbell_allowed(s, page, val) &&
        weft_doorbell_put_off(s, page, val)) {
        return true;
    }
    return weft_doorbell_ring(s, page, val);
}

/* ---- life ------------------------------------------------------------ */

/* Doorbells that wait are lost. */
static void weft_doorbell_forgo(WeftPort *s)
{
    timer_del(s->db_wait.timer);
    memset(s->db_wait.bits, 0, sizeof(s->db_wait.bits));
    s->db_wait.count = 0;
}

/* What was rung at the number that @s has is for none. */
void weft_doorbell_forget(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        qatomic_xchg(&s->ep->db_shared->pending[s->number][n], 0);
    }
    for (unsigned n = 0; n < WEFT_FAB_GATES; n++) {
        qatomic_xchg(&s->ep->db_shared->routed[s->number][n], 0);
    }
}

void weft_doorbell_reset(WeftPort *s)
{
    s->db_pending = 0;
    s->db_mask = UINT32_MAX;
    for (unsigned n = 0; n < WEFT_DOORBELLS; n++) {
        s->db_vector[n] = 4 + n % 12;
    }
    memset(s->db_allow, 0, sizeof(s->db_allow));
    memset(s->db_allow_vp, 0, sizeof(s->db_allow_vp));
    memset(s->db_page, 0, sizeof(s->db_page));
    weft_doorbell_forgo(s);
    weft_doorbell_forget(s);
}

bool weft_doorbell_init(WeftPort *s, Error **errp)
{
    int ret;

    s->db_fd = qemu_memfd_create("weft-doorbell", WEFT_FAB_DOORBELL_BYTES,
                                 false, 0,
                                 F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
                                 errp);
    if (s->db_fd < 0) {
        return false;
    }
    s->db_shared = weft_map_sealed(s->db_fd, WEFT_FAB_DOORBELL_BYTES, NULL,
                                   errp);
    if (!s->db_shared) {
        goto close;
    }
    ret = event_notifier_init(&s->db_event, 0);
    if (ret < 0) {
        error_setg_errno(errp, -ret, "weft-port: doorbell eventfd");
        goto unmap;
    }
    event_notifier_set_handler(&s->db_event, weft_doorbell_take);
    return true;

unmap:
    munmap(s->db_shared, WEFT_FAB_DOORBELL_BYTES);
    s->db_shared = NULL;
close:
    close(s->db_fd);
    s->db_fd = -1;
    return false;
}

void weft_doorbell_exit(WeftPort *s)
{
    if (!s->db_shared) {
        return;
    }
    event_notifier_set_handler(&s->db_event, NULL);
    event_notifier_cleanup(&s->db_event);
    munmap(s->db_shared, WEFT_FAB_DOORBELL_BYTES);
    s->db_shared = NULL;
    close(s->db_fd);
    s->db_fd = -1;
}

/* Every function has doorbells; the page is the endpoint's. */
void weft_doorbell_open(WeftPort *s)
{
    s->db_wait.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_doorbell_late, s);
}

void weft_doorbell_close(WeftPort *s)
{
    timer_free(s->db_wait.timer);
    s->db_wait.timer = NULL;
}
