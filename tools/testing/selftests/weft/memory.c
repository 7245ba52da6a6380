// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains, memory regions and windows: what can be registered, what it
 * counts against, who else needs it, and what becomes of it when the memory or the
 * process goes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>

#include "kselftest_harness.h"
#include "weft_test.h"

#define KEY 0x5a

static long pd_alloc(int fd, uint32_t *pd)
{
	struct weft_pd_alloc a = { .size = sizeof(a) };
	long r = wt_ioctl(fd, WEFT_PD_ALLOC, &a);

	*pd = a.pd;
	return r;
}

static struct weft_mr_reg mr_args(uint32_t pd, void *addr, uint64_t length, uint32_t access)
{
	return (struct weft_mr_reg) {
		.size = sizeof(struct weft_mr_reg), .addr = (uintptr_t)addr,
		.length = length, .base = (uintptr_t)addr, .pd = pd,
		.access = access, .key = KEY,
	};
}

static long mr_reg(int fd, uint32_t pd, void *addr, uint64_t length, uint32_t access, uint32_t *mr)
{
	struct weft_mr_reg reg = mr_args(pd, addr, length, access);
	long r = wt_ioctl(fd, WEFT_MR_REG, &reg);

	if (mr)
		*mr = reg.mr;
	return r;
}

static long mw_alloc(int fd, uint32_t pd, uint32_t *mw, uint32_t *stag)
{
	struct weft_mw_alloc a = { .size = sizeof(a), .pd = pd };
	long r = wt_ioctl(fd, WEFT_MW_ALLOC, &a);

	if (mw)
		*mw = a.mw;
	if (stag)
		*stag = a.stag;
	return r;
}

static long destroy(int fd, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(fd, WEFT_DESTROY, &d);
}

static void *memory(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Without CAP_IPC_LOCK RLIMIT_MEMLOCK holds for root as well. */
static bool drop_ipc_lock(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		return false;
	d[0].effective &= ~(1u << CAP_IPC_LOCK);
	d[0].permitted &= ~(1u << CAP_IPC_LOCK);
	return !syscall(SYS_capset, &h, d);
}

static bool limit_memlock(unsigned long bytes)
{
	struct rlimit l = { .rlim_cur = bytes, .rlim_max = bytes };

	return !setrlimit(RLIMIT_MEMLOCK, &l) && drop_ipc_lock();
}

FIXTURE(memory) {
	int fd;
	uint32_t pd;
};

FIXTURE_SETUP(memory)
{
	ASSERT_TRUE(wt_wait_ready(30000));
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, pd_alloc(self->fd, &self->pd));
	ASSERT_NE(0, self->pd);
}

FIXTURE_TEARDOWN(memory)
{
	close(self->fd);
}

TEST_F(memory, limits_are_told_to_any_user)
{
	struct weft_limits l = { .size = sizeof(l) };
	int fd = wt_open(0, 0);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(0, wt_ioctl(fd, WEFT_LIMITS, &l));
	EXPECT_EQ(sizeof(l), l.size);
	EXPECT_GE(l.stags, 1024);
	EXPECT_GE(l.pds, 1024);
	EXPECT_GE(l.mr_bytes, 1ULL << 30);
	l = (struct weft_limits) { .size = sizeof(l), .flags = 1 };
	EXPECT_EQ(-EINVAL, wt_ioctl(fd, WEFT_LIMITS, &l));
	/* The file is fresh still. */
	EXPECT_EQ(-ENOENT, destroy(fd, 1));
	close(fd);
}

TEST_F(memory, a_file_has_one_role)
{
	struct weft_chan_info i = { .size = sizeof(i) };
	uint32_t pd;
	int listener = wt_listen(0, wt_service(), 1);

	ASSERT_GE(listener, 0);
	EXPECT_EQ(-EISCONN, pd_alloc(listener, &pd));
	EXPECT_EQ(-EISCONN, destroy(listener, 1));
	close(listener);
	EXPECT_EQ(-EISCONN, wt_connect(self->fd, wt_service(), 16, 4096, 100));
	EXPECT_EQ(-ENOTCONN, wt_ioctl(self->fd, WEFT_CHAN_INFO, &i));
	EXPECT_EQ(0, pd_alloc(self->fd, &pd));
}

