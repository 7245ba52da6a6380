// SPDX-License-Identifier: GPL-2.0
/*
 * What a message costs on the wire, counted by a port in traced mode: at most
 * two posted TLPs up to 48 bytes, no read, and no interrupt while the receiver
 * looks. Skipped where the port does not count.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#define BYTES	64

FIXTURE(socket) {
	struct wt_chan a, b;
	int listener, from, to;
};

FIXTURE_VARIANT(socket) {
	uint32_t protocol;
};

FIXTURE_VARIANT_ADD(socket, pushed)
{
	.protocol = 0,
};

FIXTURE_VARIANT_ADD(socket, pulled)
{
	.protocol = WEFT_PULL_WQE | WEFT_PULL_DATA,
};

/* A request of port 0 that waits at port 1; false if none comes. */
static bool request(int listener, int fd, unsigned int service, uint32_t protocol)
{
	struct weft_sock_connect c = {
		.size = sizeof(c), .service = service, .protocol = protocol,
	};
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return wt_ioctl(fd, WEFT_SOCK_CONNECT, &c) == -EINPROGRESS && poll(&p, 1, 10000) == 1;
}

FIXTURE_SETUP(socket)
{
	struct weft_sock_listen l = {
		.size = sizeof(l), .service = wt_service(), .backlog = 1,
	};
	struct weft_sock_accept a = { .size = sizeof(a) };
	struct pollfd p = { .events = POLLOUT };
	bool on;

	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(wt_pair(&self->a, &self->b, 512, 8192));
	on = traced(&self->a, &self->b);
	if (!on && !getenv("WEFT_TRACED"))
		SKIP(return, "the port is not in traced mode");
	ASSERT_TRUE(on);
	self->listener = wt_open(1, 0);
	self->from = wt_open(0, O_NONBLOCK);
	self->to = wt_open(1, O_NONBLOCK);
	ASSERT_EQ(0, wt_ioctl(self->listener, WEFT_SOCK_LISTEN, &l));
	ASSERT_TRUE(request(self->listener, self->from, l.service, variant->protocol));
	a.listen_fd = self->listener;
	ASSERT_EQ(0, wt_ioctl(self->to, WEFT_SOCK_ACCEPT, &a));
	p.fd = self->from;
	ASSERT_EQ(1, poll(&p, 1, 10000));
	ASSERT_TRUE(quiet());
}

FIXTURE_TEARDOWN(socket)
{
	wt_close(&self->a);
	wt_close(&self->b);
	close(self->from);
	close(self->to);
	close(self->listener);
}

/* TLPs of both ports: posted writes and doorbells, and reads. */
struct tlps {
	uint64_t posted, reads;
};

static struct tlps tlps(void)
{
	struct tlps sum = { 0, 0 };

	for (unsigned int port = 0; port < 2; port++) {
		sum.posted += count(port, "tx_writes") + count(port, "tx_doorbells");
		sum.reads += count(port, "tx_reads");
	}
	return sum;
}

/*
 * S-2, Figs 20 and 21: pushed, bytes and a count go one way, and what says that there are
 * receive WQEs again the other, for several messages at once; nothing is read. Pulled, a count
 * goes one way, the WQE and the bytes are read, a word of 8 at a time, and the completion goes
 * back.
 */
TEST_F(socket, messages_of_64_bytes)
{
	struct tlps least = { UINT64_MAX, UINT64_MAX }, before, after;
	char out[BYTES] = "", in[BYTES];

	for (int round = 0; round < ROUNDS; round++) {
		before = tlps();
		for (int i = 0; i < 8; i++) {
			ssize_t got;

			ASSERT_EQ(BYTES, write(self->from, out, BYTES));
			do
				got = read(self->to, in, BYTES);
			while (got < 0 && errno == EAGAIN);
			ASSERT_EQ(BYTES, got);
		}
		after = tlps();
		if (after.posted - before.posted < least.posted)
			least.posted = after.posted - before.posted;
		if (after.reads - before.reads < least.reads)
			least.reads = after.reads - before.reads;
	}
	ksft_print_msg("%.2f posted TLPs a message, %.2f reads\n", least.posted / 8.0,
		       least.reads / 8.0);
	EXPECT_GE(8 * 31 / 10, least.posted);
	EXPECT_EQ(variant->protocol ? 8 * (2 + BYTES / 8) : 0, least.reads);
}

/* S-1, Fig. 19: a request that is pulled is read by the listener, one that is pushed is not. */
TEST_F(socket, a_request_is_fetched_or_stored)
{
	struct weft_sock_listen l = {
		.size = sizeof(l), .service = wt_service(), .backlog = 1,
	};
	int listener = wt_open(1, 0), fd = wt_open(0, O_NONBLOCK);
	uint64_t reads = count(1, "tx_reads");

	ASSERT_EQ(0, wt_ioctl(listener, WEFT_SOCK_LISTEN, &l));
	ASSERT_TRUE(request(listener, fd, l.service, variant->protocol));
	reads = count(1, "tx_reads") - reads;
	EXPECT_EQ(variant->protocol != 0, reads != 0)
		TH_LOG("%llu reads", (unsigned long long)reads);
	close(fd);
	close(listener);
}

TEST_HARNESS_MAIN
