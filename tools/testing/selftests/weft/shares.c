// SPDX-License-Identifier: GPL-2.0
/*
 * What one user leaves of a port to others: entries of its tables, memory of its arenas.
 * And what queues cost the user that makes them.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "weft_test.h"

/* Users of no other test: greedy ones, and one that wants one of each. */
#define GREEDY		61001
#define MODEST		61100
#define MOST_GREEDY	3

/* Listeners, and files that have queue pairs. */
#define FILES		4096

/* A channel as most programs make it. */
#define CELLS		256
#define BULK		(256 << 10)

/* What a user has in one file. */
struct own {
	int fd;
	uint32_t pd, cq, last;
};

static long pd_alloc(struct own *o)
{
	struct weft_pd_alloc a = { .size = sizeof(a) };
	long r = wt_ioctl(o->fd, WEFT_PD_ALLOC, &a);

	if (!r)
		o->last = a.pd;
	return r;
}

static long mw_alloc(struct own *o)
{
	struct weft_mw_alloc a = { .size = sizeof(a), .pd = o->pd };
	long r = wt_ioctl(o->fd, WEFT_MW_ALLOC, &a);

	if (!r)
		o->last = a.mw;
	return r;
}

static long mr_reg(struct own *o)
{
	static char memory[WT_PAGE];
	struct weft_mr_reg a = {
		.size = sizeof(a), .pd = o->pd, .addr = (uintptr_t)memory,
		.length = sizeof(memory), .access = WEFT_ACCESS_LOCAL_WRITE,
	};

	return wt_ioctl(o->fd, WEFT_MR_REG, &a);
}

static long cq_create(struct own *o)
{
	struct weft_cq_create a = { .size = sizeof(a), .entries = 16, .event_fd = -1 };
	long r = wt_ioctl(o->fd, WEFT_CQ_CREATE, &a);

	if (!r)
		o->last = a.cq;
	return r;
}

static long srq_create(struct own *o)
{
	struct weft_srq_create a = {
		.size = sizeof(a), .pd = o->pd, .entries = 16, .sges = 1,
	};
	long r = wt_ioctl(o->fd, WEFT_SRQ_CREATE, &a);

	if (!r)
		o->last = a.srq;
	return r;
}

static long qp_create(struct own *o)
{
	struct weft_qp_create a = {
		.size = sizeof(a), .pd = o->pd, .send_cq = o->cq, .recv_cq = o->cq,
		.send_entries = 16, .recv_entries = 16, .send_sges = 1, .recv_sges = 1,
	};
	long r = wt_ioctl(o->fd, WEFT_QP_CREATE, &a);

	if (!r)
		o->last = a.qp;
	return r;
}

static long destroy(int fd, uint32_t handle)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = handle };

	return wt_ioctl(fd, WEFT_DESTROY, &d);
}

/* Makes a domain and a completion queue in the file @fd; a negative errno. */
static long begin_in(struct own *o, int fd)
{
	long r;

	o->fd = fd;
	if (fd < 0)
		return fd;
	r = pd_alloc(o);
	o->pd = o->last;
	if (!r)
		r = cq_create(o);
	o->cq = o->last;
	return r;
}

static long begin(struct own *o)
{
	return begin_in(o, wt_open(0, 0));
}

/* A file that has a kick page and no queue pair. */
static long kick_page(struct own *o)
{
	struct own fresh;
	long r = begin(&fresh);

	(void)o;
	if (!r)
		r = qp_create(&fresh);
	if (!r)
		r = destroy(fresh.fd, fresh.last);
	return r;
}

static long listen_on_another(struct own *o)
{
	static unsigned int n;
	struct weft_chan_listen l = {
		.size = sizeof(l), .service = (uint32_t)getuid() << 16 | ++n, .backlog = 1,
	};
	int fd = wt_open(0, 0);

	(void)o;
	return fd < 0 ? fd : wt_ioctl(fd, WEFT_CHAN_LISTEN, &l);
}