TEST_F(memory, handles_are_of_one_file)
{
	void *p = memory(WT_PAGE);
	uint32_t mr, pd;
	int other = wt_open(0, 0);

	ASSERT_GE(other, 0);
	EXPECT_EQ(-ENOENT, destroy(other, self->pd));
	EXPECT_EQ(-ENOENT, mr_reg(other, self->pd, p, WT_PAGE, 0, &mr));
	ASSERT_EQ(0, pd_alloc(other, &pd));
	EXPECT_EQ(0, destroy(other, pd));
	EXPECT_EQ(-ENOENT, destroy(other, pd));
	EXPECT_EQ(-ENOENT, destroy(self->fd, 0));
	EXPECT_EQ(-ENOENT, destroy(self->fd, UINT32_MAX));
	close(other);
	EXPECT_EQ(0, mr_reg(self->fd, self->pd, p, WT_PAGE, 0, &mr));
	/* An object of another kind. */
	EXPECT_EQ(-ENOENT, mr_reg(self->fd, mr, p, WT_PAGE, 0, NULL));
	EXPECT_EQ(-ENOENT, mw_alloc(self->fd, mr, NULL, NULL));
}

TEST_F(memory, a_domain_is_needed_by_its_regions_and_windows)
{
	void *p = memory(WT_PAGE);
	uint32_t mr, mw;

	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, WT_PAGE, WEFT_ACCESS_MW_BIND, &mr));
	ASSERT_EQ(0, mw_alloc(self->fd, self->pd, &mw, NULL));
	EXPECT_EQ(-EBUSY, destroy(self->fd, self->pd));
	EXPECT_EQ(0, destroy(self->fd, mr));
	EXPECT_EQ(-EBUSY, destroy(self->fd, self->pd));
	EXPECT_EQ(0, destroy(self->fd, mw));
	EXPECT_EQ(0, destroy(self->fd, self->pd));
	EXPECT_EQ(-ENOENT, mr_reg(self->fd, self->pd, p, WT_PAGE, 0, NULL));
}

/* M-1: the index is the driver's, the key the user's. */
TEST_F(memory, M_1_an_stag_has_the_key_that_was_asked_for)
{
	void *p = memory(WT_PAGE);
	struct weft_mr_reg a = mr_args(self->pd, p, 16, 0), b = a;
	uint32_t stag;

	b.key = 0xff;
	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_MR_REG, &a));
	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_MR_REG, &b));
	ASSERT_EQ(0, mw_alloc(self->fd, self->pd, NULL, &stag));
	EXPECT_EQ(KEY, a.stag & WEFT_STAG_KEY);
	EXPECT_EQ(0xff, b.stag & WEFT_STAG_KEY);
	EXPECT_EQ(0, stag & WEFT_STAG_KEY);
	EXPECT_NE(a.stag >> WEFT_STAG_INDEX_SHIFT, b.stag >> WEFT_STAG_INDEX_SHIFT);
	EXPECT_NE(a.stag >> WEFT_STAG_INDEX_SHIFT, stag >> WEFT_STAG_INDEX_SHIFT);
	EXPECT_NE(0, a.stag >> WEFT_STAG_INDEX_SHIFT);
	b.key = 0x100;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_MR_REG, &b));
}

/* An index comes again as late as can be: who kept a stale STag hits nothing. */
TEST_F(memory, M_1_an_index_is_not_used_again_at_once)
{
	void *p = memory(WT_PAGE);
	struct weft_mr_reg first = mr_args(self->pd, p, 16, 0);

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_MR_REG, &first));
	ASSERT_EQ(0, destroy(self->fd, first.mr));
	for (int i = 0; i < 32; i++) {
		struct weft_mr_reg next = mr_args(self->pd, p, 16, 0);

		ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_MR_REG, &next));
		EXPECT_NE(first.stag, next.stag);
		EXPECT_EQ(0, destroy(self->fd, next.mr));
	}
}

