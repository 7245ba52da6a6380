// SPDX-License-Identifier: GPL-2.0
/*
 * A channel as its two users see it: messages by stores alone, credits, sleep
 * and wake-up, ends of life, what a mapping allows, and what a hostile user of
 * one channel can do to another. Ports 0 and 1, joined by link 0 of each; and port 0
 * alone, whose peer is itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "weft_test.h"

#define CELLS	16
#define BULK	8192

FIXTURE(channel) {
	struct wt_chan a, b;
};

FIXTURE_VARIANT(channel) {
	bool loopback;
};

FIXTURE_VARIANT_ADD(channel, over_a_link)
{
	.loopback = false,
};

FIXTURE_VARIANT_ADD(channel, loopback)
{
	.loopback = true,
};

FIXTURE_SETUP(channel)
{
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(wt_pair(&self->a, &self->b, CELLS, BULK));
}

FIXTURE_TEARDOWN(channel)
{
	wt_close(&self->a);
	wt_close(&self->b);
}

static void fill(uint8_t *buf, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		buf[i] = seed >> 24;
	}
}

/* One message from @x to @y, checked; @len may be more than fits a cell. */
static bool carry(struct wt_chan *x, struct wt_chan *y, uint32_t len, uint32_t seed)
{
	static uint8_t out[1 << 20], in[1 << 20];
	uint32_t got, at;
	uint64_t tag = 0;

	fill(out, len, seed);
	if (len <= WEFT_CELL_INLINE)
		wt_send_inline(x, out, len, seed);
	else
		wt_send_bulk(x, out, len, seed);
	if (!wt_spin(y, 5000)) {
		ksft_print_msg("%u bytes did not come\n", len);
		return false;
	}
	got = wt_take(y, in, &tag);
	if (got != len || tag != seed || memcmp(in, out, len)) {
		for (at = 0; at < len && in[at] == out[at];)
			at++;
		ksft_print_msg("%u bytes came as %u, tag %u as %llu, the first bad one is %u\n",
			       len, got, seed, (unsigned long long)tag, at);
		return false;
	}
	wt_give_credit(y);
	if (wt_credit(x) == y->consumed)
		return true;
	ksft_print_msg("credit for %llu came as %llu\n", (unsigned long long)y->consumed,
		       (unsigned long long)wt_credit(x));
	return false;
}

TEST_F(channel, starts_empty)
{
	EXPECT_EQ(0, wt_peek(&self->a));
	EXPECT_EQ(0, wt_peek(&self->b));
	EXPECT_EQ(0, wt_credit(&self->a));
	for (uint64_t i = 0; i < self->a.info.area_bytes; i++) {
		/* The control page may hold what the peer's kernel arms. */
		if (i < WEFT_CHAN_CELLS_AT)
			continue;
		ASSERT_EQ(0, self->a.area[i]) TH_LOG("byte %lu", (unsigned long)i);
	}
	EXPECT_EQ(WEFT_CHAN_OPEN, self->a.status->state);
	EXPECT_EQ(WEFT_REASON_NONE, self->a.status->reason);
}

TEST_F(channel, inline_messages_of_every_length)
{
	for (uint32_t len = 0; len <= WEFT_CELL_INLINE; len++) {
		ASSERT_TRUE(carry(&self->a, &self->b, len, len + 1)) TH_LOG("%u bytes", len);
		ASSERT_TRUE(carry(&self->b, &self->a, len, len + 7)) TH_LOG("%u bytes back", len);
	}
}

TEST_F(channel, bulk_messages)
{
	static const uint32_t lens[] = { 49, 63, 64, 65, 127, 4095, 4096, 4097, 8191, 8192 };

	for (int lap = 0; lap < 20; lap++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
			ASSERT_TRUE(carry(&self->a, &self->b, lens[i], lap * 100 + i))
				TH_LOG("%u bytes", lens[i]);
		}
	}
}

TEST_F(channel, many_laps)
{
	for (uint32_t i = 0; i < CELLS * 300; i++) {
		ASSERT_TRUE(carry(&self->a, &self->b, i % 100, i)) TH_LOG("message %u", i);
	}
}

