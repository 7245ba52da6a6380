// SPDX-License-Identifier: GPL-2.0
/*
 * Matching interfaces as their users see them: L-2, L-3, L-4, L-6 and L-7 of the driver. Ports 0
 * and 1, joined by link 0 of each; and port 0 alone, whose peer is itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "fuse_file.h"
#include "mi.h"
#include "weft_test.h"

#define MOST		1048576
#define MOST_INTEGERS	WEFT_MATCH_MAX_ATOMIC

static const size_t sizes[] = {
	0, 1, 63, 64, 65, 4095, 4096, 4097, 16384, 16385, 65536 + 3, MOST,
};

FIXTURE(matching) {
	struct mi a, b;		/* of port 0, and of port 1 */
	uint8_t *from, *to;
};

FIXTURE_VARIANT(matching) {
	bool loopback;
};

FIXTURE_VARIANT_ADD(matching, joined)
{
	.loopback = false,
};

FIXTURE_VARIANT_ADD(matching, within)
{
	.loopback = true,
};

FIXTURE_SETUP(matching)
{
	self->a.fd = -1;
	self->b.fd = -1;
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(20000));
	ASSERT_EQ(0, mi_open(&self->a, 0, 0));
	ASSERT_EQ(0, mi_open(&self->b, 1, 0));
	self->from = mmap(NULL, 2 * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	ASSERT_NE(MAP_FAILED, self->from);
	self->to = self->from + MOST;
}

FIXTURE_TEARDOWN(matching)
{
	mi_close(&self->a);
	mi_close(&self->b);
	munmap(self->from, 2 * MOST);
}

TEST_F(matching, opens)
{
	struct weft_match_open wrong[] = {
		{ .flags = 4, .entries = 1, .commands = 2, .events = 4 },
		{ .entries = 0, .commands = 2, .events = 4 },
		{ .entries = WEFT_MATCH_MAX_ENTRIES + 1, .commands = 2, .events = 4 },
		{ .entries = 1, .commands = 3, .events = 4 },
		{ .entries = 1, .commands = 2, .events = 2 },
		{ .entries = 1, .commands = 2 * WEFT_MATCH_MAX_SLOTS, .events = 4 },
		{ .entries = 1, .commands = 2, .events = 4, .traffic_class = 4 },
	};
	const uint32_t flags[] = { WEFT_MATCH_POLL | WEFT_MATCH_REST, 4, 1u << 31 };
	struct weft_match_kick ring = { .size = sizeof(ring) };
	struct mi m;
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_EQ(-EINVAL, mi_open_as(&m, 0, wrong[i])) TH_LOG("%u", i);
	EXPECT_EQ(self->a.at.hwid, wt_port_info(self->a.fd).hwid);
	EXPECT_NE(0, self->a.at.generation);
	if (variant->loopback)
		EXPECT_NE(self->a.at.endpoint, self->b.at.endpoint);
	EXPECT_EQ(-EISCONN, wt_ioctl(self->a.fd, WEFT_MATCH_OPEN, &self->a.at));
	fd = wt_open(0, O_RDWR);
	EXPECT_EQ(-ENOTCONN, wt_ioctl(fd, WEFT_MATCH_KICK, &ring));
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		ring.flags = flags[i];
		EXPECT_EQ(-EINVAL, wt_ioctl(self->a.fd, WEFT_MATCH_KICK, &ring));
	}
	close(fd);
}

/* L-6: it is disabled at first, and its messages are refused. L-2: buffers in lists. */
TEST_F(matching, L_6_starts_disabled)
{
	struct weft_match_command c = buffer(self->to, 64, 5, 17);
	struct weft_match_event e;

	put(&self->a, &self->b, message(self->from, 8, 5, 1), true);
	e = next(&self->a);
	EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(ESHUTDOWN, e.status);
	EXPECT_EQ(1, e.context);
	EXPECT_EQ(0, result(&self->b, c));
	EXPECT_EQ(0, enable(&self->b));
	put(&self->a, &self->b, message(self->from, 8, 5, 2), true);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(17, e.context);
	EXPECT_EQ(0, next(&self->a).status);
	EXPECT_EQ(0, result(&self->b, (struct weft_match_command) { .op = WEFT_MATCH_DISABLE }));
	put(&self->a, &self->b, message(self->from, 8, 5, 3), true);
	EXPECT_EQ(ESHUTDOWN, next(&self->a).status);
}

TEST_F(matching, L_2_commands)
{
	struct weft_match_command unlink = { .op = WEFT_MATCH_UNLINK, .context = 9 };
	struct weft_match_command search = {
		.op = WEFT_MATCH_SEARCH, .flags = WEFT_MATCH_ANY_SOURCE, .context = 10,
	};
	struct weft_match_command named = buffer(self->to, 8, 0, 11);
	struct weft_match_command c;

	EXPECT_EQ(ENOENT, result(&self->a, unlink));
	EXPECT_EQ(ENOENT, result(&self->a, search));
	command(&self->a, buffer(self->to, 64, 0, 9));
	EXPECT_EQ(0, result(&self->a, unlink));
	EXPECT_EQ(ENOENT, result(&self->a, unlink));
	/* What makes no sense. */
	c = search;
	c.op = 99;
	EXPECT_EQ(EINVAL, result(&self->a, c));
	c = search;
	c.reserved = 1;
	EXPECT_EQ(EINVAL, result(&self->a, c));
	c = search;
	c.op = WEFT_MATCH_PUT;
	EXPECT_EQ(EINVAL, result(&self->a, c));
	c = buffer((void *)-8UL, 64, 0, 12);
	EXPECT_EQ(EINVAL, result(&self->a, c));
	/* A source of this fabric, and of no fabric. */
	named.flags = 0;
	named.hwid = self->b.at.hwid;
	named.endpoint = self->b.at.endpoint;
	EXPECT_EQ(0, result(&self->a, named));
	named.hwid = ~0ULL;
	EXPECT_EQ(EHOSTUNREACH, result(&self->a, named));
	named.hwid = self->b.at.hwid;
	named.endpoint = 0xffff;
	EXPECT_EQ(EINVAL, result(&self->a, named));
}

TEST_F(matching, addresses_that_are_none)
{
	struct mi other = self->b;
	struct weft_match_event e;

	other.at.generation ^= 1;
	put(&self->a, &other, message(self->from, 8, 0, 1), true);
	e = next(&self->a);
	EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(ENXIO, e.status);
	other.at = self->b.at;
	other.at.endpoint = 2047;
	put(&self->a, &other, message(self->from, 8, 0, 2), true);
	EXPECT_EQ(ENXIO, next(&self->a).status);
	other.at.hwid = 0x1234;
	put(&self->a, &other, message(self->from, 8, 0, 3), true);
	EXPECT_EQ(EHOSTUNREACH, next(&self->a).status);
	/* Memory that is not there, and more than fits into the ring. */
	put(&self->a, &self->b, message((void *)8, 100, 0, 4), false);
	EXPECT_EQ(EFAULT, next(&self->a).status);
	put(&self->a, &self->b, message((void *)-8UL, 1 << 20, 0, 5), false);
	EXPECT_EQ(EINVAL, next(&self->a).status);
}

