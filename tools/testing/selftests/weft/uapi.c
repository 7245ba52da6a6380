// SPDX-License-Identifier: GPL-2.0
/*
 * What the header promises of every ioctl: sizes, reserved members, flags,
 * limits, states and errnos. Needs ports 0 and 1 joined by link 0 of each.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <poll.h>
#include <time.h>

#include "kselftest_harness.h"
#include "weft_test.h"

static const struct {
	const char *name;
	unsigned long cmd;
	unsigned int size;
} all[] = {
	{ "PORT_INFO", WEFT_PORT_INFO, sizeof(struct weft_port_info) },
	{ "LINK_INFO", WEFT_LINK_INFO, sizeof(struct weft_link_info) },
	{ "CHAN_LISTEN", WEFT_CHAN_LISTEN, sizeof(struct weft_chan_listen) },
	{ "CHAN_CONNECT", WEFT_CHAN_CONNECT, sizeof(struct weft_chan_connect) },
	{ "CHAN_ACCEPT", WEFT_CHAN_ACCEPT, sizeof(struct weft_chan_accept) },
	{ "CHAN_INFO", WEFT_CHAN_INFO, sizeof(struct weft_chan_info) },
	{ "CHAN_KICK", WEFT_CHAN_KICK, sizeof(struct weft_chan_kick) },
	{ "LIMITS", WEFT_LIMITS, sizeof(struct weft_limits) },
	{ "PD_ALLOC", WEFT_PD_ALLOC, sizeof(struct weft_pd_alloc) },
	{ "MR_REG", WEFT_MR_REG, sizeof(struct weft_mr_reg) },
	{ "MW_ALLOC", WEFT_MW_ALLOC, sizeof(struct weft_mw_alloc) },
	{ "DESTROY", WEFT_DESTROY, sizeof(struct weft_destroy) },
	{ "CQ_WAIT", WEFT_CQ_WAIT, sizeof(struct weft_cq_wait) },
	{ "VF_MIGRATE", WEFT_VF_MIGRATE, sizeof(struct weft_vf_migrate) },
	{ "FABRIC_NODES", WEFT_FABRIC_NODES, sizeof(struct weft_fabric_nodes) },
	{ "FABRIC_ROUTES", WEFT_FABRIC_ROUTES, sizeof(struct weft_fabric_routes) },
	{ "FABRIC_ASSIGNMENTS", WEFT_FABRIC_ASSIGNMENTS, sizeof(struct weft_fabric_assignments) },
	{ "FABRIC_ASSIGNMENT", WEFT_FABRIC_ASSIGNMENT, sizeof(struct weft_fabric_assignment) },
	{ "FABRIC_COMPONENT", WEFT_FABRIC_COMPONENT, sizeof(struct weft_fabric_component) },
	{ "FABRIC_VH", WEFT_FABRIC_VH, sizeof(struct weft_fabric_vh) },
	{ "FABRIC_SLOT", WEFT_FABRIC_SLOT, sizeof(struct weft_fabric_slot) },
	{ "FABRIC_ANNOUNCE", WEFT_FABRIC_ANNOUNCE, sizeof(struct weft_fabric_announce) },
	{ "MATCH_OPEN", WEFT_MATCH_OPEN, sizeof(struct weft_match_open) },
	{ "MATCH_KICK", WEFT_MATCH_KICK, sizeof(struct weft_match_kick) },
	{ "EP_OPEN", WEFT_EP_OPEN, sizeof(struct weft_ep_open) },
	{ "EP_QUERY", WEFT_EP_QUERY, sizeof(struct weft_ep_query) },
	{ "EP_AREA", WEFT_EP_AREA, sizeof(struct weft_ep_area) },
	{ "EP_FREE", WEFT_EP_FREE, sizeof(struct weft_ep_free) },
	{ "EP_SUBMIT", WEFT_EP_SUBMIT, sizeof(struct weft_ep_submit) },
	{ "EP_REAP", WEFT_EP_REAP, sizeof(struct weft_ep_reap) },
};

#define ALL ARRAY_SIZE(all)

FIXTURE(uapi) {
	int fd;
};

FIXTURE_SETUP(uapi)
{
	ASSERT_TRUE(wt_wait_ready(10000));
	self->fd = wt_open(0, 0);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(uapi)
{
	close(self->fd);
}

TEST_F(uapi, unknown_ioctl_is_enotty)
{
	uint32_t arg[2] = { sizeof(arg) };

	EXPECT_EQ(-ENOTTY, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE + 1, arg));
	EXPECT_EQ(-ENOTTY, wt_ioctl(self->fd, WEFT_EP_REAP + 1, arg));
	EXPECT_EQ(-ENOTTY, wt_ioctl(self->fd, _IO(WEFT_IOC_TYPE, WEFT_IOC_BASE - 1), arg));
	EXPECT_EQ(-ENOTTY, wt_ioctl(self->fd, _IO('w', WEFT_IOC_BASE), arg));
	EXPECT_EQ(-ENOTTY, wt_ioctl(self->fd, TIOCGWINSZ, arg));
}

/* Some have had members added since their first version. */
static uint32_t first_size(size_t i)
{
	switch (all[i].cmd) {
	case WEFT_LINK_INFO:
		return offsetof(struct weft_link_info, lid);
	case WEFT_LIMITS:
		return offsetof(struct weft_limits, qp_share);
	default:
		return all[i].size;
	}
}

