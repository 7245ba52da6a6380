// SPDX-License-Identifier: GPL-2.0
/*
 * What the header promises of functions of shared endpoints, to a program that asks for
 * nonsense. Needs a function that port 0's host is given: WEFT_ENDPOINT=HWID.VE in the
 * environment, both in hexadecimal.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "fuse_file.h"
#include "inject.h"
#include "weft_test.h"

#define BYTES 8192

static struct weft_ep_open open_of(unsigned int entries, unsigned int flags)
{
	struct weft_ep_open o = { .size = sizeof(o), .entries = entries, .flags = flags };
	const char *name = getenv("WEFT_ENDPOINT");
	unsigned long long hwid = 0;
	unsigned int ve = 0;

	if (name && sscanf(name, "%llx.%x", &hwid, &ve) == 2) {
		o.endpoint = hwid;
		o.ve = ve;
	}
	return o;
}

static long area_of(int fd, uint64_t bytes, unsigned int flags, struct weft_ep_area *a)
{
	*a = (struct weft_ep_area){ .size = sizeof(*a), .bytes = bytes, .flags = flags };
	return wt_ioctl(fd, WEFT_EP_AREA, a);
}

static long free_of(int fd, unsigned int area)
{
	struct weft_ep_free f = { .size = sizeof(f), .area = area };

	return wt_ioctl(fd, WEFT_EP_FREE, &f);
}

static long submit(int fd, const void *work, unsigned int count, unsigned int *done)
{
	struct weft_ep_submit s = {
		.size = sizeof(s), .work = (uintptr_t)work, .count = count, .done = 99,
	};
	long r = wt_ioctl(fd, WEFT_EP_SUBMIT, &s);

	if (done)
		*done = s.done;
	return r;
}

static long reap(int fd, struct weft_ep_done *done, unsigned int count, unsigned int timeout_ms)
{
	struct weft_ep_reap r = {
		.size = sizeof(r), .done = (uintptr_t)done, .count = count,
		.timeout_ms = timeout_ms,
	};
	long error = wt_ioctl(fd, WEFT_EP_REAP, &r);

	return error ? error : r.count;
}

FIXTURE(endpoint) {
	int fd;
	struct weft_ep_area a;
};

FIXTURE_SETUP(endpoint)
{
	struct weft_ep_open o = open_of(16, 0);

	ASSERT_NE(NULL, getenv("WEFT_ENDPOINT"));
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_EP_OPEN, &o));
	ASSERT_EQ(0, area_of(self->fd, BYTES, WEFT_EP_MAY_READ | WEFT_EP_MAY_WRITE, &self->a));
}

FIXTURE_TEARDOWN(endpoint)
{
	close(self->fd);
}

TEST_F(endpoint, opens_what_there_is_and_once)
{
	struct weft_ep_open o = open_of(16, 0);
	int other = wt_open(0, 0);

	ASSERT_GE(other, 0);
	EXPECT_EQ(-EISCONN, wt_ioctl(self->fd, WEFT_EP_OPEN, &o));
	EXPECT_EQ(-EBUSY, wt_ioctl(other, WEFT_EP_OPEN, &o));
	for (unsigned int entries = 0; entries < 4096; entries += 3) {
		struct weft_ep_open bad = open_of(entries, 0);

		if (entries && entries <= WEFT_EP_MAX_ENTRIES && !(entries & (entries - 1)))
			continue;
		EXPECT_EQ(-EINVAL, wt_ioctl(other, WEFT_EP_OPEN, &bad)) TH_LOG("%u", entries);
	}
	o.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(other, WEFT_EP_OPEN, &o));
	o.reserved = 0;
	o.function = 77;
	EXPECT_EQ(-ENOENT, wt_ioctl(other, WEFT_EP_OPEN, &o));
	o.function = 0;
	o.ve += 256;
	EXPECT_EQ(-ENOENT, wt_ioctl(other, WEFT_EP_OPEN, &o));
	o.ve -= 256;
	o.endpoint ^= 1;
	EXPECT_EQ(-ENOENT, wt_ioctl(other, WEFT_EP_OPEN, &o));
	EXPECT_EQ(-EFAULT, wt_ioctl(other, WEFT_EP_OPEN, NULL));
	/* It is fresh yet, and the function is its own when the first has gone. */
	close(self->fd);
	o = open_of(16, WEFT_EP_PUSH_WORK);
	EXPECT_EQ(0, wt_ioctl(other, WEFT_EP_OPEN, &o));
	self->fd = other;
}

