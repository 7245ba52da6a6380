// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of tests: integers in a region of a target that its sources change, by each operation on
 * each type, many at once, and several sources at once.
 */
#include <unistd.h>

#include "fit.h"

static size_t width_of(enum fi_datatype type)
{
	return 1 << type / 2;
}

/* An integer of a type, from its lower bits. */
static uint64_t extended(enum fi_datatype type, uint64_t word)
{
	unsigned int spare = 64 - 8 * width_of(type);

	/* Those with a sign are before those without. */
	if (type % 2)
		return word << spare >> spare;
	return (int64_t)(word << spare) >> spare;
}

static bool is_less(enum fi_datatype type, uint64_t a, uint64_t b)
{
	return type % 2 ? a < b : (int64_t)a < (int64_t)b;
}

/* What an integer becomes: as libfabric says, and not as the driver computes it. */
static uint64_t becomes(enum fi_datatype type, enum fi_op op, uint64_t mem, uint64_t with,
			uint64_t cmp)
{
	bool less, greater;

	mem = extended(type, mem);
	with = extended(type, with);
	cmp = extended(type, cmp);
	less = is_less(type, cmp, mem);
	greater = is_less(type, mem, cmp);
	switch (op) {
	case FI_MIN:
		return is_less(type, with, mem) ? with : mem;
	case FI_MAX:
		return is_less(type, mem, with) ? with : mem;
	case FI_SUM:
		return mem + with;
	case FI_PROD:
		return mem * with;
	case FI_DIFF:
		return mem - with;
	case FI_LOR:
		return mem || with;
	case FI_LAND:
		return mem && with;
	case FI_LXOR:
		return !mem != !with;
	case FI_BOR:
		return mem | with;
	case FI_BAND:
		return mem & with;
	case FI_BXOR:
		return mem ^ with;
	case FI_ATOMIC_READ:
		return mem;
	case FI_ATOMIC_WRITE:
		return with;
	case FI_CSWAP:
		return cmp == mem ? with : mem;
	case FI_CSWAP_NE:
		return cmp != mem ? with : mem;
	case FI_CSWAP_LE:
		return greater ? mem : with;
	case FI_CSWAP_LT:
		return less ? with : mem;
	case FI_CSWAP_GE:
		return less ? mem : with;
	case FI_CSWAP_GT:
		return greater ? with : mem;
	case FI_MSWAP:
		return (with & cmp) | (mem & ~cmp);
	default:
		return 0;
	}
}

static uint64_t cut(uint64_t word, size_t width)
{
	return width == 8 ? word : word & (BIT_ULL(8 * width) - 1);
}

static void put(uint8_t *at, size_t i, size_t width, uint64_t word)
{
	memcpy(at + i * width, &word, width);
}

static uint64_t get(const uint8_t *at, size_t i, size_t width)
{
	uint64_t word = 0;

	memcpy(&word, at + i * width, width);
	return word;
}

void atomic(struct fit *f, fi_addr_t *sources)
{
	uint8_t *at = memory(4096);
	struct fid_mr *mr = region(f, at, 4096, ALL, KEY);

	go(f, sources[0]);
	wait_go(f, sources[0]);
	closed(mr);
	free(at);
}

/* Integers that are small, large, equal, and negative as those with a sign. */
static const uint64_t words[] = {
	0, 1, 2, 0x7f, 0x80, 0xff, 0x7fffffff, ~0ULL, 0x8000000000000001,
};

#define WORDS	ARRAY_SIZE(words)

/* One operation on @count integers, whatever its kind is; what there was is in @was. */
static void operate(struct fit *f, fi_addr_t target, enum fi_datatype type, enum fi_op op,
		    uint8_t **bufs, size_t count, bool fetches)
{
	bool compares = op >= FI_CSWAP && op <= FI_MSWAP;
	uint64_t flags = FI_ATOMIC | FI_READ;
	struct done d;
	int c;

	if (compares) {
		POST(f, fi_compare_atomic(f->ep, bufs[1], count, NULL, bufs[2], NULL, bufs[3], NULL,
					  target, 64, KEY, type, op, &c));
	} else if (fetches) {
		POST(f, fi_fetch_atomic(f->ep, bufs[1], count, NULL, bufs[3], NULL, target, 64, KEY,
					type, op, &c));
	} else {
		flags = FI_ATOMIC | FI_WRITE;
		POST(f, fi_atomic(f->ep, bufs[1], count, NULL, target, 64, KEY, type, op, &c));
	}
	d = succeeded(f, &c);
	CHECK(d.entry.flags == flags);
}

