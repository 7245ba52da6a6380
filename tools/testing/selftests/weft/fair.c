// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs of one link beside each other: none waits for what another has posted,
 * and each gets its share. What is counted is completions, not time.
 */
#include <string.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

#define PAIRS		8
#define BULK		(1024 << 10)
#define SMALL		(64 << 10)

FIXTURE(fair) {
	struct we_end a[PAIRS], b[PAIRS];
	unsigned int done[PAIRS];
};

FIXTURE_SETUP(fair)
{
	ASSERT_TRUE(wt_wait_ready(60000));
	for (int i = 0; i < PAIRS; i++) {
		size_t bytes = i ? 128 << 10 : BULK;

		ASSERT_TRUE(we_begin(&self->a[i], 0, bytes));
		ASSERT_TRUE(we_begin(&self->b[i], 1, bytes));
		ASSERT_TRUE(we_join(&self->a[i], &self->b[i]));
		/* They have joined when this is over. */
		ASSERT_TRUE(we_exchange(&self->a[i], &self->b[i], 0));
	}
}

FIXTURE_TEARDOWN(fair)
{
	for (int i = 0; i < PAIRS; i++) {
		we_end(&self->a[i]);
		we_end(&self->b[i]);
	}
}

/* How many more of @e's requests are done; false if one of them has failed. */
static bool count(struct we_end *e, unsigned int *done)
{
	struct weft_cqe cqe;

	while (we_poll(e, &cqe)) {
		if (cqe.status != WEFT_WC_SUCCESS || cqe.wr_id != *done) {
			printf("# %llu, not %u, ended with %u\n", (unsigned long long)cqe.wr_id,
			       *done, cqe.status);
			return false;
		}
		++*done;
	}
	return true;
}

/* Sixty-four writes of 1 MiB are before it, and a short message goes at once. */
TEST_F_TIMEOUT(fair, short_beside_long, 300)
{
	const unsigned int most = WE_ENTRIES, messages = 16;
	struct we_end *a = self->a, *b = self->b;
	unsigned int *done = &self->done[0], before, worst = 0, n;

	for (n = 0; n < most; n++)
		we_post(a, n, WEFT_OP_WRITE, 0, BULK, WE_BASE, b->stag);
	we_kick(a);
	for (n = 0; n < messages; n++) {
		before = *done;
		ASSERT_TRUE(we_exchange(&self->a[1 + n % 2], &self->b[1 + n % 2], n % 2));
		ASSERT_TRUE(count(a, done));
		if (*done - before > worst)
			worst = *done - before;
	}
	TH_LOG("%u messages while %u of %u writes went, %u at most for one", n, *done, most, worst);
	/* How many go meanwhile is the scheduler's; without fairness all would. */
	EXPECT_GT(most, *done);
	while (*done < most) {
		we_kick(a);
		we_kick(b);
		ASSERT_TRUE(count(a, done));
	}
}

/* Who has nothing to receive into holds up his own peer only. */
TEST_F_TIMEOUT(fair, beside_one_that_does_not_receive, 300)
{
	struct we_end *a = self->a, *b = self->b;
	unsigned int *done = &self->done[0];

	for (unsigned int n = 0; n < WE_ENTRIES; n++)
		we_post(a, n, WEFT_OP_SEND, 0, n % 2 ? BULK : 64, 0, 0);
	for (unsigned int n = 0; n < 200; n++) {
		unsigned int i = 1 + n % (PAIRS - 1);

		we_kick(a);
		ASSERT_TRUE(we_exchange(&self->a[i], &self->b[i], n)) TH_LOG("message %u", n);
	}
	ASSERT_TRUE(count(a, done));
	EXPECT_EQ(0, *done);
	for (unsigned int n = 0; n < WE_ENTRIES; n++)
		we_post_recv(b, n, 0, BULK);
	while (*done < WE_ENTRIES) {
		we_kick(a);
		we_kick(b);
		ASSERT_TRUE(count(a, done));
	}
}

/* When the first is through, each of the others has gone more than half as far meanwhile. */
TEST_F_TIMEOUT(fair, as_much_for_each, 300)
{
	unsigned int least = WE_ENTRIES, first = PAIRS, start = 0, i;

	for (i = 0; i < PAIRS; i++)
		for (unsigned int n = 0; n < WE_ENTRIES; n++)
			we_post(&self->a[i], n, WEFT_OP_WRITE, 0, SMALL, WE_BASE,
				self->b[i].stag);
	for (i = 0; i < PAIRS; i++)
		we_kick(&self->a[i]);
	/* The first may have had a start: from here on all are known. */
	for (i = 0; i < PAIRS; i++) {
		ASSERT_TRUE(count(&self->a[i], &self->done[i]));
		if (self->done[i] > start)
			start = self->done[i];
	}
	while (first == PAIRS) {
		we_kick(&self->a[0]);
		we_kick(&self->b[0]);
		for (i = 0; i < PAIRS; i++) {
			ASSERT_TRUE(count(&self->a[i], &self->done[i]));
			if (self->done[i] == WE_ENTRIES)
				first = i;
		}
	}
	for (i = 0; i < PAIRS; i++)
		if (self->done[i] < least)
			least = self->done[i];
	TH_LOG("%u of %u at least, after a start of %u", least, WE_ENTRIES, start);
	EXPECT_LE((WE_ENTRIES - start) / 2, least);
}

TEST_HARNESS_MAIN