TEST_F(endpoint, queues_that_do_not_fit_the_function_are_enospc)
{
	struct weft_ep_open o = open_of(WEFT_EP_MAX_ENTRIES, WEFT_EP_PUSH_WORK);

	close(self->fd);
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
	EXPECT_EQ(-ENOSPC, wt_ioctl(self->fd, WEFT_EP_OPEN, &o));
	o.flags = 0;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_EP_OPEN, &o));
}

TEST_F(endpoint, areas_have_limits)
{
	const unsigned int both = WEFT_EP_MAY_READ | WEFT_EP_MAY_WRITE;
	struct weft_ep_area a, more[WEFT_EP_MAX_AREAS];
	struct weft_ep_query q = { .size = sizeof(q) };

	EXPECT_EQ(-EINVAL, area_of(self->fd, 0, both, &a));
	EXPECT_EQ(-EINVAL, area_of(self->fd, WEFT_EP_MAX_AREA + 1, both, &a));
	EXPECT_EQ(-EINVAL, area_of(self->fd, UINT64_MAX, both, &a));
	EXPECT_EQ(-EINVAL, area_of(self->fd, BYTES, 0, &a));
	EXPECT_EQ(-EINVAL, area_of(self->fd, BYTES, 4 | both, &a));
	EXPECT_EQ(-ENOENT, free_of(self->fd, 0));
	EXPECT_EQ(-ENOENT, free_of(self->fd, self->a.area + 1));
	for (int n = 0; n < WEFT_EP_MAX_AREAS - 1; n++) {
		ASSERT_EQ(0, area_of(self->fd, 1, both, &more[n]));
		EXPECT_EQ(4096, more[n].bytes);
		EXPECT_NE(self->a.offset, more[n].offset);
	}
	EXPECT_EQ(-ENOSPC, area_of(self->fd, BYTES, both, &a));
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
	EXPECT_EQ(WEFT_EP_MAX_AREAS, q.areas);
	EXPECT_EQ(0, q.broken);
	for (int n = 0; n < WEFT_EP_MAX_AREAS - 1; n++)
		EXPECT_EQ(0, free_of(self->fd, more[n].area));
	EXPECT_EQ(-ENOENT, free_of(self->fd, more[0].area));
	/* Nothing is under way that could name one of them. */
	EXPECT_EQ(0, area_of(self->fd, WEFT_EP_MAX_AREA, both, &a));
}

TEST_F(endpoint, areas_come_and_go)
{
	const unsigned int both = WEFT_EP_MAY_READ | WEFT_EP_MAY_WRITE;

	/* The holder of the last one may take a while to let go of it. */
	for (int n = 0; n < 200; n++) {
		ASSERT_EQ(0, free_of(self->fd, self->a.area));
		ASSERT_EQ(0, area_of(self->fd, BYTES, both, &self->a));
	}
}

TEST_F(endpoint, an_area_is_mapped_shared_and_within_its_bounds)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct weft_ep_area *a = &self->a;
	uint64_t *p;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, rw, MAP_PRIVATE, self->fd, a->offset));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * BYTES, rw, MAP_SHARED, self->fd, a->offset));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, rw, MAP_SHARED, self->fd, a->offset + BYTES));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, rw, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, rw | PROT_EXEC, MAP_SHARED, self->fd, a->offset));
	p = mmap(NULL, BYTES, rw, MAP_SHARED, self->fd, a->offset);
	ASSERT_NE(MAP_FAILED, p);
	for (int n = 0; n < BYTES / 8; n++)
		EXPECT_EQ(0, p[n]);
	p[BYTES / 8 - 1] = 1;
	EXPECT_EQ(0, munmap(p, BYTES));
}