/* L-3: a message that is expected, of all sizes: in the ring, eager, and pulled by its target. */
TEST_F(matching, L_3_expected)
{
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		fill(self->from, n, i);
		memset(self->to, 0xee, MOST);
		command(&self->b, buffer(self->to, MOST, i, 100 + i));
		put(&self->a, &self->b, message(self->from, n, i, i), n <= 64);
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%zu bytes", n);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(100 + i, e.context);
		EXPECT_EQ(n, e.length);
		EXPECT_EQ(n, e.stored);
		EXPECT_EQ(i, e.bits);
		EXPECT_EQ(i + 1000, e.data);
		EXPECT_EQ(WEFT_MATCH_BUFFER_UNLINKED, e.flags);
		EXPECT_EQ(self->a.at.hwid, e.hwid);
		EXPECT_EQ(self->a.at.endpoint, e.endpoint);
		EXPECT_EQ(0, memcmp(self->from, self->to, n));
		if (n < MOST)
			EXPECT_EQ(0xee, self->to[n]);
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(n, e.stored);
	}
	EXPECT_EQ(i, *word(&self->b, WEFT_MATCH_RECEIVED_AT));
	EXPECT_EQ(i, *word(&self->a, WEFT_MATCH_SENT_AT));
	EXPECT_EQ(0, *word(&self->a, WEFT_MATCH_SEND_ERRORS_AT));
}

/* L-2, L-3: one that is not: in overflow memory, or at its initiator, for a later append. */
TEST_F(matching, L_3_unexpected)
{
	struct weft_match_command search = {
		.op = WEFT_MATCH_SEARCH, .flags = WEFT_MATCH_ANY_SOURCE, .context = 7,
	};
	uint8_t *slab = malloc(1 << 16);
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	command(&self->b, overflow(slab, 1 << 16, 50));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		fill(self->from, n, i);
		put(&self->a, &self->b, message(self->from, n, i, i), n <= 64);
		if (n <= WEFT_MATCH_EAGER) {
			/* It is over for its initiator. */
			e = next(&self->a);
			ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
			EXPECT_EQ(0, e.status);
		}
		search.bits = i;
		do {
			command(&self->b, search);
			e = next(&self->b);
		} while (e.kind == WEFT_MATCH_COMMAND && e.status == ENOENT);
		ASSERT_EQ(WEFT_MATCH_COMMAND, e.kind);
		EXPECT_EQ(n, e.length);
		EXPECT_EQ(i + 1000, e.data);
		EXPECT_EQ(self->a.at.endpoint, e.endpoint);
		memset(self->to, 0xee, MOST);
		command(&self->b, buffer(self->to, MOST, i, 100 + i));
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(100 + i, e.context);
		EXPECT_EQ(n, e.stored);
		EXPECT_EQ(0, memcmp(self->from, self->to, n));
		if (n > WEFT_MATCH_EAGER) {
			e = next(&self->a);
			ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
			EXPECT_EQ(0, e.status);
			EXPECT_EQ(n, e.stored);
		}
	}
	free(slab);
}

/* L-2: taken out by a search, and received later; or dropped. */
TEST_F(matching, L_2_claims)
{
	struct weft_match_command claim = {
		.op = WEFT_MATCH_CLAIM, .flags = WEFT_MATCH_ANY_SOURCE, .bits = 3, .context = 70,
	};
	struct weft_match_command receive = {
		.op = WEFT_MATCH_RECEIVE, .address = (uintptr_t)self->to, .length = MOST,
		.context = 70,
	};
	uint8_t *slab = malloc(1 << 16);
	struct weft_match_event e;
	size_t n = 100000;

	ASSERT_EQ(0, enable(&self->b));
	command(&self->b, overflow(slab, 1 << 16, 50));
	fill(self->from, n, 3);
	EXPECT_EQ(ENOENT, result(&self->b, receive));
	put(&self->a, &self->b, message(self->from, n, 3, 1), false);
	do {
		command(&self->b, claim);
		e = next(&self->b);
	} while (e.kind == WEFT_MATCH_COMMAND && e.status == ENOENT);
	ASSERT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(n, e.length);
	EXPECT_EQ(ENOENT, result(&self->b, claim));
	command(&self->b, receive);
	e = next(&self->b);
	ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(70, e.context);
	EXPECT_EQ(0, memcmp(self->from, self->to, n));
	EXPECT_EQ(0, next(&self->a).status);
	/* Dropped: the initiator does not wait. */
	put(&self->a, &self->b, message(self->from, n, 3, 2), false);
	claim.op = WEFT_MATCH_DISCARD;
	do {
		command(&self->b, claim);
		e = next(&self->b);
	} while (e.kind == WEFT_MATCH_COMMAND && e.status == ENOENT);
	EXPECT_EQ(0, e.status);
	e = next(&self->a);
	EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(0, e.stored);
	free(slab);
}

/* A buffer that is too short, and one that many messages are for. */
TEST_F(matching, L_2_buffers)
{
	struct weft_match_command many = buffer(self->to, 1000, 1, 5);
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	fill(self->from, MOST, 1);
	memset(self->to, 0xee, MOST);
	command(&self->b, buffer(self->to, 100, 0, 4));
	put(&self->a, &self->b, message(self->from, 5000, 0, 1), false);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_BUFFER_UNLINKED | WEFT_MATCH_TRUNCATED, e.flags);
	EXPECT_EQ(5000, e.length);
	EXPECT_EQ(100, e.stored);
	EXPECT_EQ(0xee, self->to[100]);
	EXPECT_EQ(100, next(&self->a).stored);
	many.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_MANAGE_LOCAL;
	many.min_free = 300;
	command(&self->b, many);
	for (i = 0; i < 4; i++) {
		put(&self->a, &self->b, message(self->from + i, 200, 1, i), false);
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ((uintptr_t)self->to + 200 * i, e.address);
		EXPECT_EQ(i == 3 ? WEFT_MATCH_BUFFER_UNLINKED : 0, e.flags);
		EXPECT_EQ(0, memcmp(self->from + i, self->to + 200 * i, 200));
		EXPECT_EQ(0, next(&self->a).status);
	}
}

/*
 * Without memory for them messages wait at their initiator, and come in their order when there is
 * some.
 */
TEST_F(matching, L_3_no_space)
{
	uint8_t *slab = malloc(1 << 20);
	struct weft_match_event e;
	uint64_t sent = 0;
	unsigned int i;
	const unsigned int count = 60;

	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < count; i++) {
		memset(self->from, i, 64);
		put(&self->a, &self->b, message(self->from, 40, 1, i), true);
	}
	EXPECT_EQ(0, next_ms(&self->a, 300).kind);
	command(&self->b, overflow(slab, 1 << 20, 50));
	for (i = 0; i < count; i++) {
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(0, e.status);
		/* Those that have ended meanwhile are told of in any order. */
		ASSERT_LT(e.context, count);
		sent |= 1ULL << e.context;
	}
	EXPECT_EQ((1ULL << count) - 1, sent);
	for (i = 0; i < count; i++) {
		command(&self->b, buffer(self->to, 64, 1, i));
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(i, self->to[0]);
		EXPECT_EQ(i + 1000, e.data);
	}
	free(slab);
}

/*
 * Messages that find no memory, as those before them are being stored: their sources are resumed,
 * with the next one that is stored at the latest.
 */
