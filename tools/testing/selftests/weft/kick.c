// SPDX-License-Identifier: GPL-2.0
/*
 * How much one WEFT_KICK does, and what becomes of the rest. Requests are counted, no time is
 * measured. So that the counts are those of the call, no thread of the kernel runs the engine
 * meanwhile: work items are confined to one processor, and this program has it.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

/* As many as a queue can have. */
#define FLOOD		16384
#define CQES		65536
/* What a queue pair ends at once when it fails: requests under way, and posted ones. */
#define AT_ONCE		128
/* Generous: guests are slow when others run. */
#define PATIENCE_MS	60000

#define WORK_CPUS	"/sys/devices/virtual/workqueue/cpumask"

FIXTURE(kick) {
	struct we_end a, b;
	char cpus[64];
	uint32_t mw_stag;
};

/* Work items on processor 0, where this thread is. */
static bool confine(char *before, size_t len)
{
	FILE *f = fopen(WORK_CPUS, "r");
	cpu_set_t mine;
	bool read = f && fgets(before, len, f);

	if (f)
		fclose(f);
	CPU_ZERO(&mine);
	CPU_SET(0, &mine);
	return read && !wt_write(WORK_CPUS, "1") && !sched_setaffinity(0, sizeof(mine), &mine);
}

/* With @quiet no other thread runs on this processor until this one sleeps or ends it. */
static bool be_quiet(bool quiet)
{
	struct sched_param p = { .sched_priority = quiet ? 1 : 0 };

	return !sched_setscheduler(0, quiet ? SCHED_FIFO : SCHED_OTHER, &p);
}

FIXTURE_SETUP(kick)
{
	struct weft_mw_alloc mw = { .size = sizeof(mw) };

	memset(self, 0, sizeof(*self));
	ASSERT_TRUE(wt_wait_ready(PATIENCE_MS));
	if (!confine(self->cpus, sizeof(self->cpus)) || !be_quiet(true) || !be_quiet(false))
		SKIP(return, "work items cannot be kept from this processor");
	ASSERT_TRUE(we_begin_with(&self->a, 0, 64 << 10, FLOOD, CQES));
	ASSERT_TRUE(we_begin_with(&self->b, 1, 64 << 10, 64, 256));
	mw.pd = self->a.pd;
	ASSERT_EQ(0, wt_ioctl(self->a.fd, WEFT_MW_ALLOC, &mw));
	self->mw_stag = mw.stag;
	ASSERT_TRUE(we_join(&self->a, &self->b));
	/* They have joined when this is over. */
	ASSERT_TRUE(we_exchange(&self->a, &self->b, 0));
}

FIXTURE_TEARDOWN(kick)
{
	be_quiet(false);
	we_end(&self->a);
	we_end(&self->b);
	if (self->cpus[0])
		wt_write(WORK_CPUS, self->cpus);
}

static void kick(struct we_end *e, uint32_t budget)
{
	struct weft_kick k = { .size = sizeof(k), .qp = e->qp, .budget = budget };

	wt_ioctl(e->fd, WEFT_KICK, &k);
}

/*
 * From here on this thread has the processor, and no other is in the middle of a run of the
 * engine: this call has waited for it.
 */
static bool alone(struct we_end *e)
{
	if (!be_quiet(true))
		return false;
	kick(e, 1);
	return true;
}

/* How many completions have come that were not taken. */
static uint64_t come(struct we_end *e)
{
	const volatile struct weft_cq_ctl *ctl = (void *)e->cq_mem;

	return __atomic_load_n(&ctl->produced, __ATOMIC_ACQUIRE) - e->consumed;
}

/* Requests that need no peer: a window that is bound to nothing is bound to nothing. */
static void post_local(struct we_end *e, uint32_t mw_stag, unsigned int count)
{
	struct weft_send_wqe wqe = {
		.opcode = WEFT_OP_BIND_MW, .flags = WEFT_WR_SIGNALED, .remote_stag = mw_stag,
	};

	for (unsigned int n = 0; n < count; n++) {
		wqe.wr_id = n;
		we_post_wqe(e, &wqe, NULL);
	}
}

/* Takes @count completions with @status, in order; no program runs the engine. */
static bool take(struct we_end *e, unsigned int count, uint32_t status)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;
	struct weft_cqe cqe;

	for (unsigned int n = 0; n < count;) {
		if (!we_poll(e, &cqe)) {
			if (wt_now_ms() > until) {
				printf("# %u of %u came\n", n, count);
				return false;
			}
			sched_yield();
			continue;
		}
		if (cqe.wr_id != n || cqe.status != status) {
			printf("# %llu, not %u, ended with %u\n", (unsigned long long)cqe.wr_id, n,
			       cqe.status);
			return false;
		}
		n++;
	}
	return true;
}