TEST_F(uapi, short_size_is_einval)
{
	char buf[512];

	for (size_t i = 0; i < ALL; i++) {
		uint32_t least = first_size(i);

		for (uint32_t size = 0; size < least; size++) {
			memset(buf, 0, sizeof(buf));
			memcpy(buf, &size, 4);
			EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, all[i].cmd, buf))
				TH_LOG("%s, %u bytes", all[i].name, size);
		}
	}
}

/* A program that knows the first version only is told that much, and no more is written. */
TEST_F(uapi, first_size_of_link_info)
{
	const uint32_t first = offsetof(struct weft_link_info, lid);
	struct weft_link_info i = { .size = first, .lid = 0x55, .hops = 0xaa };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_LINK_INFO, &i));
	EXPECT_EQ(WEFT_LINK_READY, i.state);
	EXPECT_EQ(0x55, i.lid);
	EXPECT_EQ(0xaa, i.hops);
}

TEST_F(uapi, first_size_of_limits)
{
	const uint32_t first = offsetof(struct weft_limits, qp_share);
	struct weft_limits l = { .size = first, .qp_share = 0x55, .reserved = 0xaa };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_LIMITS, &l));
	EXPECT_NE(0, l.qps);
	EXPECT_EQ(0x55, l.qp_share);
	EXPECT_EQ(0xaa, l.reserved);
}

TEST_F(uapi, unknown_tail_must_be_zero)
{
	char buf[512] = { 0 };

	for (size_t i = 0; i < ALL; i++) {
		uint32_t size = all[i].size + 64;
		long r;

		memset(buf, 0, sizeof(buf));
		memcpy(buf, &size, 4);
		r = wt_ioctl(self->fd, all[i].cmd, buf);
		EXPECT_NE(-E2BIG, r) TH_LOG("%s", all[i].name);
		EXPECT_NE(-ENOTTY, r) TH_LOG("%s", all[i].name);
		for (uint32_t at = all[i].size; at < size; at += 21) {
			memset(buf, 0, sizeof(buf));
			memcpy(buf, &size, 4);
			buf[at] = 1;
			EXPECT_EQ(-E2BIG, wt_ioctl(self->fd, all[i].cmd, buf))
				TH_LOG("%s, byte %u", all[i].name, at);
		}
	}
}