TEST_F(matching, L_3_no_memory)
{
	struct weft_match_command c = buffer(self->to, WEFT_MATCH_EAGER, 0, 1);
	const int64_t since = wt_now_ms();
	struct weft_match_event e;
	struct mi any, from[6];
	unsigned int i, n, round;

	ASSERT_EQ(0, mi_open(&any, 1, WEFT_MATCH_ANY));
	ASSERT_EQ(0, enable(&any));
	c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_SILENT;
	command(&any, c);
	for (n = 0; n < ARRAY_SIZE(from); n++)
		ASSERT_EQ(0, mi_open(&from[n], 0, 0));
	ASSERT_EQ(0, enable(&self->a));
	/* Of each source eight are on the way at most: the last ones are refused, too. */
	for (round = 0; wt_now_ms() - since < 2000; round++) {
		/* It has something else to do, and stores less than comes. */
		command(&self->a, buffer(self->to + 65536, MOST - 65536, 1, 1));
		put(&any, &self->a, message(self->from, MOST - 65536, 1, 1), false);
		for (i = 0; i < 8; i++)
			for (n = 0; n < ARRAY_SIZE(from); n++)
				put(&from[n], &any, message(self->from, WEFT_MATCH_EAGER, 0, i),
				    false);
		for (n = 0; n < ARRAY_SIZE(from); n++) {
			for (i = 0; i < 8; i++) {
				e = next(&from[n]);
				ASSERT_EQ(WEFT_MATCH_SENT, e.kind)
					TH_LOG("round %u, source %u, %u", round, n, i);
				EXPECT_EQ(0, e.status);
			}
		}
		ASSERT_EQ(WEFT_MATCH_RECEIVED, next(&self->a).kind);
		ASSERT_EQ(WEFT_MATCH_SENT, next(&any).kind);
	}
	for (n = 0; n < ARRAY_SIZE(from); n++)
		mi_close(&from[n]);
	mi_close(&any);
}

/* Messages of one source to one target are matched in their order, whatever their sizes. */
TEST_F(matching, L_4_order)
{
	struct weft_match_event e;
	unsigned int i, received = 0, sent = 0;
	const unsigned int count = 200;
	uint64_t seed = 4;

	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < count; i++) {
		size_t n = wt_random(&seed) % 3 ? 8 : 4000 + wt_random(&seed) % 30000;

		command(&self->b, buffer(self->to + i * 4096 % MOST, 4096, 1, i));
		put(&self->a, &self->b, message(self->from, n, 1, i), n <= 64);
		while (take(&self->b, &e)) {
			ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
			/* The n-th message is in the n-th buffer. */
			EXPECT_EQ(e.context + 1000, e.data);
			received++;
		}
		while (take(&self->a, &e))
			sent++;
	}
	while (received < count) {
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(e.context + 1000, e.data);
		received++;
	}
	while (sent < count) {
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(0, e.status);
		sent++;
	}
}

/* L-4: an event ring that is full again and again: the interface goes on whenever there is room. */
TEST_F(matching, L_4_few_events)
{
	struct weft_match_command any = buffer(self->to, 64, 1, 1);
	const int64_t since = wt_now_ms();
	struct weft_match_event e;
	unsigned int i, round;
	uint64_t seed = 7;
	struct mi few;

	ASSERT_EQ(0, mi_open_as(&few, 1, (struct weft_match_open) {
		.entries = 16, .commands = 16, .events = 4,
	}));
	ASSERT_EQ(0, enable(&few));
	any.flags |= WEFT_MATCH_PERSISTENT;
	command(&few, any);
	for (round = 0; wt_now_ms() - since < 2000; round++) {
		for (i = 0; i < 8; i++)
			put(&self->a, &few, message(self->from, 8, 1, i), true);
		for (i = 0; i < 8; i++) {
			struct pollfd p = { .fd = few.fd, .events = POLLIN };
			unsigned int spins = wt_random(&seed) % 50000;

			while (!take_late(&few, &e, spins))
				ASSERT_EQ(1, poll(&p, 1, SOON)) TH_LOG("round %u", round);
			EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		}
		for (i = 0; i < 8; i++)
			ASSERT_EQ(WEFT_MATCH_SENT, next(&self->a).kind);
	}
	mi_close(&few);
}

/* L-5: an interface that does not match. */
TEST_F(matching, L_5_any)
{
	struct weft_match_command c;
	struct weft_match_event e;
	struct mi any;
	unsigned int i;

	ASSERT_EQ(0, mi_open(&any, 1, WEFT_MATCH_ANY));
	ASSERT_EQ(0, enable(&any));
	c = buffer(self->to, 4096, 0, 1);
	c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_SILENT;
	command(&any, c);
	for (i = 0; i < 100; i++) {
		memset(self->from, i, 64);
		put(&self->a, &any, message(self->from, 64, i, i), i % 2);
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(i, self->to[63]);
	}
	EXPECT_EQ(0, next_ms(&any, 100).kind);
	EXPECT_EQ(100, *word(&any, WEFT_MATCH_RECEIVED_AT));
	mi_close(&any);
}

#define TARGETS		70
#define UNRECEIVED	8
#define LONG		5000

/*
 * L-5: long messages that are not received, more than there are places for and to more targets,
 * keep nothing back that comes behind them; and each is received once its target wants it.
 */
TEST_F(matching, L_5_not_received)
{
	static struct mi targets[TARGETS];
	struct weft_match_event e;
	unsigned int t, i;

	fill(self->from, MOST, 11);
	for (t = 0; t < TARGETS; t++) {
		ASSERT_EQ(0, mi_open_as(&targets[t], 1, (struct weft_match_open) {
			.entries = 64, .commands = 64, .events = 64,
		}));
		ASSERT_EQ(0, enable(&targets[t]));
	}
	for (i = 0; i < UNRECEIVED * TARGETS; i++) {
		t = i % TARGETS;
		put(&self->a, &targets[t], message(self->from + i, LONG, i / TARGETS, i), false);
	}
	command(&targets[3], buffer(self->to, 64, 99, 1));
	put(&self->a, &targets[3], message(self->from, 64, 99, 9999), true);
	e = next(&self->a);
	ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(9999, e.context);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, next(&targets[3]).kind);
	/* Backwards: the last ones are those that have not left their places. */
	for (i = UNRECEIVED * TARGETS; i-- > TARGETS;) {
		t = i % TARGETS;
		memset(self->to, 0, LONG);
		command(&targets[t], buffer(self->to, LONG, i / TARGETS, i));
		e = next(&targets[t]);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(LONG, e.stored);
		EXPECT_EQ(0, memcmp(self->from + i, self->to, LONG)) TH_LOG("%u", i);
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(0, e.status);
	}
	/* One of each is left: they end when their targets close, or their source does. */
	for (t = 1; t < TARGETS; t++) {
		mi_close(&targets[t]);
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", t);
		EXPECT_EQ(t, e.context);
		EXPECT_EQ(ENXIO, e.status);
	}
	mi_close(&self->a);
	command(&targets[0], buffer(self->to, LONG, 0, 1));
	e = next(&targets[0]);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_NE(0, e.status);
	mi_close(&targets[0]);
}

static struct weft_match_command get(void *at, size_t length, uint64_t bits, uint64_t context)
{
	struct weft_match_command c = message(at, length, bits, context);

	c.op = WEFT_MATCH_GET;
	return c;
}

