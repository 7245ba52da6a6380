// SPDX-License-Identifier: GPL-2.0
/*
 * WEFT_CQ_WAIT: one call that rings, and sleeps until there is a completion. What ends it, and that
 * nothing waits for a thread that is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

/* Generous: guests are slow when others run. */
#define PATIENCE_MS	60000
#define TRIPS		200

FIXTURE(wait) {
	struct we_end a, b;
	char pci[32];
};

FIXTURE_SETUP(wait)
{
	ASSERT_TRUE(wt_wait_ready(PATIENCE_MS));
	ASSERT_TRUE(wt_pci_name(0, self->pci, sizeof(self->pci)));
	ASSERT_TRUE(we_begin(&self->a, 0, 64 << 10));
	ASSERT_TRUE(we_begin(&self->b, 1, 64 << 10));
	ASSERT_TRUE(we_join(&self->a, &self->b));
	/* They have joined when this is over. */
	ASSERT_TRUE(we_exchange(&self->a, &self->b, 0));
}

FIXTURE_TEARDOWN(wait)
{
	we_end(&self->a);
	we_end(&self->b);
}

static struct weft_cq_wait for_more(const struct we_end *e, uint32_t qp, uint32_t timeout_ms)
{
	return (struct weft_cq_wait) {
		.size = sizeof(struct weft_cq_wait), .cq = e->cq, .consumed = e->consumed,
		.qp = qp, .timeout_ms = timeout_ms,
	};
}

static long wait_on(int fd, struct weft_cq_wait w)
{
	return wt_ioctl(fd, WEFT_CQ_WAIT, &w);
}

/* Waits by this call alone, and takes the completion. */
static bool take(struct we_end *e, uint32_t qp, uint64_t id)
{
	long r = wait_on(e->fd, for_more(e, qp, PATIENCE_MS));
	struct weft_cqe cqe;

	if (!r && we_poll(e, &cqe) && cqe.status == WEFT_WC_SUCCESS && cqe.wr_id == id)
		return true;
	printf("# completion %llu: %ld\n", (unsigned long long)id, r);
	return false;
}

/* A completion queue of @e's file without queue pairs; 0 if it cannot be had. */
static uint32_t another_cq(struct we_end *e)
{
	struct weft_cq_create c = { .size = sizeof(c), .entries = 16, .event_fd = -1 };

	return wt_ioctl(e->fd, WEFT_CQ_CREATE, &c) ? 0 : c.cq;
}

/* A thread in the call. */
struct waiter {
	pthread_t thread;
	int fd;
	struct weft_cq_wait w;
	volatile pid_t tid;
	volatile bool ended;
	long r;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->tid = syscall(SYS_gettid);
	w->r = wt_ioctl(w->fd, WEFT_CQ_WAIT, &w->w);
	w->ended = true;
	return NULL;
}

/* Whether thread @tid of process @pid sleeps in an ioctl; false if it does not within the time. */
static bool sleeps(pid_t pid, volatile pid_t *tid, volatile bool *ended)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;
	char path[64], text[64];

	do {
		FILE *f;
		long number = -1;

		if (*tid) {
			snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, *tid);
			f = fopen(path, "r");
			/* "running", while it runs. */
			if (f && fgets(text, sizeof(text), f))
				sscanf(text, "%ld", &number);
			if (f)
				fclose(f);
			if (number == SYS_ioctl)
				return true;
		}
		usleep(1000);
	} while (!(ended && *ended) && wt_now_ms() < until);
	return false;
}

/* Sleeps when this returns true. */
static bool begin(struct waiter *w, int fd, struct weft_cq_wait wait)
{
	*w = (struct waiter) { .fd = fd, .w = wait };
	return !pthread_create(&w->thread, NULL, wait_thread, w) &&
	       sleeps(getpid(), &w->tid, &w->ended);
}

static long end(struct waiter *w)
{
	pthread_join(w->thread, NULL);
	return w->r;
}

