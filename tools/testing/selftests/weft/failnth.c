// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation of the driver is failed in turn, and every copy from and to
 * a user: the first of an operation, then the second, until one run of it asks
 * for no more. After each failure the error is a sensible one, and the same
 * operation succeeds at once. What was forgotten on the way is found by what
 * is left when the driver goes, and by kmemleak.
 *
 * Skipped on kernels without fault injection. Arguments choose operations: those
 * with such a word in the name. With WEFT_NTH=k/m each m-th allocation is failed,
 * beginning with the k-th: m runs, which may take place at the same time, do what
 * one does without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest.h"
#include "inject.h"
#include "weft_test.h"

/* No operation asks for as much. */
#define MAX_NTH		5000
#define READY_MS	30000
#define CELLS		16
#define MOST_TASKS	64
/* New worker threads in a row, at the most, before they are taken for a fault. */
#define MOST_CHANGES	16
#define BULK		4096

static const char *module_path;
static char pci_name[2][32];
static unsigned int first = 1, step = 1;

/* What operations work with. */
static struct {
	int fd, listener, epoll;
	uint32_t pd, object;
	struct wt_chan a, b;
	bool paired;
} now = { .fd = -1, .listener = -1, .epoll = -1 };

/*
 * @run is what is failed, in the calling thread or in those with @threads in their
 * name; it returns 0 or a negative errno. @prepare and @undo run without failures.
 */
struct operation {
	const char *name;
	const char *threads;
	bool (*prepare)(void);
	long (*run)(void);
	bool (*undo)(void);
	/* The least it asks for: with less, the wrong things were counted. */
	unsigned int least;
	/* What it may end with, the end of the list is 0: nothing at all. */
	int errors[8];
};

/* ---- the module ------------------------------------------------------- */

static bool loaded(void)
{
	return !access("/sys/module/weft", F_OK);
}

/* With arenas that are quick to make, and that can still be had smaller. */
#define SMALL "arena_kib=512"

static long load_with(const char *parameters)
{
	int fd = open(module_path, O_RDONLY | O_CLOEXEC);
	long r = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;

	close(fd);
	return r;
}

static long load(void)
{
	return load_with(SMALL);
}

static bool unload(void)
{
	return !loaded() || !syscall(SYS_delete_module, "weft", O_NONBLOCK);
}

static bool mentions(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[512];
	bool found = false;

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, word)) {
			ksft_print_msg("left in %s: %s", path, line);
			found = true;
		}
	if (file)
		fclose(file);
	return found;
}

/* Nothing of a port is there. */
static bool nothing_left(void)
{
	bool left = false;

	for (unsigned int port = 0; port < 2; port++) {
		char path[64];

		snprintf(path, sizeof(path), "/dev/weft%u", port);
		if (!access(path, F_OK)) {
			ksft_print_msg("left: %s\n", path);
			left = true;
		}
	}
	left |= mentions("/proc/interrupts", "weft-");
	left |= mentions("/proc/iomem", ": weft");
	/* A module that is loaded lies there itself, by another name. */
	left |= mentions("/proc/vmallocinfo", "[weft]");
	return !left;
}

static bool autoprobe(bool on)
{
	return !wt_write("/sys/bus/pci/drivers_autoprobe", on ? "1" : "0");
}

static bool before_load(void)
{
	return unload() && autoprobe(false);
}

static bool after_load(void)
{
	return autoprobe(true) && unload() && nothing_left();
}

/* ---- a port ----------------------------------------------------------- */

static bool bound(unsigned int port)
{
	char path[96];

	snprintf(path, sizeof(path), WT_DRIVER "%s", pci_name[port]);
	return !access(path, F_OK);
}

static bool unbind(unsigned int port)
{
	return !bound(port) || !wt_write(WT_DRIVER "unbind", pci_name[port]);
}

static bool bind(unsigned int port)
{
	return bound(port) || !wt_write(WT_DRIVER "bind", pci_name[port]);
}

static bool before_bind(void)
{
	return (loaded() || !load()) && unbind(0) && unbind(1);
}

static long bind_first(void)
{
	return wt_write(WT_DRIVER "bind", pci_name[0]);
}

static bool after_bind(void)
{
	return unbind(0) && nothing_left();
}

static bool all_ready(void)
{
	return (loaded() || !load()) && bind(0) && bind(1) && wt_wait_ready(READY_MS);
}

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

static bool nothing(void)
{
	return true;
}

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
	return poll(&p, 1, READY_MS) == 1;
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
static long sock_connect(void)
{
	struct weft_sock_connect c = { .size = sizeof(c), .service = wt_service() };
	long r;

	wt_way(now.fd, &c.peer, &c.link);
	r = wt_ioctl(now.fd, WEFT_SOCK_CONNECT, &c);
	return r == -EINPROGRESS || r == -ECONNREFUSED ? 0 : r;
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
	return r == -EINPROGRESS && poll(&p, 1, READY_MS) == 1 && open_first();
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

static void unpair(void)
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
	unpair();
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
	return wt_write(WT_DRIVER "unbind", pci_name[0]);
}

