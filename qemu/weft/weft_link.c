/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: links, and the neighbour at the other end of each.
 *
 * While a link is up, this port holds a lock on the neighbour's doorbell page
 * (weft_fabric.h): from it the neighbour sees, without a question and whatever
 * process dies, whether its memory may still be reached from here. The lock is
 * one of this life of the link: a neighbour that is slow may see it when the
 * link is up again, and must not take that for what it waits for.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "trace.h"
#include "weft_aperture.h"
#include "weft_dest.h"
#include "weft_event.h"
#include "weft_fab.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_port.h"
#include "weft_slot.h"

#define WEFT_MAX_SPEED          6
#define WEFT_MAX_WIDTH          32
#define WEFT_LINK_CTRL_BITS     (WEFT_LINK_DISABLE | \
                                 WEFT_LINK_TARGET_SPEED | \
                                 WEFT_LINK_TARGET_WIDTH)

/* ---- registers ------------------------------------------------------ */

static uint32_t weft_link_rate(uint32_t speed, uint32_t width)
{
    return speed << ctz32(WEFT_LINK_SPEED) | width << ctz32(WEFT_LINK_WIDTH);
}

static uint32_t weft_link_status(const WeftLink *link, bool up)
{
    return (up ? WEFT_LINK_UP |
                       weft_link_rate(link->speed, link->width) : 0) |
           (link->present ? WEFT_LINK_PRESENT : 0) |
           (link->role_ep ? WEFT_LINK_ROLE_EP : 0) |
           (link->to_switch ? WEFT_LINK_SWITCH : 0);
}

uint32_t weft_link_read(WeftPort *s, unsigned n, unsigned reg)
{
    const WeftLink *link = &s->link[n];

    if (!(s->quota->links & BIT(n))) {
        return 0;
    }
    switch (reg) {
    case WEFT_LINK_STATUS:
        return weft_link_status(link, weft_dest_link_up(s, n) ||
                                weft_dest_switch_up(s, n));
    case WEFT_LINK_CTRL:
        return s == s->ep ? link->ctrl : 0;
    case WEFT_LINK_TRAINED:
        return link->trained;
    case WEFT_LINK_MAX:
        return weft_link_rate(link->max_speed, link->max_width);
    case WEFT_LINK_OUT:
    case WEFT_LINK_OUT + 4:
    case WEFT_LINK_IN:
    case WEFT_LINK_IN + 4:
        return weft_traffic_read(s, n, reg);
    }
    return 0;
}

static void weft_link_send_ctrl(WeftPort *s, unsigned n)
{
    uint32_t ctrl = s->link[n].ctrl;
    struct weft_fab_msg m = { .type = WEFT_FAB_LINK_CTRL, .link = n };

    m.arg[0] = ctrl & WEFT_LINK_DISABLE;
    m.arg[1] = (ctrl & WEFT_LINK_TARGET_SPEED) >> ctz32(WEFT_LINK_TARGET_SPEED);
    m.arg[2] = (ctrl & WEFT_LINK_TARGET_WIDTH) >> ctz32(WEFT_LINK_TARGET_WIDTH);
    weft_fab_send(s, &m);
}

void weft_link_write(WeftPort *s, unsigned n, unsigned reg, uint32_t val)
{
    if (reg != WEFT_LINK_CTRL || s != s->ep) {
        return;
    }
    s->link[n].ctrl = val & WEFT_LINK_CTRL_BITS;
    if (weft_fab_ready(s) && n < s->fab.links) {
        weft_link_send_ctrl(s, n);
    }
}

/* A fabric that knows nothing of this port wants to know. */
void weft_link_publish(WeftPort *s)
{
    for (unsigned n = 0; n < s->fab.links; n++) {
        weft_link_send_ctrl(s, n);
    }
}

/* ---- up and down ---------------------------------------------------- */

/*
 * Take the neighbour's lock, with an open file of our own: a lock belongs to
 * the open file, and the one handed over is shared by all that got it.
 */
static int weft_link_hold(int fd, unsigned channel, uint32_t life,
                          Error **errp)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET,
        .l_start = (uint64_t)channel << 32 | life, .l_len = 1,
    };
    int own = open(path, O_RDWR | O_CLOEXEC);

    if (own < 0) {
        error_setg_errno(errp, errno, "opening a doorbell page by %s", path);
        return -1;
    }
    if (fcntl(own, F_OFD_SETLK, &lock) < 0) {
        error_setg_errno(errp, errno, "locking a doorbell page");
        close(own);
        return -1;
    }
    return own;
}

static void weft_link_forget(WeftLink *link)
{
    for (unsigned e = 0; e < ARRAY_SIZE(link->seen); e++) {
        weft_aperture_close(&link->seen[e]);
    }
    weft_aperture_close(&link->partial.aperture);
    link->partial.active = false;
}

static void weft_link_release(WeftLink *link)
{
    weft_ram_close(&link->ram);
    if (link->doorbell) {
        munmap(link->doorbell, WEFT_FAB_DOORBELL_BYTES);
        link->doorbell = NULL;
    }
    if (link->doorbell_event >= 0) {
        close(link->doorbell_event);
        link->doorbell_event = -1;
    }
    /* Last, for it says that nothing of the neighbour is in reach. */
    if (link->doorbell_lock >= 0) {
        close(link->doorbell_lock);
        link->doorbell_lock = -1;
    }
}

/* Nothing of the neighbour can be reached after this. */
void weft_link_detach(WeftPort *s, WeftLink *link)
{
    if (link->up) {
        link->up = false;
        weft_link_forget(link);
        for (WeftPort *f = NULL; (f = weft_function_next(s, f)); ) {
            weft_hook_link_down(f, link - s->link);
        }
        weft_slots_update_all(s);
        weft_link_release(link);
    }
}