TEST_F(channel, a_full_ring_in_one_go)
{
	uint8_t buf[48];

	for (int lap = 0; lap < 4; lap++) {
		for (uint32_t i = 0; i < CELLS; i++) {
			fill(buf, 48, i);
			wt_send_inline(&self->a, buf, 48, i);
		}
		for (uint32_t i = 0; i < CELLS; i++) {
			uint8_t want[48];
			uint64_t tag;

			ASSERT_TRUE(wt_spin(&self->b, 5000));
			ASSERT_EQ(48, wt_take(&self->b, buf, &tag));
			fill(want, 48, i);
			ASSERT_EQ(i, tag);
			ASSERT_EQ(0, memcmp(buf, want, 48));
		}
		EXPECT_EQ(0, wt_peek(&self->b));
		wt_give_credit(&self->b);
	}
}

TEST_F(channel, poll_says_what_is_there)
{
	EXPECT_EQ(POLLOUT, wt_poll(&self->a, POLLIN | POLLOUT, 0));
	EXPECT_EQ(0, wt_poll(&self->b, POLLIN, 0));
	wt_send_inline(&self->a, "x", 1, 0);
	EXPECT_EQ(POLLIN, wt_poll(&self->b, POLLIN, 0));
	for (int i = 1; i < CELLS; i++)
		wt_send_inline(&self->a, "x", 1, 0);
	EXPECT_EQ(0, wt_poll(&self->a, POLLOUT, 0));
	self->b.consumed = 1;
	wt_give_credit(&self->b);
	EXPECT_EQ(POLLOUT, wt_poll(&self->a, POLLOUT, 0));
	/* For more room than there is. */
	self->a.user->credit_wanted = 8;
	EXPECT_EQ(0, wt_poll(&self->a, POLLOUT, 0));
	self->b.consumed = 8;
	wt_give_credit(&self->b);
	EXPECT_EQ(POLLOUT, wt_poll(&self->a, POLLOUT, 0));
}

struct waiter {
	struct wt_chan *c;
	short events;
	short got;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->got = wt_poll(w->c, w->events, 10000);
	return NULL;
}

TEST_F(channel, a_sleeping_receiver_is_woken)
{
	for (int i = 0; i < 50; i++) {
		struct waiter w = { .c = &self->b, .events = POLLIN };
		uint8_t buf[48];
		pthread_t thread;

		pthread_create(&thread, NULL, wait_thread, &w);
		/* Sometimes before it sleeps, sometimes after. */
		usleep(i * 400);
		wt_send_inline(&self->a, "ding", 4, i);
		wt_kick_receiver(&self->a);
		pthread_join(thread, NULL);
		ASSERT_EQ(POLLIN, w.got) TH_LOG("round %d", i);
		ASSERT_EQ(4, wt_take(&self->b, buf, NULL));
		wt_give_credit(&self->b);
	}
}

TEST_F(channel, a_sleeping_sender_is_woken)
{
	for (int i = 0; i < 30; i++) {
		struct waiter w = { .c = &self->a, .events = POLLOUT };
		pthread_t thread;

		while (self->a.produced - wt_credit(&self->a) < CELLS)
			wt_send_inline(&self->a, "x", 1, 0);
		pthread_create(&thread, NULL, wait_thread, &w);
		usleep(i * 400);
		self->b.consumed += 4;
		wt_give_credit(&self->b);
		pthread_join(thread, NULL);
		ASSERT_EQ(POLLOUT, w.got) TH_LOG("round %d", i);
	}
}

TEST_F(channel, kick_by_ioctl_wakes_too)
{
	struct waiter w = { .c = &self->b, .events = POLLIN };
	struct weft_chan_kick k = { .size = sizeof(k) };
	pthread_t thread;

	pthread_create(&thread, NULL, wait_thread, &w);
	usleep(100000);
	wt_send_inline(&self->a, "ding", 4, 0);
	EXPECT_EQ(0, wt_ioctl(self->a.fd, WEFT_CHAN_KICK, &k));
	pthread_join(thread, NULL);
	EXPECT_EQ(POLLIN, w.got);
}

TEST_F(channel, edge_triggered_epoll)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->b.fd, &e));
	epoll_wait(ep, &e, 1, 0);
	for (int i = 0; i < 10; i++) {
		uint8_t buf[48];

		/* It looks, finds nothing, and sleeps: that arms it. */
		ASSERT_EQ(0, wt_poll(&self->b, POLLIN, 0));
		wt_send_inline(&self->a, "ding", 4, 0);
		wt_kick_receiver(&self->a);
		ASSERT_EQ(1, epoll_wait(ep, &e, 1, 5000)) TH_LOG("round %d", i);
		ASSERT_EQ(4, wt_take(&self->b, buf, NULL));
		self->b.user->consumed = self->b.consumed;
	}
	close(ep);
}

