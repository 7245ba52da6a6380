/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what DMA channels have written, on its way, in adversarial mode.
 *
 * The status of a WRITE says that its data have left, not that they have
 * landed. Here they land later, in the order of their channel; a READ of the
 * channel and a doorbell of its descriptors push them ahead of themselves.
 */
#include "qemu/osdep.h"
#include "weft_hook.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_slot.h"

#define WEFT_POSTED_NS          SCALE_MS
/* Pieces on the way, for each channel; one more, and the oldest lands. */
#define WEFT_POSTED_MAX         64

struct WeftPosted {
    QSIMPLEQ_ENTRY(WeftPosted) next;
    int64_t due;
    unsigned slot;
    uint64_t off;
    uint32_t len;
    uint8_t data[];
};

static void weft_posted_arm(WeftPort *s)
{
    int64_t first = INT64_MAX;

    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        WeftPosted *p = QSIMPLEQ_FIRST(&s->posted.queue[n]);

        first = p ? MIN(first, p->due) : first;
    }
    if (first == INT64_MAX) {
        timer_del(s->posted.timer);
    } else {
        timer_mod(s->posted.timer, first);
    }
}

/* The oldest of channel @n lands. */
static void weft_posted_pop(WeftPort *s, unsigned n)
{
    WeftPosted *p = QSIMPLEQ_FIRST(&s->posted.queue[n]);

    QSIMPLEQ_REMOVE_HEAD(&s->posted.queue[n], next);
    s->posted.count[n]--;
    /* It was allowed, and has been dropped if anything of that has changed. */
    weft_window_move(s, p->slot, p->off, p->data, p->len, true);
    g_free(p);
}

static void weft_posted_timer(void *opaque)
{
    WeftPort *s = opaque;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        while (s->posted.count[n] &&
               QSIMPLEQ_FIRST(&s->posted.queue[n])->due <= now) {
            weft_posted_pop(s, n);
        }
    }
    weft_posted_arm(s);
}

static WeftVerdict weft_posted_add(WeftPort *s, unsigned n, unsigned slot,
                                   uint64_t off, const void *buf,
                                   uint32_t len)
{
    WeftPosted *p;

    if (!s->adversary.on) {
        return WEFT_PASS;
    }
    if (s->posted.count[n] == WEFT_POSTED_MAX) {
        weft_posted_pop(s, n);
    }
    p = g_malloc(sizeof(*p) + len);
    p->due = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + 1 +
             weft_adversary_below(s, WEFT_POSTED_NS);
    p->slot = slot;
    p->off = off;
    p->len = len;
    memcpy(p->data, buf, len);
    QSIMPLEQ_INSERT_TAIL(&s->posted.queue[n], p, next);
    s->posted.count[n]++;
    weft_posted_arm(s);
    return WEFT_TAKEN;
}

/* All that channel @n has written lands. */
static void weft_posted_push(WeftPort *s, unsigned n)
{
    while (s->posted.count[n]) {
        weft_posted_pop(s, n);
    }
    weft_posted_arm(s);
}

/* The mode has ended. */
static void weft_posted_prompt(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        weft_posted_push(s, n);
    }
}

static void weft_posted_drop(WeftPort *s, unsigned slot)
{
    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        WeftPosted *p, *next;

        QSIMPLEQ_FOREACH_SAFE(p, &s->posted.queue[n], next, next) {
            if (p->slot == slot) {
                QSIMPLEQ_REMOVE(&s->posted.queue[n], p, WeftPosted, next);
                s->posted.count[n]--;
                g_free(p);
            }
        }
    }
    weft_posted_arm(s);
}

static void weft_posted_reset(WeftPort *s)
{
    for (unsigned slot = 0; slot < s->slots; slot++) {
        weft_posted_drop(s, slot);
    }
}

static void weft_posted_init(WeftPort *s)
{
    for (unsigned n = 0; n < WEFT_MAX_DMA; n++) {
        QSIMPLEQ_INIT(&s->posted.queue[n]);
    }
    s->posted.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_posted_timer, s);
}

static void weft_posted_exit(WeftPort *s)
{
    weft_posted_reset(s);
    timer_free(s->posted.timer);
    s->posted.timer = NULL;
}

const WeftHooks weft_posted_hooks = {
    .init = weft_posted_init,
    .exit = weft_posted_exit,
    .reset = weft_posted_reset,
    .drop = weft_posted_drop,
    .post = weft_posted_add,
    .push = weft_posted_push,
    .prompt = weft_posted_prompt,
};