/* L-7: bytes of a buffer are got, at an offset, of all sizes; the program there does nothing. */
TEST_F(matching, L_7_gets)
{
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	fill(self->from, MOST, 5);
	EXPECT_EQ(0, result(&self->b, region(self->from, MOST, 1, 30)));
	for (i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i / 2], at = i % 2 ? (MOST - n) / 3 : 0;

		memset(self->to, 0xee, MOST);
		ask(&self->a, &self->b, get(self->to, n, 1, i),
		    (struct weft_match_more) { .offset = at }, NULL, 0);
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%zu bytes at %zu", n, at);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(0, e.flags);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(n, e.length);
		EXPECT_EQ(n, e.stored);
		EXPECT_EQ(0, memcmp(self->from + at, self->to, n));
		if (n < MOST)
			EXPECT_EQ(0xee, self->to[n]);
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_GOT, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(30, e.context);
		EXPECT_EQ((uintptr_t)self->from + at, e.address);
		EXPECT_EQ(n, e.stored);
		EXPECT_EQ(i + 1000, e.data);
		EXPECT_EQ(self->a.at.endpoint, e.endpoint);
	}
	EXPECT_EQ(i, *word(&self->b, WEFT_MATCH_RECEIVED_AT));
	EXPECT_EQ(i, *word(&self->a, WEFT_MATCH_SENT_AT));
	/* More than there is, and a buffer that is used up. */
	EXPECT_EQ(0, result(&self->b, region(self->from, 70000, 2, 31)));
	ask(&self->a, &self->b, get(self->to, MOST, 2, 1),
	    (struct weft_match_more) { .offset = 1000 }, NULL, 0);
	e = next(&self->a);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(WEFT_MATCH_TRUNCATED, e.flags);
	EXPECT_EQ(69000, e.stored);
	EXPECT_EQ(0, memcmp(self->from + 1000, self->to, 69000));
	EXPECT_EQ(WEFT_MATCH_TRUNCATED, next(&self->b).flags);
	for (i = 0; i < 2; i++) {
		struct weft_match_command once = buffer(self->from, 100, 3, 32);

		once.flags |= WEFT_MATCH_READABLE | WEFT_MATCH_READ_ONLY;
		if (!i)
			EXPECT_EQ(0, result(&self->b, once));
		ask(&self->a, &self->b, get(self->to, 100, 3, i), (struct weft_match_more) {},
		    NULL, 0);
		EXPECT_EQ(i ? ENOENT : 0, next(&self->a).status);
		if (!i)
			EXPECT_EQ(WEFT_MATCH_BUFFER_UNLINKED, next(&self->b).flags);
	}
}

/* L-7: many gets at once, of both ends; L-4: what a buffer has before them is what they get. */
TEST_F(matching, L_7_gets_in_order)
{
	struct mi *ends[] = { &self->a, &self->b };
	struct weft_match_event e;
	unsigned int i, n, over[2] = {};
	const unsigned int count = 60;
	uint64_t seen = 0;

	for (n = 0; n < 2; n++) {
		struct weft_match_command c = region(self->from + n * 100000, 100000, 1, 1);

		ASSERT_EQ(0, enable(ends[n]));
		c.flags |= WEFT_MATCH_SILENT;
		ASSERT_EQ(0, result(ends[n], c));
	}
	for (i = 0; i < count; i++) {
		for (n = 0; n < 2; n++)
			ask(ends[n], ends[!n], get(self->to + n * 100000, 20000 + i * 1000, 1, i),
			    (struct weft_match_more) {}, NULL, 0);
		for (n = 0; n < 2; n++)
			while (take(ends[n], &e)) {
				ASSERT_EQ(0, e.status);
				over[n]++;
			}
	}
	for (n = 0; n < 2; n++)
		for (; over[n] < count; over[n]++) {
			e = next(ends[n]);
			ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u of %u", over[n], n);
			EXPECT_EQ(0, e.status);
			EXPECT_EQ(e.length, e.stored);
		}
	for (seen = 1; seen < 60; seen++) {
		struct weft_match_command c = message(&seen, sizeof(seen), 1, 1);

		c.op = WEFT_MATCH_PUT;
		c.flags = WEFT_MATCH_AT_OFFSET;
		ask(&self->a, &self->b, c, (struct weft_match_more) { .offset = 64 }, &seen,
		    sizeof(seen));
		ask(&self->a, &self->b, get(self->to, sizeof(seen), 1, 2),
		    (struct weft_match_more) { .offset = 64 }, NULL, 0);
		for (n = 0; n < 2; n++)
			ASSERT_EQ(0, next(&self->a).status);
		EXPECT_EQ(0, memcmp(self->to, &seen, sizeof(seen)));
	}
}

/* L-7: a message for an offset: of all sizes, in its place, and never unexpected. */
TEST_F(matching, L_7_puts_at_an_offset)
{
	uint8_t *slab = malloc(1 << 16);
	struct weft_match_command c;
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	command(&self->b, overflow(slab, 1 << 16, 50));
	EXPECT_EQ(0, result(&self->b, region(self->to, MOST, 1, 30)));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i], at = (MOST - n) / 3;

		fill(self->from, n, i);
		memset(self->to, 0xee, MOST);
		c = message(self->from, n, 1, i);
		c.op = WEFT_MATCH_PUT;
		c.flags = WEFT_MATCH_AT_OFFSET;
		ask(&self->a, &self->b, c, (struct weft_match_more) { .offset = at },
		    n <= 64 ? self->from : NULL, n);
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%zu bytes", n);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(0, e.flags);
		EXPECT_EQ((uintptr_t)self->to + at, e.address);
		EXPECT_EQ(0, memcmp(self->from, self->to + at, n));
		if (at) {
			EXPECT_EQ(0xee, self->to[at - 1]);
			EXPECT_EQ(0xee, self->to[at + n]);
		}
		EXPECT_EQ(0, next(&self->a).status);
	}
	/* Where no buffer is for it, also at the beginning. */
	for (i = 0; i < 2; i++) {
		c = message(self->from, 100, 77, i);
		c.op = WEFT_MATCH_PUT;
		c.flags = WEFT_MATCH_AT_OFFSET;
		ask(&self->a, &self->b, c, (struct weft_match_more) { .offset = 8 * i }, NULL, 0);
		EXPECT_EQ(ENOENT, next(&self->a).status);
	}
	free(slab);
}

struct number {
	uint64_t memory, operand, compare, after;
	uint8_t operation, integer;
};

#define FETCHES	1
#define IN_RING	2

