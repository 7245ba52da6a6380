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

#define MOST	1048576

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
		{ .flags = 2, .entries = 1, .commands = 2, .events = 4 },
		{ .entries = 0, .commands = 2, .events = 4 },
		{ .entries = WEFT_MATCH_MAX_ENTRIES + 1, .commands = 2, .events = 4 },
		{ .entries = 1, .commands = 3, .events = 4 },
		{ .entries = 1, .commands = 2, .events = 2 },
		{ .entries = 1, .commands = 2 * WEFT_MATCH_MAX_SLOTS, .events = 4 },
		{ .entries = 1, .commands = 2, .events = 4, .traffic_class = 4 },
	};
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
	ring.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->a.fd, WEFT_MATCH_KICK, &ring));
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
	c.flags &= ~WEFT_MATCH_QUIET;
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