TEST_F(memory, M_2_what_makes_no_sense_is_refused)
{
	char *p = memory(4 * WT_PAGE);
	struct weft_limits l = { .size = sizeof(l) };
	struct weft_mr_reg good = mr_args(self->pd, p, WT_PAGE, 0), bad;
	struct weft_mw_alloc w = { .size = sizeof(w), .pd = self->pd };
	struct weft_pd_alloc d = { .size = sizeof(d), .reserved = 1 };
	struct weft_destroy x = { .size = sizeof(x), .handle = self->pd };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_LIMITS, &l));
#define REFUSED(errno_, ...)							\
	do {									\
		bad = good;							\
		__VA_ARGS__;							\
		EXPECT_EQ(-(errno_), wt_ioctl(self->fd, WEFT_MR_REG, &bad))	\
			TH_LOG("%s", #__VA_ARGS__);				\
	} while (0)
	REFUSED(EINVAL, bad.flags = 1);
	REFUSED(EINVAL, bad.reserved = 1);
	REFUSED(EINVAL, bad.size = sizeof(bad) - 4);
	REFUSED(E2BIG, bad.size = 8192);
	REFUSED(EINVAL, bad.length = 0);
	REFUSED(EINVAL, bad.length = l.mr_bytes + 1);
	REFUSED(EINVAL, bad.base = UINT64_MAX - 10);
	REFUSED(EINVAL, bad.access = 1 << 5);
	REFUSED(EINVAL, bad.access = WEFT_ACCESS_REMOTE_WRITE);
	REFUSED(EINVAL, bad.access = WEFT_ACCESS_REMOTE_ATOMIC);
	REFUSED(EINVAL, bad.key = 256);
	REFUSED(ENOENT, bad.pd = 0);
	REFUSED(ENOENT, bad.pd = self->pd + 1000);
	REFUSED(EFAULT, bad.addr = UINT64_MAX - 100);
	REFUSED(EFAULT, bad.addr = 1ULL << 47);
	REFUSED(EFAULT, bad.addr = 0);
	EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, WEFT_MR_REG, NULL));
	w.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_MW_ALLOC, &w));
	w.reserved = 0;
	w.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_MW_ALLOC, &w));
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_PD_ALLOC, &d));
	x.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_DESTROY, &x));
	x.reserved = 0;
	x.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_DESTROY, &x));
	/* Nothing was left of it. */
	EXPECT_EQ(0, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, self->pd));
}

/* A structure that cannot be written back leaves nothing behind. */
TEST_F(memory, a_caller_that_cannot_be_told_has_nothing)
{
	struct weft_mr_reg *reg = memory(WT_PAGE);
	void *p = memory(WT_PAGE);

	*reg = mr_args(self->pd, p, WT_PAGE, 0);
	ASSERT_EQ(0, mprotect(reg, WT_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, WEFT_MR_REG, reg));
	EXPECT_EQ(0, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, self->pd));
}

TEST_F(memory, M_4_memory_that_is_not_there_or_not_to_be_written)
{
	char *p = memory(4 * WT_PAGE);
	char *ro;
	int fd = open("/dev/zero", O_RDONLY);

	ASSERT_EQ(0, munmap(p + 2 * WT_PAGE, WT_PAGE));
	EXPECT_EQ(-EFAULT, mr_reg(self->fd, self->pd, p, 4 * WT_PAGE, 0, NULL));
	EXPECT_EQ(0, mr_reg(self->fd, self->pd, p, 2 * WT_PAGE, 0, NULL));
	ro = mmap(NULL, WT_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, ro);
	EXPECT_EQ(-EFAULT, mr_reg(self->fd, self->pd, ro, WT_PAGE,
				  WEFT_ACCESS_LOCAL_WRITE, NULL));
	EXPECT_EQ(0, mr_reg(self->fd, self->pd, ro, WT_PAGE, WEFT_ACCESS_REMOTE_READ, NULL));
	close(fd);
}

