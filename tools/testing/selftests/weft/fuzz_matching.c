// SPDX-License-Identifier: GPL-2.0
/*
 * What a fuzzer asks of matching interfaces: two of them have messages for each other, and what
 * stands in their rings is more or less right.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz_calls.h"

struct end {
	struct fz_file *file;
	struct weft_match_open at;
	uint8_t *map;			/* NULL: there is none */
	uint64_t produced[2];		/* slots of its lists, and of its messages */
	uint64_t seen;			/* the number of a message that it has to pull; 0: none */
};

void fz_match(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	(void)f;
	a->match.flags = (fz_once_in(r, 4) ? WEFT_MATCH_ANY : 0) |
			 (fz_once_in(r, 2) ? WEFT_MATCH_HANDS_OVER : 0);
	a->match.entries = 1 + fz_below(r, 256);
	a->match.commands = 2u << fz_below(r, 5);
	a->match.events = 4u << fz_below(r, 5);
	a->match.traffic_class = fz_below(r, 4);
}

static void begin(struct fz_thread *t, struct end *end, unsigned int port)
{
	union fz_arg a = { 0 };

	end->file = fz_any_file(t);
	fz_open(end->file, port, O_RDWR | O_NONBLOCK);
	fz_match(t, end->file, &a);
	if (fz_do(t, end->file, WEFT_MATCH_OPEN, &a))
		return;
	end->at = a.match;
	/* Another thread may have closed it, or made it something else. */
	end->map = mmap(NULL, end->at.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			fz_fd(end->file), 0);
	if (end->map == MAP_FAILED)
		end->map = NULL;
}

static volatile uint64_t *word(struct end *end, uint32_t at)
{
	return (volatile uint64_t *)(end->map + at);
}

/* What stands behind some commands of the ring of messages. */
static struct weft_match_more more(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	struct weft_match_more m = {
		.offset = fz_below(r, 64) & ~7u,
		.result = (uintptr_t)t->shared->mem + fz_below(r, FZ_MEM - WEFT_MATCH_MAX_ATOMIC),
		.compare = (uintptr_t)t->shared->mem + fz_below(r, FZ_MEM - WEFT_MATCH_MAX_ATOMIC),
		.operation = 1 + fz_below(r, WEFT_MATCH_SWAP_MASKED),
		.integer = (1 << fz_below(r, 4)) | (fz_once_in(r, 2) ? WEFT_MATCH_SIGNED : 0),
	};

	if (fz_once_in(r, 16))
		((uint64_t *)&m)[fz_below(r, sizeof(m) / 8)] = fz_number(r);
	return m;
}

/* A command that could be meant, mostly. */
static struct weft_match_command command(struct fz_thread *t, const struct end *end,
					 const struct end *peer, bool sends)
{
	struct fz_rng *r = &t->rng;
	uint32_t at = fz_below(r, FZ_MEM);
	struct weft_match_command c = {
		.op = sends ? WEFT_MATCH_PUT + fz_below(r, 4) :
			      1 + fz_below(r, WEFT_MATCH_PULL),
		.flags = fz_next(r) & (fz_once_in(r, 4) ? 0xfff : 0x37f),
		.min_free = fz_below(r, 2 * WEFT_MATCH_EAGER),
		.context = fz_below(r, 16),
		.address = (uintptr_t)t->shared->mem + at,
		.length = fz_below(r, fz_once_in(r, 4) ? FZ_MEM - at : 128),
		.bits = fz_below(r, 4),
		.ignore = fz_once_in(r, 2) ? fz_below(r, 4) : ~0ULL,
		.hwid = peer->at.hwid,
		.endpoint = peer->at.endpoint,
		.generation = sends ? peer->at.generation : 0,
	};

	/* Whole integers. */
	if (c.op >= WEFT_MATCH_ATOMIC && !fz_once_in(r, 8))
		c.length = (1 + fz_below(r, 8)) * 8;
	/* Otherwise hardly any would be matched. */
	if (!sends && fz_once_in(r, 2))
		c.op = fz_once_in(r, 4) ? WEFT_MATCH_ENABLE : WEFT_MATCH_APPEND;
	/* As a header is: all of its bytes, or none. */
	if (c.op == WEFT_MATCH_APPEND_HEADER && !fz_once_in(r, 8)) {
		c.flags &= ~WEFT_MATCH_ANY_SOURCE;
		c.length %= WEFT_MATCH_EAGER;
		c.min_free = fz_once_in(r, 2) ? c.length : 0;
	}
	if (c.op == WEFT_MATCH_REPORT && !fz_once_in(r, 8))
		c.length = fz_below(r, 4);
	/* Of a message that it was told of, perhaps. */
	if (c.op == WEFT_MATCH_PULL && end->seen && !fz_once_in(r, 8))
		c.ignore = end->seen;
	if (fz_once_in(r, 8))
		((uint64_t *)&c)[fz_below(r, sizeof(c) / 8)] = fz_number(r);
	return c;
}