TEST_F(wait, returns_at_once_if_there_is_an_entry)
{
	struct weft_cq_wait w = for_more(&self->a, 0, WEFT_CQ_FOREVER);

	w.consumed--;
	EXPECT_EQ(0, wait_on(self->a.fd, w));
	w.timeout_ms = 0;
	EXPECT_EQ(0, wait_on(self->a.fd, w));
	w.qp = self->a.qp;
	EXPECT_EQ(0, wait_on(self->a.fd, w));
	w.timeout_ms = 1;
	EXPECT_EQ(0, wait_on(self->a.fd, w));
}

/* Nothing else rings, at either end, and no other thread waits. */
TEST_F_TIMEOUT(wait, rings_and_takes_what_has_come, 120)
{
	struct we_end *a = &self->a, *b = &self->b;

	for (unsigned int n = 0; n < 20; n++) {
		we_post_recv(b, n, 0, 64);
		we_post(a, n, WEFT_OP_SEND, 0, 64, 0, 0);
		ASSERT_TRUE(take(a, a->qp, n)) TH_LOG("send %u", n);
		ASSERT_TRUE(take(b, 0, n)) TH_LOG("receive %u", n);
	}
}

static void *answer_thread(void *arg)
{
	struct we_end *e = arg;
	struct weft_cqe cqe;

	for (unsigned int n = 0; n < TRIPS; n++) {
		/* Of the message, behind that of the answer before it. */
		for (bool came = false; !came;) {
			long r = wait_on(e->fd, for_more(e, e->qp, PATIENCE_MS));

			if (r || !we_poll(e, &cqe) || cqe.status != WEFT_WC_SUCCESS) {
				printf("# message %u: %ld\n", n, r);
				return NULL;
			}
			came = cqe.opcode == WEFT_OP_RECV;
		}
		we_post_recv(e, n, 0, 64);
		we_post(e, n, WEFT_OP_SEND, 0, 64, 0, 0);
	}
	/* The last answer. */
	wait_on(e->fd, for_more(e, e->qp, PATIENCE_MS));
	return arg;
}

/* Two ends that answer each other, and sleep between: a wake-up that is lost ends it. */
TEST_F_TIMEOUT(wait, two_ends_wake_each_other, 300)
{
	struct we_end *a = &self->a;
	int64_t begin = wt_now_ms();
	struct weft_cqe cqe;
	pthread_t thread;
	void *answered;

	we_post_recv(a, 0, 0, 64);
	we_post_recv(&self->b, 0, 0, 64);
	ASSERT_EQ(0, pthread_create(&thread, NULL, answer_thread, &self->b));
	for (unsigned int n = 0; n < TRIPS; n++) {
		we_post(a, n, WEFT_OP_SEND, 0, 64, 0, 0);
		for (bool came = false; !came;) {
			ASSERT_EQ(0, wait_on(a->fd, for_more(a, a->qp, PATIENCE_MS)))
				TH_LOG("trip %u", n);
			ASSERT_TRUE(we_poll(a, &cqe));
			ASSERT_EQ(WEFT_WC_SUCCESS, cqe.status);
			came = cqe.opcode == WEFT_OP_RECV;
		}
		we_post_recv(a, n, 0, 64);
	}
	ASSERT_EQ(0, pthread_join(thread, &answered));
	EXPECT_EQ(&self->b, answered);
	TH_LOG("%u round trips, %lld ms", TRIPS, (long long)(wt_now_ms() - begin));
}

/* A sender that sleeps until its message is acknowledged need not wait for a call there. */
TEST_F_TIMEOUT(wait, the_peer_acknowledges_without_another_call, 120)
{
	struct we_end *a = &self->a, *b = &self->b;
	struct waiter w;
	struct weft_cqe cqe;

	for (unsigned int n = 0; n < 10; n++) {
		we_post_recv(b, n, 0, 64);
		ASSERT_TRUE(begin(&w, b->fd, for_more(b, 0, PATIENCE_MS)));
		we_post(a, n, WEFT_OP_SEND, 0, 64, 0, 0);
		/* From here on this thread alone makes calls, and only of the other port. */
		ASSERT_TRUE(take(a, a->qp, n));
		ASSERT_EQ(0, end(&w));
		ASSERT_TRUE(we_poll(b, &cqe));
	}
}