TEST_F(memory, M_4_a_mapping_of_a_device_is_no_memory)
{
	struct wt_chan a, b;

	ASSERT_TRUE(wt_pair(&a, &b, 16, 4096));
	/* Touched, so that its pages are there. */
	a.user->produced = a.produced;
	EXPECT_EQ(-EFAULT, mr_reg(self->fd, self->pd, (void *)a.user, WT_PAGE, 0, NULL));
	EXPECT_EQ(-EFAULT, mr_reg(self->fd, self->pd, (void *)a.window, WT_PAGE,
				  WEFT_ACCESS_LOCAL_WRITE, NULL));
	EXPECT_EQ(0, wt_pinned_kib());
	wt_close(&a);
	wt_close(&b);
}

TEST_F(memory, pins_are_accounted_by_pages)
{
	char *p = memory(64 * WT_PAGE);
	uint32_t mr[3];

	/* Two bytes over a border are two pages. */
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p + WT_PAGE - 1, 2, 0, &mr[0]));
	EXPECT_EQ(8, wt_pinned_kib());
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 64 * WT_PAGE,
			    WEFT_ACCESS_LOCAL_WRITE, &mr[1]));
	EXPECT_EQ(8 + 256, wt_pinned_kib());
	EXPECT_EQ(8 + 256, wt_status_kib("VmPin"));
	/* Registered again, counted again. */
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 1, 0, &mr[2]));
	EXPECT_EQ(8 + 256 + 4, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, mr[1]));
	EXPECT_EQ(8 + 4, wt_pinned_kib());
	close(self->fd);
	EXPECT_EQ(0, wt_pinned_kib());
	EXPECT_EQ(0, wt_status_kib("VmPin"));
	self->fd = -1;
}

TEST_F(memory, rlimit_memlock_holds)
{
	char *p = memory(64 * WT_PAGE);
	uint32_t mr, other;

	ASSERT_TRUE(limit_memlock(32 * WT_PAGE));
	EXPECT_EQ(-ENOMEM, mr_reg(self->fd, self->pd, p, 33 * WT_PAGE, 0, NULL));
	EXPECT_EQ(-ENOMEM, mr_reg(self->fd, self->pd, p + 1, 32 * WT_PAGE, 0, NULL));
	EXPECT_EQ(0, wt_pinned_kib());
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 32 * WT_PAGE, 0, &mr));
	EXPECT_EQ(-ENOMEM, mr_reg(self->fd, self->pd, p, 1, 0, NULL));
	EXPECT_EQ(0, destroy(self->fd, mr));
	EXPECT_EQ(0, mr_reg(self->fd, self->pd, p, 1, 0, &other));
	/* A refused registration gives back what it had counted. */
	ASSERT_EQ(0, munmap(p + 8 * WT_PAGE, WT_PAGE));
	for (int i = 0; i < 64; i++)
		EXPECT_EQ(-EFAULT, mr_reg(self->fd, self->pd, p, 16 * WT_PAGE, 0, NULL));
	EXPECT_EQ(4, wt_pinned_kib());
}

TEST_F(memory, what_is_unmapped_stays_pinned_and_counted)
{
	char *p = memory(16 * WT_PAGE);
	uint32_t mr;

	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 16 * WT_PAGE,
			    WEFT_ACCESS_LOCAL_WRITE, &mr));
	ASSERT_EQ(0, munmap(p, 16 * WT_PAGE));
	EXPECT_EQ(64, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, mr));
	EXPECT_EQ(0, wt_pinned_kib());
}

/* The child has a descriptor, and may close it last: what it gives back is the parent's. */
TEST_F(memory, after_a_fork_the_parent_is_charged)
{
	char *p = memory(16 * WT_PAGE);
	uint32_t mr[2];
	int status;
	pid_t pid;

	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 16 * WT_PAGE,
			    WEFT_ACCESS_LOCAL_WRITE, &mr[0]));
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, p, 4 * WT_PAGE, 0, &mr[1]));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		/* A child's own locked memory is none; the parent's can be given back by it. */
		if (wt_pinned_kib() != 0)
			_exit(1);
		if (destroy(self->fd, mr[1]))
			_exit(2);
		if (wt_pinned_kib() != 0)
			_exit(3);
		/* What it registers counts for itself. */
		if (mr_reg(self->fd, self->pd, p, WT_PAGE, WEFT_ACCESS_LOCAL_WRITE, NULL))
			_exit(4);
		_exit(wt_pinned_kib() == 4 ? 0 : 5);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(64, wt_pinned_kib());
	EXPECT_EQ(-ENOENT, destroy(self->fd, mr[1]));
	EXPECT_EQ(0, destroy(self->fd, mr[0]));
	EXPECT_EQ(0, wt_pinned_kib());
}

