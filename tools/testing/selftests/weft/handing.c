// SPDX-License-Identifier: GPL-2.0
/*
 * L-6: the lists of a matching interface are handed over to its program, which matches, and given
 * back. Ports 0 and 1, joined by link 0 of each; and port 0 alone, whose peer is itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "mi.h"
#include "weft_test.h"

#define MOST	1048576
#define SLAB	65536

FIXTURE(handing) {
	struct mi a, b;		/* of port 0, and of port 1, whose program takes its lists over */
	uint8_t *from, *to, *slab, *memory;
};

FIXTURE_VARIANT(handing) {
	bool loopback;
};

FIXTURE_VARIANT_ADD(handing, joined)
{
	.loopback = false,
};

FIXTURE_VARIANT_ADD(handing, within)
{
	.loopback = true,
};

static long open_b(struct mi *b, unsigned int entries)
{
	return mi_open_as(b, 1, (struct weft_match_open) {
		.flags = WEFT_MATCH_HANDS_OVER, .entries = entries, .commands = 64, .events = 256,
	});
}

FIXTURE_SETUP(handing)
{
	self->a.fd = -1;
	self->b.fd = -1;
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(20000));
	ASSERT_EQ(0, mi_open(&self->a, 0, 0));
	ASSERT_EQ(0, open_b(&self->b, 64));
	self->from = mmap(NULL, 4 * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	ASSERT_NE(MAP_FAILED, self->from);
	self->to = self->from + MOST;
	self->slab = self->to + MOST;
	self->memory = self->slab + MOST;
	ASSERT_EQ(0, enable(&self->b));
	command(&self->b, requests(self->memory, MOST, 900));
}

FIXTURE_TEARDOWN(handing)
{
	mi_close(&self->a);
	mi_close(&self->b);
	munmap(self->from, 4 * MOST);
}

/* A command without more than a number. */
static struct weft_match_command plain(uint8_t op, uint64_t length)
{
	return (struct weft_match_command) { .op = op, .length = length, .context = 77 };
}

static struct weft_match_command pull(const struct weft_match_event *e, void *to, size_t length,
				      uint64_t context)
{
	return (struct weft_match_command) {
		.op = WEFT_MATCH_PULL, .hwid = e->hwid, .endpoint = e->endpoint,
		.ignore = e->address, .address = (uintptr_t)to, .length = length,
		.bits = e->bits, .context = context,
	};
}

static struct weft_match_command give_back(const struct weft_match_event *e)
{
	return (struct weft_match_command) {
		.op = WEFT_MATCH_APPEND_HEADER, .flags = WEFT_MATCH_QUIET, .hwid = e->hwid,
		.endpoint = e->endpoint, .context = e->context, .address = e->address,
		.length = e->length, .min_free = e->stored, .bits = e->bits, .ignore = e->data,
	};
}

static uint64_t state(const struct weft_match_event *e)
{
	return e->kind == WEFT_MATCH_STATE ? e->data : 99;
}

/* Asks for the lists, of which there are none. */
static void take_over(struct __test_metadata *_metadata, struct mi *b)
{
	struct weft_match_event e;

	EXPECT_EQ(0, result(b, plain(WEFT_MATCH_HAND_OVER, 0)));
	e = next(b);
	ASSERT_EQ(WEFT_MATCH_ONLOAD, state(&e));
	e = next(b);
	ASSERT_EQ(WEFT_MATCH_SOFTWARE, state(&e));
}