TEST_F(wait, ends_in_time)
{
	struct we_end *a = &self->a;
	int64_t begin = wt_now_ms();

	EXPECT_EQ(-ETIMEDOUT, wait_on(a->fd, for_more(a, 0, 50)));
	EXPECT_EQ(-ETIMEDOUT, wait_on(a->fd, for_more(a, a->qp, 50)));
	EXPECT_LE(100, wt_now_ms() - begin);
	EXPECT_EQ(-EAGAIN, wait_on(a->fd, for_more(a, 0, 0)));
	EXPECT_EQ(-EAGAIN, wait_on(a->fd, for_more(a, a->qp, 0)));
	ASSERT_EQ(0, fcntl(a->fd, F_SETFL, O_RDWR | O_NONBLOCK));
	EXPECT_EQ(-EAGAIN, wait_on(a->fd, for_more(a, a->qp, WEFT_CQ_FOREVER)));
}

/* Without sleeping, it does what WEFT_KICK does all the same. */
TEST_F_TIMEOUT(wait, looks_without_sleeping, 120)
{
	struct we_end *a = &self->a, *b = &self->b;
	int64_t until = wt_now_ms() + PATIENCE_MS;

	we_post_recv(b, 1, 0, 64);
	we_post(a, 1, WEFT_OP_SEND, 0, 64, 0, 0);
	while (wait_on(a->fd, for_more(a, a->qp, 0)) && wt_now_ms() < until)
		wait_on(b->fd, for_more(b, 0, 0));
	EXPECT_TRUE(take(a, 0, 1));
	EXPECT_TRUE(take(b, 0, 1));
}

static void on_signal(int number)
{
	(void)number;
}

TEST_F_TIMEOUT(wait, a_signal_handler_ends_it, 120)
{
	static const int flags[] = { 0, SA_RESTART };

	for (int i = 0; i < 2; i++) {
		struct sigaction on = { .sa_handler = on_signal, .sa_flags = flags[i] };
		struct waiter w;

		ASSERT_EQ(0, sigaction(SIGUSR1, &on, NULL));
		ASSERT_TRUE(begin(&w, self->a.fd, for_more(&self->a, self->a.qp, PATIENCE_MS)));
		ASSERT_EQ(0, pthread_kill(w.thread, SIGUSR1));
		EXPECT_EQ(-EINTR, end(&w));
		/* What is left of it. */
		EXPECT_LT(0, w.w.timeout_ms);
		EXPECT_GE(PATIENCE_MS + 20, w.w.timeout_ms);
		ASSERT_TRUE(begin(&w, self->a.fd, for_more(&self->a, 0, WEFT_CQ_FOREVER)));
		ASSERT_EQ(0, pthread_kill(w.thread, SIGUSR1));
		EXPECT_EQ(-EINTR, end(&w));
		EXPECT_EQ(WEFT_CQ_FOREVER, w.w.timeout_ms);
	}
}

/* Makes the call in a child, which ends with its errno. */
static pid_t wait_in_child(struct we_end *e, uint32_t timeout_ms)
{
	pid_t pid = fork();

	if (!pid)
		_exit(-wait_on(e->fd, for_more(e, e->qp, timeout_ms)));
	return pid;
}

/* A program that is stopped, and goes on, notices nothing: its time is what it asked for. */
TEST_F_TIMEOUT(wait, a_stop_does_not_end_it, 120)
{
	int64_t begin = wt_now_ms();
	pid_t pid = wait_in_child(&self->a, 500);
	int status;

	ASSERT_GT(pid, 0);
	ASSERT_TRUE(sleeps(pid, &pid, NULL));
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, kill(pid, SIGCONT));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(ETIMEDOUT, WEXITSTATUS(status));
	EXPECT_LE(500, wt_now_ms() - begin);
}

TEST_F_TIMEOUT(wait, a_process_in_it_can_be_killed, 120)
{
	pid_t pid = wait_in_child(&self->a, WEFT_CQ_FOREVER);
	int status;

	ASSERT_GT(pid, 0);
	ASSERT_TRUE(sleeps(pid, &pid, NULL));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) TH_LOG("%#x", status);
	/* The doorbells of the link that it slept for are answered all the same. */
	EXPECT_TRUE(we_exchange(&self->a, &self->b, 1));
}