/* As user 65534, with a limit: what @pages pages of @p are registered with. */
static long as_a_user(int fd, uint32_t pd, void *p, unsigned long pages)
{
	struct rlimit l = { .rlim_cur = 32 * WT_PAGE, .rlim_max = 32 * WT_PAGE };

	if (setrlimit(RLIMIT_MEMLOCK, &l) || setresgid(65534, 65534, 65534) ||
	    setresuid(65534, 65534, 65534))
		return 1;
	return mr_reg(fd, pd, p, pages * WT_PAGE, 0, NULL);
}

/* A child that registers and then waits as another program; or does not wait. Its status. */
static int child(int fd, uint32_t pd, void *p, unsigned long pages, long want, pid_t *waits)
{
	int status, ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		if (as_a_user(fd, pd, p, pages) != want)
			_exit(1);
		if (waits)
			execlp("sleep", "sleep", "1000", NULL);
		_exit(waits ? 2 : 0);
	}
	close(ready[1]);
	/* Closed by exec or by the end. */
	if (pid < 0 || read(ready[0], &byte, 1))
		return -1;
	close(ready[0]);
	if (waits) {
		*waits = pid;
		return waitpid(pid, &status, WNOHANG) ? -1 : 0;
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* The address space that registered is gone after exec and exit; pages that stay pinned count. */
TEST_F(memory, neither_exec_nor_exit_makes_room_for_more)
{
	char *p = memory(64 * WT_PAGE);
	pid_t pid;

	EXPECT_EQ(0, child(self->fd, self->pd, p, 16, 0, NULL));
	EXPECT_EQ(0, child(self->fd, self->pd, p, 17, -ENOMEM, NULL));
	ASSERT_EQ(0, child(self->fd, self->pd, p, 16, 0, &pid));
	EXPECT_EQ(0, child(self->fd, self->pd, p, 1, -ENOMEM, NULL));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	/* The file is open here. */
	EXPECT_EQ(0, child(self->fd, self->pd, p, 1, -ENOMEM, NULL));
	close(self->fd);
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, pd_alloc(self->fd, &self->pd));
	EXPECT_EQ(0, child(self->fd, self->pd, p, 32, 0, NULL));
}

/* The memory is gone with its process; the object stays until the file is closed. */
TEST_F(memory, a_killed_process_leaves_nothing)
{
	char *p = memory(64 * WT_PAGE);
	int ready[2], status;
	char byte;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		bool ok = !mr_reg(self->fd, self->pd, p, 64 * WT_PAGE,
				  WEFT_ACCESS_LOCAL_WRITE, NULL) &&
			  wt_pinned_kib() == 256;

		write(ready[1], ok ? "y" : "n", 1);
		for (;;)
			pause();
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ('y', byte);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	/* The file is open here: its objects are there, and need the domain. */
	EXPECT_EQ(-EBUSY, destroy(self->fd, self->pd));
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, wt_pinned_kib());
}

TEST_F(memory, the_last_close_destroys_all)
{
	char *p = memory(16 * WT_PAGE);

	for (int round = 0; round < 20; round++) {
		int fd = wt_open(0, 0);
		uint32_t pd;

		ASSERT_GE(fd, 0);
		ASSERT_EQ(0, pd_alloc(fd, &pd));
		for (int i = 0; i < 16; i++) {
			ASSERT_EQ(0, mr_reg(fd, pd, p, 16 * WT_PAGE, 0x1f, NULL));
			ASSERT_EQ(0, mw_alloc(fd, pd, NULL, NULL));
		}
		EXPECT_EQ(16 * 64, wt_pinned_kib());
		close(fd);
		EXPECT_EQ(0, wt_pinned_kib());
	}
}