/* One operation on an array of integers, which ends on another page than it begins. */
static void one_atomic(struct __test_metadata *_metadata, struct mi *a, struct mi *b, uint8_t *from,
		       uint8_t *to, const struct number *number, unsigned int most,
		       unsigned int way)
{
	const bool compares = number->operation >= WEFT_MATCH_SWAP_EQUAL;
	const unsigned int width = number->integer & ~WEFT_MATCH_SIGNED;
	const unsigned int count = most > 3 ? most / width : most;
	const size_t bytes = count * width, comes = bytes * (1 + compares);
	uint8_t *memory = to + WT_PAGE - 56, *was = to + 65536;
	struct weft_match_command c = message(from, bytes, 1, 7);
	struct weft_match_more more = {
		.offset = 8, .result = (uintptr_t)was,
		.operation = number->operation, .integer = number->integer,
	};
	struct weft_match_event e;
	unsigned int n;

	if (way & IN_RING && comes > WEFT_MATCH_INLINE)
		return;
	c.op = way & FETCHES ? WEFT_MATCH_FETCH : WEFT_MATCH_ATOMIC;
	if (!(way & IN_RING))
		more.compare = (uintptr_t)from + bytes;
	memset(was, 0xee, 8192);
	memset(memory - 8, 0xdd, 8192);
	for (n = 0; n < count; n++) {
		memcpy(memory + n * width, &number->memory, width);
		memcpy(from + n * width, &number->operand, width);
		memcpy(from + bytes + n * width, &number->compare, width);
	}
	ask(a, b, c, more, way & IN_RING ? from : NULL, comes);
	e = next(a);
	ASSERT_EQ(WEFT_MATCH_SENT, e.kind)
		TH_LOG("operation %u, %u integers, way %u", number->operation, count, way);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(bytes, e.stored);
	for (n = 0; n < count; n++) {
		EXPECT_EQ(0, memcmp(memory + n * width, &number->after, width))
			TH_LOG("operation %u, integer %u, way %u", number->operation, n, way);
		if (way & FETCHES)
			EXPECT_EQ(0, memcmp(was + n * width, &number->memory, width));
	}
	EXPECT_EQ(0xee, was[way & FETCHES ? bytes : 0]);
	EXPECT_EQ(0xdd, memory[bytes]);
	EXPECT_EQ(0xdd, memory[-1]);
	e = next(b);
	ASSERT_EQ(WEFT_MATCH_CHANGED, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ((uintptr_t)memory, e.address);
	EXPECT_EQ(bytes, e.stored);
}

/* L-7: each operation, on integers of each width, in arrays; what it fetches is what was there. */
TEST_F(matching, L_7_atomics)
{
	static const struct number all[] = {
		{ 5, 3, 0, 3, WEFT_MATCH_MIN, 4 },
		{ 0xff, 1, 0, 1, WEFT_MATCH_MIN, 1 },
		{ 0xff, 1, 0, 0xff, WEFT_MATCH_MIN, 1 | WEFT_MATCH_SIGNED },
		{ 0xffff, 1, 0, 1, WEFT_MATCH_MAX, 2 | WEFT_MATCH_SIGNED },
		{ 0xffff, 2, 0, 1, WEFT_MATCH_SUM, 2 },
		{ ~0ULL, 3, 0, 2, WEFT_MATCH_SUM, 8 },
		{ 1ULL << 63, 3, 0, 1ULL << 63, WEFT_MATCH_PRODUCT, 8 },
		{ 3, 5, 0, 0xfe, WEFT_MATCH_DIFFERENCE, 1 },
		{ 0, 7, 0, 1, WEFT_MATCH_LOGICAL_OR, 4 },
		{ 9, 0, 0, 0, WEFT_MATCH_LOGICAL_AND, 4 },
		{ 9, 0, 0, 1, WEFT_MATCH_LOGICAL_XOR, 4 },
		{ 0xf0, 0x0f, 0, 0xff, WEFT_MATCH_BIT_OR, 8 },
		{ 0xf3, 0x3f, 0, 0x33, WEFT_MATCH_BIT_AND, 8 },
		{ 0xf3, 0x3f, 0, 0xcc, WEFT_MATCH_BIT_XOR, 8 },
		{ 7, 8, 0, 8, WEFT_MATCH_WRITE, 8 },
		{ 7, 8, 7, 8, WEFT_MATCH_SWAP_EQUAL, 8 },
		{ 7, 8, 6, 7, WEFT_MATCH_SWAP_EQUAL, 8 },
		{ 7, 8, 6, 8, WEFT_MATCH_SWAP_NOT_EQUAL, 2 },
		{ 7, 8, 7, 8, WEFT_MATCH_SWAP_LESS_EQUAL, 4 },
		{ 7, 8, 7, 7, WEFT_MATCH_SWAP_LESS, 4 },
		{ 7, 8, 0xff, 8, WEFT_MATCH_SWAP_LESS, 1 | WEFT_MATCH_SIGNED },
		{ 7, 8, 7, 8, WEFT_MATCH_SWAP_GREATER_EQUAL, 4 },
		{ 7, 8, 8, 8, WEFT_MATCH_SWAP_GREATER, 4 },
		{ 0xff00, 0x00ff, 0x0ff0, 0xf0f0, WEFT_MATCH_SWAP_MASKED, 2 },
	};
	static const unsigned int counts[] = { 1, 3, WEFT_MATCH_MAX_ATOMIC };
	unsigned int i, k, way;

	ASSERT_EQ(0, enable(&self->b));
	EXPECT_EQ(0, result(&self->b, region(self->to + WT_PAGE - 64, 8192, 1, 30)));
	for (i = 0; i < ARRAY_SIZE(all); i++)
		for (k = 0; k < ARRAY_SIZE(counts); k++)
			for (way = 0; way < 4; way++)
				one_atomic(_metadata, &self->a, &self->b, self->from, self->to,
					   &all[i], counts[k], way);
}

/* L-7: sums of several sources, and of the target's own process, add up. */
TEST_F(matching, L_7_atomics_of_many)
{
	struct weft_match_command c = message(self->from, 8, 1, 1);
	struct weft_match_more more = { .operation = WEFT_MATCH_SUM, .integer = 8 };
	uint64_t *sum = (uint64_t *)self->to, one = 1, own = 0;
	unsigned int i, n, over[3] = {};
	const unsigned int count = 500;
	struct weft_match_event e;
	struct mi from[3], at[2];

	for (n = 0; n < 2; n++) {
		struct weft_match_command r = region(self->to, 4096, 1, 1);

		/* Two interfaces have the same memory. */
		ASSERT_EQ(0, mi_open(&at[n], 1, 0));
		ASSERT_EQ(0, enable(&at[n]));
		r.flags |= WEFT_MATCH_SILENT;
		ASSERT_EQ(0, result(&at[n], r));
	}
	for (n = 0; n < 3; n++)
		ASSERT_EQ(0, mi_open(&from[n], 0, 0));
	c.op = WEFT_MATCH_ATOMIC;
	for (i = 0; i < count; i++)
		for (n = 0; n < 3; n++) {
			ask(&from[n], &at[(i + n) % 2], c, more, &one, sizeof(one));
			__atomic_fetch_add(sum, 1, __ATOMIC_RELAXED);
			own++;
			while (take(&from[n], &e)) {
				ASSERT_EQ(0, e.status);
				over[n]++;
			}
		}
	for (n = 0; n < 3; n++)
		for (; over[n] < count; over[n]++)
			ASSERT_EQ(WEFT_MATCH_SENT, next(&from[n]).kind);
	EXPECT_EQ(3 * count + own, *sum);
	for (n = 0; n < 3; n++)
		mi_close(&from[n]);
	for (n = 0; n < 2; n++)
		mi_close(&at[n]);
}

/* L-7: what does not make sense, or is not allowed, changes nothing. */
TEST_F(matching, L_7_refused)
{
	static const struct {
		int status;
		uint8_t op;
		uint16_t flags;
		size_t length;
		uint64_t bits, offset;
		uint8_t operation, integer;
	} all[] = {
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 8, 1, 0, 0, 8 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 8, 1, 0, WEFT_MATCH_SWAP_MASKED + 1, 8 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 6, 1, 0, WEFT_MATCH_SUM, 3 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 12, 1, 0, WEFT_MATCH_SUM, 8 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 0, 1, 0, WEFT_MATCH_SUM, 8 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, MOST_INTEGERS + 8, 1, 0, WEFT_MATCH_SUM, 8 },
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 8, 1, 0, WEFT_MATCH_READ, 8 },
		/* What may change something is not done again. */
		{ EINVAL, WEFT_MATCH_ATOMIC, WEFT_MATCH_RETRY, 8, 1, 0, WEFT_MATCH_SUM, 8 },
		{ EINVAL, WEFT_MATCH_FETCH, WEFT_MATCH_RETRY, 8, 1, 0, WEFT_MATCH_SUM, 8 },
		{ EINVAL, WEFT_MATCH_PUT, WEFT_MATCH_RETRY | WEFT_MATCH_AT_OFFSET, 8, 1, 0, 0, 0 },
		/* By the target: not a multiple, too short, no buffer, not allowed. */
		{ EINVAL, WEFT_MATCH_ATOMIC, 0, 8, 1, 4, WEFT_MATCH_SUM, 8 },
		{ EMSGSIZE, WEFT_MATCH_FETCH, 0, 16, 1, 56, WEFT_MATCH_SUM, 8 },
		{ ENOENT, WEFT_MATCH_ATOMIC, 0, 8, 9, 0, WEFT_MATCH_SUM, 8 },
		{ ENOENT, WEFT_MATCH_GET, 0, 8, 9, 0, 0, 0 },
		{ EPERM, WEFT_MATCH_ATOMIC, 0, 8, 2, 0, WEFT_MATCH_SUM, 8 },
		{ EPERM, WEFT_MATCH_FETCH, 0, 8, 3, 0, WEFT_MATCH_SUM, 8 },
		{ EPERM, WEFT_MATCH_GET, 0, 8, 3, 0, 0, 0 },
		{ EPERM, WEFT_MATCH_PUT, WEFT_MATCH_AT_OFFSET, 8, 2, 0, 0, 0 },
		{ 0, WEFT_MATCH_GET, WEFT_MATCH_RETRY, 8, 2, 0, 0, 0 },
		{ 0, WEFT_MATCH_ATOMIC, 0, 8, 3, 0, WEFT_MATCH_BIT_OR, 8 },
		{ EFAULT, WEFT_MATCH_ATOMIC, 0, 8, 4, 0, WEFT_MATCH_SUM, 8 },
		{ EFAULT, WEFT_MATCH_FETCH, 0, 8, 4, 0, WEFT_MATCH_SUM, 8 },
		{ EFAULT, WEFT_MATCH_GET, 0, 8, 4, 0, 0, 0 },
		{ EFAULT, WEFT_MATCH_GET, 0, 100000, 4, 0, 0, 0 },
		{ 0, WEFT_MATCH_FETCH, WEFT_MATCH_RETRY, 8, 1, 0, WEFT_MATCH_READ, 8 },
	};
	uint8_t *gone = mmap(NULL, MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct weft_match_command c;
	unsigned int i, n;

	ASSERT_EQ(0, enable(&self->b));
	memset(self->to, 0, 64);
	EXPECT_EQ(0, result(&self->b, region(self->to, 64, 1, 1)));
	c = region(self->to, 64, 2, 2);
	c.flags |= WEFT_MATCH_READ_ONLY;
	EXPECT_EQ(0, result(&self->b, c));
	c = region(self->to, 64, 3, 3);
	c.flags &= ~WEFT_MATCH_READABLE;
	EXPECT_EQ(0, result(&self->b, c));
	EXPECT_EQ(0, result(&self->b, region(gone, MOST, 4, 4)));
	memset(self->from, 0, MOST);
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		struct weft_match_more more = {
			.offset = all[i].offset, .result = (uintptr_t)self->from + 65536,
			.operation = all[i].operation, .integer = all[i].integer,
		};
		struct weft_match_event e;

		c = message(self->from, all[i].length, all[i].bits, i);
		c.op = all[i].op;
		c.flags = all[i].flags;
		self->from[0] = all[i].status != 0;
		ask(&self->a, &self->b, c, more, NULL, 0);
		e = next(&self->a);
		EXPECT_EQ(all[i].status, e.status) TH_LOG("%u", i);
		EXPECT_EQ(i, e.context);
		for (n = 0; n < 64; n++)
			EXPECT_EQ(0, self->to[n]) TH_LOG("%u", i);
	}
	/* Where what is got goes. */
	ask(&self->a, &self->b, get(gone, 8, 1, 1), (struct weft_match_more) {}, NULL, 0);
	EXPECT_EQ(EFAULT, next(&self->a).status);
	ask(&self->a, &self->b, get(gone, 100000, 1, 1), (struct weft_match_more) {}, NULL, 0);
	EXPECT_EQ(EFAULT, next(&self->a).status);
	munmap(gone, MOST);
}