/* This process becomes that user, which may lock memory and open files as it likes. */
static bool become(unsigned int uid)
{
	struct rlimit memory = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit files = { 4 * FILES, 4 * FILES };

	return !setrlimit(RLIMIT_MEMLOCK, &memory) && !setrlimit(RLIMIT_NOFILE, &files) &&
	       !setgroups(0, NULL) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

/* What a user has got: how many, and the error that ended it. */
struct got {
	uint32_t count;
	int32_t err;
};

/* A process of another user, which keeps what it has until it is told. */
struct keeper {
	pid_t pid;
	int end;
	struct got got;
};

/* As @uid, makes as many as it gets, up to @most, and keeps them. */
static bool keep(struct keeper *k, unsigned int uid, long (*make)(struct own *), uint32_t most)
{
	int told[2], end[2];

	if (pipe(told) || pipe(end))
		return false;
	k->pid = fork();
	if (k->pid == 0) {
		struct got got = { 0 };
		struct own own;
		char byte;

		close(end[1]);
		got.err = become(uid) ? begin(&own) : -EPERM;
		while (!got.err && got.count < most) {
			got.err = make(&own);
			got.count += !got.err;
		}
		if (write(told[1], &got, sizeof(got)) != sizeof(got))
			_exit(1);
		_exit(read(end[0], &byte, 1) != 1);
	}
	close(told[1]);
	close(end[0]);
	k->end = end[1];
	if (read(told[0], &k->got, sizeof(k->got)) != sizeof(k->got))
		k->pid = -1;
	close(told[0]);
	return k->pid > 0;
}

/* All that it has is gone when this returns. */
static bool let_go(struct keeper *k)
{
	int status = -1;
	/* Others have inherited this end: it is not closed by closing it here. */
	bool told = write(k->end, "e", 1) == 1;

	close(k->end);
	return told && waitpid(k->pid, &status, 0) == k->pid && !status;
}

static void modes(mode_t mode)
{
	chmod("/dev/weft0", mode);
	chmod("/dev/weft1", mode);
}

FIXTURE(shares) {
	struct weft_limits limits;
};

FIXTURE_VARIANT(shares) {
	long (*make)(struct own *o);
	/* Another one of the same table. */
	long (*other)(struct own *o);
	size_t limit;		/* where struct weft_limits has it; 0: it is FILES */
	size_t share;		/* 0: it is not told */
	unsigned int greedy;	/* users */
};

#define LIMIT(of)	offsetof(struct weft_limits, of)

FIXTURE_VARIANT_ADD(shares, pds) {
	pd_alloc, pd_alloc, LIMIT(pds), LIMIT(pd_share), 3
};

FIXTURE_VARIANT_ADD(shares, stags) {
	mw_alloc, mr_reg, LIMIT(stags), LIMIT(stag_share), 1
};

FIXTURE_VARIANT_ADD(shares, cqs) {
	cq_create, cq_create, LIMIT(cqs), LIMIT(cq_share), 1
};

FIXTURE_VARIANT_ADD(shares, srqs) {
	srq_create, srq_create, LIMIT(srqs), LIMIT(srq_share), 1
};

FIXTURE_VARIANT_ADD(shares, qps) {
	qp_create, qp_create, LIMIT(qps), LIMIT(qp_share), 1
};

FIXTURE_VARIANT_ADD(shares, kick_pages) {
	kick_page, qp_create, 0, 0, 1
};

FIXTURE_VARIANT_ADD(shares, listeners) {
	listen_on_another, listen_on_another, LIMIT(listeners), LIMIT(listener_share), 2
};

/* As root sees them, which may have all that users have not. */
static struct weft_limits limits(void)
{
	struct weft_limits l = { .size = sizeof(l) };
	int fd = wt_open(0, 0);

	if (wt_ioctl(fd, WEFT_LIMITS, &l))
		l.size = 0;
	close(fd);
	return l;
}

static uint32_t number(const struct weft_limits *l, size_t at)
{
	return *(const uint32_t *)((const char *)l + at);
}

FIXTURE_SETUP(shares)
{
	ASSERT_TRUE(wt_wait_ready(30000));
	self->limits = limits();
	ASSERT_EQ(sizeof(self->limits), self->limits.size);
	modes(0666);
}

FIXTURE_TEARDOWN(shares)
{
	modes(0600);
}

/*
 * Each user gets half of what the others leave, but for what they have of it by the way:
 * a domain and a completion queue.
 */
TEST_F_TIMEOUT(shares, users_leave_each_other_half, 300)
{
	struct keeper greedy[MOST_GREEDY], modest, again;
	struct weft_limits now;
	uint32_t left = FILES;

	if (variant->limit)
		left = number(&self->limits, variant->limit);
	if (variant->share) {
		EXPECT_EQ(left, number(&self->limits, variant->share));
	}
	if (variant->make == kick_page && !(self->limits.engine & WEFT_ENGINE_KICK_PAGE))
		SKIP(return, "a port without kick pages");
	for (unsigned int i = 0; i < variant->greedy; i++) {
		/* Not more than there are, for a driver that has no shares. */
		ASSERT_TRUE(keep(&greedy[i], GREEDY + i, variant->make, left));
		EXPECT_EQ(-EDQUOT, greedy[i].got.err);
		EXPECT_LE(left / 2 - 1, greedy[i].got.count);
		EXPECT_GE(left / 2, greedy[i].got.count);
		left -= left / 2;
		now = limits();
		if (variant->share) {
			EXPECT_EQ(left, number(&now, variant->share));
		}
	}
	ASSERT_TRUE(keep(&modest, MODEST, variant->make, 1));
	EXPECT_EQ(0, modest.got.err);
	EXPECT_EQ(1, modest.got.count);
	EXPECT_TRUE(let_go(&modest));
	ASSERT_TRUE(keep(&modest, MODEST, variant->other, 1));
	EXPECT_EQ(0, modest.got.err);
	EXPECT_EQ(1, modest.got.count);
	/* More than it could have while the first user was there. */
	EXPECT_TRUE(let_go(&greedy[0]));
	ASSERT_TRUE(keep(&again, MODEST + 1, variant->make, greedy[0].got.count / 2 + 16));
	EXPECT_EQ(0, again.got.err);
	for (unsigned int i = 1; i < variant->greedy; i++)
		EXPECT_TRUE(let_go(&greedy[i]));
	EXPECT_TRUE(let_go(&modest));
	EXPECT_TRUE(let_go(&again));
	now = limits();
	EXPECT_EQ(0, memcmp(&now, &self->limits, sizeof(now)));
}

/* A process that listens at port 1, and accepts. */
struct acceptor {
	pid_t pid;
	unsigned int service;
};

/* As @uid. */
static bool accept_as(struct acceptor *a, unsigned int uid)
{
	int told[2];
	char byte;

	a->service = wt_service();
	if (pipe(told))
		return false;
	a->pid = fork();
	if (a->pid == 0) {
		int listener;

		if (uid && !become(uid))
			_exit(1);
		listener = wt_listen(1, a->service, 8);
		if (listener < 0 || write(told[1], "l", 1) != 1)
			_exit(2);
		for (;;)
			wt_accept(1, listener);
	}
	close(told[1]);
	if (read(told[0], &byte, 1) != 1)
		a->pid = -1;
	close(told[0]);
	return a->pid > 0;
}

static void end_acceptor(struct acceptor *a)
{
	kill(a->pid, SIGKILL);
	waitpid(a->pid, NULL, 0);
}

static unsigned int service;

static long connect_another(struct own *o)
{
	int fd = wt_open(0, 0);

	(void)o;
	return fd < 0 ? fd : wt_connect(fd, service, CELLS, BULK, 0);
}

FIXTURE(arena) {
	int fd;
	uint64_t free, share;
	unsigned int most;	/* channels in half of it */
};

/* Areas come back when the peer has confirmed. */
static bool all_back(int fd, uint64_t bytes)
{
	int64_t end = wt_now_ms() + 20000;

	while (wt_link_info(fd, 0).arena_free < bytes && wt_now_ms() < end)
		usleep(10000);
	return wt_link_info(fd, 0).arena_free >= bytes;
}

FIXTURE_SETUP(arena)
{
	struct weft_link_info i;

	ASSERT_TRUE(wt_wait_ready(30000));
	self->fd = wt_open(0, 0);
	i = wt_link_info(self->fd, 0);
	/* Of an earlier test nothing may be left; the link queues have a quarter. */
	ASSERT_TRUE(all_back(self->fd, i.arena_bytes / 4 * 3));
	i = wt_link_info(self->fd, 0);
	self->free = i.arena_free;
	self->share = i.arena_share;
	/* Root may have it all. */
	EXPECT_EQ(self->free, self->share);
	self->most = self->free / 2 / (4096 + CELLS * WEFT_CELL_BYTES + BULK);
	ASSERT_LE(2, self->most);
	modes(0666);
}

FIXTURE_TEARDOWN(arena)
{
	modes(0600);
	EXPECT_TRUE(all_back(self->fd, self->free));
	EXPECT_EQ(self->share, wt_link_info(self->fd, 0).arena_share);
	close(self->fd);
}

TEST_F_TIMEOUT(arena, connections_of_one_user_leave_room, 120)
{
	struct keeper greedy, modest;
	struct acceptor a;

	ASSERT_TRUE(accept_as(&a, 0));
	service = a.service;
	ASSERT_TRUE(keep(&greedy, GREEDY, connect_another, 100));
	EXPECT_EQ(-EDQUOT, greedy.got.err);
	EXPECT_EQ(self->most, greedy.got.count);
	ASSERT_TRUE(keep(&modest, MODEST, connect_another, 1));
	EXPECT_EQ(0, modest.got.err);
	EXPECT_EQ(1, modest.got.count);
	EXPECT_TRUE(let_go(&modest));
	EXPECT_TRUE(let_go(&greedy));
	EXPECT_TRUE(all_back(self->fd, self->free));
	/* It is all there for the next one; at the other end, too. */
	end_acceptor(&a);
	ASSERT_TRUE(accept_as(&a, 0));
	service = a.service;
	ASSERT_TRUE(keep(&modest, MODEST, connect_another, self->most));
	EXPECT_EQ(0, modest.got.err);
	EXPECT_TRUE(let_go(&modest));
	end_acceptor(&a);
}

/* They count for the user that listens, whichever user connects. */
TEST_F_TIMEOUT(arena, connections_to_one_user_leave_room, 120)
{
	struct acceptor greedy, modest;
	struct keeper first, second;

	ASSERT_TRUE(accept_as(&greedy, GREEDY));
	ASSERT_TRUE(accept_as(&modest, MODEST));
	service = greedy.service;
	/* As root, which has all of the arena of its own end. */
	ASSERT_TRUE(keep(&first, 0, connect_another, 100));
	EXPECT_EQ(-ENOBUFS, first.got.err);
	EXPECT_EQ(self->most, first.got.count);
	service = modest.service;
	ASSERT_TRUE(keep(&second, 0, connect_another, 1));
	EXPECT_EQ(0, second.got.err);
	EXPECT_TRUE(let_go(&second));
	EXPECT_TRUE(let_go(&first));
	end_acceptor(&greedy);
	end_acceptor(&modest);
}

FIXTURE(locked) {
	struct own own;
};

/* Of 256 pages: a queue of 16384 completions has 129. */
#define LOCKED		(256 * WT_PAGE)
#define LONG		16384

FIXTURE_SETUP(locked)
{
	struct rlimit l = { LOCKED, LOCKED };
	int fd;

	ASSERT_TRUE(wt_wait_ready(30000));
	fd = wt_open(0, 0);
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &l));
	ASSERT_EQ(0, setgroups(0, NULL));
	ASSERT_EQ(0, setresgid(MODEST, MODEST, MODEST));
	ASSERT_EQ(0, setresuid(MODEST, MODEST, MODEST));
	ASSERT_EQ(0, begin_in(&self->own, fd));
}

