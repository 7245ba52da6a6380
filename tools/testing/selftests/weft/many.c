// SPDX-License-Identifier: GPL-2.0
/*
 * Ten thousand queue pairs of one port: what an idle one costs, that those among them
 * that are used work, and what happens when there are as many as there may be.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

#define COUNT		10000
#define FILES		4
/* Used ones: the first, the last, and some between. */
#define USED		8
#define BYTES		65536
/* Of kernel memory, besides its rings. */
#define MOST_EACH	8192
#define GIVEN_BACK_MS	60000

static uint64_t mem_bytes(const char *name)
{
	char line[128], want[64];
	unsigned long long kib;
	uint64_t found = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	snprintf(want, sizeof(want), "%s: %%llu kB", name);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, want, &kib) == 1)
			found = kib << 10;
	if (f)
		fclose(f);
	return found;
}

/* Memory that belongs neither to processes nor to files. */
static int64_t taken(void)
{
	sync();
	wt_write("/proc/sys/vm/drop_caches", "3");
	return mem_bytes("MemTotal") - mem_bytes("MemFree") - mem_bytes("Buffers") -
	       mem_bytes("Cached") - mem_bytes("AnonPages");
}

/* Where idle ones are made, which complete in one place. */
struct file {
	int fd;
	uint32_t pd, cq, last;
};

static bool begin(struct file *f)
{
	struct weft_pd_alloc pd = { .size = sizeof(pd) };
	struct weft_cq_create cq = { .size = sizeof(cq), .entries = 16, .event_fd = -1 };

	f->fd = wt_open(0, 0);
	if (f->fd < 0 || wt_ioctl(f->fd, WEFT_PD_ALLOC, &pd) ||
	    wt_ioctl(f->fd, WEFT_CQ_CREATE, &cq))
		return false;
	f->pd = pd.pd;
	f->cq = cq.cq;
	return true;
}

/* Makes one that can receive; *@rings grows by the bytes of its queues. */
static long idle(struct file *f, uint64_t *rings)
{
	struct weft_qp_create qp = {
		.size = sizeof(qp), .pd = f->pd, .send_cq = f->cq, .recv_cq = f->cq,
		.send_entries = 16, .recv_entries = 16, .send_sges = 1, .recv_sges = 1,
	};
	struct weft_qp_modify m = {
		.size = sizeof(m), .mask = WEFT_QP_STATE, .state = WEFT_QP_INIT,
	};
	long err = wt_ioctl(f->fd, WEFT_QP_CREATE, &qp);

	if (err)
		return err;
	*rings += qp.ring_bytes;
	m.qp = qp.qp;
	f->last = qp.qp;
	return wt_ioctl(f->fd, WEFT_QP_MODIFY, &m);
}

static long destroy(struct file *f, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(f->fd, WEFT_DESTROY, &d);
}

static bool pair(struct we_end *a, struct we_end *b)
{
	return we_begin(a, 0, BYTES) && we_begin(b, 1, BYTES) && we_join(a, b);
}

FIXTURE(many) {
};

FIXTURE_SETUP(many)
{
	ASSERT_TRUE(wt_wait_ready(60000));
}

FIXTURE_TEARDOWN(many)
{
}

TEST_F_TIMEOUT(many, ten_thousand, 600)
{
	struct weft_limits limits = { .size = sizeof(limits) };
	struct we_end a[USED], b[USED];
	struct file files[FILES];
	unsigned int used = 0, made = 0, picks[USED], seed = time(NULL);
	uint64_t rings = 0;
	int64_t before, with, after, begun;
	bool given_back;
	long err = 0;

	srand(seed);
	TH_LOG("seed %u", seed);
	for (int i = 0; i < FILES; i++)
		ASSERT_TRUE(begin(&files[i]));
	ASSERT_EQ(0, wt_ioctl(files[0].fd, WEFT_LIMITS, &limits));
	EXPECT_LE(COUNT, limits.qps);
	/* One in each part of them. */
	for (int i = 0; i < USED; i++)
		picks[i] = i * (COUNT / USED) + rand() % (COUNT / USED);
	picks[0] = 0;
	picks[USED - 1] = COUNT - 1;
	ASSERT_TRUE(pair(&a[used], &b[used]));
	used++;
	made++;
	before = taken();
	for (; made < COUNT; made++) {
		if (made == picks[used]) {
			ASSERT_TRUE(pair(&a[used], &b[used])) TH_LOG("number %u", made);
			used++;
		} else {
			ASSERT_EQ(0, idle(&files[made % FILES], &rings)) TH_LOG("number %u", made);
		}
	}
	ASSERT_EQ(USED, used);
	with = taken();
	TH_LOG("%lld bytes each, besides %llu of rings",
	       (long long)(with - before - (int64_t)rings) / COUNT,
	       (unsigned long long)rings / COUNT);
	/* A kernel that looks for bugs keeps books of each object. */
	if (system("grep -qwE 'kasan_report|kmemleak_alloc' /proc/kallsyms")) {
		EXPECT_GE((int64_t)rings + MOST_EACH * COUNT, with - before);
	}
	/* Less than what the rings alone take was not measured right. */
	EXPECT_LE((int64_t)rings, with - before);
	for (unsigned int n = 0; n < 100 * USED; n++) {
		unsigned int i = n % USED;

		ASSERT_TRUE(we_exchange(&a[i], &b[i], n / USED)) TH_LOG("number %u", picks[i]);
	}
	/* As many as there may be, and one more. */
	while (!err && made <= limits.qps) {
		err = idle(&files[made % FILES], &rings);
		made += !err;
	}
	EXPECT_EQ(-ENOSPC, err);
	EXPECT_EQ(limits.qps, made);
	EXPECT_EQ(0, destroy(&files[0], files[0].last));
	EXPECT_EQ(0, idle(&files[1], &rings));
	EXPECT_EQ(-ENOSPC, idle(&files[2], &rings));
	for (unsigned int i = 0; i < USED; i++) {
		ASSERT_TRUE(we_exchange(&a[i], &b[i], 7)) TH_LOG("number %u", picks[i]);
	}
	for (int i = 0; i < FILES; i++)
		close(files[i].fd);
	for (unsigned int i = 0; i < USED; i++) {
		ASSERT_TRUE(we_exchange(&a[i], &b[i], 8)) TH_LOG("number %u", picks[i]);
	}
	for (unsigned int i = 0; i < USED; i++) {
		we_end(&a[i]);
		we_end(&b[i]);
	}
	/* The kernel gives some of it back when it finds the time, and its books of that last. */
	begun = wt_now_ms();
	do {
		after = taken();
		given_back = after - before <= (with - before) / 16;
	} while (!given_back && wt_now_ms() < begun + GIVEN_BACK_MS);
	TH_LOG("%lld bytes are left of them after %lld ms", (long long)(after - before),
	       (long long)(wt_now_ms() - begun));
	/* KASAN keeps what was freed for a while, and looks whether it is used. */
	if (system("grep -qw kasan_report /proc/kallsyms")) {
		EXPECT_TRUE(given_back);
	}
}

TEST_HARNESS_MAIN