TEST_F(channel, closing_tells_the_peer_who_can_still_read)
{
	uint8_t buf[48];

	wt_send_inline(&self->a, "last", 4, 9);
	wt_close(&self->a);
	EXPECT_NE(0, wt_poll(&self->b, POLLRDHUP, 5000));
	EXPECT_EQ(WEFT_CHAN_PEER_CLOSED, self->b.status->state);
	ASSERT_NE(0, wt_peek(&self->b));
	EXPECT_EQ(4, wt_take(&self->b, buf, NULL));
	EXPECT_EQ(0, memcmp(buf, "last", 4));
	/* Where the window was is memory that no program sees. */
	wt_send_inline(&self->b, "into nothing", 12, 0);
	wt_give_credit(&self->b);
}

TEST_F(channel, a_killed_user_counts_as_closed)
{
	struct wt_chan c, d;
	unsigned int service = wt_service();
	int listener = wt_listen(1, service, 1);
	pid_t child;
	int fd;

	ASSERT_GE(listener, 0);
	child = fork();
	if (!child) {
		fd = wt_open(0, 0);
		if (!wt_connect(fd, service, 16, 4096, 0) && wt_map(&c, fd))
			for (;;)
				pause();
		_exit(1);
	}
	fd = wt_accept(1, listener);
	ASSERT_GE(fd, 0);
	ASSERT_TRUE(wt_map(&d, fd));
	EXPECT_EQ(WEFT_CHAN_OPEN, d.status->state);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_NE(0, wt_poll(&d, POLLRDHUP, 5000));
	EXPECT_EQ(WEFT_CHAN_PEER_CLOSED, d.status->state);
	wt_close(&d);
	close(listener);
}