/* All entries are handed over, each list in its order, as they are by then. */
TEST_F(handing, L_6_all_in_order)
{
	struct weft_match_command claim = {
		.op = WEFT_MATCH_CLAIM, .flags = WEFT_MATCH_ANY_SOURCE, .bits = 21, .context = 71,
	};
	static const unsigned int order[] = { 0, 2, 3, 1 };
	struct weft_match_command c;
	struct weft_match_event e;
	unsigned int i;

	/* Buffers: of a source; one that is used in part; one for gets. */
	c = buffer(self->to, 100, 10, 1);
	c.flags = WEFT_MATCH_QUIET | WEFT_MATCH_SILENT;
	c.hwid = self->a.at.hwid;
	c.endpoint = self->a.at.endpoint;
	command(&self->b, c);
	c = buffer(self->to + 1000, 500, 11, 2);
	c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_MANAGE_LOCAL;
	c.ignore = 0xf00;
	command(&self->b, c);
	c = region(self->to + 2000, 300, 12, 3);
	c.flags |= WEFT_MATCH_READ_ONLY;
	command(&self->b, c);
	command(&self->b, overflow(self->slab, SLAB, 4));
	put(&self->a, &self->b, message(self->from, 40, 0x50b, 0), true);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, next(&self->b).kind);
	/* Messages: a short one, a long one, one that is claimed, a short one. */
	fill(self->from, MOST, 6);
	for (i = 0; i < 4; i++)
		put(&self->a, &self->b,
		    message(self->from + i, i == 1 ? 100000 : 200, 20 + i % 3, i), false);
	/* The short ones are there; the long one came between them. */
	for (i = 0; i < 4; i++)
		EXPECT_EQ(WEFT_MATCH_SENT, next(&self->a).kind);
	command(&self->b, claim);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.status);
	command(&self->b, plain(WEFT_MATCH_HAND_OVER, 0));
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.status);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_ONLOAD, state(&e));
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_BUFFER, e.kind);
	EXPECT_EQ(1, e.context);
	EXPECT_EQ(WEFT_MATCH_SILENT, e.status);
	EXPECT_EQ(self->a.at.hwid, e.hwid);
	EXPECT_EQ(self->a.at.endpoint, e.endpoint);
	EXPECT_EQ(10, e.bits);
	EXPECT_EQ(100, e.length);
	EXPECT_EQ((uintptr_t)self->to, e.address);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_BUFFER, e.kind);
	EXPECT_EQ(2, e.context);
	EXPECT_EQ(WEFT_MATCH_ANY_SOURCE | WEFT_MATCH_PERSISTENT | WEFT_MATCH_MANAGE_LOCAL,
		  e.status);
	EXPECT_EQ(40, e.stored);
	EXPECT_EQ(0xf00, e.data);
	EXPECT_EQ(0, e.hwid);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_BUFFER, e.kind);
	EXPECT_EQ(3, e.context);
	EXPECT_EQ(WEFT_MATCH_ANY_SOURCE | WEFT_MATCH_PERSISTENT | WEFT_MATCH_READABLE |
		  WEFT_MATCH_READ_ONLY, e.status);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_BUFFER, e.kind);
	EXPECT_EQ(4, e.context);
	EXPECT_TRUE(e.status & WEFT_MATCH_OVERFLOW);
	EXPECT_EQ(600, e.stored);
	for (i = 0; i < 4; i++) {
		const unsigned int n = order[i];

		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_HEADER, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(n + 1000, e.data);
		EXPECT_EQ(20 + n % 3, e.bits);
		EXPECT_EQ(self->a.at.endpoint, e.endpoint);
		EXPECT_EQ(self->a.at.hwid, e.hwid);
		EXPECT_EQ(n == 1 ? WEFT_MATCH_CLAIMED : 0, e.flags);
		EXPECT_EQ(n == 1 ? 71 : 4, e.context);
		EXPECT_EQ(n == 1 ? 100000 : 200, e.length);
		EXPECT_EQ(n == 1 ? 0 : 200, e.stored);
		if (n != 1)
			EXPECT_EQ(0, memcmp(self->from + n, (void *)(uintptr_t)e.address, 200));
	}
	/* The last one is the one whose bytes are with its source. */
	command(&self->b, pull(&e, self->to, 100000, 5));
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_SOFTWARE, state(&e));
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(0, memcmp(self->from + 1, self->to, 100000));
	EXPECT_EQ(0, next(&self->a).status);
}

