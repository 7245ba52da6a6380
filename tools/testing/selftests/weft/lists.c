// SPDX-License-Identifier: GPL-2.0
/*
 * L-1, L-2, L-4, L-5: which entries an interface has, which of them a message finds, and the turns
 * of commands and messages. Ports 0 and 1, joined by link 0 of each; and port 0 alone, whose peer
 * is itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "fuse_file.h"
#include "mi.h"
#include "weft_test.h"

#define BYTES	4096

FIXTURE(lists) {
	struct mi a, b;		/* of port 0, and of port 1 */
	uint8_t from[BYTES], to[BYTES];
};

FIXTURE_VARIANT(lists) {
	bool loopback;
};

FIXTURE_VARIANT_ADD(lists, joined)
{
	.loopback = false,
};

FIXTURE_VARIANT_ADD(lists, within)
{
	.loopback = true,
};

FIXTURE_SETUP(lists)
{
	self->a.fd = -1;
	self->b.fd = -1;
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(20000));
	ASSERT_EQ(0, mi_open(&self->a, 0, 0));
	ASSERT_EQ(0, mi_open(&self->b, 1, 0));
}

FIXTURE_TEARDOWN(lists)
{
	mi_close(&self->a);
	mi_close(&self->b);
}

/* A command for what has a number. */
static struct weft_match_command unlink_of(uint64_t context)
{
	return (struct weft_match_command) { .op = WEFT_MATCH_UNLINK, .context = context };
}

static long open_small(struct mi *m, unsigned int entries)
{
	return mi_open_as(m, 0, (struct weft_match_open) {
		.entries = entries, .commands = 64, .events = 64,
	});
}

/* L-1: an interface has as many entries as it was opened for, in all of its lists. */
TEST(L_1_entries_of_an_interface)
{
	static uint8_t memory[BYTES];
	const unsigned int count = 8;
	struct mi few;
	unsigned int i;

	ASSERT_EQ(0, open_small(&few, count));
	for (i = 0; i < count; i++)
		EXPECT_EQ(0, result(&few, i % 2 ? overflow(memory, BYTES, i) :
						  buffer(memory, BYTES, i, i)));
	EXPECT_EQ(ENOSPC, result(&few, buffer(memory, BYTES, 90, 90)));
	EXPECT_EQ(ENOSPC, result(&few, overflow(memory, BYTES, 91)));
	/* What is given back can be had again. */
	for (i = 0; i < count; i++) {
		EXPECT_EQ(0, result(&few, unlink_of(i)));
		EXPECT_EQ(0, result(&few, buffer(memory, BYTES, i, 100 + i)));
		EXPECT_EQ(ENOSPC, result(&few, buffer(memory, BYTES, 92, 92)));
	}
	mi_close(&few);
}

/* L-1: a port has the entries of four engines, and has them again when an interface is closed. */
TEST(L_1_entries_of_a_port)
{
	struct mi all[4], more;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		ASSERT_EQ(0, open_small(&all[i], WEFT_MATCH_MAX_ENTRIES)) TH_LOG("%u", i);
	EXPECT_EQ(-ENOSPC, open_small(&more, 1));
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		mi_close(&all[i]);
		ASSERT_EQ(0, open_small(&all[i], WEFT_MATCH_MAX_ENTRIES - 1)) TH_LOG("%u", i);
		ASSERT_EQ(0, open_small(&more, 1));
		mi_close(&more);
	}
	for (i = 0; i < ARRAY_SIZE(all); i++)
		mi_close(&all[i]);
}

/* What receives are for: more combinations of source and ignore bits than there are classes. */
static const struct {
	uint64_t ignore;
	bool is_any;
} classes[] = {
	{ 0, true }, { 0, false }, { 0xf, true }, { 0xf, false }, { 0xff, true }, { 0xff, false },
};

static struct weft_match_command of_class(const struct mi *source, unsigned int class, void *at,
					  size_t length, uint64_t bits, uint64_t context)
{
	struct weft_match_command c = buffer(at, length, bits, context);

	c.ignore = classes[class].ignore;
	if (!classes[class].is_any) {
		c.flags &= ~WEFT_MATCH_ANY_SOURCE;
		c.hwid = source->at.hwid;
		c.endpoint = source->at.endpoint;
	}
	return c;
}