FIXTURE_TEARDOWN(locked)
{
	close(self->own.fd);
}

static long long_cq(struct own *o, struct weft_cq_create *a)
{
	*a = (struct weft_cq_create){ .size = sizeof(*a), .entries = LONG, .event_fd = -1 };
	return wt_ioctl(o->fd, WEFT_CQ_CREATE, a);
}

TEST_F(locked, queues_count)
{
	struct weft_cq_create first, second;
	struct weft_qp_create qp = {
		.size = sizeof(qp), .pd = self->own.pd,
		.send_cq = self->own.cq, .recv_cq = self->own.cq,
		.send_entries = 4096, .recv_entries = 16, .send_sges = 4, .recv_sges = 1,
	};
	struct weft_srq_create srq = {
		.size = sizeof(srq), .pd = self->own.pd, .entries = LONG, .sges = 4,
	};

	ASSERT_EQ(0, long_cq(&self->own, &first));
	EXPECT_EQ(-ENOMEM, long_cq(&self->own, &second));
	EXPECT_EQ(-ENOMEM, wt_ioctl(self->own.fd, WEFT_QP_CREATE, &qp));
	EXPECT_EQ(-ENOMEM, wt_ioctl(self->own.fd, WEFT_SRQ_CREATE, &srq));
	/* What a library asks for fits. */
	qp.send_entries = 64;
	qp.recv_entries = 64;
	qp.recv_sges = 4;
	EXPECT_EQ(0, wt_ioctl(self->own.fd, WEFT_QP_CREATE, &qp));
	EXPECT_EQ(0, destroy(self->own.fd, qp.qp));
	EXPECT_EQ(0, destroy(self->own.fd, first.cq));
	ASSERT_EQ(0, long_cq(&self->own, &second));
	EXPECT_EQ(0, destroy(self->own.fd, second.cq));
	/* They are the kernel's: none of this process's memory is pinned. */
	EXPECT_EQ(0, wt_pinned_kib());
}