/* The program matches: short messages are in its memory, long ones come when it says where to. */
TEST_F(handing, L_6_program_matches)
{
	static const size_t sizes[] = { 0, 1, 64, 65, 4096, 4097, 100000, MOST };
	struct weft_match_command get = message(self->to, 8, 1, 1);
	struct weft_match_command c;
	struct weft_match_event e, head;
	unsigned int i;

	take_over(_metadata, &self->b);
	EXPECT_EQ(EBUSY, result(&self->b, buffer(self->to, 64, 0, 9)));
	EXPECT_EQ(EBUSY, result(&self->b, overflow(self->slab, SLAB, 9)));
	EXPECT_EQ(EBUSY, result(&self->b, plain(WEFT_MATCH_ENABLE, 0)));
	EXPECT_EQ(EBUSY, result(&self->b, plain(WEFT_MATCH_HAND_OVER, 0)));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		fill(self->from, n, i);
		put(&self->a, &self->b, message(self->from, n, i, i), n <= 64);
		head = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_HEADER, head.kind) TH_LOG("%zu bytes", n);
		EXPECT_EQ(0, head.status);
		EXPECT_EQ(900, head.context);
		EXPECT_EQ(i, head.bits);
		EXPECT_EQ(i + 1000, head.data);
		EXPECT_EQ(n, head.length);
		if (n <= WEFT_MATCH_EAGER) {
			EXPECT_EQ(n, head.stored);
			EXPECT_EQ(0, memcmp(self->from, (void *)(uintptr_t)head.address, n));
		} else {
			EXPECT_EQ(0, head.stored);
			/* It waits for as long as the program likes. */
			EXPECT_EQ(0, next_ms(&self->a, 50).kind);
			memset(self->to, 0xee, MOST);
			command(&self->b, pull(&head, self->to, n, 30 + i));
			e = next(&self->b);
			ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
			EXPECT_EQ(0, e.status);
			EXPECT_EQ(30 + i, e.context);
			EXPECT_EQ(n, e.stored);
			EXPECT_EQ(0, memcmp(self->from, self->to, n));
		}
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(n, e.stored);
	}
	/* A part of one, and nothing of one. */
	for (i = 0; i < 2; i++) {
		put(&self->a, &self->b, message(self->from, 50000, 1, i), false);
		head = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_HEADER, head.kind);
		command(&self->b, pull(&head, self->to, i ? 0 : 20000, 40 + i));
		e = next(&self->b);
		EXPECT_EQ(i ? WEFT_MATCH_COMMAND : WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(0, e.status);
		e = next(&self->a);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(i ? 0 : 20000, e.stored);
	}
	/* What is no message, and more than it has. */
	put(&self->a, &self->b, message(self->from, 50000, 1, 1), false);
	head = next(&self->b);
	head.address ^= 1ULL << 40;
	command(&self->b, pull(&head, self->to, 50000, 50));
	EXPECT_EQ(ECONNRESET, next(&self->b).status);
	head.address ^= 1ULL << 40;
	c = pull(&head, self->to, 50000, 51);
	c.hwid = 0x1234;
	EXPECT_EQ(EHOSTUNREACH, result(&self->b, c));
	command(&self->b, pull(&head, self->to, 50001, 52));
	EXPECT_EQ(ECONNRESET, next(&self->b).status);
	EXPECT_EQ(ECONNRESET, next(&self->a).status);
	/* What cannot wait for the program. */
	get.op = WEFT_MATCH_GET;
	ask(&self->a, &self->b, get, (struct weft_match_more) {}, NULL, 0);
	EXPECT_EQ(EBUSY, next(&self->a).status);
	c = message(self->from, 8, 1, 1);
	c.op = WEFT_MATCH_PUT;
	c.flags = WEFT_MATCH_AT_OFFSET;
	ask(&self->a, &self->b, c, (struct weft_match_more) {}, NULL, 0);
	EXPECT_EQ(EBUSY, next(&self->a).status);
	EXPECT_EQ(0, next_ms(&self->b, 50).kind);
}

/* A message is the bytes of an interface that it was sent to, and of no other one. */
TEST_F(handing, L_6_messages_of_others)
{
	struct weft_match_event head, e;
	struct mi other;

	ASSERT_EQ(0, open_b(&other, 64));
	ASSERT_EQ(0, enable(&other));
	take_over(_metadata, &self->b);
	fill(self->from, 50000, 3);
	put(&self->a, &self->b, message(self->from, 50000, 1, 1), false);
	head = next(&self->b);
	ASSERT_EQ(WEFT_MATCH_HEADER, head.kind);
	memset(self->to, 0xee, 50000);
	command(&other, pull(&head, self->to, 50000, 1));
	e = next(&other);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(ECONNRESET, e.status);
	EXPECT_EQ(0xee, self->to[0]);
	command(&other, pull(&head, self->to, 0, 1));
	EXPECT_EQ(0, next(&other).status);
	EXPECT_EQ(0, next_ms(&self->a, 100).kind);
	command(&self->b, pull(&head, self->to, 50000, 1));
	EXPECT_EQ(0, next(&self->b).status);
	EXPECT_EQ(0, next(&self->a).status);
	EXPECT_EQ(0, memcmp(self->from, self->to, 50000));
	mi_close(&other);
}