TEST_F(endpoint, work_that_makes_no_sense_is_refused_and_none_is_done)
{
	const unsigned int area = self->a.area;
	const struct weft_ep_segment good = { area, 64, 0 }, end = { area, 64, BYTES - 63 };
	const struct weft_ep_segment none = { area, 0, 0 }, other = { area + 1, 64, 0 };
	const struct weft_ep_segment wrap = { area, 64, UINT64_MAX - 8 };
	const struct {
		struct weft_ep_work work;
		int error;
	} cases[] = {
		{ { .op = 4 }, EINVAL },
		{ { .op = 255 }, EINVAL },
		{ { .op = WEFT_EP_OP_NOP, .sources = 1, .segment = { good } }, EINVAL },
		{ { .op = WEFT_EP_OP_NOP, .reserved = { 0, 0, 0, 0, 1 } }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 8 }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 255, .dests = 255 }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 1, .dests = 1,
		    .segment = { good, good } }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 1, .segment = { none } }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 1, .segment = { end } }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 1, .segment = { wrap } }, EINVAL },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 1, .segment = { other } }, ENOENT },
		{ { .op = WEFT_EP_OP_CRC32C, .sources = 2, .segment = { good, other } }, ENOENT },
		{ { .op = WEFT_EP_OP_COPY, .sources = 1, .segment = { good } }, EINVAL },
		{ { .op = WEFT_EP_OP_COPY, .sources = 2, .dests = 1,
		    .segment = { good, good, good } }, EINVAL },
	};
	struct weft_ep_work batch[3] = { { .cookie = 1 }, { .cookie = 2 }, { .cookie = 3 } };
	struct weft_ep_query q = { .size = sizeof(q) };
	struct weft_ep_done done[4];
	unsigned int which;

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		batch[1] = cases[n].work;
		EXPECT_EQ(-cases[n].error, submit(self->fd, batch, 3, &which))
			TH_LOG("case %zu", n);
		EXPECT_EQ(1, which) TH_LOG("case %zu", n);
	}
	EXPECT_EQ(-EINVAL, submit(self->fd, batch, 0, NULL));
	EXPECT_EQ(-EINVAL, submit(self->fd, batch, WEFT_EP_MAX_BATCH + 1, NULL));
	EXPECT_EQ(-EFAULT, submit(self->fd, NULL, 1, NULL));
	EXPECT_EQ(-EFAULT, submit(self->fd, (void *)UINTPTR_MAX, 2, NULL));
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
	EXPECT_EQ(0, q.submitted);
	EXPECT_EQ(0, q.outstanding);
	EXPECT_EQ(-EAGAIN, reap(self->fd, done, 4, 0));
	EXPECT_EQ(-ETIMEDOUT, reap(self->fd, done, 4, 20));
	EXPECT_EQ(-EINVAL, reap(self->fd, done, 0, 0));
	EXPECT_EQ(-EINVAL, reap(self->fd, done, WEFT_EP_MAX_BATCH + 1, 0));
}

TEST_F(endpoint, no_more_than_the_queue_holds_is_under_way)
{
	struct pollfd p = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct weft_ep_work work[WEFT_EP_MAX_BATCH];
	struct weft_ep_done done[WEFT_EP_MAX_BATCH];
	unsigned int posted, taken = 0;

	memset(work, 0, sizeof(work));
	for (int n = 0; n < WEFT_EP_MAX_BATCH; n++)
		work[n].cookie = n;
	EXPECT_EQ(0, submit(self->fd, work, WEFT_EP_MAX_BATCH, &posted));
	EXPECT_EQ(16, posted);
	EXPECT_EQ(-EAGAIN, submit(self->fd, work + 16, 1, NULL));
	while (taken < 16) {
		long n = reap(self->fd, done, WEFT_EP_MAX_BATCH, WEFT_EP_FOREVER);

		ASSERT_GT(n, 0);
		for (long i = 0; i < n; i++) {
			EXPECT_EQ(taken + i, done[i].cookie);
			EXPECT_EQ(WEFT_EP_DONE_OK, done[i].status);
		}
		taken += n;
	}
	EXPECT_EQ(16, taken);
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(POLLOUT, p.revents);
	EXPECT_EQ(0, submit(self->fd, work + 16, 1, &posted));
	EXPECT_EQ(1, posted);
	p.events = POLLIN;
	EXPECT_EQ(1, poll(&p, 1, 10000));
	EXPECT_EQ(1, reap(self->fd, done, 1, 0));
	EXPECT_EQ(16, done[0].cookie);
}