/* The memory is there as long as a part of it is mapped, and counts as long. */
TEST_F(locked, what_is_mapped_counts)
{
	struct weft_cq_create first, second;
	int status;
	pid_t pid;
	char *p;

	ASSERT_EQ(0, long_cq(&self->own, &first));
	p = mmap(NULL, first.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->own.fd,
		 first.ring_offset);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(0, destroy(self->own.fd, first.cq));
	EXPECT_EQ(-ENOMEM, long_cq(&self->own, &second));
	/* A page in the middle: two mappings are left, then one, then none. */
	EXPECT_EQ(0, munmap(p + WT_PAGE, WT_PAGE));
	EXPECT_EQ(0, munmap(p, WT_PAGE));
	EXPECT_EQ(-ENOMEM, long_cq(&self->own, &second));
	p[2 * WT_PAGE] = 1;
	/* A child has a mapping of its own. */
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(long_cq(&self->own, &second) != -ENOMEM);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(-ENOMEM, long_cq(&self->own, &second));
	EXPECT_EQ(0, munmap(p, first.ring_bytes));
	ASSERT_EQ(0, long_cq(&self->own, &second));
	EXPECT_EQ(0, destroy(self->own.fd, second.cq));
}

/* A control group of this test alone. */
FIXTURE(group) {
	char root[40], dir[64];
};