/* L-4: gets whose memory does not come delay no others; the interface can be closed. */
TEST_F(matching, L_4_get_of_a_page_that_does_not_come)
{
	struct weft_match_event e;
	struct ff_file file;
	struct mi late;
	uint8_t *at;
	unsigned int n;

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(ff_begin(&file));
	at = ff_map(&file);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, mi_open(&late, 1, 0));
	ASSERT_EQ(0, enable(&late));
	ASSERT_EQ(0, enable(&self->b));
	EXPECT_EQ(0, result(&late, region(at, FF_PAGES * FF_PAGE, 0, 1)));
	EXPECT_EQ(0, result(&self->b, region(self->from, MOST, 0, 1)));
	ff_set(&file, 0, FF_LATE);
	ask(&self->a, &late, get(self->to + 65536, 100, 0, 50), (struct weft_match_more) {}, NULL,
	    0);
	ASSERT_TRUE(ff_wait(&file, 0, SOON));
	for (n = 0; n < 40; n++) {
		ask(&self->a, &self->b, get(self->to, n * 1000, 0, n), (struct weft_match_more) {},
		    NULL, 0);
		e = next(&self->a);
		EXPECT_EQ(n, e.context);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(WEFT_MATCH_GOT, next(&self->b).kind);
	}
	mi_close(&late);
	e = next(&self->a);
	EXPECT_EQ(50, e.context);
	EXPECT_NE(0, e.status);
	ff_release(&file, 0);
	munmap(at, FF_PAGES * FF_PAGE);
	ff_end(&file);
}

/* L-4: an interface without room for events waits; no other does, of the same source or not. */
TEST_F(matching, L_4_full_event_ring)
{
	struct weft_match_event e;
	struct mi full;
	unsigned int i;

	ASSERT_EQ(0, mi_open_as(&full, 1, (struct weft_match_open) {
		.entries = 64, .commands = 64, .events = 4,
	}));
	ASSERT_EQ(0, enable(&full));
	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < 20; i++)
		command(&full, buffer(self->to, 64, 0, i));
	for (i = 0; i < 20; i++)
		put(&self->a, &full, message(self->from, 8, 0, i), true);
	/* What it had room for; it needs two places at once. */
	for (i = 0; i < 3; i++)
		EXPECT_EQ(WEFT_MATCH_SENT, next(&self->a).kind);
	EXPECT_EQ(0, next_ms(&self->a, 200).kind);
	for (i = 0; i < 30; i++) {
		command(&self->b, buffer(self->to, 64, 0, i));
		put(&self->a, &self->b, message(self->from, 8, 0, 100 + i), true);
		EXPECT_EQ(WEFT_MATCH_RECEIVED, next(&self->b).kind);
		e = next(&self->a);
		EXPECT_EQ(100 + i, e.context);
	}
	for (i = 0; i < 20; i++) {
		e = next(&full);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(i, e.context);
	}
	for (i = 3; i < 20; i++)
		EXPECT_EQ(0, next(&self->a).status);
	mi_close(&full);
}

