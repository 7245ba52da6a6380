// SPDX-License-Identifier: GPL-2.0
/*
 * Memory whose pages come late, or never, since a program provides them: arguments and
 * results of calls, memory that is registered, and buffers of work requests, on a file of
 * FUSE. A call that waits for a page ends when its task is killed, and no other call waits
 * for it: neither one of another file, nor one of the same.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "fuse_file.h"
#include "weft_test.h"

#define BYTES		(128 << 10)
/* Generous: guests are slow when others run. */
#define PATIENCE_MS	60000
/* All ioctls are among these numbers. */
#define NUMBERS		64
/* No structure is longer, and none is shorter than its size alone. */
#define LONGEST		512
/* Pages of the file, by what becomes of them. */
#define GOOD		1
#define OTHER		4	/* the one behind GOOD is GOOD + 1 */

FIXTURE(late) {
	struct ff_file file;
	uint8_t *at;			/* the file, mapped */
	struct we_end a, b;		/* of other calls */
	unsigned int messages;
	int fd;				/* of the calls that wait */
	uint32_t pd;
	long pinned;
};

FIXTURE_SETUP(late)
{
	struct weft_pd_alloc pd = { .size = sizeof(pd) };

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(wt_wait_ready(PATIENCE_MS));
	ASSERT_TRUE(ff_begin(&self->file));
	self->at = ff_map(&self->file);
	ASSERT_NE(NULL, self->at);
	ASSERT_TRUE(we_begin(&self->a, 0, BYTES));
	ASSERT_TRUE(we_begin(&self->b, 1, BYTES));
	ASSERT_TRUE(we_join(&self->a, &self->b));
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PD_ALLOC, &pd));
	self->pd = pd.pd;
	self->pinned = wt_pinned_kib();
}

FIXTURE_TEARDOWN(late)
{
	if (ff_lacks())
		return;
	EXPECT_EQ(self->pinned, wt_pinned_kib());
	close(self->fd);
	we_end(&self->a);
	we_end(&self->b);
	munmap(self->at, FF_PAGES * FF_PAGE);
	ff_end(&self->file);
}

static uint8_t *page(struct _test_data_late *self, unsigned int n)
{
	return self->at + n * FF_PAGE;
}

/* A page that is in memory: of the process's own from now on. */
static uint8_t *good(struct _test_data_late *self, unsigned int n)
{
	memset(page(self, n), 0, FF_PAGE);
	return page(self, n);
}

static struct weft_mr_reg region_of(struct _test_data_late *self, void *at, size_t bytes)
{
	return (struct weft_mr_reg){
		.size = sizeof(struct weft_mr_reg), .addr = (uintptr_t)at, .length = bytes,
		.base = WE_BASE, .pd = self->pd,
	};
}

static long destroy(int fd, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(fd, WEFT_DESTROY, &d);
}

/* Calls of other files, traffic, and calls of the same file, while one call waits. */
static void others_go_on(struct __test_metadata *_metadata, struct _test_data_late *self)
{
	static uint8_t memory[2 * FF_PAGE];
	struct weft_port_info info = { .size = sizeof(info) };
	struct weft_pd_alloc pd = { .size = sizeof(pd) };
	struct weft_mr_reg mr = region_of(self, memory, sizeof(memory));
	struct we_end other;

	ASSERT_TRUE(we_exchange(&self->a, &self->b, self->messages++));
	EXPECT_TRUE(we_begin(&other, 0, FF_PAGE));
	we_end(&other);
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &info));
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_PD_ALLOC, &pd));
	EXPECT_EQ(0, destroy(self->fd, pd.pd));
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_MR_REG, &mr));
	EXPECT_EQ(0, destroy(self->fd, mr.mr));
}

/* How a child ended that makes one call of the fixture's file: with the errno of it. */
static pid_t begin_call(struct _test_data_late *self, unsigned long cmd, void *arg)
{
	pid_t pid = ff_fork(&self->file);

	if (!pid)
		_exit(-wt_ioctl(self->fd, cmd, arg));
	return pid;
}