/* Each of them, though one doorbell wakes one of them only. */
TEST_F_TIMEOUT(wait, several_wait_for_one_queue, 120)
{
	struct we_end *a = &self->a, *b = &self->b;
	struct waiter w[4];
	struct weft_cqe cqe;

	we_post_recv(b, 9, 0, 64);
	for (int i = 0; i < 4; i++)
		ASSERT_TRUE(begin(&w[i], b->fd, for_more(b, 0, WEFT_CQ_FOREVER)));
	we_post(a, 9, WEFT_OP_SEND, 0, 64, 0, 0);
	ASSERT_TRUE(take(a, a->qp, 9));
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, end(&w[i]))
			TH_LOG("waiter %d", i);
	}
	EXPECT_TRUE(we_poll(b, &cqe));
}

/* A thread that sleeps for its own queue runs the engine for that of another file. */
TEST_F_TIMEOUT(wait, one_that_sleeps_serves_others, 120)
{
	struct we_end *a = &self->a, *b = &self->b, c, d;
	struct waiter w;

	ASSERT_TRUE(we_begin(&c, 0, 4096));
	ASSERT_TRUE(we_begin(&d, 1, 4096));
	ASSERT_TRUE(we_join(&c, &d));
	ASSERT_TRUE(we_exchange(&c, &d, 0));
	ASSERT_TRUE(begin(&w, b->fd, for_more(b, 0, WEFT_CQ_FOREVER)));
	for (unsigned int n = 0; n < 20; n++) {
		we_post_recv(&d, n, 0, 64);
		we_post(&c, n, WEFT_OP_SEND, 0, 64, 0, 0);
		ASSERT_TRUE(take(&c, c.qp, n));
		ASSERT_TRUE(take(&d, 0, n));
	}
	EXPECT_FALSE(w.ended);
	we_post_recv(b, 7, 0, 64);
	we_post(a, 7, WEFT_OP_SEND, 0, 64, 0, 0);
	ASSERT_TRUE(take(a, a->qp, 7));
	EXPECT_EQ(0, end(&w));
	we_end(&c);
	we_end(&d);
}

TEST_F_TIMEOUT(wait, its_queue_is_destroyed, 120)
{
	struct weft_cq_wait wait = for_more(&self->a, 0, WEFT_CQ_FOREVER);
	struct waiter w;

	wait.cq = another_cq(&self->a);
	wait.consumed = 0;
	ASSERT_NE(0, wait.cq);
	ASSERT_TRUE(begin(&w, self->a.fd, wait));
	ASSERT_EQ(0, we_destroy(&self->a, wait.cq));
	EXPECT_EQ(-ENOENT, end(&w));
	EXPECT_EQ(-ENOENT, wait_on(self->a.fd, wait));
}

/* A queue pair that it has rung for can be destroyed, and then all that this one needed. */
TEST_F_TIMEOUT(wait, its_queue_pair_is_destroyed, 120)
{
	struct we_end *a = &self->a;
	struct waiter w;

	ASSERT_TRUE(begin(&w, a->fd, for_more(a, a->qp, WEFT_CQ_FOREVER)));
	ASSERT_EQ(0, we_destroy(a, a->qp));
	EXPECT_FALSE(w.ended);
	EXPECT_EQ(0, we_destroy(a, a->cq));
	EXPECT_EQ(-ENOENT, end(&w));
	EXPECT_EQ(0, we_destroy(a, a->mr));
	EXPECT_EQ(0, we_destroy(a, a->pd));
}

TEST_F_TIMEOUT(wait, its_port_goes, 120)
{
	struct weft_cq_wait lonely = for_more(&self->a, 0, WEFT_CQ_FOREVER);
	struct waiter w[2];

	/* One without queue pairs, of which nothing is flushed. */
	lonely.cq = another_cq(&self->a);
	lonely.consumed = 0;
	ASSERT_NE(0, lonely.cq);
	ASSERT_TRUE(begin(&w[0], self->a.fd, lonely));
	ASSERT_TRUE(begin(&w[1], self->a.fd, for_more(&self->a, 0, WEFT_CQ_FOREVER)));
	ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", self->pci));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(-ENODEV, end(&w[i]))
			TH_LOG("waiter %d", i);
	}
	EXPECT_EQ(-ENODEV, wait_on(self->a.fd, lonely));
	ASSERT_TRUE(wt_bind_again(self->pci));
}

