/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: how much a VF may do in a time.
 *
 * A rate is a bucket, which fills with it and has room for what comes in a
 * millisecond, or for a least amount. Something is begun if it is not empty,
 * and taken out as a whole: what is missing then has to come before anything
 * else is begun. The PF keeps the buckets, so that no reset of the VF fills
 * them. What is done and in which time depends on the guest's clock alone.
 */
#include "qemu/osdep.h"
#include "weft_port.h"
#include "weft_vf.h"

#define WEFT_RATE_ROOM_NS       SCALE_MS
#define WEFT_RATE_LEAST_DMA     WEFT_DMA_QUANTUM
#define WEFT_RATE_LEAST_RINGS   16

static uint64_t weft_rate_of(const WeftPort *s, unsigned what)
{
    return what == WEFT_RATE_DMA ? s->quota->rate : s->quota->rings;
}

/* The time that @amount takes. */
static int64_t weft_rate_time(uint64_t rate, uint64_t amount)
{
    uint64_t ns = amount * NANOSECONDS_PER_SECOND;

    return ns / rate + (ns % rate != 0);
}

static int64_t weft_rate_room(uint64_t rate, unsigned what)
{
    unsigned least = what == WEFT_RATE_DMA ? WEFT_RATE_LEAST_DMA :
                                             WEFT_RATE_LEAST_RINGS;

    return MAX(WEFT_RATE_ROOM_NS, weft_rate_time(rate, least));
}

/* 0: something may be begun now; or else the time from which on it may. */
int64_t weft_rate_opens(WeftPort *s, unsigned what)
{
    uint64_t rate = weft_rate_of(s, what);
    int64_t opens;

    if (!rate) {
        return 0;
    }
    opens = weft_vf_of(s)->bucket[what].paid - weft_rate_room(rate, what);
    return opens < qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) ? 0 : opens + 1;
}

/* At most 64 KiB at once. */
void weft_rate_take(WeftPort *s, unsigned what, unsigned amount)
{
    uint64_t rate = weft_rate_of(s, what);
    WeftBucket *bucket;

    if (rate) {
        bucket = &weft_vf_of(s)->bucket[what];
        bucket->paid = MAX(bucket->paid,
                           qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL)) +
                       weft_rate_time(rate, amount);
    }
}

void weft_rate_count(WeftPort *s, unsigned what, uint64_t amount)
{
    WeftVf *vf = weft_vf_of(s);

    if (vf) {
        vf->bucket[what].count += amount;
    }
}

/* Another rate begins with a bucket that is empty, and without debts. */
void weft_rate_latched(WeftPort *s, const WeftQuota *old)
{
    WeftVf *vf = weft_vf_of(s);
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    if (s->quota->rate != old->rate) {
        vf->bucket[WEFT_RATE_DMA].paid =
            now + (s->quota->rate ?
                   weft_rate_room(s->quota->rate, WEFT_RATE_DMA) : 0);
    }
    if (s->quota->rings != old->rings) {
        vf->bucket[WEFT_RATE_RING].paid =
            now + (s->quota->rings ?
                   weft_rate_room(s->quota->rings, WEFT_RATE_RING) : 0);
    }
}