TEST_F(uapi, unknown_flags_are_einval)
{
	char buf[512];

	for (size_t i = 0; i < ALL; i++) {
		for (int bit = 0; bit < 32; bit++) {
			uint32_t flags = 1u << bit;

			/* These are known. */
			if (all[i].cmd == WEFT_FABRIC_ASSIGNMENTS && flags == WEFT_ASSIGNMENTS_SET)
				continue;
			if (all[i].cmd == WEFT_FABRIC_ANNOUNCE && flags == WEFT_ANNOUNCE_WITHDRAW)
				continue;
			if (all[i].cmd == WEFT_MATCH_KICK &&
			    (flags == WEFT_MATCH_POLL || flags == WEFT_MATCH_REST))
				continue;
			memset(buf, 0, sizeof(buf));
			memcpy(buf, &all[i].size, 4);
			memcpy(buf + 4, &flags, 4);
			EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, all[i].cmd, buf))
				TH_LOG("%s, bit %d", all[i].name, bit);
		}
	}
}

TEST_F(uapi, bad_pointers_are_efault)
{
	for (size_t i = 0; i < ALL; i++) {
		EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, all[i].cmd, NULL))
			TH_LOG("%s", all[i].name);
		EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, all[i].cmd, (void *)8))
			TH_LOG("%s", all[i].name);
		EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, all[i].cmd, (void *)-4096))
			TH_LOG("%s", all[i].name);
	}
}

TEST_F(uapi, port_info)
{
	struct weft_port_info i = wt_port_info(self->fd);
	uint32_t channels, doorbells;

	ASSERT_EQ(sizeof(i), i.size);
	EXPECT_EQ(0, i.flags);
	EXPECT_TRUE(i.kind == WEFT_PORT_WEFT || i.kind == WEFT_PORT_IVSHMEM);
	EXPECT_NE(0, i.hwid);
	EXPECT_GE(i.links, 1);
	EXPECT_EQ(0, i.reserved);
	/* By what is guarded, and all of it together. */
	EXPECT_EQ(WEFT_PROT_BOUNCE, i.protection >> WEFT_PROT_MEMORY & WEFT_PROT_MASK);
	channels = i.kind == WEFT_PORT_WEFT ? WEFT_PROT_DEVICE | WEFT_PROT_APERTURE : 0;
	EXPECT_EQ(channels, i.protection >> WEFT_PROT_CHANNELS & WEFT_PROT_MASK);
	doorbells = i.kind == WEFT_PORT_WEFT ? WEFT_PROT_DEVICE : 0;
	EXPECT_EQ(doorbells, i.protection >> WEFT_PROT_DOORBELLS & WEFT_PROT_MASK);
	EXPECT_EQ(channels | doorbells | WEFT_PROT_BOUNCE, i.protection & WEFT_PROT_MASK);
}

TEST_F(uapi, link_info)
{
	struct weft_link_info i = wt_link_info(self->fd, 0);
	int other = wt_open(1, 0);
	struct weft_port_info peer = wt_port_info(other);
	struct weft_port_info me = wt_port_info(self->fd);

	close(other);
	ASSERT_EQ(sizeof(i), i.size);
	EXPECT_EQ(WEFT_LINK_READY, i.state);
	EXPECT_EQ(peer.hwid, i.peer_hwid);
	EXPECT_EQ(peer.generation, i.peer_generation);
	EXPECT_GE(i.arena_bytes, i.arena_free);
	EXPECT_GE(i.arena_free, 64 * 1024);

	i = (struct weft_link_info){ .size = sizeof(i), .link = me.links };
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_LINK_INFO, &i));
	i.link = UINT32_MAX;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_LINK_INFO, &i));
}

TEST_F(uapi, listen_limits)
{
	struct weft_chan_listen l = { .size = sizeof(l), .service = 0, .backlog = 1 };

	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_LISTEN, &l));
	l.service = wt_service();
	l.backlog = 0;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_LISTEN, &l));
	l.backlog = 65;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_LISTEN, &l));
	l.backlog = 64;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_CHAN_LISTEN, &l));
	EXPECT_EQ(-EISCONN, wt_ioctl(self->fd, WEFT_CHAN_LISTEN, &l));
	EXPECT_EQ(-EISCONN, wt_connect(self->fd, wt_service(), 16, 4096, 100));
	EXPECT_EQ(-EADDRINUSE, wt_listen(0, l.service, 1));
}