/* A reset does not wait for it, and it goes on afterwards. */
TEST_F_TIMEOUT(wait, its_port_is_reset, 120)
{
	struct we_end *a = &self->a;
	struct weft_cq_wait lonely = for_more(a, 0, WEFT_CQ_FOREVER);
	struct waiter w[2];
	struct weft_cqe cqe;
	char path[96];

	lonely.cq = another_cq(a);
	lonely.consumed = 0;
	ASSERT_NE(0, lonely.cq);
	ASSERT_TRUE(begin(&w[0], a->fd, lonely));
	we_post_recv(a, 5, 0, 64);
	ASSERT_TRUE(begin(&w[1], a->fd, for_more(a, 0, WEFT_CQ_FOREVER)));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", self->pci);
	ASSERT_EQ(0, wt_write(path, "1"));
	ASSERT_TRUE(wt_wait_ready(PATIENCE_MS));
	/* Its queue pair may have outlasted the reset. */
	ASSERT_EQ(0, we_modify(a, WEFT_QP_STATE, WEFT_QP_ERR, 0));
	EXPECT_EQ(0, end(&w[1]));
	EXPECT_TRUE(we_poll(a, &cqe));
	EXPECT_NE(WEFT_WC_SUCCESS, cqe.status);
	EXPECT_FALSE(w[0].ended);
	ASSERT_EQ(0, we_destroy(a, lonely.cq));
	EXPECT_EQ(-ENOENT, end(&w[0]));
}

/* When there is no room for another entry, none will come. */
TEST_F_TIMEOUT(wait, its_queue_overruns, 120)
{
	struct we_end c, d;
	struct weft_cqe cqe;
	int64_t until = wt_now_ms() + PATIENCE_MS;
	const volatile struct weft_cq_ctl *ctl;

	ASSERT_TRUE(we_begin_with(&c, 0, 4096, 64, 16));
	ASSERT_TRUE(we_begin(&d, 1, 4096));
	ASSERT_TRUE(we_join(&c, &d));
	ctl = (void *)c.cq_mem;
	for (unsigned int n = 0; n < 20; n++)
		we_post(&c, n, WEFT_OP_WRITE, 0, 64, WE_BASE, d.stag);
	while (!__atomic_load_n(&ctl->overrun, __ATOMIC_ACQUIRE)) {
		ASSERT_LT(wt_now_ms(), until);
		we_kick(&c);
		we_kick(&d);
	}
	/* First of all those that are there. */
	for (unsigned int n = 0; n < 16; n++) {
		EXPECT_EQ(0, wait_on(c.fd, for_more(&c, c.qp, WEFT_CQ_FOREVER)));
		ASSERT_TRUE(we_poll(&c, &cqe));
	}
	EXPECT_EQ(-EOVERFLOW, wait_on(c.fd, for_more(&c, c.qp, WEFT_CQ_FOREVER)));
	EXPECT_EQ(-EOVERFLOW, wait_on(c.fd, for_more(&c, 0, 0)));
	we_end(&c);
	we_end(&d);
}

TEST_F(wait, what_makes_no_sense_is_refused)
{
	struct we_end *a = &self->a;
	struct weft_cq_wait w = for_more(a, 0, 1);
	int fresh = wt_open(0, 0), listens;

	ASSERT_GE(fresh, 0);
	EXPECT_EQ(-ENOENT, wait_on(fresh, w));
	close(fresh);
	listens = wt_listen(0, wt_service(), 1);
	ASSERT_GE(listens, 0);
	EXPECT_EQ(-EISCONN, wait_on(listens, w));
	close(listens);
	w.flags = 1;
	EXPECT_EQ(-EINVAL, wait_on(a->fd, w));
	w.flags = 0;
	w.cq = 0;
	EXPECT_EQ(-ENOENT, wait_on(a->fd, w));
	w.cq = a->qp;
	EXPECT_EQ(-ENOENT, wait_on(a->fd, w));
	w.cq = a->cq;
	w.qp = a->cq;
	EXPECT_EQ(-ENOENT, wait_on(a->fd, w));
	w.qp = ~0u;
	EXPECT_EQ(-ENOENT, wait_on(a->fd, w));
}

TEST_HARNESS_MAIN