#define HOLDERS		128
#define PROBERS		80
#define CLASSES		4	/* of those above, that are found by hashing */
#define EACH		32	/* match bits */

/*
 * L-1: an interface has entries of its own. Entries of an engine are found by hashing, by keys that
 * interfaces have in common but for their numbers: of as many some are in the same place.
 */
TEST(L_1_entries_of_others)
{
	static struct mi holders[HOLDERS], probers[PROBERS];
	static uint64_t secret = 1, seen;
	unsigned int n, i, k, asked, found = 0;
	struct weft_match_command c;
	struct weft_match_event e;
	struct mi a;

	wt_loopback = true;
	ASSERT_TRUE(wt_wait_ready(20000));
	ASSERT_EQ(0, mi_open(&a, 0, 0));
	/* One after the other, they are the engines' by turns. */
	for (n = 0; n < HOLDERS; n++)
		ASSERT_EQ(0, open_small(&holders[n], EACH * CLASSES));
	for (n = 0; n < PROBERS; n++)
		ASSERT_EQ(0, open_small(&probers[n], EACH * CLASSES));
	for (n = 0; n < HOLDERS + PROBERS; n++) {
		struct mi *m = n < HOLDERS ? &holders[n] : &probers[n - HOLDERS];

		ASSERT_EQ(0, enable(m));
		for (i = 0; i < (n < HOLDERS ? EACH : 1) * CLASSES; i++) {
			const uint64_t bits = n < HOLDERS ? 1 + i / CLASSES : 1 << 16;

			c = of_class(&a, i % CLASSES, &secret, sizeof(secret), bits << 8, 1);
			c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_READABLE | WEFT_MATCH_SILENT;
			command(m, c);
		}
		while (*word(m, WEFT_MATCH_TARGET_CONSUMED_AT) != m->target)
			usleep(100);
	}
	/* No prober has memory for any of these. */
	for (n = 0; n < PROBERS; n++) {
		for (i = 0, asked = 0; i < EACH; i++, asked++) {
			c = message(&seen, sizeof(seen), (1 + i) << 8, i);
			c.op = WEFT_MATCH_GET;
			ask(&a, &probers[n], c, (struct weft_match_more) {}, NULL, 0);
		}
		for (i = 0; i < asked; i++) {
			e = next(&a);
			ASSERT_EQ(WEFT_MATCH_SENT, e.kind);
			found += e.status != ENOENT;
		}
	}
	EXPECT_EQ(0, found);
	EXPECT_EQ(0, seen);
	/* Each of those that have it finds it. */
	for (n = 0; n < HOLDERS; n++) {
		k = 1 + n % EACH;
		seen = 0;
		c = message(&seen, sizeof(seen), k << 8, n);
		c.op = WEFT_MATCH_GET;
		ask(&a, &holders[n], c, (struct weft_match_more) {}, NULL, 0);
		EXPECT_EQ(0, next(&a).status);
		EXPECT_EQ(secret, seen);
	}
	for (n = 0; n < HOLDERS; n++)
		mi_close(&holders[n]);
	for (n = 0; n < PROBERS; n++)
		mi_close(&probers[n]);
	mi_close(&a);
}

/*
 * L-2: of all receives that a message matches it finds the oldest, whichever combination of source
 * and ignore bits each is for, and whichever was used first.
 */
TEST_F(lists, L_2_oldest_of_all)
{
	const unsigned int count = ARRAY_SIZE(classes);
	struct weft_match_event e;
	unsigned int i, round;

	ASSERT_EQ(0, enable(&self->b));
	/* For other messages: now they are known in this order. */
	for (i = 0; i < count; i++)
		command(&self->b, of_class(&self->a, i, self->to, 8, 0x5000 + i * 0x100, 90 + i));
	for (round = 0; round < 2; round++) {
		for (i = 0; i < count; i++) {
			const unsigned int class = round ? i : count - 1 - i;

			command(&self->b, of_class(&self->a, class, self->to, 8, 0x35, i));
		}
		for (i = 0; i < count; i++) {
			put(&self->a, &self->b, message(self->from, 8, 0x35, i), true);
			e = next(&self->b);
			ASSERT_EQ(WEFT_MATCH_RECEIVED, e.kind);
			EXPECT_EQ(i, e.context) TH_LOG("round %u", round);
			EXPECT_EQ(0, next(&self->a).status);
		}
	}
}