/*
 * L-4: an interface that waits for a page delays no other, and can be closed; what waits for it
 * is answered.
 */
TEST_F(matching, L_4_page_that_does_not_come)
{
	struct weft_match_event e;
	struct ff_file file;
	struct mi late;
	int64_t since;
	uint8_t *at;
	unsigned int i;

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(ff_begin(&file));
	at = ff_map(&file);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, mi_open(&late, 1, 0));
	ASSERT_EQ(0, enable(&late));
	ASSERT_EQ(0, enable(&self->b));
	fill(self->from, 100, 3);
	for (i = 0; i < 2; i++) {
		ff_set(&file, i, FF_LATE);
		command(&late, buffer(at + i * FF_PAGE, 100, 0, i));
		put(&self->a, &late, message(self->from, 100, 0, 50 + i), false);
		ASSERT_TRUE(ff_wait(&file, i, SOON));
		for (unsigned int n = 0; n < 20; n++) {
			command(&self->b, buffer(self->to, MOST, 0, n));
			put(&self->a, &self->b, message(self->from, n * 1000, 0, n), false);
			EXPECT_EQ(WEFT_MATCH_RECEIVED, next(&self->b).kind);
			e = next(&self->a);
			EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
			EXPECT_EQ(n, e.context);
		}
		if (i)
			break;
		ff_release(&file, i);
		e = next(&late);
		EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(0, memcmp(self->from, at, 100));
		e = next(&self->a);
		EXPECT_EQ(50, e.context);
		EXPECT_EQ(0, e.status);
	}
	since = wt_now_ms();
	mi_close(&late);
	EXPECT_GT(SOON, wt_now_ms() - since);
	e = next(&self->a);
	EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(51, e.context);
	EXPECT_NE(0, e.status);
	ff_release(&file, i);
	munmap(at, FF_PAGES * FF_PAGE);
	ff_end(&file);
}

/* What is unlinked says how many messages are still written to it. */
TEST_F(matching, L_2_unlinked_while_it_is_pulled)
{
	struct weft_match_command many = buffer(self->to, MOST, 1, 5);
	struct weft_match_command unlink = { .op = WEFT_MATCH_UNLINK, .context = 5 };
	const size_t n = (FF_PAGES - 1) * FF_PAGE;
	struct weft_match_event e;
	struct ff_file file;
	struct mi late;
	uint8_t *at;
	size_t i;

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(ff_begin(&file));
	at = ff_map(&file);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, mi_open(&late, 0, 0));
	ASSERT_EQ(0, enable(&self->b));
	many.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_MANAGE_LOCAL;
	command(&self->b, many);
	ff_set(&file, 0, FF_LATE);
	put(&late, &self->b, message(at, n, 1, 1), false);
	ASSERT_TRUE(ff_wait(&file, 0, SOON));
	/* One behind it is over before it. */
	put(&self->a, &self->b, message(self->from, 10, 1, 2), false);
	e = next(&self->b);
	ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ((uintptr_t)self->to + n, e.address);
	command(&self->b, unlink);
	e = next(&self->b);
	ASSERT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(1, e.data);
	ff_release(&file, 0);
	e = next(&self->b);
	ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(n, e.stored);
	for (i = 0; i < n; i++)
		ASSERT_EQ(ff_byte(i), self->to[i]);
	command(&self->b, buffer(self->to, 10, 1, 5));
	command(&self->b, unlink);
	e = next(&self->b);
	EXPECT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.data);
	mi_close(&late);
	munmap(at, FF_PAGES * FF_PAGE);
	ff_end(&file);
}

/* Memory that is not there: the message ends with an error, at both ends. */
TEST_F(matching, faults)
{
	uint8_t *gone = mmap(NULL, MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct weft_match_event e;
	unsigned int i;

	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < 2; i++) {
		command(&self->b, buffer(gone, MOST, 0, 1));
		put(&self->a, &self->b, message(self->from, i ? 100000 : 100, 0, 1), false);
		e = next(&self->b);
		EXPECT_EQ(WEFT_MATCH_RECEIVED, e.kind);
		EXPECT_EQ(EFAULT, e.status);
		e = next(&self->a);
		EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(EFAULT, e.status);
	}
	/* Of the initiator: a long message is read when its target asks for it. */
	command(&self->b, buffer(self->to, MOST, 0, 1));
	put(&self->a, &self->b, message(gone, 100000, 0, 1), false);
	EXPECT_EQ(EFAULT, next(&self->b).status);
	EXPECT_EQ(EFAULT, next(&self->a).status);
	/* The next message is well. */
	command(&self->b, buffer(self->to, MOST, 0, 1));
	put(&self->a, &self->b, message(self->from, 100000, 0, 1), false);
	EXPECT_EQ(0, next(&self->b).status);
	EXPECT_EQ(0, next(&self->a).status);
	munmap(gone, MOST);
}

/* L-3, strong progress: a long message arrives while the process of its target is stopped. */
TEST_F(matching, L_3_target_is_stopped)
{
	struct mi *shared = mmap(NULL, 2 * WT_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct weft_match_event e;
	int status, round;
	pid_t child;

	fill(self->from, MOST, 9);
	child = fork();
	if (!child) {
		bool good = true;
		struct mi m;

		if (mi_open(&m, 1, 0) || enable(&m))
			_exit(2);
		*shared = m;
		for (round = 0; round < 2; round++) {
			if (!round)
				command(&m, buffer(self->to, MOST, 1, 1));
			/* The slots are consumed: it is in the list. */
			while (*word(&m, WEFT_MATCH_TARGET_CONSUMED_AT) != m.target ||
			       !*word(&m, WEFT_MATCH_IDLE_AT))
				usleep(1000);
			raise(SIGSTOP);
			e = next_ms(&m, 0);
			good &= e.kind == WEFT_MATCH_RECEIVED && e.stored == MOST;
			good &= !memcmp(self->to, self->from, MOST);
			if (!round)
				command(&m, buffer(self->to, MOST, 1, 1));
		}
		_exit(good ? 0 : 3);
	}
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
		ASSERT_TRUE(WIFSTOPPED(status)) TH_LOG("%x", status);
		put(&self->a, shared, message(self->from, MOST, 1, 1), false);
		e = next(&self->a);
		EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
		EXPECT_EQ(0, e.status);
		EXPECT_EQ(MOST, e.stored);
		kill(child, SIGCONT);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	munmap(shared, 2 * WT_PAGE);
}

/* How often threads of interfaces have been woken, and how many of them there are. */
static unsigned long wakeups(unsigned int *threads)
{
	FILE *list = popen("grep -l '^weft/match$' /proc/[0-9]*/comm", "r");
	char name[64], line[128];
	unsigned long sum = 0, one;

	*threads = 0;
	while (list && fgets(name, sizeof(name), list)) {
		FILE *status;

		strcpy(strrchr(name, '/'), "/status");
		status = fopen(name, "r");
		while (status && fgets(line, sizeof(line), status)) {
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &one) == 1) {
				sum += one;
				++*threads;
			}
		}
		if (status)
			fclose(status);
	}
	if (list)
		pclose(list);
	return sum;
}