/* Reports until the lists can go back. */
static void wait_to_return(struct __test_metadata *_metadata, struct mi *b, uint64_t entries)
{
	struct weft_match_command report = plain(WEFT_MATCH_REPORT, entries);
	const int64_t since = wt_now_ms();
	struct weft_match_event e;

	report.flags = WEFT_MATCH_QUIET;
	do {
		command(b, report);
		e = next_ms(b, 10);
		ASSERT_GT(SOON, wt_now_ms() - since);
	} while (!e.kind);
	ASSERT_EQ(WEFT_MATCH_RETURNING, state(&e));
	/* Not before they were short for so long. */
	EXPECT_LE(95, wt_now_ms() - since);
}

/* The lists go back, and what comes meanwhile waits. */
TEST_F(handing, L_6_returns)
{
	struct weft_match_event heads[3], e;
	unsigned int i;

	EXPECT_EQ(EBUSY, result(&self->b, plain(WEFT_MATCH_REPORT, 0)));
	EXPECT_EQ(EBUSY, result(&self->b, (struct weft_match_command) {
		.op = WEFT_MATCH_APPEND_HEADER, .hwid = self->a.at.hwid, .context = 1,
	}));
	take_over(_metadata, &self->b);
	fill(self->from, MOST, 8);
	for (i = 0; i < 3; i++) {
		put(&self->a, &self->b,
		    message(self->from + i, i == 1 ? 70000 : 300, 40 + i, i), false);
		heads[i] = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_HEADER, heads[i].kind);
	}
	while (next_ms(&self->a, 50).kind)
		;
	/* Too long to go back. */
	command(&self->b, plain(WEFT_MATCH_REPORT, 32));
	EXPECT_EQ(WEFT_MATCH_COMMAND, next(&self->b).kind);
	wait_to_return(_metadata, &self->b, 5);
	put(&self->a, &self->b, message(self->from + 7, 64, 60, 9), true);
	EXPECT_EQ(0, next_ms(&self->b, 100).kind);
	command(&self->b, buffer(self->to, 64, 60, 1));
	command(&self->b, overflow(self->slab, SLAB, 2));
	for (i = 0; i < 3; i++) {
		heads[i].context = 100 + i;
		command(&self->b, give_back(&heads[i]));
	}
	EXPECT_EQ(0, next_ms(&self->b, 50).kind);
	EXPECT_EQ(0, result(&self->b, plain(WEFT_MATCH_ENABLE, 0)));
	/* What has waited has met the buffer that went back before it. */
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(1, e.context);
	EXPECT_EQ(0, memcmp(self->from + 7, self->to, 64));
	EXPECT_EQ(0, next(&self->a).status);
	for (i = 0; i < 3; i++) {
		const size_t n = heads[i].length;

		memset(self->to, 0xee, n);
		command(&self->b, buffer(self->to, n, 40 + i, 50 + i));
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(50 + i, e.context);
		EXPECT_EQ(n, e.stored);
		EXPECT_EQ(i + 1000, e.data);
		EXPECT_EQ(0, memcmp(self->from + i, self->to, n));
		if (i == 1) {
			EXPECT_EQ(0, next(&self->a).status);
			continue;
		}
		/* Its bytes are not needed any more. */
		e = next(&self->b);
		EXPECT_EQ(WEFT_MATCH_FREED, e.kind);
		EXPECT_EQ(100 + i, e.context);
	}
}