TEST_F(memory, pages_that_are_huge_and_pages_that_are_not)
{
	const uint64_t huge = 2 << 20;
	char *p = memory(4 * huge), *at;
	uint32_t mr;

	ASSERT_NE(NULL, p);
	at = (char *)(((uintptr_t)p + huge - 1) & ~(huge - 1));
	madvise(at, 3 * huge, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < 3 * huge; i += WT_PAGE)
		at[i] = 1;
	ASSERT_EQ(0, mr_reg(self->fd, self->pd, at + 4097, 2 * huge, 0x1f, &mr));
	/* Begins in the second page, ends in the second of the third huge one. */
	EXPECT_EQ(2 * 2048 + 4, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, mr));
	EXPECT_EQ(0, wt_pinned_kib());
}

TEST_F_TIMEOUT(memory, as_many_domains_as_the_limit_says, 300)
{
	struct weft_limits l = { .size = sizeof(l) };
	uint32_t pd, n, last = 0;
	long r = 0;
	int fd = wt_open(0, 0);

	ASSERT_EQ(0, wt_ioctl(fd, WEFT_LIMITS, &l));
	/* One is the fixture's. */
	for (n = 1; n <= l.pds; n++) {
		r = pd_alloc(fd, &pd);
		if (r)
			break;
		last = pd;
	}
	EXPECT_EQ(-ENOSPC, r);
	EXPECT_EQ(l.pds, n);
	EXPECT_EQ(0, destroy(fd, last));
	EXPECT_EQ(0, pd_alloc(fd, &pd));
	close(fd);
	EXPECT_EQ(0, pd_alloc(self->fd, &pd));
}

TEST_F_TIMEOUT(memory, as_many_stags_as_the_limit_says, 300)
{
	struct weft_limits l = { .size = sizeof(l) };
	uint32_t n, mw, last = 0, stag, seen = 0;
	char *p = memory(WT_PAGE);
	long r = 0;

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_LIMITS, &l));
	for (n = 0; n <= l.stags; n++) {
		r = mw_alloc(self->fd, self->pd, &mw, &stag);
		if (r)
			break;
		last = mw;
		seen |= stag;
	}
	EXPECT_EQ(-ENOSPC, r);
	EXPECT_EQ(l.stags, n);
	EXPECT_EQ(0, seen & WEFT_STAG_KEY);
	EXPECT_EQ(-ENOSPC, mr_reg(self->fd, self->pd, p, 1, 0, NULL));
	EXPECT_EQ(0, wt_pinned_kib());
	EXPECT_EQ(0, destroy(self->fd, last));
	EXPECT_EQ(0, mr_reg(self->fd, self->pd, p, 1, 0, NULL));
}

struct racer {
	int fd;
	uint32_t pd;
	void *p;
	bool bad;
};

/* Registers, guesses others' handles, destroys: every result is one of a few. */
static void *race(void *arg)
{
	struct racer *r = arg;

	for (int i = 0; i < 100; i++) {
		uint32_t mr = 0, mw = 0;
		long e = mr_reg(r->fd, r->pd, r->p, 4 * WT_PAGE, 0x1f, &mr);

		r->bad |= e && e != -ENOENT;
		mw_alloc(r->fd, r->pd, &mw, NULL);
		e = destroy(r->fd, mr ? mr - 1 : 0);
		r->bad |= e && e != -ENOENT && e != -EBUSY;
		e = destroy(r->fd, mr);
		r->bad |= e && e != -ENOENT;
		e = destroy(r->fd, mw);
		r->bad |= e && e != -ENOENT;
	}
	return NULL;
}

TEST_F_TIMEOUT(memory, threads_that_destroy_each_others_objects, 300)
{
	struct racer r = {
		.fd = self->fd, .pd = self->pd, .p = memory(4 * WT_PAGE),
	};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, race, &r));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	EXPECT_FALSE(r.bad);
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, wt_pinned_kib());
}

TEST_HARNESS_MAIN