static struct weft_match_event polled(struct mi *m, struct mi *other)
{
	struct weft_match_event e = {};
	int64_t end = wt_now_ms() + SOON;

	while (!take(m, &e) && wt_now_ms() < end) {
		mi_kick(m, WEFT_MATCH_POLL);
		mi_kick(other, WEFT_MATCH_POLL);
	}
	return e;
}

/* What two programs that poll send each other wakes no thread. */
TEST_F(matching, polled_by_both)
{
	const unsigned int rounds = 2000;
	unsigned long before, after;
	unsigned int i, threads;
	int64_t begin;

	ASSERT_EQ(0, enable(&self->b));
	memset(self->to, 0, MOST);
	command(&self->b, buffer(self->to, 64, 0, 0));
	/* Of this both have a connection, and the pages that they use. */
	put(&self->a, &self->b, message(self->from, 64, 0, 0), true);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, polled(&self->b, &self->a).kind);
	EXPECT_EQ(WEFT_MATCH_SENT, polled(&self->a, &self->b).kind);
	before = wakeups(&threads);
	ASSERT_EQ(2, threads);
	begin = wt_now_ms();
	for (i = 1; i < rounds; i++) {
		size_t length = i % 2 ? 64 : WEFT_MATCH_EAGER;
		struct weft_match_event e;

		fill(self->from, length, i);
		command(&self->b, buffer(self->to, length, i + 100, i));
		put(&self->a, &self->b, message(self->from, length, i + 100, i), i % 2);
		e = polled(&self->b, &self->a);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%u", i);
		ASSERT_EQ(i, e.context);
		ASSERT_EQ(0, memcmp(self->from, self->to, length));
		e = polled(&self->a, &self->b);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", i);
	}
	after = wakeups(&threads);
	ASSERT_EQ(2, threads);
	/* Each comes by every 8 ms. */
	EXPECT_LT(after - before, threads * (wt_now_ms() - begin) / 4 + 50)
		TH_LOG("%lu wake-ups", after - before);
}

/*
 * What a program that polls has found by a command, between two polls, is asked for at once: else
 * a peer that polls as well waits until a work item comes by.
 */
TEST_F(matching, polled_asks_at_once)
{
	const unsigned int rounds = 50, most = 100;
	const size_t length = 32768;
	unsigned int i, n, waited = 0;
	struct weft_match_event e = {};
	int64_t end;

	ASSERT_EQ(0, enable(&self->b));
	memset(self->to, 0, MOST);
	for (i = 0; i < rounds; i++) {
		fill(self->from, length, i);
		put(&self->a, &self->b, message(self->from, length, 7, i), false);
		for (n = 0; n < 20; n++) {
			mi_kick(&self->a, WEFT_MATCH_POLL);
			mi_kick(&self->b, WEFT_MATCH_POLL);
		}
		/* It has come, and no buffer was there. */
		command(&self->b, buffer(self->to, length, 7, i));
		end = wt_now_ms() + SOON;
		for (n = 0; !take(&self->b, &e) && wt_now_ms() < end; n++) {
			mi_kick(&self->b, WEFT_MATCH_POLL);
			mi_kick(&self->a, WEFT_MATCH_POLL);
		}
		waited += n > most;
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%u", i);
		ASSERT_EQ(0, memcmp(self->from, self->to, length));
		ASSERT_EQ(WEFT_MATCH_SENT, polled(&self->a, &self->b).kind);
	}
	/*
	 * Two polls do, and a work item comes by every 8 ms, which are many more. The first round
	 * waits for a connection; in adversarial mode a few others wait for that item, too.
	 */
	EXPECT_LT(waited, rounds / 2) TH_LOG("%u of %u rounds waited", waited, rounds);
}

/* What comes for a program that has polled, and does not any more, is there a little later. */
TEST_F(matching, polled_once)
{
	const size_t length = 65536;
	struct weft_match_event e;
	int i;

	ASSERT_EQ(0, enable(&self->b));
	for (i = 0; i < 10; i++) {
		fill(self->from, length, i);
		command(&self->b, buffer(self->to, length, 7, i));
		mi_kick(&self->b, WEFT_MATCH_POLL);
		mi_kick(&self->a, WEFT_MATCH_POLL);
		/* Before it sleeps it says so, or not. */
		if (i % 2) {
			mi_kick(&self->a, WEFT_MATCH_REST);
			mi_kick(&self->b, WEFT_MATCH_REST);
		}
		put(&self->a, &self->b, message(self->from, length, 7, i), false);
		e = next(&self->b);
		ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind) TH_LOG("%d", i);
		ASSERT_EQ(length, e.stored);
		ASSERT_EQ(0, memcmp(self->from, self->to, length));
		ASSERT_EQ(WEFT_MATCH_SENT, next(&self->a).kind);
	}
}

/* A process that ends with messages under way: they end. */
TEST_F(matching, target_exits)
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

		if (mi_open(&m, 1, 0) || enable(&m))
			_exit(2);
		*shared = m;
		raise(SIGSTOP);
		_exit(2);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	/* Headers in the unexpected list, and what is refused: there is no overflow memory. */
	for (i = 0; i < 10; i++)
		put(&self->a, shared, message(self->from, 100000, i, i), false);
	for (; i < 20; i++)
		put(&self->a, shared, message(self->from, 100, i, i), false);
	EXPECT_EQ(0, next_ms(&self->a, 200).kind);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	for (i = 0; i < 20; i++) {
		e = next(&self->a);
		ASSERT_EQ(WEFT_MATCH_SENT, e.kind) TH_LOG("%u", i);
		EXPECT_EQ(ENXIO, e.status);
	}
	munmap(shared, WT_PAGE);
}

/* After exec() nothing is written, although the file is open. */
TEST_F(matching, target_calls_exec)
{
	struct mi *shared = mmap(NULL, WT_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct weft_match_event e;
	int status, pipes[2];
	char byte;
	pid_t child;

	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
	child = fork();
	if (!child) {
		struct mi m;

		if (mi_open(&m, 1, 0) || enable(&m))
			_exit(2);
		command(&m, buffer(self->to, MOST, 1, 1));
		command(&m, buffer(self->to, MOST, 1, 2));
		while (*word(&m, WEFT_MATCH_TARGET_CONSUMED_AT) != m.target)
			usleep(1000);
		*shared = m;
		fcntl(m.fd, F_SETFD, 0);
		execlp("sleep", "sleep", "1000", NULL);
		_exit(2);
	}
	close(pipes[1]);
	/* Closed by exec(). */
	ASSERT_EQ(0, read(pipes[0], &byte, 1));
	usleep(100000);
	put(&self->a, shared, message(self->from, 100, 1, 1), false);
	e = next(&self->a);
	EXPECT_EQ(WEFT_MATCH_SENT, e.kind);
	EXPECT_EQ(ESRCH, e.status);
	put(&self->a, shared, message(self->from, 100000, 1, 2), false);
	e = next(&self->a);
	EXPECT_EQ(ESRCH, e.status);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	close(pipes[0]);
	munmap(shared, WT_PAGE);
}

TEST_HARNESS_MAIN