TEST_F(endpoint, who_cannot_be_told_has_lost_nothing)
{
	struct pollfd p = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct weft_ep_query q = { .size = sizeof(q) };
	struct weft_ep_work work[16];
	struct weft_ep_done done[16];
	size_t page = sysconf(_SC_PAGESIZE);
	char *end;

	memset(work, 0, sizeof(work));
	for (int n = 0; n < 16; n++)
		work[n].cookie = n;
	/* Room for one completion, and nothing behind it. */
	end = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, end);
	ASSERT_EQ(0, munmap(end + page, page));
	ASSERT_EQ(0, submit(self->fd, work, 16, NULL));
	EXPECT_EQ(-EFAULT, reap(self->fd, (void *)8, 1, WEFT_EP_FOREVER));
	do {
		ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
		EXPECT_EQ(-EFAULT, reap(self->fd, (void *)8, 16, 0));
	} while (q.outstanding);
	EXPECT_EQ(-EFAULT, reap(self->fd, (void *)(end + page - sizeof(*done)), 2, 0));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(POLLIN, p.revents);
	EXPECT_EQ(-EAGAIN, submit(self->fd, work, 1, NULL));
	EXPECT_EQ(16, reap(self->fd, done, 16, 0));
	for (int n = 0; n < 16; n++) {
		EXPECT_EQ(n, done[n].cookie);
		EXPECT_EQ(WEFT_EP_DONE_OK, done[n].status);
	}
	EXPECT_EQ(-EAGAIN, reap(self->fd, done, 16, 0));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(POLLOUT, p.revents);
	munmap(end, page);
}

TEST_F(endpoint, an_area_that_is_freed_is_named_by_no_request)
{
	struct weft_ep_work work = { .op = WEFT_EP_OP_CRC32C, .sources = 1,
				     .segment = { { self->a.area, 64, 0 } } };

	EXPECT_EQ(0, free_of(self->fd, self->a.area));
	EXPECT_EQ(-ENOENT, submit(self->fd, &work, 1, NULL));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, BYTES, PROT_READ, MAP_SHARED, self->fd, self->a.offset));
}

/* A child that makes a call with a list in the file's first page, for which it waits. */
static pid_t late_call(struct __test_metadata *_metadata, struct ff_file *file,
		       long (*call)(int fd, void *list), int fd, void *list)
{
	pid_t pid;

	ff_set(file, 0, FF_LATE);
	pid = ff_fork(file);
	if (!pid)
		_exit(call(fd, list) < 0);
	ASSERT_GT(pid, 0);
	ASSERT_TRUE(ff_wait(file, 0, 60000));
	return pid;
}

static long submit_one(int fd, void *list)
{
	return submit(fd, list, 1, NULL);
}

static long reap_all(int fd, void *list)
{
	return reap(fd, list, WEFT_EP_MAX_BATCH, WEFT_EP_FOREVER);
}

TEST_F_TIMEOUT(endpoint, lists_come_late_and_the_task_is_killed_or_cannot_be_had, 120)
{
	long (*const calls[])(int fd, void *list) = { submit_one, reap_all };
	struct weft_ep_query q = { .size = sizeof(q) };
	struct weft_ep_work work = { .cookie = 1 };
	struct weft_ep_done done[3];
	struct ff_file file;
	uint8_t *list;
	int status;

	if (ff_lacks())
		SKIP(return, "%s", ff_lacks());
	ASSERT_TRUE(ff_begin(&file));
	list = ff_map(&file);
	ASSERT_NE(NULL, list);
	ASSERT_EQ(0, submit(self->fd, &work, 1, NULL));
	for (int i = 0; i < 2; i++) {
		pid_t pid = late_call(_metadata, &file, calls[i], self->fd, list);

		/* The same function's other calls do not wait for it, nor is anything lost. */
		work.cookie = 2 + i;
		EXPECT_EQ(0, submit(self->fd, &work, 1, NULL));
		EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
		EXPECT_EQ(2 + i, q.submitted);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		ff_set(&file, 0, FF_ERROR);
		EXPECT_EQ(-EFAULT, calls[i](self->fd, list));
	}
	for (int n = 0; n < 3; n++) {
		ASSERT_EQ(1, reap(self->fd, &done[n], 1, WEFT_EP_FOREVER));
		EXPECT_EQ(1 + n, done[n].cookie);
		EXPECT_EQ(WEFT_EP_DONE_OK, done[n].status);
	}
	EXPECT_EQ(-EAGAIN, reap(self->fd, done, 1, 0));
	munmap(list, FF_PAGES * FF_PAGE);
	ff_end(&file);
}

/* A number in a file of a cgroup; -1 if there is none. */
static long long number_in(const char *folder, const char *name)
{
	char path[96];
	long long n = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	if (file && fscanf(file, "%lld", &n) != 1)
		n = -1;
	if (file)
		fclose(file);
	return n;
}