static bool after_unbind(void)
{
	bool harmless = touch_gone();

	unpair();
	return harmless && all_ready();
}

static long reset_port(void)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", pci_name[0]);
	return wt_write(path, "1");
}

static bool after_reset(void)
{
	unpair();
	return wt_wait_ready(READY_MS);
}

/* ---- one after the other ---------------------------------------------- */

#define USUAL { ENOMEM, EFAULT }

static const struct operation unloaded[] = {
	/* EINVAL: module_add_driver() could not make a directory. */
	{ "load", NULL, before_load, load, after_load, 3, { ENOMEM, EINVAL } },
	/* EBUSY: a BAR could not be reserved; ENODEV, ENOSPC: vectors could not be set up. */
	{ "bind", NULL, before_bind, bind_first, after_bind, 30,
	  { ENOMEM, EBUSY, ENODEV, ENOSPC } },
};

static const struct operation operations[] = {
	{ "open", NULL, nothing, open_port, close_first, 3, USUAL },
	{ "WEFT_PORT_INFO", NULL, open_first, port_info, close_first, 3, USUAL },
	{ "WEFT_LINK_INFO", NULL, open_first, link_info, close_first, 3, USUAL },
	{ "WEFT_CHAN_LISTEN", NULL, open_first, listen_first, close_first, 3, USUAL },
	{ "WEFT_CHAN_CONNECT", NULL, before_connect, connect_now, after_connect, 5, USUAL },
	{ "WEFT_CHAN_ACCEPT", NULL, before_accept, accept_now, after_accept, 3,
	  { ENOMEM, EFAULT, ECONNABORTED } },
	/* Messages are acted upon in a work item of the link. */
	{ "being connected to", "kworker/u", before_connect_to, connect_now, after_connect, 4,
	  { ENOBUFS, ECONNREFUSED, ETIMEDOUT } },
	{ "WEFT_SOCK_LISTEN", NULL, open_first, sock_listen, close_first, 3, USUAL },
	{ "WEFT_SOCK_CONNECT", NULL, before_sock_connect, sock_connect, close_first, 4, USUAL },
	{ "WEFT_SOCK_ACCEPT", NULL, before_sock_accept, sock_accept, after_sock, 4, USUAL },
	/* After a failure it is another socket, which has not been shut down. */
	{ "sockets: info, write, shutdown", NULL, before_sock_calls, sock_calls, after_sock, 4,
	  USUAL },
	{ "WEFT_CHAN_INFO", NULL, pair, chan_info, nothing, 3, USUAL },
	{ "WEFT_CHAN_KICK", NULL, pair, chan_kick, nothing, 2, USUAL },
	{ "WEFT_PD_ALLOC", NULL, open_first, pd_alloc, close_first, 3, USUAL },
	{ "WEFT_MR_REG", NULL, open_with_pd, mr_reg, close_with_pd, 8, USUAL },
	{ "WEFT_MW_ALLOC", NULL, open_with_pd, mw_alloc, close_with_pd, 4, USUAL },
	{ "WEFT_DESTROY", NULL, open_with_mr, destroy, close_with_pd, 1, USUAL },
	{ "WEFT_CQ_WAIT", NULL, open_with_cq, cq_wait, close_with_pd, 1, USUAL },
	{ "epoll_ctl", NULL, before_epoll, epoll_add, after_epoll, 1, USUAL },
	{ "mmap and its pages", NULL, pair, map_and_touch, nothing, 3, USUAL },
	{ "close", NULL, pair, close_channel, after_close, 0, {} },
	{ "unbind under a channel", NULL, pair, unbind_under, after_unbind, 1, {} },
	{ "reset under a channel", NULL, pair, reset_port, after_reset, 0, {} },
};

static bool expected(const struct operation *op, long r)
{
	for (size_t i = 0; i < ARRAY_SIZE(op->errors); i++)
		if (op->errors[i] && r == -op->errors[i])
			return true;
	return !r;
}

/* The tasks in which an operation may fail. */
struct tasks {
	pid_t id[MOST_TASKS];
	int fail_nth[MOST_TASKS];
	size_t count;
};

/* Those of @op: false if they cannot be found, or are too many. */
static bool tasks_of(const struct operation *op, struct tasks *tasks)
{
	tasks->id[0] = gettid();
	tasks->count = op->threads ? inject_find(op->threads, tasks->id, MOST_TASKS) : 1;
	return tasks->count && tasks->count <= MOST_TASKS;
}

static bool same_tasks(const struct tasks *a, const struct tasks *b)
{
	return a->count == b->count && !memcmp(a->id, b->id, a->count * sizeof(*a->id));
}

