/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what weft-fabric says, received, checked and handed on as the
 * table of messages has it.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include <sys/socket.h>
#include "trace.h"
#include "weft_fab.h"
#include "weft_port.h"

#define WEFT_FAB_MAX_FDS        8

/* A type that is not in the table has no handler. */
static WeftFabMessage weft_fab_lookup(WeftPort *s, unsigned type)
{
    const WeftFabOps *ops = s->fab.ops;

    return type < ops->messages ? ops->message[type] : (WeftFabMessage) { };
}

/* Is the link one that a message of this type can be of? */
static bool weft_fab_check_link(WeftPort *s, const struct weft_fab_msg *m,
                                unsigned flags, Error **errp)
{
    bool remote = (flags & WEFT_FAB_OF_REMOTE) &&
                  (!(flags & WEFT_FAB_OF_LINK) || m->link >= WEFT_MAX_LINKS);
    unsigned first = remote ? WEFT_MAX_LINKS : 0;
    unsigned end = remote ? WEFT_MAX_LINKS + WEFT_FAB_REMOTES : s->fab.links;

    if ((flags & (WEFT_FAB_OF_LINK | WEFT_FAB_OF_REMOTE)) &&
        (m->link < first || m->link >= end)) {
        error_setg(errp, "message %u for link %u of %u to %u", m->type,
                   m->link, first, end);
        return false;
    }
    return true;
}

/*
 * @fds: taken over where set to -1. False: the fabric is not to be trusted
 * any more; the caller gives it up.
 */
static bool weft_fab_take(WeftPort *s, const struct weft_fab_msg *m, int *fds,
                          unsigned nfds, Error **errp)
{
    WeftFabMessage e = weft_fab_lookup(s, m->type);

    trace_weft_fab_take(s->node, s->number, m->type, m->link, m->arg[0]);
    if (nfds != e.fds) {
        error_setg(errp, "message %u with %u descriptors instead of %u",
                   m->type, nfds, e.fds);
        return false;
    }
    if (!s->fab.welcomed && !(e.flags & WEFT_FAB_ANY_TIME)) {
        error_setg(errp, "message %u before WELCOME", m->type);
        return false;
    }
    if (!e.take) {
        error_setg(errp, "message of unknown type %u", m->type);
        return false;
    }
    if (!weft_fab_check_link(s, m, e.flags, errp)) {
        return false;
    }
    if ((e.flags & WEFT_FAB_OF_NOW) && s->fab.welcomes_due) {
        /* Meant for the port as it was before its reset. */
        return true;
    }
    return e.take(s, m, fds, errp);
}

/*
 * 1: a message, 0: none for now, -1: the connection is to be given up, and
 * @errp may say why.
 */
int weft_fab_receive(WeftPort *s, Error **errp)
{
    struct weft_fab_msg m;
    int fds[WEFT_FAB_MAX_FDS];
    unsigned nfds = 0;
    union {
        char buf[CMSG_SPACE(sizeof(fds))];
        struct cmsghdr align;
    } ctl;
    struct iovec iov = { .iov_base = &m, .iov_len = sizeof(m) };
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf),
    };
    bool ok = false;
    ssize_t ret;

    do {
        ret = recvmsg(s->fab.sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (ret < 0 && errno == EINTR);
    if (ret < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return 0;
    }
    if (ret <= 0) {
        return -1;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            unsigned n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

            n = MIN(n, WEFT_FAB_MAX_FDS - nfds);
            memcpy(fds + nfds, CMSG_DATA(c), n * sizeof(int));
            nfds += n;
        }
    }
    if (ret != sizeof(m) || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        m.len > sizeof(m.data)) {
        error_setg(errp, "malformed packet of %zd bytes", ret);
    } else {
        ok = weft_fab_take(s, &m, fds, nfds, errp);
    }
    for (unsigned i = 0; i < nfds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    return ok ? 1 : -1;
}