/* True if it waits for that page, false if it has ended without. */
static bool waits_for(struct __test_metadata *_metadata, struct _test_data_late *self, pid_t pid,
		      unsigned int page, int *status)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;

	while (!ff_wait(&self->file, page, 10)) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return false;
		ASSERT_LT(wt_now_ms(), until);
	}
	return true;
}

static bool has_ended(pid_t pid, int *status)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;

	while (waitpid(pid, status, WNOHANG) != pid) {
		if (wt_now_ms() > until)
			return false;
		usleep(1000);
	}
	return true;
}

static void is_killed(struct __test_metadata *_metadata, pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	ASSERT_TRUE(has_ended(pid, &status));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) TH_LOG("%#x", status);
}

static void returns(struct __test_metadata *_metadata, pid_t pid, int error)
{
	int status;

	ASSERT_TRUE(has_ended(pid, &status));
	EXPECT_TRUE(WIFEXITED(status)) TH_LOG("%#x", status);
	EXPECT_EQ(error, WEXITSTATUS(status));
}

/* The size in a page that is there, the rest in the next one. */
static void *astride(struct _test_data_late *self)
{
	uint32_t *size = (uint32_t *)(page(self, GOOD + 1) - sizeof(*size));

	*size = LONGEST;
	return size;
}

/* Each ioctl, by its number; the argument begins in the page, or before it. */
static unsigned int each_ioctl(struct __test_metadata *_metadata, struct _test_data_late *self,
			       void *arg)
{
	unsigned int found = 0;

	for (unsigned int n = 0; n < NUMBERS; n++) {
		pid_t pid;
		int status;

		pid = begin_call(self, _IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + n), arg);
		ASSERT_GT(pid, 0);
		if (!waits_for(_metadata, self, pid, GOOD + 1, &status)) {
			EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == ENOTTY)
				TH_LOG("ioctl %u: %#x", n, status);
			continue;
		}
		found++;
		if (!(n % 8))
			others_go_on(_metadata, self);
		is_killed(_metadata, pid);
	}
	return found;
}

TEST_F_TIMEOUT(late, an_argument_comes_late_and_its_task_is_killed, 300)
{
	ff_set(&self->file, GOOD + 1, FF_LATE);
	good(self, GOOD);
	EXPECT_LE(32, each_ioctl(_metadata, self, page(self, GOOD + 1)));
	EXPECT_LE(31, each_ioctl(_metadata, self, astride(self)));
}

TEST_F_TIMEOUT(late, an_argument_comes_late_and_the_call_goes_on, 120)
{
	struct weft_port_info *info = (void *)page(self, GOOD);
	int status;
	pid_t pid;

	/* What the file has there is no size that can be: the answer is that it was read. */
	ff_set(&self->file, GOOD, FF_LATE);
	pid = begin_call(self, WEFT_PORT_INFO, info);
	ASSERT_TRUE(waits_for(_metadata, self, pid, GOOD, &status));
	others_go_on(_metadata, self);
	ff_release(&self->file, GOOD);
	returns(_metadata, pid, E2BIG);
	EXPECT_EQ(ff_byte(GOOD * FF_PAGE), *page(self, GOOD));
}

TEST_F(late, an_argument_that_cannot_be_read_is_efault)
{
	void *places[] = { page(self, GOOD + 1), astride(self) };

	ff_set(&self->file, GOOD + 1, FF_ERROR);
	for (unsigned int n = 0; n < NUMBERS; n++) {
		for (int i = 0; i < 2; i++) {
			unsigned long cmd = _IO(WEFT_IOC_TYPE, WEFT_IOC_BASE + n);
			long r = wt_ioctl(self->fd, cmd, places[i]);

			EXPECT_TRUE(r == -EFAULT || r == -ENOTTY) TH_LOG("ioctl %u: %ld", n, r);
		}
	}
}