static void try_operation(struct fit *f, fi_addr_t target, enum fi_datatype type, enum fi_op op,
			  uint8_t **bufs, size_t count, bool fetches)
{
	bool told = fetches || (op >= FI_CSWAP && op <= FI_MSWAP);
	size_t i, width = width_of(type);
	uint8_t *back = bufs[4];
	int c;

	for (i = 0; i < count; i++) {
		put(bufs[0], i, width, words[i % WORDS]);
		put(bufs[1], i, width, words[i / WORDS % WORDS]);
		put(bufs[2], i, width, words[(i + i / WORDS) % WORDS]);
	}
	memset(bufs[3], 0xcc, count * width);
	POST(f, fi_write(f->ep, bufs[0], count * width, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	operate(f, target, type, op, bufs, count, fetches);
	POST(f, fi_read(f->ep, back, count * width, NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	for (i = 0; i < count; i++) {
		uint64_t mem = get(bufs[0], i, width), with = get(bufs[1], i, width);
		uint64_t want = becomes(type, op, mem, with, get(bufs[2], i, width));

		if (get(back, i, width) != cut(want, width)) {
			fprintf(stderr, "type %d, operation %d, integer %zu: %#lx, not %#lx\n",
				type, op, i, get(back, i, width), cut(want, width));
			exit(1);
		}
		CHECK(!told || get(bufs[3], i, width) == mem);
	}
}

static void not_so(struct fit *f, fi_addr_t target, uint8_t **bufs)
{
	struct fi_atomic_attr attr;
	size_t count;
	int c;

	CHECK(fi_atomicvalid(f->ep, FI_DOUBLE, FI_SUM, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(f->ep, FI_UINT64, FI_CSWAP, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(f->ep, FI_UINT64, FI_ATOMIC_READ, &count) == -FI_EOPNOTSUPP);
	OK(fi_fetch_atomicvalid(f->ep, FI_INT32, FI_ATOMIC_READ, &count));
	CHECK(count == 512);
	OK(fi_query_atomic(f->domain, FI_INT16, FI_MSWAP, &attr, FI_COMPARE_ATOMIC));
	CHECK(attr.count == 1024 && attr.size == 2);
	CHECK(fi_atomic(f->ep, bufs[1], 1, NULL, target, 64, KEY, FI_DOUBLE, FI_SUM, &c) ==
	      -FI_EOPNOTSUPP);
	CHECK(fi_atomic(f->ep, bufs[1], 0, NULL, target, 64, KEY, FI_INT8, FI_SUM, &c) ==
	      -FI_EINVAL);
	CHECK(fi_atomic(f->ep, bufs[1], 257, NULL, target, 64, KEY, FI_INT64, FI_SUM, &c) ==
	      -FI_EMSGSIZE);
	/* Not at a multiple of the width; beyond the region: nothing is changed there. */
	POST(f, fi_atomic(f->ep, bufs[1], 1, NULL, target, 66, KEY, FI_INT32, FI_SUM, &c));
	CHECK(failed(f, &c) == FI_EINVAL);
	POST(f, fi_atomic(f->ep, bufs[1], 2, NULL, target, 4096 - 8, KEY, FI_INT64, FI_SUM, &c));
	CHECK(failed(f, &c) == FI_EACCES);
	POST(f, fi_atomic(f->ep, bufs[1], 1, NULL, target, 64, KEY + 1, FI_INT64, FI_SUM, &c));
	CHECK(failed(f, &c) == FI_ENOKEY);
}

/* Integers in pieces, by messages. */
static void counted_in_pieces(struct fit *f, fi_addr_t target)
{
	uint64_t values[3] = { 10, 20, 30 }, was[3] = { 0 }, start[3] = { 1, 2, 3 };
	struct fi_ioc out[2] = {
		{ .addr = values, .count = 1 }, { .addr = values + 1, .count = 2 },
	};
	struct fi_ioc in[2] = { { .addr = was, .count = 2 }, { .addr = was + 2, .count = 1 } };
	struct fi_rma_ioc place = { .addr = 64, .count = 3, .key = KEY };
	struct fi_msg_atomic msg = {
		.msg_iov = out, .iov_count = 2, .addr = target, .rma_iov = &place,
		.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
	};
	int c;

	msg.context = &c;
	POST(f, fi_write(f->ep, start, sizeof(start), NULL, target, 64, KEY, &c));
	succeeded(f, &c);
	POST(f, fi_fetch_atomicmsg(f->ep, &msg, in, NULL, 2, FI_COMPLETION));
	succeeded(f, &c);
	CHECK(was[0] == 1 && was[1] == 2 && was[2] == 3);
	POST(f, fi_atomicmsg(f->ep, &msg, FI_INJECT | FI_COMPLETION));
	succeeded(f, &c);
	msg.op = FI_ATOMIC_READ;
	msg.msg_iov = NULL;
	msg.iov_count = 0;
	POST(f, fi_fetch_atomicmsg(f->ep, &msg, in, NULL, 2, FI_COMPLETION));
	succeeded(f, &c);
	CHECK(was[0] == 21 && was[1] == 42 && was[2] == 63);
	place.count = 2;
	CHECK(fi_fetch_atomicmsg(f->ep, &msg, in, NULL, 2, 0) == -FI_EINVAL);
}

void to_atomic(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint8_t *bufs[5];
	size_t most;
	int type, op;

	(void)n;
	for (op = 0; op < 5; op++)
		bufs[op] = memory(2048);
	wait_go(f, target);
	for (type = FI_INT8; type <= FI_UINT64; type++) {
		for (op = FI_MIN; op <= FI_DIFF; op++) {
			bool compares = op >= FI_CSWAP && op <= FI_MSWAP;

			if (!compares && op != FI_ATOMIC_READ) {
				OK(fi_atomicvalid(f->ep, type, op, &most));
				CHECK(most == 2048 / width_of(type));
				/* In the ring, and as many as there can be. */
				try_operation(f, target, type, op, bufs, 3, false);
				try_operation(f, target, type, op, bufs, most, false);
			}
			if (compares)
				OK(fi_compare_atomicvalid(f->ep, type, op, &most));
			else
				OK(fi_fetch_atomicvalid(f->ep, type, op, &most));
			try_operation(f, target, type, op, bufs, 3, true);
			try_operation(f, target, type, op, bufs, most, true);
		}
	}
	counted_in_pieces(f, target);
	not_so(f, target, bufs);
	go(f, target);
	for (op = 0; op < 5; op++)
		free(bufs[op]);
}

#define ADDS	500

void contend(struct fit *f, fi_addr_t *sources)
{
	uint64_t *at = calloc(2, sizeof(*at));
	struct fid_mr *mr = region(f, at, 2 * sizeof(*at), ALL, KEY);
	unsigned int i, own = 0;

	go(f, sources[0]);
	go(f, sources[1]);
	/* Meanwhile this program adds as well, with time in between for those that compare. */
	while (__atomic_load_n(&at[1], __ATOMIC_ACQUIRE) != 2) {
		for (i = 0; i < 100; i++)
			__atomic_fetch_add(&at[0], 1, __ATOMIC_RELAXED);
		own += 100;
		progress(f);
		usleep(200);
	}
	CHECK(at[0] == own + 2 * 2 * ADDS);
	wait_go(f, sources[0]);
	wait_go(f, sources[1]);
	closed(mr);
	free(at);
}

void to_contend(struct fit *f, fi_addr_t target, unsigned int n)
{
	uint64_t one = 1, was, last = 0, next;
	unsigned int i;
	int c;

	(void)n;
	wait_go(f, target);
	for (i = 0; i < ADDS; i++) {
		POST(f, fi_fetch_atomic(f->ep, &one, 1, NULL, &was, NULL, target, 0, KEY, FI_UINT64,
					FI_SUM, &c));
		succeeded(f, &c);
		CHECK(!i || was > last);
		/* What it is now, unless another was faster: by comparing as well. */
		last = was + 1;
		next = last + 1;
		POST(f, fi_compare_atomic(f->ep, &next, 1, NULL, &last, NULL, &was, NULL, target, 0,
					  KEY, FI_UINT64, FI_CSWAP, &c));
		succeeded(f, &c);
		CHECK(was >= last);
		if (was == last)
			continue;
		POST(f, fi_atomic(f->ep, &one, 1, NULL, target, 0, KEY, FI_UINT64, FI_SUM, &c));
		succeeded(f, &c);
	}
	POST(f, fi_atomic(f->ep, &one, 1, NULL, target, 8, KEY, FI_UINT64, FI_SUM, &c));
	succeeded(f, &c);
	go(f, target);
}
