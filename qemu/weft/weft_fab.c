/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the connection to weft-fabric.
 *
 * It may be absent, late, slow, or die at any moment. Nothing here waits for
 * it: sends are queued up to a bound, and a connection that is lost, or not
 * trusted any more, is closed and tried again by a timer.
 */
#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/sockets.h"
#include "qapi/error.h"
#include <sys/un.h>
#include "trace.h"
#include "weft_fab.h"
#include "weft_port.h"

#define WEFT_FAB_RETRY_MS       200
#define WEFT_FAB_BATCH          256
/* All entries in as many pieces as there may be would be more; so be it. */
#define WEFT_FAB_MAX_QUEUED     8192

/* The ports of this QEMU that have a fabric. */
static QLIST_HEAD(, WeftPort) weft_fab_ports;

struct WeftPending {
    QSIMPLEQ_ENTRY(WeftPending) next;
    struct weft_fab_msg msg;
};

static void weft_fab_readable(void *opaque);
static void weft_fab_writable(void *opaque);

/* Say what is wrong, once until something else is. */
void weft_fab_complain(WeftPort *s, const char *what)
{
    s = s->ep;
    if (g_strcmp0(s->fab.complaint, what)) {
        warn_report("weft-port %s: %s", s->node, what);
        g_free(s->fab.complaint);
        s->fab.complaint = g_strdup(what);
    }
}

static void weft_fab_watch(WeftPort *s)
{
    qemu_set_fd_handler(s->fab.sock, weft_fab_readable,
                        s->fab.queued ? weft_fab_writable : NULL, s);
}

static void weft_fab_arm(WeftPort *s, unsigned ms)
{
    timer_mod(s->fab.retry, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + ms);
}

/*
 * To be closed: by the timer, because the caller may be anywhere, even in the
 * middle of what closing undoes.
 */
static void weft_fab_break(WeftPort *s)
{
    if (s->fab.sock >= 0 && !s->fab.broken) {
        s->fab.broken = true;
        qemu_set_fd_handler(s->fab.sock, NULL, NULL, NULL);
        weft_fab_arm(s, 0);
    }
}

static void weft_fab_close(WeftPort *s)
{
    WeftPending *p;

    if (s->fab.sock >= 0) {
        qemu_set_fd_handler(s->fab.sock, NULL, NULL, NULL);
        close(s->fab.sock);
        s->fab.sock = -1;
    }
    while ((p = QSIMPLEQ_FIRST(&s->fab.queue))) {
        QSIMPLEQ_REMOVE_HEAD(&s->fab.queue, next);
        g_free(p);
    }
    s->fab.queued = 0;
    s->fab.broken = false;
    s->fab.welcomed = false;
    s->fab.welcomes_due = 0;
    s->fab.links = 0;
    g_array_set_size(s->fab.acks, 0);
}

static void weft_fab_lost(WeftPort *s)
{
    bool was = s->fab.welcomed;

    trace_weft_fab_lost(s->node, s->number, was);
    weft_fab_close(s);
    s->fab.ops->lost(s, was);
    weft_fab_arm(s, WEFT_FAB_RETRY_MS);
}

/* ---- sending --------------------------------------------------------- */