TEST_F(endpoint, memory_counts_for_the_control_group_of_who_asks_for_it)
{
	const char *top = "/tmp/weft-cgroup", *own = "/tmp/weft-cgroup/own";
	long long before, with, after;
	struct weft_ep_area a;

	ASSERT_TRUE(!mkdir(top, 0755) || errno == EEXIST);
	if (mount("none", top, "cgroup2", 0, NULL)) {
		ASSERT_EQ(ENODEV, errno);
		SKIP(return, "no CONFIG_CGROUPS");
	}
	if (access("/tmp/weft-cgroup/memory.stat", F_OK)) {
		umount(top);
		SKIP(return, "no CONFIG_MEMCG");
	}
	ASSERT_EQ(0, wt_write("/tmp/weft-cgroup/cgroup.subtree_control", "+memory"));
	ASSERT_TRUE(!mkdir(own, 0755) || errno == EEXIST);
	ASSERT_EQ(0, wt_write("/tmp/weft-cgroup/own/cgroup.procs", "0"));
	before = number_in(own, "memory.current");
	ASSERT_EQ(0, area_of(self->fd, WEFT_EP_MAX_AREA, WEFT_EP_MAY_READ, &a));
	with = number_in(own, "memory.current");
	EXPECT_EQ(0, free_of(self->fd, a.area));
	after = number_in(own, "memory.current");
	EXPECT_EQ(0, wt_write("/tmp/weft-cgroup/cgroup.procs", "0"));
	EXPECT_EQ(0, rmdir(own));
	EXPECT_EQ(0, umount(top));
	/* There is more than the area, and CPUs keep some pages to themselves. */
	EXPECT_GE(before, 0);
	EXPECT_GE(with - before, WEFT_EP_MAX_AREA * 3LL / 4);
	EXPECT_GE(with - after, WEFT_EP_MAX_AREA * 3LL / 4);
}

/* What is failed, each thing in turn that it asks for. */
struct starved {
	struct __test_metadata *_metadata;
	int fd;
	struct weft_ep_area area;
};

static bool prepare_open(struct starved *s)
{
	s->fd = wt_open(0, 0);
	return s->fd >= 0;
}

static long run_open(struct starved *s)
{
	struct weft_ep_open o = open_of(16, 0);

	return wt_ioctl(s->fd, WEFT_EP_OPEN, &o);
}

static bool undo_open(struct starved *s)
{
	return !close(s->fd);
}

static bool prepare_none(struct starved *s)
{
	s->area.area = 0;
	return true;
}

static long run_area(struct starved *s)
{
	return area_of(s->fd, BYTES, WEFT_EP_MAY_READ, &s->area);
}

static bool undo_area(struct starved *s)
{
	return !s->area.area || !free_of(s->fd, s->area.area);
}

static long run_submit(struct starved *s)
{
	struct weft_ep_work work = { .cookie = 1 };

	return submit(s->fd, &work, 1, NULL);
}

static bool prepare_reap(struct starved *s)
{
	return !run_submit(s);
}

static long run_reap(struct starved *s)
{
	struct weft_ep_done done[2];
	long n = reap(s->fd, done, 2, WEFT_EP_FOREVER);

	return n < 0 ? n : 0;
}

/* What could not be told may have been submitted, and may not be reaped. */
static bool drain(struct starved *s)
{
	struct weft_ep_query q = { .size = sizeof(q) };
	struct weft_ep_done done;
	long n = 1;

	while (n > 0 || q.outstanding) {
		n = reap(s->fd, &done, 1, 0);
		if ((n < 0 && n != -EAGAIN) || wt_ioctl(s->fd, WEFT_EP_QUERY, &q))
			return false;
	}
	return true;
}