/* What the kernel charges ahead for a processor, and other objects of a file. */
#define GROUP_SLACK	(1024 * 1024)

static uint64_t charged(const char *dir)
{
	unsigned long long bytes = 0;
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/memory.current", dir);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &bytes) != 1)
		bytes = UINT64_MAX;
	if (file)
		fclose(file);
	return bytes;
}

FIXTURE_SETUP(group)
{
	char path[96];

	ASSERT_TRUE(wt_wait_ready(30000));
	snprintf(self->root, sizeof(self->root), "/tmp/weft-cgroup-%d", getpid());
	snprintf(self->dir, sizeof(self->dir), "%s/weft-%d", self->root, getpid());
	ASSERT_EQ(0, mkdir(self->root, 0700));
	if (mount("none", self->root, "cgroup2", 0, NULL)) {
		rmdir(self->root);
		SKIP(return, "no control groups (CONFIG_CGROUPS)");
	}
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", self->root);
	if (wt_write(path, "+memory")) {
		umount(self->root);
		rmdir(self->root);
		SKIP(return, "no memory controller (CONFIG_MEMCG)");
	}
	ASSERT_EQ(0, mkdir(self->dir, 0700));
}

FIXTURE_TEARDOWN(group)
{
	EXPECT_EQ(0, rmdir(self->dir));
	EXPECT_EQ(0, umount(self->root));
	EXPECT_EQ(0, rmdir(self->root));
}