TEST_F(uapi, services_of_the_kernel_are_no_program_s)
{
	static const unsigned int services[] = { WEFT_SERVICE_KERNEL, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		EXPECT_EQ(-EACCES, wt_listen(0, services[i], 1));
		EXPECT_EQ(-EACCES, wt_connect(self->fd, services[i], 16, 4096, 100));
	}
	/* The last one that is. */
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, WEFT_SERVICE_KERNEL - 1, 16, 4096, 1000));
}

TEST_F(uapi, a_service_is_free_when_its_listener_is_closed)
{
	unsigned int service = wt_service();
	int fd = wt_listen(0, service, 1);

	ASSERT_GE(fd, 0);
	close(fd);
	fd = wt_listen(0, service, 1);
	EXPECT_GE(fd, 0);
	close(fd);
}

TEST_F(uapi, connect_limits)
{
	static const struct {
		unsigned int cells, bulk, timeout, link, service, reserved;
	} bad[] = {
		{ 8, 4096, 100, 0, 1, 0 },
		{ 15, 4096, 100, 0, 1, 0 },
		{ 24, 4096, 100, 0, 1, 0 },
		{ 32768, 4096, 100, 0, 1, 0 },
		{ 0, 4096, 100, 0, 1, 0 },
		{ 0x80000000, 4096, 100, 0, 1, 0 },
		{ 16, 0, 100, 0, 1, 0 },
		{ 16, 4095, 100, 0, 1, 0 },
		{ 16, 6144, 100, 0, 1, 0 },
		{ 16, (1 << 20) + 4096, 100, 0, 1, 0 },
		{ 16, 0xfffff000, 100, 0, 1, 0 },
		{ 16, 4096, 60001, 0, 1, 0 },
		{ 16, 4096, 100, 4, 1, 0 },
		{ 16, 4096, 100, 0x7fffffff, 1, 0 },
		{ 16, 4096, 100, 0, 0, 0 },
		{ 16, 4096, 100, 0, 1, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct weft_chan_connect c = {
			.size = sizeof(c), .link = bad[i].link,
			.service = bad[i].service, .cells = bad[i].cells,
			.bulk = bad[i].bulk, .timeout_ms = bad[i].timeout,
			.reserved = bad[i].reserved,
		};

		EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_CONNECT, &c))
			TH_LOG("case %zu", i);
	}
}

TEST_F(uapi, no_program_listens)
{
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, wt_service(), 16, 4096, 0));
	/* The file is fresh still. */
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, wt_service(), 16, 4096, 0));
}

TEST_F(uapi, unknown_peer)
{
	struct weft_chan_connect c = {
		.size = sizeof(c), .link = WEFT_ANY_LINK, .peer = 0xdeadbeef12345678,
		.service = 1, .cells = 16, .bulk = 4096,
	};

	EXPECT_EQ(-EHOSTUNREACH, wt_ioctl(self->fd, WEFT_CHAN_CONNECT, &c));
	c.link = 0;
	EXPECT_EQ(-EHOSTUNREACH, wt_ioctl(self->fd, WEFT_CHAN_CONNECT, &c));
}

TEST_F(uapi, connection_times_out_when_no_program_accepts)
{
	unsigned int service = wt_service();
	int listener = wt_listen(1, service, 1);

	ASSERT_GE(listener, 0);
	EXPECT_EQ(-ETIMEDOUT, wt_connect(self->fd, service, 16, 4096, 300));
	/* Nothing is left of it in the arena. */
	EXPECT_EQ(-ETIMEDOUT, wt_connect(self->fd, service, 16, 4096, 300));
	close(listener);
}

struct connecting {
	unsigned int service;
	long result;
};

static void *connect_thread(void *arg)
{
	struct connecting *c = arg;
	int fd = wt_open(0, 0);

	c->result = wt_connect(fd, c->service, 16, 4096, 5000);
	close(fd);
	return NULL;
}

