// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of files, channels and sockets, and what happens under them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "nth.h"
#include "weft_test.h"

#define CELLS		16
#define BULK		4096

/* What operations work with. */
static struct {
	int fd, listener, epoll;
	uint32_t pd, object;
	struct wt_chan a, b;
	bool paired;
} now = { .fd = -1, .listener = -1, .epoll = -1 };

/* ---- the other end ---------------------------------------------------- */

/* A thread that accepts what comes to a listener, or connects to one. */
static struct {
	pthread_t thread;
	bool runs;
	volatile bool stop;
	unsigned int port, service;
	int listener, fd;
} peer = { .listener = -1, .fd = -1 };

static void *accept_all(void *arg)
{
	struct pollfd p = { .fd = peer.listener, .events = POLLIN };

	while (!peer.stop) {
		int fd;

		if (poll(&p, 1, 20) <= 0)
			continue;
		fd = wt_accept(peer.port, peer.listener);
		if (fd < 0)
			continue;
		if (peer.fd >= 0)
			close(peer.fd);
		peer.fd = fd;
	}
	return arg;
}

static void *connect_once(void *arg)
{
	wt_connect(peer.fd, peer.service, CELLS, BULK, 10000);
	return arg;
}

static bool peer_starts(void *(*what)(void *))
{
	peer.stop = false;
	peer.runs = !pthread_create(&peer.thread, NULL, what, NULL);
	return peer.runs;
}

static bool peer_listens(unsigned int port)
{
	peer.port = port;
	peer.service = wt_service();
	peer.listener = wt_listen(port, peer.service, 4);
	return peer.listener >= 0 && peer_starts(accept_all);
}