static bool arm(struct tasks *tasks, unsigned int nth)
{
	for (size_t i = 0; i < tasks->count; i++) {
		int fd = inject_open(tasks->id[i]);

		tasks->fail_nth[i] = fd;
		/* A worker thread may have ended. */
		if (fd != -ENOENT && (fd < 0 || !inject_arm(fd, nth)))
			return false;
	}
	return true;
}

/* As inject_disarm(), of all of them: whether any has failed. */
static int disarm(struct tasks *tasks)
{
	int any = 0;

	for (size_t i = 0; i < tasks->count; i++) {
		int fd = tasks->fail_nth[i], fired = fd < 0 ? 0 : inject_disarm(fd);

		if (fd >= 0)
			close(fd);
		if (fired < 0 && fired != -ESRCH)
			return fired;
		any |= fired == 1;
	}
	return any;
}

/*
 * Whether it is to be done without a failure after the @nth was failed: the run with the next one
 * failed does most of it anyway, and an operation can ask for hundreds.
 */
static bool to_be_confirmed(unsigned int nth)
{
	return nth <= 32 || nth % 16 == 0;
}

/* Fails each thing that @op asks for, or each of them that is for this run. */
static bool fail_each(const struct operation *op)
{
	unsigned int nth, refused = 0, changes = 0;
	struct tasks tasks, then;

	for (nth = first; nth <= MAX_NTH; nth += step) {
		int fired;
		long r;

		if (!op->prepare()) {
			ksft_print_msg("%s: cannot be prepared, %u\n", op->name, nth);
			return false;
		}
		/* Which threads there are changes. */
		if (!tasks_of(op, &tasks) || !arm(&tasks, nth)) {
			ksft_print_msg("%s: fail-nth: %s\n", op->name, strerror(errno));
			return false;
		}
		r = op->run();
		fired = disarm(&tasks);
		if (!op->undo()) {
			ksft_print_msg("%s: cannot be undone, %u ended with %ld\n",
				       op->name, nth, r);
			return false;
		}
		if (fired < 0 || (!fired && r) || !expected(op, r)) {
			ksft_print_msg("%s: %u ended with %ld (%s), failed: %d\n", op->name, nth,
				       r, strerror(-r), fired);
			return false;
		}
		if (!fired && op->threads && tasks_of(op, &then) && !same_tasks(&tasks, &then)) {
			/* A worker thread that has come since may have done it. */
			if (++changes > MOST_CHANGES) {
				ksft_print_msg("%s: new threads come all the time\n", op->name);
				return false;
			}
			nth -= step;
			continue;
		}
		if (!fired)
			break;
		changes = 0;
		refused += r != 0;
		if (!to_be_confirmed(nth))
			continue;
		/* Nothing stands in the way of the next one. */
		r = op->prepare() ? op->run() : -EIO;
		if (!op->undo() || r) {
			ksft_print_msg("%s: after %u was failed: %s\n",
				       op->name, nth, strerror(-r));
			return false;
		}
	}
	ksft_print_msg("%s: %u were failed, of which %u made it fail\n",
		       op->name, (nth - first) / step, refused);
	return nth <= MAX_NTH && nth > op->least;
}

/* Whether one of the words of the command line, if there are any, is in the name. */
static bool wanted(const char *name, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

static void run_all(const struct operation *ops, size_t count, char **words)
{
	for (size_t i = 0; i < count; i++) {
		if (!wanted(ops[i].name, words)) {
			ksft_test_result_skip("%s\n", ops[i].name);
			continue;
		}
		ksft_test_result(fail_each(&ops[i]), "%s, everything it asks for failed in turn\n",
				 ops[i].name);
	}
}

int main(int argc, char **argv)
{
	const char *lacks = inject_lacks(), *part = getenv("WEFT_NTH");
	bool known = true;

	ksft_print_header();
	if (lacks)
		ksft_exit_skip("%s\n", lacks);
	module_path = getenv("WEFT_KO");
	if (!module_path || access(module_path, R_OK))
		ksft_exit_skip("WEFT_KO does not name weft.ko\n");
	if (part && (sscanf(part, "%u/%u", &first, &step) != 2 || !first || first > step))
		ksft_exit_fail_msg("WEFT_NTH=%s: k/m is meant, with k from 1 to m\n", part);
	ksft_set_plan(ARRAY_SIZE(unloaded) + ARRAY_SIZE(operations) + 2);

	for (unsigned int port = 0; port < 2; port++)
		known &= wt_pci_name(port, pci_name[port], sizeof(pci_name[port]));
	if (!known || !inject_in_modules())
		ksft_exit_fail_msg("two ports and fault injection are needed\n");

	run_all(unloaded, ARRAY_SIZE(unloaded), argv + !!argc);
	ksft_test_result(all_ready(), "the links come up\n");
	run_all(operations, ARRAY_SIZE(operations), argv + !!argc);
	unpair();
	inject_reset();
	ksft_test_result(unload() && nothing_left() && !load_with("") && all_ready(),
			 "the module goes and comes back\n");
	ksft_finished();
}