/* A program with messages whose sources wait ends: they hear of it. */
TEST_F(handing, L_6_program_exits)
{
	struct mi *shared = mmap(NULL, WT_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct weft_match_event e;
	unsigned int i;
	int status;
	pid_t child;

	child = fork();
	if (!child) {
		struct mi m;

		if (open_b(&m, 64) || enable(&m))
			_exit(2);
		command(&m, requests(self->memory, MOST, 1));
		if (result(&m, plain(WEFT_MATCH_HAND_OVER, 0)))
			_exit(3);
		*shared = m;
		raise(SIGSTOP);
		_exit(4);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	for (i = 0; i < 10; i++)
		put(&self->a, shared, message(self->from, 100000, i, i), false);
	EXPECT_EQ(0, next_ms(&self->a, 200).kind);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	for (i = 0; i < 10; i++) {
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(ENXIO, e.status);
	}
	munmap(shared, WT_PAGE);
}

/* ---- a program with lists of its own, as the provider of libfabric will have them ---- */

#define FLOWS		5
#define ENTRIES		64
#define AHEAD		150
#define ROUNDS		6
#define HELD		1024
#define BYTES		40

struct program {
	struct mi *a, *b;
	uint8_t *slab, *to;
	/* Bits of receives, and messages, that are in its own lists; from @first on. */
	struct {
		uint64_t bits[HELD];
		unsigned int first, count;
	} receives;
	struct {
		struct weft_match_event event[HELD];
		unsigned int first, count;
	} headers;
	/* What was handed over, in front of which is nothing of these. */
	uint64_t given_bits[HELD];
	struct weft_match_event given[HELD];
	unsigned int bits, heads;
	uint64_t state;		/* WEFT_MATCH_DISABLED: the lists are the interface's */
	uint64_t waits;		/* the context of the command that has no answer; 0: none */
	bool refused;		/* its answer was EBUSY */
	bool may_return;
	int wrong;		/* the line that has found it; 0: nothing is */
	unsigned int posted, sent, over, received, last[FLOWS], away, merged, back;
};

static void expect(struct program *p, bool is_right, int line)
{
	if (!is_right && !p->wrong)
		p->wrong = line;
}

/* The order in which both ends go through the flows. */
static uint64_t flow(unsigned int n)
{
	return n * 7 % FLOWS;
}

static void count(struct program *p, uint64_t bits, uint64_t number)
{
	/* In the order of its flow. */
	expect(p, bits < FLOWS, __LINE__);
	bits %= FLOWS;
	expect(p, number == 1000 + FLOWS * (uint64_t)p->last[bits]++ + bits * 3 % FLOWS, __LINE__);
	p->received++;
}

static void match(struct program *p, const struct weft_match_event *e)
{
	unsigned int i;

	expect(p, !memcmp((void *)(uintptr_t)e->address, &e->data, sizeof(e->data)), __LINE__);
	for (i = p->receives.first; i < p->receives.count; i++)
		if (p->receives.bits[i] == e->bits) {
			memmove(&p->receives.bits[i], &p->receives.bits[i + 1],
				(p->receives.count-- - i - 1) * sizeof(uint64_t));
			return count(p, e->bits, e->data);
		}
	p->headers.event[p->headers.count++] = *e;
}

static void receive(struct program *p, uint64_t bits)
{
	unsigned int i;

	for (i = p->headers.first; i < p->headers.count; i++)
		if (p->headers.event[i].bits == bits) {
			count(p, bits, p->headers.event[i].data);
			memmove(&p->headers.event[i], &p->headers.event[i + 1],
				(p->headers.count-- - i - 1) * sizeof(*p->headers.event));
			return;
		}
	p->receives.bits[p->receives.count++] = bits;
}

/* What was handed over is older than what there is of the program's. */
static void merge(struct program *p)
{
	unsigned int left = p->receives.count - p->receives.first;

	memmove(p->receives.bits + p->bits, p->receives.bits + p->receives.first,
		left * sizeof(uint64_t));
	memcpy(p->receives.bits, p->given_bits, p->bits * sizeof(uint64_t));
	p->receives.count = left + p->bits;
	left = p->headers.count - p->headers.first;
	memmove(p->headers.event + p->heads, p->headers.event + p->headers.first,
		left * sizeof(*p->headers.event));
	memcpy(p->headers.event, p->given, p->heads * sizeof(*p->headers.event));
	p->headers.count = left + p->heads;
	p->receives.first = 0;
	p->headers.first = 0;
	p->bits = 0;
	p->heads = 0;
	p->merged++;
}

static void take_event(struct program *p, const struct weft_match_event *e)
{
	if (p->waits && e->context == p->waits &&
	    (e->kind == WEFT_MATCH_COMMAND || e->kind == WEFT_MATCH_RECEIVED)) {
		p->refused = e->kind == WEFT_MATCH_COMMAND && e->status;
		expect(p, !p->refused || e->status == EBUSY, __LINE__);
		p->waits = 0;
	}
	switch (e->kind) {
	case WEFT_MATCH_RECEIVED:
		expect(p, !e->status && e->stored == BYTES, __LINE__);
		count(p, e->bits, e->data);
		break;
	case WEFT_MATCH_BUFFER:
		expect(p, p->state == WEFT_MATCH_ONLOAD, __LINE__);
		if (!(e->status & WEFT_MATCH_OVERFLOW))
			p->given_bits[p->bits++] = e->bits;
		break;
	case WEFT_MATCH_HEADER:
		expect(p, !e->status && e->stored == BYTES, __LINE__);
		if (p->state == WEFT_MATCH_ONLOAD)
			p->given[p->heads++] = *e;
		else
			match(p, e);
		break;
	case WEFT_MATCH_STATE:
		if (e->data == WEFT_MATCH_RETURNING) {
			p->may_return = true;
			break;
		}
		p->state = e->data;
		p->away += e->data == WEFT_MATCH_ONLOAD;
		if (e->data == WEFT_MATCH_SOFTWARE)
			merge(p);
		break;
	}
}

static void events(struct program *p, int timeout_ms)
{
	struct weft_match_event e = next_ms(p->b, timeout_ms);

	for (; e.kind; e = next_ms(p->b, 0))
		take_event(p, &e);
	while (take(p->a, &e)) {
		expect(p, !e.status, __LINE__);
		p->over++;
	}
}

/* Has a command answered. Returns false if it was refused. */
static bool ask_for(struct program *p, struct weft_match_command c)
{
	const int64_t since = wt_now_ms();
	const unsigned int merged = p->merged;
	static uint64_t number;

	c.flags &= ~WEFT_MATCH_QUIET;
	p->waits = ++number;
	c.context = number;
	command(p->b, c);
	while (p->waits && wt_now_ms() - since < SOON)
		events(p, 100);
	expect(p, !p->waits, __LINE__);
	/* It is for the program's lists, behind what is handed over: perhaps that is to come. */
	while (p->refused && p->merged == merged && wt_now_ms() - since < SOON)
		events(p, 100);
	expect(p, !p->refused || p->merged != merged, __LINE__);
	return !p->refused;
}

static void post(struct program *p)
{
	uint64_t bits = flow(p->posted++);
	struct weft_match_command c = buffer(p->to, BYTES, bits, 0);
	const int64_t since = wt_now_ms();

	events(p, 0);
	/* A message for it may be among what is being handed over. */
	while (p->state == WEFT_MATCH_ONLOAD && wt_now_ms() - since < SOON)
		events(p, 100);
	if (p->state == WEFT_MATCH_DISABLED && ask_for(p, c))
		return;
	receive(p, bits);
}

static void send_one(struct program *p)
{
	struct weft_match_command c = message(NULL, BYTES, flow(p->sent), 0);
	uint64_t bytes[BYTES / 8] = { 1000 + p->sent };
	const int64_t since = wt_now_ms();

	c.ignore = bytes[0];
	c.address = (uintptr_t)bytes;
	/* Messages wait while the lists change hands, and their source with them. */
	while (p->a->initiator + 2 - *word(p->a, WEFT_MATCH_INITIATOR_CONSUMED_AT) >
	       p->a->at.commands && wt_now_ms() - since < SOON)
		events(p, 1);
	put(p->a, p->b, c, true);
	p->sent++;
}

/* Gives everything back, unless entries run out. */
static bool give_all_back(struct program *p)
{
	p->may_return = false;
	p->slab += SLAB;
	if (!ask_for(p, overflow(p->slab, SLAB, 0)))
		return false;
	while (p->receives.first < p->receives.count) {
		if (!ask_for(p, buffer(p->to, BYTES, p->receives.bits[p->receives.first], 0)))
			return false;
		p->receives.first++;
	}
	while (p->headers.first < p->headers.count) {
		if (!ask_for(p, give_back(&p->headers.event[p->headers.first])))
			return false;
		p->headers.first++;
	}
	if (!ask_for(p, plain(WEFT_MATCH_ENABLE, 0)))
		return false;
	p->receives.first = 0;
	p->receives.count = 0;
	p->headers.first = 0;
	p->headers.count = 0;
	p->state = WEFT_MATCH_DISABLED;
	p->back++;
	return true;
}

/* One more of each, and the lists go back when they may. */
static void balance(struct program *p)
{
	const int64_t since = wt_now_ms();
	struct weft_match_command report;

	while (p->state != WEFT_MATCH_DISABLED && wt_now_ms() - since < 2 * SOON && !p->wrong) {
		send_one(p);
		post(p);
		events(p, 1);
		if (p->state != WEFT_MATCH_SOFTWARE)
			continue;
		report = plain(WEFT_MATCH_REPORT, p->receives.count - p->receives.first +
			       p->headers.count - p->headers.first);
		report.flags = WEFT_MATCH_QUIET;
		report.context = 0;
		command(p->b, report);
		events(p, 5);
		if (p->may_return)
			give_all_back(p);
	}
}

/*
 * Far more receives and messages than there are entries: none is lost or reordered, and the lists
 * go both ways. In rounds, until so many are sent; each time so many more of one kind than of the
 * other.
 */
static void there_and_back(struct __test_metadata *_metadata, struct _test_data_handing *self,
			   uint8_t *slab, unsigned int ahead, unsigned int most)
{
	struct program *p = calloc(1, sizeof(*p));
	unsigned int rounds = 0;
	int64_t since;

	ASSERT_NE(NULL, p);
	p->a = &self->a;
	p->b = &self->b;
	p->to = self->to;
	p->slab = slab;
	ASSERT_TRUE(ask_for(p, overflow(p->slab, SLAB, 0)));
	while (rounds < ROUNDS || p->sent < most) {
		/* Beyond what there are entries for; by turns. */
		while (p->sent < p->posted + ahead && rounds % 2 == 0)
			send_one(p);
		while (p->posted < p->sent + ahead && rounds % 2)
			post(p);
		events(p, 100);
		while (p->posted < p->sent)
			post(p);
		while (p->sent < p->posted)
			send_one(p);
		events(p, 100);
		balance(p);
		ASSERT_EQ(0, p->wrong)
			TH_LOG("round %u: %u sent, %u posted, %u received", rounds, p->sent,
			       p->posted, p->received);
		rounds++;
	}
	since = wt_now_ms();
	while ((p->received < p->sent || p->over < p->sent) && wt_now_ms() - since < SOON)
		events(p, 100);
	EXPECT_EQ(0, p->wrong);
	EXPECT_EQ(p->posted, p->sent);
	EXPECT_EQ(p->sent, p->received);
	EXPECT_EQ(p->sent, p->over);
	EXPECT_LE(rounds / 2, p->away);
	EXPECT_LE(rounds / 2, p->back);
	TH_LOG("%u messages, the lists handed over %u times, back %u times", p->received, p->away,
	       p->back);
	free(p);
}

TEST_F(handing, L_6_there_and_back)
{
	there_and_back(_metadata, self, self->slab, AHEAD, 0);
}

/* Memory for what waits while so many messages are sent. */
#define MEMORY		(64u << 20)

/* As many as one likes, through 256 entries. */
TEST_F_TIMEOUT(handing, L_6_through_256_entries, 800)
{
	const char *said = getenv("WEFT_HANDED");
	uint8_t *memory;

	if (!said)
		SKIP(return, "WEFT_HANDED does not say how many messages");
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, memory);
	mi_close(&self->b);
	ASSERT_EQ(0, open_b(&self->b, 256));
	ASSERT_EQ(0, enable(&self->b));
	command(&self->b, requests(memory, MEMORY / 2, 900));
	there_and_back(_metadata, self, memory + MEMORY / 2, 2 * 256, strtoul(said, NULL, 10));
	munmap(memory, MEMORY);
}

TEST_HARNESS_MAIN
