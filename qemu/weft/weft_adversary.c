/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: adversarial mode, in which the port uses all the freedom that the
 * ordering rules of Documentation/hardware.rst leave.
 *
 * Here: stores through the write-combining alias. They are held per CPU and
 * aligned line, and leave in any order, in pieces of eight bytes, when it
 * pleases the port: at once, when it has no more room, after a while. A store
 * fence of that CPU makes all of them leave. Doorbells and interrupts are in
 * weft_late.c, what DMA channels write in weft_posted.c. What happens is drawn
 * from a generator with a seed.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "hw/core/cpu.h"
#include "system/qtest.h"
#include "system/tcg.h"
#include "weft_fab.h"
#include "weft_fence.h"
#include "weft_hook.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_slot.h"

#define WEFT_WORD               8
/* No store is held longer than this and one tick more. */
#define WEFT_HOLD_NS            (40 * SCALE_MS)
#define WEFT_TICK_NS            (8 * SCALE_MS)
/* One word in so many leaves at once; one in so many is followed by a pause. */
#define WEFT_ODDS_EARLY         8
#define WEFT_ODDS_PAUSE         16
#define WEFT_PAUSE_US           200

/* ---- chance ----------------------------------------------------------- */

/* splitmix64: every seed is a good one. */
uint32_t weft_adversary_below(WeftPort *s, uint32_t limit)
{
    uint64_t z = s->adversary.random += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % limit;
}

/* The neighbour is to have time to see what has arrived and what has not. */
static void weft_adversary_pause(WeftPort *s)
{
    if (!weft_adversary_below(s, WEFT_ODDS_PAUSE)) {
        g_usleep(weft_adversary_below(s, WEFT_PAUSE_US));
    }
}

static bool weft_adversary_idle(WeftPort *s)
{
    return s->adversary.on && weft_adversary_below(s, 2);
}

/* ---- leaving ---------------------------------------------------------- */

/*
 * What is held of an aligned word, in the largest aligned pieces there are:
 * a store of up to eight bytes that is aligned arrives whole.
 */
static void weft_adversary_leave(WeftPort *s, WeftHeld *h, unsigned word)
{
    unsigned at = word * WEFT_WORD;
    unsigned mask = extract64(h->valid, at, WEFT_WORD);

    h->valid = deposit64(h->valid, at, WEFT_WORD, 0);
    while (mask) {
        unsigned first = ctz32(mask), size = WEFT_WORD;

        while (first % size ||
               extract32(mask, first, size) != MAKE_64BIT_MASK(0, size)) {
            size /= 2;
        }
        weft_window_put(s, h->addr + at + first,
                        ldn_le_p(h->data + at + first, size), size);
        mask = deposit32(mask, first, size, 0);
    }
}

static void weft_adversary_leave_any(WeftPort *s, WeftHeld *h)
{
    unsigned words[WEFT_WC_LINE / WEFT_WORD], count = 0;

    for (unsigned n = 0; n < ARRAY_SIZE(words); n++) {
        if (extract64(h->valid, n * WEFT_WORD, WEFT_WORD)) {
            words[count++] = n;
        }
    }
    weft_adversary_leave(s, h, words[weft_adversary_below(s, count)]);
    weft_adversary_pause(s);
}

/* Any line of those that are held; NULL: there is none. */
static WeftHeld *weft_adversary_any(WeftPort *s, const CPUState *cpu,
                                    FenceOf of)
{
    WeftHeld *found[WEFT_WC_LINES];
    unsigned count = 0;

    for (unsigned n = 0; n < WEFT_WC_LINES; n++) {
        WeftHeld *h = &s->adversary.held[n];

        if (h->valid && weft_fence_is_for(h->cpu, cpu, of)) {
            found[count++] = h;
        }
    }
    return count ? found[weft_adversary_below(s, count)] : NULL;
}

static void weft_adversary_drain(WeftPort *s, const CPUState *cpu, FenceOf of)
{
    WeftHeld *h;

    while ((h = weft_adversary_any(s, cpu, of))) {
        weft_adversary_leave_any(s, h);
    }
}

static void weft_adversary_tick(void *opaque)
{
    WeftPort *s = opaque;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    WeftHeld *h = weft_adversary_any(s, NULL, FENCE_OF_ALL);

    if (h) {
        weft_adversary_leave_any(s, h);
    }
    for (unsigned n = 0; n < WEFT_WC_LINES; n++) {
        h = &s->adversary.held[n];
        while (h->valid && now - h->since >= WEFT_HOLD_NS) {
            weft_adversary_leave_any(s, h);
        }
    }
    if (weft_adversary_any(s, NULL, FENCE_OF_ALL)) {
        timer_mod(s->adversary.timer,
                  now + 1 + weft_adversary_below(s, WEFT_TICK_NS));
    }
}

/* ---- what a CPU does -------------------------------------------------- */