/* Some slots of one of its rings, for what its peer has. */
static void produce(struct fz_thread *t, struct end *end, const struct end *peer)
{
	struct fz_rng *r = &t->rng;
	bool sends = fz_once_in(r, 2);
	uint8_t *slots = end->map + (sends ? end->at.initiator_at : end->at.target_at);
	uint64_t *produced = &end->produced[sends];

	for (uint32_t n = 1 + fz_below(r, 8); n; n--) {
		struct weft_match_command c = command(t, end, peer, sends);

		memcpy(slots + *produced % end->at.commands * sizeof(c), &c, sizeof(c));
		++*produced;
		if (sends && (c.op != WEFT_MATCH_PUT || c.flags & WEFT_MATCH_AT_OFFSET)) {
			struct weft_match_more m = more(t);

			memcpy(slots + *produced % end->at.commands * sizeof(m), &m, sizeof(m));
			++*produced;
		}
	}
	*word(end, sends ? WEFT_MATCH_INITIATOR_PRODUCED_AT : WEFT_MATCH_TARGET_PRODUCED_AT) =
		fz_once_in(r, 32) ? fz_number(r) : *produced;
}

/* Makes room for events, mostly. */
static void consume(struct fz_thread *t, struct end *end)
{
	struct fz_rng *r = &t->rng;
	uint64_t number = fz_number(r);
	bool is_right = !fz_once_in(r, 32);

	for (uint32_t n = 0; n < end->at.events; n++) {
		struct weft_match_event e;

		memcpy(&e, end->map + end->at.events_at + n * sizeof(e), sizeof(e));
		if (e.kind == WEFT_MATCH_HEADER && e.stored < e.length)
			end->seen = e.address;
	}
	*word(end, WEFT_MATCH_EVENTS_CONSUMED_AT) =
		is_right ? *word(end, WEFT_MATCH_EVENTS_PRODUCED_AT) : number;
}

static void exchange(struct fz_thread *t, void *arg)
{
	struct fz_rng *r = &t->rng;
	struct end *ends = arg;

	for (uint32_t n = 4 + fz_below(r, 32); n; n--) {
		struct end *end = &ends[fz_below(r, 2)];
		union fz_arg a = { 0 };

		if (!end->map)
			continue;
		if (!fz_once_in(r, 4))
			produce(t, end, &ends[end == &ends[0]]);
		if (!fz_once_in(r, 4))
			consume(t, end);
		fz_do(t, end->file, WEFT_MATCH_KICK, &a);
	}
}

void fz_exchange(struct fz_thread *t)
{
	unsigned int port = fz_below(&t->rng, 2);
	struct end ends[2] = { 0 };

	begin(t, &ends[0], port);
	begin(t, &ends[1], fz_once_in(&t->rng, 4) ? port : !port);
	fz_touch(t, exchange, ends);
	for (int i = 0; i < 2; i++)
		if (ends[i].map)
			munmap(ends[i].map, ends[i].at.bytes);
}