/* Messages that a cached entry takes at once, while the first is being stored. */
#define AT_ONCE	17

/*
 * L-4: commands and messages take turns. A message that waits for a place, as many others are being
 * delivered, is older than a command that has come since: it goes first when there is a place.
 */
TEST_F(lists, L_4_turns)
{
	struct weft_match_command c;
	struct weft_match_event e;
	struct ff_file file;
	struct mi any;
	unsigned int i;
	uint8_t *at;

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(ff_begin(&file));
	at = ff_map(&file);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, mi_open(&any, 1, WEFT_MATCH_ANY));
	ASSERT_EQ(0, enable(&any));
	ASSERT_EQ(0, enable(&self->b));
	c = buffer(at, FF_PAGE, 0, 1);
	c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_SILENT;
	EXPECT_EQ(0, result(&any, c));
	/* The entry is cached with the first one. */
	put(&self->a, &any, message(self->from, 0, 0, 0), false);
	EXPECT_EQ(0, next(&self->a).status);
	ff_set(&file, 0, FF_LATE);
	put(&self->a, &any, message(self->from, 8, 0, 1), true);
	ASSERT_TRUE(ff_wait(&file, 0, SOON));
	for (i = 1; i < AT_ONCE + 1; i++)
		put(&self->a, &any, message(self->from, 0, 0, 1 + i), false);
	/* They are sent; and what is sent behind them has come, so they have. */
	while (*word(&self->a, WEFT_MATCH_INITIATOR_CONSUMED_AT) != self->a.initiator ||
	       !*word(&self->a, WEFT_MATCH_IDLE_AT))
		usleep(1000);
	command(&self->b, buffer(self->to, 8, 0, 2));
	put(&self->a, &self->b, message(self->from, 8, 0, 99), true);
	EXPECT_EQ(WEFT_MATCH_RECEIVED, next(&self->b).kind);
	EXPECT_EQ(99, next(&self->a).context);
	command(&any, unlink_of(1));
	ff_release(&file, 0);
	e = next(&any);
	ASSERT_EQ(WEFT_MATCH_COMMAND, e.kind);
	EXPECT_EQ(0, e.status);
	EXPECT_EQ(1 + AT_ONCE + 1, *word(&any, WEFT_MATCH_RECEIVED_AT));
	/* What came too late, if anything, has another buffer. */
	command(&any, c);
	for (i = 0; i < AT_ONCE + 1; i++)
		EXPECT_EQ(0, next(&self->a).status);
	mi_close(&any);
	munmap(at, FF_PAGES * FF_PAGE);
	ff_end(&file);
}

/* L-5: a buffer that was cached gets no message when it is unlinked, or its interface disabled. */
TEST_F(lists, L_5_given_up)
{
	struct weft_match_command c;
	struct mi any;
	unsigned int i;

	ASSERT_EQ(0, mi_open(&any, 1, WEFT_MATCH_ANY));
	ASSERT_EQ(0, enable(&any));
	for (i = 0; i < 3; i++) {
		c = buffer(self->to + 8 * i, 8, 0, i);
		c.flags |= WEFT_MATCH_PERSISTENT | WEFT_MATCH_SILENT;
		EXPECT_EQ(0, result(&any, c));
	}
	memset(self->to, 0, BYTES);
	for (i = 0; i < 3 * 4; i++) {
		const unsigned int n = i / 4;

		if (n && i % 4 == 0)
			EXPECT_EQ(0, result(&any, unlink_of(n - 1)));
		self->from[0] = 1 + i;
		put(&self->a, &any, message(self->from, 8, i, i), true);
		EXPECT_EQ(0, next(&self->a).status);
		EXPECT_EQ(1 + i, self->to[8 * n]) TH_LOG("message %u", i);
		if (n)
			EXPECT_EQ(4 * n, self->to[8 * (n - 1)]) TH_LOG("message %u", i);
	}
	EXPECT_EQ(0, result(&any, (struct weft_match_command) { .op = WEFT_MATCH_DISABLE }));
	put(&self->a, &any, message(self->from, 8, 0, 1), true);
	EXPECT_EQ(ESHUTDOWN, next(&self->a).status);
	EXPECT_EQ(0, result(&any, unlink_of(2)));
	mi_close(&any);
}

TEST_HARNESS_MAIN