TEST_F(uapi, full_backlog_refuses)
{
	struct connecting first = { .service = wt_service() };
	int listener = wt_listen(1, first.service, 1);
	short seen = 0;
	pthread_t thread;
	struct wt_chan l = { .fd = listener };
	struct weft_chan_user user = { 0 };
	int fd;

	ASSERT_GE(listener, 0);
	l.user = &user;
	pthread_create(&thread, NULL, connect_thread, &first);
	seen = wt_poll(&l, POLLIN, 5000);
	EXPECT_EQ(POLLIN, seen & POLLIN);
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, first.service, 16, 4096, 0));
	fd = wt_accept(1, listener);
	EXPECT_GE(fd, 0);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, first.result);
	close(fd);
	close(listener);
}

TEST_F(uapi, memory_is_zeroed_for_accepted_connections_only)
{
	struct connecting first = { .service = wt_service() };
	uint64_t before = wt_attr_u64(1, "link0/arena_zeroed");
	int listener = wt_listen(1, first.service, 1);
	struct weft_chan_user user = { 0 };
	struct wt_chan l = { .fd = listener, .user = &user };
	pthread_t thread;
	int fd;

	ASSERT_GE(listener, 0);
	ASSERT_NE(UINT64_MAX, before);
	pthread_create(&thread, NULL, connect_thread, &first);
	EXPECT_EQ(POLLIN, POLLIN & wt_poll(&l, POLLIN, 5000));
	EXPECT_EQ(before, wt_attr_u64(1, "link0/arena_zeroed")) TH_LOG("it waits");
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, first.service, 1024, 1 << 20, 0));
	EXPECT_EQ(before, wt_attr_u64(1, "link0/arena_zeroed")) TH_LOG("the backlog is full");
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, wt_service(), 1024, 1 << 20, 0));
	EXPECT_EQ(before, wt_attr_u64(1, "link0/arena_zeroed")) TH_LOG("no listener");
	fd = wt_accept(1, listener);
	EXPECT_GE(fd, 0);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, first.result);
	/* Head, cells and bulk ring have a page each. */
	EXPECT_EQ(before + 3 * 4096, wt_attr_u64(1, "link0/arena_zeroed"));
	close(fd);
	close(listener);
}

TEST_F(uapi, closed_listener_refuses_those_who_wait)
{
	struct connecting first = { .service = wt_service() };
	int listener = wt_listen(1, first.service, 4);
	struct weft_chan_user user = { 0 };
	struct wt_chan l = { .fd = listener, .user = &user };
	pthread_t thread;

	ASSERT_GE(listener, 0);
	pthread_create(&thread, NULL, connect_thread, &first);
	EXPECT_NE(0, wt_poll(&l, POLLIN, 5000));
	close(listener);
	pthread_join(thread, NULL);
	EXPECT_EQ(-ECONNREFUSED, first.result);
}

