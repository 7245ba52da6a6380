// SPDX-License-Identifier: GPL-2.0
/*
 * What a message costs on the wire, counted by a port in traced mode: at most
 * two posted TLPs up to 48 bytes, no read, and no interrupt while the receiver
 * looks. Skipped where the port does not count.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "weft_test.h"

#define MESSAGES 256

/* As many rounds are never all disturbed. */
#define ROUNDS 16

FIXTURE(tlp) {
	struct wt_chan a, b;
};

static uint64_t count(unsigned int port, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "counters/%s", name);
	return wt_attr_u64(port, path);
}

/* Whether a message moves the counter: that is what tracing is. */
static bool traced(struct wt_chan *x, struct wt_chan *y)
{
	uint64_t before = count(0, "tx_writes");
	uint8_t in[48];
	bool ok;

	wt_send_inline(x, "?", 1, 0);
	if (!wt_spin(y, 5000))
		return false;
	wt_take(y, in, NULL);
	ok = count(0, "tx_writes") != before;
	wt_give_credit(y);
	return ok;
}

/*
 * Whether nothing is written any more for earlier programs: an engine whose queue pairs have
 * gone looks on for a while, and then asks to be rung.
 */
static bool quiet(void)
{
	uint64_t writes[2] = { count(0, "tx_writes"), count(1, "tx_writes") };
	int64_t end = wt_now_ms() + 30000;

	while (wt_now_ms() < end) {
		uint64_t now[2];

		usleep(500000);
		now[0] = count(0, "tx_writes");
		now[1] = count(1, "tx_writes");
		if (!memcmp(now, writes, sizeof(now)))
			return true;
		memcpy(writes, now, sizeof(now));
	}
	return false;
}

FIXTURE_SETUP(tlp)
{
	bool on;

	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(wt_pair(&self->a, &self->b, 512, 8192));
	on = traced(&self->a, &self->b);
	/* Who switched tracing on says so, lest nothing is tested. */
	if (!on && !getenv("WEFT_TRACED"))
		SKIP(return, "the port is not in traced mode");
	ASSERT_TRUE(on);
	ASSERT_TRUE(quiet());
}

FIXTURE_TEARDOWN(tlp)
{
	wt_close(&self->a);
	wt_close(&self->b);
}

/* Sends five messages of @len bytes, has them received, and returns the writes that they took. */
static uint64_t five(struct wt_chan *from, struct wt_chan *to, uint32_t len)
{
	static const uint8_t data[48] = { 1, 2, 3 };
	uint64_t writes = count(0, "tx_writes");
	uint8_t in[48];

	for (int i = 0; i < 5; i++)
		wt_send_inline(from, data, len, i);
	writes = count(0, "tx_writes") - writes;
	for (int i = 0; i < 5; i++) {
		if (!wt_spin(to, 5000) || wt_take(to, in, NULL) != len)
			return 0;
	}
	wt_give_credit(to);
	return writes;
}

/*
 * Each access to a register closes the line that a CPU combines, and so does its age: interrupts,
 * heartbeats and the timer of the links, wherever in a message they come, add to what is counted.
 * Nothing takes from it, so the least of some rounds is what the messages cost.
 */
TEST_F(tlp, a_short_message_is_two_posted_writes)
{
	for (uint32_t len = 1; len <= WEFT_CELL_INLINE; len++) {
		uint64_t reads = count(0, "tx_reads"), least = UINT64_MAX;
		uint64_t bells = count(0, "tx_doorbells");

		for (int round = 0; round < ROUNDS && least > 10; round++) {
			uint64_t writes = five(&self->a, &self->b, len);

			ASSERT_NE(0, writes) TH_LOG("%u bytes: lost, or nothing was counted", len);
			if (writes < least)
				least = writes;
		}
		EXPECT_EQ(10, least) TH_LOG("%u bytes", len);
		EXPECT_EQ(reads, count(0, "tx_reads"));
		EXPECT_EQ(bells, count(0, "tx_doorbells"));
	}
}

TEST_F(tlp, a_busy_receiver_takes_no_interrupt)
{
	uint64_t rung = count(1, "rx_doorbells"), reads = count(1, "tx_reads");
	uint64_t mail = count(1, "rx_messages"), irqs = count(1, "interrupts");
	uint64_t writes = count(1, "tx_writes");
	uint8_t in[48];

	for (int i = 0; i < MESSAGES; i++) {
		wt_send_inline(&self->a, "0123456789", 10, i);
		wt_kick_receiver(&self->a);
		ASSERT_TRUE(wt_spin(&self->b, 5000));
		ASSERT_EQ(10, wt_take(&self->b, in, NULL));
		if (i % 16 == 15)
			wt_give_credit(&self->b);
	}
	/* The event index starts at 0: the first cell may ring once. */
	EXPECT_LE(count(1, "rx_doorbells") - rung, 1);
	EXPECT_EQ(reads, count(1, "tx_reads"));
	EXPECT_EQ(MESSAGES / 16, count(1, "tx_writes") - writes);
	/* Heartbeats come by the mailbox meanwhile, with an interrupt each. */
	irqs = count(1, "interrupts") - irqs;
	EXPECT_LE(irqs, count(1, "rx_messages") - mail + 1);
}

TEST_HARNESS_MAIN