/* Without the event: a reset clears events anyway. */
static void weft_link_drop(WeftPort *s, unsigned n)
{
    if (!s->link[n].up) {
        return;
    }
    trace_weft_link_down(s->node, s->number, n);
    weft_link_detach(s, &s->link[n]);
    weft_linger_add(s, n, s->link[n].life + 1ULL);
    for (WeftPort *f = NULL; (f = weft_function_next(s, f)); ) {
        weft_inbound_link_down(f, n);
    }
}

static void weft_link_end(WeftPort *s, unsigned n)
{
    if (s->link[n].up) {
        weft_link_drop(s, n);
        weft_event_link(s, n);
    }
}

bool weft_link_down(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                    Error **errp)
{
    weft_link_end(s, m->link);
    return true;
}

static bool weft_link_check(uint64_t speed, uint64_t width, Error **errp)
{
    if (speed > WEFT_MAX_SPEED || width > WEFT_MAX_WIDTH) {
        error_setg(errp, "link of speed %" PRIu64 ", %" PRIu64 " lanes",
                   speed, width);
        return false;
    }
    return true;
}

static int weft_link_take(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/*
 * Take up what a neighbour has given of itself, and the lock of @life at
 * @channel of it. @fds: RAM, doorbell page, eventfd; those taken over are set
 * to -1.
 */
bool weft_link_attach(WeftLink *link, int *fds, unsigned channel,
                      uint32_t life, Error **errp)
{
    int flags = fcntl(fds[2], F_GETFL);

    if (flags < 0 || fcntl(fds[2], F_SETFL, flags | O_NONBLOCK) < 0) {
        error_setg_errno(errp, errno, "doorbell event of a neighbour");
        return false;
    }
    link->doorbell_lock = weft_link_hold(fds[1], channel, life, errp);
    if (link->doorbell_lock < 0) {
        return false;
    }
    link->doorbell = weft_map_sealed(fds[1], WEFT_FAB_DOORBELL_BYTES, NULL,
                                     errp);
    if (!link->doorbell ||
        !weft_ram_open(&link->ram, weft_link_take(&fds[0]), errp)) {
        weft_link_release(link);
        return false;
    }
    link->doorbell_event = weft_link_take(&fds[2]);
    link->far_link = channel;
    link->life = life;
    return true;
}

bool weft_link_up(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                  Error **errp)
{
    WeftLink *link = &s->link[m->link];
    uint32_t far_link = m->arg[5], life = m->arg[5] >> 32;

    if (!weft_link_check(m->arg[0], m->arg[1], errp)) {
        return false;
    }
    if (far_link >= WEFT_MAX_LINKS) {
        error_setg(errp, "link to link %" PRIu32 " of a neighbour", far_link);
        return false;
    }
    weft_link_end(s, m->link);

    if (!weft_link_attach(link, fds, far_link, life, errp)) {
        return false;
    }
    s->lives_over[m->link] = life;
    link->speed = m->arg[0];
    link->width = m->arg[1];
    link->role_ep = m->arg[2] & 1;
    link->present = true;
    link->up = true;
    link->trained++;
    trace_weft_link_up(s->node, s->number, m->link, far_link, life);
    weft_event_link(s, m->link);
    return true;
}

bool weft_link_info(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                    Error **errp)
{
    WeftLink *link = &s->link[m->link];
    uint32_t before = weft_link_status(link, link->up || link->switch_up);
    bool was_up = link->switch_up;

    if (!weft_link_check(m->arg[0], m->arg[1], errp) ||
        !weft_link_check(m->arg[4], m->arg[5], errp)) {
        return false;
    }
    link->speed = m->arg[0];
    link->width = m->arg[1];
    link->role_ep = m->arg[2] & 1;
    link->to_switch = m->arg[2] & 2;
    link->switch_up = m->arg[2] & 4;
    link->present = m->arg[3] & 1;
    link->max_speed = m->arg[4];
    link->max_width = m->arg[5];
    if (link->switch_up && !was_up) {
        link->trained++;
    }
    if (weft_link_status(link, link->up || link->switch_up) != before) {
        weft_event_link(s, m->link);
    }
    return true;
}

/* ---- life ------------------------------------------------------------ */

/* The fabric is gone: nothing is known of what is plugged in. */
void weft_link_lost(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        WeftLink *link = &s->link[n];
        uint32_t before = weft_link_status(link, link->up || link->switch_up);

        weft_link_drop(s, n);
        link->present = false;
        link->role_ep = false;
        link->to_switch = false;
        link->switch_up = false;
        link->max_speed = 0;
        link->max_width = 0;
        if (weft_link_status(link, link->up) != before) {
            weft_event_link(s, n);
        }
    }
    weft_linger_all(s);
}

/* What is plugged in stays. */
void weft_link_reset(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        weft_link_drop(s, n);
        s->link[n].switch_up = false;
        s->link[n].ctrl = 0;
        s->link[n].trained = 0;
        s->link[n].bytes_out = 0;
        s->link[n].bytes_in = 0;
    }
    weft_linger_all(s);
}

void weft_link_init(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_LINKS + WEFT_FAB_REMOTES; n++) {
        s->link[n].ram.fd = -1;
        s->link[n].doorbell_lock = -1;
        s->link[n].doorbell_event = -1;
    }
}

void weft_link_exit(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_LINKS; n++) {
        weft_link_drop(s, n);
    }
}
