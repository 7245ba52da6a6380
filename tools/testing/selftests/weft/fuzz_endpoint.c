// SPDX-License-Identifier: GPL-2.0
/*
 * What a fuzzer asks of functions of shared endpoints: to work, mostly.
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "fuzz_calls.h"

static_assert(WEFT_EP_MAX_BATCH * sizeof(struct weft_ep_work) <= FZ_LIST, "a list has room");

void fz_ep_open(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	const struct fz_machine *m = t->shared->machine;
	struct fz_rng *r = &t->rng;

	(void)f;
	if (m->given_count) {
		const struct fm_ve *ve = &m->given[fz_below(r, m->given_count)];

		a->open.endpoint = ve->endpoint;
		a->open.ve = ve->ve;
		a->open.function = ve->functions ? fz_below(r, ve->functions) : 0;
	}
	a->open.flags = fz_below(r, 8);
	a->open.entries = 1u << fz_below(r, fz_once_in(r, 4) ? 11 : 6);
}

void fz_ep_area(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	(void)f;
	a->area.flags = fz_once_in(r, 4) ? 1 + fz_below(r, 3) : 3;
	a->area.bytes = 1 + fz_below(r, fz_once_in(r, 16) ? WEFT_EP_MAX_AREA : 4 * WT_PAGE);
}

void fz_ep_free(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	a->free.area = fz_any(t, f, FZ_AREA).handle;
}

/* A part of an area. */
static struct weft_ep_segment part(struct fz_thread *t, const struct fz_object *area)
{
	uint32_t offset = area->bytes ? fz_below(&t->rng, area->bytes) : 0;
	uint64_t rest = area->bytes - offset;

	/* All of a large one would take too long. */
	if (rest > 2 * WT_PAGE)
		rest = 2 * WT_PAGE;
	return (struct weft_ep_segment){
		.area = area->handle, .offset = offset,
		.bytes = rest ? 1 + fz_below(&t->rng, rest) : 1,
	};
}

static struct weft_ep_work work(struct fz_thread *t, struct fz_file *f)
{
	struct fz_rng *r = &t->rng;
	struct weft_ep_work w = { .cookie = fz_next(r), .op = fz_below(r, 4) };
	uint32_t bytes = 0;

	if (w.op != WEFT_EP_OP_NOP)
		w.sources = 1 + fz_below(r, 3);
	if (w.op == WEFT_EP_OP_COPY || w.op == WEFT_EP_OP_COPY_CRC32C)
		w.dests = 1;
	for (int n = 0; n < w.sources + w.dests; n++) {
		struct fz_object area = fz_any(t, f, FZ_AREA);

		w.segment[n] = part(t, &area);
		if (n < w.sources)
			bytes += w.segment[n].bytes;
		/* Where it is written there is as much room as is read. */
		else if (area.bytes >= bytes)
			w.segment[n] = (struct weft_ep_segment){ area.handle, bytes, 0 };
	}
	if (fz_once_in(r, 64))
		((uint8_t *)&w)[fz_below(r, sizeof(w))] = fz_next(r);
	return w;
}

void fz_ep_submit(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct weft_ep_work *list = (void *)t->list;
	uint32_t count = 1 + fz_below(&t->rng, fz_once_in(&t->rng, 4) ? WEFT_EP_MAX_BATCH : 4);

	for (uint32_t n = 0; n < count; n++)
		list[n] = work(t, f);
	a->submit.work = (uintptr_t)list;
	a->submit.count = count;
}

void fz_ep_reap(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->reap.done = (uintptr_t)t->list;
	a->reap.count = 1 + fz_below(&t->rng, WEFT_EP_MAX_BATCH);
	a->reap.timeout_ms = fz_below(&t->rng, 20);
}

/* A function is opened, gets areas, and works. It stays open, for others to play with. */
void fz_work(struct fz_thread *t)
{
	const struct fz_machine *m = t->shared->machine;
	struct fz_rng *r = &t->rng;
	struct fz_file *f = fz_user(t);
	union fz_arg a;
	long opened;

	if (!m->given_count)
		return;
	fz_open(f, m->given[0].port, O_RDWR);
	memset(&a, 0, sizeof(a));
	fz_ep_open(t, f, &a);
	fz_calm(true);
	opened = fz_do(t, f, WEFT_EP_OPEN, &a);
	fz_calm(false);
	if (opened)
		return;
	for (uint32_t n = fz_below(r, FZ_KEPT) + 1; n; n--)
		fz_make(t, f, FZ_AREA, n - 1);
	for (uint32_t n = fz_below(r, 8) + 1; n; n--) {
		memset(&a, 0, sizeof(a));
		fz_ep_submit(t, f, &a);
		fz_do(t, f, WEFT_EP_SUBMIT, &a);
		memset(&a, 0, sizeof(a));
		fz_ep_reap(t, f, &a);
		fz_do(t, f, WEFT_EP_REAP, &a);
	}
	memset(&a, 0, sizeof(a));
	fz_do(t, f, WEFT_EP_QUERY, &a);
	memset(&a, 0, sizeof(a));
	fz_ep_free(t, f, &a);
	fz_do(t, f, WEFT_EP_FREE, &a);
}
