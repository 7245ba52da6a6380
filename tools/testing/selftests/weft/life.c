// SPDX-License-Identifier: GPL-2.0
/*
 * Files and mappings outlive the port: unbind, removal and reset under open
 * channels. No program gets SIGBUS, each learns of it, and the port that
 * comes back works.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "weft_test.h"

FIXTURE(life) {
	struct wt_chan a, b;
	char pci[32];
};

FIXTURE_SETUP(life)
{
	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(wt_pair(&self->a, &self->b, 16, 8192));
	ASSERT_TRUE(wt_pci_name(0, self->pci, sizeof(self->pci)));
}

FIXTURE_TEARDOWN(life)
{
	wt_close(&self->a);
	wt_close(&self->b);
}

struct waiter {
	struct wt_chan *c;
	short got;
	bool late;
};

/* Who is not woken finds it in the end all the same. */
static void *wait_thread(void *arg)
{
	struct waiter *w = arg;
	int64_t before = wt_now_ms();

	w->got = wt_poll(w->c, POLLIN, 100000);
	w->late = wt_now_ms() - before > 90000;
	return NULL;
}

/* All that a user can do with a file whose port has gone. */
static void use_gone(struct __test_metadata *_metadata, struct wt_chan *c)
{
	struct weft_port_info i = { .size = sizeof(i) };
	struct weft_chan_kick k = { .size = sizeof(k) };
	uint64_t sum = 0;

	EXPECT_EQ(-ENODEV, wt_ioctl(c->fd, WEFT_PORT_INFO, &i));
	EXPECT_EQ(-ENODEV, wt_ioctl(c->fd, WEFT_CHAN_KICK, &k));
	EXPECT_NE(0, wt_poll(c, POLLIN, 0) & POLLHUP);
	for (uint64_t at = 0; at < c->info.area_bytes; at += WT_PAGE) {
		sum += c->area[at];
		c->window[at] = 1;
		sum += c->window[at];
	}
	c->user->consumed = sum;
	if (c->kick)
		*c->kick = c->info.kick_value;
	EXPECT_EQ(WEFT_CHAN_BROKEN, c->status->state);
	EXPECT_EQ(WEFT_REASON_REMOVED, c->status->reason);
}

TEST_F_TIMEOUT(life, unbind_under_open_channels, 240)
{
	struct weft_chan_user user = { 0 };
	struct wt_chan fresh = { .fd = wt_open(0, 0), .user = &user };
	struct waiter w[] = { { .c = &self->a }, { .c = &fresh } };
	struct wt_chan c, d;
	pthread_t thread[2];

	for (int n = 0; n < 2; n++)
		pthread_create(&thread[n], NULL, wait_thread, &w[n]);
	usleep(100000);
	ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", self->pci));
	for (int n = 0; n < 2; n++) {
		pthread_join(thread[n], NULL);
		EXPECT_NE(0, w[n].got & POLLHUP);
		EXPECT_FALSE(w[n].late);
	}
	use_gone(_metadata, &self->a);
	EXPECT_EQ(-ENOENT, wt_open(0, 0));
	/* The other end learns of it. */
	EXPECT_NE(0, wt_poll(&self->b, POLLIN, 10000) & (POLLHUP | POLLERR));
	EXPECT_EQ(WEFT_CHAN_BROKEN, self->b.status->state);

	ASSERT_TRUE(wt_bind_again(self->pci));
	ASSERT_TRUE(wt_pair(&c, &d, 16, 4096));
	wt_send_inline(&c, "again", 5, 0);
	EXPECT_TRUE(wt_spin(&d, 5000));
	/* What is left of the old port is still harmless. */
	use_gone(_metadata, &self->a);
	EXPECT_EQ(0, wt_peek(&c));
	wt_close(&c);
	wt_close(&d);
	close(fresh.fd);
}

/* What had come, and was not read yet, is there at both ends. */
TEST_F_TIMEOUT(life, what_had_come_outlives_the_link, 240)
{
	struct wt_chan *ends[] = { &self->a, &self->b };
	char sent[5000], got[8192];

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = 1 + i % 251;
	for (int i = 0; i < 2; i++) {
		wt_send_inline(ends[i], "short", 5, 7);
		wt_send_bulk(ends[i], sent, sizeof(sent), 8);
	}
	for (int i = 0; i < 2; i++) {
		/* The second one, behind which the first has come. */
		ends[i]->consumed++;
		ASSERT_TRUE(wt_spin(ends[i], 5000));
		ends[i]->consumed--;
	}
	ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", self->pci));
	for (int i = 0; i < 2; i++) {
		uint64_t tag = 0;

		/* Not for what is there to be read. */
		EXPECT_NE(0, wt_poll(ends[i], 0, 60000) & (POLLHUP | POLLERR));
		EXPECT_EQ(WEFT_CHAN_BROKEN, ends[i]->status->state);
		ASSERT_NE(0, wt_peek(ends[i])) TH_LOG("end %d", i);
		EXPECT_EQ(5, wt_take(ends[i], got, &tag));
		EXPECT_EQ(0, memcmp(got, "short", 5));
		EXPECT_EQ(7, tag);
		ASSERT_NE(0, wt_peek(ends[i])) TH_LOG("end %d", i);
		EXPECT_EQ(sizeof(sent), wt_take(ends[i], got, &tag));
		EXPECT_EQ(0, memcmp(got, sent, sizeof(sent)));
		EXPECT_EQ(8, tag);
		EXPECT_EQ(0, wt_peek(ends[i]));
	}
	ASSERT_TRUE(wt_bind_again(self->pci));
}

TEST_F_TIMEOUT(life, unbind_many_times, 240)
{
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", self->pci)) TH_LOG("round %d", i);
		ASSERT_EQ(0, wt_write(WT_DRIVER "bind", self->pci)) TH_LOG("round %d", i);
	}
	ASSERT_TRUE(wt_wait_ready(60000));
}

TEST_F_TIMEOUT(life, removal_of_the_function, 240)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", self->pci);
	ASSERT_EQ(0, wt_write(path, "1"));
	use_gone(_metadata, &self->a);
	ASSERT_EQ(0, wt_write("/sys/bus/pci/rescan", "1"));
	ASSERT_TRUE(wt_wait_ready(60000));
}

TEST_F_TIMEOUT(life, function_level_reset, 240)
{
	uint32_t before = wt_port_info(self->a.fd).generation;
	char path[PATH_MAX];
	struct wt_chan c, d;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", self->pci);
	ASSERT_EQ(0, wt_write(path, "1"));
	EXPECT_NE(0, wt_poll(&self->a, POLLIN, 10000) & (POLLHUP | POLLERR));
	EXPECT_EQ(WEFT_CHAN_BROKEN, self->a.status->state);
	EXPECT_NE(0, wt_poll(&self->b, POLLIN, 10000) & (POLLHUP | POLLERR));
	ASSERT_TRUE(wt_wait_ready(60000));
	EXPECT_NE(before, wt_port_info(self->a.fd).generation);
	ASSERT_TRUE(wt_pair(&c, &d, 16, 4096));
	wt_send_inline(&c, "again", 5, 0);
	EXPECT_TRUE(wt_spin(&d, 5000));
	wt_close(&c);
	wt_close(&d);
}

TEST_HARNESS_MAIN