TEST_F(uapi, accept_checks_the_listener)
{
	struct weft_chan_accept a = { .size = sizeof(a), .listen_fd = -1 };
	int null = open("/dev/null", O_RDWR);
	int other = wt_listen(1, wt_service(), 1);
	int fresh = wt_open(0, 0);

	EXPECT_EQ(-EBADF, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	a.listen_fd = null;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	a.listen_fd = fresh;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	/* A listener of another port. */
	a.listen_fd = other;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	a.listen_fd = self->fd;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	a.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	close(fresh);
	close(other);
	close(null);
}

TEST_F(uapi, accept_without_waiting)
{
	int listener = wt_listen(0, wt_service(), 1);
	struct weft_chan_accept a = { .size = sizeof(a), .listen_fd = listener };

	ASSERT_GE(listener, 0);
	fcntl(self->fd, F_SETFL, O_NONBLOCK);
	EXPECT_EQ(-EAGAIN, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	close(listener);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void interrupt_soon(void)
{
	struct sigaction sa = { .sa_handler = on_signal };	/* no SA_RESTART */
	struct itimerspec when = { .it_value.tv_nsec = 200 * 1000 * 1000 };
	timer_t timer;

	sigaction(SIGALRM, &sa, NULL);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &when, NULL);
}

TEST_F(uapi, a_signal_ends_connect)
{
	unsigned int service = wt_service();
	int listener = wt_listen(1, service, 1);

	ASSERT_GE(listener, 0);
	interrupt_soon();
	EXPECT_EQ(-EINTR, wt_connect(self->fd, service, 16, 4096, 30000));
	close(listener);
	EXPECT_EQ(-ECONNREFUSED, wt_connect(self->fd, service, 16, 4096, 0));
}

TEST_F(uapi, a_signal_ends_accept)
{
	int listener = wt_listen(0, wt_service(), 1);
	struct weft_chan_accept a = { .size = sizeof(a), .listen_fd = listener };

	ASSERT_GE(listener, 0);
	interrupt_soon();
	EXPECT_EQ(-EINTR, wt_ioctl(self->fd, WEFT_CHAN_ACCEPT, &a));
	close(listener);
}

TEST_F(uapi, MIG_3_migration_checks_what_it_is_given)
{
	struct weft_vf_migrate good = { .size = sizeof(good), .target_fd = self->fd }, m;
	int null = open("/dev/null", O_RDWR);

	ASSERT_GE(null, 0);
	m = good;
	m.flags = ~(WEFT_MIGRATE_DRY_RUN | WEFT_MIGRATE_STOP);
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m = good;
	m.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m = good;
	m.timeout_ms = 600001;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m = good;
	m.target_fd = -1;
	EXPECT_EQ(-EBADF, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m = good;
	m.target_fd = null;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m = good;
	m.vf = 0xffffffff;
	EXPECT_EQ(-ENOENT, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	/* With a function of another host there is no file of the other one. */
	for (int n = 0; n < 2; n++) {
		m = good;
		m.flags = n ? WEFT_MIGRATE_FAR : WEFT_MIGRATE_RECEIVE;
		EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
		m.target_fd = -1;
		m.target_vf = 1;
		EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
		m.target_vf = 0;
		m.flags |= WEFT_MIGRATE_LIVE;
		EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	}
	m.flags = WEFT_MIGRATE_FAR | WEFT_MIGRATE_RECEIVE;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	m.flags = WEFT_MIGRATE_RECEIVE | WEFT_MIGRATE_DRY_RUN;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_VF_MIGRATE, &m));
	close(null);
}

TEST_F(uapi, N_3_nodes_and_routes_are_told_within_bounds)
{
	struct weft_fabric_nodes n = { .size = sizeof(n) };
	struct weft_fabric_routes r = { .size = sizeof(r) };
	struct weft_port_info i = { .size = sizeof(i) };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &i));
	if (i.kind != WEFT_PORT_WEFT) {
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_NODES, &n));
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_ROUTES, &r));
		return;
	}
	n.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_NODES, &n));
	n.flags = 0;
	n.index = 0xffffffff;
	EXPECT_EQ(-ENOENT, wt_ioctl(self->fd, WEFT_FABRIC_NODES, &n));
	/* The neighbour is READY, and so in the fabric, a moment later at the latest. */
	for (int t = 0; t < 1000; t++) {
		n.index = 0;
		if (!wt_ioctl(self->fd, WEFT_FABRIC_NODES, &n) && n.nodes > 1 && n.lid)
			break;
		usleep(10000);
	}
	EXPECT_EQ(i.hwid, n.hwid);
	EXPECT_EQ(WEFT_NODE_HOST, n.kind);
	EXPECT_EQ(WEFT_NODE_KNOWN | WEFT_NODE_SELF, n.state & ~WEFT_NODE_MASTER);
	EXPECT_EQ(0, n.hops);
	n.index = n.nodes;
	EXPECT_EQ(-ENOENT, wt_ioctl(self->fd, WEFT_FABRIC_NODES, &n));

	r.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ROUTES, &r));
	r.flags = 0;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_FABRIC_ROUTES, &r));
	EXPECT_GE(WEFT_FABRIC_PAGE, r.count);
	r.first = 0xffffffff;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_FABRIC_ROUTES, &r));
	EXPECT_EQ(0, r.count);
}