TEST_F_TIMEOUT(late, memory_that_is_registered_comes_late_and_the_task_is_killed, 120)
{
	struct weft_mr_reg mr = region_of(self, page(self, GOOD), 4 * FF_PAGE);

	for (int writes = 0; writes < 2; writes++) {
		unsigned int last = GOOD + 2 + writes;
		int status;
		pid_t pid;

		/* Some of it is pinned already, and let go of again. */
		mr.access = writes ? WEFT_ACCESS_LOCAL_WRITE : 0;
		ff_set(&self->file, last, FF_LATE);
		pid = begin_call(self, WEFT_MR_REG, &mr);
		ASSERT_TRUE(waits_for(_metadata, self, pid, last, &status));
		others_go_on(_metadata, self);
		is_killed(_metadata, pid);
		ff_set(&self->file, last, FF_DATA);
	}
	/* No region of it has stayed in the domain. */
	EXPECT_EQ(0, destroy(self->fd, self->pd));
}

TEST_F_TIMEOUT(late, memory_that_is_registered_comes_late_and_the_call_goes_on, 120)
{
	struct weft_mr_reg mr = region_of(self, page(self, GOOD), 2 * FF_PAGE);
	int status;
	pid_t pid;

	ff_set(&self->file, GOOD + 1, FF_LATE);
	pid = begin_call(self, WEFT_MR_REG, &mr);
	ASSERT_TRUE(waits_for(_metadata, self, pid, GOOD + 1, &status));
	others_go_on(_metadata, self);
	ff_release(&self->file, GOOD + 1);
	returns(_metadata, pid, 0);
	/* The child's memory it was, but the file's region it is. */
	EXPECT_EQ(-EBUSY, destroy(self->fd, self->pd));
}

TEST_F(late, memory_that_cannot_be_read_is_not_registered)
{
	struct weft_mr_reg mr = region_of(self, page(self, GOOD), 2 * FF_PAGE);

	ff_set(&self->file, GOOD + 1, FF_ERROR);
	EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, WEFT_MR_REG, &mr));
	mr.access = WEFT_ACCESS_LOCAL_WRITE;
	EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, WEFT_MR_REG, &mr));
	EXPECT_EQ(self->pinned, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, self->pd));
}

/* What is registered is in memory, whatever the file's server does: nothing waits for it. */
TEST_F_TIMEOUT(late, buffers_of_requests_are_there_when_the_file_is_not, 120)
{
	const uint32_t bytes = 2 * FF_PAGE;
	uint32_t mr[2], stag[2], right = 0;
	struct weft_cqe cqe;

	ASSERT_EQ(0, we_register(&self->a, page(self, GOOD), bytes, 0, &mr[0], &stag[0]));
	ASSERT_EQ(0, we_register(&self->b, page(self, OTHER), bytes, WEFT_ACCESS_LOCAL_WRITE,
				 &mr[1], &stag[1]));
	for (unsigned int n = 0; n < FF_PAGES; n++)
		ff_set(&self->file, n, FF_LATE);
	/* Neither of the two needs to be mapped any more. */
	ASSERT_EQ(0, madvise(page(self, GOOD), bytes, MADV_DONTNEED));
	for (unsigned int n = 0; n < 8; n++) {
		struct weft_sge from = { .to = WE_BASE, .length = bytes, .stag = stag[0] };
		struct weft_send_wqe send = {
			.wr_id = n, .opcode = WEFT_OP_SEND, .flags = WEFT_WR_SIGNALED, .count = 1,
		};
		uint32_t own = self->b.stag;

		self->b.stag = stag[1];
		we_post_recv(&self->b, n, 0, bytes);
		self->b.stag = own;
		we_post_wqe(&self->a, &send, &from);
		ASSERT_TRUE(we_await(&self->b, &self->a, &cqe));
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
		EXPECT_EQ(bytes, cqe.byte_len);
		ASSERT_TRUE(we_await(&self->a, &self->b, &cqe));
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
	}
	/* Pages that were written are the process's own. */
	for (uint32_t n = 0; n < bytes; n++)
		right += page(self, OTHER)[n] == ff_byte(GOOD * FF_PAGE + n);
	EXPECT_EQ(bytes, right);
	EXPECT_EQ(0, we_destroy(&self->a, mr[0]));
	EXPECT_EQ(0, we_destroy(&self->b, mr[1]));
}