/* Makes queues of some MiB: how many bytes they have, or 0. */
static uint64_t many_queues(struct own *own)
{
	struct weft_srq_create srq = {
		.size = sizeof(srq), .pd = own->pd, .entries = LONG, .sges = 4,
	};
	struct weft_cq_create cq;
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < 4; i++) {
		if (long_cq(own, &cq) || wt_ioctl(own->fd, WEFT_SRQ_CREATE, &srq))
			return 0;
		bytes += cq.ring_bytes + srq.ring_bytes;
	}
	return bytes;
}

TEST_F(group, queues_are_charged)
{
	int told[2], end[2], status = -1;
	uint64_t before, made, limit;
	char path[96], byte = 0;
	int64_t deadline;
	pid_t pid;

	ASSERT_EQ(0, pipe(told));
	ASSERT_EQ(0, pipe(end));
	snprintf(path, sizeof(path), "%s/cgroup.procs", self->dir);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		struct own own;

		if (wt_write(path, "0") || begin(&own) || write(told[1], &byte, 1) != 1 ||
		    read(end[0], &byte, 1) != 1)
			_exit(1);
		made = many_queues(&own);
		if (write(told[1], &made, sizeof(made)) != sizeof(made) ||
		    read(end[0], &byte, 1) != 1)
			_exit(2);
		close(own.fd);
		if (write(told[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 1)
			_exit(3);
		_exit(0);
	}
	close(told[1]);
	ASSERT_EQ(1, read(told[0], &byte, 1));
	before = charged(self->dir);
	ASSERT_NE(UINT64_MAX, before);
	ASSERT_EQ(1, write(end[1], &byte, 1));
	ASSERT_EQ(sizeof(made), read(told[0], &made, sizeof(made)));
	ASSERT_LE(4 * GROUP_SLACK, made);
	EXPECT_LE(before + made - GROUP_SLACK, charged(self->dir));
	/* The file is closed, the process is there yet. */
	ASSERT_EQ(1, write(end[1], &byte, 1));
	ASSERT_EQ(1, read(told[0], &byte, 1));
	limit = before + GROUP_SLACK;
	deadline = wt_now_ms() + 20000;
	while (charged(self->dir) > limit && wt_now_ms() < deadline)
		usleep(10000);
	EXPECT_GE(limit, charged(self->dir));
	ASSERT_EQ(1, write(end[1], &byte, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