TEST_F(uapi, MR_7_a_host_sees_its_own_hierarchy)
{
	struct weft_fabric_vh v = { .size = sizeof(v) };
	struct weft_port_info i = { .size = sizeof(i) };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &i));
	if (i.kind != WEFT_PORT_WEFT) {
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_VH, &v));
		return;
	}
	v.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_VH, &v));
	v.flags = 0;
	/* It was given nothing: it has but itself. */
	for (int n = 0; n < 2; n++) {
		v.root = n ? i.hwid : 0;
		ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_FABRIC_VH, &v));
		EXPECT_EQ(i.hwid, v.root);
		EXPECT_EQ(i.hwid, v.hwid);
		EXPECT_EQ(1, v.count);
		EXPECT_EQ(0, v.vh);
		EXPECT_EQ(WEFT_NODE_HOST, v.kind);
		EXPECT_EQ(0, v.state | v.depth | v.port | v.vp);
	}
	v.index = v.count;
	EXPECT_EQ(-ENOENT, wt_ioctl(self->fd, WEFT_FABRIC_VH, &v));
}

TEST_F(uapi, MR_3_assignments_are_read_by_all_and_replaced_by_who_may)
{
	char text[WEFT_ASSIGNMENTS_BYTES + 1];
	struct weft_fabric_assignments w = { .size = sizeof(w), .text = (uintptr_t)text };
	struct weft_fabric_component c = { .size = sizeof(c) };
	struct weft_fabric_assignment s = { .size = sizeof(s) };
	struct weft_port_info i = { .size = sizeof(i) };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &i));
	if (i.kind != WEFT_PORT_WEFT) {
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENT, &s));
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_COMPONENT, &c));
		return;
	}
	w.flags = 2;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
	s.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENT, &s));
	c.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_COMPONENT, &c));
	w.flags = 0;
	w.bytes = WEFT_ASSIGNMENTS_BYTES;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
	EXPECT_GE(WEFT_ASSIGNMENTS_BYTES, w.bytes);

	/* What makes no sense is refused by every host, and says where. */
	w.flags = WEFT_ASSIGNMENTS_SET;
	memset(text, '\n', sizeof(text));
	memcpy(text + 2, "no assignment", 7);
	w.bytes = 16;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
	EXPECT_EQ(3, w.line);
	memset(text, '\n', sizeof(text));
	w.bytes = WEFT_ASSIGNMENTS_BYTES + 1;
	EXPECT_EQ(-ENOSPC, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
	EXPECT_EQ(WEFT_ASSIGNMENTS_BYTES + 1, w.line);
	w.bytes = 1;
	w.text = 8;
	EXPECT_EQ(-EFAULT, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));

	ASSERT_EQ(0, setresuid(65534, 65534, 65534));
	w.text = (uintptr_t)text;
	EXPECT_EQ(-EPERM, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
	c.flags = 0;
	EXPECT_EQ(-EPERM, wt_ioctl(self->fd, WEFT_FABRIC_COMPONENT, &c));
	w.flags = 0;
	w.bytes = WEFT_ASSIGNMENTS_BYTES;
	EXPECT_EQ(0, wt_ioctl(self->fd, WEFT_FABRIC_ASSIGNMENTS, &w));
}

TEST_F(uapi, HP_1_slots_are_for_administrators_and_what_makes_no_sense_is_refused)
{
	struct weft_fabric_announce a = { .size = sizeof(a), .hwid = 0x7777 };
	struct weft_fabric_slot s = { .size = sizeof(s) };
	struct weft_port_info i = { .size = sizeof(i) };
	long no;

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &i));
	if (i.kind != WEFT_PORT_WEFT) {
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_SLOT, &s));
		EXPECT_EQ(-EOPNOTSUPP, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a));
		return;
	}
	s.flags = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_SLOT, &s));
	s.flags = 0;
	a.flags = WEFT_ANNOUNCE_WITHDRAW << 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a));
	a.flags = 0;
	a.reserved = 1;
	EXPECT_EQ(-EINVAL, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a));
	a.reserved = 0;
	/* There is no such switch; only the master knows. */
	no = wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a);
	EXPECT_TRUE(no == -ENOENT || no == -EREMOTE) TH_LOG("%ld", no);
	a.port = 0x100;
	EXPECT_EQ(no, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a));
	s.index = UINT32_MAX;
	EXPECT_EQ(no, wt_ioctl(self->fd, WEFT_FABRIC_SLOT, &s));

	ASSERT_EQ(0, setresuid(65534, 65534, 65534));
	EXPECT_EQ(-EPERM, wt_ioctl(self->fd, WEFT_FABRIC_ANNOUNCE, &a));
	EXPECT_EQ(-EPERM, wt_ioctl(self->fd, WEFT_FABRIC_SLOT, &s));
}