static bool peer_connects(unsigned int port, unsigned int service)
{
	peer.service = service;
	peer.fd = wt_open(port, 0);
	return peer.fd >= 0 && peer_starts(connect_once);
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static bool peer_ends(void)
{
	peer.stop = true;
	if (peer.runs)
		pthread_join(peer.thread, NULL);
	peer.runs = false;
	close_one(&peer.fd);
	close_one(&peer.listener);
	return true;
}

/* ---- files ------------------------------------------------------------ */

static long open_port(void)
{
	now.fd = wt_open(0, 0);
	return now.fd < 0 ? now.fd : 0;
}

static bool open_first(void)
{
	return !open_port();
}

static bool close_first(void)
{
	close_one(&now.fd);
	return true;
}

static long port_info(void)
{
	struct weft_port_info i = { .size = sizeof(i) };

	return wt_ioctl(now.fd, WEFT_PORT_INFO, &i);
}

static long link_info(void)
{
	struct weft_link_info i = { .size = sizeof(i) };

	return wt_ioctl(now.fd, WEFT_LINK_INFO, &i);
}

static long pd_alloc(void)
{
	struct weft_pd_alloc a = { .size = sizeof(a) };
	long r = wt_ioctl(now.fd, WEFT_PD_ALLOC, &a);

	now.pd = a.pd;
	return r;
}

static bool open_with_pd(void)
{
	return open_first() && !pd_alloc();
}

/* Over several pages, so that the lists that say where they are have to grow. */
static long mr_reg(void)
{
	static char bytes[64 * WT_PAGE];
	struct weft_mr_reg reg = {
		.size = sizeof(reg), .addr = (uintptr_t)bytes, .length = sizeof(bytes),
		.pd = now.pd, .access = WEFT_ACCESS_LOCAL_WRITE,
	};
	long r = wt_ioctl(now.fd, WEFT_MR_REG, &reg);

	now.object = reg.mr;
	return r;
}

static long mw_alloc(void)
{
	struct weft_mw_alloc a = { .size = sizeof(a), .pd = now.pd };

	return wt_ioctl(now.fd, WEFT_MW_ALLOC, &a);
}

/* What counts as locked is given back. */
static bool close_with_pd(void)
{
	close_one(&now.fd);
	return !wt_pinned_kib();
}

static bool open_with_cq(void)
{
	struct weft_cq_create c = { .size = sizeof(c), .entries = 16, .event_fd = -1 };

	if (!open_first() || wt_ioctl(now.fd, WEFT_CQ_CREATE, &c))
		return false;
	now.object = c.cq;
	return true;
}

/* No completion comes: that is its success. */
static long cq_wait(void)
{
	struct weft_cq_wait w = { .size = sizeof(w), .cq = now.object, .timeout_ms = 1 };
	long r = wt_ioctl(now.fd, WEFT_CQ_WAIT, &w);

	return r == -ETIMEDOUT ? 0 : r ? r : -EPROTO;
}

static bool open_with_mr(void)
{
	return open_with_pd() && !mr_reg();
}

static long destroy(void)
{
	struct weft_destroy d = { .size = sizeof(d), .handle = now.object };

	return wt_ioctl(now.fd, WEFT_DESTROY, &d);
}

static long listen_first(void)
{
	struct weft_chan_listen l = {
		.size = sizeof(l), .service = wt_service(), .backlog = 4,
	};

	return wt_ioctl(now.fd, WEFT_CHAN_LISTEN, &l);
}

static bool before_connect(void)
{
	return peer_listens(1) && open_first();
}

static bool before_connect_to(void)
{
	return peer_listens(0) && (now.fd = wt_open(1, 0)) >= 0;
}

static long connect_now(void)
{
	return wt_connect(now.fd, peer.service, CELLS, BULK, 3000);
}

static bool after_connect(void)
{
	return close_first() && peer_ends();
}

static bool before_accept(void)
{
	unsigned int service = wt_service();
	struct pollfd p = { .events = POLLIN };

	now.listener = wt_listen(0, service, 4);
	if (now.listener < 0 || !peer_connects(1, service) || !open_first())
		return false;
	p.fd = now.listener;
	return poll(&p, 1, NTH_READY_MS) == 1;
}

static long accept_now(void)
{
	struct weft_chan_accept a = { .size = sizeof(a), .listen_fd = now.listener };

	return wt_ioctl(now.fd, WEFT_CHAN_ACCEPT, &a);
}

static bool after_accept(void)
{
	close_first();
	close_one(&now.listener);
	return peer_ends();
}

/* ---- sockets ---------------------------------------------------------- */

static long sock_listen(void)
{
	struct weft_sock_listen l = {
		.size = sizeof(l), .service = wt_service(), .backlog = 4,
	};

	return wt_ioctl(now.fd, WEFT_SOCK_LISTEN, &l);
}

static bool before_sock_connect(void)
{
	now.fd = wt_open(0, O_NONBLOCK);
	return now.fd >= 0;
}

/* The answer comes later, and is a refusal. */
static long sock_connect_to(__u64 to, __u32 link)
{
	struct weft_sock_connect c = {
		.size = sizeof(c), .service = wt_service(), .peer = to, .link = link,
	};
	long r = wt_ioctl(now.fd, WEFT_SOCK_CONNECT, &c);

	return r == -EINPROGRESS || r == -ECONNREFUSED ? 0 : r;
}

static long sock_connect(void)
{
	__u64 to;
	__u32 link;

	wt_way(now.fd, &to, &link);
	return sock_connect_to(to, link);
}

/* One of the peer waits to be accepted: epoll is a name for its file here. */
static bool before_sock_accept(void)
{
	struct weft_sock_listen l = {
		.size = sizeof(l), .service = wt_service(), .backlog = 4,
	};
	struct weft_sock_connect c = { .size = sizeof(c), .service = l.service };
	struct pollfd p = { .events = POLLIN };
	long r;

	now.listener = wt_open(0, 0);
	now.epoll = wt_open(1, O_NONBLOCK);
	if (wt_ioctl(now.listener, WEFT_SOCK_LISTEN, &l))
		return false;
	wt_way(now.epoll, &c.peer, &c.link);
	r = wt_ioctl(now.epoll, WEFT_SOCK_CONNECT, &c);
	p.fd = now.listener;
	return r == -EINPROGRESS && poll(&p, 1, NTH_READY_MS) == 1 && open_first();
}

static long sock_accept(void)
{
	struct weft_sock_accept a = { .size = sizeof(a), .listen_fd = now.listener };

	return wt_ioctl(now.fd, WEFT_SOCK_ACCEPT, &a);
}

static bool before_sock_calls(void)
{
	return before_sock_accept() && !sock_accept();
}

static long sock_calls(void)
{
	struct weft_sock_info i = { .size = sizeof(i) };
	struct weft_sock_shutdown s = { .size = sizeof(s), .how = WEFT_SHUT_SEND };
	long r = wt_ioctl(now.fd, WEFT_SOCK_INFO, &i);

	if (r)
		return r;
	if (write(now.fd, &i, sizeof(i)) < 0)
		return -errno;
	return wt_ioctl(now.fd, WEFT_SOCK_SHUTDOWN, &s);
}

/* What was forgotten is found by the room of the arena, when the peer has confirmed. */
static bool after_sock(void)
{
	close_one(&now.listener);
	close_one(&now.epoll);
	return close_first();
}

/* ---- channels --------------------------------------------------------- */

void nth_unpair(void)
{
	if (now.paired) {
		wt_close(&now.a);
		wt_close(&now.b);
	}
	now.paired = false;
}

/* One channel serves many operations. */
static bool pair(void)
{
	if (!now.paired)
		now.paired = wt_pair(&now.a, &now.b, CELLS, BULK);
	return now.paired;
}

static long chan_info(void)
{
	struct weft_chan_info i = { .size = sizeof(i) };

	return wt_ioctl(now.a.fd, WEFT_CHAN_INFO, &i);
}

static long chan_kick(void)
{
	struct weft_chan_kick k = { .size = sizeof(k) };

	return wt_ioctl(now.a.fd, WEFT_CHAN_KICK, &k);
}

static bool before_epoll(void)
{
	now.epoll = epoll_create1(EPOLL_CLOEXEC);
	return now.epoll >= 0 && pair();
}

static long epoll_add(void)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(now.epoll, EPOLL_CTL_ADD, now.a.fd, &e) ? -errno : 0;
}

static bool after_epoll(void)
{
	close_one(&now.epoll);
	return true;
}