static void starve(struct starved *s, int task, const char *what, bool (*prepare)(struct starved *),
		   long (*run)(struct starved *), bool (*undo)(struct starved *))
{
	struct __test_metadata *_metadata = s->_metadata;
	unsigned int nth;
	int fired = 1;

	for (nth = 1; fired; nth++) {
		long r;

		ASSERT_LT(nth, 1000);
		ASSERT_TRUE(prepare(s)) TH_LOG("%s, %u", what, nth);
		ASSERT_TRUE(inject_arm(task, nth));
		r = run(s);
		fired = inject_disarm(task);
		EXPECT_GE(fired, 0);
		EXPECT_TRUE(undo(s)) TH_LOG("%s, %u", what, nth);
		EXPECT_TRUE(!r || (fired && (r == -ENOMEM || r == -EFAULT)))
			TH_LOG("%s: %u ended with %ld", what, nth, r);
		/* Nothing stands in the way of the next one. */
		ASSERT_TRUE(prepare(s));
		ASSERT_EQ(0, run(s)) TH_LOG("%s, after %u was failed", what, nth);
		ASSERT_TRUE(undo(s));
	}
	EXPECT_GT(nth, 3) TH_LOG("%s asks for nothing", what);
}

TEST_F_TIMEOUT(endpoint, what_there_is_no_memory_for_leaves_nothing_behind, 600)
{
	struct starved s = { ._metadata = _metadata };
	struct weft_ep_area a;
	int task;

	if (inject_lacks())
		SKIP(return, "%s", inject_lacks());
	task = inject_open(gettid());
	ASSERT_GE(task, 0);
	ASSERT_TRUE(inject_in_modules());
	close(self->fd);
	starve(&s, task, "open", prepare_open, run_open, undo_open);
	ASSERT_TRUE(prepare_open(&s));
	self->fd = s.fd;
	ASSERT_EQ(0, run_open(&s));
	starve(&s, task, "area", prepare_none, run_area, undo_area);
	starve(&s, task, "submit", prepare_none, run_submit, drain);
	starve(&s, task, "reap", prepare_reap, run_reap, drain);
	inject_reset();
	close(task);
	for (int n = 0; n < WEFT_EP_MAX_AREAS; n++)
		EXPECT_EQ(0, area_of(s.fd, WEFT_EP_MAX_AREA, WEFT_EP_MAY_READ, &a));
	EXPECT_EQ(-ENOSPC, area_of(s.fd, BYTES, WEFT_EP_MAY_READ, &a));
}

/* The last one: for those behind it the port has to find its fabric anew. */
TEST_F(endpoint, what_became_of_work_is_told_when_the_port_has_gone)
{
	const unsigned int area = self->a.area;
	const struct weft_ep_segment all = { area, BYTES, 0 };
	struct pollfd p = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct weft_ep_query q = { .size = sizeof(q) };
	struct weft_ep_done done[16];
	struct weft_ep_work work[16];
	unsigned int told = 0;
	char pci[32];
	long n;

	ASSERT_TRUE(wt_pci_name(0, pci, sizeof(pci)));
	memset(work, 0, sizeof(work));
	for (int i = 0; i < 16; i++) {
		work[i].cookie = i;
		work[i].op = i < 4 ? WEFT_EP_OP_NOP : WEFT_EP_OP_CRC32C;
		work[i].sources = i < 4 ? 0 : 1;
		work[i].segment[0] = all;
	}
	/* Some are done, and not taken; the others are not known. */
	ASSERT_EQ(0, submit(self->fd, work, 4, NULL));
	do {
		ASSERT_EQ(-EFAULT, reap(self->fd, (void *)8, 16, WEFT_EP_FOREVER));
		ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
	} while (q.outstanding);
	ASSERT_EQ(0, submit(self->fd, work + 4, 12, NULL));
	ASSERT_EQ(0, wt_write(WT_DRIVER "unbind", pci));

	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(POLLIN | POLLHUP | POLLERR, p.revents);
	EXPECT_EQ(-ENODEV, submit(self->fd, work, 1, NULL));
	while ((n = reap(self->fd, done, 5, 0)) > 0) {
		for (long i = 0; i < n; i++, told++) {
			EXPECT_EQ(told, done[i].cookie);
			if (told < 4 || done[i].status != WEFT_EP_DONE_FLUSHED)
				EXPECT_EQ(WEFT_EP_DONE_OK, done[i].status);
		}
	}
	EXPECT_EQ(-ENODEV, n);
	EXPECT_EQ(16, told);
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_EP_QUERY, &q));
	EXPECT_EQ(ENODEV, q.broken);
	EXPECT_EQ(16, q.submitted);
	EXPECT_EQ(0, q.outstanding);
	EXPECT_EQ(0, free_of(self->fd, area));
	EXPECT_EQ(-ENOENT, free_of(self->fd, area));
	EXPECT_EQ(0, wt_write(WT_DRIVER "bind", pci));
}

TEST_HARNESS_MAIN