TEST_F(uapi, MR_7_of_others_who_may_not_sees_nothing)
{
	struct weft_fabric_vh v = { .size = sizeof(v), .root = 0x7777 };
	struct weft_port_info i = { .size = sizeof(i) };

	ASSERT_EQ(0, wt_ioctl(self->fd, WEFT_PORT_INFO, &i));
	if (i.kind != WEFT_PORT_WEFT)
		SKIP(return, "a port without a manager");
	ASSERT_EQ(0, setresuid(65534, 65534, 65534));
	EXPECT_EQ(-EPERM, wt_ioctl(self->fd, WEFT_FABRIC_VH, &v));
}

TEST_F(uapi, not_a_channel)
{
	struct weft_chan_info i = { .size = sizeof(i) };
	struct weft_chan_kick k = { .size = sizeof(k) };

	EXPECT_EQ(-ENOTCONN, wt_ioctl(self->fd, WEFT_CHAN_INFO, &i));
	EXPECT_EQ(-ENOTCONN, wt_ioctl(self->fd, WEFT_CHAN_KICK, &k));
}

TEST_F(uapi, channel_info)
{
	struct weft_port_info p1;
	struct wt_chan a, b;

	ASSERT_TRUE(wt_pair(&a, &b, 64, 8192));
	p1 = wt_port_info(b.fd);
	EXPECT_EQ(WEFT_CHAN_OPEN, a.info.state);
	EXPECT_EQ(WEFT_REASON_NONE, a.info.reason);
	EXPECT_EQ(p1.hwid, a.info.peer_hwid);
	EXPECT_EQ(p1.generation, a.info.peer_generation);
	EXPECT_EQ(64, a.info.cells);
	EXPECT_EQ(8192, a.info.bulk);
	EXPECT_EQ(64, b.info.cells);
	EXPECT_EQ(8192, b.info.bulk);
	EXPECT_EQ(a.info.service, b.info.service);
	EXPECT_EQ(4096 + 4096 + 8192, a.info.area_bytes);
	EXPECT_EQ(-EISCONN, wt_connect(a.fd, 1, 16, 4096, 10));
	wt_close(&a);
	wt_close(&b);
}

TEST_F(uapi, arena_is_given_back)
{
	uint64_t before = wt_link_info(self->fd, 0).arena_free;

	for (int i = 0; i < 40; i++) {
		struct wt_chan a, b;

		ASSERT_TRUE(wt_pair(&a, &b, 1024, 1 << 20)) TH_LOG("round %d", i);
		wt_close(&a);
		wt_close(&b);
	}
	/*
	 * The last area comes back when the peer has confirmed; what an earlier
	 * test had may have come back meanwhile, too.
	 */
	for (int i = 0; i < 500; i++) {
		if (wt_link_info(self->fd, 0).arena_free >= before)
			break;
		usleep(10000);
	}
	EXPECT_LE(before, wt_link_info(self->fd, 0).arena_free);
	EXPECT_EQ(0, wt_link_info(self->fd, 0).channels);
}

TEST_F(uapi, full_arena_is_enospc)
{
	struct wt_chan a[64], b[64];
	unsigned int n, service = wt_service();
	int listener = wt_listen(1, service, 1);

	for (n = 0; n < 64; n++) {
		if (wt_link_info(self->fd, 0).arena_free < (1 << 20) + 65536 + 4096)
			break;
		ASSERT_TRUE(wt_pair(&a[n], &b[n], 1024, 1 << 20));
	}
	EXPECT_EQ(-ENOSPC, wt_connect(self->fd, service, 1024, 1 << 20, 1000));
	while (n--) {
		wt_close(&a[n]);
		wt_close(&b[n]);
	}
	close(listener);
}

TEST_HARNESS_MAIN