/* A call does as many requests as it says, and the rest is done without another. */
TEST_F_TIMEOUT(kick, requests_of_a_call, 300)
{
	static const uint32_t budgets[] = { 1, 100, 0, ~0u };
	static const uint32_t most[] = { 1, 100, 512, 1024 };
	struct we_end *a = &self->a;
	uint64_t count;

	for (int i = 0; i < 4; i++) {
		ASSERT_TRUE(alone(a));
		post_local(a, self->mw_stag, FLOOD);
		kick(a, budgets[i]);
		count = come(a);
		ASSERT_TRUE(be_quiet(false));
		TH_LOG("budget %u: %llu", budgets[i], (unsigned long long)count);
		EXPECT_GE(most[i], count);
		EXPECT_LE(most[i] / 2, count);
		ASSERT_TRUE(take(a, FLOOD, WEFT_WC_SUCCESS));
	}
}

/* So it is with what a queue pair in ERR has, and with one that goes to ERR meanwhile. */
TEST_F_TIMEOUT(kick, flushed_by_a_call, 300)
{
	struct weft_send_wqe bad = { .wr_id = 0, .opcode = 0xff };
	struct we_end *a = &self->a;
	uint64_t count;

	for (int fails = 0; fails < 2; fails++) {
		if (fails) {
			ASSERT_EQ(0, we_modify(a, WEFT_QP_STATE, WEFT_QP_RESET, 0));
			ASSERT_EQ(0, we_modify(&self->b, WEFT_QP_STATE, WEFT_QP_RESET, 0));
			a->posted = a->sq->posted;
			ASSERT_TRUE(we_join(a, &self->b));
			self->b.recvs = self->b.rq->posted;
			ASSERT_TRUE(we_exchange(a, &self->b, 1));
			ASSERT_TRUE(alone(a));
			we_post_wqe(a, &bad, NULL);
			post_local(a, self->mw_stag, FLOOD - 1);
		} else {
			ASSERT_EQ(0, we_modify(a, WEFT_QP_STATE, WEFT_QP_ERR, 0));
			ASSERT_TRUE(alone(a));
			post_local(a, self->mw_stag, FLOOD);
		}
		kick(a, 256);
		count = come(a);
		ASSERT_TRUE(be_quiet(false));
		TH_LOG("%llu", (unsigned long long)count);
		EXPECT_GE(256 + (fails ? AT_ONCE : 0), count);
		EXPECT_LE(64, count);
		if (fails) {
			struct weft_cqe cqe;

			ASSERT_TRUE(we_poll(a, &cqe));
			EXPECT_EQ(WEFT_WC_LOCAL_REQUEST, cqe.status);
		}
		ASSERT_TRUE(take(a, FLOOD - fails, WEFT_WC_FLUSHED));
	}
}

/* What another file has is done before the flood is. */
TEST_F_TIMEOUT(kick, others_have_their_turn, 300)
{
	struct we_end *a = &self->a, c, d;
	struct weft_cqe cqe;
	uint64_t count;
	bool done = false;

	ASSERT_TRUE(we_begin(&c, 0, 4096));
	ASSERT_TRUE(we_begin(&d, 1, 4096));
	ASSERT_TRUE(we_join(&c, &d));
	ASSERT_TRUE(we_exchange(&c, &d, 0));
	ASSERT_TRUE(alone(a));
	post_local(a, self->mw_stag, FLOOD);
	we_post(&c, 7, WEFT_OP_WRITE, 0, 64, WE_BASE, d.stag);
	kick(a, ~0u);
	/* It is sent; it is taken, and answered; the answer is taken. */
	kick(&c, 0);
	kick(&d, 0);
	kick(&c, 0);
	done = we_poll(&c, &cqe);
	count = come(a);
	ASSERT_TRUE(be_quiet(false));
	TH_LOG("%llu of %u went before it", (unsigned long long)count, FLOOD);
	EXPECT_TRUE(done);
	EXPECT_GT(FLOOD, count);
	if (done)
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	ASSERT_TRUE(take(a, FLOOD, WEFT_WC_SUCCESS));
	we_end(&c);
	we_end(&d);
}

TEST_HARNESS_MAIN
