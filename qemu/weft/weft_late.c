/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: doorbells and interrupts that are late, in adversarial mode.
 *
 * A doorbell on its way to a neighbour, or an interrupt on its way to a CPU, is
 * a bit that becomes due after a while. The same bit again meanwhile is one
 * with it. Bits become due in any order.
 */
#include "qemu/osdep.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_hook.h"
#include "weft_mode.h"
#include "weft_port.h"

#define WEFT_LATE_NS            SCALE_MS
/* One in so many is not late at all. */
#define WEFT_ODDS_PROMPT        4

QEMU_BUILD_BUG_ON(WEFT_MAX_LINKS + WEFT_FAB_REMOTES > WEFT_LATE_EVENT);

static void weft_late_arm(WeftPort *s)
{
    int64_t first = INT64_MAX;

    for (unsigned i = 0; i < s->late.count; i++) {
        first = MIN(first, s->late.bit[i].due);
    }
    if (s->late.count) {
        timer_mod(s->late.timer, first);
    } else {
        timer_del(s->late.timer);
    }
}

static bool weft_late_has(WeftPort *s, unsigned what, unsigned function,
                          unsigned bit)
{
    for (unsigned i = 0; i < s->late.count; i++) {
        const WeftLate *l = &s->late.bit[i];

        if (l->what == what && l->function == function && l->bit == bit) {
            return true;
        }
    }
    return false;
}

static uint32_t weft_late_delay(WeftPort *s, unsigned what, unsigned function,
                                uint32_t bits)
{
    uint32_t now = 0;

    if (!s->adversary.on) {
        return bits;
    }
    for (; bits; bits &= bits - 1) {
        unsigned bit = ctz32(bits);

        if (weft_late_has(s, what, function, bit)) {
            continue;
        }
        if (s->late.count == WEFT_LATE_MAX ||
            !weft_adversary_below(s, WEFT_ODDS_PROMPT)) {
            now |= BIT(bit);
            continue;
        }
        s->late.bit[s->late.count++] = (WeftLate) {
            .due = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + 1 +
                   weft_adversary_below(s, WEFT_LATE_NS),
            .what = what, .function = function, .bit = bit,
        };
    }
    weft_late_arm(s);
    return now;
}

static void weft_late_act(WeftPort *s, const WeftLate *l)
{
    switch (l->what) {
    case WEFT_LATE_EVENT:
        weft_event_send(s, BIT(l->bit));
        break;
    case WEFT_LATE_DOORBELL:
        weft_doorbell_send(s, BIT(l->bit));
        break;
    case WEFT_LATE_DMA:
        weft_dma_send(s, BIT(l->bit));
        break;
    case WEFT_LATE_SELF:
        weft_doorbell_arrive(s, WEFT_VIA_SELF, 0, BIT(l->bit));
        break;
    default:
        weft_doorbell_arrive(s, l->what, l->function, BIT(l->bit));
    }
}

/* Takes the bits that are due until @until. */
static void weft_late_run(WeftPort *s, int64_t until)
{
    unsigned i = 0;

    while (i < s->late.count) {
        WeftLate l = s->late.bit[i];

        if (l.due > until) {
            i++;
            continue;
        }
        s->late.bit[i] = s->late.bit[--s->late.count];
        /* May add others, behind. */
        weft_late_act(s, &l);
    }
    weft_late_arm(s);
}

/* Doorbells that were on their way to @link are lost. */
static void weft_late_link_down(WeftPort *s, unsigned link)
{
    for (unsigned i = s->late.count; i > 0; i--) {
        if (s->late.bit[i - 1].what == link) {
            s->late.bit[i - 1] = s->late.bit[--s->late.count];
        }
    }
    weft_late_arm(s);
}

static void weft_late_timer(void *opaque)
{
    weft_late_run(opaque, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
}

/* The mode has ended. */
static void weft_late_prompt(WeftPort *s)
{
    weft_late_run(s, INT64_MAX);
}

static void weft_late_reset(WeftPort *s)
{
    s->late.count = 0;
    timer_del(s->late.timer);
}

static void weft_late_init(WeftPort *s)
{
    s->late.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_late_timer, s);
}

static void weft_late_exit(WeftPort *s)
{
    timer_free(s->late.timer);
    s->late.timer = NULL;
}

const WeftHooks weft_late_hooks = {
    .init = weft_late_init,
    .exit = weft_late_exit,
    .reset = weft_late_reset,
    .delay = weft_late_delay,
    .prompt = weft_late_prompt,
    .link_down = weft_late_link_down,
};
