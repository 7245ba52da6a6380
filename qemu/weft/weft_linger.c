/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: neighbours, and others that had a channel, that have not let go of
 * this host's memory yet. The locks on the doorbell page say so (weft_link.c).
 */
#include "qemu/osdep.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_port.h"

#define WEFT_LINGER_MS          1
#define WEFT_ALL_LIVES          (1ULL << 32)

/*
 * Does the lock of @channel say that memory of this host is still held, in a
 * life before @over?
 */
static bool weft_linger_held(WeftPort *s, unsigned channel, uint64_t over)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET,
        .l_start = (uint64_t)channel << 32, .l_len = over,
    };

    /* A length of 0 would be all that follows. */
    return over && fcntl(s->db_fd, F_OFD_GETLK, &lock) == 0 &&
           lock.l_type != F_UNLCK;
}

/* What has let go by now is not waited for any more. */
void weft_linger_settle(WeftPort *s)
{
    for (uint64_t left = s->linger; left; left &= left - 1) {
        unsigned n = ctz64(left);

        if (!weft_linger_held(s, n, s->lives_over[n])) {
            s->linger &= ~BIT_ULL(n);
        }
    }
    for (WeftPort *f = NULL; (f = weft_function_next(s, f)); ) {
        weft_inbound_settled(f);
    }
}

static void weft_linger_timeout(void *opaque)
{
    WeftPort *s = opaque;

    weft_linger_settle(s);
    if (s->linger) {
        timer_mod(s->linger_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + WEFT_LINGER_MS);
    }
}

/*
 * @n: a link or another channel by which a port reached this host, in lives
 * before @over.
 */
void weft_linger_add(WeftPort *s, unsigned n, uint64_t over)
{
    s->lives_over[n] = over;
    if (weft_linger_held(s, n, over)) {
        s->linger |= BIT_ULL(n);
        timer_mod(s->linger_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + WEFT_LINGER_MS);
    }
}

/*
 * The fabric knows nothing of this port any more: all lives are over, also
 * those of which this port had not heard yet.
 */
void weft_linger_all(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_FAB_CHANNELS; n++) {
        weft_linger_add(s, n, WEFT_ALL_LIVES);
    }
}

/* It knows it again, by this generation: lives from here on are new ones. */
void weft_linger_joined(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_FAB_CHANNELS; n++) {
        s->lives_over[n] = s->generation;
    }
}

void weft_linger_init(WeftPort *s)
{
    s->linger_timer = timer_new_ms(QEMU_CLOCK_REALTIME,
                                   weft_linger_timeout, s);
}

void weft_linger_exit(WeftPort *s)
{
    timer_free(s->linger_timer);
    s->linger_timer = NULL;
}