static ssize_t weft_fab_try(int sock, const struct weft_fab_msg *m)
{
    ssize_t ret;

    do {
        ret = send(sock, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (ret < 0 && errno == EINTR);
    return ret;
}

static void weft_fab_writable(void *opaque)
{
    WeftPort *s = opaque;
    WeftPending *p;

    while ((p = QSIMPLEQ_FIRST(&s->fab.queue))) {
        if (weft_fab_try(s->fab.sock, &p->msg) < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                weft_fab_break(s);
            }
            return;
        }
        QSIMPLEQ_REMOVE_HEAD(&s->fab.queue, next);
        g_free(p);
        s->fab.queued--;
    }
    weft_fab_watch(s);
}

void weft_fab_send(WeftPort *s, const struct weft_fab_msg *m)
{
    WeftPending *p;

    s = s->ep;
    if (s->fab.sock < 0 || s->fab.broken) {
        return;
    }
    trace_weft_fab_send(s->node, s->number, m->type, m->link, m->arg[0]);
    if (!s->fab.queued) {
        if (weft_fab_try(s->fab.sock, m) >= 0) {
            return;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            weft_fab_break(s);
            return;
        }
    }
    if (s->fab.queued >= WEFT_FAB_MAX_QUEUED) {
        weft_fab_complain(s, "the fabric takes no messages; reconnecting");
        weft_fab_break(s);
        return;
    }
    p = g_new(WeftPending, 1);
    p->msg = *m;
    QSIMPLEQ_INSERT_TAIL(&s->fab.queue, p, next);
    if (!s->fab.queued++) {
        weft_fab_watch(s);
    }
}

/* The fabric knows this port as it is now, and not as before a reset. */
bool weft_fab_ready(WeftPort *s)
{
    s = s->ep;
    return s->fab.welcomed && !s->fab.welcomes_due && !s->fab.broken;
}

/*
 * What the fabric is told of apertures it answers, or the connection is lost:
 * one of the two is heard of.
 */
bool weft_fab_answers(WeftPort *s)
{
    return weft_fab_ready(s) || s->ep->fab.broken;
}

/* ---- receiving ------------------------------------------------------- */

static void weft_fab_confirm(WeftPort *s)
{
    for (unsigned i = 0; i < s->fab.acks->len; i++) {
        struct weft_fab_msg *m = &g_array_index(s->fab.acks,
                                                struct weft_fab_msg, i);

        if (s->link[m->link].up) {
            weft_fab_send(s, m);
        }
    }
    g_array_set_size(s->fab.acks, 0);
}

/*
 * All that is there is read before windows change: what is over already when
 * it arrives is never mapped.
 */
static void weft_fab_readable(void *opaque)
{
    WeftPort *s = opaque;
    Error *err = NULL;
    int ret = 1;

    for (unsigned i = 0; i < WEFT_FAB_BATCH && ret > 0; i++) {
        ret = s->fab.broken ? -1 : weft_fab_receive(s, &err);
    }
    if (err) {
        g_autofree char *what = g_strdup_printf("from the fabric: %s",
                                                error_get_pretty(err));

        weft_fab_complain(s, what);
        error_free(err);
    }
    if (ret < 0) {
        weft_fab_lost(s);
        return;
    }
    s->fab.ops->changed(s);
    weft_fab_confirm(s);
}

static void weft_fab_serve(WeftPort *s, unsigned events)
{
    if (events & G_IO_OUT) {
        weft_fab_writable(s);
    }
    if (s->fab.broken) {
        weft_fab_lost(s);
    } else if (events & ~G_IO_OUT) {
        weft_fab_readable(s);
    }
}

/*
 * Serve the fabric for up to @ms, without the main loop, for a caller that
 * waits for a neighbour with the BQL held: all ports, for the neighbour may
 * be one of this QEMU.
 */
void weft_fab_wait(unsigned ms)
{
    g_autoptr(GArray) fds = g_array_new(false, false, sizeof(GPollFD));
    unsigned n = 0;
    WeftPort *s;

    QLIST_FOREACH(s, &weft_fab_ports, fab.others) {
        GPollFD fd = {
            .fd = s->fab.sock,  /* -1 is passed over */
            .events = G_IO_IN | (s->fab.queued ? G_IO_OUT : 0),
        };

        g_array_append_val(fds, fd);
    }
    g_poll((GPollFD *)fds->data, fds->len, ms);
    QLIST_FOREACH(s, &weft_fab_ports, fab.others) {
        weft_fab_serve(s, g_array_index(fds, GPollFD, n++).revents);
    }
}

/* ---- connecting ------------------------------------------------------ */

static bool weft_fab_hello(WeftPort *s)
{
    struct weft_fab_msg m = { .type = WEFT_FAB_HELLO };
    int fds[3] = { s->ram.fd, s->db_fd, event_notifier_get_fd(&s->db_event) };
    union {
        char buf[CMSG_SPACE(sizeof(fds))];
        struct cmsghdr align;
    } ctl = { };
    struct iovec iov = { .iov_base = &m, .iov_len = sizeof(m) };
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    ssize_t ret;

    m.arg[0] = WEFT_FAB_VERSION;
    m.arg[1] = s->hwid_wanted;
    m.arg[2] = s->ram.size;
    m.len = strlen(s->node);
    memcpy(m.data, s->node, m.len);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    do {
        ret = sendmsg(s->fab.sock, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (ret < 0 && errno == EINTR);
    return ret == sizeof(m);
}

static void weft_fab_connect(WeftPort *s)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    pstrcpy(addr.sun_path, sizeof(addr.sun_path), s->fabric);
    s->fab.sock = qemu_socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (s->fab.sock >= 0 &&
        qemu_socket_try_set_nonblock(s->fab.sock) == 0 &&
        connect(s->fab.sock, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
        weft_fab_hello(s)) {
        s->fab.welcomes_due = 1;
        weft_fab_watch(s);
        return;
    }
    weft_fab_close(s);
    weft_fab_arm(s, WEFT_FAB_RETRY_MS);
}

static void weft_fab_timer(void *opaque)
{
    WeftPort *s = opaque;

    if (s->fab.sock < 0) {
        weft_fab_connect(s);
    } else if (s->fab.broken) {
        weft_fab_lost(s);
    }
}

bool weft_fab_init(WeftPort *s, const WeftFabOps *ops, Error **errp)
{
    struct sockaddr_un addr;

    s->fab.ops = ops;
    s->fab.sock = -1;
    QSIMPLEQ_INIT(&s->fab.queue);
    if (s->fabric && strlen(s->fabric) >= sizeof(addr.sun_path)) {
        error_setg(errp, "weft-port: path of the fabric is longer than %zu "
                   "bytes: %s", sizeof(addr.sun_path) - 1, s->fabric);
        return false;
    }
    if (strlen(s->node) > WEFT_FAB_DATA) {
        error_setg(errp, "weft-port: name of the node is longer than %d bytes",
                   WEFT_FAB_DATA);
        return false;
    }
    s->fab.acks = g_array_new(false, false, sizeof(struct weft_fab_msg));
    s->fab.retry = timer_new_ms(QEMU_CLOCK_REALTIME, weft_fab_timer, s);
    if (s->fabric) {
        weft_fab_connect(s);
    }
    QLIST_INSERT_HEAD(&weft_fab_ports, s, fab.others);
    return true;
}

void weft_fab_exit(WeftPort *s)
{
    if (!s->fab.retry) {
        return;
    }
    QLIST_REMOVE(s, fab.others);
    weft_fab_close(s);
    timer_free(s->fab.retry);
    s->fab.retry = NULL;
    g_array_free(s->fab.acks, true);
    s->fab.acks = NULL;
    g_free(s->fab.complaint);
    s->fab.complaint = NULL;
}