static WeftHeld *weft_adversary_line(WeftPort *s, hwaddr addr)
{
    WeftHeld *room = NULL;

    for (unsigned n = 0; n < WEFT_WC_LINES; n++) {
        WeftHeld *h = &s->adversary.held[n];

        if (!h->valid) {
            room = h;
        } else if (h->cpu == current_cpu && h->addr == addr) {
            return h;
        }
    }
    if (!room) {
        room = weft_adversary_any(s, NULL, FENCE_OF_ALL);
        while (room->valid) {
            weft_adversary_leave_any(s, room);
        }
    }
    room->cpu = current_cpu;
    room->addr = addr;
    room->since = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    if (!timer_pending(s->adversary.timer)) {
        timer_mod(s->adversary.timer,
                  room->since + 1 + weft_adversary_below(s, WEFT_TICK_NS));
    }
    return room;
}

/*
 * Takes a store through the write-combining alias. False: it is not for this
 * file.
 */
static bool weft_adversary_store(WeftPort *s, const WeftAccess *a)
{
    WeftHeld *h = NULL;
    unsigned at = 0;

    if (!a->combining || !s->adversary.on) {
        return false;
    }
    for (unsigned n = 0; n < a->size; n++) {
        at = (a->addr + n) % WEFT_WC_LINE;
        if (!h || !at) {
            h = weft_adversary_line(s, a->addr + n - at);
        }
        h->data[at] = a->val >> 8 * n;
        h->valid |= BIT_ULL(at);
    }
    if (!weft_adversary_below(s, WEFT_ODDS_EARLY)) {
        if (weft_adversary_below(s, 2)) {
            h = weft_adversary_any(s, NULL, FENCE_OF_ALL);
            weft_adversary_leave_any(s, h);
        } else {
            /* The youngest overtakes all that are older. */
            weft_adversary_leave(s, h, at / WEFT_WORD);
            weft_adversary_pause(s);
        }
    }
    return true;
}

/* A load is behind all stores of its CPU. */
static void weft_adversary_load(WeftPort *s)
{
    weft_adversary_drain(s, current_cpu, FENCE_OF_CPU);
}

/* What is held for slot @n is lost, as on a dead link. */
static void weft_adversary_drop(WeftPort *s, unsigned n)
{
    for (unsigned i = 0; i < WEFT_WC_LINES; i++) {
        WeftHeld *h = &s->adversary.held[i];

        if ((h->addr & (s->wc_offset - 1)) >> s->slot_shift == n) {
            h->valid = 0;
        }
    }
}

/* ---- life ------------------------------------------------------------- */

static bool weft_adversary_traps(WeftPort *s, int via)
{
    return s->adversary.on;
}

/* By property or by the fabric's setting, whichever says so. */
static void weft_adversary_set(WeftPort *s)
{
    bool asked = s->ep->fab.adversarial, on = s->adversary.always || asked;

    if (on && !tcg_enabled() && !qtest_enabled()) {
        weft_fab_complain(s, "adversarial mode needs -accel tcg: with another "
                          "one the fences of the guest are not seen");
        return;
    }
    if (on) {
        s->adversary.random = asked ? s->ep->fab.seed + s->number :
                              s->adversary.seed;
    }
    if (on == s->adversary.on) {
        return;
    }
    if (!on) {
        weft_adversary_drain(s, NULL, FENCE_OF_ALL);
        timer_del(s->adversary.timer);
    }
    s->adversary.on = on;
    weft_fence_listen(s);
    if (!on) {
        weft_hook_prompt(s);
    }
    weft_slots_update(s);
}

/* Whether the fabric wants the endpoint adversarial. */
void weft_adversary_wanted(WeftPort *ep, bool adversarial, uint64_t seed)
{
    ep->fab.adversarial = adversarial;
    ep->fab.seed = seed;
    for (WeftPort *f = NULL; (f = weft_function_next(ep, f)); ) {
        weft_adversary_set(f);
    }
}

bool weft_adversary_message(WeftPort *ep, const struct weft_fab_msg *m,
                            int *fds, Error **errp)
{
    weft_adversary_wanted(ep, m->arg[0] & 1, m->arg[1]);
    return true;
}

static void weft_adversary_reset(WeftPort *s)
{
    for (unsigned n = 0; n < s->slots; n++) {
        weft_adversary_drop(s, n);
    }
}

bool weft_adversary_check(WeftPort *s, Error **errp)
{
    if (s->adversary.always && !tcg_enabled() && !qtest_enabled()) {
        error_setg(errp, "weft-port: adversarial=on needs -accel tcg: with "
                   "another one the fences of the guest are not seen");
        return false;
    }
    return true;
}

static void weft_adversary_init(WeftPort *s)
{
    s->adversary.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, weft_adversary_tick,
                                      s);
}

static void weft_adversary_exit(WeftPort *s)
{
    s->adversary.on = false;
    timer_free(s->adversary.timer);
    s->adversary.timer = NULL;
}

const WeftHooks weft_adversary_hooks = {
    .init = weft_adversary_init,
    .exit = weft_adversary_exit,
    .reset = weft_adversary_reset,
    .moved = weft_adversary_set,
    .fence = weft_adversary_drain,
    .drain = weft_adversary_load,
    .store = weft_adversary_store,
    .traps = weft_adversary_traps,
    .drop = weft_adversary_drop,
    .idle = weft_adversary_idle,
};