#define NO_SUCH_ENDPOINT "c000000000000fab.0 1\n"

/* The text of the assignments; its length, or a negative errno. */
static long assignments(int fd, unsigned int flags, void *text, uint32_t bytes, uint32_t *version)
{
	struct weft_fabric_assignments a = {
		.size = sizeof(a), .flags = flags, .text = (uintptr_t)text, .bytes = bytes,
		.version = *version,
	};
	long r = wt_ioctl(fd, WEFT_FABRIC_ASSIGNMENTS, &a);

	*version = a.version;
	return r ? r : a.bytes;
}

/* Replaces them. The master is found first, and notes in the same text what it sees. */
static long replace(int fd, void *text, uint32_t bytes)
{
	static char now[WEFT_ASSIGNMENTS_BYTES];
	int64_t until = wt_now_ms() + PATIENCE_MS;
	uint32_t version = 0;
	long r;

	do {
		r = assignments(fd, 0, now, sizeof(now), &version);
		if (r >= 0)
			r = assignments(fd, WEFT_ASSIGNMENTS_SET, text, bytes, &version);
	} while ((r == -ESTALE || r == -EAGAIN) && wt_now_ms() < until);
	return r;
}

/* Whether they can be read, and are still those of the test. */
static bool are_there(int fd)
{
	char text[WEFT_ASSIGNMENTS_BYTES + 1] = "";
	uint32_t version = 0;

	return assignments(fd, 0, text, sizeof(text) - 1, &version) > 0 &&
	       strstr(text, NO_SUCH_ENDPOINT);
}

TEST_F_TIMEOUT(late, texts_of_a_call_come_late_or_cannot_be_had, 120)
{
	static char before[WEFT_ASSIGNMENTS_BYTES];
	const unsigned int flags[] = { 0, WEFT_ASSIGNMENTS_SET };
	const size_t length = strlen(NO_SUCH_ENDPOINT);
	uint32_t version = 0;
	long bytes;

	bytes = assignments(self->fd, 0, before, sizeof(before), &version);
	ASSERT_GE(bytes, 0);
	ASSERT_LE(0, replace(self->fd, NO_SUCH_ENDPOINT, length));
	for (int i = 0; i < 2; i++) {
		struct weft_fabric_assignments a = {
			.size = sizeof(a), .flags = flags[i], .bytes = FF_PAGE / 2,
			.text = (uintptr_t)page(self, GOOD + i),
		};
		int status;
		pid_t pid;

		ff_set(&self->file, GOOD + i, FF_LATE);
		pid = begin_call(self, WEFT_FABRIC_ASSIGNMENTS, &a);
		ASSERT_TRUE(waits_for(_metadata, self, pid, GOOD + i, &status));
		others_go_on(_metadata, self);
		EXPECT_TRUE(are_there(self->fd));
		EXPECT_LE(0, replace(self->fd, NO_SUCH_ENDPOINT, length));
		is_killed(_metadata, pid);
		EXPECT_TRUE(are_there(self->fd));
		ff_set(&self->file, OTHER, FF_ERROR);
		EXPECT_EQ(-EFAULT, assignments(self->fd, flags[i], page(self, OTHER), FF_PAGE,
					       &version));
		EXPECT_TRUE(are_there(self->fd));
	}
	EXPECT_LE(0, replace(self->fd, before, bytes));
}

TEST_HARNESS_MAIN