TEST_F(channel, mappings_allow_no_more_than_they_should)
{
	struct weft_chan_info *i = &self->a.info;
	int fd = self->a.fd;
	const struct {
		uint64_t at, bytes;
		int prot, flags, want;
	} bad[] = {
		{ i->area_offset, i->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0 },
		{ i->status_offset, WT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0 },
		{ i->area_offset, i->area_bytes, PROT_READ, MAP_PRIVATE, EINVAL },
		{ i->window_offset, i->area_bytes, PROT_WRITE, MAP_PRIVATE, EINVAL },
		{ i->area_offset, i->area_bytes + WT_PAGE, PROT_READ, MAP_SHARED, EINVAL },
		{ i->window_offset, i->area_bytes + WT_PAGE, PROT_WRITE, MAP_SHARED, EINVAL },
		{ i->window_offset + i->area_bytes, WT_PAGE, PROT_WRITE, MAP_SHARED, EINVAL },
		{ i->status_offset, 2 * WT_PAGE, PROT_READ, MAP_SHARED, EINVAL },
		{ i->user_offset, 2 * WT_PAGE, PROT_READ, MAP_SHARED, EINVAL },
		{ 0x7ffffffff000ULL, WT_PAGE, PROT_READ, MAP_SHARED, EINVAL },
		{ self->b.info.window_offset == i->window_offset ? 0x7ffffffff000ULL :
		  self->b.info.window_offset, WT_PAGE, PROT_WRITE, MAP_SHARED, EINVAL },
	};

	for (size_t n = 0; n < ARRAY_SIZE(bad); n++) {
		void *p = mmap(NULL, bad[n].bytes, bad[n].prot, bad[n].flags, fd, bad[n].at);

		EXPECT_EQ(MAP_FAILED, p) TH_LOG("case %zu", n);
		if (p == MAP_FAILED && bad[n].want) {
			EXPECT_EQ(bad[n].want, errno) TH_LOG("case %zu", n);
		} else if (p == MAP_FAILED) {
			EXPECT_TRUE(errno == EPERM || errno == EACCES) TH_LOG("case %zu", n);
		}
	}
	EXPECT_EQ(-1, mprotect((void *)self->a.area, WT_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect((void *)self->a.status, WT_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect((void *)self->a.area, WT_PAGE, PROT_READ | PROT_EXEC));
	/* Growing a mapping does not show what lies behind it. */
	EXPECT_EQ(MAP_FAILED, mremap((void *)self->a.window, i->area_bytes,
				     i->area_bytes + WT_PAGE, MREMAP_MAYMOVE));
}

TEST_F(channel, a_fresh_file_maps_nothing)
{
	int fd = wt_open(0, 0);

	EXPECT_EQ(MAP_FAILED, mmap(NULL, WT_PAGE, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, WT_PAGE, PROT_READ, MAP_SHARED, fd,
				   self->a.info.window_offset));
	close(fd);
}

TEST_F(channel, survives_fork)
{
	pid_t child = fork();
	int status;

	if (!child) {
		wt_send_inline(&self->a, "from the child", 14, 1);
		_exit(0);
	}
	waitpid(child, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(wt_spin(&self->b, 5000));
	/* The child's exit closed nothing. */
	EXPECT_EQ(WEFT_CHAN_OPEN, self->b.status->state);
}

/* MR-5: what was not granted cannot be reached. */
TEST_F(channel, a_hostile_user_hurts_its_own_channel_only)
{
	struct wt_chan c, d;

	ASSERT_TRUE(wt_pair(&c, &d, CELLS, BULK));
	ASSERT_TRUE(carry(&c, &d, 40, 1));
	for (uint64_t i = 0; i < self->a.info.area_bytes; i += 8)
		*(volatile uint64_t *)(self->a.window + i) = 0xa5a5a5a5a5a5a5a5ULL ^ i;
	self->a.user->consumed = UINT64_MAX;
	self->a.user->produced = 0x8000000000000000ULL;
	self->a.user->credit_wanted = UINT64_MAX;
	self->b.user->consumed = 12345;
	self->b.user->produced = UINT64_MAX - 1;
	/* The kernel looks at all of it. */
	for (int i = 0; i < 10; i++) {
		struct pollfd p[2] = {
			{ .fd = self->a.fd, .events = POLLIN | POLLOUT },
			{ .fd = self->b.fd, .events = POLLIN | POLLOUT },
		};
		struct weft_chan_kick k = { .size = sizeof(k) };

		poll(p, 2, 10);
		wt_ioctl(self->a.fd, WEFT_CHAN_KICK, &k);
	}
	if (self->a.kick) {
		for (uint32_t v = 0; v < 64; v++)
			*self->a.kick = v;
		*self->a.kick = 0xffffffff;
	}
	for (int i = 0; i < 200; i++) {
		ASSERT_TRUE(carry(&c, &d, i % 200, i)) TH_LOG("message %d", i);
	}
	ASSERT_TRUE(carry(&d, &c, 4000, 3));
	wt_close(&c);
	wt_close(&d);
}

TEST_F(channel, a_closed_channel_reaches_nothing_of_the_next)
{
	struct wt_chan c, d;
	struct wt_chan old = self->a;

	/* b's area goes back and may be given to the next channel. */
	wt_close(&self->b);
	EXPECT_NE(0, wt_poll(&old, POLLRDHUP, 5000));
	ASSERT_TRUE(wt_pair(&c, &d, CELLS, BULK));
	for (uint64_t i = 0; i < old.info.area_bytes; i += 8)
		*(volatile uint64_t *)(old.window + i) = 0x5a5a5a5a5a5a5a5aULL;
	for (uint64_t i = WEFT_CHAN_CELLS_AT; i < d.info.area_bytes; i++) {
		ASSERT_EQ(0, d.area[i]) TH_LOG("byte %lu", (unsigned long)i);
	}
	ASSERT_TRUE(carry(&c, &d, 4000, 3));
	wt_close(&c);
	wt_close(&d);
}

TEST_F(channel, several_at_once)
{
	struct wt_chan x[8], y[8];

	for (int i = 0; i < 8; i++) {
		ASSERT_TRUE(wt_pair(&x[i], &y[i], CELLS, BULK));
	}
	for (int round = 0; round < 50; round++)
		for (int i = 0; i < 8; i++) {
			ASSERT_TRUE(carry(&x[i], &y[i], (round * 37 + i) % 3000, i * 1000 + round));
		}
	for (int i = 0; i < 8; i++) {
		wt_close(&x[i]);
		wt_close(&y[i]);
	}
}

TEST_HARNESS_MAIN