/* Mapped anew, so that every page has to be put in place. */
static long map_and_touch(void)
{
	struct wt_chan again;
	uint64_t sum = 0;
	bool mapped = wt_map(&again, now.a.fd);
	long r = mapped ? 0 : -errno;

	for (uint64_t at = 0; mapped && at < again.info.area_bytes; at += WT_PAGE) {
		sum += again.area[at];
		again.window[at + 64] = 0;
	}
	if (mapped) {
		sum += again.status->state;
		again.user->credit_wanted = sum & 0;
		if (again.kick)
			*again.kick = again.info.kick_value;
	}
	wt_unmap(&again);
	return r;
}

static long close_channel(void)
{
	wt_close(&now.a);
	return 0;
}

static bool after_close(void)
{
	nth_unpair();
	return true;
}

/* What a file of a port that has gone still shows must be harmless. */
static bool touch_gone(void)
{
	uint64_t sum = 0;

	for (uint64_t at = 0; at < now.a.info.area_bytes; at += WT_PAGE) {
		sum += now.a.area[at];
		now.a.window[at] = sum & 0;
	}
	return now.a.status->state == WEFT_CHAN_BROKEN;
}

static long unbind_under(void)
{
	return wt_write(WT_DRIVER "unbind", nth_port[0]);
}

static bool after_unbind(void)
{
	bool harmless = touch_gone();

	nth_unpair();
	return harmless && nth_all_ready();
}

static long reset_port(void)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", nth_port[0]);
	return wt_write(path, "1");
}

static bool after_reset(void)
{
	nth_unpair();
	return wt_wait_ready(NTH_READY_MS);
}

/* ---- a link to itself -------------------------------------------------- */

/* The first connection makes it. */
static long connect_to_itself(void)
{
	return sock_connect_to(wt_port_info(now.fd).hwid, WEFT_ANY_LINK);
}

static bool after_itself(void)
{
	return close_first() && nth_unbind(0) && nth_all_ready();
}

const struct operation nth_calls[] = {
	{ "open", NULL, nth_nothing, open_port, close_first, 3, NTH_USUAL },
	{ "WEFT_PORT_INFO", NULL, open_first, port_info, close_first, 3, NTH_USUAL },
	{ "WEFT_LINK_INFO", NULL, open_first, link_info, close_first, 3, NTH_USUAL },
	{ "WEFT_CHAN_LISTEN", NULL, open_first, listen_first, close_first, 3, NTH_USUAL },
	{ "WEFT_CHAN_CONNECT", NULL, before_connect, connect_now, after_connect, 5, NTH_USUAL },
	{ "WEFT_CHAN_ACCEPT", NULL, before_accept, accept_now, after_accept, 3,
	  { ENOMEM, EFAULT, ECONNABORTED } },
	/* Messages are acted upon in a work item of the link. */
	{ "being connected to", "kworker/u", before_connect_to, connect_now, after_connect, 4,
	  { ENOBUFS, ECONNREFUSED, ETIMEDOUT } },
	{ "WEFT_SOCK_LISTEN", NULL, open_first, sock_listen, close_first, 3, NTH_USUAL },
	{ "WEFT_SOCK_CONNECT", NULL, before_sock_connect, sock_connect, close_first, 4, NTH_USUAL },
	{ "WEFT_SOCK_ACCEPT", NULL, before_sock_accept, sock_accept, after_sock, 4, NTH_USUAL },
	/* After a failure it is another socket, which has not been shut down. */
	{ "sockets: info, write, shutdown", NULL, before_sock_calls, sock_calls, after_sock, 4,
	  NTH_USUAL },
	{ "sockets: a link of a port to itself", NULL, before_sock_connect, connect_to_itself,
	  after_itself, 10, NTH_USUAL },
	{ "WEFT_CHAN_INFO", NULL, pair, chan_info, nth_nothing, 3, NTH_USUAL },
	{ "WEFT_CHAN_KICK", NULL, pair, chan_kick, nth_nothing, 2, NTH_USUAL },
	{ "WEFT_PD_ALLOC", NULL, open_first, pd_alloc, close_first, 3, NTH_USUAL },
	{ "WEFT_MR_REG", NULL, open_with_pd, mr_reg, close_with_pd, 8, NTH_USUAL },
	{ "WEFT_MW_ALLOC", NULL, open_with_pd, mw_alloc, close_with_pd, 4, NTH_USUAL },
	{ "WEFT_DESTROY", NULL, open_with_mr, destroy, close_with_pd, 1, NTH_USUAL },
	{ "WEFT_CQ_WAIT", NULL, open_with_cq, cq_wait, close_with_pd, 1, NTH_USUAL },
	{ "epoll_ctl", NULL, before_epoll, epoll_add, after_epoll, 1, NTH_USUAL },
	{ "mmap and its pages", NULL, pair, map_and_touch, nth_nothing, 3, NTH_USUAL },
	{ "close", NULL, pair, close_channel, after_close, 0, {} },
	{ "unbind under a channel", NULL, pair, unbind_under, after_unbind, 1, {} },
	{ "reset under a channel", NULL, pair, reset_port, after_reset, 0, {} },
	{}
};
